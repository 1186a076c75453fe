/* Attention layers and blocks against plain loops, what they keep, and how far they move. */
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

/* ---- a layer of random weights -------------------------------------------------------------- */

enum { TOKENS = 10, WIDTH = 12, HEADS = 3, HEAD = 4, VALUE = 5, MOST = 1024 };

typedef struct fixture {
    double query_weights[WIDTH * HEADS * HEAD], key_weights[WIDTH * HEADS * HEAD];
    double value_weights[WIDTH * HEADS * VALUE], output_weights[HEADS * VALUE * WIDTH];
    double query_bias[HEADS * HEAD], key_bias[HEADS * HEAD], value_bias[HEADS * VALUE];
    double output_bias[WIDTH], gamma[WIDTH], beta[WIDTH], temperatures[HEADS];
    double x[TOKENS * WIDTH];
    ota_problem method;
    ota_options options;
    ota_attention_layer layer;
    ota_norm norm;
    double *workspace;
} fixture;

static void open_fixture(fixture *a, uint64_t seed, const char *method) {
    uint64_t state = seed;
    memset(a, 0, sizeof *a);
    fill(&state, a->query_weights, WIDTH * HEADS * HEAD, 0.33);
    fill(&state, a->key_weights, WIDTH * HEADS * HEAD, 0.33);
    fill(&state, a->value_weights, WIDTH * HEADS * VALUE, 0.33);
    fill(&state, a->output_weights, HEADS * VALUE * WIDTH, 1.0);
    fill(&state, a->query_bias, HEADS * HEAD, 0.3);
    fill(&state, a->key_bias, HEADS * HEAD, 0.3);
    fill(&state, a->value_bias, HEADS * VALUE, 0.3);
    fill(&state, a->output_bias, WIDTH, 0.3);
    fill(&state, a->gamma, WIDTH, 1.0);
    fill(&state, a->beta, WIDTH, 0.2);
    fill(&state, a->x, TOKENS * WIDTH, 1.0);
    for (int h = 0; h < HEADS; h++) a->temperatures[h] = 0.5 * (h + 1);
    a->method.size = sizeof a->method;
    a->options = (ota_options){.size = sizeof a->options, .tolerance = 1e-14, .threads = 1};
    assert_int_equal(ota_method_parse(method, &a->method, &a->options, NULL), OTA_OK);
    a->layer = (ota_attention_layer){.size = sizeof a->layer,
                                     .width = WIDTH,
                                     .heads = HEADS,
                                     .head_width = HEAD,
                                     .value_width = VALUE,
                                     .query_weights = a->query_weights,
                                     .key_weights = a->key_weights,
                                     .value_weights = a->value_weights,
                                     .output_weights = a->output_weights,
                                     .method = &a->method,
                                     .options = &a->options};
    a->norm = (ota_norm){a->gamma, a->beta, 1e-5};
    const int64_t count = ota_attention_change_workspace(&a->layer, TOKENS, TOKENS);
    assert_true(count > ota_attention_workspace(&a->layer, TOKENS, TOKENS));
    /* Poisoned, so that nothing may be read before it is written; exact, for the sanitizer. */
    a->workspace = malloc((size_t)count * sizeof(double));
    assert_non_null(a->workspace);
    for (int64_t i = 0; i < count; i++) a->workspace[i] = NAN;
}

static void add_biases(fixture *a) {
    a->layer.query_bias = a->query_bias;
    a->layer.key_bias = a->key_bias;
    a->layer.value_bias = a->value_bias;
    a->layer.output_bias = a->output_bias;
}

static void close_fixture(fixture *a) { free(a->workspace); }

/* ---- the same by plain loops ---------------------------------------------------------------- */

static double log_sum(const double *z, int64_t count, int64_t step) {
    double top = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < count; i++) top = fmax(top, z[i * step]);
    for (int64_t i = 0; i < count; i++) sum += exp(z[i * step] - top);
    return top + log(sum);
}

/* Row softmax, or the doubly stochastic plan by Sinkhorn on logarithms, of z [n, n]. */
static void naive_plan(double *z, double *p, int64_t n, int doubly) {
    for (int round = 0; round < (doubly ? 20000 : 1); round++) {
        double wrong = 0.0;
        for (int64_t i = 0; i < n; i++) {
            const double f = log_sum(z + i * n, n, 1);
            for (int64_t j = 0; j < n; j++) z[i * n + j] -= f;
        }
        for (int64_t j = 0; doubly && j < n; j++) {
            const double g = log_sum(z + j, n, n);
            wrong = fmax(wrong, fabs(g));
            for (int64_t i = 0; i < n; i++) z[i * n + j] -= g;
        }
        if (wrong < 1e-15) break;
    }
    for (int64_t i = 0; i < n * n; i++) p[i] = exp(z[i]);
}

static void rotate(double *row, int64_t width, double position, double base) {
    for (int64_t k = 0; k < width; k += 2) {
        const double angle = position / pow(base, (double)k / (double)width);
        const double even = row[k], odd = row[k + 1];
        row[k] = even * cos(angle) - odd * sin(angle);
        row[k + 1] = even * sin(angle) + odd * cos(angle);
    }
}

/* y = x + alpha A(x normed) over all heads. */
static void naive_block(const fixture *a, int normed, double alpha, int doubly, double *y) {
    double tokens[TOKENS * WIDTH];
    memcpy(tokens, a->x, sizeof tokens);
    for (int i = 0; normed && i < TOKENS; i++) {
        double *row = tokens + i * WIDTH, mean = 0.0, square = 0.0;
        for (int k = 0; k < WIDTH; k++) mean += row[k] / (double)WIDTH;
        for (int k = 0; k < WIDTH; k++) square += (row[k] - mean) * (row[k] - mean) / (double)WIDTH;
        for (int k = 0; k < WIDTH; k++)
            row[k] = a->gamma[k] * (row[k] - mean) / sqrt(square + a->norm.epsilon) + a->beta[k];
    }
    for (int i = 0; i < TOKENS * WIDTH; i++)
        y[i] = a->x[i] + (a->layer.output_bias == NULL ? 0.0 : alpha * a->output_bias[i % WIDTH]);
    for (int h = 0; h < HEADS; h++) {
        double q[TOKENS * HEAD], k[TOKENS * HEAD], v[TOKENS * VALUE];
        double z[TOKENS * TOKENS], p[TOKENS * TOKENS];
        for (int i = 0; i < TOKENS; i++) {
            for (int c = 0; c < HEAD; c++) {
                const int at = h * HEAD + c;
                double *qic = &q[i * HEAD + c], *kic = &k[i * HEAD + c];
                *qic = a->layer.query_bias == NULL ? 0.0 : a->query_bias[at];
                *kic = a->layer.key_bias == NULL ? 0.0 : a->key_bias[at];
                for (int f = 0; f < WIDTH; f++) {
                    *qic += tokens[i * WIDTH + f] * a->query_weights[f * HEADS * HEAD + at];
                    *kic += tokens[i * WIDTH + f] * a->key_weights[f * HEADS * HEAD + at];
                }
            }
            for (int c = 0; c < VALUE; c++) {
                const int at = h * VALUE + c;
                v[i * VALUE + c] = a->layer.value_bias == NULL ? 0.0 : a->value_bias[at];
                for (int f = 0; f < WIDTH; f++)
                    v[i * VALUE + c] +=
                        tokens[i * WIDTH + f] * a->value_weights[f * HEADS * VALUE + at];
            }
            if (a->layer.rotary_base > 0.0) {
                rotate(q + i * HEAD, HEAD, i, a->layer.rotary_base);
                rotate(k + i * HEAD, HEAD, i, a->layer.rotary_base);
            }
        }
        const double tau = a->method.temperatures.type == OTA_F64
                               ? a->temperatures[h]
                               : fmax(a->method.temperature, 0.0);
        for (int i = 0; i < TOKENS; i++) {
            for (int j = 0; j < TOKENS; j++) {
                double dot = 0.0;
                for (int c = 0; c < HEAD; c++) dot += q[i * HEAD + c] * k[j * HEAD + c];
                z[i * TOKENS + j] = dot / sqrt(HEAD) / (tau > 0.0 ? tau : 1.0);
            }
        }
        naive_plan(z, p, TOKENS, doubly);
        for (int i = 0; i < TOKENS; i++) {
            for (int c = 0; c < VALUE; c++) {
                double mixed = 0.0;
                for (int j = 0; j < TOKENS; j++) mixed += p[i * TOKENS + j] * v[j * VALUE + c];
                for (int f = 0; f < WIDTH; f++)
                    y[i * WIDTH + f] +=
                        alpha * mixed * a->output_weights[(h * VALUE + c) * WIDTH + f];
            }
        }
    }
}

static void set_temperatures(fixture *a) {
    a->method.temperatures = ota_array_of(a->temperatures, OTA_F64, 1, 1, 1, HEADS);
}

/* ---- forward -------------------------------------------------------------------------------- */

static void block_equals_loops(void **unused) {
    (void)unused;
    static const struct {
        const char *method;
        int doubly, normed, biases, temperatures;
        double rotary_base, alpha;
    } table[] = {
        {"softmax/exact", 1, 0, 0, 0, 0.0, 0.7},      {"softmax/exact", 1, 1, 1, 0, 0.0, 1.0},
        {"softmax/exact", 1, 1, 1, 1, 10000.0, -0.3}, {"softmax", 0, 1, 1, 0, 500.0, 1.0},
        {"softmax", 0, 0, 0, 1, 0.0, 0.25},           {"softmax", 0, 0, 0, 0, 0.0, 0.0}};
    for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
        fixture a;
        double y[TOKENS * WIDTH], wanted[TOKENS * WIDTH];
        ota_error error;
        ota_result result = {.size = sizeof result};
        open_fixture(&a, 100 + n, table[n].method);
        if (table[n].biases) add_biases(&a);
        if (table[n].temperatures) set_temperatures(&a);
        a.layer.rotary_base = table[n].rotary_base;
        if (ota_attention_block(&(ota_residual_block){.layer = &a.layer,
                                                      .norm = table[n].normed ? &a.norm : NULL,
                                                      .alpha = table[n].alpha},
                                a.x, TOKENS, y, a.workspace, &result, &error) != OTA_OK)
            fail_msg("%s", error.message);
        assert_int_equal(result.status, OTA_OK);
        naive_block(&a, table[n].normed, table[n].alpha, table[n].doubly, wanted);
        spec_check(table[n].doubly ? "CETA-27" : "TOT-53",
                   largest_difference(y, wanted, TOKENS * WIDTH), 1e-12);
        if (table[n].temperatures)
            spec_check("CETA-29", largest_difference(y, wanted, TOKENS * WIDTH), 1e-12);
        if (table[n].alpha == 0.0) assert_memory_equal(y, a.x, sizeof y);
        close_fixture(&a);
    }
}

static void heads_add_up(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax", "softmax/exact", "entmax:1.5", "capped:2"};
    for (int n = 0; n < 4; n++) {
        fixture a;
        static double out[TOKENS * WIDTH], parts[HEADS * TOKENS * WIDTH], sum[TOKENS * WIDTH];
        static double mixed[TOKENS * HEADS * VALUE], coupling[HEADS * TOKENS * TOKENS];
        static double receiver[HEADS * TOKENS];
        open_fixture(&a, 200, methods[n]);
        add_biases(&a);
        a.options.tolerance = 1e-10;
        ota_attention_outputs outputs = {.size = sizeof outputs,
                                         .out = out,
                                         .mixed = mixed,
                                         .parts = parts,
                                         .coupling = coupling,
                                         .receiver = receiver};
        assert_int_equal(ota_attention_forward(
                             &a.layer,
                             &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x},
                             &outputs, a.workspace, NULL, NULL),
                         OTA_OK);
        for (int i = 0; i < TOKENS; i++) {
            for (int f = 0; f < WIDTH; f++) {
                double total = a.output_bias[f];
                for (int h = 0; h < HEADS; h++) total += parts[(h * TOKENS + i) * WIDTH + f];
                sum[i * WIDTH + f] = total;
            }
        }
        spec_check("TOT-53 CETA-29", largest_difference(sum, out, TOKENS * WIDTH), 1e-13);
        /* Each head is a layer of its own. */
        for (int h = 0; h < HEADS; h++) {
            static double one[WIDTH * HEAD], two[WIDTH * HEAD], three[WIDTH * VALUE];
            static double alone[TOKENS * WIDTH];
            for (int f = 0; f < WIDTH; f++) {
                memcpy(one + f * HEAD, a.query_weights + (f * HEADS + h) * HEAD,
                       HEAD * sizeof *one);
                memcpy(two + f * HEAD, a.key_weights + (f * HEADS + h) * HEAD, HEAD * sizeof *two);
                memcpy(three + f * VALUE, a.value_weights + (f * HEADS + h) * VALUE,
                       VALUE * sizeof *three);
            }
            ota_attention_layer single = a.layer;
            single.heads = 0;
            single.query_weights = one;
            single.key_weights = two;
            single.value_weights = three;
            single.output_weights = a.output_weights + h * VALUE * WIDTH;
            single.query_bias = a.query_bias + h * HEAD;
            single.key_bias = a.key_bias + h * HEAD;
            single.value_bias = a.value_bias + h * VALUE;
            single.output_bias = NULL;
            ota_attention_outputs own = {.size = sizeof own, .out = alone};
            assert_int_equal(
                ota_attention_forward(
                    &single, &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x},
                    &own, a.workspace, NULL, NULL),
                OTA_OK);
            spec_check("TOT-53",
                       largest_difference(alone, parts + h * TOKENS * WIDTH, TOKENS * WIDTH),
                       1e-13);
        }
        double total = 0.0;
        for (int i = 0; i < HEADS * TOKENS; i++) total += receiver[i];
        spec_check("TOT-53", fabs(total - HEADS * TOKENS), 1e-12);
        close_fixture(&a);
    }
}

static void temperatures_per_head(void **unused) {
    (void)unused;
    fixture a;
    double coupling[HEADS * TOKENS * TOKENS], entropy[HEADS] = {0.0};
    open_fixture(&a, 300, "softmax/exact");
    set_temperatures(&a);
    /* The same weights in every head, so that only the temperature tells them apart. */
    for (int f = 0; f < WIDTH; f++) {
        for (int h = 1; h < HEADS; h++) {
            memcpy(a.query_weights + (f * HEADS + h) * HEAD, a.query_weights + f * HEADS * HEAD,
                   HEAD * sizeof(double));
            memcpy(a.key_weights + (f * HEADS + h) * HEAD, a.key_weights + f * HEADS * HEAD,
                   HEAD * sizeof(double));
        }
    }
    ota_attention_outputs outputs = {.size = sizeof outputs, .coupling = coupling};
    assert_int_equal(
        ota_attention_forward(&a.layer,
                              &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x},
                              &outputs, a.workspace, NULL, NULL),
        OTA_OK);
    for (int h = 0; h < HEADS; h++) {
        const double *p = coupling + h * TOKENS * TOKENS;
        for (int k = 0; k < TOKENS * TOKENS; k++) entropy[h] -= p[k] * log(p[k]);
    }
    spec_check_true("CETA-29", entropy[0] < entropy[1] && entropy[1] < entropy[2]);
    close_fixture(&a);
}

/* Queries at the end of a longer context, causal: the last rows of the whole. */
static void positions_follow_the_corner(void **unused) {
    (void)unused;
    enum { LAST = 4 };
    fixture a;
    double whole[TOKENS * WIDTH], tail[LAST * WIDTH];
    ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};
    open_fixture(&a, 400, "softmax");
    add_biases(&a);
    a.layer.rotary_base = 10000.0;
    a.method.supports = &causal;
    a.method.support_count = 1;
    ota_attention_outputs outputs = {.size = sizeof outputs, .out = whole};
    assert_int_equal(
        ota_attention_forward(&a.layer,
                              &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x},
                              &outputs, a.workspace, NULL, NULL),
        OTA_OK);
    a.method.corner = OTA_BOTTOM_RIGHT;
    outputs.out = tail;
    assert_int_equal(
        ota_attention_forward(&a.layer,
                              &(ota_attention_input){.queries = LAST,
                                                     .keys = TOKENS,
                                                     .x = a.x + (TOKENS - LAST) * WIDTH,
                                                     .context = a.x},
                              &outputs, a.workspace, NULL, NULL),
        OTA_OK);
    spec_check("TOT-51", largest_difference(whole + (TOKENS - LAST) * WIDTH, tail, LAST * WIDTH),
               1e-14);
    close_fixture(&a);
}

/* ---- means ---------------------------------------------------------------------------------- */

static void identity_core(void **unused) {
    (void)unused;
    enum { SIZE = 9, FEATURES = 4 };
    double scores[SIZE * SIZE], p[2][SIZE * SIZE], x[SIZE * FEATURES], y[SIZE * FEATURES];
    uint64_t state = 5;
    fill(&state, scores, SIZE * SIZE, 1.5);
    fill(&state, x, SIZE * FEATURES, 1.0);
    for (int n = 0; n < 2; n++) {
        ota_problem problem = {.size = sizeof problem,
                               .columns = n == 0 ? OTA_COLUMNS_EXACT : OTA_COLUMNS_FREE,
                               .scores = ota_array_of(scores, OTA_F64, 1, 1, SIZE, SIZE)};
        ota_options options = {.size = sizeof options, .tolerance = 1e-14, .threads = 1};
        ota_arrays arrays = {.size = sizeof arrays};
        arrays.coupling = ota_array_of(p[n], OTA_F64, 1, 1, SIZE, SIZE);
        ota_error error;
        if (ota_attend(&problem, &options, &arrays, NULL, &error) != OTA_OK)
            fail_msg("%s", error.message);
    }
    const double alphas[] = {0.0, 0.3, 1.0};
    for (int k = 0; k < 3; k++) {
        const double alpha = alphas[k];
        assert_int_equal(ota_identity_core(p[0], x, SIZE, FEATURES, alpha, y, NULL, NULL), OTA_OK);
        double unbalanced = 0.0;
        if (alpha == 0.0) assert_memory_equal(x, y, sizeof x);
        /* Softmax keeps the hull, not the mean. */
        assert_int_equal(ota_identity_core(p[1], x, SIZE, FEATURES, alpha, y, NULL, NULL), OTA_OK);
        for (int f = 0; f < FEATURES; f++) {
            double change = 0.0;
            for (int i = 0; i < SIZE; i++)
                change += (y[i * FEATURES + f] - x[i * FEATURES + f]) / (double)SIZE;
            unbalanced = fmax(unbalanced, fabs(change));
        }
        assert_true(alpha == 0.0 || unbalanced > 0.01);
    }
}

static void means_of_a_layer(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        fixture a;
        ota_attention_means means;
        open_fixture(&a, 500 + seed, "softmax/exact");
        if (seed % 2 == 0) add_biases(&a);
        a.options.tolerance = 1e-14;
        set_temperatures(&a);
        assert_int_equal(
            ota_attention_mean_change(&a.layer, a.x, TOKENS, a.workspace, &means, NULL), OTA_OK);
        spec_check("CETA-30", means.receiver_error, (double)TOKENS * 1e-13);
        spec_check("CETA-30", means.value_change, 5e-14);
        /* Identity values in one head keep the mean of the input itself. */
        double identity[WIDTH * WIDTH] = {0.0};
        for (int k = 0; k < WIDTH; k++) identity[k * (WIDTH + 1)] = 1.0;
        a.method.temperatures = (ota_array){.data = NULL};
        ota_attention_layer keeps = {.size = sizeof keeps,
                                     .width = WIDTH,
                                     .head_width = HEAD,
                                     .value_width = WIDTH,
                                     .query_weights = a.query_weights,
                                     .key_weights = a.key_weights,
                                     .value_weights = identity,
                                     .output_weights = identity,
                                     .method = &a.method,
                                     .options = &a.options};
        assert_int_equal(ota_attention_mean_change(&keeps, a.x, TOKENS, a.workspace, &means, NULL),
                         OTA_OK);
        spec_check("CETA-30", means.input_change, 5e-14);
        /* Row softmax keeps neither. */
        assert_int_equal(ota_method_parse("softmax", &a.method, NULL, NULL), OTA_OK);
        assert_int_equal(
            ota_attention_mean_change(&a.layer, a.x, TOKENS, a.workspace, &means, NULL), OTA_OK);
        assert_true(means.value_change > 1e-3 && means.receiver_error > 1e-2);
        close_fixture(&a);
    }
}

/* ---- changes -------------------------------------------------------------------------------- */

static double power_norm(const double *a, int rows, int columns, int stride, uint64_t *state) {
    double x[64], y[64], length = 0.0;
    fill(state, x, columns, 1.0);
    for (int step = 0; step < 4000; step++) {
        double norm = 0.0;
        for (int j = 0; j < columns; j++) norm += x[j] * x[j];
        for (int j = 0; j < columns; j++) x[j] /= sqrt(norm);
        length = 0.0;
        for (int i = 0; i < rows; i++) {
            y[i] = 0.0;
            for (int j = 0; j < columns; j++) y[i] += a[i * stride + j] * x[j];
            length += y[i] * y[i];
        }
        for (int j = 0; j < columns; j++) {
            x[j] = 0.0;
            for (int i = 0; i < rows; i++) x[j] += a[i * stride + j] * y[i];
        }
    }
    return sqrt(length);
}

static void spectral_norm(void **unused) {
    (void)unused;
    double a[40 * 40], workspace[2 * 40 * 40];
    uint64_t state = 6;
    static const int sizes[][2] = {{1, 1}, {1, 7}, {7, 1}, {5, 9}, {9, 5}, {12, 12}};
    for (int n = 0; n < 6; n++) {
        const int rows = sizes[n][0], columns = sizes[n][1], stride = columns + n;
        fill(&state, a, 40 * 40, 1.0);
        const double norm = ota_spectral_norm(a, rows, columns, stride, workspace, NULL);
        const double below = power_norm(a, rows, columns, stride, &state);
        spec_check("TOT-54", fabs(norm / below - 1.0), 1e-8);
        spec_check("TOT-54", below / norm - 1.0, 0.0);
        for (int i = 0; i < 40 * 40; i++) a[i] *= 0x1p-600;
        const double small = ota_spectral_norm(a, rows, columns, stride, workspace, NULL);
        spec_check("TOT-54", fabs(small / norm * 0x1p600 - 1.0), 8.0 * u64);
    }
    /* Many equal singular values: the slowest case of the trace. */
    memset(a, 0, sizeof a);
    for (int k = 0; k < 40; k++) a[k * 41] = k % 2 == 0 ? 3.0 : -3.0;
    const double norm = ota_spectral_norm(a, 40, 40, 40, workspace, NULL);
    spec_check("TOT-54", norm / 3.0 - 1.0, 2e-9);
    spec_check("TOT-54", 1.0 - norm / 3.0, 0.0);
    memset(a, 0, sizeof a);
    assert_true(ota_spectral_norm(a, 40, 40, 40, workspace, NULL) == 0.0);
}

/* Both inputs of a change; the second is the first moved by `step`. */
static void move(uint64_t *state, const double *x, double *moved, int64_t count, double step) {
    for (int64_t i = 0; i < count; i++) moved[i] = x[i] + step * normal(state);
}

static void layer_changes(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax", "softmax/exact", "softmax/relaxed:0.5"};
    uint64_t state = 7;
    for (int n = 0; n < 3; n++) {
        double tightest[2] = {0.0, 0.0}, tightest_output = 0.0;
        for (int trial = 0; trial < 60; trial++) {
            fixture a;
            double moved[TOKENS * WIDTH], context[2][TOKENS * WIDTH];
            ota_change output, weights;
            ota_error error;
            open_fixture(&a, 600 + (uint64_t)trial, methods[n]);
            a.options.tolerance = 1e-11;
            if (trial % 2 == 0) add_biases(&a);
            if (trial % 3 == 0) set_temperatures(&a);
            if (trial % 5 == 0) a.layer.rotary_base = 10000.0;
            if (trial % 7 == 0) a.method.scale = -0.4;
            const double step = pow(10.0, -3.0 + 3.5 * uniform(&state));
            move(&state, a.x, moved, TOKENS * WIDTH, step);
            fill(&state, context[0], TOKENS * WIDTH, 1.0);
            move(&state, context[0], context[1], TOKENS * WIDTH, step);
            const int cross = trial % 4 == 1;
            if (ota_attention_change(&a.layer,
                                     &(ota_attention_input){.queries = TOKENS,
                                                            .keys = TOKENS,
                                                            .x = a.x,
                                                            .context = cross ? context[0] : NULL},
                                     &(ota_attention_input){.queries = TOKENS,
                                                            .keys = TOKENS,
                                                            .x = moved,
                                                            .context = cross ? context[1] : NULL},
                                     a.workspace, &output, &weights, &error) != OTA_OK)
                fail_msg("%s", error.message);
            spec_check("TOT-54", output.printed_ratio, 1.0);
            spec_check("TOT-54", output.sharp_ratio, 1.0);
            spec_check("TOT-54", output.sharp, output.printed * (1.0 + 1e-8));
            spec_check("TOT-55", weights.printed_ratio, 1.0);
            spec_check("TOT-55", weights.sharp_ratio, 1.0);
            spec_check("TOT-55", weights.sharp, 2.0);
            tightest[0] = fmax(tightest[0], weights.printed_ratio);
            tightest[1] = fmax(tightest[1], weights.sharp_ratio);
            tightest_output = fmax(tightest_output, output.sharp_ratio);
            close_fixture(&a);
        }
        print_message(
            "%s: weights at most %.3f of the printed bound, %.3f of the sharp one; output "
            "%.3f of the sharp one\n",
            methods[n], tightest[0], tightest[1], tightest_output);
        assert_true(tightest[1] >= tightest[0]);
    }
}

/* Scores that turn over between two keys: the sharp bounds are met with equality, for softmax and, with two
 * tokens, for doubly stochastic plans. */
static void sharp_weights_are_attained(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax", "softmax/exact"};
    for (int n = 0; n < 2; n++) {
        /* Q = X, K = Z: scores x_i z_j from +-level on the diagonal to the opposite. */
        const double one[4] = {1, 0, 0, 1}, x[4] = {1.5, -1.5, -1.5, 1.5},
                     x2[4] = {-1.5, 1.5, 1.5, -1.5};
        ota_problem method = {.size = sizeof method, .scale = 1.0};
        ota_options options = {.size = sizeof options, .tolerance = 1e-14, .threads = 1};
        assert_int_equal(ota_method_parse(methods[n], &method, &options, NULL), OTA_OK);
        ota_attention_layer layer = {.size = sizeof layer,
                                     .width = 2,
                                     .query_weights = one,
                                     .key_weights = one,
                                     .value_weights = one,
                                     .output_weights = one,
                                     .method = &method,
                                     .options = &options};
        double workspace[MOST];
        assert_true(ota_attention_change_workspace(&layer, 2, 2) <= MOST);
        ota_change weights;
        ota_error error;
        const double context[4] = {0.5, 0, 0, 0.5};
        if (ota_attention_change(
                &layer, &(ota_attention_input){.queries = 2, .keys = 2, .x = x, .context = context},
                &(ota_attention_input){.queries = 2, .keys = 2, .x = x2, .context = context},
                workspace, NULL, &weights, &error) != OTA_OK)
            fail_msg("%s", error.message);
        /* Score differences within a row go from 1.5 to -1.5. */
        spec_check("TOT-55 DER-18", fabs(weights.measured - 2.0 * tanh(0.75)), 1e-13);
        spec_check("TOT-55 DER-18", fabs(weights.sharp_ratio - 1.0), 1e-13);
        spec_check_true("TOT-55", weights.printed_ratio < 0.9);
    }
}

static void block_changes(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax", "softmax/exact", "softmax/relaxed:0.5"};
    uint64_t state = 8;
    for (int n = 0; n < 3; n++) {
        double tightest = 0.0, smaller = 0.0;
        for (int trial = 0; trial < 60; trial++) {
            fixture a;
            double moved[TOKENS * WIDTH];
            ota_change change;
            ota_error error;
            open_fixture(&a, 700 + (uint64_t)trial, methods[n]);
            a.options.tolerance = 1e-11;
            if (trial % 2 == 0) add_biases(&a);
            if (trial % 3 == 0) set_temperatures(&a);
            if (trial % 5 == 0) a.layer.rotary_base = 10000.0;
            move(&state, a.x, moved, TOKENS * WIDTH, pow(10.0, -4.0 + 5.0 * uniform(&state)));
            const double alpha = trial % 4 == 0 ? -0.5 : 1.0;
            if (ota_block_change(&(ota_residual_block){.layer = &a.layer,
                                                       .norm = trial % 2 == 1 ? &a.norm : NULL,
                                                       .alpha = alpha},
                                 a.x, moved, TOKENS, a.workspace, &change, &error) != OTA_OK)
                fail_msg("%s", error.message);
            spec_check("TOT-60", change.printed_ratio, 1.0);
            spec_check("TOT-60", change.sharp_ratio, 1.0);
            spec_check("TOT-60", change.sharp, change.printed * (1.0 + 1e-8));
            tightest = fmax(tightest, change.sharp_ratio);
            smaller = fmax(smaller, change.printed / change.sharp);
            /* Nothing but the residual path. */
            if (ota_block_change(&(ota_residual_block){.layer = &a.layer, .norm = &a.norm}, a.x,
                                 moved, TOKENS, a.workspace, &change, &error) != OTA_OK)
                fail_msg("%s", error.message);
            spec_check("TOT-60", fabs(change.sharp_ratio - 1.0), 8.0 * u64);
            close_fixture(&a);
        }
        print_message(
            "%s: a block moves by at most %.3f of the sharp bound, which is up to %.1f times "
            "below the printed one\n",
            methods[n], tightest, smaller);
        assert_true(tightest > 0.01 && smaller > 1.2);
    }
    /* The same input does not move. */
    fixture a;
    ota_change change;
    open_fixture(&a, 9, "softmax");
    assert_int_equal(
        ota_block_change(&(ota_residual_block){.layer = &a.layer, .norm = &a.norm, .alpha = 1.0},
                         a.x, a.x, TOKENS, a.workspace, &change, NULL),
        OTA_OK);
    assert_true(change.measured == 0.0 && change.sharp == 0.0 && change.sharp_ratio == 0.0);
    close_fixture(&a);
}

/* ---- bad input ------------------------------------------------------------------------------ */

static ota_status forward(const fixture *a, const ota_attention_layer *layer, ota_error *error) {
    double out[TOKENS * WIDTH];
    ota_attention_outputs outputs = {.size = sizeof outputs, .out = out};
    return ota_attention_forward(
        layer, &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a->x}, &outputs,
        a->workspace, NULL, error);
}

static void bad_layers(void **unused) {
    (void)unused;
    fixture a;
    ota_error error;
    double y[TOKENS * WIDTH];
    open_fixture(&a, 10, "softmax");
    ota_attention_layer bad;
#define WITH(field, value) (bad = a.layer, bad.field = (value), &bad)
    REFUSED(forward(&a, WITH(size, 0), &error), OTA_EINVAL, "layer");
    REFUSED(forward(&a, WITH(width, 0), &error), OTA_EINVAL, "width");
    REFUSED(forward(&a, WITH(heads, -1), &error), OTA_EINVAL, "heads");
    REFUSED(forward(&a, WITH(value_width, -1), &error), OTA_EINVAL, "value_width");
    REFUSED(forward(&a, WITH(rotary_base, NAN), &error), OTA_EINVAL, "rotary_base");
    REFUSED(forward(&a, WITH(key_weights, NULL), &error), OTA_EINVAL, "key_weights");
    REFUSED(forward(&a, WITH(heads, INT64_MAX / 4 + 1), &error), OTA_EOVERFLOW, "heads");
    assert_true(ota_attention_workspace(WITH(heads, INT64_MAX / 64), TOKENS, TOKENS) == 0);
    REFUSED(forward(&a, WITH(heads, INT64_MAX / 64), &error), OTA_EOVERFLOW, "workspace");
    bad = a.layer;
    bad.heads = 5;
    bad.head_width = 0;
    REFUSED(forward(&a, &bad, &error), OTA_EINVAL, "head_width");
    ota_problem method = a.method;
    method.queries = ota_array_of(a.x, OTA_F64, 1, 1, TOKENS, WIDTH);
    REFUSED(forward(&a, WITH(method, &method), &error), OTA_EINVAL, "method");
    method = (ota_problem){.size = 0};
    REFUSED(forward(&a, WITH(method, &method), &error), OTA_EINVAL, "method");
    a.x[7] = NAN;
    REFUSED(forward(&a, &a.layer, &error), OTA_EINVAL, "x");
    a.x[7] = 0.5;
    a.value_bias[1] = INFINITY;
    REFUSED(forward(&a, WITH(value_bias, a.value_bias), &error), OTA_EINVAL, "value_bias");
    double *workspace = a.workspace;
    a.workspace = NULL;
    REFUSED(forward(&a, &a.layer, &error), OTA_EINVAL, "workspace");
    a.workspace = workspace;
    ota_attention_outputs outputs = {.size = sizeof outputs, .out = y};
    REFUSED(ota_attention_forward(
                &a.layer, &(ota_attention_input){.queries = TOKENS, .keys = TOKENS - 1, .x = a.x},
                &outputs, a.workspace, NULL, &error),
            OTA_EINVAL, "keys");
    REFUSED(ota_attention_block(&(ota_residual_block){.layer = &a.layer, .alpha = NAN}, a.x, TOKENS,
                                y, a.workspace, NULL, &error),
            OTA_EINVAL, "alpha");
    REFUSED(ota_attention_block(&(ota_residual_block){.layer = &a.layer, .alpha = 1.0}, a.x, TOKENS,
                                a.x, a.workspace, NULL, &error),
            OTA_EALIAS, "y");
    /* What the operator refuses comes through with its own words. */
    method = a.method;
    method.temperature = -1.0;
    REFUSED(forward(&a, WITH(method, &method), &error), OTA_EINVAL, "temperature");
    close_fixture(&a);
}

static void bad_couplings(void **unused) {
    (void)unused;
    ota_error error;
    double p[4] = {0.5, 0.5, 0.25, 0.75}, x[4] = {1, 2, 3, 4}, y[4];
    REFUSED(ota_identity_core(p, x, 2, 2, 1.5, y, NULL, &error), OTA_EINVAL, "alpha");
    REFUSED(ota_identity_core(p, x, 2, 2, 0.5, x, NULL, &error), OTA_EALIAS, "y");
    REFUSED(ota_identity_core(p, x, 0, 2, 0.5, y, NULL, &error), OTA_EINVAL, "tokens");
    /* One token is its own mean. */
    const double one = 1.0;
    assert_int_equal(ota_identity_core(&one, x, 1, 4, 1.0, y, NULL, &error), OTA_OK);
    assert_memory_equal(x, y, sizeof x);
    p[1] = 0.4;
    REFUSED(ota_identity_core(p, x, 2, 2, 0.5, y, NULL, &error), OTA_EINVAL, "coupling");
    p[0] = 1.5, p[1] = -0.5;
    REFUSED(ota_identity_core(p, x, 2, 2, 0.5, y, NULL, &error), OTA_EINVAL, "coupling");
    p[0] = NAN;
    REFUSED(ota_identity_core(p, x, 2, 2, 0.5, y, NULL, &error), OTA_EINVAL, "coupling");
}

static void unproven_changes(void **unused) {
    (void)unused;
    static const char *const methods[] = {"entmax:1.5", "hard",
                                          "capped:2",   "softmax/elastic:0.5,3",
                                          "prefix",     "softmax/exact{rounds=3}"};
    ota_error error;
    ota_change change;
    for (int n = 0; n < 6; n++) {
        fixture a;
        open_fixture(&a, 11, methods[n]);
        REFUSED(ota_block_change(&(ota_residual_block){.layer = &a.layer, .alpha = 1.0}, a.x, a.x,
                                 TOKENS, a.workspace, &change, &error),
                OTA_UNSUPPORTED, "method");
        close_fixture(&a);
    }
    fixture partial;
    open_fixture(&partial, 11, "softmax/exact");
    partial.options.max_rounds = 1;
    partial.options.allow_partial = 1;
    partial.options.solver = "sinkhorn";
    REFUSED(ota_block_change(&(ota_residual_block){.layer = &partial.layer, .alpha = 1.0},
                             partial.x, partial.x, TOKENS, partial.workspace, &change, &error),
            OTA_UNSUPPORTED, "method");
    close_fixture(&partial);
    fixture a;
    open_fixture(&a, 11, "softmax");
    ota_term sink = {.kind = OTA_TERM_SINK};
    a.method.terms = &sink;
    a.method.term_count = 1;
    REFUSED(ota_attention_change(
                &a.layer, &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x},
                &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x}, a.workspace,
                &change, NULL, &error),
            OTA_UNSUPPORTED, "method");
    a.method.term_count = 0;
    REFUSED(ota_attention_change(
                &a.layer,
                &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x, .context = a.x},
                &(ota_attention_input){.queries = TOKENS, .keys = TOKENS, .x = a.x}, a.workspace,
                &change, NULL, &error),
            OTA_EINVAL, "context");
    close_fixture(&a);
}

TEST_FILE(test_block) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_equals_loops),
        cmocka_unit_test(heads_add_up),
        cmocka_unit_test(temperatures_per_head),
        cmocka_unit_test(positions_follow_the_corner),
        cmocka_unit_test(identity_core),
        cmocka_unit_test(means_of_a_layer),
        cmocka_unit_test(spectral_norm),
        cmocka_unit_test(layer_changes),
        cmocka_unit_test(sharp_weights_are_attained),
        cmocka_unit_test(block_changes),
        cmocka_unit_test(bad_layers),
        cmocka_unit_test(bad_couplings),
        cmocka_unit_test(unproven_changes),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
