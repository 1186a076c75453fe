/* tokenizer.json: {"added_tokens": [...], "normalizer", "pre_tokenizer", "post_processor", "decoder",
 * "model": {"type", "vocab": {"piece": id}, "merges": ["left right" or ["left", "right"]], ...}, ...}
 *
 * One pass notes where the members lie; then vocabulary and added tokens, merges, and the small members,
 * in the order in which they need each other. */
#include <stdlib.h>
#include <string.h>

#include "token_json.h"
#include "token_settings.h"

enum { ADDED, NORMALIZER, PRE_TOKENIZER, POST_PROCESSOR, DECODER, MODEL, TOP_MEMBERS };
static const char *const top_names[TOP_MEMBERS] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                                   "post_processor", "decoder",    "model"};
enum { VOCAB, MERGES, MODEL_MEMBERS };
static const char *const model_names[MODEL_MEMBERS] = {"vocab", "merges"};

typedef struct reading {
    ota_tokenizer *tokenizer;
    ota_token_json json;
    ota_text top[TOP_MEMBERS], model[MODEL_MEMBERS];
    json_t *others, *settings; /* the small members of the file and of its model */
    ota_token_list list;
    ota_token_merge_list merges;
    ota_token_settings *beside; /* what lies beside the file */
    ota_added_list added;
    bool byte_level, decodes;
} reading;

/* ---- where the members lie ---- */

static ota_status find_members(reading *r) {
    ota_token_json json = r->json;
    ota_status status =
        ota_token_json_members(&json, &r->json, top_names, TOP_MEMBERS, r->top, r->others);
    if (status == OTA_OK) status = ota_token_json_finish(&json);
    if (status != OTA_OK) return status;
    if (r->top[MODEL].data == NULL)
        return ota_token_json_refuse(&r->json, 0, "a tokenizer must have a model");
    json = ota_token_json_within(&r->json, r->top[MODEL]);
    status =
        ota_token_json_members(&json, &r->json, model_names, MODEL_MEMBERS, r->model, r->settings);
    if (status == OTA_OK && r->model[VOCAB].data == NULL)
        status = ota_token_json_refuse(&r->json, (size_t)ota_token_json_place(&json, r->top[MODEL]),
                                       "a model must have a vocab");
    return status;
}

/* ---- vocabulary ---- */

ota_status ota_token_read_vocabulary(ota_token_json json, ota_token_list *list) {
    bool first = true, more = true;
    ota_status status = ota_token_json_open(&json, '{');
    while (status == OTA_OK) {
        status = ota_token_json_next(&json, '{', &first, &more);
        if (status != OTA_OK || !more) break;
        const size_t place = json.at, begin = list->text.used;
        int64_t id = 0;
        status = ota_token_json_key(&json, &list->text);
        if (status == OTA_OK) status = ota_token_json_integer(&json, &id);
        if (status == OTA_OK)
            status = ota_token_list_add(list, begin, id, (int64_t)place, json.error);
    }
    return status == OTA_OK ? ota_token_json_finish(&json) : status;
}

/* [["piece", score], ...]; the ids count. */
static ota_status read_scored(ota_token_json json, ota_token_list *list, double **scores) {
    bool first = true, more = true;
    size_t room = 0;
    ota_status status = ota_token_json_open(&json, '[');
    while (status == OTA_OK) {
        status = ota_token_json_next(&json, '[', &first, &more);
        if (status != OTA_OK || !more) break;
        const size_t place = json.at, begin = list->text.used, count = list->count;
        bool inner = true;
        double score = 0;
        status = ota_token_json_open(&json, '[');
        for (int k = 0; k < 2 && status == OTA_OK; k++) {
            status = ota_token_json_next(&json, '[', &inner, &more);
            if (status == OTA_OK && !more)
                status = ota_token_json_refuse(&json, place, "a piece must have a score");
            if (status != OTA_OK) break;
            status = k == 0 ? ota_token_json_string(&json, &list->text)
                            : ota_token_json_number(&json, &score);
        }
        if (status == OTA_OK) status = ota_token_json_next(&json, '[', &inner, &more);
        if (status == OTA_OK && more)
            status = ota_token_json_refuse(&json, place, "a piece must have one score");
        if (status == OTA_OK)
            status = ota_token_list_add(list, begin, (int64_t)count, (int64_t)place, json.error);
        void *grown = *scores;
        if (status == OTA_OK && !ota_token_grow(&grown, &room, count + 1, sizeof **scores))
            status = ota_token_no_memory(json.error);
        *scores = grown;
        if (status == OTA_OK) (*scores)[count] = score;
        more = true;
    }
    return status == OTA_OK ? ota_token_json_finish(&json) : status;
}

static bool truth(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

static unsigned added_flags(const json_t *object) {
    unsigned flags = 0;
    for (size_t k = 0; k < OTA_ADDED_KEYS; k++) {
        if (truth(object, ota_added_keys[k].name)) flags |= ota_added_keys[k].flag;
    }
    return flags;
}

/* One element of added_tokens: a new piece, or one the vocabulary has already. */
static ota_status read_added(reading *r, const json_t *tree, int64_t place, const int32_t *places) {
    ota_token_list *list = &r->list;
    const json_t *id = json_object_get(tree, "id"), *content = json_object_get(tree, "content");
    const ota_token_member member = {.path = list->path, .offset = place, .error = r->json.error};
    const ota_status known = ota_token_keys(
        tree, "id:x content:x single_word:b lstrip:b rstrip:b normalized:b special:b", &member,
        "an added token");
    if (known != OTA_OK) return known;
    if (!json_is_integer(id) || !json_is_string(content) || json_string_length(content) == 0)
        return ota_token_fail(r->json.error, OTA_EFORMAT, list->path, place,
                              "an added token must have an integer id and a content that is not "
                              "empty");
    const int64_t value = json_integer_value(id);
    const char *text = json_string_value(content);
    const size_t size = json_string_length(content), begin = list->text.used;
    const int32_t there = value >= 0 && value < OTA_TOKEN_PIECES_MOST ? places[value] : -1;
    ota_status status = OTA_OK;
    if (there >= 0) {
        const ota_token_entry *entry = &list->entries[there];
        if (entry->size != size || memcmp(list->text.bytes + entry->begin, text, size) != 0)
            status = ota_token_fail(r->json.error, OTA_EFORMAT, list->path, place,
                                    "the added token's id %lld belongs to another piece",
                                    (long long)value);
    } else if (!ota_token_append(&list->text, text, size)) {
        status = ota_token_no_memory(r->json.error);
    } else {
        status = ota_token_list_add(list, begin, value, place, r->json.error);
        list->outside++;
    }
    void *added = r->added.tokens;
    if (status == OTA_OK &&
        !ota_token_grow(&added, &r->added.room, r->added.count + 1, sizeof *r->added.tokens))
        status = ota_token_no_memory(r->json.error);
    r->added.tokens = added;
    if (status != OTA_OK) return status;
    r->added.tokens[r->added.count++] =
        (ota_added){.id = (int32_t)value, .flags = added_flags(tree)};
    return OTA_OK;
}

/* Each element is a tree of its own, so that many of them take no more memory than one. */
static ota_status read_added_list(reading *r, const int32_t *places) {
    ota_token_json json = ota_token_json_within(&r->json, r->top[ADDED]);
    bool first = true, more = true;
    ota_status status = ota_token_json_open(&json, '[');
    while (status == OTA_OK) {
        status = ota_token_json_next(&json, '[', &first, &more);
        if (status != OTA_OK || !more) break;
        ota_text span;
        json_t *tree = NULL;
        status = ota_token_json_skip(&json, &span);
        json.trees = 0;
        if (status == OTA_OK) status = ota_token_json_tree(&json, span, &tree);
        if (status == OTA_OK)
            status = read_added(r, tree, ota_token_json_place(&json, span), places);
        json_decref(tree);
    }
    return status == OTA_OK ? ota_token_json_finish(&json) : status;
}

static const char *type_of_model(const reading *r) {
    const char *type = json_string_value(json_object_get(r->settings, "type"));
    if (type != NULL) return type;
    return *r->model[VOCAB].data == '['    ? "Unigram"
           : r->model[MERGES].data != NULL ? "BPE"
                                           : "WordPiece";
}

static ota_status read_pieces(reading *r) {
    const ota_token_json json = ota_token_json_within(&r->json, r->model[VOCAB]);
    ota_status status = strcmp(type_of_model(r), "Unigram") == 0
                            ? read_scored(json, &r->list, &r->tokenizer->unigram.scores)
                            : ota_token_read_vocabulary(json, &r->list);
    if (status != OTA_OK) return status;
    if (r->top[ADDED].data != NULL) {
        int32_t *places = malloc(OTA_TOKEN_PIECES_MOST * sizeof *places);
        if (places == NULL) return ota_token_no_memory(r->json.error);
        memset(places, 0xFF, OTA_TOKEN_PIECES_MOST * sizeof *places);
        for (size_t k = 0; k < r->list.count; k++) places[r->list.entries[k].id] = (int32_t)k;
        status = read_added_list(r, places);
        free(places);
    }
    if (status != OTA_OK) return status;
    return ota_vocabulary_build(&r->tokenizer->vocabulary, &r->list, r->json.error);
}

/* ---- merges ---- */

/* ["left", "right"]: pieces may hold blanks then. */
static ota_status read_pair(ota_token_json *json, ota_token_buffer *text, size_t *left) {
    bool first = true, more;
    ota_status status = ota_token_json_open(json, '[');
    for (int k = 0; k < 2 && status == OTA_OK; k++) {
        status = ota_token_json_next(json, '[', &first, &more);
        if (status == OTA_OK && !more)
            status = ota_token_json_refuse(json, json->at - 1, "a merge must be two pieces");
        if (status == OTA_OK) status = ota_token_json_string(json, text);
        if (k == 0) *left = text->used;
    }
    if (status == OTA_OK) status = ota_token_json_next(json, '[', &first, &more);
    if (status == OTA_OK && more)
        status = ota_token_json_refuse(json, json->at, "a merge must be two pieces");
    return status;
}

static ota_status read_merges(reading *r) {
    if (r->model[MERGES].data == NULL)
        return ota_token_json_refuse(&r->json,
                                     (size_t)ota_token_json_place(&r->json, r->top[MODEL]),
                                     "a BPE model must have merges");
    ota_token_json json = ota_token_json_within(&r->json, r->model[MERGES]);
    const ota_vocabulary *vocabulary = &r->tokenizer->vocabulary;
    const char *path = r->list.path;
    ota_token_buffer text = {0};
    bool first = true, more = true;
    ota_status status = ota_token_json_open(&json, '[');
    while (status == OTA_OK) {
        status = ota_token_json_next(&json, '[', &first, &more);
        if (status != OTA_OK || !more) break;
        const size_t place = json.at;
        size_t left = 0;
        text.used = 0;
        if (json.at < json.end && json.file->text[json.at] == '[') {
            status = read_pair(&json, &text, &left);
            if (status == OTA_OK)
                status = ota_bpe_merge(vocabulary, &r->merges, (ota_text){text.bytes, left},
                                       (ota_text){text.bytes + left, text.used - left}, path,
                                       (int64_t)place, json.error);
        } else {
            status = ota_token_json_string(&json, &text);
            if (status == OTA_OK)
                status =
                    ota_bpe_merge_line(vocabulary, &r->merges, (ota_text){text.bytes, text.used},
                                       path, (int64_t)place, json.error);
        }
    }
    free(text.bytes);
    return status == OTA_OK ? ota_token_json_finish(&json) : status;
}

/* ---- the model's settings ---- */

static ota_status read_unknown(reading *r, const char *standard) {
    const json_t *unknown = json_object_get(r->settings, "unk_token");
    const char *text = json_is_string(unknown) ? json_string_value(unknown) : standard;
    if (text == NULL) return OTA_OK;
    r->tokenizer->unknown =
        ota_vocabulary_find_model(&r->tokenizer->vocabulary, text, strlen(text));
    if (r->tokenizer->unknown >= 0) return OTA_OK;
    return ota_token_fail(r->json.error, OTA_EFORMAT, r->list.path,
                          ota_token_json_place(&r->json, r->top[MODEL]),
                          "the vocabulary lacks unk_token \"%.80s\"", text);
}

static ota_status refuse_setting(const reading *r, const char *rule) {
    return ota_token_fail(r->json.error, OTA_UNSUPPORTED, r->list.path,
                          ota_token_json_place(&r->json, r->top[MODEL]), "%s", rule);
}

/* What characters of a word carry with them, at most 31 bytes. */
static ota_status read_affix(const reading *r, const char *key, char *out, size_t room) {
    const json_t *text = json_object_get(r->settings, key);
    const size_t size = json_is_string(text) ? json_string_length(text) : 0;
    if (size >= room)
        return ota_token_fail(r->json.error, OTA_ELIMIT, r->list.path,
                              ota_token_json_place(&r->json, r->top[MODEL]),
                              "%s must be below %zu bytes", key, room);
    if (size > 0) memcpy(out, json_string_value(text), size);
    return OTA_OK;
}

static ota_status check_settings(const reading *r, const char *keys, const char *what) {
    const ota_token_member member = {.path = r->list.path,
                                     .offset = ota_token_json_place(&r->json, r->top[MODEL]),
                                     .error = r->json.error};
    return ota_token_keys(r->settings, keys, &member, what);
}

/* Bytes that only the last step spells stay bytes, where nothing asks for the characters that they are spelled as. */
static ota_status spell_bytes(reading *r) {
    ota_tokenizer *tokenizer = r->tokenizer;
    ota_bpe *bpe = &tokenizer->bpe;
    bpe->characters =
        !r->byte_level || bpe->prefix[0] != '\0' || bpe->suffix[0] != '\0' || tokenizer->fallback;
    if (!r->byte_level || !bpe->characters) return OTA_OK;
    return ota_tokenizer_cut(tokenizer, OTA_CUT_ALPHABET, false, NULL, r->json.error);
}

static ota_status read_bpe(reading *r) {
    ota_tokenizer *tokenizer = r->tokenizer;
    ota_bpe *bpe = &tokenizer->bpe;
    tokenizer->model = OTA_TOKEN_BPE;
    ota_status status = check_settings(r,
                                       "type:s unk_token:s fuse_unk:b ignore_merges:b "
                                       "byte_fallback:b dropout:x continuing_subword_prefix:s "
                                       "end_of_word_suffix:s",
                                       "a BPE model");
    if (status != OTA_OK) return status;
    if (json_number_value(json_object_get(r->settings, "dropout")) != 0)
        return refuse_setting(r,
                              "dropout of merges is drawn by chance and not run; set it to null");
    status = read_affix(r, "continuing_subword_prefix", bpe->prefix, sizeof bpe->prefix);
    if (status == OTA_OK)
        status = read_affix(r, "end_of_word_suffix", bpe->suffix, sizeof bpe->suffix);
    tokenizer->fuse_unknown = truth(r->settings, "fuse_unk");
    tokenizer->fallback = truth(r->settings, "byte_fallback");
    bpe->whole_word = truth(r->settings, "ignore_merges");
    r->merges.prefix_size = strlen(bpe->prefix);
    if (tokenizer->fallback && (bpe->prefix[0] != '\0' || bpe->suffix[0] != '\0'))
        return refuse_setting(
            r, "byte_fallback beside continuing_subword_prefix or end_of_word_suffix is not run");
    if (status == OTA_OK) status = spell_bytes(r);
    if (status == OTA_OK) status = read_unknown(r, NULL);
    if (status == OTA_OK) status = read_merges(r);
    if (status == OTA_OK && tokenizer->fallback)
        status = ota_sentencepiece_bytes(tokenizer, NULL, r->json.error);
    return status == OTA_OK ? ota_bpe_build(tokenizer, &r->merges, r->json.error) : status;
}

static ota_status read_unigram(reading *r) {
    ota_tokenizer *tokenizer = r->tokenizer;
    const json_t *unknown = json_object_get(r->settings, "unk_id");
    ota_status status = check_settings(r, "type:s unk_id:n byte_fallback:b", "a Unigram model");
    tokenizer->model = OTA_TOKEN_UNIGRAM;
    if (status != OTA_OK) return status;
    const json_int_t id = json_is_integer(unknown) ? json_integer_value(unknown) : -1;
    if (json_is_integer(unknown) &&
        (id < 0 || id >= tokenizer->vocabulary.count || tokenizer->vocabulary.outside[id]))
        return ota_token_fail(r->json.error, OTA_EFORMAT, r->list.path,
                              ota_token_json_place(&r->json, r->top[MODEL]),
                              "unk_id must be the id of a piece of the model");
    tokenizer->unknown = (int32_t)id;
    tokenizer->fallback = truth(r->settings, "byte_fallback");
    if (tokenizer->fallback) status = ota_sentencepiece_bytes(tokenizer, NULL, r->json.error);
    return status == OTA_OK ? ota_unigram_build(tokenizer, NULL, r->json.error) : status;
}

static ota_status read_words(reading *r) {
    const ota_status status = check_settings(r, "type:s unk_token:s", "a WordLevel model");
    r->tokenizer->model = OTA_TOKEN_WORDS;
    return status == OTA_OK ? read_unknown(r, "<unk>") : status;
}

static ota_status read_wordpiece(reading *r) {
    ota_wordpiece *wordpiece = &r->tokenizer->wordpiece;
    const ota_status status = check_settings(r,
                                             "type:s unk_token:s continuing_subword_prefix:s "
                                             "max_input_chars_per_word:n",
                                             "a WordPiece model");
    if (status != OTA_OK) return status;
    r->tokenizer->model = OTA_TOKEN_WORDPIECE;
    const json_t *prefix = json_object_get(r->settings, "continuing_subword_prefix"),
                 *most = json_object_get(r->settings, "max_input_chars_per_word");
    const char *text = json_is_string(prefix) ? json_string_value(prefix) : "##";
    wordpiece->prefix_size = strlen(text);
    wordpiece->longest_word = json_is_integer(most) ? json_integer_value(most) : 100;
    if (wordpiece->prefix_size >= sizeof wordpiece->prefix || wordpiece->longest_word < 1)
        return ota_token_fail(r->json.error, OTA_EFORMAT, r->list.path,
                              ota_token_json_place(&r->json, r->top[MODEL]),
                              "continuing_subword_prefix must be below 32 bytes and "
                              "max_input_chars_per_word above 0");
    memcpy(wordpiece->prefix, text, wordpiece->prefix_size);
    if (r->beside->class != OTA_CLASS_BERT) return read_unknown(r, "[UNK]");
    if (strcmp(text, "##") != 0 || wordpiece->longest_word != 100)
        return ota_token_fail(
            r->json.error, OTA_UNSUPPORTED, r->list.path,
            ota_token_json_place(&r->json, r->top[MODEL]),
            "BertTokenizer, which the files beside it name, has the prefix ## and "
            "words of at most 100 characters");
    r->tokenizer->before.count = r->tokenizer->after.count = 0;
    return ota_tokenizer_bert_roles(r->tokenizer, r->beside, r->list.path, r->json.error);
}

/* ---- all of it ---- */

/* BERT's class has a normalizer and a pre_tokenizer, also where the file has none. */
static ota_status without_step(const reading *r, int step) {
    if (r->beside->class != OTA_CLASS_BERT) return OTA_OK;
    return ota_token_fail(r->json.error, OTA_UNSUPPORTED, r->list.path, -1,
                          "has no %s, and BertTokenizer, which the files beside it name, has one",
                          top_names[step]);
}

static ota_status read_small(reading *r) {
    ota_status status = OTA_OK;
    for (int k = NORMALIZER; k <= DECODER && status == OTA_OK; k++) {
        ota_token_member member = {
            .path = r->list.path, .settings = r->beside, .error = r->json.error};
        json_t *tree = NULL;
        if (r->top[k].data == NULL && k <= PRE_TOKENIZER) status = without_step(r, k);
        if (r->top[k].data == NULL) continue;
        member.offset = ota_token_json_place(&r->json, r->top[k]);
        status = ota_token_json_tree(&r->json, r->top[k], &tree);
        if (status == OTA_OK && json_is_null(tree) && k <= PRE_TOKENIZER)
            status = without_step(r, k);
        if (status == OTA_OK && !json_is_null(tree)) {
            if (k == NORMALIZER) status = ota_token_normalizer(r->tokenizer, tree, &member, 0);
            if (k == PRE_TOKENIZER)
                status = ota_token_pre_tokenizer(r->tokenizer, tree, &member, 0, &r->byte_level);
            if (k == POST_PROCESSOR)
                status = ota_token_post_processor(r->tokenizer, tree, &member, 0);
            if (k == DECODER) status = ota_token_decoder(r->tokenizer, tree, &member, 0);
            if (k == DECODER) r->decodes = true;
        }
        json_decref(tree);
    }
    return status;
}

static ota_status read_model(reading *r) {
    static const struct {
        const char *type;
        ota_status (*read)(reading *);
    } rows[] = {{"BPE", read_bpe},
                {"Unigram", read_unigram},
                {"WordPiece", read_wordpiece},
                {"WordLevel", read_words}};
    const char *type = type_of_model(r);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(type, rows[k].type) != 0) continue;
        /* Unigram and whole words see the characters that bytes are spelled as. */
        ota_status status = OTA_OK;
        if (r->byte_level && k > 0)
            status = ota_tokenizer_cut(r->tokenizer, OTA_CUT_ALPHABET, false, NULL, r->json.error);
        return status == OTA_OK ? rows[k].read(r) : status;
    }
    return ota_token_fail(
        r->json.error, OTA_UNSUPPORTED, r->list.path, ota_token_json_place(&r->json, r->top[MODEL]),
        "the model \"%.40s\" is not one of BPE, Unigram, WordPiece and WordLevel", type);
}

/* The classes that build their tokenizer anew have a decoder of their own; without one, blanks stand between pieces. */
static ota_status choose_decoder(const reading *r) {
    ota_tokenizer *tokenizer = r->tokenizer;
    const bool gpt2 = r->beside->class == OTA_CLASS_GPT2, bert = r->beside->class == OTA_CLASS_BERT;
    if (gpt2 || bert) ota_tokenizer_undo_clear(tokenizer);
    if (bert) return ota_tokenizer_undo_wordpiece(tokenizer, "##", true, r->json.error);
    if (gpt2) (void)ota_tokenizer_undo(tokenizer, OTA_UNDO_BYTES, NULL);
    if (!gpt2 && !r->decodes) (void)ota_tokenizer_undo(tokenizer, OTA_UNDO_JOIN, NULL);
    return OTA_OK;
}

/* Texts are neither cut off nor filled up here. The class that is named must have the model of the file. */
static ota_status check_top(const reading *r) {
    const ota_token_member member = {.path = r->list.path, .offset = -1, .error = r->json.error};
    const ota_status status =
        ota_token_keys(r->others, "version:s truncation:o padding:o", &member, "the file");
    const ota_token_settings *beside = r->beside;
    const char *model = type_of_model(r);
    if (status != OTA_OK || beside->class_model == NULL || strcmp(model, beside->class_model) == 0)
        return status;
    return ota_token_settings_fail(beside, beside->class_file, OTA_UNSUPPORTED,
                                   "%s \"%.60s\" is not one for the model \"%.40s\" that "
                                   "tokenizer.json holds",
                                   beside->class_key, beside->class_name, model);
}

ota_status ota_tokenizer_read_json(ota_tokenizer *tokenizer, const ota_token_file *file,
                                   ota_token_settings *settings, ota_error *error) {
    reading r = {.tokenizer = tokenizer,
                 .beside = settings,
                 .json = {.file = file, .end = file->size, .error = error},
                 .others = json_object(),
                 .settings = json_object(),
                 .list = {.path = file->path, .ending = file->ending},
                 .merges = {.ending = file->ending}};
    ota_status status =
        r.others == NULL || r.settings == NULL ? ota_token_no_memory(error) : find_members(&r);
    if (status == OTA_OK) status = check_top(&r);
    if (status == OTA_OK) status = ota_token_plan(settings);
    if (status == OTA_OK) status = read_pieces(&r);
    if (status == OTA_OK) status = ota_token_settle(settings, tokenizer, &r.added);
    if (status == OTA_OK) status = read_small(&r);
    if (status == OTA_OK) status = read_model(&r);
    if (status == OTA_OK) status = choose_decoder(&r);
    for (size_t k = 0; k < r.added.count && status == OTA_OK; k++)
        status = ota_tokenizer_add(tokenizer, r.added.tokens[k], error);
    tokenizer->raw_added.splits_special = tokenizer->normal_added.splits_special =
        ota_token_switch_on(settings, OTA_SWITCH_SPLIT, false);
    json_decref(r.others);
    json_decref(r.settings);
    ota_token_list_free(&r.list);
    free(r.merges.merges);
    free(r.added.tokens);
    return status;
}
