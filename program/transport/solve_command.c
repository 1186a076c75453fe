/* The common body of `attend` and `plan`: outputs are opened first, so that a refusal costs no work, and
 * get their names last, all or none. Leading dimensions of an output are those of the first operand:
 *
 *     out [...,n,w]   coupling, advantage [...,n,m]   row potential [...,n]   column potential, receiver [...,m]
 *
 * and every gradient that of what it belongs to. */
#define _POSIX_C_SOURCE 200809L

#include "solve_command.h"

#include <stdlib.h>
#include <string.h>

#include "heatmap.h"
#include "program/ranks/ranks.h"
#include "src/base/program/system_program.h"
#include "rows.h"
#include "shard.h"

enum { OUTPUTS = 7, SMALL = 32 };

/* One thing that can be written. */
typedef struct output_row {
    const char *key; /* in the JSON object "outputs"; also the flag's name with dashes */
    const char *flag;
    size_t setting;               /* offset of the file name in cli_settings */
    unsigned wants;               /* CLI_WANT_ bit; 0: the command's main result */
    size_t array;                 /* offset in cli_solution; unused for the gradients */
    bool over_queries, over_keys; /* which of its last dimensions it has beside the leading ones */
} output_row;

#define SETTING(name) offsetof(cli_settings, name)
#define ARRAY(name) offsetof(cli_solution, name)

static const output_row rows[OUTPUTS] = {
    {"out", "out", SETTING(output.out), 0, 0, true, true},
    {"coupling", "coupling", SETTING(output.coupling), CLI_WANT_COUPLING, ARRAY(coupling), true,
     true},
    {"row_potential", "row-potential", SETTING(output.row_potential), CLI_WANT_POTENTIALS,
     ARRAY(row_potential), true, false},
    {"column_potential", "column-potential", SETTING(output.column_potential), CLI_WANT_POTENTIALS,
     ARRAY(column_potential), false, true},
    {"receiver", "receiver", SETTING(output.receiver), CLI_WANT_RECEIVER, ARRAY(receiver), false,
     true},
    {"advantage", "advantage", SETTING(gradients.advantage),
     CLI_WANT_ADVANTAGE | CLI_WANT_GRADIENTS, ARRAY(advantage), true, true},
    {"grad_out", "grad-out", SETTING(gradients.out), CLI_WANT_GRADIENTS, 0, true, true},
};

static const char *file_of(const cli_settings *settings, const output_row *row) {
    const char *file;
    memcpy(&file, (const char *)settings + row->setting, sizeof file);
    return file;
}

static int begin_outputs(cli_context *context, cli_output **outputs, bool *streams) {
    const cli_settings *settings = &context->settings;
    *streams = false;
    for (int k = 0; k < OUTPUTS; k++) {
        const char *file = file_of(settings, &rows[k]);
        if (file == NULL || cli_ranks_rank() > 0) continue;
        for (int j = 0; j < k; j++) {
            const char *other = file_of(settings, &rows[j]);
            if (other != NULL && strcmp(other, file) == 0) {
                return cli_refuse_flag(context, rows[k].flag, "give each its own file",
                                       "--%s and --%s both name '%.200s'", rows[j].flag,
                                       rows[k].flag, file);
            }
        }
        if (strcmp(file, "-") == 0) *streams = true;
        if (*streams && settings->output.json) {
            return cli_refuse_flag(context, rows[k].flag, "write the array to a file",
                                   "--%s - and --json both want standard output", rows[k].flag);
        }
        const int code =
            cli_output_begin(file, settings->output.force, &outputs[k], &context->error);
        if (code != 0) {
            (void)snprintf(context->error.field, sizeof context->error.field, "%s", rows[k].flag);
            return code;
        }
    }
    return 0;
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* The type an output is written in. */
static ota_type type_of(cli_context *context, const cli_problem *problem, const output_row *row,
                        bool vector) {
    const char *file = file_of(&context->settings, row);
    if (context->settings.output.out_dtype != NULL)
        return cli_type_of(context->settings.output.out_dtype);
    if (vector) return problem->file_type == OTA_F64 ? OTA_F64 : OTA_F32;
    if (problem->file_type == OTA_BF16 && !ends_with(file, ".safetensors")) {
        cli_warn(context, "%s is written as f32: npy has no bf16", file);
        return OTA_F32;
    }
    return problem->file_type;
}

/* All that can be asked for while outputs are written: those of the table above in its order, then the gradients. */
typedef struct held_rows {
    cli_rows rows[OUTPUTS + CLI_MAX_GRADIENTS];
} held_rows;

static void hold(const cli_problem *problem, const cli_solution *solution, unsigned main_output,
                 held_rows *held) {
    memset(held, 0, sizeof *held);
    for (int k = 0; k < OUTPUTS; k++) {
        const output_row *row = &rows[k];
        if (row->wants == CLI_WANT_GRADIENTS) continue;
        const size_t offset = row->wants != 0               ? row->array
                              : main_output == CLI_WANT_OUT ? ARRAY(out)
                                                            : ARRAY(coupling);
        cli_rows *to = &held->rows[k];
        memcpy(&to->mine, (const char *)solution + offset, sizeof to->mine);
        to->dimension = !row->over_queries ? -1 : row->over_keys ? 2 : 3;
        to->total = problem->queries;
    }
    (void)cli_gradients_rows(solution->gradients, held->rows + OUTPUTS);
}

static int write_output(cli_context *context, const cli_problem *problem, const held_rows *held,
                        int number, cli_output *output) {
    const output_row *row = &rows[number];
    const cli_rows *from = &held->rows[number];
    const bool matrix = row->over_queries && row->over_keys;
    cli_array array = {.type = type_of(context, problem, row, !matrix), .count = 1};
    (void)snprintf(array.name, sizeof array.name, "%s", row->key);
    const ota_array *first = problem->problem.scores.type != OTA_NO_TYPE
                                 ? &problem->problem.scores
                                 : &problem->problem.queries;
    for (int k = 4 - problem->rank; k < 2; k++) {
        if (k >= 0) array.shape[array.rank++] = first->size[k];
    }
    if (matrix && problem->rank > 1) array.shape[array.rank++] = from->total;
    array.shape[array.rank++] = from->dimension == 3 ? from->total : from->mine.size[3];
    for (int k = 0; k < array.rank; k++) array.count *= (size_t)array.shape[k];
    cli_rows_reader reader = {.rows = held->rows, .number = number, .type = array.type};
    const cli_elements elements = {cli_rows_next, &reader};
    array.elements = &elements;
    return cli_write_arrays(output, &array, 1, &context->error);
}

static int write_outputs(cli_context *context, const cli_problem *problem,
                         const cli_solution *solution, const held_rows *held,
                         cli_output **outputs) {
    for (int k = 0; k < OUTPUTS; k++) {
        if (outputs[k] == NULL) continue;
        const int code =
            rows[k].wants == CLI_WANT_GRADIENTS
                ? cli_gradients_write(context, solution->gradients, held->rows, OUTPUTS,
                                      file_of(&context->settings, &rows[k]), outputs[k])
                : write_output(context, problem, held, k, outputs[k]);
        if (code != 0) {
            (void)snprintf(context->error.field, sizeof context->error.field, "%s", rows[k].flag);
            return code;
        }
    }
    const int code = cli_outputs_commit(outputs, OUTPUTS, &context->error);
    memset(outputs, 0, OUTPUTS * sizeof *outputs);
    return code;
}

/* --grad and what it is for come together. */
static int check_gradients(cli_context *context) {
    const cli_settings *s = &context->settings;
    const bool asked = s->gradients.out != NULL || s->gradients.advantage != NULL;
    if (s->gradients.of == NULL && (asked || s->gradients.scores || s->gradients.parameters)) {
        const char *flag = s->gradients.out != NULL         ? "grad-out"
                           : s->gradients.advantage != NULL ? "advantage"
                           : s->gradients.scores            ? "grad-scores"
                                                            : "grad-parameters";
        return cli_refuse_flag(context, flag, "give --grad DOUT", "--%s needs --grad", flag);
    }
    if (s->gradients.of != NULL && !asked) {
        return cli_refuse_flag(context, "grad", "add --grad-out G.npz",
                               "--grad says nowhere to write the gradients");
    }
    return 0;
}

static bool is_small(const cli_problem *problem) {
    return problem->batch * problem->heads == 1 && problem->queries <= SMALL &&
           problem->keys <= SMALL && problem->queries > 0 && problem->keys > 0;
}

static void print_map(const cli_problem *problem, const cli_solution *solution) {
    static const char *const numbers[SMALL] = {"0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",
                                               "8",  "9",  "10", "11", "12", "13", "14", "15",
                                               "16", "17", "18", "19", "20", "21", "22", "23",
                                               "24", "25", "26", "27", "28", "29", "30", "31"};
    if (solution->coupling.type != OTA_F64) return;
    const cli_heatmap map = {.title = problem->method, .weights = solution->coupling.data};
    (void)putchar('\n');
    const cli_heatmap_labels labels = {.row = numbers,
                                       .column = numbers,
                                       .rows = (size_t)problem->queries,
                                       .columns = (size_t)problem->keys};
    cli_heatmaps_print(stdout, cli_shades_for(stdout), cli_terminal_width(stdout), &map, 1,
                       &labels);
}

static int report(cli_context *context, const cli_problem *problem, const cli_solution *solution,
                  bool streams, bool map) {
    const cli_settings *settings = &context->settings;
    if (settings->output.json) {
        json_t *object = cli_solution_json(context, problem, solution);
        json_t *files = json_object_get(object, "outputs");
        for (int k = 0; k < OUTPUTS; k++) {
            const char *file = file_of(settings, &rows[k]);
            if (file != NULL) (void)json_object_set_new(files, rows[k].key, json_string(file));
        }
        return cli_print_json(stdout, object);
    }
    FILE *stream = streams ? stderr : stdout;
    cli_solution_print(stream, problem, solution);
    for (int k = 0; k < OUTPUTS; k++) {
        const char *file = file_of(settings, &rows[k]);
        if (file != NULL && strcmp(file, "-") != 0)
            cli_put_named(stream, "wrote       ", file, "\n");
    }
    if (map && !streams) print_map(problem, solution);
    return 0;
}

static int solve_command(cli_context *context, const char *scores, const char *queries,
                         const char *keys, const char *values, unsigned main_output) {
    const cli_settings *settings = &context->settings;
    cli_output *outputs[OUTPUTS] = {NULL};
    cli_problem problem = {.owned_count = 0};
    cli_solution solution = {.status = OTA_UNSOLVED};
    bool streams = false, map = false;
    const char *method = settings->method.name != NULL ? settings->method.name : "softmax";
    int code = check_gradients(context);
    if (code == 0)
        code = cli_problem_build(context, method, scores, queries, keys, values, &problem);
    if (code == 0) code = begin_outputs(context, outputs, &streams);
    if (settings->machine.shard != NULL) code = cli_shard_together(code);
    if (code == 0) {
        /* The time in the summary is that of the command's result, written or not. */
        unsigned wanted = main_output == CLI_WANT_OUT ? CLI_WANT_OUT : 0;
        for (int k = 0; k < OUTPUTS; k++) {
            if (file_of(settings, &rows[k]) != NULL)
                wanted |= rows[k].wants != 0 ? rows[k].wants : main_output;
        }
        map = !settings->output.json && settings->machine.shard == NULL &&
              ota_is_terminal(stdout) && is_small(&problem);
        if (map) wanted |= CLI_WANT_COUPLING;
        const ota_type out_type = settings->output.out_dtype != NULL
                                      ? cli_type_of(settings->output.out_dtype)
                                      : problem.file_type;
        code = cli_solve(context, &problem, wanted, out_type, &solution);
    }
    if (code == 0) code = cli_solution_verdict(context, &problem, &solution);
    if (settings->machine.shard != NULL) code = cli_shard_together(code);
    if (code == 0) {
        held_rows held;
        hold(&problem, &solution, main_output, &held);
        if (cli_ranks_rank() > 0) {
            cli_rows_serve(held.rows);
        } else {
            code = write_outputs(context, &problem, &solution, &held, outputs);
            cli_rows_end();
        }
    }
    if (code == 0 && cli_ranks_rank() == 0)
        code = report(context, &problem, &solution, streams, map);
    for (int k = 0; k < OUTPUTS; k++) cli_output_abort(outputs[k]);
    cli_solution_free(&solution);
    cli_problem_free(&problem);
    return code;
}

int cli_solve_command(cli_context *context, const char *scores, const char *queries,
                      const char *keys, const char *values, unsigned main_output) {
    const bool shared = context->settings.machine.shard != NULL;
    char library[128];
    if (shared && cli_ranks_library(library, sizeof library) == NULL)
        return cli_refuse_flag(context, "shard",
                               "build it with -DOTATTN_MPI=ON, or leave out --shard",
                               "this program is built without MPI, and --shard needs it");
    int code = shared ? cli_ranks_begin() : 0;
    if (code != 0) return cli_fail(&context->error, code, "%s", cli_ranks_reason());
    if (shared) context->share = (cli_share){cli_ranks_rank(), cli_ranks_size(), -1};
    code = solve_command(context, scores, queries, keys, values, main_output);
    if (shared) cli_ranks_end();
    return code == CLI_SHARD_STOPPED ? 0 : code;
}
