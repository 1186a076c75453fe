/* libFuzzer on tokenizers that are made from parts: which kind, which merges and pieces comes from the first bytes, the rest
 * is the text. What must hold: a tokenizer with pieces for all 256 bytes gives every text back, byte for byte; ids lie in the
 * vocabulary; counting alone gives the same count; room that is too small is never overrun. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz_bytes.h"
#include "otattn_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { PIECES = 400, ROOM = 4096, LETTERS = 24 };

typedef struct vocabulary {
    char text[PIECES][LETTERS];
    ota_text pieces[PIECES], merges[64];
    char merged[64][2 * LETTERS];
    int32_t kinds[PIECES];
    float scores[PIECES];
    int64_t count, merge_count;
} vocabulary;

static void add(vocabulary *v, const char *text, int32_t kind) {
    (void)snprintf(v->text[v->count], LETTERS, "%s", text);
    v->pieces[v->count] = (ota_text){v->text[v->count], strlen(v->text[v->count])};
    v->kinds[v->count] = kind;
    v->scores[v->count] = -(float)v->count;
    v->count++;
}

/* GPT-2's alphabet: printable bytes of Latin 1 stand for themselves, the others for U+0100 on, in order. */
static void add_alphabet(vocabulary *v) {
    unsigned other = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        const bool itself = (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || byte > 173;
        const unsigned character = itself ? byte : other++;
        char text[3] = {(char)character, 0, 0};
        if (character >= 128) {
            text[0] = (char)(0xC0 | character >> 6);
            text[1] = (char)(0x80 | (character & 63));
        }
        add(v, text, OTA_PIECE_NORMAL);
    }
}

static void add_merges(vocabulary *v, fuzz_bytes *b) {
    const unsigned wanted = fuzz_below(b, 40);
    for (unsigned k = 0; k < wanted; k++) {
        const int64_t left = (fuzz_next(b) * 256U + fuzz_next(b)) % v->count;
        const int64_t right = (fuzz_next(b) * 256U + fuzz_next(b)) % v->count;
        char made[2 * LETTERS];
        (void)snprintf(made, sizeof made, "%s%s", v->text[left], v->text[right]);
        if (strlen(made) >= LETTERS) continue;
        bool known = false;
        for (int64_t i = 0; i < v->count; i++) known |= strcmp(v->text[i], made) == 0;
        if (known) continue;
        char *pair = v->merged[v->merge_count];
        (void)snprintf(pair, sizeof v->merged[0], "%s %s", v->text[left], v->text[right]);
        v->merges[v->merge_count++] = (ota_text){pair, strlen(pair)};
        add(v, made, OTA_PIECE_NORMAL);
    }
}

static void add_words(vocabulary *v, fuzz_bytes *b) {
    const unsigned wanted = fuzz_below(b, 40);
    add(v, "[UNK]", OTA_PIECE_UNKNOWN);
    for (unsigned k = 0; k < wanted; k++) {
        char word[8];
        const unsigned letters = 1 + fuzz_below(b, 4);
        const char *front = fuzz_below(b, 2) == 0 ? "" : "##";
        for (unsigned i = 0; i < letters; i++) word[i] = (char)('a' + fuzz_below(b, 6));
        (void)snprintf(v->text[v->count], LETTERS, "%s%.*s", front, (int)letters, word);
        add(v, v->text[v->count], OTA_PIECE_NORMAL);
    }
}

static void use(const ota_tokenizer *t, const char *text, size_t size, bool exact) {
    static int32_t ids[ROOM], few[4];
    static char back[ROOM];
    int64_t count = 0, again = 0, length = 0;
    ota_error error = {.message = ""};
    const unsigned flags = OTA_ENCODE_NO_SPECIAL | (exact ? OTA_ENCODE_PLAIN : 0U);
    if (ota_tokenizer_encode(t, text, (int64_t)size, flags, ids, ROOM, &count, &error) < 0) {
        if (error.message[0] == '\0') abort();
        return;
    }
    if (ota_tokenizer_encode(t, text, (int64_t)size, flags, few, 3, &again, &error) < 0) abort();
    if (again != count || count > ROOM) abort();
    for (int64_t k = 0; k < count; k++)
        if (ids[k] < 0 || ids[k] >= ota_tokenizer_count(t)) abort();
    if (ota_tokenizer_decode(t, ids, count, 0, back, ROOM, &length, &error) < 0) abort();
    if (!exact) return;
    if (length != (int64_t)size || memcmp(back, text, size) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static vocabulary v;
    static const char *const cuts[] = {"gpt-2",      "smollm", "llama-3",    "qwen2",   "",
                                       "qwen-3.5",   "gpt-4o", "tekken",     "falcon",  "bloom",
                                       "deepseek-3", "viking", "seed-coder", "bailing", "superbpe"};
    fuzz_bytes b = {bytes, size};
    ota_error error = {.message = ""};
    ota_tokenizer *tokenizer = NULL;
    memset(&v, 0, sizeof v);
    ota_tokenizer_parts parts = {.size = sizeof parts, .source = "fuzz"};
    static const char *const models[] = {"bpe",     "bpe",   "wordpiece", "sentencepiece",
                                         "unigram", "words", "rwkv",      "plamo2"};
    enum { WORDS = 5, RWKV, PLAMO, KINDS };
    const unsigned kind = fuzz_below(&b, KINDS);
    parts.model = models[kind];
    if (kind < 2) {
        add_alphabet(&v);
        add_merges(&v, &b);
        parts.cut = cuts[fuzz_below(&b, 15)];
        parts.keep_whole_word = (int)fuzz_below(&b, 2);
    } else {
        add_words(&v, &b);
        parts.keep_case = (int)fuzz_below(&b, 2);
        parts.scores = v.scores;
        if (kind > 2 && kind <= WORDS) {
            parts.space_behind = (int)fuzz_below(&b, 2);
            parts.space_in_front = (int)fuzz_below(&b, 2);
            parts.space_once = (int)fuzz_below(&b, 2);
            add(&v, "\xE2\x96\x81", OTA_PIECE_NORMAL);
            add(&v, "<b>", OTA_PIECE_USER);
            parts.unknown = fuzz_below(&b, 2) == 0 ? v.pieces[0] : (ota_text){NULL, 0};
        }
        if (kind > 2)
            for (int byte = 0; byte < 256 && (kind > WORDS || fuzz_below(&b, 2) == 0); byte++) {
                char text[8];
                (void)snprintf(text, sizeof text, kind == RWKV ? "\\x%02x" : "<0x%02X>",
                               (unsigned)byte);
                add(&v, text, kind == RWKV ? OTA_PIECE_NORMAL : OTA_PIECE_BYTE);
            }
    }
    parts.pieces = v.pieces;
    parts.piece_count = v.count;
    parts.kinds = v.kinds;
    parts.merges = v.merges;
    parts.merge_count = kind < 2 ? v.merge_count : 0;
    if (ota_tokenizer_create(&tokenizer, &parts, &error) < 0) {
        if (error.message[0] == '\0' || tokenizer != NULL) abort();
        return 0;
    }
    const size_t most = b.left < 1000 ? b.left : 1000;
    /* PLaMo leaves out U+FEFF at the beginning. */
    const bool marked = kind == PLAMO && most >= 3 && memcmp(b.at, "\xEF\xBB\xBF", 3) == 0;
    use(tokenizer, (const char *)b.at, most, kind < 2 || (kind > WORDS && !marked));
    ota_tokenizer_free(tokenizer);
    return 0;
}
