/* ring.h: rows on many processes whose keys and values come round, one rank's share at a time. A rank holds its own share
 * and two messages; nothing of it is as long as all keys but vectors of numbers per key (coupled columns only).
 *
 *     message round     every rank's share of one key head is here once, the own one first, then that of the rank before ...
 *     visit    a piece of a share as a problem of its own (problem/key_block.h), solved by a plan of this library
 *     merge    L = log(exp L + exp l),  out = exp(L_old - L) out + exp(l - L) out_piece        l, L: lse [rows]
 *
 * Rows whose weights are no exponentials keep candidates and find their thresholds instead (ring_pairs.h).
 *
 * Pieces come in the same order for the same ranks and shares, so sums have the same bits. To the operator a ring is a
 * device of a backend: forward.c drives it as any other. *
 * Softmax is merged over pieces by plans of this library (ring_rows.c), its rounds and their reverse take the same pieces
 * (ring_rounds.c, ring_fixed_rounds.c, ring_multipliers.c). What pieces do not add up to as plans of their own goes pair by pair,
 * block by block (ring_pairs.h, backend/blocks/blocks.h). Begin here, then read ring_pairs.h. */
#ifndef OTA_RING_H
#define OTA_RING_H

#include "backend/gradient.h"
#include "operator/plan.h"
#include "problem/key_block.h"
#include "validation/shards.h"

typedef struct ota_device ota_ring_device;

/* One key head and the query heads at work on it. */
typedef struct ota_ring_unit {
    int64_t batch, key_head;
    int64_t head, heads;
} ota_ring_unit;

/* Keys [first, first + count) of all, which lie in the device's block. */
typedef struct ota_ring_piece {
    int64_t first, count;
    double *sums; /* [count][sum_width] that travel with the keys, or NULL */
} ota_ring_piece;

typedef void ota_ring_visit(ota_ring_device *ring, const ota_ring_piece *piece, void *context);

/* What is to go round for the unit at work. `visit` meets no more pieces once one has failed. */
typedef struct ota_message_round {
    bool with_values;
    int64_t sum_width; /* 0: no sums */
    const ota_tangents
        *tangents; /* whose keys and values are the sums, which then do not come home; or NULL */
    ota_ring_visit *visit;
    void *context;
    const char *step;
} ota_message_round;

typedef struct ota_ring_adjoint ota_ring_adjoint;               /* ring_multipliers.h */
typedef struct ota_ring_kept ota_ring_kept;                     /* ring_fixed_rounds.h */
typedef struct ota_ring_limits ota_ring_limits;                 /* ring_limits.h */
typedef struct ota_ring_pairs ota_ring_pairs;                   /* ring_pairs.h */
typedef struct ota_ring_parameter_sums ota_ring_parameter_sums; /* ring_parameters.c */

/* What tells the weights of a row whose keys come by in pieces. */
typedef enum ota_ring_rule {
    OTA_RING_BY_LSE,       /* lse and outputs of pieces, merged (ring_rows.c) */
    OTA_RING_BY_THRESHOLD, /* weights that may be 0 (ring_thresholds.c) */
    OTA_RING_BY_BEST_KEY,  /* all mass on one key (ring_thresholds.c) */
    OTA_RING_BY_CAPS,      /* a potential under caps (ring_capped_rows.c) */
    OTA_RING_BY_FILLING    /* the best keys, filled to their caps (ring_filled_rows.c) */
} ota_ring_rule;

/* Plans of this library for a piece, made with the device. */
typedef struct ota_ring_plans {
    ota_plan *forward; /* softmax of a piece, its weights applied to the values; its gradients */
    ota_plan *sums;    /* coupled: lse of rows and sums of columns of a piece */
    size_t bytes;      /* of both */
} ota_ring_plans;

/* Messages, which a message round fills and exchanges (ring.c). */
typedef struct ota_ring_messages {
    unsigned char *send_buffer, *receive_buffer;
    double *send_sums, *receive_sums; /* [share][width + values width] */
} ota_ring_messages;

/* The piece at hand as its plans read it: written by the message round, `bias` and `lengths` by the visit. */
typedef struct ota_ring_input {
    void *queries; /* [group][rows][width] in the type of pieces, where it is not the caller's */
    void *keys, *values; /* [room][...] likewise */
    double *bias;        /* [room] */
    int64_t *lengths;    /* of the piece's masks */
} ota_ring_input;

/* Rows of the unit at work over all pieces so far, and of the piece. */
typedef struct ota_ring_row_results {
    double *out, *piece_out; /* [group][rows][values width] */
    double *lse, *piece_lse; /* [group][rows] */
} ota_ring_row_results;

/* The head at work with coupled columns: vectors of the solver's loop (ring_rounds.c, ring_semidual.c), and sums over the rows of
 * a piece. */
typedef struct ota_ring_columns {
    double *mu, *u, *f;                                           /* [rows] */
    double *nu, *lambdas, *g, *target, *sum, *scaling, *absorbed; /* [keys] */
    double *local;                        /* [keys] column sums of this rank's rows */
    double *history;                      /* or NULL */
    unsigned char *used;                  /* [keys] ota_key_use */
    double key_norm;                      /* largest of the keys that came by, squared */
    double *weights, *zeros, *piece_sums; /* [rows], [room], [room] */
    double temperature;                   /* of rows while Newton cools; 0: the head's */
    void *workspace;                      /* Newton's */
} ota_ring_columns;

/* Of a plan with gradients: what a piece gives, and where it is summed. */
typedef struct ota_ring_backward_sums {
    double *query_sums, *piece_queries; /* [group][rows][width] */
    double *piece_keys, *piece_values;  /* [room][...] */
    double *totals;                     /* [share][width + values width] */
    ota_ring_adjoint *adjoint;          /* coupled */
    ota_ring_kept *kept;                /* of fixed rounds */
    ota_backward_space *space;          /* what rows and keys share */
    ota_ring_limits *limits;            /* masses of 0 */
    ota_ring_parameter_sums *parameter_sums;
    const ota_gradients *wanted; /* parameters among them, or NULL */
} ota_ring_backward_sums;

struct ota_device {
    /* chosen with the plan */
    const ota_resolved *resolved; /* the rank's */
    ota_shards *shards;
    ota_pool *pool;
    int64_t values_width;
    ota_type type;       /* of pieces: f64 where columns couple the rows */
    int64_t share, room; /* most keys of a rank, and of a piece */
    int64_t group;       /* query heads of a unit */
    int64_t stride;      /* keys rounded up to 16 */
    ota_ring_rule rule;
    const ota_solver *newton; /* finds coupled columns (ring_semidual.c); NULL: rounds do */
    bool coupled, gradients;
    bool has_softcap;    /* tiles of `plans.sums` do not know it */
    bool pair_gradients; /* tiles of `plans.forward` do not know them (ring_pair_gradients.c) */
    /* memory, by who writes it */
    ota_ring_plans plans;
    ota_ring_messages messages;
    ota_ring_input block;
    ota_ring_row_results rows;
    ota_ring_columns columns;
    ota_ring_backward_sums backward;
    ota_ring_pairs *pairs;
    /* at work */
    ota_run *run;
    ota_ring_unit unit;
    ota_status failed; /* a piece that could not be solved */
};

extern const ota_backend ota_ring_backend;

static inline double *ota_ring_numbers(ota_arena *arena, int64_t rows, int64_t columns) {
    return ota_arena_take_rows(arena, rows, columns, sizeof(double));
}
static inline void ota_ring_clear(double *x, int64_t count) {
    for (int64_t k = 0; k < count; k++) x[k] = 0.0;
}
/* Rows of the unit at work. */
static inline int64_t ota_ring_row_count(const ota_ring_device *ring) {
    return ring->group * ring->resolved->queries;
}

/* Backend and device of a plan that has a ring, and the plans within, less what lies in the arena; why it has none. */
ota_status ota_ring_open(ota_plan *plan, ota_error *error);
/* Bytes of the plans within; what backward and jvp work in, once the plan has its memory, or NULL. */
size_t ota_ring_plan_bytes(const ota_ring_device *ring);
ota_backward_space *ota_ring_space(const ota_ring_device *ring);
/* Is an entropy, support or largest weight of rows wanted? (ring_statistics.c) */
bool ota_ring_wants_statistics(const ota_arrays *arrays);
/* Arrays of forward that a ring does not make. */
ota_status ota_ring_check(const ota_arrays *arrays, ota_error *error);
/* Bytes of the keys and values that the rank gives to the others in one message round of all heads. */
int64_t ota_ring_bytes(const ota_ring_device *ring);
/* How many message rounds a forward takes, in a few words. */
const char *ota_ring_message_rounds(const ota_ring_device *ring);

/* False: the communicator failed. */
bool ota_ring_go(ota_ring_device *ring, const ota_message_round *message_round);
/* The problem of a piece into the plan; `biased`: ring->block.bias is added to the scores. */
void ota_ring_place(ota_ring_device *ring, const ota_ring_piece *piece, bool biased,
                    ota_plan *plan);
/* Query head `index` of all, and those that share its keys, are at work. */
void ota_ring_begin_unit(ota_ring_device *ring, int64_t index);
/* Backward and jvp: `work` for every unit, and `put` once it is solved. */
typedef struct ota_ring_units {
    ota_status (*work)(ota_plan *plan, void *context, double *residual);
    void (*put)(ota_plan *plan, void *context);
    void *context;
} ota_ring_units;
ota_status ota_ring_each_unit(ota_plan *plan, const ota_ring_units *units, ota_result *found);
/* The rank's own queries of the unit, their lse, and its blocks as arrays. */
ota_array ota_ring_rows(const ota_ring_device *ring, double *rows, int64_t width);
ota_array ota_ring_lse(const ota_ring_device *ring, double *lse);
ota_array ota_ring_values(const ota_ring_device *ring);

/* ring_rows.c: the queries of the unit at work in the type of the blocks. */
void ota_ring_widen_queries(const ota_ring_device *ring);
/* out and lse of a unit of rows, g per key or NULL; then what the caller wants of head `head` of the unit. */
bool ota_ring_attend(ota_ring_device *ring, bool with_out);
void ota_ring_put(ota_ring_device *ring, int64_t head, ota_head_status *status);
void ota_ring_run_rows(ota_run *run);

/* ring_rounds.c: rounds of coupled columns. A head of its own, on the device's vectors; then what the loop asks for. */
void ota_ring_load_head(ota_ring_device *ring, int64_t index, ota_head *head);
void ota_ring_begin_head(ota_run *run, int64_t index, int64_t place, bool narrow, bool keep_g,
                         ota_head *head);
void ota_ring_pack(ota_head *head);
void ota_ring_kernel_round(ota_head *head, bool form);
void ota_ring_allot(ota_head *head);
double ota_ring_kernel_floor(const ota_head *head);
bool ota_ring_kernel_emit(ota_head *head);
void ota_ring_gather(ota_head *head);

/* g of the piece into ring->block.bias. */
void ota_ring_bias(ota_ring_device *ring, const ota_ring_piece *piece);
/* P^T weights of this rank's rows into ring->columns.local, once lse is known. */
bool ota_ring_sum(ota_ring_device *ring);

/* ring_backward.c, ring_tangents.c: refusals, the gradients of a rank's queries, keys and values, and what moves with theirs. */
ota_status ota_ring_check_gradients(const ota_plan *plan, const ota_gradients *want,
                                    ota_error *error);
ota_status ota_ring_check_tangents(const ota_plan *plan, const ota_tangents *tangents,
                                   ota_error *error);
ota_status ota_ring_jvp(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                        ota_result *found);
/* lse and outputs of the unit as forward wrote them, or found again at the g at hand; false: the communicator failed. */
bool ota_ring_find_rows(ota_ring_device *ring, const ota_arrays *arrays, bool solved);
/* Does this backward go pair by pair? */
bool ota_ring_goes_by_pairs(const ota_ring_device *ring);
/* One message round that gathers gradients: what came home is added to the totals of the key head. False: the communicator failed. */
bool ota_ring_go_home(ota_ring_device *ring, const ota_message_round *message_round);
ota_status ota_ring_backward(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                             ota_result *found);

#endif
