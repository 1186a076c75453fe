/* Gradients of otattn_maxsim.h by the choices of the forward pass (the envelope theorem: the choice is the best one, so only the
 * products of its pairs move). Two passes that share nothing: documents add up what the query tokens they serve bring, and
 * query tokens what the document tokens that serve them bring, each a sum in f64 of one thread in one order. */
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "maxsim_parts.h"
#include "problem/check.h"

enum {
    PIECE = 8, /* documents or query tokens a thread takes at once */
    /* Numbers added up that are worth threads of their own. */
    WORTH_THREADS = 1 << 20
};

typedef struct gradients {
    ota_late_interaction problem;
    ota_batch_kernels kernels;
    int64_t queries, tokens, width, longest;
    float *rows;   /* [queries][tokens][width]: the queries in f32 */
    double **sums; /* for each thread [longest][width], of at least one row */
    float **lines; /* for each thread [width] */
    const float *score_grad;
    float *query_grad, *document_grad;
} gradients;

static const int64_t *chosen_of(const gradients *work, int64_t q, int64_t d) {
    return work->problem.chosen + (q * work->problem.document_count + d) * work->tokens;
}

static ota_status check_chosen(const ota_late_interaction *p, ota_error *error) {
    const int64_t tokens = p->queries.size[2];
    if (p->chosen == NULL)
        return ota_fail(error, OTA_EINVAL, "chosen", "give what ota_maxsim wrote there",
                        "chosen is NULL");
    for (int64_t q = 0; q < p->queries.size[1]; q++) {
        for (int64_t d = 0; d < p->document_count; d++) {
            const int64_t *chosen = p->chosen + (q * p->document_count + d) * tokens;
            for (int64_t i = 0; i < tokens; i++) {
                const int64_t most = i < ota_maxsim_length(p, q) ? ota_maxsim_tokens(p, d) - 1 : -1;
                if (chosen[i] < -1 || chosen[i] > most)
                    return ota_fail(error, OTA_EINVAL, "chosen", "give what ota_maxsim wrote there",
                                    "chosen[%" PRId64 "][%" PRId64 "][%" PRId64 "] is %" PRId64
                                    ", outside -1 to %" PRId64,
                                    q, d, i, chosen[i], most);
            }
        }
    }
    return OTA_OK;
}

static ota_status check(const ota_late_interaction *given, gradients *work, ota_error *error) {
    ota_late_interaction *p = &work->problem;
    TRY(ota_maxsim_check(given, p, &work->kernels, error));
    work->queries = p->queries.size[1];
    work->tokens = p->queries.size[2];
    work->width = p->queries.size[3];
    TRY(check_chosen(p, error));
    if (work->score_grad == NULL)
        return ota_fail(error, OTA_EINVAL, "score_grad", "give the derivatives of the scores",
                        "score_grad is NULL");
    const int64_t of_queries[] = {work->queries, work->tokens, work->width};
    const int64_t of_documents[] = {1, p->documents.size[2], work->width};
    if (work->query_grad != NULL)
        TRY(ota_maxsim_check_output(p, "query_grad", work->query_grad, of_queries, sizeof(float),
                                    error));
    if (work->document_grad != NULL)
        TRY(ota_maxsim_check_output(p, "document_grad", work->document_grad, of_documents,
                                    sizeof(float), error));
    return OTA_OK;
}

static ota_settings settings_of(const gradients *work) {
    return (ota_settings){.calls.cancel = work->problem.cancel,
                          .limits.deadline_ns = work->problem.deadline_ns};
}

/* NaN where gradients of a call that was to end would be. */
static void poison(const gradients *work) {
    const ota_late_interaction *p = &work->problem;
    const ota_array of_queries =
        ota_array_of(work->query_grad, OTA_F32, 1, 1, work->queries * work->tokens, work->width);
    const ota_array of_documents =
        ota_array_of(work->document_grad, OTA_F32, 1, 1, p->documents.size[2], work->width);
    if (work->query_grad != NULL) ota_array_poison(NULL, &of_queries, 0, 0);
    if (work->document_grad != NULL) ota_array_poison(NULL, &of_documents, 0, 0);
}

static void add(double *sum, const float *row, double factor, int64_t width) {
    for (int64_t w = 0; w < width; w++) sum[w] += factor * (double)row[w];
}

static void round_to(float *to, const double *sum, int64_t count) {
    for (int64_t k = 0; k < count; k++) to[k] = (float)sum[k];
}

static void add_document(const gradients *work, int64_t d, double *sum) {
    const ota_late_interaction *p = &work->problem;
    const int64_t count = ota_maxsim_tokens(p, d), width = work->width;
    memset(sum, 0, (size_t)(count * width) * sizeof *sum);
    for (int64_t q = 0; q < work->queries; q++) {
        const double factor = (double)work->score_grad[q * p->document_count + d];
        const int64_t *chosen = chosen_of(work, q, d);
        for (int64_t i = 0; factor != 0.0 && i < work->tokens; i++) {
            if (chosen[i] < 0) continue;
            add(sum + chosen[i] * width, work->rows + (q * work->tokens + i) * width, factor,
                width);
        }
    }
    round_to(work->document_grad + p->offsets[d] * width, sum, count * width);
}

static void run_documents(void *context, int64_t piece, int number) {
    const gradients *work = context;
    const int64_t first = piece * PIECE;
    const int64_t last = ota_int_min(first + PIECE, work->problem.document_count);
    const ota_settings settings = settings_of(work);
    ota_watch watch = ota_watch_of(&settings);
    const int64_t each = work->queries * work->tokens * (1 + work->width / 4);
    for (int64_t d = first; d < last && !ota_watch_ends(&watch, each); d++)
        add_document(work, d, work->sums[number]);
}

static void add_query_token(const gradients *work, int64_t q, int64_t i, int number) {
    const ota_late_interaction *p = &work->problem;
    double *const sum = work->sums[number];
    memset(sum, 0, (size_t)work->width * sizeof *sum);
    for (int64_t d = 0; d < p->document_count; d++) {
        const double factor = (double)work->score_grad[q * p->document_count + d];
        const int64_t j = chosen_of(work, q, d)[i];
        if (factor == 0.0 || j < 0) continue;
        work->kernels.read_rows_f32(&p->documents, 0, 0, p->offsets[d] + j, 1, work->lines[number],
                                    work->width);
        add(sum, work->lines[number], factor, work->width);
    }
    round_to(work->query_grad + (q * work->tokens + i) * work->width, sum, work->width);
}

static void run_queries(void *context, int64_t piece, int number) {
    const gradients *work = context;
    const int64_t first = piece * PIECE;
    const int64_t last = ota_int_min(first + PIECE, work->queries * work->tokens);
    const ota_settings settings = settings_of(work);
    ota_watch watch = ota_watch_of(&settings);
    const int64_t each = work->problem.document_count * (1 + work->width / 4);
    for (int64_t k = first; k < last && !ota_watch_ends(&watch, each); k++)
        add_query_token(work, k / work->tokens, k % work->tokens, number);
}

static void lay_out(gradients *work, ota_arena *arena, int threads) {
    const bool placed = arena->base != NULL;
    float *rows =
        ota_arena_take_rows(arena, work->queries * work->tokens, work->width, sizeof *work->rows);
    double **sums = ota_arena_take(arena, (size_t)threads, sizeof *sums);
    float **lines = ota_arena_take(arena, (size_t)threads, sizeof *lines);
    for (int k = 0; k < threads; k++) {
        double *sum = ota_arena_take_rows(arena, work->longest, work->width, sizeof *sum);
        float *line = ota_arena_take(arena, (size_t)work->width, sizeof *line);
        if (!placed) continue;
        sums[k] = sum;
        lines[k] = line;
    }
    if (!placed) return;
    work->rows = rows;
    work->sums = sums;
    work->lines = lines;
}

static void run(gradients *work, ota_pool *pool) {
    const ota_late_interaction *p = &work->problem;
    if (work->document_grad != NULL) {
        memset(work->document_grad, 0,
               (size_t)(p->documents.size[2] * work->width) * sizeof *work->document_grad);
        for (int64_t q = 0; q < work->queries; q++)
            work->kernels.read_rows_f32(&p->queries, 0, q, 0, work->tokens,
                                        work->rows + q * work->tokens * work->width, work->width);
        ota_parallel(pool, ota_int_ceil_div(p->document_count, PIECE), run_documents, work);
    }
    if (work->query_grad != NULL)
        ota_parallel(pool, ota_int_ceil_div(work->queries * work->tokens, PIECE), run_queries,
                     work);
}

ota_status ota_maxsim_backward(const ota_late_interaction *problem, const float *score_grad,
                               float *query_grad, float *document_grad, ota_error *error) {
    gradients work = {.score_grad = score_grad,
                      .query_grad = query_grad,
                      .document_grad = document_grad,
                      .longest = 1};
    TRY(check(problem, &work, error));
    const ota_late_interaction *p = &work.problem;
    for (int64_t d = 0; d < p->document_count; d++)
        work.longest = ota_int_max(work.longest, ota_maxsim_tokens(p, d));
    const bool small =
        p->document_count < WORTH_THREADS / ota_int_max(1, work.queries * work.tokens * work.width);
    ota_pool *pool = NULL;
    ota_status status = OTA_OK;
    if (p->executor != NULL || !small) status = ota_pool_create(&pool, p->threads, p->executor);
    if (status < 0)
        return ota_fail(error, status, "threads", "use fewer threads",
                        "no pool of %d threads can be had", p->threads);
    ota_arena arena = {0};
    lay_out(&work, &arena, ota_pool_threads(pool));
    status = ota_arena_allocate(&arena);
    if (status == OTA_OK) {
        lay_out(&work, &arena, ota_pool_threads(pool));
        run(&work, pool);
    }
    ota_arena_release(&arena);
    ota_pool_free(pool);
    const ota_settings settings = settings_of(&work);
    const ota_status stopped = ota_interrupted(&settings);
    if (status == OTA_OK && stopped != OTA_OK) {
        poison(&work);
        return ota_fail(error, stopped, "", "", "%s", ota_status_text(stopped));
    }
    if (status < 0)
        return ota_fail(error, status, "problem", "differentiate fewer queries at once",
                        "there is no memory for %" PRId64 " queries and documents of %" PRId64
                        " tokens",
                        work.queries, work.longest);
    return OTA_OK;
}
