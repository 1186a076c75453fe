/* statements/couplings/: Statements about whole couplings: column rules, solvers and their rates, gradients, masks,
 * certificates, alignment, worked examples, caps of single weights; blocked.c and blocked_rules.c have those in f32 on
 * shapes that fill blocks of kernels. They may call the public headers and statements/check.h.
 *
 * Group A, the coupled problems: exact, relaxed, capped, hard and prefix columns [CETA, ELA, DER]. S [n][m],
 * P [n][m]; plans are compared with plain alternating scaling, with all permutations, with closed forms. */
#include "statements/check.h"

enum { N = 6, M = 6 };

/* ---- entropic transport ---- */

static double two_by_two(trial *t) {
    const double tau = between(t, 0.3, 3.0);
    double *s = normals(t, 4, 2.0);
    head *h = statement_plan(t, 2, 2, s, "softmax/exact", tau, 1e-13);
    const double x = (s[0] + s[3] - s[1] - s[2]) / (2.0 * tau);
    return fabs(h->p[0] - 1.0 / (1.0 + exp(-x)));
}

static double golden_scores[9] = {1, 0, 0, 0, 2, 0, 1, 1, 0};

static double golden_exact(trial *t) {
    static const double at_one[9] = {0.480972506559231, 0.12063642777399,  0.398391065666778,
                                     0.12063642777399,  0.607743231915607, 0.271620340310403,
                                     0.398391065666778, 0.271620340310403, 0.329988594022818};
    static const double at_half[9] = {0.528760829271776, 0.031824890068707, 0.439414280659517,
                                      0.031824890068707, 0.772754318396531, 0.195420791534762,
                                      0.439414280659517, 0.195420791534762, 0.365164927805721};
    head *one = statement_plan(t, 3, 3, golden_scores, "softmax/exact", 1.0, 1e-14);
    head *half = statement_plan(t, 3, 3, golden_scores, "softmax/exact", 0.5, 1e-14);
    return worse(farthest(one->p, at_one, 9), farthest(half->p, at_half, 9));
}

static double against_scaling(trial *t, const char *method) {
    double most = 0.0;
    double *p = numbers(t, N * M);
    for (int trials = 0; trials < 12; trials++) {
        double *s = scores_of(t, N, M, trials % CHARACTERS);
        head *h = statement_plan(t, N, M, s, method, 1.0, 1e-13);
        statement_sinkhorn_formula(s, N, M, 1.0, NULL, NULL, 20000, p);
        most = worse(most, farthest(h->p, p, N * M));
    }
    return most;
}

/* C given as costs; u and v by plain loops on -C, whose 20000 rounds leave columns off by 4e-10 where eps is .62 and the
 * scores are wide (the library's: 6e-14). */
static double costs_by_scaling(trial *t) {
    const double epsilon = between(t, 1.0, 2.0);
    double *cost = scores_of(t, N, M, t->draw % CHARACTERS), *s = copy_of(t, cost, N * M),
           *p = numbers(t, N * M);
    for (int k = 0; k < N * M; k++) s[k] = -cost[k];
    head *h = statement_head(t, N, M, cost);
    h->problem.cost = 1;
    statement_solve(t, h, "softmax/exact", epsilon, 1e-13);
    statement_sinkhorn_formula(s, N, M, epsilon, NULL, NULL, 20000, p);
    return farthest(h->p, p, N * M);
}

static double exact_against_scaling(trial *t) { return against_scaling(t, "softmax/exact"); }

static double moves_raise_objective_by(trial *t) {
    double most = -HUGE_VAL;
    double *s = normals(t, N * M, 1.0);
    head *h = statement_plan(t, N, M, s, "softmax/exact", 1.0, 1e-13);
    const double best = dot(s, h->p, N * M) + entropy_of(h->p, N * M);
    for (int trials = 0; trials < 2000; trials++) {
        const int64_t i = below(t, N), k = (i + 1 + below(t, N - 1)) % N;
        const int64_t j = below(t, M), l = (j + 1 + below(t, M - 1)) % M;
        double *moved = copy_of(t, h->p, N * M);
        const double mass = uniform(t) * fmin(moved[i * M + l], moved[k * M + j]);
        moved[i * M + j] += mass;
        moved[k * M + l] += mass;
        moved[i * M + l] -= mass;
        moved[k * M + j] -= mass;
        most = worse(most, dot(s, moved, N * M) + entropy_of(moved, N * M) - best);
    }
    return most;
}

static double exact_gap(trial *t) {
    head *h = statement_plan(t, N, M, scores_of(t, N, M, t->draw % CHARACTERS), "softmax/exact",
                             1.0, 1e-13);
    return fabs(h->certificate.gap);
}

static double primal_of_exact(trial *t) {
    double *s = normals(t, N * M, 1.0);
    head *h = statement_plan(t, N, M, s, "softmax/exact", 0.8, 1e-13);
    const double formula = -dot(s, h->p, N * M) - 0.8 * entropy_of(h->p, N * M) - 0.8 * (double)N;
    return fabs(h->certificate.primal - formula);
}

/* Newton and rounds in the log domain, each from a start of its own. At tau = 1 a range of 24 asks for more rounds than
 * the 20000 there are. */
static double random_starts_of_solvers(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS);
    static const char *const solvers[] = {"newton", "log"};
    head *by[2];
    for (int k = 0; k < 2; k++) {
        by[k] = statement_head(t, N, M, s);
        by[k]->options.solver = solvers[k];
        by[k]->start = normals(t, M, 3.0);
        statement_solve(t, by[k], "softmax/exact", 2.0, 1e-13);
    }
    return farthest(by[0]->p, by[1]->p, N * M);
}

static double two_starts(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS);
    head *a = statement_plan(t, N, M, s, "softmax/exact", 1.0, 1e-13);
    head *b = statement_head(t, N, M, s);
    b->start = normals(t, M, 3.0);
    statement_solve(t, b, "softmax/exact", 1.0, 1e-13);
    return farthest(a->p, b->p, N * M);
}

static double general_marginals(trial *t) {
    double most = 0.0;
    head *h = statement_head(t, N, 9, scores_of(t, N, 9, t->draw % CHARACTERS));
    h->row_mass = distribution(t, N, 1.0);
    h->column_mass = distribution(t, 9, 1.0);
    statement_solve(t, h, "softmax/exact", 1.0, 1e-12);
    most = worse(most, farthest(h->rows, h->row_mass, N));
    most = worse(most, farthest(h->columns, h->column_mass, 9));
    return most;
}

static double unequal_masses(trial *t) {
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    h->row_mass = distribution(t, N, 1.0);
    h->column_mass = distribution(t, M, 1.0);
    h->column_mass[0] += 0.01;
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    return seen_fact(t, h->status == OTA_INFEASIBLE || h->status == OTA_EINVAL);
}

static double hot_limit(trial *t) {
    double most = 0.0;
    head *h = statement_head(t, N, M, normals(t, N * M, 1.0));
    h->row_mass = distribution(t, N, 1.0);
    h->column_mass = distribution(t, M, 1.0);
    statement_solve(t, h, "softmax/exact", 1e4, 1e-13);
    for (int k = 0; k < N * M; k++) {
        most = worse(most, fabs(h->p[k] - h->row_mass[k / M] * h->column_mass[k % M]));
    }
    return most;
}

/* <P,C> - OT - eps H(P), to be 0 or less. */
static double cold_limit(trial *t) {
    double *cost = uniforms(t, N * M, 0.0, 1.0);
    head *h = statement_head(t, N, M, cost);
    h->problem.cost = 1;
    statement_solve(t, h, "softmax/exact", 0.02, 1e-10);
    const double least = statement_best_permutation(cost, N, NULL);
    return dot(cost, h->p, N * M) - least - 0.02 * entropy_of(h->p, N * M);
}

/* ---- assignment and exact transport ---- */

/* Integer masses: as many equal rows and columns of the assignment problem as there is mass. */
static double transport_value(trial *t) {
    static const int64_t rows[3] = {3, 1, 3}, columns[4] = {2, 2, 1, 2};
    double *cost = normals(t, 12, 1.0), split[49], mass[7] = {3, 1, 3, 2, 2, 1, 2};
    int64_t row = 0;
    for (int64_t i = 0; i < 3; i++) {
        for (int64_t r = 0; r < rows[i]; r++, row++) {
            int64_t column = 0;
            for (int64_t j = 0; j < 4; j++) {
                for (int64_t c = 0; c < columns[j]; c++)
                    split[row * 7 + column++] = cost[i * 4 + j];
            }
        }
    }
    head *h = statement_head(t, 3, 4, cost);
    h->problem.cost = 1;
    h->row_mass = copy_of(t, mass, 3);
    h->column_mass = copy_of(t, mass + 3, 4);
    statement_solve(t, h, "hard/exact", 0.0, 0.0);
    return fabs(dot(cost, h->p, 12) - statement_best_permutation(split, 7, NULL));
}

static double assignment_value(trial *t) {
    double *s = scores_of(t, N, M, t->draw % CHARACTERS), *cost = copy_of(t, s, N * M);
    for (int k = 0; k < N * M; k++) cost[k] = -s[k];
    head *h = statement_plan(t, N, M, s, "hard/exact", 0.0, 0.0);
    return fabs(dot(cost, h->p, N * M) - statement_best_permutation(cost, N, NULL));
}

/* ---- the rest of CETA's first section ---- */

static double head_output(trial *t) {
    enum { QUERIES = 24, WIDTH = 8, VALUES = 5 };
    double most = 0.0;
    head *h = statement_attention_head(t, QUERIES, QUERIES, WIDTH, normals(t, QUERIES * WIDTH, 1.0),
                                       normals(t, QUERIES * WIDTH, 1.0));
    h->values = normals(t, QUERIES * VALUES, 1.0);
    h->values_width = VALUES;
    statement_solve(t, h, "ceta", 1.0, 1e-12);
    for (int i = 0; i < QUERIES; i++) {
        for (int k = 0; k < VALUES; k++) {
            long double sum = 0.0L;
            for (int j = 0; j < QUERIES; j++) {
                sum += (long double)h->p[i * QUERIES + j] * h->values[j * VALUES + k];
            }
            most = worse(most, fabs((double)sum - h->out[i * VALUES + k]));
        }
    }
    return most;
}

/* Norms of integer matrices, where nothing rounds. */
static double integer_norms(trial *t) {
    double *x = numbers(t, 12), *zeros = numbers(t, 12), sup = 0.0, row = 0.0;
    for (int i = 0; i < 4; i++) {
        const double scale = (double)(1 + below(t, 9));
        x[i * 3] = 3.0 * scale;
        x[i * 3 + 1] = -4.0 * scale;
        sup = fmax(sup, 4.0 * scale);
        row = fmax(row, 5.0 * scale);
    }
    double norm = NAN;
    ota_score_bounds bounds;
    if (ota_row_norm(x, NULL, 4, 3, &norm, NULL, NULL) < 0 ||
        ota_score_bounds_of(
            &(ota_score_pair){
                .scores = x, .perturbed = zeros, .rows = 4, .columns = 3, .temperature = 1.0},
            NAN, NULL, &bounds, NULL, NULL) < 0) {
        return NAN;
    }
    return worse(fabs(seen_number(t, norm) - row), fabs(bounds.sup - sup));
}

static double birkhoff_membership(trial *t) {
    head *inside = statement_plan(t, N, M, normals(t, N * M, 1.0), "hard/exact", 0.0, 0.0);
    head *outside = statement_plan(t, N, M, normals(t, N * M, 1.0), "hard", 0.0, 0.0);
    const double error = inside->certificate.row_error + inside->certificate.column_error;
    double apart = 0.0;
    for (int j = 0; j < M; j++) apart += fabs(outside->columns[j] - 1.0) / (double)N;
    return worse(error, fabs(outside->certificate.column_error - apart));
}

static double birkhoff_rebuilds(trial *t) {
    enum { CAPACITY = (N - 1) * (N - 1) + 1 };
    double most = 0.0;
    head *h = statement_plan(t, N, M, scores_of(t, N, M, t->draw), "softmax/exact", 1.0, 1e-14);
    double *weights = numbers(t, CAPACITY), *rebuilt = numbers(t, N * M);
    int64_t *columns = take(t, CAPACITY * N * sizeof *columns);
    ota_permutations terms = {.capacity = CAPACITY, .weights = weights, .columns = columns};
    if (ota_birkhoff(h->p, N, &terms, NULL, NULL) < 0) return NAN;
    for (int64_t k = 0; k < terms.count; k++) {
        if (weights[k] < 0.0) return NAN;
        for (int i = 0; i < N; i++) rebuilt[i * M + columns[k * N + i]] += weights[k];
    }
    most = worse(most, farthest(h->p, rebuilt, N * M));
    most = worse(most, fabs(sum_of(weights, terms.count) - 1.0));
    return most;
}

static double starved_keys(trial *t) {
    double *s = normals(t, 32 * 32, 1.0);
    for (int i = 0; i < 32; i++) s[i * 32] += 4.0;
    head *soft = statement_plan(t, 32, 32, s, "softmax", 1.0, 0.0);
    return soft->columns[0];
}

static double fed_keys(trial *t) {
    double *s = normals(t, 32 * 32, 1.0), most = 0.0;
    for (int i = 0; i < 32; i++) s[i * 32] += 4.0;
    head *h = statement_plan(t, 32, 32, s, "ceta", 1.0, 1e-11);
    for (int j = 0; j < 32; j++) most = worse(most, fabs(h->columns[j] - 1.0));
    return most;
}

/* ---- families between softmax and exact ---- */

static double golden_relaxed(trial *t) {
    static const double plan[9] = {0.533960420320068, 0.168282800438745, 0.297756779241187,
                                   0.113045832314007, 0.715597254755446, 0.171356912930548,
                                   0.414193387740481, 0.354836517055317, 0.230970095204202};
    return farthest(statement_plan(t, 3, 3, golden_scores, "relaxed:1", 1.0, 1e-14)->p, plan, 9);
}

static double relaxed_gap(trial *t) {
    static const char *const methods[] = {"relaxed:0.1", "relaxed:0.7", "relaxed:3", "relaxed:50"};
    double most = 0.0;
    for (int k = 0; k < 8; k++) {
        head *h =
            statement_plan(t, N, M, scores_of(t, N, M, k % CHARACTERS), methods[k % 4], 0.7, 1e-13);
        most = worse(most, fabs(h->certificate.gap));
    }
    return most;
}

static double relaxed_limits(trial *t) {
    double *s = normals(t, N * M, 1.0);
    head *low = statement_plan(t, N, M, s, "relaxed:1e-8", 1.0, 1e-12);
    head *soft = statement_plan(t, N, M, s, "softmax", 1.0, 0.0);
    head *high = statement_plan(t, N, M, s, "relaxed:1e8", 1.0, 1e-12);
    head *exact = statement_plan(t, N, M, s, "softmax/exact", 1.0, 1e-12);
    return worse(farthest(low->p, soft->p, N * M), farthest(high->p, exact->p, N * M));
}

/* Sums outside their bounds, prices and rewards of keys that are not at one, the gap; and the ends: no lower bound is
 * capped, two equal ones are exact. */
static double bounds(trial *t) {
    static const char *const methods[] = {"bounded:0.9,1.1", "bounded:0.5,2", "bounded:0,1.2"};
    static const double lower[] = {0.9, 0.5, 0.0}, upper[] = {1.1, 2.0, 1.2};
    const int64_t k = t->draw % 3;
    double most = 0.0, *s = scores_of(t, 12, 12, t->draw % CHARACTERS);
    head *h = statement_plan(t, 12, 12, s, methods[k], 1.0, 1e-12);
    for (int j = 0; j < 12; j++) {
        const double c = h->columns[j], g = h->g[j];
        most = worse(most, fmax(c - upper[k], lower[k] - c));
        most = worse(most, fmin(fmax(-g, 0.0), upper[k] - c));
        most = worse(most, fmin(fmax(g, 0.0), c - lower[k]));
    }
    most = worse(most, fabs(h->certificate.gap));
    head *equal = statement_plan(t, 12, 12, s, "bounded:1,1", 1.0, 1e-12);
    head *exact = statement_plan(t, 12, 12, s, "softmax/exact", 1.0, 1e-12);
    head *open = statement_plan(t, 12, 12, s, "bounded:0,1.2", 1.0, 1e-12);
    head *capped = statement_plan(t, 12, 12, s, "capped:1.2", 1.0, 1e-12);
    most = worse(most, farthest(equal->p, exact->p, 144));
    return worse(most, farthest(open->p, capped->p, 144));
}

/* Excess over the cap, mass of price on keys that are not full, and the duality gap. */
static double caps(trial *t) {
    double most = 0.0;
    static const char *const methods[] = {"capped:1", "capped:1.2", "capped:2"};
    static const double limits[] = {1.0, 1.2, 2.0};
    head *h = statement_plan(t, 12, 12, scores_of(t, 12, 12, t->draw % CHARACTERS),
                             methods[t->draw % 3], 1.0, 1e-12);
    for (int j = 0; j < 12; j++) {
        const double room = limits[t->draw % 3] - h->columns[j];
        most = worse(most, -room);
        most = worse(most, h->g[j]);
        most = worse(most, fmin(-h->g[j], room));
    }
    most = worse(most, fabs(h->certificate.gap));
    return worse(most, bounds(t));
}

static double rectangular_columns(trial *t) {
    double most = 0.0;
    head *h = statement_head(t, 12, 30, normals(t, 360, 1.0));
    h->values = normals(t, 30 * 4, 1.0);
    h->values_width = 4;
    statement_solve(t, h, "softmax/exact", 1.0, 1e-13);
    for (int j = 0; j < 30; j++) most = worse(most, fabs(h->columns[j] - 12.0 / 30.0));
    for (int k = 0; k < 4; k++) {
        double in = 0.0, out = 0.0;
        for (int j = 0; j < 30; j++) in += h->values[j * 4 + k] / 30.0;
        for (int i = 0; i < 12; i++) out += h->out[i * 4 + k] / 12.0;
        most = worse(most, fabs(in - out));
    }
    return most;
}

static double unit_masses_rectangular(trial *t) {
    head *h = statement_head(t, 4, 6, normals(t, 24, 1.0));
    h->column_mass = numbers(t, 6);
    for (int j = 0; j < 6; j++) h->column_mass[j] = 1.0;
    statement_solve(t, h, "softmax/exact", 1.0, 0.0);
    return seen_fact(t, h->status == OTA_INFEASIBLE || h->status == OTA_EINVAL);
}

static double prefix_rows(trial *t) {
    double most = 0.0, *p = numbers(t, N * M), *part = numbers(t, N * M);
    double *s = normals(t, N * M, 1.0);
    head *h = statement_plan(t, N, M, s, "prefix", 1.0, 1e-13);
    for (int i = 0; i < N; i++) {
        const int size = i + 1;
        for (int a = 0; a < size; a++) memcpy(part + a * size, s + a * M, (size_t)size * sizeof *s);
        statement_sinkhorn_formula(part, size, size, 1.0, NULL, NULL, 20000, p);
        most = worse(most, farthest(h->p + i * M, p + i * size, size));
        for (int j = size; j < M; j++) most = worse(most, fabs(h->p[i * M + j]));
    }
    return most;
}

static double prefix_leak(trial *t) {
    double *s = normals(t, N * M, 1.0), *changed = copy_of(t, s, N * M);
    for (int j = 0; j < M; j++) changed[(N - 1) * M + j] = normal(t);
    head *a = statement_plan(t, N, M, s, "prefix", 1.0, 0.0);
    head *b = statement_plan(t, N, M, changed, "prefix", 1.0, 0.0);
    return different_bits(a->p, b->p, (N - 1) * M);
}

static const statement_check table[] = {
    AT_MOST("LIT-06", "transport value against every permutation of split masses", transport_value,
            1e-10, 10),
    AT_MOST("LIT-07", "the plan at eps = 1e4 is a b^T", hot_limit, 1e-4),
    AT_MOST("LIT-07", "<P,C> - OT - eps H(P) at eps = .02", cold_limit, 1e-9, 6),
    AT_MOST("TOT-07", "Newton and log-domain rounds, each from a random start",
            random_starts_of_solvers, 1e-12, 8),
    AT_MOST("TOT-08", "random marginals are met", general_marginals, 1e-11, 12),
    AT_MOST("TOT-08", "unequal masses are refused (0: yes)", unequal_masses, 0.0),
    AT_MOST("CETA-01", "2000 moves inside the polytope raise Phi by", moves_raise_objective_by,
            1e-11),
    AT_MOST("CETA-01", "primal is -Phi - tau n", primal_of_exact, 1e-13),
    AT_MOST("CETA-02", "2 x 2 plan is a sigmoid", two_by_two, 1e-12, 50),
    AT_MOST("CETA-02", "golden plans at tau 1 and .5", golden_exact, 2e-14),
    AT_MOST("CETA-01", "duality gap", exact_gap, 1e-11, 12),
    AT_MOST("CETA-02", "the library's own start and a random one", two_starts, 1e-12, 8),
    AT_MOST("CETA-03", "O = P V by a triple loop", head_output, 1e-13),
    AT_MOST("CETA-04", "norms of integer matrices are exact", integer_norms, 0.0),
    AT_MOST("CETA-04", "distance of assignments and argmax plans from the polytope",
            birkhoff_membership, 1e-15),
    AT_MOST("CETA-05", "the permutations add up to P, their weights to 1", birkhoff_rebuilds, 6e-12,
            6),
    AT_MOST("ELA-01", "case 2 against plain scaling", exact_against_scaling, 1e-10),
    AT_MOST("ELA-01", "case 3 against every permutation", assignment_value, 1e-12, 20),
    AT_MOST("ELA-03", "plan of costs C is u exp(-C / eps) v: distance from scaling",
            costs_by_scaling, 1e-10, 12),
    AT_LEAST("ELA-06", "mass of a favoured key of 32 under softmax", starved_keys, 3.0),
    AT_MOST("ELA-06", "|mass - 1| of every key, doubly stochastic", fed_keys, 1e-9),
    AT_MOST("DER-01", "golden relaxed plan", golden_relaxed, 2e-14),
    AT_MOST("DER-01", "duality gap for rho from .1 to 50", relaxed_gap, 1e-12),
    AT_MOST("DER-01", "rho to 0 is softmax, rho to infinity exact", relaxed_limits, 1e-6),
    AT_MOST("DER-02", "caps and bounds kept, prices only on keys at one, no gap", caps, 1e-9, 12),
    AT_MOST("DER-03", "columns n/m, mean of the output is the mean of V", rectangular_columns,
            1e-12),
    AT_MOST("DER-03", "unit masses on 4 x 6 are refused (0: yes)", unit_masses_rectangular, 0.0),
    AT_MOST("DER-04", "row i is the last row of the plan of its prefix", prefix_rows, 1e-11),
    AT_MOST("DER-04", "different bits in earlier rows after a later query changed", prefix_leak,
            0.0),
};
CHECK_GROUP(statement_checks_plans, table);
