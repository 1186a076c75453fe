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
    ota_term sink;
} ota_plan_slot;

/* The points of a run at which arrays may be captured; those of blocks come between. */
typedef enum ota_point {
    OTA_POINT_EMBED,
    OTA_POINT_POSITION,
    OTA_POINT_TYPE,
    OTA_POINT_FULL_EMBED,
    OTA_POINT_RESID_PRE,
    OTA_POINT_NORMALIZED_1,
    OTA_POINT_QUERY,
    OTA_POINT_KEY,
    OTA_POINT_VALUE,
    OTA_POINT_ROTATED_QUERY,
    OTA_POINT_ROTATED_KEY,
    OTA_POINT_PATTERN,
    OTA_POINT_MIXED,
    OTA_POINT_ATTENTION_OUT,
    OTA_POINT_RESID_MID,
    OTA_POINT_NORMALIZED_MID,
    OTA_POINT_NORMALIZED_2,
    OTA_POINT_MLP_PRE,
    OTA_POINT_MLP_LINEAR,
    OTA_POINT_MLP_POST,
    OTA_POINT_MLP_OUT,
    OTA_POINT_RESID_POST,
    OTA_POINT_NORMALIZED_POST,
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
    float *merged, *mixed;       /* queries, keys and values; what attention makes of them */
    float *inner, *gate, *spare; /* of an MLP */
    float *panels;               /* [threads][panel] decoded rows of weights */
    int64_t panel;               /* floats of one */
    float *pattern;              /* [batch, heads, count, keys], made when first captured */
    size_t pattern_floats;       /* room there */
} ota_session_buffers;

/* Of rotary positions: [positions, head width / 2], then those of local layers. */
typedef struct ota_rotations {
    float *cosines, *sines;
    int64_t positions;
} ota_rotations;

typedef struct ota_session_cache {
    float *keys, *values; /* [layers, batch, kv heads, cache, head width] */
    double *remaining;    /* [layers, batch, heads, cache], where columns are online */
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
    bool *wanted;             /* [layers * OTA_POINTS] */
    int64_t *lengths;         /* [batch] */
    ota_exits exits;
    ota_error *error;
} ota_current_run;

struct ota_session {
    const ota_model *model;
    ota_session_options options; /* no pointer of the caller's but cancel */
    ota_pool *pool;
    ota_executor executor;
    const ota_ops *ops;
    ota_blas blas;
    size_t bytes;
    ota_session_buffers buffers;
    ota_rotations rotations;
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
void ota_linear(ota_session *session, const ota_weight *weight, const ota_weight *bias,
                const float *x, int64_t x_stride, int64_t n, float *y, int64_t y_stride);

/* session.c: the flag and the deadline. OTA_OK to go on; whoever was told to end is told so until the call returns. */
ota_status ota_session_interrupted(const ota_session *session);
/* `status`, or that the call was interrupted, for its loops then did nothing. */
ota_status ota_session_end(const ota_session *session, ota_status status, ota_error *error);
/* body(context, 0 ... count - 1) on the session's threads, left out once the call is interrupted. */
void ota_session_parallel(ota_session *session, int64_t count, void (*body)(void *, int64_t, int),
                          void *context);

/* forward.c: a norm and its bias that follows it, row by row, on the session's threads; `to` may be `from` */
void ota_session_normalise(ota_session *session, const ota_weight *weight, const float *from,
                           float *to, int64_t rows);
/* to = activation(to), times `factor` unless NULL; all [rows, width] */
void ota_session_activate(ota_session *session, const float *factor, float *to, int64_t rows,
                          int64_t width);

/* attention.c: buffers.mixed from buffers.merged */
ota_status ota_session_attend(ota_session *session, int64_t layer);
void ota_session_free_plans(ota_session *session);

/* cache.c */
ota_status ota_session_cache_create(ota_session *session, ota_error *error);
/* Appends the run's keys and values of the layer. */
void ota_session_cache_append(ota_session *session, int64_t layer);

/* exits.c */
ota_status ota_session_exits_begin(ota_session *session);
/* Behind block `layer`: puts back tokens that stopped, stops those that may. */
ota_status ota_session_exits_stop(ota_session *session, int64_t layer);
void ota_session_free_exits(ota_session *session);

/* capture.c */
ota_status ota_session_capture_begin(ota_session *session);
bool ota_session_wants(const ota_session *session, ota_point point, int64_t layer);
/* One row a token, `stride` floats apart; does nothing when the point is not wanted. */
ota_status ota_session_capture(ota_session *session, ota_point point, int64_t layer,
                               const float *data, int64_t stride);
ota_status ota_session_capture_pattern(ota_session *session, int64_t layer, int64_t keys);

#endif
