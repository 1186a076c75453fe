/* assignment_dense.h: a matching over all pairs of a dense matrix of costs (backend/matching.h), for the solver of hard plans and
 * for calls that have many small matrices. */
#ifndef OTA_DENSE_H
#define OTA_DENSE_H

#include "backend/matching.h"
#include "base/base.h"
#include "problem/feasible.h"

/* Is a dense matrix of at most `most` pairs wanted rather than a few candidates a row? Of few rows and many columns nearly
 * every row gets its first choice, and one pass over the matrix is all there is: `wide` pairs of such a problem at most. */
static inline bool ota_match_pays(int64_t rows, int64_t columns, int64_t most, int64_t wide) {
    if (rows <= 0 || columns > INT32_MAX - OTA_MATCH_LANES) return false;
    const int64_t pairs = columns <= wide / rows ? rows * columns : INT64_MAX;
    return pairs <= (2 * rows <= columns ? wide : most);
}

/* Takes the arrays of a search from an arena: rows <= columns < 2^31, and at most `pairs` of rows and padded columns. */
void ota_match_layout(ota_match *match, ota_arena *arena, int64_t rows, int64_t columns,
                      int64_t pairs);

/* A problem in that memory; the passes have `lanes`. */
void ota_match_resize(ota_match *match, int64_t rows, int64_t columns, int64_t lanes);

/* The costs are those in `own`. */
void ota_match_own(ota_match *match);

/* Is it large enough, so that the caller's numbers may be set as `costs`, `unread`, rather than copied? */
bool ota_match_borrows(const ota_match *match);

/* Writes the costs of a problem into `own`, always the same, and sets them as `costs`. */
typedef struct ota_match_source {
    void (*fill)(const void *context, ota_match *match);
    const void *context;
    double least; /* of what was taken off the costs, not 0; +inf: nothing was */
} ota_match_source;

/* Matches every row by the costs of `source`, which `match` holds before and after. Where some costs dwarf others the matching is
 * the same; *apart: but they are costs of its pairs, so that the small ones got lost. OTA_OK, OTA_INFEASIBLE, of unread costs
 * OTA_NONFINITE where some are not plain, or what the watch said. */
ota_status ota_match_solve(ota_match *match, const ota_match_passes *passes, const ota_watch *watch,
                           const ota_match_source *source, bool *apart);

/* What the matched pairs cost above the cheapest of their rows: the sum, the least above 0, the most, and the mean of those that the
 * least is not lost beside. */
typedef struct ota_matched {
    double sum, least, most, mean;
} ota_matched;

/* Of costs [count]; `least`: another number that the small costs are to be seen beside, +inf: none. */
ota_matched ota_matched_of(const double *cost, int64_t count, double least);
/* Can prices up to `price` tell what the small ones of these costs differ by? */
bool ota_matched_is_coarse(const ota_matched *matched, double price);
/* Are the small ones lost whatever the prices are? */
bool ota_matched_is_apart(const ota_matched *matched);
/* How far rounding may be off to show nowhere beside these costs. */
double ota_matched_slack(const ota_matched *matched);

#endif
