/* Arrays read so far. A file that several flags or several methods name is read once; standard input
 * can be read only once, so a second flag that names it is refused. */
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

typedef struct store_row {
    char *field, *spec;
    ota_type wanted;
    bool share; /* this process's lines were enough */
    tool_array array;
} store_row;

/* Rows are pointers: arrays handed out stay where they are when the store grows. */
struct tool_store {
    store_row **rows;
    size_t count;
};

int tool_memory(tool_context *context, size_t size, const char *label, void *out) {
    static const tool_limits none;
    void *memory = NULL;
    const int code = size == 0 ? 0 : tool_allocate(size, &none, label, &memory, &context->error);
    memcpy(out, &memory, sizeof memory);
    return code;
}

static char *copy_text(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy != NULL) memcpy(copy, text, strlen(text) + 1);
    return copy;
}

static void free_row(store_row *row) {
    free(row->field);
    free(row->spec);
    tool_array_free(&row->array);
    free(row);
}

void tool_store_free(tool_store *store) {
    if (store == NULL) return;
    for (size_t k = 0; k < store->count; k++) free_row(store->rows[k]);
    free(store->rows);
    free(store);
}

static int convert_row(tool_context *context, store_row *row) {
    tool_array *array = &row->array;
    if (row->wanted == OTA_NO_TYPE || row->wanted == array->type) return 0;
    if (array->count > 0) {
        void *converted;
        const int code =
            tool_memory(context, array->count * ota_type_bytes(row->wanted), row->spec, &converted);
        if (code != 0) return code;
        tool_convert(array->data, array->type, converted, row->wanted, array->count);
        free(array->data);
        array->data = converted;
    }
    array->type = row->wanted;
    return 0;
}

static int add_row(tool_store *store, store_row *row, tool_error *error) {
    store_row **rows = realloc(store->rows, (store->count + 1) * sizeof *rows);
    if (rows == NULL) return tool_fail(error, TOOL_EXIT_LIMIT, "there is no memory left");
    store->rows = rows;
    rows[store->count++] = row;
    return 0;
}

static int load(tool_context *context, const char *field, const char *spec, ota_type type,
                const tool_share *share, const tool_array **array) {
    tool_error *error = &context->error;
    if (context->store == NULL) context->store = calloc(1, sizeof *context->store);
    tool_store *store = context->store;
    if (store == NULL) return tool_fail(error, TOOL_EXIT_LIMIT, "there is no memory left");
    for (size_t k = 0; k < store->count; k++) {
        const store_row *row = store->rows[k];
        if (strcmp(row->spec, spec) != 0) continue;
        if (strcmp(spec, "-") == 0 && strcmp(row->field, field) != 0) {
            return tool_refuse_flag(context, field, "put one of them into a file",
                                    "%s and %s both read standard input", row->field, field);
        }
        if (row->wanted == type && row->share == (share != NULL)) {
            *array = &row->array;
            return 0;
        }
    }
    store_row *row = calloc(1, sizeof *row);
    if (row == NULL) return tool_fail(error, TOOL_EXIT_LIMIT, "there is no memory left");
    row->field = copy_text(field);
    row->spec = copy_text(spec);
    row->wanted = type;
    row->share = share != NULL;
    int code = row->field == NULL || row->spec == NULL
                   ? tool_fail(error, TOOL_EXIT_LIMIT, "there is no memory left")
               : share != NULL ? tool_read_share(spec, share, &row->array, error)
                               : tool_read_array(spec, NULL, &row->array, error);
    if (code == 0) code = convert_row(context, row);
    if (code == 0) code = add_row(store, row, error);
    if (code != 0) {
        (void)snprintf(error->field, sizeof error->field, "%s", field);
        free_row(row);
        return code;
    }
    *array = &row->array;
    return 0;
}

int tool_load(tool_context *context, const char *field, const char *spec, ota_type type,
              const tool_array **array) {
    return load(context, field, spec, type, NULL, array);
}

int tool_load_share(tool_context *context, const char *field, const char *spec, ota_type type,
                    int64_t rows, const tool_array **array) {
    const tool_share share = {context->share.rank, context->share.ranks, rows};
    return load(context, field, spec, type, share.ranks > 1 ? &share : NULL, array);
}

const tool_array *tool_loaded(const tool_context *context, const char *spec) {
    const tool_store *store = context->store;
    for (size_t k = 0; store != NULL && k < store->count; k++) {
        if (strcmp(store->rows[k]->spec, spec) == 0 && store->rows[k]->wanted == OTA_NO_TYPE)
            return &store->rows[k]->array;
    }
    return NULL;
}

bool tool_is_share(const tool_context *context, const void *data) {
    const tool_store *store = context->store;
    for (size_t k = 0; store != NULL && k < store->count; k++) {
        const tool_array *array = &store->rows[k]->array;
        if (array->in_part && array->data == data) return true;
    }
    return false;
}

ota_array tool_aligned(const tool_array *array) {
    int64_t size[4] = {1, 1, 1, 1};
    for (int k = 0; k < array->rank; k++) size[4 - array->rank + k] = array->shape[k];
    const int64_t lines = array->in_part ? array->held : size[2];
    ota_array view = ota_array_of(array->data, array->type, size[0], size[1], lines, size[3]);
    view.size[2] = size[2];
    return view;
}
