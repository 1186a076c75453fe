/* The .safetensors format.
 *
 *   bytes 0-7 header length N, little-endian | N bytes of JSON | data, little-endian
 *   header: {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [n, m],
 *            "data_offsets": [begin, end]}, ...}   of the data; end - begin = the tensor's bytes
 *
 * jansson parses, one member of the top object at a time: a whole hostile header as one tree could
 * take seventy times its size. Cutting at commas of the right depth needs only strings and brackets
 * told apart; whatever is cut wrong, jansson refuses. Tensors tile the data without hole, overlap
 * or rest. Source: the safetensors format note; limits from the project's loader rules. */
#define _POSIX_C_SOURCE 200809L
#include "json_text.h"
#include "weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef ota_tensors header;

enum { HEADER_START = 8, MEMBER_MOST = 1 << 16, DEPTH_MOST = 64 };
/* What a member counts for in looks, besides its letters. */
enum { MEMBER_WORK = 4 };

static ota_status refuse(const header *head, const char *at, const char *rule, ota_error *error) {
    return ota_refuse_at(error, head->path, HEADER_START + (at - head->text), "%s", rule);
}

/* ---- element types ---- */

typedef struct element_type {
    const char *word;
    unsigned bits;
} element_type;

static const element_type *type_of(const char *word) {
    static const element_type types[] = {
        {"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"BOOL", 8},
        {"I64", 64},    {"I32", 32},    {"I16", 16},    {"I8", 8},      {"U64", 64},
        {"U32", 32},    {"U16", 16},    {"U8", 8},      {"C64", 64},    {"F8_E4M3", 8},
        {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].word, word) == 0) return &types[i];
    return NULL;
}

static ota_status bytes_of(const header *head, const char *member, int64_t count, unsigned bits,
                           int64_t *bytes, ota_error *error) {
    int64_t total;
    if (__builtin_mul_overflow(count, (int64_t)bits, &total)) {
        *bytes = INT64_MAX; /* more than any file holds, so no length check can pass */
        return 0;
    }
    if (total % 8 != 0) return refuse(head, member, "the elements do not fill whole bytes", error);
    *bytes = total / 8;
    return 0;
}

/* ---- cutting an object into members ---- */

typedef struct cutter {
    const header *head;
    const char *at, *end; /* what is left of the object's text, after its opening brace */
    int depth;            /* of the object itself; the top object has 1 */
    bool first, done;
} cutter;

static bool is_blank(char character) {
    return character == ' ' || character == '\t' || character == '\n' || character == '\r';
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && is_blank(*at)) at++;
    return at;
}

static const char *skip_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

static ota_status open_cutter(const header *head, const char *text, size_t size, int depth,
                              cutter *cut, ota_error *error) {
    *cut = (cutter){.head = head,
                    .at = skip_blanks(text, text + size),
                    .end = text + size,
                    .depth = depth,
                    .first = true};
    if (cut->at == cut->end || *cut->at != '{')
        return refuse(head, text,
                      depth == 1 ? "the header must be a JSON object"
                                 : "__metadata__ must be a JSON object",
                      error);
    cut->at++;
    return 0;
}

/* The text of the next member without its comma; *size = 0 after the last. */
static ota_status cut_member(cutter *cut, const char **member, size_t *size, ota_error *error) {
    *size = 0;
    if (cut->done) return 0;
    const char *start = skip_blanks(cut->at, cut->end), *at = start;
    int depth = cut->depth;
    while (at < cut->end) {
        char character = *at;
        if (character == '"') {
            at = skip_string(at, cut->end);
            continue;
        }
        if (character == '-' && at + 1 < cut->end && at[1] == '0')
            return refuse(cut->head, at, "a number must be an exact integer, which -0 is not",
                          error);
        if (character == '{' || character == '[') {
            if (++depth > DEPTH_MOST)
                return refuse(cut->head, at, "the JSON is nested more than 64 deep", error);
        } else if (character == '}' || character == ']') {
            if (--depth < cut->depth) break;
        } else if (character == ',' && depth == cut->depth)
            break;
        at++;
    }
    if (at == cut->end) return refuse(cut->head, at, "the JSON object is not closed", error);
    if (*at == ']') return refuse(cut->head, at, "a bracket closes a JSON object", error);
    cut->done = *at == '}';
    cut->at = at + 1;
    *member = start;
    *size = (size_t)(at - start);
    if (*size == 0 && !(cut->first && cut->done))
        return refuse(cut->head, at, "a member of the JSON object is missing", error);
    cut->first = false;
    const char *rest = skip_blanks(cut->at, cut->end);
    if (cut->done && rest != cut->end)
        return refuse(cut->head, rest, "only blanks may follow the JSON object", error);
    return 0;
}

/* One member as an object of its own; jansson sees exactly the member's bytes between braces. */
static ota_status parse_member(const header *head, const char *member, size_t size, json_t **out,
                               ota_error *error) {
    char small[512], *text = small;
    if (size + 2 > sizeof small && (text = malloc(size + 2)) == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a header's entry");
    text[0] = '{';
    memcpy(text + 1, member, size);
    text[size + 1] = '}';
    json_error_t cause;
    bool no_memory;
    *out = ota_json_text(text, size + 2, JSON_REJECT_DUPLICATES, head->ending, &cause, &no_memory);
    if (text != small) free(text);
    const ota_status looked = ota_look(head->ending, *out != NULL ? MEMBER_WORK : 0, error);
    if (looked != OTA_OK) {
        json_decref(*out);
        return looked;
    }
    if (no_memory) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a header's entry");
    if (*out == NULL) {
        int64_t place = cause.position > 1 ? (int64_t)cause.position - 2 : 0;
        return ota_refuse_at(error, head->path,
                             HEADER_START + (member - head->text) +
                                 (place < (int64_t)size ? place : (int64_t)size),
                             "not valid JSON: %.120s", cause.text);
    }
    if (json_object_size(*out) != 1) {
        json_decref(*out);
        return refuse(head, member, "a member of the JSON object is missing", error);
    }
    return 0;
}

/* ---- one tensor ---- */

ota_status ota_tensors_add(ota_tensors *table, const ota_tensor *tensor, const char *name,
                           ota_error *error) {
    if (table->count == table->room) {
        const size_t room = table->room == 0 ? 64 : 2 * table->room;
        ota_tensor *grown = realloc(table->tensors, room * sizeof *grown);
        if (grown == NULL)
            return ota_refuse(error, OTA_ENOMEM, "no memory is left for a file's tensors");
        table->tensors = grown;
        table->room = room;
    }
    ota_tensor one = *tensor;
    one.name = strdup(name);
    if (one.name == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a file's names");
    table->tensors[table->count++] = one;
    return OTA_OK;
}

static ota_status read_integers(const header *head, const char *member, const json_t *list,
                                size_t most, const char *what, int64_t *out, int *count,
                                ota_error *error) {
    int64_t place = HEADER_START + (member - head->text);
    const char *path = head->path;
    if (!json_is_array(list)) return ota_refuse_at(error, path, place, "%s must be a list", what);
    if (json_array_size(list) > most) {
        ota_refuse_at(error, path, place, "%s has more than %zu numbers", what, most);
        return most == OTA_TENSOR_RANK ? OTA_ELIMIT : OTA_EFORMAT;
    }
    *count = (int)json_array_size(list);
    for (int i = 0; i < *count; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            return ota_refuse_at(error, path, place, "%s must hold integers of at least 0", what);
        out[i] = json_integer_value(number);
    }
    return 0;
}

static ota_status read_tensor(header *head, const char *member, const char *name,
                              const json_t *entry, ota_error *error) {
    const char *path = head->path;
    int64_t place = HEADER_START + (member - head->text);
    if (!ota_name_is_valid(name, strlen(name)))
        return ota_refuse_at(error, path, place,
                             "a name must be 1 to %d bytes without control characters",
                             OTA_TENSOR_NAME);
    const json_t *word = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape"),
                 *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_string(word) || shape == NULL || offsets == NULL || json_object_size(entry) != 3)
        return refuse(head, member, "a tensor must have exactly dtype, shape and data_offsets",
                      error);
    const element_type *type = type_of(json_string_value(word));
    if (type == NULL)
        return ota_refuse_at(error, path, place, "safetensors has no dtype \"%.40s\"",
                             json_string_value(word));
    int64_t ends[2], bytes = 0;
    int ends_count = 0;
    ota_tensor one = {.place = place, .stored = type->word, .bits = type->bits};
    ota_status code =
        read_integers(head, member, shape, OTA_TENSOR_RANK, "shape", one.shape, &one.rank, error);
    if (code == 0)
        code = read_integers(head, member, offsets, 2, "data_offsets", ends, &ends_count, error);
    if (code == 0 && ends_count != 2)
        code = refuse(head, member, "data_offsets must hold begin and end", error);
    if (code == 0) code = ota_shape_check(one.shape, one.rank, path, place, &one.count, error);
    if (code == 0) code = bytes_of(head, member, one.count, type->bits, &bytes, error);
    if (code != 0) return code;
    if (ends[0] > ends[1] || ends[1] - ends[0] != bytes)
        return ota_refuse_at(error, path, place,
                             "shape and dtype make %" PRId64 " bytes, data_offsets say %" PRId64
                             " to %" PRId64,
                             bytes, ends[0], ends[1]);
    one.offset = ends[0];
    one.bytes = bytes;
    if (head->count == (size_t)head->limits.tensors) {
        ota_refuse_at(error, path, place, "the header holds more than the limit of %lld tensors",
                      (long long)head->limits.tensors);
        return OTA_ELIMIT;
    }
    return ota_tensors_add(head, &one, name, error);
}

/* ---- metadata ---- */

static int by_text(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static ota_status check_unique(const header *head, char **names, size_t count, ota_error *error) {
    const ota_status status = ota_sort(names, count, sizeof *names, by_text, head->ending, error);
    if (status != OTA_OK) return status;
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return ota_refuse_at(error, head->path, HEADER_START,
                                 "the header holds \"%.100s\" twice", names[i]);
    return 0;
}

/* Values may be long; strings of any length cost jansson a few times their size, trees do not. */
static bool is_string_pair(const char *member, size_t size) {
    const char *end = member + size, *at = member;
    if (*at != '"') return false;
    at = skip_blanks(skip_string(at, end), end);
    if (at == end || *at != ':') return false;
    at = skip_blanks(at + 1, end);
    return at < end && *at == '"' && skip_blanks(skip_string(at, end), end) == end;
}

typedef struct key_list {
    char **keys;
    size_t count;
} key_list;

static ota_status add_key(key_list *list, const char *key, ota_error *error) {
    if ((list->count & (list->count - 1)) == 0) { /* full at 0, 1, 2, 4, ...: double */
        size_t room = list->count == 0 ? 1 : 2 * list->count;
        char **grown = realloc(list->keys, room * sizeof *grown);
        if (grown == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for metadata");
        list->keys = grown;
    }
    list->keys[list->count] = strdup(key);
    if (list->keys[list->count] == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for metadata");
    list->count++;
    return 0;
}

static ota_status read_pair(const header *head, const char *member, size_t size, key_list *list,
                            const char *wanted, char **found, ota_error *error) {
    if (!is_string_pair(member, size))
        return refuse(head, member, "__metadata__ must hold strings only", error);
    json_t *pair;
    ota_status code = parse_member(head, member, size, &pair, error);
    if (code != 0) return code;
    const char *key = json_object_iter_key(json_object_iter(pair));
    code = add_key(list, key, error);
    if (code == 0 && wanted != NULL && *found == NULL && strcmp(key, wanted) == 0) {
        *found = strdup(json_string_value(json_object_get(pair, key)));
        if (*found == NULL) code = ota_refuse(error, OTA_ENOMEM, "no memory is left for metadata");
    }
    json_decref(pair);
    return code;
}

/* Checks every pair of the metadata; *found becomes a copy of the value of `wanted` (may be NULL).
 */
static ota_status read_metadata(const header *head, const char *wanted, char **found,
                                ota_error *error) {
    cutter cut;
    key_list list = {0};
    const char *member;
    size_t size = 1;
    ota_status code = open_cutter(head, head->metadata, head->metadata_size, 2, &cut, error);
    while (code == 0 && size > 0) {
        code = cut_member(&cut, &member, &size, error);
        if (code == 0 && size > 0)
            code = read_pair(head, member, size, &list, wanted, found, error);
    }
    if (code == 0) code = check_unique(head, list.keys, list.count, error);
    for (size_t i = 0; i < list.count; i++) free(list.keys[i]);
    free(list.keys);
    return code;
}

static const char metadata_word[] = "\"__metadata__\"";

/* Metadata may be long, so it is cut like the header itself. */
static ota_status note_metadata(header *head, const char *member, size_t size, ota_error *error) {
    const char *end = member + size, *at = skip_blanks(member + sizeof metadata_word - 1, end);
    if (at == end || *at != ':')
        return refuse(head, member, "a colon must follow __metadata__", error);
    if (head->has_metadata)
        return refuse(head, member, "the header holds __metadata__ twice", error);
    head->has_metadata = true;
    head->metadata = at + 1;
    head->metadata_size = (size_t)(end - at - 1);
    return read_metadata(head, NULL, NULL, error);
}

/* ---- the header ---- */

static ota_status read_member(header *head, const char *member, size_t size, ota_error *error) {
    const size_t word = sizeof metadata_word - 1;
    if (size >= word && memcmp(member, metadata_word, word) == 0)
        return note_metadata(head, member, size, error);
    if (size > MEMBER_MOST) {
        refuse(head, member, "a tensor's entry is longer than 65,536 bytes", error);
        return OTA_ELIMIT;
    }
    json_t *pair;
    ota_status code = parse_member(head, member, size, &pair, error);
    if (code != 0) return code;
    const char *name = json_object_iter_key(json_object_iter(pair));
    if (strcmp(name, "__metadata__") == 0)
        code = refuse(head, member, "__metadata__ must be written without escapes", error);
    else
        code = read_tensor(head, member, name, json_object_get(pair, name), error);
    json_decref(pair);
    return code;
}

static int by_offset(const void *left, const void *right) {
    const ota_tensor *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static ota_status check_tiling(header *head, ota_error *error) {
    const char *path = head->path;
    int64_t covered = 0, data_size = head->file_size - head->data;
    const ota_status status =
        ota_sort(head->tensors, head->count, sizeof *head->tensors, by_offset, head->ending, error);
    if (status != OTA_OK) return status;
    for (size_t i = 0; i < head->count; i++) {
        const ota_tensor *one = &head->tensors[i];
        if (one->offset != covered)
            return ota_refuse_at(error, path, one->place,
                                 "\"%.80s\" begins at data byte %" PRId64 ", %s, not at %" PRId64,
                                 one->name, one->offset,
                                 one->offset < covered ? "inside another tensor" : "after a hole",
                                 covered);
        covered += one->bytes;
    }
    if (covered != data_size)
        return ota_refuse_at(error, path, head->data,
                             "the tensors cover %" PRId64 " bytes and the file holds %" PRId64,
                             covered, data_size);
    return 0;
}

static int by_place(const void *left, const void *right) {
    int64_t a = ((const ota_tensor *)left)->place, b = ((const ota_tensor *)right)->place;
    return (a > b) - (a < b);
}

static ota_status check_names(const header *head, ota_error *error) {
    char **names = malloc((head->count + 1) * sizeof *names);
    if (names == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a header's names");
    for (size_t i = 0; i < head->count; i++) names[i] = (char *)(uintptr_t)head->tensors[i].name;
    ota_status code = check_unique(head, names, head->count, error);
    free(names);
    return code;
}

static ota_status read_members(header *head, ota_error *error) {
    cutter cut;
    ota_status code = open_cutter(head, head->text, (size_t)head->size, 1, &cut, error);
    if (code == 0 && head->text[0] != '{')
        return refuse(head, head->text, "the header must start with {", error);
    while (code == 0) {
        const char *member;
        size_t size;
        code = cut_member(&cut, &member, &size, error);
        if (code == 0 && size == 0) break;
        if (code == 0) code = read_member(head, member, size, error);
    }
    if (code == 0) code = check_tiling(head, error);
    if (code == 0) code = check_names(head, error);
    if (code == 0)
        code = ota_sort(head->tensors, head->count, sizeof *head->tensors, by_place, head->ending,
                        error);
    return code;
}

static ota_status read_header(header *head, const ota_file *file, ota_error *error) {
    unsigned char bytes[HEADER_START];
    if (file->size < HEADER_START)
        return ota_refuse_at(error, file->path, file->size,
                             "the file ends inside the 8 bytes of the header's length");
    ota_status code = ota_file_read_at(file, bytes, sizeof bytes, 0, error);
    if (code != 0) return code;
    uint64_t size = 0;
    for (int i = HEADER_START - 1; i >= 0; i--) size = size << 8 | bytes[i];
    if (size > (uint64_t)(file->size - HEADER_START))
        return ota_refuse_at(error, file->path, 0,
                             "the header's %" PRIu64 " bytes go beyond the end of the file", size);
    if (size > (uint64_t)head->limits.header_bytes) {
        ota_refuse_at(error, file->path, 0,
                      "the header's %" PRIu64 " bytes are above the limit of %lld", size,
                      (long long)head->limits.header_bytes);
        return OTA_ELIMIT;
    }
    head->size = (int64_t)size;
    head->data = HEADER_START + head->size;
    head->text = malloc((size_t)size + 1);
    if (head->text == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a header");
    head->text[size] = '\0';
    code = ota_file_read_at(file, head->text, (size_t)size, HEADER_START, error);
    if (code == 0) code = read_members(head, error);
    for (size_t i = 0; i < head->count; i++) head->tensors[i].offset += head->data;
    return code;
}

ota_status ota_safetensors_open(ota_tensors **table, int descriptor, int64_t size, const char *path,
                                const ota_tensor_limits *limits, ota_error *error) {
    *table = NULL;
    header *head = calloc(1, sizeof *head);
    if (head == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a header");
    ota_ending ending = ota_ending_of(limits);
    const ota_file file = {.descriptor = descriptor, .size = size, .path = path, .ending = &ending};
    head->ending = &ending;
    head->path = path;
    head->file_size = size;
    if (limits != NULL) head->limits = *limits;
    if (head->limits.header_bytes <= 0) head->limits.header_bytes = 100000000;
    if (head->limits.tensors <= 0) head->limits.tensors = 1000000;
    const ota_status status = read_header(head, &file, error);
    head->path = "";
    head->ending = NULL;
    if (!head->has_metadata) {
        free(head->text);
        head->text = NULL;
    }
    if (status == OTA_OK)
        *table = head;
    else
        ota_tensors_free(head);
    return status;
}

void ota_tensors_free(ota_tensors *table) {
    if (table == NULL) return;
    for (size_t i = 0; i < table->count; i++) free((char *)(uintptr_t)table->tensors[i].name);
    free(table->tensors);
    free(table->text);
    free(table);
}

int64_t ota_tensors_count(const ota_tensors *table) { return (int64_t)table->count; }

const ota_tensor *ota_tensors_at(const ota_tensors *table, int64_t index) {
    return index >= 0 && index < (int64_t)table->count ? &table->tensors[index] : NULL;
}

ota_status ota_tensors_metadata(const ota_tensors *table, const char *key, char **value,
                                ota_error *error) {
    *value = NULL;
    if (!table->has_metadata) return OTA_OK;
    const ota_status status = read_metadata(table, key, value, error);
    if (status == OTA_OK) return OTA_OK;
    /* Found before a later pair failed. */
    free(*value);
    *value = NULL;
    return status;
}
