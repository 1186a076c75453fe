/* The small members of tokenizer.json: normalizer, pre_tokenizer, post_processor, decoder. Each is an
 * object with a type; types are rows of a table, Sequence holds a list of others. */
#include <string.h>

#include "token_json.h"
#include "token_settings.h"

enum { DEPTH_MOST = 4 };

/* ---- keys ---- */

static bool is_kind(const json_t *value, char kind) {
    switch (kind) {
    case 'b': return json_is_boolean(value);
    case 's': return json_is_string(value);
    case 'n': return json_is_integer(value);
    case 'a': return json_is_array(value);
    case 'o': return json_is_object(value);
    default: return true;
    }
}

static const char *kind_name(char kind) {
    return kind == 'b'   ? "true or false"
           : kind == 's' ? "a text"
           : kind == 'n' ? "an integer"
           : kind == 'a' ? "a list"
                         : "an object";
}

/* The kind of a key, NUL where it is none of them. */
static char kind_of(const char *keys, const char *key) {
    const size_t size = strlen(key);
    for (const char *at = keys; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, key, size) == 0 && at[size] == ':') return at[size + 1];
    }
    return '\0';
}

ota_status ota_token_keys(const json_t *tree, const char *keys, const ota_token_member *member,
                          const char *what) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
        const char kind = kind_of(keys, key);
        if (kind == '\0')
            return ota_token_fail(member->error, OTA_UNSUPPORTED, member->path, member->offset,
                                  "the key \"%.60s\" of %.60s is not known here; take it out where "
                                  "it has no effect on ids",
                                  key, what);
        if (!json_is_null(value) && !is_kind(value, kind))
            return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                                  "\"%.60s\" of %.60s must be %s", key, what, kind_name(kind));
    }
    return OTA_OK;
}

static const char *type_of(const json_t *tree) {
    const char *type = json_string_value(json_object_get(tree, "type"));
    return type == NULL ? "" : type;
}

static ota_status refuse(const ota_token_member *member, ota_status status, const char *what,
                         const char *name) {
    return ota_token_fail(member->error, status, member->path, member->offset,
                          "%s \"%.60s\" is not known here", what, name);
}

/* true where the key is absent and `standard` is. */
static bool setting(const json_t *tree, const char *key, bool standard) {
    const json_t *value = json_object_get(tree, key);
    return json_is_boolean(value) ? json_is_true(value) : standard;
}

static ota_status too_many(const ota_token_member *member) {
    return ota_token_fail(member->error, OTA_ELIMIT, member->path, member->offset,
                          "more than %d steps, or lists in lists more than %d deep",
                          OTA_TOKEN_STEPS_MOST, DEPTH_MOST);
}

/* ---- normalizer ---- */

static const char plain_keys[] = "type:s";

static const struct {
    const char *type;
    ota_normal_kind kind;
} normal_rows[] = {{"NFC", OTA_NORMAL_NFC},
                   {"NFD", OTA_NORMAL_NFD},
                   {"NFKC", OTA_NORMAL_NFKC},
                   {"NFKD", OTA_NORMAL_NFKD},
                   {"Lowercase", OTA_NORMAL_LOWERCASE},
                   {"StripAccents", OTA_NORMAL_STRIP_MARKS}};

/* Whether a switch beside the file says otherwise than the file, where neither rules over the other. */
static ota_status contradiction(const ota_token_member *member, ota_token_switch which,
                                const char *key, bool of_file) {
    const ota_token_settings *settings = member->settings;
    const bool rules = settings->class == OTA_CLASS_FILE || settings->class == OTA_CLASS_UNSAID;
    if (rules || settings->switches[which] < 0 || (settings->switches[which] > 0) == of_file)
        return OTA_OK;
    return ota_token_settings_fail(settings, OTA_SETTINGS_CONFIG, OTA_UNSUPPORTED,
                                   "%s says otherwise than tokenizer.json, where it is %s; make "
                                   "them equal",
                                   key, of_file ? "true" : "false");
}

static ota_status bert_normalizer(ota_tokenizer *tokenizer, const json_t *tree,
                                  const ota_token_member *member, int depth) {
    const ota_token_settings *settings = member->settings;
    ota_status status = ota_token_keys(
        tree, "type:s clean_text:b handle_chinese_chars:b strip_accents:b lowercase:b", member,
        "BertNormalizer");
    if (status != OTA_OK) return status;
    if (settings->class == OTA_CLASS_BERT && depth == 0)
        return ota_tokenizer_bert_switches(tokenizer, settings) ? OTA_OK : too_many(member);
    const bool lower = setting(tree, "lowercase", true),
               chinese = setting(tree, "handle_chinese_chars", true),
               accents = setting(tree, "strip_accents", lower);
    status = contradiction(member, OTA_SWITCH_LOWER, "do_lower_case", lower);
    if (status == OTA_OK)
        status = contradiction(member, OTA_SWITCH_ACCENTS, "strip_accents", accents);
    if (status == OTA_OK)
        status = contradiction(member, OTA_SWITCH_CHINESE, "tokenize_chinese_chars", chinese);
    if (status != OTA_OK) return status;
    return ota_tokenizer_bert_normal(tokenizer, setting(tree, "clean_text", true), chinese, accents,
                                     lower)
               ? OTA_OK
               : too_many(member);
}

/* The class of BERT has no normalisation but its own. */
static ota_status expect_bert(const ota_token_member *member, const char *what, const char *type,
                              const char *wanted, int depth) {
    if (member->settings->class != OTA_CLASS_BERT || depth > 0 || strcmp(type, wanted) == 0)
        return OTA_OK;
    return ota_token_fail(
        member->error, OTA_UNSUPPORTED, member->path, member->offset,
        "%s \"%.60s\" is not the %s that BertTokenizer has, which %s names", what, type, wanted,
        member->settings->class_file == OTA_SETTINGS_CONFIG ? "tokenizer_config.json"
                                                            : "config.json");
}

ota_status ota_token_normalizer(ota_tokenizer *tokenizer, const json_t *tree,
                                const ota_token_member *member, int depth) {
    const char *type = type_of(tree);
    if (depth > DEPTH_MOST) return too_many(member);
    ota_status status = expect_bert(member, "the normalizer", type, "BertNormalizer", depth);
    if (status != OTA_OK) return status;
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(tree, "normalizers");
        status = ota_token_keys(tree, "type:s normalizers:a", member, "a Sequence");
        for (size_t k = 0; k < json_array_size(list) && status == OTA_OK; k++)
            status = ota_token_normalizer(tokenizer, json_array_get(list, k), member, depth + 1);
        return status;
    }
    if (strcmp(type, "BertNormalizer") == 0) return bert_normalizer(tokenizer, tree, member, depth);
    for (size_t k = 0; k < sizeof normal_rows / sizeof *normal_rows; k++) {
        if (strcmp(type, normal_rows[k].type) != 0) continue;
        status = ota_token_keys(tree, plain_keys, member, type);
        if (status != OTA_OK) return status;
        return ota_tokenizer_normal(tokenizer, normal_rows[k].kind) ? OTA_OK : too_many(member);
    }
    return refuse(member, OTA_UNSUPPORTED, "the normalizer", type);
}

/* ---- pre_tokenizer ---- */

static const struct {
    const char *name;
    ota_cut_rule rule;
} rule_rows[] = {{"Isolated", OTA_CUT_ISOLATED},
                 {"Removed", OTA_CUT_REMOVED},
                 {"MergedWithPrevious", OTA_CUT_WITH_PREVIOUS},
                 {"MergedWithNext", OTA_CUT_WITH_NEXT},
                 {"Contiguous", OTA_CUT_CONTIGUOUS}};

static ota_status read_rule(const json_t *tree, const ota_token_member *member,
                            ota_cut_rule *rule) {
    const char *name = json_string_value(json_object_get(tree, "behavior"));
    if (name == NULL) name = "Isolated";
    for (size_t k = 0; k < sizeof rule_rows / sizeof *rule_rows; k++) {
        if (strcmp(name, rule_rows[k].name) != 0) continue;
        *rule = rule_rows[k].rule;
        return OTA_OK;
    }
    return refuse(member, OTA_UNSUPPORTED, "the behavior", name);
}

/* GPT-2's class says whether a blank is put in front, but where ByteLevel is one step of several. */
static ota_status byte_level(ota_tokenizer *tokenizer, const json_t *tree,
                             const ota_token_member *member, int depth) {
    const bool over = member->settings->class == OTA_CLASS_GPT2 && depth == 0,
               prefix = over ? ota_token_switch_on(member->settings, OTA_SWITCH_PREFIX, false)
                             : setting(tree, "add_prefix_space", true);
    ota_status status =
        over ? OTA_OK : contradiction(member, OTA_SWITCH_PREFIX, "add_prefix_space", prefix);
    if (status == OTA_OK && prefix)
        status = ota_tokenizer_cut(tokenizer, OTA_CUT_PREFIX_SPACE, false, NULL, member->error);
    if (status == OTA_OK && setting(tree, "use_regex", true))
        status = ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false, ota_cut_gpt2, member->error);
    return status;
}

static ota_status split(ota_tokenizer *tokenizer, const json_t *tree,
                        const ota_token_member *member, int depth) {
    (void)depth;
    const json_t *pattern = json_object_get(tree, "pattern"),
                 *regex = json_object_get(pattern, "Regex"),
                 *literal = json_object_get(pattern, "String"),
                 *text = json_is_string(regex) ? regex : literal;
    ota_cut_rule rule = OTA_CUT_ISOLATED;
    ota_status status = read_rule(tree, member, &rule);
    if (status != OTA_OK) return status;
    if (!json_is_string(text) || json_object_size(pattern) != 1)
        return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                              "Split needs a pattern, {\"Regex\": ...} or {\"String\": ...}");
    status =
        ota_tokenizer_cut(tokenizer, rule, setting(tree, "invert", false), NULL, member->error);
    if (status != OTA_OK) return status;
    return ota_cut_compile(&tokenizer->cuts[tokenizer->cut_count - 1],
                           (ota_text){json_string_value(text), json_string_length(text)},
                           text == literal, member->path, member->offset, member->error);
}

static ota_status digits(ota_tokenizer *tokenizer, const json_t *tree,
                         const ota_token_member *member, int depth) {
    (void)depth;
    return ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false,
                             setting(tree, "individual_digits", false) ? ota_cut_number
                                                                       : ota_cut_numbers,
                             member->error);
}

static ota_status blanks(ota_tokenizer *tokenizer, const json_t *tree,
                         const ota_token_member *member, int depth) {
    (void)tree;
    (void)depth;
    return ota_tokenizer_cut(tokenizer, OTA_CUT_REMOVED, false, ota_cut_space, member->error);
}

static ota_status words(ota_tokenizer *tokenizer, const json_t *tree,
                        const ota_token_member *member, int depth) {
    (void)tree;
    (void)depth;
    return ota_tokenizer_cut(tokenizer, OTA_CUT_REMOVED, true, ota_cut_words, member->error);
}

static ota_status punctuation(ota_tokenizer *tokenizer, const json_t *tree,
                              const ota_token_member *member, int depth) {
    (void)depth;
    ota_cut_rule rule = OTA_CUT_ISOLATED;
    const ota_status status = read_rule(tree, member, &rule);
    if (status != OTA_OK) return status;
    return ota_tokenizer_cut(tokenizer, rule, false, ota_cut_punctuation, member->error);
}

static ota_status bert(ota_tokenizer *tokenizer, const json_t *tree, const ota_token_member *member,
                       int depth) {
    (void)tree;
    (void)depth;
    return ota_tokenizer_bert_words(tokenizer, member->error);
}

/* trim_offsets moves offsets, which are not kept here. */
static const struct {
    const char *type, *keys;
    ota_status (*add)(ota_tokenizer *, const json_t *, const ota_token_member *, int);
} cut_rows[] = {{"ByteLevel", "type:s add_prefix_space:b trim_offsets:b use_regex:b", byte_level},
                {"Split", "type:s pattern:o behavior:s invert:b", split},
                {"Digits", "type:s individual_digits:b", digits},
                {"BertPreTokenizer", plain_keys, bert},
                {"WhitespaceSplit", plain_keys, blanks},
                {"Punctuation", "type:s behavior:s", punctuation},
                {"Whitespace", plain_keys, words}};

ota_status ota_token_pre_tokenizer(ota_tokenizer *tokenizer, const json_t *tree,
                                   const ota_token_member *member, int depth, bool *ends_in_bytes) {
    const char *type = type_of(tree);
    if (depth > DEPTH_MOST) return too_many(member);
    if (*ends_in_bytes)
        return ota_token_fail(member->error, OTA_UNSUPPORTED, member->path, member->offset,
                              "a pre_tokenizer after ByteLevel is not known here");
    ota_status status = expect_bert(member, "the pre_tokenizer", type, "BertPreTokenizer", depth);
    if (status != OTA_OK) return status;
    if (strcmp(type, "Sequence") == 0) {
        const json_t *list = json_object_get(tree, "pretokenizers");
        status = ota_token_keys(tree, "type:s pretokenizers:a", member, "a Sequence");
        for (size_t k = 0; k < json_array_size(list) && status == OTA_OK; k++)
            status = ota_token_pre_tokenizer(tokenizer, json_array_get(list, k), member, depth + 1,
                                             ends_in_bytes);
        return status;
    }
    for (size_t k = 0; k < sizeof cut_rows / sizeof *cut_rows; k++) {
        if (strcmp(type, cut_rows[k].type) != 0) continue;
        *ends_in_bytes = cut_rows[k].add == byte_level;
        status = ota_token_keys(tree, cut_rows[k].keys, member, type);
        if (status == OTA_OK) status = cut_rows[k].add(tokenizer, tree, member, depth);
        /* Only the number of steps has a limit here, and the steps know no file. */
        return status == OTA_ELIMIT ? too_many(member) : status;
    }
    return refuse(member, OTA_UNSUPPORTED, "the pre_tokenizer", type);
}

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
            return refuse(member, OTA_EFORMAT, "the special token", name == NULL ? "" : name);
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
    const char *type = type_of(tree);
    if (depth > DEPTH_MOST) return too_many(member);
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
    return refuse(member, OTA_UNSUPPORTED, "the post_processor", type);
}

/* ---- decoder ---- */

ota_status ota_token_decoder(ota_tokenizer *tokenizer, const json_t *tree,
                             const ota_token_member *member, int depth) {
    const char *type = type_of(tree);
    (void)depth;
    if (strcmp(type, "WordPiece") == 0) {
        const json_t *prefix = json_object_get(tree, "prefix");
        const ota_status status =
            ota_token_keys(tree, "type:s prefix:s cleanup:b", member, "the decoder WordPiece");
        if (status != OTA_OK) return status;
        if (json_is_string(prefix) && strcmp(json_string_value(prefix), member->prefix) != 0)
            return ota_token_fail(member->error, OTA_UNSUPPORTED, member->path, member->offset,
                                  "the decoder's prefix \"%.40s\" must be the model's, \"%.40s\"",
                                  json_string_value(prefix), member->prefix);
        tokenizer->clean_up = setting(tree, "cleanup", true);
        return OTA_OK;
    }
    if (strcmp(type, "ByteLevel") == 0)
        return ota_token_keys(tree, "type:s add_prefix_space:b trim_offsets:b use_regex:b", member,
                              "the decoder ByteLevel");
    return refuse(member, OTA_UNSUPPORTED, "the decoder", type);
}
