/* otattn_tensors.h: the table of contents of a .safetensors file, read as if the file were hostile.
 *
 * One reader for the program's arrays and for model checkpoints. It reads the header only: where a
 * tensor's bytes lie is for the caller to read or map. Part of libotattn_model. */
#ifndef OTATTN_TENSORS_H
#define OTATTN_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { OTA_TENSOR_RANK = 8, OTA_TENSOR_NAME = 1024 };

/* One tensor: row-major, little-endian, `bytes` bytes from file offset `offset` on. The texts belong
 * to the table. */
typedef struct ota_tensor {
    const char *name;
    const char *stored; /* the file's word for the element type: "F32", "BF16", "Q4_1" */
    unsigned bits;      /* of one element; 0 for types stored in blocks */
    int rank;
    int64_t shape[OTA_TENSOR_RANK];
    int64_t count; /* product of the shape */
    int64_t offset, bytes;
    int64_t place; /* file offset of its entry, for messages */
} ota_tensor;

/* How much is read. 0 or less means the default in brackets. */
typedef struct ota_tensor_limits {
    int64_t header_bytes; /* [100,000,000] */
    int64_t tensors;      /* [1,000,000] */
    /* Reading ends with OTA_CANCELLED or OTA_TIMEOUT within a tenth of a second of work after *cancel is not 0 or the deadline
       has passed, both as in ota_options [never]. */
    const int *cancel;
    int64_t deadline_ns;
} ota_tensor_limits;

/* Opaque: the tensors of one file. */
typedef struct ota_tensors ota_tensors;

/* May files name an array so? 1 to OTA_TENSOR_NAME bytes of UTF-8 (RFC 3629) without C0 control characters. */
OTA_API bool ota_name_is_valid(const char *name, size_t size);
/* Makes a text that came out of a file fit for a message: broken bytes, control characters (C0, DEL, C1), format characters
 * (such as U+202E, which turns the order of what follows) and separators of lines and paragraphs of the NUL-terminated text
 * become '?'. */
OTA_API void ota_text_clean(char *text);
enum { OTA_TEXT_BROKEN = 0x110000 }; /* a byte that is no character */
/* Bytes of the character that `text`, of at least one byte, begins with; *hidden: -1, or where it is one of those that
 * become '?', the character or OTA_TEXT_BROKEN. */
OTA_API size_t ota_text_step(const char *text, size_t size, int32_t *hidden);

/* Reads and checks the header of an open regular file of `size` bytes: strict JSON, valid names, no
 * duplicate, shapes that fit their bytes, tensors that tile the data without hole or overlap. The
 * descriptor and `path` (for messages: "path: at byte N: rule") stay the caller's and are not used
 * after the call. limits NULL: the defaults. OTA_OK; OTA_EFORMAT; OTA_ELIMIT for more than `limits`
 * allow, more than OTA_TENSOR_RANK dimensions or an entry of more than 65,536 bytes; OTA_ENOMEM, OTA_EIO,
 * OTA_CANCELLED, OTA_TIMEOUT. *table is to be freed by ota_tensors_free, and NULL on failure. */
OTA_API ota_status ota_safetensors_open(ota_tensors **table, int descriptor, int64_t size,
                                        const char *path, const ota_tensor_limits *limits,
                                        ota_error *error);
/* Frees a table; NULL is fine. */
OTA_API void ota_tensors_free(ota_tensors *table);
/* How many tensors the table has. */
OTA_API int64_t ota_tensors_count(const ota_tensors *table);
/* A tensor by its number in the file's own order; NULL outside. */
OTA_API const ota_tensor *ota_tensors_at(const ota_tensors *table, int64_t index);
/* The string under `key` of __metadata__; *value is for the caller to free(), NULL when there is none. OTA_OK, then too;
 * OTA_ENOMEM. */
OTA_API ota_status ota_tensors_metadata(const ota_tensors *table, const char *key, char **value,
                                        ota_error *error);

#ifdef __cplusplus
}
#endif
#endif
