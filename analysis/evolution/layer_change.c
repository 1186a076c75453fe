/* What a model predicts after each layer: one row of logits z [vocabulary], and two of them compared.
 *
 *     rest  = sum_{j != 1} exp(z_j - z_1),   p_1 = 1 / (1 + rest),   tail = rest / (1 + rest)
 *     H     = log(1 + rest) + sum_j p_j (z_1 - z_j)
 *     x_j   = log(a_j / b_j) = ((z'_j - z_j) - (z'_r - z_r)) - level,  r the leader of b,
 *     level = log(1 + rest') + (z'_1 - z'_r) - log(1 + rest)
 *     TV    = max(sum of (a - b)^+, sum of (a - b)^-), both without r
 *     H(a) - H(b) = sum of ota_entropy_term, where TV <= 1/2; beyond, nothing of the two entropies cancels
 *
 * The two log(1 + rest) leave an error e in the level and -e a_j in every a_j - b_j, whose sum, which is to be 0, says e: it is
 * taken out of TV; KL and, about the mean of log b, the entropies have it to second order alone. So two
 * predictions that sit on one token differ by terms as small as their tails. */
#include "layer_change.h"

#include "analysis/kernels/logit_kernels.h"
#include "base/integers.h"

#include <float.h>

enum { MOST_VOCABULARY = 1 << 24 };

static bool fits(int64_t vocabulary) { return vocabulary >= 1 && vocabulary <= MOST_VOCABULARY; }

static ota_status check_vocabulary(int64_t vocabulary, const analysis_call *call) {
    if (fits(vocabulary)) return OTA_OK;
    return ota_analysis_fail(call, OTA_EINVAL, "vocabulary", "give 1 to 2^24 symbols",
                             "vocabulary is %" PRId64, vocabulary);
}

size_t ota_evolve_row_bytes(int64_t vocabulary) {
    if (!fits(vocabulary)) return 0;
    return ota_size_round_up((size_t)vocabulary + EVOLVE_TOP, 2) * sizeof(int32_t);
}

size_t ota_evolve_scratch_bytes(int64_t vocabulary) {
    if (!fits(vocabulary)) return 0;
    return 2 * (size_t)vocabulary * sizeof(uint64_t) +
           EVOLVE_PASSES * EVOLVE_DIGITS * sizeof(uint32_t);
}

static ota_status refuse_logits(const float *logits, int64_t vocabulary,
                                const analysis_call *call) {
    int64_t j = 0;
    while (j + 1 < vocabulary && isfinite(logits[j])) j++;
    return ota_analysis_fail(call, OTA_EINVAL, "logits", "give finite logits",
                             "logits[%" PRId64 "] is %g", j, (double)logits[j]);
}

ota_status ota_layer_change_row(const float *logits, int64_t vocabulary, void *memory,
                                void *scratch, double *weights, ota_evolve_row *row,
                                const analysis_call *call) {
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    ota_status status = ota_analysis_end(check_vocabulary(vocabulary, call), call);
    if (status != OTA_OK) return status;
    logit_scan scan;
    kernels->scan(logits, vocabulary, &scan);
    if (scan.nonfinite) return refuse_logits(logits, vocabulary, call);
    int32_t *const ranks = memory, *const top = ranks + vocabulary;
    const double n = (double)vocabulary;
    *row = (ota_evolve_row){.logits = logits, .vocabulary = vocabulary, .ranks = ranks, .top = top};
    row->rank_squares = ota_layer_change_ranks(logits, vocabulary, (float)scan.least,
                                               (float)scan.most, ranks, top, scratch);
    status = ota_analysis_end(OTA_OK, call);
    if (status != OTA_OK) return status;
    row->index = top[0];
    row->max_logit = scan.most;
    row->mean = (double)logits[0] + scan.sum / n;
    logit_sums sums;
    kernels->weigh(logits, vocabulary, row->index, row->mean, weights, &sums);
    row->rest = sums.rest;
    row->log_sum_exp = scan.most + log1p(sums.rest);
    row->entropy = log1p(sums.rest) + sums.energy / (1.0 + sums.rest);
    row->max_probability = 1.0 / (1.0 + sums.rest);
    row->tail = sums.rest / (1.0 + sums.rest);
    row->deviation = scan.least < scan.most ? sqrt(sums.squares / n) : 0.0;
    return ota_analysis_end(OTA_OK, call);
}

ota_status ota_evolve_row_of(const float *logits, int64_t vocabulary, void *memory, void *scratch,
                             ota_evolve_row *row, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    return ota_layer_change_row(logits, vocabulary, memory, scratch, NULL, row, &call);
}

/* ---- two rows -------------------------------------------------------------------------------- */

static logit_side side_of(const ota_evolve_row *row) {
    return (logit_side){.logits = row->logits,
                        .ranks = row->ranks,
                        .top = row->max_logit,
                        .mean = row->mean,
                        .share = row->max_probability,
                        .log_share = -log1p(row->rest)};
}

static logit_pair pair_of(const ota_evolve_row *before, const ota_evolve_row *after) {
    const double z = (double)before->logits[before->index],
                 w = (double)after->logits[before->index];
    return (logit_pair){
        .before = side_of(before),
        .after = side_of(after),
        .common = w - z,
        .level = (after->max_logit - w) + (log1p(after->rest) - log1p(before->rest)),
        .centre = before->entropy,
        .leader = before->index,
        .count = before->vocabulary,
    };
}

/* shared[t] of the counts[t] largest are among the counts[t] largest of both. */
static void share_tops(const ota_evolve_row *before, const ota_evolve_row *after, double *shared) {
    static const int64_t counts[4] = {1, 5, 10, EVOLVE_TOP};
    const int64_t vocabulary = before->vocabulary;
    const int most = vocabulary < EVOLVE_TOP ? (int)vocabulary : EVOLVE_TOP;
    int met[EVOLVE_TOP] = {0};
    for (int i = 0; i < most; i++) {
        int place = most;
        for (int j = 0; j < most; j++) place = after->top[j] == before->top[i] ? j : place;
        if (place < most) met[ota_int_max(place, i)]++;
    }
    int together = 0, t = 0;
    for (int k = 1; k <= most; k++) {
        together += met[k - 1];
        if (k == counts[t]) shared[t++] = (double)together / (double)k;
    }
    while (t < 4) shared[t++] = (double)NAN;
}

/* product / (x y), NaN where a side is 0, never beyond 1. */
static double correlation(double product, double x, double y) {
    if (!(x > 0.0 && y > 0.0)) return (double)NAN;
    return fmax(-1.0, fmin(1.0, product / x / y));
}

static ota_status check_pair(const ota_evolve_row *before, const ota_evolve_row *after,
                             const analysis_call *call) {
    if (before->vocabulary == after->vocabulary) return OTA_OK;
    return ota_analysis_fail(call, OTA_EINVAL, "vocabulary", "compare rows of one model",
                             "%" PRId64 " logits before, %" PRId64 " after", before->vocabulary,
                             after->vocabulary);
}

/* The level's error is taken out of both parts. */
static double variation_of(const logit_changes *changes) {
    const double error = -(changes->rise - changes->fall + changes->leader);
    const double rise = changes->rise + error * changes->risen;
    const double fall = changes->fall - error * changes->fallen;
    return fmin(1.0, fmax(0.0, fmax(rise, fall)));
}

ota_status ota_layer_change_compare(const ota_evolve_row *before, const ota_evolve_row *after,
                                    const double *weights, ota_transition *transition,
                                    const analysis_call *call) {
    const ota_status status = check_pair(before, after, call);
    if (status != OTA_OK) return status;
    logit_pair pair = pair_of(before, after);
    pair.after.weights = weights;
    logit_changes changes;
    ota_logit_kernels_newest()->compare(&pair, &changes);
    ota_transition *const t = transition;
    const double n = (double)before->vocabulary;
    double tops[4];
    share_tops(before, after, tops);
    t->tv = t->w1 = variation_of(&changes);
    t->kl = fmax(0.0, changes.kl);
    t->js = fmax(0.0, changes.js);
    t->entropy_change = t->tv <= 0.5 ? changes.entropy : after->entropy - before->entropy;
    t->top1 = tops[0];
    t->top5 = tops[1];
    t->top10 = tops[2];
    t->top100 = tops[3];
    t->spearman = correlation(changes.ranks, sqrt(before->rank_squares), sqrt(after->rank_squares));
    t->max_logit_change = fmax(fabs(changes.least), fabs(changes.most));
    t->logit_range_half = 0.5 * (changes.most - changes.least);
    t->logit_correlation = correlation(changes.product / n, before->deviation, after->deviation);
    t->effective_temperature = 1.0 / before->deviation;
    const double sharp = tanh(0.5 * t->logit_range_half);
    t->sharp_ratio = sharp > 0.0 ? t->tv / sharp : 0.0;
    t->tail_before = before->tail;
    t->tail_after = after->tail;
    const double leader =
        exp(pair.common - (after->max_logit - before->max_logit)) / (1.0 + after->rest);
    t->saturation_bound =
        fmax(before->tail, before->index == after->index ? after->tail : 1.0 - leader);
    t->index_before = before->index;
    t->index_after = after->index;
    return ota_analysis_end(OTA_OK, call);
}

ota_status ota_evolve_transition(const ota_evolve_row *before, const ota_evolve_row *after,
                                 ota_transition *transition, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    return ota_layer_change_compare(before, after, NULL, transition, &call);
}

ota_status ota_layer_change_place(const ota_evolve_row *row, const double *weights,
                                  const ota_evolve_row *first, const ota_evolve_row *final,
                                  ota_prediction *prediction, const analysis_call *call) {
    ota_status status = check_pair(row, first, call);
    if (status == OTA_OK) status = check_pair(row, final, call);
    if (status != OTA_OK) return status;
    logit_pair pair = pair_of(row, final);
    pair.before.weights = weights;
    const logit_side start = side_of(first);
    logit_place place;
    ota_logit_kernels_newest()->place(&pair, &start, &place);
    *prediction = (ota_prediction){
        .entropy = row->entropy,
        .max_probability = row->max_probability,
        .tail = row->tail,
        .log_sum_exp = row->log_sum_exp,
        .kl_to_final = fmax(0.0, place.kl),
        .drift = fmin(2.0, place.drift),
        .index = row->index,
        .agrees = row->index == final->index,
    };
    return ota_analysis_end(OTA_OK, call);
}

ota_status ota_evolve_prediction(const ota_evolve_row *row, const ota_evolve_row *first,
                                 const ota_evolve_row *final, ota_prediction *prediction,
                                 ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    return ota_layer_change_place(row, NULL, first, final, prediction, &call);
}

ota_status ota_evolve_distance(const double *logits, const ota_evolve_row *row, double *distance,
                               ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    const int64_t vocabulary = row->vocabulary;
    double size = 0.0, top = logits[0];
    if (kernels->largest(logits, vocabulary, DBL_MAX, &size) != 0) {
        int64_t j = 0;
        while (isfinite(logits[j])) j++;
        return ota_analysis_fail(&call, OTA_EINVAL, "logits", "give finite logits",
                                 "logits[%" PRId64 "] is %g", j, logits[j]);
    }
    for (int64_t j = 1; j < vocabulary; j++) top = logits[j] > top ? logits[j] : top;
    const logit_side side = side_of(row);
    const double sum = kernels->apart(logits, top, 1.0 / kernels->mass(logits, top, vocabulary),
                                      &side, vocabulary);
    *distance = fmin(2.0, sum);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_layer_change_step(const float *logits, const ota_evolve_others *others, void *memory,
                                 void *scratch, ota_evolve_row *row, ota_transition *transition,
                                 ota_prediction *prediction, const analysis_call *call) {
    const ota_evolve_row *before = others->before, *first = others->first, *final = others->final;
    double *const weights = scratch;
    ota_status status =
        ota_layer_change_row(logits, final->vocabulary, memory, scratch, weights, row, call);
    if (status == OTA_OK && prediction != NULL) {
        status = ota_layer_change_place(row, weights, first != NULL ? first : row, final,
                                        prediction, call);
    }
    if (status == OTA_OK && before != NULL && transition != NULL)
        status = ota_layer_change_compare(before, row, weights, transition, call);
    return ota_analysis_end(status, call);
}

ota_status ota_evolve_step(const float *logits, const ota_evolve_others *others, void *memory,
                           void *scratch, ota_evolve_row *row, ota_transition *transition,
                           ota_prediction *prediction, ota_error *error) {
    const analysis_call call = ota_analysis_begin(NULL, error);
    return ota_layer_change_step(logits, others, memory, scratch, row, transition, prediction,
                                 &call);
}
