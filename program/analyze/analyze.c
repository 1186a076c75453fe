/* `otattn analyze MODEL TEXT -o run/`: how a model's states, predictions and attention evolve over its layers.
 *
 * Every window of the text goes through the model and leaves one record in the folder; figures and tables are
 * made from all records at the end. Windows whose record is there are not measured again, so --resume after
 * any end of the program gives the same bytes as a run in one go. Under mpirun the processes share out the
 * windows; rank 0 owns the folder, makes the results from all records and is the only one that prints them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/files/files_formats.h"
#include "program/ranks/ranks.h"
#include "program/report/run.h"
#include "window_tables.h"

enum { WINDOWS_STANDARD = 64, TOKENS_STANDARD = 512 };

/* ---- settings ---- */

static int read_windows(cli_context *context, const ota_model_facts *facts, run_settings *s) {
    const char *text = context->settings.analyze.windows;
    s->windows = WINDOWS_STANDARD;
    s->tokens = facts->positions < TOKENS_STANDARD ? facts->positions : TOKENS_STANDARD;
    if (text != NULL) {
        char first[32] = "";
        const char *cross = strchr(text, 'x');
        const size_t length = cross != NULL ? (size_t)(cross - text) : sizeof first;
        if (length < sizeof first) memcpy(first, text, length);
        if (!cli_integer(first, &s->windows) || cross == NULL ||
            !cli_integer(cross + 1, &s->tokens) || s->windows < 1 || s->windows > 1000000 ||
            s->tokens < 2)
            return cli_refuse_flag(context, "windows", "64x512 is 64 windows of 512 tokens",
                                   "--windows '%.80s' is not NxL", text);
    }
    if (s->tokens > facts->positions)
        return cli_refuse_flag(context, "windows", NULL,
                               "windows of %" PRId64 " tokens, and the model has %" PRId64
                               " positions",
                               s->tokens, facts->positions);
    s->random = context->settings.analyze.sampling != NULL &&
                strcmp(context->settings.analyze.sampling, "random") == 0;
    s->seed = context->settings.machine.seed.given ? context->settings.machine.seed.value : 1;
    return 0;
}

static int read_layers(cli_context *context, const ota_model_facts *facts, run_settings *s) {
    const char *text = context->settings.analyze.layers;
    s->first = 0;
    s->last = facts->layers;
    if (text == NULL) return 0;
    char first[32] = "";
    int64_t last = 0;
    const char *dash = strchr(text, '-');
    const size_t length = dash != NULL ? (size_t)(dash - text) : strlen(text);
    if (length < sizeof first) memcpy(first, text, length);
    if (!cli_integer(first, &s->first) || !cli_integer(dash != NULL ? dash + 1 : first, &last) ||
        s->first < 0 || last < s->first || last >= facts->layers)
        return cli_refuse_flag(context, "layers", NULL,
                               "--layers '%.80s' is not A-B with 0 <= A <= B <= %" PRId64, text,
                               facts->layers - 1);
    s->last = last + 1;
    return 0;
}

static int read_saturation(cli_context *context, run_settings *s) {
    double limits[2] = {0.9999, 1e-10};
    const char *text = context->settings.analyze.saturation;
    if (text != NULL && (cli_numbers(text, limits, 2) != 2 || !(limits[0] > 0 && limits[0] < 1) ||
                         !(limits[1] > 0 && limits[1] <= 1)))
        return cli_refuse_flag(context, "saturation", "0.9999,1e-10 is what the sources use",
                               "--saturation '%.80s' is not P,TV with P in (0,1), TV in (0,1]",
                               text);
    s->tail = 1 - limits[0];
    s->tv = limits[1];
    s->half = context->settings.analyze.store != NULL &&
              strcmp(context->settings.analyze.store, "f16") == 0;
    return 0;
}

/* `again`: the run itself once more, which needs no measurement. */
static run_variant *add_variant(run_settings *s, bool again) {
    run_variant *one = &s->variant[s->lines++];
    one->source = again ? 0 : s->variants++;
    return one;
}

static int read_methods(cli_context *context, run_settings *s) {
    const char *text = context->settings.method.list;
    char *words[METHODS_MOST];
    const bool plain = context->settings.model.methods.count == 0;
    (void)snprintf(add_variant(s, false)->name, sizeof s->variant[0].name, "%s",
                   plain ? "softmax" : "--method");
    s->methods = 1;
    if (text == NULL) return 0;
    const int count = cli_split_methods(text, words, METHODS_MOST);
    if (count < 1)
        return cli_refuse_flag(context, "methods", NULL, "--methods names none, or more than %d",
                               METHODS_MOST);
    for (int k = 0; k < count; k++) {
        s->method_text[k] = words[k];
        if (plain && strcmp(words[k], "softmax") == 0) continue;
        run_variant *one = add_variant(s, false);
        one->method = words[k];
        (void)snprintf(one->name, sizeof one->name, "%s", words[k]);
    }
    s->methods = s->lines;
    return 0;
}

/* One line a number; of attention's temperatures, or with `probe` of the probe's. */
static int read_temperatures(cli_context *context, const char *text, bool probe, run_settings *s) {
    const char *flag = probe ? "probe-temperatures" : "temperatures";
    double factors[TEMPERATURES_MOST];
    if (text == NULL) return 0;
    const int count = cli_numbers(text, factors, TEMPERATURES_MOST);
    for (int k = 0; k < count; k++) {
        if (!(factors[k] > 0) || !isfinite(factors[k]))
            return cli_refuse_flag(context, flag, NULL, "%g is no temperature", factors[k]);
        const bool again =
            factors[k] == 1 && (probe || context->settings.method.temperature == NULL);
        run_variant *one = add_variant(s, again);
        *(probe ? &one->probe_temperature : &one->temperature) = factors[k];
        cli_format_real(factors[k], one->name, 32);
    }
    if (count >= 1) return 0;
    return cli_refuse_flag(context, flag, "such as 0.5,0.7,1,1.4,2",
                           "--%s '%.80s' is no list of at most %d numbers", flag, text,
                           TEMPERATURES_MOST);
}

const run_variant *run_variant_of(const run_settings *settings, int source) {
    const run_variant *variant = settings->variant;
    while (variant->source != source) variant++;
    return variant;
}

/* The statements are about softmax at the model's own temperature. */
static int read_bounds(run *r, run_settings *s) {
    cli_context *context = r->context;
    const cli_settings *given = &context->settings;
    s->bounds = given->analyze.bounds.given ? given->analyze.bounds.value : 0;
    const char *other = given->model.methods.count > 0      ? "method"
                        : given->method.temperature != NULL ? "temperature"
                        : given->pairs.window != NULL       ? "window"
                        : given->scores.sink != NULL        ? "sink"
                                                            : NULL;
    if (s->bounds == 0 || other == NULL) return 0;
    return cli_refuse_flag(context, "bounds", "leave one of the two out",
                           "--bounds is about the model's own attention, which --%s changes",
                           other);
}

/* What is measured of other runs of the windows, or beside the states, is no alignment. */
static int read_measure(cli_context *context, run_settings *s) {
    const cli_settings *given = &context->settings;
    const char *word = given->analyze.measure;
    s->alignment = word != NULL && strcmp(word, "alignment") == 0;
    const char *other = given->method.list != NULL                  ? "methods"
                        : given->analyze.temperatures != NULL       ? "temperatures"
                        : given->analyze.probe_temperatures != NULL ? "probe-temperatures"
                        : given->analyze.bounds.given               ? "bounds"
                        : given->analyze.saturation != NULL         ? "saturation"
                                                                    : NULL;
    if (!s->alignment || other == NULL) return 0;
    return cli_refuse_flag(context, "measure", "leave one of the two out",
                           "--measure alignment leaves out what --%s asks for", other);
}

static int read_settings(run *r) {
    run_settings *s = &r->settings;
    int code = read_measure(r->context, s);
    if (code == 0) code = read_windows(r->context, &r->facts, s);
    if (code == 0) code = read_layers(r->context, &r->facts, s);
    if (code == 0) code = read_saturation(r->context, s);
    if (code == 0) code = read_methods(r->context, s);
    if (code == 0) code = read_bounds(r, s);
    const cli_settings *given = &r->context->settings;
    if (code == 0) code = read_temperatures(r->context, given->analyze.temperatures, false, s);
    s->temperatures = s->lines;
    if (code == 0) code = read_temperatures(r->context, given->analyze.probe_temperatures, true, s);
    return code;
}

/* ---- manifest ---- */

/* A method of a file (@FILE) is what the file holds; one that cannot be read was refused by its session. */
static void append_method(cli_context *context, const char *method, json_t *list) {
    char hash[SHA256_DIGEST_STRING_LENGTH] = "";
    int64_t bytes;
    if (method[0] == '@') (void)run_file_hash(context, method + 1, &bytes, hash);
    (void)json_array_append_new(list,
                                json_sprintf("%s%s%s", method, hash[0] != '\0' ? " " : "", hash));
}

static json_t *names_json(const run *r, int from, int to) {
    json_t *list = json_array();
    for (int k = from; k < to; k++) append_method(r->context, r->settings.variant[k].name, list);
    return list;
}

static json_t *text_or_null(const char *text) {
    return text != NULL ? json_string(text) : json_null();
}

static json_t *flags_json(cli_context *context) {
    const cli_settings *f = &context->settings;
    json_t *places = json_array();
    for (int k = 0; k < f->model.methods.count; k++)
        append_method(context, f->model.methods.items[k], places);
    json_t *flags =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "method", places, "temperature",
                  text_or_null(f->method.temperature), "window", text_or_null(f->pairs.window),
                  "sink", text_or_null(f->scores.sink), "cpu", text_or_null(f->machine.cpu),
                  "no_special", (int)f->text.no_special, "plain", (int)f->text.plain);
    (void)cli_json_put(
        flags, "rounds:o max_rounds:o tolerance:o",
        f->solver.rounds.given ? json_integer(f->solver.rounds.value) : json_null(),
        f->solver.max_rounds.given ? json_integer(f->solver.max_rounds.value) : json_null(),
        f->solver.tolerance.given ? json_real(f->solver.tolerance.value) : json_null());
    return flags;
}

static json_t *settings_json(const run *r) {
    const run_settings *s = &r->settings;
    json_t *object = flags_json(r->context);
    const struct {
        const char *name;
        json_t *value;
    } members[] = {
        {"windows", json_integer(r->text.window_count)},
        {"window_tokens", json_integer(r->text.windows[0].count)},
        {"sample", json_string(s->random ? "random" : "first")},
        {"seed", json_integer(s->seed)},
        {"layers", json_pack("[I,I]", (json_int_t)s->first, (json_int_t)(s->last - 1))},
        {"saturation_tail", json_real(s->tail)},
        {"saturation_tv", json_real(s->tv)},
        {"store", json_string(s->half ? "f16" : "f32")},
        {"methods", names_json(r, 1, s->methods)},
        {"temperatures", names_json(r, s->methods, s->temperatures)},
        {"probe_temperatures", names_json(r, s->temperatures, s->lines)},
    };
    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        (void)json_object_set_new(object, members[k].name, members[k].value);
    if (s->bounds > 0) (void)json_object_set_new(object, "bounds", json_integer(s->bounds));
    if (s->alignment) (void)json_object_set_new(object, "measure", json_string("alignment"));
    return object;
}

static int write_manifest(run *r) {
    const ota_model_facts *f = &r->facts;
    json_t *files = NULL;
    int code = run_hash_end(r->hash, &files, r->model_sha256);
    json_t *model =
        json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name",
                  r->context->operands[0], "sha256", r->model_sha256, "files", files,
                  "architecture", f->architecture, "dtype", f->dtype, "head", f->head, "layers",
                  (json_int_t)f->layers, "heads", (json_int_t)f->heads, "width",
                  (json_int_t)f->width, "vocabulary", (json_int_t)f->vocabulary, "positions",
                  (json_int_t)f->positions, "parameters", (json_int_t)f->parameters);
    json_t *text =
        json_pack("{s:s, s:s, s:I, s:I}", "name", r->text.name, "sha256", r->text.sha256, "bytes",
                  (json_int_t)r->text.bytes, "tokens", (json_int_t)r->text.count);
    json_t *manifest =
        json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "command", "analyze", "version",
                  ota_version(), "schema", 1, "model", model, "text", text, "settings",
                  settings_json(r), "blas", text_or_null(ota_model_blas()));
    if (code == 0 && *r->context->cancel != 0) {
        const ota_error stopped = {.message = ""};
        code = cli_fail_status(r->context, OTA_CANCELLED, &stopped);
    }
    if (code == 0 && manifest == NULL)
        code = cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    if (code == 0) code = run_folder_manifest(r->context, &r->folder, manifest);
    json_decref(manifest);
    r->begun = code == 0;
    return code;
}

/* ---- windows ---- */

static void say_start(const run *r, int64_t done) {
    const ota_model_facts *f = &r->facts;
    if (r->context->settings.output.json || cli_ranks_rank() > 0) return;
    char memory[32];
    cli_format_bytes((double)run_measure_bytes(r), memory, sizeof memory);
    (void)fprintf(stderr,
                  "%s: %s, %" PRId64 " layer%s of %" PRId64 " head%s, width %" PRId64 ", %" PRId64
                  " window%s of %" PRId64 " tokens, %s of memory beside the weights",
                  cli_short_path(r->context->operands[0]), f->architecture, f->layers,
                  cli_s(f->layers), f->heads, cli_s(f->heads), f->width, r->text.window_count,
                  cli_s(r->text.window_count), r->text.windows[0].count, memory);
    if (done > 0)
        (void)fprintf(stderr, ", %" PRId64 " window%s %s there", done, cli_s(done),
                      done == 1 ? "is" : "are");
    if (cli_ranks_size() > 1) (void)fprintf(stderr, ", %d processes", cli_ranks_size());
    (void)fputc('\n', stderr);
}

run_shape run_shape_of(const run *r, int64_t index) {
    return (run_shape){.states = r->settings.last - r->settings.first + 1,
                       .heads = r->facts.heads,
                       .tokens = r->text.windows[index].count,
                       .probes = r->probes,
                       .variants = r->settings.variants,
                       .bounds = r->settings.bounds > 0,
                       .alignment = r->settings.alignment};
}

static int shape_record(run *r, int64_t index, run_record *record) {
    const run_shape shape = run_shape_of(r, index);
    record->index = index;
    return run_record_resize(r->context, record, &shape);
}

int run_load_record(run *r, int64_t index, run_record *record, bool *valid) {
    char path[4096];
    run_folder_record(&r->folder, index, path);
    const int code = shape_record(r, index, record);
    return code == 0 ? run_record_read(r->context, record, path, valid) : code;
}

static int measure_window(run *r, int64_t index, run_record *record) {
    char path[4096];
    const bool example = index == 0 && !r->settings.alignment;
    int code = shape_record(r, index, record);
    if (code != 0) return code;
    run_window_ids(&r->text, &r->text.windows[index], record->ids);
    run_folder_record(&r->folder, index, path);
    if (example) code = run_example_begin(r);
    if (code == 0) code = run_measure(r, record);
    if (code == 0 && !r->begun) code = write_manifest(r);
    if (code == 0 && example) code = run_example_write(r);
    run_example_end(r);
    return code == 0 ? run_record_write(r->context, record, path) : code;
}

static int say_stopped(run *r, int64_t done) {
    (void)cli_fail(&r->context->error, CLI_EXIT_INTERRUPTED,
                   "interrupted; %" PRId64 " of %" PRId64 " windows are kept in %.200s", done,
                   r->text.window_count, r->folder.path);
    (void)cli_hint(&r->context->error, "--resume goes on");
    return CLI_EXIT_INTERRUPTED;
}

/* missing [count]: the windows without a record */
static int find_missing(run *r, run_record *record, int64_t *missing, int64_t *count) {
    *count = 0;
    for (int64_t k = 0; k < r->text.window_count; k++) {
        bool valid = false;
        if (r->context->settings.analyze.resume) {
            const int code = run_load_record(r, k, record, &valid);
            if (code != 0) return code;
        }
        if (!valid) missing[(*count)++] = k;
    }
    return 0;
}

/* Another process failed. It says so and has the exit code; this one ends in silence, for a launcher stops
 * everything, sentences too, at the first exit code that is not 0. */
enum { STOPPED = -1 };

/* Every process goes on only where all can. */
static int together(int code) {
    const int worst = cli_ranks_agree(code);
    return code == 0 && worst != 0 ? STOPPED : code;
}

/* Products of a token: the weights of a block; those of the probe, and the passes over what comes out, which take about as
 * long. */
static void begin_pace(run *r, int64_t count) {
    run_pace *p = &r->pace;
    const double layers = (double)r->facts.layers, width = (double)r->facts.width;
    const double states =
        (double)(r->settings.last - r->settings.first + (r->settings.alignment ? 1 : 2));
    const int variants = r->settings.variants;
    cli_progress_begin(&p->progress, r->context, "analyze");
    p->count = (double)count;
    p->stride = cli_ranks_size();
    p->layer = 2 * width * width + 3 * width * (double)r->facts.inner;
    p->state = 2 * width * (double)r->facts.vocabulary;
    p->whole = variants * layers * p->layer + (variants - 1 + r->probes) * states * p->state;
}

void run_pace_step(run *r, double products) {
    run_pace *p = &r->pace;
    p->done = fmin(p->done + products, p->whole);
    const double done = fmin(p->count, p->before + p->stride * p->done / p->whole);
    cli_progress_update(&p->progress, done, p->count, "windows");
}

static int measure_windows(run *r) {
    run_record record = {.index = 0};
    const int rank = cli_ranks_rank(), ranks = cli_ranks_size();
    int64_t count = 0, *missing = calloc((size_t)r->text.window_count, sizeof *missing);
    int code = missing != NULL
                   ? find_missing(r, &record, missing, &count)
                   : cli_fail(&r->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    /* Nobody writes before all have seen what is missing. */
    code = together(code);
    if (code == 0) say_start(r, r->text.window_count - count);
    begin_pace(r, count);
    for (int64_t k = rank; code == 0 && k < count; k += ranks) {
        r->pace.before = (double)k;
        r->pace.done = 0;
        code = measure_window(r, missing[k], &record);
        if (code == CLI_EXIT_INTERRUPTED) code = say_stopped(r, r->text.window_count - count + k);
        run_pace_step(r, r->pace.whole);
    }
    cli_progress_end(&r->pace.progress);
    run_record_free(&record);
    free(missing);
    return code;
}

/* ---- the command ---- */

static int print_result(const run *r) {
    const char *folder = r->folder.path;
    const int64_t tokens = r->text.window_count * r->text.windows[0].count;
    const int64_t moves = r->settings.last - r->settings.first;
    if (!r->context->settings.output.json) {
        (void)printf("%" PRId64 " window%s, %" PRId64 " tokens, %" PRId64
                     " transitions; in %s: %stables\n",
                     r->text.window_count, cli_s(r->text.window_count), tokens, tokens * moves,
                     folder, r->settings.alignment ? "" : "report.html, ");
        return 0;
    }
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "command", "analyze",
                               "version", ota_version(), "status", "ok", "out", folder, "windows",
                               (json_int_t)r->text.window_count, "tokens", (json_int_t)tokens,
                               "transitions", (json_int_t)(tokens * moves));
    (void)json_object_set(object, "warnings", r->context->warnings);
    return cli_print_json(stdout, object);
}

static int prepare(run *r) {
    int code = read_settings(r);
    if (code == 0) code = run_load_text(r->context, r->model, &r->text);
    if (code == 0) code = run_choose_windows(r->context, &r->text, &r->settings);
    if (code != 0) return code;
    if (r->context->settings.analyze.windows != NULL && r->text.window_count < r->settings.windows)
        cli_warn(r->context, "the text holds %" PRId64 " window%s of %" PRId64 " tokens",
                 r->text.window_count, cli_s(r->text.window_count), r->text.windows[0].count);
    return run_measure_open(r, r->text.windows[0].count);
}

/* Rank 0 takes the folder; then the others see what it wrote there. Where nothing is looked up in a manifest, it is written
 * before the first record is, and the model's files are hashed beside the first window. */
static int open_folder(run *r) {
    const bool first = cli_ranks_rank() == 0;
    const bool now = r->context->settings.analyze.resume || cli_ranks_size() > 1;
    int code = first ? run_folder_open(r->context, &r->folder, !r->settings.alignment) : 0;
    if (code == 0 && first && now) code = write_manifest(r);
    code = together(code);
    if (code != 0 || first) return together(code);
    code = run_folder_join(r->context, &r->folder);
    return together(code == 0 ? write_manifest(r) : code);
}

static int analyze_model(run *r) {
    int code = run_hash_begin(r->context, r->model, &r->hash);
    if (code == 0) code = prepare(r);
    code = together(code);
    if (code == 0) code = open_folder(r);
    if (code == 0) code = together(measure_windows(r));
    if (code != 0 || cli_ranks_rank() > 0) return code;
    code = run_write_results(r);
    if (code == 0 && !r->settings.alignment)
        code = cli_run_report(r->folder.path, NULL, NULL, &r->context->error);
    return code == 0 ? print_result(r) : code;
}

static int analyze(cli_context *context) {
    ota_model *model = NULL;
    int code = together(cli_model_open(context, &model));
    if (code != 0) {
        ota_model_free(model);
        return code;
    }
    run *r = calloc(1, sizeof *r);
    if (r != NULL) {
        *r = (run){.context = context, .model = model, .folder = {.lock = -1}};
        r->facts.size = sizeof r->facts;
        (void)ota_model_describe(model, &r->facts, NULL);
        code = analyze_model(r);
        run_figures_free(r);
        run_measure_close(r);
        run_hash_free(r->hash);
        run_folder_close(&r->folder);
        run_text_free(&r->text);
        for (int k = 0; k < METHODS_MOST; k++) free(r->settings.method_text[k]);
    } else {
        code = cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
        code = together(code);
    }
    free(r);
    ota_model_free(model);
    return code;
}

int cli_analyze(cli_context *context) {
    int code = cli_ranks_begin();
    if (code != 0) return cli_fail(&context->error, code, "%s", cli_ranks_reason());
    code = analyze(context);
    cli_ranks_end();
    return code == STOPPED ? 0 : code;
}
