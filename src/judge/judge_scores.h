/* What the judge (reference.c, certificate.c) needs of a problem, evaluated pair by pair from the
 * definitions in otattn.h and sharing no line with the terms and supports of the fast path:
 *
 *     S_ij = softcap(scale (q_i . k_j + inside_(i-j)))
 *            - slope |i + offset - j| + relative_(i-j) + dense_ij + additive_ij
 *     S_ij = -inf outside the support
 *
 * and sums that lose nothing (Neumaier).
 *
 * This folder: how well a plan solves a problem, recomputed in f64 from the outputs alone; begin with
 * certificate.c. May call: base/, problem/ and validation/ only, so that it can disagree. */
#ifndef OTA_JUDGE_SCORES_H
#define OTA_JUDGE_SCORES_H

#include <math.h>

#include "problem/problem.h"

/* May the pair carry weight by every support (additive -inf included; the score itself may still be
 * -inf)? */
bool ota_judge_allowed(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                       int64_t key);

/* Entries of one row of an array or, transposed, of one column. */
void ota_judge_read_line(const ota_array *a, int64_t batch, int64_t head, bool transposed,
                         int64_t line, int64_t count, double *to);

/* Scores of one row (query `line` against every key, [keys]) or, transposed, of one column (every
 * query against key `line`, [queries]). `fixed` is scratch of r->width elements (NULL when that is
 * 0). */
void ota_judge_line(const ota_resolved *r, int64_t batch, int64_t head, bool transposed,
                    int64_t line, double *fixed, double *scores);

/* The masses of a head as the problem that is really solved sees them: with axis columns, rows are
 * keys and `row_mass` is the target of the queries. */
double ota_judge_row_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t row);
bool ota_judge_has_column_mass(const ota_resolved *r);
double ota_judge_column_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t column);

/* What dropout multiplies the weight of a pair by: 0 or 1 / (1 - dropout); 1 without dropout. */
double ota_judge_dropout(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                         int64_t key);

typedef struct ota_judge_sum {
    double high, low;
} ota_judge_sum;

static inline void ota_judge_add(ota_judge_sum *sum, double x) {
    /* Most weights of a sparse plan, which change no sum. */
    if (x >= 0.0 && x <= 0.0) return;
    const double total = sum->high + x;
    /* An infinite total would turn the correction into NaN. */
    if (isfinite(total)) {
        sum->low += fabs(sum->high) >= fabs(x) ? (sum->high - total) + x : (x - total) + sum->high;
    }
    sum->high = total;
}

static inline double ota_judge_total(ota_judge_sum sum) { return sum.high + sum.low; }

#endif
