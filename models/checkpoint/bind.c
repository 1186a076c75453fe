/* Tensors of a checkpoint -> weights by role: the rows of the architecture's table, for every layer.
 * A shape that differs from what the configuration implies is OTA_EMISMATCH. */
#include "base/base.h"
#include "model.h"
#include "models/kernels/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct binder {
    ota_model *model;
    bool gguf;
    float *next; /* room for decoded vectors; NULL while they are counted */
    int64_t vector_elements;
    int64_t by_type[64]; /* parameters of each element type, by ggml's number */
    ota_error *error;
} binder;

static const ota_found *find(const binder *b, const char *pattern, int64_t layer, char *name,
                             size_t name_size) {
    char tail[256];
    const char *const plain[] = {"", NULL};
    const char *const *prefixes = b->gguf ? plain : b->model->architecture->prefixes;
    /* The table's patterns hold one %lld or none. */
    const char *mark = strstr(pattern, "%lld");
    if (mark == NULL)
        (void)ota_snprintf(tail, sizeof tail, "%s", pattern);
    else
        (void)ota_snprintf(tail, sizeof tail, "%.*s%lld%s", (int)(mark - pattern), pattern,
                           (long long)layer, mark + 4);
    for (int i = 0; prefixes[i] != NULL; i++) {
        (void)ota_snprintf(name, name_size, "%s%s", prefixes[i], tail);
        const ota_found *found = ota_checkpoint_find(&b->model->checkpoint, name);
        if (found != NULL) return found;
    }
    (void)ota_snprintf(name, name_size, "%s%s", prefixes[0], tail);
    return NULL;
}

static ota_status check_shape(const binder *b, const ota_tensor_row *row, const ota_found *found,
                              bool input_major) {
    const int64_t *sizes = b->model->config.sizes;
    const int64_t rows = sizes[row->rows];
    const bool vector = row->columns == OTA_SIZE_NONE;
    const int64_t columns = vector ? 1 : sizes[row->columns];
    const int64_t first = input_major ? columns : rows, second = input_major ? rows : columns;
    const ota_tensor *one = found->tensor;
    if (one->rank == (vector ? 1 : 2) && one->shape[0] == first &&
        (vector || one->shape[1] == second))
        return OTA_OK;
    char wanted[64];
    if (vector)
        (void)ota_snprintf(wanted, sizeof wanted, "[%" PRId64 "]", first);
    else
        (void)ota_snprintf(wanted, sizeof wanted, "[%" PRId64 ", %" PRId64 "]", first, second);
    return ota_refuse(b->error, OTA_EMISMATCH,
                      "%s: at byte %" PRId64 ": \"%.80s\" does not have the shape %s that the "
                      "configuration implies",
                      ota_path_end(found->shard->path), one->place, one->name, wanted);
}

static bool is_aligned_f32(const ota_weight *weight) {
    return strcmp(weight->type->word, "F32") == 0 && (uintptr_t)weight->data % sizeof(float) == 0 &&
           __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
}

static ota_status bind_tensor(binder *b, const ota_tensor_row *row, int64_t layer,
                              ota_weight *weight) {
    char name[300];
    const char *pattern = b->gguf ? row->gguf : row->hub;
    const ota_found *found = pattern != NULL ? find(b, pattern, layer, name, sizeof name) : NULL;
    if (found == NULL) {
        if (pattern == NULL || (row->flags & OTA_MAY_MISS)) return OTA_OK;
        return ota_refuse(b->error, OTA_EMISMATCH, "%s: holds no tensor \"%s\"",
                          ota_path_end(b->model->path), name);
    }
    const ota_tensor *one = found->tensor;
    const bool input_major = !b->gguf && (row->flags & OTA_INPUT_MAJOR) != 0;
    const bool less_one = !b->gguf && (row->flags & OTA_LESS_ONE) != 0;
    const ota_status status = check_shape(b, row, found, input_major);
    if (status != OTA_OK) return status;
    const ota_element *type = ota_element_named(one->stored);
    if (type == NULL)
        return ota_refuse_at(b->error, found->shard->path, one->place,
                             "\"%.80s\" has dtype %s, which no weight can have", one->name,
                             one->stored);
    const bool vector = one->rank == 1;
    *weight = (ota_weight){.type = type,
                           .data = found->shard->map + one->offset,
                           .rows = vector ? 1 : one->shape[0],
                           .columns = one->shape[one->rank - 1],
                           .input_major = input_major};
    if (is_aligned_f32(weight)) weight->values = (const float *)(const void *)weight->data;
    if (b->next == NULL) {
        b->model->parameters += one->count;
        b->by_type[type->gguf] += one->count;
        if (vector) b->vector_elements += one->count;
    } else if (vector && (weight->values == NULL || less_one)) {
        ota_ops_named("portable")
            ->decode[ota_element_index(type)](weight->data, b->next, one->count);
        for (int64_t k = 0; less_one && k < one->count; k++) b->next[k] += 1;
        weight->values = b->next;
        b->next += one->count;
    }
    return OTA_OK;
}

static ota_status bind_all(binder *b) {
    ota_model *model = b->model;
    const ota_architecture *architecture = model->architecture;
    for (int i = 0; i < architecture->row_count; i++) {
        const ota_tensor_row *row = &architecture->rows[i];
        const bool block = row->role < OTA_BLOCK_ROLES;
        for (int64_t layer = 0; layer < (block ? model->config.layers : 1); layer++) {
            ota_weight *weight =
                block ? &model->blocks[layer].weights[row->role] : &model->weights[row->role];
            const ota_status status = bind_tensor(b, row, layer, weight);
            if (status != OTA_OK) return status;
        }
    }
    return OTA_OK;
}

static ota_status choose_head(ota_model *model, ota_error *error) {
    const bool own = ota_weight_present(&model->weights[OTA_HEAD]);
    if (model->architecture->post_norm) {
        model->head = ota_weight_present(&model->weights[OTA_HEAD_DENSE]) &&
                              ota_weight_present(&model->weights[OTA_HEAD_NORM])
                          ? OTA_HEAD_MLM
                          : OTA_HEAD_ABSENT;
    } else if (model->config.tied) {
        model->head = OTA_HEAD_TIED;
    } else if (own) {
        model->head = OTA_HEAD_OWN;
    } else {
        return ota_refuse(error, OTA_EMISMATCH,
                          "%s: holds no tensor \"lm_head.weight\", and the head is not tied",
                          ota_path_end(model->path));
    }
    if (model->config.tied || !own) model->weights[OTA_HEAD] = model->weights[OTA_EMBED];
    return OTA_OK;
}

ota_status ota_model_bind(ota_model *model, ota_error *error) {
    binder b = {.model = model, .gguf = strcmp(model->format, "gguf") == 0, .error = error};
    model->blocks = calloc((size_t)model->config.layers, sizeof *model->blocks);
    if (model->blocks == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a model's table of weights");
    ota_status status = bind_all(&b);
    if (status != OTA_OK) return status;
    model->vectors = malloc((size_t)(b.vector_elements + 1) * sizeof *model->vectors);
    if (model->vectors == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a model's vectors");
    b.next = model->vectors;
    status = bind_all(&b);
    int most = 0;
    for (int k = 1; k < 64; k++)
        if (b.by_type[k] > b.by_type[most]) most = k;
    model->dtype = ota_element_of_gguf(most)->word;
    return status == OTA_OK ? choose_head(model, error) : status;
}
