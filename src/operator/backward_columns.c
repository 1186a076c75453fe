/* The columns of the system of a coupled head (backward.h): which are in use, which answer, and what their own rule adds. */
#include "backward.h"
#include "masks/masks.h"

#include <math.h>

void ota_backward_bind_columns(const ota_backward_job *job, const double *column_sum,
                               const double *moved, ota_adjoint *system) {
    const ota_plan *plan = job->plan;
    const ota_problem *p = &plan->resolved.problem;
    const ota_backward_space *s = job->space;
    const double *g = plan->strategy.transposed ? s->f : s->g;
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    const ota_column_parameters parameters = ota_column_parameters_of(p);
    system->scale = 0.0;
    for (int64_t j = 0; j < plan->strategy.columns; j++) {
        const double own = moved == NULL ? 0.0 : moved[j];
        s->held[j] = ota_column_rests(rule, &parameters, g[j]);
        s->adjoint.right[j] -= own;
        if (!s->held[j]) system->scale += s->adjoint.right_terms[j] + fabs(own);
        s->adjoint.extra[j] =
            ota_column_softness(rule, &parameters, column_sum[j], job->parameters.tau);
    }
}

void ota_backward_find_used(const ota_backward_job *job, const double *column_sum,
                            unsigned char *used) {
    const ota_plan *plan = job->plan;
    const bool exponential = ota_regulariser_of(&plan->resolved.problem)->exponential;
    const int64_t n = plan->strategy.rows, m = plan->strategy.columns;
    const double *g = plan->strategy.transposed ? job->space->f : job->space->g;
    ota_watch watch = ota_watch_of(&plan->resolved.settings);
    for (int64_t j = 0; j < m; j++) {
        const bool open = g[j] > -INFINITY && (column_sum[j] > 0.0 || !exponential);
        used[j] = 0;
        for (int64_t i = 0; i < n && !used[j] && open && !ota_watch_ends(&watch, 1); i++) {
            const int64_t query = plan->strategy.transposed ? j : i,
                          key = plan->strategy.transposed ? i : j;
            used[j] = ota_pair_allowed(&plan->resolved, job->batch, job->head, query, key);
        }
    }
    const ota_settings *settings = &plan->resolved.settings;
    double *everywhere = job->space->vectors;
    if (settings->ranks == NULL) return;
    for (int64_t j = 0; j < m; j++) everywhere[j] = used[j];
    (void)ota_ranks_most(settings, everywhere, m, "the keys in use");
    for (int64_t j = 0; j < m; j++) used[j] = everywhere[j] > 0.0;
}
