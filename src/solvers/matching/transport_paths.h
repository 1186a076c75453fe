/* transport_paths.h: a plan to begin the network simplex with (transport_paths.c): flows of rows to columns and prices at which they
 * are the cheapest ones, up to rounding. */
#ifndef OTA_TRANSPORT_PATHS_H
#define OTA_TRANSPORT_PATHS_H

#include "transport_tree.h"

/* Candidates kept of one row at most, and listed at first. */
enum { OTA_LISTED = 192, OTA_LISTED_FIRST = 16 };

/* Pairs that carry flow, each in the list of its row and in that of its column. */
typedef struct ota_flow_arcs {
    int32_t *row, *column;
    int64_t *amount;
    double *level; /* price at which it was bought, while rows bid */
    int32_t *next_in_row, *previous_in_row, *next_in_column, *previous_in_column;
    int32_t *of_row, *of_column; /* [rows], [columns]: the first of each, or OTA_NO_NODE */
    int32_t *empty;              /* those whose flow fell to 0 and that are still listed */
    int32_t room, used,
        unused;             /* how many there may be, were taken; the first of those given back */
    int32_t count, emptied; /* how many are listed, and are empty */
} ota_flow_arcs;

typedef struct ota_transport_paths {
    ota_transport_tree *tree;
    const ota_costs *read;
    ota_watch watch;
    ota_flow_arcs arcs;
    int64_t *excess,
        *room;       /* [rows], [columns]: what is not shipped yet, what a column still takes */
    double *price;   /* [padded] v, which only fall */
    int64_t shipped; /* paths so far */
    /* a list of the cheapest pairs of every row */
    struct {
        double *cost;        /* [rows][OTA_LISTED] */
        int32_t *column;     /* the same shape */
        int32_t *count;      /* [rows] */
        double *bound;       /* [rows] no pair that is not listed has a reduced cost below it */
        double *reach;       /* [rows] how far the first list reached */
        double *lowest;      /* [padded] */
        double *row_cost;    /* [padded + 1] some pairs of one row */
        int32_t *row_column; /* the same */
    } lists;
    struct {
        int32_t last,
            waiting; /* end of the line of rows, in `search.heap`, and how many are in it, `search.seen` */
    } bids;
    /* one search */
    struct {
        double *
            distance; /* [padded + rows] of columns, and of rows whose list may have to grow; +inf otherwise */
        double *offset;  /* [rows] */
        int32_t *before; /* [columns] row from which a column is reached */
        int32_t *
            entry; /* [rows] flow arc by which a row is reached; OTA_NO_NODE: the search began there */
        int32_t *seen;                  /* [rows] search in which a row was reached last */
        int32_t *heap, *slot, *reached; /* [padded + rows] */
        int32_t *cycle;                 /* the same: arcs of one of the flows */
        int32_t *sinks;                 /* [columns] that are reached and have room */
        int64_t work,
            most; /* pairs that were looked at, and how many may be before rows bid for prices */
        int32_t number, open, met, ends;
        int32_t end;     /* nearest column with room; OTA_NO_NODE: none yet */
        double shortest; /* its distance; +inf where all of them are wanted */
    } search;
} ota_transport_paths;

void ota_transport_paths_layout(ota_transport_paths *paths, ota_arena *arena, int64_t rows,
                                int64_t columns);

/* Ships what can be shipped of `tree`, whose loads and costs are there, and leaves the rest in `excess` and `room`. OTA_OK or what
 * the watch said. */
ota_status ota_transport_paths_solve(ota_transport_paths *paths);

/* transport_bids.c: lowers the prices to about those of the optimum. The flows are to be let go afterwards. */
void ota_transport_paths_bid(ota_transport_paths *paths);

/* transport_forest.c: takes the cycles out of the flows, none of which gets dearer by that. */
void ota_flow_take_cycles_out(ota_transport_paths *paths);
/* Every piece of the forest that is left hangs from the root by one of its rows, at the price of that row. */
void ota_transport_paths_plant(ota_transport_paths *paths);

/* Cost of the pair of row node i and column w. */
static inline double ota_path_cost(const ota_transport_paths *paths, int32_t i, int32_t w) {
    return paths->tree->cost[i * paths->tree->padded + w];
}

/* Nothing is shipped. */
void ota_transport_paths_let_go(ota_transport_paths *paths);
/* Lists row i anew, with its cheapest pairs at the prices of now. */
void ota_transport_paths_list(ota_transport_paths *paths, int32_t i);

/* The arc of this pair, or OTA_NO_NODE; a new one, for which there has to be room. */
int32_t ota_flow_find(const ota_transport_paths *paths, int32_t i, int32_t w);
int32_t ota_flow_new(ota_flow_arcs *arcs, int32_t i, int32_t w);
/* Removes an arc from the lists of its row and its column. */
void ota_flow_drop(ota_flow_arcs *arcs, int32_t e);

#endif
