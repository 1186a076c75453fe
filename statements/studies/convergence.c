/* The studies of convergence and certificates: contraction against its bound [TOT-97], Sinkhorn rounds against
 * epsilon and tolerance [TOT-90], receivers under a sink [CETA-33], the use of printed and sharp certificates
 * [CETA-16, DER-17]. */
#include "studies.h"

/* d_H(K x, K y) / d_H(x, y): random x, y; and y of two levels, 1 and h at two places and next to nothing
 * elsewhere, x the same but for a small step at one place: these come near the bound tanh(Delta/4). */
void study_contraction(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size;
    double *x = numbers(t, n), *y = numbers(t, n), *kx = numbers(t, n), *ky = numbers(t, n);
    const size_t used = t->used;
    for (int64_t kernel = 0; kernel < sizes->samples; kernel++) {
        const double spread = 0.05 + 0.03 * (double)kernel * (40.0 / (double)sizes->samples);
        double *l = normals(t, n * n, spread), best[2] = {0.0, 0.0};
        ota_contraction bound;
        if (ota_contraction_of(l, n, n, &bound, NULL, NULL) < 0) continue;
        for (int64_t k = 0; k < n * n; k++) l[k] = exp(l[k]);
        for (int64_t trials = 0; trials < sizes->rounds; trials++) {
            double before = 0.0, after = 0.0;
            const bool levels = trials % 2 != 0;
            const int64_t one = below(t, n), other = (one + 1 + below(t, n - 1)) % n;
            for (int64_t j = 0; j < n; j++) {
                kx[j] = ky[j] = 0.0;
                y[j] = levels ? 1e-12 : exp(normal(t));
                x[j] = levels ? 1e-12 : exp(normal(t));
            }
            if (levels) {
                x[one] = y[one] = 1.0;
                x[other] = y[other] = exp(between(t, -4.0, 4.0));
                x[one] += 1e-3;
            }
            for (int64_t k = 0; k < n * n; k++) {
                kx[k / n] += l[k] * x[k % n];
                ky[k / n] += l[k] * y[k % n];
            }
            if (ota_hilbert(x, y, n, &before, NULL, NULL) < 0 || before == 0.0) continue;
            if (ota_hilbert(kx, ky, n, &after, NULL, NULL) < 0) continue;
            best[levels] = fmax(best[levels], after / before);
        }
        add_point(points, "random vectors", bound.rate, best[0]);
        add_point(points, "two-level vectors", bound.rate, best[1]);
        add_point(points, "bound", bound.rate, bound.rate);
        t->used = used;
    }
}

/* Rounds to 1e-6 at Hamming cost; what Birkhoff's contraction allows at most; and table 5. */
void study_iterations(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t V = sizes->size;
    static const double printed[3][2] = {{1.0, 42.0}, {0.1, 187.0}, {0.01, 824.0}};
    double *p = distribution(t, V, 1.0), *far = distribution(t, V, 1.0), *near = copy_of(t, p, V);
    double *u = numbers(t, V), *v = numbers(t, V), sum = 0.0;
    for (int64_t j = 0; j < V; j++) sum += near[j] *= exp(0.5 * normal(t));
    for (int64_t j = 0; j < V; j++) near[j] /= sum;
    for (int64_t k = 0; k < sizes->samples; k++) {
        const double epsilon = pow(10.0, -0.125 * (double)k);
        const double diameter = ota_hamming_diameter(epsilon);
        for (int kind = 0; kind < 2; kind++) {
            ota_hamming_result r;
            if (ota_hamming(p, kind == 0 ? far : near, V, epsilon,
                            &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                                   .solver = OTA_HAMMING_SINKHORN,
                                                   .tolerance = 1e-6,
                                                   .max_rounds = sizes->rounds,
                                                   .u = u,
                                                   .v = v},
                            &r, NULL, NULL) < 0) {
                continue;
            }
            add_point(points, kind == 0 ? "independent pair" : "near pair", epsilon,
                      (double)r.rounds);
        }
        /* Any image of K has diameter Delta at most: so has the second change of the scaling, whatever the
         * first was. */
        add_point(points, "possible at most", epsilon,
                  1.0 + ota_iterations_geometric(diameter, tanh(diameter / 4.0), 1e-6));
    }
    for (int k = 0; k < 3; k++)
        add_point(points, "printed in table 5", printed[k][0], printed[k][1]);
}

/* Rounds against the column error asked for, epsilon = 1: measured, possible, and table 5's means. */
void study_tolerances(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t V = sizes->size;
    static const double printed[3][2] = {{1e-6, 42.3}, {1e-8, 58.7}, {1e-10, 75.1}};
    double *p = distribution(t, V, 1.0), *q = distribution(t, V, 1.0);
    double *u = numbers(t, V), *v = numbers(t, V);
    const double diameter = ota_hamming_diameter(1.0);
    for (int k = 2; k <= 12; k++) {
        const double tolerance = pow(10.0, -k);
        ota_hamming_result r;
        if (ota_hamming(p, q, V, 1.0,
                        &(ota_hamming_options){.size = sizeof(ota_hamming_options),
                                               .solver = OTA_HAMMING_SINKHORN,
                                               .tolerance = tolerance,
                                               .max_rounds = 1000,
                                               .u = u,
                                               .v = v},
                        &r, NULL, NULL) >= 0) {
            add_point(points, "independent pair", tolerance, (double)r.rounds);
        }
        add_point(points, "possible at most", tolerance,
                  1.0 + ota_iterations_geometric(diameter, tanh(diameter / 4.0), tolerance));
    }
    for (int k = 0; k < 3; k++)
        add_point(points, "printed in table 5", printed[k][0], printed[k][1]);
}

/* One key raised by a shift: imbalance of four rules. */
void study_sink(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size;
    static const char *const methods[] = {"softmax", "elastic:0.5,4", "relaxed:1", "softmax/exact"};
    double *s = normals(t, n * n, 1.0);
    const size_t used = t->used;
    for (int64_t shift = 0; shift < sizes->samples; shift++) {
        double *moved = copy_of(t, s, n * n);
        for (int64_t i = 0; i < n; i++) moved[i * n + 3] += (double)shift;
        for (int k = 0; k < 4; k++) {
            head *h = statement_plan(t, n, n, moved, methods[k], 1.0, 0.0);
            add_point(points, methods[k], (double)shift, h->certificate.delta);
        }
        t->used = used;
    }
}

/* ||P - Q||_1 over the printed and over the sharp bound, random pairs and two permutations. */
void study_tightness(trial *t, const study_sizes *sizes, study_points *points) {
    const int64_t n = sizes->size, pairs = n * n;
    const size_t used = t->used;
    for (int64_t trials = 0; trials < sizes->samples; trials++) {
        const bool cycle = trials % 4 == 0;
        const double size = pow(10.0, between(t, -1.5, 0.8));
        double *s = normals(t, pairs, 1.0), *other = copy_of(t, s, pairs), l1 = 0.0;
        for (int64_t k = 0; k < pairs; k++) {
            const bool on = k / n == k % n, next = (k / n + 1) % n == k % n;
            if (cycle) s[k] = on ? size / 2.0 : next ? -size / 2.0 : -60.0;
            other[k] = !cycle ? s[k] + size * normal(t) : on || next ? -s[k] : s[k];
        }
        head *p = statement_plan(t, n, n, s, "softmax/exact", 1.0, 1e-11);
        head *q = statement_plan(t, n, n, other, "softmax/exact", 1.0, 1e-11);
        for (int64_t k = 0; k < pairs; k++) l1 += fabs(p->p[k] - q->p[k]);
        ota_gauge_result gauge;
        ota_score_bounds bounds;
        if (ota_gauge(
                &(ota_gauge_matrix){.a = s, .b = other, .type = OTA_F64, .rows = n, .columns = n},
                NULL, NULL, &gauge, NULL, NULL) >= 0 &&
            ota_score_bounds_of(
                &(ota_score_pair){
                    .scores = s, .perturbed = other, .rows = n, .columns = n, .temperature = 1.0},
                gauge.residual, NULL, &bounds, NULL, NULL) >= 0) {
            add_point(points, cycle ? "printed, two permutations" : "printed, random pairs",
                      bounds.sup, l1 / bounds.printed);
            add_point(points, cycle ? "sharp, two permutations" : "sharp, random pairs", bounds.sup,
                      l1 / bounds.sharp);
        }
        t->used = used;
    }
}
