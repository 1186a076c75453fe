/* Group G on a model: text to tokens and tokens to windows [TOT-65, 66].
 *
 *     tokenizer   bytes -> 256 symbols -> merges, best first                 ids [count]
 *     windows     w of `tokens` = frame + content:  before | ids[w content ...] | after */
#include <jansson.h>

#include "models.h"
#include "src/base/integers.h"

/* ---- byte-level BPE ---- */

enum { MERGES = 512, PIECES = 256 + MERGES + 1, SPELLED = 64 };

/* The demo model's vocabulary: 256 bytes, 512 merges learned from Wikipedia, <|endoftext|>. A text belongs to a file in
 * the program or to `json`. */
typedef struct vocabulary {
    json_t *json;       /* piece -> id */
    int32_t bytes[256]; /* ids of single bytes */
    int32_t left[MERGES], right[MERGES], joined[MERGES];
    ota_text pieces[PIECES], merges[MERGES];
} vocabulary;

/* Printable bytes stand for themselves, the n-th of the others for U+0100 + n, in UTF-8. */
static int spelled(int byte, char *to) {
    int point = byte, others = 0;
    for (int b = 0; b <= byte; b++) {
        const bool printable =
            (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
        if (b == byte && !printable) point = 256 + others;
        others += !printable;
    }
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    to[0] = (char)(0xc0 | (point >> 6));
    to[1] = (char)(0x80 | (point & 63));
    return 2;
}

/* -1: no such piece. */
static int32_t id_of(const json_t *json, const char *piece, size_t size) {
    char name[SPELLED] = {0};
    if (size >= sizeof name) return -1;
    memcpy(name, piece, size);
    const json_t *id = json_object_get(json, name);
    return id == NULL ? -1 : (int32_t)json_integer_value(id);
}

/* A line "left right" of the list of merges. */
static bool read_merge(vocabulary *v, int k, const char *line, size_t size) {
    char joined[SPELLED];
    const char *blank = memchr(line, ' ', size);
    if (blank == NULL || size > sizeof joined) return false;
    const size_t left = (size_t)(blank - line), right = size - left - 1;
    memcpy(joined, line, left);
    memcpy(joined + left, blank + 1, right);
    v->merges[k] = (ota_text){line, size};
    v->left[k] = id_of(v->json, line, left);
    v->right[k] = id_of(v->json, blank + 1, right);
    v->joined[k] = id_of(v->json, joined, left + right);
    return v->left[k] >= 0 && v->right[k] >= 0 && v->joined[k] >= 0;
}

/* From the program's own files; false where one is not what it should be. */
static bool read_vocabulary(trial *t, vocabulary *v) {
    size_t size = 0;
    const char *text = t->host->file_of("demo/vocab.json", &size), *piece;
    json_t *id;
    v->json = json_loadb(text, size, 0, NULL);
    bool read = json_object_size(v->json) == PIECES;
    json_object_foreach(v->json, piece, id) {
        const json_int_t k = json_integer_value(id);
        read = read && k >= 0 && k < PIECES;
        if (read) v->pieces[k] = (ota_text){piece, strlen(piece)};
    }
    for (int byte = 0; byte < 256; byte++) {
        char point[2];
        const int bytes = spelled(byte, point);
        v->bytes[byte] = id_of(v->json, point, (size_t)bytes);
        read = read && v->bytes[byte] >= 0;
    }
    const char *line = t->host->file_of("demo/merges.txt", &size), *end = line + size;
    /* The first line names the version. */
    for (int k = -1; read && k < MERGES; k++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL) return false;
        read = k < 0 || read_merge(v, k, line, (size_t)(stop - line));
        line = stop + 1;
    }
    return read;
}

static ota_tokenizer *tokenizer_of(const vocabulary *v) {
    ota_tokenizer *tokenizer = NULL;
    const ota_tokenizer_parts parts = {.size = sizeof parts,
                                       .source = "verify",
                                       .model = "bpe",
                                       .cut = "gpt-2",
                                       .pieces = v->pieces,
                                       .piece_count = PIECES,
                                       .merges = v->merges,
                                       .merge_count = MERGES};
    (void)ota_tokenizer_create(&tokenizer, &parts, NULL);
    return tokenizer;
}

/* Ids of one word: every merge in turn joins all its pairs, left to right. Its parts are older than itself, so no merge
 * makes pairs for one before it. */
static int64_t merge_word(const vocabulary *v, const char *word, int64_t size, int32_t *ids) {
    int64_t count = size;
    for (int64_t k = 0; k < size; k++) ids[k] = v->bytes[(unsigned char)word[k]];
    for (int m = 0; m < MERGES; m++) {
        int64_t kept = 0;
        for (int64_t k = 0; k < count; k++) {
            const bool joins = k + 1 < count && ids[k] == v->left[m] && ids[k + 1] == v->right[m];
            ids[kept++] = joins ? v->joined[m] : ids[k];
            k += joins;
        }
        count = kept;
    }
    return count;
}

/* Letters of the demo's text from anywhere in a word of it, or random ones. */
static int64_t draw_word(trial *t, const char *text, size_t size, char *word) {
    const int64_t most = 1 + below(t, 12);
    int64_t letters = 0;
    const char *from = text + below(t, (int64_t)size - 16);
    const bool random = uniform(t) < 0.3;
    while (letters < most && (random || (from[letters] >= 'a' && from[letters] <= 'z'))) {
        word[letters] = random ? (char)('a' + below(t, 26)) : from[letters];
        letters++;
    }
    if (letters == 0) word[letters++] = 'a';
    return letters;
}

/* Words of a few letters, a blank between two: ids that differ from those of the loop. */
static double reference_ids(trial *t) {
    enum { WORDS = 300, MOST = 16 * WORDS };
    vocabulary *v = take(t, sizeof *v);
    char *text = take(t, MOST);
    int32_t *wanted = take(t, MOST * sizeof *wanted), *ids = take(t, MOST * sizeof *ids);
    int64_t size = 0, expected = 0, count = 0;
    size_t bytes = 0;
    const char *demo = t->host->file_of("demo/paragraph.txt", &bytes);
    double different = NAN;
    ota_tokenizer *tokenizer = read_vocabulary(t, v) ? tokenizer_of(v) : NULL;
    for (int w = 0; tokenizer != NULL && w < WORDS; w++) {
        const int64_t first = size;
        if (w > 0) text[size++] = ' ';
        size += draw_word(t, demo, bytes, text + size);
        expected += merge_word(v, text + first, size - first, wanted + expected);
    }
    if (tokenizer != NULL &&
        ota_tokenizer_encode(tokenizer, text, size, 0, ids, MOST, &count, NULL) == OTA_OK) {
        different = fabs((double)(count - expected));
        for (int64_t k = 0; k < count && k < expected; k++)
            different += seen_number(t, (double)ids[k]) != (double)wanted[k];
    }
    ota_tokenizer_free(tokenizer);
    json_decref(v->json);
    return different;
}

/* The demo's text with its vocabulary by the package tokenizers 0.23.3: how many ids, the first ones, and
 * sum_k (k + 1) id_k; what differs. And its bytes, to ids and back. */
static double demo_text(trial *t) {
    enum { COUNT = 427, FIRST = 40, BYTES = 2048 };
    static const int32_t first[FIRST] = {51,  257, 294, 281, 65,  461, 309, 436, 366, 260,
                                         291, 701, 279, 260, 397, 333, 261, 264, 542, 263,
                                         260, 266, 284, 83,  603, 304, 405, 260, 317, 596,
                                         757, 260, 419, 64,  270, 300, 291, 261, 373, 432};
    static const int64_t weighted = 29707548;
    vocabulary *v = take(t, sizeof *v);
    int32_t ids[BYTES];
    char back[BYTES];
    size_t bytes = 0;
    int64_t count = 0, size = 0, sum = 0;
    const char *text = t->host->file_of("demo/paragraph.txt", &bytes);
    double different = NAN;
    ota_tokenizer *tokenizer = read_vocabulary(t, v) ? tokenizer_of(v) : NULL;
    if (tokenizer != NULL && bytes <= BYTES &&
        ota_tokenizer_encode(tokenizer, text, (int64_t)bytes, 0, ids, BYTES, &count, NULL) ==
            OTA_OK &&
        ota_tokenizer_decode(tokenizer, ids, count, 0, back, BYTES, &size, NULL) == OTA_OK) {
        different = fabs((double)(count - COUNT)) + fabs((double)size - (double)bytes);
        for (int64_t k = 0; k < count; k++) {
            sum += (k + 1) * ids[k];
            if (k < FIRST) different += seen_number(t, (double)ids[k]) != (double)first[k];
        }
        different += sum != weighted;
        for (int64_t k = 0; k < size && k < (int64_t)bytes; k++) different += back[k] != text[k];
    }
    ota_tokenizer_free(tokenizer);
    json_decref(v->json);
    return different;
}

enum { NO_FRAME = OTA_ENCODE_NO_SPECIAL | OTA_ENCODE_PLAIN };

/* The tokenizer of the model that --model names where it keeps bytes, else the demo's. */
static ota_tokenizer *open_tokenizer(trial *t) {
    ota_tokenizer *tokenizer = NULL;
    ota_model *model = NULL;
    if (t->model != NULL && ota_model_open(&model, t->model, NULL, NULL) == OTA_OK)
        (void)ota_model_tokenizer(model, &tokenizer, NULL);
    ota_model_free(model);
    if (tokenizer != NULL && strcmp(ota_tokenizer_model(tokenizer), "bpe") == 0) return tokenizer;
    ota_tokenizer_free(tokenizer);
    vocabulary *v = take(t, sizeof *v);
    tokenizer = read_vocabulary(t, v) ? tokenizer_of(v) : NULL;
    json_decref(v->json);
    return tokenizer;
}

/* The bytes that a vocabulary has: some of trained models lack those that no UTF-8 holds, and a few more. */
static int64_t known_bytes(trial *t, const ota_tokenizer *tokenizer, char known[256]) {
    int64_t bytes = 0, count = 0;
    int32_t id;
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        const bool has =
            ota_tokenizer_encode(tokenizer, &byte, 1, NO_FRAME, &id, 1, &count, NULL) == OTA_OK &&
            count == 1;
        if (has || t->model == NULL) known[bytes++] = byte;
    }
    return bytes;
}

/* Random bytes, then letters, to ids and back: bytes that change. */
static double bytes_come_back(trial *t) {
    enum { BYTES = 4096, MOST = 2 * BYTES };
    ota_tokenizer *tokenizer = open_tokenizer(t);
    if (tokenizer == NULL) return NAN;
    char *text = take(t, BYTES), *back = take(t, MOST), known[256];
    int32_t *ids = take(t, MOST * sizeof *ids);
    const int64_t bytes = known_bytes(t, tokenizer, known);
    for (int k = 0; k < BYTES; k++)
        text[k] = (char)(k < BYTES / 2 ? known[below(t, bytes)] : 'a' + below(t, 26));
    int64_t count = 0, size = 0;
    double changed = NAN;
    if (ota_tokenizer_encode(tokenizer, text, BYTES, NO_FRAME, ids, MOST, &count, NULL) == OTA_OK &&
        count <= MOST &&
        ota_tokenizer_decode(tokenizer, ids, count, 0, back, MOST, &size, NULL) == OTA_OK) {
        changed = fabs((double)(size - BYTES));
        for (int k = 0; k < BYTES; k++) changed += back[k] != text[k];
    }
    ota_tokenizer_free(tokenizer);
    return bytes < 128 ? NAN : seen_number(t, changed);
}

/* ---- windows ---- */

/* Windows of `tokens`, at most `wanted` of them, of a text of `count` ids with a frame of `before` and `after`:
 * how many there are, how long they are, and what stands in them, against the protocol. */
static double windows_wrong(trial *t, int64_t wanted, int64_t tokens, int64_t count, int before,
                            int after) {
    int32_t before_ids[2], after_ids[2];
    statement_text text = {.count = count,
                           .before = before_ids,
                           .after = after_ids,
                           .before_count = before,
                           .after_count = after};
    text.ids = take(t, (size_t)count * sizeof *text.ids);
    int64_t *ids = take(t, (size_t)(wanted * tokens) * sizeof *ids);
    int64_t *lengths = take(t, (size_t)wanted * sizeof *lengths);
    for (int64_t k = 0; k < count; k++) text.ids[k] = k;
    for (int k = 0; k < before; k++) before_ids[k] = -1 - k;
    for (int k = 0; k < after; k++) after_ids[k] = -100 - k;
    const int64_t room = tokens - before - after, content = ota_int_min(count, room);
    const int64_t places = count / content, windows = ota_int_min(wanted, places);
    const int64_t found = t->host->windows_of(&text, wanted, tokens, ids, lengths);
    if (found < 0) return NAN;
    double wrong = fabs(seen_number(t, (double)found) - (double)windows);
    for (int64_t w = 0; w < windows && w < found; w++) {
        const int64_t length = lengths[w];
        wrong += fabs((double)(length - content - before - after));
        for (int64_t k = 0; k < length; k++) {
            const int64_t inside = k - before;
            const int64_t id = inside < 0         ? -1 - k
                               : inside < content ? w * content + inside
                                                  : -100 - (inside - content);
            wrong += ids[w * tokens + k] != id;
        }
    }
    return wrong;
}

/* 500 sequences of 512, and texts too short for them, with and without a frame. */
static double windows_counted(trial *t) {
    double wrong = windows_wrong(t, 500, 512, 500 * 512 + below(t, 400), 0, 0);
    wrong += windows_wrong(t, 500, 512, 286221, 1, 1);
    wrong += windows_wrong(t, 500, 512, 100 + below(t, 400), 1, 0);
    return wrong + windows_wrong(t, 7, 512, 3000 + below(t, 500), 0, 2);
}

/* A batch of a whole sequence and one cut to `kept` tokens, whatever stands in the padding, against the sequences
 * alone: states of real positions that have other bits. */
static double padding_unseen(trial *t) {
    checkpoint *c = statement_checkpoint(t);
    if (c == NULL) return NAN;
    const int64_t n = c->count, d = c->facts.width, kept = 3 + below(t, n - 4);
    int64_t *ids = take(t, (size_t)(2 * n) * sizeof *ids);
    const int64_t lengths[2] = {n, kept};
    float *states[2];
    double different = 0.0;
    for (int fill = 0; fill < 2; fill++) {
        for (int64_t k = 0; k < 2 * n; k++) ids[k] = c->ids[k % n];
        for (int64_t k = n + kept; k < 2 * n; k++) ids[k] = below(t, c->facts.vocabulary);
        states[fill] = take(t, (size_t)(2 * n * d) * sizeof(float));
        const ota_model_run run = {.size = sizeof run,
                                   .ids = ids,
                                   .batch = 2,
                                   .count = n,
                                   .lengths = lengths,
                                   .states = states[fill]};
        if (ota_session_run(c->session, &run, NULL) != OTA_OK) different = NAN;
    }
    const int64_t real = (n + kept) * d;
    different += different_bits(seen(t, statement_widened(t, states[0], real), real),
                                statement_widened(t, states[1], real), real);
    return different;
}

static const statement_check table[] = {
    AT_MOST("TOT-65", "windows of 512 from texts, their number, length and ids: off by",
            windows_counted, 0.0),
    AT_MOST("TOT-65", "a padded batch: states of real positions that padding changes",
            padding_unseen, 0.0),
    AT_MOST("TOT-66",
            "ids of 300 words by a trained vocabulary that differ from a loop over merges",
            reference_ids, 0.0),
    AT_MOST("TOT-66", "... of a text that differ from those of the package tokenizers; and back",
            demo_text, 0.0),
    AT_MOST("TOT-66", "random bytes to ids and back: bytes that change", bytes_come_back, 0.0),
};
MODEL_CHECK_GROUP(statement_checks_model_text, table, ANY_MODEL);
