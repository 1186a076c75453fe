/* plan_reuse.c: one plan, many calls: grouped heads, a causal mask, ALiBi, bf16 data, caller's memory only.
 * The second call allocates nothing; the description says what will run. */
#include <otattn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 4, KEY_HEADS = 2, TOKENS = 33, WIDTH = 16 };

static uint16_t bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static uint16_t *noise(size_t count, unsigned seed) {
    uint16_t *data = malloc(count * sizeof *data);
    for (size_t k = 0; data != NULL && k < count; k++) {
        seed = seed * 1664525u + 1013904223u;
        data[k] = bf16((float)(seed >> 8) / 8388608.0f - 1.0f);
    }
    return data;
}

int main(void) {
    uint16_t *q = noise(BATCH * HEADS * TOKENS * WIDTH, 1),
             *k = noise(BATCH * KEY_HEADS * TOKENS * WIDTH, 2);
    uint16_t *v = noise(BATCH * KEY_HEADS * TOKENS * WIDTH, 3),
             *o = noise(BATCH * HEADS * TOKENS * WIDTH, 4);
    if (q == NULL || k == NULL || v == NULL || o == NULL) return 1;

    double slopes[HEADS];
    ota_alibi_slopes(HEADS, slopes);
    ota_term alibi = {.kind = OTA_TERM_ALIBI,
                      .array = ota_array_of(slopes, OTA_F64, 1, 1, 1, HEADS)};
    ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};

    ota_problem problem = {.size = sizeof problem};
    problem.queries = ota_array_of(q, OTA_BF16, BATCH, HEADS, TOKENS, WIDTH);
    problem.keys = ota_array_of(k, OTA_BF16, BATCH, KEY_HEADS, TOKENS, WIDTH);
    problem.terms = &alibi;
    problem.term_count = 1;
    problem.supports = &causal;
    problem.support_count = 1;

    ota_plan *plan;
    ota_error error;
    if (ota_plan_create(&plan, &problem, WIDTH, NULL, &error) != OTA_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    char text[2048];
    ota_plan_describe(plan, text, sizeof text);
    fputs(text, stdout);

    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(v, OTA_BF16, BATCH, KEY_HEADS, TOKENS, WIDTH);
    arrays.out = ota_array_of(o, OTA_BF16, BATCH, HEADS, TOKENS, WIDTH);
    const size_t bytes = BATCH * HEADS * TOKENS * WIDTH * sizeof *o;
    uint16_t *first = malloc(bytes);
    int same = 0;
    if (first != NULL && ota_forward(plan, &arrays, NULL, &error) == OTA_OK) {
        memcpy(first, o, bytes);
        same = ota_forward(plan, &arrays, NULL, &error) == OTA_OK && memcmp(first, o, bytes) == 0;
    }
    printf("second call: %s\n", same ? "same bits" : "different");
    ota_plan_free(plan);
    free(q), free(k), free(v), free(o), free(first);
    return same ? 0 : 1;
}
