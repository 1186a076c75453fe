/* Group F, LayerNorm: forward, Jacobian, spectrum and how far it moves [TOT-56..60]. u, gamma, beta [width],
 * sigma = sqrt(||u - mean||^2 / width + eps). */
#include "statements/check.h"

enum { WIDTH = 8, TOKENS = 6 };

static double layernorm_golden(trial *t) {
    static const double golden[4] = {-1.341635419968927, -0.447211806656309, 0.447211806656309,
                                     1.341635419968927};
    const double u[4] = {1, 2, 3, 4};
    double y[4];
    if (ota_layernorm(u, 1, 4, &(ota_norm){.epsilon = 1e-5}, y, NULL, NULL, NULL) < 0) return NAN;
    return farthest(seen(t, y, 4), golden, 4);
}

static void layernorm_formula(const double *u, const double *gamma, const double *beta, double *y) {
    const double mean = sum_of(u, WIDTH) / (double)WIDTH;
    double square = 0.0;
    for (int k = 0; k < WIDTH; k++) square += (u[k] - mean) * (u[k] - mean);
    const double sigma = sqrt(square / (double)WIDTH + 1e-3);
    for (int k = 0; k < WIDTH; k++)
        y[k] = (gamma != NULL ? gamma[k] : 1.0) * (u[k] - mean) / sigma +
               (beta != NULL ? beta[k] : 0.0);
}

static double layernorm(trial *t) {
    double *u = normals(t, TOKENS * WIDTH, 2.0), *gamma = normals(t, WIDTH, 1.0),
           *beta = normals(t, WIDTH, 1.0), y[TOKENS * WIDTH], formula[WIDTH], most = 0.0;
    if (ota_layernorm(u, TOKENS, WIDTH, &(ota_norm){.gamma = gamma, .beta = beta, .epsilon = 1e-3},
                      y, NULL, NULL, NULL) < 0)
        return NAN;
    seen(t, y, TOKENS * WIDTH);
    for (int i = 0; i < TOKENS; i++) {
        layernorm_formula(u + i * WIDTH, gamma, beta, formula);
        most = worse(most, farthest(y + i * WIDTH, formula, WIDTH));
    }
    return most;
}

/* Jacobian and backward against differences of the formula. */
static double layernorm_jacobian(trial *t) {
    double *u = normals(t, WIDTH, 1.0), *dy = normals(t, WIDTH, 1.0),
           *gamma = normals(t, WIDTH, 1.0);
    double jacobian[WIDTH * WIDTH], du[WIDTH], most = 0.0;
    if (ota_layernorm_jacobian(u, WIDTH, 1e-3, jacobian, NULL, NULL) < 0 ||
        ota_layernorm_backward(u, 1, WIDTH, &(ota_norm){.gamma = gamma, .epsilon = 1e-3},
                               &(ota_norm_gradients){.dy = dy, .du = du}, NULL, NULL) < 0) {
        return NAN;
    }
    seen(t, jacobian, WIDTH * WIDTH);
    for (int k = 0; k < WIDTH; k++) {
        const double step = 1e-3, at[4] = {1.0, -1.0, 2.0, -2.0};
        double *moved = copy_of(t, u, WIDTH), y[4][WIDTH], back = 0.0;
        for (int side = 0; side < 4; side++) {
            moved[k] = u[k] + at[side] * step;
            layernorm_formula(moved, NULL, NULL, y[side]);
        }
        for (int j = 0; j < WIDTH; j++) {
            const double slope = (8.0 * (y[0][j] - y[1][j]) - (y[2][j] - y[3][j])) / (12.0 * step);
            most = worse(most, fabs(slope - jacobian[j * WIDTH + k]));
            back += dy[j] * gamma[j] * slope;
        }
        most = worse(most, fabs(back - du[k]));
    }
    return most;
}

static ota_layernorm_spectrum geometry(trial *t, const double *u, int64_t width,
                                       const double *gamma, double epsilon) {
    ota_layernorm_spectrum spectrum;
    memset(&spectrum, 0, sizeof spectrum);
    spectrum.parallel = spectrum.perpendicular = spectrum.exact = spectrum.printed = NAN;
    (void)ota_layernorm_geometry(u, width, &(ota_norm){.gamma = gamma, .epsilon = epsilon},
                                 numbers(t, width), &spectrum, NULL, NULL);
    return spectrum;
}

/* J c = eps/sigma^3 c, J x = x/sigma for x orthogonal to 1 and c, J 1 = 0. */
static double layernorm_spectrum(trial *t) {
    double most = 0.0, jacobian[WIDTH * WIDTH];
    for (int trials = 0; trials < 20; trials++) {
        double *u = normals(t, WIDTH, 1.0), *x = normals(t, WIDTH, 1.0), c[WIDTH];
        const double mean = sum_of(u, WIDTH) / (double)WIDTH;
        for (int k = 0; k < WIDTH; k++) c[k] = u[k] - mean;
        const double sigma = sqrt(dot(c, c, WIDTH) / (double)WIDTH + 1e-3),
                     level = sum_of(x, WIDTH) / (double)WIDTH;
        for (int k = 0; k < WIDTH; k++) x[k] -= level;
        const double along = dot(x, c, WIDTH) / dot(c, c, WIDTH);
        for (int k = 0; k < WIDTH; k++) x[k] -= along * c[k];
        if (ota_layernorm_jacobian(u, WIDTH, 1e-3, jacobian, NULL, NULL) < 0) return NAN;
        const ota_layernorm_spectrum s = geometry(t, u, WIDTH, NULL, 1e-3);
        const double parallel = seen_number(t, s.parallel);
        most = worse(most, fabs(parallel - 1e-3 / (sigma * sigma * sigma)));
        most = worse(most, fabs(s.perpendicular - 1.0 / sigma));
        most = worse(most, fabs((double)s.perpendicular_count - (WIDTH - 2)));
        for (int k = 0; k < WIDTH; k++) {
            const double *row = jacobian + k * WIDTH;
            most = worse(most, fabs(dot(row, c, WIDTH) - parallel * c[k]));
            most = worse(most, fabs(dot(row, x, WIDTH) - s.perpendicular * x[k]));
            most = worse(most, fabs(sum_of(row, WIDTH)));
        }
    }
    /* Where c = 0 the 1/sigma space has one dimension more. */
    double *even = numbers(t, WIDTH);
    const ota_layernorm_spectrum s = geometry(t, even, WIDTH, NULL, 1e-3);
    return worse(most, fabs((double)s.perpendicular_count - (WIDTH - 1)));
}

/* ||diag(gamma) J||_2 by squaring: equal to `exact`, at most `printed`. */
static double layernorm_lipschitz(trial *t) {
    double most = 0.0, jacobian[WIDTH * WIDTH];
    double *u = normals(t, WIDTH, 1.0), *gamma = normals(t, WIDTH, 1.0);
    if (ota_layernorm_jacobian(u, WIDTH, 1e-3, jacobian, NULL, NULL) < 0) return NAN;
    for (int k = 0; k < WIDTH * WIDTH; k++) jacobian[k] *= gamma[k / WIDTH];
    double x[WIDTH] = {0.0};
    const double norm = statement_leading(jacobian, WIDTH, WIDTH, x);
    const ota_layernorm_spectrum s = geometry(t, u, WIDTH, gamma, 1e-3);
    most = worse(most, fabs(seen_number(t, s.exact) / norm - 1.0));
    most = worse(most, norm / s.printed - 1.0);
    most = worse(most, s.printed / s.global_printed - 1.0);
    return most;
}

static const double first_axis[4] = {1, 0, 0, 0}, ramp[4] = {1, 2, 3, 4};

static double layernorm_golden_norm(trial *t) {
    const ota_layernorm_spectrum s = geometry(t, ramp, 4, first_axis, 1e-5);
    const double two[2] = {1.0, 3.0}, sigma = sqrt(1.0 + 1e-5);
    const ota_layernorm_spectrum pair = geometry(t, two, 2, NULL, 1e-5);
    return worse(fabs(seen_number(t, s.exact) - 0.4899),
                 fabs(pair.exact / (1e-5 / (sigma * sigma * sigma)) - 1.0));
}

/* (A.26) as an equality: ||gamma||_inf / sigma less the norm, at gamma = e_1, u = (1, 2, 3, 4). */
static double layernorm_equality(trial *t) {
    const ota_layernorm_spectrum s = geometry(t, ramp, 4, first_axis, 1e-5);
    return s.printed - s.exact;
}

static double layernorm_changes(trial *t) {
    double most = 0.0, y[2][WIDTH], space[2 * WIDTH];
    double *u = normals(t, WIDTH, 1.0), *v = copy_of(t, u, WIDTH), *gamma = normals(t, WIDTH, 1.0);
    const double size = pow(10.0, between(t, -3.0, 1.0));
    for (int k = 0; k < WIDTH; k++) v[k] += size * normal(t);
    ota_change change;
    if (ota_layernorm_change(u, v, WIDTH, &(ota_norm){.gamma = gamma, .epsilon = 1e-3}, space,
                             &change, NULL, NULL) < 0)
        return NAN;
    layernorm_formula(u, gamma, NULL, y[0]);
    layernorm_formula(v, gamma, NULL, y[1]);
    most = worse(
        most, fabs(seen_number(t, change.measured) - statement_row_change(y[0], y[1], 1, WIDTH)));
    most =
        worse(most, fmax(change.measured / change.printed, change.measured / change.sharp) - 1.0);
    return most;
}

static const statement_check table[] = {
    AT_MOST("TOT-56", "golden LayerNorm of (1, 2, 3, 4)", layernorm_golden, 1e-14),
    AT_MOST("TOT-56", "gamma, beta, several rows, by loops", layernorm, 1e-14),
    AT_MOST("TOT-57", "Jacobian and backward against differences", layernorm_jacobian, 1e-9),
    AT_MOST("TOT-58", "eigenvalues eps/sigma^3, 1/sigma, 0 on their vectors", layernorm_spectrum,
            1e-14),
    AT_MOST("TOT-59", "norm by squaring; over the bounds, minus 1", layernorm_lipschitz, 1e-6, 10),
    AT_MOST("TOT-59", "golden norm .4899; eps/sigma^3 at width 2", layernorm_golden_norm, 1e-4),
    PRINTED_AT_MOST("TOT-59", "||gamma||_inf/sigma is the norm: difference at (1, 2, 3, 4) (E14)",
                    layernorm_equality, 1e-6),
    AT_MOST("TOT-60", "LayerNorm change by loops; over both bounds, minus 1", layernorm_changes,
            1e-12, 100),
};
CHECK_GROUP(statement_checks_layernorm, table);
