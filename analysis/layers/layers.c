/* What stands around attention in a layer: LayerNorm with its geometry, positions, and the chain rule of
 * one head. u [d] a token, m its mean:
 *
 *     c = u - m 1,   sigma = sqrt(||c||^2 / d + epsilon),   LN(u) = gamma * c / sigma + beta    [TOT-56]
 *     J = (I - 1 1^T / d) / sigma - c c^T / (sigma^3 d)                                         [TOT-57]
 *     J c = (epsilon / sigma^3) c,   J w = w / sigma for w in 1^perp and c^perp,   J 1 = 0      [TOT-58]
 *
 * The norm of Gamma J is the root of the largest eigenvalue of Gamma J^2 Gamma, a diagonal less two
 * rank-one matrices; how many of its eigenvalues exceed a number follows from the signs of a 2 x 2
 * matrix (Sylvester), so bisection finds the largest in O(d) a step.
 *
 * (c, sqrt(d epsilon)) / sigma is a point of the sphere of radius sqrt(d) in R^(d+1), and in a Hilbert
 * space |x/|x| - y/|y|| <= 2 |x - y| / (|x| + |y|), hence for any two tokens
 *
 *     ||LN(u) - LN(v)|| <= ||gamma||_inf 2 ||c_u - c_v|| / (sigma_u + sigma_v) */
#include "otattn_analysis.h"

#include <float.h>

#include "analysis/analysis.h"
#include "dense.h"
#include "norm.h"

/* ---- LayerNorm ------------------------------------------------------------------------------ */

static ota_status check_norm(int64_t rows, int64_t width, const double *gamma, const double *beta,
                             double epsilon, const analysis_call *call) {
    ota_status status = analysis_check_size(rows, 1, "rows", call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", call);
    if (status != OTA_OK) return status;
    if (!(epsilon > 0.0) || isinf(epsilon)) {
        return ota_analysis_fail(call, OTA_EINVAL, "epsilon", "choose a finite number above 0",
                                 "epsilon is %g", epsilon);
    }
    if (gamma != NULL) status = analysis_check_finite(gamma, width, "gamma", call);
    if (status == OTA_OK && beta != NULL) status = analysis_check_finite(beta, width, "beta", call);
    return status;
}

static ota_status check_tokens(const double *u, int64_t rows, int64_t width, const char *field,
                               const analysis_call *call) {
    int64_t count;
    if (__builtin_mul_overflow(rows, width, &count)) {
        return ota_analysis_fail(call, OTA_EOVERFLOW, field, "give fewer rows",
                                 "%s has %" PRId64 " x %" PRId64 " entries", field, rows, width);
    }
    return analysis_check_finite(u, count, field, call);
}

/* c = u - mean(u), which may be u itself; returns sigma. */
static double centre(const double *u, int64_t width, double epsilon, double *c,
                     const analysis_call *call) {
    double mean = 0.0, rest = 0.0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) mean += u[k] / (double)width;
    /* A second pass finds what rounding left in the first mean, and is kept apart because the mean has no
       bits for it. */
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++)
        rest += (u[k] - mean) / (double)width;
    for (int64_t k = 0; k < width; k++) c[k] = (u[k] - mean) - rest;
    return hypot(dense_norm(c, width, call) / sqrt((double)width), sqrt(epsilon));
}

ota_status ota_layernorm(const double *u, int64_t rows, int64_t width, const ota_norm *norm,
                         double *y, double *sigma, const ota_analysis_options *options,
                         ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *gamma = norm->gamma, *beta = norm->beta, epsilon = norm->epsilon;
    ota_status status = check_norm(rows, width, gamma, beta, epsilon, &call);
    if (status == OTA_OK) status = check_tokens(u, rows, width, "u", &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        double *row = y + i * width;
        const double s = centre(u + i * width, width, epsilon, row, &call);
        for (int64_t k = 0; k < width; k++)
            row[k] = row[k] / s * norm_entry(gamma, k) + (beta == NULL ? 0.0 : beta[k]);
        if (sigma != NULL) sigma[i] = s;
    }
    return ota_analysis_end(OTA_OK, &call);
}

/* With w = gamma * dy and a = c / sigma:  du = (w - mean(w) - a <a,w> / d) / sigma. */
ota_status ota_layernorm_backward(const double *u, int64_t rows, int64_t width,
                                  const ota_norm *norm, const ota_norm_gradients *gradients,
                                  const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *gamma = norm->gamma, *dy = gradients->dy, epsilon = norm->epsilon;
    double *du = gradients->du, *dgamma = gradients->dgamma, *dbeta = gradients->dbeta;
    ota_status status = check_norm(rows, width, gamma, NULL, epsilon, &call);
    if (status == OTA_OK) status = check_tokens(u, rows, width, "u", &call);
    if (status == OTA_OK) status = check_tokens(dy, rows, width, "dy", &call);
    if (status != OTA_OK) return status;
    for (int64_t k = 0; k < width; k++) {
        if (dgamma != NULL) dgamma[k] = 0.0;
        if (dbeta != NULL) dbeta[k] = 0.0;
    }
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        const double *g = dy + i * width;
        double *a = du + i * width;
        const double sigma = centre(u + i * width, width, epsilon, a, &call);
        double mean = 0.0, along = 0.0;
        for (int64_t k = 0; k < width && analysis_goes_on(&call, k); k++) {
            a[k] /= sigma;
            mean += norm_entry(gamma, k) * g[k] / (double)width;
            along += norm_entry(gamma, k) * g[k] * a[k] / (double)width;
            if (dgamma != NULL) dgamma[k] += g[k] * a[k];
            if (dbeta != NULL) dbeta[k] += g[k];
        }
        for (int64_t k = 0; k < width; k++)
            a[k] = (norm_entry(gamma, k) * g[k] - mean - a[k] * along) / sigma;
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_layernorm_jacobian(const double *u, int64_t width, double epsilon, double *jacobian,
                                  const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = check_norm(1, width, NULL, NULL, epsilon, &call);
    if (status == OTA_OK) status = check_tokens(u, 1, width, "u", &call);
    if (status != OTA_OK) return status;
    /* c waits in the first row, which is therefore written last. */
    double *c = jacobian;
    const double size = (double)width, sigma = centre(u, width, epsilon, c, &call);
    for (int64_t i = width - 1; i >= 0 && ota_analysis_goes_on(&call); i--) {
        const double factor = c[i] / sigma / sigma / size;
        for (int64_t k = 0; k < width; k++)
            jacobian[i * width + k] = ((i == k ? 1.0 : 0.0) - 1.0 / size - factor * c[k]) / sigma;
    }
    return ota_analysis_end(OTA_OK, &call);
}

/* Diagonal gamma^2 less a a^T and b b^T: a = gamma / sqrt(d), b = along gamma * c. Have all eigenvalues
 * a value of at most `level`? */
static bool all_below(const double *gamma, const double *c, double along, int64_t width,
                      double level, const analysis_call *call) {
    double aa = 0.0, ab = 0.0, bb = 0.0;
    int64_t above = 0;
    for (int64_t k = 0; k < width && analysis_goes_on(call, k); k++) {
        const double g = norm_entry(gamma, k), a = g / sqrt((double)width), b = along * g * c[k];
        /* On a pole the level moves up by its last bits. */
        double distance = g * g - level;
        if (fabs(distance) < DBL_EPSILON * level) distance = -DBL_EPSILON * level;
        if (distance == 0.0) continue;
        above += distance > 0.0;
        aa += a * a / distance;
        ab += a * b / distance;
        bb += b * b / distance;
    }
    const double determinant = (1.0 - aa) * (1.0 - bb) - ab * ab;
    const int positive = determinant < 0.0 ? 1 : (1.0 - aa) + (1.0 - bb) > 0.0 ? 2 : 0;
    return above + positive - 2 <= 0;
}

ota_status ota_layernorm_geometry(const double *u, int64_t width, const ota_norm *norm,
                                  double *workspace, ota_layernorm_spectrum *spectrum,
                                  const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *gamma = norm->gamma, epsilon = norm->epsilon;
    ota_status status = check_norm(1, width, gamma, NULL, epsilon, &call);
    if (status == OTA_OK) status = check_tokens(u, 1, width, "u", &call);
    if (status != OTA_OK) return status;
    double *c = workspace, largest = 0.0;
    const double size = (double)width, sigma = centre(u, width, epsilon, c, &call);
    for (int64_t k = 0; k < width && analysis_goes_on(&call, k); k++)
        largest = fmax(largest, fabs(u[k]));
    const double length = dense_norm(c, width, &call), variance = length * length / size;
    const bool flat = width == 1 || length <= size * 0x1p-53 * largest;
    const double kept = epsilon / sigma / sigma;
    const double gamma_largest = norm_largest_entry(gamma, width, &call);
    *spectrum = (ota_layernorm_spectrum){
        .sigma = sigma,
        .parallel = flat ? (double)NAN : kept / sigma,
        .perpendicular = 1.0 / sigma,
        .perpendicular_count = flat ? width - 1 : width - 2,
        .printed = gamma_largest / sigma,
        .global_printed = gamma_largest / sqrt(epsilon),
    };
    if (width == 1) return ota_analysis_end(OTA_OK, &call);
    if (width == 2) {
        /* 1^perp is one line, and no difference of near numbers is needed. */
        const double across = hypot(norm_entry(gamma, 0), norm_entry(gamma, 1)) / sqrt(2.0);
        spectrum->exact = (flat ? 1.0 : kept) / sigma * across;
        spectrum->global_exact = across / sqrt(epsilon);
        return ota_analysis_end(OTA_OK, &call);
    }
    /* J^2 = (I - 1 1^T / d - (1 - kept^2) c c^T / ||c||^2) / sigma^2 */
    const double lost = variance * (2.0 * epsilon + variance) / (sigma * sigma) / (sigma * sigma);
    spectrum->exact =
        norm_deflated(all_below, gamma, c, flat ? 0.0 : sqrt(lost) / length, width, &call) / sigma;
    spectrum->global_exact = norm_deflated(all_below, gamma, c, 0.0, width, &call) / sqrt(epsilon);
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_layernorm_change(const double *u, const double *v, int64_t width,
                                const ota_norm *norm, double *workspace, ota_change *change,
                                const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *gamma = norm->gamma, epsilon = norm->epsilon;
    ota_status status = check_norm(1, width, gamma, NULL, epsilon, &call);
    if (status == OTA_OK) status = check_tokens(u, 1, width, "u", &call);
    if (status == OTA_OK) status = check_tokens(v, 1, width, "v", &call);
    if (status != OTA_OK) return status;
    double *c = workspace, *other = workspace + width, measured = 0.0;
    const double sigma = centre(u, width, epsilon, c, &call),
                 sigma_v = centre(v, width, epsilon, other, &call);
    for (int64_t k = 0; k < width && analysis_goes_on(&call, k); k++)
        measured = hypot(measured, norm_entry(gamma, k) * (c[k] / sigma - other[k] / sigma_v));
    const double largest = norm_largest_entry(gamma, width, &call);
    *change = (ota_change){
        .measured = measured,
        .printed = largest / fmin(sigma, sigma_v) * dense_distance(u, v, width, &call),
        .sharp = largest * 2.0 / (sigma + sigma_v) * dense_distance(c, other, width, &call)};
    change->printed_ratio = change->printed > 0.0 ? measured / change->printed : 0.0;
    change->sharp_ratio = change->sharp > 0.0 ? measured / change->sharp : 0.0;
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- positions ------------------------------------------------------------------------------ */

ota_status ota_absolute_costs(const ota_absolute_positions *of, double *workspace, double *costs,
                              double *parts, const ota_analysis_options *options,
                              ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *x = of->x, *positions = of->positions, temperature = of->temperature;
    const double *query_weights = of->query_weights, *key_weights = of->key_weights;
    const int64_t tokens = of->tokens, width = of->width, head_width = of->head_width;
    ota_status status = analysis_check_size(tokens, 1, "tokens", &call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", &call);
    if (status == OTA_OK) status = analysis_check_size(head_width, 1, "head_width", &call);
    if (status == OTA_OK) status = analysis_check_positive(&temperature, 1, "temperature", &call);
    if (status == OTA_OK) status = check_tokens(x, tokens, width, "x", &call);
    if (status == OTA_OK) status = check_tokens(positions, tokens, width, "positions", &call);
    if (status == OTA_OK)
        status = check_tokens(query_weights, width, head_width, "query_weights", &call);
    if (status == OTA_OK)
        status = check_tokens(key_weights, width, head_width, "key_weights", &call);
    if (status != OTA_OK) return status;
    const int64_t block = tokens * head_width, pairs = tokens * tokens;
    double *const queries[2] = {workspace, workspace + block};
    double *const keys[2] = {workspace + 2 * block, workspace + 3 * block};
    const double *const sources[2] = {x, positions};
    for (int source = 0; source < 2; source++) {
        dense_product(sources[source], width, query_weights, NULL, queries[source],
                      (dense_size){tokens, width, head_width}, &call);
        dense_product(sources[source], width, key_weights, NULL, keys[source],
                      (dense_size){tokens, width, head_width}, &call);
    }
    for (int64_t i = 0; i < tokens && ota_analysis_goes_on(&call); i++) {
        for (int64_t j = 0; j < tokens && ota_analysis_goes_on(&call); j++) {
            double sum = 0.0;
            for (int part = 0; part < 4; part++) {
                const double term = -dense_dot(queries[part / 2] + i * head_width,
                                               keys[part % 2] + j * head_width, head_width, &call) /
                                    temperature;
                if (parts != NULL) parts[part * pairs + i * tokens + j] = term;
                sum += term;
            }
            costs[i * tokens + j] = sum;
        }
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_relative_costs(const ota_relative_positions *of, double *costs,
                              const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const double *q = of->q, *k = of->k, *bias = of->bias, temperature = of->temperature;
    const int64_t queries = of->queries, keys = of->keys, head_width = of->head_width;
    const ota_bias_place place = of->place;
    ota_status status = analysis_check_size(queries, 1, "queries", &call);
    if (status == OTA_OK) status = analysis_check_size(keys, 1, "keys", &call);
    if (status == OTA_OK) status = analysis_check_size(head_width, 1, "head_width", &call);
    if (status == OTA_OK) status = analysis_check_positive(&temperature, 1, "temperature", &call);
    if (status == OTA_OK) status = check_tokens(q, queries, head_width, "q", &call);
    if (status == OTA_OK) status = check_tokens(k, keys, head_width, "k", &call);
    if (status == OTA_OK) status = analysis_check_finite(bias, queries + keys - 1, "bias", &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < queries && ota_analysis_goes_on(&call); i++) {
        for (int64_t j = 0; j < keys && ota_analysis_goes_on(&call); j++) {
            const double dot = dense_dot(q + i * head_width, k + j * head_width, head_width, &call);
            const double b = bias[i - j + keys - 1];
            costs[i * keys + j] =
                place == OTA_BIAS_INSIDE ? -(dot + b) / temperature : -dot / temperature - b;
        }
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_alibi_bias(double slope, int64_t queries, int64_t keys, int64_t offset, int causal,
                          double *bias, const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(queries, 1, "queries", &call);
    if (status == OTA_OK) status = analysis_check_size(keys, 1, "keys", &call);
    if (status == OTA_OK) status = analysis_check_finite(&slope, 1, "slope", &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < queries && ota_analysis_goes_on(&call); i++) {
        for (int64_t j = 0; j < keys; j++) {
            const int64_t back = i + offset - j;
            bias[i * keys + j] =
                causal != 0 && back < 0 ? -(double)INFINITY : -slope * fabs((double)back);
        }
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_rope_matrix(int64_t width, double position, double base, double *rotation,
                           const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    if (width < 2 || width % 2 != 0) {
        return ota_analysis_fail(&call, OTA_EINVAL, "width", "rotary positions turn pairs",
                                 "width is %" PRId64, width);
    }
    const double root = base == 0.0 ? 10000.0 : base;
    ota_status status = analysis_check_positive(&root, 1, "base", &call);
    if (status == OTA_OK) status = analysis_check_finite(&position, 1, "position", &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < width * width; i++) rotation[i] = 0.0;
    for (int64_t k = 0; k < width; k += 2) {
        const double angle = position * pow(root, -(double)k / (double)width);
        rotation[k * width + k] = rotation[(k + 1) * width + k + 1] = cos(angle);
        rotation[(k + 1) * width + k] = sin(angle);
        rotation[k * width + k + 1] = -sin(angle);
    }
    return ota_analysis_end(OTA_OK, &call);
}

/* ---- one head ------------------------------------------------------------------------------- */

ota_status ota_context(const double *p, const double *values, int64_t keys, int64_t values_width,
                       double *context, const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(keys, 1, "keys", &call);
    if (status == OTA_OK) status = analysis_check_size(values_width, 1, "values_width", &call);
    if (status == OTA_OK) status = analysis_check_finite(p, keys, "p", &call);
    if (status == OTA_OK) status = check_tokens(values, keys, values_width, "values", &call);
    if (status != OTA_OK) return status;
    double total = 0.0;
    for (int64_t j = 0; j < keys && analysis_goes_on(&call, j); j++) {
        if (p[j] < 0.0) {
            return ota_analysis_fail(&call, OTA_EINVAL, "p", "probabilities are 0 or more",
                                     "p[%" PRId64 "] is %g", j, p[j]);
        }
        total += p[j];
    }
    if (!(fabs(total - 1.0) <= 1e-6)) {
        return ota_analysis_fail(&call, OTA_EINVAL, "p", "divide the array by its sum",
                                 "the entries of p sum to %.17g, not to 1", total);
    }
    dense_product(p, keys, values, NULL, context, (dense_size){1, keys, values_width}, &call);
    return ota_analysis_end(OTA_OK, &call);
}

static ota_status check_chain(const ota_head_chain *a, const analysis_call *call) {
    const struct {
        const char *field;
        int64_t value;
    } sizes[] = {{"queries", a->queries},
                 {"keys", a->keys},
                 {"width", a->width},
                 {"values_width", a->values_width}};
    ota_status status = OTA_OK;
    for (int k = 0; k < 4 && status == OTA_OK; k++)
        status = analysis_check_size(sizes[k].value, 1, sizes[k].field, call);
    if (status != OTA_OK) return status;
    const struct {
        const char *field;
        const double *data;
        int64_t rows, columns;
    } inputs[] = {{"q", a->q, a->queries, a->width},
                  {"k", a->k, a->keys, a->width},
                  {"v", a->v, a->keys, a->values_width},
                  {"p", a->p, a->queries, a->keys},
                  {"dout", a->dout, a->queries, a->values_width},
                  {"dscores", a->dscores, a->queries, a->keys}};
    for (int k = 0; k < 6 && status == OTA_OK; k++) {
        if (inputs[k].data != NULL)
            status = check_tokens(inputs[k].data, inputs[k].rows, inputs[k].columns,
                                  inputs[k].field, call);
    }
    /* output, the two inputs it is made of */
    const struct {
        const char *name;
        const double *out, *first, *second;
    } needs[] = {{"dp needs dout and v", a->dp, a->dout, a->v},
                 {"dv needs p and dout", a->dv, a->p, a->dout},
                 {"dq needs dscores and k", a->dq, a->dscores, a->k},
                 {"dk needs dscores and q", a->dk, a->dscores, a->q}};
    for (int k = 0; k < 4 && status == OTA_OK; k++) {
        if (needs[k].out != NULL && (needs[k].first == NULL || needs[k].second == NULL)) {
            status = ota_analysis_fail(call, OTA_EINVAL, "chain",
                                       "give both arrays, or leave it out", "%s", needs[k].name);
        }
    }
    return status;
}

/* out [columns_a, columns_b] = scale * a^T b, a [rows, columns_a], b [rows, columns_b] */
static void transposed_product(const double *a, const double *b, double scale, double *out,
                               int64_t rows, int64_t columns_a, int64_t columns_b,
                               const analysis_call *call) {
    for (int64_t i = 0; i < columns_a * columns_b; i++) out[i] = 0.0;
    for (int64_t r = 0; r < rows && ota_analysis_goes_on(call); r++) {
        for (int64_t i = 0; i < columns_a && ota_analysis_goes_on(call); i++) {
            const double factor = scale * a[r * columns_a + i];
            for (int64_t j = 0; j < columns_b; j++)
                out[i * columns_b + j] += factor * b[r * columns_b + j];
        }
    }
}

ota_status ota_head_chain_rule(const ota_head_chain *chain, const ota_analysis_options *options,
                               ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const ota_head_chain a = *chain;
    ota_status status = check_chain(&a, &call);
    if (status == OTA_OK) status = analysis_check_finite(&a.scale, 1, "scale", &call);
    if (status != OTA_OK) return status;
    const double scale = a.scale == 0.0 ? 1.0 / sqrt((double)a.width) : a.scale;
    for (int64_t i = 0; a.dp != NULL && i < a.queries && ota_analysis_goes_on(&call); i++) {
        for (int64_t j = 0; j < a.keys; j++)
            a.dp[i * a.keys + j] = dense_dot(a.dout + i * a.values_width, a.v + j * a.values_width,
                                             a.values_width, &call);
    }
    if (a.dv != NULL)
        transposed_product(a.p, a.dout, 1.0, a.dv, a.queries, a.keys, a.values_width, &call);
    if (a.dk != NULL)
        transposed_product(a.dscores, a.q, scale, a.dk, a.queries, a.keys, a.width, &call);
    if (a.dq != NULL) {
        dense_product(a.dscores, a.keys, a.k, NULL, a.dq, (dense_size){a.queries, a.keys, a.width},
                      &call);
        for (int64_t i = 0; i < a.queries * a.width; i++) a.dq[i] *= scale;
    }
    return ota_analysis_end(OTA_OK, &call);
}
