/* otattn_maxsim.h: checks, query tokens packed once into panels, and documents in pieces for the threads. A piece goes through
 * the tokens of a document in blocks, each against all panels; with a capacity the products of one document are kept and
 * a matching is searched for every query. */
#include "otattn_maxsim.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/batch_kernels.h"
#include "base/base.h"
#include "problem/check.h"
#include "problem/problem.h"
#include "solvers/matching/combinatorial.h"

enum {
    PIECE = 8, /* documents a thread takes at once */
    /* Products that are worth threads of their own, which take some 50 us to start. */
    WORTH_THREADS = 1 << 22
};

/* What one thread works in. */
typedef struct worker {
    float *tokens;      /* [OTA_MAXSIM_TOKENS][width] */
    float *products;    /* [panels][tokens of a block, or of a document][OTA_MAXSIM_PANEL] */
    float *best, *lost; /* [columns] */
    /* with a capacity: scores of a matching, [most rows][most columns], and what its search needs */
    float *matrix;
    int64_t *match;
    double *f, *g;
    void *search;
} worker;

typedef struct job {
    ota_late_interaction problem;
    ota_batch_kernels kernels;
    int64_t queries, width;
    int64_t columns; /* tokens of all queries */
    int64_t panels;
    int64_t longest;     /* tokens of a document, at most */
    int64_t most_tokens; /* of a query */
    int64_t *first;      /* [queries + 1] of a query's columns */
    float *packed;       /* [panels][width][OTA_MAXSIM_PANEL] */
    worker *workers;
    float *scores; /* [queries][document_count] */
    _Atomic int nonfinite, failed;
} job;

/* ---- checks ------------------------------------------------------------------------------------ */

static ota_status check_tokens(const ota_array *x, const char *field, ota_error *error) {
    if (!ota_array_present(x))
        return ota_fail(error, OTA_EINVAL, field, "give an array of token vectors", "%s are absent",
                        field);
    TRY(ota_check_array(x, field, error));
    if (x->type != OTA_F32 && x->type != OTA_BF16 && x->type != OTA_F16)
        return ota_wrong_type(field, x->type, "f32, bf16 or f16", error);
    return OTA_OK;
}

static ota_status check_shapes(const ota_late_interaction *p, ota_error *error) {
    const ota_array *q = &p->queries, *d = &p->documents;
    TRY(check_tokens(q, "queries", error));
    TRY(check_tokens(d, "documents", error));
    if (d->type != q->type)
        return ota_wrong_type("documents", d->type, "the type of queries", error);
    if (q->size[0] != 1 || d->size[0] != 1 || d->size[1] != 1)
        return ota_fail(error, OTA_EINVAL, q->size[0] != 1 ? "queries" : "documents",
                        "queries are [1, queries, tokens, width], documents [1, 1, tokens, width]",
                        "%s have a leading dimension of %" PRId64,
                        q->size[0] != 1 ? "queries" : "documents",
                        q->size[0] != 1 ? q->size[0] : d->size[0] * d->size[1]);
    if (d->size[3] != q->size[3])
        return ota_fail(error, OTA_EINVAL, "documents", "use the same width",
                        "documents have width %" PRId64 " but queries %" PRId64, d->size[3],
                        q->size[3]);
    if (p->document_count < 0)
        return ota_fail(error, OTA_EINVAL, "document_count", "use 0 or more",
                        "document_count is %" PRId64, p->document_count);
    if (p->capacity < 0)
        return ota_fail(error, OTA_EINVAL, "capacity", "use 1 or more, or 0 for max",
                        "capacity is %" PRId64, p->capacity);
    if (p->top < 0 || p->top > p->document_count)
        return ota_fail(error, OTA_EINVAL, "top", "use at most the number of documents",
                        "top is %" PRId64 " of %" PRId64 " documents", p->top, p->document_count);
    if (p->threads < 0 || p->threads > OTA_THREADS_MAX)
        return ota_fail(error, OTA_EINVAL, "threads", "use 0 (all CPUs) to 4096", "threads is %d",
                        p->threads);
    return OTA_OK;
}

static ota_status check_lengths(const ota_late_interaction *p, ota_error *error) {
    const int64_t tokens = p->documents.size[2];
    if (p->offsets == NULL)
        return ota_fail(error, OTA_EINVAL, "offsets", "give document_count + 1 places",
                        "offsets is NULL");
    for (int64_t d = 0; d <= p->document_count; d++) {
        const int64_t least = d == 0 ? 0 : p->offsets[d - 1], at = p->offsets[d];
        if (at < least || at > tokens)
            return ota_fail(error, OTA_EINVAL, "offsets",
                            "let them rise from 0 or more to at most the tokens",
                            "offsets[%" PRId64 "] is %" PRId64 ", outside %" PRId64 " to %" PRId64,
                            d, at, least, tokens);
    }
    for (int64_t d = 0; p->document_lengths != NULL && d < p->document_count; d++) {
        const int64_t length = p->document_lengths[d], room = p->offsets[d + 1] - p->offsets[d];
        if (length < 0 || length > room)
            return ota_fail(error, OTA_EINVAL, "document_lengths",
                            "use 0 to the tokens between the offsets",
                            "document_lengths[%" PRId64 "] is %" PRId64 " of %" PRId64 " tokens", d,
                            length, room);
    }
    for (int64_t q = 0; p->query_lengths != NULL && q < p->queries.size[1]; q++) {
        const int64_t length = p->query_lengths[q];
        if (length < 0 || length > p->queries.size[2])
            return ota_fail(error, OTA_EINVAL, "query_lengths", "use 0 to the tokens of queries",
                            "query_lengths[%" PRId64 "] is %" PRId64 " of %" PRId64 " tokens", q,
                            length, p->queries.size[2]);
    }
    return OTA_OK;
}

/* Outputs at a multiple of their elements, and away from what is read. */
static ota_status check_output(const ota_late_interaction *p, const char *field, const void *out,
                               size_t element, ota_error *error) {
    const int64_t each = p->top > 0 ? p->top : p->document_count;
    size_t bytes;
    if ((uintptr_t)out % element != 0)
        return ota_fail(error, OTA_EALIGN, field, "align it to its elements",
                        "%s is not at a multiple of %zu bytes", field, element);
    if (!ota_size_product((const int64_t[]){p->queries.size[1], each, (int64_t)element}, 3, &bytes))
        return ota_fail(error, OTA_EOVERFLOW, field, "score fewer at once",
                        "%" PRId64 " queries times %" PRId64 " documents overflow",
                        p->queries.size[1], each);
    const ota_array *const read[] = {&p->queries, &p->documents};
    for (int k = 0; k < 2; k++) {
        const char *first, *last;
        ota_array_extent(read[k], &first, &last);
        if ((const char *)out < last && first < (const char *)out + bytes)
            return ota_fail(error, OTA_EALIAS, field, "give it memory of its own", "%s overlaps %s",
                            field, k == 0 ? "queries" : "documents");
    }
    return OTA_OK;
}

static ota_status check(const ota_late_interaction *given, const float *scores, const int64_t *best,
                        job *work, ota_error *error) {
    ota_late_interaction *p = &work->problem;
    if (given == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    TRY(ota_check_sized(p, sizeof *p, given, given->size, "problem.size", error));
    TRY(check_shapes(p, error));
    TRY(check_lengths(p, error));
    if (scores == NULL)
        return ota_fail(error, OTA_EINVAL, "scores", "give memory for the scores",
                        "scores is NULL");
    if (p->top > 0 && best == NULL)
        return ota_fail(error, OTA_EINVAL, "best", "give memory for the documents' numbers",
                        "best is NULL, but top is %" PRId64, p->top);
    TRY(check_output(p, "scores", scores, sizeof *scores, error));
    if (p->top > 0) TRY(check_output(p, "best", best, sizeof *best, error));
    if (!ota_batch_kernels_of(p->cpu, &work->kernels))
        return ota_fail(error, OTA_EINVAL, "cpu", "use a name of ota_kernel_name",
                        "cpu is \"%s\", which this processor does not have", p->cpu);
    return OTA_OK;
}

static int64_t tokens_of(const ota_late_interaction *p, int64_t d) {
    return p->document_lengths != NULL ? p->document_lengths[d] : p->offsets[d + 1] - p->offsets[d];
}

/* ---- queries ----------------------------------------------------------------------------------- */

static int64_t length_of(const job *work, int64_t query) {
    const ota_late_interaction *p = &work->problem;
    return p->query_lengths != NULL ? p->query_lengths[query] : p->queries.size[2];
}

/* Columns of a panel. */
static int64_t columns_of(const job *work, int64_t panel) {
    const int64_t left = work->columns - panel * OTA_MAXSIM_PANEL;
    return ota_int_round_up(ota_int_min(OTA_MAXSIM_PANEL, left), OTA_MAXSIM_ROUND);
}

/* Query tokens become columns, one after another; what the last panel has left is 0. `line` [width]. */
static void pack_queries(const job *work, float *line) {
    const size_t elements = (size_t)(work->panels * work->width) * OTA_MAXSIM_PANEL;
    memset(work->packed, 0, elements * sizeof *work->packed);
    for (int64_t q = 0; q < work->queries; q++) {
        for (int64_t i = 0; i < length_of(work, q); i++) {
            const int64_t column = work->first[q] + i;
            const int64_t panel = column / OTA_MAXSIM_PANEL, stride = columns_of(work, panel);
            float *to =
                work->packed + panel * OTA_MAXSIM_PANEL * work->width + column % OTA_MAXSIM_PANEL;
            work->kernels.read_rows_f32(&work->problem.queries, 0, q, i, 1, line, work->width);
            for (int64_t w = 0; w < work->width; w++) to[w * stride] = line[w];
        }
    }
}

/* ---- one document ------------------------------------------------------------------------------ */

/* Where the products of the tokens from `token` on lie in a panel. */
static float *products_of(const job *work, const worker *w, int64_t panel, int64_t token) {
    if (work->problem.capacity == 0) return w->products;
    return w->products + panel * OTA_MAXSIM_PANEL * work->longest + token * columns_of(work, panel);
}

static void multiply(const job *work, const worker *w, int64_t first, int64_t count) {
    for (int64_t c = 0; c < work->columns; c++) {
        w->best[c] = -INFINITY;
        w->lost[c] = 0.0F;
    }
    for (int64_t at = 0; at < count; at += OTA_MAXSIM_TOKENS) {
        ota_maxsim_block block = {.count = ota_int_min(OTA_MAXSIM_TOKENS, count - at),
                                  .tokens = w->tokens,
                                  .width = work->width};
        /* The tile reads some rows at once: faster from a cache that one stream has filled. */
        work->kernels.read_rows_f32(&work->problem.documents, 0, 0, first + at, block.count,
                                    w->tokens, work->width);
        for (int64_t panel = 0; panel < work->panels; panel++) {
            const int64_t column = panel * OTA_MAXSIM_PANEL;
            block.queries = work->packed + column * work->width;
            block.columns = columns_of(work, panel);
            block.products = products_of(work, w, panel, at);
            block.best = w->best + column;
            block.lost = w->lost + column;
            work->kernels.maxsim(&block);
        }
    }
}

static double sum_of_largest(const job *work, const worker *w, int64_t query) {
    double sum = 0.0;
    for (int64_t c = work->first[query]; c < work->first[query + 1]; c++) sum += (double)w->best[c];
    return sum;
}

/* Columns of the matching: tokens, each as often as it may serve. */
static double sum_of_matched(job *work, const worker *w, int64_t query, int64_t tokens) {
    const int64_t n = length_of(work, query);
    const int64_t copies = ota_int_min(work->problem.capacity, n), m = tokens * copies;
    for (int64_t i = 0; i < n; i++) {
        const int64_t column = work->first[query] + i, panel = column / OTA_MAXSIM_PANEL;
        const int64_t stride = columns_of(work, panel);
        const float *x = products_of(work, w, panel, 0) + column % OTA_MAXSIM_PANEL;
        for (int64_t j = 0; j < m; j++) w->matrix[i * m + j] = x[j / copies * stride];
    }
    const ota_assignment matching = {.n = n,
                                     .m = m,
                                     .scores = w->matrix,
                                     .stride = m,
                                     .narrow = true,
                                     .costs = work->kernels.costs[1],
                                     .passes = work->kernels.match,
                                     .match = w->match,
                                     .f = w->f,
                                     .g = w->g};
    double sum = 0.0;
    if (ota_assignment_solve(&matching, w->search) != OTA_OK) {
        work->failed = 1;
        return (double)NAN;
    }
    for (int64_t i = 0; i < n; i++) {
        if (w->match[i] >= 0) sum += (double)w->matrix[i * m + w->match[i]];
    }
    return sum;
}

static void score_document(job *work, const worker *w, int64_t d) {
    const ota_late_interaction *p = &work->problem;
    const int64_t first = p->offsets[d], count = tokens_of(p, d);
    multiply(work, w, first, count);
    for (int64_t q = 0; q < work->queries; q++) {
        double lost = 0.0, score;
        for (int64_t c = work->first[q]; c < work->first[q + 1]; c++) lost += (double)w->lost[c];
        if (length_of(work, q) == 0)
            score = 0.0;
        else if (count == 0)
            score = -INFINITY;
        else if (isnan(lost))
            score = (double)NAN;
        else
            score =
                p->capacity == 0 ? sum_of_largest(work, w, q) : sum_of_matched(work, w, q, count);
        work->scores[q * p->document_count + d] = (float)score;
        if (isnan(score)) work->nonfinite = 1;
    }
}

static void run_piece(void *context, int64_t piece, int number) {
    job *work = context;
    const int64_t first = piece * PIECE;
    const int64_t last = ota_int_min(first + PIECE, work->problem.document_count);
    for (int64_t d = first; d < last; d++) score_document(work, &work->workers[number], d);
}

/* ---- the best ---------------------------------------------------------------------------------- */

/* Is document a of these scores before b? */
static bool leads(const float *scores, int64_t a, int64_t b) {
    const float x = scores[a], y = scores[b];
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y) ? a < b : isnan(y);
    return x > y || (!(x < y) && a < b);
}

/* A heap whose root comes last among the `count` kept. */
static void sink_root(const float *scores, int64_t *heap, int64_t count) {
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && leads(scores, heap[child], heap[child + 1])) child++;
        if (!leads(scores, heap[at], heap[child])) return;
        const int64_t kept = heap[at];
        heap[at] = heap[child];
        heap[child] = kept;
        at = child;
    }
}

static void raise_last(const float *scores, int64_t *heap, int64_t at) {
    while (at > 0 && leads(scores, heap[(at - 1) / 2], heap[at])) {
        const int64_t kept = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = kept;
        at = (at - 1) / 2;
    }
}

static void keep_best(const float *scores, int64_t count, int64_t top, float *kept, int64_t *best) {
    for (int64_t d = 0; d < count; d++) {
        if (d < top) {
            best[d] = d;
            raise_last(scores, best, d);
        } else if (leads(scores, d, best[0])) {
            best[0] = d;
            sink_root(scores, best, top);
        }
    }
    for (int64_t last = top - 1; last > 0; last--) {
        const int64_t worst = best[0];
        best[0] = best[last];
        best[last] = worst;
        sink_root(scores, best, last);
    }
    for (int64_t k = 0; k < top; k++) kept[k] = scores[best[k]];
}

/* ---- memory and the call ----------------------------------------------------------------------- */

static void take_worker(const job *work, ota_arena *arena, worker *w) {
    const bool matched = work->problem.capacity > 0;
    const int64_t kept = matched ? work->longest : ota_int_min(work->longest, OTA_MAXSIM_TOKENS);
    const int64_t padded = work->panels * OTA_MAXSIM_PANEL;
    worker found = {0};
    found.tokens = ota_arena_take_rows(arena, OTA_MAXSIM_TOKENS, work->width, sizeof(float));
    found.products =
        ota_arena_take_rows(arena, matched ? padded : OTA_MAXSIM_PANEL, kept, sizeof(float));
    found.best = ota_arena_take(arena, (size_t)padded, sizeof(float));
    found.lost = ota_arena_take(arena, (size_t)padded, sizeof(float));
    if (matched) {
        const int64_t n = work->most_tokens;
        int64_t copies = ota_int_min(work->problem.capacity, n), m = 0;
        if (__builtin_mul_overflow(work->longest, copies, &m)) arena->overflowed = true;
        const size_t bytes = ota_assignment_workspace(n, m, true);
        if (bytes == SIZE_MAX) arena->overflowed = true;
        found.matrix = ota_arena_take_rows(arena, n, m, sizeof(float));
        found.match = ota_arena_take(arena, (size_t)n, sizeof(int64_t));
        found.f = ota_arena_take(arena, (size_t)n, sizeof(double));
        found.g = ota_arena_take(arena, (size_t)m, sizeof(double));
        found.search = ota_arena_take(arena, bytes == SIZE_MAX ? 0 : bytes, 1);
    }
    if (w != NULL) *w = found;
}

static void lay_out(job *work, ota_arena *arena, int threads) {
    const ota_late_interaction *p = &work->problem;
    const bool placed = arena->base != NULL;
    int64_t *first = ota_arena_take(arena, (size_t)work->queries + 1, sizeof *first);
    float *packed =
        ota_arena_take_rows(arena, work->panels * work->width, OTA_MAXSIM_PANEL, sizeof *packed);
    worker *workers = ota_arena_take(arena, (size_t)threads, sizeof *workers);
    if (p->top > 0)
        work->scores = ota_arena_take_rows(arena, work->queries, p->document_count, sizeof(float));
    for (int k = 0; k < threads; k++) take_worker(work, arena, placed ? &workers[k] : NULL);
    if (!placed) return;
    work->first = first;
    work->packed = packed;
    work->workers = workers;
}

static void measure(job *work) {
    const ota_late_interaction *p = &work->problem;
    work->queries = p->queries.size[1];
    work->width = p->queries.size[3];
    for (int64_t q = 0; q < work->queries; q++) {
        work->columns += length_of(work, q);
        work->most_tokens = ota_int_max(work->most_tokens, length_of(work, q));
    }
    work->panels = ota_int_ceil_div(work->columns, OTA_MAXSIM_PANEL);
    for (int64_t d = 0; d < p->document_count; d++)
        work->longest = ota_int_max(work->longest, tokens_of(p, d));
}

/* Threads only where there is work for them. */
static int threads_for(const job *work) {
    const ota_late_interaction *p = &work->problem;
    if (p->executor != NULL) return p->threads;
    const int64_t tokens = p->offsets[p->document_count] - p->offsets[0];
    const bool small = tokens < WORTH_THREADS / ota_int_max(1, work->columns * work->width);
    return small || p->document_count <= PIECE ? 1 : p->threads;
}

static void run(job *work, ota_pool *pool, float *scores, int64_t *best) {
    const ota_late_interaction *p = &work->problem;
    work->first[0] = 0;
    for (int64_t q = 0; q < work->queries; q++)
        work->first[q + 1] = work->first[q] + length_of(work, q);
    if (p->top == 0) work->scores = scores;
    pack_queries(work, work->workers[0].tokens);
    ota_parallel(pool, ota_int_ceil_div(p->document_count, PIECE), run_piece, work);
    for (int64_t q = 0; q < work->queries && p->top > 0; q++)
        keep_best(work->scores + q * p->document_count, p->document_count, p->top,
                  scores + q * p->top, best + q * p->top);
}

ota_status ota_maxsim(const ota_late_interaction *problem, float *scores, int64_t *best,
                      ota_error *error) {
    job work = {0};
    TRY(check(problem, scores, best, &work, error));
    if (work.problem.document_count == 0 || work.problem.queries.size[1] == 0) return OTA_OK;
    measure(&work);
    ota_pool *pool = NULL;
    const int threads = threads_for(&work);
    if (threads != 1 || work.problem.executor != NULL) {
        const ota_status status = ota_pool_create(&pool, threads, work.problem.executor);
        if (status < 0)
            return ota_fail(error, status, "threads", "use fewer threads",
                            "no pool of %d threads can be had", threads);
    }
    ota_arena arena = {0};
    lay_out(&work, &arena, ota_pool_threads(pool));
    ota_status status = ota_arena_allocate(&arena);
    if (status == OTA_OK) {
        lay_out(&work, &arena, ota_pool_threads(pool));
        run(&work, pool, scores, best);
        if (work.failed != 0) status = OTA_EINTERNAL;
    }
    ota_arena_release(&arena);
    ota_pool_free(pool);
    if (status < 0)
        return ota_fail(error, status, "problem", "score fewer queries at once",
                        "there is no memory for %" PRId64 " query tokens", work.columns);
    return work.nonfinite != 0 ? OTA_NONFINITE_ROWS : OTA_OK;
}
