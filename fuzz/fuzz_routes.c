/* libFuzzer on otattn_route.h: logits, bounds and starts from bytes, by every method. Experts of a token rise, loads count them,
 * what is kept fits the bounds, weights are shares of 1, no choice beats the bound and the exact method meets it: on few tokens
 * against all choices there are. Another order of blocks gives the same bits; a refusal has a sentence. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_bytes.h"
#include "otattn_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { TOKENS = 520, EXPERTS = 8, TABLE = 61, FEW_TOKENS = 4, FEW_EXPERTS = 4 };

typedef struct answer {
    int64_t chosen[TOKENS * EXPERTS], loads[EXPERTS];
    double shares[TOKENS * EXPERTS], potentials[EXPERTS], bound;
    unsigned char weights[TOKENS * EXPERTS * sizeof(double)];
    uint8_t kept[TOKENS * EXPERTS];
    ota_status status;
    ota_routing_result result;
    ota_error error;
} answer;

typedef struct scene {
    ota_routing problem;
    int64_t tokens, experts, lower[EXPERTS], upper[EXPERTS];
    double wide[TOKENS * EXPERTS], start[EXPERTS];
    float narrow[TOKENS * EXPERTS];
    bool drops;
} scene;

/* Blocks from the last to the first, by workers in turn. */
static void backwards(void *user, int64_t count,
                      void (*body)(void *context, int64_t index, int worker), void *context) {
    (void)user;
    for (int64_t k = count; k-- > 0;) body(context, k, (int)(k % 2));
}

static void route(const scene *s, const ota_options *options, answer *a) {
    memset(a, 0, sizeof *a);
    a->result = (ota_routing_result){.size = sizeof a->result,
                                     .chosen = a->chosen,
                                     .shares = a->shares,
                                     .potentials = a->potentials,
                                     .loads = a->loads,
                                     .bound = &a->bound,
                                     .kept = s->drops ? a->kept : NULL,
                                     .weights = a->weights};
    a->status = ota_route(&s->problem, options, &a->result, &a->error);
}

static bool same(const answer *a, const answer *b) {
    return a->status == b->status && memcmp(a->chosen, b->chosen, sizeof a->chosen) == 0 &&
           memcmp(a->loads, b->loads, sizeof a->loads) == 0 &&
           memcmp(a->shares, b->shares, sizeof a->shares) == 0 &&
           memcmp(a->potentials, b->potentials, sizeof a->potentials) == 0 &&
           memcmp(a->weights, b->weights, sizeof a->weights) == 0 &&
           memcmp(a->kept, b->kept, sizeof a->kept) == 0 &&
           memcmp(&a->bound, &b->bound, sizeof a->bound) == 0 &&
           memcmp(&a->result.value, &b->result.value, sizeof a->result.value) == 0 &&
           a->result.rounds == b->result.rounds && a->result.excess == b->result.excess;
}

/* The largest sum of logits from token i on, with these loads before it. */
static double best_of(const scene *s, int64_t i, int64_t *loads) {
    double best = -INFINITY;
    if (i == s->tokens) {
        for (int64_t j = 0; j < s->experts; j++)
            if (loads[j] < s->lower[j]) return best;
        return 0.0;
    }
    for (unsigned set = 0; set < 1U << s->experts; set++) {
        double sum = 0.0;
        int64_t count = 0;
        bool fits = true;
        for (int64_t j = 0; j < s->experts; j++) {
            if (!(set >> j & 1U)) continue;
            count++;
            sum += s->wide[i * s->experts + j];
            fits &= loads[j] < s->upper[j];
        }
        if (count != s->problem.take || !fits) continue;
        for (int64_t j = 0; j < s->experts; j++) loads[j] += set >> j & 1U;
        sum += best_of(s, i + 1, loads);
        for (int64_t j = 0; j < s->experts; j++) loads[j] -= set >> j & 1U;
        best = fmax(best, sum);
    }
    return best;
}

/* Bounds that the library fills in where there are none. */
static void fill_bounds(scene *s) {
    const int64_t choices = s->tokens * s->problem.take;
    const bool even = s->problem.method != OTA_ROUTE_TOPK;
    for (int64_t j = 0; j < s->experts; j++) {
        if (s->problem.lower == NULL) s->lower[j] = even ? choices / s->experts : 0;
        if (s->problem.upper == NULL)
            s->upper[j] = even ? (choices + s->experts - 1) / s->experts : s->tokens;
        if (s->upper[j] > s->tokens) s->upper[j] = s->tokens;
    }
}

static double weight_of(const scene *s, const answer *a, int64_t at) {
    if (s->problem.logits.type == OTA_F64) {
        double weight;
        memcpy(&weight, a->weights + (size_t)at * sizeof weight, sizeof weight);
        return weight;
    }
    float weight;
    memcpy(&weight, a->weights + (size_t)at * sizeof weight, sizeof weight);
    return (double)weight;
}

/* Sums of a token's choices. */
static void check_token(const scene *s, const answer *a, int64_t i, int64_t *loads, int64_t *held) {
    const int64_t take = s->problem.take;
    const bool logistic = s->problem.method == OTA_ROUTE_SINKHORN && take == 1;
    double shares = 0.0, weights = 0.0;
    for (int64_t k = i * take; k < (i + 1) * take; k++) {
        const int64_t j = a->chosen[k];
        if (j < 0 || j >= s->experts || (k > i * take && j <= a->chosen[k - 1])) abort();
        loads[j]++;
        const bool kept = !s->drops || a->kept[k] == 1;
        if (s->drops && a->kept[k] > 1) abort();
        held[j] += kept;
        const double weight = weight_of(s, a, k);
        if (!(a->shares[k] >= 0.0 && a->shares[k] <= 1.0 + 1e-6)) abort();
        if (!(weight >= 0.0 && weight <= 1.0 + 1e-6) || (!kept && weight > 0.0)) abort();
        if (kept && !logistic && !(fabs(weight - a->shares[k]) <= 1e-6)) abort();
        shares += a->shares[k];
        weights += weight;
    }
    if (!(shares <= 1.0 + 1e-5)) abort();
    if (!logistic && !(weights <= 1.0 + 1e-5)) abort();
}

static void check(const scene *s, const answer *a, double largest) {
    const ota_routing_result *found = &a->result;
    const int64_t take = s->problem.take;
    int64_t loads[EXPERTS] = {0}, held[EXPERTS] = {0}, excess = 0;
    double value = 0.0, biases = 0.0;
    for (int64_t i = 0; i < s->tokens; i++) {
        check_token(s, a, i, loads, held);
        for (int64_t k = 0; k < take; k++)
            value += s->wide[i * s->experts + a->chosen[i * take + k]];
    }
    for (int64_t j = 0; j < s->experts; j++) {
        if (loads[j] != a->loads[j]) abort();
        if (s->drops && held[j] > s->upper[j]) abort();
        if (loads[j] > s->upper[j]) excess += loads[j] - s->upper[j];
        if (loads[j] < s->lower[j]) excess += s->lower[j] - loads[j];
        biases = fmax(biases, fabs(a->potentials[j]));
    }
    if (excess != found->excess) abort();
    if (s->problem.method == OTA_ROUTE_BASE && excess != 0) abort();
    const double count = (double)(s->tokens * s->experts);
    const double slack = 1e-12 * count * largest, proved = 1e-12 * count * (largest + biases);
    /* Sums of what is larger leave the range. */
    if (!isfinite(2.0 * count * largest)) return;
    if (!(fabs(value - found->value) <= slack)) abort();
    const bool proves = isfinite(2.0 * count * (largest + biases));
    if (proves && !isfinite(a->bound)) abort();
    if (proves && excess == 0 && !(value <= a->bound + proved)) abort();
    if (s->problem.method != OTA_ROUTE_BASE) return;
    if (s->problem.start == NULL && !(a->bound - value <= 64.0 * proved)) abort();
    if (s->tokens > FEW_TOKENS || s->experts > FEW_EXPERTS) return;
    int64_t none[EXPERTS] = {0};
    if (!(fabs(best_of(s, 0, none) - value) <= slack)) abort();
}

static double draw(fuzz_bytes *b, bool narrow) {
    const double x = fuzz_number(b);
    return narrow ? (double)(float)x : x;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static scene s;
    static answer first, second;
    fuzz_bytes b = {bytes, size};
    memset(&s, 0, sizeof s);
    const unsigned flags = fuzz_next(&b), shape = fuzz_next(&b);
    const bool narrow = flags & 1U, many = (flags & 6U) == 6U;
    s.experts = fuzz_below(&b, EXPERTS + 1);
    s.tokens = many ? 2 * (int64_t)shape + fuzz_below(&b, 11) : (int64_t)(shape % 10U);
    s.drops = flags & 8U;
    s.problem = (ota_routing){.size = sizeof s.problem,
                              .take = fuzz_below(&b, EXPERTS + 1),
                              .method = (ota_route_method)fuzz_below(&b, 5),
                              .rounds = fuzz_below(&b, 64)};
    if (flags & 16U) s.problem.tolerance = fuzz_number(&b);
    for (int64_t j = 0; j < s.experts; j++) {
        s.lower[j] = (int64_t)fuzz_below(&b, many ? 128 : 5) - (flags >= 240);
        s.upper[j] = s.lower[j] + fuzz_next(&b);
        s.start[j] = fuzz_number(&b);
    }
    if (flags & 32U) s.problem.lower = s.lower;
    if (flags & 64U) s.problem.upper = s.upper;
    if (flags & 128U) s.problem.start = s.start;
    double table[TABLE], largest = 1.0;
    for (int64_t k = 0; k < TABLE; k++) table[k] = draw(&b, narrow);
    for (int64_t k = 0; k < s.tokens * s.experts; k++) {
        const double x = k < TABLE ? table[k] : table[(k * 7 + k / TABLE) % TABLE];
        s.wide[k] = x;
        s.narrow[k] = (float)x;
        if (isfinite(x)) largest = fmax(largest, fabs(x));
    }
    s.problem.logits = ota_array_of(narrow ? (void *)s.narrow : s.wide, narrow ? OTA_F32 : OTA_F64,
                                    1, 1, s.tokens, s.experts);
    const ota_executor executor = {.run = backwards, .threads = 2};
    const ota_options alone = {.size = sizeof alone, .threads = 1};
    const ota_options reordered = {.size = sizeof reordered, .executor = &executor};
    route(&s, &alone, &first);
    route(&s, &reordered, &second);
    if (!same(&first, &second)) abort();
    if (first.status < 0) {
        if (first.error.message[0] == '\0') abort();
        return 0;
    }
    fill_bounds(&s);
    check(&s, &first, largest);
    return 0;
}
