/* Tensors of a checkpoint in memory maps. */
#ifndef OTATTN_MODELS_WEIGHTS_H
#define OTATTN_MODELS_WEIGHTS_H

#include "elements.h"
#include "files.h"

/* A matrix [rows, columns] as the file has it. `values` is the data itself where that is aligned f32. */
typedef struct ota_weight {
    const ota_element *type; /* NULL: the model has no such tensor */
    const unsigned char *data;
    const float *values;
    const unsigned char *
        scales; /* MXFP4 of hub files: of each block of 32, apart from its codes in `data`; else NULL */
    int64_t rows, columns;
    bool input_major; /* rows are inputs: y = x W, else y = x W^T */
} ota_weight;

static inline bool ota_weight_present(const ota_weight *weight) { return weight->type != NULL; }

/* ---- tables of contents ---- */

struct ota_tensors {
    const char *path; /* during the opening call only */
    int64_t file_size;
    ota_tensor_limits limits;
    ota_ending *ending; /* during the opening call only, NULL afterwards */
    char *text;         /* safetensors: the JSON, kept while its metadata is needed */
    int64_t size;
    int64_t data; /* file offset of the data section */
    ota_tensor *tensors;
    size_t count, room;
    bool has_metadata;
    const char *metadata; /* the text of the metadata object, inside `text` */
    size_t metadata_size;
};

/* Takes a copy of `name`. */
ota_status ota_tensors_add(ota_tensors *table, const ota_tensor *tensor, const char *name,
                           ota_error *error);

/* ---- checkpoints ---- */

typedef struct ota_shard {
    char *path;
    const unsigned char *map;
    int64_t size;
    ota_tensors *table;
} ota_shard;

typedef struct ota_found {
    const ota_tensor *tensor;
    const ota_shard *shard;
} ota_found;

typedef struct ota_checkpoint {
    ota_shard *shards;
    int64_t shard_count;
    ota_found *tensors; /* of all shards, in order of name */
    int64_t count;
} ota_checkpoint;

/* A folder's model.safetensors, or the shards of its index. `linked`: symbolic links are followed, as
 * the hub cache is made of them. Freed by the caller also after a failure. */
ota_status ota_checkpoint_open_folder(const char *folder, bool linked,
                                      const ota_tensor_limits *limits, ota_checkpoint *checkpoint,
                                      ota_error *error);
ota_status ota_checkpoint_map(const char *path, bool linked, ota_shard *shard, ota_error *error);
/* After the tables of all shards are there. */
ota_status ota_checkpoint_index(ota_checkpoint *checkpoint, ota_ending *ending, ota_error *error);
void ota_shard_close(ota_shard *shard); /* what it owns */
void ota_checkpoint_close(ota_checkpoint *checkpoint);
const ota_found *ota_checkpoint_find(const ota_checkpoint *checkpoint, const char *name);

#endif
