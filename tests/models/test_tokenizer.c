/* test_tokenizer.c: merging against its definition, bytes that come back, cuts, added tokens, WordPiece,
 * sizes, and the counts of a known text. */
#define _GNU_SOURCE
#include <time.h>

#include "tokenizer_support.h"

#include "groups.h"
#include "spec.h"

/* ---- merges ---- */

/* The definition, on strings: of all neighbours the merge that stands first in the list, leftmost. */
static int merge_plainly(const vocabulary *v, const char *word, char (*symbols)[SPELLED]) {
    int count = 0;
    for (const char *at = word; *at != '\0'; at++)
        (void)snprintf(symbols[count++], SPELLED, "%c", *at);
    for (;;) {
        int best = v->merge_count, place = -1;
        for (int i = 0; i + 1 < count; i++) {
            char line[2 * SPELLED];
            join(line, sizeof line, symbols[i], " ", symbols[i + 1]);
            for (int k = 0; k < best; k++) {
                if (strcmp(v->lines[k], line) != 0) continue;
                best = k;
                place = i;
            }
        }
        if (place < 0) return count;
        char joined[SPELLED] = "";
        join(joined, SPELLED, symbols[place], "", symbols[place + 1]);
        memcpy(symbols[place], joined, SPELLED);
        memmove(symbols + place + 1, symbols + place + 2,
                (size_t)(count - place - 2) * sizeof *symbols);
        count--;
    }
}

static bool has_piece(const vocabulary *v, const char *text) {
    for (int k = 0; k < v->count; k++)
        if (strcmp(v->spelled[k], text) == 0) return true;
    return false;
}

/* Merges of random pieces over three letters, so that they overlap in many ways. */
static vocabulary *random_vocabulary(uint64_t *state) {
    vocabulary *v = new_vocabulary();
    for (int tries = 0; tries < 400 && v->merge_count < 40; tries++) {
        char left[SPELLED], right[SPELLED], both[2 * SPELLED];
        const int known = v->merge_count + 3;
        for (int side = 0; side < 2; side++) {
            const int k = (int)(draw(state) % (uint64_t)known);
            join(side == 0 ? left : right, SPELLED,
                 k < 3 ? v->spelled['a' + k] : v->spelled[256 + k - 3], "", "");
        }
        join(both, sizeof both, left, "", right);
        if (strlen(both) < 12 && !has_piece(v, both)) (void)add_merge(v, left, right);
    }
    return v;
}

enum { WORD_MOST = 400 };

static void test_merges_follow_their_definition(void **state) {
    (void)state;
    static char symbols[WORD_MOST][SPELLED];
    uint64_t seed = 20260801;
    int wrong = 0;
    for (int round = 0; round < 30; round++) {
        vocabulary *v = random_vocabulary(&seed);
        const ota_tokenizer_parts parts = parts_of(v);
        ota_tokenizer *tokenizer = create(&parts);
        for (int trial = 0; trial < 8; trial++) {
            /* On both sides of where scanning ends and the heap begins. */
            const size_t size = 1 + (size_t)draw(&seed) % (trial < 4 ? 70 : WORD_MOST - 1);
            char word[WORD_MOST + 1] = "";
            for (size_t i = 0; i < size; i++) word[i] = (char)('a' + draw(&seed) % 3);
            const int wanted = merge_plainly(v, word, symbols);
            int64_t count;
            int32_t *ids = encode(tokenizer, word, size, 0, &count);
            wrong += count != wanted;
            for (int k = 0; k < wanted && count == wanted; k++)
                wrong += strcmp(v->spelled[ids[k]], symbols[k]) != 0;
            free(ids);
        }
        ota_tokenizer_free(tokenizer);
        free(v);
    }
    spec_check("TOT-66", wrong, 0);
}

/* ---- bytes ---- */

static void test_every_byte_comes_back(void **state) {
    (void)state;
    static const char *const cuts[] = {"gpt-2", "smollm", "llama-3"};
    static const char *const bits[] = {
        " ",        "a",       "'s", "\xC3\xA9",    "\xE4\xB8\xAD", "7", "\r\n", "\xF0\x9F\x91\x8D",
        "\xCC\x81", "<|end|>", "\t", "\xE2\x80\x83"};
    vocabulary *v = new_vocabulary();
    (void)add_merge(v, v->spelled[' '], "a");
    (void)add_merge(v, v->spelled[0xC3], v->spelled[0xA9]);
    (void)add_piece(v, "<|end|>", OTA_PIECE_CONTROL);
    uint64_t seed = 7;
    for (int k = 0; k < 3; k++) {
        ota_tokenizer_parts parts = parts_of(v);
        parts.cut = cuts[k];
        ota_tokenizer *tokenizer = create(&parts);
        for (int trial = 0; trial < 2000; trial++) {
            char text[400];
            size_t size = 0;
            const size_t wanted = (size_t)draw(&seed) % 300;
            while (size < wanted) {
                const char *bit = bits[draw(&seed) % 12];
                if (draw(&seed) % 4 == 0) {
                    text[size++] = (char)draw(&seed);
                } else {
                    memcpy(text + size, bit, strlen(bit));
                    size += strlen(bit);
                }
            }
            int64_t count;
            int32_t *ids = encode(tokenizer, text, size, draw(&seed) % 4, &count);
            expect_text(tokenizer, ids, count, 0, text, size);
            free(ids);
        }
        ota_tokenizer_free(tokenizer);
    }
    free(v);
    spec_check_true("TOT-66", true);
}

/* ---- cuts ---- */

/* Every word of `words` is a piece, and words that are pieces are not cut further. */
static ota_tokenizer *whole_words(const char *cut, const char *words) {
    vocabulary *v = new_vocabulary();
    char copy[512], *rest = copy;
    (void)snprintf(copy, sizeof copy, "%s", words);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        if (!has_piece(v, word)) (void)add_piece(v, word, OTA_PIECE_NORMAL);
    ota_tokenizer_parts parts = parts_of(v);
    parts.cut = cut;
    parts.keep_whole_word = 1;
    ota_tokenizer *tokenizer = create(&parts);
    free(v);
    return tokenizer;
}

static void test_texts_are_cut_into_words(void **state) {
    (void)state;
    /* \u0120 is a blank, \u010A a newline, \u010D a carriage return. */
    static const struct {
        const char *cut, *text, *words;
    } table[] = {
        {"gpt-2", "Hello world's  two22!?", "Hello \u0120world 's \u0120 \u0120two 22 !?"},
        {"gpt-2", "I'LL we'll\r\n\n x ", "I ' LL \u0120we 'll \u010D\u010A\u010A \u0120x \u0120"},
        {"smollm", "year 1987a", "year \u0120 1 9 8 7 a"},
        {"llama-3", "I'LL see 12345 (it)\n\n  x",
         "I 'LL \u0120see \u0120 123 45 \u0120( it )\u010A\u010A \u0120 \u0120x"},
        {"llama-3", "a \n\n b\n", "a \u0120\u010A\u010A \u0120b \u010A"},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        ota_tokenizer *tokenizer = whole_words(table[k].cut, table[k].words);
        expect_pieces(tokenizer, table[k].text, 0, table[k].words);
        ota_tokenizer_free(tokenizer);
    }
}

/* ---- added tokens and the frame ---- */

static void test_special_pieces(void **state) {
    (void)state;
    vocabulary *v = new_vocabulary();
    const int begin = add_piece(v, "<s>", OTA_PIECE_CONTROL);
    (void)add_piece(v, "<s><s>", OTA_PIECE_USER);
    (void)add_piece(v, "<x>", OTA_PIECE_NORMAL);
    /* Its characters would stand for a blank and >, were it no added token. */
    const int spelled = add_piece(v, "\u0120>", OTA_PIECE_USER);
    ota_tokenizer_parts parts = parts_of(v);
    parts.begin = v->pieces[begin];
    ota_tokenizer *tokenizer = create(&parts);
    const unsigned bare = OTA_ENCODE_NO_SPECIAL;
    expect_pieces(tokenizer, "a", 0, "<s> a");
    expect_pieces(tokenizer, "a<s>b", bare, "a <s> b");
    expect_pieces(tokenizer, "<s><s><s>", bare, "<s><s> <s>");
    expect_pieces(tokenizer, "<s", bare, "< s");
    expect_pieces(tokenizer, "<x>", bare, "< x >");
    expect_pieces(tokenizer, "<s>", bare | OTA_ENCODE_PLAIN, "< s >");
    int32_t frame[2] = {-1, -1};
    assert_int_equal(ota_tokenizer_frame(tokenizer, 0, frame, 2), 1);
    assert_int_equal(frame[0], begin);
    assert_int_equal(ota_tokenizer_frame(tokenizer, 1, frame, 2), 0);
    assert_int_equal(ota_tokenizer_is_special(tokenizer, begin), 1);
    assert_int_equal(ota_tokenizer_is_special(tokenizer, begin + 1), 0);
    assert_int_equal(ota_tokenizer_is_special(tokenizer, 1 << 20), 0);
    const int32_t ids[] = {begin, 'h', 'i', begin};
    expect_text(tokenizer, ids, 4, 0, "<s>hi<s>", 8);
    expect_text(tokenizer, ids, 4, OTA_DECODE_NO_SPECIAL, "hi", 2);
    expect_pieces(tokenizer, "a\u0120>", bare, "a \u0120>");
    expect_text(tokenizer, &(const int32_t){spelled}, 1, 0, "\u0120>", 3);
    assert_int_equal(ota_tokenizer_id(tokenizer, (ota_text){"<s>", 3}), begin);
    assert_int_equal(ota_tokenizer_id(tokenizer, (ota_text){"<t>", 3}), -1);
    assert_null(ota_tokenizer_piece(tokenizer, -1).data);
    ota_tokenizer_free(tokenizer);
    free(v);
}

/* ---- WordPiece ---- */

static ota_tokenizer *wordpiece(int keep_case) {
    static const char *const pieces[] = {"[UNK]",  "[CLS]",   "[SEP]",  "un",     "##aff", "##able",
                                         "a",      "##a",     ",",      ".",      "'",     "m",
                                         "resume", "R\u00E9", "\u4E2D", "\u6587", "##s",   "unaff",
                                         "i",      "run",     "##n",    "##ning"};
    enum { COUNT = sizeof pieces / sizeof *pieces };
    ota_text texts[COUNT];
    int32_t kinds[COUNT];
    for (int k = 0; k < COUNT; k++) {
        texts[k] = (ota_text){pieces[k], strlen(pieces[k])};
        kinds[k] = k == 0 ? OTA_PIECE_UNKNOWN : k < 3 ? OTA_PIECE_CONTROL : OTA_PIECE_NORMAL;
    }
    const ota_tokenizer_parts parts = {.size = sizeof parts,
                                       .model = "wordpiece",
                                       .pieces = texts,
                                       .piece_count = COUNT,
                                       .kinds = kinds,
                                       .begin = texts[1],
                                       .end = texts[2],
                                       .keep_case = keep_case};
    return create(&parts);
}

static void test_wordpiece(void **state) {
    (void)state;
    ota_tokenizer *tokenizer = wordpiece(0);
    const unsigned bare = OTA_ENCODE_NO_SPECIAL;
    expect_pieces(tokenizer, "unaffable", 0, "[CLS] unaff ##able [SEP]");
    expect_pieces(tokenizer, "", 0, "[CLS] [SEP]");
    expect_pieces(tokenizer, " UNA\tRunning\n", bare, "un ##a run ##ning");
    expect_pieces(tokenizer, "R\u00E9sum\u00E9s,a.", bare, "resume ##s , a .");
    expect_pieces(tokenizer, "re\u0301sume\u0301", bare, "resume");
    expect_pieces(tokenizer, "\u4E2D\u6587a", bare, "\u4E2D \u6587 a");
    expect_pieces(tokenizer, "unz a [SEP]x", bare, "[UNK] a [SEP] [UNK]");
    expect_pieces(tokenizer,
                  "a\u200B\xFF\uFFFD"
                  "a",
                  bare, "a ##a");
    expect_pieces(tokenizer, "a\u3000a\u00A0a", bare, "a a a");
    int64_t count;
    int32_t *ids = encode(tokenizer, "I'm unaffable, a.", 17, 0, &count);
    expect_text(tokenizer, ids, count, OTA_DECODE_NO_SPECIAL, "i ' m unaffable, a.", 19);
    free(ids);
    ota_tokenizer_free(tokenizer);
    tokenizer = wordpiece(1);
    expect_pieces(tokenizer, "R\u00E9 RE", bare, "R\u00E9 [UNK]");
    ota_tokenizer_free(tokenizer);
}

static void test_long_words_are_unknown(void **state) {
    (void)state;
    ota_tokenizer *tokenizer = wordpiece(0);
    char text[102];
    memset(text, 'a', sizeof text);
    int64_t count;
    free(encode(tokenizer, text, 100, OTA_ENCODE_NO_SPECIAL, &count));
    assert_int_equal(count, 100);
    int32_t *ids = encode(tokenizer, text, 101, OTA_ENCODE_NO_SPECIAL, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ids[0], 0);
    free(ids);
    ota_tokenizer_free(tokenizer);
}

/* ---- sizes and arguments ---- */

/* Words repeat, so that most come from the cache, also where their first ids found no room. */
static void test_any_capacity_writes_the_same_ids(void **state) {
    (void)state;
    vocabulary *v = new_vocabulary();
    (void)add_merge(v, "t", "h");
    (void)add_merge(v, "th", "e");
    const ota_tokenizer_parts parts = parts_of(v);
    ota_tokenizer *tokenizer = create(&parts);
    const char text[] = "the thin the thin other that the thin the other";
    int64_t whole, count;
    int32_t *ids = encode(tokenizer, text, sizeof text - 1, 0, &whole), some[64];
    assert_in_range(whole, 20, 63);
    for (int64_t capacity = 0; capacity <= whole + 1; capacity++) {
        for (int k = 0; k < 64; k++) some[k] = -7;
        assert_int_equal(
            ota_tokenizer_encode(tokenizer, text, sizeof text - 1, 0, some, capacity, &count, NULL),
            OTA_OK);
        assert_int_equal(count, whole);
        for (int64_t k = 0; k < 64; k++)
            assert_int_equal(some[k], k < capacity && k < whole ? ids[k] : -7);
    }
    char bytes[64];
    assert_int_equal(ota_tokenizer_decode(tokenizer, ids, whole, 0, bytes, 5, &count, NULL),
                     OTA_OK);
    assert_int_equal(count, sizeof text - 1);
    assert_memory_equal(bytes, text, 5);
    free(ids);
    ota_tokenizer_free(tokenizer);
    free(v);
}

static void test_arguments_are_checked(void **state) {
    (void)state;
    vocabulary *v = new_vocabulary();
    const ota_tokenizer_parts parts = parts_of(v);
    ota_tokenizer *tokenizer = create(&parts);
    ota_error error = {.message = ""};
    int64_t count = 9;
    const int32_t outside = v->count;
    assert_int_equal(ota_tokenizer_encode(tokenizer, NULL, 1, 0, NULL, 0, &count, &error),
                     OTA_EINVAL);
    assert_int_equal(ota_tokenizer_encode(tokenizer, "a", -1, 0, NULL, 0, &count, &error),
                     OTA_EINVAL);
    assert_int_equal(
        ota_tokenizer_encode(tokenizer, "a", (64 << 20) + 1, 0, NULL, 0, &count, &error),
        OTA_ELIMIT);
    assert_non_null(strstr(error.message, "above the limit"));
    assert_int_equal(ota_tokenizer_encode(tokenizer, NULL, 0, 0, NULL, 0, &count, &error), OTA_OK);
    assert_int_equal(count, 0);
    assert_int_equal(ota_tokenizer_decode(tokenizer, &outside, 1, 0, NULL, 0, &count, &error),
                     OTA_EINVAL);
    assert_string_equal(error.message,
                        "id 256, number 0 of the list, is outside of the vocabulary: 0 to 255");
    /* Each argument of decoding and of making alone. */
    int32_t id = 1;
    char text[8];
    static const char *const told =
        "tokenizer, size, ids and text must not be NULL and sizes not below 0";
    const struct {
        const ota_tokenizer *tokenizer;
        const int32_t *ids;
        int64_t count;
        char *text;
        int64_t capacity;
        int64_t *size;
    } calls[] = {{NULL, &id, 1, text, 8, &count},       {tokenizer, NULL, 1, text, 8, &count},
                 {tokenizer, &id, -1, text, 8, &count}, {tokenizer, &id, 1, NULL, 8, &count},
                 {tokenizer, &id, 1, text, -1, &count}, {tokenizer, &id, 1, text, 8, NULL}};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        assert_int_equal(ota_tokenizer_decode(calls[k].tokenizer, calls[k].ids, calls[k].count, 0,
                                              calls[k].text, calls[k].capacity, calls[k].size,
                                              &error),
                         OTA_EINVAL);
        assert_string_equal(error.message, told);
    }
    id = -1;
    assert_int_equal(ota_tokenizer_decode(tokenizer, &id, 1, 0, text, 8, &count, NULL), OTA_EINVAL);
    assert_int_equal(ota_tokenizer_decode(tokenizer, NULL, 0, 0, NULL, 0, &count, NULL), OTA_OK);
    assert_int_equal(ota_tokenizer_encode(NULL, "a", 1, 0, NULL, 0, &count, &error), OTA_EINVAL);
    assert_int_equal(ota_tokenizer_encode(tokenizer, "a", 1, 0, NULL, 0, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_tokenizer_encode(tokenizer, "a", 1, 0, NULL, 1, &count, &error),
                     OTA_EINVAL);
    assert_int_equal(ota_tokenizer_encode(tokenizer, "a", 1, 0, &id, -1, &count, &error),
                     OTA_EINVAL);
    ota_tokenizer_free(tokenizer);
    ota_tokenizer_free(NULL);
    free(v);
}

/* The longest part of a character that bytes begin, by the Unicode standard's table 3-7, and all blanks. */
static void test_parts_of_characters(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t part;
    } table[] = {{"\xC2", 1},         {"\xC2\x41", 1},         {"\xC1\xBF", 1},     {"\x80", 1},
                 {"\xE0\x80", 1},     {"\xE0\xA0", 2},         {"\xE2\x82\x41", 2}, {"\xED\xA0", 1},
                 {"\xED\x9F", 2},     {"\xF0\x8F", 1},         {"\xF0\x90\x80", 3}, {"\xF4\x90", 1},
                 {"\xF4\x8F\xBF", 3}, {"\xF4\x8F\xBF\x41", 3}, {"\xF5\x80", 1},     {"\xFF", 1},
                 {"\xE0\xC0", 1},     {"\xE1\x7F", 1}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        const size_t size = strlen(table[k].bytes);
        assert_int_equal(ota_token_valid(table[k].bytes, size), 0);
        assert_int_equal(ota_token_malformed_part(table[k].bytes, size), table[k].part);
    }
    int blanks = 0;
    for (int32_t character = 0; character < 0x110000; character++)
        blanks += ota_token_is_space(character);
    assert_int_equal(blanks, 25);
}

/* Lists of ids are decoded until the flag or the deadline says to end, by one step and by a list of steps. */
static void test_decoding_that_is_to_end(void **state) {
    (void)state;
    enum { COUNT = 1 << 20 };
    static int32_t ids[COUNT];
    static char text[8];
    vocabulary *v = new_vocabulary();
    const ota_tokenizer_parts parts = parts_of(v);
    for (int listed = 0; listed < 2; listed++) {
        ota_tokenizer *tokenizer = listed ? wordpiece(0) : create(&parts);
        const int cancel = 1;
        int64_t size = 7;
        ota_error error = {.message = ""};
        ota_token_options options = {.size = sizeof options, .cancel = &cancel};
        assert_int_equal(
            ota_tokenizer_decode_with(tokenizer, ids, COUNT, &options, text, 8, &size, &error),
            OTA_CANCELLED);
        assert_string_equal(error.message, "the call was cancelled");
        assert_int_equal(size, 0);
        options.cancel = NULL;
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        options.deadline_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 500000;
        assert_int_equal(
            ota_tokenizer_decode_with(tokenizer, ids, COUNT, &options, text, 8, &size, &error),
            OTA_TIMEOUT);
        assert_int_equal(size, 0);
        options = (ota_token_options){.size = 0};
        assert_int_equal(
            ota_tokenizer_decode_with(tokenizer, ids, 1, &options, text, 8, &size, NULL),
            OTA_EINVAL);
        ota_tokenizer_free(tokenizer);
    }
    free(v);
}

/* A flag or a deadline ends a call between two looks, whatever kind of step works at the time. */
static void test_calls_that_are_to_end(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    static char text[SIZE];
    vocabulary *v = new_vocabulary();
    const ota_tokenizer_parts parts = parts_of(v);
    ota_tokenizer *tokenizer = create(&parts);
    int cancel = 1;
    int64_t count = 7;
    ota_error error = {.message = ""};
    ota_token_options options = {.size = sizeof options, .cancel = &cancel};
    memset(text, 'a', sizeof text);
    assert_int_equal(
        ota_tokenizer_encode_with(tokenizer, text, SIZE, &options, NULL, 0, &count, &error),
        OTA_CANCELLED);
    assert_string_equal(error.message, "the call was cancelled");
    assert_int_equal(count, 0);
    cancel = 0;
    assert_int_equal(
        ota_tokenizer_encode_with(tokenizer, text, SIZE, &options, NULL, 0, &count, &error),
        OTA_OK);
    options.deadline_ns = 1;
    assert_int_equal(
        ota_tokenizer_encode_with(tokenizer, "a", 1, &options, NULL, 0, &count, &error),
        OTA_TIMEOUT);
    assert_string_equal(error.message, "the deadline passed before the call was done");
    /* What a word of a million letters and a text of short words do in between. */
    for (int k = 0; k < 2; k++) {
        for (size_t at = 0; at < sizeof text && k == 1; at += 2) text[at] = ' ';
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        const int64_t begin = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        options.deadline_ns = begin + 2000000;
        assert_int_equal(
            ota_tokenizer_encode_with(tokenizer, text, SIZE, &options, NULL, 0, &count, &error),
            OTA_TIMEOUT);
    }
    options.size = 0;
    assert_int_equal(
        ota_tokenizer_encode_with(tokenizer, "a", 1, &options, NULL, 0, &count, &error),
        OTA_EINVAL);
    ota_tokenizer_free(tokenizer);
    free(v);
}

static void test_parts_are_checked(void **state) {
    (void)state;
    static const char *const lacking =
        "tokenizer, parts, parts.size, pieces and merges must be given";
    static const ota_text broken = {"\xff", 1};
    vocabulary *v = new_vocabulary();
    const ota_tokenizer_parts good = parts_of(v);
    struct {
        ota_tokenizer_parts parts;
        ota_status status;
        const char *sentence;
    } table[] = {
        {good, OTA_EINVAL, lacking},
        {good, OTA_EINVAL, lacking},
        {good, OTA_EINVAL, lacking},
        {good, OTA_EINVAL, lacking},
        {good, OTA_EINVAL, lacking},
        {good, OTA_UNSUPPORTED,
         "parts: the tokenizer's model \"\" is not one of bpe, sentencepiece, unigram, words, "
         "rwkv, plamo2 and wordpiece"},
        {good, OTA_UNSUPPORTED,
         "parts: the tokenizer's model \"letters\" is not one of bpe, sentencepiece, unigram, "
         "words, rwkv, plamo2 and wordpiece"},
        {good, OTA_EFORMAT, "parts: piece 0 is not UTF-8"}};
    table[0].parts.size = 0;
    table[1].parts.piece_count = -1;
    table[2].parts.merge_count = -1;
    table[3].parts.pieces = NULL;
    table[4].parts.merges = NULL;
    table[4].parts.merge_count = 1;
    table[5].parts.model = NULL;
    table[6].parts.model = "letters";
    table[7].parts.pieces = &broken;
    table[7].parts.piece_count = 1;
    ota_tokenizer *tokenizer;
    ota_error error;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        assert_int_equal(ota_tokenizer_create(&tokenizer, &table[k].parts, &error),
                         table[k].status);
        assert_string_equal(error.message, table[k].sentence);
    }
    assert_int_equal(ota_tokenizer_create(NULL, &good, &error), OTA_EINVAL);
    assert_int_equal(ota_tokenizer_create(&tokenizer, NULL, &error), OTA_EINVAL);
    free(v);
}

/* A caller built when the struct was shorter gets the defaults of what it does not know. */
/* No pieces make no ids; what is no piece of a vocabulary has no id. */
static void test_a_vocabulary_of_nothing(void **state) {
    (void)state;
    static const ota_tokenizer_parts parts = {
        .size = sizeof parts, .source = "parts", .model = "bpe"};
    ota_tokenizer *tokenizer = create(&parts);
    ota_error error = {.message = ""};
    int64_t count;
    free(encode(tokenizer, "any text", 8, 0, &count));
    assert_int_equal(count, 0);
    assert_int_equal(ota_tokenizer_count(tokenizer), 0);
    assert_int_equal(ota_tokenizer_id(tokenizer, (ota_text){"a", 1}), -1);
    assert_null(ota_tokenizer_piece(tokenizer, 0).data);
    assert_int_equal(ota_tokenizer_decode(tokenizer, NULL, 0, 0, NULL, 0, &count, &error), OTA_OK);
    assert_int_equal(count, 0);
    ota_tokenizer_free(tokenizer);
    /* Pieces without kinds are normal ones. */
    static const char *const spelled[] = {"<unk>", "\u2581", "a", "b", "ab"};
    static const float scores[] = {0, -1, -2, -3, -1};
    ota_text pieces[5];
    for (int k = 0; k < 5; k++) pieces[k] = (ota_text){spelled[k], strlen(spelled[k])};
    const ota_tokenizer_parts scored = {.size = sizeof scored,
                                        .model = "sentencepiece",
                                        .pieces = pieces,
                                        .piece_count = 5,
                                        .scores = scores,
                                        .unknown = pieces[0]};
    tokenizer = create(&scored);
    expect_pieces(tokenizer, "ab ba", 0, "ab \u2581 b a");
    expect_pieces(tokenizer, "abx", 0, "ab <unk>");
    for (int k = 0; k < 5; k++) assert_int_equal(ota_tokenizer_is_special(tokenizer, k), 0);
    ota_tokenizer_free(tokenizer);
}

static void test_parts_may_be_older(void **state) {
    (void)state;
    vocabulary *v = new_vocabulary();
    ota_tokenizer_parts parts = parts_of(v);
    parts.size = offsetof(ota_tokenizer_parts, begin);
    parts.begin = (ota_text){"absent", 6};
    ota_tokenizer *tokenizer = create(&parts);
    assert_int_equal(ota_tokenizer_frame(tokenizer, 0, NULL, 0), 0);
    ota_tokenizer_free(tokenizer);
    ota_error error = {.message = ""};
    parts.size = sizeof parts;
    assert_int_equal(ota_tokenizer_create(&tokenizer, &parts, &error), OTA_EFORMAT);
    assert_string_equal(error.message, "parts: the vocabulary lacks \"absent\"");
    assert_null(tokenizer);
    parts.begin.data = NULL;
    parts.cut = "gpt-5";
    assert_int_equal(ota_tokenizer_create(&tokenizer, &parts, &error), OTA_UNSUPPORTED);
    parts.size = 0;
    assert_int_equal(ota_tokenizer_create(&tokenizer, &parts, &error), OTA_EINVAL);
    free(v);
}

/* ---- a known text ---- */

#define SHARED "../shared/data/"

static void test_counts_of_wikitext(void **state) {
    (void)state;
    ota_tokenizer *tokenizer;
    size_t size;
    if (access(SHARED "text/wikitext-2-raw.test.txt", R_OK) != 0)
        skip_because("there is no " SHARED " beside the repository");
    assert_int_equal(ota_tokenizer_open(&tokenizer, SHARED "gpt2-tokenizer", NULL), OTA_OK);
    assert_int_equal(ota_tokenizer_count(tokenizer), 50257);
    char *text = get(SHARED "text/wikitext-2-raw.test.txt", &size);
    int64_t count;
    int32_t *ids = encode(tokenizer, text, size, 0, &count);
    spec_check("TOT-66", (double)llabs(count - 286221), 0);
    expect_text(tokenizer, ids, count, 0, text, size);
    /* The protocol of perplexities: lines that hold only a blank are empty, and two newlines join. */
    char *joined = malloc(4 * size);
    size_t used = 0;
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end == NULL ? size - at : (size_t)(end - text) - at + 1;
        const bool empty = length == 2 && text[at] == ' ';
        if (at > 0) memcpy(joined + used, "\n\n", 2);
        used += at > 0 ? 2 : 0;
        if (!empty) memcpy(joined + used, text + at, length);
        used += empty ? 0 : length;
        at += length;
    }
    free(ids);
    ids = encode(tokenizer, joined, used, 0, &count);
    spec_check("TOT-66", (double)llabs(count - 287644), 0);
    free(ids);
    free(joined);
    free(text);
    ota_tokenizer_free(tokenizer);
}

TEST_FILE(test_tokenizer) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_follow_their_definition),
        cmocka_unit_test(test_every_byte_comes_back),
        cmocka_unit_test(test_texts_are_cut_into_words),
        cmocka_unit_test(test_special_pieces),
        cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_long_words_are_unknown),
        cmocka_unit_test(test_any_capacity_writes_the_same_ids),
        cmocka_unit_test(test_arguments_are_checked),
        cmocka_unit_test(test_parts_of_characters),
        cmocka_unit_test(test_decoding_that_is_to_end),
        cmocka_unit_test(test_calls_that_are_to_end),
        cmocka_unit_test(test_parts_are_checked),
        cmocka_unit_test(test_a_vocabulary_of_nothing),
        cmocka_unit_test(test_parts_may_be_older),
        cmocka_unit_test(test_counts_of_wikitext),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
