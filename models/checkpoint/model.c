/* Opening a model by name, and what is known about it. */
#define _GNU_SOURCE
#include "base/base.h"
#include "model.h"

#include "base/sized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hub cache ---- */

/* cache/models--ORG--NAME/snapshots/REVISION, the revision being the text of refs/main. */
char *ota_hub_folder(const char *cache, const char *name) {
    char path[4096], revision[65] = "";
    int used = ota_snprintf(path, sizeof path, "%s/models--", cache);
    for (; *name != '\0' && used > 0 && used < (int)sizeof path - 96; name++)
        used += ota_snprintf(path + used, sizeof path - (size_t)used, "%s",
                             *name == '/' ? "--" : (const char[2]){*name, '\0'});
    if (used <= 0 || *name != '\0') return NULL;
    (void)ota_snprintf(path + used, sizeof path - (size_t)used, "/refs/main");
    FILE *file = ota_file_reader(path);
    if (file == NULL) return NULL;
    const size_t got = fread(revision, 1, sizeof revision - 1, file);
    (void)fclose(file);
    revision[got] = '\0';
    revision[strcspn(revision, "\r\n")] = '\0';
    if (revision[0] == '\0' || strpbrk(revision, "/.") != NULL) return NULL;
    (void)ota_snprintf(path + used, sizeof path - (size_t)used, "/snapshots/%s", revision);
    return ota_path_exists(path) ? strdup(path) : NULL;
}

/* ---- opening ---- */

static bool ends_with(const char *text, const char *tail) {
    const size_t length = strlen(text), size = strlen(tail);
    return length >= size && strcmp(text + length - size, tail) == 0;
}

static ota_status open_gguf(ota_model *model, const ota_tensor_limits *limits, ota_error *error) {
    ota_gguf gguf;
    ota_ending ending = ota_ending_of(limits);
    model->format = "gguf";
    ota_status status = ota_gguf_open(model->path, limits, &gguf, error);
    if (status == OTA_OK)
        status = ota_gguf_config(&gguf, &model->architecture, &model->config, error);
    if (status != OTA_OK) {
        ota_gguf_close(&gguf);
        return status;
    }
    model->pairs = gguf.pairs;
    model->pair_count = gguf.pair_count;
    gguf.pairs = NULL;
    return ota_gguf_move(&gguf, &model->checkpoint, &ending, error);
}

static ota_status open_folder(ota_model *model, bool linked, const ota_tensor_limits *limits,
                              ota_error *error) {
    model->format = "safetensors";
    ota_ending ending = ota_ending_of(limits);
    char *path = ota_path_join(model->path, "config.json");
    if (path == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a path");
    ota_status status = ota_config_read(path, &model->architecture, &model->config, &ending, error);
    free(path);
    if (status == OTA_OK)
        status = ota_checkpoint_open_folder(model->path, linked, limits, &model->checkpoint, error);
    return status;
}

static ota_status open_named(ota_model *model, const char *name, const ota_model_options *options,
                             ota_error *error) {
    const ota_tensor_limits *limits = options != NULL ? &options->tensors : NULL;
    const char *cache = options != NULL ? options->hub_cache : NULL;
    if (!ota_path_exists(name) && cache != NULL &&
        (model->path = ota_hub_folder(cache, name)) != NULL)
        return open_folder(model, true, limits, error);
    if (!ota_path_exists(name)) {
        (void)ota_refuse(error, OTA_EIO, "%s: no such folder or file, nor a model in the hub cache",
                         ota_path_end(name));
        return ota_advise(error, OTA_EIO,
                          "give a folder with config.json and model.safetensors, or a .gguf file");
    }
    if ((model->path = strdup(name)) == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a path");
    if (ends_with(name, ".gguf")) return open_gguf(model, limits, error);
    if (ota_path_is_folder(name)) return open_folder(model, false, limits, error);
    return ota_refuse(error, OTA_EFORMAT, "%s: is neither a folder nor a .gguf file",
                      ota_path_end(name));
}

ota_status ota_model_open(ota_model **model, const char *name, const ota_model_options *options,
                          ota_error *error) {
    ota_model_options own;
    *model = NULL;
    if (options != NULL && !ota_sized_read(&own, sizeof own, options, options->size))
        return ota_refuse(error, OTA_EINVAL, "options.size is not that of ota_model_options");
    ota_ending ending = ota_ending_of(options != NULL ? &own.tensors : NULL);
    ota_model *opened = calloc(1, sizeof *opened);
    if (opened == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a model");
    ota_status status = open_named(opened, name, options != NULL ? &own : NULL, error);
    if (status == OTA_OK) status = ota_model_bind(opened, &ending, error);
    if (status == OTA_OK)
        *model = opened;
    else
        ota_model_free(opened);
    return status;
}

void ota_model_free(ota_model *model) {
    if (model == NULL) return;
    ota_checkpoint_close(&model->checkpoint);
    free(model->pairs);
    free(model->path);
    free(model->blocks);
    free(model->experts);
    free(model->vectors);
    free(model);
}

/* ---- facts ---- */

ota_status ota_model_describe(const ota_model *model, ota_model_facts *facts, ota_error *error) {
    static const char *const heads[] = {"tied", "own", "mlm", "none"};
    const ota_config *config = &model->config;
    if (facts->size < sizeof facts->size)
        return ota_refuse(error, OTA_EINVAL, "facts.size is not that of ota_model_facts");
    const ota_model_facts own = {
        .size = sizeof own,
        .architecture = model->architecture->name,
        .format = model->format,
        .path = model->path,
        .dtype = model->dtype,
        .head = heads[model->head],
        .layers = config->layers,
        .heads = config->heads,
        .kv_heads = config->kv_heads,
        .width = config->sizes[OTA_SIZE_WIDTH],
        .head_width = config->head_width,
        .inner = config->sizes[OTA_SIZE_INNER],
        .vocabulary = config->sizes[OTA_SIZE_VOCABULARY],
        .positions = config->sizes[OTA_SIZE_POSITIONS],
        .parameters = model->parameters,
        .causal = config->scores.causal,
        .norm_epsilon = config->norm_epsilon,
        .rope_base = config->rope.base,
        .image = {config->image.channels, config->image.side, config->image.side}};
    ota_sized_write(facts, facts->size, &own, sizeof own);
    return OTA_OK;
}

const ota_tensor *ota_model_tensor(const ota_model *model, int64_t index) {
    return index >= 0 && index < model->checkpoint.count ? model->checkpoint.tensors[index].tensor
                                                         : NULL;
}

const char *ota_model_file(const ota_model *model, int64_t index) {
    return index >= 0 && index < model->checkpoint.shard_count
               ? model->checkpoint.shards[index].path
               : NULL;
}
