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
#include "files_formats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

typedef struct tensor {
    char *name;
    const tool_stored *stored;
    int64_t begin, end; /* of the data section */
    int64_t place;      /* file offset of the header's entry, for messages */
    int rank;
    int64_t shape[TOOL_MAX_RANK];
} tensor;

typedef struct header {
    const tool_file *file;
    char *text; /* the JSON */
    int64_t size;
    int64_t data; /* file offset of the data section */
    tensor *tensors;
    size_t count, room;
    bool has_metadata;
    const char *metadata; /* the text of the metadata object, inside `text` */
    size_t metadata_size;
} header;

enum { HEADER_START = 8, MEMBER_MOST = 1 << 16, DEPTH_MOST = 64 };

static int refuse(const header *head, const char *at, const char *rule, tool_error *error) {
    return tool_fail_at(error, head->file->path, HEADER_START + (at - head->text), "%s", rule);
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

static int open_cutter(const header *head, const char *text, size_t size, int depth, cutter *cut,
                       tool_error *error) {
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
static int cut_member(cutter *cut, const char **member, size_t *size, tool_error *error) {
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
static int parse_member(const header *head, const char *member, size_t size, json_t **out,
                        tool_error *error) {
    char small[512], *text = small;
    if (size + 2 > sizeof small && (text = malloc(size + 2)) == NULL)
        return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a header's entry");
    text[0] = '{';
    memcpy(text + 1, member, size);
    text[size + 1] = '}';
    json_error_t cause;
    *out = json_loadb(text, size + 2, JSON_REJECT_DUPLICATES, &cause);
    if (text != small) free(text);
    if (*out == NULL) {
        int64_t place = cause.position > 1 ? (int64_t)cause.position - 2 : 0;
        return tool_fail_at(error, head->file->path,
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

static int read_integers(const header *head, const char *member, const json_t *list, size_t most,
                         const char *what, int64_t *out, int *count, tool_error *error) {
    int64_t place = HEADER_START + (member - head->text);
    const char *path = head->file->path;
    if (!json_is_array(list)) return tool_fail_at(error, path, place, "%s must be a list", what);
    if (json_array_size(list) > most) {
        tool_fail_at(error, path, place, "%s has more than %zu numbers", what, most);
        return error->exit_code = most == TOOL_MAX_RANK ? TOOL_EXIT_LIMIT : TOOL_EXIT_FILE;
    }
    *count = (int)json_array_size(list);
    for (int i = 0; i < *count; i++) {
        const json_t *number = json_array_get(list, (size_t)i);
        if (!json_is_integer(number) || json_integer_value(number) < 0)
            return tool_fail_at(error, path, place, "%s must hold integers of at least 0", what);
        out[i] = json_integer_value(number);
    }
    return 0;
}

static int read_tensor(header *head, const char *member, const char *name, const json_t *entry,
                       tool_error *error) {
    const char *path = head->file->path;
    int64_t place = HEADER_START + (member - head->text);
    if (!tool_name_is_valid(name, strlen(name)))
        return tool_fail_at(error, path, place,
                            "a name must be 1 to %d bytes without control characters",
                            TOOL_MAX_NAME);
    const json_t *word = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape"),
                 *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_string(word) || shape == NULL || offsets == NULL || json_object_size(entry) != 3)
        return refuse(head, member, "a tensor must have exactly dtype, shape and data_offsets",
                      error);
    tensor one = {.place = place, .stored = tool_stored_by_safetensors(json_string_value(word))};
    if (one.stored == NULL)
        return tool_fail_at(error, path, place, "safetensors has no dtype \"%.40s\"",
                            json_string_value(word));
    int64_t ends[2];
    int ends_count = 0;
    size_t elements;
    int64_t bytes;
    int code =
        read_integers(head, member, shape, TOOL_MAX_RANK, "shape", one.shape, &one.rank, error);
    if (code == 0)
        code = read_integers(head, member, offsets, 2, "data_offsets", ends, &ends_count, error);
    if (code == 0 && ends_count != 2)
        code = refuse(head, member, "data_offsets must hold begin and end", error);
    if (code == 0)
        code = tool_shape_check(one.shape, one.rank, one.stored->bits, path, place, &elements,
                                &bytes, error);
    if (code != 0) return code;
    one.begin = ends[0];
    one.end = ends[1];
    if (one.begin > one.end || one.end - one.begin != bytes)
        return tool_fail_at(error, path, place,
                            "shape and dtype make %" PRId64 " bytes, data_offsets say %" PRId64
                            " to %" PRId64,
                            bytes, one.begin, one.end);
    if (head->count == (size_t)head->file->limits.safetensors_tensors) {
        tool_fail_at(error, path, place, "the header holds more than the limit of %lld tensors",
                     (long long)head->file->limits.safetensors_tensors);
        return error->exit_code = TOOL_EXIT_LIMIT;
    }
    if (head->count == head->room) {
        size_t room = head->room == 0 ? 64 : 2 * head->room;
        tensor *grown = realloc(head->tensors, room * sizeof *grown);
        if (grown == NULL)
            return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a header's tensors");
        head->tensors = grown;
        head->room = room;
    }
    one.name = strdup(name);
    if (one.name == NULL)
        return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a header's names");
    head->tensors[head->count++] = one;
    return 0;
}

/* ---- metadata ---- */

static int by_text(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int check_unique(const header *head, char **names, size_t count, tool_error *error) {
    if (count > 1) qsort(names, count, sizeof *names, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return tool_fail_at(error, head->file->path, HEADER_START,
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

static int add_key(key_list *list, const char *key, tool_error *error) {
    if ((list->count & (list->count - 1)) == 0) { /* full at 0, 1, 2, 4, ...: double */
        size_t room = list->count == 0 ? 1 : 2 * list->count;
        char **grown = realloc(list->keys, room * sizeof *grown);
        if (grown == NULL)
            return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for metadata");
        list->keys = grown;
    }
    list->keys[list->count] = strdup(key);
    if (list->keys[list->count] == NULL)
        return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for metadata");
    list->count++;
    return 0;
}

static int read_pair(const header *head, const char *member, size_t size, key_list *list,
                     const char *wanted, char **found, tool_error *error) {
    if (!is_string_pair(member, size))
        return refuse(head, member, "__metadata__ must hold strings only", error);
    json_t *pair;
    int code = parse_member(head, member, size, &pair, error);
    if (code != 0) return code;
    const char *key = json_object_iter_key(json_object_iter(pair));
    code = add_key(list, key, error);
    if (code == 0 && wanted != NULL && *found == NULL && strcmp(key, wanted) == 0) {
        *found = strdup(json_string_value(json_object_get(pair, key)));
        if (*found == NULL)
            code = tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for metadata");
    }
    json_decref(pair);
    return code;
}

/* Checks every pair of the metadata; *found becomes a copy of the value of `wanted` (may be NULL).
 */
static int read_metadata(const header *head, const char *wanted, char **found, tool_error *error) {
    cutter cut;
    key_list list = {0};
    const char *member;
    size_t size = 1;
    int code = open_cutter(head, head->metadata, head->metadata_size, 2, &cut, error);
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
static int note_metadata(header *head, const char *member, size_t size, tool_error *error) {
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

static int read_member(header *head, const char *member, size_t size, tool_error *error) {
    const size_t word = sizeof metadata_word - 1;
    if (size >= word && memcmp(member, metadata_word, word) == 0)
        return note_metadata(head, member, size, error);
    if (size > MEMBER_MOST) {
        refuse(head, member, "a tensor's entry is longer than 65,536 bytes", error);
        return error->exit_code = TOOL_EXIT_LIMIT;
    }
    json_t *pair;
    int code = parse_member(head, member, size, &pair, error);
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
    const tensor *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static int check_tiling(header *head, tool_error *error) {
    const char *path = head->file->path;
    int64_t covered = 0, data_size = head->file->size - head->data;
    if (head->count > 1) qsort(head->tensors, head->count, sizeof *head->tensors, by_offset);
    for (size_t i = 0; i < head->count; i++) {
        const tensor *one = &head->tensors[i];
        if (one->begin != covered)
            return tool_fail_at(error, path, one->place,
                                "\"%.80s\" begins at data byte %" PRId64 ", %s, not at %" PRId64,
                                one->name, one->begin,
                                one->begin < covered ? "inside another tensor" : "after a hole",
                                covered);
        covered = one->end;
    }
    if (covered != data_size)
        return tool_fail_at(error, path, head->data,
                            "the tensors cover %" PRId64 " bytes and the file holds %" PRId64,
                            covered, data_size);
    return 0;
}

static int by_place(const void *left, const void *right) {
    int64_t a = ((const tensor *)left)->place, b = ((const tensor *)right)->place;
    return (a > b) - (a < b);
}

static int check_names(const header *head, tool_error *error) {
    char **names = malloc((head->count + 1) * sizeof *names);
    if (names == NULL)
        return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a header's names");
    for (size_t i = 0; i < head->count; i++) names[i] = head->tensors[i].name;
    int code = check_unique(head, names, head->count, error);
    free(names);
    return code;
}

static int read_members(header *head, tool_error *error) {
    cutter cut;
    int code = open_cutter(head, head->text, (size_t)head->size, 1, &cut, error);
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
    if (code == 0 && head->count > 1)
        qsort(head->tensors, head->count, sizeof *head->tensors, by_place);
    return code;
}

static void close_header(header *head) {
    for (size_t i = 0; i < head->count; i++) free(head->tensors[i].name);
    free(head->tensors);
    free(head->text);
}

static int open_header(const tool_file *file, header *head, tool_error *error) {
    *head = (header){.file = file};
    unsigned char bytes[HEADER_START];
    if (file->size < HEADER_START)
        return tool_fail_at(error, file->path, file->size,
                            "the file ends inside the 8 bytes of the header's length");
    int code = tool_file_read_at(file, bytes, sizeof bytes, 0, error);
    if (code != 0) return code;
    uint64_t size = 0;
    for (int i = HEADER_START - 1; i >= 0; i--) size = size << 8 | bytes[i];
    if (size > (uint64_t)(file->size - HEADER_START))
        return tool_fail_at(error, file->path, 0,
                            "the header's %" PRIu64 " bytes go beyond the end of the file", size);
    if (size > (uint64_t)file->limits.safetensors_header) {
        tool_fail_at(error, file->path, 0,
                     "the header's %" PRIu64 " bytes are above the limit of %lld", size,
                     (long long)file->limits.safetensors_header);
        return error->exit_code = TOOL_EXIT_LIMIT;
    }
    head->size = (int64_t)size;
    head->data = HEADER_START + head->size;
    head->text = malloc((size_t)size + 1);
    if (head->text == NULL)
        return tool_fail(error, TOOL_EXIT_LIMIT, "no memory is left for a header");
    head->text[size] = '\0';
    code = tool_file_read_at(file, head->text, (size_t)size, HEADER_START, error);
    if (code == 0) code = read_members(head, error);
    if (code != 0) close_header(head);
    return code;
}

/* ---- reading ---- */

static const char *tensor_name(const void *context, size_t index) {
    return ((const header *)context)->tensors[index].name;
}

static void describe(const tensor *one, tool_array *out) {
    out->rank = one->rank;
    memcpy(out->shape, one->shape, sizeof out->shape);
    snprintf(out->stored, sizeof out->stored, "%s", one->stored->safetensors);
    snprintf(out->name, sizeof out->name, "%s", one->name);
}

static int read_data(const header *head, const tensor *one, tool_array *out, tool_error *error) {
    const tool_file *file = head->file;
    if (one->stored->conversion == TOOL_UNREADABLE)
        return tool_fail_at(error, file->path, one->place,
                            "\"%.80s\" has dtype %s, which is not read", one->name,
                            one->stored->safetensors);
    int64_t bytes;
    describe(one, out);
    int code = tool_shape_check(out->shape, out->rank, one->stored->bits, file->path, one->place,
                                &out->count, &bytes, error);
    tool_stream stream = tool_stream_of_file(file, head->data + one->begin, head->data + one->end);
    if (code == 0) code = tool_stream_load(&stream, one->stored, false, false, out, error);
    return code != 0 ? code : tool_stream_finish(&stream, error);
}

int tool_safetensors_read(const tool_file *file, const char *name, tool_array *out,
                          tool_error *error) {
    header head;
    int code = open_header(file, &head, error);
    if (code != 0) return code;
    const tensor *found = name == NULL && head.count == 1 ? head.tensors : NULL;
    for (size_t i = 0; name != NULL && i < head.count; i++)
        if (strcmp(head.tensors[i].name, name) == 0) found = &head.tensors[i];
    code = found != NULL ? read_data(&head, found, out, error)
                         : tool_fail_names(error, file->path, name, head.count, tensor_name, &head);
    close_header(&head);
    return code;
}

int tool_safetensors_list(const tool_file *file, tool_listing *out, tool_error *error) {
    header head;
    int code = open_header(file, &head, error);
    if (code != 0) return code;
    for (size_t i = 0; code == 0 && i < head.count; i++) {
        tool_array array = {0};
        describe(&head.tensors[i], &array);
        code = tool_listing_add(out, &array, head.tensors[i].stored->type, error);
    }
    close_header(&head);
    return code;
}

int tool_safetensors_metadata(const char *path, const char *key, const tool_limits *limits,
                              char **value, tool_error *error) {
    *value = NULL;
    tool_file file;
    int code = tool_file_open(path, limits, &file, error);
    if (code != 0) return code;
    header head;
    code = open_header(&file, &head, error);
    if (code == 0) {
        if (head.has_metadata) code = read_metadata(&head, key, value, error);
        close_header(&head);
    }
    tool_file_close(&file);
    return code;
}
