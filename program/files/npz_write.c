/* Writing .npz: a zip archive of npy files that are STORED, one after the other, so that arrays can be streamed into it.
 *
 *   PK 3 4  version flags method time date  crc size size  name extra      before every npy file
 *   PK 1 2  made-by version ...  crc size size  ... offset  name extra      the directory, one of each
 *   PK 5 6  entries, bytes and offset of the directory; before it PK 6 6 and PK 6 7 where they take 64 bits
 *
 * Sizes are known before, checksums are put in behind. Sizes and offsets that take 64 bits stand in an extra field. Source:
 * PKWARE APPNOTE 4.3.7, 4.3.12, 4.3.14 to 4.3.16 and 4.5.3. */
#include "files_formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

enum { CRC_OFFSET = 14, STORED_VERSION = 20, WIDE_VERSION = 45, EXTRA_MOST = 32 };
enum { FIRST_DAY = 1 << 5 | 1 }; /* 1980-01-01: same arrays, same bytes */
static const uint64_t narrow = 0xFFFFFFFF;

typedef struct archive_entry {
    char name[CLI_MAX_NAME + 8];
    uint64_t offset, size;
    uLong crc;
} archive_entry;

struct cli_archive {
    cli_output *output;
    archive_entry *entries;
    size_t count, room;
    uint64_t position;
};

/* A record under way. */
typedef struct record {
    unsigned char bytes[128];
    size_t size;
} record;

/* As a place holds it whose largest number says that the extra field has it. */
static uint64_t clipped(uint64_t value, uint64_t most) { return value < most ? value : most; }

static void put(record *r, uint64_t value, int bytes) {
    for (int k = 0; k < bytes; k++) r->bytes[r->size++] = (unsigned char)(value >> (8 * k));
}

static void sign(record *r, unsigned char a, unsigned char b) {
    put(r, 'P', 1);
    put(r, 'K', 1);
    put(r, a, 1);
    put(r, b, 1);
}

static int write_plain(cli_archive *a, const void *bytes, size_t size, cli_error *error) {
    a->position += size;
    return cli_output_write(a->output, bytes, size, error);
}

/* What the two headers of an entry have in common, from their version on, up to the length of the name. */
static void put_entry(record *r, const archive_entry *e, bool wide) {
    put(r, wide ? WIDE_VERSION : STORED_VERSION, 2);
    put(r, 1 << 11, 2); /* names are UTF-8 */
    put(r, 0, 4);       /* stored; midnight */
    put(r, FIRST_DAY, 2);
    put(r, e->crc, 4);
    put(r, clipped(e->size, narrow), 4);
    put(r, clipped(e->size, narrow), 4);
    put(r, strlen(e->name), 2);
}

/* The numbers that do not fit their places, as the extra field has them. */
static void put_extra(record *r, const archive_entry *e, bool with_offset) {
    const bool wide = e->size >= narrow, far = with_offset && e->offset >= narrow;
    if (!wide && !far) return;
    put(r, 1, 2);
    put(r, (wide ? 16U : 0U) + (far ? 8U : 0U), 2);
    if (wide) put(r, e->size, 8);
    if (wide) put(r, e->size, 8);
    if (far) put(r, e->offset, 8);
}

int cli_archive_begin(cli_output *output, cli_archive **archive, cli_error *error) {
    *archive = NULL;
    if (cli_output_streams(output))
        return cli_fail(error, CLI_EXIT_USAGE, "%s: npz needs a file and at least one array",
                        cli_short_path(cli_output_path(output)));
    *archive = calloc(1, sizeof **archive);
    if (*archive == NULL)
        return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for an archive");
    (*archive)->output = output;
    return 0;
}

/* The checksum of the entry at hand, into its header. */
static int finish_entry(cli_archive *a, cli_error *error) {
    record r = {.size = 0};
    if (a->count == 0) return 0;
    const archive_entry *last = &a->entries[a->count - 1];
    put(&r, last->crc, 4);
    return cli_output_patch(a->output, (int64_t)last->offset + CRC_OFFSET, r.bytes, r.size, error);
}

static int add_entry(cli_archive *a, const cli_array *array, cli_error *error) {
    const char *path = cli_short_path(cli_output_path(a->output));
    if (!ota_name_is_valid(array->name, strlen(array->name)))
        return cli_fail(error, CLI_EXIT_INTERNAL, "%s: array without a valid name", path);
    if (a->count == a->room) {
        const size_t room = 2 * a->room + 16;
        archive_entry *grown = realloc(a->entries, room * sizeof *grown);
        if (grown == NULL)
            return cli_fail(error, CLI_EXIT_LIMIT, "%s: no memory is left for the archive", path);
        a->entries = grown;
        a->room = room;
    }
    archive_entry *e = &a->entries[a->count];
    *e = (archive_entry){.offset = a->position, .crc = crc32(0, NULL, 0)};
    (void)snprintf(e->name, sizeof e->name, "%s.npy", array->name);
    for (size_t k = 0; k < a->count; k++)
        if (strcmp(a->entries[k].name, e->name) == 0)
            return cli_fail(error, CLI_EXIT_INTERNAL, "%s: two arrays of one name", path);
    return 0;
}

int cli_archive_entry(cli_archive *a, const cli_array *array, cli_error *error) {
    size_t count, header_size;
    int64_t bytes;
    char *header = NULL;
    cli_array promised = *array;
    promised.data = &bytes; /* any address: the elements come later */
    int code = finish_entry(a, error);
    if (code == 0) code = cli_output_check(a->output, &promised, &count, &bytes, error);
    if (code == 0) code = add_entry(a, array, error);
    if (code == 0) code = npy_make_header(array, &header, &header_size, error);
    if (code != 0) return code;
    archive_entry *e = &a->entries[a->count++];
    e->size = header_size + (uint64_t)bytes;
    record r = {.size = 0}, extra = {.size = 0};
    sign(&r, 3, 4);
    put_entry(&r, e, e->size >= narrow);
    put_extra(&extra, e, false);
    put(&r, extra.size, 2);
    code = write_plain(a, r.bytes, r.size, error);
    if (code == 0) code = write_plain(a, e->name, strlen(e->name), error);
    if (code == 0) code = write_plain(a, extra.bytes, extra.size, error);
    if (code == 0) code = cli_archive_write(a, header, header_size, error);
    free(header);
    return code;
}

int cli_archive_write(cli_archive *a, const void *bytes, size_t size, cli_error *error) {
    archive_entry *e = &a->entries[a->count - 1];
    e->crc = crc32_z(e->crc, bytes, size);
    return write_plain(a, bytes, size, error);
}

static int write_directory(cli_archive *a, cli_error *error) {
    int code = 0;
    for (size_t k = 0; code == 0 && k < a->count; k++) {
        const archive_entry *e = &a->entries[k];
        record r = {.size = 0}, extra = {.size = 0};
        const bool wide = e->size >= narrow || e->offset >= narrow;
        put_extra(&extra, e, true);
        sign(&r, 1, 2);
        put(&r, 3 << 8 | (wide ? WIDE_VERSION : STORED_VERSION), 2); /* Unix */
        put_entry(&r, e, wide);
        put(&r, extra.size, 2);
        put(&r, 0, 2);                       /* no comment */
        put(&r, 0, 4);                       /* first disk, no text */
        put(&r, 0100644U << 16 & narrow, 4); /* a file that all may read */
        put(&r, clipped(e->offset, narrow), 4);
        code = write_plain(a, r.bytes, r.size, error);
        if (code == 0) code = write_plain(a, e->name, strlen(e->name), error);
        if (code == 0) code = write_plain(a, extra.bytes, extra.size, error);
    }
    return code;
}

static int write_end(cli_archive *a, uint64_t begin, cli_error *error) {
    enum { WIDE_END = 56, MANY = 0xFFFF };
    const uint64_t end = a->position, size = end - begin, count = a->count;
    record r = {.size = 0};
    if (count >= MANY || begin >= narrow || size >= narrow) {
        sign(&r, 6, 6);
        put(&r, WIDE_END - 12, 8);
        put(&r, 3 << 8 | WIDE_VERSION, 2);
        put(&r, WIDE_VERSION, 2);
        put(&r, 0, 8); /* one disk */
        put(&r, count, 8);
        put(&r, count, 8);
        put(&r, size, 8);
        put(&r, begin, 8);
        sign(&r, 6, 7);
        put(&r, 0, 4);
        put(&r, end, 8);
        put(&r, 1, 4);
    }
    sign(&r, 5, 6);
    put(&r, 0, 4);
    put(&r, clipped(count, MANY), 2);
    put(&r, clipped(count, MANY), 2);
    put(&r, clipped(size, narrow), 4);
    put(&r, clipped(begin, narrow), 4);
    put(&r, 0, 2); /* no comment */
    return write_plain(a, r.bytes, r.size, error);
}

int cli_archive_end(cli_archive *a, int code, cli_error *error) {
    if (a == NULL) return code;
    if (code == 0) code = finish_entry(a, error);
    const uint64_t begin = a->position;
    if (code == 0) code = write_directory(a, error);
    if (code == 0) code = write_end(a, begin, error);
    free(a->entries);
    free(a);
    return code;
}

int cli_write_npz(cli_output *output, const cli_array *arrays, size_t count, cli_error *error) {
    cli_archive *archive;
    if (count == 0)
        return cli_fail(error, CLI_EXIT_USAGE, "%s: npz needs a file and at least one array",
                        cli_short_path(cli_output_path(output)));
    int code = cli_archive_begin(output, &archive, error);
    for (size_t k = 0; code == 0 && k < count; k++) {
        size_t elements;
        int64_t bytes;
        code = cli_output_check(output, &arrays[k], &elements, &bytes, error);
        if (code == 0) code = cli_archive_entry(archive, &arrays[k], error);
        cli_bytes piece;
        cli_bytes_begin(&piece, &arrays[k], false);
        while (code == 0 && (code = cli_bytes_next(&piece, error)) == 0 && piece.size > 0)
            code = cli_archive_write(archive, piece.piece, piece.size, error);
    }
    return cli_archive_end(archive, code, error);
}
