/* Tangents of masses of 0 that begin to grow (mass_limits.h): beside dm such a query has p dm and such a key q dm. What they take is
 * taken off what the other side's sums are asked to move by, so it is found before their system. */
#include "mass_limits.h"

#include <math.h>
#include <string.h>

#include "jvp.h"

/* How the sum that is asked of a query, or key, of mass 0 moves, but for ota_limit_bound. */
static double asked(const ota_tangent_job *job, bool query, int64_t k) {
    const ota_backward_job *base = &job->base;
    const ota_problem *p = &base->resolved->problem;
    const ota_array *tangent = query ? &job->tangents->row_mass : &job->tangents->column_mass;
    if (!ota_mass_grows(base, query, k)) return 0.0;
    const double moves = ota_array_get(tangent, base->batch, base->head, 0, k);
    if (query != base->plan->strategy.transposed) return moves;
    const ota_target_key key = {.g = -INFINITY};
    return moves * ota_column_target_slope(p, &key, 1.0).by_mass;
}

static bool any_moves(const double *moved, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        if (moved[k] < 0.0 || moved[k] > 0.0) return true;
    }
    return false;
}

/* Queries at work, a line of scores, or of dP, each, in the memory of the chunk sums, which is free by now. */
typedef struct query_batch {
    ota_tangent_job *job;
    ota_limit_batch at;
} query_batch;

static query_batch batch_of(ota_tangent_job *job) {
    const ota_backward_space *space = job->base.space;
    const ota_tangent_limits *limits = &job->space->limits;
    return (query_batch){.job = job,
                         .at = {.job = &job->base,
                                .pairs = {.lane = space->lane, .scores = space->chunks.right},
                                .keys = {limits->top, limits->total, job->space->workers->line}}};
}

static void load_query(void *context, int64_t index, int worker) {
    const query_batch *batch = context;
    ota_tangent_job *job = batch->job;
    ota_tangent_worker *w = &job->space->workers[worker];
    const int64_t i = batch->at.queries[index];
    ota_tangents_scores(job, w, i, 1);
    (void)ota_tangents_solve(job, w, 0, i);
    memcpy(batch->at.pairs.scores + index * batch->at.pairs.lane, w->scores,
           (size_t)job->base.resolved->keys * sizeof *w->scores);
}

/* Tops and sums of the weights of the keys that grow, by all queries with mass. */
static void find_key_weights(ota_tangent_job *job) {
    ota_backward_job *base = &job->base;
    const ota_resolved *r = base->resolved;
    ota_tangent_limits *at = &job->space->limits;
    query_batch batch = batch_of(job);
    for (int64_t j = 0; j < r->keys; j++) {
        at->top[j] = -INFINITY;
        at->total[j] = 0.0;
    }
    ota_watch watch = ota_watch_of(&r->settings);
    for (int64_t i = 0; i < r->queries;) {
        int64_t count = 0;
        for (; i < r->queries && count < OTA_ADJOINT_CHUNKS; i++) {
            if (!ota_mass_is_none(r, base, true, i)) batch.at.queries[count++] = i;
        }
        if (ota_watch_ends(&watch, count * ota_row_work(r))) break;
        ota_parallel(base->pool, count, load_query, &batch);
        batch.at.pairs.count = count;
        /* The worker's line was its scratch until now. */
        memset(batch.at.keys.sum, 0, (size_t)r->keys * sizeof(double));
        ota_limit_add_batch(&batch.at);
    }
    memset(batch.at.keys.sum, 0, (size_t)r->keys * sizeof(double));
    ota_limit_share(base, &batch.at.keys, job->space->workers->change);
    for (int64_t j = 0; j < r->keys; j++)
        at->of_key[j] *= at->total[j] > 0.0 ? ota_limit_bound(base, false, at->top[j]) : 0.0;
}

void ota_tangents_begin_limits(ota_tangent_job *job) {
    const ota_resolved *r = job->base.resolved;
    ota_tangent_limits *at = &job->space->limits;
    for (int64_t i = 0; i < r->queries; i++) {
        at->of_query[i] = asked(job, true, i);
        at->by_keys[i] = 0.0;
    }
    for (int64_t j = 0; j < r->keys; j++) {
        at->of_key[j] = asked(job, false, j);
        at->by_queries[j] = 0.0;
    }
}

/* dP of a query: of a growing one all of it, of another what growing keys get; true: all of it. */
static bool follow_query(const ota_tangent_job *job, int64_t query, const double *s, double *p,
                         double *change) {
    const ota_backward_job *base = &job->base;
    const ota_tangent_limits *at = &job->space->limits;
    const int64_t m = base->resolved->keys;
    if (ota_mass_grows(base, true, query)) {
        const double moves = at->of_query[query] * ota_limit_of_query(base, query, s, p);
        for (int64_t j = 0; j < m; j++) change[j] = moves * p[j];
        return true;
    }
    for (int64_t j = 0; j < m && base->limits.keys; j++) {
        if (!(at->of_key[j] < 0.0 || at->of_key[j] > 0.0) ||
            ota_mass_is_none(base->resolved, base, true, query))
            continue;
        const double x = ota_limit_level(base, query, j, s[j], base->space->f[query]);
        change[j] =
            at->of_key[j] * (ota_limit_weight(&base->parameters, x, at->top[j]) / at->total[j]);
    }
    return false;
}

/* What a query takes of the keys' sums into its line, or what keys that grow take of its own. */
static void sum_query(void *context, int64_t index, int worker) {
    const query_batch *batch = context;
    ota_tangent_job *job = batch->job;
    ota_tangent_worker *w = &job->space->workers[worker];
    const int64_t i = batch->at.queries[index], m = job->base.resolved->keys;
    double *line = batch->at.pairs.scores + index * batch->at.pairs.lane;
    ota_tangents_scores(job, w, i, 1);
    (void)ota_tangents_solve(job, w, 0, i);
    memset(line, 0, (size_t)m * sizeof *line);
    if (follow_query(job, i, w->scores, w->line, line)) return;
    for (int64_t j = 0; j < m; j++) job->space->limits.by_keys[i] += line[j];
}

void ota_tangents_find_limits(ota_tangent_job *job) {
    ota_backward_job *base = &job->base;
    const ota_resolved *r = base->resolved;
    ota_tangent_limits *at = &job->space->limits;
    query_batch batch = batch_of(job);
    const bool keys = any_moves(at->of_key, r->keys), queries = any_moves(at->of_query, r->queries);
    if (keys) find_key_weights(job);
    ota_watch watch = ota_watch_of(&r->settings);
    for (int64_t i = 0; i < r->queries && (keys || queries);) {
        int64_t count = 0;
        for (; i < r->queries && count < OTA_ADJOINT_CHUNKS; i++) {
            if (keys || at->of_query[i] < 0.0 || at->of_query[i] > 0.0)
                batch.at.queries[count++] = i;
        }
        if (ota_watch_ends(&watch, count * ota_row_work(r))) break;
        ota_parallel(base->pool, count, sum_query, &batch);
        for (int64_t k = 0; k < count; k++) {
            const double *line = batch.at.pairs.scores + k * batch.at.pairs.lane;
            if (!ota_mass_grows(base, true, batch.at.queries[k])) continue;
            for (int64_t j = 0; j < r->keys; j++) at->by_queries[j] += line[j];
        }
    }
    /* Whether rows of another process grow none knows. */
    if (ota_array_present(&job->tangents->row_mass))
        (void)ota_ranks_sum(&r->settings, at->by_queries, r->keys, NULL, 0,
                            "the limits of masses of 0");
}

void ota_tangents_move_limits(const ota_tangent_job *job, int64_t query, const double *s, double *p,
                              double *change) {
    if (job->base.limits.queries || job->base.limits.keys)
        (void)follow_query(job, query, s, p, change);
}
