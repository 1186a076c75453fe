/* The potentials of forward. On the columns axis keys are the solver's rows, and of orders above 2 no potential of one double tells
 * their weights next to 0 (backend/edge.h): as in the last row update of forward they are solved once more, on the scores in
 * space->matrix at the potentials of the queries, for the edges beside which passes then weigh their pairs. */
#include "backward.h"

typedef struct edge_search {
    const ota_backward_job *job;
    bool narrow; /* sums of scores and potentials are rounded to f32, as passes do */
} edge_search;

static void find_edges(void *context, int64_t chunk, int worker) {
    const edge_search *search = context;
    const ota_backward_job *job = search->job;
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_backward_space *s = job->space;
    (void)worker;
    int64_t first, last;
    ota_adjoint_rows(r->keys, chunk, &first, &last);
    ota_watch watch = ota_watch_within(&r->settings);
    for (int64_t j = first; j < last && !ota_watch_ends(&watch, r->queries); j++) {
        double *x = s->matrix + j * plan->strategy.stride;
        const double nu = ota_column_mass(r, job->batch, job->head, j, 1.0);
        ota_row_found found;
        for (int64_t i = 0; i < r->queries; i++)
            x[i] = search->narrow ? (double)((float)x[i] + (float)s->f[i]) : x[i] + s->f[i];
        plan->strategy.algebra->row_solve(&job->parameters, x, NULL, r->queries, nu, x, &found);
        s->edges[j] = found.edge;
    }
}

bool ota_backward_has_key_edges(const ota_backward_job *job) {
    return job->space->edges != NULL && job->plan->strategy.transposed;
}

void ota_backward_find_edges(const ota_backward_job *job, bool narrow) {
    edge_search search = {job, narrow};
    ota_parallel(job->pool, OTA_ADJOINT_CHUNKS, find_edges, &search);
}

void ota_backward_load_potentials(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_gradient_passes *passes = plan->backend->gradient;
    ota_backward_space *s = job->space;
    for (int64_t j = 0; j < r->keys; j++)
        s->g[j] = ota_array_get(&job->arrays->column_potential, job->batch, job->head, 0, j);
    for (int64_t i = 0; i < r->queries && plan->strategy.transposed; i++)
        s->f[i] = ota_array_get(&job->arrays->row_potential, job->batch, job->head, 0, i);
    passes->load_bias(job);
    if (!ota_backward_has_key_edges(job)) return;
    passes->widen(job);
    ota_backward_find_edges(job, !job->state.wide);
}
