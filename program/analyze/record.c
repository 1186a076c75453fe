/* One file a window, written whole or not at all, told from damage by its SHA-256.
 *
 *   "otattn window 1\n" | index tokens states heads probes variants, int64 | ids int64 [tokens]
 *   | values f64 [run_record_size] | sha256 of all before, 32 bytes           little-endian */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze.h"
#include "src/base/system.h"

enum { MAGIC = 16, FIELDS = 6 };

static const char magic[MAGIC + 1] = "otattn window 1\n";

typedef struct header {
    char magic[MAGIC];
    int64_t fields[FIELDS];
} header;

static header header_of(const run_record *record) {
    const run_shape *s = &record->shape;
    header h = {.fields = {record->index, s->tokens, s->states, s->heads, s->probes, s->variants}};
    memcpy(h.magic, magic, MAGIC);
    return h;
}

int64_t run_record_values_at(const run_shape *shape) {
    return (int64_t)sizeof(header) + shape->tokens * (int64_t)sizeof(int64_t);
}

double *run_record_column(const run_record *record, int variant, int probe, run_column column) {
    const int64_t offset = run_column_offset(&record->shape, variant, probe, column);
    return offset < 0 ? NULL : record->values + offset;
}

int run_record_resize(cli_context *context, run_record *record, const run_shape *shape) {
    const size_t ids = (size_t)shape->tokens, values = (size_t)run_record_size(shape);
    if (ids > record->room_ids || values > record->room_values) {
        run_record_free(record);
        record->ids = malloc(ids * sizeof *record->ids);
        record->values = malloc(values * sizeof *record->values);
        if (record->ids == NULL || record->values == NULL)
            return cli_fail(&context->error, CLI_EXIT_LIMIT,
                            "no memory is left for the numbers of a window");
        record->room_ids = ids;
        record->room_values = values;
    }
    record->shape = *shape;
    /* A number that a window does not have is the same in every run. */
    for (size_t k = 0; k < values; k++) record->values[k] = (double)NAN;
    return 0;
}

void run_record_free(run_record *record) {
    free(record->ids);
    free(record->values);
    *record = (run_record){.index = record->index};
}

static void hash_record(const run_record *record, unsigned char digest[SHA256_DIGEST_LENGTH]) {
    const header h = header_of(record);
    SHA2_CTX hash;
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)&h, sizeof h);
    SHA256Update(&hash, (const uint8_t *)record->ids,
                 (size_t)record->shape.tokens * sizeof *record->ids);
    SHA256Update(&hash, (const uint8_t *)record->values,
                 (size_t)run_record_size(&record->shape) * sizeof *record->values);
    SHA256Final(digest, &hash);
}

int run_record_write(cli_context *context, const run_record *record, const char *path) {
    const header h = header_of(record);
    unsigned char digest[SHA256_DIGEST_LENGTH];
    cli_error *error = &context->error;
    cli_output *output = NULL;
    hash_record(record, digest);
    int code = cli_output_begin(path, true, &output, error);
    if (code == 0) code = cli_output_write(output, &h, sizeof h, error);
    if (code == 0)
        code = cli_output_write(output, record->ids,
                                (size_t)record->shape.tokens * sizeof *record->ids, error);
    if (code == 0)
        code = cli_output_write(output, record->values,
                                (size_t)run_record_size(&record->shape) * sizeof *record->values,
                                error);
    if (code == 0) code = cli_output_write(output, digest, sizeof digest, error);
    return cli_output_end(output, code, error);
}

static bool read_whole(FILE *stream, run_record *record) {
    const header wanted = header_of(record);
    header found;
    unsigned char digest[SHA256_DIGEST_LENGTH], computed[SHA256_DIGEST_LENGTH];
    const size_t ids = (size_t)record->shape.tokens;
    const size_t values = (size_t)run_record_size(&record->shape);
    if (fread(&found, sizeof found, 1, stream) != 1 || memcmp(&found, &wanted, sizeof found) != 0)
        return false;
    if (fread(record->ids, sizeof *record->ids, ids, stream) != ids ||
        fread(record->values, sizeof *record->values, values, stream) != values ||
        fread(digest, sizeof digest, 1, stream) != 1 || fgetc(stream) != EOF)
        return false;
    hash_record(record, computed);
    return memcmp(digest, computed, sizeof digest) == 0;
}

int run_record_read(cli_context *context, run_record *record, const char *path, bool *valid) {
    *valid = false;
    FILE *stream = ota_file_reader(path);
    if (stream == NULL && errno == ENOENT) return 0;
    if (stream == NULL)
        return cli_fail(&context->error, CLI_EXIT_IO, "%s: cannot be opened: %s",
                        cli_short_path(path), strerror(errno));
    *valid = read_whole(stream, record);
    (void)fclose(stream);
    return 0;
}
