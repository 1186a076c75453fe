/* Writes one self-contained HTML page.
 *
 *     page = head(style) + body(text, tables, figures) + data(theme, figure specifications, charts)
 *
 * Three rules keep foreign text inert: text goes through escape() into HTML; data sets go through
 * append_json(), in which no `<` and nothing beyond ASCII is left, so that no string can end the
 * <script> element it stands in; and the page's own policy forbids every request and foreign script. */
#define _POSIX_C_SOURCE 200809L
#include "report.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "pack.h"

struct cli_report {
    cli_text text, answers;
    size_t answers_at;      /* bytes of `text` before which the answers stand */
    json_t *specifications; /* name -> Vega-Lite object without data, for the figures in use */
    json_t *ids;            /* of figures and tables, as keys */
    int figures, maps;
    bool out_of_memory;
    char missing_figure[64];
};

/* unsafe-eval: Vega compiles its expressions; the chart library itself is inflated into a function. */
static const char policy[] = "default-src 'none'; style-src 'unsafe-inline'; script-src "
                             "'unsafe-inline' 'unsafe-eval'; img-src data: blob:";

static void append_bytes(cli_report *report, const void *bytes, size_t size) {
    (void)fwrite(bytes, 1, size, report->text.stream);
}

/* Markup of our own, never foreign text. */
static void append(cli_report *report, const char *markup) {
    append_bytes(report, markup, strlen(markup));
}

/* Length of the well-formed UTF-8 sequence at text[available], or 0: overlong forms, surrogates and values above
 * U+10FFFF are what turns "escaped" text back into markup in lenient readers. */
static size_t sequence_length(const unsigned char *text, size_t available) {
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t length;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t form = 0; form < sizeof forms / sizeof forms[0]; form++) {
        if (text[0] < forms[form].first_low || text[0] > forms[form].first_high) continue;
        if (forms[form].length > available) return 0;
        for (size_t index = 1; index < forms[form].length; index++) {
            unsigned char low = index == 1 ? forms[form].second_low : 0x80;
            unsigned char high = index == 1 ? forms[form].second_high : 0xbf;
            if (text[index] < low || text[index] > high) return 0;
        }
        return forms[form].length;
    }
    return 0;
}

/* Marks that turn the direction of the text after them, and separators that end a line of script: the
 * three-byte sequences of U+200E, U+200F, U+2028 to U+202E and U+2066 to U+2069. */
static bool is_deceptive(const unsigned char *text, size_t length) {
    if (length != 3 || text[0] != 0xe2) return false;
    const unsigned char last = text[2];
    return (text[1] == 0x80 && (last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae))) ||
           (text[1] == 0x81 && last >= 0xa6 && last <= 0xa9);
}

static void escape_bytes(cli_report *report, const char *text, size_t size) {
    static const struct {
        char character;
        const char *markup;
    } marks[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
    const char *end = text + size;
    while (text < end) {
        size_t length = sequence_length((const unsigned char *)text, (size_t)(end - text));
        const char *markup = NULL;
        for (size_t mark = 0; mark < sizeof marks / sizeof marks[0]; mark++) {
            if (*text == marks[mark].character) markup = marks[mark].markup;
        }
        if (markup != NULL)
            append(report, markup);
        else if (length == 0 || is_deceptive((const unsigned char *)text, length) ||
                 ((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t') || *text == 0x7f)
            append(report, "\xef\xbf\xbd");
        else
            append_bytes(report, text, length);
        text += length == 0 ? 1 : length;
    }
}

static void escape(cli_report *report, const char *text) {
    if (text != NULL) escape_bytes(report, text, strlen(text));
}

static int append_json_bytes(const char *buffer, size_t size, void *user) {
    cli_report *report = user;
    size_t begin = 0;
    for (size_t index = 0; index < size; index++) {
        if (buffer[index] == '<') {
            append_bytes(report, buffer + begin, index - begin);
            append(report, "\\u003c");
            begin = index + 1;
        }
    }
    append_bytes(report, buffer + begin, size - begin);
    return 0;
}

static void append_json(cli_report *report, const json_t *value) {
    /* Six digits are more than any axis or tooltip shows, and a third of the size of seventeen. */
    size_t flags = JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6);
    if (json_dump_callback(value, append_json_bytes, report, flags) != 0)
        report->out_of_memory = true;
}

/* An unpaired backquote stands for itself. */
static void append_marked_text(cli_report *report, const char *text) {
    for (;;) {
        const char *open = strchr(text, '`');
        const char *close = open == NULL ? NULL : strchr(open + 1, '`');
        if (close == NULL) {
            escape(report, text);
            return;
        }
        escape_bytes(report, text, (size_t)(open - text));
        append(report, "<code>");
        escape_bytes(report, open + 1, (size_t)(close - open - 1));
        append(report, "</code>");
        text = close + 1;
    }
}

/* Markup of our own with what stands for %r raw markup, %e escaped text, %m marked text, %z a size_t. */
static void put(cli_report *report, const char *markup, ...) {
    va_list list;
    va_start(list, markup);
    for (;;) {
        const size_t plain = strcspn(markup, "%");
        append_bytes(report, markup, plain);
        markup += plain;
        if (*markup == '\0') break;
        switch (markup[1]) {
        case 'r': append(report, va_arg(list, const char *)); break;
        case 'e': escape(report, va_arg(list, const char *)); break;
        case 'm': append_marked_text(report, va_arg(list, const char *)); break;
        default: (void)fprintf(report->text.stream, "%zu", va_arg(list, size_t)); break;
        }
        markup += 2;
    }
    va_end(list);
}

static void append_embedded(cli_report *report, const char *name) {
    const cli_embedded *file = cli_embedded_find(name);
    if (file != NULL) append_bytes(report, file->bytes, file->size);
}

bool cli_report_charts(void) { return cli_embedded_find("charts") != NULL; }

cli_report *cli_report_open(const char *title, const char *lead) {
    cli_report *report = calloc(1, sizeof *report);
    if (report == NULL) return NULL;
    cli_error none;
    report->specifications = json_object();
    report->ids = json_object();
    if (cli_text_begin(&report->text, &none) != 0 || cli_text_begin(&report->answers, &none) != 0 ||
        report->specifications == NULL || report->ids == NULL) {
        cli_report_abort(report);
        return NULL;
    }
    put(report,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"%r\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>%e</title>\n<style>\n",
        policy, title);
    append_embedded(report, "page.css");
    put(report,
        "</style>\n</head>\n<body>\n<header>\n<h1>%e</h1>\n%r%e%r"
        "</header>\n<main>\n",
        title, lead == NULL ? "" : "<p class=\"lead\">", lead, lead == NULL ? "" : "</p>\n");
    if (!cli_report_charts())
        append(report,
               "<p class=\"note\">This build of otattn carries no chart library, so this page "
               "holds tables only. Configure the build with OTATTN_CHARTS to get charts.</p>\n");
    else
        append(report, "<noscript><p class=\"note\">The charts need scripts; the numbers behind "
                       "each of them unfold below it.</p></noscript>\n");
    return report;
}

void cli_report_section(cli_report *report, const char *heading) {
    put(report, "<h2>%e</h2>\n", heading);
}

void cli_report_facts(cli_report *report, const cli_fact *facts, size_t count) {
    append(report, "<dl class=\"facts\">\n");
    for (size_t fact = 0; fact < count; fact++)
        put(report, "<div><dt>%e</dt><dd>%m</dd></div>\n", facts[fact].name, facts[fact].text);
    append(report, "</dl>\n");
}

void cli_report_answers_here(cli_report *report) {
    if (fflush(report->text.stream) != 0) report->out_of_memory = true;
    report->answers_at = report->text.size;
}

static void swap_answers(cli_report *report) {
    const cli_text text = report->text;
    report->text = report->answers;
    report->answers = text;
}

static void append_answer(cli_report *report, const cli_answer *answer) {
    put(report, "<li>%m", answer->text);
    if (answer->id != NULL && json_object_get(report->ids, answer->id) != NULL)
        put(report, " <a href=\"#%e\">%e</a>", answer->id, answer->link);
    append(report, "</li>\n");
}

void cli_report_answers(cli_report *report, const char *heading, const cli_answer *answers,
                        size_t count, size_t shown) {
    if (count == 0) return;
    swap_answers(report);
    if (shown > 0) {
        put(report, "<h2>%e</h2>\n<ol class=\"answers\">\n", heading);
        for (size_t index = 0; index < count && index < shown; index++)
            append_answer(report, &answers[index]);
        append(report, "</ol>\n");
    }
    if (count > shown) {
        put(report, "<details class=\"more\"><summary>%e: %z%r</summary>\n<ol class=\"answers\">\n",
            heading, count - shown, shown > 0 ? " more" : " sentences");
        for (size_t index = shown; index < count; index++) append_answer(report, &answers[index]);
        append(report, "</ol>\n</details>\n");
    }
    swap_answers(report);
}

void cli_report_fold_end(cli_report *report) { append(report, "</div>\n</details>\n"); }

void cli_report_text(cli_report *report, const char *text) { put(report, "<p>%m</p>\n", text); }

void cli_report_code(cli_report *report, const char *text) {
    put(report, "<pre tabindex=\"0\"><code>%e</code></pre>\n", text);
}

/* The first figure or table of an id is the one that links lead to. */
static void append_id(cli_report *report, const char *id) {
    if (id == NULL || json_object_get(report->ids, id) != NULL) return;
    put(report, " id=\"%e\"", id);
    if (json_object_set_new(report->ids, id, json_true()) != 0) report->out_of_memory = true;
}

static bool is_number(const char *cell) {
    if (cell == NULL || *cell == '\0' || strcmp(cell, "-") == 0) return true;
    char *end;
    (void)strtod(cell, &end);
    return end != cell && *end == '\0' && !isalpha((unsigned char)*cell);
}

void cli_report_table(cli_report *report, const cli_table *table) {
    bool *numeric = calloc(table->column_count == 0 ? 1 : table->column_count, sizeof *numeric);
    if (numeric == NULL) {
        report->out_of_memory = true;
        return;
    }
    for (size_t column = 0; column < table->column_count; column++) {
        numeric[column] = table->row_count > 0;
        for (size_t row = 0; row < table->row_count; row++) {
            if (!is_number(table->cells[row * table->column_count + column]))
                numeric[column] = false;
        }
    }
    /* A table wider than a phone scrolls by itself, with the keyboard too. */
    append(report, "<div class=\"scroll\"");
    append_id(report, table->id);
    put(report,
        " tabindex=\"0\" role=\"region\" aria-label=\"%e\"><table><caption>%m</caption><thead><tr>",
        table->caption, table->caption);
    for (size_t column = 0; column < table->column_count; column++)
        put(report,
            numeric[column] ? "<th scope=\"col\" class=\"n\">%e</th>" : "<th scope=\"col\">%e</th>",
            table->columns[column]);
    append(report, "</tr></thead><tbody>\n");
    for (size_t row = 0; row < table->row_count; row++) {
        append(report, "<tr>");
        for (size_t column = 0; column < table->column_count; column++) {
            bool heading = column == 0 && !numeric[0];
            append(report, heading           ? "<th scope=\"row\">"
                           : numeric[column] ? "<td class=\"n\">"
                                             : "<td>");
            escape(report, table->cells[row * table->column_count + column]);
            append(report, heading ? "</th>" : "</td>");
        }
        append(report, "</tr>\n");
    }
    append(report, "</tbody></table></div>\n");
    free(numeric);
}

void cli_report_grid_begin(cli_report *report, int columns) {
    put(report, "<div class=\"grid\" style=\"--columns:%z\">\n", (size_t)columns);
}

void cli_report_grid_end(cli_report *report) { append(report, "</div>\n"); }

static json_t *load_figure(const char *name) {
    char path[96];
    int length = snprintf(path, sizeof path, "figures/%s.vl.json", name);
    if (length < 0 || (size_t)length >= sizeof path) return NULL;
    const cli_embedded *file = cli_embedded_find(path);
    return file == NULL ? NULL : json_loadb((const char *)file->bytes, file->size, 0, NULL);
}

static const char *axis_of(const cli_figure *figure) {
    return figure->axis != NULL ? figure->axis : figure->title;
}

/* Every text "$axis" below `value` becomes `axis`. */
static bool name_axes(json_t *value, const char *axis) {
    const char *key;
    json_t *member;
    size_t index;
    bool whole = true;
    json_object_foreach(value, key, member) {
        if (json_is_string(member) && strcmp(json_string_value(member), "$axis") == 0)
            whole = json_string_set(member, axis) == 0 && whole;
        else
            whole = name_axes(member, axis) && whole;
    }
    json_array_foreach(value, index, member) whole = name_axes(member, axis) && whole;
    return whole;
}

json_t *cli_report_specification(const cli_figure *figure) {
    json_t *specification = load_figure(figure->name);
    if (specification != NULL &&
        (!name_axes(specification, axis_of(figure)) ||
         json_object_set(specification, "datasets", figure->datasets) != 0)) {
        json_decref(specification);
        return NULL;
    }
    return specification;
}

json_t *cli_report_theme(void) {
    const cli_embedded *file = cli_embedded_find("theme.json");
    json_t *themes =
        file == NULL ? NULL : json_loadb((const char *)file->bytes, file->size, 0, NULL);
    json_t *light = json_incref(json_object_get(themes, "light"));
    json_decref(themes);
    /* A page shows through; by itself a figure has the reader's own background. */
    if (light != NULL) (void)json_object_del(light, "background");
    return light;
}

void cli_report_fold_begin(cli_report *report, const char *heading, const char *text,
                           const char *id) {
    append(report, "<details class=\"fold\"");
    append_id(report, id);
    put(report, "><summary><h2>%e</h2><span>%m</span></summary>\n<div class=\"inside\">\n", heading,
        text);
}

void cli_report_figure(cli_report *report, const cli_figure *figure) {
    if (json_object_get(report->specifications, figure->name) == NULL) {
        json_t *specification = load_figure(figure->name);
        if (specification == NULL) {
            (void)snprintf(report->missing_figure, sizeof report->missing_figure, "%s",
                           figure->name);
            return;
        }
        if (json_object_set_new(report->specifications, figure->name, specification) != 0)
            report->out_of_memory = true;
    }
    char label[32];
    (void)snprintf(label, sizeof label, "figure-%d", ++report->figures);
    put(report, "<figure class=\"chart\" data-figure=\"%e\" data-axis=\"%e\"", figure->name,
        axis_of(figure));
    append_id(report, figure->id);
    put(report, " aria-labelledby=\"%r\">\n<h3 id=\"%r\">%m</h3>\n", label, label, figure->title);
    if (cli_report_charts()) {
        put(report,
            "<div class=\"plot\" role=\"img\" aria-label=\"%e\"></div>\n"
            "<script type=\"application/json\">",
            figure->alternative);
        append_json(report, figure->datasets);
        append(report, "</script>\n");
    } else {
        put(report, "<p>%e</p>\n", figure->alternative);
    }
    put(report, "<figcaption>%m</figcaption>\n", figure->caption);
    if (figure->numbers != NULL) {
        append(report, cli_report_charts() ? "<details><summary>Numbers</summary>\n"
                                           : "<details open><summary>Numbers</summary>\n");
        cli_report_table(report, figure->numbers);
        append(report, "</details>\n");
    }
    append(report, "</figure>\n");
}

void cli_report_maps(cli_report *report, const cli_maps *maps) {
    size_t length;
    const size_t size = maps->layers * maps->heads * maps->cells * maps->cells;
    char *packed = cli_pack(maps->levels, size, &length), label[32];
    json_t *told = json_pack("{s:O, s:O, s:O}", "tokens", maps->labels, "measures", maps->measures,
                             "names", maps->names);
    if (packed == NULL || told == NULL) {
        report->out_of_memory = true;
        free(packed);
        json_decref(told);
        return;
    }
    (void)snprintf(label, sizeof label, "maps-%d", ++report->maps);
    put(report,
        "<figure class=\"chart maps\" aria-labelledby=\"%r\" data-first=\"%z\" data-layers=\"%z\" "
        "data-heads=\"%z\" ",
        label, maps->first_layer, maps->layers, maps->heads);
    put(report, "data-cells=\"%z\" data-pieces=\"%z\" data-step=\"%z\" data-levels=\"%z\"",
        maps->cells, maps->pieces, maps->step, (size_t)CLI_MAP_LEVELS);
    append_id(report, "patterns");
    put(report,
        ">\n<h3 id=\"%r\">%m</h3>\n<figcaption>%m</figcaption>\n<script "
        "type=\"application/json\">",
        label, maps->title, maps->caption);
    append_json(report, told);
    append(report, "</script>\n<script type=\"text/plain\">");
    append_bytes(report, packed, length);
    append(report, "</script>\n</figure>\n");
    free(packed);
    json_decref(told);
}

static void append_theme(cli_report *report) {
    append(report, "<script type=\"application/json\" id=\"theme\">");
    append_embedded(report, "theme.json");
    append(report, "</script>\n");
}

static void append_charts(cli_report *report) {
    append(report, "<script type=\"application/json\" id=\"specifications\">");
    append_json(report, report->specifications);
    append(report, "</script>\n<script type=\"text/plain\" id=\"charts\">");
    append_embedded(report, "charts");
    append(report, "</script>\n<details class=\"notice\"><summary>Licences of the chart "
                   "library</summary><pre tabindex=\"0\">");
    const cli_embedded *notice = cli_embedded_find("NOTICE.txt");
    if (notice != NULL) escape_bytes(report, (const char *)notice->bytes, notice->size);
    append(report, "</pre></details>\n");
}

static void write_footer(cli_report *report) {
    put(report,
        "</main>\n<footer><p>Written by otattn %e. This page is complete in itself: it asks the "
        "network for nothing.</p>\n",
        ota_version());
    const bool charts = cli_report_charts() && report->figures > 0;
    if (charts || report->maps > 0) append_theme(report);
    if (charts) append_charts(report);
    append(report, "</footer>\n<script>\n");
    append_embedded(report, "page.js");
    append(report, "</script>\n");
    if (report->maps > 0) {
        append(report, "<script>\n");
        append_embedded(report, "maps.js");
        append(report, "</script>\n");
    }
    append(report, "</body>\n</html>\n");
}

static int fail(cli_error *error, int exit_code, const char *message, const char *detail) {
    *error = (cli_error){.exit_code = exit_code};
    (void)snprintf(error->message, sizeof error->message, "%s%s", message, detail);
    return exit_code;
}

/* The page with the answers in their place; NULL when memory is short. */
static char *put_together(const cli_report *report, size_t *size) {
    const cli_text *text = &report->text, *answers = &report->answers;
    const size_t at = report->answers_at;
    char *page = malloc(text->size + answers->size + 1);
    if (page == NULL) return NULL;
    memcpy(page, text->text, at);
    if (answers->size > 0) memcpy(page + at, answers->text, answers->size);
    memcpy(page + at + answers->size, text->text + at, text->size - at);
    *size = text->size + answers->size;
    return page;
}

int cli_report_close(cli_report *report, const char *path, bool force, cli_error *error) {
    write_footer(report);
    if (cli_text_end(&report->text, 0, error) != 0 || cli_text_end(&report->answers, 0, error) != 0)
        report->out_of_memory = true;
    int status = 0;
    size_t size = 0;
    char *page = report->out_of_memory ? NULL : put_together(report, &size);
    if (page == NULL) report->out_of_memory = true;
    if (report->out_of_memory)
        status = fail(error, CLI_EXIT_LIMIT, "there is not enough memory for the report", "");
    else if (report->missing_figure[0] != '\0')
        status = fail(error, CLI_EXIT_INTERNAL, "the program holds no figure named ",
                      report->missing_figure);
    if (status == 0) status = cli_write_file(path, force, page, size, error);
    free(page);
    cli_report_abort(report);
    return status;
}

void cli_report_abort(cli_report *report) {
    if (report == NULL) return;
    cli_error none;
    (void)cli_text_end(&report->text, 0, &none);
    (void)cli_text_end(&report->answers, 0, &none);
    json_decref(report->specifications);
    json_decref(report->ids);
    free(report->text.text);
    free(report->answers.text);
    free(report);
}
