/* The .gguf format, versions 2 and 3, little-endian.
 *
 *   "GGUF" | u32 version | u64 tensors | u64 pairs | pairs | tensor entries | padding | data
 *   pair:   string key | u32 type | value          string: u64 length | bytes
 *   entry:  string name | u32 rank | u64 dims[rank], fastest first | u32 type | u64 offset in the data
 *   data begins at, and every offset is, a multiple of general.alignment (32 where it is not given)
 *
 * The shape of a tensor here is row-major: dims reversed. Source: the format note of ggml. */
#include "base/base.h"
#include "gguf.h"

#include "base/integers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const int64_t ota_gguf_bytes[OTA_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

enum { PAIRS_MOST = 1 << 16, ARRAY_DEPTH = 4, STANDARD_ALIGNMENT = 32 };

/* What a text counts for in looks: the page that it lies on may have to be read. */
enum { TEXT_WORK = 1 };

typedef struct cursor {
    const char *path;
    const unsigned char *map;
    int64_t at, size;
    ota_ending ending;
    ota_error *error;
} cursor;

static ota_status refuse(const cursor *c, const char *rule) {
    return ota_refuse_at(c->error, c->path, c->at, "%s", rule);
}

uint64_t ota_gguf_number(const unsigned char *bytes, int size) {
    uint64_t value = 0;
    for (int i = size - 1; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

static ota_status read_number(cursor *c, int size, uint64_t *value) {
    *value = 0;
    if (c->size - c->at < size) return refuse(c, "the file ends inside its header");
    *value = ota_gguf_number(c->map + c->at, size);
    c->at += size;
    return OTA_OK;
}

static ota_status read_string(cursor *c, const unsigned char **text, size_t *size) {
    uint64_t length;
    *text = NULL;
    *size = 0;
    ota_status status = read_number(c, 8, &length);
    if (status == OTA_OK) status = ota_look(&c->ending, TEXT_WORK, c->error);
    if (status != OTA_OK) return status;
    if (length > (uint64_t)(c->size - c->at)) {
        c->at -= 8;
        return refuse(c, "a string goes beyond the end of the file");
    }
    *text = c->map + c->at;
    *size = (size_t)length;
    c->at += (int64_t)length;
    return OTA_OK;
}

/* ---- metadata ---- */

static ota_status skip_value(cursor *c, uint64_t type, int depth) {
    const unsigned char *text;
    size_t size;
    uint64_t inner, count;
    if (type >= OTA_GGUF_TYPES) return refuse(c, "a value has a type that is not known");
    if (type == OTA_GGUF_STRING) return read_string(c, &text, &size);
    if (type != OTA_GGUF_ARRAY) {
        if (c->size - c->at < ota_gguf_bytes[type])
            return refuse(c, "the file ends inside a value");
        c->at += ota_gguf_bytes[type];
        return OTA_OK;
    }
    if (depth == ARRAY_DEPTH) return refuse(c, "arrays are nested more than 4 deep");
    ota_status status = read_number(c, 4, &inner);
    if (status == OTA_OK) status = read_number(c, 8, &count);
    if (status != OTA_OK) return status;
    if (inner >= OTA_GGUF_TYPES) return refuse(c, "an array has a type that is not known");
    const int64_t least = ota_gguf_bytes[inner] > 0 ? ota_gguf_bytes[inner] : 8;
    if (count > (uint64_t)((c->size - c->at) / least))
        return refuse(c, "an array goes beyond the end of the file");
    if (ota_gguf_bytes[inner] > 0) {
        c->at += (int64_t)count * ota_gguf_bytes[inner];
        return OTA_OK;
    }
    for (uint64_t i = 0; status == OTA_OK && i < count; i++)
        status = skip_value(c, inner, depth + 1);
    return status;
}

static int by_key(const void *left, const void *right) {
    const ota_gguf_pair *a = left, *b = right;
    const size_t shorter = ota_size_min(a->key_size, b->key_size);
    const int order = memcmp(a->key, b->key, shorter);
    return order != 0 ? order : (a->key_size > b->key_size) - (a->key_size < b->key_size);
}

static ota_status read_pairs(cursor *c, uint64_t count, ota_gguf *gguf) {
    if (count > PAIRS_MOST) {
        (void)refuse(c, "the file promises more than 65,536 metadata pairs");
        return OTA_ELIMIT;
    }
    gguf->pairs = calloc((size_t)count + 1, sizeof *gguf->pairs);
    if (gguf->pairs == NULL)
        return ota_refuse(c->error, OTA_ENOMEM, "no memory is left for a file's metadata");
    for (uint64_t i = 0; i < count; i++) {
        ota_gguf_pair *pair = &gguf->pairs[i];
        uint64_t type;
        const int64_t place = c->at;
        ota_status status = read_string(c, &pair->key, &pair->key_size);
        if (status == OTA_OK && (pair->key_size > OTA_GGUF_KEY_MOST ||
                                 !ota_name_is_valid((const char *)pair->key, pair->key_size))) {
            c->at = place;
            status = refuse(c, "a key must be 1 to 1024 bytes without control characters");
        }
        if (status == OTA_OK) status = read_number(c, 4, &type);
        if (status != OTA_OK) return status;
        pair->type = (uint32_t)type;
        pair->offset = c->at;
        if ((status = skip_value(c, type, 0)) != OTA_OK) return status;
        pair->size = c->at - pair->offset;
        gguf->pair_count++;
    }
    const ota_status sorted =
        ota_sort(gguf->pairs, (size_t)count, sizeof *gguf->pairs, by_key, &c->ending, c->error);
    if (sorted != OTA_OK) return sorted;
    for (int64_t i = 1; i < gguf->pair_count; i++) {
        const ota_gguf_pair *pair = &gguf->pairs[i];
        if (by_key(pair - 1, pair) == 0)
            return ota_refuse_at(c->error, c->path, pair->offset, "the key \"%.*s\" is there twice",
                                 (int)pair->key_size, (const char *)pair->key);
    }
    return OTA_OK;
}

const ota_gguf_pair *ota_gguf_find(const ota_gguf_pair *pairs, int64_t count, const char *key) {
    return ota_gguf_find_sized(pairs, count, (const unsigned char *)key, strlen(key));
}

const ota_gguf_pair *ota_gguf_find_sized(const ota_gguf_pair *pairs, int64_t count,
                                         const unsigned char *key, size_t size) {
    const ota_gguf_pair wanted = {.key = key, .key_size = size};
    return bsearch(&wanted, pairs, (size_t)count, sizeof wanted, by_key);
}

static const ota_gguf_pair *find_pair(const ota_gguf *gguf, const char *key) {
    return ota_gguf_find(gguf->pairs, gguf->pair_count, key);
}

/* ---- tensors ---- */

static ota_status refuse_number(const cursor *c, const char *name, uint64_t number) {
    const char *word = ota_element_unread((int64_t)number);
    if (word != NULL)
        (void)ota_refuse_at(c->error, c->path, c->at - 4,
                            "\"%.80s\" is of type %s, which is not read", name, word);
    else
        (void)ota_refuse_at(c->error, c->path, c->at - 4,
                            "\"%.80s\" is of type %" PRIu64 ", a number that is not known here",
                            name, number);
    return ota_advise(c->error, OTA_UNSUPPORTED, "%s are read", ota_element_words());
}

static ota_status read_type(cursor *c, const char *name, ota_tensor *one) {
    uint64_t number;
    ota_status status = read_number(c, 4, &number);
    if (status != OTA_OK) return status;
    const ota_element *type = ota_element_of_gguf((int64_t)number);
    if (type == NULL) return refuse_number(c, name, number);
    one->stored = type->word;
    one->bits = type->block == 1 ? (unsigned)(8 * type->bytes) : 0;
    if (one->rank > 0 && one->shape[one->rank - 1] % type->block != 0)
        return ota_refuse_at(c->error, c->path, c->at - 4,
                             "a row of \"%.80s\" does not fill whole blocks of %" PRId64
                             " elements, as %s has them",
                             name, type->block, type->word);
    if (one->count / type->block > INT64_MAX / type->bytes)
        return refuse(c, "a tensor is larger than any file");
    one->bytes = one->count / type->block * type->bytes;
    return OTA_OK;
}

static ota_status read_shape(cursor *c, ota_tensor *one) {
    uint64_t rank, size;
    ota_status status = read_number(c, 4, &rank);
    if (status != OTA_OK) return status;
    if (rank > OTA_TENSOR_RANK) {
        (void)refuse(c, "a tensor has more than 8 dimensions");
        return OTA_ELIMIT;
    }
    one->rank = (int)rank;
    for (int k = one->rank - 1; k >= 0; k--) {
        if ((status = read_number(c, 8, &size)) != OTA_OK) return status;
        one->shape[k] = size > INT64_MAX ? -1 : (int64_t)size;
    }
    return ota_shape_check(one->shape, one->rank, c->path, one->place, &one->count, c->error);
}

static ota_status read_entry(cursor *c, ota_tensors *table) {
    const unsigned char *text;
    size_t size;
    uint64_t offset;
    ota_tensor one = {.place = c->at};
    ota_status status = read_string(c, &text, &size);
    if (status != OTA_OK) return status;
    if (!ota_name_is_valid((const char *)text, size))
        return ota_refuse_at(c->error, c->path, one.place,
                             "a name must be 1 to 1024 bytes without control characters");
    char name[OTA_TENSOR_NAME + 1];
    memcpy(name, text, size);
    name[size] = '\0';
    if ((status = read_shape(c, &one)) != OTA_OK) return status;
    if ((status = read_type(c, name, &one)) != OTA_OK) return status;
    if ((status = read_number(c, 8, &offset)) != OTA_OK) return status;
    one.offset = offset > INT64_MAX ? INT64_MAX : (int64_t)offset;
    return ota_tensors_add(table, &one, name, c->error);
}

static int by_offset(const void *left, const void *right) {
    const ota_tensor *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Tensors lie one behind the other, each padded to the alignment. */
static ota_status place_tensors(cursor *c, int64_t alignment, ota_tensors *table) {
    table->data = ota_int_round_up(c->at, alignment);
    const int64_t room = c->size - table->data;
    int64_t covered = 0;
    if (room < 0 && table->count > 0) return refuse(c, "the file ends before its data");
    const ota_status status = ota_sort(table->tensors, table->count, sizeof *table->tensors,
                                       by_offset, &c->ending, c->error);
    if (status != OTA_OK) return status;
    for (size_t i = 0; i < table->count; i++) {
        ota_tensor *one = &table->tensors[i];
        const char *rule = one->offset % alignment != 0         ? "is not aligned"
                           : one->offset < covered              ? "begins inside another tensor"
                           : one->offset - covered >= alignment ? "begins after a hole"
                           : one->offset > room || one->bytes > room - one->offset
                               ? "goes beyond the end of the file"
                               : NULL;
        if (rule != NULL)
            return ota_refuse_at(c->error, c->path, one->place, "\"%.80s\" %s", one->name, rule);
        covered = one->offset + one->bytes;
        one->offset += table->data;
    }
    if (room - covered >= alignment)
        return ota_refuse_at(c->error, c->path, table->data + covered,
                             "bytes follow the last tensor");
    return OTA_OK;
}

static ota_status read_alignment(cursor *c, const ota_gguf *gguf, int64_t *alignment) {
    const ota_gguf_pair *pair = find_pair(gguf, "general.alignment");
    *alignment = STANDARD_ALIGNMENT;
    if (pair == NULL) return OTA_OK;
    if (pair->type == OTA_GGUF_UINT32)
        *alignment = (int64_t)ota_gguf_number(c->map + pair->offset, 4);
    if (pair->type != OTA_GGUF_UINT32 || *alignment < 8 || *alignment > 65536 ||
        (*alignment & (*alignment - 1)) != 0)
        return ota_refuse_at(c->error, c->path, pair->offset,
                             "general.alignment must be a power of two from 8 to 65,536");
    return OTA_OK;
}

/* ---- the whole ---- */

static ota_status read_header(cursor *c, const ota_tensor_limits *limits, ota_gguf *gguf) {
    uint64_t magic, version, tensors, pairs;
    const int64_t tensor_limit = limits != NULL && limits->tensors > 0 ? limits->tensors : 1000000;
    int64_t alignment;
    ota_status status = read_number(c, 4, &magic);
    if (status == OTA_OK && magic != 0x46554747U) {
        c->at = 0;
        return refuse(c, "the file does not begin with GGUF");
    }
    if (status == OTA_OK) status = read_number(c, 4, &version);
    if (status == OTA_OK && version != 2 && version != 3) {
        c->at = 4;
        return refuse(c, "only little-endian gguf of version 2 or 3 is read");
    }
    if (status == OTA_OK) status = read_number(c, 8, &tensors);
    if (status == OTA_OK) status = read_number(c, 8, &pairs);
    if (status != OTA_OK) return status;
    if (tensors > (uint64_t)tensor_limit) {
        (void)refuse(c, "the file promises more tensors than the limit");
        return OTA_ELIMIT;
    }
    if ((status = read_pairs(c, pairs, gguf)) != OTA_OK) return status;
    if ((status = read_alignment(c, gguf, &alignment)) != OTA_OK) return status;
    for (uint64_t i = 0; i < tensors; i++)
        if ((status = read_entry(c, gguf->shard.table)) != OTA_OK) return status;
    return place_tensors(c, alignment, gguf->shard.table);
}

ota_status ota_gguf_open_file(const char *path, const ota_tensor_limits *limits, ota_gguf *gguf,
                              ota_error *error) {
    *gguf = (ota_gguf){0};
    ota_status status = ota_checkpoint_map(path, true, &gguf->shard, error);
    if (status != OTA_OK) return status;
    gguf->shard.table = calloc(1, sizeof *gguf->shard.table);
    if (gguf->shard.table == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a file's tensors");
    cursor c = {.path = path,
                .map = gguf->shard.map,
                .size = gguf->shard.size,
                .ending = ota_ending_of(limits),
                .error = error};
    return read_header(&c, limits, gguf);
}

void ota_gguf_close(ota_gguf *gguf) {
    ota_shard_close(&gguf->shard);
    for (int64_t k = 0; k < gguf->rest_count; k++) ota_shard_close(&gguf->rest[k]);
    free(gguf->rest);
    free(gguf->pairs);
    *gguf = (ota_gguf){0};
}

ota_status ota_gguf_move(ota_gguf *gguf, ota_checkpoint *checkpoint, ota_ending *ending,
                         ota_error *error) {
    ota_shard *shards = calloc((size_t)gguf->rest_count + 1, sizeof *shards);
    if (shards == NULL) {
        ota_gguf_close(gguf);
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a model");
    }
    shards[0] = gguf->shard;
    for (int64_t k = 0; k < gguf->rest_count; k++) shards[k + 1] = gguf->rest[k];
    *checkpoint = (ota_checkpoint){.shards = shards, .shard_count = gguf->rest_count + 1};
    gguf->shard = (ota_shard){0};
    gguf->rest_count = 0;
    ota_gguf_close(gguf);
    return ota_checkpoint_index(checkpoint, ending, error);
}
