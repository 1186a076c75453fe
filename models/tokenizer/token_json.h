/* Reading JSON text piece by piece, so that a hostile file never becomes a tree many times its size:
 * the large members (vocabulary, merges, added tokens) are read in place, and only spans of bounded
 * size are handed to jansson. Every error names the byte. */
#ifndef OTATTN_MODELS_TOKEN_JSON_H
#define OTATTN_MODELS_TOKEN_JSON_H

#include <jansson.h>

#include "tokenizer_parts.h"

enum {
    OTA_TOKEN_JSON_DEPTH = 64,
    /* bytes that may become trees, all together; jansson takes up to fifty times as many */
    OTA_TOKEN_JSON_TREES = 1 << 20,
    /* what each of them counts for in looks, besides its letters */
    OTA_TOKEN_JSON_TREE = 16
};

typedef struct ota_token_json {
    const ota_token_file *file;
    size_t at, end; /* what is still to be read */
    size_t trees;   /* bytes given to jansson so far */
    ota_error *error;
} ota_token_json;

/* A reader of one span of the same file. */
ota_token_json ota_token_json_within(const ota_token_json *json, ota_text span);
ota_status ota_token_json_refuse(const ota_token_json *json, size_t at, const char *rule);
/* The opening bracket, { or [. */
ota_status ota_token_json_open(ota_token_json *json, char bracket);
/* Before every member or element, with *first true before the first: *more false after the last one,
 * and the closing bracket has been read. */
ota_status ota_token_json_next(ota_token_json *json, char bracket, bool *first, bool *more);
/* Appends the string's characters. */
ota_status ota_token_json_string(ota_token_json *json, ota_token_buffer *out);
/* A string and the colon after it. */
ota_status ota_token_json_key(ota_token_json *json, ota_token_buffer *out);
ota_status ota_token_json_integer(ota_token_json *json, int64_t *value);
/* Any finite number. */
ota_status ota_token_json_number(ota_token_json *json, double *value);
/* Over any value; only strings, brackets and depth are looked at. */
ota_status ota_token_json_skip(ota_token_json *json, ota_text *span);
/* The tree of a span; strict, without repeated keys. The caller drops the reference. */
ota_status ota_token_json_tree(ota_token_json *json, ota_text span, json_t **tree);
/* Spans of the named members of an object; the others become trees in `small`, counted by `trees`. */
ota_status ota_token_json_members(ota_token_json *json, ota_token_json *trees,
                                  const char *const *names, int count, ota_text *spans,
                                  json_t *small);
/* Base64, as JSON spells bytes, appended to *blob; false where it is none. */
bool ota_token_base64(const char *text, size_t size, ota_token_buffer *blob, bool *no_memory);
/* Only blanks may be left. */
ota_status ota_token_json_finish(ota_token_json *json);
static inline int64_t ota_token_json_place(const ota_token_json *json, ota_text span) {
    return span.data - json->file->text;
}

/* {"piece": id, ...} appended to `list` (tokenizer_json.c). */
ota_status ota_token_read_vocabulary(ota_token_json json, ota_token_list *list);

/* ---- the small members of tokenizer.json (tokenizer_steps.c, tokenizer_ends.c), each a tree at a place in the file ---- */

typedef struct ota_token_member {
    const char *path;
    int64_t offset;
    const ota_token_settings *settings; /* that lie over the file */
    ota_error *error;
} ota_token_member;

/* Refuses a key of `tree` that is not one of `keys`, "name:kind name:kind" with the kinds b true or false,
 * s text, n integer, a list, o object, x any; null is as good as no key. `what` is named. */
ota_status ota_token_keys(const json_t *tree, const char *keys, const ota_token_member *member,
                          const char *what);

enum { OTA_TOKEN_STEPS_DEPTH = 4 };
#define OTA_TOKEN_METASPACE_KEYS                                                                   \
    "type:s replacement:s prepend_scheme:s add_prefix_space:b split:b str_rep:s"

/* The type of an object, "" where it has none. */
const char *ota_token_type(const json_t *tree);
ota_status ota_token_refuse(const ota_token_member *member, ota_status status, const char *what,
                            const char *name);
ota_status ota_token_too_many(const ota_token_member *member);
/* true where the key is absent and `standard` is. */
bool ota_token_setting(const json_t *tree, const char *key, bool standard);
/* The member "pattern" of `tree`, compiled. */
ota_status ota_token_pattern(const json_t *tree, const char *what, const ota_token_member *member,
                             void **found);
/* What Metaspace says: which pieces a sign is put in front of, and the sign. */
ota_status ota_token_scheme(const json_t *tree, const ota_token_member *member, ota_cut_rule *rule,
                            const char **sign);

ota_status ota_token_normalizer(ota_tokenizer *tokenizer, const json_t *tree,
                                const ota_token_member *member, int depth);
/* *byte_level: set when the last step was ByteLevel. */
ota_status ota_token_pre_tokenizer(ota_tokenizer *tokenizer, const json_t *tree,
                                   const ota_token_member *member, int depth, bool *byte_level);
ota_status ota_token_post_processor(ota_tokenizer *tokenizer, const json_t *tree,
                                    const ota_token_member *member, int depth);
ota_status ota_token_decoder(ota_tokenizer *tokenizer, const json_t *tree,
                             const ota_token_member *member, int depth);

#endif
