/* Dispatch of array specs to formats, opening of hostile files, memory, streams of elements.
 *
 *   spec = path.npy | path.npz[:name] | path.safetensors[:name] | -
 *
 * The name begins at the first colon that follows `.npz` or `.safetensors`, so names may hold
 * colons and so may paths elsewhere. In memory element (i0, ..., ir) stands at i0*s0 + ... + ir
 * with s_k = shape[k+1]*...*shape[r]. */
#include "files_formats.h"
#include "src/base/integers.h"
#include "src/base/program/system_program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

int cli_allocate(size_t size, const cli_limits *limits, const char *label, void **out,
                 cli_error *error) {
    *out = NULL;
    if (limits->array_bytes > 0 && (uint64_t)size > (uint64_t)limits->array_bytes)
        return cli_fail(error, CLI_EXIT_LIMIT,
                        "%s: needs %zu bytes of memory, above the limit of %lld for one array",
                        cli_short_path(label), size, (long long)limits->array_bytes);
    /* Small arrays skip the look into /proc; malloc answers for them. */
    int64_t available = size < ((size_t)1 << 26) ? INT64_MAX : ota_memory_available();
    if ((uint64_t)size > (uint64_t)(available - available / 16) || size > PTRDIFF_MAX - 64 ||
        (*out = ota_program_allocate(size)) == NULL) {
        cli_fail(error, CLI_EXIT_LIMIT, "%s: needs %zu bytes of memory, more than is free",
                 cli_short_path(label), size);
        return cli_hint(error, "use a machine with more memory, or split the array");
    }
    return 0;
}

void cli_array_free(cli_array *array) {
    if (array == NULL) return;
    free(array->data);
    memset(array, 0, sizeof *array);
}

/* ---- files ---- */

static cli_limits with_defaults(const cli_limits *limits) {
    cli_limits filled = limits != NULL ? *limits : (cli_limits){0};
    if (filled.npy_header <= 0) filled.npy_header = 64 << 10;
    if (filled.npz_entries <= 0) filled.npz_entries = 65535;
    if (filled.npz_inflated <= 0) filled.npz_inflated = (int64_t)8 << 30;
    if (filled.safetensors_header <= 0) filled.safetensors_header = 100000000;
    if (filled.safetensors_tensors <= 0) filled.safetensors_tensors = 1000000;
    return filled;
}

int cli_file_open(const char *path, const cli_limits *limits, cli_file *file, cli_error *error) {
    *file = (cli_file){.descriptor = -1, .path = path, .limits = with_defaults(limits)};
    ota_path_kind kind;
    file->descriptor = ota_file_descriptor(path, true, &kind, &file->size);
    if (file->descriptor < 0 && kind != OTA_PATH_FOLDER)
        return cli_fail(error, CLI_EXIT_IO, "%s: cannot be opened: %s", cli_short_path(path),
                        strerror(errno));
    if (kind != OTA_PATH_FILE) {
        cli_file_close(file);
        cli_fail(error, CLI_EXIT_FILE, "%s: is %s, not a regular file", cli_short_path(path),
                 kind == OTA_PATH_FOLDER ? "a folder"
                 : kind == OTA_PATH_PIPE ? "a pipe"
                                         : "a device or socket");
        return kind == OTA_PATH_FOLDER
                   ? CLI_EXIT_FILE
                   : cli_hint(error, "pass an npy stream on standard input and name it -");
    }
    return 0;
}

/* Bytes that are read between two looks. */
enum { STEP = 1 << 20 };

int cli_file_read_at(const cli_file *file, void *buffer, size_t size, int64_t offset,
                     cli_error *error) {
    for (size_t done = 0; done < size;) {
        const int code = cli_look(error);
        if (code != 0) return code;
        const int64_t got =
            ota_descriptor_read(file->descriptor, (char *)buffer + done,
                                ota_size_min(size - done, STEP), offset + (int64_t)done);
        if (got < 0)
            return cli_fail(error, CLI_EXIT_IO, "%s: at byte %lld: cannot be read: %s",
                            cli_short_path(file->path), (long long)offset + (long long)done,
                            strerror(errno));
        if (got == 0)
            return cli_fail_at(error, file->path, offset + (int64_t)done,
                               "the file ends %zu bytes too early", size - done);
        done += (size_t)got;
    }
    return 0;
}

int cli_file_recheck(const cli_file *file, cli_error *error) {
    const int64_t size = ota_descriptor_size(file->descriptor);
    if (size < 0)
        return cli_fail(error, CLI_EXIT_IO, "%s: cannot be read: %s", cli_short_path(file->path),
                        strerror(errno));
    if (size != file->size)
        return cli_fail_at(error, file->path, file->size,
                           "the file changed its size while it was read");
    return 0;
}

void cli_file_close(cli_file *file) {
    if (file->descriptor >= 0) ota_descriptor_close(file->descriptor);
    file->descriptor = -1;
}

/* ---- streams ---- */

static int file_stream_read(cli_stream *stream, void *buffer, size_t size, size_t *got,
                            cli_error *error) {
    int64_t left = stream->end - stream->position;
    *got = (uint64_t)left < size ? (size_t)left : size;
    return cli_file_read_at(stream->file, buffer, *got, stream->base + stream->position, error);
}

cli_stream cli_stream_of_file(const cli_file *file, int64_t begin, int64_t end) {
    return (cli_stream){.read = file_stream_read,
                        .file = file,
                        .label = file->path,
                        .limits = &file->limits,
                        .base = begin,
                        .end = end - begin};
}

static int standard_input_read(cli_stream *stream, void *buffer, size_t size, size_t *got,
                               cli_error *error) {
    const int64_t result = ota_descriptor_next(OTA_STANDARD_INPUT, buffer, size);
    const int code = cli_look(error);
    if (code != 0) return code;
    if (result < 0)
        return cli_fail(error, CLI_EXIT_IO, "%s: cannot be read: %s", stream->label,
                        strerror(errno));
    *got = (size_t)result;
    return 0;
}

int cli_stream_read(cli_stream *stream, void *buffer, size_t size, cli_error *error) {
    for (size_t done = 0; done < size;) {
        size_t got = 0;
        int code = cli_look(error);
        if (code == 0)
            code = stream->read(stream, (char *)buffer + done, ota_size_min(size - done, STEP),
                                &got, error);
        if (code != 0) return code;
        if (got == 0)
            return cli_fail_at(error, stream->label, stream->base + stream->position,
                               "the array ends %zu bytes too early", size - done);
        stream->position += (int64_t)got;
        done += got;
    }
    return 0;
}

int cli_stream_finish(cli_stream *stream, cli_error *error) {
    char extra;
    size_t got = 0;
    int code = stream->read(stream, &extra, 1, &got, error);
    if (code == 0 && got != 0)
        return cli_fail_at(error, stream->label, stream->base + stream->position,
                           "bytes follow the end of the array");
    return code;
}

/* Integers through a small buffer: the file's elements are narrower than the array's, or checked.
 */
static int load_integers(cli_stream *stream, const cli_stored *stored, bool swap, int64_t *data,
                         size_t count, cli_error *error) {
    unsigned char piece[1 << 15];
    size_t element = stored->bits / 8, most = sizeof piece / element;
    for (size_t done = 0; done < count;) {
        size_t elements = ota_size_min(count - done, most);
        int code = cli_stream_read(stream, piece, elements * element, error);
        if (code != 0) return code;
        if (swap) cli_swap_bytes(piece, elements, element);
        for (size_t i = 0; i < elements; i++) {
            data[done + i] =
                cli_integer_at(piece, i, stored->bits, stored->conversion == CLI_SIGNED);
            if (stored->conversion == CLI_UNSIGNED && data[done + i] < 0)
                return cli_fail_at(error, stream->label,
                                   stream->base + stream->position -
                                       (int64_t)((elements - i) * element),
                                   "the unsigned integer is above 2^63 - 1");
        }
        done += elements;
    }
    return 0;
}

/* The first index runs fastest in `from`, the last in `to`. */
static int reorder_fortran(const unsigned char *from, unsigned char *to, const cli_array *array,
                           size_t element, cli_error *error) {
    size_t stride[CLI_MAX_RANK], index[CLI_MAX_RANK] = {0}, step = 1;
    for (int k = 0; k < array->rank; k++) {
        stride[k] = step * element;
        step *= (size_t)array->shape[k];
    }
    int last = array->rank - 1;
    const unsigned char *row = from;
    int code = 0;
    for (size_t done = 0; code == 0 && done < array->count; done += (size_t)array->shape[last]) {
        for (int64_t j = 0; j < array->shape[last] && code == 0; j++, to += element) {
            memcpy(to, row + (size_t)j * stride[last], element);
            if (((done + (size_t)j) & (STEP - 1)) == 0) code = cli_look(error);
        }
        for (int k = last - 1; k >= 0; k--) {
            row += stride[k];
            if (++index[k] < (size_t)array->shape[k]) break;
            row -= index[k] * stride[k];
            index[k] = 0;
        }
    }
    return code;
}

/* The stream's next `count` elements, in the memory's type. */
static int load_elements(cli_stream *stream, const cli_stored *stored, bool swap, void *data,
                         size_t count, cli_error *error) {
    if (stored->conversion == CLI_SIGNED || stored->conversion == CLI_UNSIGNED)
        return load_integers(stream, stored, swap, data, count, error);
    const size_t element = stored->bits / 8, most = STEP / element;
    int code = 0;
    for (size_t done = 0; code == 0 && done < count; done += most) {
        const size_t part = ota_size_min(count - done, most);
        unsigned char *at = (unsigned char *)data + done * element;
        code = cli_stream_read(stream, at, part * element, error);
        if (code == 0 && swap) cli_swap_bytes(at, part, element);
        for (size_t i = 0; stored->conversion == CLI_TRUTH && i < part; i++) at[i] = at[i] != 0;
    }
    return code;
}

/* The lines of the file's share, block by block of the leading dimensions; the bytes between are skipped. */
static int load_share(cli_stream *stream, const cli_stored *stored, bool swap, size_t element,
                      cli_array *out, cli_error *error) {
    const cli_share *share = &stream->file->share;
    const int64_t rows = out->shape[out->rank - 2], width = out->shape[out->rank - 1];
    const int64_t blocks = (int64_t)out->count / (rows * width), begin = stream->position;
    out->in_part = true;
    out->first = cli_share_begin(rows, share->rank, share->ranks);
    out->held = cli_share_begin(rows, share->rank + 1, share->ranks) - out->first;
    out->count = (size_t)(blocks * out->held * width);
    const size_t piece = (size_t)(out->held * width), line = (size_t)width * (stored->bits / 8);
    /* Never NULL: who holds no lines has an array all the same. */
    int code = cli_allocate(ota_size_max(out->count * element, 1), stream->limits, stream->label,
                            &out->data, error);
    for (int64_t b = 0; b < blocks && piece > 0 && code == 0; b++) {
        stream->position = begin + (b * rows + out->first) * (int64_t)line;
        code = load_elements(stream, stored, swap, (char *)out->data + (size_t)b * piece * element,
                             piece, error);
    }
    stream->position = begin + blocks * rows * (int64_t)line;
    return code;
}

int cli_stream_load(cli_stream *stream, const cli_stored *stored, bool big_endian, bool fortran,
                    cli_array *out, cli_error *error) {
    bool widened = stored->conversion == CLI_SIGNED || stored->conversion == CLI_UNSIGNED;
    size_t element = widened ? sizeof(int64_t) : stored->bits / 8, bytes;
    bool swap = big_endian != (bool)CLI_HOST_IS_BIG;
    out->type = stored->type;
    if (out->count == 0) return 0;
    if (__builtin_mul_overflow(out->count, element, &bytes)) bytes = SIZE_MAX;
    const cli_share *share = stream->file != NULL ? &stream->file->share : NULL;
    if (share != NULL && share->ranks > 1 && !fortran && out->rank >= 2 &&
        (share->rows < 0 || share->rows == out->shape[out->rank - 2]))
        return load_share(stream, stored, swap, element, out, error);
    int code = cli_allocate(bytes, stream->limits, stream->label, &out->data, error);
    if (code == 0) code = load_elements(stream, stored, swap, out->data, out->count, error);
    if (code != 0 || !fortran || out->rank < 2) return code;
    void *ordered;
    code = cli_allocate(bytes, stream->limits, stream->label, &ordered, error);
    if (code != 0) return code;
    code = reorder_fortran(out->data, ordered, out, element, error);
    free(out->data);
    out->data = ordered;
    return code;
}

/* ---- dispatch ---- */

typedef struct file_format {
    const char *extension;
    bool named; /* `:name` may follow */
    int (*read)(const cli_file *file, const char *name, cli_array *out, cli_error *error);
    int (*list)(const cli_file *file, cli_listing *out, cli_error *error);
    int (*write)(cli_output *output, const cli_array *arrays, size_t count, cli_error *error);
} file_format;

static int write_one_npy(cli_output *output, const cli_array *arrays, size_t count,
                         cli_error *error) {
    if (count != 1)
        return cli_fail(error, CLI_EXIT_USAGE, "%s: npy holds one array, not %zu",
                        cli_short_path(cli_output_path(output)), count);
    return cli_write_npy(output, arrays, error);
}

static int write_plain_safetensors(cli_output *output, const cli_array *arrays, size_t count,
                                   cli_error *error) {
    return cli_write_safetensors(output, arrays, count, NULL, 0, error);
}

static const file_format formats[] = {
    {".npy", false, npy_read, npy_list, write_one_npy},
    {".npz", true, npz_read, npz_list, cli_write_npz},
    {".safetensors", true, cli_safetensors_read, cli_safetensors_list, write_plain_safetensors},
};

enum { FORMATS = sizeof formats / sizeof *formats };

static const file_format *format_of(const char *path) {
    size_t length = strlen(path);
    for (size_t i = 0; i < FORMATS; i++) {
        size_t tail = strlen(formats[i].extension);
        if (length > tail && strcmp(path + length - tail, formats[i].extension) == 0)
            return &formats[i];
    }
    return NULL;
}

/* Where the colon before the array's name stands, or NULL. */
static const char *name_colon(const char *spec) {
    const char *first = NULL;
    for (size_t i = 0; i < FORMATS; i++) {
        const char *at = formats[i].named ? strstr(spec, formats[i].extension) : NULL;
        size_t tail = strlen(formats[i].extension);
        while (at != NULL && at[tail] != ':') at = strstr(at + 1, formats[i].extension);
        if (at != NULL && (first == NULL || at + tail < first)) first = at + tail;
    }
    return first;
}

static int open_with_format(const char *path, const cli_limits *limits, cli_file *file,
                            const file_format **format, cli_error *error) {
    int code = cli_file_open(path, limits, file, error);
    if (code != 0) return code;
    *format = format_of(path);
    if (*format != NULL) return 0;
    cli_file_close(file);
    cli_fail(error, CLI_EXIT_USAGE, "%s: the name does not say which kind of file this is",
             cli_short_path(path));
    return cli_hint(error, "name it FILE.npy, FILE.npz:NAME or FILE.safetensors:NAME");
}

static int read_standard_input(const cli_limits *limits, cli_array *out, cli_error *error) {
    cli_limits filled = with_defaults(limits);
    cli_stream stream = {
        .read = standard_input_read, .label = "standard input", .limits = &filled, .end = -1};
    return npy_read_stream(&stream, out, error);
}

static int read_from_path(const char *spec, const cli_limits *limits, const cli_share *share,
                          cli_array *out, cli_error *error) {
    const char *colon = name_colon(spec);
    char *path =
        colon != NULL ? cli_copy(spec, (size_t)(colon - spec)) : cli_copy(spec, strlen(spec));
    if (path == NULL) return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a file name");
    cli_file file;
    const file_format *format;
    int code = open_with_format(path, limits, &file, &format, error);
    if (code == 0) {
        if (share != NULL) file.share = *share;
        code = format->read(&file, colon != NULL ? colon + 1 : NULL, out, error);
        if (code == 0) code = cli_file_recheck(&file, error);
        cli_file_close(&file);
    }
    free(path);
    return code;
}

int cli_read_array(const char *spec, const cli_limits *limits, cli_array *out, cli_error *error) {
    memset(out, 0, sizeof *out);
    int code = strcmp(spec, "-") == 0 ? read_standard_input(limits, out, error)
                                      : read_from_path(spec, limits, NULL, out, error);
    if (code != 0) cli_array_free(out);
    return code;
}

int cli_read_share(const char *spec, const cli_share *share, cli_array *out, cli_error *error) {
    if (strcmp(spec, "-") == 0) return cli_read_array(spec, NULL, out, error);
    memset(out, 0, sizeof *out);
    const int code = read_from_path(spec, NULL, share, out, error);
    if (code != 0) cli_array_free(out);
    return code;
}

int cli_list_arrays(const char *path, const cli_limits *limits, cli_listing *out,
                    cli_error *error) {
    memset(out, 0, sizeof *out);
    cli_file file;
    const file_format *format;
    int code = open_with_format(path, limits, &file, &format, error);
    if (code != 0) return code;
    code = format->list(&file, out, error);
    if (code == 0) code = cli_file_recheck(&file, error);
    cli_file_close(&file);
    if (code != 0) cli_listing_free(out);
    return code;
}

int cli_write_arrays(cli_output *output, const cli_array *arrays, size_t count, cli_error *error) {
    const char *path = cli_output_path(output);
    const file_format *format = format_of(path);
    if (format != NULL) return format->write(output, arrays, count, error);
    if (cli_output_streams(output)) return write_one_npy(output, arrays, count, error);
    cli_fail(error, CLI_EXIT_USAGE, "%s: the name does not say which kind of file to write",
             cli_short_path(path));
    return cli_hint(error, "name it FILE.npy, FILE.npz or FILE.safetensors");
}

int cli_listing_add(cli_listing *listing, const cli_array *array, ota_type type, cli_error *error) {
    size_t count = listing->count;
    if ((count & (count - 1)) == 0) { /* full at 0, 1, 2, 4, ...: double */
        cli_entry *grown = realloc(listing->entries, (count == 0 ? 1 : 2 * count) * sizeof *grown);
        if (grown == NULL)
            return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for the list of arrays");
        listing->entries = grown;
    }
    cli_entry *entry = &listing->entries[count];
    *entry = (cli_entry){
        .name = cli_copy(array->name, strlen(array->name)), .type = type, .rank = array->rank};
    if (entry->name == NULL)
        return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for the list of arrays");
    memcpy(entry->stored, array->stored, sizeof entry->stored);
    memcpy(entry->shape, array->shape, sizeof entry->shape);
    listing->count++;
    return 0;
}

void cli_listing_free(cli_listing *listing) {
    for (size_t i = 0; i < listing->count; i++) free(listing->entries[i].name);
    free(listing->entries);
    memset(listing, 0, sizeof *listing);
}
