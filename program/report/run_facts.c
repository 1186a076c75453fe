/* The top of a run's page: model, text, settings, and how its numbers are to be read, said once. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "run_parts.h"

enum { TEXT = 400, FACTS = 12, NAME = 100 };

typedef struct top {
    char names[FACTS][NAME], texts[FACTS][TEXT];
    size_t count;
} top;

static const json_t *manifest(const run_page *page, int run, const char *part, const char *key) {
    return json_object_get(json_object_get(page->runs[run].manifest, part), key);
}

/* A text of the folder, which may be anything; "" where there is none. */
static const char *label_of(const json_t *text, char label[NAME]) {
    label[0] = '\0';
    if (json_is_string(text)) cli_run_phrase(text, label, NAME);
    return label;
}

static void put(char text[TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(char text[TEXT], const char *format, ...) {
    va_list list;
    const size_t used = strlen(text);
    va_start(list, format);
    (void)vsnprintf(text + used, TEXT - used, format, list);
    va_end(list);
}

/* ", 4 layers" or ", 1 layer"; nothing where the folder has no such number. */
static void put_counted(char text[TEXT], const json_t *number, const char *before, const char *one,
                        const char *many) {
    char word[RUN_WORD];
    if (!json_is_number(number)) return;
    cli_run_counted(json_number_value(number), one, many, word);
    put(text, "%s%s", before, word);
}

static void put_count(char text[TEXT], const json_t *number, const char *before) {
    char word[RUN_WORD];
    if (!json_is_number(number)) return;
    cli_run_count(json_number_value(number), word);
    put(text, "%s%s", before, word);
}

/* The text of one more fact, "" as yet. */
static char *add(const run_page *page, int run, top *to, const char *name) {
    char *text = to->texts[to->count];
    if (page->count > 1)
        (void)snprintf(to->names[to->count], NAME, "%s %c", name, 'A' + run);
    else
        (void)snprintf(to->names[to->count], NAME, "%s", name);
    text[0] = '\0';
    to->count++;
    return text;
}

static void add_model(const run_page *page, int run, top *to) {
    char label[NAME];
    char *text = add(page, run, to, "Model");
    put(text, "%s", label_of(json_object_get(page->runs[run].metrics, "model"), label));
    const char *family = label_of(manifest(page, run, "model", "architecture"), label);
    if (*family != '\0') put(text, " (%s)", family);
    put_counted(text, manifest(page, run, "model", "layers"), ": ", "layer", "layers");
    put_counted(text, manifest(page, run, "model", "heads"), " \xc3\x97 ", "head", "heads");
    put_counted(text, manifest(page, run, "model", "width"), ", ", "wide", "wide");
    put_counted(text, manifest(page, run, "model", "parameters"), ", ", "parameter", "parameters");
    put_counted(text, manifest(page, run, "model", "vocabulary"), ", ", "word", "words");
}

static void add_text(const run_page *page, int run, top *to) {
    const json_t *metrics = page->runs[run].metrics;
    char label[NAME];
    char *text = add(page, run, to, "Text");
    const char *name = label_of(manifest(page, run, "text", "name"), label);
    if (*name != '\0') put(text, "%s: ", name);
    put_counted(text, json_object_get(metrics, "tokens"), "", "token", "tokens");
    put_counted(text, json_object_get(metrics, "windows"), " in ", "window", "windows");
    put_count(text, manifest(page, run, "settings", "window_tokens"), " of ");
    put_count(text, manifest(page, run, "text", "tokens"), ", out of ");
    const double perplexity = cli_run_number(metrics, "perplexity");
    const json_t *nll = json_object_get(metrics, "nll_per_token");
    if (!isfinite(perplexity)) return;
    char word[RUN_WORD];
    const double numbers[3] = {perplexity, exp(cli_run_interval(nll, 0)),
                               exp(cli_run_interval(nll, 1))};
    cli_run_between(numbers, false, word);
    put(text, "; perplexity %s a token", word);
}

/* A checkpoint without a head is probed with its embeddings; of a head, `final_norm` is all of it. */
static const char *probe_words(const run_page *page, int run, const char *probe) {
    const char *head = json_string_value(manifest(page, run, "model", "head"));
    if (head != NULL && strcmp(head, "none") == 0)
        return "the table of embeddings, for the checkpoint has no head";
    return strcmp(probe, "raw") == 0 ? "the head's last product alone" : "the model's whole head";
}

/* In the order told; what was not asked for is no setting, and windows stand with the text. */
static void add_settings(const run_page *page, int run, top *to) {
    static const char *const told[] = {"method", "temperature", "window", "sink",     "sample",
                                       "seed",   "store",       "rounds", "tolerance"};
    run_part part;
    const json_t *settings = json_object_get(page->runs[run].manifest, "settings");
    char *text = add(page, run, to, "Settings"), label[NAME];
    const json_t *method = json_object_get(settings, "method");
    if (!json_is_string(method) && json_array_size(method) == 0)
        put(text, "attention as the model has it");
    for (size_t index = 0; index < sizeof told / sizeof told[0]; index++) {
        const json_t *value = json_object_get(settings, told[index]);
        char words[RUN_SETTING];
        if (value == NULL || json_is_null(value) || json_is_false(value)) continue;
        if (!cli_run_setting(value, words) || words[0] == '\0') continue;
        json_t *shown = json_string(words);
        put(text, "%s%s %s", *text == '\0' ? "" : ", ", told[index], label_of(shown, label));
        json_decref(shown);
    }
    if (cli_run_part_of(&page->runs[run], &part))
        put(text, "%slayers %d to %d of %d", *text == '\0' ? "" : ", ", part.first, part.last,
            part.layers);
    const char *probe = label_of(json_object_get(page->runs[run].metrics, "probe"), label);
    if (*probe != '\0') put(text, "; probe: %s", probe_words(page, run, probe));
}

void cli_run_facts(run_page *page) {
    top facts = {.count = 0};
    cli_fact shown[FACTS];
    for (int run = 0; run < page->count; run++) {
        add_model(page, run, &facts);
        add_text(page, run, &facts);
        add_settings(page, run, &facts);
    }
    char *text = facts.texts[facts.count];
    text[0] = '\0';
    put(text,
        "layers and heads are counted from 0, as in every command and table but Table 1; what is "
        "measured between two states stands at the layer between them, a state at the layer it "
        "leaves, the model's input at emb (-1 among numbers). Brackets are 95 %% intervals of "
        "means over windows; one window has none.");
    (void)snprintf(facts.names[facts.count++], NAME, "Reading");
    for (size_t fact = 0; fact < facts.count; fact++)
        shown[fact] = (cli_fact){facts.names[fact], facts.texts[fact]};
    cli_report_facts(page->report, shown, facts.count);
}
