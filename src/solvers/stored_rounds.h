/* stored_rounds.h: Sinkhorn rounds of one head on a stored kernel K = exp(S / tau), a fixed number or to a tolerance. The
 * passes over K are the backend's (kernel_round, kernel_emit), the column side is scaling.h, the loop is rounds.h. */
#ifndef OTA_STORED_ROUNDS_H
#define OTA_STORED_ROUNDS_H

#include "rounds.h"
#include "scaling.h"

/* What rounds in f32 leave for those in f64, besides g. */
typedef struct ota_warm_start {
    bool given;
    bool slow;      /* plain rounds */
    int64_t rounds; /* so far */
} ota_warm_start;

/* How the head's rounds may end. */
typedef struct ota_rounds_rule {
    bool named;       /* Sinkhorn was asked for by name: no extrapolation, no other method */
    bool last_resort; /* there is nothing to go on with: rounds are never too slow */
    /* of rounds in f32 */
    struct {
        bool coarse;    /* they only warm up: they certify nothing */
        bool warms;     /* they may stop at their own floor and hand their potentials to f64 */
        bool of_matrix; /* the scores are the caller's: they end when potentials must be absorbed */
    } narrow;
} ota_rounds_rule;

/* Runs the rounds of `head`, from g = start (warm: head->g). MET and RAN leave everything written but the sums of chunks
 * (backend->gather); STOPPED leaves the status in *stopped, WARM leaves g and `from`. `partial`: SPENT still emits. */
ota_outcome ota_stored_rounds_run(ota_head *head, const ota_rounds_rule *rule, bool partial,
                                  ota_warm_start *from, ota_status *stopped);

/* One round: the backend's row update and column sums, which become those of all ranks, and of the first round what it found
 * out. `form` makes the kernel anew. GO_ON; STOPPED: the communicator failed; else why the kernel does not carry the head. */
ota_outcome ota_stored_round(ota_head *head, bool form);

#endif
