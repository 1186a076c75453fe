/* Group A, signs and sides: what the notes call a cost, and which side they constrain [ELA-05, BLOG-01..03].
 * S [n][m], P [n][m]; Q [n][width], K [m][width]. */
#include "statements/check.h"

enum { N = 6, M = 9 };

static double blog_attention(trial *t) {
    enum { WIDTH = 16 };
    double most = 0.0, row[M], formula[M];
    head *h = statement_attention_head(t, N, M, WIDTH, normals(t, N * WIDTH, 1.0),
                                       normals(t, M * WIDTH, 1.0));
    statement_solve(t, h, NULL, 0.0, 0.0);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < M; j++) {
            row[j] = dot(h->queries + i * WIDTH, h->keys + j * WIDTH, WIDTH) / sqrt(WIDTH);
        }
        softmax_formula(row, M, 1.0, formula);
        most = worse(most, farthest(h->p + i * M, formula, M));
    }
    return most;
}

static double blog_columns(trial *t) {
    head *h = statement_plan(t, 2, 2, (double[]){1.0, 0.0, 2.0, 0.0}, "softmax", 1.0, 0.0);
    return worse(fabs(h->columns[0] - 1.0), fabs(h->columns[1] - 1.0));
}

static double column_softmax(trial *t) {
    double most = 0.0;
    double *s = normals(t, N * M, 1.0), *transposed = numbers(t, N * M);
    for (int k = 0; k < N * M; k++) transposed[k % M * N + k / M] = s[k];
    head *h = statement_head(t, N, M, s);
    h->problem.axis = OTA_AXIS_COLUMNS;
    statement_solve(t, h, "softmax", 0.8, 0.0);
    head *other = statement_plan(t, M, N, transposed, "softmax", 0.8, 0.0);
    for (int k = 0; k < N * M; k++) {
        most = worse(most, fabs(h->p[k] - other->p[k % M * N + k / M]));
    }
    for (int j = 0; j < M; j++) most = worse(most, fabs(h->columns[j] - 1.0));
    return most;
}

static double column_kkt(trial *t) {
    double most = 0.0;
    const double tau = sqrt(8.0);
    head *h = statement_head(t, N, M, normals(t, N * M, 3.0));
    h->problem.axis = OTA_AXIS_COLUMNS;
    statement_solve(t, h, "softmax", tau, 0.0);
    for (int j = 0; j < M; j++) {
        double level[N];
        for (int i = 0; i < N; i++) {
            level[i] = -h->scores[i * M + j] + tau * (1.0 + log(h->p[i * M + j]));
        }
        most = worse(most, spread_of(level, N));
    }
    return most;
}

static double correlation(trial *t, bool cost) {
    enum { SIZE = 32, WIDTH = 16 };
    head *h = statement_attention_head(t, SIZE, SIZE, WIDTH, normals(t, SIZE * WIDTH, 1.0),
                                       normals(t, SIZE * WIDTH, 1.0));
    h->problem.cost = cost;
    statement_solve(t, h, "softmax/exact", 0.0, 0.0);
    double sum[5] = {0.0};
    for (int k = 0; k < SIZE * SIZE; k++) {
        const double x = dot(h->queries + k / SIZE * WIDTH, h->keys + k % SIZE * WIDTH, WIDTH);
        const double y = h->p[k];
        sum[0] += x;
        sum[1] += y;
        sum[2] += x * x;
        sum[3] += y * y;
        sum[4] += x * y;
    }
    const double count = SIZE * SIZE;
    return (count * sum[4] - sum[0] * sum[1]) /
           sqrt((count * sum[2] - sum[0] * sum[0]) * (count * sum[3] - sum[1] * sum[1]));
}

static double score_correlation(trial *t) { return correlation(t, false); }
static double cost_correlation(trial *t) { return correlation(t, true); }

static const statement_check table[] = {
    AT_LEAST("ELA-05", "correlation of P with Q K^T, Q K^T a score", score_correlation, 0.3),
    PRINTED_AT_LEAST("ELA-05", "correlation of P with Q K^T, Q K^T a cost (E19)", cost_correlation,
                     0.3),
    AT_MOST("BLOG-01", "softmax(Q K^T / sqrt d) is the row-constrained optimum", blog_attention,
            1e-14),
    PRINTED_AT_MOST("BLOG-01", "its columns sum to 1, as the post's constraint says (E21)",
                    blog_columns, 1e-9),
    AT_MOST("BLOG-02", "the column problem is the transposed row problem", column_softmax, 1e-14),
    AT_MOST("BLOG-03", "C + tau (1 + log P) is one number in each column", column_kkt, 1e-12),
};
CHECK_GROUP(statement_checks_conventions, table);
