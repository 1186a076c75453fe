/* Rounds on a stored kernel: the loop (stored_rounds.h).
 *
 *     round: u_i = mu_i / (sum_j K_ij v_j + sink_i),  c_j = sum_i u_i K_ij,  v by scaling.h
 *
 * The residual is the column sums of the last round; to a tolerance, the final row update takes u from the round that met it.
 * Rounds to a tolerance are extrapolated (extrapolation.h) as soon as their rate says that plain ones take long; where
 * only f64 certifies them they begin in f32, which reads half as much, and go on in f64 from the potentials that f32
 * ends with. What the kernel cannot carry is left to a solver on stored scores. */
#include "stored_rounds.h"

#include <math.h>
#include <string.h>

#include "base/extrapolation.h"

enum {
    SETTLED = 6, /* rounds before the rate says that another method is cheaper */
    AHEAD = 3,   /* plain rounds that are cheaper than a start of the extrapolation */
    SHARE = 150, /* rounds after which another method is cheaper, or one per key */
    STALL = 50   /* less than 10 % in so many rounds: the general solver looks for the reason */
};
static const double stall_ratio = 0.9;
/* Rounds in f32 warm-start those in f64 down to the tolerance or this share of f32's floor; from a floor as high as
 * this they lead nowhere. */
static const double warm_floor = 0.0625, warm_worst = 0.01;
/* Temperatures outside [this, 1 / this] are left to the careful forms. */
static const double least_temperature = 1.0e-30;

typedef struct progress {
    ota_extrapolation history;
    double *before; /* g before a step */
    double floor, residual, last, best, marker;
    bool allowed; /* to extrapolate */
    bool slow;    /* plain rounds */
    bool warming; /* f32 for f64: the potentials are all that is wanted */
    bool accelerated, extrapolated;
} progress;

/* One round: forms the kernel when `form` asks for it. False: the solver on stored scores decides. */
static bool turn(ota_head *head, bool form) {
    const ota_kernel_state *kernel = &head->kernel;
    head->backend->kernel_round(head, form);
    return !kernel->lost && !kernel->infeasible && !kernel->nonfinite;
}

/* After a round, to a tolerance: is the plan of these u and v within it? Where f32 warms up, is there nothing left
 * that it could do? */
static bool within(ota_head *head, ota_scaling *scaling, progress *at) {
    const double asked = head->settings->tolerance;
    const double tolerance = at->warming ? asked : asked - at->floor;
    const double goal = at->warming ? fmax(warm_floor * at->floor, asked) : tolerance;
    const double growth = ota_scaling_constant(scaling);
    double *u = head->kernel.u;
    for (int64_t i = 0; i < head->rows && (growth > 1.0 || growth < 1.0); i++) u[i] /= growth;
    at->last = at->residual;
    at->residual = ota_scaling_residual(scaling);
    if (at->residual <= goal) return true;
    if (at->warming && at->residual <= at->floor && at->residual > at->last) return true;
    const double rate = at->residual / at->last, ahead = log(tolerance / at->residual);
    const bool soon = rate < 1.0 && ahead / log(rate) < (at->allowed ? AHEAD : SHARE);
    at->slow |= head->rounds >= (at->allowed ? 1 : SETTLED) && !soon;
    at->accelerated = at->slow && at->allowed;
    at->best = fmin(at->best, at->residual);
    return false;
}

/* Extrapolated rounds would meet constrained columns in the limit where no plan of positive weights
 * does: where some row may not use a key that another may, the general solver looks for one first. Asked for by
 * name, Sinkhorn is Sinkhorn. */
static bool may_extrapolate(const ota_head *head, const ota_rounds_rule *rule) {
    const ota_kernel_state *kernel = &head->kernel;
    if (rule->named) return false;
    int64_t used = 0;
    for (int64_t j = 0; j < head->columns; j++) used += !kernel->masked || kernel->used[j] != 0;
    return kernel->least_keys >= used || !ota_head_rule(head)->constrained;
}

/* Has the residual stood still, or has the head had its share of rounds? */
static bool is_slow(const ota_head *head, progress *at, bool named) {
    if (!named && at->slow && !at->allowed) return true;
    if (!named && head->rounds > SHARE && head->rounds > head->columns) return true;
    if (head->rounds % STALL != STALL - 1) return false;
    const bool stalled = at->best > stall_ratio * at->marker;
    at->marker = at->best;
    return stalled;
}

/* One column update, extrapolated once plain rounds have shown to be slow. */
static ota_scaling_state advance(ota_head *head, ota_scaling *scaling, progress *at) {
    const size_t bytes = (size_t)head->columns * sizeof *head->g;
    if (!at->accelerated) return ota_scaling_step(scaling);
    if (at->extrapolated && !(at->residual <= at->last)) {
        memcpy(head->g, at->history.plain, bytes);
        ota_extrapolation_forget(&at->history);
        at->extrapolated = false;
        at->residual = INFINITY;
        return ota_scaling_restore(scaling);
    }
    ota_scaling_potentials(scaling);
    memcpy(at->before, head->g, bytes);
    const ota_scaling_state state = ota_scaling_step(scaling);
    if (state == OTA_SCALING_LOST) return state;
    ota_scaling_potentials(scaling);
    at->extrapolated = ota_extrapolate(&at->history, at->before, head->g, head->columns,
                                       ota_head_rule(head)->ceiling);
    return at->extrapolated ? ota_scaling_restore(scaling) : state;
}

/* g = 0, what the caller gives, or what rounds in f32 left. True: the kernel has to absorb it. */
static bool start(ota_head *head, ota_scaling *scaling, bool warm_start) {
    ota_kernel_state *kernel = &head->kernel;
    for (int64_t j = 0; j < head->columns; j++) {
        const double given = head->warm ? head->g[j] : 0.0;
        if (!warm_start)
            head->g[j] = isfinite(given) ? ota_column_project(ota_head_rule(head), given) : 0.0;
        kernel->scaling[j] = head->g[j] > -INFINITY ? 1.0 : 0.0;
        kernel->absorbed[j] = 0.0;
    }
    const bool absorbs =
        warm_start ? ota_scaling_restore(scaling) == OTA_SCALING_OUTSIDE : head->warm;
    if (absorbs) ota_scaling_absorb(scaling);
    head->backend->pack(head);
    return absorbs;
}

/* After the first round: what can this arithmetic do for the tolerance? False: nothing. */
static bool is_fine(ota_head *head, const ota_rounds_rule *rule, progress *at) {
    at->floor = head->backend->kernel_floor(head);
    at->allowed = may_extrapolate(head, rule);
    if (!rule->coarse && head->settings->tolerance >= 2.0 * at->floor) return true;
    at->warming = rule->warms && at->allowed && !head->warm && at->floor <= warm_worst;
    return at->warming;
}

/* Rounds until they are done or the tolerance is met. DONE leaves u or v for the final row update. */
static ota_rounds_end run(ota_head *head, const ota_rounds_rule *rule, ota_scaling *scaling,
                          ota_warm_start *from, ota_status *stopped) {
    ota_kernel_state *kernel = &head->kernel;
    const ota_settings *settings = head->settings;
    progress at = {.residual = INFINITY, .best = INFINITY, .marker = INFINITY, .slow = from->slow};
    if (kernel->careful) {
        ota_extrapolation_place(&at.history, kernel->history, head->stride);
        at.before = kernel->history + OTA_ANDERSON_VECTORS * head->stride;
    }
    bool form = true;
    for (head->rounds = from->rounds;; head->rounds++) {
        const bool last = settings->fixed && head->rounds >= settings->rounds;
        kernel->first = head->rounds == from->rounds;
        if (!last || form) {
            if (!turn(head, form))
                return kernel->nonfinite    ? OTA_ROUNDS_NONFINITE
                       : kernel->infeasible ? OTA_ROUNDS_INFEASIBLE
                                            : OTA_ROUNDS_LOST;
            if (kernel->first) {
                scaling->used = kernel->masked ? kernel->used : NULL;
                if (!ota_scaling_begin(scaling)) return OTA_ROUNDS_INFEASIBLE;
            }
        }
        if (last) return OTA_ROUNDS_DONE;
        if (kernel->careful) {
            if (kernel->first && !is_fine(head, rule, &at)) return OTA_ROUNDS_COARSE;
            kernel->met = within(head, scaling, &at);
            if (isnan(at.residual)) return OTA_ROUNDS_LOST;
            const bool slow = !kernel->met && !rule->last_resort && is_slow(head, &at, rule->named);
            const bool spent = head->rounds >= settings->max_rounds;
            if (at.warming && (kernel->met || slow || spent)) {
                *from = (ota_warm_start){.given = true, .slow = at.slow, .rounds = head->rounds};
                return OTA_ROUNDS_WARM;
            }
            if (kernel->met) return OTA_ROUNDS_DONE;
            if (slow) return OTA_ROUNDS_SLOW;
            if (spent) return OTA_ROUNDS_SPENT;
        }
        *stopped = ota_interrupted(settings);
        if (*stopped != OTA_OK) return OTA_ROUNDS_STOPPED;
        if (head->tell != NULL) {
            ota_scaling_potentials(scaling);
            ota_scaling_measure(scaling);
            head->tell(head->tell_context, head->rounds, head->column_error);
        }
        const ota_scaling_state state = advance(head, scaling, &at);
        if (state == OTA_SCALING_LOST) return OTA_ROUNDS_LOST;
        form = state == OTA_SCALING_OUTSIDE;
        if (!form) continue;
        /* Differences of a caller's scores may need more than a in the kernel's type carries. */
        if (rule->of_matrix && !at.warming) return OTA_ROUNDS_COARSE;
        if (!at.extrapolated) ota_scaling_potentials(scaling);
        ota_scaling_absorb(scaling);
        kernel->has_absorbed = true;
    }
}

ota_rounds_end ota_stored_rounds_run(ota_head *head, const ota_rounds_rule *rule, bool partial,
                                     ota_warm_start *from, ota_status *stopped) {
    ota_kernel_state *kernel = &head->kernel;
    ota_scaling scaling = {.head = head,
                           .target = kernel->target,
                           .sum = kernel->sum,
                           .scaling = kernel->scaling,
                           .absorbed = kernel->absorbed};
    kernel->careful = !head->settings->fixed;
    if (head->tau < least_temperature || head->tau > 1.0 / least_temperature)
        return OTA_ROUNDS_LOST;
    kernel->has_absorbed = start(head, &scaling, from->given);
    const ota_rounds_end end = run(head, rule, &scaling, from, stopped);
    if (end == OTA_ROUNDS_WARM) ota_scaling_potentials(&scaling);
    if (end != OTA_ROUNDS_DONE && !(partial && end == OTA_ROUNDS_SPENT)) return end;
    ota_scaling_potentials(&scaling);
    if (!head->backend->kernel_emit(head)) return OTA_ROUNDS_LOST;
    ota_scaling_measure(&scaling);
    head->temperature_reached = head->tau;
    return end;
}
