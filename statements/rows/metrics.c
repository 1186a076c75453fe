/* Group G, part 1: how far apart two distributions, two states, two rows of logits are [TOT-71..83]. p, q, z,
 * w [V]; b is before, a after. */
#include "statements/check.h"

enum { V = 40, TRIALS = 40 };

/* z, w: logits of a step; far and near, saturated every fourth time. */
static void step_of(trial *t, int trials, double **z, double **w) {
    *z = normals(t, V, 2.0);
    *w = copy_of(t, *z, V);
    const double size = pow(10.0, between(t, -3.0, 0.7));
    for (int j = 0; j < V; j++) (*w)[j] += size * normal(t);
    if (trials % 4 == 0) {
        (*z)[5] += 30.0;
        (*w)[5] += 30.0;
    }
}

/* Before: p and log p. The step: log of after / before by the sum of changes, so that nothing cancels where both are close or
 * one token has all; what C libraries make of expl in its last place then stays there. */
typedef struct exact_step {
    long double p[V], logs[V], ratios[V];
} exact_step;

static exact_step exact_step_of(const double *z, const double *w, int top) {
    exact_step x;
    long double rest = 0.0L, change = 0.0L;
    for (int j = 0; j < V; j++) {
        x.logs[j] = (long double)z[j] - z[top];
        x.ratios[j] = (long double)w[j] - w[top] - x.logs[j];
        const long double weight = j == top ? 0.0L : expl(x.logs[j]);
        rest += weight;
        change += weight * expm1l(x.ratios[j]);
    }
    for (int j = 0; j < V; j++) {
        x.logs[j] -= log1pl(rest);
        x.p[j] = expl(x.logs[j]);
        x.ratios[j] -= log1pl(change / (1.0L + rest));
    }
    return x;
}

typedef enum divergence { TV, W1, KL, JS, ENTROPY_CHANGE } divergence;

/* Relative distance of a divergence of logits from its definition in long double. */
static double against_definition(trial *t, divergence which) {
    double *z, *w;
    long double x = 0.0L, scale = 0.0L;
    int top = 0;
    step_of(t, t->draw, &z, &w);
    for (int j = 1; j < V; j++) top = z[j] > z[top] ? j : top;
    const exact_step step = exact_step_of(z, w, top);
    for (int j = 0; j < V; j++) {
        const long double b = step.p[j], ratio = step.ratios[j], gain = expm1l(ratio);
        long double part = 0.0L;
        if (which == TV || which == W1) part = 0.5L * b * fabsl(gain);
        if (which == KL) part = b * (1.0L + gain) * ratio;
        if (which == JS) { /* the middle is exp((log a + log b) / 2) cosh(ratio / 2) */
            const long double sinh_quarter = sinhl(0.25L * ratio);
            const long double log_cosh = log1pl(2.0L * sinh_quarter * sinh_quarter);
            part = 0.5L * b * (gain * 0.5L * ratio - (2.0L + gain) * log_cosh);
        }
        if (which == ENTROPY_CHANGE) part = -b * (gain * step.logs[j] + (1.0L + gain) * ratio);
        x += part;
        scale += fabsl(part);
    }
    ota_divergence d;
    if (ota_divergence_of_logits(z, w, OTA_F64, V, 1.0, &d, NULL, NULL) < 0) return NAN;
    const double given[] = {d.tv, d.w1, d.kl, d.js, d.entropy_change};
    return fabs(seen_number(t, given[which] / (double)scale) - (double)(x / scale));
}

static double tv_definition(trial *t) { return against_definition(t, TV); }
static double kl_definition(trial *t) { return against_definition(t, KL); }
static double js_definition(trial *t) { return against_definition(t, JS); }
static double entropy_definition(trial *t) { return against_definition(t, ENTROPY_CHANGE); }

static ota_divergence divergence_of_step(trial *t, int trials) {
    double *z, *w;
    ota_divergence d;
    step_of(t, trials, &z, &w);
    memset(&d, 0, sizeof d);
    d.tv = d.kl = d.js = NAN;
    (void)ota_divergence_of_logits(z, w, OTA_F64, V, 1.0, &d, NULL, NULL);
    return d;
}

static double same_bits(trial *t) {
    double different = 0.0;
    for (int trials = 0; trials < TRIALS; trials++) {
        const ota_divergence d = divergence_of_step(t, trials);
        const double w1 = seen_number(t, d.w1);
        different += different_bits(&d.tv, &w1, 1);
    }
    return different;
}

/* KL >= 2 TV^2: least KL / (2 TV^2). */
static double pinsker(trial *t) {
    const ota_divergence d = divergence_of_step(t, t->draw);
    return seen_number(t, d.kl / (2.0 * d.tv * d.tv));
}

/* TV^2 / 2 <= JS <= TV log 2: the largest ratio, minus 1. */
static double js_between(trial *t) {
    double most = -HUGE_VAL;
    const ota_divergence d = divergence_of_step(t, t->draw);
    most = worse(most, seen_number(t, d.js / (d.tv * log(2.0))) - 1.0);
    most = worse(most, 0.5 * d.tv * d.tv / d.js - 1.0);
    return most;
}

/* Changes of several layers add up to the change from first to last. */
static double entropy_additivity(trial *t) {
    enum { LAYERS = 8 };
    double *z = normals(t, LAYERS * V, 2.0), sum = 0.0;
    ota_divergence d;
    for (int l = 0; l + 1 < LAYERS; l++) {
        if (ota_divergence_of_logits(z + l * V, z + (l + 1) * V, OTA_F64, V, 1.0, &d, NULL, NULL) <
            0) {
            return NAN;
        }
        sum += seen_number(t, d.entropy_change);
    }
    if (ota_divergence_of_logits(z, z + (LAYERS - 1) * V, OTA_F64, V, 1.0, &d, NULL, NULL) < 0)
        return NAN;
    return fabs(sum - d.entropy_change);
}

/* ---- ranks ---- */

/* How many stand before j: larger, or equal with a lower index. */
static int64_t place(const double *x, int64_t j) {
    int64_t before = 0;
    for (int64_t k = 0; k < V; k++) before += x[k] > x[j] || (x[k] == x[j] && k < j);
    return before;
}

static double overlap(trial *t) {
    static const int64_t counts[4] = {1, 5, 10, 30};
    double most = 0.0, given[4];
    double *z, *w;
    step_of(t, t->draw, &z, &w);
    /* Ties in half of the t->draw. */
    for (int j = 0; t->draw % 2 == 0 && j < V; j++) {
        z[j] = rint(z[j]);
        w[j] = rint(w[j]);
    }
    if (ota_rank_change_of(z, w, OTA_F64, V,
                           &(ota_rank_change){.counts = counts, .count = 4, .overlap = given}, NULL,
                           NULL) < 0)
        return NAN;
    seen(t, given, 4);
    for (int k = 0; k < 4; k++) {
        double shared = 0.0;
        for (int64_t j = 0; j < V; j++)
            shared += place(z, j) < counts[k] && place(w, j) < counts[k];
        most = worse(most, fabs(given[k] - shared / (double)counts[k]));
    }
    return most;
}

static double correlation(const double *x, const double *y) {
    const double a = sum_of(x, V) / (double)V, b = sum_of(y, V) / (double)V;
    double xx = 0.0, yy = 0.0, xy = 0.0;
    for (int j = 0; j < V; j++) {
        xx += (x[j] - a) * (x[j] - a);
        yy += (y[j] - b) * (y[j] - b);
        xy += (x[j] - a) * (y[j] - b);
    }
    return xy / sqrt(xx * yy);
}

static void mean_ranks(const double *x, double *rank) {
    for (int j = 0; j < V; j++) {
        double below_it = 0.0, equal = 0.0;
        for (int k = 0; k < V; k++) {
            below_it += x[k] < x[j];
            equal += x[k] == x[j];
        }
        rank[j] = below_it + 0.5 * (equal - 1.0);
    }
}

/* Against correlation of mean ranks; and of logits against that of probabilities. */
static double spearman(trial *t) {
    double most = 0.0, ranks[2][V];
    double *z, *w, given = NAN, other = NAN, p[V], q[V];
    step_of(t, t->draw, &z, &w);
    for (int j = 0; t->draw % 2 == 0 && j < V; j++) z[j] = rint(z[j]);
    mean_ranks(z, ranks[0]);
    mean_ranks(w, ranks[1]);
    (void)ota_rank_change_of(z, w, OTA_F64, V, &(ota_rank_change){.spearman = &given}, NULL, NULL);
    for (int j = 0; j < V; j++) {
        p[j] = exp(0.1 * z[j]);
        q[j] = exp(0.1 * w[j]);
    }
    (void)ota_rank_change_of(p, q, OTA_F64, V, &(ota_rank_change){.spearman = &other}, NULL, NULL);
    most = worse(most, fabs(seen_number(t, given) - correlation(ranks[0], ranks[1])));
    most = worse(most, fabs(other - given));
    return most;
}

/* ---- states and logits ---- */

typedef struct pair {
    double *before, *after;
    ota_state_change state;
    ota_logit_change logits;
    double difference[V], before_norm, after_norm, difference_norm;
} pair;

static pair *pair_of(trial *t, int trials) {
    pair *x = take(t, sizeof *x);
    step_of(t, trials, &x->before, &x->after);
    x->state.relative_l2 = x->state.cosine = x->state.max_coordinate_change = NAN;
    x->logits.max_change = x->logits.correlation = x->logits.effective_temperature = NAN;
    (void)ota_state_change_of(x->before, x->after, OTA_F64, V, &x->state, NULL, NULL);
    (void)ota_logit_change_of(x->before, x->after, OTA_F64, V, &x->logits, NULL, NULL);
    for (int j = 0; j < V; j++) x->difference[j] = x->after[j] - x->before[j];
    x->before_norm = sqrt(dot(x->before, x->before, V));
    x->after_norm = sqrt(dot(x->after, x->after, V));
    x->difference_norm = sqrt(dot(x->difference, x->difference, V));
    return x;
}

static double relative_l2(trial *t) {
    double most = 0.0;
    const pair *x = pair_of(t, t->draw);
    const double formula = x->difference_norm / x->before_norm;
    most = worse(most, fabs(seen_number(t, x->state.relative_l2 / formula) - 1.0));
    most = worse(most, fabs(x->state.norm_change / x->difference_norm - 1.0));
    return most;
}

/* By loops; unchanged when a state is scaled. */
static double cosine(trial *t) {
    double most = 0.0;
    const pair *x = pair_of(t, t->draw);
    const double formula = dot(x->before, x->after, V) / (x->before_norm * x->after_norm);
    double *scaled = copy_of(t, x->after, V);
    for (int j = 0; j < V; j++) scaled[j] *= 37.0;
    ota_state_change other;
    if (ota_state_change_of(x->before, scaled, OTA_F64, V, &other, NULL, NULL) < 0) return NAN;
    most = worse(most, fabs(seen_number(t, x->state.cosine) - formula));
    most = worse(most, fabs(other.cosine - formula));
    most = worse(most, fabs(formula) - 1.0);
    return most;
}

static double sup_of(const double *x) {
    double most = 0.0;
    for (int j = 0; j < V; j++) most = fmax(most, fabs(x[j]));
    return most;
}

static double coordinate_change(trial *t) {
    const pair *x = pair_of(t, t->draw);
    return fabs(seen_number(t, x->state.max_coordinate_change) - sup_of(x->difference));
}

/* The sup norm and half the range, which is no larger and free of common shifts. */
static double logit_change(trial *t) {
    double most = 0.0;
    const pair *x = pair_of(t, t->draw);
    most = worse(most, fabs(seen_number(t, x->logits.max_change) - sup_of(x->difference)));
    most = worse(most, fabs(x->logits.range_half - 0.5 * spread_of(x->difference, V)));
    most = worse(most, x->logits.range_half - x->logits.max_change);
    double *moved = copy_of(t, x->after, V);
    for (int j = 0; j < V; j++) moved[j] += 128.0;
    ota_logit_change other;
    if (ota_logit_change_of(x->before, moved, OTA_F64, V, &other, NULL, NULL) < 0) return NAN;
    most = worse(most, fabs(other.range_half - x->logits.range_half));
    return most;
}

static double logit_correlation(trial *t) {
    double most = 0.0;
    const pair *x = pair_of(t, t->draw);
    const double formula = correlation(x->before, x->after);
    double *moved = copy_of(t, x->after, V);
    for (int j = 0; j < V; j++) moved[j] = 3.0 * moved[j] - 11.0;
    ota_logit_change other;
    if (ota_logit_change_of(x->before, moved, OTA_F64, V, &other, NULL, NULL) < 0) return NAN;
    most = worse(most, fabs(seen_number(t, x->logits.correlation) - formula));
    most = worse(most, fabs(other.correlation - formula));
    return most;
}

static double effective_temperature(trial *t) {
    const pair *x = pair_of(t, t->draw);
    const double mean = sum_of(x->before, V) / (double)V;
    double square = 0.0;
    for (int j = 0; j < V; j++) square += (x->before[j] - mean) * (x->before[j] - mean) / (double)V;
    const double given = x->logits.effective_temperature * sqrt(square);
    return fabs(seen_number(t, given) - 1.0);
}

static const statement_check table[] = {
    AT_MOST("TOT-71", "TV of logits against long double, relative", tv_definition, 1e-12, TRIALS),
    AT_MOST("TOT-72", "different bits between W1 and TV", same_bits, 0.0),
    AT_MOST("TOT-73", "KL of logits against long double, in units of its terms", kl_definition,
            1e-12, TRIALS),
    AT_LEAST("TOT-73", "least KL / (2 TV^2)", pinsker, 1.0 - 1e-12, TRIALS),
    AT_MOST("TOT-74", "JS of logits against long double, in units of its terms", js_definition,
            1e-12, TRIALS),
    AT_MOST("TOT-74", "TV^2/2 <= JS <= TV log 2: largest ratio minus 1", js_between, 1e-12, TRIALS),
    AT_MOST("TOT-75", "entropy change against long double", entropy_definition, 1e-12, TRIALS),
    AT_MOST("TOT-75", "changes of eight layers add up", entropy_additivity, 1e-12),
    AT_MOST("TOT-76", "top-k overlap by counting, ties by index", overlap, 1e-15, TRIALS),
    AT_MOST("TOT-77", "Spearman by mean ranks; logits or probabilities", spearman, 1e-12, TRIALS),
    AT_MOST("TOT-78", "relative l2 change by loops", relative_l2, 1e-14, TRIALS),
    AT_MOST("TOT-79", "cosine by loops, of a scaled state", cosine, 1e-14, TRIALS),
    AT_MOST("TOT-80", "largest coordinate change", coordinate_change, 0.0, TRIALS),
    AT_MOST("TOT-81", "largest logit change, half range, common shifts", logit_change, 1e-13,
            TRIALS),
    AT_MOST("TOT-82", "Pearson by loops, of 3 z - 11", logit_correlation, 1e-12, TRIALS),
    AT_MOST("TOT-83", "effective temperature times the deviation", effective_temperature, 1e-14,
            TRIALS),
};
CHECK_GROUP(statement_checks_metrics, table);
