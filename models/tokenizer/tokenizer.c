/* Tokenizers: opening by path, the last checks, queries. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "models/checkpoint/files.h"
#include "token_settings.h"

/* ---- building blocks of the readers ---- */

/* What one counts for in looks, besides its text. */
enum { ADDED_WORK = 4 };

ota_status ota_tokenizer_add(ota_tokenizer *tokenizer, ota_added token, ota_error *error) {
    ota_added_set *set = (token.flags & OTA_ADDED_NORMALIZED) != 0 ? &tokenizer->normal_added
                                                                   : &tokenizer->raw_added;
    const ota_status looked = ota_look(tokenizer->ending, ADDED_WORK, error);
    if (looked != OTA_OK) return looked;
    const ota_text text = ota_vocabulary_text(&tokenizer->vocabulary, token.id);
    if ((token.flags & OTA_ADDED_NORMALIZED) == 0 || tokenizer->literal_users) {
        return ota_added_put(set, text, token) ? OTA_OK : ota_token_no_memory(error);
    }
    /* It is looked for in normalised text, so it is normalised itself; gguf's of SentencePiece are spelled so but for blanks. */
    ota_token_buffer out = {0}, spare = {0};
    if (tokenizer->sentencepiece) {
        const bool fine = ota_sentencepiece_spell(text, &out) &&
                          ota_added_put(set, (ota_text){out.bytes, out.used}, token);
        free(out.bytes);
        return fine ? OTA_OK : ota_token_no_memory(error);
    }
    ota_normalizing run = {
        .tokenizer = tokenizer, .out = &out, .spare = &spare, .ending = tokenizer->ending};
    ota_status status = ota_normalize(&run, text, error);
    if (status == OTA_OK && out.used > 0 &&
        !ota_added_put(set, (ota_text){out.bytes, out.used}, token))
        status = ota_token_no_memory(error);
    free(out.bytes);
    free(spare.bytes);
    return status;
}

ota_status ota_tokenizer_cut(ota_tokenizer *tokenizer, ota_cut_rule rule, bool invert,
                             const char *pattern, ota_error *error) {
    if (tokenizer->cut_count == OTA_TOKEN_STEPS_MOST)
        return ota_token_fail(error, OTA_ELIMIT, "", -1, "a pre-tokenizer has at most %d steps",
                              OTA_TOKEN_STEPS_MOST);
    ota_cut *cut = &tokenizer->cuts[tokenizer->cut_count++];
    *cut = (ota_cut){.rule = rule, .invert = invert};
    if (pattern == NULL) return OTA_OK;
    return ota_pattern_compile(&cut->pattern, (ota_text){pattern, strlen(pattern)}, false, "", -1,
                               error);
}

ota_undo *ota_tokenizer_undo(ota_tokenizer *tokenizer, ota_undo_kind kind, const char *text) {
    if (tokenizer->undo_count == OTA_TOKEN_STEPS_MOST) return NULL;
    ota_undo *step = &tokenizer->undo[tokenizer->undo_count++];
    *step = (ota_undo){.kind = kind};
    if (text == NULL) return step;
    step->text_size = strlen(text);
    step->text = malloc(step->text_size + 1);
    if (step->text != NULL) memcpy(step->text, text, step->text_size + 1);
    return step;
}

void ota_tokenizer_undo_clear(ota_tokenizer *tokenizer) {
    for (int k = 0; k < tokenizer->undo_count; k++) {
        free(tokenizer->undo[k].text);
        ota_pattern_free(tokenizer->undo[k].pattern);
    }
    tokenizer->undo_count = 0;
}

ota_status ota_tokenizer_undo_wordpiece(ota_tokenizer *tokenizer, const char *prefix, bool clean_up,
                                        ota_error *error) {
    ota_undo *step = ota_tokenizer_undo(tokenizer, OTA_UNDO_WORDPIECE, prefix);
    if (step == NULL)
        return ota_token_fail(error, OTA_ELIMIT, "", -1, "a decoder has at most %d steps",
                              OTA_TOKEN_STEPS_MOST);
    step->count = clean_up;
    return step->text != NULL ? OTA_OK : ota_token_no_memory(error);
}

ota_status ota_tokenizer_undo_sentencepiece(ota_tokenizer *tokenizer, bool front, bool once,
                                            ota_error *error) {
    const ota_undo *blank = ota_tokenizer_undo(tokenizer, OTA_UNDO_SPELL, "\xE2\x96\x81");
    ota_undo *bytes = ota_tokenizer_undo(tokenizer, OTA_UNDO_FALLBACK, NULL),
             *begin = ota_tokenizer_undo(tokenizer, OTA_UNDO_FRONT, NULL);
    if (blank == NULL || blank->text == NULL || bytes == NULL || begin == NULL)
        return ota_token_no_memory(error);
    bytes->keep = true;
    begin->count = front || once;
    begin->last = once;
    return OTA_OK;
}

bool ota_tokenizer_bert_normal(ota_tokenizer *tokenizer, bool clean, bool chinese, bool accents,
                               bool lower) {
    const struct {
        bool wanted;
        ota_normal_kind kind;
    } steps[] = {{clean, OTA_NORMAL_CLEAN},
                 {chinese, OTA_NORMAL_SPACE_CHINESE},
                 {accents, OTA_NORMAL_NFD},
                 {accents, OTA_NORMAL_STRIP_ACCENTS},
                 {lower, OTA_NORMAL_LOWERCASE}};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
        if (steps[k].wanted && ota_tokenizer_normal(tokenizer, steps[k].kind) == NULL) return false;
    return true;
}

ota_status ota_tokenizer_bert_words(ota_tokenizer *tokenizer, ota_error *error) {
    const ota_status status =
        ota_tokenizer_cut(tokenizer, OTA_CUT_REMOVED, false, ota_cut_space, error);
    if (status != OTA_OK) return status;
    return ota_tokenizer_cut(tokenizer, OTA_CUT_ISOLATED, false, ota_cut_punctuation, error);
}

static void mark(ota_tokenizer *tokenizer, const ota_added_set *set) {
    for (size_t k = 0; k < set->count; k++) {
        tokenizer->kinds[set->tokens[k].id] |= OTA_TOKEN_IS_ADDED;
        if ((set->tokens[k].flags & OTA_ADDED_SPECIAL) != 0)
            tokenizer->kinds[set->tokens[k].id] |= OTA_TOKEN_IS_SPECIAL;
    }
}

ota_status ota_tokenizer_finish(ota_tokenizer *tokenizer, ota_error *error) {
    ota_status status = ota_added_sort(&tokenizer->raw_added, tokenizer->ending, error);
    if (status == OTA_OK)
        status = ota_added_sort(&tokenizer->normal_added, tokenizer->ending, error);
    tokenizer->ending = NULL;
    if (status != OTA_OK) return status;
    tokenizer->kinds = calloc((size_t)tokenizer->vocabulary.count + 1, 1);
    if (tokenizer->kinds == NULL) return ota_token_no_memory(error);
    mark(tokenizer, &tokenizer->raw_added);
    mark(tokenizer, &tokenizer->normal_added);
    const ota_added_set *set = &tokenizer->normal_added;
    if (set->count == 0 || tokenizer->normal_count == 0 || tokenizer->sentencepiece) return OTA_OK;
    const size_t bytes = ((size_t)tokenizer->vocabulary.count + 1) * sizeof *tokenizer->normalized;
    tokenizer->normalized = malloc(bytes);
    if (tokenizer->normalized == NULL) return ota_token_no_memory(error);
    memset(tokenizer->normalized, 0xFF, bytes);
    for (size_t k = 0; k < set->count; k++) tokenizer->normalized[set->tokens[k].id] = (int32_t)k;
    return OTA_OK;
}

void ota_tokenizer_free(ota_tokenizer *tokenizer) {
    if (tokenizer == NULL) return;
    ota_vocabulary_free(&tokenizer->vocabulary);
    ota_bpe_free(&tokenizer->bpe);
    ota_unigram_free(&tokenizer->unigram);
    for (int k = 0; k < tokenizer->normal_count; k++) ota_normal_free(&tokenizer->normal[k]);
    for (int k = 0; k < tokenizer->cut_count; k++) ota_pattern_free(tokenizer->cuts[k].pattern);
    ota_tokenizer_undo_clear(tokenizer);
    ota_added_free(&tokenizer->raw_added);
    ota_added_free(&tokenizer->normal_added);
    free(tokenizer->kinds);
    free(tokenizer->normalized);
    free(tokenizer);
}

/* ---- opening ---- */

enum { PATH_MOST = 4096 };

/* folder/name into `path`; true when there is such a file. */
static bool have(const char *folder, const char *name, char *path) {
    const int length = ota_snprintf(path, PATH_MOST, "%s/%s", folder, name);
    return length > 0 && length < PATH_MOST && ota_path_exists(path);
}

static ota_status open_json(ota_tokenizer *tokenizer, const char *path,
                            ota_token_settings *settings, ota_error *error) {
    ota_token_file file;
    ota_status status = ota_token_file_read(path, tokenizer->ending, &file, error);
    if (status == OTA_OK) status = ota_tokenizer_read_json(tokenizer, &file, settings, error);
    ota_token_file_free(&file);
    return status;
}

static ota_status open_lists(ota_tokenizer *tokenizer, const char *vocabulary_path,
                             const char *merges_path, ota_token_settings *settings,
                             ota_error *error) {
    ota_token_file vocabulary = {0}, merges = {0};
    ota_status status = ota_token_file_read(vocabulary_path, tokenizer->ending, &vocabulary, error);
    if (status == OTA_OK)
        status = ota_token_file_read(merges_path, tokenizer->ending, &merges, error);
    if (status == OTA_OK)
        status = ota_tokenizer_read_lists(tokenizer, &vocabulary, &merges, settings, error);
    ota_token_file_free(&vocabulary);
    ota_token_file_free(&merges);
    return status;
}

static ota_status open_lines(ota_tokenizer *tokenizer, const char *path,
                             ota_token_settings *settings, ota_error *error) {
    ota_token_file file;
    ota_status status = ota_token_file_read(path, tokenizer->ending, &file, error);
    if (status == OTA_OK) status = ota_tokenizer_read_lines(tokenizer, &file, settings, error);
    ota_token_file_free(&file);
    return status;
}

static ota_status open_tekken(ota_tokenizer *tokenizer, const char *path,
                              const ota_token_settings *settings, ota_error *error) {
    for (int k = OTA_SETTINGS_CONFIG; k <= OTA_SETTINGS_ADDED; k++)
        if (settings->trees[k] != NULL)
            return ota_token_settings_fail(settings, (ota_settings_file)k, OTA_UNSUPPORTED,
                                           "is not run beside tekken.json, by which Mistral's "
                                           "models set nothing else; take it out");
    ota_token_file file;
    ota_status status = ota_token_file_read(path, tokenizer->ending, &file, error);
    if (status == OTA_OK) status = ota_tokenizer_read_tekken(tokenizer, &file, error);
    ota_token_file_free(&file);
    return status;
}

static ota_status open_model(ota_tokenizer *tokenizer, const char *path,
                             ota_token_settings *settings, ota_error *error) {
    ota_token_file file;
    ota_status status = ota_token_file_bytes(path, tokenizer->ending, &file, error);
    if (status == OTA_OK) status = ota_tokenizer_read_model(tokenizer, &file, settings, error);
    ota_token_file_free(&file);
    return status;
}

static ota_status open_folder(ota_tokenizer *tokenizer, const char *folder,
                              ota_token_settings *settings, ota_error *error) {
    char path[PATH_MOST], other[PATH_MOST];
    const ota_status status = ota_token_settings_read(settings, folder, error);
    if (status != OTA_OK) return status;
    if (have(folder, "tokenizer.json", path)) return open_json(tokenizer, path, settings, error);
    if ((have(folder, "vocab.json", path) || have(folder, "encoder.json", path)) &&
        (have(folder, "merges.txt", other) || have(folder, "vocab.bpe", other)))
        return open_lists(tokenizer, path, other, settings, error);
    if (have(folder, "vocab.txt", path)) return open_lines(tokenizer, path, settings, error);
    if (have(folder, "tokenizer.model", path) || have(folder, "spiece.model", path) ||
        have(folder, "sentencepiece.bpe.model", path))
        return open_model(tokenizer, path, settings, error);
    if (have(folder, "tekken.json", path)) return open_tekken(tokenizer, path, settings, error);
    return ota_token_fail(error, OTA_EIO, folder, -1,
                          "holds no tokenizer: tokenizer.json, vocab.json (encoder.json) with "
                          "merges.txt (vocab.bpe), vocab.txt, tokenizer.model (spiece.model, "
                          "sentencepiece.bpe.model), or tekken.json");
}

ota_status ota_tokenizer_open(ota_tokenizer **tokenizer, const char *path, ota_error *error) {
    return ota_tokenizer_open_with(tokenizer, path, NULL, error);
}

ota_status ota_tokenizer_open_with(ota_tokenizer **tokenizer, const char *path,
                                   const ota_token_options *options, ota_error *error) {
    ota_ending ending;
    if (tokenizer == NULL || path == NULL)
        return ota_token_fail(error, OTA_EINVAL, "", -1, "%s is NULL",
                              tokenizer == NULL ? "tokenizer" : "path");
    *tokenizer = NULL;
    ota_status status = ota_token_ending_begin(options, NULL, &ending, error);
    if (status != OTA_OK) return status;
    const bool folder = ota_path_is_folder(path);
    const size_t length = strlen(path);
    const bool json = length >= 5 && strcmp(path + length - 5, ".json") == 0,
               tekken = json && strstr(ota_path_end(path), "tekken") != NULL,
               pieces = length >= 6 && strcmp(path + length - 6, ".model") == 0;
    ota_tokenizer *made = calloc(1, sizeof *made);
    if (made == NULL) return ota_token_no_memory(error);
    made->unknown = -1;
    made->ending = &ending;
    /* A file stands alone: what lies beside it says nothing. */
    ota_token_settings settings;
    ota_token_settings_start(&settings, &ending, error);
    status = folder   ? open_folder(made, path, &settings, error)
             : tekken ? open_tekken(made, path, &settings, error)
             : json   ? open_json(made, path, &settings, error)
             : pieces ? open_model(made, path, &settings, error)
                      : open_lines(made, path, &settings, error);
    ota_token_settings_free(&settings);
    if (status == OTA_OK) status = ota_tokenizer_finish(made, error);
    if (status != OTA_OK) {
        ota_tokenizer_free(made);
        return status;
    }
    *tokenizer = made;
    return OTA_OK;
}

/* ---- questions ---- */

const char *ota_tokenizer_model(const ota_tokenizer *tokenizer) {
    switch (tokenizer->model) {
    case OTA_TOKEN_BPE: return tokenizer->sentencepiece ? "sentencepiece" : "bpe";
    case OTA_TOKEN_UNIGRAM: return "unigram";
    case OTA_TOKEN_WORDPIECE: return "wordpiece";
    case OTA_TOKEN_LONGEST: return "rwkv";
    case OTA_TOKEN_PLAMO: return "plamo2";
    default: return "words";
    }
}

int64_t ota_tokenizer_count(const ota_tokenizer *tokenizer) { return tokenizer->vocabulary.count; }

static bool is_id(const ota_tokenizer *tokenizer, int64_t id) {
    return id >= 0 && id < tokenizer->vocabulary.count;
}

ota_text ota_tokenizer_piece(const ota_tokenizer *tokenizer, int64_t id) {
    if (!is_id(tokenizer, id)) return (ota_text){NULL, 0};
    return ota_vocabulary_text(&tokenizer->vocabulary, (int32_t)id);
}

int64_t ota_tokenizer_id(const ota_tokenizer *tokenizer, ota_text piece) {
    return ota_vocabulary_find(&tokenizer->vocabulary, piece.data, piece.size);
}

int ota_tokenizer_is_special(const ota_tokenizer *tokenizer, int64_t id) {
    return is_id(tokenizer, id) && (tokenizer->kinds[id] & OTA_TOKEN_IS_SPECIAL) != 0;
}

int64_t ota_tokenizer_frame(const ota_tokenizer *tokenizer, int after, int32_t *ids,
                            int64_t capacity) {
    const ota_token_frame *frame = after ? &tokenizer->after : &tokenizer->before;
    for (int k = 0; k < frame->count && k < capacity; k++) ids[k] = frame->ids[k];
    return frame->count;
}
