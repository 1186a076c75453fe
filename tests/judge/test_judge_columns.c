/* The reference under column rules: exact, elastic, relaxed, capped, prefix, online and hard plans
 * against the laws that define them. Every plan comes from ota_reference, never from a solver. */
#include "groups.h"
#include "judge_stage.h"

/* ---- exact columns ------------------------------------------------------------------------ */

static void exact_columns_laws(void **unused) {
    (void)unused;
    dice_state = 19;
    const int n = 6;
    double s[36];
    fill(s, 36, 2.0);
    stage *t = plan_of(0, s, n, n, "ceta{temperature=.8}");
    const double tau = 0.8, best = objective(t, t->p, tau);
    spec_check("CETA-01", fabs(best - t->certificate.value) / fabs(best), 1e-13);
    spec_check("TOT-08 CETA-06", fmax(t->certificate.row_error, t->certificate.column_error),
               1e-12);
    spec_check("LIT-24", fabs(t->certificate.gap), 1e-11);
    double better = 0.0, q[36], move[36];
    for (int probe = 0; probe < 2000; probe++) {
        fill(move, 36, 1.0);
        for (int i = 0; i < n; i++) {
            double mean = 0.0;
            for (int j = 0; j < n; j++) mean += move[i * n + j] / n;
            for (int j = 0; j < n; j++) move[i * n + j] -= mean;
        }
        for (int j = 0; j < n; j++) {
            double mean = 0.0;
            for (int i = 0; i < n; i++) mean += move[i * n + j] / n;
            for (int i = 0; i < n; i++) move[i * n + j] -= mean;
        }
        double reach = 1e300;
        for (int k = 0; k < 36; k++) {
            if (move[k] < 0.0) reach = fmin(reach, -t->p[k] / move[k]);
        }
        const double length = reach * uniform(&dice_state);
        for (int k = 0; k < 36; k++) q[k] = fmax(0.0, t->p[k] + length * move[k]);
        better = fmax(better, best - objective(t, q, tau));
    }
    spec_check("CETA-01", better, 1e-11);
    /* P is a scaling: log P - S / tau has no part beyond rows plus columns; the potentials are
       those. */
    double smallest = 1.0, residual = 0.0, stationarity = 0.0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            smallest = fmin(smallest, t->p[i * n + j]);
            const double e = log(t->p[i * n + j]) - s[i * n + j] / tau,
                         corner = log(t->p[0]) - s[0] / tau;
            const double row = log(t->p[i * n]) - s[i * n] / tau,
                         column = log(t->p[j]) - s[j] / tau;
            residual = fmax(residual, fabs(e - row - column + corner));
            stationarity = fmax(stationarity, fabs(tau * e - t->f[i] - t->g[j]));
        }
    }
    spec_check_true("CETA-08", smallest > 0.0);
    spec_check("CETA-08", residual, 1e-10);
    spec_check("CETA-09 TOT-04", stationarity, 1e-11);
    /* Two starting points, one plan. */
    stage *u = stage_make(1, s, n, n, "ceta{temperature=.8}");
    double start[6];
    fill(start, 6, 3.0);
    u->arrays.start_potential = vector(start, n);
    solve(u);
    spec_check("CETA-02 TOT-07", largest_difference(t->p, u->p, 36), 1e-12);
    /* Permuted rows and columns permute the plan; row and column offsets leave it. */
    double permuted[36], shifted[36];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            permuted[i * n + j] = s[(i + 2) % n * n + (j + 5) % n];
            shifted[i * n + j] = s[i * n + j] + 3.0 * i - 2.0 * j;
        }
    }
    u = plan_of(1, permuted, n, n, "ceta{temperature=.8}");
    double worst = 0.0;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            worst = fmax(worst, fabs(u->p[i * n + j] - t->p[(i + 2) % n * n + (j + 5) % n]));
    }
    spec_check("CETA-10", worst, 1e-12);
    u = plan_of(1, shifted, n, n, "ceta{temperature=.8}");
    spec_check("TOT-06", largest_difference(t->p, u->p, 36), 1e-12);
    /* <S - T, P - Q> = tau (KL(P|Q) + KL(Q|P)) */
    double other[36];
    fill(other, 36, 2.0);
    u = plan_of(1, other, n, n, "ceta{temperature=.8}");
    double energy = 0.0, jeffreys = 0.0;
    for (int k = 0; k < 36; k++) {
        energy += (s[k] - other[k]) * (t->p[k] - u->p[k]);
        jeffreys += tau * (t->p[k] - u->p[k]) * log(t->p[k] / u->p[k]);
    }
    spec_check("CETA-18", fabs(energy - jeffreys) / energy, 1e-12);
    /* Means survive P; after a finite number of rounds they miss by (c - 1)^T V / n. */
    double values[12];
    fill(values, 12, 1.0);
    const char *methods[] = {"ceta{temperature=.8}", "ceta{temperature=.8,rounds=2}"};
    for (int k = 0; k < 2; k++) {
        u = stage_make(1, s, n, n, methods[k]);
        with_values(u, values, 2);
        solve(u);
        for (int w = 0; w < 2; w++) {
            double before = 0.0, after = 0.0, predicted = 0.0;
            for (int i = 0; i < n; i++) {
                double naive = 0.0;
                for (int j = 0; j < n; j++) naive += u->p[i * n + j] * values[j * 2 + w];
                spec_check("CETA-03", fabs(naive - u->out[i * 2 + w]), 1e-13);
                before += values[i * 2 + w] / n;
                after += u->out[i * 2 + w] / n;
                predicted += (column_sum(u, i) - 1.0) * values[i * 2 + w] / n;
            }
            spec_check("CETA-12 DER-27", fabs(after - before - predicted), 1e-15);
            if (k == 0) spec_check("CETA-12", fabs(after - before), 1e-12);
        }
    }
}

static void printed_orders(void **unused) {
    (void)unused;
    dice_state = 23;
    const int n = 5;
    double s[25], a[5], b[5];
    fill(s, 25, 1.0);
    /* (14)-(15) as printed, in the linear domain, t = 1: column, row, column. */
    stage *t = stage_make(0, s, n, n, "ceta{rounds=1}");
    t->problem.start = t->problem.end = OTA_SIDE_COLUMNS;
    solve(t);
    for (int i = 0; i < n; i++) a[i] = 1.0;
    for (int turn = 0; turn < 2; turn++) {
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int i = 0; i < n; i++) sum += exp(s[i * n + j]) * a[i];
            b[j] = 1.0 / sum;
        }
        for (int i = 0; i < n && turn == 0; i++) {
            double sum = 0.0;
            for (int j = 0; j < n; j++) sum += exp(s[i * n + j]) * b[j];
            a[i] = 1.0 / sum;
        }
    }
    double worst = 0.0;
    for (int k = 0; k < 25; k++)
        worst = fmax(worst, fabs(t->p[k] - a[k / n] * exp(s[k]) * b[k % n]));
    spec_check("CETA-07 CETA-06", worst, 1e-14);
    spec_check("CETA-07", imbalance(t), 1e-14);
    spec_check_true("CETA-07", row_excess(t) > 1e-3);
    spec_check("CETA-07", fabs(t->certificate.row_error - t->result.row_error), 1e-15);
    /* Row-ended iterates have rows that are exact whatever the count. */
    for (int k = 1; k < 4; k++) {
        t = stage_make(0, s, n, n, "ceta{temperature=.1}");
        t->options.rounds = k;
        solve(t);
        spec_check("DER-26 CETA-07", row_excess(t), 4.0 * 0x1p-53 * n);
        assert_int_equal(t->result.status, OTA_FIXED_ITERS);
    }
    /* (7)-(9) as printed, lambda = .5, T = 3. */
    t = stage_make(0, s, n, n, "elastic:.5,3");
    t->problem.end = OTA_SIDE_COLUMNS;
    solve(t);
    for (int j = 0; j < n; j++) b[j] = 1.0;
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < n; i++) {
            double sum = 0.0;
            for (int j = 0; j < n; j++) sum += exp(s[i * n + j]) * b[j];
            a[i] = 1.0 / sum;
        }
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int i = 0; i < n; i++) sum += exp(s[i * n + j]) * a[i];
            b[j] = pow(1.0 / sum, 0.5) * pow(b[j], 0.5);
        }
    }
    worst = 0.0;
    for (int k = 0; k < 25; k++)
        worst = fmax(worst, fabs(t->p[k] - a[k / n] * exp(s[k]) * b[k % n]));
    spec_check("ELA-09 ELA-10", worst, 1e-14);
    spec_check_true("ELA-10", row_excess(t) > 1e-4);
    /* Zero rounds are softmax. */
    t = stage_make(0, s, n, n, "ceta");
    t->options.rounds = OTA_NO_ROUNDS;
    solve(t);
    const stage *u = plan_of(1, s, n, n, "softmax");
    spec_check("ELA-07", largest_difference(t->p, u->p, 25), 0.0);
}

static void general_marginals(void **unused) {
    (void)unused;
    dice_state = 29;
    double s[12];
    fill(s, 12, 2.0);
    static const double mu[3] = {.5, 1.2, .3}, nu[4] = {.7, .1, .9, .3};
    stage *t = stage_make(0, s, 3, 4, "softmax/exact{temperature=.4}");
    with_row_mass(t, mu);
    with_column_mass(t, nu);
    solve(t);
    for (int i = 0; i < 3; i++) spec_check("TOT-08 TOT-12", fabs(row_sum(t, i) - mu[i]), 1e-12);
    for (int j = 0; j < 4; j++)
        spec_check("TOT-08 TOT-13 ELA-13", fabs(t->receiver[j] - nu[j]), 1e-12);
    spec_check("TOT-08", fabs(t->certificate.gap), 1e-11);
    static const double heavy[4] = {.7, .1, .9, .4};
    with_column_mass(t, heavy);
    spec_check_true("TOT-08", try_solve(t) == OTA_INFEASIBLE);
    /* Rectangular: columns n / m, and the mean of the values survives. */
    t = stage_make(0, s, 3, 4, "softmax/exact");
    double values[4];
    fill(values, 4, 1.0);
    with_values(t, values, 1);
    solve(t);
    double mean = 0.0, out = 0.0;
    for (int j = 0; j < 4; j++) {
        spec_check("DER-03", fabs(t->receiver[j] - 0.75), 1e-12);
        mean += values[j] / 4.0;
    }
    for (int i = 0; i < 3; i++) out += t->out[i] / 3.0;
    spec_check("DER-03", fabs(mean - out), 1e-12);
    /* Limits: hot is the product of the masses, cold is the transport optimum. */
    t = stage_make(0, s, 3, 4, "softmax/exact{temperature=10000}");
    with_row_mass(t, mu);
    with_column_mass(t, nu);
    solve(t);
    double worst = 0.0;
    for (int k = 0; k < 12; k++) worst = fmax(worst, fabs(t->p[k] - mu[k / 4] * nu[k % 4] / 2.0));
    spec_check("LIT-07", worst, 2e-3);
    stage *u = stage_make(1, s, 3, 4, "hard/exact");
    with_row_mass(u, mu);
    with_column_mass(u, nu);
    solve(u);
    spec_check("LIT-06", fabs(u->certificate.gap), 1e-13);
    for (double tau = 1.0; tau > 0.01; tau *= 0.4) {
        t = stage_make(0, s, 3, 4, "softmax/exact");
        t->problem.temperature = tau;
        with_row_mass(t, mu);
        with_column_mass(t, nu);
        solve(t);
        double linear = 0.0, entropy = 0.0;
        for (int k = 0; k < 12; k++) {
            linear -= t->p[k] * s[k];
            entropy -= t->p[k] > 0.0 ? t->p[k] * log(t->p[k]) : 0.0;
        }
        spec_check("LIT-07 ELA-14", negative_part(linear - u->certificate.primal), 1e-10);
        spec_check("LIT-07 ELA-14",
                   linear - u->certificate.primal - tau * (entropy + 2.0 * log(2.0)), 1e-10);
    }
}

static void no_total_support(void **unused) {
    (void)unused;
    dice_state = 31;
    const int n = 12;
    double s[144];
    fill(s, 144, 1.0);
    stage *t = stage_make(0, s, n, n, "softmax/exact");
    with_support(t, (ota_support){OTA_SUPPORT_CAUSAL, {0}, 0, 0});
    spec_check_true("CETA-24 DER-24", try_solve(t) == OTA_INFEASIBLE);
    spec_check("CETA-24 DER-24", fabs((double)t->result.unusable_pairs - 66.0), 0.0);
    t->options.prune = 1;
    solve(t);
    spec_check("DER-24", fabs((double)t->result.pruned_pairs - 66.0), 0.0);
    for (int k = 0; k < n * n; k++)
        spec_check("CETA-24", fabs(t->p[k] - (k % (n + 1) == 0 ? 1.0 : 0.0)), 1e-14);
    /* Regularisers that allow zeros answer the only plan there is. */
    const char *methods[] = {"sparsemax/exact", "entmax:1.5/exact", "hard/exact"};
    for (size_t k = 0; k < 3; k++) {
        t = stage_make(0, s, n, n, methods[k]);
        with_support(t, (ota_support){OTA_SUPPORT_CAUSAL, {0}, 0, 0});
        solve(t);
        double worst = 0.0;
        for (int x = 0; x < n * n; x++)
            worst = fmax(worst, fabs(t->p[x] - (x % (n + 1) == 0 ? 1.0 : 0.0)));
        spec_check("CETA-24", worst, 1e-9);
    }
    /* Windows, strides and blocks have total support. */
    const ota_support good[] = {{OTA_SUPPORT_WINDOW, {0}, 2, 2},
                                {OTA_SUPPORT_STRIDED, {0}, 3, 0},
                                {OTA_SUPPORT_BLOCK, {0}, 4, 0}};
    for (size_t k = 0; k < 3; k++) {
        t = stage_make(0, s, n, n, "softmax/exact");
        with_support(t, good[k]);
        solve(t);
        spec_check("DER-24", t->certificate.column_error, 1e-11);
        spec_check("DER-24", fabs(t->certificate.gap), 1e-10);
    }
    /* Strictly lower triangular: nothing at all. */
    bool lower[9] = {false, false, false, true, false, false, true, true, false};
    t = stage_make(0, s, 3, 3, "hard/exact");
    with_support(
        t, (ota_support){OTA_SUPPORT_BOOLEAN, ota_array_of(lower, OTA_BOOL, 1, 1, 3, 3), 0, 0});
    spec_check_true("CETA-25", try_solve(t) == OTA_INFEASIBLE);
}

/* ---- elastic ------------------------------------------------------------------------------ */

static void elastic_is_a_path(void **unused) {
    (void)unused;
    dice_state = 37;
    const int n = 6;
    double s[36];
    fill(s, 36, 1.5);
    stage *t = plan_of(0, s, n, n, "ceta");
    static const double lambdas[] = {.05, .25, .5, 1.0, 1.5, 1.9, 1.99};
    for (size_t k = 0; k < sizeof lambdas / sizeof lambdas[0]; k++) {
        stage *u = stage_make(1, s, n, n, "elastic:.5,6000");
        u->problem.lambda = lambdas[k];
        solve(u);
        spec_check("ELA-11", largest_difference(t->p, u->p, 36), 1e-12);
    }
    /* lambda = 0 and no steps are softmax, lambda = 1 is Sinkhorn, bit by bit. */
    t = plan_of(0, s, n, n, "softmax");
    stage *u = plan_of(1, s, n, n, "elastic:0,9");
    spec_check("ELA-09 ELA-07", largest_difference(t->p, u->p, 36), 0.0);
    u = plan_of(1, s, n, n, "elastic:.7,0");
    spec_check("ELA-07", largest_difference(t->p, u->p, 36), 0.0);
    t = plan_of(0, s, n, n, "ceta{rounds=4}");
    u = plan_of(1, s, n, n, "elastic:1,4");
    spec_check("ELA-09", largest_difference(t->p, u->p, 36), 0.0);
    /* Per-key lambda: 0 leaves the key's potential, and all 1 is Sinkhorn again. */
    double rates[6] = {0, 1, 1, .5, 0, 1};
    u = stage_make(1, s, n, n, "elastic:1,5");
    u->problem.lambdas = vector(rates, n);
    solve(u);
    spec_check("ELA-13", fabs(u->g[0]) + fabs(u->g[4]), 0.0);
    spec_check_true("ELA-13", fabs(u->g[3]) > 0.0);
    for (int j = 0; j < n; j++) rates[j] = 1.0;
    u->problem.steps = 4;
    solve(u);
    spec_check("ELA-13", largest_difference(t->p, u->p, 36), 0.0);
    /* A schedule that ends long before the rounds do forgets itself. */
    t = plan_of(0, s, n, n, "ceta{temperature=.5}");
    for (int keep = 0; keep < 2; keep++) {
        u = stage_make(1, s, n, n, "ceta{temperature=.5,rounds=3000}");
        u->options.anneal_start = 4.0;
        u->options.anneal_keep_scaling = keep;
        solve(u);
        spec_check("ELA-12", largest_difference(t->p, u->p, 36), 1e-12);
    }
    /* One elastic stage per round, by hand: g kept, or v kept. */
    for (int keep = 0; keep < 2; keep++) {
        u = stage_make(1, s, n, n, "elastic:.5,3{temperature=.25}");
        u->options.anneal_start = 1.0;
        u->options.anneal_factor = 0.5;
        u->options.anneal_keep_scaling = keep;
        solve(u);
        double f[6], g[6] = {0}, tau = 1.0;
        static const double schedule[4] = {1.0, 0.5, 0.25, 0.25};
        for (int turn = 0; turn < 4; turn++) {
            for (int j = 0; j < n && keep; j++) g[j] *= schedule[turn] / tau;
            tau = schedule[turn];
            for (int i = 0; i < n; i++) {
                double sum = 0.0;
                for (int j = 0; j < n; j++) sum += exp((s[i * n + j] + g[j]) / tau);
                f[i] = -tau * log(sum);
            }
            for (int j = 0; j < n && turn < 3; j++) {
                double c = 0.0;
                for (int i = 0; i < n; i++) c += exp((s[i * n + j] + f[i] + g[j]) / tau);
                g[j] -= 0.5 * tau * log(c);
            }
        }
        double worst = 0.0;
        for (int k = 0; k < 36; k++)
            worst = fmax(worst, fabs(u->p[k] - exp((s[k] + f[k / n] + g[k % n]) / tau)));
        spec_check("ELA-19", worst, 1e-13);
    }
}

/* ---- relaxed, capped, prefix, online ------------------------------------------------------ */

static void relaxed_limits(void **unused) {
    (void)unused;
    dice_state = 41;
    double s[30];
    fill(s, 30, 1.5);
    stage *soft = plan_of(0, s, 5, 6, "softmax{temperature=.7}");
    stage *t = plan_of(1, s, 5, 6, "relaxed:1e-9{temperature=.7}");
    spec_check("DER-01", largest_difference(soft->p, t->p, 30), 1e-8);
    soft = plan_of(0, s, 5, 6, "softmax/exact{temperature=.7}");
    t = plan_of(1, s, 5, 6, "relaxed:1e8{temperature=.7}");
    spec_check("DER-01", largest_difference(soft->p, t->p, 30), 1e-7);
    t = plan_of(1, s, 5, 6, "relaxed:.9{temperature=.7}");
    for (int j = 0; j < 6; j++)
        spec_check("DER-01 DER-10", fabs(t->g[j] + 0.9 * log(t->receiver[j] / (5.0 / 6.0))), 1e-11);
    /* Relaxed rows too: both marginals obey their penalty, and rows are not 1. */
    t = stage_make(1, s, 5, 6, "relaxed:.9{temperature=.7}");
    t->problem.rows = OTA_ROWS_RELAXED;
    t->problem.row_strength = 1.3;
    solve(t);
    for (int i = 0; i < 5; i++)
        spec_check("ELA-01", fabs(t->f[i] + 1.3 * log(row_sum(t, i))), 1e-11);
    for (int j = 0; j < 6; j++)
        spec_check("ELA-01", fabs(t->g[j] + 0.9 * log(t->receiver[j] / (5.0 / 6.0))), 1e-11);
    spec_check("ELA-01", fabs(t->certificate.gap), 1e-11);
    spec_check("ELA-01", fmax(t->certificate.row_error, t->certificate.column_error), 1e-11);
    spec_check_true("ELA-01", row_excess(t) > 1e-3);
}

static void capped_columns(void **unused) {
    (void)unused;
    dice_state = 43;
    double s[36];
    fill(s, 36, 1.0);
    for (int i = 0; i < 6; i++) s[i * 6 + 2] += 3.0;
    const char *methods[] = {"capped:1.5", "entmax:1.5/capped:1.5", "sparsemax/capped:1.2",
                             "hard/capped:1.5"};
    for (size_t k = 0; k < 4; k++) {
        stage *t = plan_of(0, s, 6, 6, methods[k]);
        const double cap = t->problem.cap;
        int tight = 0;
        for (int j = 0; j < 6; j++) {
            spec_check("DER-02", t->receiver[j] - cap, 1e-9);
            spec_check("DER-02", t->g[j], 0.0);
            if (t->g[j] < 0.0) spec_check("DER-02", fabs(t->receiver[j] - cap), 1e-9);
            tight += t->g[j] < 0.0;
        }
        spec_check_true("DER-02", tight >= 1);
        spec_check("DER-02", fabs(t->certificate.gap), 1e-10);
    }
    const stage *loose = plan_of(0, s, 6, 6, "capped:6"), *soft = plan_of(1, s, 6, 6, "softmax");
    spec_check("DER-02", largest_difference(loose->p, soft->p, 36), 0.0);
    stage *t = stage_make(0, s, 6, 6, "capped:.9");
    spec_check_true("DER-02", try_solve(t) == OTA_INFEASIBLE);
    /* Causal: a cap of 1 leaves the identity, 1.5 does not. */
    t = stage_make(0, s, 6, 6, "hard/capped:1");
    with_support(t, (ota_support){OTA_SUPPORT_CAUSAL, {0}, 0, 0});
    solve(t);
    for (int i = 0; i < 6; i++) spec_check("DER-02", fabs(t->p[i * 7] - 1.0), 0.0);
    t = stage_make(0, s, 6, 6, "capped:1.5");
    with_support(t, (ota_support){OTA_SUPPORT_CAUSAL, {0}, 0, 0});
    solve(t);
    spec_check("DER-02", t->certificate.column_error, 1e-9);
    spec_check_true("DER-02", t->p[7] < 0.999);
}

static void prefix_never_looks_ahead(void **unused) {
    (void)unused;
    dice_state = 47;
    double s[24], changed[24];
    fill(s, 24, 1.5);
    memcpy(changed, s, sizeof s);
    for (int j = 0; j < 6; j++) changed[18 + j] += normal(&dice_state);
    const char *methods[] = {"prefix", "entmax:1.5/prefix", "hard/prefix"};
    for (size_t k = 0; k < 3; k++) {
        stage *t = plan_of(0, s, 4, 6, methods[k]);
        const stage *u = plan_of(1, changed, 4, 6, methods[k]);
        spec_check("DER-04", largest_difference(t->p, u->p, 18), 0.0);
        spec_check("DER-04", t->certificate.row_error, 1e-12);
        assert_true(isnan(t->certificate.gap));
        for (int i = 0; i < 4; i++) {
            double block[24];
            for (int a = 0; a <= i; a++)
                memcpy(block + a * (i + 3), s + a * 6, (size_t)(i + 3) * sizeof(double));
            char exact[32];
            (void)snprintf(
                exact, sizeof exact, "%.*s/exact",
                (int)(strchr(methods[k], '/') == NULL ? 0 : strchr(methods[k], '/') - methods[k]),
                methods[k]);
            const stage *b = plan_of(2, block, i + 1, i + 3, k == 0 ? "softmax/exact" : exact);
            spec_check("DER-04 CETA-26",
                       largest_difference(t->p + i * 6, b->p + i * (i + 3), i + 3), 1e-12);
            for (int j = i + 3; j < 6; j++) spec_check("DER-04", fabs(t->p[i * 6 + j]), 0.0);
        }
    }
}

static void online_keeps_its_caps(void **unused) {
    (void)unused;
    dice_state = 53;
    double s[48];
    fill(s, 48, 2.0);
    const char *methods[] = {"online:1.2", "entmax:1.5/online:1.2", "sparsemax/online:1.2",
                             "hard/online:1.2"};
    for (size_t k = 0; k < 4; k++) {
        stage *t = stage_make(0, s, 8, 6, methods[k]);
        t->problem.cap = 1.4;
        solve(t);
        spec_check("CETA-26", t->certificate.row_error, 1e-13);
        spec_check("CETA-26", t->certificate.column_error, 1e-15);
        for (int j = 0; j < 6; j++) spec_check("CETA-26", t->receiver[j] - 1.4, 8.0 * DBL_EPSILON);
        /* The same rows fed one by one through `remaining`. */
        double remaining[6], row[6];
        for (int j = 0; j < 6; j++) remaining[j] = 1.4;
        for (int i = 0; i < 8; i++) {
            stage *u = stage_make(1, s + i * 6, 1, 6, methods[k]);
            u->problem.cap = 1.4;
            u->arrays.remaining = vector(remaining, 6);
            assert_int_equal(try_solve(u), OTA_OK);
            memcpy(row, u->p, sizeof row);
            spec_check("DER-23", largest_difference(row, t->p + i * 6, 6), 1e-15);
        }
        /* Row by row it is the capped problem of one query. */
        const stage *first = plan_of(1, s, 1, 6, methods[k]);
        stage *alone = stage_make(2, s, 1, 6, methods[k]);
        alone->problem.columns = OTA_COLUMNS_CAPPED;
        solve(alone);
        spec_check("CETA-26", largest_difference(first->p, alone->p, 6), 1e-12);
    }
    stage *t = stage_make(0, s, 8, 6, "online:1");
    spec_check_true("CETA-26", try_solve(t) == OTA_INFEASIBLE);
    assert_non_null(strstr(t->result.sentence, "row 6"));
    /* A last digit less is left of the only key than a light row needs. */
    const double masses[] = {0.95, 1.0 - 0.95 + 0x1p-53};
    stage *light = stage_make(1, s, 2, 1, "online:1");
    with_row_mass(light, masses);
    assert_int_equal(try_solve(light), OTA_OK);
    light->mu[1] *= 1.0 + 0x1p-20;
    assert_int_equal(try_solve(light), OTA_INFEASIBLE);
}

/* ---- hard --------------------------------------------------------------------------------- */

static double best_permutation(const double *s, int n, int row, unsigned taken) {
    if (row == n) return 0.0;
    double best = -INFINITY;
    for (int j = 0; j < n; j++) {
        if (taken & (1u << j)) continue;
        best = fmax(best, s[row * n + j] + best_permutation(s, n, row + 1, taken | (1u << j)));
    }
    return best;
}

static void hard_plans(void **unused) {
    (void)unused;
    dice_state = 59;
    double s[36];
    for (int turn = 0; turn < 40; turn++) {
        const int n = 1 + turn % 6;
        fill(s, n * n, 1.0);
        /* Ties every other time. */
        for (int k = 0; k < n * n && turn % 2; k++) s[k] = floor(2.0 * s[k]);
        const stage *t = plan_of(0, s, n, n, "hard/exact");
        spec_check("ELA-04 ELA-14 LIT-06",
                   fabs(-t->certificate.primal - best_permutation(s, n, 0, 0)), 1e-12);
        spec_check("ELA-14", fabs(t->certificate.gap), 1e-12);
        spec_check("ELA-14", fmax(t->certificate.row_error, t->certificate.column_error), 0.0);
        for (int k = 0; k < n * n; k++) {
            spec_check("ELA-14", fmin(fabs(t->p[k]), fabs(t->p[k] - 1.0)), 0.0);
            const double slack = s[k] + t->f[k / n] + t->g[k % n];
            spec_check("ELA-14", slack, 1e-12);
            if (t->p[k] > 0.0) spec_check("ELA-14", fabs(slack), 1e-12);
        }
    }
    /* The limit of cold Sinkhorn when the optimum is unique; C = 0 stays flat. */
    fill(s, 36, 1.0);
    const stage *hard = plan_of(0, s, 6, 6, "hard/exact");
    const stage *cold = plan_of(1, s, 6, 6, "ceta{temperature=.01}");
    spec_check("ELA-04 ELA-01", largest_difference(hard->p, cold->p, 36), 0.05);
    double zero[36] = {0};
    for (double tau = 1.0; tau > 1e-3; tau *= 0.1) {
        stage *t = stage_make(1, zero, 6, 6, "ceta");
        t->problem.temperature = tau;
        solve(t);
        for (int k = 0; k < 36; k++) spec_check("ELA-04", fabs(t->p[k] - 1.0 / 6.0), 1e-14);
    }
    /* Free: the first of the largest. */
    static const double tie[8] = {1, 3, 3, 0, 2, 2, 2, 2};
    const stage *t = plan_of(0, tie, 2, 4, "argmax");
    assert_true(t->p[1] > 0.9 && t->p[4] > 0.9);
    spec_check("ELA-01", fabs(t->certificate.gap), 0.0);
    /* Real masses against the vertices that 2 x 2 has. */
    for (int turn = 0; turn < 50; turn++) {
        double c[4], mu[2] = {uniform(&dice_state), uniform(&dice_state)}, nu[2] = {0, 0};
        fill(c, 4, 1.0);
        nu[0] = uniform(&dice_state) * (mu[0] + mu[1]);
        nu[1] = mu[0] + mu[1] - nu[0];
        const double low = fmax(0.0, nu[0] - mu[1]), high = fmin(mu[0], nu[0]);
        double best = -INFINITY;
        for (int e = 0; e < 2; e++) {
            const double x = e ? low : high;
            best = fmax(best, x * c[0] + (mu[0] - x) * c[1] + (nu[0] - x) * c[2] +
                                  (mu[1] - nu[0] + x) * c[3]);
        }
        stage *u = stage_make(0, c, 2, 2, "hard/exact");
        with_row_mass(u, mu);
        with_column_mass(u, nu);
        solve(u);
        spec_check("LIT-06", fabs(-u->certificate.primal - best), 1e-14);
    }
}

TEST_FILE(test_judge_columns) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_columns_laws),    cmocka_unit_test(printed_orders),
        cmocka_unit_test(general_marginals),     cmocka_unit_test(no_total_support),
        cmocka_unit_test(elastic_is_a_path),     cmocka_unit_test(relaxed_limits),
        cmocka_unit_test(capped_columns),        cmocka_unit_test(prefix_never_looks_ahead),
        cmocka_unit_test(online_keeps_its_caps), cmocka_unit_test(hard_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
