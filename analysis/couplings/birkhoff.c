/* Birkhoff-von Neumann: a doubly stochastic P [n, n] as a mixture of permutations.
 *
 *     P = sum_t w_t Pi_t,   w_t = min_i P_i,pi_t(i) of what is left,   at most (n-1)^2 + 1 terms
 *
 * Each term is a perfect matching among the entries of at least a threshold, which halves when there is
 * none; taking it off empties at least one entry. A matching is kept from term to term: only the rows
 * whose entry fell below the threshold look for a new column, along augmenting paths [kuhn1955]. */
#include "analysis/numbers.h"

#include <stdlib.h>

typedef struct search {
    const double *left; /* [size, size], what is not yet taken off */
    double threshold;
    int64_t size;
    int64_t *column_of, *row_of; /* the matching, -1 where there is none */
    int64_t *queue,
        *came_from; /* rows to visit; row from which a column was reached, -1: not yet */
} search;

/* Breadth first from `row` to a free column; then the path is turned over. */
static bool augment(const search *s, int64_t row, const analysis_call *call) {
    for (int64_t j = 0; j < s->size; j++) s->came_from[j] = -1;
    int64_t head = 0, tail = 0;
    s->queue[tail++] = row;
    while (head < tail && ota_analysis_goes_on(call)) {
        const int64_t i = s->queue[head++];
        for (int64_t j = 0; j < s->size; j++) {
            if (s->came_from[j] >= 0 || s->left[i * s->size + j] < s->threshold) continue;
            s->came_from[j] = i;
            if (s->row_of[j] >= 0) {
                s->queue[tail++] = s->row_of[j];
                continue;
            }
            for (int64_t column = j; column >= 0;) {
                const int64_t owner = s->came_from[column], next = s->column_of[owner];
                s->column_of[owner] = column;
                s->row_of[column] = owner;
                column = next;
            }
            return true;
        }
    }
    return false;
}

/* Completes the matching at the threshold, after dropping the pairs that fell below it. */
static bool complete(const search *s, const analysis_call *call) {
    for (int64_t i = 0; i < s->size; i++) {
        const int64_t j = s->column_of[i];
        if (j >= 0 && s->left[i * s->size + j] < s->threshold) {
            s->column_of[i] = -1;
            s->row_of[j] = -1;
        }
    }
    for (int64_t i = 0; i < s->size; i++) {
        if (s->column_of[i] < 0 && !augment(s, i, call)) return false; /* or interrupted */
    }
    return true;
}

static ota_status check(const double *coupling, int64_t size, int64_t capacity,
                        const analysis_call *call) {
    ota_status status = analysis_check_size(size, 1, "size", call);
    if (status == OTA_OK) status = analysis_check_size(capacity, 1, "capacity", call);
    if (status == OTA_OK && size > INT64_C(1) << 24) {
        status = ota_analysis_fail(call, OTA_EOVERFLOW, "size", "use a smaller matrix",
                                   "%" PRId64 " rows are too many", size);
    }
    if (status == OTA_OK) status = analysis_check_rows(coupling, size, size, "coupling", call);
    for (int64_t j = 0; j < size && status == OTA_OK; j++) {
        analysis_sum column = {0.0, 0.0};
        for (int64_t i = 0; i < size && analysis_goes_on(call, i); i++)
            analysis_add(&column, coupling[i * size + j]);
        if (!(fabs(analysis_total(&column) - 1.0) <= 1e-6)) {
            status = ota_analysis_fail(call, OTA_EINVAL, "coupling", "use exact columns",
                                       "column %" PRId64 " sums to %.17g, not to 1", j,
                                       analysis_total(&column));
        }
    }
    return status;
}

ota_status ota_birkhoff(const double *coupling, int64_t size, ota_permutations *terms,
                        const ota_analysis_options *options, ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    const ota_status status = check(coupling, size, terms->capacity, &call);
    if (status != OTA_OK) return status;
    const size_t n = (size_t)size;
    double *const left = malloc(n * n * sizeof *left);
    int64_t *const work = malloc(4 * n * sizeof *work);
    if (left == NULL || work == NULL) {
        free(left);
        free(work);
        return ota_analysis_fail(&call, OTA_ENOMEM, "size", "use a smaller matrix",
                                 "no memory for %" PRId64 " x %" PRId64 " entries", size, size);
    }
    memcpy(left, coupling, n * n * sizeof *left);
    for (size_t i = 0; i < 2 * n; i++) work[i] = -1;
    search s = {left, 1.0, size, work, work + n, work + 2 * n, work + 3 * n};
    /* What is left below this is rounding of the entries above it. */
    const double least = 0x1p-52;
    analysis_sum taken = {0.0, 0.0};
    terms->count = 0;
    while (terms->count < terms->capacity && s.threshold >= least && ota_analysis_goes_on(&call)) {
        if (!complete(&s, &call)) {
            s.threshold *= 0.5;
            continue;
        }
        double weight = 1.0;
        for (int64_t i = 0; i < size; i++) {
            weight = fmin(weight, left[i * size + s.column_of[i]]);
        }
        for (int64_t i = 0; i < size; i++) {
            left[i * size + s.column_of[i]] -= weight;
            terms->columns[terms->count * size + i] = s.column_of[i];
        }
        terms->weights[terms->count++] = weight;
        analysis_add(&taken, weight);
    }
    terms->rest = fmax(1.0 - analysis_total(&taken), 0.0);
    free(left);
    free(work);
    return ota_analysis_end(OTA_OK, &call);
}
