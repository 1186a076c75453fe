/* What the three formats and the dispatcher of files.c share: an opened regular file, a forward
 * stream of bytes over a file, a zip entry or stdin, and the table of element types.
 *
 * Every reader ends in tool_stream_load: count = product(shape) elements of `stored` bytes become a
 * dense C-ordered array of an ota_type. */
#ifndef OTATTN_PROGRAM_FILES_FORMATS_H
#define OTATTN_PROGRAM_FILES_FORMATS_H

#include "files.h"

/* ---- errors ---- */

/* Both return the exit code. The first names no place, the second is always a bad file (exit 4) and
 * says `label: at byte offset: rule`. */
int tool_fail(tool_error *error, int exit_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int tool_fail_at(tool_error *error, const char *label, int64_t offset, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int tool_hint(tool_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The end of a path too long for a sentence. */
const char *tool_short_path(const char *path);

/* ---- memory ---- */

/* 64-byte aligned, checked against limits->array_bytes and the machine's free memory; size > 0. */
int tool_allocate(size_t size, const tool_limits *limits, const char *label, void **out,
                  tool_error *error);

/* ---- element types ---- */

typedef enum tool_conversion {
    TOOL_KEEP,    /* same bits in memory */
    TOOL_TRUTH,   /* any byte but 0 is true; stored in memory as 1 */
    TOOL_SIGNED,  /* widened to int64 */
    TOOL_UNSIGNED /* widened to int64, refused above 2^63 - 1 */
} tool_conversion;

typedef struct tool_stored {
    const char *npy; /* kind and size without byte order; NULL where npy has no such type */
    const char *safetensors;
    unsigned bits;
    ota_type type;
    tool_conversion conversion;
} tool_stored;

/* NULL for a word whose elements are not read. */
const tool_stored *tool_stored_by_npy(const char *word);
const tool_stored *tool_stored_by_safetensors(const char *word);
/* The row that writes `type`; NULL for OTA_NO_TYPE. */
const tool_stored *tool_stored_by_type(ota_type type);
/* Element `i` of native-order integers; unsigned values above 2^63 - 1 turn negative. */
int64_t tool_integer_at(const unsigned char *raw, size_t i, unsigned bits, bool is_signed);
/* Reverses the bytes of each element. */
void tool_swap_bytes(void *data, size_t count, size_t element_bytes);

enum { TOOL_HOST_IS_BIG = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

/* rank <= 8, dims <= 2^48, product of the nonzero dims <= 2^62 whatever their order; *count =
 * product and *bytes = the bytes they take in the file. */
int tool_shape_check(const int64_t *shape, int rank, unsigned bits, const char *label,
                     int64_t offset, size_t *count, int64_t *bytes, tool_error *error);

/* ---- files and streams ---- */

typedef struct tool_file {
    int descriptor;
    int64_t size; /* fixed at opening */
    const char *path;
    tool_limits limits; /* defaults filled in */
    tool_share share;
} tool_file;

int tool_file_open(const char *path, const tool_limits *limits, tool_file *file, tool_error *error);
/* Reads exactly size bytes; a shorter file is an error. */
int tool_file_read_at(const tool_file *file, void *buffer, size_t size, int64_t offset,
                      tool_error *error);
/* After the last read: a file that changed its size meanwhile is refused. */
int tool_file_recheck(const tool_file *file, tool_error *error);
void tool_file_close(tool_file *file);

typedef struct tool_stream tool_stream;
struct tool_stream {
    /* Up to size bytes; *got = 0 only at the end. */
    int (*read)(tool_stream *stream, void *buffer, size_t size, size_t *got, tool_error *error);
    const tool_file *file; /* file streams */
    void *handle;          /* zip entries: libzip's own */
    const char *label;     /* for messages: the path, or path:name */
    const tool_limits *limits;
    int64_t base;     /* file offset of the stream's first byte */
    int64_t position; /* bytes handed out so far */
    int64_t end;      /* total bytes, -1 where only the end will tell */
};

tool_stream tool_stream_of_file(const tool_file *file, int64_t begin, int64_t end);
/* Exactly size bytes, or an error that says where they ended. */
int tool_stream_read(tool_stream *stream, void *buffer, size_t size, tool_error *error);
/* Refuses a stream that has bytes left; makes libzip check its checksum. */
int tool_stream_finish(tool_stream *stream, tool_error *error);
/* Reads the elements of out->shape, or the file's share of them, into out->data (type, count, data and `stored` bytes are
 * set). */
int tool_stream_load(tool_stream *stream, const tool_stored *stored, bool big_endian, bool fortran,
                     tool_array *out, tool_error *error);

/* ---- formats: one row of the table in files.c each ---- */

int tool_npy_read_stream(tool_stream *stream, tool_array *out, tool_error *error);
/* Reads the header only: everything of `out` but data. */
int tool_npy_read_header(tool_stream *stream, tool_array *out, const tool_stored **stored,
                         bool *big_endian, bool *fortran, tool_error *error);
/* Header bytes of version 1.0, padded so that data starts at a multiple of 64; malloc'ed. */
int tool_npy_make_header(const tool_array *array, char **header, size_t *size, tool_error *error);

/* `name` NULL: the file must hold exactly one array. */
int tool_npy_read(const tool_file *file, const char *name, tool_array *out, tool_error *error);
int tool_npz_read(const tool_file *file, const char *name, tool_array *out, tool_error *error);
int tool_safetensors_read(const tool_file *file, const char *name, tool_array *out,
                          tool_error *error);
int tool_npy_list(const tool_file *file, tool_listing *out, tool_error *error);
int tool_npz_list(const tool_file *file, tool_listing *out, tool_error *error);
int tool_safetensors_list(const tool_file *file, tool_listing *out, tool_error *error);
/* Appends; takes a copy of array->name. */
int tool_listing_add(tool_listing *listing, const tool_array *array, ota_type type,
                     tool_error *error);
/* The exit-2 sentence for a missing or ambiguous name: lists the first names through `name_of`. */
int tool_fail_names(tool_error *error, const char *path, const char *wanted, size_t count,
                    const char *(*name_of)(const void *context, size_t index), const void *context);

/* ---- outputs, for the writers ---- */

/* To standard output or a device? */
bool tool_output_streams(const tool_output *output);
/* The temporary file's path, for writers that need one; from here on a killed program leaves that file. */
int tool_output_temporary(tool_output *output, const char **path, tool_error *error);
const char *tool_output_path(const tool_output *output);
/* After another writer replaced the temporary file. */
int tool_output_reopen(tool_output *output, tool_error *error);
/* The elements of an array as the bytes of a file, piece by piece: up to `size` of them, fewer only at the end. */
typedef struct tool_bytes {
    const tool_array *array;
    bool swap;    /* files of the other byte order */
    size_t taken; /* elements */
    size_t begin, end;
    _Alignas(8) unsigned char piece[1 << 16];
} tool_bytes;

void tool_bytes_begin(tool_bytes *bytes, const tool_array *array, bool swap);
int tool_bytes_read(tool_bytes *bytes, void *to, size_t size, size_t *got, tool_error *error);
/* All of them into the output. */
int tool_output_elements(tool_output *output, const tool_array *array, bool swap,
                         tool_error *error);
/* A type, rank, shape and count that a writer can trust; sets *count and *bytes. */
int tool_output_check(const tool_output *output, const tool_array *array, size_t *count,
                      int64_t *bytes, tool_error *error);

#endif
