/* gguf files: metadata pairs and tensors, read in place from their maps. */
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

enum { OTA_GGUF_KEY_MOST = 1 << 10 };

/* Bytes of a value of each type; 0: it says its own length. */
extern const int64_t ota_gguf_bytes[OTA_GGUF_TYPES];
/* An unsigned number of `size` bytes, least first. */
uint64_t ota_gguf_number(const unsigned char *bytes, int size);

typedef struct ota_gguf_pair {
    const unsigned char *key; /* in the map, key_size bytes */
    size_t key_size;
    uint32_t type;
    bool read;            /* as a setting */
    int64_t offset, size; /* of the value */
} ota_gguf_pair;

typedef struct ota_gguf {
    ota_shard shard;      /* map and tensors of the file, of several the first */
    ota_gguf_pair *pairs; /* its, in order of key */
    int64_t pair_count;
    ota_shard *rest; /* [rest_count], of the other parts */
    int64_t rest_count;
} ota_gguf;

/* A model's file with all other parts of one that is split; closed by the caller also after a failure. */
ota_status ota_gguf_open(const char *path, const ota_tensor_limits *limits, ota_gguf *gguf,
                         ota_error *error);
/* One file alone. */
ota_status ota_gguf_open_file(const char *path, const ota_tensor_limits *limits, ota_gguf *gguf,
                              ota_error *error);
void ota_gguf_close(ota_gguf *gguf);
/* Files and tensors go to the checkpoint, and what is left is closed. */
ota_status ota_gguf_move(ota_gguf *gguf, ota_checkpoint *checkpoint, ota_ending *ending,
                         ota_error *error);
/* NULL when there is none. */
const ota_gguf_pair *ota_gguf_find(const ota_gguf_pair *pairs, int64_t count, const char *key);
const ota_gguf_pair *ota_gguf_find_sized(const ota_gguf_pair *pairs, int64_t count,
                                         const unsigned char *key, size_t size);
/* The value of an integer key, which counts as read; -1 where there is none. */
ota_status ota_gguf_integer(const ota_gguf *gguf, const char *key, int64_t *value,
                            ota_error *error);
/* The configuration of the architecture it names. */
ota_status ota_gguf_config(const ota_gguf *gguf, const ota_architecture **architecture,
                           ota_config *config, ota_error *error);

#endif
