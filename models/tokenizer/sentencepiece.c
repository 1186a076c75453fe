/* BPE as SentencePiece writes it down: pieces with scores and no list of merges.
 *
 * U+2581 stands for a blank in pieces and in normalised text. Pieces of kind USER are matched first. What lies
 * between starts as its characters; neighbours whose join is a piece are merged, the join of the highest score
 * first, among equal ones the leftmost. That is what bpe.c does with a merge for every way in which a piece is
 * two pieces, ranked by the score of the join. A character that is no piece becomes its bytes, <0x00> to <0xFF>,
 * which no merge takes, or, in a vocabulary without them, the unknown piece, one for a run of such characters. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer_parts.h"

/* ---- ranks ---- */

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *left, const void *right) {
    const scored *a = left, *b = right;
    return (a->score < b->score) - (a->score > b->score);
}

/* rank [count]: how many different scores are higher. */
static ota_status make_ranks(const float *scores, int64_t count, ota_ending *ending,
                             uint32_t **ranks, ota_error *error) {
    scored *order = malloc(((size_t)count + 1) * sizeof *order);
    uint32_t *rank = malloc(((size_t)count + 1) * sizeof *rank);
    ota_status status = order == NULL || rank == NULL ? ota_token_no_memory(error) : OTA_OK;
    for (int64_t k = 0; k < count && status == OTA_OK; k++)
        order[k] = (scored){scores[k], (int32_t)k};
    if (status == OTA_OK)
        status = ota_sort(order, (size_t)count, sizeof *order, by_score, ending, error);
    uint32_t next = 0;
    for (int64_t k = 0; k < count && status == OTA_OK; k++) {
        if (k > 0 && order[k].score < order[k - 1].score) next++;
        rank[order[k].id] = next;
    }
    free(order);
    *ranks = rank;
    return status;
}

/* ---- merges ---- */

static int32_t kind_of(const ota_tokenizer_parts *parts, int32_t id) {
    return parts->kinds == NULL ? OTA_PIECE_NORMAL : parts->kinds[id];
}

typedef enum part { PART_NONE, PART_PIECE, PART_LONE } part;

/* What a part of a piece can be before it is merged: a normal piece, or a character that is none. Pieces of
 * kind USER are never merged. */
static part find_part(const ota_vocabulary *vocabulary, const ota_tokenizer_parts *parts,
                      ota_text text, int32_t *id) {
    *id = ota_vocabulary_find(vocabulary, text.data, text.size);
    if (*id >= 0 && kind_of(parts, *id) == OTA_PIECE_NORMAL) return PART_PIECE;
    if (*id >= 0 && kind_of(parts, *id) == OTA_PIECE_USER) return PART_NONE;
    return (size_t)utf8proc_utf8class[(unsigned char)text.data[0]] == text.size ? PART_LONE
                                                                                : PART_NONE;
}

/* Every way in which piece `id` is two pieces. Characters that are no piece and unused pieces can take part in
 * merges of SentencePiece without being ids; no vocabulary that was met does that. */
static ota_status split_piece(const ota_vocabulary *vocabulary, const ota_tokenizer_parts *parts,
                              int32_t id, uint32_t rank, ota_token_merge_list *list,
                              ota_error *error) {
    const ota_text piece = ota_vocabulary_text(vocabulary, id);
    ota_status status = OTA_OK;
    for (size_t at = 1; at < piece.size && status == OTA_OK; at++) {
        /* Both parts are hashed, whose bytes are the whole piece's. */
        status = ota_look(list->ending, piece.size / 8 + 1, error);
        if (status != OTA_OK || ((unsigned char)piece.data[at] & 0xC0) == 0x80) continue;
        int32_t a, b;
        const part left = find_part(vocabulary, parts, (ota_text){piece.data, at}, &a);
        if (left == PART_NONE) continue;
        const part right =
            find_part(vocabulary, parts, (ota_text){piece.data + at, piece.size - at}, &b);
        if (right == PART_NONE) continue;
        if (left == PART_LONE || right == PART_LONE)
            return ota_token_fail(error, OTA_UNSUPPORTED, parts->source, -1,
                                  "piece %d has a character that is no piece of kind normal, and "
                                  "such vocabularies are not run",
                                  (int)id);
        if (kind_of(parts, id) == OTA_PIECE_UNUSED)
            return ota_token_fail(error, OTA_UNSUPPORTED, parts->source, -1,
                                  "piece %d is unused and can be made of two others, and such "
                                  "vocabularies are not run",
                                  (int)id);
        status = ota_bpe_put_merge(list,
                                   (ota_merge){.pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b,
                                               .rank = rank,
                                               .product = id},
                                   parts->source, -1, error);
    }
    return status;
}

ota_status ota_sentencepiece_merges(const ota_vocabulary *vocabulary,
                                    const ota_tokenizer_parts *parts, ota_token_merge_list *list,
                                    ota_error *error) {
    uint32_t *rank;
    ota_status status = make_ranks(parts->scores, parts->piece_count, list->ending, &rank, error);
    for (int32_t id = 0; id < vocabulary->count && status == OTA_OK; id++) {
        const int32_t kind = kind_of(parts, id);
        if (kind == OTA_PIECE_NORMAL || kind == OTA_PIECE_UNUSED)
            status = split_piece(vocabulary, parts, id, rank[id], list, error);
    }
    free(rank);
    return status;
}

/* ---- bytes ---- */

int ota_sentencepiece_byte(ota_text piece) {
    static const char digits[] = "0123456789ABCDEF";
    if (piece.size != 6 || memcmp(piece.data, "<0x", 3) != 0 || piece.data[5] != '>') return -1;
    const char *high = memchr(digits, piece.data[3], 16), *low = memchr(digits, piece.data[4], 16);
    return high == NULL || low == NULL ? -1 : (int)((high - digits) * 16 + (low - digits));
}

ota_status ota_sentencepiece_bytes(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                                   ota_error *error) {
    const ota_vocabulary *vocabulary = &tokenizer->vocabulary;
    int found = 0;
    for (int byte = 0; byte < 256; byte++) tokenizer->byte_ids[byte] = -1;
    for (int32_t id = 0; id < vocabulary->count; id++) {
        const int byte = ota_sentencepiece_byte(ota_vocabulary_text(vocabulary, id));
        if (byte < 0 || vocabulary->outside[id] ||
            (parts != NULL && kind_of(parts, id) != OTA_PIECE_BYTE))
            continue;
        tokenizer->byte_ids[byte] = id;
        found++;
    }
    if (parts != NULL && found != 0 && found != 256)
        return ota_token_fail(error, OTA_EFORMAT, parts->source, -1,
                              "%d of the 256 pieces of bytes are there, and must be all or none",
                              found);
    if (parts != NULL) tokenizer->fallback = found == 256;
    return OTA_OK;
}

bool ota_sentencepiece_spell(ota_text text, ota_token_buffer *out) {
    bool fine = ota_token_reserve(out, text.size + 1);
    for (size_t k = 0; k < text.size && fine; k++)
        fine = text.data[k] == ' ' ? ota_token_append(out, "\xE2\x96\x81", 3)
                                   : ota_token_append(out, text.data + k, 1);
    return fine;
}

/* Where the next word begins behind the first character. */
static size_t word_size(const char *text, size_t size) {
    for (size_t at = 1; at + 2 < size; at++) {
        const char *found = memchr(text + at, 0xE2, size - 2 - at);
        if (found == NULL) break;
        at = (size_t)(found - text);
        if (memcmp(found, "\xE2\x96\x81", 3) == 0) return at;
    }
    return size;
}

/* An unknown word becomes its bytes where they have pieces; else a run of them is one unknown piece. */
ota_status ota_sentencepiece_words(ota_token_encoder *encoder, const char *text, size_t size) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    bool unknown = false;
    for (size_t at = 0, bytes; at < size; at += bytes) {
        bytes = word_size(text + at, size - at);
        const int32_t id = ota_vocabulary_find_model(&tokenizer->vocabulary, text + at, bytes);
        const ota_status status = ota_look(&encoder->ending, bytes, encoder->error);
        if (status != OTA_OK) return status;
        if (id >= 0) ota_token_put(encoder, id);
        for (size_t k = 0; k < bytes && id < 0 && tokenizer->fallback; k++)
            ota_token_put(encoder, tokenizer->byte_ids[(unsigned char)text[at + k]]);
        if (id < 0 && !tokenizer->fallback && !unknown && tokenizer->unknown >= 0)
            ota_token_put(encoder, tokenizer->unknown);
        unknown = id < 0;
    }
    return OTA_OK;
}

bool ota_token_bytes(const ota_tokenizer *tokenizer, const char *text, size_t size, int32_t *ids) {
    for (size_t k = 0; k < size; k++)
        if (tokenizer->byte_ids[(unsigned char)text[k]] < 0) return false;
    for (size_t k = 0; k < size; k++) ids[k] = tokenizer->byte_ids[(unsigned char)text[k]];
    return true;
}
