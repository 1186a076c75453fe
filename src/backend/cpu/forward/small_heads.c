/* Small heads one in a lane of the vectors, compiled for each type: rounds for as many
 * heads at once as the level has lanes. A group of heads is read across (element e of head l at [e * lanes + l]), the
 * kernel turns all of them, and each head is finished as any other. A head whose masses, scores or
 * scalings the lanes cannot carry is left to the rounds of its own, so a head's answer depends on nothing but itself. */

#include "rows_io.h"

#include <math.h>
#include <string.h>

enum { LANES_PATIENCE = 256 }; /* rounds to a tolerance after which a head leaves its lane */

typedef struct lane_head {
    int64_t batch, head;
    double tau, mass;
    double reach; /* of rounding in the products, in units of u tau */
    bool fit;     /* masses and temperature are such that a lane may carry it */
} lane_head;

/* One group at work. */
typedef struct lane_group {
    cpu_run *w;
    const ota_lanes *workspace;
    ota_packed_kv *packed;
    ota_worker *worker;
    double *receiver;
    int64_t lanes, stride; /* of workspace->heads */
    bool weighed;          /* masses were given */
    bool terms;            /* or supports: rows are not just scaled */
    struct {
        bool logs;    /* of rows */
        bool facts;   /* of rows, any */
        bool columns; /* potentials */
        bool more;    /* what finish_rows makes besides weights */
    } wants;
    lane_head heads[OTA_LANES_MOST];
} lane_group;

/* Masses that leave room for the scalings in the range of the type. */
static const double lane_mass = sizeof(real) == sizeof(double) ? 0x1p128 : 0x1p16;

static bool lane_carries(double mass) {
    return !(mass > 0.0) ? mass >= 0.0 : mass <= lane_mass && mass * lane_mass >= 1.0;
}

/* Largest |x|^2 of some rows. */
static double lane_norm(const real *rows, int64_t count, int64_t width) {
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        real norm = 0;
        for (int64_t q = 0; q < width; q++) norm += rows[i * width + q] * rows[i * width + q];
        largest = fmax(largest, (double)norm);
    }
    return largest;
}

/* Products of the head's queries and keys; what they add to the floor of the arithmetic, in units of tau, is
 * for tolerances only (rounds_floor of stored_kernel.c). */
static void lane_products(const lane_group *g, lane_head *at, real *to) {
    const ota_cpu_device *device = g->w->device;
    const ota_resolved *r = device->resolved;
    const int64_t n = r->queries, m = r->keys, width = r->width;
    real *queries = g->worker->queries, *keys = queries + n * width;
    pack_rows(&r->problem.queries, at->batch, at->head, 0, n, queries, width);
    pack_rows(&r->problem.keys, at->batch, at->head / (r->heads / r->key_heads), 0, m, keys, width);
    for (int64_t i = 0; i < n; i++)
        KERNELS(device)->dots(queries + i * width, keys, width, m, width, to + i * m);
    if (r->settings.stop.fixed) return;
    at->reach =
        fabs(r->scale) / at->tau * sqrt(lane_norm(queries, n, width) * lane_norm(keys, m, width));
}

/* S of a head, row after row; a scale alone is left to lanes_in. */
static void lane_scores(const lane_group *g, lane_head *at, real *to) {
    const ota_resolved *r = g->w->device->resolved;
    const int64_t n = r->queries, m = r->keys;
    if (r->from_matrix)
        pack_rows(&r->problem.scores, at->batch, at->head, 0, n, to, m);
    else
        lane_products(g, at, to);
    for (int64_t i = 0; i < n && g->terms; i++) {
        int64_t begin, end;
        ota_row_range(r, at->batch, i, m, &begin, &end);
        apply_terms(KERNELS(g->w->device), r, at->batch, at->head, i, begin, end,
                    to + i * m + begin);
        shut_outside(to + i * m, begin, end, m);
    }
}

/* Everybody's masses where none were given, and those of lanes without a head. */
static void lane_uniform(const lane_group *g) {
    const ota_resolved *r = g->w->device->resolved;
    real *mu = g->workspace->mass, *target = g->workspace->target;
    const double share = (double)r->queries / (double)r->keys;
    for (int64_t e = 0; e < r->queries * g->lanes; e++) mu[e] = (real)1;
    for (int64_t e = 0; e < r->keys * g->lanes; e++) {
        target[e] = (real)share;
        g->workspace->wanted[e] = share;
    }
}

/* Masses of one head into its lane; exact targets are balanced to the mass of the rows. */
static void lane_masses(const lane_group *g, lane_head *at, int64_t lane) {
    const ota_resolved *r = g->w->device->resolved;
    const int64_t n = r->queries, m = r->keys, lanes = g->lanes;
    real *mu = g->workspace->mass, *target = g->workspace->target;
    double *wanted = g->workspace->wanted, rows = 0.0, columns = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double mass = ota_row_mass(r, at->batch, at->head, i);
        mu[i * lanes + lane] = (real)mass;
        at->fit &= lane_carries(mass);
        rows += mass;
    }
    for (int64_t j = 0; j < m; j++) {
        const double mass = ota_column_mass(r, at->batch, at->head, j, rows / (double)m);
        wanted[j * lanes + lane] = mass;
        at->fit &= lane_carries(mass);
        columns += mass;
    }
    const double tolerated = ota_mass_tolerance(r);
    at->fit &= rows > 0.0 && fabs(columns - rows) <= tolerated * rows;
    const double balance = ota_rule_is(ota_column_rule_of(r->problem.columns), OTA_RULE_BALANCED)
                               ? rows / columns
                               : 1.0;
    for (int64_t j = 0; j < m; j++) {
        wanted[j * lanes + lane] *= balance;
        target[j * lanes + lane] = (real)wanted[j * lanes + lane];
    }
    at->mass = rows;
}

/* What the rows of one lane are known by. Returns sum_i |row sum - mu_i|. */
static double lane_facts(const lane_group *g, const lane_head *at, int64_t lane, double *mu,
                         ota_row_found *found) {
    const ota_resolved *r = g->w->device->resolved;
    double error = 0.0;
    for (int64_t i = 0; i < r->queries; i++) {
        const int64_t e = i * g->lanes + lane;
        mu[i] = g->weighed ? ota_row_mass(r, at->batch, at->head, i) : 1.0;
        found[i] = (ota_row_found){
            .mass = g->workspace->row_sums[e], .potential = -INFINITY, .lse = -INFINITY};
        error += fabs(found[i].mass - mu[i]);
        if (!g->wants.logs) continue;
        const double shift = (double)((const real *)g->workspace->shift)[e];
        const double sum = ldexp((double)((const real *)g->workspace->sum)[e], -REAL_LIFT);
        const double level = log(sum), weight = g->weighed ? log(mu[i]) : 0.0;
        found[i].lse = level + shift / at->tau;
        if (mu[i] > 0.0) found[i].potential = at->tau * (weight - level) - shift;
    }
    return error;
}

/* P as it lies in workspace->heads, and what else finish_rows makes of it. */
static void lane_finish(const lane_group *g, const lane_head *at, real *p, const double *mu,
                        const ota_row_found *found, ota_head_status *status) {
    const ota_cpu_device *device = g->w->device;
    const ota_arrays *a = g->w->arrays;
    const ota_resolved *r = device->resolved;
    const int64_t n = r->queries, m = r->keys;
    if (g->wants.more) {
        if (g->receiver != NULL) memset(g->receiver, 0, (size_t)m * sizeof *g->receiver);
        pack_values(g->w, g->packed, at->batch, at->head / (r->heads / r->key_heads));
        const row_block block = {g->w, g->packed, g->worker, at->batch, at->head, 0, n};
        finish_rows(&block, p, m, found, mu, true, status, g->receiver);
        for (int64_t j = 0; j < m && g->receiver != NULL; j++)
            ota_put(&a->receiver, at->batch, at->head, j, g->receiver[j]);
        return;
    }
    for (int64_t i = 0; i < n && g->wants.facts; i++)
        put_row(g->w, at->batch, at->head, i, &found[i]);
    if (!ota_array_present(&a->coupling)) return;
    ota_array to = a->coupling;
    const bool dense = to.stride[3] == 1 && to.stride[2] == m;
    if (dense) to.size[3] = n * m;
    unpack_rows(&to, at->batch, at->head, 0, dense ? 1 : n, p, m);
}

/* What the caller wants of the head in one lane. False: its plan is not as good as it has to be. */
static bool lane_leave(const lane_group *g, int64_t lane) {
    const lane_head *at = &g->heads[lane];
    ota_cpu_device *device = g->w->device;
    const ota_resolved *r = device->resolved;
    const ota_settings *s = &r->settings;
    const ota_lanes *workspace = g->workspace;
    double mu[OTA_LANES_SIDE], error = 0.0;
    ota_row_found found[OTA_LANES_SIDE];
    for (int64_t j = 0; j < r->keys; j++)
        error += fabs(workspace->column_sums[j * g->lanes + lane] -
                      workspace->wanted[j * g->lanes + lane]);
    const double row_error = lane_facts(g, at, lane, mu, found);
    if (!s->stop.fixed && !(fmax(error, row_error) <= s->stop.tolerance * at->mass)) return false;
    ota_head_status *status = &g->w->run->heads[at->batch * r->heads + at->head];
    status->result = (ota_head_result){
        .status = s->stop.fixed ? OTA_FIXED_ITERS : OTA_OK,
        .rounds = s->stop.fixed ? s->stop.rounds : (int64_t)((const real *)workspace->taken)[lane],
        .row_error = g->wants.more ? 0.0 : row_error, /* finish_rows adds it up */
        .column_error = error / at->mass};
    status->temperature_reached = at->tau;
    status->promoted = ota_ladder_promotes(device->ladder, device->resolved->type);
    status->small = true;
    lane_finish(g, at, (real *)workspace->heads + lane * g->stride, mu, found, status);
    for (int64_t j = 0; j < r->keys && g->wants.columns; j++) {
        const double v = (double)((const real *)workspace->scaling)[j * g->lanes + lane];
        ota_put(&g->w->arrays->column_potential, at->batch, at->head, j, at->tau * log(v));
    }
    ota_run_finish_head(g->w->run, at->batch, at->head, at->mass);
    return true;
}

/* Reads `count` heads from `first` on into their lanes; a lane without a head meets everything at once. */
static void lane_enter(lane_group *g, int64_t first, int64_t count) {
    const ota_resolved *r = g->w->device->resolved;
    real *c = g->workspace->c, *total = g->workspace->total, *slack = g->workspace->slack;
    real *rows = g->workspace->heads;
    if (!g->weighed || count < g->lanes) lane_uniform(g);
    for (int64_t l = 0; l < g->lanes; l++) {
        lane_head *at = &g->heads[l];
        *at = (lane_head){
            .batch = (first + l) / r->heads, .head = (first + l) % r->heads, .tau = 1.0};
        at->mass = (double)r->queries;
        if (l < count) {
            at->tau = ota_head_temperature(r, at->head);
            at->fit = at->tau >= RAW_LEAST && at->tau <= 1.0 / RAW_LEAST;
            lane_scores(g, at, rows + l * g->stride);
            if (g->weighed) lane_masses(g, at, l);
        } else {
            memset(rows + l * g->stride, 0, (size_t)g->stride * sizeof *rows);
        }
        c[l] = (real)(OTA_LOG2_E / at->tau);
        total[l] = (real)at->mass;
        slack[l] = (real)at->reach;
    }
}

/* Group `index` of the heads; `left` says which of them the lanes did not carry. */
void WORD(ota_run_small)(ota_run *run, int64_t index, int64_t place_index, bool *left) {
    cpu_run walk = {.run = run, .device = run->device, .arrays = run->arrays};
    cpu_run *w = &walk;
    ota_cpu_device *device = w->device;
    const ota_resolved *r = device->resolved;
    const ota_arrays *a = w->arrays;
    const ota_settings *s = &r->settings;
    const int64_t lanes = KERNELS(device)->lanes, first = index * lanes,
                  pairs = r->queries * r->keys;
    const int64_t rest = r->batch * r->heads - first, count = ota_int_min(rest, lanes);
    const ota_lanes *workspace = &device->workspaces[place_index].lanes;
    real tolerance[OTA_LANES_MOST];
    lane_group g = {.w = w,
                    .workspace = workspace,
                    .packed = &device->packed_heads[place_index],
                    .worker = &device->workers[place_index],
                    .lanes = lanes,
                    .stride = ota_int_round_up(pairs, 16),
                    .weighed = ota_array_present(&r->problem.row_mass) ||
                               ota_array_present(&r->problem.column_mass),
                    .terms = r->row_terms || r->support_count > 0,
                    .wants.logs =
                        ota_array_present(&a->lse) || ota_array_present(&a->row_potential),
                    .wants.columns = ota_array_present(&a->column_potential)};
    g.wants.facts = g.wants.logs || ota_array_present(&a->sink);
    g.wants.more = ota_array_present(&a->out) || ota_array_present(&a->receiver) ||
                   ota_array_present(&a->row_entropy) || ota_array_present(&a->row_support) ||
                   ota_array_present(&a->row_max);
    if (ota_array_present(&a->receiver))
        g.receiver = device->receivers + place_index * OTA_CHUNKS * device->stride;
    lane_enter(&g, first, count);
    KERNELS(device)->lanes_in(workspace->heads, g.stride, pairs, g.terms ? (real)1 : (real)r->scale,
                              workspace->matrix);
    for (int64_t l = 0; l < lanes; l++) tolerance[l] = (real)s->stop.tolerance;
    KERNELS(device)->lane_rounds(
        &(ota_lanes_block){.rows = r->queries,
                           .columns = r->keys,
                           .rounds = s->stop.fixed || s->stop.max_rounds < LANES_PATIENCE
                                         ? (s->stop.fixed ? s->stop.rounds : s->stop.max_rounds)
                                         : LANES_PATIENCE,
                           .c = workspace->c,
                           .mass = workspace->mass,
                           .target = workspace->target,
                           .tolerance = s->stop.fixed ? NULL : tolerance,
                           .total = workspace->total,
                           .slack = workspace->slack,
                           .matrix = workspace->matrix,
                           .shift = workspace->shift,
                           .sum = workspace->sum,
                           .scaling = workspace->scaling,
                           .next = workspace->next,
                           .row_sums = workspace->row_sums,
                           .column_sums = workspace->column_sums,
                           .taken = workspace->taken});
    KERNELS(device)->lanes_out(workspace->matrix, pairs, workspace->heads, g.stride);
    for (int64_t l = 0; l < count; l++) {
        const bool carried = g.heads[l].fit && ((const real *)workspace->taken)[l] >= (real)0;
        left[l] = !carried || !lane_leave(&g, l);
    }
}
