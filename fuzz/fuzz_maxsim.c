/* libFuzzer on late interaction drawn from bytes: shapes, types, strides, places and lengths, right or wrong, numbers from small
 * ones to any bits. What is taken must agree with plain loops, choices with scores, and gradients with choices. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_maxsim.h"
#include "fuzz_bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { QUERIES = 3, TOKENS = 9, WIDTH = 7, DOCUMENTS = 4, ALL = 60 };

/* A small number that every type holds, or, rarely, any bits of f32 or the upper half of them. */
static float draw(fuzz_bytes *r) {
    const unsigned kind = fuzz_next(r);
    if (kind < 250) return (float)(kind % 32) / 4.0F - 4.0F;
    uint32_t bits = 0;
    float x;
    for (int k = 0; k < 4; k++) bits = bits << 8 | fuzz_next(r);
    if (kind < 253) bits = 0x7f800000u | (bits & 1u) << 22; /* inf or NaN */
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Memory of exactly the numbers that are read, so that the sanitizer sees any other; and the numbers as they are held. */
typedef struct side {
    void *memory;
    float *numbers; /* [rows][width] */
    ota_array array;
} side;

static void make_side(side *x, fuzz_bytes *r, ota_type type, int64_t heads, int64_t rows,
                      int64_t width, bool transposed) {
    const size_t count = (size_t)(heads * rows * width), bytes = type == OTA_F32 ? 4 : 2;
    x->memory = malloc(count * bytes + 1);
    x->numbers = malloc(count * sizeof(float) + 1);
    x->array = ota_array_of(x->memory, type, 1, heads, rows, width);
    if (transposed) {
        x->array.stride[2] = 1;
        x->array.stride[3] = rows;
    }
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t w = 0; w < width; w++) {
                float number = draw(r);
                const int64_t at =
                    h * x->array.stride[1] + i * x->array.stride[2] + w * x->array.stride[3];
                uint32_t bits;
                memcpy(&bits, &number, sizeof bits);
                if (type == OTA_F32) {
                    memcpy((char *)x->memory + at * 4, &number, 4);
                } else if (type == OTA_BF16) {
                    const uint16_t half = (uint16_t)(bits >> 16);
                    memcpy((char *)x->memory + at * 2, &half, 2);
                    bits = (uint32_t)half << 16;
                    memcpy(&number, &bits, sizeof number);
                } else {
                    /* Only whole and half numbers, whose bits are easily made; 0, NaN and infinity. */
                    uint16_t half = 0;
                    if (!isfinite(number)) {
                        half = isnan(number) ? 0x7e00u : 0x7c00u;
                        number = isnan(number) ? number : INFINITY;
                    } else if (fabsf(number) >= 0.25F && fabsf(number) <= 4.0F) {
                        half = (uint16_t)((bits >> 16 & 0x8000u) |
                                          (((bits & 0x7fffffffu) - 0x38000000u) >> 13));
                        bits &= 0xffffe000u;
                        memcpy(&number, &bits, sizeof number);
                    } else {
                        number = 0.0F;
                    }
                    memcpy((char *)x->memory + at * 2, &half, 2);
                }
                x->numbers[(h * rows + i) * width + w] = number;
            }
        }
    }
}

static void free_side(side *x) {
    free(x->memory);
    free(x->numbers);
}

/* The product, and what it may be wrong by: infinity where sums in f32 may leave the range. */
static double product(const float *a, const float *b, int64_t width, double *slack) {
    double sum = 0.0, size = 0.0;
    for (int64_t w = 0; w < width; w++) {
        sum += (double)a[w] * (double)b[w];
        size += fabs((double)a[w] * (double)b[w]);
    }
    /* Tiny numbers may count as 0 where pairs are multiplied. */
    double most = 1.0;
    for (int64_t w = 0; w < width; w++)
        most = fmax(most, fmax(fabs((double)a[w]), fabs((double)b[w])));
    *slack = (double)(width + 2) * ((double)FLT_EPSILON * size + 2.0 * (double)FLT_MIN * most);
    if (size > 0.25 * (double)FLT_MAX) *slack = INFINITY;
    return sum;
}

typedef struct scene {
    side queries, documents;
    int64_t n, width, count, capacity;
    int64_t query_lengths[QUERIES], offsets[DOCUMENTS + 1];
    float scores[QUERIES * DOCUMENTS];
    int64_t chosen[QUERIES * DOCUMENTS * TOKENS];
} scene;

/* Of numbers near the end of the range nothing is said: they may be lost or not. */
static bool too_large(double x, double slack) { return fabs(x) + slack > 0.5 * (double)FLT_MAX; }

static void check_score(const scene *s, int64_t q, int64_t d) {
    const float *query = s->queries.numbers + q * s->n * s->width;
    const float *document = s->documents.numbers + s->offsets[d] * s->width;
    const int64_t n = s->query_lengths[q], m = s->offsets[d + 1] - s->offsets[d];
    const int64_t *chosen = s->chosen + (q * s->count + d) * s->n;
    const double score = (double)s->scores[q * s->count + d];
    double largest = 0.0, of_chosen = 0.0, allowed = 0.0, size = 0.0, slack;
    bool nonfinite = false;
    int64_t used[ALL] = {0}, served = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (chosen[i] < -1 || chosen[i] >= (i < n ? m : 0)) abort();
        double best = -INFINITY, most = 0.0;
        for (int64_t j = 0; i < n && j < m; j++) {
            const double here =
                product(query + i * s->width, document + j * s->width, s->width, &slack);
            if (!isfinite(here)) nonfinite = true;
            if (isfinite(here) && too_large(here, slack)) return;
            best = fmax(best, here);
            most = fmax(most, slack);
            if (chosen[i] == j) of_chosen += here;
        }
        if (i < n && m > 0) {
            largest += best;
            size += fabs(best);
        }
        allowed += 2.0 * most;
        if (chosen[i] < 0) continue;
        served++;
        if (++used[chosen[i]] > s->capacity && s->capacity > 0) abort();
    }
    allowed += (double)FLT_EPSILON * (fabs(of_chosen) + size);
    if (n == 0) {
        if (score != 0.0) abort();
    } else if (m == 0) {
        if (score != -INFINITY) abort();
    } else if (nonfinite) {
        if (!isnan(score) || served != 0) abort();
    } else if (!too_large(largest, allowed) && !too_large(of_chosen, allowed)) {
        if (!(fabs(score - of_chosen) <= allowed)) abort();
        if (s->capacity == 0 && !(fabs(score - largest) <= allowed)) abort();
        const bool few = s->capacity > 0 && s->capacity * m < n;
        if (served != (few ? s->capacity * m : n)) abort();
    }
}

static void check_gradients(const scene *s, const ota_late_interaction *problem, fuzz_bytes *r) {
    float weights[QUERIES * DOCUMENTS];
    const int64_t queries = problem->queries.size[1], tokens = problem->documents.size[2];
    for (int64_t k = 0; k < queries * s->count; k++) weights[k] = (float)(fuzz_next(r) % 9) - 4.0F;
    float *of_queries = malloc((size_t)(queries * s->n * s->width) * sizeof(float) + 1);
    float *of_documents = malloc((size_t)(tokens * s->width) * sizeof(float) + 1);
    if (ota_maxsim_backward(problem, weights, of_queries, of_documents, NULL) != OTA_OK) abort();
    for (int64_t q = 0; q < queries; q++) {
        for (int64_t i = 0; i < s->n; i++) {
            for (int64_t w = 0; w < s->width; w++) {
                double sum = 0.0;
                for (int64_t d = 0; d < s->count; d++) {
                    const int64_t j = s->chosen[(q * s->count + d) * s->n + i];
                    if (j < 0 || weights[q * s->count + d] == 0.0F) continue;
                    sum += (double)weights[q * s->count + d] *
                           (double)s->documents.numbers[(s->offsets[d] + j) * s->width + w];
                }
                const float got = of_queries[(q * s->n + i) * s->width + w];
                if (got != (float)sum && !isnan(sum)) abort();
            }
        }
    }
    free(of_queries);
    free(of_documents);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    fuzz_bytes r = {bytes, size};
    scene s = {0};
    const ota_type type = (ota_type[]){OTA_F32, OTA_BF16, OTA_F16}[fuzz_next(&r) % 3];
    const unsigned flags = fuzz_next(&r);
    const int64_t queries = fuzz_next(&r) % (QUERIES + 1);
    s.n = fuzz_next(&r) % (TOKENS + 1);
    s.width = fuzz_next(&r) % (WIDTH + 1);
    s.count = fuzz_next(&r) % (DOCUMENTS + 1);
    s.capacity = flags & 1u ? 1 + fuzz_next(&r) % 3 : 0;
    int64_t tokens = 0;
    for (int64_t d = 0; d < s.count; d++) {
        tokens += fuzz_next(&r) % (ALL / DOCUMENTS);
        s.offsets[d + 1] = tokens;
    }
    for (int64_t q = 0; q < queries; q++)
        s.query_lengths[q] = s.n - (s.n > 0 ? fuzz_next(&r) % (s.n + 1) : 0);
    make_side(&s.queries, &r, type, queries, s.n, s.width, flags & 2u);
    make_side(&s.documents, &r, type, 1, tokens, s.width, flags & 4u);
    ota_late_interaction problem = {.size = sizeof problem,
                                    .queries = s.queries.array,
                                    .documents = s.documents.array,
                                    .query_lengths = s.query_lengths,
                                    .offsets = s.offsets,
                                    .document_count = s.count,
                                    .capacity = s.capacity,
                                    .threads = 1,
                                    .cpu = flags & 8u ? "portable" : NULL,
                                    .chosen = s.chosen};
    /* Something wrong, which is refused and not read. */
    if (flags & 16u) s.offsets[fuzz_next(&r) % (DOCUMENTS + 1)] += (int64_t)fuzz_next(&r) - 128;
    ota_error error = {.message = ""};
    const ota_status status = ota_maxsim(&problem, s.scores, NULL, &error);
    if (status < 0 && error.message[0] == '\0') abort();
    if (status < 0 && (flags & 16u) == 0 && queries > 0 && s.count > 0 && s.n > 0 && tokens > 0 &&
        s.width > 0)
        abort();
    if (status >= 0) {
        for (int64_t q = 0; q < queries; q++) {
            for (int64_t d = 0; d < s.count; d++) check_score(&s, q, d);
        }
        if (queries > 0 && s.count > 0) check_gradients(&s, &problem, &r);
    }
    free_side(&s.queries);
    free_side(&s.documents);
    return 0;
}
