/* `otattn bench --scaling`: two threads against one, f32, width 64, forward and the gradients of queries, keys
 * and values. Every row alternates the machine's own ceiling and the library on one and on two threads and
 * keeps the fastest of each:
 *
 *     gain  = seconds on one thread / seconds on two      share = gain / the ceiling's own gain */
#include "bench.h"

#include <string.h>

enum { WIDTH = 64, TRIES = 15 };

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

/* The same problem on one and on two threads. */
typedef struct scaling_run {
    const scaling_row *row;
    cli_bench_case cases[2];
    ota_plan *plans[2];
    double ceiling[2];
} scaling_run;

static ota_array over(const cli_bench_case *c, void *data) {
    return ota_array_of(data, c->type, 1, c->heads, c->queries, c->width);
}

static ota_array numbers(const cli_bench_case *c, double *data) {
    return ota_array_of(data, OTA_F64, 1, c->heads, 1, c->queries);
}

/* What is timed on t + 1 threads, after the machine's ceiling on as many. */
static ota_status run_once(void *context, int t, int64_t *begun, ota_error *error) {
    scaling_run *run = context;
    cli_bench_case *c = &run->cases[t];
    const ota_gradients gradients = {.size = sizeof gradients,
                                     .out_grad = over(c, c->in.out_grad),
                                     .queries = over(c, c->made.queries),
                                     .keys = over(c, c->made.keys),
                                     .values = over(c, c->made.values)};
    run->ceiling[t] =
        fmax(run->ceiling[t], cli_bench_ceiling(ota_plan_kernel(run->plans[t]), t + 1));
    *begun = cli_now_ns();
    ota_status status = ota_forward(run->plans[t], &c->arrays, NULL, error);
    if (status < 0 || !run->row->gradients) return status;
    *begun = cli_now_ns();
    return ota_backward(run->plans[t], &c->arrays, &gradients, NULL, error);
}

static int prepare(cli_context *context, scaling_run *run, int t, ota_error *error) {
    cli_bench_case *c = &run->cases[t];
    *c = (cli_bench_case){.heads = run->row->heads,
                          .queries = run->row->length,
                          .keys = run->row->length,
                          .width = WIDTH,
                          .type = OTA_F32,
                          .gradients = run->row->gradients};
    const int code = cli_bench_case_make(context, c);
    if (code != 0) return code;
    if (c->gradients) {
        c->arrays.row_potential = numbers(c, c->row_potential);
        c->arrays.column_potential = numbers(c, c->column_potential);
        c->arrays.lse = numbers(c, c->lse);
    }
    ota_status status = cli_bench_method(context, c, run->row->method, t + 1, error);
    if (status >= 0)
        status = ota_plan_create(&run->plans[t], &c->problem, WIDTH, &c->options, error);
    return status < 0 ? cli_fail_status(context, status, error) : 0;
}

static int measure(cli_context *context, scaling_run *run, json_t *out) {
    ota_error error = {.message = ""};
    const cli_bench_loop loop = {run_once, run, 2, TRIES, 0.0};
    cli_bench_seconds seconds[2];
    int code = prepare(context, run, 0, &error);
    if (code == 0) code = prepare(context, run, 1, &error);
    if (code != 0) return code;
    const ota_status status = cli_bench_time(&loop, seconds, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    bool same;
    const size_t bytes = (size_t)(run->row->heads * run->row->length) * WIDTH * sizeof(float);
    const cli_bench_outputs *one = &run->cases[0].made, *two = &run->cases[1].made;
    same = memcmp(one->out, two->out, bytes) == 0;
    if (run->row->gradients)
        same &= memcmp(one->queries, two->queries, bytes) == 0 &&
                memcmp(one->keys, two->keys, bytes) == 0 &&
                memcmp(one->values, two->values, bytes) == 0;
    const double gain = seconds[0].least / seconds[1].least;
    const double ceiling = run->ceiling[1] / run->ceiling[0];
    return json_object_update_new(
        out,
        json_pack("{sssosososososb}", "name", run->row->name, "seconds_1",
                  cli_json_real(seconds[0].least), "seconds_2", cli_json_real(seconds[1].least),
                  "gain", cli_json_real(gain), "ceiling_gain", cli_json_real(ceiling), "share",
                  cli_json_real(gain / ceiling), "same_bits", (int)same));
}

static const cli_bench_column columns[] = {
    {"name", "what", -38, 0, false, 1.0, NULL},
    {"seconds_1", "1 thread", 10, 4, false, 1e3, " ms"},
    {"seconds_2", "2 threads", 10, 4, false, 1e3, " ms"},
    {"gain", "gain", 6, 3, true, 1.0, NULL},
    {"ceiling_gain", "ceiling", 8, 3, true, 1.0, NULL},
    {"share", "share", 6, 3, true, 1.0, NULL},
    {"same_bits", "bits", 6, 0, false, 1.0, NULL},
};

enum { COLUMNS = (int)(sizeof columns / sizeof *columns) };

int cli_bench_scaling(cli_context *context) {
    json_t *table = json_array();
    int code = 0;
    if (!context->settings.output.json) cli_bench_heading(columns, COLUMNS);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0] && code == 0; k++) {
        scaling_run run = {.row = &rows[k]};
        json_t *row = json_object();
        (void)json_array_append_new(table, row);
        code = measure(context, &run, row);
        if (code == 0 && !context->settings.output.json) cli_bench_line(columns, COLUMNS, row);
        for (int t = 0; t < 2; t++) {
            ota_plan_free(run.plans[t]);
            cli_bench_case_free(&run.cases[t]);
        }
    }
    if (code == 0) return cli_bench_finish(context, table);
    json_decref(table);
    return code;
}
