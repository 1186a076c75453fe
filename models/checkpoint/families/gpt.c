/* GPT-2 and its relatives, whose norms take the mean away.
 *
 *   gpt2   x = E[id] + P[t];  x += O attention(norm x);  x += down gelu(up norm x);  logits = E norm x
 *   gptneo x = E[id] + P[t];  scores are not scaled, each second layer sees a window
 *   opt    x = E[id] + P[t + 2];  norms in front or, in one size, behind; relu; of narrower embeddings x = A E[id] + P[t + 2],
 *          logits = E B x
 *   bloom  x = norm E[id];  scores less a slope times the distance
 *   gptj   x += O attention(rope, norm x) + down gelu(up norm x), of one norm; pairs (2k, 2k + 1) of a part of each head
 *   neox   x += O attention(rope, norm_1 x) + down gelu(up norm_2 x), or one behind the other
 *   falcon as gptj or neox; all heads, or groups of them, share a key head; scores plus a slope times the key's place in the place
 *          of rotary positions */
#include "rows.h"

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
    LINEAR(OTA_OUTPUT, "h.%lld.attn.c_proj", "blk.%lld.attn_output", WIDTH, MIXED, OTA_INPUT_MAJOR),
    NORM(OTA_NORM_2, "h.%lld.ln_2", "blk.%lld.ffn_norm"),
    LINEAR(OTA_UP, "h.%lld.mlp.c_fc", "blk.%lld.ffn_up", INNER, WIDTH, OTA_INPUT_MAJOR),
    LINEAR(OTA_DOWN, "h.%lld.mlp.c_proj", "blk.%lld.ffn_down", WIDTH, INNER, OTA_INPUT_MAJOR),
    NORM(OTA_FINAL_NORM, "ln_f", "output_norm"),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

static const char *const gpt2_prefixes[] = {"transformer.", "", NULL};

/* ---- GPT-Neo ---- */

static const ota_config_key gpt_neo_keys[] = {
    RENAMED("num_layers", "num_hidden_layers", NULL, AT(layers), MOST_LAYERS),
    RENAMED("num_heads", "num_attention_heads", NULL, AT(heads), MOST_HEADS),
    NEEDED("hidden_size", NULL, SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", NULL, SIZE(POSITIONS), MOST_POSITIONS),
    NEEDED("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS),
    INTEGER_OR_NULL("intermediate_size", NULL, SIZE(INNER), MOST_INNER, 0, 0),
    INTEGER("window_size", NULL, AT(local.window), MOST_POSITIONS, 256, 0),
    ALWAYS(TRUTH, local.windowed, true),
    ALWAYS(INTEGER, local.period, EVERY_LAYER),
    REAL("layer_norm_epsilon", NULL, norm_epsilon, 1e-5, 0),
    TIED(true),
    ALWAYS(TRUTH, scores.causal, true),
};

static const ota_tensor_row gpt_neo_rows[] = {
    HUB_PLAIN(OTA_EMBED, "wte", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    HUB_PLAIN(OTA_POSITION, "wpe", POSITIONS, WIDTH, 0),
    HUB_NORM(OTA_NORM_1, "h.%lld.ln_1", 0),
    HUB_PLAIN(OTA_QUERY, "h.%lld.attn.attention.q_proj", QUERY, WIDTH, 0),
    HUB_PLAIN(OTA_KEY, "h.%lld.attn.attention.k_proj", KEY, WIDTH, 0),
    HUB_PLAIN(OTA_VALUE, "h.%lld.attn.attention.v_proj", VALUE, WIDTH, 0),
    HUB_LINEAR(OTA_OUTPUT, "h.%lld.attn.attention.out_proj", WIDTH, MIXED, ALONE),
    HUB_NORM(OTA_NORM_2, "h.%lld.ln_2", 0),
    HUB_LINEAR(OTA_UP, "h.%lld.mlp.c_fc", INNER, WIDTH, ALONE),
    HUB_LINEAR(OTA_DOWN, "h.%lld.mlp.c_proj", WIDTH, INNER, ALONE),
    HUB_NORM(OTA_FINAL_NORM, "ln_f", 0),
    HUB_PLAIN(OTA_HEAD, "lm_head", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

/* ---- GPT-J ---- */

static const ota_config_key gptj_keys[] = {
    RENAMED("n_layer", "num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    RENAMED("n_head", "num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    GGUF_ONLY("attention.head_count_kv", kv_heads, MOST_HEADS),
    RENAMED("n_embd", "hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    RENAMED("n_positions", "max_position_embeddings", "context_length", SIZE(POSITIONS),
            MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    INTEGER_OR_NULL("n_inner", "feed_forward_length", SIZE(INNER), MOST_INNER, 0, 0),
    INTEGER("rotary_dim", "rope.dimension_count", AT(rotary_width), MOST_WIDTH, 64, OTA_REQUIRED),
    REAL("layer_norm_epsilon", "attention.layer_norm_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    REAL(NULL, "rope.freq_base", rope.base, 10000, 10000),
    TIED(false),
    ALWAYS(TRUTH, form.parallel, true),
    ALWAYS(INTEGER, form.norms, 1),
    ALWAYS(TRUTH, scores.scaled, true),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
};

static const ota_tensor_row gptj_rows[] = {
    PLAIN(OTA_EMBED, "wte", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    NORM(OTA_NORM_1, "h.%lld.ln_1", "blk.%lld.attn_norm"),
    PLAIN(OTA_QUERY, "h.%lld.attn.q_proj", "blk.%lld.attn_q", QUERY, WIDTH, 0),
    PLAIN(OTA_KEY, "h.%lld.attn.k_proj", "blk.%lld.attn_k", KEY, WIDTH, 0),
    PLAIN(OTA_VALUE, "h.%lld.attn.v_proj", "blk.%lld.attn_v", VALUE, WIDTH, 0),
    PLAIN(OTA_OUTPUT, "h.%lld.attn.out_proj", "blk.%lld.attn_output", WIDTH, MIXED, 0),
    LINEAR(OTA_UP, "h.%lld.mlp.fc_in", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    LINEAR(OTA_DOWN, "h.%lld.mlp.fc_out", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    NORM(OTA_FINAL_NORM, "ln_f", "output_norm"),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    BIAS(OTA_HEAD, "lm_head", "output", VOCABULARY, ALONE),
};

/* ---- GPT-NeoX ---- */

static const ota_config_key neox_keys[] = {
    NEEDED("num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    NEEDED("num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    GGUF_ONLY("attention.head_count_kv", kv_heads, MOST_HEADS),
    NEEDED("hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", "context_length", SIZE(POSITIONS), MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    NEEDED("intermediate_size", "feed_forward_length", SIZE(INNER), MOST_INNER),
    GGUF_ONLY("rope.dimension_count", rotary_width, MOST_WIDTH),
    REAL("rotary_pct", NULL, rope.share, 0.25, 1),
    REAL("rotary_emb_base", "rope.freq_base", rope.base, 10000, 10000),
    REAL("layer_norm_eps", "attention.layer_norm_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    TRUTH("use_parallel_residual", "use_parallel_residual", form.parallel, true),
    ALWAYS(INTEGER, form.norms, 2),
    TRUTH("attention_bias", NULL, biases.attention, true),
    TIED(false),
    ALWAYS(TRUTH, scores.scaled, true),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
};

static const ota_tensor_row neox_rows[] = {
    PLAIN(OTA_EMBED, "embed_in", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    NORM(OTA_NORM_1, "layers.%lld.input_layernorm", "blk.%lld.attn_norm"),
    PLAIN(OTA_MERGED, "layers.%lld.attention.query_key_value", "blk.%lld.attn_qkv", MERGED, WIDTH,
          0),
    BIAS(OTA_MERGED, "layers.%lld.attention.query_key_value", "blk.%lld.attn_qkv", MERGED,
         GROUP_INPUT_BIAS),
    PLAIN(OTA_OUTPUT, "layers.%lld.attention.dense", "blk.%lld.attn_output", WIDTH, MIXED, 0),
    BIAS(OTA_OUTPUT, "layers.%lld.attention.dense", "blk.%lld.attn_output", WIDTH,
         GROUP_OUTPUT_BIAS),
    NORM(OTA_NORM_2, "layers.%lld.post_attention_layernorm", "blk.%lld.ffn_norm"),
    LINEAR(OTA_UP, "layers.%lld.mlp.dense_h_to_4h", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    LINEAR(OTA_DOWN, "layers.%lld.mlp.dense_4h_to_h", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    NORM(OTA_FINAL_NORM, "final_layer_norm", "output_norm"),
    {OTA_HEAD, "embed_out.weight", "output.weight", OTA_SIZE_VOCABULARY, OTA_SIZE_WIDTH,
     OTA_TIED_MAY_MISS, OTA_ALONE, "lm_head.weight"},
};

static const char *const neox_prefixes[] = {"gpt_neox.", "", NULL};

/* ---- OPT ---- */

static const ota_config_key opt_keys[] = {
    NEEDED("num_hidden_layers", NULL, AT(layers), MOST_LAYERS),
    NEEDED("num_attention_heads", NULL, AT(heads), MOST_HEADS),
    NEEDED("hidden_size", NULL, SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", NULL, SIZE(POSITIONS), MOST_POSITIONS),
    NEEDED("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS),
    NEEDED("ffn_dim", NULL, SIZE(INNER), MOST_INNER),
    INTEGER_OR_NULL("word_embed_proj_dim", NULL, AT(embed_width), MOST_WIDTH, 0, 0),
    ALWAYS(INTEGER, first_position, 2),
    ALWAYS(REAL, norm_epsilon, 1e-5),
    NOT("do_layer_norm_before", form.post_norm, true),
    TRUTH("enable_bias", NULL, biases.attention, true),
    TRUTH("enable_bias", NULL, biases.mlp, true),
    TIED(true),
    ALWAYS(TRUTH, scores.scaled, true),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
};

static const ota_tensor_row opt_rows[] = {
    HUB_PLAIN(OTA_EMBED, "embed_tokens", VOCABULARY, EMBED, OTA_TIED_MAY_MISS),
    HUB_PLAIN(OTA_EMBED_PROJECT, "project_in", WIDTH, EMBED, OTA_OF_NARROW),
    HUB_PLAIN(OTA_HEAD_PROJECT, "project_out", EMBED, WIDTH, OTA_OF_NARROW),
    HUB_PLAIN(OTA_POSITION, "embed_positions", POSITION_ROWS, POSITION, 0),
    HUB_NORM(OTA_NORM_1, "layers.%lld.self_attn_layer_norm", 0),
    HUB_LINEAR(OTA_QUERY, "layers.%lld.self_attn.q_proj", QUERY, WIDTH, GROUP_INPUT_BIAS),
    HUB_LINEAR(OTA_KEY, "layers.%lld.self_attn.k_proj", KEY, WIDTH, GROUP_INPUT_BIAS),
    HUB_LINEAR(OTA_VALUE, "layers.%lld.self_attn.v_proj", VALUE, WIDTH, GROUP_INPUT_BIAS),
    HUB_LINEAR(OTA_OUTPUT, "layers.%lld.self_attn.out_proj", WIDTH, MIXED, GROUP_OUTPUT_BIAS),
    HUB_NORM(OTA_NORM_2, "layers.%lld.final_layer_norm", 0),
    HUB_LINEAR(OTA_UP, "layers.%lld.fc1", INNER, WIDTH, GROUP_MLP_BIAS),
    HUB_LINEAR(OTA_DOWN, "layers.%lld.fc2", WIDTH, INNER, GROUP_MLP_BIAS),
    HUB_NORM(OTA_FINAL_NORM, "final_layer_norm", OTA_OF_PRE_NORM),
    HUB_PLAIN(OTA_HEAD, "lm_head", VOCABULARY, EMBED, OTA_TIED_MAY_MISS),
};

static const char *const opt_prefixes[] = {"model.decoder.", "decoder.", "", NULL};

/* ---- BLOOM ---- */

static const ota_config_key bloom_keys[] = {
    RENAMED("n_layer", "num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    RENAMED("n_head", "num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    GGUF_ONLY("attention.head_count_kv", kv_heads, MOST_HEADS),
    RENAMED("hidden_size", "n_embed", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    /* Slopes know no last position. */
    INTEGER("seq_length", "context_length", SIZE(POSITIONS), MOST_POSITIONS, MOST_POSITIONS,
            MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    INTEGER(NULL, "feed_forward_length", SIZE(INNER), MOST_INNER, 0, 0),
    REAL("layer_norm_epsilon", "attention.layer_norm_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    TIED(true),
    ALWAYS(TRUTH, scores.scaled, true),
    ALWAYS(TRUTH, scores.sloped, true),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
};

static const ota_tensor_row bloom_rows[] = {
    PLAIN(OTA_EMBED, "word_embeddings", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    NORM(OTA_EMBED_NORM, "word_embeddings_layernorm", "token_embd_norm"),
    NORM(OTA_NORM_1, "h.%lld.input_layernorm", "blk.%lld.attn_norm"),
    LINEAR(OTA_MERGED, "h.%lld.self_attention.query_key_value", "blk.%lld.attn_qkv", MERGED, WIDTH,
           0),
    LINEAR(OTA_OUTPUT, "h.%lld.self_attention.dense", "blk.%lld.attn_output", WIDTH, MIXED, 0),
    NORM(OTA_NORM_2, "h.%lld.post_attention_layernorm", "blk.%lld.ffn_norm"),
    LINEAR(OTA_UP, "h.%lld.mlp.dense_h_to_4h", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    LINEAR(OTA_DOWN, "h.%lld.mlp.dense_4h_to_h", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    NORM(OTA_FINAL_NORM, "ln_f", "output_norm"),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

/* ---- Falcon ---- */

static const ota_config_key falcon_keys[] = {
    RENAMED("num_hidden_layers", "n_layer", "block_count", AT(layers), MOST_LAYERS),
    RENAMED("num_attention_heads", "n_head", "attention.head_count", AT(heads), MOST_HEADS),
    {"num_kv_heads", "n_head_kv", "attention.head_count_kv", OTA_KEY_INTEGER_OR_NULL, AT(kv_heads),
     1, MOST_HEADS, 0, 0},
    RENAMED("hidden_size", "n_embed", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    INTEGER("max_position_embeddings", "context_length", SIZE(POSITIONS), MOST_POSITIONS, 2048,
            OTA_REQUIRED),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    INTEGER_OR_NULL("ffn_hidden_size", "feed_forward_length", SIZE(INNER), MOST_INNER, 0, 0),
    REAL("layer_norm_epsilon", "attention.layer_norm_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    GGUF_ONLY("rope.dimension_count", rotary_width, MOST_WIDTH),
    REAL("rope_theta", "rope.freq_base", rope.base, 10000, 10000),
    ALWAYS(REAL, rope.share, 1),
    TRUTH("alibi", NULL, rope.replaced, false),
    /* Gguf files count key heads, and are of parallel blocks alone; their tensors tell one norm from two. */
    TRUTH_OR_NULL("multi_query", form.single_key, true, false),
    TRUTH_OR_NULL("parallel_attn", form.parallel, true, true),
    TRUTH("new_decoder_architecture", NULL, form.key_groups, false),
    INTEGER_OR_NULL("num_ln_in_parallel_attn", NULL, AT(form.norms), 2, 0, 0),
    TRUTH("bias", NULL, biases.attention, false),
    TRUTH("bias", NULL, biases.mlp, false),
    TIED(true),
    ALWAYS(TRUTH, scores.scaled, true),
    TRUTH("is_causal", "attention.causal", scores.causal, true),
};

#define EITHER(role, hub, second, flags)                                                           \
    {                                                                                              \
        role,          hub ".weight", NULL,      OTA_SIZE_WIDTH,                                   \
        OTA_SIZE_NONE, flags,         OTA_ALONE, second ".weight"},                                \
    {                                                                                              \
        role##_BIAS, hub ".bias", NULL, OTA_SIZE_WIDTH, OTA_SIZE_NONE, flags, OTA_ALONE,           \
            second ".bias"                                                                         \
    }

static const ota_tensor_row falcon_rows[] = {
    PLAIN(OTA_EMBED, "word_embeddings", "token_embd", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    EITHER(OTA_NORM_1, "h.%lld.input_layernorm", "h.%lld.ln_attn", 0),
    GGUF_NORM(OTA_NORM_1, "blk.%lld.attn_norm", OTA_ONE_NORM),
    GGUF_NORM(OTA_NORM_1, "blk.%lld.attn_norm_2", OTA_SECOND_NORM),
    PLAIN(OTA_MERGED, "h.%lld.self_attention.query_key_value", "blk.%lld.attn_qkv", MERGED, WIDTH,
          0),
    HUB_BIAS(OTA_MERGED, "h.%lld.self_attention.query_key_value", MERGED, GROUP_INPUT_BIAS),
    PLAIN(OTA_OUTPUT, "h.%lld.self_attention.dense", "blk.%lld.attn_output", WIDTH, MIXED, 0),
    HUB_BIAS(OTA_OUTPUT, "h.%lld.self_attention.dense", WIDTH, GROUP_OUTPUT_BIAS),
    EITHER(OTA_NORM_2, "h.%lld.post_attention_layernorm", "h.%lld.ln_mlp", OTA_SECOND_NORM),
    GGUF_NORM(OTA_NORM_2, "blk.%lld.attn_norm", OTA_SECOND_NORM),
    PLAIN(OTA_UP, "h.%lld.mlp.dense_h_to_4h", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    HUB_BIAS(OTA_UP, "h.%lld.mlp.dense_h_to_4h", INNER, GROUP_MLP_BIAS),
    PLAIN(OTA_DOWN, "h.%lld.mlp.dense_4h_to_h", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    HUB_BIAS(OTA_DOWN, "h.%lld.mlp.dense_4h_to_h", WIDTH, GROUP_MLP_BIAS),
    NORM(OTA_FINAL_NORM, "ln_f", "output_norm"),
    PLAIN(OTA_HEAD, "lm_head", "output", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
};

/* ---- the table ---- */

const ota_architecture ota_gpt_family[] = {
    {.name = "gpt2",
     .model_type = "gpt2",
     .prefixes = gpt2_prefixes,
     .activation = OTA_GELU_TANH,
     .activation_key = "activation_function",
     .keys = {LIST(gpt2_keys)},
     .rows = {LIST(gpt2_rows)}},
    {.name = "gpt_neo",
     .model_type = "gpt_neo",
     .prefixes = gpt2_prefixes,
     .traits = OTA_ARCH_LAYER_PATTERNS,
     .activation = OTA_GELU_TANH,
     .activation_key = "activation_function",
     .keys = {LIST(gpt_neo_keys)},
     .rows = {LIST(gpt_neo_rows)}},
    {.name = "gptj",
     .model_type = "gptj",
     .prefixes = gpt2_prefixes,
     .traits = OTA_ARCH_ROTARY | OTA_ARCH_INTERLEAVED | OTA_ARCH_PARTIAL | OTA_ARCH_FIXED_ROPE,
     .activation = OTA_GELU_TANH,
     .activation_key = "activation_function",
     .keys = {LIST(gptj_keys)},
     .rows = {LIST(gptj_rows)}},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .prefixes = neox_prefixes,
     .traits = OTA_ARCH_ROTARY | OTA_ARCH_PARTIAL | OTA_ARCH_GROUPS_MERGED,
     .activation = OTA_GELU,
     .activation_key = "hidden_act",
     .keys = {LIST(neox_keys)},
     .rows = {LIST(neox_rows)}},
    {.name = "opt",
     .model_type = "opt",
     .prefixes = opt_prefixes,
     .traits = OTA_ARCH_WIDE_POSITIONS,
     .activation = OTA_RELU,
     .activation_key = "activation_function",
     .keys = {LIST(opt_keys)},
     .rows = {LIST(opt_rows)}},
    {.name = "bloom",
     .model_type = "bloom",
     .prefixes = gpt2_prefixes,
     .traits = OTA_ARCH_GROUPS_MERGED,
     .activation = OTA_GELU_TANH,
     .keys = {LIST(bloom_keys)},
     .rows = {LIST(bloom_rows)}},
    {.name = "falcon",
     .model_type = "falcon",
     .prefixes = gpt2_prefixes,
     .traits = OTA_ARCH_ROTARY | OTA_ARCH_GROUPS_MERGED,
     .activation = OTA_GELU,
     .activation_key = "activation",
     .keys = {LIST(falcon_keys)},
     .rows = {LIST(falcon_rows)}},
    {0},
};
