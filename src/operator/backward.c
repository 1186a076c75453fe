/* Backward: walks the heads one after another and every head's rows, then its keys, in parallel pieces that
 * depend on shapes alone. How the multipliers a, b of a head are found depends on its columns; what is
 * done with them (the .inc.h files, written once for f32 and f64) does not.
 *
 *     dL/dQ = scale dS' K,  dL/dK = scale dS'^T Q,  dL/dV = P^T dL/dout     [LIT-21]
 *
 * with dS' = dL/dS through the softcap. */
#include "backward.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double log2_e = 1.4426950408889634;

/* P^power, power = 2 - alpha. */
static double slope_of(double p, double power) {
    if (!(power < 1.0) && !(power > 1.0)) return p;
    return power < 0.0 || power > 0.0 ? pow(p, power) : 1.0;
}

/* dP/dalpha / w at fixed potentials. */
static double order_slope(double p, double order) {
    const double k = order - 1.0;
    return p > 0.0 ? pow(p, k) * (1.0 - k * log(p)) / (k * k) : 0.0;
}

#define REAL float
#define WORD(name) name##_f32
#define KERNELS(plan) ((plan)->device->kernels->f32)
#define REAL_TYPE OTA_F32
#define REAL_MAX FLT_MAX
#define REAL_LIFT OTA_LIFT_F32
#define TAU_MIN 1.0e-30
#include "backend/cpu/gradient/pairs.inc.h"

#include "backend/cpu/gradient/outputs.inc.h"

#include "backend/cpu/gradient/rounds.inc.h"

#include "backend/cpu/gradient/coupled.inc.h"

#include "backend/cpu/gradient/names.inc.h"

#define REAL double
#define WORD(name) name##_f64
#define KERNELS(plan) ((plan)->device->kernels->f64)
#define REAL_TYPE OTA_F64
#define REAL_MAX DBL_MAX
#define REAL_LIFT OTA_LIFT_F64
#define TAU_MIN DBL_MIN
#include "backend/cpu/gradient/pairs.inc.h"

#include "backend/cpu/gradient/outputs.inc.h"

#include "backend/cpu/gradient/rounds.inc.h"

#include "backend/cpu/gradient/coupled.inc.h"

#include "backend/cpu/gradient/names.inc.h"

typedef void task(void *context, int64_t index, int worker);

/* The tasks of the plan's type. */
typedef struct task_table {
    void (*pack_head)(ota_backward_job *job);
    task *rows, *keys, *slopes, *turned, *widen, *top;
    void (*replay_online)(ota_backward_job *job);
    void (*reverse_online)(ota_backward_job *job);
    void (*load_bias)(ota_backward_job *job);
    void (*load_advantage)(ota_backward_job *job);
    void (*recentre)(ota_backward_job *job, ota_adjoint *system);
    /* fixed rounds on their kernel */
    task *form_kernel, *turn, *reverse, *advantages, *last_keys;
    void (*load_kernel_column)(ota_backward_job *job, const double *from, double scale);
    void (*last_gradients)(ota_backward_job *job, ota_kernel_rounds *rounds);
    void (*pack_dimensions)(ota_backward_job *job);
} task_table;

static const task_table tables[2] = {
    {pack_head_f32,      rows_task_f32,      keys_task_f32,
     slopes_task_f32,    turned_task_f32,    widen_task_f32,
     mark_top_f32,       replay_online_f32,  reverse_online_f32,
     load_bias_f32,      load_advantage_f32, recentre_f32,
     form_kernel_f32,    turn_f32,           reverse_f32,
     advantages_f32,     last_keys_f32,      load_kernel_column_f32,
     last_gradients_f32, pack_dimensions_f32},
    {pack_head_f64,      rows_task_f64,      keys_task_f64,
     slopes_task_f64,    turned_task_f64,    widen_task_f64,
     mark_top_f64,       replay_online_f64,  reverse_online_f64,
     load_bias_f64,      load_advantage_f64, recentre_f64,
     form_kernel_f64,    turn_f64,           reverse_f64,
     advantages_f64,     last_keys_f64,      load_kernel_column_f64,
     last_gradients_f64, pack_dimensions_f64}};

static const task_table *tasks_of(const ota_backward_job *job) { return &tables[job->wide]; }

static void each_chunk(ota_backward_job *job, task *body) {
    ota_parallel(job->plan->pool, OTA_ADJOINT_CHUNKS, body, job);
}

/* Blocks of rows, then tiles of keys, of one strip after another. */
static void walk_strips(ota_backward_job *job, task *rows, task *keys) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t step = job->space->strip.rows;
    const int64_t tiles = (r->keys + OTA_KEY_TILE - 1) / OTA_KEY_TILE;
    for (int64_t first = 0; first < r->queries; first += step) {
        const int64_t left = r->queries - first;
        job->strip_first = first;
        job->strip_rows = left < step ? left : step;
        if (ota_interrupted(&r->settings) != OTA_OK) return;
        ota_parallel(plan->pool, (job->strip_rows + OTA_BLOCK_ROWS - 1) / OTA_BLOCK_ROWS, rows,
                     job);
        if (keys != NULL) ota_parallel(plan->pool, tiles, keys, job);
    }
}

void ota_backward_add_chunks(const ota_backward_space *s, int which, int64_t count, double *to) {
    const double *from = s->partial[which];
    for (int64_t k = 0; k < count; k++) to[k] = 0.0;
    for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++, from += s->lane) {
        for (int64_t k = 0; k < count; k++) to[k] += from[k];
    }
}

/* ---- implicit --------------------------------------------------------------------------------- */

static void load_potentials(ota_backward_job *job) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *s = job->space;
    for (int64_t j = 0; j < r->keys; j++)
        s->g[j] = ota_array_get(&job->arrays->column_potential, job->batch, job->head, 0, j);
    for (int64_t i = 0; i < r->queries && job->plan->device->transposed; i++)
        s->f[i] = ota_array_get(&job->arrays->row_potential, job->batch, job->head, 0, i);
    tasks_of(job)->load_bias(job);
}

/* The system of backward.h in the solver's orientation, from what slopes_task left; dense[k]: 0 den,
 * 1 row_right, 2 row sums of P, 3 a, 4 .. of the transposed side, 5 b, 6 right, 7 absolute terms. */
static void gather_system(ota_backward_job *job, ota_adjoint *system, ota_mass_rule *rule) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    ota_backward_space *s = job->space;
    const int64_t n = plan->device->dense_rows, m = plan->device->dense_columns;
    double *column_sum = s->vectors; /* until the solve; copied below */
    if (plan->device->transposed) {
        /* What the task summed by queries belongs to the columns, by keys to the rows. */
        memcpy(column_sum, s->dense[2], (size_t)m * sizeof(double));
        ota_backward_add_chunks(s, 2, n, s->dense[2]);
        ota_backward_add_chunks(s, 0, n, s->dense[3]);
        ota_backward_add_chunks(s, 3, n, s->dense[4]);
        each_chunk(job, tasks_of(job)->turned);
        memcpy(s->dense[0], s->dense[4], (size_t)n * sizeof(double));
        memcpy(s->dense[1], s->dense[3], (size_t)n * sizeof(double));
    } else {
        ota_backward_add_chunks(s, 0, m, s->dense[6]);
        ota_backward_add_chunks(s, 1, m, s->dense[7]);
        ota_backward_add_chunks(s, 2, m, column_sum);
    }
    const double *g = plan->device->transposed ? s->f : s->g;
    system->scale = 0.0;
    for (int64_t j = 0; j < m; j++) {
        const bool capped = p->columns == OTA_COLUMNS_CAPPED;
        s->held[j] = p->columns == OTA_COLUMNS_FREE || (capped && !(g[j] < 0.0));
        if (!s->held[j]) system->scale += s->dense[7][j];
        s->dense[4][j] = column_sum[j];
        s->dense[3][j] =
            p->columns == OTA_COLUMNS_RELAXED ? job->law.tau * column_sum[j] / p->strength : 0.0;
    }
    for (int64_t i = 0; i < n && p->rows == OTA_ROWS_RELAXED; i++)
        s->dense[0][i] += job->law.tau * s->dense[2][i] / p->row_strength;
    *rule = (ota_mass_rule){.f = plan->device->transposed ? s->g : s->f,
                            .g = g,
                            .row_sum = s->dense[2],
                            .column_sum = s->dense[4]};
}

void ota_backward_find_used(const ota_backward_job *job, unsigned char *used) {
    const ota_plan *plan = job->plan;
    const int64_t n = plan->device->dense_rows, m = plan->device->dense_columns;
    const double *g = plan->device->transposed ? job->space->f : job->space->g;
    for (int64_t j = 0; j < m; j++) {
        used[j] = 0;
        for (int64_t i = 0; i < n && !used[j] && g[j] > -INFINITY; i++) {
            const int64_t query = plan->device->transposed ? j : i,
                          key = plan->device->transposed ? i : j;
            used[j] = ota_pair_allowed(&plan->resolved, job->batch, job->head, query, key);
        }
    }
}

ota_adjoint ota_backward_system(const ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_backward_space *s = job->space;
    return (ota_adjoint){.rows = plan->device->dense_rows,
                         .columns = plan->device->dense_columns,
                         .stride = plan->device->dense_stride,
                         .slopes = s->matrix,
                         .algebra = &plan->device->algebra,
                         .den = s->dense[0],
                         .row_right = s->dense[1],
                         .extra = s->dense[3],
                         .held = s->held,
                         .right = s->dense[6],
                         .enough = plan->resolved.type == OTA_F64 ? 1.0e-10 : 1.0e-6,
                         .settings = &plan->resolved.settings,
                         .pool = plan->pool,
                         .partial = s->partial[0],
                         .more = s->partial[1],
                         .vectors = s->vectors,
                         .a = plan->device->transposed ? s->b : s->a,
                         .b = plan->device->transposed ? s->a : s->b};
}

/* How much more than slopes their rounding to f32 may move the multipliers. Gradients may be off by 32 roundings and more
 * [numeric policy 3.3]: a hundredfold has kept a quarter of that, ten thousand seven times it. */
static const double MOST_AMPLIFIED = 32.0;

static ota_status run_implicit(ota_backward_job *job) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *s = job->space;
    load_potentials(job);
    each_chunk(job, tasks_of(job)->slopes);
    ota_adjoint system = ota_backward_system(job);
    system.narrow = !job->wide;
    system.most_amplified = job->begins_narrow && !job->wide ? MOST_AMPLIFIED : 0.0;
    ota_mass_rule rule;
    gather_system(job, &system, &rule);
    if (r->problem.rows == OTA_ROWS_RELAXED) tasks_of(job)->recentre(job, &system);
    const ota_status status = ota_adjoint_solve(&system);
    job->residual = system.residual;
    if (status == OTA_CANCELLED || status == OTA_TIMEOUT) return status;
    if (job->begins_narrow && !job->wide) {
        job->refused = status != OTA_OK;
        for (int64_t i = 0; i < r->queries; i++) job->refused |= s->bad[i];
        if (job->refused) return OTA_NOT_CONVERGED;
    }
    if (status != OTA_OK) return status;
    rule.a = system.a;
    rule.b = system.b;
    ota_backward_find_used(job, s->held);
    rule.used = s->held;
    ota_sums_of_masses(job, &rule);
    return OTA_OK;
}

/* ---- unrolled --------------------------------------------------------------------------------- */

/* After the kernel is formed: usable keys and the targets. Keys that only rows without mass may use have no column
 * sum, which ends the way over the kernel. */
static void gather_reach(ota_backward_job *job, ota_kernel_rounds *rounds) {
    ota_backward_space *s = job->space;
    ota_head *head = &s->rounds.head;
    double *nu = s->dense[1];
    const bool masked = ota_backward_is_masked(job->plan);
    head->mass = 0.0;
    for (int64_t i = 0; i < head->rows; i++) head->mass += head->mu[i];
    if (masked) ota_backward_add_chunks(s, 1, head->columns, nu);
    for (int64_t j = 0; j < head->columns; j++) {
        s->held[j] = !masked || nu[j] > 0.0;
        nu[j] = s->held[j] ? 1.0 : 0.0;
    }
    if (masked) rounds->used = s->held;
    ota_backward_targets(job, head, nu);
}

static ota_status reverse_on_kernel(ota_backward_job *job, ota_kernel_rounds *rounds) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const task_table *tasks = tasks_of(job);
    const double *mu = s->dense[0];
    const int lift = plan->device->wide ? OTA_LIFT_F64 : OTA_LIFT_F32;
    walk_strips(job, tasks->advantages, tasks->last_keys);
    tasks->last_gradients(job, rounds);
    double *turned = s->dense[5];
    for (int64_t k = rounds->rounds - 1; k >= 0; k--) {
        const ota_status going = ota_interrupted(&r->settings);
        if (going != OTA_OK) return going;
        const double *u = rounds->u + k * rounds->row_lane;
        double *f_grad = rounds->f_grad + k * rounds->row_lane;
        const double top = ota_kernel_rounds_pull(rounds, k);
        const double share = top > 0.0 ? 1.0 / top : 0.0;
        tasks->load_kernel_column(job, rounds->y + k * rounds->column_lane, share);
        for (int64_t i = 0; i < r->queries; i++)
            s->a[i] = mu[i] > 0.0 ? ldexp(-u[i] * u[i] / mu[i], -lift) : 0.0;
        each_chunk(job, tasks->reverse);
        for (int64_t i = 0; i < r->queries; i++)
            f_grad[i] = mu[i] > 0.0 ? s->f[i] * top * mu[i] / u[i] : 0.0;
        ota_backward_add_chunks(s, 0, r->keys, turned);
        for (int64_t j = 0; j < r->keys; j++) turned[j] = ldexp(turned[j], -lift);
        ota_kernel_rounds_take(rounds, k, turned, top);
    }
    return OTA_OK;
}

/* Fixed rounds on their kernel; false where it does not carry them. */
static bool run_on_kernel(ota_backward_job *job, ota_status *stopped) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const task_table *tasks = tasks_of(job);
    ota_head head = ota_backward_head(job);
    ota_kernel_rounds *rounds = &s->rounds.now;
    *rounds = (ota_kernel_rounds){
        .head = &s->rounds.head, .rounds = r->settings.rounds, .narrow = !plan->device->wide};
    s->rounds.head = head;
    rounds->g_grad = s->dense[6];
    rounds->sums = (ota_unrolled_sums){.row = s->dense[7], .column = s->vectors};
    memset(rounds->sums.row, 0, (size_t)r->queries * sizeof(double));
    memset(rounds->sums.column, 0, (size_t)r->keys * sizeof(double));
    ota_kernel_rounds_place(rounds, s->step_memory);
    if (job->law.tau < 1.0e-30 || job->law.tau > 1.0e30 || job->slot->broken_count > 0 ||
        !ota_kernel_rounds_begin(rounds))
        return false;
    for (s->rounds.at = 0; s->rounds.at <= rounds->rounds; s->rounds.at++) {
        const int64_t k = s->rounds.at;
        *stopped = ota_interrupted(&r->settings);
        if (*stopped != OTA_OK) return true;
        tasks->load_kernel_column(job, rounds->v + k * rounds->column_lane, 1.0);
        each_chunk(job, k == 0 ? tasks->form_kernel : tasks->turn);
        for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++) {
            if (s->partial[3][c * s->lane] > 0.0) return false;
        }
        if (k == 0) gather_reach(job, rounds);
        if (!ota_kernel_rounds_rows(rounds, k)) return false;
        if (k == rounds->rounds) break;
        ota_backward_add_chunks(s, 0, r->keys, rounds->c + k * rounds->column_lane);
        if (!ota_kernel_rounds_columns(rounds, k)) return false;
    }
    for (int64_t i = 0; i < r->queries; i++) {
        if (s->bad[i]) return false;
    }
    *stopped = reverse_on_kernel(job, rounds);
    if (*stopped != OTA_OK || !ota_kernel_rounds_carried(rounds)) return *stopped != OTA_OK;
    tasks->pack_dimensions(job);
    s->strength += rounds->sums.strength;
    s->temperature[job->head] += ota_kernel_rounds_temperature(rounds);
    for (int64_t k = 0; k < r->keys; k++) {
        for (int64_t w = 0; w < plan->values_width; w++)
            s->values_sum[k * plan->values_width + w] +=
                s->rounds.sum[k * (plan->values_width + 1) + w];
    }
    const ota_mass_rule rule = {.a = rounds->sums.row,
                                .b = rounds->sums.column,
                                .f = s->dense[2],
                                .g = s->dense[3],
                                .row_sum = s->dense[0],
                                .column_sum = s->dense[1],
                                .used = s->held,
                                .finished = true};
    ota_sums_of_masses(job, &rule);
    job->space->rounds.carried = true;
    return true;
}

static ota_status run_unrolled(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const int64_t n = plan->device->dense_rows, m = plan->device->dense_columns;
    ota_status stopped = OTA_OK;
    if (job->may_use_kernel && run_on_kernel(job, &stopped)) return stopped;
    job->stored = true;
    each_chunk(job, tasks_of(job)->widen);
    for (int64_t j = 0; j < n && plan->device->transposed; j++) {
        for (int64_t i = m; i < plan->device->dense_stride; i++) {
            s->matrix[j * plan->device->dense_stride + i] = -INFINITY;
            s->gradient[j * plan->device->dense_stride + i] = 0.0;
        }
    }
    ota_head head;
    ota_unrolled u;
    ota_backward_rounds(job, &head, &u);
    ota_status status = ota_unrolled_replay(&u);
    if (status == OTA_OK) status = ota_unrolled_reverse(&u);
    if (status != OTA_OK) return status;
    const double *of_queries = plan->device->transposed ? head.g : u.found_f;
    const double *of_keys = plan->device->transposed ? u.found_f : head.g;
    memcpy(s->f, of_queries, (size_t)r->queries * sizeof(double));
    memcpy(s->g, of_keys, (size_t)r->keys * sizeof(double));
    tasks_of(job)->load_bias(job);
    each_chunk(job, tasks_of(job)->top);
    s->temperature[job->head] += u.sums.temperature;
    s->strength += u.sums.strength;
    s->row_strength += u.sums.row_strength;
    s->sink[job->head] += u.sums.sink;
    const ota_mass_rule rule = {.a = u.sums.row,
                                .b = u.sums.column,
                                .f = u.found_f,
                                .g = head.g,
                                .row_sum = head.mu,
                                .column_sum = head.nu,
                                .used = s->held,
                                .finished = true};
    ota_sums_of_masses(job, &rule);
    return OTA_OK;
}

/* ---- prefix ----------------------------------------------------------------------------------- */

static ota_status run_prefix(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    each_chunk(job, tasks_of(job)->widen);
    const ota_status status = ota_backward_prefix(job);
    for (int64_t i = 0; i < r->queries; i++) {
        for (int64_t k = 0; k < job->slot->broken_count; k++) {
            const double p = job->seat->plan[i * plan->device->dense_stride + job->slot->broken[k]];
            if (p > 0.0) job->space->bad[i] = true;
        }
    }
    return status;
}

/* f64 sums of the gradients of a tile of keys and values, rounded into the caller's arrays. */
static void put_tile(void *context, int64_t tile, int worker) {
    const ota_backward_job *job = context;
    const ota_backward_space *s = job->space;
    const int64_t keys = job->plan->resolved.keys, from = tile * OTA_KEY_TILE;
    const int64_t count = keys - from < OTA_KEY_TILE ? keys - from : OTA_KEY_TILE;
    const struct {
        const ota_array *to;
        const double *sum;
        int64_t width;
    } both[] = {{&job->want->keys, s->keys_sum, job->plan->resolved.width},
                {&job->want->values, s->values_sum, job->plan->values_width}};
    (void)worker;
    for (int k = 0; k < 2; k++) {
        if (!ota_array_present(both[k].to)) continue;
        ota_unpack_rows_f64(both[k].to, job->batch, job->key_head, from, count,
                            both[k].sum + from * both[k].width, both[k].width);
    }
}

/* ---- heads ------------------------------------------------------------------------------------ */

static ota_status find_multipliers(ota_backward_job *job) {
    switch (job->mode) {
    case OTA_BACKWARD_ONLINE:
        tasks_of(job)->replay_online(job);
        tasks_of(job)->reverse_online(job);
        return OTA_OK;
    case OTA_BACKWARD_IMPLICIT: return run_implicit(job);
    case OTA_BACKWARD_UNROLLED: return run_unrolled(job);
    case OTA_BACKWARD_PREFIX: return run_prefix(job);
    case OTA_BACKWARD_FREE:
    default: return OTA_OK;
    }
}

/* Does all that is wanted come from the gradients of outputs? */
static bool may_use_kernel(const ota_backward_job *job) {
    const ota_gradients *want = job->want;
    return job->space->rounds.width > 0 && ota_array_present(&want->out_grad) &&
           !ota_array_present(&want->coupling_grad);
}

/* Are implicit heads tried in f32? Like the rounds of forward: not where that could not meet the tolerance. */
static bool begins_narrow(const ota_backward_job *job) {
    return job->plan->device->mixed && job->mode == OTA_BACKWARD_IMPLICIT &&
           job->plan->resolved.settings.tolerance >= 16.0 * (double)FLT_EPSILON / 2.0;
}

/* Can rows stay lists? Not where all pairs of a row are asked for, or pairs of weight 0 count. */
static bool may_list(const ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_gradients *want = job->want;
    const ota_array *const whole[] = {&want->coupling_grad, &want->scores, &want->matrix};
    if (job->mode != OTA_BACKWARD_FREE || plan->device->workers[0].keys.wide == NULL || job->sums)
        return false;
    for (size_t k = 0; k < sizeof whole / sizeof whole[0]; k++) {
        if (ota_array_present(whole[k])) return false;
    }
    for (int t = 0; t < r->term_count; t++) {
        if (r->terms[t].kind == OTA_TERM_SOFTCAP || ota_gradient_of_term(r, want, t) != NULL)
            return false;
    }
    return ota_array_present(&want->out_grad) && plan->values_width > 0;
}

static void run_strips(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const bool of_keys =
        ota_array_present(&job->want->keys) || ota_array_present(&job->want->values);
    job->lists = may_list(job);
    tasks_of(job)->load_advantage(job);
    for (int t = 0; t < r->term_count; t++) {
        const ota_term_sum *sum = &s->terms[t];
        if (sum->length > 0)
            memset(sum->partial, 0, (size_t)(OTA_ADJOINT_CHUNKS * sum->length) * sizeof(double));
    }
    walk_strips(job, tasks_of(job)->rows, of_keys ? tasks_of(job)->keys : NULL);
    ota_sums_of_head(job);
}

/* Packs the keys and values of the key head, in the type that the head is worked on. */
static void pack_again(ota_backward_job *job, bool wide) {
    job->wide = wide;
    job->keep_sums = true;
    tasks_of(job)->pack_head(job);
}

static void begin_head(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    job->law = (ota_row_parameters){
        .kernels = plan->device->kernels,
        .order = r->order,
        .tau = ota_head_temperature(r, job->head),
        .sink = ota_head_sink(r, job->head),
        .row_strength = r->problem.rows == OTA_ROWS_RELAXED ? r->problem.row_strength : INFINITY,
        .custom = r->problem.regulariser == OTA_CUSTOM ? &r->problem.custom : NULL};
    ota_dropout_head(r, job->batch, job->head, job->dropout_key);
    job->biased = false;
    job->stored = job->mode == OTA_BACKWARD_PREFIX;
    job->space->rounds.carried = false;
    job->residual = 0.0;
    for (int64_t i = 0; i < r->queries; i++) {
        s->bad[i] = false;
        s->f[i] = s->a[i] = s->top[i] = 0.0;
    }
    for (int64_t i = 0; i < r->queries * OTA_ROW_SUMS; i++) s->row_sums[i] = 0.0;
    for (int64_t j = 0; j < plan->device->stride; j++) s->g[j] = s->b[j] = 0.0;
    if (ota_device_has_seats(plan->device) && plan->device->wide) s->matrix = job->seat->scores;
}

static ota_status run_head(ota_backward_job *job) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const int64_t index = job->batch * r->heads + job->head;
    if (job->begins_narrow && job->wide) pack_again(job, false);
    begin_head(job);
    ota_status status = find_multipliers(job);
    if (job->refused) {
        job->refused = false;
        s->widened++;
        pack_again(job, true);
        begin_head(job);
        status = find_multipliers(job);
    }
    if (status == OTA_CANCELLED || status == OTA_TIMEOUT) return status;
    if (status != OTA_OK) {
        for (int64_t i = 0; i < r->queries; i++) {
            s->bad[i] = true;
            s->row_mass[index * r->queries + i] = (double)NAN;
        }
        for (int64_t j = 0; j < r->keys; j++) s->column_mass[index * r->keys + j] = (double)NAN;
        s->cap = s->strength = s->row_strength = (double)NAN;
        s->temperature[job->head] = s->sink[job->head] = (double)NAN;
    }
    if (job->tiled)
        ota_tiles_run_coupled(job);
    else
        run_strips(job);
    for (int64_t i = 0; i < r->queries; i++) {
        if (s->bad[i]) s->row_mass[index * r->queries + i] = (double)NAN;
    }
    const ota_status stopped = ota_interrupted(&r->settings);
    return stopped != OTA_OK ? stopped : status;
}

/* All query heads of key head `index` of the batch, by the walker of the job. */
static ota_status run_key_head(ota_backward_job *job, int64_t index) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = job->space;
    const int64_t group = r->heads / r->key_heads;
    job->batch = index / r->key_heads;
    job->key_head = index % r->key_heads;
    job->wide = plan->device->wide && !job->begins_narrow;
    job->keep_sums = false;
    tasks_of(job)->pack_head(job);
    for (int64_t k = 0; k < group; k++) {
        job->head = job->key_head * group + k;
        const ota_status status = run_head(job);
        if (status == OTA_CANCELLED || status == OTA_TIMEOUT) return status;
        if (!(job->residual <= s->residual)) s->residual = job->residual;
        const int64_t head = job->batch * r->heads + job->head;
        if (status >= OTA_OK || (s->status < OTA_OK && s->failed < head)) continue;
        s->status = status;
        s->failed = head;
    }
    ota_parallel(plan->pool, (r->keys + OTA_KEY_TILE - 1) / OTA_KEY_TILE, put_tile, job);
    return OTA_OK;
}

static ota_backward_job job_of(const ota_backward_job *first, int walker) {
    ota_backward_job job = *first;
    const ota_plan *plan = job.plan;
    job.worker = walker;
    job.space = plan->backward + walker;
    job.slot = plan->device->slots + walker;
    job.seat = ota_device_has_seats(plan->device) ? plan->device->seats + walker : NULL;
    return job;
}

static void key_head_task(void *context, int64_t index, int worker) {
    const ota_backward_job *first = context;
    if (ota_interrupted(&first->plan->resolved.settings) != OTA_OK) return;
    ota_backward_job job = job_of(first, worker);
    (void)run_key_head(&job, index);
}

/* Gradients that many heads share are added head after head, so that their bits depend on no thread. */
static bool shares_nothing(const ota_backward_job *job) {
    const ota_resolved *r = &job->plan->resolved;
    const ota_gradients *want = job->want;
    const ota_array *const shared[] = {&want->temperature, &want->order, &want->cap,
                                       &want->strength, &want->row_strength};
    for (size_t k = 0; k < sizeof shared / sizeof shared[0]; k++) {
        if (ota_array_present(shared[k])) return false;
    }
    for (int t = 0; t < r->term_count + (r->has_sink ? 1 : 0); t++) {
        if (ota_gradient_of_term(r, want, t) != NULL) return false;
    }
    return true;
}

ota_status ota_backward_run(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                            ota_result *found) {
    const ota_resolved *r = &plan->resolved;
    ota_backward_job job = {
        .plan = plan, .arrays = arrays, .want = want, .mode = ota_backward_mode_of(plan)};
    job = job_of(&job, 0);
    job.tiled = ota_tiles_fit(plan, want);
    job.may_use_kernel = may_use_kernel(&job);
    job.begins_narrow = begins_narrow(&job);
    if (job.tiled && job.mode == OTA_BACKWARD_FREE) {
        found->status = ota_tiles_run(plan, arrays, want);
        return found->status;
    }
    job.sums = ota_array_present(&want->temperature) || ota_array_present(&want->order) ||
               (r->has_sink && ota_gradient_of_term(r, want, r->term_count) != NULL);
    ota_sums_clear(plan);
    for (int k = 0; k < plan->walker_count; k++) {
        plan->backward[k].status = OTA_OK;
        plan->backward[k].residual = 0.0;
        plan->backward[k].widened = 0;
    }
    const int64_t heads = r->batch * r->key_heads;
    /* Heads side by side while they fill the threads, the rest one after another in pieces. */
    const int64_t side = plan->walker_count > 1 && shares_nothing(&job)
                             ? heads / plan->walker_count * plan->walker_count
                             : 0;
    ota_parallel(plan->pool, side, key_head_task, &job);
    ota_status stopped = side > 0 ? ota_interrupted(&r->settings) : OTA_OK;
    for (int64_t k = side; k < heads && stopped == OTA_OK; k++) stopped = run_key_head(&job, k);
    if (stopped != OTA_OK) return stopped;
    found->status = OTA_OK;
    int64_t widened = 0;
    for (int k = 0; k < plan->walker_count; k++) {
        const ota_backward_space *s = plan->backward + k;
        widened += s->widened;
        if (!(s->residual <= found->backward_residual)) found->backward_residual = s->residual;
        if (s->status >= OTA_OK || (found->status < OTA_OK && found->head < s->failed)) continue;
        found->status = s->status;
        found->head = s->failed;
    }
    if (job.begins_narrow) found->promoted = widened == r->batch * r->heads;
    ota_sums_write(plan, want);
    return found->status;
}
