/* test_opening_limits.c: opening of large tokenizers and tables of contents looks at the clock and at the caller's flag at least
 * each tenth of a second of work, and ends with nothing made.
 *
 * The clock counts computation of the one thread that there is (work_clock.h); the longest stretch between two looks is what is
 * held, so that no place of a call is left out. */
#define _GNU_SOURCE
#include "tokenizer_support.h"

#include "base/integers.h"
#include "groups.h"
#include "otattn_model.h"
#include "work_clock.h"

enum { ALLOWED = 100000000 };

/* How many times as large as in CI; 8 reaches the limits of files and lists. */
static int64_t times(void) {
    const char *word = getenv("OTATTN_TEST_TIMES");
    return word != NULL ? atoll(word) : 1;
}

/* ---- files ---- */

typedef struct text {
    char *bytes;
    size_t used, room;
} text;

static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text *t, const char *format, ...) {
    if (t->room - t->used < 256) {
        t->room = t->room < 4096 ? 4096 : 2 * t->room;
        t->bytes = realloc(t->bytes, t->room);
        assert_non_null(t->bytes);
    }
    va_list arguments;
    va_start(arguments, format);
    t->used += (size_t)vsnprintf(t->bytes + t->used, t->room - t->used, format, arguments);
    va_end(arguments);
}

static void write_text(text *t, const char *path) {
    put(path, t->bytes, t->used);
    free(t->bytes);
    *t = (text){0};
}

/* The k-th word of letters: all of one letter, then all of two and so on, so that every word is another with one letter more. */
static const char *word_of(int64_t k, char word[16]) {
    char *at = word + 15;
    *at = '\0';
    for (k++; k > 0; k = (k - 1) / 26) *--at = (char)('a' + (k - 1) % 26);
    return at;
}

static void put_vocabulary(text *t, int64_t count) {
    char word[16];
    add(t, "{");
    for (int64_t k = 0; k < count; k++)
        add(t, "%s\"%s\": %lld", k > 0 ? ", " : "", word_of(k, word), (long long)k);
    add(t, "}");
}

static void put_bpe(int64_t count) {
    text t = {0};
    char word[16];
    add(&t, "{\"model\": {\"type\": \"BPE\", \"vocab\": ");
    put_vocabulary(&t, count);
    add(&t, ", \"merges\": [");
    for (int64_t k = 26; k < count; k++) {
        const char *piece = word_of(k, word);
        const int size = (int)strlen(piece);
        for (int at = 1; at < size; at++)
            add(&t, "%s\"%.*s %s\"", k > 26 || at > 1 ? ", " : "", at, piece, piece + at);
    }
    add(&t, "]}, \"normalizer\": {\"type\": \"NFKC\"}, \"added_tokens\": [");
    for (int64_t k = 0; k < count / 4; k++)
        add(&t,
            "%s{\"id\": %lld, \"content\": \"<%s\\u00e9>\", \"normalized\": %s, \"special\": "
            "false}",
            k > 0 ? ", " : "", (long long)(count + k), word_of(k, word),
            k % 2 == 0 ? "true" : "false");
    add(&t, "]}");
    write_text(&t, "t.json");
}

static void put_unigram(int64_t count) {
    text t = {0};
    char word[16];
    add(&t, "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [");
    for (int64_t k = 0; k < count; k++)
        add(&t, "%s[\"%s\", -%lld.5]", k > 0 ? ", " : "", word_of(k * 7919 % (1 << 20), word),
            (long long)k);
    add(&t, "]}}");
    write_text(&t, "u.json");
}

/* Mistral's, each piece of which is two others in several ways. */
static void put_ranks(int64_t count) {
    text t = {0};
    char word[16], spelled[24];
    add(&t,
        "{\"config\": {\"pattern\": \"[a-z]+\", \"version\": \"v3\", \"default_vocab_size\": "
        "%lld, \"default_num_special_tokens\": %lld}, \"vocab\": [",
        (long long)(count + count / 4), (long long)(count / 4));
    for (int64_t k = 0; k < count; k++) {
        const char byte = (char)(unsigned char)k;
        /* Words of one letter are bytes already. */
        const char *piece = k < 256 ? &byte : word_of(k - 256 + 26, word);
        add(&t, "%s{\"rank\": %lld, \"token_bytes\": \"%s\"}", k > 0 ? ", " : "", (long long)k,
            base64(piece, k < 256 ? 1 : strlen(piece), spelled));
    }
    add(&t, "]}");
    write_text(&t, "tekken.json");
}

static void put_lines(int64_t count) {
    text t = {0};
    char word[16];
    add(&t, "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n");
    for (int64_t k = 0; k < count; k++) add(&t, "%s\n", word_of(k, word));
    write_text(&t, "vocab.txt");
}

/* Tokens that lie beside a vocabulary. */
static void put_settings(int64_t count) {
    text t = {0};
    char word[16];
    add(&t, "{");
    for (int64_t k = 0; k < count; k++)
        add(&t, "%s\"<%s>\": %lld", k > 0 ? ", " : "", word_of(k, word), (long long)(31 + k));
    add(&t, "}");
    write_text(&t, "added_tokens.json");
    put_lines(26);
}

/* A file of one text. */
static void put_string(int64_t count) {
    text t = {0};
    add(&t, "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"a\", \"vocab\": {\"a\": 0}, "
            "\"x\": \"");
    for (int64_t k = 0; k < count; k++)
        add(&t, "%s", "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9");
    add(&t, "\"}}");
    write_text(&t, "s.json");
}

static void put_tensors(int64_t count) {
    text t = {0};
    char word[16];
    add(&t, "{");
    for (int64_t k = 0; k < count; k++)
        add(&t, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
            k > 0 ? "," : "", word_of(k * 7919 % (1 << 20), word));
    add(&t, "}");
    while (t.used % 8 != 0) add(&t, " ");
    char size[8];
    for (int k = 0; k < 8; k++) size[k] = (char)((uint64_t)t.used >> (8 * k));
    t.bytes = realloc(t.bytes, t.used + 8);
    assert_non_null(t.bytes);
    memmove(t.bytes + 8, t.bytes, t.used);
    memcpy(t.bytes, size, 8);
    t.used += 8;
    write_text(&t, "model.safetensors");
    static const char config[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, "
                                 "\"n_embd\": 8, \"vocab_size\": 8,"
                                 " \"n_positions\": 8, \"layer_norm_epsilon\": 1e-5}";
    put("config.json", config, sizeof config - 1);
}

/* ---- calls ---- */

static ota_status open_path(const char *path, const ota_token_options *options, ota_error *error) {
    ota_tokenizer *tokenizer;
    const ota_status status = ota_tokenizer_open_with(&tokenizer, path, options, error);
    assert_true((tokenizer != NULL) == (status == OTA_OK));
    ota_tokenizer_free(tokenizer);
    return status;
}

static ota_status open_bpe(const ota_token_options *options, ota_error *error) {
    return open_path("t.json", options, error);
}

static ota_status open_unigram(const ota_token_options *options, ota_error *error) {
    return open_path("u.json", options, error);
}

static ota_status open_ranks(const ota_token_options *options, ota_error *error) {
    return open_path("tekken.json", options, error);
}

static ota_status open_lines(const ota_token_options *options, ota_error *error) {
    return open_path("vocab.txt", options, error);
}

static ota_status open_folder(const ota_token_options *options, ota_error *error) {
    return open_path(".", options, error);
}

static ota_status open_string(const ota_token_options *options, ota_error *error) {
    return open_path("s.json", options, error);
}

static int64_t piece_count;
static ota_text *pieces;
static float *scores;

/* Pieces of SentencePiece, most of which are two others; in no order of their scores. */
static ota_status create_pieces(const ota_token_options *options, ota_error *error) {
    ota_tokenizer *tokenizer;
    int32_t *kinds = calloc((size_t)piece_count, sizeof *kinds);
    assert_non_null(kinds);
    for (int64_t k = 0; k < piece_count; k++) kinds[k] = OTA_PIECE_NORMAL;
    const ota_tokenizer_parts parts = {.size = sizeof parts,
                                       .model = "sentencepiece",
                                       .pieces = pieces,
                                       .piece_count = piece_count,
                                       .kinds = kinds,
                                       .scores = scores,
                                       .unknown = pieces[0]};
    const ota_status status = ota_tokenizer_create_with(&tokenizer, &parts, options, error);
    assert_true((tokenizer != NULL) == (status == OTA_OK));
    ota_tokenizer_free(tokenizer);
    free(kinds);
    return status;
}

static void put_pieces(int64_t count) {
    char word[16];
    piece_count = count;
    pieces = calloc((size_t)count, sizeof *pieces);
    scores = calloc((size_t)count, sizeof *scores);
    assert_true(pieces != NULL && scores != NULL);
    for (int64_t k = 0; k < count; k++) {
        char *piece = strdup(word_of(k, word));
        pieces[k] = (ota_text){piece, strlen(piece)};
        scores[k] = (float)-(k * 7919 % (1 << 20));
    }
}

static ota_status open_model(const ota_token_options *options, ota_error *error) {
    const ota_model_options own = {
        .size = sizeof own,
        .tensors = {.cancel = options->cancel, .deadline_ns = options->deadline_ns}};
    ota_model *model;
    const ota_status status = ota_model_open(&model, ".", &own, error);
    assert_true((model != NULL) == (status == OTA_OK));
    ota_model_free(model);
    return status;
}

/* ---- the law ---- */

typedef ota_status call(const ota_token_options *options, ota_error *error);

/* The longest stretch without a look is below a tenth of a second, and not most of the call, which small sizes show, too; half-way a deadline ends the call, and a flag does. */
static void expect_looks(const char *what, call *opens, ota_status wanted) {
    int down = 0, up = 1;
    ota_error error = {.message = ""};
    ota_token_options options = {.size = sizeof options, .cancel = &down, .deadline_ns = INT64_MAX};
    work_longest_begin();
    const int64_t begin = __wrap_ota_now_ns();
    const ota_status status = opens(&options, &error);
    const int64_t took = __wrap_ota_now_ns() - begin, longest = work_longest;
    print_message("%s: %.0f ms, at most %.1f ms without a look\n", what, (double)took / 1e6,
                  (double)longest / 1e6);
    if (status != wanted) fail_msg("%s: status %d: %s", what, (int)status, error.message);
    if (longest > work_allowed(ALLOWED) || longest > took / 2)
        fail_msg("%s: %.1f ms without a look", what, (double)longest / 1e6);
    /* Beside other work a call may have taken twice what the next one takes. */
    ota_status ended = OTA_OK;
    for (int k = 1; k <= 5 && ended != OTA_TIMEOUT; k += 2) {
        options.deadline_ns = __wrap_ota_now_ns() + (took >> k);
        ended = opens(&options, &error);
    }
    assert_int_equal(ended, OTA_TIMEOUT);
    assert_non_null(strstr(error.message, "the deadline passed"));
    options.deadline_ns = 0;
    options.cancel = &up;
    assert_int_equal(opens(&options, &error), OTA_CANCELLED);
    assert_non_null(strstr(error.message, "cancelled"));
}

static void tokenizers(void **unused) {
    (void)unused;
    put_bpe(ota_int_min(100000 * times(), 600000));
    expect_looks("BPE with added tokens", open_bpe, OTA_OK);
    put_unigram(100000 * times());
    expect_looks("Unigram", open_unigram, OTA_OK);
    put_ranks(ota_int_min(100000 * times(), 300000));
    expect_looks("tekken.json", open_ranks, OTA_OK);
    put_lines(100000 * times());
    expect_looks("vocab.txt", open_lines, OTA_OK);
    put_settings(ota_int_min(50000 * times(), 200000));
    expect_looks("added_tokens.json", open_folder, OTA_OK);
    put_string(ota_int_min(1000000 * times(), 5000000));
    expect_looks("a long text", open_string, OTA_ELIMIT);
    put_pieces(ota_int_min(100000 * times(), 400000));
    expect_looks("pieces of SentencePiece", create_pieces, OTA_OK);
    for (int64_t k = 0; k < piece_count; k++) free((char *)(uintptr_t)pieces[k].data);
    free(pieces);
    free(scores);
}

static void models(void **unused) {
    (void)unused;
    put_tensors(100000 * times());
    expect_looks("a safetensors header", open_model, OTA_EMISMATCH);
}

TEST_FILE(test_opening_limits) {
    const struct CMUnitTest tests[] = {IN_FOLDER(tokenizers), IN_FOLDER(models)};
    return cmocka_run_group_tests_name("opening", tests, NULL, NULL);
}
