/* Reading .npz: a zip archive whose entries `name.npy` are npy files, STORED or DEFLATE, by
 * libzip; npz_write.c writes them.
 *
 * libzip compares every local header with the central directory, refuses one name for two entries
 * and checks each entry's CRC when it has been read to its end. What it does not bound is checked
 * here before it sees the archive: one end record, and how many entries and directory bytes that
 * record (32 or 64 bit) declares. Then: sizes of all entries together within the limit, no size
 * that its compressed bytes cannot make, plain names. Source: PKWARE APPNOTE 4.3.14 to 4.3.16 for
 * the end records. */
#include "files_formats.h"
#include "src/base/integers.h"
#include "src/base/program/system_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zip.h>

static uint64_t little_endian(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

/* Where four bytes stand first, or NULL. */
static const unsigned char *find_mark(const unsigned char *at, const unsigned char *end,
                                      const char *mark) {
    for (; end - at >= 4; at++)
        if (memcmp(at, mark, 4) == 0) return at;
    return NULL;
}

static int check_directory(const cli_file *file, int64_t offset, uint64_t entries, uint64_t bytes,
                           cli_error *error) {
    const uint64_t bytes_limit = (uint64_t)64 << 20;
    if (entries <= (uint64_t)file->limits.npz_entries && bytes <= bytes_limit) return 0;
    cli_fail_at(error, file->path, offset,
                "the archive declares %llu entries in %llu directory bytes, above the limits of "
                "%lld and %llu",
                (unsigned long long)entries, (unsigned long long)bytes,
                (long long)file->limits.npz_entries, (unsigned long long)bytes_limit);
    return error->exit_code = CLI_EXIT_LIMIT;
}

/* The 64-bit end record, which a locator right before the 32-bit one points to. */
static int check_wide_end(const cli_file *file, int64_t locator, const unsigned char *bytes,
                          cli_error *error) {
    enum { WIDE_END_BYTES = 56 };
    unsigned char record[WIDE_END_BYTES];
    uint64_t offset = little_endian(bytes + 8, 8);
    if (offset > (uint64_t)locator || (uint64_t)locator - offset < WIDE_END_BYTES)
        return cli_fail_at(error, file->path, locator,
                           "the archive's 64-bit end record lies outside the file");
    int code = cli_file_read_at(file, record, sizeof record, (int64_t)offset, error);
    if (code != 0) return code;
    if (memcmp(record, "PK\6\6", 4) != 0)
        return cli_fail_at(error, file->path, (int64_t)offset,
                           "the archive's 64-bit end record does not start with PK 6 6");
    return check_directory(file, (int64_t)offset, little_endian(record + 32, 8),
                           little_endian(record + 40, 8), error);
}

/* A second end record would let another reader, or libzip's own search, see another archive. */
static int check_end(const cli_file *file, cli_error *error) {
    enum { END_BYTES = 22, LOCATOR_BYTES = 20, COMMENT_MOST = 65535 };
    unsigned char start[4] = {0};
    int64_t most = LOCATOR_BYTES + END_BYTES + COMMENT_MOST;
    int64_t size = ota_int_min(file->size, most), begin = file->size - size;
    int code = size < END_BYTES ? cli_fail_at(error, file->path, 0, "too short for a zip archive")
                                : cli_file_read_at(file, start, sizeof start, 0, error);
    if (code != 0) return code;
    if (memcmp(start, "PK\3\4", 4) != 0 && memcmp(start, "PK\5\6", 4) != 0)
        return cli_fail_at(error, file->path, 0, "npz must start as a zip archive with PK 3 4");
    unsigned char *tail = malloc((size_t)size);
    if (tail == NULL)
        return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for an archive's end");
    code = cli_file_read_at(file, tail, (size_t)size, begin, error);
    if (code != 0) {
        free(tail);
        return code;
    }
    const unsigned char *limit = tail + size, *end = find_mark(tail, limit, "PK\5\6");
    int64_t at = end != NULL ? begin + (end - tail) : begin;
    if (end == NULL)
        code = cli_fail_at(error, file->path, at, "the archive's end record is missing");
    else if (find_mark(end + 4, limit, "PK\5\6") != NULL)
        code = cli_fail_at(error, file->path, at, "the archive has two end records");
    else if (limit - end < END_BYTES ||
             (uint64_t)(limit - end) != END_BYTES + little_endian(end + 20, 2))
        code = cli_fail_at(error, file->path, at, "bytes are missing or follow the archive's end");
    else if (end - tail >= LOCATOR_BYTES && memcmp(end - LOCATOR_BYTES, "PK\6\7", 4) == 0)
        code = check_wide_end(file, at - LOCATOR_BYTES, end - LOCATOR_BYTES, error);
    else
        code = check_directory(file, at, little_endian(end + 10, 2), little_endian(end + 12, 4),
                               error);
    free(tail);
    return code;
}

/* Before a call of libzip: behind it, errno says what that met on the way, which its own codes may hide. */
static void begin_call(void) { errno = 0; }

static int zip_failure(cli_error *error, const char *label, zip_error_t *cause) {
    int kind = zip_error_code_zip(cause);
    if (errno == ENOMEM)
        return cli_fail(error, CLI_EXIT_LIMIT, "%s: no memory is left for the archive",
                        cli_short_path(label));
    if (errno == EIO)
        return cli_fail(error, CLI_EXIT_IO, "%s: cannot be read: %s", cli_short_path(label),
                        strerror(EIO));
    if (kind == ZIP_ER_EXISTS)
        return cli_fail(error, CLI_EXIT_FILE, "%s: holds two entries of one name",
                        cli_short_path(label));
    int exit_code = kind == ZIP_ER_MEMORY ? CLI_EXIT_LIMIT
                    : kind == ZIP_ER_READ || kind == ZIP_ER_SEEK || kind == ZIP_ER_OPEN
                        ? CLI_EXIT_IO
                        : CLI_EXIT_FILE;
    return cli_fail(error, exit_code, "%s: not a sound zip archive: %s", cli_short_path(label),
                    zip_error_strerror(cause));
}

/* ---- the archive's table ---- */

typedef struct npz_entry {
    char *name; /* the array's: the entry's without ".npy" */
    zip_uint64_t index, size;
} npz_entry;

typedef struct archive {
    zip_t *zip;
    npz_entry *arrays; /* entries whose names end in .npy; others are no arrays */
    size_t count;
} archive;

static const char *entry_name(const void *context, size_t index) {
    return ((const archive *)context)->arrays[index].name;
}

/* libzip turns names that are not marked as UTF-8 into it and shows their control characters as
 * glyphs, so those are looked for in the raw bytes. */
static bool has_plain_name(zip_t *zip, const zip_stat_t *entry) {
    const char *raw = zip_get_name(zip, entry->index, ZIP_FL_ENC_RAW);
    for (size_t i = 0; raw[i] != '\0'; i++)
        if ((unsigned char)raw[i] < 0x20) return false;
    return ota_name_is_valid(entry->name, strlen(entry->name));
}

static int check_entry(const cli_file *file, zip_t *zip, const zip_stat_t *entry, uint64_t *total,
                       cli_error *error) {
    const char *path = cli_short_path(file->path);
    if (!has_plain_name(zip, entry))
        return cli_fail(
            error, CLI_EXIT_FILE,
            "%s: entry %llu has no name of 1 to %d bytes of UTF-8 without control characters", path,
            (unsigned long long)entry->index, CLI_MAX_NAME);
    if (entry->encryption_method != ZIP_EM_NONE)
        return cli_fail(error, CLI_EXIT_FILE, "%s: entry \"%.100s\" is encrypted", path,
                        entry->name);
    bool stored = entry->comp_method == ZIP_CM_STORE;
    if (!stored && entry->comp_method != ZIP_CM_DEFLATE)
        return cli_fail(error, CLI_EXIT_FILE,
                        "%s: entry \"%.100s\" is compressed by method %u, not STORED or DEFLATE",
                        path, entry->name, entry->comp_method);
    /* DEFLATE makes at most 1032 bytes of one. */
    if (stored ? entry->size != entry->comp_size : entry->size / 1032 > entry->comp_size)
        return cli_fail(error, CLI_EXIT_FILE,
                        "%s: entry \"%.100s\" declares %llu bytes, which its %llu cannot hold",
                        path, entry->name, (unsigned long long)entry->size,
                        (unsigned long long)entry->comp_size);
    if (__builtin_add_overflow(*total, entry->size, total) ||
        *total > (uint64_t)file->limits.npz_inflated) {
        cli_fail(error, CLI_EXIT_LIMIT,
                 "%s: entry \"%.100s\" brings the archive above the limit of %lld inflated bytes",
                 path, entry->name, (long long)file->limits.npz_inflated);
        return CLI_EXIT_LIMIT;
    }
    return 0;
}

static void close_archive(archive *content) {
    for (size_t i = 0; i < content->count; i++) free(content->arrays[i].name);
    free(content->arrays);
    zip_discard(content->zip);
}

static int read_table(const cli_file *file, archive *content, cli_error *error) {
    const size_t entries = (size_t)zip_get_num_entries(content->zip, 0);
    content->arrays = malloc((entries + 1) * sizeof *content->arrays);
    if (content->arrays == NULL)
        return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for an archive's table");
    uint64_t total = 0;
    for (size_t i = 0; i < entries; i++) {
        zip_stat_t entry;
        begin_call();
        if (zip_stat_index(content->zip, i, 0, &entry) != 0)
            return zip_failure(error, file->path, zip_get_error(content->zip));
        int code = check_entry(file, content->zip, &entry, &total, error);
        if (code != 0) return code;
        size_t length = strlen(entry.name);
        if (length <= 4 || strcmp(entry.name + length - 4, ".npy") != 0) continue;
        char *name = cli_copy(entry.name, length - 4);
        if (name == NULL)
            return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for an archive's table");
        content->arrays[content->count++] = (npz_entry){name, entry.index, entry.size};
    }
    return 0;
}

static int open_archive(const cli_file *file, archive *content, cli_error *error) {
    *content = (archive){0};
    int code = check_end(file, error);
    if (code != 0) return code;
    int descriptor = ota_descriptor_copy(file->descriptor);
    if (descriptor < 0)
        return cli_fail(error, CLI_EXIT_IO, "%s: cannot be opened: %s", cli_short_path(file->path),
                        strerror(errno));
    int kind = 0;
    begin_call();
    content->zip = zip_fdopen(descriptor, ZIP_CHECKCONS, &kind); /* owns descriptor on success */
    if (content->zip == NULL) {
        zip_error_t cause;
        zip_error_init_with_code(&cause, kind);
        code = zip_failure(error, file->path, &cause);
        zip_error_fini(&cause);
        ota_descriptor_close(descriptor);
        return code;
    }
    code = read_table(file, content, error);
    if (code != 0) close_archive(content);
    return code;
}

/* ---- one entry ---- */

static int entry_read(cli_stream *stream, void *buffer, size_t size, size_t *got,
                      cli_error *error) {
    begin_call();
    zip_int64_t result = zip_fread(stream->handle, buffer, size);
    if (result < 0) return zip_failure(error, stream->label, zip_file_get_error(stream->handle));
    *got = (size_t)result;
    return 0;
}

/* Calls `use` on the entry's stream; `label` lives as long as the call. */
static int with_entry(const cli_file *file, const archive *content, const npz_entry *entry,
                      int (*use)(cli_stream *stream, cli_array *out, cli_error *error),
                      cli_array *out, cli_error *error) {
    char label[224];
    const char *path = cli_short_path(file->path);
    size_t length = strlen(path), room = 120;
    snprintf(label, sizeof label, "%s:%.80s", length > room ? path + length - room : path,
             entry->name);
    cli_stream stream = {
        .read = entry_read, .label = label, .limits = &file->limits, .end = (int64_t)entry->size};
    begin_call();
    stream.handle = zip_fopen_index(content->zip, entry->index, 0);
    if (stream.handle == NULL) return zip_failure(error, label, zip_get_error(content->zip));
    int code = use(&stream, out, error);
    zip_fclose(stream.handle);
    snprintf(out->name, sizeof out->name, "%s", entry->name);
    return code;
}

int npz_read(const cli_file *file, const char *name, cli_array *out, cli_error *error) {
    archive content;
    int code = open_archive(file, &content, error);
    if (code != 0) return code;
    size_t found = content.count, length = name != NULL ? strlen(name) : 0;
    for (size_t i = 0; name != NULL && found == content.count && i < content.count; i++)
        if (strcmp(content.arrays[i].name, name) == 0) found = i;
    /* `file.npz:x.npy`, the entry's whole name, is understood where no array is called x.npy. */
    if (length > 4 && strcmp(name + length - 4, ".npy") == 0)
        for (size_t i = 0; found == content.count && i < content.count; i++)
            if (strlen(content.arrays[i].name) == length - 4 &&
                memcmp(content.arrays[i].name, name, length - 4) == 0)
                found = i;
    if (name == NULL && content.count == 1) found = 0;
    code = found == content.count
               ? cli_fail_names(error, file->path, name, content.count, entry_name, &content)
               : with_entry(file, &content, &content.arrays[found], npy_read_stream, out, error);
    close_archive(&content);
    return code;
}

static int read_entry_header(cli_stream *stream, cli_array *out, cli_error *error) {
    const cli_stored *stored;
    bool big_endian, fortran;
    int code = npy_read_header(stream, out, &stored, &big_endian, &fortran, error);
    if (code == 0) out->type = stored->type;
    return code;
}

int npz_list(const cli_file *file, cli_listing *out, cli_error *error) {
    archive content;
    int code = open_archive(file, &content, error);
    if (code != 0) return code;
    for (size_t i = 0; code == 0 && i < content.count; i++) {
        cli_array array = {0};
        code = with_entry(file, &content, &content.arrays[i], read_entry_header, &array, error);
        if (code == 0) code = cli_listing_add(out, &array, array.type, error);
    }
    close_archive(&content);
    return code;
}
