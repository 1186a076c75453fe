/* Divergences of two distributions over V symbols, and drift of logits and states between layers.
 *
 *     before b, after a [V]     d = a - b     x = log(a/b)
 *     TV   = sum of the positive parts of d, or of the negative ones: the side without the largest b
 *     KL   = sum b (x e^x - e^x + 1)             every term >= 0, no cancellation over the sum
 *     JS   = sum m ((1+t) log(1+t) + (1-t) log(1-t)) / 2,   m = (a+b)/2,  t = d / (a+b)
 *     1 - sum sqrt(ab) = sum (d / (sqrt a + sqrt b))^2 / 2
 *     H(a) - H(b) = - sum (d log b + a x)        small where a is close to b, which two rounded entropies are not
 *
 * From logits, with r the largest of b, e_j = (z'_j - z_j) - (z'_r - z_r) in units of the temperature:
 *
 *     x_j = e_j - log(1 + s),   s = sum_j b_j (exp(e_j) - 1) over j != r,   d_j = b_j expm1(x_j)
 *
 * so that two distributions that both sit on r differ only by terms as small as their tails. */
#include "analysis/kernels/logit_kernels.h"
#include "analysis/numbers.h"
#include "base/integers.h"

#include <stdlib.h>

/* ---- divergences --------------------------------------------------------------------------- */

typedef struct sums {
    analysis_sum rise, fall; /* of d, without the leader */
    double leader;           /* d of the leader */
    analysis_sum kl, kl_reverse, js, squares, entropy_before, entropy_after, entropy_change;
} sums;

/* ((1+t) log(1+t) + (1-t) log(1-t)) / 2 = sum_k t^2k / (2k (2k-1)) */
static double balanced_term(double t) {
    const double square = t * t;
    if (square >= 0.09) {
        const double less = t > 0.0 ? 1.0 - t : 1.0 + t, more = 2.0 - less;
        return 0.5 * (more * log(more) + (less > 0.0 ? less * log(less) : 0.0));
    }
    double power = 1.0, series = 0.0;
    for (int k = 1; k <= 16; k++) {
        power *= square;
        series += power / (2.0 * k * (2.0 * k - 1.0));
    }
    return series;
}

static void count_entry(sums *s, double before, double after, double difference, double x,
                        bool leader) {
    if (leader) {
        s->leader = difference;
    } else {
        analysis_add(difference > 0.0 ? &s->rise : &s->fall, fabs(difference));
    }
    analysis_add(&s->kl, analysis_relative_term(before, after, x));
    analysis_add(&s->kl_reverse, analysis_relative_term(after, before, -x));
    if (!(before + after > 0.0)) return;
    const double share = difference / (before + after);
    analysis_add(&s->js, 0.5 * (before + after) * balanced_term(share));
    const double root = difference / (sqrt(before) + sqrt(after));
    analysis_add(&s->squares, root * root);
}

static void conclude(const sums *s, ota_divergence *result) {
    result->tv = analysis_total(s->leader < 0.0 ? &s->rise : &s->fall);
    result->w1 = result->tv;
    result->kl = analysis_total(&s->kl);
    result->kl_reverse = analysis_total(&s->kl_reverse);
    result->js = analysis_total(&s->js);
    result->entropy_before = analysis_total(&s->entropy_before);
    result->entropy_after = analysis_total(&s->entropy_after);
    result->entropy_change = analysis_total(&s->entropy_change);
    const double square = fmin(0.5 * analysis_total(&s->squares), 1.0);
    result->hellinger = sqrt(square);
    result->fisher_rao = 4.0 * asin(sqrt(0.5 * square));
}

static double surprise(double p, double log_p) { return p > 0.0 ? -p * log_p : 0.0; }

/* The entry's parts of both entropies and of their change. */
static void count_entropies(sums *s, const double p[2], const double logs[2], double difference,
                            double x) {
    const double before = surprise(p[0], logs[0]), after = surprise(p[1], logs[1]);
    analysis_add(&s->entropy_before, before);
    analysis_add(&s->entropy_after, after);
    analysis_add(&s->entropy_change,
                 ota_entropy_term(difference, x, analysis_relative_term(p[0], p[1], x), logs[0],
                                  1.0, after, before));
}

/* log(after/before), +-inf where one is 0; near 1 from the difference, which is exact there. */
static double log_ratio(double before, double after) {
    if (fabs(after - before) < 0.5 * before) return log1p((after - before) / before);
    return log(after) - log(before);
}

ota_status ota_divergence_of(const double *before, const double *after, int64_t size,
                             ota_divergence *divergence, const ota_analysis_options *options,
                             ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double before_scale = 1.0, after_scale = 1.0;
    ota_status status = analysis_check_size(size, 1, "size", &call);
    if (status == OTA_OK)
        status = analysis_check_distribution(before, size, "before", &before_scale, &call);
    if (status == OTA_OK)
        status = analysis_check_distribution(after, size, "after", &after_scale, &call);
    if (status != OTA_OK) return status;
    int64_t leader = 0;
    for (int64_t i = 1; i < size && analysis_goes_on(&call, i); i++) {
        if (before[i] > before[leader]) leader = i;
    }
    sums s = {.leader = 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        const double b = before[i] * before_scale, a = after[i] * after_scale;
        if (!(a + b > 0.0)) continue;
        const double x = log_ratio(b, a);
        count_entropies(&s, (double[]){b, a}, (double[]){log(b), log(a)}, a - b, x);
        count_entry(&s, b, a, a - b, x, i == leader);
    }
    conclude(&s, divergence);
    return ota_analysis_end(OTA_OK, &call);
}

/* e_j */
static double excess_change(const analysis_softmax *before, const analysis_softmax *after,
                            int64_t i) {
    const int64_t r = before->leader;
    const double change = analysis_at(&after->z, i) - analysis_at(&before->z, i);
    const double common = analysis_at(&after->z, r) - analysis_at(&before->z, r);
    return (change - common) / before->temperature;
}

/* log(1 + s): by s while it is small, which is exact to the size of the tails, else from the two
 * totals. */
static double normaliser_change(const analysis_softmax *before, const analysis_softmax *after,
                                int64_t size, const analysis_call *call) {
    analysis_sum s = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        if (i == before->leader) continue;
        const double e = excess_change(before, after, i);
        const double log_weight = analysis_log_weight(before, i);
        analysis_add(&s,
                     e <= 1.0 ? exp(log_weight) * expm1(e) : exp(log_weight + e) - exp(log_weight));
    }
    if (fabs(analysis_total(&s)) <= 0.5) return log1p(analysis_total(&s));
    return -analysis_log_weight(after, before->leader) - before->log_total;
}

static ota_status check_logits(const analysis_numbers *before, const analysis_numbers *after,
                               int64_t size, double scale, const analysis_call *call) {
    ota_status status = analysis_check_size(size, 1, "size", call);
    if (status == OTA_OK) status = analysis_check_numbers(before, size, scale, "before", call);
    if (status == OTA_OK) status = analysis_check_numbers(after, size, scale, "after", call);
    return status;
}

ota_status ota_divergence_of_logits(const void *before, const void *after, ota_type type,
                                    int64_t size, double temperature, ota_divergence *divergence,
                                    const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers z = {before, type}, w = {after, type};
    ota_status status = analysis_check_temperature(temperature, &call);
    if (status == OTA_OK) status = check_logits(&z, &w, size, temperature, &call);
    if (status != OTA_OK) return status;
    const analysis_softmax b = analysis_softmax_of(z, size, temperature, &call);
    const analysis_softmax a = analysis_softmax_of(w, size, temperature, &call);
    const double level = normaliser_change(&b, &a, size, &call);
    sums s = {.leader = 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        const double log_before = analysis_log_weight(&b, i),
                     log_after = analysis_log_weight(&a, i);
        const double x = excess_change(&b, &a, i) - level;
        const double p = exp(log_before), q = exp(log_after);
        const double difference = fabs(x) <= 1.0 ? p * expm1(x) : q - p;
        count_entropies(&s, (double[]){p, q}, (double[]){log_before, log_after}, difference, x);
        count_entry(&s, p, q, difference, x, i == b.leader);
    }
    conclude(&s, divergence);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_tail_of(const void *logits, ota_type type, int64_t size, double temperature,
                       ota_tail *tail, const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers z = {logits, type};
    ota_status status = analysis_check_temperature(temperature, &call);
    if (status == OTA_OK) status = analysis_check_size(size, 1, "size", &call);
    if (status == OTA_OK) status = analysis_check_numbers(&z, size, temperature, "logits", &call);
    if (status != OTA_OK) return status;
    const analysis_softmax s = analysis_softmax_of(z, size, temperature, &call);
    double second = -(double)INFINITY;
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        if (i != s.leader) second = fmax(second, analysis_at(&z, i));
    }
    /* The logarithm from the second on, which does not underflow. */
    analysis_sum rest = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        if (i != s.leader) analysis_add(&rest, exp((analysis_at(&z, i) - second) / temperature));
    }
    tail->index = s.leader;
    tail->margin = s.top - second;
    tail->mass = s.rest / (1.0 + s.rest);
    tail->log_mass =
        size == 1 ? -(double)INFINITY
                  : (second - s.top) / temperature + log(analysis_total(&rest)) - s.log_total;
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- logits and states --------------------------------------------------------------------- */

/* About the first entry, so that the mean of equal numbers is that number. */
static double mean_of(const analysis_numbers *x, int64_t size, const analysis_call *call) {
    const double first = analysis_at(x, 0);
    analysis_sum sum = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        analysis_add(&sum, (analysis_at(x, i) - first) / (double)size);
    }
    return first + analysis_total(&sum);
}

/* Largest |x - center|, the unit in which squares are summed so that none overflows. */
static double spread_of(const analysis_numbers *x, int64_t size, double center,
                        const analysis_call *call) {
    double most = 0.0;
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++)
        most = fmax(most, fabs(analysis_at(x, i) - center));
    return most;
}

/* Squares and products of x - x_center and y - y_center in units of their spreads. */
typedef struct moments {
    double x_spread, y_spread, xx, yy, xy;
} moments;

static moments moments_of(const analysis_numbers *x, double x_center, const analysis_numbers *y,
                          double y_center, int64_t size, const analysis_call *call) {
    moments m = {.x_spread = spread_of(x, size, x_center, call),
                 .y_spread = spread_of(y, size, y_center, call)};
    const double x_unit = m.x_spread > 0.0 ? m.x_spread : 1.0;
    const double y_unit = m.y_spread > 0.0 ? m.y_spread : 1.0;
    analysis_sum xx = {0.0, 0.0}, yy = {0.0, 0.0}, xy = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        const double p = (analysis_at(x, i) - x_center) / x_unit;
        const double q = (analysis_at(y, i) - y_center) / y_unit;
        analysis_add(&xx, p * p);
        analysis_add(&yy, q * q);
        analysis_add(&xy, p * q);
    }
    m.xx = analysis_total(&xx);
    m.yy = analysis_total(&yy);
    m.xy = analysis_total(&xy);
    return m;
}

/* xy / sqrt(xx yy), NaN where a side is constant, never beyond 1. */
static double cosine_of(const moments *m) {
    if (!(m->x_spread > 0.0 && m->y_spread > 0.0)) return (double)NAN;
    return fmax(-1.0, fmin(1.0, m->xy / (sqrt(m->xx) * sqrt(m->yy))));
}

ota_status ota_logit_change_of(const void *before, const void *after, ota_type type, int64_t size,
                               ota_logit_change *change, const ota_analysis_options *options,
                               ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers z = {before, type}, w = {after, type};
    const ota_status status = check_logits(&z, &w, size, 1.0, &call);
    if (status != OTA_OK) return status;
    double least = (double)INFINITY, most = -(double)INFINITY;
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        const double d = analysis_at(&w, i) - analysis_at(&z, i);
        least = fmin(least, d);
        most = fmax(most, d);
    }
    const moments m =
        moments_of(&z, mean_of(&z, size, &call), &w, mean_of(&w, size, &call), size, &call);
    change->max_change = fmax(fabs(least), fabs(most));
    change->range_half = 0.5 * (most - least);
    change->correlation = cosine_of(&m);
    change->effective_temperature = 1.0 / (m.x_spread * sqrt(m.xx / (double)size));
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_state_change_of(const void *before, const void *after, ota_type type, int64_t size,
                               ota_state_change *change, const ota_analysis_options *options,
                               ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers h = {before, type}, g = {after, type};
    const ota_status status = check_logits(&h, &g, size, 1.0, &call);
    if (status != OTA_OK) return status;
    double most = 0.0;
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        most = fmax(most, fabs(analysis_at(&g, i) - analysis_at(&h, i)));
    }
    analysis_sum squares = {0.0, 0.0};
    for (int64_t i = 0; i < size && most > 0.0 && analysis_goes_on(&call, i); i++) {
        const double d = (analysis_at(&g, i) - analysis_at(&h, i)) / most;
        analysis_add(&squares, d * d);
    }
    const moments m = moments_of(&h, 0.0, &g, 0.0, size, &call);
    change->norm_change = most * sqrt(analysis_total(&squares));
    change->relative_l2 = change->norm_change / (m.x_spread * sqrt(m.xx));
    change->cosine = cosine_of(&m);
    change->max_coordinate_change = most;
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- ranks --------------------------------------------------------------------------------- */

typedef struct item {
    uint64_t key; /* smaller key = larger number */
    int64_t index;
} item;

static uint64_t key_of(double x) {
    const double plain = x + 0.0; /* -0 and 0 are equals */
    uint64_t bits;
    memcpy(&bits, &plain, sizeof bits);
    /* Ascending keys for descending numbers. */
    return bits >> 63 ? bits : ~(bits | UINT64_C(1) << 63);
}

/* Descending and stable, so among equals the lower index comes first: one counting pass per byte that
 * is not the same everywhere. The sorted array is the one returned; NULL: interrupted. */
static item *sort_items(const analysis_numbers *x, int64_t size, item *items, item *other,
                        const analysis_call *call) {
    int64_t counts[8][256] = {{0}};
    for (int64_t i = 0; i < size; i++) {
        if (!analysis_goes_on(call, i)) return NULL;
        items[i] = (item){key_of(analysis_at(x, i)), i};
        for (int byte = 0; byte < 8; byte++) counts[byte][items[i].key >> 8 * byte & 255]++;
    }
    for (int byte = 0; byte < 8; byte++) {
        if (counts[byte][items[0].key >> 8 * byte & 255] == size) continue;
        int64_t start = 0;
        for (int digit = 0; digit < 256; digit++) {
            const int64_t here = counts[byte][digit];
            counts[byte][digit] = start;
            start += here;
        }
        for (int64_t i = 0; i < size; i++) {
            if (!analysis_goes_on(call, i)) return NULL;
            other[counts[byte][items[i].key >> 8 * byte & 255]++] = items[i];
        }
        item *const sorted = other;
        other = items;
        items = sorted;
    }
    return items;
}

/* Last index of the run of equals that starts at `first`. */
static int64_t run_end(const item *sorted, int64_t first, int64_t size) {
    int64_t last = first;
    while (last + 1 < size && sorted[last + 1].key == sorted[first].key) last++;
    return last;
}

/* Memory of all of these lies behind `items`, [size] each. */
typedef struct rank_space {
    item *items, *other;
    int64_t *place;
    double *rank;
} rank_space;

static void rank_change(const analysis_numbers *z, const analysis_numbers *w, int64_t size,
                        const rank_space *space, ota_rank_change *change,
                        const analysis_call *call) {
    int64_t *const place = space->place;
    double *const rank = space->rank;
    const double middle = 0.5 * (double)(size - 1);
    double xx = 0.0, yy = 0.0, xy = 0.0;
    const item *sorted = sort_items(z, size, space->items, space->other, call);
    if (sorted == NULL) return;
    for (int64_t first = 0, last; first < size; first = last + 1) {
        last = run_end(sorted, first, size);
        const double centred = 0.5 * (double)(first + last) - middle;
        for (int64_t i = first; i <= last; i++) {
            if (!analysis_goes_on(call, i)) return;
            place[sorted[i].index] = i;
            rank[sorted[i].index] = centred;
            xx += centred * centred;
        }
    }
    sorted = sort_items(w, size, space->items, space->other, call);
    if (sorted == NULL) return;
    for (int64_t first = 0, last; first < size; first = last + 1) {
        last = run_end(sorted, first, size);
        const double centred = 0.5 * (double)(first + last) - middle;
        for (int64_t i = first; i <= last; i++) {
            if (!analysis_goes_on(call, i)) return;
            yy += centred * centred;
            xy += centred * rank[sorted[i].index];
        }
    }
    if (change->spearman != NULL)
        *change->spearman = xx > 0.0 && yy > 0.0 ? xy / sqrt(xx) / sqrt(yy) : (double)NAN;
    for (int64_t t = 0; t < change->count && change->overlap != NULL; t++) {
        const int64_t most = change->counts[t];
        int64_t shared = 0;
        for (int64_t i = 0; i < most && analysis_goes_on(call, i); i++)
            shared += place[sorted[i].index] < most;
        change->overlap[t] = (double)shared / (double)most;
    }
}

/* size * each bytes, or NULL with the status in *status. */
static void *allocate(int64_t size, size_t each, ota_status *status, const analysis_call *call) {
    void *memory = (uint64_t)size > SIZE_MAX / each ? NULL : malloc((size_t)size * each);
    if (memory == NULL) {
        *status = ota_analysis_fail(call, OTA_ENOMEM, "size", "use fewer symbols",
                                    "no memory for %" PRId64 " values", size);
    }
    return memory;
}

ota_status ota_rank_change_of(const void *before, const void *after, ota_type type, int64_t size,
                              ota_rank_change *change, const ota_analysis_options *options,
                              ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers z = {before, type}, w = {after, type};
    ota_status status = check_logits(&z, &w, size, 1.0, &call);
    if (status != OTA_OK) return status;
    for (int64_t t = 0; t < change->count; t++) {
        if (change->counts[t] < 1 || change->counts[t] > size) {
            return ota_analysis_fail(&call, OTA_EINVAL, "counts",
                                     "choose 1 to the number of symbols",
                                     "counts[%" PRId64 "] is %" PRId64 " of %" PRId64 " symbols", t,
                                     change->counts[t], size);
        }
    }
    const size_t each = 2 * sizeof(item) + sizeof(int64_t) + sizeof(double);
    item *const items = allocate(size, each, &status, &call);
    if (items == NULL) return status;
    rank_space space = {.items = items, .other = items + size};
    space.place = (int64_t *)(void *)(space.other + size);
    space.rank = (double *)(void *)(space.place + size);
    rank_change(&z, &w, size, &space, change, &call);
    free(items);
    return ota_analysis_end(OTA_OK, &call);
}

/* Quantile of values sorted in descending order, linear between neighbours. */
static double quantile(const double *values, const item *sorted, int64_t count, double share) {
    const double position = share * (double)(count - 1);
    const int64_t below = (int64_t)position, above = ota_int_min(below + 1, count - 1);
    const double low = values[sorted[count - 1 - below].index];
    return low + (position - (double)below) * (values[sorted[count - 1 - above].index] - low);
}

/* Third and fourth central moments, of deviations in units of the largest so that no power overflows. */
static void shape_of(const analysis_numbers *x, double mean, double spread, int64_t count,
                     ota_summary *summary, const analysis_call *call) {
    analysis_sum second = {0.0, 0.0}, third = {0.0, 0.0}, fourth = {0.0, 0.0};
    for (int64_t i = 0; i < count && spread > 0.0 && analysis_goes_on(call, i); i++) {
        const double d = (analysis_at(x, i) - mean) / spread;
        analysis_add(&second, d * d);
        analysis_add(&third, d * d * d);
        analysis_add(&fourth, d * d * d * d);
    }
    const double m = analysis_total(&second) / (double)count;
    summary->skewness = analysis_total(&third) / (double)count / (m * sqrt(m));
    summary->kurtosis = analysis_total(&fourth) / (double)count / (m * m) - 3.0;
}

ota_status ota_summary_of(const double *values, int64_t count, ota_summary *summary,
                          const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const analysis_numbers x = {values, OTA_F64};
    ota_status status = analysis_check_size(count, 1, "count", &call);
    if (status == OTA_OK) status = analysis_check_numbers(&x, count, 1.0, "values", &call);
    if (status != OTA_OK) return status;
    item *const items = allocate(count, 2 * sizeof(item), &status, &call);
    if (items == NULL) return status;
    const item *const sorted = sort_items(&x, count, items, items + count, &call);
    if (sorted == NULL) {
        free(items);
        return ota_analysis_end(OTA_OK, &call);
    }
    summary->minimum = values[sorted[count - 1].index];
    summary->maximum = values[sorted[0].index];
    summary->median = quantile(values, sorted, count, 0.5);
    summary->p95 = quantile(values, sorted, count, 0.95);
    summary->p99 = quantile(values, sorted, count, 0.99);
    summary->mean = mean_of(&x, count, &call);
    const moments m = moments_of(&x, summary->mean, &x, summary->mean, count, &call);
    summary->deviation = count > 1 ? m.x_spread * sqrt(m.xx / (double)(count - 1)) : (double)NAN;
    summary->variation = summary->deviation / fabs(summary->mean);
    shape_of(&x, summary->mean, m.x_spread, count, summary, &call);
    free(items);
    return ota_analysis_end(OTA_OK, &call);
}
