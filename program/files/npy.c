/* The .npy format, versions 1 to 3.
 *
 *   bytes 0-5 "\x93NUMPY" | 6 major | 7 minor | header length, 2 (v1) or 4 bytes, little-endian |
 *   header: {'descr': '<f8', 'fortran_order': False, 'shape': (n, m), } and blanks | elements
 *
 * The header is a Python literal; only the three keys and only strings, booleans and tuples of
 * plain integers are taken, so nothing in it is ever evaluated. Elements [shape] fill the file to
 * its last byte. Source: NumPy's format note (NEP 1 and numpy.lib.format). */
#define _POSIX_C_SOURCE 200809L
#include "files_formats.h"
#include "src/base/integers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct literal {
    const char *text;
    size_t size, position;
    const char *label;
    int64_t base; /* the stream offset of text[0], for messages */
    cli_error *error;
} literal;

static int refuse(const literal *header, const char *rule) {
    return cli_fail_at(header->error, header->label, header->base + (int64_t)header->position, "%s",
                       rule);
}

static void skip_blanks(literal *header) {
    while (header->position < header->size &&
           memchr(" \t\n", header->text[header->position], 3) != NULL)
        header->position++;
}

/* The next character after blanks, '\0' at the end; a NUL byte in the header matches nothing. */
static char peek(literal *header) {
    skip_blanks(header);
    return header->position < header->size ? header->text[header->position] : '\0';
}

static bool take(literal *header, char wanted) {
    if (peek(header) != wanted) return false;
    header->position++;
    return true;
}

/* A quoted string without escapes; longer than any word we know is as wrong as an unknown word. */
static int take_string(literal *header, char out[16]) {
    char quote = peek(header);
    if (quote != '\'' && quote != '"')
        return refuse(header, "the header must hold a quoted string here");
    header->position++;
    size_t length = 0;
    while (header->position < header->size && header->text[header->position] != quote) {
        char character = header->text[header->position];
        if (character < ' ' || character > '~' || character == '\\' || length == 15)
            return refuse(header, "the header's string is no key or type that npy knows");
        out[length++] = character;
        header->position++;
    }
    if (header->position == header->size) return refuse(header, "the header ends inside a string");
    header->position++;
    out[length] = '\0';
    return 0;
}

static int take_truth(literal *header, bool *out) {
    static const char *const words[] = {"False", "True"};
    skip_blanks(header);
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(words[i]);
        if (header->size - header->position >= length &&
            memcmp(header->text + header->position, words[i], length) == 0) {
            header->position += length;
            *out = i == 1;
            return 0;
        }
    }
    return refuse(header, "fortran_order must be True or False");
}

static int take_dimension(literal *header, int64_t *out) {
    const int64_t limit = (int64_t)1 << 48;
    char first = peek(header);
    if (first < '0' || first > '9')
        return refuse(header, "a dimension must be an integer of at least 0");
    *out = 0;
    size_t start = header->position;
    for (; header->position < header->size; header->position++) {
        char digit = header->text[header->position];
        if (digit < '0' || digit > '9') break;
        *out = *out * 10 + (digit - '0');
        if (*out > limit) return refuse(header, "a dimension is above 2^48");
    }
    if (first == '0' && header->position - start > 1)
        return refuse(header, "a dimension has a leading zero");
    return 0;
}

static int take_shape(literal *header, cli_array *out) {
    if (!take(header, '(')) return refuse(header, "shape must be a tuple of integers");
    bool comma = true;
    out->rank = 0;
    while (!take(header, ')')) {
        if (!comma) return refuse(header, "a comma is missing in the shape");
        if (out->rank == CLI_MAX_RANK) {
            refuse(header, "the shape has more than 8 dimensions");
            return header->error->exit_code = CLI_EXIT_LIMIT;
        }
        int code = take_dimension(header, &out->shape[out->rank]);
        if (code != 0) return code;
        out->rank++;
        comma = take(header, ',');
    }
    if (out->rank == 1 && !comma)
        return refuse(header, "shape must be a tuple: (n) without a comma is a number");
    return 0;
}

static int take_type(literal *header, cli_array *out, const cli_stored **stored, bool *big_endian) {
    if (peek(header) == '[')
        return refuse(header, "structured arrays are not read, only plain numbers");
    int code = take_string(header, out->stored);
    if (code != 0) return code;
    char order = out->stored[0];
    *stored = order != '\0' ? cli_stored_by_npy(out->stored + 1) : NULL;
    *big_endian = order == '>';
    bool one_byte = *stored != NULL && (*stored)->bits == 8;
    if (*stored != NULL && (order == '<' || order == '>' || (order == '|' && one_byte))) return 0;
    if (out->stored[0] == '|' && out->stored[1] == 'O')
        return refuse(header, "object arrays are not read: they hold programs, not numbers");
    refuse(header,
           "the array's type is not one of f8 f4 f2 b1 i8 i4 i2 i1 u8 u4 u2 u1 with < > or |");
    return cli_hint(header->error, "convert it, for example with numpy's astype(\"float64\")");
}

static int take_entries(literal *header, cli_array *out, const cli_stored **stored,
                        bool *big_endian, bool *fortran) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned seen = 0;
    bool comma = true;
    if (!take(header, '{'))
        return refuse(header, "the header must be a dictionary that starts with {");
    while (!take(header, '}')) {
        char key[16];
        if (!comma) return refuse(header, "a comma is missing in the header");
        int code = take_string(header, key);
        if (code != 0) return code;
        unsigned which = 0;
        while (which < 3 && strcmp(keys[which], key) != 0) which++;
        if (which == 3)
            return refuse(header, "the header's key is not descr, fortran_order or shape");
        if (seen & 1U << which) return refuse(header, "the header holds this key twice");
        seen |= 1U << which;
        if (!take(header, ':')) return refuse(header, "a colon must follow the key");
        code = which == 0   ? take_type(header, out, stored, big_endian)
               : which == 1 ? take_truth(header, fortran)
                            : take_shape(header, out);
        if (code != 0) return code;
        comma = take(header, ',');
    }
    if (seen != 7) return refuse(header, "the header must hold descr, fortran_order and shape");
    skip_blanks(header);
    if (header->position != header->size)
        return refuse(header, "only blanks may follow the header's dictionary");
    return 0;
}

/* The bytes before the header literal; *size, 0 before, is the literal's. */
static int read_prefix(cli_stream *stream, size_t *size, cli_error *error) {
    unsigned char prefix[12];
    int code = cli_stream_read(stream, prefix, 8, error);
    if (code != 0) return code;
    if (memcmp(prefix, "\x93NUMPY", 6) != 0)
        return cli_fail_at(error, stream->label, stream->base, "npy must start with \\x93NUMPY");
    unsigned major = prefix[6];
    if (major < 1 || major > 3 || prefix[7] != 0)
        return cli_fail_at(error, stream->label, stream->base + 6,
                           "npy version %u.%u is not 1.0, 2.0 or 3.0", major, prefix[7]);
    size_t bytes = major == 1 ? 2 : 4;
    code = cli_stream_read(stream, prefix + 8, bytes, error);
    if (code != 0) return code;
    for (size_t i = 0; i < bytes; i++) *size |= (size_t)prefix[8 + i] << (8 * i);
    if (stream->end >= 0 && *size > (uint64_t)(stream->end - stream->position))
        return cli_fail_at(error, stream->label, stream->base + 8,
                           "the header's %zu bytes go beyond the end of the file", *size);
    if (*size > (uint64_t)stream->limits->npy_header) {
        cli_fail_at(error, stream->label, stream->base + 8,
                    "the header's %zu bytes are above the limit of %lld", *size,
                    (long long)stream->limits->npy_header);
        return error->exit_code = CLI_EXIT_LIMIT;
    }
    return 0;
}

int npy_read_header(cli_stream *stream, cli_array *out, const cli_stored **stored, bool *big_endian,
                    bool *fortran, cli_error *error) {
    size_t size = 0;
    int code = read_prefix(stream, &size, error);
    if (code != 0) return code;
    int64_t base = stream->base + stream->position;
    char *text = malloc(size + 1);
    if (text == NULL) return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a header");
    code = cli_stream_read(stream, text, size, error);
    literal header = {
        .text = text, .size = size, .label = stream->label, .base = base, .error = error};
    if (code == 0) code = take_entries(&header, out, stored, big_endian, fortran);
    free(text);
    int64_t bytes;
    if (code == 0)
        code = cli_shape_check(out->shape, out->rank, (*stored)->bits, stream->label, base,
                               &out->count, &bytes, error);
    if (code == 0 && stream->end >= 0 && bytes != stream->end - stream->position)
        code = cli_fail_at(error, stream->label, stream->base + stream->position,
                           "the shape needs %lld bytes of elements and the file holds %lld",
                           (long long)bytes, (long long)(stream->end - stream->position));
    return code;
}

int npy_read_stream(cli_stream *stream, cli_array *out, cli_error *error) {
    const cli_stored *stored;
    bool big_endian, fortran;
    int code = npy_read_header(stream, out, &stored, &big_endian, &fortran, error);
    if (code == 0) code = cli_stream_load(stream, stored, big_endian, fortran, out, error);
    return code != 0 ? code : cli_stream_finish(stream, error);
}

int npy_read(const cli_file *file, const char *name, cli_array *out, cli_error *error) {
    (void)name; /* the dispatcher splits no name off a .npy path */
    cli_stream stream = cli_stream_of_file(file, 0, file->size);
    return npy_read_stream(&stream, out, error);
}

int npy_list(const cli_file *file, cli_listing *out, cli_error *error) {
    cli_stream stream = cli_stream_of_file(file, 0, file->size);
    cli_array array = {0};
    const cli_stored *stored;
    bool big_endian, fortran;
    int code = npy_read_header(&stream, &array, &stored, &big_endian, &fortran, error);
    return code != 0 ? code : cli_listing_add(out, &array, stored->type, error);
}

/* ---- writing ---- */

int npy_make_header(const cli_array *array, char **header, size_t *size, cli_error *error) {
    const cli_stored *stored = cli_stored_by_type(array->type);
    if (stored->npy == NULL) {
        cli_fail(error, CLI_EXIT_USAGE, "npy has no word for bfloat16");
        return cli_hint(error, "write a .safetensors file, or choose another --out-dtype");
    }
    enum { PREFIX = 10, MOST = 256 }; /* 8 dimensions take 15 digits and 2 of punctuation each */
    char order = stored->bits == 8 ? '|' : CLI_HOST_IS_BIG ? '>' : '<';
    char shape[MOST] = "";
    size_t used = 0;
    for (int k = 0; k < array->rank; k++)
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", k > 0 ? ", " : "",
                                 (long long)array->shape[k]);
    char text[MOST + 128];
    int length =
        snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s%s), }",
                 order, stored->npy, shape, array->rank == 1 ? "," : "");
    size_t total = ota_size_round_up(PREFIX + (size_t)length + 1, 64),
           literal_size = total - PREFIX;
    char *bytes = malloc(total);
    if (bytes == NULL) return cli_fail(error, CLI_EXIT_LIMIT, "no memory is left for a header");
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (char)(literal_size & 0xFF);
    bytes[9] = (char)(literal_size >> 8);
    memcpy(bytes + PREFIX, text, (size_t)length);
    memset(bytes + PREFIX + length, ' ', literal_size - (size_t)length - 1);
    bytes[total - 1] = '\n';
    *header = bytes;
    *size = total;
    return 0;
}

int cli_write_npy(cli_output *output, const cli_array *array, cli_error *error) {
    size_t count, size;
    int64_t bytes;
    char *header;
    int code = cli_output_check(output, array, &count, &bytes, error);
    if (code == 0) code = npy_make_header(array, &header, &size, error);
    if (code != 0) return code;
    code = cli_output_write(output, header, size, error);
    free(header);
    return code != 0 ? code : cli_output_elements(output, array, false, error);
}
