/* Rounds on a stored kernel (stored_rounds.h; the loop: rounds.h).
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
    AHEAD = 3,  /* plain rounds that are cheaper than a start of the extrapolation */
    SHARE = 150 /* rounds after which another method is cheaper, or one per key */
};
/* Rounds in f32 warm-start those in f64 down to the tolerance or this share of f32's floor; from a floor as high as
 * this they lead nowhere. */
static const double warm_floor = 0.0625, warm_worst = 0.01;
/* Temperatures outside [this, 1 / this] are left to the careful forms. */
static const double least_temperature = 1.0e-30;

typedef struct progress {
    ota_rounds now;
    ota_head *head;
    const ota_rounds_rule *rule;
    ota_scaling *scaling;
    ota_warm_start *from;
    double floor;
    bool form;    /* the next pass forms the kernel anew */
    bool slow;    /* plain rounds */
    bool warming; /* f32 for f64: the potentials are all that is wanted */
    struct {
        bool allowed, on; /* on: plain rounds have shown to be slow */
        bool stepped;     /* g is an extrapolated one */
        double *before;   /* g before a step */
        ota_extrapolation history;
    } extra;
} progress;

/* Sums and flags of one process's rows become those of all rows, and in the first round their mass. */
static bool share_sums(ota_head *head) {
    ota_kernel_state *kernel = &head->kernel;
    double flags[] = {kernel->found.lost, kernel->found.infeasible, kernel->found.nonfinite,
                      head->mass};
    const int64_t count = kernel->round.first ? 4 : 3;
    const ota_settings *s = head->settings;
    if (s->ranks == NULL) return true;
    if (!ota_ranks_sum(s, kernel->sum, head->columns, flags, count, "the column sums of a round"))
        return false;
    if (kernel->round.first) head->mass = flags[3];
    kernel->found.lost = flags[0] > 0.0;
    kernel->found.infeasible = flags[1] > 0.0;
    kernel->found.nonfinite = flags[2] > 0.0;
    return true;
}

/* So does what the first round found out. */
static bool share_first(ota_head *head) {
    ota_kernel_state *kernel = &head->kernel;
    const ota_settings *s = head->settings;
    double most[] = {kernel->range.high, -kernel->range.low, kernel->range.norm,
                     -(double)kernel->range.least_keys};
    if (s->ranks == NULL) return true;
    if (!ota_ranks_most(s, most, 4, "the range of the scores")) return false;
    kernel->range.high = most[0];
    kernel->range.low = -most[1];
    kernel->range.norm = most[2];
    kernel->range.least_keys = (int64_t)-most[3];
    double *used = kernel->target; /* until the masses are allotted */
    for (int64_t j = 0; j < head->columns && kernel->masked; j++) used[j] = kernel->used[j];
    if (kernel->masked && !ota_ranks_most(s, used, head->columns, "the keys in use")) return false;
    for (int64_t j = 0; j < head->columns && kernel->masked; j++)
        kernel->used[j] = (unsigned char)used[j];
    return true;
}

ota_outcome ota_stored_round(ota_head *head, bool form) {
    const ota_kernel_state *kernel = &head->kernel;
    head->backend->kernel_round(head, form);
    if (!share_sums(head)) return OTA_STOPPED;
    if (kernel->found.nonfinite) return OTA_OUTCOME_NONFINITE;
    if (kernel->found.infeasible) return OTA_OUTCOME_INFEASIBLE;
    if (kernel->found.lost) return OTA_LOST;
    if (!kernel->round.first) return OTA_GO_ON;
    if (!share_first(head)) return OTA_STOPPED;
    head->backend->allot(head);
    return OTA_GO_ON;
}

/* After a round, to a tolerance: is the plan of these u and v within it? Where f32 warms up, is there nothing left
 * that it could do? */
static bool within(progress *at) {
    ota_head *head = at->head;
    const double asked = head->settings->stop.tolerance;
    const double tolerance = at->warming ? asked : asked - at->floor;
    const double goal = at->warming ? fmax(warm_floor * at->floor, asked) : tolerance;
    const double growth = ota_scaling_constant(at->scaling);
    double *u = head->kernel.u;
    for (int64_t i = 0; i < head->rows && (growth > 1.0 || growth < 1.0); i++) u[i] /= growth;
    ota_rounds_note(&at->now, ota_scaling_residual(at->scaling));
    const double residual = at->now.residual;
    if (residual <= goal) return true;
    if (at->warming && residual <= at->floor && residual > at->now.last) return true;
    const bool soon = ota_rounds_ahead(&at->now, tolerance) < (at->extra.allowed ? AHEAD : SHARE);
    at->slow |= head->found.rounds >= (at->extra.allowed ? 1 : OTA_ROUNDS_SETTLED) && !soon;
    at->extra.on = at->slow && at->extra.allowed;
    at->now.best = fmin(at->now.best, residual);
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
    return kernel->range.least_keys >= used ||
           !ota_rule_is(ota_head_rule(head), OTA_RULE_CONSTRAINED);
}

/* Has the residual stood still, or has the head had its share of rounds? */
static bool is_slow(progress *at) {
    const ota_head *head = at->head;
    const bool named = at->rule->named;
    if (!named && at->slow && !at->extra.allowed) return true;
    if (!named && head->found.rounds > SHARE && head->found.rounds > head->columns) return true;
    /* The first rounds are not judged: the kernel has a floor of its own to find. */
    if (head->found.rounds % OTA_ROUNDS_STALL != OTA_ROUNDS_STALL - 1) return false;
    return ota_rounds_stand_still(&at->now);
}

/* The sums of the plan that was emitted: those of the round that met the tolerance, or of one more. */
static bool share_emitted(ota_head *head) {
    double lost = head->kernel.found.lost;
    if (!head->kernel.round.met) return share_sums(head);
    if (!ota_ranks_sum(head->settings, &lost, 1, NULL, 0, "the final row update")) return false;
    head->kernel.found.lost = lost > 0.0;
    return true;
}

/* One column update, extrapolated once plain rounds have shown to be slow. */
static ota_scaling_state advance(progress *at) {
    ota_head *head = at->head;
    const size_t bytes = (size_t)head->columns * sizeof *head->g;
    if (!at->extra.on) return ota_scaling_step(at->scaling);
    if (at->extra.stepped && !(at->now.residual <= at->now.last)) {
        memcpy(head->g, at->extra.history.plain, bytes);
        ota_extrapolation_reset(&at->extra.history);
        at->extra.stepped = false;
        at->now.residual = INFINITY;
        return ota_scaling_restore(at->scaling);
    }
    ota_scaling_potentials(at->scaling);
    memcpy(at->extra.before, head->g, bytes);
    const ota_scaling_state state = ota_scaling_step(at->scaling);
    if (state == OTA_SCALING_LOST) return state;
    ota_scaling_potentials(at->scaling);
    at->extra.stepped = ota_extrapolate(&at->extra.history, at->extra.before, head->g,
                                        head->columns, ota_head_rule(head)->ceiling);
    return at->extra.stepped ? ota_scaling_restore(at->scaling) : state;
}

/* g = 0, what the caller gives, or what rounds in f32 left. True: the kernel has to absorb it. */
static bool start(ota_head *head, ota_scaling *scaling, bool warm_start) {
    ota_kernel_state *kernel = &head->kernel;
    const ota_column_rule_row *rule = ota_head_rule(head);
    for (int64_t j = 0; j < head->columns && !warm_start; j++) {
        const double given = head->warm ? head->g[j] : 0.0;
        head->g[j] = isfinite(given) ? ota_column_project(rule, given) : 0.0;
    }
    if (head->warm && !warm_start && kernel->round.careful && !(head->row.sink > -INFINITY))
        ota_column_begin(rule, head->columns, head->g);
    for (int64_t j = 0; j < head->columns; j++) {
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
    at->extra.allowed = may_extrapolate(head, rule);
    if (!rule->narrow.coarse && head->settings->stop.tolerance >= 2.0 * at->floor) return true;
    at->warming = rule->narrow.warms && at->extra.allowed && !head->warm && at->floor <= warm_worst;
    return at->warming;
}

/* ---- the passes of rounds.h ----------------------------------------------------------------------- */

static ota_outcome pass(void *domain) {
    progress *at = domain;
    ota_head *head = at->head;
    ota_kernel_state *kernel = &head->kernel;
    const bool last = head->settings->stop.fixed && at->now.round >= head->settings->stop.rounds;
    head->found.rounds = at->now.round;
    ota_ranks_at(head->settings->ranks, head->index, head->found.rounds);
    kernel->round.first = head->found.rounds == at->from->rounds;
    if (last && !at->form) return OTA_RAN;
    const ota_outcome outcome = ota_stored_round(head, at->form);
    if (outcome != OTA_GO_ON) return outcome;
    if (kernel->round.first) {
        at->scaling->used = kernel->masked ? kernel->used : NULL;
        if (!ota_scaling_begin(at->scaling)) return OTA_OUTCOME_INFEASIBLE;
    }
    return last ? OTA_RAN : OTA_GO_ON;
}

static ota_outcome judge(void *domain) {
    progress *at = domain;
    ota_head *head = at->head;
    ota_kernel_state *kernel = &head->kernel;
    if (!kernel->round.careful) return OTA_GO_ON;
    if (kernel->round.first && !is_fine(head, at->rule, at)) return OTA_OUTCOME_PRECISION;
    kernel->round.met = within(at);
    if (isnan(at->now.residual)) return OTA_LOST;
    const bool slow = !kernel->round.met && !at->rule->last_resort && is_slow(at);
    const bool spent = head->found.rounds >= head->settings->stop.max_rounds;
    if (at->warming && (kernel->round.met || slow || spent)) {
        *at->from = (ota_warm_start){.given = true, .slow = at->slow, .rounds = head->found.rounds};
        return OTA_WARM;
    }
    return kernel->round.met ? OTA_MET : slow ? OTA_SLOW : spent ? OTA_SPENT : OTA_GO_ON;
}

static ota_status tick(void *domain) {
    const progress *at = domain;
    ota_head *head = at->head;
    const ota_status stopped = ota_interrupted_together(head->settings);
    if (stopped != OTA_OK || head->host.report == NULL) return stopped;
    ota_scaling_potentials(at->scaling);
    ota_scaling_measure(at->scaling);
    head->host.report(head->host.report_context, head->found.rounds, head->found.column_error);
    return OTA_OK;
}

static ota_outcome update(void *domain) {
    progress *at = domain;
    const ota_scaling_state state = advance(at);
    if (state == OTA_SCALING_LOST) return OTA_LOST;
    at->form = state == OTA_SCALING_OUTSIDE;
    if (!at->form) return OTA_GO_ON;
    /* Differences of a caller's scores may need more than a in the kernel's type carries. */
    if (at->rule->narrow.of_matrix && !at->warming) return OTA_OUTCOME_PRECISION;
    if (!at->extra.stepped) ota_scaling_potentials(at->scaling);
    ota_scaling_absorb(at->scaling);
    at->head->kernel.round.absorbed = true;
    return OTA_GO_ON;
}

/* Rounds until they are done or the tolerance is met, which leaves u or v for the final row update. */
static ota_outcome run(ota_head *head, const ota_rounds_rule *rule, ota_scaling *scaling,
                       ota_warm_start *from, ota_status *stopped) {
    static const ota_round_passes on_kernel = {pass, judge, tick, update};
    ota_kernel_state *kernel = &head->kernel;
    progress at = {.now = ota_rounds_begin(from->rounds),
                   .head = head,
                   .rule = rule,
                   .scaling = scaling,
                   .from = from,
                   .form = true,
                   .slow = from->slow};
    if (kernel->round.careful) {
        ota_extrapolation_place(&at.extra.history, kernel->history, head->scores.stride);
        at.extra.before = kernel->history + OTA_ANDERSON_VECTORS * head->scores.stride;
    }
    return ota_rounds_run(&on_kernel, &at, &at.now, stopped);
}

ota_outcome ota_stored_rounds_run(ota_head *head, const ota_rounds_rule *rule, bool partial,
                                  ota_warm_start *from, ota_status *stopped) {
    ota_kernel_state *kernel = &head->kernel;
    ota_scaling scaling = {.head = head,
                           .target = kernel->target,
                           .sum = kernel->sum,
                           .scaling = kernel->scaling,
                           .absorbed = kernel->absorbed};
    kernel->round.careful = !head->settings->stop.fixed;
    if (head->tau < least_temperature || head->tau > 1.0 / least_temperature) return OTA_LOST;
    kernel->round.absorbed = start(head, &scaling, from->given);
    const ota_outcome end = run(head, rule, &scaling, from, stopped);
    if (end == OTA_STOPPED && *stopped == OTA_OK)
        *stopped = ota_interrupted_together(head->settings);
    if (end == OTA_WARM) ota_scaling_potentials(&scaling);
    if (end != OTA_MET && end != OTA_RAN && !(partial && end == OTA_SPENT)) return end;
    ota_scaling_potentials(&scaling);
    kernel->found.lost = !head->backend->kernel_emit(head);
    if (head->settings->ranks != NULL && !share_emitted(head)) {
        *stopped = OTA_ECOMM;
        return OTA_STOPPED;
    }
    if (kernel->found.lost) return OTA_LOST;
    ota_scaling_measure(&scaling);
    head->found.temperature = head->tau;
    return end;
}
