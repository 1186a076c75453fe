/* Backward of softmax in tiles that are recomputed, shared by tiles.c and tile_gradient.c.
 *
 * Queries and keys are cut into `cuts` pieces each, by shapes alone. Step t of a head works on the units
 * (keys w, queries (t + w) mod cuts), w = 0 ... cuts - 1: no two units of a step share a piece, so they run
 * side by side, and every sum is added in the same order whatever the threads. */
#ifndef OTA_CPU_TILES_H
#define OTA_CPU_TILES_H

#include "cpu_gradient.h"

/* Pieces of queries are multiples of this: even shares of the work matter more than whole blocks of rows. */
enum { OTA_TILE_ROWS = 16 };
/* Blocks of rows, and tiles of keys, whose parts of a gradient are added in T before they join the sums in f64. A
 * gradient of no more parts than that has no other sum. */
enum { OTA_FOLD_BLOCKS = 16, OTA_FOLD_TILES = 8 };

/* What was added in T of the gradients of a tile of keys, or of a piece of queries. */
typedef struct ota_tile_part {
    int64_t count; /* blocks of rows, or tiles of keys, since it was last folded */
    bool folded;   /* the sums in f64 have some of it */
} ota_tile_part;

/* One key head at work; T = the plan's type, whose packed keys and values lie in the device's packed of the
 * same number. */
typedef struct ota_tile_workspace {
    void *queries, *upstream;      /* [queries][width], [queries][values_width]: finite */
    void *keys, *packed_values;    /* [keys][width] finite, panels                      */
    void *shift, *advantage;       /* [queries]                                         */
    int64_t *begin, *end;          /* [queries]                                         */
    double *queries_sum;           /* [queries][width]                                  */
    double *keys_sum, *values_sum; /* [keys][width], [keys][values_width]            */
    void *queries_part;            /* T, what the sums do not have yet, of the same shapes */
    void *keys_part, *values_part;
    ota_tile_part *query_pieces, *key_tiles; /* [cuts], [tiles of keys] */
    /* Plans with `pairs`: left sides, and right sides in pairs of rows or keys; panels of values. */
    uint32_t *queries_left, *upstream_left, *queries_right, *upstream_right, *keys_right;
    uint32_t *value_panels;
    ota_head_masks masks; /* of the head at work */
    void *key_advantage;  /* [keys]: coupled columns, whose keys, values and sums lie elsewhere */
} ota_tile_workspace;

/* Scratch of one worker. */
typedef struct ota_tile_worker {
    void *scratch; /* OTA_GRADIENT_SCRATCH */
} ota_tile_worker;

struct ota_tile_space {
    int64_t cuts;
    ota_tile_workspace *workspaces; /* one a worker */
    ota_tile_worker *workers;
};

/* Rows or keys [first, last) of a piece; whole blocks of `block`, dealt evenly, the first piece has the most. */
static inline void ota_tile_piece(int64_t count, int64_t cuts, int64_t block, int64_t piece,
                                  int64_t *first, int64_t *last) {
    const int64_t blocks = ota_int_ceil_div(count, block);
    const int64_t from = ota_int_ceil_div(piece * blocks, cuts) * block;
    const int64_t to = ota_int_ceil_div((piece + 1) * blocks, cuts) * block;
    *first = ota_int_min(from, count);
    *last = ota_int_min(to, count);
}

typedef struct tile_run {
    ota_backward_job *job;
    ota_cpu_device *device;
    const ota_arrays *arrays;
    const ota_gradients *want;
    struct ota_tile_space *space;
    bool given; /* out and lse are forward's */
    bool pairs; /* every array is bf16 and rows have mass 1: heads may be multiplied as bf16 */
} tile_run;

/* One head of a run. */
typedef struct tile_head {
    tile_run *run;
    ota_tile_workspace *workspace;
    ota_packed_kv *packed;
    int64_t batch, key_head, head;
    int64_t step;
    bool paired; /* this head is */
    bool wide;   /* T = double */
    bool alone;  /* no other head has a part in the gradients of its keys, which are put */
    double tau, sink, rate;      /* rate = scale / tau */
    const ota_backward_job *job; /* coupled columns: their potentials and multipliers; else NULL */
    /* T [rows][width], finite: the caller's where they can be read as they lie, else the workspace's */
    const void *queries, *upstream, *keys;
} tile_head;

typedef struct tile_terms {
    const ota_cpu_device *device;
    int64_t batch, head, first;
    ota_term_set left;
} tile_terms;

typedef struct ota_tile_tasks {
    ota_gradient_task *pack, *rows, *coupled_rows, *unit, *finish_queries, *finish_keys;
    void (*place_keys)(tile_head *h), (*place_rows)(tile_head *h);
} ota_tile_tasks;

extern const ota_tile_tasks ota_tile_tasks_f32, ota_tile_tasks_f64;

/* Pairs of bf16: keys or values of the key head; a block of rows, `first` even; the gradient of one, whose block is of
 * f32, the only type whose heads are paired. */
void ota_tile_pack_pairs(const tile_head *h, int64_t half);
void ota_tile_pack_pair_rows(const tile_head *h, int64_t first, int64_t rows);
void ota_tile_gradient_of_pairs(const tile_head *h, const void *block, int64_t at);

#endif
