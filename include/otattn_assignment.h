/* otattn_assignment.h: assignment problems, one or thousands of them in a call.
 *
 *     minimise  sum_ij P_ij c_ij   over  P in {0, 1},  rows and columns at most once,  min(rows, columns) pairs
 *
 * which is attention's "assignment" method (hard rows, exact or capped columns [ELA-14, LIT-06]) on matrices of any size and
 * layout, without a plan. Every answer is exact, however it is found:
 *
 *     over all pairs         by shortest augmenting paths after column reduction and bidding [jonker1987]: up to 1.1 million
 *                            pairs; up to 2 million (4 million where one side is twice the other or longer) with a limit, or
 *                            where one side is longer than the other by a sixteenth
 *     as the costs suggest   64 of which are looked at: other problems of those sizes, and those with a side a sixteenth longer,
 *                            along which costs are neighbours, up to 16 million pairs
 *     over a few candidates  of every row, with prices that prove that no other pair is needed: whatever is larger
 *
 * A thread holds 8 bytes a pair of the largest problem that may be solved over all pairs, and a copy of the costs of one over
 * candidates where columns of a row are not neighbours in memory, rows are more than columns, or there is a limit. Sums are in
 * f64 whatever the type of the costs. The answer is the same for any number of threads and any level of instructions; where
 * several are optimal, one of them is given, always the same.
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

/* Threads and working memory, which is kept from call to call: a batch like an earlier one, of no more problems and none larger,
 * allocates nothing, but where some costs dwarf others. One call at a time. */
typedef struct ota_assigner ota_assigner;

/* Makes an assigner, to be freed by ota_assigner_free. Of `options` are read threads, executor and cpu; NULL: all defaults.
 * *assigner is NULL on failure: OTA_EINVAL, OTA_ENOMEM, OTA_UNSUPPORTED (options of a newer header). */
OTA_API ota_status ota_assigner_create(ota_assigner **assigner, const ota_options *options,
                                       ota_error *error);
/* Frees it; NULL is fine. */
OTA_API void ota_assigner_free(ota_assigner *assigner);
/* Bytes that it holds now; 0 of NULL. */
OTA_API size_t ota_assigner_bytes(const ota_assigner *assigner);

/* A batch. Problem p has rows x columns costs: `rows`, `columns` for all, or, where given, rows_of[p], columns_of[p]. Its
 * element (i, j) lies at
 *
 *     costs + p problem_stride + i row_stride + j column_stride               of equal problems
 *     costs + offsets[p] + i columns_of[p] + j                                of a ragged batch
 *
 * +inf forbids a pair (-inf where `maximize`); NaN and the other infinity are OTA_NONFINITE. Outputs lie one problem behind the
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
    /* not 0: there is a limit, `cost_limit`: pairs that cost as much or more are not made, and every pair that is missing to
       min(rows, columns) costs the limit. Not with `maximize` */
    int limited;
    double cost_limit;   /* finite */
    const int *cancel;   /* as in ota_options */
    int64_t deadline_ns; /* as in ota_options */

    int64_t *column_of; /* out [rows] of each problem: the row's column, -1 where it has none */
    int64_t *row_of;    /* out [columns]: the column's row or -1 */
    /* out [min(rows, columns)]: the pairs by rising row; with a limit -1 behind the last pair */
    int64_t *pair_row, *pair_column;
    int64_t *pairs; /* out [count]: how many pairs */
    double *value;  /* out [count]: the sum of their costs */
    /* out [rows], [columns]: prices u, v with u_i + v_j <= c_ij, equality on pairs; those of the longer side are 0 or less, and
       0 where nothing is matched. With `maximize` >= and 0 or more; with a limit the lesser of c_ij and the limit stands for
       c_ij, and as many pairs that are not made for those that are missing */
    double *row_potential, *column_potential;
    /* out [count]: a lower bound on the value (upper, where `maximize`), formed by code of its own from costs and prices; with a
       limit on value + cost_limit (min(rows, columns) - pairs). Needs both potentials */
    double *bound;
    ota_status *
        status; /* out [count]: OTA_OK, OTA_INFEASIBLE, OTA_NONFINITE; or what ended the call, all of them */
} ota_assignments;

/* Solves all problems of a batch. OTA_OK; OTA_INFEASIBLE where a problem has no min(rows, columns) allowed pairs that fit
 * together and OTA_NONFINITE where one holds NaN or the wrong infinity, both with the number of the first such problem in
 * `error`: its outputs are -1 and NaN, `pairs` 0, the others' are right. After OTA_CANCELLED and OTA_TIMEOUT those of all
 * problems are. OTA_EINVAL, OTA_EALIGN, OTA_EOVERFLOW, OTA_ENOMEM, OTA_UNSUPPORTED (a batch of a newer header). */
OTA_API ota_status ota_assign(ota_assigner *assigner, const ota_assignments *batch,
                              ota_error *error);

/* A matrix of costs and its `wanted` cheapest matchings of min(rows, columns) pairs (dearest, where `maximize`): by rising cost
 * (falling), of equal ones in an order that is always the same. Memory: a copy of the costs, and some 8 (rows + columns) bytes
 * for each of `wanted`. Sums are right to rounding of the largest cost that is used.
 *
 * Or `count` matrices, whose costs lie as in ota_assignments and whose outputs one problem behind the other. `limited` and
 * `cost_limit` are as there; what missing pairs cost counts in the order and in `bound`, but not in `value`, and matchings
 * differ where their pairs do. */
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

    /* out [wanted][min(rows, columns)]: the pairs of each matching by rising row; -1 behind the last pair of a matching with a
       limit, and behind the last matching there is */
    int64_t *pair_row, *pair_column;
    double *value; /* out [wanted]: the sums of their costs; NaN behind the last */
    /* out [wanted]: no matching but those before costs less (more, where `maximize`), formed by code of its own from costs and
       prices; NaN behind the last */
    double *bound;
    int64_t *found; /* out [count]: how many there are, `wanted` at most */

    int64_t count; /* 0: 1 */
    int64_t problem_stride;
    const int64_t *rows_of, *columns_of, *offsets; /* [count] each; all three or none */
    int limited;
    double cost_limit;
    int64_t *pairs;     /* out [count][wanted]: how many pairs each has; 0 behind the last */
    ota_status *status; /* out [count] */
    /* 0: the CPUs this process may use. A problem is one thread's work; a single one, or a few small ones, the caller's */
    int threads;
    const ota_executor *executor; /* NULL: own threads */
} ota_ranked_assignments;

/* The cheapest matchings of a matrix, or of each of many, by rising cost. OTA_OK, where there are fewer than wanted, too;
 * otherwise the statuses of ota_assign. After OTA_CANCELLED and OTA_TIMEOUT each problem has what was found of it until then, and
 * what lies behind that in pair_row and pair_column is not written. */
OTA_API ota_status ota_assign_ranked(const ota_ranked_assignments *problem, ota_error *error);

/* A matrix of costs, and a matching of min(rows, columns) pairs whose dearest pair is as cheap as can be (whose cheapest pair is
 * as dear as can be, where `maximize`). Marks prove it, here of a matrix with no more rows than columns (otherwise rows and
 * columns change places): more rows are marked than columns, so every matching gives a marked row a column that is not marked,
 * and no such pair costs less than `bound`.
 *
 * Or `count` matrices, whose costs lie as in ota_assignments and whose outputs one problem behind the other. With a limit, as
 * there, as many pairs below it are matched as fit together, their dearest as cheap as can be. Then the marked rows are more than
 * the marked columns and the missing pairs together; and every pair below the limit has a row or a column that is covered, which
 * are as many as the pairs of the matching, so that no matching has more. */
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
    double *
        value; /* out [count]: the cost of the dearest pair; -inf of none (inf where `maximize`); NaN without a matching */
    double
        *bound; /* out [count]: what the marks prove, by code of its own; as large as the value */
    uint8_t *row_marked, *column_marked; /* out [rows], [columns]: 1 or 0 */

    int64_t count; /* 0: 1 */
    int64_t problem_stride;
    const int64_t *rows_of, *columns_of, *offsets; /* [count] each; all three or none */
    int limited;
    double cost_limit;
    int64_t *pairs; /* out [count]: how many pairs */
    int64_t *
        pairs_bound; /* out [count]: the most pairs there can be, by code of its own from what is covered: `pairs`; without a
                         matching min(rows, columns) */
    uint8_t *row_covered, *column_covered; /* out [rows], [columns]: 1 or 0 */
    ota_status *status;                    /* out [count] */
    /* 0: the CPUs this process may use. A problem is one thread's work; a single one, or a few small ones, the caller's */
    int threads;
    const ota_executor *executor; /* NULL: own threads */
} ota_bottleneck;

/* The matching of a matrix, or of each of many, whose dearest pair is the cheapest. Statuses and what they leave as of
 * ota_assign; marks and covers are then 0. */
OTA_API ota_status ota_assign_bottleneck(const ota_bottleneck *problem, ota_error *error);

#ifdef __cplusplus
}
#endif
#endif
