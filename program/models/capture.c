/* `otattn capture MODEL`: arrays inside a run, streamed to a file under TransformerLens names.
 *
 * All shapes are known before the run, so the header is written first and every array as the run meets
 * it, large ones in blocks of rows: memory holds one block at a time. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "edits.h"
#include "points.h"

/* Weights and scores of a layer come whole up to so many numbers, else in blocks of so many. */
enum { WHOLE = 1 << 22, BLOCK = 1 << 21 };
/* Runs of so many tokens are worth a word about how long they will take, by two that are shorter by these factors. */
enum { LONG_RUN = 2048, SHORT = 16, SHORTER = 64 };

typedef struct capture {
    cli_context *context;
    const ota_model *model;
    cli_points points;
    size_t next, left; /* the array at hand, and how much of it is to come */
    ota_type type;
    cli_output *output;
    cli_archive *archive;  /* of .npz, else NULL */
    const float *residual; /* [batch, count, width], or NULL */
    const float *pixels;   /* [batch, channels, height, width], or NULL */
    int64_t start_layer;
    cli_edits edits;
    bool rehearsing;       /* nothing is written */
    double total;          /* bytes to write */
    int64_t layer, layers; /* at hand, of so many */
    double written, due;   /* numbers of its arrays */
    double seconds;        /* that the run will take, by its rehearsal; 0: none was made */
    cli_progress progress;
} capture;

/* ---- during the run ---- */

static const cli_captured *find_array(const capture *c, const char *name) {
    for (size_t k = 0; k < c->points.count; k++)
        if (strcmp(c->points.items[k].array.name, name) == 0) return &c->points.items[k];
    return NULL;
}

static int is_wanted(void *user, const char *name) { return find_array(user, name) != NULL; }

static int is_head_wanted(void *user, const char *name, int64_t head) {
    const cli_captured *one = find_array(user, name);
    return one != NULL && (one->heads == NULL || one->heads[head]);
}

static int write_floats(capture *c, const float *data, size_t count) {
    enum { PIECE = 1 << 14 };
    unsigned char piece[PIECE * sizeof(float)];
    int code = 0;
    for (size_t done = 0; code == 0 && done < count; done += PIECE) {
        const size_t part = count - done < PIECE ? count - done : PIECE;
        if ((code = cli_look(&c->context->error)) != 0) break;
        cli_convert(data + done, OTA_F32, piece, c->type, part);
        const size_t bytes = part * ota_type_bytes(c->type);
        code = c->archive != NULL ? cli_archive_write(c->archive, piece, bytes, &c->context->error)
                                  : cli_output_write(c->output, piece, bytes, &c->context->error);
    }
    return code;
}

/* The array at hand, in files that say so before each. */
static int begin_array(capture *c) {
    const cli_array *array = &c->points.items[c->next++].array;
    return c->archive != NULL ? cli_archive_entry(c->archive, array, &c->context->error) : 0;
}

/* Layers, and what of the one at hand is written: arrays of a layer come when most of its work is done. */
static void tell(capture *c, const ota_capture *one) {
    if (one->layer < 0 || one->layer >= c->layers) return;
    if (one->layer != c->layer) {
        char start[32];
        const int size = snprintf(start, sizeof start, "blocks.%" PRId64 ".", one->layer);
        c->layer = one->layer;
        c->written = c->due = 0;
        for (size_t k = 0; k < c->points.count; k++)
            if (strncmp(c->points.items[k].array.name, start, (size_t)size) == 0)
                c->due += (double)c->points.items[k].array.count;
    }
    c->written += (double)(one->rows * one->columns);
    cli_progress_update(&c->progress, (double)c->layer + c->written / c->due, (double)c->layers,
                        "layers");
}

static ota_status write_capture(void *user, const ota_capture *one, ota_error *error) {
    capture *c = user;
    int code = 0;
    if (c->rehearsing) return OTA_OK;
    if (c->left == 0) {
        c->left = c->points.items[c->next].array.count;
        code = begin_array(c);
    }
    const cli_array *array = &c->points.items[c->next - 1].array;
    const size_t count = (size_t)(one->rows * one->columns);
    if (code == 0 && strcmp(array->name, one->name) == 0 && count <= c->left)
        code = write_floats(c, one->data, count);
    else if (code == 0)
        code = cli_fail(&c->context->error, CLI_EXIT_INTERNAL, "%s came when %s was due", one->name,
                        array->name);
    c->left -= count;
    tell(c, one);
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
    if (code == 0) code = begin_array(c);
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

/* Are heads of some array left out? */
static bool chooses_heads(const capture *c) {
    for (size_t k = 0; k < c->points.count; k++)
        if (c->points.items[k].heads != NULL) return true;
    return false;
}

static int64_t rows_of_blocks(const capture *c, int64_t batch, int64_t count) {
    int64_t heads = 0;
    for (size_t k = 0; k < c->points.count; k++) {
        const cli_array *array = &c->points.items[k].array;
        if (array->rank == 4 && array->shape[2] == count && array->shape[3] == count &&
            array->shape[1] > heads)
            heads = array->shape[1];
    }
    const double floats = (double)batch * (double)heads * (double)count * (double)count;
    if (floats <= (double)WHOLE) return 0;
    return count < BLOCK ? BLOCK / count : 1;
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
                               .pixels = c->pixels,
                               .start_layer = c->start_layer,
                               .wanted = is_wanted,
                               .wanted_head = chooses_heads(c) ? is_head_wanted : NULL,
                               .capture = write_capture,
                               .user = c,
                               .block_rows = rows_of_blocks(c, batch, count),
                               .edits = c->edits.list,
                               .edit_count = c->rehearsing ? 0 : c->edits.count};
    c->context->error.exit_code = 0;
    const ota_status status = ota_session_run(session, &run, &error);
    if (status >= 0) return 0;
    return c->context->error.exit_code != 0 ? c->context->error.exit_code
                                            : cli_fail_status(c->context, status, &error);
}

/* t = a n + b n^2 through two short runs, without what writing takes. */
static int rehearse(capture *c, ota_session *session, const int64_t *ids, int64_t batch,
                    int64_t count) {
    const int64_t sizes[2] = {count / SHORTER, count / SHORT};
    double seconds[2], n = (double)count;
    int code = 0;
    if (count < LONG_RUN || c->residual != NULL || c->pixels != NULL || batch != 1) return 0;
    c->rehearsing = true;
    for (int k = 0; code == 0 && k < 2; k++) {
        const int64_t begun = cli_now_ns();
        code = run_model(c, session, ids, batch, sizes[k], NULL, NULL);
        seconds[k] = (double)(cli_now_ns() - begun) * 1e-9;
    }
    c->rehearsing = false;
    if (code != 0) return code;
    const double x = (double)sizes[0], y = (double)sizes[1];
    const double square = fmax(0, (seconds[1] / y - seconds[0] / x) / (y - x));
    const double linear = fmax(0, seconds[1] / y - square * y);
    c->seconds = linear * n + square * n * n;
    return 0;
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

/* Images, which stand for `tokens`. */
static int load_pixels(capture *c, const ota_model_facts *facts, cli_tokens *tokens) {
    const char *path = c->context->settings.model.pixels;
    const cli_array *array;
    *tokens = (cli_tokens){0};
    if (facts->image[0] == 0)
        return cli_refuse_flag(c->context, "pixels", "give a text or --ids",
                               "the model reads text, and sees no images");
    if (path == NULL)
        return cli_refuse_flag(c->context, "pixels", "give --pixels F",
                               "the model sees images, and reads no text");
    const int code = cli_load(c->context, "pixels", path, OTA_F32, &array);
    if (code != 0) return code;
    bool fits = array->rank == 3 || array->rank == 4;
    for (int d = 0; fits && d < 3; d++) fits = array->shape[array->rank - 3 + d] == facts->image[d];
    if (!fits || array->count == 0)
        return cli_refuse_flag(c->context, "pixels", "scale the image to the model's size",
                               "the pixels are not [%" PRId64 ",%" PRId64 ",%" PRId64 "]",
                               facts->image[0], facts->image[1], facts->image[2]);
    c->pixels = array->data;
    tokens->batch = array->rank == 4 ? array->shape[0] : 1;
    tokens->count = facts->positions;
    return 0;
}

static json_t *tensors_json(const capture *c) {
    json_t *list = json_array();
    for (size_t k = 0; k < c->points.count; k++) {
        const cli_captured *one = &c->points.items[k];
        json_t *shape = json_array(), *heads = json_array();
        for (int d = 0; d < one->array.rank; d++)
            (void)json_array_append_new(shape, json_integer(one->array.shape[d]));
        for (int64_t h = 0; one->heads != NULL && h < c->points.heads; h++)
            if (one->heads[h]) (void)json_array_append_new(heads, json_integer(h));
        json_t *entry = json_pack("{s:s, s:o, s:s}", "name", one->array.name, "shape", shape,
                                  "dtype", cli_type_name(c->type));
        if (one->heads != NULL) (void)json_object_set(entry, "heads", heads);
        json_decref(heads);
        (void)json_array_append_new(list, entry);
    }
    return list;
}

static int print_result(const capture *c, const char *path) {
    if (!c->context->settings.output.json) {
        char size[32];
        cli_format_bytes(c->total, size, sizeof size);
        cli_put_named(stdout, "", path, ": ");
        (void)printf("%zu tensor%s, %s\n", c->points.count, cli_s((int64_t)c->points.count), size);
        return 0;
    }
    json_t *object = json_pack("{s:s, s:s, s:s, s:o}", "command", "capture", "status", "ok", "out",
                               path, "tensors", tensors_json(c));
    (void)json_object_set(object, "warnings", c->context->warnings);
    return cli_print_json(stdout, object);
}

/* What is to come, on the error stream. */
static void announce(const capture *c, const ota_session *session) {
    char seconds[32] = "", memory[32], size[32];
    if (c->context->settings.output.json) return;
    if (c->seconds > 0) (void)snprintf(seconds, sizeof seconds, ", about %.0f s", c->seconds);
    cli_format_bytes((double)ota_session_bytes(session), memory, sizeof memory);
    cli_format_bytes(c->total, size, sizeof size);
    (void)fprintf(stderr, "otattn capture: %s of memory, %zu tensor%s of %s to write%s\n", memory,
                  c->points.count, cli_s((int64_t)c->points.count), size, seconds);
}

static bool ends_in(const char *path, const char *end) {
    const size_t size = strlen(path);
    return size > strlen(end) && strcmp(path + size - strlen(end), end) == 0;
}

static bool is_npy(const char *path) { return strcmp(path, "-") == 0 || ends_in(path, ".npy"); }

static int write_header(capture *c, const char *path) {
    char *header = NULL;
    size_t size = 0;
    if (ends_in(path, ".npz")) return cli_archive_begin(c->output, &c->archive, &c->context->error);
    if (!is_npy(path)) {
        cli_array *arrays = calloc(c->points.count + 1, sizeof *arrays);
        if (arrays == NULL)
            return cli_fail(&c->context->error, CLI_EXIT_LIMIT, "there is no memory left");
        for (size_t k = 0; k < c->points.count; k++) arrays[k] = c->points.items[k].array;
        const int code =
            cli_write_safetensors_header(c->output, arrays, c->points.count, &c->context->error);
        free(arrays);
        return code;
    }
    int code = npy_make_header(&c->points.items[0].array, &header, &size, &c->context->error);
    if (code == 0) code = cli_output_write(c->output, header, size, &c->context->error);
    free(header);
    return code;
}

static int check_output(const capture *c, const char *path) {
    if (ends_in(path, ".npz") && c->type == OTA_BF16)
        return cli_refuse_flag(c->context, "out", "write -o F.safetensors",
                               ".npz has no type bf16");
    if (is_npy(path) && (c->points.count != 1 || c->type == OTA_BF16))
        return cli_refuse_flag(c->context, "out", "write -o F.safetensors",
                               "%s holds one array of a type that npy has, not %zu of %s",
                               strcmp(path, "-") == 0 ? "standard output" : ".npy", c->points.count,
                               cli_type_name(c->type));
    return 0;
}

static int capture_to_file(capture *c, const ota_model_facts *facts, const cli_tokens *tokens) {
    cli_context *context = c->context;
    const int64_t batch = tokens->batch, count = tokens->count;
    const int64_t *lengths;
    ota_session *session = NULL;
    void *states = NULL;
    int code = load_lengths(context, batch, &lengths);
    if (code == 0) code = check_output(c, context->settings.output.out);
    if (code == 0 && c->points.logits)
        code = cli_memory(context, (size_t)(batch * count * facts->width) * sizeof(float),
                          "the last states", &states);
    if (code == 0) code = cli_session_open(context, c->model, batch, count, 0, &session);
    if (code == 0) code = rehearse(c, session, tokens->ids, batch, count);
    if (code == 0)
        code = cli_output_begin(context->settings.output.out, context->settings.output.force,
                                &c->output, &context->error);
    if (code == 0) code = write_header(c, context->settings.output.out);
    if (code == 0) announce(c, session);
    cli_progress_begin(&c->progress, context, "capture");
    if (code == 0) code = run_model(c, session, tokens->ids, batch, count, lengths, states);
    if (code == 0 && c->points.logits)
        code = write_logits(c, session, states, batch * count, facts);
    cli_progress_end(&c->progress);
    code = cli_archive_end(c->archive, code, &context->error);
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
    capture c = {.context = context, .model = model, .type = OTA_F32, .layer = -1};
    if (context->settings.output.out_dtype != NULL)
        c.type = cli_type_of(context->settings.output.out_dtype);
    (void)ota_model_describe(model, &facts, NULL);
    c.layers = facts.layers;
    code = facts.image[0] > 0 || context->settings.model.pixels != NULL
               ? load_pixels(&c, &facts, &tokens)
               : cli_tokens_load(context, model, false, &tokens);
    const cli_run_size size = {tokens.batch, tokens.count};
    if (code == 0) code = load_residual(&c, &facts, tokens.batch, tokens.count);
    if (code == 0)
        code = cli_points_choose(context, model, (int64_t[]){tokens.batch, tokens.count},
                                 c.residual != NULL ? c.start_layer : -1, c.type, &c.points);
    for (size_t k = 0; k < c.points.count; k++)
        c.total += (double)(c.points.items[k].array.count * ota_type_bytes(c.type));
    if (code == 0) code = cli_edits_read(context, model, &size, &c.edits);
    if (code == 0) code = capture_to_file(&c, &facts, &tokens);
    if (code == 0) code = print_result(&c, context->settings.output.out);
    cli_tokens_free(&tokens);
    cli_edits_free(&c.edits);
    cli_points_free(&c.points);
    ota_model_free(model);
    return code;
}
