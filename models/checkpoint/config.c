/* config.json -> ota_config, by the table of architectures; and strict reading of JSON files. */
#include "config.h"
#include "json_text.h"

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

typedef struct reader {
    const char *path;
    const json_t *tree;
    ota_error *error;
} reader;

static ota_status refuse_key(const reader *r, const char *key, const char *rule) {
    return ota_refuse_at(r->error, r->path, 0, "\"%s\": %s", key, rule);
}

static const json_t *value_of(const reader *r, const char *key) {
    const json_t *value = json_object_get(r->tree, key);
    return value == NULL || json_is_null(value) ? NULL : value;
}

static ota_status read_size(const reader *r, const ota_size_key *key, ota_config *config) {
    const json_t *value = value_of(r, key->hub);
    int64_t *field = (int64_t *)(void *)((char *)config + key->offset);
    if (value == NULL) {
        *field = key->standard;
        return key->standard >= 0 ? OTA_OK : refuse_key(r, key->hub, "is missing");
    }
    if (!json_is_integer(value)) return refuse_key(r, key->hub, "must be an exact integer");
    *field = json_integer_value(value);
    if (*field < key->least || *field > key->most)
        return ota_refuse_at(r->error, r->path, 0, "\"%s\" is %lld, outside %lld to %lld", key->hub,
                             (long long)*field, (long long)key->least, (long long)key->most);
    return OTA_OK;
}

static ota_status read_truth(const reader *r, const char *key, bool standard, bool *out) {
    const json_t *value = value_of(r, key);
    *out = standard;
    if (value == NULL) return OTA_OK;
    if (!json_is_boolean(value)) return refuse_key(r, key, "must be true or false");
    *out = json_is_true(value);
    return OTA_OK;
}

static ota_status read_real(const reader *r, const char *key, double *out) {
    const json_t *value = value_of(r, key);
    if (value == NULL) return OTA_OK;
    if (!json_is_number(value)) return refuse_key(r, key, "must be a number");
    *out = json_number_value(value);
    return OTA_OK;
}

static ota_status read_activation(const reader *r, const char *key, ota_activation *out) {
    static const struct {
        const char *word;
        ota_activation activation;
    } words[] = {
        {"gelu", OTA_GELU},
        {"gelu_python", OTA_GELU},
        {"gelu_new", OTA_GELU_TANH},
        {"gelu_fast", OTA_GELU_TANH},
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

static ota_status read_scaling(const reader *r, const char *object, ota_rope_scaling *scaling) {
    const json_t *type = value_of(r, "rope_type");
    if (type == NULL) type = value_of(r, "type");
    if (type == NULL) return OTA_OK;
    if (!json_is_string(type)) return refuse_key(r, object, "the type must be a word");
    if (!ota_rope_named(json_string_value(type), &scaling->kind)) {
        (void)ota_refuse_at(r->error, r->path, 0,
                            "\"%s\": rotary positions of type \"%.40s\" are not known", object,
                            json_string_value(type));
        return ota_advise(r->error, OTA_UNSUPPORTED, "default, linear and llama3 are carried out");
    }
    ota_status status = read_real(r, "factor", &scaling->factor);
    if (status == OTA_OK) status = read_real(r, "low_freq_factor", &scaling->low);
    if (status == OTA_OK) status = read_real(r, "high_freq_factor", &scaling->high);
    if (status == OTA_OK)
        status = read_real(r, "original_max_position_embeddings", &scaling->original);
    const char *fault = status == OTA_OK ? ota_rope_fault(scaling) : NULL;
    return fault != NULL ? refuse_key(r, object, fault) : status;
}

/* Of local layers and the others, where the two have settings of their own. */
static ota_status read_two_ropes(const reader *r, ota_config *config) {
    static const char *const names[] = {"full_attention", "sliding_attention"};
    double *const bases[] = {&config->rope_base, &config->local_rope_base};
    ota_rope_scaling scalings[2] = {config->rope, {.kind = OTA_ROPE_PLAIN}};
    ota_status status = OTA_OK;
    for (int k = 0; status == OTA_OK && k < 2; k++) {
        const json_t *object = value_of(r, names[k]);
        if (object == NULL) continue;
        if (!json_is_object(object)) return refuse_key(r, names[k], "must be an object");
        const reader inner = {.path = r->path, .tree = object, .error = r->error};
        status = read_scaling(&inner, names[k], &scalings[k]);
        if (status == OTA_OK) status = read_real(&inner, "rope_theta", bases[k]);
    }
    config->rope = scalings[0];
    if (status != OTA_OK || scalings[1].kind == OTA_ROPE_PLAIN) return status;
    (void)refuse_key(r, names[1], "rotary positions of local layers are not scaled");
    return OTA_UNSUPPORTED;
}

/* Rotary settings stand at the top in older files and in an object of their own in newer ones. */
static ota_status read_rope(const reader *r, bool local, ota_config *config) {
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    ota_status status = read_real(r, "rope_theta", &config->rope_base);
    if (status == OTA_OK && local)
        status = read_real(r, "rope_local_base_freq", &config->local_rope_base);
    for (size_t i = 0; status == OTA_OK && i < 2; i++) {
        const json_t *object = value_of(r, objects[i]);
        if (object == NULL) continue;
        if (!json_is_object(object)) return refuse_key(r, objects[i], "must be an object");
        const reader inner = {.path = r->path, .tree = object, .error = r->error};
        status = read_scaling(&inner, objects[i], &config->rope);
        if (status == OTA_OK) status = read_real(&inner, "rope_theta", &config->rope_base);
        if (status == OTA_OK && local) status = read_two_ropes(&inner, config);
    }
    return status;
}

/* The list of the layers' kinds, where there is one, comes before the period. */
static ota_status read_layer_types(const reader *r, ota_config *config) {
    const json_t *types = value_of(r, "layer_types");
    if (types == NULL) return OTA_OK;
    if (!json_is_array(types) || json_array_size(types) != (size_t)config->layers)
        return refuse_key(r, "layer_types", "must be a list of one word a layer");
    config->local_period = 0;
    for (int64_t k = 0; k < config->layers; k++) {
        const char *word = json_string_value(json_array_get(types, (size_t)k));
        config->local[k] = word != NULL && strcmp(word, "sliding_attention") == 0;
        if (!config->local[k] && (word == NULL || strcmp(word, "full_attention") != 0))
            return refuse_key(r, "layer_types", "must hold sliding_attention or full_attention");
    }
    return OTA_OK;
}

/* What would change the forward pass and is not carried out is refused, not passed over. */
static ota_status refuse_variants(const reader *r) {
    static const char *const never[] = {"add_cross_attention", "is_decoder", "use_sliding_window",
                                        "use_bidirectional_attention"};
    static const char *const absent[] = {"final_logit_softcapping", "attn_logit_softcapping"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        bool set;
        const ota_status status = read_truth(r, never[i], false, &set);
        if (status != OTA_OK) return status;
        if (set) {
            (void)refuse_key(r, never[i], "such models are not run");
            return OTA_UNSUPPORTED;
        }
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        if (value_of(r, absent[i]) == NULL) continue;
        (void)refuse_key(r, absent[i], "such models are not run");
        return OTA_UNSUPPORTED;
    }
    const json_t *positions = value_of(r, "position_embedding_type");
    if (positions != NULL &&
        (!json_is_string(positions) || strcmp(json_string_value(positions), "absolute") != 0)) {
        (void)refuse_key(r, "position_embedding_type", "only absolute positions are known");
        return OTA_UNSUPPORTED;
    }
    return OTA_OK;
}

/* ---- the whole ---- */

static ota_status find_architecture(const reader *r, const ota_architecture **out) {
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

static ota_status read_tree(const reader *r, const ota_architecture **architecture,
                            ota_config *config) {
    ota_status status = find_architecture(r, architecture);
    if (status != OTA_OK) return status;
    const ota_architecture *row = *architecture;
    for (int i = 0; status == OTA_OK && i < row->key_count; i++)
        status = read_size(r, &row->keys[i], config);
    config->activation = row->activation;
    config->norm_epsilon = row->rms ? 1e-6 : row->post_norm ? 1e-12 : 1e-5;
    config->rope_base = row->rope_base;
    config->local_rope_base = 10000;
    bool scaled = true;
    if (status == OTA_OK) status = refuse_variants(r);
    if (status == OTA_OK) status = read_real(r, row->epsilon_key, &config->norm_epsilon);
    if (status == OTA_OK) status = read_activation(r, row->activation_key, &config->activation);
    if (status == OTA_OK)
        status = read_truth(r, "tie_word_embeddings", row->tied_by_default, &config->tied);
    if (status == OTA_OK) status = read_truth(r, "scale_attn_weights", true, &scaled);
    if (status == OTA_OK)
        status = read_truth(r, "scale_attn_by_inverse_layer_idx", false, &config->scaled_by_layer);
    config->unscaled = !scaled;
    if (status == OTA_OK && row->rotary) status = read_rope(r, row->local, config);
    if (status == OTA_OK && row->local) status = read_layer_types(r, config);
    return status;
}

ota_status ota_config_finish(const ota_architecture *architecture, ota_config *config,
                             const char *path, ota_error *error) {
    int64_t *sizes = config->sizes;
    const int64_t width = sizes[OTA_SIZE_WIDTH];
    if (config->kv_heads == 0) config->kv_heads = config->heads;
    if (config->head_width == 0) {
        if (width % config->heads != 0)
            return ota_refuse_at(error, path, 0, "the width %lld is no multiple of %lld heads",
                                 (long long)width, (long long)config->heads);
        config->head_width = width / config->heads;
    }
    if (config->heads % config->kv_heads != 0)
        return ota_refuse_at(error, path, 0, "%lld heads are no multiple of %lld key heads",
                             (long long)config->heads, (long long)config->kv_heads);
    if (config->value_width != 0 && config->value_width != config->head_width)
        return ota_refuse_at(error, path, 0,
                             "values of %lld numbers and keys of %lld are not run together",
                             (long long)config->value_width, (long long)config->head_width);
    for (int64_t k = 0; config->local_period > 0 && k < config->layers; k++)
        config->local[k] = (k + 1) % config->local_period != 0;
    if (architecture->rotary &&
        (config->head_width % 2 != 0 || !(config->rope_base > 1) || config->rope_base > 1e12 ||
         !(config->local_rope_base > 1) || config->local_rope_base > 1e12))
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
    const double scale = config->unscaled ? 1.0 : 1.0 / __builtin_sqrt((double)divisor);
    return config->scaled_by_layer ? scale / (double)(layer + 1) : scale;
}

ota_status ota_config_read(const char *path, const ota_architecture **architecture,
                           ota_config *config, ota_error *error) {
    json_t *tree;
    ota_status status = ota_json_file(path, true, OTA_CONFIG_BYTES, &tree, error);
    if (status != OTA_OK) return status;
    const reader r = {.path = path, .tree = tree, .error = error};
    *config = (ota_config){0};
    status = read_tree(&r, architecture, config);
    json_decref(tree);
    if (status == OTA_OK) status = ota_config_finish(*architecture, config, path, error);
    return status;
}
