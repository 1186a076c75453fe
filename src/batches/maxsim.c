/* Scores of otattn_maxsim.h: query tokens packed once into panels, and documents in pieces for the threads. The kernel reads a
 * document where it lies, or in blocks of tokens that were converted, against one panel after another. With a capacity its
 * products are kept and a matching is searched for every query; where choices are wanted they are kept, too. */
#include "otattn_maxsim.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/batch_kernels.h"
#include "base/base.h"
#include "maxsim_parts.h"
#include "problem/check.h"
#include "problem/problem.h"
#include "solvers/matching/combinatorial.h"

enum {
    PIECE = 8, /* documents a thread takes at once */
    /* Tokens converted at once: in a first cache beside a panel, and few enough that the next ones, which are fetched
     * meanwhile, do not wait for each other. */
    BLOCK = 12,
    /* Products that are worth threads of their own, which take some 50 us to start. */
    WORTH_THREADS = 1 << 22
};

/* Elements of the kernels: a number in f32, or a pair in bf16. */
enum { ELEMENT = 4 };

/* What one thread works in. */
typedef struct worker {
    void *tokens;       /* elements [BLOCK][length] */
    float *products;    /* where `keeps` [panels][tokens of a document][OTA_MAXSIM_PANEL] */
    float *best, *lost; /* [columns] */
    int32_t *taken;     /* [columns] with choices: the first token of the largest product */
    /* with a capacity: scores of a matching, [most rows][most columns], and what its search needs */
    float *matrix;
    int64_t *match;
    double *f, *g;
    void *search;
} worker;

typedef struct job {
    ota_late_interaction problem;
    ota_settings settings; /* for the watch */
    ota_batch_kernels kernels;
    ota_maxsim_pass *pass;
    bool paired;
    bool in_place; /* documents are what the kernel reads, as they lie */
    bool keeps;    /* products of a document, for matchings or choices */
    int64_t queries, width;
    int64_t length;  /* elements of a token */
    int64_t columns; /* tokens of all queries */
    int64_t panels;
    int64_t longest;     /* tokens of a document, at most */
    int64_t most_tokens; /* of a query */
    int64_t *first;      /* [queries + 1] of a query's columns */
    void *packed;        /* elements [panels][length][OTA_MAXSIM_PANEL] */
    worker *workers;
    float *scores; /* [queries][document_count] */
    _Atomic int nonfinite, failed;
} job;

static ota_status check(const ota_late_interaction *given, const float *scores, const int64_t *best,
                        job *work, ota_error *error) {
    ota_late_interaction *p = &work->problem;
    TRY(ota_maxsim_check(given, p, &work->kernels, error));
    if (scores == NULL)
        return ota_fail(error, OTA_EINVAL, "scores", "give memory for the scores",
                        "scores is NULL");
    if (p->top > 0 && best == NULL)
        return ota_fail(error, OTA_EINVAL, "best", "give memory for the documents' numbers",
                        "best is NULL, but top is %" PRId64, p->top);
    if (p->top > 0 && p->chosen != NULL)
        return ota_fail(error, OTA_EINVAL, "chosen", "ask for all scores, or for no choices",
                        "chosen is given, but top is %" PRId64, p->top);
    const int64_t sizes[] = {p->queries.size[1], p->top > 0 ? p->top : p->document_count, 1};
    const int64_t pairs[] = {sizes[0], sizes[1], p->queries.size[2]};
    TRY(ota_maxsim_check_output(p, "scores", scores, sizes, sizeof *scores, error));
    if (p->top > 0) TRY(ota_maxsim_check_output(p, "best", best, sizes, sizeof *best, error));
    if (p->chosen != NULL)
        TRY(ota_maxsim_check_output(p, "chosen", p->chosen, pairs, sizeof *p->chosen, error));
    return OTA_OK;
}

/* ---- queries ----------------------------------------------------------------------------------- */

/* Columns of a panel. */
static int64_t columns_of(const job *work, int64_t panel) {
    const int64_t left = work->columns - panel * OTA_MAXSIM_PANEL;
    return ota_int_round_up(ota_int_min(OTA_MAXSIM_PANEL, left), OTA_MAXSIM_ROUND);
}

/* Tokens of an array as elements, to[count][length]. */
static void read_tokens(const job *work, const ota_array *from, int64_t query, int64_t first,
                        int64_t count, void *to) {
    if (work->paired) {
        work->kernels.read_pairs(from, 0, query, first, count, to);
    } else if (from->type == OTA_F16 && from->stride[3] == 1) {
        const uint16_t *at =
            (const uint16_t *)from->data + query * from->stride[1] + first * from->stride[2];
        /* Tokens one behind the other are one line. */
        const bool adjacent = from->stride[2] == work->width;
        const int64_t lines = adjacent ? 1 : count;
        const int64_t length = adjacent ? count * work->width : work->width;
        const int64_t ahead = adjacent ? (from->size[2] - first - count) * work->width : 0;
        for (int64_t t = 0; t < lines; t++)
            work->kernels.widen(at + t * from->stride[2], length, ahead, (float *)to + t * length);
    } else {
        work->kernels.read_rows_f32(from, 0, query, first, count, to, work->width);
    }
}

static char *packed_panel(const job *work, int64_t panel) {
    return (char *)work->packed + panel * OTA_MAXSIM_PANEL * work->length * ELEMENT;
}

/* Query tokens become columns, one after another; what the last panel has left is 0. `line`: elements [length]. */
static void pack_queries(const job *work, uint32_t *line) {
    memset(work->packed, 0, (size_t)(work->panels * work->length) * OTA_MAXSIM_PANEL * ELEMENT);
    for (int64_t q = 0; q < work->queries; q++) {
        for (int64_t i = 0; i < ota_maxsim_length(&work->problem, q); i++) {
            const int64_t column = work->first[q] + i, panel = column / OTA_MAXSIM_PANEL;
            const int64_t stride = columns_of(work, panel) * ELEMENT;
            char *to = packed_panel(work, panel) + column % OTA_MAXSIM_PANEL * ELEMENT;
            read_tokens(work, &work->problem.queries, q, i, 1, line);
            for (int64_t w = 0; w < work->length; w++) memcpy(to + w * stride, &line[w], ELEMENT);
        }
    }
}

/* ---- one document ------------------------------------------------------------------------------ */

/* Where the products of the tokens from `token` on lie in a panel; NULL: they are not kept. */
static float *products_of(const job *work, const worker *w, int64_t panel, int64_t token) {
    if (!work->keeps) return NULL;
    return w->products + panel * OTA_MAXSIM_PANEL * work->longest + token * columns_of(work, panel);
}

/* Tokens [first + at, first + at + block->count) against all panels. */
static void multiply_block(const job *work, const worker *w, ota_maxsim_block *block, int64_t at) {
    for (int64_t panel = 0; panel < work->panels; panel++) {
        const int64_t column = panel * OTA_MAXSIM_PANEL;
        block->queries = packed_panel(work, panel);
        block->columns = columns_of(work, panel);
        block->products = products_of(work, w, panel, at);
        block->best = w->best + column;
        block->lost = w->lost + column;
        work->pass(block);
        block->following = 0;
    }
}

static void multiply(const job *work, const worker *w, int64_t first, int64_t count) {
    const ota_array *documents = &work->problem.documents;
    for (int64_t c = 0; c < work->panels * OTA_MAXSIM_PANEL; c++) {
        w->best[c] = -INFINITY;
        w->lost[c] = 0.0F;
    }
    ota_maxsim_block block = {.length = work->length};
    if (work->in_place) {
        block.stride = documents->stride[2] * (int64_t)ota_type_bytes(documents->type);
        block.tokens = (const char *)documents->data + first * block.stride;
        block.count = count;
        block.following = documents->size[2] - first - count;
        multiply_block(work, w, &block, 0);
        return;
    }
    block.tokens = w->tokens;
    block.stride = work->length * ELEMENT;
    for (int64_t at = 0; at < count; at += BLOCK) {
        block.count = ota_int_min(BLOCK, count - at);
        read_tokens(work, documents, 0, first + at, block.count, w->tokens);
        multiply_block(work, w, &block, at);
    }
}

static double sum_of_largest(const job *work, const worker *w, int64_t query) {
    double sum = 0.0;
    for (int64_t c = work->first[query]; c < work->first[query + 1]; c++) sum += (double)w->best[c];
    return sum;
}

/* Of every column the first token of the largest product, which the rows of a panel give side by side. */
static void find_largest(const job *work, const worker *w, int64_t tokens) {
    for (int64_t panel = 0; panel < work->panels; panel++) {
        const int64_t columns = columns_of(work, panel);
        const float *const x = products_of(work, w, panel, 0);
        int32_t *const taken = w->taken + panel * OTA_MAXSIM_PANEL;
        float most[OTA_MAXSIM_PANEL];
        for (int64_t c = 0; c < columns; c++) {
            most[c] = -INFINITY;
            taken[c] = 0;
        }
        for (int64_t t = 0; t < tokens; t++) {
            for (int64_t c = 0; c < columns; c++) {
                const float here = x[t * columns + c];
                taken[c] = here > most[c] ? (int32_t)t : taken[c];
                most[c] = here > most[c] ? here : most[c];
            }
        }
    }
}

/* Columns of the matching: tokens, each as often as it may serve. `chosen` [query's tokens] or NULL. */
static double sum_of_matched(job *work, const worker *w, int64_t query, int64_t tokens,
                             int64_t *chosen) {
    const int64_t n = ota_maxsim_length(&work->problem, query);
    const int64_t copies = ota_int_min(work->problem.capacity, n), m = tokens * copies;
    for (int64_t i = 0; i < n; i++) {
        const int64_t column = work->first[query] + i, panel = column / OTA_MAXSIM_PANEL;
        const int64_t stride = columns_of(work, panel);
        const float *x = products_of(work, w, panel, 0) + column % OTA_MAXSIM_PANEL;
        for (int64_t j = 0; j < m; j++) w->matrix[i * m + j] = x[j / copies * stride];
    }
    ota_assignment matching = {.n = n,
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
        if (w->match[i] < 0) continue;
        sum += (double)w->matrix[i * m + w->match[i]];
        if (chosen != NULL) chosen[i] = w->match[i] / copies;
    }
    return sum;
}

static double score_of(job *work, const worker *w, int64_t query, int64_t tokens, int64_t *chosen) {
    const int64_t n = ota_maxsim_length(&work->problem, query), first = work->first[query];
    double lost = 0.0;
    for (int64_t c = first; c < first + n; c++) lost += (double)w->lost[c];
    if (n == 0) return 0.0;
    if (tokens == 0) return -(double)INFINITY;
    if (isnan(lost)) return (double)NAN;
    if (work->problem.capacity > 0) return sum_of_matched(work, w, query, tokens, chosen);
    for (int64_t i = 0; chosen != NULL && i < n; i++) chosen[i] = w->taken[first + i];
    return sum_of_largest(work, w, query);
}

static void score_document(job *work, const worker *w, int64_t d) {
    const ota_late_interaction *p = &work->problem;
    const int64_t count = ota_maxsim_tokens(p, d), most = p->queries.size[2];
    multiply(work, w, p->offsets[d], count);
    if (p->chosen != NULL && p->capacity == 0) find_largest(work, w, count);
    for (int64_t q = 0; q < work->queries; q++) {
        const int64_t place = q * p->document_count + d;
        int64_t *chosen = p->chosen != NULL ? p->chosen + place * most : NULL;
        for (int64_t i = 0; chosen != NULL && i < most; i++) chosen[i] = -1;
        const double score = score_of(work, w, q, count, chosen);
        work->scores[place] = (float)score;
        if (isnan(score)) work->nonfinite = 1;
    }
}

static void run_piece(void *context, int64_t piece, int number) {
    job *work = context;
    const int64_t first = piece * PIECE;
    const int64_t last = ota_int_min(first + PIECE, work->problem.document_count);
    ota_watch watch = ota_watch_of(&work->settings);
    for (int64_t d = first; d < last; d++) {
        const int64_t pairs = work->columns * ota_maxsim_tokens(&work->problem, d);
        if (ota_watch_ends(&watch, pairs * (1 + work->width / 16))) return;
        score_document(work, &work->workers[number], d);
    }
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
    const int64_t padded = work->panels * OTA_MAXSIM_PANEL;
    worker found = {0};
    found.tokens = ota_arena_take_rows(arena, BLOCK, work->length, ELEMENT);
    found.best = ota_arena_take(arena, (size_t)padded, sizeof(float));
    found.lost = ota_arena_take(arena, (size_t)padded, sizeof(float));
    if (work->keeps)
        found.products = ota_arena_take_rows(arena, padded, work->longest, sizeof(float));
    if (work->keeps && !matched)
        found.taken = ota_arena_take(arena, (size_t)padded, sizeof *found.taken);
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
    void *packed =
        ota_arena_take_rows(arena, work->panels * work->length, OTA_MAXSIM_PANEL, ELEMENT);
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
    work->settings =
        (ota_settings){.calls.cancel = p->cancel, .limits.deadline_ns = p->deadline_ns};
    work->queries = p->queries.size[1];
    work->width = p->queries.size[3];
    work->keeps = p->capacity > 0 || p->chosen != NULL;
    work->paired = p->queries.type == OTA_BF16 && work->kernels.maxsim_pairs != NULL;
    work->pass = work->paired ? work->kernels.maxsim_pairs : work->kernels.maxsim;
    work->length = work->paired ? ota_int_ceil_div(work->width, 2) : work->width;
    const ota_array *d = &p->documents;
    const bool as_read = work->paired ? work->width % 2 == 0 : d->type == OTA_F32;
    work->in_place = as_read && (d->stride[3] == 1 || d->size[3] == 1) && d->size[2] > 1;
    for (int64_t q = 0; q < work->queries; q++) {
        work->columns += ota_maxsim_length(&work->problem, q);
        work->most_tokens = ota_int_max(work->most_tokens, ota_maxsim_length(&work->problem, q));
    }
    work->panels = ota_int_ceil_div(work->columns, OTA_MAXSIM_PANEL);
    for (int64_t d = 0; d < p->document_count; d++)
        work->longest = ota_int_max(work->longest, ota_maxsim_tokens(p, d));
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
        work->first[q + 1] = work->first[q] + ota_maxsim_length(&work->problem, q);
    if (p->top == 0) work->scores = scores;
    pack_queries(work, work->workers[0].tokens);
    ota_parallel(pool, ota_int_ceil_div(p->document_count, PIECE), run_piece, work);
    ota_watch watch = ota_watch_of(&work->settings);
    for (int64_t q = 0;
         q < work->queries && p->top > 0 && !ota_watch_ends(&watch, p->document_count); q++)
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
    ota_status status = ota_arena_allocate(&arena), stopped = OTA_OK;
    if (status == OTA_OK) {
        lay_out(&work, &arena, ota_pool_threads(pool));
        run(&work, pool, scores, best);
        if (work.failed != 0) status = OTA_EINTERNAL;
        stopped = ota_interrupted(&work.settings);
    }
    ota_arena_release(&arena);
    ota_pool_free(pool);
    if (stopped != OTA_OK) {
        const int64_t each = work.problem.top > 0 ? work.problem.top : work.problem.document_count;
        const ota_array out = ota_array_of(scores, OTA_F32, 1, 1, work.queries, each);
        ota_array_poison(NULL, &out, 0, 0);
        return ota_fail(error, stopped, "", "", "%s", ota_status_text(stopped));
    }
    if (status < 0)
        return ota_fail(error, status, "problem", "score fewer queries at once",
                        "there is no memory for %" PRId64 " query tokens", work.columns);
    return work.nonfinite != 0 ? OTA_NONFINITE_ROWS : OTA_OK;
}
