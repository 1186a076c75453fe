/* LayerNorm and its geometry, positions, and the chain rule of one head, against golden values,
 * differences and laws. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "groups.h"
#include "held_memory.h"
#include "layer_support.h"
#include "otattn_analysis.h"
#include "spec.h"

/* Derivative of value(context) along the number at `place`, of fourth order in the step. */
static double derivative(double (*value)(void *context), void *context, double *place,
                         double step) {
    const double kept = *place;
    double at[4];
    for (int k = 0; k < 4; k++) {
        static const double offsets[4] = {-2.0, -1.0, 1.0, 2.0};
        *place = kept + offsets[k] * step;
        at[k] = value(context);
    }
    *place = kept;
    return (at[0] - 8.0 * at[1] + 8.0 * at[2] - at[3]) / (12.0 * step);
}

/* ---- LayerNorm ------------------------------------------------------------------------------ */

/* Beside the numbers of one vector, which `otattn verify` has [TOT-56]. */
static void layernorm_of_one_vector(void **unused) {
    (void)unused;
    const double u[4] = {1, 2, 3, 4};
    double y[4], sigma, workspace[4];
    assert_int_equal(ota_layernorm(u, 1, 4, &(ota_norm){.epsilon = 1e-5}, y, &sigma, NULL, NULL),
                     OTA_OK);
    spec_check("TOT-56", fabs(sigma - sqrt(1.25 + 1e-5)), 2.0 * u64);
    ota_layernorm_spectrum spectrum;
    assert_int_equal(ota_layernorm_geometry(u, 4, &(ota_norm){.epsilon = 1e-5}, workspace,
                                            &spectrum, NULL, NULL),
                     OTA_OK);
    spec_check("TOT-58", fabs(spectrum.parallel - 7.155331663847634e-06), 1e-20);
    spec_check("TOT-58", fabs(spectrum.perpendicular - 8.944236133126180e-01), 1e-15);
    assert_int_equal(spectrum.perpendicular_count, 2);

    const double gamma[4] = {2, -1, 0.5, 3}, beta[4] = {1, 0, -1, 4};
    double affine[4] = {1, 2, 3, 4};
    assert_int_equal(ota_layernorm(affine, 1, 4,
                                   &(ota_norm){.gamma = gamma, .beta = beta, .epsilon = 1e-5},
                                   affine, NULL, NULL, NULL),
                     OTA_OK);
    for (int k = 0; k < 4; k++)
        spec_check("TOT-56", fabs(affine[k] - (gamma[k] * y[k] + beta[k])), 1e-15);
}

/* Shift and scale: LN(a u + b) = LN(u) at epsilon a^2, also at the ends of the range. */
static void layernorm_laws(void **unused) {
    (void)unused;
    enum { WIDTH = 48 };
    double u[WIDTH], moved[WIDTH], y[WIDTH], other[WIDTH];
    uint64_t state = 1;
    fill(&state, u, WIDTH, 1.0);
    assert_int_equal(ota_layernorm(u, 1, WIDTH, &(ota_norm){.epsilon = 0.25}, y, NULL, NULL, NULL),
                     OTA_OK);
    const double scales[] = {0x1p-300, 0x1p-20, 8.0, 0x1p400};
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < WIDTH; i++) moved[i] = scales[k] * u[i];
        assert_int_equal(ota_layernorm(moved, 1, WIDTH,
                                       &(ota_norm){.epsilon = 0.25 * scales[k] * scales[k]}, other,
                                       NULL, NULL, NULL),
                         OTA_OK);
        spec_check("TOT-56", largest_difference(y, other, WIDTH), 16.0 * u64);
    }
    /* A shift that adds no rounding of its own leaves none. */
    for (int i = 0; i < WIDTH; i++) u[i] = 1.25 * (i % 11) - 3.0;
    for (int i = 0; i < WIDTH; i++) moved[i] = u[i] + 0x1p30;
    assert_int_equal(ota_layernorm(u, 1, WIDTH, &(ota_norm){.epsilon = 0.25}, y, NULL, NULL, NULL),
                     OTA_OK);
    assert_int_equal(
        ota_layernorm(moved, 1, WIDTH, &(ota_norm){.epsilon = 0.25}, other, NULL, NULL, NULL),
        OTA_OK);
    spec_check("TOT-56", largest_difference(y, other, WIDTH), 16.0 * u64);
    /* So long that its square overflows. */
    for (int i = 0; i < WIDTH; i++) moved[i] = 0x1p900 * u[i];
    assert_int_equal(
        ota_layernorm(moved, 1, WIDTH, &(ota_norm){.epsilon = 1e-5}, other, NULL, NULL, NULL),
        OTA_OK);
    assert_int_equal(
        ota_layernorm(u, 1, WIDTH, &(ota_norm){.epsilon = 1e-300}, y, NULL, NULL, NULL), OTA_OK);
    spec_check("TOT-56", largest_difference(y, other, WIDTH), 16.0 * u64);
}

/* One entry of the normalised token. */
typedef struct normalised {
    double u[16];
    int width, entry;
    double epsilon;
} normalised;

static double normalised_entry(void *context) {
    normalised *a = context;
    double y[16];
    assert_int_equal(
        ota_layernorm(a->u, 1, a->width, &(ota_norm){.epsilon = a->epsilon}, y, NULL, NULL, NULL),
        OTA_OK);
    return y[a->entry];
}

static void layernorm_jacobian(void **unused) {
    (void)unused;
    static const struct {
        int width;
        double epsilon;
    } table[] = {{1, 1e-5}, {2, 1e-5}, {3, 1e-5}, {16, 1e-5}, {16, 0.5}};
    uint64_t state = 2;
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        normalised a = {.width = table[n].width, .epsilon = table[n].epsilon};
        double jacobian[16 * 16], worst = 0.0;
        for (int k = 0; k < a.width; k++) a.u[k] = 3.0 + 2.0 * normal(&state);
        assert_int_equal(ota_layernorm_jacobian(a.u, a.width, a.epsilon, jacobian, NULL, NULL),
                         OTA_OK);
        for (int j = 0; j < a.width; j++) {
            for (a.entry = 0; a.entry < a.width; a.entry++)
                worst = fmax(worst, fabs(derivative(normalised_entry, &a, &a.u[j], 1e-4) -
                                         jacobian[a.entry * a.width + j]));
        }
        spec_check("TOT-57", worst, 8e-10);
    }
}

enum { ROWS = 3, WIDTH = 7, COUNT = ROWS * WIDTH };

/* <dy, LN(u)> */
typedef struct weighed_norm {
    double u[COUNT], dy[COUNT], gamma[WIDTH], beta[WIDTH];
    int affine;
} weighed_norm;

static double weighed_norm_value(void *context) {
    weighed_norm *a = context;
    double y[COUNT], sum = 0.0;
    assert_int_equal(ota_layernorm(a->u, ROWS, WIDTH,
                                   &(ota_norm){.gamma = a->affine ? a->gamma : NULL,
                                               .beta = a->affine ? a->beta : NULL,
                                               .epsilon = 1e-3},
                                   y, NULL, NULL, NULL),
                     OTA_OK);
    for (int k = 0; k < COUNT; k++) sum += a->dy[k] * y[k];
    return sum;
}

static double worst_gradient(void *context, double *place, const double *gradient, int count) {
    double worst = 0.0;
    for (int k = 0; k < count; k++)
        worst = fmax(worst,
                     fabs(derivative(weighed_norm_value, context, &place[k], 1e-3) - gradient[k]));
    return worst;
}

static void layernorm_backward(void **unused) {
    (void)unused;
    weighed_norm a;
    double du[COUNT], dgamma[WIDTH], dbeta[WIDTH];
    uint64_t state = 3;
    fill(&state, a.u, COUNT, 1.0);
    fill(&state, a.dy, COUNT, 1.0);
    fill(&state, a.gamma, WIDTH, 1.0);
    fill(&state, a.beta, WIDTH, 1.0);
    for (a.affine = 0; a.affine < 2; a.affine++) {
        assert_int_equal(
            ota_layernorm_backward(
                a.u, ROWS, WIDTH, &(ota_norm){.gamma = a.affine ? a.gamma : NULL, .epsilon = 1e-3},
                &(ota_norm_gradients){.dy = a.dy, .du = du, .dgamma = dgamma, .dbeta = dbeta}, NULL,
                NULL),
            OTA_OK);
        spec_check("TOT-57", worst_gradient(&a, a.u, du, COUNT), 8e-10);
        if (!a.affine) continue;
        spec_check("TOT-57", worst_gradient(&a, a.gamma, dgamma, WIDTH), 8e-10);
        spec_check("TOT-57", worst_gradient(&a, a.beta, dbeta, WIDTH), 8e-10);
        /* Row by row it is J Gamma dy, and J is symmetric. */
        double jacobian[WIDTH * WIDTH], wanted[WIDTH];
        assert_int_equal(ota_layernorm_jacobian(a.u, WIDTH, 1e-3, jacobian, NULL, NULL), OTA_OK);
        for (int i = 0; i < WIDTH; i++) {
            wanted[i] = 0.0;
            for (int j = 0; j < WIDTH; j++)
                wanted[i] += jacobian[j * WIDTH + i] * a.gamma[j] * a.dy[j];
        }
        spec_check("TOT-57", largest_difference(wanted, du, WIDTH), 64.0 * u64);
    }
    assert_int_equal(
        ota_layernorm_backward(a.u, ROWS, WIDTH, &(ota_norm){.gamma = a.gamma, .epsilon = 1e-3},
                               &(ota_norm_gradients){.dy = a.dy, .du = du}, NULL, NULL),
        OTA_OK);
}

static void apply(const double *matrix, const double *x, double *y, int size) {
    for (int i = 0; i < size; i++) {
        y[i] = 0.0;
        for (int j = 0; j < size; j++) y[i] += matrix[i * size + j] * x[j];
    }
}

static void layernorm_eigenvectors(void **unused) {
    (void)unused;
    enum { SIZE = 16 };
    uint64_t state = 4;
    for (int trial = 0; trial < 20; trial++) {
        const double epsilon = trial % 2 == 0 ? 1e-5 : 0.5;
        double u[SIZE], c[SIZE], w[SIZE], y[SIZE], wanted[SIZE], jacobian[SIZE * SIZE],
            workspace[SIZE];
        ota_layernorm_spectrum spectrum;
        double mean = 0.0, length = 0.0;
        fill(&state, u, SIZE, 2.0);
        for (int k = 0; k < SIZE; k++) mean += u[k] / (double)SIZE;
        for (int k = 0; k < SIZE; k++) c[k] = u[k] - mean;
        for (int k = 0; k < SIZE; k++) length += c[k] * c[k];
        assert_int_equal(ota_layernorm_jacobian(u, SIZE, epsilon, jacobian, NULL, NULL), OTA_OK);
        assert_int_equal(ota_layernorm_geometry(u, SIZE, &(ota_norm){.epsilon = epsilon}, workspace,
                                                &spectrum, NULL, NULL),
                         OTA_OK);
        apply(jacobian, c, y, SIZE);
        for (int k = 0; k < SIZE; k++) wanted[k] = spectrum.parallel * c[k];
        /* Rounding of J is relative to its largest entries, 1 / sigma, times SIZE terms. */
        const double slack = 4.0 * (double)SIZE * u64 / spectrum.sigma;
        spec_check("TOT-58", largest_difference(y, wanted, SIZE), slack * sqrt(length));
        for (int k = 0; k < SIZE; k++) w[k] = 1.0;
        apply(jacobian, w, y, SIZE);
        memset(wanted, 0, sizeof wanted);
        spec_check("TOT-58", largest_difference(y, wanted, SIZE), slack);
        /* A random direction made orthogonal to 1 and c. */
        double sum = 0.0, along = 0.0;
        fill(&state, w, SIZE, 1.0);
        for (int k = 0; k < SIZE; k++) sum += w[k] / (double)SIZE;
        for (int k = 0; k < SIZE; k++) along += (w[k] -= sum) * c[k] / length;
        for (int k = 0; k < SIZE; k++) wanted[k] = spectrum.perpendicular * (w[k] -= along * c[k]);
        apply(jacobian, w, y, SIZE);
        spec_check("TOT-58", largest_difference(y, wanted, SIZE), 4.0 * slack);
        /* The trace counts the dimensions. */
        double trace = 0.0;
        for (int k = 0; k < SIZE; k++) trace += jacobian[k * SIZE + k];
        spec_check("TOT-58",
                   fabs(trace - spectrum.parallel -
                        (double)spectrum.perpendicular_count * spectrum.perpendicular),
                   4.0 * slack);
    }
    /* c = 0: the whole of 1^perp has the eigenvalue 1 / sqrt(epsilon). */
    double flat[SIZE], workspace[SIZE];
    ota_layernorm_spectrum spectrum;
    for (int k = 0; k < SIZE; k++) flat[k] = 0.1;
    assert_int_equal(ota_layernorm_geometry(flat, SIZE, &(ota_norm){.epsilon = 1e-5}, workspace,
                                            &spectrum, NULL, NULL),
                     OTA_OK);
    assert_int_equal(spectrum.perpendicular_count, SIZE - 1);
    assert_true(isnan(spectrum.parallel));
    spec_check("TOT-58", fabs(spectrum.perpendicular * sqrt(1e-5) - 1.0), 4.0 * u64);
    spec_check("TOT-59", fabs(spectrum.exact * sqrt(1e-5) - 1.0), 1e-12);
    spec_check("TOT-59", fabs(spectrum.global_exact - spectrum.exact), 1e-9);
    /* What differs by more than rounding could make it has a direction of its own: length 15.5 x 2^-52 against
     * an allowance of 16 x 2^-53. */
    for (int k = 0; k < SIZE; k++) flat[k] = k == 0 ? 1.0 + 0x1p-48 : 1.0;
    assert_int_equal(ota_layernorm_geometry(flat, SIZE, &(ota_norm){.epsilon = 1e-5}, workspace,
                                            &spectrum, NULL, NULL),
                     OTA_OK);
    assert_int_equal(spectrum.perpendicular_count, SIZE - 2);
    const bool parallel_known = !isnan(spectrum.parallel);
    assert_true(parallel_known);
}

/* ||Gamma J||_2 from below, by power iteration on J Gamma^2 J. */
static double power_norm(const double *jacobian, const double *gamma, int size, uint64_t *state) {
    double x[64], y[64], length = 0.0;
    fill(state, x, size, 1.0);
    for (int step = 0; step < 3000; step++) {
        apply(jacobian, x, y, size);
        for (int k = 0; k < size; k++) y[k] *= gamma[k];
        length = 0.0;
        for (int k = 0; k < size; k++) length += y[k] * y[k];
        for (int k = 0; k < size; k++) y[k] *= gamma[k];
        apply(jacobian, y, x, size);
        double norm = 0.0;
        for (int k = 0; k < size; k++) norm += x[k] * x[k];
        if (norm == 0.0) return 0.0;
        for (int k = 0; k < size; k++) x[k] /= sqrt(norm);
    }
    return sqrt(length);
}

static void layernorm_lipschitz(void **unused) {
    (void)unused;
    uint64_t state = 5;
    double loosest = 1.0;
    for (int trial = 0; trial < 60; trial++) {
        const int width = 2 + trial % 15;
        const double epsilon = trial % 3 == 0 ? 0.5 : 1e-5;
        double u[16], gamma[16], jacobian[256], workspace[16];
        ota_layernorm_spectrum spectrum;
        fill(&state, u, width, 1.0);
        fill(&state, gamma, width, 1.0);
        if (trial % 4 == 0) gamma[0] = 0.0;
        assert_int_equal(ota_layernorm_jacobian(u, width, epsilon, jacobian, NULL, NULL), OTA_OK);
        assert_int_equal(ota_layernorm_geometry(u, width,
                                                &(ota_norm){.gamma = gamma, .epsilon = epsilon},
                                                workspace, &spectrum, NULL, NULL),
                         OTA_OK);
        const double measured = power_norm(jacobian, gamma, width, &state);
        /* At two features J is all cancellation, the formula is not. */
        const double slack = width == 2 ? 1e-9 * spectrum.printed : 1e-7 * spectrum.exact;
        spec_check("TOT-59", measured - spectrum.exact, slack);
        spec_check("TOT-59", spectrum.exact - measured, slack + 2e-3 * spectrum.exact);
        spec_check("TOT-59", spectrum.exact, spectrum.printed * (1.0 + 4.0 * u64));
        spec_check("TOT-59", spectrum.exact, spectrum.global_exact * (1.0 + 1e-12));
        spec_check("TOT-59", spectrum.global_exact, spectrum.global_printed * (1.0 + 4.0 * u64));
        if (width > 2) loosest = fmin(loosest, spectrum.exact / spectrum.printed);
    }
    /* Printed: equality. */
    assert_true(loosest < 0.9);
    const double u[4] = {1, 2, 3, 4}, first[4] = {1, 0, 0, 0};
    double workspace[4], c1 = -1.5, sigma = sqrt(1.25 + 1e-5);
    ota_layernorm_spectrum spectrum;
    assert_int_equal(ota_layernorm_geometry(u, 4, &(ota_norm){.gamma = first, .epsilon = 1e-5},
                                            workspace, &spectrum, NULL, NULL),
                     OTA_OK);
    const double kept = 1e-5 / (sigma * sigma);
    const double wanted = sqrt(1.0 - 0.25 - c1 * c1 / 5.0 * (1.0 - kept * kept)) / sigma;
    spec_check("TOT-59", fabs(spectrum.exact - wanted), 1e-14);
    spec_check("TOT-59", fabs(spectrum.printed - 0.8944), 5e-5);
    spec_check_true("TOT-59", spectrum.printed > 1.8 * spectrum.exact);
    /* Two features: c is all of 1^perp, so the printed value is short of the truth by epsilon / sigma^2. */
    const double pair[2] = {1, 4};
    assert_int_equal(ota_layernorm_geometry(pair, 2, &(ota_norm){.epsilon = 1e-5}, workspace,
                                            &spectrum, NULL, NULL),
                     OTA_OK);
    spec_check_true("TOT-59", spectrum.printed > 1e4 * spectrum.exact);
    spec_check("TOT-59", fabs(spectrum.global_printed - 316.227766016838), 1e-11);
    spec_check("TOT-59", fabs(spectrum.global_exact - 316.227766016838), 1e-11);
    assert_int_equal(ota_layernorm_geometry(pair, 1, &(ota_norm){.epsilon = 1e-5}, workspace,
                                            &spectrum, NULL, NULL),
                     OTA_OK);
    assert_true(spectrum.exact == 0.0 && spectrum.perpendicular_count == 0);
}

static void layernorm_pairs(void **unused) {
    (void)unused;
    enum { SIZE = 9 };
    uint64_t state = 6;
    double tightest = 0.0, looser = 0.0;
    for (int trial = 0; trial < 2000; trial++) {
        double u[SIZE], v[SIZE], gamma[SIZE], workspace[2 * SIZE];
        const double step = pow(10.0, -4.0 + 5.0 * uniform(&state));
        const double spread = pow(10.0, -3.0 + 4.0 * uniform(&state));
        fill(&state, u, SIZE, spread);
        fill(&state, gamma, SIZE, 1.0);
        /* Also through the middle of the sphere, where the constant along the way is largest. */
        for (int k = 0; k < SIZE; k++) v[k] = trial % 3 == 0 ? -u[k] : u[k] + step * normal(&state);
        ota_change change;
        assert_int_equal(ota_layernorm_change(
                             u, v, SIZE,
                             &(ota_norm){.gamma = trial % 2 == 0 ? NULL : gamma, .epsilon = 1e-5},
                             workspace, &change, NULL, NULL),
                         OTA_OK);
        looser = fmax(looser, change.sharp / change.printed);
        tightest = fmax(tightest, change.sharp_ratio);
    }
    spec_check("TOT-59", tightest, 1.0 + 1e-9);
    spec_check("TOT-59", 1.0 - tightest, 1e-6);
    spec_check("TOT-59", looser, 1.0 + 1e-12);
}

/* ---- positions ------------------------------------------------------------------------------ */

static void absolute_positions(void **unused) {
    (void)unused;
    enum { TOKENS = 6, FEATURES = 5, HEAD = 3, PAIRS = TOKENS * TOKENS };
    double x[TOKENS * FEATURES], p[TOKENS * FEATURES], wq[FEATURES * HEAD], wk[FEATURES * HEAD];
    double workspace[4 * TOKENS * HEAD], costs[PAIRS], parts[4 * PAIRS], direct[PAIRS], sum[PAIRS];
    uint64_t state = 7;
    fill(&state, x, TOKENS * FEATURES, 1.0);
    fill(&state, p, TOKENS * FEATURES, 1.0);
    fill(&state, wq, FEATURES * HEAD, 1.0);
    fill(&state, wk, FEATURES * HEAD, 1.0);
    const double temperature = sqrt(3.0);
    assert_int_equal(ota_absolute_costs(&(ota_absolute_positions){.tokens = TOKENS,
                                                                  .width = FEATURES,
                                                                  .head_width = HEAD,
                                                                  .x = x,
                                                                  .positions = p,
                                                                  .query_weights = wq,
                                                                  .key_weights = wk,
                                                                  .temperature = temperature},
                                        workspace, costs, parts, NULL, NULL),
                     OTA_OK);
    for (int i = 0; i < TOKENS; i++) {
        for (int j = 0; j < TOKENS; j++) {
            double dot = 0.0, content = 0.0;
            for (int h = 0; h < HEAD; h++) {
                double q = 0.0, k = 0.0, bare_q = 0.0, bare_k = 0.0;
                for (int f = 0; f < FEATURES; f++) {
                    q += (x[i * FEATURES + f] + p[i * FEATURES + f]) * wq[f * HEAD + h];
                    k += (x[j * FEATURES + f] + p[j * FEATURES + f]) * wk[f * HEAD + h];
                    bare_q += x[i * FEATURES + f] * wq[f * HEAD + h];
                    bare_k += x[j * FEATURES + f] * wk[f * HEAD + h];
                }
                dot += q * k;
                content += bare_q * bare_k;
            }
            const int at = i * TOKENS + j;
            direct[at] = -dot / temperature;
            sum[at] = parts[at] + parts[PAIRS + at] + parts[2 * PAIRS + at] + parts[3 * PAIRS + at];
            spec_check("TOT-49", fabs(parts[at] + content / temperature), 1e-13);
        }
    }
    spec_check("TOT-49", largest_difference(costs, direct, PAIRS), 1e-13);
    spec_check("TOT-49", largest_difference(costs, sum, PAIRS), 1e-13);
    /* Swapping content and positions swaps the two middle parts. */
    double swapped[4 * PAIRS];
    assert_int_equal(ota_absolute_costs(&(ota_absolute_positions){.tokens = TOKENS,
                                                                  .width = FEATURES,
                                                                  .head_width = HEAD,
                                                                  .x = p,
                                                                  .positions = x,
                                                                  .query_weights = wq,
                                                                  .key_weights = wk,
                                                                  .temperature = temperature},
                                        workspace, costs, swapped, NULL, NULL),
                     OTA_OK);
    spec_check("TOT-49", largest_difference(swapped + PAIRS, parts + 2 * PAIRS, PAIRS), 1e-15);
}

/* Coupling of `problem` on q [queries, width] and k [keys, width]. */
static void solve(ota_problem problem, double *q, double *k, int64_t queries, int64_t keys,
                  int64_t width, double *coupling) {
    ota_arrays arrays = {.size = sizeof arrays};
    ota_error error;
    problem.size = sizeof problem;
    if (q != NULL) {
        problem.queries = ota_array_of(q, OTA_F64, 1, 1, queries, width);
        problem.keys = ota_array_of(k, OTA_F64, 1, 1, keys, width);
    }
    arrays.coupling = ota_array_of(coupling, OTA_F64, 1, 1, queries, keys);
    if (ota_attend(&problem, NULL, &arrays, NULL, &error) != OTA_OK) fail_msg("%s", error.message);
}

static void softmax_of(const double *scores, double *p, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++) {
        double total = 0.0;
        for (int64_t j = 0; j < columns; j++)
            total += p[i * columns + j] = exp(scores[i * columns + j]);
        for (int64_t j = 0; j < columns; j++) p[i * columns + j] /= total;
    }
}

static void relative_bias(void **unused) {
    (void)unused;
    enum { QUERIES = 5, KEYS = 7, HEAD = 4, PAIRS = QUERIES * KEYS };
    double q[QUERIES * HEAD], k[KEYS * HEAD], b[QUERIES + KEYS - 1], costs[PAIRS], p[PAIRS],
        wanted[PAIRS];
    const double temperature = 2.5;
    uint64_t state = 8;
    fill(&state, q, QUERIES * HEAD, 1.0);
    fill(&state, k, KEYS * HEAD, 1.0);
    fill(&state, b, QUERIES + KEYS - 1, 1.0);
    static const ota_bias_place places[] = {OTA_BIAS_INSIDE, OTA_BIAS_OUTSIDE};
    double apart[2][PAIRS];
    for (int n = 0; n < 2; n++) {
        assert_int_equal(ota_relative_costs(&(ota_relative_positions){.queries = QUERIES,
                                                                      .keys = KEYS,
                                                                      .head_width = HEAD,
                                                                      .q = q,
                                                                      .k = k,
                                                                      .bias = b,
                                                                      .temperature = temperature,
                                                                      .place = places[n]},
                                            costs, NULL, NULL),
                         OTA_OK);
        for (int i = 0; i < QUERIES; i++) {
            for (int j = 0; j < KEYS; j++) {
                double dot = 0.0;
                for (int f = 0; f < HEAD; f++) dot += q[i * HEAD + f] * k[j * HEAD + f];
                const double bias = b[i - j + KEYS - 1];
                const double score = n == 0 ? (dot + bias) / temperature : dot / temperature + bias;
                spec_check("TOT-50", fabs(costs[i * KEYS + j] + score), 8.0 * u64);
                apart[n][i * KEYS + j] = score;
            }
        }
        softmax_of(apart[n], wanted, QUERIES, KEYS);
        /* The costs are costs. */
        ota_problem bare = {.scores = ota_array_of(costs, OTA_F64, 1, 1, QUERIES, KEYS), .cost = 1};
        solve(bare, NULL, NULL, QUERIES, KEYS, 0, p);
        spec_check("TOT-50", largest_difference(p, wanted, PAIRS), 1e-14);
    }
    assert_true(largest_difference(apart[0], apart[1], PAIRS) > 0.1);
}

static void rotary_positions(void **unused) {
    (void)unused;
    enum { SIZE = 8, LENGTH = 20 };
    double x[LENGTH * SIZE], turned[LENGTH * SIZE], rotation[SIZE * SIZE], wanted[SIZE];
    uint64_t state = 9;
    fill(&state, x, LENGTH * SIZE, 1.0);
    memcpy(turned, x, sizeof x);
    const ota_array rows = ota_array_of(turned, OTA_F64, 1, 1, LENGTH, SIZE);
    assert_int_equal(ota_rope(&rows, 3, 0.0, NULL), OTA_OK);
    for (int i = 0; i < LENGTH; i++) {
        assert_int_equal(ota_rope_matrix(SIZE, 3.0 + i, 0.0, rotation, NULL, NULL), OTA_OK);
        apply(rotation, x + i * SIZE, wanted, SIZE);
        spec_check("TOT-51", largest_difference(turned + i * SIZE, wanted, SIZE), 16.0 * u64);
    }
    /* Angles and orientation from the definition: pair k turns by position * 10000^(-2k/SIZE). */
    assert_int_equal(ota_rope_matrix(SIZE, 5.0, 0.0, rotation, NULL, NULL), OTA_OK);
    for (int k = 0; k < SIZE / 2; k++) {
        const double angle = 5.0 * pow(10000.0, -2.0 * k / (double)SIZE),
                     *block = rotation + 2 * k * (SIZE + 1);
        spec_check("TOT-51", fabs(block[0] - cos(angle)) + fabs(block[1] + sin(angle)), 4.0 * u64);
        spec_check("TOT-51", fabs(block[SIZE] - sin(angle)) + fabs(block[SIZE + 1] - cos(angle)),
                   4.0 * u64);
    }
    /* R(s)^T R(t) = R(t - s) */
    double first[SIZE * SIZE], second[SIZE * SIZE], both[SIZE * SIZE];
    assert_int_equal(ota_rope_matrix(SIZE, 5.0, 0.0, first, NULL, NULL), OTA_OK);
    assert_int_equal(ota_rope_matrix(SIZE, 17.0, 0.0, second, NULL, NULL), OTA_OK);
    assert_int_equal(ota_rope_matrix(SIZE, 12.0, 0.0, rotation, NULL, NULL), OTA_OK);
    for (int i = 0; i < SIZE; i++) {
        for (int j = 0; j < SIZE; j++) {
            both[i * SIZE + j] = 0.0;
            for (int k = 0; k < SIZE; k++)
                both[i * SIZE + j] += first[k * SIZE + i] * second[k * SIZE + j];
        }
    }
    spec_check("TOT-52", largest_difference(both, rotation, SIZE * SIZE), 4e-16);
    /* Scores depend on the difference of positions only, so a shift leaves the plan. */
    double q[2][LENGTH * SIZE], k[2][LENGTH * SIZE], p[2][LENGTH * LENGTH];
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < LENGTH * SIZE; i++) {
            q[n][i] = x[i];
            k[n][i] = x[LENGTH * SIZE - 1 - i];
        }
        const ota_array queries = ota_array_of(q[n], OTA_F64, 1, 1, LENGTH, SIZE);
        const ota_array keys = ota_array_of(k[n], OTA_F64, 1, 1, LENGTH, SIZE);
        assert_int_equal(ota_rope(&queries, 100 * n, 0.0, NULL), OTA_OK);
        assert_int_equal(ota_rope(&keys, 100 * n, 0.0, NULL), OTA_OK);
        solve((ota_problem){.cost = 0}, q[n], k[n], LENGTH, LENGTH, SIZE, p[n]);
    }
    spec_check("TOT-52", largest_difference(p[0], p[1], LENGTH * LENGTH), 1e-13);
}

static void alibi(void **unused) {
    (void)unused;
    enum { TOKENS = 9, HEAD = 4, PAIRS = TOKENS * TOKENS };
    static const int head_counts[] = {1, 2, 8, 12};
    for (int n = 0; n < 4; n++) {
        double slopes[12];
        const int heads = head_counts[n];
        ota_alibi_slopes(heads, slopes);
        for (int h = 1; h <= heads; h++) {
            spec_check("LIT-32", fabs(slopes[h - 1] / pow(2.0, -8.0 * h / heads) - 1.0), 2.0 * u64);
            spec_check_true("LIT-32", slopes[h - 1] > 0.0);
        }
    }
    double q[TOKENS * HEAD], k[TOKENS * HEAD], bias[PAIRS], p[PAIRS], wanted[PAIRS], scores[PAIRS],
        slope;
    uint64_t state = 10;
    fill(&state, q, TOKENS * HEAD, 1.0);
    fill(&state, k, TOKENS * HEAD, 1.0);
    ota_alibi_slopes(1, &slope);
    slope *= 64.0;
    for (int causal = 0; causal < 2; causal++) {
        assert_int_equal(ota_alibi_bias(slope, TOKENS, TOKENS, 0, causal, bias, NULL, NULL),
                         OTA_OK);
        for (int i = 0; i < TOKENS; i++) {
            for (int j = 0; j < TOKENS; j++) {
                const double expected = causal && j > i ? -(double)INFINITY : -slope * abs(i - j);
                spec_check_true("LIT-32", bias[i * TOKENS + j] == expected);
                double dot = 0.0;
                for (int f = 0; f < HEAD; f++) dot += q[i * HEAD + f] * k[j * HEAD + f];
                scores[i * TOKENS + j] = 0.5 * dot + bias[i * TOKENS + j];
            }
        }
        softmax_of(scores, wanted, TOKENS, TOKENS);
        ota_term term = {.kind = OTA_TERM_ALIBI, .value = slope};
        ota_support support = {.kind = OTA_SUPPORT_CAUSAL};
        ota_problem problem = {
            .terms = &term, .term_count = 1, .supports = &support, .support_count = causal};
        solve(problem, q, k, TOKENS, TOKENS, HEAD, p);
        spec_check("LIT-32", largest_difference(p, wanted, PAIRS), 1e-14);
    }
    /* An offset moves the queries along. */
    double shifted[2 * 6];
    assert_int_equal(ota_alibi_bias(0.5, 2, 6, 4, 1, shifted, NULL, NULL), OTA_OK);
    static const double rows[12] = {-2, -1.5, -1, -0.5, 0, -INFINITY, -2.5, -2, -1.5, -1, -0.5, 0};
    for (int i = 0; i < 12; i++) spec_check_true("LIT-32", shifted[i] == rows[i]);
}

/* ---- one head ------------------------------------------------------------------------------- */

static void context_vector(void **unused) {
    (void)unused;
    enum { KEYS = 50, VALUES = 6 };
    double p[KEYS], v[KEYS * VALUES], c[VALUES], total = 0.0;
    uint64_t state = 11;
    fill(&state, v, KEYS * VALUES, 1.0);
    for (int j = 0; j < KEYS; j++) total += p[j] = exp(2.0 * normal(&state));
    for (int j = 0; j < KEYS; j++) p[j] /= total;
    assert_int_equal(ota_context(p, v, KEYS, VALUES, c, NULL, NULL), OTA_OK);
    double scores[KEYS], out[VALUES];
    for (int j = 0; j < KEYS; j++) scores[j] = log(p[j]);
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(scores, OTA_F64, 1, 1, 1, KEYS)};
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(v, OTA_F64, 1, 1, KEYS, VALUES);
    arrays.out = ota_array_of(out, OTA_F64, 1, 1, 1, VALUES);
    assert_int_equal(ota_attend(&problem, NULL, &arrays, NULL, NULL), OTA_OK);
    spec_check("LIT-15", largest_difference(c, out, VALUES), 1e-14);
    for (int k = 0; k < VALUES; k++) {
        double sum = 0.0;
        for (int j = 0; j < KEYS; j++) sum += p[j] * v[j * VALUES + k];
        spec_check("LIT-15", fabs(sum - c[k]), 1e-14);
    }
}

enum { CHAIN_QUERIES = 4, CHAIN_KEYS = 5, CHAIN_WIDTH = 3, CHAIN_VALUES = 2 };

/* <dout, softmax(scale Q K^T) V> */
typedef struct head {
    double q[CHAIN_QUERIES * CHAIN_WIDTH], k[CHAIN_KEYS * CHAIN_WIDTH],
        v[CHAIN_KEYS * CHAIN_VALUES];
    double dout[CHAIN_QUERIES * CHAIN_VALUES], p[CHAIN_QUERIES * CHAIN_KEYS];
    double scale;
} head;

static double head_value(void *context) {
    head *a = context;
    double out[CHAIN_QUERIES * CHAIN_VALUES], sum = 0.0;
    ota_problem problem = {.size = sizeof problem, .scale = a->scale};
    ota_options options = {.size = sizeof options, .threads = 1};
    problem.queries = ota_array_of(a->q, OTA_F64, 1, 1, CHAIN_QUERIES, CHAIN_WIDTH);
    problem.keys = ota_array_of(a->k, OTA_F64, 1, 1, CHAIN_KEYS, CHAIN_WIDTH);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(a->v, OTA_F64, 1, 1, CHAIN_KEYS, CHAIN_VALUES);
    arrays.out = ota_array_of(out, OTA_F64, 1, 1, CHAIN_QUERIES, CHAIN_VALUES);
    arrays.coupling = ota_array_of(a->p, OTA_F64, 1, 1, CHAIN_QUERIES, CHAIN_KEYS);
    assert_int_equal(ota_attend(&problem, &options, &arrays, NULL, NULL), OTA_OK);
    for (int i = 0; i < CHAIN_QUERIES * CHAIN_VALUES; i++) sum += a->dout[i] * out[i];
    return sum;
}

static double worst_of_head(head *a, double *place, const double *gradient, int count) {
    double worst = 0.0, largest = 0.0;
    for (int i = 0; i < count; i++) {
        worst = fmax(worst, fabs(derivative(head_value, a, &place[i], 1e-3) - gradient[i]));
        largest = fmax(largest, fabs(gradient[i]));
    }
    return worst / largest;
}

static void chain_rule(void **unused) {
    (void)unused;
    uint64_t state = 12;
    for (int trial = 0; trial < 2; trial++) {
        head a = {.scale = trial == 0 ? 0.0 : 1.3};
        double dp[CHAIN_QUERIES * CHAIN_KEYS], dscores[CHAIN_QUERIES * CHAIN_KEYS];
        double dq[CHAIN_QUERIES * CHAIN_WIDTH], dk[CHAIN_KEYS * CHAIN_WIDTH],
            dv[CHAIN_KEYS * CHAIN_VALUES];
        fill(&state, a.q, CHAIN_QUERIES * CHAIN_WIDTH, 1.0);
        fill(&state, a.k, CHAIN_KEYS * CHAIN_WIDTH, 1.0);
        fill(&state, a.v, CHAIN_KEYS * CHAIN_VALUES, 1.0);
        fill(&state, a.dout, CHAIN_QUERIES * CHAIN_VALUES, 1.0);
        (void)head_value(&a);
        ota_head_chain chain = {.queries = CHAIN_QUERIES,
                                .keys = CHAIN_KEYS,
                                .width = CHAIN_WIDTH,
                                .values_width = CHAIN_VALUES,
                                .scale = a.scale,
                                .v = a.v,
                                .p = a.p,
                                .dout = a.dout,
                                .dp = dp,
                                .dv = dv};
        assert_int_equal(ota_head_chain_rule(&chain, NULL, NULL), OTA_OK);
        /* Softmax between the two: dS = P * (dP - <P, dP>). */
        for (int i = 0; i < CHAIN_QUERIES; i++) {
            const double *p = a.p + i * CHAIN_KEYS, *row = dp + i * CHAIN_KEYS;
            double mean = 0.0;
            for (int j = 0; j < CHAIN_KEYS; j++) mean += p[j] * row[j];
            for (int j = 0; j < CHAIN_KEYS; j++)
                dscores[i * CHAIN_KEYS + j] = p[j] * (row[j] - mean);
        }
        ota_head_chain rest = {.queries = CHAIN_QUERIES,
                               .keys = CHAIN_KEYS,
                               .width = CHAIN_WIDTH,
                               .values_width = CHAIN_VALUES,
                               .scale = a.scale,
                               .q = a.q,
                               .k = a.k,
                               .dscores = dscores,
                               .dq = dq,
                               .dk = dk};
        assert_int_equal(ota_head_chain_rule(&rest, NULL, NULL), OTA_OK);
        spec_check("LIT-21", worst_of_head(&a, a.q, dq, CHAIN_QUERIES * CHAIN_WIDTH), 1e-7);
        spec_check("LIT-21", worst_of_head(&a, a.k, dk, CHAIN_KEYS * CHAIN_WIDTH), 1e-7);
        spec_check("LIT-21", worst_of_head(&a, a.v, dv, CHAIN_KEYS * CHAIN_VALUES), 1e-7);
    }
}

/* ---- bad input ------------------------------------------------------------------------------ */

static void bad_input(void **unused) {
    (void)unused;
    ota_error error;
    ota_change change;
    ota_layernorm_spectrum spectrum;
    double x[4] = {1, 2, 3, 4}, bad[4] = {1, NAN, 3, 4}, y[16], w[16];
    REFUSED(ota_layernorm(x, 0, 4, &(ota_norm){.epsilon = 1e-5}, y, NULL, NULL, &error), OTA_EINVAL,
            "rows");
    REFUSED(ota_layernorm(x, 1, 0, &(ota_norm){.epsilon = 1e-5}, y, NULL, NULL, &error), OTA_EINVAL,
            "width");
    REFUSED(ota_layernorm(x, 1, 4, &(ota_norm){.gamma = NULL}, y, NULL, NULL, &error), OTA_EINVAL,
            "epsilon");
    REFUSED(ota_layernorm(bad, 1, 4, &(ota_norm){.epsilon = 1e-5}, y, NULL, NULL, &error),
            OTA_EINVAL, "u");
    REFUSED(
        ota_layernorm(x, 1, 4, &(ota_norm){.gamma = bad, .epsilon = 1e-5}, y, NULL, NULL, &error),
        OTA_EINVAL, "gamma");
    REFUSED(
        ota_layernorm(x, 1, 4, &(ota_norm){.beta = bad, .epsilon = 1e-5}, y, NULL, NULL, &error),
        OTA_EINVAL, "beta");
    REFUSED(ota_layernorm(x, INT64_MAX / 2, 4, &(ota_norm){.epsilon = 1e-5}, y, NULL, NULL, &error),
            OTA_EOVERFLOW, "u");
    REFUSED(ota_layernorm_backward(x, 1, 4, &(ota_norm){.epsilon = 1e-5},
                                   &(ota_norm_gradients){.dy = bad, .du = y}, NULL, &error),
            OTA_EINVAL, "dy");
    REFUSED(ota_layernorm_jacobian(bad, 4, 1e-5, y, NULL, &error), OTA_EINVAL, "u");
    REFUSED(ota_layernorm_geometry(x, 4, &(ota_norm){.epsilon = NAN}, w, &spectrum, NULL, &error),
            OTA_EINVAL, "epsilon");
    REFUSED(ota_layernorm_change(x, bad, 4, &(ota_norm){.epsilon = 1e-5}, w, &change, NULL, &error),
            OTA_EINVAL, "v");
    REFUSED(ota_absolute_costs(&(ota_absolute_positions){.tokens = 2,
                                                         .head_width = 2,
                                                         .x = x,
                                                         .positions = x,
                                                         .query_weights = x,
                                                         .key_weights = x,
                                                         .temperature = 1.0},
                               w, y, NULL, NULL, &error),
            OTA_EINVAL, "width");
    REFUSED(ota_absolute_costs(&(ota_absolute_positions){.tokens = 2,
                                                         .width = 2,
                                                         .head_width = 2,
                                                         .x = x,
                                                         .positions = x,
                                                         .query_weights = x,
                                                         .key_weights = x},
                               w, y, NULL, NULL, &error),
            OTA_EINVAL, "temperature");
    REFUSED(ota_absolute_costs(&(ota_absolute_positions){.tokens = 2,
                                                         .width = 2,
                                                         .head_width = 2,
                                                         .x = x,
                                                         .positions = x,
                                                         .query_weights = x,
                                                         .key_weights = bad,
                                                         .temperature = 1.0},
                               w, y, NULL, NULL, &error),
            OTA_EINVAL, "key_weights");
    REFUSED(ota_relative_costs(&(ota_relative_positions){.queries = 2,
                                                         .keys = 2,
                                                         .head_width = 2,
                                                         .q = x,
                                                         .k = x,
                                                         .bias = bad,
                                                         .temperature = 1.0},
                               y, NULL, &error),
            OTA_EINVAL, "bias");
    REFUSED(ota_alibi_bias(INFINITY, 2, 2, 0, 0, y, NULL, &error), OTA_EINVAL, "slope");
    REFUSED(ota_rope_matrix(3, 1.0, 0.0, y, NULL, &error), OTA_EINVAL, "width");
    REFUSED(ota_rope_matrix(4, 1.0, -1.0, y, NULL, &error), OTA_EINVAL, "base");
    REFUSED(ota_context(x, x, 4, 1, y, NULL, &error), OTA_EINVAL, "p");
    double negative[2] = {1.5, -0.5};
    REFUSED(ota_context(negative, x, 2, 2, y, NULL, &error), OTA_EINVAL, "p");
    ota_head_chain chain = {
        .queries = 2, .keys = 2, .width = 2, .values_width = 2, .dq = y, .k = x};
    REFUSED(ota_head_chain_rule(&chain, NULL, &error), OTA_EINVAL, "chain");
    chain.dscores = bad;
    REFUSED(ota_head_chain_rule(&chain, NULL, &error), OTA_EINVAL, "dscores");
    chain.dscores = x;
    const double scales[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 3; k++) {
        chain.scale = scales[k];
        REFUSED(ota_head_chain_rule(&chain, NULL, &error), OTA_EINVAL, "scale");
    }
    /* A weight may be 0. */
    const double first[2] = {0.0, 1.0};
    assert_int_equal(ota_context(first, x, 2, 2, y, NULL, &error), OTA_OK);
    assert_true(y[0] == x[2] && y[1] == x[3]);
    chain.keys = 0;
    REFUSED(ota_head_chain_rule(&chain, NULL, &error), OTA_EINVAL, "keys");
}

TEST_FILE(test_layers) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layernorm_of_one_vector),
        cmocka_unit_test(layernorm_laws),
        cmocka_unit_test(layernorm_jacobian),
        cmocka_unit_test(layernorm_backward),
        cmocka_unit_test(layernorm_eigenvectors),
        cmocka_unit_test(layernorm_lipschitz),
        cmocka_unit_test(layernorm_pairs),
        cmocka_unit_test(absolute_positions),
        cmocka_unit_test(relative_bias),
        cmocka_unit_test(rotary_positions),
        cmocka_unit_test(alibi),
        cmocka_unit_test(context_vector),
        cmocka_unit_test(chain_rule),
        cmocka_unit_test(bad_input),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
