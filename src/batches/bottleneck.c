/* bottleneck.c: a matching whose dearest pair is as cheap as can be (otattn_assignment.h), by paths whose dearest pair is.
 *
 * No matching does without the cheapest pair of a row, or of a column of a square matrix: the dearest of those is where the
 * threshold starts. Rows that find a free column within it are matched at once. For each row left a search like Dijkstra's, with
 * the dearest pair of a path as its length, ends in a free column. Where no column that was not reached is within the
 * threshold, the rows reached have fewer columns than they are: so the threshold rises to the cheapest pair that leads
 * on, and these rows and columns are the proof. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost_matrix.h"
#include "problem/check.h"

typedef struct narrowing {
    const double *cost; /* [rows][columns] */
    int64_t rows, columns;
    double threshold;
    ota_arena arena;
    int32_t *column_of, *row_of; /* [rows], [columns]; -1: none */
    double *length;              /* [columns] of the path to it */
    int32_t *before;             /* [columns] the row before it */
    uint8_t *done;               /* [columns] reached for good */
    uint8_t *row_marked, *column_marked;
} narrowing;

static void layout(narrowing *s) {
    const size_t rows = (size_t)s->rows, columns = (size_t)s->columns;
    s->column_of = ota_arena_take(&s->arena, rows, sizeof(int32_t));
    s->row_of = ota_arena_take(&s->arena, columns, sizeof(int32_t));
    s->length = ota_arena_take(&s->arena, columns, sizeof(double));
    s->before = ota_arena_take(&s->arena, columns, sizeof(int32_t));
    s->done = ota_arena_take(&s->arena, columns, 1);
    s->row_marked = ota_arena_take(&s->arena, rows, 1);
    s->column_marked = ota_arena_take(&s->arena, columns, 1);
}

static void mark_all(narrowing *s, uint8_t rows, uint8_t columns) {
    memset(s->row_marked, rows, (size_t)s->rows);
    memset(s->column_marked, columns, (size_t)s->columns);
}

/* The threshold that rows and columns have by themselves. */
static void begin(narrowing *s, ota_watch *watch) {
    const bool square = s->rows == s->columns;
    s->threshold = -INFINITY;
    mark_all(s, 0, 0);
    for (int64_t j = 0; j < s->columns; j++) s->length[j] = INFINITY;
    int64_t where = -1;
    for (int64_t i = 0; i < s->rows && !ota_watch_ends(watch, s->columns); i++) {
        const double *cost = s->cost + i * s->columns;
        double least = INFINITY;
        for (int64_t j = 0; j < s->columns; j++) {
            least = cost[j] < least ? cost[j] : least;
            s->length[j] = cost[j] < s->length[j] ? cost[j] : s->length[j];
        }
        if (!(least > s->threshold)) continue;
        s->threshold = least;
        where = i;
    }
    if (where >= 0) s->row_marked[where] = 1;
    for (int64_t j = 0; square && j < s->columns; j++) {
        if (!(s->length[j] > s->threshold)) continue;
        s->threshold = s->length[j];
        mark_all(s, 1, 1);
        s->column_marked[j] = 0;
    }
}

static void take(narrowing *s, int64_t i, int64_t j) {
    s->column_of[i] = (int32_t)j;
    s->row_of[j] = (int32_t)i;
}

/* Rows that find a free column within the threshold, those about the diagonal first. */
static void match_at_once(narrowing *s, ota_watch *watch) {
    for (int64_t j = 0; j < s->columns; j++) s->row_of[j] = -1;
    for (int64_t i = 0; i < s->rows; i++) {
        const double *cost = s->cost + i * s->columns;
        s->column_of[i] = -1;
        int64_t k = 0, j = i;
        while (k < s->columns && !(s->row_of[j] < 0 && cost[j] <= s->threshold))
            k++, j = j + 1 < s->columns ? j + 1 : 0;
        if (k < s->columns) take(s, i, j);
        if (ota_watch_ends(watch, k)) return;
    }
}

/* The nearest column that is not reached, a free one before others; -1: none can be. */
static int64_t nearest(const narrowing *s) {
    int64_t found = -1;
    double least = INFINITY;
    for (int64_t j = 0; j < s->columns; j++) {
        const double length = s->length[j] > s->threshold ? s->length[j] : s->threshold;
        if (s->done[j] != 0 || !(length < INFINITY)) continue;
        if (length < least || (!(length > least) && s->row_of[j] < 0 && s->row_of[found] >= 0)) {
            least = length;
            found = j;
        }
    }
    return found;
}

/* Rows reached have fewer columns within the old threshold than they are. */
static void raise(narrowing *s, int64_t start, double threshold) {
    s->threshold = threshold;
    mark_all(s, 0, 0);
    s->row_marked[start] = 1;
    for (int64_t j = 0; j < s->columns; j++) {
        s->column_marked[j] = s->done[j];
        if (s->done[j] != 0) s->row_marked[s->row_of[j]] = 1;
    }
}

static void relax(narrowing *s, int64_t i) {
    const double *cost = s->cost + i * s->columns;
    for (int64_t j = 0; j < s->columns; j++) {
        const bool nearer = cost[j] < s->length[j];
        s->length[j] = nearer ? cost[j] : s->length[j];
        s->before[j] = nearer ? (int32_t)i : s->before[j];
    }
}

static ota_status augment(narrowing *s, int64_t start, ota_watch *watch) {
    for (int64_t j = 0; j < s->columns; j++) s->length[j] = INFINITY, s->done[j] = 0;
    relax(s, start);
    int64_t j;
    for (;;) {
        TRY(ota_watch_spend(watch, 2 * s->columns));
        j = nearest(s);
        if (j < 0) return OTA_INFEASIBLE;
        if (s->length[j] > s->threshold) raise(s, start, s->length[j]);
        if (s->row_of[j] < 0) break;
        s->done[j] = 1;
        s->length[j] = -INFINITY;
        relax(s, s->row_of[j]);
    }
    while (j >= 0) {
        const int64_t i = s->before[j], given_up = s->column_of[i];
        take(s, i, j);
        j = i == start ? -1 : given_up;
    }
    return OTA_OK;
}

static ota_status solve(narrowing *s, ota_watch *watch) {
    begin(s, watch);
    TRY(ota_watch_ask(watch));
    if (!(s->threshold < INFINITY)) return OTA_INFEASIBLE;
    match_at_once(s, watch);
    TRY(ota_watch_ask(watch));
    for (int64_t i = 0; i < s->rows; i++) {
        if (s->column_of[i] < 0) TRY(augment(s, i, watch));
    }
    return OTA_OK;
}

static void give(const narrowing *s, const ota_cost_matrix *matrix, const ota_bottleneck *out) {
    const ota_cost_view *view = &matrix->view;
    uint8_t *const row = matrix->tall ? out->column_marked : out->row_marked;
    uint8_t *const column = matrix->tall ? out->row_marked : out->column_marked;
    double value = -INFINITY;
    for (int64_t i = 0; i < s->rows; i++)
        value = fmax(value, s->cost[i * s->columns + s->column_of[i]]);
    ota_cost_matrix_pairs(matrix, s->column_of, s->row_of, out->pair_row, out->pair_column);
    if (row != NULL) memcpy(row, s->row_marked, (size_t)s->rows);
    if (column != NULL) memcpy(column, s->column_marked, (size_t)s->columns);
    if (out->value != NULL) *out->value = view->sign * value;
    if (out->bound != NULL)
        *out->bound = view->sign * ota_bottleneck_bound(view, s->row_marked, s->column_marked);
}

static ota_status run(narrowing *s, const ota_cost_matrix *matrix, ota_error *error) {
    s->cost = matrix->cost;
    s->rows = matrix->view.rows;
    s->columns = matrix->view.columns;
    layout(s);
    ota_status status = ota_arena_allocate(&s->arena);
    if (status != OTA_OK) return ota_fail(error, status, "rows", "", "no memory for the search");
    layout(s);
    ota_watch watch = ota_watch_of(&matrix->settings);
    if (s->rows > 0) status = solve(s, &watch);
    if (status == OTA_INFEASIBLE) {
        return ota_fail(error, status, "costs", "allow more pairs",
                        "there are no %" PRId64 " allowed pairs that fit together", s->rows);
    }
    return status == OTA_OK ? OTA_OK
                            : ota_fail(error, status, "", "", "%s", ota_status_text(status));
}

ota_status ota_assign_bottleneck(const ota_bottleneck *problem, ota_error *error) {
    ota_bottleneck own;
    TRY(ota_check_given(&own, sizeof own, problem, "problem.size", error));
    const ota_assignments given = {.rows = own.rows,
                                   .columns = own.columns,
                                   .costs = own.costs,
                                   .type = own.type,
                                   .row_stride = own.row_stride,
                                   .column_stride = own.column_stride,
                                   .maximize = own.maximize,
                                   .cancel = own.cancel,
                                   .deadline_ns = own.deadline_ns};
    ota_cost_matrix matrix;
    narrowing search = {0};
    ota_status status = ota_cost_matrix_take(&matrix, &given, error);
    if (status == OTA_OK) status = run(&search, &matrix, error);
    if (status == OTA_OK) give(&search, &matrix, &own);
    ota_arena_release(&search.arena);
    free(matrix.cost);
    return status;
}
