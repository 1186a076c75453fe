/* Forward: walks the problem by the plan's path, head by head and chunk by chunk, and gathers what
 * happened. Nothing is chosen or allocated here. Work is cut by rows into chunks that depend on shapes
 * alone, and sums over chunks are added in order, so bits do not depend on threads. The walk is written
 * once for f32 and f64 in forward.inc.h. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "plan.h"
#include "solvers/scaling.h"

static const double log2_e = 1.4426950408889634;
/* Temperatures and factors outside [this, 1 / this] are left to the careful forms. */
static const double RAW_LEAST = 1.0e-30;

/* What came of rounds on a kernel. */
typedef enum rounds_end {
    ROUNDS_DONE,
    ROUNDS_STOPPED, /* cancelled or late */
    ROUNDS_LED,     /* f32 has come as near as it can, f64 goes on from there */
    ROUNDS_LOST,    /* sums left the range of the type */
    ROUNDS_COARSE,  /* the type's arithmetic cannot certify what is asked */
    ROUNDS_SLOW,    /* another method is cheaper */
    ROUNDS_SPENT,   /* max_rounds */
    ROUNDS_SHUT,    /* some mass has no place */
    ROUNDS_WILD     /* scores that are NaN or infinite */
} rounds_end;

enum {
    ROUNDS_SETTLED = 6, /* rounds before the rate says that another method is cheaper */
    ROUNDS_AHEAD = 3,   /* plain rounds that are cheaper than a start of the extrapolation */
    ROUNDS_SHARE = 150, /* rounds after which another method is cheaper, or one per key */
    ROUNDS_STALL =
        50, /* less than 10 % in so many rounds: the general solver looks for the reason */
    LANES_PATIENCE = 256 /* rounds to a tolerance after which a head leaves its lane */
};
static const double stall_ratio = 0.9;
/* Rounds in f32 lead those in f64 down to the tolerance or this share of f32's floor. They are not worth a
 * kernel of their own where scores lie within so many temperatures, since the rounds are few, and lead nowhere
 * if the floor is as high as that. */
static const double lead_floor = 0.0625, lead_range = 12.0, lead_worst = 0.01;

/* What rounds in f32 leave for those in f64, besides g. */
typedef struct rounds_lead {
    bool led;
    bool slow;      /* plain rounds */
    int64_t rounds; /* so far */
} rounds_lead;

typedef struct walk {
    ota_plan *plan;
    const ota_arrays *arrays;
    int64_t first_slot_head; /* key head (or head, stored scores) of slot 0 in this wave */
    int64_t slots;
    bool more_than_out;  /* something besides out, lse and row_potential is wanted */
    _Atomic int stopped; /* OTA_OK, OTA_CANCELLED or OTA_TIMEOUT */
    atomic_flag telling;
    _Atomic int64_t heads_done;
} walk;

/* Rows [first, last) of a chunk; a multiple of the fused block so that blocks never straddle chunks. */
static void chunk_rows(int64_t rows, int64_t chunk, int64_t *first, int64_t *last) {
    const int64_t share = (rows + OTA_CHUNKS - 1) / OTA_CHUNKS;
    const int64_t step = (share + OTA_ROW_BLOCK - 1) / OTA_ROW_BLOCK * OTA_ROW_BLOCK;
    *first = chunk * step < rows ? chunk * step : rows;
    *last = *first + step < rows ? *first + step : rows;
}

static bool interrupted(walk *w) {
    if (atomic_load_explicit(&w->stopped, memory_order_relaxed) != OTA_OK) return true;
    const ota_status status = ota_interrupted(&w->plan->resolved.settings);
    if (status == OTA_OK) return false;
    atomic_store(&w->stopped, status);
    return true;
}

/* One call at a time: whoever finds another telling says nothing. */
static void tell(walk *w, int64_t round, double residual) {
    const ota_settings *s = &w->plan->resolved.settings;
    if (s->progress == NULL || atomic_flag_test_and_set(&w->telling)) return;
    const ota_progress progress = {.heads_done = atomic_load(&w->heads_done),
                                   .heads = w->plan->resolved.batch * w->plan->resolved.heads,
                                   .round = round,
                                   .residual = residual};
    s->progress(s->progress_user, &progress);
    atomic_flag_clear(&w->telling);
}

static void tell_round(void *context, int64_t round, double residual) {
    tell(context, round, residual);
}

static void tell_head_done(walk *w, const ota_head_result *result) {
    if (w->plan->resolved.settings.progress == NULL) return;
    (void)atomic_fetch_add(&w->heads_done, 1);
    tell(w, result->rounds, fmax(result->row_error, result->column_error));
}

static void add_tally(ota_tally *to, const ota_tally *from) {
    to->result.row_error += from->result.row_error;
    to->empty_rows += from->empty_rows;
    to->nonfinite_rows += from->nonfinite_rows;
    /* Only failures travel: a chunk that went well must not hide the head's own caveat. */
    if (from->result.status < OTA_OK && to->result.status >= OTA_OK) {
        to->result.status = from->result.status;
    }
}

/* Quiet NaN into every output of one head. */
static void poison_array(const ota_array *a, int64_t batch, int64_t head) {
    if (!ota_array_present(a)) return;
    for (int64_t i = 0; i < a->size[2]; i++) {
        for (int64_t j = 0; j < a->size[3]; j++) ota_array_set(a, batch, head, i, j, NAN);
    }
}

static void poison_head(const ota_arrays *a, int64_t batch, int64_t head) {
    const ota_array *const outputs[] = {
        &a->out,      &a->coupling,    &a->row_potential, &a->column_potential, &a->lse,
        &a->receiver, &a->row_entropy, &a->row_support,   &a->row_max,          &a->sink};
    for (size_t k = 0; k < sizeof outputs / sizeof outputs[0]; k++)
        poison_array(outputs[k], batch, head);
}

static void put(const ota_array *a, int64_t batch, int64_t head, int64_t index, double value) {
    if (ota_array_present(a)) ota_array_set(a, batch, head, 0, index, value);
}

/* Sums of the chunks of one head, in order, into receiver and tally. */
static void gather_chunks(walk *w, int64_t part, int64_t batch, int64_t head) {
    ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    ota_tally *total = &plan->tallies[batch * r->heads + head];
    for (int64_t c = 0; c < OTA_CHUNKS; c++)
        add_tally(total, &plan->block_tallies[part * OTA_CHUNKS + c]);
    if (!ota_array_present(&w->arrays->receiver)) return;
    const double *sums = plan->receivers + part * OTA_CHUNKS * plan->stride;
    for (int64_t j = 0; j < r->keys; j++) {
        double sum = 0.0;
        for (int64_t c = 0; c < OTA_CHUNKS; c++) sum += sums[c * plan->stride + j];
        put(&w->arrays->receiver, batch, head, j, sum);
    }
}

/* The last word on one head: mass totals, status, poison. `mass` is the total of non-empty rows. */
static void settle_head(walk *w, int64_t batch, int64_t head, double mass) {
    const ota_plan *plan = w->plan;
    const ota_settings *s = &plan->resolved.settings;
    ota_tally *t = &plan->tallies[batch * plan->resolved.heads + head];
    if (mass > 0.0) t->result.row_error /= mass;
    if (t->nonfinite_rows > 0 && t->result.status >= OTA_OK) {
        t->result.status = s->strict ? OTA_NONFINITE : OTA_NONFINITE_ROWS;
    }
    if (t->result.status == OTA_OK && s->fixed &&
        plan->resolved.problem.columns != OTA_COLUMNS_FREE) {
        t->result.status = OTA_FIXED_ITERS;
    }
    if (t->result.status < OTA_OK) poison_head(w->arrays, batch, head);
    if (w->arrays->heads != NULL) w->arrays->heads[batch * plan->resolved.heads + head] = t->result;
    tell_head_done(w, &t->result);
}

/* Are the head's keys and values, and the queries that meet them, multiplied as bf16? */
static bool wants_pairs(const walk *w, int64_t batch, int64_t key_head) {
    const ota_plan *plan = w->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_arrays *a = w->arrays;
    if (!plan->pairs) return false;
    if (ota_array_present(&a->out) &&
        (a->out.type != OTA_BF16 ||
         !ota_pairs_hold(&a->values, batch, key_head, plan->key_count, false)))
        return false;
    for (int64_t k = 0; k < plan->group; k++) {
        if (!ota_pairs_hold(&r->problem.queries, batch, key_head * plan->group + k, r->queries,
                            false))
            return false;
    }
    return ota_pairs_hold(&r->problem.keys, batch, key_head, plan->key_count, false);
}

static void pack_pairs(const walk *w, ota_slot *slot, int64_t batch, int64_t key_head) {
    const ota_plan *plan = w->plan;
    const ota_array *values = &w->arrays->values;
    ota_pairs_keys(&plan->resolved.problem.keys, batch, key_head, plan->key_count, slot->key_pairs);
    if (!ota_array_present(&w->arrays->out)) return;
    ota_pairs_across(values, batch, key_head, 0, plan->key_count, slot->value_pairs);
    slot->broken_count =
        ota_pairs_mend(slot->value_pairs, plan->key_count, plan->values_width, slot->broken);
}

/* `block`: of f32, the only type whose heads are paired. */
static void attend_pairs(const ota_plan *plan, const ota_slot *slot, const void *block) {
    ota_kernels_bf16_attend paired = {.packed_keys = slot->key_pairs, .values = slot->value_pairs};
    memcpy(&paired.block, block, sizeof paired.block);
    paired.queries = (const uint32_t *)(const void *)paired.block.queries;
    plan->kernels->bf16->attend(&paired);
}

#define REAL float
#define WORD(name) name##_f32
#define KERNELS(plan) ((plan)->kernels->f32)
#define ATTEND ota_kernels_f32_attend
#define LANES_BLOCK ota_kernels_f32_lanes
#define REAL_TYPE OTA_F32
#define REAL_TOP FLT_MAX
#define REAL_LIFT OTA_LIFT_F32
#include "backend/cpu/forward.inc.h"
#undef REAL
#undef WORD
#undef KERNELS
#undef ATTEND
#undef LANES_BLOCK
#undef REAL_TYPE
#undef REAL_TOP
#undef REAL_LIFT

#define REAL double
#define WORD(name) name##_f64
#define KERNELS(plan) ((plan)->kernels->f64)
#define ATTEND ota_kernels_f64_attend
#define LANES_BLOCK ota_kernels_f64_lanes
#define REAL_TYPE OTA_F64
#define REAL_TOP DBL_MAX
#define REAL_LIFT OTA_LIFT_F64
#include "backend/cpu/forward.inc.h"

/* ---- heads ------------------------------------------------------------------------------------ */

static void run_head(walk *w, int64_t index, int64_t seat) {
    const ota_plan *plan = w->plan;
    const bool warm = ota_array_present(&w->arrays->start_potential);
    const bool narrow = !plan->wide || plan->mixed || (plan->leads && !warm);
    rounds_lead lead = {.led = false};
    if (!narrow || !run_seat_f32(w, index, seat, &lead)) (void)run_seat_f64(w, index, seat, &lead);
}

static void head_task(void *context, int64_t index, int worker) {
    run_head(context, index, worker);
}

/* A group of small heads in lanes; those that the lanes do not carry are run as any other. */
static void lanes_task(void *context, int64_t group, int worker) {
    walk *w = context;
    const ota_plan *plan = w->plan;
    const bool narrow = plan->mixed || !plan->wide;
    const int64_t lanes = narrow ? plan->kernels->f32->lanes : plan->kernels->f64->lanes;
    bool left[OTA_LANES_MOST] = {false};
    if (interrupted(w)) return;
    if (narrow)
        run_group_f32(w, group, worker, left);
    else
        run_group_f64(w, group, worker, left);
    for (int64_t l = 0; l < lanes; l++) {
        if (!left[l]) continue;
        plan->sentences[group * lanes + l][0] = '\0';
        run_head(w, group * lanes + l, worker);
    }
}

static void walk_lanes(walk *w) {
    const ota_plan *plan = w->plan;
    const bool narrow = plan->mixed || !plan->wide;
    const int64_t lanes = narrow ? plan->kernels->f32->lanes : plan->kernels->f64->lanes;
    const int64_t heads = plan->resolved.batch * plan->resolved.heads;
    ota_parallel(plan->pool, (heads + lanes - 1) / lanes, lanes_task, w);
}

/* Rounds from given potentials are run head by head. */
static bool runs_in_lanes(const walk *w) {
    return w->plan->lanes && !ota_array_present(&w->arrays->start_potential);
}

static void walk_heads(walk *w) {
    const ota_plan *plan = w->plan;
    const int64_t heads = plan->resolved.batch * plan->resolved.heads;
    if (runs_in_lanes(w)) {
        walk_lanes(w);
    } else if (!ota_plan_has_seats(plan)) {
        if (plan->wide)
            walk_rows_f64(w);
        else
            walk_rows_f32(w);
    } else if (heads >= plan->worker_count) {
        ota_parallel(plan->pool, heads, head_task, w);
    } else {
        for (int64_t k = 0; k < heads; k++) run_head(w, k, 0);
    }
}

/* ---- results ---------------------------------------------------------------------------------- */

/* Failures outrank caveats; among failures the first head's. */
static bool worse(ota_status a, ota_status b) {
    if (a < OTA_OK || b < OTA_OK) return a < OTA_OK && b >= OTA_OK;
    return a > b;
}

static void sum_up(const walk *w, ota_result *result) {
    const ota_plan *plan = w->plan;
    const int64_t heads = plan->resolved.batch * plan->resolved.heads;
    *result = (ota_result){.size = sizeof *result, .status = OTA_OK, .promoted = plan->promoted};
    for (int64_t k = 0; plan->mixed && k < heads; k++)
        result->promoted = (k == 0 || result->promoted) && plan->tallies[k].promoted;
    result->temperature_reached = heads > 0 ? ota_head_temperature(&plan->resolved, 0) : 0.0;
    for (int64_t k = 0; k < heads; k++) {
        const ota_tally *t = &plan->tallies[k];
        if (worse(t->result.status, result->status)) {
            result->status = t->result.status;
            result->head = k;
            if (t->temperature_reached > 0.0) result->temperature_reached = t->temperature_reached;
        }
        if (t->result.rounds > result->rounds) result->rounds = t->result.rounds;
        if (!(t->result.row_error <= result->row_error)) result->row_error = t->result.row_error;
        if (!(t->result.column_error <= result->column_error))
            result->column_error = t->result.column_error;
        result->empty_rows += t->empty_rows;
        result->nonfinite_rows += t->nonfinite_rows;
        result->unusable_pairs += t->unusable;
        result->pruned_pairs += t->pruned;
        result->underflowed += t->underflowed;
    }
    result->solver = heads > 0 ? plan->tallies[result->head].solver : NULL;
    if (result->solver == NULL) result->solver = plan->solver->name;
    const int stopped = atomic_load(&w->stopped);
    if (stopped != OTA_OK) result->status = (ota_status)stopped;
    if (result->status == OTA_OK) return;
    const char *reason =
        plan->sentences != NULL && stopped == OTA_OK && !plan->tallies[result->head].in_lane
            ? plan->sentences[result->head]
            : "";
    if (reason[0] != '\0') {
        (void)snprintf(result->sentence, sizeof result->sentence, "%.511s", reason);
    } else if (result->status == OTA_NONFINITE_ROWS || result->status == OTA_NONFINITE) {
        (void)snprintf(result->sentence, sizeof result->sentence,
                       "%" PRId64 " rows met NaN or +inf and are NaN", result->nonfinite_rows);
    } else if (result->status == OTA_INFEASIBLE) {
        const bool exact = plan->resolved.problem.columns == OTA_COLUMNS_EXACT;
        const bool custom = plan->resolved.problem.regulariser == OTA_CUSTOM;
        (void)snprintf(
            result->sentence, sizeof result->sentence, "head %" PRId64 ": %s", result->head,
            custom  ? "custom.weight cannot add up to a row's mass"
            : exact ? "a query with positive mass has no key it may use"
                    : "the keys a row may use have too little capacity left for its mass");
    } else {
        (void)snprintf(result->sentence, sizeof result->sentence, "%s",
                       ota_status_text(result->status));
    }
}

static const char *hint_of(ota_status status) {
    switch (status) {
    case OTA_NOT_CONVERGED:
        return "raise max_rounds or tolerance, anneal, or allow the partial plan";
    case OTA_INFEASIBLE:
        return "change the masses, the mask, or use relaxed, capped or online columns";
    case OTA_TOL_UNREACHABLE: return "raise tolerance or temperature";
    case OTA_NONFINITE: return "remove NaN and +inf, or mask them";
    default: return "";
    }
}

ota_status ota_plan_run(ota_plan *plan, const ota_arrays *given, ota_result *result,
                        ota_error *error) {
    ota_arrays arrays;
    const size_t result_size = result == NULL ? 0 : result->size;
    if (result != NULL && result_size == 0) {
        return ota_fail(error, OTA_EINVAL, "result.size", "set it to sizeof the struct",
                        "result.size is %zu", result_size);
    }
    const ota_status checked =
        ota_arrays_check(&plan->resolved, plan->values_width, given, &arrays, error);
    if (checked != OTA_OK) return checked;
    const ota_resolved *r = &plan->resolved;
    if (ota_array_present(&arrays.start_potential) &&
        (plan->solver->solve == NULL || plan->transposed || r->order <= 0.0 ||
         r->problem.columns == OTA_COLUMNS_PREFIX)) {
        return ota_fail(
            error, OTA_EINVAL, "start_potential",
            "leave it out, or run exact, relaxed, capped or elastic columns on the rows axis",
            "start_potential has no use: this plan starts no rounds from column potentials");
    }
    walk w = {.plan = plan, .arrays = &arrays, .telling = ATOMIC_FLAG_INIT};
    w.more_than_out = ota_array_present(&arrays.coupling) || ota_array_present(&arrays.receiver) ||
                      ota_array_present(&arrays.row_entropy) ||
                      ota_array_present(&arrays.row_support) || ota_array_present(&arrays.row_max);
    const int64_t heads = r->batch * r->heads;
    for (int64_t k = 0; k < heads; k++) plan->tallies[k] = (ota_tally){0};
    /* A head in a lane has no sentence, and many have a lot of memory for theirs. */
    const bool may_tell = plan->sentences != NULL && !runs_in_lanes(&w);
    for (int64_t k = 0; k < heads && may_tell; k++) plan->sentences[k][0] = '\0';
    walk_heads(&w);
    if (atomic_load(&w.stopped) != OTA_OK) {
        for (int64_t k = 0; k < heads; k++) poison_head(&arrays, k / r->heads, k % r->heads);
    }
    ota_result full;
    sum_up(&w, &full);
    if (result != NULL) {
        full.size = result_size;
        memcpy(result, &full, result_size < sizeof full ? result_size : sizeof full);
    }
    if (full.status >= OTA_OK) return full.status;
    return ota_fail(error, full.status, "", hint_of(full.status), "%s", full.sentence);
}

ota_status ota_forward(ota_plan *plan, const ota_arrays *arrays, ota_result *result,
                       ota_error *error) {
    if (plan == NULL)
        return ota_fail(error, OTA_EINVAL, "plan", "create one first", "plan is NULL");
    return ota_plan_run(plan, arrays, result, error);
}

ota_status ota_attend(const ota_problem *problem, const ota_options *options,
                      const ota_arrays *arrays, ota_result *result, ota_error *error) {
    ota_plan *plan = NULL;
    const int64_t width =
        arrays != NULL && arrays->size >= offsetof(ota_arrays, out) ? arrays->values.size[3] : 0;
    ota_status status = ota_plan_create(&plan, problem, width, options, error);
    if (status != OTA_OK) return status;
    status = ota_forward(plan, arrays, result, error);
    ota_plan_free(plan);
    return status;
}
