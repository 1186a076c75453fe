/* otattn_route.h: checks, memory that a router keeps, and the way through a method. Blocks of tokens depend on the number of
 * tokens alone, and what is summed over blocks is added in their order. */
#include "route.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bounded_assignment.h"
#include "problem/check.h"

enum {
    LINE = 16, /* elements to which rows are padded: 64 bytes of f32 */
    /* Pairs that are worth threads of their own, which take some 50 us to start. */
    WORTH_THREADS = 1 << 20
};

struct ota_router {
    ota_settings settings;
    ota_batch_kernels kernels;
    ota_pool *pool; /* NULL until a problem is worth it */
    ota_arena arena;
};

/* A row of a method: how it is found, for how many experts at most, whether Sinkhorn's kernel of all tokens stays, and whether
 * bounds matter by default. */
typedef struct method {
    ota_status (*solve)(ota_route_call *r, ota_routing_result *found, ota_error *error);
    int64_t most_experts;
    bool whole_kernel, even;
} method;

static const method methods[] = {
    [OTA_ROUTE_SINKHORN] = {ota_route_sinkhorn, OTA_ROUTE_EXPERTS, true, true},
    [OTA_ROUTE_TOPK] = {ota_route_topk, OTA_ROUTE_EXPERTS, false, false},
    [OTA_ROUTE_BASE] = {ota_route_base, OTA_BOUNDED_COLUMNS, false, true},
    [OTA_ROUTE_QUANTILE] = {ota_route_quantile, OTA_ROUTE_EXPERTS, false, true},
    [OTA_ROUTE_GIVEN] = {ota_route_topk, OTA_ROUTE_EXPERTS, false, true}};
enum { METHODS = sizeof methods / sizeof methods[0] };

static const method *method_of(const ota_route_call *r) { return &methods[r->problem.method]; }

/* ---- checks ------------------------------------------------------------------------------------ */

int64_t ota_route_lower(const ota_route_call *r, int64_t j) {
    return r->problem.lower != NULL ? r->problem.lower[j] : r->least;
}

int64_t ota_route_upper(const ota_route_call *r, int64_t j) {
    return r->problem.upper != NULL ? ota_int_min(r->problem.upper[j], r->tokens) : r->most;
}

static ota_status check_loads(ota_route_call *r, ota_error *error) {
    const int64_t choices = r->tokens * r->problem.take;
    const bool even = method_of(r)->even;
    int64_t least = 0, most = 0;
    r->least = even ? choices / r->experts : 0;
    r->most = even ? ota_int_ceil_div(choices, r->experts) : r->tokens;
    if (r->problem.lower == NULL && r->problem.upper == NULL) return OTA_OK;
    for (int64_t j = 0; j < r->experts; j++) {
        const int64_t lower = ota_route_lower(r, j), upper = ota_route_upper(r, j);
        if (lower < 0 || lower > upper)
            return ota_fail(error, lower < 0 ? OTA_EINVAL : OTA_INFEASIBLE, "lower",
                            "use 0 <= lower <= upper",
                            "expert %" PRId64 " is to hold from %" PRId64 " to %" PRId64
                            " of %" PRId64 " tokens",
                            j, lower, upper, r->tokens);
        least += lower;
        most += upper;
    }
    if (least > choices || most < choices)
        return ota_fail(
            error, OTA_INFEASIBLE, least > choices ? "lower" : "upper", "widen the bounds",
            "the bounds admit %" PRId64 " to %" PRId64 " choices of the %" PRId64 " that are made",
            least, most, choices);
    return OTA_OK;
}

static ota_status check_numbers(ota_route_call *r, ota_error *error) {
    const ota_routing *p = &r->problem;
    if (r->tokens < 1 || r->experts < 1)
        return ota_fail(error, OTA_EINVAL, "logits", "give at least one token and expert",
                        "logits are %" PRId64 " x %" PRId64, r->tokens, r->experts);
    if (p->take < 1 || p->take > r->experts)
        return ota_fail(error, OTA_EINVAL, "take", "use 1 to the number of experts",
                        "take is %" PRId64 " of %" PRId64 " experts", p->take, r->experts);
    if (!(p->tolerance >= 0.0) || !isfinite(p->tolerance))
        return ota_fail(error, OTA_EINVAL, "tolerance", "use a number above 0, or 0 for 1e-4",
                        "tolerance is %g", p->tolerance);
    if (p->rounds < 0)
        return ota_fail(error, OTA_EINVAL, "rounds", "use 1 or more, or 0 for the default",
                        "rounds is %" PRId64, p->rounds);
    if ((int)p->method < 0 || (int)p->method >= METHODS)
        return ota_fail(error, OTA_EINVAL, "method", "use one of ota_route_method", "method is %d",
                        (int)p->method);
    if (r->experts > method_of(r)->most_experts)
        return ota_fail(error, OTA_UNSUPPORTED, "logits", "use fewer experts, or another method",
                        "logits are of %" PRId64 " experts, more than the %" PRId64
                        " of its method",
                        r->experts, method_of(r)->most_experts);
    for (int64_t j = 0; p->start != NULL && j < r->experts; j++) {
        if (isfinite(p->start[j])) continue;
        return ota_fail(error, OTA_NONFINITE, "start", "give finite numbers, or NULL",
                        "start[%" PRId64 "] is %g", j, p->start[j]);
    }
    return check_loads(r, error);
}

static ota_status check(ota_route_call *r, const ota_routing *problem, ota_error *error) {
    ota_routing *p = &r->problem;
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give one", "problem is NULL");
    TRY(ota_check_sized(p, sizeof *p, problem, problem->size, "problem.size", error));
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

static int64_t words_of(const ota_route_call *r) { return r->stride / 64 + 1; }

static int64_t list_of(const ota_route_call *r) {
    return ota_int_max(r->problem.take + 1, OTA_ROUTE_SORTED) * OTA_ROUTE_GROUP;
}

static void lay_out(ota_route_call *r, const ota_routing_result *found, ota_arena *a) {
    const int64_t threads = ota_pool_threads(r->pool), take = r->problem.take;
    const int64_t scratch = threads * OTA_ROUTE_TOKENS;
    const ota_route_method name = r->problem.method;
    r->kernel = ota_arena_take_rows(a, method_of(r)->whole_kernel ? r->tokens : scratch, r->stride,
                                    r->element);
    r->scratch.lines = ota_arena_take_rows(a, threads * OTA_ROUTE_GROUP, r->stride, sizeof(double));
    r->scratch.best = ota_arena_take_rows(a, threads, list_of(r), sizeof(double));
    r->scratch.raised = ota_arena_take_rows(a, r->narrow ? scratch : 0, r->stride, sizeof(double));
    r->scratch.taken = ota_arena_take_rows(a, threads, words_of(r), sizeof *r->scratch.taken);
    r->v = ota_arena_take(a, (size_t)r->stride, r->element);
    r->biases = ota_arena_take(a, (size_t)r->stride, sizeof *r->biases);
    r->next = ota_arena_take(a, (size_t)r->experts, sizeof *r->next);
    r->rounds.sums = ota_arena_take(a, (size_t)r->tokens, sizeof *r->rounds.sums);
    r->rounds.columns = ota_arena_take_rows(a, r->blocks, r->experts, sizeof *r->rounds.columns);
    r->rounds.mass = ota_arena_take(a, OTA_ROUTE_TOKENS, sizeof *r->rounds.mass);
    r->rounds.floors = ota_arena_take(a, OTA_ROUTE_TOKENS, sizeof *r->rounds.floors);
    r->rounds.u = ota_arena_take(a, (size_t)scratch, sizeof *r->rounds.u);
    r->choice.chosen = ota_arena_take_rows(a, r->tokens, take, sizeof *r->choice.chosen);
    r->choice.shares = found->shares != NULL
                           ? ota_arena_take_rows(a, r->tokens, take, sizeof *r->choice.shares)
                           : NULL;
    r->choice.weights =
        found->weights != NULL ? ota_arena_take_rows(a, r->tokens, take, r->element) : NULL;
    r->choice.loads = ota_arena_take_rows(a, r->blocks, r->experts, sizeof *r->choice.loads);
    r->choice.values = ota_arena_take(a, (size_t)r->blocks, sizeof *r->choice.values);
    r->choice.proof =
        ota_arena_take_rows(a, found->bound != NULL ? scratch : 0, take, sizeof *r->choice.proof);
    const bool quantile = name == OTA_ROUTE_QUANTILE, copied = quantile || name == OTA_ROUTE_BASE;
    r->choice.most_of = ota_arena_take(a, name == OTA_ROUTE_BASE ? (size_t)r->experts : 0,
                                       sizeof *r->choice.most_of);
    r->across = ota_arena_take_rows(a, copied ? r->experts : 0, r->tokens, r->element);
    r->quantile.thresholds = ota_arena_take(a, quantile ? (size_t)r->tokens : 0, r->element);
    r->quantile.kept =
        ota_arena_take_rows(a, quantile ? threads : 0, r->tokens + OTA_ROUTE_GROUP, r->element);
    r->quantile.found =
        ota_arena_take(a, quantile ? (size_t)r->experts : 0, sizeof *r->quantile.found);
    r->quantile.widths =
        ota_arena_take(a, quantile ? (size_t)r->experts : 0, sizeof *r->quantile.widths);
    r->order = ota_arena_take(a, (size_t)ota_int_max(r->experts, r->tokens), sizeof *r->order);
}

static ota_status place(ota_route_call *r, ota_router *router, const ota_routing_result *found,
                        ota_error *error) {
    r->settings = router->settings;
    r->passes = r->narrow ? router->kernels.route_f32 : router->kernels.route_f64;
    r->wide = router->kernels.route_f64;
    r->stride = ota_int_round_up(r->experts, LINE);
    r->blocks = ota_int_ceil_div(r->tokens, OTA_ROUTE_TOKENS);
    const ota_settings *settings = &router->settings;
    if (settings->calls.executor != NULL || r->tokens >= WORTH_THREADS / r->experts) {
        if (router->pool == NULL) {
            const ota_status status =
                ota_pool_create(&router->pool, settings->limits.threads, settings->calls.executor);
            if (status != OTA_OK)
                return ota_fail(error, status, "", "", "%s", ota_status_text(status));
        }
        r->pool = router->pool;
    }
    ota_arena measured = {0}, *arena = &router->arena;
    lay_out(r, found, &measured);
    if (ota_arena_overflowed(&measured) || arena->base == NULL || measured.used > arena->size) {
        ota_arena_release(arena);
        lay_out(r, found, arena);
        const ota_status status = ota_arena_allocate(arena);
        if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
    }
    arena->used = 0;
    lay_out(r, found, arena);
    return OTA_OK;
}

ota_route_block ota_route_block_of(const ota_route_call *r, int64_t index, int worker) {
    const int64_t first = index * OTA_ROUTE_TOKENS, take = r->problem.take;
    const int64_t row = method_of(r)->whole_kernel ? first : (int64_t)worker * OTA_ROUTE_TOKENS;
    const ota_array *logits = &r->problem.logits;
    const ptrdiff_t from = (ptrdiff_t)(first * logits->stride[2]) * (ptrdiff_t)r->element;
    return (ota_route_block){
        .rows = ota_int_min(OTA_ROUTE_TOKENS, r->tokens - first),
        .experts = r->experts,
        .logits = (const unsigned char *)logits->data + from,
        .logits_stride = logits->stride[2],
        .kernel = r->kernel + (size_t)(row * r->stride) * r->element,
        .stride = r->stride,
        .sums = r->rounds.sums + first,
        .v = r->v,
        .biases = r->v,
        .mass = r->rounds.mass,
        .floors = r->rounds.floors,
        .u = r->rounds.u + (ptrdiff_t)worker * OTA_ROUTE_TOKENS,
        .columns = r->rounds.columns + index * r->experts,
        .lines = r->scratch.lines + (size_t)(worker * OTA_ROUTE_GROUP * r->stride) * sizeof(double),
        .best = r->scratch.best + (size_t)(worker * list_of(r)) * sizeof(double),
        .taken = r->scratch.taken + worker * words_of(r),
        .take = take,
        .chosen = r->choice.chosen + first * take,
        .shares = r->choice.shares == NULL ? NULL : r->choice.shares + first * take,
        .weights = r->choice.weights == NULL
                       ? NULL
                       : r->choice.weights + (size_t)(first * take) * r->element,
        .logistic = r->problem.method == OTA_ROUTE_SINKHORN && take == 1,
        .loads = r->choice.loads + index * r->experts,
        .thresholds = r->quantile.thresholds + (size_t)first * r->element,
        .across = r->across + (size_t)first * r->element,
        .across_stride = r->tokens};
}

ota_route_block ota_route_wide_block(const ota_route_call *r, int64_t index, int worker) {
    ota_route_block block = ota_route_block_of(r, index, worker);
    block.biases = r->biases;
    if (!r->narrow) return block;
    double *raised = r->scratch.raised + (ptrdiff_t)worker * OTA_ROUTE_TOKENS * r->stride;
    const float *logits = block.logits;
    for (int64_t i = 0; i < block.rows; i++) {
        for (int64_t j = 0; j < r->experts; j++)
            raised[i * r->stride + j] = (double)logits[i * block.logits_stride + j];
    }
    block.logits = raised;
    block.logits_stride = r->stride;
    return block;
}

bool ota_route_form(ota_route_call *r, const ota_route_block *block, int64_t first) {
    const int64_t nonfinite = r->passes->form(block);
    if (nonfinite < 0) return true;
    int64_t least = atomic_load(&r->nonfinite);
    const int64_t here = first + nonfinite;
    while (here < least && !atomic_compare_exchange_weak(&r->nonfinite, &least, here)) continue;
    return false;
}

bool ota_route_ends(const ota_route_call *r) { return ota_interrupted(&r->settings) != OTA_OK; }

ota_status ota_route_interrupted(const ota_route_call *r, ota_error *error) {
    const ota_status status = ota_interrupted(&r->settings);
    if (status == OTA_OK) return OTA_OK;
    return ota_fail(error, status, "", "", "%s", ota_status_text(status));
}

ota_status ota_route_report_nonfinite(const ota_route_call *r, ota_error *error) {
    const int64_t i = r->nonfinite;
    int64_t j = 0;
    while (isfinite(ota_array_get(&r->problem.logits, 0, 0, i, j))) j++;
    return ota_fail(error, OTA_NONFINITE, "logits", "give finite numbers",
                    "logits[%" PRId64 ", %" PRId64 "] is %g", i, j,
                    ota_array_get(&r->problem.logits, 0, 0, i, j));
}

/* ---- the calls --------------------------------------------------------------------------------- */

static ota_status make(ota_router *router, const ota_options *options, ota_error *error) {
    ota_resolved resolved = {.type = OTA_F64, .rule_rounds = -1};
    TRY(ota_resolve_options(&resolved, options, error));
    router->settings = resolved.settings;
    if (!ota_batch_kernels_of(router->settings.limits.cpu, &router->kernels))
        return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                        "cpu is '%s', which this processor cannot run",
                        router->settings.limits.cpu);
    return OTA_OK;
}

static void release(ota_router *router) {
    ota_arena_release(&router->arena);
    ota_pool_free(router->pool);
}

ota_status ota_router_create(ota_router **router, const ota_options *options, ota_error *error) {
    if (router == NULL)
        return ota_fail(error, OTA_EINVAL, "router", "give a place for it", "router is NULL");
    *router = NULL;
    ota_router *made = calloc(1, sizeof *made);
    if (made == NULL) return ota_fail(error, OTA_ENOMEM, "", "", "no memory for a router");
    const ota_status status = make(made, options, error);
    if (status != OTA_OK) {
        free(made);
        return status;
    }
    *router = made;
    return OTA_OK;
}

void ota_router_free(ota_router *router) {
    if (router == NULL) return;
    release(router);
    free(router);
}

ota_status ota_router_route(ota_router *router, const ota_routing *problem,
                            ota_routing_result *result, ota_error *error) {
    ota_route_call r = {0};
    ota_routing_result found = {0};
    if (router == NULL) return ota_fail(error, OTA_EINVAL, "router", "give one", "router is NULL");
    if (result == NULL) return ota_fail(error, OTA_EINVAL, "result", "give one", "result is NULL");
    TRY(ota_check_sized(&found, sizeof found, result, result->size, "result.size", error));
    TRY(check(&r, problem, error));
    TRY(place(&r, router, &found, error));
    atomic_store(&r.nonfinite, r.tokens);
    const ota_status status = method_of(&r)->solve(&r, &found, error);
    if (status < 0) return status;
    /* Blocks of a call that is to end are left out, and nothing of theirs is read. */
    TRY(ota_route_interrupted(&r, error));
    ota_route_answer(&r, &found);
    TRY(ota_route_interrupted(&r, error));
    memcpy(result, &found, ota_size_min(found.size, sizeof found));
    return status;
}

ota_status ota_route(const ota_routing *problem, const ota_options *options,
                     ota_routing_result *result, ota_error *error) {
    ota_router router = {0};
    TRY(make(&router, options, error));
    const ota_status status = ota_router_route(&router, problem, result, error);
    release(&router);
    return status;
}
