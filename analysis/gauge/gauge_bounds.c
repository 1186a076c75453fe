/* What follows from shifts k [rows], v [columns] of D [rows, columns], and a bound that needs none.
 *
 *     rest          r_ij = D_ij - k_i - v_j                                              [TOT-37]
 *     four-cycles   R4 = max_i,k osc(D_i - D_k) / 4,  R4 <= R <= 2 R4                    [DER-21]
 *     coherence     ||softmax(z_i + sum_l D_l,i) - softmax(z_i + sum_l v_l)||_1 <= sum_l max_j |r_l,ij|:
 *                   the k drop out of the softmax, which moves at most |x - y|_inf in l1 [TOT-42] */
#include <stdlib.h>

#include "gauge.h"

ota_status ota_gauge_rest(const ota_gauge_matrix *d, const double *row_shift,
                          const double *column_shift, double *rest,
                          const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const ota_status status = check_matrix(d, &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < d->rows && ota_analysis_goes_on(&call); i++) {
        double *row = rest + i * d->columns;
        for (int64_t first = 0; first < d->columns && analysis_goes_on(&call, first);
             first += STRIP) {
            const int64_t end = first + strip_size(d, first);
            load(d, i, first, end - first, row + first);
            for (int64_t j = first; j < end; j++) row[j] = row[j] - row_shift[i] - column_shift[j];
        }
    }
    return ota_analysis_end(OTA_OK, &call);
}

ota_status ota_gauge_four_cycle(const ota_gauge_matrix *d, double *bound,
                                const ota_analysis_options *options, ota_error *error) {
    const analysis_call begun = ota_analysis_begin(options, error), *const call = &begun;
    const int64_t rows = d->rows, columns = d->columns;
    double strip[STRIP], scale;
    ota_status status = check_matrix(d, call);
    if (status == OTA_OK) status = ota_gauge_check_entries(d, NULL, &scale, call);
    if (status != OTA_OK) return status;
    double *row = malloc((size_t)columns * sizeof *row);
    if (row == NULL) return no_memory(call);
    double widest = 0.0;
    for (int64_t i = 1; i < rows && ota_analysis_goes_on(call); i++) {
        load(d, i, 0, columns, row);
        for (int64_t other = 0; other < i && ota_analysis_goes_on(call); other++) {
            double low = HUGE_VAL, high = -HUGE_VAL;
            for (int64_t first = 0; first < columns && analysis_goes_on(call, first);
                 first += STRIP) {
                const int64_t count = strip_size(d, first);
                load(d, other, first, count, strip);
                widen(strip, row + first, count, &low, &high);
            }
            widest = fmax(widest, high - low);
        }
        tell(call, i + 1, 0.25 * widest);
    }
    free(row);
    *bound = 0.25 * widest;
    return ota_analysis_end(OTA_OK, call);
}

/* log sum exp of a row that is given entry by entry, in one pass. */
typedef struct running_sum {
    double most, total;
} running_sum;

static void include(running_sum *s, double x) {
    if (x > s->most) {
        s->total = s->total * exp(s->most - x) + 1.0;
        s->most = x;
    } else {
        s->total += exp(x - s->most);
    }
}

ota_status ota_gauge_coherence(const ota_gauge_chain *chain, double *distance, double *bound,
                               const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const int64_t layers = chain->layers, rows = chain->rows, columns = chain->columns;
    const double *start = chain->start, *moves = chain->moves;
    const double *row_shift = chain->row_shift, *column_shift = chain->column_shift;
    const matrix z = {start, NULL, OTA_F64, rows, columns};
    ota_status status = analysis_check_size(layers, 1, "layers", &call);
    if (status == OTA_OK) status = check_matrix(&z, &call);
    if (status != OTA_OK) return status;
    if (layers > INT64_MAX / 8 / (rows * columns)) {
        return ota_analysis_fail(&call, OTA_EOVERFLOW, "layers", "give fewer layers",
                                 "%" PRId64 " layers leave the range of sizes", layers);
    }
    status = analysis_check_finite(start, rows * columns, "start", &call);
    if (status == OTA_OK)
        status = analysis_check_finite(moves, layers * rows * columns, "moves", &call);
    if (status == OTA_OK)
        status = analysis_check_finite(row_shift, layers * rows, "row_shift", &call);
    if (status == OTA_OK) {
        status = analysis_check_finite(column_shift, layers * columns, "column_shift", &call);
    }
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(&call); i++) {
        running_sum moved = {-HUGE_VAL, 0.0}, common = {-HUGE_VAL, 0.0};
        double total = 0.0;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t j = 0; j < columns && ota_analysis_goes_on(&call); j++) {
                double x = start[i * columns + j], y = x;
                for (int64_t l = 0; l < layers; l++) {
                    x += moves[(l * rows + i) * columns + j];
                    y += column_shift[l * columns + j];
                }
                if (pass == 0) {
                    include(&moved, x);
                    include(&common, y);
                } else {
                    total += fabs(exp(x - moved.most) / moved.total -
                                  exp(y - common.most) / common.total);
                }
            }
        }
        distance[i] = total;
        bound[i] = 0.0;
        for (int64_t l = 0; l < layers && ota_analysis_goes_on(&call); l++) {
            double rest = 0.0;
            for (int64_t j = 0; j < columns && analysis_goes_on(&call, j); j++) {
                rest = fmax(rest, fabs(moves[(l * rows + i) * columns + j] -
                                       row_shift[l * rows + i] - column_shift[l * columns + j]));
            }
            bound[i] += rest;
        }
        bound[i] = fmin(2.0, bound[i]);
    }
    return ota_analysis_end(OTA_OK, &call);
}
