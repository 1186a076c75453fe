/* What rounding alone leaves of a residual, however long a solve goes on. */
#include "coupled.h"

#include <float.h>

/* Above that the jumps of all columns would take seconds, for a sentence. */
enum { MOST_PAIRS = 1 << 18 };

double ota_carried_mass(const ota_coupled *state) {
    const ota_head *head = state->head;
    double carried = 0.0;
    for (int64_t i = 0; i < state->pass.rows && head->row.strength < INFINITY; i++) {
        if (head->mu[i] > 0.0 && head->f[i] > -INFINITY)
            carried += head->mu[i] * exp(-head->f[i] / head->row.strength);
    }
    if (head->row.strength < INFINITY)
        (void)ota_ranks_sum(head->settings, &carried, 1, NULL, 0, "the mass that the plan carries");
    return carried;
}

double ota_carried_floor(const ota_coupled *state, double *carried) {
    const ota_head *head = state->head;
    const double u = state->pass.narrow ? 0x1p-24 : 0x1p-53;
    *carried = ota_carried_mass(state) / head->mass;
    return *carried * (8.0 * u + u * head->scores.range / (4.0 * head->tau));
}

/* The sum of a column at g, for the potentials that the rows have, less what is asked of it. */
static double miss_at(const ota_coupled *state, int64_t j, double g) {
    const ota_head *head = state->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    const double unit = (head->row.order - 1.0) / head->tau, power = 1.0 / (head->row.order - 1.0);
    const double target = state->pass.target[j];
    double sum = 0.0;
    for (int64_t i = 0; i < state->pass.rows; i++) {
        if (!(head->mu[i] > 0.0)) continue;
        const double x = unit * ((ota_score(&state->pass, i, j) + g) + head->f[i]);
        const double p = x > 0.0 ? pow(x, power) : 0.0;
        sum += head->row.regulariser->capped ? fmin(p, ota_entry_cap(&head->row.caps, i, j)) : p;
    }
    return sum - (rule->wanted != NULL ? rule->wanted(target, g, head->column.strength) : target);
}

/* How far apart the sums of a column lie at the two neighbouring doubles g between which they pass what is asked of it. */
static double jump_of(const ota_coupled *state, int64_t j) {
    const double g = state->head->g[j], miss = miss_at(state, j, g);
    const int far = miss > 0.0 ? 0 : 1;
    double ends[2] = {g, g}, misses[2] = {miss, miss};
    for (double move = fmax(fabs(g), DBL_MIN) * DBL_EPSILON; isfinite(ends[far]); move *= 2.0) {
        ends[far] = far == 0 ? g - move : g + move;
        misses[far] = miss_at(state, j, ends[far]);
        if ((misses[far] > 0.0) == (far == 1)) break;
        ends[1 - far] = ends[far];
        misses[1 - far] = misses[far];
    }
    if (!isfinite(ends[far])) return 0.0; /* no potential gives what is asked of it */
    for (;;) {
        const double middle = ends[0] + (ends[1] - ends[0]) / 2.0;
        if (!(middle > ends[0] && middle < ends[1])) return misses[1] - misses[0];
        const double between = miss_at(state, j, middle);
        const int end = between > 0.0 ? 1 : 0;
        ends[end] = middle;
        misses[end] = between;
    }
}

double ota_edge_floor(const ota_coupled *state) {
    const ota_head *head = state->head;
    if (!head->row.regulariser->tsallis || !(head->row.order > 2.0)) return 0.0;
    /* Sums of many processes are not at hand, and a key at a kink need not meet its sum. */
    if (head->settings->ranks != NULL || ota_head_rule(head)->kink != NULL) return 0.0;
    if (state->pass.rows * state->pass.columns > MOST_PAIRS) return 0.0;
    double jumps = 0.0;
    ota_watch watch = ota_watch_of(head->settings);
    /* Some fifty sums of a column. */
    for (int64_t j = 0; j < state->pass.columns && !ota_watch_ends(&watch, 50 * state->pass.rows);
         j++) {
        if (state->pass.target[j] > 0.0 && head->g[j] > -INFINITY) jumps += jump_of(state, j);
    }
    return jumps / 2.0 / head->mass;
}
