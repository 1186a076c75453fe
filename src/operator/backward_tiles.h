/* Backward of softmax as recomputing tiles, shared by backward_tiles.c and backward_tiles.inc.h.
 *
 * Queries and keys are cut into `cuts` pieces each, by shapes alone. Step t of a head works on the units
 * (keys w, queries (t + w) mod cuts), w = 0 ... cuts - 1: no two units of a step share a piece, so they run
 * side by side, and every sum is added in the same order whatever the threads. */
#ifndef OTA_BACKWARD_TILES_H
#define OTA_BACKWARD_TILES_H

#include "backward.h"

/* Pieces of queries are multiples of this: even shares of the work matter more than whole blocks of rows. */
enum { OTA_TILE_ROWS = 16 };
/* Blocks of rows, and tiles of keys, whose parts of a gradient are added in T before they join the sums in f64. */
enum { OTA_FOLD_BLOCKS = 16, OTA_FOLD_TILES = 8 };

/* One key head at work; T = the plan's type, whose packed keys and values lie in the plan's slot of the
 * same number. */
typedef struct ota_tile_seat {
    void *queries, *upstream;      /* [queries][width], [queries][values_width]: finite */
    void *keys, *packed_values;    /* [keys][width] finite, panels                      */
    void *shift, *advantage;       /* [queries]                                         */
    int64_t *begin, *end;          /* [queries]                                         */
    double *queries_sum;           /* [queries][width]                                  */
    double *keys_sum, *values_sum; /* [keys][width], [keys][values_width]            */
    /* Plans with `pairs`: left sides, and right sides in pairs of rows or keys; panels of values. */
    uint32_t *queries_left, *upstream_left, *queries_right, *upstream_right, *keys_right;
    uint32_t *value_panels;
    void *key_advantage; /* [keys]: coupled columns, whose keys, values and sums lie elsewhere */
} ota_tile_seat;

/* Scratch of one worker. */
typedef struct ota_tile_worker {
    void *scratch;                 /* OTA_GRADIENT_SCRATCH                           */
    void *queries_grad;            /* [rows of a piece][width]                       */
    void *keys_grad, *values_grad; /* [OTA_KEY_TILE][width], [..][values_width]      */
} ota_tile_worker;

struct ota_tile_space {
    int64_t cuts;
    ota_tile_seat *seats; /* one a worker */
    ota_tile_worker *workers;
};

/* Rows or keys [first, last) of a piece; whole blocks of `block`, dealt evenly, the first piece has the most. */
static inline void ota_tile_piece(int64_t count, int64_t cuts, int64_t block, int64_t piece,
                                  int64_t *first, int64_t *last) {
    const int64_t blocks = (count + block - 1) / block;
    const int64_t from = (piece * blocks + cuts - 1) / cuts * block;
    const int64_t to = ((piece + 1) * blocks + cuts - 1) / cuts * block;
    *first = from < count ? from : count;
    *last = to < count ? to : count;
}

#endif
