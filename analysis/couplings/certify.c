/* analysis/couplings/: Whole couplings: certificates, Birkhoff's decomposition, Hilbert's metric, leaks from later
 * tokens, which plan a coupling is (identify*.c), singular values. It may call the public headers and analysis/.
 *
 * Certificates of couplings P, Q [rows, columns] of scores S, T at temperature tau: l1 and output bounds
 * in their printed and sharp forms, hull, non-expansiveness, receiver mass, mean.
 *
 *     ||P - Q||_1 <= (n/tau) max|S - T|,   <= 2 n tanh(R(S - T)/(2 tau)),   <= 2 n tanh(max osc_i/(4 tau))
 *     ||P V - Q W||_{inf,2} <= ||V - W||_{inf,2} + (1/2) max_i ||P_i - Q_i||_1 diam(W)
 *
 * The last because rows of P - Q sum to 0; and with equal column sums a row holds at most half of
 * ||P - Q||_1. */
#include "analysis/numbers.h"

static ota_status check_shape(int64_t rows, int64_t columns, const char *row_name,
                              const char *column_name, const analysis_call *call) {
    ota_status status = analysis_check_size(rows, 1, row_name, call);
    if (status == OTA_OK) status = analysis_check_size(columns, 1, column_name, call);
    if (status == OTA_OK && rows > INT64_MAX / 8 / columns) {
        status = ota_analysis_fail(call, OTA_EOVERFLOW, row_name, "use a smaller matrix",
                                   "%" PRId64 " x %" PRId64 " entries are too many", rows, columns);
    }
    return status;
}

static ota_status check_matrix(const double *x, int64_t rows, int64_t columns, const char *field,
                               const analysis_call *call) {
    const analysis_numbers numbers = {x, OTA_F64};
    return analysis_check_numbers(&numbers, rows * columns, 1.0, field, call);
}

/* Finite, or -inf in both: a masked pair. */
static ota_status check_scores(const ota_score_pair *pair, const analysis_call *call) {
    const double *scores = pair->scores, *perturbed = pair->perturbed;
    const double most = 1e300 * fmin(1.0, pair->temperature);
    for (int64_t i = 0; i < pair->rows * pair->columns && analysis_goes_on(call, i); i++) {
        if (fabs(scores[i]) <= most && fabs(perturbed[i]) <= most) continue;
        if (scores[i] == perturbed[i] && scores[i] < 0.0 && isinf(scores[i])) continue;
        return ota_analysis_fail(
            call, OTA_EINVAL, "scores", "give finite scores, or -inf in both for a masked pair",
            "pair %" PRId64 " has the scores %g and %g", i, scores[i], perturbed[i]);
    }
    return OTA_OK;
}

static ota_status check_pair(const ota_score_pair *pair, const analysis_call *call) {
    ota_status status = check_shape(pair->rows, pair->columns, "rows", "columns", call);
    if (status == OTA_OK) status = analysis_check_temperature(pair->temperature, call);
    return status == OTA_OK ? check_scores(pair, call) : status;
}

ota_status ota_score_bounds_of(const ota_score_pair *pair, double residual, double *row_bounds,
                               ota_score_bounds *bounds, const ota_analysis_options *options,
                               ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *scores = pair->scores, *perturbed = pair->perturbed;
    const double temperature = pair->temperature;
    const int64_t rows = pair->rows, columns = pair->columns;
    ota_status status = check_pair(pair, &call);
    if (status != OTA_OK) return status;
    if (residual < 0.0) {
        return ota_analysis_fail(&call, OTA_EINVAL, "residual",
                                 "give the residual of ota_gauge, or NaN", "residual is %g",
                                 residual);
    }
    *bounds = (ota_score_bounds){.residual = residual};
    analysis_sum total = {0.0, 0.0};
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        double least = (double)INFINITY, most = -(double)INFINITY;
        for (int64_t j = 0; j < columns && analysis_goes_on(&call, j); j++) {
            if (isinf(scores[i * columns + j])) continue;
            const double d = scores[i * columns + j] - perturbed[i * columns + j];
            least = fmin(least, d);
            most = fmax(most, d);
        }
        const double range = fmax(most - least, 0.0);
        const double row = 2.0 * tanh(range / (4.0 * temperature));
        if (most >= least) bounds->sup = fmax(bounds->sup, fmax(most, -least));
        bounds->range = fmax(bounds->range, range);
        if (row_bounds != NULL) row_bounds[i] = row;
        analysis_add(&total, row);
    }
    const double n = (double)rows;
    bounds->rows = analysis_total(&total);
    bounds->row = 2.0 * tanh(bounds->range / (4.0 * temperature));
    bounds->printed = n / temperature * bounds->sup;
    bounds->sharp = 2.0 * n * tanh(residual / (2.0 * temperature));
    bounds->family = n * bounds->row;
    return ota_analysis_end(OTA_OK, &call);
}

/* (p - q) log(p/q) */
static double jeffreys_term(double p, double q) {
    const double d = p - q;
    if (d == 0.0) return 0.0;
    const double ratio = fabs(d) < 0.5 * q ? log1p(d / q) : log(p) - log(q);
    return d * ratio;
}

ota_status ota_score_change_of(const ota_score_pair *pair, const double *coupling,
                               const double *other, ota_score_change *change,
                               const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *scores = pair->scores, *perturbed = pair->perturbed;
    const int64_t rows = pair->rows, columns = pair->columns;
    ota_status status = check_pair(pair, &call);
    if (status == OTA_OK) status = analysis_check_rows(coupling, rows, columns, "coupling", &call);
    if (status == OTA_OK) status = analysis_check_rows(other, rows, columns, "other", &call);
    if (status != OTA_OK) return status;
    analysis_sum l1 = {0.0, 0.0}, energy = {0.0, 0.0}, jeffreys = {0.0, 0.0};
    change->row_l1 = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        analysis_sum row = {0.0, 0.0};
        for (int64_t j = 0; j < columns && analysis_goes_on(&call, j); j++) {
            const int64_t at = i * columns + j;
            const double d = coupling[at] - other[at];
            analysis_add(&row, fabs(d));
            analysis_add(&jeffreys, jeffreys_term(coupling[at], other[at]));
            if (!isinf(scores[at])) analysis_add(&energy, (scores[at] - perturbed[at]) * d);
        }
        change->row_l1 = fmax(change->row_l1, analysis_total(&row));
        analysis_add(&l1, analysis_total(&row));
    }
    change->l1 = analysis_total(&l1);
    change->energy = analysis_total(&energy);
    change->jeffreys = pair->temperature * analysis_total(&jeffreys);
    return ota_analysis_end(OTA_OK, &call);
}

/* ||x - y||_2 of two rows, y NULL for 0. */
static double distance_of(const double *x, const double *y, int64_t width,
                          const analysis_call *call) {
    double most = 0.0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++)
        most = fmax(most, fabs(y == NULL ? x[k] : x[k] - y[k]));
    if (most == 0.0) return 0.0;
    analysis_sum squares = {0.0, 0.0};
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) {
        const double d = (y == NULL ? x[k] : x[k] - y[k]) / most;
        analysis_add(&squares, d * d);
    }
    return most * sqrt(analysis_total(&squares));
}

static double row_norm(const double *x, const double *y, int64_t rows, int64_t width,
                       const analysis_call *call) {
    double norm = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        norm =
            fmax(norm, distance_of(x + i * width, y == NULL ? NULL : y + i * width, width, call));
    }
    return norm;
}

ota_status ota_row_norm(const double *x, const double *y, int64_t rows, int64_t width, double *norm,
                        const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_shape(rows, width, "rows", "width", &call);
    if (status == OTA_OK) status = check_matrix(x, rows, width, "x", &call);
    if (status == OTA_OK && y != NULL) status = check_matrix(y, rows, width, "y", &call);
    if (status == OTA_OK) *norm = row_norm(x, y, rows, width, &call);
    return ota_analysis_end(status, &call);
}

ota_status ota_output_bounds_of(const ota_score_bounds *scores, const double *values,
                                const double *other, int64_t keys, int64_t width,
                                ota_output_bounds *bounds, const ota_analysis_options *options,
                                ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_shape(keys, width, "keys", "width", &call);
    if (status == OTA_OK) status = check_matrix(values, keys, width, "values", &call);
    if (status == OTA_OK) status = check_matrix(other, keys, width, "other", &call);
    if (status != OTA_OK) return status;
    bounds->values_change = row_norm(values, other, keys, width, &call);
    bounds->values_norm = row_norm(other, NULL, keys, width, &call);
    bounds->diameter = 0.0;
    for (int64_t j = 0; j < keys && ota_analysis_goes_on(&call); j++) {
        for (int64_t k = 0; k < j && ota_analysis_goes_on(&call); k++) {
            bounds->diameter = fmax(
                bounds->diameter, distance_of(other + j * width, other + k * width, width, &call));
        }
    }
    /* A quarter of the l1 bound is (n/2) tanh(R/(2 tau)): half of it in one row, half of that moved. */
    const double moved = scores->sharp < 4.0 ? 0.25 * scores->sharp : 1.0;
    bounds->printed = bounds->values_change + scores->printed * bounds->values_norm;
    bounds->sharp =
        isnan(scores->sharp) ? (double)NAN : bounds->values_change + moved * bounds->diameter;
    bounds->rows = bounds->values_change + 0.5 * scores->row * bounds->diameter;
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_hull_excess(const double *output, const double *values, int64_t rows, int64_t keys,
                           int64_t width, double *excess, const ota_analysis_options *options,
                           ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_shape(rows, width, "rows", "width", &call);
    if (status == OTA_OK) status = check_shape(keys, width, "keys", "width", &call);
    if (status == OTA_OK) status = check_matrix(output, rows, width, "output", &call);
    if (status == OTA_OK) status = check_matrix(values, keys, width, "values", &call);
    if (status != OTA_OK) return status;
    *excess = 0.0;
    for (int64_t k = 0; k < width && ota_analysis_goes_on(&call); k++) {
        double least = values[k], most = values[k];
        for (int64_t j = 1; j < keys && analysis_goes_on(&call, j); j++) {
            least = fmin(least, values[j * width + k]);
            most = fmax(most, values[j * width + k]);
        }
        for (int64_t i = 0; i < rows && analysis_goes_on(&call, i); i++) {
            const double x = output[i * width + k];
            *excess = fmax(*excess, fmax(x - most, least - x));
        }
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_nonexpansion(const ota_mixing *mixing, const double *x, const double *y,
                            int64_t width, double *ratio, const ota_analysis_options *options,
                            ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *coupling = mixing->coupling, alpha = mixing->alpha;
    const int64_t rows = mixing->rows, keys = mixing->keys;
    ota_status status = check_shape(rows, keys, "rows", "keys", &call);
    if (status == OTA_OK) status = check_shape(keys, width, "keys", "width", &call);
    if (status == OTA_OK) status = analysis_check_rows(coupling, rows, keys, "coupling", &call);
    if (status == OTA_OK) status = check_matrix(x, keys, width, "x", &call);
    if (status == OTA_OK) status = check_matrix(y, keys, width, "y", &call);
    if (status != OTA_OK) return status;
    if (!(alpha >= 0.0 && alpha <= 1.0) || (alpha < 1.0 && rows != keys)) {
        return ota_analysis_fail(
            &call, OTA_EINVAL, "alpha", "choose 0 to 1, and 1 unless rows = keys",
            "alpha is %g for %" PRId64 " rows and %" PRId64 " keys", alpha, rows, keys);
    }
    const double before = row_norm(x, y, keys, width, &call), unit = before > 0.0 ? before : 1.0;
    *ratio = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        analysis_sum squares = {0.0, 0.0};
        for (int64_t k = 0; k < width && ota_analysis_goes_on(&call); k++) {
            analysis_sum mixed = {0.0, 0.0};
            for (int64_t j = 0; j < keys && analysis_goes_on(&call, j); j++) {
                const double d = (x[j * width + k] - y[j * width + k]) / unit;
                analysis_add(&mixed, alpha * coupling[i * keys + j] * d);
                if (j == i && alpha < 1.0) analysis_add(&mixed, (1.0 - alpha) * d);
            }
            analysis_add(&squares, analysis_total(&mixed) * analysis_total(&mixed));
        }
        *ratio = fmax(*ratio, sqrt(analysis_total(&squares)));
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_receiver_of(const double *coupling, int64_t rows, int64_t keys, double *mass,
                           ota_receiver *receiver, const ota_analysis_options *options,
                           ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_shape(rows, keys, "rows", "keys", &call);
    if (status == OTA_OK) status = analysis_check_rows(coupling, rows, keys, "coupling", &call);
    if (status != OTA_OK) return status;
    const double share = (double)rows / (double)keys;
    analysis_sum total = {0.0, 0.0};
    *receiver = (ota_receiver){.smallest = (double)INFINITY};
    for (int64_t j = 0; j < keys && ota_analysis_goes_on(&call); j++) {
        analysis_sum column = {0.0, 0.0};
        for (int64_t i = 0; i < rows && analysis_goes_on(&call, i); i++)
            analysis_add(&column, coupling[i * keys + j]);
        mass[j] = analysis_total(&column);
        analysis_add(&total, mass[j]);
        receiver->largest = fmax(receiver->largest, mass[j] / share);
        receiver->smallest = fmin(receiver->smallest, mass[j] / share);
        receiver->imbalance = fmax(receiver->imbalance, fabs(mass[j] - share) / share);
    }
    receiver->total = analysis_total(&total);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_mean_shift(const double *mass, const double *values, int64_t rows, int64_t keys,
                          int64_t width, double *shift, const ota_analysis_options *options,
                          ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_shape(keys, width, "keys", "width", &call);
    if (status == OTA_OK) status = analysis_check_size(rows, 1, "rows", &call);
    if (status == OTA_OK) status = check_matrix(mass, keys, 1, "mass", &call);
    if (status == OTA_OK) status = check_matrix(values, keys, width, "values", &call);
    if (status != OTA_OK) return status;
    const double share = (double)rows / (double)keys;
    for (int64_t k = 0; k < width && ota_analysis_goes_on(&call); k++) {
        analysis_sum sum = {0.0, 0.0};
        for (int64_t j = 0; j < keys && analysis_goes_on(&call, j); j++) {
            analysis_add(&sum, (mass[j] - share) / (double)rows * values[j * width + k]);
        }
        shift[k] = analysis_total(&sum);
    }
    return ota_analysis_end(OTA_OK, &call);
}
