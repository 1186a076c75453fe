/* A gguf file: metadata pairs and tensors, read in place from its map. */
#ifndef OTATTN_MODELS_GGUF_H
#define OTATTN_MODELS_GGUF_H

#include "config.h"
#include "weights.h"

typedef enum ota_gguf_type {
    OTA_GGUF_UINT8,
    OTA_GGUF_INT8,
    OTA_GGUF_UINT16,
    OTA_GGUF_INT16,
    OTA_GGUF_UINT32,
    OTA_GGUF_INT32,
    OTA_GGUF_FLOAT32,
    OTA_GGUF_TRUTH,
    OTA_GGUF_STRING,
    OTA_GGUF_ARRAY,
    OTA_GGUF_UINT64,
    OTA_GGUF_INT64,
    OTA_GGUF_FLOAT64,
    OTA_GGUF_TYPES
} ota_gguf_type;

typedef struct ota_gguf_pair {
    const unsigned char *key; /* in the map, key_size bytes */
    size_t key_size;
    uint32_t type;
    bool read;      /* as a setting */
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
/* NULL when there is none. */
const ota_gguf_pair *ota_gguf_find(const ota_gguf_pair *pairs, int64_t count, const char *key);
/* The configuration of the architecture it names. */
ota_status ota_gguf_config(const ota_gguf *gguf, const ota_architecture **architecture,
                           ota_config *config, ota_error *error);

#endif
