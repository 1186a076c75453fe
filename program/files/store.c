/* Arrays read so far. A file that several flags or several methods name is read once; standard input
 * can be read only once, so a second flag that names it is refused. */
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

typedef struct store_row {
    char *field, *spec;
    ota_type wanted;
    bool share; /* this process's lines were enough */
    cli_array array;
} store_row;

/* Rows are pointers: arrays handed out stay where they are when the store grows. */
struct cli_store {
    store_row **rows;
    size_t count;
};

int cli_memory(cli_context *context, size_t size, const char *label, void *out) {
    static const cli_limits none;
    void *memory = NULL;
    const int code = size == 0 ? 0 : cli_allocate(size, &none, label, &memory, &context->error);
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
    cli_array_free(&row->array);
    free(row);
}

void cli_store_free(cli_store *store) {
    if (store == NULL) return;
    for (size_t k = 0; k < store->count; k++) free_row(store->rows[k]);
    free(store->rows);
    free(store);
}

static int convert_row(cli_context *context, store_row *row) {
    cli_array *array = &row->array;
    if (row->wanted == OTA_NO_TYPE || row->wanted == array->type) return 0;
    if (array->count > 0) {
        void *converted;
        const int code =
            cli_memory(context, array->count * ota_type_bytes(row->wanted), row->spec, &converted);
        if (code != 0) return code;
        const int stopped = cli_convert_array(array, converted, row->wanted, &context->error);
        free(array->data);
        array->data = converted;
        if (stopped != 0) return stopped;
    }
    array->type = row->wanted;
    return 0;
}

static int add_row(cli_store *store, store_row *row, cli_error *error) {
    store_row **rows = realloc(store->rows, (store->count + 1) * sizeof *rows);
    if (rows == NULL) return cli_fail(error, CLI_EXIT_LIMIT, "there is no memory left");
    store->rows = rows;
    rows[store->count++] = row;
    return 0;
}

static int load(cli_context *context, const char *field, const char *spec, ota_type type,
                const cli_share *share, const cli_array **array) {
    cli_error *error = &context->error;
    if (context->store == NULL) context->store = calloc(1, sizeof *context->store);
    cli_store *store = context->store;
    if (store == NULL) return cli_fail(error, CLI_EXIT_LIMIT, "there is no memory left");
    for (size_t k = 0; k < store->count; k++) {
        const store_row *row = store->rows[k];
        if (strcmp(row->spec, spec) != 0) continue;
        if (strcmp(spec, "-") == 0 && strcmp(row->field, field) != 0) {
            return cli_refuse_flag(context, field, "put one of them into a file",
                                   "%s and %s both read standard input", row->field, field);
        }
        if (row->wanted == type && row->share == (share != NULL)) {
            *array = &row->array;
            return 0;
        }
    }
    store_row *row = calloc(1, sizeof *row);
    if (row == NULL) return cli_fail(error, CLI_EXIT_LIMIT, "there is no memory left");
    row->field = copy_text(field);
    row->spec = copy_text(spec);
    row->wanted = type;
    row->share = share != NULL;
    int code = row->field == NULL || row->spec == NULL
                   ? cli_fail(error, CLI_EXIT_LIMIT, "there is no memory left")
               : share != NULL ? cli_read_share(spec, share, &row->array, error)
                               : cli_read_array(spec, NULL, &row->array, error);
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

int cli_load(cli_context *context, const char *field, const char *spec, ota_type type,
             const cli_array **array) {
    return load(context, field, spec, type, NULL, array);
}

int cli_load_share(cli_context *context, const char *field, const char *spec, ota_type type,
                   int64_t rows, const cli_array **array) {
    const cli_share share = {context->share.rank, context->share.ranks, rows};
    return load(context, field, spec, type, share.ranks > 1 ? &share : NULL, array);
}

const cli_array *cli_loaded(const cli_context *context, const char *spec) {
    const cli_store *store = context->store;
    for (size_t k = 0; store != NULL && k < store->count; k++) {
        if (strcmp(store->rows[k]->spec, spec) == 0 && store->rows[k]->wanted == OTA_NO_TYPE)
            return &store->rows[k]->array;
    }
    return NULL;
}

bool cli_is_share(const cli_context *context, const void *data) {
    const cli_store *store = context->store;
    for (size_t k = 0; store != NULL && k < store->count; k++) {
        const cli_array *array = &store->rows[k]->array;
        if (array->in_part && array->data == data) return true;
    }
    return false;
}

ota_array cli_aligned(const cli_array *array) {
    int64_t size[4] = {1, 1, 1, 1};
    for (int k = 0; k < array->rank; k++) size[4 - array->rank + k] = array->shape[k];
    const int64_t lines = array->in_part ? array->held : size[2];
    ota_array view = ota_array_of(array->data, array->type, size[0], size[1], lines, size[3]);
    view.size[2] = size[2];
    return view;
}
