/* What the fuzzers of tokenizers share. The input becomes files of a small folder in memory; opening
 * it must return. A tokenizer that opens must encode and decode: its ids lie in the vocabulary, and what
 * decode promises is what it writes. */
#ifndef OTATTN_FUZZ_TOKENIZER_H
#define OTATTN_FUZZ_TOKENIZER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "otattn_tokenizer.h"

static void fuzz_put(const char *folder, const char *name, const void *bytes, size_t size) {
    char path[192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) abort();
}

static const char *fuzz_folder(char folder[128]) {
    snprintf(folder, 128, "/dev/shm/otattn-fuzz-tokenizer-%ld", (long)getpid());
    (void)mkdir(folder, 0700);
    return folder;
}

/* What may lie beside a vocabulary. */
#define FUZZ_BESIDE                                                                                \
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json"

/* One file for each part of the input, between which there is a NUL; of an empty part none but the first. */
static void fuzz_put_parts(const char *folder, const char *const *names, size_t count,
                           const uint8_t *bytes, size_t size) {
    const uint8_t *end = bytes + size;
    for (size_t k = 0; k < count; k++) {
        const size_t left = (size_t)(end - bytes);
        const uint8_t *stop = left == 0 ? NULL : memchr(bytes, 0, left);
        const size_t part = stop == NULL ? left : (size_t)(stop - bytes);
        if (part > 0 || k == 0) fuzz_put(folder, names[k], bytes, part);
        if (stop == NULL) return;
        bytes = stop + 1;
    }
}

static void fuzz_remove(const char *folder, const char *const *names, size_t count) {
    char path[192];
    for (size_t k = 0; k < count; k++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[k]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void fuzz_use(const ota_tokenizer *tokenizer, const char *text, size_t size) {
    enum { ROOM = 4096 };
    int32_t ids[ROOM];
    char back[ROOM];
    int64_t count = 0, length = 0, exactly = 0;
    ota_error error;
    if (ota_tokenizer_encode(tokenizer, text, (int64_t)size, 0, ids, ROOM, &count, &error) < 0)
        return;
    if (count > ROOM) count = ROOM;
    for (int64_t k = 0; k < count; k++)
        if (ids[k] < 0 || ids[k] >= ota_tokenizer_count(tokenizer)) abort();
    if (ota_tokenizer_decode(tokenizer, ids, count, 0, back, ROOM, &length, &error) < 0) abort();
    if (ota_tokenizer_decode(tokenizer, ids, count, 0, NULL, 0, &exactly, &error) < 0) abort();
    if (length != exactly) abort();
}

static void fuzz_open(const char *path, const uint8_t *bytes, size_t size) {
    static const char text[] = "It's 1234 <s>\xC3\xA9\xFF  \xE4\xB8\xAD\r\n aab[UNK]";
    ota_tokenizer *tokenizer;
    ota_error error = {.message = ""};
    if (ota_tokenizer_open(&tokenizer, path, &error) < 0) {
        if (error.message[0] == '\0' || tokenizer != NULL) abort();
        return;
    }
    fuzz_use(tokenizer, text, sizeof text - 1);
    fuzz_use(tokenizer, (const char *)bytes, size < 256 ? size : 256);
    ota_tokenizer_free(tokenizer);
}

#endif
