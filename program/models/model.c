/* What the subcommands on models share: opening, sessions by flags, tokens. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_model.h"
#include "otattn_tokenizer.h"
#include "program/program.h"
#include "src/base/program/system_program.h"

/* Where hub programs keep what they downloaded; the first variable that is set decides. */
static const char *hub_cache(char *path, size_t size) {
    static const struct {
        const char *variable, *tail;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"},
                  {"USERPROFILE", "/.cache/huggingface/hub"}};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        char *folder = ota_program_variable(places[k].variable);
        if (folder == NULL) continue;
        const int used = snprintf(path, size, "%s%s", folder, places[k].tail);
        free(folder);
        return used > 0 && (size_t)used < size ? path : NULL;
    }
    return NULL;
}

int cli_model_open(cli_context *context, ota_model **model) {
    char path[4096];
    ota_error error = {0};
    const ota_model_options options = {.size = sizeof options,
                                       .hub_cache = hub_cache(path, sizeof path),
                                       .tensors = {.cancel = context->cancel}};
    const ota_status status = ota_model_open(model, context->operands[0], &options, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    if (!cli_memory_short()) return 0;
    ota_model_free(*model);
    *model = NULL;
    return cli_fail_status(context, OTA_ENOMEM, &error);
}

int cli_refuse_images(cli_context *context, const ota_model *model) {
    ota_model_facts facts = {.size = sizeof facts};
    (void)ota_model_describe(model, &facts, NULL);
    if (facts.image[0] == 0) return 0;
    return cli_refuse_flag(context, NULL, "otattn capture MODEL --pixels F runs it",
                           "the model sees images, and reads no text");
}

int cli_with_model(cli_context *context, cli_model_use *use) {
    ota_model *model;
    ota_model_facts facts = {.size = sizeof facts};
    int code = cli_model_open(context, &model);
    if (code != 0) return code;
    (void)ota_model_describe(model, &facts, NULL);
    code = cli_refuse_images(context, model);
    if (code == 0) code = use(context, model, &facts);
    ota_model_free(model);
    return code;
}

static int read_window(cli_context *context, int64_t window[2]) {
    double sides[2];
    const char *text = context->settings.pairs.window;
    if (cli_numbers(text, sides, 2) == 2 && sides[0] >= -1 && sides[1] >= -1 && sides[0] < 1e9 &&
        sides[1] < 1e9) {
        window[0] = (int64_t)sides[0];
        window[1] = (int64_t)sides[1];
        if ((double)window[0] == sides[0] && (double)window[1] == sides[1]) return 0;
    }
    return cli_refuse_flag(context, "window",
                           "write --window L,R with whole numbers, -1 = no limit",
                           "--window '%.80s' is no pair of sides", text);
}

static int read_one(cli_context *context, const char *field, const char *text, double *value,
                    bool (*read)(const char *text, double *value)) {
    if (text == NULL || read(text, value)) return 0;
    return cli_refuse_flag(context, field, "models take one number for all heads",
                           "--%s '%.80s' is no number", field, text);
}

static int64_t rounds_of(const cli_settings *settings) {
    if (!settings->solver.rounds.given) return 0;
    return settings->solver.rounds.value == 0 ? OTA_NO_ROUNDS : settings->solver.rounds.value;
}

int cli_session_open(cli_context *context, const ota_model *model, int64_t batch, int64_t tokens,
                     int64_t cache, ota_session **session) {
    const cli_settings *settings = &context->settings;
    double temperature = 0, sink = 0;
    int64_t window[2];
    int code =
        read_one(context, "temperature", settings->method.temperature, &temperature, cli_number);
    if (code == 0) code = read_one(context, "sink", settings->scores.sink, &sink, cli_logit);
    if (code == 0 && settings->pairs.window != NULL) code = read_window(context, window);
    if (code != 0) return code;
    const ota_session_options options = {
        .size = sizeof options,
        .batch = batch,
        .tokens = tokens,
        .cache = cache,
        .methods = settings->model.methods.items,
        .method_count = settings->model.methods.count,
        .temperature = temperature,
        .tolerance = settings->solver.tolerance.given ? settings->solver.tolerance.value : 0,
        .rounds = rounds_of(settings),
        .max_rounds = settings->solver.max_rounds.given ? settings->solver.max_rounds.value : 0,
        .window = settings->pairs.window != NULL ? window : NULL,
        .sink = settings->scores.sink != NULL ? &sink : NULL,
        .threads = settings->machine.threads.given ? (int)settings->machine.threads.value : 0,
        .cpu = settings->machine.cpu,
        .cancel = context->cancel,
        .allow_nonfinite = settings->model.allow_nonfinite};
    ota_error error = {0};
    const ota_status status = ota_session_create(session, model, &options, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    if (ota_session_warning(*session)[0] != '\0')
        cli_warn(context, "%s", ota_session_warning(*session));
    return 0;
}

int cli_read_exit(cli_context *context, cli_exit *found) {
    static const char oracle[] = "oracle";
    double values[2] = {0, 1};
    const char *text = context->settings.model.exit;
    *found = (cli_exit){0};
    if (text == NULL) return 0;
    found->oracle = strncmp(text, oracle, sizeof oracle - 1) == 0;
    const char *rest = found->oracle ? text + sizeof oracle - 1 : text;
    int count;
    if (!found->oracle) {
        count = cli_numbers(text, values, 2);
    } else {
        values[0] = 1;
        count = *rest == '\0' ? 1 : *rest == ',' ? cli_numbers(rest + 1, values + 1, 1) : 0;
    }
    if (count < 1 || !(values[0] > 0 && values[0] <= 1) || !(values[1] >= 1 && values[1] < 1e9) ||
        (double)(int64_t)values[1] < values[1])
        return cli_refuse_flag(context, "exit",
                               "write --exit THETA,K: a probability, or the word oracle, and a "
                               "whole number of layers",
                               "--exit '%.80s' is no threshold and number of transitions", text);
    found->threshold = found->oracle ? 0 : values[0];
    found->transitions = (int64_t)values[1];
    return 0;
}

/* ---- tokens ---- */

static bool ends_with(const char *text, const char *tail) {
    const size_t length = strlen(text), size = strlen(tail);
    return length >= size && strcmp(text + length - size, tail) == 0;
}

int cli_model_tokenizer(cli_context *context, const ota_model *model, ota_tokenizer **tokenizer) {
    ota_error error = {.message = ""};
    const ota_token_options options = {.size = sizeof options, .cancel = context->cancel};
    const ota_status status = ota_model_tokenizer_with(model, tokenizer, &options, &error);
    return status < 0 ? cli_fail_status(context, status, &error) : 0;
}

int cli_tokenizer_open(cli_context *context, ota_tokenizer **tokenizer) {
    const char *path = context->operands[0];
    ota_error error = {.message = ""};
    ota_model *model;
    const bool file = ends_with(path, ".json") || ends_with(path, ".txt");
    if (file || (!ends_with(path, ".gguf") && ota_path_kind_of(path) != OTA_PATH_NONE)) {
        const ota_token_options options = {.size = sizeof options, .cancel = context->cancel};
        const ota_status status = ota_tokenizer_open_with(tokenizer, path, &options, &error);
        return status < 0 ? cli_fail_status(context, status, &error) : 0;
    }
    int code = cli_model_open(context, &model);
    if (code != 0) return code;
    code = cli_model_tokenizer(context, model, tokenizer);
    ota_model_free(model);
    return code;
}

/* A first guess of the room is nearly always enough; else the count says how much is. */
int cli_encode(cli_context *context, const ota_tokenizer *tokenizer, const char *text, size_t size,
               int32_t **ids, int64_t *count) {
    const ota_token_options options = {
        .size = sizeof options,
        .flags = (context->settings.text.no_special ? OTA_ENCODE_NO_SPECIAL : 0U) |
                 (context->settings.text.plain ? OTA_ENCODE_PLAIN : 0U),
        .cancel = context->cancel};
    int64_t room = (int64_t)size / 2 + 64;
    ota_error error = {.message = ""};
    for (;;) {
        free(*ids);
        *ids = malloc((size_t)room * sizeof **ids);
        if (*ids == NULL)
            return cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for the ids");
        const ota_status status = ota_tokenizer_encode_with(tokenizer, text, (int64_t)size,
                                                            &options, *ids, room, count, &error);
        if (status != OTA_OK) return cli_fail_status(context, status, &error);
        if (*count <= room) return 0;
        room = *count;
    }
}

static int load_ids(cli_context *context, cli_tokens *tokens) {
    const cli_array *array;
    const char *spec = context->settings.text.ids;
    if (context->operand_count > 1 || context->settings.text.words != NULL)
        return cli_refuse_flag(context, "ids", "give one of them",
                               "there are two texts: --ids and the text itself");
    const int code = cli_load(context, "ids", spec, OTA_NO_TYPE, &array);
    if (code != 0) return code;
    if (array->type != OTA_I64 || array->rank < 1 || array->rank > 2)
        return cli_refuse_flag(context, "ids", "store them as int64, [count] or [batch,count]",
                               "ids '%.200s' is no array of token ids", spec);
    if (array->count == 0)
        return cli_refuse_flag(context, "ids", "give one at least", "ids '%.200s' has no token",
                               spec);
    tokens->ids = array->data;
    tokens->batch = array->rank == 2 ? array->shape[0] : 1;
    tokens->count = array->shape[array->rank - 1];
    return 0;
}

static int encode_text(cli_context *context, const char *text, size_t size, cli_tokens *tokens) {
    int32_t *ids = NULL;
    int code = cli_encode(context, tokens->tokenizer, text, size, &ids, &tokens->count);
    if (code == 0 && tokens->count == 0)
        code = cli_refuse_flag(context, "text", "give a text that is not empty, or --ids F",
                               "the text has no token");
    if (code == 0) {
        tokens->owned = malloc((size_t)tokens->count * sizeof *tokens->owned);
        if (tokens->owned == NULL)
            code = cli_fail(&context->error, CLI_EXIT_LIMIT, "no memory is left for the ids");
    }
    for (int64_t k = 0; code == 0 && k < tokens->count; k++) tokens->owned[k] = ids[k];
    free(ids);
    tokens->ids = tokens->owned;
    tokens->batch = 1;
    return code;
}

static int load_text(cli_context *context, const ota_model *model, bool prompt,
                     cli_tokens *tokens) {
    char *text = NULL;
    size_t size = 0;
    int code = cli_model_tokenizer(context, model, &tokens->tokenizer);
    if (code != 0) return code;
    if (prompt && context->settings.text.prompt != NULL)
        return encode_text(context, context->settings.text.prompt,
                           strlen(context->settings.text.prompt), tokens);
    code = cli_read_text(context, 1, &text, &size);
    if (code == 0) code = encode_text(context, text, size, tokens);
    free(text);
    return code;
}

int cli_tokens_load(cli_context *context, const ota_model *model, bool prompt, cli_tokens *tokens) {
    ota_model_facts facts = {.size = sizeof facts};
    *tokens = (cli_tokens){0};
    int code = context->settings.text.ids != NULL ? load_ids(context, tokens)
                                                  : load_text(context, model, prompt, tokens);
    (void)ota_model_describe(model, &facts, NULL);
    for (int64_t k = 0; code == 0 && k < tokens->batch * tokens->count; k++)
        if (tokens->ids[k] < 0 || tokens->ids[k] >= facts.vocabulary)
            code = cli_refuse_flag(context, "ids", "are these the ids of this model's tokenizer?",
                                   "id %" PRId64 " is %" PRId64 ", and the vocabulary has %" PRId64
                                   " words",
                                   k, tokens->ids[k], facts.vocabulary);
    if (code != 0) cli_tokens_free(tokens);
    return code;
}

void cli_tokens_free(cli_tokens *tokens) {
    ota_tokenizer_free(tokens->tokenizer);
    free(tokens->owned);
    *tokens = (cli_tokens){0};
}
