/* A grid with a text in every cell: layers by tokens, as a logit lens or the effects of patches are read; of a run's page,
 * and of `lens` and `patch`. */
#include "run_parts.h"

json_t *cli_run_grid_data(const run_grid *grid, cli_cells **cells) {
    const size_t columns = json_array_size(grid->columns), rows = json_array_size(grid->rows);
    json_t *data = json_array();
    *cells = cli_cells_new(columns + 1, NULL);
    cli_cell(*cells, grid->row_axis);
    for (size_t column = 0; column < columns; column++)
        cli_cell(*cells, json_string_value(json_array_get(grid->columns, column)));
    for (size_t row = 0; row < rows; row++) {
        json_t *values = json_array_get(grid->values, row),
               *text = json_array_get(grid->words, row);
        json_t *label = json_array_get(grid->rows, row);
        cli_cell(*cells, json_string_value(label));
        for (size_t column = 0; column < columns; column++) {
            const json_t *word = json_array_get(text, column);
            char value[RUN_WORD];
            cli_run_value(json_number_value(json_array_get(values, column)), value);
            if (json_is_string(word))
                cli_cell_format(*cells, "%.80s %s", json_string_value(word), value);
            else
                cli_cell(*cells, value);
        }
        (void)json_array_append_new(data,
                                    json_pack("{s:O, s:O, s:O*, s:O}", "row", label, "columns",
                                              grid->columns, "words", text, "values", values));
    }
    return json_pack("{s:o}", "rows", data);
}

void cli_run_grid(run_page *page, const run_grid *grid) {
    char words[256], title[RUN_TITLE];
    cli_cells *cells;
    json_t *data = cli_run_grid_data(grid, &cells);
    cli_run_title(page, grid->run, grid->title, title);
    (void)snprintf(words, sizeof words, "Grid of %zu rows by %zu tokens: %s.",
                   json_array_size(grid->rows), json_array_size(grid->columns), title);
    cli_run_figure(page, grid->file,
                   (cli_figure){"grid", title, data, grid->caption, words,
                                cli_cells_table(cells, title), grid->axis, grid->file});
    cli_cells_free(cells);
}
