/* bottleneck.c: a matching whose dearest pair is as cheap as can be (otattn_assignment.h), by paths whose dearest pair is.
 *
 * No matching does without the cheapest pair of a row, or of a column of a square matrix: the dearest of those is where the
 * threshold starts. Rows that find a free column within it are matched at once. For each row left a search like Dijkstra's, with
 * the dearest pair of a path as its length, ends in a free column. Where no column that was not reached is within the
 * threshold, the rows reached have fewer columns than they are: so the threshold rises to the cheapest pair that leads
 * on, and these rows and columns are the proof.
 *
 * With a limit, and where not all rows find a column below it: a matching of as many as can be, whose last searches reach rows and
 * columns that cover the others; then the same once more, with as many further columns as rows are left out, which cost
 * nothing and less than any pair. */
#include <float.h>
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
    if (s->rows == 0) return OTA_OK;
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

static ota_status make(narrowing *s, const double *cost, int64_t rows, int64_t columns) {
    s->cost = cost;
    s->rows = rows;
    s->columns = columns;
    layout(s);
    TRY(ota_arena_allocate(&s->arena));
    layout(s);
    mark_all(s, 0, 0);
    return OTA_OK;
}

/* ---- rows that are left out -------------------------------------------------------------------- */

/* A matching of as many rows as can be, and as marks what is reached from the others. How many these are. */
static ota_status match_most(narrowing *s, ota_watch *watch, int64_t *left_out) {
    s->threshold = DBL_MAX;
    match_at_once(s, watch);
    TRY(ota_watch_ask(watch));
    *left_out = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        if (s->column_of[i] >= 0) continue;
        const ota_status status = augment(s, i, watch);
        if (status != OTA_OK && status != OTA_INFEASIBLE) return status;
        /* A row that found no column never finds one. */
        *left_out += status == OTA_INFEASIBLE;
    }
    mark_all(s, 0, 0);
    for (int64_t i = 0; i < s->rows; i++) {
        if (s->column_of[i] >= 0) continue;
        const ota_status status = augment(s, i, watch);
        if (status != OTA_INFEASIBLE) return status;
        s->row_marked[i] = 1;
        for (int64_t j = 0; j < s->columns; j++) {
            if (s->done[j] == 0) continue;
            s->column_marked[j] = 1;
            s->row_marked[s->row_of[j]] = 1;
        }
    }
    return OTA_OK;
}

/* The costs, and behind them so many columns that cost less than any pair. To be freed. */
static double *widened(const narrowing *s, int64_t more) {
    size_t bytes;
    const int64_t columns = s->columns + more;
    double *cost = ota_size_product((const int64_t[]){s->rows, columns, sizeof(double)}, 3, &bytes)
                       ? malloc(bytes)
                       : NULL;
    for (int64_t i = 0; cost != NULL && i < s->rows; i++) {
        double *to = cost + i * columns;
        memcpy(to, s->cost + i * s->columns, (size_t)s->columns * sizeof(double));
        for (int64_t j = s->columns; j < columns; j++) to[j] = -INFINITY;
    }
    return cost;
}

/* ---- one problem ------------------------------------------------------------------------------- */

/* Outputs of one problem. */
typedef struct outputs {
    int64_t *pair_row, *pair_column, *pairs, *pairs_bound;
    double *value, *bound;
    uint8_t *row_marked, *column_marked, *row_covered, *column_covered;
} outputs;

/* Two vectors of the problem, in its own order. */
static void set_lines(const ota_cost_matrix *matrix, const narrowing *s, int covered, uint8_t *row,
                      uint8_t *column) {
    uint8_t *const shorter = matrix->tall ? column : row, *const longer =
                                                              matrix->tall ? row : column;
    const int64_t rows = matrix->view.rows, columns = matrix->view.columns;
    for (int64_t i = 0; shorter != NULL && i < rows; i++)
        shorter[i] = covered ? !s->row_marked[i] : s->row_marked[i];
    for (int64_t j = 0; longer != NULL && j < columns; j++) longer[j] = s->column_marked[j];
}

/* The lines that cover all pairs below the limit: those that a search for more did not reach, of the shorter side, and those that it
 * did, of the longer one. They are the complement of marks, and so judged. */
static void give_cover(const ota_cost_matrix *matrix, narrowing *s, const outputs *out) {
    set_lines(matrix, s, 1, out->row_covered, out->column_covered);
    if (out->pairs_bound == NULL) return;
    for (int64_t i = 0; i < s->rows; i++) s->row_marked[i] = !s->row_marked[i];
    *out->pairs_bound = ota_cover_bound(&matrix->view, s->row_marked, s->column_marked);
}

static void give(const narrowing *s, const ota_cost_matrix *matrix, int64_t left_out,
                 const outputs *out) {
    const ota_cost_view *view = &matrix->view;
    double value = -INFINITY;
    for (int64_t i = 0; i < s->rows; i++)
        value = fmax(value, s->cost[i * s->columns + s->column_of[i]]);
    const int64_t pairs = ota_cost_matrix_pairs(matrix, s->columns, s->column_of, s->row_of,
                                                out->pair_row, out->pair_column);
    set_lines(matrix, s, 0, out->row_marked, out->column_marked);
    if (out->pairs != NULL) *out->pairs = pairs;
    if (out->value != NULL) *out->value = view->sign * value;
    if (out->bound != NULL)
        *out->bound =
            view->sign * ota_bottleneck_bound(view, s->row_marked, s->column_marked, left_out);
}

/* Leaves out as many rows as must be. */
static ota_status run_leaving_out(narrowing *s, const ota_cost_matrix *matrix, ota_watch *watch,
                                  const outputs *out) {
    int64_t left_out = 0;
    narrowing wide = {0};
    TRY(match_most(s, watch, &left_out));
    give_cover(matrix, s, out);
    double *cost = widened(s, left_out);
    ota_status status = cost == NULL ? OTA_ENOMEM : OTA_OK;
    if (status == OTA_OK) status = make(&wide, cost, s->rows, s->columns + left_out);
    if (status == OTA_OK) status = solve(&wide, watch);
    if (status == OTA_OK) give(&wide, matrix, left_out, out);
    ota_arena_release(&wide.arena);
    free(cost);
    return status;
}

static ota_status run(const ota_cost_matrix *matrix, const outputs *out, ota_error *error) {
    narrowing s = {0};
    const int64_t rows = matrix->view.rows;
    ota_watch watch = ota_watch_of(&matrix->settings);
    ota_status status = make(&s, matrix->cost, rows, matrix->columns);
    if (status == OTA_OK) status = solve(&s, &watch);
    if (status == OTA_OK) {
        give(&s, matrix, 0, out);
        mark_all(&s, 0, 0);
        give_cover(matrix, &s, out);
    } else if (status == OTA_INFEASIBLE && matrix->view.limit < INFINITY) {
        status = run_leaving_out(&s, matrix, &watch, out);
    }
    ota_arena_release(&s.arena);
    if (status == OTA_OK) return OTA_OK;
    if (status == OTA_ENOMEM)
        return ota_fail(error, status, "rows", "", "no memory for the search");
    if (status != OTA_INFEASIBLE)
        return ota_fail(error, status, "", "", "%s", ota_status_text(status));
    return ota_fail(error, status, "costs", "allow more pairs, or give cost_limit",
                    "there are no %" PRId64 " allowed pairs that fit together", rows);
}

/* ---- all problems ------------------------------------------------------------------------------ */

static void give_nothing(const outputs *out, int64_t rows, int64_t columns) {
    for (int64_t k = 0; k < ota_int_min(rows, columns); k++) {
        if (out->pair_row != NULL) out->pair_row[k] = -1;
        if (out->pair_column != NULL) out->pair_column[k] = -1;
    }
    if (out->value != NULL) *out->value = NAN;
    if (out->bound != NULL) *out->bound = NAN;
    if (out->pairs != NULL) *out->pairs = 0;
    if (out->pairs_bound != NULL) *out->pairs_bound = ota_int_min(rows, columns);
    uint8_t *const of_rows[] = {out->row_marked, out->row_covered};
    uint8_t *const of_columns[] = {out->column_marked, out->column_covered};
    for (int k = 0; k < 2; k++) {
        if (of_rows[k] != NULL && rows > 0) memset(of_rows[k], 0, (size_t)rows);
        if (of_columns[k] != NULL && columns > 0) memset(of_columns[k], 0, (size_t)columns);
    }
}

typedef struct job {
    const ota_bottleneck *out;
    const ota_assignments *batch;
} job;

static int64_t *whole(int64_t *first, int64_t at) { return first == NULL ? NULL : first + at; }
static double *number(double *first, int64_t at) { return first == NULL ? NULL : first + at; }
static uint8_t *mark(uint8_t *first, int64_t at) { return first == NULL ? NULL : first + at; }

static ota_status solve_problem(const void *context, int64_t p, const ota_assignments_place *at,
                                ota_error *error) {
    const job *work = context;
    const ota_bottleneck *all = work->out;
    const outputs out = {.pair_row = whole(all->pair_row, at->pair),
                         .pair_column = whole(all->pair_column, at->pair),
                         .pairs = whole(all->pairs, p),
                         .pairs_bound = whole(all->pairs_bound, p),
                         .value = number(all->value, p),
                         .bound = number(all->bound, p),
                         .row_marked = mark(all->row_marked, at->row),
                         .column_marked = mark(all->column_marked, at->column),
                         .row_covered = mark(all->row_covered, at->row),
                         .column_covered = mark(all->column_covered, at->column)};
    ota_cost_matrix matrix;
    ota_status status = ota_cost_matrix_take(&matrix, work->batch, p, false, error);
    if (status == OTA_OK) status = run(&matrix, &out, error);
    if (status != OTA_OK)
        give_nothing(&out, ota_assignments_rows(work->batch, p),
                     ota_assignments_columns(work->batch, p));
    free(matrix.cost);
    return status;
}

ota_status ota_assign_bottleneck(const ota_bottleneck *problem, ota_error *error) {
    enum { PASSES = 8 }; /* over the pairs of a problem, about */
    ota_bottleneck own;
    TRY(ota_check_given(&own, sizeof own, problem, "problem.size", error));
    const ota_assignments batch = OTA_PROBLEMS_OF(own);
    const job work = {.out = &own, .batch = &batch};
    const ota_assignments_job all = {.batch = &batch,
                                     .work = PASSES,
                                     .threads = own.threads,
                                     .executor = own.executor,
                                     .solve = solve_problem,
                                     .context = &work};
    return ota_assignments_each(&all, error);
}
