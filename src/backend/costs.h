/* costs.h: how the search for a matching reads a row of scores, f32 or f64 alike.
 *
 *     costs   c_j = min(top - S_j factor, limit)       reduced costs   c_j - v_j
 *
 * A factor below 0 says that the numbers are costs: `sign`, 1 or -1, times them is what is as large as can be.
 * f32 scores become f64 in the registers, exactly, so nothing wider than they are is ever stored. Wherever a reduced
 * cost is formed it is made of the same roundings, each of which keeps order: while v_j falls it never falls. What is
 * looked for is a minimum, so all levels find the same bits. */
#ifndef OTA_COSTS_H
#define OTA_COSTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ota_score_row {
    const void *scores;
    int64_t count;
    double top, factor, limit;
} ota_score_row;

typedef struct ota_cost_score_range {
    double top;     /* largest sign S_j, -inf where every pair is forbidden */
    double largest; /* |score| of the allowed pairs */
    bool wrong;     /* NaN or sign S_j = +inf is among them */
} ota_cost_score_range;

typedef struct ota_pair_list {
    int32_t *column;
    double *cost;
    int32_t count, room;
    double next; /* the least reduced cost of those that were not picked; +inf: none */
} ota_pair_list;

/* What `groups` found. */
typedef struct ota_cost_groups {
    const double *price, *lowest; /* [columns], [count] */
    int64_t count;
} ota_cost_groups;

typedef struct ota_costs {
    ota_cost_score_range (*score_range)(const void *scores, int64_t count, double sign);
    void (*form)(const ota_score_row *row, double *cost);
    /* price_j = min(price_j, c_j), and who_j = i where that falls */
    void (*lower)(const ota_score_row *row, int64_t i, double *price, int64_t *who);
    /* A column of reduced cost 0 or less without a row, from about `begin` on; -1: there is none. */
    int64_t (*tight)(const ota_score_row *row, const double *price, const int64_t *row_of,
                     int64_t begin);
    /* Smallest reduced cost of each group of columns k, k + groups, k + 2 groups, ...; the lowest of all. */
    double (*groups)(const ota_score_row *row, const double *price, int64_t groups, double *lowest);
    /* Lists the pairs of reduced cost at most `threshold`, those of group `begin` first; false: there is no room. */
    bool (*pick)(const ota_score_row *row, const ota_cost_groups *of, int64_t begin,
                 double threshold, ota_pair_list *list);
    /* Lists the pairs with (c_j - v_j) - offset below distance_j and `most`; there is room for `count` and one more. */
    void (*nearer)(const ota_score_row *row, const double *price, double offset,
                   const double *distance, double most, ota_pair_list *list);
    /* max_j sign S_j + g_j, of all columns and of the listed ones: minus the row's best potential */
    double (*best)(const void *scores, double sign, const double *g, int64_t count);
    double (*best_listed)(const void *scores, double sign, const double *g, const int32_t *column,
                          int32_t listed);
    /* to [columns][stride] = from [rows][from_stride], transposed */
    void (*transpose)(const void *from, int64_t rows, int64_t columns, int64_t from_stride,
                      void *to, int64_t stride);
} ota_costs;

#endif
