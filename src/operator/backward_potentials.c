/* The potentials of forward. On the columns axis keys are the solver's rows, and of orders above 2 no potential of one double tells
 * their weights next to 0 (backend/edge.h): as in the last row update of forward they are solved once more, on the scores in
 * space->matrix at the potentials of the queries, for the edges beside which passes then weigh their pairs, and for the steepest of
 * those. */
#include <string.h>

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
        if (!ota_backward_is_steep(job)) continue;
        s->steep.column[j] = -1;
        s->steep.middle[j] = 0.0;
        for (int64_t i = 0; i < r->queries; i++) {
            const double p = search->narrow ? (double)(float)x[i] : x[i];
            if (p > 0.0 && (s->steep.column[j] < 0 || p < x[s->steep.column[j]]))
                s->steep.column[j] = i;
        }
    }
}

/* U of the steepest pairs of keys, in the memory of the chunk sums, which nobody needs yet. */
static void find_middles(ota_backward_job *job) {
    const ota_backward_space *s = job->space;
    const ota_resolved *r = job->resolved;
    int64_t queries[OTA_ADJOINT_CHUNKS];
    ota_pair_lines lines = {.queries = queries,
                            .lane = s->lane,
                            .scores = s->chunks.right,
                            .upstream = s->chunks.right_terms};
    memset(s->held, 0, (size_t)r->queries);
    for (int64_t j = 0; j < r->keys; j++)
        if (s->steep.column[j] >= 0) s->held[s->steep.column[j]] = 1;
    ota_watch watch = ota_watch_of(&r->settings);
    for (int64_t i = 0; i < r->queries;) {
        if (ota_watch_ends(&watch, OTA_ADJOINT_CHUNKS * ota_row_work(r))) return;
        for (lines.count = 0; i < r->queries && lines.count < OTA_ADJOINT_CHUNKS; i++)
            if (s->held[i] != 0) queries[lines.count++] = i;
        job->plan->backend->gradient->load_pairs(job, &lines);
        for (int64_t k = 0; k < lines.count; k++) {
            for (int64_t j = 0; j < r->keys; j++)
                if (s->steep.column[j] == queries[k])
                    s->steep.middle[j] = lines.upstream[k * s->lane + j];
        }
    }
}

void ota_backward_soften_keys(const ota_backward_job *job) {
    const ota_backward_space *s = job->space;
    const ota_problem *p = &job->resolved->problem;
    for (int64_t j = 0; j < job->resolved->keys && ota_backward_is_steep(job); j++) {
        s->steep.rest[j] = p->rows == OTA_ROWS_RELAXED
                               ? job->parameters.tau * s->adjoint.row_sums[j] / p->row_strength
                               : 0.0;
        s->adjoint.den[j] += s->steep.rest[j];
        s->adjoint.row_right[j] -= s->steep.rest[j] * s->steep.middle[j];
    }
}

void ota_backward_place_multipliers(const ota_backward_job *job, const ota_adjoint *system) {
    const ota_steep_rows *steep = &job->space->steep;
    for (int64_t i = 0; i < system->rows && steep->column != NULL; i++) {
        steep->multiplier[i] = system->a[i];
        system->a[i] +=
            steep->middle[i] - (steep->column[i] < 0 ? 0.0 : system->b[steep->column[i]]);
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
    if (ota_backward_is_steep(job)) find_middles(job);
}
