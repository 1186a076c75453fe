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
    bool wanted[OTA_GROUPS]; /* is the group to be there? */
    bool *bound;    /* of every tensor of the checkpoint: it has a role, or is known to have none */
    int64_t expert; /* that a tensor is of */
    float *next;    /* room for decoded vectors; NULL while they are counted */
    int64_t vector_elements;
    int64_t by_type[64]; /* parameters of each element type, by ggml's number */
    ota_ending *ending;
    ota_error *error;
} binder;

/* Where ota_config says, of a hub file, whether a group is there; 0: it does not. */
static const size_t group_fields[OTA_GROUPS] = {
    [OTA_GROUP_INPUT_BIAS] = offsetof(ota_config, biases.attention),
    [OTA_GROUP_OUTPUT_BIAS] = offsetof(ota_config, biases.attention),
    [OTA_GROUP_MLP_BIAS] = offsetof(ota_config, biases.mlp),
    [OTA_GROUP_NORM_BIAS] = offsetof(ota_config, biases.norm),
    [OTA_GROUP_HEAD_BIAS] = offsetof(ota_config, biases.head),
};

/* The key of config.json that says it; NULL: the files alone do. */
static const char *group_key(const binder *b, ota_group group) {
    const ota_config_key *key;
    if (b->gguf || group_fields[group] == 0) return NULL;
    for (int i = 0; (key = ota_architecture_key(b->model->architecture, i)) != NULL; i++)
        if (key->offset == group_fields[group]) return key->hub;
    return NULL;
}

/* ---- finding ---- */

/* What binding of a tensor counts for in looks: names are written and found, vectors copied. */
enum { BIND_WORK = 16 };

/* Puts the number in the place of the first %lld. */
static void fill_in(char *text, size_t size, int64_t number) {
    char tail[256];
    char *mark = strstr(text, "%lld");
    if (mark == NULL) return;
    (void)ota_snprintf(tail, sizeof tail, "%s", mark + 4);
    (void)ota_snprintf(mark, size - (size_t)(mark - text), "%lld%s", (long long)number, tail);
}

static const ota_found *find(const binder *b, const char *pattern, int64_t layer, char *name,
                             size_t name_size) {
    char tail[256];
    const char *const plain[] = {"", NULL};
    const char *const *prefixes = b->gguf ? plain : b->model->architecture->prefixes;
    (void)ota_snprintf(tail, sizeof tail, "%s", pattern);
    fill_in(tail, sizeof tail, layer);
    fill_in(tail, sizeof tail, b->expert);
    for (int i = 0; prefixes[i] != NULL; i++) {
        (void)ota_snprintf(name, name_size, "%s%s", prefixes[i], tail);
        const ota_found *found = ota_checkpoint_find(&b->model->checkpoint, name);
        if (found != NULL) return found;
    }
    (void)ota_snprintf(name, name_size, "%s%s", prefixes[0], tail);
    return NULL;
}

/* By either of a row's names; `name` is the one that was found, or else the first. */
static const ota_found *find_row(const binder *b, const ota_tensor_row *row, int64_t layer,
                                 char *name, size_t name_size) {
    const char *pattern = b->gguf ? row->gguf : row->hub;
    if (pattern == NULL) return NULL;
    const ota_found *found = find(b, pattern, layer, name, name_size);
    /* No prefix stands before the names of heads. */
    if (found == NULL && row->role >= OTA_HEAD) (void)ota_snprintf(name, name_size, "%s", pattern);
    if (found != NULL || b->gguf || row->other == NULL) return found;
    char other[300];
    if ((row->flags & OTA_TIED_OTHER) != 0 && !b->model->config.tied) return NULL;
    return find(b, row->other, layer, other, sizeof other);
}

static int64_t layers_of(const binder *b, const ota_tensor_row *row) {
    return row->role < OTA_BLOCK_ROLES ? b->model->config.layers : 1;
}

/* Where no key says it, a group is to be there if any of it is. */
static void find_groups(binder *b) {
    const ota_architecture *architecture = b->model->architecture;
    char name[300];
    for (int group = 0; group < OTA_GROUPS; group++)
        if (group_key(b, (ota_group)group) != NULL)
            b->wanted[group] =
                *(const bool *)((const char *)&b->model->config + group_fields[group]);
    const ota_tensor_row *row;
    for (int i = 0; (row = ota_architecture_row(architecture, i)) != NULL; i++) {
        if (row->group == OTA_ALONE || group_key(b, row->group) != NULL) continue;
        for (int64_t layer = 0; layer < layers_of(b, row) && !b->wanted[row->group]; layer++)
            b->wanted[row->group] = find_row(b, row, layer, name, sizeof name) != NULL ||
                                    (!b->gguf && row->other != NULL &&
                                     find(b, row->other, layer, name, sizeof name) != NULL);
    }
}

/* ---- refusals ---- */

/* Does the tied other of the two stand for it: the head for the embedding, the embedding for the head? */
static bool stands_in(const binder *b, const ota_tensor_row *row) {
    const ota_architecture *architecture = b->model->architecture;
    const ota_role other = row->role == OTA_EMBED ? OTA_HEAD : OTA_EMBED;
    char name[300];
    if ((row->flags & OTA_TIED_MAY_MISS) == 0 || !b->model->config.tied) return false;
    const ota_tensor_row *second;
    for (int i = 0; (second = ota_architecture_row(architecture, i)) != NULL; i++)
        if (second->role == other) return find_row(b, second, 0, name, sizeof name) != NULL;
    return false;
}

static ota_status refuse_missing(const binder *b, const ota_tensor_row *row, const char *name) {
    const char *key = group_key(b, row->group);
    const char *path = ota_path_end(b->model->path);
    if (key != NULL)
        return ota_refuse(b->error, OTA_EMISMATCH,
                          "%s: holds no tensor \"%s\", and \"%s\" of config.json is true", path,
                          name, key);
    if (row->group != OTA_ALONE)
        return ota_refuse(b->error, OTA_EMISMATCH,
                          "%s: holds no tensor \"%s\", and others that belong to it", path, name);
    if (row->role == OTA_HEAD)
        return ota_refuse(b->error, OTA_EMISMATCH,
                          "%s: holds no tensor \"%s\", and the head is not tied", path, name);
    return ota_refuse(b->error, OTA_EMISMATCH, "%s: holds no tensor \"%s\"", path, name);
}

/* A tensor of a group that the configuration leaves out: zeros would change nothing. */
static ota_status refuse_unwanted(const binder *b, const ota_tensor_row *row,
                                  const ota_found *found) {
    const ota_tensor *one = found->tensor;
    const unsigned char *data = found->shard->map + one->offset;
    bool zero = true;
    for (int64_t k = 0; zero && k < one->bytes; k++) zero = data[k] == 0;
    if (zero) return OTA_OK;
    (void)ota_refuse(
        b->error, OTA_EMISMATCH,
        "%s: at byte %" PRId64 ": \"%.80s\" is there, and \"%s\" of config.json is false",
        ota_path_end(found->shard->path), one->place, one->name, group_key(b, row->group));
    return ota_advise(
        b->error, OTA_EMISMATCH,
        "set it to true if the model adds such tensors, or take them out of the file");
}

/* Is it of a layer behind the last, which the configuration says not to be one of them? */
static bool is_of_unused_layer(const binder *b, const char *name) {
    const ota_config *config = &b->model->config;
    const char *const *prefixes = b->model->architecture->prefixes;
    for (int i = 0; !b->gguf && prefixes[i] != NULL; i++)
        for (int64_t k = 0; k < config->unused_layers; k++) {
            char begin[96];
            const int size = ota_snprintf(begin, sizeof begin, "%slayers.%lld.", prefixes[i],
                                          (long long)(config->layers + k));
            if (size > 0 && strncmp(name, begin, (size_t)size) == 0) return true;
        }
    return false;
}

/* Every tensor has a role or is a row of ignored.c. */
static ota_status refuse_rest(const binder *b) {
    const ota_checkpoint *checkpoint = &b->model->checkpoint;
    const ota_architecture *architecture = b->model->architecture;
    const ota_ignored_kind kind = b->gguf ? OTA_IGNORED_GGUF_TENSORS : OTA_IGNORED_HUB_TENSORS;
    for (int64_t k = 0; k < checkpoint->count; k++) {
        const ota_found *found = &checkpoint->tensors[k];
        const ota_status looked = ota_look(b->ending, 1, b->error);
        if (looked != OTA_OK) return looked;
        if (b->bound[k] || ota_ignored_find(kind, architecture, found->tensor->name) != NULL ||
            is_of_unused_layer(b, found->tensor->name))
            continue;
        (void)ota_refuse(b->error, OTA_EMISMATCH,
                         "%s: at byte %" PRId64
                         ": \"%.80s\" is a tensor that %s models of %lld layers do not have",
                         ota_path_end(found->shard->path), found->tensor->place,
                         found->tensor->name, architecture->name,
                         (long long)b->model->config.layers);
        return ota_advise(b->error, OTA_EMISMATCH,
                          "correct the configuration, or take the tensor out of the file if the "
                          "model does not depend on it");
    }
    return OTA_OK;
}

/* ---- binding ---- */

static bool is_half(const ota_tensor_row *row) {
    return (row->flags & (OTA_FIRST_HALF | OTA_SECOND_HALF)) != 0;
}

static bool is_of_expert(const ota_tensor_row *row) {
    return row->role >= OTA_EXPERT_UP && row->role < OTA_BLOCK_ROLES;
}

/* Do all experts lie in one tensor? */
static bool is_stacked(const binder *b, const ota_tensor_row *row) {
    return is_of_expert(row) && (b->gguf || (row->flags & OTA_STACKED) != 0);
}

/* Is it [rows, columns] but for dimensions of 1 in front, and columns that come in several? */
static bool is_same_order(const ota_tensor *one, int64_t rows, int64_t columns) {
    int at = 0;
    int64_t rest = 1;
    while (at < one->rank - 1 && one->shape[at] == 1) at++;
    for (int k = at + 1; k < one->rank; k++) rest *= one->shape[k];
    return one->rank > 0 && one->shape[at] == rows && rest == columns;
}

static ota_status check_shape(const binder *b, const ota_tensor_row *row, const ota_found *found,
                              bool input_major) {
    const int64_t *sizes = b->model->config.sizes;
    const int64_t rows = sizes[row->rows];
    const bool vector = row->columns == OTA_SIZE_NONE;
    const int64_t columns = vector ? 1 : sizes[row->columns];
    const int64_t first = input_major    ? columns
                          : is_half(row) ? 2 * rows
                                         : rows,
                  second = input_major ? rows : columns;
    const ota_tensor *one = found->tensor;
    const int lead = is_stacked(b, row) ? 1 : 0;
    if ((row->flags & OTA_RESHAPED) != 0 && is_same_order(one, first, second)) return OTA_OK;
    if (one->rank == (vector ? 1 : 2) + lead && one->shape[lead] == first &&
        (vector || one->shape[lead + 1] == second) &&
        (lead == 0 || one->shape[0] == sizes[OTA_SIZE_EXPERTS]))
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

/* Does such a model have the tensor, whatever groups of biases it has? */
static bool has_place(const binder *b, const ota_tensor_row *row, int64_t layer) {
    const ota_form *form = &b->model->config.form;
    const bool is_mixture =
        row->role < OTA_BLOCK_ROLES && ota_config_is_mixture(&b->model->config, layer);
    const bool low_rank = b->model->config.sizes[OTA_SIZE_QUERY_RANK] > 0;
    return ((row->flags & OTA_OF_PRE_NORM) == 0 || !form->post_norm) &&
           ((row->flags & OTA_SECOND_NORM) == 0 || form->norms == 2) &&
           ((row->flags & OTA_ONE_NORM) == 0 || form->norms == 1) &&
           ((row->flags & OTA_OF_GATED) == 0 || b->model->config.matrices.gated) &&
           ((row->flags & OTA_OF_MIXTURE) == 0 || is_mixture) &&
           ((row->flags & OTA_OF_DENSE) == 0 || !is_mixture) &&
           ((row->flags & OTA_OF_QUERY_RANK) == 0 || low_rank) &&
           ((row->flags & OTA_OF_FULL_QUERY) == 0 || !low_rank) &&
           ((row->flags & OTA_OF_NARROW) == 0 ||
            b->model->config.sizes[OTA_SIZE_EMBED] != b->model->config.sizes[OTA_SIZE_WIDTH]) &&
           ((row->flags & OTA_UNPACKED) == 0 || !b->model->config.experts.packed) &&
           (row->group != OTA_GROUP_LONG || b->model->config.rope.scaling.kind == OTA_ROPE_LONG) &&
           ((row->flags & OTA_NOT_FIRST) == 0 || layer > 0);
}

static ota_status bind_tensor(binder *b, const ota_tensor_row *row, int64_t layer,
                              ota_weight *weight) {
    char name[300];
    if ((b->gguf ? row->gguf : row->hub) == NULL) return OTA_OK;
    const ota_status looked = ota_look(b->ending, BIND_WORK, b->error);
    if (looked != OTA_OK) return looked;
    const ota_found *found = find_row(b, row, layer, name, sizeof name);
    const bool placed = has_place(b, row, layer);
    const bool wanted = placed && (row->group == OTA_ALONE || b->wanted[row->group]);
    if (found == NULL)
        return !wanted || (row->flags & OTA_MAY_MISS) != 0 || stands_in(b, row)
                   ? OTA_OK
                   : refuse_missing(b, row, name);
    if (!placed) return OTA_OK; /* left over, and refused as such unless it is another row's */
    b->bound[found - b->model->checkpoint.tensors] = true;
    if (!wanted) return refuse_unwanted(b, row, found);
    const ota_tensor *one = found->tensor;
    const bool input_major = !b->gguf && (row->flags & OTA_INPUT_MAJOR) != 0;
    const bool less_one = !b->gguf && (row->flags & OTA_LESS_ONE) != 0;
    const ota_status status = check_shape(b, row, found, input_major);
    if (status != OTA_OK) return status;
    const ota_element *type = ota_element_named(one->stored);
    if (type == NULL) {
        (void)ota_refuse_at(b->error, found->shard->path, one->place,
                            "\"%.80s\" is of type %s, which is not read", one->name, one->stored);
        return ota_advise(b->error, OTA_UNSUPPORTED, "F32, F64, F16 and BF16 are; " OTA_ELSEWHERE);
    }
    const int lead = is_stacked(b, row) ? 1 : 0;
    const bool vector = row->columns == OTA_SIZE_NONE;
    const int64_t *sizes = b->model->config.sizes;
    const bool reshaped = (row->flags & OTA_RESHAPED) != 0;
    *weight = (ota_weight){.type = type,
                           .data = found->shard->map + one->offset,
                           .rows = vector     ? 1
                                   : reshaped ? sizes[row->rows]
                                              : one->shape[lead],
                           .columns = reshaped ? sizes[vector ? row->rows : row->columns]
                                               : one->shape[one->rank - 1],
                           .input_major = input_major};
    if (lead == 1) weight->data += one->bytes / one->shape[0] * b->expert;
    if (is_half(row)) {
        *(vector ? &weight->columns : &weight->rows) /= 2;
        if ((row->flags & OTA_SECOND_HALF) != 0) weight->data += one->bytes / 2;
    }
    if (is_aligned_f32(weight)) weight->values = (const float *)(const void *)weight->data;
    if (b->next == NULL) {
        const int64_t count = weight->rows * weight->columns;
        b->model->parameters += count;
        b->by_type[type->gguf] += count;
        if (vector) b->vector_elements += weight->columns;
    } else if (vector && (weight->values == NULL || less_one)) {
        ota_ops_named("portable")
            ->decode[ota_element_index(type)](weight->data, b->next, weight->columns);
        for (int64_t k = 0; less_one && k < weight->columns; k++) b->next[k] += 1;
        weight->values = b->next;
        b->next += weight->columns;
    }
    return OTA_OK;
}

/* Codes [experts, rows, groups, 16] and scales [experts, rows, groups] of MXFP4, bytes both. */
static ota_status bind_packed(binder *b, const ota_tensor_row *row, int64_t layer,
                              ota_weight *weight) {
    char name[300];
    const ota_checkpoint *checkpoint = &b->model->checkpoint;
    if (b->gguf || !b->model->config.experts.packed) return OTA_OK;
    const char *const patterns[] = {row->hub, row->other};
    const int64_t *sizes = b->model->config.sizes;
    const int64_t rows = sizes[row->rows], columns = sizes[row->columns];
    const ota_element *type = ota_element_named("MXFP4");
    const int64_t shape[] = {sizes[OTA_SIZE_EXPERTS], rows, columns / type->block, 16};
    const unsigned char *data[2];
    const ota_status looked = ota_look(b->ending, BIND_WORK, b->error);
    if (looked != OTA_OK) return looked;
    for (int k = 0; k < 2; k++) {
        const ota_found *found = find(b, patterns[k], layer, name, sizeof name);
        if (found == NULL) return refuse_missing(b, row, name);
        const ota_tensor *one = found->tensor;
        bool fits =
            one->rank == 4 - k && strcmp(one->stored, "U8") == 0 && columns % type->block == 0;
        for (int i = 0; fits && i < 4 - k; i++) fits = one->shape[i] == shape[i];
        if (!fits)
            return ota_refuse(b->error, OTA_EMISMATCH,
                              "%s: at byte %" PRId64 ": \"%.80s\" is not the bytes of %" PRId64
                              " x %" PRId64 " numbers of MXFP4 that the configuration implies",
                              ota_path_end(found->shard->path), one->place, one->name, rows,
                              columns);
        b->bound[found - checkpoint->tensors] = true;
        data[k] = found->shard->map + one->offset + one->bytes / shape[0] * b->expert;
    }
    *weight = (ota_weight){
        .type = type, .data = data[0], .scales = data[1], .rows = rows, .columns = columns};
    if (b->next != NULL) return OTA_OK;
    b->model->parameters += rows * columns;
    b->by_type[type->gguf] += rows * columns;
    return OTA_OK;
}

static ota_status bind_experts(binder *b, const ota_tensor_row *row, int64_t layer) {
    ota_weight *experts = b->model->blocks[layer].experts;
    ota_status status = OTA_OK;
    const int64_t count = ota_config_is_mixture(&b->model->config, layer)
                              ? b->model->config.sizes[OTA_SIZE_EXPERTS]
                              : 0;
    for (b->expert = 0; status == OTA_OK && b->expert < count; b->expert++)
        status = ((row->flags & OTA_PACKED) != 0 ? bind_packed : bind_tensor)(
            b, row, layer, &experts[b->expert * OTA_EXPERT_ROLES + (int)row->role - OTA_EXPERT_UP]);
    b->expert = 0;
    return status;
}

static ota_status bind_all(binder *b) {
    ota_model *model = b->model;
    const ota_architecture *architecture = model->architecture;
    const ota_tensor_row *row;
    for (int i = 0; (row = ota_architecture_row(architecture, i)) != NULL; i++) {
        const bool block = row->role < OTA_BLOCK_ROLES;
        for (int64_t layer = 0; layer < layers_of(b, row); layer++) {
            ota_weight *weight =
                block ? &model->blocks[layer].weights[row->role] : &model->weights[row->role];
            const ota_status status = is_of_expert(row) ? bind_experts(b, row, layer)
                                                        : bind_tensor(b, row, layer, weight);
            if (status != OTA_OK) return status;
        }
    }
    return OTA_OK;
}

/* The file's own head is taken also where the configuration calls it tied, as transformers does. */
static void choose_head(ota_model *model) {
    const bool own = ota_weight_present(&model->weights[OTA_HEAD]);
    bool transforms = false, heads = false;
    const ota_tensor_row *row;
    for (int i = 0; (row = ota_architecture_row(model->architecture, i)) != NULL; i++) {
        transforms = transforms || row->role == OTA_HEAD_DENSE;
        heads = heads || row->role == OTA_HEAD;
    }
    if (transforms)
        model->head =
            ota_weight_present(&model->weights[OTA_HEAD_DENSE]) ? OTA_HEAD_MLM : OTA_HEAD_ABSENT;
    else
        model->head = own && (ota_weight_present(&model->weights[OTA_EMBED]) ||
                              ota_weight_present(&model->weights[OTA_PATCH]))
                          ? OTA_HEAD_OWN
                          : OTA_HEAD_TIED;
    /* Without words a head cannot be their table. */
    if (!own && ota_weight_present(&model->weights[OTA_PATCH])) model->head = OTA_HEAD_ABSENT;
    if (!heads) model->head = OTA_HEAD_ABSENT;
    if (!own) model->weights[OTA_HEAD] = model->weights[OTA_EMBED];
    if (!ota_weight_present(&model->weights[OTA_EMBED]))
        model->weights[OTA_EMBED] = model->weights[OTA_HEAD];
}

static ota_status bind_twice(binder *b) {
    ota_model *model = b->model;
    find_groups(b);
    ota_status status = bind_all(b);
    if (status == OTA_OK) status = refuse_rest(b);
    /* Gguf files hold longrope's lists as tensors. */
    const ota_rope_scaling *scaling = &model->config.rope.scaling;
    if (status == OTA_OK && scaling->kind == OTA_ROPE_LONG && scaling->divisors == 0 &&
        !ota_weight_present(&model->weights[OTA_ROPE_SHORTER]))
        status = ota_refuse(b->error, OTA_EMISMATCH,
                            "%s: holds no tensor \"rope_factors_short.weight\", and rotary "
                            "positions are longrope's",
                            ota_path_end(model->path));
    for (int64_t k = 0; status == OTA_OK && k < model->config.layers; k++) {
        const ota_weight *w = model->blocks[k].weights;
        const bool apart =
            ota_weight_present(&w[OTA_EXPAND_KEY]) && ota_weight_present(&w[OTA_EXPAND_VALUE]);
        if (ota_weight_present(&w[OTA_LATENT]) && !ota_weight_present(&w[OTA_EXPAND]) && !apart)
            status = ota_refuse(b->error, OTA_EMISMATCH,
                                "%s: holds neither \"blk.%lld.attn_kv_b.weight\" nor attn_k_b and "
                                "attn_v_b",
                                ota_path_end(model->path), (long long)k);
    }
    if (status != OTA_OK) return status;
    model->vectors = malloc((size_t)(b->vector_elements + 1) * sizeof *model->vectors);
    if (model->vectors == NULL)
        return ota_refuse(b->error, OTA_ENOMEM, "no memory is left for a model's vectors");
    b->next = model->vectors;
    status = bind_all(b);
    int most = 0;
    for (int k = 1; k < 64; k++)
        if (b->by_type[k] > b->by_type[most]) most = k;
    model->dtype = ota_element_of_gguf(most)->word;
    choose_head(model);
    return status;
}

ota_status ota_model_bind(ota_model *model, ota_ending *ending, ota_error *error) {
    binder b = {.model = model,
                .gguf = strcmp(model->format, "gguf") == 0,
                .ending = ending,
                .error = error};
    model->blocks = calloc((size_t)model->config.layers, sizeof *model->blocks);
    b.bound = calloc((size_t)model->checkpoint.count + 1, sizeof *b.bound);
    const int64_t experts = model->config.sizes[OTA_SIZE_EXPERTS] * OTA_EXPERT_ROLES;
    model->experts = calloc((size_t)(model->config.layers * experts) + 1, sizeof *model->experts);
    for (int64_t k = 0; model->blocks != NULL && model->experts != NULL && k < model->config.layers;
         k++)
        model->blocks[k].experts = experts > 0 ? model->experts + k * experts : NULL;
    const ota_status status =
        model->blocks != NULL && model->experts != NULL && b.bound != NULL
            ? bind_twice(&b)
            : ota_refuse(error, OTA_ENOMEM, "no memory is left for a model's table of weights");
    free(b.bound);
    return status;
}
