/* `otattn bench --scaling`: two threads against one, f32, width 64, forward and the gradients of queries, keys
 * and values. Every row alternates the machine's own ceiling and the library on one and on two threads and
 * keeps the fastest of each:
 *
 *     gain  = seconds on one thread / seconds on two      share = gain / the ceiling's own gain */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, TRIES = 15, INPUTS = 4, OUTPUTS = 4, NUMBERS = 3 };

typedef struct scaling_row {
    const char *name, *method;
    int64_t heads, length;
    bool gradients; /* times backward, after a forward that is not timed */
} scaling_row;

static const scaling_row rows[] = {
    {"softmax, 1 head of 1024", "softmax", 1, 1024, false},
    {"softmax, 100 heads of 128", "softmax", 100, 128, false},
    {"entmax:1.5, 1 head of 1024", "entmax:1.5", 1, 1024, false},
    {"entmax:1.5, 100 heads of 128", "entmax:1.5", 100, 128, false},
    {"ceta{rounds=2}, 1 head of 1024", "ceta{rounds=2}", 1, 1024, false},
    {"ceta{rounds=2}, 100 heads of 128", "ceta{rounds=2}", 100, 128, false},
    {"softmax, 1 head, gradients", "softmax", 1, 1024, true},
    {"softmax, 100 heads, gradients", "softmax", 100, 128, true},
    {"entmax:1.5, 1 head, gradients", "entmax:1.5", 1, 1024, true},
    {"entmax:1.5, 100 heads, gradients", "entmax:1.5", 100, 128, true},
    {"ceta{rounds=2}, 1 head, gradients", "ceta{rounds=2}", 1, 1024, true},
    {"ceta{rounds=2}, 100 heads, gradients", "ceta{rounds=2}", 100, 128, true},
};

typedef struct scaling_found {
    double seconds[2], ceiling[2];
    bool same_bits;
} scaling_found;

/* Q, K, V, dL/dout; on one and on two threads out and the gradients of Q, K, V, then potentials and lse. */
typedef struct scaling_memory {
    float *in[INPUTS], *out[2][OUTPUTS];
    double *numbers[2][NUMBERS];
} scaling_memory;

static ota_array over(float *data, const scaling_row *row) {
    return ota_array_of(data, OTA_F32, 1, row->heads, row->length, WIDTH);
}

static ota_array numbers(double *data, const scaling_row *row) {
    return ota_array_of(data, OTA_F64, 1, row->heads, 1, row->length);
}

/* What is timed on t + 1 threads; seconds of it. */
static ota_status run_once(ota_plan *plan, const scaling_row *row, const scaling_memory *m, int t,
                           double *seconds, ota_error *error) {
    ota_arrays arrays = {
        .size = sizeof arrays, .values = over(m->in[2], row), .out = over(m->out[t][0], row)};
    if (row->gradients) {
        arrays.row_potential = numbers(m->numbers[t][0], row);
        arrays.column_potential = numbers(m->numbers[t][1], row);
        arrays.lse = numbers(m->numbers[t][2], row);
    }
    int64_t begun = tool_now_ns();
    ota_status status = ota_forward(plan, &arrays, NULL, error);
    if (status >= 0 && row->gradients) {
        const ota_gradients gradients = {.size = sizeof gradients,
                                         .out_grad = over(m->in[3], row),
                                         .queries = over(m->out[t][1], row),
                                         .keys = over(m->out[t][2], row),
                                         .values = over(m->out[t][3], row)};
        begun = tool_now_ns();
        status = ota_backward(plan, &arrays, &gradients, NULL, error);
    }
    *seconds = (double)(tool_now_ns() - begun) * 1e-9;
    return status;
}

static ota_status run_row(tool_context *context, const scaling_row *row, const scaling_memory *m,
                          scaling_found *found, ota_error *error) {
    ota_plan *plans[2] = {NULL, NULL};
    ota_status status = OTA_OK;
    char kernel[32] = "";
    for (int t = 0; t < 2 && status >= 0; t++) {
        ota_problem problem = {
            .size = sizeof problem, .queries = over(m->in[0], row), .keys = over(m->in[1], row)};
        ota_options options = {.size = sizeof options,
                               .threads = t + 1,
                               .gradients = row->gradients,
                               .cpu = context->settings.cpu,
                               .cancel = context->cancel};
        status = ota_method_parse(row->method, &problem, &options, error);
        if (status >= 0) status = ota_plan_create(&plans[t], &problem, WIDTH, &options, error);
    }
    if (status >= 0) (void)snprintf(kernel, sizeof kernel, "%s", ota_plan_kernel(plans[0]));
    *found = (scaling_found){.seconds = {HUGE_VAL, HUGE_VAL}, .same_bits = true};
    for (int run = 0; run <= TRIES && status >= 0; run++) {
        for (int t = 0; t < 2 && status >= 0; t++) {
            double seconds = HUGE_VAL;
            status = run_once(plans[t], row, m, t, &seconds, error);
            /* The first run warms caches and threads. */
            if (run > 0) found->seconds[t] = fmin(found->seconds[t], seconds);
        }
        for (int t = 0; t < 2; t++)
            found->ceiling[t] = fmax(found->ceiling[t], tool_bench_ceiling(kernel, t + 1));
    }
    const size_t bytes = (size_t)(row->heads * row->length) * WIDTH * sizeof(float);
    for (int k = 0; k < (row->gradients ? OUTPUTS : 1); k++)
        found->same_bits &= memcmp(m->out[0][k], m->out[1][k], bytes) == 0;
    for (int t = 0; t < 2; t++) ota_plan_free(plans[t]);
    return status;
}

static int make_memory(tool_context *context, const scaling_row *row, scaling_memory *m) {
    const size_t count = (size_t)(row->heads * row->length) * WIDTH;
    uint64_t state = (uint64_t)context->settings.seed.value + 1;
    int code = 0;
    for (int k = 0; k < INPUTS + 2 * OUTPUTS && code == 0; k++) {
        void *memory = NULL;
        code = tool_memory(context, count * sizeof(float), "an array", &memory);
        const int at = k - INPUTS;
        float **to = k < INPUTS ? &m->in[k] : &m->out[at / OUTPUTS][at % OUTPUTS];
        *to = memory;
        for (size_t e = 0; e < count && code == 0; e++)
            (*to)[e] = k < INPUTS ? (float)tool_random_normal(&state) : 0.0f;
    }
    for (int k = 0; k < 2 * NUMBERS && code == 0; k++) {
        void *memory = NULL;
        code = tool_memory(context, count / WIDTH * sizeof(double), "an array", &memory);
        m->numbers[k / NUMBERS][k % NUMBERS] = memory;
    }
    return code;
}

static int measure(tool_context *context, const scaling_row *row, scaling_found *found) {
    scaling_memory m = {.in = {NULL}};
    int code = make_memory(context, row, &m);
    if (code == 0) {
        ota_error error = {.message = ""};
        const ota_status status = run_row(context, row, &m, found, &error);
        if (status < 0) code = tool_fail_status(context, status, &error);
    }
    for (int k = 0; k < INPUTS; k++) free(m.in[k]);
    for (int k = 0; k < 2 * OUTPUTS; k++) free(m.out[k / OUTPUTS][k % OUTPUTS]);
    for (int k = 0; k < 2 * NUMBERS; k++) free(m.numbers[k / NUMBERS][k % NUMBERS]);
    return code;
}

int tool_bench_scaling(tool_context *context) {
    json_t *table = json_array();
    int code = 0;
    if (!context->settings.json)
        (void)printf("%-38s %10s %10s %6s %8s %6s  %s\n", "what", "1 thread", "2 threads", "gain",
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
            (void)printf("%-38s %7.4g ms %7.4g ms %6.3f %8.3f %6.3f  %s\n", rows[k].name,
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
