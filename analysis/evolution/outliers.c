/* Entries of states h [tokens, width] that are far larger than the rest, and how heavy the tails of a state are.
 *
 *     ratio      |h_ij| / median |h|
 *     kurtosis   E x^4 / (E x^2)^2 - 3, x = h_i less its mean, in units of its largest coordinate
 */
#include "analysis/numbers.h"
#include "base/integers.h"

static void swap(double *x, int64_t a, int64_t b) {
    const double kept = x[a];
    x[a] = x[b];
    x[b] = kept;
}

/* Puts the order statistic `place` of x [count] in its place, what is smaller before it (Hoare). */
static void select_place(double *x, int64_t count, int64_t place, const analysis_call *call) {
    int64_t low = 0, high = count - 1;
    while (low < high && ota_analysis_goes_on(call)) {
        const double pivot = x[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j && analysis_goes_on(call, i)) {
            while (x[i] < pivot) i++;
            while (x[j] > pivot) j--;
            if (i <= j) swap(x, i++, j--);
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            return;
    }
}

static double median_of(double *x, int64_t count, const analysis_call *call) {
    select_place(x, count, count / 2, call);
    const double upper = x[count / 2];
    if (count % 2 == 1) return upper;
    double lower = x[0];
    for (int64_t k = 1; k < count / 2 && analysis_goes_on(call, k); k++) lower = fmax(lower, x[k]);
    return 0.5 * (lower + upper);
}

/* largest [most] in falling order, of which *used are there. */
static void keep_largest(const ota_outlier *one, int64_t most, ota_outlier *largest,
                         int64_t *used) {
    const double size = fabs(one->value);
    if (*used == most && !(size > fabs(largest[most - 1].value))) return;
    int64_t at = *used < most ? (*used)++ : most - 1;
    for (; at > 0 && size > fabs(largest[at - 1].value); at--) largest[at] = largest[at - 1];
    largest[at] = *one;
}

static double kurtosis_of(const analysis_numbers *h, int64_t start, int64_t width,
                          const analysis_call *call) {
    double most = 0.0, mean = 0.0, second = 0.0, fourth = 0.0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++)
        most = fmax(most, fabs(analysis_at(h, start + k)));
    if (!(most > 0.0)) return (double)NAN;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++)
        mean += analysis_at(h, start + k) / most;
    mean /= (double)width;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) {
        const double x = analysis_at(h, start + k) / most - mean, square = x * x;
        second += square;
        fourth += square * square;
    }
    second /= (double)width;
    /* Coordinates that are all equal differ from their mean by rounding alone. */
    if (!(second > 1e-28)) return (double)NAN;
    return fourth / (double)width / (second * second) - 3.0;
}

ota_status ota_outliers_of(const ota_matrix *states, int64_t count, ota_outlier *largest,
                           double *kurtosis, const ota_analysis_options *options,
                           ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const int64_t tokens = states->rows, width = states->columns;
    const analysis_numbers h = {states->data, states->type};
    ota_status status = analysis_check_size(tokens, 1, "tokens", &call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", &call);
    if (status == OTA_OK) status = analysis_check_size(count, 0, "count", &call);
    int64_t entries = 0, used = 0;
    if (status == OTA_OK && __builtin_mul_overflow(tokens, width, &entries))
        status = ota_analysis_fail(&call, OTA_EOVERFLOW, "tokens", "give a smaller array",
                                   "%" PRId64 " x %" PRId64 " states", tokens, width);
    if (status == OTA_OK) status = analysis_check_numbers(&h, entries, 1.0, "states", &call);
    if (status != OTA_OK) return status;
    double *const sizes = analysis_doubles(entries, &status, &call);
    if (sizes == NULL) return status;
    const int64_t most = ota_int_min(count, entries);
    for (int64_t k = 0; k < entries && analysis_goes_on(&call, k); k++) {
        const double value = analysis_at(&h, k);
        sizes[k] = fabs(value);
        if (most > 0)
            keep_largest(&(ota_outlier){.value = value, .token = k / width, .dimension = k % width},
                         most, largest, &used);
    }
    const double median = median_of(sizes, entries, &call);
    for (int64_t k = 0; k < used; k++) largest[k].ratio = fabs(largest[k].value) / median;
    for (int64_t i = 0; kurtosis != NULL && i < tokens && ota_analysis_goes_on(&call); i++)
        kurtosis[i] = kurtosis_of(&h, i * width, width, &call);
    free(sizes);
    return ota_analysis_end(OTA_OK, &call);
}
