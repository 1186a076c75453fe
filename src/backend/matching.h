/* matching.h: passes of the search for a least-cost matching of rows to columns, rows <= columns, over a dense matrix.
 *
 *     cost c_ij, +inf = forbidden, |c_ij| < 2^900 elsewhere      reduced cost c_ij - v_j
 *
 * Every row is matched in the end with the column that is cheapest at the prices v; v_j = 0 where a column stays
 * unmatched and rows < columns. All that is looked for are minima, and the first of equals is taken, so every level
 * of instructions takes the same steps. */
#ifndef OTA_BACKEND_MATCHING_H
#define OTA_BACKEND_MATCHING_H

#include <stdbool.h>
#include <stdint.h>

enum { OTA_MATCH_LANES = 8 }; /* of any level, at most */

/* What the numbers x of a matrix are as costs. */
typedef enum ota_match_form {
    OTA_MATCH_PLAIN, /* f64 x */
    OTA_MATCH_F64,   /* min(factor x, limit) of f64; the factor is 1 or -1 */
    OTA_MATCH_F32    /* the same of f32 */
} ota_match_form;

typedef struct ota_match_costs {
    const void *numbers; /* [rows][width], rows `stride` apart */
    int64_t width;       /* the columns, or `padded` where +inf follows them */
    int64_t stride;
    double factor, limit;
    ota_match_form form;
} ota_match_costs;

static inline double ota_match_cost(const ota_match_costs *costs, int64_t i, int64_t j) {
    const int64_t at = i * costs->stride + j;
    if (costs->form == OTA_MATCH_PLAIN) return ((const double *)costs->numbers)[at];
    const double own =
        costs->factor * (costs->form == OTA_MATCH_F32 ? (double)((const float *)costs->numbers)[at]
                                                      : ((const double *)costs->numbers)[at]);
    return own > costs->limit ? costs->limit : own; /* NaN stays */
}

typedef struct ota_match {
    int64_t rows, columns, padded; /* columns, and so many more that lanes divide them */
    ota_match_costs costs;         /* `own`, or the caller's where there is no copy */
    double *own;                   /* [rows][padded], +inf in the padding */
    bool unread;                   /* nobody has seen yet whether the costs are plain; */
    bool odd;                      /* and a pass found that they are not, and ended */
    double *price;                 /* [padded] v, 0 at first */
    double *distance;              /* [padded] scratch */
    double *kept, *final, *offset; /* [rows] scratch */
    double *base;                  /* [padded] scratch of who drives the search, */
    double slack;                  /* and how far it lets costs be off; 0: by rounding alone */
    int32_t *row_of;               /* [padded] matched row, -1 at first */
    uint64_t *taken;               /* [padded / 64 + 1] bits of the matched columns, */
    bool marked;                   /* where they are kept, since many are tied; false at first */
    int32_t *column_of;            /* [rows] matched column, -1 at first */
    int32_t *waiting, *next;       /* [rows] unmatched rows */
    int32_t *reached;              /* [rows] scratch */
} ota_match;

/* Where costs are unread, reduce reads all of them, or the first call of bid the rows that wait, before anything is made of them. */
typedef struct ota_match_passes {
    int64_t lanes; /* at most OTA_MATCH_LANES */
    /* The rows of costs, of f64 or f32 with any factor, into to [rows][padded]. False: some may not be plain, which
       is +inf or below 2^900 on both sides. */
    bool (*take)(const ota_match_costs *costs, int64_t rows, double *to, int64_t padded);
    /* Square matrices, nothing matched: v_j = min_i c_ij, and a column goes to its cheapest row where that is still free.
       How many rows wait, in `next`; -1: a column has no allowed pair. */
    int64_t (*reduce)(ota_match *match);
    /* The `count` rows of `waiting` bid: each takes its cheapest column, whose price falls by the margin to its second
       cheapest, and the row that had it bids on. `bids` at most, then rows only wait. How many still do, in `next`. */
    int64_t (*bid)(ota_match *match, int64_t count, int64_t bids);
    /* The shortest path from unmatched row `start` to an unmatched column; false: there is none. */
    bool (*augment)(ota_match *match, int32_t start);
    /* Does a pair cost something, up to `most` on either side of 0? */
    bool (*has_small)(const ota_match *match, double most);
} ota_match_passes;

#endif
