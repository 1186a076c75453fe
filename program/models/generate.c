/* `otattn generate MODEL`: the continuation of a prompt, token by token on a KV cache.
 *
 * Greedy: the first of the largest logits. --sample draws from softmax(logits) by a counter-based
 * generator, so a seed gives the same text on every machine with the same logits. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_model.h"
#include "otattn_tokenizer.h"
#include "edits.h"

typedef struct generation {
    cli_context *context;
    ota_session *session;
    const int64_t *prompt;
    int64_t *ids; /* [wanted] */
    int64_t prompt_count, wanted, made;
    int64_t width, vocabulary;
    float *states, *logits;
    const ota_tokenizer *tokenizer; /* NULL: ids are printed */
    uint64_t seed;
    cli_exit exit;
    cli_edits edits;
    int64_t model_layers, layers_used;
    int64_t *layers; /* [prompt_count] that each token of a step went through */
    double prefill_seconds, decode_seconds;
} generation;

/* A number in [0, 1) for draw `index` (the mixing function of splitmix64). */
static double draw(uint64_t seed, uint64_t index) {
    uint64_t word = seed + (index + 1) * 0x9E3779B97F4A7C15U;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9U;
    word = (word ^ word >> 27) * 0x94D049BB133111EBU;
    return (double)((word ^ word >> 31) >> 11) * 0x1p-53;
}

static int64_t choose(const generation *g) {
    int64_t best = 0;
    for (int64_t k = 1; k < g->vocabulary; k++)
        if (g->logits[k] > g->logits[best]) best = k;
    if (!g->context->settings.model.sample) return best;
    double total = 0;
    for (int64_t k = 0; k < g->vocabulary; k++)
        total += (double)expf(g->logits[k] - g->logits[best]);
    double left = draw(g->seed, (uint64_t)g->made) * total;
    for (int64_t k = 0; k < g->vocabulary; k++) {
        left -= (double)expf(g->logits[k] - g->logits[best]);
        if (left < 0) return k;
    }
    return best;
}

/* The bytes of `count` ids that go on with a text; the caller frees *text. */
static int decode(const generation *g, const int64_t *ids, int64_t count, char **text,
                  int64_t *size) {
    ota_error error = {.message = ""};
    int32_t *narrow = malloc((size_t)(count + 1) * sizeof *narrow);
    ota_status status = narrow != NULL ? OTA_OK : OTA_ENOMEM;
    for (int64_t k = 0; narrow != NULL && k < count; k++) narrow[k] = (int32_t)ids[k];
    if (status == OTA_OK)
        status = ota_tokenizer_decode(g->tokenizer, narrow, count, OTA_DECODE_INNER, NULL, 0, size,
                                      &error);
    if (status == OTA_OK && (*text = malloc((size_t)*size + 1)) == NULL) status = OTA_ENOMEM;
    if (status == OTA_OK)
        status = ota_tokenizer_decode(g->tokenizer, narrow, count, OTA_DECODE_INNER, *text, *size,
                                      size, &error);
    free(narrow);
    return status < 0 ? cli_fail_status(g->context, status, &error) : 0;
}

/* At once: whoever reads sees the text grow. */
static int print_text(const generation *g, const int64_t *ids, int64_t count) {
    char *text = NULL;
    int64_t size = 0;
    const int code = decode(g, ids, count, &text, &size);
    if (code == 0) {
        (void)fwrite(text, 1, (size_t)size, stdout);
        (void)fflush(stdout);
    }
    free(text);
    return code;
}

/* Runs `count` ids from position `first` on and chooses the next id. */
static int step(generation *g, const int64_t *ids, int64_t first, int64_t count) {
    ota_error error = {0};
    const ota_model_run run = {.size = sizeof run,
                               .ids = ids,
                               .batch = 1,
                               .count = count,
                               .first = first,
                               .states = g->states,
                               .exit_threshold = g->exit.threshold,
                               .exit_transitions = g->exit.transitions,
                               .layers = g->layers,
                               .edits = g->edits.list,
                               .edit_count = g->edits.count};
    ota_status status = ota_session_run(g->session, &run, &error);
    if (status >= 0)
        status = ota_session_logits(g->session, g->states + (count - 1) * g->width, 1, 0, g->logits,
                                    &error);
    if (status < 0) return cli_fail_status(g->context, status, &error);
    g->ids[g->made] = choose(g);
    g->made++;
    g->layers_used += g->layers[count - 1];
    if (g->tokenizer == NULL || g->context->settings.output.json) return 0;
    return print_text(g, &g->ids[g->made - 1], 1);
}

static int run_steps(generation *g) {
    int64_t begun = cli_now_ns();
    int code = 0;
    if (g->context->settings.model.echo && g->tokenizer != NULL &&
        !g->context->settings.output.json)
        code = print_text(g, g->prompt, g->prompt_count);
    if (code == 0) code = step(g, g->prompt, 0, g->prompt_count);
    g->prefill_seconds = (double)(cli_now_ns() - begun) * 1e-9;
    begun = cli_now_ns();
    while (code == 0 && g->made < g->wanted) {
        if (__atomic_load_n(g->context->cancel, __ATOMIC_RELAXED)) {
            g->context->interrupted = true;
            break;
        }
        code = step(g, &g->ids[g->made - 1], g->prompt_count + g->made - 1, 1);
    }
    g->decode_seconds = (double)(cli_now_ns() - begun) * 1e-9;
    return code;
}

static json_t *ids_json(const int64_t *ids, int64_t count) {
    json_t *list = json_array();
    for (int64_t k = 0; k < count; k++) (void)json_array_append_new(list, json_integer(ids[k]));
    return list;
}

/* On stderr: standard output holds the text and nothing else. */
static void print_exit(const generation *g) {
    (void)fprintf(stderr, "exit %g, %" PRId64 ": %.2f of %" PRId64 " layers used\n",
                  g->exit.threshold, g->exit.transitions, (double)g->layers_used / (double)g->made,
                  g->model_layers);
}

static int print_result(const generation *g) {
    if (g->context->settings.output.json) {
        json_t *object = json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "command", "generate",
                                   "status", "ok", "prompt_tokens", (json_int_t)g->prompt_count,
                                   "ids", ids_json(g->ids, g->made), "prefill_seconds",
                                   cli_json_real(g->prefill_seconds), "decode_seconds",
                                   cli_json_real(g->decode_seconds));
        char *text = NULL;
        int64_t size = 0;
        if (g->tokenizer != NULL && decode(g, g->ids, g->made, &text, &size) == 0)
            (void)json_object_set_new(object, "text", json_stringn(text, (size_t)size));
        free(text);
        if (cli_exits(&g->exit))
            (void)json_object_set_new(
                object, "exit",
                json_pack("{s:o, s:I, s:I, s:o}", "threshold", cli_json_real(g->exit.threshold),
                          "transitions", (json_int_t)g->exit.transitions, "layers",
                          (json_int_t)g->model_layers, "layers_used",
                          cli_json_real((double)g->layers_used / (double)g->made)));
        (void)json_object_set(object, "warnings", g->context->warnings);
        return cli_print_json(stdout, object);
    }
    if (cli_exits(&g->exit)) print_exit(g);
    if (g->tokenizer != NULL) {
        (void)putchar('\n');
        return 0;
    }
    const char *between = "";
    for (int64_t k = 0; g->context->settings.model.echo && k < g->prompt_count; k++, between = " ")
        (void)printf("%s%" PRId64, between, g->prompt[k]);
    for (int64_t k = 0; k < g->made; k++, between = " ")
        (void)printf("%s%" PRId64, between, g->ids[k]);
    (void)putchar('\n');
    return 0;
}

static int read_sizes(generation *g, const ota_model_facts *facts, int64_t batch) {
    const cli_settings *settings = &g->context->settings;
    g->wanted = settings->model.tokens.given ? settings->model.tokens.value : 32;
    g->seed = settings->machine.seed.given ? (uint64_t)settings->machine.seed.value : 1;
    if (!facts->causal)
        return cli_refuse_flag(g->context, "model",
                               "use a model that reads from left to right, such as gpt2 or llama",
                               "%s looks both ways, so it continues no text", facts->architecture);
    if (batch != 1)
        return cli_refuse_flag(g->context, "ids", "give one prompt, [count]",
                               "--ids holds %" PRId64 " sequences", batch);
    if (g->wanted > facts->positions - g->prompt_count)
        return cli_refuse_flag(g->context, "tokens", "ask for fewer, or shorten the prompt",
                               "%" PRId64 " tokens after a prompt of %" PRId64
                               " do not fit %" PRId64 " positions",
                               g->wanted, g->prompt_count, facts->positions);
    return 0;
}

static int generate(cli_context *context, const ota_model *model, const ota_model_facts *facts) {
    generation kept = {.context = context, .width = facts->width, .vocabulary = facts->vocabulary};
    generation *g = &kept;
    cli_tokens tokens;
    int code = cli_tokens_load(g->context, model, true, &tokens);
    g->prompt = tokens.ids;
    g->prompt_count = tokens.count;
    g->tokenizer = tokens.tokenizer;
    g->model_layers = facts->layers;
    if (code == 0) code = read_sizes(g, facts, tokens.batch);
    if (code == 0) code = cli_read_exit(g->context, &g->exit);
    if (code == 0)
        code = cli_edits_read(g->context, model, &(cli_run_size){1, g->prompt_count}, &g->edits);
    if (code == 0 && g->exit.oracle)
        code = cli_refuse_flag(g->context, "exit", "give a threshold, or measure with perplexity",
                               "--exit oracle needs the end of a text that is not written yet");
    if (code == 0)
        code = cli_session_open(g->context, model, 1, g->prompt_count, g->prompt_count + g->wanted,
                                &g->session);
    if (code == 0)
        code = cli_memory(g->context, (size_t)(g->prompt_count * g->width) * sizeof(float),
                          "states", &g->states);
    if (code == 0)
        code = cli_memory(g->context, (size_t)g->vocabulary * sizeof(float), "logits", &g->logits);
    if (code == 0)
        code = cli_memory(g->context, (size_t)g->wanted * sizeof(int64_t), "tokens", &g->ids);
    if (code == 0)
        code =
            cli_memory(g->context, (size_t)g->prompt_count * sizeof(int64_t), "layers", &g->layers);
    if (code == 0) code = run_steps(g);
    if (code == 0) code = print_result(g);
    free(g->states);
    free(g->logits);
    free(g->ids);
    free(g->layers);
    cli_tokens_free(&tokens);
    cli_edits_free(&g->edits);
    ota_session_free(g->session);
    return code;
}

int cli_generate(cli_context *context) { return cli_with_model(context, generate); }
