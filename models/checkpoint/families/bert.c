/* BERT and its relatives, which look both ways.
 *
 *   bert   x = norm(E[id] + P[t] + T[type]);  x = norm(x + O attention(x));  x = norm(x + down gelu(up x)) */
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

/* ---- the table ---- */

const ota_architecture ota_bert_family[] = {
    {.name = "bert",
     .model_type = "bert",
     .prefixes = bert_prefixes,
     .traits = OTA_ARCH_POST_NORM,
     .activation = OTA_GELU,
     .activation_key = "hidden_act",
     .keys = {LIST(bert_keys)},
     .rows = {LIST(bert_rows)}},
    {0},
};
