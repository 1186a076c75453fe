/* The studies of single rows of scores, of the probe on top of them, and of time: variance of scores [LIT-04],
 * the score-function gradient [LIT-20], cost [TOT-19], saturation [TOT-35, 118], the probe's norm [TOT-92],
 * tightness of the Lipschitz bound [TOT-117]. */
#include "studies.h"

/* Variance of Q K^T and of Q K^T / sqrt(d), Q, K [n][d] standard normal: half the mean square of
 * log(p_ij / p_ij+1). */
void study_variance(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->samples / 2 * 2;
    for (int64_t width = 2; width <= sizes->size; width *= 2) {
        t->used = 0;
        head *h = statement_attention_head(t, n, n, width, normals(t, n * width, 1.0),
                                           normals(t, n * width, 1.0));
        for (int scaled = 0; scaled < 2; scaled++) {
            double sum = 0.0;
            h->problem.scale = scaled ? 0.0 : 1.0;
            statement_solve(t, h, "softmax", 1.0, 0.0);
            for (int64_t k = 0; k < n * n; k += 2) {
                const double apart = log(h->p[k] / h->p[k + 1]);
                sum += apart * apart;
            }
            add_point(points, scaled ? "divided by sqrt(d)" : "as they are", (double)width,
                      sum / (double)(n * n));
        }
        add_point(points, "d", (double)width, (double)width);
    }
}

/* Mean over the draws of (u_k - b)(1[j = k] - p_j) from how often each k was drawn. */
static double estimate_error(const double *p, const double *u, const double *share, double baseline,
                             const double *gradient, int64_t m) {
    double sum = 0.0, mean = 0.0;
    for (int64_t k = 0; k < m; k++) mean += share[k] * (u[k] - baseline);
    for (int64_t j = 0; j < m; j++) {
        const double error = share[j] * (u[j] - baseline) - p[j] * mean + gradient[j];
        sum += error * error;
    }
    return sum;
}

/* Sum over j of the variance of one draw. */
static double draw_variance(const double *p, const double *u, double baseline,
                            const double *gradient, int64_t m) {
    double variance = -dot(gradient, gradient, m);
    for (int64_t k = 0; k < m; k++) {
        for (int64_t j = 0; j < m; j++) {
            const double x = (u[k] - baseline) * ((j == k ? 1.0 : 0.0) - p[j]);
            variance += p[k] * x * x;
        }
    }
    return variance;
}

/* Root mean square error of the estimate of -dL/ds by draws, without a baseline and with E u; u is shifted
 * by 5, which a baseline takes away. */
void study_reinforce(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t m = sizes->size;
    static const char *const names[2][2] = {{"no baseline", "no baseline, by formula"},
                                            {"baseline E u", "baseline E u, by formula"}};
    double *p = distribution(t, m, 1.0), *u = normals(t, m, 1.0), *gradient = numbers(t, m);
    double *share = numbers(t, m);
    for (int64_t j = 0; j < m; j++) u[j] += 5.0;
    if (ota_advantage(p, u, m, 1.0, NULL, gradient, NULL, NULL) < 0) return;
    const double baselines[2] = {0.0, dot(p, u, m)};
    for (int64_t draws = 8; draws <= sizes->rounds; draws *= 2) {
        double square[2] = {0.0};
        for (int64_t repeat = 0; repeat < sizes->samples; repeat++) {
            memset(share, 0, (size_t)m * sizeof *share);
            for (int64_t draw = 0; draw < draws; draw++) {
                double left = uniform(t);
                int64_t k = 0;
                while (k < m - 1 && left >= p[k]) left -= p[k++];
                share[k] += 1.0 / (double)draws;
            }
            for (int way = 0; way < 2; way++)
                square[way] += estimate_error(p, u, share, baselines[way], gradient, m);
        }
        for (int way = 0; way < 2; way++) {
            const double variance = draw_variance(p, u, baselines[way], gradient, m);
            add_point(points, names[way][0], (double)draws,
                      sqrt(square[way] / (double)sizes->samples));
            add_point(points, names[way][1], (double)draws, sqrt(variance / (double)draws));
        }
    }
}

void study_complexity(trial *t, const study_sizes *sizes, study_points *points) {
    for (int64_t keys = 64; keys <= sizes->size; keys *= 2) {
        add_point(points, "4 balanced rounds, V x V", (double)keys,
                  statement_forward_seconds(t, keys, 4));
        add_point(points, "8 softmax rows of V keys", 64.0 * (double)keys,
                  statement_forward_seconds(t, 64 * keys, 0));
    }
}

/* Share of rows with 1 - max p < 1e-4 against temperature, scores normal. */
void study_saturated(trial *t, const study_sizes *sizes, study_points *points) {
    enum { TEMPERATURES = 25 };
    const int64_t m = sizes->size, rows = sizes->samples;
    static const char *const names[] = {"4", "8", "16"};
    for (int k = 0; k < 3; k++) {
        t->used = 0;
        const double *s = normals(t, rows * m, atof(names[k]));
        for (int64_t at = 0; at < TEMPERATURES; at++) {
            const double temperature = geometric(at, TEMPERATURES, 0.25, 4.0);
            double share = NAN;
            (void)ota_saturated_fraction(&(ota_matrix){s, OTA_F64, rows, m}, temperature, 1e-4,
                                         &share, NULL, NULL);
            add_point(points, names[k], temperature, share);
        }
    }
}

/* One step of the hidden state under a probe W [V][16] scaled by a factor: what p moves by in l1, and what
 * it may move by. */
void study_probe(trial *t, const study_sizes *sizes, study_points *points) {
    enum { WIDTH = 16 };
    const int64_t V = sizes->size;
    double *w = normals(t, V * WIDTH, 1.0), *scaled = numbers(t, V * WIDTH);
    double *h = normals(t, WIDTH, 0.1), *step = normals(t, WIDTH, 1.0);
    double *before = numbers(t, V), *after = numbers(t, V);
    const double length = 0.1, unit = length / sqrt(dot(step, step, WIDTH));
    for (int64_t k = 0; k < sizes->samples; k++) {
        const double factor = geometric(k, sizes->samples, 0.1, 10.0);
        double printed = NAN, sharp = NAN;
        ota_probe probe;
        ota_lipschitz moved;
        for (int64_t j = 0; j < V * WIDTH; j++) scaled[j] = factor * w[j];
        for (int64_t j = 0; j < V; j++) {
            before[j] = dot(scaled + j * WIDTH, h, WIDTH);
            after[j] = before[j] + unit * dot(scaled + j * WIDTH, step, WIDTH);
        }
        if (ota_probe_of(scaled, OTA_F64, V, WIDTH, &probe, NULL, NULL) < 0 ||
            ota_drift_bound(&probe, &length, 1, &printed, &sharp, NULL, NULL) < 0 ||
            ota_lipschitz_of(before, after, OTA_F64, V, 1.0, &moved, NULL, NULL) < 0) {
            continue;
        }
        add_point(points, "printed bound", factor, printed);
        add_point(points, "sharp bound", factor, sharp);
        add_point(points, "measured", factor, moved.l1);
    }
}

/* Two symbols, a step e in v = (1, -1), from the middle and across it: ||dp||_1 over both bounds. */
void study_lipschitz(trial *t, const study_sizes *sizes, study_points *points) {
    static const char *const names[2][2] = {
        {"printed bound, from the middle", "sharp bound, from the middle"},
        {"printed bound, across it", "sharp bound, across it"}};
    (void)t;
    for (int64_t k = 0; k < sizes->samples; k++) {
        const double e = geometric(k, sizes->samples, 0.01, 10.0);
        for (int across = 0; across < 2; across++) {
            const double from = across ? -e / 2.0 : 0.0;
            const double z[2] = {from, -from}, w[2] = {from + e, -from - e};
            ota_lipschitz x;
            if (ota_lipschitz_of(z, w, OTA_F64, 2, 1.0, &x, NULL, NULL) < 0) continue;
            add_point(points, names[across][0], e, x.l1 / x.printed);
            add_point(points, names[across][1], e, x.l1 / x.sharp);
        }
    }
}

/* z = (10, 0), dz = (0, x): the first symbol stays the largest up to x = 10, and 2 eps is passed at once. */
void study_counterexample(trial *t, const study_sizes *sizes, study_points *points) {
    (void)t;
    for (int64_t k = 1; k <= sizes->samples; k++) {
        const double x = 12.0 * (double)k / (double)sizes->samples;
        const double z[2] = {10.0, 0.0}, w[2] = {10.0, x};
        ota_saturation s;
        if (ota_saturation_of(z, w, OTA_F64, 2, 1.0, &s, NULL, NULL) < 0) continue;
        add_point(points, "l1 change", x, 2.0 * s.tv);
        add_point(points, "printed: 2 eps", x, s.printed);
        add_point(points, "2 max(eps, eps')", x, 2.0 * s.bound);
    }
}
