/* numbers.h: arrays of f32 or f64 read as f64, compensated sums, and the checks
 * of distributions and logits, for the files of the analysis library that work on them. */
#ifndef OTATTN_ANALYSIS_NUMBERS_H
#define OTATTN_ANALYSIS_NUMBERS_H

#include "analysis.h"

/* Compensated sum (Neumaier): many terms cost two roundings. */
typedef struct analysis_sum {
    double total, rest;
} analysis_sum;

static inline void analysis_add(analysis_sum *s, double term) {
    const double total = s->total + term;
    /* Once infinite, the difference of infinities must not turn the sum into NaN. */
    if (isfinite(total)) {
        s->rest +=
            fabs(s->total) >= fabs(term) ? (s->total - total) + term : (term - total) + s->total;
    }
    s->total = total;
}

static inline double analysis_total(const analysis_sum *s) { return s->total + s->rest; }

/* to log(to/from) - to + from, the term of a relative entropy, with x = log(to/from) given: near 0 by
 * its series x^2/2 + x^3/3 + x^4/8 + ..., so that it is never below 0. */
static inline double analysis_relative_term(double from, double to, double x) {
    if (to == 0.0) return from;
    if (fabs(x) >= 0.25) return to * (x - 1.0) + from;
    double power = 0.5 * x * x, series = power;
    for (int n = 3; n <= 15; n++) {
        power *= x / n;
        series += (n - 1) * power;
    }
    return from * series;
}

typedef struct analysis_numbers {
    const void *data;
    ota_type type; /* OTA_F32 or OTA_F64 */
} analysis_numbers;

static inline double analysis_at(const analysis_numbers *x, int64_t i) {
    return x->type == OTA_F32 ? (double)((const float *)x->data)[i] : ((const double *)x->data)[i];
}

/* `size` numbers of either type, none beyond 1e300 * scale in size, so that differences of two stay
 * finite after a division by scale. */
static inline ota_status analysis_check_numbers(const analysis_numbers *x, int64_t size,
                                                double scale, const char *field,
                                                const analysis_call *call) {
    if (x->type != OTA_F32 && x->type != OTA_F64) {
        return ota_analysis_fail(call, OTA_EINVAL, "type", "give OTA_F32 or OTA_F64",
                                 "type is %d, neither f32 nor f64", (int)x->type);
    }
    const double most = 1e300 * fmin(scale, 1.0);
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        if (!(fabs(analysis_at(x, i)) <= most)) {
            return ota_analysis_fail(call, OTA_EINVAL, field,
                                     "give finite numbers of sensible size",
                                     "%s[%" PRId64 "] is %g, not a number up to %g in size", field,
                                     i, analysis_at(x, i), most);
        }
    }
    return ota_analysis_end(OTA_OK, call);
}

static inline ota_status analysis_check_temperature(double temperature, const analysis_call *call) {
    if (temperature > 0.0 && isfinite(temperature)) return OTA_OK;
    return ota_analysis_fail(call, OTA_EINVAL, "temperature", "choose a finite number above 0",
                             "temperature is %g", temperature);
}

/* *scale = 1 / sum when the `size` entries are a distribution, of sum 1 within 1e-6. */
static inline ota_status analysis_check_distribution(const double *p, int64_t size,
                                                     const char *field, double *scale,
                                                     const analysis_call *call) {
    analysis_sum sum = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        if (!(p[i] >= 0.0) || isinf(p[i])) {
            return ota_analysis_fail(call, OTA_EINVAL, field, "probabilities are finite, 0 or more",
                                     "%s[%" PRId64 "] is %g", field, i, p[i]);
        }
        analysis_add(&sum, p[i]);
    }
    if (!(fabs(analysis_total(&sum) - 1.0) <= 1e-6)) {
        return ota_analysis_fail(call, OTA_EINVAL, field, "divide the array by its sum",
                                 "the entries of %s sum to %.17g, not to 1", field,
                                 analysis_total(&sum));
    }
    *scale = 1.0 / analysis_total(&sum);
    return ota_analysis_end(OTA_OK, call);
}

/* Every row of coupling [rows, columns] is a distribution. */
static inline ota_status analysis_check_rows(const double *coupling, int64_t rows, int64_t columns,
                                             const char *field, const analysis_call *call) {
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        double scale;
        char name[48];
        (void)ota_snprintf(name, sizeof name, "%.16s row %" PRId64, field, i);
        const ota_status status =
            analysis_check_distribution(coupling + i * columns, columns, name, &scale, call);
        if (status != OTA_OK) return status;
    }
    return ota_analysis_end(OTA_OK, call);
}

/* The softmax of numbers / temperature in a form that keeps small tails: rest is the mass of all
 * others in units of the leader's. */
typedef struct analysis_softmax {
    analysis_numbers z;
    double temperature;
    int64_t leader; /* first index of the largest */
    double top, rest, log_total;
} analysis_softmax;

static inline analysis_softmax analysis_softmax_of(analysis_numbers z, int64_t size,
                                                   double temperature, const analysis_call *call) {
    analysis_softmax s = {.z = z, .temperature = temperature, .top = analysis_at(&z, 0)};
    for (int64_t i = 1; i < size && analysis_goes_on(call, i); i++) {
        if (analysis_at(&z, i) > s.top) {
            s.leader = i;
            s.top = analysis_at(&z, i);
        }
    }
    analysis_sum rest = {0.0, 0.0};
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        if (i != s.leader) analysis_add(&rest, exp((analysis_at(&z, i) - s.top) / temperature));
    }
    s.rest = analysis_total(&rest);
    s.log_total = log1p(s.rest);
    return s;
}

/* log p_i */
static inline double analysis_log_weight(const analysis_softmax *s, int64_t i) {
    return (analysis_at(&s->z, i) - s->top) / s->temperature - s->log_total;
}

/* Rising, by merging longer and longer runs; room [count]. Left early where the call is interrupted. */
static inline void analysis_sort(double *x, int64_t count, double *room,
                                 const analysis_call *call) {
    for (int64_t run = 1; run < count && ota_analysis_goes_on(call); run *= 2) {
        for (int64_t start = 0; start < count; start += 2 * run) {
            const int64_t middle = start + run < count ? start + run : count;
            const int64_t end = middle + run < count ? middle + run : count;
            int64_t low = start, high = middle;
            for (int64_t k = start; k < end && analysis_goes_on(call, k); k++)
                room[k] =
                    high == end || (low < middle && !(x[high] < x[low])) ? x[low++] : x[high++];
        }
        for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++) x[k] = room[k];
    }
}

/* `count` doubles, or NULL with the status set. */
static inline double *analysis_doubles(int64_t count, ota_status *status,
                                       const analysis_call *call) {
    double *const memory =
        (uint64_t)count > SIZE_MAX / sizeof(double) ? NULL : malloc((size_t)count * sizeof(double));
    if (memory == NULL)
        *status = ota_analysis_fail(call, OTA_ENOMEM, "count", "give fewer values",
                                    "no memory for %" PRId64 " numbers", count);
    return memory;
}

#endif
