/* DeepSeek V2 and V3: latent attention (transformer/latent.c), and behind the first layers mixtures with an MLP that every token has.
 *
 *   deepseek_v2   weights softmax(R x), of groups that count as their largest one; multiplied by a factor
 *   deepseek_v3   weights 1 / (1 + exp(-R x)), chosen with a correction, of groups that count as their two largest */
#include "rows.h"

static const ota_config_key base_keys[] = {
    ROTARY_KEYS,
    NEEDED("qk_nope_head_dim", NULL, AT(latent.plain), MOST_WIDTH),
    NEEDED("qk_rope_head_dim", NULL, AT(rotary_width), MOST_WIDTH),
    NEEDED("v_head_dim", NULL, AT(value_width), MOST_WIDTH),
    NEEDED("kv_lora_rank", NULL, SIZE(KEY_RANK), MOST_WIDTH),
    /* The class gives these norms no epsilon of the configuration. */
    ALWAYS(REAL, latent.epsilon, 1e-6),
    TRUTH("attention_bias", NULL, biases.attention, false),
    INTEGER("moe_intermediate_size", NULL, SIZE(EXPERT_INNER), MOST_INNER, OTA_REQUIRED, 0),
    INTEGER("n_shared_experts", NULL, AT(experts.shared), MOST_EXPERTS, OTA_REQUIRED, 0),
};

static const ota_config_key v2_keys[] = {
    /* The class sets head_dim itself. */
    ALWAYS(INTEGER, head_width, 0),
    INTEGER_OR_NULL("q_lora_rank", NULL, SIZE(QUERY_RANK), MOST_WIDTH, 1536, 0),
    {"n_routed_experts", "num_experts", NULL, OTA_KEY_INTEGER, SIZE(EXPERTS), 1, MOST_EXPERTS, 64,
     0},
    INTEGER("num_experts_per_tok", NULL, AT(experts.chosen), MOST_EXPERTS, OTA_REQUIRED, 0),
    {"first_k_dense_replace", NULL, NULL, OTA_KEY_INTEGER, AT(experts.first), 0, MOST_LAYERS, 0, 0},
    INTEGER_OR_NULL("n_group", NULL, AT(experts.groups), MOST_EXPERTS, 0, 0),
    INTEGER_OR_NULL("topk_group", NULL, AT(experts.groups_chosen), MOST_EXPERTS, 0, 0),
    ALWAYS(INTEGER, experts.group_best, 1),
    REAL("routed_scaling_factor", NULL, experts.factor, 1, 0),
    TRUTH("mlp_bias", NULL, biases.mlp, false),
    ALWAYS(TRUTH, rope.interleaved, true),
};

static const ota_config_key v3_keys[] = {
    INTEGER_OR_NULL("q_lora_rank", NULL, SIZE(QUERY_RANK), MOST_WIDTH, 1536, 0),
    {"n_routed_experts", "num_local_experts", NULL, OTA_KEY_INTEGER, SIZE(EXPERTS), 1, MOST_EXPERTS,
     256, 0},
    INTEGER("num_experts_per_tok", NULL, AT(experts.chosen), MOST_EXPERTS, 8, 0),
    {"first_k_dense_replace", NULL, NULL, OTA_KEY_INTEGER, AT(experts.first), 0, MOST_LAYERS, 3, 0},
    INTEGER("n_group", NULL, AT(experts.groups), MOST_EXPERTS, 8, 0),
    INTEGER("topk_group", NULL, AT(experts.groups_chosen), MOST_EXPERTS, 4, 0),
    ALWAYS(INTEGER, experts.group_best, 2),
    REAL("routed_scaling_factor", NULL, experts.factor, 2.5, 0),
    TRUTH_OR_NULL("norm_topk_prob", experts.normalised, true, true),
    ALWAYS(TRUTH, experts.sigmoid, true),
    TRUTH_OR_NULL("rope_interleave", rope.interleaved, true, true),
    {"num_nextn_predict_layers", "num_mtp_layers", NULL, OTA_KEY_INTEGER, AT(unused_layers), 0,
     MOST_LAYERS, 1, 0},
};

#define ATTENTION "layers.%lld.self_attn."
#define MLP "layers.%lld.mlp."
static const ota_tensor_row rows[] = {
    HUB_PLAIN(OTA_EMBED, "embed_tokens", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    HUB_PLAIN(OTA_NORM_1, "layers.%lld.input_layernorm", WIDTH, NONE, 0),
    HUB_PLAIN(OTA_QUERY, ATTENTION "q_proj", QUERY, WIDTH, OTA_OF_FULL_QUERY),
    HUB_PLAIN(OTA_QUERY_DOWN, ATTENTION "q_a_proj", QUERY_RANK, WIDTH, OTA_OF_QUERY_RANK),
    HUB_BIAS_OF(OTA_QUERY_DOWN, ATTENTION "q_a_proj", QUERY_RANK, OTA_OF_QUERY_RANK,
                GROUP_INPUT_BIAS),
    HUB_PLAIN(OTA_QUERY_DOWN_NORM, ATTENTION "q_a_layernorm", QUERY_RANK, NONE, OTA_OF_QUERY_RANK),
    HUB_PLAIN(OTA_QUERY, ATTENTION "q_b_proj", QUERY, QUERY_RANK, OTA_OF_QUERY_RANK),
    HUB_PLAIN(OTA_LATENT, ATTENTION "kv_a_proj_with_mqa", LATENT, WIDTH, 0),
    HUB_BIAS(OTA_LATENT, ATTENTION "kv_a_proj_with_mqa", LATENT, GROUP_INPUT_BIAS),
    HUB_PLAIN(OTA_LATENT_NORM, ATTENTION "kv_a_layernorm", KEY_RANK, NONE, 0),
    HUB_PLAIN(OTA_EXPAND, ATTENTION "kv_b_proj", EXPANDED, KEY_RANK, 0),
    HUB_LINEAR(OTA_OUTPUT, ATTENTION "o_proj", WIDTH, MIXED, GROUP_OUTPUT_BIAS),
    HUB_PLAIN(OTA_NORM_2, "layers.%lld.post_attention_layernorm", WIDTH, NONE, 0),
    HUB_PLAIN(OTA_UP, MLP "up_proj", INNER, WIDTH, OTA_OF_DENSE),
    HUB_PLAIN(OTA_GATE, MLP "gate_proj", INNER, WIDTH, OTA_OF_DENSE),
    HUB_PLAIN(OTA_DOWN, MLP "down_proj", WIDTH, INNER, OTA_OF_DENSE),
    HUB_PLAIN(OTA_ROUTER, MLP "gate", EXPERTS, WIDTH, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_SHARED_UP, MLP "shared_experts.up_proj", SHARED_INNER, WIDTH, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_SHARED_GATE, MLP "shared_experts.gate_proj", SHARED_INNER, WIDTH, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_SHARED_DOWN, MLP "shared_experts.down_proj", WIDTH, SHARED_INNER, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_EXPERT_GATE, MLP "experts.%lld.gate_proj", EXPERT_INNER, WIDTH, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_EXPERT_UP, MLP "experts.%lld.up_proj", EXPERT_INNER, WIDTH, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_EXPERT_DOWN, MLP "experts.%lld.down_proj", WIDTH, EXPERT_INNER, OTA_OF_MIXTURE),
    HUB_PLAIN(OTA_FINAL_NORM, "norm", WIDTH, NONE, 0),
    HUB_PLAIN(OTA_HEAD, "lm_head", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

static const ota_tensor_row v2_rows[] = {
    HUB_BIAS_OF(OTA_UP, MLP "up_proj", INNER, OTA_OF_DENSE, GROUP_MLP_BIAS),
    HUB_BIAS_OF(OTA_GATE, MLP "gate_proj", INNER, OTA_OF_DENSE, GROUP_MLP_BIAS),
    HUB_BIAS_OF(OTA_DOWN, MLP "down_proj", WIDTH, OTA_OF_DENSE, GROUP_MLP_BIAS),
    HUB_BIAS_OF(OTA_SHARED_UP, MLP "shared_experts.up_proj", SHARED_INNER, OTA_OF_MIXTURE,
                GROUP_MLP_BIAS),
    HUB_BIAS_OF(OTA_SHARED_GATE, MLP "shared_experts.gate_proj", SHARED_INNER, OTA_OF_MIXTURE,
                GROUP_MLP_BIAS),
    HUB_BIAS_OF(OTA_SHARED_DOWN, MLP "shared_experts.down_proj", WIDTH, OTA_OF_MIXTURE,
                GROUP_MLP_BIAS),
};

static const ota_tensor_row v3_rows[] = {
    {OTA_ROUTER_CORRECTION, MLP "gate.e_score_correction_bias", NULL, OTA_SIZE_EXPERTS,
     OTA_SIZE_NONE, OTA_OF_MIXTURE, OTA_ALONE, NULL},
};

/* llama.cpp's files of both. */
static const ota_config_key gguf_keys[] = {
    ROTARY_KEYS,
    /* What is cached there has one key for all heads. */
    ALWAYS(INTEGER, kv_heads, 0),
    INTEGER(NULL, "attention.key_length_mla", AT(latent.key_width), MOST_WIDTH, 0, 0),
    INTEGER(NULL, "attention.value_length_mla", AT(latent.value_width), MOST_WIDTH, 0, 0),
    INTEGER(NULL, "attention.kv_lora_rank", SIZE(KEY_RANK), MOST_WIDTH, 0, OTA_REQUIRED),
    INTEGER(NULL, "attention.q_lora_rank", SIZE(QUERY_RANK), MOST_WIDTH, 0, 0),
    ALWAYS(REAL, latent.epsilon, 1e-6),
    INTEGER(NULL, "expert_count", SIZE(EXPERTS), MOST_EXPERTS, 0, OTA_REQUIRED),
    INTEGER(NULL, "expert_used_count", AT(experts.chosen), MOST_EXPERTS, 0, OTA_REQUIRED),
    INTEGER(NULL, "expert_shared_count", AT(experts.shared), MOST_EXPERTS, 0, OTA_REQUIRED),
    INTEGER(NULL, "expert_feed_forward_length", SIZE(EXPERT_INNER), MOST_INNER, 0, OTA_REQUIRED),
    {NULL, NULL, "leading_dense_block_count", OTA_KEY_INTEGER, AT(experts.first), 0, MOST_LAYERS, 0,
     0},
    {NULL, NULL, "expert_gating_func", OTA_KEY_INTEGER, AT(experts.gating), 1, 2, 0, 1},
    INTEGER(NULL, "expert_group_count", AT(experts.groups), MOST_EXPERTS, 0, 0),
    INTEGER(NULL, "expert_group_used_count", AT(experts.groups_chosen), MOST_EXPERTS, 0, 0),
    ALWAYS(INTEGER, experts.group_best, 1),
    REAL(NULL, "expert_weights_scale", experts.factor, 0, 0),
    TRUTH(NULL, "expert_weights_norm", experts.normalised, false),
};

#define GGUF_ROW(role, word, rows, columns, flags)                                                 \
    { role, NULL, word ".weight", OTA_SIZE_##rows, OTA_SIZE_##columns, flags, OTA_ALONE, NULL }
#define BLOCK "blk.%lld."
static const ota_tensor_row gguf_rows[] = {
    GGUF_ROW(OTA_EMBED, "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    GGUF_ROW(OTA_NORM_1, BLOCK "attn_norm", WIDTH, NONE, 0),
    GGUF_ROW(OTA_QUERY, BLOCK "attn_q", QUERY, WIDTH, OTA_OF_FULL_QUERY),
    GGUF_ROW(OTA_QUERY_DOWN, BLOCK "attn_q_a", QUERY_RANK, WIDTH, OTA_OF_QUERY_RANK),
    GGUF_ROW(OTA_QUERY_DOWN_NORM, BLOCK "attn_q_a_norm", QUERY_RANK, NONE, OTA_OF_QUERY_RANK),
    GGUF_ROW(OTA_QUERY, BLOCK "attn_q_b", QUERY, QUERY_RANK, OTA_OF_QUERY_RANK),
    GGUF_ROW(OTA_LATENT, BLOCK "attn_kv_a_mqa", LATENT, WIDTH, 0),
    GGUF_ROW(OTA_LATENT_NORM, BLOCK "attn_kv_a_norm", KEY_RANK, NONE, 0),
    GGUF_ROW(OTA_EXPAND, BLOCK "attn_kv_b", EXPANDED, KEY_RANK, OTA_MAY_MISS),
    GGUF_ROW(OTA_EXPAND_KEY, BLOCK "attn_k_b", HEADS, EXPANDED_KEY, OTA_MAY_MISS | OTA_RESHAPED),
    GGUF_ROW(OTA_EXPAND_VALUE, BLOCK "attn_v_b", HEADS, EXPANDED_VALUE,
             OTA_MAY_MISS | OTA_RESHAPED),
    GGUF_ROW(OTA_OUTPUT, BLOCK "attn_output", WIDTH, MIXED, 0),
    GGUF_ROW(OTA_NORM_2, BLOCK "ffn_norm", WIDTH, NONE, 0),
    GGUF_ROW(OTA_UP, BLOCK "ffn_up", INNER, WIDTH, OTA_OF_DENSE),
    GGUF_ROW(OTA_GATE, BLOCK "ffn_gate", INNER, WIDTH, OTA_OF_DENSE),
    GGUF_ROW(OTA_DOWN, BLOCK "ffn_down", WIDTH, INNER, OTA_OF_DENSE),
    GGUF_ROW(OTA_ROUTER, BLOCK "ffn_gate_inp", EXPERTS, WIDTH, OTA_OF_MIXTURE),
    {OTA_ROUTER_CORRECTION, NULL, BLOCK "exp_probs_b.bias", OTA_SIZE_EXPERTS, OTA_SIZE_NONE,
     OTA_OF_MIXTURE | OTA_MAY_MISS, OTA_ALONE, NULL},
    GGUF_ROW(OTA_SHARED_UP, BLOCK "ffn_up_shexp", SHARED_INNER, WIDTH, OTA_OF_MIXTURE),
    GGUF_ROW(OTA_SHARED_GATE, BLOCK "ffn_gate_shexp", SHARED_INNER, WIDTH, OTA_OF_MIXTURE),
    GGUF_ROW(OTA_SHARED_DOWN, BLOCK "ffn_down_shexp", WIDTH, SHARED_INNER, OTA_OF_MIXTURE),
    GGUF_ROW(OTA_EXPERT_GATE, BLOCK "ffn_gate_exps", EXPERT_INNER, WIDTH, OTA_OF_MIXTURE),
    GGUF_ROW(OTA_EXPERT_UP, BLOCK "ffn_up_exps", EXPERT_INNER, WIDTH, OTA_OF_MIXTURE),
    GGUF_ROW(OTA_EXPERT_DOWN, BLOCK "ffn_down_exps", WIDTH, EXPERT_INNER, OTA_OF_MIXTURE),
    GGUF_ROW(OTA_FINAL_NORM, "output_norm", WIDTH, NONE, 0),
    GGUF_ROW(OTA_HEAD, "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

static const char *const prefixes[] = {"model.", "", NULL};

#define DEEPSEEK_TRAITS (OTA_ARCH_RMS | OTA_ARCH_ROTARY | OTA_ARCH_GATED | OTA_ARCH_LATENT)
#define DEEPSEEK(word)                                                                             \
    .name = word, .model_type = word, .prefixes = prefixes, .activation = OTA_SILU,                \
    .activation_key = "hidden_act"

const ota_architecture ota_deepseek_family[] = {
    {DEEPSEEK("deepseek_v2"), .traits = DEEPSEEK_TRAITS | OTA_ARCH_TOPK_METHOD,
     .keys = {LIST(base_keys), LIST(v2_keys)}, .rows = {LIST(rows), LIST(v2_rows)}},
    {DEEPSEEK("deepseek_v3"), .traits = DEEPSEEK_TRAITS, .keys = {LIST(base_keys), LIST(v3_keys)},
     .rows = {LIST(rows), LIST(v3_rows)}},
    /* Hub files call it deepseek_v2 or deepseek_v3. */
    {.name = "deepseek2",
     .prefixes = prefixes,
     .activation = OTA_SILU,
     .traits = DEEPSEEK_TRAITS | OTA_ARCH_INTERLEAVED_GGUF,
     .keys = {LIST(gguf_keys)},
     .rows = {LIST(gguf_rows)}},
    {0},
};
