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

enum { PAIRS_MOST = 1 << 16, KEY_MOST = 1 << 10, ARRAY_DEPTH = 4, STANDARD_ALIGNMENT = 32 };

static const int64_t value_bytes[OTA_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

typedef struct cursor {
    const char *path;
    const unsigned char *map;
    int64_t at, size;
    ota_error *error;
} cursor;

static ota_status refuse(const cursor *c, const char *rule) {
    return ota_refuse_at(c->error, c->path, c->at, "%s", rule);
}

static uint64_t number_at(const unsigned char *bytes, int size) {
    uint64_t value = 0;
    for (int i = size - 1; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

static ota_status read_number(cursor *c, int size, uint64_t *value) {
    *value = 0;
    if (c->size - c->at < size) return refuse(c, "the file ends inside its header");
    *value = number_at(c->map + c->at, size);
    c->at += size;
    return OTA_OK;
}

static ota_status read_string(cursor *c, const unsigned char **text, size_t *size) {
    uint64_t length;
    *text = NULL;
    *size = 0;
    ota_status status = read_number(c, 8, &length);
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
        if (c->size - c->at < value_bytes[type]) return refuse(c, "the file ends inside a value");
        c->at += value_bytes[type];
        return OTA_OK;
    }
    if (depth == ARRAY_DEPTH) return refuse(c, "arrays are nested more than 4 deep");
    ota_status status = read_number(c, 4, &inner);
    if (status == OTA_OK) status = read_number(c, 8, &count);
    if (status != OTA_OK) return status;
    if (inner >= OTA_GGUF_TYPES) return refuse(c, "an array has a type that is not known");
    const int64_t least = value_bytes[inner] > 0 ? value_bytes[inner] : 8;
    if (count > (uint64_t)((c->size - c->at) / least))
        return refuse(c, "an array goes beyond the end of the file");
    if (value_bytes[inner] > 0) {
        c->at += (int64_t)count * value_bytes[inner];
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
        if (status == OTA_OK && (pair->key_size > KEY_MOST ||
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
    qsort(gguf->pairs, (size_t)count, sizeof *gguf->pairs, by_key);
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
    if (table->count > 1) qsort(table->tensors, table->count, sizeof *table->tensors, by_offset);
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
    if (pair->type == OTA_GGUF_UINT32) *alignment = (int64_t)number_at(c->map + pair->offset, 4);
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
    cursor c = {.path = path, .map = gguf->shard.map, .size = gguf->shard.size, .error = error};
    return read_header(&c, limits, gguf);
}

void ota_gguf_close(ota_gguf *gguf) {
    ota_shard_close(&gguf->shard);
    for (int64_t k = 0; k < gguf->rest_count; k++) ota_shard_close(&gguf->rest[k]);
    free(gguf->rest);
    free(gguf->pairs);
    *gguf = (ota_gguf){0};
}

ota_status ota_gguf_move(ota_gguf *gguf, ota_checkpoint *checkpoint, ota_error *error) {
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
    return ota_checkpoint_index(checkpoint, error);
}

/* ---- configuration ---- */

typedef struct pair_reader {
    const ota_gguf *gguf;
    const ota_architecture *architecture;
    ota_error *error;
} pair_reader;

static ota_gguf_pair *find_pair_to_read(const ota_gguf *gguf, const char *key) {
    const ota_gguf_pair *found = find_pair(gguf, key);
    if (found == NULL) return NULL;
    ota_gguf_pair *pair = &gguf->pairs[found - gguf->pairs];
    pair->read = true;
    return pair;
}

static bool is_signed(uint32_t type) {
    return type == OTA_GGUF_INT8 || type == OTA_GGUF_INT16 || type == OTA_GGUF_INT32 ||
           type == OTA_GGUF_INT64;
}

ota_status ota_gguf_integer(const ota_gguf *gguf, const char *key, int64_t *value,
                            ota_error *error) {
    const ota_gguf_pair *pair = find_pair_to_read(gguf, key);
    *value = -1;
    if (pair == NULL) return OTA_OK;
    const bool whole = is_signed(pair->type) || pair->type == OTA_GGUF_UINT8 ||
                       pair->type == OTA_GGUF_UINT16 || pair->type == OTA_GGUF_UINT32 ||
                       pair->type == OTA_GGUF_UINT64;
    const int bytes = (int)value_bytes[pair->type];
    const uint64_t number = whole ? number_at(gguf->shard.map + pair->offset, bytes) : 0;
    if (!whole || number > INT32_MAX || (is_signed(pair->type) && number >> (8 * bytes - 1) != 0))
        return ota_refuse_at(error, gguf->shard.path, pair->offset,
                             "\"%s\" must be an integer from 0 to 2^31 - 1", key);
    *value = (int64_t)number;
    return OTA_OK;
}

static const ota_gguf_pair *find_family(const pair_reader *r, const char *key, char name[128]) {
    (void)ota_snprintf(name, 128, "%s.%s", r->architecture->name, key);
    return find_pair_to_read(r->gguf, name);
}

static ota_status read_integer(const pair_reader *r, const ota_gguf_pair *pair, const char *name,
                               const ota_config_key *key, int64_t *field) {
    const char *path = r->gguf->shard.path;
    if (pair->type != OTA_GGUF_UINT32 && pair->type != OTA_GGUF_UINT64 &&
        pair->type != OTA_GGUF_INT32)
        return ota_refuse_at(r->error, path, pair->offset, "\"%s\" must be an integer", name);
    const uint64_t value =
        number_at(r->gguf->shard.map + pair->offset, (int)value_bytes[pair->type]);
    *field = value > INT32_MAX ? -1 : (int64_t)value;
    if (*field < (int64_t)key->least || *field > (int64_t)key->most)
        return ota_refuse_at(r->error, path, pair->offset, "\"%s\" lies outside %lld to %lld", name,
                             (long long)key->least, (long long)key->most);
    return OTA_OK;
}

static ota_status read_float(const pair_reader *r, const ota_gguf_pair *pair, const char *name,
                             double *out) {
    float value;
    if (pair->type != OTA_GGUF_FLOAT32)
        return ota_refuse_at(r->error, r->gguf->shard.path, pair->offset, "\"%s\" must be an f32",
                             name);
    memcpy(&value, r->gguf->shard.map + pair->offset, sizeof value);
    *out = (double)value;
    return OTA_OK;
}

static ota_status read_truth(const pair_reader *r, const ota_gguf_pair *pair, const char *name,
                             bool *out) {
    if (pair->type != OTA_GGUF_TRUTH)
        return ota_refuse_at(r->error, r->gguf->shard.path, pair->offset,
                             "\"%s\" must be true or false", name);
    *out = r->gguf->shard.map[pair->offset] != 0;
    return OTA_OK;
}

static ota_status read_key(const pair_reader *r, const ota_config_key *key, ota_config *config) {
    char name[128];
    void *field = (char *)config + key->offset;
    ota_config_set(config, key, key->gguf_standard);
    if (key->gguf == NULL) return OTA_OK;
    const ota_gguf_pair *pair = find_family(r, key->gguf, name);
    if (pair == NULL && key->gguf_standard == OTA_REQUIRED)
        return ota_refuse_at(r->error, r->gguf->shard.path, 0, "\"%s\" is missing", name);
    if (pair == NULL) return OTA_OK;
    switch (key->kind) {
    case OTA_KEY_INTEGER:
    case OTA_KEY_INTEGER_OR_NULL: return read_integer(r, pair, name, key, field);
    case OTA_KEY_REAL:
    case OTA_KEY_REAL_OR_NULL: return read_float(r, pair, name, field);
    case OTA_KEY_TRUTH: return read_truth(r, pair, name, field);
    case OTA_KEY_NOT: break;
    }
    bool contrary = false;
    const ota_status status = read_truth(r, pair, name, &contrary);
    if (status == OTA_OK) *(bool *)field = !contrary;
    return status;
}

/* The number of words is that of the embedding's rows. */
static ota_status count_words(const ota_gguf *gguf, ota_config *config, ota_error *error) {
    const ota_tensor *embedding = NULL;
    for (int64_t k = -1; k < gguf->rest_count && embedding == NULL; k++) {
        const ota_tensors *table = k < 0 ? gguf->shard.table : gguf->rest[k].table;
        for (size_t i = 0; i < table->count && embedding == NULL; i++)
            if (strcmp(table->tensors[i].name, "token_embd.weight") == 0)
                embedding = &table->tensors[i];
    }
    if (embedding != NULL && embedding->rank == 2 && embedding->shape[0] >= 1 &&
        embedding->shape[0] <= 1 << 20) {
        config->sizes[OTA_SIZE_VOCABULARY] = embedding->shape[0];
        return OTA_OK;
    }
    return ota_refuse_at(error, gguf->shard.path, 0,
                         "token_embd.weight must be a matrix of 1 to 2^20 rows");
}

/* The text of a value that is one: its bytes up to `size`, numbers; "" of an array. */
static void show_value(const ota_gguf *gguf, const ota_gguf_pair *pair, char *text, size_t size) {
    const unsigned char *at = gguf->shard.map + pair->offset;
    const int bytes = (int)value_bytes[pair->type];
    text[0] = '\0';
    if (pair->type == OTA_GGUF_STRING) {
        const uint64_t length = number_at(at, 8);
        const size_t used = length < size ? (size_t)length : size - 1;
        memcpy(text, at + 8, used);
        text[used] = '\0';
    } else if (pair->type == OTA_GGUF_TRUTH) {
        (void)ota_snprintf(text, size, "%s", *at != 0 ? "true" : "false");
    } else if (pair->type == OTA_GGUF_FLOAT32) {
        float value;
        memcpy(&value, at, sizeof value);
        (void)ota_snprintf(text, size, "%.9g", (double)value);
    } else if (pair->type == OTA_GGUF_FLOAT64) {
        double value;
        memcpy(&value, at, sizeof value);
        (void)ota_snprintf(text, size, "%.15g", value);
    } else if (bytes > 0) {
        const uint64_t number = number_at(at, bytes), sign = (uint64_t)1 << (8 * bytes - 1);
        if (is_signed(pair->type) && (number & sign) != 0)
            (void)ota_snprintf(text, size, "-%" PRIu64, (uint64_t)(2 * sign - number));
        else
            (void)ota_snprintf(text, size, "%" PRIu64, number);
    }
}

/* Every pair was read or is a row of ignored.c. */
static ota_status refuse_rest(const pair_reader *r) {
    const char *family = r->architecture->name, *path = r->gguf->shard.path;
    const size_t length = strlen(family);
    for (int64_t i = 0; i < r->gguf->pair_count; i++) {
        const ota_gguf_pair *pair = &r->gguf->pairs[i];
        char key[KEY_MOST + 1], text[64];
        if (pair->read) continue;
        memcpy(key, pair->key, pair->key_size);
        key[pair->key_size] = '\0';
        const bool own = strncmp(key, family, length) == 0 && key[length] == '.';
        const ota_ignored *row =
            ota_ignored_find(OTA_IGNORED_GGUF, r->architecture, own ? key + length : key);
        show_value(r->gguf, pair, text, sizeof text);
        if (row != NULL && ota_ignored_takes(row, text)) continue;
        if (row != NULL) {
            (void)ota_refuse_at(r->error, path, pair->offset,
                                "\"%.80s\" is \"%s\", and such models are not run", key, text);
            return ota_advise(r->error, OTA_UNSUPPORTED, "%s is the value that is", row->values);
        }
        (void)ota_refuse_at(r->error, path, pair->offset, "\"%.80s\" is no key that %s files have",
                            key, family);
        return ota_advise(r->error, OTA_UNSUPPORTED,
                          "write the file without it if the model does not depend on it");
    }
    return OTA_OK;
}

static ota_status refuse_type(const pair_reader *r, const ota_gguf_pair *pair, const char *word) {
    (void)ota_refuse_at(r->error, r->gguf->shard.path, pair->offset,
                        "rotary positions of type \"%.40s\" are not known", word);
    return ota_advise(r->error, OTA_UNSUPPORTED,
                      "none, linear, yarn, longrope and rope_freqs are carried out");
}

/* What yarn and longrope say beside their factor; the files of others may hold the original context, without effect. */
static ota_status read_stretch(const pair_reader *r, ota_rope_scaling *scaling, double *attention) {
    char name[128];
    const ota_config_key whole = {.least = 1, .most = 1e9};
    int64_t original = 0;
    if (scaling->kind != OTA_ROPE_YARN && scaling->kind != OTA_ROPE_LONG) return OTA_OK;
    const ota_gguf_pair *pair = find_family(r, "rope.scaling.original_context_length", name);
    ota_status status = pair != NULL ? read_integer(r, pair, name, &whole, &original) : OTA_OK;
    if (original > 0) scaling->original = (double)original;
    pair = find_family(r, "rope.scaling.attn_factor", name);
    if (status == OTA_OK && pair != NULL) status = read_float(r, pair, name, attention);
    scaling->low = 1;
    scaling->high = 32;
    scaling->whole = true;
    pair = find_family(r, "rope.scaling.yarn_beta_slow", name);
    if (status == OTA_OK && pair != NULL) status = read_float(r, pair, name, &scaling->low);
    pair = find_family(r, "rope.scaling.yarn_beta_fast", name);
    if (status == OTA_OK && pair != NULL) status = read_float(r, pair, name, &scaling->high);
    return status;
}

/* A factor without a type is linear, and the key of older files is the same number. Files of llama3 scaling hold the
 * divisors of its frequencies as a tensor and no type. */
static ota_status read_scaling(const pair_reader *r, ota_rope_scaling *scaling) {
    char name[128], older_name[128], word[16] = "linear";
    const char *path = r->gguf->shard.path;
    const ota_gguf_pair *type = find_family(r, "rope.scaling.type", name);
    const ota_gguf_pair *older = find_family(r, "rope.scale_linear", older_name);
    if (type != NULL && type->type != OTA_GGUF_STRING)
        return ota_refuse_at(r->error, path, type->offset, "\"%s\" must be a text", name);
    if (type != NULL) show_value(r->gguf, type, word, sizeof word);
    if (!ota_rope_named(word, &scaling->kind) || scaling->kind == OTA_ROPE_LLAMA3)
        return refuse_type(r, type, word);
    double factors[2] = {0, 0}, attention = 1;
    const ota_gguf_pair *factor = find_family(r, "rope.scaling.factor", name);
    ota_status status = factor != NULL ? read_float(r, factor, name, &factors[0]) : OTA_OK;
    if (status == OTA_OK && older != NULL) status = read_float(r, older, older_name, &factors[1]);
    if (status == OTA_OK) status = read_stretch(r, scaling, &attention);
    if (status != OTA_OK) return status;
    if (factor != NULL && older != NULL && factors[0] != factors[1])
        return ota_refuse_at(r->error, path, older->offset, "\"%s\" and \"%s\" differ", name,
                             older_name);
    const ota_gguf_pair *given = factor != NULL ? factor : older;
    if (scaling->kind == OTA_ROPE_LINEAR && type == NULL && given == NULL)
        scaling->kind = OTA_ROPE_PLAIN;
    scaling->factor = factor != NULL ? factors[0] : factors[1];
    /* Programs of that format multiply yarn's own number by the factor of the file. */
    if (scaling->kind == OTA_ROPE_YARN)
        scaling->attention = attention * (1 + 0.1 * log(scaling->factor > 1 ? scaling->factor : 1));
    else if (scaling->kind == OTA_ROPE_LONG)
        scaling->attention = attention;
    const char *fault = ota_rope_fault(scaling);
    if (fault == NULL) return OTA_OK;
    return ota_refuse_at(r->error, path, given != NULL ? given->offset : type->offset, "%s: %s",
                         name, fault);
}

static ota_status find_architecture(const ota_gguf *gguf, const ota_architecture **architecture,
                                    ota_error *error) {
    const ota_gguf_pair *pair = find_pair_to_read(gguf, "general.architecture");
    char name[64] = "";
    if (pair == NULL || pair->type != OTA_GGUF_STRING)
        return ota_refuse_at(error, gguf->shard.path, 0,
                             "general.architecture must name the architecture");
    const uint64_t size = number_at(gguf->shard.map + pair->offset, 8);
    if (size < sizeof name) memcpy(name, gguf->shard.map + pair->offset + 8, (size_t)size);
    *architecture = ota_architecture_named(name, true);
    if (*architecture != NULL) return OTA_OK;
    (void)ota_refuse_at(error, gguf->shard.path, pair->offset,
                        "the architecture \"%.40s\" is not known", name);
    char known[512];
    ota_architecture_list(true, known, sizeof known);
    return ota_advise(error, OTA_UNSUPPORTED, "%s checkpoints can be read", known);
}

ota_status ota_gguf_config(const ota_gguf *gguf, const ota_architecture **architecture,
                           ota_config *config, ota_error *error) {
    *config = (ota_config){0};
    ota_status status = find_architecture(gguf, architecture, error);
    if (status != OTA_OK) return status;
    const ota_architecture *row = *architecture;
    const pair_reader r = {.gguf = gguf, .architecture = row, .error = error};
    const ota_config_key *key;
    for (int i = 0; status == OTA_OK && (key = ota_architecture_key(row, i)) != NULL; i++)
        status = read_key(&r, key, config);
    if (status != OTA_OK) return status;
    config->activation = row->activation;
    config->rope.interleaved = ota_architecture_has(row, OTA_ARCH_INTERLEAVED_GGUF);
    if (row->wide_layers != 0 && config->layers == row->wide_layers)
        config->query_scalar = config->sizes[OTA_SIZE_WIDTH] / config->heads;
    if (config->rope.scaling.original == 0)
        config->rope.scaling.original = (double)config->sizes[OTA_SIZE_POSITIONS];
    if (ota_architecture_has(row, OTA_ARCH_ROTARY))
        status = read_scaling(&r, &config->rope.scaling);
    if (status == OTA_OK) status = refuse_rest(&r);
    if (status == OTA_OK) status = count_words(gguf, config, error);
    if (status == OTA_OK) status = ota_config_finish(row, config, gguf->shard.path, error);
    return status;
}
