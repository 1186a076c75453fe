/* Couplings P [rows, columns] as text.
 *
 *     label |shade shade ...|  |shade shade ...|      shade = sqrt(P_ij), a colour of viridis or a block
 *            column labels, downwards
 *            bar of sum_i P_ij, one level an eighth of the largest possible mass (rows)
 */
#include "heatmap.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"
#include "src/base/integers.h"
#include "src/base/program/system_program.h"

enum { LABEL_LIMIT = 12, COLUMN_LABEL_LIMIT = 6, GAP = 2 };

/* ---- UTF-8 of foreign origin ---------------------------------------------------------------------- */

/* Code points that take no column and that take two; everything else printable takes one. */
static const struct {
    uint32_t first, last;
    int width;
} special_widths[] = {
    {0x0300, 0x036f, 0},   {0x200b, 0x200d, 0}, {0xfe00, 0xfe0f, 0}, {0x20d0, 0x20ff, 0},
    {0x1100, 0x115f, 2},   {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},
    {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2},
    {0x20000, 0x3fffd, 2},
};

/* Controls, and the marks that turn the direction of what follows them on the line. */
static bool is_unsafe(uint32_t point) {
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x200e || point == 0x200f ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) ||
           point == 0xfeff;
}

typedef struct glyph {
    char bytes[5]; /* what is printed */
    int width;
} glyph;

/* The next glyph of *text, which moves on; false at the end. */
static bool next_glyph(const char **text, bool ascii, glyph *out) {
    const unsigned char *at = (const unsigned char *)*text;
    if (*at == '\0') return false;
    int length = *at < 0x80 ? 1 : (*at & 0xe0) == 0xc0 ? 2 : (*at & 0xf0) == 0xe0 ? 3 : 4;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t point = length == 1 ? *at : *at & (0x7fU >> length);
    bool whole = *at < 0x80 || (*at >= 0xc2 && *at <= 0xf4);
    for (int index = 1; whole && index < length; index++) {
        whole = (at[index] & 0xc0) == 0x80;
        point = point << 6 | (at[index] & 0x3fU);
    }
    if (!whole) length = 1;
    whole =
        whole && point >= least[length] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
    out->width = 1;
    if (!whole || is_unsafe(point) || (ascii && point > 0x7e)) {
        memcpy(out->bytes, "?", 2);
    } else {
        memcpy(out->bytes, at, (size_t)length);
        out->bytes[length] = '\0';
        for (size_t row = 0; row < sizeof special_widths / sizeof special_widths[0]; row++) {
            if (point >= special_widths[row].first && point <= special_widths[row].last)
                out->width = special_widths[row].width;
        }
    }
    *text += length;
    return true;
}

static int text_width(const char *text, bool ascii) {
    int width = 0;
    for (glyph next; next_glyph(&text, ascii, &next);) width += next.width;
    return width;
}

void cli_print_padded(FILE *stream, cli_shades shades, const char *text, int width) {
    int printed = 0;
    for (glyph next; next_glyph(&text, shades == CLI_SHADES_DIGITS, &next);) {
        if (printed + next.width > width) break;
        fputs(next.bytes, stream);
        printed += next.width;
    }
    fprintf(stream, "%*s", width - printed, "");
}

/* The glyph of a label that stands in line `line` of a downward label, or a blank. */
static glyph label_glyph(const char *label, int line, bool ascii) {
    glyph found = {" ", 1};
    for (int index = 0; next_glyph(&label, ascii, &found); index++) {
        if (index == line) return found;
    }
    return (glyph){" ", 1};
}

static int label_glyphs(const char *label, bool ascii) {
    int count = 0;
    for (glyph next; next_glyph(&label, ascii, &next);) count++;
    return count;
}

/* ---- shades --------------------------------------------------------------------------------------- */

/* Ten samples of viridis, even steps; between them it is straight to within what a screen shows. */
static const unsigned char viridis[][3] = {
    {0x44, 0x01, 0x54}, {0x48, 0x28, 0x78}, {0x3e, 0x49, 0x89}, {0x31, 0x68, 0x8e},
    {0x26, 0x82, 0x8e}, {0x1f, 0x9e, 0x89}, {0x35, 0xb7, 0x79}, {0x6e, 0xce, 0x58},
    {0xb5, 0xde, 0x2b}, {0xfd, 0xe7, 0x25},
};

static void viridis_at(double level, int colour[3]) {
    double position = level * (double)(sizeof viridis / sizeof viridis[0] - 1);
    size_t below = (size_t)position;
    if (below > sizeof viridis / sizeof viridis[0] - 2)
        below = sizeof viridis / sizeof viridis[0] - 2;
    double rest = position - (double)below;
    for (int part = 0; part < 3; part++)
        colour[part] =
            (int)lround((1 - rest) * viridis[below][part] + rest * viridis[below + 1][part]);
}

static int cube_index(int part) { return part < 48 ? 0 : part < 115 ? 1 : (part - 35) / 40; }

/* Levels are in [0, 1]; NaN counts as 0. */
static void print_shade(FILE *stream, cli_shades shades, double level, int cell) {
    if (!(level > 0)) level = 0;
    if (level > 1) level = 1;
    if (shades >= CLI_SHADES_256) {
        int colour[3];
        viridis_at(level, colour);
        if (shades == CLI_SHADES_24_BIT)
            fprintf(stream, "\x1b[48;2;%d;%d;%dm", colour[0], colour[1], colour[2]);
        else
            fprintf(stream, "\x1b[48;5;%dm",
                    16 + 36 * cube_index(colour[0]) + 6 * cube_index(colour[1]) +
                        cube_index(colour[2]));
        fprintf(stream, "%*s", cell, "");
        return;
    }
    static const char *const blocks[] = {"\xc2\xb7", "\xe2\x96\x91", "\xe2\x96\x92", "\xe2\x96\x93",
                                         "\xe2\x96\x88"};
    static const char *const digits[] = {".", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    const char *mark = shades == CLI_SHADES_BLOCKS ? blocks[(int)fmin(level * 5, 4)]
                                                   : digits[(int)fmin(level * 10, 9)];
    fputs(mark, stream);
    for (int column = 1; column < cell; column++)
        fputs(shades == CLI_SHADES_BLOCKS && level * 5 >= 1 ? mark : " ", stream);
}

static void end_shades(FILE *stream, cli_shades shades) {
    if (shades >= CLI_SHADES_256) fputs("\x1b[0m", stream);
}

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static bool is_word(const char *text, const char *word) {
    for (; *text != '\0' && (*text | 0x20) == *word; text++) word++;
    return *text == *word;
}

cli_shades cli_shades_for(FILE *stream) {
    if (cli_colour(stream)) {
        const char *depth = environment("COLORTERM");
        bool deep = is_word(depth, "truecolor") || is_word(depth, "24bit") ||
                    strstr(environment("TERM"), "direct") != NULL;
        return deep ? CLI_SHADES_24_BIT : CLI_SHADES_256;
    }
    return ota_terminal_reads_utf8() ? CLI_SHADES_BLOCKS : CLI_SHADES_DIGITS;
}

int cli_terminal_width(FILE *stream) {
    const int columns = ota_terminal_columns(stream);
    if (columns > 0) return columns;
    int64_t width;
    return cli_integer(environment("COLUMNS"), &width) && width >= 20 && width <= 1000 ? (int)width
                                                                                       : 80;
}

/* ---- maps ----------------------------------------------------------------------------------------- */

typedef struct layout {
    FILE *stream;
    cli_shades shades;
    int label, cell, map; /* columns of a row label, a cell, a map */
    size_t rows, columns;
} layout;

static void print_bars(const layout *at, const double *weights) {
    static const char *const bars[] = {" ",
                                       "\xe2\x96\x81",
                                       "\xe2\x96\x82",
                                       "\xe2\x96\x83",
                                       "\xe2\x96\x84",
                                       "\xe2\x96\x85",
                                       "\xe2\x96\x86",
                                       "\xe2\x96\x87",
                                       "\xe2\x96\x88"};
    for (size_t column = 0; column < at->columns; column++) {
        double mass = 0;
        for (size_t row = 0; row < at->rows; row++) mass += weights[row * at->columns + column];
        if (!(mass > 0)) mass = 0;
        if (at->shades == CLI_SHADES_DIGITS) {
            fprintf(at->stream, "%-*d", at->cell, mass >= 9 ? 9 : (int)lround(mass));
            continue;
        }
        /* Square root again: an even share of 1 in 21 is visible, and so is 16 of 21. */
        double level = sqrt(fmin(1.0, mass / (double)at->rows)) * 8;
        for (int index = 0; index < at->cell; index++) fputs(bars[lround(level)], at->stream);
    }
}

static void print_line_of_maps(const layout *at, const cli_heatmap *maps, size_t count,
                               const char *const *row_labels, const char *const *column_labels,
                               int label_lines) {
    bool ascii = at->shades == CLI_SHADES_DIGITS;
    cli_print_padded(at->stream, at->shades, "", at->label);
    for (size_t map = 0; map < count; map++) {
        fprintf(at->stream, "%*s", GAP, "");
        cli_print_padded(at->stream, at->shades, maps[map].title, at->map);
    }
    fputc('\n', at->stream);
    for (size_t row = 0; row < at->rows; row++) {
        int used = text_width(row_labels[row], ascii);
        fprintf(at->stream, "%*s", used < at->label ? at->label - used : 0, "");
        cli_print_padded(at->stream, at->shades, row_labels[row],
                         used < at->label ? used : at->label);
        for (size_t map = 0; map < count; map++) {
            fprintf(at->stream, "%*s", GAP, "");
            for (size_t column = 0; column < at->columns; column++)
                print_shade(at->stream, at->shades,
                            sqrt(maps[map].weights[row * at->columns + column]), at->cell);
            end_shades(at->stream, at->shades);
        }
        fputc('\n', at->stream);
    }
    fprintf(at->stream, "%*s", at->label, "received");
    for (size_t map = 0; map < count; map++) {
        fprintf(at->stream, "%*s", GAP, "");
        print_bars(at, maps[map].weights);
    }
    fputc('\n', at->stream);
    for (int line = 0; line < label_lines; line++) {
        fprintf(at->stream, "%*s", at->label, "");
        for (size_t map = 0; map < count; map++) {
            fprintf(at->stream, "%*s", GAP, "");
            for (size_t column = 0; column < at->columns; column++) {
                glyph next = label_glyph(column_labels[column], line, ascii);
                bool fits = next.width >= 1 && next.width <= at->cell;
                fprintf(at->stream, "%s%*s", fits ? next.bytes : "?",
                        at->cell - (fits ? next.width : 1), "");
            }
        }
        fputc('\n', at->stream);
    }
}

void cli_heatmaps_print(FILE *stream, cli_shades shades, int width, const cli_heatmap *maps,
                        size_t map_count, const cli_heatmap_labels *labels) {
    const size_t rows = labels->rows, columns = labels->columns;
    bool ascii = shades == CLI_SHADES_DIGITS;
    layout at = {.stream = stream, .shades = shades, .rows = rows, .columns = columns};
    at.label = (int)strlen("received");
    for (size_t row = 0; row < rows; row++) {
        int used = text_width(labels->row[row], ascii);
        if (used > at.label) at.label = used < LABEL_LIMIT ? used : LABEL_LIMIT;
    }
    int label_lines = 0;
    for (size_t column = 0; column < columns; column++) {
        int used = label_glyphs(labels->column[column], ascii);
        if (used > label_lines) label_lines = used < COLUMN_LABEL_LIMIT ? used : COLUMN_LABEL_LIMIT;
    }
    /* Two characters make a square cell; they are given up before maps stop standing side by side. */
    int room = width - at.label;
    at.cell = room / (GAP + 2 * (int)columns) >= (int)map_count ? 2 : 1;
    at.map = at.cell * (int)columns;
    size_t beside = room < GAP + at.map ? 1 : (size_t)(room / (GAP + at.map));
    for (size_t first = 0; first < map_count; first += beside) {
        size_t count = ota_size_min(map_count - first, beside);
        print_line_of_maps(&at, maps + first, count, labels->row, labels->column, label_lines);
    }
}
