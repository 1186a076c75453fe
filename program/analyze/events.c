/* Saturation events: a transition between two states that are both certain of one token (1 - p_max below a
 * limit) and hardly move (TV below another). [TOT-29, 87, 88]
 *
 *   events.csv    one line an event, probe with the final norm      table4.csv    the paper's Table 4, and more
 *
 * Classes are those of the token at the position, the one the model has just read. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "window_tables.h"

typedef struct saturation {
    run *r;
    run_table_of tail, tv, moved, logits; /* tail of states, the others of transitions */
    uint8_t *events;     /* [transitions, tokens], tokens of all windows in a row */
    uint8_t *hit, *mark; /* [tokens] */
    int64_t *by_layer, *lengths;
    int64_t transitions, tokens, windows_hit, inconsistent;
    ota_event_summary summary;
    double sums[4], largest;      /* p_max, tv, relative_l2, max_logit_change of events */
    double punctuation, sentence; /* phi */
} saturation;

static double at(const run_table_of *table, int64_t layer, int64_t token) {
    const int64_t window = token / table->unit, place = token % table->unit;
    return table->values[(window * table->parts + layer) * table->unit + place];
}

static int load_columns(saturation *s, int probe) {
    run *r = s->r;
    int code = run_table_load(r, 0, probe, COLUMN_TAIL, &s->tail);
    if (code == 0) code = run_table_load(r, 0, probe, COLUMN_TV, &s->tv);
    if (code == 0) code = run_table_load(r, 0, 0, COLUMN_RELATIVE_L2, &s->moved);
    if (code == 0) code = run_table_load(r, 0, probe, COLUMN_MAX_LOGIT_CHANGE, &s->logits);
    if (code != 0) return code;
    s->transitions = s->tv.parts;
    s->tokens = s->tv.windows * s->tv.unit;
    s->events = calloc((size_t)(s->transitions * s->tokens), 1);
    s->hit = calloc((size_t)s->tokens, 1);
    s->mark = calloc((size_t)s->tokens, 1);
    s->by_layer = calloc((size_t)s->transitions, sizeof *s->by_layer);
    s->lengths = calloc((size_t)s->transitions + 1, sizeof *s->lengths);
    if (s->events == NULL || s->hit == NULL || s->mark == NULL || s->by_layer == NULL ||
        s->lengths == NULL)
        return cli_fail(&r->context->error, CLI_EXIT_LIMIT, "no memory is left for the events");
    return 0;
}

static void free_columns(saturation *s) {
    run_table_free(&s->tail);
    run_table_free(&s->tv);
    run_table_free(&s->moved);
    run_table_free(&s->logits);
    free(s->events);
    free(s->hit);
    free(s->mark);
    free(s->by_layer);
    free(s->lengths);
}

static void note_event(saturation *s, int64_t l, int64_t t) {
    const double before = at(&s->tail, l, t), after = at(&s->tail, l + 1, t);
    const double logits = at(&s->logits, l, t), tv = at(&s->tv, l, t);
    s->events[l * s->tokens + t] = s->hit[t] = 1;
    s->sums[0] += 1 - before;
    s->sums[1] += tv;
    s->sums[2] += at(&s->moved, l, t);
    s->sums[3] += logits;
    s->largest = fmax(s->largest, logits);
    /* TV is at least the change of the largest probability. */
    s->inconsistent += fabs(after - before) > tv * (1 + 1e-9) + 1e-15;
}

static int find_events(saturation *s) {
    const run_settings *limits = &s->r->settings;
    ota_error error = {.message = ""};
    for (int64_t l = 0; l < s->transitions; l++)
        for (int64_t t = 0; t < s->tokens; t++)
            if (at(&s->tail, l, t) < limits->tail && at(&s->tail, l + 1, t) < limits->tail &&
                at(&s->tv, l, t) < limits->tv)
                note_event(s, l, t);
    for (int64_t w = 0; w < s->tv.windows; w++)
        s->windows_hit += memchr(s->hit + w * s->tv.unit, 1, (size_t)s->tv.unit) != NULL;
    const ota_status status =
        ota_events_of(s->events, s->transitions, s->tokens, s->by_layer, s->lengths, &s->summary,
                      &s->r->context->analysis, &error);
    return status < 0 ? cli_fail_status(s->r->context, status, &error) : 0;
}

/* ---- tokens ---- */

static int64_t id_at(const run *r, int64_t token, int64_t *ids) {
    const int64_t unit = r->text.windows[0].count;
    run_window_ids(&r->text, &r->text.windows[token / unit], ids);
    return ids[token % unit];
}

static int class_of(const run *r, int64_t id) {
    char text[256];
    const int32_t one = (int32_t)id;
    int64_t length = 0;
    if (r->text.tokenizer == NULL ||
        ota_tokenizer_decode(r->text.tokenizer, &one, 1, OTA_DECODE_INNER, text, sizeof text,
                             &length, NULL) < 0)
        return 0;
    return ota_token_class(text, length < (int64_t)sizeof text ? length : (int64_t)sizeof text);
}

static double correlate(saturation *s, int class, int64_t *ids) {
    double phi = (double)NAN;
    for (int64_t t = 0; t < s->tokens; t++)
        s->mark[t] = (class_of(s->r, id_at(s->r, t, ids)) & class) != 0;
    (void)ota_phi_of(s->hit, s->mark, s->tokens, &phi, &s->r->context->analysis, NULL);
    return phi;
}

static int correlate_classes(saturation *s) {
    int64_t *ids = malloc((size_t)s->tv.unit * sizeof *ids);
    if (ids == NULL)
        return cli_fail(&s->r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    s->punctuation = correlate(s, OTA_TOKEN_PUNCTUATION, ids);
    s->sentence = correlate(s, OTA_TOKEN_SENTENCE_END, ids);
    free(ids);
    return 0;
}

/* ---- what is written ---- */

static const char *class_text(int class) {
    if ((class & OTA_TOKEN_SENTENCE_END) != 0) return "sentence end";
    if ((class & OTA_TOKEN_PUNCTUATION) != 0) return "punctuation";
    if ((class & OTA_TOKEN_DIGITS) != 0) return "digits";
    if ((class & OTA_TOKEN_LETTERS) != 0)
        return (class & OTA_TOKEN_WORD_START) != 0 ? "word" : "letters";
    return (class & OTA_TOKEN_SPACE) != 0 ? "space" : "other";
}

static void write_event(const saturation *s, cli_text *csv, int64_t l, int64_t t, int64_t *ids) {
    const run *r = s->r;
    const int64_t id = id_at(r, t, ids);
    char text[256];
    run_spell(r, id, text, sizeof text);
    csv_row(csv, "nnnnwwnnnnnn", (double)(t / s->tv.unit), (double)(r->settings.first + l),
            (double)(t % s->tv.unit), (double)id, text, class_text(class_of(r, id)),
            1 - at(&s->tail, l, t), at(&s->tail, l, t), at(&s->tail, l + 1, t), at(&s->tv, l, t),
            at(&s->moved, l, t), at(&s->logits, l, t));
}

static int write_list(const saturation *s) {
    cli_text csv;
    int64_t *ids = malloc((size_t)s->tv.unit * sizeof *ids);
    int code = cli_text_begin(&csv, &s->r->context->error);
    if (ids == NULL)
        code = cli_fail(&s->r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    if (code == 0)
        (void)fputs("window,layer,position,id,token,class,max_probability,tail,tail_after,tv,"
                    "relative_l2,max_logit_change\n",
                    csv.stream);
    for (int64_t t = 0; code == 0 && t < s->tokens; t++)
        for (int64_t l = 0; s->hit[t] != 0 && l < s->transitions; l++)
            if (s->events[l * s->tokens + t] != 0) write_event(s, &csv, l, t, ids);
    free(ids);
    return run_csv_end(s->r, &csv, "events", code);
}

static json_t *counts_json(const int64_t *counts, int64_t count) {
    json_t *list = json_array();
    for (int64_t k = 0; k < count; k++) (void)json_array_append_new(list, json_integer(counts[k]));
    return list;
}

/* A layer counted from 0, or null. */
static json_t *layer_json(const saturation *s, int64_t from_one) {
    return from_one > 0 ? json_integer(s->r->settings.first + from_one - 1) : json_null();
}

static double mean_of(const saturation *s, int which) {
    return s->sums[which] / (double)s->summary.events; /* NaN without events */
}

static json_t *events_json(const saturation *s) {
    const ota_event_summary *e = &s->summary;
    const struct {
        const char *name;
        json_t *value;
    } members[] = {
        {"count", json_integer(e->events)},
        {"frequency", cli_json_real(e->frequency)},
        {"thresholds", json_pack("[o,o]", cli_json_real(1 - s->r->settings.tail),
                                 cli_json_real(s->r->settings.tv))},
        {"windows_hit", json_integer(s->windows_hit)},
        {"window_frequency", cli_json_real((double)s->windows_hit / (double)s->tv.windows)},
        {"positions_hit", json_integer(e->positions_hit)},
        {"position_frequency", cli_json_real(e->position_frequency)},
        {"by_layer", counts_json(s->by_layer, s->transitions)},
        {"first_layer", layer_json(s, e->first_layer)},
        {"last_layer", layer_json(s, e->last_layer)},
        {"peak_layer", layer_json(s, e->peak_layer)},
        {"outer", json_integer(e->outer)},
        {"runs", json_integer(e->runs)},
        {"longest_run", json_integer(e->longest_run)},
        {"mean_run", cli_json_real(e->mean_run)},
        {"run_lengths", counts_json(s->lengths, s->transitions + 1)},
        {"mean_max_probability", cli_json_real(mean_of(s, 0))},
        {"mean_tv", cli_json_real(mean_of(s, 1))},
        {"mean_relative_l2", cli_json_real(mean_of(s, 2))},
        {"mean_max_logit_change", cli_json_real(mean_of(s, 3))},
        {"largest_max_logit_change", cli_json_real(s->largest)},
        {"punctuation_phi", cli_json_real(s->punctuation)},
        {"sentence_phi", cli_json_real(s->sentence)},
        {"inconsistent", json_integer(s->inconsistent)},
    };
    json_t *object = json_object();
    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        (void)json_object_set_new(object, members[k].name, members[k].value);
    return object;
}

static int write_table4(const saturation *s) {
    const ota_event_summary *e = &s->summary;
    const int64_t first = s->r->settings.first;
    const double none = (double)NAN;
    const struct {
        const char *property;
        double value;
    } rows[] = {
        {"Frequency of occurrence (share of windows)",
         (double)s->windows_hit / (double)s->tv.windows},
        {"Layer range: first", e->events > 0 ? (double)(first + e->first_layer - 1) : none},
        {"Layer range: last", e->events > 0 ? (double)(first + e->last_layer - 1) : none},
        {"Layers", (double)s->r->facts.layers},
        {"Peak occurrence layer", e->events > 0 ? (double)(first + e->peak_layer - 1) : none},
        {"Mean p_max during saturation", mean_of(s, 0)},
        {"Mean TV between layers", mean_of(s, 1)},
        {"Mean hidden state change", mean_of(s, 2)},
        {"Mean logit perturbation", mean_of(s, 3)},
        {"Correlation with punctuation", s->punctuation},
        {"Correlation with sentence boundaries", s->sentence},
        {"Largest logit perturbation", e->events > 0 ? s->largest : none},
        {"Events", (double)e->events},
        {"Transitions", (double)(s->transitions * s->tokens)},
        {"Share of positions", e->position_frequency},
        {"Events in the first or last tenth of layers", (double)e->outer},
        {"Mean run of layers", e->mean_run},
        {"Longest run of layers", (double)e->longest_run},
        {"Events with TV below the change of p_max", (double)s->inconsistent},
    };
    cli_text csv;
    const int code = cli_text_begin(&csv, &s->r->context->error);
    if (code != 0) return code;
    (void)fputs("Property,Value\n", csv.stream);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        csv_row(&csv, "wn", rows[k].property, rows[k].value);
    return run_csv_end(s->r, &csv, "table4", 0);
}

static int analyze_probe(run *r, int probe, json_t **events) {
    saturation s = {.r = r};
    int code = load_columns(&s, probe);
    if (code == 0) code = find_events(&s);
    if (code == 0) code = correlate_classes(&s);
    if (code == 0 && probe == 0) code = write_list(&s);
    if (code == 0 && probe == 0) code = write_table4(&s);
    if (code == 0) *events = events_json(&s);
    free_columns(&s);
    return code;
}

int run_write_events(run *r, json_t **events) {
    json_t *raw = NULL;
    *events = NULL;
    int code = analyze_probe(r, 0, events);
    if (code == 0 && r->probes > 1) code = analyze_probe(r, 1, &raw);
    if (code == 0 && raw != NULL) (void)json_object_set_new(*events, "raw", raw);
    return code;
}
