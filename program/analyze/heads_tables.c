/* tables/ and names of what heads.c measured.
 *
 *   heads     one line a head: its name, and of every kind the mean score over windows, the ends of its bootstrap
 *             interval and the mean level of chance; then what the key of its sink and its commonest offset are
 *   massive   one line a state and rank: the largest entries, means over windows
 *
 * A head is named where, at the low end of its interval, more than NAMED of what lies between chance and 1 is reached:
 * by the one that reaches most of previous token, duplicate token, induction and the two sinks, else as positional, else
 * as local, since the former are cases of the latter. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "window_tables.h"

static const double NAMED = 0.3;

static const char *const names[HEAD_KINDS] = {[KIND_PREVIOUS_TOKEN] = "previous token",
                                              [KIND_DUPLICATE_TOKEN] = "duplicate token",
                                              [KIND_INDUCTION] = "induction",
                                              [KIND_POSITIONAL] = "positional",
                                              [KIND_LOCAL] = "local",
                                              [KIND_SINK] = NULL, /* one of the next two */
                                              [KIND_NOP_SINK] = "nop sink",
                                              [KIND_BROADCAST_SINK] = "broadcast sink"};

/* Of all heads: figures of every kind [layers heads], and of chance [layers CHANCE_KINDS]. */
typedef struct head_figures {
    ota_figure *kinds[HEAD_KINDS], *chance, *ratio, *distance;
    run_table_of keys, offsets;
    int64_t count;
} head_figures;

static void free_heads(head_figures *f) {
    for (int kind = 0; kind < HEAD_KINDS; kind++) free(f->kinds[kind]);
    free(f->chance);
    free(f->ratio);
    free(f->distance);
    run_table_free(&f->keys);
    run_table_free(&f->offsets);
}

static int load_heads(run *r, head_figures *f) {
    int64_t parts;
    int code = 0;
    *f = (head_figures){.chance = NULL};
    for (int kind = 0; code == 0 && kind < HEAD_KINDS; kind++)
        code = run_column_figures(r, 0, 0, (run_column)(COLUMN_HEAD_KINDS + kind), 1, 0,
                                  &f->kinds[kind], &f->count);
    if (code == 0) code = run_column_figures(r, 0, 0, COLUMN_CHANCE, 1, 0, &f->chance, &parts);
    if (code == 0) code = run_column_figures(r, 0, 0, COLUMN_VALUE_RATIO, 1, 0, &f->ratio, &parts);
    if (code == 0) code = run_column_figures(r, 0, 0, COLUMN_DISTANCE, 1, 0, &f->distance, &parts);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_SINK_KEY, &f->keys);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_OFFSET, &f->offsets);
    return code;
}

/* Mean chance of a kind, that of any sink for the two kinds of them. */
static double chance_of(const run *r, const head_figures *f, int64_t at, int kind) {
    const int of = kind < CHANCE_KINDS ? kind : KIND_SINK;
    return f->chance[at / r->facts.heads * CHANCE_KINDS + of].mean;
}

/* (low end - chance) / (1 - chance); one window has a score alone. */
static double reach_of(const run *r, const head_figures *f, int64_t at, int kind) {
    const ota_figure *figure = &f->kinds[kind][at];
    const double low = isfinite(figure->low) ? figure->low : figure->mean;
    const double chance = chance_of(r, f, at, kind);
    return isfinite(low) && chance < 1 ? (low - chance) / (1 - chance) : -1;
}

static const char *name_of(const run *r, const head_figures *f, int64_t at) {
    static const int narrow[] = {KIND_PREVIOUS_TOKEN, KIND_DUPLICATE_TOKEN, KIND_INDUCTION,
                                 KIND_NOP_SINK, KIND_BROADCAST_SINK};
    double most = NAMED;
    const char *name = NULL;
    for (size_t k = 0; k < sizeof narrow / sizeof *narrow; k++) {
        const double reached = reach_of(r, f, at, narrow[k]);
        if (!(reached > most)) continue;
        most = reached;
        name = names[narrow[k]];
    }
    if (name == NULL && reach_of(r, f, at, KIND_POSITIONAL) > NAMED) name = names[KIND_POSITIONAL];
    if (name == NULL && reach_of(r, f, at, KIND_LOCAL) > NAMED) name = names[KIND_LOCAL];
    return name;
}

static int compare_values(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The commonest of values [count], the least of several, and its share; NaN where there is none. Puts them in order. */
static double commonest(double *values, int64_t count, double *share) {
    double found = (double)NAN;
    int64_t most = 0, all = 0;
    for (int64_t k = 0; k < count; k++)
        if (isfinite(values[k])) values[all++] = values[k];
    qsort(values, (size_t)all, sizeof *values, compare_values);
    for (int64_t first = 0, end; first < all; first = end) {
        for (end = first; end < all && !(values[end] > values[first]);) end++;
        if (end - first <= most) continue;
        most = end - first;
        found = values[first];
    }
    *share = all > 0 ? (double)most / (double)all : (double)NAN;
    return found;
}

/* values [windows] to work in */
static void write_common(const run_table_of *table, int64_t part, double *values, cli_text *csv) {
    double share;
    run_table_part(table, part, values);
    csv_number(csv, commonest(values, table->windows, &share));
    csv_number(csv, share);
}

static void write_interval(cli_text *csv, const ota_figure *figure) {
    csv_number(csv, figure->mean);
    csv_number(csv, figure->low);
    csv_number(csv, figure->high);
}

static void write_head(const run *r, const head_figures *f, int64_t at, double *values,
                       cli_text *csv) {
    const char *name = name_of(r, f, at);
    csv_number(csv, (double)(r->settings.first + at / r->facts.heads));
    csv_number(csv, (double)(at % r->facts.heads));
    csv_word(csv, name != NULL ? name : "");
    for (int kind = 0; kind < HEAD_KINDS; kind++) {
        write_interval(csv, &f->kinds[kind][at]);
        if (kind < CHANCE_KINDS) csv_number(csv, chance_of(r, f, at, kind));
    }
    write_interval(csv, &f->ratio[at]);
    write_common(&f->keys, at, values, csv);
    write_common(&f->offsets, at, values, csv);
    csv_number(csv, f->distance[at].mean);
    csv_number(csv, (double)f->kinds[KIND_SINK][at].count);
    csv_line(csv);
}

static int write_heads(run *r) {
    head_figures f;
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    const int loaded = load_heads(r, &f);
    double *values = malloc((size_t)r->text.window_count * sizeof *values);
    if (code == 0) code = loaded;
    if (code == 0 && values == NULL)
        code = cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    if (code == 0) {
        (void)fputs("layer,head,name", csv.stream);
        for (int kind = 0; kind < HEAD_KINDS; kind++) {
            const char *word = run_columns[COLUMN_HEAD_KINDS + kind].name;
            (void)fprintf(csv.stream, ",%s,%s_low,%s_high", word, word, word);
            if (kind < CHANCE_KINDS) (void)fprintf(csv.stream, ",%s_chance", word);
        }
        (void)fputs(",value_ratio,value_ratio_low,value_ratio_high,sink_key,sink_key_share,"
                    "offset,offset_share,distance,n\n",
                    csv.stream);
    }
    for (int64_t at = 0; code == 0 && at < f.count; at++) write_head(r, &f, at, values, &csv);
    free(values);
    free_heads(&f);
    return run_csv_end(r, &csv, "heads", code);
}

/* ---- massive activations ---- */

/* One number of every window's entry of a state and rank. */
static void take_massive(const run_table_of *table, int64_t entry, int number, bool size,
                         double *values) {
    for (int64_t k = 0; k < table->windows; k++) {
        const double x = table->values[k * table->parts + entry * MASSIVE_NUMBERS + number];
        values[k] = size ? fabs(x) : x;
    }
}

/* places [windows] in the windows become the ids there; ids: room for a window */
static void name_tokens(const run *r, int64_t *ids, double *places) {
    for (int64_t k = 0; k < r->text.window_count; k++) {
        run_window_ids(&r->text, &r->text.windows[k], ids);
        if (isfinite(places[k])) places[k] = (double)ids[(int64_t)places[k]];
    }
}

static int write_entry(run *r, const run_table_of *table, int64_t entry, double *values,
                       int64_t *ids, cli_text *csv) {
    ota_error error = {.message = ""};
    char text[160] = "";
    double share;
    csv_number(csv, (double)(r->settings.first + entry / MASSIVE_MOST));
    csv_number(csv, (double)(1 + entry % MASSIVE_MOST));
    for (int number = MASSIVE_VALUE; number <= MASSIVE_RATIO; number++) {
        ota_figure figure;
        take_massive(table, entry, number, true, values);
        const ota_status status = ota_figure_of(values, table->windows, 1, 0, r->settings.seed,
                                                &figure, &r->context->analysis, &error);
        if (status < 0) return cli_fail_status(r->context, status, &error);
        write_interval(csv, &figure);
    }
    take_massive(table, entry, MASSIVE_DIMENSION, false, values);
    csv_number(csv, commonest(values, table->windows, &share));
    csv_number(csv, share);
    take_massive(table, entry, MASSIVE_TOKEN, false, values);
    csv_number(csv, commonest(values, table->windows, &share));
    csv_number(csv, share);
    take_massive(table, entry, MASSIVE_TOKEN, false, values);
    name_tokens(r, ids, values);
    const double token = commonest(values, table->windows, &share);
    if (isfinite(token)) run_spell(r, (int64_t)token, text, sizeof text);
    csv_word(csv, text);
    csv_number(csv, share);
    csv_number(csv, (double)table->windows);
    csv_line(csv);
    return 0;
}

static int write_massive(run *r) {
    run_table_of table = {.values = NULL};
    cli_text csv;
    int code = cli_text_begin(&csv, &r->context->error);
    double *values = malloc((size_t)r->text.window_count * sizeof *values);
    int64_t *ids = malloc((size_t)r->text.windows[0].count * sizeof *ids);
    if (code == 0 && (values == NULL || ids == NULL))
        code = cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_MASSIVE, &table);
    if (code == 0)
        (void)fputs("state,rank,size,size_low,size_high,ratio,ratio_low,ratio_high,dimension,"
                    "dimension_share,position,position_share,token,token_share,n\n",
                    csv.stream);
    for (int64_t k = 0; code == 0 && k < table.parts / MASSIVE_NUMBERS; k++)
        code = write_entry(r, &table, k, values, ids, &csv);
    free(ids);
    free(values);
    run_table_free(&table);
    return run_csv_end(r, &csv, "massive", code);
}

int run_write_heads(run *r) {
    const int code = write_heads(r);
    return code == 0 ? write_massive(r) : code;
}

/* ---- metrics.json ---- */

int run_name_heads(run *r, json_t *attention) {
    head_figures f;
    const int code = load_heads(r, &f);
    for (int64_t at = 0; code == 0 && at < f.count; at++) {
        json_t *head = json_array_get(json_array_get(attention, (size_t)(at / r->facts.heads)),
                                      (size_t)(at % r->facts.heads));
        const char *name = name_of(r, &f, at);
        (void)json_object_set_new(head, "name", name != NULL ? json_string(name) : json_null());
        for (int kind = 0; kind < CHANCE_KINDS; kind++)
            (void)json_object_set_new(
                json_object_get(head, run_columns[COLUMN_HEAD_KINDS + kind].name), "chance",
                cli_json_real(chance_of(r, &f, at, kind)));
    }
    free_heads(&f);
    return code;
}
