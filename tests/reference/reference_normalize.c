/* See reference_normalize.h. */
#include "reference_normalize.h"

#include <math.h>
#include <string.h>

enum { SQUARE = REFERENCE_SIDE * REFERENCE_SIDE, STEPS = 2 * REFERENCE_ROUNDS };

/* Index of the m-th element of a line: a row, or a column. */
static int at(int n, int columns, int line, int m) { return columns ? m * n + line : line * n + m; }

static double row_error(int n, const double *plan) {
    double worst = 0.0;
    for (int i = 0; i < n; i++) {
        double sum = 0.0;
        for (int j = 0; j < n; j++) sum += plan[i * n + j];
        worst = fmax(worst, fabs(sum - 1.0));
    }
    return worst;
}

/* ---- deepseek ---------------------------------------------------------------------------------- */

static void softmax_rows(int n, const double *scores, double *soft) {
    for (int i = 0; i < n; i++) {
        double top = -INFINITY, sum = 0.0;
        for (int j = 0; j < n; j++) top = fmax(top, scores[i * n + j]);
        for (int j = 0; j < n; j++) sum += soft[i * n + j] = exp(scores[i * n + j] - top);
        for (int j = 0; j < n; j++) soft[i * n + j] /= sum;
    }
}

/* x_m = x_m / (sum + eps) for every line. */
static void divide_lines(int n, int columns, double eps, double *x) {
    for (int line = 0; line < n; line++) {
        double sum = eps;
        for (int m = 0; m < n; m++) sum += x[at(n, columns, line, m)];
        for (int m = 0; m < n; m++) x[at(n, columns, line, m)] /= sum;
    }
}

/* Its derivative in reverse, from x before the division: dx_m = dy_m / s - sum_k x_k dy_k / s^2. */
static void divide_lines_backward(int n, int columns, double eps, const double *x, double *grad) {
    for (int line = 0; line < n; line++) {
        double sum = eps, inner = 0.0;
        for (int m = 0; m < n; m++) {
            sum += x[at(n, columns, line, m)];
            inner += x[at(n, columns, line, m)] * grad[at(n, columns, line, m)];
        }
        for (int m = 0; m < n; m++) {
            double *g = &grad[at(n, columns, line, m)];
            *g = *g / sum - inner / (sum * sum);
        }
    }
}

double reference_deepseek(int n, int rounds, double eps, const double *scores, double *plan) {
    softmax_rows(n, scores, plan);
    for (int e = 0; e < n * n; e++) plan[e] += eps;
    if (rounds > 0) divide_lines(n, 1, eps, plan);
    for (int round = 1; round < rounds; round++) {
        divide_lines(n, 0, eps, plan);
        divide_lines(n, 1, eps, plan);
    }
    return row_error(n, plan);
}

void reference_deepseek_backward(int n, int rounds, double eps, const double *scores,
                                 const double *plan_grad, double *scores_grad) {
    double before[STEPS][SQUARE], soft[SQUARE], x[SQUARE];
    int steps = 0;
    softmax_rows(n, scores, soft);
    for (int e = 0; e < n * n; e++) x[e] = soft[e] + eps;
    for (; steps < 2 * rounds - 1; steps++) {
        memcpy(before[steps], x, sizeof x);
        divide_lines(n, steps % 2 == 0, eps, x);
    }
    memcpy(scores_grad, plan_grad, (size_t)(n * n) * sizeof *scores_grad);
    while (steps-- > 0) divide_lines_backward(n, steps % 2 == 0, eps, before[steps], scores_grad);
    for (int i = 0; i < n; i++) {
        double mean = 0.0;
        for (int j = 0; j < n; j++) mean += soft[i * n + j] * scores_grad[i * n + j];
        for (int j = 0; j < n; j++) {
            scores_grad[i * n + j] = soft[i * n + j] * (scores_grad[i * n + j] - mean);
        }
    }
}

/* ---- symmetric --------------------------------------------------------------------------------- */

/* x_m = x_m - log sum_k exp(x_k) for every line. */
static void shift_lines(int n, int columns, double *x) {
    for (int line = 0; line < n; line++) {
        double top = -INFINITY, sum = 0.0;
        for (int m = 0; m < n; m++) top = fmax(top, x[at(n, columns, line, m)]);
        for (int m = 0; m < n; m++) sum += exp(x[at(n, columns, line, m)] - top);
        for (int m = 0; m < n; m++) x[at(n, columns, line, m)] -= top + log(sum);
    }
}

double reference_symmetric(int n, int rounds, const double *scores, double *plan) {
    memcpy(plan, scores, (size_t)(n * n) * sizeof *plan);
    for (int step = 0; step < 2 * rounds; step++) shift_lines(n, step % 2, plan);
    for (int e = 0; e < n * n; e++) plan[e] = exp(plan[e]);
    return row_error(n, plan);
}

void reference_symmetric_backward(int n, int rounds, const double *scores, const double *plan_grad,
                                  double *scores_grad) {
    double after[STEPS][SQUARE], x[SQUARE];
    memcpy(x, scores, (size_t)(n * n) * sizeof *x);
    for (int step = 0; step < 2 * rounds; step++) {
        shift_lines(n, step % 2, x);
        memcpy(after[step], x, sizeof x);
    }
    for (int e = 0; e < n * n; e++) scores_grad[e] = plan_grad[e] * exp(x[e]);
    for (int step = 2 * rounds; step-- > 0;) {
        /* dx_m = dy_m - exp(y_m) sum_k dy_k */
        for (int line = 0; line < n; line++) {
            double sum = 0.0;
            for (int m = 0; m < n; m++) sum += scores_grad[at(n, step % 2, line, m)];
            for (int m = 0; m < n; m++) {
                const int e = at(n, step % 2, line, m);
                scores_grad[e] -= exp(after[step][e]) * sum;
            }
        }
    }
}

/* ---- implicit ---------------------------------------------------------------------------------- */

/* A x = y in place, A symmetric and no direction of it negative, the rows of A `size` + 1 long with y last. A diagonal
 * that is gone means a row that is gone: its unknown is 0. */
static void eliminate(int size, double a[][2 * REFERENCE_SIDE + 1]) {
    for (int k = 0; k < size; k++) {
        if (a[k][k] < 1e-13) {
            for (int c = 0; c <= size; c++) a[k][c] = c == k;
        }
        for (int r = 0; r < size; r++) {
            const double part = r == k ? 0.0 : a[r][k] / a[k][k];
            for (int c = k; c <= size; c++) a[r][c] -= part * a[k][c];
        }
    }
    for (int k = 0; k < size; k++) a[k][size] /= a[k][k];
}

void reference_implicit(int n, const double *plan, const double *plan_grad, double *scores_grad) {
    /* Unknowns f_1 ... f_n, g_1 ... g_(n-1); g_n = 0. */
    double a[2 * REFERENCE_SIDE][2 * REFERENCE_SIDE + 1] = {{0.0}};
    const int size = 2 * n - 1;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            const double p = plan[i * n + j], part = p * plan_grad[i * n + j];
            a[i][i] += p;
            a[i][size] += part;
            if (j == n - 1) continue;
            a[i][n + j] += p;
            a[n + j][i] += p;
            a[n + j][n + j] += p;
            a[n + j][size] += part;
        }
    }
    eliminate(size, a);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            const double g = j < n - 1 ? a[n + j][size] : 0.0;
            scores_grad[i * n + j] = plan[i * n + j] * (plan_grad[i * n + j] - a[i][size] - g);
        }
    }
}
