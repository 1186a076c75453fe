/* ota_attention_change and ota_block_change against their formulas by plain loops, field by field: several heads,
 * fewer queries than keys, temperatures of either type, all three column rules. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { MOST = 7, WIDTH = 6, HEADS = 3, HEAD = 2, VALUE = 3, QUERY = HEADS * HEAD };
enum { VALUES = HEADS * VALUE, TWO = 2 };

/* ota_spectral_norm is above the norm by at most 1e-9 of it. */
static const double SLACK = 4e-9;

typedef struct setting {
    double query[WIDTH * QUERY], key[WIDTH * QUERY], value[WIDTH * VALUES], out[VALUES * WIDTH];
    double query_bias[QUERY], key_bias[QUERY], value_bias[VALUES], out_bias[WIDTH];
    double gamma[WIDTH], beta[WIDTH], temperatures[HEADS];
    float narrow[HEADS];
    double x[TWO][MOST * WIDTH], context[TWO][MOST * WIDTH];
    int queries, keys;
    ota_problem method;
    ota_options options;
    ota_attention_layer layer;
} setting;

/* What either input leads to. */
typedef struct pass {
    double q[MOST * QUERY], k[MOST * QUERY], v[MOST * VALUES];
    double plan[HEADS * MOST * MOST], out[MOST * WIDTH];
} pass;

static void fill(uint64_t *state, double *x, int count, double spread) {
    for (int i = 0; i < count; i++) x[i] = spread * normal(state);
}

static void draw(uint64_t *state, const char *method, int trial, setting *s) {
    memset(s, 0, sizeof *s);
    fill(state, s->query, WIDTH * QUERY, 0.5);
    fill(state, s->key, WIDTH * QUERY, 0.5);
    fill(state, s->value, WIDTH * VALUES, 0.5);
    /* Heads of different norms: the one is not taken for the other. */
    fill(state, s->out, VALUES * WIDTH, 1.0);
    for (int k = 0; k < VALUES * WIDTH; k++) s->out[k] *= 1.0 + k / (VALUE * WIDTH);
    fill(state, s->query_bias, QUERY, 0.3);
    fill(state, s->key_bias, QUERY, 0.3);
    fill(state, s->value_bias, VALUES, 0.3);
    fill(state, s->out_bias, WIDTH, 0.3);
    fill(state, s->gamma, WIDTH, 1.0);
    fill(state, s->beta, WIDTH, 0.2);
    const double step = decade(state, -2.0, 0.0);
    for (int k = 0; k < MOST * WIDTH; k++) {
        s->x[0][k] = normal(state);
        s->context[0][k] = normal(state);
        s->x[1][k] = s->x[0][k] + step * normal(state);
        s->context[1][k] = s->context[0][k] + step * normal(state);
    }
    s->method.size = sizeof s->method;
    s->options = (ota_options){.size = sizeof s->options, .tolerance = 1e-13, .threads = 1};
    assert_int_equal(ota_method_parse(method, &s->method, &s->options, NULL), OTA_OK);
    for (int h = 0; h < HEADS; h++) {
        s->temperatures[h] = 0.5 + 0.25 * h;
        s->narrow[h] = 1.5F - 0.25F * (float)h;
    }
    if (trial % 4 == 1)
        s->method.temperatures = ota_array_of(s->temperatures, OTA_F64, 1, 1, 1, HEADS);
    if (trial % 4 == 2) s->method.temperatures = ota_array_of(s->narrow, OTA_F32, 1, 1, 1, HEADS);
    if (trial % 4 == 3) s->method.temperature = 0.75;
    if (trial % 3 == 1) s->method.scale = -0.4;
    s->queries = s->keys = MOST;
    s->layer = (ota_attention_layer){.size = sizeof s->layer,
                                     .width = WIDTH,
                                     .heads = HEADS,
                                     .head_width = HEAD,
                                     .value_width = VALUE,
                                     .query_weights = s->query,
                                     .key_weights = s->key,
                                     .value_weights = s->value,
                                     .output_weights = s->out,
                                     .method = &s->method,
                                     .options = &s->options};
    if (trial % 2 == 0) return;
    s->layer.query_bias = s->query_bias;
    s->layer.key_bias = s->key_bias;
    s->layer.value_bias = s->value_bias;
    s->layer.output_bias = s->out_bias;
}

static double *poisoned(const setting *s) {
    const int64_t count = ota_attention_change_workspace(&s->layer, s->queries, s->keys);
    double *const workspace = malloc((size_t)count * sizeof *workspace);
    assert_non_null(workspace);
    for (int64_t k = 0; k < count; k++) workspace[k] = NAN;
    return workspace;
}

/* ---- the same by plain loops ---------------------------------------------------------------- */

static void times(const double *x, int rows, const double *w, const double *bias, int columns,
                  double *y) {
    for (int i = 0; i < rows; i++) {
        for (int c = 0; c < columns; c++) {
            double sum = bias == NULL ? 0.0 : bias[c];
            for (int f = 0; f < WIDTH; f++) sum += x[i * WIDTH + f] * w[f * columns + c];
            y[i * columns + c] = sum;
        }
    }
}

/* Plan and output are what ota_attention_forward makes of them; test_block.c holds it against loops. */
static void run(const setting *s, const double *x, const double *context, pass *p) {
    times(x, s->queries, s->query, s->layer.query_bias, QUERY, p->q);
    times(context, s->keys, s->key, s->layer.key_bias, QUERY, p->k);
    times(context, s->keys, s->value, s->layer.value_bias, VALUES, p->v);
    double *const workspace = poisoned(s);
    const ota_attention_outputs outputs = {
        .size = sizeof outputs, .out = p->out, .coupling = p->plan};
    assert_int_equal(ota_attention_forward(
                         &s->layer,
                         &(ota_attention_input){
                             .queries = s->queries, .keys = s->keys, .x = x, .context = context},
                         &outputs, workspace, NULL, NULL),
                     OTA_OK);
    free(workspace);
}

static double length(const double *x, int count) {
    double square = 0.0;
    for (int k = 0; k < count; k++) square += x[k] * x[k];
    return sqrt(square);
}

static double apart(const double *x, const double *y, int count) {
    double square = 0.0;
    for (int k = 0; k < count; k++) square += (x[k] - y[k]) * (x[k] - y[k]);
    return sqrt(square);
}

static double dot(const double *x, const double *y, int count) {
    double sum = 0.0;
    for (int k = 0; k < count; k++) sum += x[k] * y[k];
    return sum;
}

/* The largest length that columns turned into orthogonal ones have: Jacobi's rotations. */
static double spectral(const double *a, int rows, int columns, int stride) {
    double c[WIDTH][MOST + VALUES], largest = 0.0;
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++) c[j][i] = a[i * stride + j];
    for (int sweep = 0; sweep < 30; sweep++) {
        for (int j = 0; j < columns; j++) {
            for (int k = 0; k < j; k++) {
                const double shared = dot(c[j], c[k], rows);
                if (fabs(shared) <= 1e-16 * length(c[j], rows) * length(c[k], rows)) continue;
                const double slant =
                    (dot(c[k], c[k], rows) - dot(c[j], c[j], rows)) / (2.0 * shared);
                const double tangent =
                    (slant >= 0.0 ? 1.0 : -1.0) / (fabs(slant) + sqrt(1.0 + slant * slant));
                const double cosine = 1.0 / sqrt(1.0 + tangent * tangent);
                for (int i = 0; i < rows; i++) {
                    const double one = c[j][i], other = c[k][i];
                    c[j][i] = cosine * (one - tangent * other);
                    c[k][i] = cosine * (other + tangent * one);
                }
            }
        }
    }
    for (int j = 0; j < columns; j++) largest = fmax(largest, length(c[j], rows));
    return largest;
}

static double longest(const double *a, int rows, int columns, int stride) {
    double most = 0.0;
    for (int i = 0; i < rows; i++) most = fmax(most, length(a + i * stride, columns));
    return most;
}

/* |scale| / tau of a head. */
static double rate_of(const setting *s, int head) {
    double tau = 1.0;
    if (s->method.temperature > 0.0) tau = s->method.temperature;
    if (s->method.temperatures.type == OTA_F64) tau = s->temperatures[head];
    if (s->method.temperatures.type == OTA_F32) tau = (double)s->narrow[head];
    return (s->method.scale < 0.0 ? -s->method.scale : 1.0 / sqrt(HEAD)) / tau;
}

/* w_i printed [0] and sharp [1] of all rows from r_i and osc_i. */
static void weights_of(const setting *s, const double *reach, const double *range,
                       double w[TWO][MOST]) {
    double reach_most = 0.0, range_most = 0.0;
    const int n = s->queries;
    for (int i = 0; i < n; i++) {
        reach_most = fmax(reach_most, reach[i]);
        range_most = fmax(range_most, range[i]);
    }
    for (int i = 0; i < n; i++) {
        switch (s->method.columns) {
        case OTA_COLUMNS_FREE:
            w[0][i] = reach[i];
            w[1][i] = 2.0 * tanh(range[i] / 4.0);
            break;
        case OTA_COLUMNS_EXACT:
            w[0][i] = n * reach_most;
            w[1][i] = n * tanh(range_most / 4.0);
            break;
        default:
            w[0][i] = n * reach_most;
            w[1][i] = 2.0 * n * tanh(range_most / 4.0);
            break;
        }
        w[1][i] = fmin(2.0, w[1][i]);
    }
}

static void count_row(ota_change *c, double measured, double printed, double sharp) {
    c->measured = fmax(c->measured, measured);
    c->printed = fmax(c->printed, printed);
    c->sharp = fmax(c->sharp, sharp);
    c->printed_ratio = fmax(c->printed_ratio, measured / printed);
    c->sharp_ratio = fmax(c->sharp_ratio, measured / sharp);
}

static double off(double value, double wanted) { return fabs(value / wanted - 1.0); }

static void compare(const char *ids, const ota_change *c, const ota_change *wanted) {
    /* Changes are differences of plans that are known within 1e-13. */
    spec_check(ids, off(c->measured, wanted->measured), 1e-9);
    spec_check(ids, off(c->printed, wanted->printed), SLACK);
    spec_check(ids, off(c->sharp, wanted->sharp), SLACK);
    spec_check(ids, off(c->printed_ratio, wanted->printed_ratio), SLACK);
    spec_check(ids, off(c->sharp_ratio, wanted->sharp_ratio), SLACK);
}

/* ---- one layer ------------------------------------------------------------------------------ */

static void expected_layer(const setting *s, const pass *a, const pass *b, ota_change *output,
                           ota_change *weights) {
    double bound[TWO][MOST] = {{0.0}};
    const int n = s->queries, m = s->keys;
    *output = *weights = (ota_change){.measured = 0.0};
    for (int h = 0; h < HEADS; h++) {
        const int q = h * HEAD, v = h * VALUE;
        double reach[MOST], range[MOST], w[TWO][MOST], moved[MOST * VALUES], key_change = 0.0;
        for (int j = 0; j < m; j++)
            key_change = fmax(key_change, apart(a->k + j * QUERY + q, b->k + j * QUERY + q, HEAD));
        for (int i = 0; i < n; i++) {
            const double *one = a->q + i * QUERY + q, *two = b->q + i * QUERY + q;
            double low = INFINITY, high = -INFINITY;
            for (int j = 0; j < m; j++) {
                const double change =
                    dot(one, a->k + j * QUERY + q, HEAD) - dot(two, b->k + j * QUERY + q, HEAD);
                low = fmin(low, change);
                high = fmax(high, change);
            }
            range[i] = rate_of(s, h) * (high - low);
            reach[i] = rate_of(s, h) * (key_change * length(one, HEAD) +
                                        longest(b->k + q, m, HEAD, QUERY) * apart(one, two, HEAD));
        }
        weights_of(s, reach, range, w);
        for (int k = 0; k < m * VALUES; k++) moved[k] = a->v[k] - b->v[k];
        const double norm = spectral(s->out + v * WIDTH, VALUE, WIDTH, WIDTH);
        for (int i = 0; i < n; i++) {
            double l1 = 0.0;
            const int row = (h * n + i) * m;
            for (int j = 0; j < m; j++) l1 += fabs(a->plan[row + j] - b->plan[row + j]);
            count_row(weights, l1, w[0][i], w[1][i]);
            bound[0][i] += norm * (l1 * spectral(a->v + v, m, VALUE, VALUES) +
                                   spectral(moved + v, m, VALUE, VALUES));
            bound[1][i] += norm * (l1 * longest(a->v + v, m, VALUE, VALUES) +
                                   longest(moved + v, m, VALUE, VALUES));
        }
    }
    for (int i = 0; i < n; i++)
        count_row(output, apart(a->out + i * WIDTH, b->out + i * WIDTH, WIDTH), bound[0][i],
                  bound[1][i]);
}

static const char *const methods[] = {"softmax", "softmax/exact", "softmax/relaxed:0.5"};

static void a_layer_has_the_bounds_of_the_formula(void **unused) {
    (void)unused;
    uint64_t state = 1;
    setting s;
    pass a, b;
    for (int trial = 0; trial < 36; trial++) {
        draw(&state, methods[trial % 3], trial / 3, &s);
        const bool cross = trial / 3 % 3 == 2;
        if (cross) s.queries = 4;
        const double *const from[TWO] = {cross ? s.context[0] : s.x[0],
                                         cross ? s.context[1] : s.x[1]};
        run(&s, s.x[0], from[0], &a);
        run(&s, s.x[1], from[1], &b);
        ota_change output, weights, wanted_output, wanted_weights, alone;
        expected_layer(&s, &a, &b, &wanted_output, &wanted_weights);
        double *const workspace = poisoned(&s);
        const double *const given[TWO] = {cross ? from[0] : NULL, cross ? from[1] : NULL};
        assert_int_equal(
            ota_attention_change(
                &s.layer,
                &(ota_attention_input){
                    .queries = s.queries, .keys = s.keys, .x = s.x[0], .context = given[0]},
                &(ota_attention_input){
                    .queries = s.queries, .keys = s.keys, .x = s.x[1], .context = given[1]},
                workspace, &output, &weights, NULL),
            OTA_OK);
        compare("TOT-54", &output, &wanted_output);
        compare("TOT-55", &weights, &wanted_weights);
        /* Either may be left out. */
        assert_int_equal(
            ota_attention_change(
                &s.layer,
                &(ota_attention_input){
                    .queries = s.queries, .keys = s.keys, .x = s.x[0], .context = given[0]},
                &(ota_attention_input){
                    .queries = s.queries, .keys = s.keys, .x = s.x[1], .context = given[1]},
                workspace, NULL, &alone, NULL),
            OTA_OK);
        assert_memory_equal(&alone, &weights, sizeof alone);
        assert_int_equal(
            ota_attention_change(
                &s.layer,
                &(ota_attention_input){
                    .queries = s.queries, .keys = s.keys, .x = s.x[0], .context = given[0]},
                &(ota_attention_input){
                    .queries = s.queries, .keys = s.keys, .x = s.x[1], .context = given[1]},
                workspace, &alone, NULL, NULL),
            OTA_OK);
        assert_memory_equal(&alone, &output, sizeof alone);
        free(workspace);
    }
}

/* ---- one block ------------------------------------------------------------------------------ */

static void expected_block(const setting *s, const ota_norm *norm, double alpha, const pass *a,
                           const pass *b, ota_change *block) {
    const int n = s->queries;
    double delta[TWO][MOST], largest[TWO] = {0.0}, bound[TWO][MOST], difference[WIDTH];
    for (int i = 0; i < n; i++) {
        const double *u = s->x[0] + i * WIDTH, *v = s->x[1] + i * WIDTH;
        double workspace[2 * WIDTH];
        bound[0][i] = bound[1][i] = delta[0][i] = delta[1][i] = apart(u, v, WIDTH);
        if (norm != NULL) {
            ota_change change;
            assert_int_equal(
                ota_layernorm_change(u, v, WIDTH,
                                     &(ota_norm){.gamma = norm->gamma, .epsilon = norm->epsilon},
                                     workspace, &change, NULL, NULL),
                OTA_OK);
            delta[0][i] = change.printed;
            delta[1][i] = change.sharp;
        }
        for (int form = 0; form < TWO; form++) largest[form] = fmax(largest[form], delta[form][i]);
    }
    for (int h = 0; h < HEADS; h++) {
        const int q = h * HEAD, v = h * VALUE;
        double reach[TWO][MOST], range[MOST], w[TWO][MOST];
        const double query_norm = spectral(s->query + q, WIDTH, HEAD, QUERY),
                     key_norm = spectral(s->key + q, WIDTH, HEAD, QUERY),
                     value_norm = spectral(s->value + v, WIDTH, VALUE, VALUES),
                     out_norm = spectral(s->out + v * WIDTH, VALUE, WIDTH, WIDTH);
        for (int i = 0; i < n; i++) {
            for (int form = 0; form < TWO; form++)
                reach[form][i] = rate_of(s, h) *
                                 (length(a->q + i * QUERY + q, HEAD) * key_norm * largest[form] +
                                  longest(b->k + q, n, HEAD, QUERY) * query_norm * delta[form][i]);
            range[i] = 2.0 * reach[1][i];
        }
        weights_of(s, reach[0], range, w);
        for (int i = 0; i < n; i++) {
            bound[0][i] +=
                fabs(alpha) * out_norm *
                (w[0][i] * spectral(a->v + v, n, VALUE, VALUES) + value_norm * length(delta[0], n));
            bound[1][i] +=
                fabs(alpha) * out_norm *
                (w[1][i] * longest(a->v + v, n, VALUE, VALUES) + value_norm * largest[1]);
        }
    }
    *block = (ota_change){.measured = 0.0};
    for (int i = 0; i < n; i++) {
        for (int f = 0; f < WIDTH; f++) {
            const int k = i * WIDTH + f;
            difference[f] = s->x[0][k] - s->x[1][k] + alpha * (a->out[k] - b->out[k]);
        }
        count_row(block, length(difference, WIDTH), bound[0][i], bound[1][i]);
    }
}

static void a_block_has_the_bounds_of_the_formula(void **unused) {
    (void)unused;
    uint64_t state = 2;
    setting s;
    pass a, b;
    for (int trial = 0; trial < 24; trial++) {
        draw(&state, methods[trial % 3], trial / 3, &s);
        const ota_norm parameters = {s.gamma, s.beta, 1e-3};
        const ota_norm *const norm = trial % 2 == 0 ? &parameters : NULL;
        const double alpha = trial % 5 == 0 ? -0.5 : 1.25;
        double normalised[TWO][MOST * WIDTH];
        memcpy(normalised, s.x, sizeof normalised);
        for (int k = 0; k < TWO && norm != NULL; k++)
            assert_int_equal(
                ota_layernorm(
                    s.x[k], MOST, WIDTH,
                    &(ota_norm){.gamma = s.gamma, .beta = s.beta, .epsilon = norm->epsilon},
                    normalised[k], NULL, NULL, NULL),
                OTA_OK);
        run(&s, normalised[0], normalised[0], &a);
        run(&s, normalised[1], normalised[1], &b);
        ota_change block, wanted;
        expected_block(&s, norm, alpha, &a, &b, &wanted);
        double *const workspace = poisoned(&s);
        assert_int_equal(
            ota_block_change(&(ota_residual_block){.layer = &s.layer, .norm = norm, .alpha = alpha},
                             s.x[0], s.x[1], MOST, workspace, &block, NULL),
            OTA_OK);
        compare("TOT-60", &block, &wanted);
        free(workspace);
    }
}

/* ---- runs of models ------------------------------------------------------------------------- */

static ota_projected projected_of(const double *x, const pass *p) {
    return (ota_projected){.x = x, .q = p->q, .k = p->k, .v = p->v};
}

/* What the layer projects itself and what it is given lead to the same. */
static void a_layer_as_it_ran_has_the_same_bounds(void **unused) {
    (void)unused;
    uint64_t state = 5;
    setting s;
    pass a, b;
    for (int trial = 0; trial < 12; trial++) {
        draw(&state, methods[trial % 3], trial / 3, &s);
        run(&s, s.x[0], s.x[0], &a);
        run(&s, s.x[1], s.x[1], &b);
        const ota_projected before = projected_of(s.x[0], &a), after = projected_of(s.x[1], &b);
        ota_change output, weights, wanted_output, wanted_weights, block, wanted_block;
        double *const workspace = poisoned(&s);
        const ota_residual residual = {.size = sizeof residual};
        assert_int_equal(ota_projected_change(&s.layer, &before, &after, MOST, workspace, &output,
                                              &weights, NULL),
                         OTA_OK);
        assert_int_equal(ota_projected_block_change(&s.layer, &residual, &before, &after, MOST,
                                                    workspace, &block, NULL),
                         OTA_OK);
        assert_int_equal(
            ota_attention_change(&s.layer,
                                 &(ota_attention_input){.queries = MOST, .keys = MOST, .x = s.x[0]},
                                 &(ota_attention_input){.queries = MOST, .keys = MOST, .x = s.x[1]},
                                 workspace, &wanted_output, &wanted_weights, NULL),
            OTA_OK);
        expected_block(&s, NULL, 1.0, &a, &b, &wanted_block);
        compare("TOT-54", &output, &wanted_output);
        compare("TOT-55", &weights, &wanted_weights);
        compare("TOT-60", &block, &wanted_block);
        /* Far below a large epsilon both norms only divide by its root. */
        double ones[WIDTH];
        for (int f = 0; f < WIDTH; f++) ones[f] = 1e9;
        const ota_norm flat = {ones, NULL, 1e18};
        const ota_residual behind = {.size = sizeof behind, .norm = &flat, .rms = 1, .behind = 1};
        assert_int_equal(ota_projected_block_change(&s.layer, &behind, &before, &after, MOST,
                                                    workspace, &block, NULL),
                         OTA_OK);
        compare("TOT-60", &block, &wanted_block);
        free(workspace);
    }
}

/* Norms of all four places: outputs by hand, and within the bounds. */
static void norms_before_and_behind_attention(void **unused) {
    (void)unused;
    uint64_t state = 6;
    setting s;
    pass a, b;
    for (int trial = 0; trial < 16; trial++) {
        draw(&state, methods[0], trial, &s);
        const ota_norm norm = {s.gamma, s.beta, 1e-3};
        const bool rms = trial % 2 == 1, behind = trial % 4 > 1;
        double inside[TWO][MOST * WIDTH], sums[TWO][MOST * WIDTH];
        memcpy(inside, s.x, sizeof inside);
        for (int k = 0; k < TWO && !behind; k++) {
            if (rms)
                (void)ota_rmsnorm(s.x[k], MOST, WIDTH,
                                  &(ota_norm){.gamma = s.gamma, .epsilon = 1e-3}, inside[k], NULL,
                                  NULL, NULL);
            else
                (void)ota_layernorm(s.x[k], MOST, WIDTH,
                                    &(ota_norm){.gamma = s.gamma, .beta = s.beta, .epsilon = 1e-3},
                                    inside[k], NULL, NULL, NULL);
        }
        run(&s, inside[0], inside[0], &a);
        run(&s, inside[1], inside[1], &b);
        for (int k = 0; k < MOST * WIDTH; k++) {
            sums[0][k] = s.x[0][k] + a.out[k];
            sums[1][k] = s.x[1][k] + b.out[k];
        }
        for (int k = 0; k < TWO && behind; k++) {
            if (rms)
                (void)ota_rmsnorm(sums[k], MOST, WIDTH,
                                  &(ota_norm){.gamma = s.gamma, .epsilon = 1e-3}, sums[k], NULL,
                                  NULL, NULL);
            else
                (void)ota_layernorm(sums[k], MOST, WIDTH,
                                    &(ota_norm){.gamma = s.gamma, .beta = s.beta, .epsilon = 1e-3},
                                    sums[k], NULL, NULL, NULL);
        }
        double moved = 0.0;
        for (int i = 0; i < MOST; i++)
            moved = fmax(moved, apart(sums[0] + i * WIDTH, sums[1] + i * WIDTH, WIDTH));
        const ota_projected before = projected_of(s.x[0], &a), after = projected_of(s.x[1], &b);
        const ota_residual residual = {
            .size = sizeof residual, .norm = &norm, .rms = rms, .behind = behind};
        double *const workspace = poisoned(&s);
        ota_change block;
        assert_int_equal(ota_projected_block_change(&s.layer, &residual, &before, &after, MOST,
                                                    workspace, &block, NULL),
                         OTA_OK);
        spec_check("TOT-60", off(block.measured, moved), 1e-9);
        spec_check("TOT-60", fmax(block.printed_ratio, block.sharp_ratio), 1.0);
        assert_true(block.sharp_ratio >= block.printed_ratio && block.printed_ratio > 0.0);
        free(workspace);
    }
}

/* Norms that only multiply, far below a large epsilon, multiply what they read and its bound: of queries and keys
 * together they make another temperature, and of the output another W_O. */
static void norms_of_heads_and_outputs(void **unused) {
    (void)unused;
    uint64_t state = 8;
    setting s;
    pass a, b;
    const double epsilon = 1e18, root = 1e9;
    double heads[TWO][HEAD], outputs[WIDTH];
    for (int f = 0; f < HEAD; f++) heads[0][f] = 3.0 * root;
    for (int f = 0; f < HEAD; f++) heads[1][f] = -0.5 * root;
    for (int f = 0; f < WIDTH; f++) outputs[f] = 2.0 * root;
    const ota_norm query = {heads[0], NULL, epsilon}, key = {heads[1], NULL, epsilon};
    const ota_norm output = {outputs, NULL, epsilon};
    for (int trial = 0; trial < 12; trial++) {
        draw(&state, methods[trial % 3], trial / 3, &s);
        /* The other layer: scores times -3 / 2, outputs twice. */
        setting other = s;
        const double scale = s.method.scale == 0.0 ? 1.0 / sqrt(HEAD) : s.method.scale;
        other.method.scale = -1.5 * scale;
        s.method.scale = scale;
        for (int k = 0; k < VALUES * WIDTH; k++) other.out[k] *= 2.0;
        for (int f = 0; f < WIDTH; f++) other.out_bias[f] *= 2.0;
        other.layer.output_weights = other.out;
        other.layer.method = &other.method;
        if (other.layer.output_bias != NULL) other.layer.output_bias = other.out_bias;
        run(&other, s.x[0], s.x[0], &a);
        run(&other, s.x[1], s.x[1], &b);
        const ota_projected plain[TWO] = {projected_of(s.x[0], &a), projected_of(s.x[1], &b)};
        ota_projected normed[TWO];
        double q[TWO][MOST * QUERY], k[TWO][MOST * QUERY];
        for (int i = 0; i < TWO; i++) {
            for (int at = 0; at < MOST * QUERY; at++) {
                q[i][at] = 3.0 * plain[i].q[at];
                k[i][at] = -0.5 * plain[i].k[at];
            }
            normed[i] = plain[i];
            normed[i].q = q[i];
            normed[i].k = k[i];
            normed[i].raw_q = plain[i].q;
            normed[i].raw_k = plain[i].k;
        }
        const ota_residual bare = {.size = sizeof bare, .rms = 1};
        const ota_residual residual = {.size = sizeof residual,
                                       .rms = 1,
                                       .query_norm = &query,
                                       .key_norm = &key,
                                       .output_norm = &output};
        double *const workspace = poisoned(&s);
        ota_change block, wanted;
        assert_int_equal(ota_projected_block_change(&other.layer, &bare, &plain[0], &plain[1], MOST,
                                                    workspace, &wanted, NULL),
                         OTA_OK);
        assert_int_equal(ota_projected_block_change(&s.layer, &residual, &normed[0], &normed[1],
                                                    MOST, workspace, &block, NULL),
                         OTA_OK);
        compare("TOT-60", &block, &wanted);
        ota_error error;
        normed[1].raw_k = NULL;
        assert_int_equal(ota_projected_block_change(&s.layer, &residual, &normed[0], &normed[1],
                                                    MOST, workspace, &block, &error),
                         OTA_EINVAL);
        assert_string_equal(error.field, "raw_k");
        const ota_norm flat = {heads[0], NULL, 0.0};
        const ota_residual wrong = {.size = sizeof wrong, .query_norm = &flat};
        assert_int_equal(ota_projected_block_change(&s.layer, &wrong, &normed[0], &normed[1], MOST,
                                                    workspace, &block, &error),
                         OTA_EINVAL);
        assert_string_equal(error.field, "query_norm");
        free(workspace);
    }
}

/* Under a causal mask a row's range of score changes is over the keys it sees. */
static void masked_keys_are_left_out_of_ranges(void **unused) {
    (void)unused;
    uint64_t state = 7;
    setting s;
    pass a, b;
    const ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};
    for (int trial = 0; trial < 8; trial++) {
        draw(&state, methods[0], 0, &s);
        s.method.supports = &causal;
        s.method.support_count = 1;
        run(&s, s.x[0], s.x[0], &a);
        run(&s, s.x[1], s.x[1], &b);
        double sharp = 0.0;
        for (int h = 0; h < HEADS; h++) {
            for (int i = 0; i < MOST; i++) {
                double low = INFINITY, high = -INFINITY;
                for (int j = 0; j <= i; j++) {
                    const int q = i * QUERY + h * HEAD, k = j * QUERY + h * HEAD;
                    const double change =
                        (dot(a.q + q, a.k + k, HEAD) - dot(b.q + q, b.k + k, HEAD)) / sqrt(HEAD);
                    low = fmin(low, change);
                    high = fmax(high, change);
                }
                sharp = fmax(sharp, 2.0 * tanh(0.25 * (high - low)));
            }
        }
        double *const workspace = poisoned(&s);
        const ota_projected before = projected_of(s.x[0], &a), after = projected_of(s.x[1], &b);
        ota_change weights;
        assert_int_equal(
            ota_projected_change(&s.layer, &before, &after, MOST, workspace, NULL, &weights, NULL),
            OTA_OK);
        spec_check("TOT-55", off(weights.sharp, sharp), SLACK);
        spec_check("TOT-55", weights.sharp_ratio, 1.0);
        free(workspace);
    }
}

/* RMSNorm against LayerNorm of (u, -u), whose mean is 0 and whose sigma is rho, and against its Jacobian. */
static void the_norm_without_a_mean(void **unused) {
    (void)unused;
    uint64_t state = 8;
    for (int trial = 0; trial < 40; trial++) {
        double token[TWO][2 * WIDTH], gamma[2 * WIDTH], y[WIDTH], both[2 * WIDTH], rho, sigma;
        double workspace[4 * WIDTH], jacobian[WIDTH * WIDTH];
        const double epsilon = decade(&state, -6.0, 1.0);
        for (int f = 0; f < WIDTH; f++) {
            gamma[f] = gamma[WIDTH + f] = normal(&state);
            for (int k = 0; k < TWO; k++) {
                token[k][f] = normal(&state);
                token[k][WIDTH + f] = -token[k][f];
            }
        }
        const double *const g = trial % 4 == 0 ? NULL : gamma;
        assert_int_equal(ota_rmsnorm(token[0], 1, WIDTH,
                                     &(ota_norm){.gamma = g, .epsilon = epsilon}, y, &rho, NULL,
                                     NULL),
                         OTA_OK);
        assert_int_equal(ota_layernorm(token[0], 1, 2 * WIDTH,
                                       &(ota_norm){.gamma = g, .epsilon = epsilon}, both, &sigma,
                                       NULL, NULL),
                         OTA_OK);
        spec_check("", off(rho, sigma), 1e-14);
        for (int f = 0; f < WIDTH; f++) spec_check("", fabs(y[f] - both[f]), 1e-14);
        ota_change change, wanted;
        assert_int_equal(ota_rmsnorm_change(token[0], token[1], WIDTH,
                                            &(ota_norm){.gamma = g, .epsilon = epsilon}, &change,
                                            NULL, NULL),
                         OTA_OK);
        assert_int_equal(ota_layernorm_change(token[0], token[1], 2 * WIDTH,
                                              &(ota_norm){.gamma = g, .epsilon = epsilon},
                                              workspace, &wanted, NULL, NULL),
                         OTA_OK);
        spec_check("", off(change.measured * sqrt(2.0), wanted.measured), 1e-13);
        spec_check("", off(change.printed_ratio, wanted.printed_ratio), 1e-13);
        spec_check("", off(change.sharp_ratio, wanted.sharp_ratio), 1e-13);
        ota_layernorm_spectrum spectrum;
        assert_int_equal(ota_rmsnorm_geometry(token[0], WIDTH,
                                              &(ota_norm){.gamma = g, .epsilon = epsilon},
                                              &spectrum, NULL, NULL),
                         OTA_OK);
        for (int i = 0; i < WIDTH; i++)
            for (int k = 0; k < WIDTH; k++)
                jacobian[i * WIDTH + k] = (g == NULL ? 1.0 : g[i]) *
                                          ((i == k ? 1.0 : 0.0) - token[0][i] * token[0][k] /
                                                                      (rho * rho * (double)WIDTH)) /
                                          rho;
        spec_check("", off(spectrum.exact, spectral(jacobian, WIDTH, WIDTH, WIDTH)), 1e-8);
        double along = 0.0;
        for (int k = 0; k < WIDTH; k++)
            along += jacobian[k] / (g == NULL ? 1.0 : g[0]) * token[0][k];
        spec_check("", off(spectrum.parallel, along / token[0][0]), 1e-9);
        assert_int_equal(spectrum.perpendicular_count, WIDTH - 1);
        spec_check("", off(spectrum.perpendicular, 1.0 / rho), 1e-14);
        spec_check("", spectrum.exact / spectrum.printed, 1.0 + 1e-12);
    }
}

/* ---- what calls may touch, and what they refuse ---------------------------------------------- */

enum { GUARDS = 64 };

/* A workspace of exactly `count` doubles before and behind numbers that no call may change. */
static double *guarded(int64_t count) {
    double *const memory = malloc((size_t)(count + 2 * GUARDS) * sizeof *memory);
    assert_non_null(memory);
    assert_true(count > 0);
    for (int64_t k = 0; k < count + 2 * GUARDS; k++) memory[k] = NAN;
    for (int64_t k = 0; k < GUARDS; k++)
        memory[k] = memory[GUARDS + count + k] = 4711.0 + (double)k;
    return memory + GUARDS;
}

static void release(double *workspace, int64_t count) {
    double *const memory = workspace - GUARDS;
    for (int64_t k = 0; k < GUARDS; k++) {
        assert_true(memory[k] == 4711.0 + (double)k);
        assert_true(memory[GUARDS + count + k] == 4711.0 + (double)k);
    }
    free(memory);
}

/* Wide tokens and narrow heads, more tokens than numbers in each, more values than queries: every shape has one part
 * of the workspace that is its largest. Results are those of all other sizes of room. */
static void workspaces_are_kept_to(void **unused) {
    (void)unused;
    static const struct {
        int tokens, width, heads, head, value;
    } shapes[] = {{2, 6, 1, 1, 1}, {7, 1, 1, 1, 1}, {7, 2, 3, 1, 2}, {3, 2, 1, 2, 6},
                  {1, 6, 3, 2, 1}, {5, 3, 2, 3, 1}, {1, 1, 1, 1, 1}};
    uint64_t state = 3;
    for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
        setting s;
        draw(&state, methods[n % 3], 0, &s);
        const int tokens = shapes[n].tokens, width = shapes[n].width;
        s.layer.width = width;
        s.layer.heads = shapes[n].heads;
        s.layer.head_width = shapes[n].head;
        s.layer.value_width = shapes[n].value;
        const ota_norm norm = {s.gamma, s.beta, 1e-3};
        const int64_t count = ota_attention_workspace(&s.layer, tokens, tokens);
        double *workspace = guarded(count);
        double out[MOST * WIDTH], y[TWO][MOST * WIDTH], plan[HEADS * MOST * MOST];
        for (int at = 0; at < MOST * WIDTH; at++) out[at] = y[0][at] = y[1][at] = 4711.0;
        const ota_attention_outputs outputs = {.size = sizeof outputs, .out = out};
        assert_int_equal(ota_attention_forward(
                             &s.layer,
                             &(ota_attention_input){.queries = tokens, .keys = tokens, .x = s.x[0]},
                             &outputs, workspace, NULL, NULL),
                         OTA_OK);
        ota_attention_means means;
        assert_int_equal(
            ota_attention_mean_change(&s.layer, s.x[0], tokens, workspace, &means, NULL), OTA_OK);
        for (int k = 0; k < TWO; k++)
            assert_int_equal(
                ota_attention_block(
                    &(ota_residual_block){.layer = &s.layer, .norm = &norm, .alpha = 0.5}, s.x[k],
                    tokens, y[k], workspace, NULL, NULL),
                OTA_OK);
        release(workspace, count);
        for (int at = tokens * width; at < MOST * WIDTH; at++)
            assert_true(out[at] == 4711.0 && y[0][at] == 4711.0 && y[1][at] == 4711.0);
        /* mean(Y) - mean(X), and of columns of the plan 1. */
        double input = 0.0, receiver = 0.0;
        for (int f = 0; f < width; f++) {
            double mean = 0.0;
            for (int i = 0; i < tokens; i++)
                mean += (out[i * width + f] - s.x[0][i * width + f]) / tokens;
            input = fmax(input, fabs(mean));
        }
        spec_check("CETA-30", fabs(means.input_change - input), 1e-14 * (1.0 + input));
        const int64_t larger = ota_attention_change_workspace(&s.layer, tokens, tokens);
        workspace = guarded(larger);
        const ota_attention_outputs weights = {.size = sizeof weights, .coupling = plan};
        assert_int_equal(ota_attention_forward(
                             &s.layer,
                             &(ota_attention_input){.queries = tokens, .keys = tokens, .x = s.x[0]},
                             &weights, workspace, NULL, NULL),
                         OTA_OK);
        for (int h = 0; h < shapes[n].heads; h++) {
            for (int j = 0; j < tokens; j++) {
                double sum = 0.0;
                for (int i = 0; i < tokens; i++) sum += plan[(h * tokens + i) * tokens + j];
                receiver = fmax(receiver, fabs(sum - 1.0));
            }
        }
        spec_check("CETA-30", fabs(means.receiver_error - receiver), 1e-14 * tokens);
        ota_change change, block[TWO];
        assert_int_equal(ota_attention_change(
                             &s.layer,
                             &(ota_attention_input){.queries = tokens, .keys = tokens, .x = s.x[0]},
                             &(ota_attention_input){.queries = tokens, .keys = tokens, .x = s.x[1]},
                             workspace, &change, NULL, NULL),
                         OTA_OK);
        /* What the workspace held before has no say, and the distance is that of the two blocks. */
        for (int k = 0; k < TWO; k++) {
            assert_int_equal(
                ota_block_change(
                    &(ota_residual_block){.layer = &s.layer, .norm = &norm, .alpha = 0.5}, s.x[0],
                    s.x[1], tokens, workspace, &block[k], NULL),
                OTA_OK);
            for (int64_t at = 0; at < larger; at++) workspace[at] = -1e300;
        }
        assert_memory_equal(&block[0], &block[1], sizeof block[0]);
        double measured = 0.0;
        for (int i = 0; i < tokens; i++)
            measured = fmax(measured, apart(y[0] + i * width, y[1] + i * width, width));
        spec_check("TOT-60", fabs(block[0].measured - measured), 1e-11);
        spec_check("TOT-60", block[0].sharp_ratio, 1.0);
        release(workspace, larger);
    }
}

/* Leaves bytes on the stack that are neither 0 nor numbers. */
__attribute__((noinline)) static void dirty_stack(void) {
    volatile unsigned char room[1 << 15];
    for (size_t k = 0; k < sizeof room; k++) room[k] = 0x5a;
}

/* Methods with bounds and methods without, in turns: nothing is left over from a call before. */
static void every_call_looks_at_its_own_method(void **unused) {
    (void)unused;
    static const char *const unproven[] = {"softmax/capped:2", "softmax/elastic:0.5,3",
                                           "softmax/prefix",   "softmax/online:2",
                                           "entmax:1.5",       "hard"};
    uint64_t state = 4;
    for (size_t n = 0; n < 2 * sizeof unproven / sizeof unproven[0]; n++) {
        setting s;
        draw(&state, n % 2 == 0 ? methods[n / 2 % 3] : unproven[n / 2], 0, &s);
        double *const workspace = poisoned(&s);
        ota_change change;
        ota_error error = {.field = ""};
        dirty_stack();
        assert_int_equal(ota_block_change(&(ota_residual_block){.layer = &s.layer, .alpha = 1.0},
                                          s.x[0], s.x[1], MOST, workspace, &change, &error),
                         n % 2 == 0 ? OTA_OK : OTA_UNSUPPORTED);
        assert_string_equal(error.field, n % 2 == 0 ? "" : "method");
        free(workspace);
    }
}

/* A refusal names what it is about. */
static void refusals(void **unused) {
    (void)unused;
    uint64_t state = 5;
    setting s;
    draw(&state, "softmax", 0, &s);
    double *const workspace = poisoned(&s);
    ota_change change;
    ota_error error;
    static const struct {
        const char *field;
        ota_problem method;
    } table[] = {
        {"method", {.rows = OTA_ROWS_RELAXED, .row_strength = 1.0}},
        {"method", {.axis = OTA_AXIS_COLUMNS}},
        {"method", {.columns = OTA_COLUMNS_EXACT, .end = OTA_SIDE_COLUMNS}},
    };
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        s.method = table[k].method;
        s.method.size = sizeof s.method;
        assert_int_equal(ota_block_change(&(ota_residual_block){.layer = &s.layer, .alpha = 1.0},
                                          s.x[0], s.x[1], MOST, workspace, &change, &error),
                         OTA_UNSUPPORTED);
        assert_string_equal(error.field, table[k].field);
    }
    double ones[MOST];
    for (int i = 0; i < MOST; i++) ones[i] = 1.0;
    s.method = (ota_problem){.size = sizeof s.method,
                             .row_mass = ota_array_of(ones, OTA_F64, 1, 1, 1, MOST)};
    assert_int_equal(ota_block_change(&(ota_residual_block){.layer = &s.layer, .alpha = 1.0},
                                      s.x[0], s.x[1], MOST, workspace, &change, &error),
                     OTA_UNSUPPORTED);
    const ota_term cap = {.kind = OTA_TERM_SOFTCAP, .value = 5.0};
    s.method = (ota_problem){.size = sizeof s.method, .terms = &cap, .term_count = 1};
    assert_int_equal(ota_block_change(&(ota_residual_block){.layer = &s.layer, .alpha = 1.0},
                                      s.x[0], s.x[1], MOST, workspace, &change, &error),
                     OTA_UNSUPPORTED);
    s.method = (ota_problem){.size = sizeof s.method};
    assert_int_equal(ota_block_change(&(ota_residual_block){.layer = &s.layer, .alpha = NAN},
                                      s.x[0], s.x[1], MOST, workspace, &change, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "alpha");
    s.x[1][MOST * WIDTH - 1] = NAN;
    assert_int_equal(ota_block_change(&(ota_residual_block){.layer = &s.layer, .alpha = 1.0},
                                      s.x[0], s.x[1], MOST, workspace, &change, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "x2");
    assert_int_equal(
        ota_attention_change(
            &s.layer,
            &(ota_attention_input){.queries = MOST, .keys = MOST, .x = s.x[0], .context = s.x[0]},
            &(ota_attention_input){.queries = MOST, .keys = MOST, .x = s.x[0], .context = s.x[1]},
            workspace, &change, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "context2");
    assert_int_equal(
        ota_attention_change(&s.layer,
                             &(ota_attention_input){.queries = MOST, .keys = MOST - 1, .x = s.x[0]},
                             &(ota_attention_input){.queries = MOST, .keys = MOST - 1, .x = s.x[0]},
                             workspace, &change, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "context");
    assert_int_equal(
        ota_attention_change(&s.layer,
                             &(ota_attention_input){.queries = MOST, .keys = MOST, .x = s.x[0]},
                             &(ota_attention_input){.queries = MOST, .keys = MOST - 1, .x = s.x[0]},
                             workspace, &change, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "after");
    const ota_projected none = {.x = s.x[0]};
    assert_int_equal(
        ota_projected_change(&s.layer, &none, &none, MOST, workspace, &change, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "q");
    const ota_residual sizeless = {.rms = 1};
    assert_int_equal(ota_projected_block_change(&s.layer, &sizeless, &none, &none, MOST, workspace,
                                                &change, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "residual");
    assert_int_equal(
        ota_rmsnorm(s.x[0], 1, WIDTH, &(ota_norm){.gamma = NULL}, s.x[1], NULL, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "epsilon");
    free(workspace);
}

TEST_FILE(test_change) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_has_the_bounds_of_the_formula),
        cmocka_unit_test(a_block_has_the_bounds_of_the_formula),
        cmocka_unit_test(a_layer_as_it_ran_has_the_same_bounds),
        cmocka_unit_test(norms_before_and_behind_attention),
        cmocka_unit_test(norms_of_heads_and_outputs),
        cmocka_unit_test(masked_keys_are_left_out_of_ranges),
        cmocka_unit_test(the_norm_without_a_mean),
        cmocka_unit_test(workspaces_are_kept_to),
        cmocka_unit_test(every_call_looks_at_its_own_method),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
