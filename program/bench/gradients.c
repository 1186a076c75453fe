/* `otattn bench --gradients`: time of the backward pass alone, after one forward, for random Q, K, V and
 * dL/dout ~ N(0,1): gradients of Q, K and V, one row per shape and method.
 *
 *     ns_per_pair = seconds / (n m)     gflops = 10 n m d / seconds, whatever the method did
 *
 * dL/dV = P^T dL/dout of the timed call is compared with plain loops in double over the potentials that forward
 * reports; where those do not define P, max_error is absent. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_METHODS = 64, STANDARD_REPEAT = 5, INPUTS = 4, OUTPUTS = 4 };

static const double MOST_SECONDS = 2.0;

typedef struct gradient_case {
    int64_t queries, keys, width;
    ota_type type;
    void *in[INPUTS];   /* Q, K, V, dL/dout */
    void *out[OUTPUTS]; /* out and the gradients of Q, K, V */
    double *row_potential, *column_potential, *lse, *row, *sum;
} gradient_case;

static void free_case(gradient_case *c) {
    for (int k = 0; k < INPUTS; k++) free(c->in[k]);
    for (int k = 0; k < OUTPUTS; k++) free(c->out[k]);
    free(c->row_potential);
    free(c->column_potential);
    free(c->lse);
    free(c->row);
    free(c->sum);
}

static bool read_shape(const char *text, gradient_case *c) {
    int64_t *const sizes[3] = {&c->queries, &c->keys, &c->width};
    for (int k = 0; k < 3; k++) {
        char one[24];
        const size_t length = strcspn(text, "x");
        (void)snprintf(one, sizeof one, "%.*s", (int)(length < 23 ? length : 23), text);
        if (!tool_integer(one, sizes[k]) || *sizes[k] < 1 || *sizes[k] > (int64_t)1 << 24 ||
            (text[length] == 'x') != (k < 2))
            return false;
        text += length + 1;
    }
    return true;
}

static int make_case(tool_context *context, const char *shape, gradient_case *c) {
    if (!read_shape(shape, c)) {
        return tool_refuse_flag(context, "shapes", "write NxMxD, such as 1024x1024x64",
                                "--shapes '%.40s' is no shape", shape);
    }
    c->type = tool_type_of(context->settings.dtype != NULL ? context->settings.dtype : "f32");
    const size_t bytes = ota_type_bytes(c->type);
    const int64_t lengths[INPUTS] = {c->queries, c->keys, c->keys, c->queries};
    const int64_t out_lengths[OUTPUTS] = {c->queries, c->queries, c->keys, c->keys};
    uint64_t state = (uint64_t)context->settings.seed.value + 1;
    int code = 0;
    for (int k = 0; k < INPUTS && code == 0; k++) {
        const size_t count = (size_t)(lengths[k] * c->width);
        code = tool_memory(context, count * bytes, "the input", &c->in[k]);
        for (size_t e = 0; e < count && code == 0; e++) {
            const double value = tool_random_normal(&state);
            tool_convert(&value, OTA_F64, (char *)c->in[k] + e * bytes, c->type, 1);
        }
    }
    for (int k = 0; k < OUTPUTS && code == 0; k++)
        code = tool_memory(context, (size_t)(out_lengths[k] * c->width) * bytes, "the output",
                           &c->out[k]);
    double **const numbers[] = {&c->row_potential, &c->column_potential, &c->lse, &c->row, &c->sum};
    const int64_t counts[] = {c->queries, c->keys, c->queries, c->keys, c->keys * c->width};
    for (int k = 0; k < 5 && code == 0; k++) {
        void *memory = NULL;
        code = tool_memory(context, (size_t)counts[k] * sizeof(double), "the output", &memory);
        *numbers[k] = memory;
    }
    return code;
}

static double element(const void *x, const gradient_case *c, int64_t row, int64_t column) {
    return tool_element(x, c->type, (size_t)(row * c->width + column));
}

/* Largest error of dL/dV; NaN where the potentials do not define P. */
static double error_of(const gradient_case *c, const ota_problem *problem) {
    const double scale = 1.0 / sqrt((double)c->width);
    const double tau = problem->temperature > 0.0 ? problem->temperature : 1.0;
    if (!tool_potentials_tell(problem) || problem->columns == OTA_COLUMNS_ONLINE)
        return (double)NAN;
    memset(c->sum, 0, (size_t)(c->keys * c->width) * sizeof *c->sum);
    for (int64_t i = 0; i < c->queries; i++) {
        for (int64_t j = 0; j < c->keys; j++) {
            double score = 0.0;
            for (int64_t w = 0; w < c->width; w++)
                score += element(c->in[0], c, i, w) * element(c->in[1], c, j, w);
            const double level =
                (score * scale + c->row_potential[i] + c->column_potential[j]) / tau;
            const double power = problem->order - 1.0;
            c->row[j] = problem->regulariser == OTA_SOFTMAX ? exp(level)
                        : level > 0.0                       ? pow(power * level, 1.0 / power)
                                                            : 0.0;
        }
        for (int64_t k = 0; k < c->keys * c->width; k++)
            c->sum[k] += c->row[k / c->width] * element(c->in[3], c, i, k % c->width);
    }
    double worst = 0.0;
    for (int64_t k = 0; k < c->keys * c->width; k++) {
        const double away = fabs(c->sum[k] - tool_element(c->out[3], c->type, (size_t)k));
        if (!(away <= worst)) worst = away;
    }
    return worst;
}

typedef struct gradient_row {
    ota_status status;
    char method[160], kernel[32], error[512];
    int threads;
    double seconds, max_error;
} gradient_row;

static ota_array over(void *data, const gradient_case *c, int64_t rows) {
    return ota_array_of(data, c->type, 1, 1, rows, c->width);
}

static ota_array numbers(double *data, int64_t count) {
    return ota_array_of(data, OTA_F64, 1, 1, 1, count);
}

static ota_status time_row(tool_context *context, gradient_case *c, const ota_problem *problem,
                           const ota_options *options, gradient_row *row, ota_error *error) {
    const ota_arrays arrays = {.size = sizeof arrays,
                               .values = over(c->in[2], c, c->keys),
                               .out = over(c->out[0], c, c->queries),
                               .lse = numbers(c->lse, c->queries),
                               .row_potential = numbers(c->row_potential, c->queries),
                               .column_potential = numbers(c->column_potential, c->keys)};
    const ota_gradients gradients = {.size = sizeof gradients,
                                     .out_grad = over(c->in[3], c, c->queries),
                                     .queries = over(c->out[1], c, c->queries),
                                     .keys = over(c->out[2], c, c->keys),
                                     .values = over(c->out[3], c, c->keys),
                                     .solved = 1};
    const tool_whole *repeat = &context->settings.repeat;
    const int64_t most = repeat->given ? repeat->value : STANDARD_REPEAT;
    ota_plan *plan;
    ota_status status = ota_plan_create(&plan, problem, c->width, options, error);
    if (status < 0) return status;
    row->threads = ota_plan_threads(plan);
    (void)snprintf(row->kernel, sizeof row->kernel, "%s", ota_plan_kernel(plan));
    status = ota_forward(plan, &arrays, NULL, error);
    row->seconds = HUGE_VAL;
    double total = 0.0;
    for (int64_t run = 0; run <= most && status >= 0 && total < MOST_SECONDS; run++) {
        const int64_t begun = tool_now_ns();
        status = ota_backward(plan, &arrays, &gradients, NULL, error);
        const double seconds = (double)(tool_now_ns() - begun) / 1e9;
        /* The first run warms the caches; it counts when there is no time for a second. */
        if (run > 0 || seconds > MOST_SECONDS || most == 0)
            row->seconds = fmin(row->seconds, seconds);
        total += seconds;
    }
    ota_plan_free(plan);
    if (status >= 0) row->max_error = error_of(c, problem);
    return status;
}

static int bench_method(tool_context *context, gradient_case *c, const char *method,
                        gradient_row *row) {
    ota_problem problem = {.size = sizeof problem,
                           .queries = over(c->in[0], c, c->queries),
                           .keys = over(c->in[1], c, c->keys)};
    ota_options options = {.size = sizeof options,
                           .threads = (int)context->settings.threads.value,
                           .gradients = 1,
                           .cpu = context->settings.cpu,
                           .cancel = context->cancel};
    ota_error error = {.message = ""};
    const ota_status parsed = ota_method_parse(method, &problem, &options, &error);
    if (parsed < 0) return tool_fail_status(context, parsed, &error);
    (void)ota_method_name(&problem, row->method, sizeof row->method);
    row->status = time_row(context, c, &problem, &options, row, &error);
    (void)snprintf(row->error, sizeof row->error, "%s", row->status < 0 ? error.message : "");
    return row->status == OTA_CANCELLED ? tool_fail_status(context, row->status, &error) : 0;
}

static void add_row(tool_context *context, const gradient_case *c, const gradient_row *row,
                    double *ceiling, json_t *rows) {
    const bool ran = row->status >= 0, first = !(*ceiling > 0.0);
    if (first && row->kernel[0] != '\0') *ceiling = tool_bench_ceiling(row->kernel, row->threads);
    const double pairs = (double)c->queries * (double)c->keys, none = (double)NAN;
    const double ns = ran ? row->seconds * 1e9 / pairs : none;
    const double gflops = ran ? 10.0 * pairs * (double)c->width / row->seconds * 1e-9 : none;
    const double error = ran ? row->max_error : none;
    char shape[72];
    (void)snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, c->queries, c->keys,
                   c->width);
    const char *dtype = tool_type_name(c->type), *status = ota_status_word(row->status);
    (void)json_array_append_new(
        rows,
        json_pack("{ss ss ss ss ss si ss so so so so so}", "name", row->method, "pass", "backward",
                  "status", status, "shape", shape, "dtype", dtype, "threads", row->threads,
                  "kernel", row->kernel, "ns_per_pair", tool_json_real(ns), "gflops",
                  tool_json_real(gflops), "ceiling", tool_json_real(*ceiling), "share_of_ceiling",
                  tool_json_real(gflops / *ceiling), "max_error", tool_json_real(error)));
    if (context->settings.json) return;
    if (first) {
        (void)printf("fma-ceiling: %.4g Gflop/s in f32 on %d thread%s, %s\n", *ceiling,
                     row->threads, row->threads == 1 ? "" : "s", row->kernel);
        (void)printf("%-26s %-16s %-5s %8s %9s %9s %9s  %s\n", "gradients of", "shape", "dtype",
                     "ns/pair", "Gflop/s", "ceiling", "max err", "status");
    }
    if (ran)
        (void)printf("%-26s %-16s %-5s %8.4g %9.4g %8.1f%% %9.2g  %s\n", row->method, shape, dtype,
                     ns, gflops, 100.0 * gflops / *ceiling, error, status);
    else
        (void)printf("%-26s %-16s %-5s %s: %s\n", row->method, shape, dtype, status, row->error);
    (void)fflush(stdout);
}

static int bench_shape(tool_context *context, const char *shape, char **methods, int count,
                       double *ceiling, json_t *rows) {
    gradient_case c = {.queries = 0};
    int code = make_case(context, shape, &c);
    for (int k = 0; k < count && code == 0; k++) {
        gradient_row row = {.status = OTA_UNSOLVED};
        code = bench_method(context, &c, methods[k], &row);
        if (code == 0) add_row(context, &c, &row, ceiling, rows);
    }
    free_case(&c);
    return code;
}

int tool_bench_gradients(tool_context *context) {
    const tool_settings *s = &context->settings;
    char *methods[MOST_METHODS];
    const int count =
        tool_split_methods(s->methods != NULL ? s->methods : "softmax", methods, MOST_METHODS);
    if (count < 0) {
        return tool_refuse_flag(context, "methods", NULL, "--methods holds more than %d methods",
                                MOST_METHODS);
    }
    json_t *rows = json_array();
    double ceiling = 0.0;
    int code = 0;
    for (const char *at = s->shapes != NULL ? s->shapes : "1024x1024x64";
         code == 0 && *at != '\0';) {
        char shape[72];
        const size_t length = strcspn(at, ",");
        (void)snprintf(shape, sizeof shape, "%.*s", (int)(length < 71 ? length : 71), at);
        code = bench_shape(context, shape, methods, count, &ceiling, rows);
        at += length + (at[length] == ',' ? 1 : 0);
    }
    for (int k = 0; k < count; k++) free(methods[k]);
    if (code == 0 && s->json) {
        return tool_print_json(stdout,
                               json_pack("{sssssssoso}", "command", "bench", "version",
                                         ota_version(), "status", ota_status_word(OTA_OK), "rows",
                                         rows, "warnings", json_incref(context->warnings)));
    }
    json_decref(rows);
    return code;
}
