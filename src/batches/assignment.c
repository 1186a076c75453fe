/* Assignment problems, many in a call (otattn_assignment.h): small ones over dense matrices in a worker's memory, large ones
 * by the search of the operator. Whatever the way, a worker solves a whole problem, so threads change no bit. */
#include "assignment_search.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/batch_kernels.h"
#include "problem/check.h"
#include "solvers/matching/combinatorial.h"
#include "solvers/matching/assignment_dense.h"

enum { CHUNKS_A_THREAD = 8, CHUNK_MOST = 64 };

/* What the largest problems of a batch need. */
typedef struct needs {
    int64_t rows, columns, pairs; /* of dense searches: shorter side, longer side, padded pairs */
    size_t search, copy;          /* bytes for the operator's search and for costs in its order */
    int64_t sides;                /* longer side of what it searches */
} needs;

struct ota_assigner {
    ota_pool *pool;
    ota_batch_kernels kernels;
    needs has;
    ota_assign_worker *workers;
    int threads;
    int64_t *places;       /* [3][count] where outputs of a ragged batch begin */
    int64_t room;          /* the largest count that places have had */
    ota_settings settings; /* of the call that runs, for the watch */
};

/* ---- the assigner --------------------------------------------------------------------------- */

void ota_assigner_free(ota_assigner *assigner) {
    if (assigner == NULL) return;
    for (int k = 0; assigner->workers != NULL && k < assigner->threads; k++)
        ota_arena_release(&assigner->workers[k].arena);
    ota_pool_free(assigner->pool);
    free(assigner->workers);
    free(assigner->places);
    free(assigner);
}

size_t ota_assigner_bytes(const ota_assigner *assigner) {
    if (assigner == NULL) return 0;
    size_t bytes = sizeof *assigner + (size_t)assigner->threads * sizeof(ota_assign_worker) +
                   3 * (size_t)assigner->room * sizeof(int64_t);
    for (int k = 0; k < assigner->threads; k++) bytes += assigner->workers[k].arena.size;
    return bytes;
}

ota_status ota_assigner_create(ota_assigner **assigner, const ota_options *options,
                               ota_error *error) {
    if (assigner == NULL)
        return ota_fail(error, OTA_EINVAL, "assigner", "give a place for it", "assigner is NULL");
    *assigner = NULL;
    ota_options own = {.size = sizeof own};
    if (options != NULL)
        TRY(ota_check_sized(&own, sizeof own, options, options->size, "options.size", error));
    if (own.threads < 0 || own.threads > OTA_THREADS_MAX) {
        return ota_fail(error, OTA_EINVAL, "threads", "0 takes all processors",
                        "threads is %d, wanted 0 to %d", own.threads, OTA_THREADS_MAX);
    }
    TRY(ota_check_executor(own.executor, error));
    ota_assigner *made = calloc(1, sizeof *made);
    if (made == NULL) return ota_fail(error, OTA_ENOMEM, "", "", "no memory for an assigner");
    if (!ota_batch_kernels_of(own.cpu, &made->kernels)) {
        free(made);
        return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                        "this machine has no level '%s'", own.cpu);
    }
    ota_status status = ota_pool_create(&made->pool, own.threads, own.executor);
    if (status == OTA_OK) {
        made->threads = ota_pool_threads(made->pool);
        made->workers = calloc((size_t)made->threads, sizeof *made->workers);
        if (made->workers == NULL) status = OTA_ENOMEM;
    }
    if (status != OTA_OK) {
        ota_assigner_free(made);
        return ota_fail(error, status, "threads", "ask for fewer", "the threads cannot be had");
    }
    *assigner = made;
    return OTA_OK;
}

static void worker_layout(ota_assign_worker *w, const needs *n) {
    ota_match_layout(&w->match, &w->arena, n->rows, n->columns, n->pairs);
    w->search = ota_arena_take(&w->arena, n->search, 1);
    w->copy = ota_arena_take(&w->arena, n->copy, 1);
    w->match_of = ota_arena_take(&w->arena, (size_t)n->sides, sizeof(int64_t));
    w->f = ota_arena_take(&w->arena, (size_t)n->sides, sizeof(double));
    w->g = ota_arena_take(&w->arena, (size_t)n->sides, sizeof(double));
}

static bool grows(needs *has, const needs *wants) {
    const needs old = *has;
    has->rows = ota_int_max(old.rows, wants->rows);
    has->columns = ota_int_max(old.columns, wants->columns);
    has->pairs = ota_int_max(old.pairs, wants->pairs);
    has->sides = ota_int_max(old.sides, wants->sides);
    has->search = old.search > wants->search ? old.search : wants->search;
    has->copy = old.copy > wants->copy ? old.copy : wants->copy;
    return has->rows > old.rows || has->columns > old.columns || has->pairs > old.pairs ||
           has->sides > old.sides || has->search > old.search || has->copy > old.copy;
}

/* Memory for problems that need so much, in all workers. Where it cannot be had nothing is kept, and the next call makes room again. */
static ota_status make_room(ota_assigner *assigner, const needs *wants, ota_error *error) {
    needs has = assigner->has;
    if (!grows(&has, wants)) return OTA_OK;
    assigner->has = (needs){0};
    for (int k = 0; k < assigner->threads; k++) {
        ota_assign_worker *w = &assigner->workers[k];
        ota_arena_release(&w->arena);
        worker_layout(w, &has);
        const ota_status status = ota_arena_allocate(&w->arena);
        if (status != OTA_OK) {
            return ota_fail(error, status, "", "solve fewer or smaller problems at a time",
                            "no memory for problems of this size");
        }
        worker_layout(w, &has);
    }
    assigner->has = has;
    return OTA_OK;
}

/* ---- the batch ------------------------------------------------------------------------------ */

typedef struct job {
    ota_assigner *assigner;
    const ota_assignments *batch;
    double limit;
    int64_t chunk;
    const int64_t *places; /* of a ragged batch, or NULL */
} job;

static needs needs_of(const ota_cost_view *view) {
    ota_cost_view turned;
    const ota_cost_view *upright = ota_cost_view_upright(view, &turned);
    const int64_t n = upright->rows, m = upright->columns;
    needs found = {0};
    if (n == 0) return found;
    const ota_assign_search search = ota_assign_search_of(upright);
    if (search != OTA_BY_CANDIDATES) {
        found.rows = n, found.columns = m;
        found.pairs = n * ota_int_round_up(m, OTA_MATCH_LANES);
    }
    if (search != OTA_DENSELY) {
        /* With a limit f32 costs are copied in f64, which the limit may need. */
        const bool limited = view->limit < INFINITY;
        const size_t element = limited ? sizeof(double) : ota_type_bytes(view->type);
        const bool copied = ota_cost_is_copied(limited, view->column_stride);
        found.search =
            ota_assignment_workspace(view->rows, view->columns, element == sizeof(float));
        found.copy = copied ? (size_t)view->rows * (size_t)view->columns * element : 0;
        found.sides = m;
    }
    return found;
}

/* Checks every shape, makes room, and finds where outputs of a ragged batch begin. */
static ota_status prepare(job *work, ota_error *error) {
    ota_assigner *assigner = work->assigner;
    const ota_assignments *batch = work->batch;
    const bool ragged = batch->offsets != NULL;
    TRY(ota_assignments_check(batch, error));
    if (batch->bound != NULL && (batch->row_potential == NULL || batch->column_potential == NULL)) {
        return ota_fail(error, OTA_EINVAL, "bound", "ask for both potentials, too",
                        "bound is made of row_potential and column_potential, which are not there");
    }
    needs all = {0};
    for (int64_t p = 0; p < (ragged ? batch->count : ota_int_min(batch->count, 1)); p++) {
        const ota_cost_view view = ota_assignments_view(batch, p);
        const needs own = needs_of(&view);
        if (own.search == SIZE_MAX)
            return ota_fail(error, OTA_EOVERFLOW, "rows", "", "problem %" PRId64 " is too large",
                            p);
        (void)grows(&all, &own);
    }
    TRY(make_room(assigner, &all, error));
    if (!ragged) return OTA_OK;
    if (batch->count > assigner->room) {
        free(assigner->places);
        assigner->room = 0;
        size_t bytes;
        const bool fits =
            ota_size_product((const int64_t[]){batch->count, 3, sizeof(int64_t)}, 3, &bytes);
        assigner->places = fits ? malloc(bytes) : NULL;
        if (assigner->places == NULL)
            return ota_fail(error, OTA_ENOMEM, "count", "", "no memory for a batch of this length");
        assigner->room = batch->count;
    }
    ota_assignments_lay_out(batch, assigner->places);
    work->places = assigner->places;
    return OTA_OK;
}

/* ---- one problem ---------------------------------------------------------------------------- */

static void write_nothing(const job *work, int64_t p, const ota_cost_view *view) {
    const ota_assignments *batch = work->batch;
    const ota_assignments_place at = ota_assignments_place_of(batch, work->places, p);
    const int64_t pairs = ota_int_min(view->rows, view->columns);
    for (int64_t i = 0; i < view->rows; i++) {
        if (batch->column_of != NULL) batch->column_of[at.row + i] = -1;
        if (batch->row_potential != NULL) batch->row_potential[at.row + i] = NAN;
    }
    for (int64_t j = 0; j < view->columns; j++) {
        if (batch->row_of != NULL) batch->row_of[at.column + j] = -1;
        if (batch->column_potential != NULL) batch->column_potential[at.column + j] = NAN;
    }
    for (int64_t k = 0; k < pairs; k++) {
        if (batch->pair_row != NULL) batch->pair_row[at.pair + k] = -1;
        if (batch->pair_column != NULL) batch->pair_column[at.pair + k] = -1;
    }
    if (batch->pairs != NULL) batch->pairs[p] = 0;
    if (batch->value != NULL) batch->value[p] = NAN;
    if (batch->bound != NULL) batch->bound[p] = NAN;
}

/* The row's column in the problem as it was given, or -1. */
static int64_t column_of_row(const ota_assign_answer *found, const ota_cost_view *view, int64_t i) {
    if (found->match_of != NULL) return found->match_of[i];
    return view->rows > view->columns ? found->row_of[i] : found->column_of[i];
}

static void write_pairs(const job *work, int64_t p, const ota_cost_view *view,
                        const ota_assign_answer *found) {
    const ota_assignments *batch = work->batch;
    const ota_assignments_place at = ota_assignments_place_of(batch, work->places, p);
    const int64_t room = ota_int_min(view->rows, view->columns);
    int64_t pairs = 0;
    double value = 0.0;
    for (int64_t j = 0; batch->row_of != NULL && j < view->columns; j++)
        batch->row_of[at.column + j] = -1;
    for (int64_t i = 0; i < view->rows; i++) {
        int64_t j = column_of_row(found, view, i);
        if (j >= 0 && (batch->value != NULL || work->limit < INFINITY)) {
            const double cost = ota_cost_of(view, i, j);
            if (cost < work->limit)
                value += cost;
            else if (work->limit < INFINITY)
                j = -1;
        }
        if (batch->column_of != NULL) batch->column_of[at.row + i] = j;
        if (j < 0) continue;
        if (batch->row_of != NULL) batch->row_of[at.column + j] = i;
        if (batch->pair_row != NULL) batch->pair_row[at.pair + pairs] = i;
        if (batch->pair_column != NULL) batch->pair_column[at.pair + pairs] = j;
        pairs++;
    }
    if (batch->pairs != NULL) batch->pairs[p] = pairs;
    if (batch->value != NULL) batch->value[p] = value;
    for (; pairs < room; pairs++) {
        if (batch->pair_row != NULL) batch->pair_row[at.pair + pairs] = -1;
        if (batch->pair_column != NULL) batch->pair_column[at.pair + pairs] = -1;
    }
}

static void write_prices(const job *work, int64_t p, const ota_cost_view *view,
                         const ota_assign_worker *w, const ota_assign_answer *found) {
    const ota_assignments *batch = work->batch;
    if (batch->row_potential == NULL && batch->column_potential == NULL) return;
    const ota_assignments_place at = ota_assignments_place_of(batch, work->places, p);
    const bool tall = view->rows > view->columns;
    double *u = batch->row_potential == NULL ? NULL : batch->row_potential + at.row;
    double *v = batch->column_potential == NULL ? NULL : batch->column_potential + at.column;
    if (found->match_of != NULL) {
        for (int64_t i = 0; u != NULL && i < view->rows; i++) u[i] = view->sign * w->f[i];
        for (int64_t j = 0; v != NULL && j < view->columns; j++) v[j] = view->sign * w->g[j];
    } else {
        const ota_match *match = &w->match;
        double *shorter = tall ? v : u, *longer = tall ? u : v;
        const double unit = view->sign / found->scale;
        for (int64_t j = 0; longer != NULL && j < match->columns; j++)
            longer[j] = unit * match->price[j];
        for (int64_t i = 0; shorter != NULL && i < match->rows; i++) {
            const int32_t j = match->column_of[i];
            shorter[i] = unit * (ota_match_cost(&match->costs, i, j) - match->price[j]);
        }
    }
    if (batch->bound != NULL) batch->bound[p] = ota_assignment_bound(view, u, v);
}

static ota_status solve_problem(const job *work, ota_assign_worker *w, int64_t p) {
    const ota_assignments *batch = work->batch;
    const ota_cost_view view = ota_assignments_view(work->batch, p);
    const ota_watch watch = ota_watch_of(&work->assigner->settings);
    const int64_t n = ota_int_min(view.rows, view.columns);
    const ota_batch_kernels *kernels = &work->assigner->kernels;
    ota_assign_answer found = {
        .scale = 1.0, .priced = batch->row_potential != NULL || batch->column_potential != NULL};
    ota_status status = OTA_OK;
    if (n == 0) {
        const ota_assignments_place at = ota_assignments_place_of(batch, work->places, p);
        write_nothing(work, p, &view);
        if (batch->value != NULL) batch->value[p] = 0.0;
        for (int64_t i = 0; batch->row_potential != NULL && i < view.rows; i++)
            batch->row_potential[at.row + i] = 0.0;
        for (int64_t j = 0; batch->column_potential != NULL && j < view.columns; j++)
            batch->column_potential[at.column + j] = 0.0;
        if (batch->bound != NULL) batch->bound[p] = 0.0;
    } else {
        ota_cost_view turned;
        const ota_cost_view *upright = ota_cost_view_upright(&view, &turned);
        ota_assign_search search = ota_assign_search_of(upright);
        if (search == OTA_BY_COSTS) search = ota_assign_search_by_costs(upright);
        if (search == OTA_DENSELY)
            status = ota_assign_densely(kernels, w, upright, &watch, &found);
        else
            status = ota_assign_by_candidates(kernels, w, &view, &watch, &found);
        const ota_status stopped = ota_watch_ask(&watch);
        if (stopped != OTA_OK) status = stopped;
        if (status == OTA_OK) {
            write_pairs(work, p, &view, &found);
            write_prices(work, p, &view, w, &found);
        } else {
            write_nothing(work, p, &view);
        }
    }
    if (batch->status != NULL) batch->status[p] = status;
    return status;
}

static void solve_chunk(void *context, int64_t index, int number) {
    const job *work = context;
    ota_assign_worker *w = &work->assigner->workers[number];
    const int64_t first = index * work->chunk;
    const int64_t end = ota_int_min(first + work->chunk, work->batch->count);
    ota_watch watch = ota_watch_of(&work->assigner->settings);
    for (int64_t p = first; p < end; p++) {
        if (w->stopped == OTA_OK)
            w->stopped = ota_watch_spend(&watch, 16 + ota_assignments_rows(work->batch, p) *
                                                          ota_assignments_columns(work->batch, p));
        const ota_status status = w->stopped == OTA_OK ? solve_problem(work, w, p) : w->stopped;
        if (status == OTA_OK) continue;
        if (status != OTA_INFEASIBLE && status != OTA_NONFINITE) {
            w->stopped = status;
        } else if (w->wrong < 0 || p < w->wrong) {
            w->wrong = p;
            w->status = status;
        }
    }
}

static ota_status explain(const job *work, int64_t p, ota_status status, ota_error *error) {
    const ota_cost_view view = ota_assignments_view(work->batch, p);
    if (status == OTA_NONFINITE) {
        return ota_fail(error, status, "costs", "forbid a pair by an infinity of the other sign",
                        "problem %" PRId64 " holds NaN or %s", p, view.sign > 0.0 ? "-inf" : "inf");
    }
    return ota_fail(error, status, "costs", "allow more pairs, or give cost_limit",
                    "problem %" PRId64 " has no %" PRId64 " allowed pairs that fit together", p,
                    ota_int_min(view.rows, view.columns));
}

ota_status ota_assign(ota_assigner *assigner, const ota_assignments *batch, ota_error *error) {
    if (assigner == NULL)
        return ota_fail(error, OTA_EINVAL, "assigner", "create one first", "assigner is NULL");
    ota_assignments own;
    TRY(ota_check_sized(&own, sizeof own, batch, batch == NULL ? 0 : batch->size, "batch.size",
                        error));
    if (batch == NULL)
        return ota_fail(error, OTA_EINVAL, "batch", "give the problems", "batch is NULL");
    job work = {.assigner = assigner,
                .batch = &own,
                .limit = own.limited ? own.cost_limit : (double)INFINITY};
    assigner->settings.calls.cancel = own.cancel;
    assigner->settings.limits.deadline_ns = own.deadline_ns;
    TRY(prepare(&work, error));
    const int64_t enough = (int64_t)assigner->threads * CHUNKS_A_THREAD;
    work.chunk = own.count < 2 * enough ? 1 : ota_int_min(own.count / enough, CHUNK_MOST);
    for (int k = 0; k < assigner->threads; k++) {
        assigner->workers[k].wrong = -1;
        assigner->workers[k].stopped = OTA_OK;
    }
    const int64_t chunks = work.chunk == 1 ? own.count : ota_int_ceil_div(own.count, work.chunk);
    if (chunks == 1)
        solve_chunk(&work, 0, 0);
    else
        ota_parallel(assigner->pool, chunks, solve_chunk, &work);
    int64_t wrong = -1;
    ota_status status = OTA_OK, stopped = OTA_OK;
    for (int k = 0; k < assigner->threads; k++) {
        const ota_assign_worker *w = &assigner->workers[k];
        if (w->stopped != OTA_OK) stopped = w->stopped;
        if (w->wrong < 0 || (wrong >= 0 && w->wrong > wrong)) continue;
        wrong = w->wrong;
        status = w->status;
    }
    if (stopped != OTA_OK) {
        for (int64_t p = 0; p < own.count; p++) {
            const ota_cost_view view = ota_assignments_view(work.batch, p);
            write_nothing(&work, p, &view);
            if (own.status != NULL) own.status[p] = stopped;
        }
        return ota_fail(error, stopped, "", "", "%s", ota_status_text(stopped));
    }
    return status == OTA_OK ? OTA_OK : explain(&work, wrong, status, error);
}
