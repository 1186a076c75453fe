/* Scores far below the others: numbers that stand for "forbidden", as the -1e9 of a mask, beside scores of ordinary size. The
 * floor of rounding takes the range R of all scores (numerics.md), so with them no tolerance is above it, although the pairs
 * carry nothing. With
 *
 *     r_i = max_j S_ij          taken off rows that lie more than `depth` below the highest row
 *     c_j = max_i (S_ij - r_i)  taken off keys that lie more than `depth` below all tops of rows and must be filled
 *     S'  = (S - c) - r,        -inf where it lies more than `depth` below its row's top
 *
 * R' is the range of what is left. Rows take a shift where f has no meaning of its own: exact rows without a sink. Relaxed rows are
 * left a part of the depth, at which they carry nothing, as what their f says. Keys must be
 * filled, however low all of their scores are, by exact columns, whose g has no meaning of its own either, and up to their
 * least sum by bounded ones. Those are left a part of the depth, so that they get nothing beyond it and g stays positive, which
 * is all that its size says. The differences are exact, as numbers near each other are subtracted, while S + g would lose the
 * digits of S at once. The plan of S' is the plan of S as long as no pair that was shut would get weight at the potentials of
 * S', which is looked at when they are known.
 *
 * A size that all scores have in common, beside which the potentials of rows hold no weights, is taken off every row, too.
 *
 * Exact columns of entropy need total support, and a mask of numbers leaves a plan where its boolean mask has none: with depth D
 * an unusable pair has weights of e^-D and its like, so that it is shut, too. Blocks of usable pairs are ordered (feasible.h):
 *
 *     f_i - K order_i,  g_j + K order_j        no usable pair's sum moves, K times its distance in blocks is taken off others
 *
 * and shut pairs of the mask come nearer by as much, which the look at them sees.
 *
 * Where some mass has no other place than such pairs, tops of rows and keys do not say which of them are used. Then the plan
 * without entropy of the scores as they are does, by the potentials F, G that prove it:
 *
 *     r_i = -F_i     c_j = -G_j, of capped and bounded columns only where |G_j| is far from 0
 *
 * and no pair that a best plan uses lies below 0 by more than a potential that was left. Within entry caps a pair far above 0 is at its
 * cap in every plan near the best, and as well where it lies lower. The potential of a sink is 0, so S' = S - c - sink for rows that
 * use it, and others are lifted as far above it as their weights on it are nothing for certain. Keys of capped and bounded columns
 * that were shifted are full, or at their least sum, in every plan near the best: that is asked of them as of exact ones, which
 * leaves their g free, and G_j + g_j must keep its sign. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coupled.h"
#include "matching/combinatorial.h"

/* Depth in units of the largest range that the tolerance allows; pairs above it stay, and so may the range of the rest. */
static const double depth_share = 0.25;
/* Of the depth: what keys of bounded columns are left of it, and how far potentials may come towards shut pairs. */
static const double left_share = 0.25, safe_share = 0.75;
/* Of the depth: what potentials of capped and bounded columns may be and stay what they are. */
static const double near_share = 1.0 / 16.0;
/* Of the depth: how far above their sink rows are lifted that leave it nothing, and how far above others pairs may lie that are at
 * their caps. */
static const double lift_share = 0.5, above_share = 0.75;
/* Nothing is shut. */
static const double no_depth = 0x1p1000;
/* How far above 0 pairs are for certain at their caps, in temperatures. */
static const double at_caps = 25.0;
/* Least depth in temperatures: e^-100 is nothing beside any tolerance. */
static const double least_depth = 400.0;
/* Temperatures that part numbers that forbid from scores for certain. */
static const double far_enough = 0x1p20;
/* Of a relaxed key or row whose pairs are all shut: sums of e^-500 of what is asked for. */
static const double least_fall = 1000.0;
/* What weights of heavy tails (orders below 1) may add up to at shut pairs, in units of the tolerance. */
static const double tail_share = 1.0 / 16.0;

static void put_score(const ota_head *head, int64_t i, int64_t j, double s) {
    if (head->scores.narrow)
        ((float *)head->scores.far.scores)[i * head->scores.stride + j] = (float)s;
    else
        ((double *)head->scores.far.scores)[i * head->scores.stride + j] = s;
}

static double get_score(const ota_head *head, int64_t i, int64_t j) {
    return head->scores.narrow
               ? (double)((const float *)head->scores.data)[i * head->scores.stride + j]
               : ((const double *)head->scores.data)[i * head->scores.stride + j];
}

/* The largest range of scores that the tolerance is twice the floor of. */
static double widest(const ota_head *head) {
    const double u = head->scores.narrow ? 0x1p-24 : 0x1p-53;
    return (head->settings->stop.tolerance / 2.0 - 8.0 * u) * 4.0 * head->tau / u;
}

/* Are weights this far below the potentials nothing? */
static bool is_deep(const ota_head *head, double depth) {
    const double fall = (1.0 - safe_share) * depth, order = head->row.order;
    if (head->row.regulariser->kind == OTA_CUSTOM || !(depth >= least_depth * head->tau))
        return false;
    if (ota_rule_is(ota_head_rule(head), OTA_RULE_PENALISED) &&
        !(fall >= least_fall * (head->tau + head->column.strength)))
        return false;
    if (head->row.strength < INFINITY && !(fall >= least_fall * (head->tau + head->row.strength)))
        return false;
    if (!head->row.regulariser->tsallis || order >= 1.0) return true;
    const double weight = pow((1.0 - order) * fall / head->tau, -1.0 / (1.0 - order));
    return weight * (double)head->all_rows * (double)head->columns <=
           tail_share * head->settings->stop.tolerance * head->mass;
}

/* What potentials of a plan without entropy need not reach. */
static double alignment_depth(const ota_head *head) {
    return fmin(depth_share * widest(head), far_enough * head->tau);
}

/* The smallest residual that the arithmetic of stored scores can be asked for at scores of that range or size (numerics.md). */
static double floor_at(const ota_head *head, double scores) {
    const double u = head->scores.narrow ? 0x1p-24 : 0x1p-53;
    return 8.0 * u + u * scores / (4.0 * head->tau);
}

/* Are all scores of a size that leaves potentials too few digits, which the rows' own may take off? Above order 2 weights next to 0
 * need the more of them (ota_edge_floor). */
static bool is_high(const ota_head *head) {
    const double depth = depth_share * widest(head), size = fabs(head->scores.highest);
    if (head->scores.far.scores == NULL || head->settings->stop.fixed ||
        head->row.sink > -INFINITY || head->row.strength < INFINITY || !isfinite(size) ||
        !(head->scores.range <= depth || is_deep(head, depth)))
        return false;
    const double floor = floor_at(head, size), order = head->row.order;
    if (head->settings->stop.tolerance < 2.0 * floor) return true;
    return head->row.regulariser->tsallis && order > 2.0 && size > head->scores.range &&
           head->settings->stop.tolerance < pow(floor, 1.0 / (order - 1.0));
}

/* r into row_shift, c into column_shift, and the highest r; false: the communicator failed. */
static bool find_tops(ota_head *head, double *highest) {
    double *r = head->scores.far.row_shift, *c = head->scores.far.column_shift;
    *highest = -INFINITY;
    for (int64_t j = 0; j < head->columns; j++) c[j] = -INFINITY;
    for (int64_t i = 0; i < head->rows; i++) {
        r[i] = head->row.sink;
        for (int64_t j = 0; j < head->columns; j++) {
            if (head->nu[j] > 0.0) r[i] = fmax(r[i], get_score(head, i, j));
        }
        if (!(head->mu[i] > 0.0) || !(r[i] > -INFINITY)) continue;
        *highest = fmax(*highest, r[i]);
        for (int64_t j = 0; j < head->columns; j++) c[j] = fmax(c[j], get_score(head, i, j) - r[i]);
    }
    const ota_settings *s = head->settings;
    return s->ranks == NULL || (ota_ranks_most(s, highest, 1, "the highest score") &&
                                ota_ranks_most(s, c, head->columns, "the tops of the keys"));
}

void ota_far_sink_near(ota_head *head) {
    const double sink = head->row.sink;
    double top = -INFINITY;
    if (head->scores.far.scores == NULL || head->settings->stop.fixed || !(sink > -INFINITY) ||
        !ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED))
        return;
    for (int64_t i = 0; i < head->rows; i++) {
        for (int64_t j = 0; j < head->columns && head->mu[i] > 0.0; j++) {
            if (head->nu[j] > 0.0) top = fmax(top, get_score(head, i, j));
        }
    }
    if (head->settings->ranks != NULL &&
        !ota_ranks_most(head->settings, &top, 1, "the highest score"))
        return;
    if (!(top > -INFINITY) || !(fabs(sink - top) > least_depth * head->tau)) return;
    head->row.sink = top;
    head->scores.far.sink = sink - top;
}

/* Would a row's own potential lose digits of scores beside the sink? Where some score may have a place, at least. */
static bool sink_is_far(const ota_head *head) {
    const double sink = head->row.sink;
    double ends[2] = {-INFINITY, -INFINITY};
    if (!(sink > -INFINITY) || head->settings->stop.fixed || !ota_is_smooth(head->row.regulariser))
        return false;
    for (int64_t i = 0; i < head->rows; i++) {
        for (int64_t j = 0; j < head->columns && head->mu[i] > 0.0; j++) {
            const double s = get_score(head, i, j);
            if (!(head->nu[j] > 0.0) || !(s > -INFINITY)) continue;
            ends[0] = fmax(ends[0], -s);
            ends[1] = fmax(ends[1], s);
        }
    }
    if (head->settings->ranks != NULL &&
        !ota_ranks_most(head->settings, ends, 2, "the range of the scores"))
        return false;
    const double apart = least_depth * head->tau;
    return ends[1] > -INFINITY && (sink > ends[1] + apart || sink < -ends[0] - apart);
}

/* S - c - r as if in one step: far numbers cancel in any order. */
static double shifted(double s, double c, double r) {
    const double a = s - c, back = s - a;
    const double lost = (s - (a + back)) + (back - c);
    const double d = a - r, again = a - d;
    return d + (lost + ((a - (d + again)) + (again - r)));
}

/* S' over S, and its range in rows and keys with mass over that of S. False: it is above what the tolerance allows. */
static bool shift(ota_head *head) {
    const ota_far *far = &head->scores.far;
    const bool lowered = !far->aligned && !ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED);
    const double left = lowered ? left_share * far->depth : 0.0;
    const double row_left = head->row.strength < INFINITY ? left_share * far->depth : 0.0;
    const double above =
        far->aligned && head->row.regulariser->capped ? above_share * far->depth : INFINITY;
    double ends[2] = {-INFINITY, -INFINITY}; /* -lowest, highest */
    for (int64_t i = 0; i < head->rows; i++) {
        const double r = far->row_shift[i], top = far->row_top[i];
        if (!(top > -INFINITY)) continue;
        for (int64_t j = 0; j < head->columns; j++) {
            const double c = far->column_shift[j];
            double s = get_score(head, i, j);
            if (!(s > -INFINITY)) continue;
            s = shifted(s, c, r) - (c < 0.0 ? left : 0.0) - (r < 0.0 ? row_left : 0.0);
            s = fmin(s, top + above);
            if (!(s >= top - far->depth)) s = -INFINITY;
            put_score(head, i, j, s);
            if (!(s > -INFINITY) || !(head->mu[i] > 0.0) || !(head->nu[j] > 0.0)) continue;
            ends[0] = fmax(ends[0], -s);
            ends[1] = fmax(ends[1], s);
        }
    }
    if (head->settings->ranks != NULL &&
        !ota_ranks_most(head->settings, ends, 2, "the range of the scores"))
        return false;
    ota_head_put_range(head, -ends[0], ends[1]);
    for (int64_t j = 0; j < head->columns && lowered; j++)
        far->column_shift[j] += far->column_shift[j] < 0.0 ? left : 0.0;
    for (int64_t i = 0; i < head->rows; i++)
        far->row_shift[i] += far->row_shift[i] < 0.0 ? row_left : 0.0;
    head->scores.far.shut = true;
    return head->scores.range <= widest(head);
}

/* Where the range of the scores, or their size, puts the floor of rounding above the tolerance: shuts pairs far below the others, and
 * takes rows and keys that lie far below nearer, and all rows nearer to 0. True: the range of what is left is within the tolerance. */
static bool shut(ota_head *head) {
    const ota_column_rule_row *rule = ota_head_rule(head);
    const bool relaxed = head->row.strength < INFINITY;
    const bool rows_free = !(head->row.sink > -INFINITY);
    const bool deep = is_deep(head, depth_share * widest(head));
    const double depth = deep ? depth_share * widest(head) : no_depth;
    const double left = relaxed ? left_share * depth : 0.0;
    const bool must_fill = ota_rule_is(rule, OTA_RULE_BALANCED) || head->column.floor > 0.0;
    const bool high = is_high(head);
    double highest;
    if (head->scores.far.scores == NULL || !(deep || high)) return false;
    if (!find_tops(head, &highest)) return false;
    const double level = high && highest > -INFINITY ? highest : 0.0;
    head->scores.far.depth = depth;
    for (int64_t i = 0; i < head->rows; i++) {
        const double r = head->scores.far.row_shift[i];
        const bool low = rows_free && r > -INFINITY && r < highest - depth;
        head->scores.far.row_shift[i] = (low ? r - highest : 0.0) + level;
        head->scores.far.row_top[i] = (low ? highest - left : r) - level;
    }
    for (int64_t j = 0; j < head->columns; j++) {
        const double c = head->scores.far.column_shift[j];
        const bool low = must_fill && c > -INFINITY && c < -depth && head->nu[j] > 0.0;
        head->scores.far.column_shift[j] = low ? c : 0.0;
    }
    return shift(head);
}

/* ---- by the potentials of a plan without entropy --------------------------------------------------- */

/* Keys whose bounds bind for certain become exact ones, and the others stay what they are. */
static void pin_keys(ota_head *head) {
    const ota_far *far = &head->scores.far;
    for (int64_t j = 0; j < head->columns; j++) {
        const double c = far->column_shift[j];
        const bool pinned = c < 0.0 || c > 0.0;
        far->asked[j] = head->nu[j] * (c < 0.0 ? head->column.floor : 1.0);
        far->floors[j] = pinned ? 1.0 : head->column.floor;
    }
    head->nu = far->asked;
    head->column.floors = far->floors;
    /* Bounded columns with a least sum of 0. */
    head->column.rule = OTA_COLUMNS_BOUNDED;
}

/* Rows whose sink takes as much as nothing are lifted far above it; the others keep it. */
static double row_shift_of(const ota_head *head, int64_t i) {
    const double sink = head->row.sink, best = -head->f[i], depth = head->scores.far.depth;
    if (!(sink > -INFINITY)) return best;
    return best - lift_share * depth > sink ? best - lift_share * depth : sink;
}

/* The sink of shifted rows; none where it takes nothing of any row. False: the communicator failed. */
static bool move_sink(ota_head *head) {
    ota_far *far = &head->scores.far;
    double kept = 0.0;
    far->rows_sink = head->row.sink;
    if (!(head->row.sink > -INFINITY)) return true;
    for (int64_t i = 0; i < head->rows; i++)
        if (head->mu[i] > 0.0 && !(far->row_shift[i] > far->rows_sink)) kept = 1.0;
    if (head->settings->ranks != NULL &&
        !ota_ranks_most(head->settings, &kept, 1, "rows beside their sink"))
        return false;
    head->row.sink = kept > 0.0 ? 0.0 : -INFINITY;
    return true;
}

static ota_status align(ota_head *head) {
    ota_far *far = &head->scores.far;
    const bool balanced = ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED);
    const double depth = alignment_depth(head);
    if (!is_deep(head, depth)) return OTA_TOL_UNREACHABLE;
    const ota_status found = ota_far_plan_find(head);
    if (found != OTA_OK) return found;
    far->depth = depth;
    far->aligned = true;
    for (int64_t j = 0; j < head->columns; j++)
        far->column_shift[j] =
            balanced || fabs(head->g[j]) > near_share * depth ? -head->g[j] : 0.0;
    for (int64_t i = 0; i < head->rows; i++) {
        const double r = row_shift_of(head, i), lift = -head->f[i] - r;
        double top = head->row.sink > -INFINITY && !(lift > 0.0) ? 0.0 : -INFINITY;
        far->row_shift[i] = r;
        for (int64_t j = 0; j < head->columns; j++) {
            if (head->nu[j] > 0.0)
                top = fmax(top, shifted(get_score(head, i, j), far->column_shift[j], r));
        }
        /* Pairs above are at their caps. */
        far->row_top[i] = head->row.regulariser->capped ? fmin(top, fmax(0.0, lift)) : top;
    }
    if (!move_sink(head)) return OTA_ECOMM;
    if (!shift(head)) return OTA_TOL_UNREACHABLE;
    if (!balanced) pin_keys(head);
    return OTA_OK;
}

bool ota_far_scores_part(ota_coupled *state) {
    ota_head *head = state->head;
    const int64_t width = state->pass.columns + 1;
    if (!head->scores.far.shut) return false;
    for (int64_t i = 0; i < state->pass.rows; i++) {
        for (int64_t j = 0; j < state->pass.columns && head->mu[i] > 0.0; j++) {
            if (state->usable[i * width + j] == 0) put_score(head, i, j, -INFINITY);
        }
    }
    state->pass.linear.formed = false;
    head->scores.far.parted = true;
    return true;
}

void ota_far_scores_set_apart(const ota_coupled *state) {
    ota_head *head = state->head;
    const int32_t *of_rows = state->order, *of_columns = of_rows + state->pass.rows;
    /* The block whose potential is 0: the sink's. */
    const int32_t base = of_columns[state->pass.columns];
    double row = 0.0, column = 0.0;
    for (int64_t i = 0; i < state->pass.rows; i++) {
        if (head->mu[i] > 0.0 && head->f[i] > -INFINITY)
            row = fmax(row, fabs(head->scores.far.row_top[i] + head->f[i]));
    }
    for (int64_t j = 0; j < state->pass.columns; j++) {
        if (isfinite(head->g[j])) column = fmax(column, fabs(head->g[j]));
    }
    const double apart = row + column + least_depth * head->tau;
    for (int64_t i = 0; i < state->pass.rows; i++) head->f[i] -= apart * (of_rows[i] - base);
    for (int64_t j = 0; j < state->pass.columns; j++) head->g[j] += apart * (of_columns[j] - base);
}

/* How far S' + f + g lies below 0 where it does most, of a row's pairs that lie above their caps by as much as they may. */
static double lowest_at_caps(const ota_head *head, int64_t i) {
    const double top = head->scores.far.row_top[i] + above_share * head->scores.far.depth;
    double most = -INFINITY;
    for (int64_t j = 0; j < head->columns; j++) {
        const double s = get_score(head, i, j);
        if (s >= top && head->nu[j] > 0.0 && head->g[j] > -INFINITY)
            most = fmax(most, -(s + head->f[i] + head->g[j]));
    }
    return most;
}

/* Would the pairs that were shut get no weight at f and g either, nor sinks of lifted rows, and pairs above their caps what
 * their caps allow? */
static bool shut_pairs_hold(const ota_head *head) {
    enum { ROWS, KEYS, SINKS, CAPS, ENDS };
    const ota_column_rule_row *rule = ota_head_rule(head);
    const ota_far *far = &head->scores.far;
    const bool sink = far->aligned && far->rows_sink > -INFINITY;
    const bool capped = far->aligned && head->row.regulariser->capped;
    double most[ENDS] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int64_t i = 0; i < head->rows; i++) {
        if (!(head->mu[i] > 0.0) || !(head->f[i] > -INFINITY)) continue;
        most[ROWS] = fmax(most[ROWS], far->row_top[i] + head->f[i]);
        if (sink && far->row_shift[i] > far->rows_sink) most[SINKS] = fmax(most[SINKS], head->f[i]);
        if (capped) most[CAPS] = fmax(most[CAPS], lowest_at_caps(head, i));
    }
    for (int64_t j = 0; j < head->columns; j++) {
        if (!(head->nu[j] > 0.0) || !isfinite(head->g[j])) continue;
        const double c = far->column_shift[j];
        const bool raised = c < 0.0 && !ota_rule_is(rule, OTA_RULE_BALANCED);
        if (far->aligned) {
            if (!ota_rule_is(rule, OTA_RULE_BALANCED) && (c > 0.0 || c < 0.0) &&
                fabs(head->g[j]) >= fabs(c))
                return false;
        } else if (raised && !(head->g[j] > 0.0) && head->column.floor < 1.0) {
            return false;
        }
        most[KEYS] = fmax(most[KEYS], head->g[j]);
    }
    if (head->settings->ranks != NULL &&
        !ota_ranks_most(head->settings, most, ENDS, "the potentials of the plan"))
        return false;
    const double rest = (1.0 - safe_share) * far->depth;
    /* What is at its cap stays there when its score grows to what it was. */
    return most[SINKS] < -rest && most[CAPS] < -at_caps * head->tau &&
           most[ROWS] + most[KEYS] < safe_share * far->depth;
}

/* ---- the solve ---------------------------------------------------------------------------------- */

/* g' to start from: that of the caller's g, or 0, in which no distance between scores is left. */
static void start(ota_head *head, const ota_far_call *call) {
    if (head->warm) call->start(call, head);
    for (int64_t j = 0; j < head->columns && !head->warm; j++) head->g[j] = 0.0;
    if (!head->warm) return;
    for (int64_t j = 0; j < head->columns; j++) {
        head->g[j] -= head->scores.far.sink;
        if (head->scores.far.shut) head->g[j] += head->scores.far.column_shift[j];
    }
}

static ota_status solve_shifted(ota_head *head, const ota_far_call *call) {
    const double *nu = head->nu;
    const ota_column_rule rule = head->column.rule;
    const double floor = head->column.floor;
    start(head, call);
    ota_status status = call->solve(head);
    if (status >= OTA_OK && head->scores.far.shut && !shut_pairs_hold(head)) {
        (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                           "they would get weight");
        status = OTA_TOL_UNREACHABLE;
    }
    head->nu = nu;
    head->column.rule = rule;
    head->column.floor = floor;
    head->column.floors = NULL;
    return status;
}

bool ota_far_scores_are_near(const ota_head *head) {
    return !ota_is_smooth(head->row.regulariser) || head->settings->stop.fixed ||
           (!is_high(head) &&
            head->settings->stop.tolerance >= 2.0 * floor_at(head, head->scores.range));
}

bool ota_far_scores_may_move(const ota_head *head) {
    return !ota_far_scores_are_near(head) ||
           (ota_is_smooth(head->row.regulariser) && !head->settings->stop.fixed &&
            head->scores.range > alignment_depth(head));
}

/* The scores as they were given, or false: the communicator failed. */
static bool begin_again(ota_head *head, const ota_far_call *call, double sink) {
    head->scores.far.shut = head->scores.far.parted = head->scores.far.aligned = false;
    head->row.sink = sink;
    return call->reload(call, head);
}

/* May another way find what the first one did not? */
static bool may_go_on(ota_status first) {
    return first == OTA_INFEASIBLE || first == OTA_TOL_UNREACHABLE || first == OTA_NOT_CONVERGED;
}

ota_status ota_far_scores_solve(ota_head *head, const ota_far_call *call) {
    const double tolerance = head->settings->stop.tolerance,
                 size = is_high(head) ? fabs(head->scores.highest) : 0.0,
                 least = 2.0 * floor_at(head, fmax(head->scores.range, size));
    const double sink = head->row.sink;
    char why[sizeof head->found.sentence / 2] = "";
    ota_status first = OTA_TOL_UNREACHABLE;
    const bool near = ota_far_scores_are_near(head);
    /* Every leading block of prefix columns is a head of its own. */
    const bool whole = ota_head_rule(head)->coupling != OTA_COUPLING_LEADING;
    const bool tried = near || !whole || shut(head);
    const char *cannot = ota_far_plan_cannot(head);
    if (tried) {
        head->scores.far.follows = near && whole && cannot == NULL &&
                                   head->row.regulariser->capped &&
                                   head->scores.range > alignment_depth(head);
        first = solve_shifted(head, call);
        head->scores.far.follows = false;
        if (!whole || !may_go_on(first)) return first;
        /* Where pairs forbidden by -inf leave no plan of positive weights there is none. */
        if (near && (first == OTA_INFEASIBLE ||
                     (!(head->scores.range > alignment_depth(head)) && !sink_is_far(head))))
            return first;
        (void)ota_snprintf(why, sizeof why, "%.*s", (int)sizeof why - 1, head->found.sentence);
    }
    ota_status aligned = OTA_TOL_UNREACHABLE;
    if (cannot != NULL && (near || first == OTA_NOT_CONVERGED)) return first;
    if (cannot == NULL) {
        if (!begin_again(head, call, sink)) return OTA_ECOMM;
        aligned = align(head);
        if (aligned == OTA_OK) aligned = solve_shifted(head, call);
        if (!may_go_on(aligned)) return aligned;
    }
    if (near || first == OTA_NOT_CONVERGED) { /* what it found may be asked for */
        if (!begin_again(head, call, sink)) return OTA_ECOMM;
        return near || shut(head) ? solve_shifted(head, call) : first;
    }
    const char *also = cannot == NULL || why[0] == '\0' ? "" : "; ";
    (void)ota_snprintf(head->found.sentence, sizeof head->found.sentence,
                       "head %" PRId64 ": tolerance %.3g is below %.3g, twice what %s arithmetic "
                       "reaches at this range of scores and temperature%s%s%s%s",
                       head->index, tolerance, least, head->scores.narrow ? "f32" : "f64",
                       tried ? "; without scores far below the others: " : "", why, also,
                       cannot != NULL ? cannot : "");
    return OTA_TOL_UNREACHABLE;
}
