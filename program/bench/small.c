/* `otattn bench --small`: what a call costs when there is little to do. Rows, f32, width 64, one head:
 *
 *     plan      ota_plan_create and ota_plan_free of 64 x 64
 *     call      ota_forward of 1 x 1 and of 64 x 64
 *     decode    ota_decode of one query against a cache of 1k, 16k and 64k keys; GB/s counts keys and values once
 *     entmax    the same with entmax:1.5, which reads few of the values
 *
 * Each is the fastest of many. The timed output of the last call is compared with plain loops in double. */
#include "bench.h"

enum { WIDTH = 64, TRIES = 50 };

typedef struct small_row {
    const char *name;
    int64_t queries, keys;
    enum { CALL, CREATE, DECODE } kind;
    bool entmax; /* entmax:1.5, else softmax */
} small_row;

static const small_row rows[] = {
    {"plan 64x64", 64, 64, CREATE, false},   {"call 1x1", 1, 1, CALL, false},
    {"call 64x64", 64, 64, CALL, false},     {"decode 1k", 1, 1024, DECODE, false},
    {"decode 16k", 1, 16384, DECODE, false}, {"decode 64k", 1, 65536, DECODE, false},
    {"entmax 1k", 1, 1024, DECODE, true},    {"entmax 16k", 1, 16384, DECODE, true},
    {"entmax 64k", 1, 65536, DECODE, true},
};

typedef struct small_calls {
    const small_row *row;
    const cli_bench_case *c;
    ota_plan *plan;
    int64_t repeat;
} small_calls;

/* `repeat` calls of what the row times. */
static ota_status repeat_calls(void *context, int variant, int64_t *begun, ota_error *error) {
    const small_calls *calls = context;
    const cli_bench_case *c = calls->c;
    ota_status status = OTA_OK;
    (void)variant;
    (void)begun;
    for (int64_t r = 0; r < calls->repeat && status >= 0; r++) {
        if (calls->row->kind == CREATE) {
            ota_plan *fresh;
            status = ota_plan_create(&fresh, &c->problem, WIDTH, &c->options, error);
            if (status >= 0) ota_plan_free(fresh);
        } else if (calls->row->kind == DECODE) {
            status = ota_decode(calls->plan, &c->arrays, c->keys, NULL, error);
        } else {
            status = ota_forward(calls->plan, &c->arrays, NULL, error);
        }
    }
    return status;
}

/* Scores -> weights that sum to 1: softmax, or [z/2 - t]_+^2 with t by bisection. */
static void weigh(bool entmax, double *p, int64_t count) {
    double top = -HUGE_VAL, sum = 0.0, low = -1.0, high = 0.0;
    for (int64_t j = 0; j < count; j++) top = fmax(top, p[j]);
    for (int64_t j = 0; j < count; j++) p[j] -= top;
    for (int step = 0; entmax && step < 60; step++) {
        const double t = 0.5 * (low + high);
        double mass = 0.0;
        for (int64_t j = 0; j < count; j++) mass += pow(fmax(0.0, 0.5 * p[j] - t), 2.0);
        *(mass > 1.0 ? &low : &high) = t;
    }
    for (int64_t j = 0; j < count; j++)
        sum += p[j] = entmax ? pow(fmax(0.0, 0.5 * p[j] - low), 2.0) : exp(p[j]);
    for (int64_t j = 0; j < count; j++) p[j] /= sum;
}

static double largest_error(const small_row *row, const cli_bench_case *c) {
    double worst = 0.0;
    for (int64_t i = 0; i < row->queries; i++) {
        cli_bench_scores(c, i, c->row);
        weigh(row->entmax, c->row, row->keys);
        worst = cli_bench_row_error(c, i, c->row, worst);
    }
    return worst;
}

static int time_row(cli_context *context, const small_row *row, cli_bench_case *c, json_t *out) {
    ota_error error = {.message = ""};
    /* Enough calls for the clock and few enough to meet a busy machine's gaps. */
    small_calls calls = {row, c, NULL, 1 + 20000 / (row->queries * row->keys + 1000)};
    const cli_bench_loop loop = {repeat_calls, &calls, 1, TRIES, 0.0};
    cli_bench_seconds seconds;
    ota_status status = cli_bench_method(context, c, row->entmax ? "entmax:1.5" : "softmax",
                                         (int)context->settings.machine.threads.value, &error);
    if (status >= 0) status = ota_plan_create(&calls.plan, &c->problem, WIDTH, &c->options, &error);
    if (status >= 0) status = cli_bench_time(&loop, &seconds, &error);
    if (status >= 0 && row->kind == CREATE)
        status = ota_forward(calls.plan, &c->arrays, NULL, &error);
    const int threads = calls.plan == NULL ? 0 : ota_plan_threads(calls.plan);
    ota_plan_free(calls.plan);
    if (status < 0) return cli_fail_status(context, status, &error);
    const double us = seconds.least / (double)calls.repeat * 1e6;
    const double bytes = 2.0 * (double)row->keys * (double)WIDTH * sizeof(float);
    const double rate = row->kind == DECODE ? bytes / us * 1e-3 : (double)NAN;
    return json_object_update_new(
        out, json_pack("{sssisososo}", "name", row->name, "threads", threads, "microseconds",
                       cli_json_real(us), "gigabytes_per_second", cli_json_real(rate), "max_error",
                       cli_json_real(largest_error(row, c))));
}

static const cli_bench_column columns[] = {
    {"name", "what", -12, 0, false, 1.0, NULL},
    {"threads", "threads", 8, 0, true, 1.0, NULL},
    {"microseconds", "us", 12, 4, false, 1.0, NULL},
    {"gigabytes_per_second", "GB/s", 8, 4, false, 1.0, NULL},
    {"max_error", "max err", 9, 2, false, 1.0, NULL},
};

enum { COLUMNS = (int)(sizeof columns / sizeof *columns) };

int cli_bench_small(cli_context *context) {
    json_t *table = json_array();
    int code = 0;
    if (!context->settings.output.json) cli_bench_heading(columns, COLUMNS);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0] && code == 0; k++) {
        cli_bench_case c = {.heads = 1,
                            .queries = rows[k].queries,
                            .keys = rows[k].keys,
                            .width = WIDTH,
                            .type = OTA_F32};
        json_t *row = json_object();
        (void)json_array_append_new(table, row);
        code = cli_bench_case_make(context, &c);
        if (code == 0) code = time_row(context, &rows[k], &c, row);
        if (code == 0 && !context->settings.output.json) cli_bench_line(columns, COLUMNS, row);
        cli_bench_case_free(&c);
    }
    if (code == 0) return cli_bench_finish(context, table);
    json_decref(table);
    return code;
}
