/* What the vector units of this machine reach: chains of multiply-adds that depend on nothing but
 * themselves, enough of them to hide the latency (4 cycles, 2 units: 8; 12 to be safe). One row per
 * instruction-set level; a level this compiler or processor lacks falls back to the portable row. A try
 * lasts some milliseconds, as the calls do that are set against it, so that both meet a busy machine's gaps.
 *
 * Beside it, how fast one thread reads a matrix of a given size again and again with the same vectors. */
#include <string.h>

#include "bench.h"

#include "src/base/integers.h"
#include "src/base/system.h"

enum { CHAINS = 12, ROUNDS = 1000000, MOST_THREADS = 256, TRIES = 16 };
static const double LEAST_READ = 1.0e8;

static float portable_body(int64_t rounds, float factor, float term) {
    float chain[CHAINS];
    for (int k = 0; k < CHAINS; k++) chain[k] = (float)k;
    for (int64_t r = 0; r < rounds; r++) {
        for (int k = 0; k < CHAINS; k++) chain[k] = chain[k] * factor + term;
    }
    float total = 0.0F;
    for (int k = 0; k < CHAINS; k++) total += chain[k];
    return total;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* As CMakeLists.txt has it for kernels: a switch of clang 18 to 20 that Zig turns off. */
#if defined(__clang__) && __clang_major__ >= 18 && __clang_major__ < 21
#define AVX512 "avx512f,evex512"
#else
#define AVX512 "avx512f"
#endif

__attribute__((target("avx2,fma"))) static float avx2_body(int64_t rounds, float factor,
                                                           float term) {
    __m256 chain[CHAINS];
    const __m256 f = _mm256_set1_ps(factor), t = _mm256_set1_ps(term);
    for (int k = 0; k < CHAINS; k++) chain[k] = _mm256_set1_ps((float)k);
    for (int64_t r = 0; r < rounds; r++) {
        for (int k = 0; k < CHAINS; k++) chain[k] = _mm256_fmadd_ps(chain[k], f, t);
    }
    for (int k = 1; k < CHAINS; k++) chain[0] = _mm256_add_ps(chain[0], chain[k]);
    return _mm256_cvtss_f32(chain[0]);
}

__attribute__((target(AVX512))) static float avx512_body(int64_t rounds, float factor, float term) {
    __m512 chain[CHAINS];
    const __m512 f = _mm512_set1_ps(factor), t = _mm512_set1_ps(term);
    for (int k = 0; k < CHAINS; k++) chain[k] = _mm512_set1_ps((float)k);
    for (int64_t r = 0; r < rounds; r++) {
        for (int k = 0; k < CHAINS; k++) chain[k] = _mm512_fmadd_ps(chain[k], f, t);
    }
    for (int k = 1; k < CHAINS; k++) chain[0] = _mm512_add_ps(chain[0], chain[k]);
    return _mm512_cvtss_f32(chain[0]);
}
#endif

/* Sums of a matrix in vectors of `LANES`; a wider vector than the level has would be taken apart in memory. */
enum { SUMS = 8 };
#define READ_BODY(LANES)                                                                           \
    typedef float lanes __attribute__((vector_size((LANES) * sizeof(float)), aligned(4)));         \
    lanes sum[SUMS];                                                                               \
    memset(sum, 0, sizeof sum);                                                                    \
    for (int64_t k = 0; k + SUMS * (LANES) <= count; k += SUMS * (LANES)) {                        \
        for (int s = 0; s < SUMS; s++) sum[s] += *(const lanes *)(data + k + s * (LANES));         \
    }                                                                                              \
    float total = 0.0F;                                                                            \
    for (int s = 0; s < SUMS; s++) {                                                               \
        for (int l = 0; l < (LANES); l++) total += sum[s][l];                                      \
    }                                                                                              \
    return total

static float portable_read(const float *data, int64_t count) { READ_BODY(4); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static float avx2_read(const float *data, int64_t count) {
    READ_BODY(8);
}
__attribute__((target(AVX512))) static float avx512_read(const float *data, int64_t count) {
    READ_BODY(16);
}
#endif

typedef struct ceiling_row {
    const char *kernel;
    int lanes;
    float (*body)(int64_t rounds, float factor, float term);
    float (*read)(const float *data, int64_t count);
} ceiling_row;

static const ceiling_row rows[] = {
    {"portable", 1, portable_body, portable_read},
#if defined(__x86_64__)
    {"avx2", 8, avx2_body, avx2_read},
    {"avx512", 16, avx512_body, avx512_read},
    {"avx512bf16", 16, avx512_body, avx512_read},
    {"amx", 16, avx512_body, avx512_read},
#endif
};

static const ceiling_row *row_of(const char *kernel) {
    const ceiling_row *row = &rows[0];
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (strcmp(rows[k].kernel, kernel) == 0) row = &rows[k];
    }
    return row;
}

typedef struct job {
    const ceiling_row *row;
    int64_t rounds;
    /* Read at run time, so that the compiler cannot do the work itself. */
    volatile float factor, result;
} job;

static void run(void *user) {
    job *j = user;
    j->result = j->row->body(j->rounds, j->factor, 1.0F - j->factor);
}

typedef struct ceiling_calls {
    const ceiling_row *row;
    int threads, running;
    const float *data;
    int64_t count, passes;
    volatile float result;
} ceiling_calls;

static ota_status run_on_threads(void *context, int variant, int64_t *begun, ota_error *error) {
    ceiling_calls *calls = context;
    job jobs[MOST_THREADS];
    ota_thread workers[MOST_THREADS];
    bool started[MOST_THREADS];
    (void)variant;
    (void)begun;
    (void)error;
    calls->running = 1;
    for (int k = 0; k < calls->threads; k++) {
        jobs[k].row = calls->row;
        jobs[k].rounds = ROUNDS;
        jobs[k].factor = 0.5F;
        started[k] = k > 0 && ota_thread_start(&workers[k], 0, run, &jobs[k]);
        calls->running += started[k] ? 1 : 0;
    }
    run(&jobs[0]);
    for (int k = 1; k < calls->threads; k++) {
        if (started[k]) ota_thread_join(&workers[k]);
    }
    return OTA_OK;
}

static ota_status read_again(void *context, int variant, int64_t *begun, ota_error *error) {
    ceiling_calls *calls = context;
    (void)variant;
    (void)begun;
    (void)error;
    for (int64_t s = 0; s < calls->passes; s++)
        calls->result = calls->result + calls->row->read(calls->data, calls->count);
    return OTA_OK;
}

double cli_bench_ceiling(const char *kernel, int threads) {
    ceiling_calls calls = {.row = row_of(kernel),
                           .threads = (int)ota_int_min(threads, MOST_THREADS)};
    const cli_bench_loop loop = {run_on_threads, &calls, 1, TRIES, 0.0};
    cli_bench_seconds seconds = {HUGE_VAL, HUGE_VAL};
    (void)cli_bench_time(&loop, &seconds, NULL);
    return 2.0 * (double)CHAINS * (double)ROUNDS * (double)calls.row->lanes *
           (double)calls.running / seconds.least * 1e-9;
}

double cli_bench_read(const char *kernel, const void *data, size_t bytes) {
    /* Some milliseconds a try, or one pass where that is longer. */
    ceiling_calls calls = {.row = row_of(kernel),
                           .data = data,
                           .count = (int64_t)(bytes / sizeof(float)),
                           .passes = 1 + (int64_t)(LEAST_READ / (double)(bytes + 1))};
    const cli_bench_loop loop = {read_again, &calls, 1, TRIES, 0.0};
    cli_bench_seconds seconds = {HUGE_VAL, HUGE_VAL};
    (void)cli_bench_time(&loop, &seconds, NULL);
    return (double)bytes * (double)calls.passes / seconds.least * 1e-9;
}
