/* The files of `otattn verify -o`: the page (studies as charts, then every check), and the same as tables.
 * CSV by RFC 4180, a value that does not exist is an empty cell. */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files.h"
#include "program/report/run_parts.h"
#include "verify.h"
#include "src/base/program/system_program.h"

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
                     char path[OTA_PATH_ROOM]) {
    if (snprintf(path, OTA_PATH_ROOM, "%s/%s%s", folder, name, end) < OTA_PATH_ROOM) return 0;
    return cli_fail(&v->context->error, CLI_EXIT_IO, "%s: the path is too long", folder);
}

static int write_study(verification *v, const statement_study *study, const study_points *points,
                       const char *folder) {
    char path[OTA_PATH_ROOM];
    int code = in_folder(v, folder, study->name, ".csv", path);
    if (code == 0) code = write_points(v, study, points, path);
    if (code == 0) code = in_folder(v, folder, study->name, ".vl.json", path);
    return code == 0 ? write_figure(v, study, points, path) : code;
}

/* ---- page ---- */

static const struct part {
    const char *heading, *text;
} parts[STUDY_PARTS] = {
    [STUDY_ROUNDS] = {"Sinkhorn rounds",
                      "How many there are, what they cost and what bounds them."},
    [STUDY_ELASTIC] = {"Elastic rounds",
                       "The path from softmax to the doubly stochastic plan, and its speed."},
    [STUDY_CERTIFICATES] = {"Receivers and certificates",
                            "What a key can receive, and how far a plan can move."},
    [STUDY_ROWS] = {"Single rows", "Temperatures, gradients and probes of one distribution."},
    [STUDY_EXAMPLES] = {"Worked examples", "What the sources print, and what comes out."},
};

enum { SENTENCES = 8, NAMES = 96, TEXT = 1024 };

static bool first_of_series(const study_points *points, int k) {
    for (int before = 0; before < k; before++)
        if (strcmp(points->series[before], points->series[k]) == 0) return false;
    return true;
}

static void add_fact(json_t *facts, const char *series, const char *what, double value) {
    char name[NAMES], word[RUN_WORD];
    (void)snprintf(name, sizeof name, "%s|%s", series, what);
    if (value >= floor(value) && value <= floor(value))
        cli_run_count(value, word);
    else
        cli_run_value(value, word);
    (void)json_object_set_new(facts, name, json_string(word));
}

/* What an answer may name of every series. */
static json_t *facts_of(const study_points *points) {
    json_t *facts = json_object();
    for (int k = 0; k < points->count; k++) {
        const char *series = points->series[k];
        if (first_of_series(points, k)) {
            add_fact(facts, series, "first", points->y[k]);
            add_fact(facts, series, "from", points->x[k]);
        }
        add_fact(facts, series, "last", points->y[k]);
        add_fact(facts, series, "to", points->x[k]);
    }
    return facts;
}

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
    char title[128], caption[TEXT];
    (void)snprintf(title, sizeof title, "%s: %s", study->id, study->title);
    (void)snprintf(caption, sizeof caption, "%s %s", study->text, points->caption);
    const cli_figure figure = {.name = figure_of(study),
                               .title = title,
                               .datasets = datasets,
                               .caption = caption,
                               .alternative = study->text,
                               .numbers = cli_cells_table(cells, points->caption),
                               .id = study->name};
    cli_report_figure(report, &figure);
    json_decref(datasets);
    cli_cells_free(cells);
}

/* Those of one part that have an answer, or have none; STUDY_PARTS: of all. */
static void add_studies(cli_report *report, const study_points *points, study_part part,
                        bool answered) {
    bool begun = false;
    for (int k = 0; k < statement_study_count; k++) {
        const statement_study *study = &statement_studies[k];
        if (points[k].count == 0 || (study->answer != NULL) != answered ||
            (part != STUDY_PARTS && study->part != part))
            continue;
        if (!begun && part != STUDY_PARTS)
            cli_report_fold_begin(report, parts[part].heading, parts[part].text, NULL);
        if (!begun) cli_report_grid_begin(report, 2);
        begun = true;
        add_study(report, study, &points[k]);
    }
    if (begun) cli_report_grid_end(report);
    if (begun && part != STUDY_PARTS) cli_report_fold_end(report);
}

/* The checks that `chosen` tells, folded. */
static void add_checks(cli_report *report, const verification *v, bool (*chosen)(const outcome *o),
                       const char *const words[4]) {
    static const char *const columns[] = {"id", "claim", "value", "bound", "result"};
    cli_cells *cells = cli_cells_new(sizeof columns / sizeof columns[0], columns);
    for (int k = 0; k < v->count; k++) {
        const outcome *o = &v->outcomes[k];
        if (!chosen(o)) continue;
        cli_cell(cells, o->check->id);
        cli_cell(cells, o->check->claim);
        cli_cell_format(cells, "%.3g", o->value);
        cli_cell_format(cells, "%s %.2g", cli_relation_text(o->check), o->check->tolerance);
        cli_cell(cells, o->right ? (o->holds ? "holds" : "fails, as expected") : "wrong");
    }
    const cli_table *table = cli_cells_table(cells, words[2]);
    if (table != NULL && table->row_count > 0) {
        cli_report_fold_begin(report, words[0], words[1], words[3]);
        cli_report_table(report, table);
        cli_report_fold_end(report);
    }
    cli_cells_free(cells);
}

static bool is_corrected(const outcome *o) { return !o->extension && !o->check->printed; }
static bool is_printed(const outcome *o) { return !o->extension && o->check->printed; }
static bool is_extension(const outcome *o) { return o->extension; }

typedef struct tally {
    int ids, right, checks, printed, refuted;
    double seconds;
} tally;

/* Of the ids that begin as `id` does up to its dash; NULL: of all requirements, or all extensions. */
static tally count(const verification *v, const char *id, bool extension) {
    tally found = {0};
    const size_t prefix = id == NULL ? 0 : strcspn(id, "-") + 1;
    for (int k = 0; k < v->id_count; k++) {
        const id_outcome *one = &v->ids[k];
        if (one->extension != extension || (id != NULL && strncmp(one->id, id, prefix) != 0))
            continue;
        found.ids++;
        found.right += one->right == one->checks;
    }
    for (int k = 0; k < v->count; k++) {
        const outcome *o = &v->outcomes[k];
        if (o->extension != extension || (id != NULL && strncmp(o->check->id, id, prefix) != 0))
            continue;
        found.checks++;
        found.printed += o->check->printed;
        found.refuted += o->check->printed && !o->holds;
        found.seconds += o->seconds;
    }
    return found;
}

static void add_sources(cli_report *report, const verification *v) {
    static const char *const columns[] = {
        "source", "statements", "right", "checks", "printed forms that fail", "seconds"};
    cli_cells *cells = cli_cells_new(sizeof columns / sizeof columns[0], columns);
    for (int k = 0; k < v->id_count; k++) {
        const char *id = v->ids[k].id;
        const size_t prefix = strcspn(id, "-");
        bool before = false;
        for (int other = 0; other < k; other++)
            before = before || strncmp(v->ids[other].id, id, prefix + 1) == 0;
        if (before) continue;
        const tally found = count(v, id, v->ids[k].extension);
        cli_cell_format(cells, "%.*s%s", (int)prefix, id,
                        v->ids[k].extension ? " (beyond the requirements)" : "");
        cli_cell_format(cells, "%d", found.ids);
        cli_cell_format(cells, "%d", found.right);
        cli_cell_format(cells, "%d", found.checks);
        cli_cell_format(cells, "%d of %d", found.refuted, found.printed);
        cli_cell_format(cells, "%.1f", found.seconds);
    }
    const cli_table *table = cli_cells_table(cells, "Statements by the source that makes them.");
    if (table != NULL) cli_report_table(report, table);
    cli_cells_free(cells);
}

static void add_answers(cli_report *report, const verification *v, const study_points *points) {
    const tally all = count(v, NULL, false), beyond = count(v, NULL, true);
    char texts[SENTENCES][RUN_SENTENCE];
    cli_answer answers[SENTENCES];
    size_t used = 0;
    if (all.checks > 0) {
        (void)snprintf(texts[used], RUN_SENTENCE,
                       "%d of %d statements come out as they should, by %d checks.", all.right,
                       all.ids, all.checks);
        answers[used] = (cli_answer){texts[used], "every check", "checks"};
        used++;
    }
    if (all.printed > 0) {
        (void)snprintf(texts[used], RUN_SENTENCE,
                       "%d of %d forms that a source prints and that an erratum corrects fail, as "
                       "they should.",
                       all.refuted, all.printed);
        answers[used] = (cli_answer){texts[used], "printed forms", "printed"};
        used++;
    }
    if (all.checks == 0) {
        (void)snprintf(texts[used], RUN_SENTENCE,
                       "%d of %d extensions come out as they should, by %d checks.", beyond.right,
                       beyond.ids, beyond.checks);
        answers[used] = (cli_answer){texts[used], "every check", "extensions"};
        used++;
    }
    for (int k = 0; k < statement_study_count && used < SENTENCES; k++) {
        const statement_study *study = &statement_studies[k];
        if (points[k].count == 0 || study->answer == NULL) continue;
        json_t *facts = facts_of(&points[k]);
        if (cli_run_fill(study->answer, facts, texts[used])) {
            answers[used] = (cli_answer){texts[used], study->title, study->name};
            used++;
        }
        json_decref(facts);
    }
    cli_report_answers(report, "What the checks say", answers, used, SENTENCES);
}

static int write_page(verification *v, const char *path, const study_points *points) {
    const ota_error error = {{0}, {0}, {0}};
    char seconds[64], seed[64];
    (void)snprintf(seconds, sizeof seconds, "%.1f s for %d checks", v->seconds, v->count);
    const cli_whole given = v->context->settings.machine.seed;
    (void)snprintf(seed, sizeof seed, "%" PRId64, given.given ? (int64_t)given.value : INT64_C(1));
    const char *only = v->context->settings.verify.only, *model = v->context->settings.verify.model;
    const cli_fact facts[] = {
        {"Statements", only == NULL ? "all" : only},
        {"Model", model == NULL ? "none: random numbers" : model},
        {"Seed", seed},
        {"Time", seconds},
    };
    cli_report *report = cli_report_open(
        "Every statement, measured",
        "Statements about attention as transport, measured just now by calls of the library.");
    if (report == NULL) return cli_fail_status(v->context, OTA_ENOMEM, &error);
    cli_report_facts(report, facts, sizeof facts / sizeof facts[0]);
    cli_report_answers_here(report);
    add_studies(report, points, STUDY_PARTS, true);
    cli_report_section(report, "By source");
    add_sources(report, v);
    cli_report_text(report, "Each check calls the library and measures one number: a distance from "
                            "a formula that is written in the check, an excess over a bound, a "
                            "count of exceptions. Numbers are drawn anew for every `--seed`.");
    for (study_part part = 0; part < STUDY_PARTS; part++) add_studies(report, points, part, false);
    add_checks(report, v, is_corrected,
               (const char *[4]){"Every check", "What was measured beside what is claimed.",
                                 "Checks of the statements, as corrected.", "checks"});
    add_checks(report, v, is_printed,
               (const char *[4]){"Printed forms", "What a source prints and an erratum corrects.",
                                 "Checks of forms as they are printed.", "printed"});
    add_checks(report, v, is_extension,
               (const char *[4]){"Beyond the requirements",
                                 "Statements that no requirement asks for.",
                                 "Checks of extensions.", "extensions"});
    add_answers(report, v, points);
    return cli_report_close(report, path, v->context->settings.output.force, &v->context->error);
}

/* ---- where to ---- */

bool cli_ends_with(const char *path, const char *end) {
    const size_t size = strlen(path), tail = strlen(end);
    return size >= tail && strcmp(path + size - tail, end) == 0;
}

static int write_folder(verification *v, const char *folder, const study_points *points) {
    char path[OTA_PATH_ROOM];
    if (!ota_folder_make(folder) && errno != EEXIST) {
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
