/* What backward's fixed rounds start from: masses, targets and settings of one head in the orientation of the
 * solver, as forward's rounds saw them. */
#include "backward.h"
#include "mass_limits.h"

#include <math.h>

/* Of rows on many processes: the mass of all, and which keys a row of any of them may use or reaches. What a sum that failed
 * leaves is nobody's, since every later one fails, too. */
static void share_masses(ota_head *head, unsigned char *used, double *nu) {
    const ota_settings *settings = head->settings;
    if (settings->ranks == NULL) return;
    const double reached = settings->ranks->to.ranks + 1.0;
    for (int64_t j = 0; j < head->columns; j++) nu[j] = used[j] + reached * nu[j];
    (void)ota_ranks_sum(settings, nu, head->columns, &head->mass, 1, "the masses of the rounds");
    for (int64_t j = 0; j < head->columns; j++) {
        used[j] = nu[j] > 0.0;
        nu[j] = nu[j] >= reached ? 1.0 : 0.0;
    }
}

/* Softmax alone has fixed rounds, and its derivatives are relative to the masses: what stands for a mass of 0 that begins to grow
 * (mass_limits.h), so small beside the largest of its side, on all processes, that it shows in no sum. 0: none does. */
static double grown_mass(const ota_backward_job *job, bool rows) {
    const ota_plan *plan = job->plan;
    const bool queries = rows != plan->strategy.transposed;
    const int64_t count = rows ? plan->strategy.rows : plan->strategy.columns;
    double largest = 0.0;
    if (!(queries ? job->limits.queries : job->limits.keys)) return 0.0;
    for (int64_t k = 0; k < count; k++) {
        const ota_resolved *r = &plan->resolved;
        largest = fmax(largest, queries ? ota_row_mass(r, job->batch, job->head, k)
                                        : ota_column_mass(r, job->batch, job->head, k, 1.0));
    }
    if (rows) (void)ota_ranks_most(&plan->resolved.settings, &largest, 1, "the largest mass");
    return 0x1p-200 * largest;
}

/* May the row use a key that has mass, or begins to? */
static bool finds_mass(const ota_backward_job *job, const double *row, double grown) {
    const ota_plan *plan = job->plan;
    const bool given =
        ota_array_present(plan->strategy.transposed ? &plan->resolved.problem.row_mass
                                                    : &plan->resolved.problem.column_mass);
    bool any = job->parameters.sink > -INFINITY;
    for (int64_t j = 0; j < plan->strategy.columns && !any; j++)
        any = row[j] > -INFINITY &&
              (!given || grown > 0.0 ||
               !ota_mass_is_none(&plan->resolved, job, plan->strategy.transposed, j));
    return any;
}

/* Masses as forward's rounds saw them: mu without empty rows, and which keys are usable or reached. */
static void load_masses(ota_backward_job *job, ota_head *head, double *mu, double *nu) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const int64_t n = plan->strategy.rows, m = plan->strategy.columns;
    head->mass = 0.0;
    for (int64_t j = 0; j < m; j++) {
        s->held[j] = 0;
        nu[j] = 0.0;
    }
    const double grown = grown_mass(job, true), grown_column = grown_mass(job, false);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = 0; i < n && !ota_watch_ends(&watch, m); i++) {
        const double *row = (const double *)head->scores.data + i * head->scores.stride;
        mu[i] = plan->strategy.transposed ? ota_column_mass(r, job->batch, job->head, i, 1.0)
                                          : ota_row_mass(r, job->batch, job->head, i);
        bool any = head->row.sink > -INFINITY;
        for (int64_t j = 0; j < m; j++) {
            if (!(row[j] > -INFINITY)) continue;
            any = true;
            s->held[j] = 1;
            if (mu[i] > 0.0) nu[j] = 1.0;
        }
        if (!any) mu[i] = 0.0;
        head->mass += mu[i];
        if (any && grown > 0.0 && !(mu[i] > 0.0) && finds_mass(job, row, grown_column))
            mu[i] = grown;
    }
    share_masses(head, s->held, nu);
}

void ota_backward_targets(const ota_backward_job *job, const ota_head *head, double *nu) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    const ota_backward_space *s = job->space;
    const int64_t m = plan->strategy.columns;
    const bool given =
        ota_array_present(plan->strategy.transposed ? &p->row_mass : &p->column_mass);
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    const double grown = grown_mass(job, false);
    double usable = 0.0, total = 0.0;
    for (int64_t j = 0; j < m; j++) usable += s->held[j] ? 1.0 : 0.0;
    for (int64_t j = 0; j < m; j++) {
        const bool reached = nu[j] > 0.0;
        double mass = ota_rule_is(rule, OTA_RULE_UNIT_MASSES) ? 1.0
                      : s->held[j]                            ? head->mass / usable
                                                              : 0.0;
        if (given) {
            mass = plan->strategy.transposed ? ota_row_mass(r, job->batch, job->head, j)
                                             : ota_column_mass(r, job->batch, job->head, j, mass);
        }
        if (given && reached && grown > 0.0 && !(mass > 0.0)) mass = grown;
        nu[j] = ota_column_target(p, mass);
        if (ota_rule_is(rule, OTA_RULE_PENALISED) && !reached) nu[j] = 0.0;
        total += nu[j];
    }
    const bool sink = head->row.sink > -INFINITY;
    for (int64_t j = 0; j < m && ota_rule_is(rule, OTA_RULE_BALANCED) && !sink && total > 0.0; j++)
        nu[j] *= head->mass / total;
}

ota_head ota_backward_head(const ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    const ota_backward_space *s = job->space;
    const int64_t n = plan->strategy.rows, m = plan->strategy.columns;
    ota_head head = ota_head_of(r, job->batch * r->heads + job->head);
    head.backend = plan->backend;
    head.host.algebra = plan->strategy.algebra;
    head.host.kernels = plan->strategy.kernels;
    head.host.pool = plan->pool;
    head.rows = n;
    head.columns = m;
    head.scores.data = s->matrix;
    head.scores.stride = plan->strategy.stride;
    head.mu = s->rounds->mu;
    head.nu = s->rounds->nu;
    head.f = s->rounds->f;
    head.g = s->rounds->g;
    if (ota_array_present(&p->lambdas)) {
        for (int64_t j = 0; j < m; j++) s->rounds->lambdas[j] = ota_key_lambda(r, j);
        head.column.lambdas = s->rounds->lambdas;
    }
    const ota_array *start = &job->arrays->start_potential;
    for (int64_t j = 0; j < m; j++) {
        const double g = ota_array_present(start) && !plan->strategy.transposed
                             ? ota_array_get(start, job->batch, job->head, 0, j)
                             : 0.0;
        head.g[j] = isfinite(g) ? ota_column_project(ota_column_rule_of(p->columns), g) : 0.0;
    }
    return head;
}

void ota_backward_rounds(ota_backward_job *job, ota_head *head, ota_unrolled *rounds) {
    ota_backward_space *s = job->space;
    *head = ota_backward_head(job);
    load_masses(job, head, s->rounds->mu, s->rounds->nu);
    ota_backward_targets(job, head, s->rounds->nu);
    *rounds = (ota_unrolled){.head = head,
                             .steps = s->rounds->steps,
                             .memory = s->rounds->step_memory,
                             .partial = s->chunks.right,
                             .more_partial = s->chunks.right_terms,
                             .row_scratch = s->chunks.plan,
                             .f_grad = s->rounds->f_grad,
                             .g_grad = s->rounds->g_grad,
                             .gradient = s->gradient,
                             .sums = {.row = s->rounds->row_grad, .column = s->vectors}};
}

/* ---- on their kernel ----------------------------------------------------------------------------- */

void ota_backward_find_targets(ota_backward_job *job, ota_kernel_rounds *rounds) {
    ota_backward_space *s = job->space;
    ota_head *head = &s->rounds->head;
    double *nu = s->rounds->nu;
    const bool masked = ota_is_masked(job->resolved);
    head->mass = 0.0;
    for (int64_t i = 0; i < head->rows; i++) head->mass += head->mu[i];
    if (masked) ota_backward_add_chunks(s, s->kernel.usable, head->columns, nu);
    const ota_settings *settings = &job->resolved->settings;
    (void)ota_ranks_sum(settings, nu, masked ? head->columns : 0, &head->mass, 1,
                        "the masses of backward");
    for (int64_t j = 0; j < head->columns; j++) {
        s->held[j] = !masked || nu[j] > 0.0 ? OTA_KEY_REACHED : OTA_KEY_SHUT;
        nu[j] = s->held[j] != OTA_KEY_SHUT ? 1.0 : 0.0;
    }
    if (masked) rounds->used = s->held;
    ota_backward_targets(job, head, nu);
}

void ota_backward_finish_idle(ota_backward_job *job, const ota_kernel_rounds *rounds) {
    const ota_resolved *r = job->resolved;
    ota_backward_space *s = job->space;
    ota_head *head = &s->rounds->head;
    double *reached = s->rounds->nu;
    bool any = false;
    for (int64_t j = 0; j < head->columns && rounds->used != NULL; j++)
        any |= s->held[j] == OTA_KEY_REACHED && !(rounds->c[j] > 0.0);
    if (!any) return;
    for (int64_t j = 0; j < head->columns; j++) {
        reached[j] = rounds->c[j] > 0.0 ||
                     (s->held[j] == OTA_KEY_REACHED &&
                      ota_key_has_row(r, job->batch, job->head, false, head->mu, head->rows, j));
    }
    (void)ota_ranks_most(&r->settings, reached, head->columns, "the keys that mass reaches");
    for (int64_t j = 0; j < head->columns; j++) {
        if (s->held[j] == OTA_KEY_REACHED && !(reached[j] > 0.0)) s->held[j] = OTA_KEY_IDLE;
    }
    ota_backward_targets(job, head, reached);
}
