/* `otattn perplexity MODEL`: how well a causal model predicts each token from those before it.
 *
 *     nll = mean over predicted t of -log softmax(logits[t - 1])[id_t]        perplexity = exp(nll)
 *
 * Windows of `context` tokens start `stride` apart; each predicts the tokens that no window before it
 * has predicted, all but its first. Bits per byte count the bytes of predicted tokens only. With --exit
 * every window runs twice, without and with tokens that stop early, to say what stopping costs. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_model.h"
#include "otattn_tokenizer.h"
#include "edits.h"
#include "src/base/integers.h"

enum { ROWS = 32 }; /* of logits at a time */

/* The same tokens by whole runs. */
typedef struct exit_score {
    cli_exit rule;
    int64_t model_layers;
    float *states;    /* [window, width] */
    int64_t *layers;  /* [window] that each token went through */
    int64_t *targets; /* [window] what each token predicts */
    double sum;
    int64_t layers_used, agreed;
} exit_score;

typedef struct score {
    cli_context *context;
    ota_session *session;
    const int64_t *ids;
    int64_t count, width, vocabulary, window, stride;
    float *states, *logits;
    const ota_tokenizer *tokenizer; /* NULL: the text's bytes are not known */
    double sum;
    int64_t predicted, windows, bytes;
    exit_score exit;
    cli_edits edits;
} score;

static double nll_of(const float *logits, int64_t count, int64_t id, int64_t *best) {
    *best = 0;
    for (int64_t k = 1; k < count; k++) *best = logits[k] > logits[*best] ? k : *best;
    const float most = logits[*best];
    double sum = 0;
    /* Without the likeliest's 1, so that a model that is sure keeps the digits of its tail. */
    for (int64_t k = 0; k < *best; k++) sum += (double)expf(logits[k] - most);
    for (int64_t k = *best + 1; k < count; k++) sum += (double)expf(logits[k] - most);
    return log1p(sum) + ((double)most - (double)logits[id]);
}

/* The text that tokens first ... last - 1 stand for. */
static int count_bytes(score *s, int64_t first, int64_t last) {
    ota_error error = {.message = ""};
    for (int64_t t = first; t < last; t++) {
        const int32_t id = (int32_t)s->ids[t];
        int64_t size = 0;
        const ota_status status = ota_tokenizer_decode(
            s->tokenizer, &id, 1, OTA_DECODE_NO_SPECIAL | OTA_DECODE_INNER, NULL, 0, &size, &error);
        if (status < 0) return cli_fail_status(s->context, status, &error);
        s->bytes += size;
    }
    return 0;
}

/* best[k] = the likeliest token behind row k; *sum gains -log p of the token that is there. */
static int predict_rows(score *s, const float *states, const int64_t *next, int64_t rows,
                        int64_t *best, double *sum) {
    ota_error error = {0};
    const ota_status status = ota_session_logits(s->session, states, rows, 0, s->logits, &error);
    if (status < 0) return cli_fail_status(s->context, status, &error);
    for (int64_t k = 0; k < rows; k++)
        *sum += nll_of(s->logits + k * s->vocabulary, s->vocabulary, next[k], &best[k]);
    return 0;
}

/* Tokens first + 1 ... last - 1 of the window that begins at `begin`. */
static int predict(score *s, int64_t begin, int64_t first, int64_t last) {
    int64_t best[ROWS], whole[ROWS];
    for (int64_t t = first; t + 1 < last; t += ROWS) {
        const int64_t rows = last - 1 - t < ROWS ? last - 1 - t : ROWS, at = t - begin;
        int code = predict_rows(s, s->states + at * s->width, s->ids + t + 1, rows, best, &s->sum);
        if (code == 0 && cli_exits(&s->exit.rule))
            code = predict_rows(s, s->exit.states + at * s->width, s->ids + t + 1, rows, whole,
                                &s->exit.sum);
        if (code != 0) return code;
        for (int64_t k = 0; cli_exits(&s->exit.rule) && k < rows; k++) {
            s->exit.layers_used += s->exit.layers[at + k];
            s->exit.agreed += best[k] == whole[k];
        }
        s->predicted += rows;
    }
    return s->tokenizer != NULL ? count_bytes(s, first + 1, last) : 0;
}

/* What the whole run predicts behind every token of the window. */
static int find_targets(score *s, int64_t count) {
    ota_error error = {0};
    for (int64_t t = 0; t < count; t += ROWS) {
        const int64_t rows = ota_int_min(ROWS, count - t);
        const ota_status status = ota_session_logits(s->session, s->exit.states + t * s->width,
                                                     rows, 0, s->logits, &error);
        if (status < 0) return cli_fail_status(s->context, status, &error);
        for (int64_t k = 0; k < rows; k++)
            (void)nll_of(s->logits + k * s->vocabulary, s->vocabulary, 0, &s->exit.targets[t + k]);
    }
    return 0;
}

static int run_window(score *s, int64_t begin, int64_t end) {
    const cli_exit *rule = &s->exit.rule;
    ota_error error = {0};
    ota_model_run run = {.size = sizeof run,
                         .ids = s->ids + begin,
                         .batch = 1,
                         .count = end - begin,
                         .edits = s->edits.list,
                         .edit_count = s->edits.count};
    ota_status status = OTA_OK;
    if (cli_exits(rule)) {
        run.states = s->exit.states;
        status = ota_session_run(s->session, &run, &error);
        const int code = status >= 0 && rule->oracle ? find_targets(s, run.count) : 0;
        if (code != 0) return code;
        run.exit_threshold = rule->threshold;
        run.exit_transitions = rule->transitions;
        run.exit_targets = rule->oracle ? s->exit.targets : NULL;
        run.layers = s->exit.layers;
    }
    run.states = s->states;
    if (status >= 0) status = ota_session_run(s->session, &run, &error);
    return status < 0 ? cli_fail_status(s->context, status, &error) : 0;
}

static int run_windows(score *s) {
    cli_progress progress;
    int code = 0;
    cli_progress_begin(&progress, s->context, "perplexity");
    for (int64_t begin = 0, done = 1; code == 0 && done < s->count; begin += s->stride) {
        const int64_t end = ota_int_min(begin + s->window, s->count);
        code = run_window(s, begin, end);
        /* The first token of a window has nothing before it. */
        const int64_t from = done > begin + 1 ? done : begin + 1;
        if (code == 0) code = predict(s, begin, from - 1, end);
        done = end;
        s->windows++;
        cli_progress_update(&progress, (double)done, (double)s->count, "tokens");
        if (end == s->count) break;
    }
    cli_progress_end(&progress);
    return code;
}

static int read_sizes(score *s, int64_t positions) {
    const cli_settings *settings = &s->context->settings;
    s->window = settings->model.context.given ? settings->model.context.value : positions;
    s->stride = settings->model.stride.given ? settings->model.stride.value : s->window;
    if (s->window < 2 || s->window > positions)
        return cli_refuse_flag(s->context, "context", "leave it out for all the model has",
                               "--context is %" PRId64 ", wanted 2 to %" PRId64 " positions",
                               s->window, positions);
    if (s->stride > s->window)
        return cli_refuse_flag(s->context, "stride", "a larger one would leave tokens out",
                               "--stride %" PRId64 " is larger than the context of %" PRId64,
                               s->stride, s->window);
    if (s->count < 2)
        return cli_refuse_flag(s->context, "ids", "give at least two tokens",
                               "there is no token to predict");
    if (s->window > s->count) s->window = s->count;
    return 0;
}

static json_t *exit_json(const score *s, double nll) {
    const exit_score *e = &s->exit;
    const double count = (double)s->predicted, layers = (double)e->layers_used / count;
    return json_pack(
        "{s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "rule",
        e->rule.oracle ? "oracle" : "threshold", "threshold",
        e->rule.oracle ? json_null() : cli_json_real(e->rule.threshold), "transitions",
        (json_int_t)e->rule.transitions, "layers", (json_int_t)e->model_layers, "layers_used",
        cli_json_real(layers), "layers_saved", cli_json_real(1 - layers / (double)e->model_layers),
        "agreement", cli_json_real((double)e->agreed / count), "nll_whole",
        cli_json_real(e->sum / count), "nll_change", cli_json_real(nll - e->sum / count));
}

static void print_exit(const score *s, double nll) {
    const exit_score *e = &s->exit;
    const double count = (double)s->predicted;
    char rule[32] = "oracle";
    if (!e->rule.oracle) (void)snprintf(rule, sizeof rule, "%g", e->rule.threshold);
    (void)printf("exit %s, %" PRId64 ": %.2f of %" PRId64
                 " layers used, top-1 of whole runs kept by %.2f %%, nll %+.6f\n",
                 rule, e->rule.transitions, (double)e->layers_used / count, e->model_layers,
                 100 * (double)e->agreed / count, nll - e->sum / count);
}

static int print_result(const score *s, const char *head) {
    const double nll = s->sum / (double)s->predicted;
    const double bits = s->sum / log(2.0) / (double)s->bytes; /* not finite without bytes */
    if (!s->context->settings.output.json) {
        (void)printf("perplexity %.4f per token (nll %.6f), %" PRId64 " token%s in %" PRId64
                     " window%s of %" PRId64 ", stride %" PRId64 "\n",
                     exp(nll), nll, s->predicted, cli_s(s->predicted), s->windows,
                     cli_s(s->windows), s->window, s->stride);
        if (cli_exits(&s->exit.rule)) print_exit(s, nll);
        if (s->bytes > 0) (void)printf("%.4f bits per byte\n", bits);
        return 0;
    }
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:s}", "command", "perplexity",
                  "status", "ok", "nll_per_token", cli_json_real(nll), "perplexity",
                  cli_json_real(exp(nll)), "bits_per_byte", cli_json_real(bits), "tokens",
                  (json_int_t)s->predicted, "windows", (json_int_t)s->windows, "context",
                  (json_int_t)s->window, "stride", (json_int_t)s->stride, "head", head);
    if (cli_exits(&s->exit.rule)) (void)json_object_set_new(object, "exit", exit_json(s, nll));
    (void)json_object_set(object, "warnings", s->context->warnings);
    return cli_print_json(stdout, object);
}

static int refuse_model(cli_context *context, const ota_model_facts *facts) {
    if (!facts->causal)
        return cli_refuse_flag(
            context, "model", "use a model that reads from left to right, such as gpt2 or llama",
            "%s looks both ways, so it predicts no next token", facts->architecture);
    return 0;
}

static int make_exit(score *s, int64_t layers) {
    s->exit.model_layers = layers;
    if (!cli_exits(&s->exit.rule)) return 0;
    const size_t counts = (size_t)s->window * sizeof(int64_t);
    int code = cli_memory(s->context, (size_t)(s->window * s->width) * sizeof(float), "states",
                          &s->exit.states);
    if (code == 0) code = cli_memory(s->context, counts, "layers", &s->exit.layers);
    if (code == 0) code = cli_memory(s->context, counts, "targets", &s->exit.targets);
    return code;
}

static int score_model(cli_context *context, const ota_model *model, const ota_model_facts *facts) {
    score kept = {.context = context, .width = facts->width, .vocabulary = facts->vocabulary};
    score *s = &kept;
    cli_tokens tokens;
    int code = refuse_model(s->context, facts);
    if (code != 0) return code;
    code = cli_tokens_load(s->context, model, false, &tokens);
    s->ids = tokens.ids;
    s->count = tokens.count;
    s->tokenizer = tokens.tokenizer;
    if (code == 0 && tokens.batch != 1)
        code = cli_refuse_flag(s->context, "ids", "give one text, [count]",
                               "--ids holds %" PRId64 " sequences", tokens.batch);
    if (code == 0) code = read_sizes(s, facts->positions);
    if (code == 0) code = cli_read_exit(s->context, &s->exit.rule);
    if (code == 0)
        code = cli_edits_read(s->context, model, &(cli_run_size){1, s->window}, &s->edits);
    if (code == 0 && s->edits.count > 0 && cli_exits(&s->exit.rule))
        code = cli_refuse_flag(s->context, "edit", "leave one of them out",
                               "--edit is of whole runs, and tokens stop early by --exit");
    if (code == 0) code = make_exit(s, facts->layers);
    if (code == 0) code = cli_session_open(s->context, model, 1, s->window, 0, &s->session);
    if (code == 0)
        code = cli_memory(s->context, (size_t)(s->window * s->width) * sizeof(float), "states",
                          &s->states);
    if (code == 0)
        code = cli_memory(s->context, (size_t)(ROWS * s->vocabulary) * sizeof(float), "logits",
                          &s->logits);
    if (code == 0) code = run_windows(s);
    if (code == 0) code = print_result(s, facts->head);
    free(s->states);
    free(s->logits);
    free(s->exit.states);
    free(s->exit.layers);
    free(s->exit.targets);
    cli_tokens_free(&tokens);
    cli_edits_free(&s->edits);
    ota_session_free(s->session);
    return code;
}

int cli_perplexity(cli_context *context) { return cli_with_model(context, score_model); }
