/* What a process of many holds of a problem (shards.h): its own share, the keys of all, and the memory of their messages. */
#include "validation/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "problem/check.h"
#include "validation/validation.h"

/* ---- memory ------------------------------------------------------------------------------------- */

static void *take(ota_shards *shards, int64_t count, size_t size, bool *all) {
    size_t bytes;
    if (count < 0 || !ota_size_mul((size_t)count, size, &bytes)) bytes = SIZE_MAX / 4;
    void *memory = malloc(ota_size_round_up(bytes + 1, OTA_ALIGNMENT));
    *all = *all && memory != NULL;
    shards->bytes += bytes;
    return memory;
}

/* [batch, key heads, keys, width], dense; no elements where a size overflows, which the checks refuse. */
static ota_array take_array(ota_shards *shards, ota_type type, const int64_t size[4], bool *all) {
    size_t count;
    if (!ota_size_product(size, 4, &count)) count = SIZE_MAX / 64;
    void *data = take(shards, (int64_t)count, ota_type_bytes(type), all);
    return ota_array_of(data, type, size[0], size[1], size[2], size[3]);
}

static void release(void *memory[], size_t count) {
    for (size_t k = 0; k < count; k++) free(memory[k]);
}

void ota_shards_release(ota_shards *shards) {
    void *memory[] = {shards->in_ring ? NULL : shards->all_keys.data,
                      shards->in_ring ? NULL : shards->all_values.data,
                      shards->dense,
                      shards->line,
                      shards->statistics,
                      shards->key_grads.data,
                      shards->value_grads.data};
    release(memory, sizeof memory / sizeof memory[0]);
    shards->all_keys = shards->all_values = (ota_array){0};
    shards->key_grads = shards->value_grads = (ota_array){0};
    shards->dense = NULL;
    shards->line = shards->statistics = NULL;
    shards->bytes = shards->message_room;
}

void ota_shards_free(ota_shards *shards) {
    if (shards == NULL) return;
    ota_shards_release(shards);
    void *memory[] = {shards->ranks.room, shards->key_shares, shards->counts,
                      shards->offsets,    shards->facts,      shards->piece};
    release(memory, sizeof memory / sizeof memory[0]);
    free(shards);
}

static ota_status check_communicator(const ota_communicator *to, ota_error *error) {
    if ((int)to->shares < 0 || to->shares > OTA_SHARES_ZIGZAG)
        return ota_fail(error, OTA_EINVAL, "communicator", "use one of the OTA_SHARES_ orders",
                        "communicator.shares is %d", (int)to->shares);
    if (to->first_pieces != NULL && to->shares != OTA_SHARES_ZIGZAG)
        return ota_fail(error, OTA_EINVAL, "communicator", "leave it NULL",
                        "communicator.first_pieces is given, but shares in order have one piece");
    if ((int)to->keys < 0 || to->keys > OTA_KEYS_IN_RING)
        return ota_fail(error, OTA_EINVAL, "communicator", "use one of the OTA_KEYS_ names",
                        "communicator.keys is %d", (int)to->keys);
    if (to->keys == OTA_KEYS_IN_RING && to->ranks > 1 && to->send_receive == NULL)
        return ota_fail(error, OTA_EINVAL, "communicator", "give it, or gather the keys",
                        "communicator has no send_receive, which a ring needs");
    return OTA_OK;
}

static ota_status take_messages(ota_shards *shards, ota_error *error) {
    const int ranks = shards->ranks.to.ranks;
    bool all = true;
    shards->ranks.room = take(shards, OTA_RANKS_ROOM + OTA_RANKS_BESIDES, sizeof(double), &all);
    shards->key_shares = take(shards, 2 * (int64_t)ranks, sizeof(int64_t), &all);
    shards->counts = take(shards, 2 * (int64_t)ranks, sizeof(int64_t), &all);
    shards->offsets = take(shards, ranks, sizeof(int64_t), &all);
    shards->piece = take(shards, OTA_RANKS_ROOM, sizeof(double), &all);
    shards->facts = take(shards, (int64_t)ota_shards_facts_bytes(ranks), 1, &all);
    shards->message_room = shards->bytes;
    if (all) return OTA_OK;
    return ota_fail(error, OTA_ENOMEM, "communicator", "", "no memory for a plan of many ranks");
}

ota_status ota_shards_open(ota_shards **out, const ota_communicator *to, ota_status begun,
                           ota_error *error) {
    *out = NULL;
    ota_ranks ranks = {.head = -1, .round = -1};
    TRY(ota_check_sized(&ranks.to, sizeof ranks.to, to, to->size, "communicator.size", error));
    if (ranks.to.ranks < 1 || ranks.to.rank < 0 || ranks.to.rank >= ranks.to.ranks)
        return ota_fail(error, OTA_EINVAL, "communicator", "let rank lie in [0, ranks)",
                        "communicator has rank %d of %d", ranks.to.rank, ranks.to.ranks);
    if (ranks.to.all_reduce == NULL || ranks.to.all_gather == NULL)
        return ota_fail(error, OTA_EINVAL, "communicator", "give all of them",
                        "communicator has no %s",
                        ranks.to.all_reduce == NULL ? "all_reduce" : "all_gather");
    /* From here on the others can be told. */
    ota_status status = begun == OTA_OK ? check_communicator(&ranks.to, error) : begun;
    ota_shards *shards = calloc(1, sizeof *shards);
    *out = shards;
    if (shards == NULL) {
        if (status == OTA_OK)
            status = ota_fail(error, OTA_ENOMEM, "communicator", "",
                              "no memory for a plan of many ranks");
        return ota_ranks_agree(&ranks, status, error);
    }
    shards->ranks = ranks;
    if (status == OTA_OK) status = take_messages(shards, error);
    return ota_ranks_agree(&shards->ranks, status, error);
}

/* ---- problems ----------------------------------------------------------------------------------- */

/* The rank's problem with the keys of all ranks. */
void ota_shards_widen_problem(ota_shards *shards, ota_problem *problem) {
    if (shards->from_matrix) return;
    shards->keys = problem->keys;
    problem->keys = shards->all_keys;
}

/* A share's own queries never decide about a corner. */
void ota_shards_resolve_corner(ota_problem *problem, const ota_shard_sizes *sizes) {
    if (problem->corner == OTA_CORNER_UNSET && sizes->rows.rows == sizes->all_keys)
        problem->corner = OTA_TOP_LEFT;
}

/* An array that is read nowhere but for its shape: one element stands for all. */
static ota_array everywhere(void *element, ota_type type, const int64_t size[4]) {
    ota_array a = {.data = element, .type = type};
    memcpy(a.size, size, sizeof a.size);
    return a;
}

static ota_status take_arrays(ota_shards *shards, const ota_problem *problem, int64_t values_width,
                              const ota_shard_sizes *sizes, ota_error *error) {
    bool all = true;
    const ota_array *rows = shards->from_matrix ? &problem->scores : &problem->queries;
    TRY(ota_check_array(rows, shards->from_matrix ? "scores" : "queries", error));
    if (!shards->from_matrix) TRY(ota_check_array(&problem->keys, "keys", error));
    const int64_t batch = rows->size[0], heads = rows->size[1];
    const int64_t width = shards->from_matrix ? 0 : problem->keys.size[3];
    const int64_t key_size[4] = {problem->keys.size[0], problem->keys.size[1], sizes->all_keys,
                                 width};
    const int64_t value_size[4] = {batch, problem->keys.size[1], sizes->all_keys, values_width};
    const int64_t least[4] = {1, 1, sizes->keys, ota_int_max(width, values_width)};
    const int64_t one[4] = {1, 1, 1, 1};
    if (!shards->from_matrix) {
        ota_array dense = take_array(shards, OTA_F64, shards->in_ring ? one : least, &all);
        shards->dense = dense.data;
    }
    if (shards->in_ring) {
        shards->all_keys = everywhere(shards->dense, problem->keys.type, key_size);
        shards->all_values = everywhere(shards->dense, OTA_F64, value_size);
    } else if (!shards->from_matrix) {
        shards->all_keys = take_array(shards, problem->keys.type, key_size, &all);
        /* Values may be wider than keys. */
        shards->all_values = take_array(shards, OTA_F64, value_size, &all);
    }
    shards->line = take(shards, sizes->all_keys, sizeof(double), &all);
    const int64_t statistics[] = {batch, heads, OTA_SHARDS_STATISTICS};
    size_t count;
    if (!ota_size_product(statistics, 3, &count)) count = SIZE_MAX / 64;
    shards->statistics = take(shards, (int64_t)count, sizeof(double), &all);
    if (all) return OTA_OK;
    return ota_fail(error, OTA_ENOMEM, "keys", "use more ranks or smaller sizes",
                    "no memory for the keys and values of all ranks");
}

ota_status ota_shards_resolve(ota_shards *shards, const ota_problem *given,
                              const ota_options *options, int64_t values_width,
                              const ota_shard_sizes *sizes, ota_resolved *resolved,
                              ota_error *error) {
    ota_problem problem = *given;
    ota_shards_resolve_corner(&problem, sizes);
    TRY(take_arrays(shards, &problem, values_width, sizes, error));
    ota_shards_widen_problem(shards, &problem);
    TRY(ota_resolve_share(&problem, options, &sizes->rows, resolved, error));
    resolved->settings.ranks = &shards->ranks;
    return OTA_OK;
}

ota_status ota_shards_meet(ota_shards *shards, const ota_problem *problem,
                           const ota_options *options, int64_t values_width, ota_problem *full,
                           ota_shard_sizes *sizes, ota_error *error) {
    ota_options settings;
    const ota_status read = ota_shards_read(problem, options, full, &settings, error);
    full->size = sizeof *full;
    shards->from_matrix = ota_array_present(&full->scores);
    return ota_shards_compare(shards, full, &settings, values_width, read, sizes, error);
}

/* ---- keys and values ---------------------------------------------------------------------------- */

/* Rows [0, count) of one head where they lie, or in shards->dense, in the type that all ranks send. */
static const char *dense_share(const ota_shards *shards, const ota_array *a, ota_type type,
                               int64_t batch, int64_t head) {
    const size_t element = ota_type_bytes(a->type);
    const char *from =
        (const char *)a->data + (batch * a->stride[0] + head * a->stride[1]) * (int64_t)element;
    if (a->type == type && a->stride[3] == 1 && a->stride[2] == a->size[3]) return from;
    (void)ota_array_pack(a, type, batch, head, shards->dense);
    return shards->dense;
}

/* One array of all ranks' shares, head by head, a piece of every rank a message. */
bool ota_shards_gather(ota_shards *shards, const ota_array *mine, const ota_array *all,
                       const char *step) {
    const int64_t line = mine->size[3] * (int64_t)ota_type_bytes(all->type);
    const int pieces = shards->ranks.to.shares == OTA_SHARES_ZIGZAG ? 2 : 1;
    const int rank = shards->ranks.to.rank;
    for (int64_t k = 0; k < all->size[0] * all->size[1]; k++) {
        const bool empty = shards->key_share == 0 || line == 0;
        const char *from =
            empty ? shards->dense
                  : dense_share(shards, mine, all->type, k / all->size[1], k % all->size[1]);
        char *to = (char *)all->data + k * all->size[2] * line;
        for (int piece = 0; piece < pieces; piece++) {
            for (int other = 0; other < shards->ranks.to.ranks; other++) {
                int64_t first, count;
                ota_shards_piece(shards, shards->key_shares, other, piece == 1, &first, &count);
                shards->counts[other] = count * line;
                shards->offsets[other] = first * line;
            }
            if (!ota_ranks_gather(&shards->ranks, from, to, shards->counts, shards->offsets, step))
                return false;
            from += shards->counts[rank];
        }
    }
    return true;
}
