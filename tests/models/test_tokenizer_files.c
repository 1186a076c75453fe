/* test_tokenizer_files.c: every form of a tokenizer's files, read whole and broken: for each rule a file
 * that breaks it, answered with the status, the byte and the rule. */
#define _GNU_SOURCE
#include "groups.h"
#include "tokenizer_support.h"

#include <time.h>

/* ---- small true files ---- */

/* Pieces a b ab and a blank. */
#define VOCAB "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\u0120\": 3}"
#define BYTES "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": " VOCAB ", \"merges\": [\"a b\"]}"

static void put_text(const char *path, const char *text) { put(path, text, strlen(text)); }

static ota_tokenizer *open_path(const char *path) {
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    if (ota_tokenizer_open(&tokenizer, path, &error) != OTA_OK) fail_msg("%s", error.message);
    return tokenizer;
}

static void open_and_expect(const char *path, const char *text, const char *pieces) {
    ota_tokenizer *tokenizer = open_path(path);
    expect_pieces(tokenizer, text, 0, pieces);
    ota_tokenizer_free(tokenizer);
}

static void test_tokenizer_json(void **state) {
    (void)state;
    put_text("t.json", "{" BYTES ", " MODEL "}");
    open_and_expect("t.json", "ab aab", "ab \u0120 a ab");
    put_text("t.json",
             "{\"version\": \"1.0\", \"model\": {\"merges\": [[\"a\", \"b\"]], \"vocab\": "
             "{\"\\u0061\": 0, \"b\": 1, \"ab\": 2}}, " BYTES ", \"added_tokens\": "
             "[{\"id\": 3, \"content\": \"<\\ud83d\\udc4d>\", \"special\": true}], "
             "\"normalizer\": null, \"post_processor\": {\"type\": \"TemplateProcessing\", "
             "\"single\": [{\"SpecialToken\": {\"id\": \"x\"}}, {\"Sequence\": {}}], "
             "\"special_tokens\": {\"x\": {\"ids\": [3]}}}}");
    open_and_expect("t.json", "ab<\U0001F44D>c", "<\U0001F44D> ab <\U0001F44D>");
}

/* WordPiece on words cut by `steps`. */
static void put_words(const char *path, const char *steps) {
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"pre_tokenizer\": %s, \"model\": {\"type\": \"WordPiece\", \"vocab\": {"
                   "\"[UNK]\": 0, \"a\": 1, \"b\": 2, \"aa\": 3, \"ab\": 4, \"ba\": 5, "
                   "\"\uFFFD\": 6, \"##\uFFFD\": 7, \"##a\": 8}}}",
                   steps);
    put_text(path, text);
}

/* As many steps as there may be, and one more. */
static void test_most_steps(void **state) {
    (void)state;
    for (int count = 16; count <= 17; count++) {
        char steps[600] = "{\"type\": \"Sequence\", \"pretokenizers\": [";
        for (int k = 0; k < count; k++)
            strcat(steps, k == 0 ? "{\"type\": \"Digits\"}" : ", {\"type\": \"Digits\"}");
        strcat(steps, "]}");
        put_words("t.json", steps);
        ota_tokenizer *tokenizer = NULL;
        ota_error error = {.message = ""};
        const ota_status status = ota_tokenizer_open(&tokenizer, "t.json", &error);
        assert_int_equal(status, count == 16 ? OTA_OK : OTA_ELIMIT);
        if (status == OTA_OK) ota_tokenizer_free(tokenizer);
    }
}

static void test_cuts_of_every_behavior(void **state) {
    (void)state;
    static const char *const table[][2] = {{"Isolated", "b a a b"},
                                           {"Removed", "b b"},
                                           {"MergedWithPrevious", "ba a b"},
                                           {"MergedWithNext", "b a ab"},
                                           {"Contiguous", "b aa b"}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        char steps[160];
        (void)snprintf(steps, sizeof steps,
                       "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": "
                       "\"%s\"}",
                       table[k][0]);
        put_words("t.json", steps);
        open_and_expect("t.json", "baab", table[k][1]);
    }
    /* One & in a class is a character; two would intersect classes. */
    put_words("t.json", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[b&]\"}, \"behavior\": "
                        "\"Removed\"}");
    open_and_expect("t.json", "a&aba", "a a a");
}

/* A blank goes before every piece that has none, and the pattern cuts what comes of it: "a " is a pair to merge, but never
 * within one word. */
static void test_blanks_before_pieces(void **state) {
    (void)state;
    static const char model[] = "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, "
                                "\"\u0120\": 2, \"a\u0120\": 3, "
                                "\"\u0120a\": 4}, \"merges\": [\"a \u0120\", \"\u0120 a\"]}";
    static const struct {
        const char *steps, *text, *pieces;
    } table[] = {{"{\"type\": \"ByteLevel\"}", "a", "\u0120a"},
                 {"{\"type\": \"ByteLevel\"}", "a a", "\u0120a \u0120a"},
                 {"{\"type\": \"ByteLevel\"}", " a a", "\u0120a \u0120a"},
                 {"{\"type\": \"ByteLevel\", \"use_regex\": false}", " a a", "\u0120 a\u0120 a"},
                 {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
                  "{\"String\": "
                  "\"b\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\"}]}",
                  " a ba", "\u0120a \u0120 \u0120 b \u0120a"}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        char text[600];
        (void)snprintf(text, sizeof text, "{\"pre_tokenizer\": %s, %s}", table[k].steps, model);
        put_text("t.json", text);
        open_and_expect("t.json", table[k].text, table[k].pieces);
    }
}

/* As many U+FFFD as the Unicode standard advises: one for each largest start of a character. */
static void test_broken_bytes_of_wordpiece(void **state) {
    (void)state;
    put_words("t.json", "{\"type\": \"WhitespaceSplit\"}");
    open_and_expect("t.json",
                    "\xE4\xB8 \xE4\xB8\xFF \xED\xA0\x80 \xF0\x9F\x91"
                    "a",
                    "\uFFFD \uFFFD ##\uFFFD \uFFFD ##\uFFFD ##\uFFFD \uFFFD ##a");
}

/* Without a mark of what continues a word every piece begins one. */
static void test_words_without_a_prefix(void **state) {
    (void)state;
    put_text("t.json",
             "{\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"\", \"cleanup\": false}, "
             "\"model\": {\"type\": \"WordPiece\", \"continuing_subword_prefix\": \"\", "
             "\"vocab\": {\"[UNK]\": 0, \"a\": 1, \"b\": 2}}}");
    ota_tokenizer *tokenizer = open_path("t.json");
    static const int32_t ids[] = {1, 2, 1};
    expect_pieces(tokenizer, "aba", 0, "a b a");
    expect_text(tokenizer, ids, 3, 0, "aba", 3);
    ota_tokenizer_free(tokenizer);
}

/* A list of pieces lets words have 100 characters. */
static void test_longest_word(void **state) {
    (void)state;
    char word[102], list[220];
    memset(word, 'a', 101);
    word[101] = '\0';
    (void)snprintf(list, sizeof list, "[UNK]\n%.100s\n%s\n", word, word);
    put_text("vocab.txt", list);
    open_and_expect("vocab.txt", word, "[CLS] [UNK] [SEP]");
    word[100] = '\0';
    (void)snprintf(list, sizeof list, "[CLS] %s [SEP]", word);
    open_and_expect("vocab.txt", word, list);
}

/* Numbers that JSON has and no id may be, where they are no ids. */
static void test_numbers_of_json(void **state) {
    (void)state;
    static const char *const numbers[] = {"-0.5", "-0e1", "-1", "0.25", "1E3", "-0E-2"};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        char text[400];
        (void)snprintf(text, sizeof text, "{\"padding\": {\"x\": %s}, " BYTES ", " MODEL "}",
                       numbers[k]);
        put_text("t.json", text);
        open_and_expect("t.json", "ab", "ab");
    }
    put("t.json", "{\0}", 3);
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    assert_int_equal(ota_tokenizer_open(&tokenizer, "t.json", &error), OTA_EFORMAT);
    assert_null(tokenizer);
    assert_non_null(strstr(error.message, "at byte 1: "));
}

static void test_folders(void **state) {
    (void)state;
    put_text("vocab.txt", "[UNK]\na\r\n##b\n");
    open_and_expect(".", "AB ab", "[CLS] a ##b a ##b [SEP]");
    put_text("tokenizer_config.json", "{\"do_lower_case\": false}");
    open_and_expect(".", "AB ab", "[CLS] [UNK] a ##b [SEP]");
    open_and_expect("vocab.txt", "AB", "[CLS] a ##b [SEP]");
    put_text("tokenizer_config.json", "{\"do_lower_case\": true}");
    open_and_expect(".", "AB ab", "[CLS] a ##b a ##b [SEP]");
    put_text("tokenizer_config.json", " {} ");
    open_and_expect(".", "AB ab", "[CLS] a ##b a ##b [SEP]");
    put_text("encoder.json", VOCAB);
    static const char *const merges[] = {"#version: 0.2\na b\n", "a b", "\n\na b\n\n",
                                         "#version: 0.2\n\na b"};
    for (size_t k = 0; k < sizeof merges / sizeof *merges; k++) {
        put_text("vocab.bpe", merges[k]);
        open_and_expect(".", "ab", "ab");
    }
    put_text("tokenizer.json",
             "{" BYTES ", \"model\": {\"type\": \"BPE\", \"vocab\": " VOCAB ", \"merges\": []}}");
    open_and_expect(".", "ab", "a b");
}

/* An added token that stands alone: beside no letter, digit or underscore, whole or in pieces. */
static void test_tokens_that_stand_alone(void **state) {
    (void)state;
    static const char *const table[][2] = {{"word", "word"},
                                           {"word a", "word \u0120 a"},
                                           {"aword", "a"},
                                           {"worda", "a"},
                                           {"a_word", "a"},
                                           {"\xFFword\xFF", "word"},
                                           {"\xA9word", "word"},
                                           {"\u00E9word", ""},
                                           {"word\u00E9", ""},
                                           {"word\xE4\xB8", "word"},
                                           {"word,word", "word word"},
                                           {"wordword", ""},
                                           {"wordword word", "\u0120 word"}};
    put_text("t.json",
             "{" BYTES ", " MODEL ", \"added_tokens\": [{\"id\": 4, \"content\": \"word\", "
             "\"single_word\": true, \"normalized\": false}]}");
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        open_and_expect("t.json", table[k][0], table[k][1]);
}

/* Of added tokens that the normalizer makes one the first is found, and one that it makes nothing never is. */
static void test_tokens_that_become_the_same(void **state) {
    (void)state;
    put_text("t.json",
             "{" BYTES ", " MODEL ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
             "[{\"type\": \"Lowercase\"}, {\"type\": \"StripAccents\"}]}, \"added_tokens\": "
             "[{\"id\": 4, \"content\": \"XY\", \"normalized\": true}, {\"id\": 5, \"content\": "
             "\"xy\", \"normalized\": true}, {\"id\": 6, \"content\": \"xY\", \"normalized\": "
             "true}, {\"id\": 7, \"content\": \"\u0301\", \"normalized\": true}]}");
    open_and_expect("t.json", "xy XY xY", "XY \u0120 XY \u0120 XY");
    open_and_expect("t.json", "a\u0301b", "ab");
}

/* Frames of the older post-processors, and no more of them than there is room for. */
static void test_frames(void **state) {
    (void)state;
    static const char *const processors[] = {"BertProcessing", "RobertaProcessing"};
    for (int k = 0; k < 2; k++) {
        char text[600];
        (void)snprintf(text, sizeof text,
                       "{" BYTES ", " MODEL
                       ", \"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", "
                       "\"special\": true}, {\"id\": 5, \"content\": \"</s>\", \"special\": "
                       "true}], \"post_processor\": {\"type\": \"%s\", \"cls\": [\"<s>\", 4], "
                       "\"sep\": [\"</s>\", 5]}}",
                       processors[k]);
        put_text("t.json", text);
        open_and_expect("t.json", "ab", "<s> ab </s>");
        ota_tokenizer *tokenizer = open_path("t.json");
        for (int after = 0; after < 2; after++) {
            int32_t ids[2] = {-7, -7};
            assert_int_equal(ota_tokenizer_frame(tokenizer, after, NULL, 0), 1);
            assert_int_equal(ota_tokenizer_frame(tokenizer, after, ids, 0), 1);
            assert_int_equal(ids[0], -7);
            assert_int_equal(ota_tokenizer_frame(tokenizer, after, ids, 2), 1);
            assert_int_equal(ids[0], 4 + after);
            assert_int_equal(ids[1], -7);
        }
        ota_tokenizer_free(tokenizer);
    }
}

/* Merges follow from ranks; special pieces come first. */
static void test_tekken(void **state) {
    (void)state;
    static const char *const pieces[] = {"bc", "ab", "cd", "bd"};
    put_tekken("tekken.json", pieces, 4, "");
    open_and_expect(".", "abc bd<s>cdab", "<s> a bc \u0120 bd <s> cd ab");
    ota_tokenizer *tokenizer = open_path("tekken.json");
    static const int32_t ids[] = {1, 3 + 'x', 3 + 0xC3, 3 + 0xA9, 3 + 256, 2};
    expect_text(tokenizer, ids, 6, 0, "<s>x\u00E9bc<SPECIAL_2>", 19);
    expect_pieces(tokenizer, "<s>\u00E9", OTA_ENCODE_PLAIN, "<s> < s > \u00C3 \u00A9");
    ota_tokenizer_free(tokenizer);
}

/* ---- broken files ---- */

/* The byte that the sentence must name is the one behind the @ of the text, which the file lacks. */
typedef struct broken {
    const char *text;
    ota_status status;
    const char *rule;
} broken;

static void refuse_all(const char *path, const char *opened, const broken *rows, size_t count) {
    for (size_t k = 0; k < count; k++) {
        ota_tokenizer *tokenizer;
        ota_error error = {.message = ""};
        char wanted[600], text[600], place[32] = "";
        const size_t size = strlen(rows[k].text), before = strcspn(rows[k].text, "@");
        assert_true(size < sizeof text);
        memcpy(text, rows[k].text, before);
        if (before < size) {
            memcpy(text + before, rows[k].text + before + 1, size - before - 1);
            (void)snprintf(place, sizeof place, "at byte %zu: ", before);
        }
        put(path, text, before < size ? size - 1 : size);
        const ota_status status = ota_tokenizer_open(&tokenizer, opened, &error);
        (void)snprintf(wanted, sizeof wanted, "%s: %s%s", path, place, rows[k].rule);
        if (status != rows[k].status || strcmp(error.message, wanted) != 0)
            fail_msg("%s\n%d \"%s\", wanted %d \"%s\"", rows[k].text, (int)status, error.message,
                     (int)rows[k].status, wanted);
        assert_null(tokenizer);
    }
}

static void test_broken_json(void **state) {
    (void)state;
    static const broken table[] = {
        {"@", OTA_EFORMAT, "a JSON object must begin here"},
        {"@[]", OTA_EFORMAT, "a JSON object must begin here"},
        {"@{}", OTA_EFORMAT, "a tokenizer must have a model"},
        {"{\"model\": @{}}", OTA_EFORMAT, "a model must have a vocab"},
        {"{" MODEL "} @x", OTA_EFORMAT, "only blanks may follow the JSON value"},
        {"{\"a\" @1}", OTA_EFORMAT, "a colon must follow the key"},
        {"{\"a\": 1 \"b@\": 2}", OTA_EFORMAT,
         "not valid JSON: end of file expected near "
         "'\"b\"'"},
        {"{\"a\": 1, @\"a\": 2}", OTA_EFORMAT, "a key is there twice"},
        {"{\"a\": {\"b\": 1, \"b@\": 1}}", OTA_EFORMAT,
         "not valid JSON: duplicate object key near '\"b\"'"},
        {"{\"a\": \"x@", OTA_EFORMAT, "a string is not closed"},
        {"{\"\\@x\": 1}", OTA_EFORMAT, "JSON has no such escape"},
        {"{\"\\u@00", OTA_EFORMAT, "\\u needs four hexadecimal digits"},
        {"{\"@\\ud800\": 1}", OTA_EFORMAT, "a surrogate stands alone"},
        {"{\"@\\u0000\": 1}", OTA_EFORMAT, "a string must not hold U+0000"},
        {"{\"@\t\": 1}", OTA_EFORMAT, "a string holds a control character"},
        {"{\"@\xFF\": 1}", OTA_EFORMAT, "a tokenizer's file must be UTF-8"},
        {"{\"a\": @-0}", OTA_EFORMAT, "-0 is no exact integer"},
    };
    refuse_all("t.json", "t.json", table, sizeof table / sizeof *table);
}

#define TEKKEN(vocab)                                                                              \
    "{\"config\": {\"version\": \"v3\", \"pattern\": \"x\", \"default_vocab_size\": 276, "         \
    "\"default_num_special_tokens\": 20}, \"vocab\": " vocab "}"

static void test_broken_tekken(void **state) {
    (void)state;
    static const char keys[] = "a piece has rank, token_bytes and token_str, each once";
    static const broken table[] = {
        {"{\"config\": {}, @\"config\": {}}", OTA_EFORMAT, "a key is there twice"},
        {"{\"config\": @[], \"vocab\": []}", OTA_EFORMAT, "config must be an object"},
        {TEKKEN("@{}"), OTA_EFORMAT, "a JSON list must begin here"},
        {TEKKEN("@[]"), OTA_EFORMAT,
         "vocab must hold as many pieces as default_vocab_size has beyond the special ones"},
        {TEKKEN("[@1]"), OTA_EFORMAT, "a JSON object must begin here"},
        {TEKKEN("[{@\"x\": 1}]"), OTA_EFORMAT, keys},
        {TEKKEN("[{\"rank\": 0, @\"rank\": 0}]"), OTA_EFORMAT, keys},
        {TEKKEN("[{\"rank\": 0, \"token_bytes\": @1}]"), OTA_EFORMAT, "a string must stand here"},
        {TEKKEN("[@{\"rank\": 0, \"token_bytes\": \"AQ==\"}]"), OTA_EFORMAT,
         "the first 256 pieces must be the bytes"},
        {TEKKEN("[@{\"rank\": 0, \"token_bytes\": \"A===\"}]"), OTA_EFORMAT,
         "the first 256 pieces must be the bytes"},
        {TEKKEN("[@{\"token_bytes\": \"AA==\", \"rank\": 1}]"), OTA_EFORMAT,
         "ranks must be 0, 1, 2 ... in order"},
        {TEKKEN("[{\"token_str\": \"\\u0000\", \"rank\": 0, \"token_bytes\": \"AA==\"} @1]"),
         OTA_EFORMAT, "a comma or the closing bracket must stand here"},
    };
    refuse_all("tekken.json", "tekken.json", table, sizeof table / sizeof *table);
}

#define WITH_VOCAB(vocab) "{" BYTES ", \"model\": {\"merges\": [], \"vocab\": " vocab "}}"

static void test_broken_vocabulary(void **state) {
    (void)state;
    static const broken table[] = {
        {WITH_VOCAB("{\"a\": 0, @\"b\": 2}"), OTA_EFORMAT,
         "id 2 leaves a hole: 2 pieces have the ids 0 to 1"},
        {WITH_VOCAB("{\"a\": 0, @\"b\": 0}"), OTA_EFORMAT, "id 0 is given twice"},
        {WITH_VOCAB("{\"a\": 0, @\"\\u0061\": 1}"), OTA_EFORMAT, "piece \"a\" is there twice"},
        {WITH_VOCAB("{@\"\": 0}"), OTA_EFORMAT, "a piece must not be empty"},
        {WITH_VOCAB("{@\"a\": 1048576}"), OTA_ELIMIT, "a vocabulary has at most 1048576 pieces"},
        {WITH_VOCAB("{\"a\": @1.0}"), OTA_EFORMAT,
         "an integer from 0 to 2^53 must stand here, without sign, leading 0, point "
         "or "
         "exponent"},
        {WITH_VOCAB("{\"a\": @01}"), OTA_EFORMAT,
         "an integer from 0 to 2^53 must stand here, without sign, leading 0, point "
         "or "
         "exponent"},
        {WITH_VOCAB("{\"a\": @-1}"), OTA_EFORMAT,
         "an integer from 0 to 2^53 must stand here, without sign, leading 0, point "
         "or "
         "exponent"},
        {WITH_VOCAB("{\"a\": @99999999999999999999}"), OTA_EFORMAT,
         "an integer from 0 to 2^53 must stand here, without sign, leading 0, point "
         "or "
         "exponent"},
        {WITH_VOCAB("[@\"a\"]"), OTA_EFORMAT, "a JSON list must begin here"},
        {WITH_VOCAB("[@[\"a\"]]"), OTA_EFORMAT, "a piece must have a score"},
        {WITH_VOCAB("[@[\"a\", 1, 2]]"), OTA_EFORMAT, "a piece must have one score"},
        {WITH_VOCAB("[[\"a\", @true]]"), OTA_EFORMAT, "a finite number must stand here"},
        {WITH_VOCAB("[[\"a\", @1e999]]"), OTA_EFORMAT, "a finite number must stand here"},
        {WITH_VOCAB("[[\"a\", @-.5]]"), OTA_EFORMAT, "a finite number must stand here"},
        {WITH_VOCAB("[[\"a\", 0], @[\"a\", 1]]"), OTA_EFORMAT, "piece \"a\" is there twice"},
        {"{" BYTES ", " MODEL ", \"added_tokens\": [@{\"id\": 0, \"content\": \"z\"}]}",
         OTA_EFORMAT, "the added token's id 0 belongs to another piece"},
        {"{" BYTES ", " MODEL ", \"added_tokens\": [@{\"id\": 4, \"content\": \"\"}]}", OTA_EFORMAT,
         "an added token must have an integer id and a content that is not empty"},
        {"{" BYTES ", " MODEL ", \"added_tokens\": [@{\"id\": 5, \"content\": \"z\"}]}",
         OTA_EFORMAT, "id 5 leaves a hole: 5 pieces have the ids 0 to 4"},
    };
    refuse_all("t.json", "t.json", table, sizeof table / sizeof *table);
}

#define WITH_MERGES(merges) "{" BYTES ", \"model\": {\"vocab\": " VOCAB ", \"merges\": " merges "}}"
#define WITH(member) "{" BYTES ", " member ", " MODEL "}"
#define CUT_BY(member) "{\"pre_tokenizer\": " member ", " MODEL "}"

static void test_broken_members(void **state) {
    (void)state;
    static const broken table[] = {
        {WITH_MERGES("[@\"a\"]"), OTA_EFORMAT,
         "a merge must be two pieces with one blank between them"},
        {WITH_MERGES("[@\"a b b\"]"), OTA_EFORMAT,
         "a merge must be two pieces with one blank between them"},
        {WITH_MERGES("[[\"a\", \"b\", @\"b\"]]"), OTA_EFORMAT, "a merge must be two pieces"},
        {WITH_MERGES("[[\"a\"@]]"), OTA_EFORMAT, "a merge must be two pieces"},
        {WITH_MERGES("[@\"b a\"]"), OTA_EFORMAT,
         "a merge needs the piece \"ba\", which the vocabulary lacks"},
        {WITH_MERGES("[@\"a c\"]"), OTA_EFORMAT,
         "a merge needs the piece \"c\", which the vocabulary lacks"},
        {"{" BYTES ", \"model\": @{\"type\": \"BPE\", \"vocab\": {}}}", OTA_EFORMAT,
         "a BPE model must have merges"},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": @{}}}", OTA_EFORMAT,
         "a JSON list must begin here"},
        {"{\"model\": @{\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]], \"unk_id\": 1}}",
         OTA_EFORMAT, "unk_id must be the id of a piece of the model"},
        {"{\"model\": @{\"type\": \"Letters\", \"vocab\": {}}}", OTA_UNSUPPORTED,
         "the model \"Letters\" is not one of BPE, Unigram, WordPiece and WordLevel"},
        {"{\"model\": @{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}", OTA_EFORMAT,
         "the vocabulary lacks unk_token \"[UNK]\""},
        {WITH("\"normalizer\": @{\"type\": \"Precompiled\"}"), OTA_EFORMAT,
         "precompiled_charsmap must be bytes in base64"},
        {WITH("\"normalizer\": @{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAA\"}"),
         OTA_EFORMAT, "precompiled_charsmap must be bytes in base64"},
        {WITH("\"normalizer\": @{\"type\": \"Precompiled\", \"precompiled_charsmap\": "
              "\"CAAAAAAA\"}"),
         OTA_EFORMAT, "precompiled_charsmap must be the size of an array, the array, and texts"},
        {WITH("\"normalizer\": @{\"type\": \"Prepend\"}"), OTA_EFORMAT,
         "the normalizer \"Prepend\" needs a text \"prepend\""},
        {WITH("\"normalizer\": @{\"type\": \"Replace\", \"content\": \"\"}"), OTA_EFORMAT,
         "Replace needs a pattern, {\"Regex\": ...} or {\"String\": ...}"},
        {WITH("\"decoder\": @{\"type\": \"Strip\", \"content\": \"\"}"), OTA_EFORMAT,
         "the decoder Strip needs a content, and start and stop of 0 or more"},
        {WITH("\"decoder\": @{\"type\": \"CTC\"}"), OTA_UNSUPPORTED,
         "the decoder \"CTC\" is not known here"},
        {WITH("\"post_processor\": @{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": "
              "[\"b\", "
              "7]}"),
         OTA_EFORMAT,
         "the post_processor's ids must be in the vocabulary, at most 16 on each side"},
        {CUT_BY("@{\"type\": \"Letters\"}"), OTA_UNSUPPORTED,
         "the pre_tokenizer \"Letters\" is not known here"},
        {CUT_BY("@{\"type\": \"Split\"}"), OTA_EFORMAT,
         "Split needs a pattern, {\"Regex\": ...} or {\"String\": ...}"},
        {CUT_BY("@{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}}"), OTA_EFORMAT,
         "the pattern \"(\": missing closing parenthesis"},
        {CUT_BY("@{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a-z&&[^b]]\"}}"),
         OTA_UNSUPPORTED, "the pattern \"[a-z&&[^b]]\" intersects classes"},
        {CUT_BY("@{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[^\\\\S]\"}}"), OTA_UNSUPPORTED,
         "the pattern \"[^\\S]\" uses a class that has another meaning here"},
        {CUT_BY("@{\"type\": \"Split\", \"behavior\": \"Kept\", \"pattern\": {\"String\": \"a\"}}"),
         OTA_UNSUPPORTED, "the behavior \"Kept\" is not known here"},
    };
    refuse_all("t.json", "t.json", table, sizeof table / sizeof *table);
}

static void test_broken_lists(void **state) {
    (void)state;
    static const broken merges[] = {
        {"#version: 0.2\na b\n@a\tb\n", OTA_EFORMAT,
         "a merge must be two pieces with one blank between them"},
        {"a b\n@a  b\n", OTA_EFORMAT, "a merge must be two pieces with one blank between them"},
        {"a @\xC0", OTA_EFORMAT, "a tokenizer's file must be UTF-8"},
    };
    put_text("vocab.json", VOCAB);
    refuse_all("./merges.txt", ".", merges, sizeof merges / sizeof *merges);
    put_text("merges.txt", "a b");
    static const broken vocabularies[] = {
        {"{\"a\": 0,@}", OTA_EFORMAT, "a string must stand here"},
        {"{\"a\": 0}@{", OTA_EFORMAT, "only blanks may follow the JSON value"},
    };
    refuse_all("./vocab.json", ".", vocabularies, sizeof vocabularies / sizeof *vocabularies);
    /* Nothing to know is no error. */
    put_text("vocab.json", "{}");
    put_text("merges.txt", "");
    ota_tokenizer_free(open_path("."));
    static const broken lines[] = {
        {"[UNK]\n@\na\n", OTA_EFORMAT, "a piece must not be empty"},
        {"[UNK]\na\n@a\n", OTA_EFORMAT, "piece \"a\" is there twice"},
        {"a\n", OTA_EFORMAT, "WordPiece's pieces must hold [UNK]"},
    };
    refuse_all("pieces.txt", "pieces.txt", lines, sizeof lines / sizeof *lines);
}

static void test_broken_settings(void **state) {
    (void)state;
    static const broken table[] = {
        {"{\"do_lower_case\": false} @x", OTA_EFORMAT,
         "not valid JSON: end of file expected near 'x'"},
        {"{\"do_lower_case\" fals@e}", OTA_EFORMAT, "not valid JSON: ':' expected near 'false'"},
    };
    put_text("vocab.txt", "[UNK]\na\n");
    refuse_all("./tokenizer_config.json", ".", table, sizeof table / sizeof *table);
}

static void test_absent_and_special_files(void **state) {
    (void)state;
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    assert_int_equal(ota_tokenizer_open(&tokenizer, "no.json", &error), OTA_EIO);
    assert_string_equal(error.message, "no.json: cannot be opened: No such file or directory");
    assert_int_equal(ota_tokenizer_open(&tokenizer, ".", &error), OTA_EIO);
    assert_non_null(strstr(error.message, ".: holds no tokenizer"));
    assert_int_equal(mkfifo("pipe.json", 0600), 0);
    assert_int_equal(ota_tokenizer_open(&tokenizer, "pipe.json", &error), OTA_EFORMAT);
    assert_string_equal(error.message,
                        "pipe.json: is a pipe, device or socket, not a regular file");
    assert_int_equal(unlink("pipe.json"), 0);
    put_text("big.json", "{}");
    assert_int_equal(truncate("big.json", (64 << 20) + 1), 0);
    assert_int_equal(ota_tokenizer_open(&tokenizer, "big.json", &error), OTA_ELIMIT);
    assert_non_null(strstr(error.message, "above the limit of 67108864"));
    assert_int_equal(ota_tokenizer_open(&tokenizer, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_tokenizer_open(NULL, "a", NULL), OTA_EINVAL);
}

/* ---- large and hostile ---- */

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void repeat(FILE *file, const char *text, int count) {
    for (int k = 0; k < count; k++) assert_true(fputs(text, file) >= 0);
}

/* Sanitizers take their share. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 20 };
#else
enum { SLOWER = 1 };
#endif

static void refuse_large(const char *before, const char *repeated, int count, const char *part) {
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    FILE *file = fopen("large.json", "wb");
    assert_non_null(file);
    repeat(file, before, 1);
    repeat(file, repeated, count);
    assert_int_equal(fclose(file), 0);
    const double begun = seconds();
    assert_true(ota_tokenizer_open(&tokenizer, "large.json", &error) < 0);
    assert_true(seconds() - begun < 1.0 * (double)SLOWER);
    if (strstr(error.message, part) == NULL) fail_msg("%s", error.message);
}

static void test_hostile_files_are_answered_at_once(void **state) {
    (void)state;
    refuse_large("{\"x\": ", "[", 64, "at byte 69: the JSON is nested more than 64 deep");
    refuse_large("{\"x\": ", "[", 63, "not valid JSON");
    refuse_large("{\"x\": ", "[", 16 << 20, "nested more than 64 deep");
    refuse_large("{\"x\": [", "[],", 4 << 20, "hold more than 1048576 bytes");
    refuse_large("{\"x\": \"", "abcdefgh", 2 << 20, "a string is not closed");
    refuse_large("", " ", 16 << 20, "a JSON object must begin here");
    refuse_large("{", "\"a\": 1, ", 2 << 20, "a key is there twice");
    refuse_large("{\"model\": {\"vocab\": {}, \"merges\": [", "\"a b\", ", 2 << 20,
                 "a comma or the closing bracket must stand here");
    refuse_large("{\"added_tokens\": [", "{\"id\":0},", 2 << 20, "a comma or the");
}

TEST_FILE(test_tokenizer_files) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_tokenizer_json),
        IN_FOLDER(test_tekken),
        IN_FOLDER(test_broken_tekken),
        IN_FOLDER(test_most_steps),
        IN_FOLDER(test_cuts_of_every_behavior),
        IN_FOLDER(test_blanks_before_pieces),
        IN_FOLDER(test_broken_bytes_of_wordpiece),
        IN_FOLDER(test_words_without_a_prefix),
        IN_FOLDER(test_longest_word),
        IN_FOLDER(test_numbers_of_json),
        IN_FOLDER(test_folders),
        IN_FOLDER(test_tokens_that_stand_alone),
        IN_FOLDER(test_tokens_that_become_the_same),
        IN_FOLDER(test_frames),
        IN_FOLDER(test_broken_settings),
        IN_FOLDER(test_broken_json),
        IN_FOLDER(test_broken_vocabulary),
        IN_FOLDER(test_broken_members),
        IN_FOLDER(test_broken_lists),
        IN_FOLDER(test_absent_and_special_files),
        IN_FOLDER(test_hostile_files_are_answered_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
