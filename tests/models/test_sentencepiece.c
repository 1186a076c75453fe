/* test_sentencepiece.c: BPE by scores against its definition on strings, the two spellings of a blank, pieces
 * of kind USER, bytes, unknown characters, and vocabularies that are refused. */
#define _GNU_SOURCE
#include "tokenizer_support.h"

#include "groups.h"
#include "spec.h"

#define BLANK "\u2581"

typedef struct scored_vocabulary {
    vocabulary *v;
    float scores[VOCABULARY_MOST];
    int unknown;
} scored_vocabulary;

static int add_scored(scored_vocabulary *s, const char *spelled, int32_t kind, float score) {
    const int id = add_piece(s->v, spelled, kind);
    s->scores[id] = score;
    return id;
}

static void add_characters(scored_vocabulary *s) {
    static const char *const characters[] = {BLANK, "a", "b", "c", "<", ">", "\u00E9"};
    for (size_t k = 0; k < sizeof characters / sizeof *characters; k++)
        (void)add_scored(s, characters[k], OTA_PIECE_NORMAL, -1000);
}

/* <unk>, and the 256 bytes where `bytes`. */
static scored_vocabulary *new_scored(bool bytes) {
    scored_vocabulary *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->v = calloc(1, sizeof *s->v);
    assert_non_null(s->v);
    s->unknown = add_scored(s, "<unk>", OTA_PIECE_UNKNOWN, 0);
    for (int byte = 0; byte < 256 && bytes; byte++) {
        char spelled[SPELLED];
        (void)snprintf(spelled, sizeof spelled, "<0x%02X>", (unsigned)byte);
        (void)add_scored(s, spelled, OTA_PIECE_BYTE, 0);
    }
    return s;
}

static void free_scored(scored_vocabulary *s) {
    free(s->v);
    free(s);
}

static ota_tokenizer_parts parts_of_scored(const scored_vocabulary *s) {
    ota_tokenizer_parts parts = parts_of(s->v);
    parts.model = "sentencepiece";
    parts.unknown = s->v->pieces[s->unknown];
    parts.scores = s->scores;
    return parts;
}

/* ---- the definition ---- */

enum { SYMBOLS_MOST = 600 };

typedef struct symbol {
    char text[SPELLED];
    bool fixed; /* of kind USER: never merged */
} symbol;

/* `text` with U+2581 for every blank. */
static void spell_blanks(const char *text, char *out, size_t room) {
    size_t used = 0;
    for (; *text != '\0'; text++) {
        const char *const one = *text == ' ' ? BLANK : (char[2]){*text, '\0'};
        assert_true(used + strlen(one) < room);
        memcpy(out + used, one, strlen(one) + 1);
        used += strlen(one);
    }
    out[used] = '\0';
}

static int find_kind(const scored_vocabulary *s, const char *text, int32_t kind) {
    char spelled[4 * SPELLED];
    for (int k = 0; k < s->v->count; k++) {
        spell_blanks(s->v->spelled[k], spelled, sizeof spelled);
        if (s->v->kinds[k] == kind && strcmp(spelled, text) == 0) return k;
    }
    return -1;
}

static size_t character_size(const char *text) {
    size_t size = 1;
    while (((unsigned char)text[size] & 0xC0) == 0x80) size++;
    return size;
}

/* The longest piece of kind USER that `text` begins with. */
static size_t user_size(const scored_vocabulary *s, const char *text) {
    size_t longest = 0;
    char spelled[4 * SPELLED];
    for (int k = 0; k < s->v->count; k++) {
        spell_blanks(s->v->spelled[k], spelled, sizeof spelled);
        const size_t size = strlen(spelled);
        if (s->v->kinds[k] == OTA_PIECE_USER && size > longest && strncmp(text, spelled, size) == 0)
            longest = size;
    }
    return longest;
}

/* The ids of `text`; returns how many. */
static int encode_plainly(const scored_vocabulary *s, const char *text, int32_t *ids) {
    static symbol symbols[SYMBOLS_MOST];
    char spelled[4 * SYMBOLS_MOST];
    int count = 0, written = 0;
    spell_blanks(text, spelled, sizeof spelled);
    for (const char *at = spelled; *at != '\0'; count++) {
        const size_t user = user_size(s, at), size = user > 0 ? user : character_size(at);
        assert_true(count < SYMBOLS_MOST && size < SPELLED);
        symbols[count] = (symbol){.fixed = user > 0};
        memcpy(symbols[count].text, at, size);
        at += size;
    }
    for (;;) {
        int place = -1;
        float best = -1e30F;
        char both[2 * SPELLED];
        for (int i = 0; i + 1 < count; i++) {
            if (symbols[i].fixed || symbols[i + 1].fixed) continue;
            join(both, sizeof both, symbols[i].text, "", symbols[i + 1].text);
            const int id = find_kind(s, both, OTA_PIECE_NORMAL);
            if (id < 0 || s->scores[id] <= best) continue;
            best = s->scores[id];
            place = i;
        }
        if (place < 0) break;
        join(both, sizeof both, symbols[place].text, "", symbols[place + 1].text);
        join(symbols[place].text, SPELLED, both, "", "");
        memmove(symbols + place + 1, symbols + place + 2,
                (size_t)(count - place - 2) * sizeof *symbols);
        count--;
    }
    for (int k = 0; k < count; k++) {
        const int id =
            find_kind(s, symbols[k].text, symbols[k].fixed ? OTA_PIECE_USER : OTA_PIECE_NORMAL);
        if (id >= 0) ids[written++] = id;
        for (const char *byte = symbols[k].text; id < 0 && *byte != '\0'; byte++)
            ids[written++] = 1 + (unsigned char)*byte;
    }
    return written;
}

/* Joins of pieces that are there, with scores of few values, so that many are equal. */
static scored_vocabulary *random_scored(uint64_t *seed) {
    scored_vocabulary *s = new_scored(true);
    (void)add_scored(s, "\n", OTA_PIECE_USER, -1000);
    (void)add_scored(s, "\n\n", OTA_PIECE_USER, -1000);
    (void)add_scored(s, "  ", OTA_PIECE_USER, -1000);          /* as gguf files spell it */
    (void)add_scored(s, BLANK BLANK BLANK, OTA_PIECE_USER, 0); /* as the model does */
    (void)add_scored(s, "<b>", OTA_PIECE_USER, -1000);
    const int first = s->v->count;
    add_characters(s);
    for (int tries = 0; tries < 60; tries++) {
        const int known = s->v->count - first;
        const char *left = s->v->spelled[first + (int)(draw(seed) % (uint64_t)known)],
                   *right = s->v->spelled[first + (int)(draw(seed) % (uint64_t)known)];
        char both[2 * SPELLED];
        join(both, sizeof both, left, "", right);
        if (strlen(both) < 16 && find_kind(s, both, OTA_PIECE_NORMAL) < 0 &&
            find_kind(s, both, OTA_PIECE_USER) < 0)
            (void)add_scored(s, both, OTA_PIECE_NORMAL, -(float)(draw(seed) % 12));
    }
    return s;
}

static void test_ids_follow_their_definition(void **state) {
    (void)state;
    static const char *const bits[] = {"a", "b",  "c", " ",   BLANK, "\u00E9", "<b>",
                                       "<", "\n", ">", "<b>", "z",   "\u4E2D", " "};
    uint64_t seed = 20261123;
    int wrong = 0, bytes = 0;
    for (int round = 0; round < 12; round++) {
        scored_vocabulary *s = random_scored(&seed);
        const ota_tokenizer_parts parts = parts_of_scored(s);
        ota_tokenizer *tokenizer = create(&parts);
        for (int trial = 0; trial < 12; trial++) {
            char text[4 * SYMBOLS_MOST] = "", back[4 * SYMBOLS_MOST] = "";
            int32_t wanted[4 * SYMBOLS_MOST];
            /* On both sides of where scanning ends and the heap begins; long stretches in some. */
            const int size = 1 + (int)(draw(&seed) % (trial < 8 ? 30 : 300)),
                      kinds = trial % 4 == 3 ? 6 : 14;
            for (int k = 0; k < size; k++) {
                const char *bit = bits[draw(&seed) % (uint64_t)kinds];
                (void)strcat(text, bit);
                (void)strcat(back, strcmp(bit, BLANK) == 0 ? " " : bit);
            }
            const int expected = encode_plainly(s, text, wanted);
            int64_t count;
            int32_t *ids = encode(tokenizer, text, strlen(text), 0, &count);
            wrong += count != expected || memcmp(ids, wanted, (size_t)expected * sizeof *ids) != 0;
            for (int k = 0; k < expected; k++) bytes += wanted[k] >= 1 && wanted[k] <= 256;
            expect_text(tokenizer, ids, count, 0, back, strlen(back));
            free(ids);
        }
        ota_tokenizer_free(tokenizer);
        free_scored(s);
    }
    spec_check("TOT-66", wrong, 0);
    assert_true(bytes > 100);
}

/* ---- by hand ---- */

static void test_pieces(void **state) {
    (void)state;
    scored_vocabulary *s = new_scored(true);
    add_characters(s);
    const int begin = add_scored(s, "<s>", OTA_PIECE_CONTROL, 0);
    (void)add_scored(s, "\n\n", OTA_PIECE_USER, -1000);
    (void)add_scored(s, "  ", OTA_PIECE_USER, -1000);
    (void)add_scored(s, "ab", OTA_PIECE_NORMAL, -2);
    (void)add_scored(s, "bc", OTA_PIECE_NORMAL, -1);
    (void)add_scored(s, "abc", OTA_PIECE_NORMAL, -3);
    (void)add_scored(s, BLANK "a", OTA_PIECE_NORMAL, -4);
    (void)add_scored(s, "aa", OTA_PIECE_NORMAL, -5);
    /* Bytes are spelled with digits of 0 to 9 and A to F. */
    (void)add_scored(s, "<0xG0>", OTA_PIECE_BYTE, 0);
    (void)add_scored(s, "<0x0g>", OTA_PIECE_BYTE, 0);
    ota_tokenizer_parts parts = parts_of_scored(s);
    parts.begin = s->v->pieces[begin];
    ota_tokenizer *tokenizer = create(&parts);
    const unsigned bare = OTA_ENCODE_NO_SPECIAL;
    assert_string_equal(ota_tokenizer_model(tokenizer), "sentencepiece");
    expect_pieces(tokenizer, "", 0, "<s>");
    expect_pieces(tokenizer, "", bare, "");
    expect_pieces(tokenizer, "abc", bare, "abc"); /* bc, then a and bc */
    expect_pieces(tokenizer, "aaa", bare, "aa a");
    expect_pieces(tokenizer, "a a", bare, "a " BLANK "a");
    expect_pieces(tokenizer, "a" BLANK "a", bare, "a " BLANK "a");
    expect_pieces(tokenizer, "  a", bare, "   a");
    expect_pieces(tokenizer, " " BLANK "a", bare, "   a");
    expect_pieces(tokenizer, BLANK BLANK " a", bare, "   " BLANK "a");
    expect_pieces(tokenizer, "a\n\n\nb", bare, "a \n\n <0x0A> b");
    expect_pieces(tokenizer, "a\n\nb", bare | OTA_ENCODE_PLAIN, "a \n\n b");
    expect_pieces(tokenizer, "a<s>b", bare, "a <s> b");
    expect_pieces(tokenizer, "a<s>b", bare | OTA_ENCODE_PLAIN, "a < <0x73> > b");
    expect_pieces(tokenizer, "d\u00E8\u00E9", bare, "<0x64> <0xC3> <0xA8> \u00E9");
    expect_pieces(tokenizer, "<0x61>", bare, "< <0x30> <0x78> <0x36> <0x31> >");
    expect_pieces(tokenizer,
                  "a\xFF"
                  "a",
                  bare, "a <0xFF> a");
    int64_t count;
    const char text[] = " a\0\xC3(\u2581 \n\nd\xFF<s>", back[] = " a\0\xC3(  \n\nd\xFF<s>";
    int32_t *ids = encode(tokenizer, text, sizeof text - 1, bare, &count);
    expect_text(tokenizer, ids, count, 0, back, sizeof back - 1);
    expect_text(tokenizer, ids, count, OTA_DECODE_NO_SPECIAL, back, sizeof back - 4);
    free(ids);
    ota_tokenizer_free(tokenizer);
    free_scored(s);
}

static void test_unknown_characters(void **state) {
    (void)state;
    scored_vocabulary *s = new_scored(false);
    add_characters(s);
    ota_tokenizer_parts parts = parts_of_scored(s);
    ota_tokenizer *tokenizer = create(&parts);
    expect_pieces(tokenizer, "axyb\u4E2D a", 0, "a <unk> b <unk> " BLANK " a");
    ota_tokenizer_free(tokenizer);
    parts.unknown.data = NULL;
    tokenizer = create(&parts);
    expect_pieces(tokenizer, "axyb", 0, "a b");
    ota_tokenizer_free(tokenizer);
    free_scored(s);
}

/* Blanks in front and at the ends, for both kinds; a blank in front of the first piece alone goes where others stand before
 * it. */
static void test_blanks_in_front(void **state) {
    (void)state;
    static const char *const models[] = {"sentencepiece", "unigram"};
    for (int k = 0; k < 2; k++) {
        scored_vocabulary *s = new_scored(false);
        add_characters(s);
        (void)add_scored(s, BLANK "a", OTA_PIECE_NORMAL, -1);
        ota_tokenizer_parts parts = parts_of_scored(s);
        parts.model = models[k];
        parts.space_in_front = 1;
        ota_tokenizer *tokenizer = create(&parts);
        assert_string_equal(ota_tokenizer_model(tokenizer), models[k]);
        expect_pieces(tokenizer, "", 0, "");
        expect_pieces(tokenizer, "a", 0, BLANK "a");
        expect_pieces(tokenizer, " a", 0, BLANK " " BLANK "a");
        expect_pieces(tokenizer, "b ", 0, BLANK " b " BLANK);
        int64_t count;
        int32_t *ids = encode(tokenizer, " a a", 4, 0, &count);
        expect_text(tokenizer, ids, count, 0, " a a", 4);
        expect_text(tokenizer, ids, count, OTA_DECODE_INNER, "  a a", 5);
        expect_text(tokenizer, ids + 1, 1, 0, "a", 1);
        expect_text(tokenizer, ids + 1, 1, OTA_DECODE_INNER, " a", 2);
        free(ids);
        ota_tokenizer_free(tokenizer);
        parts.space_once = 1;
        tokenizer = create(&parts);
        expect_pieces(tokenizer, "  ", 0, "");
        expect_pieces(tokenizer, "  a  a ", 0, BLANK "a " BLANK "a");
        ota_tokenizer_free(tokenizer);
        free_scored(s);
    }
}

/* ---- what is refused ---- */

static void expect_refusal(const scored_vocabulary *s, ota_status status, const char *message) {
    const ota_tokenizer_parts parts = parts_of_scored(s);
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    assert_int_equal(ota_tokenizer_create(&tokenizer, &parts, &error), status);
    assert_string_equal(error.message, message);
    assert_null(tokenizer);
}

static void test_refusals(void **state) {
    (void)state;
    scored_vocabulary *s = new_scored(false);
    add_characters(s);
    ota_tokenizer_parts parts = parts_of_scored(s);
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    parts.scores = NULL;
    assert_int_equal(ota_tokenizer_create(&tokenizer, &parts, &error), OTA_EINVAL);
    assert_string_equal(error.message, "parts: scores is NULL, and these pieces need one each");
    s->scores[2] = 2e30F;
    expect_refusal(s, OTA_EFORMAT, "parts: the score of piece 2 is no number from -1e30 to 1e30");
    s->scores[2] = -1;
    const int byte = add_scored(s, "<0x41>", OTA_PIECE_BYTE, 0);
    expect_refusal(s, OTA_EFORMAT,
                   "parts: 1 of the 256 pieces of bytes are there, and must be all or none");
    s->v->kinds[byte] = OTA_PIECE_CONTROL;
    const int made = add_scored(s, "az", OTA_PIECE_NORMAL, 0);
    expect_refusal(s, OTA_UNSUPPORTED,
                   "parts: piece 9 has a character that is no piece of kind normal, and such "
                   "vocabularies are not run");
    join(s->v->spelled[made], SPELLED, "ab", "", "");
    s->v->kinds[made] = OTA_PIECE_UNUSED;
    expect_refusal(s, OTA_UNSUPPORTED,
                   "parts: piece 9 is unused and can be made of two others, and such vocabularies "
                   "are not run");
    parts = parts_of_scored(s);
    parts.source = NULL;
    assert_int_equal(ota_tokenizer_create(&tokenizer, &parts, &error), OTA_UNSUPPORTED);
    assert_memory_equal(error.message, "piece 9 is unused", 17);
    free_scored(s);
}

TEST_FILE(test_sentencepiece) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_follow_their_definition),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_unknown_characters),
        cmocka_unit_test(test_blanks_in_front),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
