/* attend_driver.c: one f32 head through the fused kernel as the backend drives it, for the speed ladder
 * (ladder.py loads it as a shared object), and the machine's ceiling for fused multiply-adds.
 *
 *     out[n][d] = softmax(q k^T / sqrt(d)) v,   q [n][d], k [m][d], v [m][d], one thread
 *
 * Packing of rows and keys is inside the timing; the buffers are made once, as a plan does. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "kernels.h"

double lab_attend(const char *level, const float *q, const float *k, const float *v, float *out,
                  int64_t n, int64_t m, int64_t d, int causal);
double lab_ceiling(const char *level);

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *room(int64_t count) {
    size_t bytes = ((size_t)count * sizeof(float) + 4095) / 4096 * 4096;
    return aligned_alloc(4096, bytes + 4096);
}

double lab_attend(const char *level, const float *q, const float *k, const float *v, float *out,
                  int64_t n, int64_t m, int64_t d, int causal) {
    const ota_kernels *kernels = ota_kernels_choose(level);
    if (!kernels) return NAN;
    float *packed = room(ota_packed_length(m, d));
    float *scratch = room(ota_attend_scratch(d));
    float *rows = room(OTA_ROW_BLOCK * d);
    double start = seconds();
    ota_array queries = ota_array_of((void *)(uintptr_t)q, OTA_F32, 1, 1, n, d);
    ota_array keys = ota_array_of((void *)(uintptr_t)k, OTA_F32, 1, 1, m, d);
    ota_pack_keys_f32(&keys, 0, 0, m, packed);
    for (int64_t first = 0; first < n; first += OTA_ROW_BLOCK) {
        int64_t count = n - first < OTA_ROW_BLOCK ? n - first : OTA_ROW_BLOCK;
        int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
        float top[OTA_ROW_BLOCK], sum[OTA_ROW_BLOCK];
        for (int64_t r = 0; r < count; r++) {
            begin[r] = 0;
            end[r] = causal ? first + r + 1 : m;
        }
        ota_pack_rows_f32(&queries, 0, 0, first, count, rows, d);
        ota_kernels_f32_attend block = {
            .queries = rows,
            .packed_keys = packed,
            .values = v,
            .rows = count,
            .width = d,
            .values_width = d,
            .begin = begin,
            .end = end,
            .scale = (float)(1.0 / sqrt((double)d)),
            .c = 1.44269504088896340736f,
            .sink = -INFINITY,
            .out = out + first * d,
            .row_max = top,
            .row_sum = sum,
            .scratch = scratch,
        };
        kernels->f32->attend(&block);
    }
    double spent = seconds() - start;
    free(packed);
    free(scratch);
    free(rows);
    return spent;
}

/* Flops per second of independent products on a block that stays in the first cache: 48 rows, 64 keys,
 * width 64, the shape both products of the fused kernel have. */
double lab_ceiling(const char *level) {
    enum { REPEATS = 2000 };
    const ota_kernels *kernels = ota_kernels_choose(level);
    if (!kernels) return NAN;
    float *q = room(48 * 64), *k = room(64 * 64), *s = room(48 * 64);
    for (int i = 0; i < 48 * 64; i++) q[i] = 1;
    for (int i = 0; i < 64 * 64; i++) k[i] = 1;
    double start = seconds();
    for (int i = 0; i < REPEATS; i++) kernels->f32->products(q, k, 48, 64, 64, s, 64);
    double spent = seconds() - start;
    free(q);
    free(k);
    free(s);
    return 2.0 * 48 * 64 * 64 * REPEATS / spent;
}
