/* Column updates in scalings (formulas in scaling.h). */
#include "scaling.h"

#include <float.h>
#include <math.h>

/* Scalings beyond these, 2^(lift/2), are absorbed: products of kernel, v and u keep their
 * significand wherever the weight itself is a normal number of the type. */
static const double bound[2] = {0x1p256, 0x1p32};
/* Sums below these have lost part of their terms to the end of the type's range. */
static const double least_sum[2] = {0x1p-500, 0x1p-60};

static ota_column_sums sums_of(const ota_scaling *s) {
    const ota_head *head = s->head;
    return (ota_column_sums){.count = head->columns,
                             .sum = s->sum,
                             .scaling = s->scaling,
                             .target = s->target,
                             .g = head->g,
                             .parameters = ota_head_parameters(head, 0)};
}

bool ota_scaling_begin(ota_scaling *s) {
    const ota_head *head = s->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    const bool balanced = ota_rule_is(rule, OTA_RULE_BALANCED), sink = head->row.sink > -INFINITY;
    double total = 0.0, least = 0.0;
    for (int64_t j = 0; j < head->columns; j++) {
        const bool used = s->used == NULL || s->used[j] == OTA_KEY_REACHED;
        /* A solve to a tolerance names such a key and refuses. */
        const bool shut = balanced && !used && !head->settings->stop.fixed;
        if (shut && head->nu[j] > head->row.mass_tolerance * head->mass) return false;
        if (!used && head->column.floor * head->nu[j] > head->row.mass_tolerance * head->mass)
            return false;
        least += used ? head->column.floor * head->nu[j] : 0.0;
        if (used || balanced) total += head->nu[j];
        s->target[j] = !used && ota_rule_is(rule, OTA_RULE_PENALISED) ? 0.0 : head->nu[j];
    }
    if (!(head->mass > 0.0)) return false;
    if (balanced && sink && !(total < head->mass)) return false;
    if (balanced && !sink) {
        if (!(fabs(total - head->mass) <= head->row.mass_tolerance * head->mass) || !(total > 0.0))
            return false;
        for (int64_t j = 0; j < head->columns; j++) s->target[j] *= head->mass / total;
    }
    if (ota_rule_is(rule, OTA_RULE_CAPACITY) && !sink && !ota_rule_is(rule, OTA_RULE_UNIT_MASSES)) {
        const ota_column_parameters key = ota_head_parameters(head, 0);
        const double balance =
            ota_column_balance(&key, total, head->mass, head->row.mass_tolerance);
        for (int64_t j = 0; j < head->columns; j++) s->target[j] *= balance;
        total *= balance;
        least *= balance;
    }
    const double rounding = 4.0 * DBL_EPSILON * (double)(head->all_rows + head->columns);
    if (least > head->mass * (1.0 + rounding)) return false;
    return !(ota_rule_is(rule, OTA_RULE_CAPACITY) && !sink &&
             total < head->mass * (ota_rule_is(rule, OTA_RULE_UNIT_MASSES) ? 1.0 : 1.0 - rounding));
}

ota_scaling_state ota_scaling_step(ota_scaling *s) {
    const ota_head *head = s->head;
    const double t = head->tau, high = bound[head->scores.narrow], low = 1.0 / high;
    ota_scaling_state state = OTA_SCALING_INSIDE;
    ota_column_step update = {0};
    bool divides = false;
    for (int64_t j = 0; j < head->columns; j++) {
        if (j == 0 || head->column.lambdas != NULL) {
            update = ota_head_step(head, j, t);
            divides = ota_column_step_divides(update);
        }
        if ((s->used != NULL && s->used[j] != OTA_KEY_REACHED) || !(s->scaling[j] > 0.0)) continue;
        if (!(update.step > 0.0)) continue;
        const double a = s->absorbed[j];
        if (!(s->sum[j] > least_sum[head->scores.narrow])) return OTA_SCALING_LOST;
        double next = s->target[j] / s->sum[j];
        if (divides && update.ceiling < INFINITY) {
            const double most = exp((update.ceiling - a) / t);
            const double least = update.floor * next;
            next = fmin(next, most);
            if (update.floor > 0.0) next = fmax(next, least);
        }
        if (!divides) {
            const double g = a + t * log(s->scaling[j]);
            next = exp((ota_column_next(update, t, g, log(next) + a / t) - a) / t);
        }
        s->scaling[j] = next;
        if (!(next <= high)) state = OTA_SCALING_OUTSIDE;
        /* Also a key that closes now: rows need a maximum over the keys that are left. */
        if (next < low) state = OTA_SCALING_OUTSIDE;
        if (isnan(next)) return OTA_SCALING_LOST;
    }
    return state;
}

void ota_scaling_potentials(ota_scaling *s) {
    const ota_head *head = s->head;
    const bool rests = ota_head_rule(head)->kink != NULL;
    for (int64_t j = 0; j < head->columns; j++) {
        const double v = s->scaling[j];
        const double a = s->absorbed[j];
        head->g[j] = v > 1.0 || v < 1.0 ? a + head->tau * log(v) : a;
        /* A key that rests has g = 0, whatever rounding its scaling went through. */
        if (rests && fabs(head->g[j]) <= 8.0 * DBL_EPSILON * fabs(a)) head->g[j] = 0.0;
    }
}

void ota_scaling_absorb(ota_scaling *s) {
    const ota_head *head = s->head;
    for (int64_t j = 0; j < head->columns; j++) {
        const double g = head->g[j];
        if (!(g > -INFINITY)) { /* closed: the scaling alone says so */
            s->scaling[j] = 0.0;
            s->absorbed[j] = 0.0;
            continue;
        }
        s->absorbed[j] = head->scores.narrow ? (double)(float)g : g;
        s->scaling[j] = exp((g - s->absorbed[j]) / head->tau);
    }
}

ota_scaling_state ota_scaling_restore(ota_scaling *s) {
    const ota_head *head = s->head;
    const double high = bound[head->scores.narrow];
    ota_scaling_state state = OTA_SCALING_INSIDE;
    for (int64_t j = 0; j < head->columns; j++) {
        if (!(s->scaling[j] > 0.0)) continue;
        s->scaling[j] = exp((head->g[j] - s->absorbed[j]) / head->tau);
        if (!(s->scaling[j] <= high && s->scaling[j] * high >= 1.0)) state = OTA_SCALING_OUTSIDE;
    }
    return state;
}

void ota_scaling_measure(ota_scaling *s) {
    ota_head *head = s->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    const ota_column_sums columns = sums_of(s);
    const double error = rule->excess != NULL ? rule->excess(&columns) : rule->residual(&columns);
    head->found.column_error = error / head->mass;
}

double ota_scaling_residual(ota_scaling *s) {
    const ota_head *head = s->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    if (!ota_rule_is(rule, OTA_RULE_EQUALITY)) ota_scaling_potentials(s);
    const ota_column_sums columns = sums_of(s);
    return rule->residual(&columns) / head->mass;
}

double ota_scaling_constant(ota_scaling *s) {
    const ota_head *head = s->head;
    const ota_column_rule_row *rule = ota_head_rule(head);
    /* With a sink the constant moves weight between the sink and the keys: no closed form. */
    if (!ota_rule_is(rule, OTA_RULE_PENALISED) || head->row.sink > -INFINITY) return 1.0;
    double reached = 0.0, wanted = 0.0;
    ota_scaling_potentials(s);
    for (int64_t j = 0; j < head->columns; j++) {
        if (!(s->target[j] > 0.0) || !(s->scaling[j] > 0.0)) continue;
        reached += s->scaling[j] * s->sum[j];
        wanted += rule->wanted(s->target[j], head->g[j], head->column.strength);
    }
    /* Part of the way, where scalings and their products with the kernel could not hold all of it. */
    const double high = bound[head->scores.narrow], most = high * high;
    const double factor = fmin(
        fmax(exp(log(wanted / reached) * head->column.strength / head->tau), 1.0 / most), most);
    if (!isfinite(wanted / reached) || !(wanted / reached > 0.0)) return 1.0;
    for (int64_t j = 0; j < head->columns; j++) {
        s->scaling[j] *= factor;
        s->sum[j] /= factor;
    }
    return factor;
}
