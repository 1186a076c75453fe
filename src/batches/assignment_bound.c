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
