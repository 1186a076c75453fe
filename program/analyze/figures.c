/* Figures over windows and positions. Columns are read from the records one at a time, so that memory holds
 * one: 500 windows of 512 tokens and 12 layers are 25 MB a column.
 *
 * Intervals draw whole windows: positions of one window depend on one another. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "window_tables.h"
#include "src/base/system.h"
#include "work.h"

static void size_table(const run_shape *shape, run_column column, run_table_of *table) {
    const run_scope scope = run_columns[column].scope;
    const int64_t size = run_column_size(shape, column);
    const bool tokens =
        scope == PER_STATE_TOKEN || scope == PER_TRANSITION_TOKEN || scope == PER_TOKEN;
    table->unit = tokens ? shape->tokens : 1;
    table->parts = size / table->unit;
}

static int read_part(run *r, int64_t window, int64_t at, int64_t count, double *to) {
    char path[4096];
    run_folder_record(&r->folder, window, path);
    ota_path_kind kind;
    int64_t size;
    const int file = ota_file_descriptor(path, true, &kind, &size);
    const size_t bytes = (size_t)count * sizeof *to;
    size_t done = 0;
    int64_t got = file >= 0 ? 1 : -1;
    while (done < bytes && got > 0) {
        got = ota_descriptor_read(file, (char *)to + done, bytes - done, at + (int64_t)done);
        if (got > 0) done += (size_t)got;
    }
    const int cause = errno;
    if (file >= 0) ota_descriptor_close(file);
    if (done == bytes && file >= 0) return 0;
    return cli_fail(&r->context->error, CLI_EXIT_IO, "%s: cannot be read: %s", cli_short_path(path),
                    got < 0 ? strerror(cause) : "it was cut short");
}

int run_table_load(run *r, int variant, int probe, run_column column, run_table_of *table) {
    const run_shape shape = run_shape_of(r, 0);
    size_table(&shape, column, table);
    table->windows = r->text.window_count;
    const int64_t size = table->parts * table->unit;
    table->values = malloc((size_t)(table->windows * size) * sizeof *table->values);
    if (table->values == NULL)
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "no memory is left for a column");
    const int64_t at =
        run_record_values_at(&shape) +
        run_column_offset(&shape, variant, probe, column) * (int64_t)sizeof *table->values;
    int code = 0;
    for (int64_t k = 0; code == 0 && k < table->windows; k++)
        code = read_part(r, k, at, size, table->values + k * size);
    return code;
}

void run_table_free(run_table_of *table) {
    free(table->values);
    table->values = NULL;
}

void run_table_part(const run_table_of *table, int64_t part, double *to) {
    const int64_t size = table->parts * table->unit;
    for (int64_t k = 0; k < table->windows; k++)
        memcpy(to + k * table->unit, table->values + k * size + part * table->unit,
               (size_t)table->unit * sizeof *to);
}

/* ---- figures ---- */

typedef struct figures_job {
    const run_table_of *table;
    const ota_analysis_options *options;
    double factor, offset;
    int64_t seed;
    ota_figure *figures;
    ota_status status[WORKERS_MOST];
} figures_job;

static void make_figure(void *context, int64_t part, int worker) {
    figures_job *j = context;
    const int64_t count = j->table->windows * j->table->unit;
    double *values = malloc((size_t)count * sizeof *values);
    ota_status status = OTA_ENOMEM;
    if (values != NULL) {
        run_table_part(j->table, part, values);
        for (int64_t k = 0; k < count; k++) values[k] = j->factor * values[k] + j->offset;
        status = ota_figure_of(values, count, j->table->unit, 0, j->seed, &j->figures[part],
                               j->options, NULL);
    }
    free(values);
    if (status < 0) j->status[worker] = status;
}

int run_table_figures(run *r, const run_table_of *table, double factor, double offset,
                      ota_figure *figures) {
    const ota_error none = {.message = ""};
    figures_job j = {.table = table,
                     .options = &r->context->analysis,
                     .factor = factor,
                     .offset = offset,
                     .seed = r->settings.seed,
                     .figures = figures};
    r->executor.run(r->executor.user, table->parts, make_figure, &j);
    for (int k = 0; k < WORKERS_MOST; k++)
        if (j.status[k] < 0) return cli_fail_status(r->context, j.status[k], &none);
    return 0;
}

/* Figures of a column that were made: tables and metrics.json ask for most of them, some thrice. */
typedef struct run_kept_figures {
    struct run_kept_figures *next;
    int variant, probe;
    run_column column;
    double factor, offset;
    int64_t parts;
    ota_figure figures[];
} run_kept_figures;

static const run_kept_figures *find_figures(const run *r, const run_kept_figures *as) {
    const run_kept_figures *kept = r->kept;
    while (kept != NULL &&
           (kept->variant != as->variant || kept->probe != as->probe ||
            kept->column != as->column || kept->factor != as->factor || kept->offset != as->offset))
        kept = kept->next;
    return kept;
}

static int make_figures(run *r, const run_kept_figures *as) {
    run_table_of table;
    run_kept_figures *made = NULL;
    int code = run_table_load(r, as->variant, as->probe, as->column, &table);
    if (code == 0) {
        made = malloc(sizeof *made + (size_t)table.parts * sizeof *made->figures);
        if (made == NULL)
            code = cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    }
    if (code == 0) {
        *made = *as;
        made->parts = table.parts;
        code = run_table_figures(r, &table, as->factor, as->offset, made->figures);
    }
    if (code == 0) {
        made->next = r->kept;
        r->kept = made;
    } else {
        free(made);
    }
    run_table_free(&table);
    return code;
}

int run_column_figures(run *r, int variant, int probe, run_column column, double factor,
                       double offset, ota_figure **figures, int64_t *parts) {
    const run_kept_figures as = {
        .variant = variant, .probe = probe, .column = column, .factor = factor, .offset = offset};
    *figures = NULL;
    int code = find_figures(r, &as) == NULL ? make_figures(r, &as) : 0;
    if (code != 0) return code;
    const run_kept_figures *kept = find_figures(r, &as);
    *parts = kept->parts;
    *figures = malloc((size_t)kept->parts * sizeof **figures);
    if (*figures == NULL)
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    memcpy(*figures, kept->figures, (size_t)kept->parts * sizeof **figures);
    return 0;
}

void run_figures_free(run *r) {
    while (r->kept != NULL) {
        run_kept_figures *next = r->kept->next;
        free(r->kept);
        r->kept = next;
    }
}

json_t *run_figure_json(const ota_figure *f) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:[o,o], s:I}", "mean", cli_json_real(f->mean),
                     "sd", cli_json_real(f->deviation), "median", cli_json_real(f->median), "p5",
                     cli_json_real(f->p5), "p95", cli_json_real(f->p95), "ci95",
                     cli_json_real(f->low), cli_json_real(f->high), "n", (json_int_t)f->count);
}
