/* Table rows of the solvers that treat each row alone (a backend's rows do the work). */
#include "solver.h"

static const char *needs(const ota_resolved *r, ota_regulariser regulariser) {
    const ota_column_rule_row *rule = ota_column_rule_of(r->problem.columns);
    const bool still = ota_rule_is(rule, OTA_RULE_DAMPED) && !(r->problem.lambda > 0.0) &&
                       !ota_array_present(&r->problem.lambdas);
    /* No column update ever happens, or none that changes anything. */
    const bool untouched = r->settings.stop.fixed && (r->settings.stop.rounds == 0 || still) &&
                           r->problem.rows == OTA_ROWS_HARD && r->problem.start == OTA_SIDE_ROWS &&
                           rule->coupling == OTA_COUPLING_POTENTIALS;
    if (r->problem.regulariser != regulariser) return "it belongs to another regulariser";
    if (rule->coupling != OTA_COUPLING_NONE && !untouched)
        return "it does not know this column rule";
    return NULL;
}

static const char *softmax_refuses(const ota_resolved *r) { return needs(r, OTA_SOFTMAX); }

static const char *entmax_refuses(const ota_resolved *r) { return needs(r, OTA_ENTMAX); }

static const char *custom_refuses(const ota_resolved *r) {
    return r->problem.regulariser == OTA_CUSTOM ? NULL : "it belongs to another regulariser";
}

static const char *argmax_refuses(const ota_resolved *r) { return needs(r, OTA_HARD); }

static const char *online_refuses(const ota_resolved *r) {
    return ota_column_rule_of(r->problem.columns)->coupling == OTA_COUPLING_ORDERED
               ? NULL
               : "it solves online columns only";
}

const ota_solver ota_solver_softmax = {.name = "softmax",
                                       .purpose = "closed form, running maximum and sum",
                                       .refuses = softmax_refuses};
const ota_solver ota_solver_entmax = {.name = "entmax",
                                      .purpose =
                                          "exact threshold by safeguarded Newton on the p-norm",
                                      .refuses = entmax_refuses};
const ota_solver ota_solver_custom = {.name = "custom",
                                      .purpose = "the caller's weights, shift by Newton's method",
                                      .refuses = custom_refuses};
const ota_solver ota_solver_argmax = {
    .name = "argmax", .purpose = "first largest score", .refuses = argmax_refuses};
const ota_solver ota_solver_online = {.name = "online",
                                      .purpose =
                                          "rows in order, each capped by what earlier rows left",
                                      .refuses = online_refuses};
