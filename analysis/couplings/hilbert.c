/* Hilbert's metric and what it says about Sinkhorn: L = log K [rows, columns].
 *
 *     d_H(x,y) = osc(log x - log y)
 *     Delta    = max_ij osc(L_i - L_j) = 4 R4(L),   rate tanh(Delta/4)
 *     P = exp(L + f + g), B = D_r^-1/2 P D_c^-1/2: the error falls by sigma_2(B)^2 a round in the end
 *
 * The normal matrix N = B B^T (or B^T B) is 1 on the square roots of P's row (column) sums. Power iteration
 * of N away from that vector finds sigma_2^2; of I - N, all of whose eigenvalues lie in [0,1], it finds
 * 1 - sigma_n^2. For a unit vector x and q = x^T N x, some eigenvalue is within |N x - q x| of q. */
#include <stdlib.h>

#include "analysis/analysis.h"

/* An eigenvalue known this well is good for the rates, which are wanted within percents. */
static const double SETTLED = 1e-5;

static ota_status check_product(int64_t rows, int64_t columns, const analysis_call *call) {
    ota_status status = analysis_check_size(rows, 1, "rows", call);
    if (status == OTA_OK) status = analysis_check_size(columns, 1, "columns", call);
    if (status != OTA_OK) return status;
    if (rows <= INT64_MAX / 64 / columns) return OTA_OK;
    return ota_analysis_fail(call, OTA_EOVERFLOW, "columns", "give a smaller matrix",
                             "%" PRId64 " x %" PRId64 " entries leave the range of sizes", rows,
                             columns);
}

static double oscillation(const double *x, const double *y, int64_t size,
                          const analysis_call *call) {
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) {
        low = fmin(low, x[i] - y[i]);
        high = fmax(high, x[i] - y[i]);
    }
    return high - low;
}

ota_status ota_hilbert_log(const double *log_x, const double *log_y, int64_t size, double *distance,
                           const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(size, 1, "size", &call);
    if (status == OTA_OK) status = analysis_check_finite(log_x, size, "log_x", &call);
    if (status == OTA_OK) status = analysis_check_finite(log_y, size, "log_y", &call);
    if (status == OTA_OK) *distance = oscillation(log_x, log_y, size, &call);
    return ota_analysis_end(status, &call);
}

ota_status ota_hilbert(const double *x, const double *y, int64_t size, double *distance,
                       const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(size, 1, "size", &call);
    if (status == OTA_OK) status = analysis_check_positive(x, size, "x", &call);
    if (status == OTA_OK) status = analysis_check_positive(y, size, "y", &call);
    if (status != OTA_OK) return status;
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (int64_t i = 0; i < size && analysis_goes_on(&call, i); i++) {
        const double ratio = log(x[i]) - log(y[i]);
        low = fmin(low, ratio);
        high = fmax(high, ratio);
    }
    *distance = high - low;
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_contraction_of(const double *log_kernel, int64_t rows, int64_t columns,
                              ota_contraction *contraction, const ota_analysis_options *options,
                              ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double four_cycle;
    const ota_status status = ota_gauge_four_cycle(
        &(ota_gauge_matrix){.a = log_kernel, .type = OTA_F64, .rows = rows, .columns = columns},
        &four_cycle, options, error);
    if (status != OTA_OK) return status;
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (int64_t k = 0; k < rows * columns && analysis_goes_on(&call, k); k++) {
        low = fmin(low, log_kernel[k]);
        high = fmax(high, log_kernel[k]);
    }
    contraction->diameter = 4.0 * four_cycle;
    contraction->rate = tanh(four_cycle);
    contraction->entry_range = high - low;
    contraction->entry_rate = tanh(0.5 * (high - low));
    return ota_analysis_end(OTA_OK, &call);
}

double ota_hamming_diameter(double epsilon) { return 2.0 / epsilon; }

double ota_iterations_conservative(double log_sum_over_min, double delta) {
    if (!(log_sum_over_min >= 0.0 && delta > 0.0)) return (double)NAN;
    return 4.0 * log_sum_over_min / (delta * delta);
}

double ota_iterations_geometric(double first, double rate, double delta) {
    if (!(first >= 0.0 && rate > 0.0 && rate < 1.0 && delta > 0.0)) return (double)NAN;
    const double wanted = log1p(delta);
    if (first <= wanted) return 1.0;
    return 1.0 + ceil(log(first / wanted) / (-2.0 * log(rate)));
}

/* ---- alternating scaling ---- */

/* log sum exp of count numbers x[k * stride] + shift[k]. */
static double log_sum_exp(const double *x, int64_t stride, const double *shift, int64_t count,
                          const analysis_call *call) {
    double most = -HUGE_VAL, total = 0.0;
    for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++)
        most = fmax(most, x[k * stride] + shift[k]);
    for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++)
        total += exp(x[k * stride] + shift[k] - most);
    return most + log(total);
}

static ota_status check_run(const double *log_kernel, const double *p, const double *q,
                            int64_t rows, int64_t columns, const ota_scaling_run *run,
                            const analysis_call *call) {
    ota_status status = check_product(rows, columns, call);
    if (status == OTA_OK) {
        status = analysis_check_finite(log_kernel, rows * columns, "log_kernel", call);
    }
    if (status == OTA_OK) status = analysis_check_positive(p, rows, "p", call);
    if (status == OTA_OK) status = analysis_check_positive(q, columns, "q", call);
    if (status == OTA_OK) status = analysis_check_size(run->most, 1, "most", call);
    if (status == OTA_OK && (run->f == NULL || run->g == NULL)) {
        status = ota_analysis_fail(call, OTA_EINVAL, "run",
                                   "give f and g, which the rounds work in", "f or g is NULL");
    }
    if (status != OTA_OK) return status;
    if (isfinite(run->row_relaxation) && isfinite(run->column_relaxation) &&
        run->tolerance >= 0.0) {
        return OTA_OK;
    }
    return ota_analysis_fail(call, OTA_EINVAL, "run",
                             "give finite relaxations and a tolerance of 0 or more",
                             "the relaxations are %g and %g and the tolerance %g",
                             run->row_relaxation, run->column_relaxation, run->tolerance);
}

static double relaxation(const ota_scaling_run *run, double wanted) {
    const bool given = wanted < 0.0 || wanted > 0.0;
    return given && run->rounds >= run->plain ? wanted : 1.0;
}

ota_status ota_scaling(const double *log_kernel, const double *p, const double *q, int64_t rows,
                       int64_t columns, ota_scaling_run *run, const ota_analysis_options *options,
                       ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double *const f = run->f, *const g = run->g;
    const ota_status status = check_run(log_kernel, p, q, rows, columns, run, &call);
    if (status != OTA_OK) return status;
    double *move = malloc((size_t)columns * sizeof *move);
    if (move == NULL) {
        return ota_analysis_fail(&call, OTA_ENOMEM, "", "free some memory",
                                 "there is no memory for a row");
    }
    for (int64_t i = 0; i < rows; i++) f[i] = 0.0;
    for (int64_t j = 0; j < columns; j++) g[j] = 0.0;
    for (run->rounds = 0; run->rounds < run->most && ota_analysis_goes_on(&call);) {
        const double omega = relaxation(run, run->row_relaxation);
        const double lambda = relaxation(run, run->column_relaxation);
        for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
            const double exact =
                log(p[i]) - log_sum_exp(log_kernel + i * columns, 1, g, columns, &call);
            f[i] += omega * (exact - f[i]);
        }
        double wrong = 0.0, low = HUGE_VAL, high = -HUGE_VAL;
        for (int64_t j = 0; j < columns && ota_analysis_goes_on(&call); j++) {
            const double column = log_sum_exp(log_kernel + j, columns, f, rows, &call) + g[j];
            wrong += fabs(exp(column) - q[j]);
            move[j] = lambda * (log(q[j]) - column);
            low = fmin(low, move[j]);
            high = fmax(high, move[j]);
        }
        for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
            const double row = log_sum_exp(log_kernel + i * columns, 1, g, columns, &call) + f[i];
            wrong += fabs(exp(row) - p[i]);
        }
        if (run->errors != NULL) run->errors[run->rounds] = wrong;
        if (run->changes != NULL) run->changes[run->rounds] = high - low;
        run->rounds++;
        if (wrong <= run->tolerance || !isfinite(wrong) || run->rounds == run->most) break;
        for (int64_t j = 0; j < columns; j++) g[j] += move[j];
    }
    free(move);
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- rates ---- */

ota_status ota_rate_measured(const double *errors, int64_t count, double *rate,
                             const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const int64_t begin = count / 2, used = count - begin;
    ota_status status = analysis_check_size(used, 4, "last half of the history", &call);
    if (status == OTA_OK) status = analysis_check_positive(errors + begin, used, "errors", &call);
    if (status != OTA_OK) return status;
    const double middle = 0.5 * (double)(used - 1);
    double product = 0.0, square = 0.0;
    for (int64_t t = 0; t < used && analysis_goes_on(&call, t); t++) {
        const double x = (double)t - middle;
        product += x * log(errors[begin + t]);
        square += x * x;
    }
    *rate = exp(product / square);
    return ota_analysis_end(OTA_OK, &call);
}

double ota_rate_one_sided(double lambda, double second, double least) {
    return fmax(fabs(1.0 - lambda * (1.0 - second)), fabs(1.0 - lambda * (1.0 - least)));
}

double ota_best_one_sided(double second, double least, double *rate) {
    const double lambda = 2.0 / (2.0 - second - least);
    if (rate != NULL) *rate = 0.5 * (second - least) * lambda;
    return lambda;
}

double ota_best_two_sided(double second, double *rate) {
    const double omega = 2.0 / (1.0 + sqrt(1.0 - second));
    if (rate != NULL) *rate = omega - 1.0;
    return omega;
}

/* ---- one singular value at either end ---- */

typedef struct normal {
    const double *coupling;
    int64_t rows, columns;
    bool transposed;                /* iterate on columns: B^T B */
    double *row_root, *column_root; /* square roots of the sums */
    double *x, *y, *middle;         /* [size], [size], [the other size] */
    int64_t size;
    int64_t rounds, most;
} normal;

/* to [rows] = B from */
static void times(const normal *a, const double *from, double *to, const analysis_call *call) {
    for (int64_t i = 0; i < a->rows && ota_analysis_goes_on(call); i++) {
        const double *row = a->coupling + i * a->columns;
        double total = 0.0;
        for (int64_t j = 0; j < a->columns && analysis_goes_on(call, j); j++)
            total += row[j] * (from[j] / a->column_root[j]);
        to[i] = total / a->row_root[i];
    }
}

/* to [columns] = B^T from */
static void times_transposed(const normal *a, const double *from, double *to,
                             const analysis_call *call) {
    for (int64_t j = 0; j < a->columns; j++) to[j] = 0.0;
    for (int64_t i = 0; i < a->rows && ota_analysis_goes_on(call); i++) {
        const double *row = a->coupling + i * a->columns;
        const double weight = from[i] / a->row_root[i];
        for (int64_t j = 0; j < a->columns; j++) to[j] += row[j] * weight;
    }
    for (int64_t j = 0; j < a->columns; j++) to[j] /= a->column_root[j];
}

/* y = N x */
static void apply(const normal *a, const analysis_call *call) {
    if (a->transposed) {
        times(a, a->x, a->middle, call);
        times_transposed(a, a->middle, a->y, call);
    } else {
        times_transposed(a, a->x, a->middle, call);
        times(a, a->middle, a->y, call);
    }
}

static double dot(const double *x, const double *y, int64_t size, const analysis_call *call) {
    double total = 0.0;
    for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++) total += x[i] * y[i];
    return total;
}

/* Takes the known first vector out of x and makes it a unit vector; false when nothing is left. */
static bool tidy(normal *a, const double *known, double *x, const analysis_call *call) {
    const double share =
        known != NULL ? dot(known, x, a->size, call) / dot(known, known, a->size, call) : 0.0;
    for (int64_t i = 0; known != NULL && i < a->size; i++) x[i] -= share * known[i];
    const double length = sqrt(dot(x, x, a->size, call));
    /* x was a random or a unit vector, and N is at most 1: what is this short is rounding. */
    if (!(length > 1e-14)) return false;
    for (int64_t i = 0; i < a->size; i++) x[i] /= length;
    return true;
}

/* The largest eigenvalue of N away from `known`, or of I - N (complement); *residual as documented. */
static double power(normal *a, const double *known, bool complement, double *residual,
                    const analysis_call *call) {
    uint64_t draw = 1;
    for (int64_t i = 0; i < a->size; i++) {
        draw = draw * 6364136223846793005u + 1442695040888963407u;
        a->x[i] = (double)(draw >> 11) * 0x1p-53 - 0.5;
    }
    *residual = 0.0;
    double value = 0.0, before = -1.0;
    for (int64_t round = 0;
         round < a->most && ota_analysis_goes_on(call) && tidy(a, known, a->x, call); round++) {
        apply(a, call);
        a->rounds++;
        if (complement) {
            for (int64_t i = 0; i < a->size; i++) a->y[i] = a->x[i] - a->y[i];
        }
        value = dot(a->x, a->y, a->size, call);
        double square = 0.0;
        for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++) {
            const double rest = a->y[i] - value * a->x[i];
            square += rest * rest;
        }
        *residual = sqrt(square);
        for (int64_t i = 0; i < a->size; i++) a->x[i] = a->y[i];
        /* The value's error is about residual^2 over the distance to the next eigenvalue; among many
         * that are near each other it is the value that settles. */
        if (*residual <= 1e-9 || (*residual <= SETTLED && fabs(value - before) <= 1e-14)) break;
        before = value;
    }
    return value;
}

static ota_status sums_of(normal *a, const analysis_call *call) {
    for (int64_t j = 0; j < a->columns; j++) a->column_root[j] = 0.0;
    for (int64_t i = 0; i < a->rows && ota_analysis_goes_on(call); i++) {
        double total = 0.0;
        for (int64_t j = 0; j < a->columns && analysis_goes_on(call, j); j++) {
            const double weight = a->coupling[i * a->columns + j];
            if (!(weight >= 0.0) || isinf(weight)) {
                return ota_analysis_fail(
                    call, OTA_EINVAL, "coupling", "weights are finite, 0 or more",
                    "entry (%" PRId64 ", %" PRId64 ") of the coupling is %g", i, j, weight);
            }
            total += weight;
            a->column_root[j] += weight;
        }
        if (!(total > 0.0)) {
            return ota_analysis_fail(call, OTA_EINVAL, "coupling", "leave empty rows out",
                                     "row %" PRId64 " of the coupling is empty", i);
        }
        a->row_root[i] = sqrt(total);
    }
    for (int64_t j = 0; j < a->columns; j++) {
        if (!(a->column_root[j] > 0.0)) {
            return ota_analysis_fail(call, OTA_EINVAL, "coupling", "leave empty columns out",
                                     "column %" PRId64 " of the coupling is empty", j);
        }
        a->column_root[j] = sqrt(a->column_root[j]);
    }
    return OTA_OK;
}

ota_status ota_coupling_spectrum_of(const double *coupling, int64_t rows, int64_t columns,
                                    int64_t max_rounds, ota_coupling_spectrum *spectrum,
                                    const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_product(rows, columns, &call);
    if (status != OTA_OK) return status;
    normal a = {.coupling = coupling,
                .rows = rows,
                .columns = columns,
                .transposed = columns<rows, .most = max_rounds> 0 ? max_rounds : 100000};
    a.size = a.transposed ? columns : rows;
    const size_t n = (size_t)rows, m = (size_t)columns, small = (size_t)a.size;
    double *numbers = malloc((2 * n + 2 * m + 2 * small) * sizeof *numbers);
    if (numbers == NULL) {
        return ota_analysis_fail(&call, OTA_ENOMEM, "", "free some memory",
                                 "there is no memory for six rows");
    }
    a.row_root = numbers;
    a.column_root = a.row_root + n;
    a.x = a.column_root + m;
    a.y = a.x + small;
    a.middle = a.y + small;
    status = sums_of(&a, &call);
    if (status == OTA_OK) {
        const double *known = a.transposed ? a.column_root : a.row_root;
        spectrum->second =
            fmin(fmax(power(&a, known, false, &spectrum->second_residual, &call), 0.0), 1.0);
        const double most = power(&a, NULL, true, &spectrum->least_residual, &call);
        spectrum->least = fmin(fmax(1.0 - most, 0.0), 1.0);
        spectrum->rounds = a.rounds;
        const double worst = fmax(spectrum->second_residual, spectrum->least_residual);
        if (worst > SETTLED) {
            status = ota_analysis_fail(&call, OTA_NOT_CONVERGED, "max_rounds", "raise max_rounds",
                                       "an eigenvalue is only known within %.2g after %" PRId64
                                       " rounds",
                                       worst, a.rounds);
        }
    }
    free(numbers);
    return ota_analysis_end(status, &call);
}
