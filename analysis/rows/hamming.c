/* Entropic transport at Hamming cost: p, q [V] -> cost, objective, scalings u, v [V].
 *
 *     K = (1 - alpha) I + alpha 1 1^T,   alpha = exp(-1/epsilon),   k = (1 - alpha)/alpha = expm1(1/epsilon)
 *
 * Scaled so that sum u = sum v = sigma, and with theta = (alpha sigma)^2/(1 - alpha), x = alpha sigma u,
 * y = alpha sigma v, b = p - q, the marginal conditions become x_i - y_i = b_i and
 *
 *     y_i(theta) = 2 q_i theta / (b_i + theta + D_i),   D_i = sqrt((b_i + theta)^2 + 4 q_i theta)
 *     F(theta) = sum y_i(theta) - k theta = 0
 *
 * F is concave with one positive root, so Newton from above the root falls to it monotonically
 * [DER-05]; the start min(1/k, ((M + sqrt(M^2 + 4 k TV))/2k)^2), M = sum sqrt(min(p,q)), is above it
 * [DER-28]. In x and y, without any division by a vanishing alpha:
 *
 *     P_ij = x_i y_j / (k theta) for i != j,   P_ii = x_i y_i / ((1 - alpha) theta) */
#include "otattn_analysis.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "analysis/kernels/logit_kernels.h"

enum { NEWTON_MOST = 200 };

/* Compensated sum (Neumaier): V terms cost two roundings, not V. */
typedef struct sum {
    double total, rest;
} sum;

static void add(sum *s, double term) {
    const double total = s->total + term;
    s->rest += fabs(s->total) >= fabs(term) ? (s->total - total) + term : (term - total) + s->total;
    s->total = total;
}

static double value(const sum *s) { return s->total + s->rest; }

static ota_status refuse(ota_error *error, const char *field, const char *hint,
                         const char *message) {
    if (error != NULL) {
        memset(error, 0, sizeof *error);
        (void)snprintf(error->field, sizeof error->field, "%s", field);
        (void)snprintf(error->hint, sizeof error->hint, "%s", hint);
        (void)snprintf(error->message, sizeof error->message, "%s", message);
    }
    return OTA_EINVAL;
}

/* *scale = 1 / sum when the entries are a distribution. */
static ota_status check_distribution(const double *p, int64_t size, const char *field,
                                     double *scale, ota_error *error) {
    char message[160];
    sum total = {0.0, 0.0};
    for (int64_t i = 0; i < size; i++) {
        if (!(p[i] >= 0.0) || isinf(p[i])) {
            (void)snprintf(message, sizeof message, "%s[%" PRId64 "] is %g", field, i, p[i]);
            return refuse(error, field, "probabilities are finite, 0 or more", message);
        }
        add(&total, p[i]);
    }
    if (!(fabs(value(&total) - 1.0) <= 1e-6)) {
        (void)snprintf(message, sizeof message, "the entries of %s sum to %.17g, not to 1", field,
                       value(&total));
        return refuse(error, field, "divide the array by its sum", message);
    }
    *scale = 1.0 / value(&total);
    return OTA_OK;
}

/* A problem with both distributions scaled to sum 1. */
typedef struct pair {
    const double *p, *q;
    double p_scale, q_scale;
    int64_t size;
    double epsilon, alpha, k;
} pair;

static double p_at(const pair *a, int64_t i) { return a->p[i] * a->p_scale; }

static double q_at(const pair *a, int64_t i) { return a->q[i] * a->q_scale; }

/* Half of (D - s) for s = b + theta, D = sqrt(s^2 + 4 w theta), without cancellation. */
static double lower_root(double s, double d, double w, double theta) {
    if (s > 0.0) return 2.0 * w * theta / (s + d);
    return 0.5 * (d - s);
}

/* x_i, y_i at theta. */
static void scaled_at(const pair *a, double theta, int64_t i, double *x, double *y) {
    const double p = p_at(a, i), q = q_at(a, i), b = p - q;
    const double d = sqrt((b + theta) * (b + theta) + 4.0 * q * theta);
    *y = lower_root(theta + b, d, q, theta);
    *x = lower_root(theta - b, d, p, theta);
}

static double total_variation(const pair *a) {
    sum positive = {0.0, 0.0};
    for (int64_t i = 0; i < a->size; i++) add(&positive, fmax(p_at(a, i) - q_at(a, i), 0.0));
    return value(&positive);
}

static double newton_start(const pair *a, double tv) {
    sum root = {0.0, 0.0};
    for (int64_t i = 0; i < a->size; i++) add(&root, sqrt(fmin(p_at(a, i), q_at(a, i))));
    const double m = value(&root);
    const double bound = (m + sqrt(m * m + 4.0 * a->k * tv)) / (2.0 * a->k);
    return fmin(1.0 / a->k, bound * bound);
}

static double newton_root(const pair *a, double theta, int64_t *steps) {
    for (*steps = 0; *steps < NEWTON_MOST;) {
        sum f = {0.0, 0.0}, slope = {0.0, 0.0};
        for (int64_t i = 0; i < a->size; i++) {
            const double q = q_at(a, i), s = theta + p_at(a, i) - q;
            const double d = sqrt(s * s + 4.0 * q * theta);
            add(&f, lower_root(s, d, q, theta));
            if (d > 0.0) add(&slope, 0.5 * ((s + 2.0 * q) / d - 1.0));
        }
        add(&f, -a->k * theta);
        add(&slope, -a->k);
        double next = theta - value(&f) / value(&slope);
        if (!(next > 0.0)) next = 0.5 * theta;
        (*steps)++;
        /* Quadratic: after a step this short, what is left lies below the last bit. */
        const bool done = fabs(next - theta) <= 1e-9 * theta;
        theta = next;
        if (done) break;
    }
    return theta;
}

/* log with 0 log 0 = 0. */
static double weighted_log(double weight, double x) { return weight > 0.0 ? weight * log(x) : 0.0; }

static void judge_newton(const pair *a, double theta, double *u, double *v,
                         ota_hamming_result *result) {
    const double level = sqrt((1.0 - a->alpha) * theta); /* alpha sigma */
    sum sum_x = {0.0, 0.0}, sum_y = {0.0, 0.0};
    for (int64_t i = 0; i < a->size; i++) {
        double x, y;
        scaled_at(a, theta, i, &x, &y);
        add(&sum_x, x);
        add(&sum_y, y);
    }
    const double kt = a->k * theta;
    sum cost = {0.0, 0.0}, logs = {0.0, 0.0}, wrong = {0.0, 0.0};
    for (int64_t i = 0; i < a->size; i++) {
        double x, y;
        scaled_at(a, theta, i, &x, &y);
        const double row = x * (value(&sum_y) / kt) + x * y / theta;
        const double column = y * (value(&sum_x) / kt) + x * y / theta;
        add(&cost, x * ((value(&sum_y) - y) / kt));
        add(&logs, weighted_log(row, x / level));
        add(&logs, weighted_log(column, y / level));
        add(&wrong, fabs(row - p_at(a, i)) + fabs(column - q_at(a, i)));
        if (u != NULL) u[i] = x / level;
        if (v != NULL) v[i] = y / level;
    }
    result->theta = theta;
    result->cost = value(&cost);
    result->objective = a->epsilon * value(&logs);
    result->marginal_error = value(&wrong);
}

/* epsilon so small that alpha or theta underflows: what stays, stays; what moves is a product
 * coupling of the surpluses x = (p-q)_+ and y = (q-p)_+, over TV. */
static void zero_limit(const pair *a, double *u, double *v, ota_hamming_result *result) {
    sum entropy = {0.0, 0.0};
    for (int64_t i = 0; i < a->size; i++) {
        const double p = p_at(a, i), q = q_at(a, i), least = fmin(p, q);
        add(&entropy, -weighted_log(least, least));
        add(&entropy, -weighted_log(p - least, p - least));
        add(&entropy, -weighted_log(q - least, q - least));
        if (u != NULL) u[i] = (double)NAN;
        if (v != NULL) v[i] = (double)NAN;
    }
    add(&entropy, weighted_log(result->tv, result->tv));
    result->rounds = 0;
    result->theta = 0.0;
    result->cost = result->tv;
    result->objective = result->tv - a->epsilon * value(&entropy);
    result->marginal_error = 0.0;
}

static void solve_newton(const pair *a, double *u, double *v, ota_hamming_result *result) {
    result->status = OTA_OK;
    /* Below this start 4 q theta would be subnormal and the root worthless. */
    const double least = 1e-290;
    const double start = 1.0 / a->epsilon > 700.0 ? 0.0 : newton_start(a, result->tv);
    if (start < least) {
        zero_limit(a, u, v, result);
        return;
    }
    const double theta = newton_root(a, start, &result->rounds);
    judge_newton(a, theta, u, v, result);
}

static void judge_scalings(const pair *a, const double *u, const double *v,
                           ota_hamming_result *result) {
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    const double sum_u = kernels->total(u, a->size), sum_v = kernels->total(v, a->size);
    sum cost = {0.0, 0.0}, logs = {0.0, 0.0}, wrong = {0.0, 0.0};
    for (int64_t i = 0; i < a->size; i++) {
        const double row = u[i] * ((1.0 - a->alpha) * v[i] + a->alpha * sum_v);
        const double column = v[i] * ((1.0 - a->alpha) * u[i] + a->alpha * sum_u);
        add(&cost, a->alpha * u[i] * (sum_v - v[i]));
        add(&logs, weighted_log(row, u[i]));
        add(&logs, weighted_log(column, v[i]));
        add(&wrong, fabs(row - p_at(a, i)) + fabs(column - q_at(a, i)));
    }
    result->theta = (double)NAN;
    result->cost = value(&cost);
    result->objective = a->epsilon * value(&logs);
    result->marginal_error = value(&wrong);
}

/* Each round is a row update, after which the columns are judged, and a column update; the plan
 * returned is the one judged, so its rows are exact [DER-26]. errors [max_rounds] or NULL: what was judged. */
static void solve_sinkhorn(const pair *a, double tolerance, int64_t max_rounds, double *u,
                           double *v, double *errors, ota_hamming_result *result) {
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    const double slope = 1.0 - a->alpha;
    for (int64_t i = 0; i < a->size; i++) v[i] = 1.0;
    double shared = a->alpha * kernels->total(v, a->size);
    result->status = OTA_NOT_CONVERGED;
    for (result->rounds = 0; result->rounds < max_rounds;) {
        shared = a->alpha * kernels->divide(a->p, a->p_scale, v, slope, shared, a->size, u);
        const double error = kernels->miss(v, u, slope, shared, a->q, a->q_scale, a->size);
        if (errors != NULL) errors[result->rounds] = error;
        result->rounds++;
        if (error <= tolerance) {
            result->status = OTA_OK;
            break;
        }
        if (result->rounds == max_rounds) break;
        shared = a->alpha * kernels->divide(a->q, a->q_scale, u, slope, shared, a->size, v);
    }
    judge_scalings(a, u, v, result);
}

void ota_hamming_matvec(double epsilon, const double *x, double *y, int64_t size) {
    const double alpha = exp(-1.0 / epsilon);
    const double shared = alpha * ota_logit_kernels_newest()->total(x, size);
    for (int64_t i = 0; i < size; i++) y[i] = -expm1(-1.0 / epsilon) * x[i] + shared;
}

static ota_status solve(const double *p, const double *q, int64_t size, double epsilon,
                        ota_hamming_solver solver, double tolerance, int64_t max_rounds, double *u,
                        double *v, double *errors, ota_hamming_result *result, ota_error *error) {
    char message[96];
    if (size < 1) {
        (void)snprintf(message, sizeof message, "size is %" PRId64, size);
        return refuse(error, "size", "a distribution has at least one symbol", message);
    }
    if (!(epsilon > 0.0) || isinf(epsilon)) {
        (void)snprintf(message, sizeof message, "epsilon is %g", epsilon);
        return refuse(error, "epsilon", "choose a finite number above 0", message);
    }
    if (!(tolerance >= 0.0) || max_rounds < 0) {
        return refuse(error, tolerance >= 0.0 ? "max_rounds" : "tolerance", "0 means the default",
                      tolerance >= 0.0 ? "max_rounds is negative" : "tolerance is negative or NaN");
    }
    if (solver == OTA_HAMMING_SINKHORN && (u == NULL || v == NULL)) {
        return refuse(error, "u", "give u and v, which Sinkhorn works in", "u or v is NULL");
    }
    /* k overflows where alpha underflows; Newton then takes the limit. */
    pair a = {.p = p,
              .q = q,
              .size = size,
              .epsilon = epsilon,
              .alpha = exp(-1.0 / epsilon),
              .k = expm1(1.0 / epsilon)};
    ota_status status = check_distribution(p, size, "p", &a.p_scale, error);
    if (status == OTA_OK) status = check_distribution(q, size, "q", &a.q_scale, error);
    if (status != OTA_OK) return status;
    result->tv = total_variation(&a);
    if (solver == OTA_HAMMING_NEWTON) {
        solve_newton(&a, u, v, result);
    } else {
        solve_sinkhorn(&a, tolerance > 0.0 ? tolerance : 1e-10, max_rounds > 0 ? max_rounds : 1000,
                       u, v, errors, result);
    }
    if (result->status == OTA_NOT_CONVERGED && error != NULL) {
        (void)snprintf(message, sizeof message, "marginal error %.2g after %" PRId64 " rounds",
                       result->marginal_error, result->rounds);
        (void)refuse(error, "max_rounds", "raise max_rounds, or use the Newton solver", message);
    }
    return result->status;
}

ota_status ota_hamming(const double *p, const double *q, int64_t size, double epsilon,
                       ota_hamming_solver solver, double tolerance, int64_t max_rounds, double *u,
                       double *v, ota_hamming_result *result, ota_error *error) {
    return solve(p, q, size, epsilon, solver, tolerance, max_rounds, u, v, NULL, result, error);
}

ota_status ota_hamming_errors(const double *p, const double *q, int64_t size, double epsilon,
                              double tolerance, int64_t max_rounds, double *u, double *v,
                              double *errors, ota_hamming_result *result, ota_error *error) {
    if (max_rounds < 1 || errors == NULL)
        return refuse(error, max_rounds < 1 ? "max_rounds" : "errors",
                      "give room for one error a round",
                      max_rounds < 1 ? "max_rounds is less than 1" : "errors is NULL");
    return solve(p, q, size, epsilon, OTA_HAMMING_SINKHORN, tolerance, max_rounds, u, v, errors,
                 result, error);
}

ota_status ota_hamming_divergence(const double *p, const double *q, int64_t size, double epsilon,
                                  ota_hamming_solver solver, double tolerance, int64_t max_rounds,
                                  double *u, double *v, double *divergence,
                                  ota_hamming_result *result, ota_error *error) {
    ota_hamming_result own[3];
    ota_status worst = OTA_OK;
    const double *const first[3] = {p, q, p}, *const second[3] = {p, q, q};
    /* The pair itself comes last, so that u and v are its scalings. */
    for (int k = 0; k < 3; k++) {
        const ota_status status = ota_hamming(first[k], second[k], size, epsilon, solver, tolerance,
                                              max_rounds, u, v, &own[k], error);
        if (status != OTA_OK && status != OTA_NOT_CONVERGED) return status;
        if (status != OTA_OK) worst = status;
    }
    *divergence = own[2].objective - 0.5 * (own[0].objective + own[1].objective);
    if (result != NULL) *result = own[2];
    return worst;
}
