/* `otattn patch MODEL`: activation patching. Two prompts of equal length run, a clean and a corrupt one; then the corrupt
 * prompt runs again for every layer and position, or layer and head, with the clean run's numbers of one point there.
 *
 *     d = logit of --answer - logit of --other behind the last token
 *     share restored = (d patched - d corrupt) / (d clean - d corrupt)
 *
 * Runs begin at the patched layer with the corrupt stream, several at a time as sequences of one batch. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "otattn_model.h"
#include "src/base/integers.h"

enum { TOKENS_AT_ONCE = 1024 };

typedef struct patching {
    cli_context *context;
    const ota_model *model;
    const ota_model_facts *facts;
    ota_session *session;
    ota_tokenizer *tokenizer; /* NULL with --ids */
    int64_t *ids; /* [1 + batch, count]: the clean prompt, then the corrupt one over and over */
    int64_t count, batch, cells;
    const char *tail; /* of the point, behind blocks.L. */
    ota_capture_point point;
    bool pairs, by_head;
    int64_t numbers; /* of the point in one sequence */
    float *clean;    /* [layers, numbers] */
    float *streams;  /* [layers, count, width] of the corrupt run */
    float *residual; /* [batch, count, width] */
    float *states, *last, *logits;
    double *shares;      /* [layers, cells] */
    double *differences; /* of the clean run, of the corrupt run */
    int64_t answers[2];
} patching;

/* ---- captures ---- */

typedef struct album {
    const char *tail;
    float *to; /* [layers, numbers] */
    int64_t numbers;
} album;

static int is_page(void *user, const char *name) {
    const album *a = user;
    const char *tail = strncmp(name, "blocks.", 7) == 0 ? strchr(name + 7, '.') : NULL;
    return tail != NULL && strcmp(tail + 1, a->tail) == 0;
}

static ota_status keep_page(void *user, const ota_capture *one, ota_error *error) {
    album *a = user;
    (void)error;
    memcpy(a->to + one->layer * a->numbers, one->data, (size_t)a->numbers * sizeof *a->to);
    return OTA_OK;
}

/* ---- runs ---- */

/* d behind the last token of each of the sequences. */
static int run(patching *p, const ota_model_run *asked, double *differences) {
    ota_error error = {0};
    ota_model_run run = *asked;
    const int64_t width = p->facts->width, words = p->facts->vocabulary;
    run.size = sizeof run;
    run.count = p->count;
    run.states = p->states;
    ota_status status = ota_session_run(p->session, &run, &error);
    for (int64_t b = 0; status >= 0 && b < run.batch; b++)
        memcpy(p->last + b * width, p->states + ((b + 1) * p->count - 1) * width,
               (size_t)width * sizeof *p->last);
    if (status >= 0)
        status = ota_session_logits(p->session, p->last, run.batch, 0, p->logits, &error);
    if (status < 0) return cli_fail_status(p->context, status, &error);
    for (int64_t b = 0; b < run.batch; b++)
        differences[b] = (double)p->logits[b * words + p->answers[0]] -
                         (double)p->logits[b * words + p->answers[1]];
    return 0;
}

static int64_t likeliest(const float *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t k = 1; k < count; k++) best = logits[k] > logits[best] ? k : best;
    return best;
}

/* Both prompts as they are: what is patched from one and into the other, and d of both. */
static int run_prompts(patching *p) {
    album clean = {p->tail, p->clean, p->numbers};
    album corrupt = {"hook_resid_pre", p->streams, p->count * p->facts->width};
    const int64_t words = p->facts->vocabulary;
    const bool named = p->answers[0] >= 0;
    int64_t found[2];
    if (!named) p->answers[0] = p->answers[1] = 0;
    for (int k = 0; k < 2; k++) {
        const ota_model_run asked = {.ids = p->ids + k * p->count,
                                     .batch = 1,
                                     .wanted = is_page,
                                     .capture = keep_page,
                                     .user = k == 0 ? &clean : &corrupt};
        const int code = run(p, &asked, &p->differences[k]);
        if (code != 0) return code;
        found[k] = likeliest(p->logits, words);
    }
    if (!named) {
        memcpy(p->answers, found, sizeof found);
        if (found[0] == found[1])
            return cli_refuse_flag(p->context, "answer", "give --answer and --other",
                                   "both prompts predict the same token");
        for (int k = 0; k < 2; k++) {
            const ota_model_run again = {.ids = p->ids + k * p->count, .batch = 1};
            const int code = run(p, &again, &p->differences[k]);
            if (code != 0) return code;
        }
    }
    if (p->differences[0] == p->differences[1])
        return cli_refuse_flag(p->context, "answer", "give prompts that differ",
                               "both prompts have the same difference of logits");
    return 0;
}

/* The clean run's numbers of one cell. */
static ota_edit edit_of(const patching *p, const char *name, int64_t layer, int64_t cell,
                        int64_t sequence) {
    const int64_t n = p->count, *shape = p->point.shape;
    float *data = p->clean + layer * p->numbers;
    ota_edit edit = {
        .size = sizeof edit, .point = name, .kind = OTA_EDIT_REPLACE, .sequences = {sequence, 1}};
    if (p->by_head)
        edit.heads = (ota_range){cell, 1};
    else
        edit.tokens = (ota_range){cell, 1};
    if (p->point.rank == 3) {
        edit.values = ota_array_of(data + cell * shape[2], OTA_F32, 1, 1, 1, shape[2]);
    } else if (p->pairs) {
        edit.values = ota_array_of(data + cell * (p->by_head ? n * n : n), OTA_F32, 1,
                                   p->by_head ? 1 : shape[1], p->by_head ? n : 1, n);
        edit.values.stride[1] = n * n;
        edit.values.stride[2] = n;
    } else {
        const int64_t heads = shape[2], width = shape[3];
        edit.values = ota_array_of(data + cell * (p->by_head ? width : heads * width), OTA_F32, 1,
                                   p->by_head ? n : 1, p->by_head ? 1 : heads, width);
        edit.values.stride[1] = heads * width;
        edit.values.stride[2] = width;
    }
    return edit;
}

static int patch_layer(patching *p, int64_t layer, ota_edit *edits, double *found,
                       cli_progress *progress) {
    const int64_t stream = p->count * p->facts->width;
    char name[96];
    (void)snprintf(name, sizeof name, "blocks.%" PRId64 ".%s", layer, p->tail);
    for (int64_t b = 0; b < p->batch; b++)
        memcpy(p->residual + b * stream, p->streams + layer * stream,
               (size_t)stream * sizeof *p->residual);
    for (int64_t first = 0; first < p->cells; first += p->batch) {
        const int64_t batch = ota_int_min(p->batch, p->cells - first);
        for (int64_t b = 0; b < batch; b++) edits[b] = edit_of(p, name, layer, first + b, b);
        const ota_model_run asked = {.ids = p->ids + p->count,
                                     .batch = batch,
                                     .residual = p->residual,
                                     .start_layer = layer,
                                     .edits = edits,
                                     .edit_count = batch};
        const int code = run(p, &asked, found);
        if (code != 0) return code;
        for (int64_t b = 0; b < batch; b++)
            p->shares[layer * p->cells + first + b] =
                (found[b] - p->differences[1]) / (p->differences[0] - p->differences[1]);
        cli_progress_update(progress, (double)(layer * p->cells + first + batch),
                            (double)(p->facts->layers * p->cells), "patches");
    }
    return 0;
}

static int patch_all(patching *p) {
    cli_progress progress;
    void *edits = NULL, *found = NULL;
    int code = cli_memory(p->context, (size_t)p->batch * sizeof(ota_edit), "edits", &edits);
    if (code == 0)
        code = cli_memory(p->context, (size_t)p->batch * sizeof(double), "numbers", &found);
    cli_progress_begin(&progress, p->context, "patch");
    for (int64_t layer = 0; code == 0 && layer < p->facts->layers; layer++)
        code = patch_layer(p, layer, edits, found, &progress);
    cli_progress_end(&progress);
    free(edits);
    free(found);
    return code;
}

/* ---- what is asked ---- */

static int refuse_lengths(patching *p, int64_t clean, int64_t corrupt) {
    return cli_refuse_flag(
        p->context, "corrupt", "word them so that every token has its counterpart",
        "the clean prompt has %" PRId64 " tokens and the corrupt one %" PRId64, clean, corrupt);
}

static int load_ids(patching *p, int64_t **both) {
    const cli_array *array;
    const int code =
        cli_load(p->context, "ids", p->context->settings.text.ids, OTA_NO_TYPE, &array);
    if (code != 0) return code;
    if (array->type != OTA_I64 || array->rank != 2 || array->shape[0] != 2 || array->count == 0)
        return cli_refuse_flag(p->context, "ids", "give int64 [2,count]: clean, corrupt",
                               "--ids does not hold two sequences");
    const int64_t *ids = array->data;
    for (size_t k = 0; k < array->count; k++)
        if (ids[k] < 0 || ids[k] >= p->facts->vocabulary)
            return cli_refuse_flag(
                p->context, "ids", "are these the ids of this model's tokenizer?",
                "id %zu is %" PRId64 ", and the vocabulary has %" PRId64 " words", k, ids[k],
                p->facts->vocabulary);
    p->count = array->shape[1];
    *both = malloc(array->count * sizeof **both);
    if (*both == NULL)
        return cli_fail(&p->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    memcpy(*both, ids, array->count * sizeof **both);
    return 0;
}

static int encode_prompts(patching *p, int64_t **both) {
    const char *const texts[2] = {p->context->settings.model.clean,
                                  p->context->settings.model.corrupt};
    int32_t *ids[2] = {NULL, NULL};
    int64_t counts[2] = {0, 0};
    if (texts[0] == NULL || texts[1] == NULL)
        return cli_refuse_flag(p->context, texts[0] == NULL ? "clean" : "corrupt",
                               "give --clean TEXT and --corrupt TEXT, or --ids F",
                               "patching needs two prompts");
    int code = cli_model_tokenizer(p->context, p->model, &p->tokenizer);
    for (int k = 0; code == 0 && k < 2; k++)
        code =
            cli_encode(p->context, p->tokenizer, texts[k], strlen(texts[k]), &ids[k], &counts[k]);
    if (code == 0 && counts[0] != counts[1]) code = refuse_lengths(p, counts[0], counts[1]);
    if (code == 0 && counts[0] == 0)
        code = cli_refuse_flag(p->context, "clean", "give a text", "the prompts have no token");
    p->count = counts[0];
    if (code == 0) {
        *both = malloc(2 * (size_t)p->count * sizeof **both);
        if (*both == NULL)
            code = cli_fail(&p->context->error, CLI_EXIT_LIMIT, "there is no memory left");
    }
    for (int64_t k = 0; code == 0 && k < 2 * p->count; k++)
        (*both)[k] = ids[k / p->count][k % p->count];
    free(ids[0]);
    free(ids[1]);
    return code;
}

/* The one token of a text, or with --ids a number. */
static int find_answer(patching *p, const char *field, const char *text, int64_t *id) {
    int32_t *ids = NULL;
    int64_t count = 0;
    if (text == NULL) {
        *id = -1;
        return 0;
    }
    if (p->tokenizer == NULL) {
        if (!cli_integer(text, id) || *id < 0 || *id >= p->facts->vocabulary)
            return cli_refuse_flag(p->context, field, "with --ids give the number of a token",
                                   "--%s '%.80s' is no token of the vocabulary", field, text);
        return 0;
    }
    const bool special = p->context->settings.text.no_special;
    p->context->settings.text.no_special = true;
    int code = cli_encode(p->context, p->tokenizer, text, strlen(text), &ids, &count);
    p->context->settings.text.no_special = special;
    if (code == 0 && count != 1)
        code =
            cli_refuse_flag(p->context, field, "a word in the middle of a text begins with a blank",
                            "--%s '%.80s' is %" PRId64 " tokens, not one", field, text, count);
    if (code == 0) *id = ids[0];
    free(ids);
    return code;
}

static int find_answers(patching *p) {
    const cli_model_settings *given = &p->context->settings.model;
    if ((given->answer == NULL) != (given->other == NULL))
        return cli_refuse_flag(p->context, given->answer == NULL ? "answer" : "other",
                               "give both, or neither: then each prompt's own prediction is taken",
                               "a difference of logits needs two tokens");
    int code = find_answer(p, "answer", given->answer, &p->answers[0]);
    if (code == 0) code = find_answer(p, "other", given->other, &p->answers[1]);
    return code;
}

static int find_point(patching *p) {
    const cli_model_settings *given = &p->context->settings.model;
    bool found = false;
    p->tail = given->points != NULL ? given->points : "hook_resid_pre";
    for (int64_t k = 0; !found && ota_model_point(p->model, k, 1, p->count, &p->point); k++) {
        const char *tail =
            strncmp(p->point.name, "blocks.", 7) == 0 ? strchr(p->point.name + 7, '.') : NULL;
        found = tail != NULL && strcmp(tail + 1, p->tail) == 0;
    }
    if (!found)
        return cli_refuse_flag(p->context, "point", "hook_resid_pre, attn.hook_z, hook_mlp_out ...",
                               "blocks of the model have no point '%.80s'", p->tail);
    p->pairs = strstr(p->tail, "hook_pattern") != NULL || strstr(p->tail, "attn_scores") != NULL;
    p->by_head = given->by != NULL ? strcmp(given->by, "head") == 0 : p->point.rank == 4;
    if (p->by_head && p->point.rank != 4)
        return cli_refuse_flag(p->context, "by", "attn.hook_z has heads",
                               "%.80s has no heads to be patched one by one", p->tail);
    p->numbers = 1;
    for (int k = 0; k < p->point.rank; k++) p->numbers *= p->point.shape[k];
    p->cells = !p->by_head ? p->count : p->point.shape[p->pairs ? 1 : 2];
    p->batch = ota_int_min(p->cells, ota_int_max(1, TOKENS_AT_ONCE / p->count));
    return 0;
}

static int make_room(patching *p, const int64_t *both) {
    cli_context *c = p->context;
    const int64_t width = p->facts->width, layers = p->facts->layers;
    const size_t stream = (size_t)(p->count * width) * sizeof(float);
    int code = cli_memory(c, (size_t)((1 + p->batch) * p->count) * sizeof *p->ids, "ids", &p->ids);
    if (code == 0)
        code = cli_memory(c, (size_t)(layers * p->numbers) * sizeof(float), "the clean run",
                          &p->clean);
    if (code == 0) code = cli_memory(c, (size_t)layers * stream, "the corrupt run", &p->streams);
    if (code == 0) code = cli_memory(c, (size_t)p->batch * stream, "streams", &p->residual);
    if (code == 0) code = cli_memory(c, (size_t)p->batch * stream, "states", &p->states);
    if (code == 0)
        code = cli_memory(c, (size_t)(p->batch * width) * sizeof(float), "states", &p->last);
    if (code == 0)
        code = cli_memory(c, (size_t)(p->batch * p->facts->vocabulary) * sizeof(float), "logits",
                          &p->logits);
    if (code == 0)
        code = cli_memory(c, (size_t)(layers * p->cells) * sizeof(double), "shares", &p->shares);
    if (code == 0) code = cli_memory(c, 2 * sizeof(double), "numbers", &p->differences);
    for (int64_t k = 0; code == 0 && k < (1 + p->batch) * p->count; k++)
        p->ids[k] = both[k < p->count ? k : p->count + k % p->count];
    return code;
}

/* ---- the result ---- */

static int show_result(const patching *p, const cli_grid *grid, char words[2][CLI_GRID_LABEL]) {
    const char *out = p->context->settings.output.out;
    if (!p->context->settings.output.json) {
        (void)printf("%s: clean %.4f, corrupt %.4f, logits of ", p->tail, p->differences[0],
                     p->differences[1]);
        cli_put_named(stdout, "\"", words[0], "\" less ");
        cli_put_named(stdout, "\"", words[1], "\"\n");
        cli_grid_print(grid);
        if (out != NULL) cli_put_named(stdout, "wrote ", out, "\n");
        return 0;
    }
    json_t *object = cli_json_put(
        cli_json_result(p->context, "ok"), "point:s answer:I other:I clean:r corrupt:r out:s",
        p->tail, p->answers[0], p->answers[1], p->differences[0], p->differences[1], out);
    cli_grid_put(grid, object);
    (void)json_object_set(object, "warnings", p->context->warnings);
    return cli_print_json(stdout, object);
}

static int print_result(patching *p) {
    const char *out = p->context->settings.output.out;
    char caption[512], words[2][CLI_GRID_LABEL];
    for (int k = 0; k < 2; k++) {
        const int code = cli_grid_label(p->context, p->tokenizer, p->answers[k], words[k]);
        if (code != 0) return code;
    }
    (void)snprintf(caption, sizeof caption,
                   "A cell is the share of the clean prompt's difference of logits, \"%s\" less "
                   "\"%s\", that comes back in the corrupt prompt when %s of that layer and %s is "
                   "the clean run's: 0 as corrupt (%.4g), 1 as clean (%.4g).",
                   words[0], words[1], p->tail, p->by_head ? "head" : "position", p->differences[1],
                   p->differences[0]);
    cli_grid grid = {.figure = "patching",
                     .title = "Activation patching",
                     .lead = "Which layers and places carry what tells the two prompts apart.",
                     .caption = caption,
                     .alternative = "Cells by layer and place, coloured by the share restored.",
                     .across = p->by_head ? "head" : "position",
                     .value = "restored",
                     .axis = "share of the difference of logits restored",
                     .rows = p->facts->layers,
                     .columns = p->cells,
                     .values = p->shares,
                     .columns_ids = p->by_head ? NULL : p->ids + p->count,
                     .tokenizer = p->tokenizer};
    int code = cli_grid_prepare(p->context, &grid);
    if (code == 0 && out != NULL) code = cli_grid_write(p->context, &grid, out);
    if (code == 0) code = show_result(p, &grid, words);
    cli_grid_free(&grid);
    return code;
}

static int patch(cli_context *context, const ota_model *model, const ota_model_facts *facts) {
    patching p = {.context = context, .model = model, .facts = facts};
    int64_t *both = NULL;
    int code = cli_grid_check(context);
    if (code == 0 && !facts->causal)
        code = cli_refuse_flag(context, "model", "use a model that predicts the next token",
                               "%s looks both ways, so it predicts no next token",
                               facts->architecture);
    if (code == 0)
        code = context->settings.text.ids != NULL ? load_ids(&p, &both) : encode_prompts(&p, &both);
    if (code == 0) code = find_answers(&p);
    if (code == 0) code = find_point(&p);
    if (code == 0) code = make_room(&p, both);
    if (code == 0) code = cli_session_open(context, model, p.batch, p.count, 0, &p.session);
    if (code == 0) code = run_prompts(&p);
    if (code == 0) code = patch_all(&p);
    if (code == 0) code = print_result(&p);
    void *const memory[] = {both,     p.ids,  p.clean,  p.streams, p.residual,
                            p.states, p.last, p.logits, p.shares,  p.differences};
    for (size_t k = 0; k < sizeof memory / sizeof *memory; k++) free(memory[k]);
    ota_session_free(p.session);
    ota_tokenizer_free(p.tokenizer);
    return code;
}

int cli_patch(cli_context *context) { return cli_with_model(context, patch); }
