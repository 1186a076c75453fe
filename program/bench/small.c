/* `otattn bench --small`: what a call costs when there is little to do. Rows, f32, width 64, one head:
 *
 *     plan      ota_plan_create and ota_plan_free of 64 x 64
 *     call      ota_forward of 1 x 1 and of 64 x 64
 *     decode    ota_decode of one query against a cache of 1k, 16k and 64k keys; GB/s counts keys and values once
 *     entmax    the same with entmax:1.5, which reads few of the values
 *
 * Each is the fastest of many. The timed output of the last call is compared with plain loops in double. */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

typedef struct small_case {
    float *q, *k, *v, *out;
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
} small_case;

static int small_case_make(tool_context *context, const small_row *row, small_case *c) {
    const int64_t sizes[4] = {row->queries * WIDTH, row->keys * WIDTH, row->keys * WIDTH,
                              row->queries * WIDTH};
    float **const to[4] = {&c->q, &c->k, &c->v, &c->out};
    uint64_t state = (uint64_t)context->settings.seed.value + 1;
    for (int i = 0; i < 4; i++) {
        void *memory = NULL;
        const int code =
            tool_memory(context, (size_t)sizes[i] * sizeof(float), "an array", &memory);
        if (code != 0) return code;
        *to[i] = memory;
        for (int64_t e = 0; e < sizes[i]; e++) (*to[i])[e] = (float)tool_random_normal(&state);
    }
    c->problem = (ota_problem){
        .size = sizeof c->problem,
        .queries = ota_array_of(c->q, OTA_F32, 1, 1, row->queries, WIDTH),
        .keys = ota_array_of(c->k, OTA_F32, 1, 1, row->keys, WIDTH),
        .regulariser = row->entmax ? OTA_ENTMAX : OTA_SOFTMAX,
        .order = row->entmax ? 1.5 : 0.0,
    };
    c->options = (ota_options){.size = sizeof c->options,
                               .threads = (int)context->settings.threads.value,
                               .cpu = context->settings.cpu,
                               .cancel = context->cancel};
    c->arrays = (ota_arrays){.size = sizeof c->arrays,
                             .values = ota_array_of(c->v, OTA_F32, 1, 1, row->keys, WIDTH),
                             .out = ota_array_of(c->out, OTA_F32, 1, 1, row->queries, WIDTH)};
    return 0;
}

/* `repeat` calls of what the row times. */
static ota_status repeat_calls(const small_row *row, const small_case *c, ota_plan *plan,
                               int64_t repeat, ota_error *error) {
    ota_status status = OTA_OK;
    for (int64_t r = 0; r < repeat && status >= 0; r++) {
        if (row->kind == CREATE) {
            ota_plan *fresh;
            status = ota_plan_create(&fresh, &c->problem, WIDTH, &c->options, error);
            if (status >= 0) ota_plan_free(fresh);
        } else if (row->kind == DECODE) {
            status = ota_decode(plan, &c->arrays, row->keys, NULL, error);
        } else {
            status = ota_forward(plan, &c->arrays, NULL, error);
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

static double largest_error(const small_row *row, const small_case *c) {
    double worst = 0.0;
    double *p = malloc((size_t)row->keys * sizeof *p);
    for (int64_t i = 0; i < row->queries && p != NULL; i++) {
        double exact[WIDTH] = {0.0};
        for (int64_t j = 0; j < row->keys; j++) {
            p[j] = 0.0;
            for (int64_t w = 0; w < WIDTH; w++)
                p[j] += (double)c->q[i * WIDTH + w] * (double)c->k[j * WIDTH + w];
            p[j] /= sqrt((double)WIDTH);
        }
        weigh(row->entmax, p, row->keys);
        for (int64_t j = 0; j < row->keys; j++)
            for (int64_t w = 0; w < WIDTH; w++) exact[w] += p[j] * (double)c->v[j * WIDTH + w];
        for (int64_t w = 0; w < WIDTH; w++)
            worst = fmax(worst, fabs(exact[w] - (double)c->out[i * WIDTH + w]));
    }
    if (p == NULL) worst = HUGE_VAL;
    free(p);
    return worst;
}

static int time_row(tool_context *context, const small_row *row, small_case *c, double *best,
                    double *error_of_output, int *threads) {
    ota_error error = {.message = ""};
    ota_plan *plan = NULL;
    ota_status status = ota_plan_create(&plan, &c->problem, WIDTH, &c->options, &error);
    /* Enough calls for the clock and few enough to meet a busy machine's gaps. */
    const int64_t repeat = 1 + 20000 / (row->queries * row->keys + 1000);
    *best = HUGE_VAL;
    for (int try = 0; try < TRIES && status >= 0; try++) {
        const int64_t begun = tool_now_ns();
        status = repeat_calls(row, c, plan, repeat, &error);
        *best = fmin(*best, (double)(tool_now_ns() - begun) / (double)repeat * 1e-3);
    }
    if (status >= 0 && row->kind == CREATE) status = ota_forward(plan, &c->arrays, NULL, &error);
    *threads = plan == NULL ? 0 : ota_plan_threads(plan);
    ota_plan_free(plan);
    if (status < 0) return tool_fail_status(context, status, &error);
    *error_of_output = largest_error(row, c);
    return 0;
}

int tool_bench_small(tool_context *context) {
    json_t *table = json_array();
    int code = 0;
    if (!context->settings.json)
        (void)printf("%-12s %8s %12s %8s %9s\n", "what", "threads", "us", "GB/s", "max err");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0] && code == 0; k++) {
        small_case c = {.q = NULL};
        double us = 0.0, error = 0.0;
        int threads = 0;
        code = small_case_make(context, &rows[k], &c);
        if (code == 0) code = time_row(context, &rows[k], &c, &us, &error, &threads);
        const double bytes = 2.0 * (double)rows[k].keys * WIDTH * sizeof(float);
        const double rate = rows[k].kind == DECODE ? bytes / us * 1e-3 : (double)NAN;
        if (code == 0) {
            json_t *row = json_object();
            (void)json_object_set_new(row, "name", json_string(rows[k].name));
            (void)json_object_set_new(row, "threads", json_integer(threads));
            (void)json_object_set_new(row, "microseconds", tool_json_real(us));
            (void)json_object_set_new(row, "gigabytes_per_second", tool_json_real(rate));
            (void)json_object_set_new(row, "max_error", tool_json_real(error));
            (void)json_array_append_new(table, row);
        }
        if (code == 0 && !context->settings.json) {
            (void)printf("%-12s %8d %12.4g ", rows[k].name, threads, us);
            if (rows[k].kind == DECODE)
                (void)printf("%8.4g ", rate);
            else
                (void)printf("%8s ", "-");
            (void)printf("%9.2g\n", error);
        }
        free(c.q);
        free(c.k);
        free(c.v);
        free(c.out);
    }
    if (code == 0 && context->settings.json) {
        return tool_print_json(stdout, json_pack("{sssssssoso}", "command", "bench", "version",
                                                 ota_version(), "status", "ok", "rows", table,
                                                 "warnings", json_incref(context->warnings)));
    }
    json_decref(table);
    return code;
}
