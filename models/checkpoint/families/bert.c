/* BERT and its relatives, which look both ways.
 *
 *   bert   x = norm(E[id] + P[t] + T[type]);  x = norm(x + O attention(x));  x = norm(x + down gelu(up x))
 *   roberta, xlm-roberta, camembert   the same; positions begin behind the number of the padding token
 *   electra      as bert, of embeddings that may be narrower: x = A norm(E[id] + P[t] + T[type]) + a
 *   distilbert                        the same without types
 *   mpnet        as roberta without types; scores plus what a bucket of the distance adds
 *   t5           its encoder: x = E[id];  x += O attention(norm x), scores plus buckets and not scaled;  x += down relu(up norm x)
 *   modernbert   x = norm E[id];  x += O attention(rope, norm x);  x += down (gelu(gate norm x) * up norm x), without norm in front of
 *                the first attention;  two of three layers see a window and have rotary positions of their own */
#include "rows.h"

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
    PLAIN(OTA_EMBED, "embeddings.word_embeddings", "token_embd", VOCABULARY, EMBED,
          OTA_TIED_MAY_MISS),
    PLAIN(OTA_POSITION, "embeddings.position_embeddings", "position_embd", POSITION_ROWS, EMBED, 0),
    HUB_PLAIN(OTA_TYPE, "embeddings.token_type_embeddings", TYPES, EMBED, 0),
    /* Files of DistilBERT call themselves BERT's. */
    {OTA_TYPE, NULL, "token_types.weight", OTA_SIZE_TYPES, OTA_SIZE_EMBED, OTA_MAY_MISS, OTA_ALONE,
     NULL},
    {OTA_EMBED_NORM, "embeddings.LayerNorm.weight", "token_embd_norm.weight", OTA_SIZE_EMBED,
     OTA_SIZE_NONE, 0, OTA_ALONE, "embeddings.LayerNorm.gamma"},
    {OTA_EMBED_NORM_BIAS, "embeddings.LayerNorm.bias", "token_embd_norm.bias", OTA_SIZE_EMBED,
     OTA_SIZE_NONE, 0, OTA_ALONE, "embeddings.LayerNorm.beta"},
    LINEAR(OTA_QUERY, "encoder.layer.%lld.attention.self.query", "blk.%lld.attn_q", QUERY, WIDTH,
           0),
    LINEAR(OTA_KEY, "encoder.layer.%lld.attention.self.key", "blk.%lld.attn_k", KEY, WIDTH, 0),
    LINEAR(OTA_VALUE, "encoder.layer.%lld.attention.self.value", "blk.%lld.attn_v", VALUE, WIDTH,
           0),
    LINEAR(OTA_OUTPUT, "encoder.layer.%lld.attention.output.dense", "blk.%lld.attn_output", WIDTH,
           MIXED, 0),
    LAYER_NORMS(OTA_NORM_1, "encoder.layer.%lld.attention.output.LayerNorm",
                "blk.%lld.attn_output_norm"),
    LINEAR(OTA_UP, "encoder.layer.%lld.intermediate.dense", "blk.%lld.ffn_up", INNER, WIDTH, 0),
    LINEAR(OTA_DOWN, "encoder.layer.%lld.output.dense", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    LAYER_NORMS(OTA_NORM_2, "encoder.layer.%lld.output.LayerNorm", "blk.%lld.layer_output_norm"),
};

static const ota_tensor_row bert_head_rows[] = {
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

/* ---- ELECTRA ---- */

static const ota_config_key electra_keys[] = {
    INTEGER("embedding_size", NULL, AT(embed_width), MOST_WIDTH, 128, 0),
};

static const ota_tensor_row electra_rows[] = {
    HUB_PLAIN(OTA_EMBED_PROJECT, "embeddings_project", WIDTH, EMBED, OTA_OF_NARROW),
    HUB_BIAS_OF(OTA_EMBED_PROJECT, "embeddings_project", WIDTH, OTA_OF_NARROW, ALONE),
    HUB_GROUP(OTA_HEAD_DENSE, "generator_predictions.dense.weight", EMBED, WIDTH, 0, HEAD),
    HUB_GROUP(OTA_HEAD_DENSE_BIAS, "generator_predictions.dense.bias", EMBED, NONE, 0, HEAD),
    HUB_GROUP(OTA_HEAD_NORM, "generator_predictions.LayerNorm.weight", EMBED, NONE, 0, HEAD),
    HUB_GROUP(OTA_HEAD_NORM_BIAS, "generator_predictions.LayerNorm.bias", EMBED, NONE, 0, HEAD),
    HUB_GROUP(OTA_HEAD, "generator_lm_head.weight", VOCABULARY, EMBED, OTA_TIED_MAY_MISS, HEAD),
    HUB_GROUP(OTA_HEAD_BIAS, "generator_lm_head.bias", VOCABULARY, NONE, 0, HEAD),
};

static const char *const electra_prefixes[] = {"electra.", "", NULL};

/* ---- RoBERTa ---- */

static const ota_config_key roberta_keys[] = {
    {"pad_token_id", NULL, NULL, OTA_KEY_INTEGER, AT(first_position), 0, 1 << 20, 1, 1},
};

static const ota_tensor_row roberta_head_rows[] = {
    {OTA_HEAD_DENSE, "lm_head.dense.weight", NULL, OTA_SIZE_WIDTH, OTA_SIZE_WIDTH, 0,
     OTA_GROUP_HEAD, NULL},
    {OTA_HEAD_DENSE_BIAS, "lm_head.dense.bias", NULL, OTA_SIZE_WIDTH, OTA_SIZE_NONE, 0,
     OTA_GROUP_HEAD, NULL},
    LAYER_NORM(OTA_HEAD_NORM, "lm_head.layer_norm", NULL, OTA_GROUP_HEAD),
    LAYER_NORM_BIAS(OTA_HEAD_NORM, "lm_head.layer_norm", NULL, OTA_GROUP_HEAD),
    {OTA_HEAD, "lm_head.decoder.weight", NULL, OTA_SIZE_VOCABULARY, OTA_SIZE_WIDTH,
     OTA_TIED_MAY_MISS, OTA_GROUP_HEAD, NULL},
    {OTA_HEAD_BIAS, "lm_head.decoder.bias", NULL, OTA_SIZE_VOCABULARY, OTA_SIZE_NONE,
     OTA_TIED_OTHER, OTA_GROUP_HEAD, "lm_head.bias"},
};

static const char *const roberta_prefixes[] = {"roberta.", "", NULL};

/* ---- DistilBERT ---- */

static const ota_config_key distilbert_keys[] = {
    RENAMED("n_layers", "num_hidden_layers", NULL, AT(layers), MOST_LAYERS),
    RENAMED("n_heads", "num_attention_heads", NULL, AT(heads), MOST_HEADS),
    RENAMED("dim", "hidden_size", NULL, SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", NULL, SIZE(POSITIONS), MOST_POSITIONS),
    NEEDED("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS),
    NEEDED("hidden_dim", NULL, SIZE(INNER), MOST_INNER),
    ALWAYS(REAL, norm_epsilon, 1e-12),
    TIED(true),
    ALWAYS(TRUTH, scores.scaled, true),
};

static const ota_tensor_row distilbert_rows[] = {
    HUB_PLAIN(OTA_EMBED, "embeddings.word_embeddings", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    HUB_PLAIN(OTA_POSITION, "embeddings.position_embeddings", POSITIONS, WIDTH, 0),
    HUB_NORM(OTA_EMBED_NORM, "embeddings.LayerNorm", 0),
    HUB_LINEAR(OTA_QUERY, "transformer.layer.%lld.attention.q_lin", QUERY, WIDTH, ALONE),
    HUB_LINEAR(OTA_KEY, "transformer.layer.%lld.attention.k_lin", KEY, WIDTH, ALONE),
    HUB_LINEAR(OTA_VALUE, "transformer.layer.%lld.attention.v_lin", VALUE, WIDTH, ALONE),
    HUB_LINEAR(OTA_OUTPUT, "transformer.layer.%lld.attention.out_lin", WIDTH, MIXED, ALONE),
    HUB_NORM(OTA_NORM_1, "transformer.layer.%lld.sa_layer_norm", 0),
    HUB_LINEAR(OTA_UP, "transformer.layer.%lld.ffn.lin1", INNER, WIDTH, ALONE),
    HUB_LINEAR(OTA_DOWN, "transformer.layer.%lld.ffn.lin2", WIDTH, INNER, ALONE),
    HUB_NORM(OTA_NORM_2, "transformer.layer.%lld.output_layer_norm", 0),
    HUB_GROUP(OTA_HEAD_DENSE, "vocab_transform.weight", WIDTH, WIDTH, 0, HEAD),
    HUB_GROUP(OTA_HEAD_DENSE_BIAS, "vocab_transform.bias", WIDTH, NONE, 0, HEAD),
    HUB_GROUP(OTA_HEAD_NORM, "vocab_layer_norm.weight", WIDTH, NONE, 0, HEAD),
    HUB_GROUP(OTA_HEAD_NORM_BIAS, "vocab_layer_norm.bias", WIDTH, NONE, 0, HEAD),
    HUB_GROUP(OTA_HEAD, "vocab_projector.weight", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS, HEAD),
    HUB_GROUP(OTA_HEAD_BIAS, "vocab_projector.bias", VOCABULARY, NONE, 0, HEAD),
};

static const char *const distilbert_prefixes[] = {"distilbert.", "", NULL};

/* ---- ModernBERT ---- */

static const ota_config_key modernbert_keys[] = {
    NEEDED("num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),
    NEEDED("num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),
    GGUF_ONLY("attention.head_count_kv", kv_heads, MOST_HEADS),
    NEEDED("hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    NEEDED("max_position_embeddings", "context_length", SIZE(POSITIONS), MOST_POSITIONS),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    NEEDED("intermediate_size", "feed_forward_length", SIZE(INNER), MOST_INNER),
    INTEGER("local_attention", "attention.sliding_window", AT(local.window), MOST_POSITIONS, 128,
            OTA_REQUIRED),
    INTEGER("global_attn_every_n_layers", "attention.sliding_window_pattern", AT(local.period),
            MOST_LAYERS, 3, 3),
    ALWAYS(INTEGER, local.shift, 1),
    ALWAYS(TRUTH, local.windowed, true),
    REAL("norm_eps", "attention.layer_norm_epsilon", norm_epsilon, 1e-5, OTA_REQUIRED),
    REAL("global_rope_theta", "rope.freq_base", rope.base, 160000, 10000),
    REAL("local_rope_theta", "rope.freq_base_swa", rope.local_base, 10000, 10000),
    ALWAYS(REAL, rope.share, 1),
    TRUTH("attention_bias", NULL, biases.attention, false),
    TRUTH("mlp_bias", NULL, biases.mlp, false),
    TRUTH("norm_bias", NULL, biases.norm, false),
    TRUTH("classifier_bias", NULL, biases.head, false),
    TIED(true),
    ALWAYS(TRUTH, scores.scaled, true),
    {NULL, NULL, "attention.causal", OTA_KEY_TRUTH, AT(scores.causal), 0, 0, false, false},
};

#define LAYER "layers.%lld."
static const ota_tensor_row modernbert_rows[] = {
    PLAIN(OTA_EMBED, "embeddings.tok_embeddings", "token_embd", VOCABULARY, WIDTH,
          OTA_TIED_MAY_MISS),
    PLAIN(OTA_EMBED_NORM, "embeddings.norm", "token_embd_norm", WIDTH, NONE, 0),
    HUB_BIAS(OTA_EMBED_NORM, "embeddings.norm", WIDTH, GROUP_NORM_BIAS),
    PLAIN(OTA_NORM_1, LAYER "attn_norm", "blk.%lld.attn_norm", WIDTH, NONE, OTA_NOT_FIRST),
    {OTA_NORM_1_BIAS, LAYER "attn_norm.bias", NULL, OTA_SIZE_WIDTH, OTA_SIZE_NONE, OTA_NOT_FIRST,
     OTA_GROUP_NORM_BIAS, NULL},
    PLAIN(OTA_MERGED, LAYER "attn.Wqkv", "blk.%lld.attn_qkv", MERGED, WIDTH, 0),
    HUB_BIAS(OTA_MERGED, LAYER "attn.Wqkv", MERGED, GROUP_INPUT_BIAS),
    PLAIN(OTA_OUTPUT, LAYER "attn.Wo", "blk.%lld.attn_output", WIDTH, MIXED, 0),
    HUB_BIAS(OTA_OUTPUT, LAYER "attn.Wo", WIDTH, GROUP_OUTPUT_BIAS),
    PLAIN(OTA_NORM_2, LAYER "mlp_norm", "blk.%lld.ffn_norm", WIDTH, NONE, 0),
    HUB_BIAS(OTA_NORM_2, LAYER "mlp_norm", WIDTH, GROUP_NORM_BIAS),
    PLAIN(OTA_GATE, LAYER "mlp.Wi", "blk.%lld.ffn_up", INNER, WIDTH, OTA_FIRST_HALF),
    HUB_GROUP(OTA_GATE_BIAS, LAYER "mlp.Wi.bias", INNER, NONE, OTA_FIRST_HALF, MLP_BIAS),
    PLAIN(OTA_UP, LAYER "mlp.Wi", "blk.%lld.ffn_up", INNER, WIDTH, OTA_SECOND_HALF),
    HUB_GROUP(OTA_UP_BIAS, LAYER "mlp.Wi.bias", INNER, NONE, OTA_SECOND_HALF, MLP_BIAS),
    PLAIN(OTA_DOWN, LAYER "mlp.Wo", "blk.%lld.ffn_down", WIDTH, INNER, 0),
    HUB_BIAS(OTA_DOWN, LAYER "mlp.Wo", WIDTH, GROUP_MLP_BIAS),
    PLAIN(OTA_FINAL_NORM, "final_norm", "output_norm", WIDTH, NONE, 0),
    HUB_BIAS(OTA_FINAL_NORM, "final_norm", WIDTH, GROUP_NORM_BIAS),
    HUB_GROUP(OTA_HEAD_DENSE, "head.dense.weight", WIDTH, WIDTH, 0, HEAD),
    HUB_BIAS(OTA_HEAD_DENSE, "head.dense", WIDTH, GROUP_HEAD_BIAS),
    HUB_GROUP(OTA_HEAD_NORM, "head.norm.weight", WIDTH, NONE, 0, HEAD),
    HUB_BIAS(OTA_HEAD_NORM, "head.norm", WIDTH, GROUP_NORM_BIAS),
    HUB_GROUP(OTA_HEAD, "decoder.weight", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS, HEAD),
    HUB_GROUP(OTA_HEAD_BIAS, "decoder.bias", VOCABULARY, NONE, 0, HEAD),
};

static const char *const modernbert_prefixes[] = {"model.", "", NULL};

/* ---- MPNet ---- */

static const ota_config_key mpnet_keys[] = {
    /* The class makes a table of so many rows and asks for 32 of them. */
    {"relative_attention_num_buckets", NULL, NULL, OTA_KEY_INTEGER, SIZE(BUCKETS), 32, 32, 32, 32},
    ALWAYS(INTEGER, distance, 128),
    ALWAYS(INTEGER, first_position, 1),
    /* The class looks both ways whatever is_decoder says. */
    ALWAYS(TRUTH, scores.causal, false),
};

static const ota_tensor_row mpnet_rows[] = {
    HUB_PLAIN(OTA_EMBED, "embeddings.word_embeddings", VOCABULARY, WIDTH, OTA_TIED_MAY_MISS),
    HUB_PLAIN(OTA_POSITION, "embeddings.position_embeddings", POSITION_ROWS, WIDTH, 0),
    HUB_NORM(OTA_EMBED_NORM, "embeddings.LayerNorm", 0),
    HUB_PLAIN(OTA_RELATIVE, "encoder.relative_attention_bias", BUCKETS, HEADS, 0),
    HUB_LINEAR(OTA_QUERY, "encoder.layer.%lld.attention.attn.q", QUERY, WIDTH, ALONE),
    HUB_LINEAR(OTA_KEY, "encoder.layer.%lld.attention.attn.k", KEY, WIDTH, ALONE),
    HUB_LINEAR(OTA_VALUE, "encoder.layer.%lld.attention.attn.v", VALUE, WIDTH, ALONE),
    HUB_LINEAR(OTA_OUTPUT, "encoder.layer.%lld.attention.attn.o", WIDTH, MIXED, ALONE),
    HUB_NORM(OTA_NORM_1, "encoder.layer.%lld.attention.LayerNorm", 0),
    HUB_LINEAR(OTA_UP, "encoder.layer.%lld.intermediate.dense", INNER, WIDTH, ALONE),
    HUB_LINEAR(OTA_DOWN, "encoder.layer.%lld.output.dense", WIDTH, INNER, ALONE),
    HUB_NORM(OTA_NORM_2, "encoder.layer.%lld.output.LayerNorm", 0),
};

static const char *const mpnet_prefixes[] = {"mpnet.", "", NULL};

/* ---- T5's encoder ---- */

static const ota_config_key t5_keys[] = {
    NEEDED("num_layers", "block_count", AT(layers), MOST_LAYERS),
    NEEDED("num_heads", "attention.head_count", AT(heads), MOST_HEADS),
    GGUF_ONLY("attention.head_count_kv", kv_heads, MOST_HEADS),
    NEEDED("d_kv", "attention.key_length", AT(head_width), MOST_WIDTH),
    GGUF_ONLY("attention.value_length", value_width, MOST_WIDTH),
    NEEDED("d_model", "embedding_length", SIZE(WIDTH), MOST_WIDTH),
    NEEDED("d_ff", "feed_forward_length", SIZE(INNER), MOST_INNER),
    INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),
    GGUF_ONLY("vocab_size", words, MOST_WORDS),
    /* Buckets know no last position. */
    ALWAYS(INTEGER, sizes[OTA_SIZE_POSITIONS], MOST_POSITIONS),
    {"relative_attention_num_buckets", NULL, "attention.relative_buckets_count", OTA_KEY_INTEGER,
     SIZE(BUCKETS), 4, 4096, 32, OTA_REQUIRED},
    /* Programs of the other format know no other. */
    INTEGER("relative_attention_max_distance", NULL, AT(distance), MOST_POSITIONS, 128, 128),
    REAL("layer_norm_epsilon", "attention.layer_norm_rms_epsilon", norm_epsilon, 1e-6,
         OTA_REQUIRED),
};

#define ATTENTION "block.%lld.layer.0.SelfAttention."
#define DENSE "block.%lld.layer.1.DenseReluDense."
#define GGUF_BLOCK "enc.blk.%lld."
static const ota_tensor_row t5_rows[] = {
    {OTA_EMBED, "embed_tokens.weight", "token_embd.weight", OTA_SIZE_VOCABULARY, OTA_SIZE_WIDTH, 0,
     OTA_ALONE, "shared.weight"},
    PLAIN(OTA_RELATIVE, "block.0.layer.0.SelfAttention.relative_attention_bias",
          "enc.blk.0.attn_rel_b", BUCKETS, HEADS, 0),
    PLAIN(OTA_NORM_1, "block.%lld.layer.0.layer_norm", GGUF_BLOCK "attn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_QUERY, ATTENTION "q", GGUF_BLOCK "attn_q", QUERY, WIDTH, 0),
    PLAIN(OTA_KEY, ATTENTION "k", GGUF_BLOCK "attn_k", KEY, WIDTH, 0),
    PLAIN(OTA_VALUE, ATTENTION "v", GGUF_BLOCK "attn_v", VALUE, WIDTH, 0),
    PLAIN(OTA_OUTPUT, ATTENTION "o", GGUF_BLOCK "attn_o", WIDTH, MIXED, 0),
    PLAIN(OTA_NORM_2, "block.%lld.layer.1.layer_norm", GGUF_BLOCK "ffn_norm", WIDTH, NONE, 0),
    PLAIN(OTA_GATE, DENSE "wi_0", GGUF_BLOCK "ffn_gate", INNER, WIDTH, OTA_OF_GATED),
    {OTA_UP, DENSE "wi.weight", GGUF_BLOCK "ffn_up.weight", OTA_SIZE_INNER, OTA_SIZE_WIDTH, 0,
     OTA_ALONE, DENSE "wi_1.weight"},
    PLAIN(OTA_DOWN, DENSE "wo", GGUF_BLOCK "ffn_down", WIDTH, INNER, 0),
    PLAIN(OTA_FINAL_NORM, "final_layer_norm", "enc.output_norm", WIDTH, NONE, 0),
};

static const char *const t5_prefixes[] = {"encoder.", "transformer.encoder.", "transformer.", "",
                                          NULL};

/* ---- the table ---- */

const ota_architecture ota_bert_family[] = {
    {.name = "bert",
     .model_type = "bert",
     .prefixes = bert_prefixes,
     .traits = OTA_ARCH_POST_NORM,
     .activation = OTA_GELU,
     .activation_key = "hidden_act",
     .keys = {LIST(bert_keys)},
     .rows = {LIST(bert_rows), LIST(bert_head_rows)}},
    {.name = "electra",
     .model_type = "electra",
     .prefixes = electra_prefixes,
     .traits = OTA_ARCH_POST_NORM | OTA_ARCH_GELU_HEAD | OTA_ARCH_HUB_ALONE,
     .activation = OTA_GELU,
     .activation_key = "hidden_act",
     .keys = {LIST(bert_keys), LIST(electra_keys)},
     .rows = {LIST(bert_rows), LIST(electra_rows)}},
#define ROBERTA(word)                                                                              \
    {                                                                                              \
        .name = word, .model_type = word, .prefixes = roberta_prefixes,                            \
        .traits = OTA_ARCH_POST_NORM | OTA_ARCH_POSITION_ROWS | OTA_ARCH_AFTER_PADDING |           \
                  OTA_ARCH_GELU_HEAD | OTA_ARCH_HUB_ALONE,                                         \
        .activation = OTA_GELU, .activation_key = "hidden_act",                                    \
        .keys = {LIST(bert_keys), LIST(roberta_keys)}, .rows = {                                   \
            LIST(bert_rows),                                                                       \
            LIST(roberta_head_rows)                                                                \
        }                                                                                          \
    }
    ROBERTA("roberta"),
    ROBERTA("xlm-roberta"),
    ROBERTA("camembert"),
    {.name = "distilbert",
     .model_type = "distilbert",
     .prefixes = distilbert_prefixes,
     .traits = OTA_ARCH_POST_NORM,
     .activation = OTA_GELU,
     .activation_key = "activation",
     .keys = {LIST(distilbert_keys)},
     .rows = {LIST(distilbert_rows)}},
    {.name = "modern-bert",
     .model_type = "modernbert",
     .prefixes = modernbert_prefixes,
     .traits = OTA_ARCH_ROTARY | OTA_ARCH_GATED | OTA_ARCH_TWO_ROPES | OTA_ARCH_LAYER_TYPES |
               OTA_ARCH_WINDOW_BOTH,
     .activation = OTA_GELU,
     .activation_key = "hidden_activation",
     .head_activation_key = "classifier_activation",
     .keys = {LIST(modernbert_keys)},
     .rows = {LIST(modernbert_rows)}},
    {.name = "mpnet",
     .model_type = "mpnet",
     .prefixes = mpnet_prefixes,
     .traits =
         OTA_ARCH_POST_NORM | OTA_ARCH_POSITION_ROWS | OTA_ARCH_AFTER_PADDING | OTA_ARCH_GELU_HEAD,
     .activation = OTA_GELU,
     .activation_key = "hidden_act",
     .keys = {LIST(bert_keys), LIST(mpnet_keys)},
     .rows = {LIST(mpnet_rows), LIST(roberta_head_rows)}},
    {.name = "t5encoder",
     .model_type = "t5",
     .prefixes = t5_prefixes,
     .traits = OTA_ARCH_RMS | OTA_ARCH_PROJECTION,
     .activation = OTA_RELU,
     .keys = {LIST(t5_keys)},
     .rows = {LIST(t5_rows)}},
    {0},
};
