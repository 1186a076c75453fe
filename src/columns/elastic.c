/* Elastic columns: a number of damped updates towards exact sums from v = 1, v' = v^(1 - lambda) (nu / c)^lambda, lambda one number
 * or one a key. A point on the way to exact columns, not an optimum. [ELA-09, DER-26] */
#include "problem/check.h"
#include "column_rules.h"

static ota_status check_lambdas(const ota_resolved *r, ota_error *error) {
    const int64_t want[4] = {1, 1, 1, r->keys};
    if (!ota_array_present(&r->problem.lambdas)) return OTA_OK;
    if (r->problem.axis == OTA_AXIS_COLUMNS) {
        return ota_fail(error, OTA_UNSUPPORTED, "lambdas", "use the rows axis or one lambda",
                        "a lambda per key has no meaning on the columns axis");
    }
    return ota_check_vector(&r->problem.lambdas, "lambdas", want, false, 0.0, false,
                            1.9999999999999998, error);
}

static ota_status check(const ota_resolved *r, ota_error *error) {
    static const char why[] =
        "the elastic update multiplies scalings, which only entropy plans have";
    const ota_problem *p = &r->problem;
    TRY(ota_check_number(p->lambda, "lambda", 0.0, false, 2.0, true, error));
    TRY(ota_check_number((double)p->steps, "steps", 0.0, false, 1.0e15, false, error));
    TRY(check_lambdas(r, error));
    if (p->regulariser == OTA_ENTMAX) {
        return ota_refuse_cell("entmax/elastic", why, "use entmax/relaxed or softmax/elastic",
                               error);
    }
    if (p->regulariser == OTA_HARD) {
        return ota_refuse_cell("hard/elastic", why, "use softmax/elastic with a small temperature",
                               error);
    }
    return OTA_OK;
}

static ota_column_step step(const ota_column_parameters *key, double t) {
    (void)t;
    return (ota_column_step){
        .decay = key->lambda, .step = key->lambda, .floor = 1.0, .ceiling = INFINITY};
}

static void by_lambda(const ota_column_parameters *key, double t, double g, double ratio,
                      double share, double by[OTA_RULE_PARAMETERS]) {
    (void)key;
    by[0] = share * (t * ratio - g);
}

static const char *values_wrong(const ota_problem *problem) {
    return problem->lambda >= 0.0 && problem->lambda < 2.0 ? NULL : "0 <= LAMBDA < 2";
}

const ota_column_rule_row ota_columns_elastic = {
    .name = "elastic",
    .parameters = {{"lambda", offsetof(ota_problem, lambda), OTA_D_STRENGTH, 0.5, false},
                   {"steps", offsetof(ota_problem, steps), OTA_DERIVATIVES, 4.0, true}},
    .values_wrong = values_wrong,
    .check = check,
    .coupling = OTA_COUPLING_POTENTIALS,
    .traits = OTA_RULE_EQUALITY | OTA_RULE_DAMPED | OTA_RULE_COUNTED,
    .ceiling = INFINITY,
    .step = step,
    .residual = ota_equality_residual,
    .by_parameter = by_lambda,
};
