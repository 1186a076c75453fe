/* The files of `otattn verify -o`: the page (studies as charts, then every check), and the same as tables.
 * CSV by RFC 4180, a value that does not exist is an empty cell. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "program/files/files.h"
#include "program/report/report.h"
#include "results.h"

enum { NUMBER = 32, CHECK_COLUMNS = 6 };

/* ---- text that grows ---- */

typedef struct growing {
    char *text;
    size_t size, room;
    bool failed;
} growing;

static void append(growing *g, const char *text) {
    const size_t more = strlen(text);
    if (g->size + more + 1 > g->room) {
        const size_t room = 2 * (g->size + more + 1);
        char *grown = realloc(g->text, room);
        if (grown == NULL) {
            g->failed = true;
            return;
        }
        g->text = grown;
        g->room = room;
    }
    memcpy(g->text + g->size, text, more + 1);
    g->size += more;
}

/* One cell, quoted where it must be, and what follows it. */
static void append_cell(growing *g, const char *text, const char *after) {
    if (strpbrk(text, ",\"\n") == NULL) {
        append(g, text);
    } else {
        append(g, "\"");
        for (; *text != '\0'; text++) {
            const char one[3] = {*text, *text == '"' ? '"' : '\0', '\0'};
            append(g, one);
        }
        append(g, "\"");
    }
    append(g, after);
}

static void append_number(growing *g, double value, const char *after) {
    char text[NUMBER] = "";
    /* 60, which in the fewest digits would be 6e+01. */
    if (value == rint(value) && fabs(value) < 1e15)
        (void)snprintf(text, sizeof text, "%.0f", value);
    else if (isfinite(value))
        tool_format_real(value, text, sizeof text);
    append_cell(g, text, after);
}

static int write_text(verification *v, growing *g, const char *path) {
    tool_error *error = &v->context->error;
    tool_output *output = NULL;
    int code = 0;
    if (g->failed) code = tool_fail(error, TOOL_EXIT_LIMIT, "out of memory");
    if (code == 0) code = tool_output_begin(path, v->context->settings.force, &output, error);
    if (code == 0) code = tool_output_write(output, g->text, g->size, error);
    if (code == 0)
        code = tool_output_commit(output, error);
    else
        tool_output_abort(output);
    free(g->text);
    return code;
}

/* ---- tables ---- */

static int write_checks(verification *v, const char *path) {
    growing g = {NULL, 0, 0, false};
    append(&g, "id,form,claim,value,relation,tolerance,expected,holds,seconds\n");
    for (int k = 0; k < v->count; k++) {
        const outcome *o = &v->outcomes[k];
        append_cell(&g, o->check->id, ",");
        append_cell(&g, tool_form_text(o->check), ",");
        append_cell(&g, o->check->claim, ",");
        append_number(&g, o->value, ",");
        append_cell(&g, tool_relation_text(o->check), ",");
        append_number(&g, o->check->tolerance, ",");
        append_cell(&g, !o->check->printed ? "true" : "false", ",");
        append_cell(&g, o->holds ? "true" : "false", ",");
        append_number(&g, o->seconds, "\n");
    }
    return write_text(v, &g, path);
}

/* The caption with its numbers in place of {size}, {samples} and {rounds}. */
static void write_caption(const tool_study *study, const study_sizes *sizes, study_points *points) {
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"{size}", sizes->size}, {"{samples}", sizes->samples}, {"{rounds}", sizes->rounds}};
    char *to = points->caption;
    const char *const end = to + sizeof points->caption - NUMBER;
    for (const char *from = study->caption; *from != '\0' && to < end;) {
        bool number = false;
        for (int k = 0; k < 3 && !number; k++) {
            const size_t length = strlen(numbers[k].name);
            number = strncmp(from, numbers[k].name, length) == 0;
            if (!number) continue;
            to += snprintf(to, NUMBER, "%" PRId64, numbers[k].value);
            from += length;
        }
        if (!number) *to++ = *from++;
    }
    *to = '\0';
}

static void run_study(verification *v, const tool_study *study, study_points *points) {
    const study_sizes sizes = tool_study_sizes(v->context, study);
    points->count = 0;
    write_caption(study, &sizes, points);
    v->trial.dice = tool_check_dice(v->context, study->id, study->name, 0);
    v->trial.used = 0;
    v->trial.fault = 0.0;
    study->run(&v->trial, &sizes, points);
}

/* points [tool_study_count]; those of a study that is not chosen stay empty. */
static void run_studies(verification *v, study_points *points) {
    bool any = false;
    for (int k = 0; k < tool_study_count && *v->context->cancel == 0; k++) {
        if (!tool_check_chosen(v->context, tool_studies[k].id)) continue;
        run_study(v, &tool_studies[k], &points[k]);
        any = true;
    }
    if (!any && *v->context->cancel == 0) {
        tool_warn(v->context,
                  "no id that --only '%.60s' chooses has a study: %s holds checks alone",
                  v->context->settings.only, v->context->settings.out);
    }
}

static json_t *datasets_of(const tool_study *study, const study_points *points) {
    json_t *rows = json_array();
    for (int k = 0; k < points->count; k++) {
        const char *label = points->label[k];
        json_t *x = label != NULL ? json_string(label) : json_real(points->x[k]);
        (void)json_array_append_new(rows, json_pack("{s:s, s:o, s:f}", study->fields[0],
                                                    points->series[k], study->fields[1], x,
                                                    study->fields[2], points->y[k]));
    }
    return json_pack("{s:o}", study->dataset, rows);
}

static int write_points(verification *v, const tool_study *study, const study_points *points,
                        const char *path) {
    growing g = {NULL, 0, 0, false};
    for (int k = 0; k < 3; k++) append_cell(&g, study->fields[k], k < 2 ? "," : "\n");
    for (int k = 0; k < points->count; k++) {
        append_cell(&g, points->series[k], ",");
        if (points->label[k] != NULL)
            append_cell(&g, points->label[k], ",");
        else
            append_number(&g, points->x[k], ",");
        append_number(&g, points->y[k], "\n");
    }
    return write_text(v, &g, path);
}

static int write_figure(verification *v, const tool_study *study, const study_points *points,
                        const char *path) {
    json_t *datasets = datasets_of(study, points);
    json_t *figure = tool_report_specification(study->figure, datasets);
    char *text =
        figure != NULL ? json_dumps(figure, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    growing g = {NULL, 0, 0, text == NULL};
    if (text != NULL) {
        append(&g, text);
        append(&g, "\n");
    }
    free(text);
    json_decref(figure);
    json_decref(datasets);
    return write_text(v, &g, path);
}

static int in_folder(verification *v, const char *folder, const char *name, const char *end,
                     char path[PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/%s%s", folder, name, end) < PATH_MAX) return 0;
    return tool_fail(&v->context->error, TOOL_EXIT_IO, "%s: the path is too long", folder);
}

static int write_study(verification *v, const tool_study *study, const study_points *points,
                       const char *folder) {
    char path[PATH_MAX];
    int code = in_folder(v, folder, study->name, ".csv", path);
    if (code == 0) code = write_points(v, study, points, path);
    if (code == 0) code = in_folder(v, folder, study->name, ".vl.json", path);
    return code == 0 ? write_figure(v, study, points, path) : code;
}

/* ---- page ---- */

/* Cells of `rows` x `columns` that point into `texts`; both are freed by the caller. */
typedef struct cells {
    const char **cells;
    char (*texts)[NUMBER];
} cells;

static cells cells_of(size_t rows, size_t columns) {
    return (cells){calloc(rows * columns + 1, sizeof(char *)),
                   calloc(rows * columns + 1, sizeof(char[NUMBER]))};
}

static void free_cells(cells c) {
    free((void *)c.cells);
    free(c.texts);
}

static void add_study(tool_report *report, const tool_study *study, const study_points *points) {
    const size_t rows = (size_t)points->count;
    cells c = cells_of(rows, 3);
    json_t *datasets = datasets_of(study, points);
    tool_table numbers = {points->caption, study->fields, 3, c.cells, rows};
    for (size_t k = 0; c.cells != NULL && c.texts != NULL && k < rows; k++) {
        (void)snprintf(c.texts[3 * k + 1], NUMBER, "%.6g", points->x[k]);
        (void)snprintf(c.texts[3 * k + 2], NUMBER, "%.6g", points->y[k]);
        c.cells[3 * k] = points->series[k];
        c.cells[3 * k + 1] = points->label[k] != NULL ? points->label[k] : c.texts[3 * k + 1];
        c.cells[3 * k + 2] = c.texts[3 * k + 2];
    }
    char title[128];
    (void)snprintf(title, sizeof title, "%s: %s", study->id, study->title);
    const tool_figure figure = {
        study->figure,   title,       datasets,
        points->caption, study->text, c.cells != NULL && c.texts != NULL ? &numbers : NULL};
    tool_report_section(report, study->title);
    tool_report_text(report, study->text);
    tool_report_figure(report, &figure);
    json_decref(datasets);
    free_cells(c);
}

static void add_checks(tool_report *report, const verification *v) {
    static const char *const columns[CHECK_COLUMNS] = {"id",    "form",  "claim",
                                                       "value", "bound", "result"};
    const size_t rows = (size_t)v->count;
    cells c = cells_of(rows, CHECK_COLUMNS);
    if (c.cells != NULL && c.texts != NULL) {
        for (size_t k = 0; k < rows; k++) {
            const outcome *o = &v->outcomes[k];
            const char **row = c.cells + CHECK_COLUMNS * k;
            char(*text)[NUMBER] = c.texts + CHECK_COLUMNS * k;
            (void)snprintf(text[3], NUMBER, "%.3g", o->value);
            (void)snprintf(text[4], NUMBER, "%s %.2g", tool_relation_text(o->check),
                           o->check->tolerance);
            row[0] = o->check->id;
            row[1] = tool_form_text(o->check);
            row[2] = o->check->claim;
            row[3] = text[3];
            row[4] = text[4];
            row[5] = o->right ? (o->holds ? "holds" : "fails, as expected") : "wrong";
        }
        const tool_table table = {"Every check: what was measured beside what was claimed.",
                                  columns, CHECK_COLUMNS, c.cells, rows};
        tool_report_table(report, &table);
    }
    free_cells(c);
}

static int write_page(verification *v, const char *path, const study_points *points) {
    const ota_error error = {{0}, {0}, {0}};
    char lead[256];
    (void)snprintf(lead, sizeof lead,
                   "%d statements about attention as transport, measured just now by %d checks in "
                   "%.1f s. Forms that the errata refute were run as well, and failed.",
                   v->id_count, v->count, v->seconds);
    tool_report *report = tool_report_open("Every statement, measured", lead);
    if (report == NULL) return tool_fail_status(v->context, OTA_ENOMEM, &error);
    for (int k = 0; k < tool_study_count; k++) {
        if (points[k].count > 0) add_study(report, &tool_studies[k], &points[k]);
    }
    tool_report_section(report, "The checks");
    tool_report_text(
        report, "Each row calls the library and measures one number: a distance from a formula "
                "that is written in the check, an excess over a bound, a count of exceptions. "
                "Numbers are drawn anew for every `--seed`.");
    add_checks(report, v);
    return tool_report_close(report, path, v->context->settings.force, &v->context->error);
}

/* ---- where to ---- */

bool tool_ends_with(const char *path, const char *end) {
    const size_t size = strlen(path), tail = strlen(end);
    return size >= tail && strcmp(path + size - tail, end) == 0;
}

static int write_folder(verification *v, const char *folder, const study_points *points) {
    char path[PATH_MAX];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return tool_fail(&v->context->error, TOOL_EXIT_IO, "%s: cannot be made: %s", folder,
                         strerror(errno));
    }
    int code = in_folder(v, folder, "checks", ".csv", path);
    if (code == 0) code = write_checks(v, path);
    for (int k = 0; code == 0 && k < tool_study_count; k++) {
        if (points[k].count > 0) code = write_study(v, &tool_studies[k], &points[k], folder);
    }
    if (code == 0) code = in_folder(v, folder, "verify", ".html", path);
    return code == 0 ? write_page(v, path, points) : code;
}

int tool_verify_write(verification *v, const char *path) {
    const ota_error error = {{0}, {0}, {0}};
    if (tool_ends_with(path, ".csv")) return write_checks(v, path);
    study_points *points = calloc((size_t)tool_study_count, sizeof *points);
    if (points == NULL) return tool_fail_status(v->context, OTA_ENOMEM, &error);
    run_studies(v, points);
    int code = 0;
    v->context->interrupted = *v->context->cancel != 0;
    if (!v->context->interrupted) {
        code = tool_ends_with(path, ".html") ? write_page(v, path, points)
                                             : write_folder(v, path, points);
    }
    free(points);
    return code;
}
