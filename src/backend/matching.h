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

typedef struct ota_match {
    int64_t rows, columns, padded; /* columns, and so many more that lanes divide them */
    const double
        *cost; /* [rows][padded], +inf in the padding: `own`, or the caller's where there is none */
    double *own;                   /* room for a copy */
    bool unread;                   /* nobody has seen yet whether the costs are plain; */
    bool odd;                      /* and a pass found that they are not, and ended */
    double *price;                 /* [padded] v, 0 at first */
    double *distance;              /* [padded] scratch */
    double *kept, *final, *offset; /* [rows] scratch */
    double *base;                  /* [padded] scratch of who drives the search, */
    double slack;                  /* and how far it lets costs be off; 0: by rounding alone */
    int32_t *row_of;               /* [padded] matched row, -1 at first */
    int32_t *column_of;            /* [rows] matched column, -1 at first */
    int32_t *waiting, *next;       /* [rows] unmatched rows */
    int32_t *reached;              /* [rows] scratch */
} ota_match;

/* A row of costs as they come: to[j] = min(factor from[j], limit), j < count, and +inf up to `padded`. */
typedef struct ota_match_row {
    const void *from;
    int64_t count, padded;
    double factor, limit;
} ota_match_row;

/* Where costs are unread, reduce reads all of them, or the first call of bid the rows that wait, before anything is made of them. */
typedef struct ota_match_passes {
    int64_t lanes; /* at most OTA_MATCH_LANES */
    /* Of f64, f32. False: some are not plain, which is finite and below 2^900. */
    bool (*take[2])(const ota_match_row *row, double *to);
    /* Square matrices, nothing matched: v_j = min_i c_ij, and a column goes to its cheapest row where that is still free.
       How many rows wait, in `next`; -1: a column has no allowed pair. */
    int64_t (*reduce)(ota_match *match);
    /* The `count` rows of `waiting` bid: each takes its cheapest column, whose price falls by the margin to its second
       cheapest, and the row that had it bids on. `bids` at most, then rows only wait. How many still do, in `next`. */
    int64_t (*bid)(ota_match *match, int64_t count, int64_t bids);
    /* The shortest path from unmatched row `start` to an unmatched column; false: there is none. */
    bool (*augment)(ota_match *match, int32_t start);
} ota_match_passes;

#endif
