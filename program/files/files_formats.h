/* What the three formats and the dispatcher of files.c share: an opened regular file, a forward
 * stream of bytes over a file, a zip entry or stdin, and the table of element types.
 *
 * Every reader ends in cli_stream_load: count = product(shape) elements of `stored` bytes become a
 * dense C-ordered array of an ota_type. */
#ifndef OTATTN_PROGRAM_FILES_FORMATS_H
#define OTATTN_PROGRAM_FILES_FORMATS_H

#include "files.h"

/* ---- errors ---- */

/* Both return the exit code. The first names no place, the second is always a bad file (exit 4) and
 * says `label: at byte offset: rule`. */
int cli_fail(cli_error *error, int exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int cli_fail_at(cli_error *error, const char *label, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int cli_hint(cli_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The end of a path too long for a sentence. */
const char *cli_short_path(const char *path);

/* ---- memory ---- */

/* 64-byte aligned, checked against limits->array_bytes and the machine's free memory; size > 0. */
int cli_allocate(size_t size, const cli_limits *limits, const char *label, void **out,
                 cli_error *error);

/* ---- element types ---- */

typedef enum cli_conversion {
    CLI_KEEP,    /* same bits in memory */
    CLI_TRUTH,   /* any byte but 0 is true; stored in memory as 1 */
    CLI_SIGNED,  /* widened to int64 */
    CLI_UNSIGNED /* widened to int64, refused above 2^63 - 1 */
} cli_conversion;

typedef struct cli_stored {
    const char *npy; /* kind and size without byte order; NULL where npy has no such type */
    const char *safetensors;
    unsigned bits;
    ota_type type;
    cli_conversion conversion;
} cli_stored;

/* NULL for a word whose elements are not read. */
const cli_stored *cli_stored_by_npy(const char *word);
const cli_stored *cli_stored_by_safetensors(const char *word);
/* The row that writes `type`; NULL for OTA_NO_TYPE. */
const cli_stored *cli_stored_by_type(ota_type type);
/* Element `i` of native-order integers; unsigned values above 2^63 - 1 turn negative. */
int64_t cli_integer_at(const unsigned char *raw, size_t i, unsigned bits, bool is_signed);
/* Reverses the bytes of each element. */
void cli_swap_bytes(void *data, size_t count, size_t element_bytes);

enum { CLI_HOST_IS_BIG = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

/* rank <= 8, dims <= 2^48, product of the nonzero dims <= 2^62 whatever their order; *count =
 * product and *bytes = the bytes they take in the file. */
int cli_shape_check(const int64_t *shape, int rank, unsigned bits, const char *label,
                    int64_t offset, size_t *count, int64_t *bytes, cli_error *error);

/* ---- files and streams ---- */

typedef struct cli_file {
    int descriptor;
    int64_t size; /* fixed at opening */
    const char *path;
    cli_limits limits; /* defaults filled in */
    cli_share share;
} cli_file;

int cli_file_open(const char *path, const cli_limits *limits, cli_file *file, cli_error *error);
/* Reads exactly size bytes; a shorter file is an error. */
int cli_file_read_at(const cli_file *file, void *buffer, size_t size, int64_t offset,
                     cli_error *error);
/* After the last read: a file that changed its size meanwhile is refused. */
int cli_file_recheck(const cli_file *file, cli_error *error);
void cli_file_close(cli_file *file);

typedef struct cli_stream cli_stream;
struct cli_stream {
    /* Up to size bytes; *got = 0 only at the end. */
    int (*read)(cli_stream *stream, void *buffer, size_t size, size_t *got, cli_error *error);
    const cli_file *file; /* file streams */
    void *handle;         /* zip entries: libzip's own */
    const char *label;    /* for messages: the path, or path:name */
    const cli_limits *limits;
    int64_t base;     /* file offset of the stream's first byte */
    int64_t position; /* bytes handed out so far */
    int64_t end;      /* total bytes, -1 where only the end will tell */
};

cli_stream cli_stream_of_file(const cli_file *file, int64_t begin, int64_t end);
/* Exactly size bytes, or an error that says where they ended. */
int cli_stream_read(cli_stream *stream, void *buffer, size_t size, cli_error *error);
/* Refuses a stream that has bytes left; makes libzip check its checksum. */
int cli_stream_finish(cli_stream *stream, cli_error *error);
/* Reads the elements of out->shape, or the file's share of them, into out->data (type, count, data and `stored` bytes are
 * set). */
int cli_stream_load(cli_stream *stream, const cli_stored *stored, bool big_endian, bool fortran,
                    cli_array *out, cli_error *error);

/* ---- formats: one row of the table in files.c each ---- */

int npy_read_stream(cli_stream *stream, cli_array *out, cli_error *error);
/* Reads the header only: everything of `out` but data. */
int npy_read_header(cli_stream *stream, cli_array *out, const cli_stored **stored, bool *big_endian,
                    bool *fortran, cli_error *error);
/* Header bytes of version 1.0, padded so that data starts at a multiple of 64; malloc'ed. */
int npy_make_header(const cli_array *array, char **header, size_t *size, cli_error *error);

/* `name` NULL: the file must hold exactly one array. */
int npy_read(const cli_file *file, const char *name, cli_array *out, cli_error *error);
int npz_read(const cli_file *file, const char *name, cli_array *out, cli_error *error);
int cli_safetensors_read(const cli_file *file, const char *name, cli_array *out, cli_error *error);
int npy_list(const cli_file *file, cli_listing *out, cli_error *error);
int npz_list(const cli_file *file, cli_listing *out, cli_error *error);
int cli_safetensors_list(const cli_file *file, cli_listing *out, cli_error *error);
/* Appends; takes a copy of array->name. */
int cli_listing_add(cli_listing *listing, const cli_array *array, ota_type type, cli_error *error);
/* The exit-2 sentence for a missing or ambiguous name: lists the first names through `name_of`. */
int cli_fail_names(cli_error *error, const char *path, const char *wanted, size_t count,
                   const char *(*name_of)(const void *context, size_t index), const void *context);

/* ---- outputs, for the writers ---- */

/* To standard output or a device? */
bool cli_output_streams(const cli_output *output);
const char *cli_output_path(const cli_output *output);
/* Bytes in the place of others, of an output that is a file. */
int cli_output_patch(cli_output *output, int64_t offset, const void *bytes, size_t size,
                     cli_error *error);
/* The elements of an array as the bytes of a file, piece by piece; at the end an empty one. */
typedef struct cli_bytes {
    const cli_array *array;
    bool swap;    /* files of the other byte order */
    size_t taken; /* elements */
    size_t size;  /* bytes of the piece */
    _Alignas(8) unsigned char piece[1 << 16];
} cli_bytes;

void cli_bytes_begin(cli_bytes *bytes, const cli_array *array, bool swap);
int cli_bytes_next(cli_bytes *bytes, cli_error *error);
/* All of them into the output. */
int cli_output_elements(cli_output *output, const cli_array *array, bool swap, cli_error *error);
/* A type, rank, shape and count that a writer can trust; sets *count and *bytes. */
int cli_output_check(const cli_output *output, const cli_array *array, size_t *count,
                     int64_t *bytes, cli_error *error);

#endif
