/* `otattn assign COST`: the cheapest matching of min(n,m) pairs of a cost matrix [n,m].
 *
 * The value of column j is j + 1, so that the output of a row is the column it got and no [n,m] plan is written. The judge
 * gets the plan that these pairs make.
 * With n = m it is hard/exact. With n < m every row has mass 1 and no column takes more than 1:
 * hard/capped:1, whose vertices are matchings. With n > m the same on the transpose, read through
 * swapped strides. The dual value comes from the judge. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

typedef struct matching {
    ota_array cost; /* [1,1,n,m] as the library sees it, perhaps transposed */
    bool transposed;
    int64_t rows, columns;     /* of the file */
    int64_t *permutation;      /* rows entries */
    ota_array numbers, chosen; /* [1,1,m,1] j + 1 and [1,1,n,1] that of a row's column, 0: none */
    ota_array coupling, row_potential, column_potential;
    ota_certificate certificate;
    double value, seconds;
} matching;

static int load_cost(cli_context *context, matching *m) {
    const cli_array *array;
    const char *spec = context->operands[0];
    int code = cli_load(context, "cost", spec, OTA_NO_TYPE, &array);
    if (code == 0 && array->type != OTA_F64 && array->type != OTA_F32)
        code = cli_load(context, "cost", spec, OTA_F64, &array);
    if (code != 0) return code;
    if (array->rank != 2) {
        return cli_refuse_flag(context, "cost", "give one matrix [rows, columns]",
                               "cost '%.200s' has %d dimensions", spec, array->rank);
    }
    m->rows = array->shape[0];
    m->columns = array->shape[1];
    m->transposed = m->rows > m->columns;
    m->cost = ota_array_of(array->data, array->type, 1, 1, m->rows, m->columns);
    if (m->transposed) {
        m->cost = ota_array_of(array->data, array->type, 1, 1, m->columns, m->rows);
        m->cost.stride[2] = 1;
        m->cost.stride[3] = m->columns;
    }
    return 0;
}

static int allocate(cli_context *context, matching *m) {
    const int64_t n = m->cost.size[2], k = m->cost.size[3];
    struct {
        ota_array *array;
        int64_t rows, columns;
        ota_type type;
    } wanted[] = {{&m->coupling, n, k, m->cost.type}, /* of 0 and 1: as narrow as the cost */
                  {&m->numbers, k, 1, OTA_F64},
                  {&m->chosen, n, 1, OTA_F64},
                  {&m->row_potential, 1, n, OTA_F64},
                  {&m->column_potential, 1, k, OTA_F64}};
    for (int i = 0; i < 5; i++) {
        void *data = NULL;
        const size_t count = (size_t)(wanted[i].rows * wanted[i].columns);
        if (count > 0) {
            const size_t size = wanted[i].type == OTA_F32 ? sizeof(float) : sizeof(double);
            const int code = cli_memory(context, count * size, "the matching", &data);
            if (code != 0) return code;
        }
        *wanted[i].array =
            ota_array_of(data, wanted[i].type, 1, 1, wanted[i].rows, wanted[i].columns);
    }
    m->permutation = malloc(((size_t)m->rows + 1) * sizeof *m->permutation);
    if (m->permutation == NULL) {
        return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    }
    return 0;
}

static double number_at(const ota_array *matrix, int64_t i, int64_t j) {
    const int64_t at = i * matrix->stride[2] + j * matrix->stride[3];
    return matrix->type == OTA_F32 ? (double)((const float *)matrix->data)[at]
                                   : ((const double *)matrix->data)[at];
}

/* The column of row i of the problem, or -1. */
static int64_t column_of(const matching *m, int64_t i) {
    return (int64_t)((const double *)m->chosen.data)[i] - 1;
}

static void set_pair(ota_array *coupling, int64_t i, int64_t j) {
    const int64_t at = i * coupling->stride[2] + j;
    if (coupling->type == OTA_F32)
        ((float *)coupling->data)[at] = 1.0F;
    else
        ((double *)coupling->data)[at] = 1.0;
}

static int solve(cli_context *context, matching *m) {
    ota_problem problem = {
        .size = sizeof problem, .scores = m->cost, .cost = 1, .regulariser = OTA_HARD};
    /* Said, because by default a column that no row may use would be asked for nothing. */
    double unit = 1.0;
    problem.column_mass = ota_array_of(&unit, OTA_F64, 1, 1, 1, m->cost.size[3]);
    problem.column_mass.stride[3] = 0;
    if (m->rows == m->columns) {
        problem.columns = OTA_COLUMNS_EXACT;
    } else {
        problem.columns = OTA_COLUMNS_CAPPED;
        problem.cap = 1.0;
    }
    const ota_options options = {.size = sizeof options,
                                 .threads = (int)context->settings.machine.threads.value,
                                 .cpu = context->settings.machine.cpu,
                                 .backend = context->settings.machine.backend,
                                 .cancel = context->cancel};
    for (int64_t j = 0; j < m->cost.size[3]; j++) ((double *)m->numbers.data)[j] = (double)(j + 1);
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = m->numbers,
                         .out = m->chosen,
                         .row_potential = m->row_potential,
                         .column_potential = m->column_potential};
    ota_result result = {.size = sizeof result};
    ota_error error = {.message = ""};
    const int64_t begun = cli_now_ns();
    ota_status status = ota_attend(&problem, &options, &arrays, &result, &error);
    m->seconds = (double)(cli_now_ns() - begun) / 1e9;
    m->certificate.size = sizeof m->certificate;
    const size_t pairs = (size_t)(m->cost.size[2] * m->cost.size[3]);
    if (pairs > 0)
        memset(m->coupling.data, 0,
               pairs * (m->coupling.type == OTA_F32 ? sizeof(float) : sizeof(double)));
    for (int64_t i = 0; status >= 0 && i < m->cost.size[2]; i++) {
        if (column_of(m, i) >= 0) set_pair(&m->coupling, i, column_of(m, i));
    }
    arrays.values = arrays.out = (ota_array){0};
    arrays.coupling = m->coupling;
    if (status >= 0)
        status = ota_certify(&problem, &options, &arrays, &m->certificate, NULL, &error);
    if (status >= 0) return 0;
    if (error.message[0] == '\0') {
        (void)snprintf(error.message, sizeof error.message, "%s", result.sentence);
    }
    return cli_fail_status(context, status, &error);
}

/* The matching's pairs and their total cost. A row (of the shorter side) without any allowed pair is an
 * empty row to the library and leaves its pair out; a matching of min(n,m) pairs there is not. */
static int read_pairs(cli_context *context, matching *m) {
    const int64_t n = m->cost.size[2];
    double rest = 0.0; /* what rounding took from the running total */
    for (int64_t i = 0; i < m->rows; i++) m->permutation[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = column_of(m, i);
        if (j >= 0) {
            m->permutation[m->transposed ? j : i] = m->transposed ? i : j;
            const double term = number_at(&m->cost, i, j) - rest;
            const double total = m->value + term;
            rest = (total - m->value) - term;
            m->value = total;
        } else {
            ota_error error = {.field = "cost", .hint = "allow at least one pair of it"};
            (void)snprintf(error.message, sizeof error.message,
                           "there is no matching of %" PRId64 " pairs: %s %" PRId64
                           " has no allowed pair",
                           n, m->transposed ? "column" : "row", i);
            return cli_fail_status(context, OTA_INFEASIBLE, &error);
        }
    }
    return 0;
}

static int write_permutation(cli_context *context, const matching *m) {
    const cli_settings *settings = &context->settings;
    if (settings->output.out == NULL) return 0;
    if (settings->output.json && strcmp(settings->output.out, "-") == 0) {
        return cli_refuse_flag(context, "out", "write the array to a file",
                               "--out - and --json both want standard output");
    }
    const cli_array array = {.data = m->permutation,
                             .type = OTA_I64,
                             .rank = 1,
                             .shape = {m->rows},
                             .count = (size_t)m->rows,
                             .name = "permutation"};
    cli_output *output = NULL;
    int code =
        cli_output_begin(settings->output.out, settings->output.force, &output, &context->error);
    if (code == 0) code = cli_write_arrays(output, &array, 1, &context->error);
    code = cli_output_end(output, code, &context->error);
    if (code != 0) (void)snprintf(context->error.field, sizeof context->error.field, "out");
    return code;
}

static int report(cli_context *context, const matching *m) {
    const double dual = m->certificate.dual;
    if (!context->settings.output.json) {
        FILE *stream =
            context->settings.output.out != NULL && strcmp(context->settings.output.out, "-") == 0
                ? stderr
                : stdout;
        (void)fprintf(
            stream, "value       %.12g\ndual        %.12g\ngap         %.2g\ntime        %.3g ms\n",
            m->value, dual, m->value - dual, m->seconds * 1e3);
        enum { MOST = 64 };
        for (int64_t i = 0; i < m->rows && i < MOST; i++) {
            if (m->permutation[i] < 0)
                (void)fprintf(stream, "row %-7" PRId64 " -\n", i);
            else
                (void)fprintf(stream, "row %-7" PRId64 " column %" PRId64 "\n", i,
                              m->permutation[i]);
        }
        if (m->rows > MOST) {
            (void)fprintf(stream, "and %" PRId64 " more rows; -o writes them all\n",
                          m->rows - MOST);
        }
        return 0;
    }
    json_t *permutation = json_array();
    for (int64_t i = 0; i < m->rows; i++) {
        (void)json_array_append_new(permutation, json_integer(m->permutation[i]));
    }
    json_t *object =
        cli_json_put(cli_json_result(context, ota_status_word(OTA_OK)),
                     "value:r dual:r gap:r seconds:r rows:I columns:I permutation:o warnings:o",
                     m->value, dual, m->value - dual, m->seconds, m->rows, m->columns, permutation,
                     json_incref(context->warnings));
    return cli_print_json(stdout, object);
}

int cli_assign(cli_context *context) {
    matching m = {.transposed = false};
    int code = load_cost(context, &m);
    if (code == 0) code = allocate(context, &m);
    if (code == 0) code = solve(context, &m);
    if (code == 0) code = read_pairs(context, &m);
    if (code == 0) code = write_permutation(context, &m);
    if (code == 0) code = report(context, &m);
    free(m.permutation);
    free(m.numbers.data);
    free(m.chosen.data);
    free(m.coupling.data);
    free(m.row_potential.data);
    free(m.column_potential.data);
    return code;
}
