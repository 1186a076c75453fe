/* Opening of hostile files and the sentences about them: see files.h. */
#include "base/base.h"
#include "files.h"

#include "base/integers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- sentences ---- */

/* Bytes of the UTF-8 character at `text`; the character is -1 where it is malformed (RFC 3629). */
static utf8proc_ssize_t character_at(const char *text, size_t left, utf8proc_int32_t *character) {
    return utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)left, character);
}

void ota_text_clean(char *text) { ota_text_plain(text); }

size_t ota_text_step(const char *text, size_t size, int32_t *hidden) {
    uint32_t character;
    const size_t length = ota_text_character(text, size, &character);
    *hidden = !ota_character_is_hidden(character) ? -1
              : character == UINT32_MAX           ? OTA_TEXT_BROKEN
                                                  : (int32_t)character;
    return length;
}

bool ota_name_is_valid(const char *name, size_t size) {
    if (size == 0 || size > OTA_TENSOR_NAME) return false;
    for (size_t i = 0; i < size;) {
        utf8proc_int32_t character;
        const utf8proc_ssize_t bytes = character_at(name + i, size - i, &character);
        if (character < 0x20) return false;
        i += (size_t)bytes;
    }
    return true;
}

const char *ota_path_end(const char *path) {
    const size_t longest = 224, length = strlen(path);
    return length > longest ? path + (length - longest) : path;
}

static void start(ota_error *error) {
    error->field[0] = '\0';
    error->hint[0] = '\0';
}

ota_status ota_refuse(ota_error *error, ota_status status, const char *format, ...) {
    if (error == NULL) return status;
    va_list arguments;
    start(error);
    va_start(arguments, format);
    (void)ota_vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    ota_text_clean(error->message);
    return status;
}

ota_status ota_refuse_at(ota_error *error, const char *path, int64_t offset, const char *format,
                         ...) {
    if (error == NULL) return OTA_EFORMAT;
    start(error);
    const int used = ota_snprintf(error->message, sizeof error->message,
                                  "%s: at byte %lld: ", ota_path_end(path), (long long)offset);
    va_list arguments;
    va_start(arguments, format);
    (void)ota_vsnprintf(error->message + used, sizeof error->message - (size_t)used, format,
                        arguments);
    va_end(arguments);
    ota_text_clean(error->message);
    return OTA_EFORMAT;
}

ota_status ota_advise(ota_error *error, ota_status status, const char *format, ...) {
    if (error == NULL) return status;
    va_list arguments;
    va_start(arguments, format);
    (void)ota_vsnprintf(error->hint, sizeof error->hint, format, arguments);
    va_end(arguments);
    ota_text_clean(error->hint);
    return status;
}

/* ---- files ---- */

ota_status ota_file_open(const char *path, bool trusted, ota_file *file, ota_error *error) {
    *file = (ota_file){.descriptor = -1, .path = path};
    ota_path_kind kind;
    file->descriptor = ota_file_descriptor(path, trusted, &kind, &file->size);
    if (file->descriptor < 0 && kind != OTA_PATH_FOLDER) {
        const int cause = errno;
        if (cause == ELOOP && !trusted)
            return ota_refuse_at(error, path, 0, "is a symbolic link, which an index may not name");
        return ota_refuse(error, OTA_EIO, "%s: cannot be opened: %s", ota_path_end(path),
                          strerror(cause));
    }
    if (kind != OTA_PATH_FILE) {
        ota_file_close(file);
        return ota_refuse(error, OTA_EFORMAT, "%s: is %s, not a regular file", ota_path_end(path),
                          kind == OTA_PATH_FOLDER ? "a folder" : "a pipe, device or socket");
    }
    return OTA_OK;
}

ota_status ota_file_read_at(const ota_file *file, void *buffer, size_t size, int64_t offset,
                            ota_error *error) {
    for (size_t done = 0; done < size;) {
        const int64_t got = ota_descriptor_read(file->descriptor, (char *)buffer + done,
                                                size - done, offset + (int64_t)done);
        if (got < 0)
            return ota_refuse(error, OTA_EIO, "%s: at byte %lld: cannot be read: %s",
                              ota_path_end(file->path), (long long)offset + (long long)done,
                              strerror(errno));
        if (got == 0)
            return ota_refuse_at(error, file->path, offset + (int64_t)done,
                                 "the file ends %zu bytes too early", size - done);
        done += (size_t)got;
    }
    return OTA_OK;
}

ota_status ota_file_recheck(const ota_file *file, ota_error *error) {
    const int64_t size = ota_descriptor_size(file->descriptor);
    if (size < 0)
        return ota_refuse(error, OTA_EIO, "%s: cannot be read: %s", ota_path_end(file->path),
                          strerror(errno));
    if (size != file->size)
        return ota_refuse_at(error, file->path, file->size,
                             "the file changed its size while it was read");
    return OTA_OK;
}

void ota_file_close(ota_file *file) {
    if (file->descriptor >= 0) ota_descriptor_close(file->descriptor);
    file->descriptor = -1;
}

ota_status ota_file_text(const char *path, bool trusted, int64_t most, char **text, size_t *size,
                         ota_error *error) {
    ota_file file;
    *text = NULL;
    ota_status status = ota_file_open(path, trusted, &file, error);
    if (status != OTA_OK) return status;
    if (file.size > most) {
        status = ota_refuse(
            error, OTA_ELIMIT, "%s: at byte %lld: the file has %lld bytes, above the limit of %lld",
            ota_path_end(path), (long long)most, (long long)file.size, (long long)most);
    } else if ((*text = malloc((size_t)file.size + 1)) == NULL) {
        status = ota_refuse(error, OTA_ENOMEM, "%s: no memory is left for its %lld bytes",
                            ota_path_end(path), (long long)file.size);
    } else {
        *size = (size_t)file.size;
        (*text)[*size] = '\0';
        status = ota_file_read_at(&file, *text, *size, 0, error);
        if (status == OTA_OK) status = ota_file_recheck(&file, error);
    }
    ota_file_close(&file);
    if (status != OTA_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

/* ---- shapes and paths ---- */

ota_status ota_shape_check(const int64_t *shape, int rank, const char *path, int64_t offset,
                           int64_t *count, ota_error *error) {
    const int64_t dimension_limit = (int64_t)1 << 48, product_limit = (int64_t)1 << 62;
    int64_t product = 1;
    bool empty = false;
    for (int k = 0; k < rank; k++) {
        if (shape[k] < 0 || shape[k] > dimension_limit)
            return ota_refuse_at(error, path, offset,
                                 "dimension %d of the shape is %lld, outside 0 to 2^48", k,
                                 (long long)shape[k]);
        if (shape[k] == 0)
            empty = true;
        else if (product > product_limit / shape[k])
            return ota_refuse_at(error, path, offset,
                                 "the product of the shape's nonzero dimensions is above 2^62");
        else
            product *= shape[k];
    }
    *count = empty ? 0 : product;
    return OTA_OK;
}

char *ota_path_join(const char *folder, const char *name) {
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL) (void)ota_snprintf(path, size, "%s/%s", folder, name);
    return path;
}

bool ota_path_exists(const char *path) { return ota_path_kind_of(path) != OTA_PATH_NONE; }

bool ota_path_is_folder(const char *path) { return ota_path_kind_of(path) == OTA_PATH_FOLDER; }
