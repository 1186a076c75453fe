/* Hard columns: no smoothing, the columns exact or capped. Rows of the solver table over the two
 * combinatorial methods: shortest augmenting paths where every mass is the same unit, the transportation
 * simplex for real masses, caps and sinks. Both leave the plan itself and dual potentials. [ELA-14, LIT-06] */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "combinatorial.h"
#include "solvers/solver.h"

static const char *not_hard(const ota_resolved *r) {
    if (r->problem.regulariser != OTA_HARD)
        return "it has no smoothing, so it solves hard methods only";
    const ota_column_rule_row *rule = ota_column_rule_of(r->problem.columns);
    if (rule->coupling != OTA_COUPLING_POTENTIALS || !ota_rule_is(rule, OTA_RULE_CONSTRAINED)) {
        return "it needs exact, capped or bounded columns";
    }
    return NULL;
}

static size_t transport_workspace(const ota_head_shape *shape) {
    const ota_problem *problem = &shape->resolved->problem;
    const bool floor = ota_column_parameters_of(problem).floor > 0.0;
    return ota_transport_workspace(shape->rows, shape->columns,
                                   ota_transport_kind_of(ota_has_entry_caps(problem), floor));
}

static size_t matching_bytes(int64_t rows) {
    return ((size_t)rows * sizeof(int64_t) + 63) / 64 * 64;
}

static size_t assignment_workspace(const ota_head_shape *shape) {
    const size_t transport = transport_workspace(shape);
    const size_t paths = ota_assignment_workspace(shape->rows, shape->columns, shape->narrow);
    const size_t larger = transport > paths ? transport : paths;
    size_t total;
    return larger == SIZE_MAX || !ota_size_add(larger, matching_bytes(shape->rows), &total)
               ? SIZE_MAX
               : total;
}

/* The error of the plan that was found, and the final row update. The workspace is free again: [columns] sums. */
static void measure(ota_head *head) {
    double *sums = head->host.workspace;
    memset(sums, 0, (size_t)head->columns * sizeof *sums);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = 0; i < head->rows && !ota_watch_ends(&watch, head->columns); i++) {
        const double *plan = head->found.plan + i * head->scores.stride;
        for (int64_t j = 0; j < head->columns; j++) sums[j] += plan[j];
    }
    const ota_column_rule_row *rule = ota_head_rule(head);
    const ota_column_sums found = {.count = head->columns,
                                   .sum = sums,
                                   .target = head->nu,
                                   .g = head->g,
                                   .parameters = ota_head_parameters(head, 0)};
    const double columns = rule->excess != NULL ? rule->excess(&found) : rule->residual(&found);
    head->found.column_error = head->mass > 0.0 ? columns / head->mass : 0.0;
    head->found.update = OTA_FINAL_PLAN;
}

/* What the pairs that carry mass lack of S + f + g = 0, which optimal ones do not, and what rounding can make of it. */
typedef struct shortfall {
    double gap, floor;
} shortfall;

static void add_shortfall(const ota_head *head, shortfall *found, int64_t i, int64_t j,
                          double mass) {
    const int64_t at = i * head->scores.stride + j;
    const double s = head->scores.narrow ? (double)((const float *)head->scores.data)[at]
                                         : ((const double *)head->scores.data)[at];
    found->gap += mass * fmax(0.0, -(s + head->f[i] + head->g[j]));
    found->floor += mass * (fabs(s) + fabs(head->f[i]) + fabs(head->g[j]));
}

/* The plan's own potentials have the last word: they prove it optimal, or it is not called solved. */
static ota_status prove(ota_head *head, const int64_t *match) {
    shortfall found = {0.0, 0.0};
    const double least = head->row.mass_tolerance * head->mass;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = 0;
         i < head->rows && !ota_watch_ends(&watch, match != NULL ? 1 : head->columns); i++) {
        if (match != NULL && match[i] >= 0) add_shortfall(head, &found, i, match[i], 1.0);
        for (int64_t j = 0; match == NULL && j < head->columns; j++) {
            const double mass = head->found.plan[i * head->scores.stride + j];
            if (mass > least) add_shortfall(head, &found, i, j, mass);
        }
    }
    const double nodes = (double)head->rows + (double)head->columns;
    if (found.gap <= 4.0 * DBL_EPSILON * nodes * found.floor) return OTA_OK;
    (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                       "head %" PRId64
                       ": the plan may cost %g more than the best one, since costs are "
                       "too far apart for f64; set those that stand for a forbidden pair to inf",
                       head->index, found.gap);
    return OTA_NOT_CONVERGED;
}

static ota_status explain(ota_head *head, ota_status status) {
    if (status == OTA_INFEASIBLE) {
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "head %" PRId64 ": no plan of %" PRId64 " queries and %" PRId64
                           " keys meets the masses on this support",
                           head->index, head->rows, head->columns);
    } else if (status == OTA_NOT_CONVERGED) {
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "head %" PRId64
                           ": costs are too far apart for f64; set those that stand for "
                           "a forbidden pair to inf",
                           head->index);
    } else if (status == OTA_EINVAL) {
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "head %" PRId64 ": row_mass or column_mass adds up to %g or more, which "
                           "leaves no room for sums",
                           head->index, DBL_MAX / 4.0);
    }
    return status;
}

static ota_status solve_transport(ota_head *head) {
    ota_transport problem = {.n = head->rows,
                             .m = head->columns,
                             .scores = head->scores.data,
                             .stride = head->scores.stride,
                             .narrow = head->scores.narrow,
                             .mu = head->mu,
                             .nu = head->nu,
                             .capped = ota_rule_is(ota_head_rule(head), OTA_RULE_CAPACITY),
                             .floor = head->column.floor,
                             .caps = head->row.regulariser->capped ? &head->row.caps : NULL,
                             .sink = head->row.sink,
                             .tolerance = head->row.mass_tolerance,
                             .costs = head->host.algebra->costs[0],
                             .watch = ota_watch_of(head->settings),
                             .plan = head->found.plan,
                             .plan_stride = head->scores.stride,
                             .f = head->f,
                             .g = head->g};
    const ota_status status = ota_transport_solve(&problem, head->host.workspace);
    head->found.rounds = problem.paths + problem.pivots;
    if (status != OTA_OK) return explain(head, status);
    measure(head);
    return prove(head, NULL);
}

static bool all_units(const double *mass, int64_t count, double unit) {
    for (int64_t k = 0; k < count; k++) {
        if (mass[k] < unit || mass[k] > unit) return false;
    }
    return true;
}

static ota_status solve_assignment(ota_head *head) {
    const double unit = head->rows > 0 ? head->mu[0] : 1.0;
    const bool capped = ota_rule_is(ota_head_rule(head), OTA_RULE_CAPACITY);
    const bool sizes = capped ? head->rows <= head->columns : head->rows == head->columns;
    const bool matching = sizes && !head->row.regulariser->capped &&
                          !(head->column.floor > 0.0 && capped) && !(head->row.sink > -INFINITY) &&
                          unit > 0.0 && all_units(head->mu, head->rows, unit) &&
                          all_units(head->nu, head->columns, unit);
    if (!matching) return solve_transport(head);
    int64_t *match = head->host.workspace;
    ota_assignment problem = {.n = head->rows,
                              .m = head->columns,
                              .scores = head->scores.data,
                              .stride = head->scores.stride,
                              .narrow = head->scores.narrow,
                              .costs = head->host.algebra->costs[head->scores.narrow],
                              .passes = head->host.algebra->match,
                              .watch = ota_watch_of(head->settings),
                              .match = match,
                              .f = head->f,
                              .g = head->g};
    const ota_status status =
        ota_assignment_solve(&problem, (char *)head->host.workspace + matching_bytes(head->rows));
    if (status == OTA_OK && problem.apart) return solve_transport(head);
    if (status != OTA_OK) return explain(head, status);
    /* One pair a row and no column twice, which is how the search keeps its books: no error. */
    head->found.column_error = 0.0;
    head->found.match = match;
    if (capped && head->rows == head->columns) {
        /* Potentials are defined up to a shift, and those of capacities are at most 0. */
        double highest = -INFINITY;
        for (int64_t j = 0; j < head->columns; j++) highest = fmax(highest, head->g[j]);
        for (int64_t j = 0; j < head->columns; j++) head->g[j] -= highest;
        for (int64_t i = 0; i < head->rows; i++) head->f[i] += highest;
    }
    head->found.update = OTA_FINAL_MATCH;
    return prove(head, match);
}

const ota_solver ota_solver_assignment = {
    .name = "assignment",
    .purpose =
        "shortest augmenting paths, and the transportation simplex where masses are not units",
    .refuses = not_hard,
    .workspace = assignment_workspace,
    .needs_plan = true,
    .wide = true,
    .reads_narrow = true,
    .solve = solve_assignment,
};

const ota_solver ota_solver_transport = {
    .name = "transport",
    .purpose = "shortest augmenting paths and the transportation simplex",
    .refuses = not_hard,
    .workspace = transport_workspace,
    .needs_plan = true,
    .wide = true,
    .reads_narrow = true,
    .solve = solve_transport,
};
