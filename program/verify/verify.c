/* `otattn verify`: every requirement id measured. The checks are rows of the tables in statements/; this
 * file chooses them (--only), runs each on problems drawn from --seed (--repeat times, each time others),
 * and prints what was measured beside what was claimed. An id is right when every one of its checks comes
 * out as its row expects: a corrected form holds, a printed form that the errata refute does not. Extensions, statements
 * beyond the requirements, are counted and shown apart, and one that comes out wrong fails the run as well.
 *
 * --self-test runs the corrected checks with the first output of the library put off by ten times the
 * tolerance (by one where the tolerance is 0): an id that does not notice has no check worth its name. A build with
 * OTATTN_FAULTS then plants the faults of src/base/fault.h in the product, one after another (faults.c). */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"
#include "verify.h"

/* ---- choosing ---- */

/* One character against the `[...]` at *pattern, which moves behind it; without its end `[` is a letter. */
static bool in_set(const char **pattern, char letter) {
    const char *at = *pattern + 1;
    const bool other = *at == '!' || *at == '^';
    bool found = false;
    if (other) at++;
    for (const char *first = at; *at != '\0' && (*at != ']' || at == first); at++) {
        const bool range = at[1] == '-' && at[2] != '\0' && at[2] != ']';
        found = found || (range ? *at <= letter && letter <= at[2] : *at == letter);
        if (range) at += 2;
    }
    if (*at != ']') return *(*pattern)++ == letter;
    *pattern = at + 1;
    return found != other;
}

/* As shells match names: * any letters, ? one, [a-z] one of these, \ what follows itself. */
static bool matches(const char *pattern, const char *text) {
    const char *star = NULL, *from = NULL;
    while (*text != '\0') {
        const char *at = pattern;
        bool fits = *at != '\0';
        if (*at == '*') {
            star = pattern = at + 1;
            from = text;
            continue;
        }
        if (*at == '[') {
            fits = in_set(&at, *text);
        } else {
            if (*at == '\\' && at[1] != '\0') at++;
            fits = fits && ((*at == '?' && at == pattern) || *at == *text);
            at++;
        }
        if (!fits && star == NULL) return false;
        pattern = fits ? at : star;
        text = fits ? text + 1 : ++from;
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

bool cli_check_chosen(const cli_context *context, const char *id) {
    return context->settings.verify.only == NULL || matches(context->settings.verify.only, id);
}

static id_outcome *id_of(verification *v, const char *id) {
    for (int k = 0; k < v->id_count; k++) {
        if (strcmp(v->ids[k].id, id) == 0) return &v->ids[k];
    }
    v->ids[v->id_count] = (id_outcome){.id = id};
    return &v->ids[v->id_count++];
}

int cli_ids_of(const verification *v, bool extension) {
    int count = 0;
    for (int k = 0; k < v->id_count; k++) count += v->ids[k].extension == extension;
    return count;
}

/* NO_MODEL where --model was not given. Returns 0 or the exit code. */
static int find_model_kind(cli_context *context, statement_model_kind *kind) {
    *kind = NO_MODEL;
    if (context->settings.verify.model == NULL) return 0;
    ota_error error = {.message = ""};
    int64_t positions = 0;
    const ota_status status =
        statement_model_kind_of(context->settings.verify.model, kind, &positions, &error);
    if (status != OTA_OK) return cli_fail_status(context, status, &error);
    if (positions >= MODEL_TOKENS) return 0;
    return cli_refuse_flag(context, "model", NULL,
                           "the model has %" PRId64 " positions, the checks use %d", positions,
                           MODEL_TOKENS);
}

static int choose(verification *v) {
    int most = 0;
    for (int g = 0; g < statement_group_count; g++) most += statement_groups[g]->count;
    v->outcomes = calloc((size_t)most, sizeof *v->outcomes);
    v->ids = calloc((size_t)most, sizeof *v->ids);
    if (v->outcomes == NULL || v->ids == NULL) {
        return cli_fail_status(v->context, OTA_ENOMEM, &(ota_error){.message = "out of memory"});
    }
    for (int g = 0; g < statement_group_count; g++) {
        if (v->kind > statement_groups[g]->model) continue;
        for (int k = 0; k < statement_groups[g]->count; k++) {
            const statement_check *check = &statement_groups[g]->checks[k];
            if (!cli_check_chosen(v->context, check->id)) continue;
            id_outcome *id = id_of(v, check->id);
            id->extension = statement_groups[g]->extension;
            id->checks++;
            v->outcomes[v->count++] = (outcome){.check = check, .extension = id->extension};
        }
    }
    if (v->count > 0) return 0;
    return cli_refuse_flag(v->context, "only", "ids look like CETA-17; write --only 'CETA-*'",
                           "--only '%.60s' matches no requirement id",
                           v->context->settings.verify.only);
}

/* ---- running ---- */

/* FNV-1a of both texts, mixed with the rest: the same numbers for a check whatever else runs. */
uint64_t cli_check_dice(const cli_context *context, const char *id, const char *name,
                        int64_t repeat) {
    const cli_whole given = context->settings.machine.seed;
    const uint64_t seed = given.given ? (uint64_t)given.value : 1U;
    uint64_t x = 0xcbf29ce484222325u;
    const char *const texts[] = {id, name};
    for (int k = 0; k < 2; k++) {
        for (const char *c = texts[k]; *c != '\0'; c++) {
            x = (x ^ (unsigned char)*c) * 0x100000001b3u;
        }
    }
    x += seed * 0xd1342543de82ef95u + (uint64_t)repeat * 0xaf251af3b0f025b5u;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

bool cli_check_holds(const statement_check *check, double value) {
    return check->at_least ? value >= check->tolerance : value <= check->tolerance;
}

double cli_check_measure(verification *v, const statement_check *check, int64_t repeat,
                         double fault) {
    v->trial.dice = cli_check_dice(v->context, check->id, check->claim, repeat);
    v->trial.fault = fault;
    v->trial.planted = false;
    double worst = NAN;
    for (int draw = 0; draw == 0 || draw < check->draws; draw++) {
        v->trial.draw = draw;
        v->trial.used = 0;
        v->trial.end = NULL;
        const double value = check->measure(&v->trial);
        if (v->trial.end != NULL) v->trial.end(v->trial.kept);
        if (draw == 0)
            worst = value;
        else
            worst = check->at_least ? -worse(-worst, -value) : worse(worst, value);
    }
    return worst;
}

static void run_check(verification *v, outcome *o, int64_t repeats) {
    const int64_t begun = cli_now_ns();
    const statement_check *check = o->check;
    o->right = true;
    for (int64_t k = 0; k < repeats && o->right && *v->context->cancel == 0; k++) {
        const double value = cli_check_measure(v, check, k, 0.0);
        const bool this_holds = cli_check_holds(check, value);
        const bool further = check->at_least ? !(value >= o->value) : !(value <= o->value);
        /* A value that is no number measured nothing, and shows no printed form failing. */
        o->right = this_holds != check->printed && !isnan(value);
        /* A value that came out wrong is the one to show. */
        if (k == 0 || further || !o->right) o->value = value;
        if (k == 0 || !o->right) o->holds = this_holds;
    }
    o->seconds = (double)(cli_now_ns() - begun) * 1e-9;
}

static void plant_fault(verification *v, const statement_check *check) {
    if (check->printed) return;
    const double size = check->tolerance > 0.0 ? 10.0 * check->tolerance : 1.0;
    const double value = cli_check_measure(v, check, 0, check->at_least ? -size : size);
    if (v->trial.planted && !cli_check_holds(check, value)) id_of(v, check->id)->noticed++;
}

static int run_all(verification *v) {
    const cli_settings *settings = &v->context->settings;
    const int64_t repeats = settings->verify.repeat.given ? settings->verify.repeat.value : 1;
    const int64_t begun = cli_now_ns();
    v->trial.model = settings->verify.model;
    v->trial.host = &cli_statement_host;
    v->trial.size = settings->verify.model != NULL ? MODEL_TRIAL_BYTES : TRIAL_BYTES;
    v->trial.memory = malloc(v->trial.size);
    if (v->trial.memory == NULL) {
        return cli_fail_status(v->context, OTA_ENOMEM, &(ota_error){.message = "out of memory"});
    }
    cli_progress progress;
    cli_progress_begin(&progress, v->context, settings->verify.self_test ? "self-test" : "verify");
    int done = 0;
    for (; done < v->count && *v->context->cancel == 0 && !v->trial.out_of_memory; done++) {
        outcome *o = &v->outcomes[done];
        id_outcome *id = id_of(v, o->check->id);
        if (settings->verify.self_test) {
            plant_fault(v, o->check);
        } else {
            run_check(v, o, repeats);
            /* It may have had fewer repeats than asked for. */
            if (*v->context->cancel != 0) break;
            id->right += o->right;
        }
        cli_progress_update(&progress, done + 1, v->count, "checks");
    }
    cli_progress_end(&progress);
    v->count = done;
    v->context->interrupted = *v->context->cancel != 0;
    int code = 0;
    if (settings->verify.self_test && !v->context->interrupted && !v->trial.out_of_memory)
        code = cli_faults_run(v);
    if (code == 0 && v->trial.out_of_memory)
        code = cli_fail_status(v->context, OTA_ENOMEM,
                               &(ota_error){.message = "no memory is left for the checks"});
    v->seconds = (double)(cli_now_ns() - begun) * 1e-9;
    return code;
}

/* ---- showing ---- */

const char *cli_relation_text(const statement_check *check) {
    return check->at_least ? ">=" : "<=";
}

const char *cli_form_text(const statement_check *check) {
    return check->printed ? "printed" : "corrected";
}

static int ids_right(const verification *v, bool extension) {
    int right = 0;
    for (int k = 0; k < v->id_count; k++)
        right += v->ids[k].extension == extension && v->ids[k].right == v->ids[k].checks;
    return right;
}

static int ids_noticed(const verification *v, bool extension) {
    int noticed = 0;
    for (int k = 0; k < v->id_count; k++)
        noticed += v->ids[k].extension == extension && v->ids[k].noticed > 0;
    return noticed;
}

static json_t *check_json(const outcome *o) {
    const statement_check *check = o->check;
    json_t *row = cli_json_put(
        json_object(),
        "id:s form:s claim:s value:r relation:s tolerance:r expected:b holds:b seconds:r",
        check->id, cli_form_text(check), check->claim, o->value, cli_relation_text(check),
        check->tolerance, !check->printed, o->holds, o->seconds);
    return row;
}

/* Rows of the requirements or of the extensions, and how many of their ids are right. */
static void add_rows(const verification *v, bool extension, json_t *object) {
    json_t *rows = json_array();
    if (v->context->settings.verify.self_test) {
        for (int k = 0; k < v->id_count; k++) {
            const id_outcome *id = &v->ids[k];
            if (id->extension != extension) continue;
            (void)json_array_append_new(
                rows, cli_json_put(json_object(), "id:s noticed:b", id->id, id->noticed > 0));
        }
        (void)cli_json_put(object, "self_test:o ids_noticed:i", rows, ids_noticed(v, extension));
    } else {
        for (int k = 0; k < v->count; k++) {
            if (v->outcomes[k].extension != extension) continue;
            (void)json_array_append_new(rows, check_json(&v->outcomes[k]));
        }
        (void)cli_json_put(object, "checks:o ids_ok:i", rows, ids_right(v, extension));
    }
    (void)cli_json_put(object, "ids:i", cli_ids_of(v, extension));
}

static json_t *verification_json(const verification *v) {
    const cli_settings *settings = &v->context->settings;
    json_t *object = json_object(), *extensions = json_object();
    (void)cli_json_put(object, "command:s version:s", "verify", ota_version());
    add_rows(v, false, object);
    add_rows(v, true, extensions);
    (void)cli_json_put(object, "extensions:o", extensions);
    if (settings->verify.self_test)
        cli_faults_json(v, object);
    else if (settings->output.out != NULL && !v->context->interrupted)
        (void)json_object_set_new(object, "outputs",
                                  json_pack("{s:s}", "out", settings->output.out));
    (void)cli_json_put(object, "ids_checked:i pending:o seconds:r warnings:o", cli_ids_of(v, false),
                       json_array(), v->seconds, json_incref(v->context->warnings));
    return object;
}

static void print_self_test(const verification *v) {
    for (int k = 0; k < v->id_count; k++) {
        if (v->ids[k].noticed == 0) (void)printf("%-8s  notices no fault\n", v->ids[k].id);
    }
    static const char *const nouns[] = {"ids", "extensions"};
    for (int extension = 0; extension < 2; extension++) {
        if (cli_ids_of(v, extension) == 0) continue;
        (void)printf("%d of %d %s notice a fault of ten times their tolerance\n",
                     ids_noticed(v, extension), cli_ids_of(v, extension), nouns[extension]);
    }
    cli_faults_print(v);
}

typedef struct shown {
    int checks, printed, refuted;
} shown;

static shown print_rows(const verification *v, bool extension) {
    shown counts = {0, 0, 0};
    for (int k = 0; k < v->count; k++) {
        const outcome *o = &v->outcomes[k];
        if (o->extension != extension) continue;
        const char *result = o->right ? (o->holds ? "holds" : "fails*") : "WRONG";
        (void)printf("%-8s  %-9s  %-12.6g  %s  %-8.2g  %-6s  %s\n", o->check->id,
                     cli_form_text(o->check), o->value, cli_relation_text(o->check),
                     o->check->tolerance, result, o->check->claim);
        counts.checks++;
        counts.printed += o->check->printed;
        counts.refuted += o->check->printed && !o->holds;
    }
    return counts;
}

static void print_table(const verification *v) {
    (void)printf("%-8s  %-9s  %-12s     %-8s  %-6s  %s\n", "id", "form", "value", "bound", "result",
                 "claim");
    const shown of = print_rows(v, false);
    if (of.checks > 0)
        (void)printf("%d id%s: %d right; %d check%s in %.2f s\n", cli_ids_of(v, false),
                     cli_s(cli_ids_of(v, false)), ids_right(v, false), of.checks, cli_s(of.checks),
                     v->seconds);
    if (of.printed > 0)
        (void)printf("* as expected: %d of %d printed forms shown do not hold\n", of.refuted,
                     of.printed);
    if (cli_ids_of(v, true) == 0) return;
    if (of.checks > 0) (void)printf("\nbeyond the requirements\n");
    const shown beyond = print_rows(v, true);
    (void)printf("%d extension%s: %d right; %d check%s\n", cli_ids_of(v, true),
                 cli_s(cli_ids_of(v, true)), ids_right(v, true), beyond.checks,
                 cli_s(beyond.checks));
}

/* Prints the result; a claim that came out wrong makes the command fail with it. */
static int conclude(verification *v) {
    cli_context *context = v->context;
    const bool self_test = context->settings.verify.self_test;
    const int right = self_test ? ids_noticed(v, false) + ids_noticed(v, true)
                                : ids_right(v, false) + ids_right(v, true);
    int code = 0;
    if (right < v->id_count && !context->interrupted) {
        context->status = "wrong";
        code = cli_fail(&context->error, CLI_EXIT_NUMERIC,
                        self_test ? "%d of %d ids do not notice a planted fault"
                                  : "%d of %d ids did not come out as expected",
                        v->id_count - right, v->id_count);
    } else if (v->faults_missed > 0 && !context->interrupted) {
        context->status = "wrong";
        code = cli_fail(&context->error, CLI_EXIT_NUMERIC,
                        "%d of %d faults planted in the product are noticed by no id",
                        v->faults_missed, v->fault_count);
    }
    const char *path = context->settings.output.out;
    if (code == 0 && path != NULL && !self_test && !context->interrupted) {
        code = cli_verify_write(v, path);
        if (code != 0) return code;
    }
    if (!context->settings.output.json) {
        if (self_test)
            print_self_test(v);
        else
            print_table(v);
    } else if (code == 0) {
        code = cli_print_json(stdout, verification_json(v));
    } else {
        context->failure = verification_json(v);
    }
    return code;
}

int cli_verify(cli_context *context) {
    verification v = {.context = context};
    int code = find_model_kind(context, &v.kind);
    if (code == 0) code = choose(&v);
    if (code == 0) code = cli_check_sizes(context);
    if (code == 0) code = run_all(&v);
    if (code == 0) code = conclude(&v);
    free(v.trial.memory);
    free(v.outcomes);
    free(v.ids);
    cli_faults_free(&v);
    return code;
}
