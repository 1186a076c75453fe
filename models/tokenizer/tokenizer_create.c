/* A tokenizer from parts in memory, as a GGUF file holds them. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer_parts.h"

static ota_status add_pieces(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                             const char *source, ota_error *error) {
    ota_token_list list = {.path = source, .ending = tokenizer->ending};
    ota_status status = OTA_OK;
    for (int64_t k = 0; k < parts->piece_count && status == OTA_OK; k++) {
        const size_t begin = list.text.used;
        const ota_text piece = parts->pieces[k];
        if (ota_token_valid(piece.data, piece.size) < piece.size)
            status = ota_token_fail(error, OTA_EFORMAT, source, -1, "piece %lld is not UTF-8",
                                    (long long)k);
        else if (!ota_token_append(&list.text, piece.data, piece.size))
            status = ota_token_no_memory(error);
        else
            status = ota_token_list_add(&list, begin, k, -1, error);
    }
    if (status == OTA_OK) status = ota_vocabulary_build(&tokenizer->vocabulary, &list, error);
    ota_token_list_free(&list);
    return status;
}

static ota_status add_kinds(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                            ota_error *error) {
    ota_status status = OTA_OK;
    for (int64_t k = 0; k < parts->piece_count && parts->kinds != NULL && status == OTA_OK; k++) {
        const int32_t kind = parts->kinds[k];
        const bool special = kind == OTA_PIECE_CONTROL || kind == OTA_PIECE_UNKNOWN;
        /* SentencePiece looks for pieces in normalised text. */
        const bool normalized = !special && tokenizer->sentencepiece;
        if (special || kind == OTA_PIECE_USER)
            status =
                ota_tokenizer_add(tokenizer,
                                  (ota_added){.id = (int32_t)k,
                                              .flags = (special ? OTA_ADDED_SPECIAL : 0U) |
                                                       (normalized ? OTA_ADDED_NORMALIZED : 0U)},
                                  error);
    }
    return status;
}

static ota_status add_frame(const ota_tokenizer *tokenizer, ota_text piece, ota_token_frame *frame,
                            const char *source, ota_error *error) {
    if (piece.data == NULL) return OTA_OK;
    frame->ids[0] = ota_vocabulary_find(&tokenizer->vocabulary, piece.data, piece.size);
    frame->count = 1;
    if (frame->ids[0] >= 0) return OTA_OK;
    return ota_token_fail(error, OTA_EFORMAT, source, -1, "the vocabulary lacks \"%.*s\"",
                          (int)(piece.size < 80 ? piece.size : 80), piece.data);
}

static ota_status make_bpe(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                           const char *source, ota_error *error) {
    ota_token_merge_list merges = {.ending = tokenizer->ending};
    ota_status status = ota_tokenizer_named_cut(tokenizer, parts->cut, error);
    for (int64_t k = 0; k < parts->merge_count && status == OTA_OK; k++)
        status = ota_bpe_merge_line(&tokenizer->vocabulary, &merges, parts->merges[k], source, -1,
                                    error);
    tokenizer->bpe.whole_word = parts->keep_whole_word != 0;
    (void)ota_tokenizer_undo(tokenizer, OTA_UNDO_BYTES, NULL);
    if (status == OTA_OK) status = ota_bpe_build(tokenizer, &merges, error);
    free(merges.merges);
    return status;
}

static ota_status check_scores(const ota_tokenizer_parts *parts, const char *source,
                               ota_error *error) {
    if (parts->scores == NULL)
        return ota_token_fail(error, OTA_EINVAL, source, -1,
                              "scores is NULL, and these pieces need one each");
    for (int64_t k = 0; k < parts->piece_count; k++)
        if (!(parts->scores[k] >= -1e30F && parts->scores[k] <= 1e30F))
            return ota_token_fail(error, OTA_EFORMAT, source, -1,
                                  "the score of piece %lld is no number from -1e30 to 1e30",
                                  (long long)k);
    return OTA_OK;
}

/* What the kinds of SentencePiece share: scores, bytes, normalisation, decoding. */
static ota_status make_pieces(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                              const char *source, ota_error *error) {
    ota_token_frame found = {.count = 0};
    const bool front = parts->space_in_front != 0, once = parts->space_once != 0;
    ota_status status = check_scores(parts, source, error);
    if (status != OTA_OK) return status;
    status = add_frame(tokenizer, parts->unknown, &found, source, error);
    if (found.count > 0) tokenizer->unknown = found.ids[0];
    tokenizer->sentencepiece = true;
    ota_normal *step = ota_tokenizer_normal(tokenizer, OTA_NORMAL_SENTENCEPIECE);
    const unsigned end = parts->space_behind != 0 ? OTA_SPACE_BEHIND : OTA_SPACE_IN_FRONT;
    step->flags = (front ? end : 0U) | (once ? OTA_SPACE_ONCE : 0U);
    if (status == OTA_OK && parts->charsmap.size > 0)
        status =
            ota_charsmap_build(&step->map, parts->charsmap, source, -1, tokenizer->ending, error);
    if (status == OTA_OK) status = ota_sentencepiece_bytes(tokenizer, parts, error);
    return status == OTA_OK ? ota_tokenizer_undo_sentencepiece(tokenizer, front, once, error)
                            : status;
}

static ota_status make_sentencepiece(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                                     const char *source, ota_error *error) {
    ota_token_merge_list merges = {.ending = tokenizer->ending};
    ota_status status = make_pieces(tokenizer, parts, source, error);
    tokenizer->bpe.characters = true;
    tokenizer->fuse_unknown = true;
    if (status == OTA_OK)
        status = ota_sentencepiece_merges(&tokenizer->vocabulary, parts, &merges, error);
    if (status == OTA_OK) status = ota_bpe_build(tokenizer, &merges, error);
    free(merges.merges);
    return status;
}

/* Words are found among the pieces of kinds NORMAL and USER alone. */
static ota_status make_words(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                             const char *source, ota_error *error) {
    const ota_status status = make_pieces(tokenizer, parts, source, error);
    for (int64_t k = 0; k < parts->piece_count && parts->kinds != NULL && status == OTA_OK; k++)
        tokenizer->vocabulary.outside[k] =
            parts->kinds[k] != OTA_PIECE_NORMAL && parts->kinds[k] != OTA_PIECE_USER;
    return status;
}

static ota_status make_longest(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                               const char *source, ota_error *error) {
    ota_token_frame found = {.count = 0};
    const ota_status status = add_frame(tokenizer, parts->unknown, &found, source, error);
    if (found.count > 0) tokenizer->unknown = found.ids[0];
    (void)ota_tokenizer_undo(tokenizer, OTA_UNDO_BYTES, NULL);
    return status == OTA_OK ? ota_longest_build(tokenizer, parts, source, error) : status;
}

static ota_status make_plamo(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                             const char *source, ota_error *error) {
    ota_status status = check_scores(parts, source, error);
    if (status == OTA_OK) status = ota_sentencepiece_bytes(tokenizer, parts, error);
    if (status == OTA_OK && !tokenizer->fallback)
        return ota_token_fail(error, OTA_EFORMAT, source, -1,
                              "PLaMo's pieces must hold the 256 of bytes");
    ota_undo *bytes = ota_tokenizer_undo(tokenizer, OTA_UNDO_FALLBACK, NULL);
    bytes->keep = true;
    return status == OTA_OK ? ota_plamo_build(tokenizer, parts, source, error) : status;
}

/* A piece of kind USER scores a tenth for each of its bytes but the first: more than others, whose scores are logarithms of
 * chances, and the longer the more. */
static ota_status make_unigram(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                               const char *source, ota_error *error) {
    ota_unigram *unigram = &tokenizer->unigram;
    const size_t count = (size_t)tokenizer->vocabulary.count;
    ota_status status = make_pieces(tokenizer, parts, source, error);
    if (status != OTA_OK) return status;
    unigram->scores = malloc((count + 1) * sizeof *unigram->scores);
    uint8_t *use = calloc(count + 1, 1);
    if (unigram->scores == NULL || use == NULL) status = ota_token_no_memory(error);
    for (size_t k = 0; k < count && status == OTA_OK; k++) {
        const int32_t kind = parts->kinds == NULL ? OTA_PIECE_NORMAL : parts->kinds[k];
        use[k] = kind == OTA_PIECE_NORMAL ? 1 : kind == OTA_PIECE_USER ? 2 : 0;
        unigram->scores[k] =
            use[k] == 2
                ? (double)(float)(0.1 *
                                  (double)(ota_vocabulary_text(&tokenizer->vocabulary, (int32_t)k)
                                               .size -
                                           1))
                : (double)parts->scores[k];
    }
    if (status == OTA_OK) status = ota_unigram_build(tokenizer, use, error);
    free(use);
    return status;
}

static ota_status make_wordpiece(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                                 const char *source, ota_error *error) {
    const ota_text unknown = parts->unknown.data != NULL ? parts->unknown : (ota_text){"[UNK]", 5};
    ota_token_frame found = {.count = 0};
    tokenizer->wordpiece = (ota_wordpiece){.prefix = "##", .prefix_size = 2, .longest_word = 100};
    ota_status status = add_frame(tokenizer, unknown, &found, source, error);
    tokenizer->unknown = found.ids[0];
    if (status == OTA_OK) status = ota_tokenizer_undo_wordpiece(tokenizer, "##", true, error);
    const bool lower = parts->keep_case == 0,
               accents = parts->accents == OTA_ACCENTS_AS_CASE
                             ? lower
                             : parts->accents == OTA_ACCENTS_STRIPPED;
    if (status != OTA_OK || !ota_tokenizer_bert_normal(tokenizer, true, true, accents, lower))
        return status;
    return ota_tokenizer_bert_words(tokenizer, error);
}

ota_status ota_tokenizer_fill(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                              ota_error *error) {
    const char *source = parts->source, *model = parts->model == NULL ? "" : parts->model;
    static const struct {
        const char *word;
        ota_token_model model;
        ota_status (*make)(ota_tokenizer *, const ota_tokenizer_parts *, const char *, ota_error *);
    } rows[] = {{"bpe", OTA_TOKEN_BPE, make_bpe},
                {"sentencepiece", OTA_TOKEN_BPE, make_sentencepiece},
                {"unigram", OTA_TOKEN_UNIGRAM, make_unigram},
                {"words", OTA_TOKEN_WORDS, make_words},
                {"rwkv", OTA_TOKEN_LONGEST, make_longest},
                {"plamo2", OTA_TOKEN_PLAMO, make_plamo},
                {"wordpiece", OTA_TOKEN_WORDPIECE, make_wordpiece}};
    const size_t count = sizeof rows / sizeof *rows;
    size_t k = 0;
    while (k < count && strcmp(model, rows[k].word) != 0) k++;
    if (k == count)
        return ota_token_fail(error, OTA_UNSUPPORTED, source, -1,
                              "the tokenizer's model \"%.40s\" is not one of bpe, sentencepiece, "
                              "unigram, words, rwkv, plamo2 and wordpiece",
                              model);
    tokenizer->model = rows[k].model;
    ota_status status = add_pieces(tokenizer, parts, source, error);
    if (status == OTA_OK) status = rows[k].make(tokenizer, parts, source, error);
    if (status == OTA_OK) status = add_kinds(tokenizer, parts, error);
    if (status == OTA_OK)
        status = add_frame(tokenizer, parts->begin, &tokenizer->before, source, error);
    if (status == OTA_OK)
        status = add_frame(tokenizer, parts->end, &tokenizer->after, source, error);
    return status;
}

ota_status ota_tokenizer_create(ota_tokenizer **tokenizer, const ota_tokenizer_parts *parts,
                                ota_error *error) {
    return ota_tokenizer_create_with(tokenizer, parts, NULL, error);
}

ota_status ota_tokenizer_create_with(ota_tokenizer **tokenizer, const ota_tokenizer_parts *parts,
                                     const ota_token_options *options, ota_error *error) {
    ota_ending ending;
    if (tokenizer == NULL || parts == NULL || parts->size == 0 || parts->piece_count < 0 ||
        parts->merge_count < 0 || (parts->pieces == NULL && parts->piece_count > 0) ||
        (parts->merges == NULL && parts->merge_count > 0))
        return ota_token_fail(error, OTA_EINVAL, "", -1,
                              "tokenizer, parts, parts.size, pieces and merges must be given");
    *tokenizer = NULL;
    ota_status status = ota_token_ending_begin(options, NULL, &ending, error);
    if (status != OTA_OK) return status;
    /* A caller built with an older header knows fewer fields. */
    ota_tokenizer_parts filled = {.size = sizeof filled};
    memcpy(&filled, parts, parts->size < sizeof filled ? parts->size : sizeof filled);
    if (filled.source == NULL) filled.source = "";
    ota_tokenizer *made = calloc(1, sizeof *made);
    if (made == NULL) return ota_token_no_memory(error);
    made->unknown = -1;
    made->ending = &ending;
    status = ota_tokenizer_fill(made, &filled, error);
    if (status == OTA_OK) status = ota_tokenizer_finish(made, error);
    if (status != OTA_OK) {
        ota_tokenizer_free(made);
        return status;
    }
    *tokenizer = made;
    return OTA_OK;
}
