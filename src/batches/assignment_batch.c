/* assignment_batch.c: what calls on batches of matrices share (assignment.h): layouts, checks, places of outputs, and threads. */
#include "assignment.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "problem/check.h"
#include "solvers/matching/assignment_dense.h"

/* Pairs times work that are worth threads, which take some 50 us to start. */
static const double WORTH_THREADS = 1 << 21;

/* ---- checks --------------------------------------------------------------------------------- */

static ota_status check_shape(const ota_assignments *batch, int64_t p, ota_error *error) {
    const int64_t rows = ota_assignments_rows(batch, p),
                  columns = ota_assignments_columns(batch, p);
    size_t bytes;
    if (rows < 0 || columns < 0 || (batch->offsets != NULL && batch->offsets[p] < 0)) {
        return ota_fail(error, OTA_EINVAL, batch->offsets == NULL ? "rows" : "rows_of",
                        "sizes and offsets are counts",
                        "problem %" PRId64 " has %" PRId64 " rows and %" PRId64
                        " columns, wanted none below 0, nor its offset",
                        p, rows, columns);
    }
    if (rows > INT32_MAX - OTA_MATCH_LANES || columns > INT32_MAX - OTA_MATCH_LANES ||
        !ota_size_product((const int64_t[]){rows, columns, 8, 4}, 4, &bytes)) {
        return ota_fail(error, OTA_EOVERFLOW, "rows", "", "problem %" PRId64 " is too large", p);
    }
    return OTA_OK;
}

static ota_status check_places(const ota_assignments *batch, ota_error *error) {
    const int given =
        (batch->rows_of != NULL) + (batch->columns_of != NULL) + (batch->offsets != NULL);
    if (given != 0 && given != 3) {
        return ota_fail(error, OTA_EINVAL, "offsets", "give all three or none",
                        "rows_of, columns_of and offsets are not all there");
    }
    if (batch->count < 0) {
        return ota_fail(error, OTA_EINVAL, "count", "0 is fine", "count is %" PRId64, batch->count);
    }
    if (!ota_is_wide(batch->type)) return ota_wrong_type("costs", batch->type, "f64 or f32", error);
    if (batch->limited && (batch->maximize || !isfinite(batch->cost_limit))) {
        return ota_fail(error, OTA_EINVAL, "cost_limit", "give a number, and minimise",
                        batch->maximize ? "cost_limit does not go with maximize"
                                        : "cost_limit is %g",
                        batch->cost_limit);
    }
    if (batch->costs != NULL && (uintptr_t)batch->costs % ota_type_bytes(batch->type) != 0)
        return ota_fail(error, OTA_EALIGN, "costs", "", "costs is not aligned to its type");
    return OTA_OK;
}

ota_status ota_assignments_check(const ota_assignments *batch, ota_error *error) {
    TRY(check_places(batch, error));
    const int64_t shapes = batch->offsets != NULL ? batch->count : ota_int_min(batch->count, 1);
    bool some = false;
    for (int64_t p = 0; p < shapes; p++) {
        TRY(check_shape(batch, p, error));
        some |= ota_assignments_rows(batch, p) > 0 && ota_assignments_columns(batch, p) > 0;
    }
    if (some && batch->costs == NULL)
        return ota_fail(error, OTA_EINVAL, "costs", "give the matrices", "costs is NULL");
    return OTA_OK;
}

/* ---- places of outputs ---------------------------------------------------------------------- */

void ota_assignments_lay_out(const ota_assignments *batch, int64_t *places) {
    int64_t *row = places, *column = row + batch->count, *pair = column + batch->count;
    ota_assignments_place next = {0, 0, 0};
    for (int64_t p = 0; p < batch->count; p++) {
        row[p] = next.row, column[p] = next.column, pair[p] = next.pair;
        next.row += batch->rows_of[p], next.column += batch->columns_of[p];
        next.pair += ota_int_min(batch->rows_of[p], batch->columns_of[p]);
    }
}

/* ---- one problem after another, or many at once --------------------------------------------- */

/* The problem of a thread that says what the call returns. */
typedef struct verdict {
    int64_t problem; /* -1: none */
    ota_status status;
    ota_error error;
} verdict;

typedef struct running {
    const ota_assignments_job *job;
    const int64_t *places;
    verdict *verdicts; /* [threads] */
} running;

static bool is_an_answer(ota_status status) {
    return status == OTA_INFEASIBLE || status == OTA_NONFINITE;
}

/* Those that were stopped come before those without an answer, then the first. */
static bool comes_before(const verdict *a, const verdict *b) {
    if (b->problem < 0) return true;
    const bool answered = is_an_answer(a->status);
    if (answered != is_an_answer(b->status)) return !answered;
    return a->problem < b->problem;
}

static void solve_one(void *context, int64_t p, int number) {
    const running *run = context;
    const ota_assignments_job *job = run->job;
    const ota_assignments_place at = ota_assignments_place_of(job->batch, run->places, p);
    verdict own;
    own.problem = p;
    own.status = job->solve(job->context, p, &at, &own.error);
    if (job->batch->status != NULL) job->batch->status[p] = own.status;
    if (own.status != OTA_OK && comes_before(&own, &run->verdicts[number]))
        run->verdicts[number] = own;
}

static ota_status run_all(running *run, ota_pool *pool, ota_error *error) {
    const ota_assignments *batch = run->job->batch;
    const int threads = ota_pool_threads(pool);
    verdict alone;
    run->verdicts = threads == 1 ? &alone : malloc((size_t)threads * sizeof *run->verdicts);
    if (run->verdicts == NULL)
        return ota_fail(error, OTA_ENOMEM, "threads", "ask for fewer", "no memory for the threads");
    for (int k = 0; k < threads; k++) run->verdicts[k].problem = -1;
    if (pool == NULL) {
        for (int64_t p = 0; p < batch->count; p++) solve_one(run, p, 0);
    } else {
        ota_parallel(pool, batch->count, solve_one, run);
    }
    const verdict *first = run->verdicts;
    for (int k = 1; k < threads; k++) {
        const verdict *own = &run->verdicts[k];
        if (own->problem >= 0 && comes_before(own, first)) first = own;
    }
    ota_status status = OTA_OK;
    if (first->problem >= 0) {
        char where[48] = "";
        status = first->status;
        if (batch->count > 1 && is_an_answer(status))
            (void)ota_snprintf(where, sizeof where, "problem %" PRId64 ": ", first->problem);
        status = ota_fail(error, status, first->error.field, first->error.hint, "%s%s", where,
                          first->error.message);
    }
    if (run->verdicts != &alone) free(run->verdicts);
    return status;
}

static double work_of(const ota_assignments_job *job) {
    const ota_assignments *batch = job->batch;
    double pairs = 0.0;
    if (batch->offsets == NULL)
        return job->work * (double)batch->count * (double)batch->rows * (double)batch->columns;
    for (int64_t p = 0; p < batch->count; p++)
        pairs += (double)batch->rows_of[p] * (double)batch->columns_of[p];
    return job->work * pairs;
}

/* Where there is a limit, columns for what is left out have numbers, too. */
static ota_status check_limited(const ota_assignments *batch, ota_error *error) {
    const int64_t shapes = batch->offsets != NULL ? batch->count : ota_int_min(batch->count, 1);
    for (int64_t p = 0; batch->limited && p < shapes; p++) {
        if (ota_assignments_rows(batch, p) + ota_assignments_columns(batch, p) <=
            INT32_MAX - OTA_MATCH_LANES)
            continue;
        return ota_fail(error, OTA_EOVERFLOW, "rows", "",
                        "problem %" PRId64 " is too large for a limit", p);
    }
    return OTA_OK;
}

ota_status ota_assignments_each(const ota_assignments_job *job, ota_error *error) {
    const ota_assignments *batch = job->batch;
    if (job->threads < 0 || job->threads > OTA_THREADS_MAX) {
        return ota_fail(error, OTA_EINVAL, "threads", "0 takes all processors",
                        "threads is %d, wanted 0 to %d", job->threads, OTA_THREADS_MAX);
    }
    TRY(ota_check_executor(job->executor, error));
    TRY(ota_assignments_check(batch, error));
    TRY(check_limited(batch, error));
    running run = {.job = job};
    int64_t *places = NULL;
    if (batch->offsets != NULL) {
        size_t bytes;
        const bool fits =
            ota_size_product((const int64_t[]){batch->count + 1, 3, sizeof(int64_t)}, 3, &bytes);
        places = fits ? malloc(bytes) : NULL;
        if (places == NULL)
            return ota_fail(error, OTA_ENOMEM, "count", "", "no memory for a batch of this length");
        ota_assignments_lay_out(batch, places);
        run.places = places;
    }
    ota_pool *pool = NULL;
    ota_status status = OTA_OK;
    if (batch->count > 1 && work_of(job) >= WORTH_THREADS)
        status = ota_pool_create(&pool, job->threads, job->executor);
    status = status == OTA_OK
                 ? run_all(&run, pool, error)
                 : ota_fail(error, status, "threads", "ask for fewer", "the threads cannot be had");
    ota_pool_free(pool);
    free(places);
    return status;
}
