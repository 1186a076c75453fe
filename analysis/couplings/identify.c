/* ota_identify: candidates from regressions, each proved or disproved by solving it.
 *
 *     tau b_j = -rho log(c_j / nu_j) + constant      relaxed columns: rho is a slope
 *     cap = max_j c_j / nu_j                         capped and online
 *     lambda of elastic,T                            where the potential after T rounds has b's size */
#include "identify.h"

#include "base/base.h"
#include "base/integers.h"

#include <stdio.h>
#include <stdlib.h>

/* A candidate this near, in mass, ends the search for richer ones. */
static const double ENOUGH = 1e-5;
/* One further away than this explains nothing. */
static const double EXPLAINED = 1e-3;

/* Prefix plans take a solve a row, and half a hundred of them to find a temperature. */
static const int64_t PREFIX_MOST = 64 * 64;

typedef struct search {
    identify_data data;
    ota_problem base;
    ota_options options;
    double *plan; /* [cells], then potentials [heads * columns] */
    double *potential;
    ota_fit fits[48];
    int64_t count;
    double nearest;
    unsigned own; /* IDENTIFY_ROWS, IDENTIFY_COLUMNS: their masses are the coupling's own sums */
} search;

/* ---- one candidate ---- */

static ota_problem problem_of(const search *s, const ota_fit *fit) {
    ota_problem problem = s->base;
    problem.regulariser = fit->regulariser;
    problem.order = fit->order;
    problem.columns = fit->columns;
    problem.strength = fit->strength;
    problem.cap = fit->cap;
    problem.lambda = fit->lambda;
    problem.steps = fit->steps;
    problem.rows = fit->rows;
    problem.row_strength = fit->row_strength;
    problem.axis = fit->axis;
    problem.temperature = isnan(fit->temperature) ? 1.0 : fit->temperature;
    const bool massless = fit->columns == OTA_COLUMNS_FREE || fit->columns == OTA_COLUMNS_PREFIX;
    if (massless && fit->axis == OTA_AXIS_ROWS) problem.column_mass = (ota_array){.data = NULL};
    return problem;
}

/* What ends the whole search; any other failure merely drops a candidate. */
static bool fatal(ota_status status) {
    return status == OTA_CANCELLED || status == OTA_TIMEOUT || status == OTA_ENOMEM;
}

static ota_status attend(search *s, const ota_fit *fit, bool potential, ota_error *error) {
    const identify_data *d = &s->data;
    const ota_problem problem = problem_of(s, fit);
    ota_arrays arrays = {.size = sizeof arrays};
    const int64_t heads = d->heads / (d->batch > 0 ? d->batch : 1);
    if (potential) {
        arrays.column_potential =
            ota_array_of(s->potential, OTA_F64, d->batch, heads, 1, d->columns);
    } else {
        arrays.coupling = ota_array_of(s->plan, OTA_F64, d->batch, heads, d->rows, d->columns);
    }
    return ota_attend(&problem, &s->options, &arrays, NULL, error);
}

static double distance(const search *s) {
    const identify_data *d = &s->data;
    const int64_t pairs = d->rows * d->columns;
    double worst = 0.0;
    for (int64_t head = 0; head < d->heads && ota_analysis_goes_on(s->data.call); head++) {
        double apart = 0.0, mass = 0.0;
        for (int64_t k = head * pairs; k < (head + 1) * pairs && analysis_goes_on(s->data.call, k);
             k++) {
            apart += fabs(s->data.coupling[k] - s->plan[k]);
            mass += 0.5 * (s->data.coupling[k] + s->plan[k]);
        }
        const double here = mass > 0.0 ? apart / mass : apart;
        if (!(here <= worst)) worst = here;
    }
    return worst;
}

/* The shortest decimal within a relative slack. */
static double rounded(double value, double slack) {
    char text[40];
    for (int digits = 1; digits < 17; digits++) {
        (void)ota_snprintf(text, sizeof text, "%.*g", digits, value);
        const double shorter = ota_strtod(text, NULL);
        if (fabs(shorter - value) <= slack * fabs(value)) return shorter;
    }
    return value;
}

static void name(const search *s, ota_fit *fit) {
    const ota_problem problem = problem_of(s, fit);
    const size_t size = sizeof fit->method;
    size_t length = ota_method_name(&problem, fit->method, size);
    const char *before = "{";
    if (!isnan(fit->temperature)) {
        length += (size_t)ota_snprintf(fit->method + length, size - length, "{temperature=%.15g",
                                       fit->temperature);
        before = ",";
    }
    if (fit->rows == OTA_ROWS_RELAXED) {
        length += (size_t)ota_snprintf(fit->method + length, size - length, "%srows=relaxed:%.15g",
                                       before, fit->row_strength);
        before = ",";
    }
    if (fit->axis == OTA_AXIS_COLUMNS) {
        length +=
            (size_t)ota_snprintf(fit->method + length, size - length, "%saxis=columns", before);
        before = ",";
    }
    if (before[0] == ',') (void)ota_snprintf(fit->method + length, size - length, "}");
}

static void round_parameters(ota_fit *fit, double slack) {
    fit->temperature =
        isnan(fit->temperature) ? fit->temperature : rounded(fit->temperature, slack);
    fit->strength = rounded(fit->strength, slack);
    fit->row_strength = rounded(fit->row_strength, slack);
    fit->cap = rounded(fit->cap, slack);
    fit->lambda = rounded(fit->lambda, slack);
}

static int own_parameters(const search *s) {
    const identify_data *d = &s->data;
    const int64_t count = ((s->own & IDENTIFY_ROWS) != 0 ? d->heads * d->rows : 0) +
                          ((s->own & IDENTIFY_COLUMNS) != 0 ? d->heads * d->columns : 0);
    return (int)ota_int_min(count, 1 << 30);
}

/* Solves by the candidate's method, then once more with rounded parameters, and keeps the rounded ones
 * unless they explain less. */
static ota_status consider(search *s, ota_fit fit, const analysis_call *call) {
    if (s->count == (int64_t)(sizeof s->fits / sizeof s->fits[0])) return OTA_OK;
    fit.parameters = (fit.temperature_known != 0) + (fit.regulariser == OTA_ENTMAX) +
                     (fit.strength > 0.0) + (fit.cap > 0.0) + (fit.row_strength > 0.0) +
                     2 * (fit.steps > 0) + own_parameters(s);
    fit.own_row_mass = (s->own & IDENTIFY_ROWS) != 0;
    fit.own_column_mass = (s->own & IDENTIFY_COLUMNS) != 0;
    ota_status status = attend(s, &fit, false, call->error);
    if (status < 0) return fatal(status) ? status : OTA_OK;
    fit.distance = distance(s);
    const double residual = isnan(fit.residual) ? fit.distance : fit.residual;
    ota_fit plain = fit;
    round_parameters(&plain, fmin(1e-3, fmax(1e-7, 32.0 * residual)));
    status = attend(s, &plain, false, call->error);
    if (fatal(status)) return status;
    plain.distance = status < 0 ? (double)INFINITY : distance(s);
    if (plain.distance <= 2.0 * fit.distance + 1e-9) fit = plain;
    if (isnan(fit.distance)) return OTA_OK;
    name(s, &fit);
    s->nearest = fmin(s->nearest, fit.distance);
    s->fits[s->count++] = fit;
    return OTA_OK;
}

/* ---- what effects say about rules ---- */

/* Slope of y against x, weighted by sum, the mean of each connected part taken out of both; entries where
 * x is no number do not count. NaN where x says nothing. */
static double slope(const identify_data *d, const int64_t *part, const double *sum, const double *x,
                    const double *y, int64_t count) {
    const int64_t parts = d->heads * (d->rows + d->columns);
    double *const weight = d->work, *const mean_x = weight + parts, *const mean_y = mean_x + parts;
    for (int64_t k = 0; k < parts; k++) weight[k] = mean_x[k] = mean_y[k] = 0.0;
    for (int64_t k = 0; k < count && analysis_goes_on(d->call, k); k++) {
        if (!isfinite(x[k])) continue;
        weight[part[k]] += sum[k];
        mean_x[part[k]] += sum[k] * x[k];
        mean_y[part[k]] += sum[k] * y[k];
    }
    double across = 0.0, along = 0.0, total = 0.0;
    for (int64_t k = 0; k < count && analysis_goes_on(d->call, k); k++) {
        const double all = weight[part[k]];
        if (!isfinite(x[k]) || !(all > 0.0)) continue;
        const double apart = x[k] - mean_x[part[k]] / all;
        across += sum[k] * apart * (y[k] - mean_y[part[k]] / all);
        along += sum[k] * apart * apart;
        total += sum[k];
    }
    return along > 1e-20 * total ? across / along : (double)NAN;
}

/* rho of the side whose effects these are; logarithms [count] is scratch. */
static double strength(const identify_data *d, double temperature, const int64_t *part,
                       const double *effect, const double *sum, const double *mass, int64_t count,
                       double *logarithms) {
    for (int64_t k = 0; k < count; k++)
        logarithms[k] = sum[k] > 0.0 && mass[k] > 0.0 ? log(sum[k] / mass[k]) : (double)NAN;
    return -temperature * slope(d, part, sum, logarithms, effect, count);
}

/* sum |sum - mass| */
static double off(const double *sum, const double *mass, int64_t count) {
    double apart = 0.0;
    for (int64_t k = 0; k < count; k++) apart += fabs(sum[k] - mass[k]);
    return apart;
}

static double largest_share(const search *s) {
    const identify_data *d = &s->data;
    const bool masses = s->base.column_mass.type != OTA_NO_TYPE;
    double most = 0.0;
    for (int64_t k = 0; k < d->heads * d->columns; k++) {
        const double unit = masses ? d->column_mass[k] : 1.0;
        if (unit > 0.0) most = fmax(most, d->column_sum[k] / unit);
    }
    return most;
}

/* The size of the potential after fit's rounds against b: 1 where they agree. */
static ota_status potential_ratio(search *s, const ota_fit *fit, const double *effect,
                                  double *ratio, const analysis_call *call) {
    const identify_data *d = &s->data;
    const ota_status status = attend(s, fit, true, call->error);
    *ratio = (double)NAN;
    if (status < 0) return status;
    *ratio = slope(d, d->column_part, d->column_sum, effect, s->potential, d->heads * d->columns) /
             fit->temperature;
    return status;
}

/* The lambda between two whose potentials are one too small, one too large: regula falsi, with the idle end's height halved
 * [dowell1971]. */
static ota_status between_steps(search *s, ota_fit *fit, const double *effect, double ends[2],
                                double ratios[2], const analysis_call *call) {
    ota_status status = OTA_OK;
    for (int k = 0; k < 60 && status >= 0; k++) {
        fit->lambda = ends[0] + (ends[1] - ends[0]) * (1.0 - ratios[0]) / (ratios[1] - ratios[0]);
        double ratio;
        status = potential_ratio(s, fit, effect, &ratio, call);
        if (fabs(ratio - 1.0) < 1e-13 || fabs(ends[1] - ends[0]) < 1e-14) break;
        const int side = ratio >= 1.0;
        ends[side] = fit->lambda;
        ratios[side] = ratio;
        ratios[!side] = 1.0 + 0.5 * (ratios[!side] - 1.0);
    }
    return status;
}

/* The lambdas of a grid's intervals in which the potential of these steps becomes as large as b, which need not grow all along.
 * Of all fits from `first` on the best is enough. */
static ota_status consider_steps(search *s, ota_fit fit, const double *effect, int64_t first,
                                 const analysis_call *call) {
    double low = 0.0, below = 0.0;
    ota_status status = OTA_OK;
    for (int k = 1; k < 20 && status >= 0; k++) {
        const double high = 0.1 * k;
        double above;
        fit.lambda = high;
        status = potential_ratio(s, &fit, effect, &above, call);
        if (status >= 0 && (above >= 1.0) != (below >= 1.0)) {
            const bool falls = below >= 1.0;
            status =
                between_steps(s, &fit, effect, (double[2]){falls ? high : low, falls ? low : high},
                              (double[2]){falls ? above : below, falls ? below : above}, call);
            if (status >= 0) status = consider(s, fit, call);
            if (s->count > first + 1) {
                if (s->fits[first + 1].distance < s->fits[first].distance)
                    s->fits[first] = s->fits[first + 1];
                s->count = first + 1;
            }
            if (s->count > first && s->fits[first].distance < 1e-7) break;
        }
        low = high;
        below = above;
    }
    return status;
}

/* Every number of steps with its lambdas. */
static ota_status consider_elastic(search *s, ota_fit fit, const analysis_call *call) {
    const identify_data *d = &s->data;
    const int64_t most = d->cells > (int64_t)1 << 18 ? 4 : 12;
    double *const effect = malloc((size_t)(d->heads * d->columns) * sizeof *effect);
    if (effect == NULL) {
        return ota_analysis_fail(call, OTA_ENOMEM, "coupling", "use fewer keys",
                                 "no memory is left");
    }
    memcpy(effect, d->column_effect, (size_t)(d->heads * d->columns) * sizeof *effect);
    const int64_t first = s->count;
    ota_status status = OTA_OK;
    fit.columns = OTA_COLUMNS_ELASTIC;
    for (fit.steps = 1; fit.steps <= most && status >= 0; fit.steps++) {
        status = consider_steps(s, fit, effect, first, call);
        if (s->count > first && s->fits[first].distance < 1e-7) break;
    }
    free(effect);
    return fatal(status) ? status : OTA_OK;
}

/* ---- the families ---- */

/* The line at `order` as a candidate without a column rule; *sound: a temperature came out. */
static ota_fit line_fit(search *s, double order, unsigned sides, bool *sound) {
    const identify_line line = ota_identify_regress(&s->data, order, sides);
    const double usual = s->base.temperature > 0.0 ? s->base.temperature : 1.0;
    ota_fit fit = {.regulariser = order > 1.0 ? OTA_ENTMAX : OTA_SOFTMAX,
                   .order = order > 1.0 ? order : 0.0,
                   .residual = line.residual,
                   .temperature = isnan(line.slope) ? usual : 1.0 / line.slope,
                   .temperature_known = !isnan(line.slope)};
    *sound = fit.temperature > 0.0 && isfinite(fit.temperature);
    return fit;
}

static ota_status consider_coupled(search *s, double order, const analysis_call *call) {
    const identify_data *d = &s->data;
    bool sound;
    ota_fit fit = line_fit(s, order, IDENTIFY_ROWS | IDENTIFY_COLUMNS, &sound);
    if (!sound) return OTA_OK;
    /* The plan's place is free until the next solve. */
    const double rho = strength(d, fit.temperature, d->column_part, d->column_effect, d->column_sum,
                                d->column_mass, d->heads * d->columns, s->plan);
    const double row_rho = strength(d, fit.temperature, d->row_part, d->row_effect, d->row_sum,
                                    d->row_mass, d->heads * d->rows, s->plan);
    const double columns_off = off(d->column_sum, d->column_mass, d->heads * d->columns);
    const double rows_off = off(d->row_sum, d->row_mass, d->heads * d->rows);
    ota_fit exact = fit;
    exact.columns = OTA_COLUMNS_EXACT;
    ota_status status = consider(s, exact, call);
    if (status < 0 || columns_off < 1e-9 * d->mass || s->nearest < ENOUGH) return status;
    if (rho > 0.0) {
        ota_fit relaxed = fit;
        relaxed.columns = OTA_COLUMNS_RELAXED;
        relaxed.strength = rho;
        status = consider(s, relaxed, call);
        if (status >= 0 && s->nearest > ENOUGH && rows_off > 1e-9 * d->mass && row_rho > 0.0) {
            relaxed.rows = OTA_ROWS_RELAXED;
            relaxed.row_strength = row_rho;
            status = consider(s, relaxed, call);
        }
    }
    if (status >= 0 && s->nearest > ENOUGH) {
        ota_fit capped = fit;
        capped.columns = OTA_COLUMNS_CAPPED;
        capped.cap = largest_share(s);
        status = consider(s, capped, call);
    }
    if (status >= 0 && order <= 1.0 && s->nearest > ENOUGH && fit.residual < 1e-2)
        status = consider_elastic(s, fit, call);
    return status;
}

/* Keys that are full say nothing about the line; the others were never clipped. */
static ota_status consider_online(search *s, const analysis_call *call) {
    identify_data *d = &s->data;
    const bool masses = s->base.column_mass.type != OTA_NO_TYPE;
    const double cap = largest_share(s);
    for (int64_t k = 0; k < d->heads * d->columns; k++) {
        const double full = cap * (masses ? d->column_mass[k] : 1.0);
        d->left_out[k] = d->column_sum[k] >= full * (1.0 - 1e-5);
    }
    bool sound;
    ota_fit fit = line_fit(s, 1.0, IDENTIFY_ROWS, &sound);
    memset(d->left_out, 0, (size_t)(d->heads * d->columns));
    if (!sound) return OTA_OK;
    fit.columns = OTA_COLUMNS_ONLINE;
    fit.cap = cap;
    return consider(s, fit, call);
}

static double distance_at(void *context, double logarithm) {
    search *s = context;
    const ota_fit fit = {.columns = OTA_COLUMNS_PREFIX, .temperature = exp(logarithm)};
    return attend(s, &fit, false, NULL) < 0 ? (double)INFINITY : distance(s);
}

/* Every row of a prefix plan has column effects of its own, so there is no line: the temperature is the one
 * whose plan is nearest. */
static ota_status consider_prefix(search *s, const analysis_call *call) {
    const identify_data *d = &s->data;
    double least = (double)INFINITY, most = -(double)INFINITY;
    if (d->rows > d->columns || d->cells > PREFIX_MOST) return OTA_OK;
    for (int64_t k = 0; k < d->cells && analysis_goes_on(call, k); k++) {
        const bool later = k % d->columns > k / d->columns % d->rows + d->columns - d->rows;
        if (later && d->coupling[k] > 0.0) return OTA_OK;
        if (isinf(d->scores[k])) continue;
        least = fmin(least, d->scores[k]);
        most = fmax(most, d->scores[k]);
    }
    if (!(most > least)) return OTA_OK;
    const double middle = log(most - least);
    const double at = ota_identify_minimum(distance_at, s, middle - 7.0, middle + 3.0, 32);
    const ota_fit fit = {.columns = OTA_COLUMNS_PREFIX,
                         .temperature = exp(at),
                         .temperature_known = 1,
                         .residual = (double)NAN};
    return consider(s, fit, call);
}

static ota_status consider_hard(search *s, const analysis_call *call) {
    const identify_data *d = &s->data;
    int64_t carrying = 0;
    for (int64_t k = 0; k < d->cells; k++) carrying += d->coupling[k] > 0.0;
    /* A vertex of the polytope has no more. */
    if (carrying > d->heads * (d->rows + d->columns)) return OTA_OK;
    const ota_fit fit = {
        .regulariser = OTA_HARD, .temperature = (double)NAN, .residual = (double)NAN};
    ota_fit exact = fit, capped = fit;
    exact.columns = OTA_COLUMNS_EXACT;
    capped.columns = OTA_COLUMNS_CAPPED;
    capped.cap = largest_share(s);
    ota_status status = consider(s, fit, call);
    if (status >= 0) status = consider(s, exact, call);
    if (status >= 0 && s->nearest > ENOUGH) status = consider(s, capped, call);
    return status;
}

static ota_status consider_entmax(search *s, unsigned sides, const analysis_call *call) {
    const double order = rounded(ota_identify_order(&s->data, sides, 1.02, 4.0), 1e-5);
    if (sides != IDENTIFY_ROWS) return consider_coupled(s, order, call);
    bool sound;
    const ota_fit fit = line_fit(s, order, sides, &sound);
    return sound ? consider(s, fit, call) : OTA_OK;
}

static ota_status consider_all(search *s, const analysis_call *call) {
    bool sound;
    ota_fit fit = line_fit(s, 1.0, IDENTIFY_ROWS, &sound);
    /* Scores that a plan runs against leave the temperature to the problem. */
    if (!sound) fit.temperature = s->base.temperature > 0.0 ? s->base.temperature : 1.0;
    ota_status status = consider(s, fit, call);
    if (status >= 0 && s->nearest > ENOUGH) status = consider_entmax(s, IDENTIFY_ROWS, call);
    if (status >= 0) status = consider_hard(s, call);
    if (status >= 0) status = consider_coupled(s, 1.0, call);
    if (status >= 0 && s->nearest > ENOUGH) status = consider_online(s, call);
    if (status >= 0 && s->nearest > ENOUGH) status = consider_prefix(s, call);
    if (status >= 0 && s->nearest > ENOUGH) {
        fit = line_fit(s, 1.0, IDENTIFY_COLUMNS, &sound);
        fit.axis = OTA_AXIS_COLUMNS;
        if (sound) status = consider(s, fit, call);
    }
    if (status >= 0 && s->nearest > ENOUGH)
        status = consider_entmax(s, IDENTIFY_ROWS | IDENTIFY_COLUMNS, call);
    return status;
}

/* Candidates whose columns carry given masses, all that a coupling of distributions may follow. */
static ota_status consider_exact(search *s, const analysis_call *call) {
    ota_status status = consider_coupled(s, 1.0, call);
    if (status >= 0 && s->nearest > ENOUGH) status = consider_hard(s, call);
    if (status >= 0 && s->nearest > ENOUGH)
        status = consider_entmax(s, IDENTIFY_ROWS | IDENTIFY_COLUMNS, call);
    return status;
}

/* From here on with the coupling's own sums for the masses of these sides; false: they are those that were tried already. */
static bool take_own_masses(search *s, unsigned sides) {
    identify_data *d = &s->data;
    const int64_t lines = d->heads * d->rows, keys = d->heads * d->columns;
    const double rows_off = off(d->row_sum, d->row_mass, lines);
    const double columns_off = off(d->column_sum, d->column_mass, keys);
    const double away = (sides & IDENTIFY_COLUMNS) != 0 ? rows_off + columns_off : rows_off;
    if (away <= 1e-9 * d->mass) return false;
    const int64_t heads = d->heads / d->batch;
    s->own = sides;
    ota_identify_masses(&s->base, sides, d);
    s->base.row_mass = ota_array_of(d->row_mass, OTA_F64, d->batch, heads, 1, d->rows);
    if ((sides & IDENTIFY_COLUMNS) != 0)
        s->base.column_mass = ota_array_of(d->column_mass, OTA_F64, d->batch, heads, 1, d->columns);
    return true;
}

/* The masses as given; then rows', then columns' own sums for those that are not. */
static ota_status consider_masses(search *s, const analysis_call *call) {
    const bool rows = s->base.row_mass.type != OTA_NO_TYPE;
    const bool columns = s->base.column_mass.type != OTA_NO_TYPE;
    ota_status status = consider_all(s, call);
    if (status >= 0 && s->nearest > EXPLAINED && !rows && take_own_masses(s, IDENTIFY_ROWS))
        status = consider_all(s, call);
    const unsigned both = (rows ? 0U : IDENTIFY_ROWS) | IDENTIFY_COLUMNS;
    if (status >= 0 && s->nearest > EXPLAINED && !columns && take_own_masses(s, both))
        status = consider_exact(s, call);
    return status;
}

/* Whether all scores are of the form row + column, whatever pairs carry weight. */
static bool scores_add(search *s) {
    identify_data *d = &s->data;
    const double *const coupling = d->coupling;
    for (int64_t k = 0; k < d->cells; k++) s->plan[k] = 1.0;
    d->coupling = s->plan;
    const identify_line line = ota_identify_regress(d, 2.0, IDENTIFY_ROWS | IDENTIFY_COLUMNS);
    d->coupling = coupling;
    return isnan(line.slope);
}

/* ---- ranking ---- */

/* Fits that explain with as many parameters stay in the order they were tried in, the plainest first: their distances
 * differ by rounding. */
static bool goes_before(const ota_fit *a, const ota_fit *b) {
    if (a->explains != b->explains) return a->explains != 0;
    return a->explains != 0 ? a->parameters < b->parameters : a->distance < b->distance;
}

static void rank(search *s) {
    for (int64_t k = 0; k < s->count; k++)
        s->fits[k].explains = s->fits[k].distance <= fmin(fmax(4.0 * s->nearest, 1e-8), EXPLAINED);
    for (int64_t k = 1; k < s->count; k++) {
        const ota_fit fit = s->fits[k];
        int64_t place = k;
        for (; place > 0 && goes_before(&fit, &s->fits[place - 1]); place--)
            s->fits[place] = s->fits[place - 1];
        s->fits[place] = fit;
    }
}

/* What of the problem counts here: everything but the method. */
static ota_problem without_method(const ota_problem *problem) {
    ota_problem base = {.size = sizeof base};
    memcpy(&base, problem, problem->size < sizeof base ? problem->size : sizeof base);
    base.size = problem->size == 0 ? 0 : sizeof base;
    base.temperatures = base.lambdas = (ota_array){.data = NULL};
    base.start = base.end = OTA_SIDE_ROWS;
    base.regulariser = OTA_SOFTMAX;
    base.columns = OTA_COLUMNS_FREE;
    base.rows = OTA_ROWS_HARD;
    base.axis = OTA_AXIS_ROWS;
    return base;
}

/* Free columns would refuse column masses that other candidates need. */
static ota_status check(const ota_problem *base, ota_error *error) {
    ota_problem problem = *base;
    problem.columns = OTA_COLUMNS_RELAXED;
    problem.strength = 1.0;
    return ota_check(&problem, NULL, error);
}

static ota_status explain(const ota_problem *problem, const ota_options *options,
                          const double *coupling, ota_fit *fits, int64_t capacity, int64_t *count,
                          const analysis_call *call) {
    ota_status status = analysis_check_size(capacity, 1, "capacity", call);
    const ota_problem base = without_method(problem);
    if (status == OTA_OK) status = check(&base, call->error);
    if (status < 0) return status;
    search *const s = calloc(1, sizeof *s);
    if (s == NULL) {
        return ota_analysis_fail(call, OTA_ENOMEM, "coupling", "free some", "no memory is left");
    }
    s->base = base;
    s->options = (ota_options){.size = sizeof s->options,
                               .max_rounds = 5000,
                               .precision = OTA_PRECISION_F64,
                               .allow_partial = 1};
    if (options != NULL) {
        s->options.threads = options->threads;
        s->options.cpu = options->cpu;
        if (options->max_rounds > 0) s->options.max_rounds = options->max_rounds;
    }
    s->options.cancel = call->options.cancel;
    s->options.deadline_ns = call->options.deadline_ns;
    s->nearest = (double)INFINITY;
    status = ota_identify_open(&s->base, &s->options, coupling, &s->data, call);
    if (status >= 0) {
        const int64_t keys = s->data.heads * s->data.columns;
        s->plan = malloc((size_t)(s->data.cells + keys) * sizeof *s->plan);
        s->potential = s->plan == NULL ? NULL : s->plan + s->data.cells;
        status = s->plan != NULL
                     ? consider_masses(s, call)
                     : ota_analysis_fail(call, OTA_ENOMEM, "coupling", "use fewer heads",
                                         "no memory for %" PRId64 " pairs", s->data.cells);
    }
    if (status >= 0) {
        rank(s);
        const bool add = scores_add(s);
        for (int64_t k = 0; k < s->count; k++) s->fits[k].scores_add = add;
        *count = ota_int_min(s->count, capacity);
        memcpy(fits, s->fits, (size_t)*count * sizeof *fits);
        status = OTA_OK;
    }
    ota_identify_close(&s->data);
    free(s->plan);
    free(s);
    return ota_analysis_end(status, call);
}

ota_status ota_identify(const ota_problem *problem, const ota_options *options,
                        const double *coupling, ota_fit *fits, int64_t capacity, int64_t *count,
                        ota_error *error) {
    const analysis_call call = ota_analysis_begin_plan(options, error);
    return explain(problem, options, coupling, fits, capacity, count, &call);
}
