/* Derivatives by masses of 0 in a ring (ring_limits.h): two message rounds at most, of fixed rounds as many in every round. */
#include "ring_limits.h"

#include <math.h>
#include <string.h>

#include "ring_masses.h"

static ota_limit_sums sums_of(ota_arena *arena, int64_t count) {
    return (ota_limit_sums){ota_ring_numbers(arena, 1, count), ota_ring_numbers(arena, 1, count),
                            ota_ring_numbers(arena, 1, count)};
}

void ota_ring_lay_out_limits(ota_ring_device *ring, ota_arena *arena) {
    const int64_t rows = ota_ring_row_count(ring), keys = ring->resolved->keys;
    ota_ring_limits *to = ota_arena_take(arena, 1, sizeof *to);
    ota_ring_limits found = {.of_rows = sums_of(arena, rows), .of_keys = sums_of(arena, keys)};
    found.line = ota_ring_numbers(arena, 1, keys);
    found.of_query = ota_ring_numbers(arena, 1, rows);
    found.by_keys = ota_ring_numbers(arena, 1, rows);
    found.of_key = ota_ring_numbers(arena, 1, keys);
    found.by_queries = ota_ring_numbers(arena, 1, keys);
    if (ring->resolved->settings.stop.fixed) {
        found.level = ota_ring_numbers(arena, 1, keys);
        found.mean = ota_ring_numbers(arena, 1, keys);
    }
    if (to != NULL) *to = found;
    ring->backward.limits = to;
}

bool ota_ring_begin_limits(ota_plan *plan, const ota_array *rows, const ota_array *columns) {
    ota_ring_limits *at = plan->device->backward.limits;
    at->any = at->queries = at->keys = false;
    if (!ota_array_present(rows) && !ota_array_present(columns)) return true;
    ota_backward_job job = ota_backward_job_of(plan, NULL);
    ota_limits_begin(&job, rows, columns);
    at->queries = job.limits.queries;
    at->keys = job.limits.keys && plan->device->coupled;
    double any = at->queries || at->keys ? 1.0 : 0.0;
    const bool known = plan->resolved.settings.stop.fixed;
    if (!known &&
        !ota_ranks_most(&plan->resolved.settings, &any, 1, "whether masses of 0 have limits"))
        return false;
    at->any = any > 0.0;
    return true;
}

/* A head of the unit as the operator sees it. */
static ota_backward_job job_of(ota_plan *plan, int64_t head) {
    const ota_ring_device *ring = plan->device;
    ota_backward_job job = ota_ring_job(plan);
    job.head += head;
    job.parameters = ota_ring_parameters(ring, head);
    job.limits.queries = ring->backward.limits->queries;
    job.limits.keys = ring->backward.limits->keys;
    return job;
}

bool ota_ring_row_grows(ota_plan *plan, int64_t k) {
    const ota_ring_device *ring = plan->device;
    return ring->backward.limits->queries && !(ota_ring_row_mass(ring, k) > 0.0);
}
bool ota_ring_key_grows(ota_plan *plan, int64_t key) {
    const ota_backward_job job = ota_ring_job(plan);
    return plan->device->backward.limits->keys &&
           ota_mass_is_none(&plan->resolved, &job, false, key);
}

/* ---- sums over a message round -------------------------------------------------------------------- */

/* With a and b, sums of U less them; of tangents the weights alone. */
typedef struct growth {
    ota_plan *plan;
    const ota_array *out_grad; /* or NULL */
    const double *a, *b;
} growth;

static bool row_counts(const ota_ring_device *ring, int64_t k) {
    return ring->pairs->state[k] != OTA_RING_NONFINITE && ring->pairs->f[k] > -INFINITY;
}

/* x of a pair of a query without mass. Fixed rounds know a key without mass by its start, and later by none. */
static double level_of_row(const ota_ring_block *b, const ota_backward_job *job, int64_t k,
                           int64_t j) {
    const ota_ring_device *ring = b->ring;
    const int64_t key = b->piece->first + b->in.key + j;
    const bool solved = ota_array_present(&ring->resolved->problem.column_mass) &&
                        !ring->resolved->settings.stop.fixed;
    if (ring->coupled && solved && ota_mass_is_none(ring->resolved, job, false, key))
        return -INFINITY;
    return ota_limit_level(job, b->in.first + k, key, b->in.scores[k * b->in.stride + j],
                           ring->coupled ? ring->columns.g[key] : 0.0);
}

static double level_of_key(const ota_ring_block *b, const ota_backward_job *job, int64_t k,
                           int64_t j) {
    return ota_limit_level(job, b->in.first + k, b->piece->first + b->in.key + j,
                           b->in.scores[k * b->in.stride + j], b->ring->pairs->f[b->at + k]);
}

static void form_upstream(const ota_ring_block *b, void *context) {
    const growth *g = context;
    ota_ring_form_upstream(b, g->out_grad);
}

static void add_rows(const ota_ring_block *b, void *context) {
    const growth *g = context;
    const ota_backward_job job = job_of(g->plan, b->in.head);
    const int64_t first = b->piece->first + b->in.key;
    if (!job.limits.queries) return;
    for (int64_t k = 0; k < b->in.rows; k++) {
        const double *u = b->in.slopes + k * b->in.stride;
        if (!ota_ring_row_grows(g->plan, b->at + k)) continue;
        for (int64_t j = 0; j < b->in.keys; j++)
            ota_limit_add(&job.parameters, &b->ring->backward.limits->of_rows, b->at + k,
                          level_of_row(b, &job, k, j),
                          u[j] - (g->b != NULL ? g->b[first + j] : 0.0));
    }
}

static void add_keys(const ota_ring_block *b, void *context) {
    const growth *g = context;
    const ota_backward_job job = job_of(g->plan, b->in.head);
    const int64_t first = b->piece->first + b->in.key;
    if (!job.limits.keys) return;
    for (int64_t j = 0; j < b->in.keys; j++) {
        if (!ota_mass_is_none(b->ring->resolved, &job, false, first + j)) continue;
        for (int64_t k = 0; k < b->in.rows; k++) {
            if (!row_counts(b->ring, b->at + k)) continue;
            const double u = b->in.slopes[k * b->in.stride + j];
            ota_limit_add(&job.parameters, &b->ring->backward.limits->of_keys, first + j,
                          level_of_key(b, &job, k, j), u - (g->a != NULL ? g->a[b->at + k] : 0.0));
        }
    }
}

static void clear_sums(const ota_limit_sums *sums, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        sums->top[k] = -INFINITY;
        sums->total[k] = sums->sum[k] = 0.0;
    }
}

/* Tops and sums of the weights that queries and keys without mass would have, of all ranks. */
static bool find_weights(growth *g, const char *step) {
    ota_ring_device *ring = g->plan->device;
    const ota_ring_limits *at = ring->backward.limits;
    const int64_t rows = ota_ring_row_count(ring), queries = ring->resolved->queries;
    const ota_ring_pair_round round = {.visits = {.form = form_upstream,
                                                  .rows = add_rows,
                                                  .keys = ring->coupled ? add_keys : NULL,
                                                  .context = g},
                                       .with_values = g->out_grad != NULL,
                                       .step = step};
    clear_sums(&at->of_rows, rows);
    clear_sums(&at->of_keys, ring->resolved->keys);
    if (!ota_ring_visit_pairs(ring, &round)) return false;
    for (int64_t k = 0; k < rows; k++) {
        const ota_row_parameters rule = ota_ring_parameters(ring, k / queries);
        if (ota_ring_row_grows(g->plan, k)) ota_limit_add(&rule, &at->of_rows, k, rule.sink, 0.0);
    }
    if (ota_array_present(&ring->resolved->problem.column_mass) && ring->coupled) {
        const ota_backward_job job = job_of(g->plan, 0);
        ota_limit_share(&job, &at->of_keys, at->line);
    }
    return true;
}

/* What a unit of the mass moves the sum of a query, or key, by; 0 where nothing can take it. */
static double share_of(ota_plan *plan, bool query, int64_t k) {
    const ota_ring_limits *at = plan->device->backward.limits;
    const ota_limit_sums *sums = query ? &at->of_rows : &at->of_keys;
    const ota_backward_job job = job_of(plan, query ? k / plan->resolved.queries : 0);
    return sums->total[k] > 0.0 ? ota_limit_bound(&job, query, sums->top[k]) : 0.0;
}

/* L of a key, once its weights are known. */
static double level_of(ota_plan *plan, int64_t key) {
    const ota_limit_sums *sums = &plan->device->backward.limits->of_keys;
    return sums->top[key] / job_of(plan, 0).parameters.tau + log(sums->total[key]);
}

/* ---- backward ------------------------------------------------------------------------------------- */

bool ota_ring_take_limits(ota_plan *plan, const ota_array *out_grad, double *a, double *b) {
    ota_ring_device *ring = plan->device;
    const ota_ring_limits *at = ring->backward.limits;
    growth g = {.plan = plan, .out_grad = out_grad, .a = a, .b = b};
    if (!at->any) return true;
    if (ring->coupled && ring->newton == NULL) ota_ring_take_potentials(ring);
    if (!find_weights(&g, "passing keys on for masses of 0")) return false;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++) {
        const double share = ota_ring_row_grows(plan, k) ? share_of(plan, true, k) : 0.0;
        if (ota_ring_row_grows(plan, k) && !isnan(a[k]))
            a[k] = share > 0.0 ? share * (at->of_rows.sum[k] / at->of_rows.total[k]) : 0.0;
    }
    for (int64_t j = 0; j < ring->resolved->keys && b != NULL && at->keys; j++) {
        if (!ota_ring_key_grows(plan, j)) continue;
        const double share = share_of(plan, false, j);
        b[j] = share > 0.0 ? share * (at->of_keys.sum[j] / at->of_keys.total[j]) : 0.0;
    }
    return true;
}

bool ota_ring_take_round_limits(ota_plan *plan, const ota_array *out_grad, const double *a,
                                const double *b, double unit, const ota_unrolled_sums *sums) {
    ota_ring_device *ring = plan->device;
    const ota_ring_limits *at = ring->backward.limits;
    growth g = {.plan = plan, .out_grad = out_grad, .a = a, .b = b};
    if (!at->any) return true;
    ota_ring_take_potentials(ring);
    if (!find_weights(&g, "passing keys on for masses of 0")) return false;
    for (int64_t i = 0; i < ring->resolved->queries; i++) {
        if (ota_ring_row_grows(plan, i) && at->of_rows.total[i] > 0.0)
            sums->row[i] += unit * (at->of_rows.sum[i] / at->of_rows.total[i]);
    }
    for (int64_t j = 0; j < ring->resolved->keys && at->keys; j++) {
        const bool reached = ota_ring_key_grows(plan, j) && at->of_keys.total[j] > 0.0;
        const double level = reached ? level_of(plan, j) : -INFINITY;
        if (out_grad == NULL && reached) sums->column[j] += at->mean[j] * exp(at->level[j] - level);
        at->mean[j] = reached ? unit * (at->of_keys.sum[j] / at->of_keys.total[j]) : 0.0;
        at->level[j] = level;
    }
    return true;
}

/* ---- tangents ------------------------------------------------------------------------------------- */

void ota_ring_start_limits(ota_plan *plan) {
    const ota_ring_limits *at = plan->device->backward.limits;
    for (int64_t j = 0; j < plan->resolved.keys && at->level != NULL; j++) at->level[j] = -INFINITY;
}

static void ask(ota_plan *plan, const ota_tangents *tangents) {
    const ota_ring_device *ring = plan->device;
    const ota_ring_limits *at = ring->backward.limits;
    const int64_t queries = ring->resolved->queries;
    for (int64_t h = 0; h < ring->group; h++) {
        ota_tangent_space space = {.limits = {.of_query = at->of_query + h * queries,
                                              .of_key = at->of_key,
                                              .by_keys = at->by_keys + h * queries,
                                              .by_queries = at->by_queries}};
        ota_tangent_job job = {.base = job_of(plan, h), .tangents = tangents, .space = &space};
        ota_tangents_begin_limits(&job);
    }
}

void ota_ring_add_grown(ota_plan *plan, const ota_ring_block *b, int64_t k, double *change) {
    const ota_ring_device *ring = b->ring;
    const ota_ring_limits *at = ring->backward.limits;
    const int64_t first = b->piece->first + b->in.key, row = b->at + k;
    if (!at->any) return;
    const ota_backward_job job = job_of(plan, b->in.head);
    if (ota_ring_row_grows(plan, row)) {
        for (int64_t j = 0; j < b->in.keys && at->of_rows.total[row] > 0.0; j++)
            change[j] +=
                at->of_query[row] * (ota_limit_weight(&job.parameters, level_of_row(b, &job, k, j),
                                                      at->of_rows.top[row]) /
                                     at->of_rows.total[row]);
        return;
    }
    for (int64_t j = 0; j < b->in.keys && at->keys && row_counts(ring, row); j++) {
        const double moves = at->of_key[first + j];
        if (moves < 0.0 || moves > 0.0)
            change[j] += moves * (ota_limit_weight(&job.parameters, level_of_key(b, &job, k, j),
                                                   at->of_keys.top[first + j]) /
                                  at->of_keys.total[first + j]);
    }
}

static void sum_rows(const ota_ring_block *b, void *context) {
    const growth *g = context;
    double *change = b->in.slopes;
    for (int64_t k = 0; k < b->in.rows; k++) {
        if (ota_ring_row_grows(g->plan, b->at + k)) continue;
        memset(change, 0, (size_t)b->in.keys * sizeof *change);
        ota_ring_add_grown(g->plan, b, k, change);
        for (int64_t j = 0; j < b->in.keys; j++)
            b->ring->backward.limits->by_keys[b->at + k] += change[j];
    }
}

static void sum_keys(const ota_ring_block *b, void *context) {
    const growth *g = context;
    double *change = b->in.slopes, *to = b->ring->backward.limits->by_queries;
    for (int64_t k = 0; k < b->in.rows; k++) {
        if (!ota_ring_row_grows(g->plan, b->at + k)) continue;
        memset(change, 0, (size_t)b->in.keys * sizeof *change);
        ota_ring_add_grown(g->plan, b, k, change);
        for (int64_t j = 0; j < b->in.keys; j++) to[b->piece->first + b->in.key + j] += change[j];
    }
}

/* What a unit of the target moves the sum of a key by; in a round 0 where it began from what the caller gave. */
static double share_of_key(ota_plan *plan, int64_t key) {
    const ota_ring_limits *at = plan->device->backward.limits;
    if (at->level == NULL) return share_of(plan, false, key);
    const double before = at->level[key];
    if (!(at->of_keys.total[key] > 0.0)) return 0.0;
    at->level[key] = level_of(plan, key);
    return before > -INFINITY ? exp(at->level[key] - before) : 0.0;
}

bool ota_ring_move_limits(ota_plan *plan, const ota_tangents *tangents) {
    ota_ring_device *ring = plan->device;
    const ota_ring_limits *at = ring->backward.limits;
    const int64_t keys = ring->resolved->keys;
    growth g = {.plan = plan};
    ask(plan, tangents);
    if (!at->any) return true;
    if (!find_weights(&g, "passing keys on for masses of 0")) return false;
    for (int64_t k = 0; k < ota_ring_row_count(ring); k++)
        at->of_query[k] *= share_of(plan, true, k);
    for (int64_t j = 0; j < keys; j++) at->of_key[j] *= share_of_key(plan, j);
    if (!ring->coupled) return true;
    const ota_ring_pair_round round = {
        .visits = {.rows = sum_rows, .keys = sum_keys, .context = &g},
        .step = "passing keys on for what masses of 0 take"};
    return ota_ring_visit_pairs(ring, &round) &&
           ota_ranks_sum(&ring->resolved->settings, at->by_queries, keys, NULL, 0,
                         "the limits of masses of 0");
}
