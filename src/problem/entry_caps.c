/* Entry caps P_ij <= c_ij: their validation, and those of one head. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "problem/check.h"

bool ota_has_entry_caps(const ota_problem *problem) {
    return problem->entry_cap > 0.0 || ota_array_present(&problem->entry_caps);
}

ota_entry_caps ota_entry_caps_of(const ota_resolved *r, int64_t batch, int64_t head) {
    const ota_problem *p = &r->problem;
    return (ota_entry_caps){.cap = p->entry_cap > 0.0 ? p->entry_cap : INFINITY,
                            .array = ota_array_present(&p->entry_caps) ? &p->entry_caps : NULL,
                            .batch = batch,
                            .head = head};
}

static ota_status refuse(const char *what, const char *hint, ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, "entry_cap", hint, "entry caps with %s are refused",
                    what);
}

/* Which cells can carry caps: the rows' weights must come from potentials, by a solver that asks the row for them. */
static ota_status check_cell(const ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    const ota_settings *s = &r->settings;
    if (p->regulariser == OTA_CUSTOM)
        return refuse("a custom regulariser", "let its weight function end at the cap", error);
    if (p->rows == OTA_ROWS_RELAXED) return refuse("relaxed rows", "use hard rows", error);
    if (p->axis != OTA_AXIS_ROWS) return refuse("the columns axis", "use the rows axis", error);
    if (s->prune) return refuse("prune", "leave prune out", error);
    if (p->columns == OTA_COLUMNS_FREE) return OTA_OK;
    if (p->columns == OTA_COLUMNS_ELASTIC)
        return ota_fail(error, OTA_UNSUPPORTED, "entry_cap", "use exact or relaxed columns",
                        "entry caps with elastic columns are refused: their update multiplies a "
                        "column to move its sum, and weights at their caps do not follow");
    if (s->stop.fixed || p->start != OTA_SIDE_ROWS || p->end != OTA_SIDE_ROWS)
        return refuse("a fixed number of rounds", "give a tolerance", error);
    return OTA_OK;
}

static ota_status check_array(const ota_resolved *r, ota_error *error) {
    const ota_array *caps = &r->problem.entry_caps;
    const int64_t want[4] = {r->batch, r->heads, r->queries, r->keys};
    if (caps->type != OTA_F64 && caps->type != OTA_F32)
        return ota_wrong_type("entry_caps", caps->type, "f64 or f32", error);
    TRY(ota_check_array(caps, "entry_caps", error));
    for (int k = 0; k < 4; k++) {
        if (caps->size[k] == want[k] || caps->size[k] == 1) continue;
        return ota_fail(
            error, OTA_EINVAL, "entry_caps", "let every size be that of the problem, or 1",
            "entry_caps has size %" PRId64 " in dimension %d where %" PRId64 " or 1 is needed",
            caps->size[k], k, want[k]);
    }
    for (int64_t b = 0; b < caps->size[0]; b++) {
        for (int64_t h = 0; h < caps->size[1]; h++) {
            for (int64_t i = 0; i < caps->size[2]; i++) {
                for (int64_t j = 0; j < caps->size[3]; j++) {
                    const double cap = ota_array_get(caps, b, h, i, j);
                    if (cap > 0.0) continue;
                    return ota_fail(error, OTA_EINVAL, "entry_caps",
                                    "use caps above 0, and a support for pairs without weight",
                                    "entry_caps is %g at [%" PRId64 ", %" PRId64 ", %" PRId64
                                    ", %" PRId64 "]",
                                    cap, b, h, i, j);
                }
            }
        }
    }
    return OTA_OK;
}

ota_status ota_resolve_entry_caps(ota_resolved *r, ota_error *error) {
    ota_problem *p = &r->problem;
    if (p->entry_cap >= INFINITY) p->entry_cap = 0.0;
    if (!ota_has_entry_caps(p)) return OTA_OK;
    if (p->entry_cap > 0.0 && ota_array_present(&p->entry_caps))
        return ota_fail(error, OTA_EINVAL, "entry_caps", "give one of both",
                        "entry_cap is %g and entry_caps are given too", p->entry_cap);
    TRY(check_cell(r, error));
    return ota_array_present(&p->entry_caps) ? check_array(r, error) : OTA_OK;
}
