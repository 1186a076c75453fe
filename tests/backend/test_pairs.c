/* test_pairs.c: bf16 multiplied as bf16. The kernels for pairs, the portable one and this processor's, against
 * plain long double loops on ragged blocks in guarded memory; then whole solves: error against plain attention
 * in bf16, heads whose numbers are too small for such products, NaN, threads, workspace. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/pack.h"
#include "base/base.h"
#include "base/half.h"
#include "groups.h"
#include "problems.h"
#include "spec.h"
#include "tolerance.h"

static const double per_nat = 1.4426950408889634;

/* ---- the kernels ------------------------------------------------------------------------------- */

typedef struct kernel_trial {
    lender memory;
    dice d;
    int64_t n, m, width, values_width;
    int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
    ota_array queries, keys, values, upstream;
    ota_kernels_bf16_attend forward;
    ota_kernels_bf16_gradient backward;
    float *shift, *advantage, *grads[3], before;
    double scale;
} kernel_trial;

static float *floats(kernel_trial *t, int64_t count) {
    return lend(&t->memory, (size_t)count * sizeof(float), false);
}

static uint32_t *pairs(kernel_trial *t, int64_t count) {
    return lend(&t->memory, (size_t)count * sizeof(uint32_t), false);
}

static ota_array drawn_array(kernel_trial *t, int64_t rows, int64_t columns, layout how) {
    ota_array a = strided(&t->memory, OTA_BF16, 1, 1, rows, columns, how, false);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) ota_array_set(&a, 0, 0, i, j, normal(&t->d));
    }
    return a;
}

static int64_t half_of(int64_t count) { return (count + 1) / 2; }

static uint32_t *panels_of(kernel_trial *t, const ota_array *a) {
    uint32_t *to = pairs(t, ota_packed_length(a->size[2], half_of(a->size[3])));
    ota_pairs_keys(a, 0, 0, a->size[2], to);
    return to;
}

static uint32_t *pairs_of_rows(kernel_trial *t, const ota_array *a) {
    uint32_t *to = pairs(t, a->size[2] * half_of(a->size[3]));
    ota_pairs_of_rows(a, 0, 0, 0, a->size[2], to);
    return to;
}

static uint32_t *across(kernel_trial *t, const ota_array *a) {
    uint32_t *to = pairs(t, half_of(a->size[2]) * a->size[3]);
    ota_pairs_across(a, 0, 0, 0, a->size[2], to);
    return to;
}

static void draw_ranges(kernel_trial *t, int kind) {
    for (int64_t r = 0; r < t->n; r++) {
        t->begin[r] = 0, t->end[r] = t->m;
        if (kind == 1) t->end[r] = r + 1 < t->m ? r + 1 : t->m;
        if (kind == 2) t->begin[r] = below(&t->d, t->m), t->end[r] = t->begin[r] + below(&t->d, 20);
        if (kind == 3) t->begin[r] = t->m / 2, t->end[r] = r % 3 == 0 ? t->m / 2 : t->m;
        if (t->end[r] > t->m) t->end[r] = t->m;
    }
}

static void shut_some(void *context, int64_t row, int64_t first, int64_t last, float *x) {
    const float scale = *(const float *)context;
    for (int64_t j = first; j < last; j++)
        x[j - first] =
            scale * x[j - first] + (float)((row + j) % 3) - (j % 11 == 5 ? (float)INFINITY : 0.0f);
}

static void begin_trial(kernel_trial *t, int k, int64_t most_keys) {
    static const int64_t rows_of[] = {48, 1, 5, 6, 7, 13, 47, 2};
    static const int64_t keys_of[] = {128, 1, 64, 17, 127, 65, 2, 33, 1100, 300};
    static const int64_t widths[] = {64, 1, 16, 3, 65, 80, 33, 130};
    static const layout layouts[] = {DENSE, TRANSPOSED, BACKWARDS, SLICED};
    memset(t, 0, sizeof *t);
    t->d = (uint64_t)k * 31 + 7;
    t->n = rows_of[k % 8];
    t->m = keys_of[k % 10] < most_keys ? keys_of[k % 10] : most_keys;
    t->width = widths[(k / 2) % 8];
    t->values_width = widths[(k / 3) % 8];
    t->scale = (k % 7 == 6 ? -1.0 : 1.0) / sqrt((double)t->width);
    t->queries = drawn_array(t, t->n, t->width, layouts[k % 4]);
    t->keys = drawn_array(t, t->m, t->width, layouts[k / 4 % 4]);
    t->values = drawn_array(t, t->m, t->values_width, layouts[k / 2 % 4]);
    t->upstream = drawn_array(t, t->n, t->values_width, layouts[k / 3 % 4]);
    draw_ranges(t, k % 4);
}

/* S of a pair in units of S, -inf where it has no weight, and the size of its terms. */
static long double score_of(const kernel_trial *t, const ota_kernels_f32_attend *b, int64_t r,
                            int64_t j, long double *size) {
    long double dot = 0, terms = 0;
    if (j < t->begin[r] || j >= t->end[r]) return -INFINITY;
    for (int64_t w = 0; w < t->width; w++) {
        const long double x = (long double)ota_array_get(&t->queries, 0, 0, r, w) *
                              ota_array_get(&t->keys, 0, 0, j, w);
        dot += x;
        terms += fabsl(x);
    }
    *size = fabsl((long double)b->scale) * terms;
    long double score = b->scale * dot;
    if (b->key_bias != NULL) score += b->key_bias[j], *size += fabsl((long double)b->key_bias[j]);
    if (b->terms == NULL) return score;
    *size += (r + j) % 3;
    return j % 11 == 5 ? -INFINITY : score + (r + j) % 3;
}

static void judge_forward_row(const kernel_trial *t, int64_t r, double *worst) {
    const ota_kernels_f32_attend *b = &t->forward.block;
    const long double u = unit_roundoff(OTA_F32), rough = unit_roundoff(OTA_BF16);
    long double top = b->sink, size = 0, sum = 0, *p = calloc((size_t)t->m, sizeof *p);
    assert_non_null(p);
    for (int64_t j = 0; j < t->m; j++) {
        long double own = 0;
        p[j] = score_of(t, b, r, j, &own);
        top = fmaxl(top, p[j]);
        size = fmaxl(size, own);
    }
    bool empty = true;
    for (int64_t j = 0; j < t->m; j++) empty &= isinf(p[j]) != 0;
    for (int64_t j = 0; j < t->m; j++) sum += p[j] = expl(p[j] - top);
    if (!isinf(b->sink)) sum += expl((long double)b->sink - top);
    const long double bound = u * product_growth((double)size);
    const double lse = log((double)b->row_sum[r]) + (double)b->row_max[r];
    if (!empty) *worst = fmax(*worst, fabs((double)((lse - top - logl(sum)) / bound)));
    for (int64_t w = 0; w < t->values_width; w++) {
        long double exact = 0, absolute = 0, all = 0;
        for (int64_t j = 0; j < t->m && !empty; j++) {
            const long double v = ota_array_get(&t->values, 0, 0, j, w);
            exact += p[j] / sum * v;
            absolute += p[j] / sum * fabsl(v);
            all += fabsl(v);
        }
        const long double allowed =
            bound * absolute + rough * (absolute + fabsl(exact)) + FLT_MIN * all;
        const double away = (double)fabsl(b->out[r * t->values_width + w] - exact);
        *worst = fmax(*worst, isnan(away) ? INFINITY : allowed > 0 ? away / (double)allowed : away);
    }
    free(p);
}

static void run_forward_trial(const ota_kernels_bf16 *level, int k, double *worst) {
    kernel_trial t;
    begin_trial(&t, k, 1100);
    ota_kernels_f32_attend *b = &t.forward.block;
    const int64_t scratch = (ota_attend_scratch(t.values_width) + OTA_PAIRS_ATTEND + 15) / 16 * 16;
    float factor = (float)t.scale;
    *b = (ota_kernels_f32_attend){.rows = t.n,
                                  .width = t.width,
                                  .values_width = t.values_width,
                                  .begin = t.begin,
                                  .end = t.end,
                                  .scale = factor,
                                  .c = (float)per_nat,
                                  .sink = k % 6 == 5 ? 0.5f : -INFINITY,
                                  .out = floats(&t, t.n * t.values_width),
                                  .row_max = floats(&t, t.n),
                                  .row_sum = floats(&t, t.n),
                                  .scratch = floats(&t, scratch)};
    float *bias = floats(&t, t.m);
    for (int64_t j = 0; j < t.m; j++) bias[j] = (float)normal(&t.d);
    if (k % 5 == 1) b->key_bias = bias;
    if (k % 5 == 2) b->terms = shut_some, b->terms_context = &factor;
    t.forward.queries = pairs_of_rows(&t, &t.queries);
    t.forward.packed_keys = panels_of(&t, &t.keys);
    t.forward.values = across(&t, &t.values);
    level->attend(&t.forward);
    for (int64_t r = 0; r < t.n; r++) judge_forward_row(&t, r, worst);
    take_back(&t.memory);
}

static const ota_kernels_bf16 *const *all_levels(void) {
    static const ota_kernels_bf16 *levels[5];
    int count = 0;
    levels[count++] = &ota_portable_bf16;
    levels[count++] = &ota_portable_tiles;
#if defined(__x86_64__)
    if ((ota_cpu_features() & OTA_CPU_BF16) != 0) levels[count++] = &ota_avx512bf16_bf16;
    if ((ota_cpu_features() & OTA_CPU_AMX) != 0) levels[count++] = &ota_amx_bf16;
#endif
    return levels;
}

static void test_forward_kernel(void **state) {
    (void)state;
    double worst = 0.0;
    for (const ota_kernels_bf16 *const *level = all_levels(); *level != NULL; level++) {
        for (int k = 0; k < 80; k++) run_forward_trial(*level, k, &worst);
    }
    print_message("worst %.2g of the bound\n", worst);
    spec_check("LIT-15 TOT-01", worst, 1.0);
}

/* One output of the gradient, with the sum of absolute terms; the rest of its row of indices is in `exact`. */
static void judge_gradient(const kernel_trial *t, double *worst) {
    const ota_kernels_f32_gradient *b = &t->backward.block;
    const ota_kernels_f32_attend view = {.scale = b->scale};
    const int64_t lengths[3] = {t->n * t->width, t->m * t->width, t->m * t->values_width};
    double *exact[3], *slack[3];
    for (int q = 0; q < 3; q++) {
        exact[q] = calloc((size_t)lengths[q], sizeof(double));
        slack[q] = calloc((size_t)lengths[q], sizeof(double));
        assert_non_null(exact[q]);
        assert_non_null(slack[q]);
    }
    for (int64_t r = 0; r < t->n; r++) {
        for (int64_t j = 0; j < t->m; j++) {
            long double size = 0, u = 0, u_size = 0;
            const long double s = score_of(t, &view, r, j, &size);
            if (isinf(s)) continue;
            const double p = (double)expl(s - b->shift[r]);
            for (int64_t w = 0; w < t->values_width; w++) {
                const double g = ota_array_get(&t->upstream, 0, 0, r, w);
                const double v = ota_array_get(&t->values, 0, 0, j, w);
                u += g * v;
                u_size += fabs(g * v);
            }
            const double ds = p * (double)(u - b->advantage[r]);
            const double fine =
                unit_roundoff(OTA_F32) * gradient_growth((double)size + fabs((double)b->shift[r]));
            const double rough = unit_roundoff(OTA_BF16);
            const double ds_slack =
                p * (double)(u_size + fabsf(b->advantage[r])) * fine + rough * fabs(ds);
            for (int64_t w = 0; w < t->width; w++) {
                const double key = ota_array_get(&t->keys, 0, 0, j, w);
                const double query = ota_array_get(&t->queries, 0, 0, r, w);
                exact[0][r * t->width + w] += ds * key;
                slack[0][r * t->width + w] += ds_slack * fabs(key);
                exact[1][j * t->width + w] += ds * query;
                slack[1][j * t->width + w] += ds_slack * fabs(query);
            }
            for (int64_t w = 0; w < t->values_width; w++) {
                const double g = ota_array_get(&t->upstream, 0, 0, r, w);
                exact[2][j * t->values_width + w] += p * g;
                slack[2][j * t->values_width + w] += p * (fine + rough) * fabs(g);
            }
        }
    }
    for (int q = 0; q < 3; q++) {
        for (int64_t k = 0; k < lengths[q]; k++) {
            const double away = fabs((double)t->grads[q][k] - (double)t->before - exact[q][k]);
            const double allowed = slack[q][k] + 64.0 * unit_roundoff(OTA_F32);
            *worst = fmax(*worst, isnan(away) ? INFINITY : away / allowed);
        }
        free(exact[q]);
        free(slack[q]);
    }
}

static void run_gradient_trial(const ota_kernels_bf16 *level, int k, double *worst) {
    kernel_trial t;
    begin_trial(&t, k, OTA_KEY_TILE);
    ota_kernels_f32_gradient *b = &t.backward.block;
    const int64_t lengths[3] = {t.n * t.width, t.m * t.width, t.m * t.values_width};
    t.shift = floats(&t, t.n);
    t.advantage = floats(&t, t.n);
    for (int64_t r = 0; r < t.n; r++) {
        t.shift[r] = (float)(4.0 + fabs(normal(&t.d)));
        t.advantage[r] = (float)normal(&t.d);
    }
    t.before = 0.5f;
    for (int q = 0; q < 3; q++) {
        t.grads[q] = floats(&t, lengths[q]);
        for (int64_t i = 0; i < lengths[q]; i++) t.grads[q][i] = t.before;
    }
    *b = (ota_kernels_f32_gradient){.rows = t.n,
                                    .key_count = t.m,
                                    .width = t.width,
                                    .values_width = t.values_width,
                                    .begin = t.begin,
                                    .end = t.end,
                                    .scale = (float)t.scale,
                                    .c = (float)per_nat,
                                    .shift = t.shift,
                                    .advantage = t.advantage,
                                    .queries_grad = t.grads[0],
                                    .keys_grad = t.grads[1],
                                    .values_grad = t.grads[2]};
    b->scratch = floats(&t, OTA_GRADIENT_SCRATCH + OTA_PAIRS_GRADIENT);
    t.backward.queries = pairs_of_rows(&t, &t.queries);
    t.backward.upstream = pairs_of_rows(&t, &t.upstream);
    t.backward.packed_keys = panels_of(&t, &t.keys);
    t.backward.packed_values = panels_of(&t, &t.values);
    t.backward.queries_right = across(&t, &t.queries);
    t.backward.upstream_right = across(&t, &t.upstream);
    t.backward.keys_right = across(&t, &t.keys);
    level->gradient(&t.backward);
    judge_gradient(&t, worst);
    take_back(&t.memory);
}

static void test_gradient_kernel(void **state) {
    (void)state;
    double worst = 0.0;
    for (const ota_kernels_bf16 *const *level = all_levels(); *level != NULL; level++) {
        for (int k = 0; k < 60; k++) run_gradient_trial(*level, k, &worst);
    }
    print_message("worst %.2g of the bound\n", worst);
    spec_check("LIT-17 LIT-21", worst, 1.0);
}

/* ---- whole solves ------------------------------------------------------------------------------- */

enum { N = 200, M = 330, WIDTH = 64 };

typedef struct solve_trial {
    uint16_t queries[N * WIDTH], keys[M * WIDTH], values[M * WIDTH], out[N * WIDTH];
    float lse[N];
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_result result;
    ota_error error;
} solve_trial;

static solve_trial *new_solve(uint64_t seed, double spread) {
    solve_trial *t = calloc(1, sizeof *t);
    dice d = seed;
    assert_non_null(t);
    for (int k = 0; k < N * WIDTH; k++) t->queries[k] = ota_bf16_from_f64(spread * normal(&d));
    for (int k = 0; k < M * WIDTH; k++) {
        t->keys[k] = ota_bf16_from_f64(normal(&d));
        t->values[k] = ota_bf16_from_f64(normal(&d));
    }
    t->problem.size = sizeof t->problem;
    t->options.size = sizeof t->options;
    t->options.threads = 1;
    t->arrays.size = sizeof t->arrays;
    t->result.size = sizeof t->result;
    t->problem.queries = ota_array_of(t->queries, OTA_BF16, 1, 1, N, WIDTH);
    t->problem.keys = ota_array_of(t->keys, OTA_BF16, 1, 1, M, WIDTH);
    t->arrays.values = ota_array_of(t->values, OTA_BF16, 1, 1, M, WIDTH);
    t->arrays.out = ota_array_of(t->out, OTA_BF16, 1, 1, N, WIDTH);
    t->arrays.lse = ota_array_of(t->lse, OTA_F32, 1, 1, 1, N);
    return t;
}

static void attend(solve_trial *t) {
    const ota_status status =
        ota_attend(&t->problem, &t->options, &t->arrays, &t->result, &t->error);
    if (status < OTA_OK) print_error("%s\n", t->error.message);
    assert_true(status >= OTA_OK);
}

static double wide(uint16_t half) { return (double)ota_f32_from_bf16(half); }
static double narrowed(double x) { return wide(ota_bf16_from_f64(x)); }

/* Exact output of a row and what plain bf16 makes of it: scores, weights and output are rounded. */
static void plain_row(const solve_trial *t, int64_t i, double *exact, double *rough) {
    double s[M], sums[2] = {0, 0}, tops[2] = {-INFINITY, -INFINITY};
    for (int64_t j = 0; j < M; j++) {
        s[j] = 0.0;
        for (int64_t w = 0; w < WIDTH; w++)
            s[j] += wide(t->queries[i * WIDTH + w]) * wide(t->keys[j * WIDTH + w]);
        s[j] /= sqrt(WIDTH);
        tops[0] = fmax(tops[0], s[j]);
        tops[1] = fmax(tops[1], narrowed(s[j]));
    }
    for (int64_t j = 0; j < M; j++) {
        sums[0] += exp(s[j] - tops[0]);
        sums[1] += exp(narrowed(s[j]) - tops[1]);
    }
    memset(exact, 0, WIDTH * sizeof *exact);
    memset(rough, 0, WIDTH * sizeof *rough);
    for (int64_t j = 0; j < M; j++) {
        const double p = exp(s[j] - tops[0]) / sums[0];
        const double q = narrowed(exp(narrowed(s[j]) - tops[1]) / sums[1]);
        for (int64_t w = 0; w < WIDTH; w++) {
            exact[w] += p * wide(t->values[j * WIDTH + w]);
            rough[w] += q * wide(t->values[j * WIDTH + w]);
        }
    }
    for (int64_t w = 0; w < WIDTH; w++) rough[w] = narrowed(rough[w]);
}

/* Numeric policy 3.2: at most 1.5 times the error of plain attention in bf16, and one step of the output. */
static void test_error_beside_plain(void **state) {
    (void)state;
    static const double spreads[] = {1.0, 6.0};
    double worst = 0.0;
    for (int k = 0; k < 2; k++) {
        solve_trial *t = new_solve(5 + (uint64_t)k, spreads[k]);
        double own = 0.0, plain = 0.0, largest = 0.0;
        attend(t);
        for (int64_t i = 0; i < N; i++) {
            double exact[WIDTH], rough[WIDTH];
            plain_row(t, i, exact, rough);
            for (int64_t w = 0; w < WIDTH; w++) {
                own = fmax(own, fabs(wide(t->out[i * WIDTH + w]) - exact[w]));
                plain = fmax(plain, fabs(rough[w] - exact[w]));
                largest = fmax(largest, fabs(exact[w]));
            }
        }
        print_message("spread %g: error %.2g, plain bf16 %.2g\n", spreads[k], own, plain);
        worst = fmax(worst, own / (1.5 * plain + 2.0 * storing(OTA_BF16, largest)));
        free(t);
    }
    spec_check("LIT-15", worst, 1.0);
}

/* At every place of every layout: 0 and what is at least 2^-50 are held, less is not, and neither infinity nor NaN where
 * finite numbers are asked for. */
static void test_held_numbers(void **state) {
    static const struct {
        uint16_t bits;
        bool held, held_finite;
    } numbers[] = {{0x0000, true, true},   {0x8000, true, true},   {0x2680, true, true},
                   {0xa680, true, true},   {0x267f, false, false}, {0xa67f, false, false},
                   {0x0001, false, false}, {0x7f7f, true, true},   {0xff7f, true, true},
                   {0x7f80, true, false},  {0xff80, true, false},  {0x7fff, true, false}};
    static const layout layouts[] = {DENSE, TRANSPOSED, BACKWARDS, SLICED};
    enum { COLUMNS = 5 };
    kernel_trial t = {.d = 1};
    (void)state;
    for (int k = 0; k < 8; k++) {
        const int64_t rows = k < 4 ? 3 : 1;
        ota_array a = strided(&t.memory, OTA_BF16, 1, 1, rows, COLUMNS, layouts[k % 4], false);
        for (int64_t at = 0; at < rows * COLUMNS; at++)
            ota_array_set(&a, 0, 0, at / COLUMNS, at % COLUMNS, 1.0);
        for (int64_t at = 0; at < rows * COLUMNS; at++) {
            uint16_t *const place = (void *)ota_element_of(&a, 0, 0, at / COLUMNS, at % COLUMNS);
            for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
                *place = numbers[i].bits;
                assert_int_equal(ota_pairs_hold(&a, 0, 0, rows, false), numbers[i].held);
                assert_int_equal(ota_pairs_hold(&a, 0, 0, rows, true), numbers[i].held_finite);
            }
            *place = numbers[0].bits;
        }
    }
    take_back(&t.memory);
}

/* Scores of numbers whose bf16 products would be subnormal, and values that are: f32 carries them. */
static void test_small_numbers(void **state) {
    (void)state;
    solve_trial *t = new_solve(9, 1.0), *scaled = new_solve(9, 1.0);
    double worst = 0.0;
    for (int k = 0; k < N * WIDTH; k++)
        scaled->queries[k] = ota_bf16_from_f64(ldexp(wide(t->queries[k]), 100));
    for (int k = 0; k < M * WIDTH; k++)
        scaled->keys[k] = ota_bf16_from_f64(ldexp(wide(t->keys[k]), -100));
    attend(t);
    attend(scaled);
    for (int k = 0; k < N; k++) worst = fmax(worst, fabs((double)(t->lse[k] - scaled->lse[k])));
    spec_check("LIT-23", worst, unit_roundoff(OTA_F32) * product_growth(WIDTH));
    for (int64_t j = 1; j < M; j++) {
        for (int64_t w = 0; w < WIDTH; w++) t->values[j * WIDTH + w] = 0;
    }
    for (int64_t w = 0; w < WIDTH; w++) t->values[w] = (uint16_t)(w + 1);
    t->arrays.values.size[2] = 1, t->problem.keys.size[2] = 1;
    attend(t);
    worst = 0.0;
    for (int64_t k = 0; k < N * WIDTH; k++) worst += t->out[k] != t->values[k % WIDTH];
    spec_check("LIT-15", worst, 0.0);
    free(t);
    free(scaled);
}

static double different_bits(const solve_trial *a, const solve_trial *b) {
    return (double)(memcmp(a->out, b->out, sizeof a->out) != 0) +
           (double)(memcmp(a->lse, b->lse, sizeof a->lse) != 0);
}

/* Threads, statistics beside the output and contents of masked keys change no bit; a NaN reaches its rows. */
static void test_same_bits(void **state) {
    (void)state;
    solve_trial *t = new_solve(11, 1.0), *other = new_solve(11, 1.0);
    double *entropy = calloc(N, sizeof *entropy);
    assert_non_null(entropy);
    ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};
    t->problem.supports = other->problem.supports = &causal;
    t->problem.support_count = other->problem.support_count = 1;
    t->problem.corner = other->problem.corner = OTA_TOP_LEFT;
    attend(t);
    for (int threads = 2; threads <= 4; threads++) {
        other->options.threads = threads;
        attend(other);
        spec_check("TOT-111", different_bits(t, other), 0.0);
    }
    other->arrays.row_entropy = ota_array_of(entropy, OTA_F64, 1, 1, 1, N);
    attend(other);
    spec_check("", different_bits(t, other), 0.0);
    /* The last key is open to nobody. */
    other->keys[(M - 1) * WIDTH + 3] = 0x7fc0;
    other->values[(M - 1) * WIDTH + 3] = 0x7fc0;
    attend(other);
    spec_check("TOT-03", different_bits(t, other), 0.0);
    const int64_t row = N - 3, key = row;
    other->values[key * WIDTH + 5] = 0x7f80;
    attend(other);
    double wrong = 0.0;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t w = 0; w < WIDTH; w++)
            wrong += isnan(wide(other->out[i * WIDTH + w])) != (i >= row);
    }
    spec_check("TOT-03", wrong, 0.0);
    free(entropy);
    free(t);
    free(other);
}

static bool describes_pairs(const ota_plan *plan) {
    char text[2048];
    ota_plan_describe(plan, text, sizeof text);
    return strstr(text, "products of bf16") != NULL;
}

/* A limit without room for pairs is met without them. */
static void test_workspace(void **state) {
    (void)state;
    if ((ota_cpu_features() & OTA_CPU_BF16) == 0) skip_because("no fast products of bf16 here");
    solve_trial *t = new_solve(13, 1.0);
    ota_plan *plan = NULL;
    assert_int_equal(ota_plan_create(&plan, &t->problem, WIDTH, &t->options, &t->error), OTA_OK);
    assert_true(describes_pairs(plan));
    const size_t bytes = ota_plan_bytes(plan);
    ota_plan_free(plan);
    t->options.workspace_limit = bytes - (size_t)1024 * 16;
    assert_int_equal(ota_plan_create(&plan, &t->problem, WIDTH, &t->options, &t->error), OTA_OK);
    assert_false(describes_pairs(plan));
    spec_check("", (double)ota_plan_bytes(plan), (double)t->options.workspace_limit);
    assert_int_equal(ota_forward(plan, &t->arrays, &t->result, &t->error), OTA_OK);
    ota_plan_free(plan);
    free(t);
}

/* Two neighbours of a row, or of a column, are one word, 0 beyond the last, whatever the strides. */
static void test_words(void **state) {
    (void)state;
    enum { ROWS = 5, COLUMNS = 7 };
    static const int64_t strides[][2] = {{COLUMNS, 1},  {1, ROWS}, {-2 * COLUMNS, 2},
                                         {COLUMNS, -1}, {0, 1},    {1, 0}};
    uint16_t data[4 * ROWS * COLUMNS];
    uint32_t words[ROWS * COLUMNS];
    for (int k = 0; k < 4 * ROWS * COLUMNS; k++) data[k] = (uint16_t)(0x1234 + 97 * k);
    for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
        uint16_t *const first = data + 2 * ROWS * COLUMNS;
        const int64_t down = strides[k][0], right = strides[k][1];
        ota_array a = ota_array_of(first, OTA_BF16, 1, 1, ROWS, COLUMNS);
        a.stride[2] = down, a.stride[3] = right;
        ota_pairs_of_rows(&a, 0, 0, 0, ROWS, words);
        for (int64_t r = 0; r < ROWS; r++) {
            for (int64_t c = 0; c < COLUMNS; c += 2) {
                const uint16_t *at = first + r * down + c * right;
                const uint32_t next = c + 1 < COLUMNS ? at[right] : 0;
                assert_int_equal(words[r * half_of(COLUMNS) + c / 2], *at | next << 16);
            }
        }
        ota_pairs_across(&a, 0, 0, 0, ROWS, words);
        for (int64_t r = 0; r < ROWS; r += 2) {
            for (int64_t c = 0; c < COLUMNS; c++) {
                const uint16_t *at = first + r * down + c * right;
                const uint32_t next = r + 1 < ROWS ? at[down] : 0;
                assert_int_equal(words[r / 2 * COLUMNS + c], *at | next << 16);
            }
        }
    }
}

TEST_FILE(test_pairs) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),           cmocka_unit_test(test_forward_kernel),
        cmocka_unit_test(test_gradient_kernel), cmocka_unit_test(test_error_beside_plain),
        cmocka_unit_test(test_held_numbers),    cmocka_unit_test(test_small_numbers),
        cmocka_unit_test(test_same_bits),       cmocka_unit_test(test_workspace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
