/* `otattn bench --scaling`: two threads against one, forward, f32, width 64. Every row alternates the
 * machine's own ceiling and the library on one and on two threads and keeps the fastest of each:
 *
 *     gain  = seconds on one thread / seconds on two      share = gain / the ceiling's own gain */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, TRIES = 7 };

typedef struct scaling_row {
    const char *name, *method;
    int64_t heads, length;
} scaling_row;

static const scaling_row rows[] = {
    {"softmax, 1 head of 1024", "softmax", 1, 1024},
    {"softmax, 100 heads of 128", "softmax", 100, 128},
    {"entmax:1.5, 1 head of 1024", "entmax:1.5", 1, 1024},
    {"entmax:1.5, 100 heads of 128", "entmax:1.5", 100, 128},
    {"ceta{rounds=2}, 1 head of 1024", "ceta{rounds=2}", 1, 1024},
    {"ceta{rounds=2}, 100 heads of 128", "ceta{rounds=2}", 100, 128},
};

typedef struct scaling_found {
    double seconds[2], ceiling[2];
    bool same_bits;
} scaling_found;

/* One plan a number of threads; out[t] is what it writes. */
static ota_status run_row(tool_context *context, const scaling_row *row, float *const in[3],
                          float *const out[2], scaling_found *found, ota_error *error) {
    const int64_t n = row->length, h = row->heads;
    ota_plan *plans[2] = {NULL, NULL};
    ota_status status = OTA_OK;
    char kernel[32] = "";
    for (int t = 0; t < 2 && status >= 0; t++) {
        ota_problem problem = {.size = sizeof problem,
                               .queries = ota_array_of(in[0], OTA_F32, 1, h, n, WIDTH),
                               .keys = ota_array_of(in[1], OTA_F32, 1, h, n, WIDTH)};
        ota_options options = {.size = sizeof options,
                               .threads = t + 1,
                               .cpu = context->settings.cpu,
                               .cancel = context->cancel};
        status = ota_method_parse(row->method, &problem, &options, error);
        if (status >= 0) status = ota_plan_create(&plans[t], &problem, WIDTH, &options, error);
    }
    if (status >= 0) (void)snprintf(kernel, sizeof kernel, "%s", ota_plan_kernel(plans[0]));
    *found = (scaling_found){.seconds = {HUGE_VAL, HUGE_VAL}};
    for (int run = 0; run <= TRIES && status >= 0; run++) {
        for (int t = 0; t < 2 && status >= 0; t++) {
            const ota_arrays arrays = {.size = sizeof arrays,
                                       .values = ota_array_of(in[2], OTA_F32, 1, h, n, WIDTH),
                                       .out = ota_array_of(out[t], OTA_F32, 1, h, n, WIDTH)};
            const int64_t begun = tool_now_ns();
            status = ota_forward(plans[t], &arrays, NULL, error);
            const double seconds = (double)(tool_now_ns() - begun) * 1e-9;
            /* The first run warms caches and threads. */
            if (run > 0) found->seconds[t] = fmin(found->seconds[t], seconds);
        }
        for (int t = 0; t < 2; t++)
            found->ceiling[t] = fmax(found->ceiling[t], tool_bench_ceiling(kernel, t + 1));
    }
    found->same_bits = memcmp(out[0], out[1], (size_t)(h * n * WIDTH) * sizeof(float)) == 0;
    for (int t = 0; t < 2; t++) ota_plan_free(plans[t]);
    return status;
}

static int measure(tool_context *context, const scaling_row *row, scaling_found *found) {
    const size_t count = (size_t)(row->heads * row->length) * WIDTH;
    float *arrays[5] = {NULL, NULL, NULL, NULL, NULL};
    uint64_t state = (uint64_t)context->settings.seed.value + 1;
    int code = 0;
    for (int k = 0; k < 5 && code == 0; k++) {
        void *memory = NULL;
        code = tool_memory(context, count * sizeof(float), "an array", &memory);
        arrays[k] = memory;
        for (size_t e = 0; e < count && code == 0; e++)
            arrays[k][e] = (float)tool_random_normal(&state);
    }
    if (code == 0) {
        ota_error error = {.message = ""};
        const ota_status status =
            run_row(context, row, (float *const[]){arrays[0], arrays[1], arrays[2]},
                    (float *const[]){arrays[3], arrays[4]}, found, &error);
        if (status < 0) code = tool_fail_status(context, status, &error);
    }
    for (int k = 0; k < 5; k++) free(arrays[k]);
    return code;
}

int tool_bench_scaling(tool_context *context) {
    json_t *table = json_array();
    int code = 0;
    if (!context->settings.json)
        (void)printf("%-34s %10s %10s %6s %8s %6s  %s\n", "what", "1 thread", "2 threads", "gain",
                     "ceiling", "share", "bits");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0] && code == 0; k++) {
        scaling_found found;
        code = measure(context, &rows[k], &found);
        if (code != 0) break;
        const double gain = found.seconds[0] / found.seconds[1];
        const double ceiling = found.ceiling[1] / found.ceiling[0];
        json_t *row = json_object();
        (void)json_object_set_new(row, "name", json_string(rows[k].name));
        (void)json_object_set_new(row, "seconds_1", tool_json_real(found.seconds[0]));
        (void)json_object_set_new(row, "seconds_2", tool_json_real(found.seconds[1]));
        (void)json_object_set_new(row, "gain", tool_json_real(gain));
        (void)json_object_set_new(row, "ceiling_gain", tool_json_real(ceiling));
        (void)json_object_set_new(row, "share", tool_json_real(gain / ceiling));
        (void)json_object_set_new(row, "same_bits", json_boolean(found.same_bits));
        (void)json_array_append_new(table, row);
        if (!context->settings.json)
            (void)printf("%-34s %7.4g ms %7.4g ms %6.3f %8.3f %6.3f  %s\n", rows[k].name,
                         found.seconds[0] * 1e3, found.seconds[1] * 1e3, gain, ceiling,
                         gain / ceiling, found.same_bits ? "same" : "DIFFER");
    }
    if (code == 0 && context->settings.json) {
        return tool_print_json(stdout, json_pack("{sssssssoso}", "command", "bench", "version",
                                                 ota_version(), "status", "ok", "rows", table,
                                                 "warnings", json_incref(context->warnings)));
    }
    json_decref(table);
    return code;
}
