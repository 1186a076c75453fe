/* Convex-hull safety [CETA-13]: rows of P V lie in the hull of the rows of V, by their box and by a linear program.
 * V [N][WIDTH], P [N][N]. */
#include "statements/check.h"

enum { N = 8, WIDTH = 3, EQUATIONS = WIDTH + 1 };

/* The least ||sum_j w_j V_j - x||_1 + |sum_j w_j - 1| over w >= 0, by the first phase of the simplex method: 0 where x
 * is in the hull, up to 1e-12 on thin edges of it. */
static double outside_hull(const double *v, const double *x) {
    long double row[EQUATIONS][N + 1], gain[N + 1] = {0.0L}, w[N + 1] = {0.0L}, apart = -1.0L;
    int basis[EQUATIONS];
    for (int e = 0; e < EQUATIONS; e++) {
        const double right = e < WIDTH ? x[e] : 1.0, sign = right < 0.0 ? -1.0 : 1.0;
        basis[e] = N;
        for (int j = 0; j < N; j++) row[e][j] = sign * (e < WIDTH ? v[j * WIDTH + e] : 1.0);
        row[e][N] = sign * right;
        for (int j = 0; j <= N; j++) gain[j] += row[e][j];
    }
    for (int step = 0; step < 1000; step++) {
        int enters = 0, leaves = -1;
        for (int j = 1; j < N; j++)
            if (gain[j] > gain[enters]) enters = j;
        for (int e = 0; e < EQUATIONS; e++) {
            if (!(row[e][enters] > 1e-16L)) continue;
            if (leaves < 0 || row[e][N] * row[leaves][enters] < row[leaves][N] * row[e][enters])
                leaves = e;
        }
        if (!(gain[enters] > 1e-16L) || leaves < 0) break;
        const long double pivot = row[leaves][enters];
        basis[leaves] = enters;
        for (int j = 0; j <= N; j++) row[leaves][j] /= pivot;
        for (int e = 0; e <= EQUATIONS; e++) {
            long double *other = e < EQUATIONS ? row[e] : gain;
            const long double factor = other[enters];
            for (int j = 0; j <= N && e != leaves; j++) other[j] -= factor * row[leaves][j];
        }
    }
    /* Of the w found, not of the tableau, whose entries have been rounded at every step. */
    for (int e = 0; e < EQUATIONS; e++) w[basis[e]] = fmaxl(0.0L, row[e][N]);
    for (int j = 0; j < N; j++) apart += w[j];
    long double sum = fabsl(apart);
    for (int k = 0; k < WIDTH; k++) {
        apart = -x[k];
        for (int j = 0; j < N; j++) apart += w[j] * v[j * WIDTH + k];
        sum += fabsl(apart);
    }
    return (double)sum;
}

static double farthest_outside(const head *h) {
    double most = 0.0;
    for (int i = 0; i < N; i++)
        most = worse(most, outside_hull(h->values, h->out + (int64_t)i * WIDTH));
    return most;
}

static head *head_with_values(trial *t, double deviation) {
    head *h = statement_head(t, N, N, normals(t, N * N, deviation));
    h->values = normals(t, N * WIDTH, 1.0);
    h->values_width = WIDTH;
    return h;
}

static const char *const methods[] = {"softmax",   "ceta",       "elastic:0.5,3",
                                      "sparsemax", "capped:1.5", "hard/exact"};

static double box(trial *t) {
    head *h = head_with_values(t, 2.0);
    statement_solve(t, h, methods[t->draw], 0.5, 0.0);
    double excess = NAN;
    (void)ota_hull_excess(h->out, h->values, N, N, WIDTH, &excess, NULL, NULL);
    return fmax(0.0, seen_number(t, excess));
}

static double box_formula(trial *t) {
    double *v = normals(t, N * WIDTH, 1.0), *out = normals(t, N * WIDTH, 1.0);
    double excess = NAN, formula = 0.0;
    (void)ota_hull_excess(out, v, N, N, WIDTH, &excess, NULL, NULL);
    for (int at = 0; at < N * WIDTH; at++) {
        double low = HUGE_VAL, high = -HUGE_VAL;
        for (int j = 0; j < N; j++) {
            low = fmin(low, v[j * WIDTH + at % WIDTH]);
            high = fmax(high, v[j * WIDTH + at % WIDTH]);
        }
        formula = fmax(formula, fmax(low - out[at], out[at] - high));
    }
    return fabs(seen_number(t, excess) - formula);
}

/* Is the corner max_j V_jk of the box told from a point of the hull? Where one row has all maxima it is one. */
static bool corner_is_outside(const double *v) {
    double corner[WIDTH];
    int tops[WIDTH] = {0};
    for (int k = 0; k < WIDTH; k++) {
        for (int j = 1; j < N; j++)
            if (v[j * WIDTH + k] > v[tops[k] * WIDTH + k]) tops[k] = j;
        corner[k] = v[tops[k] * WIDTH + k];
    }
    const bool own = tops[0] == tops[1] && tops[1] == tops[2];
    return own || outside_hull(v, corner) > 1e-9;
}

static double hull(trial *t) {
    head *h = head_with_values(t, 2.0);
    statement_solve(t, h, methods[t->draw % 6], 0.5, 0.0);
    return corner_is_outside(h->values) ? farthest_outside(h) : HUGE_VAL;
}

/* Column-ended, as printed: rows do not sum to 1. */
static double hull_as_printed(trial *t) {
    head *h = head_with_values(t, 1.0);
    h->options.rounds = 1;
    h->problem.start = h->problem.end = OTA_SIDE_COLUMNS;
    statement_solve(t, h, "softmax/exact", 0.1, 0.0);
    return farthest_outside(h);
}

static const statement_check table[] = {
    AT_MOST("CETA-13", "P V outside the box of V, six methods", box, 4e-15, 6),
    AT_MOST("CETA-13", "the excess against its definition", box_formula, 1e-15, 20),
    AT_MOST("CETA-13", "P V outside the hull of V by a linear program, a corner of the box is told",
            hull, 1e-10, 30),
    PRINTED_AT_MOST("CETA-13", "... of the printed column-ended order at t = 1 (E16)",
                    hull_as_printed, 1e-10, 6),
};
CHECK_GROUP(statement_checks_hull, table);
