/* What one head does: the scores of named heads of a pattern P [n, n] over tokens, in one pass over its pairs.
 *
 *     rows        masses on the pairs that a name means, row by row
 *     offsets     SS_within = sum_o (sum P^2 - (sum P)^2 / pairs), positional = 1 - SS_within / SS_total
 *     keys        mean weight that a key gets from the rows i != j which see it
 */
#include "analysis/numbers.h"
#include "base/sized.h"

enum { LOCAL = 8 };

/* Weights and pairs of one offset or key. */
typedef struct group {
    double sum, squares, count;
} group;

typedef struct head_job {
    analysis_numbers weights;
    ota_head_view view;
    group *offsets; /* [2 n - 1]: i - j = offset - (n - 1) */
    group *keys;    /* [n] */
    double *sorted; /* [2 n] */
} head_job;

/* What one row has of everything; counts are of pairs that it sees. */
typedef struct row_scores {
    double mass, previous, duplicate, induction, near, distance;
    int64_t duplicates, inductions, far, seen;
    bool has_previous;
} row_scores;

typedef struct sums {
    analysis_sum mass, previous, duplicate, induction, near, distance;
    int64_t previous_rows, near_rows;
} sums;

static bool sees(const ota_head_view *v, int64_t i, int64_t j) {
    if (v->causal != 0 && j > i) return false;
    return v->reach == 0 || llabs(i - j) <= v->reach;
}

/* Keys that row i sees. */
static int64_t count_seen(const ota_head_view *v, int64_t i) {
    const int64_t reach = v->reach == 0 || v->reach > v->tokens ? v->tokens : v->reach;
    const int64_t first = i > reach ? i - reach : 0, last = v->tokens - 1;
    const int64_t end = v->causal != 0 ? i : i + reach < last ? i + reach : last;
    return end - first + 1;
}

/* One row's masses; its weights go to `row_weights` [n]. False at an entry that is no weight: *bad. */
static bool read_row(const head_job *job, int64_t i, double *row_weights, row_scores *row,
                     int64_t *bad, const analysis_call *call) {
    const ota_head_view *const v = &job->view;
    const int64_t n = v->tokens, *const t = v->ids;
    row_scores s = {.seen = count_seen(v, i)};
    const double even = 1.0 / (double)s.seen;
    for (int64_t j = 0; j < n && analysis_goes_on(call, j); j++) {
        const bool seen = sees(v, i, j);
        const double p = job->weights.data != NULL ? analysis_at(&job->weights, i * n + j)
                         : seen                    ? even
                                                   : 0.0;
        if (!(p >= 0.0) || isinf(p)) {
            *bad = i * n + j;
            return false;
        }
        row_weights[j] = p;
        s.mass += p;
        if (!seen) continue;
        const int64_t apart = llabs(i - j);
        const bool duplicate = j != i && t[j] == t[i];
        const bool induction = j > 0 && j - 1 != i && t[j - 1] == t[i];
        s.duplicates += duplicate;
        s.inductions += induction;
        s.duplicate += duplicate ? p : 0.0;
        s.induction += induction ? p : 0.0;
        s.far += apart >= v->local;
        s.near += apart < v->local ? p : 0.0;
        s.distance += p * (double)apart;
    }
    s.has_previous = i > 0 && sees(v, i, i - 1);
    s.previous = s.has_previous ? row_weights[i - 1] : 0.0;
    *row = s;
    return true;
}

static void add_weight(group *g, double p) {
    g->sum += p;
    g->squares += p * p;
    g->count += 1.0;
}

static void add_row(const head_job *job, int64_t i, const double *row_weights,
                    const row_scores *row, sums *s, ota_head_scores *scores,
                    const analysis_call *call) {
    const ota_head_view *const v = &job->view;
    analysis_add(&s->mass, row->mass);
    analysis_add(&s->previous, row->previous);
    analysis_add(&s->duplicate, row->duplicate);
    analysis_add(&s->induction, row->induction);
    analysis_add(&s->distance, row->distance);
    if (row->far > 0) analysis_add(&s->near, row->near);
    s->previous_rows += row->has_previous;
    s->near_rows += row->far > 0;
    scores->duplicate_rows += row->duplicates > 0;
    scores->induction_rows += row->inductions > 0;
    scores->rows++;
    for (int64_t j = 0; j < v->tokens && analysis_goes_on(call, j); j++) {
        if (!sees(v, i, j)) continue;
        if (row->seen > 1) add_weight(&job->offsets[i - j + v->tokens - 1], row_weights[j]);
        if (i != j) add_weight(&job->keys[j], row_weights[j]);
    }
}

/* The group of the largest mean among those of at least half as many pairs as any; -1: none. */
static int64_t find_largest(const group *groups, int64_t count, double *mean,
                            const analysis_call *call) {
    double most = 0.0;
    int64_t found = -1;
    for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++)
        most = groups[k].count > most ? groups[k].count : most;
    for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++) {
        if (!(groups[k].count > 0.0) || groups[k].count < 0.5 * most) continue;
        const double one = groups[k].sum / groups[k].count;
        if (found >= 0 && !(one > *mean)) continue;
        found = k;
        *mean = one;
    }
    return found;
}

/* The share of the variance of weights that their offsets explain. */
static double explain(const group *offsets, int64_t count, bool chance, const analysis_call *call) {
    double pairs = 0.0, kinds = 0.0;
    analysis_sum all = {0.0, 0.0}, squares = all, within = all;
    for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++) {
        const group *const g = &offsets[k];
        if (!(g->count > 0.0)) continue;
        pairs += g->count;
        kinds += 1.0;
        analysis_add(&all, g->sum);
        analysis_add(&squares, g->squares);
        analysis_add(&within, fmax(0.0, g->squares - g->sum * g->sum / g->count));
    }
    if (chance) return pairs > 1.0 ? (kinds - 1.0) / (pairs - 1.0) : (double)NAN;
    const double square = analysis_total(&squares), sum = analysis_total(&all);
    const double total = square - sum * sum / pairs;
    /* Weights that are all equal vary by rounding alone. */
    if (!(total > 1e-13 * square)) return (double)NAN;
    return fmax(0.0, 1.0 - analysis_total(&within) / total);
}

/* ||v|| of the sink over the median of the others. */
static double compare_values(const head_job *job, int64_t sink, const analysis_call *call) {
    const double *const norms = job->view.value_norms;
    int64_t count = 0;
    for (int64_t j = 0; j < job->view.tokens && analysis_goes_on(call, j); j++)
        if (j != sink) job->sorted[count++] = norms[j];
    if (count == 0) return (double)NAN;
    analysis_sort(job->sorted, count, job->sorted + job->view.tokens, call);
    const double median = 0.5 * (job->sorted[(count - 1) / 2] + job->sorted[count / 2]);
    return norms[sink] / median;
}

static void find_sink(const head_job *job, ota_head_scores *scores, const analysis_call *call) {
    scores->sink_key = find_largest(job->keys, job->view.tokens, &scores->sink, call);
    if (scores->sink_key < 0 || job->view.value_norms == NULL || job->weights.data == NULL) return;
    const double ratio = compare_values(job, scores->sink_key, call);
    scores->value_ratio = ratio;
    /* A ratio of 0 / 0 says nothing. */
    if (isnan(ratio)) return;
    scores->broadcast_sink = scores->sink * fmin(1.0, ratio);
    scores->nop_sink = scores->sink * fmax(0.0, 1.0 - ratio);
}

static double mean_of(const analysis_sum *sum, int64_t rows) {
    return rows > 0 ? analysis_total(sum) / (double)rows : (double)NAN;
}

static ota_status score(const head_job *job, double *row_weights, ota_head_scores *scores,
                        const analysis_call *call) {
    const double none = (double)NAN;
    const int64_t n = job->view.tokens;
    sums s = {.previous_rows = 0};
    double largest = none;
    *scores = (ota_head_scores){none, none, none, none, none, none, none, none, none,
                                none, none, none, none, -1,   0,    0,    0,    0};
    for (int64_t k = 0; k < 3 * n - 1 && analysis_goes_on(call, k); k++)
        job->offsets[k] = (group){0.0, 0.0, 0.0};
    for (int64_t i = 0; i < n && ota_analysis_goes_on(call); i++) {
        row_scores row;
        int64_t bad;
        if (!read_row(job, i, row_weights, &row, &bad, call)) {
            return ota_analysis_fail(call, OTA_EINVAL, "weights", "weights are finite, 0 or more",
                                     "weights[%" PRId64 ", %" PRId64 "] is %g", bad / n, bad % n,
                                     analysis_at(&job->weights, bad));
        }
        if (row.mass > 0.0) add_row(job, i, row_weights, &row, &s, scores, call);
    }
    if (scores->rows == 0) return OTA_OK;
    const double mass = analysis_total(&s.mass);
    scores->previous_token = mean_of(&s.previous, s.previous_rows);
    scores->duplicate_token = mean_of(&s.duplicate, scores->duplicate_rows);
    scores->induction = mean_of(&s.induction, scores->induction_rows);
    scores->local = mean_of(&s.near, s.near_rows);
    scores->previous_share = analysis_total(&s.previous) / mass;
    scores->duplicate_share = analysis_total(&s.duplicate) / mass;
    scores->induction_share = analysis_total(&s.induction) / mass;
    scores->distance = analysis_total(&s.distance) / mass;
    scores->positional = explain(job->offsets, 2 * n - 1, job->weights.data == NULL, call);
    const int64_t place = find_largest(job->offsets, 2 * n - 1, &largest, call);
    scores->offset = place < 0 ? 0 : place - (n - 1);
    find_sink(job, scores, call);
    return OTA_OK;
}

static ota_status check_view(const ota_head_view *v, const analysis_call *call) {
    ota_status status = analysis_check_size(v->tokens, 1, "tokens", call);
    if (status == OTA_OK) status = analysis_check_size(v->reach, 0, "reach", call);
    if (status == OTA_OK) status = analysis_check_size(v->local, 0, "local", call);
    if (status != OTA_OK) return status;
    if (v->ids == NULL)
        return ota_analysis_fail(call, OTA_EINVAL, "ids", "give an id a token", "ids are missing");
    if (v->weights != NULL && v->type != OTA_F32 && v->type != OTA_F64)
        return ota_analysis_fail(call, OTA_EINVAL, "type", "give OTA_F32 or OTA_F64",
                                 "type is %d, neither f32 nor f64", (int)v->type);
    for (int64_t j = 0; v->value_norms != NULL && j < v->tokens && analysis_goes_on(call, j); j++)
        if (!(v->value_norms[j] >= 0.0) || isinf(v->value_norms[j]))
            return ota_analysis_fail(call, OTA_EINVAL, "value_norms", "norms are finite, 0 or more",
                                     "value_norms[%" PRId64 "] is %g", j, v->value_norms[j]);
    return OTA_OK;
}

ota_status ota_head_scores_of(const ota_head_view *view, ota_head_scores *scores,
                              const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    head_job job;
    if (!ota_sized_read(&job.view, sizeof job.view, view, view->size))
        return ota_analysis_fail(&call, OTA_EINVAL, "size", "set size to sizeof(ota_head_view)",
                                 "size is %zu, not %zu", view->size, sizeof job.view);
    ota_status status = check_view(&job.view, &call);
    if (status != OTA_OK) return status;
    const int64_t n = job.view.tokens;
    if (job.view.local == 0) job.view.local = LOCAL;
    job.weights = (analysis_numbers){job.view.weights, job.view.type};
    /* Groups of 3 doubles: 2 n - 1 offsets and n keys; a row; 2 n to sort in. */
    double *const room = analysis_doubles(n > INT64_MAX / 96 ? INT64_MAX : 12 * n, &status, &call);
    if (room == NULL) return status;
    job.offsets = (group *)(void *)room;
    job.keys = job.offsets + (2 * n - 1);
    job.sorted = room + 9 * n;
    status = score(&job, room + 11 * n, scores, &call);
    free(room);
    return ota_analysis_end(status, &call);
}
