/* Scores far below the others: numbers that stand for "forbidden", as the -1e9 of a mask, beside scores of ordinary size. The
 * floor of rounding takes the range R of all scores (numerics.md), so with them no tolerance is above it, although the pairs
 * carry nothing. With
 *
 *     r_i = max_j S_ij          taken off rows that lie more than `depth` below the highest row
 *     c_j = max_i (S_ij - r_i)  taken off keys that lie more than `depth` below all tops of rows and must be filled
 *     S'  = (S - c) - r,        -inf where it lies more than `depth` below its row's top
 *
 * R' is the range of what is left. Rows take a shift where f has no meaning of its own: exact rows without a sink. Keys must be
 * filled, however low all of their scores are, by exact columns, whose g has no meaning of its own either, and up to their
 * least sum by bounded ones. Those are left a part of the depth, so that they get nothing beyond it and g stays positive, which
 * is all that its size says. The differences are exact, as numbers near each other are subtracted, while S + g would lose the
 * digits of S at once. The plan of S' is the plan of S as long as no pair that was shut would get weight at the potentials of
 * S', which is looked at when they are known.
 *
 * Exact columns of entropy need total support, and a mask of numbers leaves a plan where its boolean mask has none: with depth D
 * an unusable pair has weights of e^-D and its like, so that it is shut, too. Blocks of usable pairs are ordered (feasible.h):
 *
 *     f_i - K order_i,  g_j + K order_j        no usable pair's sum moves, K times its distance in blocks is taken off others
 *
 * and shut pairs of the mask come nearer by as much, which the look at them sees. */
#include <math.h>

#include "coupled.h"

/* Depth in units of the largest range that the tolerance allows; pairs above it stay, and so may the range of the rest. */
static const double depth_share = 0.25;
/* Of the depth: what keys of bounded columns are left of it, and how far potentials may come towards shut pairs. */
static const double left_share = 0.25, safe_share = 0.75;
/* Least depth in temperatures: e^-100 is nothing beside any tolerance. */
static const double least_depth = 400.0;
/* Of a relaxed key whose pairs are all shut: sums of e^-500 of what is asked for. */
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
    if (!head->row.regulariser->tsallis || order >= 1.0) return true;
    const double weight = pow((1.0 - order) * fall / head->tau, -1.0 / (1.0 - order));
    return weight * (double)head->all_rows * (double)head->columns <=
           tail_share * head->settings->stop.tolerance * head->mass;
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

/* S' over S; low and high of what is left in rows and keys with mass. False: prefix columns, where a block of leading rows
 * loses a key, which would get none of its mass there. */
static bool shift(ota_head *head, double *low, double *high) {
    const double depth = head->scores.far.depth;
    const double left =
        ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED) ? 0.0 : left_share * depth;
    const bool leading = ota_head_rule(head)->coupling == OTA_COUPLING_LEADING;
    double *open = head->g; /* until a start is loaded */
    for (int64_t j = 0; j < head->columns; j++) open[j] = 0.0;
    for (int64_t i = 0; i < head->rows; i++) {
        const double r = head->scores.far.row_shift[i], top = head->scores.far.row_top[i];
        const int64_t last = leading ? head->columns - head->rows + i : head->columns;
        if (!(top > -INFINITY)) continue;
        for (int64_t j = 0; j < head->columns; j++) {
            const double c = head->scores.far.column_shift[j];
            double s = get_score(head, i, j);
            if (!(s > -INFINITY)) continue;
            s = (s - c) - r - (c < 0.0 ? left : 0.0);
            if (s >= top - depth)
                open[j] = 1.0;
            else if (leading && j <= last && !(open[j] > 0.0))
                return false;
            else
                s = -INFINITY;
            put_score(head, i, j, s);
            if (!(s > -INFINITY) || !(head->mu[i] > 0.0) || !(head->nu[j] > 0.0)) continue;
            *low = fmin(*low, s);
            *high = fmax(*high, s);
        }
    }
    return true;
}

bool ota_far_scores_shut(ota_head *head) {
    const ota_column_rule_row *rule = ota_head_rule(head);
    const bool rows_free = !(head->row.strength < INFINITY) && !(head->row.sink > -INFINITY);
    const double depth = depth_share * widest(head);
    const bool must_fill = ota_rule_is(rule, OTA_RULE_BALANCED) || head->column.floor > 0.0;
    double highest, ends[2] = {-INFINITY, -INFINITY};
    if (head->scores.far.scores == NULL || !is_deep(head, depth)) return false;
    if (!find_tops(head, &highest)) return false;
    head->scores.far.depth = depth;
    for (int64_t i = 0; i < head->rows; i++) {
        const double r = head->scores.far.row_shift[i];
        const bool low = rows_free && r > -INFINITY && r < highest - depth;
        head->scores.far.row_shift[i] = low ? r : 0.0;
        head->scores.far.row_top[i] = low ? 0.0 : r;
    }
    for (int64_t j = 0; j < head->columns; j++) {
        const double c = head->scores.far.column_shift[j];
        const bool low = must_fill && c > -INFINITY && c < -depth && head->nu[j] > 0.0;
        head->scores.far.column_shift[j] = low ? c : 0.0;
    }
    double low = INFINITY;
    if (!shift(head, &low, &ends[1])) return false;
    ends[0] = -low;
    if (head->settings->ranks != NULL &&
        !ota_ranks_most(head->settings, ends, 2, "the range of the scores"))
        return false;
    head->scores.range = ends[1] > -ends[0] ? ends[1] + ends[0] : 0.0;
    for (int64_t j = 0; j < head->columns && !ota_rule_is(rule, OTA_RULE_BALANCED); j++)
        head->scores.far.column_shift[j] +=
            head->scores.far.column_shift[j] < 0.0 ? left_share * depth : 0.0;
    head->scores.far.shut = true;
    return head->scores.range <= widest(head);
}

bool ota_far_scores_part(ota_coupled *state) {
    ota_head *head = state->head;
    const int64_t width = state->pass.columns + 1;
    if (!head->scores.far.shut || !ota_rule_is(ota_head_rule(head), OTA_RULE_BALANCED))
        return false;
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

bool ota_far_scores_hold(const ota_head *head) {
    const ota_column_rule_row *rule = ota_head_rule(head);
    double most[2] = {-INFINITY, -INFINITY};
    /* Every leading block of prefix columns has potentials of its own. */
    if (rule->coupling == OTA_COUPLING_LEADING)
        return head->scores.range * (double)head->rows < safe_share * head->scores.far.depth;
    for (int64_t i = 0; i < head->rows; i++) {
        if (head->mu[i] > 0.0 && head->f[i] > -INFINITY)
            most[0] = fmax(most[0], head->scores.far.row_top[i] + head->f[i]);
    }
    for (int64_t j = 0; j < head->columns; j++) {
        if (!(head->nu[j] > 0.0) || !isfinite(head->g[j])) continue;
        const bool raised =
            head->scores.far.column_shift[j] < 0.0 && !ota_rule_is(rule, OTA_RULE_BALANCED);
        if (raised && !(head->g[j] > 0.0) && head->column.floor < 1.0) return false;
        most[1] = fmax(most[1], head->g[j]);
    }
    if (head->settings->ranks != NULL &&
        !ota_ranks_most(head->settings, most, 2, "the potentials of the plan"))
        return false;
    return most[0] + most[1] < safe_share * head->scores.far.depth;
}
