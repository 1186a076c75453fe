/* The methods of otattn_route.h: Sinkhorn's rounds on a kernel that is formed once, the largest logits, the exact optimum by
 * otattn_bounded.h on costs -logits, and alternating quantiles. Each leaves the choices of all tokens, and potentials. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "otattn_bounded.h"
#include "bounded_assignment.h"
#include "problem/check.h"
#include "route.h"

enum { NEAR = 32, SINKHORN_ROUNDS = 1000, QUANTILE_ROUNDS = 100 };
static const double eps = 1.0e-8, usual_tolerance = 1.0e-4, largest_start = 80.0;

static void put(const ota_route_call *r, int64_t j, double value) {
    if (r->narrow)
        ((float *)r->v)[j] = (float)value;
    else
        ((double *)r->v)[j] = value;
}

static double at(const ota_route_call *r, int64_t j) {
    return r->narrow ? (double)((const float *)r->v)[j] : ((const double *)r->v)[j];
}

static double tolerance_of(const ota_route_call *r) {
    return r->problem.tolerance > 0.0 ? r->problem.tolerance : usual_tolerance;
}

/* The choices go where the caller wants them, once nothing can fail any more. */
static void aim(ota_route_call *r, const ota_routing_result *found) {
    if (found->chosen != NULL) r->choice.chosen = found->chosen;
    if (found->shares != NULL) r->choice.shares = found->shares;
    if (found->weights != NULL) r->choice.weights = found->weights;
}

/* What was found goes to the caller's memory, where only the end told that nothing failed. */
static void copy(const ota_route_call *r, const ota_routing_result *found) {
    const size_t choices = (size_t)(r->tokens * r->problem.take);
    if (found->chosen != NULL)
        memcpy(found->chosen, r->choice.chosen, choices * sizeof *r->choice.chosen);
    if (found->shares != NULL)
        memcpy(found->shares, r->choice.shares, choices * sizeof *r->choice.shares);
    if (found->weights != NULL) memcpy(found->weights, r->choice.weights, choices * r->element);
}

static void count(ota_route_call *r, ota_route_block *block, int64_t index) {
    memset(block->loads, 0, (size_t)r->experts * sizeof *block->loads);
    r->passes->count(block);
    r->choice.values[index] = block->value;
}

/* ---- Sinkhorn ---------------------------------------------------------------------------------- */

static void begin(ota_route_call *r) {
    const double *start = r->problem.start;
    double mean = 0.0;
    for (int64_t j = 0; start != NULL && j < r->experts; j++) mean += start[j] / (double)r->experts;
    for (int64_t j = 0; j < r->experts; j++) {
        const double from = start == NULL ? 0.0 : start[j] - mean;
        put(r, j, exp(fmax(-largest_start, fmin(largest_start, from))));
    }
    for (int64_t i = 0; i < OTA_ROUTE_TOKENS; i++) {
        r->rounds.mass[i] = 1.0 / (double)r->tokens;
        r->rounds.floors[i] = eps;
    }
}

static void form_task(void *context, int64_t index, int worker) {
    ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    const ota_route_block block = ota_route_block_of(r, index, worker);
    memset(block.columns, 0, (size_t)r->experts * sizeof *block.columns);
    /* The first round reads few rows while they lie in the nearest cache. */
    for (int64_t i = 0; i < block.rows; i += NEAR) {
        ota_route_block part = block;
        part.rows = ota_int_min(NEAR, block.rows - i);
        part.logits = (const unsigned char *)block.logits +
                      (ptrdiff_t)(i * block.logits_stride) * (ptrdiff_t)r->element;
        part.kernel = (unsigned char *)block.kernel + (size_t)(i * r->stride) * r->element;
        part.sums = block.sums + i;
        if (!ota_route_form(r, &part, index * OTA_ROUTE_TOKENS + i)) return;
        r->passes->round(&part);
    }
}

static void round_task(void *context, int64_t index, int worker) {
    const ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    const ota_route_block block = ota_route_block_of(r, index, worker);
    memset(block.columns, 0, (size_t)r->experts * sizeof *block.columns);
    r->passes->round(&block);
}

static void choose_scaled_task(void *context, int64_t index, int worker) {
    ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    ota_route_block block = ota_route_block_of(r, index, worker);
    r->passes->choose_scaled(&block);
    count(r, &block, index);
}

/* v from the column sums; returns its mean change. */
static double update(const ota_route_call *r) {
    double change = 0.0;
    memset(r->next, 0, (size_t)r->experts * sizeof *r->next);
    for (int64_t b = 0; b < r->blocks; b++) {
        for (int64_t j = 0; j < r->experts; j++)
            r->next[j] += r->rounds.columns[b * r->experts + j];
    }
    for (int64_t j = 0; j < r->experts; j++) {
        const double before = at(r, j);
        put(r, j, 1.0 / ((double)r->experts * (r->next[j] + eps)));
        change += fabs(at(r, j) - before);
    }
    return change / (double)r->experts;
}

ota_status ota_route_sinkhorn(ota_route_call *r, ota_routing_result *found, ota_error *error) {
    const int64_t most = r->problem.rounds > 0 ? r->problem.rounds : SINKHORN_ROUNDS;
    begin(r);
    ota_parallel(r->pool, r->blocks, form_task, r);
    if (r->nonfinite < r->tokens) return ota_route_report_nonfinite(r, error);
    for (found->rounds = 1;; found->rounds++) {
        found->converged = update(r) <= tolerance_of(r);
        if (found->converged != 0 || found->rounds >= most) break;
        TRY(ota_route_interrupted(r, error));
        ota_parallel(r->pool, r->blocks, round_task, r);
    }
    aim(r, found);
    ota_parallel(r->pool, r->blocks, choose_scaled_task, r);
    for (int64_t j = 0; j < r->experts; j++) r->biases[j] = log(at(r, j));
    return found->converged != 0 ? OTA_OK : OTA_PARTIAL;
}

/* ---- the largest logits + biases --------------------------------------------------------------- */

/* Without a start the logits themselves are compared, else sums in f64. */
static void choose_biased_task(void *context, int64_t index, int worker) {
    ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    ota_route_block block = ota_route_block_of(r, index, worker);
    if (!ota_route_form(r, &block, index * OTA_ROUTE_TOKENS)) return;
    if (r->problem.start == NULL && r->problem.method != OTA_ROUTE_QUANTILE &&
        r->problem.method != OTA_ROUTE_BASE) {
        r->passes->choose_biased(&block);
    } else {
        const ota_route_block wide = ota_route_wide_block(r, index, worker);
        r->wide->choose_biased(&wide);
    }
    count(r, &block, index);
}

static void start_biases(ota_route_call *r) {
    const double *start = r->problem.start;
    for (int64_t j = 0; j < r->experts; j++) {
        r->biases[j] = start == NULL ? 0.0 : start[j];
        put(r, j, r->biases[j]);
    }
}

ota_status ota_route_topk(ota_route_call *r, ota_routing_result *found, ota_error *error) {
    start_biases(r);
    ota_parallel(r->pool, r->blocks, choose_biased_task, r);
    if (r->nonfinite < r->tokens) return ota_route_report_nonfinite(r, error);
    copy(r, found);
    found->converged = 1;
    return OTA_OK;
}

/* ---- the exact optimum ------------------------------------------------------------------------- */

static void negate_task(void *context, int64_t index, int worker) {
    ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    const ota_route_block block = ota_route_block_of(r, index, worker);
    if (!ota_route_form(r, &block, index * OTA_ROUTE_TOKENS)) return;
    const int64_t first = index * OTA_ROUTE_TOKENS;
    for (int64_t i = 0; i < block.rows; i++) {
        for (int64_t j = 0; j < r->experts; j++) {
            const int64_t from = i * block.logits_stride + j, to = (first + i) * r->experts + j;
            if (r->narrow)
                ((float *)(void *)r->across)[to] = -((const float *)block.logits)[from];
            else
                ((double *)(void *)r->across)[to] = -((const double *)block.logits)[from];
        }
    }
}

static void count_task(void *context, int64_t index, int worker) {
    ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    ota_route_block block = ota_route_block_of(r, index, worker);
    if (block.shares != NULL || block.weights != NULL)
        (void)ota_route_form(r, &block, index * OTA_ROUTE_TOKENS);
    count(r, &block, index);
}

/* What was wrong with the costs and prices, which a caller of routing never saw, was wrong with logits and potentials. */
static ota_status named_by_logits(const ota_route_call *r, ota_status status, ota_error *error) {
    if (status != OTA_EINVAL) return status;
    if (r->tokens > INT32_MAX)
        return ota_fail(error, status, "logits", "give at most 2^31 - 1 tokens",
                        "there are %" PRId64 " tokens", r->tokens);
    for (int64_t j = 0; r->problem.start != NULL && j < r->experts; j++) {
        const double start = r->problem.start[j];
        if (fabs(start) <= OTA_BOUNDED_MOST_COST) continue;
        return ota_fail(error, status, "start", "give potentials between -1e290 and 1e290",
                        "start[%" PRId64 "] is %g", j, start);
    }
    for (int64_t i = 0; i < r->tokens; i++) {
        for (int64_t j = 0; j < r->experts; j++) {
            const double logit = ota_array_get(&r->problem.logits, 0, 0, i, j);
            if (fabs(logit) <= OTA_BOUNDED_MOST_COST) continue;
            return ota_fail(error, status, "logits", "give logits between -1e290 and 1e290",
                            "logits[%" PRId64 ", %" PRId64 "] is %g", i, j, logit);
        }
    }
    return status;
}

ota_status ota_route_base(ota_route_call *r, ota_routing_result *found, ota_error *error) {
    ota_parallel(r->pool, r->blocks, negate_task, r);
    if (r->nonfinite < r->tokens) return ota_route_report_nonfinite(r, error);
    for (int64_t j = 0; j < r->experts; j++) {
        r->next[j] = r->problem.start == NULL ? 0.0 : -r->problem.start[j];
        r->choice.loads[j] = ota_route_lower(r, j);
        r->choice.most_of[j] = ota_route_upper(r, j);
    }
    const ota_bounded problem = {.size = sizeof problem,
                                 .costs = ota_array_of(r->across, r->narrow ? OTA_F32 : OTA_F64, 1,
                                                       1, r->tokens, r->experts),
                                 .take = r->problem.take,
                                 .lower = r->choice.loads,
                                 .upper = r->choice.most_of,
                                 .start = r->problem.start == NULL ? NULL : r->next,
                                 .unproved = 1};
    ota_bounded_result answer = {
        .size = sizeof answer, .chosen = r->choice.chosen, .prices = r->biases};
    const ota_settings *s = &r->settings;
    const ota_options options = {.size = sizeof options,
                                 .threads = s->limits.threads,
                                 .executor = s->calls.executor,
                                 .cpu = s->limits.cpu,
                                 .cancel = s->calls.cancel,
                                 .deadline_ns = s->limits.deadline_ns};
    const ota_status status = ota_assign_bounded(&problem, &options, &answer, error);
    if (status < 0) return named_by_logits(r, status, error);
    for (int64_t j = 0; j < r->experts; j++) r->biases[j] = 0.0 - r->biases[j];
    if (found->chosen != NULL)
        memcpy(found->chosen, r->choice.chosen,
               (size_t)(r->tokens * r->problem.take) * sizeof *r->choice.chosen);
    aim(r, found);
    ota_parallel(r->pool, r->blocks, count_task, r);
    found->rounds = answer.paths;
    found->converged = 1;
    return OTA_OK;
}

/* ---- quantiles --------------------------------------------------------------------------------- */

static void turn_task(void *context, int64_t index, int worker) {
    ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    const ota_route_block block = ota_route_block_of(r, index, worker);
    if (ota_route_form(r, &block, index * OTA_ROUTE_TOKENS)) r->passes->transpose(&block);
}

static void thresholds_task(void *context, int64_t index, int worker) {
    const ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    const ota_route_block block = ota_route_block_of(r, index, worker);
    r->passes->thresholds(&block);
}

/* Places from 0 in the rising list of biases with which the expert is taken by 1, 2, ... tokens. Equal loads leave the open
 * interval from one to the next. */
static void expert_task(void *context, int64_t j, int worker) {
    const ota_route_call *r = context;
    if (ota_route_ends(r)) return;
    const int64_t lower = ota_route_lower(r, j), upper = ota_route_upper(r, j);
    const size_t row = (size_t)r->tokens * r->element;
    ota_route_expert expert = {.tokens = r->tokens,
                               .low = ota_int_max(lower - 1, 0),
                               .high = ota_int_min(upper, r->tokens - 1),
                               .thresholds = r->quantile.thresholds,
                               .logits = r->across + (size_t)j * row,
                               .kept = r->quantile.kept +
                                       (size_t)worker * (row + OTA_ROUTE_GROUP * r->element),
                               .centre = r->biases[j],
                               .width = r->quantile.widths[j]};
    if (lower == 0) expert.low = expert.high;
    if (upper >= r->tokens) expert.high = expert.low;
    r->passes->places(&expert);
    const double least = lower > 0 ? expert.least : (double)-INFINITY;
    const double most = upper < r->tokens ? expert.most : (double)INFINITY;
    double after = lower == upper ? 0.5 * (least + most) : fmin(fmax(0.0, least), most);
    r->quantile.found[j] = isfinite(after) ? after : 0.0;
}

/* Biases from the quantiles; returns their mean change, but for a common shift. */
static double move(const ota_route_call *r) {
    double mean = 0.0, change = 0.0;
    for (int64_t j = 0; j < r->experts; j++)
        mean += (r->quantile.found[j] - r->biases[j]) / (double)r->experts;
    for (int64_t j = 0; j < r->experts; j++) {
        const double moved = r->quantile.found[j] - r->biases[j];
        change += fabs(moved - mean);
        /* The next change is seldom larger. */
        r->quantile.widths[j] = 2.0 * fabs(moved) + 1.0e-4 * (fabs(r->quantile.found[j]) + 1.0);
        r->biases[j] = r->quantile.found[j];
        put(r, j, r->biases[j]);
    }
    return change / (double)r->experts;
}

ota_status ota_route_quantile(ota_route_call *r, ota_routing_result *found, ota_error *error) {
    const int64_t most = r->problem.rounds > 0 ? r->problem.rounds : QUANTILE_ROUNDS;
    start_biases(r);
    ota_parallel(r->pool, r->blocks, turn_task, r);
    if (r->nonfinite < r->tokens) return ota_route_report_nonfinite(r, error);
    for (int64_t j = 0; j < r->experts; j++) r->quantile.widths[j] = (double)INFINITY;
    found->rounds = 0;
    found->converged = r->problem.take == r->experts;
    while (found->converged == 0 && found->rounds < most) {
        TRY(ota_route_interrupted(r, error));
        ota_parallel(r->pool, r->blocks, thresholds_task, r);
        ota_parallel(r->pool, r->experts, expert_task, r);
        found->converged = move(r) <= tolerance_of(r);
        found->rounds++;
    }
    aim(r, found);
    ota_parallel(r->pool, r->blocks, choose_biased_task, r);
    return found->converged != 0 ? OTA_OK : OTA_PARTIAL;
}
