/* Files and sentences of tokenizers, on those of files.h: a tokenizer's file is UTF-8 of at most 64 MiB. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "models/checkpoint/files.h"
#include "tokenizer_parts.h"

ota_status ota_token_fail(ota_error *error, ota_status status, const char *path, int64_t offset,
                          const char *format, ...) {
    if (error == NULL) return status;
    char rule[sizeof error->message], place[32] = "";
    va_list arguments;
    va_start(arguments, format);
    (void)ota_vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    if (offset >= 0) (void)ota_snprintf(place, sizeof place, "at byte %lld: ", (long long)offset);
    return ota_refuse(error, status, "%s%s%s%s", ota_path_end(path), path[0] == '\0' ? "" : ": ",
                      place, rule);
}

ota_status ota_token_no_memory(ota_error *error) {
    return ota_token_fail(error, OTA_ENOMEM, "", -1, "no memory is left for the tokenizer");
}

ota_status ota_token_file_bytes(const char *path, ota_ending *ending, ota_token_file *file,
                                ota_error *error) {
    *file = (ota_token_file){.path = path, .ending = ending};
    return ota_file_text(path, true, OTA_TOKEN_FILE_MOST, ending, &file->text, &file->size, error);
}

ota_status ota_token_file_read(const char *path, ota_ending *ending, ota_token_file *file,
                               ota_error *error) {
    size_t valid = 0;
    ota_status status = ota_token_file_bytes(path, ending, file, error);
    if (status == OTA_OK)
        status = ota_token_valid_within(file->text, file->size, ending, &valid, error);
    if (status == OTA_OK && valid == file->size) return OTA_OK;
    ota_token_file_free(file);
    if (status != OTA_OK) return status;
    return ota_token_fail(error, OTA_EFORMAT, path, (int64_t)valid,
                          "a tokenizer's file must be UTF-8");
}

void ota_token_file_free(ota_token_file *file) {
    free(file->text);
    file->text = NULL;
}
