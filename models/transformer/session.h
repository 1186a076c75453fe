/* models/transformer/: Runs of a model: sessions, the loop over the layers, attention by plans of otattn.h, linear
 * layers, the KV cache, captures, early exits. It may call the public headers, src/base/, models/checkpoint/ and
 * models/kernels/. Then read forward.c.
 *
 * One use of a model: buffers, plans, cache. Token t of sequence b is row b * count + t of every buffer. */
#ifndef OTATTN_MODELS_SESSION_H
#define OTATTN_MODELS_SESSION_H

#include "base/base.h"
#include "blas.h"
#include "models/checkpoint/model.h"
#include "models/kernels/ops.h"

enum { OTA_METHODS_MOST = 1 << 15, OTA_PANEL_ROWS = 128 };

typedef struct ota_method {
    ota_problem problem; /* method, temperature */
    ota_options options;
    char *text; /* what it was made from; NULL for the first, plain softmax */
} ota_method;

/* A plan and what its problem borrows. */
typedef struct ota_plan_slot {
    int method;
    bool one_head, decoding, padded;
    int64_t layer; /* ANY_LAYER or LOCAL_LAYER of attention.c, else the one */
    ota_plan *plan;
    ota_support supports[4];
    ota_term terms[4];
} ota_plan_slot;

/* The points of a run at which arrays may be captured and edited; those of blocks come between. What a norm gives follows what it
 * divides by. */
typedef enum ota_point {
    OTA_POINT_EMBED,
    OTA_POINT_POSITION,
    OTA_POINT_TYPE,
    OTA_POINT_FULL_EMBED,
    OTA_POINT_RESID_PRE,
    OTA_POINT_SCALE_1,
    OTA_POINT_NORMALIZED_1,
    OTA_POINT_SCALE_QUERY_LATENT,
    OTA_POINT_QUERY_LATENT,
    OTA_POINT_SCALE_KEY_LATENT,
    OTA_POINT_KEY_LATENT,
    OTA_POINT_QUERY,
    OTA_POINT_KEY,
    OTA_POINT_VALUE,
    OTA_POINT_SCALE_QUERY,
    OTA_POINT_NORMALIZED_QUERY,
    OTA_POINT_SCALE_KEY,
    OTA_POINT_NORMALIZED_KEY,
    OTA_POINT_ROTATED_QUERY,
    OTA_POINT_ROTATED_KEY,
    OTA_POINT_SCORES,
    OTA_POINT_PATTERN,
    OTA_POINT_RECEIVER,
    OTA_POINT_MIXED,
    OTA_POINT_RESULT,
    OTA_POINT_SCALE_1_BEHIND,
    OTA_POINT_NORMALIZED_1_BEHIND,
    OTA_POINT_ATTENTION_OUT,
    OTA_POINT_RESID_MID,
    OTA_POINT_SCALE_MID,
    OTA_POINT_NORMALIZED_MID,
    OTA_POINT_SCALE_2,
    OTA_POINT_NORMALIZED_2,
    OTA_POINT_ROUTER,
    OTA_POINT_EXPERT_WEIGHTS,
    OTA_POINT_EXPERT_INDICES,
    OTA_POINT_CHOSEN_WEIGHTS,
    OTA_POINT_EXPERT_PRE,
    OTA_POINT_EXPERT_LINEAR,
    OTA_POINT_EXPERT_POST,
    OTA_POINT_EXPERT_OUT,
    OTA_POINT_SHARED_PRE,
    OTA_POINT_SHARED_LINEAR,
    OTA_POINT_SHARED_POST,
    OTA_POINT_SHARED_OUT,
    OTA_POINT_MLP_PRE,
    OTA_POINT_MLP_LINEAR,
    OTA_POINT_MLP_POST,
    OTA_POINT_SCALE_2_BEHIND,
    OTA_POINT_NORMALIZED_2_BEHIND,
    OTA_POINT_MLP_OUT,
    OTA_POINT_RESID_POST,
    OTA_POINT_SCALE_POST,
    OTA_POINT_NORMALIZED_POST,
    OTA_POINT_FINAL_SCALE,
    OTA_POINT_FINAL,
    OTA_POINTS
} ota_point;

/* Tokens that stop before the last layer. */
typedef struct ota_exits {
    float *states, *logits; /* [batch * tokens, width] where tokens stopped, [rows, vocabulary] */
    int64_t *streak,
        *layers;     /* [batch * tokens] blocks in a row above the threshold, blocks used */
    int64_t running; /* tokens that have not stopped */
} ota_exits;

/* Numbers of the run's tokens [batch * tokens, ...], each an allocation of its own (session.c). */
typedef struct ota_session_buffers {
    float *residual;             /* the residual stream */
    float *branch;               /* what goes into or comes out of an attention or MLP */
    float *beside;               /* what goes into the MLP of a parallel block */
    float *merged, *mixed;       /* queries, keys and values; what attention makes of them */
    float *latent, *expanded;    /* of latent attention (latent.c) */
    float *inner, *gate, *spare; /* of an MLP */
    float *panels;               /* [threads][panel] decoded rows of weights */
    int64_t panel;               /* floats of one */
    float *zeros;                /* [width] the biases of norms without any */
    float *pieces;               /* [tokens, piece] of one image */
    float *head; /* what goes into a head behind the last norm, where there is more than one step */
    float *receiver;        /* [batch, heads, keys], made when first captured */
    size_t receiver_floats; /* room there */
} ota_session_buffers;

/* Weights and scores of attention (weights.c), made when first captured or edited. */
typedef struct ota_weight_buffers {
    float *whole;          /* [batch, heads, count, keys] of an array that is handed over whole */
    float *scores, *block; /* [rows, keys] of one head */
    double *potential;     /* [batch, heads, keys] of the columns */
    double *columns; /* [keys] of one head: potentials, or what rows in order leave of a key */
    double *sums;    /* [keys] of one head: what its keys receive */
    size_t whole_floats, scores_floats, block_floats;
    size_t potential_doubles, columns_doubles, sums_doubles;
    bool asks_whole, asks_potential; /* of the layer at hand */
} ota_weight_buffers;

/* An edit of the run, and where it stands in the table of points; layer -1: all. */
typedef struct ota_bound_edit {
    ota_edit edit;
    ota_point point;
    int64_t layer;
} ota_bound_edit;

typedef struct ota_edit_set {
    ota_bound_edit *items;
    int64_t count, room;
} ota_edit_set;

/* Of rotary positions: [positions, rotary width / 2], table after table (ota_rope_table). */
typedef struct ota_rotations {
    float *cosines, *sines;
    int64_t positions;
    int64_t first, end; /* dynamic: of whose text's tokens the other table is; end 0: of none */
} ota_rotations;

/* A linear layer to be run (linear.c). */
typedef struct ota_product {
    const ota_weight *weight, *bias; /* bias NULL: none */
    const float *x;
    float *y;
    int64_t x_stride, y_stride, n;
    int64_t task; /* its first; filled in by ota_linears */
} ota_product;

/* Rows of a mixture (mixture.c): parts of one allocation of floats and one of numbers. A slot is one of the experts that a row of the
 * pass at hand chose. */
typedef struct ota_mixture {
    float *floats;
    float *router;       /* [rows, experts]: logits, then weights of all */
    float *taken;        /* [rows, chosen] weights */
    float *weights;      /* [rows] of the MLP that all rows have */
    float *ranked;       /* [threads, experts] by which a row's experts are chosen */
    float *shared, *sum; /* [rows, width] */
    float *slot_floats;  /* room for slots, of which these are parts: */
    float *gathered;     /* [slots, width], what goes into experts and what comes out */
    float *inner, *up;   /* [slots, inner] */
    float *merged;       /* [slots, 2 inner] where gate and up come in turn */
    float *aside;        /* slots row by row, made when first captured or edited */
    size_t slot_room, aside_floats;
    int64_t *chosen;       /* [rows, chosen] */
    int64_t *slots, *rows; /* of a row's choice, the slot; of a slot, the row of the pass */
    int64_t *starts;       /* [experts + 1] first slots */
    ota_product *products; /* [2 experts] */
    bool is_merged;
} ota_mixture;

typedef struct ota_session_cache {
    float *keys, *values; /* [layers, batch, kv heads, cache, head width or value width] */
    double *remaining;    /* [layers, batch, heads, cache], where columns are online */
    double *before;       /* the same, of what a step found */
    size_t capacities;    /* entries of each */
    int64_t filled;       /* positions */
} ota_session_cache;

/* Which method every head runs (methods.c). */
typedef struct ota_method_set {
    ota_method *items;
    int count, room;
    uint16_t *assigned; /* [layers * heads] -> items */
    int64_t window[2];
    double sink;
    bool windowed, sinking;
} ota_method_set;

/* Plans made so far (attention.c), all for runs of `batch` times `tokens`. */
typedef struct ota_plan_set {
    ota_plan_slot *slots;
    int count, room;
    int64_t batch, tokens;
} ota_plan_set;

/* The run in progress. */
typedef struct ota_current_run {
    ota_model_run own;        /* as much of the caller's as this library knows */
    const ota_model_run *now; /* it, while one runs */
    unsigned char *points;    /* [layers * OTA_POINTS] of OTA_POINT_WANTED and _EDITED */
    int64_t *lengths;         /* [batch] */
    ota_exits exits;
    ota_edit_set edits;
    ota_error *error;
} ota_current_run;

enum { OTA_POINT_WANTED = 1, OTA_POINT_EDITED = 2 };

struct ota_session {
    const ota_model *model;
    ota_session_options options; /* no pointer of the caller's but cancel */
    ota_pool *pool;
    ota_executor executor;
    const ota_ops *ops;
    ota_blas blas;
    size_t bytes;
    ota_session_buffers buffers;
    ota_weight_buffers weights;
    ota_rotations rotations;
    float *slopes;     /* [heads] of ALiBi */
    float *key_slopes; /* [heads, most keys]: what Falcon adds to the scores of every key */
    float
        *relative; /* [heads, 2 tokens - 1] added to scores at distance i - j, from the least on */
    ota_mixture mixture;
    ota_session_cache cache;
    ota_method_set methods;
    ota_plan_set plans;
    ota_current_run run;
    char warning[256];
};

/* methods.c: options -> methods, assignment, warning */
ota_status ota_session_methods(ota_session *session, const ota_session_options *options,
                               ota_error *error);

/* Heads at `places` (NULL: all) get the method that the text spells. */
ota_status ota_session_set_method(ota_session *session, const ota_session_options *options,
                                  const char *method, const char *places, ota_error *error);
void ota_session_free_methods(ota_session *session);

/* methods_file.c: every method of a JSON file */
ota_status ota_session_methods_file(ota_session *session, const ota_session_options *options,
                                    const char *path, ota_error *error);

/* linear.c: y [n, out] = x [n, in] W^T + b; rows of x and y are `x_stride`, `y_stride` apart */
/* Several at once, whose blocks the threads share; each number is as by itself. */
void ota_linears(ota_session *session, ota_product *products, int64_t count);
void ota_linear(ota_session *session, const ota_weight *weight, const ota_weight *bias,
                const float *x, int64_t x_stride, int64_t n, float *y, int64_t y_stride);

/* session.c: the flag and the deadline. OTA_OK to go on; whoever was told to end is told so until the call returns. */
ota_status ota_session_interrupted(const ota_session *session);
/* `status`, or that the call was interrupted, for its loops then did nothing. */
ota_status ota_session_end(const ota_session *session, ota_status status, ota_error *error);
/* body(context, 0 ... count - 1) on the session's threads, left out once the call is interrupted. */
void ota_session_parallel(ota_session *session, int64_t count, void (*body)(void *, int64_t, int),
                          void *context);

/* A norm of vectors within rows; norms.c. */
typedef struct ota_norm {
    const ota_weight *weight; /* as many numbers as a vector has */
    const float *bias;        /* NULL: by the root mean square, else by the deviation */
    double epsilon;
    const float *from;
    float *to;                     /* may be `from` */
    int64_t rows, stride, vectors; /* rows lie `stride` apart in both; vectors of one */
} ota_norm;

/* norms.c: the model's own kind of norm, of rows as wide as the weight, which its bias follows */
ota_norm ota_session_norm_of(const ota_session *session, const ota_weight *weight,
                             const float *from, float *to, int64_t rows);
void ota_session_norm(ota_session *session, const ota_norm *norm);
/* With what it divides by passing through the point `scale`, and what it gives through the next one. */
ota_status ota_session_norm_at(ota_session *session, ota_point scale, int64_t layer,
                               const ota_norm *norm);
void ota_session_normalise(ota_session *session, const ota_weight *weight, const float *from,
                           float *to, int64_t rows);
/* forward.c: to += from, all [rows, width] */
void ota_session_add(ota_session *session, float *to, const float *from, int64_t rows,
                     int64_t width);
/* to = activation(to), times `factor` unless NULL; all [rows, width] */
void ota_session_activate(ota_session *session, ota_activation activation, const float *factor,
                          float *to, int64_t rows, int64_t width);

/* session.c: dynamic rotary positions of the run's tokens */
void ota_session_rotations(ota_session *session, int64_t first, int64_t end);

/* Heads of a layer that are solved together. */
typedef struct ota_view {
    int64_t layer, head; /* head -1: all */
    bool decoding;
} ota_view;

/* attention.c: buffers.mixed from buffers.merged */
ota_status ota_session_attend(ota_session *session, int64_t layer);
/* The plan of these heads by a method, pointed at the layer, and their values. */
ota_status ota_session_bind(ota_session *session, const ota_view *view, int method,
                            ota_plan_slot **slot, ota_array *values);
void ota_session_values(const ota_session *session, const ota_view *view, ota_array *values);
/* Has the head a sink? Its logit as a term of a problem of one head. */
bool ota_session_sink(const ota_session *session, int64_t layer, int64_t head, ota_term *sink);
/* OTA_OK, or what a call on these heads failed with, with the layer and head in its sentence. */
ota_status ota_session_verdict(ota_session *session, const ota_view *view, ota_status status);
void ota_session_free_plans(ota_session *session);

/* embedding.c: buffers.residual of the run's tokens */
ota_status ota_session_embed(ota_session *session);

/* latent.c: buffers.merged of the block's input, before positions */
ota_status ota_session_project_latent(ota_session *session, int64_t layer, const float *h,
                                      int64_t rows);

/* mixture.c: `input` [rows, width] -> out */
ota_status ota_session_mixture(ota_session *session, int64_t layer, const float *input,
                               int64_t rows, float *out);
ota_status ota_session_mixture_create(ota_session *session, ota_error *error);
void ota_session_free_mixture(ota_session *session);

/* cache.c */
ota_status ota_session_cache_create(ota_session *session, ota_error *error);
/* Appends the run's keys and values of the layer. */
void ota_session_cache_append(ota_session *session, int64_t layer);
/* Around a run: one that failed leaves what the cache held of the positions before it. */
void ota_session_cache_begin(ota_session *session);
void ota_session_cache_end(ota_session *session, ota_status status);

/* exits.c */
ota_status ota_session_exits_begin(ota_session *session);
/* Behind block `layer`: puts back tokens that stopped, stops those that may. */
ota_status ota_session_exits_stop(ota_session *session, int64_t layer);
void ota_session_free_exits(ota_session *session);

/* capture.c: the table of points, and what passes through it */
ota_status ota_session_capture_begin(ota_session *session);
bool ota_session_wants(const ota_session *session, ota_point point, int64_t layer);
bool ota_session_edits(const ota_session *session, ota_point point, int64_t layer);
/* Every array of a run passes here once: edited in place, then handed over where it is wanted. One row a token, `stride` floats
 * apart. */
ota_status ota_session_capture(ota_session *session, ota_point point, int64_t layer, float *data,
                               int64_t stride);
/* Hands over rows first_row ... of an array whose shape is that of the point but for sizes that are not 0 here. */
ota_status ota_session_hand_over(ota_session *session, ota_point point, int64_t layer,
                                 ota_capture *block);
void ota_session_name(ota_point point, int64_t layer, char *name, size_t size);
/* The sizes of a point in a run: sequences, tokens, heads (1 where it has none), columns. */
void ota_session_sizes(const ota_session *session, ota_point point, int64_t size[4]);
/* The point and layer (-1: all) that a name says; NULL, or why it may not be edited. */
bool ota_session_find_point(const ota_session *session, const char *name, ota_point *point,
                            int64_t *layer);
const char *ota_session_fixed(ota_point point);
/* Where dimension `k` of sequences, tokens, heads and columns lies in a point's shape of four; -1: it has none. */
int ota_session_axis(ota_point point, int k);

/* edits.c */
ota_status ota_session_edits_begin(ota_session *session);
void ota_session_free_edits(ota_session *session);
/* Part of an array of a point: element (sequence, token, head, column) of the run is data[sum (index - first) stride]. */
typedef struct ota_part {
    int64_t first[4], size[4], stride[4];
    float *data;
} ota_part;
void ota_session_edit(ota_session *session, ota_point point, int64_t layer, const ota_part *part);

/* weights.c: what attention makes of merged, with weights and scores where the run captures or edits them */
ota_status ota_session_weights(ota_session *session, int64_t layer);
/* What every head adds to the stream: its z by its part of the output's weights. */
ota_status ota_session_capture_result(ota_session *session, int64_t layer);
/* buffers.branch = their sum, as an edit left them, and the bias */
void ota_session_add_results(ota_session *session, int64_t layer);
void ota_session_free_weights(ota_session *session);
/* Room for floats [rows, columns] in `buffer`, whose content is lost where it grows. */
ota_status ota_session_reserve(ota_session *session, float **buffer, size_t *have, int64_t rows,
                               int64_t columns);
/* What the plan of these heads is to give besides z. */
void ota_session_ask(const ota_session *session, const ota_view *view, ota_arrays *arrays);

#endif
