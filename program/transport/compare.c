/* `otattn compare QUERY [KEY [VALUE]] --methods M,...`: one row per method. Distances are
 * ||P - P'||_1 / n of the worst head, to the softmax plan and to the doubly stochastic plan of the same
 * problem (the rounds, schedule and solver flags do not touch these two). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

static const char *const standard_methods =
    "softmax,sparsemax,softmax/capped:2,softmax/relaxed:1,softmax/elastic:0.5,4,softmax/exact,hard";

/* Above so many pairs the three couplings that a distance needs are not kept. */
static const int64_t DISTANCE_MOST = (int64_t)1 << 26;

enum { MOST_METHODS = 256, REFERENCES = 2 };

typedef struct method_row {
    char name[160];
    const char *status; /* status word */
    char error[512];
    int code; /* exit code of the failure, 0 for a row with numbers */
    int64_t rounds;
    bool certified;
    ota_certificate certificate;
    double distance[REFERENCES];
    double seconds;
} method_row;

typedef struct comparison {
    char *methods[MOST_METHODS];
    int count, done;
    method_row *rows;
    /* Couplings [batch,heads,n,m] of softmax and softmax/exact, NULL where there is none. */
    double *references[REFERENCES];
} comparison;

static const char *const reference_methods[REFERENCES] = {"softmax", "softmax/exact"};

static int build(cli_context *context, const char *method, cli_problem *problem) {
    const bool matrix = context->operand_count == 1;
    const char *const *names = context->operands;
    return cli_problem_build(context, method, matrix ? names[0] : NULL, matrix ? NULL : names[0],
                             matrix ? NULL : names[1],
                             context->operand_count == 3 ? names[2] : NULL, problem);
}

static void clear_failure(cli_context *context) {
    memset(&context->error, 0, sizeof context->error);
    context->status = NULL;
    json_decref(context->failure);
    context->failure = NULL;
}

static bool has_distances(const cli_problem *p) {
    int64_t pairs;
    return !__builtin_mul_overflow(p->batch * p->heads, p->queries, &pairs) &&
           !__builtin_mul_overflow(pairs, p->keys, &pairs) && pairs <= DISTANCE_MOST;
}

/* Largest ||P - P'||_1 / n over heads; NaN where the other is missing. */
static double distance(const cli_problem *p, const double *coupling, const double *other) {
    if (coupling == NULL || other == NULL || p->queries == 0) return (double)NAN;
    const int64_t pairs = p->queries * p->keys;
    double worst = 0.0;
    for (int64_t head = 0; head < p->batch * p->heads; head++) {
        double sum = 0.0;
        for (int64_t k = head * pairs; k < (head + 1) * pairs; k++)
            sum += fabs(coupling[k] - other[k]);
        if (!(sum / (double)p->queries <= worst)) worst = sum / (double)p->queries;
    }
    return worst;
}

/* Solves the two reference problems; one that has no answer leaves NULL. */
static int solve_references(cli_context *context, comparison *c) {
    const cli_settings settings = context->settings;
    cli_settings *plain = &context->settings;
    plain->solver.rounds.given = plain->solver.allow_partial = plain->solver.strict = false;
    plain->solver.anneal = plain->solver.relaxation = plain->solver.name = plain->method.start =
        plain->method.end = plain->method.rows = NULL;
    plain->solver.elastic_lambda = NULL;
    int code = 0;
    for (int k = 0; k < REFERENCES && code == 0; k++) {
        cli_problem problem;
        cli_solution solution = {.status = OTA_UNSOLVED};
        code = build(context, reference_methods[k], &problem);
        /* softmax takes no column masses, and a reference that is refused is merely missing. */
        const bool built = code == 0 && has_distances(&problem);
        if (built) code = cli_solve(context, &problem, CLI_WANT_COUPLING, OTA_F64, &solution);
        if (built && code == 0 && solution.status >= OTA_OK && solution.coupling.type == OTA_F64) {
            c->references[k] = solution.coupling.data;
            solution.coupling.data = NULL;
        }
        cli_solution_free(&solution);
        cli_problem_free(&problem);
        if (code == CLI_EXIT_LIMIT)
            cli_warn(context, "without distances to %s: %s", reference_methods[k],
                     context->error.message);
        if (code == CLI_EXIT_USAGE || code == CLI_EXIT_NUMERIC || code == CLI_EXIT_LIMIT) {
            clear_failure(context);
            code = 0;
        }
    }
    context->settings = settings;
    return code;
}

static void fail_row(cli_context *context, int code, method_row *row) {
    row->code = code;
    row->status = context->status != NULL ? context->status : ota_status_word(OTA_EINTERNAL);
    if (context->status == NULL && code == CLI_EXIT_LIMIT)
        row->status = ota_status_word(OTA_ELIMIT);
    (void)snprintf(row->error, sizeof row->error, "%s", context->error.message);
    clear_failure(context);
}

/* Returns an exit code only for what concerns the whole command: a method that nobody can read, a file
 * that cannot be read, Ctrl-C. */
static int solve_row(cli_context *context, comparison *c, int index) {
    method_row *row = &c->rows[index];
    cli_problem problem;
    cli_solution solution = {.status = OTA_UNSOLVED};
    (void)snprintf(row->name, sizeof row->name, "%s", c->methods[index]);
    row->distance[0] = row->distance[1] = (double)NAN;
    int code = build(context, c->methods[index], &problem);
    const bool of_method =
        context->status != NULL && strcmp(context->status, ota_status_word(OTA_UNSUPPORTED)) == 0;
    if (code != 0 && code != CLI_EXIT_NUMERIC && !of_method) {
        cli_problem_free(&problem);
        return code;
    }
    if (code == 0) {
        const bool distances = has_distances(&problem);
        unsigned wanted = distances ? CLI_WANT_COUPLING : CLI_WANT_RECEIVER;
        if (problem.values_width > 0) wanted |= CLI_WANT_OUT;
        code = cli_solve(context, &problem, wanted, problem.type == OTA_F64 ? OTA_F64 : OTA_F32,
                         &solution);
    }
    if (code == CLI_EXIT_INTERRUPTED) {
        cli_solution_free(&solution);
        cli_problem_free(&problem);
        return code;
    }
    if (code != 0) {
        fail_row(context, code, row);
    } else {
        row->status = ota_status_word(solution.status);
        row->code = cli_exit_code(solution.status);
        row->rounds = solution.result.rounds;
        row->certified = solution.certified;
        row->certificate = solution.certificate;
        row->seconds = solution.seconds;
        if (row->code != 0) {
            (void)cli_solution_verdict(context, &problem, &solution);
            (void)snprintf(row->error, sizeof row->error, "%s", context->error.message);
            clear_failure(context);
        } else {
            (void)cli_solution_verdict(context, &problem, &solution);
        }
        if (solution.coupling.type == OTA_F64) {
            for (int k = 0; k < REFERENCES; k++) {
                row->distance[k] = distance(&problem, solution.coupling.data, c->references[k]);
            }
        }
    }
    cli_solution_free(&solution);
    cli_problem_free(&problem);
    return 0;
}

static int print_json_rows(cli_context *context, const comparison *c) {
    json_t *methods = json_array();
    for (int k = 0; k < c->done; k++) {
        const method_row *row = &c->rows[k];
        json_t *object = json_object();
        const bool numbers = row->seconds > 0.0;
        (void)cli_json_put(object,
                           "method:s status:s rounds:o certificate:o distance_to_softmax:r "
                           "distance_to_exact:r seconds:o",
                           row->name, row->status,
                           numbers ? json_integer(row->rounds) : json_null(),
                           row->certified ? cli_certificate_json(&row->certificate) : json_null(),
                           row->distance[0], row->distance[1],
                           numbers ? cli_json_real(row->seconds) : json_null());
        if (row->error[0] != '\0')
            (void)json_object_set_new(object, "error", json_string(row->error));
        (void)json_array_append_new(methods, object);
    }
    json_t *object = cli_json_put(
        cli_json_result(context, ota_status_word(context->interrupted ? OTA_CANCELLED : OTA_OK)),
        "methods:o warnings:o", methods, json_incref(context->warnings));
    return cli_print_json(stdout, object);
}

/* A number in a column of the table, "-" when it does not exist. */
static void print_cell(double value, int width, int digits) {
    if (isfinite(value))
        (void)printf(" %*.*g", width, digits, value);
    else
        (void)printf(" %*s", width, "-");
}

static void print_table(const comparison *c) {
    int width = 6;
    for (int k = 0; k < c->done; k++) {
        const int length = (int)strlen(c->rows[k].name);
        if (length > width) width = length;
    }
    (void)printf("%-*s %9s %9s %9s %9s %10s %10s %9s %9s %7s %9s  %s\n", width, "method",
                 "receiver", "Delta", "entropy", "support", "to softmax", "to exact", "row err",
                 "col err", "rounds", "ms", "status");
    for (int k = 0; k < c->done; k++) {
        const method_row *row = &c->rows[k];
        const ota_certificate *of = &row->certificate;
        const bool known = row->certified;
        const double none = (double)NAN;
        (void)printf("%-*s", width, row->name);
        print_cell(known ? of->receiver_max : none, 9, 4);
        print_cell(known ? of->delta : none, 9, 4);
        print_cell(known ? of->entropy : none, 9, 4);
        print_cell(known ? of->support : none, 9, 4);
        print_cell(row->distance[0], 10, 4);
        print_cell(row->distance[1], 10, 4);
        print_cell(known ? of->row_error : none, 9, 2);
        print_cell(known ? of->column_error : none, 9, 2);
        print_cell(row->seconds > 0.0 ? (double)row->rounds : none, 7, 4);
        print_cell(row->seconds > 0.0 ? row->seconds * 1e3 : none, 9, 4);
        (void)printf("  %s\n", row->status);
    }
    for (int k = 0; k < c->done; k++) {
        if (c->rows[k].error[0] != '\0')
            (void)printf("\n%s: %s\n", c->rows[k].name, c->rows[k].error);
    }
}

/* Nothing succeeded: the command fails as its first method did. */
static int all_failed(cli_context *context, const comparison *c) {
    for (int k = 0; k < c->done; k++) {
        if (c->rows[k].code == 0) return 0;
    }
    if (c->done == 0) return 0;
    context->status = c->rows[0].status;
    (void)snprintf(context->error.field, sizeof context->error.field, "methods");
    return cli_fail(&context->error, c->rows[0].code, "no method succeeded; %.100s: %.360s",
                    c->rows[0].name, c->rows[0].error);
}

static int solve_all(cli_context *context, comparison *c) {
    int code = solve_references(context, c);
    for (int k = 0; k < c->count && code == 0; k++) {
        code = solve_row(context, c, k);
        if (code == 0) c->done++;
    }
    if (code == CLI_EXIT_INTERRUPTED && c->done > 0) {
        clear_failure(context);
        context->interrupted = true;
        code = 0;
    }
    if (code == 0) code = all_failed(context, c);
    if (code != 0) return code;
    if (context->settings.output.json) return print_json_rows(context, c);
    print_table(c);
    return 0;
}

int cli_compare(cli_context *context) {
    const char *list =
        context->settings.method.list != NULL ? context->settings.method.list : standard_methods;
    comparison c = {.count = 0};
    c.count = cli_split_methods(list, c.methods, MOST_METHODS);
    if (c.count < 0) {
        return cli_refuse_flag(context, "methods", NULL, "--methods holds more than %d methods",
                               MOST_METHODS);
    }
    c.rows = calloc((size_t)c.count + 1, sizeof *c.rows);
    int code = c.rows == NULL ? cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left")
                              : solve_all(context, &c);
    for (int k = 0; k < c.count; k++) free(c.methods[k]);
    for (int k = 0; k < REFERENCES; k++) free(c.references[k]);
    free(c.rows);
    return code;
}
