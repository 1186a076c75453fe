/* The validation of regularisers: alpha, and the functions of a custom one; fills ota_resolved.order. */
#include <float.h>
#include <math.h>

#include "problem/check.h"
#include "regularisers.h"

/* Neither a proof nor needed for one: what falls or is negative here was given by mistake. */
static ota_status check_custom(const ota_problem *p, ota_error *error) {
    const ota_custom *custom = &p->custom;
    if (p->columns != OTA_COLUMNS_FREE || p->axis != OTA_AXIS_ROWS) {
        return ota_refuse_cell(p->axis != OTA_AXIS_ROWS ? "custom on the columns axis"
                                                        : "custom with coupled columns",
                               "a regulariser of the caller's is solved for rows alone",
                               "use free columns on the rows axis", error);
    }
    if (custom->weight == NULL || custom->slope == NULL) {
        return ota_fail(error, OTA_EINVAL,
                        custom->weight == NULL ? "custom.weight" : "custom.slope",
                        "give both functions", "a custom regulariser lacks its %s",
                        custom->weight == NULL ? "weight" : "slope");
    }
    double before = 0.0, at = -INFINITY;
    for (int k = -400; k <= 400; k++) {
        const double x = 0.001 * k * fabs((double)k);
        const double weight = custom->weight(custom->user, x);
        const double slope = custom->slope(custom->user, x);
        if (!(weight >= before)) {
            return ota_fail(
                error, OTA_EINVAL, "custom.weight",
                "give the inverse of Omega', clipped at 0; Omega must be convex",
                "custom.weight is %g at %g and %g at %g, but it may not fall below 0 or "
                "below itself",
                before, at, weight, x);
        }
        if (!(slope >= 0.0)) {
            return ota_fail(error, OTA_EINVAL, "custom.slope",
                            "give the derivative of custom.weight",
                            "custom.slope is %g at %g, but weights never fall", slope, x);
        }
        before = weight;
        at = x;
    }
    return OTA_OK;
}

ota_status ota_resolve_regulariser(ota_resolved *r, ota_error *error) {
    ota_problem *p = &r->problem;
    /* A learned order may pass through 1. */
    if (p->regulariser == OTA_ENTMAX && p->order >= 1.0 && p->order <= 1.0)
        p->regulariser = OTA_SOFTMAX;
    const ota_regulariser_row *row = ota_regulariser_of(p);
    r->order = row->kind == OTA_ENTMAX ? p->order : row->order;
    return row->kind == OTA_CUSTOM ? check_custom(p, error) : OTA_OK;
}
