/* Figures over many transitions: what a table or a curve prints about n values x.
 *
 *     mean, deviation (n - 1), quantiles       over the finite values
 *     interval     means of R draws of U units with replacement; its 2.5 % and 97.5 % quantiles
 *     tightness    r = l1 / (norm step)
 *     power law    log x = exponent log depth + log factor, least squares
 *     Mann-Kendall S = sum_{i<j} sign(x_j - x_i),
 *                  var S = (n (n-1) (2n+5) - sum over ties t (t-1) (2t+5)) / 18,  z = (S - sign S) / sd
 */
#include "analysis/numbers.h"
#include "base/integers.h"

#include <stdlib.h>

/* Linear between order statistics of `sorted`, rising. */
static double quantile(const double *sorted, int64_t count, double share) {
    const double place = share * (double)(count - 1);
    const int64_t below = (int64_t)place, above = ota_int_min(below + 1, count - 1);
    return sorted[below] + (place - (double)below) * (sorted[above] - sorted[below]);
}

/* About the first value, so that the mean of equal numbers is that number. */
static double mean_of(const double *x, int64_t count, const analysis_call *call) {
    analysis_sum sum = {0.0, 0.0};
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++)
        analysis_add(&sum, (x[i] - x[0]) / (double)count);
    return x[0] + analysis_total(&sum);
}

static double deviation_of(const double *x, int64_t count, double mean, const analysis_call *call) {
    double most = 0.0;
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++)
        most = fmax(most, fabs(x[i] - mean));
    if (count < 2) return (double)NAN;
    analysis_sum squares = {0.0, 0.0};
    for (int64_t i = 0; i < count && most > 0.0 && analysis_goes_on(call, i); i++) {
        const double d = (x[i] - mean) / most;
        analysis_add(&squares, d * d);
    }
    return most * sqrt(analysis_total(&squares) / (double)(count - 1));
}

/* ---- bootstrap ------------------------------------------------------------------------------ */

/* The next of a stream of 64 bits: a counter through a mixing of its bits (splitmix64 [steele2014]). */
static uint64_t next_bits(uint64_t *state) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Sums and counts of the finite values less `mean`, a unit each; units without any are dropped. */
static int64_t unit_sums(const double *values, int64_t count, int64_t unit, double mean,
                         double *sums, double *counts, const analysis_call *call) {
    int64_t units = 0;
    for (int64_t start = 0; start < count && analysis_goes_on(call, start); start += unit) {
        const int64_t end = unit < count - start ? start + unit : count;
        analysis_sum sum = {0.0, 0.0};
        int64_t finite = 0;
        for (int64_t i = start; i < end && analysis_goes_on(call, i); i++) {
            if (!isfinite(values[i])) continue;
            analysis_add(&sum, values[i] - mean);
            finite++;
        }
        if (finite == 0) continue;
        sums[units] = analysis_total(&sum);
        counts[units++] = (double)finite;
    }
    return units;
}

static ota_status bootstrap(const double *sums, const double *counts, int64_t units,
                            int64_t resamples, int64_t seed, ota_figure *figure,
                            const analysis_call *call) {
    ota_status status = OTA_OK;
    double *const means =
        analysis_doubles(resamples > INT64_MAX / 2 ? INT64_MAX : 2 * resamples, &status, call);
    if (means == NULL) return status;
    uint64_t state = (uint64_t)seed;
    for (int64_t r = 0; r < resamples && ota_analysis_goes_on(call); r++) {
        double sum = 0.0, weight = 0.0;
        for (int64_t k = 0; k < units && analysis_goes_on(call, k); k++) {
            /* The upper half of 32 bits times units, no division; units are below 2^32. */
            const int64_t drawn = (int64_t)((next_bits(&state) >> 32) * (uint64_t)units >> 32);
            sum += sums[drawn];
            weight += counts[drawn];
        }
        means[r] = sum / weight;
    }
    analysis_sort(means, resamples, means + resamples, call);
    figure->low = figure->mean + quantile(means, resamples, 0.025);
    figure->high = figure->mean + quantile(means, resamples, 0.975);
    figure->units = units;
    free(means);
    return OTA_OK;
}

/* ---- figures -------------------------------------------------------------------------------- */

static const ota_figure nothing = {(double)NAN, (double)NAN, (double)NAN,
                                   (double)NAN, (double)NAN, (double)NAN,
                                   (double)NAN, 0,           0};

typedef struct resampling {
    int64_t unit, resamples, seed;
} resampling;

/* room [2 count]. */
static ota_status fill(const double *values, int64_t count, const resampling *by, double *room,
                       ota_figure *figure, const analysis_call *call) {
    double *const sorted = room, *const other = room + count;
    *figure = nothing;
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++) {
        if (isfinite(values[i])) sorted[figure->count++] = values[i];
    }
    if (figure->count == 0) return OTA_OK;
    figure->mean = mean_of(sorted, figure->count, call);
    figure->deviation = deviation_of(sorted, figure->count, figure->mean, call);
    analysis_sort(sorted, figure->count, other, call);
    figure->median = quantile(sorted, figure->count, 0.5);
    figure->p5 = quantile(sorted, figure->count, 0.05);
    figure->p95 = quantile(sorted, figure->count, 0.95);
    const int64_t units = unit_sums(values, count, by->unit, figure->mean, sorted, other, call);
    if (units < 2) return OTA_OK;
    return bootstrap(sorted, other, units, by->resamples, by->seed, figure, call);
}

ota_status ota_figure_of(const double *values, int64_t count, int64_t unit, int64_t resamples,
                         int64_t seed, ota_figure *figure, const ota_analysis_options *options,
                         ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(count, 0, "count", &call);
    if (status == OTA_OK) status = analysis_check_size(unit, 0, "unit", &call);
    if (status == OTA_OK) status = analysis_check_size(resamples, 0, "resamples", &call);
    if (status != OTA_OK) return status;
    if (count > INT64_C(0xffffffff)) {
        return ota_analysis_fail(&call, OTA_EINVAL, "count", "give fewer values",
                                 "count is %" PRId64 ", above 2^32 - 1", count);
    }
    double *const room = analysis_doubles(2 * count + 1, &status, &call);
    if (room == NULL) return status;
    const resampling by = {unit > 0 ? unit : 1, resamples > 0 ? resamples : 1000, seed};
    status = fill(values, count, &by, room, figure, &call);
    free(room);
    return ota_analysis_end(status, &call);
}

ota_status ota_tightness_of(const ota_measured_changes *changes, int64_t unit, int64_t resamples,
                            int64_t seed, double *ratios, ota_tightness *tightness,
                            const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *l1 = changes->l1, *steps = changes->steps;
    const double norm = changes->norm, allowance = changes->allowance;
    const int64_t count = changes->count;
    ota_status status = analysis_check_size(count, 0, "count", &call);
    if (status == OTA_OK && !(norm >= 0.0 && isfinite(norm))) {
        status = ota_analysis_fail(&call, OTA_EINVAL, "norm", "give a finite number, 0 or more",
                                   "norm is %g", norm);
    }
    if (status == OTA_OK && !(allowance >= 0.0)) {
        status = ota_analysis_fail(&call, OTA_EINVAL, "allowance", "give 0 or more",
                                   "allowance is %g", allowance);
    }
    if (status != OTA_OK) return status;
    const double slack = allowance > 0.0 ? allowance : 1e-6;
    double *const room = analysis_doubles(count + 1, &status, &call);
    if (room == NULL) return status;
    double *const ratio = ratios != NULL ? ratios : room;
    tightness->largest = (double)NAN;
    tightness->violations = 0;
    for (int64_t i = 0; i < count && analysis_goes_on(&call, i); i++) {
        const double bound = norm * steps[i];
        ratio[i] = l1[i] / bound;
        tightness->largest = fmax(tightness->largest, ratio[i]);
        if (!(l1[i] <= bound * (1.0 + slack) + slack)) tightness->violations++;
    }
    status = ota_figure_of(ratio, count, unit, resamples, seed, &tightness->ratio, options, error);
    free(room);
    return ota_analysis_end(status, &call);
}

/* ---- depth ---------------------------------------------------------------------------------- */

int ota_depth_range(int index, int64_t layers, int64_t *first, int64_t *last) {
    static const int64_t printed_ends[] = {4, 8, 12, 24, 48};
    int64_t begin = 1, end = 4;
    for (int k = 0; k < index && begin <= layers; k++) {
        begin = end + 1;
        end = k + 1 < 5 ? printed_ends[k + 1] : end > INT64_MAX / 2 ? INT64_MAX : 2 * end;
    }
    if (index < 0 || begin > layers) return 0;
    *first = begin;
    *last = ota_int_min(end, layers);
    return 1;
}

double ota_scaling_exponent(double depth_from, double value_from, double depth_to,
                            double value_to) {
    return log(value_to / value_from) / log(depth_to / depth_from);
}

ota_status ota_power_law_of(const double *depths, const double *values, int64_t count,
                            ota_power_law *law, const ota_analysis_options *options,
                            ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(count, 0, "count", &call);
    if (status != OTA_OK) return status;
    *law = (ota_power_law){(double)NAN, (double)NAN, (double)NAN, (double)NAN, 0};
    double x_mean = 0.0, y_mean = 0.0;
    for (int64_t i = 0; i < count && analysis_goes_on(&call, i); i++) {
        if (!(depths[i] > 0.0 && values[i] > 0.0 && isfinite(depths[i]) && isfinite(values[i])))
            continue;
        law->count++;
        x_mean += (log(depths[i]) - x_mean) / (double)law->count;
        y_mean += (log(values[i]) - y_mean) / (double)law->count;
    }
    double xx = 0.0, xy = 0.0, yy = 0.0;
    for (int64_t i = 0; i < count && analysis_goes_on(&call, i); i++) {
        if (!(depths[i] > 0.0 && values[i] > 0.0 && isfinite(depths[i]) && isfinite(values[i])))
            continue;
        const double x = log(depths[i]) - x_mean, y = log(values[i]) - y_mean;
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    if (!(xx > 0.0)) return ota_analysis_end(OTA_OK, &call);
    law->exponent = xy / xx;
    law->factor = exp(y_mean - law->exponent * x_mean);
    const double rest = fmax(0.0, yy - law->exponent * xy);
    if (yy > 0.0) law->explained = 1.0 - rest / yy;
    if (law->count > 2) law->error = sqrt(rest / (double)(law->count - 2) / xx);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_trend_of(const double *values, int64_t count, ota_trend *trend,
                        const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(count, 1, "count", &call);
    if (status == OTA_OK) status = analysis_check_finite(values, count, "values", &call);
    if (status != OTA_OK) return status;
    *trend = (ota_trend){0, 0, (double)NAN, (double)NAN};
    double tied = 0.0;
    for (int64_t i = 0; i < count && ota_analysis_goes_on(&call); i++) {
        int64_t equals = 1, before = 0;
        for (int64_t j = 0; j < i && analysis_goes_on(&call, j); j++) {
            trend->score += (values[i] > values[j]) - (values[i] < values[j]);
            before += values[i] == values[j];
        }
        for (int64_t j = i + 1; j < count && analysis_goes_on(&call, j); j++)
            equals += values[i] == values[j];
        const double t = (double)equals;
        /* Once a group of equals, at its first member. */
        if (before == 0) tied += t * (t - 1.0) * (2.0 * t + 5.0);
        trend->decreases += i > 0 && values[i] < values[i - 1];
    }
    const double n = (double)count, s = (double)trend->score;
    const double variance = (n * (n - 1.0) * (2.0 * n + 5.0) - tied) / 18.0;
    if (count > 1) trend->tau = s / (0.5 * n * (n - 1.0));
    if (variance > 0.0) trend->z = (s - (double)((s > 0.0) - (s < 0.0))) / sqrt(variance);
    return ota_analysis_end(OTA_OK, &call);
}
