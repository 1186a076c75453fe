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
#include "verify.h"

enum { NUMBER = 32 };

/* Writes the text, unless `code` says that it could not be made, and frees it. */
static int write_text(verification *v, cli_text *text, int code, const char *path) {
    cli_error *error = &v->context->error;
    code = cli_text_end(text, code, error);
    if (code == 0)
        code =
            cli_write_file(path, v->context->settings.output.force, text->text, text->size, error);
    free(text->text);
    return code;
}

/* ---- tables ---- */

static int write_checks(verification *v, const char *path) {
    cli_text csv;
    const int code = cli_text_begin(&csv, &v->context->error);
    if (code != 0) return code;
    (void)fputs("id,form,claim,value,relation,tolerance,expected,holds,seconds\n", csv.stream);
    for (int k = 0; k < v->count; k++) {
        const outcome *o = &v->outcomes[k];
        csv_row(&csv, "wwwnwnwwn", o->check->id, cli_form_text(o->check), o->check->claim, o->value,
                cli_relation_text(o->check), o->check->tolerance,
                !o->check->printed ? "true" : "false", o->holds ? "true" : "false", o->seconds);
    }
    return write_text(v, &csv, 0, path);
}

/* The caption with its numbers in place of {size}, {samples} and {rounds}. */
static void write_caption(const statement_study *study, const study_sizes *sizes,
                          study_points *points) {
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

static void run_study(verification *v, const statement_study *study, study_points *points) {
    const study_sizes sizes = cli_study_sizes(v->context, study);
    points->count = 0;
    write_caption(study, &sizes, points);
    v->trial.dice = cli_check_dice(v->context, study->id, study->name, 0);
    v->trial.used = 0;
    v->trial.fault = 0.0;
    study->run(&v->trial, &sizes, points);
}

/* points [statement_study_count]; those of a study that is not chosen stay empty. */
static void run_studies(verification *v, study_points *points) {
    bool any = false;
    for (int k = 0; k < statement_study_count && *v->context->cancel == 0; k++) {
        if (!cli_check_chosen(v->context, statement_studies[k].id)) continue;
        run_study(v, &statement_studies[k], &points[k]);
        any = true;
    }
    if (!any && *v->context->cancel == 0) {
        cli_warn(v->context, "no id that --only '%.60s' chooses has a study: %s holds checks alone",
                 v->context->settings.verify.only, v->context->settings.output.out);
    }
}

static const char *figure_of(const statement_study *study) {
    return study->figure != NULL ? study->figure : study->name;
}

static json_t *datasets_of(const statement_study *study, const study_points *points) {
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

static int write_points(verification *v, const statement_study *study, const study_points *points,
                        const char *path) {
    cli_text csv;
    const int code = cli_text_begin(&csv, &v->context->error);
    if (code != 0) return code;
    csv_row(&csv, "www", study->fields[0], study->fields[1], study->fields[2]);
    for (int k = 0; k < points->count; k++) {
        const char *label = points->label[k];
        if (label != NULL)
            csv_row(&csv, "wwn", points->series[k], label, points->y[k]);
        else
            csv_row(&csv, "wnn", points->series[k], points->x[k], points->y[k]);
    }
    return write_text(v, &csv, 0, path);
}

static int write_figure(verification *v, const statement_study *study, const study_points *points,
                        const char *path) {
    cli_text text;
    int code = cli_text_begin(&text, &v->context->error);
    if (code != 0) return code;
    json_t *datasets = datasets_of(study, points);
    json_t *figure = cli_report_specification(
        &(cli_figure){.name = figure_of(study), .title = study->title, .datasets = datasets});
    if (json_dumpf(figure, text.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) != 0)
        code = cli_fail(&v->context->error, CLI_EXIT_LIMIT, "out of memory");
    (void)fputc('\n', text.stream);
    json_decref(figure);
    json_decref(datasets);
    return write_text(v, &text, code, path);
}

static int in_folder(verification *v, const char *folder, const char *name, const char *end,
                     char path[PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/%s%s", folder, name, end) < PATH_MAX) return 0;
    return cli_fail(&v->context->error, CLI_EXIT_IO, "%s: the path is too long", folder);
}

static int write_study(verification *v, const statement_study *study, const study_points *points,
                       const char *folder) {
    char path[PATH_MAX];
    int code = in_folder(v, folder, study->name, ".csv", path);
    if (code == 0) code = write_points(v, study, points, path);
    if (code == 0) code = in_folder(v, folder, study->name, ".vl.json", path);
    return code == 0 ? write_figure(v, study, points, path) : code;
}

/* ---- page ---- */

static void add_study(cli_report *report, const statement_study *study,
                      const study_points *points) {
    cli_cells *cells = cli_cells_new(3, study->fields);
    json_t *datasets = datasets_of(study, points);
    for (int k = 0; k < points->count; k++) {
        cli_cell(cells, points->series[k]);
        if (points->label[k] != NULL)
            cli_cell(cells, points->label[k]);
        else
            cli_cell_format(cells, "%.6g", points->x[k]);
        cli_cell_format(cells, "%.6g", points->y[k]);
    }
    char title[128];
    (void)snprintf(title, sizeof title, "%s: %s", study->id, study->title);
    const cli_figure figure = {.name = figure_of(study),
                               .title = title,
                               .datasets = datasets,
                               .caption = points->caption,
                               .alternative = study->text,
                               .numbers = cli_cells_table(cells, points->caption)};
    cli_report_section(report, study->title);
    cli_report_text(report, study->text);
    cli_report_figure(report, &figure);
    json_decref(datasets);
    cli_cells_free(cells);
}

static void add_checks(cli_report *report, const verification *v, bool extension,
                       const char *caption) {
    static const char *const columns[] = {"id", "form", "claim", "value", "bound", "result"};
    cli_cells *cells = cli_cells_new(sizeof columns / sizeof columns[0], columns);
    for (int k = 0; k < v->count; k++) {
        const outcome *o = &v->outcomes[k];
        if (o->extension != extension) continue;
        cli_cell(cells, o->check->id);
        cli_cell(cells, cli_form_text(o->check));
        cli_cell(cells, o->check->claim);
        cli_cell_format(cells, "%.3g", o->value);
        cli_cell_format(cells, "%s %.2g", cli_relation_text(o->check), o->check->tolerance);
        cli_cell(cells, o->right ? (o->holds ? "holds" : "fails, as expected") : "wrong");
    }
    const cli_table *table = cli_cells_table(cells, caption);
    if (table != NULL) cli_report_table(report, table);
    cli_cells_free(cells);
}

static int write_page(verification *v, const char *path, const study_points *points) {
    const ota_error error = {{0}, {0}, {0}};
    char lead[256];
    int checks = 0;
    for (int k = 0; k < v->count; k++) checks += !v->outcomes[k].extension;
    (void)snprintf(lead, sizeof lead,
                   "%d statements about attention as transport, measured just now by %d checks in "
                   "%.1f s. Forms that the errata refute were run as well, and failed.",
                   cli_ids_of(v, false), checks, v->seconds);
    cli_report *report = cli_report_open("Every statement, measured", lead);
    if (report == NULL) return cli_fail_status(v->context, OTA_ENOMEM, &error);
    for (int k = 0; k < statement_study_count; k++) {
        if (points[k].count > 0) add_study(report, &statement_studies[k], &points[k]);
    }
    cli_report_section(report, "The checks");
    cli_report_text(report, "Each row calls the library and measures one number: a distance from "
                            "a formula that is written in the check, an excess over a bound, a "
                            "count of exceptions. Numbers are drawn anew for every `--seed`.");
    add_checks(report, v, false, "Every check: what was measured beside what was claimed.");
    if (cli_ids_of(v, true) > 0) {
        cli_report_section(report, "Beyond the requirements");
        add_checks(report, v, true, "Statements that no requirement asks for.");
    }
    return cli_report_close(report, path, v->context->settings.output.force, &v->context->error);
}

/* ---- where to ---- */

bool cli_ends_with(const char *path, const char *end) {
    const size_t size = strlen(path), tail = strlen(end);
    return size >= tail && strcmp(path + size - tail, end) == 0;
}

static int write_folder(verification *v, const char *folder, const study_points *points) {
    char path[PATH_MAX];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return cli_fail(&v->context->error, CLI_EXIT_IO, "%s: cannot be made: %s", folder,
                        strerror(errno));
    }
    int code = in_folder(v, folder, "checks", ".csv", path);
    if (code == 0) code = write_checks(v, path);
    for (int k = 0; code == 0 && k < statement_study_count; k++) {
        if (points[k].count > 0) code = write_study(v, &statement_studies[k], &points[k], folder);
    }
    if (code == 0) code = in_folder(v, folder, "verify", ".html", path);
    return code == 0 ? write_page(v, path, points) : code;
}

int cli_verify_write(verification *v, const char *path) {
    const ota_error error = {{0}, {0}, {0}};
    if (cli_ends_with(path, ".csv")) return write_checks(v, path);
    study_points *points = calloc((size_t)statement_study_count, sizeof *points);
    if (points == NULL) return cli_fail_status(v->context, OTA_ENOMEM, &error);
    run_studies(v, points);
    int code = 0;
    v->context->interrupted = *v->context->cancel != 0;
    if (!v->context->interrupted) {
        code = cli_ends_with(path, ".html") ? write_page(v, path, points)
                                            : write_folder(v, path, points);
    }
    free(points);
    return code;
}
