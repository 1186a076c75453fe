/* `otattn lens MODEL`: the logit lens [TOT-63, 64]. What the model's head makes of the stream behind every block at every
 * position: the likeliest token and its probability. Rows are called as in the report: by the layer that the state leaves, "emb" before
 * the first, so that the last row is what the model predicts. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "edits.h"
#include "grid.h"

enum { ROWS = 32 }; /* of logits at a time */

typedef struct lens {
    cli_context *context;
    const ota_model_facts *facts;
    ota_session *session;
    int64_t count;
    char (*names)[96]; /* [layers + 1] */
    float *states;     /* [layers + 1, count, width] */
    float *logits;     /* [ROWS, vocabulary] */
    double *values;    /* [layers + 1, count] */
    int64_t *ids;
    bool normed; /* behind a norm already: the head's is not applied again */
} lens;

static int is_state(void *user, const char *name) {
    const lens *l = user;
    for (int64_t k = 0; k <= l->facts->layers; k++)
        if (strcmp(l->names[k], name) == 0) return 1;
    return 0;
}

static ota_status keep_state(void *user, const ota_capture *one, ota_error *error) {
    lens *l = user;
    (void)error;
    for (int64_t k = 0; k <= l->facts->layers; k++)
        if (strcmp(l->names[k], one->name) == 0)
            memcpy(l->states + k * l->count * l->facts->width, one->data,
                   (size_t)(l->count * l->facts->width) * sizeof *l->states);
    return OTA_OK;
}

/* The stream before every block and behind the last; of norms behind the sum what they make of it. */
static void name_states(lens *l, const ota_model *model) {
    ota_capture_point point;
    const int64_t layers = l->facts->layers;
    for (int64_t k = 0; ota_model_point(model, k, 1, 1, &point); k++)
        l->normed = l->normed || strstr(point.name, ".hook_normalized_resid_post") != NULL;
    for (int64_t k = 0; k <= layers; k++) {
        if (l->normed && k == 0)
            (void)snprintf(l->names[k], sizeof l->names[k], "hook_full_embed");
        else if (l->normed)
            (void)snprintf(l->names[k], sizeof l->names[k],
                           "blocks.%" PRId64 ".hook_normalized_resid_post", k - 1);
        else
            (void)snprintf(l->names[k], sizeof l->names[k], "blocks.%" PRId64 ".hook_resid_%s",
                           k < layers ? k : k - 1, k < layers ? "pre" : "post");
    }
}

static double likeliest(const float *logits, int64_t count, int64_t *best) {
    double sum = 0;
    *best = 0;
    for (int64_t k = 1; k < count; k++) *best = logits[k] > logits[*best] ? k : *best;
    for (int64_t k = 0; k < count; k++) sum += exp((double)logits[k] - (double)logits[*best]);
    return 1 / sum;
}

static int read_states(lens *l) {
    const int64_t rows = (l->facts->layers + 1) * l->count, words = l->facts->vocabulary;
    cli_progress progress;
    ota_error error = {0};
    int code = 0;
    cli_progress_begin(&progress, l->context, "lens");
    for (int64_t done = 0; code == 0 && done < rows; done += ROWS) {
        const int64_t part = rows - done < ROWS ? rows - done : ROWS;
        const ota_status status = ota_session_logits(l->session, l->states + done * l->facts->width,
                                                     part, !l->normed, l->logits, &error);
        if (status < 0) code = cli_fail_status(l->context, status, &error);
        for (int64_t k = 0; code == 0 && k < part; k++)
            l->values[done + k] = likeliest(l->logits + k * words, words, &l->ids[done + k]);
        cli_progress_update(&progress, (double)(done + part), (double)rows, "states");
    }
    cli_progress_end(&progress);
    return code;
}

static int run(lens *l, const ota_model *model, const int64_t *ids) {
    cli_edits edits;
    ota_error error = {0};
    int code = cli_edits_read(l->context, model, &(cli_run_size){1, l->count}, &edits);
    if (code != 0) return code;
    const ota_model_run run = {.size = sizeof run,
                               .ids = ids,
                               .batch = 1,
                               .count = l->count,
                               .wanted = is_state,
                               .capture = keep_state,
                               .user = l,
                               .edits = edits.list,
                               .edit_count = edits.count};
    const ota_status status = ota_session_run(l->session, &run, &error);
    cli_edits_free(&edits);
    if (status < 0) return cli_fail_status(l->context, status, &error);
    return read_states(l);
}

static int print_result(const lens *l, const cli_grid *grid) {
    const char *out = l->context->settings.output.out;
    int code = out != NULL ? cli_grid_write(l->context, grid, out) : 0;
    if (code != 0) return code;
    if (!l->context->settings.output.json) {
        cli_grid_print(grid);
        if (out != NULL) cli_put_named(stdout, "wrote ", out, "\n");
        return 0;
    }
    json_t *object = cli_json_put(cli_json_result(l->context, "ok"), "layers:I positions:I out:s",
                                  l->facts->layers, l->count, out);
    cli_grid_put(grid, object);
    (void)json_object_set(object, "warnings", l->context->warnings);
    return cli_print_json(stdout, object);
}

static int read_lens(cli_context *context, const ota_model *model, const ota_model_facts *facts) {
    lens l = {.context = context, .facts = facts};
    cli_tokens tokens;
    int code = cli_grid_check(context);
    if (code != 0) return code;
    code = cli_tokens_load(context, model, false, &tokens);
    if (code == 0 && tokens.batch != 1)
        code = cli_refuse_flag(context, "ids", "give one text, [count]",
                               "--ids holds %" PRId64 " sequences", tokens.batch);
    l.count = tokens.count;
    const size_t cells = (size_t)((facts->layers + 1) * l.count);
    if (code == 0) code = cli_session_open(context, model, 1, l.count, 0, &l.session);
    if (code == 0)
        code =
            cli_memory(context, (size_t)(facts->layers + 1) * sizeof *l.names, "names", &l.names);
    if (code == 0)
        code = cli_memory(context, cells * (size_t)facts->width * sizeof *l.states, "the states",
                          &l.states);
    if (code == 0)
        code = cli_memory(context, (size_t)(ROWS * facts->vocabulary) * sizeof *l.logits, "logits",
                          &l.logits);
    if (code == 0) code = cli_memory(context, cells * sizeof *l.values, "numbers", &l.values);
    if (code == 0) code = cli_memory(context, cells * sizeof *l.ids, "tokens", &l.ids);
    if (code == 0) name_states(&l, model);
    if (code == 0) code = run(&l, model, tokens.ids);
    cli_grid grid = {
        .figure = "grid",
        .title = "Logit lens: the likeliest token by layer and position",
        .lead =
            "What the model's head makes of the residual stream of the embedding and behind every "
            "layer.",
        .caption =
            "A cell is the token that the head finds likeliest after that layer, and the colour "
            "its probability. emb is the embedding; the row on top is the model's "
            "prediction of the next token.",
        .alternative = "Cells by layer and position, coloured by the probability of their token.",
        .across = "position",
        .value = "probability",
        .axis = "probability",
        .rows = facts->layers + 1,
        .columns = l.count,
        .first = -1,
        .values = l.values,
        .ids = l.ids,
        .columns_ids = tokens.ids,
        .tokenizer = tokens.tokenizer};
    if (code == 0) code = cli_grid_prepare(context, &grid);
    if (code == 0) code = print_result(&l, &grid);
    cli_grid_free(&grid);
    free(l.names);
    free(l.states);
    free(l.logits);
    free(l.values);
    free(l.ids);
    ota_session_free(l.session);
    cli_tokens_free(&tokens);
    return code;
}

int cli_lens(cli_context *context) { return cli_with_model(context, read_lens); }
