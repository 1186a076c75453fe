/* model_calls.c: models and tokenizers by their C calls alone, for the stand-in of failing_calls.h to make fail.
 *
 *     model_calls tokenizer PATH TEXT            open, encode, decode, pieces; prints ids and the text that they give back
 *     model_calls model PATH                     open, describe, weights of attention, the probe's rows, a session with a
 *                                                cache where that is causal, its runs, logits; prints digests
 *     model_calls safetensors FILE KEY           the table of contents and a string of the metadata
 *
 * Ends as the program does: 0, or the exit code of the status with "otattn: SENTENCE". Whatever a call leaves is freed
 * in any case, so that a block held at the end is the library's. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otattn_model.h"
#include "otattn_tokenizer.h"

enum { TOKENS = 6, ROOM = 256, EXIT_MEMORY = 5, EXIT_FILES = 6, EXIT_WRONG = 4 };

static int exit_code(ota_status status) {
    if (status == OTA_ENOMEM) return EXIT_MEMORY;
    return status == OTA_EIO || status == OTA_EPATH ? EXIT_FILES : EXIT_WRONG;
}

static int refused(ota_status status, const ota_error *error) {
    if (error->message[0] == '\0') abort();
    (void)fprintf(stderr, "otattn: %s\n", error->message);
    return exit_code(status);
}

static ota_status run_tokenizer(const ota_tokenizer *tokenizer, const char *text,
                                ota_error *error) {
    int32_t ids[ROOM];
    char back[ROOM];
    int64_t count = 0, size = 0;
    ota_status status = ota_tokenizer_encode(tokenizer, text, (int64_t)strlen(text),
                                             OTA_ENCODE_PLAIN, ids, ROOM, &count, error);
    if (status >= 0 && count > ROOM) abort();
    if (status >= 0)
        status = ota_tokenizer_decode(tokenizer, ids, count, OTA_DECODE_NO_SPECIAL, back, ROOM,
                                      &size, error);
    if (status < 0) return status;
    for (int64_t k = 0; k < count; k++) (void)printf("%d ", (int)ids[k]);
    (void)printf("\n%.*s\n", (int)(size < ROOM ? size : ROOM), back);
    return OTA_OK;
}

static int tokenizer_calls(const char *path, const char *text) {
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    ota_status status = ota_tokenizer_open(&tokenizer, path, &error);
    if (status < 0 && tokenizer != NULL) abort();
    if (status >= 0) status = run_tokenizer(tokenizer, text, &error);
    ota_tokenizer_free(tokenizer);
    return status < 0 ? refused(status, &error) : 0;
}

static void show(const char *name, const float *values, int64_t count) {
    double sum = 0;
    for (int64_t k = 0; k < count; k++) sum += values[k] * (double)(1 + k % 7);
    (void)printf("%s %.9g\n", name, sum);
}

/* The room of a model's calls, in floats: no call may need more for the models of golden_commands.py. */
enum { FLOATS = 1 << 13 };

typedef struct room {
    float states[FLOATS], logits[FLOATS], weights[4][FLOATS];
} room;

static ota_status run_session(ota_session *session, const ota_model_facts *facts, room *r,
                              ota_error *error) {
    static const int64_t ids[TOKENS] = {5, 7, 9, 11, 13, 5};
    /* Only what is causal can go on. */
    const int64_t count = facts->causal ? TOKENS / 2 : TOKENS;
    for (int64_t first = 0; first < TOKENS; first += count) {
        const ota_model_run run = {.size = sizeof run,
                                   .ids = ids + first,
                                   .batch = 1,
                                   .count = count,
                                   .first = first,
                                   .states = r->states};
        const ota_status status = ota_session_run(session, &run, error);
        if (status < 0) return status;
        show("states", r->states, count * facts->width);
    }
    if (strcmp(facts->head, "none") == 0) return OTA_OK;
    const ota_status status = ota_session_logits(session, r->states, 1, 0, r->logits, error);
    if (status >= 0) show("logits", r->logits, facts->vocabulary);
    return status;
}

static ota_status run_model(const ota_model *model, room *r, ota_error *error) {
    ota_model_facts facts = {.size = sizeof facts};
    ota_model_attention attention = {.size = sizeof attention,
                                     .query = r->weights[0],
                                     .key = r->weights[1],
                                     .value = r->weights[2],
                                     .output = r->weights[3]};
    ota_tokenizer *tokenizer = NULL;
    ota_session *session = NULL;
    ota_status status = ota_model_describe(model, &facts, error);
    if (status >= 0) status = ota_model_check_finite(model, error);
    if (status >= 0) status = ota_model_attention_of(model, 0, &attention, error);
    if (status >= 0) show("query", r->weights[0], facts.width * facts.heads * facts.head_width);
    if (status >= 0) status = ota_model_probe_rows(model, 2, 3, r->logits, error);
    if (status >= 0) show("probe", r->logits, 3 * facts.width);
    if (status >= 0) status = ota_model_tokenizer(model, &tokenizer, error);
    if (status >= 0) status = run_tokenizer(tokenizer, "the quiet sea", error);
    const ota_session_options options = {.size = sizeof options,
                                         .batch = 1,
                                         .tokens = TOKENS,
                                         .cache = facts.causal ? TOKENS : 0,
                                         .threads = 2};
    if (status >= 0) status = ota_session_create(&session, model, &options, error);
    if (status >= 0) status = run_session(session, &facts, r, error);
    ota_session_free(session);
    ota_tokenizer_free(tokenizer);
    return status;
}

static int model_calls(const char *path) {
    static room r;
    ota_model *model;
    ota_error error = {.message = ""};
    ota_status status = ota_model_open(&model, path, NULL, &error);
    if (status < 0 && model != NULL) abort();
    if (status >= 0) status = run_model(model, &r, &error);
    ota_model_free(model);
    return status < 0 ? refused(status, &error) : 0;
}

static int safetensors_calls(const char *path, const char *key) {
    struct stat facts;
    ota_tensors *table = NULL;
    char *value = NULL;
    ota_error error = {.message = ""};
    const int descriptor = open(path, O_RDONLY);
    if (descriptor < 0 || fstat(descriptor, &facts) != 0) {
        (void)fprintf(stderr, "otattn: %s cannot be opened\n", path);
        if (descriptor >= 0) (void)close(descriptor);
        return EXIT_FILES;
    }
    ota_status status = ota_safetensors_open(&table, descriptor, facts.st_size, path, NULL, &error);
    if (status >= 0) status = ota_tensors_metadata(table, key, &value, &error);
    for (int64_t k = 0; status >= 0 && k < ota_tensors_count(table); k++)
        (void)printf("%s\n", ota_tensors_at(table, k)->name);
    if (status >= 0) (void)printf("%s\n", value != NULL ? value : "no metadata");
    free(value);
    ota_tensors_free(table);
    if (close(descriptor) != 0) {
        (void)fprintf(stderr, "otattn: %s cannot be closed\n", path);
        return EXIT_FILES;
    }
    return status < 0 ? refused(status, &error) : 0;
}

int main(int count, char **words) {
    int code = EXIT_WRONG;
    if (count == 4 && strcmp(words[1], "tokenizer") == 0)
        code = tokenizer_calls(words[2], words[3]);
    else if (count == 3 && strcmp(words[1], "model") == 0)
        code = model_calls(words[2]);
    else if (count == 4 && strcmp(words[1], "safetensors") == 0)
        code = safetensors_calls(words[2], words[3]);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fputs("otattn: standard output cannot be written\n", stderr);
        return EXIT_FILES;
    }
    return code;
}
