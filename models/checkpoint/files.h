/* Opening of hostile files and the sentences about them: "path: at byte N: rule". Every call returns
 * an ota_status and fills `error` on failure; messages are valid UTF-8 without control characters,
 * whatever a file's names hold. */
#ifndef OTATTN_MODELS_FILES_H
#define OTATTN_MODELS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otattn.h"
#include "otattn_tensors.h"

ota_status ota_refuse(ota_error *error, ota_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Always OTA_EFORMAT. */
ota_status ota_refuse_at(ota_error *error, const char *path, int64_t offset, const char *format,
                         ...) __attribute__((format(printf, 4, 5)));
/* What to do about the sentence that was just written; returns `status`. */
ota_status ota_advise(ota_error *error, ota_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* ---- interruption ---- */

/* Who may end a call, and what was done since it was last asked for. NULL where a call takes one: nobody. */
typedef struct ota_ending {
    const int *cancel;
    int64_t deadline_ns;
    size_t work;
    ota_status ended; /* what a look has said, and says from then on */
} ota_ending;

/* Of one that looks at once. */
ota_ending ota_ending_begin(const int *cancel, int64_t deadline_ns);
/* NULL: nobody's. */
ota_ending ota_ending_of(const ota_tensor_limits *limits);
/* After `work` more bytes, of which the slowest steps do 1.5 MB a second: OTA_CANCELLED or OTA_TIMEOUT where the call is to end,
 * with a sentence. */
ota_status ota_look(ota_ending *ending, size_t work, ota_error *error);

typedef int ota_order(const void *left, const void *right);
/* qsort between looks; equal items stay in their order. */
ota_status ota_sort(void *items, size_t count, size_t size, ota_order *order, ota_ending *ending,
                    ota_error *error);

/* The end of a path too long for a sentence. */
const char *ota_path_end(const char *path);

typedef struct ota_file {
    int descriptor;
    int64_t size; /* fixed at opening */
    const char *path;
    ota_ending *ending; /* of who reads it; NULL after opening */
} ota_file;

/* Regular files only. `trusted` false: the name came out of another file, so a symbolic link is
 * refused. */
ota_status ota_file_open(const char *path, bool trusted, ota_file *file, ota_error *error);
/* Exactly `size` bytes; a shorter file is refused. */
ota_status ota_file_read_at(const ota_file *file, void *buffer, size_t size, int64_t offset,
                            ota_error *error);
/* A file that changed its size since it was opened is refused. */
ota_status ota_file_recheck(const ota_file *file, ota_error *error);
void ota_file_close(ota_file *file);
/* The whole file as text with a NUL behind it, *text freed by the caller; above `most` bytes it is
 * OTA_ELIMIT. */
ota_status ota_file_text(const char *path, bool trusted, int64_t most, ota_ending *ending,
                         char **text, size_t *size, ota_error *error);

/* rank <= 8, dims <= 2^48, product of the nonzero dims <= 2^62 whatever their order. */
ota_status ota_shape_check(const int64_t *shape, int rank, const char *path, int64_t offset,
                           int64_t *count, ota_error *error);

/* "folder/name", freed by the caller; NULL without memory. */
char *ota_path_join(const char *folder, const char *name);
bool ota_path_exists(const char *path);
bool ota_path_is_folder(const char *path);

#endif
