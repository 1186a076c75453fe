/* The sources' worked examples as pictures: C.4 [TOT-113..115], C.3 [TOT-116], the regularisers [LIT-33], the
 * post's 2 x 2 [BLOG-04], collapsed receivers [CETA-31], two permutations [CETA-32, 23]. */
#include "src/base/integers.h"
#include "studies.h"

static const char *const pairs_of_example[12] = {"1,1", "1,2", "1,3", "1,4", "2,1", "2,2",
                                                 "2,3", "2,4", "3,1", "3,2", "3,3", "3,4"};

static void add_bars(study_points *points, const char *series, const char *const *labels,
                     const double *y, int count) {
    for (int k = 0; k < count; k++) add_bar(points, series, labels[k], y[k]);
}

void study_example(trial *t, const study_sizes *sizes, study_points *points) {
    static const char *const rows[3] = {"1,all", "2,all", "3,all"};
    static const double printed[12] = {.395, .145, .395, .053, .145, .395,
                                       .053, .395, .365, .365, .134, .134};
    (void)sizes;
    const head *h =
        statement_plan(t, 3, 4, copy_of(t, statement_example_scores, 12), "softmax", 1.0, 0.0);
    for (int way = 0; way < 2; way++) {
        const double *p = way == 0 ? h->p : printed;
        const char *name = way == 0 ? "softmax" : "printed";
        add_bars(points, name, pairs_of_example, p, 12);
        for (int i = 0; i < 3; i++) add_bar(points, name, rows[i], sum_of(p + 4 * i, 4));
    }
}

/* Costs of row 1 raised by c: alpha_1 - c, the other potentials, and the plan do not move. */
void study_shifted(trial *t, const study_sizes *sizes, study_points *points) {
    const head *h =
        statement_plan(t, 3, 4, copy_of(t, statement_example_scores, 12), "softmax", 1.0, 0.0);
    for (int64_t k = 0; k < sizes->samples; k++) {
        const double shift = 16.0 * (double)k / (double)(sizes->samples - 1) - 8.0;
        double *moved = copy_of(t, statement_example_scores, 12);
        for (int j = 0; j < 4; j++) moved[j] -= shift;
        const head *other = statement_plan(t, 3, 4, moved, "softmax", 1.0, 0.0);
        add_point(points, "potential of row 1", shift, other->f[0] - h->f[0]);
        add_point(points, "largest weight", shift, farthest(other->p, h->p, 12));
    }
}

void study_balanced(trial *t, const study_sizes *sizes, study_points *points) {
    static const char *const keys[4] = {"all,1", "all,2", "all,3", "all,4"};
    static const char *const methods[2] = {"softmax", "softmax/exact"};
    (void)sizes;
    for (int k = 0; k < 2; k++) {
        const head *h = statement_plan(t, 3, 4, copy_of(t, statement_example_scores, 12),
                                       methods[k], 1.0, 1e-12);
        add_bars(points, methods[k], pairs_of_example, h->p, 12);
        add_bars(points, methods[k], keys, h->columns, 4);
    }
}

void study_product(trial *t, const study_sizes *sizes, study_points *points) {
    static const char *const labels[6] = {"1,1", "1,2", "1,3", "2,1", "2,2", "2,3"};
    static const double printed[6] = {.335, .355, .310, .268, .330, .402};
    double product[6];
    (void)t;
    (void)sizes;
    if (ota_compose(statement_example_first_layer, statement_example_second_layer, 2, 3, 3, product,
                    NULL, NULL) < 0) {
        return;
    }
    add_bars(points, "S1 S2", labels, product, 6);
    add_bars(points, "printed S2 S1", labels, printed, 6);
}

void study_gallery(trial *t, const study_sizes *sizes, study_points *points) {
    static const char *const methods[] = {"softmax", "entmax:1.5", "sparsemax"};
    static const char *const labels[] = {"s = 1", "s = 0.5", "s = 0.2", "s = -1"};
    double s[4] = {1.0, 0.5, 0.2, -1.0};
    (void)sizes;
    for (int k = 0; k < 3; k++) {
        add_bars(points, methods[k], labels, statement_plan(t, 1, 4, s, methods[k], 1.0, 0.0)->p,
                 4);
    }
    head *h = statement_head(t, 1, 4, s);
    statement_add_term(h, OTA_TERM_ALIBI, (ota_array){.data = NULL}, 0.5);
    add_bars(points, "softmax with ALiBi 0.5", labels, statement_solve(t, h, "softmax", 1.0, 0.0),
             4);
}

void study_post(trial *t, const study_sizes *sizes, study_points *points) {
    static const char *const labels[] = {"1,1", "1,2", "2,1", "2,2"};
    double s[4] = {1.0, 0.0, 2.0, 0.0};
    (void)sizes;
    head *column = statement_head(t, 2, 2, s);
    column->problem.axis = OTA_AXIS_COLUMNS;
    add_bars(points, "rows sum to 1", labels, statement_plan(t, 2, 2, s, "softmax", 1.0, 0.0)->p,
             4);
    add_bars(points, "printed: columns sum to 1", labels,
             statement_solve(t, column, "softmax", 1.0, 0.0), 4);
}

/* All queries prefer key 0 by 60. */
void study_collapse(trial *t, const study_sizes *sizes, study_points *points) {
    for (int64_t n = 2; n <= sizes->size; n += ota_int_ceil_div(sizes->size, 16)) {
        t->used = 0;
        double *s = normals(t, n * n, 0.1);
        for (int64_t i = 0; i < n; i++) s[i * n] += 60.0;
        add_point(points, "softmax", (double)n,
                  statement_plan(t, n, n, s, "softmax", 1.0, 0.0)->certificate.delta);
        add_point(points, "softmax/exact", (double)n,
                  statement_plan(t, n, n, s, "softmax/exact", 1.0, 1e-12)->certificate.delta);
        add_point(points, "n - 1", (double)n, (double)n - 1.0);
    }
}

/* ||P - Q||_1 / 2n of scores +-change/2 on I and a cyclic shift, -60 elsewhere, and the two exchanged. */
static void add_exchange(trial *t, int64_t n, double change, double tau, double x,
                         study_points *points) {
    double *s = numbers(t, n * n), *other = numbers(t, n * n), l1 = 0.0;
    for (int64_t k = 0; k < n * n; k++) {
        const bool on = k / n == k % n, next = (k / n + 1) % n == k % n;
        s[k] = on ? change / 2.0 : next ? -change / 2.0 : -60.0;
        other[k] = on || next ? -s[k] : s[k];
    }
    const head *p = statement_plan(t, n, n, s, "softmax/exact", tau, 1e-10);
    const head *q = statement_plan(t, n, n, other, "softmax/exact", tau, 1e-10);
    ota_gauge_result gauge;
    ota_score_bounds bounds;
    if (ota_gauge(&(ota_gauge_matrix){.a = s, .b = other, .type = OTA_F64, .rows = n, .columns = n},
                  NULL, NULL, &gauge, NULL, NULL) < 0 ||
        ota_score_bounds_of(
            &(ota_score_pair){
                .scores = s, .perturbed = other, .rows = n, .columns = n, .temperature = tau},
            gauge.residual, NULL, &bounds, NULL, NULL) < 0) {
        return;
    }
    for (int64_t k = 0; k < n * n; k++) l1 += fabs(p->p[k] - q->p[k]);
    const double whole = 2.0 * (double)n;
    add_point(points, "measured", x, l1 / whole);
    add_point(points, "sharp bound", x, bounds.sharp / whole);
    add_point(points, "printed bound", x, bounds.printed / whole);
}

void study_cycle(trial *t, const study_sizes *sizes, study_points *points) {
    for (int64_t k = 1; k <= sizes->samples; k++) {
        const double change = 6.0 * (double)k / (double)sizes->samples;
        t->used = 0;
        add_exchange(t, sizes->size, change, 1.0, change, points);
    }
}

void study_cold(trial *t, const study_sizes *sizes, study_points *points) {
    for (int64_t k = 0; k < sizes->samples; k++) {
        const double tau = geometric(k, sizes->samples, 1.0, 1e-4);
        t->used = 0;
        add_exchange(t, sizes->size, 1e-3, tau, tau, points);
    }
}
