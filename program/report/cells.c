/* Tables of numbers, cell by cell: rows x columns texts in one growing block, the first row the heading. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

enum { FIRST_CELLS = 256, CELL_TEXT = 24, CELL_FORMATTED = 160 };

struct cli_cells {
    size_t columns, count, room;
    size_t *offsets; /* of each cell in `text`; SIZE_MAX: empty */
    char *text;
    size_t used, text_room;
    const char **pointers; /* made by cli_cells_table */
    cli_table table;
    bool failed;
};

/* Doubles *block until it has `wanted` elements. */
static bool grow(void *block, size_t *room, size_t wanted, size_t element) {
    size_t larger = *room == 0 ? FIRST_CELLS : *room;
    while (larger < wanted) {
        if (larger > SIZE_MAX / 2 / element) return false;
        larger *= 2;
    }
    if (larger == *room) return true;
    void *grown = realloc(*(void **)block, larger * element);
    if (grown == NULL) return false;
    *(void **)block = grown;
    *room = larger;
    return true;
}

void cli_cell(cli_cells *cells, const char *text) {
    if (cells == NULL || cells->failed) return;
    const size_t size = text == NULL ? 0 : strlen(text) + 1;
    void *offsets = cells->offsets, *block = cells->text;
    cells->failed = !grow(&offsets, &cells->room, cells->count + 1, sizeof *cells->offsets);
    cells->offsets = offsets;
    if (!cells->failed) cells->failed = !grow(&block, &cells->text_room, cells->used + size, 1);
    cells->text = block;
    if (cells->failed) return;
    cells->offsets[cells->count++] = text == NULL ? SIZE_MAX : cells->used;
    if (size > 0) memcpy(cells->text + cells->used, text, size);
    cells->used += size;
}

cli_cells *cli_cells_new(size_t columns, const char *const *heading) {
    cli_cells *cells = calloc(1, sizeof *cells);
    if (cells == NULL) return NULL;
    cells->columns = columns;
    for (size_t column = 0; heading != NULL && column < columns; column++)
        cli_cell(cells, heading[column]);
    return cells;
}

void cli_cell_format(cli_cells *cells, const char *format, ...) {
    char text[CELL_FORMATTED];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cli_cell(cells, text);
}

void cli_cell_number(cli_cells *cells, double value) {
    char text[CELL_TEXT];
    (void)snprintf(text, sizeof text, "%.4g", value);
    cli_cell(cells, isfinite(value) ? text : "-");
}

const cli_table *cli_cells_table(cli_cells *cells, const char *caption) {
    if (cells == NULL || cells->failed) cli_memory_note();
    if (cells == NULL || cells->failed || cells->count < cells->columns) return NULL;
    free(cells->pointers);
    cells->pointers = cli_noted(calloc(cells->count, sizeof *cells->pointers));
    if (cells->pointers == NULL) return NULL;
    for (size_t index = 0; index < cells->count; index++)
        if (cells->offsets[index] != SIZE_MAX)
            cells->pointers[index] = cells->text + cells->offsets[index];
    cells->table = (cli_table){caption,
                               cells->pointers,
                               cells->columns,
                               cells->pointers + cells->columns,
                               cells->count / cells->columns - 1,
                               NULL};
    return &cells->table;
}

void cli_cells_free(cli_cells *cells) {
    if (cells == NULL) return;
    free(cells->offsets);
    free(cells->text);
    free(cells->pointers);
    free(cells);
}
