/* otattn_route.h: checks, the kernel formed once in blocks of tokens, rounds on it, and the choice. Blocks depend on the
 * number of tokens alone; column sums of a round are kept a block and added in their order. */
#include "otattn_route.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/batch_kernels.h"
#include "base/base.h"
#include "problem/check.h"
#include "problem/problem.h"

enum {
    TOKENS = 256, /* of a block */
    ROUNDS = 1000,
    LINE = 16, /* elements to which rows are padded: 64 bytes of f32 */
    /* Pairs that are worth threads of their own, which take some 50 us to start. */
    WORTH_THREADS = 1 << 20
};
static const double eps = 1.0e-8, usual_tolerance = 1.0e-4, largest_start = 80.0;

typedef struct router {
    ota_routing problem;
    ota_settings settings;
    const ota_route_passes *passes;
    bool narrow;
    int64_t tokens, experts, stride, blocks;
    size_t element;
    ota_pool *pool;
    ota_arena arena;
    unsigned char *kernel;  /* T [tokens][stride] */
    unsigned char *lines;   /* T [threads][stride] */
    uint64_t *taken;        /* [threads][words] 0 */
    void *v;                /* T [stride] */
    double *next;           /* [experts] */
    double *sums;           /* [tokens] */
    double *columns;        /* [blocks][experts] */
    double *mass, *floors;  /* [TOKENS] */
    double *u;              /* [threads][TOKENS] */
    int64_t *chosen;        /* [tokens][take] */
    double *shares;         /* [tokens][take] */
    int64_t *loads;         /* [blocks][experts] */
    double *values;         /* [blocks] */
    _Atomic int64_t broken; /* the first row that is not finite, or tokens */
} router;

/* ---- checks ------------------------------------------------------------------------------------ */

static ota_status check_numbers(const router *r, ota_error *error) {
    const ota_routing *p = &r->problem;
    if (r->tokens < 1 || r->experts < 1)
        return ota_fail(error, OTA_EINVAL, "logits", "give at least one token and expert",
                        "logits are %" PRId64 " x %" PRId64, r->tokens, r->experts);
    if (r->experts > OTA_ROUTE_EXPERTS)
        return ota_fail(error, OTA_UNSUPPORTED, "logits", "use fewer experts",
                        "logits are of %" PRId64 " experts, more than %d", r->experts,
                        (int)OTA_ROUTE_EXPERTS);
    if (p->take < 1 || p->take > r->experts)
        return ota_fail(error, OTA_EINVAL, "take", "use 1 to the number of experts",
                        "take is %" PRId64 " of %" PRId64 " experts", p->take, r->experts);
    if (!(p->tolerance >= 0.0) || !isfinite(p->tolerance))
        return ota_fail(error, OTA_EINVAL, "tolerance", "use a number above 0, or 0 for 1e-4",
                        "tolerance is %g", p->tolerance);
    if (p->rounds < 0)
        return ota_fail(error, OTA_EINVAL, "rounds", "use 1 or more, or 0 for 1000",
                        "rounds is %" PRId64, p->rounds);
    for (int64_t j = 0; p->start != NULL && j < r->experts; j++) {
        if (isfinite(p->start[j])) continue;
        return ota_fail(error, OTA_NONFINITE, "start", "give finite numbers, or NULL",
                        "start[%" PRId64 "] is %g", j, p->start[j]);
    }
    return OTA_OK;
}

static ota_status check(router *r, const ota_routing *problem, const ota_options *options,
                        ota_error *error) {
    ota_routing *p = &r->problem;
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give one", "problem is NULL");
    TRY(ota_check_sized(p, sizeof *p, problem, problem->size, "problem.size", error));
    ota_resolved resolved = {.type = OTA_F64, .rule_rounds = -1};
    TRY(ota_resolve_options(&resolved, options, error));
    r->settings = resolved.settings;
    const ota_array *logits = &p->logits;
    if (!ota_array_present(logits))
        return ota_fail(error, OTA_EINVAL, "logits", "give an array", "logits are absent");
    TRY(ota_check_array(logits, "logits", error));
    if (logits->type != OTA_F32 && logits->type != OTA_F64)
        return ota_wrong_type("logits", logits->type, "f32 or f64", error);
    r->narrow = logits->type == OTA_F32;
    r->element = ota_type_bytes(logits->type);
    r->tokens = logits->size[2];
    r->experts = logits->size[3];
    if (logits->size[0] != 1 || logits->size[1] != 1 ||
        (logits->stride[3] != 1 && logits->size[3] > 1))
        return ota_fail(error, OTA_EINVAL, "logits",
                        "give [1,1,tokens,experts] with the experts of a token side by side",
                        "logits are [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                        "] with experts %" PRId64 " elements apart",
                        logits->size[0], logits->size[1], r->tokens, r->experts, logits->stride[3]);
    return check_numbers(r, error);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static int64_t words_of(const router *r) { return r->stride / 64 + 1; }

static void lay_out(router *r) {
    ota_arena *a = &r->arena;
    const int64_t threads = ota_pool_threads(r->pool);
    r->kernel = ota_arena_take_rows(a, r->tokens, r->stride, r->element);
    r->lines = ota_arena_take_rows(a, threads, r->stride, r->element);
    r->taken = ota_arena_take_rows(a, threads, words_of(r), sizeof *r->taken);
    r->v = ota_arena_take(a, (size_t)r->stride, r->element);
    r->next = ota_arena_take(a, (size_t)r->experts, sizeof *r->next);
    r->sums = ota_arena_take(a, (size_t)r->tokens, sizeof *r->sums);
    r->columns = ota_arena_take_rows(a, r->blocks, r->experts, sizeof *r->columns);
    r->mass = ota_arena_take(a, TOKENS, sizeof *r->mass);
    r->floors = ota_arena_take(a, TOKENS, sizeof *r->floors);
    r->u = ota_arena_take_rows(a, threads, TOKENS, sizeof *r->u);
    r->chosen = ota_arena_take_rows(a, r->tokens, r->problem.take, sizeof *r->chosen);
    r->shares = ota_arena_take_rows(a, r->tokens, r->problem.take, sizeof *r->shares);
    r->loads = ota_arena_take_rows(a, r->blocks, r->experts, sizeof *r->loads);
    r->values = ota_arena_take(a, (size_t)r->blocks, sizeof *r->values);
}

static ota_status place(router *r, ota_error *error) {
    ota_batch_kernels kernels;
    if (!ota_batch_kernels_of(r->settings.cpu, &kernels))
        return ota_fail(error, OTA_UNSUPPORTED, "cpu", "doctor lists the levels of this machine",
                        "cpu is '%s', which this processor cannot run", r->settings.cpu);
    r->passes = r->narrow ? kernels.route_f32 : kernels.route_f64;
    r->stride = ota_int_round_up(r->experts, LINE);
    r->blocks = ota_int_ceil_div(r->tokens, TOKENS);
    if (r->settings.executor != NULL || r->tokens >= WORTH_THREADS / r->experts) {
        const ota_status status =
            ota_pool_create(&r->pool, r->settings.threads, r->settings.executor);
        if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
    }
    lay_out(r);
    const ota_status status = ota_arena_allocate(&r->arena);
    if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
    lay_out(r);
    return OTA_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------ */

static void put_v(const router *r, int64_t j, double value) {
    if (r->narrow)
        ((float *)r->v)[j] = (float)value;
    else
        ((double *)r->v)[j] = value;
}

static double v_at(const router *r, int64_t j) {
    return r->narrow ? (double)((const float *)r->v)[j] : ((const double *)r->v)[j];
}

static void begin(router *r) {
    const double *start = r->problem.start;
    double mean = 0.0;
    for (int64_t j = 0; start != NULL && j < r->experts; j++) mean += start[j] / (double)r->experts;
    for (int64_t j = 0; j < r->experts; j++) {
        const double from = start == NULL ? 0.0 : start[j] - mean;
        put_v(r, j, exp(fmax(-largest_start, fmin(largest_start, from))));
    }
    for (int64_t i = 0; i < TOKENS; i++) {
        r->mass[i] = 1.0 / (double)r->tokens;
        r->floors[i] = eps;
    }
    const int64_t words = ota_pool_threads(r->pool) * words_of(r);
    memset(r->taken, 0, (size_t)words * sizeof *r->taken);
    atomic_store(&r->broken, r->tokens);
}

static ota_route_block block_of(const router *r, int64_t index, int worker) {
    const int64_t first = index * TOKENS;
    const ota_array *logits = &r->problem.logits;
    const ptrdiff_t from = (ptrdiff_t)(first * logits->stride[2]) * (ptrdiff_t)r->element;
    return (ota_route_block){.rows = ota_int_min(TOKENS, r->tokens - first),
                             .experts = r->experts,
                             .logits = (const unsigned char *)logits->data + from,
                             .logits_stride = logits->stride[2],
                             .kernel = r->kernel + (size_t)(first * r->stride) * r->element,
                             .stride = r->stride,
                             .sums = r->sums + first,
                             .v = r->v,
                             .mass = r->mass,
                             .floors = r->floors,
                             .u = r->u + worker * TOKENS,
                             .columns = r->columns + index * r->experts,
                             .line = r->lines + (size_t)(worker * r->stride) * r->element,
                             .taken = r->taken + worker * words_of(r),
                             .take = r->problem.take,
                             .chosen = r->chosen + first * r->problem.take,
                             .shares = r->shares + first * r->problem.take,
                             .loads = r->loads + index * r->experts};
}

static void form_task(void *context, int64_t index, int worker) {
    router *r = context;
    const ota_route_block block = block_of(r, index, worker);
    const int64_t broken = r->passes->form(&block);
    memset(block.columns, 0, (size_t)r->experts * sizeof *block.columns);
    if (broken < 0) {
        r->passes->round(&block);
        return;
    }
    int64_t least = atomic_load(&r->broken);
    const int64_t here = index * TOKENS + broken;
    while (here < least && !atomic_compare_exchange_weak(&r->broken, &least, here)) continue;
}

static void round_task(void *context, int64_t index, int worker) {
    const router *r = context;
    const ota_route_block block = block_of(r, index, worker);
    memset(block.columns, 0, (size_t)r->experts * sizeof *block.columns);
    r->passes->round(&block);
}

static void choose_task(void *context, int64_t index, int worker) {
    const router *r = context;
    ota_route_block block = block_of(r, index, worker);
    memset(block.loads, 0, (size_t)r->experts * sizeof *block.loads);
    r->passes->choose(&block);
    r->values[index] = block.value;
}

/* v from the column sums; returns its mean change. */
static double update(const router *r) {
    double change = 0.0;
    memset(r->next, 0, (size_t)r->experts * sizeof *r->next);
    for (int64_t b = 0; b < r->blocks; b++) {
        for (int64_t j = 0; j < r->experts; j++) r->next[j] += r->columns[b * r->experts + j];
    }
    for (int64_t j = 0; j < r->experts; j++) {
        const double before = v_at(r, j);
        put_v(r, j, 1.0 / ((double)r->experts * (r->next[j] + eps)));
        change += fabs(v_at(r, j) - before);
    }
    return change / (double)r->experts;
}

static ota_status tell_broken(const router *r, ota_error *error) {
    const int64_t i = r->broken;
    int64_t j = 0;
    while (isfinite(ota_array_get(&r->problem.logits, 0, 0, i, j))) j++;
    return ota_fail(error, OTA_NONFINITE, "logits", "give finite numbers",
                    "logits[%" PRId64 ", %" PRId64 "] is %g", i, j,
                    ota_array_get(&r->problem.logits, 0, 0, i, j));
}

static ota_status solve(router *r, ota_routing_result *found, ota_error *error) {
    const ota_routing *p = &r->problem;
    const double tolerance = p->tolerance > 0.0 ? p->tolerance : usual_tolerance;
    const int64_t most = p->rounds > 0 ? p->rounds : ROUNDS;
    begin(r);
    ota_parallel(r->pool, r->blocks, form_task, r);
    if (r->broken < r->tokens) return tell_broken(r, error);
    for (found->rounds = 1;; found->rounds++) {
        found->converged = update(r) <= tolerance;
        if (found->converged != 0 || found->rounds >= most) break;
        const ota_status status = ota_interrupted(&r->settings);
        if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
        ota_parallel(r->pool, r->blocks, round_task, r);
    }
    /* Nothing can fail any more. */
    if (found->chosen != NULL) r->chosen = found->chosen;
    if (found->shares != NULL) r->shares = found->shares;
    ota_parallel(r->pool, r->blocks, choose_task, r);
    return found->converged != 0 ? OTA_OK : OTA_PARTIAL;
}

/* ---- the answer -------------------------------------------------------------------------------- */

/* Loads, potentials and the value; the choices lie where they belong. */
static void hand_over(const router *r, ota_routing_result *found) {
    for (int64_t j = 0; j < r->experts; j++) {
        int64_t load = 0;
        for (int64_t b = 0; b < r->blocks; b++) load += r->loads[b * r->experts + j];
        if (found->loads != NULL) found->loads[j] = load;
        if (found->potentials != NULL) found->potentials[j] = log(v_at(r, j));
    }
    found->value = 0.0;
    for (int64_t b = 0; b < r->blocks; b++) found->value += r->values[b];
}

ota_status ota_route(const ota_routing *problem, const ota_options *options,
                     ota_routing_result *result, ota_error *error) {
    router r = {0};
    ota_routing_result found = {0};
    if (result == NULL) return ota_fail(error, OTA_EINVAL, "result", "give one", "result is NULL");
    TRY(ota_check_sized(&found, sizeof found, result, result->size, "result.size", error));
    TRY(check(&r, problem, options, error));
    ota_status status = place(&r, error);
    if (status == OTA_OK) status = solve(&r, &found, error);
    if (status >= 0) {
        hand_over(&r, &found);
        memcpy(result, &found, ota_size_min(found.size, sizeof found));
    }
    ota_arena_release(&r.arena);
    ota_pool_free(r.pool);
    return status;
}
