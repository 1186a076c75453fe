/* Table rows of the solvers that treat each row alone (rows.c does the work). */
#include "solver.h"

static const char *needs(const ota_resolved *r, double order_low, double order_high,
                         ota_column_rule columns) {
    const ota_column_rule rule = r->problem.columns;
    const bool still = rule == OTA_COLUMNS_ELASTIC && !(r->problem.lambda > 0.0) &&
                       !ota_array_present(&r->problem.lambdas);
    /* No column update ever happens, or none that changes anything. */
    const bool untouched = r->settings.fixed && (r->settings.rounds == 0 || still) &&
                           r->problem.rows == OTA_ROWS_HARD && r->problem.start == OTA_SIDE_ROWS &&
                           rule != OTA_COLUMNS_PREFIX && rule != OTA_COLUMNS_ONLINE;
    if (r->order < order_low || r->order > order_high) return "it belongs to another regulariser";
    if (rule != columns && !untouched) return "it does not know this column rule";
    return NULL;
}

static const char *softmax_refuses(const ota_resolved *r) {
    return needs(r, 1.0, 1.0, OTA_COLUMNS_FREE);
}

static const char *entmax_refuses(const ota_resolved *r) {
    return r->order > 1.0 && r->problem.regulariser != OTA_CUSTOM
               ? needs(r, r->order, r->order, OTA_COLUMNS_FREE)
               : "it belongs to another regulariser";
}

static const char *custom_refuses(const ota_resolved *r) {
    return r->problem.regulariser == OTA_CUSTOM ? NULL : "it belongs to another regulariser";
}

static const char *argmax_refuses(const ota_resolved *r) {
    return needs(r, 0.0, 0.0, OTA_COLUMNS_FREE);
}

static const char *online_refuses(const ota_resolved *r) {
    return r->problem.columns == OTA_COLUMNS_ONLINE ? NULL : "it solves online columns only";
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
