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
    { role, hub ".weight", gguf ".weight", OTA_SIZE_##rows, OTA_SIZE_NONE, OTA_LESS_ONE }
#define NORM(role, hub, gguf)                                                                      \
    {role, hub ".weight", gguf ".weight", OTA_SIZE_WIDTH, OTA_SIZE_NONE, 0}, {                     \
        role##_BIAS, hub ".bias", gguf ".bias", OTA_SIZE_WIDTH, OTA_SIZE_NONE, 0                   \
    }
#define LINEAR(role, hub, gguf, rows, columns, flags)                                              \
    {role, hub ".weight", gguf ".weight", OTA_SIZE_##rows, OTA_SIZE_##columns, flags}, {           \
        role##_BIAS, hub ".bias", gguf ".bias", OTA_SIZE_##rows, OTA_SIZE_NONE,                    \
            (flags)&OTA_MAY_MISS                                                                   \
    }
#define PLAIN(role, hub, gguf, rows, columns, flags)                                               \
    { role, hub ".weight", gguf ".weight", OTA_SIZE_##rows, OTA_SIZE_##columns, flags }
#define BIAS(role, hub, gguf, rows)                                                                \
    { role##_BIAS, hub ".bias", gguf ".bias", OTA_SIZE_##rows, OTA_SIZE_NONE, OTA_MAY_MISS }

enum {
    MOST_LAYERS = OTA_LAYERS_MOST,
    MOST_HEADS = 1024,
    MOST_WIDTH = 65536,
    MOST_POSITIONS = 1 << 20
};
enum { MOST_WORDS = 1 << 20, MOST_INNER = 1 << 20 };

/* ---- GPT-2 ---- */

static const ota_size_key gpt2_keys[] = {
    {"n_layer", "block_count", AT(layers), 1, MOST_LAYERS, -1},
    {"n_head", "attention.head_count", AT(heads), 1, MOST_HEADS, -1},
    {"n_embd", "embedding_length", SIZE(WIDTH), 1, MOST_WIDTH, -1},
    {"n_positions", "context_length", SIZE(POSITIONS), 1, MOST_POSITIONS, -1},
    {"vocab_size", NULL, SIZE(VOCABULARY), 1, MOST_WORDS, -1},
    {"n_inner", "feed_forward_length", SIZE(INNER), 1, MOST_INNER, 0},
};

static const ota_tensor_row gpt2_rows[] = {
    PLAIN(OTA_EMBED, "wte", "token_embd", VOCABULARY, WIDTH, 0),
    PLAIN(OTA_POSITION, "wpe", "position_embd", POSITIONS, WIDTH, 0),
    NORM(OTA_NORM_1, "h.%lld.ln_1", "blk.%lld.attn_norm"),
    LINEAR(OTA_MERGED, "h.%lld.attn.c_attn", "blk.%lld.attn_qkv", MERGED, WIDTH, OTA_INPUT_MAJOR),
    LINEAR(OTA_OUTPUT, "h.%lld.attn.c_proj", "blk.%lld.attn_output", WIDTH, QUERY, OTA_INPUT_MAJOR),
    NORM(OTA_NORM_2, "h.%lld.ln_2", "blk.%lld.ffn_norm"),
    LINEAR(OTA_UP, "h.%lld.mlp.c_fc", "blk.%lld.ffn_up", INNER, WIDTH, OTA_INPUT_MAJOR),
    LINEAR(OTA_DOWN, "h.%lld.mlp.c_proj", "blk.%lld.ffn_down", WIDTH, INNER, OTA_INPUT_MAJOR),
    NORM(OTA_FINAL_NORM, "ln_f", "output_norm"),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_MAY_MISS),
};

static const char *const gpt2_prefixes[] = {"transformer.", "", NULL};

/* ---- BERT ---- */

static const ota_size_key bert_keys[] = {
    {"num_hidden_layers", "block_count", AT(layers), 1, MOST_LAYERS, -1},
    {"num_attention_heads", "attention.head_count", AT(heads), 1, MOST_HEADS, -1},
    {"hidden_size", "embedding_length", SIZE(WIDTH), 1, MOST_WIDTH, -1},
    {"max_position_embeddings", "context_length", SIZE(POSITIONS), 1, MOST_POSITIONS, -1},
    {"vocab_size", NULL, SIZE(VOCABULARY), 1, MOST_WORDS, -1},
    {"intermediate_size", "feed_forward_length", SIZE(INNER), 1, MOST_INNER, -1},
    {"type_vocab_size", "token_type_count", SIZE(TYPES), 1, 1024, 2},
};

static const ota_tensor_row bert_rows[] = {
    PLAIN(OTA_EMBED, "embeddings.word_embeddings", "token_embd", VOCABULARY, WIDTH, 0),
    PLAIN(OTA_POSITION, "embeddings.position_embeddings", "position_embd", POSITIONS, WIDTH, 0),
    PLAIN(OTA_TYPE, "embeddings.token_type_embeddings", "token_types", TYPES, WIDTH, 0),
    NORM(OTA_EMBED_NORM, "embeddings.LayerNorm", "token_embd_norm"),
    LINEAR(OTA_QUERY, "encoder.layer.%lld.attention.self.query", "blk.%lld.attn_q", QUERY, WIDTH,
           0),
    LINEAR(OTA_KEY, "encoder.layer.%lld.attention.self.key", "blk.%lld.attn_k", KEY, WIDTH, 0),
    LINEAR(OTA_VALUE, "encoder.layer.%lld.attention.self.value", "blk.%lld.attn_v", KEY, WIDTH, 0),
    LINEAR(OTA_OUTPUT, "encoder.layer.%lld.attention.output.dense", "blk.%lld.attn_output", WIDTH,
           QUERY, 0),
    NORM(OTA_NORM_1, "encoder.layer.%lld.attention.output.LayerNorm", "blk.%lld.attn_output_norm"),
    LINEAR(OTA_UP, "encoder.layer.%lld.intermediate.dense", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    LINEAR(OTA_DOWN, "encoder.layer.%lld.output.dense", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    NORM(OTA_NORM_2, "encoder.layer.%lld.output.LayerNorm", "blk.%lld.layer_output_norm"),
    {OTA_HEAD_DENSE, "cls.predictions.transform.dense.weight", NULL, OTA_SIZE_WIDTH, OTA_SIZE_WIDTH,
     OTA_MAY_MISS},
    {OTA_HEAD_DENSE_BIAS, "cls.predictions.transform.dense.bias", NULL, OTA_SIZE_WIDTH,
     OTA_SIZE_NONE, OTA_MAY_MISS},
    {OTA_HEAD_NORM, "cls.predictions.transform.LayerNorm.weight", NULL, OTA_SIZE_WIDTH,
     OTA_SIZE_NONE, OTA_MAY_MISS},
    {OTA_HEAD_NORM_BIAS, "cls.predictions.transform.LayerNorm.bias", NULL, OTA_SIZE_WIDTH,
     OTA_SIZE_NONE, OTA_MAY_MISS},
    {OTA_HEAD, "cls.predictions.decoder.weight", NULL, OTA_SIZE_VOCABULARY, OTA_SIZE_WIDTH,
     OTA_MAY_MISS},
    {OTA_HEAD_BIAS, "cls.predictions.bias", NULL, OTA_SIZE_VOCABULARY, OTA_SIZE_NONE, OTA_MAY_MISS},
};

static const char *const bert_prefixes[] = {"bert.", "", NULL};

/* ---- Llama ---- */

static const ota_size_key llama_keys[] = {
    {"num_hidden_layers", "block_count", AT(layers), 1, MOST_LAYERS, -1},
    {"num_attention_heads", "attention.head_count", AT(heads), 1, MOST_HEADS, -1},
    {"num_key_value_heads", "attention.head_count_kv", AT(kv_heads), 1, MOST_HEADS, 0},
    {"head_dim", "rope.dimension_count", AT(head_width), 1, MOST_WIDTH, 0},
    {"hidden_size", "embedding_length", SIZE(WIDTH), 1, MOST_WIDTH, -1},
    {"max_position_embeddings", "context_length", SIZE(POSITIONS), 1, MOST_POSITIONS, -1},
    {"vocab_size", NULL, SIZE(VOCABULARY), 1, MOST_WORDS, -1},
    {"intermediate_size", "feed_forward_length", SIZE(INNER), 1, MOST_INNER, -1},
};

static const ota_tensor_row llama_rows[] = {
    PLAIN(OTA_EMBED, "embed_tokens", "token_embd", VOCABULARY, WIDTH, 0),
    {OTA_ROPE_DIVISORS, NULL, "rope_freqs.weight", OTA_SIZE_PAIRS, OTA_SIZE_NONE, OTA_MAY_MISS},
    PLAIN(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, WIDTH, 0),
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY),
    PLAIN(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, WIDTH, 0),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY),
    PLAIN(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY, WIDTH, 0),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY),
    PLAIN(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH, QUERY, 0),
    BIAS(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH),
    PLAIN(OTA_NORM_2, "layers.%lld.post_attention_layernorm", "blk.%lld.ffn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    BIAS(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER),
    PLAIN(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, WIDTH, 0),
    BIAS(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER),
    PLAIN(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    BIAS(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH),
    PLAIN(OTA_FINAL_NORM, "norm", "output_norm", WIDTH, NONE, 0),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_MAY_MISS),
};

static const char *const llama_prefixes[] = {"model.", "", NULL};

/* ---- Gemma 3 ---- */

static const ota_size_key gemma3_keys[] = {
    {"num_hidden_layers", "block_count", AT(layers), 1, MOST_LAYERS, -1},
    {"num_attention_heads", "attention.head_count", AT(heads), 1, MOST_HEADS, -1},
    {"num_key_value_heads", "attention.head_count_kv", AT(kv_heads), 1, MOST_HEADS, 4},
    {"head_dim", "attention.key_length", AT(head_width), 1, MOST_WIDTH, 256},
    {NULL, "attention.value_length", AT(value_width), 1, MOST_WIDTH, 0},
    {"query_pre_attn_scalar", NULL, AT(query_scalar), 1, MOST_WIDTH, 256},
    {"sliding_window", "attention.sliding_window", AT(window), 1, MOST_POSITIONS, 0},
    {"sliding_window_pattern", "attention.sliding_window_pattern", AT(local_period), 1, MOST_LAYERS,
     6},
    {"hidden_size", "embedding_length", SIZE(WIDTH), 1, MOST_WIDTH, -1},
    {"max_position_embeddings", "context_length", SIZE(POSITIONS), 1, MOST_POSITIONS, -1},
    {"vocab_size", NULL, SIZE(VOCABULARY), 1, MOST_WORDS, -1},
    {"intermediate_size", "feed_forward_length", SIZE(INNER), 1, MOST_INNER, -1},
};

static const ota_tensor_row gemma3_rows[] = {
    PLAIN(OTA_EMBED, "embed_tokens", "token_embd", VOCABULARY, WIDTH, 0),
    {OTA_ROPE_DIVISORS, NULL, "rope_freqs.weight", OTA_SIZE_PAIRS, OTA_SIZE_NONE, OTA_MAY_MISS},
    LESS_ONE(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm", WIDTH),
    PLAIN(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, WIDTH, 0),
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY),
    PLAIN(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, WIDTH, 0),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY),
    PLAIN(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY, WIDTH, 0),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", KEY),
    LESS_ONE(OTA_QUERY_NORM, "layers.%lld.self_attn.q_norm", "blk.%lld.attn_q_norm", HEAD),
    LESS_ONE(OTA_KEY_NORM, "layers.%lld.self_attn.k_norm", "blk.%lld.attn_k_norm", HEAD),
    PLAIN(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH, QUERY, 0),
    BIAS(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH),
    LESS_ONE(OTA_NORM_1_BEHIND, "layers.%lld.post_attention_layernorm",
             "blk.%lld.post_attention_norm", WIDTH),
    LESS_ONE(OTA_NORM_2, "layers.%lld.pre_feedforward_layernorm", "blk.%lld.ffn_norm", WIDTH),
    PLAIN(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    PLAIN(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, WIDTH, 0),
    PLAIN(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    LESS_ONE(OTA_NORM_2_BEHIND, "layers.%lld.post_feedforward_layernorm", "blk.%lld.post_ffw_norm",
             WIDTH),
    LESS_ONE(OTA_FINAL_NORM, "norm", "output_norm", WIDTH),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_MAY_MISS),
};

/* ---- the table ---- */

const ota_architecture ota_architectures[] = {
    {.name = "gpt2",
     .model_type = "gpt2",
     .prefixes = gpt2_prefixes,
     .causal = true,
     .activation = OTA_GELU_TANH,
     .epsilon_key = "layer_norm_epsilon",
     .gguf_epsilon_key = "attention.layer_norm_epsilon",
     .activation_key = "activation_function",
     .tied_by_default = true,
     .keys = gpt2_keys,
     .rows = gpt2_rows,
     .key_count = COUNT(gpt2_keys),
     .row_count = COUNT(gpt2_rows)},
    {.name = "bert",
     .model_type = "bert",
     .prefixes = bert_prefixes,
     .post_norm = true,
     .activation = OTA_GELU,
     .epsilon_key = "layer_norm_eps",
     .gguf_epsilon_key = "attention.layer_norm_epsilon",
     .activation_key = "hidden_act",
     .tied_by_default = true,
     .keys = bert_keys,
     .rows = bert_rows,
     .key_count = COUNT(bert_keys),
     .row_count = COUNT(bert_rows)},
    {.name = "llama",
     .model_type = "llama",
     .prefixes = llama_prefixes,
     .rms = true,
     .rotary = true,
     .gated = true,
     .causal = true,
     .interleaved_gguf = true,
     .activation = OTA_SILU,
     .rope_base = 10000,
     .epsilon_key = "rms_norm_eps",
     .gguf_epsilon_key = "attention.layer_norm_rms_epsilon",
     .activation_key = "hidden_act",
     .keys = llama_keys,
     .rows = llama_rows,
     .key_count = COUNT(llama_keys),
     .row_count = COUNT(llama_rows)},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .prefixes = llama_prefixes,
     .rms = true,
     .rotary = true,
     .gated = true,
     .causal = true,
     .scaled_embedding = true,
     .local = true,
     .activation = OTA_GELU_TANH,
     .rope_base = 1000000,
     .epsilon_key = "rms_norm_eps",
     .gguf_epsilon_key = "attention.layer_norm_rms_epsilon",
     .activation_key = "hidden_activation",
     .tied_by_default = true,
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
