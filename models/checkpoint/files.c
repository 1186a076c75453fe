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

/* ---- interruption ---- */

/* Bytes of work between two looks. */
enum { LOOK = 1 << 16 };

ota_ending ota_ending_begin(const int *cancel, int64_t deadline_ns) {
    return (ota_ending){.cancel = cancel, .deadline_ns = deadline_ns, .work = LOOK};
}

ota_ending ota_ending_of(const ota_tensor_limits *limits) {
    return limits != NULL ? ota_ending_begin(limits->cancel, limits->deadline_ns)
                          : ota_ending_begin(NULL, 0);
}

ota_status ota_look(ota_ending *ending, size_t work, ota_error *error) {
    if (ending == NULL) return OTA_OK;
    if (ending->ended == OTA_OK) {
        if ((ending->work += work) < LOOK) return OTA_OK;
        ending->work = 0;
        ending->ended = ota_interruption(ending->cancel, ending->deadline_ns);
        if (ending->ended == OTA_OK) return OTA_OK;
    }
    return ota_refuse(error, ending->ended, "%s",
                      ending->ended == OTA_CANCELLED
                          ? "the call was cancelled"
                          : "the deadline passed before the call was done");
}

/* Items that are sorted or merged between two looks. */
enum { RUN = 1024, RUN_WORK = RUN * 16 };

typedef struct merging {
    char *from, *to;
    size_t size;
    ota_order *order;
} merging;

/* Runs [first, middle) and [middle, end) of `from` become one of `to`. */
static ota_status merge_runs(const merging *m, size_t first, size_t middle, size_t end,
                             ota_ending *ending, ota_error *error) {
    size_t left = first, right = middle;
    for (size_t at = first; at < end; at++) {
        const char *a = m->from + left * m->size, *b = m->from + right * m->size;
        const bool takes_left = right == end || (left < middle && m->order(a, b) <= 0);
        memcpy(m->to + at * m->size, takes_left ? a : b, m->size);
        left += takes_left;
        right += !takes_left;
        if (at % RUN != 0) continue;
        const ota_status status = ota_look(ending, RUN_WORK, error);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

ota_status ota_sort(void *items, size_t count, size_t size, ota_order *order, ota_ending *ending,
                    ota_error *error) {
    ota_status status = OTA_OK;
    for (size_t first = 0; first < count && status == OTA_OK; first += RUN) {
        qsort((char *)items + first * size, count - first < RUN ? count - first : RUN, size, order);
        status = ota_look(ending, RUN_WORK, error);
    }
    if (count <= RUN || status != OTA_OK) return status;
    char *other = malloc(count * size);
    if (other == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for sorting");
    merging m = {.from = items, .to = other, .size = size, .order = order};
    for (size_t run = RUN; run < count && status == OTA_OK; run *= 2) {
        for (size_t first = 0; first < count && status == OTA_OK; first += 2 * run) {
            const size_t middle = first + run < count ? first + run : count,
                         end = middle + run < count ? middle + run : count;
            status = merge_runs(&m, first, middle, end, ending, error);
        }
        m = (merging){.from = m.to, .to = m.from, .size = size, .order = order};
    }
    if (status == OTA_OK && m.from == other) memcpy(items, other, count * size);
    free(other);
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
                          ota_error_text(cause));
    }
    if (kind != OTA_PATH_FILE) {
        ota_file_close(file);
        return ota_refuse(error, OTA_EFORMAT, "%s: is %s, not a regular file", ota_path_end(path),
                          kind == OTA_PATH_FOLDER ? "a folder" : "a pipe, device or socket");
    }
    return OTA_OK;
}

/* Bytes read between two looks, and how many times as fast as the slowest steps even a slow disk is. */
enum { READ_PART = 1 << 20, READ_SPEED = 16 };

ota_status ota_file_read_at(const ota_file *file, void *buffer, size_t size, int64_t offset,
                            ota_error *error) {
    for (size_t done = 0; done < size;) {
        const size_t left = size - done, part = left < READ_PART ? left : READ_PART;
        const ota_status looked = ota_look(file->ending, READ_PART / READ_SPEED, error);
        if (looked != OTA_OK) return looked;
        const int64_t got = ota_descriptor_read(file->descriptor, (char *)buffer + done, part,
                                                offset + (int64_t)done);
        if (got < 0)
            return ota_refuse(error, OTA_EIO, "%s: at byte %lld: cannot be read: %s",
                              ota_path_end(file->path), (long long)offset + (long long)done,
                              ota_error_text(errno));
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
                          ota_error_text(errno));
    if (size != file->size)
        return ota_refuse_at(error, file->path, file->size,
                             "the file changed its size while it was read");
    return OTA_OK;
}

void ota_file_close(ota_file *file) {
    if (file->descriptor >= 0) ota_descriptor_close(file->descriptor);
    file->descriptor = -1;
}

ota_status ota_file_text(const char *path, bool trusted, int64_t most, ota_ending *ending,
                         char **text, size_t *size, ota_error *error) {
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
        file.ending = ending;
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
