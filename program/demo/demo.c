/* `otattn demo`: what each column rule does to the attention of a trained model.
 *
 *     S = Q K^T / sqrt(width) [DEMO_HEADS, count, count]; for every rule P, its column sums, P V, and the
 *     judge's certificate; then the elastic update while it cools to a permutation.
 *
 * The terminal gets the three cases as maps and one line a rule; the page of ./dev demo is the playground (web/). */
#include "demo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/transport/heatmap.h"

static const demo_rule demo_rules[DEMO_RULES] = {
    {"softmax", "softmax"},
    {"softmax/exact", "doubly stochastic"},
    {"hard/exact", "hard assignment"},
    {"elastic:0,4", "elastic 0"},
    {"elastic:0.25,4", "elastic 0.25"},
    {"elastic:0.5,4", "elastic 0.5"},
    {"elastic:1,4", "elastic 1"},
    {"entmax:1.5", "entmax 1.5"},
    {"sparsemax", "sparsemax"},
    {"softmax/capped:2", "capped at 2"},
    {"softmax/relaxed:1", "relaxed, rho = 1"},
};
static const demo_rule cooled_rule = {NULL, "elastic 1, cooled"};
static const double coldest = 0.01;

static void demo_number(double value, char *text, size_t size) {
    if (!isfinite(value))
        (void)snprintf(text, size, "-");
    else if (!(fabs(value) > 0))
        (void)snprintf(text, size, "0");
    else if (fabs(value) >= 0.01)
        (void)snprintf(text, size, "%.2f", value);
    else
        (void)snprintf(text, size, "%.0e", value);
}

static const char *demo_fullest(const demo_data *data, const demo_result *result, int head) {
    const double mass = result->received[head * data->count + result->top[head]];
    return mass > 1.005 ? data->tokens[result->top[head]] : "(even)";
}

static ota_array over(double *data, const demo_data *at, int64_t columns) {
    return ota_array_of(data, OTA_F64, 1, DEMO_HEADS, at->count, columns);
}

static void free_result(demo_result *result) {
    free(result->coupling);
    free(result->received);
    free(result->out);
    memset(result, 0, sizeof *result);
}

static void sum_columns(const demo_data *data, demo_result *result) {
    const int64_t n = data->count;
    for (int64_t head = 0; head < DEMO_HEADS; head++) {
        double *received = result->received + head * n;
        for (int64_t cell = 0; cell < n * n; cell++)
            received[cell % n] += result->coupling[head * n * n + cell];
        for (int64_t key = 1; key < n; key++) {
            if (received[key] > received[result->top[head]]) result->top[head] = key;
        }
    }
}

/* Solves the demo's problem by `method` at `temperature`; with anneal > 0 the temperature falls to it
 * from 1 by that factor a round. Returns 0 or an exit code; a plan short of the tolerance is a result. */
static int solve(cli_context *context, const demo_data *data, const char *method,
                 double temperature, double anneal, demo_result *result) {
    const size_t n = (size_t)data->count;
    memset(result, 0, sizeof *result);
    result->temperature = temperature;
    result->coupling = calloc(DEMO_HEADS * n * n, sizeof(double));
    result->received = calloc(DEMO_HEADS * n, sizeof(double));
    result->out = calloc(DEMO_HEADS * n * (size_t)data->width, sizeof(double));
    ota_error error = {{0}, {0}, {0}};
    if (result->coupling == NULL || result->received == NULL || result->out == NULL)
        return cli_fail_status(context, OTA_ENOMEM, &error);

    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    ota_status status = ota_method_parse(method, &problem, &options, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    problem.queries = over(data->query, data, data->width);
    problem.keys = over(data->key, data, data->width);
    problem.temperature = temperature;
    options.allow_partial = 1;
    options.cancel = context->cancel;
    options.cpu = context->settings.machine.cpu;
    /* Problems of this size are solved before a second thread has started. */
    options.threads =
        context->settings.machine.threads.given ? (int)context->settings.machine.threads.value : 1;
    if (anneal > 0) {
        options.anneal_start = 1;
        options.anneal_factor = anneal;
    }
    ota_arrays arrays = {.size = sizeof arrays};
    ota_result outcome = {.size = sizeof outcome};
    arrays.values = over(data->value, data, data->width);
    arrays.coupling = over(result->coupling, data, data->count);
    arrays.out = over(result->out, data, data->width);
    double potentials[2][DEMO_HEADS * 512];
    arrays.row_potential = ota_array_of(potentials[0], OTA_F64, 1, DEMO_HEADS, 1, data->count);
    arrays.column_potential = ota_array_of(potentials[1], OTA_F64, 1, DEMO_HEADS, 1, data->count);
    status = ota_attend(&problem, &options, &arrays, &outcome, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    result->status = status;
    result->rounds = outcome.rounds;
    sum_columns(data, result);
    ota_certificate worst = {.size = sizeof worst};
    for (int head = 0; head < DEMO_HEADS; head++) result->certificates[head].size = sizeof worst;
    status = ota_certify(&problem, &options, &arrays, &worst, result->certificates, &error);
    return status < 0 ? cli_fail_status(context, status, &error) : 0;
}

static void compare_outputs(const demo_data *data, const demo_result *softmax,
                            demo_result *result) {
    const size_t size = (size_t)(data->count * data->width);
    for (size_t head = 0; head < DEMO_HEADS; head++) {
        double moved = 0, norm = 0;
        for (size_t index = head * size; index < (head + 1) * size; index++) {
            const double change = result->out[index] - softmax->out[index];
            moved += change * change;
            norm += softmax->out[index] * softmax->out[index];
        }
        result->output_change[head] = sqrt(moved / norm);
    }
}

static int solve_rules(cli_context *context, demo_run *run) {
    for (int index = 0; index < DEMO_RULES; index++) {
        demo_result *result = &run->rules[index];
        const int code = solve(context, &run->data, demo_rules[index].method, 1, 0, result);
        if (code != 0) return code;
        result->rule = &demo_rules[index];
        compare_outputs(&run->data, &run->rules[0], result);
    }
    return 0;
}

/* Share of head 0's mass that lies where the best assignment has its pairs. */
static double share_on_assignment(const demo_run *run, const demo_result *result) {
    const int64_t n = run->data.count;
    const double *assignment = run->rules[2].coupling;
    double mass = 0;
    for (int64_t cell = 0; cell < n * n; cell++) mass += result->coupling[cell] * assignment[cell];
    return mass / (double)n;
}

static int cool(cli_context *context, demo_run *run) {
    char method[48];
    (void)snprintf(method, sizeof method, "elastic:1,%d", DEMO_STAGES + 1);
    const double factor = pow(coldest, 1.0 / (double)DEMO_STAGES);
    const int code = solve(context, &run->data, method, coldest, factor, &run->cooled);
    if (code != 0) return code;
    run->cooled.rule = &cooled_rule;
    compare_outputs(&run->data, &run->rules[0], &run->cooled);
    run->cooled_share = share_on_assignment(run, &run->cooled);
    return 0;
}

/* ---- terminal ------------------------------------------------------------------------------------- */

static void print_line(const demo_data *data, const demo_result *result, cli_shades shades) {
    const ota_certificate *certificate = &result->certificates[0];
    const char *method = result->rule->method;
    const bool columns = method != NULL && strchr(method, '/') != NULL;
    const double values[] = {
        result->received[result->top[0]],
        result->received[data->count + result->top[1]],
        certificate->support,
        certificate->row_error,
        columns ? certificate->column_error : (double)NAN,
        certificate->gap,
    };
    static const int widths[] = {6, 7, 8, 6, 7, 7};
    cli_print_padded(stdout, shades, result->rule->title, 18);
    cli_print_padded(stdout, shades, demo_fullest(data, result, 0), 8);
    for (size_t index = 0; index < sizeof widths / sizeof widths[0]; index++) {
        char number[24];
        demo_number(values[index], number, sizeof number);
        (void)printf("%*s", widths[index], number);
    }
    (void)printf("  %s\n", ota_status_word(result->status));
}

static void print_text(const demo_run *run) {
    const demo_data *data = &run->data;
    const size_t n = (size_t)data->count;
    const cli_shades shades = cli_shades_for(stdout);
    const int width = cli_terminal_width(stdout);
    (void)printf(
        "\"%s\"\n%zu tokens, read by %s.\n"
        "Every token hands out one unit of attention. In layer %lld, head %lld softmax gives\n"
        "%s %.2f of the %zu units.\n\n",
        data->sentence, n, data->model, (long long)data->layers[0], (long long)data->heads[0],
        data->tokens[run->rules[0].top[0]], run->rules[0].received[run->rules[0].top[0]], n);
    cli_heatmap maps[DEMO_CASES];
    for (int index = 0; index < DEMO_CASES; index++)
        maps[index] = (cli_heatmap){run->rules[index].rule->title, run->rules[index].coupling};
    const cli_heatmap_labels labels = {
        .row = data->tokens, .column = data->tokens, .rows = n, .columns = n};
    cli_heatmaps_print(stdout, shades, width, maps, DEMO_CASES, &labels);
    (void)printf("\nRows are queries, columns keys; shade = square root of the weight.\n\n"
                 "%-18s%-8s%6s%7s%8s%6s%7s%7s\n",
                 "rule", "fullest", "mass", "head 2", "support", "row", "column", "gap");
    for (int index = 0; index < DEMO_RULES; index++) print_line(data, &run->rules[index], shades);
    print_line(data, &run->cooled, shades);
    (void)printf(
        "\nmass: units at the fullest key (1 is an even share), here and in layer %lld,\n"
        "head %lld. row, column: errors of the sums that the rule promises; gap: distance\n"
        "to the optimum at most. The judge that measured them shares no code with the\n"
        "solvers.\n"
        "Cooled to temperature %g, %.0f %% of the mass lies on the best assignment.\n",
        (long long)data->layers[1], (long long)data->heads[1], coldest, 100 * run->cooled_share);
}

/* ---- JSON ----------------------------------------------------------------------------------------- */

static json_t *result_json(const demo_data *data, const demo_result *result, int head) {
    const int64_t top = result->top[head];
    const char *method = result->rule->method;
    return json_pack("{s:s, s:s?, s:s, s:I, s:o, s:s, s:o, s:o, s:o}", "rule", result->rule->title,
                     "method", method, "status", ota_status_word(result->status), "rounds",
                     (json_int_t)result->rounds, "temperature", cli_json_real(result->temperature),
                     "receiver", data->tokens[top], "received",
                     cli_json_real(result->received[head * data->count + top]), "output_change",
                     cli_json_real(result->output_change[head]), "certificate",
                     cli_certificate_json(&result->certificates[head]));
}

static json_t *run_json(const demo_run *run) {
    const demo_data *data = &run->data;
    json_t *heads = json_array();
    for (int head = 0; head < DEMO_HEADS; head++) {
        json_t *rules = json_array();
        for (int index = 0; index < DEMO_RULES; index++)
            (void)json_array_append_new(rules, result_json(data, &run->rules[index], head));
        (void)json_array_append_new(rules, result_json(data, &run->cooled, head));
        (void)json_array_append_new(
            heads, json_pack("{s:I, s:I, s:o}", "layer", (json_int_t)data->layers[head], "head",
                             (json_int_t)data->heads[head], "methods", rules));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o}", "command", "demo", "version",
                     ota_version(), "model", data->model, "sentence", data->sentence, "tokens",
                     (json_int_t)data->count, "seconds", cli_json_real(run->seconds), "heads",
                     heads, "outputs", json_object());
}

static int run_all(cli_context *context, demo_run *run) {
    const int64_t begun = cli_now_ns();
    int code = solve_rules(context, run);
    if (code == 0) code = cool(context, run);
    run->seconds = (double)(cli_now_ns() - begun) / 1e9;
    return code;
}

int cli_demo(cli_context *context) {
    demo_run *run = calloc(1, sizeof *run);
    const ota_error error = {{0}, {0}, {0}};
    if (run == NULL) return cli_fail_status(context, OTA_ENOMEM, &error);
    if (!demo_data_load(&run->data)) {
        free(run);
        return cli_fail(&context->error, CLI_EXIT_INTERNAL, "the demo's data cannot be read");
    }
    int code = run_all(context, run);
    if (code == 0 && context->settings.output.json)
        code = cli_print_json(stdout, run_json(run));
    else if (code == 0)
        print_text(run);
    for (int index = 0; index < DEMO_RULES; index++) free_result(&run->rules[index]);
    free_result(&run->cooled);
    demo_data_free(&run->data);
    free(run);
    return code;
}
