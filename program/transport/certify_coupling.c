/* `otattn certify --coupling P --scores S [--method M]`: P [...,n,m] from anywhere, held against a method.
 *
 * The judge is given P with the potentials of the method's own plan, so that gap = primal(P) - dual is
 * what P loses to the best plan. Without --method the methods that explain P are found first, and the one
 * with the fewest parameters is the one it is judged by. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "certify.h"
#include "otattn_analysis.h"

enum { FITS = 16 };

typedef struct judgement {
    cli_problem problem;
    const cli_array *coupling;
    char method[sizeof((ota_fit *)NULL)->method];
    double *row_mass; /* what every row carries, where that is not 1 and no mass was named */
    double common_mass;
    double *own_mass; /* the coupling's own sums of rows, then of columns, where these explain it */
    ota_fit fits[FITS];
    int64_t fit_count;
    ota_certificate certificate, *heads;
    /* sum |P - P'| over the mean of both masses, of the worst head, P' the method's plan; NaN: none */
    double distance;
    bool solved;
} judgement;

static int build(cli_context *context, const char *method, cli_problem *problem) {
    const int code = cli_problem_build(context, method, context->settings.certify.scores, NULL,
                                       NULL, NULL, problem);
    if (code == 0 && problem->rank > 4) {
        return cli_refuse_flag(context, "scores", NULL, "scores have %d dimensions", problem->rank);
    }
    return code;
}

/* Scores are compared with what the coupling's logarithms say of them; a plan of others has rows of NaN. */
static int check_scores(cli_context *context) {
    const cli_array *scores;
    const bool cost = context->settings.scores.cost;
    const int code =
        cli_load(context, "scores", context->settings.certify.scores, OTA_F64, &scores);
    if (code != 0) return code;
    const double *data = scores->data;
    for (size_t k = 0; k < scores->count; k++) {
        if (isfinite(data[k]) || (isinf(data[k]) && (data[k] > 0.0) == cost)) continue;
        return cli_refuse_flag(context, "scores",
                               cost ? "a pair that takes no part has the cost inf"
                                    : "a pair that takes no part is -inf",
                               "entry %zu of the scores is %g", k, data[k]);
    }
    return 0;
}

static int load_coupling(cli_context *context, judgement *j) {
    const char *spec = context->settings.certify.coupling;
    const int code = cli_load(context, "coupling", spec, OTA_F64, &j->coupling);
    if (code != 0) return code;
    const cli_array *p = j->coupling;
    int64_t leading = 1;
    for (int k = 0; k + 2 < p->rank; k++) leading *= p->shape[k];
    const cli_problem *of = &j->problem;
    if (p->rank < 2 || leading != of->batch * of->heads || p->shape[p->rank - 2] != of->queries ||
        p->shape[p->rank - 1] != of->keys) {
        return cli_refuse_flag(
            context, "coupling", "give two arrays of the same shape",
            "the coupling '%.200s' does not have the shape of the scores, %" PRId64
            " %s of %" PRId64 " x %" PRId64,
            spec, of->batch * of->heads, of->batch * of->heads == 1 ? "head" : "heads", of->queries,
            of->keys);
    }
    const double *data = p->data;
    for (size_t k = 0; k < p->count; k++) {
        if (data[k] >= 0.0 && !isinf(data[k])) continue;
        return cli_refuse_flag(context, "coupling", "weights are finite, 0 or more",
                               "entry %zu of the coupling is %g", k, data[k]);
    }
    return 0;
}

/* Couplings of distributions carry 1/n a row where attention carries 1. One common sum that is far from 1
 * is taken for the row mass; anything else is left to the certificate. */
static int find_common_mass(cli_context *context, judgement *j) {
    const cli_problem *of = &j->problem;
    const double *p = j->coupling->data;
    double least = (double)INFINITY, most = 0.0;
    if (context->settings.masses.row != NULL || context->settings.masses.column != NULL) return 0;
    for (int64_t line = 0; line < of->batch * of->heads * of->queries; line++) {
        double sum = 0.0;
        for (int64_t k = 0; k < of->keys; k++) sum += p[line * of->keys + k];
        if (!(sum > 0.0)) continue;
        least = fmin(least, sum);
        most = fmax(most, sum);
    }
    if (!(most > 0.0) || most - least > 1e-3 * most || fabs(most - 1.0) <= 1e-2) return 0;
    const int code =
        cli_memory(context, (size_t)of->queries * sizeof(double), "row-mass", &j->row_mass);
    if (code != 0) return code;
    j->common_mass = 0.5 * (least + most);
    /* 1/n is what was meant where the sum is that to rounding. */
    const double fair = 1.0 / (double)of->queries;
    if (fabs(j->common_mass - fair) <= 1e-5 * fair) j->common_mass = fair;
    for (int64_t i = 0; i < of->queries; i++) j->row_mass[i] = j->common_mass;
    cli_warn(context, "every row of the coupling carries %.6g: taken as the row mass",
             j->common_mass);
    return 0;
}

static void set_masses(judgement *j) {
    if (j->row_mass == NULL) return;
    j->problem.problem.row_mass = ota_array_of(j->row_mass, OTA_F64, 1, 1, 1, j->problem.queries);
}

/* Which sums of the coupling a fit had for its masses. */
static const char *own_masses(const ota_fit *fit) {
    if (fit->own_column_mass == 0) return fit->own_row_mass != 0 ? "rows" : "";
    return fit->own_row_mass != 0 ? "rows and columns" : "columns";
}

/* The masses with which the fit was found: sums of the coupling, a head each. */
static int take_own_masses(cli_context *context, judgement *j) {
    const cli_problem *of = &j->problem;
    const ota_fit *fit = &j->fits[0];
    const int64_t heads = of->batch * of->heads, rows = of->queries, keys = of->keys;
    if (fit->own_row_mass == 0 && fit->own_column_mass == 0) return 0;
    const size_t count = (size_t)(heads * (rows + keys));
    const int code = cli_memory(context, count * sizeof(double), "masses", &j->own_mass);
    if (code != 0) return code;
    double *const row = j->own_mass, *const column = row + heads * rows;
    const double *p = j->coupling->data;
    memset(j->own_mass, 0, count * sizeof(double));
    for (int64_t line = 0; line < heads * rows; line++) {
        for (int64_t k = 0; k < keys; k++) {
            row[line] += p[line * keys + k];
            column[line / rows * keys + k] += p[line * keys + k];
        }
    }
    ota_problem *problem = &j->problem.problem;
    if (fit->own_row_mass != 0)
        problem->row_mass = ota_array_of(row, OTA_F64, of->batch, of->heads, 1, rows);
    const bool massless =
        problem->columns == OTA_COLUMNS_FREE || problem->columns == OTA_COLUMNS_PREFIX;
    if (fit->own_column_mass != 0 && !massless)
        problem->column_mass = ota_array_of(column, OTA_F64, of->batch, of->heads, 1, keys);
    cli_warn(context, "no masses are named: the coupling's own sums of %s are taken",
             own_masses(fit));
    return 0;
}

static int identify(cli_context *context, judgement *j) {
    const size_t copies = 9, bytes = copies * j->coupling->count * sizeof(double);
    void *probe;
    int code = cli_memory(context, bytes, "the search for a method", &probe);
    if (code != 0) return code;
    free(probe);
    ota_error error = {.message = ""};
    ota_options options = j->problem.options;
    options.max_rounds = context->settings.solver.max_rounds.value;
    const ota_status status = ota_identify(&j->problem.problem, &options, j->coupling->data,
                                           j->fits, FITS, &j->fit_count, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    if (j->fit_count == 0) {
        return cli_refuse_flag(context, "coupling", "name a method with --method",
                               "no method gives a plan for these scores that could be compared");
    }
    memcpy(j->method, j->fits[0].method, sizeof j->method);
    cli_problem_free(&j->problem);
    /* Rules that take no masses of columns do not use what was named either. */
    const char *const named = context->settings.masses.column;
    const bool massless =
        j->fits[0].axis == OTA_AXIS_ROWS &&
        (j->fits[0].columns == OTA_COLUMNS_FREE || j->fits[0].columns == OTA_COLUMNS_PREFIX);
    if (massless) context->settings.masses.column = NULL;
    code = build(context, j->method, &j->problem);
    context->settings.masses.column = named;
    if (code == 0) set_masses(j);
    if (code == 0) code = take_own_masses(context, j);
    return code;
}

static double furthest(const judgement *j, const double *plan) {
    const double *p = j->coupling->data;
    const int64_t pairs = j->problem.queries * j->problem.keys;
    double worst = 0.0;
    for (int64_t head = 0; head < j->problem.batch * j->problem.heads; head++) {
        double apart = 0.0, mass = 0.0;
        for (int64_t k = head * pairs; k < (head + 1) * pairs; k++) {
            apart += fabs(p[k] - plan[k]);
            mass += 0.5 * (p[k] + plan[k]);
        }
        worst = fmax(worst, mass > 0.0 ? apart / mass : apart);
    }
    return worst;
}

/* A method that has no plan here leaves the gap and the distance unknown; rows and columns are judged all
 * the same. */
static int judge(cli_context *context, judgement *j) {
    cli_problem *of = &j->problem;
    cli_solution solution;
    const bool partial = of->settings.solver.allow_partial;
    of->settings.solver.allow_partial = true;
    of->options.allow_partial = 1;
    int code = cli_solve(context, of, CLI_WANT_COUPLING | CLI_WANT_POTENTIALS, OTA_F64, &solution);
    of->settings.solver.allow_partial = partial;
    j->solved = code == 0;
    if (code == CLI_EXIT_NUMERIC) {
        cli_warn(context, "%s: %.380s", of->method, context->error.message);
        memset(&context->error, 0, sizeof context->error);
        context->status = NULL;
        code = 0;
    }
    if (code != 0) {
        cli_solution_free(&solution);
        return code;
    }
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling =
        ota_array_of(j->coupling->data, OTA_F64, of->batch, of->heads, of->queries, of->keys);
    j->distance = (double)NAN;
    if (j->solved) {
        arrays.row_potential = solution.row_potential;
        arrays.column_potential = solution.column_potential;
        j->distance = furthest(j, solution.coupling.data);
        if (solution.status == OTA_PARTIAL) {
            cli_warn(context, "%s did not converge: the gap counts from a lower dual", of->method);
        }
    }
    const int64_t heads = of->batch * of->heads;
    j->heads = calloc((size_t)heads + 1, sizeof *j->heads);
    if (j->heads == NULL) {
        code = cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    } else {
        j->certificate.size = sizeof j->certificate;
        for (int64_t k = 0; k < heads; k++) j->heads[k].size = sizeof j->heads[k];
        ota_error error = {.message = ""};
        const ota_status status =
            ota_certify(&of->problem, &of->options, &arrays, &j->certificate, j->heads, &error);
        if (status < 0) code = cli_fail_status(context, status, &error);
    }
    cli_solution_free(&solution);
    return code;
}

static int ties(const judgement *j) {
    int count = 0;
    for (int64_t k = 0; k < j->fit_count; k++) count += j->fits[k].explains != 0;
    return count;
}

static json_t *fit_json(const ota_fit *fit) {
    json_t *object = cli_json_put(
        json_object(),
        "method:s distance:r residual:r explains:b parameters:i temperature:r own_row_mass:b "
        "own_column_mass:b",
        fit->method, fit->distance, fit->residual, fit->explains != 0, fit->parameters,
        fit->temperature_known ? fit->temperature : (double)NAN, fit->own_row_mass != 0,
        fit->own_column_mass != 0);
    const struct {
        const char *name;
        double value;
    } rows[] = {
        {"alpha", fit->order},   {"rho", fit->strength},        {"cap", fit->cap},
        {"lambda", fit->lambda}, {"steps", (double)fit->steps}, {"row_rho", fit->row_strength}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (rows[k].value > 0.0)
            (void)json_object_set_new(object, rows[k].name, cli_json_real(rows[k].value));
    }
    return object;
}

/* KL(P | P') per unit of mass, which the gap over the temperature is for softmax with hard rules; NaN: another method. */
static double gap_in_nats(const judgement *j) {
    const ota_problem *p = &j->problem.problem;
    const bool hard = p->rows == OTA_ROWS_HARD &&
                      (p->columns == OTA_COLUMNS_FREE || p->columns == OTA_COLUMNS_EXACT);
    if (!j->solved || p->regulariser != OTA_SOFTMAX || !hard) return (double)NAN;
    double mass = 0.0;
    for (size_t k = 0; k < j->coupling->count; k++) mass += ((const double *)j->coupling->data)[k];
    const double temperature = p->temperature > 0.0 ? p->temperature : 1.0;
    return mass > 0.0 ? fmax(j->certificate.gap, 0.0) / (temperature * mass) : (double)NAN;
}

static int print_json(cli_context *context, const judgement *j) {
    json_t *object = cli_json_put(cli_json_result(context, ota_status_word(OTA_OK)),
                                  "method:s problem:o distance:r divergence_nats:r certificate:o",
                                  j->method, cli_problem_json(&j->problem), j->distance,
                                  gap_in_nats(j), cli_certificate_json(&j->certificate));
    if (j->row_mass != NULL)
        (void)json_object_set_new(object, "row_mass", cli_json_real(j->common_mass));
    if (context->settings.output.per_head) {
        json_t *heads = json_array();
        for (int64_t k = 0; k < j->problem.batch * j->problem.heads; k++)
            (void)json_array_append_new(heads, cli_certificate_json(&j->heads[k]));
        (void)json_object_set_new(object, "heads", heads);
    }
    if (j->fit_count > 0) {
        json_t *fits = json_array();
        for (int64_t k = 0; k < j->fit_count; k++)
            (void)json_array_append_new(fits, fit_json(&j->fits[k]));
        (void)cli_json_put(object, "fits:o ambiguous:b temperature_known:b scores_add:b", fits,
                           ties(j) > 1, j->fits[0].temperature_known != 0,
                           j->fits[0].scores_add != 0);
    }
    (void)json_object_set(object, "warnings", context->warnings);
    return cli_print_json(stdout, object);
}

static int print_text(const judgement *j) {
    (void)printf("judged as   %s\n", j->method);
    (void)printf("distance    %.3g from that method's own plan (0 the same, 2 nothing in common)\n",
                 j->distance);
    cli_certificate_print(stdout, &j->certificate);
    const double nats = gap_in_nats(j);
    if (!isnan(nats)) (void)printf("divergence  %.3g nats from that plan, a unit of mass\n", nats);
    if (j->fit_count == 0) return 0;
    bool own = false;
    for (int64_t k = 0; k < j->fit_count; k++) own = own || own_masses(&j->fits[k])[0] != '\0';
    (void)printf("\n%-56s %10s %10s%s\n", "method", "distance", "explains",
                 own ? "  own masses" : "");
    for (int64_t k = 0; k < j->fit_count; k++) {
        const char *masses = own_masses(&j->fits[k]);
        (void)printf("%-56s %10.3g %10s%s%s\n", j->fits[k].method, j->fits[k].distance,
                     j->fits[k].explains ? "yes" : "no", masses[0] != '\0' ? "  " : "", masses);
    }
    if (ties(j) == 0) (void)printf("\nNo method explains this coupling.\n");
    if (ties(j) > 1) {
        (void)printf("\nSeveral methods give this plan; the first has the fewest parameters.\n");
    }
    if (!j->fits[0].temperature_known && !isnan(j->fits[0].temperature)) {
        (void)printf(
            j->fits[0].scores_add
                ? "\nThe scores are of the form row + column: any temperature gives this plan.\n"
                : "\nThe pairs that carry weight are too few to tell the temperature.\n");
    }
    return 0;
}

int cli_certify_coupling(cli_context *context) {
    const char *named = context->settings.method.name;
    judgement *j = calloc(1, sizeof *j);
    if (j == NULL) return cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    /* Narrow scores are exact in f64, and so is what is said about them. */
    if (context->settings.output.dtype == NULL) context->settings.output.dtype = "f64";
    /* A search needs a rule that takes all masses; which one plays no part. */
    (void)snprintf(j->method, sizeof j->method, "%s", named != NULL ? named : "softmax/relaxed:1");
    int code = build(context, j->method, &j->problem);
    if (code == 0) code = check_scores(context);
    if (code == 0) code = load_coupling(context, j);
    if (code == 0) code = find_common_mass(context, j);
    if (code == 0) set_masses(j);
    if (code == 0 && named == NULL) code = identify(context, j);
    if (code == 0) code = judge(context, j);
    if (code == 0) code = context->settings.output.json ? print_json(context, j) : print_text(j);
    cli_problem_free(&j->problem);
    free(j->row_mass);
    free(j->own_mass);
    free(j->heads);
    free(j);
    return code;
}
