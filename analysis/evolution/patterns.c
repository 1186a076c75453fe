/* One head's attention P [queries, keys], and the cloud of states h [tokens, width] of one layer.
 *
 *     c_j  = sum_i P_ij                          receiver mass of key j
 *     gini = sum_j (2 j - keys - 1) c_(j) / (keys sum c),  c_(1) <= ... <= c_(keys)
 *     H_i  = log m_i - (sum_j P_ij log P_ij) / m_i,  m_i = sum_j P_ij
 *     mean cosine of distinct rows = (||sum_i u_i||^2 - n) / (n (n - 1)),  u_i = h_i / ||h_i||
 *     participation = (tr G)^2 / ||G||_F^2,  G = h h^T or h^T h, whichever is smaller
 */
#include "analysis/numbers.h"
#include "base/integers.h"

#include <stdlib.h>

/* ---- patterns ------------------------------------------------------------------------------- */

typedef struct row_figures {
    double mass, entropy, largest;
    int64_t support;
} row_figures;

/* Adds the row to mass [keys]; false at an entry that is no weight, whose place is then in *bad. */
static bool measure_row(const analysis_numbers *weights, int64_t start, int64_t keys, double *mass,
                        row_figures *row, int64_t *bad, const analysis_call *call) {
    double total = 0.0, logs = 0.0, largest = 0.0;
    int64_t support = 0;
    for (int64_t j = 0; j < keys && analysis_goes_on(call, j); j++) {
        const double p = analysis_at(weights, start + j);
        if (!(p >= 0.0) || isinf(p)) {
            *bad = start + j;
            return false;
        }
        /* Causal rows are zero beyond their query. */
        if (p == 0.0) continue;
        mass[j] += p;
        total += p;
        logs += p * log(p);
        largest = p > largest ? p : largest;
        support++;
    }
    *row = (row_figures){total, total > 0.0 ? fmax(0.0, log(total) - logs / total) : 0.0, largest,
                         support};
    return true;
}

static double gini_of(double *sorted, int64_t keys, const analysis_call *call) {
    analysis_sort(sorted, keys, sorted + keys, call);
    analysis_sum total = {0.0, 0.0}, weighted = {0.0, 0.0};
    for (int64_t j = 0; j < keys && analysis_goes_on(call, j); j++) {
        analysis_add(&total, sorted[j]);
        analysis_add(&weighted, (double)(2 * j - keys + 1) * sorted[j]);
    }
    return analysis_total(&weighted) / ((double)keys * analysis_total(&total));
}

static ota_status measure_pattern(const analysis_numbers *weights, int64_t queries, int64_t keys,
                                  double threshold, double *mass, double *sorted,
                                  ota_pattern *pattern, const analysis_call *call) {
    analysis_sum entropy = {0.0, 0.0}, largest = {0.0, 0.0};
    int64_t support = 0, rows = 0;
    for (int64_t j = 0; j < keys && analysis_goes_on(call, j); j++) mass[j] = 0.0;
    for (int64_t i = 0; i < queries && ota_analysis_goes_on(call); i++) {
        row_figures row;
        int64_t bad;
        if (!measure_row(weights, i * keys, keys, mass, &row, &bad, call)) {
            return ota_analysis_fail(call, OTA_EINVAL, "weights", "weights are finite, 0 or more",
                                     "weights[%" PRId64 ", %" PRId64 "] is %g", bad / keys,
                                     bad % keys, analysis_at(weights, bad));
        }
        if (!(row.mass > 0.0)) continue;
        analysis_add(&entropy, row.entropy);
        analysis_add(&largest, row.largest);
        support += row.support;
        rows++;
    }
    const double n = (double)rows, none = (double)NAN;
    *pattern = (ota_pattern){none, none, none, none, none, none, none, 0, rows};
    if (rows == 0) return OTA_OK;
    for (int64_t j = 0; j < keys && analysis_goes_on(call, j); j++) {
        if (mass[j] > mass[pattern->receiver]) pattern->receiver = j;
        sorted[j] = mass[j];
    }
    pattern->first_key_mass = mass[0] / n;
    pattern->sink_rate = pattern->first_key_mass > threshold ? 1.0 : 0.0;
    pattern->receiver_max = mass[pattern->receiver] * (double)keys / n;
    pattern->gini = gini_of(sorted, keys, call);
    pattern->row_entropy = analysis_total(&entropy) / n;
    pattern->max_weight = analysis_total(&largest) / n;
    pattern->support = (double)support / n;
    return OTA_OK;
}

static ota_status check_type(ota_type type, const analysis_call *call) {
    if (type == OTA_F32 || type == OTA_F64) return OTA_OK;
    return ota_analysis_fail(call, OTA_EINVAL, "type", "give OTA_F32 or OTA_F64",
                             "type is %d, neither f32 nor f64", (int)type);
}

ota_status ota_pattern_of(const ota_matrix *weights, double threshold, double *mass,
                          ota_pattern *pattern, const ota_analysis_options *options,
                          ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const int64_t queries = weights->rows, keys = weights->columns;
    const analysis_numbers p = {weights->data, weights->type};
    ota_status status = analysis_check_size(queries, 1, "queries", &call);
    if (status == OTA_OK) status = analysis_check_size(keys, 1, "keys", &call);
    if (status == OTA_OK) status = check_type(weights->type, &call);
    if (status == OTA_OK && !(threshold >= 0.0)) {
        status = ota_analysis_fail(&call, OTA_EINVAL, "threshold", "give a share from 0 to 1",
                                   "threshold is %g", threshold);
    }
    if (status != OTA_OK) return status;
    double *const room =
        analysis_doubles(keys > INT64_MAX / 3 ? INT64_MAX : 3 * keys, &status, &call);
    if (room == NULL) return status;
    status = measure_pattern(&p, queries, keys, threshold > 0.0 ? threshold : 0.3,
                             mass != NULL ? mass : room, room + keys, pattern, &call);
    free(room);
    return ota_analysis_end(status, &call);
}

/* ---- clouds --------------------------------------------------------------------------------- */

static double norm_of(const analysis_numbers *h, int64_t start, int64_t width,
                      const analysis_call *call) {
    double most = 0.0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++)
        most = fmax(most, fabs(analysis_at(h, start + k)));
    double squares = 0.0;
    for (int64_t k = 0; k < width && most > 0.0 && analysis_goes_on(call, k); k++) {
        const double x = analysis_at(h, start + k) / most;
        squares += x * x;
    }
    return most * sqrt(squares);
}

/* (tr G)^2 / ||G||_F^2 from x [rows][long_side] in units of the largest entry; G_ij = <x_i, x_j>. */
static double participation_of(const double *x, int64_t rows, int64_t long_side,
                               const analysis_call *call) {
    double trace = 0.0, squares = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        for (int64_t j = 0; j <= i && ota_analysis_goes_on(call); j++) {
            double lanes[8] = {0.0}, dot = 0.0;
            int64_t k = 0;
            for (; k + 8 <= long_side; k += 8)
                for (int l = 0; l < 8; l++)
                    lanes[l] += x[i * long_side + k + l] * x[j * long_side + k + l];
            for (; k < long_side; k++) dot += x[i * long_side + k] * x[j * long_side + k];
            for (int l = 0; l < 8; l++) dot += lanes[l];
            squares += (i == j ? 1.0 : 2.0) * dot * dot;
            if (i == j) trace += dot;
        }
    }
    return squares > 0.0 ? trace * trace / squares : (double)NAN;
}

static double largest_entry(const analysis_numbers *h, int64_t count, const analysis_call *call) {
    double most = 0.0;
    for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++)
        most = fmax(most, fabs(analysis_at(h, k)));
    return most > 0.0 ? most : 1.0;
}

/* The states with the shorter side first, as participation_of reads them. */
static void turn(const analysis_numbers *h, int64_t tokens, int64_t width, double *x,
                 const analysis_call *call) {
    const double unit = largest_entry(h, tokens * width, call);
    for (int64_t i = 0; i < tokens && ota_analysis_goes_on(call); i++) {
        for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) {
            const double entry = analysis_at(h, i * width + k) / unit;
            x[tokens <= width ? i * width + k : k * tokens + i] = entry;
        }
    }
}

/* Mean norm, and mean cosine by the sum [width] of the unit vectors. */
static void measure_cloud(const analysis_numbers *h, int64_t tokens, int64_t width, double *sum,
                          double *norms, ota_state_cloud *cloud, const analysis_call *call) {
    analysis_sum norm_sum = {0.0, 0.0};
    double count = 0.0, square = 0.0, own = 0.0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) sum[k] = 0.0;
    for (int64_t i = 0; i < tokens && ota_analysis_goes_on(call); i++) {
        const double norm = norm_of(h, i * width, width, call);
        if (norms != NULL) norms[i] = norm;
        analysis_add(&norm_sum, norm);
        if (!(norm > 0.0)) continue;
        count += 1.0;
        for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) {
            const double u = analysis_at(h, i * width + k) / norm;
            sum[k] += u;
            own += u * u;
        }
    }
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) square += sum[k] * sum[k];
    cloud->mean_norm = analysis_total(&norm_sum) / (double)tokens;
    cloud->mean_cosine = count > 1.0 ? (square - own) / (count * (count - 1.0)) : (double)NAN;
    cloud->participation = (double)NAN;
}

ota_status ota_state_cloud_of(const ota_matrix *states, int participation, double *norms,
                              ota_state_cloud *cloud, const ota_analysis_options *options,
                              ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const int64_t tokens = states->rows, width = states->columns;
    const analysis_numbers h = {states->data, states->type};
    ota_status status = analysis_check_size(tokens, 1, "tokens", &call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", &call);
    int64_t entries = 0;
    if (status == OTA_OK && __builtin_mul_overflow(tokens, width, &entries)) {
        status = ota_analysis_fail(&call, OTA_EOVERFLOW, "tokens", "give a smaller array",
                                   "%" PRId64 " x %" PRId64 " states", tokens, width);
    }
    if (status == OTA_OK) status = analysis_check_numbers(&h, entries, 1.0, "states", &call);
    if (status != OTA_OK) return status;
    double *const room = analysis_doubles(participation ? entries : width, &status, &call);
    if (room == NULL) return status;
    measure_cloud(&h, tokens, width, room, norms, cloud, &call);
    if (participation) {
        turn(&h, tokens, width, room, &call);
        cloud->participation =
            participation_of(room, ota_int_min(tokens, width), ota_int_max(tokens, width), &call);
    }
    free(room);
    return ota_analysis_end(OTA_OK, &call);
}
