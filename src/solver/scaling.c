/* Column updates in scalings (formulas in scaling.h). */
#include "solver/scaling.h"

#include <float.h>
#include <math.h>

#include "problem/marginal.h"

/* Scalings beyond these, 2^(lift/2), are absorbed: products of kernel, v and u keep their
 * significand wherever the weight itself is a normal number of the type. */
static const double bound[2] = {0x1p256, 0x1p32};
/* Sums below these have lost part of their terms to the end of the type's range. */
static const double least_sum[2] = {0x1p-500, 0x1p-60};

static double key_lambda(const ota_dense *head, int64_t j) {
    return head->lambdas != NULL ? head->lambdas[j] : head->lambda;
}

bool ota_scaling_begin(ota_scaling *s) {
    const ota_dense *head = s->head;
    const bool exact = head->rule == OTA_COLUMNS_EXACT, sink = head->sink > -INFINITY;
    double total = 0.0;
    for (int64_t j = 0; j < head->columns; j++) {
        const bool used = s->used == NULL || s->used[j] != 0;
        if (used || exact) total += head->nu[j];
        s->target[j] = !used && head->rule == OTA_COLUMNS_RELAXED ? 0.0 : head->nu[j];
    }
    if (!(head->mass > 0.0)) return false;
    if (exact && sink && !(total < head->mass)) return false;
    if (exact && !sink) {
        if (!(fabs(total - head->mass) <= head->mass_tolerance * head->mass) || !(total > 0.0))
            return false;
        for (int64_t j = 0; j < head->columns; j++) s->target[j] *= head->mass / total;
    }
    return !(head->rule == OTA_COLUMNS_CAPPED && !sink && total < head->mass);
}

ota_scaling_state ota_scaling_step(ota_scaling *s) {
    const ota_dense *head = s->head;
    const double t = head->tau, high = bound[head->narrow], low = 1.0 / high;
    ota_scaling_state state = OTA_SCALING_INSIDE;
    for (int64_t j = 0; j < head->columns; j++) {
        if ((s->used != NULL && s->used[j] == 0) || !(s->scaling[j] > 0.0)) continue;
        const ota_marginal step =
            ota_column_marginal(head->rule, t, head->strength, key_lambda(head, j));
        if (!(step.gain > 0.0)) continue;
        const double a = s->absorbed[j];
        if (!(s->sum[j] > least_sum[head->narrow])) return OTA_SCALING_LOST;
        double next = s->target[j] / s->sum[j];
        const bool plain = !(fabs(step.forget - 1.0) > 0.0) && !(fabs(step.gain - 1.0) > 0.0);
        if (plain && step.ceiling < INFINITY) next = fmin(next, exp((step.ceiling - a) / t));
        if (!plain) {
            const double g = a + t * log(s->scaling[j]);
            next = exp((ota_marginal_update(step, t, g, log(next) + a / t) - a) / t);
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
    const ota_dense *head = s->head;
    for (int64_t j = 0; j < head->columns; j++) {
        const double v = s->scaling[j];
        head->g[j] = v > 1.0 || v < 1.0 ? s->absorbed[j] + head->tau * log(v) : s->absorbed[j];
    }
}

void ota_scaling_absorb(ota_scaling *s) {
    const ota_dense *head = s->head;
    for (int64_t j = 0; j < head->columns; j++) {
        const double g = head->g[j];
        if (!(g > -INFINITY)) { /* closed: the scaling alone says so */
            s->scaling[j] = 0.0;
            s->absorbed[j] = 0.0;
            continue;
        }
        s->absorbed[j] = head->narrow ? (double)(float)g : g;
        s->scaling[j] = exp((g - s->absorbed[j]) / head->tau);
    }
}

void ota_scaling_measure(ota_scaling *s) {
    ota_dense *head = s->head;
    double error = 0.0;
    for (int64_t j = 0; j < head->columns; j++) {
        const double c = s->scaling[j] * s->sum[j], target = s->target[j];
        if (head->rule == OTA_COLUMNS_RELAXED) {
            error += target > 0.0 ? fabs(c - target * exp(-head->g[j] / head->strength)) : c;
        } else if (head->rule == OTA_COLUMNS_CAPPED) {
            error += fmax(0.0, c - target);
        } else {
            error += fabs(c - target);
        }
    }
    head->column_error = error / head->mass;
}
