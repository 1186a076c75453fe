/* Group G on a model: text to tokens and tokens to windows [TOT-65, 66].
 *
 *     tokenizer   bytes -> 256 symbols -> merges, best first                 ids [count]
 *     windows     w of `tokens` = frame + content:  before | ids[w content ...] | after */
#include "models.h"
#include "src/base/integers.h"

/* ---- byte-level BPE ---- */

enum { MERGES = 60, PIECES = 256 + MERGES, LETTERS = 5, PIECE_BYTES = 32 };

/* A vocabulary of all bytes and of merges drawn among pieces, bytes in the alphabet that GPT-2's files use. */
typedef struct vocabulary {
    char bytes[PIECES][PIECE_BYTES]; /* of a piece, as they stand in text */
    char pieces[PIECES][2 * PIECE_BYTES], merges[MERGES][4 * PIECE_BYTES + 2];
    int left[MERGES], right[MERGES];
    ota_text piece_texts[PIECES], merge_texts[MERGES];
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

static bool is_new(const vocabulary *v, int count, const char *bytes) {
    for (int k = 0; k < count; k++)
        if (strcmp(v->bytes[k], bytes) == 0) return false;
    return true;
}

static void join(char *to, const char *left, const char *between, const char *right) {
    const char *const parts[] = {left, between, right};
    for (int k = 0; k < 3; k++)
        for (const char *from = parts[k]; *from != '\0'; from++) *to++ = *from;
    *to = '\0';
}

/* Only a piece's first byte may be a blank: the cut puts one before a word. */
static vocabulary *draw_vocabulary(trial *t) {
    vocabulary *v = take(t, sizeof *v);
    for (int k = 0; k < 256; k++) {
        v->bytes[k][0] = (char)k;
        (void)spelled(k, v->pieces[k]);
    }
    for (int k = 0; k < MERGES;) {
        const int known = LETTERS + 1 + k;
        int parts[2];
        for (int side = 0; side < 2; side++) {
            const int one = (int)below(t, known);
            parts[side] = one < LETTERS    ? 'a' + one
                          : one == LETTERS ? ' '
                                           : 256 + one - LETTERS - 1;
        }
        const char *left = v->bytes[parts[0]], *right = v->bytes[parts[1]];
        if (strlen(left) + strlen(right) > 8 || right[0] == ' ') continue;
        char *joined = v->bytes[256 + k];
        join(joined, left, "", right);
        if (!is_new(v, 256 + k, joined)) continue;
        left = v->pieces[parts[0]];
        right = v->pieces[parts[1]];
        join(v->pieces[256 + k], left, "", right);
        join(v->merges[k], left, " ", right);
        v->left[k] = parts[0];
        v->right[k] = parts[1];
        k++;
    }
    for (int k = 0; k < PIECES; k++)
        v->piece_texts[k] = (ota_text){v->pieces[k], strlen(v->pieces[k])};
    for (int k = 0; k < MERGES; k++)
        v->merge_texts[k] = (ota_text){v->merges[k], strlen(v->merges[k])};
    return v;
}

static ota_tokenizer *tokenizer_of(const vocabulary *v) {
    ota_tokenizer *tokenizer = NULL;
    const ota_tokenizer_parts parts = {.size = sizeof parts,
                                       .source = "verify",
                                       .model = "bpe",
                                       .cut = "gpt-2",
                                       .pieces = v->piece_texts,
                                       .piece_count = PIECES,
                                       .merges = v->merge_texts,
                                       .merge_count = MERGES};
    (void)ota_tokenizer_create(&tokenizer, &parts, NULL);
    return tokenizer;
}

/* Ids of one word: every merge in turn joins all its pairs, left to right. Its parts are older than itself, so no merge
 * makes pairs for one before it. */
static int64_t merge_word(const vocabulary *v, const char *word, int64_t size, int32_t *ids) {
    int64_t count = size;
    for (int64_t k = 0; k < size; k++) ids[k] = (unsigned char)word[k];
    for (int m = 0; m < MERGES; m++) {
        int64_t kept = 0;
        for (int64_t k = 0; k < count; k++) {
            const bool joins = k + 1 < count && ids[k] == v->left[m] && ids[k + 1] == v->right[m];
            ids[kept++] = joins ? 256 + m : ids[k];
            k += joins;
        }
        count = kept;
    }
    return count;
}

/* Words of a few letters, a blank between two: ids that differ from those of the loop. */
static double reference_ids(trial *t) {
    enum { WORDS = 300, MOST = 16 * WORDS };
    const vocabulary *v = draw_vocabulary(t);
    char *text = take(t, MOST);
    int32_t *wanted = take(t, MOST * sizeof *wanted), *ids = take(t, MOST * sizeof *ids);
    int64_t size = 0, expected = 0, count = 0;
    for (int w = 0; w < WORDS; w++) {
        const int64_t first = size, letters = 1 + below(t, 12);
        if (w > 0) text[size++] = ' ';
        for (int64_t k = 0; k < letters; k++) text[size++] = (char)('a' + below(t, LETTERS));
        expected += merge_word(v, text + first, size - first, wanted + expected);
    }
    ota_tokenizer *tokenizer = tokenizer_of(v);
    if (tokenizer == NULL) return NAN;
    const ota_status status =
        ota_tokenizer_encode(tokenizer, text, size, 0, ids, MOST, &count, NULL);
    double different = status == OTA_OK ? fabs((double)(count - expected)) : NAN;
    for (int64_t k = 0; k < count && k < expected; k++)
        different += seen_number(t, (double)ids[k]) != (double)wanted[k];
    ota_tokenizer_free(tokenizer);
    return different;
}

enum { NO_FRAME = OTA_ENCODE_NO_SPECIAL | OTA_ENCODE_PLAIN };

/* The tokenizer of the model that --model names where it keeps bytes, else one of all bytes. */
static ota_tokenizer *open_tokenizer(trial *t) {
    ota_tokenizer *tokenizer = NULL;
    ota_model *model = NULL;
    if (t->model != NULL && ota_model_open(&model, t->model, NULL, NULL) == OTA_OK)
        (void)ota_model_tokenizer(model, &tokenizer, NULL);
    ota_model_free(model);
    if (tokenizer != NULL && strcmp(ota_tokenizer_model(tokenizer), "bpe") == 0) return tokenizer;
    ota_tokenizer_free(tokenizer);
    return tokenizer_of(draw_vocabulary(t));
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
        text[k] = (char)(k < BYTES / 2 ? known[below(t, bytes)] : 'a' + below(t, LETTERS));
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

static const statement_check rows[] = {
    AT_MOST("TOT-65", "windows of 512 from texts, their number, length and ids: off by",
            windows_counted, 0.0),
    AT_MOST("TOT-65", "a padded batch: states of real positions that padding changes",
            padding_unseen, 0.0),
    AT_MOST("TOT-66", "ids of 300 words that differ from those of a loop over merges",
            reference_ids, 0.0),
    AT_MOST("TOT-66", "random bytes to ids and back: bytes that change", bytes_come_back, 0.0),
};
MODEL_CHECK_GROUP(statement_checks_model_text, rows, ANY_MODEL);
