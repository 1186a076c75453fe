/* Group D, one softmax row: when it is saturated, how near to uniform it is, and what its range allows
 * [TOT-28..36, TOT-118]. z, w, p [m]; eps = 1 - p_1. */
#include "statements/check.h"

enum { M = 7, TRIALS = 300 };

static ota_saturation saturation(const double *z, const double *w, int64_t m) {
    ota_saturation x = {0};
    x.bound = x.tv = x.tail_before = x.tail_after = x.tail_bound = x.margin = NAN;
    (void)ota_saturation_of(z, w, OTA_F64, m, 1.0, &x, NULL, NULL);
    return x;
}

/* TV <= max(eps, eps'), eps' <= e^d eps / (1 - eps + e^d eps), and the call's numbers against loops. */
static double saturation_bounds(trial *t) {
    double most = -HUGE_VAL;
    double *z = normals(t, M, 1.0), *w = copy_of(t, z, M), p[M], q[M], loss = 0.0;
    const int64_t top = below(t, M);
    z[top] += between(t, 0.0, 20.0);
    w[top] = z[top];
    const double size = pow(10.0, between(t, -2.0, 1.2));
    for (int j = 0; j < M; j++) w[j] += size * normal(t);
    const ota_saturation x = saturation(z, w, M);
    softmax_formula(z, M, 1.0, p);
    softmax_formula(w, M, 1.0, q);
    for (int j = 0; j < M; j++) loss = fmax(loss, (w[j] - z[j]) - (w[x.index] - z[x.index]));
    double before = 0.0, after = 0.0;
    for (int j = 0; j < M; j++) {
        before += j != x.index ? p[j] : 0.0;
        after += j != x.index ? q[j] : 0.0;
    }
    const double grown = exp(loss) * before;
    const double tv = 0.5 * statement_softmax_distance(z, w, M, 1.0);
    most = worse(most, tv - fmax(before, after));
    most = worse(most, after - grown / (1.0 - before + grown));
    most = worse(most, seen_number(t, x.tv) - x.bound);
    most = worse(most, fabs(x.bound - fmax(before, after)));
    most = worse(most, fabs(x.tail_bound - grown / (1.0 - before + grown)));
    if (loss == 0.0) most = worse(most, 2.0 * tv - 2.0 * before);
    return most;
}

static const double flipped[2] = {10.0, 0.0}, nearly[2] = {10.0, 9.999};

/* Thm 4 as printed: argmax kept, then ||p' - p||_1 <= 2 eps. */
static double kept_argmax(trial *t) {
    (void)t;
    const ota_saturation x = saturation(flipped, nearly, 2);
    return x.kept ? 2.0 * x.tv - x.printed : NAN;
}

static double counterexample(trial *t) {
    const ota_saturation x = saturation(flipped, nearly, 2);
    const double eps = 1.0 / (1.0 + exp(10.0)), after = 1.0 / (1.0 + exp(0.001));
    double most = fabs(seen_number(t, 2.0 * x.tv) - 2.0 * (after - eps));
    most = worse(most, fabs(x.tail_before - eps));
    most = worse(most, fabs(2.0 * x.tv - 0.9994));
    return worse(most, x.kept ? 0.0 : 1.0);
}

/* The worst l1 change with argmax kept tends to 2 (1 - 1/m): m = 100. */
static double counterexample_of_many(trial *t) {
    enum { MANY = 100 };
    double *z = numbers(t, MANY), *w = numbers(t, MANY);
    z[0] = 40.0;
    for (int j = 1; j < MANY; j++) w[j] = -1e-3;
    const ota_saturation x = saturation(z, w, MANY);
    return x.kept ? seen_number(t, 2.0 * x.tv) / (2.0 * (1.0 - 1.0 / (double)MANY)) : NAN;
}

/* Saturated runs at chosen layers of a stack: events missed or invented. */
static double events(trial *t) {
    enum { LAYERS = 30 };
    double *z = normals(t, LAYERS * M, 1.0), wrong = 0.0;
    bool sure[LAYERS] = {false};
    for (int l = 0; l < LAYERS; l++) {
        sure[l] = uniform(t) < 0.5;
        if (sure[l]) z[l * M + 3] += 60.0;
    }
    for (int l = 0; l + 1 < LAYERS; l++) {
        const ota_saturation x = saturation(z + l * M, z + (l + 1) * M, M);
        wrong +=
            seen_fact(t, (ota_saturation_event(&x, 1e-4, 1e-10) != 0) == (sure[l] && sure[l + 1]));
        wrong += ota_saturation_event(&x, 1e-4, 0.0) != 0;
    }
    return wrong;
}

static double margins(trial *t) {
    double most = 0.0;
    double *z = normals(t, M, 3.0), p[M], formula = HUGE_VAL;
    ota_tail tail;
    if (ota_tail_of(z, OTA_F64, M, 1.0, &tail, NULL, NULL) < 0) return NAN;
    softmax_formula(z, M, 1.0, p);
    for (int j = 0; j < M; j++) {
        if (j != tail.index) formula = fmin(formula, log(p[tail.index] / p[j]));
    }
    most = worse(most, fabs(seen_number(t, tail.margin) - formula));
    most = worse(most, log((1.0 - tail.mass) / tail.mass) - tail.margin);
    return most;
}

/* ---- extremes under a range ---- */

static double range_limits(trial *t) {
    double most = -HUGE_VAL;
    const int64_t m = 2 + below(t, 9);
    const double temperature = between(t, 0.3, 2.0);
    double *z = normals(t, m, 2.0), p[16];
    softmax_formula(z, m, temperature, p);
    ota_softmax_limits x;
    if (ota_softmax_limits_of(m, spread_of(z, m), temperature, &x, NULL) < 0) return NAN;
    const double high = largest_of(p, m), low = high - spread_of(p, m);
    most = worse(most, high - seen_number(t, x.max_most));
    most = worse(most, x.max_least - high);
    most = worse(most, worse(low - x.min_most, x.min_least - low));
    return most;
}

/* Each of the four is reached: one above the others, one below them. */
static double range_limits_attained(trial *t) {
    double most = 0.0;
    const int64_t m = 2 + below(t, 9);
    const double range = between(t, 0.1, 8.0), temperature = between(t, 0.3, 2.0);
    double z[16] = {0.0}, p[16];
    ota_softmax_limits x;
    if (ota_softmax_limits_of(m, range, temperature, &x, NULL) < 0) return NAN;
    z[0] = range;
    softmax_formula(z, m, temperature, p);
    most = worse(most, fabs(seen_number(t, x.max_most) - p[0]));
    most = worse(most, fabs(x.min_most - p[m - 1]));
    z[0] = -range;
    softmax_formula(z, m, temperature, p);
    most = worse(most, fabs(x.max_least - p[m - 1]));
    most = worse(most, fabs(x.min_least - p[0]));
    return most;
}

/* Lemma A.3's first inequality as printed, on z = (2, 2, 0): the bound less max p. */
static double printed_lower_limit(trial *t) {
    (void)t;
    const double z[3] = {2.0, 2.0, 0.0};
    double p[3];
    ota_softmax_limits x;
    softmax_formula(z, 3, 1.0, p);
    if (ota_softmax_limits_of(3, 2.0, 1.0, &x, NULL) < 0) return NAN;
    return x.max_most - p[0];
}

static double two_levels(trial *t) {
    const int64_t m = 2 + below(t, 12), high = 1 + below(t, m - 1);
    const double range = between(t, 0.0, 9.0), temperature = between(t, 0.4, 2.0);
    double z[16] = {0.0}, p[16];
    for (int64_t j = 0; j < high; j++) z[j] = range;
    softmax_formula(z, m, temperature, p);
    const double x = seen_number(t, ota_two_level(m, high, range, temperature));
    return fabs(x - p[0]);
}

static ota_uniformity uniformity(const double *z, int64_t m, double temperature) {
    ota_uniformity x;
    memset(&x, 0, sizeof x);
    x.entropy = x.tv = NAN;
    (void)ota_uniformity_of(z, OTA_F64, m, temperature, &x, NULL, NULL);
    return x;
}

/* H(p) <= h(p_1) + (1 - p_1) log(m - 1); equality for an even tail. */
static double entropy_bound(trial *t) {
    double most = 0.0;
    double *z = normals(t, M, 2.0), p[M];
    const bool even = t->draw % 5 == 0;
    if (even) {
        for (int j = 1; j < M; j++) z[j] = -fabs(z[0]);
        z[0] = fabs(z[0]);
    }
    softmax_formula(z, M, 1.0, p);
    const ota_uniformity x = uniformity(z, M, 1.0);
    const double top = largest_of(p, M), two[2] = {top, 1.0 - top};
    const double bound = entropy_of(two, 2) + (1.0 - top) * log((double)M - 1.0);
    most = worse(most, fabs(seen_number(t, x.entropy) - entropy_of(p, M)));
    most = worse(most, fabs(x.entropy_bound - bound));
    most = worse(most, entropy_of(p, M) - bound);
    if (even) most = worse(most, fabs(entropy_of(p, M) - bound));
    return most;
}

static double uniform_distance(trial *t) {
    double most = 0.0;
    const double temperature = between(t, 0.3, 3.0);
    double *z = scores_of(t, 1, M, t->draw % CHARACTERS), p[M], tv = 0.0, least = 1.0;
    softmax_formula(z, M, temperature, p);
    for (int j = 0; j < M; j++) {
        tv += 0.5 * fabs(p[j] - 1.0 / (double)M);
        least = fmin(least, p[j]);
    }
    const double x = exp(spread_of(z, M) / temperature);
    const ota_uniformity u = uniformity(z, M, temperature);
    const double bounds[4] = {1.0 - (double)M * least,
                              1.0 - (double)M / (1.0 + ((double)M - 1.0) * x),
                              (1.0 - 1.0 / (double)M) * (1.0 - (double)M * least),
                              tanh(spread_of(z, M) / (4.0 * temperature))};
    const double given[4] = {u.by_least, u.by_range, u.by_least_sharp, u.by_range_sharp};
    most = worse(most, fabs(seen_number(t, u.tv) - tv));
    most = worse(most, farthest(bounds, given, 4));
    for (int k = 0; k < 4; k++) most = worse(most, tv - bounds[k]);
    return most;
}

/* Share of rows with 1 - max p < 1e-4 at rising temperatures: it must not rise; and against counting. */
static double saturated_rows(trial *t) {
    enum { ROWS = 200 };
    static const double temperatures[] = {0.5, 0.7, 1.0, 1.4, 2.0};
    double *s = normals(t, ROWS * M, 8.0), most = 0.0, last = 1.0;
    for (int k = 0; k < 5; k++) {
        double fraction = NAN, count = 0.0;
        (void)ota_saturated_fraction(&(ota_matrix){s, OTA_F64, ROWS, M}, temperatures[k], 1e-4,
                                     &fraction, NULL, NULL);
        for (int i = 0; i < ROWS; i++) {
            double p[M], rest = 0.0;
            softmax_formula(s + i * M, M, temperatures[k], p);
            const double top = largest_of(p, M);
            for (int j = 0; j < M; j++) rest += p[j] < top ? p[j] : 0.0;
            count += rest < 1e-4;
        }
        fraction = seen_number(t, fraction);
        most = worse(most, fabs(fraction - count / (double)ROWS));
        most = worse(most, fraction - last);
        last = fraction;
    }
    return most;
}

/* W1 at Hamming cost is the transport value of hard/exact with masses p, q, and TV. */
static double wasserstein(trial *t) {
    double most = 0.0;
    double *cost = numbers(t, M * M), *p = distribution(t, M, 1.0), *q = distribution(t, M, 1.0);
    double tv = 0.0;
    for (int k = 0; k < M * M; k++) cost[k] = k / M == k % M ? 0.0 : 1.0;
    for (int j = 0; j < M; j++) tv += 0.5 * fabs(p[j] - q[j]);
    head *h = statement_head(t, M, M, cost);
    h->problem.cost = 1;
    h->row_mass = p;
    h->column_mass = q;
    statement_solve(t, h, "hard/exact", 0.0, 0.0);
    most = worse(most, fabs(dot(cost, h->p, M * M) - tv));
    ota_divergence d;
    if (ota_divergence_of(p, q, M, &d, NULL, NULL) < 0) return NAN;
    most = worse(most, fabs(d.w1 - tv));
    return most;
}

static const statement_check table[] = {
    AT_MOST("TOT-28", "TV - max(eps, eps'), the growth of eps', by loops; 2000 steps",
            saturation_bounds, 1e-14, 2000),
    AT_LEAST("TOT-28", "argmax kept, m = 100: l1 change over 2 (1 - 1/m)", counterexample_of_many,
             0.99),
    PRINTED_AT_MOST("TOT-28", "argmax kept: ||dp||_1 - 2 eps at z = (10, 0), dz = (0, 9.999) (E1)",
                    kept_argmax, 0.0),
    AT_MOST("TOT-118", "z = (10, 0), dz = (0, 9.999): l1 change .9994, argmax kept", counterexample,
            5e-5),
    AT_MOST("TOT-29", "events missed or invented in random stacks", events, 0.0),
    AT_MOST("TOT-30", "margin is log(p_1/p_j), at least log((1 - eps)/eps)", margins, 1e-12,
            TRIALS),
    AT_MOST("TOT-31", "max p, min p beyond their four limits, 2000 draws", range_limits, 1e-15,
            2000),
    AT_MOST("TOT-31", "all four are attained", range_limits_attained, 1e-15, 40),
    PRINTED_AT_MOST("TOT-31", "1/(1 + (m-1) e^(-R/eps)) - max p at (2, 2, 0) (E2)",
                    printed_lower_limit, 1e-12),
    AT_MOST("TOT-32", "two-level maximum against softmax", two_levels, 1e-15, TRIALS),
    AT_MOST("TOT-33", "entropy bound by loops, equality for an even tail", entropy_bound, 1e-13,
            TRIALS),
    AT_MOST("TOT-34", "TV to uniform against four bounds, by loops", uniform_distance, 1e-14, 1000),
    AT_MOST("TOT-35", "share of saturated rows falls with T; against counting", saturated_rows,
            0.0),
    AT_MOST("TOT-36", "transport value at Hamming cost against TV", wasserstein, 1e-14, 20),
};
CHECK_GROUP(statement_checks_saturation, table);
