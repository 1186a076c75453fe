/* A round on a kernel of two bytes an entry: what it costs beside f32 and beside reading the same bytes, and
 * what it leaves of a plan. AVX-512, one thread, processor time, best of many calls that take turns.
 *
 *     gcc -O3 -std=c11 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -ffp-contract=off -Iinclude -Isrc \
 *         -Isrc/backend/cpu -o build/halves_driver lab/halves_driver.c build/libotattn.a -lm -lpthread
 *     build/halves_driver time 512 1024 2048 4096
 *     build/halves_driver error 1024 .1          costs in the unit square at a temperature
 *
 * Stored as the top half of f32, cut or rounded (bf16), as f16, or as whole numbers up to 65535 (fixed point; the error part
 * takes 1 as 65535). */
#define _POSIX_C_SOURCE 200809L
#include <immintrin.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

enum { ROWS = 8, RUN = 128, SWEEP = 1024 };

typedef enum storage { F32, AHEAD, BF16, PAIRED, F16, FIXED, STORAGES } storage;
static const char *const names[] = {
    "f32", "f32, next rows fetched", "bf16", "bf16, halves of a word", "f16", "fixed point"};

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double uniform(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

/* ---- time ---- */

static inline __attribute__((always_inline)) __m512 entries(storage kind, const void *row,
                                                            int64_t j) {
    if (kind == F32 || kind == AHEAD) return _mm512_loadu_ps((const float *)row + j);
    const __m256i two =
        _mm256_loadu_si256((const __m256i *)(const void *)((const uint16_t *)row + j));
    if (kind == F16) return _mm512_cvtph_ps(two);
    const __m512i wide = _mm512_cvtepu16_epi32(two);
    if (kind == FIXED) return _mm512_cvtepi32_ps(wide);
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline void add_columns(double *to, __m512 x) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), low));
    _mm512_storeu_pd(to + 8, _mm512_add_pd(_mm512_loadu_pd(to + 8), high));
}

/* As linear_group of passes.inc.h. In halves of a word v and columns lie as the evens of 32 keys, then the odds. */
static inline __attribute__((always_inline)) void rows_of(storage kind, const char *kernel,
                                                          size_t row_bytes, int64_t n,
                                                          const float *v, double *column) {
    const __m512i top = _mm512_set1_epi32((int)0xffff0000u);
    double dot[ROWS] = {0};
    for (int64_t start = 0; start < n; start += SWEEP) {
        const int64_t end = start + SWEEP < n ? start + SWEEP : n;
        __m512 sum[ROWS], part[ROWS];
        for (int i = 0; i < ROWS; i++) sum[i] = _mm512_setzero_ps();
        for (int64_t run = start; run < end; run += RUN) {
            for (int i = 0; i < ROWS; i++) part[i] = _mm512_setzero_ps();
            for (int64_t j = run; j < run + RUN; j += kind == PAIRED ? 32 : 16) {
                const __m512 right = _mm512_loadu_ps(v + j);
                if (kind == PAIRED) {
                    const __m512 odd = _mm512_loadu_ps(v + j + 16);
#pragma GCC unroll 8
                    for (int i = 0; i < ROWS; i++) {
                        const __m512i x =
                            _mm512_loadu_si512(kernel + (size_t)i * row_bytes + 2 * (size_t)j);
                        part[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                                                  right, part[i]);
                        part[i] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, top)),
                                                  odd, part[i]);
                    }
                    continue;
                }
#pragma GCC unroll 8
                for (int i = 0; i < ROWS; i++)
                    part[i] = _mm512_fmadd_ps(entries(kind, kernel + (size_t)i * row_bytes, j),
                                              right, part[i]);
            }
            for (int i = 0; i < ROWS; i++) sum[i] = _mm512_add_ps(sum[i], part[i]);
        }
        for (int i = 0; i < ROWS; i++) dot[i] += (double)_mm512_reduce_add_ps(sum[i]);
    }
    __m512 left[ROWS];
    for (int i = 0; i < ROWS; i++) left[i] = _mm512_set1_ps((float)(1.0 / dot[i]));
    for (int64_t j = 0; j < n; j += kind == PAIRED ? 32 : 16) {
        __m512 part = _mm512_setzero_ps(), odd = part;
        if (kind == PAIRED) {
#pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++) {
                const __m512i x =
                    _mm512_loadu_si512(kernel + (size_t)i * row_bytes + 2 * (size_t)j);
                part =
                    _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)), left[i], part);
                odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, top)), left[i], odd);
            }
            add_columns(column + j + 16, odd);
        } else {
#pragma GCC unroll 8
            for (int i = 0; i < ROWS; i++) {
                part = _mm512_fmadd_ps(entries(kind, kernel + (size_t)i * row_bytes, j), left[i],
                                       part);
                if (kind == AHEAD)
                    _mm_prefetch(kernel + (size_t)(i + ROWS) * row_bytes + 4 * (size_t)j,
                                 _MM_HINT_T1);
            }
        }
        add_columns(column + j, part);
    }
}

static inline __attribute__((always_inline)) void round_of(storage kind, const char *kernel,
                                                           int64_t n, const float *v,
                                                           double *column) {
    const size_t row_bytes = (size_t)n * (kind == F32 || kind == AHEAD ? 4 : 2);
    for (int64_t i = 0; i < n; i += ROWS)
        rows_of(kind, kernel + (size_t)i * row_bytes, row_bytes, n, v, column);
}

static void turn(storage kind, const char *kernel, int64_t n, const float *v, double *column) {
    switch (kind) {
    case F32: round_of(F32, kernel, n, v, column); break;
    case AHEAD: round_of(AHEAD, kernel, n, v, column); break;
    case BF16: round_of(BF16, kernel, n, v, column); break;
    case PAIRED: round_of(PAIRED, kernel, n, v, column); break;
    case F16: round_of(F16, kernel, n, v, column); break;
    default: round_of(FIXED, kernel, n, v, column);
    }
}

static float read_all(const char *from, size_t bytes) {
    __m512 sum[8];
    for (int k = 0; k < 8; k++) sum[k] = _mm512_setzero_ps();
    for (size_t at = 0; at < bytes; at += 512) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++)
            sum[k] = _mm512_add_ps(
                sum[k], _mm512_loadu_ps((const float *)(const void *)(from + at) + 16 * k));
    }
    float all = 0;
    for (int k = 0; k < 8; k++) all += _mm512_reduce_add_ps(sum[k]);
    return all;
}

static void time_rounds(int64_t n) {
    const size_t bytes = (size_t)(n * n) * 4;
    char *kernel = aligned_alloc(64, bytes + ROWS * 4 * (size_t)n);
    float *v = aligned_alloc(64, (size_t)n * 4);
    double *column = aligned_alloc(64, (size_t)n * 8), *u = aligned_alloc(64, (size_t)n * 8),
           *mass = aligned_alloc(64, (size_t)n * 8);
    uint64_t state = 1;
    for (int64_t j = 0; j < n; j++) {
        v[j] = 1.0f;
        column[j] = 0.0;
        mass[j] = 1.0;
    }
    double best[STORAGES + 3];
    for (int k = 0; k < STORAGES + 3; k++) best[k] = INFINITY;
    volatile float kept = 0;
    const ota_kernels *table = ota_kernels_choose("");
    for (int form = 0; form < 2; form++) {
        if (form == 0) {
            float *x = (float *)(void *)kernel;
            for (int64_t k = 0; k < n * n; k++) x[k] = (float)(0.5 + 0.5 * uniform(&state));
        } else {
            uint16_t *x = (uint16_t *)(void *)kernel;
            for (int64_t k = 0; k < n * n; k++)
                x[k] = (uint16_t)(0x3c00 + (k & 0xff)); /* about 1 */
        }
        for (int turns = 0; turns < 8 + (int)(80000000 / (n * n)); turns++) {
            for (int k = 0; k < STORAGES + 3; k++) {
                const bool wide = k == F32 || k == AHEAD || k == STORAGES || k == STORAGES + 2;
                if (wide != (form == 0)) continue;
                const double begun = processor_seconds();
                if (k == STORAGES)
                    kept = read_all(kernel, bytes);
                else if (k == STORAGES + 1)
                    kept = read_all(kernel, bytes / 2);
                else if (k == STORAGES + 2)
                    table->f32->linear_round((const float *)(const void *)kernel, n, n, n, v, mass,
                                             NULL, u, column);
                else
                    turn((storage)k, kernel, n, v, column);
                best[k] = fmin(best[k], processor_seconds() - begun);
            }
        }
    }
    (void)kept;
    const double unit = 1e9 / (double)(n * n);
    printf("%" PRId64 ": reading 4 bytes %.4f, 2 bytes %.4f; linear_round %.4f;", n,
           best[STORAGES] * unit, best[STORAGES + 1] * unit, best[STORAGES + 2] * unit);
    for (int k = 0; k < STORAGES; k++) printf(" %s %.4f;", names[k], best[k] * unit);
    printf(" ns an entry\n");
    free(kernel);
    free(v);
    free(column);
    free(u);
    free(mass);
}

/* ---- error ---- */

typedef enum rounding { WIDE, SINGLE, CUT, NEAREST, HALF, SIXTEENTH, ROUNDINGS } rounding;
static const char *const rounded[] = {"f64",           "f32", "upper half of f32, cut",
                                      "bf16, nearest", "f16", "fixed point"};

static double stored(rounding kind, double x) {
    if (kind == WIDE) return x;
    const float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (kind == NEAREST) bits += 0x7fff + (bits >> 16 & 1);
    if (kind == NEAREST || kind == CUT) bits &= 0xffff0000u;
    float back;
    memcpy(&back, &bits, sizeof back);
    if (kind == HALF) back = _cvtsh_ss(_cvtss_sh(single, 0));
    if (kind == SIXTEENTH) return nearbyint(x * 65535.0) / 65535.0;
    return (double)back;
}

/* `rounds` column updates on `k`, all sums in f64; v stays. */
static void rounds_on(const double *k, int64_t n, int64_t rounds, double *v, double *u, double *c) {
    for (int64_t j = 0; j < n; j++) v[j] = 1.0;
    for (int64_t r = 0; r < rounds; r++) {
        memset(c, 0, (size_t)n * sizeof *c);
        for (int64_t i = 0; i < n; i++) {
            double sum = 0.0;
            for (int64_t j = 0; j < n; j++) sum += k[i * n + j] * v[j];
            u[i] = 1.0 / sum;
            for (int64_t j = 0; j < n; j++) c[j] += u[i] * k[i * n + j];
        }
        for (int64_t j = 0; j < n; j++) v[j] = 1.0 / c[j];
    }
}

/* The plan of v on the exact kernel, rows exact; returns its column error. */
static double plan_of(const double *k, int64_t n, const double *v, double *c, double *p) {
    memset(c, 0, (size_t)n * sizeof *c);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; j++) sum += k[i * n + j] * v[j];
        for (int64_t j = 0; j < n; j++) {
            p[i * n + j] = k[i * n + j] * v[j] / sum;
            c[j] += p[i * n + j];
        }
    }
    double error = 0.0;
    for (int64_t j = 0; j < n; j++) error += fabs(c[j] - 1.0);
    return error / (double)n;
}

static void errors(int64_t n, double t) {
    static const int64_t counts[] = {2, 5, 10, 300};
    double *k = malloc((size_t)(n * n) * 8), *low = malloc((size_t)(n * n) * 8),
           *p = malloc((size_t)(n * n) * 8), *exact = malloc((size_t)(n * n) * 8);
    double *v = malloc((size_t)n * 24), *u = v + n, *c = u + n;
    double *point = malloc((size_t)n * 32), range = 0.0;
    uint64_t state = 1;
    for (int64_t j = 0; j < 4 * n; j++) point[j] = uniform(&state);
    for (int64_t i = 0; i < n; i++) {
        double top = -INFINITY, least = INFINITY;
        for (int64_t j = 0; j < n; j++) {
            const double *a = point + 2 * i, *b = point + 2 * (n + j);
            k[i * n + j] = -(a[0] - b[0]) * (a[0] - b[0]) - (a[1] - b[1]) * (a[1] - b[1]);
            top = fmax(top, k[i * n + j]);
            least = fmin(least, k[i * n + j]);
        }
        range = fmax(range, top - least);
        for (int64_t j = 0; j < n; j++) k[i * n + j] = exp((k[i * n + j] - top) / t);
    }
    for (size_t q = 0; q < sizeof counts / sizeof counts[0]; q++) {
        rounds_on(k, n, counts[q], v, u, c);
        const double left = plan_of(k, n, v, c, exact);
        printf("n %" PRId64 ", temperature %g, %" PRId64 " rounds leave %.2e:\n", n, t, counts[q],
               left);
        for (int kind = SINGLE; kind < ROUNDINGS; kind++) {
            for (int64_t e = 0; e < n * n; e++) low[e] = stored((rounding)kind, k[e]);
            rounds_on(low, n, counts[q], v, u, c);
            const double error = plan_of(k, n, v, c, p);
            double worst = 0.0, apart = 0.0;
            for (int64_t e = 0; e < n * n; e++) {
                apart += fabs(p[e] - exact[e]);
                if (exact[e] > 1e-30) worst = fmax(worst, fabs(p[e] / exact[e] - 1.0));
            }
            const double policy = 0x1p-24 * (8.0 + 3.0 * range / t) * (double)(counts[q] + 1);
            printf("    %-24s column error %.2e, plan off by %.2e (l1), %.2e (an entry, %.3g of "
                   "policy)\n",
                   rounded[kind], error, apart / (double)n, worst, worst / policy);
        }
    }
    free(k);
    free(low);
    free(p);
    free(exact);
    free(v);
    free(point);
}

int main(int count, char **words) {
    if (count > 3 && strcmp(words[1], "error") == 0)
        errors(strtoll(words[2], NULL, 10), strtod(words[3], NULL));
    for (int w = 2; w < count && strcmp(words[1], "time") == 0; w++)
        time_rounds(strtoll(words[w], NULL, 10));
    return 0;
}
