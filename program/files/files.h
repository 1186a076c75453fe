/* program/files/: Array files in and out: npy, npz and safetensors, outputs that appear whole or not at all, arrays
 * read once (store.c), element types (convert.c), texts. Files are hostile until read: every size is checked before
 * memory is taken. A format is a row of the table in files.c. It may call the public headers and program.h.
 *
 * Array files of the program: .npy, .npz and .safetensors in and out, `-` for npy on stdin and
 * stdout.
 *
 * An array is named by a spec: `file.npy`, `file.npz:name`, `file.safetensors:name`, or `-`. A file
 * that holds exactly one array needs no `:name`. Whatever the file's byte order and memory order,
 * an array in memory is dense, C-ordered, of native byte order, shape [shape[0], ...,
 * shape[rank-1]]. Files are hostile until read: every size is checked against the file's true
 * length, a limit and the memory at hand before anything is allocated for it.
 *
 * Every call returns 0, or the program's exit code, also found in error->exit_code. */
#ifndef OTATTN_PROGRAM_FILES_H
#define OTATTN_PROGRAM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "otattn.h"
#include "otattn_tensors.h"

enum {
    CLI_EXIT_INTERNAL = 1,
    CLI_EXIT_USAGE = 2, /* a name or value the user can correct, an existing output without -f */
    CLI_EXIT_FILE = 4,  /* the file breaks a rule of its format */
    CLI_EXIT_LIMIT = 5, /* the file is well-formed so far but larger than a limit, or than memory */
    CLI_EXIT_IO = 6,    /* missing, unreadable, unwritable, disk full */
    CLI_EXIT_INTERRUPTED = 130
};

enum { CLI_MAX_RANK = 8, CLI_MAX_NAME = OTA_TENSOR_NAME };

/* Filled on failure: valid UTF-8 without control characters, whatever the file's names hold.
 * `field` is the caller's (the flag that named the file): no call here reads or writes it. */
typedef struct cli_error {
    int exit_code;
    char field[64];
    char message[512];
    char hint[256];
} cli_error;

/* Whether Ctrl-C has come, in steps of a file at most a megabyte apart: its exit code with the sentence, else 0. */
int cli_look(cli_error *error);

/* 0 means the default in brackets; values above a default are honoured, so only an explicit option
 * may set them. */
typedef struct cli_limits {
    int64_t array_bytes;        /* memory for one array and its conversion [what the machine has] */
    int64_t npy_header;         /* [64 KiB] */
    int64_t npz_entries;        /* [65,535] */
    int64_t npz_inflated;       /* bytes of all entries of one archive together [8 GiB] */
    int64_t safetensors_header; /* [100,000,000] */
    int64_t safetensors_tensors; /* [1,000,000] */
} cli_limits;

/* Where a writer takes elements that are not in one piece of memory. */
typedef struct cli_elements {
    /* The next `count` elements of the array, in its type, into `to`: 0, or an exit code with the error filled. */
    int (*next)(void *user, void *to, size_t count, cli_error *error);
    void *user;
} cli_elements;

/* Owns `data`: of ota_program_allocate, NULL when count is 0. For the writers the caller fills data, type,
 * rank, shape and name and keeps ownership. Integer types of files become OTA_I64. */
typedef struct cli_array {
    void *data;
    ota_type type;
    int rank;
    int64_t shape[CLI_MAX_RANK];
    size_t count;                /* product of shape */
    char stored[16];             /* the file's own word for the type: "<f8", ">i4", "BF16" */
    char name[CLI_MAX_NAME + 1]; /* name inside the file, "" for .npy */
    /* Read in part: of dimension rank - 2 data holds only `held` lines from `first` on, and count is theirs. */
    bool in_part;
    int64_t first, held;
    const cli_elements *elements; /* for the writers, in the place of data */
} cli_array;

/* One process's part of what `ranks` processes read together: of dimension rank - 2, where that has `rows` lines (-1: any
 * number). ranks 0: all of it. */
typedef struct cli_share {
    int rank, ranks;
    int64_t rows;
} cli_share;

/* Where the lines of `rank` begin; those of rank + 1 are behind its last. */
static inline int64_t cli_share_begin(int64_t rows, int rank, int ranks) {
    return rows / ranks * rank + (rows % ranks < rank ? rows % ranks : rank);
}

/* How many lines of `rows` this share has: all without one. */
static inline int64_t cli_share_held(const cli_share *share, int64_t rows) {
    return share->ranks > 1 ? cli_share_begin(rows, share->rank + 1, share->ranks) -
                                  cli_share_begin(rows, share->rank, share->ranks)
                            : rows;
}

/* One row of a file's table of contents. type is OTA_NO_TYPE where the program cannot read the
 * type. */
typedef struct cli_entry {
    char *name;
    char stored[16];
    ota_type type;
    int rank;
    int64_t shape[CLI_MAX_RANK];
} cli_entry;

typedef struct cli_listing {
    cli_entry *entries;
    size_t count;
} cli_listing;

/* `limits` may be NULL (all defaults). On failure `out` is all zeros. */
int cli_read_array(const char *spec, const cli_limits *limits, cli_array *out, cli_error *error);
/* The same, but only this share is read where the elements of a line lie together in the file: .npy in C order and
 * .safetensors. Of other files, and of other shapes, all of it: out->in_part tells. */
int cli_read_share(const char *spec, const cli_share *share, cli_array *out, cli_error *error);
void cli_array_free(cli_array *array);
/* All elements, as cli_convert, between looks. */
int cli_convert_array(const cli_array *array, void *to, ota_type type, cli_error *error);

/* Names, types and shapes of all arrays of a file, in the file's order; `path` without `:name`. */
int cli_list_arrays(const char *path, const cli_limits *limits, cli_listing *out, cli_error *error);
void cli_listing_free(cli_listing *listing);

/* The string under `key` in a safetensors file's __metadata__; the caller frees it. *value is NULL,
 * and the call succeeds, when the file has no such key. */
int cli_safetensors_metadata(const char *path, const char *key, const cli_limits *limits,
                             char **value, cli_error *error);

/* ---- outputs ----
 * An output is written under a temporary name in its own folder and gets its name at commit:
 * readers see the whole file or none. `-` goes to stdout as it is written. An existing character
 * device or FIFO is written in place. */
typedef struct cli_output cli_output;

typedef struct cli_metadata {
    const char *key, *value;
} cli_metadata;

/* Refuses an existing file unless `force`. The caller ends the output by commit or abort. */
int cli_output_begin(const char *path, bool force, cli_output **output, cli_error *error);
/* Any bytes: reports, tables, JSON. */
int cli_output_write(cli_output *output, const void *bytes, size_t size, cli_error *error);
int cli_write_npy(cli_output *output, const cli_array *array, cli_error *error);
int cli_write_npz(cli_output *output, const cli_array *arrays, size_t count, cli_error *error);
/* An .npz whose arrays come one after another, each announced (`data` is not used) and then written as it is in memory. */
typedef struct cli_archive cli_archive;
int cli_archive_begin(cli_output *output, cli_archive **archive, cli_error *error);
int cli_archive_entry(cli_archive *archive, const cli_array *array, cli_error *error);
int cli_archive_write(cli_archive *archive, const void *bytes, size_t size, cli_error *error);
/* Writes the directory unless `code` says that something failed; frees. */
int cli_archive_end(cli_archive *archive, int code, cli_error *error);
/* `metadata` (may be NULL) becomes __metadata__. */
int cli_write_safetensors(cli_output *output, const cli_array *arrays, size_t count,
                          const cli_metadata *metadata, size_t metadata_count, cli_error *error);
/* Only the header of a safetensors file whose elements the caller then writes in this order, dense and
 * little-endian; `data` is not used. */
int cli_write_safetensors_header(cli_output *output, const cli_array *arrays, size_t count,
                                 cli_error *error);
/* One of the three above by the output's name; .npy and `-` hold exactly one array. */
int cli_write_arrays(cli_output *output, const cli_array *arrays, size_t count, cli_error *error);
/* Gives every output its name, or, when one fails, none of them, as far as the file system can take
 * a rename back. Frees all outputs either way; NULL entries are skipped. */
int cli_outputs_commit(cli_output **outputs, size_t count, cli_error *error);
int cli_output_commit(cli_output *output, cli_error *error);
/* Commits where `code` is 0, else aborts; returns `code` or what went wrong at commit. */
int cli_output_end(cli_output *output, int code, cli_error *error);
/* A whole file at once. */
int cli_write_file(const char *path, bool force, const void *bytes, size_t size, cli_error *error);
/* Removes the temporary file and frees; NULL is allowed. */
void cli_output_abort(cli_output *output);

/* ---- memory.c: refusals of memory that nobody could answer ---- */

/* From here on jansson's are noted; what json_dumps gives is freed by cli_memory_free. */
void cli_memory_watch(void);
void cli_memory_free(void *block);
void cli_memory_note(void);
/* The block that was just allocated; notes where there is none. */
void *cli_noted(void *block);
/* The first `size` bytes of a text, ended by a NUL, allocated; NULL without memory. */
char *cli_copy(const char *text, size_t size);
/* Something that is to be shown or written lacks a part: it must not leave the program. */
bool cli_memory_short(void);
/* Before the sentence that says so. */
void cli_memory_forget(void);

/* ---- csv.c: text made in memory ---- */

/* Stays where it is while it has a stream. */
typedef struct cli_text {
    FILE *stream;
    char *
        text; /* whole after cli_text_end, with a NUL behind it; freed by the caller, also after a failure */
    size_t size, room;
    bool begun; /* the table's line has a cell */
} cli_text;

int cli_text_begin(cli_text *text, cli_error *error);
/* Returns `code`, or where that is 0 what went wrong. */
int cli_text_end(cli_text *text, int code, cli_error *error);

#endif
