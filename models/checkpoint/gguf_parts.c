/* A gguf model in several files, NAME-00001-of-00003.gguf and so on. The first part, which is the one that is opened, has all
 * keys, and every part says which it is:
 *
 *   split.no              from 0             split.count   how many parts there are; 0 or 1: the file is whole
 *   split.tensors.count   of all parts together
 *
 * Source: what llama.cpp's gguf-split and the package gguf write. */
#define _POSIX_C_SOURCE 200809L
#include "base/base.h"
#include "gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 4096, SUFFIX_SIZE = 64 };

/* What a file says of itself; -1: nothing. */
typedef struct split {
    int64_t number, count, tensors;
} split;

typedef struct joiner {
    ota_gguf *gguf;
    split whole; /* as the first part says it */
    const ota_tensor_limits *limits;
    ota_error *error;
} joiner;

static ota_status read_split(ota_gguf *part, split *says, ota_error *error) {
    ota_status status = ota_gguf_integer(part, "split.no", &says->number, error);
    if (status == OTA_OK) status = ota_gguf_integer(part, "split.count", &says->count, error);
    if (status == OTA_OK)
        status = ota_gguf_integer(part, "split.tensors.count", &says->tensors, error);
    return status;
}

static void write_suffix(int64_t number, int64_t count, char suffix[SUFFIX_SIZE]) {
    (void)ota_snprintf(suffix, SUFFIX_SIZE, "-%05" PRId64 "-of-%05" PRId64 ".gguf", number + 1,
                       count);
}

/* The name of part `number`, freed by the caller: that of the first with another end. */
static char *part_path(const joiner *j, int64_t number) {
    char suffix[SUFFIX_SIZE];
    write_suffix(number, j->whole.count, suffix);
    char *path = strdup(j->gguf->shard.path);
    if (path != NULL) memcpy(path + strlen(path) - strlen(suffix), suffix, strlen(suffix));
    return path;
}

/* ---- the first ---- */

static ota_status check_first(const joiner *j) {
    const split *says = &j->whole;
    const char *path = j->gguf->shard.path;
    const int64_t count = ota_int_max(says->count, 1);
    char suffix[SUFFIX_SIZE];
    if (count > PARTS_MOST)
        return ota_refuse(j->error, OTA_ELIMIT,
                          "%s: split.count is %" PRId64 ", above the limit of %d parts",
                          ota_path_end(path), count, PARTS_MOST);
    if (says->number >= count || (count > 1 && says->number < 0))
        return ota_refuse(j->error, OTA_EMISMATCH,
                          "%s: split.count is %" PRId64 ", and split.no %s", ota_path_end(path),
                          count, says->number < 0 ? "is missing" : "is not below it");
    if (count > 1 && says->tensors < 0)
        return ota_refuse(j->error, OTA_EMISMATCH,
                          "%s: split.count is %" PRId64 ", and split.tensors.count is missing",
                          ota_path_end(path), count);
    write_suffix(0, count, suffix);
    if (says->number > 0) {
        (void)ota_refuse(j->error, OTA_EMISMATCH, "%s: is part %" PRId64 " of %" PRId64,
                         ota_path_end(path), says->number + 1, count);
        return ota_advise(j->error, OTA_EMISMATCH, "open the first, whose name ends in %s", suffix);
    }
    const size_t length = strlen(path), size = strlen(suffix);
    if (count > 1 && (length < size || strcmp(path + length - size, suffix) != 0)) {
        (void)ota_refuse(j->error, OTA_EMISMATCH,
                         "%s: is the first of %" PRId64 " parts, and its name does not end in %s",
                         ota_path_end(path), count, suffix);
        return ota_advise(j->error, OTA_EMISMATCH,
                          "give all parts the names that they were written with");
    }
    return OTA_OK;
}

/* ---- the others ---- */

/* Keys of a part that are its own. */
static bool is_own(const ota_gguf_pair *pair) {
    static const char *const keys[] = {"split.no", "split.count", "split.tensors.count",
                                       "general.alignment"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (strlen(keys[k]) == pair->key_size && memcmp(keys[k], pair->key, pair->key_size) == 0)
            return true;
    return false;
}

/* What a part says beside that must be what the first says. */
static ota_status check_keys(const joiner *j, const ota_gguf *part) {
    const ota_gguf *first = j->gguf;
    for (int64_t i = 0; i < part->pair_count; i++) {
        const ota_gguf_pair *pair = &part->pairs[i];
        if (is_own(pair)) continue;
        const ota_gguf_pair *same =
            ota_gguf_find_sized(first->pairs, first->pair_count, pair->key, pair->key_size);
        if (same != NULL && same->type == pair->type && same->size == pair->size &&
            memcmp(first->shard.map + same->offset, part->shard.map + pair->offset,
                   (size_t)pair->size) == 0)
            continue;
        return ota_refuse(j->error, OTA_EMISMATCH,
                          "%s: at byte %" PRId64 ": the key \"%.*s\" is not that of the first part",
                          ota_path_end(part->shard.path), pair->offset,
                          (int)ota_size_min(pair->key_size, 80), (const char *)pair->key);
    }
    return OTA_OK;
}

static ota_status check_part(const joiner *j, ota_gguf *part, int64_t number) {
    const char *path = ota_path_end(part->shard.path);
    split says;
    const ota_status status = read_split(part, &says, j->error);
    if (status != OTA_OK) return status;
    if (says.number < 0 || says.count < 0)
        return ota_refuse(j->error, OTA_EMISMATCH,
                          "%s: is no part of a model: split.no or split.count is missing", path);
    if (says.number != number || says.count != j->whole.count)
        return ota_refuse(j->error, OTA_EMISMATCH,
                          "%s: says that it is part %" PRId64 " of %" PRId64, path, says.number + 1,
                          says.count);
    if (says.tensors != j->whole.tensors)
        return ota_refuse(j->error, OTA_EMISMATCH,
                          "%s: is of another model: split.tensors.count is not the %" PRId64
                          " of the first part",
                          path, j->whole.tensors);
    return check_keys(j, part);
}

/* The part's file stays, in the list of the first. */
static ota_status open_part(const joiner *j, int64_t number) {
    ota_gguf *first = j->gguf, part;
    char *path = part_path(j, number);
    if (path == NULL) return ota_refuse(j->error, OTA_ENOMEM, "no memory is left for a path");
    ota_status status = ota_gguf_open_file(path, j->limits, &part, j->error);
    if (status == OTA_EIO)
        (void)ota_advise(j->error, status,
                         "it is part %" PRId64 " of %" PRId64 ", which lie in one folder",
                         number + 1, j->whole.count);
    if (status == OTA_OK) status = check_part(j, &part, number);
    free(path);
    first->rest[first->rest_count++] = part.shard;
    part.shard = (ota_shard){0};
    ota_gguf_close(&part);
    return status;
}

ota_status ota_gguf_open(const char *path, const ota_tensor_limits *limits, ota_gguf *gguf,
                         ota_error *error) {
    joiner j = {.gguf = gguf, .limits = limits, .error = error};
    ota_status status = ota_gguf_open_file(path, limits, gguf, error);
    if (status == OTA_OK) status = read_split(gguf, &j.whole, error);
    if (status == OTA_OK) status = check_first(&j);
    if (status != OTA_OK) return status;
    const int64_t count = ota_int_max(j.whole.count, 1);
    gguf->rest = calloc((size_t)count, sizeof *gguf->rest);
    if (gguf->rest == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for the list of files");
    int64_t tensors = (int64_t)gguf->shard.table->count;
    for (int64_t number = 1; status == OTA_OK && number < count; number++) {
        status = open_part(&j, number);
        if (status == OTA_OK) tensors += (int64_t)gguf->rest[number - 1].table->count;
    }
    if (status == OTA_OK && j.whole.tensors >= 0 && tensors != j.whole.tensors)
        return ota_refuse(error, OTA_EMISMATCH,
                          "%s: split.tensors.count is %" PRId64 ", and there are %" PRId64
                          " tensors",
                          ota_path_end(path), j.whole.tensors, tensors);
    return status;
}
