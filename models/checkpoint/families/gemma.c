/* Gemma 1 to 3.
 *
 *   gemma    x = sqrt(width) E[id];  x += O attention(rope, norm x);  x += down (gelu(gate norm x) * up norm x)
 *   gemma2   x += norm(O attention(...));  x += norm(MLP);  each second layer sees a window, scores and logits are capped
 *   gemma3   rope norm q, rope norm k in place of the caps; most layers see a window and have positions of their own */
#include "rows.h"

static const ota_config_key base_keys[] = {
    ROTARY_KEYS,
    INTEGER("num_key_value_heads", "attention.head_count_kv", AT(kv_heads), MOST_HEADS, 4, 0),
    INTEGER("head_dim", "attention.key_length", AT(head_width), MOST_WIDTH, 256, 0),
    TRUTH("attention_bias", NULL, biases.attention, false),
    TIED(true),
};

static const ota_config_key gemma_keys[] = {
    INTEGER("num_key_value_heads", "attention.head_count_kv", AT(kv_heads), MOST_HEADS, 16, 0),
};

static const ota_config_key gemma2_keys[] = {
    INTEGER("query_pre_attn_scalar", NULL, AT(query_scalar), MOST_WIDTH, 256, 0),
    INTEGER_OR_NULL("sliding_window", "attention.sliding_window", AT(local.window), MOST_POSITIONS,
                    4096, 4096),
    ALWAYS(TRUTH, local.windowed, true),
    ALWAYS(INTEGER, local.period, 2),
    REAL_OR_NULL("attn_logit_softcapping", "attn_logit_softcapping", scores.cap, 50, 50),
    REAL_OR_NULL("final_logit_softcapping", "final_logit_softcapping", factors.logit_cap, 30, 30),
};

static const ota_config_key gemma3_keys[] = {
    INTEGER("query_pre_attn_scalar", NULL, AT(query_scalar), MOST_WIDTH, 256, 0),
    INTEGER("sliding_window", "attention.sliding_window", AT(local.window), MOST_POSITIONS, 4096,
            OTA_REQUIRED),
    ALWAYS(TRUTH, local.windowed, true),
    INTEGER("sliding_window_pattern", "attention.sliding_window_pattern", AT(local.period),
            MOST_LAYERS, 6, 6),
    REAL("rope_theta", "rope.freq_base", rope.base, 1000000, 10000),
    REAL("rope_local_base_freq", "rope.freq_base_swa", rope.local_base, 10000, 10000),
    REAL_OR_NULL("final_logit_softcapping", "final_logit_softcapping", factors.logit_cap, 0, 0),
};

static const ota_tensor_row base_rows[] = {
    PLAIN(OTA_EMBED, "embed_tokens", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    LESS_ONE(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm", WIDTH),
    PLAIN(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, WIDTH, 0),
    BIAS(OTA_QUERY, "layers.%lld.self_attn.q_proj", "blk.%lld.attn_q", QUERY, GROUP_INPUT_BIAS),
    PLAIN(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, WIDTH, 0),
    BIAS(OTA_KEY, "layers.%lld.self_attn.k_proj", "blk.%lld.attn_k", KEY, GROUP_INPUT_BIAS),
    PLAIN(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", VALUE, WIDTH, 0),
    BIAS(OTA_VALUE, "layers.%lld.self_attn.v_proj", "blk.%lld.attn_v", VALUE, GROUP_INPUT_BIAS),
    PLAIN(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH, MIXED, 0),
    BIAS(OTA_OUTPUT, "layers.%lld.self_attn.o_proj", "blk.%lld.attn_output", WIDTH,
         GROUP_OUTPUT_BIAS),
    PLAIN(OTA_UP, "layers.%lld.mlp.up_proj", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    PLAIN(OTA_GATE, "layers.%lld.mlp.gate_proj", "blk.%lld.ffn_gate", INNER, WIDTH, 0),
    PLAIN(OTA_DOWN, "layers.%lld.mlp.down_proj", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    LESS_ONE(OTA_FINAL_NORM, "norm", "output_norm", WIDTH),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

static const ota_tensor_row gemma_rows[] = {
    LESS_ONE(OTA_NORM_2, "layers.%lld.post_attention_layernorm", "blk.%lld.ffn_norm", WIDTH),
};

static const ota_tensor_row behind_rows[] = {
    LESS_ONE(OTA_NORM_1_BEHIND, "layers.%lld.post_attention_layernorm",
             "blk.%lld.post_attention_norm", WIDTH),
    LESS_ONE(OTA_NORM_2, "layers.%lld.pre_feedforward_layernorm", "blk.%lld.ffn_norm", WIDTH),
    LESS_ONE(OTA_NORM_2_BEHIND, "layers.%lld.post_feedforward_layernorm", "blk.%lld.post_ffw_norm",
             WIDTH),
};

static const ota_tensor_row gemma3_rows[] = {
    LESS_ONE(OTA_QUERY_NORM, "layers.%lld.self_attn.q_norm", "blk.%lld.attn_q_norm", HEAD),
    LESS_ONE(OTA_KEY_NORM, "layers.%lld.self_attn.k_norm", "blk.%lld.attn_k_norm", HEAD),
};

/* Folders of models that see images hold the same with words before. */
static const char *const prefixes[] = {
    "model.", "", "language_model.model.", "model.language_model.", "language_model.", NULL};

#define GEMMA_TRAITS (OTA_ARCH_RMS | OTA_ARCH_ROTARY | OTA_ARCH_GATED | OTA_ARCH_SCALED_EMBEDDING)
#define GEMMA(word, type)                                                                          \
    .name = word, .model_type = type, .prefixes = prefixes, .activation = OTA_GELU_TANH

const ota_architecture ota_gemma_family[] = {
    {GEMMA("gemma", "gemma"),
     /* Its oldest files say gelu and mean the formula with tanh. */
     .traits = GEMMA_TRAITS | OTA_ARCH_GELU_IS_TANH, .activation_key = "hidden_act",
     .keys = {LIST(base_keys), LIST(gemma_keys)}, .rows = {LIST(base_rows), LIST(gemma_rows)}},
    {GEMMA("gemma2", "gemma2"), .traits = GEMMA_TRAITS | OTA_ARCH_LAYER_TYPES,
     .wide_layers = 46, /* Gemma 2 27B */
     .activation_key = "hidden_activation", .keys = {LIST(base_keys), LIST(gemma2_keys)},
     .rows = {LIST(base_rows), LIST(behind_rows)}},
    {GEMMA("gemma3", "gemma3_text"), .outer_type = "gemma3",
     .traits = GEMMA_TRAITS | OTA_ARCH_LAYER_TYPES | OTA_ARCH_TWO_ROPES,
     .wide_layers = 62, /* Gemma 3 27B */
     .activation_key = "hidden_activation", .keys = {LIST(base_keys), LIST(gemma3_keys)},
     .rows = {LIST(base_rows), LIST(behind_rows), LIST(gemma3_rows)}},
    {0},
};
