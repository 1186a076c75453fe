/* Reads a run folder: metrics.json, manifest.json, tables/NAME.csv and example.safetensors.
 *
 * The files may come from anywhere: sizes are limited before anything is read, CSV rows that are
 * shorter than the heading are filled with empty cells, longer ones are cut. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "run_parts.h"
#include "src/base/program/system_program.h"

enum { FILE_MOST = 64 << 20, TABLES_MOST = 64, COLUMNS_MOST = 512 };

static int no_memory(cli_error *error) {
    return cli_fail(error, CLI_EXIT_LIMIT, "there is not enough memory for the run folder");
}

/* *text has a NUL behind *size bytes. A missing file is no failure where it is optional: *text is NULL. */
static int read_file(const char *path, bool optional, char **text, size_t *size, cli_error *error) {
    ota_path_kind kind;
    int64_t bytes = 0;
    *text = NULL;
    *size = 0;
    const int file = ota_file_descriptor(path, true, &kind, &bytes);
    if (file < 0 && kind != OTA_PATH_FOLDER) {
        if (optional && errno == ENOENT) return 0;
        return cli_fail(error, CLI_EXIT_IO, "%s: cannot be read: %s", cli_short_path(path),
                        strerror(errno));
    }
    int code = 0;
    if (kind != OTA_PATH_FILE)
        code = cli_fail(error, CLI_EXIT_IO, "%s: is no file", cli_short_path(path));
    else if (bytes > FILE_MOST)
        code = cli_fail(error, CLI_EXIT_LIMIT,
                        "%s: has more than %d bytes, the limit for a part of a run",
                        cli_short_path(path), FILE_MOST);
    if (code == 0) {
        *text = malloc((size_t)bytes + 1);
        if (*text == NULL) code = no_memory(error);
    }
    int64_t got = 1;
    while (code == 0 && got > 0 && *size < (size_t)bytes) {
        got = ota_descriptor_read(file, *text + *size, (size_t)bytes - *size, (int64_t)*size);
        if (got < 0)
            code = cli_fail(error, CLI_EXIT_IO, "%s: cannot be read", cli_short_path(path));
        if (got > 0) *size += (size_t)got;
    }
    if (code == 0) (*text)[*size] = '\0';
    if (file >= 0) ota_descriptor_close(file);
    if (code != 0) {
        free(*text);
        *text = NULL;
    }
    return code;
}

static int join(const char *folder, const char *name, char path[OTA_PATH_ROOM], cli_error *error) {
    if (snprintf(path, OTA_PATH_ROOM, "%s/%s", folder, name) < OTA_PATH_ROOM) return 0;
    return cli_fail(error, CLI_EXIT_IO, "%s: the path is too long", cli_short_path(folder));
}

static int read_json(const char *folder, const char *name, bool optional, json_t **out,
                     cli_error *error) {
    char path[OTA_PATH_ROOM], *text;
    size_t size;
    int code = join(folder, name, path, error);
    if (code == 0) code = read_file(path, optional, &text, &size, error);
    if (code != 0 || text == NULL) return code;
    json_error_t why;
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    free(text);
    if (*out == NULL)
        return cli_fail(error, CLI_EXIT_FILE, "%s: line %d, column %d: %s", cli_short_path(path),
                        why.line, why.column, why.text);
    if (!json_is_object(*out))
        return cli_fail(error, CLI_EXIT_FILE, "%s: holds no object", cli_short_path(path));
    return 0;
}

/* ---- CSV ---- */

typedef struct csv {
    char *at, *end; /* unread text */
    bool line_ended;
} csv;

/* The next field, unquoted in place; NULL at the end of the text. */
static char *next_field(csv *reader) {
    if (reader->at >= reader->end) return NULL;
    char *field = reader->at, *to = reader->at;
    if (*reader->at == '"') {
        reader->at++;
        while (reader->at < reader->end) {
            if (*reader->at == '"' && ++reader->at < reader->end && *reader->at != '"') break;
            if (reader->at < reader->end) *to++ = *reader->at++;
        }
    }
    while (reader->at < reader->end && *reader->at != ',' && *reader->at != '\n')
        *to++ = *reader->at++;
    reader->line_ended = reader->at >= reader->end || *reader->at == '\n';
    if (reader->at < reader->end) reader->at++;
    if (reader->line_ended && to > field && to[-1] == '\r') to--;
    *to = '\0';
    return field;
}

static size_t count_lines(const char *text, size_t size) {
    size_t lines = 1;
    for (size_t index = 0; index < size; index++) lines += text[index] == '\n';
    return lines;
}

static int parse_table(run_table *table, size_t size, cli_error *error) {
    const size_t lines = count_lines(table->text, size);
    csv reader = {table->text, table->text + size, false};
    const char *heading[COLUMNS_MOST];
    while (table->column_count < COLUMNS_MOST && !reader.line_ended) {
        const char *field = next_field(&reader);
        if (field == NULL) break;
        heading[table->column_count++] = field;
    }
    if (table->column_count == 0 || !reader.line_ended)
        return cli_fail(error, CLI_EXIT_FILE, "tables/%.100s.csv: %s", table->name,
                        table->column_count == 0 ? "is empty" : "has too many columns");
    const size_t columns = table->column_count;
    if (lines > SIZE_MAX / sizeof *table->cells / columns) return no_memory(error);
    table->columns = calloc(columns, sizeof *table->columns);
    table->cells = calloc(lines * columns, sizeof *table->cells);
    if (table->columns == NULL || table->cells == NULL) return no_memory(error);
    memcpy(table->columns, heading, columns * sizeof *heading);
    for (size_t row = 0; row < lines; row++) {
        reader.line_ended = false;
        size_t column = 0;
        for (; !reader.line_ended; column++) {
            const char *field = next_field(&reader);
            if (field == NULL) break;
            if (column < columns) table->cells[row * columns + column] = field;
        }
        if (column == 0) break;
        table->row_count = row + 1;
    }
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const run_table *)a)->name, ((const run_table *)b)->name);
}

static int load_table(run_folder *folder, const char *file, cli_error *error) {
    char name[OTA_PATH_ROOM], path[OTA_PATH_ROOM];
    size_t size;
    (void)snprintf(name, sizeof name, "tables/%s", file);
    int code = join(folder->path, name, path, error);
    if (code != 0) return code;
    run_table *table = &folder->tables[folder->table_count++];
    *table = (run_table){.name = cli_copy(file, strlen(file))};
    if (table->name == NULL) return no_memory(error);
    table->name[strlen(file) - strlen(".csv")] = '\0';
    code = read_file(path, false, &table->text, &size, error);
    return code == 0 ? parse_table(table, size, error) : code;
}

/* What is not there is left out of a page; what cannot be seen is an error. */
static int cannot_look(const char *path, cli_error *error) {
    const int cause = errno;
    return cli_fail(error, cause == ENOMEM ? CLI_EXIT_LIMIT : CLI_EXIT_IO, "%s: cannot be read: %s",
                    cli_short_path(path), strerror(cause));
}

static int load_tables(run_folder *folder, cli_error *error) {
    char path[OTA_PATH_ROOM];
    int code = join(folder->path, "tables", path, error);
    ota_folder *files = code == 0 ? ota_folder_open(path) : NULL;
    if (files == NULL) return code == 0 && errno != ENOENT ? cannot_look(path, error) : code;
    folder->tables = calloc(TABLES_MOST, sizeof *folder->tables);
    if (folder->tables == NULL) code = no_memory(error);
    while (code == 0) {
        const char *file = ota_folder_next(files);
        if (file == NULL && errno != 0) code = cannot_look(path, error);
        if (file == NULL) break;
        const char *end = strrchr(file, '.');
        if (end == NULL || end == file || strcmp(end, ".csv") != 0) continue;
        if (folder->table_count == TABLES_MOST)
            code = cli_fail(error, CLI_EXIT_LIMIT, "%s: has more than %d tables",
                            cli_short_path(path), TABLES_MOST);
        else
            code = load_table(folder, file, error);
    }
    ota_folder_close(files);
    /* Folders have no order; pages do. */
    if (code == 0) qsort(folder->tables, folder->table_count, sizeof *folder->tables, by_name);
    return code;
}

const run_table *cli_run_table(const run_folder *folder, const char *name) {
    for (size_t index = 0; index < folder->table_count; index++)
        if (strcmp(folder->tables[index].name, name) == 0) return &folder->tables[index];
    return NULL;
}

size_t cli_run_column(const run_table *table, const char *name) {
    size_t column = 0;
    while (column < table->column_count && strcmp(table->columns[column], name) != 0) column++;
    return column;
}

/* ---- the example ---- */

static int load_words(const char *path, const char *key, json_t **out, cli_error *error) {
    char *text;
    int code = cli_safetensors_metadata(path, key, NULL, &text, error);
    if (code != 0 || text == NULL) return code;
    *out = json_loads(text, JSON_ALLOW_NUL, NULL);
    free(text);
    if (json_is_array(*out)) return 0;
    return cli_fail(error, CLI_EXIT_FILE, "%s: its '%s' is no array of texts", cli_short_path(path),
                    key);
}

/* An array of the example, absent where the file has none of this name. */
static int load_array(const char *path, const cli_listing *listing, const char *name, int rank,
                      cli_array *out, cli_error *error) {
    char spec[OTA_PATH_ROOM + 32];
    for (size_t index = 0; index < listing->count; index++) {
        if (strcmp(listing->entries[index].name, name) != 0) continue;
        (void)snprintf(spec, sizeof spec, "%s:%s", path, name);
        const int code = cli_read_array(spec, NULL, out, error);
        if (code != 0 || out->rank == rank) return code;
        return cli_fail(error, CLI_EXIT_FILE, "%s: '%s' has %d dimensions, not %d",
                        cli_short_path(path), name, out->rank, rank);
    }
    return 0;
}

static int mismatch(const char *path, const char *name, cli_error *error) {
    return cli_fail(error, CLI_EXIT_FILE, "%s: the shape of '%s' does not fit the tokens",
                    cli_short_path(path), name);
}

static int check_example(const char *path, const run_example *example, cli_error *error) {
    const int64_t count = (int64_t)json_array_size(example->tokens);
    if (example->max_probability.rank != 0 && example->max_probability.shape[1] != count)
        return mismatch(path, "max_probability", error);
    if (example->tv.rank != 0 && example->tv.shape[1] != count) return mismatch(path, "tv", error);
    const int64_t *shape = example->patterns.shape;
    if (example->patterns.count != 0 && (shape[2] != shape[3] || shape[2] > count))
        return mismatch(path, "patterns", error);
    return 0;
}

static int load_example(run_folder *folder, cli_error *error) {
    char path[OTA_PATH_ROOM];
    ota_path_facts facts;
    run_example *example = &folder->example;
    cli_listing listing = {0};
    int code = join(folder->path, "example.safetensors", path, error);
    if (code != 0) return code;
    if (!ota_path_look(path, true, &facts)) return errno != ENOENT ? cannot_look(path, error) : 0;
    code = cli_list_arrays(path, NULL, &listing, error);
    if (code == 0) code = load_words(path, "tokens", &example->tokens, error);
    if (code == 0) code = load_words(path, "lens", &example->lens, error);
    if (code == 0)
        code = load_array(path, &listing, "max_probability", 2, &example->max_probability, error);
    if (code == 0) code = load_array(path, &listing, "tv", 2, &example->tv, error);
    if (code == 0) code = load_array(path, &listing, "patterns", 4, &example->patterns, error);
    if (code == 0) code = check_example(path, example, error);
    cli_listing_free(&listing);
    return code;
}

int cli_run_folder_load(const char *path, run_folder *folder, cli_error *error) {
    *folder = (run_folder){.path = path};
    int code = read_json(path, "metrics.json", false, &folder->metrics, error);
    if (code != 0 && error->exit_code == CLI_EXIT_IO)
        cli_hint(error,
                 "a run folder is what 'otattn analyze MODEL TEXT -o %s' writes, but for --measure "
                 "alignment",
                 path);
    if (code == 0) code = read_json(path, "manifest.json", true, &folder->manifest, error);
    if (code == 0) code = load_tables(folder, error);
    if (code == 0) code = load_example(folder, error);
    return code;
}

void cli_run_folder_free(run_folder *folder) {
    for (size_t index = 0; index < folder->table_count; index++) {
        free(folder->tables[index].name);
        free(folder->tables[index].text);
        free(folder->tables[index].columns);
        free(folder->tables[index].cells);
    }
    free(folder->tables);
    json_decref(folder->metrics);
    json_decref(folder->manifest);
    json_decref(folder->example.tokens);
    json_decref(folder->example.lens);
    cli_array_free(&folder->example.max_probability);
    cli_array_free(&folder->example.tv);
    cli_array_free(&folder->example.patterns);
    free(folder->name);
}
