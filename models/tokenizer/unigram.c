/* Unigram: of all ways to write a word as pieces, the one whose scores have the largest sum, found from the left by
 * Viterbi's rule: best[end] = max over pieces that end there of best[begin] + score. Among equal ones the earlier
 * candidate stays; candidates come by begin, then by length. A character that is no piece by itself may also be unknown,
 * for a score below all others. The walk down the tree of pieces from a place ends where no piece goes on. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_parts.h"

/* What an unknown character costs below the least score. */
#define UNKNOWN_PENALTY 10.0

ota_status ota_unigram_build(ota_tokenizer *tokenizer, const uint8_t *use, ota_error *error) {
    ota_unigram *unigram = &tokenizer->unigram;
    const ota_vocabulary *vocabulary = &tokenizer->vocabulary;
    double least = DBL_MAX;
    bool fine = ota_piece_tree_start(&unigram->tree);
    for (int32_t id = 0; id < vocabulary->count && fine; id++) {
        if (vocabulary->outside[id]) continue;
        const ota_status status =
            ota_look(tokenizer->ending, ota_vocabulary_text(vocabulary, id).size, error);
        if (status != OTA_OK) return status;
        if (use == NULL || use[id] != 0)
            fine = ota_piece_tree_add(&unigram->tree, ota_vocabulary_text(vocabulary, id), id);
        if (unigram->scores[id] < least && (use == NULL || use[id] == 1))
            least = unigram->scores[id];
    }
    unigram->unknown_score = least - UNKNOWN_PENALTY;
    if (tokenizer->sentencepiece) unigram->unknown_score = (double)(float)unigram->unknown_score;
    return fine ? OTA_OK : ota_token_no_memory(error);
}

void ota_unigram_free(ota_unigram *unigram) {
    free(unigram->scores);
    ota_piece_tree_free(&unigram->tree);
}

/* ---- one word ---- */

typedef struct reached {
    double score;
    int32_t begin, id; /* begin -1: no way is known; id -1: unknown */
} reached;

/* SentencePiece keeps sums in f32. */
static inline void offer(const ota_tokenizer *tokenizer, reached *place, double score,
                         int32_t begin, int32_t id) {
    if (tokenizer->sentencepiece) score = (double)(float)score;
    if (place->begin < 0 || score > place->score) *place = (reached){score, begin, id};
}

/* SentencePiece counts sums anew from a place that is further than that from 0, so that f32 keeps their digits. */
#define FURTHEST 100000.0

/* `best` [ahead]: the places that pieces have reached from here on. */
static void count_anew(reached *best, size_t ahead) {
    const double here = best->score;
    for (size_t k = 0; k < ahead; k++)
        if (best[k].begin >= 0) best[k].score = (double)(float)(best[k].score - here);
}

static ota_status find_ways(ota_token_encoder *encoder, ota_text text, reached *best) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    const ota_unigram *unigram = &tokenizer->unigram;
    for (size_t at = 0; at <= text.size; at++) best[at] = (reached){0, -1, -1};
    size_t furthest = 0;
    for (size_t at = 0, bytes; at < text.size; at += bytes) {
        int32_t character, node = 0;
        if (tokenizer->sentencepiece && fabs(best[at].score) > FURTHEST)
            count_anew(best + at, furthest + 1 - at);
        const double here = best[at].score;
        const ota_status status = ota_look(&encoder->ending, 1, encoder->error);
        if (status != OTA_OK) return status;
        bytes = ota_token_step(text.data + at, text.size - at, &character);
        bool alone = false;
        for (size_t end = at; end < text.size; end++) {
            const ota_tree_edge *edge = ota_piece_tree_step(&unigram->tree, node, text.data[end]);
            if (edge == NULL) break;
            node = edge->to;
            if (edge->piece < 0) continue;
            offer(tokenizer, &best[end + 1], unigram->scores[edge->piece] + here, (int32_t)at,
                  edge->piece);
            alone = alone || end + 1 == at + bytes;
            if (end + 1 > furthest) furthest = end + 1;
        }
        if (alone) continue;
        offer(tokenizer, &best[at + bytes], unigram->unknown_score + here, (int32_t)at, -1);
        if (at + bytes > furthest) furthest = at + bytes;
    }
    return OTA_OK;
}

/* What no piece is: its bytes where all of them have pieces, else the unknown piece. In the package a run of such
 * characters may yet be spelled like a piece. */
static void put_unknown(ota_token_encoder *encoder, ota_text run, int32_t *ids) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    const int32_t id = tokenizer->sentencepiece
                           ? -1
                           : ota_vocabulary_find_model(&tokenizer->vocabulary, run.data, run.size);
    if (id >= 0) {
        ota_token_put(encoder, id);
    } else if (tokenizer->fallback && ota_token_bytes(tokenizer, run.data, run.size, ids)) {
        for (size_t k = 0; k < run.size; k++) ota_token_put(encoder, ids[k]);
    } else if (tokenizer->unknown >= 0) {
        ota_token_put(encoder, tokenizer->unknown);
    }
}

static bool is_unknown(const ota_tokenizer *tokenizer, const reached *place) {
    return place->id < 0 || place->id == tokenizer->unknown;
}

ota_status ota_unigram_word(ota_token_encoder *encoder, const char *word, size_t size) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    if (!ota_token_symbols(encoder, (size + 1) * (sizeof(reached) + 2 * sizeof(int32_t))))
        return ota_token_no_memory(encoder->error);
    reached *best = encoder->symbols;
    int32_t *ends = (int32_t *)(best + size + 1), *ids = ends + size + 1;
    const ota_status status = find_ways(encoder, (ota_text){word, size}, best);
    if (status != OTA_OK) return status;
    size_t count = 0;
    for (int32_t end = (int32_t)size; end > 0; end = best[end].begin) ends[count++] = end;
    for (size_t k = count; k-- > 0;) {
        const reached *place = &best[ends[k]];
        if (!is_unknown(tokenizer, place)) {
            ota_token_put(encoder, place->id);
            continue;
        }
        while (tokenizer->unknown >= 0 && k > 0 && is_unknown(tokenizer, &best[ends[k - 1]])) k--;
        const size_t begin = (size_t)place->begin;
        put_unknown(encoder, (ota_text){word + begin, (size_t)ends[k] - begin}, ids);
    }
    return OTA_OK;
}
