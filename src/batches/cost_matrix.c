/* cost_matrix.c: one matrix of costs, checked and copied. */
#include "cost_matrix.h"

#include <math.h>
#include <stdlib.h>

#include "assignment_search.h"

/* False: NaN, or an infinity that nothing can cost. */
static bool copy(ota_cost_matrix *matrix, ota_watch *watch) {
    /* Copies, which what is written may not change. */
    const ota_cost_view view = matrix->view;
    const int64_t columns = matrix->columns;
    bool fine = true;
    for (int64_t i = 0; i < view.rows && !ota_watch_ends(watch, view.columns); i++) {
        double *to = matrix->cost + i * columns;
        for (int64_t j = 0; j < view.columns; j++) {
            const double cost = view.sign * ota_cost_of(&view, i, j);
            to[j] = cost < view.limit ? cost : (double)INFINITY;
            fine &= cost > -INFINITY;
        }
        for (int64_t j = view.columns; j < columns; j++)
            to[j] = j - view.columns == i ? view.limit : (double)INFINITY;
    }
    return fine;
}

ota_status ota_cost_matrix_take(ota_cost_matrix *matrix, const ota_assignments *batch, int64_t p,
                                bool widened, ota_error *error) {
    *matrix = (ota_cost_matrix){
        .view = ota_assignments_view(batch, p),
        .settings = {.calls.cancel = batch->cancel, .limits.deadline_ns = batch->deadline_ns}};
    matrix->tall = matrix->view.rows > matrix->view.columns;
    if (matrix->tall) matrix->view = ota_cost_view_transposed(&matrix->view);
    const int64_t rows = matrix->view.rows;
    matrix->columns = matrix->view.columns + (widened && batch->limited ? rows : 0);
    const size_t pairs = (size_t)rows * (size_t)matrix->columns;
    matrix->cost = malloc((pairs > 0 ? pairs : 1) * sizeof(double));
    if (matrix->cost == NULL)
        return ota_fail(error, OTA_ENOMEM, "rows", "", "no memory for a copy of the costs");
    ota_watch watch = ota_watch_of(&matrix->settings);
    const bool fine = copy(matrix, &watch);
    const ota_status going = ota_watch_ask(&watch);
    if (going != OTA_OK) return ota_fail(error, going, "", "", "%s", ota_status_text(going));
    if (fine) return OTA_OK;
    return ota_fail(error, OTA_NONFINITE, "costs", "forbid a pair by an infinity of the other sign",
                    "costs holds NaN or %s", batch->maximize ? "inf" : "-inf");
}

int64_t ota_cost_matrix_pairs(const ota_cost_matrix *matrix, int64_t columns,
                              const int32_t *column_of, int32_t *row_of, int64_t *pair_row,
                              int64_t *pair_column) {
    const ota_cost_view *view = &matrix->view;
    const int64_t side = matrix->tall ? view->columns : view->rows;
    const int64_t most = matrix->tall ? view->rows : view->columns;
    for (int64_t j = 0; j < columns; j++) row_of[j] = -1;
    for (int64_t i = 0; i < view->rows; i++) row_of[column_of[i]] = (int32_t)i;
    const int32_t *const other = matrix->tall ? row_of : column_of;
    int64_t pairs = 0;
    for (int64_t i = 0; i < side; i++) {
        if (other[i] < 0 || other[i] >= most) continue;
        if (pair_row != NULL) pair_row[pairs] = i;
        if (pair_column != NULL) pair_column[pairs] = other[i];
        pairs++;
    }
    for (int64_t k = pairs; k < view->rows; k++) {
        if (pair_row != NULL) pair_row[k] = -1;
        if (pair_column != NULL) pair_column[k] = -1;
    }
    return pairs;
}
