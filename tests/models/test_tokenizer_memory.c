/* test_tokenizer_memory.c: tokenizers without memory: every allocation that opening, encoding and decoding make is refused in turn.
 * The call answers OTA_ENOMEM with a sentence, holds nothing and hands out no tokenizer; with memory the ids and the text are those
 * of before. */
#define _GNU_SOURCE
#include "tokenizer_support.h"

#include "groups.h"
#include "refused_memory.h"

enum { IDS = 4096, BYTES = 8192 };

/* What came of one text: through ids and back. */
typedef struct trip {
    int64_t count, length;
    int32_t ids[IDS];
    char text[BYTES];
} trip;

typedef struct source {
    const char *path; /* NULL: of parts */
    ota_tokenizer_parts parts;
    const char *text;
} source;

static ota_status travel(const source *from, trip *to, ota_error *error) {
    ota_tokenizer *tokenizer = (ota_tokenizer *)to;
    memset(to, 0, sizeof *to);
    ota_status status = from->path != NULL ? ota_tokenizer_open(&tokenizer, from->path, error)
                                           : ota_tokenizer_create(&tokenizer, &from->parts, error);
    if (status != OTA_OK) {
        assert_null(tokenizer);
        return status;
    }
    status = ota_tokenizer_encode(tokenizer, from->text, (int64_t)strlen(from->text), 0, to->ids,
                                  IDS, &to->count, error);
    if (status == OTA_OK)
        status = ota_tokenizer_decode(tokenizer, to->ids, to->count, 0, to->text, BYTES,
                                      &to->length, error);
    ota_tokenizer_free(tokenizer);
    return status;
}

/* Returns how many allocations there are. */
static int refuse_in_turn(const source *from) {
    static trip first, now;
    ota_error error = {.message = ""};
    /* Libraries take memory of their own that the tokenizer frees: no more may be held, less may. */
    const int before = held;
    if (travel(from, &first, &error) != OTA_OK) fail_msg("%s", error.message);
    assert_true(first.count > 0 && first.count <= IDS && first.length <= BYTES);
    assert_true(held <= before);
    for (int place = 0;; place++) {
        memset(&error, 0, sizeof error);
        refuse_after(place);
        const ota_status status = travel(from, &now, &error);
        allow_all();
        assert_true(held <= before);
        if (refused == 0) {
            assert_int_equal(status, OTA_OK);
            assert_memory_equal(&first, &now, sizeof now);
            return place;
        }
        if (status != OTA_ENOMEM)
            fail_msg("allocation %d of \"%.20s\": %d, %s", place, from->text, (int)status,
                     error.message);
        assert_true(strlen(error.message) > 0);
    }
}

/* ---- parts --------------------------------------------------------------------------------------- */

/* Longer than what is kept at hand for a word, a piece and a text. */
static const char *long_text(const char *between) {
    static char text[2000];
    size_t used = 0;
    for (int k = 0; k < 12; k++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s", k % 4 == 3 ? between : " ",
                             "abababababababababababababababababababababababababababababababababa"
                             "bab, 17 caf\u00E9 <|end|>");
    return text;
}

static void memory_of_bpe(void **state) {
    (void)state;
    static const char *const cuts[] = {"gpt-2", "smollm", "llama-3"};
    for (int k = 0; k < 3; k++) {
        vocabulary *v = new_vocabulary();
        (void)add_merge(v, "a", "b");
        (void)add_merge(v, "ab", "ab");
        (void)add_merge(v, v->spelled[' '], "a");
        const int begin = add_piece(v, "<|begin|>", OTA_PIECE_CONTROL);
        (void)add_piece(v, "<|end|>", OTA_PIECE_CONTROL);
        (void)add_piece(v, "caf", OTA_PIECE_USER);
        source from = {.parts = parts_of(v), .text = long_text("\n\n")};
        from.parts.cut = cuts[k];
        from.parts.begin = v->pieces[begin];
        from.parts.keep_whole_word = k == 2;
        assert_true(refuse_in_turn(&from) > 10);
        free(v);
    }
}

static void memory_of_wordpiece(void **state) {
    (void)state;
    static const char *const pieces[] = {"[UNK]", "[CLS]", "a",    "##b",    "##a",     "##ab",
                                         ",",     "17",    "cafe", "\uFFFD", "##\uFFFD"};
    enum { COUNT = sizeof pieces / sizeof *pieces };
    ota_text texts[COUNT];
    for (int k = 0; k < COUNT; k++) texts[k] = (ota_text){pieces[k], strlen(pieces[k])};
    for (int k = 0; k < 2; k++) {
        source from = {.text = long_text("\xE4\xB8 \u4E2D A\u0301\t")};
        from.parts = (ota_tokenizer_parts){.size = sizeof from.parts,
                                           .model = "wordpiece",
                                           .pieces = texts,
                                           .piece_count = COUNT,
                                           .begin = texts[1],
                                           .keep_case = k};
        assert_true(refuse_in_turn(&from) > 10);
    }
}

static void memory_of_sentencepiece(void **state) {
    (void)state;
    for (int bytes = 0; bytes < 2; bytes++) {
        vocabulary *v = calloc(1, sizeof *v);
        static float scores[VOCABULARY_MOST];
        (void)add_piece(v, "<unk>", OTA_PIECE_UNKNOWN);
        for (int byte = 0; byte < 256 && bytes == 1; byte++) {
            char spelled[SPELLED];
            (void)snprintf(spelled, sizeof spelled, "<0x%02X>", (unsigned)byte);
            (void)add_piece(v, spelled, OTA_PIECE_BYTE);
        }
        static const char *const normal[] = {"\u2581", "a", "b", "ab", "abab", "\u2581ab", ","};
        for (size_t k = 0; k < sizeof normal / sizeof *normal; k++)
            scores[add_piece(v, normal[k], OTA_PIECE_NORMAL)] = -(float)k;
        (void)add_piece(v, "17", OTA_PIECE_USER);
        source from = {.parts = parts_of(v), .text = long_text("\xE4\xB8  \u00E9")};
        from.parts.model = "sentencepiece";
        from.parts.scores = scores;
        from.parts.unknown = v->pieces[0];
        assert_true(refuse_in_turn(&from) > 10);
        free(v);
    }
}

/* The longest piece, and PLaMo's rule: 256 bytes, and pieces of more. */
static void memory_of_kinds_of_gguf(void **state) {
    (void)state;
    for (int plamo = 0; plamo < 2; plamo++) {
        vocabulary *v = calloc(1, sizeof *v);
        static float scores[VOCABULARY_MOST];
        (void)add_piece(v, "<unk>", OTA_PIECE_UNKNOWN);
        for (int byte = 0; byte < 256; byte++) {
            char spelled[SPELLED];
            (void)snprintf(spelled, sizeof spelled, plamo ? "<0x%02X>" : "\\x%02x", (unsigned)byte);
            (void)add_piece(v, spelled, plamo ? OTA_PIECE_BYTE : OTA_PIECE_NORMAL);
        }
        static const char *const normal[] = {"ab", "abab", " ab", ", 1"};
        for (size_t k = 0; k < sizeof normal / sizeof *normal; k++)
            scores[add_piece(v, normal[k], OTA_PIECE_NORMAL)] = -(float)k;
        source from = {.parts = parts_of(v), .text = long_text("\xE4\xB8  \u00E9")};
        from.parts.model = plamo ? "plamo2" : "rwkv";
        from.parts.scores = scores;
        from.parts.unknown = v->pieces[0];
        assert_true(refuse_in_turn(&from) > 10);
        free(v);
    }
}

/* Every place at which a text of a few characters over and over grows out of its memory. */
static void memory_of_normalised_characters(void **state) {
    (void)state;
    static const char *const characters[] = {"\u4E2D", "\u0130", ",", "a\u0301"};
    static const char *const pieces[] = {"[UNK]", "a"};
    const ota_text texts[] = {{pieces[0], 5}, {pieces[1], 1}};
    for (size_t k = 0; k < sizeof characters / sizeof *characters; k++) {
        for (size_t before = 0; before < 5; before++) {
            char text[400] = "aaaa";
            size_t used = before;
            while (used + 8 < sizeof text)
                used += (size_t)snprintf(text + used, sizeof text - used, "%s", characters[k]);
            source from = {.text = text};
            from.parts = (ota_tokenizer_parts){
                .size = sizeof from.parts, .model = "wordpiece", .pieces = texts, .piece_count = 2};
            assert_true(refuse_in_turn(&from) > 5);
        }
    }
}

/* ---- files --------------------------------------------------------------------------------------- */

static void put_text(const char *path, const char *text) { put(path, text, strlen(text)); }

static void memory_of_json(void **state) {
    (void)state;
    static const char pairs[] =
        "{\"version\": \"1.0\", \"model\": {\"type\": \"BPE\", \"merges\": [[\"a\", \"b\"], "
        "[\"ab\", "
        "\"ab\"]], \"vocab\": {\"\\u0061\": 0, \"b\": 1, \"ab\": 2, \"abab\": 3, \"\u0120\": 4}}, "
        "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", "
        "\"pattern\": {\"Regex\": \"[0-9]+|[a-z]+| \"}, \"behavior\": \"Isolated\"}, {\"type\": "
        "\"Digits\", \"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": "
        "true, \"use_regex\": true}]}, \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
        "[{\"type\": \"NFC\"}, {\"type\": \"Lowercase\"}]}, \"added_tokens\": [{\"id\": 5, "
        "\"content\": \"<|end|>\", \"special\": true}, {\"id\": 6, \"content\": \"CAF\", "
        "\"normalized\": true, \"single_word\": false}], \"post_processor\": {\"type\": "
        "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\"}}, {\"Sequence\": "
        "{}}], \"special_tokens\": {\"x\": {\"ids\": [5]}}}, \"decoder\": {\"type\": "
        "\"ByteLevel\"}}";
    static const char words[] =
        "{\"normalizer\": {\"type\": \"BertNormalizer\"}, \"pre_tokenizer\": {\"type\": "
        "\"BertPreTokenizer\"}, \"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", "
        "\"vocab\": {\"[UNK]\": 0, \"a\": 1, \"##b\": 2, \"##a\": 3, \",\": 4, \"17\": 5}}, "
        "\"added_tokens\": [{\"id\": 0, \"content\": \"[UNK]\", \"special\": true}]}";
    static const char marks[] =
        "{\"pre_tokenizer\": {\"type\": \"Punctuation\"}, \"normalizer\": {\"type\": \"NFKD\"}, "
        "\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"[UNK]\": 0, \"a\": 1}}}";
    static const char scored[] =
        "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"▁\", "
        "-2], "
        "[\"a\", -3.5], [\"b\", -3], [\"ab\", -4e0], [\"▁ab\", -5], [\"17\", -1]]}, "
        "\"normalizer\": "
        "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Precompiled\", "
        "\"precompiled_charsmap\": "
        "\"BAAAAAAAAAA=\"}, {\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, "
        "\"content\": \" "
        "\"}, {\"type\": \"Strip\", \"strip_left\": true}, {\"type\": \"Prepend\", \"prepend\": "
        "\"b\"}]}, "
        "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}, \"decoder\": "
        "{\"type\": \"Metaspace\"}, \"added_tokens\": [{\"id\": 6, \"content\": \"17\", "
        "\"normalized\": true}]}";
    static const char characters[] =
        "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"byte_fallback\": true, \"vocab\": "
        "{\"?\": 0, "
        "\"▁\": 1, \"a\": 2, \"b\": 3, \"ab\": 4, \"<0xC3>\": 5, \"<0xA9>\": 6}, \"merges\": [\"a "
        "b\"]}, "
        "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
        "\"UnicodeScripts\"}, "
        "{\"type\": \"FixedLength\"}, {\"type\": \"CharDelimiterSplit\", \"delimiter\": \"x\"}]}, "
        "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": "
        "{\"String\": \"▁\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": "
        "\"Fuse\"}, "
        "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}, {\"type\": "
        "\"BPEDecoder\"}]}}";
    static const char bytes[] = "{\"model\": {\"type\": \"BPE\", \"end_of_word_suffix\": \"</w>\", "
                                "\"vocab\": {\"a\": 0, \"b\": 1, "
                                "\"a</w>\": 2, \"ab\": 3}, \"merges\": [\"a b\"]}, \"normalizer\": "
                                "{\"type\": \"ByteLevel\"}, "
                                "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
                                "[{\"type\": \"ByteLevel\"}, {\"type\": "
                                "\"Digits\"}]}}";
    static const char *const files[] = {pairs, words, marks, scored, characters, bytes};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        put_text("t.json", files[k]);
        const source from = {.path = "t.json", .text = long_text("\xE4\xB8 \u4E2D A\u0301\t")};
        assert_true(refuse_in_turn(&from) > 10);
    }
}

/* Pieces: a text, a score, a kind. Without a trainer_spec Unigram; else words, whose blank in front is put behind. */
static void memory_of_model(void **state) {
    (void)state;
    static const char model[] = "\x0a\x09\x0a\x05<unk>\x18\x02"
                                "\x0a\x0a\x0a\x03\xE2\x96\x81\x15\x00\x00\x80\xBF"
                                "\x0a\x08\x0a\x01"
                                "a\x15\x00\x00\x80\xBF"
                                "\x0a\x09\x0a\x02"
                                "ab\x15\x00\x00\x00\xC0"
                                "\x0a\x06\x0a\x02"
                                "17\x18\x04"
                                "\x1a\x0a\x12\x08\x04\x00\x00\x00\x00\x00\x00\x00"
                                "\x12\x05\x18\x03\xC0\x01\x01";
    for (int words = 0; words < 2; words++) {
        put("tokenizer.model", model, sizeof model - (words ? 1 : 8));
        const source from = {.path = ".", .text = long_text("\xE4\xB8  \u4E2D")};
        assert_true(refuse_in_turn(&from) > 10);
    }
}

static void memory_of_lists(void **state) {
    (void)state;
    const source folder = {.path = ".", .text = long_text("\n")};
    put_text("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\r\n##b\n##a\n");
    put_text("tokenizer_config.json",
             "{\"do_lower_case\": false, \"mask_token\": {\"content\": \"<|end|>\", \"lstrip\": "
             "true}, \"extra_special_tokens\": [\"caf\"], \"image_token\": \"17\"}");
    assert_true(refuse_in_turn(&folder) > 10);
    put_text("special_tokens_map.json", "{\"sep_token\": \"[CLS]\", \"x_token\": \"baba\"}");
    put_text("added_tokens.json", "{\"<|end|>\": 6, \"bab,\": 7, \"a\": 3}");
    assert_true(refuse_in_turn(&folder) > 10);
    put_text("special_tokens_map.json", "{}");
    put_text("added_tokens.json", "{\"a\": 0}");
    put_text("encoder.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\u0120\": 3}");
    put_text("vocab.bpe", "#version: 0.2\na b\n");
    assert_true(refuse_in_turn(&folder) > 10);
}

static void memory_of_tekken(void **state) {
    (void)state;
    static const char *const pieces[] = {"ab", "ba"};
    const source from = {.path = "tekken.json", .text = long_text("\xE4\xB8  \u4E2D<s>")};
    put_tekken("tekken.json", pieces, 2, ", \"image\": {\"x\": 1}");
    assert_true(refuse_in_turn(&from) > 10);
}

TEST_FILE(test_tokenizer_memory) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_bpe),
        cmocka_unit_test(memory_of_wordpiece),
        cmocka_unit_test(memory_of_sentencepiece),
        cmocka_unit_test(memory_of_kinds_of_gguf),
        cmocka_unit_test(memory_of_normalised_characters),
        IN_FOLDER(memory_of_json),
        IN_FOLDER(memory_of_model),
        IN_FOLDER(memory_of_lists),
        IN_FOLDER(memory_of_tekken),
    };
    return cmocka_run_group_tests_name("tokenizer_memory", tests, NULL, NULL);
}
