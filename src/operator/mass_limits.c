/* Limits of derivatives at masses of 0 (mass_limits.h): which masses have one, the weights of one row or key, and backward's
 * pass over those pairs. */
#include "mass_limits.h"
#include "backend/blocks/blocks.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- which ------------------------------------------------------------------------------------- */

/* A mass too small to show, of a row whose regulariser is the caller's. */
static const double small = 0x1p-30;

static bool side_has_limits(const ota_resolved *r, bool queries) {
    const ota_problem *p = &r->problem;
    const double omega = r->settings.relaxation;
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    const bool governed = queries == (p->axis == OTA_AXIS_COLUMNS);
    if (!ota_is_smooth(ota_regulariser_of(p)) || ota_rule_is(rule, OTA_RULE_COUNTED)) return false;
    if (rule->coupling != OTA_COUPLING_POTENTIALS && rule->coupling != OTA_COUPLING_NONE)
        return false;
    /* After k relaxed updates a sum has the power 1 - (1 - omega)^k of its target. */
    if (governed && r->settings.stop.fixed && (omega < 1.0 || omega > 1.0)) return false;
    return governed ? !ota_rule_is(rule, OTA_RULE_PENALISED) : p->rows != OTA_ROWS_RELAXED;
}

static bool masses_grow(const ota_resolved *r, bool queries) {
    const ota_array *mass = queries ? &r->problem.row_mass : &r->problem.column_mass;
    if (!ota_array_present(mass) || !side_has_limits(r, queries)) return false;
    for (int64_t b = 0; b < mass->size[0]; b++) {
        for (int64_t h = 0; h < mass->size[1]; h++) {
            for (int64_t k = 0; k < mass->size[3]; k++) {
                if (!(ota_array_get(mass, b, h, 0, k) > 0.0)) return true;
            }
        }
    }
    return false;
}

void ota_limits_begin(ota_backward_job *job, const ota_array *rows, const ota_array *columns) {
    job->limits.queries = ota_array_present(rows) && masses_grow(job->resolved, true);
    job->limits.keys = ota_array_present(columns) && masses_grow(job->resolved, false);
    /* Rounds have other passes where some do, and none of many processes knows the rows of another. */
    double grow = job->limits.queries ? 1.0 : 0.0;
    const ota_settings *settings = &job->resolved->settings;
    if (!settings->stop.fixed || !ota_array_present(rows)) return;
    (void)ota_ranks_most(settings, &grow, 1, "whether masses of 0 grow");
    job->limits.queries = grow > 0.0;
}

bool ota_mass_is_none(const ota_resolved *r, const ota_backward_job *job, bool query, int64_t k) {
    return !((query ? ota_row_mass(r, job->batch, job->head, k)
                    : ota_column_mass(r, job->batch, job->head, k, 1.0)) > 0.0);
}

bool ota_mass_grows(const ota_backward_job *job, bool query, int64_t k) {
    return (query ? job->limits.queries : job->limits.keys) &&
           ota_mass_is_none(job->resolved, job, query, k);
}

/* ---- weights ------------------------------------------------------------------------------------- */

double ota_limit_weight(const ota_row_parameters *rule, double x, double top) {
    if (!(x > -INFINITY)) return 0.0;
    if (!rule->regulariser->tsallis) return exp((x - top) / rule->tau);
    return !rule->regulariser->thresholded || x >= top ? 1.0 : 0.0;
}

static bool is_shut(const ota_backward_job *job, int64_t query, int64_t key) {
    const ota_row_parameters *rule = &job->parameters;
    if (!rule->regulariser->capped) return false;
    const bool transposed = job->plan->strategy.transposed;
    return !(ota_entry_cap(&rule->caps, transposed ? key : query, transposed ? query : key) > 0.0);
}

double ota_limit_level(const ota_backward_job *job, int64_t query, int64_t key, double s,
                       double f) {
    return s > -INFINITY && !is_shut(job, query, key) ? s + f : -INFINITY;
}

/* Slopes of a row with next to no mass, which are what more of it is shared out by. */
static double custom_row(const ota_backward_job *job, int64_t query, const double *s, double *p) {
    const int64_t m = job->resolved->keys;
    ota_row_parameters rule = job->parameters;
    ota_row_found found;
    rule.line = query;
    job->plan->strategy.algebra->row_solve(&rule, s, NULL, m, small, p, &found);
    double total = ota_pair_slope(&rule, rule.sink, found.potential,
                                  found.sink > 0.0 ? found.sink : 0.0, INFINITY);
    for (int64_t j = 0; j < m; j++) {
        p[j] = ota_pair_slope(&rule, s[j], found.potential, p[j], INFINITY);
        total += p[j];
    }
    return total;
}

double ota_limit_bound(const ota_backward_job *job, bool query, double top) {
    const ota_problem *p = &job->resolved->problem;
    const ota_regulariser_row *regulariser = job->parameters.regulariser;
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    const bool governed = query == job->plan->strategy.transposed;
    if (!governed || rule->kink == NULL || !regulariser->tsallis || !regulariser->thresholded ||
        top > 0.0)
        return 1.0;
    return ota_column_parameters_of(p).floor;
}

double ota_limit_of_query(const ota_backward_job *job, int64_t query, const double *s, double *p) {
    const ota_resolved *r = job->resolved;
    const ota_row_parameters *rule = &job->parameters;
    double top = rule->sink, total = 0.0;
    for (int64_t j = 0; j < r->keys; j++) {
        const double g = job->state.biased ? job->space->g[j] : 0.0;
        const bool given = ota_array_present(&r->problem.column_mass);
        p[j] = given && ota_mass_is_none(r, job, false, j)
                   ? -INFINITY
                   : ota_limit_level(job, query, j, s[j], g);
        top = fmax(top, p[j]);
    }
    if (!(top > -INFINITY)) {
        for (int64_t j = 0; j < r->keys; j++) p[j] = 0.0;
        return 0.0;
    }
    if (rule->custom != NULL) {
        total = custom_row(job, query, s, p);
    } else {
        total = ota_limit_weight(rule, rule->sink, top);
        for (int64_t j = 0; j < r->keys; j++) {
            p[j] = ota_limit_weight(rule, p[j], top);
            total += p[j];
        }
    }
    for (int64_t j = 0; j < r->keys; j++) p[j] = total > 0.0 ? p[j] / total : 0.0;
    return total > 0.0 ? ota_limit_bound(job, true, top) : 0.0;
}

void ota_limit_add(const ota_row_parameters *rule, const ota_limit_sums *keys, int64_t key,
                   double x, double number) {
    if (!(x > -INFINITY)) return;
    if (x > keys->top[key]) {
        const double left =
            keys->total[key] > 0.0 ? ota_limit_weight(rule, keys->top[key], x) : 0.0;
        keys->total[key] *= left;
        keys->sum[key] *= left;
        keys->top[key] = x;
    }
    const double weight = ota_limit_weight(rule, x, keys->top[key]);
    keys->total[key] += weight;
    keys->sum[key] += weight * number;
}

static void add_to_keys(void *context, int64_t chunk, int worker) {
    const ota_limit_batch *batch = context;
    const ota_backward_job *job = batch->job;
    const ota_backward_space *space = job->space;
    (void)worker;
    int64_t first, last;
    ota_adjoint_rows(job->resolved->keys, chunk, &first, &last);
    for (int64_t j = first; j < last; j++) {
        if (!ota_mass_grows(job, false, j)) continue;
        for (int64_t k = 0; k < batch->pairs.count; k++) {
            const int64_t i = batch->queries[k], at = k * batch->pairs.lane + j;
            if (ota_mass_is_none(job->resolved, job, true, i)) continue;
            ota_limit_add(&job->parameters, &batch->keys, j,
                          ota_limit_level(job, i, j, batch->pairs.scores[at], space->f[i]),
                          batch->pairs.upstream != NULL ? batch->pairs.upstream[at] - space->a[i]
                                                        : 0.0);
        }
    }
}

void ota_limit_add_batch(ota_limit_batch *batch) {
    ota_parallel(batch->job->pool, OTA_ADJOINT_CHUNKS, add_to_keys, batch);
}

void ota_limit_share(const ota_backward_job *job, const ota_limit_sums *keys, double *line) {
    const ota_settings *settings = &job->resolved->settings;
    const int64_t m = job->resolved->keys;
    if (settings->ranks == NULL || m == 0) return;
    memcpy(line, keys->top, (size_t)m * sizeof *line);
    (void)ota_ranks_most(settings, keys->top, m, "the limits of masses of 0");
    for (int64_t j = 0; j < m; j++) {
        const double left =
            keys->total[j] > 0.0 ? ota_limit_weight(&job->parameters, line[j], keys->top[j]) : 0.0;
        keys->total[j] *= left;
        keys->sum[j] *= left;
    }
    (void)ota_ranks_sum(settings, keys->total, m, NULL, 0, "the limits of masses of 0");
    (void)ota_ranks_sum(settings, keys->sum, m, NULL, 0, "the limits of masses of 0");
}

/* ---- backward ------------------------------------------------------------------------------------ */

/* In the memory of the chunk sums, which nobody needs by now. */
static ota_limit_batch batch_of(ota_backward_job *job) {
    const ota_chunk_sums *chunks = &job->space->chunks;
    const int64_t lane = job->space->lane;
    return (ota_limit_batch){
        .job = job,
        .pairs = {.lane = lane, .scores = chunks->right, .upstream = chunks->right_terms},
        .p = chunks->plan,
        .keys = {chunks->plan + lane, chunks->plan + 2 * lane, chunks->plan + 3 * lane}};
}

/* The next queries from *at on that grow, or that keys which do are shared out by. */
static void load_batch(ota_limit_batch *batch, int64_t *at, bool growing_alone) {
    ota_backward_job *job = batch->job;
    const ota_resolved *r = job->resolved;
    const bool others = job->limits.keys && !growing_alone;
    int64_t count = 0;
    for (; *at < r->queries && count < OTA_ADJOINT_CHUNKS; ++*at) {
        const bool wanted =
            ota_mass_grows(job, true, *at) || (others && !ota_mass_is_none(r, job, true, *at));
        if (wanted && !job->space->bad[*at]) batch->queries[count++] = *at;
    }
    batch->pairs.queries = batch->queries;
    batch->pairs.count = count;
    job->plan->backend->gradient->load_pairs(job, &batch->pairs);
}

/* a of query k of the batch; false: nothing can take its mass. */
static bool limit_query(const ota_limit_batch *batch, int64_t k, double *a) {
    const ota_backward_job *job = batch->job;
    const double *s = batch->pairs.scores + k * batch->pairs.lane,
                 *u = batch->pairs.upstream + k * batch->pairs.lane;
    const double bound = ota_limit_of_query(job, batch->queries[k], s, batch->p);
    *a = 0.0;
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        if (batch->p[j] > 0.0) *a += batch->p[j] * (u[j] - job->space->b[j]);
    }
    *a *= bound;
    return bound > 0.0;
}

void ota_backward_limits(ota_backward_job *job, double *row_sum) {
    const ota_resolved *r = job->resolved;
    ota_backward_space *space = job->space;
    const bool transposed = job->plan->strategy.transposed;
    ota_limit_batch batch = batch_of(job);
    const ota_limit_sums *keys = &batch.keys;
    if (!job->limits.queries && !job->limits.keys) return;
    for (int64_t j = 0; j < r->keys; j++) {
        keys->top[j] = -INFINITY;
        keys->total[j] = keys->sum[j] = 0.0;
    }
    ota_watch watch = ota_watch_of(&r->settings);
    for (int64_t i = 0; i < r->queries;) {
        if (ota_watch_ends(&watch, OTA_ADJOINT_CHUNKS * ota_row_work(r))) break;
        load_batch(&batch, &i, false);
        for (int64_t k = 0; k < batch.pairs.count; k++) {
            const int64_t query = batch.queries[k];
            if (!ota_mass_grows(job, true, query)) continue;
            if (limit_query(&batch, k, &space->a[query]) && !transposed) row_sum[query] = DBL_MIN;
        }
        if (job->limits.keys) ota_limit_add_batch(&batch);
    }
    if (job->limits.keys) ota_limit_share(job, keys, batch.p);
    for (int64_t j = 0; j < r->keys; j++) {
        if (!ota_mass_grows(job, false, j) || !(keys->total[j] > 0.0)) continue;
        space->b[j] = ota_limit_bound(job, false, keys->top[j]) * (keys->sum[j] / keys->total[j]);
        if (transposed) row_sum[j] = DBL_MIN;
    }
}

void ota_backward_free_limits(ota_backward_job *job) {
    const ota_resolved *r = job->resolved;
    double *to = job->space->sums.row_mass + (job->batch * r->heads + job->head) * r->queries;
    ota_limit_batch batch = batch_of(job);
    if (job->mode != OTA_BACKWARD_FREE || !job->limits.queries) return;
    ota_watch watch = ota_watch_of(&r->settings);
    for (int64_t i = 0; i < r->queries;) {
        if (ota_watch_ends(&watch, OTA_ADJOINT_CHUNKS * ota_row_work(r))) break;
        load_batch(&batch, &i, true);
        for (int64_t k = 0; k < batch.pairs.count; k++)
            (void)limit_query(&batch, k, &to[batch.queries[k]]);
    }
}

void ota_backward_forget_limits(ota_backward_job *job) {
    for (int64_t i = 0; i < job->resolved->queries; i++) {
        if (ota_mass_grows(job, true, i)) job->space->a[i] = 0.0;
    }
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        if (ota_mass_grows(job, false, j)) job->space->b[j] = 0.0;
    }
}

void ota_backward_close_limits(ota_backward_job *job) {
    for (int64_t i = 0; i < job->resolved->queries; i++) {
        if (ota_mass_grows(job, true, i)) job->space->f[i] = -INFINITY;
    }
    for (int64_t j = 0; j < job->resolved->keys; j++) {
        if (ota_mass_grows(job, false, j)) job->space->g[j] = -INFINITY;
    }
}
