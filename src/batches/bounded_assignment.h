/* bounded_assignment.h: the parts of ota_assign_bounded: rows of costs, heaps of pairs of columns, shortest paths. */
#ifndef OTA_BATCHES_BOUNDED_H
#define OTA_BATCHES_BOUNDED_H

#include "backend/bounded_kernels.h"
#include "base/base.h"
#include "otattn_bounded.h"
#include "problem/problem.h"

/* ---- costs (bounded_costs.c) ---------------------------------------------------------------------- */

enum { OTA_BOUNDED_BLOCK = 64 }; /* rows whose costs one task forms */
/* The most that a cost may be, either way: sums along paths stay finite. */
#define OTA_BOUNDED_MOST_COST 1e290

typedef struct ota_bounded_costs {
    ota_array costs, points;
    int64_t rows, columns, width; /* width 0: a matrix */
    int64_t stride; /* columns and +inf up to a multiple of OTA_BOUNDED_LANES, at least one */
    const ota_bounded_passes *passes;
    double *centres; /* in panels of OTA_BOUNDED_PANEL columns */
    double *point;   /* [blocks][OTA_BOUNDED_BLOCK][width] of the rows that a task is at */
    double *block;   /* [blocks][OTA_BOUNDED_BLOCK][stride] */
    int64_t blocks;  /* tasks at once */
    ota_pool *pool;  /* NULL: one thread */
} ota_bounded_costs;

void ota_bounded_costs_layout(ota_bounded_costs *costs, ota_arena *arena);
/* Reads the centres, once the memory is there. */
void ota_bounded_costs_begin(ota_bounded_costs *costs, const ota_array *centres);
/* The costs of one row, [stride]. */
void ota_bounded_costs_row(const ota_bounded_costs *costs, int64_t row, double *out);

double ota_bounded_costs_pair(const ota_bounded_costs *costs, int64_t row, int64_t column);

/* Some of the rows, spread over all of them; all where `count` is their number. */
typedef struct ota_bounded_rows {
    const ota_bounded_costs *costs;
    int64_t count;
} ota_bounded_rows;

int64_t ota_bounded_rows_at(const ota_bounded_rows *rows, int64_t place);
/* The costs of rows [first, first + the result), as far as they fit in costs->block. */
int64_t ota_bounded_rows_form(const ota_bounded_rows *rows, int64_t first);

/* ---- heaps (bounded_heaps.c) ---------------------------------------------------------------------- */

/* A pairing heap for each pair of columns in one pool of entries; of equal keys the lower row comes first. */
typedef struct ota_bounded_heaps {
    double *key;                 /* [capacity] */
    int32_t *row, *child, *next; /* [capacity] */
    int32_t *root;               /* [columns][columns], OTA_BOUNDED_NONE where empty */
    int64_t capacity, count;     /* entries there is room for, and those ever taken */
    int64_t limit;               /* on the capacity */
    int32_t unused;              /* list of popped entries */
} ota_bounded_heaps;

enum { OTA_BOUNDED_NONE = -1 };

void ota_bounded_heaps_clear(ota_bounded_heaps *heaps, int64_t columns);
/* OTA_OK, OTA_ENOMEM or OTA_ELIMIT. */
ota_status ota_bounded_heaps_insert(ota_bounded_heaps *heaps, int64_t pair, double key,
                                    int32_t row);
/* Takes out the least entry; the heap is not empty. */
void ota_bounded_heaps_pop(ota_bounded_heaps *heaps, int64_t pair);
void ota_bounded_heaps_free(ota_bounded_heaps *heaps);

/* ---- shortest paths (bounded_paths.c) ------------------------------------------------------------- */

/* Node `columns` is the reservoir, whose price is 0. Vectors of f64 are [stride], with 0 in prices and +inf in costs
 * and lengths past the last node. */
typedef struct ota_bounded_paths {
    ota_bounded_rows rows;
    const ota_bounded_passes *passes;
    int64_t columns, take, stride;
    int64_t words; /* of 64 bits, a row's share of `held` */
    const ota_settings *settings;
    int64_t *lower, *upper; /* [columns] for these rows */
    int64_t *load;          /* [columns] rows that hold it */
    int64_t *flow;          /* [columns] its units in the reservoir, within the bounds */
    int64_t *excess;        /* [columns + 1] what arrives and does not leave */
    uint64_t *held;         /* [rows][words] */
    double *price, *base;   /* base: at the last filling */
    double *best;           /* [columns][stride]: least key, or the bound on all not stored */
    double threshold;       /* reduced lengths up to it are stored */
    struct {
        double *length;  /* [stride] */
        double *closed;  /* [stride] +inf where the length is final, else 0 */
        double reached;  /* length of the last node */
        int64_t *before; /* [stride] in the tree of the search */
        double *taken;   /* [stride] key of the arc from there */
        int64_t *ends;   /* [columns + 1] nodes with too little that it found */
        int64_t count;   /* their number */
    } search;
    struct {
        double *costs, *reduced, *sorted; /* [stride] */
        uint64_t *bits;                   /* [words] */
    } row;                                /* the one at hand */
    double *sample;                       /* [OTA_BOUNDED_SAMPLE] */
    int32_t *moved;                       /* [columns + 1] rows of the path */
    ota_bounded_heaps heaps;
    double wanted;  /* entries the threshold aims at */
    int64_t filled; /* entries after the last filling */
    struct {
        int64_t paths, searches, fillings, paths_at_filling;
    } counts;
} ota_bounded_paths;

enum { OTA_BOUNDED_COLUMNS = 4096, OTA_BOUNDED_SAMPLE = 1 << 13 };

void ota_bounded_paths_layout(ota_bounded_paths *paths, ota_arena *arena, int64_t rows);
/* Moves units until every load is within its bounds, from the prices as they are. OTA_INFEASIBLE leaves closed
 * the nodes from which nothing can be moved on; OTA_PARTIAL: more than `most` units would have to move. */
ota_status ota_bounded_paths_solve(ota_bounded_paths *paths, double most);

static inline bool ota_bounded_held(const ota_bounded_paths *paths, int64_t row, int64_t column) {
    return (paths->held[row * paths->words + column / 64] >> (column % 64) & 1) != 0;
}

/* Marks in bits[words] the `take` columns of the least costs + price, of equals the first ones. */
void ota_bounded_least(ota_bounded_paths *paths, const double *costs, uint64_t *bits);

/* The first column of bits[words] from `from` on, or -1. */
int64_t ota_bounded_next(const uint64_t *bits, int64_t words, int64_t from);

#endif
