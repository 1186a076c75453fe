/* Divergences, drift of logits and states, ranks: against definitions in long double, exact transport and
 * tails of known size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
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

enum { MOST = 64, VOCABULARY = 50257 };

static const double u64 = 0x1p-53;

static double relative(double value, long double wanted) {
    return (double)(fabsl(value - wanted) / fmaxl(fabsl(wanted), 1e-300L));
}

typedef struct plain {
    long double tv, kl, kl_reverse, js, entropy_before, entropy_after, affinity;
} plain;

static plain plain_divergence(const long double *b, const long double *a, int size) {
    plain d = {0};
    for (int i = 0; i < size; i++) {
        const long double m = 0.5L * (a[i] + b[i]);
        d.tv += 0.5L * fabsl(a[i] - b[i]);
        d.affinity += sqrtl(a[i] * b[i]);
        if (a[i] > 0) {
            d.kl += a[i] * logl(a[i] / b[i]);
            d.js += 0.5L * a[i] * logl(a[i] / m);
            d.entropy_after -= a[i] * logl(a[i]);
        }
        if (b[i] > 0) {
            d.kl_reverse += b[i] * logl(b[i] / a[i]);
            d.js += 0.5L * b[i] * logl(b[i] / m);
            d.entropy_before -= b[i] * logl(b[i]);
        }
    }
    return d;
}

static void long_softmax(const double *z, int size, double temperature, long double *p) {
    long double total = 0.0L;
    for (int i = 0; i < size; i++) total += p[i] = expl((long double)z[i] / temperature);
    for (int i = 0; i < size; i++) p[i] /= total;
}

/* slack: what the distributions leave open, which sum to 1 only to rounding, or the long double. */
static double beyond(double value, long double wanted, double slack) {
    return (double)(fmaxl(fabsl(value - wanted) - slack, 0.0L) / wanted);
}

static void compare(const plain *wanted, const ota_divergence *got, double tolerance,
                    double slack) {
    spec_check("TOT-71", beyond(got->tv, wanted->tv, slack), tolerance);
    spec_check_true("TOT-72", memcmp(&got->tv, &got->w1, sizeof got->tv) == 0);
    spec_check("TOT-73", beyond(got->kl, wanted->kl, slack), tolerance);
    spec_check("TOT-73", beyond(got->kl_reverse, wanted->kl_reverse, slack), tolerance);
    spec_check("TOT-74", beyond(got->js, wanted->js, slack), tolerance);
    spec_check(
        "TOT-75",
        (double)fabsl(got->entropy_change - (wanted->entropy_after - wanted->entropy_before)),
        1e-13);
    /* 1 - cos(d/2) = 1 - sum sqrt(ab) */
    const long double sine = sinl(0.25L * got->fisher_rao), distance = 1.0L - wanted->affinity;
    spec_check("LIT-31", beyond((double)(2.0L * sine * sine), distance, slack), tolerance);
    spec_check("LIT-31", beyond(got->hellinger * got->hellinger, distance, slack), tolerance);
}

static void divergences_equal_their_definitions(void **unused) {
    (void)unused;
    uint64_t state = 1;
    for (int draw = 0; draw < 500; draw++) {
        const int size = whole(&state, 2, MOST);
        const double temperature = decade(&state, -0.5, 0.5), step = decade(&state, -1.5, 1.0);
        double z[MOST], w[MOST], p[MOST], q[MOST];
        long double b[MOST], a[MOST];
        for (int i = 0; i < size; i++) {
            z[i] = 3.0 * normal(&state);
            w[i] = z[i] + step * normal(&state) + 7.0;
        }
        long_softmax(z, size, temperature, b);
        long_softmax(w, size, temperature, a);
        plain wanted = plain_divergence(b, a, size);
        ota_divergence got;
        assert_int_equal(
            ota_divergence_of_logits(z, w, OTA_F64, size, temperature, &got, NULL, NULL), OTA_OK);
        compare(&wanted, &got, 1e-12, 32.0 * 0x1p-64);
        for (int i = 0; i < size; i++) {
            p[i] = (double)b[i];
            q[i] = (double)a[i];
            b[i] = p[i];
            a[i] = q[i];
        }
        wanted = plain_divergence(b, a, size);
        assert_int_equal(ota_divergence_of(p, q, size, &got, NULL, NULL), OTA_OK);
        compare(&wanted, &got, 1e-12, 8.0 * u64);
        float x[MOST], y[MOST];
        for (int i = 0; i < size; i++) {
            z[i] = x[i] = (float)z[i];
            w[i] = y[i] = (float)w[i];
        }
        ota_divergence single, twice;
        ota_divergence_of_logits(x, y, OTA_F32, size, temperature, &single, NULL, NULL);
        ota_divergence_of_logits(z, w, OTA_F64, size, temperature, &twice, NULL, NULL);
        assert_memory_equal(&single, &twice, sizeof single);
    }
}

/* Both distributions sit on one symbol; the tails are summed alone, in long double. */
static void tails_keep_their_digits(void **unused) {
    (void)unused;
    uint64_t state = 2;
    for (int draw = 0; draw < 300; draw++) {
        enum { SIZE = 12 };
        double z[SIZE], w[SIZE];
        const double height = 10.0 + 90.0 * uniform(&state), step = decade(&state, -3.0, 0.5);
        for (int i = 0; i < SIZE; i++) {
            z[i] = normal(&state);
            w[i] = z[i] + step * normal(&state);
        }
        z[4] += height;
        w[4] += height + step * normal(&state);
        long double before[SIZE], after[SIZE], rest_before = 0.0L, rest_after = 0.0L;
        for (int i = 0; i < SIZE; i++) {
            before[i] = expl((long double)z[i] - z[4]);
            after[i] = expl((long double)w[i] - w[4]);
            if (i != 4) rest_before += before[i], rest_after += after[i];
        }
        long double up = 0.0L, down = 0.0L;
        for (int i = 0; i < SIZE; i++) {
            const long double d = after[i] / (1 + rest_after) - before[i] / (1 + rest_before);
            if (i != 4) *(d > 0 ? &up : &down) += fabsl(d);
        }
        ota_divergence got;
        ota_divergence_of_logits(z, w, OTA_F64, SIZE, 1.0, &got, NULL, NULL);
        /* The shift of rounding of the logits themselves: u64 * height / step. */
        spec_check("TOT-109 TOT-71", relative(got.tv, fmaxl(up, down)),
                   1e-12 + 8.0 * u64 * height / step);
        assert_true(got.kl >= 0.0 && got.js >= 0.0);
        ota_tail tail;
        assert_int_equal(ota_tail_of(z, OTA_F64, SIZE, 1.0, &tail, NULL, NULL), OTA_OK);
        spec_check("TOT-110", relative(tail.mass, rest_before / (1 + rest_before)), 1e-12);
        spec_check("TOT-110", relative(tail.log_mass, logl(rest_before) - log1pl(rest_before)),
                   1e-14);
        assert_int_equal(tail.index, 4);
    }
    /* 1 - p_max = 1e-30, and what the definition makes of it. */
    const double z[2] = {log(1e30), 0.0}, w[2] = {log(3e30), 0.0};
    ota_divergence got;
    ota_tail tail;
    ota_divergence_of_logits(z, w, OTA_F64, 2, 1.0, &got, NULL, NULL);
    ota_tail_of(z, OTA_F64, 2, 1.0, &tail, NULL, NULL);
    /* log(1e30) is known to u64 * 69. */
    spec_check("TOT-110", fabs(tail.mass / 1e-30 - 1.0), 70.0 * u64);
    spec_check("TOT-109", fabs(got.tv / (1e-30 * 2.0 / 3.0) - 1.0), 1e-12);
    double p[2], q[2];
    plain_softmax(z, 2, 1.0, p);
    plain_softmax(w, 2, 1.0, q);
    assert_true(fabs(p[0] - q[0]) == 0.0);
    /* The same as given distributions: what the leader's difference loses, the others hold. */
    const double before[3] = {3e-30, 1.0, 1e-30}, after[3] = {1e-30, 1.0, 2e-30};
    assert_int_equal(ota_divergence_of(before, after, 3, &got, NULL, NULL), OTA_OK);
    spec_check("TOT-109 TOT-71", fabs(got.tv / 2e-30 - 1.0), 1e-15);
    const double far[2] = {2000.0, 0.0};
    ota_tail_of(far, OTA_F64, 2, 1.0, &tail, NULL, NULL);
    assert_true(tail.mass == 0.0);
    spec_check("TOT-110", fabs(tail.log_mass + 2000.0), 0.0);
}

/* Changes of 1e-9: to first order TV = E|x|/2 and KL = Var(dz)/2. */
static void small_steps_keep_their_digits(void **unused) {
    (void)unused;
    uint64_t state = 3;
    for (int draw = 0; draw < 200; draw++) {
        enum { SIZE = 20 };
        double z[SIZE], w[SIZE], p[SIZE];
        const double step = decade(&state, -10.0, -6.0);
        for (int i = 0; i < SIZE; i++) {
            z[i] = 2.0 * normal(&state);
            w[i] = z[i] + step * normal(&state);
        }
        plain_softmax(z, SIZE, 1.0, p);
        long double mean = 0.0L, variance = 0.0L, absolute = 0.0L;
        for (int i = 0; i < SIZE; i++) mean += p[i] * ((long double)w[i] - z[i]);
        for (int i = 0; i < SIZE; i++) {
            const long double d = (long double)w[i] - z[i] - mean;
            variance += p[i] * d * d;
            absolute += p[i] * fabsl(d);
        }
        ota_divergence got;
        ota_divergence_of_logits(z, w, OTA_F64, SIZE, 1.0, &got, NULL, NULL);
        /* The next order is of relative size step. */
        spec_check("TOT-71", relative(got.tv, 0.5L * absolute), 10.0 * step + 1e-14);
        spec_check("TOT-73", relative(got.kl, 0.5L * variance), 10.0 * step + 1e-14);
        spec_check("TOT-74", relative(got.js, 0.125L * variance), 10.0 * step + 1e-14);
        spec_check("LIT-31", relative(got.fisher_rao * got.fisher_rao, variance),
                   10.0 * step + 1e-14);
    }
}

/* distance^2 = ds^T F ds for small steps, whatever the temperature. */
static void geodesic_distance_is_the_fisher_metric(void **unused) {
    (void)unused;
    uint64_t state = 4;
    const double temperatures[] = {0.5, 1.0, 3.0};
    for (int t = 0; t < 3; t++) {
        enum { SIZE = 7 };
        double s[SIZE], moved[SIZE], step[SIZE], p[SIZE], product[SIZE], metric = 0.0;
        for (int i = 0; i < SIZE; i++) {
            s[i] = normal(&state);
            step[i] = 1e-4 * normal(&state);
            moved[i] = s[i] + step[i];
        }
        plain_softmax(s, SIZE, temperatures[t], p);
        ota_fisher_product(p, step, SIZE, temperatures[t], product, NULL, NULL);
        for (int i = 0; i < SIZE; i++) metric += step[i] * product[i];
        ota_divergence got;
        ota_divergence_of_logits(s, moved, OTA_F64, SIZE, temperatures[t], &got, NULL, NULL);
        spec_check("LIT-31", fabs(got.fisher_rao * got.fisher_rao / metric - 1.0), 1e-3);
    }
    const double one[2] = {1.0, 0.0}, other[2] = {0.0, 1.0};
    ota_divergence got;
    ota_divergence_of(one, other, 2, &got, NULL, NULL);
    spec_check("LIT-31", fabs(got.fisher_rao - acos(-1.0)), 4.0 * u64);
    assert_true(got.tv == 1.0 && isinf(got.kl) && isinf(got.kl_reverse));
    spec_check("TOT-74", fabs(got.js - log(2.0)), u64);
}

static void logit_and_state_figures(void **unused) {
    (void)unused;
    const double z[4] = {1.0, 2.0, 3.0, 6.0}, w[4] = {2.0, 1.0, 5.0, 8.0};
    ota_logit_change change;
    assert_int_equal(ota_logit_change_of(z, w, OTA_F64, 4, &change, NULL, NULL), OTA_OK);
    spec_check("TOT-81", fabs(change.max_change - 2.0), 0.0);
    spec_check("TOT-81", fabs(change.range_half - 1.5), 0.0);
    /* z - 3 = (-2,-1,0,3), w - 4 = (-2,-3,1,4): sums of squares 14, 30, product 19. */
    spec_check("TOT-82", fabs(change.correlation - 19.0 / sqrt(420.0)), 4.0 * u64);
    spec_check("TOT-83", fabs(change.effective_temperature - 1.0 / sqrt(3.5)), 4.0 * u64);
    ota_state_change states;
    const double h[3] = {3.0, 0.0, 4.0}, g[3] = {3.0, 12.0, 4.0};
    assert_int_equal(ota_state_change_of(h, g, OTA_F64, 3, &states, NULL, NULL), OTA_OK);
    spec_check("TOT-78", fabs(states.relative_l2 - 12.0 / 5.0), 4.0 * u64);
    spec_check("TOT-78", fabs(states.norm_change - 12.0), 0.0);
    spec_check("TOT-79", fabs(states.cosine - 25.0 / 65.0), 2.0 * u64);
    spec_check("TOT-80", fabs(states.max_coordinate_change - 12.0), 0.0);
    const double flat[3] = {0.1, 0.1, 0.1}, slope[3] = {0.1, 0.2, 0.4};
    assert_int_equal(ota_logit_change_of(flat, slope, OTA_F64, 3, &change, NULL, NULL), OTA_OK);
    assert_true(isnan(change.correlation) && isinf(change.effective_temperature));
    uint64_t state = 7;
    for (int draw = 0; draw < 200; draw++) {
        enum { SIZE = 50 };
        double x[SIZE], y[SIZE];
        const double scale = decade(&state, -100.0, 100.0);
        for (int i = 0; i < SIZE; i++) {
            x[i] = normal(&state);
            y[i] = x[i] + normal(&state);
        }
        ota_state_change before, after;
        ota_state_change_of(x, y, OTA_F64, SIZE, &before, NULL, NULL);
        for (int i = 0; i < SIZE; i++) y[i] *= scale;
        ota_state_change_of(x, y, OTA_F64, SIZE, &after, NULL, NULL);
        spec_check("TOT-79", fabs(before.cosine - after.cosine), 1e-14);
        spec_check("TOT-79", fabs(after.cosine), 1.0);
    }
}

static int position(const double *x, int size, int i) {
    int before = 0;
    for (int j = 0; j < size; j++) before += x[j] > x[i] || (x[j] == x[i] && j < i);
    return before;
}

static void ranks_equal_counting(void **unused) {
    (void)unused;
    uint64_t state = 8;
    for (int draw = 0; draw < 300; draw++) {
        const int size = whole(&state, 1, MOST);
        double x[MOST], y[MOST], rank_x[MOST], rank_y[MOST];
        for (int i = 0; i < size; i++) {
            /* Few values, so that many are equal; both signs of zero among them. */
            x[i] = draw % 2 ? normal(&state) : floor(3.0 * normal(&state)) * (i % 2 ? 1.0 : -1.0);
            y[i] = draw % 2 ? x[i] + normal(&state) : floor(2.0 * normal(&state));
        }
        const int64_t counts[3] = {1, (size + 1) / 2, size};
        double overlap[3], spearman;
        assert_int_equal(ota_rank_change_of(x, y, OTA_F64, size,
                                            &(ota_rank_change){.counts = counts,
                                                               .count = 3,
                                                               .overlap = overlap,
                                                               .spearman = &spearman},
                                            NULL, NULL),
                         OTA_OK);
        for (int t = 0; t < 3; t++) {
            int shared = 0;
            for (int i = 0; i < size; i++) {
                shared += position(x, size, i) < counts[t] && position(y, size, i) < counts[t];
            }
            spec_check("TOT-76", fabs(overlap[t] - (double)shared / (double)counts[t]), 0.0);
        }
        double mean = 0.5 * (size + 1), xx = 0.0, yy = 0.0, xy = 0.0;
        for (int i = 0; i < size; i++) {
            rank_x[i] = rank_y[i] = 0.5;
            for (int j = 0; j < size; j++) {
                rank_x[i] += x[j] < x[i] ? 1.0 : x[j] == x[i] ? 0.5 : 0.0;
                rank_y[i] += y[j] < y[i] ? 1.0 : y[j] == y[i] ? 0.5 : 0.0;
            }
            xx += (rank_x[i] - mean) * (rank_x[i] - mean);
            yy += (rank_y[i] - mean) * (rank_y[i] - mean);
            xy += (rank_x[i] - mean) * (rank_y[i] - mean);
        }
        if (xx > 0.0 && yy > 0.0) {
            spec_check("TOT-77", fabs(spearman - xy / sqrt(xx * yy)), 1e-12);
        } else {
            assert_true(isnan(spearman));
        }
        if (draw % 2 == 0) continue;
        double p[MOST], q[MOST], of_weights;
        plain_softmax(x, size, 1.0, p);
        plain_softmax(y, size, 1.0, q);
        ota_rank_change_of(p, q, OTA_F64, size, &(ota_rank_change){.spearman = &of_weights}, NULL,
                           NULL);
        if (size > 1) spec_check("TOT-77", fabs(of_weights - spearman), 0.0);
    }
}

/* scipy.stats.spearmanr([3, 1, 4, 1, 5, 9, 2, 6], [2, 7, 1, 8, 2, 8, 1, 8]) and the figures of
 * numpy.percentile, both computed once. */
static void fixtures(void **unused) {
    (void)unused;
    const float x[8] = {3, 1, 4, 1, 5, 9, 2, 6}, y[8] = {2, 7, 1, 8, 2, 8, 1, 8};
    double spearman;
    ota_error untouched = {.message = ""};
    ota_rank_change_of(x, y, OTA_F32, 8, &(ota_rank_change){.spearman = &spearman}, NULL,
                       &untouched);
    assert_string_equal(untouched.message, "");
    spec_check("TOT-77", fabs(spearman - 0.19885368120992467), 1e-15);
    const double values[5] = {0.126, 0.01, 0.043, 0.02, 0.08};
    ota_summary summary;
    assert_int_equal(ota_summary_of(values, 5, &summary, NULL, NULL), OTA_OK);
    spec_check("TOT-27", fabs(summary.minimum - 0.01) + fabs(summary.maximum - 0.126), 0.0);
    spec_check("TOT-27", fabs(summary.mean - 0.0558), 1e-16);
    spec_check("TOT-27", fabs(summary.deviation - 0.0475836106238272), 1e-16);
    spec_check("TOT-27", fabs(summary.median - 0.043), 0.0);
    spec_check("TOT-27", fabs(summary.p95 - 0.1168), 1e-16);
    /* scipy.stats.skew, kurtosis and variation, computed once. */
    spec_check("TOT-86", fabs(summary.p99 - 0.12416), 1e-16);
    spec_check("TOT-86", fabs(summary.skewness - 0.5605515260607508), 1e-14);
    spec_check("TOT-86", fabs(summary.kurtosis + 1.1287499978250704), 1e-14);
    spec_check("TOT-86", fabs(summary.variation - 0.8527528785632115), 1e-14);
    assert_int_equal(ota_summary_of(values, 1, &summary, NULL, NULL), OTA_OK);
    ota_error error;
    assert_int_equal(ota_summary_of(values, 0, &summary, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "count");
    assert_true(isnan(summary.deviation) && summary.p95 == 0.126 && isnan(summary.skewness));
    const double large[3] = {-1e300, 0.0, 1e300};
    assert_int_equal(ota_summary_of(large, 3, &summary, NULL, NULL), OTA_OK);
    spec_check("TOT-86", fabs(summary.skewness) + fabs(summary.kurtosis + 1.5), 1e-15);
}

static void vocabulary_size(void **unused) {
    (void)unused;
    float *const z = malloc(2 * VOCABULARY * sizeof *z), *const w = z + VOCABULARY;
    assert_non_null(z);
    uint64_t state = 9;
    long double total_b = 0.0L, total_a = 0.0L, tv = 0.0L;
    for (int i = 0; i < VOCABULARY; i++) {
        z[i] = (float)(3.0 * normal(&state));
        w[i] = z[i] + (float)normal(&state);
        total_b += expl(z[i]);
        total_a += expl(w[i]);
    }
    for (int i = 0; i < VOCABULARY; i++)
        tv += 0.5L * fabsl(expl(w[i]) / total_a - expl(z[i]) / total_b);
    ota_divergence got;
    ota_divergence_of_logits(z, w, OTA_F32, VOCABULARY, 1.0, &got, NULL, NULL);
    spec_check("TOT-71", relative(got.tv, tv), 1e-12);
    const int64_t counts[4] = {1, 5, 10, 100};
    double overlap[4], spearman;
    assert_int_equal(ota_rank_change_of(z, w, OTA_F32, VOCABULARY,
                                        &(ota_rank_change){.counts = counts,
                                                           .count = 4,
                                                           .overlap = overlap,
                                                           .spearman = &spearman},
                                        NULL, NULL),
                     OTA_OK);
    assert_true(spearman > 0.9 && spearman < 1.0);
    ota_rank_change_of(
        z, z, OTA_F32, VOCABULARY,
        &(ota_rank_change){.counts = counts, .count = 4, .overlap = overlap, .spearman = &spearman},
        NULL, NULL);
    spec_check("TOT-76 TOT-77", fabs(overlap[3] - 1.0) + fabs(spearman - 1.0), 1e-15);
    free(z);
}

/* Arrays end where their size says: what lies behind is no number, and every figure of one to five is the same
 * as of a copy with other neighbours. */
static void nothing_behind_the_end_counts(void **unused) {
    (void)unused;
    enum { LONGEST = 5 };
    uint64_t state = 10;
    for (int draw = 0; draw < 40; draw++) {
        const int size = 1 + draw % LONGEST;
        double z[2][LONGEST + 2], w[2][LONGEST + 2], p[2][LONGEST + 2];
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < LONGEST + 2; i++)
                z[k][i] = w[k][i] = p[k][i] = k == 0 ? NAN : INFINITY;
        for (int i = 0; i < size; i++) {
            z[0][i] = z[1][i] = normal(&state);
            w[0][i] = w[1][i] = normal(&state);
        }
        plain_softmax(z[0], size, 1.0, p[0]);
        memcpy(p[1], p[0], (size_t)size * sizeof *p[0]);
        ota_divergence of[2], logits[2];
        ota_tail tail[2];
        ota_logit_change change[2];
        ota_state_change states[2];
        ota_summary summary[2];
        const int64_t counts[1] = {size};
        double overlap[2], spearman[2];
        memset(summary, 0, sizeof summary);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(ota_divergence_of(p[k], p[k], size, &of[k], NULL, NULL), OTA_OK);
            assert_int_equal(
                ota_divergence_of_logits(z[k], w[k], OTA_F64, size, 0.5, &logits[k], NULL, NULL),
                OTA_OK);
            assert_int_equal(ota_tail_of(z[k], OTA_F64, size, 1.0, &tail[k], NULL, NULL), OTA_OK);
            assert_int_equal(ota_logit_change_of(z[k], w[k], OTA_F64, size, &change[k], NULL, NULL),
                             OTA_OK);
            assert_int_equal(ota_state_change_of(z[k], w[k], OTA_F64, size, &states[k], NULL, NULL),
                             OTA_OK);
            assert_int_equal(ota_summary_of(z[k], size, &summary[k], NULL, NULL), OTA_OK);
            assert_int_equal(ota_rank_change_of(z[k], w[k], OTA_F64, size,
                                                &(ota_rank_change){.counts = counts,
                                                                   .count = 1,
                                                                   .overlap = &overlap[k],
                                                                   .spearman = &spearman[k]},
                                                NULL, NULL),
                             OTA_OK);
        }
        assert_memory_equal(&of[0], &of[1], sizeof of[0]);
        assert_memory_equal(&logits[0], &logits[1], sizeof logits[0]);
        assert_memory_equal(&tail[0], &tail[1], sizeof tail[0]);
        assert_memory_equal(&change[0], &change[1], sizeof change[0]);
        assert_memory_equal(&states[0], &states[1], sizeof states[0]);
        assert_true(overlap[0] == 1.0 && overlap[1] == 1.0);
        spec_check("TOT-71 TOT-73 TOT-74", of[0].tv + fabs(of[0].kl) + of[0].js, 0.0);
        assert_memory_equal(&summary[0], &summary[1], sizeof summary[0]);
        /* The mean of one number is that number. */
        if (size == 1) assert_true(summary[0].mean == z[0][0] && states[0].norm_change > 0.0);
    }
}

static void refusals(void **unused) {
    (void)unused;
    const double fine[2] = {0.5, 0.5}, many[2] = {0.5, 0.6}, negative[2] = {1.5, -0.5};
    const double nan2[2] = {(double)NAN, 1.0}, infinite[2] = {(double)INFINITY, 0.0};
    ota_divergence d = {.tv = -7.0};
    ota_error error;
    assert_int_equal(ota_divergence_of(fine, many, 2, &d, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "after");
    assert_int_equal(ota_divergence_of(negative, fine, 2, &d, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "before");
    assert_int_equal(ota_divergence_of(nan2, fine, 2, &d, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_divergence_of(fine, fine, 0, &d, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_divergence_of_logits(fine, nan2, OTA_F64, 2, 1.0, &d, NULL, NULL),
                     OTA_EINVAL);
    assert_int_equal(ota_divergence_of_logits(infinite, fine, OTA_F64, 2, 1.0, &d, NULL, NULL),
                     OTA_EINVAL);
    assert_int_equal(ota_divergence_of_logits(fine, fine, OTA_BF16, 2, 1.0, &d, NULL, NULL),
                     OTA_EINVAL);
    assert_int_equal(ota_divergence_of_logits(fine, fine, OTA_F64, 2, 0.0, &d, NULL, &error),
                     OTA_EINVAL);
    assert_string_equal(error.field, "temperature");
    assert_true(d.tv == -7.0);
    /* Differences over the temperature stay finite: up to 1e300 in size, times a temperature below 1. */
    static const struct {
        double temperature, number;
        ota_status status;
    } limits[] = {{1.0, 1e300, OTA_OK},           {1.0, 1.001e300, OTA_EINVAL},
                  {4.0, 1e300, OTA_OK},           {4.0, 1.001e300, OTA_EINVAL},
                  {0.25, 0.25e300, OTA_OK},       {0.25, 0.2501e300, OTA_EINVAL},
                  {1e-10, -0.999e290, OTA_OK},    {1e-10, -1.001e290, OTA_EINVAL},
                  {0.25, -0.2501e300, OTA_EINVAL}};
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
        const double pair[2] = {0.0, limits[k].number};
        assert_int_equal(ota_divergence_of_logits(fine, pair, OTA_F64, 2, limits[k].temperature, &d,
                                                  NULL, &error),
                         limits[k].status);
        if (limits[k].status != OTA_OK) assert_string_equal(error.field, "after");
        assert_true(limits[k].status != OTA_OK || isfinite(d.tv));
    }
    const int64_t counts[1] = {3};
    double overlap[1];
    assert_int_equal(
        ota_rank_change_of(fine, fine, OTA_F64, 2,
                           &(ota_rank_change){.counts = counts, .count = 1, .overlap = overlap},
                           NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "counts");
    ota_tail tail;
    assert_int_equal(ota_tail_of(fine, OTA_F64, 1, 1.0, &tail, NULL, NULL), OTA_OK);
    assert_true(tail.mass == 0.0 && isinf(tail.log_mass) && isinf(tail.margin));
    ota_state_change states;
    const double zero[2] = {0.0, 0.0};
    assert_int_equal(ota_state_change_of(zero, fine, OTA_F64, 2, &states, NULL, NULL), OTA_OK);
    assert_true(isinf(states.relative_l2) && isnan(states.cosine));
}

TEST_FILE(test_simplex) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergences_equal_their_definitions),
        cmocka_unit_test(tails_keep_their_digits),
        cmocka_unit_test(small_steps_keep_their_digits),
        cmocka_unit_test(geodesic_distance_is_the_fisher_metric),
        cmocka_unit_test(logit_and_state_figures),
        cmocka_unit_test(ranks_equal_counting),
        cmocka_unit_test(fixtures),
        cmocka_unit_test(vocabulary_size),
        cmocka_unit_test(nothing_behind_the_end_counts),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
