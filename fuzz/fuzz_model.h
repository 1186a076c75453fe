/* What the fuzzers of models share: the input becomes one file of a model, every call of
 * otattn_model.h that reads it must return, and a model that opens must run. */
#ifndef OTATTN_FUZZ_MODEL_H
#define OTATTN_FUZZ_MODEL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otattn_model.h"
#include "otattn_tokenizer.h"

static inline void fuzz_write(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) abort();
}

static inline void fuzz_open(const char *path) {
    /* An honest large promise is no finding. */
    enum { PARAMETERS_MOST = 1 << 22 };
    ota_model *model;
    ota_session *session;
    ota_error error = {.message = ""};
    ota_model_facts facts = {.size = sizeof facts};
    if (ota_model_open(&model, path, NULL, &error) != OTA_OK) {
        if (error.message[0] == '\0') abort();
        return;
    }
    if (ota_model_describe(model, &facts, &error) != OTA_OK) abort();
    const ota_session_options options = {
        .size = sizeof options, .batch = 1, .tokens = 1, .threads = 1, .allow_nonfinite = 1};
    (void)ota_model_check_finite(model, &error);
    ota_tokenizer *tokenizer = NULL;
    if (ota_model_tokenizer(model, &tokenizer, &error) == OTA_OK) ota_tokenizer_free(tokenizer);
    const int64_t id = 0;
    const ota_model_run run = {.size = sizeof run, .ids = &id, .batch = 1, .count = 1};
    if (facts.parameters < PARAMETERS_MOST && facts.width < 4096 &&
        ota_session_create(&session, model, &options, &error) == OTA_OK) {
        (void)ota_session_run(session, &run, &error);
        ota_session_free(session);
    }
    ota_model_free(model);
}

#endif
