/* test_checkpoint_refusals.c: every refusal of config.json, of indices of shards and of .gguf files, a row each: what is
 * changed in a sound file, the status and the sentence. The sound files themselves are taken. */
#define _GNU_SOURCE
#include "files_support.h"

#include "otattn_model.h"

#include "models/checkpoint/files.h"
#include "groups.h"

/* Opens what lies in the folder; the sentence must hold `part`. */
static void open_as(const char *name, const ota_model_options *options, ota_status wanted,
                    const char *part) {
    ota_model *model;
    ota_error error = {.message = ""};
    const ota_status status = ota_model_open(&model, name, options, &error);
    if (status != wanted || strstr(error.message, part) == NULL)
        fail_msg("status %d, \"%s\": wanted %d and \"%s\"", (int)status, error.message, (int)wanted,
                 part);
    assert_true((model != NULL) == (status == OTA_OK));
    /* The sentence may be left out. */
    ota_model_free(model);
    assert_int_equal(ota_model_open(&model, name, options, NULL), wanted);
    ota_model_free(model);
}

/* ---- config.json ---- */

typedef struct member {
    const char *key, *value; /* as JSON; a row's NULL takes the member out */
} member;

static const member gpt2[] = {
    {"model_type", "\"gpt2\""}, {"n_layer", "1"},     {"n_head", "2"},       {"n_embd", "8"},
    {"n_inner", "12"},          {"vocab_size", "11"}, {"n_positions", "16"}, {NULL, NULL}};
static const member bert[] = {{"model_type", "\"bert\""},        {"num_hidden_layers", "1"},
                              {"num_attention_heads", "2"},      {"hidden_size", "8"},
                              {"max_position_embeddings", "16"}, {"vocab_size", "5"},
                              {"intermediate_size", "12"},       {NULL, NULL}};
static const member llama[] = {
    {"model_type", "\"llama\""},  {"num_hidden_layers", "1"}, {"num_attention_heads", "2"},
    {"num_key_value_heads", "1"}, {"hidden_size", "8"},       {"max_position_embeddings", "16"},
    {"vocab_size", "5"},          {"intermediate_size", "8"}, {NULL, NULL}};
static const member gemma[] = {{"model_type", "\"gemma3_text\""},
                               {"num_hidden_layers", "2"},
                               {"num_attention_heads", "2"},
                               {"num_key_value_heads", "1"},
                               {"head_dim", "4"},
                               {"sliding_window", "3"},
                               {"hidden_size", "8"},
                               {"max_position_embeddings", "16"},
                               {"vocab_size", "11"},
                               {"intermediate_size", "12"},
                               {NULL, NULL}};

/* The base's members with one of them changed, added or left out. */
static void write_config(const member *base, const char *key, const char *value) {
    char text[2048];
    size_t used = (size_t)snprintf(text, sizeof text, "{");
    bool met = key == NULL;
    for (int k = 0; base[k].key != NULL || !met; k++) {
        const bool last = base[k].key == NULL,
                   same = last || (key != NULL && strcmp(base[k].key, key) == 0);
        const char *shown = same ? value : base[k].value;
        met |= same;
        if (shown != NULL)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\": %s",
                                     used > 1 ? ", " : "", last ? key : base[k].key, shown);
        if (last) break;
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "}");
    put("config.json", text, used);
}

#define BASES "rotary positions need a base above 1"
#define DEEP8 "[[[[[[[["

static void test_config(void **state) {
    (void)state;
    static const struct {
        const member *base;
        const char *key, *value;
        ota_status status;
        const char *sentence; /* behind the file's name */
    } table[] = {
        {gpt2, NULL, NULL, OTA_EIO, "model.safetensors: cannot be opened"},
        {llama, NULL, NULL, OTA_EIO, "model.safetensors: cannot be opened"},
        {gemma, NULL, NULL, OTA_EIO, "model.safetensors: cannot be opened"},
        {gpt2, "n_inner", NULL, OTA_EIO, "model.safetensors: cannot be opened"},
        {gpt2, "model_type", NULL, OTA_EFORMAT, "\"model_type\": must name the architecture"},
        {gpt2, "model_type", "3", OTA_EFORMAT, "\"model_type\": must name the architecture"},
        {gpt2, "model_type", "\"mamba\"", OTA_UNSUPPORTED,
         "\"model_type\": the architecture \"mamba\" is not known"},
        {gpt2, "n_layer", NULL, OTA_EFORMAT, "\"n_layer\": is missing"},
        {gpt2, "n_layer", "null", OTA_EFORMAT, "\"n_layer\": is missing"},
        {gpt2, "n_layer", "0", OTA_EFORMAT, "\"n_layer\" is 0, outside 1 to 1024"},
        {gpt2, "n_layer", "1.0", OTA_EFORMAT, "\"n_layer\": must be an exact integer"},
        {gpt2, "n_embd", "9", OTA_EFORMAT, "the width 9 is no multiple of 2 heads"},
        {gpt2, "layer_norm_epsilon", "1", OTA_EFORMAT, "epsilon must lie between 0 and 1"},
        {gpt2, "layer_norm_epsilon", "0", OTA_EFORMAT, "\"layer_norm_epsilon\": must be above 0"},
        {gpt2, "layer_norm_epsilon", "[]", OTA_EFORMAT, "\"layer_norm_epsilon\": must be a number"},
        {gpt2, "activation_function", "7", OTA_EFORMAT, "\"activation_function\": must be a word"},
        {gpt2, "activation_function", "\"mish\"", OTA_UNSUPPORTED,
         "\"activation_function\": the activation \"mish\" is not known"},
        {gpt2, "tie_word_embeddings", "1", OTA_EFORMAT,
         "\"tie_word_embeddings\": must be true or false"},
        {gpt2, "scale_attn_weights", "0", OTA_EFORMAT,
         "\"scale_attn_weights\": must be true or false"},
        {gpt2, "scale_attn_by_inverse_layer_idx", "0", OTA_EFORMAT,
         "\"scale_attn_by_inverse_layer_idx\": must be true or false"},
        {bert, "is_decoder", "\"no\"", OTA_EFORMAT, "\"is_decoder\": must be true or false"},
        {gpt2, "scale_attn_weights", "null", OTA_EFORMAT,
         "\"scale_attn_weights\": must be true or false"},
        {bert, "is_decoder", "null", OTA_EIO, "cannot be opened"},
        {gpt2, "is_decoder", "true", OTA_EIO, "cannot be opened"},
        {gpt2, "add_cross_attention", "true", OTA_UNSUPPORTED,
         "\"add_cross_attention\" is true, and such models are not run"},
        {gpt2, "add_cross_attention", "false", OTA_EIO, "cannot be opened"},
        {gpt2, "attn_logit_softcapping", "30.0", OTA_UNSUPPORTED,
         "\"attn_logit_softcapping\" is 30, and such models are not run"},
        {gpt2, "attn_logit_softcapping", "null", OTA_EIO, "cannot be opened"},
        {gpt2, "position_embedding_type", "\"absolute\"", OTA_EIO, "cannot be opened"},
        {gpt2, "position_embedding_type", "\"relative_key\"", OTA_UNSUPPORTED,
         "\"position_embedding_type\" is \"relative_key\", and such models are not run"},
        {gpt2, "position_embedding_type", "1", OTA_UNSUPPORTED,
         "\"position_embedding_type\" is 1, and such models are not run"},
        {gpt2, "pruned_heads", "{}", OTA_EIO, "cannot be opened"},
        {gpt2, "pruned_heads", "{\"0\": [1]}", OTA_UNSUPPORTED,
         "\"pruned_heads\" is {\"0\":[1]}, and such models are not run"},
        {llama, "partial_rotary_factor", "1.0", OTA_EIO, "cannot be opened"},
        {llama, "partial_rotary_factor", "0.5", OTA_UNSUPPORTED,
         "\"partial_rotary_factor\" is 0.5, and such models are not run"},
        {gpt2, "rope_theta", "5000", OTA_UNSUPPORTED,
         "\"rope_theta\" is no key that gpt2 checkpoints have"},
        {gpt2, "unsloth_version", "\"1\"", OTA_EIO, "cannot be opened"},
        {gpt2, "x", "null", OTA_EIO, "cannot be opened"},
        {gpt2, "x", "3", OTA_UNSUPPORTED, "\"x\" is no key that gpt2 checkpoints have"},
        {gpt2, "num_hidden_layers", "0", OTA_EFORMAT,
         "\"num_hidden_layers\" is 0, outside 1 to 1024"},
        {gpt2, "layer_types", "[\"full_attention\"]", OTA_EIO, "cannot be opened"},
        {gpt2, "layer_types", "[\"sliding_attention\"]", OTA_EFORMAT,
         "\"layer_types\": must hold full_attention alone"},
        {bert, "type_vocab_size", "null", OTA_EFORMAT,
         "\"type_vocab_size\": must be an exact integer"},
        {gpt2, "x",
         DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8 DEEP8
         "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
         OTA_EFORMAT, "the JSON is nested more than 64 deep"},
        {gpt2, "task_specific_params", "{\"a\": {\"b\": [1, {\"c\": 2}]}}", OTA_EIO,
         "cannot be opened"},
        {llama, "num_key_value_heads", "3", OTA_EFORMAT, "2 heads are no multiple of 3 key heads"},
        {llama, "head_dim", "3", OTA_EFORMAT,
         "rotary positions need an even number of a head's 3 numbers, not 3"},
        {llama, "rope_theta", "1", OTA_EFORMAT, BASES},
        {llama, "rope_theta", "1e13", OTA_EFORMAT, BASES},
        {llama, "rope_theta", "\"x\"", OTA_EFORMAT, "\"rope_theta\": must be a number"},
        {llama, "rope_scaling", "[]", OTA_EFORMAT, "\"rope_scaling\": must be an object"},
        {llama, "rope_scaling", "{\"type\": 1}", OTA_EFORMAT,
         "\"rope_scaling\": the type must be a word"},
        {llama, "rope_scaling", "{\"type\": \"folded\"}", OTA_UNSUPPORTED,
         "\"rope_scaling\": rotary positions of type \"folded\" are not known"},
        {llama, "rope_scaling", "{\"type\": \"dynamic\"}", OTA_EFORMAT,
         "\"rope_scaling\": \"factor\" must lie in 1 to 1e6"},
        {llama, "rope_scaling", "{\"type\": \"linear\", \"factor\": \"x\"}", OTA_EFORMAT,
         "\"factor\": must be a number"},
        {llama, "rope_scaling", "{\"type\": \"linear\", \"factor\": 2, \"rope_theta\": []}",
         OTA_EFORMAT, "\"rope_theta\": must be a number"},
        {llama, "rope_parameters", "{\"rope_type\": \"llama3\", \"low_freq_factor\": []}",
         OTA_EFORMAT, "\"low_freq_factor\": must be a number"},
        {llama, "rope_parameters", "{\"rope_type\": \"llama3\", \"high_freq_factor\": []}",
         OTA_EFORMAT, "\"high_freq_factor\": must be a number"},
        {llama, "rope_scaling", "{\"type\": \"linear\", \"rope_type\": \"default\"}", OTA_EFORMAT,
         "\"rope_scaling\": \"rope_type\" and \"type\" differ"},
        {llama, "rope_scaling", "{\"factor\": 2}", OTA_UNSUPPORTED,
         "\"factor\" in rope_scaling has no effect with this rope_type"},
        {llama, "rope_scaling",
         "{\"rope_type\": \"linear\", \"factor\": 2, \"high_freq_factor\": 4}", OTA_UNSUPPORTED,
         "\"high_freq_factor\" in rope_scaling has no effect"},
        {llama, "rope_scaling", "{\"rope_type\": \"default\", \"factor\": 1.0}", OTA_EIO,
         "cannot be opened"},
        {llama, "rope_scaling", "{\"rope_type\": \"default\", \"beta_fast\": 32}", OTA_UNSUPPORTED,
         "\"beta_fast\" in rope_scaling has no effect with this rope_type"},
        {llama, "rope_scaling", "{\"temperature\": 1}", OTA_UNSUPPORTED,
         "\"temperature\" in rope_scaling is no key that llama checkpoints have"},
        {llama, "rope_parameters", "{\"full_attention\": {}}", OTA_UNSUPPORTED,
         "\"full_attention\" in rope_parameters is no key that llama checkpoints have"},
        {gemma, "rope_parameters", "{\"rope_theta\": 5000}", OTA_UNSUPPORTED,
         "\"rope_theta\" in rope_parameters is no key that gemma3 checkpoints have"},
        {gemma, "sliding_window", "null", OTA_EFORMAT,
         "\"sliding_window\": must be an exact integer"},
        {gemma, "rope_local_base_freq", "0.5", OTA_EFORMAT, BASES},
        {gemma, "rope_local_base_freq", "1e13", OTA_EFORMAT, BASES},
        {gemma, "rope_local_base_freq", "true", OTA_EFORMAT,
         "\"rope_local_base_freq\": must be a number"},
        {gemma, "rope_parameters", "{\"full_attention\": 1}", OTA_EFORMAT,
         "\"full_attention\": must be an object"},
        {gemma, "rope_parameters", "{\"full_attention\": {\"type\": 1}}", OTA_EFORMAT,
         "\"full_attention\": the type must be a word"},
        {gemma, "rope_parameters", "{\"sliding_attention\": {\"rope_theta\": []}}", OTA_EFORMAT,
         "\"rope_theta\": must be a number"},
        {gemma, "rope_parameters",
         "{\"sliding_attention\": {\"rope_type\": \"linear\", \"factor\": 2}}", OTA_UNSUPPORTED,
         "\"sliding_attention\": rotary positions of local layers are not scaled"},
        {gemma, "layer_types", "1", OTA_EFORMAT,
         "\"layer_types\": must be a list of one word a layer"},
        {gemma, "layer_types", "[\"full_attention\"]", OTA_EFORMAT,
         "\"layer_types\": must be a list of one word a layer"},
        {gemma, "layer_types", "[\"full_attention\", \"half\"]", OTA_EFORMAT,
         "\"layer_types\": must hold sliding_attention or full_attention"},
        {gemma, "layer_types", "[1, \"full_attention\"]", OTA_EFORMAT,
         "\"layer_types\": must hold sliding_attention or full_attention"},
        {gemma, "layer_types", "[\"sliding_attention\", \"full_attention\"]", OTA_EIO,
         "cannot be opened"},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        print_message("%s: %s\n", table[k].key != NULL ? table[k].key : "",
                      table[k].value != NULL ? table[k].value : "");
        write_config(table[k].base, table[k].key, table[k].value);
        open_as(".", NULL, table[k].status, table[k].sentence);
    }
    put("config.json", "[]", 2);
    open_as(".", NULL, OTA_EFORMAT, "config.json: at byte 0: the file must hold a JSON object");
    put("config.json", "{\"a\": 1, \"a\": 2}", 16);
    open_as(".", NULL, OTA_EFORMAT, "not valid JSON: duplicate object key");
}

/* Every size of every family may be 1 or more, up to a limit. */
static void test_limits_of_sizes(void **state) {
    (void)state;
    static const struct {
        const member *base;
        const char *key;
        int most;
    } table[] = {{gpt2, "n_layer", 1024},
                 {gpt2, "n_head", 1024},
                 {gpt2, "n_embd", 65536},
                 {gpt2, "n_positions", 1 << 20},
                 {gpt2, "vocab_size", 1 << 20},
                 {gpt2, "n_inner", 1 << 20},
                 {bert, "num_hidden_layers", 1024},
                 {bert, "num_attention_heads", 1024},
                 {bert, "hidden_size", 65536},
                 {bert, "max_position_embeddings", 1 << 20},
                 {bert, "vocab_size", 1 << 20},
                 {bert, "intermediate_size", 1 << 20},
                 {bert, "type_vocab_size", 1024},
                 {llama, "num_hidden_layers", 1024},
                 {llama, "num_attention_heads", 1024},
                 {llama, "num_key_value_heads", 1024},
                 {llama, "head_dim", 65536},
                 {llama, "hidden_size", 65536},
                 {llama, "max_position_embeddings", 1 << 20},
                 {llama, "vocab_size", 1 << 20},
                 {llama, "intermediate_size", 1 << 20},
                 {gemma, "num_hidden_layers", 1024},
                 {gemma, "num_attention_heads", 1024},
                 {gemma, "num_key_value_heads", 1024},
                 {gemma, "head_dim", 65536},
                 {gemma, "query_pre_attn_scalar", 65536},
                 {gemma, "sliding_window", 1 << 20},
                 {gemma, "sliding_window_pattern", 1024},
                 {gemma, "hidden_size", 65536},
                 {gemma, "max_position_embeddings", 1 << 20},
                 {gemma, "vocab_size", 1 << 20},
                 {gemma, "intermediate_size", 1 << 20}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        for (int beyond = 0; beyond < 2; beyond++) {
            const int size = beyond * (table[k].most + 1);
            char value[16], sentence[96];
            (void)snprintf(value, sizeof value, "%d", size);
            (void)snprintf(sentence, sizeof sentence, "\"%s\" is %d, outside 1 to %d", table[k].key,
                           size, table[k].most);
            write_config(table[k].base, table[k].key, value);
            open_as(".", NULL, OTA_EFORMAT, sentence);
        }
    }
}

/* ---- weights in safetensors, one file or more ---- */

/* A file with the given header and so many bytes of zeros. */
static void write_tensors(const char *path, const char *header, size_t zeros) {
    unsigned char bytes[8192] = {0};
    const size_t size = strlen(header);
    bytes[0] = (unsigned char)size;
    bytes[1] = (unsigned char)(size >> 8);
    memcpy(bytes + 8, header, size);
    put(path, bytes, 8 + size + zeros);
}

#define TENSOR(name, type, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" #begin         \
    "," #end "]}"

static void test_weights_that_do_not_fit(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t zeros;
        ota_status status;
        const char *sentence;
    } table[] = {
        {"{}", 0, OTA_EMISMATCH, ".: holds no tensor \"model.embed_tokens.weight\""},
        {"{" TENSOR("embed_tokens.weight", "F32", "5,8", 0, 100) "}", 100, OTA_EFORMAT,
         "shape and dtype make 160 bytes, data_offsets say 0 to 100"},
        {"{" TENSOR("embed_tokens.weight", "F32", "40", 0, 160) "}", 160, OTA_EMISMATCH,
         "\"embed_tokens.weight\" does not have the shape [5, 8] that the configuration implies"},
        {"{" TENSOR("embed_tokens.weight", "F32", "8,5", 0, 160) "}", 160, OTA_EMISMATCH,
         "does not have the shape [5, 8]"},
        {"{" TENSOR("embed_tokens.weight", "F32", "5,7", 0, 140) "}", 140, OTA_EMISMATCH,
         "does not have the shape [5, 8]"},
        {"{" TENSOR("embed_tokens.weight", "I32", "5,8", 0, 160) "}", 160, OTA_UNSUPPORTED,
         "\"embed_tokens.weight\" is of type I32, which is not read"},
        {"{" TENSOR("embed_tokens.weight", "F16", "5,8", 0,
                    80) "," TENSOR("layers.0.input_layernorm.weight", "F16", "7", 80, 94) "}",
         94, OTA_EMISMATCH, "\"layers.0.input_layernorm.weight\" does not have the shape [8]"},
        {"{" TENSOR("embed_tokens.weight", "F16", "5,8", 0,
                    80) "," TENSOR("layers.0.input_layernorm.weight", "F16", "8,1", 80, 96) "}",
         96, OTA_EMISMATCH, "does not have the shape [8]"},
    };
    write_config(llama, NULL, NULL);
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        print_message("%s\n", table[k].sentence);
        write_tensors("model.safetensors", table[k].header, table[k].zeros);
        open_as(".", NULL, table[k].status, table[k].sentence);
    }
}

typedef struct needed {
    const char *name;
    int rows, columns; /* columns 0: a vector */
} needed;

/* Writes the first `count` of `tensors`. */
static void write_needed(const needed *tensors, int count) {
    char header[4096];
    size_t used = (size_t)snprintf(header, sizeof header, "{"), begin = 0;
    for (int k = 0; k < count; k++) {
        const needed *const one = &tensors[k];
        char columns[16] = "";
        if (one->columns > 0) (void)snprintf(columns, sizeof columns, ",%d", one->columns);
        const size_t end = begin + 4 * (size_t)(one->rows * (one->columns > 0 ? one->columns : 1));
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d%s],"
                                 "\"data_offsets\":[%zu,%zu]}",
                                 k > 0 ? "," : "", one->name, one->rows, columns, begin, end);
        begin = end;
    }
    (void)snprintf(header + used, sizeof header - used, "}");
    write_tensors("model.safetensors", header, begin);
}

#define BOTH(name, rows, columns)                                                                  \
    {name ".weight", rows, columns}, { name ".bias", rows, 0 }

/* Files that end before each of the tensors that their family cannot do without, and whole ones. */
static void test_tensors_that_are_missing(void **state) {
    (void)state;
    static const needed of_gpt2[] = {{"transformer.wte.weight", 11, 8},
                                     {"transformer.wpe.weight", 16, 8},
                                     BOTH("transformer.h.0.ln_1", 8, 0),
                                     {"transformer.h.0.attn.c_attn.weight", 8, 24},
                                     {"transformer.h.0.attn.c_attn.bias", 24, 0},
                                     BOTH("transformer.h.0.attn.c_proj", 8, 8),
                                     BOTH("transformer.h.0.ln_2", 8, 0),
                                     {"transformer.h.0.mlp.c_fc.weight", 8, 12},
                                     {"transformer.h.0.mlp.c_fc.bias", 12, 0},
                                     {"transformer.h.0.mlp.c_proj.weight", 12, 8},
                                     {"transformer.h.0.mlp.c_proj.bias", 8, 0},
                                     BOTH("transformer.ln_f", 8, 0),
                                     {NULL, 0, 0}};
    static const needed of_bert[] = {{"bert.embeddings.word_embeddings.weight", 5, 8},
                                     {"bert.embeddings.position_embeddings.weight", 16, 8},
                                     {"bert.embeddings.token_type_embeddings.weight", 2, 8},
                                     BOTH("bert.embeddings.LayerNorm", 8, 0),
                                     BOTH("bert.encoder.layer.0.attention.self.query", 8, 8),
                                     BOTH("bert.encoder.layer.0.attention.self.key", 8, 8),
                                     BOTH("bert.encoder.layer.0.attention.self.value", 8, 8),
                                     BOTH("bert.encoder.layer.0.attention.output.dense", 8, 8),
                                     BOTH("bert.encoder.layer.0.attention.output.LayerNorm", 8, 0),
                                     BOTH("bert.encoder.layer.0.intermediate.dense", 12, 8),
                                     BOTH("bert.encoder.layer.0.output.dense", 8, 12),
                                     BOTH("bert.encoder.layer.0.output.LayerNorm", 8, 0),
                                     {NULL, 0, 0}};
    static const needed of_llama[] = {{"model.embed_tokens.weight", 5, 8},
                                      {"model.layers.0.input_layernorm.weight", 8, 0},
                                      {"model.layers.0.post_attention_layernorm.weight", 8, 0},
                                      {"model.layers.0.self_attn.q_proj.weight", 8, 8},
                                      {"model.layers.0.self_attn.k_proj.weight", 4, 8},
                                      {"model.layers.0.self_attn.v_proj.weight", 4, 8},
                                      {"model.layers.0.self_attn.o_proj.weight", 8, 8},
                                      {"model.layers.0.mlp.up_proj.weight", 8, 8},
                                      {"model.layers.0.mlp.gate_proj.weight", 8, 8},
                                      {"model.layers.0.mlp.down_proj.weight", 8, 8},
                                      {"model.norm.weight", 8, 0},
                                      {NULL, 0, 0}};
    static const needed of_gemma[] = {{"model.embed_tokens.weight", 11, 8},
                                      {"model.layers.0.input_layernorm.weight", 8, 0},
                                      {"model.layers.0.self_attn.q_proj.weight", 8, 8},
                                      {"model.layers.0.self_attn.k_proj.weight", 4, 8},
                                      {"model.layers.0.self_attn.v_proj.weight", 4, 8},
                                      {"model.layers.0.self_attn.o_proj.weight", 8, 8},
                                      {"model.layers.0.mlp.up_proj.weight", 12, 8},
                                      {"model.layers.0.mlp.gate_proj.weight", 12, 8},
                                      {"model.layers.0.mlp.down_proj.weight", 8, 12},
                                      {"model.norm.weight", 8, 0},
                                      {"model.layers.0.post_attention_layernorm.weight", 8, 0},
                                      {"model.layers.0.pre_feedforward_layernorm.weight", 8, 0},
                                      {"model.layers.0.post_feedforward_layernorm.weight", 8, 0},
                                      {"model.layers.0.self_attn.q_norm.weight", 4, 0},
                                      {"model.layers.0.self_attn.k_norm.weight", 4, 0},
                                      {NULL, 0, 0}};
    static const struct {
        const member *base;
        const char *key, *value;
        const needed *tensors;
    } table[] = {{gpt2, NULL, NULL, of_gpt2},
                 {bert, NULL, NULL, of_bert},
                 {llama, "tie_word_embeddings", "true", of_llama},
                 {gemma, "num_hidden_layers", "1", of_gemma}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        const needed *const tensors = table[k].tensors;
        write_config(table[k].base, table[k].key, table[k].value);
        int count = 0;
        for (; tensors[count].name != NULL; count++) {
            char sentence[128];
            (void)snprintf(sentence, sizeof sentence, ".: holds no tensor \"%s\"",
                           tensors[count].name);
            write_needed(tensors, count);
            open_as(".", NULL, OTA_EMISMATCH, sentence);
        }
        write_needed(tensors, count);
        open_as(".", NULL, OTA_OK, "");
    }
}

static void test_indices(void **state) {
    (void)state;
    static const struct {
        const char *text;
        ota_status status;
        const char *sentence;
    } table[] = {
        {"[]", OTA_EFORMAT, "the file must hold a JSON object"},
        {"{}", OTA_EFORMAT, "the index must hold a weight_map"},
        {"{\"weight_map\": []}", OTA_EFORMAT, "the index must hold a weight_map"},
        {"{\"weight_map\": {}}", OTA_EFORMAT, "the index must hold a weight_map"},
        {"{\"weight_map\": {\"x\": 1}}", OTA_EFORMAT, "weight_map must hold file names"},
        {"{\"weight_map\": {\"x\": \"\"}}", OTA_EFORMAT,
         "\"\" is no name of a file in the same folder"},
        {"{\"weight_map\": {\"x\": \".\"}}", OTA_EFORMAT, "\".\" is no name of a file"},
        {"{\"weight_map\": {\"x\": \"..\"}}", OTA_EFORMAT, "\"..\" is no name of a file"},
        {"{\"weight_map\": {\"x\": \"a/b\"}}", OTA_EFORMAT, "\"a/b\" is no name of a file"},
        {"{\"weight_map\": {\"x\": \"none\"}}", OTA_EIO, "none: cannot be opened"},
        {"{\"weight_map\": {\"x\": \"empty\"}}", OTA_EFORMAT, "empty: at byte 0"},
        {"{\"weight_map\": {\"x\": \"one\", \"y\": \"one\"}}", OTA_EMISMATCH,
         "the index puts \"y\" into one, which does not hold it"},
        {"{\"weight_map\": {\"x\": \"one\", \"z\": \"two\"}}", OTA_EFORMAT, "\"x\" is there twice"},
        {"{\"weight_map\": {\"x\": \"three\", \"z\": \"one\"}}", OTA_EMISMATCH,
         "the index puts \"x\" into three, which does not hold it"},
        {"{\"weight_map\": {\"x\": \"one\"}}", OTA_EMISMATCH,
         ".: holds no tensor \"model.embed_tokens.weight\""},
    };
    write_config(llama, NULL, NULL);
    write_tensors("one", "{" TENSOR("x", "F32", "1", 0, 4) "}", 4);
    write_tensors("two", "{" TENSOR("x", "F32", "1", 0, 4) "," TENSOR("z", "F32", "1", 4, 8) "}",
                  8);
    write_tensors("three", "{" TENSOR("w", "F32", "1", 0, 4) "}", 4);
    put("empty", "", 0);
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        put("model.safetensors.index.json", table[k].text, strlen(table[k].text));
        open_as(".", NULL, table[k].status, table[k].sentence);
    }
}

/* An index may name 4,096 files; the last one too many is refused before it is opened. */
static void test_index_of_too_many_files(void **state) {
    (void)state;
    enum { FILES = 4097, ROOM = FILES * 24 };
    char *text = malloc(ROOM), name[16];
    size_t used = (size_t)snprintf(text, ROOM, "{\"weight_map\": {");
    for (int k = 0; k < FILES; k++) {
        char header[96];
        snprintf(name, sizeof name, "%d", k);
        snprintf(header, sizeof header,
                 "{\"%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", k);
        write_tensors(name, header, 0);
        used +=
            (size_t)snprintf(text + used, ROOM - used, "%s\"%d\": \"%d\"", k > 0 ? ", " : "", k, k);
    }
    used += (size_t)snprintf(text + used, ROOM - used, "}}");
    write_config(llama, NULL, NULL);
    put("model.safetensors.index.json", text, used);
    open_as(".", NULL, OTA_ELIMIT, "the index names more than 4096 files");
    free(text);
}

/* ---- gguf ---- */

typedef struct bytes {
    unsigned char data[1 << 16];
    size_t size;
} bytes;

static void add(bytes *b, const void *from, size_t size) {
    memcpy(b->data + b->size, from, size);
    b->size += size;
}

static void add_number(bytes *b, uint64_t number, int size) {
    for (int k = 0; k < size; k++) b->data[b->size++] = (unsigned char)(number >> (8 * k));
}

static void add_text(bytes *b, const char *text) {
    add_number(b, strlen(text), 8);
    add(b, text, strlen(text));
}

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

/* A pair's value, `number` as wide as its type or the bits of an f32; a text where there is one. */
typedef struct gguf_pair {
    const char *key;
    int type;
    uint64_t number;
    const char *text;
    const char *raw; /* behind an array's type: its bytes */
    size_t raw_size;
} gguf_pair;

static void add_pair(bytes *b, const gguf_pair *pair) {
    static const int widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    add_text(b, pair->key);
    add_number(b, (uint64_t)pair->type, 4);
    if (pair->text != NULL)
        add_text(b, pair->text);
    else if (pair->raw != NULL)
        add(b, pair->raw, pair->raw_size);
    else if (pair->type <= F64)
        add_number(b, pair->number, widths[pair->type]);
}

enum { EPSILON = 0x3727C5AC }; /* 1e-5, as an f32 */
static const gguf_pair pairs[] = {
    {"general.architecture", STRING, 0, "llama", NULL, 0},
    {"llama.block_count", U32, 1, NULL, NULL, 0},
    {"llama.attention.head_count", U64, 2, NULL, NULL, 0},
    {"llama.attention.head_count_kv", I32, 1, NULL, NULL, 0},
    {"llama.embedding_length", U32, 8, NULL, NULL, 0},
    {"llama.context_length", U32, 16, NULL, NULL, 0},
    {"llama.feed_forward_length", U32, 8, NULL, NULL, 0},
    {"llama.attention.layer_norm_rms_epsilon", F32, EPSILON, NULL, NULL, 0}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* One of the tensors of a Llama of one layer: [rows, columns], or [rows] where columns is 0. */
typedef struct gguf_tensor {
    const char *name;
    int rows, columns;
} gguf_tensor;

static const gguf_tensor tensors[] = {
    {"token_embd.weight", 5, 8},     {"blk.0.attn_norm.weight", 8, 0},
    {"blk.0.attn_q.weight", 8, 8},   {"blk.0.attn_k.weight", 4, 8},
    {"blk.0.attn_v.weight", 4, 8},   {"blk.0.attn_output.weight", 8, 8},
    {"blk.0.ffn_norm.weight", 8, 0}, {"blk.0.ffn_up.weight", 8, 8},
    {"blk.0.ffn_gate.weight", 8, 8}, {"blk.0.ffn_down.weight", 8, 8},
    {"output_norm.weight", 8, 0}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

/* What a row changes of the entry of tensor `index`; unset: nothing. */
typedef struct entry_change {
    int index;
    const char *name;
    uint64_t rank, first, kind, offset; /* 0: as it is */
} entry_change;

/* Entries and data, zeros, of tensors first to last - 1. */
static void add_tensors(bytes *b, int first, int last, const entry_change *change) {
    size_t offset = 0;
    for (int k = first; k < last; k++) {
        const gguf_tensor *one = &tensors[k];
        const bool changed = change != NULL && change->index == k;
        const uint64_t rank = one->columns > 0 ? 2 : 1;
        const uint64_t sizes[2] = {(uint64_t)(one->columns > 0 ? one->columns : one->rows),
                                   (uint64_t)one->rows};
        add_text(b, changed && change->name != NULL ? change->name : one->name);
        add_number(b, changed && change->rank > 0 ? change->rank : rank, 4);
        for (uint64_t i = 0; i < rank; i++)
            add_number(b, changed && i == 0 && change->first > 0 ? change->first : sizes[i], 8);
        add_number(b, changed ? change->kind : 0, 4);
        add_number(b, changed && change->offset > 0 ? change->offset : offset, 8);
        offset += (size_t)(4 * one->rows * (one->columns > 0 ? one->columns : 1));
        offset = (offset + 31) / 32 * 32;
    }
    while (b->size % 32 != 0) add_number(b, 0, 1);
    memset(b->data + b->size, 0, offset);
    b->size += offset;
}

static void start_gguf(bytes *b, int tensor_count, int pair_count) {
    b->size = 0;
    add(b, "GGUF", 4);
    add_number(b, 3, 4);
    add_number(b, (uint64_t)tensor_count, 8);
    add_number(b, (uint64_t)pair_count, 8);
}

/* The file with one pair more, or in the place of the one with its key, and one entry changed. */
static void write_gguf(const gguf_pair *pair, const entry_change *change, bytes *b) {
    int count = PAIRS + (pair != NULL);
    for (int k = 0; pair != NULL && k < PAIRS; k++) count -= strcmp(pairs[k].key, pair->key) == 0;
    start_gguf(b, TENSORS, count);
    for (int k = 0; k < PAIRS; k++)
        if (pair == NULL || strcmp(pairs[k].key, pair->key) != 0) add_pair(b, &pairs[k]);
    if (pair != NULL) add_pair(b, pair);
    add_tensors(b, 0, TENSORS, change);
    put("model.gguf", b->data, b->size);
}

#define RAW(bytes) NULL, bytes, sizeof bytes - 1
#define EIGHT(low) low "\0\0\0\0\0\0\0"
#define TWO 0x40000000 /* 2, as an f32 */
#define FAR "\0\0\0\0\0\0\0\x10"

static void test_gguf_pairs(void **state) {
    (void)state;
    static char long_key[1026];
    memset(long_key, 'k', sizeof long_key - 1);
    static const char *const power = "general.alignment must be a power of two from 8 to 65,536";
    const struct {
        gguf_pair pair;
        ota_status status;
        const char *sentence;
    } table[] = {
        {{"general.a", 13, 0, RAW("")}, OTA_EFORMAT, "a value has a type that is not known"},
        {{"general.a", STRING, 0, RAW(FAR)},
         OTA_EFORMAT,
         "a string goes beyond the end of the file"},
        {{"general.a", ARRAY, 0, RAW("\15\0\0\0" EIGHT("\1"))},
         OTA_EFORMAT,
         "an array has a type that is not known"},
        {{"general.a", ARRAY, 0, RAW("\14\0\0\0" FAR)},
         OTA_EFORMAT,
         "an array goes beyond the end of the file"},
        {{"general.a", ARRAY, 0, RAW("\10\0\0\0" EIGHT("\2") EIGHT("\0") FAR)},
         OTA_EFORMAT,
         "a string goes beyond the end of the file"},
        {{"general.a", ARRAY, 0,
          RAW("\11\0\0\0" EIGHT("\1") "\11\0\0\0" EIGHT("\1") "\11\0\0\0" EIGHT(
              "\1") "\11\0\0\0" EIGHT("\1") "\0\0\0\0" EIGHT("\0"))},
         OTA_EFORMAT,
         "arrays are nested more than 4 deep"},
        {{"general.a", ARRAY, 0, RAW("\11\0\0\0" EIGHT("\1") "\0\0\0\0" EIGHT("\3") "abc")},
         OTA_OK,
         ""},
        {{"", U8, 0, NULL, NULL, 0},
         OTA_EFORMAT,
         "a key must be 1 to 1024 bytes without control characters"},
        {{long_key, U8, 0, NULL, NULL, 0},
         OTA_EFORMAT,
         "a key must be 1 to 1024 bytes without control characters"},
        {{"general.alignment", U32, 32, NULL, NULL, 0}, OTA_OK, ""},
        {{"general.alignment", U32, 4, NULL, NULL, 0}, OTA_EFORMAT, power},
        {{"general.alignment", U32, 48, NULL, NULL, 0}, OTA_EFORMAT, power},
        {{"general.alignment", U32, 131072, NULL, NULL, 0}, OTA_EFORMAT, power},
        {{"general.alignment", U64, 32, NULL, NULL, 0}, OTA_EFORMAT, power},
        {{"general.alignment", U32, 64, NULL, NULL, 0}, OTA_EFORMAT, "\" "},
        {{"general.architecture", U32, 1, NULL, NULL, 0},
         OTA_EFORMAT,
         "general.architecture must name the architecture"},
        {{"general.architecture", STRING, 0, "gemma9", NULL, 0},
         OTA_UNSUPPORTED,
         "the architecture \"gemma9\" is not known"},
        {{"general.architecture", STRING, 0, long_key, NULL, 0},
         OTA_UNSUPPORTED,
         "the architecture \"\" is not known"},
        {{"llama.block_count", F32, 1, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.block_count\" must be an integer"},
        {{"llama.block_count", I32, 0xFFFFFFFF, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.block_count\" lies outside 1 to 1024"},
        {{"llama.block_count", U64, 1025, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.block_count\" lies outside 1 to 1024"},
        {{"llama.attention.head_count_kv", U32, 3, NULL, NULL, 0},
         OTA_EFORMAT,
         "2 heads are no multiple of 3 key heads"},
        {{"llama.attention.layer_norm_rms_epsilon", U32, 0, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.attention.layer_norm_rms_epsilon\" must be an f32"},
        {{"llama.rope.freq_base", F32, 0, NULL, NULL, 0}, OTA_EFORMAT, BASES},
        {{"llama.rope.scaling.type", U32, 0, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.rope.scaling.type\" must be a text"},
        {{"llama.rope.scaling.type", STRING, 0, "none", NULL, 0}, OTA_OK, ""},
        {{"llama.rope.scaling.type", STRING, 0, "llama3", NULL, 0},
         OTA_UNSUPPORTED,
         "rotary positions of type \"llama3\" are not known"},
        {{"llama.rope.scaling.type", STRING, 0, "a word longer than any", NULL, 0},
         OTA_UNSUPPORTED,
         "rotary positions of type \"a word longer t\" are not known"},
        {{"llama.rope.scaling.type", STRING, 0, "linear", NULL, 0},
         OTA_EFORMAT,
         "\"llama.rope.scaling.factor\": \"factor\" must lie in 1 to 1e6"},
        {{"llama.rope.scaling.factor", F32, TWO, NULL, NULL, 0}, OTA_OK, ""},
        {{"llama.rope.scaling.factor", F32, 0, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.rope.scaling.factor\": \"factor\" must lie in 1 to 1e6"},
        {{"llama.rope.scaling.factor", U32, 2, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.rope.scaling.factor\" must be an f32"},
        {{"llama.rope.scale_linear", F32, TWO, NULL, NULL, 0}, OTA_OK, ""},
        {{"llama.rope.scaling.attn_factor", F32, TWO, NULL, NULL, 0},
         OTA_UNSUPPORTED,
         "\"llama.rope.scaling.attn_factor\" is \"2\", and such models are not run"},
        {{"llama.rope.scaling.finetuned", BOOL, 1, NULL, NULL, 0}, OTA_OK, ""},
        {{"llama.final_logit_softcapping", F32, 0, NULL, NULL, 0}, OTA_OK, ""},
        {{"llama.final_logit_softcapping", F32, TWO, NULL, NULL, 0},
         OTA_UNSUPPORTED,
         "\"llama.final_logit_softcapping\" is \"2\", and such models are not run"},
        {{"llama.attn_logit_softcapping", F64, 0, NULL, NULL, 0}, OTA_OK, ""},
        {{"llama.expert_count", U32, 8, NULL, NULL, 0},
         OTA_EFORMAT,
         "each token has 0 of 8 experts"},
        {{"llama.attention.clamp_kqv", I8, 0xFF, NULL, NULL, 0},
         OTA_UNSUPPORTED,
         "\"llama.attention.clamp_kqv\" is \"-1\", and such models are not run"},
        {{"llama.attention.clamp_kqv", ARRAY, 0, RAW("\4\0\0\0" EIGHT("\0"))},
         OTA_UNSUPPORTED,
         "\"llama.attention.clamp_kqv\" is \"\", and such models are not run"},
        {{"llama.vocab_size", U32, 5, NULL, NULL, 0}, OTA_OK, ""},
        {{"llama.vocab_size", U32, 6, NULL, NULL, 0},
         OTA_EFORMAT,
         "6 words and an embedding of 5 rows differ"},
        {{"llama.rope.dimension_count", U32, 2, NULL, NULL, 0},
         OTA_EMISMATCH,
         "\"blk.0.attn_q.weight\" does not have the shape [4, 8]"},
        {{"llama.attention.key_length", U32, 4, NULL, NULL, 0}, OTA_OK, ""},
        {{"llama.attention.value_length", U32, 2, NULL, NULL, 0},
         OTA_EMISMATCH,
         "\"blk.0.attn_v.weight\" does not have the shape [2, 8]"},
        {{"llama.attention.causal", U32, 1, NULL, NULL, 0},
         OTA_EFORMAT,
         "\"llama.attention.causal\" must be true or false"},
        {{"llama.attention.causal", BOOL, 0, NULL, NULL, 0}, OTA_OK, ""},
        {{"general.type", STRING, 0, "model", NULL, 0}, OTA_OK, ""},
        {{"general.type", STRING, 0, "adapter", NULL, 0},
         OTA_UNSUPPORTED,
         "\"general.type\" is \"adapter\", and such models are not run"},
        {{"split.count", U16, 1, NULL, NULL, 0}, OTA_OK, ""},
        {{"split.no", U16, 0, NULL, NULL, 0}, OTA_OK, ""},
        {{"general.quantization_version", U16, 3, NULL, NULL, 0},
         OTA_UNSUPPORTED,
         "\"general.quantization_version\" is \"3\", and such models are not run"},
        {{"llama.something", U32, 3, NULL, NULL, 0},
         OTA_UNSUPPORTED,
         "\"llama.something\" is no key that llama files have"},
        {{"gemma3.block_count", U32, 3, NULL, NULL, 0},
         OTA_UNSUPPORTED,
         "\"gemma3.block_count\" is no key that llama files have"},
    };
    bytes b;
    write_gguf(NULL, NULL, &b);
    open_as("model.gguf", NULL, OTA_OK, "");
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        print_message("%s: %s\n", table[k].pair.key, table[k].sentence);
        write_gguf(&table[k].pair, NULL, &b);
        open_as("model.gguf", NULL, table[k].status, table[k].sentence);
    }
    /* The same key again, and one that is missing. */
    write_gguf(&(gguf_pair){"llama.block_counT", U32, 1, NULL, NULL, 0}, NULL, &b);
    unsigned char *twice = memmem(b.data, b.size, "counT", 5),
                  *once = memmem(b.data, b.size, "count", 5);
    twice[4] = 't';
    put("model.gguf", b.data, b.size);
    open_as("model.gguf", NULL, OTA_EFORMAT, "the key \"llama.block_count\" is there twice");
    once[4] = 'T';
    twice[4] = 'S';
    put("model.gguf", b.data, b.size);
    open_as("model.gguf", NULL, OTA_EFORMAT, "\"llama.block_count\" is missing");
    /* Values of every type have their width, or what follows them is not read. */
    for (int type = U8; type <= F64; type++) {
        if (type == STRING || type == ARRAY) continue;
        write_gguf(&(gguf_pair){"general.a", type, 1, NULL, NULL, 0}, NULL, &b);
        open_as("model.gguf", NULL, OTA_OK, "");
    }
}

/* A text takes 8 bytes at least: more empty ones than the bytes behind them are taken, one more than there is room for is
 * refused before any is read. */
static void test_gguf_empty_texts(void **state) {
    (void)state;
    enum { TEXTS = 4096 };
    static char texts[12 + 8 * TEXTS] = "\10\0\0\0\0\20";
    bytes b;
    write_gguf(&(gguf_pair){"general.a", ARRAY, 0, NULL, texts, sizeof texts}, NULL, &b);
    unsigned char *array = memmem(b.data, b.size, texts, sizeof texts);
    const size_t room = (size_t)(b.data + b.size - array - 12);
    assert_true(room < 9 * TEXTS);
    open_as("model.gguf", NULL, OTA_OK, "");
    for (uint64_t more = 0; more < 2; more++) {
        const uint64_t count = room / 8 + more;
        for (int k = 0; k < 8; k++) array[4 + k] = (unsigned char)(count >> (8 * k));
        put("model.gguf", b.data, b.size);
        open_as("model.gguf", NULL, OTA_EFORMAT,
                more ? "an array goes beyond the end of the file" : "a string goes beyond");
    }
}

static void test_gguf_tensors(void **state) {
    (void)state;
    const uint64_t far = (uint64_t)1 << 63;
    const struct {
        entry_change change;
        ota_status status;
        const char *sentence;
    } table[] = {
        {{0, "token_embd.wheight", 0, 0, 0, 0},
         OTA_EMISMATCH,
         "holds no tensor \"token_embd.weight\""},
        {{1, "token_embd.weight", 0, 0, 0, 0}, OTA_EFORMAT, "\"token_embd.weight\" is there twice"},
        {{1, "a\nb", 0, 0, 0, 0},
         OTA_EFORMAT,
         "a name must be 1 to 1024 bytes without control characters"},
        {{1, NULL, 9, 0, 0, 0}, OTA_ELIMIT, "a tensor has more than 8 dimensions"},
        {{1, NULL, 0, far, 0, 0}, OTA_EFORMAT, "outside 0 to 2^48"},
        {{1, NULL, 0, 0, 4, 0},
         OTA_UNSUPPORTED,
         "\"blk.0.attn_norm.weight\" is of type Q4_2, which is"},
        {{1, NULL, 0, 0, 9, 0}, OTA_UNSUPPORTED, "is of type Q8_1, which is not read"},
        {{1, NULL, 0, 0, 0xFFFFFFFF, 0},
         OTA_UNSUPPORTED,
         "is of type 4294967295, a number that is not known here"},
        {{1, NULL, 0, 0, 8, 0},
         OTA_EFORMAT,
         "\"blk.0.attn_norm.weight\" does not fill whole blocks of 32 elements, as Q8_0 has them"},
        {{1, NULL, 0, 0, 16, 0}, OTA_EFORMAT, "whole blocks of 256 elements, as IQ2_XXS has them"},
        {{1, NULL, 0, 0, 40, 0}, OTA_EFORMAT, "whole blocks of 64 elements, as NVFP4 has them"},
        {{1, NULL, 0, 0, 0, 8}, OTA_EFORMAT, "\"blk.0.attn_norm.weight\" is not aligned"},
        {{1, NULL, 0, 0, 0, 32}, OTA_EFORMAT, "\"blk.0.attn_norm.weight\" begins inside another"},
        {{2, NULL, 0, 0, 0, 160}, OTA_EFORMAT, "\"blk.0.attn_q.weight\" begins inside another"},
        {{10, NULL, 0, 0, 0, 4096}, OTA_EFORMAT, "\"output_norm.weight\" begins after a hole"},
        {{10, NULL, 0, 0, 0, far}, OTA_EFORMAT, "\"output_norm.weight\" is not aligned"},
        {{10, NULL, 0, 1 << 20, 0, 0}, OTA_EFORMAT, "goes beyond the end of the file"},
        {{10, NULL, 0, 16, 0, 0}, OTA_EFORMAT, "goes beyond the end of the file"},
        {{10, "output.weight", 0, 0, 0, 0},
         OTA_EMISMATCH,
         "model.gguf: holds no tensor \"output_norm.weight\""},
    };
    bytes b;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        print_message("%s\n", table[k].sentence);
        write_gguf(NULL, &table[k].change, &b);
        open_as("model.gguf", NULL, table[k].status, table[k].sentence);
    }
    write_gguf(NULL, NULL, &b);
    const ota_model_options limited = {.size = sizeof limited, .tensors.tensors = TENSORS - 1};
    open_as("model.gguf", &limited, OTA_ELIMIT, "the file promises more tensors than the limit");
    const ota_model_options enough = {.size = sizeof enough, .tensors.tensors = TENSORS};
    open_as("model.gguf", &enough, OTA_OK, "");
    const ota_model_options unsized = {.size = 1};
    open_as("model.gguf", &unsized, OTA_EINVAL, "options.size is not that of ota_model_options");
}

/* Whatever is cut off, what is left is refused: every length from nothing on. */
static void test_gguf_cuts(void **state) {
    (void)state;
    static const char nested[] = "\11\0\0\0" EIGHT("\1") "\10\0\0\0" EIGHT("\1") EIGHT("\1") "a";
    bytes b;
    write_gguf(&(gguf_pair){"general.a", ARRAY, 0, NULL, nested, sizeof nested - 1}, NULL, &b);
    open_as("model.gguf", NULL, OTA_OK, "");
    for (size_t cut = 0; cut < b.size; cut += cut < b.size - 2048 ? 1 : 32) {
        put("model.gguf", b.data, cut);
        open_as("model.gguf", NULL, OTA_EFORMAT, "model.gguf");
    }
    memcpy(b.data + 4, "\4", 1);
    put("model.gguf", b.data, b.size);
    open_as("model.gguf", NULL, OTA_EFORMAT, "only little-endian gguf of version 2 or 3 is read");
    memcpy(b.data + 4, "\2", 1);
    put("model.gguf", b.data, b.size);
    open_as("model.gguf", NULL, OTA_OK, "");
}

/* ---- gguf in parts ---- */

enum { PARTS = 3 };

static void part_name(int part, char name[64]) {
    (void)snprintf(name, 64, "m-%05d-of-%05d.gguf", part + 1, PARTS);
}

/* One pair of one part otherwise, or one more; with type -1 it is left out. */
typedef struct part_change {
    int part;
    gguf_pair pair;
} part_change;

static void write_part(int part, const part_change *change, bytes *b) {
    const gguf_pair split[3] = {{"split.no", U16, (uint64_t)part, NULL, NULL, 0},
                                {"split.count", U16, PARTS, NULL, NULL, 0},
                                {"split.tensors.count", I32, TENSORS, NULL, NULL, 0}};
    const gguf_pair *more = change != NULL && change->part == part ? &change->pair : NULL;
    const int first = part * TENSORS / PARTS, last = (part + 1) * TENSORS / PARTS;
    int count = (part == 0 ? PAIRS : 0) + (more != NULL && more->type >= 0);
    for (int k = 0; k < 3; k++) count += more == NULL || strcmp(split[k].key, more->key) != 0;
    start_gguf(b, last - first, count);
    for (int k = 0; part == 0 && k < PAIRS; k++) add_pair(b, &pairs[k]);
    for (int k = 0; k < 3; k++)
        if (more == NULL || strcmp(split[k].key, more->key) != 0) add_pair(b, &split[k]);
    if (more != NULL && more->type >= 0) add_pair(b, more);
    add_tensors(b, first, last, NULL);
    char name[64];
    part_name(part, name);
    put(name, b->data, b->size);
}

static void test_gguf_parts(void **state) {
    (void)state;
    const struct {
        part_change change;
        ota_status status;
        const char *sentence;
    } table[] = {
        {{0, {"general.name", STRING, 0, "a", NULL, 0}}, OTA_OK, ""},
        {{1, {"llama.block_count", U32, 1, NULL, NULL, 0}}, OTA_OK, ""},
        {{1, {"general.alignment", U32, 32, NULL, NULL, 0}}, OTA_OK, ""},
        {{2, {"split.no", I64, 2, NULL, NULL, 0}}, OTA_OK, ""},
        {{0, {"split.no", U8, 1, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "m-00001-of-00003.gguf: is part 2 of 3"},
        {{0, {"split.no", U8, 3, NULL, NULL, 0}}, OTA_EMISMATCH, "and split.no is not below it"},
        {{0, {"split.no", -1, 0, NULL, NULL, 0}}, OTA_EMISMATCH, "and split.no is missing"},
        {{0, {"split.no", I8, 255, NULL, NULL, 0}},
         OTA_EFORMAT,
         "\"split.no\" must be an integer from"},
        {{0, {"split.no", F32, 0, NULL, NULL, 0}},
         OTA_EFORMAT,
         "\"split.no\" must be an integer from"},
        {{0, {"split.count", U32, 0x80000000, NULL, NULL, 0}},
         OTA_EFORMAT,
         "\"split.count\" must be an"},
        {{0, {"split.count", U32, 4097, NULL, NULL, 0}},
         OTA_ELIMIT,
         "above the limit of 4096 parts"},
        {{0, {"split.count", U32, 4096, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "is the first of 4096 parts"},
        {{0, {"split.count", U16, 4, NULL, NULL, 0}}, OTA_EMISMATCH, "in -00001-of-00004.gguf"},
        {{0, {"split.count", U16, 1, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "is 11, and there are 3 tensors"},
        {{0, {"split.tensors.count", -1, 0, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "split.tensors.count is missing"},
        {{1, {"split.tensors.count", U32, 9, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "is not the 11 of the first"},
        {{1, {"split.no", U16, 0, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "m-00002-of-00003.gguf: says that it is part 1 of 3"},
        {{2, {"split.count", U16, 7, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "m-00003-of-00003.gguf: says that it is part 3 of 7"},
        {{2, {"split.count", -1, 0, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "m-00003-of-00003.gguf: is no part of a model"},
        {{1, {"split.no", -1, 0, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "m-00002-of-00003.gguf: is no part of a model"},
        {{1, {"llama.block_count", U32, 2, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "the key \"llama.block_count\" is not that"},
        {{1, {"llama.block_count", I32, 1, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "the key \"llama.block_count\" is not that"},
        {{1, {"general.architecture", STRING, 0, "llam", NULL, 0}},
         OTA_EMISMATCH,
         "is not that of the first part"},
        {{2, {"split.noo", U16, 2, NULL, NULL, 0}},
         OTA_EMISMATCH,
         "the key \"split.noo\" is not that"},
    };
    bytes b;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        print_message("%zu %s\n", k, table[k].sentence);
        for (int part = 0; part < PARTS; part++) write_part(part, &table[k].change, &b);
        open_as("m-00001-of-00003.gguf", NULL, table[k].status, table[k].sentence);
    }
    for (int part = 0; part < PARTS; part++) write_part(part, NULL, &b);
    ota_model *model;
    assert_int_equal(ota_model_open(&model, "m-00001-of-00003.gguf", NULL, NULL), OTA_OK);
    assert_string_equal(ota_model_file(model, 0), "m-00001-of-00003.gguf");
    assert_string_equal(ota_model_file(model, 2), "m-00003-of-00003.gguf");
    assert_null(ota_model_file(model, 3));
    assert_null(ota_model_file(model, -1));
    int64_t found = 0;
    while (ota_model_tensor(model, found) != NULL) found++;
    assert_int_equal(found, TENSORS);
    ota_model_free(model);
    open_as("m-00003-of-00003.gguf", NULL, OTA_EMISMATCH, "m-00003-of-00003.gguf: is part 3 of 3");
    /* The last part ends anywhere, or is not there. */
    for (size_t cut = 0; cut < b.size; cut += 31) {
        put("m-00003-of-00003.gguf", b.data, cut);
        open_as("m-00001-of-00003.gguf", NULL, OTA_EFORMAT, "m-00003-of-00003.gguf");
    }
    assert_int_equal(unlink("m-00003-of-00003.gguf"), 0);
    open_as("m-00001-of-00003.gguf", NULL, OTA_EIO, "m-00003-of-00003.gguf: cannot be opened");
    assert_int_equal(rename("m-00001-of-00003.gguf", "m.gguf"), 0);
    open_as("m.gguf", NULL, OTA_EMISMATCH, "m.gguf: is the first of 3 parts");
}

/* ---- files under way, and names ---- */

static void test_a_file_changes_under_way(void **state) {
    (void)state;
    char text[16];
    ota_file file;
    ota_error error;
    put("a", "0123456789abcdef", 16);
    assert_int_equal(ota_file_open("a", true, &file, &error), OTA_OK);
    assert_int_equal(ota_file_read_at(&file, text, 16, 0, &error), OTA_OK);
    assert_int_equal(ota_file_recheck(&file, &error), OTA_OK);
    assert_int_equal(truncate("a", 10), 0);
    assert_int_equal(ota_file_read_at(&file, text, 8, 8, &error), OTA_EFORMAT);
    assert_string_equal(error.message, "a: at byte 10: the file ends 6 bytes too early");
    assert_int_equal(ota_file_recheck(&file, &error), OTA_EFORMAT);
    assert_string_equal(error.message,
                        "a: at byte 16: the file changed its size while it was read");
    ota_file_close(&file);
}

static void test_the_hub_cache(void **state) {
    (void)state;
    const ota_model_options options = {.size = sizeof options, .hub_cache = "."};
    const char *const none = "no such folder or file, nor a model in the hub cache";
    assert_int_equal(mkdir("models--a--b", 0700), 0);
    open_as("a/b", &options, OTA_EIO, none);
    static char long_name[5000];
    memset(long_name, 'n', sizeof long_name - 1);
    open_as(long_name, &options, OTA_EIO, none);
    assert_int_equal(mkdir("models--a--b/refs", 0700), 0);
    static const char *const revisions[] = {"", "../x", "none", "a.b"};
    for (size_t k = 0; k < sizeof revisions / sizeof *revisions; k++) {
        put("models--a--b/refs/main", revisions[k], strlen(revisions[k]));
        open_as("a/b", &options, OTA_EIO, none);
    }
    assert_int_equal(unlink("models--a--b/refs/main"), 0);
    assert_int_equal(rmdir("models--a--b/refs"), 0);
    put("a.txt", "x", 1);
    open_as("a.txt", NULL, OTA_EFORMAT, "a.txt: is neither a folder nor a .gguf file");
}

TEST_FILE(test_checkpoint_refusals) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_config),
        IN_FOLDER(test_limits_of_sizes),
        IN_FOLDER(test_weights_that_do_not_fit),
        IN_FOLDER(test_tensors_that_are_missing),
        IN_FOLDER(test_indices),
        IN_FOLDER(test_index_of_too_many_files),
        IN_FOLDER(test_gguf_pairs),
        IN_FOLDER(test_gguf_empty_texts),
        IN_FOLDER(test_gguf_tensors),
        IN_FOLDER(test_gguf_cuts),
        IN_FOLDER(test_gguf_parts),
        IN_FOLDER(test_a_file_changes_under_way),
        IN_FOLDER(test_the_hub_cache),
    };
    return cmocka_run_group_tests_name("checkpoint refusals", tests, NULL, NULL);
}
