/* The page of a run: model, text, settings; what the numbers say; the pictures that one looks at first; and folded all
 * others, tables, and settings. With two runs their differences come first. The parts are the rows of one table. */
#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "run_parts.h"
#include "program/program.h"
#include "src/base/program/system_program.h"

enum { MANIFEST_DEPTH = 3, VALUE = RUN_SETTING, LABEL = 96, FIGURE_WIDTH = 520 };

/* ---- what the parts call ---- */

double cli_run_number(const json_t *figure, const char *member) {
    const json_t *value = json_object_get(figure, member);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

double cli_run_interval(const json_t *figure, size_t end) {
    const json_t *value = json_array_get(json_object_get(figure, "ci95"), end);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

const char *cli_run_name(const run_page *page, int run) { return page->runs[run].name; }

void cli_run_say(run_page *page, const char *format, ...) {
    char text[2048];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cli_run_open(page);
    cli_report_text(page->report, text);
}

void cli_run_begin(run_page *page, run_section section) {
    page->section = section;
    page->open = false;
}

void cli_run_open(run_page *page) {
    const run_section *section = &page->section;
    if (page->open || section->heading == NULL) return;
    page->open = true;
    if (page->details)
        cli_report_fold_begin(page->report, section->heading,
                              section->text == NULL ? "" : section->text, NULL);
    else
        cli_report_section(page->report, section->heading);
    if (!page->details && section->text != NULL) cli_report_text(page->report, section->text);
    if (section->columns > 0) cli_report_grid_begin(page->report, section->columns);
}

void cli_run_end(run_page *page) {
    if (page->open && page->section.columns > 0) cli_report_grid_end(page->report);
    if (page->open && page->details) cli_report_fold_end(page->report);
    page->section = (run_section){0};
    page->open = false;
}

void cli_run_title(const run_page *page, int run, const char *title, char text[RUN_TITLE]) {
    const bool two = page->count > 1;
    (void)snprintf(text, RUN_TITLE, "%.100s%s%.80s", title, two ? ": " : "",
                   two ? cli_run_name(page, run) : "");
}

#define CONSTANT "constant"

static const char *constant_text(const json_t *one, const char *member) {
    return json_string_value(json_object_get(one, member));
}

void cli_run_leave_out(run_page *page, const char *title, const char *file, double value) {
    char text[LABEL * 2];
    (void)snprintf(text, sizeof text, "%s (%.4g)", title, value);
    size_t index;
    const json_t *one;
    json_array_foreach(page->constant, index, one) {
        if (strcmp(constant_text(one, "text"), text) == 0) return;
    }
    (void)json_array_append_new(page->constant, json_pack("{s:s, s:s}", "text", text, "id", file));
}

const char *cli_run_place(const run_page *page, const char *file) {
    size_t index;
    const json_t *one;
    json_array_foreach(page->constant, index, one) {
        if (file != NULL && strcmp(constant_text(one, "id"), file) == 0) return CONSTANT;
    }
    return file;
}

static void say_constant(run_page *page) {
    cli_text list;
    size_t index;
    const json_t *one;
    if (json_array_size(page->constant) == 0 || page->code != 0) return;
    page->code = cli_text_begin(&list, page->error);
    if (page->code != 0) return;
    json_array_foreach(page->constant, index, one) {
        (void)fprintf(list.stream, "%s%s", index == 0 ? "" : ", ", constant_text(one, "text"));
    }
    (void)fputc('.', list.stream);
    page->code = cli_text_end(&list, 0, page->error);
    if (page->code == 0) {
        cli_report_fold_begin(page->report, "What is not drawn",
                              "Measures that are one number everywhere, with that number.",
                              CONSTANT);
        cli_report_text(page->report, list.text);
        cli_report_fold_end(page->report);
    }
    free(list.text);
}

bool cli_run_part_of(const run_folder *run, run_part *part) {
    const json_t *states = json_object_get(run->metrics, "layers");
    const json_t *all = json_object_get(json_object_get(run->manifest, "model"), "layers");
    const size_t count = json_array_size(states);
    if (count < 2 || !json_is_integer(all)) return false;
    *part = (run_part){cli_run_layer("layers", json_array_get(states, 0), 0) + 1,
                       cli_run_layer("layers", json_array_get(states, count - 1), count - 1),
                       (int)json_integer_value(all)};
    return part->first > 0 || part->last + 1 < part->layers;
}

void cli_run_write(run_page *page, const char *part, const char *name, const char *ending,
                   const char *text) {
    char path[OTA_PATH_ROOM];
    if (page->code != 0) return;
    const char *folder = page->runs[0].path;
    int length = snprintf(path, sizeof path, "%s/%s", folder, part);
    if (length > 0 && length < OTA_PATH_ROOM && !ota_folder_make(path) && errno != EEXIST) {
        page->code = cli_fail(page->error, CLI_EXIT_IO, "%s: cannot be made: %s",
                              cli_short_path(path), strerror(errno));
        return;
    }
    length = snprintf(path, sizeof path, "%s/%s/%s%s", folder, part, name, ending);
    if (length < 0 || length >= OTA_PATH_ROOM) {
        page->code =
            cli_fail(page->error, CLI_EXIT_IO, "%s: the path is too long", cli_short_path(folder));
        return;
    }
    page->code = cli_write_file(path, true, text, strlen(text), page->error);
}

/* Outside a page a figure has no container to fit into and no theme around it. */
static void write_figure(run_page *page, const char *file, const cli_figure *figure) {
    json_t *specification = cli_report_specification(figure);
    if (specification == NULL) return;
    (void)cli_json_put(specification, "title:s", figure->title);
    if (json_is_string(json_object_get(specification, "width")))
        (void)cli_json_put(specification, "width:i", FIGURE_WIDTH);
    (void)json_object_del(specification, "autosize");
    json_t *theme = cli_report_theme();
    if (theme != NULL) (void)json_object_set_new(specification, "config", theme);
    char *text = json_dumps(specification, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    if (text != NULL)
        cli_run_write(page, "figures", file, ".vl.json", text);
    else
        page->code = cli_fail(page->error, CLI_EXIT_LIMIT, "there is no memory for a figure");
    cli_memory_free(text);
    json_decref(specification);
}

void cli_run_figure(run_page *page, const char *file, cli_figure figure) {
    cli_run_open(page);
    cli_report_figure(page->report, &figure);
    if (page->count == 1 || strcmp(file, "compare") == 0) write_figure(page, file, &figure);
    json_decref(figure.datasets);
}

/* ---- what was run ---- */

/* A scalar as text; false for what has members of its own. */
static bool scalar_text(const json_t *value, char text[VALUE]) {
    if (json_is_string(value))
        (void)snprintf(text, VALUE, "%s", json_string_value(value));
    else if (json_is_integer(value))
        (void)snprintf(text, VALUE, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        (void)snprintf(text, VALUE, "%.6g", json_real_value(value));
    else if (json_is_boolean(value))
        (void)snprintf(text, VALUE, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_null(value))
        (void)snprintf(text, VALUE, "-");
    else
        return false;
    return true;
}

/* An array of scalars on one line. */
static bool list_text(const json_t *array, char text[VALUE]) {
    size_t used = 0, index;
    const json_t *value;
    text[0] = '\0';
    json_array_foreach(array, index, value) {
        char item[VALUE];
        if (!scalar_text(value, item)) return false;
        const int length = snprintf(text + used, VALUE - used, index == 0 ? "%s" : ", %s", item);
        if (length < 0 || (size_t)length >= VALUE - used) return true;
        used += (size_t)length;
    }
    return json_is_array(array);
}

bool cli_run_setting(const json_t *value, char text[RUN_SETTING]) {
    return scalar_text(value, text) || list_text(value, text);
}

static const json_t *member(const json_t *object, const char *path[], int depth) {
    for (int level = 0; level < depth; level++) object = json_object_get(object, path[level]);
    return object;
}

/* Rows NAME | value [| value of the second run] of every member below `path`. */
static void add_members(const run_page *page, cli_cells *cells, const char *path[], int depth) {
    const char *key;
    json_t *value;
    json_t *object = json_incref((json_t *)member(page->runs[0].manifest, path, depth));
    json_object_foreach(object, key, value) {
        char name[VALUE] = "", text[VALUE];
        path[depth] = key;
        if (json_is_object(value) && depth + 1 < MANIFEST_DEPTH) {
            add_members(page, cells, path, depth + 1);
            continue;
        }
        if (!cli_run_setting(value, text)) continue;
        /* What was not asked for is no setting. */
        if (page->count == 1 && (json_is_null(value) || text[0] == '\0')) continue;
        for (int level = 0; level <= depth; level++) {
            const size_t used = strlen(name);
            (void)snprintf(name + used, VALUE - used, level == 0 ? "%s" : " %s", path[level]);
        }
        cli_cell(cells, name);
        cli_cell(cells, text);
        if (page->count < 2) continue;
        const json_t *other = member(page->runs[1].manifest, path, depth + 1);
        const bool known = cli_run_setting(other, text);
        cli_cell(cells, known ? text : NULL);
    }
    json_decref(object);
}

/* Transitions measured: the sum over layers of how many positions of all windows were compared. */
static double count_transitions(const json_t *metrics) {
    double count = 0;
    size_t index;
    const json_t *transition;
    json_array_foreach(json_object_get(metrics, "transitions"), index, transition) {
        const double n = cli_run_number(json_object_get(transition, "tv"), "n");
        if (isfinite(n)) count += n;
    }
    return count;
}

/* "NAME: ", or nothing where there is one run. */
static const char *who(const run_page *page, int run, char text[LABEL]) {
    text[0] = '\0';
    if (page->count > 1) (void)snprintf(text, LABEL, "%s: ", cli_run_name(page, run));
    return text;
}

static void say_counts(run_page *page, int run) {
    const json_t *metrics = page->runs[run].metrics;
    const double windows = cli_run_number(metrics, "windows");
    const double tokens = cli_run_number(metrics, "tokens");
    const size_t layers = json_array_size(json_object_get(metrics, "transitions"));
    const double count = count_transitions(metrics);
    char name[LABEL];
    cli_run_say(
        page,
        "%s%.0f window%s with %.0f tokens were run through %zu layers. Every transition from one "
        "state to the next was measured at every position: %.0f in all, %.0f a layer.",
        who(page, run, name), windows, windows == 1 ? "" : "s", tokens, layers, count,
        layers > 0 ? count / (double)layers : 0);
}

static void say_bounds(run_page *page, int run) {
    const json_t *bounds = json_object_get(page->runs[run].metrics, "bounds");
    const double coherent = cli_run_number(bounds, "coherence_checked");
    char name[LABEL];
    if (!json_is_object(bounds)) return;
    cli_run_say(page,
                "%s%.0f transitions were held against the Lipschitz bound |p' - p|\xe2\x82\x81 "
                "\xe2\x89\xa4 w |h' - h|; %.0f broke it; the largest ratio is %.4g.",
                who(page, run, name), cli_run_number(bounds, "checked"),
                cli_run_number(bounds, "violations"), cli_run_number(bounds, "largest"));
    if (isfinite(coherent))
        cli_run_say(page,
                    "%sThe paths of %.0f positions were held against the bound by what alignment "
                    "leaves of them; %.0f broke it.",
                    who(page, run, name), coherent, cli_run_number(bounds, "coherence_violations"));
}

static void add_manifest(run_page *page) {
    cli_cells *cells = cli_cells_new(page->count == 1 ? 2 : 3, NULL);
    const char *path[MANIFEST_DEPTH];
    cli_cell(cells, "setting");
    for (int run = 0; run < page->count; run++)
        cli_cell(cells, page->count == 1 ? "value" : cli_run_name(page, run));
    add_members(page, cells, path, 0);
    const cli_table *table = cli_cells_table(cells, "The run's manifest.");
    if (table != NULL && table->row_count > 0) cli_report_table(page->report, table);
    cli_cells_free(cells);
}

static void add_counts(run_page *page) {
    if (!page->details) return;
    cli_run_begin(page, (run_section){"What was measured, and with which settings",
                                      "Counts of the run, and its manifest.", 0});
    for (int run = 0; run < page->count; run++) {
        say_counts(page, run);
        say_bounds(page, run);
    }
    add_manifest(page);
    cli_run_end(page);
}

/* ---- the page ---- */

/* A model is named by the last part of its path; two runs are told apart by A and B. */
static int name_run(run_folder *folder, int run, int count, cli_error *error) {
    const char *model = json_string_value(json_object_get(folder->metrics, "model"));
    const char *last = model == NULL ? NULL : ota_path_name(model);
    char label[64], name[80];
    cli_run_label(last != NULL && *last != '\0' ? last
                  : model != NULL               ? model
                                                : "this run",
                  label, sizeof label);
    (void)snprintf(name, sizeof name, count == 1 ? "%s" : "%s (%c)", label, 'A' + run);
    folder->name = cli_copy(name, strlen(name));
    if (folder->name != NULL) return 0;
    return cli_fail(error, CLI_EXIT_LIMIT, "there is not enough memory for the report");
}

static cli_report *open_page(const run_folder *runs, int count) {
    char title[256];
    if (count == 1)
        (void)snprintf(title, sizeof title, "%s, layer by layer", runs[0].name);
    else
        (void)snprintf(title, sizeof title, "%s and %s, compared", runs[0].name, runs[1].name);
    return cli_report_open(title, NULL);
}

/* What one looks at first, in this order; the same parts then give their details. */
static void (*const parts[])(run_page *) = {cli_run_compare, cli_run_depth,   cli_run_heads,
                                            cli_run_events,  cli_run_methods, cli_run_tables,
                                            add_counts};

static void fill_page(run_page *page) {
    cli_run_facts(page);
    cli_report_answers_here(page->report);
    for (int details = 0; details < 2; details++) {
        page->details = details == 1;
        for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++) parts[part](page);
    }
    say_constant(page);
    cli_run_answers(page);
}

static int write_page(const run_folder *runs, int count, const char *path, cli_error *error) {
    run_page page = {.report = open_page(runs, count),
                     .runs = runs,
                     .count = count,
                     .error = error,
                     .constant = json_array()};
    if (page.report == NULL) {
        json_decref(page.constant);
        return cli_fail(error, CLI_EXIT_LIMIT, "there is not enough memory for the report");
    }
    fill_page(&page);
    json_decref(page.constant);
    if (page.code == 0) return cli_report_close(page.report, path, true, error);
    cli_report_abort(page.report);
    return page.code;
}

int cli_run_report(const char *folder, const char *other, const char *page, cli_error *error) {
    run_folder runs[2] = {{0}};
    const int count = other == NULL ? 1 : 2;
    char path[OTA_PATH_ROOM];
    const int length = page != NULL ? snprintf(path, sizeof path, "%s", page)
                                    : snprintf(path, sizeof path, "%s/report.html", folder);
    int code =
        length >= 0 && length < OTA_PATH_ROOM
            ? 0
            : cli_fail(error, CLI_EXIT_IO, "%s: the path is too long", cli_short_path(folder));
    for (int run = 0; code == 0 && run < count; run++) {
        code = cli_run_folder_load(run == 0 ? folder : other, &runs[run], error);
        if (code == 0) code = name_run(&runs[run], run, count, error);
    }
    if (code == 0) code = write_page(runs, count, path, error);
    for (int run = 0; run < count; run++) cli_run_folder_free(&runs[run]);
    return code;
}
