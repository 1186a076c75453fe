/* analysis/rows/: One row of weights or two distributions: bounds of softmax, geometry, divergences, transport at
 * Hamming cost. It may call the public headers, analysis/ and analysis/kernels/.
 *
 * Geometry of one softmax row: scores s, weights p, utilities u, all [m], at temperature tau.
 *
 *     phi(s) = tau log sum exp(s/tau),  grad phi = p,  Hessian = tau F,  F = (diag p - p p^T) / tau^2
 *     dL/ds  = -(p/tau) (u - E_p u) = -tau F u,   natural step -F^+ dL/ds = tau (u - mean u)
 *
 * E_p u is taken about the u of the largest p, so that a saturated row keeps its small advantages. */
#include "analysis/numbers.h"

/* Small enough that the difference of two is finite. */
static ota_status check_numbers(const double *x, int64_t size, const char *field,
                                const analysis_call *call) {
    const analysis_numbers numbers = {x, OTA_F64};
    return analysis_check_numbers(&numbers, size, 1.0, field, call);
}

static ota_status check_scores(const double *scores, int64_t size, double temperature,
                               const analysis_call *call) {
    const analysis_numbers s = {scores, OTA_F64};
    ota_status status = analysis_check_size(size, 1, "size", call);
    if (status == OTA_OK) status = analysis_check_temperature(temperature, call);
    if (status == OTA_OK) status = analysis_check_numbers(&s, size, temperature, "scores", call);
    return status;
}

static ota_status check_weights(const double *p, int64_t size, double temperature, double *scale,
                                const analysis_call *call) {
    ota_status status = analysis_check_size(size, 1, "size", call);
    if (status == OTA_OK) status = analysis_check_temperature(temperature, call);
    if (status == OTA_OK) status = analysis_check_distribution(p, size, "p", scale, call);
    return status;
}

static double potential_of(const analysis_softmax *s) {
    return s->top + s->temperature * s->log_total;
}

ota_status ota_softmax_potential(const double *scores, int64_t size, double temperature,
                                 double *potential, double *weights,
                                 const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const ota_status status = check_scores(scores, size, temperature, &call);
    if (status != OTA_OK) return status;
    const analysis_softmax s =
        analysis_softmax_of((analysis_numbers){scores, OTA_F64}, size, temperature, &call);
    *potential = potential_of(&s);
    for (int64_t j = 0; j < size && weights != NULL && analysis_goes_on(&call, j); j++) {
        weights[j] = exp((scores[j] - s.top) / temperature) / (1.0 + s.rest);
    }
    return ota_analysis_end(OTA_OK, &call);
}

static double weighted_log(double p) { return p > 0.0 ? p * log(p) : 0.0; }

ota_status ota_softmax_objective(const double *p, const double *scores, int64_t size,
                                 double temperature, double *objective,
                                 const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    ota_status status = check_scores(scores, size, temperature, &call);
    if (status == OTA_OK) status = check_weights(p, size, temperature, &scale, &call);
    if (status != OTA_OK) return status;
    analysis_sum sum = {0.0, 0.0};
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) {
        const double weight = p[j] * scale;
        analysis_add(&sum, -weight * scores[j]);
        analysis_add(&sum, temperature * weighted_log(weight));
    }
    *objective = analysis_total(&sum);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_softmax_dual(const double *scores, int64_t size, double temperature, double lambda,
                            double *value, const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_scores(scores, size, temperature, &call);
    if (status == OTA_OK) status = analysis_check_finite(&lambda, 1, "lambda", &call);
    if (status != OTA_OK) return status;
    analysis_sum sum = {0.0, 0.0};
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) {
        analysis_add(&sum, exp((scores[j] + lambda) / temperature - 1.0));
    }
    *value = lambda - temperature * analysis_total(&sum);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_fenchel_of(const double *p, const double *scores, int64_t size, double temperature,
                          ota_fenchel *fenchel, const ota_analysis_options *options,
                          ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    ota_status status = check_scores(scores, size, temperature, &call);
    if (status == OTA_OK) status = check_weights(p, size, temperature, &scale, &call);
    if (status != OTA_OK) return status;
    const analysis_softmax s =
        analysis_softmax_of((analysis_numbers){scores, OTA_F64}, size, temperature, &call);
    analysis_sum gap = {0.0, 0.0}, divergence = {0.0, 0.0}, level = {0.0, 0.0};
    double least = (double)INFINITY, most = -(double)INFINITY;
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) {
        const double weight = p[j] * scale, best = analysis_log_weight(&s, j);
        analysis_add(&gap, temperature * weighted_log(weight));
        analysis_add(&gap, -weight * scores[j]);
        const double excess = weight > 0.0 ? log(weight) - best : 0.0;
        analysis_add(&divergence, analysis_relative_term(exp(best), weight, excess));
        if (weight > 0.0) {
            const double here = scores[j] - temperature * (log(weight) + 1.0);
            analysis_add(&level, weight * here);
            least = fmin(least, here);
            most = fmax(most, here);
        }
    }
    analysis_add(&gap, potential_of(&s));
    fenchel->gap = analysis_total(&gap);
    fenchel->divergence = temperature * analysis_total(&divergence);
    fenchel->level = analysis_total(&level);
    fenchel->spread = most - least;
    return ota_analysis_end(OTA_OK, &call);
}

/* E_p x - x_leader, and the leader. */
static double mean_above(const double *p, double scale, const double *x, int64_t size,
                         int64_t *leader, const analysis_call *call) {
    *leader = 0;
    for (int64_t j = 1; j < size && analysis_goes_on(call, j); j++) {
        if (p[j] > p[*leader]) *leader = j;
    }
    analysis_sum sum = {0.0, 0.0};
    for (int64_t j = 0; j < size && analysis_goes_on(call, j); j++)
        analysis_add(&sum, p[j] * scale * (x[j] - x[*leader]));
    return analysis_total(&sum);
}

ota_status ota_advantage(const double *p, const double *utility, int64_t size, double temperature,
                         double *advantage, double *gradient, const ota_analysis_options *options,
                         ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    ota_status status = check_weights(p, size, temperature, &scale, &call);
    if (status == OTA_OK) status = check_numbers(utility, size, "utility", &call);
    if (status != OTA_OK) return status;
    int64_t leader;
    const double mean = mean_above(p, scale, utility, size, &leader, &call), base = utility[leader];
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) {
        const double here = (utility[j] - base) - mean;
        if (gradient != NULL) gradient[j] = -(p[j] * scale / temperature) * here;
        if (advantage != NULL) advantage[j] = here;
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_fisher_product(const double *p, const double *x, int64_t size, double temperature,
                              double *product, const ota_analysis_options *options,
                              ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    ota_status status = check_weights(p, size, temperature, &scale, &call);
    if (status == OTA_OK) status = check_numbers(x, size, "x", &call);
    if (status != OTA_OK) return status;
    int64_t leader;
    const double mean = mean_above(p, scale, x, size, &leader, &call), base = x[leader];
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) {
        product[j] = p[j] * scale / temperature * ((x[j] - base) - mean) / temperature;
    }
    return ota_analysis_end(OTA_OK, &call);
}

/* (diag p - p p^T) / divisor, the diagonal as p_k times the mass of the others. */
static void covariance(const double *p, double scale, int64_t size, double divisor, double *matrix,
                       const analysis_call *call) {
    for (int64_t k = 0; k < size && ota_analysis_goes_on(call); k++) {
        analysis_sum others = {0.0, 0.0};
        for (int64_t j = 0; j < size && analysis_goes_on(call, j); j++) {
            matrix[k * size + j] = -(p[k] * scale) * (p[j] * scale) / divisor;
            if (j != k) analysis_add(&others, p[j] * scale);
        }
        matrix[k * size + k] = p[k] * scale * analysis_total(&others) / divisor;
    }
}

ota_status ota_fisher_matrix(const double *p, int64_t size, double temperature, double *fisher,
                             int64_t *rank, const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    const ota_status status = check_weights(p, size, temperature, &scale, &call);
    if (status != OTA_OK) return status;
    if (fisher != NULL) covariance(p, scale, size, temperature * temperature, fisher, &call);
    if (rank != NULL) {
        *rank = -1;
        for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) *rank += p[j] > 0.0;
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_softmax_jacobian(const double *p, int64_t size, double temperature, double *jacobian,
                                const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    const ota_status status = check_weights(p, size, temperature, &scale, &call);
    if (status == OTA_OK) covariance(p, scale, size, temperature, jacobian, &call);
    return ota_analysis_end(status, &call);
}

ota_status ota_natural_gradient(const double *p, const double *utility, int64_t size,
                                double temperature, double *step,
                                const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    double scale = 1.0;
    ota_status status = check_weights(p, size, temperature, &scale, &call);
    if (status == OTA_OK) status = check_numbers(utility, size, "utility", &call);
    if (status != OTA_OK) return status;
    analysis_sum sum = {0.0, 0.0};
    int64_t support = 0;
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) support += p[j] > 0.0;
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) {
        if (p[j] > 0.0) analysis_add(&sum, utility[j] / (double)support);
    }
    for (int64_t j = 0; j < size && analysis_goes_on(&call, j); j++) {
        step[j] = p[j] > 0.0 ? temperature * (utility[j] - analysis_total(&sum)) : 0.0;
    }
    return ota_analysis_end(OTA_OK, &call);
}
