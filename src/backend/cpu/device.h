/* device.h: the memory and the choices of the CPU backend for one plan: which strategy walks the problem, in which type
 * T, with which kernels, and everything it works in. Chosen and laid out in device.c, used by the strategies.
 *
 * This folder: the backend for CPUs. Its row is in cpu_backend.c; passes of forward (forward/) and backward
 * (gradient/), kernels (kernels/), rows (rows/), packing. May call: what a backend may; nobody outside includes its
 * headers but tests. */
#ifndef OTA_CPU_DEVICE_H
#define OTA_CPU_DEVICE_H

#include "backend/backend.h"
#include "base/exp2.h"
#include "base/extrapolation.h"
#include "head_masks.h"
#include "kernels/kernels.h"
#include "pack.h"
#include "rows/rows.h"

typedef struct ota_device ota_cpu_device;

/* How this backend walks the problem. What holds for several of them is asked by ota_device_is_... below. */
typedef enum ota_cpu_strategy {
    OTA_STRATEGY_FUSED, /* softmax on free columns from queries and keys: tiles, nothing n x m */
    OTA_STRATEGY_FUSED_PAIRS, /* the same; heads of bf16 are multiplied as bf16 where their numbers allow it */
    OTA_STRATEGY_CACHE,  /* the same for few queries: keys and values read where they lie */
    OTA_STRATEGY_BLOCKS, /* rows alone, a block of whole score rows per worker */
    OTA_STRATEGY_BLOCKS_IN_PLACE,  /* the same for few queries: nothing is packed */
    OTA_STRATEGY_ORDERED,          /* rows in order, one worker per head (online) */
    OTA_STRATEGY_ORDERED_IN_PLACE, /* the same for few queries: nothing is packed */
    OTA_STRATEGY_DENSE,   /* all scores of a head kept (coupled columns, transposed problem) */
    OTA_STRATEGY_ROUNDS,  /* rounds on exp(scores) of a head, the last with the output */
    OTA_STRATEGY_LANES,   /* the same for small heads: as many at once as vectors have lanes */
    OTA_STRATEGY_STREAMED /* the same, forming exp(scores) anew each round: nothing n x m is kept */
} ota_cpu_strategy;

enum {
    OTA_BLOCK_ROWS = 16, /* rows of a block of whole score rows */
    OTA_FEW_QUERIES = 4, /* most queries that read keys and values in place */
    OTA_CHUNKS = 32      /* row chunks per head whose receiver sums are added in order */
};

/* Packed keys and values of one key head; as many as the plan works on at a time. T = plan's type. */
typedef struct ota_packed_kv {
    void *packed_keys;
    const void *
        values; /* [keys][values_width]: where they lie or, of another layout or type or not all finite, the room */
    void *value_room;
    int64_t *nonfinite_keys; /* keys whose values hold NaN or inf; their values in the room are 0 */
    int64_t nonfinite_count;
    uint32_t *key_pairs, *value_pairs; /* of FUSED_PAIRS */
    bool paired; /* the head at work is multiplied as bf16: found by its numbers, not by the plan */
} ota_packed_kv;

/* Scratch of one worker. */
typedef struct ota_worker {
    void *queries; /* [OTA_ROW_BLOCK][width] */
    void *scores;  /* [OTA_BLOCK_ROWS][stride] */
    void *out;     /* [OTA_ROW_BLOCK][values_width] */
    void *attend;
    void *mass, *top, *sum; /* [OTA_ROW_BLOCK] */
    void *block;            /* [OTA_ROW_BLOCK][dense_stride], streamed rounds */
    double *row;            /* [keys], online */
    double *room;           /* [keys], online: capacity left */
    ota_row_room keys;      /* entmax rows as lists */
    void *strip;            /* [OTA_PANEL][width or values_width], keys and values in place */
    ota_head_masks masks;   /* of the head at work, of softmax rows */
} ota_worker;

/* What one chunk of rows tells of the floor of the arithmetic: range of its scores (of those that are
 * not raw products) and the largest |q|^2. */
typedef struct ota_score_range {
    double low, high, norm;
    int64_t least; /* keys that a row with mass may use, where they are fewest */
} ota_score_range;

/* A group of small heads, one a lane; sizes are those of the block of kernels.h, T or f64. */
typedef struct ota_lanes {
    void *matrix, *mass, *target, *shift, *sum, *scaling, *next, *c, *total, *slack, *taken;
    double *wanted, *row_sums, *column_sums; /* `wanted` [columns]: the targets */
    void *heads; /* [lanes][pairs rounded up to 16]: as they come and go */
} ota_lanes;

/* One run on this backend. */
typedef struct cpu_run {
    ota_run *run;
    ota_cpu_device *device;
    const ota_arrays *arrays;
    int64_t first_key_head; /* key head of packed 0 in this wave */
    int64_t packed_heads;
} cpu_run;

/* A coupled head at work, ota_head.place. */
typedef struct ota_head_place {
    cpu_run run;
    struct ota_head_workspace *workspace;
    ota_packed_kv *packed;
    ota_head *head;
    int64_t batch, number, index; /* of the head; index of the workspace */
    /* rounds on a kernel */
    double unit;       /* log2(e) / tau */
    double c;          /* what scores, or raw products, are multiplied by; a number of the type */
    bool raw;          /* q.k is exponentiated as it is, the scale folded into c */
    _Atomic bool lost; /* not finite, or a row without the sum its kernel promises */
    _Atomic bool infeasible; /* an empty row with mass */
    _Atomic bool nonfinite;  /* NaN or an infinite score */
} ota_head_place;

/* All scores of one head being solved. */
typedef struct ota_head_workspace {
    void *scores;  /* [dense_rows][dense_stride], of the ladder (ota_device_score) */
    double *plan;  /* the same, f64, or NULL */
    void *line;    /* [dense_stride] T: one dense row of a transposed plan, or NULL */
    void *weights; /* [queries][stride] T: transposed plan, or NULL */
    double *f, *g, *mu, *nu, *lambdas;
    void *bias;          /* [dense_stride] T: g, or v of rounds on a kernel */
    void *solver_memory; /* the solver's */
    /* rounds on a kernel (forward/stored_kernel.c), whose a lies in `line` */
    double *u, *shift, *sinks;                  /* [dense_rows] */
    double *target, *sums, *scaling, *absorbed; /* [dense_stride] */
    double *parts;                              /* [OTA_CHUNKS][dense_stride] */
    ota_score_range *score_ranges;              /* [OTA_CHUNKS] */
    double *history;                            /* of extrapolation.h, and g before a step */
    void *tops;                                 /* [OTA_CHUNKS][dense_stride] T */
    unsigned char *used;                        /* [dense_stride] ota_key_use */
    ota_far far;                                /* vectors; NULL where scores are not stored */
    ota_lanes lanes;
    ota_head_place place;
} ota_head_workspace;

struct ota_device {
    const ota_resolved *resolved; /* the plan's */
    const ota_kernels *kernels;
    ota_pool *pool; /* the plan's */
    ota_cpu_strategy strategy;
    ota_ladder ladder; /* ends in f64: T = double and memory for it; else float */
    bool transposed;   /* rows are keys, columns queries: true of no strategy but DENSE */
    int64_t values_width;
    int64_t group;  /* query heads per key head */
    int64_t stride; /* keys rounded up to 16 */
    int64_t dense_rows, dense_columns, dense_stride;
    int64_t packed_count, workspace_count;
    int worker_count;
    ota_packed_kv *packed_heads;
    ota_worker *workers;
    ota_head_workspace *workspaces;
    double *receivers; /* [packed_count * group][OTA_CHUNKS][keys] */
    /* decode: one entry a query of the heads in flight and a piece of the keys */
    double *piece_top, *piece_sum;
    void *piece_out;                 /* [entries][values_width] T */
    ota_head_status *chunk_statuses; /* [packed_count * group][OTA_CHUNKS] */
    int64_t key_count;               /* keys that exist: all, or a decode step's */
    const char *why;                 /* why this strategy */
    ota_layout layout;
    ota_arena *arena; /* while it is laid out */
    ota_host_algebra algebra;
};

extern const ota_backend ota_cpu_backend;

/* device.c */
/* The algebra of a level of instructions. */
ota_host_algebra ota_cpu_algebra(const ota_kernels *kernels);
ota_status ota_cpu_create(const ota_layout *layout, ota_cpu_device **device, ota_error *error);
void ota_cpu_lay_out(ota_cpu_device *device, ota_arena *arena);
/* Room for the masks of a head; real: bytes of T. */
void ota_take_head_masks(ota_arena *a, const ota_resolved *r, size_t real, ota_head_masks *masks);
bool ota_cpu_shrink(ota_cpu_device *device, int step);
ota_strategy ota_cpu_strategy_of(const ota_cpu_device *device);
void ota_cpu_set_key_count(ota_cpu_device *device, int64_t key_count);
void ota_cpu_close(ota_cpu_device *device);

/* Keys of one of at most OTA_CHUNKS pieces. */
static inline int64_t ota_piece_keys(int64_t keys) {
    const int64_t least = 512, share = ota_int_ceil_div(keys, OTA_CHUNKS);
    return share <= least ? least : ota_int_round_up(share, OTA_PANEL);
}

/* How many pieces that makes of the keys that exist. */
static inline int64_t ota_pieces(int64_t keys) {
    return ota_int_ceil_div(keys, ota_piece_keys(keys));
}

/* Do rounds run on exp(scores)? */
static inline bool ota_device_is_on_kernel(const ota_cpu_device *device) {
    return device->strategy == OTA_STRATEGY_ROUNDS || device->strategy == OTA_STRATEGY_LANES ||
           device->strategy == OTA_STRATEGY_STREAMED;
}

/* Are rows solved as lists of keys? */
bool ota_device_keeps_lists(const ota_cpu_device *device);
/* Do heads work in workspaces, on a matrix of queries x keys? */
static inline bool ota_device_is_coupled(const ota_cpu_device *device) {
    return device->strategy == OTA_STRATEGY_DENSE || ota_device_is_on_kernel(device);
}

static inline bool ota_device_is_fused(const ota_cpu_device *device) {
    return device->strategy == OTA_STRATEGY_FUSED || device->strategy == OTA_STRATEGY_FUSED_PAIRS;
}

static inline bool ota_device_is_in_blocks(const ota_cpu_device *device) {
    return device->strategy == OTA_STRATEGY_BLOCKS ||
           device->strategy == OTA_STRATEGY_BLOCKS_IN_PLACE;
}

static inline bool ota_device_is_ordered(const ota_cpu_device *device) {
    return device->strategy == OTA_STRATEGY_ORDERED ||
           device->strategy == OTA_STRATEGY_ORDERED_IN_PLACE;
}

/* Are whole rows formed from keys and values where they lie, so that nothing is packed? */
static inline bool ota_device_is_in_place(const ota_cpu_device *device) {
    return device->strategy == OTA_STRATEGY_BLOCKS_IN_PLACE ||
           device->strategy == OTA_STRATEGY_ORDERED_IN_PLACE;
}

/* Is T double? */
static inline bool ota_device_is_wide(const ota_cpu_device *device) {
    return ota_ladder_ends_f64(device->ladder);
}

/* Bytes of T. */
static inline size_t ota_device_real(const ota_cpu_device *device) {
    return ota_device_is_wide(device) ? sizeof(double) : sizeof(float);
}

/* Bytes of a stored score. */
static inline size_t ota_device_score(const ota_cpu_device *device) {
    return device->ladder == OTA_LADDER_F64_ON_F32 ? sizeof(float) : ota_device_real(device);
}

#endif
