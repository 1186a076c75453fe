/* A gguf file: metadata pairs and tensors, read in place from its map. */
#ifndef OTATTN_MODEL_GGUF_H
#define OTATTN_MODEL_GGUF_H

#include "config.h"
#include "weights.h"

typedef struct ota_gguf_pair {
    const unsigned char *key; /* in the map, key_size bytes */
    size_t key_size;
    uint32_t type;
    int64_t offset; /* of the value */
} ota_gguf_pair;

typedef struct ota_gguf {
    ota_shard shard;      /* map and tensors; moved into a checkpoint by the caller */
    ota_gguf_pair *pairs; /* in order of key */
    int64_t pair_count;
} ota_gguf;

/* Freed by the caller also after a failure. */
ota_status ota_gguf_open(const char *path, const ota_tensor_limits *limits, ota_gguf *gguf,
                         ota_error *error);
void ota_gguf_close(ota_gguf *gguf);
/* The configuration of the architecture it names. */
ota_status ota_gguf_config(const ota_gguf *gguf, const ota_architecture **architecture,
                           ota_config *config, ota_error *error);

#endif
