/* shards.h: a problem of which every process holds some rows. A rank's resolved problem has its own queries and the keys of
 * all ranks, which lie in memory of the shards and are gathered before they are read.
 *
 *     open       memory for messages, which no rank has without the others
 *     meet       the ranks compare what they were given: one outcome on all (shards_check.c)
 *     resolve    by itself, memory included; then agree
 *     gather     an array of keys or values, head by head */
#ifndef OTA_SHARDS_H
#define OTA_SHARDS_H

#include "problem/problem.h"
#include "problem/ranks.h"

typedef struct ota_shards {
    ota_ranks ranks;
    bool from_matrix;     /* scores are given: keys and values are whole */
    bool in_ring;         /* keys and values come by message rounds, and are nowhere together */
    int64_t key_share;    /* keys of this rank */
    int64_t *key_shares;  /* [2][ranks] keys of every rank, and of these in its first piece */
    int64_t *counts;      /* [ranks] bytes, of one gather; room for as much as key_shares */
    int64_t *offsets;     /* [ranks] */
    int64_t *facts;       /* ota_shards_facts_bytes */
    ota_array keys;       /* this rank's */
    ota_array values;     /* this rank's, of the call at hand */
    ota_array all_keys;   /* [batch, key heads, keys, width]; in a ring one element for all */
    ota_array all_values; /* [batch, key heads, keys, values width], room for f64 */
    ota_array key_grads, value_grads; /* of all_keys and all_values, where gradients are wanted */
    double *piece;                    /* [OTA_RANKS_ROOM] */
    void *dense;         /* one head of this rank's keys or values, as messages want it */
    double *line;        /* [keys] */
    double *statistics;  /* [heads][OTA_SHARDS_STATISTICS] */
    size_t bytes;        /* of all of this, */
    size_t message_room; /* and of what messages need */
    int64_t messages, message_bytes; /* before the call at hand */
} ota_shards;

enum { OTA_SHARDS_STATISTICS = 4 };

typedef struct ota_shard_sizes {
    int64_t queries, keys; /* of this rank */
    int64_t all_keys;      /* of all ranks */
    ota_share rows;
} ota_shard_sizes;

/* What the options hold, or NULL; older headers have none. */
static inline const ota_communicator *ota_communicator_of(const ota_options *options) {
    const size_t needed = offsetof(ota_options, communicator) + sizeof options->communicator;
    return options != NULL && options->size >= needed ? options->communicator : NULL;
}

/* One outcome on all ranks whose communicator has its calls; `begun` is what the rank has found out before. */
ota_status ota_shards_open(ota_shards **shards, const ota_communicator *to, ota_status begun,
                           ota_error *error);
void ota_shards_free(ota_shards *shards);
/* What `resolve` took; for another one. */
void ota_shards_release(ota_shards *shards);

/* `full`: a full-size copy of `problem`. The same outcome on all ranks. */
ota_status ota_shards_meet(ota_shards *shards, const ota_problem *problem,
                           const ota_options *options, int64_t values_width, ota_problem *full,
                           ota_shard_sizes *sizes, ota_error *error);
/* The rank's problem with the keys of all, settings.ranks set. */
ota_status ota_shards_resolve(ota_shards *shards, const ota_problem *full,
                              const ota_options *options, int64_t values_width,
                              const ota_shard_sizes *sizes, ota_resolved *resolved,
                              ota_error *error);
/* One array of all ranks' shares; a piece of every rank a message. False: the communicator failed. */
bool ota_shards_gather(ota_shards *shards, const ota_array *mine, const ota_array *all,
                       const char *step);
/* Where the rows of a rank lie among all, of `shares` like key_shares: [first, first + count); `second`: the second piece of
 * zigzag shares. */
void ota_shards_piece(const ota_shards *shards, const int64_t *shares, int rank, bool second,
                      int64_t *first, int64_t *count);

/* Parts of the above. */
ota_status ota_shards_read(const ota_problem *problem, const ota_options *options,
                           ota_problem *full, ota_options *settings, ota_error *error);
size_t ota_shards_facts_bytes(int ranks);
ota_status ota_shards_compare(ota_shards *shards, const ota_problem *problem,
                              const ota_options *options, int64_t values_width, ota_status status,
                              ota_shard_sizes *sizes, ota_error *error);
void ota_shards_widen_problem(ota_shards *shards, ota_problem *problem);
void ota_shards_resolve_corner(ota_problem *problem, const ota_shard_sizes *sizes);

#endif
