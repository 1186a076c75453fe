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
    const bool null = name != NULL && value == NULL && json_object_get(r->tree, name) != NULL;
    switch (key->kind) {
    case OTA_KEY_TRUTH: return read_truth(r, name, value, field);
    case OTA_KEY_NOT: {
        bool contrary = !*(const bool *)field;
        const ota_status status = read_truth(r, name, value, &contrary);
        *(bool *)field = !contrary;
        return status;
    }
    case OTA_KEY_REAL_OR_NULL:
        if (null) *(double *)field = 0;
        return read_number(r, name, value, field);
    case OTA_KEY_REAL: return read_number(r, name, value, field);
    case OTA_KEY_INTEGER_OR_NULL:
        if (null) *(int64_t *)field = 0;
        return value == NULL ? OTA_OK : read_integer(r, name, value, key, field);
    case OTA_KEY_INTEGER: break;
    }
    if (null && key->standard > 0) return refuse_key(r, name, "must be an exact integer");
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
    const json_t *value = key != NULL ? value_of(r, key) : NULL;
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

/* T5's word for its MLP; its gelu is the formula with tanh where it is gated. */
static ota_status read_projection(reader *r, ota_config *config) {
    static const struct {
        const char *word;
        ota_activation activation;
        bool gated;
    } words[] = {{"relu", OTA_RELU, false},
                 {"gelu", OTA_GELU, false},
                 {"gated-gelu", OTA_GELU_TANH, true},
                 {"gated-silu", OTA_SILU, true}};
    const json_t *value = value_of(r, "feed_forward_proj");
    if (value == NULL) return OTA_OK;
    for (size_t k = 0; json_is_string(value) && k < sizeof words / sizeof *words; k++) {
        if (strcmp(json_string_value(value), words[k].word) != 0) continue;
        config->activation = words[k].activation;
        config->matrices.gated = words[k].gated;
        return OTA_OK;
    }
    return refuse_key(r, "feed_forward_proj", "must be relu, gelu, gated-gelu or gated-silu");
}

static ota_status read_packing(reader *r, ota_config *config) {
    const json_t *object = value_of(r, "quantization_config");
    if (object == NULL) return OTA_OK;
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    config->experts.packed = method != NULL && strcmp(method, "mxfp4") == 0;
    if (config->experts.packed) return OTA_OK;
    (void)ota_refuse_at(r->error, r->path, 0,
                        "\"quantization_config\" has a quant_method other than mxfp4");
    return ota_advise(r->error, OTA_UNSUPPORTED, "convert the file to a type that is read");
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

/* Numbers of a scaling, and the kinds that read them. */
enum {
    OF_LINEAR = 1 << OTA_ROPE_LINEAR,
    OF_LLAMA3 = 1 << OTA_ROPE_LLAMA3,
    OF_YARN = 1 << OTA_ROPE_YARN,
    OF_LONG = 1 << OTA_ROPE_LONG
};

static const struct {
    const char *key;
    size_t offset; /* in ota_rope_scaling */
    unsigned kinds;
} scaling_numbers[] = {
    {"factor", offsetof(ota_rope_scaling, factor), OF_LINEAR | OF_LLAMA3 | OF_YARN | OF_LONG},
    {"low_freq_factor", offsetof(ota_rope_scaling, low), OF_LLAMA3},
    {"high_freq_factor", offsetof(ota_rope_scaling, high), OF_LLAMA3},
    {"beta_slow", offsetof(ota_rope_scaling, low), OF_YARN},
    {"beta_fast", offsetof(ota_rope_scaling, high), OF_YARN},
    {"attention_factor", offsetof(ota_rope_scaling, attention), OF_YARN | OF_LONG},
    {"mscale", offsetof(ota_rope_scaling, scale), OF_YARN},
    {"mscale_all_dim", offsetof(ota_rope_scaling, scale_all), OF_YARN},
};

/* A number that the kind is not stretched by must be none or 1. */
static ota_status read_scaling_numbers(reader *r, const char *object, ota_rope_scaling *scaling) {
    for (size_t k = 0; k < sizeof scaling_numbers / sizeof *scaling_numbers; k++) {
        const char *key = scaling_numbers[k].key;
        double number = 0;
        const ota_status status = read_real(r, key, &number);
        if (status != OTA_OK) return status;
        if ((scaling_numbers[k].kinds >> scaling->kind & 1) != 0) {
            if (value_of(r, key) != NULL)
                *(double *)((char *)scaling + scaling_numbers[k].offset) = number;
            continue;
        }
        if (number == 0 || number == 1) continue;
        (void)ota_refuse_at(r->error, r->path, 0, "\"%s\" in %s has no effect with this rope_type",
                            key, object);
        return ota_advise(r->error, OTA_UNSUPPORTED,
                          "name the type of scaling (linear, llama3, yarn, longrope), or take the "
                          "number out");
    }
    return OTA_OK;
}

static ota_status read_divisors(reader *r, const char *key, int64_t *count, float *out) {
    const json_t *list = value_of(r, key);
    if (!json_is_array(list) || json_array_size(list) > OTA_PAIRS_MOST)
        return refuse_key(r, key, "must be a list of numbers, one a pair of a head's numbers");
    *count = (int64_t)json_array_size(list);
    for (int64_t k = 0; k < *count; k++) {
        const json_t *one = json_array_get(list, (size_t)k);
        if (!json_is_number(one) || !(json_number_value(one) > 0))
            return refuse_key(r, key, "must be a list of numbers above 0");
        out[k] = (float)json_number_value(one);
    }
    return OTA_OK;
}

static ota_status read_two_lists(reader *r, ota_rope_scaling *scaling) {
    int64_t longer;
    ota_status status = read_divisors(r, "short_factor", &scaling->divisors, scaling->shorter);
    if (status == OTA_OK) status = read_divisors(r, "long_factor", &longer, scaling->longer);
    if (status != OTA_OK || longer == scaling->divisors) return status;
    return refuse_key(r, "long_factor", "has another length than short_factor");
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
    return ota_advise(r->error, OTA_UNSUPPORTED,
                      "default, linear, llama3, yarn and longrope are carried out");
}

/* `scaling->original` holds what stands for it where the object has none. */
static ota_status read_scaling(reader *r, const char *object, ota_rope_scaling *scaling) {
    ota_status status = read_type(r, object, scaling);
    if (scaling->kind == OTA_ROPE_YARN) {
        scaling->low = 1;
        scaling->high = 32;
        scaling->whole = true;
        if (status == OTA_OK)
            status = read_truth(r, "truncate", value_of(r, "truncate"), &scaling->whole);
    }
    if (status == OTA_OK && scaling->kind == OTA_ROPE_LONG) status = read_two_lists(r, scaling);
    if (status == OTA_OK) status = read_scaling_numbers(r, object, scaling);
    if (status == OTA_OK)
        status = read_real(r, "original_max_position_embeddings", &scaling->original);
    const char *fault = status == OTA_OK ? ota_rope_fault(scaling) : NULL;
    return fault != NULL ? refuse_key(r, object, fault) : status;
}

typedef struct rope_target {
    ota_rope_scaling *scaling;
    double *base, *share;
} rope_target;

static ota_status read_rope_object(reader *r, const char *name,
                                   const ota_architecture *architecture, rope_target to) {
    const json_t *object = value_of(r, name);
    if (object == NULL) return OTA_OK;
    if (!json_is_object(object)) return refuse_key(r, name, "must be an object");
    reader inner = {.path = r->path, .tree = object, .error = r->error};
    ota_status status = read_scaling(&inner, name, to.scaling);
    if (status == OTA_OK) status = read_real(&inner, "rope_theta", to.base);
    if (status == OTA_OK && ota_architecture_has(architecture, OTA_ARCH_PARTIAL))
        status = read_real(&inner, "partial_rotary_factor", to.share);
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
    ota_status status = read_rope_object(
        &inner, "full_attention", architecture,
        (rope_target){&config->rope.scaling, &config->rope.base, &config->rope.share});
    if (status == OTA_OK)
        status =
            read_rope_object(&inner, "sliding_attention", architecture,
                             (rope_target){&local, &config->rope.local_base, &config->rope.share});
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
    if (config->rope.scaling.original == 0)
        config->rope.scaling.original = (double)config->sizes[OTA_SIZE_POSITIONS];
    const rope_target all = {&config->rope.scaling, &config->rope.base, &config->rope.share};
    const ota_status status = read_rope_object(r, "rope_scaling", architecture, all);
    if (status != OTA_OK) return status;
    return ota_architecture_has(architecture, OTA_ARCH_TWO_ROPES)
               ? read_two_ropes(r, architecture, config)
               : read_rope_object(r, "rope_parameters", architecture, all);
}

/* One word of a list of the layers' kinds. */
static ota_status read_layer_type(const reader *r, const char *key, const char *word, bool local,
                                  bool *out) {
    const bool full =
        word != NULL && (strcmp(word, "full_attention") == 0 || strcmp(word, "global") == 0);
    *out = local && word != NULL &&
           (strcmp(word, "sliding_attention") == 0 || strcmp(word, "local") == 0);
    if (*out || full) return OTA_OK;
    return refuse_key(r, key,
                      local ? "must hold sliding_attention or full_attention"
                            : "must hold full_attention alone");
}

/* The list of the layers' kinds, where there is one, comes before the period. */
static ota_status read_layer_types(reader *r, const char *key, bool local, ota_config *config) {
    const json_t *types = value_of(r, key);
    if (types == NULL) return OTA_OK;
    if (!json_is_array(types) || json_array_size(types) != (size_t)config->layers)
        return refuse_key(r, key, "must be a list of one word a layer");
    config->local_period = 0;
    for (int64_t k = 0; k < config->layers; k++) {
        const char *word = json_string_value(json_array_get(types, (size_t)k));
        const ota_status status = read_layer_type(r, key, word, local, &config->local[k]);
        if (status != OTA_OK) return status;
        if (config->local[k] && (!config->windowed || config->window == 0))
            return refuse_key(r, key, "names local layers, and no window is given");
    }
    return OTA_OK;
}

/* [[[word, ...], times], ...], which stands for the same list. */
static ota_status read_layer_patterns(reader *r, const char *key, ota_config *config) {
    static const char rule[] = "must be a list of [[words], times], one word a layer in the end";
    const json_t *patterns = value_of(r, key), *pattern;
    int64_t layer = 0;
    size_t at, index;
    if (patterns == NULL || config->local_period == 0) return OTA_OK;
    if (!json_is_array(patterns)) return refuse_key(r, key, rule);
    json_array_foreach((json_t *)(uintptr_t)patterns, at, pattern) {
        const json_t *words = json_array_get(pattern, 0), *word;
        const int64_t times = json_integer_value(json_array_get(pattern, 1));
        if (!json_is_array(words) || times < 1 || times > config->layers)
            return refuse_key(r, key, rule);
        for (int64_t time = 0; time < times; time++) {
            json_array_foreach((json_t *)(uintptr_t)words, index, word) {
                if (layer == config->layers) return refuse_key(r, key, rule);
                const ota_status status =
                    read_layer_type(r, key, json_string_value(word), true, &config->local[layer++]);
                if (status != OTA_OK) return status;
            }
        }
    }
    config->local_period = 0;
    return layer == config->layers ? OTA_OK : refuse_key(r, key, rule);
}

/* 1 of each layer that has rotary positions; comes before the period. */
static ota_status read_spared(reader *r, ota_config *config) {
    const json_t *list = value_of(r, "no_rope_layers");
    if (list == NULL) return OTA_OK;
    if (!json_is_array(list) || json_array_size(list) != (size_t)config->layers)
        return refuse_key(r, "no_rope_layers", "must be a list of 0 or 1 a layer");
    config->rope.spared_period = 0;
    for (int64_t k = 0; k < config->layers; k++) {
        const json_t *one = json_array_get(list, (size_t)k);
        if (!json_is_integer(one)) return refuse_key(r, "no_rope_layers", "must hold 0 or 1");
        config->rope.spared[k] = json_integer_value(one) == 0;
    }
    return OTA_OK;
}

/* ---- the whole ---- */

static ota_status find_architecture(reader *r, const ota_architecture **out) {
    const json_t *type = value_of(r, "model_type");
    if (!json_is_string(type)) return refuse_key(r, "model_type", "must name the architecture");
    *out = ota_architecture_named(json_string_value(type), false);
    if (*out != NULL) return OTA_OK;
    char known[512];
    ota_architecture_list(false, known, sizeof known);
    (void)ota_refuse_at(r->error, r->path, 0,
                        "\"model_type\": the architecture \"%.40s\" is not known",
                        json_string_value(type));
    return ota_advise(r->error, OTA_UNSUPPORTED, "%s checkpoints can be read", known);
}

/* Folders of models that see images as well have the settings of the text in an object of their own, and leave out what
 * the class says. */
static ota_status enter_text(reader *r) {
    const json_t *type = json_object_get(r->tree, "model_type");
    const json_t *text = json_object_get(r->tree, "text_config");
    if (!json_is_string(type) || ota_architecture_inside(json_string_value(type)) == NULL)
        return OTA_OK;
    if (!json_is_object(text)) return refuse_key(r, "text_config", "must be an object");
    r->tree = text;
    return OTA_OK;
}

/* Around the text's settings: whether the head is tied, whatever they say of it, and images. */
static ota_status leave_text(reader *r, const ota_architecture *architecture, bool *tied) {
    (void)value_of(r, "text_config");
    (void)value_of(r, "vision_config");
    (void)value_of(r, "model_type");
    const ota_status status =
        read_truth(r, "tie_word_embeddings", value_of(r, "tie_word_embeddings"), tied);
    return status == OTA_OK ? refuse_rest(r, architecture, NULL) : status;
}

static ota_status read_tree(reader *r, const ota_architecture **architecture, ota_config *config) {
    bool tied = true;
    reader outer = *r;
    ota_status status = enter_text(r);
    if (status == OTA_OK) status = find_architecture(r, architecture);
    if (status == OTA_OK && r->tree != outer.tree)
        status = leave_text(&outer, *architecture, &tied);
    if (status != OTA_OK) return status;
    const ota_architecture *row = *architecture;
    const ota_config_key *key;
    for (int i = 0; status == OTA_OK && (key = ota_architecture_key(row, i)) != NULL; i++)
        status = read_key(r, key, config);
    if (r->tree != outer.tree) config->tied = tied;
    config->activation = row->activation;
    if (status == OTA_OK) status = read_activation(r, row->activation_key, &config->activation);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_PACKED))
        status = read_packing(r, config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_PROJECTION))
        status = read_projection(r, config);
    config->head_activation =
        ota_architecture_has(row, OTA_ARCH_GELU_HEAD) ? OTA_GELU : config->activation;
    if (status == OTA_OK && row->head_activation_key != NULL) {
        config->head_activation = OTA_GELU;
        status = read_activation(r, row->head_activation_key, &config->head_activation);
    }
    if (ota_architecture_has(row, OTA_ARCH_GELU_IS_TANH) && config->activation == OTA_GELU)
        config->activation = OTA_GELU_TANH;
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_ROTARY))
        status = read_rope(r, row, config);
    if (status == OTA_OK)
        status = read_layer_types(r, "layer_types", ota_architecture_has(row, OTA_ARCH_LAYER_TYPES),
                                  config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_LAYER_PATTERNS))
        status = read_layer_types(r, "attention_layers", true, config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_LAYER_PATTERNS))
        status = read_layer_patterns(r, "attention_types", config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_SPARED))
        status = read_spared(r, config);
    return status == OTA_OK ? refuse_rest(r, row, NULL) : status;
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
    if (status == OTA_OK && ota_architecture_has(*architecture, OTA_ARCH_GROUPS_MERGED))
        config->matrices.merged_by_group = true;
    if (status == OTA_OK) status = ota_config_finish(*architecture, config, path, error);
    return status;
}
