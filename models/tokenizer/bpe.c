/* BPE: a word starts as its bytes or its characters, and the neighbours whose merge has the lowest rank are
 * merged, the leftmost first, until no two neighbours have a merge.
 *
 * Words of up to SCANNED symbols: the least rank is found by scanning rank[n], where rank[i] belongs to
 * the symbols i and i+1; n is small, so that a scan is a few vector instructions. Longer ones: a heap of
 * (rank, position) over a doubly linked list, n log n in all; an entry is out of date when its rank is no
 * longer its position's. The order of merges is the same in both. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tokenizer_parts.h"

enum { SCANNED = 64 };
#define NO_RANK UINT32_MAX

/* ---- building ---- */

ota_status ota_bpe_put_merge(ota_token_merge_list *list, ota_merge merge, const char *path,
                             int64_t offset, ota_error *error) {
    if (list->count >= OTA_TOKEN_MERGES_MOST)
        return ota_token_fail(error, OTA_ELIMIT, path, offset, "a tokenizer has at most %d merges",
                              OTA_TOKEN_MERGES_MOST);
    void *merges = list->merges;
    const bool grown = ota_token_grow(&merges, &list->room, list->count + 1, sizeof *list->merges);
    list->merges = merges;
    if (!grown) return ota_token_no_memory(error);
    list->merges[list->count++] = merge;
    return OTA_OK;
}

ota_status ota_bpe_merge(const ota_vocabulary *vocabulary, ota_token_merge_list *list,
                         ota_text left, ota_text right, const char *path, int64_t offset,
                         ota_error *error) {
    char both[OTA_TOKEN_PIECE_MOST];
    const size_t lost = list->prefix_size < right.size ? list->prefix_size : right.size,
                 size = left.size + right.size - lost;
    const ota_status looked = ota_look(list->ending, size, error);
    if (looked != OTA_OK) return looked;
    if (size > sizeof both)
        return ota_token_fail(error, OTA_ELIMIT, path, offset, "a merge makes more than %d bytes",
                              OTA_TOKEN_PIECE_MOST);
    memcpy(both, left.data, left.size);
    memcpy(both + left.size, right.data + lost, right.size - lost);
    const int32_t a = ota_vocabulary_find_model(vocabulary, left.data, left.size),
                  b = ota_vocabulary_find_model(vocabulary, right.data, right.size),
                  product = ota_vocabulary_find_model(vocabulary, both, size);
    if (a < 0 || b < 0 || product < 0) {
        const ota_text missing = a < 0 ? left : b < 0 ? right : (ota_text){both, size};
        return ota_token_fail(error, OTA_EFORMAT, path, offset,
                              "a merge needs the piece \"%.*s\", which the vocabulary lacks",
                              (int)(missing.size < 80 ? missing.size : 80), missing.data);
    }
    return ota_bpe_put_merge(list,
                             (ota_merge){.pair = (uint64_t)a << 32 | (uint64_t)b,
                                         .rank = (uint32_t)list->count,
                                         .product = product},
                             path, offset, error);
}

ota_status ota_bpe_merge_line(const ota_vocabulary *vocabulary, ota_token_merge_list *list,
                              ota_text line, const char *path, int64_t offset, ota_error *error) {
    const char *blank = line.size == 0 ? NULL : memchr(line.data, ' ', line.size);
    const size_t left = blank == NULL ? 0 : (size_t)(blank - line.data);
    if (left == 0 || left + 1 == line.size || memchr(blank + 1, ' ', line.size - left - 1) != NULL)
        return ota_token_fail(error, OTA_EFORMAT, path, offset,
                              "a merge must be two pieces with one blank between them");
    return ota_bpe_merge(vocabulary, list, (ota_text){line.data, left},
                         (ota_text){blank + 1, line.size - left - 1}, path, offset, error);
}

static inline uint64_t slot_of(const ota_bpe *bpe, uint64_t pair) {
    uint64_t slot = ota_token_spread(pair) & bpe->mask;
    while (bpe->merges[slot].pair != pair && bpe->merges[slot].pair != UINT64_MAX)
        slot = (slot + 1) & bpe->mask;
    return slot;
}

ota_status ota_bpe_raw(ota_vocabulary *raw, const ota_vocabulary *vocabulary,
                       size_t (*unspell)(ota_text piece, char *bytes), ota_ending *ending,
                       ota_error *error) {
    const size_t count = (size_t)vocabulary->count;
    raw->bytes = malloc((size_t)vocabulary->begin[count] + 1);
    raw->begin = malloc((count + 1) * sizeof *raw->begin);
    raw->outside = malloc(count + 1);
    if (raw->bytes == NULL || raw->begin == NULL || raw->outside == NULL)
        return ota_token_no_memory(error);
    memcpy(raw->outside, vocabulary->outside, count);
    raw->count = vocabulary->count;
    raw->longest = vocabulary->longest;
    raw->begin[0] = 0;
    for (int32_t id = 0; id < vocabulary->count; id++) {
        const ota_text piece = ota_vocabulary_text(vocabulary, id);
        char *to = raw->bytes + raw->begin[id];
        raw->begin[id + 1] = raw->begin[id] + (uint32_t)unspell(piece, to);
        const ota_status status = ota_look(ending, piece.size, error);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

ota_status ota_bpe_build(ota_tokenizer *tokenizer, const ota_token_merge_list *list,
                         ota_error *error) {
    ota_bpe *bpe = &tokenizer->bpe;
    const ota_vocabulary *vocabulary = &tokenizer->vocabulary;
    size_t slots = 16;
    while (slots < 2 * list->count) slots *= 2;
    bpe->mask = slots - 1;
    bpe->merge_count = (uint32_t)list->count;
    bpe->merges = calloc(slots, sizeof *bpe->merges);
    ota_status status = bpe->merges == NULL ? ota_token_no_memory(error) : OTA_OK;
    if (status == OTA_OK && !bpe->characters)
        status = ota_bpe_raw(&bpe->raw, vocabulary, ota_token_unspell, tokenizer->ending, error);
    if (status == OTA_OK && !bpe->characters && bpe->whole_word)
        status = ota_vocabulary_index(&bpe->raw, tokenizer->ending, error);
    if (status != OTA_OK) return status;
    memset(bpe->merges, 0xFF, slots * sizeof *bpe->merges);
    /* A pair that is there twice has the rank of its last line, as in the peers. */
    for (size_t k = 0; k < list->count && status == OTA_OK; k++) {
        bpe->merges[slot_of(bpe, list->merges[k].pair)] = list->merges[k];
        status = ota_look(tokenizer->ending, 1, error);
    }
    if (status != OTA_OK) return status;
    for (unsigned byte = 0; byte < 256 && !bpe->characters; byte++) {
        utf8proc_uint8_t letter[4];
        const utf8proc_ssize_t size = utf8proc_encode_char(ota_token_byte_character(byte), letter);
        tokenizer->byte_ids[byte] =
            ota_vocabulary_find_model(vocabulary, (const char *)letter, (size_t)size);
    }
    return OTA_OK;
}

void ota_bpe_free(ota_bpe *bpe) {
    free(bpe->merges);
    ota_vocabulary_free(&bpe->raw);
}

/* ---- one word ---- */

/* rank [n], product [n] of symbols i and its right neighbour; previous, next [n]; heap [n] for long words. */
typedef struct symbols {
    int32_t *id, *product, *previous, *next;
    uint32_t *rank;
    uint64_t *heap; /* rank << 32 | position, least first */
    size_t count, heap_count;
} symbols;

static inline void look_up(const ota_bpe *bpe, symbols *word, size_t at, size_t right) {
    const uint64_t pair = (uint64_t)(uint32_t)word->id[at] << 32 | (uint32_t)word->id[right];
    const ota_merge *merge = &bpe->merges[slot_of(bpe, pair)];
    word->rank[at] = merge->rank; /* of an empty slot: NO_RANK */
    word->product[at] = merge->product;
}

static void merge_by_scan(const ota_bpe *bpe, symbols *word) {
    size_t count = word->count;
    for (size_t i = 0; i + 1 < count; i++) look_up(bpe, word, i, i + 1);
    while (count > 1) {
        uint32_t least = NO_RANK;
        for (size_t i = 0; i + 1 < count; i++)
            least = word->rank[i] < least ? word->rank[i] : least;
        if (least == NO_RANK) break;
        size_t at = 0;
        while (word->rank[at] != least) at++;
        word->id[at] = word->product[at];
        const size_t after = count - at - 2;
        memmove(word->id + at + 1, word->id + at + 2, after * sizeof *word->id);
        memmove(word->rank + at, word->rank + at + 1, after * sizeof *word->rank);
        memmove(word->product + at, word->product + at + 1, after * sizeof *word->product);
        count--;
        if (at > 0) look_up(bpe, word, at - 1, at);
        if (at + 1 < count) look_up(bpe, word, at, at + 1);
    }
    word->count = count;
}

static void sift_down(uint64_t *heap, size_t count, size_t at) {
    const uint64_t entry = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= entry) break;
        heap[at] = heap[child];
    }
    heap[at] = entry;
}

static void push(symbols *word, size_t at) {
    if (word->rank[at] == NO_RANK) return;
    const uint64_t entry = (uint64_t)word->rank[at] << 32 | at;
    size_t child = word->heap_count++;
    for (size_t parent; child > 0 && word->heap[parent = (child - 1) / 2] > entry; child = parent)
        word->heap[child] = word->heap[parent];
    word->heap[child] = entry;
}

/* Each merge takes one entry out and puts at most two in: 3 n entries are enough. */
static ota_status merge_by_heap(const ota_bpe *bpe, symbols *word, ota_token_encoder *encoder) {
    const size_t count = word->count;
    word->heap_count = 0;
    for (size_t i = 0; i < count; i++) {
        word->previous[i] = (int32_t)i - 1;
        word->next[i] = i + 1 < count ? (int32_t)i + 1 : -1;
        word->rank[i] = NO_RANK;
        if (i + 1 < count) look_up(bpe, word, i, i + 1);
        push(word, i);
        const ota_status status = ota_look(&encoder->ending, 1, encoder->error);
        if (status != OTA_OK) return status;
    }
    while (word->heap_count > 0) {
        const uint64_t entry = word->heap[0];
        word->heap[0] = word->heap[--word->heap_count];
        if (word->heap_count > 0) sift_down(word->heap, word->heap_count, 0);
        const size_t at = (uint32_t)entry;
        const ota_status status = ota_look(&encoder->ending, 1, encoder->error);
        if (status != OTA_OK) return status;
        if (word->rank[at] != (uint32_t)(entry >> 32)) continue;
        const size_t right = (size_t)word->next[at];
        const int32_t beyond = word->next[right], before = word->previous[at];
        word->id[at] = word->product[at];
        word->rank[right] = word->rank[at] = NO_RANK;
        word->next[at] = beyond;
        if (beyond >= 0) {
            word->previous[beyond] = (int32_t)at;
            look_up(bpe, word, at, (size_t)beyond);
            push(word, at);
        }
        if (before >= 0) {
            look_up(bpe, word, (size_t)before, at);
            push(word, (size_t)before);
        }
    }
    size_t kept = 0;
    for (int32_t at = 0; at >= 0 && count > 0; at = word->next[at]) word->id[kept++] = word->id[at];
    word->count = kept;
    return OTA_OK;
}

bool ota_token_symbols(ota_token_encoder *encoder, size_t bytes) {
    if (bytes <= encoder->symbol_room && encoder->symbols != NULL) return true;
    const size_t room = bytes < 1 << 16 ? 1 << 16 : bytes + bytes / 2;
    void *grown = malloc(room);
    if (grown == NULL) return false;
    free(encoder->symbols);
    encoder->symbols = grown;
    encoder->symbol_room = room;
    return true;
}

/* The arrays for n symbols lie one after another: 3 n entries of 8 bytes, then five of 4. */
static bool lay_out(ota_token_encoder *encoder, size_t size, symbols *word) {
    if (!ota_token_symbols(encoder, size * (3 * sizeof *word->heap + 5 * sizeof *word->id)))
        return false;
    word->heap = encoder->symbols;
    word->rank = (uint32_t *)(word->heap + 3 * size);
    word->id = (int32_t *)(word->rank + size);
    word->product = word->id + size;
    word->previous = word->product + size;
    word->next = word->previous + size;
    return true;
}

/* The pieces that a word starts as, to ids [size]; returns how many. */
static size_t start_bytes(const ota_tokenizer *tokenizer, const char *text, size_t size,
                          int32_t *ids) {
    size_t count = 0;
    bool unknown = false;
    for (size_t i = 0; i < size; i++) {
        int32_t id = tokenizer->byte_ids[(unsigned char)text[i]];
        const bool lacking = id < 0;
        if (lacking) id = unknown && tokenizer->fuse_unknown ? -1 : tokenizer->unknown;
        unknown = lacking;
        if (id >= 0) ids[count++] = id;
    }
    return count;
}

/* The piece of a character, with the prefix of those that are not the first of a word and the suffix of the last. */
static int32_t find_character(const ota_tokenizer *tokenizer, ota_text text, bool first, bool last,
                              ota_text *spelled, char *room) {
    const char *prefix = first ? "" : tokenizer->bpe.prefix,
               *suffix = last ? tokenizer->bpe.suffix : "";
    *spelled = text;
    if (*prefix != '\0' || *suffix != '\0') {
        const size_t before = strlen(prefix), after = strlen(suffix);
        memcpy(room, prefix, before);
        memcpy(room + before, text.data, text.size);
        memcpy(room + before + text.size, suffix, after);
        *spelled = (ota_text){room, before + text.size + after};
    }
    return ota_vocabulary_find_model(&tokenizer->vocabulary, spelled->data, spelled->size);
}

/* The same for characters: what has no piece becomes its bytes, or the unknown piece. That one waits for the next
 * character that has a piece, so that bytes overtake it, as in the package. */
static size_t start_characters(const ota_tokenizer *tokenizer, const char *text, size_t size,
                               int32_t *ids) {
    size_t count = 0;
    bool waits = false;
    for (size_t at = 0, bytes; at < size; at += bytes) {
        int32_t character;
        char room[4 + 2 * sizeof tokenizer->bpe.prefix];
        ota_text spelled;
        bytes = ota_token_step(text + at, size - at, &character);
        const int32_t id = find_character(tokenizer, (ota_text){text + at, bytes}, at == 0,
                                          at + bytes == size, &spelled, room);
        const bool lacking = id < 0;
        if (lacking && tokenizer->fallback && spelled.size == bytes &&
            ota_token_bytes(tokenizer, spelled.data, spelled.size, ids + count)) {
            count += spelled.size;
            continue;
        }
        if (waits && !(lacking && tokenizer->fuse_unknown)) ids[count++] = tokenizer->unknown;
        waits = lacking && tokenizer->unknown >= 0;
        if (!lacking) ids[count++] = id;
    }
    if (waits) ids[count++] = tokenizer->unknown;
    return count;
}

ota_status ota_bpe_word(ota_token_encoder *encoder, const char *text, size_t size) {
    const ota_tokenizer *tokenizer = encoder->tokenizer;
    const ota_bpe *bpe = &tokenizer->bpe;
    if (bpe->whole_word) {
        const int32_t id = ota_vocabulary_find_model(
            bpe->characters ? &tokenizer->vocabulary : &bpe->raw, text, size);
        if (id >= 0) {
            ota_token_put(encoder, id);
            return OTA_OK;
        }
    }
    symbols word = {.count = 0};
    if (!lay_out(encoder, size, &word)) return ota_token_no_memory(encoder->error);
    word.count = bpe->characters ? start_characters(tokenizer, text, size, word.id)
                                 : start_bytes(tokenizer, text, size, word.id);
    ota_status status = OTA_OK;
    if (word.count <= SCANNED)
        merge_by_scan(bpe, &word);
    else
        status = merge_by_heap(bpe, &word, encoder);
    for (size_t i = 0; i < word.count && status == OTA_OK; i++) ota_token_put(encoder, word.id[i]);
    return status;
}
