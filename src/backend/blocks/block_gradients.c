/* Gradients of a block (blocks.h): dL/dP from outputs, dL/dS from multipliers, through the softcap to products, and the sums that
 * parameters get of a row. */
#include "blocks.h"

#include <string.h>

#include "regularisers/tsallis.h"
#include "terms/terms.h"

void ota_block_drop(const ota_block *b, int64_t k, double *row) {
    if (b->problem->problem.dropout > 0.0)
        ota_dropout_row_f64(b->problem, b->dropout_key, b->first + k, b->key, NULL, b->keys, row);
}

void ota_block_form_upstream(const ota_block *b, const double *out_grad, int64_t width,
                             const double *values, int64_t ldv) {
    const ota_product sizes = {b->rows, width, b->keys, width, ldv, b->stride};
    for (int64_t k = 0; k < b->rows; k++)
        memset(b->slopes + k * b->stride, 0, (size_t)b->keys * sizeof(double));
    b->algebra->apply(out_grad, values, &sizes, b->slopes);
    for (int64_t k = 0; k < b->rows; k++) ota_block_drop(b, k, b->slopes + k * b->stride);
}

enum { CHUNK = 64 }; /* slopes at a time */

void ota_block_add_slopes(const ota_block *b, int64_t k, const double *beside, const bool *shut,
                          double *total, double *sum) {
    const double *u = b->slopes + k * b->stride;
    double w[CHUNK];
    for (int64_t first = 0; first < b->keys; first += CHUNK) {
        const int64_t end = ota_int_min(first + CHUNK, b->keys);
        ota_block_find_slopes(b, k, first, end - first, w);
        for (int64_t j = first; j < end; j++) {
            const double slope = w[j - first];
            if (!(slope > 0.0) || (shut != NULL && shut[j])) continue;
            *total += slope;
            *sum += slope * (beside != NULL ? u[j] - beside[j] : u[j]);
        }
    }
}

/* The key of the steepest slope of row k that is not `shut`; -1: the sink's. */
static int64_t steepest_of(const ota_block *b, int64_t k, const bool *shut, double sink_slope) {
    double most = sink_slope;
    int64_t steepest = -1;
    for (int64_t j = 0; j < b->keys; j++) {
        const double w = shut != NULL && shut[j] ? 0.0 : ota_block_slope(b, k, j);
        if (!(w > most)) continue;
        most = w;
        steepest = j;
    }
    return steepest;
}

double ota_block_centre(const ota_block *b, int64_t k, const bool *shut, double sink_slope,
                        double sink_u) {
    double *u = b->slopes + k * b->stride;
    if (!b->rule.regulariser->tsallis || !(b->rule.order > 2.0)) return 0.0;
    const int64_t steepest = steepest_of(b, k, shut, sink_slope);
    const double middle = steepest < 0 ? sink_u : u[steepest];
    for (int64_t j = 0; j < b->keys; j++) u[j] -= middle;
    return middle;
}

double ota_block_multiplier(const ota_block *b, int64_t k, ota_block_row *row, double moved,
                            const bool *shut) {
    row->middle = ota_block_centre(b, k, shut, row->sink_slope, row->sink_u);
    row->sink_u -= row->middle;
    double total = row->sink_slope, sum = row->sink_slope * row->sink_u;
    ota_block_add_slopes(b, k, NULL, shut, &total, &sum);
    return total > 0.0 ? (sum - b->rule.tau * moved) / total : 0.0;
}

void ota_block_add_key_sums(const ota_block *b, const double *a, int64_t first,
                            const ota_block_key_sums *to) {
    double w[CHUNK];
    for (int64_t at = 0; at < b->rows; at++) {
        const double mean = a[at], size = fabs(mean);
        for (int64_t begin = 0; begin < b->keys; begin += CHUNK) {
            const int64_t count = ota_int_min(CHUNK, b->keys - begin), key = first + begin;
            const double *u = b->slopes + at * b->stride + begin;
            ota_block_find_slopes(b, at, begin, count, w);
            for (int64_t j = 0; j < count && to->moved != NULL; j++) {
                const double moved = w[j] * (u[j] - mean);
                to->moved[key + j] += w[j] > 0.0 ? moved : 0.0;
            }
            for (int64_t j = 0; j < count && to->sizes != NULL; j++) {
                const double sizes = w[j] * (fabs(u[j]) + size);
                to->sizes[key + j] += w[j] > 0.0 ? sizes : 0.0;
            }
            for (int64_t j = 0; j < count && to->slopes != NULL; j++) to->slopes[key + j] += w[j];
            for (int64_t j = 0; j < count && to->weights != NULL; j++)
                to->weights[key + j] += b->weights[at * b->stride + begin + j];
        }
    }
}

/* NaN on the pairs that a row without a finite mean may use. */
static void spoil(const ota_block *b, int64_t k, double *to) {
    const double *s = b->scores + k * b->stride;
    double *weights = b->weights + k * b->stride;
    for (int64_t j = 0; j < b->keys; j++)
        to[j] = weights[j] = s[j] <= -INFINITY ? 0.0 : (double)NAN;
}

void ota_block_apply_slopes(const ota_block *b, int64_t k, double a, const double *beside,
                            bool finite, double *to) {
    const double rate = 1.0 / b->rule.tau, *u = b->slopes + k * b->stride;
    double w[CHUNK];
    if (!finite) {
        spoil(b, k, to);
        return;
    }
    for (int64_t begin = 0; begin < b->keys; begin += CHUNK) {
        const int64_t count = ota_int_min(CHUNK, b->keys - begin);
        ota_block_find_slopes(b, k, begin, count, w);
        for (int64_t j = 0; j < count; j++) {
            const double other = beside != NULL ? beside[begin + j] : 0.0,
                         moved = w[j] * rate * (u[begin + j] - a - other);
            to[begin + j] = w[j] > 0.0 ? moved : 0.0;
        }
    }
}

void ota_block_add_round(const ota_block *b, int64_t k, double a, const double *beside,
                         double *by_temperature) {
    const double rate = 1.0 / b->rule.tau, f = b->f[k], *p = b->weights + k * b->stride,
                 *s = b->scores + k * b->stride;
    double *g = b->slopes + k * b->stride;
    for (int64_t j = 0; j < b->keys; j++) {
        const double moved = p[j] * rate * (a + beside[j]);
        g[j] -= p[j] > 0.0 ? moved : 0.0;
    }
    for (int64_t j = 0; j < b->keys && by_temperature != NULL; j++) {
        if (p[j] > 0.0)
            *by_temperature += p[j] * rate * (a + beside[j]) * (((s[j] + f) + b->g[j]) * rate);
    }
}

/* g times 1 - tanh^2 of the softcap of row k. */
static void go_through_softcap(const ota_block *b, const ota_block_softcap *of, int64_t k,
                               double *g) {
    const double *raw = b->raw + k * b->stride;
    for (int64_t j = 0; j < b->keys; j++) {
        if (!(g[j] < 0.0) && !(g[j] > 0.0)) continue;
        const double tanh_y = tanh(ota_block_softcap_argument(b, of, raw[j], j));
        g[j] *= (1.0 - tanh_y) * (1.0 + tanh_y);
    }
}

void ota_block_go_through(const ota_block *b) {
    for (int64_t k = 0; k < b->rows; k++) {
        const ota_block_softcap of = ota_block_softcap_of(b, k);
        double *g = b->slopes + k * b->stride;
        for (int64_t j = 0; j < b->keys; j++) g[j] *= b->problem->scale;
        if (of.softcap != NULL) go_through_softcap(b, &of, k, g);
    }
}

/* ---- parameters ----------------------------------------------------------------------------------- */

/* x = (S + f + g) / tau of a weight above 0, whose level says the same without the row's constants. */
static double level_of(const ota_row_parameters *rule, double p, double x) {
    return rule->regulariser->tsallis ? ota_tsallis_level(p, rule->order) : x / rule->tau;
}

void ota_block_add_pair_sums(const ota_block *b, int64_t k, bool by_order, double *sums) {
    const double *g = b->slopes + k * b->stride, *s = b->scores + k * b->stride,
                 *weights = b->weights + k * b->stride, f = b->f[k];
    for (int64_t j = 0; j < b->keys; j++) {
        if (!(weights[j] > 0.0)) continue;
        sums[OTA_SUM_TEMPERATURE] -=
            g[j] * level_of(&b->rule, weights[j], s[j] + f + (b->g != NULL ? b->g[j] : 0.0));
        if (by_order)
            sums[OTA_SUM_ORDER] +=
                g[j] * b->rule.tau * ota_tsallis_order_slope(weights[j], b->rule.order);
    }
}

void ota_add_sink_sums(const ota_row_parameters *rule, double weight, double f, double a,
                       bool by_order, double *sums) {
    const double g = -ota_pair_slope(rule, rule->sink, f, weight, INFINITY) * a / rule->tau;
    sums[OTA_SUM_SINK] += g;
    sums[OTA_SUM_TEMPERATURE] -= g * level_of(rule, weight, rule->sink + f);
    if (by_order)
        sums[OTA_SUM_ORDER] += g * rule->tau * ota_tsallis_order_slope(weight, rule->order);
}

double ota_block_sum_distance(const ota_block *b, int64_t k, int64_t position) {
    const double *g = b->slopes + k * b->stride;
    double sum = 0.0;
    for (int64_t j = 0; j < b->keys; j++) sum -= g[j] * fabs((double)(position - j));
    return sum;
}

double ota_block_sum_softcap(const ota_block *b, int64_t k) {
    const ota_block_softcap of = ota_block_softcap_of(b, k);
    const double *g = b->slopes + k * b->stride, *raw = b->raw + k * b->stride;
    double sum = 0.0;
    for (int64_t j = 0; j < b->keys; j++) {
        if (!(g[j] < 0.0) && !(g[j] > 0.0) && !isnan(g[j])) continue;
        const double y = ota_block_softcap_argument(b, &of, raw[j], j), tanh_y = tanh(y);
        sum += g[j] * (tanh_y - y * (1.0 - tanh_y) * (1.0 + tanh_y));
    }
    return sum;
}
