/* `otattn capture MODEL`: arrays inside a run, streamed to safetensors under TransformerLens names.
 *
 * All shapes are known before the run, so the header is written first and every array as the run meets
 * it: memory holds one at a time. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "otattn_model.h"
#include "program/program.h"

typedef struct capture {
    cli_context *context;
    const ota_model *model;
    cli_array *arrays;
    size_t count, next; /* those that the run hands over */
    bool logits;        /* wanted too: they come last */
    ota_type type;
    cli_output *output;
    const float *residual; /* [batch, count, width], or NULL */
    int64_t start_layer;
} capture;

/* ---- which points ---- */

static bool has_tail(const char *name, const char *tail) {
    const size_t length = strlen(name), size = strlen(tail);
    return length >= size && strcmp(name + length - size, tail) == 0;
}

/* Embedding, the stream before every layer and after the last, patterns, the last norm. */
static bool is_standard(const char *name, const char *last) {
    return strcmp(name, "hook_embed") == 0 || strcmp(name, "ln_final.hook_normalized") == 0 ||
           has_tail(name, ".hook_resid_pre") || has_tail(name, ".attn.hook_pattern") ||
           strcmp(name, last) == 0;
}

/* Is `name`, or its part behind "blocks.L.", a word of the list? */
static bool is_listed(const char *list, const char *name) {
    const char *tail = name;
    if (strncmp(name, "blocks.", 7) == 0 && strchr(name + 7, '.') != NULL)
        tail = strchr(name + 7, '.') + 1;
    for (const char *at = list; at != NULL && *at != '\0';) {
        const char *comma = strchr(at, ',');
        const size_t size = comma != NULL ? (size_t)(comma - at) : strlen(at);
        if ((strlen(name) == size && strncmp(name, at, size) == 0) ||
            (strlen(tail) == size && strncmp(tail, at, size) == 0))
            return true;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return false;
}

static int refuse_points(const capture *c, const char *list) {
    for (const char *at = list; at != NULL && *at != '\0';) {
        const char *comma = strchr(at, ',');
        char word[128];
        (void)snprintf(word, sizeof word, "%.*s",
                       (int)(comma != NULL ? comma - at : (ptrdiff_t)strlen(at)), at);
        ota_capture_point point;
        bool found = strcmp(word, "all") == 0 || (c->logits && strcmp(word, "logits") == 0);
        for (int64_t k = 0; !found && ota_model_point(c->model, k, 1, 1, &point); k++)
            found = is_listed(word, point.name);
        if (!found)
            return cli_refuse_flag(c->context, "points",
                                   "--points all with --json lists the names of this model",
                                   "the model has no point '%.100s'", word);
        at = comma != NULL ? comma + 1 : NULL;
    }
    return 0;
}

static void add_array(capture *c, const char *name, int rank, const int64_t *shape) {
    cli_array *array = &c->arrays[c->count++];
    *array = (cli_array){.type = c->type, .rank = rank, .count = 1};
    (void)snprintf(array->name, sizeof array->name, "%s", name);
    for (int d = 0; d < rank; d++) {
        array->shape[d] = shape[d];
        array->count *= (size_t)shape[d];
    }
}

static int choose_points(capture *c, const ota_model_facts *facts, int64_t batch, int64_t count) {
    const char *list = c->context->settings.model.points;
    char last[96];
    ota_capture_point point;
    (void)snprintf(last, sizeof last, "blocks.%" PRId64 ".hook_resid_post", facts->layers - 1);
    for (int64_t k = 0; ota_model_point(c->model, k, 1, 1, &point); k++)
        if (has_tail(point.name, ".hook_normalized_resid_post"))
            (void)snprintf(last, sizeof last, "%s", point.name);
    size_t points = 0;
    while (ota_model_point(c->model, (int64_t)points, batch, count, &point)) points++;
    c->arrays = calloc(points + 1, sizeof *c->arrays);
    if (c->arrays == NULL)
        return cli_fail(&c->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    const bool all = is_listed(list, "all");
    c->logits = is_listed(list, "logits") && strcmp(facts->head, "none") != 0;
    if (list != NULL && refuse_points(c, list) != 0) return c->context->error.exit_code;
    for (size_t k = 0; k < points; k++) {
        (void)ota_model_point(c->model, (int64_t)k, batch, count, &point);
        if (!(all || (list == NULL ? is_standard(point.name, last) : is_listed(list, point.name))))
            continue;
        if (c->residual == NULL || point.layer >= c->start_layer)
            add_array(c, point.name, point.rank, point.shape);
    }
    if (c->logits) add_array(c, "logits", 3, (int64_t[]){batch, count, facts->vocabulary});
    return 0;
}

/* ---- during the run ---- */

static int is_wanted(void *user, const char *name) {
    const capture *c = user;
    for (size_t k = 0; k < c->count; k++)
        if (strcmp(c->arrays[k].name, name) == 0) return 1;
    return 0;
}

static int write_floats(capture *c, const float *data, size_t count) {
    enum { PIECE = 1 << 14 };
    unsigned char piece[PIECE * sizeof(float)];
    int code = 0;
    for (size_t done = 0; code == 0 && done < count; done += PIECE) {
        const size_t part = count - done < PIECE ? count - done : PIECE;
        cli_convert(data + done, OTA_F32, piece, c->type, part);
        code =
            cli_output_write(c->output, piece, part * ota_type_bytes(c->type), &c->context->error);
    }
    return code;
}

static ota_status write_capture(void *user, const ota_capture *one, ota_error *error) {
    capture *c = user;
    const cli_array *array = &c->arrays[c->next++];
    int code = strcmp(array->name, one->name) == 0
                   ? write_floats(c, one->data, array->count)
                   : cli_fail(&c->context->error, CLI_EXIT_INTERNAL, "%s came when %s was due",
                              one->name, array->name);
    if (code != 0) (void)snprintf(error->message, sizeof error->message, "stopped");
    return code == 0 ? OTA_OK : OTA_CANCELLED;
}

/* Logits of some rows at a time: all of them may be large. */
static int write_logits(capture *c, ota_session *session, const float *states, int64_t rows,
                        const ota_model_facts *facts) {
    enum { ROWS = 64 };
    void *logits;
    ota_error error = {0};
    int code = cli_memory(c->context, (size_t)(ROWS * facts->vocabulary) * sizeof(float),
                          "the logits", &logits);
    for (int64_t done = 0; code == 0 && done < rows; done += ROWS) {
        const int64_t part = rows - done < ROWS ? rows - done : ROWS;
        const ota_status status =
            ota_session_logits(session, states + done * facts->width, part, 0, logits, &error);
        code = status < 0 ? cli_fail_status(c->context, status, &error)
                          : write_floats(c, logits, (size_t)(part * facts->vocabulary));
    }
    free(logits);
    return code;
}

static int run_model(capture *c, ota_session *session, const int64_t *ids, int64_t batch,
                     int64_t count, const int64_t *lengths, float *states) {
    ota_error error = {0};
    const ota_model_run run = {.size = sizeof run,
                               .ids = ids,
                               .batch = batch,
                               .count = count,
                               .lengths = lengths,
                               .states = states,
                               .residual = c->residual,
                               .start_layer = c->start_layer,
                               .wanted = is_wanted,
                               .capture = write_capture,
                               .user = c};
    c->context->error.exit_code = 0;
    const ota_status status = ota_session_run(session, &run, &error);
    if (status >= 0) return 0;
    return c->context->error.exit_code != 0 ? c->context->error.exit_code
                                            : cli_fail_status(c->context, status, &error);
}

/* ---- the command ---- */

static int load_lengths(cli_context *context, int64_t batch, const int64_t **lengths) {
    const cli_array *array;
    *lengths = NULL;
    if (context->settings.pairs.lengths == NULL) return 0;
    const int code =
        cli_load(context, "lengths", context->settings.pairs.lengths, OTA_NO_TYPE, &array);
    if (code != 0) return code;
    if (array->type != OTA_I64 || array->count != (size_t)batch)
        return cli_refuse_flag(context, "lengths", "give int64 [batch]",
                               "lengths does not hold one whole number a sequence");
    *lengths = array->data;
    return 0;
}

static int load_residual(capture *c, const ota_model_facts *facts, int64_t batch, int64_t count) {
    const cli_settings *settings = &c->context->settings;
    const cli_array *array;
    const int64_t shape[3] = {batch, count, facts->width};
    c->start_layer = settings->model.start_layer.given ? settings->model.start_layer.value : 0;
    if (settings->model.residual == NULL && !settings->model.start_layer.given) return 0;
    if (settings->model.residual == NULL)
        return cli_refuse_flag(c->context, "start-at-layer",
                               "give --residual F, the stream that goes into the layer",
                               "a run can begin at a layer with a residual stream only");
    if (c->start_layer >= facts->layers)
        return cli_refuse_flag(c->context, "start-at-layer", "layers are counted from 0",
                               "the model has %" PRId64 " layers, and no layer %" PRId64,
                               facts->layers, c->start_layer);
    const int code = cli_load(c->context, "residual", settings->model.residual, OTA_F32, &array);
    if (code != 0) return code;
    bool fits = array->rank == 3;
    for (int d = 0; fits && d < 3; d++) fits = array->shape[d] == shape[d];
    if (!fits)
        return cli_refuse_flag(c->context, "residual", "give [batch,count,width] of this run",
                               "the residual stream is not [%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                               shape[0], shape[1], shape[2]);
    c->residual = array->data;
    return 0;
}

static json_t *tensors_json(const capture *c) {
    json_t *list = json_array();
    for (size_t k = 0; k < c->count; k++) {
        json_t *shape = json_array();
        for (int d = 0; d < c->arrays[k].rank; d++)
            (void)json_array_append_new(shape, json_integer(c->arrays[k].shape[d]));
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:o, s:s}", "name", c->arrays[k].name, "shape",
                                              shape, "dtype", cli_type_name(c->type)));
    }
    return list;
}

static int print_result(const capture *c, const char *path) {
    size_t bytes = 0;
    for (size_t k = 0; k < c->count; k++) bytes += c->arrays[k].count * ota_type_bytes(c->type);
    if (!c->context->settings.output.json) {
        cli_put_named(stdout, "", path, ": ");
        (void)printf("%zu tensors, %.1f MB\n", c->count, (double)bytes / 1e6);
        return 0;
    }
    json_t *object = json_pack("{s:s, s:s, s:s, s:o}", "command", "capture", "status", "ok", "out",
                               path, "tensors", tensors_json(c));
    (void)json_object_set(object, "warnings", c->context->warnings);
    return cli_print_json(stdout, object);
}

static int capture_to_file(capture *c, const ota_model_facts *facts, const int64_t *ids,
                           int64_t batch, int64_t count) {
    cli_context *context = c->context;
    const int64_t *lengths;
    ota_session *session = NULL;
    void *states = NULL;
    int code = load_lengths(context, batch, &lengths);
    if (code == 0 && c->logits)
        code = cli_memory(context, (size_t)(batch * count * facts->width) * sizeof(float),
                          "the last states", &states);
    if (code == 0) code = cli_session_open(context, c->model, batch, count, 0, &session);
    if (code == 0)
        code = cli_output_begin(context->settings.output.out, context->settings.output.force,
                                &c->output, &context->error);
    if (code == 0)
        code = cli_write_safetensors_header(c->output, c->arrays, c->count, &context->error);
    if (code == 0 && !context->settings.output.json)
        (void)fprintf(stderr, "otattn capture: %.1f MB of memory, %zu arrays to write\n",
                      (double)ota_session_bytes(session) / 1e6, c->count);
    if (code == 0) code = run_model(c, session, ids, batch, count, lengths, states);
    if (code == 0 && c->logits) code = write_logits(c, session, states, batch * count, facts);
    if (code == 0) {
        code = cli_output_commit(c->output, &context->error);
        c->output = NULL;
    }
    cli_output_abort(c->output);
    ota_session_free(session);
    free(states);
    return code;
}

int cli_capture(cli_context *context) {
    ota_model *model;
    cli_tokens tokens;
    ota_model_facts facts = {.size = sizeof facts};
    if (context->settings.output.out == NULL)
        return cli_refuse_flag(context, "out", "write -o F.safetensors",
                               "capture needs a file to write");
    int code = cli_model_open(context, &model);
    if (code != 0) return code;
    capture c = {.context = context, .model = model, .type = OTA_F32};
    if (context->settings.output.out_dtype != NULL)
        c.type = cli_type_of(context->settings.output.out_dtype);
    (void)ota_model_describe(model, &facts, NULL);
    code = cli_tokens_load(context, model, false, &tokens);
    if (code == 0) code = load_residual(&c, &facts, tokens.batch, tokens.count);
    if (code == 0) code = choose_points(&c, &facts, tokens.batch, tokens.count);
    if (code == 0) code = capture_to_file(&c, &facts, tokens.ids, tokens.batch, tokens.count);
    if (code == 0) code = print_result(&c, context->settings.output.out);
    cli_tokens_free(&tokens);
    free(c.arrays);
    ota_model_free(model);
    return code;
}
