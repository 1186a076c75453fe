/* What earlier rows of a plan learn of later tokens.
 *
 *     S' = S + D,  D_ij = +-move where i >= t or j >= t + offset, 0 elsewhere
 *     leak = max_(i < t) ||P_i(S) - P_i(S')||_1                                            [DER-23]
 *
 * D is one more dense term of the problem, so queries, keys and every other term stay as they are. */
#include "analysis/analysis.h"

#include <stdlib.h>

typedef struct shape {
    int64_t batch, heads, rows, columns, offset;
} shape;

static shape shape_of(const ota_problem *problem) {
    const bool matrix = problem->scores.type != OTA_NO_TYPE;
    const ota_array *const q = matrix ? &problem->scores : &problem->queries;
    shape s = {q->size[0], q->size[1], q->size[2], matrix ? q->size[3] : problem->keys.size[2], 0};
    if (problem->columns == OTA_COLUMNS_PREFIX || problem->corner == OTA_BOTTOM_RIGHT)
        s.offset = s.columns - s.rows;
    return s;
}

static void fill(const shape *s, int64_t position, double move, double *change,
                 const analysis_call *call) {
    for (int64_t i = 0; i < s->rows && ota_analysis_goes_on(call); i++) {
        for (int64_t j = 0; j < s->columns; j++) {
            const bool later = i >= position || j >= position + s->offset;
            change[i * s->columns + j] = !later ? 0.0 : (i + j) % 2 == 0 ? move : -move;
        }
    }
}

static double furthest(const shape *s, int64_t position, const double *p, const double *q,
                       const analysis_call *call) {
    double worst = 0.0;
    for (int64_t head = 0; head < s->batch * s->heads && ota_analysis_goes_on(call); head++) {
        for (int64_t i = 0; i < position && ota_analysis_goes_on(call); i++) {
            const int64_t at = (head * s->rows + i) * s->columns;
            double apart = 0.0;
            for (int64_t j = 0; j < s->columns && analysis_goes_on(call, j); j++)
                apart += fabs(p[at + j] - q[at + j]);
            if (!(apart <= worst)) worst = apart;
        }
    }
    return worst;
}

ota_status ota_causality_leak(const ota_problem *problem, const ota_options *options,
                              int64_t position, double move, double *leak, ota_error *error) {
    const analysis_call begun = ota_analysis_begin_plan(options, error), *const call = &begun;
    ota_status status = ota_check(problem, options, call->error);
    if (status < 0) return status;
    const shape s = shape_of(problem);
    if (position < 1 || position >= s.rows) {
        return ota_analysis_fail(call, OTA_EINVAL, "position", "choose a row that has earlier ones",
                                 "position is %" PRId64 " of %" PRId64 " rows", position, s.rows);
    }
    if (!isfinite(move)) {
        return ota_analysis_fail(call, OTA_EINVAL, "move", "give a finite number", "move is %g",
                                 move);
    }
    int64_t cells, pairs;
    if (__builtin_mul_overflow(s.rows, s.columns, &pairs) ||
        __builtin_mul_overflow(pairs, s.batch * s.heads, &cells) || cells > INT64_MAX / 32) {
        return ota_analysis_fail(call, OTA_EOVERFLOW, "scores", "give fewer heads at a time",
                                 "the coupling has more entries than can be counted");
    }
    double *const memory = malloc((size_t)(2 * cells + pairs + 1) * sizeof *memory);
    ota_term *const terms = calloc((size_t)problem->term_count + 1, sizeof *terms);
    if (memory == NULL || terms == NULL) {
        status = ota_analysis_fail(call, OTA_ENOMEM, "scores", "give fewer heads at a time",
                                   "no memory for %" PRId64 " pairs", cells);
    } else {
        double *const change = memory + 2 * cells;
        if (problem->term_count > 0)
            memcpy(terms, problem->terms, (size_t)problem->term_count * sizeof *terms);
        terms[problem->term_count].kind = OTA_TERM_DENSE;
        terms[problem->term_count].array = ota_array_of(change, OTA_F64, 1, 1, s.rows, s.columns);
        ota_problem changed = {.size = 0};
        memcpy(&changed, problem, problem->size < sizeof changed ? problem->size : sizeof changed);
        changed.terms = terms;
        changed.term_count = problem->term_count + 1;
        for (int k = 0; k < 2 && status >= 0; k++) {
            ota_arrays arrays = {.size = sizeof arrays};
            arrays.coupling =
                ota_array_of(memory + k * cells, OTA_F64, s.batch, s.heads, s.rows, s.columns);
            fill(&s, position, k == 0 ? 0.0 : move, change, call);
            status = ota_attend(&changed, options, &arrays, NULL, call->error);
        }
        if (status >= 0) *leak = furthest(&s, position, memory, memory + cells, call);
    }
    free(memory);
    free(terms);
    return ota_analysis_end(status, call);
}
