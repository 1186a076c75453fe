/* Llama and its relatives.
 *
 *   llama     x = E[id];  x += O attention(rope, norm x);  x += down (silu(gate norm x) * up norm x)
 *   mistral   the same, and every layer sees a window
 *   qwen2     biases of queries, keys and values; layers from some on may see a window
 *   qwen3     a norm of every head's queries and keys
 *   phi3      gate and up in one matrix, queries, keys and values in another; a part of each head is rotated
 *   olmo2     x += norm(O attention(rope norm q, rope norm k, v));  x += norm(MLP x);  norms of all heads at once
 *   smollm3   each fourth layer has no positions
 *   mixtral   the MLPs of some experts for every token, weighed by softmax(router norm x) of those
 *   qwen2_moe the same with the biases of qwen2, and an MLP that every token has, times 1 / (1 + exp(-w x)); layers may be no mixtures
 *   qwen3_moe the same with the norms of qwen3 and without that MLP
 *   gpt_oss   a mixture with biases and an activation of its own; a sink logit of each head; each second layer sees a window
 *   granite   embedding, scores, what blocks add and logits are scaled */
#include "rows.h"

/* ---- Llama ---- */

static const ota_config_key base_keys[] = {ROTARY_KEYS};

static const ota_config_key attention_bias_key[] = {
    TRUTH("attention_bias", NULL, biases.attention, false),
};

static const ota_config_key mlp_bias_key[] = {
    TRUTH("mlp_bias", NULL, biases.mlp, false),
};

static const ota_tensor_row embed_rows[] = {
    PLAIN(OTA_EMBED, "embed_tokens", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    {OTA_ROPE_DIVISORS, NULL, "rope_freqs.weight", OTA_SIZE_PAIRS, OTA_SIZE_NONE, OTA_MAY_MISS,
     OTA_ALONE, NULL},
};

static const ota_tensor_row end_rows[] = {
    PLAIN(OTA_FINAL_NORM, "norm", "output_norm", WIDTH, NONE, 0),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

static const ota_tensor_row norm_rows[] = {
    PLAIN(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_NORM_2, "layers.%lld.post_attention_layernorm", "blk.%lld.ffn_norm", WIDTH, NONE, 0),
};

static const ota_tensor_row attention_rows[] = {
    PLAIN(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, WIDTH, 0),
    PLAIN(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, WIDTH, 0),
    PLAIN(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", VALUE, WIDTH, 0),
    PLAIN(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH, MIXED, 0),
};

static const ota_tensor_row attention_bias_rows[] = {
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, GROUP_INPUT_BIAS),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, GROUP_INPUT_BIAS),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", VALUE, GROUP_INPUT_BIAS),
    BIAS(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH,
         GROUP_OUTPUT_BIAS),
};

static const ota_tensor_row mlp_rows[] = {
    PLAIN(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, WIDTH, OTA_OF_DENSE),
    PLAIN(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, WIDTH, OTA_OF_DENSE),
    PLAIN(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, INNER, OTA_OF_DENSE),
};

static const ota_tensor_row mlp_bias_rows[] = {
    BIAS(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, GROUP_MLP_BIAS),
    BIAS(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, GROUP_MLP_BIAS),
    BIAS(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, GROUP_MLP_BIAS),
};

/* Gguf files of Mixtral call themselves llama. */
static const ota_config_key gguf_mixture_keys[] = {
    {NULL, NULL, "expert_count", OTA_KEY_INTEGER, SIZE(EXPERTS), 0, MOST_EXPERTS, 0, 0},
    {NULL, NULL, "expert_used_count", OTA_KEY_INTEGER, AT(experts.chosen), 0, MOST_EXPERTS, 0, 0},
    ALWAYS(TRUTH, experts.normalised, true),
};

static const ota_tensor_row gguf_mixture_rows[] = {
    {OTA_ROUTER, NULL, "blk.%lld.ffn_gate_inp.weight", OTA_SIZE_EXPERTS, OTA_SIZE_WIDTH,
     OTA_OF_MIXTURE, OTA_ALONE, NULL},
    GGUF_PART(OTA_EXPERT_GATE, "blk.%lld.ffn_gate_exps.weight", EXPERT_INNER, WIDTH),
    GGUF_PART(OTA_EXPERT_UP, "blk.%lld.ffn_up_exps.weight", EXPERT_INNER, WIDTH),
    GGUF_PART(OTA_EXPERT_DOWN, "blk.%lld.ffn_down_exps.weight", WIDTH, EXPERT_INNER),
};

static const char *const prefixes[] = {"model.", "", NULL};

/* ---- Mistral ---- */

static const ota_config_key mistral_keys[] = {
    INTEGER_OR_NULL("sliding_window", NULL, AT(local.window), MOST_POSITIONS, 4096, 0),
    ALWAYS(TRUTH, local.windowed, true),
    ALWAYS(INTEGER, local.period, EVERY_LAYER),
};

/* ---- Qwen 2 and 3 ---- */

static const ota_config_key qwen_keys[] = {
    TRUTH("use_sliding_window", NULL, local.windowed, false),
    INTEGER_OR_NULL("sliding_window", NULL, AT(local.window), MOST_POSITIONS, 4096, 0),
    {"max_window_layers", NULL, NULL, OTA_KEY_INTEGER_OR_NULL, AT(local.first), 0, MOST_LAYERS, 28,
     0},
    ALWAYS(INTEGER, local.period, EVERY_LAYER),
};

static const ota_config_key qwen3_keys[] = {
    INTEGER("head_dim", "attention.key_length", AT(head_width), MOST_WIDTH, 128, 0),
};

static const ota_tensor_row qwen2_rows[] = {
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, ALONE),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, ALONE),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", VALUE, ALONE),
};

static const ota_tensor_row qwen3_rows[] = {
    PLAIN(OTA_QUERY_NORM, "layers.%lld.self_attn.q_norm", "blk.%lld.attn_q_norm", HEAD, NONE, 0),
    PLAIN(OTA_KEY_NORM, "layers.%lld.self_attn.k_norm", "blk.%lld.attn_k_norm", HEAD, NONE, 0),
};

/* ---- Phi-3 ---- */

static const ota_config_key phi3_keys[] = {
    REAL("rms_norm_eps", "attention.layer_norm_rms_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    REAL("partial_rotary_factor", NULL, rope.share, 1, 0),
    INTEGER_OR_NULL("sliding_window", "attention.sliding_window", AT(local.window), MOST_POSITIONS,
                    0, 0),
    ALWAYS(TRUTH, local.windowed, true),
    ALWAYS(INTEGER, local.period, EVERY_LAYER),
    REAL("original_max_position_embeddings", NULL, rope.scaling.original, 4096, 0),
};

static const ota_tensor_row phi3_rows[] = {
    PLAIN(OTA_EMBED, "embed_tokens", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    {OTA_ROPE_SHORTER, NULL, "rope_factors_short.weight", OTA_SIZE_PAIRS, OTA_SIZE_NONE, 0,
     OTA_GROUP_LONG, NULL},
    {OTA_ROPE_LONGER, NULL, "rope_factors_long.weight", OTA_SIZE_PAIRS, OTA_SIZE_NONE, 0,
     OTA_GROUP_LONG, NULL},
    PLAIN(OTA_MERGED, "layers.%lld.self_attn.qkv_proj", "blk.%lld.attn_qkv", MERGED, WIDTH, 0),
    PLAIN(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH, MIXED, 0),
    PLAIN(OTA_GATE, "layers.%lld.mlp.gate_up_proj", "blk.%lld.ffn_up", INNER, WIDTH,
          OTA_FIRST_HALF),
    PLAIN(OTA_UP, "layers.%lld.mlp.gate_up_proj", "blk.%lld.ffn_up", INNER, WIDTH, OTA_SECOND_HALF),
    PLAIN(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    PLAIN(OTA_FINAL_NORM, "norm", "output_norm", WIDTH, NONE, 0),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

/* ---- OLMo 2 ---- */

static const ota_config_key olmo2_keys[] = {
    REAL("rms_norm_eps", "attention.layer_norm_rms_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
};

static const ota_tensor_row olmo2_rows[] = {
    PLAIN(OTA_QUERY_NORM, "layers.%lld.self_attn.q_norm", "blk.%lld.attn_q_norm", QUERY, NONE, 0),
    PLAIN(OTA_KEY_NORM, "layers.%lld.self_attn.k_norm", "blk.%lld.attn_k_norm", KEY, NONE, 0),
    PLAIN(OTA_NORM_1_BEHIND, "layers.%lld.post_attention_layernorm", "blk.%lld.post_attention_norm",
          WIDTH, NONE, 0),
    PLAIN(OTA_NORM_2_BEHIND, "layers.%lld.post_feedforward_layernorm", "blk.%lld.post_ffw_norm",
          WIDTH, NONE, 0),
};

/* ---- SmolLM 3 ---- */

static const ota_config_key smollm3_keys[] = {
    INTEGER_OR_NULL("num_key_value_heads", "attention.head_count_kv", AT(kv_heads), MOST_HEADS, 4,
                    0),
    TRUTH("use_sliding_window", NULL, local.windowed, false),
    INTEGER_OR_NULL("sliding_window", NULL, AT(local.window), MOST_POSITIONS, 0, 0),
    /* Where no list says it, layers without positions are those that see a window. */
    ALWAYS(INTEGER, local.period, EVERY_LAYER),
    INTEGER("no_rope_layer_interval", NULL, AT(rope.spared_period), MOST_LAYERS, 4, 4),
    REAL("rope_theta", "rope.freq_base", rope.base, 2000000, 10000),
    TIED(true),
};

/* ---- Granite ---- */

static const ota_config_key granite_keys[] = {
    REAL("embedding_multiplier", "embedding_scale", factors.embedding, 1, 1),
    REAL("residual_multiplier", "residual_scale", factors.branch, 1, 1),
    REAL("attention_multiplier", "attention.scale", scores.factor, 1, 0),
    REAL("logits_scaling", "logit_scale", factors.logits, 1, 1),
};

/* ---- mixtures ---- */

static const ota_config_key mixtral_keys[] = {
    INTEGER("num_local_experts", NULL, SIZE(EXPERTS), MOST_EXPERTS, 8, 0),
    INTEGER("num_experts_per_tok", NULL, AT(experts.chosen), MOST_EXPERTS, 2, 0),
    ALWAYS(TRUTH, experts.normalised, true),
    REAL("rms_norm_eps", NULL, norm_epsilon, 1e-5, 0),
    REAL("rope_theta", NULL, rope.base, 1000000, 0),
    INTEGER_OR_NULL("sliding_window", NULL, AT(local.window), MOST_POSITIONS, 0, 0),
    ALWAYS(TRUTH, local.windowed, true),
    ALWAYS(INTEGER, local.period, EVERY_LAYER),
};

static const ota_tensor_row mixtral_rows[] = {
    HUB_PLAIN(OTA_ROUTER, "layers.%lld.block_sparse_moe.gate", EXPERTS, WIDTH, 0),
    HUB_PLAIN(OTA_EXPERT_GATE, "layers.%lld.block_sparse_moe.experts.%lld.w1", EXPERT_INNER, WIDTH,
              0),
    HUB_PLAIN(OTA_EXPERT_UP, "layers.%lld.block_sparse_moe.experts.%lld.w3", EXPERT_INNER, WIDTH,
              0),
    HUB_PLAIN(OTA_EXPERT_DOWN, "layers.%lld.block_sparse_moe.experts.%lld.w2", WIDTH, EXPERT_INNER,
              0),
};

static const ota_config_key qwen2_moe_keys[] = {
    INTEGER("num_experts", "expert_count", SIZE(EXPERTS), MOST_EXPERTS, 60, OTA_REQUIRED),
    INTEGER("num_experts_per_tok", "expert_used_count", AT(experts.chosen), MOST_EXPERTS, 4,
            OTA_REQUIRED),
    INTEGER("moe_intermediate_size", "expert_feed_forward_length", SIZE(EXPERT_INNER), MOST_INNER,
            1408, OTA_REQUIRED),
    INTEGER("shared_expert_intermediate_size", "expert_shared_feed_forward_length",
            SIZE(SHARED_INNER), MOST_INNER, 5632, OTA_REQUIRED),
    {"norm_topk_prob", NULL, NULL, OTA_KEY_TRUTH, AT(experts.normalised), 0, 0, false, false},
    INTEGER("decoder_sparse_step", NULL, AT(experts.period), MOST_LAYERS, 1, 0),
    TRUTH("qkv_bias", NULL, biases.attention, true),
    TRUTH("use_sliding_window", NULL, local.windowed, false),
    {"sliding_window", NULL, NULL, OTA_KEY_INTEGER_OR_NULL, AT(local.window), 0, MOST_POSITIONS,
     4096, 0},
    /* Where no list says it, every second layer is local, up to some layer. */
    {"max_window_layers", NULL, NULL, OTA_KEY_INTEGER_OR_NULL, AT(local.end), 0, MOST_LAYERS, 28,
     0},
    ALWAYS(INTEGER, local.period, 2),
};

static const ota_tensor_row qwen2_moe_rows[] = {
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, GROUP_INPUT_BIAS),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, GROUP_INPUT_BIAS),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", VALUE, GROUP_INPUT_BIAS),
    PLAIN(OTA_SHARED_GATE, "layers.%lld.mlp.shared_expert.gate_proj", "blk.%lld.ffn_gate_shexp",
          SHARED_INNER, WIDTH, OTA_OF_MIXTURE),
    PLAIN(OTA_SHARED_UP, "layers.%lld.mlp.shared_expert.up_proj", "blk.%lld.ffn_up_shexp",
          SHARED_INNER, WIDTH, OTA_OF_MIXTURE),
    PLAIN(OTA_SHARED_DOWN, "layers.%lld.mlp.shared_expert.down_proj", "blk.%lld.ffn_down_shexp",
          WIDTH, SHARED_INNER, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_SHARED_ROUTER, "layers.%lld.mlp.shared_expert_gate", ONE, WIDTH, OTA_OF_MIXTURE),
    {OTA_SHARED_ROUTER, NULL, "blk.%lld.ffn_gate_inp_shexp.weight", OTA_SIZE_WIDTH, OTA_SIZE_NONE,
     OTA_OF_MIXTURE, OTA_ALONE, NULL},
};

static const ota_config_key qwen3_moe_keys[] = {
    {"num_local_experts", "num_experts", "expert_count", OTA_KEY_INTEGER, SIZE(EXPERTS), 1,
     MOST_EXPERTS, 128, OTA_REQUIRED},
    INTEGER("num_experts_per_tok", "expert_used_count", AT(experts.chosen), MOST_EXPERTS, 8,
            OTA_REQUIRED),
    INTEGER("moe_intermediate_size", "expert_feed_forward_length", SIZE(EXPERT_INNER), MOST_INNER,
            768, OTA_REQUIRED),
    {"norm_topk_prob", NULL, NULL, OTA_KEY_TRUTH, AT(experts.normalised), 0, 0, false, true},
    INTEGER("decoder_sparse_step", NULL, AT(experts.period), MOST_LAYERS, 1, 0),
    /* Unlike its smaller relative's. */
    INTEGER("head_dim", "attention.key_length", AT(head_width), MOST_WIDTH, 0, 0),
};

static const ota_tensor_row qwen3_moe_rows[] = {
    PLAIN(OTA_ROUTER, "layers.%lld.mlp.gate", "blk.%lld.ffn_gate_inp", EXPERTS, WIDTH,
          OTA_OF_MIXTURE),
    PLAIN(OTA_EXPERT_GATE, "layers.%lld.mlp.experts.%lld.gate_proj", "blk.%lld.ffn_gate_exps",
          EXPERT_INNER, WIDTH, OTA_OF_MIXTURE),
    PLAIN(OTA_EXPERT_UP, "layers.%lld.mlp.experts.%lld.up_proj", "blk.%lld.ffn_up_exps",
          EXPERT_INNER, WIDTH, OTA_OF_MIXTURE),
    PLAIN(OTA_EXPERT_DOWN, "layers.%lld.mlp.experts.%lld.down_proj", "blk.%lld.ffn_down_exps",
          WIDTH, EXPERT_INNER, OTA_OF_MIXTURE),
};

/* ---- gpt-oss ---- */

static const ota_config_key gpt_oss_keys[] = {
    INTEGER("num_key_value_heads", "attention.head_count_kv", AT(kv_heads), MOST_HEADS, 8, 0),
    INTEGER("head_dim", "attention.key_length", AT(head_width), MOST_WIDTH, 64, 0),
    {"num_local_experts", "num_experts", "expert_count", OTA_KEY_INTEGER, SIZE(EXPERTS), 1,
     MOST_EXPERTS, 128, OTA_REQUIRED},
    {"num_experts_per_tok", "experts_per_token", "expert_used_count", OTA_KEY_INTEGER,
     AT(experts.chosen), 1, MOST_EXPERTS, 4, OTA_REQUIRED},
    INTEGER(NULL, "expert_feed_forward_length", SIZE(EXPERT_INNER), MOST_INNER, 0, 0),
    ALWAYS(TRUTH, experts.normalised, true),
    REAL("swiglu_limit", NULL, experts.limit, 7, 7),
    REAL("swiglu_alpha", NULL, experts.slope, 1.702, 1.702),
    REAL("rms_norm_eps", "attention.layer_norm_rms_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    REAL("rope_theta", "rope.freq_base", rope.base, 150000, 10000),
    INTEGER_OR_NULL("sliding_window", "attention.sliding_window", AT(local.window), MOST_POSITIONS,
                    128, 0),
    ALWAYS(TRUTH, local.windowed, true),
    ALWAYS(INTEGER, local.period, 2),
    TRUTH("attention_bias", NULL, biases.attention, true),
};

static const ota_tensor_row gpt_oss_rows[] = {
    PLAIN(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_NORM_2, "layers.%lld.post_attention_layernorm", "blk.%lld.post_attention_norm", WIDTH,
          NONE, 0),
    {OTA_SINKS, "layers.%lld.self_attn.sinks", "blk.%lld.attn_sinks.weight", OTA_SIZE_HEADS,
     OTA_SIZE_NONE, 0, OTA_ALONE, NULL},
    LINEAR(OTA_ROUTER, "layers.%lld.mlp.router", "blk.%lld.ffn_gate_inp", EXPERTS, WIDTH, 0),
    {OTA_EXPERT_MERGED, "layers.%lld.mlp.experts.gate_up_proj", NULL, OTA_SIZE_EXPERT_MERGED,
     OTA_SIZE_WIDTH, OTA_STACKED | OTA_INPUT_MAJOR | OTA_UNPACKED, OTA_ALONE, NULL},
    {OTA_EXPERT_MERGED, "layers.%lld.mlp.experts.gate_up_proj_blocks", NULL, OTA_SIZE_EXPERT_MERGED,
     OTA_SIZE_WIDTH, OTA_PACKED, OTA_ALONE, "layers.%lld.mlp.experts.gate_up_proj_scales"},
    {OTA_EXPERT_DOWN, "layers.%lld.mlp.experts.down_proj_blocks", NULL, OTA_SIZE_WIDTH,
     OTA_SIZE_EXPERT_INNER, OTA_PACKED, OTA_ALONE, "layers.%lld.mlp.experts.down_proj_scales"},
    {OTA_EXPERT_MERGED_BIAS, "layers.%lld.mlp.experts.gate_up_proj_bias", NULL,
     OTA_SIZE_EXPERT_MERGED, OTA_SIZE_NONE, OTA_STACKED, OTA_ALONE, NULL},
    GGUF_PART(OTA_EXPERT_GATE, "blk.%lld.ffn_gate_exps.weight", EXPERT_INNER, WIDTH),
    GGUF_PART(OTA_EXPERT_GATE_BIAS, "blk.%lld.ffn_gate_exps.bias", EXPERT_INNER, NONE),
    GGUF_PART(OTA_EXPERT_UP, "blk.%lld.ffn_up_exps.weight", EXPERT_INNER, WIDTH),
    GGUF_PART(OTA_EXPERT_UP_BIAS, "blk.%lld.ffn_up_exps.bias", EXPERT_INNER, NONE),
    {OTA_EXPERT_DOWN, "layers.%lld.mlp.experts.down_proj", "blk.%lld.ffn_down_exps.weight",
     OTA_SIZE_WIDTH, OTA_SIZE_EXPERT_INNER, OTA_STACKED | OTA_INPUT_MAJOR | OTA_UNPACKED, OTA_ALONE,
     NULL},
    {OTA_EXPERT_DOWN_BIAS, "layers.%lld.mlp.experts.down_proj_bias", "blk.%lld.ffn_down_exps.bias",
     OTA_SIZE_WIDTH, OTA_SIZE_NONE, OTA_STACKED, OTA_ALONE, NULL},
};

/* ---- the table ---- */

#define LLAMA_TRAITS (OTA_ARCH_RMS | OTA_ARCH_ROTARY | OTA_ARCH_GATED)
#define LLAMA(word, type)                                                                          \
    .name = word, .model_type = type, .prefixes = prefixes, .activation = OTA_SILU,                \
    .activation_key = "hidden_act"

const ota_architecture ota_llama_family[] = {
    {LLAMA("llama", "llama"), .traits = LLAMA_TRAITS | OTA_ARCH_INTERLEAVED_GGUF,
     .keys = {LIST(base_keys), LIST(attention_bias_key), LIST(mlp_bias_key),
              LIST(gguf_mixture_keys)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(attention_bias_rows),
              LIST(mlp_rows), LIST(mlp_bias_rows), LIST(gguf_mixture_rows), LIST(end_rows)}},
    /* Converted files of it call themselves llama, and say nothing of a window. */
    {LLAMA("mistral", "mistral"), .traits = LLAMA_TRAITS | OTA_ARCH_HUB_ALONE,
     .keys = {LIST(base_keys), LIST(mistral_keys)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(mlp_rows),
              LIST(end_rows)}},
    {LLAMA("qwen2", "qwen2"), .traits = LLAMA_TRAITS | OTA_ARCH_LAYER_TYPES,
     .keys = {LIST(base_keys), LIST(qwen_keys)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(qwen2_rows),
              LIST(mlp_rows), LIST(end_rows)}},
    {LLAMA("qwen3", "qwen3"), .traits = LLAMA_TRAITS | OTA_ARCH_LAYER_TYPES,
     .keys = {LIST(base_keys), LIST(qwen_keys), LIST(qwen3_keys), LIST(attention_bias_key)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(attention_bias_rows),
              LIST(qwen3_rows), LIST(mlp_rows), LIST(end_rows)}},
    {LLAMA("phi3", "phi3"), .traits = LLAMA_TRAITS | OTA_ARCH_PARTIAL,
     .keys = {LIST(base_keys), LIST(phi3_keys)}, .rows = {LIST(norm_rows), LIST(phi3_rows)}},
    {LLAMA("olmo2", "olmo2"), .traits = LLAMA_TRAITS,
     .keys = {LIST(base_keys), LIST(olmo2_keys), LIST(attention_bias_key)},
     .rows = {LIST(embed_rows), LIST(attention_rows), LIST(attention_bias_rows), LIST(olmo2_rows),
              LIST(mlp_rows), LIST(end_rows)}},
    {LLAMA("smollm3", "smollm3"),
     .traits = LLAMA_TRAITS | OTA_ARCH_LAYER_TYPES | OTA_ARCH_SPARED | OTA_ARCH_INTERLEAVED_GGUF,
     .keys = {LIST(base_keys), LIST(smollm3_keys), LIST(attention_bias_key), LIST(mlp_bias_key)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(attention_bias_rows),
              LIST(mlp_rows), LIST(mlp_bias_rows), LIST(end_rows)}},
    {LLAMA("granite", "granite"), .traits = LLAMA_TRAITS | OTA_ARCH_INTERLEAVED_GGUF,
     .keys = {LIST(base_keys), LIST(granite_keys), LIST(attention_bias_key), LIST(mlp_bias_key)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(attention_bias_rows),
              LIST(mlp_rows), LIST(mlp_bias_rows), LIST(end_rows)}},
    {LLAMA("mixtral", "mixtral"), .traits = LLAMA_TRAITS | OTA_ARCH_HUB_ALONE,
     .keys = {LIST(base_keys), LIST(mixtral_keys)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(mixtral_rows),
              LIST(end_rows)}},
    {LLAMA("qwen2moe", "qwen2_moe"),
     .traits = LLAMA_TRAITS | OTA_ARCH_LAYER_TYPES | OTA_ARCH_DENSE_LAYERS,
     .keys = {LIST(base_keys), LIST(qwen2_moe_keys)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(qwen2_moe_rows),
              LIST(qwen3_moe_rows), LIST(mlp_rows), LIST(end_rows)}},
    {LLAMA("qwen3moe", "qwen3_moe"),
     .traits = LLAMA_TRAITS | OTA_ARCH_LAYER_TYPES | OTA_ARCH_DENSE_LAYERS,
     .keys = {LIST(base_keys), LIST(qwen_keys), LIST(qwen3_moe_keys), LIST(attention_bias_key)},
     .rows = {LIST(embed_rows), LIST(norm_rows), LIST(attention_rows), LIST(attention_bias_rows),
              LIST(qwen3_rows), LIST(qwen3_moe_rows), LIST(mlp_rows), LIST(end_rows)}},
    {LLAMA("gpt-oss", "gpt_oss"),
     .traits = LLAMA_TRAITS | OTA_ARCH_LAYER_TYPES | OTA_ARCH_PACKED | OTA_ARCH_YARN_UNSAID,
     .keys = {LIST(base_keys), LIST(gpt_oss_keys)},
     .rows = {LIST(embed_rows), LIST(gpt_oss_rows), LIST(attention_rows), LIST(attention_bias_rows),
              LIST(end_rows)}},
    {0},
};
