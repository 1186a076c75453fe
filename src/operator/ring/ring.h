/* ring.h: rows on many processes whose keys and values come round, one rank's share at a time. A rank holds its own share
 * and two messages; nothing of it is as long as all keys but vectors of numbers per key (coupled columns only).
 *
 *     message round     every rank's share of one key head is here once, the own one first, then that of the rank before ...
 *     visit    a piece of a share as a problem of its own (problem/key_block.h), solved by a plan of this library
 *     merge    L = log(exp L + exp l),  out = exp(L_old - L) out + exp(l - L) out_piece        l, L: lse [rows]
 *
 * Rows whose weights are no exponentials keep candidates and find their thresholds instead (pairs.h).
 *
 * Pieces come in the same order for the same ranks and shares, so sums have the same bits. To the operator a ring is a
 * device of a backend: forward.c drives it as any other. */
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
    ota_ring_unit unit;
    int64_t first, count;
    double *sums; /* [count][sum_width] that travel with the keys, or NULL */
} ota_ring_piece;

typedef void ota_ring_visit(ota_ring_device *ring, const ota_ring_piece *piece, void *context);

/* What is to go round. */
typedef struct ota_message_round {
    ota_ring_unit unit;
    bool with_values;
    int64_t sum_width; /* 0: no sums */
    const ota_tangents
        *tangents; /* whose keys and values are the sums, which then do not come home; or NULL */
    ota_ring_visit *visit;
    void *context;
    const char *step;
} ota_message_round;

typedef struct ota_ring_adjoint ota_ring_adjoint;               /* multipliers.h */
typedef struct ota_ring_kept ota_ring_kept;                     /* fixed_rounds.h */
typedef struct ota_ring_pairs ota_ring_pairs;                   /* pairs.h */
typedef struct ota_ring_parameter_sums ota_ring_parameter_sums; /* parameters.c */

struct ota_device {
    const ota_resolved *resolved; /* the rank's */
    ota_shards *shards;
    ota_pool *pool;
    int64_t values_width;
    bool coupled, gradients;
    const ota_solver *newton; /* finds coupled columns (semidual.c); NULL: rounds do */
    double temperature;       /* of rows while Newton cools; 0: the head's */
    void *workspace;          /* Newton's */
    bool by_pairs, hard;      /* rows of weights that may be 0 (thresholds.c); all in one key */
    bool capped, filled;      /* have caps (capped_rows.c), those of hard rows (filled_rows.c) */
    bool has_softcap;         /* a softcap: tiles of `plan_sums` do not know it */
    bool pair_gradients;      /* tiles do not know them (pair_gradients.c) */
    ota_type type;            /* of the blocks: f64 where columns couple the rows */
    int64_t share, room;      /* most keys of a rank, and of a piece */
    int64_t group;            /* query heads of a unit */
    int64_t stride;           /* keys rounded up to 16 */
    ota_plan *plan_forward;   /* softmax of a piece, its weights applied to the values; backward */
    ota_plan *plan_sums;      /* coupled: lse of rows and sums of columns of a piece */
    ota_plan *plan_backward;  /* gradients of a piece: `plan_forward`; coupled: of one value more */
    ota_plan *plan_rounds; /* of fixed rounds: gradients of a piece with two values, of one round */
    size_t plan_bytes;     /* of all */
    unsigned char *send_buffer, *receive_buffer; /* messages */
    double *send_sums, *receive_sums;            /* [share][width + values width] */
    void *queries;           /* [group][rows][width] in `type`, where it is not the caller's */
    void *keys, *values;     /* [room][...] in `type` */
    double *bias;            /* [room] */
    int64_t *lengths;        /* of the piece's masks */
    double *out, *piece_out; /* [group][rows][values width] */
    double *lse, *piece_lse; /* [group][rows] */
    double *query_sums, *piece_queries;      /* with gradients: [group][rows][width] */
    double *piece_keys, *piece_values;       /* with gradients: [room][...] */
    double *totals;                          /* with gradients: [share][width + values width] */
    double *weights, *zeros, *piece_sums;    /* coupled: [rows], [room], [room] */
    ota_ring_adjoint *adjoint;               /* coupled, with gradients */
    ota_ring_kept *kept;                     /* of fixed rounds, with gradients */
    ota_backward_space *space;               /* with gradients: what rows and keys share */
    ota_ring_parameter_sums *parameter_sums; /* with gradients */
    ota_ring_pairs *pairs;
    /* coupled, of the head at work */
    double *mu, *u, *f;                                           /* [rows] */
    double *nu, *lambdas, *g, *target, *sum, *scaling, *absorbed; /* [keys] */
    double *local;       /* [keys] column sums of this rank's rows */
    double *history;     /* or NULL */
    unsigned char *used; /* [keys] ota_key_use */
    double key_norm;     /* largest of the keys that came by, squared */
    ota_run *run;
    const ota_gradients *wanted; /* of backward: parameters among them, or NULL */
    ota_ring_unit unit;
    ota_status failed; /* a piece that could not be solved */
};

extern const ota_backend ota_ring_backend;

/* Why the plan's problem has no ring, as the end of a sentence; NULL: it has one. `runs_rounds`: plain rounds are its solver. */
const char *ota_ring_refuses(const ota_plan *plan, bool runs_rounds);
/* The device of a plan that has a ring, and the plans within, less what lies in the arena. */
ota_status ota_ring_create(ota_plan *plan, ota_ring_device **device, ota_error *error);
/* Is an entropy, support or largest weight of rows wanted? (statistics.c) */
bool ota_ring_wants_statistics(const ota_arrays *arrays);
/* Arrays of forward that a ring does not make. */
ota_status ota_ring_check(const ota_arrays *arrays, ota_error *error);
/* Bytes of the keys and values that the rank gives to the others in one message round of all heads. */
int64_t ota_ring_bytes(const ota_ring_device *ring);
/* How many message rounds a forward takes, in a few words. */
const char *ota_ring_message_rounds(const ota_ring_device *ring);

/* False: the communicator failed. */
bool ota_ring_go(ota_ring_device *ring, const ota_message_round *message_round);
/* The problem of a piece into the plan; `biased`: ring->bias is added to the scores. */
void ota_ring_place(ota_ring_device *ring, const ota_ring_piece *piece, bool biased,
                    ota_plan *plan);
/* The rank's own queries of the unit, and its blocks as arrays. */
ota_array ota_ring_rows(const ota_ring_device *ring, double *rows, int64_t width);
ota_array ota_ring_values(const ota_ring_device *ring);

/* rows.c: the queries of the unit at work in the type of the blocks. */
void ota_ring_widen_queries(const ota_ring_device *ring);
/* out and lse of a unit of rows, g per key or NULL; then what the caller wants of head `head` of the unit. */
bool ota_ring_attend(ota_ring_device *ring, const ota_ring_unit *unit, bool with_out);
void ota_ring_put(ota_ring_device *ring, int64_t head, ota_head_status *status);
void ota_ring_run_rows(ota_run *run);

/* rounds.c: rounds of coupled columns. A head of its own, on the device's vectors; then what the loop asks for. */
void ota_ring_load_head(ota_ring_device *ring, int64_t index, ota_head *head);
void ota_ring_begin_head(ota_run *run, int64_t index, int64_t place, bool narrow, bool keep_g,
                         ota_head *head);
void ota_ring_pack(ota_head *head);
void ota_ring_kernel_round(ota_head *head, bool form);
void ota_ring_allot(ota_head *head);
double ota_ring_kernel_floor(const ota_head *head);
bool ota_ring_kernel_emit(ota_head *head);
void ota_ring_gather(ota_head *head);

/* g of the piece into ring->bias. */
void ota_ring_bias(ota_ring_device *ring, const ota_ring_piece *piece);
/* P^T weights of this rank's rows into ring->local, once lse is known. */
bool ota_ring_sum(ota_ring_device *ring, bool notes_norms);

/* backward.c, tangents.c: refusals, the gradients of a rank's queries, keys and values, and what moves with theirs. */
ota_status ota_ring_check_gradients(const ota_plan *plan, const ota_gradients *want,
                                    ota_error *error);
ota_status ota_ring_check_tangents(const ota_plan *plan, const ota_tangents *tangents,
                                   ota_error *error);
ota_status ota_ring_jvp(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                        ota_result *found);
/* Gradients of a piece by `plan`, whose lse, values, outputs and upstream are given: those of queries into query_sums, those
 * of keys and of the first `values` of its values into the sums of the piece; values stay in piece_values. False: failed. */
bool ota_ring_reverse(ota_ring_device *ring, const ota_ring_piece *piece, ota_plan *plan,
                      const ota_arrays *arrays, const ota_array *upstream, int64_t values);
/* lse and outputs of the unit as forward wrote them, or found again at the g at hand; false: the communicator failed. */
bool ota_ring_find_rows(ota_ring_device *ring, const ota_arrays *arrays, bool solved);
/* Does this backward go pair by pair? */
bool ota_ring_goes_by_pairs(const ota_ring_device *ring);
/* One message round that gathers gradients: what came home is added to the totals of the key head. False: the communicator failed. */
bool ota_ring_go_home(ota_ring_device *ring, const ota_message_round *message_round);
ota_status ota_ring_backward(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                             ota_result *found);

#endif
