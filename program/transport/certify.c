/* `otattn certify`: how far a plan moves when its scores do, against what the theory allows; with
 * --coupling, whose plan a coupling is (certify_coupling.c).
 *
 * P, Q [n,m] are the plans of S and T at temperature tau, R the minimax residual of S - T [TOT-38]:
 *
 *     exact columns     ||P - Q||_1 <= 2 n tanh(R / (2 tau))                 [DER-17]
 *     free columns      ||P - Q||_1 <= sum_i 2 tanh(osc_i / (4 tau))         [DER-18]
 *     relaxed, capped   ||P - Q||_1 <= 2 n tanh(max_i osc_i / (4 tau))       [DER-18]
 *     printed           ||P - Q||_1 <= (n / tau) max |S - T|                 [CETA-16] */
#include "certify.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_analysis.h"

typedef struct matrices {
    const cli_array *scores, *perturbed, *values, *other; /* all f64 */
    int64_t heads, rows, columns, width;
    double tolerance; /* of the plans */
    const ota_analysis_options *options;
} matrices;

/* Of one head. */
typedef struct certificate {
    ota_score_change change;
    double bound, printed, residual; /* residual NaN: masked pairs */
    double ratio; /* l1 / bound; NaN where the plans are not solved as far as the bound goes */
    double output_change, output_bound, output_printed;
    double diameter; /* largest distance of two values: no row of weights moves an output by more */
} certificate;

static int load_scores(cli_context *context, matrices *x) {
    const cli_settings *settings = &context->settings;
    int code = cli_load(context, "scores", settings->certify.scores, OTA_F64, &x->scores);
    if (code == 0)
        code = cli_load(context, "perturbed", settings->certify.perturbed, OTA_F64, &x->perturbed);
    if (code != 0) return code;
    const cli_array *s = x->scores, *t = x->perturbed;
    if (s->rank < 2 || s->rank > 4 || s->count == 0) {
        return cli_refuse_flag(context, "scores", "give [n,m], with heads and a batch in front",
                               "scores have %d dimensions and %zu entries", s->rank, s->count);
    }
    if (s->rank != t->rank || memcmp(s->shape, t->shape, (size_t)s->rank * sizeof *s->shape) != 0) {
        return cli_refuse_flag(context, "perturbed", "give two arrays of the same shape",
                               "--scores and --perturbed have different shapes");
    }
    x->rows = s->shape[s->rank - 2];
    x->columns = s->shape[s->rank - 1];
    x->heads = (int64_t)s->count / (x->rows * x->columns);
    const double *a = s->data, *b = t->data;
    for (size_t k = 0; k < s->count; k++) {
        const bool masked = isinf(a[k]) && isinf(b[k]) && fmax(a[k], b[k]) < 0.0;
        if (masked || (isfinite(a[k]) && isfinite(b[k]))) continue;
        return cli_refuse_flag(context, isfinite(a[k]) ? "perturbed" : "scores",
                               "a pair that takes no part is -inf in both",
                               "entry %zu is %g in the scores and %g in the perturbed ones", k,
                               a[k], b[k]);
    }
    return 0;
}

static int load_values(cli_context *context, const char *field, const char *spec, matrices *x,
                       const cli_array **values) {
    const int code = cli_load(context, field, spec, OTA_F64, values);
    if (code != 0) return code;
    const cli_array *v = *values;
    const bool fits = v->rank >= 2 && v->shape[v->rank - 2] == x->columns && v->count > 0;
    const int64_t width = fits ? v->shape[v->rank - 1] : 0;
    const int64_t heads = fits ? (int64_t)v->count / (x->columns * width) : 0;
    if (!fits || (heads != 1 && heads != x->heads) || (x->width != 0 && x->width != width)) {
        return cli_refuse_flag(context, field, "give [m,w] for all heads, or one for each",
                               "the values do not fit scores of %" PRId64 " heads with %" PRId64
                               " keys",
                               x->heads, x->columns);
    }
    x->width = width;
    const double *data = v->data;
    for (size_t k = 0; k < v->count; k++) {
        if (isfinite(data[k])) continue;
        return cli_refuse_flag(context, field, "values are finite", "entry %zu of %s is %g", k,
                               field, data[k]);
    }
    return 0;
}

/* The bounds are about the scores as they stand in the files, rows of mass 1. */
static int refuse_terms(cli_context *context) {
    const cli_settings *s = &context->settings;
    const struct {
        const char *flag;
        bool given;
    } rows[] = {{"scale", s->scores.scale.given},
                {"bias", s->scores.biases.count > 0},
                {"relative-bias", s->scores.relative_bias != NULL},
                {"alibi", s->scores.alibi != NULL},
                {"softcap", s->scores.softcap.given},
                {"sink", s->scores.sink != NULL},
                {"causal", s->pairs.causal != NULL},
                {"window", s->pairs.window != NULL},
                {"strided", s->pairs.strided.given},
                {"block", s->pairs.block != NULL},
                {"mask", s->pairs.masks.count > 0},
                {"lengths", s->pairs.lengths != NULL},
                {"row-mass", s->masses.row != NULL},
                {"column-mass", s->masses.column != NULL},
                {"rows", s->method.rows != NULL},
                {"axis", s->method.axis != NULL},
                {"start", s->method.start != NULL},
                {"end", s->method.end != NULL},
                {"rounds", s->solver.rounds.given}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        if (!rows[k].given) continue;
        return cli_refuse_flag(context, rows[k].flag,
                               "apply it to both matrices first; -inf masks a pair",
                               "with --perturbed the bounds are about the scores as they stand, "
                               "and --%s would change them or the rows",
                               rows[k].flag);
    }
    return 0;
}

static int solve(cli_context *context, const char *method, const char *file, cli_problem *problem,
                 cli_solution *solution) {
    int code = cli_problem_build(context, method, file, NULL, NULL, NULL, problem);
    if (code != 0) return code;
    const ota_problem *p = &problem->problem;
    const bool known = p->columns == OTA_COLUMNS_FREE || p->columns == OTA_COLUMNS_EXACT ||
                       p->columns == OTA_COLUMNS_RELAXED || p->columns == OTA_COLUMNS_CAPPED;
    if (p->regulariser != OTA_SOFTMAX || !known) {
        context->status = ota_status_word(OTA_UNSUPPORTED);
        return cli_refuse_flag(context, "method",
                               "softmax with free, exact, relaxed or capped columns has one",
                               "no perturbation bound is known for %s", problem->method);
    }
    if (p->temperatures.type != OTA_NO_TYPE) {
        return cli_refuse_flag(context, "temperature", "certify the heads one by one",
                               "one temperature for all heads is needed");
    }
    code = cli_solve(context, problem, CLI_WANT_COUPLING, OTA_F64, solution);
    if (code == 0) code = cli_solution_verdict(context, problem, solution);
    return code;
}

static double usual_temperature(const ota_problem *problem) {
    return problem->temperature > 0.0 ? problem->temperature : 1.0;
}

/* With masked pairs R has no algorithm here, but half the largest range of a row is above it. */
static ota_status bounds_of(const matrices *x, const double *s, const double *t, double temperature,
                            bool exact, ota_score_bounds *bounds, double *residual,
                            ota_error *error) {
    *residual = (double)NAN;
    ota_status status = ota_score_bounds_of(&(ota_score_pair){.scores = s,
                                                              .perturbed = t,
                                                              .rows = x->rows,
                                                              .columns = x->columns,
                                                              .temperature = temperature},
                                            (double)NAN, NULL, bounds, x->options, error);
    if (status < 0 || !exact) return status;
    bool masked = false;
    for (int64_t k = 0; k < x->rows * x->columns && !masked; k++) masked = isinf(s[k]);
    double above = 0.5 * bounds->range;
    if (!masked) {
        ota_gauge_result result;
        status = ota_gauge(
            &(ota_gauge_matrix){
                .a = s, .b = t, .type = OTA_F64, .rows = x->rows, .columns = x->columns},
            NULL, NULL, &result, x->options, error);
        if (status < 0) return status;
        above = *residual = result.residual;
    }
    return ota_score_bounds_of(&(ota_score_pair){.scores = s,
                                                 .perturbed = t,
                                                 .rows = x->rows,
                                                 .columns = x->columns,
                                                 .temperature = temperature},
                               above, NULL, bounds, x->options, error);
}

static double pick_bound(ota_column_rule rule, const ota_score_bounds *bounds) {
    if (rule == OTA_COLUMNS_FREE) return bounds->rows;
    return rule == OTA_COLUMNS_EXACT ? bounds->sharp : bounds->family;
}

/* Rows of P - Q sum to 0, so each is worth half its l1 norm times the diameter of the values. */
static double pick_output_bound(ota_column_rule rule, const ota_score_bounds *bounds,
                                const ota_output_bounds *outputs) {
    if (rule == OTA_COLUMNS_FREE) return outputs->rows;
    if (rule == OTA_COLUMNS_EXACT) return outputs->sharp;
    return outputs->values_change + fmin(1.0, 0.5 * bounds->family) * outputs->diameter;
}

static double output_change(const matrices *x, const double *p, const double *q, const double *v,
                            const double *w) {
    double worst = 0.0;
    for (int64_t i = 0; i < x->rows; i++) {
        double norm = 0.0;
        for (int64_t k = 0; k < x->width; k++) {
            double sum = 0.0;
            for (int64_t j = 0; j < x->columns; j++) {
                sum += p[i * x->columns + j] * v[j * x->width + k] -
                       q[i * x->columns + j] * w[j * x->width + k];
            }
            norm += sum * sum;
        }
        worst = fmax(worst, sqrt(norm));
    }
    return worst;
}

static const double *values_of(const matrices *x, const cli_array *values, int64_t head) {
    const int64_t size = x->columns * x->width;
    return (const double *)values->data + ((int64_t)values->count == size ? 0 : head * size);
}

/* A tolerance is a share of a row's mass; several of them are what ||P - Q||_1 of two solved plans may be wrong by. */
static double reach_of(const matrices *x, const ota_problem *problem) {
    enum { TOLERANCES = 10 };
    const double rows = (double)x->rows;
    return problem->columns == OTA_COLUMNS_FREE ? rows * DBL_EPSILON
                                                : (double)TOLERANCES * rows * x->tolerance;
}

static ota_status certify_head(const matrices *x, const ota_problem *problem, const double *p,
                               const double *q, int64_t head, certificate *c, ota_error *error) {
    const int64_t at = head * x->rows * x->columns;
    const double *s = (const double *)x->scores->data + at;
    const double *t = (const double *)x->perturbed->data + at;
    const double temperature = usual_temperature(problem);
    ota_score_bounds bounds;
    ota_status status = bounds_of(x, s, t, temperature, problem->columns == OTA_COLUMNS_EXACT,
                                  &bounds, &c->residual, error);
    if (status == OTA_OK) {
        status = ota_score_change_of(&(ota_score_pair){.scores = s,
                                                       .perturbed = t,
                                                       .rows = x->rows,
                                                       .columns = x->columns,
                                                       .temperature = temperature},
                                     p + at, q + at, &c->change, x->options, error);
    }
    if (status != OTA_OK) return status;
    c->bound = pick_bound(problem->columns, &bounds);
    c->printed = bounds.printed;
    c->ratio = c->bound > reach_of(x, problem) ? c->change.l1 / c->bound : (double)NAN;
    c->output_change = c->output_bound = c->output_printed = c->diameter = (double)NAN;
    if (x->values == NULL) return OTA_OK;
    const double *v = values_of(x, x->values, head), *w = values_of(x, x->other, head);
    ota_output_bounds outputs;
    status = ota_output_bounds_of(&bounds, v, w, x->columns, x->width, &outputs, x->options, error);
    if (status != OTA_OK) return status;
    c->output_change = output_change(x, p + at, q + at, v, w);
    c->output_bound = pick_output_bound(problem->columns, &bounds, &outputs);
    c->output_printed = outputs.printed;
    c->diameter = outputs.diameter;
    return OTA_OK;
}

static void set_figures(json_t *object, const certificate *c) {
    const struct {
        const char *name;
        double value;
    } rows[] = {{"l1", c->change.l1},
                {"bound", c->bound},
                {"bound_printed", c->printed},
                {"ratio", c->ratio},
                {"residual", c->residual},
                {"row_l1", c->change.row_l1},
                {"energy", c->change.energy},
                {"jeffreys", c->change.jeffreys},
                {"output_change", c->output_change},
                {"output_bound", c->output_bound},
                {"output_bound_printed", c->output_printed},
                {"values_diameter", c->diameter}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        (void)json_object_set_new(object, rows[k].name, cli_json_real(rows[k].value));
}

static int report(cli_context *context, const cli_problem *problem, const matrices *x,
                  const certificate *heads) {
    int64_t worst = 0;
    for (int64_t k = 1; k < x->heads; k++) {
        if (heads[k].ratio > heads[worst].ratio || isnan(heads[worst].ratio)) worst = k;
    }
    const certificate *c = &heads[worst];
    if (context->settings.output.json) {
        json_t *object = cli_json_put(cli_json_result(context, ota_status_word(OTA_OK)),
                                      "method:s temperature:r head:I", problem->method,
                                      usual_temperature(&problem->problem), worst);
        set_figures(object, c);
        if (context->settings.output.per_head) {
            json_t *all = json_array();
            for (int64_t k = 0; k < x->heads; k++) {
                json_t *head = json_object();
                set_figures(head, &heads[k]);
                (void)json_array_append_new(all, head);
            }
            (void)json_object_set_new(object, "heads", all);
        }
        (void)json_object_set(object, "warnings", context->warnings);
        return cli_print_json(stdout, object);
    }
    (void)printf("method           %s\n", problem->method);
    if (x->heads > 1) (void)printf("head             %" PRId64 ", nearest to its bound\n", worst);
    (void)printf("||P - Q||_1      %.9g\n", c->change.l1);
    if (isnan(c->ratio))
        (void)printf("bound            %.9g   nearer to 0 than the plans are solved, to %.2g\n",
                     c->bound, reach_of(x, &problem->problem));
    else
        (void)printf("bound            %.9g   attained to %.3g %%\n", c->bound, 100.0 * c->ratio);
    (void)printf("bound, printed   %.9g   (n / temperature) max |S - T|\n", c->printed);
    if (isfinite(c->residual))
        (void)printf("residual         %.9g   of S - T after row and column shifts\n", c->residual);
    if (x->values == NULL) return 0;
    (void)printf("output change    %.9g   largest 2-norm of a row of P V - Q W\n",
                 c->output_change);
    (void)printf("bound            %.9g\n", c->output_bound);
    (void)printf("bound, printed   %.9g\n", c->output_printed);
    (void)printf("diameter         %.9g   of W, the most that weights alone can move a row\n",
                 c->diameter);
    return 0;
}

static int load(cli_context *context, matrices *x) {
    const cli_settings *s = &context->settings;
    int code = refuse_terms(context);
    if (code == 0) code = load_scores(context, x);
    if (code == 0 && s->certify.values != NULL) {
        code = load_values(context, "values", s->certify.values, x, &x->values);
        x->other = x->values;
    }
    if (code != 0 || s->certify.perturbed_values == NULL) return code;
    if (s->certify.values == NULL) {
        return cli_refuse_flag(context, "values", "give both, or --values alone",
                               "--perturbed-values needs --values");
    }
    return load_values(context, "perturbed-values", s->certify.perturbed_values, x, &x->other);
}

static int certify_change(cli_context *context) {
    const char *method =
        context->settings.method.name != NULL ? context->settings.method.name : "softmax/exact";
    matrices x = {.options = &context->analysis};
    int code = load(context, &x);
    if (code != 0) return code;
    context->settings.output.dtype = "f64";
    cli_problem *problems = calloc(2, sizeof *problems);
    certificate *heads = calloc((size_t)x.heads, sizeof *heads);
    cli_solution p = {.status = OTA_UNSOLVED}, q = {.status = OTA_UNSOLVED};
    if (problems == NULL || heads == NULL) {
        code = cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
    }
    if (code == 0)
        code = solve(context, method, context->settings.certify.scores, &problems[0], &p);
    if (code == 0)
        code = solve(context, method, context->settings.certify.perturbed, &problems[1], &q);
    ota_error error = {.message = ""};
    if (code == 0) x.tolerance = cli_tolerance(&problems[0]);
    for (int64_t k = 0; k < x.heads && code == 0; k++) {
        const ota_status status = certify_head(&x, &problems[0].problem, p.coupling.data,
                                               q.coupling.data, k, &heads[k], &error);
        if (status < 0) code = cli_fail_status(context, status, &error);
    }
    if (code == 0) code = report(context, &problems[0], &x, heads);
    cli_solution_free(&p);
    cli_solution_free(&q);
    for (int k = 0; k < 2 && problems != NULL; k++) cli_problem_free(&problems[k]);
    free(problems);
    free(heads);
    return code;
}

int cli_certify(cli_context *context) {
    const cli_settings *s = &context->settings;
    if ((s->certify.coupling != NULL) == (s->certify.perturbed != NULL)) {
        return cli_refuse_flag(context, "coupling", "'otattn help certify' shows both",
                               s->certify.coupling == NULL
                                   ? "certify needs --perturbed T or --coupling P"
                                   : "--perturbed and --coupling ask for different certificates");
    }
    if (s->certify.scores == NULL) {
        return cli_refuse_flag(context, "scores", "write --scores S.npy",
                               "certify needs the scores");
    }
    return s->certify.coupling != NULL ? cli_certify_coupling(context) : certify_change(context);
}
