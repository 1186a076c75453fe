/* tekken.json of Mistral:
 *
 *   {"config": {"pattern", "default_vocab_size", "default_num_special_tokens", "version", "num_vocab_tokens"},
 *    "vocab": [{"rank", "token_bytes": base64, "token_str"}, ...],
 *    "special_tokens": [{"rank", "token_str", "is_control"}, ...], ...}
 *
 * Byte-level BPE without a list of merges: neighbours whose join is a piece are merged, the join of the lowest rank first.
 * That is what bpe.c does with a merge for every way in which a piece is two pieces. The first ids are special, as many
 * as the file says: those that it lists, or that its version has, then <SPECIAL_N>; a piece has its rank behind them, and
 * pieces beyond default_vocab_size are left out. What no match of the pattern holds is no part of the text's ids. All as
 * in the packages `mistral-common` and `tiktoken`, but that special pieces in a text are read as such unless it is plain.
 *
 * token_str says nothing that token_bytes does not; image, audio and the rules of a conversation change no id of a text. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "token_json.h"

enum { CONFIG, VOCAB, SPECIAL, MEMBERS };
static const char *const names[MEMBERS] = {"config", "vocab", "special_tokens"};

/* What files without special_tokens have, up to version v7. */
static const char *const early_special[] = {"<unk>",
                                            "<s>",
                                            "</s>",
                                            "[INST]",
                                            "[/INST]",
                                            "[AVAILABLE_TOOLS]",
                                            "[/AVAILABLE_TOOLS]",
                                            "[TOOL_RESULTS]",
                                            "[/TOOL_RESULTS]",
                                            "[TOOL_CALLS]",
                                            "[IMG]",
                                            "<pad>",
                                            "[IMG_BREAK]",
                                            "[IMG_END]",
                                            "[PREFIX]",
                                            "[MIDDLE]",
                                            "[SUFFIX]",
                                            "[SYSTEM_PROMPT]",
                                            "[/SYSTEM_PROMPT]",
                                            "[TOOL_CONTENT]"};
enum { EARLY = sizeof early_special / sizeof *early_special };

typedef struct reading {
    ota_tokenizer *tokenizer;
    ota_token_json json;
    ota_text spans[MEMBERS];
    json_t *others, *config;
    int64_t special, pieces; /* how many there are of each */
    bool early;              /* the version knows the special pieces */
    ota_token_list list;
    ota_token_buffer word, raw;
} reading;

static ota_status refuse(const reading *r, int member, ota_status status, const char *rule) {
    const int64_t place =
        r->spans[member].data == NULL ? 0 : ota_token_json_place(&r->json, r->spans[member]);
    return ota_token_fail(r->json.error, status, r->list.path, place, "%s", rule);
}

/* ---- config ---- */

static ota_status read_version(reading *r) {
    static const struct {
        const char *word;
        bool early;
    } rows[] = {{"v1", true},   {"v2", true},   {"v3", true},  {"v7", true},
                {"v11", false}, {"v13", false}, {"v15", false}};
    const char *version = json_string_value(json_object_get(r->config, "version"));
    for (size_t k = 0; version != NULL && k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(version, rows[k].word) != 0) continue;
        r->early = rows[k].early;
        return OTA_OK;
    }
    return refuse(r, CONFIG, OTA_UNSUPPORTED,
                  "version of config must be one of v1, v2, v3, v7, v11, v13 and v15");
}

/* tiktoken's engine has another \w than the patterns of tokenizer.json. */
static ota_status read_pattern(reading *r) {
    const json_t *pattern = json_object_get(r->config, "pattern");
    const char *text = json_string_value(pattern);
    if (text == NULL) return refuse(r, CONFIG, OTA_EFORMAT, "config must have a pattern");
    for (const char *at = strchr(text, '\\'); at != NULL; at = strchr(at + 2, '\\')) {
        if (at[1] == '\0') break;
        if (strchr("wWbB", at[1]) != NULL)
            return refuse(r, CONFIG, OTA_UNSUPPORTED,
                          "a pattern of tekken.json with \\w, \\W, \\b or \\B is not run");
    }
    ota_tokenizer *tokenizer = r->tokenizer;
    ota_status status = ota_tokenizer_cut(tokenizer, OTA_CUT_REMOVED, true, NULL, r->json.error);
    if (status != OTA_OK) return status;
    return ota_pattern_compile(&tokenizer->cuts[0].pattern,
                               (ota_text){text, json_string_length(pattern)}, false, r->list.path,
                               ota_token_json_place(&r->json, r->spans[CONFIG]), r->json.error);
}

static int64_t number(const reading *r, const char *key) {
    const json_t *value = json_object_get(r->config, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static ota_status read_config(reading *r) {
    const ota_token_member member = {.path = r->list.path,
                                     .offset = ota_token_json_place(&r->json, r->spans[CONFIG]),
                                     .error = r->json.error};
    ota_status status = ota_token_json_tree(&r->json, r->spans[CONFIG], &r->config);
    if (status == OTA_OK && !json_is_object(r->config))
        status = refuse(r, CONFIG, OTA_EFORMAT, "config must be an object");
    if (status == OTA_OK)
        status = ota_token_keys(r->config,
                                "pattern:s num_vocab_tokens:n default_vocab_size:n "
                                "default_num_special_tokens:n version:s",
                                &member, "config");
    if (status == OTA_OK) status = read_version(r);
    if (status != OTA_OK) return status;
    const int64_t all = number(r, "default_vocab_size");
    r->special = number(r, "default_num_special_tokens");
    r->pieces = all - r->special;
    if (all > OTA_TOKEN_PIECES_MOST)
        return ota_token_fail(r->json.error, OTA_ELIMIT, r->list.path, member.offset,
                              "a vocabulary has at most %d pieces", OTA_TOKEN_PIECES_MOST);
    if (r->special < 1 || r->pieces < 256)
        return refuse(r, CONFIG, OTA_EFORMAT,
                      "default_num_special_tokens must be above 0, and default_vocab_size "
                      "at least 256 above it");
    return read_pattern(r);
}

/* ---- pieces ---- */

enum { RANK, BYTES, TEXT, KEYS };

/* One element of vocab: its rank, and base64 in r->word. */
static ota_status read_piece(reading *r, ota_token_json *json, int64_t *rank) {
    static const char *const keys[KEYS] = {"rank", "token_bytes", "token_str"};
    const size_t place = json->at;
    bool first = true, more = true, seen[KEYS] = {false};
    ota_status status = ota_token_json_open(json, '{');
    r->word.used = 0;
    while (status == OTA_OK) {
        status = ota_token_json_next(json, '{', &first, &more);
        if (status != OTA_OK || !more) break;
        const size_t at = json->at;
        r->raw.used = 0;
        status = ota_token_json_key(json, &r->raw);
        int k = 0;
        while (k < KEYS &&
               (strlen(keys[k]) != r->raw.used || memcmp(keys[k], r->raw.bytes, r->raw.used) != 0))
            k++;
        if (status == OTA_OK && (k == KEYS || seen[k]))
            status = ota_token_json_refuse(
                json, at, "a piece has rank, token_bytes and token_str, each once");
        if (status != OTA_OK) break;
        seen[k] = true;
        ota_text span;
        status = k == RANK    ? ota_token_json_integer(json, rank)
                 : k == BYTES ? ota_token_json_string(json, &r->word)
                              : ota_token_json_skip(json, &span);
    }
    if (status == OTA_OK && !(seen[RANK] && seen[BYTES]))
        status = ota_token_json_refuse(json, place, "a piece must have rank and token_bytes");
    return status;
}

/* The bytes of r->word as a piece, spelled in the alphabet of bytes. */
static ota_status add_piece(reading *r, const ota_token_json *json, size_t place, int64_t rank) {
    bool no_memory;
    const size_t begin = r->list.text.used;
    r->raw.used = 0;
    if (!ota_token_base64(r->word.bytes, r->word.used, &r->raw, &no_memory))
        return no_memory ? ota_token_no_memory(json->error)
                         : ota_token_json_refuse(json, place, "token_bytes must be in base64");
    if (rank < 256 && (r->raw.used != 1 || (unsigned char)*r->raw.bytes != rank))
        return ota_token_json_refuse(json, place, "the first 256 pieces must be the bytes");
    for (size_t k = 0; k < r->raw.used; k++)
        if (!ota_token_put_byte(&r->list.text, (unsigned char)r->raw.bytes[k]))
            return ota_token_no_memory(json->error);
    return ota_token_list_add(&r->list, begin, r->special + rank, (int64_t)place, json->error);
}

static ota_status read_pieces(reading *r) {
    ota_token_json json = ota_token_json_within(&r->json, r->spans[VOCAB]);
    bool first = true, more = true;
    int64_t next = 0;
    ota_status status = ota_token_json_open(&json, '[');
    for (; status == OTA_OK; next++) {
        int64_t rank = 0;
        status = ota_token_json_next(&json, '[', &first, &more);
        if (status != OTA_OK || !more) break;
        const size_t place = json.at;
        status = read_piece(r, &json, &rank);
        if (status == OTA_OK && rank != next)
            status = ota_token_json_refuse(&json, place, "ranks must be 0, 1, 2 ... in order");
        if (status == OTA_OK && rank < r->pieces) status = add_piece(r, &json, place, rank);
        if (status == OTA_OK) status = ota_look(r->list.ending, json.at - place, json.error);
    }
    if (status == OTA_OK) status = ota_token_json_finish(&json);
    if (status == OTA_OK && next < r->pieces)
        status = refuse(r, VOCAB, OTA_EFORMAT,
                        "vocab must hold as many pieces as default_vocab_size has beyond the "
                        "special ones");
    return status;
}

/* ---- special pieces ---- */

static ota_status add_special(reading *r, const char *text, int64_t place) {
    const size_t begin = r->list.text.used;
    if (!ota_token_append(&r->list.text, text, strlen(text)))
        return ota_token_no_memory(r->json.error);
    return ota_token_list_add(&r->list, begin, (int64_t)r->list.outside++, place, r->json.error);
}

static ota_status read_one_special(reading *r, const json_t *tree, int64_t place) {
    const ota_token_member member = {.path = r->list.path, .offset = place, .error = r->json.error};
    const ota_status status = ota_token_keys(tree, "rank:n token_str:s is_control:b", &member,
                                             "an element of special_tokens");
    if (status != OTA_OK) return status;
    const json_t *rank = json_object_get(tree, "rank");
    const char *text = json_string_value(json_object_get(tree, "token_str"));
    if (text == NULL || !json_is_integer(rank) ||
        json_integer_value(rank) != (json_int_t)r->list.outside ||
        json_integer_value(rank) >= r->special)
        return ota_token_fail(r->json.error, OTA_EFORMAT, r->list.path, place,
                              "special_tokens must have a token_str and the ranks 0, 1, 2 ... in "
                              "order, below default_num_special_tokens");
    return add_special(r, text, place);
}

static ota_status read_special(reading *r) {
    ota_token_json json = ota_token_json_within(&r->json, r->spans[SPECIAL]);
    bool first = true, more = true;
    ota_status status = ota_token_json_open(&json, '[');
    while (status == OTA_OK) {
        ota_text span;
        json_t *tree = NULL;
        status = ota_token_json_next(&json, '[', &first, &more);
        if (status != OTA_OK || !more) break;
        status = ota_token_json_skip(&json, &span);
        json.trees = 0;
        if (status == OTA_OK) status = ota_token_json_tree(&json, span, &tree);
        if (status == OTA_OK) status = read_one_special(r, tree, ota_token_json_place(&json, span));
        json_decref(tree);
    }
    return status == OTA_OK ? ota_token_json_finish(&json) : status;
}

static ota_status add_all_special(reading *r) {
    const ota_text listed = r->spans[SPECIAL];
    const bool lists = listed.data != NULL && *listed.data != 'n';
    ota_status status = OTA_OK;
    if (lists) status = read_special(r);
    if (!lists && !r->early)
        status = refuse(r, CONFIG, OTA_EFORMAT, "files of this version must have special_tokens");
    for (size_t k = 0; k < EARLY && !lists && status == OTA_OK; k++)
        status = (int64_t)k < r->special
                     ? add_special(r, early_special[k], -1)
                     : refuse(r, CONFIG, OTA_EFORMAT,
                              "default_num_special_tokens must be 20 at least without "
                              "special_tokens");
    while (status == OTA_OK && (int64_t)r->list.outside < r->special) {
        char text[40];
        (void)ota_snprintf(text, sizeof text, "<SPECIAL_%zu>", r->list.outside);
        status = add_special(r, text, -1);
    }
    return status;
}

/* ---- all of it ---- */

/* A merge for every way in which a piece is two pieces; the pieces' characters stand for bytes. */
static ota_status make_merges(const reading *r, ota_token_merge_list *merges) {
    const ota_vocabulary *vocabulary = &r->tokenizer->vocabulary;
    ota_status status = OTA_OK;
    for (int32_t id = (int32_t)r->special; id < vocabulary->count; id++) {
        const ota_text piece = ota_vocabulary_text(vocabulary, id);
        for (size_t at = 1; at < piece.size && status == OTA_OK; at++) {
            /* Both parts are hashed, whose bytes are the whole piece's. */
            status = ota_look(merges->ending, piece.size / 8 + 1, r->json.error);
            if (status != OTA_OK || ((unsigned char)piece.data[at] & 0xC0) == 0x80) continue;
            const int32_t left = ota_vocabulary_find_model(vocabulary, piece.data, at),
                          right = ota_vocabulary_find_model(vocabulary, piece.data + at,
                                                            piece.size - at);
            if (left < 0 || right < 0) continue;
            const ota_merge merge = {.pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right,
                                     .rank = (uint32_t)id,
                                     .product = id};
            status = ota_bpe_put_merge(merges, merge, r->list.path, -1, r->json.error);
        }
    }
    return status;
}

static ota_status build(reading *r) {
    ota_tokenizer *tokenizer = r->tokenizer;
    ota_token_merge_list merges = {.ending = tokenizer->ending};
    ota_status status = ota_vocabulary_build(&tokenizer->vocabulary, &r->list, r->json.error);
    tokenizer->model = OTA_TOKEN_BPE;
    tokenizer->bpe.whole_word = true;
    (void)ota_tokenizer_undo(tokenizer, OTA_UNDO_BYTES, NULL);
    if (status == OTA_OK) status = make_merges(r, &merges);
    if (status == OTA_OK) status = ota_bpe_build(tokenizer, &merges, r->json.error);
    free(merges.merges);
    for (int32_t id = 0; id < r->special && status == OTA_OK; id++)
        status = ota_tokenizer_add(tokenizer, (ota_added){.id = id, .flags = OTA_ADDED_SPECIAL},
                                   r->json.error);
    if (status != OTA_OK) return status;
    const int32_t begin = ota_vocabulary_find(&tokenizer->vocabulary, "<s>", 3);
    if (begin < 0)
        return refuse(r, SPECIAL, OTA_EFORMAT, "special_tokens must hold <s>, which begins a text");
    tokenizer->before = (ota_token_frame){{begin}, 1};
    return OTA_OK;
}

static ota_status read_all(reading *r) {
    ota_token_json json = r->json;
    const ota_token_member member = {.path = r->list.path, .offset = -1, .error = r->json.error};
    ota_status status =
        ota_token_json_members(&json, &r->json, names, MEMBERS, r->spans, r->others);
    if (status == OTA_OK) status = ota_token_json_finish(&json);
    if (status == OTA_OK)
        status = ota_token_keys(r->others,
                                "version:x type:x image:x multimodal:x audio:x "
                                "model_settings_builder:x",
                                &member, "the file");
    if (status != OTA_OK) return status;
    if (r->spans[CONFIG].data == NULL || r->spans[VOCAB].data == NULL)
        return refuse(r, CONFIG, OTA_EFORMAT, "tekken.json must have config and vocab");
    status = read_config(r);
    if (status == OTA_OK) status = read_pieces(r);
    if (status == OTA_OK) status = add_all_special(r);
    return status == OTA_OK ? build(r) : status;
}

ota_status ota_tokenizer_read_tekken(ota_tokenizer *tokenizer, const ota_token_file *file,
                                     ota_error *error) {
    reading r = {.tokenizer = tokenizer,
                 .json = {.file = file, .end = file->size, .error = error},
                 .others = json_object(),
                 .list = {.path = file->path, .ending = file->ending}};
    const ota_status status = r.others == NULL ? ota_token_no_memory(error) : read_all(&r);
    json_decref(r.others);
    json_decref(r.config);
    ota_token_list_free(&r.list);
    free(r.word.bytes);
    free(r.raw.bytes);
    return status;
}
