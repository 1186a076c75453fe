/* Reading of tokenizer files, hostile until read: regular files only, of a size that is fixed at opening
 * and below the limit; and the sentences about what is wrong with them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer_parts.h"

/* ---- sentences ---- */

/* Names and words of a file are quoted in sentences, which reach terminals. */
static void clean(char *text) {
    const size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        const size_t good = ota_token_valid(text + at, size - at);
        for (size_t k = at; k < at + good; k++) {
            const bool upper_control = (unsigned char)text[k] == 0xC2 && k + 1 < at + good &&
                                       (unsigned char)text[k + 1] < 0xA0;
            if ((unsigned char)text[k] < 0x20 || text[k] == 0x7F) text[k] = '?';
            if (upper_control) text[k] = text[k + 1] = '?';
        }
        at += good;
        if (at < size) text[at++] = '?';
    }
}

ota_status ota_token_fail(ota_error *error, ota_status status, const char *path, int64_t offset,
                          const char *format, ...) {
    if (error == NULL) return status;
    const size_t room = sizeof error->message, length = strlen(path), longest = 224;
    int used = 0;
    if (length > 0)
        used = snprintf(error->message, room,
                        "%s: ", length > longest ? path + length - longest : path);
    if (offset >= 0)
        used += snprintf(error->message + used, room - (size_t)used,
                         "at byte %lld: ", (long long)offset);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->message + used, room - (size_t)used, format, arguments);
    va_end(arguments);
    clean(error->message);
    error->field[0] = error->hint[0] = '\0';
    return status;
}

ota_status ota_token_no_memory(ota_error *error) {
    return ota_token_fail(error, OTA_ENOMEM, "", -1, "no memory is left for the tokenizer");
}

/* ---- files ---- */

static ota_status read_all(int descriptor, ota_token_file *file, ota_error *error) {
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return ota_token_fail(error, OTA_EIO, file->path, -1, "cannot be read: %s",
                              strerror(errno));
    if (!S_ISREG(status.st_mode))
        return ota_token_fail(error, OTA_EFORMAT, file->path, -1, "is not a regular file");
    if (status.st_size > OTA_TOKEN_FILE_MOST)
        return ota_token_fail(error, OTA_ELIMIT, file->path, -1,
                              "has %lld bytes, above the limit of %d for a tokenizer's file",
                              (long long)status.st_size, OTA_TOKEN_FILE_MOST);
    file->size = (size_t)status.st_size;
    file->text = malloc(file->size + 1);
    if (file->text == NULL) return ota_token_no_memory(error);
    for (size_t done = 0; done < file->size;) {
        const ssize_t got = pread(descriptor, file->text + done, file->size - done, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            return ota_token_fail(error, OTA_EIO, file->path, (int64_t)done, "cannot be read: %s",
                                  strerror(errno));
        if (got == 0)
            return ota_token_fail(error, OTA_ETRUNC, file->path, (int64_t)done,
                                  "the file ends %zu bytes too early", file->size - done);
        done += (size_t)got;
    }
    file->text[file->size] = '\0';
    const size_t valid = ota_token_valid(file->text, file->size);
    if (valid < file->size)
        return ota_token_fail(error, OTA_EFORMAT, file->path, (int64_t)valid,
                              "a tokenizer's file must be UTF-8");
    if (fstat(descriptor, &status) != 0 || (size_t)status.st_size != file->size)
        return ota_token_fail(error, OTA_EFORMAT, file->path, (int64_t)file->size,
                              "the file changed its size while it was read");
    return OTA_OK;
}

ota_status ota_token_file_read(const char *path, ota_token_file *file, ota_error *error) {
    *file = (ota_token_file){.path = path};
    /* Without O_NONBLOCK opening a FIFO would wait for its writer. */
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
        return ota_token_fail(error, OTA_EIO, path, -1, "cannot be opened: %s", strerror(errno));
    const ota_status status = read_all(descriptor, file, error);
    close(descriptor);
    if (status != OTA_OK) ota_token_file_free(file);
    return status;
}

void ota_token_file_free(ota_token_file *file) {
    free(file->text);
    file->text = NULL;
}
