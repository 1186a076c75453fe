/* Newton on the semi-dual in g for entropy and Tsallis alike [DER-11]. Rows are solved exactly for
 * every g, which leaves one convex function D(g) with
 *
 *     gradient   c_j - nu_j  exact;   c_j - nu_j exp(-g_j / rho)  relaxed;   bounded: a kink at g = 0
 *     Hessian    (1/t) sum_i [diag(w_i) - k w_i w_i^T / W_i]
 *                (+ diag(nu exp(-g / rho) / rho) relaxed)
 *     w_ij = P_ij^(2 - alpha) on the support (entropy: P_ij),  W_i = sum_j w_ij (+ the sink's)
 *     k = 1, or rho / (rho + t) with rows relaxed by rho;  w = 0 of weights at their entry caps
 *
 * Rows are solved and summed by ota_semidual (coupled.h). The Hessian is a Laplacian plus a non-negative diagonal and is factored as such
 * (newton_system.c), so that links far below rounding still act; supports of entmax that fall
 * apart give nodes without links, which a shift in proportion to the residual keeps moving: one
 * null vector per component. The line search follows the sign of the slope, which decides for a
 * convex function and needs no values of D. Weights that are mostly 0 are kept as lists of keys (listed_semidual.c), whose
 * steps are taken by conjugate gradients, through falling temperatures where the last one is low. Where steps do not pay,
 * entropy is approached through falling temperatures of stored weights and Tsallis by interior.c. */
#include "coupled.h"

#include <string.h>

enum {
    TRIALS = 24,        /* evaluations of one line search */
    STAGE_STEPS = 60,   /* steps of a stage before the last one is tried at once */
    LARGE = 128,        /* keys from which the interior point is dear */
    LISTED_STEPS = 40,  /* steps on lists of keys before another way is tried */
    CAPPED_STEPS = 200, /* the same within entry caps */
    SOFT_ROUNDS = 20,   /* of softmax, at most, before them */
    MOST_DIRECT = 12,   /* the same of few keys, where it pays */
    DIRECT_STEPS = 8,   /* steps before the direct attempt must have paid */
    CONJUGATE_STEPS = 400,
    EXCHANGES = 12,
    ROUGH_EXCHANGES = 2, /* the same of a model that is far from the solution, on lists of keys */
    PATIENCE = 6,        /* steps that must halve the residual, or column updates join in */
    OTHER_PATIENCE = 10, /* or another way is tried, which takes as long as 50 steps on lists */
    STALLED = 40,        /* steps near the solution without half the residual: rounding is left */
    REFUSALS = 3         /* times the final row update may disagree with a residual that is met */
};

/* Slopes that end the line search, relative to the first. */
static const double slope_left = 0.5;
/* Within entry caps slopes leap where a key reaches its cap or leaves it, so that none is small enough: the share of a length that is left
 * for one. */
static const double bracket_left = 0.1;
/* Below this residual Newton steps converge at once or not at all. */
static const double near_residual = 1.0e-6;
/* A stage above the final temperature is left at this residual. */
static const double stage_residual = 0.1;
static const double cooling = 0.4;
/* From here on the quadratic model says which keys rest at their kinks. A stage on lists ends here: from farther off the
 * next one takes more steps than this one saves. */
static const double rough_residual = 0.01;
/* Stages on lists begin here, in units of the range of the scores. */
static const double first_stage = 0.02;
/* Of stages within entry caps. */
static const double capped_residual = 0.003, capped_cooling = 0.25, capped_shift = 10.0;
/* Rounds of softmax before steps on lists end here. */
static const double soft_residual = 0.03;
/* Shift in units of residual times mean curvature: first, least, largest. */
static const double first_shift = 0.1, least_shift = 1.0e-10, largest_shift = 1.0e6;

typedef struct newton {
    ota_coupled *state;
    double t, residual, shift;
    double *gradient, *direction, *origin, *excess, *right, *diagonal;
    double *residue, *search, *product; /* conjugate gradients */
    double *right_copy, *excess_copy;
    double *own;   /* the diagonal of the whole system, or a bound of it */
    double *above; /* the side of its kink on which a key moves: 1 above, 0 below */
    int64_t most;  /* rounds */
} newton;

static newton place(ota_coupled *state) {
    newton n = {.state = state, .shift = first_shift};
    double **vectors[] = {&n.gradient,    &n.direction, &n.origin, &n.excess,  &n.right,
                          &n.diagonal,    &n.residue,   &n.search, &n.product, &n.right_copy,
                          &n.excess_copy, &n.above,     &n.own};
    for (size_t k = 0; k < sizeof vectors / sizeof vectors[0]; k++)
        *vectors[k] = state->vectors + (int64_t)k * state->pass.padded_columns;
    memset(n.above, 0, (size_t)state->pass.padded_columns * sizeof *n.above);
    n.most = state->head->settings->stop.max_rounds;
    return n;
}

/* After a sum over the ranks. What the step leaves does not count then: the next tick ends the run. */
static bool is_stopped(const newton *n) {
    return ota_interrupted_together(n->state->head->settings) != OTA_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static ota_column_kink kink_of(const newton *n, int64_t j) {
    const ota_head *head = n->state->head;
    const ota_column_parameters key = ota_head_parameters(head, j);
    return ota_column_kink_of(ota_head_rule(head), &key, n->state->pass.target[j]);
}

/* c less the sum that is asked for on the side of the kink on which the key moves. */
static double gradient_of(const newton *n, int64_t j) {
    const ota_head *head = n->state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    const ota_column_kink kink = kink_of(n, j);
    double wanted = n->above[j] > 0.0 ? kink.above : kink.below;
    if (rule->wanted != NULL && wanted > 0.0)
        wanted = rule->wanted(wanted, head->g[j], head->column.strength);
    return head->g[j] > -INFINITY ? n->state->pass.column[j] - wanted : 0.0;
}

/* Rows for head->g; c, gradient and residual. */
static void evaluate(newton *n) {
    ota_coupled *state = n->state;
    state->semidual->rows(state, n->t, state->pass.column);
    ota_coupled_share(state, state->pass.column, "the column sums of Newton");
    state->pass.temperature = n->t;
    for (int64_t j = 0; j < state->pass.columns; j++) n->gradient[j] = gradient_of(n, j);
    n->residual = ota_column_residual(state);
}

/* ---- Hessian --------------------------------------------------------------------------------- */

static bool is_factored(const ota_coupled *state) {
    return state->hessian != NULL && state->semidual == &ota_stored_semidual;
}

/* Consumes the weights. The system is t times the Hessian: excess, diagonal and links. */
static void form_system(newton *n) {
    ota_coupled *state = n->state;
    const ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    state->semidual->slopes(state, n->t, n->diagonal, n->excess);
    ota_coupled_share(state, n->excess, "the system of Newton");
    ota_coupled_share(state, n->diagonal, "the system of Newton");
    double mean = 0.0, with_weight = 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        mean += n->diagonal[j];
        with_weight += n->diagonal[j] > 0.0 ? 1.0 : 0.0;
    }
    /* Keys that no row uses change no step. */
    mean /= fmax(with_weight, 1.0);
    const double shift = n->shift * n->residual * mean;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        double more = shift;
        if (rule->diagonal != NULL && head->g[j] > -INFINITY)
            more += rule->diagonal(state->pass.target[j], head->g[j], head->column.strength, n->t);
        n->excess[j] += more;
        n->diagonal[j] += more;
        n->right[j] = -n->t * n->gradient[j];
    }
    memcpy(n->own, n->diagonal, (size_t)state->pass.columns * sizeof *n->own);
    if (is_factored(state)) {
        ota_newton_links(state);
    } else if (state->semidual->squares != NULL) {
        state->semidual->squares(state, n->product);
        /* What is left of a key that shares no row is its excess, and rounding. */
        for (int64_t j = 0; j < state->pass.columns; j++)
            n->own[j] = fmax(n->own[j] - n->product[j], 1.0e-12 * n->own[j]);
    }
}

/* product = system * search. */
static void multiply(newton *n) {
    n->state->semidual->links(n->state, n->search, n->product);
    ota_coupled_share(n->state, n->product, "a product of Newton");
    for (int64_t j = 0; j < n->state->pass.columns; j++)
        n->product[j] += n->diagonal[j] * n->search[j];
}

/* The keys that move, the others' direction given; preconditioned by the diagonal, to the forcing
 * term. */
static void conjugate_gradients(newton *n) {
    ota_coupled *state = n->state;
    const int64_t count = state->pass.columns;
    double now = 0.0, first;
    for (int64_t j = 0; j < count; j++) {
        if (state->fixed[j] == 0) n->direction[j] = 0.0;
        n->search[j] = n->direction[j];
    }
    multiply(n);
    for (int64_t j = 0; j < count; j++) {
        const bool moves = state->fixed[j] == 0 && n->diagonal[j] > 0.0;
        n->residue[j] = moves ? n->right[j] - n->product[j] : 0.0;
        n->search[j] = moves ? n->residue[j] / n->own[j] : 0.0;
        now += n->residue[j] * n->search[j];
    }
    first = now;
    /* Few keys are cheap to solve for further. */
    const double part = count < LARGE ? 1.0e-3 : 1.0;
    const double forcing = part * (n->residual < 0.1 ? n->residual : 0.1);
    for (int step = 0; step < CONJUGATE_STEPS && now > forcing * forcing * first; step++) {
        double curvature = 0.0, next = 0.0;
        multiply(n);
        if (is_stopped(n)) break;
        for (int64_t j = 0; j < count; j++) curvature += n->product[j] * n->search[j];
        if (!(curvature > 0.0)) break;
        for (int64_t j = 0; j < count; j++) {
            if (state->fixed[j] != 0 || !(n->diagonal[j] > 0.0)) continue;
            n->direction[j] += now / curvature * n->search[j];
            n->residue[j] -= now / curvature * n->product[j];
            next += n->residue[j] * n->residue[j] / n->own[j];
        }
        for (int64_t j = 0; j < count; j++) {
            const bool moves = state->fixed[j] == 0 && n->diagonal[j] > 0.0;
            n->search[j] = moves ? n->residue[j] / n->own[j] + next / now * n->search[j] : 0.0;
        }
        now = next;
    }
}

static void solve_free(newton *n) {
    ota_coupled *state = n->state;
    const size_t bytes = (size_t)state->pass.columns * sizeof(double);
    if (!is_factored(state)) {
        conjugate_gradients(n);
        return;
    }
    for (int64_t j = 0; j < state->pass.columns; j++) {
        memcpy(state->factor + j * state->pass.padded_columns,
               state->hessian + j * state->pass.padded_columns, (size_t)j * sizeof(double));
    }
    memcpy(n->right_copy, n->right, bytes);
    memcpy(n->excess_copy, n->excess, bytes);
    ota_laplacian system = {.algebra = state->head->host.algebra,
                            .watch = ota_watch_of(state->head->settings),
                            .links = state->factor,
                            .stride = state->pass.padded_columns,
                            .count = state->pass.columns,
                            .excess = n->excess_copy,
                            .fixed = state->fixed};
    ota_laplacian_solve(&system, n->right_copy, n->direction);
}

/* Balanced columns without a sink do not feel a constant; unlinked keys would let it drift away. */
static void drop_constant(const ota_coupled *state, double *vector) {
    const ota_head *head = state->head;
    const bool equal = ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED) || state->equal;
    if (!equal || head->row.sink > -INFINITY) return;
    double low = INFINITY, high = -INFINITY;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!(head->g[j] > -INFINITY)) continue;
        low = vector[j] < low ? vector[j] : low;
        high = vector[j] > high ? vector[j] : high;
    }
    for (int64_t j = 0; j < state->pass.columns && high >= low; j++) {
        if (head->g[j] > -INFINITY) vector[j] -= 0.5 * low + 0.5 * high;
    }
}

/* The side of its kink on which every key moves, by its g, or at the kink by its sum; true: it rests there. */
static bool choose_side(newton *n, int64_t j) {
    const ota_coupled *state = n->state;
    const ota_column_kink kink = kink_of(n, j);
    const double g = state->head->g[j], sum = state->pass.column[j];
    const bool at = !(g < kink.at) && !(g > kink.at);
    n->above[j] = g > kink.at || (at && sum < kink.above) ? 1.0 : 0.0;
    n->gradient[j] = gradient_of(n, j);
    return at && sum - kink.below < 0.0 && !(sum < kink.above);
}

/* A key that the model holds at its kink, although its slopes there push it off: to the side it is let go to. */
static bool let_go(newton *n, int64_t j, const ota_column_kink *kink) {
    const double sum = n->state->pass.column[j], g = n->state->head->g[j];
    const bool free_side = !(g < kink->at) && !(g > kink->at);
    const double above = n->above[j];
    for (int side = 0; side < 2; side++) {
        const bool own = (side == 1) == (above > 0.0);
        if (!own && !free_side) continue;
        const double right =
            own ? n->right[j] : -n->t * (sum - (side == 1 ? kink->above : kink->below));
        if (side == 1 ? n->product[j] < right : n->product[j] > right) {
            n->above[j] = (double)side;
            n->right[j] = right;
            return true;
        }
    }
    return false;
}

/* The step of the quadratic model; on its own side of the kinks its minimum there by exchanging active sets,
 * which ends after few exchanges because the matrix has no positive off-diagonal entry. */
static void find_direction(newton *n) {
    ota_coupled *state = n->state;
    const ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    for (int64_t j = 0; j < state->pass.columns; j++) {
        const bool held = choose_side(n, j);
        state->fixed[j] = held || !(head->g[j] > -INFINITY);
        n->direction[j] = 0.0;
    }
    form_system(n);
    solve_free(n);
    const bool rough = state->semidual == &ota_listed_semidual && n->residual > rough_residual;
    const int most = rule->kink == NULL ? 0 : rough ? ROUGH_EXCHANGES : EXCHANGES;
    for (int exchange = 0; exchange < most; exchange++) {
        int64_t changes = 0;
        memcpy(n->search, n->direction, (size_t)state->pass.columns * sizeof *n->search);
        multiply(n);
        for (int64_t j = 0; j < state->pass.columns; j++) {
            if (!(head->g[j] > -INFINITY)) continue;
            const ota_column_kink kink = kink_of(n, j);
            const double room = kink.at - head->g[j];
            const bool above = n->above[j] > 0.0;
            if (state->fixed[j] != 0 && let_go(n, j, &kink)) {
                state->fixed[j] = 0;
                changes++;
            } else if (state->fixed[j] == 0 &&
                       (above ? n->direction[j] < room : n->direction[j] > room)) {
                state->fixed[j] = 1;
                n->direction[j] = room;
                changes++;
            }
        }
        if (changes == 0 || is_stopped(n)) return;
        solve_free(n);
    }
}

/* ---- line search ----------------------------------------------------------------------------- */

/* Does a step of this length take the key across its kink? */
static bool is_clipped(const newton *n, int64_t j, double length) {
    const double moved = n->origin[j] + length * n->direction[j], at = kink_of(n, j).at;
    return n->above[j] > 0.0 ? moved < at : moved > at;
}

/* Moves to origin + length * direction, projected, and returns the slope there. */
static double try_length(newton *n, double length) {
    ota_coupled *state = n->state;
    ota_head *head = state->head;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!(n->origin[j] > -INFINITY)) continue;
        const double moved = n->origin[j] + length * n->direction[j];
        head->g[j] = is_clipped(n, j, length) ? kink_of(n, j).at : moved;
    }
    evaluate(n);
    double slope = 0.0;
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (!is_clipped(n, j, length)) slope += n->gradient[j] * n->direction[j];
    }
    return slope;
}

/* The length that was taken; 0: none found, g back at the origin and evaluated. */
static double descend(newton *n) {
    double first = 0.0, low = 0.0, low_slope, high = INFINITY, length = 1.0;
    for (int64_t j = 0; j < n->state->pass.columns; j++) first += n->gradient[j] * n->direction[j];
    low_slope = first;
    const bool capped = n->state->head->row.regulariser->capped;
    for (int trial = 0; trial < TRIALS && first < 0.0; trial++) {
        const double slope = try_length(n, length);
        if (is_stopped(n)) return 0.0;
        if (fabs(slope) <= slope_left * -first) return length;
        if (slope < 0.0) {
            low = length;
            low_slope = slope;
        } else {
            high = length;
        }
        if (capped && low > 0.0 && high - low <= bracket_left * high) break;
        if (high < INFINITY) {
            double part = slope > 0.0 ? low_slope / (low_slope - slope) : 0.5;
            if (!(part > 0.1)) part = 0.1;
            if (!(part < 0.5)) part = 0.5;
            length = low + part * (high - low);
        } else {
            length *= 3.0;
        }
    }
    (void)try_length(n, low);
    return low;
}

static void step(newton *n) {
    ota_coupled *state = n->state;
    find_direction(n);
    drop_constant(state, n->direction);
    memcpy(n->origin, state->head->g, (size_t)state->pass.columns * sizeof *n->origin);
    const double length = descend(n);
    if (length >= 0.9) {
        n->shift = n->shift * 0.2 > least_shift ? n->shift * 0.2 : least_shift;
    } else if (length < 0.3) {
        n->shift = n->shift * 10.0 < largest_shift ? n->shift * 10.0 : largest_shift;
    }
}

/* ---- stages ---------------------------------------------------------------------------------- */

typedef struct progress {
    double best, marker;
    int64_t marked; /* the step at which `best` last halved */
} progress;

static void keep_best(newton *n, progress *kept, int64_t taken) {
    ota_coupled *state = n->state;
    if (!(n->residual < kept->best)) return;
    kept->best = n->residual;
    if (kept->best < 0.5 * kept->marker) {
        kept->marker = kept->best;
        kept->marked = taken;
    }
    memcpy(state->best, state->head->g, (size_t)state->pass.columns * sizeof *state->best);
}

/* A start that the caller gave is kept while steps from it pay: falling temperatures begin at g = 0. */
static bool start_pays(const newton *n, bool slow) {
    return n->state->head->warm && !slow && n->residual <= stage_residual;
}

/* Where steps on lists do not pay at t, is there another way? Within entry caps only few keys take it before all steps are spent. */
static bool gives_way(const ota_coupled *state, double t) {
    const ota_head *head = state->head;
    if (state->semidual != &ota_listed_semidual) return false;
    if (head->scores.tried) return true;
    if (state->interior.matrix == NULL) return false;
    return !head->row.regulariser->capped || (state->pass.columns < LARGE && t > head->tau);
}

/* Steps on lists go on where they halve the residual every other time. */
static bool lists_pay(const newton *n, const progress *kept, int64_t taken) {
    return n->state->semidual == &ota_listed_semidual && n->residual <= stage_residual &&
           taken <= kept->marked + 2 && taken < MOST_DIRECT;
}

/* Steps at temperature t until the residual is `enough`. Where Newton steps no longer pay, column
 * updates take turns with them. */
static ota_outcome iterate(newton *n, double t, double enough, int64_t most, ota_status *stopped) {
    ota_coupled *state = n->state;
    ota_head *head = state->head;
    const bool last_stage = !(t > head->tau);
    progress kept = {.best = INFINITY, .marker = INFINITY};
    double marker = INFINITY;
    int refused = 0;
    bool alternate = false;
    const int patience = gives_way(state, t) ? OTHER_PATIENCE : PATIENCE;
    n->t = t;
    head->found.temperature = t;
    evaluate(n);
    for (int64_t taken = 0;; taken++) {
        if (last_stage) keep_best(n, &kept, taken);
        if (n->residual <= enough) {
            if (!last_stage || ota_measure(state) <= head->settings->stop.tolerance) return OTA_MET;
            if (++refused > REFUSALS) return OTA_SPENT;
            evaluate(n);
        }
        if (isnan(n->residual) || head->found.rounds >= n->most) return OTA_SPENT;
        if (taken >= most && !start_pays(n, alternate) && !lists_pay(n, &kept, taken))
            return OTA_SLOW;
        if (last_stage && kept.best < near_residual && taken > kept.marked + STALLED)
            return OTA_SPENT;
        *stopped = ota_coupled_tick(state, head->found.rounds, n->residual);
        if (*stopped != OTA_OK) return OTA_STOPPED;
        head->found.rounds++;
        if (taken % patience == patience - 1) {
            alternate = n->residual > 0.5 * marker;
            marker = n->residual;
        }
        if (alternate && gives_way(state, t)) return OTA_SLOW;
        if (alternate && taken % 2 == 0) {
            if (state->wide == NULL) ota_widen_scores(state);
            ota_newton_columns(state, t);
            drop_constant(state, head->g);
            evaluate(n);
        } else {
            step(n);
        }
    }
}

/* Falling temperatures. */
static ota_outcome cool(newton *n, ota_status *stopped) {
    const ota_head *head = n->state->head;
    ota_outcome outcome = OTA_MET;
    for (double t = head->scores.range / ota_reach_of_weights(n->state, false);
         t > head->tau && outcome == OTA_MET; t *= cooling) {
        outcome = iterate(n, t, stage_residual, STAGE_STEPS, stopped);
    }
    return outcome;
}

/* Potentials for entmax whose weights fall off within `reach` of the scores: those of softmax at a lower temperature, whose
 * weights do so within about the same. Leaves their residual. */
static void soften(newton *n, double reach, ota_status *stopped) {
    ota_coupled *state = n->state;
    const ota_head *head = state->head;
    const double t = reach / (1.0 + 2.5 * (head->row.order - 1.0));
    const ota_domain domain = state->pass.domain;
    state->pass.domain = OTA_DOMAIN_LOG;
    for (int round = 0; round < SOFT_ROUNDS && *stopped == OTA_OK; round++) {
        ota_row_pass(state, t, 1.0);
        n->residual = ota_column_residual(state);
        ota_update_columns(state, t, 1.0);
        if (!(n->residual > soft_residual)) break;
        *stopped = ota_coupled_tick(state, head->found.rounds, n->residual);
    }
    state->pass.domain = domain;
}

/* Steps on lists of the keys that may get weight, at falling temperatures where softmax says that the last one is low: the
 * interior point, which knows no temperature too low, is dear for many keys. Within entry caps few weights lie between 0 and their
 * caps: steps are shorter at first, and stages end nearer to their solutions. */
static ota_outcome run_on_lists(newton *n, ota_status *stopped) {
    ota_coupled *state = n->state;
    const ota_head *head = state->head;
    const bool capped = head->row.regulariser->capped;
    const bool large = state->pass.columns >= LARGE, dear = large || capped;
    const int64_t most = capped && large ? CAPPED_STEPS : dear ? LISTED_STEPS : DIRECT_STEPS;
    const double reach = ota_reach_of_weights(state, true);
    const double falls = capped ? capped_cooling : cooling;
    const double rough = capped ? capped_residual : rough_residual;
    double t = head->tau;
    state->semidual = &ota_listed_semidual;
    if (!head->warm) soften(n, t * reach, stopped);
    /* Scores that lie so far apart take many temperatures. */
    if (!large && head->scores.far.follows && state->interior.matrix != NULL &&
        n->residual > stage_residual)
        return *stopped == OTA_OK ? OTA_SLOW : OTA_STOPPED;
    if (dear && !head->warm && n->residual > stage_residual) {
        t = fmax(t, first_stage * head->scores.range / reach);
        soften(n, t * reach, stopped);
    } else if (capped && !head->warm) {
        /* A warm plan: few weights are at their caps. */
        soften(n, t * ota_reach_of_weights(state, false), stopped);
    }
    if (*stopped != OTA_OK) return OTA_STOPPED;
    drop_constant(state, head->g);
    const double least = capped && t > head->tau ? capped_shift : 0.0;
    for (; t > head->tau; t *= falls) {
        ota_row_lists_begin(state);
        n->shift = fmax(n->shift, least);
        const ota_outcome outcome = iterate(n, t, rough, most, stopped);
        if (outcome != OTA_MET) return outcome;
    }
    ota_row_lists_begin(state);
    n->shift = fmax(n->shift, least);
    return iterate(n, head->tau, head->settings->stop.tolerance, most, stopped);
}

static void begin_anew(newton *n) {
    double *g = n->state->head->g;
    for (int64_t j = 0; j < n->state->pass.columns; j++) g[j] = g[j] > -INFINITY ? 0.0 : -INFINITY;
    n->shift = first_shift;
}

ota_outcome ota_newton_run(ota_coupled *state, ota_status *stopped) {
    ota_head *head = state->head;
    const double tau = head->tau, enough = head->settings->stop.tolerance;
    if (!ota_coupled_search(state)) return OTA_HOPELESS;
    newton n = place(state);
    const bool capped = head->row.regulariser->capped;
    const bool listed = state->lists.keys != NULL;
    drop_constant(state, head->g);
    ota_outcome outcome = OTA_SLOW;
    if (listed) outcome = run_on_lists(&n, stopped);
    if (outcome == OTA_MET || outcome == OTA_STOPPED) return outcome;
    if (listed && head->scores.tried) return OTA_SPENT;
    if (listed && (state->interior.matrix != NULL || capped))
        state->semidual = &ota_stored_semidual;
    if (state->semidual == &ota_stored_semidual) ota_widen_scores(state);
    if (!listed) outcome = iterate(&n, tau, enough, DIRECT_STEPS, stopped);
    if (!listed && (outcome != OTA_SLOW || head->scores.far.follows)) return outcome;
    begin_anew(&n);
    if (state->interior.matrix != NULL && !ota_interior_run(state, state->wide, tau, stopped))
        return OTA_STOPPED;
    if (state->interior.matrix != NULL && capped) {
        outcome = iterate(&n, tau, enough, STAGE_STEPS, stopped);
        if (outcome == OTA_MET || outcome == OTA_STOPPED) return outcome;
        begin_anew(&n);
    }
    if (state->interior.matrix == NULL || capped) outcome = cool(&n, stopped);
    if (outcome == OTA_STOPPED || outcome == OTA_SPENT) return outcome;
    return iterate(&n, tau, enough, n.most, stopped);
}

/* ---- table row ------------------------------------------------------------------------------- */

unsigned ota_newton_needs(const ota_settings *s, const ota_regulariser_row *regulariser) {
    unsigned needs = OTA_NEEDS_NEWTON;
    if (s->ranks != NULL) return needs;
    if (regulariser->capped) needs |= OTA_NEEDS_FLOW;
    if (!regulariser->thresholded) return needs;
    return needs | OTA_NEEDS_LISTS | OTA_NEEDS_INTERIOR;
}

static ota_status solve(ota_head *head) {
    const unsigned needs = ota_newton_needs(head->settings, head->row.regulariser);
    return ota_coupled_solve(head, needs, false, ota_newton_run);
}

static size_t workspace(const ota_head_shape *shape) {
    const ota_resolved *r = shape->resolved;
    return ota_coupled_bytes(shape,
                             ota_newton_needs(&r->settings, ota_regulariser_of(&r->problem)));
}

const ota_solver ota_solver_newton = {
    .name = "newton",
    .purpose = "safeguarded Newton on the semi-dual, softmax and Tsallis",
    .refuses = ota_tolerance_only,
    .workspace = workspace,
    .solve = solve,
    .wide = true,
};
