/* Bounds of one softmax row, of the probe and of saturation: on random and extreme rows, attained where
 * they can be, and the printed forms that fail with their counterexamples. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis_random.h"
#include "groups.h"
#include "held_memory.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { MOST = 32 };

static const double u64 = 0x1p-53;

static void random_row(uint64_t *state, double scale, int size, double *z) {
    for (int i = 0; i < size; i++) z[i] = scale * normal(state);
}

static double distance(const double *p, const double *q, int size) {
    double l1 = 0.0;
    for (int i = 0; i < size; i++) l1 += fabs(p[i] - q[i]);
    return l1;
}

static void softmax_is_lipschitz(void **unused) {
    (void)unused;
    uint64_t state = 1;
    double printed = 0.0, sharp = 0.0;
    for (int draw = 0; draw < 2000; draw++) {
        const int size = whole(&state, 1, MOST);
        const double temperature = decade(&state, -1.0, 1.0);
        double z[MOST], w[MOST], p[MOST], q[MOST];
        random_row(&state, 2.0, size, z);
        random_row(&state, decade(&state, -3.0, 1.0), size, w);
        for (int i = 0; i < size; i++) w[i] += z[i];
        plain_softmax(z, size, temperature, p);
        plain_softmax(w, size, temperature, q);
        ota_lipschitz bound;
        assert_int_equal(ota_lipschitz_of(z, w, OTA_F64, size, temperature, &bound, NULL, NULL),
                         OTA_OK);
        spec_check("TOT-21", fabs(bound.l1 - distance(p, q, size)), 1e-14);
        spec_check("TOT-21", bound.l1, bound.printed * (1.0 + 1e-13));
        spec_check("DER-20", bound.l1, bound.sharp * (1.0 + 1e-13));
        spec_check("DER-20", bound.sharp, bound.printed * (1.0 + 1e-13));
        if (size > 1) {
            printed += bound.l1 / bound.printed / 2000.0;
            sharp += bound.l1 / bound.sharp / 2000.0;
            double least = (double)INFINITY, most = -(double)INFINITY;
            for (int i = 0; i < size; i++) {
                least = fmin(least, log(q[i] / p[i]));
                most = fmax(most, log(q[i] / p[i]));
            }
            if (most - least < 300.0) {
                spec_check("DER-20", fabs(bound.sharp - 2.0 * tanh((most - least) / 4.0)), 1e-12);
            }
        }
    }
    assert_true(sharp > printed);
}

static void jacobian_norm_equals_all_signs(void **unused) {
    (void)unused;
    uint64_t state = 2;
    for (int draw = 0; draw < 60; draw++) {
        const int size = whole(&state, 1, 10);
        double z[MOST], p[MOST], best = 0.0, lower, upper;
        random_row(&state, draw % 2 ? 3.0 : 0.5, size, z);
        plain_softmax(z, size, 1.0, p);
        for (int signs = 0; signs < 1 << size; signs++) {
            double mean = 0.0, l1 = 0.0;
            for (int i = 0; i < size; i++) mean += p[i] * (signs >> i & 1 ? 1.0 : -1.0);
            for (int i = 0; i < size; i++) l1 += p[i] * fabs((signs >> i & 1 ? 1.0 : -1.0) - mean);
            best = fmax(best, l1);
        }
        assert_int_equal(ota_jacobian_norm(p, size, &lower, &upper, NULL, NULL), OTA_OK);
        spec_check("TOT-22", fabs(lower - best) + (upper - lower), 1e-14);
        /* A sum that is 1 only nearly is divided out. */
        for (int i = 0; i < size; i++) p[i] *= 1.0 + 8e-7;
        assert_int_equal(ota_jacobian_norm(p, size, &lower, &upper, NULL, NULL), OTA_OK);
        spec_check("TOT-22", fabs(lower - best) + (upper - lower), 1e-13);
    }
    double z[MOST], p[MOST], lower, upper;
    random_row(&state, 0.3, MOST, z);
    plain_softmax(z, MOST, 1.0, p);
    ota_jacobian_norm(p, MOST, &lower, &upper, NULL, NULL);
    assert_true(lower <= upper && upper == 1.0 && lower > 0.9);
    /* A symbol of one half is the best subset alone, however the sums of many others round. */
    for (int others = 21; others < 61; others++) {
        double half[61];
        for (int i = 0; i < others; i++) half[i] = 0.5 / others;
        half[others] = 0.5;
        assert_int_equal(ota_jacobian_norm(half, others + 1, &lower, &upper, NULL, NULL), OTA_OK);
        spec_check("TOT-22", fabs(lower - 1.0) + (upper - lower), 1e-14);
    }
}

typedef struct drift {
    int size, width, layers;
    double w[MOST * 8], h[9][8], z[9][MOST], steps[8];
    ota_probe probe;
} drift;

static drift random_drift(uint64_t *state) {
    drift d = {
        .size = whole(state, 2, MOST), .width = whole(state, 1, 8), .layers = whole(state, 1, 8)};
    random_row(state, 1.0, d.size * d.width, d.w);
    const double step = decade(state, -3.0, 0.5);
    for (int l = 0; l <= d.layers; l++) {
        random_row(state, l == 0 ? 1.0 : step, d.width, d.h[l]);
        double squares = 0.0;
        for (int k = 0; k < d.width; k++) {
            squares += d.h[l][k] * d.h[l][k];
            if (l > 0) d.h[l][k] += d.h[l - 1][k];
        }
        if (l > 0) d.steps[l - 1] = sqrt(squares);
        for (int j = 0; j < d.size; j++) {
            d.z[l][j] = 0.0;
            for (int k = 0; k < d.width; k++) d.z[l][j] += d.w[j * d.width + k] * d.h[l][k];
        }
    }
    assert_int_equal(ota_probe_of(d.w, OTA_F64, d.size, d.width, &d.probe, NULL, NULL), OTA_OK);
    return d;
}

static void probe_bounds_hold(void **unused) {
    (void)unused;
    uint64_t state = 4;
    for (int draw = 0; draw < 1000; draw++) {
        const drift d = random_drift(&state);
        double norm = 0.0, diameter = 0.0;
        for (int j = 0; j < d.size; j++) {
            for (int k = 0; k < d.size; k++) {
                double own = 0.0, between = 0.0;
                for (int t = 0; t < d.width; t++) {
                    own += pow(d.w[j * d.width + t], 2.0);
                    between += pow(d.w[j * d.width + t] - d.w[k * d.width + t], 2.0);
                }
                norm = fmax(norm, sqrt(own));
                diameter = fmax(diameter, sqrt(between));
            }
        }
        spec_check("TOT-25", fabs(d.probe.norm - norm), 4.0 * u64 * norm);
        spec_check("DER-20", fabs(d.probe.diameter - diameter), 4.0 * u64 * diameter);
        assert_true(d.probe.diameter_exact);
        for (int l = 0; l < d.layers; l++) {
            ota_divergence change;
            double printed, sharp;
            ota_divergence_of_logits(d.z[l], d.z[l + 1], OTA_F64, d.size, 1.0, &change, NULL, NULL);
            assert_int_equal(
                ota_drift_bound(&d.probe, &d.steps[l], 1, &printed, &sharp, NULL, NULL), OTA_OK);
            spec_check("TOT-24", 2.0 * change.tv, printed * (1.0 + 1e-10));
            spec_check("DER-20", 2.0 * change.tv, sharp * (1.0 + 1e-10));
            spec_check("TOT-27", 2.0 * change.tv / (d.probe.norm * d.steps[l]), 1.0 + 1e-10);
        }
        ota_divergence whole_change;
        double printed, sharp, sum = 0.0;
        for (int l = 0; l < d.layers; l++) sum += d.steps[l];
        ota_divergence_of_logits(d.z[0], d.z[d.layers], OTA_F64, d.size, 1.0, &whole_change, NULL,
                                 NULL);
        ota_drift_bound(&d.probe, d.steps, d.layers, &printed, &sharp, NULL, NULL);
        spec_check("TOT-26", 2.0 * whole_change.tv, printed * (1.0 + 1e-10));
        spec_check("TOT-26", fabs(printed - fmin(2.0, norm * sum)), 1e-13);
        spec_check("DER-20", 2.0 * whole_change.tv, sharp * (1.0 + 1e-10));
    }
    /* A probe too large for all pairs: the diameter given is an upper bound, at most twice too large. */
    enum { LARGE = 3000 };
    static float w[2 * LARGE];
    double diameter = 0.0;
    for (int i = 0; i < 2 * LARGE; i++) w[i] = (float)normal(&state) + (i % 2 ? 30.0f : 0.0f);
    for (int j = 0; j < LARGE; j++) {
        for (int k = 0; k < j; k++) {
            diameter = fmax(diameter, hypot((double)w[2 * j] - (double)w[2 * k],
                                            (double)w[2 * j + 1] - (double)w[2 * k + 1]));
        }
    }
    ota_probe probe;
    ota_probe_of(w, OTA_F32, LARGE, 2, &probe, NULL, NULL);
    assert_false(probe.diameter_exact);
    spec_check("DER-20", diameter / probe.diameter, 1.0);
    spec_check("DER-20", probe.diameter / diameter, 2.0);
}

/* Errata E12: a step along the longest direction does not attain the bound, antipodal directions do. */
static void printed_tightness_needs_antipodes(void **unused) {
    (void)unused;
    const double antipodes[2] = {1.0, -1.0}, single[2] = {1.0, 0.0}, start[2] = {0.0, 0.0};
    const double step = 1e-5;
    for (int k = 0; k < 2; k++) {
        const double *const w = k == 0 ? antipodes : single, end[2] = {step * w[0], step * w[1]};
        ota_probe probe;
        ota_divergence change;
        double printed, sharp;
        ota_probe_of(w, OTA_F64, 2, 1, &probe, NULL, NULL);
        ota_divergence_of_logits(start, end, OTA_F64, 2, 1.0, &change, NULL, NULL);
        ota_drift_bound(&probe, &step, 1, &printed, &sharp, NULL, NULL);
        spec_check("DER-20", fabs(2.0 * change.tv / sharp - 1.0), 1e-9);
        spec_check("TOT-24", fabs(2.0 * change.tv / printed - (k == 0 ? 1.0 : 0.5)), 1e-9);
    }
}

static void saturation_bounds_hold(void **unused) {
    (void)unused;
    uint64_t state = 5;
    double always = 0.0, by_margin = 0.0, kept = 0.0, margin = 0.0, odds = 0.0, figures = 0.0;
    for (int draw = 0; draw < 20000; draw++) {
        const int size = whole(&state, 2, 12);
        const double temperature = decade(&state, -0.3, 0.3);
        double z[MOST], w[MOST];
        random_row(&state, 3.0, size, z);
        z[0] += 25.0 * uniform(&state);
        random_row(&state, decade(&state, -2.0, 1.5), size, w);
        const bool shrink = draw % 2 == 0;
        for (int i = 0; i < size; i++) {
            /* Every other draw, index 0 wins and no margin shrinks. */
            if (!shrink) w[i] = i == 0 ? 5.0 : 5.0 - fabs(w[i]);
            w[i] += z[i];
        }
        ota_saturation s;
        assert_int_equal(ota_saturation_of(z, w, OTA_F64, size, temperature, &s, NULL, NULL),
                         OTA_OK);
        keep_worst(&always, s.tv / s.bound);
        keep_worst(&by_margin, s.tail_after / s.tail_bound);
        if (!shrink && s.index == 0) {
            assert_true(s.margin_loss <= 1e-13);
            keep_worst(&kept, 2.0 * s.tv / s.printed);
        }
        double p[MOST];
        plain_softmax(z, size, temperature, p);
        double second = 0.0;
        for (int i = 0; i < size; i++) {
            if (i != s.index) second = fmax(second, p[i]);
        }
        /* Figure by figure: the same index after, the largest loss of a margin, and the odds it leaves. */
        double q[MOST], loss = 0.0;
        plain_softmax(w, size, temperature, q);
        int winner = 0;
        for (int i = 0; i < size; i++) {
            if (w[i] > w[winner]) winner = i;
            loss = fmax(loss, (z[s.index] - z[i]) - (w[s.index] - w[i]));
        }
        assert_true((s.kept != 0) == (winner == s.index));
        keep_worst(&figures, fabs(s.tail_before - (1.0 - p[s.index])));
        keep_worst(&figures, fabs(s.tail_after - (1.0 - q[s.index])));
        keep_worst(&figures, fabs(s.margin_loss - loss) / (1.0 + loss));
        keep_worst(&figures, fabs(s.bound - fmax(s.tail_before, s.tail_after)));
        keep_worst(&figures, fabs(s.printed - 2.0 * s.tail_before));
        const double grown = exp(fmin(loss / temperature, 600.0)) * s.tail_before;
        keep_worst(&figures, fabs(s.tail_bound - grown / (1.0 - s.tail_before + grown)));
        keep_worst(&figures, fabs(s.tv - 0.5 * distance(p, q, size)));
        const double here = s.margin / temperature;
        keep_worst(&margin, fabs(here - log(p[s.index] / second)) / (1.0 + here));
        keep_worst(&odds, (log((1.0 - s.tail_before) / s.tail_before) - here) / (1.0 + here));
    }
    spec_check("TOT-28", always, 1.0 + 1e-12);
    spec_check("TOT-28", by_margin, 1.0 + 1e-11);
    spec_check("TOT-28", kept, 1.0 + 1e-11);
    spec_check("TOT-28 TOT-29", figures, 1e-11);
    spec_check("TOT-30", margin, 1e-12);
    spec_check("TOT-30", odds, 1e-12);
}

static void a_lost_argmax_is_told(void **unused) {
    (void)unused;
    const double z[2] = {10.0, 0.0};
    ota_saturation s;
    /* ... and counted at the old index. */
    const double other[2] = {10.0, 11.0};
    ota_saturation_of(z, other, OTA_F64, 2, 1.0, &s, NULL, NULL);
    assert_true(s.kept == 0 && s.index == 0 && s.tail_after > 0.7);
}

/* Events planted in a row of layers: both tails small, and a change below the threshold. */
static void events_are_found_exactly(void **unused) {
    (void)unused;
    enum { LAYERS = 40, SIZE = 50 };
    static double z[LAYERS][SIZE];
    static const bool saturated[LAYERS] = {
        [7] = true, [8] = true, [9] = true, [20] = true, [21] = true, [30] = true};
    uint64_t state = 6;
    for (int l = 0; l < LAYERS; l++) {
        random_row(&state, 1.0, SIZE, z[l]);
        /* Layer 21 is sure of another symbol than layer 20. */
        if (saturated[l]) z[l][l == 21 ? 5 : 3] += 60.0;
    }
    for (int l = 0; l + 1 < LAYERS; l++) {
        ota_saturation s;
        ota_saturation_of(z[l], z[l + 1], OTA_F64, SIZE, 1.0, &s, NULL, NULL);
        const bool event = l == 7 || l == 8;
        spec_check_true("TOT-29", (ota_saturation_event(&s, 1e-4, 1e-10) == 1) == event);
        if (event) {
            spec_check_true("TOT-29", ota_saturation_event(&s, 1e-40, 1e-10) == 0);
            spec_check_true("TOT-29", ota_saturation_event(&s, 1e-4, 0.0) == 0);
        }
        /* Whatever the change, both sides must be sure of the symbol. */
        spec_check_true("TOT-29", (ota_saturation_event(&s, 1e-4, 2.0) == 1) == event);
        /* Errata E10: TV is at least the change of p_max. */
        spec_check("TOT-29", fabs(s.tail_after - s.tail_before) - s.tv, 1e-15);
    }
    /* The same symbol, but sure of it only before, or only after. */
    const double unsure[2] = {2.0, 0.0}, sure[2] = {40.0, 0.0};
    ota_saturation s;
    ota_saturation_of(unsure, sure, OTA_F64, 2, 1.0, &s, NULL, NULL);
    spec_check_true("TOT-29", ota_saturation_event(&s, 1e-4, 2.0) == 0);
    ota_saturation_of(sure, unsure, OTA_F64, 2, 1.0, &s, NULL, NULL);
    spec_check_true("TOT-29", ota_saturation_event(&s, 1e-4, 2.0) == 0);
}

static void range_limits_are_attained(void **unused) {
    (void)unused;
    for (int size = 2; size <= 20; size++) {
        const double range = 2.5, temperature = 0.7;
        ota_softmax_limits limits;
        ota_softmax_limits_of(size, range, temperature, &limits, NULL);
        for (int high = 1; high < size; high++) {
            double z[MOST], p[MOST];
            for (int i = 0; i < size; i++) z[i] = i < high ? range : 0.0;
            plain_softmax(z, size, temperature, p);
            spec_check("TOT-32", fabs(ota_two_level(size, high, range, temperature) - p[0]),
                       4 * u64);
            if (high == 1) {
                spec_check("TOT-31", fabs(limits.max_most - p[0]), 4.0 * u64);
                spec_check("TOT-31", fabs(limits.min_most - p[1]), 4.0 * u64);
            }
            if (high == size - 1) {
                spec_check("TOT-31", fabs(limits.max_least - p[0]), 4.0 * u64);
                spec_check("TOT-31", fabs(limits.min_least - p[high]), 4.0 * u64);
            }
        }
    }
    ota_softmax_limits limits;
    ota_softmax_limits_of(3, 1e6, 1.0, &limits, NULL);
    assert_true(limits.max_most == 1.0 && limits.min_least == 0.0 && limits.max_least == 0.5);
    assert_true(isnan(ota_two_level(3, 4, 1.0, 1.0)));
    spec_check("TOT-32", fabs(ota_two_level(5, 2, 1e6, 1.0) - 0.5), 0.0);
    spec_check("TOT-32", fabs(ota_two_level(5, 2, 0.5, 1.0) - 1.0 / (2.0 + 3.0 * exp(-0.5))),
               1e-15);
    spec_check("TOT-32", fabs(ota_two_level(5, 2, 0.0, 1.0) - 0.2), 1e-15);
}

static void entropy_and_uniformity_bounds_hold(void **unused) {
    (void)unused;
    uint64_t state = 8;
    double same = 0.0, formula = 0.0, entropy_excess = 0.0, excess[6] = {0.0};
    for (int draw = 0; draw < 5000; draw++) {
        const int size = whole(&state, 1, MOST);
        const double temperature = decade(&state, -0.3, 0.3);
        double z[MOST], p[MOST], entropy = 0.0, tv = 0.0, least = 1.0, most = 0.0;
        double top = -(double)INFINITY, bottom = (double)INFINITY;
        random_row(&state, decade(&state, -1.0, 1.0), size, z);
        plain_softmax(z, size, temperature, p);
        for (int i = 0; i < size; i++) {
            if (p[i] > 0.0) entropy -= p[i] * log(p[i]);
            tv += 0.5 * fabs(p[i] - 1.0 / size);
            least = fmin(least, p[i]);
            most = fmax(most, p[i]);
            top = fmax(top, z[i]);
            bottom = fmin(bottom, z[i]);
        }
        ota_uniformity u;
        assert_int_equal(ota_uniformity_of(z, OTA_F64, size, temperature, &u, NULL, NULL), OTA_OK);
        keep_worst(&same, fabs(u.entropy - entropy));
        keep_worst(&same, fabs(u.tv - tv));
        keep_worst(&same, fabs(u.by_least - (1.0 - size * least)));
        keep_worst(&entropy_excess, u.entropy - u.entropy_bound);
        /* Each bound by its formula: h of the leader and of the rest, which is one symbol at most where m is 2. */
        const double m = size, range = (top - bottom) / temperature;
        const double h = most < 1.0 ? -most * log(most) - (1.0 - most) * log(1.0 - most) : 0.0;
        const double spread = size > 1 ? (1.0 - most) * log(m - 1.0) : 0.0;
        keep_worst(&formula, fabs(u.entropy_bound - (h + spread)));
        keep_worst(&formula, fabs(u.by_range - (1.0 - m / (1.0 + (m - 1.0) * exp(range)))));
        keep_worst(&formula, fabs(u.by_least_sharp - (1.0 - 1.0 / m) * u.by_least));
        keep_worst(&formula, fabs(u.by_range_sharp - tanh(range / 4.0)));
        const double bounds[4] = {u.by_least, u.by_range, u.by_least_sharp, u.by_range_sharp};
        for (int k = 0; k < 4; k++) keep_worst(&excess[k], u.tv - bounds[k]);
        keep_worst(&excess[4], u.by_least - u.by_range);
        keep_worst(&excess[5], u.by_least_sharp - u.by_least);
    }
    spec_check("TOT-33 TOT-34", same, 1e-13);
    spec_check("TOT-33 TOT-34", formula, 1e-12);
    spec_check("TOT-33", entropy_excess, 1e-13);
    for (int k = 0; k < 6; k++) spec_check("TOT-34", excess[k], 1e-14);
}

static void saturated_rows_get_fewer_with_temperature(void **unused) {
    (void)unused;
    enum { ROWS = 200, COLUMNS = 20 };
    static float scores[ROWS * COLUMNS];
    static double copy[ROWS * COLUMNS];
    uint64_t state = 9;
    for (int i = 0; i < ROWS * COLUMNS; i++) copy[i] = scores[i] = (float)(20.0 * normal(&state));
    double before = 1.0, fraction = 1.0;
    for (double temperature = 0.5; temperature < 3.0; temperature *= 1.2) {
        assert_int_equal(ota_saturated_fraction(&(ota_matrix){scores, OTA_F32, ROWS, COLUMNS},
                                                temperature, 1e-4, &fraction, NULL, NULL),
                         OTA_OK);
        int count = 0;
        for (int i = 0; i < ROWS; i++) {
            double p[COLUMNS], most = 0.0;
            plain_softmax(copy + i * COLUMNS, COLUMNS, temperature, p);
            for (int j = 0; j < COLUMNS; j++) most = fmax(most, p[j]);
            count += most > 0.9999;
        }
        spec_check("TOT-35", fabs(fraction - (double)count / (double)ROWS), 1e-15);
        spec_check("TOT-35", fraction - before, 0.0);
        before = fraction;
    }
    assert_true(fraction > 0.0 && fraction < 0.9);
}

static void refusals(void **unused) {
    (void)unused;
    const double fine[2] = {0.5, 0.5}, nan2[2] = {(double)NAN, 1.0}, many[2] = {0.5, 0.6};
    double lower = -7.0, upper = -7.0;
    ota_lipschitz lipschitz;
    ota_saturation saturation;
    ota_uniformity uniformity;
    ota_softmax_limits limits;
    ota_probe probe = {.norm = 1.0};
    ota_error error;
    assert_int_equal(ota_lipschitz_of(fine, nan2, OTA_F64, 2, 1.0, &lipschitz, NULL, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "after");
    assert_int_equal(ota_jacobian_norm(many, 2, &lower, &upper, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "p");
    assert_int_equal(ota_probe_of(nan2, OTA_F64, 2, 1, &probe, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "directions");
    assert_int_equal(ota_probe_of(fine, OTA_F64, 2, 0, &probe, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_probe_of(fine, OTA_F64, INT64_MAX / 64 + 1, 8, &probe, NULL, NULL),
                     OTA_EOVERFLOW);
    assert_int_equal(ota_drift_bound(&probe, nan2, 2, &lower, &upper, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "steps");
    assert_int_equal(ota_saturation_of(nan2, fine, OTA_F64, 2, 1.0, &saturation, NULL, NULL),
                     OTA_EINVAL);
    assert_int_equal(ota_uniformity_of(fine, OTA_F64, 2, 0.0, &uniformity, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_softmax_limits_of(1, 1.0, 1.0, &limits, NULL), OTA_EINVAL);
    assert_int_equal(ota_softmax_limits_of(2, -1.0, 1.0, &limits, &error), OTA_EINVAL);
    assert_string_equal(error.field, "range");
    assert_int_equal(
        ota_saturated_fraction(&(ota_matrix){nan2, OTA_F64, 1, 2}, 1.0, 1e-4, &lower, NULL, NULL),
        OTA_EINVAL);
    assert_true(lower == -7.0 && upper == -7.0);
}

TEST_FILE(test_bounds) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_is_lipschitz),
        cmocka_unit_test(jacobian_norm_equals_all_signs),
        cmocka_unit_test(probe_bounds_hold),
        cmocka_unit_test(printed_tightness_needs_antipodes),
        cmocka_unit_test(saturation_bounds_hold),
        cmocka_unit_test(a_lost_argmax_is_told),
        cmocka_unit_test(events_are_found_exactly),
        cmocka_unit_test(range_limits_are_attained),
        cmocka_unit_test(entropy_and_uniformity_bounds_hold),
        cmocka_unit_test(saturated_rows_get_fewer_with_temperature),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
