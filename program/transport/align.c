/* `otattn align A [B]`: shifts k [rows] and v [columns] that bring a matrix D = A - B [rows, columns]
 * nearest to k_i + v_j. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_analysis.h"
#include "program/program.h"

typedef struct alignment {
    const void *a, *b;
    void *owned[2]; /* what had to be converted */
    ota_type type;
    int64_t rows, columns;
    double *row_shift, *column_shift;
    int64_t *cycle_rows, *cycle_columns;
    const char *solver;
    ota_gauge_result result;
    double seconds;
} alignment;

static const struct {
    const char *name;
    ota_gauge_rule rule;
} solvers[] = {{"howard", OTA_GAUGE_HOWARD},
               {"midrange", OTA_GAUGE_MIDRANGE},
               {"ls", OTA_GAUGE_LEAST_SQUARES},
               {"fast", OTA_GAUGE_FAST}};
enum { SOLVERS = sizeof solvers / sizeof solvers[0] };

static int find_solver(cli_context *context, alignment *x, ota_gauge_rule *rule) {
    const char *name = context->settings.solver.name, *names[SOLVERS];
    if (name == NULL || strcmp(name, "auto") == 0) name = solvers[0].name;
    for (int k = 0; k < SOLVERS; k++) {
        names[k] = solvers[k].name;
        if (strcmp(name, solvers[k].name) != 0) continue;
        x->solver = solvers[k].name;
        *rule = solvers[k].rule;
        return 0;
    }
    const char *nearest = cli_nearest(name, strlen(name), names, SOLVERS);
    char hint[64] = "write howard, midrange, ls or fast";
    if (nearest != NULL) (void)snprintf(hint, sizeof hint, "did you mean '%s'?", nearest);
    return cli_refuse_flag(context, "solver", hint, "--solver '%.40s' does not solve this", name);
}

static int load_matrix(cli_context *context, int operand, const cli_array **array) {
    const char *field = operand == 0 ? "a" : "b", *spec = context->operands[operand];
    const int code = cli_load(context, field, spec, OTA_NO_TYPE, array);
    if (code != 0) return code;
    if ((*array)->rank != 2 || (*array)->count == 0) {
        return cli_refuse_flag(context, field, "give one matrix [rows, columns]",
                               "%s '%.200s' has %d dimensions and %zu entries", field, spec,
                               (*array)->rank, (*array)->count);
    }
    return 0;
}

/* Whatever is narrower than f32 is exact in f32; f64 and integers are read as f64. */
static ota_type wide_enough(ota_type type) {
    return type == OTA_F32 || type == OTA_F16 || type == OTA_BF16 ? OTA_F32 : OTA_F64;
}

static int convert(cli_context *context, alignment *x, int operand, const cli_array *array,
                   const void **data) {
    *data = array->data;
    if (array->type == x->type) return 0;
    void *memory;
    const int code = cli_memory(context, array->count * ota_type_bytes(x->type),
                                context->operands[operand], &memory);
    if (code != 0) return code;
    x->owned[operand] = memory;
    *data = memory;
    return cli_convert_array(array, memory, x->type, &context->error);
}

static int load(cli_context *context, alignment *x) {
    const cli_array *a, *b = NULL;
    int code = load_matrix(context, 0, &a);
    if (code == 0 && context->operand_count > 1) code = load_matrix(context, 1, &b);
    if (code != 0) return code;
    x->rows = a->shape[0];
    x->columns = a->shape[1];
    if (b != NULL && (b->shape[0] != x->rows || b->shape[1] != x->columns)) {
        return cli_refuse_flag(context, "b", "give two matrices of the same shape",
                               "a is %" PRId64 " x %" PRId64 " but b is %" PRId64 " x %" PRId64,
                               x->rows, x->columns, b->shape[0], b->shape[1]);
    }
    x->type = wide_enough(a->type);
    if (b != NULL && wide_enough(b->type) == OTA_F64) x->type = OTA_F64;
    code = convert(context, x, 0, a, &x->a);
    if (code == 0 && b != NULL) code = convert(context, x, 1, b, &x->b);
    return code;
}

static int allocate(cli_context *context, alignment *x) {
    const size_t rows = (size_t)x->rows, columns = (size_t)x->columns;
    const size_t sizes[4] = {rows * sizeof(double), columns * sizeof(double),
                             rows * sizeof(int64_t), rows * sizeof(int64_t)};
    void *const to[4] = {&x->row_shift, &x->column_shift, &x->cycle_rows, &x->cycle_columns};
    int code = 0;
    for (int k = 0; k < 4 && code == 0; k++)
        code = cli_memory(context, sizes[k], "the shifts", to[k]);
    return code;
}

static json_t *figures(const alignment *x) {
    const ota_gauge_result *result = &x->result;
    json_t *object = cli_json_put(json_object(),
                                  "solver:s rows:I columns:I passes:I seconds:r residual:r "
                                  "residual_lower:r rms:r per_sqrt_columns:r per_normal_maximum:r",
                                  x->solver, x->rows, x->columns, result->passes, x->seconds,
                                  result->residual, result->residual_lower, result->rms,
                                  result->per_sqrt_columns, result->per_normal_maximum);
    return object;
}

static int solve(cli_context *context, alignment *x) {
    cli_progress progress;
    ota_gauge_options options = {.size = sizeof options,
                                 .tolerance = context->settings.solver.tolerance.value,
                                 .max_passes = context->settings.solver.max_rounds.value};
    const ota_gauge_arrays arrays = {.row_shift = x->row_shift,
                                     .column_shift = x->column_shift,
                                     .cycle_rows = x->cycle_rows,
                                     .cycle_columns = x->cycle_columns};
    int code = find_solver(context, x, &options.rule);
    if (code != 0) return code;
    ota_error error = {.message = ""};
    ota_analysis_options watched = context->analysis;
    watched.progress = cli_progress_solver;
    watched.progress_user = &progress;
    const int64_t begun = cli_now_ns();
    cli_progress_begin(&progress, context, "align");
    /* Where rounding ends what a pass can change, in units of the largest entry. */
    progress.tolerance = 1e-15;
    const ota_status status = ota_gauge(
        &(ota_gauge_matrix){
            .a = x->a, .b = x->b, .type = x->type, .rows = x->rows, .columns = x->columns},
        &options, &arrays, &x->result, &watched, &error);
    cli_progress_end(&progress);
    x->seconds = (double)(cli_now_ns() - begun) / 1e9;
    if (status == OTA_OK) return 0;
    if (status == OTA_NOT_CONVERGED) {
        context->failure = figures(x);
        (void)snprintf(error.field, sizeof error.field, "max_rounds");
        (void)snprintf(error.hint, sizeof error.hint, "raise --max-rounds%s",
                       options.rule == OTA_GAUGE_HOWARD ? "" : ", or take --solver howard");
    }
    return cli_fail_status(context, status, &error);
}

static json_t *numbers(const double *values, int64_t count) {
    json_t *array = json_array();
    for (int64_t k = 0; k < count; k++)
        (void)json_array_append_new(array, cli_json_real(values[k]));
    return array;
}

static int report(cli_context *context, const alignment *x) {
    const ota_gauge_result *result = &x->result;
    if (context->settings.output.json) {
        json_t *cycle = json_array();
        json_t *object = cli_json_result(context, ota_status_word(result->status));
        (void)json_object_update_new(object, figures(x));
        for (int64_t t = 0; t < result->cycle_length; t++) {
            (void)json_array_append_new(cycle, json_pack("[I,I]", (json_int_t)x->cycle_rows[t],
                                                         (json_int_t)x->cycle_columns[t]));
        }
        (void)cli_json_put(object, "cycle:o row_shift:o column_shift:o warnings:o", cycle,
                           numbers(x->row_shift, x->rows), numbers(x->column_shift, x->columns),
                           json_incref(context->warnings));
        return cli_print_json(stdout, object);
    }
    (void)printf("matrix           %" PRId64 " x %" PRId64 "\n", x->rows, x->columns);
    (void)printf("residual         %.12g   max |%s - row - column|\n", result->residual,
                 x->b == NULL ? "a" : "a - b");
    (void)printf("residual, lower  %.12g   no shifts do better than this\n",
                 result->residual_lower);
    (void)printf("rms              %.12g\n", result->rms);
    (void)printf("residual/sqrt(V) %.6g\n", result->per_sqrt_columns);
    (void)printf("passes           %" PRId64 " by %s in %.3g s\n", result->passes, x->solver,
                 x->seconds);
    return 0;
}

int cli_align(cli_context *context) {
    alignment x = {.a = NULL};
    int code = load(context, &x);
    if (code == 0) code = allocate(context, &x);
    if (code == 0) code = solve(context, &x);
    if (code == 0) code = report(context, &x);
    for (int k = 0; k < 2; k++) free(x.owned[k]);
    free(x.row_shift);
    free(x.column_shift);
    free(x.cycle_rows);
    free(x.cycle_columns);
    return code;
}
