/* The small members of tokenizer.json that change a text and cut it: normalizer and pre_tokenizer. Each is an object with
 * a type; types are rows of a table, Sequence holds a list of others. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "token_json.h"
#include "token_settings.h"

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

const char *ota_token_type(const json_t *tree) {
    const char *type = json_string_value(json_object_get(tree, "type"));
    return type == NULL ? "" : type;
}

ota_status ota_token_refuse(const ota_token_member *member, ota_status status, const char *what,
                            const char *name) {
    return ota_token_fail(member->error, status, member->path, member->offset,
                          "%s \"%.60s\" is not known here", what, name);
}

/* true where the key is absent and `standard` is. */
bool ota_token_setting(const json_t *tree, const char *key, bool standard) {
    const json_t *value = json_object_get(tree, key);
    return json_is_boolean(value) ? json_is_true(value) : standard;
}

ota_status ota_token_too_many(const ota_token_member *member) {
    return ota_token_fail(member->error, OTA_ELIMIT, member->path, member->offset,
                          "more than %d steps, or lists in lists more than %d deep",
                          OTA_TOKEN_STEPS_MOST, OTA_TOKEN_STEPS_DEPTH);
}

ota_status ota_token_pattern(const json_t *tree, const char *what, const ota_token_member *member,
                             void **found) {
    const json_t *pattern = json_object_get(tree, "pattern"),
                 *regex = json_object_get(pattern, "Regex"),
                 *literal = json_object_get(pattern, "String"),
                 *text = json_is_string(regex) ? regex : literal;
    if (!json_is_string(text) || json_object_size(pattern) != 1)
        return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                              "%s needs a pattern, {\"Regex\": ...} or {\"String\": ...}", what);
    return ota_pattern_compile(found, (ota_text){json_string_value(text), json_string_length(text)},
                               text == literal, member->path, member->offset, member->error);
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
                   {"Nmt", OTA_NORMAL_NMT},
                   {"ByteLevel", OTA_NORMAL_ALPHABET},
                   {"StripAccents", OTA_NORMAL_STRIP_MARKS}};

static ota_status with_text(ota_normal *step, const json_t *tree, const char *key,
                            const ota_token_member *member) {
    const json_t *text = json_object_get(tree, key);
    if (!json_is_string(text))
        return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                              "the normalizer \"%.40s\" needs a text \"%s\"", ota_token_type(tree),
                              key);
    return ota_normal_text(step, json_string_value(text), json_string_length(text))
               ? OTA_OK
               : ota_token_no_memory(member->error);
}

static ota_status prepend(ota_normal *step, const json_t *tree, const ota_token_member *member) {
    return with_text(step, tree, "prepend", member);
}

static ota_status replace(ota_normal *step, const json_t *tree, const ota_token_member *member) {
    const ota_status status = with_text(step, tree, "content", member);
    return status == OTA_OK ? ota_token_pattern(tree, "Replace", member, &step->pattern) : status;
}

static ota_status strip(ota_normal *step, const json_t *tree, const ota_token_member *member) {
    (void)member;
    if (ota_token_setting(tree, "strip_left", false)) step->flags |= OTA_STRIP_LEFT;
    if (ota_token_setting(tree, "strip_right", false)) step->flags |= OTA_STRIP_RIGHT;
    return OTA_OK;
}

static ota_status precompiled(ota_normal *step, const json_t *tree,
                              const ota_token_member *member) {
    const json_t *text = json_object_get(tree, "precompiled_charsmap");
    ota_token_buffer blob = {0};
    bool no_memory = false;
    const bool fine =
        json_is_string(text) &&
        ota_token_base64(json_string_value(text), json_string_length(text), &blob, &no_memory);
    const ota_status status =
        no_memory ? ota_token_no_memory(member->error)
        : !fine   ? ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                                   "precompiled_charsmap must be bytes in base64")
                  : ota_charsmap_build(&step->map, (ota_text){blob.bytes, blob.used}, member->path,
                                       member->offset, NULL, member->error);
    free(blob.bytes);
    return status;
}

/* Those that have more to say than their type. */
static const struct {
    const char *type, *keys;
    ota_normal_kind kind;
    ota_status (*read)(ota_normal *, const json_t *, const ota_token_member *);
} rich_rows[] = {
    {"Prepend", "type:s prepend:s", OTA_NORMAL_PREPEND, prepend},
    {"Replace", "type:s pattern:o content:s", OTA_NORMAL_REPLACE, replace},
    {"Strip", "type:s strip_left:b strip_right:b", OTA_NORMAL_STRIP, strip},
    {"Precompiled", "type:s precompiled_charsmap:s", OTA_NORMAL_PRECOMPILED, precompiled},
};

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
        return ota_tokenizer_bert_switches(tokenizer, settings) ? OTA_OK
                                                                : ota_token_too_many(member);
    const bool lower = ota_token_setting(tree, "lowercase", true),
               chinese = ota_token_setting(tree, "handle_chinese_chars", true),
               accents = ota_token_setting(tree, "strip_accents", lower);
    status = contradiction(member, OTA_SWITCH_LOWER, "do_lower_case", lower);
    if (status == OTA_OK)
        status = contradiction(member, OTA_SWITCH_ACCENTS, "strip_accents", accents);
    if (status == OTA_OK)
        status = contradiction(member, OTA_SWITCH_CHINESE, "tokenize_chinese_chars", chinese);
    if (status != OTA_OK) return status;
    return ota_tokenizer_bert_normal(tokenizer, ota_token_setting(tree, "clean_text", true),
                                     chinese, accents, lower)
               ? OTA_OK
               : ota_token_too_many(member);
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
    const char *type = ota_token_type(tree);
    if (depth > OTA_TOKEN_STEPS_DEPTH) return ota_token_too_many(member);
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
        return ota_tokenizer_normal(tokenizer, normal_rows[k].kind) != NULL
                   ? OTA_OK
                   : ota_token_too_many(member);
    }
    for (size_t k = 0; k < sizeof rich_rows / sizeof *rich_rows; k++) {
        if (strcmp(type, rich_rows[k].type) != 0) continue;
        status = ota_token_keys(tree, rich_rows[k].keys, member, type);
        if (status != OTA_OK) return status;
        ota_normal *step = ota_tokenizer_normal(tokenizer, rich_rows[k].kind);
        return step == NULL ? ota_token_too_many(member) : rich_rows[k].read(step, tree, member);
    }
    return ota_token_refuse(member, OTA_UNSUPPORTED, "the normalizer", type);
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
    return ota_token_refuse(member, OTA_UNSUPPORTED, "the behavior", name);
}

/* GPT-2's class says whether a blank is put in front, but where ByteLevel is one step of several. */
static ota_status byte_level(ota_tokenizer *tokenizer, const json_t *tree,
                             const ota_token_member *member, int depth) {
    const bool over = member->settings->class == OTA_CLASS_GPT2 && depth == 0,
               prefix = over ? ota_token_switch_on(member->settings, OTA_SWITCH_PREFIX, false)
                             : ota_token_setting(tree, "add_prefix_space", true);
    ota_status status =
        over ? OTA_OK : contradiction(member, OTA_SWITCH_PREFIX, "add_prefix_space", prefix);
    if (status == OTA_OK && prefix)
        status = ota_tokenizer_cut(tokenizer, OTA_CUT_PREFIX_SPACE, false, NULL, member->error);
    if (status == OTA_OK && ota_token_setting(tree, "use_regex", true))
        status = ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false, ota_cut_gpt2, member->error);
    return status;
}

static ota_status split(ota_tokenizer *tokenizer, const json_t *tree,
                        const ota_token_member *member, int depth) {
    (void)depth;
    ota_cut_rule rule = OTA_CUT_ISOLATED;
    ota_status status = read_rule(tree, member, &rule);
    if (status == OTA_OK)
        status = ota_tokenizer_cut(tokenizer, rule, ota_token_setting(tree, "invert", false), NULL,
                                   member->error);
    if (status != OTA_OK) return status;
    return ota_token_pattern(tree, "Split", member,
                             &tokenizer->cuts[tokenizer->cut_count - 1].pattern);
}

/* A character that ends words and goes. */
static ota_status delimiter(ota_tokenizer *tokenizer, const json_t *tree,
                            const ota_token_member *member, int depth) {
    (void)depth;
    const json_t *text = json_object_get(tree, "delimiter");
    const ota_status status =
        ota_tokenizer_cut(tokenizer, OTA_CUT_REMOVED, false, NULL, member->error);
    if (status != OTA_OK) return status;
    return ota_pattern_compile(&tokenizer->cuts[tokenizer->cut_count - 1].pattern,
                               (ota_text){json_string_value(text), json_string_length(text)}, true,
                               member->path, member->offset, member->error);
}

static ota_status fixed_length(ota_tokenizer *tokenizer, const json_t *tree,
                               const ota_token_member *member, int depth) {
    (void)depth;
    const json_t *length = json_object_get(tree, "length");
    const json_int_t most = length == NULL ? 5 : json_integer_value(length);
    char pattern[40];
    if (most < 1 || most > 65535)
        return ota_token_fail(member->error, OTA_UNSUPPORTED, member->path, member->offset,
                              "the length of FixedLength must be 1 to 65535");
    (void)ota_snprintf(pattern, sizeof pattern, "(?s:.{1,%d})", (int)most);
    return ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false, pattern, member->error);
}

static ota_status scripts(ota_tokenizer *tokenizer, const json_t *tree,
                          const ota_token_member *member, int depth) {
    (void)tree;
    (void)depth;
    const ota_status status =
        ota_tokenizer_cut(tokenizer, OTA_CUT_REMOVED, true, NULL, member->error);
    if (status != OTA_OK) return status;
    return ota_pattern_scripts(&tokenizer->cuts[tokenizer->cut_count - 1].pattern, member->path,
                               member->offset, member->error);
}

static const struct {
    const char *name;
    ota_cut_rule rule;
} scheme_rows[] = {
    {"always", OTA_CUT_SPELL_ALL}, {"first", OTA_CUT_SPELL_FIRST}, {"never", OTA_CUT_SPELL}};

ota_status ota_token_scheme(const json_t *tree, const ota_token_member *member, ota_cut_rule *rule,
                            const char **sign) {
    const char *name = json_string_value(json_object_get(tree, "prepend_scheme"));
    const bool never = !ota_token_setting(tree, "add_prefix_space", true);
    size_t k = 0;
    if (name == NULL) name = "always";
    while (k < 3 && strcmp(scheme_rows[k].name, name) != 0) k++;
    if (k == 3) return ota_token_refuse(member, OTA_UNSUPPORTED, "the prepend_scheme", name);
    *rule = scheme_rows[k].rule;
    /* The older key says no more than the newer one. */
    if (never && *rule != OTA_CUT_SPELL)
        return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                              "add_prefix_space: false needs prepend_scheme \"never\" beside it");
    *sign = json_string_value(json_object_get(tree, "replacement"));
    int32_t character;
    if (*sign == NULL) *sign = "\xE2\x96\x81";
    if (**sign == '\0' || ota_token_step(*sign, strlen(*sign), &character) != strlen(*sign))
        return ota_token_fail(member->error, OTA_EFORMAT, member->path, member->offset,
                              "the replacement of Metaspace must be one character");
    return OTA_OK;
}

static ota_status metaspace(ota_tokenizer *tokenizer, const json_t *tree,
                            const ota_token_member *member, int depth) {
    (void)depth;
    ota_cut_rule rule;
    const char *sign;
    ota_status status = ota_token_scheme(tree, member, &rule, &sign);
    if (status == OTA_OK) status = ota_tokenizer_cut(tokenizer, rule, false, NULL, member->error);
    if (status != OTA_OK) return status;
    memcpy(tokenizer->cuts[tokenizer->cut_count - 1].sign, sign, strlen(sign) + 1);
    if (!ota_token_setting(tree, "split", true)) return OTA_OK;
    status = ota_tokenizer_cut(tokenizer, OTA_CUT_WITH_NEXT, false, NULL, member->error);
    if (status != OTA_OK) return status;
    return ota_pattern_compile(&tokenizer->cuts[tokenizer->cut_count - 1].pattern,
                               (ota_text){sign, strlen(sign)}, true, member->path, member->offset,
                               member->error);
}

static ota_status digits(ota_tokenizer *tokenizer, const json_t *tree,
                         const ota_token_member *member, int depth) {
    (void)depth;
    return ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false,
                             ota_token_setting(tree, "individual_digits", false) ? ota_cut_number
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
                {"CharDelimiterSplit", "type:s delimiter:s", delimiter},
                {"FixedLength", "type:s length:n", fixed_length},
                {"UnicodeScripts", plain_keys, scripts},
                {"Metaspace", OTA_TOKEN_METASPACE_KEYS, metaspace},
                {"Whitespace", plain_keys, words}};

ota_status ota_token_pre_tokenizer(ota_tokenizer *tokenizer, const json_t *tree,
                                   const ota_token_member *member, int depth, bool *ends_in_bytes) {
    const char *type = ota_token_type(tree);
    if (depth > OTA_TOKEN_STEPS_DEPTH) return ota_token_too_many(member);
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
        status = ota_token_keys(tree, cut_rows[k].keys, member, type);
        /* ByteLevel that is not the last step spells bytes for those behind it. */
        if (status == OTA_OK && *ends_in_bytes)
            status = ota_tokenizer_cut(tokenizer, OTA_CUT_ALPHABET, false, NULL, member->error);
        *ends_in_bytes = cut_rows[k].add == byte_level;
        if (status == OTA_OK) status = cut_rows[k].add(tokenizer, tree, member, depth);
        /* Only the number of steps has a limit here, and the steps know no file. */
        return status == OTA_ELIMIT ? ota_token_too_many(member) : status;
    }
    return ota_token_refuse(member, OTA_UNSUPPORTED, "the pre_tokenizer", type);
}
