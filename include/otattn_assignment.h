/* otattn_assignment.h: assignment problems, one or thousands of them in a call.
 *
 *     minimise  sum_ij P_ij c_ij   over  P in {0, 1},  rows and columns at most once,  min(rows, columns) pairs
 *
 * which is attention's "assignment" method (hard rows, exact or capped columns [ELA-14, LIT-06]) on matrices of any size and
 * layout, without a plan. A problem of up to a million pairs, or of up to 16 million where there are a sixteenth more columns than
 * rows, is solved over all pairs by shortest augmenting paths after column reduction and bidding [jonker1987]; a larger one, or one
 * of up to 2 million of whose costs few are the same, over a few candidates of every row, exactly all the same. Costs are read where they lie if columns are neighbours and there are more than a thousand pairs
 * (large ones with a limit: copied), and are copied otherwise. Sums are in f64 whatever the type of
 * the costs. The answer is the same for any number of threads and any level of instructions; which of several optima it is,
 * is the order of operations'.
 *
 *     ota_assigner *assigner;
 *     ota_error error;
 *     double costs[3 * 3] = {4, 1, 3,  2, 0, 5,  3, 2, 2};
 *     int64_t column_of[3];                                                    becomes 1, 0, 2
 *     ota_assignments batch = {.size = sizeof batch, .count = 1, .rows = 3, .columns = 3, .costs = costs, .type = OTA_F64,
 *                              .row_stride = 3, .column_stride = 1, .column_of = column_of};
 *     if (ota_assigner_create(&assigner, NULL, &error) < 0 || ota_assign(assigner, &batch, &error) < 0) puts(error.message);
 *     ota_assigner_free(assigner);
 */
#ifndef OTATTN_ASSIGNMENT_H
#define OTATTN_ASSIGNMENT_H

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads and working memory, which grows with the largest problem seen and is used again: calls on problems no larger than
 * earlier ones allocate nothing. One call at a time. */
typedef struct ota_assigner ota_assigner;

/* Makes an assigner, to be freed by ota_assigner_free. Of `options` are read threads, executor and cpu; NULL: all defaults.
 * *assigner is NULL on failure. */
OTA_API ota_status ota_assigner_create(ota_assigner **assigner, const ota_options *options,
                                       ota_error *error);
/* Frees it; NULL is fine. */
OTA_API void ota_assigner_free(ota_assigner *assigner);
/* Bytes that it holds now. */
OTA_API size_t ota_assigner_bytes(const ota_assigner *assigner);

/* A batch. Problem p has rows x columns costs: `rows`, `columns` for all, or, where given, rows_of[p], columns_of[p]. Its
 * element (i, j) lies at
 *
 *     costs + p problem_stride + i row_stride + j column_stride               of equal problems
 *     costs + offsets[p] + i columns_of[p] + j                                of a ragged batch
 *
 * +inf forbids a pair (-inf where `maximize`); NaN and the other infinity are refused. Outputs lie one problem behind the
 * other; NULL: not wanted. All arrays are the caller's, for the call. */
typedef struct ota_assignments {
    size_t size; /* sizeof(ota_assignments) */
    int64_t count;
    int64_t rows, columns;
    const void *costs;
    ota_type type;                                     /* OTA_F64 or OTA_F32, naturally aligned */
    int64_t problem_stride, row_stride, column_stride; /* elements, any sign */
    /* [count] each; all three or none */
    const int64_t *rows_of, *columns_of, *offsets;
    int maximize; /* not 0: the dearest pairs */
    /* > 0 stands for a limit at `cost_limit`: pairs that cost as much or more stay apart, and every pair that is left
       out costs the limit. Not with `maximize`. */
    int limited;
    double cost_limit;
    const int *cancel;   /* as in ota_options */
    int64_t deadline_ns; /* as in ota_options */

    int64_t *column_of; /* out [rows] of each problem: the row's column, -1 where it has none */
    int64_t *row_of;    /* out [columns]: the column's row or -1 */
    /* out [min(rows, columns)]: the pairs by rising row; with a limit -1 behind the last pair, without a plan all -1 */
    int64_t *pair_row, *pair_column;
    int64_t *pairs; /* out [count]: how many pairs */
    double *value;  /* out [count]: the sum of their costs */
    /* out [rows], [columns]: prices u, v with u_i + v_j <= c_ij (>= where `maximize`), equality on pairs, and v_j
       <= 0 (>= 0), 0 for unmatched ones, of the longer side */
    double *row_potential, *column_potential;
    /* out [count]: a lower (upper) bound on the value, formed by code of its own from costs and prices; with a limit on
       value + cost_limit (min(rows, columns) - pairs). Needs both potentials. */
    double *bound;
    ota_status *status; /* out [count]: OTA_OK, OTA_INFEASIBLE, OTA_NONFINITE */
} ota_assignments;

/* Solves all problems of a batch. OTA_OK; OTA_INFEASIBLE where a problem has no min(rows, columns) allowed pairs that fit
 * together and OTA_NONFINITE where one holds NaN or the wrong infinity, both with the number of the first such problem in
 * `error`: its outputs are -1 and NaN, the others' are right. OTA_EINVAL, OTA_ENOMEM, OTA_EOVERFLOW,
 * OTA_CANCELLED, OTA_TIMEOUT. */
OTA_API ota_status ota_assign(ota_assigner *assigner, const ota_assignments *batch,
                              ota_error *error);

/* One matrix of costs as problem 0 of ota_assignments, and its `wanted` cheapest matchings (dearest, where `maximize`): by
 * rising cost, of equal ones in an order that is always the same. Its memory grows with `wanted` times rows and columns.
 * Sums are right to rounding of the largest cost that is used.
 *
 * Or `count` of them, laid out as in ota_assignments, whose outputs lie one problem behind the other. With `limited` pairs
 * that cost `cost_limit` or more stay apart and every pair that is left out costs the limit, which counts in the order and in
 * `bound`, but not in `value`: matchings differ where their pairs do. Not with `maximize`. */
typedef struct ota_ranked_assignments {
    size_t size; /* sizeof(ota_ranked_assignments) */
    int64_t rows, columns;
    const void *costs;
    ota_type type;
    int64_t row_stride, column_stride;
    int maximize;
    int64_t wanted;      /* 1 or more */
    const int *cancel;   /* as in ota_options */
    int64_t deadline_ns; /* as in ota_options */

    /* out [wanted][min(rows, columns)]: the pairs of each matching by rising row; -1 behind the last matching there is */
    int64_t *pair_row, *pair_column;
    double *value; /* out [wanted]: the sums of their costs; NaN behind the last */
    /* out [wanted]: no matching costs less but those before (more, where `maximize`), by code of its own from costs and
       prices: a search that is let go on holds no more than `wanted` parts of all matchings, whose bounds these are */
    double *bound;
    int64_t *found; /* out [count]: how many there are, `wanted` at most */

    int64_t count; /* 0: 1 */
    int64_t problem_stride;
    const int64_t *rows_of, *columns_of, *offsets; /* [count] each; all three or none */
    int limited;
    double cost_limit;
    int64_t *pairs; /* out [count][wanted]: how many pairs each has; behind the last of them -1 */
    ota_status *status; /* out [count] */
    int threads; /* 0: the CPUs this process may use; problems go to threads, one alone to none */
    const ota_executor *executor; /* NULL: own threads */
} ota_ranked_assignments;

/* The cheapest matchings of a matrix, or of each of many, by rising cost. OTA_OK, where there are fewer than wanted, too;
 * otherwise as ota_assign. Where it is cancelled or late, what was found until then is there, and no pairs are written behind
 * it. */
OTA_API ota_status ota_assign_ranked(const ota_ranked_assignments *problem, ota_error *error);

/* One matrix of costs as problem 0 of ota_assignments, and a matching of min(rows, columns) pairs whose dearest pair is as
 * cheap as can be (whose cheapest pair is as dear, where `maximize`). Its proof are marks: of the shorter side (rows, where
 * there are as many) more are marked than of the longer one, so that no matching has all of them among marked ones, and no
 * pair of a marked one of the shorter side and one of the longer side that is not marked costs less than `bound`.
 *
 * Or `count` of them, laid out as in ota_assignments, whose outputs lie one problem behind the other. With `limited` pairs
 * that cost `cost_limit` or more stay apart: as many others as fit together are matched, their dearest as cheap as can be.
 * Then more are marked by more than the pairs that are left out; and every pair below the limit has a row or a column that is
 * covered, as many as there are pairs, so that no matching has more. Not with `maximize`. */
typedef struct ota_bottleneck {
    size_t size; /* sizeof(ota_bottleneck) */
    int64_t rows, columns;
    const void *costs;
    ota_type type;
    int64_t row_stride, column_stride;
    int maximize;
    const int *cancel;   /* as in ota_options */
    int64_t deadline_ns; /* as in ota_options */

    /* out [min(rows, columns)]: by rising row; with a limit -1 behind the last pair, without a matching all -1 */
    int64_t *pair_row, *pair_column;
    double
        *value; /* out [count]: the cost of the dearest pair; -inf of none (inf where `maximize`) */
    double *bound; /* out [count]: what the marks prove, by code of its own: the value */
    uint8_t *row_marked, *column_marked; /* out [rows], [columns]: 1 or 0 */

    int64_t count; /* 0: 1 */
    int64_t problem_stride;
    const int64_t *rows_of, *columns_of, *offsets; /* [count] each; all three or none */
    int limited;
    double cost_limit;
    int64_t *pairs; /* out [count]: how many pairs */
    int64_t
        *pairs_bound; /* out [count]: what the covered lines prove, by code of its own: `pairs` */
    uint8_t *row_covered, *column_covered; /* out [rows], [columns]: 1 or 0 */
    ota_status *status;                    /* out [count] */
    int threads; /* 0: the CPUs this process may use; problems go to threads, one alone to none */
    const ota_executor *executor; /* NULL: own threads */
} ota_bottleneck;

/* The matching of a matrix, or of each of many, whose dearest pair is the cheapest. Statuses as of ota_assign. */
OTA_API ota_status ota_assign_bottleneck(const ota_bottleneck *problem, ota_error *error);

#ifdef __cplusplus
}
#endif
#endif
