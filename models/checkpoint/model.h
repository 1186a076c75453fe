/* models/: Checkpoints of transformers, their forward passes and their tokenizers: the library otattn_model
 * (include/otattn_model.h, otattn_tensors.h, otattn_tokenizer.h). It may call the public headers and src/base/.
 * checkpoint/ reads files, kernels/ holds the row arithmetic, transformer/ runs a model, tokenizer/ is for texts.
 * Begin with checkpoint/architecture.c, the table of model families.
 *
 * An open model: configuration, weights by role, and what runs it. */
#ifndef OTATTN_MODELS_MODEL_H
#define OTATTN_MODELS_MODEL_H

#include "config.h"
#include "gguf.h"
#include "otattn_model.h"
#include "weights.h"

typedef struct ota_block {
    ota_weight weights[OTA_BLOCK_ROLES]; /* none of experts */
    ota_weight *experts;                 /* [experts][OTA_EXPERT_ROLES], or NULL */
} ota_block;

static inline const ota_weight *ota_expert_weight(const ota_block *block, int64_t expert,
                                                  ota_role role) {
    return &block->experts[expert * OTA_EXPERT_ROLES + (int)role - OTA_EXPERT_UP];
}

typedef enum ota_head_kind {
    OTA_HEAD_TIED,
    OTA_HEAD_OWN,
    OTA_HEAD_MLM,
    OTA_HEAD_ABSENT
} ota_head_kind;

struct ota_model {
    const ota_architecture *architecture;
    ota_config config;
    ota_checkpoint checkpoint;
    ota_gguf_pair *pairs; /* gguf only */
    int64_t pair_count;
    char *path;
    const char *format, *dtype;
    ota_weight weights[OTA_ROLES]; /* those of the whole model */
    ota_block *blocks;             /* [layers] */
    ota_weight *experts;           /* [layers][experts][OTA_EXPERT_ROLES], or NULL */
    float *vectors;                /* decoded vectors that weights[].values point into */
    ota_head_kind head;
    int64_t parameters;
};

/* The folder of a hub model's newest snapshot, freed by the caller; NULL when it is not there. */
char *ota_hub_folder(const char *cache, const char *name);
/* Finds every tensor of the architecture, checks its shape, decodes vectors. */
ota_status ota_model_bind(ota_model *model, ota_ending *ending, ota_error *error);

/* The first element that is NaN or infinite, of a block type the first of its block; -1 where there is none. */
int64_t ota_weight_nonfinite(const ota_weight *weight, const ota_session_options *options);
/* ota_model_check_finite until the flag or the deadline of the options (or NULL) says to end, of which it says nothing. */
ota_status ota_model_check_weights(const ota_model *model, const ota_session_options *options,
                                   ota_error *error);

static inline int64_t ota_model_size(const ota_model *model, ota_size size) {
    return model->config.sizes[size];
}

#endif
