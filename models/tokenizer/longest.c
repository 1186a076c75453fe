/* RWKV's tokenizer, `rwkv` of gguf files: from the left, always the longest piece that what is left begins with. Pieces are
 * bytes, escaped as Python writes them: \\t, \\n, \\r, \\x and two digits, and a backslash in front of what stands for itself.
 * Control and unused pieces are found in no text. A byte that no piece begins with is unknown. */
#include <string.h>

#include "tokenizer_parts.h"

static int digit(char letter) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = letter == '\0' ? NULL : strchr(digits, letter);
    return found == NULL ? -1 : (int)((found - digits) % 16);
}

/* The byte of the escape behind the backslash at `at`; *taken = its letters, 0: it is none. */
static char escaped(ota_text piece, size_t at, size_t *taken) {
    static const char names[] = "tnr", meanings[] = "\t\n\r";
    const size_t left = piece.size - at - 1;
    const char letter = left > 0 ? piece.data[at + 1] : '\0';
    *taken = left > 0 ? 2 : 0;
    if (letter == 'x') {
        const int high = left > 2 ? digit(piece.data[at + 2]) : -1,
                  low = left > 2 ? digit(piece.data[at + 3]) : -1;
        *taken = high < 0 || low < 0 ? 0 : 4;
        return (char)(unsigned char)(*taken == 0 ? 0 : high * 16 + low);
    }
    const char *found = letter == '\0' ? NULL : strchr(names, letter);
    return found == NULL ? letter : meanings[found - names];
}

static size_t unescape(ota_text piece, char *bytes) {
    size_t used = 0;
    for (size_t at = 0, taken = 1; at < piece.size && taken > 0; at += taken) {
        taken = 1;
        bytes[used++] = piece.data[at] == '\\' ? escaped(piece, at, &taken) : piece.data[at];
    }
    return used;
}

static bool is_escaped(ota_text piece) {
    size_t taken = 1;
    for (size_t at = 0; at < piece.size && taken > 0; at += taken) {
        taken = 1;
        if (piece.data[at] == '\\') (void)escaped(piece, at, &taken);
    }
    return taken > 0;
}

ota_status ota_longest_build(ota_tokenizer *tokenizer, const ota_tokenizer_parts *parts,
                             const char *source, ota_error *error) {
    const ota_vocabulary *vocabulary = &tokenizer->vocabulary;
    ota_vocabulary *raw = &tokenizer->bpe.raw;
    ota_piece_tree *tree = &tokenizer->unigram.tree;
    ota_status status = OTA_OK;
    for (int32_t id = 0; id < vocabulary->count && status == OTA_OK; id++) {
        const ota_text piece = ota_vocabulary_text(vocabulary, id);
        status = ota_look(tokenizer->ending, piece.size, error);
        if (status == OTA_OK && !is_escaped(piece))
            status = ota_token_fail(error, OTA_EFORMAT, source, -1,
                                    "piece %d has a backslash without one of t, n, r, x with two "
                                    "digits, or what stands for itself",
                                    (int)id);
    }
    if (status == OTA_OK) status = ota_bpe_raw(raw, vocabulary, unescape, tokenizer->ending, error);
    if (status == OTA_OK && !ota_piece_tree_start(tree)) status = ota_token_no_memory(error);
    for (int32_t id = 0; id < vocabulary->count && status == OTA_OK; id++) {
        const int32_t kind = parts->kinds == NULL ? OTA_PIECE_NORMAL : parts->kinds[id];
        const ota_text piece = ota_vocabulary_text(raw, id);
        status = ota_look(tokenizer->ending, piece.size, error);
        if (status == OTA_OK && (kind == OTA_PIECE_NORMAL || kind == OTA_PIECE_USER) &&
            !ota_piece_tree_add(tree, piece, id))
            status = ota_token_no_memory(error);
    }
    return status;
}

ota_status ota_longest_word(ota_token_encoder *encoder, const char *word, size_t size) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    ota_status status = OTA_OK;
    for (size_t at = 0, taken; at < size && status == OTA_OK; at += taken) {
        int32_t node = 0, best = tokenizer->unknown;
        taken = 1;
        size_t end = at;
        for (; end < size; end++) {
            const ota_tree_edge *edge =
                ota_piece_tree_step(&tokenizer->unigram.tree, node, word[end]);
            if (edge == NULL) break;
            node = edge->to;
            if (edge->piece < 0) continue;
            best = edge->piece;
            taken = end + 1 - at;
        }
        if (best >= 0) ota_token_put(encoder, best);
        status = ota_look(&encoder->ending, end + 1 - at, encoder->error);
    }
    return status;
}
