/* decode.c: token by token with a KV cache. Under online:CAP every key can be used only so often, and no
 * later token ever changes what an earlier one received; the plan and its memory are made once. */
#include <math.h>
#include <otattn.h>
#include <stdio.h>

enum { CACHE = 12, WIDTH = 4 };

int main(void) {
    float queries[CACHE * WIDTH], keys[CACHE * WIDTH], values[CACHE * WIDTH];
    for (int k = 0; k < CACHE * WIDTH; k++) {
        queries[k] = (float)sin(0.7 * k);
        keys[k] =
            (float)cos(0.3 * k) + (k < WIDTH ? 1.0f : 0.0f); /* the first key attracts everybody */
        values[k] = (float)(k % 5);
    }

    float token[WIDTH], out[WIDTH], whole[CACHE * WIDTH];
    double remaining[CACHE];
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options, .threads = 1};
    ota_error error;
    problem.queries = ota_array_of(token, OTA_F32, 1, 1, 1, WIDTH);
    problem.keys = ota_array_of(keys, OTA_F32, 1, 1, CACHE, WIDTH);
    if (ota_method_parse("online:2", &problem, &options, &error) != OTA_OK) return 1;

    ota_plan *plan;
    if (ota_plan_create(&plan, &problem, WIDTH, &options, &error) != OTA_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(values, OTA_F32, 1, 1, CACHE, WIDTH);
    arrays.out = ota_array_of(out, OTA_F32, 1, 1, 1, WIDTH);
    arrays.remaining = ota_array_of(remaining, OTA_F64, 1, 1, 1, CACHE);

    /* The same sequence at once, causal, to compare with. */
    ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};
    ota_problem at_once = problem;
    at_once.queries = ota_array_of(queries, OTA_F32, 1, 1, CACHE, WIDTH);
    at_once.supports = &causal;
    at_once.support_count = 1;
    ota_arrays all = {.size = sizeof all};
    all.values = arrays.values;
    all.out = ota_array_of(whole, OTA_F32, 1, 1, CACHE, WIDTH);
    if (ota_attend(&at_once, &options, &all, NULL, &error) < 0) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }

    double worst = 0.0;
    for (int step = 0; step < CACHE; step++) {
        for (int k = 0; k < WIDTH; k++) token[k] = queries[step * WIDTH + k];
        ota_decode_capacity(plan, &arrays.remaining, step, step + 1, &error);
        if (ota_decode(plan, &arrays, step + 1, NULL, &error) < 0) {
            fprintf(stderr, "step %d: %s\n", step, error.message);
            return 1;
        }
        for (int k = 0; k < WIDTH; k++)
            worst = fmax(worst, fabs((double)(out[k] - whole[step * WIDTH + k])));
    }
    printf("%d steps on %zu bytes; capacity left on the first key %.3f of 2\n", CACHE,
           ota_plan_bytes(plan), remaining[0]);
    printf("largest difference from the whole sequence at once: %.1e\n", worst);
    ota_plan_free(plan);
    return worst <= 1e-6 ? 0 : 1;
}
