/* feasible.h: does any plan meet the masses on a support, and which pairs can carry weight in one?
 *
 *     P [n][m] >= 0,  P_ij = 0 off the support,  P 1 = mu [n],  P^T 1 = nu [m]
 *                                                (or floor nu <= P^T 1 <= nu, capped)
 *
 * Decided in exact integer arithmetic on masses counted in units of 2^-exponent, so that no answer
 * depends on the order of a sum; feasible.c says how real masses become units. */
#ifndef OTA_FEASIBLE_H
#define OTA_FEASIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "problem/problem.h"

/* Masses as integers: mass = units * 2^-exponent, sum of supply = total < 2^61. */
typedef struct ota_units {
    int exponent;
    int64_t total;     /* sum of supply */
    int64_t spare;     /* sum of demand - total: 0 for exact columns, >= 0 for capped ones */
    int64_t rounding;  /* what rounding of the given masses can pretend: 4 u max(n, m) total */
    int64_t allowance; /* max(rounding, tolerance * total): a smaller shortfall is none */
} ota_units;

typedef struct ota_masses {
    int64_t n, m;
    const double *mu, *nu; /* [n], [m]; capacities, +inf allowed, when capped */
    bool capped;
    double tolerance; /* relative; 0: rounding alone */
} ota_masses;

/* Turns mu and nu into supply [n] and demand [m]. A positive mass is at least one unit. Exact
 * columns are scaled to the rows' total when the totals differ by at most `tolerance` relative; capped
 * ones may be +inf. OTA_EINVAL (negative, NaN, infinite), OTA_INFEASIBLE (totals) or OTA_OK. */
ota_status ota_units_of(const ota_masses *masses, int64_t *supply, int64_t *demand,
                        ota_units *units);

/* The least sum of a column of mass nu and `demand` units under a floor, in units. */
int64_t ota_units_least(const ota_units *units, int64_t demand, double nu, double floor);

/* Is this flow between a row of `supply` and a column of `demand` more than the given slack, or at
 * least not small beside what the two have to ship? */
static inline bool ota_units_matter(int64_t flow, int64_t supply, int64_t demand, int64_t slack) {
    int64_t smaller = supply < demand ? supply : demand;
    return flow > 0 && (flow > slack || flow >= smaller / 16);
}

typedef struct ota_feasible_problem {
    ota_masses masses;
    const uint8_t *support; /* [n][m], not 0 = allowed */
    double floor;           /* least sum of a capped column, in units of nu, */
    const double *floors;   /* or of each one, or NULL, */
    int64_t floored;        /* of the first so many */
    ota_watch watch;
} ota_feasible_problem;

/* Pairs of a row or column without mass can carry nothing in any plan and count as neither. */
typedef struct ota_feasible_counts {
    int64_t allowed;  /* pairs of the support with mass on both sides */
    int64_t usable;   /* those with positive weight in some feasible plan */
    int64_t unusable; /* the others: 0 means total support [DER-24] */
} ota_feasible_counts;

/* Bytes for ota_feasible; SIZE_MAX when they leave size_t or n + m leaves int32_t. */
size_t ota_feasible_workspace(int64_t n, int64_t m);

/* OTA_OK: a plan exists; `usable` [n][m], `order` [n + m + 1] (NULL = not wanted) and counts are filled.
 * OTA_INFEASIBLE: none does; then they are untouched. Otherwise OTA_EINVAL or what the watch said.
 * `workspace` is 64-byte aligned.
 *
 * Usable pairs tie rows and columns together into blocks: order[i], order[n + j] number them, and
 * order[n + m] is that of capacity left over. An allowed pair (i, j) is usable where its numbers are
 * equal and has order[i] > order[n + j] where it is not, so that potentials f_i - K order[i] and
 * g_j + K order[n + j] change no usable pair's sum and push every other's below any level. */
ota_status ota_feasible(const ota_feasible_problem *problem, uint8_t *usable, int32_t *order,
                        ota_feasible_counts *counts, void *workspace);

#endif
