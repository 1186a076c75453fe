/* The small members of tokenizer.json that stand at the ends: post_processor, what is set around a text, and decoder, how
 * ids become one. Each is an object with a type; types are rows of a table, Sequence holds a list of others. */
#include <stdlib.h>
#include <string.h>

#include "token_json.h"

/* ---- post_processor ---- */

static ota_status frame_id(ota_tokenizer *tokenizer, ota_token_frame *frame, const json_t *id,
                           const ota_token_member *member) {
    const int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    if (value < 0 || value >= tokenizer->vocabulary.count || frame->count == OTA_TOKEN_FRAME_MOST)
        return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                              "the post_processor's ids must be in the vocabulary, at most %d on "
                              "each side",
                              OTA_TOKEN_FRAME_MOST);
    frame->ids[frame->count++] = (int32_t)value;
    return OTA_OK;
}

/* {"single": [{"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, ...],
 *  "special_tokens": {"[CLS]": {"ids": [101]}}}; "pair" is for two texts. */
static ota_status template(ota_tokenizer *tokenizer, const json_t *tree,
                           const ota_token_member *member) {
    const json_t *single = json_object_get(tree, "single"),
                 *special = json_object_get(tree, "special_tokens");
    ota_token_frame *frame = &tokenizer->before;
    ota_status status = OTA_OK;
    for (size_t k = 0; k < json_array_size(single) && status == OTA_OK; k++) {
        const json_t *item = json_array_get(single, k),
                     *token = json_object_get(item, "SpecialToken");
        if (token == NULL && json_object_get(item, "Sequence") != NULL &&
            frame == &tokenizer->before) {
            frame = &tokenizer->after;
            continue;
        }
        if (token == NULL)
            return ota_token_fail(member->error, OTA_UNSUPPORTED, member->path, member->offset,
                                  "single must hold special tokens, and the text once");
        const char *name = json_string_value(json_object_get(token, "id"));
        const json_t *ids =
            name == NULL ? NULL : json_object_get(json_object_get(special, name), "ids");
        if (!json_is_array(ids))
            return ota_token_refuse(member, OTA_EFORMAT, "the special token",
                                    name == NULL ? "" : name);
        for (size_t i = 0; i < json_array_size(ids) && status == OTA_OK; i++)
            status = frame_id(tokenizer, frame, json_array_get(ids, i), member);
    }
    return status;
}

/* {"cls": ["[CLS]", 101], "sep": ["[SEP]", 102]} */
static ota_status pair(ota_tokenizer *tokenizer, const json_t *tree,
                       const ota_token_member *member) {
    const ota_status status = frame_id(tokenizer, &tokenizer->before,
                                       json_array_get(json_object_get(tree, "cls"), 1), member);
    if (status != OTA_OK) return status;
    return frame_id(tokenizer, &tokenizer->after, json_array_get(json_object_get(tree, "sep"), 1),
                    member);
}

static ota_status nothing(ota_tokenizer *tokenizer, const json_t *tree,
                          const ota_token_member *member) {
    (void)tokenizer;
    (void)tree;
    (void)member;
    return OTA_OK;
}

/* ByteLevel and what the others have of it only trim offsets, which are not kept here. */
static const struct {
    const char *type, *keys;
    ota_status (*frame)(ota_tokenizer *, const json_t *, const ota_token_member *);
} frame_rows[] = {
    {"TemplateProcessing", "type:s single:a pair:a special_tokens:o", template},
    {"BertProcessing", "type:s cls:a sep:a", pair},
    {"RobertaProcessing", "type:s cls:a sep:a trim_offsets:b add_prefix_space:b", pair},
    {"ByteLevel", "type:s add_prefix_space:b trim_offsets:b use_regex:b", nothing},
};

ota_status ota_token_post_processor(ota_tokenizer *tokenizer, const json_t *tree,
                                    const ota_token_member *member, int depth) {
    const char *type = ota_token_type(tree);
    if (depth > OTA_TOKEN_STEPS_DEPTH) return ota_token_too_many(member);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(tree, "processors");
        ota_status status = ota_token_keys(tree, "type:s processors:a", member, "a Sequence");
        for (size_t k = 0; k < json_array_size(list) && status == OTA_OK; k++)
            status =
                ota_token_post_processor(tokenizer, json_array_get(list, k), member, depth + 1);
        return status;
    }
    for (size_t k = 0; k < sizeof frame_rows / sizeof *frame_rows; k++) {
        if (strcmp(type, frame_rows[k].type) != 0) continue;
        const ota_status status = ota_token_keys(tree, frame_rows[k].keys, member, type);
        return status == OTA_OK ? frame_rows[k].frame(tokenizer, tree, member) : status;
    }
    return ota_token_refuse(member, OTA_UNSUPPORTED, "the post_processor", type);
}

/* ---- decoder ---- */

static ota_status undo_plain(ota_tokenizer *tokenizer, const json_t *tree,
                             const ota_token_member *member, ota_undo_kind kind, ota_undo **step) {
    const json_t *text = json_object_get(tree, kind == OTA_UNDO_WORDPIECE ? "prefix"
                                               : kind == OTA_UNDO_SUFFIX  ? "suffix"
                                                                          : "content");
    const char *standard = kind == OTA_UNDO_WORDPIECE ? "##"
                           : kind == OTA_UNDO_SUFFIX  ? "</w>"
                                                      : "";
    const char *chosen = json_is_string(text) ? json_string_value(text) : standard;
    *step = ota_tokenizer_undo(tokenizer, kind, chosen);
    if (*step == NULL) return ota_token_too_many(member);
    return (*step)->text != NULL ? OTA_OK : ota_token_no_memory(member->error);
}

static ota_status undo_wordpiece(ota_undo *step, const json_t *tree,
                                 const ota_token_member *member) {
    (void)member;
    step->count = ota_token_setting(tree, "cleanup", true);
    return OTA_OK;
}

static ota_status undo_replace(ota_undo *step, const json_t *tree, const ota_token_member *member) {
    return ota_token_pattern(tree, "Replace", member, &step->pattern);
}

static ota_status undo_strip(ota_undo *step, const json_t *tree, const ota_token_member *member) {
    step->count = json_integer_value(json_object_get(tree, "start"));
    step->last = json_integer_value(json_object_get(tree, "stop"));
    if (step->count >= 0 && step->last >= 0 && step->text_size > 0) return OTA_OK;
    return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                          "the decoder Strip needs a content, and start and stop of 0 or more");
}

static ota_status undo_metaspace(ota_undo *step, const json_t *tree,
                                 const ota_token_member *member) {
    ota_cut_rule rule = OTA_CUT_SPELL;
    const char *sign = "";
    const ota_status status = ota_token_scheme(tree, member, &rule, &sign);
    if (status != OTA_OK) return status;
    free(step->text);
    step->count = rule != OTA_CUT_SPELL;
    step->text_size = strlen(sign);
    step->text = malloc(step->text_size + 1);
    if (step->text == NULL) return ota_token_no_memory(member->error);
    memcpy(step->text, sign, step->text_size + 1);
    return OTA_OK;
}

static const struct {
    const char *type, *keys;
    ota_undo_kind kind;
    ota_status (*read)(ota_undo *, const json_t *, const ota_token_member *);
} undo_rows[] = {
    {"ByteLevel", "type:s add_prefix_space:b trim_offsets:b use_regex:b", OTA_UNDO_BYTES, NULL},
    {"ByteFallback", "type:s", OTA_UNDO_FALLBACK, NULL},
    {"Fuse", "type:s", OTA_UNDO_FUSE, NULL},
    {"Metaspace", OTA_TOKEN_METASPACE_KEYS, OTA_UNDO_SPELL, undo_metaspace},
    {"Strip", "type:s content:s start:n stop:n", OTA_UNDO_STRIP, undo_strip},
    {"Replace", "type:s pattern:o content:s", OTA_UNDO_REPLACE, undo_replace},
    {"WordPiece", "type:s prefix:s cleanup:b", OTA_UNDO_WORDPIECE, undo_wordpiece},
    {"BPEDecoder", "type:s suffix:s", OTA_UNDO_SUFFIX, NULL},
};

ota_status ota_token_decoder(ota_tokenizer *tokenizer, const json_t *tree,
                             const ota_token_member *member, int depth) {
    const char *type = ota_token_type(tree);
    if (depth > OTA_TOKEN_STEPS_DEPTH) return ota_token_too_many(member);
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(tree, "decoders");
        ota_status status = ota_token_keys(tree, "type:s decoders:a", member, "a Sequence");
        for (size_t k = 0; k < json_array_size(list) && status == OTA_OK; k++)
            status = ota_token_decoder(tokenizer, json_array_get(list, k), member, depth + 1);
        return status;
    }
    for (size_t k = 0; k < sizeof undo_rows / sizeof *undo_rows; k++) {
        if (strcmp(type, undo_rows[k].type) != 0) continue;
        ota_undo *step = NULL;
        ota_status status = ota_token_keys(tree, undo_rows[k].keys, member, type);
        if (status == OTA_OK)
            status = undo_plain(tokenizer, tree, member, undo_rows[k].kind, &step);
        return status == OTA_OK && undo_rows[k].read != NULL ? undo_rows[k].read(step, tree, member)
                                                             : status;
    }
    return ota_token_refuse(member, OTA_UNSUPPORTED, "the decoder", type);
}
