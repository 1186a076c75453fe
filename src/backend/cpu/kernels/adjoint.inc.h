/* The linear system of implicit gradients (solvers/derivatives/adjoint.h) on a matrix of slopes w in T. Part of level.c.
 *
 *     slope_sums        sum_j w_j  and  sum_j w_j x_j                         over w_j > 0
 *     slope_columns     right_j += w_ij (u_ij - mean_i),  size_j += w_ij (|u_ij - mean_i| + share |u_ij|)
 *     slope_diagonal    weight_j += w_ij,  diagonal_j += w_ij (1 - w_ij / den_i)
 *     centred_product   mean_i = (w_i . x) / den_i,  y_j += w_ij (x_j - mean_i)
 *
 * Every product and sum is in f64 whatever T is: constants must stay in the kernel of the system to f64's rounding, or
 * conjugate gradients would follow them. The loops are plain, in the lanes of one sum or along the columns, so the
 * compiler makes vectors of them and every level gives the same bits. */

enum { WIDE = 8, SLOPE_COLUMNS = 256 };

static ALWAYS_INLINE double wide_sum(const double *part) {
    return ((part[0] + part[4]) + (part[2] + part[6])) +
           ((part[1] + part[5]) + (part[3] + part[7]));
}

/* What has no weight may hold anything. */
static ALWAYS_INLINE double weighed(real w, real u) { return w > 0 ? (double)u : 0.0; }

static double slope_sums(const real *restrict w, const real *restrict u, int64_t count,
                         double *weight) {
    double all[WIDE] = {0}, products[WIDE] = {0};
    const int64_t whole = count / WIDE * WIDE;
    for (int64_t j = 0; j < whole; j += WIDE) {
        for (int l = 0; l < WIDE; l++) {
            all[l] += (double)w[j + l];
            products[l] += (double)w[j + l] * weighed(w[j + l], u[j + l]);
        }
    }
    for (int64_t j = whole; j < count; j++) {
        all[j - whole] += (double)w[j];
        products[j - whole] += (double)w[j] * weighed(w[j], u[j]);
    }
    *weight = wide_sum(all);
    return wide_sum(products);
}

static void slope_columns_run(const real *restrict w, const real *restrict u, int64_t count,
                              double mean, double share, double *restrict right,
                              double *restrict size) {
    for (int64_t j = 0; j < count; j++) {
        const double slope = (double)w[j], x = w[j] > 0 ? (double)u[j] : mean;
        right[j] += slope * (x - mean);
        size[j] += slope * (fabs(x - mean) + share * fabs(x));
    }
}

static void slope_columns(const slopes_operands *x) {
    for (int64_t j = 0; j < x->columns; j += SLOPE_COLUMNS) {
        for (int64_t i = 0; i < x->rows; i++) {
            slope_columns_run(x->w + i * x->ldw + j, x->u + i * x->ldu + j,
                              ota_int_min(SLOPE_COLUMNS, x->columns - j), x->mean[i], x->share,
                              x->right + j, x->size + j);
        }
    }
}

static void slope_diagonal_row(const real *restrict w, int64_t count, double den,
                               double *restrict weight, double *restrict diagonal) {
    for (int64_t j = 0; j < count; j++) {
        const double slope = (double)w[j];
        weight[j] += slope;
        diagonal[j] += slope * (1.0 - slope / den);
    }
}

static void slope_diagonal(const real *w, int64_t ldw, int64_t rows, int64_t columns,
                           const double *den, double *weight, double *diagonal) {
    for (int64_t i = 0; i < rows; i++) {
        if (den[i] > 0.0) slope_diagonal_row(w + i * ldw, columns, den[i], weight, diagonal);
    }
}

static double centred_mean(const real *restrict w, const double *restrict x, int64_t count,
                           double den) {
    double part[WIDE] = {0};
    const int64_t whole = count / WIDE * WIDE;
    for (int64_t j = 0; j < whole; j += WIDE) {
        for (int l = 0; l < WIDE; l++) part[l] += (double)w[j + l] * x[j + l];
    }
    for (int64_t j = whole; j < count; j++) part[j - whole] += (double)w[j] * x[j];
    return wide_sum(part) / den;
}

static void centred_row(const real *restrict w, const double *restrict x, int64_t count,
                        double mean, double *restrict y) {
    for (int64_t j = 0; j < count; j++) y[j] += (double)w[j] * (x[j] - mean);
}

static void centred_product(const real *w, int64_t ldw, int64_t rows, int64_t columns,
                            const double *x, const double *den, double *mean, double *y) {
    for (int64_t i = 0; i < rows; i++) {
        mean[i] = 0.0;
        if (!(den[i] > 0.0)) continue;
        mean[i] = centred_mean(w + i * ldw, x, columns, den[i]);
        centred_row(w + i * ldw, x, columns, mean[i], y);
    }
}
