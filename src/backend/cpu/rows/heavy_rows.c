/* One row of entmax with an order alpha below 1, compiled for each type.
 *
 *     p_j = (x_j - t)^(1 / (alpha - 1)),   x_j = (s_j + h_j - top) (alpha - 1) / tau >= 0,   t < 0 fixed by sum p = mu
 *
 * No weight is 0: the tails fall like a power of the distance to the largest score. The power multiplies relative errors of
 * x - t by 1 / (1 - alpha), so scores of both types are turned into f64 piece by piece. The sink is one more key. */
#include "heavy_rows.h"

#include <float.h>
#include <math.h>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/real.h"
#include "backend/kept_sum.h"
#include "backend/threshold.h"

enum { PIECE = 512 };

/* Of a step as small the miss of the next is its square times a bound by the power. */
static const double near_threshold = 1.0e-9;

typedef struct heavy_row {
    const ota_row_parameters *parameters;
    const real *s, *h;
    int64_t count;
    double top, k, power;
} heavy_row;

static heavy_row row_of(const ota_row_parameters *parameters, const real *s, const real *h,
                        int64_t count, double top) {
    const double gap = parameters->order - 1.0;
    const heavy_row row = {.parameters = parameters,
                           .s = s,
                           .h = h,
                           .count = count,
                           .top = top,
                           .k = fmax(gap / parameters->tau, -DBL_MAX),
                           .power = 1.0 / gap};
    return row;
}

/* s + h of a piece, rounded as the maximum of the row was. */
static int64_t lift(const heavy_row *row, int64_t first, double *x) {
    const int64_t count = row->count - first < PIECE ? row->count - first : PIECE;
    for (int64_t j = 0; j < count; j++) {
        const real s = row->s[first + j];
        x[j] = (double)(row->h == NULL ? s : (real)(s + row->h[first + j]));
    }
    return count;
}

static ota_kernels_f64_powers operands(const heavy_row *row, const double *x, int64_t count,
                                       double t) {
    const ota_kernels_f64_powers piece = {
        .s = x, .count = count, .shift = row->top, .k = row->k, .t = t, .p = row->power};
    return piece;
}

static double sink_weight(const heavy_row *row, double t, double power) {
    const double sink = row->parameters->sink;
    return sink > -INFINITY ? power_above((sink - row->top) * row->k, t, power) : 0.0;
}

/* sum y^p and sum y^(p - 1), the sink's included. */
static void sums_at(const heavy_row *row, double t, double *first, double *second) {
    double x[PIECE], firsts, seconds;
    ota_kept_sum sums[2] = {{sink_weight(row, t, row->power), 0.0},
                            {sink_weight(row, t, row->power - 1.0), 0.0}};
    for (int64_t j = 0; j < row->count; j += PIECE) {
        const ota_kernels_f64_powers piece = operands(row, x, lift(row, j, x), t);
        (void)row->parameters->kernels->f64->power_sums(&piece, &firsts, &seconds);
        ota_kept_add(&sums[0], firsts);
        ota_kept_add(&sums[1], seconds);
    }
    *first = ota_kept_value(&sums[0]);
    *second = ota_kept_value(&sums[1]);
}

/* p_j = factor y_j^p */
static void write_weights(const heavy_row *row, double t, double factor, real *p,
                          ota_row_found *found) {
    double x[PIECE];
    ota_kept_sum sum = {0.0, 0.0};
    for (int64_t j = 0; j < row->count; j += PIECE) {
        const int64_t count = lift(row, j, x);
        const ota_kernels_f64_powers piece = operands(row, x, count, t);
        ota_kept_add(&sum, row->parameters->kernels->f64->powers(&piece, factor, x));
        for (int64_t i = 0; i < count; i++) p[j + i] = (real)x[i];
    }
    found->mass = ota_kept_value(&sum);
    found->sink = factor * sink_weight(row, t, row->power);
}

void WORD(ota_row_heavy)(const ota_row_parameters *parameters, const real *s, const real *h,
                         int64_t count, double mu, double top, real *p, ota_row_found *found) {
    if (!(mu > 0.0)) {
        for (int64_t j = 0; j < count; j++) p[j] = (real)0;
        return;
    }
    const heavy_row row = row_of(parameters, s, h, count, top);
    threshold_search search = threshold_begin(mu, row.power, (double)count + 1.0);
    search.near = near_threshold;
    double first, second;
    do {
        sums_at(&row, search.t, &first, &second);
    } while (threshold_step(&search, first, second));
    sums_at(&row, search.t, &first, &second);
    /* What rounding left of the threshold is spread in proportion, so that rows sum to mu. */
    write_weights(&row, search.t, mu / first, p, found);
    found->potential = -top - search.t / row.k;
}

void WORD(ota_row_heavy_weights)(const ota_row_parameters *parameters, const real *s, const real *h,
                                 int64_t count, double f, double top, real *p,
                                 ota_row_found *found) {
    const heavy_row row = row_of(parameters, s, h, count, top);
    write_weights(&row, -(f + top) * row.k, 1.0, p, found);
    found->potential = f;
}
