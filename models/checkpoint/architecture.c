/* The table of architectures: one row a family, and nowhere else its name.
 *
 *   gpt2   x = E[id] + P[t];  x += O attention(norm x);  x += down gelu(up norm x);  logits = E norm x
 *   bert   x = norm(E[id] + P[t] + T[type]);  x = norm(x + O attention(x));  x = norm(x + down gelu(up x))
 *   llama  x = E[id];  x += O attention(rope, norm x);  x += down (silu(gate norm x) * up norm x)
 *   gemma3 x = sqrt(width) E[id];  x += norm(O attention(rope norm q, rope norm k, v));
 *          x += norm(down (gelu(gate norm x) * up norm x));  q, k, v of norm x; most layers see a window
 *
 * Matrices are [out, in]. Sources: the layout of hub checkpoints and of llama.cpp's gguf files. */
#include "config.h"

#include <string.h>

#define COUNT(table) (int)(sizeof(table) / sizeof *(table))
#define AT(field) offsetof(ota_config, field)
#define SIZE(word) (offsetof(ota_config, sizes) + sizeof(int64_t) * OTA_SIZE_##word)
#define LESS_ONE(role, hub, gguf, rows)                                                            \
    {                                                                                              \
        role, hub ".weight", gguf ".weight", OTA_SIZE_##rows, OTA_SIZE_NONE, OTA_LESS_ONE,         \
            OTA_ALONE, NULL                                                                        \
    }
#define NORM(role, hub, gguf)                                                                      \
    PLAIN(role, hub, gguf, WIDTH, NONE, 0), BIAS(role, hub, gguf, WIDTH, ALONE)
/* Files of the time before PyTorch call BERT's norms gamma and beta. */
#define LAYER_NORM(role, hub, gguf, group)                                                         \
    { role, hub ".weight", gguf, OTA_SIZE_WIDTH, OTA_SIZE_NONE, 0, group, hub ".gamma" }
#define LAYER_NORM_BIAS(role, hub, gguf, group)                                                    \
    { role##_BIAS, hub ".bias", gguf, OTA_SIZE_WIDTH, OTA_SIZE_NONE, 0, group, hub ".beta" }
#define LAYER_NORMS(role, hub, gguf)                                                               \
    LAYER_NORM(role, hub, gguf ".weight", OTA_ALONE),                                              \
        LAYER_NORM_BIAS(role, hub, gguf ".bias", OTA_ALONE)
#define LINEAR(role, hub, gguf, rows, columns, flags)                                              \
    PLAIN(role, hub, gguf, rows, columns, flags), BIAS(role, hub, gguf, rows, ALONE)
#define PLAIN(role, hub, gguf, rows, columns, flags)                                               \
    {                                                                                              \
        role, hub ".weight", gguf ".weight", OTA_SIZE_##rows, OTA_SIZE_##columns, flags,           \
            OTA_ALONE, NULL                                                                        \
    }
#define BIAS(role, hub, gguf, rows, group)                                                         \
    { role##_BIAS, hub ".bias", gguf ".bias", OTA_SIZE_##rows, OTA_SIZE_NONE, 0, OTA_##group, NULL }
#define INTEGER(hub, gguf, at, most, standard, gguf_standard)                                      \
    { hub, NULL, gguf, OTA_KEY_INTEGER, at, 1, most, standard, gguf_standard }
#define NEEDED(hub, gguf, at, most) INTEGER(hub, gguf, at, most, OTA_REQUIRED, OTA_REQUIRED)
#define RENAMED(hub, other, gguf, at, most)                                                        \
    { hub, other, gguf, OTA_KEY_INTEGER, at, 1, most, OTA_REQUIRED, OTA_REQUIRED }
#define REAL(hub, gguf, field, standard, gguf_standard)                                            \
    { hub, NULL, gguf, OTA_KEY_REAL, AT(field), 0, 0, standard, gguf_standard }
#define TRUTH(hub, gguf, field, standard)                                                          \
    { hub, NULL, gguf, OTA_KEY_TRUTH, AT(field), 0, 0, standard, standard }
/* In gguf files the head is the embedding where there is none. */
#define TIED(standard)                                                                             \
    { "tie_word_embeddings", NULL, NULL, OTA_KEY_TRUTH, AT(tied), 0, 0, standard, true }
/* No hub file has it. */
#define GGUF_ONLY(gguf, field, most) INTEGER(NULL, gguf, AT(field), most, 0, 0)

enum {
    MOST_LAYERS = OTA_LAYERS_MOST,
    MOST_HEADS = 1024,
    MOST_WIDTH = 65536,
    MOST_POSITIONS = 1 << 20
};
enum { MOST_WORDS = 1 << 20, MOST_INNER = 1 << 20 };

/* ---- GPT-2 ---- */

static const ota_config_key gpt2_keys[] = {
    RENAMED("n_layer", "num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    RENAMED("n_head", "num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    RENAMED("n_embd", "hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    RENAMED("n_positions", "max_position_embeddings", "context_length", SIZE(POSITIONS),
            MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    INTEGER("n_inner", "feed_forward_length", SIZE(INNER), MOST_INNER, 0, 0),
    REAL("layer_norm_epsilon", "attention.layer_norm_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    TIED(true),
    TRUTH("scale_attn_weights", NULL, scores.scaled, true),
    TRUTH("scale_attn_by_inverse_layer_idx", NULL, scores.scaled_by_layer, false),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
    GGUF_ONLY("attention.head_count_kv", kv_heads, MOST_HEADS),
    GGUF_ONLY("attention.key_length", head_width, MOST_WIDTH),
    GGUF_ONLY("attention.value_length", value_width, MOST_WIDTH),
};

static const ota_tensor_row gpt2_rows[] = {
    PLAIN(OTA_EMBED, "wte", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    PLAIN(OTA_POSITION, "wpe", "position_embd", POSITIONS, WIDTH, 0),
    NORM(OTA_NORM_1, "h.%lld.ln_1", "blk.%lld.attn_norm"),
    LINEAR(OTA_MERGED, "h.%lld.attn.c_attn", "blk.%lld.attn_qkv", MERGED, WIDTH, OTA_INPUT_MAJOR),
    LINEAR(OTA_OUTPUT, "h.%lld.attn.c_proj", "blk.%lld.attn_output", WIDTH, QUERY, OTA_INPUT_MAJOR),
    NORM(OTA_NORM_2, "h.%lld.ln_2", "blk.%lld.ffn_norm"),
    LINEAR(OTA_UP, "h.%lld.mlp.c_fc", "blk.%lld.ffn_up", INNER, WIDTH, OTA_INPUT_MAJOR),
    LINEAR(OTA_DOWN, "h.%lld.mlp.c_proj", "blk.%lld.ffn_down", WIDTH, INNER, OTA_INPUT_MAJOR),
    NORM(OTA_FINAL_NORM, "ln_f", "output_norm"),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

static const char *const gpt2_prefixes[] = {"transformer.", "", NULL};

/* ---- BERT ---- */

static const ota_config_key bert_keys[] = {
    NEEDED("num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    NEEDED("num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    NEEDED("hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", "context_length", SIZE(POSITIONS), MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    NEEDED("intermediate_size", "feed_forward_length", SIZE(INNER), MOST_INNER),
    INTEGER("type_vocab_size", "token_type_count", SIZE(TYPES), 1024, 2, 2),
    REAL("layer_norm_eps", "attention.layer_norm_epsilon", norm_epsilon, 1e-12, OTA_REQUIRED),
    TIED(true),
    TRUTH(NULL, NULL, scores.scaled, true),
    TRUTH("is_decoder", "attention.causal", scores.causal, false),
    GGUF_ONLY("attention.head_count_kv", kv_heads, MOST_HEADS),
    GGUF_ONLY("attention.key_length", head_width, MOST_WIDTH),
    GGUF_ONLY("attention.value_length", value_width, MOST_WIDTH),
};

static const ota_tensor_row bert_rows[] = {
    PLAIN(OTA_EMBED, "embeddings.word_embeddings", "token_embd", VOCABULARY, WIDTH,
          OTA_TIED_MAY_MISS),
    PLAIN(OTA_POSITION, "embeddings.position_embeddings", "position_embd", POSITIONS, WIDTH, 0),
    PLAIN(OTA_TYPE, "embeddings.token_type_embeddings", "token_types", TYPES, WIDTH, 0),
    LAYER_NORMS(OTA_EMBED_NORM, "embeddings.LayerNorm", "token_embd_norm"),
    LINEAR(OTA_QUERY, "encoder.layer.%lld.attention.self.query", "blk.%lld.attn_q", QUERY, WIDTH,
           0),
    LINEAR(OTA_KEY, "encoder.layer.%lld.attention.self.key", "blk.%lld.attn_k", KEY, WIDTH, 0),
    LINEAR(OTA_VALUE, "encoder.layer.%lld.attention.self.value", "blk.%lld.attn_v", KEY, WIDTH, 0),
    LINEAR(OTA_OUTPUT, "encoder.layer.%lld.attention.output.dense", "blk.%lld.attn_output", WIDTH,
           QUERY, 0),
    LAYER_NORMS(OTA_NORM_1, "encoder.layer.%lld.attention.output.LayerNorm",
                "blk.%lld.attn_output_norm"),
    LINEAR(OTA_UP, "encoder.layer.%lld.intermediate.dense", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    LINEAR(OTA_DOWN, "encoder.layer.%lld.output.dense", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    LAYER_NORMS(OTA_NORM_2, "encoder.layer.%lld.output.LayerNorm", "blk.%lld.layer_output_norm"),
    {OTA_HEAD_DENSE, "cls.predictions.transform.dense.weight", NULL, OTA_SIZE_WIDTH, OTA_SIZE_WIDTH,
     0, OTA_GROUP_HEAD, NULL},
    {OTA_HEAD_DENSE_BIAS, "cls.predictions.transform.dense.bias", NULL, OTA_SIZE_WIDTH,
     OTA_SIZE_NONE, 0, OTA_GROUP_HEAD, NULL},
    LAYER_NORM(OTA_HEAD_NORM, "cls.predictions.transform.LayerNorm", NULL, OTA_GROUP_HEAD),
    LAYER_NORM_BIAS(OTA_HEAD_NORM, "cls.predictions.transform.LayerNorm", NULL, OTA_GROUP_HEAD),
    {OTA_HEAD, "cls.predictions.decoder.weight", NULL, OTA_SIZE_VOCABULARY, OTA_SIZE_WIDTH,
     OTA_TIED_MAY_MISS, OTA_GROUP_HEAD, NULL},
    {OTA_HEAD_BIAS, "cls.predictions.decoder.bias", NULL, OTA_SIZE_VOCABULARY, OTA_SIZE_NONE,
     OTA_TIED_OTHER, OTA_GROUP_HEAD, "cls.predictions.bias"},
};

static const char *const bert_prefixes[] = {"bert.", "", NULL};

/* ---- Llama ---- */

static const ota_config_key llama_keys[] = {
    NEEDED("num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    NEEDED("num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    INTEGER("num_key_value_heads", "attention.head_count_kv", AT(kv_heads), MOST_HEADS, 0, 0),
    INTEGER("head_dim", "attention.key_length", AT(head_width), MOST_WIDTH, 0, 0),
    GGUF_ONLY("attention.value_length", value_width, MOST_WIDTH),
    GGUF_ONLY("rope.dimension_count", rotary_width, MOST_WIDTH),
    NEEDED("hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", "context_length", SIZE(POSITIONS), MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    NEEDED("intermediate_size", "feed_forward_length", SIZE(INNER), MOST_INNER),
    REAL("rms_norm_eps", "attention.layer_norm_rms_epsilon", norm_epsilon, 1e-6, OTA_REQUIRED),
    REAL("rope_theta", "rope.freq_base", rope.base, 10000, 10000),
    REAL(NULL, NULL, rope.local_base, 10000, 10000),
    TIED(false),
    TRUTH("attention_bias", NULL, biases.attention, false),
    TRUTH("mlp_bias", NULL, biases.mlp, false),
    TRUTH(NULL, NULL, scores.scaled, true),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
};

static const ota_tensor_row llama_rows[] = {
    PLAIN(OTA_EMBED, "embed_tokens", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    {OTA_ROPE_DIVISORS, NULL, "rope_freqs.weight", OTA_SIZE_PAIRS, OTA_SIZE_NONE, OTA_MAY_MISS,
     OTA_ALONE, NULL},
    PLAIN(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, WIDTH, 0),
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, GROUP_INPUT_BIAS),
    PLAIN(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, WIDTH, 0),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, GROUP_INPUT_BIAS),
    PLAIN(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY, WIDTH, 0),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY, GROUP_INPUT_BIAS),
    PLAIN(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH, QUERY, 0),
    BIAS(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH,
         GROUP_OUTPUT_BIAS),
    PLAIN(OTA_NORM_2, "layers.%lld.post_attention_layernorm", "blk.%lld.ffn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    BIAS(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, GROUP_MLP_BIAS),
    PLAIN(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, WIDTH, 0),
    BIAS(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, GROUP_MLP_BIAS),
    PLAIN(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    BIAS(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, GROUP_MLP_BIAS),
    PLAIN(OTA_FINAL_NORM, "norm", "output_norm", WIDTH, NONE, 0),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

static const char *const llama_prefixes[] = {"model.", "", NULL};

/* ---- Gemma 3 ---- */

static const ota_config_key gemma3_keys[] = {
    NEEDED("num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    NEEDED("num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    INTEGER("num_key_value_heads", "attention.head_count_kv", AT(kv_heads), MOST_HEADS, 4, 0),
    INTEGER("head_dim", "attention.key_length", AT(head_width), MOST_WIDTH, 256, 0),
    GGUF_ONLY("attention.value_length", value_width, MOST_WIDTH),
    GGUF_ONLY("rope.dimension_count", rotary_width, MOST_WIDTH),
    INTEGER("query_pre_attn_scalar", NULL, AT(query_scalar), MOST_WIDTH, 256, 0),
    INTEGER("sliding_window", "attention.sliding_window", AT(window), MOST_POSITIONS, 4096,
            OTA_REQUIRED),
    INTEGER("sliding_window_pattern", "attention.sliding_window_pattern", AT(local_period),
            MOST_LAYERS, 6, 6),
    NEEDED("hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", "context_length", SIZE(POSITIONS), MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    NEEDED("intermediate_size", "feed_forward_length", SIZE(INNER), MOST_INNER),
    REAL("rms_norm_eps", "attention.layer_norm_rms_epsilon", norm_epsilon, 1e-6, OTA_REQUIRED),
    REAL("rope_theta", "rope.freq_base", rope.base, 1000000, 10000),
    REAL("rope_local_base_freq", "rope.freq_base_swa", rope.local_base, 10000, 10000),
    TIED(true),
    TRUTH("attention_bias", NULL, biases.attention, false),
    TRUTH(NULL, NULL, scores.scaled, true),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
};

static const ota_tensor_row gemma3_rows[] = {
    PLAIN(OTA_EMBED, "embed_tokens", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    LESS_ONE(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm", WIDTH),
    PLAIN(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, WIDTH, 0),
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, GROUP_INPUT_BIAS),
    PLAIN(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, WIDTH, 0),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, GROUP_INPUT_BIAS),
    PLAIN(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY, WIDTH, 0),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY, GROUP_INPUT_BIAS),
    LESS_ONE(OTA_QUERY_NORM, "layers.%lld.self_attn.q_norm", "blk.%lld.attn_q_norm", HEAD),
    LESS_ONE(OTA_KEY_NORM, "layers.%lld.self_attn.k_norm", "blk.%lld.attn_k_norm", HEAD),
    PLAIN(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH, QUERY, 0),
    BIAS(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH,
         GROUP_OUTPUT_BIAS),
    LESS_ONE(OTA_NORM_1_BEHIND, "layers.%lld.post_attention_layernorm",
             "blk.%lld.post_attention_norm", WIDTH),
    LESS_ONE(OTA_NORM_2, "layers.%lld.pre_feedforward_layernorm", "blk.%lld.ffn_norm", WIDTH),
    PLAIN(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    PLAIN(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, WIDTH, 0),
    PLAIN(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    LESS_ONE(OTA_NORM_2_BEHIND, "layers.%lld.post_feedforward_layernorm", "blk.%lld.post_ffw_norm",
             WIDTH),
    LESS_ONE(OTA_FINAL_NORM, "norm", "output_norm", WIDTH),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

/* ---- the table ---- */

const ota_architecture ota_architectures[] = {
    {.name = "gpt2",
     .model_type = "gpt2",
     .prefixes = gpt2_prefixes,
     .activation = OTA_GELU_TANH,
     .activation_key = "activation_function",
     .keys = gpt2_keys,
     .rows = gpt2_rows,
     .key_count = COUNT(gpt2_keys),
     .row_count = COUNT(gpt2_rows)},
    {.name = "bert",
     .model_type = "bert",
     .prefixes = bert_prefixes,
     .traits = OTA_ARCH_POST_NORM,
     .activation = OTA_GELU,
     .activation_key = "hidden_act",
     .keys = bert_keys,
     .rows = bert_rows,
     .key_count = COUNT(bert_keys),
     .row_count = COUNT(bert_rows)},
    {.name = "llama",
     .model_type = "llama",
     .prefixes = llama_prefixes,
     .traits = OTA_ARCH_RMS | OTA_ARCH_ROTARY | OTA_ARCH_GATED | OTA_ARCH_INTERLEAVED_GGUF,
     .activation = OTA_SILU,
     .activation_key = "hidden_act",
     .keys = llama_keys,
     .rows = llama_rows,
     .key_count = COUNT(llama_keys),
     .row_count = COUNT(llama_rows)},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .prefixes = llama_prefixes,
     .traits = OTA_ARCH_RMS | OTA_ARCH_ROTARY | OTA_ARCH_GATED | OTA_ARCH_SCALED_EMBEDDING |
               OTA_ARCH_LOCAL,
     .wide_layers = 62, /* Gemma 3 27B */
     .activation = OTA_GELU_TANH,
     .activation_key = "hidden_activation",
     .keys = gemma3_keys,
     .rows = gemma3_rows,
     .key_count = COUNT(gemma3_keys),
     .row_count = COUNT(gemma3_rows)},
};
const int ota_architecture_count = COUNT(ota_architectures);

const ota_architecture *ota_architecture_named(const char *name, bool gguf) {
    for (int i = 0; i < ota_architecture_count; i++) {
        const ota_architecture *row = &ota_architectures[i];
        if (strcmp(gguf ? row->name : row->model_type, name) == 0) return row;
    }
    return NULL;
}
