/* Certificates of couplings: bounds hold on random plans and are attained where they can be; what a
 * row-stochastic or doubly stochastic coupling keeps; permutations that a plan is made of. */
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

enum { MOST = 16, CELLS = MOST * MOST };

static const double u64 = 0x1p-53;

static void random_matrix(uint64_t *state, double scale, int rows, int columns, double *x) {
    for (int i = 0; i < rows * columns; i++) x[i] = scale * normal(state);
}

static void softmax_rows(const double *scores, int rows, int columns, double temperature,
                         double *plan) {
    for (int i = 0; i < rows; i++) {
        plain_softmax(scores + i * columns, columns, temperature, plan + i * columns);
    }
}

static double residual_of(const double *scores, const double *perturbed, int rows, int columns) {
    ota_gauge_result result;
    assert_int_equal(
        ota_gauge(
            &(ota_gauge_matrix){
                .a = scores, .b = perturbed, .type = OTA_F64, .rows = rows, .columns = columns},
            NULL, NULL, &result, NULL, NULL),
        OTA_OK);
    return result.residual;
}

/* A pair of score matrices and their balanced plans; NAN residual until asked for. */
typedef struct couple {
    int n;
    double temperature;
    double s[CELLS], t[CELLS], p[CELLS], q[CELLS];
    ota_score_bounds bounds;
    ota_score_change change;
} couple;

static bool balance(couple *c) {
    if (plain_balanced(c->s, c->n, c->temperature, 20000, c->p) > 1e-13) return false;
    if (plain_balanced(c->t, c->n, c->temperature, 20000, c->q) > 1e-13) return false;
    const double residual = residual_of(c->s, c->t, c->n, c->n);
    assert_int_equal(ota_score_bounds_of(&(ota_score_pair){.scores = c->s,
                                                           .perturbed = c->t,
                                                           .rows = c->n,
                                                           .columns = c->n,
                                                           .temperature = c->temperature},
                                         residual, NULL, &c->bounds, NULL, NULL),
                     OTA_OK);
    assert_int_equal(ota_score_change_of(&(ota_score_pair){.scores = c->s,
                                                           .perturbed = c->t,
                                                           .rows = c->n,
                                                           .columns = c->n,
                                                           .temperature = c->temperature},
                                         c->p, c->q, &c->change, NULL, NULL),
                     OTA_OK);
    return true;
}

static bool random_couple(uint64_t *state, bool offsets, couple *c) {
    c->n = whole(state, 2, 6);
    c->temperature = decade(state, -0.5, 0.5);
    random_matrix(state, decade(state, -1.0, 0.3), c->n, c->n, c->s);
    random_matrix(state, decade(state, -2.0, 0.5), c->n, c->n, c->t);
    double rows[MOST], columns[MOST];
    random_matrix(state, offsets ? 5.0 : 0.0, 1, c->n, rows);
    random_matrix(state, offsets ? 5.0 : 0.0, 1, c->n, columns);
    for (int i = 0; i < c->n * c->n; i++) {
        c->t[i] += c->s[i] + rows[i / c->n] + columns[i % c->n];
    }
    return balance(c);
}

static void score_bounds_hold(void **unused) {
    (void)unused;
    uint64_t state = 1;
    int done = 0;
    double sharper = 0.0;
    for (int draw = 0; draw < 1000; draw++) {
        couple c;
        if (!random_couple(&state, draw % 2 == 1, &c)) continue;
        done++;
        spec_check("CETA-16", c.change.l1 / c.bounds.printed, 1.0 + 1e-9);
        spec_check("DER-17", c.change.l1 / c.bounds.sharp, 1.0 + 1e-9);
        spec_check("DER-18", c.change.l1 / c.bounds.family, 1.0 + 1e-9);
        /* The chain of forms: R <= osc/2 <= sup. */
        spec_check("DER-17 DER-18", c.bounds.sharp / c.bounds.family, 1.0 + 1e-12);
        spec_check("DER-17 CETA-16", c.bounds.family / c.bounds.printed, 1.0 + 1e-12);
        spec_check("DER-19", c.change.row_l1 / (0.5 * c.change.l1), 1.0 + 1e-9);
        spec_check("CETA-18", fabs(c.change.energy / c.change.jeffreys - 1.0),
                   1e-12 + 1e-12 * c.bounds.sup / c.change.jeffreys);
        sharper += c.bounds.sharp / c.bounds.printed / 1000.0;
        /* Vacuous from sup >= 2 tau on, where the sharp one still says something. */
        if (c.bounds.sup >= 2.0 * c.temperature) {
            spec_check_true("CETA-16", c.bounds.printed >= 2.0 * c.n && c.bounds.sharp < 2.0 * c.n);
        }
    }
    assert_true(done > 900);
    assert_true(sharper < 0.6);
}

/* Norms of matrices of integers, or of eighths, are exact. */
static void norms_are_exact(void **unused) {
    (void)unused;
    enum { ROWS = 4, COLUMNS = 8 };
    uint64_t state = 71;
    for (int draw = 0; draw < 50; draw++) {
        double s[ROWS * COLUMNS], t[ROWS * COLUMNS];
        double p[ROWS * COLUMNS] = {0}, q[ROWS * COLUMNS] = {0};
        double points[ROWS * 2], sup = 0.0, l1 = 0.0, longest = 0.0, norm;
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            s[i] = whole(&state, -9, 9);
            t[i] = whole(&state, -9, 9);
            sup = fmax(sup, fabs(s[i] - t[i]));
        }
        for (int i = 0; i < ROWS; i++) {
            for (int k = 0; k < 8; k++) {
                p[i * COLUMNS + whole(&state, 0, COLUMNS - 1)] += 0.125;
                q[i * COLUMNS + whole(&state, 0, COLUMNS - 1)] += 0.125;
            }
            const double scale = whole(&state, 1, 9);
            points[2 * i] = 3.0 * scale;
            points[2 * i + 1] = -4.0 * scale;
            longest = fmax(longest, 5.0 * scale);
        }
        for (int i = 0; i < ROWS * COLUMNS; i++) l1 += fabs(p[i] - q[i]);
        ota_score_bounds bounds;
        ota_score_change change;
        assert_int_equal(ota_score_bounds_of(&(ota_score_pair){.scores = s,
                                                               .perturbed = t,
                                                               .rows = ROWS,
                                                               .columns = COLUMNS,
                                                               .temperature = 1.0},
                                             (double)NAN, NULL, &bounds, NULL, NULL),
                         OTA_OK);
        assert_int_equal(ota_score_change_of(&(ota_score_pair){.scores = s,
                                                               .perturbed = t,
                                                               .rows = ROWS,
                                                               .columns = COLUMNS,
                                                               .temperature = 1.0},
                                             p, q, &change, NULL, NULL),
                         OTA_OK);
        assert_int_equal(ota_row_norm(points, NULL, ROWS, 2, &norm, NULL, NULL), OTA_OK);
        spec_check("CETA-04", fabs(bounds.sup - sup), 0.0);
        spec_check("CETA-04", fabs(change.l1 - l1), 0.0);
        spec_check("CETA-04", fabs(norm - longest), 0.0);
    }
}

/* Softmax rows obey the same constant, each by its own range. */
static void family_bound_holds_for_softmax(void **unused) {
    (void)unused;
    uint64_t state = 2;
    double best = 0.0, excess = 0.0;
    for (int draw = 0; draw < 1000; draw++) {
        const int n = whole(&state, 1, MOST), m = whole(&state, 2, MOST);
        const double temperature = decade(&state, -1.0, 1.0);
        double s[CELLS], t[CELLS], p[CELLS], q[CELLS], row_bounds[MOST];
        random_matrix(&state, 3.0, n, m, s);
        random_matrix(&state, decade(&state, -2.0, 1.0), n, m, t);
        for (int i = 0; i < n * m; i++) t[i] += s[i];
        if (m > 2) s[0] = t[0] = -(double)INFINITY; /* a masked pair */
        softmax_rows(s, n, m, temperature, p);
        softmax_rows(t, n, m, temperature, q);
        ota_score_bounds bounds;
        ota_score_change change;
        assert_int_equal(ota_score_bounds_of(&(ota_score_pair){.scores = s,
                                                               .perturbed = t,
                                                               .rows = n,
                                                               .columns = m,
                                                               .temperature = temperature},
                                             (double)NAN, row_bounds, &bounds, NULL, NULL),
                         OTA_OK);
        assert_true(isnan(bounds.sharp));
        ota_score_change_of(
            &(ota_score_pair){
                .scores = s, .perturbed = t, .rows = n, .columns = m, .temperature = temperature},
            p, q, &change, NULL, NULL);
        double largest = 0.0;
        for (int i = 0; i < n; i++) {
            double l1 = 0.0;
            for (int j = 0; j < m; j++) l1 += fabs(p[i * m + j] - q[i * m + j]);
            largest = fmax(largest, l1);
            keep_worst(&excess, l1 - row_bounds[i] * (1.0 + 1e-12));
            if (m == 2 && row_bounds[i] > 1e-6) best = fmax(best, l1 / row_bounds[i]);
        }
        spec_check("DER-18", change.l1, bounds.rows * (1.0 + 1e-12) + 1e-14);
        spec_check("DER-18", bounds.rows, bounds.family * (1.0 + 1e-12));
        spec_check("DER-18", change.row_l1, bounds.row * (1.0 + 1e-12));
        spec_check("DER-18", fabs(change.row_l1 - largest), 1e-14);
        spec_check("CETA-16", change.l1, bounds.printed * (1.0 + 1e-12) + 1e-14);
    }
    spec_check("DER-18", excess, 1e-15);
    assert_true(best > 0.9);
}

static void plan_of(const char *method, double *scores, int n, double temperature, double *plan) {
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options, .tolerance = 1e-12, .max_rounds = 100000};
    assert_int_equal(ota_method_parse(method, &problem, NULL, NULL), OTA_OK);
    problem.temperature = temperature;
    problem.scores = ota_array_of(scores, OTA_F64, 1, 1, n, n);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(plan, OTA_F64, 1, 1, n, n);
    ota_error error = {.message = ""};
    const ota_status status = ota_attend(&problem, &options, &arrays, NULL, &error);
    if (status != OTA_OK) print_error("%s: %s\n", method, error.message);
    assert_int_equal(status, OTA_OK);
}

/* The library's own plans: without exact columns the identity of energies leaves an inequality. */
static void energies_of_the_librarys_plans(void **unused) {
    (void)unused;
    static const char *const methods[] = {"softmax/free", "softmax/relaxed:0.5",
                                          "softmax/relaxed:5", "softmax/capped:1.2"};
    uint64_t state = 3;
    for (int draw = 0; draw < 60; draw++) {
        couple c = {.n = whole(&state, 2, 8), .temperature = decade(&state, -0.3, 0.3)};
        random_matrix(&state, 1.5, c.n, c.n, c.s);
        random_matrix(&state, decade(&state, -1.0, 0.5), c.n, c.n, c.t);
        for (int i = 0; i < c.n * c.n; i++) c.t[i] += c.s[i];
        for (int k = 0; k < 4; k++) {
            plan_of(methods[k], c.s, c.n, c.temperature, c.p);
            plan_of(methods[k], c.t, c.n, c.temperature, c.q);
            ota_score_change_of(&(ota_score_pair){.scores = c.s,
                                                  .perturbed = c.t,
                                                  .rows = c.n,
                                                  .columns = c.n,
                                                  .temperature = c.temperature},
                                c.p, c.q, &c.change, NULL, NULL);
            spec_check("CETA-18", c.change.jeffreys - c.change.energy, 1e-10 * c.n);
        }
    }
}

static void multiply(const double *a, const double *v, int rows, int keys, int width, double *out) {
    for (int i = 0; i < rows; i++) {
        for (int k = 0; k < width; k++) {
            double sum = 0.0;
            for (int j = 0; j < keys; j++) sum += a[i * keys + j] * v[j * width + k];
            out[i * width + k] = sum;
        }
    }
}

static void output_bounds_hold(void **unused) {
    (void)unused;
    uint64_t state = 4;
    double gain = (double)INFINITY;
    for (int draw = 0; draw < 300; draw++) {
        couple c;
        if (!random_couple(&state, false, &c)) continue;
        const int width = whole(&state, 1, 5);
        double v[CELLS], w[CELLS], one[CELLS], two[CELLS], change;
        random_matrix(&state, 1.0, c.n, width, w);
        random_matrix(&state, decade(&state, -3.0, 0.0), c.n, width, v);
        for (int i = 0; i < c.n * width; i++) v[i] += w[i];
        ota_output_bounds bounds;
        assert_int_equal(ota_output_bounds_of(&c.bounds, v, w, c.n, width, &bounds, NULL, NULL),
                         OTA_OK);
        multiply(c.p, v, c.n, c.n, width, one);
        multiply(c.q, w, c.n, c.n, width, two);
        assert_int_equal(ota_row_norm(one, two, c.n, width, &change, NULL, NULL), OTA_OK);
        spec_check("CETA-17", change / bounds.printed, 1.0 + 1e-9);
        spec_check("DER-19", change / bounds.sharp, 1.0 + 1e-9);
        const double n = c.n,
                     wanted = fmin(1.0, 0.5 * n * tanh(c.bounds.residual / 2.0 / c.temperature));
        spec_check("DER-19", fabs(bounds.sharp - bounds.values_change - wanted * bounds.diameter),
                   1e-13);
        gain = fmin(gain, bounds.printed / bounds.sharp);
        softmax_rows(c.s, c.n, c.n, c.temperature, c.p);
        softmax_rows(c.t, c.n, c.n, c.temperature, c.q);
        multiply(c.p, v, c.n, c.n, width, one);
        multiply(c.q, w, c.n, c.n, width, two);
        ota_row_norm(one, two, c.n, width, &change, NULL, NULL);
        spec_check("DER-19 CETA-17", change / bounds.rows, 1.0 + 1e-9);
        double diameter = 0.0, norm = 0.0;
        for (int j = 0; j < c.n; j++) {
            for (int k = 0; k < c.n; k++) {
                double squares = 0.0, own = 0.0;
                for (int t = 0; t < width; t++) {
                    squares += pow(w[j * width + t] - w[k * width + t], 2.0);
                    own += pow(w[j * width + t], 2.0);
                }
                diameter = fmax(diameter, sqrt(squares));
                norm = fmax(norm, sqrt(own));
            }
        }
        spec_check("DER-19", fabs(bounds.diameter - diameter), 1e-14);
        spec_check("CETA-17", fabs(bounds.values_norm - norm), 1e-14);
    }
    /* The sharp form never loses: diam <= 2 norm and R <= sup. */
    assert_true(gain >= 1.0 - 1e-12);
}

/* Half the l1 norm sits in one row, and the values of its two symbols are apart: nothing is given away. */
static void sharp_output_bound_is_attained(void **unused) {
    (void)unused;
    const double s[4] = {0.7, -0.7, -0.7, 0.7}, t[4] = {-0.7, 0.7, 0.7, -0.7}, w[2] = {-1.0, 1.0};
    couple c = {.n = 2, .temperature = 1.0};
    memcpy(c.s, s, sizeof s);
    memcpy(c.t, t, sizeof t);
    assert_true(balance(&c));
    double one[2], two[2], change;
    ota_output_bounds bounds;
    ota_output_bounds_of(&c.bounds, w, w, 2, 1, &bounds, NULL, NULL);
    multiply(c.p, w, 2, 2, 1, one);
    multiply(c.q, w, 2, 2, 1, two);
    ota_row_norm(one, two, 2, 1, &change, NULL, NULL);
    spec_check("DER-19", fabs(change / bounds.sharp - 1.0), 1e-12);
    assert_true(bounds.printed > 2.0 * change);
}

/* Farthest along each of many directions: a point of the hull is never beyond all of its corners. */
static double beyond_hull(uint64_t *state, const double *output, const double *values, int rows,
                          int keys, int width) {
    double worst = -(double)INFINITY;
    for (int draw = 0; draw < 50; draw++) {
        double direction[MOST], most = -(double)INFINITY;
        random_matrix(state, 1.0, 1, width, direction);
        for (int side = 0; side < 2; side++) {
            const int count = side == 0 ? keys : rows;
            for (int j = 0; j < count; j++) {
                double along = 0.0;
                for (int k = 0; k < width; k++) {
                    along += (side == 0 ? values : output)[j * width + k] * direction[k];
                }
                if (side == 0)
                    most = fmax(most, along);
                else
                    worst = fmax(worst, along - most);
            }
        }
    }
    return worst;
}

static void row_stochastic_plans_stay_inside(void **unused) {
    (void)unused;
    uint64_t state = 5;
    for (int draw = 0; draw < 300; draw++) {
        const int n = whole(&state, 1, MOST), m = whole(&state, 1, MOST), d = whole(&state, 1, 8);
        double a[CELLS], x[CELLS], y[CELLS], out[CELLS], excess, ratio;
        random_matrix(&state, decade(&state, -1.0, 1.5), n, m, a);
        softmax_rows(a, n, m, 1.0, a);
        random_matrix(&state, 1.0, m, d, x);
        random_matrix(&state, 1.0, m, d, y);
        multiply(a, x, n, m, d, out);
        assert_int_equal(ota_hull_excess(out, x, n, m, d, &excess, NULL, NULL), OTA_OK);
        /* Rounding of sums of m products. */
        spec_check("CETA-13", excess, 4.0 * (m + 4) * u64);
        spec_check("CETA-13", beyond_hull(&state, out, x, n, m, d), 8.0 * (m + 4) * u64 * d);
        assert_int_equal(
            ota_nonexpansion(&(ota_mixing){.coupling = a, .rows = n, .keys = m, .alpha = 1.0}, x, y,
                             d, &ratio, NULL, NULL),
            OTA_OK);
        spec_check("CETA-14", ratio, 1.0 + 1e-14);
        double other[CELLS], before, after;
        multiply(a, y, n, m, d, other);
        ota_row_norm(out, other, n, d, &after, NULL, NULL);
        ota_row_norm(x, y, m, d, &before, NULL, NULL);
        spec_check("CETA-14", fabs(ratio - after / before), 1e-14);
        if (n != m) continue;
        const double alpha = uniform(&state);
        assert_int_equal(
            ota_nonexpansion(&(ota_mixing){.coupling = a, .rows = n, .keys = n, .alpha = alpha}, x,
                             y, d, &ratio, NULL, NULL),
            OTA_OK);
        spec_check("CETA-15", ratio, 1.0 + 1e-14);
        for (int i = 0; i < n * d; i++) {
            out[i] = (1.0 - alpha) * x[i] + alpha * out[i];
            other[i] = (1.0 - alpha) * y[i] + alpha * other[i];
        }
        ota_row_norm(out, other, n, d, &after, NULL, NULL);
        spec_check("CETA-15", fabs(ratio - after / before), 1e-14);
    }
    const double one[2] = {3.0, 4.0}, outside[2] = {0.5, -1.25}, corners[4] = {0.0, 0.0, 1.0, 1.0};
    double excess, norm;
    ota_hull_excess(outside, corners, 1, 2, 2, &excess, NULL, NULL);
    spec_check("CETA-13", fabs(excess - 1.25), 0.0);
    ota_row_norm(one, NULL, 1, 2, &norm, NULL, NULL);
    spec_check("CETA-04", fabs(norm - 5.0), 1e-15);
}

static void receiver_mass_and_mean(void **unused) {
    (void)unused;
    uint64_t state = 7;
    double plan[CELLS], mass[MOST];
    ota_receiver receiver;
    for (int draw = 0; draw < 200; draw++) {
        const int n = whole(&state, 1, MOST), m = whole(&state, 1, MOST), d = whole(&state, 1, 8);
        double v[CELLS], out[CELLS], shift[MOST];
        random_matrix(&state, 2.0, n, m, plan);
        softmax_rows(plan, n, m, 1.0, plan);
        random_matrix(&state, 1.0, m, d, v);
        assert_int_equal(ota_receiver_of(plan, n, m, mass, &receiver, NULL, NULL), OTA_OK);
        spec_check("CETA-19", fabs(receiver.total - n), 1e-13 * n);
        spec_check("CETA-20", receiver.imbalance, m - 1.0 + 1e-13);
        spec_check("CETA-19", receiver.smallest - 1.0, 1e-15);
        spec_check("CETA-19", 1.0 - receiver.largest, 1e-15);
        assert_int_equal(ota_mean_shift(mass, v, n, m, d, shift, NULL, NULL), OTA_OK);
        multiply(plan, v, n, m, d, out);
        for (int k = 0; k < d; k++) {
            double from = 0.0, to = 0.0;
            for (int j = 0; j < m; j++) from += v[j * d + k] / m;
            for (int i = 0; i < n; i++) to += out[i * d + k] / n;
            spec_check("CETA-12", fabs(to - from - shift[k]), 16.0 * u64);
        }
        couple c;
        if (!random_couple(&state, false, &c)) continue;
        ota_receiver_of(c.p, c.n, c.n, mass, &receiver, NULL, NULL);
        spec_check("CETA-20", receiver.imbalance, 2e-13);
        random_matrix(&state, 1.0, c.n, 1, v);
        ota_mean_shift(mass, v, c.n, c.n, 1, shift, NULL, NULL);
        spec_check("CETA-12", fabs(shift[0]), 1e-13);
    }
}

/* Errata E16: the printed order ends on a column update, and then rows are not 1. */
static void printed_column_ended_plan_leaves_the_hull(void **unused) {
    (void)unused;
    uint64_t state = 8;
    enum { N = 12 };
    double s[N * N], p[N * N], ones[N], out[N], excess = 0.0, worst = 0.0;
    random_matrix(&state, 1.0, N, N, s);
    for (int j = 0; j < N; j++) {
        double column[N];
        for (int i = 0; i < N; i++) column[i] = s[i * N + j];
        plain_softmax(column, N, 0.1, column);
        for (int i = 0; i < N; i++) p[i * N + j] = column[i];
        ones[j] = 1.0;
    }
    multiply(p, ones, N, N, 1, out);
    for (int i = 0; i < N; i++) worst = fmax(worst, fabs(out[i] - 1.0));
    ota_hull_excess(out, ones, N, N, 1, &excess, NULL, NULL);
    spec_check_true("CETA-13", excess > 0.5 && fabs(excess - worst) < 1e-15);
    ota_error error;
    double ratio;
    assert_int_equal(
        ota_nonexpansion(&(ota_mixing){.coupling = p, .rows = N, .keys = N, .alpha = 1.0}, ones,
                         out, 1, &ratio, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "coupling row 0");
}

/* Largest smallest entry of a permutation, over sets of columns for the first rows. */
static double bottleneck(const double *left, int n) {
    double best[1 << 10] = {2.0};
    for (int set = 1; set < 1 << n; set++) {
        int row = -1;
        for (int rest = set; rest != 0; rest &= rest - 1) row++;
        best[set] = -1.0;
        for (int j = 0; j < n; j++) {
            if (set >> j & 1)
                best[set] = fmax(best[set], fmin(best[set ^ 1 << j], left[row * n + j]));
        }
    }
    return best[(1 << n) - 1];
}

static void check_permutations(const double *plan, int n, double tolerance) {
    const int64_t most = (int64_t)(n - 1) * (n - 1) + 1;
    double *const weights = malloc((size_t)most * sizeof *weights), sum = 0.0;
    int64_t *const columns = malloc((size_t)(most * n) * sizeof *columns);
    ota_permutations terms = {.capacity = most, .weights = weights, .columns = columns};
    double rebuilt[CELLS] = {0.0}, left[CELLS];
    memcpy(left, plan, (size_t)(n * n) * sizeof *plan);
    assert_int_equal(ota_birkhoff(plan, n, &terms, NULL, NULL), OTA_OK);
    const int64_t count = terms.count;
    const double rest = terms.rest;
    assert_true(count >= 1 && count <= most);
    for (int64_t t = 0; t < count; t++) {
        int seen[MOST] = {0};
        if (n <= 10 && t < 10) spec_check("CETA-05", 0.5 * bottleneck(left, n), weights[t]);
        for (int i = 0; i < n; i++) {
            rebuilt[i * n + columns[t * n + i]] += weights[t];
            left[i * n + columns[t * n + i]] -= weights[t];
            seen[columns[t * n + i]]++;
        }
        for (int j = 0; j < n; j++) assert_int_equal(seen[j], 1);
        assert_true(weights[t] > 0.0);
        sum += weights[t];
    }
    double worst = 0.0;
    for (int i = 0; i < n * n; i++) worst = fmax(worst, fabs(rebuilt[i] - plan[i]));
    spec_check("CETA-05", worst, tolerance * n);
    spec_check("CETA-05", fabs(sum - 1.0), tolerance * n);
    spec_check("CETA-05", fabs(1.0 - sum - rest), 1e-15);
    free(weights);
    free(columns);
}

static void plans_are_mixtures_of_permutations(void **unused) {
    (void)unused;
    uint64_t state = 9;
    for (int draw = 0; draw < 200; draw++) {
        const int n = whole(&state, 1, 10);
        double s[CELLS], p[CELLS];
        random_matrix(&state, decade(&state, -1.0, 0.5), n, n, s);
        if (plain_balanced(s, n, 1.0, 20000, p) > 1e-13) continue;
        check_permutations(p, n, 1e-12);
        /* A mixture of a few permutations, with the zeros that has. */
        memset(p, 0, sizeof p);
        for (int t = 0; t < 3; t++) {
            int order[MOST];
            for (int i = 0; i < n; i++) order[i] = i;
            for (int i = n - 1; i > 0; i--) {
                const int j = whole(&state, 0, i), kept = order[i];
                order[i] = order[j];
                order[j] = kept;
            }
            for (int i = 0; i < n; i++) p[i * n + order[i]] += t == 0 ? 0.5 : 0.25;
        }
        check_permutations(p, n, 1e-15);
    }
    double p[CELLS];
    for (int i = 0; i < CELLS; i++) p[i] = 1.0 / (double)MOST;
    check_permutations(p, MOST, 1e-15);
    /* Few terms: the heaviest come first, and the rest is told. */
    double weights[2];
    int64_t columns[6];
    ota_permutations terms = {.capacity = 2, .weights = weights, .columns = columns};
    const double mixed[9] = {0.7, 0.2, 0.1, 0.1, 0.7, 0.2, 0.2, 0.1, 0.7};
    ota_birkhoff(mixed, 3, &terms, NULL, NULL);
    assert_int_equal(terms.count, 2);
    spec_check("CETA-05", fabs(weights[0] - 0.7) + fabs(weights[1] - 0.2) + fabs(terms.rest - 0.1),
               1e-15);
    /* A term of one unit in the last place of the whole is still one. */
    const double ulp = 0x1p-52, nearly[4] = {1.0 - ulp, ulp, ulp, 1.0 - ulp};
    assert_int_equal(ota_birkhoff(nearly, 2, &terms, NULL, NULL), OTA_OK);
    assert_int_equal(terms.count, 2);
    spec_check("CETA-05", fabs(weights[1] - ulp) + terms.rest, 0.0);
}

static void refusals(void **unused) {
    (void)unused;
    const double fine[4] = {0.5, 0.5, 0.5, 0.5}, tilted[4] = {1.0, 0.0, 1.0, 0.0};
    const double many[4] = {0.5, 0.6, 0.5, 0.5}, nan4[4] = {(double)NAN, 1.0, 0.0, 1.0};
    const double masked[4] = {-(double)INFINITY, 0.0, 0.0, 0.0};
    double out[4];
    int64_t columns[4];
    ota_permutations terms = {.capacity = 2, .weights = out, .columns = columns};
    ota_score_bounds bounds;
    ota_score_change change;
    ota_output_bounds outputs;
    ota_receiver receiver;
    ota_error error;
    assert_int_equal(
        ota_score_bounds_of(
            &(ota_score_pair){
                .scores = fine, .perturbed = nan4, .rows = 2, .columns = 2, .temperature = 1.0},
            0.0, NULL, &bounds, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "scores");
    assert_int_equal(
        ota_score_bounds_of(
            &(ota_score_pair){
                .scores = fine, .perturbed = masked, .rows = 2, .columns = 2, .temperature = 1.0},
            0.0, NULL, &bounds, NULL, NULL),
        OTA_EINVAL);
    assert_int_equal(
        ota_score_bounds_of(
            &(ota_score_pair){
                .scores = fine, .perturbed = fine, .rows = 2, .columns = 2, .temperature = 1.0},
            -1.0, NULL, &bounds, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "residual");
    assert_int_equal(
        ota_score_bounds_of(
            &(ota_score_pair){.scores = fine, .perturbed = fine, .rows = 2, .temperature = 1.0},
            0.0, NULL, &bounds, NULL, NULL),
        OTA_EINVAL);
    assert_int_equal(ota_score_bounds_of(&(ota_score_pair){.scores = fine,
                                                           .perturbed = fine,
                                                           .rows = INT64_MAX / 32 + 1,
                                                           .columns = 4,
                                                           .temperature = 1.0},
                                         0.0, NULL, &bounds, NULL, NULL),
                     OTA_EOVERFLOW);
    assert_int_equal(
        ota_score_change_of(
            &(ota_score_pair){
                .scores = fine, .perturbed = fine, .rows = 2, .columns = 2, .temperature = 1.0},
            fine, many, &change, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "other row 0");
    assert_int_equal(
        ota_score_change_of(
            &(ota_score_pair){.scores = fine, .perturbed = fine, .rows = 2, .columns = 2}, fine,
            fine, &change, NULL, NULL),
        OTA_EINVAL);
    /* Also where all scores are 0, so that nothing else is wrong. */
    const double zero[4] = {0.0, 0.0, 0.0, 0.0};
    const double temperatures[] = {0.0, -1.0, (double)NAN, (double)INFINITY};
    for (int k = 0; k < 4; k++) {
        assert_int_equal(ota_score_change_of(&(ota_score_pair){.scores = zero,
                                                               .perturbed = zero,
                                                               .rows = 2,
                                                               .columns = 2,
                                                               .temperature = temperatures[k]},
                                             fine, fine, &change, NULL, &error),
                         OTA_EINVAL);
        assert_string_equal(error.field, "temperature");
        assert_int_equal(ota_score_bounds_of(&(ota_score_pair){.scores = zero,
                                                               .perturbed = zero,
                                                               .rows = 2,
                                                               .columns = 2,
                                                               .temperature = temperatures[k]},
                                             0.0, NULL, &bounds, NULL, &error),
                         OTA_EINVAL);
        assert_string_equal(error.field, "temperature");
    }
    /* Scores up to 1e300, times a temperature below 1, on either side and of either sign. */
    for (int k = 0; k < 8; k++) {
        const double temperature = k < 4 ? 1.0 : 0.25;
        double far[2][4] = {{0.0}, {0.0}};
        double *const entry = &far[k / 2 % 2][3];
        *entry = (k % 2 == 0 ? 1.0 : -1.0) * 1e300 * temperature;
        assert_int_equal(ota_score_change_of(&(ota_score_pair){.scores = far[0],
                                                               .perturbed = far[1],
                                                               .rows = 2,
                                                               .columns = 2,
                                                               .temperature = temperature},
                                             fine, fine, &change, NULL, &error),
                         OTA_OK);
        *entry *= 1.0 + 0x1p-52;
        assert_int_equal(ota_score_change_of(&(ota_score_pair){.scores = far[0],
                                                               .perturbed = far[1],
                                                               .rows = 2,
                                                               .columns = 2,
                                                               .temperature = temperature},
                                             fine, fine, &change, NULL, &error),
                         OTA_EINVAL);
        assert_string_equal(error.field, "scores");
    }
    assert_int_equal(ota_output_bounds_of(&bounds, fine, nan4, 2, 2, &outputs, NULL, NULL),
                     OTA_EINVAL);
    assert_int_equal(ota_row_norm(nan4, NULL, 2, 2, out, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_hull_excess(fine, nan4, 2, 2, 2, out, NULL, NULL), OTA_EINVAL);
    assert_int_equal(
        ota_nonexpansion(&(ota_mixing){.coupling = fine, .rows = 2, .keys = 2, .alpha = 1.5}, fine,
                         fine, 2, out, NULL, &error),
        OTA_EINVAL);
    assert_string_equal(error.field, "alpha");
    assert_int_equal(
        ota_nonexpansion(&(ota_mixing){.coupling = fine, .rows = 1, .keys = 2, .alpha = 0.5}, fine,
                         fine, 2, out, NULL, NULL),
        OTA_EINVAL);
    assert_int_equal(ota_receiver_of(many, 2, 2, out, &receiver, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_mean_shift(nan4, fine, 2, 2, 2, out, NULL, NULL), OTA_EINVAL);
    assert_int_equal(ota_birkhoff(tilted, 2, &terms, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "coupling");
    assert_int_equal(
        ota_birkhoff(fine, 2, &(ota_permutations){.weights = out, .columns = columns}, NULL, NULL),
        OTA_EINVAL);
}

TEST_FILE(test_certify) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_exact),
        cmocka_unit_test(score_bounds_hold),
        cmocka_unit_test(family_bound_holds_for_softmax),
        cmocka_unit_test(energies_of_the_librarys_plans),
        cmocka_unit_test(output_bounds_hold),
        cmocka_unit_test(sharp_output_bound_is_attained),
        cmocka_unit_test(row_stochastic_plans_stay_inside),
        cmocka_unit_test(receiver_mass_and_mean),
        cmocka_unit_test(printed_column_ended_plan_leaves_the_hull),
        cmocka_unit_test(plans_are_mixtures_of_permutations),
        cmocka_unit_test(refusals),
    };
    return run_and_hold(tests, sizeof tests / sizeof tests[0]);
}
