/* config.json -> ota_config, by the table of architectures. */
#include "base/base.h"
#include "config_reader.h"

#include <string.h>

/* ---- words ---- */

static ota_status read_activation(ota_reader *r, const char *key, ota_activation *out) {
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
    const json_t *value = key != NULL ? ota_reader_value(r, key) : NULL;
    if (value == NULL) return OTA_OK;
    if (!json_is_string(value)) return ota_reader_refuse(r, key, "must be a word");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].word, json_string_value(value)) == 0) {
            *out = words[i].activation;
            return OTA_OK;
        }
    }
    (void)ota_refuse_at(r->error, r->path, 0, "\"%s\": the activation \"%.40s\" is not known", key,
                        json_string_value(value));
    return ota_advise(r->error, OTA_UNSUPPORTED, OTA_ELSEWHERE);
}

/* T5's word for its MLP; its gelu is the formula with tanh where it is gated. */
static ota_status read_projection(ota_reader *r, ota_config *config) {
    static const struct {
        const char *word;
        ota_activation activation;
        bool gated;
    } words[] = {{"relu", OTA_RELU, false},
                 {"gelu", OTA_GELU, false},
                 {"gated-gelu", OTA_GELU_TANH, true},
                 {"gated-silu", OTA_SILU, true}};
    const json_t *value = ota_reader_value(r, "feed_forward_proj");
    for (size_t k = 0; json_is_string(value) && k < sizeof words / sizeof *words; k++) {
        if (strcmp(json_string_value(value), words[k].word) != 0) continue;
        config->activation = words[k].activation;
        config->matrices.gated = words[k].gated;
        value = NULL;
    }
    if (value != NULL)
        return ota_reader_refuse(r, "feed_forward_proj",
                                 "must be relu, gelu, gated-gelu or gated-silu");
    /* What the word stands for holds over it where the file says that, too. */
    const json_t *gated = ota_reader_value(r, "is_gated_act");
    if (gated == NULL && json_object_get(r->tree, "is_gated_act") != NULL)
        config->matrices.gated = false;
    const ota_status status = ota_reader_truth(r, "is_gated_act", gated, &config->matrices.gated);
    return status == OTA_OK ? read_activation(r, "dense_act_fn", &config->activation) : status;
}

static ota_status read_packing(ota_reader *r, ota_config *config) {
    const json_t *object = ota_reader_value(r, "quantization_config");
    if (object == NULL) return OTA_OK;
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    config->experts.packed = method != NULL && strcmp(method, "mxfp4") == 0;
    if (config->experts.packed) return OTA_OK;
    (void)ota_refuse_at(r->error, r->path, 0,
                        "\"quantization_config\" has a quant_method other than mxfp4");
    return ota_advise(r->error, OTA_UNSUPPORTED, "convert the file to a type that is read");
}

/* DeepSeek's word for how experts are chosen. */
static ota_status read_topk_method(ota_reader *r, ota_config *config) {
    const json_t *value = ota_reader_value(r, "topk_method");
    const char *word = value == NULL ? "greedy" : json_string_value(value);
    if (word != NULL && strcmp(word, "group_limited_greedy") == 0) return OTA_OK;
    config->experts.groups = 0;
    if (word != NULL && strcmp(word, "greedy") == 0) return OTA_OK;
    (void)ota_reader_refuse(r, "topk_method", "must be greedy or group_limited_greedy");
    return OTA_UNSUPPORTED;
}

/* Two where the file names none, as in transformers. */
static ota_status read_labels(ota_reader *r, ota_config *config) {
    const json_t *names = ota_reader_value(r, "id2label");
    const int64_t count = names == NULL ? 2 : (int64_t)json_object_size(names);
    config->sizes[OTA_SIZE_VOCABULARY] = count;
    if (count >= 1 && count <= 1 << 20) return OTA_OK;
    return ota_reader_refuse(r, "id2label", "must name 1 to 2^20 labels");
}

/* Numbers of layers that are no mixtures. */
static ota_status read_dense_layers(ota_reader *r, ota_config *config) {
    const json_t *list = ota_reader_value(r, "mlp_only_layers"), *one;
    size_t at;
    if (list == NULL) return OTA_OK;
    if (!json_is_array(list))
        return ota_reader_refuse(r, "mlp_only_layers", "must be a list of numbers of layers");
    json_array_foreach((json_t *)(uintptr_t)list, at, one) {
        const json_int_t layer = json_integer_value(one);
        if (!json_is_integer(one) || layer < 0)
            return ota_reader_refuse(r, "mlp_only_layers", "must be a list of numbers of layers");
        if (layer < config->layers) config->experts.dense[layer] = true;
    }
    return OTA_OK;
}

/* ---- lists of layers ---- */

/* One word of a list of the layers' kinds. */
static ota_status read_layer_type(const ota_reader *r, const char *key, const char *word,
                                  bool local, bool *out) {
    const bool full =
        word != NULL && (strcmp(word, "full_attention") == 0 || strcmp(word, "global") == 0);
    *out = local && word != NULL &&
           (strcmp(word, "sliding_attention") == 0 || strcmp(word, "local") == 0);
    if (*out || full) return OTA_OK;
    return ota_reader_refuse(r, key,
                             local ? "must hold sliding_attention or full_attention"
                                   : "must hold full_attention alone");
}

/* The list of the layers' kinds, where there is one, comes before the period. */
static ota_status read_layer_types(ota_reader *r, const char *key, bool local, ota_config *config) {
    const json_t *types = ota_reader_value(r, key);
    if (types == NULL) return OTA_OK;
    if (!json_is_array(types) || json_array_size(types) != (size_t)config->layers)
        return ota_reader_refuse(r, key, "must be a list of one word a layer");
    config->local.period = 0;
    for (int64_t k = 0; k < config->layers; k++) {
        const char *word = json_string_value(json_array_get(types, (size_t)k));
        const ota_status status = read_layer_type(r, key, word, local, &config->local.layers[k]);
        if (status != OTA_OK) return status;
        if (config->local.layers[k] && (!config->local.windowed || config->local.window == 0))
            return ota_reader_refuse(r, key, "names local layers, and no window is given");
    }
    return OTA_OK;
}

/* [[[word, ...], times], ...], which stands for the same list. */
static ota_status read_layer_patterns(ota_reader *r, const char *key, ota_config *config) {
    static const char rule[] = "must be a list of [[words], times], one word a layer in the end";
    const json_t *patterns = ota_reader_value(r, key), *pattern;
    int64_t layer = 0;
    size_t at, index;
    if (patterns == NULL || config->local.period == 0) return OTA_OK;
    if (!json_is_array(patterns)) return ota_reader_refuse(r, key, rule);
    json_array_foreach((json_t *)(uintptr_t)patterns, at, pattern) {
        const json_t *words = json_array_get(pattern, 0), *word;
        const int64_t times = json_integer_value(json_array_get(pattern, 1));
        if (!json_is_array(words) || times < 1 || times > config->layers)
            return ota_reader_refuse(r, key, rule);
        for (int64_t time = 0; time < times; time++) {
            json_array_foreach((json_t *)(uintptr_t)words, index, word) {
                if (layer == config->layers) return ota_reader_refuse(r, key, rule);
                const ota_status status = read_layer_type(r, key, json_string_value(word), true,
                                                          &config->local.layers[layer++]);
                if (status != OTA_OK) return status;
            }
        }
    }
    config->local.period = 0;
    return layer == config->layers ? OTA_OK : ota_reader_refuse(r, key, rule);
}

/* 1 of each layer that has rotary positions; comes before the period. */
static ota_status read_spared(ota_reader *r, ota_config *config) {
    const json_t *list = ota_reader_value(r, "no_rope_layers");
    if (list == NULL) return OTA_OK;
    if (!json_is_array(list) || json_array_size(list) != (size_t)config->layers)
        return ota_reader_refuse(r, "no_rope_layers", "must be a list of 0 or 1 a layer");
    config->rope.spared_period = 0;
    for (int64_t k = 0; k < config->layers; k++) {
        const json_t *one = json_array_get(list, (size_t)k);
        if (!json_is_integer(one))
            return ota_reader_refuse(r, "no_rope_layers", "must hold 0 or 1");
        config->rope.spared[k] = json_integer_value(one) == 0;
    }
    return OTA_OK;
}

/* ---- the whole ---- */

static ota_status find_architecture(ota_reader *r, const ota_architecture **out) {
    const json_t *type = ota_reader_value(r, "model_type");
    if (!json_is_string(type))
        return ota_reader_refuse(r, "model_type", "must name the architecture");
    *out = ota_architecture_named(json_string_value(type), false);
    if (*out != NULL) return OTA_OK;
    (void)ota_refuse_at(r->error, r->path, 0,
                        "\"model_type\": the architecture \"%.40s\" is not known",
                        json_string_value(type));
    return ota_advise(r->error, OTA_UNSUPPORTED, OTA_ARCHITECTURE_ADVICE);
}

/* Folders of models that see images as well have the settings of the text in an object of their own, and leave out what
 * the class says. */
static ota_status enter_text(ota_reader *r) {
    const json_t *type = json_object_get(r->tree, "model_type");
    const json_t *text = json_object_get(r->tree, "text_config");
    if (!json_is_string(type) || ota_architecture_inside(json_string_value(type)) == NULL)
        return OTA_OK;
    if (!json_is_object(text)) return ota_reader_refuse(r, "text_config", "must be an object");
    r->tree = text;
    return OTA_OK;
}

/* Around the text's settings: whether the head is tied, whatever they say of it, and images. */
static ota_status leave_text(ota_reader *r, const ota_architecture *architecture, bool *tied) {
    (void)ota_reader_value(r, "text_config");
    (void)ota_reader_value(r, "vision_config");
    (void)ota_reader_value(r, "model_type");
    const ota_status status = ota_reader_truth(r, "tie_word_embeddings",
                                               ota_reader_value(r, "tie_word_embeddings"), tied);
    return status == OTA_OK ? ota_reader_refuse_rest(r, architecture, NULL) : status;
}

static ota_status read_tree(ota_reader *r, const ota_architecture **architecture,
                            ota_config *config) {
    bool tied = true;
    ota_reader outer = *r;
    ota_status status = enter_text(r);
    if (status == OTA_OK) status = find_architecture(r, architecture);
    if (status == OTA_OK && r->tree != outer.tree)
        status = leave_text(&outer, *architecture, &tied);
    if (status != OTA_OK) return status;
    const ota_architecture *row = *architecture;
    const ota_config_key *key;
    for (int i = 0; status == OTA_OK && (key = ota_architecture_key(row, i)) != NULL; i++)
        status = ota_reader_key(r, key, config);
    if (r->tree != outer.tree) config->tied = tied;
    config->activation = row->activation;
    if (status == OTA_OK) status = read_activation(r, row->activation_key, &config->activation);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_PACKED))
        status = read_packing(r, config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_TOPK_METHOD))
        status = read_topk_method(r, config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_LABELS))
        status = read_labels(r, config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_DENSE_LAYERS))
        status = read_dense_layers(r, config);
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
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_ROTARY) &&
        !ota_architecture_has(row, OTA_ARCH_FIXED_ROPE))
        status = ota_reader_rope(r, row, config);
    if (status == OTA_OK)
        status = read_layer_types(r, "layer_types", ota_architecture_has(row, OTA_ARCH_LAYER_TYPES),
                                  config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_LAYER_PATTERNS))
        status = read_layer_types(r, "attention_layers", true, config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_LAYER_PATTERNS))
        status = read_layer_patterns(r, "attention_types", config);
    if (status == OTA_OK && ota_architecture_has(row, OTA_ARCH_SPARED))
        status = read_spared(r, config);
    return status == OTA_OK ? ota_reader_refuse_rest(r, row, NULL) : status;
}

ota_status ota_config_read(const char *path, const ota_architecture **architecture,
                           ota_config *config, ota_ending *ending, ota_error *error) {
    json_t *tree;
    ota_status status = ota_json_file(path, true, OTA_CONFIG_BYTES, ending, &tree, error);
    if (status != OTA_OK) return status;
    ota_reader r = {.path = path, .tree = tree, .error = error};
    *config = (ota_config){0};
    status = read_tree(&r, architecture, config);
    json_decref(tree);
    if (status == OTA_OK && ota_architecture_has(*architecture, OTA_ARCH_GROUPS_MERGED))
        config->matrices.merged_by_group = true;
    if (status == OTA_OK) status = ota_config_finish(*architecture, config, false, path, error);
    return status;
}
