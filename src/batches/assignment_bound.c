/* What prices prove about an assignment problem. It reads the costs as they were given and shares nothing with the
 * searches. With c' = min(sign c, limit), u' = sign u, v' = sign v:
 *
 *     every matching of k = min(rows, columns) pairs costs at least  sum u' + sum v' - k max(0, max_ij (u'_i + v'_j - c'_ij))
 *
 * where the prices of the longer side count as min(v', 0), since its rows or columns may stay unmatched. */
#include "assignment.h"

#include <math.h>

static double price_of(const double *price, int64_t at, double sign, bool longer) {
    const double own = sign * price[at];
    return longer ? fmin(own, 0.0) : own;
}

double ota_assignment_bound(const ota_cost_view *view, const double *u, const double *v) {
    const bool tall = view->rows > view->columns, wide = view->rows < view->columns;
    double sum = 0.0, most = 0.0;
    for (int64_t j = 0; j < view->columns; j++) sum += price_of(v, j, view->sign, wide);
    for (int64_t i = 0; i < view->rows; i++) {
        const double own = price_of(u, i, view->sign, tall);
        sum += own;
        for (int64_t j = 0; j < view->columns; j++) {
            const double cost = fmin(view->sign * ota_cost_of(view, i, j), view->limit);
            most = fmax(most, own + price_of(v, j, view->sign, wide) - cost);
        }
    }
    return view->sign * (sum - (double)ota_int_min(view->rows, view->columns) * most);
}

static bool is_free(const ota_assign_part *part, const uint64_t *barred, int64_t j) {
    return part->taken[j] == 0 && (barred == NULL || (barred[j / 64] >> j % 64 & 1u) == 0);
}

/* Of the rows from `first` on, which have their own columns left, every matching costs at least what they do at the prices. */
double ota_assignment_part_bound(const ota_cost_view *view, const ota_assign_part *part) {
    const bool limited = view->limit < INFINITY, wide = view->rows < view->columns || limited;
    const int64_t columns = view->columns + (limited ? view->rows : 0);
    double sum = 0.0;
    for (int64_t i = 0; i < part->first; i++) {
        const int64_t j = part->column_of[i];
        sum += j < view->columns ? view->sign * ota_cost_of(view, i, j) : view->limit;
    }
    for (int64_t j = 0; j < columns; j++)
        sum += part->taken[j] ? 0.0 : price_of(part->price, j, 1.0, wide);
    for (int64_t i = part->first; i < view->rows; i++) {
        const uint64_t *barred = i == part->first ? part->barred : NULL;
        double least = INFINITY;
        for (int64_t j = 0; j < view->columns; j++) {
            const double cost = view->sign * ota_cost_of(view, i, j);
            if (is_free(part, barred, j) && cost < view->limit)
                least = fmin(least, cost - price_of(part->price, j, 1.0, wide));
        }
        const int64_t own = view->columns + i;
        if (limited && is_free(part, barred, own))
            least = fmin(least, view->limit - price_of(part->price, own, 1.0, wide));
        sum += least;
    }
    return sum;
}

/* The least cost of what a matching cannot do without: one pair of a marked row and of a column that is not marked. */
double ota_bottleneck_bound(const ota_cost_view *view, const uint8_t *row, const uint8_t *column,
                            int64_t left_out) {
    int64_t more = 0;
    double least = INFINITY;
    for (int64_t j = 0; j < view->columns; j++) more -= column[j];
    for (int64_t i = 0; i < view->rows; i++) {
        more += row[i];
        for (int64_t j = 0; row[i] != 0 && j < view->columns; j++) {
            if (column[j] == 0) least = fmin(least, view->sign * ota_cost_of(view, i, j));
        }
    }
    return more > left_out ? least : (double)-INFINITY;
}

int64_t ota_cover_bound(const ota_cost_view *view, const uint8_t *row, const uint8_t *column) {
    int64_t lines = 0;
    for (int64_t j = 0; j < view->columns; j++) lines += column[j];
    for (int64_t i = 0; i < view->rows; i++) {
        lines += row[i];
        for (int64_t j = 0; row[i] == 0 && j < view->columns; j++) {
            if (column[j] == 0 && view->sign * ota_cost_of(view, i, j) < view->limit)
                return view->rows;
        }
    }
    return lines < view->rows ? lines : view->rows;
}
