/* Group B and H, rounds of a solve: how fast they contract, how many a tolerance takes, what relaxation saves and where
 * it stops converging [DER-07..09, ELA-15, TOT-99..101, 103]. L = S at tau = 1, P = exp(L + f + g) [n][n]; every round
 * here is a solver's own, seen by what its progress tells or by the potentials of solves of so many rounds. */
#include "statements/check.h"

/* ---- what progress tells ---- */

enum { SIZE = 24, MOST = 4000 };

/* Column errors by round. */
typedef struct history {
    double errors[MOST + 1];
    int64_t rounds; /* -1: the solve did not end well */
    double rate;    /* of the errors' last half */
} history;

static void hear(void *user, const ota_progress *progress) {
    history *h = user;
    if (progress->round <= MOST) h->errors[progress->round] = progress->residual;
}

/* A solver by name: its rounds are the plain ones, whatever else could be faster. */
static const char *const solvers[] = {"log", "sinkhorn"};

/* relaxation 0: none; automatic: chosen from the measured rate. */
static const double automatic = -1.0;

/* The method at temperature 1 to the tolerance (0: for the rounds it says). */
static history *listen(trial *t, double *s, int solver, const char *method, double relaxation,
                       double tolerance) {
    history *h = take(t, sizeof *h);
    const size_t used = t->used;
    head *x = statement_head(t, SIZE, SIZE, s);
    x->options.solver = solvers[solver];
    x->options.relaxation = fmax(0.0, relaxation);
    x->options.relaxation_auto = relaxation < 0.0;
    x->options.max_rounds = MOST;
    x->options.progress = hear;
    x->options.progress_user = h;
    statement_solve(t, x, method, 1.0, tolerance);
    h->rounds = x->status >= OTA_OK ? x->result.rounds : -1;
    h->rate = NAN;
    if (h->rounds > 0) (void)ota_rate_measured(h->errors, h->rounds + 1, &h->rate, NULL, NULL);
    h->rate = seen_number(t, h->rate);
    t->used = used;
    return h;
}

/* NaN where there is none; only `second` counts where `rounds` end the search for the other end. */
static ota_coupling_spectrum spectrum_of(trial *t, double *s, int64_t rounds) {
    const size_t used = t->used;
    ota_coupling_spectrum spectrum = {.second = NAN, .least = NAN, .second_residual = NAN};
    head *x = statement_plan(t, SIZE, SIZE, s, "softmax/exact", 1.0, 1e-12);
    if (x->status == OTA_OK)
        (void)told(t, ota_coupling_spectrum_of(x->p, SIZE, SIZE, rounds, &spectrum, NULL, NULL));
    if (!(spectrum.second_residual <= 1e-5)) spectrum.second = NAN;
    t->used = used;
    return spectrum;
}

typedef struct kernel {
    double *s;
    ota_coupling_spectrum spectrum; /* of its plan */
} kernel;

/* Gaussian scores in two groups that see less and less of one another, until sigma_2^2 of their plan is `second`, within
 * a hundredth of 1 - second: one slow mode, well apart from the others. */
static kernel kernel_of(trial *t, double second) {
    enum { FEW = 400 };
    double *s = numbers(t, SIZE * SIZE), *drawn = normals(t, SIZE * SIZE, 0.7);
    double low = 0.0, high = 20.0;
    kernel found = {.s = s, .spectrum = {.second = NAN, .least = NAN}};
    for (int step = 0; step < 40; step++) {
        const double link = 0.5 * (low + high);
        for (int k = 0; k < SIZE * SIZE; k++)
            s[k] = drawn[k] - ((k / SIZE < SIZE / 2) != (k % SIZE < SIZE / 2) ? link : 0.0);
        const ota_coupling_spectrum here = spectrum_of(t, s, FEW);
        if (fabs(here.second - second) <= 0.01 * (1.0 - second)) {
            found.spectrum = spectrum_of(t, s, 0);
            return found;
        }
        *(here.second < second ? &low : &high) = link;
    }
    return found;
}

/* ---- rates ---- */

static double predicted_rates(trial *t) {
    static const struct {
        double second, relaxation;
        const char *method;
    } runs[] = {{0.9, 0.3, NULL},
                {0.9, 1.0, NULL},
                {0.9, 1.5, NULL},
                {0.43, 1.9, NULL},
                {0.9, 0.5, "elastic:0.5,400"},
                {0.43, 1.8, "elastic:1.8,120"}};
    double most = 0.0;
    kernel kernels[2] = {kernel_of(t, 0.9), kernel_of(t, 0.43)};
    for (int k = 0; k < 6; k++) {
        const kernel *x = &kernels[runs[k].second < 0.5];
        const double predicted =
            ota_rate_one_sided(runs[k].relaxation, x->spectrum.second, x->spectrum.least);
        const bool elastic = runs[k].method != NULL;
        for (int solver = 0; solver < 2; solver++) {
            const history *h = listen(t, x->s, solver, elastic ? runs[k].method : "softmax/exact",
                                      elastic ? 0.0 : runs[k].relaxation, elastic ? 0.0 : 1e-12);
            most = worse(most, fabs(h->rate / predicted - 1.0));
        }
    }
    return most;
}

static double rate_formula(trial *t) {
    const double second = uniform(t), least = second * uniform(t), lambda = 2.0 * uniform(t);
    const double formula =
        fmax(fabs(1.0 - lambda * (1.0 - second)), fabs(1.0 - lambda * (1.0 - least)));
    return fabs(seen_number(t, ota_rate_one_sided(lambda, second, least)) - formula);
}

/* Rate of plain rounds over sigma_2^2, minus 1. */
static double empirical_rate(trial *t) {
    double most = 0.0;
    for (int k = 0; k < 2; k++) {
        kernel x = kernel_of(t, k == 0 ? 0.8 : 0.95);
        for (int solver = 0; solver < 2; solver++) {
            const history *h = listen(t, x.s, solver, "softmax/exact", 0.0, 1e-12);
            most = worse(most, fabs(h->rate / x.spectrum.second - 1.0));
        }
    }
    return most;
}

static double synthetic_rate(trial *t) {
    double errors[40];
    const double rate = between(t, 0.1, 0.999);
    double measured = NAN;
    for (int k = 0; k < 40; k++) errors[k] = 3.0 * pow(rate, k);
    (void)ota_rate_measured(errors, 40, &measured, NULL, NULL);
    return fabs(seen_number(t, measured) - rate);
}

/* ---- relaxation ---- */

static double best_one_sided_formula(trial *t) {
    double most = 0.0;
    const double second = uniform(t), least = second * uniform(t);
    double rate = NAN;
    const double lambda = seen_number(t, ota_best_one_sided(second, least, &rate));
    most = worse(most, fabs(lambda - 2.0 / (2.0 - second - least)));
    most = worse(most, fabs(rate - (second - least) / (2.0 - second - least)));
    return most;
}

static double best_two_sided_formula(trial *t) {
    double most = 0.0;
    const double second = uniform(t);
    double rate = NAN;
    const double omega = seen_number(t, ota_best_two_sided(second, &rate));
    most = worse(most, fabs(omega - 2.0 / (1.0 + sqrt(1.0 - second))));
    most = worse(most, fabs(rate - (omega - 1.0)));
    return most;
}

/* sigma_2^2 of the errata's three kernels, and how many times fewer rounds both sides relaxed take there. */
static const double slow[3] = {0.43, 0.95, 0.99}, printed_two_sided[3] = {1.9, 6.6, 15.0};

/* Rates of the best one-sided relaxation over the predicted ones, minus 1; at .43 the history is too short. */
static double best_one_sided_rate(trial *t) {
    double most = 0.0;
    for (int k = 1; k < 3; k++) {
        kernel x = kernel_of(t, slow[k]);
        double rate = NAN;
        const double lambda = ota_best_one_sided(x.spectrum.second, x.spectrum.least, &rate);
        const history *h = listen(t, x.s, k % 2, "softmax/exact", lambda, 1e-10);
        most = worse(most, fabs(h->rate / rate - 1.0));
    }
    return most;
}

/* How many times fewer rounds it takes; NaN where one of the solves does not end. */
static double one_sided_factor(trial *t, double second) {
    kernel x = kernel_of(t, second);
    const double lambda = ota_best_one_sided(x.spectrum.second, x.spectrum.least, NULL);
    const history *plain = listen(t, x.s, 0, "softmax/exact", 0.0, 1e-10);
    const history *fast = listen(t, x.s, 1, "softmax/exact", lambda, 1e-10);
    if (plain->rounds < 1 || fast->rounds < 1) return NAN;
    return seen_too(t, (double)plain->rounds / (double)fast->rounds);
}

/* The median over eleven kernels, since where one starts moves its factor: outside 1.4 to 1.8 by. */
static double one_sided_speed_up(trial *t) {
    enum { KERNELS = 11 };
    double most = 0.0, saved[KERNELS];
    for (int k = 1; k < 3; k++) {
        for (int draw = 0; draw < KERNELS; draw++) {
            double factor = one_sided_factor(t, slow[k]);
            int place = draw;
            if (isnan(factor)) return NAN;
            for (; place > 0 && saved[place - 1] > factor; place--) saved[place] = saved[place - 1];
            saved[place] = factor;
        }
        most = worse(most, fmax(1.4 - saved[KERNELS / 2], saved[KERNELS / 2] - 1.8));
    }
    return most;
}

static double least_one_sided_speed_up(trial *t) { return one_sided_factor(t, slow[0]); }

/* Rounds of --relaxation auto beyond the WATCHED before it may act, over what the printed factors leave of plain ones. */
static double two_sided_rounds(trial *t) {
    enum { WATCHED = 6 };
    double most = 0.0;
    for (int k = 0; k < 3; k++) {
        kernel x = kernel_of(t, slow[k]);
        const history *plain = listen(t, x.s, k % 2, "softmax/exact", 0.0, 1e-10);
        const history *fast = listen(t, x.s, k % 2, "softmax/exact", automatic, 1e-10);
        const double left = (double)plain->rounds / printed_two_sided[k];
        const double rounds =
            fast->rounds > 0 && plain->rounds > 0 ? (double)(fast->rounds - WATCHED) : (double)NAN;
        most = worse(most, seen_number(t, rounds / left));
    }
    return most;
}

/* Its rate over omega - 1, minus 1; at .43 it has ended before its rate shows. */
static double two_sided_rate(trial *t) {
    double most = 0.0;
    for (int k = 1; k < 3; k++) {
        kernel x = kernel_of(t, slow[k]);
        double rate = NAN;
        (void)ota_best_two_sided(x.spectrum.second, &rate);
        const history *h = listen(t, x.s, k % 2, "softmax/exact", automatic, 1e-12);
        most = worse(most, fabs(h->rate / rate - 1.0));
    }
    return most;
}

/* ---- contraction and bounds ---- */

enum { SMALL = 8 };

/* How a solve is asked for. */
typedef struct asked {
    int64_t n;          /* 0: SMALL */
    const char *solver; /* NULL: what comes by itself */
    double relaxation;
    double *mass; /* of rows and columns; NULL: 1 */
} asked;

static const char *const every_solver[] = {"log", "sinkhorn", NULL};

static head *asked_head(trial *t, double *s, const asked *how) {
    const int64_t n = how->n > 0 ? how->n : SMALL;
    head *x = statement_head(t, n, n, s);
    x->options.solver = how->solver;
    x->options.relaxation = how->relaxation;
    x->row_mass = x->column_mass = how->mass;
    return x;
}

static head *after_rounds(trial *t, double *s, const asked *how, int64_t rounds) {
    head *x = asked_head(t, s, how);
    x->options.rounds = rounds > 0 ? rounds : OTA_NO_ROUNDS;
    statement_solve(t, x, "softmax/exact", 1.0, 0.0);
    return x;
}

static double hilbert(const double *a, const double *b, int64_t n) {
    double distance = NAN;
    (void)ota_hilbert_log(a, b, n, &distance, NULL, NULL);
    return distance;
}

/* tanh(Delta/4) */
static double rate_of(const double *s, int64_t n) {
    ota_contraction c = {.rate = NAN};
    (void)ota_contraction_of(s, n, n, &c, NULL, NULL);
    return c.rate;
}

/* d_H of successive potentials, from the start on until they hardly change: g_1 g_0, f_1 f_0, g_2 g_1 ...; how many. */
static int64_t changes_of(trial *t, double *s, const asked *how, double *changes, int64_t most) {
    int64_t count = 0;
    const head *before = after_rounds(t, s, how, 0);
    for (int64_t round = 1; count + 2 <= most; round++) {
        const head *now = after_rounds(t, s, how, round);
        changes[count] = hilbert(now->g, before->g, now->n);
        changes[count + 1] = hilbert(now->f, before->f, now->n);
        if (!(changes[count + 1] > 1e-9)) break;
        count += 2;
        before = now;
    }
    return count;
}

/* Changes over rate^steps times the change so many half steps before: the largest, and the last. */
typedef struct contraction {
    double largest, last;
} contraction;

static contraction contraction_over(trial *t, double *s, int64_t n, int64_t steps) {
    enum { CHANGES = 80 };
    double changes[CHANGES], power = pow(rate_of(s, n), (double)steps);
    const asked how = {.n = n, .solver = every_solver[t->draw % 3]};
    const int64_t count = changes_of(t, s, &how, changes, CHANGES);
    contraction found = {0.0, NAN};
    for (int64_t k = steps; k < count; k++) {
        found.last = seen_too(t, changes[k] / (changes[k - steps] * power));
        found.largest = worse(found.largest, found.last);
    }
    if (count < 8) found.largest = found.last = NAN;
    return found;
}

static double half_step_contraction(trial *t) {
    return contraction_over(t, normals(t, SMALL * SMALL, 0.7), SMALL, 1).largest;
}

static double round_contraction(trial *t) {
    return contraction_over(t, normals(t, SMALL * SMALL, 0.7), SMALL, 2).largest;
}

/* Two rows and columns have one mode, and near the plan it contracts as slowly as any kernel of this Delta may. */
static double attained_contraction(trial *t) {
    double *s = normals(t, 4, 0.3);
    s[0] += 2.0;
    s[3] += 2.0;
    return fabs(contraction_over(t, s, 2, 2).last - 1.0);
}

static double *equal_masses(trial *t) {
    double *mass = numbers(t, SMALL);
    for (int j = 0; j < SMALL; j++) mass[j] = 1.0 / (double)SMALL;
    return mass;
}

/* Rounds to a column error of delta, the first row update among them. */
static double rounds_to(trial *t, double *s, const asked *how, double delta) {
    head *x = asked_head(t, s, how);
    statement_solve(t, x, "softmax/exact", 1.0, delta);
    return x->status == OTA_OK ? 1.0 + (double)x->result.rounds : (double)NAN;
}

static double conservative_bound(trial *t) {
    static const double deltas[] = {0.3, 0.1, 0.03};
    double most = 0.0, sum = 0.0, least = HUGE_VAL, *s = normals(t, SMALL * SMALL, 1.5);
    const asked how = {.solver = every_solver[t->draw % 3], .mass = equal_masses(t)};
    for (int k = 0; k < SMALL * SMALL; k++) {
        sum += exp(s[k]);
        least = fmin(least, exp(s[k]));
    }
    for (int k = 0; k < 3; k++) {
        const double bound = ota_iterations_conservative(log(sum / least), deltas[k]);
        most = worse(most, seen_too(t, rounds_to(t, s, &how, deltas[k]) / bound));
    }
    return most;
}

static double conservative_formula(trial *t) {
    const double x = between(t, 1.0, 9.0), delta = between(t, 0.01, 0.5);
    const double bound = ota_iterations_conservative(x, delta);
    return fabs(seen_number(t, bound * delta * delta / (4.0 * x)) - 1.0);
}

static double geometric_bound(trial *t) {
    static const double deltas[] = {1e-2, 1e-5, 1e-8};
    double most = 0.0, first[2], *s = normals(t, SMALL * SMALL, 0.7);
    const asked how = {.solver = every_solver[t->draw % 3], .mass = equal_masses(t)};
    const double rate = rate_of(s, SMALL);
    if (changes_of(t, s, &how, first, 2) < 2) return NAN;
    for (int k = 0; k < 3; k++) {
        const double bound = ota_iterations_geometric(first[0], rate, deltas[k]);
        most = worse(most, seen_too(t, rounds_to(t, s, &how, deltas[k]) / bound));
    }
    return most;
}

/* Column error after t rounds over expm1 of the change that round t + 1 makes of g. */
static double error_by_change(trial *t) {
    double most = 0.0, *s = normals(t, SMALL * SMALL, 1.5);
    const asked how = {.solver = every_solver[t->draw % 3], .mass = equal_masses(t)};
    const head *x = after_rounds(t, s, &how, 0);
    for (int64_t round = 1; round < 12; round++) {
        const head *next = after_rounds(t, s, &how, round);
        double error = 0.0;
        for (int j = 0; j < SMALL; j++) error += fabs(x->columns[j] - how.mass[j]);
        most = worse(most, seen_too(t, error / expm1(hilbert(next->g, x->g, SMALL))));
        x = next;
    }
    return most;
}

static double geometric_formula(trial *t) {
    const double first = between(t, 0.1, 9.0), rate = between(t, 0.05, 0.99);
    const double delta = pow(10.0, between(t, -10.0, -1.0));
    const double rounds = seen_number(t, ota_iterations_geometric(first, rate, delta));
    double formula = 1.0;
    while (expm1(first * pow(rate, 2.0 * (formula - 1.0))) > delta) formula += 1.0;
    return fabs(rounds - formula);
}

/* ---- where relaxation is stable ---- */

/* 2 / (1 + tanh^2(Delta/4)) */
static double safe_relaxation(const double *s) {
    const double rate = rate_of(s, SMALL);
    return 2.0 / (1.0 + rate * rate);
}

static double guaranteed_error(trial *t) {
    double *s = normals(t, SMALL * SMALL, 0.8);
    const asked how = {.solver = solvers[t->draw % 2], .relaxation = 0.98 * safe_relaxation(s)};
    head *x = asked_head(t, s, &how);
    x->options.max_rounds = 3000;
    statement_solve(t, x, "softmax/exact", 1.0, 1e-10);
    return x->status == OTA_OK ? x->certificate.column_error : (double)NAN;
}

/* Changes of g over (|1 - lambda| + lambda rate^2) times the change before. */
static double guaranteed_contraction(trial *t) {
    enum { CHANGES = 40 };
    double changes[CHANGES], most = 0.0, *s = normals(t, SMALL * SMALL, 0.8);
    const double rate = rate_of(s, SMALL), lambda = between(t, 0.2, 0.98 * safe_relaxation(s));
    const asked how = {.solver = solvers[t->draw % 2], .relaxation = lambda};
    const int64_t count = changes_of(t, s, &how, changes, CHANGES);
    for (int64_t k = 2; k < count; k += 2) {
        const double factor = fabs(1.0 - lambda) + lambda * rate * rate;
        most = worse(most, seen_too(t, changes[k] / (changes[k - 2] * factor)));
    }
    return count > 4 ? most : (double)NAN;
}

enum { RUNS = 36 };

typedef struct kernel_run {
    double *s;
    ota_coupling_spectrum spectrum;
} kernel_run;

/* The errata's kernels, scores of deviation 1, 5, 20 that plain rounds solve to 1e-8 in 3000: by their slowest mode too,
 * since one so slow that it starts below 1e-8 would show where relaxation brings it up. How many of `tried`. */
static int tried_kernels(trial *t, int tried, kernel_run *runs) {
    enum { ROUNDS = 3000 };
    static const double deviations[] = {1.0, 5.0, 20.0};
    int count = 0;
    for (int run = 0; run < tried; run++) {
        kernel_run *now = &runs[count];
        *now = (kernel_run){.s = normals(t, SMALL * SMALL, deviations[run % 3]),
                            .spectrum = {.second = NAN}};
        const size_t used = t->used;
        head *x = asked_head(t, now->s, &(asked){.solver = "log"});
        x->options.max_rounds = ROUNDS;
        statement_solve(t, x, "softmax/exact", 1.0, 1e-8);
        ota_coupling_spectrum *to = &now->spectrum;
        if (x->status == OTA_OK)
            (void)told(t, ota_coupling_spectrum_of(x->p, SMALL, SMALL, 0, to, NULL, NULL));
        count += pow(now->spectrum.second, ROUNDS) <= 1e-8;
        t->used = used;
    }
    return count;
}

/* Runs from g = 0 at lambda up to 1.95 that do not come to 1e-8. */
static double failures_below_two(trial *t) {
    static const double lambdas[] = {1.0, 1.5, 1.8, 1.95};
    double failures = 0.0;
    kernel_run runs[RUNS];
    const int count = tried_kernels(t, RUNS, runs);
    const size_t used = t->used;
    for (int run = 0; run < 4 * count; run++) {
        const asked how = {.solver = solvers[run / 4 % 2], .relaxation = lambdas[run % 4]};
        head *x = asked_head(t, runs[run / 4].s, &how);
        x->options.max_rounds = 6000;
        statement_solve(t, x, "softmax/exact", 1.0, 1e-8);
        failures += x->status != OTA_OK;
        t->used = used;
    }
    return count >= RUNS / 3 ? seen_too(t, failures) : (double)NAN;
}

/* Share of runs from g = 0 that do not come to 1e-8. */
static double share_of_failures(trial *t, double lambda) {
    enum { TRIED = 18, ROUNDS = 2000 };
    kernel_run runs[TRIED];
    double errors[ROUNDS], failures = 0.0;
    const int count = tried_kernels(t, TRIED, runs);
    for (int run = 0; run < count; run++) {
        double g[SMALL] = {0.0};
        const int64_t rounds =
            statement_lengthened_rounds(t, runs[run].s, SMALL, lambda, 1e-8, ROUNDS, g, errors);
        failures += !(errors[rounds - 1] <= 1e-8);
    }
    return seen_too(t, failures / count);
}

static double share_at_two(trial *t) { return share_of_failures(t, 2.0); }
static double share_above_two(trial *t) { return share_of_failures(t, 2.05); }

/* From near the plan: 1 % above 2/(1 - sigma_n^2) rounds must not come to 1e-8, 1 % below they must. How many do not. */
static double against_the_limit(trial *t) {
    enum { TRIED = 12, ROUNDS = 3000 };
    kernel_run runs[TRIED];
    double errors[ROUNDS], wrong = 0.0;
    const int count = tried_kernels(t, TRIED, runs);
    for (int run = 0; run < 2 * count; run++) {
        const kernel_run *now = &runs[run / 2];
        const bool above = run % 2 == 0;
        const double limit = 2.0 / (1.0 - now->spectrum.least);
        if (limit > 3.9) continue;
        const size_t used = t->used;
        head *x = statement_plan(t, SMALL, SMALL, now->s, "softmax/exact", 1.0, 1e-12);
        for (int j = 0; j < SMALL; j++) x->g[j] += 1e-4 * normal(t);
        const int64_t rounds = statement_lengthened_rounds(
            t, now->s, SMALL, limit * (above ? 1.01 : 0.99), 1e-8, ROUNDS, x->g, errors);
        wrong += (errors[rounds - 1] <= 1e-8) == above;
        t->used = used;
    }
    return seen_too(t, wrong);
}

/* Below 2 lengthened rounds are the solver's own: largest difference of g after ten. */
static double lengthened_differ(trial *t) {
    double *s = normals(t, SMALL * SMALL, 1.0), g[SMALL] = {0.0}, errors[11];
    const double lambda = between(t, 1.0, 1.99);
    const asked how = {.solver = "log", .relaxation = lambda};
    const head *x = after_rounds(t, s, &how, 10);
    (void)statement_lengthened_rounds(t, s, SMALL, lambda, 0.0, 11, g, errors);
    return farthest(x->g, g, SMALL);
}

/* The relaxation of an option and the lambda of elastic columns: 2 and 2.05 are refused with their field's name, 1.95 is not. */
static double validation(trial *t) {
    static const double lambdas[] = {1.95, 2.0, 2.05};
    bool as_claimed = true;
    double *s = normals(t, SMALL * SMALL, 1.0);
    for (int k = 0; k < 6; k++) {
        const bool elastic = k % 2 == 0;
        const asked how = {.relaxation = elastic ? 0.0 : lambdas[k / 2]};
        head *x = asked_head(t, s, &how);
        x->problem.columns = elastic ? OTA_COLUMNS_ELASTIC : OTA_COLUMNS_EXACT;
        x->problem.steps = 2;
        x->problem.lambda = lambdas[k / 2];
        statement_solve(t, x, NULL, 1.0, 0.0);
        const bool named = strcmp(x->error.field, elastic ? "lambda" : "relaxation") == 0;
        as_claimed &= k < 2 ? x->status >= OTA_OK : x->status == OTA_EINVAL && named;
    }
    return seen_fact(t, as_claimed);
}

static const statement_check table[] = {
    AT_MOST("DER-07", "rates of relaxed and elastic rounds over the predicted ones, minus 1",
            predicted_rates, 0.02),
    AT_MOST("DER-07", "predicted rate against its formula", rate_formula, 1e-15, 50),
    AT_MOST("DER-08", "best lambda and its rate against their formulas", best_one_sided_formula,
            1e-14, 50),
    AT_MOST("DER-08", "rate of rounds relaxed by it over the predicted one, minus 1",
            best_one_sided_rate, 0.02),
    AT_MOST("DER-08", "rounds saved by it at .95, .99, median of 11: outside 1.4 to 1.8 by",
            one_sided_speed_up, 0.05),
    AT_LEAST("DER-08", "... at .43, where few are left to save: factor", least_one_sided_speed_up,
             1.05),
    AT_MOST("DER-09", "best omega and its rate against their formulas", best_two_sided_formula,
            1e-14, 50),
    AT_MOST("DER-09",
            "--relaxation auto at .43, .95, .99: rounds it acts over plain / (1.9, 6.6, 15)",
            two_sided_rounds, 1.0),
    AT_MOST("DER-09", "... its rate over omega - 1, minus 1", two_sided_rate, 0.1),
    AT_MOST("ELA-15", "error at .98 of the guaranteed relaxation", guaranteed_error, 1e-8, 10),
    AT_MOST("ELA-15", "change over |1 - lambda| + lambda rate^2 times the change before",
            guaranteed_contraction, 1.0 + 1e-6, 10),
    AT_MOST("ELA-15", "runs from g = 0 at lambda 1, 1.5, 1.8, 1.95 that fail", failures_below_two,
            0.0),
    AT_LEAST("ELA-15", "... at 2: share", share_at_two, 0.05),
    AT_LEAST("ELA-15", "... at 2.05: share", share_above_two, 0.3),
    AT_MOST("ELA-15", "near the plan: runs that go against 2/(1 - sigma_n^2)", against_the_limit,
            0.0),
    AT_MOST("ELA-15",
            "... those rounds, lengthened since no solver takes 2, below it: g differs by",
            lengthened_differ, 1e-12, 10),
    AT_MOST("ELA-15", "2 and 2.05 are refused by name, 1.95 is not (0: yes)", validation, 0.0),
    AT_MOST("TOT-99", "half step: change over rate times the change before", half_step_contraction,
            1.0 + 1e-6, 12),
    AT_MOST("TOT-99", "round: change over rate^2 times the change before", round_contraction,
            1.0 + 1e-6, 12),
    AT_MOST("TOT-99", "... on 2 x 2, in the end, minus 1", attained_contraction, 0.02, 12),
    AT_MOST("TOT-100", "conservative bound against its formula, relative", conservative_formula,
            1e-14),
    AT_MOST("TOT-100", "rounds over it at delta .3, .1, .03 (the errata: .006)", conservative_bound,
            0.01, 12),
    AT_MOST("TOT-101", "geometric bound against its definition", geometric_formula, 0.0, 50),
    AT_MOST("TOT-101", "rounds over it at delta 1e-2, 1e-5, 1e-8", geometric_bound, 1.0, 12),
    AT_MOST("TOT-101", "column error over expm1 of the change it leads to", error_by_change,
            1.0 + 1e-9, 12),
    AT_MOST("TOT-103", "rate of plain rounds over sigma_2^2 of their plan, minus 1", empirical_rate,
            0.02),
    AT_MOST("TOT-103", "rate of a geometric history", synthetic_rate, 1e-13, 20),
};
CHECK_GROUP(statement_checks_rates, table);
