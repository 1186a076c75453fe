/* config.json -> ota_config, by the table of architectures; and strict reading of JSON files. */
#include "base/base.h"
#include "config.h"
#include "json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 64 };

/* ---- JSON ---- */

static bool too_deep(const json_t *tree, int depth) {
    const char *key;
    json_t *value;
    size_t index;
    if (depth > DEPTH_MOST) return true;
    if (json_is_object(tree)) {
        json_object_foreach((json_t *)(uintptr_t)tree, key, value) {
            if (too_deep(value, depth + 1)) return true;
        }
    } else if (json_is_array(tree)) {
        json_array_foreach(tree, index, value) {
            if (too_deep(value, depth + 1)) return true;
        }
    }
    return false;
}

ota_status ota_json_file(const char *path, bool trusted, int64_t most, json_t **tree,
                         ota_error *error) {
    char *text;
    size_t size;
    *tree = NULL;
    ota_status status = ota_file_text(path, trusted, most, &text, &size, error);
    if (status != OTA_OK) return status;
    json_error_t cause;
    bool no_memory;
    *tree = ota_json_text(text, size, JSON_REJECT_DUPLICATES, &cause, &no_memory);
    free(text);
    if (no_memory)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for %s", ota_path_end(path));
    if (*tree == NULL)
        return ota_refuse_at(error, path, cause.position > 0 ? cause.position : 0,
                             "not valid JSON: %.120s", cause.text);
    if (!json_is_object(*tree))
        status = ota_refuse_at(error, path, 0, "the file must hold a JSON object");
    else if (too_deep(*tree, 1))
        status = ota_refuse_at(error, path, 0, "the JSON is nested more than 64 deep");
    if (status != OTA_OK) {
        json_decref(*tree);
        *tree = NULL;
    }
    return status;
}

/* ---- single keys ---- */

enum { KEYS_MOST = 64 };

/* An object of the file, and which of its keys were asked for. */
typedef struct reader {
    const char *path;
    const json_t *tree;
    const char *read[KEYS_MOST];
    int count;
    ota_error *error;
} reader;

static ota_status refuse_key(const reader *r, const char *key, const char *rule) {
    return ota_refuse_at(r->error, r->path, 0, "\"%s\": %s", key, rule);
}

static bool was_read(const reader *r, const char *key) {
    for (int k = 0; k < r->count; k++)
        if (strcmp(r->read[k], key) == 0) return true;
    return false;
}

/* NULL where the key is missing or null. */
static const json_t *value_of(reader *r, const char *key) {
    const json_t *value = json_object_get(r->tree, key);
    if (!was_read(r, key) && r->count < KEYS_MOST) r->read[r->count++] = key;
    return value == NULL || json_is_null(value) ? NULL : value;
}

static ota_status read_integer(const reader *r, const char *name, const json_t *value,
                               const ota_config_key *key, int64_t *field) {
    if (!json_is_integer(value)) return refuse_key(r, name, "must be an exact integer");
    *field = json_integer_value(value);
    if (*field < (int64_t)key->least || *field > (int64_t)key->most)
        return ota_refuse_at(r->error, r->path, 0, "\"%s\" is %lld, outside %lld to %lld", name,
                             (long long)*field, (long long)key->least, (long long)key->most);
    return OTA_OK;
}

static ota_status read_truth(reader *r, const char *key, const json_t *value, bool *out) {
    if (value == NULL) return OTA_OK;
    if (!json_is_boolean(value)) return refuse_key(r, key, "must be true or false");
    *out = json_is_true(value);
    return OTA_OK;
}

static ota_status read_number(reader *r, const char *key, const json_t *value, double *out) {
    if (value == NULL) return OTA_OK;
    if (!json_is_number(value)) return refuse_key(r, key, "must be a number");
    *out = json_number_value(value);
    return OTA_OK;
}

static ota_status read_real(reader *r, const char *key, double *out) {
    return read_number(r, key, value_of(r, key), out);
}

/* null holds as a missing key only where transformers takes it: there is no number to stand for it. */
static ota_status read_key(reader *r, const ota_config_key *key, ota_config *config) {
    const char *name = key->hub;
    const json_t *value = name != NULL ? value_of(r, name) : NULL;
    const json_t *other = key->other != NULL ? value_of(r, key->other) : NULL;
    if (other != NULL) {
        name = key->other;
        value = other;
    }
    if (name != NULL && value == NULL && key->standard == OTA_REQUIRED)
        return refuse_key(r, name, "is missing");
    ota_config_set(config, key, key->standard);
    void *field = (char *)config + key->offset;
    if (key->kind == OTA_KEY_TRUTH) return read_truth(r, name, value, field);
    if (key->kind == OTA_KEY_REAL) return read_number(r, name, value, field);
    if (value == NULL && key->standard > 0 && name != NULL &&
        json_object_get(r->tree, name) != NULL)
        return refuse_key(r, name, "must be an exact integer");
    return value == NULL ? OTA_OK : read_integer(r, name, value, key, field);
}

static ota_status read_activation(reader *r, const char *key, ota_activation *out) {
    static const struct {
        const char *word;
        ota_activation activation;
    } words[] = {
        {"gelu", OTA_GELU},
        {"gelu_python", OTA_GELU},
        {"gelu_new", OTA_GELU_TANH},
        {"gelu_fast", OTA_GELU_TANH},
        {"gelu_accurate", OTA_GELU_TANH},
        {"gelu_python_tanh", OTA_GELU_TANH},
        {"gelu_pytorch_tanh", OTA_GELU_TANH},
        {"relu", OTA_RELU},
        {"silu", OTA_SILU},
        {"swish", OTA_SILU},
        {"tanh", OTA_TANH},
    };
    const json_t *value = value_of(r, key);
    if (value == NULL) return OTA_OK;
    if (!json_is_string(value)) return refuse_key(r, key, "must be a word");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].word, json_string_value(value)) == 0) {
            *out = words[i].activation;
            return OTA_OK;
        }
    }
    ota_refuse_at(r->error, r->path, 0, "\"%s\": the activation \"%.40s\" is not known", key,
                  json_string_value(value));
    return OTA_UNSUPPORTED;
}

/* ---- what nothing read ---- */

/* A number to 15 digits, whatever way it is written, and anything else as compact JSON, cut to what a sentence takes. */
static void show_value(const json_t *value, char *text, size_t size) {
    if (json_is_number(value)) {
        (void)ota_snprintf(text, size, "%.15g", json_number_value(value));
        return;
    }
    char *whole = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    (void)ota_snprintf(text, size, "%s", whole != NULL ? whole : "?");
    free(whole);
}

/* Every key of the object was read, is null, or is a row of ignored.c; `inside` names the rotary object, or is NULL. */
static ota_status refuse_rest(const reader *r, const ota_architecture *architecture,
                              const char *inside) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->tree, key, value) {
        if (was_read(r, key) || json_is_null(value)) continue;
        const ota_ignored *row = ota_ignored_find(
            inside != NULL ? OTA_IGNORED_ROPE : OTA_IGNORED_CONFIG, architecture, key);
        char text[64];
        show_value(value, text, sizeof text);
        if (row != NULL && ota_ignored_takes(row, text)) continue;
        if (row != NULL) {
            (void)ota_refuse_at(r->error, r->path, 0,
                                "\"%.80s\" is %s, and such models are not run", key, text);
            return ota_advise(r->error, OTA_UNSUPPORTED, "%s is the value that is", row->values);
        }
        (void)ota_refuse_at(
            r->error, r->path, 0, "\"%.80s\"%s%s is no key that %s checkpoints have", key,
            inside != NULL ? " in " : "", inside != NULL ? inside : "", architecture->name);
        return ota_advise(r->error, OTA_UNSUPPORTED,
                          "take it out of the file if the model does not depend on it");
    }
    return OTA_OK;
}

/* ---- rotary positions ---- */

/* Of a scaling that is not stretched by them, the numbers must be none or 1. */
static ota_status refuse_unused(const reader *r, const ota_rope_scaling *scaling,
                                const char *object) {
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"factor", scaling->factor},
                   {"low_freq_factor", scaling->low},
                   {"high_freq_factor", scaling->high}};
    for (int k = scaling->kind == OTA_ROPE_PLAIN ? 0 : 1; k < 3; k++) {
        if (scaling->kind == OTA_ROPE_LLAMA3 || numbers[k].value == 0 || numbers[k].value == 1)
            continue;
        (void)ota_refuse_at(r->error, r->path, 0, "\"%s\" in %s has no effect with this rope_type",
                            numbers[k].key, object);
        return ota_advise(r->error, OTA_UNSUPPORTED,
                          "name the type of scaling (linear, llama3), or take the number out");
    }
    return OTA_OK;
}

static ota_status read_type(reader *r, const char *object, ota_rope_scaling *scaling) {
    const json_t *type = value_of(r, "rope_type"), *older = value_of(r, "type");
    if (type != NULL && older != NULL && !json_equal(type, older))
        return refuse_key(r, object, "\"rope_type\" and \"type\" differ");
    if (type == NULL) type = older;
    if (type == NULL) return OTA_OK;
    if (!json_is_string(type)) return refuse_key(r, object, "the type must be a word");
    if (ota_rope_named(json_string_value(type), &scaling->kind)) return OTA_OK;
    (void)ota_refuse_at(r->error, r->path, 0,
                        "\"%s\": rotary positions of type \"%.40s\" are not known", object,
                        json_string_value(type));
    return ota_advise(r->error, OTA_UNSUPPORTED, "default, linear and llama3 are carried out");
}

/* `scaling->original` holds what stands for it where the object has none. */
static ota_status read_scaling(reader *r, const char *object, ota_rope_scaling *scaling) {
    ota_status status = read_type(r, object, scaling);
    if (status == OTA_OK) status = read_real(r, "factor", &scaling->factor);
    if (status == OTA_OK) status = read_real(r, "low_freq_factor", &scaling->low);
    if (status == OTA_OK) status = read_real(r, "high_freq_factor", &scaling->high);
    if (status == OTA_OK)
        status = read_real(r, "original_max_position_embeddings", &scaling->original);
    if (status == OTA_OK) status = refuse_unused(r, scaling, object);
    const char *fault = status == OTA_OK ? ota_rope_fault(scaling) : NULL;
    return fault != NULL ? refuse_key(r, object, fault) : status;
}

typedef struct rope_target {
    ota_rope_scaling *scaling;
    double *base;
} rope_target;

static ota_status read_rope_object(reader *r, const char *name,
                                   const ota_architecture *architecture, rope_target to) {
    const json_t *object = value_of(r, name);
    if (object == NULL) return OTA_OK;
    if (!json_is_object(object)) return refuse_key(r, name, "must be an object");
    reader inner = {.path = r->path, .tree = object, .error = r->error};
    ota_status status = read_scaling(&inner, name, to.scaling);
    if (status == OTA_OK) status = read_real(&inner, "rope_theta", to.base);
    return status == OTA_OK ? refuse_rest(&inner, architecture, name) : status;
}

/* Of local layers and the others, which have settings of their own. */
static ota_status read_two_ropes(reader *r, const ota_architecture *architecture,
                                 ota_config *config) {
    const json_t *object = value_of(r, "rope_parameters");
    if (object == NULL) return OTA_OK;
    if (!json_is_object(object)) return refuse_key(r, "rope_parameters", "must be an object");
    reader inner = {.path = r->path, .tree = object, .error = r->error};
    ota_rope_scaling local = {.original = config->rope.scaling.original};
    ota_status status = read_rope_object(&inner, "full_attention", architecture,
                                         (rope_target){&config->rope.scaling, &config->rope.base});
    if (status == OTA_OK)
        status = read_rope_object(&inner, "sliding_attention", architecture,
                                  (rope_target){&local, &config->rope.local_base});
    if (status == OTA_OK) status = refuse_rest(&inner, architecture, "rope_parameters");
    if (status != OTA_OK || local.kind == OTA_ROPE_PLAIN) return status;
    (void)refuse_key(r, "sliding_attention", "rotary positions of local layers are not scaled");
    return OTA_UNSUPPORTED;
}

static bool holds_any(const json_t *object) {
    return object != NULL && (!json_is_object(object) || json_object_size(object) > 0);
}

/* Rotary settings stand at the top in older files and in an object of their own in newer ones. */
static ota_status read_rope(reader *r, const ota_architecture *architecture, ota_config *config) {
    const json_t *newer = value_of(r, "rope_parameters"), *older = value_of(r, "rope_scaling");
    if (holds_any(newer) && holds_any(older) && !json_equal(newer, older))
        return refuse_key(r, "rope_scaling", "differs from \"rope_parameters\" beside it");
    config->rope.scaling.original = (double)config->sizes[OTA_SIZE_POSITIONS];
    const rope_target all = {&config->rope.scaling, &config->rope.base};
    const ota_status status = read_rope_object(r, "rope_scaling", architecture, all);
    if (status != OTA_OK) return status;
    return ota_architecture_has(architecture, OTA_ARCH_LOCAL)
               ? read_two_ropes(r, architecture, config)
               : read_rope_object(r, "rope_parameters", architecture, all);
}

/* The list of the layers' kinds, where there is one, comes before the period. */
static ota_status read_layer_types(reader *r, bool local, ota_config *config) {
    const json_t *types = value_of(r, "layer_types");
    if (types == NULL) return OTA_OK;
    if (!json_is_array(types) || json_array_size(types) != (size_t)config->layers)
        return refuse_key(r, "layer_types", "must be a list of one word a layer");
    config->local_period = 0;
    for (int64_t k = 0; k < config->layers; k++) {
        const char *word = json_string_value(json_array_get(types, (size_t)k));
        config->local[k] = local && word != NULL && strcmp(word, "sliding_attention") == 0;
        if (!config->local[k] && (word == NULL || strcmp(word, "full_attention") != 0))
            return refuse_key(r, "layer_types",
                              local ? "must hold sliding_attention or full_attention"
                                    : "must hold full_attention alone");
    }
    return OTA_OK;
}

/* ---- the whole ---- */

static ota_status find_architecture(reader *r, const ota_architecture **out) {
    const json_t *type = value_of(r, "model_type");
    if (!json_is_string(type)) return refuse_key(r, "model_type", "must name the architecture");
    *out = ota_architecture_named(json_string_value(type), false);
    if (*out != NULL) return OTA_OK;
    (void)ota_refuse_at(r->error, r->path, 0,
                        "\"model_type\": the architecture \"%.40s\" is not known",
                        json_string_value(type));
    return ota_advise(r->error, OTA_UNSUPPORTED,
                      "gpt2, bert, llama and gemma3_text checkpoints can be read");
}

static ota_status read_tree(reader *r, const ota_architecture **architecture, ota_config *config) {
    ota_status status = find_architecture(r, architecture);
    if (status != OTA_OK) return status;
    const ota_architecture *row = *architecture;
    for (int i = 0; status == OTA_OK && i < row->key_count; i++)
        status = read_key(r, &row->keys[i], config);
    config->activation = row->activation;
    if (status == OTA_OK) status = read_activation(r, row->activation_key, &config->activation);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_ROTARY))
        status = read_rope(r, row, config);
    if (status == OTA_OK)
        status = read_layer_types(r, ota_architecture_has(row, OTA_ARCH_LOCAL), config);
    return status == OTA_OK ? refuse_rest(r, row, NULL) : status;
}

void ota_config_set(ota_config *config, const ota_config_key *key, double value) {
    void *field = (char *)config + key->offset;
    if (key->kind == OTA_KEY_INTEGER)
        *(int64_t *)field = (int64_t)value;
    else if (key->kind == OTA_KEY_REAL)
        *(double *)field = value;
    else
        *(bool *)field = value != 0;
}

ota_status ota_config_finish(const ota_architecture *architecture, ota_config *config,
                             const char *path, ota_error *error) {
    int64_t *sizes = config->sizes;
    const int64_t width = sizes[OTA_SIZE_WIDTH];
    if (config->kv_heads == 0) config->kv_heads = config->heads;
    if (config->head_width == 0) config->head_width = config->rotary_width;
    if (config->head_width == 0) {
        if (width % config->heads != 0)
            return ota_refuse_at(error, path, 0, "the width %lld is no multiple of %lld heads",
                                 (long long)width, (long long)config->heads);
        config->head_width = width / config->heads;
    }
    if (config->heads % config->kv_heads != 0)
        return ota_refuse_at(error, path, 0, "%lld heads are no multiple of %lld key heads",
                             (long long)config->heads, (long long)config->kv_heads);
    if (config->words != 0 && config->words != sizes[OTA_SIZE_VOCABULARY])
        return ota_refuse_at(error, path, 0, "%lld words and an embedding of %lld rows differ",
                             (long long)config->words, (long long)sizes[OTA_SIZE_VOCABULARY]);
    if (config->value_width != 0 && config->value_width != config->head_width)
        return ota_refuse_at(error, path, 0,
                             "values of %lld numbers and keys of %lld are not run together",
                             (long long)config->value_width, (long long)config->head_width);
    if (config->rotary_width != 0 && config->rotary_width != config->head_width)
        return ota_refuse_at(error, path, 0,
                             "%lld of %lld numbers of a head are rotated; only all of them are run",
                             (long long)config->rotary_width, (long long)config->head_width);
    for (int64_t k = 0; config->local_period > 0 && k < config->layers; k++)
        config->local[k] = (k + 1) % config->local_period != 0;
    if (ota_architecture_has(architecture, OTA_ARCH_ROTARY) &&
        (config->head_width % 2 != 0 || !(config->rope.base > 1) || config->rope.base > 1e12 ||
         !(config->rope.local_base > 1) || config->rope.local_base > 1e12))
        return ota_refuse_at(error, path, 0,
                             "rotary positions need an even head width and a base above 1");
    if (!(config->norm_epsilon > 0) || !(config->norm_epsilon < 1))
        return ota_refuse_at(error, path, 0, "the norm's epsilon must lie between 0 and 1");
    if (sizes[OTA_SIZE_INNER] == 0) sizes[OTA_SIZE_INNER] = 4 * width;
    sizes[OTA_SIZE_QUERY] = config->heads * config->head_width;
    sizes[OTA_SIZE_KEY] = config->kv_heads * config->head_width;
    sizes[OTA_SIZE_HEAD] = config->head_width;
    sizes[OTA_SIZE_PAIRS] = config->head_width / 2;
    sizes[OTA_SIZE_MERGED] = sizes[OTA_SIZE_QUERY] + 2 * sizes[OTA_SIZE_KEY];
    return OTA_OK;
}

double ota_config_scale(const ota_config *config, int64_t layer) {
    const int64_t divisor = config->query_scalar > 0 ? config->query_scalar : config->head_width;
    const double scale = config->scores.scaled ? 1.0 / __builtin_sqrt((double)divisor) : 1.0;
    return config->scores.scaled_by_layer ? scale / (double)(layer + 1) : scale;
}

ota_status ota_config_read(const char *path, const ota_architecture **architecture,
                           ota_config *config, ota_error *error) {
    json_t *tree;
    ota_status status = ota_json_file(path, true, OTA_CONFIG_BYTES, &tree, error);
    if (status != OTA_OK) return status;
    reader r = {.path = path, .tree = tree, .error = error};
    *config = (ota_config){0};
    status = read_tree(&r, architecture, config);
    json_decref(tree);
    if (status == OTA_OK) status = ota_config_finish(*architecture, config, path, error);
    return status;
}
