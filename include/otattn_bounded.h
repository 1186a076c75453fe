/* otattn_bounded.h: rows that take k columns each at the least cost, columns whose loads have bounds.
 *
 *     minimise   sum c_ij x_ij
 *     over       x_ij in {0, 1},  sum_j x_ij = take,  lower_j <= sum_i x_ij <= upper_j
 *
 * for many rows (hundreds of thousands, 2^31 - 1 at most) and few columns (some hundred, 4096 at most). The answer is an optimum up to the
 * rounding of sums in f64, and comes with its proof: prices p_j with
 *
 *     sum_i (the `take` least of c_ij + p_j) - sum_j (p_j upper_j where p_j > 0, p_j lower_j where p_j < 0)
 *
 * equal to the cost. No choice of prices makes that sum larger than the cost of any admissible x.
 *
 * Algorithm: successive shortest paths on the graph of columns. At prices p every row takes its `take` least
 * reduced costs c_ij + p_j; a column holds more or less than it should, and so does the reservoir, a further node of
 * price 0 that takes in what columns leave between their bounds. To move a unit from column a to column b costs the
 * least c_ib - c_ia over the rows i that hold a and do not hold b, which a heap of each pair of columns knows;
 * Dijkstra's search on those lengths, reduced by the prices, finds the next unit's way and raises the prices.
 * A heap holds the rows whose reduced length is below a threshold; of the others it is only known that theirs is not.
 * A search that gets that far has the heaps filled again with a larger threshold. The first prices are those of a
 * quarter of the rows, solved in the same way, so that few units are left to be moved.
 *
 * Memory: a bit for each pair of a row and a column, 20 bytes an entry of a heap (a few entries a row; rows * take *
 * (columns - take) where all costs are equal), 12 bytes a pair of columns. Costs are read where they lie or formed from
 * points, 64 rows a thread at a time. */
#ifndef OTATTN_BOUNDED_H
#define OTATTN_BOUNDED_H

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means the default in every field but `size` and `take`. Vectors have `columns` elements. */
typedef struct ota_bounded {
    size_t size; /* sizeof(ota_bounded) */
    /* [1,1,rows,columns] f64 or f32, 1e290 in size at most, or +inf, which forbids the pair; or absent, and */
    ota_array costs;
    /* [1,1,rows,width] and [1,1,columns,width], f64 or f32, 1e140 in size at most, width >= 1: costs are the squared
       distances */
    ota_array points, centres;
    int64_t take; /* columns a row takes, each at most once: 1 to `columns` */
    /* bounds of the columns' loads, 0 <= lower <= upper; NULL: 0, and none. An upper one above the number of rows counts as
       that number */
    const int64_t *lower, *upper;
    const double *start; /* prices to begin with, 1e290 in size at most; NULL: none are known */
    int unproved; /* not 0: `dual`, which takes a pass over all costs, is not wanted and NaN */
} ota_bounded;

/* Each pointer NULL or memory of the caller. */
typedef struct ota_bounded_result {
    size_t size;      /* sizeof(ota_bounded_result) */
    int64_t *chosen;  /* [rows][take]: the columns of each row, rising */
    double *prices;   /* [columns] */
    int64_t *loads;   /* [columns] */
    double cost;      /* of the answer */
    double dual;      /* what the prices prove: no answer costs less */
    int64_t paths;    /* how many units were moved along one */
    int64_t fillings; /* how often the heaps were filled */
} ota_bounded_result;

/* Solves one problem of bounded loads. Of `options` (NULL: defaults) it reads threads, executor, cpu, cancel, deadline_ns
 * and workspace_limit (the others must be valid); the answer depends neither on the threads nor on the level of instructions.
 * OTA_OK; OTA_INFEASIBLE where no x meets the bounds, and the sentence names the columns, the row or the sums that do not fit;
 * OTA_NONFINITE for NaN, -inf and infinite coordinates; OTA_CANCELLED, OTA_TIMEOUT; OTA_ELIMIT where workspace_limit does not
 * suffice; OTA_ENOMEM, OTA_EINVAL, OTA_EALIGN, OTA_EOVERFLOW, OTA_UNSUPPORTED (structs of a newer header). The result is
 * untouched unless OTA_OK is returned. */
OTA_API ota_status ota_assign_bounded(const ota_bounded *problem, const ota_options *options,
                                      ota_bounded_result *result, ota_error *error);

#ifdef __cplusplus
}
#endif

#endif
