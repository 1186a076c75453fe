/* The files of a checkpoint, mapped, and their tensors by name.
 *
 * A folder holds model.safetensors, or model.safetensors.index.json with
 * {"weight_map": {"tensor": "file", ...}}: then every tensor must lie in the file the index names. */
#define _GNU_SOURCE
#include "base/system.h"
#include "config.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS_MOST = 4096 };

/* ---- one file ---- */

static ota_status map_file(const ota_file *file, ota_shard *shard, ota_error *error) {
    *shard = (ota_shard){.path = strdup(file->path), .size = file->size};
    if (shard->path == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a path");
    if (file->size == 0) return OTA_OK;
    shard->map = ota_descriptor_map(file->descriptor, (size_t)file->size);
    if (shard->map == NULL)
        return ota_refuse(error, OTA_EIO, "%s: cannot be mapped", ota_path_end(file->path));
    return OTA_OK;
}

ota_status ota_checkpoint_map(const char *path, bool linked, ota_shard *shard, ota_error *error) {
    ota_file file;
    ota_status status = ota_file_open(path, linked, &file, error);
    if (status != OTA_OK) return status;
    status = map_file(&file, shard, error);
    ota_file_close(&file);
    return status;
}

static ota_status open_shard(const char *path, bool linked, const ota_tensor_limits *limits,
                             ota_shard *shard, ota_error *error) {
    ota_file file;
    ota_status status = ota_file_open(path, linked, &file, error);
    if (status != OTA_OK) return status;
    status = map_file(&file, shard, error);
    if (status == OTA_OK)
        status =
            ota_safetensors_open(&shard->table, file.descriptor, file.size, path, limits, error);
    ota_file_close(&file);
    return status;
}

/* ---- shards ---- */

/* A name without a folder in it: an index must not reach elsewhere. */
static bool is_plain_name(const char *name) {
    return ota_name_is_valid(name, strlen(name)) && strchr(name, '/') == NULL &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int64_t shard_of(const ota_checkpoint *checkpoint, const char *name) {
    for (int64_t i = 0; i < checkpoint->shard_count; i++) {
        /* The path is folder/name. */
        if (strcmp(strrchr(checkpoint->shards[i].path, '/') + 1, name) == 0) return i;
    }
    return -1;
}

static ota_status add_shard(const char *folder, const char *name, bool linked,
                            const char *index_path, const ota_tensor_limits *limits,
                            ota_checkpoint *checkpoint, ota_error *error) {
    if (!is_plain_name(name))
        return ota_refuse_at(error, index_path, 0,
                             "\"%.80s\" is no name of a file in the same folder", name);
    if (checkpoint->shard_count == SHARDS_MOST) {
        (void)ota_refuse_at(error, index_path, 0, "the index names more than %d files",
                            SHARDS_MOST);
        return OTA_ELIMIT;
    }
    char *path = ota_path_join(folder, name);
    if (path == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a path");
    ota_shard *shard = &checkpoint->shards[checkpoint->shard_count++];
    *shard = (ota_shard){0};
    const ota_status status = open_shard(path, linked, limits, shard, error);
    free(path);
    return status;
}

static ota_status open_map(const char *folder, const char *index_path, const json_t *map,
                           bool linked, const ota_tensor_limits *limits, ota_checkpoint *checkpoint,
                           ota_error *error) {
    const char *name;
    json_t *file;
    ota_ending ending = ota_ending_of(limits);
    ota_status status = OTA_OK;
    json_object_foreach((json_t *)(uintptr_t)map, name, file) {
        if (!json_is_string(file))
            return ota_refuse_at(error, index_path, 0, "weight_map must hold file names");
        /* The names of all shards are compared. */
        if ((status = ota_look(&ending, (size_t)checkpoint->shard_count / 16 + 1, error)) != OTA_OK)
            return status;
        if (shard_of(checkpoint, json_string_value(file)) < 0)
            status = add_shard(folder, json_string_value(file), linked, index_path, limits,
                               checkpoint, error);
        if (status != OTA_OK) return status;
    }
    if ((status = ota_checkpoint_index(checkpoint, &ending, error)) != OTA_OK) return status;
    json_object_foreach((json_t *)(uintptr_t)map, name, file) {
        if ((status = ota_look(&ending, (size_t)checkpoint->shard_count / 16 + 1, error)) != OTA_OK)
            return status;
        const ota_found *found = ota_checkpoint_find(checkpoint, name);
        const ota_shard *shard = &checkpoint->shards[shard_of(checkpoint, json_string_value(file))];
        if (found != NULL && found->shard == shard) continue;
        return ota_refuse(error, OTA_EMISMATCH,
                          "%s: the index puts \"%.80s\" into %.80s, which does not hold it",
                          ota_path_end(index_path), name, json_string_value(file));
    }
    return OTA_OK;
}

static ota_status open_index(const char *folder, const char *path, bool linked,
                             const ota_tensor_limits *limits, ota_checkpoint *checkpoint,
                             ota_error *error) {
    json_t *tree;
    ota_ending ending = ota_ending_of(limits);
    ota_status status = ota_json_file(path, true, OTA_CONFIG_BYTES, &ending, &tree, error);
    if (status != OTA_OK) return status;
    const json_t *map = json_object_get(tree, "weight_map");
    checkpoint->shards = calloc(SHARDS_MOST, sizeof *checkpoint->shards);
    if (checkpoint->shards == NULL)
        status = ota_refuse(error, OTA_ENOMEM, "no memory is left for the list of files");
    else if (!json_is_object(map) || json_object_size(map) == 0)
        status = ota_refuse_at(error, path, 0, "the index must hold a weight_map");
    else
        status = open_map(folder, path, map, linked, limits, checkpoint, error);
    json_decref(tree);
    return status;
}

ota_status ota_checkpoint_open_folder(const char *folder, bool linked,
                                      const ota_tensor_limits *limits, ota_checkpoint *checkpoint,
                                      ota_error *error) {
    *checkpoint = (ota_checkpoint){0};
    char *single = ota_path_join(folder, "model.safetensors");
    char *index = ota_path_join(folder, "model.safetensors.index.json");
    ota_ending ending = ota_ending_of(limits);
    ota_status status = OTA_OK;
    if (single == NULL || index == NULL) {
        status = ota_refuse(error, OTA_ENOMEM, "no memory is left for a path");
    } else if (!ota_path_exists(single) && ota_path_exists(index)) {
        status = open_index(folder, index, linked, limits, checkpoint, error);
    } else if ((checkpoint->shards = calloc(1, sizeof *checkpoint->shards)) == NULL) {
        status = ota_refuse(error, OTA_ENOMEM, "no memory is left for the list of files");
    } else {
        checkpoint->shard_count = 1;
        /* The name is ours, so a link made by the folder's owner is followed. */
        status = open_shard(single, true, limits, checkpoint->shards, error);
        if (status == OTA_OK) status = ota_checkpoint_index(checkpoint, &ending, error);
    }
    free(single);
    free(index);
    return status;
}

/* ---- names ---- */

static int by_name(const void *left, const void *right) {
    return strcmp(((const ota_found *)left)->tensor->name,
                  ((const ota_found *)right)->tensor->name);
}

ota_status ota_checkpoint_index(ota_checkpoint *checkpoint, ota_ending *ending, ota_error *error) {
    checkpoint->count = 0;
    for (int64_t i = 0; i < checkpoint->shard_count; i++)
        checkpoint->count += (int64_t)checkpoint->shards[i].table->count;
    checkpoint->tensors = malloc((size_t)(checkpoint->count + 1) * sizeof *checkpoint->tensors);
    if (checkpoint->tensors == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for the list of tensors");
    ota_found *at = checkpoint->tensors;
    for (int64_t i = 0; i < checkpoint->shard_count; i++) {
        const ota_tensors *table = checkpoint->shards[i].table;
        for (size_t k = 0; k < table->count; k++)
            *at++ = (ota_found){&table->tensors[k], &checkpoint->shards[i]};
    }
    const ota_status status = ota_sort(checkpoint->tensors, (size_t)checkpoint->count, sizeof *at,
                                       by_name, ending, error);
    if (status != OTA_OK) return status;
    for (int64_t i = 1; i < checkpoint->count; i++) {
        const ota_found *one = &checkpoint->tensors[i];
        if (by_name(one - 1, one) == 0)
            return ota_refuse_at(error, one->shard->path, one->tensor->place,
                                 "\"%.80s\" is there twice", one->tensor->name);
    }
    return OTA_OK;
}

const ota_found *ota_checkpoint_find(const ota_checkpoint *checkpoint, const char *name) {
    const ota_tensor wanted = {.name = name};
    const ota_found key = {&wanted, NULL};
    return bsearch(&key, checkpoint->tensors, (size_t)checkpoint->count, sizeof key, by_name);
}

void ota_shard_close(ota_shard *shard) {
    if (shard->map != NULL) ota_unmap(shard->map, (size_t)shard->size);
    ota_tensors_free(shard->table);
    free(shard->path);
}

void ota_checkpoint_close(ota_checkpoint *checkpoint) {
    for (int64_t i = 0; i < checkpoint->shard_count; i++) ota_shard_close(&checkpoint->shards[i]);
    free(checkpoint->shards);
    free(checkpoint->tensors);
    *checkpoint = (ota_checkpoint){0};
}
