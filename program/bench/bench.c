/* `otattn bench`: time of the forward pass on random Q, K, V ~ N(0,1), one row per shape and method, or with
 * --gradients that of the backward pass alone, after one forward, which makes the gradients of Q, K and V.
 *
 *     ns_per_pair = seconds / (n m)     gflops = 4 n m d / seconds, backward 10 n m d, whatever the method did
 *
 * The timed output itself is checked: P is recomputed in double by plain loops from the potentials that the
 * solver reports, or from the coupling where potentials do not define it. max_error is the largest difference of
 * P V from the timed output; of a backward pass that of P^T dL/dout from the gradient of V, absent where the
 * potentials do not define P.
 *
 * A shape with d = 0 is plain transport: S_ij = -|x_i - y_j|^2 of random points of the unit square is given as a
 * matrix [n][m], and the timed output is P [n][m] itself. With --masked hidden pairs count as pairs, and no share of
 * the ceiling is given. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/integers.h"

static const char *const standard_methods = "softmax,entmax:1.5,sparsemax,softmax/capped:2,softmax/"
                                            "relaxed:1,softmax/elastic:0.5,4,softmax/exact";

enum { MOST_METHODS = 64, STANDARD_REPEAT = 5 };

/* A row takes no more time than this once it has run once. */
static const double MOST_SECONDS = 2.0;

typedef struct bench_row {
    char method[160], shape[72], error[512], kernel[32];
    ota_status status;
    int64_t rounds;
    int threads;
    double seconds, max_error, row_error, column_error;
} bench_row;

/* ---- shapes ---- */

static bool read_shape(const char *text, cli_bench_case *c) {
    int64_t *const sizes[3] = {&c->queries, &c->keys, &c->width};
    const int64_t least[3] = {1, 1, c->gradients ? 1 : 0};
    for (int k = 0; k < 3; k++) {
        char one[24];
        const size_t length = strcspn(text, "x");
        (void)snprintf(one, sizeof one, "%.*s", (int)ota_size_min(length, 23), text);
        if (!cli_integer(one, sizes[k]) || *sizes[k] < least[k] || *sizes[k] > (int64_t)1 << 24 ||
            (text[length] == 'x') != (k < 2))
            return false;
        text += length + 1;
    }
    return true;
}

static int make_case(cli_context *context, const char *shape, cli_bench_case *c) {
    if (!read_shape(shape, c)) {
        return cli_refuse_flag(
            context, "shapes",
            c->gradients ? "write NxMxD, such as 1024x1024x64"
                         : "write NxMxD, such as 1024x1024x64; D = 0 gives a matrix of scores",
            "--shapes '%.40s' is no shape", shape);
    }
    c->heads = 1;
    c->type = cli_type_of(context->settings.output.dtype != NULL ? context->settings.output.dtype
                                                                 : "f32");
    return cli_bench_case_make(context, c);
}

/* ---- checking ---- */

/* The judge knows the plan of online from the potentials; plan_row below does not. */
static bool potentials_define(const ota_problem *problem) {
    return cli_potentials_tell(problem) && problem->columns != OTA_COLUMNS_ONLINE;
}

/* One row of P in double. */
static void plan_row(const cli_bench_case *c, int64_t i) {
    const ota_problem *problem = &c->problem;
    const double tau = problem->temperature > 0.0 ? problem->temperature : 1.0;
    const double power = problem->order - 1.0;
    if (c->coupling != NULL) {
        memcpy(c->row, c->coupling + i * c->keys, (size_t)c->keys * sizeof *c->row);
        return;
    }
    cli_bench_scores(c, i, c->row);
    for (int64_t j = 0; j < c->keys; j++) {
        const double level = (c->row[j] + c->row_potential[i] + c->column_potential[j]) / tau;
        c->row[j] = problem->regulariser == OTA_SOFTMAX ? exp(level)
                    : power * level > 0.0               ? pow(power * level, 1.0 / power)
                                                        : 0.0;
        if (problem->entry_cap > 0.0) c->row[j] = fmin(c->row[j], problem->entry_cap);
    }
}

static double error_of_output(const cli_bench_case *c) {
    double worst = 0.0;
    for (int64_t i = 0; i < c->queries; i++) {
        plan_row(c, i);
        worst = cli_bench_row_error(c, i, c->row, worst);
    }
    return worst;
}

/* Of dL/dV; NaN where the potentials do not define P or there is no memory. */
static double error_of_gradient(const cli_bench_case *c) {
    const int64_t count = c->keys * c->width;
    double *sum = potentials_define(&c->problem) ? calloc((size_t)count, sizeof *sum) : NULL;
    double worst = 0.0;
    if (sum == NULL) return (double)NAN;
    for (int64_t i = 0; i < c->queries; i++) {
        plan_row(c, i);
        for (int64_t k = 0; k < count; k++)
            sum[k] += c->row[k / c->width] *
                      cli_element(c->in.out_grad, c->type, (size_t)(i * c->width + k % c->width));
    }
    for (int64_t k = 0; k < count; k++) {
        const double away = fabs(sum[k] - cli_element(c->made.values, c->type, (size_t)k));
        if (!(away <= worst)) worst = away;
    }
    free(sum);
    return worst;
}

/* ---- one row ---- */

static ota_array over(const cli_bench_case *c, void *data, int64_t rows) {
    return ota_array_of(data, c->type, 1, 1, rows, c->width);
}

static ota_array numbers(double *data, int64_t count) {
    return ota_array_of(data, OTA_F64, 1, 1, 1, count);
}

typedef struct timed_calls {
    cli_bench_case *c;
    ota_plan *plan;
    ota_result result;
} timed_calls;

static ota_status call(void *context, int variant, int64_t *begun, ota_error *error) {
    timed_calls *calls = context;
    const cli_bench_case *c = calls->c;
    (void)variant;
    (void)begun;
    if (!c->gradients) return ota_forward(calls->plan, &c->arrays, &calls->result, error);
    const ota_gradients gradients = {.size = sizeof gradients,
                                     .out_grad = over(c, c->in.out_grad, c->queries),
                                     .queries = over(c, c->made.queries, c->queries),
                                     .keys = over(c, c->made.keys, c->keys),
                                     .values = over(c, c->made.values, c->keys),
                                     .solved = 1};
    return ota_backward(calls->plan, &c->arrays, &gradients, NULL, error);
}

/* The plan itself, by a call that is not timed. */
static ota_status solve_coupling(const timed_calls *calls, ota_error *error) {
    cli_bench_case *c = calls->c;
    const ota_arrays again = {.size = sizeof again,
                              .coupling =
                                  ota_array_of(c->coupling, OTA_F64, 1, 1, c->queries, c->keys)};
    const ota_status status = ota_forward(calls->plan, &again, NULL, error);
    c->arrays.coupling = again.coupling;
    return status;
}

/* max_error and, of a forward pass, what the judge finds. */
static ota_status check_row(cli_bench_case *c, bench_row *row, ota_error *error) {
    const bool defined = potentials_define(&c->problem);
    ota_certificate certificate = {.size = sizeof certificate};
    ota_arrays arrays = c->arrays;
    row->max_error = c->gradients ? error_of_gradient(c) : error_of_output(c);
    if (c->gradients) return OTA_OK;
    /* The potentials say more than a plan rounded to its type. */
    if (c->width == 0 && defined) arrays.coupling = (ota_array){0};
    const ota_status status =
        ota_certify(&c->problem, &c->options, &arrays, &certificate, NULL, error);
    row->row_error = certificate.row_error;
    row->column_error = certificate.column_error;
    return status;
}

static ota_status time_row(cli_context *context, cli_bench_case *c, bench_row *row,
                           ota_error *error) {
    const cli_whole *repeat = &context->settings.bench.repeat;
    timed_calls calls = {.c = c, .result = {.size = sizeof calls.result}};
    const cli_bench_loop loop = {call, &calls, 1, repeat->given ? repeat->value : STANDARD_REPEAT,
                                 MOST_SECONDS};
    cli_bench_seconds seconds = {HUGE_VAL, HUGE_VAL};
    ota_status status = ota_plan_create(&calls.plan, &c->problem, c->width, &c->options, error);
    if (status < 0) return status;
    row->threads = ota_plan_threads(calls.plan);
    (void)snprintf(row->kernel, sizeof row->kernel, "%s", ota_plan_kernel(calls.plan));
    if (c->gradients) status = ota_forward(calls.plan, &c->arrays, NULL, error);
    if (status >= 0) status = cli_bench_time(&loop, &seconds, error);
    row->seconds = seconds.least;
    row->rounds = calls.result.rounds;
    const ota_status coupled =
        status >= 0 && c->coupling != NULL ? solve_coupling(&calls, error) : OTA_OK;
    ota_plan_free(calls.plan);
    if (coupled < 0) status = coupled;
    const ota_status checked = status >= 0 ? check_row(c, row, error) : OTA_OK;
    return checked < 0 ? checked : status;
}

static int bench_method(cli_context *context, cli_bench_case *c, const char *method,
                        bench_row *row) {
    ota_error error = {.message = ""};
    const ota_arrays kept = c->arrays;
    const ota_status parsed =
        cli_bench_method(context, c, method, (int)context->settings.machine.threads.value, &error);
    if (parsed < 0) return cli_fail_status(context, parsed, &error);
    (void)ota_method_name(&c->problem, row->method, sizeof row->method);
    (void)snprintf(row->shape, sizeof row->shape, "%" PRId64 "x%" PRId64 "x%" PRId64, c->queries,
                   c->keys, c->width);
    void *memory = NULL;
    const bool defined = potentials_define(&c->problem);
    if (defined || c->gradients) {
        c->arrays.row_potential = numbers(c->row_potential, c->queries);
        c->arrays.column_potential = numbers(c->column_potential, c->keys);
    }
    if (c->gradients) {
        c->arrays.lse = numbers(c->lse, c->queries);
    } else if (!defined) {
        const int code = cli_memory(context, (size_t)(c->queries * c->keys) * sizeof(double),
                                    "the coupling", &memory);
        if (code != 0) return code;
    }
    c->coupling = memory;
    row->status = time_row(context, c, row, &error);
    (void)snprintf(row->error, sizeof row->error, "%s", row->status < 0 ? error.message : "");
    free(memory);
    c->coupling = NULL;
    c->arrays = kept;
    return row->status == OTA_CANCELLED ? cli_fail_status(context, row->status, &error) : 0;
}

/* ---- report ---- */

static const cli_bench_column columns[] = {
    {"method", "method", -26, 0, false, 1.0, NULL},
    {"shape", "shape", -16, 0, false, 1.0, NULL},
    {"dtype", "dtype", -5, 0, false, 1.0, NULL},
    {"ns_per_pair", "ns/pair", 8, 4, false, 1.0, NULL},
    {"gflops", "Gflop/s", 9, 4, false, 1.0, NULL},
    {"share_of_ceiling", "ceiling", 9, 1, true, 100.0, "%"},
    {"max_error", "max err", 9, 2, false, 1.0, NULL},
    {"row_error", "row err", 9, 2, false, 1.0, NULL},
    {"column_error", "col err", 9, 2, false, 1.0, NULL},
    {"status", "status", -2, 0, false, 1.0, NULL},
};

enum { COLUMNS = (int)(sizeof columns / sizeof *columns) };

typedef struct report {
    json_t *rows;
    double ceiling; /* 0 until it is measured */
    double read;    /* of the matrix of this shape, 0 until it is measured */
} report;

static void add_ceiling(cli_context *context, report *r, const bench_row *row, bool listed) {
    r->ceiling = cli_bench_ceiling(row->kernel, row->threads);
    if (listed)
        (void)json_array_append_new(
            r->rows,
            json_pack("{sssnsssisssnsosnsnsnsn}", "name", "fma-ceiling", "shape", "dtype", "f32",
                      "threads", row->threads, "kernel", row->kernel, "ns_per_pair", "gflops",
                      cli_json_real(r->ceiling), "peer", "peer_ns_per_pair", "ratio", "max_error"));
    if (context->settings.output.json) return;
    (void)printf("fma-ceiling: %.4g Gflop/s in f32 on %d thread%s, %s\n", r->ceiling, row->threads,
                 row->threads == 1 ? "" : "s", row->kernel);
}

/* What reading the matrix of a shape once costs: plain transport is bound by it. */
static void add_read_ceiling(cli_context *context, report *r, const cli_bench_case *c,
                             const bench_row *row) {
    const size_t bytes = (size_t)(c->queries * c->keys) * ota_type_bytes(c->type);
    r->read = cli_bench_read(row->kernel, c->scores, bytes);
    (void)json_array_append_new(r->rows,
                                json_pack("{sssssssssfsn}", "name", "read-ceiling", "shape",
                                          row->shape, "dtype", cli_type_name(c->type), "kernel",
                                          row->kernel, "gbytes", r->read, "peer"));
    if (!context->settings.output.json)
        (void)printf("read-ceiling: %.4g Gbyte/s on 1 thread, %s\n", r->read, row->shape);
}

static void add_pass(const cli_bench_case *c, const report *r, const bench_row *row,
                     json_t *object) {
    const bool ran = row->status >= 0;
    const double none = (double)NAN;
    if (c->gradients) {
        (void)json_object_update_new(object,
                                     json_pack("{ssssso}", "name", row->method, "pass", "backward",
                                               "ceiling", cli_json_real(r->ceiling)));
        return;
    }
    char name[320];
    (void)snprintf(name, sizeof name, "%s %s %s%s%s", row->method, row->shape,
                   cli_type_name(c->type), c->masked != NULL ? " " : "",
                   c->masked != NULL ? c->masked : "");
    (void)json_object_update_new(
        object, json_pack("{sssIsnsnsnsoso}", "name", name, "rounds", (json_int_t)row->rounds,
                          "peer", "peer_ns_per_pair", "ratio", "row_error",
                          cli_json_real(ran ? row->row_error : none), "column_error",
                          cli_json_real(ran ? row->column_error : none)));
    if (c->width > 0) return;
    const double bytes = (double)(c->queries * c->keys) * (double)ota_type_bytes(c->type);
    (void)json_object_set_new(
        object, "gbytes",
        cli_json_real(ran ? bytes * (double)row->rounds / row->seconds * 1e-9 : none));
}

static void add_row(cli_context *context, report *r, const cli_bench_case *c,
                    const bench_row *row) {
    const bool first = !(r->ceiling > 0.0);
    if (first && row->kernel[0] != '\0') add_ceiling(context, r, row, !c->gradients);
    if (!(r->read > 0.0) && row->kernel[0] != '\0' && c->width == 0)
        add_read_ceiling(context, r, c, row);
    const double pairs = (double)c->queries * (double)c->keys, flops = c->gradients ? 10.0 : 4.0;
    const double seconds = row->status >= 0 ? row->seconds : (double)NAN;
    const double gflops = flops * pairs * (double)c->width / seconds * 1e-9;
    json_t *object = json_pack(
        "{sssssssssisssosososo}", "method", row->method, "status", ota_status_word(row->status),
        "shape", row->shape, "dtype", cli_type_name(c->type), "threads", row->threads, "kernel",
        row->kernel, "seconds", cli_json_real(seconds), "ns_per_pair",
        cli_json_real(seconds * 1e9 / pairs), "gflops", cli_json_real(gflops), "share_of_ceiling",
        cli_json_real(c->masked != NULL ? (double)NAN : gflops / r->ceiling));
    if (c->masked != NULL) (void)json_object_set_new(object, "masked", json_string(c->masked));
    (void)json_object_set_new(object, "max_error",
                              cli_json_real(row->status >= 0 ? row->max_error : (double)NAN));
    if (row->error[0] != '\0') (void)json_object_set_new(object, "error", json_string(row->error));
    add_pass(c, r, row, object);
    (void)json_array_append_new(r->rows, object);
    if (context->settings.output.json) return;
    if (first) cli_bench_heading(columns, COLUMNS);
    cli_bench_line(columns, COLUMNS, object);
}

static int bench_shape(cli_context *context, const char *shape, char **methods, int count,
                       report *r) {
    cli_bench_case c = {.gradients = context->settings.bench.gradients,
                        .masked = context->settings.bench.masked};
    int code = make_case(context, shape, &c);
    r->read = 0.0;
    for (int k = 0; k < count && code == 0; k++) {
        bench_row row = {.status = OTA_UNSOLVED};
        code = bench_method(context, &c, methods[k], &row);
        if (code == 0) add_row(context, r, &c, &row);
    }
    cli_bench_case_free(&c);
    return code;
}

static int bench_all(cli_context *context, char **methods, int count, report *r) {
    const char *at =
        context->settings.bench.shapes != NULL ? context->settings.bench.shapes : "1024x1024x64";
    int code = 0;
    while (code == 0 && *at != '\0') {
        char shape[72];
        const size_t length = strcspn(at, ",");
        (void)snprintf(shape, sizeof shape, "%.*s", (int)ota_size_min(length, 71), at);
        code = bench_shape(context, shape, methods, count, r);
        at += length + (at[length] == ',' ? 1 : 0);
    }
    return code;
}

/* Flags that what is asked for does not read. */
static int refuse_unread(cli_context *context) {
    const cli_settings *s = &context->settings;
    const bool random = s->bench.random.given, scaling = s->bench.scaling;
    const char *of = random ? "random" : s->bench.small ? "small" : scaling ? "scaling" : NULL;
    const struct {
        const char *name;
        bool given, unread;
    } flags[] = {{"methods", s->method.list != NULL, of != NULL},
                 {"shapes", s->bench.shapes != NULL, of != NULL},
                 {"masked", s->bench.masked != NULL, of != NULL},
                 {"gradients", s->bench.gradients, of != NULL},
                 {"repeat", s->bench.repeat.given, of != NULL},
                 {"dtype", s->output.dtype != NULL, of != NULL},
                 {"threads", s->machine.threads.given, !random && !s->bench.small && scaling}};
    if (s->bench.first.given && !random)
        return cli_refuse_flag(context, "first", "write --random N, too",
                               "--first has no use alone");
    for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) {
        if (flags[k].given && flags[k].unread)
            return cli_refuse_flag(context, flags[k].name, "leave one of both out",
                                   "--%s has no use with --%s", flags[k].name, of);
    }
    return 0;
}

int cli_bench(cli_context *context) {
    const cli_settings *s = &context->settings;
    const int unread = refuse_unread(context);
    if (unread != 0) return unread;
    if (s->bench.random.given) return cli_bench_random(context);
    if (s->bench.small) return cli_bench_small(context);
    if (s->bench.scaling) return cli_bench_scaling(context);
    const char *standard = s->bench.gradients ? "softmax" : standard_methods;
    char *methods[MOST_METHODS];
    const int count = cli_split_methods(s->method.list != NULL ? s->method.list : standard, methods,
                                        MOST_METHODS);
    if (count < 0) {
        return cli_refuse_flag(context, "methods", NULL, "--methods holds more than %d methods",
                               MOST_METHODS);
    }
    report r = {.rows = json_array()};
    int code = bench_all(context, methods, count, &r);
    for (int k = 0; k < count; k++) free(methods[k]);
    if (code == CLI_EXIT_INTERRUPTED && json_array_size(r.rows) > 0) {
        context->interrupted = true;
        code = 0;
    }
    if (code == 0) return cli_bench_finish(context, r.rows);
    json_decref(r.rows);
    return code;
}
