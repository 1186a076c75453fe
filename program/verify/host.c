/* What the statements of statements/ measure of the program: its safetensors files, its windows of a text, the
 * files it carries. */
#include <stdlib.h>

#include "program/analyze/window_tables.h"
#include "program/report/embedded.h"
#include "verify.h"

static bool write_tensors(const char *path, const statement_tensor *tensors, int count,
                          bool header_only) {
    cli_error error = {.exit_code = 0};
    cli_output *output = NULL;
    cli_array *arrays = calloc((size_t)count, sizeof *arrays);
    if (arrays == NULL) return false;
    for (int k = 0; k < count; k++) {
        const statement_tensor *from = &tensors[k];
        arrays[k] = (cli_array){
            .data = from->data, .type = from->type, .rank = from->rank, .count = from->count};
        for (int r = 0; r < from->rank; r++) arrays[k].shape[r] = from->shape[r];
        (void)snprintf(arrays[k].name, sizeof arrays[k].name, "%s", from->name);
    }
    int code = cli_output_begin(path, true, &output, &error);
    if (code == 0 && header_only)
        code = cli_write_safetensors_header(output, arrays, (size_t)count, &error);
    else if (code == 0)
        code = cli_write_safetensors(output, arrays, (size_t)count, NULL, 0, &error);
    code = cli_output_end(output, code, &error);
    free(arrays);
    return code == 0;
}

static bool read_tensor(const char *path, const char *name, statement_tensor *tensor) {
    char spec[4096 + 64];
    cli_array array;
    cli_error error;
    (void)snprintf(spec, sizeof spec, "%s:%.16s", path, name);
    if (cli_read_array(spec, NULL, &array, &error) != 0) return false;
    *tensor = (statement_tensor){
        .data = array.data, .type = array.type, .rank = array.rank, .count = array.count};
    for (int r = 0; r < array.rank && r < 3; r++) tensor->shape[r] = array.shape[r];
    return true;
}

static const char *file_of(const char *name, size_t *size) {
    const cli_embedded *file = cli_embedded_find(name);
    *size = file == NULL ? 0 : file->size;
    return file == NULL ? "" : (const char *)file->bytes;
}

static void to_f32(const void *from, ota_type type, float *to, size_t count) {
    cli_convert(from, type, to, OTA_F32, count);
}

static int64_t windows_of(const statement_text *from, int64_t wanted, int64_t tokens, int64_t *ids,
                          int64_t *lengths) {
    cli_context context = {.operand_count = 0};
    const run_settings settings = {.windows = wanted, .tokens = tokens};
    run_text text = {.ids = from->ids,
                     .count = from->count,
                     .before_count = from->before_count,
                     .after_count = from->after_count};
    for (int64_t k = 0; k < text.before_count; k++) text.before[k] = from->before[k];
    for (int64_t k = 0; k < text.after_count; k++) text.after[k] = from->after[k];
    const bool chosen = run_choose_windows(&context, &text, &settings) == 0;
    const int64_t count = chosen ? text.window_count : -1;
    for (int64_t w = 0; w < count && w < wanted; w++) {
        lengths[w] = text.windows[w].count;
        run_window_ids(&text, &text.windows[w], ids + w * tokens);
    }
    free(text.windows);
    return count;
}

const statement_host cli_statement_host = {write_tensors, read_tensor, file_of, to_f32, windows_of};
