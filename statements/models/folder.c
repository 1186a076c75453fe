/* A checkpoint for a check: a GPT-2 of random weights in a folder that is gone once it is open, or the model that
 * --model names; its weights in memory, and its run by the library. */
#include <inttypes.h>
#include <jansson.h>

#include "models.h"
#include "src/base/program/system_program.h"

static const model_sizes small = {
    .layers = 6, .heads = 2, .width = 16, .vocabulary = 61, .positions = 16};
enum { COUNT = MODEL_TOKENS };

/* ---- the tensors of a GPT-2 ---- */

static void add(weight *weights, int *count, const char *name, int64_t rows, int64_t columns) {
    weight *w = &weights[(*count)++];
    (void)snprintf(w->name, sizeof w->name, "%s", name);
    w->rows = rows;
    w->columns = columns;
    w->count = rows * (columns > 0 ? columns : 1);
}

/* A linear layer's matrix [in][out] and bias, or a norm's gain and shift: in 0. */
static void add_pair(weight *weights, int *count, int64_t layer, const char *part, int64_t in,
                     int64_t out) {
    char name[64];
    (void)snprintf(name, sizeof name, "h.%" PRId64 ".%s.weight", layer, part);
    add(weights, count, name, in > 0 ? in : out, in > 0 ? out : 0);
    (void)snprintf(name, sizeof name, "h.%" PRId64 ".%s.bias", layer, part);
    add(weights, count, name, out, 0);
}

weight *statement_gpt2_tensors(const model_sizes *sizes, int *count) {
    const int64_t d = sizes->width;
    weight *weights = calloc((size_t)(12 * sizes->layers + 4), sizeof *weights);
    *count = 0;
    if (weights == NULL) return NULL;
    add(weights, count, "wte.weight", sizes->vocabulary, d);
    add(weights, count, "wpe.weight", sizes->positions, d);
    for (int64_t layer = 0; layer < sizes->layers; layer++) {
        add_pair(weights, count, layer, "ln_1", 0, d);
        add_pair(weights, count, layer, "attn.c_attn", d, 3 * d);
        add_pair(weights, count, layer, "attn.c_proj", d, d);
        add_pair(weights, count, layer, "ln_2", 0, d);
        add_pair(weights, count, layer, "mlp.c_fc", d, 4 * d);
        add_pair(weights, count, layer, "mlp.c_proj", 4 * d, d);
    }
    add(weights, count, "ln_f.weight", d, 0);
    add(weights, count, "ln_f.bias", d, 0);
    return weights;
}

static bool is_gain(const weight *w) {
    return strstr(w->name, "ln_") != NULL && strstr(w->name, ".weight") != NULL;
}

static void draw(trial *t, weight *weights, int count) {
    for (int k = 0; k < count; k++) {
        const weight *w = &weights[k];
        const double deviation = w->columns > 0 ? 0.3 : 0.1;
        for (int64_t j = 0; j < w->count; j++)
            w->data[j] = (float)((is_gain(w) ? 1.0 : 0.0) + deviation * normal(t));
    }
}

/* ---- the folder ---- */

bool statement_make_folder(char *path) { return ota_folder_make_temporary("otattn-verify-", path); }

static void in_folder(const char *folder, const char *name, char *path) {
    (void)snprintf(path, OTA_PATH_ROOM, "%.3800s/%s", folder, name);
}

void statement_remove_folder(const char *folder) {
    static const char *const names[] = {"config.json", "model.safetensors", "states.safetensors"};
    char path[OTA_PATH_ROOM];
    for (int k = 0; k < 3; k++) {
        in_folder(folder, names[k], path);
        (void)ota_path_remove(path);
    }
    (void)ota_folder_remove(folder);
}

static bool write_config(const char *folder, const model_sizes *sizes) {
    char path[OTA_PATH_ROOM];
    in_folder(folder, "config.json", path);
    FILE *file = ota_file_stream(path, "w");
    if (file == NULL) return false;
    const bool written =
        fprintf(file,
                "{\"model_type\": \"gpt2\", \"n_layer\": %" PRId64 ", \"n_head\": %" PRId64
                ", \"n_embd\": %" PRId64 ", \"vocab_size\": %" PRId64 ", \"n_positions\": %" PRId64
                ", \"layer_norm_epsilon\": 1e-5}\n",
                sizes->layers, sizes->heads, sizes->width, sizes->vocabulary, sizes->positions) > 0;
    return fclose(file) == 0 && written;
}

bool statement_resize(const char *path, int64_t more) {
    ota_path_kind kind;
    int64_t size;
    const int descriptor = ota_file_descriptor(path, true, &kind, &size);
    if (descriptor < 0) return false;
    ota_descriptor_close(descriptor);
    return ota_path_resize(path, size + more);
}

bool statement_write_gpt2(trial *t, const char *folder, const model_sizes *sizes,
                          const weight *weights, int count) {
    char path[OTA_PATH_ROOM];
    statement_tensor *tensors = calloc((size_t)count, sizeof *tensors);
    if (tensors == NULL || !write_config(folder, sizes)) {
        free(tensors);
        return false;
    }
    int64_t elements = 0;
    for (int k = 0; k < count; k++) {
        const weight *w = &weights[k];
        tensors[k] = (statement_tensor){.data = w->data,
                                        .type = OTA_F32,
                                        .rank = w->columns > 0 ? 2 : 1,
                                        .shape = {w->rows, w->columns},
                                        .count = (size_t)w->count};
        (void)snprintf(tensors[k].name, sizeof tensors[k].name, "%s", w->name);
        elements += w->count;
    }
    in_folder(folder, "model.safetensors", path);
    const bool hole = weights[0].data == NULL;
    const bool written = t->host->write_tensors(path, tensors, count, hole);
    free(tensors);
    return written && (!hole || statement_resize(path, elements * (int64_t)sizeof(float)));
}

/* ---- opening ---- */

static bool hold_weights(weight *weights, int count) {
    int64_t elements = 0;
    for (int k = 0; k < count; k++) elements += weights[k].count;
    float *data = malloc((size_t)elements * sizeof *data);
    for (int k = 0; data != NULL && k < count; k++) {
        weights[k].data = data;
        data += weights[k].count;
    }
    return data != NULL;
}

static bool open_session(checkpoint *c) {
    const ota_session_options options = {.size = sizeof options,
                                         .batch = 2,
                                         .tokens = c->count,
                                         .threads = 1,
                                         .temperature = c->temperature};
    return ota_session_create(&c->session, c->model, &options, NULL) == OTA_OK;
}

/* The weights as they are now, through a folder. */
static bool open_written(trial *t, checkpoint *c, const model_sizes *sizes) {
    char folder[OTA_PATH_ROOM];
    if (!statement_make_folder(folder)) return false;
    const bool opened = statement_write_gpt2(t, folder, sizes, c->weights, c->weight_count) &&
                        ota_model_open(&c->model, folder, NULL, NULL) == OTA_OK;
    statement_remove_folder(folder);
    return opened && ota_model_describe(c->model, &c->facts, NULL) == OTA_OK && open_session(c);
}

/* The model's tensor of that name, with or without the prefix of hub checkpoints, as f32. */
static bool read_weight(trial *t, const checkpoint *c, int file, const weight *w) {
    const ota_tensor *tensor = NULL;
    for (int64_t k = 0; (tensor = ota_model_tensor(c->model, k)) != NULL; k++) {
        const char *name = tensor->name;
        if (strncmp(name, "transformer.", 12) == 0) name += 12;
        if (strcmp(name, w->name) == 0) break;
    }
    const ota_type type = tensor == NULL                        ? OTA_NO_TYPE
                          : strcmp(tensor->stored, "F32") == 0  ? OTA_F32
                          : strcmp(tensor->stored, "F16") == 0  ? OTA_F16
                          : strcmp(tensor->stored, "BF16") == 0 ? OTA_BF16
                                                                : OTA_NO_TYPE;
    if (type == OTA_NO_TYPE || tensor->count != w->count) return false;
    void *bytes = malloc((size_t)tensor->bytes);
    int64_t got = 0, more = bytes != NULL;
    while (more > 0 && got < tensor->bytes) {
        more = ota_descriptor_read(file, (char *)bytes + got, (size_t)(tensor->bytes - got),
                                   tensor->offset + got);
        if (more > 0) got += more;
    }
    const bool read = bytes != NULL && got == tensor->bytes;
    if (read) t->host->to_f32(bytes, type, w->data, (size_t)w->count);
    free(bytes);
    return read;
}

static json_t *config_of(const ota_model_facts *facts) {
    char path[OTA_PATH_ROOM];
    if (strcmp(facts->architecture, "gpt2") != 0 || strcmp(facts->format, "safetensors") != 0)
        return NULL;
    in_folder(facts->path, "config.json", path);
    FILE *file = ota_file_reader(path);
    json_t *config = file == NULL ? NULL : json_loadf(file, 0, NULL);
    if (file != NULL) (void)fclose(file);
    return config;
}

static bool is_unscaled(const json_t *config) {
    return json_is_false(json_object_get(config, "scale_attn_weights"));
}

static bool is_scaled_by_layer(const json_t *config) {
    return json_is_true(json_object_get(config, "scale_attn_by_inverse_layer_idx"));
}

static bool says(const json_t *config, const char *key, const char *word, const char *other) {
    const json_t *value = json_object_get(config, key);
    const char *text = json_string_value(value);
    return value == NULL || (text != NULL && (strcmp(text, word) == 0 || strcmp(text, other) == 0));
}

/* One whose forward pass is that of formula.c, deep enough for tokens to leave early. */
static bool is_gpt2(const ota_model_facts *facts) {
    json_t *config = config_of(facts);
    const bool plain = config != NULL && !is_unscaled(config) && !is_scaled_by_layer(config) &&
                       says(config, "activation_function", "gelu_new", "gelu_pytorch_tanh");
    json_decref(config);
    return plain && strcmp(facts->head, "tied") == 0 && facts->inner == 4 * facts->width &&
           facts->layers >= 3;
}

static model_sizes sizes_of(const checkpoint *c) {
    return (model_sizes){c->facts.layers, c->facts.heads, c->facts.width, c->facts.vocabulary,
                         c->facts.positions};
}

/* Weights are for the checks that only a GPT-2 has. */
static bool read_weights(trial *t, checkpoint *c) {
    char path[OTA_PATH_ROOM];
    in_folder(c->facts.path, "model.safetensors", path);
    const model_sizes sizes = sizes_of(c);
    c->weights = statement_gpt2_tensors(&sizes, &c->weight_count);
    ota_path_kind kind;
    int64_t size;
    const int file = ota_file_descriptor(path, true, &kind, &size);
    bool read = file >= 0 && c->weights != NULL && hold_weights(c->weights, c->weight_count);
    for (int k = 0; read && k < c->weight_count; k++)
        read = read_weight(t, c, file, &c->weights[k]);
    if (file >= 0) ota_descriptor_close(file);
    return read;
}

static bool open_named(trial *t, checkpoint *c) {
    if (ota_model_open(&c->model, t->model, NULL, NULL) != OTA_OK) return false;
    if (ota_model_describe(c->model, &c->facts, NULL) != OTA_OK) return false;
    json_t *config = config_of(&c->facts);
    c->unscaled = is_unscaled(config);
    c->scaled_by_layer = is_scaled_by_layer(config);
    json_decref(config);
    return (!is_gpt2(&c->facts) || read_weights(t, c)) && open_session(c);
}

ota_status statement_model_kind_of(const char *path, statement_model_kind *kind, int64_t *positions,
                                   ota_error *error) {
    ota_model *model;
    ota_model_facts facts = {.size = sizeof facts};
    ota_status status = ota_model_open(&model, path, NULL, error);
    if (status == OTA_OK) status = ota_model_check_finite(model, error);
    if (status == OTA_OK) status = ota_model_describe(model, &facts, error);
    if (status == OTA_OK)
        *kind = is_gpt2(&facts)                                        ? GPT2_MODEL
                : facts.causal != 0 && strcmp(facts.head, "none") != 0 ? CAUSAL_MODEL
                                                                       : ANY_MODEL;
    *positions = facts.positions;
    ota_model_free(model);
    return status;
}

static void close_checkpoint(void *kept) {
    checkpoint *c = kept;
    ota_session_free(c->session);
    ota_model_free(c->model);
    if (c->weights != NULL) free(c->weights[0].data);
    free(c->weights);
    free(c);
}

checkpoint *statement_checkpoint(trial *t) {
    /* Not the trial's memory, which a large model may use up. */
    checkpoint *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    t->end = close_checkpoint;
    t->kept = c;
    *c = (checkpoint){.facts.size = sizeof c->facts, .count = COUNT, .temperature = 1.0};
    bool opened;
    if (t->model != NULL) {
        opened = open_named(t, c);
    } else {
        c->weights = statement_gpt2_tensors(&small, &c->weight_count);
        opened = c->weights != NULL && hold_weights(c->weights, c->weight_count);
        if (opened) draw(t, c->weights, c->weight_count);
        opened = opened && open_written(t, c, &small);
    }
    c->ids = take(t, COUNT * sizeof *c->ids);
    for (int k = 0; opened && k < COUNT; k++) c->ids[k] = below(t, c->facts.vocabulary);
    return opened ? c : NULL;
}

bool statement_reopen_checkpoint(trial *t, checkpoint *c) {
    const model_sizes sizes = sizes_of(c);
    ota_session_free(c->session);
    ota_model_free(c->model);
    c->session = NULL;
    c->model = NULL;
    return open_written(t, c, &sizes);
}

bool statement_heat_checkpoint(checkpoint *c, double temperature) {
    ota_session_free(c->session);
    c->session = NULL;
    c->temperature = temperature;
    return open_session(c);
}

/* ---- running ---- */

/* The stream before every layer and after the last one, behind its norm where an architecture has one there. */
static int state_of(const checkpoint *c, const char *name) {
    static const char *const last[] = {"hook_resid_post", "hook_normalized_resid_post"};
    char wanted[64];
    for (int64_t layer = 0; layer < c->facts.layers; layer++) {
        (void)snprintf(wanted, sizeof wanted, "blocks.%" PRId64 ".hook_resid_pre", layer);
        if (strcmp(name, wanted) == 0) return (int)layer;
    }
    for (int k = 0; k < 2; k++) {
        (void)snprintf(wanted, sizeof wanted, "blocks.%" PRId64 ".%s", c->facts.layers - 1,
                       last[k]);
        if (strcmp(name, wanted) == 0) return (int)c->facts.layers;
    }
    return -1;
}

static int is_state(void *user, const char *name) { return state_of(user, name) >= 0; }

static ota_status keep_state(void *user, const ota_capture *capture, ota_error *error) {
    (void)error;
    checkpoint *c = user;
    const int64_t size = c->count * c->facts.width;
    memcpy(c->states + state_of(c, capture->name) * size, capture->data,
           (size_t)size * sizeof(float));
    return OTA_OK;
}

bool statement_run_checkpoint(trial *t, checkpoint *c) {
    const int64_t size = c->count * c->facts.width;
    c->states = take(t, (size_t)((c->facts.layers + 1) * size) * sizeof(float));
    c->final = take(t, (size_t)size * sizeof(float));
    const ota_model_run run = {.size = sizeof run,
                               .ids = c->ids,
                               .batch = 1,
                               .count = c->count,
                               .states = c->final,
                               .wanted = is_state,
                               .capture = keep_state,
                               .user = c};
    return ota_session_run(c->session, &run, NULL) == OTA_OK;
}

float *statement_probe_checkpoint(trial *t, checkpoint *c, bool normalise) {
    const int64_t rows = (c->facts.layers + 1) * c->count;
    float *inputs = take(t, (size_t)(rows * c->facts.width) * sizeof(float));
    float *logits = take(t, (size_t)(rows * c->facts.vocabulary) * sizeof(float));
    const bool changed =
        normalise && ota_session_probe_inputs(c->session, c->states, rows, inputs) != 0;
    ota_session_probe(c->session, changed ? inputs : c->states, rows, logits);
    return logits;
}

double *statement_widened(trial *t, const float *x, int64_t count) {
    double *y = numbers(t, count);
    for (int64_t k = 0; k < count; k++) y[k] = (double)x[k];
    return y;
}
