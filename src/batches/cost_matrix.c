/* cost_matrix.c: one matrix of costs, checked and copied. */
#include "cost_matrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "assignment_search.h"
#include "problem/check.h"

static ota_status check(const ota_assignments *given, ota_error *error) {
    size_t bytes;
    if (given->rows < 0 || given->columns < 0) {
        return ota_fail(error, OTA_EINVAL, "rows", "sizes are counts",
                        "there are %" PRId64 " rows and %" PRId64 " columns, wanted none below 0",
                        given->rows, given->columns);
    }
    if (given->rows > INT32_MAX - OTA_MATCH_LANES || given->columns > INT32_MAX - OTA_MATCH_LANES ||
        !ota_size_product((const int64_t[]){given->rows, given->columns, sizeof(double)}, 3,
                          &bytes))
        return ota_fail(error, OTA_EOVERFLOW, "rows", "", "the problem is too large");
    if (!ota_is_wide(given->type)) return ota_wrong_type("costs", given->type, "f64 or f32", error);
    if (bytes > 0 && given->costs == NULL)
        return ota_fail(error, OTA_EINVAL, "costs", "give the matrix", "costs is NULL");
    if ((uintptr_t)given->costs % ota_type_bytes(given->type) != 0)
        return ota_fail(error, OTA_EALIGN, "costs", "", "costs is not aligned to its type");
    return OTA_OK;
}

/* False: NaN, or an infinity that nothing can cost. */
static bool copy(ota_cost_matrix *matrix, ota_watch *watch) {
    const ota_cost_view *view = &matrix->view;
    bool fine = true;
    for (int64_t i = 0; i < view->rows && !ota_watch_ends(watch, view->columns); i++) {
        double *to = matrix->cost + i * view->columns;
        for (int64_t j = 0; j < view->columns; j++) {
            to[j] = view->sign * ota_cost_of(view, i, j);
            fine &= to[j] > -INFINITY;
        }
    }
    return fine;
}

ota_status ota_cost_matrix_take(ota_cost_matrix *matrix, const ota_assignments *given,
                                ota_error *error) {
    *matrix = (ota_cost_matrix){
        .settings = {.calls.cancel = given->cancel, .limits.deadline_ns = given->deadline_ns}};
    TRY(check(given, error));
    matrix->view = (ota_cost_view){.costs = given->costs,
                                   .type = given->type,
                                   .rows = given->rows,
                                   .columns = given->columns,
                                   .row_stride = given->row_stride,
                                   .column_stride = given->column_stride,
                                   .sign = given->maximize ? -1.0 : 1.0,
                                   .limit = INFINITY};
    matrix->tall = given->rows > given->columns;
    if (matrix->tall) matrix->view = ota_cost_view_transposed(&matrix->view);
    const size_t pairs = (size_t)given->rows * (size_t)given->columns;
    matrix->cost = malloc((pairs > 0 ? pairs : 1) * sizeof(double));
    if (matrix->cost == NULL)
        return ota_fail(error, OTA_ENOMEM, "rows", "", "no memory for a copy of the costs");
    ota_watch watch = ota_watch_of(&matrix->settings);
    const bool fine = copy(matrix, &watch);
    const ota_status going = ota_watch_ask(&watch);
    if (going != OTA_OK) return ota_fail(error, going, "", "", "%s", ota_status_text(going));
    if (fine) return OTA_OK;
    return ota_fail(error, OTA_NONFINITE, "costs", "forbid a pair by an infinity of the other sign",
                    "costs holds NaN or %s", given->maximize ? "inf" : "-inf");
}

void ota_cost_matrix_pairs(const ota_cost_matrix *matrix, const int32_t *column_of, int32_t *row_of,
                           int64_t *pair_row, int64_t *pair_column) {
    const ota_cost_view *view = &matrix->view;
    const int64_t side = matrix->tall ? view->columns : view->rows;
    for (int64_t j = 0; j < view->columns; j++) row_of[j] = -1;
    for (int64_t i = 0; i < view->rows; i++) row_of[column_of[i]] = (int32_t)i;
    const int32_t *const other = matrix->tall ? row_of : column_of;
    int64_t pair = 0;
    for (int64_t i = 0; i < side; i++) {
        if (other[i] < 0) continue;
        if (pair_row != NULL) pair_row[pair] = i;
        if (pair_column != NULL) pair_column[pair] = other[i];
        pair++;
    }
}
