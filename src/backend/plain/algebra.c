/* Linear algebra on the host (ota_host_algebra) and how the search for a matching reads scores (ota_costs), one formula
 * a function. Solvers that ask for costs work in f64 here, so there is one table. */
#include "plain.h"

#include <float.h>
#include <math.h>

#include "regularisers/tsallis.h"

/* ---- sums and products ---------------------------------------------------------------------------- */

static double sum(const double *p, int64_t count) {
    double total = 0.0;
    for (int64_t j = 0; j < count; j++) total += p[j];
    return total;
}

static void accumulate(const double *p, int64_t count, double factor, double *column) {
    for (int64_t j = 0; j < count; j++) column[j] += factor * p[j];
}

static void multiply(double *p, int64_t count, double factor) {
    for (int64_t j = 0; j < count; j++) p[j] *= factor;
}

static void apply(const double *p, const double *v, const ota_product *is, double *out) {
    for (int64_t r = 0; r < is->rows; r++) {
        for (int64_t j = 0; j < is->keys; j++)
            accumulate(v + j * is->ldv, is->width, p[r * is->ldp + j], out + r * is->ldo);
    }
}

/* ---- lists of keys -------------------------------------------------------------------------------- */

static double top(const double *s, const double *h, int64_t count) {
    double most = -INFINITY;
    for (int64_t j = 0; j < count; j++) {
        const double x = s[j] + (h == NULL ? 0.0 : h[j]);
        if (x > most || isnan(x)) most = x;
    }
    return most;
}

static int64_t list(const double *s, const double *h, int64_t count, double floor, double *kept,
                    int32_t *where) {
    int64_t found = 0;
    for (int64_t j = 0; j < count; j++) {
        if (!(s[j] + (h == NULL ? 0.0 : h[j]) > floor)) continue;
        kept[found] = s[j];
        where[found++] = (int32_t)j;
    }
    return found;
}

static void slope_weights(const double *p, int64_t count, double power, double *w) {
    for (int64_t j = 0; j < count; j++)
        w[j] = p[j] > 0.0 ? ota_tsallis_slope(p[j], 2.0 - power) : 0.0;
}

/* ---- exponentials --------------------------------------------------------------------------------- */

static double exponentials(const double *s, const double *h, int64_t count, double shift, double c,
                           double *p) {
    double total = 0.0;
    for (int64_t j = 0; j < count; j++)
        total += p[j] = exp2((s[j] + (h == NULL ? 0.0 : h[j]) - shift) * c);
    return total;
}

static void columns_top(const double *s, int64_t lds, int64_t rows, int64_t columns,
                        const double *f, double *top) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < columns && f[r] > -INFINITY; j++)
            top[j] = fmax(top[j], s[r * lds + j] + f[r]);
    }
}

static void columns_sum(const double *s, int64_t lds, int64_t rows, int64_t columns,
                        const double *f, const double *top, double c, double *column) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < columns && f[r] > -INFINITY; j++) {
            if (top[j] > -INFINITY) column[j] += exp2((s[r * lds + j] + f[r] - top[j]) * c);
        }
    }
}

/* ---- implicit gradients ----------------------------------------------------------------------------- */

/* Slopes are f64 in every plan. */
static void centred_product(const double *w, int64_t ldw, int64_t rows, int64_t columns,
                            const double *x, const double *den, double *mean, double *y) {
    for (int64_t i = 0; i < rows; i++, w += ldw) {
        double dot = 0.0;
        for (int64_t j = 0; j < columns; j++) dot += w[j] * x[j];
        mean[i] = den[i] > 0.0 ? dot / den[i] : 0.0;
        for (int64_t j = 0; j < columns; j++) y[j] += w[j] * (x[j] - mean[i]);
    }
}

static void slope_diagonal(const double *w, int64_t ldw, int64_t rows, int64_t columns,
                           const double *den, double *weight, double *diagonal) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns && den[i] > 0.0; j++) {
            const double slope = w[i * ldw + j];
            weight[j] += slope;
            diagonal[j] += slope * (1.0 - slope / den[i]);
        }
    }
}

/* ---- rows of arrays ------------------------------------------------------------------------------- */

static void read_rows(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                      int64_t rows, double *to, int64_t ld) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < from->size[3]; j++)
            to[i * ld + j] = ota_array_get(from, batch, head, first + i, j);
    }
}

static void write_rows(const ota_array *to, int64_t batch, int64_t head, int64_t first,
                       int64_t rows, const double *from, int64_t ld) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < to->size[3]; j++)
            ota_array_set(to, batch, head, first + i, j, from[i * ld + j]);
    }
}

/* ---- costs ---------------------------------------------------------------------------------------- */

static double cost_at(const ota_score_row *row, int64_t j) {
    return fmin(row->top - ((const double *)row->scores)[j] * row->factor, row->limit);
}

static ota_cost_score_range score_range(const void *scores, int64_t count, double sign) {
    ota_cost_score_range found = {.top = -INFINITY};
    for (int64_t j = 0; j < count; j++) {
        const double score = sign * ((const double *)scores)[j];
        if (score <= -INFINITY) continue;
        found.wrong |= !(score < INFINITY);
        found.top = fmax(found.top, score);
        found.largest = fmax(found.largest, fabs(score));
    }
    return found;
}

static void form(const ota_score_row *row, double *cost) {
    for (int64_t j = 0; j < row->count; j++) cost[j] = cost_at(row, j);
}

static void lower(const ota_score_row *row, int64_t i, double *price, int64_t *who) {
    for (int64_t j = 0; j < row->count; j++) {
        if (!(cost_at(row, j) < price[j])) continue;
        price[j] = cost_at(row, j);
        who[j] = i;
    }
}

static int64_t tight(const ota_score_row *row, const double *price, const int64_t *row_of,
                     int64_t begin) {
    for (int64_t k = 0; k < row->count; k++) {
        const int64_t j = (begin + k) % row->count;
        if (row_of[j] < 0 && cost_at(row, j) - price[j] <= 0.0) return j;
    }
    return -1;
}

static double groups(const ota_score_row *row, const double *price, int64_t count, double *lowest) {
    double least = INFINITY;
    for (int64_t k = 0; k < count; k++) lowest[k] = INFINITY;
    for (int64_t j = 0; j < row->count; j++) {
        const double reduced = cost_at(row, j) - price[j];
        lowest[j % count] = fmin(lowest[j % count], reduced);
        least = fmin(least, reduced);
    }
    return least;
}

static void append(ota_pair_list *list, int64_t column, double cost) {
    list->column[list->count] = (int32_t)column;
    list->cost[list->count++] = cost;
}

/* Forbidden pairs, whose cost is infinite, stay out. */
static bool pick(const ota_score_row *row, const ota_cost_groups *of, int64_t begin,
                 double threshold, ota_pair_list *list) {
    list->next = INFINITY;
    for (int64_t step = 0; step < of->count; step++) {
        for (int64_t j = (begin + step) % of->count; j < row->count; j += of->count) {
            const double cost = cost_at(row, j), reduced = cost - of->price[j];
            if (!(reduced <= fmin(threshold, DBL_MAX))) {
                list->next = fmin(list->next, reduced);
                continue;
            }
            if (list->count == list->room) return false;
            append(list, j, cost);
        }
    }
    return true;
}

static void nearer(const ota_score_row *row, const double *price, double offset,
                   const double *distance, double most, ota_pair_list *list) {
    for (int64_t j = 0; j < row->count; j++) {
        const double cost = cost_at(row, j), through = (cost - price[j]) - offset;
        if (through < distance[j] && through < most) append(list, j, cost);
    }
}

static double best(const void *scores, double sign, const double *g, int64_t count) {
    double top = -INFINITY;
    for (int64_t j = 0; j < count; j++) top = fmax(top, sign * ((const double *)scores)[j] + g[j]);
    return top;
}

static double best_listed(const void *scores, double sign, const double *g, const int32_t *column,
                          int32_t listed) {
    double top = -INFINITY;
    for (int32_t k = 0; k < listed; k++)
        top = fmax(top, sign * ((const double *)scores)[column[k]] + g[column[k]]);
    return top;
}

static void transpose(const void *from, int64_t rows, int64_t columns, int64_t from_stride,
                      void *to, int64_t stride) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            ((double *)to)[j * stride + i] = ((const double *)from)[i * from_stride + j];
    }
}

static const ota_costs costs = {.score_range = score_range,
                                .form = form,
                                .lower = lower,
                                .tight = tight,
                                .groups = groups,
                                .pick = pick,
                                .nearer = nearer,
                                .best = best,
                                .best_listed = best_listed,
                                .transpose = transpose};

const ota_host_algebra ota_plain_algebra = {.sum = sum,
                                            .accumulate = accumulate,
                                            .multiply = multiply,
                                            .apply = apply,
                                            .exponentials = exponentials,
                                            .columns_top = columns_top,
                                            .columns_sum = columns_sum,
                                            .row_solve = ota_plain_row_solve,
                                            .top_f64 = top,
                                            .list_f64 = list,
                                            .slope_weights = slope_weights,
                                            .row_weights = ota_plain_row_weights,
                                            .row_online = ota_plain_row_online,
                                            .row_scores = ota_plain_row_scores,
                                            .read_rows = read_rows,
                                            .write_rows = write_rows,
                                            .centred_product_f64 = centred_product,
                                            .slope_diagonal_f64 = slope_diagonal,
                                            .costs = {&costs, NULL}};
