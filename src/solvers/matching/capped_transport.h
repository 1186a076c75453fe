/* capped_transport.h: hard plans of capped entries (capped_transport.c). */
#ifndef OTA_CAPPED_TRANSPORT_H
#define OTA_CAPPED_TRANSPORT_H

#include "base/base.h"
#include "problem/problem.h"

typedef struct ota_capped_transport {
    int64_t n, m;
    const void *scores; /* [n][stride] f32 or f64, -inf = forbidden */
    int64_t stride;
    bool narrow;
    bool flat;             /* scores that are not -inf count as 0: is there any plan? */
    const double *mu, *nu; /* [n], [m] */
    bool exact; /* keys are filled, less what the sink takes; else nu is the most that they take */
    double floor;     /* not exact: every key takes floor nu_j at least, 0 <= floor < 1 */
    double sink;      /* -inf: none */
    double tolerance; /* totals that differ by less, relative, are equal */
    const ota_entry_caps *caps;
    ota_watch watch;
    double *plan; /* out [n][plan_stride] */
    int64_t plan_stride;
    double *f, *g; /* out [n], [m] */
    int64_t paths; /* out: how many were shipped along */
} ota_capped_transport;

size_t ota_capped_transport_workspace(int64_t n, int64_t m);
/* OTA_OK, OTA_INFEASIBLE, OTA_NONFINITE, or what the watch said. */
ota_status ota_capped_transport_solve(ota_capped_transport *problem, void *workspace);

#endif
