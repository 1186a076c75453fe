/* Arrays out of .safetensors files: the table of contents is read by ota_safetensors_open
 * (otattn_tensors.h), the elements by the program's own streams, so that every format ends in the same
 * types and the same checks. */
#include "files_formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_tensors.h"
#include "src/base/program/system_program.h"

static int fail_status(ota_status status, const ota_error *cause, cli_error *error) {
    if (status == OTA_CANCELLED) return cli_look(error);
    const int exit_code = status == OTA_EFORMAT ? CLI_EXIT_FILE
                          : status == OTA_EIO   ? CLI_EXIT_IO
                                                : CLI_EXIT_LIMIT;
    return cli_fail(error, exit_code, "%s", cause->message);
}

static int open_table(const cli_file *file, ota_tensors **table, cli_error *error) {
    const ota_tensor_limits limits = {.header_bytes = file->limits.safetensors_header,
                                      .tensors = file->limits.safetensors_tensors,
                                      .cancel = ota_program_interrupts()};
    ota_error cause;
    const ota_status status =
        ota_safetensors_open(table, file->descriptor, file->size, file->path, &limits, &cause);
    return status == OTA_OK ? 0 : fail_status(status, &cause, error);
}

static const char *tensor_name(const void *context, size_t index) {
    return ota_tensors_at(context, (int64_t)index)->name;
}

static void describe(const ota_tensor *one, cli_array *out) {
    out->rank = one->rank;
    memcpy(out->shape, one->shape, sizeof out->shape);
    out->count = (size_t)one->count;
    snprintf(out->stored, sizeof out->stored, "%s", one->stored);
    snprintf(out->name, sizeof out->name, "%s", one->name);
}

static int read_data(const cli_file *file, const ota_tensor *one, cli_array *out,
                     cli_error *error) {
    const cli_stored *stored = cli_stored_by_safetensors(one->stored);
    if (stored == NULL)
        return cli_fail_at(error, file->path, one->place,
                           "\"%.80s\" has dtype %s, which is not read", one->name, one->stored);
    describe(one, out);
    cli_stream stream = cli_stream_of_file(file, one->offset, one->offset + one->bytes);
    const int code = cli_stream_load(&stream, stored, false, false, out, error);
    return code != 0 ? code : cli_stream_finish(&stream, error);
}

int cli_safetensors_read(const cli_file *file, const char *name, cli_array *out, cli_error *error) {
    ota_tensors *table;
    int code = open_table(file, &table, error);
    if (code != 0) return code;
    const int64_t count = ota_tensors_count(table);
    const ota_tensor *found = name == NULL && count == 1 ? ota_tensors_at(table, 0) : NULL;
    for (int64_t i = 0; name != NULL && i < count; i++)
        if (strcmp(ota_tensors_at(table, i)->name, name) == 0) found = ota_tensors_at(table, i);
    code = found != NULL
               ? read_data(file, found, out, error)
               : cli_fail_names(error, file->path, name, (size_t)count, tensor_name, table);
    ota_tensors_free(table);
    return code;
}

int cli_safetensors_list(const cli_file *file, cli_listing *out, cli_error *error) {
    ota_tensors *table;
    int code = open_table(file, &table, error);
    if (code != 0) return code;
    for (int64_t i = 0; code == 0 && i < ota_tensors_count(table); i++) {
        const ota_tensor *one = ota_tensors_at(table, i);
        const cli_stored *stored = cli_stored_by_safetensors(one->stored);
        cli_array array = {0};
        describe(one, &array);
        code = cli_listing_add(out, &array, stored != NULL ? stored->type : OTA_NO_TYPE, error);
    }
    ota_tensors_free(table);
    return code;
}

int cli_safetensors_metadata(const char *path, const char *key, const cli_limits *limits,
                             char **value, cli_error *error) {
    *value = NULL;
    cli_file file;
    int code = cli_file_open(path, limits, &file, error);
    if (code != 0) return code;
    ota_tensors *table;
    code = open_table(&file, &table, error);
    if (code == 0) {
        ota_error cause;
        const ota_status status = ota_tensors_metadata(table, key, value, &cause);
        if (status != OTA_OK) code = fail_status(status, &cause, error);
        ota_tensors_free(table);
    }
    cli_file_close(&file);
    return code;
}
