/* The scores a problem means, S [batch, heads, n, m] with all terms, -inf outside its support, through the
 * public calls alone: for any temperature tau
 *
 *     S_ij = tau (log P_ij + lse_i),   P = softmax(S / tau)
 *
 * A temperature beyond all scores tells the support (all weights are nearly equal there); then one of the
 * size of the scores' range, so that the logarithms lose nothing. */
#include "identify.h"

#include <stdlib.h>

static const double FAR = 1e200;

typedef struct reading {
    const ota_problem *plain;
    const ota_options *options;
    ota_arrays arrays;
    double *coupling, *lse; /* [batch, heads, n, m], [batch, heads, n] */
    int64_t rows, columns;
} reading;

static ota_status solve(reading *r, double temperature, ota_error *error) {
    ota_problem problem = *r->plain;
    problem.temperature = temperature;
    return ota_attend(&problem, r->options, &r->arrays, NULL, error);
}

/* Largest range of log P within a row; *lost: P vanishes on a pair of the support. */
static double widest_row(const reading *r, const double *scores, bool *lost,
                         const analysis_call *call) {
    double widest = 0.0;
    *lost = false;
    for (int64_t i = 0; i < r->rows && ota_analysis_goes_on(call); i++) {
        double least = 1.0, most = 0.0;
        for (int64_t k = i * r->columns; k < (i + 1) * r->columns; k++) {
            if (isinf(scores[k])) continue;
            if (!(r->coupling[k] >= 0x1p-1000)) *lost = true;
            least = fmin(least, r->coupling[k]);
            most = fmax(most, r->coupling[k]);
        }
        if (most > 0.0 && least > 0.0) widest = fmax(widest, log(most / least));
    }
    return widest;
}

static ota_status read_scores(reading *r, double *scores, const analysis_call *call) {
    ota_status status = solve(r, FAR, call->error);
    if (status < 0) return status;
    for (int64_t k = 0; k < r->rows * r->columns && analysis_goes_on(call, k); k++)
        scores[k] = r->coupling[k] > 0.0 ? 0.0 : -(double)INFINITY;
    double temperature = 1.0;
    /* From 1 it takes few steps to any range; the last one brings it near the range. */
    for (int step = 0; step < 40; step++) {
        bool lost;
        status = solve(r, temperature, call->error);
        if (status < 0) return status;
        const double range = widest_row(r, scores, &lost, call);
        if (lost)
            temperature *= 256.0;
        else if (range > 32.0 || (range > 0x1p-48 && range < 0x1p-4))
            temperature *= range;
        else
            break;
    }
    for (int64_t i = 0; i < r->rows && ota_analysis_goes_on(call); i++) {
        for (int64_t j = 0; j < r->columns; j++) {
            double *const score = &scores[i * r->columns + j];
            if (isinf(*score)) continue;
            *score = temperature * (log(r->coupling[i * r->columns + j]) + r->lse[i]);
        }
    }
    return OTA_OK;
}

ota_status ota_identify_scores(const ota_problem *problem, const ota_options *options,
                               int64_t batch, int64_t heads, int64_t rows, int64_t columns,
                               double *scores, const analysis_call *call) {
    ota_problem plain = {.size = sizeof plain,
                         .queries = problem->queries,
                         .keys = problem->keys,
                         .scores = problem->scores,
                         .cost = problem->cost,
                         .scale = problem->scale,
                         .supports = problem->supports,
                         .support_count = problem->support_count,
                         .corner = problem->corner};
    const int64_t lines = batch * heads * rows;
    ota_term *const terms = calloc((size_t)problem->term_count + 1, sizeof *terms);
    double *const coupling = malloc((size_t)(lines * columns + lines) * sizeof *coupling);
    ota_status status = OTA_OK;
    if (terms == NULL || coupling == NULL) {
        status = ota_analysis_fail(call, OTA_ENOMEM, "coupling", "use fewer heads at a time",
                                   "no memory for %" PRId64 " pairs", lines * columns);
    } else {
        /* A sink takes part in the row sums only, which say nothing about S. */
        for (int64_t k = 0; k < problem->term_count; k++) {
            if (problem->terms[k].kind != OTA_TERM_SINK)
                terms[plain.term_count++] = problem->terms[k];
        }
        plain.terms = terms;
        reading r = {.plain = &plain,
                     .options = options,
                     .arrays = {.size = sizeof r.arrays},
                     .coupling = coupling,
                     .lse = coupling + lines * columns,
                     .rows = lines,
                     .columns = columns};
        r.arrays.coupling = ota_array_of(coupling, OTA_F64, batch, heads, rows, columns);
        r.arrays.lse = ota_array_of(r.lse, OTA_F64, batch, heads, 1, rows);
        status = read_scores(&r, scores, call);
    }
    free(terms);
    free(coupling);
    return status;
}
