/* The .npz format: a zip archive whose entries `name.npy` are npy files, STORED or DEFLATE, by
 * libzip.
 *
 * libzip compares every local header with the central directory, refuses one name for two entries
 * and checks each entry's CRC when it has been read to its end. What it does not bound is checked
 * here before it sees the archive: one end record, and how many entries and directory bytes that
 * record (32 or 64 bit) declares. Then: sizes of all entries together within the limit, no size
 * that its compressed bytes cannot make, plain names. Source: PKWARE APPNOTE 4.3.14 to 4.3.16 for
 * the end records. */
#define _GNU_SOURCE
#include "files_formats.h"
#include "src/base/integers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

static uint64_t little_endian(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
    return value;
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
    const unsigned char *end = memmem(tail, (size_t)size, "PK\5\6", 4);
    const unsigned char *limit = tail + size;
    int64_t at = end != NULL ? begin + (end - tail) : begin;
    if (end == NULL)
        code = cli_fail_at(error, file->path, at, "the archive's end record is missing");
    else if (memmem(end + 4, (size_t)(limit - end - 4), "PK\5\6", 4) != NULL)
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
        char *name = strndup(entry.name, length - 4);
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
    int descriptor = fcntl(file->descriptor, F_DUPFD_CLOEXEC, 0);
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
        close(descriptor);
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

/* ---- writing ---- */

/* What libzip could not do. Where it had no memory to say so, it says nothing. */
static int write_failure(cli_error *error, const char *path, zip_error_t *cause) {
    const int kind = zip_error_code_zip(cause);
    const bool memory =
        kind == ZIP_ER_MEMORY || kind == ZIP_ER_OK || zip_error_code_system(cause) == ENOMEM;
    if (memory)
        return cli_fail(error, CLI_EXIT_LIMIT, "%s: no memory is left for the archive", path);
    if (kind == ZIP_ER_EXISTS || kind == ZIP_ER_INVAL)
        return cli_fail(error, CLI_EXIT_INTERNAL, "%s: an array that no archive holds: %s", path,
                        zip_error_strerror(cause));
    return cli_fail(error, CLI_EXIT_IO, "%s: cannot be written: %s", path,
                    zip_error_strerror(cause));
}

/* One array as libzip asks for it while it closes the archive: the npy header, then the elements. */
typedef struct npz_source {
    char *header;
    size_t header_size, header_given;
    zip_uint64_t size; /* of all */
    cli_bytes bytes;
    zip_error_t cause; /* what libzip is told; *error has the sentence */
    cli_error *error;
} npz_source;

static zip_int64_t read_source(npz_source *from, char *to, size_t size) {
    const size_t head = ota_size_min(size, from->header_size - from->header_given);
    size_t got;
    if (head > 0) memcpy(to, from->header + from->header_given, head);
    from->header_given += head;
    if (cli_bytes_read(&from->bytes, to + head, size - head, &got, from->error) == 0)
        return (zip_int64_t)(head + got);
    zip_error_set(&from->cause, ZIP_ER_READ, 0);
    return -1;
}

static zip_int64_t answer_libzip(void *user, void *data, zip_uint64_t size,
                                 zip_source_cmd_t command) {
    npz_source *from = user;
    zip_stat_t entry;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
                                              -1);
    case ZIP_SOURCE_READ: return read_source(from, data, (size_t)size);
    case ZIP_SOURCE_STAT:
        zip_stat_init(&entry);
        entry.size = from->size;
        entry.valid = ZIP_STAT_SIZE;
        memcpy(data, &entry, sizeof entry);
        return (zip_int64_t)sizeof entry;
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&from->cause, data, size);
    case ZIP_SOURCE_FREE:
        free(from->header);
        free(from);
        return 0;
    case ZIP_SOURCE_OPEN:
    case ZIP_SOURCE_CLOSE: return 0;
    default: return -1;
    }
}

/* The source is libzip's from here on: it frees `from`. */
static zip_source_t *open_source(zip_t *zip, cli_output *output, const cli_array *array, int *code,
                                 cli_error *error) {
    size_t count;
    int64_t bytes;
    npz_source *from = calloc(1, sizeof *from);
    zip_source_t *source = NULL;
    *code = from == NULL
                ? cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for an array of an archive")
                : cli_output_check(output, array, &count, &bytes, error);
    if (*code == 0) *code = npy_make_header(array, &from->header, &from->header_size, error);
    if (*code == 0) {
        from->size = from->header_size + (zip_uint64_t)bytes;
        cli_bytes_begin(&from->bytes, array, false);
        from->error = error;
        source = zip_source_function(zip, answer_libzip, from);
        if (source == NULL)
            *code =
                write_failure(error, cli_short_path(cli_output_path(output)), zip_get_error(zip));
    }
    if (source == NULL && from != NULL) {
        free(from->header);
        free(from);
    }
    return source;
}

static int add_array(zip_t *zip, cli_output *output, const cli_array *array, cli_error *error) {
    const char *path = cli_short_path(cli_output_path(output));
    int code;
    if (!ota_name_is_valid(array->name, strlen(array->name)))
        return cli_fail(error, CLI_EXIT_INTERNAL, "%s: array without a valid name", path);
    char entry[CLI_MAX_NAME + 8];
    snprintf(entry, sizeof entry, "%s.npy", array->name);
    zip_source_t *source = open_source(zip, output, array, &code, error);
    if (source == NULL) return code;
    zip_int64_t index = zip_file_add(zip, entry, source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
        code = write_failure(error, path, zip_get_error(zip));
        zip_source_free(source);
        return code;
    }
    const zip_uint16_t first_day = 1 << 5 | 1; /* 1980-01-01: same arrays, same bytes */
    const int set = zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) |
                    zip_file_set_dostime(zip, (zip_uint64_t)index, 0, first_day, 0);
    return set == 0 ? 0 : write_failure(error, path, zip_get_error(zip));
}

int cli_write_npz(cli_output *output, const cli_array *arrays, size_t count, cli_error *error) {
    const char *path = cli_short_path(cli_output_path(output));
    if (cli_output_streams(output) || count == 0)
        return cli_fail(error, CLI_EXIT_USAGE, "%s: npz needs a file and at least one array", path);
    const char *temporary;
    int code = cli_output_temporary(output, &temporary, error);
    if (code != 0) return code;
    /* libzip writes a neighbour of the temporary file and renames it over the empty one. */
    int kind = ZIP_ER_MEMORY;
    zip_t *zip = zip_open(temporary, ZIP_CREATE | ZIP_TRUNCATE, &kind);
    if (zip == NULL) {
        zip_error_t cause;
        zip_error_init_with_code(&cause, kind);
        code = write_failure(error, path, &cause);
        zip_error_fini(&cause);
    }
    for (size_t i = 0; code == 0 && i < count; i++)
        code = add_array(zip, output, &arrays[i], error);
    if (code == 0) error->exit_code = 0;
    if (zip != NULL && (code != 0 || zip_close(zip) != 0)) {
        /* Elements that did not come have said why. */
        if (code == 0) code = error->exit_code;
        if (code == 0) code = write_failure(error, path, zip_get_error(zip));
        zip_discard(zip);
    }
    return code != 0 ? code : cli_output_reopen(output, error);
}
