/* Tables by layer and position or head (grid.h). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "program/report/report.h"
#include "program/report/run_parts.h"
#include "program/transport/heatmap.h"

enum { SHOWN = 16 }; /* columns in a terminal */

int cli_grid_label(cli_context *context, const ota_tokenizer *tokenizer, int64_t id,
                   char label[CLI_GRID_LABEL]) {
    char text[128];
    int64_t size = 0;
    ota_error error = {.message = ""};
    const int32_t narrow = (int32_t)id;
    if (tokenizer == NULL) {
        (void)snprintf(label, CLI_GRID_LABEL, "%" PRId64, id);
        return 0;
    }
    const ota_status status =
        ota_tokenizer_decode(tokenizer, &narrow, 1, 0, text, sizeof text - 1, &size, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    text[size < (int64_t)sizeof text ? size : (int64_t)sizeof text - 1] = '\0';
    cli_run_label(text, label, CLI_GRID_LABEL);
    return 0;
}

/* Positions are "3 Mary", heads their number. */
static int name_column(cli_context *context, cli_grid *grid, int64_t column) {
    char label[CLI_GRID_LABEL];
    const int64_t *ids = grid->columns_ids;
    const int code = ids != NULL ? cli_grid_label(context, grid->tokenizer, ids[column], label) : 0;
    (void)snprintf(grid->names[column], sizeof grid->names[column], "%" PRId64 "%s%s", column,
                   ids != NULL ? " " : "", ids != NULL && code == 0 ? label : "");
    return code;
}

int cli_grid_prepare(cli_context *context, cli_grid *grid) {
    const int64_t cells = grid->rows * grid->columns;
    int code =
        cli_memory(context, (size_t)grid->columns * sizeof *grid->names, "labels", &grid->names);
    if (code == 0)
        code = cli_memory(context, (size_t)cells * sizeof *grid->tokens, "labels", &grid->tokens);
    for (int64_t k = 0; code == 0 && k < grid->columns; k++) code = name_column(context, grid, k);
    for (int64_t k = 0; code == 0 && k < cells; k++) {
        grid->tokens[k][0] = '\0';
        if (grid->ids != NULL)
            code = cli_grid_label(context, grid->tokenizer, grid->ids[k], grid->tokens[k]);
    }
    return code;
}

void cli_grid_free(cli_grid *grid) {
    free(grid->names);
    free(grid->tokens);
}

/* ---- table ---- */

static int write_text(cli_context *context, cli_text *text, int code, const char *path) {
    code = cli_text_end(text, code, &context->error);
    if (code == 0)
        code = cli_write_file(path, context->settings.output.force, text->text, text->size,
                              &context->error);
    free(text->text);
    return code;
}

static int write_csv(cli_context *context, const cli_grid *grid, const char *path) {
    cli_text csv;
    const int code = cli_text_begin(&csv, &context->error);
    if (code != 0) return code;
    if (grid->ids != NULL)
        csv_row(&csv, "wwwww", "layer", grid->across, grid->value, "id", "token");
    else
        csv_row(&csv, "www", "layer", grid->across, grid->value);
    for (int64_t k = 0; k < grid->rows * grid->columns; k++) {
        csv_number(&csv, (double)(grid->first + k / grid->columns));
        csv_number(&csv, (double)(k % grid->columns));
        csv_number(&csv, grid->values[k]);
        if (grid->ids != NULL) {
            csv_number(&csv, (double)grid->ids[k]);
            csv_word(&csv, grid->tokens[k]);
        }
        csv_line(&csv);
    }
    return write_text(context, &csv, 0, path);
}

/* ---- figure and page ---- */

/* The cells as a page's grid has them, the last layer on top. */
static run_grid grid_of(const cli_grid *grid) {
    run_grid drawn = {.row_axis = "layer",
                      .columns = json_array(),
                      .rows = json_array(),
                      .values = json_array(),
                      .words = grid->ids != NULL ? json_array() : NULL};
    for (int64_t c = 0; c < grid->columns; c++)
        (void)json_array_append_new(drawn.columns, json_string(grid->names[c]));
    for (int64_t r = grid->rows; r-- > 0;) {
        char label[RUN_WORD];
        json_t *values = json_array(), *words = json_array();
        for (int64_t k = r * grid->columns; k < (r + 1) * grid->columns; k++) {
            (void)json_array_append_new(values, cli_json_real(grid->values[k]));
            (void)json_array_append_new(words, json_string(grid->tokens[k]));
        }
        cli_run_layer_label(grid->first + r, label);
        (void)json_array_append_new(drawn.rows, json_string(label));
        (void)json_array_append_new(drawn.values, values);
        (void)json_array_append(drawn.words, words);
        json_decref(words);
    }
    return drawn;
}

/* The figure's data, and its table, freed by the caller. */
static json_t *data_of(const cli_grid *grid, cli_cells **cells) {
    const run_grid drawn = grid_of(grid);
    json_t *data = cli_run_grid_data(&drawn, cells);
    json_decref(drawn.columns);
    json_decref(drawn.rows);
    json_decref(drawn.values);
    json_decref(drawn.words);
    return data;
}

static cli_figure figure_of(const cli_grid *grid, json_t *datasets, const cli_table *numbers) {
    return (cli_figure){.name = grid->figure,
                        .title = grid->title,
                        .datasets = datasets,
                        .caption = grid->caption,
                        .alternative = grid->alternative,
                        .numbers = numbers,
                        .axis = grid->axis};
}

static int write_figure(cli_context *context, const cli_grid *grid, const char *path) {
    cli_text text;
    int code = cli_text_begin(&text, &context->error);
    if (code != 0) return code;
    cli_cells *cells;
    json_t *datasets = data_of(grid, &cells);
    const cli_figure drawn = figure_of(grid, datasets, NULL);
    json_t *figure = cli_report_specification(&drawn);
    if (json_dumpf(figure, text.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) != 0)
        code = cli_fail(&context->error, CLI_EXIT_LIMIT, "out of memory");
    (void)fputc('\n', text.stream);
    json_decref(figure);
    json_decref(datasets);
    cli_cells_free(cells);
    return write_text(context, &text, code, path);
}

static int write_page(cli_context *context, const cli_grid *grid, const char *path) {
    const ota_error error = {{0}, {0}, {0}};
    cli_report *report = cli_report_open(grid->title, grid->lead);
    if (report == NULL) return cli_fail_status(context, OTA_ENOMEM, &error);
    cli_cells *cells;
    json_t *datasets = data_of(grid, &cells);
    const cli_figure figure = figure_of(grid, datasets, cli_cells_table(cells, grid->caption));
    cli_report_figure(report, &figure);
    json_decref(datasets);
    const int code =
        cli_report_close(report, path, context->settings.output.force, &context->error);
    cli_cells_free(cells);
    return code;
}

/* What a path's ending asks for. */
static const struct {
    const char *end;
    int (*write)(cli_context *context, const cli_grid *grid, const char *path);
} forms[] = {{".csv", write_csv}, {".vl.json", write_figure}, {".html", write_page}};

static bool ends_with(const char *path, const char *end) {
    const size_t size = strlen(path), tail = strlen(end);
    return size > tail && strcmp(path + size - tail, end) == 0;
}

int cli_grid_check(cli_context *context) {
    const char *path = context->settings.output.out;
    bool known = path == NULL;
    for (size_t k = 0; !known && k < sizeof forms / sizeof *forms; k++)
        known = ends_with(path, forms[k].end);
    if (!known)
        return cli_refuse_flag(context, "out", "write -o F.html, F.csv or F.vl.json",
                               "--out '%.200s' is no page, table or figure", path);
    if (path == NULL) return 0;
    cli_output *output;
    const int code =
        cli_output_begin(path, context->settings.output.force, &output, &context->error);
    if (code == 0) cli_output_abort(output);
    return code;
}

int cli_grid_write(cli_context *context, const cli_grid *grid, const char *path) {
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
        if (ends_with(path, forms[k].end)) return forms[k].write(context, grid, path);
    return CLI_EXIT_INTERNAL; /* cli_grid_check comes first */
}

/* ---- terminal and JSON ---- */

void cli_grid_print(const cli_grid *grid) {
    const int64_t first = grid->columns > SHOWN ? grid->columns - SHOWN : 0;
    if (first > 0)
        (void)printf("the last %d of %" PRId64 " %ss\n", SHOWN, grid->columns, grid->across);
    (void)printf("%-6s", "layer");
    for (int64_t c = first; c < grid->columns; c++) {
        (void)fputs(" ", stdout);
        cli_print_padded(stdout, CLI_SHADES_BLOCKS, grid->names[c], 10);
    }
    (void)putchar('\n');
    for (int64_t r = 0; r < grid->rows; r++) {
        char label[RUN_WORD];
        cli_run_layer_label(grid->first + r, label);
        (void)printf("%-6s", label);
        for (int64_t c = first; c < grid->columns; c++) {
            const int64_t k = r * grid->columns + c;
            char text[2 * CLI_GRID_LABEL];
            const double value = fabs(grid->values[k]) < 0.005 ? 0 : grid->values[k];
            (void)snprintf(text, sizeof text, "%.2f", value);
            if (grid->ids != NULL)
                (void)snprintf(text, sizeof text, "%.2f %s", value, grid->tokens[k]);
            (void)fputs(" ", stdout);
            cli_print_padded(stdout, CLI_SHADES_BLOCKS, text, 10);
        }
        (void)putchar('\n');
    }
}

void cli_grid_put(const cli_grid *grid, json_t *object) {
    json_t *values = json_array(), *ids = json_array(), *tokens = json_array();
    json_t *layers = json_array();
    for (int64_t r = 0; r < grid->rows; r++) {
        (void)json_array_append_new(layers, json_integer(grid->first + r));
        json_t *numbers = json_array(), *row = json_array(), *words = json_array();
        for (int64_t c = 0; c < grid->columns; c++) {
            const int64_t k = r * grid->columns + c;
            (void)json_array_append_new(numbers, cli_json_real(grid->values[k]));
            if (grid->ids == NULL) continue;
            (void)json_array_append_new(row, json_integer(grid->ids[k]));
            (void)json_array_append_new(words, json_string(grid->tokens[k]));
        }
        (void)json_array_append_new(values, numbers);
        (void)json_array_append_new(ids, row);
        (void)json_array_append_new(tokens, words);
    }
    (void)json_object_set_new(object, "across", json_string(grid->across));
    (void)json_object_set_new(object, "layer", layers);
    (void)json_object_set_new(object, grid->value, values);
    if (grid->ids != NULL) {
        (void)json_object_set(object, "ids", ids);
        if (grid->tokenizer != NULL) (void)json_object_set(object, "tokens", tokens);
    }
    json_decref(ids);
    json_decref(tokens);
}
