/* example.safetensors: the first window in full, for pictures of the report alone (program/report/run.h says what
 * it holds). Written before that window's record, so that a record says that the example is there. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "program/report/run.h"
#include "window_tables.h"
#include "work.h"

/* Patterns of all layers in places of `cells` x `cells`, f32 while they come by. */
int run_example_begin(run *r) {
    struct run_work *w = r->work;
    const size_t cells = cli_pool_cells((size_t)w->tokens);
    const size_t heads = (size_t)((r->settings.last - r->settings.first) * r->facts.heads);
    w->cells = (int64_t)cells;
    w->pooled = malloc(heads * cells * cells * sizeof *w->pooled);
    return w->pooled != NULL ? 0
                             : cli_fail(&r->context->error, CLI_EXIT_LIMIT,
                                        "no memory is left for the patterns of one window");
}

void run_example_end(run *r) {
    free(r->work->pooled);
    r->work->pooled = NULL;
}

static void append_token(const run *r, int64_t id, json_t *list) {
    char text[256];
    run_spell(r, id, text, sizeof text);
    (void)json_array_append_new(list, json_string(text));
}

static json_t *tokens_json(const run *r) {
    const run_record *record = r->work->record;
    json_t *list = json_array();
    for (int64_t t = 0; t < record->shape.tokens; t++) append_token(r, record->ids[t], list);
    return list;
}

static json_t *lens_json(const run *r) {
    const run_record *record = r->work->record;
    const double *index = run_record_column(record, 0, 0, COLUMN_LENS);
    json_t *rows = json_array();
    for (int64_t l = 0; l < record->shape.states; l++) {
        json_t *row = json_array();
        for (int64_t t = 0; t < record->shape.tokens; t++)
            append_token(r, (int64_t)index[l * record->shape.tokens + t], row);
        (void)json_array_append_new(rows, row);
    }
    return rows;
}

static void name_array(cli_array *array, const char *name, ota_type type, const int64_t *shape,
                       int rank) {
    *array = (cli_array){.type = type, .rank = rank, .count = 1};
    (void)snprintf(array->name, sizeof array->name, "%s", name);
    for (int k = 0; k < rank; k++) {
        array->shape[k] = shape[k];
        array->count *= (size_t)shape[k];
    }
}

/* f32 or f16 copies of what is shown. */
static bool fill_arrays(const run *r, cli_array arrays[3]) {
    const struct run_work *w = r->work;
    const run_shape *s = &w->record->shape;
    const int64_t shapes[3][4] = {{s->states, s->tokens},
                                  {s->states - 1, s->tokens},
                                  {s->states - 1, s->heads, w->cells, w->cells}};
    name_array(&arrays[0], "max_probability", OTA_F32, shapes[0], 2);
    name_array(&arrays[1], "tv", OTA_F32, shapes[1], 2);
    name_array(&arrays[2], "patterns", OTA_F16, shapes[2], 4);
    for (int k = 0; k < 3; k++) {
        arrays[k].data = malloc(arrays[k].count * ota_type_bytes(arrays[k].type));
        if (arrays[k].data == NULL) return false;
    }
    const double *tail = run_record_column(w->record, 0, 0, COLUMN_TAIL);
    const double *tv = run_record_column(w->record, 0, 0, COLUMN_TV);
    float *to = arrays[0].data;
    for (size_t k = 0; k < arrays[0].count; k++) to[k] = (float)(1 - tail[k]);
    cli_convert(tv, OTA_F64, arrays[1].data, OTA_F32, arrays[1].count);
    cli_convert(w->pooled, OTA_F32, arrays[2].data, OTA_F16, arrays[2].count);
    return true;
}

int run_example_write(run *r) {
    cli_array arrays[3] = {{.data = NULL}};
    cli_output *output = NULL;
    char path[4096];
    run_folder_path(&r->folder, "example.safetensors", path);
    json_t *tokens = tokens_json(r), *lens = lens_json(r);
    char *texts[2] = {json_dumps(tokens, JSON_COMPACT), json_dumps(lens, JSON_COMPACT)};
    int code = 0;
    if (!fill_arrays(r, arrays) || texts[0] == NULL || texts[1] == NULL)
        code = cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    const cli_metadata metadata[] = {{"tokens", texts[0]}, {"lens", texts[1]}};
    if (code == 0) code = cli_output_begin(path, true, &output, &r->context->error);
    if (code == 0) code = cli_write_safetensors(output, arrays, 3, metadata, 2, &r->context->error);
    code = cli_output_end(output, code, &r->context->error);
    for (int k = 0; k < 3; k++) free(arrays[k].data);
    for (int k = 0; k < 2; k++) cli_memory_free(texts[k]);
    json_decref(tokens);
    json_decref(lens);
    return code;
}
