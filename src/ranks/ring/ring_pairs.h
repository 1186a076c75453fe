/* ring_pairs.h: a piece of the keys against the rows of a unit, pair by pair and in f64, for what pieces do not add up to as plans
 * of their own do: thresholds of rows, statistics, gradients of weights that are no exponentials.
 *
 *     block   OTA_RING_ROWS rows of one head times the keys of the piece, -inf where a pair is forbidden
 *     form    what its pairs are, once
 *     formed  of blocks that are, in their order, OTA_RING_KEYS keys of each: what it writes belongs to these keys
 *     rows    a visit of the whole block: what it writes belongs to its rows
 *     keys    as `formed`, of what the visit of the rows left
 *     merge   of the same blocks, in their order: what many rows share
 *
 * Every number has one writer and one order of sums, whatever the threads. */
#ifndef OTA_RING_PAIRS_H
#define OTA_RING_PAIRS_H

#include "backend/blocks/blocks.h"
#include "backend/capped_edge.h"
#include "backend/threshold.h"
#include "ring.h"

enum {
    OTA_RING_ROWS = 16,   /* of a block */
    OTA_RING_KEYS = 64,   /* of a visit of keys */
    OTA_RING_LIST = 128,  /* most keys with weight that a row keeps while the keys go round */
    OTA_RING_FILLED = 64, /* and of those that a hard row fills up */
    /* Most steps in search of the threshold of a row whose list was too short. */
    OTA_RING_SEARCH = 200
};

/* A block while it is visited; `transposed` belongs to who visits keys. */
typedef struct ota_ring_worker {
    double *scores;     /* [OTA_RING_ROWS][stride] */
    double *weights;    /* likewise: P */
    double *slopes;     /* likewise, with gradients: U, then dS */
    double *raw;        /* likewise, with gradients: Q K^T */
    double *round;      /* likewise, of fixed rounds with gradients: P of one */
    double *transposed; /* [OTA_RING_KEYS][OTA_RING_ROWS], with gradients */
    double *queries;    /* [OTA_RING_ROWS][width] */
    double *upstream;   /* [OTA_RING_ROWS][values width], with gradients */
} ota_ring_worker;

/* What is known of a row. */
typedef enum ota_ring_state {
    OTA_RING_LISTED,   /* every key with weight stands in its list */
    OTA_RING_SPILLED,  /* there are more */
    OTA_RING_STEEP,    /* of an order above 2, and its edge is not known */
    OTA_RING_FOUND,    /* all is known all the same */
    OTA_RING_FULL,     /* its caps add up to less than its mass */
    OTA_RING_NONFINITE /* NaN or +inf among the scores */
} ota_ring_state;

/* A key in the order in which hard rows take them. */
typedef struct ota_ring_spot {
    double score;
    int64_t key;
} ota_ring_spot;

typedef struct ota_ring_filled_key {
    ota_ring_spot at;
    double cap;
} ota_ring_filled_key;

/* A hard row under caps (ring_filled_rows.c). */
typedef struct ota_ring_filling {
    ota_ring_spot edge;
    double rest;   /* of the mass, for the edge */
    double enough; /* room that holds the mass */
    ota_ring_filled_key list[OTA_RING_FILLED];
    int64_t listed;
    bool whole, spilled;       /* the list ends at the edge; has no room for it */
    ota_ring_spot first, last; /* that may be the edge */
    double room, room_last;    /* of the keys before the first, and of those up to the last */
    int64_t before, up_to;     /* how many they are */
    bool lists; /* the message round lists what lies between; else it adds up the keys up to `at` */
    ota_ring_spot at;
    double sum;
    int64_t count, iteration;
    double least, most; /* least of their scores, largest of the others' */
} ota_ring_filling;

/* The piece at hand in f64, written as it comes by (ring_pairs.c, tangents by ring_tangents.c). */
typedef struct ota_ring_piece_numbers {
    double *keys;              /* [width][stride], transposed */
    double *values;            /* [room][values width], 0 where a value is not finite */
    double *key_tangents;      /* [width][stride], transposed, with gradients */
    double *value_tangents;    /* [room][values width], with gradients */
    double *values_transposed; /* [values width][stride], with gradients */
    double *lines;             /* [room][width] of the keys, with gradients */
    unsigned char *nonfinite;  /* [room] some value is not finite */
} ota_ring_piece_numbers;

/* Rows with caps (ring_capped_rows.c), [rows]. */
typedef struct ota_ring_caps {
    ota_capped_search *search;
    ota_capped_totals *totals; /* of a step */
    double *room, *highest;    /* of all keys' caps; the f from which on all keys are at theirs */
    double *factor;            /* what open weights are scaled by */
    /* How far from the plan at the low end of a row's search to that at the high one; below 0: it is that at f. */
    double *part;
} ota_ring_caps;

/* Rows of an order above 2 (ring_edges.c), [rows]; NULL: of another. */
typedef struct ota_ring_steep {
    ota_edge *edges;
    ota_capped_edge *search;
    ota_capped_edge_sums *sums; /* of a message round */
    /* Of gradients and tangents: the steepest slope so far, the sink's first, whose key it is (-1: the sink), and its U, from which all
     * others are measured: beside it their shares of the mean keep no digit otherwise. */
    double *most, *middle;
    int64_t *column;
    double *others; /* what all other slopes add up to */
    double *rest;   /* the sink's */
    /* Of coupled columns: the multiplier of that key, once it is known, and the row's, measured from U - b there. */
    double *beside, *multiplier;
} ota_ring_steep;

struct ota_ring_pairs {
    int64_t stride; /* of a block: a piece's keys and a list */
    ota_ring_piece_numbers piece;
    ota_ring_worker *workers;
    /* of the rows of the unit */
    unsigned char *state; /* ota_ring_state */
    unsigned char *uses_nonfinite;
    double *top, *f;          /* largest score, sink included; potential */
    double *size;             /* what all scores of a row have in common, taken off them */
    bool meets;               /* the first message round of a search for f, which tells `size` */
    ota_row_statistics *sums; /* of the weights at f */
    double *sink;
    double *slope, *mean;   /* sum w, sum w U; then a, less ota_ring_middle: with gradients */
    double *columns;        /* [group][room] sums of weights */
    double *first, *second; /* sums of a threshold's step */
    double *list;           /* [rows][OTA_RING_LIST] */
    int64_t *listed;        /* [rows]; of hard rows the best key */
    threshold_search *search;
    ota_ring_caps caps;
    ota_ring_steep steep;
    ota_ring_filling *filling; /* of hard rows with caps */
};

/* Rows of a head of the unit and keys of the piece, whose problem is the piece's. */
typedef struct ota_ring_block {
    ota_block in; /* its rule without a sink */
    ota_ring_device *ring;
    const ota_ring_piece *piece;
    const ota_ring_worker *w;
    double *transposed; /* of a visit of keys */
    double sink;
    int64_t at;   /* the first row's number in the unit */
    int64_t side; /* of the blocks that are formed side by side, one a thread */
} ota_ring_block;

typedef void ota_ring_block_visit(const ota_ring_block *block, void *context);

/* ring_pairs.c: memory; a visit's piece, in f64; its blocks, with queries and scores. */
void ota_ring_lay_out_pairs(ota_ring_device *ring, ota_arena *arena);
void ota_ring_pairs_load(ota_ring_device *ring, const ota_ring_piece *piece, bool with_values);
/* Of every block, each or NULL. Those that are merged are told to one thread. */
typedef struct ota_ring_visits {
    ota_ring_block_visit *form, *formed, *rows, *keys, *merge;
    void *context;
} ota_ring_visits;
void ota_ring_visit_blocks(ota_ring_device *ring, const ota_ring_piece *piece,
                           const ota_ring_visits *visits);
/* A message round of blocks of the unit at work. */
typedef struct ota_ring_pair_round {
    ota_ring_visits visits;
    bool with_values;
    const ota_tangents *tangents; /* of keys and values, which come with them, or NULL */
    const char *step;
} ota_ring_pair_round;
/* False: the communicator failed. */
bool ota_ring_visit_pairs(ota_ring_device *ring, const ota_ring_pair_round *pair_round);

/* Sums over a message round of one number a pair, times a factor. */
typedef enum ota_ring_number {
    OTA_RING_WEIGHTS, /* P */
    OTA_RING_SLOPES,  /* w */
    OTA_RING_CAPS,    /* of allowed pairs */
    OTA_RING_ALLOWED  /* 1 where a pair is */
} ota_ring_number;
typedef struct ota_ring_sums {
    ota_ring_number number;
    const ota_head
        *head; /* at work by Newton, whose slopes have a bound and whose rows have mass; or NULL */
    const double *x_keys; /* [keys] of all, factors of sums by rows; NULL: 1 */
    const double *x_rows; /* [rows], factors of sums by keys; NULL: 1 */
    double *rows, *keys;  /* [rows], [keys] of all: added to; NULL: none */
    double *slopes;       /* [keys] of all: of w besides, or NULL */
} ota_ring_sums;
bool ota_ring_sum_pairs(ota_ring_device *ring, ota_ring_sums *sums, const char *step);
/* Visits of it: the number in the place of the weights, and its sums by keys. */
void ota_ring_form_number(const ota_ring_block *b, void *sums);
void ota_ring_sum_by_keys(const ota_ring_block *b, void *sums);
/* The parameters of a head of the unit at work, its sink included. */
ota_row_parameters ota_ring_parameters(const ota_ring_device *ring, int64_t head);
/* The mass of row k of the unit at work. */
double ota_ring_row_mass(const ota_ring_device *ring, int64_t k);
/* Row k of a block has weight on values that are not finite. */
void ota_ring_note_values(const ota_ring_block *b, int64_t k);
/* The weight of the sink of row k of the unit, and the row's parameters. */
double ota_ring_sink_of(const ota_ring_device *ring, int64_t k, ota_row_parameters *row);
/* P at the potentials of the block's rows, 0 in rows that are not finite. */
void ota_ring_weigh(const ota_ring_block *block);

/* ring_thresholds.c: P as a plan within caps has it: what rounding left of f is spread over the keys that are not at theirs. */
void ota_ring_fit_weights(const ota_ring_block *block);
/* out, f and sink of rows whose weights may be 0, statistics where they are wanted. False: the communicator
 * failed. Then what the caller wants of head `head` of the unit. */
bool ota_ring_find_thresholds(ota_ring_device *ring);
bool ota_ring_attend_pairs(ota_ring_device *ring);
/* A search for the potentials of rows: a message round that all keys `meet`, what each row begins with, and while some row of any
 * rank is SPILLED or STEEP a message round and a step of each, of SPILLED ones `step`. False: the communicator failed. */
typedef struct ota_ring_search {
    ota_ring_block_visit *meet, *sum;
    void (*begin)(ota_ring_device *ring, int64_t k);
    void (*step)(ota_ring_device *ring, int64_t k);
    const char *meeting, *summing;
} ota_ring_search;
bool ota_ring_search_rows(ota_ring_device *ring, const ota_ring_search *search);
/* ring_edges.c: memory; no edges yet; from a potential near that of a row, if its order is above 2, its own search; what a row
 * of a block adds to the answer of a message round; and the step of a STEEP row. */
void ota_ring_lay_out_edges(const ota_ring_device *ring, ota_ring_steep *to, ota_arena *arena);
void ota_ring_begin_edges(const ota_ring_device *ring);
void ota_ring_seek_edge(const ota_ring_device *ring, int64_t k);
void ota_ring_answer_edge(const ota_ring_block *b, int64_t k);
void ota_ring_step_edge(const ota_ring_device *ring, int64_t k);
/* Are rows steep, and that with gradients? */
static inline bool ota_ring_is_steep(const ota_ring_device *ring) {
    return ring->pairs->steep.most != NULL;
}
/* U of a block's row less that of the row's steepest weight, which is found while the sums of slopes are made, from the sink's slope
 * and U on; and U - b there. */
void ota_ring_begin_centre(const ota_ring_device *ring, int64_t k, double slope, double u);
void ota_ring_move_centre(const ota_ring_block *b, int64_t k);
void ota_ring_centre(const ota_ring_block *b, int64_t k);
double ota_ring_middle(const ota_ring_device *ring, int64_t k);
/* Of a block whose rows' a are in `mean`: sums by keys; those of slopes are of what each moves, w (1 - w / sum of w). */
void ota_ring_add_key_sums(const ota_ring_block *b, const ota_block_key_sums *to);
/* y = sum_i w_ij (x_j - (w x)_i / den_i) of coupled columns, and (w x)_i / den_i, both measured from x of the steepest key. */
void ota_ring_steep_product(ota_ring_device *ring, const double *x, double *a, double *y);
/* Once the multipliers b of keys are known: those of rows, in a, are less U - b of the steepest; they become whole. */
void ota_ring_place_multipliers(const ota_ring_device *ring, const double *b, double *a);
/* The largest score of row k of a block into *top; false: NaN or +inf among the row's scores so far. */
bool ota_ring_score_range(const ota_ring_block *b, int64_t k, double *top);
/* ring_capped_rows.c, ring_filled_rows.c: f of rows with caps, of hard ones the edge and the sink, too; before the keys come. */
extern const ota_ring_search ota_ring_capped_search, ota_ring_filled_search;
void ota_ring_begin_capped(ota_ring_device *ring);
void ota_ring_begin_filled(ota_ring_device *ring);
/* The weights of row k of a block of hard rows with caps. */
void ota_ring_fill(const ota_ring_block *b, int64_t k, double *weights);

/* ring_pair_gradients.c: f of softmax rows by their lse; U of a block, 0 without gradients of outputs. */
void ota_ring_take_potentials(ota_ring_device *ring);
void ota_ring_form_upstream(const ota_ring_block *b, const ota_array *out_grad);

/* What dL/dS = w (U - a - b) / tau of a message round is made of; a of the unit's rows is in `mean`. */
typedef struct ota_ring_pull {
    const ota_array *out_grad;   /* of all outputs, which U comes from; NULL: U is 0 */
    const double *b;             /* [keys] of all; NULL: 0 */
    ota_block_key_sums keys;     /* of this rank's rows, of all keys */
    bool keys_alone;             /* no gradients of queries, keys and values */
    const ota_ring_kept *rounds; /* reversed, whose dL/dS is added; or NULL */
    const ota_gradients *want;   /* terms, temperatures ... (ring_parameters.c); NULL: none */
} ota_ring_pull;
/* The message round. False: the communicator failed. */
bool ota_ring_pull_pairs(ota_ring_device *ring, ota_ring_pull *pull);

/* f and a of the unit's rows on free columns, of softmax from the lse and outputs that the ring holds (false: the communicator
 * failed). */
bool ota_ring_pair_means(ota_ring_device *ring, const ota_array *out_grad);
/* a of rows whose f is known in `mean`, sum_j w_ij and the sink's in `slope`. */
bool ota_ring_take_means(ota_ring_device *ring, const ota_array *out_grad);
/* out_grad . out / mu of the unit's rows, whose outputs the ring holds. */
void ota_ring_output_means(ota_ring_device *ring, const ota_array *out_grad, double *means);

/* ring_parameters.c: gradients of terms, temperatures, orders and sinks, in the operator's sums. Does the caller want some? */
bool ota_ring_wants_parameters(const ota_resolved *r, const ota_gradients *want);
void ota_ring_lay_out_parameters(ota_ring_device *ring, ota_arena *arena);
void ota_ring_clear_parameters(ota_ring_device *ring);
/* A message round begins; what the rows of a block get, [rows][OTA_ROW_SUMS], of dL/dS in `slopes`, its raw products in `raw`; what
 * terms get of it; what went through a softcap; the sides, in order; the end of the message round, with what the sinks get. */
void ota_ring_begin_parameters(ota_ring_device *ring);
double *ota_ring_row_sums(const ota_ring_block *b);
void ota_ring_take_numbers(const ota_ring_block *b, const ota_ring_pull *pull);
void ota_ring_take_terms(const ota_ring_block *b, const ota_ring_pull *pull);
void ota_ring_take_inside(const ota_ring_block *b, const ota_ring_pull *pull);
void ota_ring_merge_parameters(const ota_ring_block *b, void *pull);
void ota_ring_end_parameters(ota_ring_device *ring, const ota_ring_pull *pull);

/* ring_statistics.c: of weights in blocks, the sums of their rows begun and added to; then of the unit at work what is wanted
 * besides outputs (false: the communicator failed), and into the caller's arrays. */
void ota_ring_begin_statistics(ota_ring_device *ring);
void ota_ring_add_statistics(const ota_ring_block *b);
bool ota_ring_measure(ota_ring_device *ring);
void ota_ring_put_statistics(const ota_ring_device *ring, int64_t head);

#endif
