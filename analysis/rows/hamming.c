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
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "analysis/kernels/logit_kernels.h"
#include "analysis/numbers.h"

enum { NEWTON_MOST = 200 };

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

static double total_variation(const pair *a, const analysis_call *call) {
    analysis_sum positive = {0.0, 0.0};
    for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++)
        analysis_add(&positive, fmax(p_at(a, i) - q_at(a, i), 0.0));
    return analysis_total(&positive);
}

static double newton_start(const pair *a, double tv, const analysis_call *call) {
    analysis_sum root = {0.0, 0.0};
    for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++)
        analysis_add(&root, sqrt(fmin(p_at(a, i), q_at(a, i))));
    const double m = analysis_total(&root);
    const double bound = (m + sqrt(m * m + 4.0 * a->k * tv)) / (2.0 * a->k);
    return fmin(1.0 / a->k, bound * bound);
}

static double newton_root(const pair *a, double theta, int64_t *steps, const analysis_call *call) {
    for (*steps = 0; *steps < NEWTON_MOST && ota_analysis_goes_on(call);) {
        analysis_sum f = {0.0, 0.0}, slope = {0.0, 0.0};
        for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++) {
            const double q = q_at(a, i), s = theta + p_at(a, i) - q;
            const double d = sqrt(s * s + 4.0 * q * theta);
            analysis_add(&f, lower_root(s, d, q, theta));
            if (d > 0.0) analysis_add(&slope, 0.5 * ((s + 2.0 * q) / d - 1.0));
        }
        analysis_add(&f, -a->k * theta);
        analysis_add(&slope, -a->k);
        double next = theta - analysis_total(&f) / analysis_total(&slope);
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
                         ota_hamming_result *result, const analysis_call *call) {
    const double level = sqrt((1.0 - a->alpha) * theta); /* alpha sigma */
    analysis_sum sum_x = {0.0, 0.0}, sum_y = {0.0, 0.0};
    for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++) {
        double x, y;
        scaled_at(a, theta, i, &x, &y);
        analysis_add(&sum_x, x);
        analysis_add(&sum_y, y);
    }
    const double kt = a->k * theta;
    analysis_sum cost = {0.0, 0.0}, logs = {0.0, 0.0}, wrong = {0.0, 0.0};
    for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++) {
        double x, y;
        scaled_at(a, theta, i, &x, &y);
        const double row = x * (analysis_total(&sum_y) / kt) + x * y / theta;
        const double column = y * (analysis_total(&sum_x) / kt) + x * y / theta;
        analysis_add(&cost, x * ((analysis_total(&sum_y) - y) / kt));
        analysis_add(&logs, weighted_log(row, x / level));
        analysis_add(&logs, weighted_log(column, y / level));
        analysis_add(&wrong, fabs(row - p_at(a, i)) + fabs(column - q_at(a, i)));
        if (u != NULL) u[i] = x / level;
        if (v != NULL) v[i] = y / level;
    }
    result->theta = theta;
    result->cost = analysis_total(&cost);
    result->objective = a->epsilon * analysis_total(&logs);
    result->marginal_error = analysis_total(&wrong);
}

/* epsilon so small that alpha or theta underflows: what stays, stays; what moves is a product
 * coupling of the surpluses x = (p-q)_+ and y = (q-p)_+, over TV. */
static void zero_limit(const pair *a, double *u, double *v, ota_hamming_result *result,
                       const analysis_call *call) {
    analysis_sum entropy = {0.0, 0.0};
    for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++) {
        const double p = p_at(a, i), q = q_at(a, i), least = fmin(p, q);
        analysis_add(&entropy, -weighted_log(least, least));
        analysis_add(&entropy, -weighted_log(p - least, p - least));
        analysis_add(&entropy, -weighted_log(q - least, q - least));
        if (u != NULL) u[i] = (double)NAN;
        if (v != NULL) v[i] = (double)NAN;
    }
    analysis_add(&entropy, weighted_log(result->tv, result->tv));
    result->rounds = 0;
    result->theta = 0.0;
    result->cost = result->tv;
    result->objective = result->tv - a->epsilon * analysis_total(&entropy);
    result->marginal_error = 0.0;
}

static void solve_newton(const pair *a, const ota_hamming_options *options,
                         ota_hamming_result *result, const analysis_call *call) {
    double *const u = options->u, *const v = options->v;
    result->status = OTA_OK;
    /* Below this start 4 q theta would be subnormal and the root worthless. */
    const double least = 1e-290;
    const double start = 1.0 / a->epsilon > 700.0 ? 0.0 : newton_start(a, result->tv, call);
    if (start < least) {
        zero_limit(a, u, v, result, call);
        return;
    }
    const double theta = newton_root(a, start, &result->rounds, call);
    judge_newton(a, theta, u, v, result, call);
}

static void judge_scalings(const pair *a, const double *u, const double *v,
                           ota_hamming_result *result, const analysis_call *call) {
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    const double sum_u = kernels->total(u, a->size), sum_v = kernels->total(v, a->size);
    analysis_sum cost = {0.0, 0.0}, logs = {0.0, 0.0}, wrong = {0.0, 0.0};
    for (int64_t i = 0; i < a->size && analysis_goes_on(call, i); i++) {
        const double row = u[i] * ((1.0 - a->alpha) * v[i] + a->alpha * sum_v);
        const double column = v[i] * ((1.0 - a->alpha) * u[i] + a->alpha * sum_u);
        analysis_add(&cost, a->alpha * u[i] * (sum_v - v[i]));
        analysis_add(&logs, weighted_log(row, u[i]));
        analysis_add(&logs, weighted_log(column, v[i]));
        analysis_add(&wrong, fabs(row - p_at(a, i)) + fabs(column - q_at(a, i)));
    }
    result->theta = (double)NAN;
    result->cost = analysis_total(&cost);
    result->objective = a->epsilon * analysis_total(&logs);
    result->marginal_error = analysis_total(&wrong);
}

/* Each round is a row update, after which the columns are judged, and a column update; the plan
 * returned is the one judged, so its rows are exact [DER-26]. */
static void solve_sinkhorn(const pair *a, const ota_hamming_options *options,
                           ota_hamming_result *result, const analysis_call *call) {
    const double tolerance = options->tolerance > 0.0 ? options->tolerance : 1e-10;
    const int64_t max_rounds = options->max_rounds > 0 ? options->max_rounds : 1000;
    double *const u = options->u, *const v = options->v;
    const ota_logit_kernels *const kernels = ota_logit_kernels_newest();
    const double slope = 1.0 - a->alpha;
    for (int64_t i = 0; i < a->size; i++) v[i] = 1.0;
    double shared = a->alpha * kernels->total(v, a->size);
    result->status = OTA_NOT_CONVERGED;
    for (result->rounds = 0; result->rounds < max_rounds && ota_analysis_goes_on(call);) {
        shared = a->alpha * kernels->divide(a->p, a->p_scale, v, slope, shared, a->size, u);
        const double error = kernels->miss(v, u, slope, shared, a->q, a->q_scale, a->size);
        if (options->errors != NULL) options->errors[result->rounds] = error;
        result->rounds++;
        if (error <= tolerance) {
            result->status = OTA_OK;
            break;
        }
        if (result->rounds == max_rounds || !ota_analysis_goes_on(call)) break;
        shared = a->alpha * kernels->divide(a->q, a->q_scale, u, slope, shared, a->size, v);
    }
    if (result->rounds > 0) judge_scalings(a, u, v, result, call); /* else: cancelled */
}

void ota_hamming_matvec(double epsilon, const double *x, double *y, int64_t size) {
    const double alpha = exp(-1.0 / epsilon);
    const double shared = alpha * ota_logit_kernels_newest()->total(x, size);
    for (int64_t i = 0; i < size; i++) y[i] = -expm1(-1.0 / epsilon) * x[i] + shared;
}

static ota_status check_options(const ota_hamming_options *options, const analysis_call *call) {
    if (options->size != sizeof *options)
        return ota_analysis_fail(call, OTA_EINVAL, "options.size",
                                 "set it to sizeof(ota_hamming_options)", "options.size is %zu",
                                 options->size);
    if (options->solver > OTA_HAMMING_SINKHORN)
        return ota_analysis_fail(call, OTA_EINVAL, "solver", "take one of ota_hamming_solver",
                                 "solver is %d", (int)options->solver);
    if (!(options->tolerance >= 0.0))
        return ota_analysis_fail(call, OTA_EINVAL, "tolerance", "0 means the default",
                                 "tolerance is negative or NaN");
    if (options->max_rounds < 0)
        return ota_analysis_fail(call, OTA_EINVAL, "max_rounds", "0 means the default",
                                 "max_rounds is negative");
    if (options->solver == OTA_HAMMING_SINKHORN && (options->u == NULL || options->v == NULL))
        return ota_analysis_fail(call, OTA_EINVAL, "u", "give u and v, which Sinkhorn works in",
                                 "u or v is NULL");
    if (options->errors != NULL && options->solver != OTA_HAMMING_SINKHORN)
        return ota_analysis_fail(call, OTA_EINVAL, "errors", "take the Sinkhorn solver",
                                 "only Sinkhorn has errors of rounds");
    if (options->errors != NULL && options->max_rounds < 1)
        return ota_analysis_fail(call, OTA_EINVAL, "max_rounds", "give room for one error a round",
                                 "max_rounds is less than 1");
    return OTA_OK;
}

static ota_status distance_of(const double *p, const double *q, int64_t size, double epsilon,
                              const ota_hamming_options *o, ota_hamming_result *result,
                              const analysis_call *call) {
    if (size < 1)
        return ota_analysis_fail(call, OTA_EINVAL, "size", "a distribution has at least one symbol",
                                 "size is %" PRId64, size);
    if (!(epsilon > 0.0) || isinf(epsilon))
        return ota_analysis_fail(call, OTA_EINVAL, "epsilon", "choose a finite number above 0",
                                 "epsilon is %g", epsilon);
    ota_status status = check_options(o, call);
    if (status != OTA_OK) return status;
    /* k overflows where alpha underflows; Newton then takes the limit. */
    pair a = {.p = p,
              .q = q,
              .size = size,
              .epsilon = epsilon,
              .alpha = exp(-1.0 / epsilon),
              .k = expm1(1.0 / epsilon)};
    status = analysis_check_distribution(p, size, "p", &a.p_scale, call);
    if (status == OTA_OK) status = analysis_check_distribution(q, size, "q", &a.q_scale, call);
    if (status != OTA_OK) return status;
    result->tv = total_variation(&a, call);
    if (o->solver == OTA_HAMMING_NEWTON)
        solve_newton(&a, o, result, call);
    else
        solve_sinkhorn(&a, o, result, call);
    if (result->status == OTA_NOT_CONVERGED && call->error != NULL) {
        (void)ota_analysis_fail(
            call, OTA_NOT_CONVERGED, "max_rounds", "raise max_rounds, or use the Newton solver",
            "marginal error %.2g after %" PRId64 " rounds", result->marginal_error, result->rounds);
    }
    return ota_analysis_end(result->status, call);
}

ota_status ota_hamming(const double *p, const double *q, int64_t size, double epsilon,
                       const ota_hamming_options *how, ota_hamming_result *result,
                       const ota_analysis_options *options, ota_error *error) {
    static const ota_hamming_options standard = {.size = sizeof standard};
    const analysis_call call = ota_analysis_begin(options, error);
    result->divergence = (double)NAN;
    return distance_of(p, q, size, epsilon, how != NULL ? how : &standard, result, &call);
}

ota_status ota_hamming_divergence(const double *p, const double *q, int64_t size, double epsilon,
                                  const ota_hamming_options *how, ota_hamming_result *result,
                                  const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_hamming_result found[3];
    ota_status worst = OTA_OK;
    const double *const first[3] = {p, q, p}, *const second[3] = {p, q, q};
    /* The pair itself comes last, so that the arrays of `how` are its own. */
    for (int k = 0; k < 3; k++) {
        const ota_status status =
            ota_hamming(first[k], second[k], size, epsilon, how, &found[k], options, error);
        if (status != OTA_OK && status != OTA_NOT_CONVERGED) return status;
        if (status != OTA_OK) worst = status;
    }
    *result = found[2];
    result->divergence = found[2].objective - 0.5 * (found[0].objective + found[1].objective);
    return ota_analysis_end(worst, &call);
}
