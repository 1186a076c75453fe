/* RMSNorm, the norm of Llama's blocks, with its geometry. u [d] a token:
 *
 *     rho = sqrt(||u||^2 / d + epsilon),   N(u) = gamma * u / rho
 *     J = (I - u u^T / (rho^2 d)) / rho:   epsilon / rho^3 on u, 1 / rho on the d - 1 directions across it
 *
 * LayerNorm is this map behind u -> u - mean, so its bounds hold with u in place of c: (u, sqrt(d epsilon)) / rho
 * is a point of the sphere of radius sqrt(d) in R^(d+1), hence
 *
 *     ||N(u) - N(v)|| <= ||gamma||_inf 2 ||u - v|| / (rho_u + rho_v) <= ||gamma||_inf ||u - v|| / min rho
 *
 * ||Gamma J||^2 is the largest eigenvalue of (Gamma^2 - w w^T) / rho^2, w = sqrt(1 - kept^2) gamma * u / ||u||
 * and kept = epsilon / rho^2, found by bisection: with D = Gamma^2 - level, as many eigenvalues are above the
 * level as D has, less one if 1 - w^T D^-1 w < 0 (inertia of a bordered matrix). [TOT-56, 58..60] */
#include "otattn_analysis.h"

#include <float.h>

#include "analysis/analysis.h"
#include "dense.h"
#include "norm.h"

static ota_status check_norm(const double *u, int64_t rows, int64_t width, const double *gamma,
                             double epsilon, const analysis_call *call) {
    int64_t count;
    ota_status status = analysis_check_size(rows, 1, "rows", call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", call);
    if (status != OTA_OK) return status;
    if (!(epsilon > 0.0) || isinf(epsilon)) {
        return ota_analysis_fail(call, OTA_EINVAL, "epsilon", "choose a finite number above 0",
                                 "epsilon is %g", epsilon);
    }
    if (__builtin_mul_overflow(rows, width, &count)) {
        return ota_analysis_fail(call, OTA_EOVERFLOW, "u", "give fewer rows",
                                 "u has %" PRId64 " x %" PRId64 " entries", rows, width);
    }
    if (gamma != NULL) status = analysis_check_finite(gamma, width, "gamma", call);
    return status == OTA_OK ? analysis_check_finite(u, count, "u", call) : status;
}

static double root_of(const double *u, int64_t width, double epsilon, const analysis_call *call) {
    return hypot(dense_norm(u, width, call) / sqrt((double)width), sqrt(epsilon));
}

ota_status ota_rmsnorm(const double *u, int64_t rows, int64_t width, const ota_norm *norm,
                       double *y, double *rho, const ota_analysis_options *options,
                       ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *gamma = norm->gamma, epsilon = norm->epsilon;
    const ota_status status = check_norm(u, rows, width, gamma, epsilon, &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        const double root = root_of(u + i * width, width, epsilon, &call);
        for (int64_t k = 0; k < width; k++)
            y[i * width + k] = norm_entry(gamma, k) * (u[i * width + k] / root);
        if (rho != NULL) rho[i] = root;
    }
    return ota_analysis_end(OTA_OK, &call);
}

/* Are all eigenvalues of Gamma^2 - along^2 (gamma * u) (gamma * u)^T at most `level`? */
static bool all_below(const double *gamma, const double *u, double along, int64_t width,
                      double level, const analysis_call *call) {
    double sum = 0.0;
    int64_t above = 0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) {
        const double g = norm_entry(gamma, k), w = along * g * u[k];
        /* On a pole the level moves up by its last bits. */
        double distance = g * g - level;
        if (fabs(distance) < DBL_EPSILON * level) distance = -DBL_EPSILON * level;
        if (distance == 0.0) continue;
        above += distance > 0.0;
        sum += w * w / distance;
    }
    return above - (1.0 - sum < 0.0 ? 1 : 0) <= 0;
}

ota_status ota_rmsnorm_geometry(const double *u, int64_t width, const ota_norm *norm,
                                ota_layernorm_spectrum *spectrum,
                                const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *gamma = norm->gamma, epsilon = norm->epsilon;
    const ota_status status = check_norm(u, 1, width, gamma, epsilon, &call);
    if (status != OTA_OK) return status;
    const double rho = root_of(u, width, epsilon, &call), length = dense_norm(u, width, &call);
    const double kept = epsilon / rho / rho, largest = norm_largest_entry(gamma, width, &call);
    const bool zero = !(length > 0.0);
    *spectrum = (ota_layernorm_spectrum){
        .sigma = rho,
        .parallel = zero ? (double)NAN : kept / rho,
        .perpendicular = 1.0 / rho,
        .perpendicular_count = zero ? width : width - 1,
        .printed = largest / rho,
        .exact = largest / rho,
        .global_printed = largest / sqrt(epsilon),
        .global_exact = largest / sqrt(epsilon),
    };
    if (zero) return ota_analysis_end(OTA_OK, &call);
    /* In one dimension no difference of near numbers is needed; 1 - kept^2 is lost / rho^4. */
    const double mean = length * length / (double)width;
    const double lost = mean * (2.0 * epsilon + mean) / (rho * rho) / (rho * rho);
    spectrum->exact =
        width == 1 ? kept * largest / rho
                   : norm_deflated(all_below, gamma, u, sqrt(lost) / length, width, &call) / rho;
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_rmsnorm_change(const double *u, const double *v, int64_t width, const ota_norm *norm,
                              ota_change *change, const ota_analysis_options *options,
                              ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *gamma = norm->gamma, epsilon = norm->epsilon;
    ota_status status = check_norm(u, 1, width, gamma, epsilon, &call);
    if (status == OTA_OK) status = check_norm(v, 1, width, NULL, epsilon, &call);
    if (status != OTA_OK) return status;
    const double rho = root_of(u, width, epsilon, &call), rho_v = root_of(v, width, epsilon, &call);
    const double apart = dense_distance(u, v, width, &call),
                 largest = norm_largest_entry(gamma, width, &call);
    double measured = 0.0;
    for (int64_t k = 0; k < width && analysis_goes_on(&call, k); k++)
        measured = hypot(measured, norm_entry(gamma, k) * (u[k] / rho - v[k] / rho_v));
    *change = (ota_change){.measured = measured,
                           .printed = largest / fmin(rho, rho_v) * apart,
                           .sharp = largest * 2.0 / (rho + rho_v) * apart};
    change->printed_ratio = change->printed > 0.0 ? measured / change->printed : 0.0;
    change->sharp_ratio = change->sharp > 0.0 ? measured / change->sharp : 0.0;
    return ota_analysis_end(OTA_OK, &call);
}
