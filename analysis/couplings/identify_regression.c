/* The line through a coupling, by weighted least squares with row and column effects:
 *
 *     minimise over x, a, b   sum_ij w_ij (y_ij - x S_ij - a_i - b_j)^2,   w = P^(2 - order)
 *
 * w dy = dP: the weights measure misfit in units of mass. The effects are taken out of y and of S first
 * [frisch1933]; column effects solve (diag c - W^T diag(r)^-1 W) b = right side, r = W 1, c = W^T 1, by
 * conjugate gradients: the matrix is singular along constants, and the right side has none. */
#include "identify.h"

typedef struct effects {
    const identify_data *data;
    double *row_weight, *column_weight; /* r, c */
    double *row_work;                   /* [heads * rows] */
} effects;

static bool counts(const identify_data *d, int64_t line, int64_t j) {
    return d->weights[line * d->columns + j] > 0.0;
}

/* rows_i = (sum_j w_ij x_ij - sum_j w_ij b_j) / r_i, either of x and b NULL for zero */
static void row_means(const effects *e, const double *x, const double *b, double *rows,
                      const analysis_call *call) {
    const identify_data *d = e->data;
    for (int64_t line = 0; line < d->heads * d->rows && ota_analysis_goes_on(call); line++) {
        const double *const w = d->weights + line * d->columns;
        const int64_t head = line / d->rows;
        double sum = 0.0;
        for (int64_t j = 0; j < d->columns; j++) {
            if (!counts(d, line, j)) continue;
            const double value = (x != NULL ? x[line * d->columns + j] : 0.0) -
                                 (b != NULL ? b[head * d->columns + j] : 0.0);
            sum += w[j] * value;
        }
        rows[line] = e->row_weight[line] > 0.0 ? sum / e->row_weight[line] : 0.0;
    }
}

/* columns_j = sum_i w_ij (x_ij - rows_i), either of x and rows NULL for zero */
static void column_sums(const effects *e, const double *x, const double *rows, double *columns,
                        const analysis_call *call) {
    const identify_data *d = e->data;
    for (int64_t k = 0; k < d->heads * d->columns; k++) columns[k] = 0.0;
    for (int64_t line = 0; line < d->heads * d->rows && ota_analysis_goes_on(call); line++) {
        const double *const w = d->weights + line * d->columns;
        double *const sums = columns + line / d->rows * d->columns;
        for (int64_t j = 0; j < d->columns; j++) {
            if (!counts(d, line, j)) continue;
            const double value =
                (x != NULL ? x[line * d->columns + j] : 0.0) - (rows != NULL ? rows[line] : 0.0);
            sums[j] += w[j] * value;
        }
    }
}

static double dot(const double *a, const double *b, const double *divided, int64_t count) {
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) {
        const double by = divided != NULL ? divided[k] : 1.0;
        if (by > 0.0) sum += a[k] * b[k] / by;
    }
    return sum;
}

/* Column effects of x with rows free, preconditioned by c. work [3 heads * columns] */
static void solve_columns(const effects *e, const double *x, double *b, double *work,
                          const analysis_call *call) {
    const identify_data *d = e->data;
    const int64_t count = d->heads * d->columns;
    double *const rest = work, *const step = rest + count, *const image = step + count;
    row_means(e, x, NULL, e->row_work, call);
    column_sums(e, x, e->row_work, rest, call);
    for (int64_t k = 0; k < count; k++) {
        b[k] = 0.0;
        step[k] = e->column_weight[k] > 0.0 ? rest[k] / e->column_weight[k] : 0.0;
    }
    double size = dot(rest, rest, e->column_weight, count);
    const double enough = size * 1e-28;
    for (int round = 0; round < 300 && size > enough; round++) {
        if (!ota_analysis_goes_on(call)) break;
        /* image = c step - W^T (row means of step) */
        row_means(e, NULL, step, e->row_work, call);
        for (int64_t k = 0; k < d->heads * d->rows; k++) e->row_work[k] = -e->row_work[k];
        column_sums(e, NULL, e->row_work, image, call);
        for (int64_t k = 0; k < count; k++) image[k] = e->column_weight[k] * step[k] + image[k];
        const double curvature = dot(step, image, NULL, count);
        if (!(curvature > 0.0)) break;
        const double length = size / curvature;
        for (int64_t k = 0; k < count; k++) {
            b[k] += length * step[k];
            rest[k] -= length * image[k];
        }
        const double next = dot(rest, rest, e->column_weight, count), turn = next / size;
        size = next;
        for (int64_t k = 0; k < count; k++) {
            const double c = e->column_weight[k];
            step[k] = (c > 0.0 ? rest[k] / c : 0.0) + turn * step[k];
        }
    }
}

static void take_out(const effects *e, unsigned sides, const double *x, double *rows,
                     double *columns, double *work, const analysis_call *call) {
    const identify_data *d = e->data;
    for (int64_t k = 0; k < d->heads * d->rows; k++) rows[k] = 0.0;
    for (int64_t k = 0; k < d->heads * d->columns; k++) columns[k] = 0.0;
    if (sides == (IDENTIFY_ROWS | IDENTIFY_COLUMNS)) solve_columns(e, x, columns, work, call);
    if (sides == IDENTIFY_COLUMNS) {
        column_sums(e, x, NULL, columns, call);
        for (int64_t k = 0; k < d->heads * d->columns; k++)
            columns[k] = e->column_weight[k] > 0.0 ? columns[k] / e->column_weight[k] : 0.0;
    }
    if ((sides & IDENTIFY_ROWS) != 0) row_means(e, x, columns, rows, call);
}

/* y, w and the sums of w */
static void transform(identify_data *d, double order, const effects *e) {
    const bool entropy = order <= 1.0;
    for (int64_t k = 0; k < d->heads * d->rows; k++) e->row_weight[k] = 0.0;
    for (int64_t k = 0; k < d->heads * d->columns; k++) e->column_weight[k] = 0.0;
    for (int64_t line = 0; line < d->heads * d->rows && ota_analysis_goes_on(d->call); line++) {
        const int64_t head = line / d->rows;
        for (int64_t j = 0; j < d->columns; j++) {
            const int64_t k = line * d->columns + j, column = head * d->columns + j;
            const double p = d->coupling[k];
            const bool silent = d->left_out[column] != 0;
            d->weights[k] = d->transformed[k] = 0.0;
            if (!(p > 0.0) || isinf(d->scores[k]) || silent) continue;
            /* Above order 2 tiny weights would rule alone. */
            d->weights[k] = fmin(pow(p, 2.0 - fmax(order, 1.0)), 1e6);
            d->transformed[k] = entropy ? log(p) : pow(p, order - 1.0) / (order - 1.0);
            e->row_weight[line] += d->weights[k];
            e->column_weight[column] += d->weights[k];
        }
    }
}

identify_line ota_identify_regress(identify_data *d, double order, unsigned sides) {
    const int64_t lines = d->heads * d->rows, columns = d->heads * d->columns;
    effects e = {.data = d, .row_weight = d->work, .row_work = d->work + lines};
    e.column_weight = e.row_work + lines;
    double *const work = e.column_weight + columns;
    transform(d, order, &e);
    take_out(&e, sides, d->transformed, d->row_effect, d->column_effect, work, d->call);
    take_out(&e, sides, d->scores, d->score_row, d->score_column, work, d->call);
    double across = 0.0, along = 0.0, whole = 0.0;
    for (int64_t k = 0; k < d->cells && analysis_goes_on(d->call, k); k++) {
        if (!(d->weights[k] > 0.0)) continue;
        const int64_t line = k / d->columns, column = line / d->rows * d->columns + k % d->columns;
        const double s = d->scores[k] - d->score_row[line] - d->score_column[column];
        across += d->weights[k] * s *
                  (d->transformed[k] - d->row_effect[line] - d->column_effect[column]);
        along += d->weights[k] * s * s;
        whole += d->weights[k] * d->scores[k] * d->scores[k];
    }
    identify_line fit = {.slope = (double)NAN};
    const double slope = along > 1e-24 * whole ? across / along : 0.0;
    if (along > 1e-24 * whole) fit.slope = slope;
    for (int64_t k = 0; k < lines; k++) d->row_effect[k] -= slope * d->score_row[k];
    for (int64_t k = 0; k < columns; k++) d->column_effect[k] -= slope * d->score_column[k];
    for (int64_t k = 0; k < d->cells && analysis_goes_on(d->call, k); k++) {
        if (!(d->weights[k] > 0.0)) continue;
        const int64_t line = k / d->columns, column = line / d->rows * d->columns + k % d->columns;
        fit.residual += d->weights[k] * fabs(d->transformed[k] - slope * d->scores[k] -
                                             d->row_effect[line] - d->column_effect[column]);
    }
    fit.residual /= d->mass;
    return fit;
}

double ota_identify_minimum(double (*height)(void *context, double at), void *context, double least,
                            double most, int steps) {
    enum { GRID = 16 };
    const double golden = 0.6180339887498949, width = (most - least) / (double)GRID;
    double best = least, smallest = (double)INFINITY;
    for (int k = 0; k <= GRID; k++) {
        const double here = height(context, least + width * k);
        if (here < smallest) {
            smallest = here;
            best = least + width * k;
        }
    }
    double low = fmax(least, best - width), high = fmin(most, best + width);
    double first = high - golden * (high - low), second = low + golden * (high - low);
    double at_first = height(context, first), at_second = height(context, second);
    for (int k = 0; k < steps; k++) {
        if (at_first <= at_second) {
            high = second;
            second = first;
            at_second = at_first;
            first = high - golden * (high - low);
            at_first = height(context, first);
        } else {
            low = first;
            first = second;
            at_first = at_second;
            second = low + golden * (high - low);
            at_second = height(context, second);
        }
    }
    return 0.5 * (low + high);
}

typedef struct order_search {
    identify_data *data;
    unsigned sides;
} order_search;

static double residual_at(void *context, double order) {
    const order_search *s = context;
    return ota_identify_regress(s->data, order, s->sides).residual;
}

double ota_identify_order(identify_data *d, unsigned sides, double least, double most) {
    order_search s = {d, sides};
    /* From 0.37 to 1e-8, where residuals end in rounding. */
    return ota_identify_minimum(residual_at, &s, least, most, 36);
}
