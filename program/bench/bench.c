/* `otattn bench`: time of the forward pass on random Q, K, V ~ N(0,1), one row per shape and method. The
 * timed output itself is checked: P is formed again in double by plain loops from the potentials the
 * solver reports (from the coupling where potentials do not define it), and max_error is the largest
 * difference of P V from the timed buffer.
 *
 *     ns_per_pair = seconds / (n m)     gflops = 2 n m (d + w) / seconds, whatever the method did
 *
 * A shape with d = 0 is plain transport: S_ij = -|x_i - y_j|^2 of random points of the unit square is given
 * as a matrix [n][m], and the timed output is P [n][m] itself. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const standard_methods = "softmax,entmax:1.5,sparsemax,softmax/capped:2,softmax/"
                                            "relaxed:1,softmax/elastic:0.5,4,softmax/exact";

enum { MOST_METHODS = 64, STANDARD_REPEAT = 5 };

/* A row takes no more time than this once it has run once. */
static const double MOST_SECONDS = 2.0;

typedef struct bench_case {
    int64_t queries, keys, width;
    ota_type type;
    void *q, *k, *v, *out; /* d = 0: out is P */
    void *scores;          /* d = 0, else NULL */
    double *row_potential, *column_potential, *coupling;
} bench_case;

typedef struct bench_row {
    char method[160];
    char shape[72];
    char error[512];
    ota_status status;
    int64_t rounds;
    int threads;
    char kernel[32];
    double seconds, max_error, row_error, column_error;
} bench_row;

static void free_case(bench_case *c) {
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->out);
    free(c->scores);
    free(c->row_potential);
    free(c->column_potential);
    free(c->coupling);
}

static int random_array(tool_context *context, uint64_t *state, ota_type type, size_t count,
                        void **out) {
    if (count == 0) return 0;
    int code = tool_memory(context, count * ota_type_bytes(type), "the input", out);
    for (size_t k = 0; k < count && code == 0; k++) {
        const double value = tool_random_normal(state);
        tool_convert(&value, OTA_F64, (char *)*out + k * ota_type_bytes(type), type, 1);
    }
    return code;
}

static int square_distances(tool_context *context, uint64_t *state, bench_case *c) {
    const size_t bytes = ota_type_bytes(c->type);
    void *points = NULL;
    int code =
        tool_memory(context, (size_t)(c->queries * c->keys) * bytes, "the costs", &c->scores);
    if (code == 0) {
        code = tool_memory(context, (size_t)(2 * (c->queries + c->keys)) * sizeof(double),
                           "the points", &points);
    }
    double *x = points;
    for (int64_t k = 0; k < 2 * (c->queries + c->keys) && code == 0; k++)
        x[k] = tool_random_uniform(state);
    const double *y = x + 2 * c->queries;
    for (int64_t i = 0; i < c->queries && code == 0; i++) {
        for (int64_t j = 0; j < c->keys; j++) {
            const double right = x[2 * i] - y[2 * j], up = x[2 * i + 1] - y[2 * j + 1];
            const double score = -(right * right + up * up);
            tool_convert(&score, OTA_F64, (char *)c->scores + (size_t)(i * c->keys + j) * bytes,
                         c->type, 1);
        }
    }
    free(points);
    return code;
}

static int make_case(tool_context *context, const char *shape, bench_case *c) {
    int64_t *const sizes[3] = {&c->queries, &c->keys, &c->width};
    const char *at = shape;
    for (int k = 0; k < 3; k++) {
        char text[24];
        const size_t length = strcspn(at, "x");
        (void)snprintf(text, sizeof text, "%.*s", (int)(length < 23 ? length : 23), at);
        if (!tool_integer(text, sizes[k]) || *sizes[k] < (k < 2) || *sizes[k] > (int64_t)1 << 24 ||
            (at[length] == 'x') != (k < 2)) {
            return tool_refuse_flag(
                context, "shapes",
                "write NxMxD, such as 1024x1024x64; D = 0 gives a matrix of scores",
                "--shapes '%.40s' is no shape", shape);
        }
        at += length + 1;
    }
    const char *dtype = context->settings.dtype != NULL ? context->settings.dtype : "f32";
    c->type = tool_type_of(dtype);
    uint64_t state = (uint64_t)context->settings.seed.value + 1;
    const bool plain = c->width == 0;
    int code = plain ? square_distances(context, &state, c) : 0;
    if (code == 0)
        code = random_array(context, &state, c->type, (size_t)(c->queries * c->width), &c->q);
    if (code == 0)
        code = random_array(context, &state, c->type, (size_t)(c->keys * c->width), &c->k);
    if (code == 0)
        code = random_array(context, &state, c->type, (size_t)(c->keys * c->width), &c->v);
    void *memory[3] = {NULL, NULL, NULL};
    const int64_t wide = plain ? c->keys : c->width;
    const size_t bytes[3] = {(size_t)(c->queries * wide) * ota_type_bytes(c->type),
                             (size_t)c->queries * sizeof(double), (size_t)c->keys * sizeof(double)};
    for (int k = 0; k < 3 && code == 0; k++) {
        code = tool_memory(context, bytes[k], "the output", &memory[k]);
    }
    c->out = memory[0];
    c->row_potential = memory[1];
    c->column_potential = memory[2];
    return code;
}

/* The judge knows the plan of online from the potentials; plan_row below does not. */
static bool potentials_define(const ota_problem *problem) {
    return tool_potentials_tell(problem) && problem->columns != OTA_COLUMNS_ONLINE;
}

/* One row of P in double. */
static void plan_row(const bench_case *c, const ota_problem *problem, int64_t i, double *row) {
    const double scale = c->width > 0 ? 1.0 / sqrt((double)c->width) : 1.0;
    const double tau = problem->temperature > 0.0 ? problem->temperature : 1.0;
    for (int64_t j = 0; j < c->keys; j++) {
        double score =
            c->scores == NULL ? 0.0 : tool_element(c->scores, c->type, (size_t)(i * c->keys + j));
        for (int64_t d = 0; d < c->width; d++) {
            score += tool_element(c->q, c->type, (size_t)(i * c->width + d)) *
                     tool_element(c->k, c->type, (size_t)(j * c->width + d));
        }
        const double level = (score * scale + c->row_potential[i] + c->column_potential[j]) / tau;
        if (problem->regulariser == OTA_SOFTMAX)
            row[j] = exp(level);
        else
            row[j] = level > 0.0 ? pow((problem->order - 1.0) * level, 1.0 / (problem->order - 1.0))
                                 : 0.0;
    }
}

static double error_of(const bench_case *c, const ota_problem *problem, double *row) {
    double worst = 0.0;
    for (int64_t i = 0; i < c->queries; i++) {
        if (c->coupling != NULL)
            memcpy(row, c->coupling + i * c->keys, (size_t)c->keys * sizeof *row);
        else
            plan_row(c, problem, i, row);
        for (int64_t j = 0; j < c->keys && c->width == 0; j++) {
            const double away =
                fabs(row[j] - tool_element(c->out, c->type, (size_t)(i * c->keys + j)));
            if (!(away <= worst)) worst = away;
        }
        for (int64_t w = 0; w < c->width; w++) {
            double sum = 0.0;
            for (int64_t j = 0; j < c->keys; j++) {
                sum += row[j] * tool_element(c->v, c->type, (size_t)(j * c->width + w));
            }
            const double away =
                fabs(sum - tool_element(c->out, c->type, (size_t)(i * c->width + w)));
            if (!(away <= worst)) worst = away;
        }
    }
    return worst;
}

/* Runs the plan until the repeats or the time are used up; *best is the fastest run. */
static ota_status time_forward(tool_context *context, ota_plan *plan, const ota_arrays *arrays,
                               ota_result *result, double *best, ota_error *error) {
    const tool_whole *repeat = &context->settings.repeat;
    const int64_t most = repeat->given ? repeat->value : STANDARD_REPEAT;
    double total = 0.0;
    ota_status status = OTA_OK;
    *best = HUGE_VAL;
    for (int64_t run = 0; run <= most && status >= 0 && (run < 2 || total < MOST_SECONDS); run++) {
        const int64_t begun = tool_now_ns();
        status = ota_forward(plan, arrays, result, error);
        const double seconds = (double)(tool_now_ns() - begun) / 1e9;
        /* The first run warms the caches and counts only when the second would take too long. */
        if (run > 0 || seconds > MOST_SECONDS) *best = fmin(*best, seconds);
        total += seconds;
        if (seconds > MOST_SECONDS) break;
    }
    return status;
}

static ota_array over(void *data, ota_type type, int64_t rows, int64_t columns) {
    return ota_array_of(data, type, 1, 1, rows, columns);
}

static ota_status run_row(tool_context *context, bench_case *c, const ota_problem *problem,
                          const ota_options *options, bench_row *row, ota_error *error) {
    ota_plan *plan;
    ota_status status = ota_plan_create(&plan, problem, c->width, options, error);
    if (status < 0) return status;
    row->threads = ota_plan_threads(plan);
    (void)snprintf(row->kernel, sizeof row->kernel, "%s", ota_plan_kernel(plan));
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = over(c->v, c->type, c->keys, c->width),
                         .out = over(c->out, c->type, c->queries, c->width)};
    if (c->width == 0) {
        arrays.values = arrays.out = (ota_array){0};
        arrays.coupling = over(c->out, c->type, c->queries, c->keys);
    }
    if (potentials_define(problem)) {
        arrays.row_potential = over(c->row_potential, OTA_F64, 1, c->queries);
        arrays.column_potential = over(c->column_potential, OTA_F64, 1, c->keys);
    }
    ota_result result = {.size = sizeof result};
    status = time_forward(context, plan, &arrays, &result, &row->seconds, error);
    row->rounds = result.rounds;
    if (status >= 0 && !potentials_define(problem)) {
        ota_arrays again = {.size = sizeof again,
                            .coupling = over(c->coupling, OTA_F64, c->queries, c->keys)};
        const ota_status second = ota_forward(plan, &again, NULL, error);
        arrays.coupling = again.coupling;
        if (second < 0) status = second;
    }
    ota_plan_free(plan);
    if (status < 0) return status;
    /* The potentials say more than a plan rounded to its type. */
    if (c->width == 0 && potentials_define(problem)) arrays.coupling = (ota_array){0};
    ota_certificate certificate = {.size = sizeof certificate};
    const ota_status judged = ota_certify(problem, options, &arrays, &certificate, NULL, error);
    if (judged < 0) return judged;
    row->row_error = certificate.row_error;
    row->column_error = certificate.column_error;
    return status;
}

static int bench_method(tool_context *context, bench_case *c, const char *method, bench_row *row) {
    ota_problem problem = {.size = sizeof problem};
    if (c->width == 0) {
        problem.scores = over(c->scores, c->type, c->queries, c->keys);
    } else {
        problem.queries = over(c->q, c->type, c->queries, c->width);
        problem.keys = over(c->k, c->type, c->keys, c->width);
    }
    ota_options options = {.size = sizeof options,
                           .threads = (int)context->settings.threads.value,
                           .cpu = context->settings.cpu,
                           .cancel = context->cancel};
    ota_error error = {.message = ""};
    ota_status status = ota_method_parse(method, &problem, &options, &error);
    if (status < 0) return tool_fail_status(context, status, &error);
    (void)ota_method_name(&problem, row->method, sizeof row->method);
    (void)snprintf(row->shape, sizeof row->shape, "%" PRId64 "x%" PRId64 "x%" PRId64, c->queries,
                   c->keys, c->width);
    free(c->coupling);
    c->coupling = NULL;
    void *memory = NULL;
    int code = 0;
    if (!potentials_define(&problem)) {
        code = tool_memory(context, (size_t)(c->queries * c->keys) * sizeof(double), "the coupling",
                           &memory);
        c->coupling = memory;
    }
    double *scratch = malloc((size_t)c->keys * sizeof *scratch);
    if (code == 0 && scratch == NULL) {
        code = tool_fail(&context->error, TOOL_EXIT_LIMIT, "there is no memory left");
    }
    if (code == 0) {
        row->status = run_row(context, c, &problem, &options, row, &error);
        (void)snprintf(row->error, sizeof row->error, "%s", row->status < 0 ? error.message : "");
        row->max_error = row->status < 0 ? (double)NAN : error_of(c, &problem, scratch);
        if (row->status == OTA_CANCELLED) code = tool_fail_status(context, row->status, &error);
    }
    free(scratch);
    return code;
}

/* ---- report ---- */

typedef struct report {
    json_t *rows;
    double ceiling; /* 0 until it is measured */
    double read;    /* of the matrix of this shape, 0 until it is measured */
    bool headed;
} report;

static void add_ceiling(tool_context *context, report *r, const bench_row *row) {
    r->ceiling = tool_bench_ceiling(row->kernel, row->threads);
    json_t *object = json_object();
    (void)json_object_set_new(object, "name", json_string("fma-ceiling"));
    (void)json_object_set_new(object, "shape", json_null());
    (void)json_object_set_new(object, "dtype", json_string("f32"));
    (void)json_object_set_new(object, "threads", json_integer(row->threads));
    (void)json_object_set_new(object, "kernel", json_string(row->kernel));
    (void)json_object_set_new(object, "ns_per_pair", json_null());
    (void)json_object_set_new(object, "gflops", tool_json_real(r->ceiling));
    (void)json_object_set_new(object, "peer", json_null());
    (void)json_object_set_new(object, "peer_ns_per_pair", json_null());
    (void)json_object_set_new(object, "ratio", json_null());
    (void)json_object_set_new(object, "max_error", json_null());
    (void)json_array_append_new(r->rows, object);
    if (!context->settings.json) {
        (void)printf("fma-ceiling: %.4g Gflop/s in f32 on %d thread%s, %s\n", r->ceiling,
                     row->threads, row->threads == 1 ? "" : "s", row->kernel);
    }
}

/* What reading the matrix of a shape once costs: on it plain transport lives. */
static void add_read_ceiling(tool_context *context, report *r, const bench_case *c,
                             const bench_row *row) {
    const size_t bytes = (size_t)(c->queries * c->keys) * ota_type_bytes(c->type);
    r->read = tool_bench_read(row->kernel, c->scores, bytes);
    (void)json_array_append_new(r->rows,
                                json_pack("{sssssssssfso}", "name", "read-ceiling", "shape",
                                          row->shape, "dtype", tool_type_name(c->type), "kernel",
                                          row->kernel, "gbytes", r->read, "peer", json_null()));
    if (!context->settings.json)
        (void)printf("read-ceiling: %.4g Gbyte/s on 1 thread, %s\n", r->read, row->shape);
}

static void add_row(tool_context *context, report *r, const bench_case *c, const bench_row *row) {
    if (!(r->ceiling > 0.0) && row->kernel[0] != '\0') add_ceiling(context, r, row);
    if (!(r->read > 0.0) && row->kernel[0] != '\0' && c->width == 0)
        add_read_ceiling(context, r, c, row);
    const double pairs = (double)c->queries * (double)c->keys;
    const bool ran = row->status >= 0;
    const double none = (double)NAN;
    const double ns = ran ? row->seconds * 1e9 / pairs : none;
    const double gflops = ran ? 4.0 * pairs * (double)c->width / row->seconds * 1e-9 : none;
    const char *dtype = tool_type_name(c->type);
    char name[320];
    (void)snprintf(name, sizeof name, "%s %s %s", row->method, row->shape, dtype);
    json_t *object = json_object();
    (void)json_object_set_new(object, "name", json_string(name));
    (void)json_object_set_new(object, "method", json_string(row->method));
    (void)json_object_set_new(object, "status", json_string(ota_status_word(row->status)));
    (void)json_object_set_new(object, "shape", json_string(row->shape));
    (void)json_object_set_new(object, "dtype", json_string(dtype));
    (void)json_object_set_new(object, "threads", json_integer(row->threads));
    (void)json_object_set_new(object, "kernel", json_string(row->kernel));
    (void)json_object_set_new(object, "rounds", json_integer(row->rounds));
    (void)json_object_set_new(object, "seconds", tool_json_real(ran ? row->seconds : none));
    (void)json_object_set_new(object, "ns_per_pair", tool_json_real(ns));
    (void)json_object_set_new(object, "gflops", tool_json_real(gflops));
    (void)json_object_set_new(object, "share_of_ceiling", tool_json_real(gflops / r->ceiling));
    const double bytes = pairs * (double)ota_type_bytes(c->type) * (double)row->rounds;
    if (c->width == 0) {
        (void)json_object_set_new(object, "gbytes",
                                  tool_json_real(ran ? bytes / row->seconds * 1e-9 : none));
    }
    (void)json_object_set_new(object, "peer", json_null());
    (void)json_object_set_new(object, "peer_ns_per_pair", json_null());
    (void)json_object_set_new(object, "ratio", json_null());
    (void)json_object_set_new(object, "max_error", tool_json_real(row->max_error));
    (void)json_object_set_new(object, "row_error", tool_json_real(ran ? row->row_error : none));
    (void)json_object_set_new(object, "column_error",
                              tool_json_real(ran ? row->column_error : none));
    if (row->error[0] != '\0') (void)json_object_set_new(object, "error", json_string(row->error));
    (void)json_array_append_new(r->rows, object);
    if (context->settings.json) return;
    if (!r->headed) {
        (void)printf("%-26s %-16s %-5s %8s %9s %9s %9s %9s %9s  %s\n", "method", "shape", "dtype",
                     "ns/pair", "Gflop/s", "ceiling", "max err", "row err", "col err", "status");
    }
    r->headed = true;
    if (ran) {
        (void)printf("%-26s %-16s %-5s %8.4g %9.4g %8.1f%% %9.2g %9.2g %9.2g  %s\n", row->method,
                     row->shape, dtype, ns, gflops, 100.0 * gflops / r->ceiling, row->max_error,
                     row->row_error, row->column_error, ota_status_word(row->status));
    } else {
        (void)printf("%-26s %-16s %-5s %s: %s\n", row->method, row->shape, dtype,
                     ota_status_word(row->status), row->error);
    }
    (void)fflush(stdout);
}

static int bench_shape(tool_context *context, const char *shape, char **methods, int count,
                       report *r) {
    bench_case c = {.queries = 0};
    int code = make_case(context, shape, &c);
    r->read = 0.0;
    for (int k = 0; k < count && code == 0; k++) {
        bench_row row = {.status = OTA_UNSOLVED};
        code = bench_method(context, &c, methods[k], &row);
        if (code == 0) add_row(context, r, &c, &row);
    }
    free_case(&c);
    return code;
}

static int bench_all(tool_context *context, char **methods, int count, report *r) {
    const char *at = context->settings.shapes != NULL ? context->settings.shapes : "1024x1024x64";
    int code = 0;
    while (code == 0 && *at != '\0') {
        char shape[72];
        const size_t length = strcspn(at, ",");
        (void)snprintf(shape, sizeof shape, "%.*s", (int)(length < 71 ? length : 71), at);
        code = bench_shape(context, shape, methods, count, r);
        at += length + (at[length] == ',' ? 1 : 0);
    }
    return code;
}

int tool_bench(tool_context *context) {
    if (context->settings.random.given) return tool_bench_random(context);
    if (context->settings.small) return tool_bench_small(context);
    if (context->settings.scaling) return tool_bench_scaling(context);
    if (context->settings.gradients) return tool_bench_gradients(context);
    const char *list =
        context->settings.methods != NULL ? context->settings.methods : standard_methods;
    char *methods[MOST_METHODS];
    const int count = tool_split_methods(list, methods, MOST_METHODS);
    if (count < 0) {
        return tool_refuse_flag(context, "methods", NULL, "--methods holds more than %d methods",
                                MOST_METHODS);
    }
    report r = {.rows = json_array()};
    int code = bench_all(context, methods, count, &r);
    for (int k = 0; k < count; k++) free(methods[k]);
    if (code == TOOL_EXIT_INTERRUPTED && json_array_size(r.rows) > 0) {
        context->interrupted = true;
        code = 0;
    }
    if (code == 0 && context->settings.json) {
        return tool_print_json(
            stdout,
            json_pack("{sssssssoso}", "command", "bench", "version", ota_version(), "status",
                      ota_status_word(context->interrupted ? OTA_CANCELLED : OTA_OK), "rows",
                      r.rows, "warnings", json_incref(context->warnings)));
    }
    json_decref(r.rows);
    return code;
}
