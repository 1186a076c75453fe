/* The tokenizer of an open model: of a folder its files, of a gguf file the lists in its metadata
 *
 *   tokenizer.ggml.model "gpt2"   .pre how text is cut   .tokens   .token_type   .merges
 *   .bos_token_id .eos_token_id, set around a text where .add_bos_token .add_eos_token say so
 *
 *   tokenizer.ggml.model "llama"   .tokens   .scores   .token_type   .unknown_token_id   .bos_token_id
 *   .eos_token_id as above, and .add_space_prefix, which must be false; .remove_extra_whitespaces and
 *   .precompiled_charsmap ask for a normalisation and are refused
 *
 *   tokenizer.ggml.model "bert"   .tokens   .token_type   .unknown_token_id   .cls_token_id, else
 *   .bos_token_id, and .seperator_token_id (so spelled), else .eos_token_id, set around every text
 *
 * There pieces that begin a word are spelled with U+2581 in front and those that continue one without the
 * ## of vocab.txt; control pieces and [...] stand as they are. No key tells whether case is kept: it is
 * where a piece has an upper-case letter. */
#include <stdlib.h>
#include <string.h>

#include "models/checkpoint/model.h"
#include "otattn_tokenizer.h"

typedef struct lists {
    const ota_model *model;
    const unsigned char *map;
    ota_text *pieces, *merges;
    char *spelled; /* WordPiece: what `pieces` point into */
    int32_t *kinds;
    float *scores;
    int64_t piece_count, merge_count, kind_count;
    ota_error *error;
} lists;

static uint64_t whole_at(const unsigned char *bytes, int size) {
    uint64_t value = 0;
    for (int k = size - 1; k >= 0; k--) value = value << 8 | bytes[k];
    return value;
}

static const ota_gguf_pair *find(const lists *l, const char *key, ota_gguf_type type) {
    const ota_gguf_pair *pair = ota_gguf_find(l->model->pairs, l->model->pair_count, key);
    return pair != NULL && pair->type == (uint32_t)type ? pair : NULL;
}

static ota_text text_at(const unsigned char *at) {
    return (ota_text){.data = (const char *)at + 8, .size = (size_t)whole_at(at, 8)};
}

static bool is_text(ota_text text, const char *word) {
    return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

/* The array under `key`; its values have been found inside the file when it was opened. */
static const unsigned char *find_array(const lists *l, const char *key, ota_gguf_type inner,
                                       int64_t *count) {
    const ota_gguf_pair *pair = find(l, key, OTA_GGUF_ARRAY);
    *count = 0;
    if (pair == NULL || whole_at(l->map + pair->offset, 4) != (uint64_t)inner) return NULL;
    *count = (int64_t)whole_at(l->map + pair->offset + 4, 8);
    return l->map + pair->offset + 12;
}

static ota_status read_texts(const lists *l, const char *key, int64_t most, ota_text **out,
                             int64_t *count) {
    const unsigned char *at = find_array(l, key, OTA_GGUF_STRING, count);
    if (*count > most)
        return ota_refuse(l->error, OTA_ELIMIT, "%s: %s holds more than %lld texts",
                          ota_path_end(l->model->path), key, (long long)most);
    *out = calloc((size_t)*count + 1, sizeof **out);
    if (*out == NULL) return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    for (int64_t k = 0; k < *count; k++) {
        (*out)[k] = text_at(at);
        at += 8 + (*out)[k].size;
    }
    return OTA_OK;
}

static ota_status read_kinds(lists *l) {
    const unsigned char *at =
        find_array(l, "tokenizer.ggml.token_type", OTA_GGUF_INT32, &l->kind_count);
    if (l->kind_count != l->piece_count) return OTA_OK;
    l->kinds = calloc((size_t)l->kind_count + 1, sizeof *l->kinds);
    if (l->kinds == NULL)
        return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    for (int64_t k = 0; k < l->kind_count; k++) {
        const uint64_t kind = whole_at(at + 4 * k, 4);
        l->kinds[k] = kind >= 1 && kind <= OTA_PIECE_BYTE ? (int32_t)kind : OTA_PIECE_NORMAL;
    }
    return OTA_OK;
}

/* The piece that `id_key` names where `add_key` is true (or missing and `standard`). */
static ota_text frame(const lists *l, const char *add_key, const char *id_key, bool standard) {
    const ota_gguf_pair *add = find(l, add_key, OTA_GGUF_TRUTH),
                        *id = find(l, id_key, OTA_GGUF_UINT32);
    const bool wanted = add != NULL ? l->map[add->offset] != 0 : standard;
    const uint64_t index = id != NULL ? whole_at(l->map + id->offset, 4) : UINT64_MAX;
    if (!wanted || index >= (uint64_t)l->piece_count) return (ota_text){0};
    return l->pieces[index];
}

static ota_status choose_cut(const lists *l, ota_tokenizer_parts *parts) {
    static const struct {
        const char *word, *cut;
        int keep_whole_word;
    } cuts[] = {{"gpt-2", "gpt-2", 0},
                {"default", "gpt-2", 0},
                {"smollm", "smollm", 0},
                {"llama-bpe", "llama-3", 1},
                {"llama3", "llama-3", 1}};
    const ota_gguf_pair *pre = find(l, "tokenizer.ggml.pre", OTA_GGUF_STRING);
    const ota_text word = pre != NULL ? text_at(l->map + pre->offset) : (ota_text){"default", 7};
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
        if (!is_text(word, cuts[k].word)) continue;
        parts->cut = cuts[k].cut;
        parts->keep_whole_word = cuts[k].keep_whole_word;
        return OTA_OK;
    }
    return ota_refuse(l->error, OTA_UNSUPPORTED, "%s: the pre-tokenizer \"%.*s\" is not known",
                      ota_path_end(l->model->path), (int)(word.size < 40 ? word.size : 40),
                      word.data);
}

static ota_status make_bpe(lists *l, ota_tokenizer_parts *parts) {
    parts->model = "bpe";
    ota_status status = choose_cut(l, parts);
    if (status == OTA_OK)
        status = read_texts(l, "tokenizer.ggml.merges", 1 << 21, &l->merges, &l->merge_count);
    if (status != OTA_OK) return status;
    parts->merges = l->merges;
    parts->merge_count = l->merge_count;
    parts->begin = frame(l, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id",
                         parts->keep_whole_word != 0);
    parts->end = frame(l, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false);
    return OTA_OK;
}

/* ---- SentencePiece ---- */

static ota_status read_scores(lists *l) {
    int64_t count;
    const unsigned char *at = find_array(l, "tokenizer.ggml.scores", OTA_GGUF_FLOAT32, &count);
    if (at == NULL || count != l->piece_count)
        return ota_refuse(l->error, OTA_EMISMATCH,
                          "%s: tokenizer.ggml.scores must hold one f32 for each piece",
                          ota_path_end(l->model->path));
    l->scores = calloc((size_t)count + 1, sizeof *l->scores);
    if (l->scores == NULL)
        return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    for (int64_t k = 0; k < count; k++) {
        const uint32_t word = (uint32_t)whole_at(at + 4 * k, 4);
        memcpy(&l->scores[k], &word, sizeof word);
    }
    return OTA_OK;
}

static ota_status make_sentencepiece(lists *l, ota_tokenizer_parts *parts) {
    parts->model = "sentencepiece";
    const ota_gguf_pair *prefix = find(l, "tokenizer.ggml.add_space_prefix", OTA_GGUF_TRUTH),
                        *blanks =
                            find(l, "tokenizer.ggml.remove_extra_whitespaces", OTA_GGUF_TRUTH);
    const char *const name = ota_path_end(l->model->path);
    if (prefix == NULL || l->map[prefix->offset] != 0)
        return ota_refuse(
            l->error, OTA_UNSUPPORTED,
            "%s: tokenizers that put a blank in front of a text (add_space_prefix) are not run",
            name);
    if ((blanks != NULL && l->map[blanks->offset] != 0) ||
        find(l, "tokenizer.ggml.precompiled_charsmap", OTA_GGUF_ARRAY) != NULL)
        return ota_refuse(l->error, OTA_UNSUPPORTED,
                          "%s: tokenizers that normalise a text (remove_extra_whitespaces, "
                          "precompiled_charsmap) are not run",
                          name);
    if (l->kinds == NULL)
        return ota_refuse(l->error, OTA_EMISMATCH,
                          "%s: tokenizer.ggml.token_type must hold one i32 for each piece", name);
    const ota_status status = read_scores(l);
    parts->scores = l->scores;
    parts->begin = frame(l, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", true);
    parts->end = frame(l, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false);
    parts->unknown = frame(l, "", "tokenizer.ggml.unknown_token_id", true);
    return status;
}

/* ---- WordPiece ---- */

static bool begins_word(ota_text piece) {
    return piece.size >= 3 && memcmp(piece.data, "\xE2\x96\x81", 3) == 0;
}

static bool stands_alone(const lists *l, int64_t k) {
    const ota_text piece = l->pieces[k];
    return (l->kinds != NULL && l->kinds[k] != OTA_PIECE_NORMAL) ||
           (piece.size >= 2 && piece.data[0] == '[' && piece.data[piece.size - 1] == ']');
}

static bool has_upper_case(ota_text piece) {
    for (size_t i = 0; i < piece.size; i++)
        if (piece.data[i] >= 'A' && piece.data[i] <= 'Z') return true;
    return false;
}

/* Pieces as vocab.txt spells them. */
static ota_status spell_pieces(lists *l, ota_tokenizer_parts *parts) {
    size_t bytes = 1;
    for (int64_t k = 0; k < l->piece_count; k++) bytes += l->pieces[k].size + 2;
    l->spelled = malloc(bytes);
    if (l->spelled == NULL)
        return ota_refuse(l->error, OTA_ENOMEM, "no memory is left for a tokenizer");
    char *at = l->spelled;
    for (int64_t k = 0; k < l->piece_count; k++) {
        ota_text piece = l->pieces[k];
        char *const begin = at;
        const bool begins = begins_word(piece);
        if (begins) piece = (ota_text){piece.data + 3, piece.size - 3};
        if (!begins && !stands_alone(l, k)) {
            memcpy(at, "##", 2);
            at += 2;
        }
        if (begins && piece.data[0] != '[') parts->keep_case |= has_upper_case(piece);
        memcpy(at, piece.data, piece.size);
        at += piece.size;
        l->pieces[k] = (ota_text){begin, (size_t)(at - begin)};
    }
    return OTA_OK;
}

/* The first of two keys that names a piece. */
static ota_text named_piece(const lists *l, const char *first, const char *second) {
    const ota_text piece = frame(l, "", first, true);
    return piece.data != NULL || second == NULL ? piece : frame(l, "", second, true);
}

static ota_status make_wordpiece(lists *l, ota_tokenizer_parts *parts) {
    parts->model = "wordpiece";
    const ota_status status = spell_pieces(l, parts);
    parts->begin = named_piece(l, "tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id");
    parts->end = named_piece(l, "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eos_token_id");
    parts->unknown = named_piece(l, "tokenizer.ggml.unknown_token_id", NULL);
    return status;
}

/* ---- the whole ---- */

static ota_status make(lists *l, ota_tokenizer **tokenizer) {
    ota_tokenizer_parts parts = {.size = sizeof parts, .source = l->model->path};
    const ota_gguf_pair *model = find(l, "tokenizer.ggml.model", OTA_GGUF_STRING);
    const ota_text word = model != NULL ? text_at(l->map + model->offset) : (ota_text){"", 0};
    static const struct {
        const char *word;
        ota_status (*make)(lists *, ota_tokenizer_parts *);
    } rows[] = {{"gpt2", make_bpe}, {"llama", make_sentencepiece}, {"bert", make_wordpiece}};
    size_t row = 0;
    while (row < 3 && !is_text(word, rows[row].word)) row++;
    if (row == 3)
        return ota_refuse(
            l->error, OTA_UNSUPPORTED,
            "%s: only byte-level BPE, SentencePiece's BPE and WordPiece tokenizers are "
            "read out of gguf files",
            ota_path_end(l->model->path));
    ota_status status =
        read_texts(l, "tokenizer.ggml.tokens", 1 << 20, &l->pieces, &l->piece_count);
    if (status == OTA_OK) status = read_kinds(l);
    if (status == OTA_OK) status = rows[row].make(l, &parts);
    if (status != OTA_OK) return status;
    parts.pieces = l->pieces;
    parts.piece_count = l->piece_count;
    parts.kinds = l->kinds;
    return ota_tokenizer_create(tokenizer, &parts, l->error);
}

ota_status ota_model_tokenizer(const ota_model *model, ota_tokenizer **tokenizer,
                               ota_error *error) {
    *tokenizer = NULL;
    if (model->pairs == NULL) return ota_tokenizer_open(tokenizer, model->path, error);
    lists l = {.model = model, .map = model->checkpoint.shards[0].map, .error = error};
    const ota_status status = make(&l, tokenizer);
    free(l.pieces);
    free(l.spelled);
    free(l.merges);
    free(l.kinds);
    free(l.scores);
    return status;
}
