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
    const ota_transport *problem;
    const ota_costs *read;
    ota_watch watch;
    ota_flow_arcs arcs;
    int64_t *excess,
        *room;       /* [rows], [columns]: what is not shipped yet, what a column still takes */
    double *price;   /* [padded] v, which only fall */
    int64_t shipped; /* paths so far */
    /* a list of the cheapest pairs of every row */
    struct {
        double *cost;        /* [rows][stride] */
        int32_t *column;     /* the same shape */
        int32_t stride;      /* OTA_LISTED, or as many as there are */
        int32_t *count;      /* [rows] */
        double *bound;       /* [rows] no pair that is not listed has a reduced cost below it */
        double *reach;       /* [rows] how far the first list reached */
        double *lowest;      /* [padded] */
        double *row_cost;    /* [padded + 1] some pairs of one row */
        int32_t *row_column; /* the same */
    } lists;
    /* pairs that are filled to their caps (transport_caps.c); of problems without caps: NULL */
    struct {
        uint64_t *of_row, *of_column; /* bits [rows][row_words], [columns][column_words] */
        double *hidden;               /* [columns] */
        double *
            potential; /* [rows] of those that ship: c - v of pairs that are neither full nor empty */
        int32_t *reached, met; /* [rows] which a search has reached, and how many */
        int64_t row_words, column_words;
    } full;
    struct {
        int32_t last,
            waiting; /* end of the line of rows, in `search.heap`, and how many are in it, `search.seen` */
    } bids;
    /* one search */
    struct {
        double *
            distance; /* [padded + rows] of columns, and of rows whose list may have to grow; +inf otherwise;
                         with caps [rows] more, of rows that give back what fills a pair */
        double *offset;  /* [rows] */
        int32_t *before; /* [columns] row from which a column is reached */
        int32_t *
            entry; /* [rows] flow arc by which a row is reached; OTA_NO_NODE: the search began there; -2 - w:
                      by the pair with column w, which is full */
        int32_t *seen;                  /* [rows] search in which a row was reached last */
        int32_t *heap, *slot, *reached; /* as many as distances */
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
                                int64_t columns, bool caps);

/* Ships what can be shipped of `tree`, whose loads and costs are there, and leaves the rest in `excess` and `room`. OTA_OK or what
 * the watch said. */
ota_status ota_transport_paths_solve(ota_transport_paths *paths);

/* transport_bids.c: lowers the prices to about those of the optimum. The flows are to be let go afterwards. */
void ota_transport_paths_bid(ota_transport_paths *paths);

/* transport_forest.c: takes the cycles out of the flows, none of which gets dearer by that. */
void ota_flow_take_cycles_out(ota_transport_paths *paths);
/* Every piece of the forest that is left hangs from the root by one of its rows, at the price of that row. */
void ota_transport_paths_plant(ota_transport_paths *paths);

typedef struct ota_two_cheapest {
    double first, second;
    int32_t best; /* a column, or OTA_NO_NODE */
} ota_two_cheapest;

/* The costs of row node i. */
static inline ota_score_row ota_path_row(const ota_transport_paths *paths, int32_t i) {
    const ota_transport_tree *tree = paths->tree;
    return (ota_score_row){.scores = tree->cost + i * tree->padded,
                           .count = tree->columns,
                           .top = 0.0,
                           .factor = -1.0,
                           .limit = INFINITY};
}
/* Cost of the pair of row node i and column w. */
static inline double ota_path_cost(const ota_transport_paths *paths, int32_t i, int32_t w) {
    return paths->tree->cost[i * paths->tree->padded + w];
}

/* Nodes of rows in the heap: whose list may have to grow, and which give back what fills a pair. */
static inline int32_t ota_growing_row(const ota_transport_paths *paths, int32_t i) {
    return (int32_t)paths->tree->padded + i;
}
static inline int32_t ota_giving_row(const ota_transport_paths *paths, int32_t i) {
    return (int32_t)paths->tree->padded + paths->tree->rows + i;
}

/* Nothing is shipped. */
void ota_transport_paths_let_go(ota_transport_paths *paths);

/* transport_lists.c. Lists row i anew, with its cheapest pairs at the prices of now. */
void ota_transport_paths_list(ota_transport_paths *paths, int32_t i);
/* Lists row i with more pairs than before, as far above its bound as the first ones were apart. False: they have no room, the list is
 * its cheapest pairs of now, and the bound may have fallen. */
bool ota_transport_paths_list_more(ota_transport_paths *paths, int32_t i);
/* The two cheapest pairs on the list of row i, +inf where there are fewer, and the column of the first. */
ota_two_cheapest ota_transport_paths_two(const ota_transport_paths *paths, int32_t i);
/* The least reduced cost of row i, which its list is sure to hold afterwards. */
double ota_transport_paths_least(ota_transport_paths *paths, int32_t i);

/* The arc of this pair, or OTA_NO_NODE; a new one, for which there has to be room. */
int32_t ota_flow_find(const ota_transport_paths *paths, int32_t i, int32_t w);
int32_t ota_flow_new(ota_flow_arcs *arcs, int32_t i, int32_t w);
/* What row i ships to column w. */
int64_t ota_flow_of(const ota_transport_paths *paths, int32_t i, int32_t w);
/* Takes so much off an arc, which is empty and still listed where that is all. */
void ota_flow_take(ota_flow_arcs *arcs, int32_t e, int64_t amount);
/* Removes an arc from the lists of its row and its column. */
void ota_flow_drop(ota_flow_arcs *arcs, int32_t e);

/* transport_caps.c: pairs within caps. Memory; arcs of rows that bid, beyond those of a forest: all pairs, or so many a node. */
void ota_pairs_layout(ota_transport_paths *paths, ota_arena *arena, size_t n, size_t m);
size_t ota_pairs_arcs(size_t n, size_t m);
/* The most that row i may ship to column w; INT64_MAX: no cap matters. */
int64_t ota_pair_cap(const ota_transport_paths *paths, int32_t i, int32_t w);
bool ota_pair_is_full(const ota_transport_paths *paths, int32_t i, int32_t w);
/* The pair is filled, and off the list of its row; it is not any more, and is listed, or the bound says where it may be found. */
void ota_pair_fill(ota_transport_paths *paths, int32_t i, int32_t w);
void ota_pair_open(ota_transport_paths *paths, int32_t i, int32_t w);
/* Row i ships so much less to column w, whose pair was full when the search began. */
void ota_pair_take(ota_transport_paths *paths, int32_t i, int32_t w, int64_t amount);
void ota_pairs_empty(ota_transport_paths *paths);
/* The first full column of row i from w on, the first row whose pair with column w is full from i on; OTA_NO_NODE: there is none. */
int32_t ota_full_column(const ota_transport_paths *paths, int32_t i, int32_t w);
int32_t ota_full_row(const ota_transport_paths *paths, int32_t w, int32_t i);
/* Entries of full columns of row i become -inf, and what they were again. */
void ota_full_hide(const ota_transport_paths *paths, int32_t i, double *entries);
void ota_full_show(const ota_transport_paths *paths, int32_t i, double *entries);
/* c - v where row i ships, which none of the pairs that are not full is below. */
double ota_row_potential(const ota_transport_paths *paths, int32_t i);

#endif
