/* Group D, one softmax row: how far it moves with its logits and with the state of a linear probe
 * [TOT-21..27, DER-20]. z, w, dz, p [m]; W [m][width], h [width]. */
#include "statements/check.h"

enum { M = 7, WIDTH = 4, TRIALS = 300 };

static double spread_between(const double *z, const double *w, int64_t m) {
    double d[64];
    for (int64_t j = 0; j < m; j++) d[j] = w[j] - z[j];
    return spread_of(d, m);
}

/* ---- Lipschitz ---- */

static ota_lipschitz lipschitz(const double *z, const double *w, int64_t m, double temperature) {
    ota_lipschitz x = {NAN, NAN, NAN};
    (void)ota_lipschitz_of(z, w, OTA_F64, m, temperature, &x, NULL, NULL);
    return x;
}

static double lipschitz_bound(trial *t) {
    double most = 0.0;
    const double temperature = between(t, 0.3, 3.0), size = pow(10.0, between(t, -3.0, 1.0));
    double *z = scores_of(t, 1, M, t->draw % CHARACTERS), *w = copy_of(t, z, M), sup = 0.0;
    for (int j = 0; j < M; j++) w[j] += size * normal(t);
    for (int j = 0; j < M; j++) sup = fmax(sup, fabs(w[j] - z[j]));
    const ota_lipschitz x = lipschitz(z, w, M, temperature);
    const double ratio = x.l1 / (sup / temperature);
    most = worse(most, seen_number(t, ratio) - 1.0);
    most = worse(most, fabs(x.l1 - statement_softmax_distance(z, w, M, temperature)));
    most = worse(most, fabs(x.printed - sup / temperature));
    return most;
}

/* Two symbols, from the middle: J v = v/2, and the ratio is 1 - O(step^2). */
static double two_symbols(trial *t) {
    double least = HUGE_VAL;
    for (int k = 1; k < 6; k++) {
        const double step = pow(10.0, -k), z[2] = {0.0, 0.0}, w[2] = {step, -step};
        const ota_lipschitz x = lipschitz(z, w, 2, 1.0);
        least = fmin(least, (seen_number(t, x.l1 / x.printed) - 1.0) / (step * step));
    }
    return least;
}

static double jacobian_norm(trial *t) {
    double most = 0.0;
    const int m = 2 + t->draw % 9;
    double *p = distribution(t, m, t->draw % 2 == 0 ? 1.0 : 3.0), lower = NAN, upper = NAN;
    double best = 0.0, top = 0.0;
    (void)ota_jacobian_norm(p, m, &lower, &upper, NULL, NULL);
    for (int set = 0; set < 1 << m; set++) {
        double inside = 0.0;
        for (int j = 0; j < m; j++) inside += (set >> j & 1) != 0 ? p[j] : 0.0;
        best = fmax(best, 4.0 * inside * (1.0 - inside));
    }
    top = largest_of(p, m);
    most = worse(most, fabs(seen_number(t, lower) - best));
    most = worse(most, fabs(upper - best));
    if (top >= 0.5) most = worse(most, fabs(best - 4.0 * top * (1.0 - top)));
    return most;
}

static double norm_at_tail(double tail) {
    double p[11] = {1.0 - tail}, lower = NAN, upper = NAN;
    for (int j = 1; j < 11; j++) p[j] = 0.1 * tail;
    (void)ota_jacobian_norm(p, 11, &lower, &upper, NULL, NULL);
    return lower;
}

static double norm_is_linear(trial *t) {
    double most = 0.0;
    for (double tail = 1e-2; tail > 1e-30; tail *= 1e-4) {
        const double ratio = norm_at_tail(tail) / (4.0 * tail * (1.0 - tail));
        most = worse(most, fabs(seen_number(t, ratio) - 1.0));
    }
    return most;
}

/* Section 3.2 has it vanish like eps^2: norm / eps^2 at eps = 1e-4. */
static double norm_is_quadratic(trial *t) {
    (void)t;
    return norm_at_tail(1e-4) / 1e-8;
}

/* p' - p as the integral of J(z + x dz) dz over x in [0, 1]: 20-point sums by Gauss on eight pieces. */
static double path_integral(trial *t) {
    static const double at[5] = {0.1488743389816312, 0.4333953941292472, 0.6794095682990244,
                                 0.8650633666889845, 0.9739065285171717};
    static const double weight[5] = {0.2955242247147529, 0.2692667193099963, 0.2190863625159820,
                                     0.1494513491505806, 0.0666713443086881};
    double most = 0.0;
    double *z = normals(t, M, 1.0), *dz = normals(t, M, 1.0), *w = copy_of(t, z, M);
    double p[M], q[M], here[M], product[M], sum[M] = {0.0};
    for (int j = 0; j < M; j++) w[j] += dz[j];
    for (int piece = 0; piece < 80; piece++) {
        const double node = piece % 2 == 0 ? at[piece / 2 % 5] : -at[piece / 2 % 5];
        const double x = (piece / 10 + 0.5 + 0.5 * node) / 8.0;
        for (int j = 0; j < M; j++) here[j] = z[j] + x * dz[j];
        softmax_formula(here, M, 1.0, p);
        if (ota_fisher_product(p, dz, M, 1.0, product, NULL, NULL) < 0) return NAN;
        t->planted = false;
        seen(t, product, M);
        for (int j = 0; j < M; j++) sum[j] += weight[piece / 2 % 5] / 16.0 * product[j];
    }
    softmax_formula(z, M, 1.0, p);
    softmax_formula(w, M, 1.0, q);
    for (int j = 0; j < M; j++) most = worse(most, fabs(q[j] - p[j] - sum[j]));
    return most;
}

/* ---- the linear probe ---- */

typedef struct probed {
    double *w, *h, *moved, *z, *z_moved;
    double step, norm, diameter; /* ||dh||, max_j ||W_j||, max_jk ||W_j - W_k|| by loops */
    ota_probe probe;
    double l1;
} probed;

static double two_norm(const double *x, int64_t count) { return sqrt(dot(x, x, count)); }

static probed probe(trial *t, int trials) {
    probed x;
    x.w = normals(t, M * WIDTH, 1.0);
    x.h = normals(t, WIDTH, 1.0);
    x.moved = copy_of(t, x.h, WIDTH);
    x.z = numbers(t, M);
    x.z_moved = numbers(t, M);
    double *dh = normals(t, WIDTH, pow(10.0, between(t, -3.0, 0.5)));
    /* Every third step goes along a row of W. */
    if (trials % 3 == 0) memcpy(dh, x.w, WIDTH * sizeof *dh);
    for (int k = 0; k < WIDTH; k++) x.moved[k] += dh[k];
    x.step = two_norm(dh, WIDTH);
    x.norm = x.diameter = 0.0;
    for (int j = 0; j < M; j++) {
        x.z[j] = dot(x.w + j * WIDTH, x.h, WIDTH);
        x.z_moved[j] = dot(x.w + j * WIDTH, x.moved, WIDTH);
        x.norm = fmax(x.norm, two_norm(x.w + j * WIDTH, WIDTH));
        for (int l = 0; l < M; l++) {
            double d[WIDTH];
            for (int k = 0; k < WIDTH; k++) d[k] = x.w[j * WIDTH + k] - x.w[l * WIDTH + k];
            x.diameter = fmax(x.diameter, two_norm(d, WIDTH));
        }
    }
    x.probe = (ota_probe){NAN, NAN, 0};
    (void)ota_probe_of(x.w, OTA_F64, M, WIDTH, &x.probe, NULL, NULL);
    x.l1 = lipschitz(x.z, x.z_moved, M, 1.0).l1;
    return x;
}

/* Ratios to the bound, minus 1, and the call's bound against min(2, norm step). */
static double probe_bound(trial *t) {
    double most = 0.0;
    const probed x = probe(t, t->draw);
    double printed = NAN, sharp = NAN;
    (void)ota_drift_bound(&x.probe, &x.step, 1, &printed, &sharp, NULL, NULL);
    most = worse(most, x.l1 / (x.norm * x.step) - 1.0);
    most = worse(most, fabs(seen_number(t, printed / fmin(2.0, x.norm * x.step)) - 1.0));
    return most;
}

/* Thm 2: equality where dh has the direction of the largest row. Ratio for such steps. */
static double aligned_ratio(trial *t) {
    double most = 0.0;
    for (int trials = 0; trials < 100; trials++) {
        probed x = probe(t, 1);
        int64_t top = 0;
        for (int64_t j = 1; j < M; j++) {
            if (two_norm(x.w + j * WIDTH, WIDTH) > two_norm(x.w + top * WIDTH, WIDTH)) top = j;
        }
        const double size = pow(10.0, between(t, -3.0, 0.5));
        double dh[WIDTH];
        for (int k = 0; k < WIDTH; k++) dh[k] = size * x.w[top * WIDTH + k];
        for (int j = 0; j < M; j++) x.z_moved[j] = x.z[j] + dot(x.w + j * WIDTH, dh, WIDTH);
        const double l1 = lipschitz(x.z, x.z_moved, M, 1.0).l1;
        most = worse(most, l1 / (x.norm * two_norm(dh, WIDTH)));
    }
    return most;
}

/* TV <= tanh(osc(dz)/4) <= tanh(diameter step / 4), equality on two symbols moved through the middle. */
static double sharp_probe_bound(trial *t) {
    double most = 0.0;
    const probed x = probe(t, t->draw);
    double printed = NAN, sharp = NAN;
    (void)ota_drift_bound(&x.probe, &x.step, 1, &printed, &sharp, NULL, NULL);
    const double osc = spread_between(x.z, x.z_moved, M), inner = 2.0 * tanh(osc / 4.0);
    most = worse(most, seen_number(t, x.l1 / inner) - 1.0);
    most = worse(most, inner / sharp - 1.0);
    most = worse(most, fabs(sharp / (2.0 * tanh(x.diameter * x.step / 4.0)) - 1.0));
    most = worse(most, fabs(lipschitz(x.z, x.z_moved, M, 1.0).sharp / inner - 1.0));
    return most;
}

static double sharp_probe_attained(trial *t) {
    double least = HUGE_VAL;
    for (int k = 1; k < 9; k++) {
        const double z[2] = {-0.2 * k, 0.2 * k}, w[2] = {0.2 * k, -0.2 * k};
        const ota_lipschitz x = lipschitz(z, w, 2, 1.0);
        least = fmin(least, seen_number(t, x.l1 / x.sharp));
    }
    return least;
}

static double probe_norms(trial *t) {
    double most = 0.0;
    const probed x = probe(t, t->draw);
    most = worse(most, fabs(seen_number(t, x.probe.norm) / x.norm - 1.0));
    most = worse(most, fabs(x.probe.diameter / x.diameter - 1.0));
    return most;
}

/* Several steps: the distance from the first state, over the bound by the lengths of the steps. */
static double drift_bound(trial *t) {
    enum { LAYERS = 6 };
    double most = 0.0;
    double *w = normals(t, M * WIDTH, 1.0), *h = normals(t, WIDTH, 1.0), z[M], last[M];
    double steps[LAYERS], sum = 0.0, printed = NAN, sharp = NAN, norm = 0.0;
    const double size = pow(10.0, between(t, -2.0, 0.5));
    for (int j = 0; j < M; j++) z[j] = dot(w + j * WIDTH, h, WIDTH);
    for (int l = 0; l < LAYERS; l++) {
        double *dh = normals(t, WIDTH, size);
        for (int k = 0; k < WIDTH; k++) h[k] += dh[k];
        sum += steps[l] = two_norm(dh, WIDTH);
    }
    for (int j = 0; j < M; j++) {
        last[j] = dot(w + j * WIDTH, h, WIDTH);
        norm = fmax(norm, two_norm(w + j * WIDTH, WIDTH));
    }
    ota_probe probe;
    if (ota_probe_of(w, OTA_F64, M, WIDTH, &probe, NULL, NULL) < 0 ||
        ota_drift_bound(&probe, steps, LAYERS, &printed, &sharp, NULL, NULL) < 0) {
        return NAN;
    }
    const double l1 = statement_softmax_distance(z, last, M, 1.0);
    most = worse(most, fmax(l1 / printed, l1 / sharp) - 1.0);
    most = worse(most, fabs(seen_number(t, printed / fmin(2.0, norm * sum)) - 1.0));
    return most;
}

/* The ratios of many steps and their summary, against formulas on the sorted ratios. */
static double ratio_summary(trial *t) {
    double *ratios = numbers(t, TRIALS), mean = 0.0, square = 0.0;
    for (int k = 0; k < TRIALS; k++) {
        const probed x = probe(t, k);
        ratios[k] = x.l1 / (x.probe.norm * x.step);
        mean += ratios[k] / (double)TRIALS;
    }
    ota_summary summary;
    if (ota_summary_of(ratios, TRIALS, &summary, NULL, NULL) < 0) return NAN;
    for (int k = 0; k < TRIALS; k++) square += (ratios[k] - mean) * (ratios[k] - mean);
    qsort(ratios, TRIALS, sizeof *ratios, ascending);
    const double at = 0.95 * (TRIALS - 1);
    const double p95 = ratios[(int)at] + (at - floor(at)) * (ratios[(int)at + 1] - ratios[(int)at]);
    double most = fabs(seen_number(t, summary.mean) - mean);
    most = worse(most, fabs(summary.deviation - sqrt(square / (TRIALS - 1))));
    most = worse(most, fabs(summary.median - 0.5 * (ratios[TRIALS / 2 - 1] + ratios[TRIALS / 2])));
    most = worse(most, fabs(summary.p95 - p95));
    most = worse(most, fabs(summary.maximum - ratios[TRIALS - 1]));
    return worse(most, fabs(summary.minimum - ratios[0]));
}

static double largest_ratio(trial *t) {
    double most = 0.0;
    for (int k = 0; k < TRIALS; k++) {
        const probed x = probe(t, k);
        most = worse(most, seen_number(t, x.l1 / (x.probe.norm * x.step)));
    }
    return most;
}

static const statement_check table[] = {
    AT_MOST("TOT-21", "||dp||_1 over ||dz||_inf / T, minus 1; both against loops", lipschitz_bound,
            1e-10, TRIALS),
    AT_LEAST("TOT-21", "two symbols: (ratio - 1) / step^2", two_symbols, -1.0),
    AT_MOST("TOT-22", "Jacobian norm over all sets of symbols", jacobian_norm, 1e-14, 60),
    AT_MOST("TOT-22", "norm over 4 eps (1 - eps), minus 1, eps to 1e-30", norm_is_linear, 1e-14),
    PRINTED_AT_MOST("TOT-22", "the gradient vanishes quadratically: norm / eps^2 (E11)",
                    norm_is_quadratic, 100.0),
    AT_MOST("TOT-23", "p' - p against the path integral of J dz", path_integral, 1e-12, 20),
    AT_MOST("TOT-24", "||dp||_1 over ||W|| ||dh||, minus 1; the bound's formula", probe_bound,
            1e-10, TRIALS),
    PRINTED_AT_LEAST("TOT-24", "a step along the largest row attains it: best ratio (E12)",
                     aligned_ratio, 1.0 - 1e-6),
    AT_MOST("DER-20", "TV over tanh(osc/4) and tanh(diameter ||dh||/4), minus 1", sharp_probe_bound,
            1e-10, TRIALS),
    AT_LEAST("DER-20", "least ratio on two symbols through the middle", sharp_probe_attained,
             1.0 - 1e-14),
    AT_MOST("TOT-25", "row norm and diameter of W by loops, relative", probe_norms, 1e-15, 30),
    AT_MOST("TOT-26", "drift over six steps over its bounds, minus 1", drift_bound, 1e-10, 100),
    AT_MOST("TOT-27", "largest tightness ratio of 300 steps", largest_ratio, 1.0),
    AT_MOST("TOT-27", "mean, deviation, median, p95 of the ratios", ratio_summary, 1e-14),
};
CHECK_GROUP(statement_checks_bounds, table);
