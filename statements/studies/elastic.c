/* The studies of the elastic update g <- g - lambda tau log c and of annealing [ELA-15..19, DER-06]. */
#include "studies.h"

static double l1_between(const double *p, const double *q, int64_t n) {
    double sum = 0.0;
    for (int64_t k = 0; k < n * n; k++) sum += fabs(p[k] - q[k]);
    return sum / (double)n;
}

/* The elastic plan after `steps` rounds. */
static head *after(trial *t, int64_t n, double *s, double lambda, int64_t steps) {
    head *h = statement_head(t, n, n, s);
    h->problem.lambda = lambda;
    h->problem.columns = OTA_COLUMNS_ELASTIC;
    h->problem.steps = steps;
    statement_solve(t, h, NULL, 1.0, 0.0);
    return h;
}

/* Imbalance after each round of the elastic update. */
void study_elastic(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size;
    static const char *const names[] = {"0", "0.25", "0.5", "1"};
    double *s = normals(t, n * n, 1.0);
    const size_t used = t->used;
    for (int k = 0; k < 4; k++) {
        for (int64_t round = 0; round <= sizes->rounds; round++) {
            const head *h = after(t, n, s, atof(names[k]), round);
            add_point(points, names[k], (double)round, h->certificate.delta);
            t->used = used;
        }
    }
}

/* Measured and predicted factor of the column error a round against lambda, from the fixed point put off by
 * 1e-5; the global limit 2/(1 + tanh^2(Delta/4)) and the local one 2/(1 - sigma_n^2) as upright lines. */
void study_stability(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size;
    double *l = normals(t, n * n, 0.8), *start = numbers(t, n), *g = numbers(t, n);
    double *errors = numbers(t, sizes->rounds);
    ota_contraction contraction;
    ota_coupling_spectrum spectrum;
    head *exact = statement_plan(t, n, n, l, "softmax/exact", 1.0, 1e-13);
    if (ota_contraction_of(l, n, n, &contraction, NULL, NULL) < 0 ||
        ota_coupling_spectrum_of(exact->p, n, n, 0, &spectrum, NULL, NULL) < 0) {
        return;
    }
    for (int64_t j = 0; j < n; j++) start[j] = exact->g[j] + 1e-5 * normal(t);
    for (int64_t k = 1; k <= sizes->samples; k++) {
        const double lambda = 2.2 * (double)k / (double)sizes->samples;
        double rate = NAN;
        memcpy(g, start, (size_t)n * sizeof *g);
        const int64_t rounds =
            statement_lengthened_rounds(t, l, n, lambda, 1e-13, sizes->rounds, g, errors);
        /* The fast modes are gone by then. */
        const int64_t from = rounds > 12 ? rounds / 3 : 0;
        (void)ota_rate_measured(errors + from, rounds - from, &rate, NULL, NULL);
        add_point(points, "measured", lambda, rate);
        add_point(points, "predicted", lambda,
                  ota_rate_one_sided(lambda, spectrum.second, spectrum.least));
    }
    for (int end = 0; end < 2; end++) {
        add_point(points, "stable from any start below",
                  2.0 / (1.0 + contraction.rate * contraction.rate), 1.25 * end);
        add_point(points, "stable near the plan below", 2.0 / (1.0 - spectrum.least), 1.25 * end);
    }
}

static double rounds_to(trial *t, double *cost, int64_t n, int64_t most, double tau, double start,
                        double tolerance) {
    head *h = statement_head(t, n, n, cost);
    h->problem.cost = 1;
    h->options.solver = "sinkhorn";
    h->options.max_rounds = most;
    h->options.anneal_start = start;
    statement_solve(t, h, "softmax/exact", tau, tolerance);
    return h->status == OTA_OK ? (double)h->result.rounds : (double)NAN;
}

/* Mean rounds with and without annealing from 1, costs U[0,1]. */
void study_annealing(trial *t, const study_sizes *sizes, study_points *points) {
    enum { TAUS = 6, FINE = 4 };
    const int64_t n = sizes->size;
    static const double taus[TAUS] = {0.05, 0.02, 0.01, 0.005, 0.002, 0.001};
    static const char *const names[4] = {"direct, error 1e-2", "annealed, error 1e-2",
                                         "direct, error 1e-6", "annealed, error 1e-6"};
    double rounds[4][TAUS] = {{0.0}};
    for (int64_t sample = 0; sample < sizes->samples; sample++) {
        t->used = 0;
        double *cost = uniforms(t, n * n, 0.0, 1.0);
        const size_t used = t->used;
        for (int way = 0; way < 4; way++) {
            /* A fine error at the coldest would take longer than all the rest together. */
            for (int k = 0; k < (way < 2 ? TAUS : FINE); k++) {
                rounds[way][k] +=
                    rounds_to(t, cost, n, sizes->rounds, taus[k], way % 2, way < 2 ? 1e-2 : 1e-6);
                t->used = used;
            }
        }
    }
    for (int way = 0; way < 4; way++) {
        for (int k = 0; k < (way < 2 ? TAUS : FINE); k++)
            add_point(points, names[way], taus[k], rounds[way][k] / (double)sizes->samples);
    }
}

/* Distance of p from the relaxed plan of strength e^x. */
static double from_relaxed(trial *t, int64_t n, double *s, double x, const double *p) {
    const size_t used = t->used;
    head *h = statement_head(t, n, n, s);
    h->problem.columns = OTA_COLUMNS_RELAXED;
    h->problem.strength = exp(x);
    const double distance = l1_between(p, statement_solve(t, h, NULL, 1.0, 1e-9), n);
    t->used = used;
    return distance;
}

/* Distance of an elastic plan from the nearest relaxed one, over the distance softmax - exact; by golden
 * section in the logarithm of the strength, .02 to 2000, and the exact plan itself. */
void study_relaxed(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size;
    const double golden = 0.6180339887498949;
    static const char *const names[] = {"0.1", "0.25", "0.5", "1"};
    double *s = normals(t, n * n, 1.0);
    head *soft = statement_plan(t, n, n, s, "softmax", 1.0, 0.0);
    head *exact = statement_plan(t, n, n, s, "softmax/exact", 1.0, 1e-11);
    const double whole = l1_between(soft->p, exact->p, n);
    const size_t used = t->used;
    for (int k = 0; k < 4; k++) {
        for (int64_t round = 1; round <= sizes->rounds; round++) {
            const double *p = after(t, n, s, atof(names[k]), round)->p;
            double low = log(0.02), high = log(2000.0);
            double left = high - golden * (high - low), right = low + golden * (high - low);
            double at_left = from_relaxed(t, n, s, left, p),
                   at_right = from_relaxed(t, n, s, right, p);
            while (high - low > 0.05) {
                if (at_left < at_right) {
                    high = right, right = left, at_right = at_left;
                    at_left = from_relaxed(t, n, s, left = high - golden * (high - low), p);
                } else {
                    low = left, left = right, at_left = at_right;
                    at_right = from_relaxed(t, n, s, right = low + golden * (high - low), p);
                }
            }
            const double least = fmin(fmin(at_left, at_right), l1_between(p, exact->p, n));
            add_point(points, names[k], (double)round, least / whole);
            t->used = used;
        }
    }
}

/* Imbalance along the annealed update, costs U[0,1], epsilon from 1 to .01 in `rounds` stages of one round;
 * after round r the path is that of an anneal that ends there. */
void study_annealed_path(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size;
    static const double lambdas[] = {0.25, 0.5, 1.0};
    static const char *const names[2][3] = {
        {"g kept, lambda 0.25", "g kept, lambda 0.5", "g kept, lambda 1"},
        {"v kept, lambda 0.25", "v kept, lambda 0.5", "v kept, lambda 1"}};
    double *cost = uniforms(t, n * n, 0.0, 1.0);
    const double factor = pow(0.01, 1.0 / (double)(sizes->rounds - 1));
    const size_t used = t->used;
    for (int way = 0; way < 2; way++) {
        for (int k = 0; k < 3; k++) {
            for (int64_t round = 1; round <= sizes->rounds; round++) {
                head *h = statement_head(t, n, n, cost);
                h->problem.cost = 1;
                h->problem.lambda = lambdas[k];
                h->problem.columns = OTA_COLUMNS_ELASTIC;
                h->problem.steps = round;
                h->options.anneal_start = 1.0;
                h->options.anneal_factor = factor;
                h->options.anneal_keep_scaling = way;
                statement_solve(t, h, NULL, pow(factor, (double)(round - 1)), 0.0);
                add_point(points, names[way][k], (double)round, h->certificate.delta);
                t->used = used;
            }
        }
    }
}

/* Distance to the exact plan against lambda T, and what is left of the slowest mode, exp(-lambda T
 * (1 - sigma_2^2)), through the last point of the smallest lambda. */
void study_time(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size;
    static const int64_t rounds_a_unit[] = {20, 10, 4, 2, 1};
    static const char *const names[] = {"0.05", "0.1", "0.25", "0.5", "1"};
    double *s = normals(t, n * n, 1.0), last = NAN;
    head *exact = statement_plan(t, n, n, s, "softmax/exact", 1.0, 1e-13);
    const size_t used = t->used;
    for (int k = 0; k < 5; k++) {
        for (int64_t unit = 0; unit <= sizes->rounds; unit++) {
            const head *h = after(t, n, s, atof(names[k]), unit * rounds_a_unit[k]);
            const double distance = l1_between(h->p, exact->p, n);
            if (k == 0) last = distance;
            add_point(points, names[k], (double)unit, distance);
            t->used = used;
        }
    }
    ota_coupling_spectrum spectrum;
    if (ota_coupling_spectrum_of(exact->p, n, n, 0, &spectrum, NULL, NULL) < 0) return;
    for (int64_t unit = 0; unit <= sizes->rounds; unit++) {
        add_point(points, "slowest mode alone", (double)unit,
                  last * exp((double)(sizes->rounds - unit) * (1.0 - spectrum.second)));
    }
}
