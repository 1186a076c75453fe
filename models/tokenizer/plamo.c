/* PLaMo's tokenizer, `plamo2` of gguf files: of all ways to write a text as pieces, the one whose scores have the largest
 * sum, in whole ten-thousandths, found from the right; among equal ones that whose first piece is the longest. A character
 * may also be its bytes, <0x00> to <0xFF>, which all have pieces, for a score of -1000. Pieces that score -2000 and less are
 * never taken. U+FEFF at the beginning is no part of a text (encode_plain). Control and unused pieces are found in no text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_parts.h"

enum { UNIT = 10000, UNKNOWN_COST = 1000 * UNIT, NEVER_COST = 2000 * UNIT, SCORE_MOST = 100000 };

ota_status ota_plamo_build(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                           const char *source, ota_error *error) {
    const ota_vocabulary *vocabulary = &tokenizer->vocabulary;
    ota_unigram *unigram = &tokenizer->unigram;
    unigram->scores = calloc((size_t)vocabulary->count + 1, sizeof *unigram->scores);
    ota_status status = unigram->scores == NULL || !ota_piece_tree_start(&unigram->tree)
                            ? ota_token_no_memory(error)
                            : OTA_OK;
    for (int32_t id = 0; id < vocabulary->count && status == OTA_OK; id++) {
        const int32_t kind = parts->kinds == NULL ? OTA_PIECE_NORMAL : parts->kinds[id];
        const ota_text piece = ota_vocabulary_text(vocabulary, id);
        const double score = round((double)parts->scores[id] * (double)UNIT);
        status = ota_look(tokenizer->ending, piece.size, error);
        if (status != OTA_OK || (kind != OTA_PIECE_NORMAL && kind != OTA_PIECE_USER)) continue;
        if (score > (double)SCORE_MOST * (double)UNIT || score == -UNKNOWN_COST)
            status = ota_token_fail(error, OTA_UNSUPPORTED, source, -1,
                                    "piece %d scores above %d, or as what is unknown, -1000, and "
                                    "such vocabularies are not run",
                                    (int)id, (int)SCORE_MOST);
        else if (score > -NEVER_COST && !ota_piece_tree_add(&unigram->tree, piece, id))
            status = ota_token_no_memory(error);
        unigram->scores[id] = score;
    }
    return status;
}

/* ---- one stretch of text ---- */

/* The best way to write what begins at a place. */
typedef struct rest {
    int64_t cost;
    int32_t id, size; /* its first piece; id -1: the bytes of a character */
} rest;

static ota_status find_rests(ota_token_encoder *encoder, ota_text text, rest *best) {
    const ota_unigram *unigram = &encoder->tokenizer->unigram;
    /* Else no byte belongs to a character. */
    const bool valid = ota_token_valid(text.data, text.size) == text.size;
    best[text.size] = (rest){0, -1, 0};
    for (size_t at = text.size; at-- > 0;) {
        int32_t character, node = 0;
        if (valid && ((unsigned char)text.data[at] & 0xC0) == 0x80) continue;
        const size_t bytes = ota_token_step(text.data + at, text.size - at, &character);
        rest *here = &best[at];
        *here = (rest){best[at + bytes].cost + UNKNOWN_COST, -1, (int32_t)bytes};
        size_t end = at;
        for (; end < text.size; end++) {
            const ota_tree_edge *edge = ota_piece_tree_step(&unigram->tree, node, text.data[end]);
            if (edge == NULL) break;
            node = edge->to;
            if (edge->piece < 0) continue;
            const int64_t cost = best[end + 1].cost - (int64_t)unigram->scores[edge->piece];
            if (cost <= here->cost) *here = (rest){cost, edge->piece, (int32_t)(end + 1 - at)};
        }
        const ota_status status = ota_look(&encoder->ending, end + 1 - at, encoder->error);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

ota_status ota_plamo_word(ota_token_encoder *encoder, const char *word, size_t size) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    const ota_text text = {word, size};
    if (!ota_token_symbols(encoder, (text.size + 1) * sizeof(rest)))
        return ota_token_no_memory(encoder->error);
    rest *best = encoder->symbols;
    const ota_status status = find_rests(encoder, text, best);
    for (size_t at = 0; at < text.size && status == OTA_OK; at += (size_t)best[at].size) {
        if (best[at].id >= 0) ota_token_put(encoder, best[at].id);
        for (int32_t k = 0; k < best[at].size && best[at].id < 0; k++)
            ota_token_put(encoder, tokenizer->byte_ids[(unsigned char)text.data[at + (size_t)k]]);
    }
    return status;
}
