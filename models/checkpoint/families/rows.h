/* rows.h: words in which the rows of families are written. Matrices are [out, in]; names are those of hub checkpoints and of
 * llama.cpp's gguf files. */
#ifndef OTATTN_MODELS_FAMILY_ROWS_H
#define OTATTN_MODELS_FAMILY_ROWS_H

#include "models/checkpoint/config.h"

#include <stddef.h>

/* Each ends with a row without a name. */
extern const ota_architecture ota_gpt_family[], ota_bert_family[], ota_llama_family[],
    ota_gemma_family[], ota_deepseek_family[], ota_image_family[];

#define LIST(table)                                                                                \
    { table, (int)(sizeof(table) / sizeof *(table)) }
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
#define BIAS(role, hub, gguf, rows, group) BIAS_OF(role, hub, gguf, rows, 0, group)
#define BIAS_OF(role, hub, gguf, rows, flags, group)                                               \
    {                                                                                              \
        role##_BIAS, hub ".bias", gguf ".bias", OTA_SIZE_##rows, OTA_SIZE_NONE, flags,             \
            OTA_##group, NULL                                                                      \
    }
/* The same without a name in gguf files. */
#define HUB_PLAIN(role, hub, rows, columns, flags)                                                 \
    { role, hub ".weight", NULL, OTA_SIZE_##rows, OTA_SIZE_##columns, flags, OTA_ALONE, NULL }
#define HUB_BIAS(role, hub, rows, group) HUB_BIAS_OF(role, hub, rows, 0, group)
#define HUB_BIAS_OF(role, hub, rows, flags, group)                                                 \
    { role##_BIAS, hub ".bias", NULL, OTA_SIZE_##rows, OTA_SIZE_NONE, flags, OTA_##group, NULL }
#define HUB_GROUP(role, hub, rows, columns, flags, group)                                          \
    { role, hub, NULL, OTA_SIZE_##rows, OTA_SIZE_##columns, flags, OTA_GROUP_##group, NULL }
#define GGUF_NORM(role, gguf, flags)                                                               \
    {role, NULL, gguf ".weight", OTA_SIZE_WIDTH, OTA_SIZE_NONE, flags, OTA_ALONE, NULL}, {         \
        role##_BIAS, NULL, gguf ".bias", OTA_SIZE_WIDTH, OTA_SIZE_NONE, flags, OTA_ALONE, NULL     \
    }
#define GGUF_PART(role, gguf, rows, columns)                                                       \
    { role, NULL, gguf, OTA_SIZE_##rows, OTA_SIZE_##columns, 0, OTA_ALONE, NULL }
#define HUB_LINEAR(role, hub, rows, columns, group)                                                \
    HUB_PLAIN(role, hub, rows, columns, 0), HUB_BIAS(role, hub, rows, group)
#define HUB_NORM(role, hub, flags)                                                                 \
    HUB_PLAIN(role, hub, WIDTH, NONE, flags), {                                                    \
        role##_BIAS, hub ".bias", NULL, OTA_SIZE_WIDTH, OTA_SIZE_NONE, flags, OTA_ALONE, NULL      \
    }
#define INTEGER(hub, gguf, at, most, standard, gguf_standard)                                      \
    { hub, NULL, gguf, OTA_KEY_INTEGER, at, 1, most, standard, gguf_standard }
#define NEEDED(hub, gguf, at, most) INTEGER(hub, gguf, at, most, OTA_REQUIRED, OTA_REQUIRED)
#define RENAMED(hub, other, gguf, at, most)                                                        \
    { hub, other, gguf, OTA_KEY_INTEGER, at, 1, most, OTA_REQUIRED, OTA_REQUIRED }
#define REAL(hub, gguf, field, standard, gguf_standard)                                            \
    { hub, NULL, gguf, OTA_KEY_REAL, AT(field), 0, 0, standard, gguf_standard }
#define TRUTH(hub, gguf, field, standard)                                                          \
    { hub, NULL, gguf, OTA_KEY_TRUTH, AT(field), 0, 0, standard, standard }
#define TRUTH_OR_NULL(hub, field, standard, gguf_standard)                                         \
    { hub, NULL, NULL, OTA_KEY_TRUTH_OR_NULL, AT(field), 0, 0, standard, gguf_standard }
/* In gguf files the head is the embedding where there is none. */
#define TIED(standard)                                                                             \
    { "tie_word_embeddings", NULL, NULL, OTA_KEY_TRUTH, AT(tied), 0, 0, standard, true }
/* null says that there is none, as 0. */
#define INTEGER_OR_NULL(hub, gguf, at, most, standard, gguf_standard)                              \
    { hub, NULL, gguf, OTA_KEY_INTEGER_OR_NULL, at, 1, most, standard, gguf_standard }
#define REAL_OR_NULL(hub, gguf, field, standard, gguf_standard)                                    \
    { hub, NULL, gguf, OTA_KEY_REAL_OR_NULL, AT(field), 0, 0, standard, gguf_standard }
#define NOT(hub, field, standard)                                                                  \
    { hub, NULL, NULL, OTA_KEY_NOT, AT(field), 0, 0, standard, standard }
/* A number of the family that no file says. */
#define ALWAYS(kind, field, number)                                                                \
    { NULL, NULL, NULL, OTA_KEY_##kind, AT(field), 0, 0, number, number }
/* No hub file has it. */
#define GGUF_ONLY(gguf, field, most) INTEGER(NULL, gguf, AT(field), most, 0, 0)

/* What Llama's and Gemma's relatives have in common; what differs stands in a list behind it, which then holds. */
#define ROTARY_KEYS                                                                                \
    NEEDED("num_hidden_layers", "block_count", AT(layers), MOST_LAYERS),                           \
        NEEDED("num_attention_heads", "attention.head_count", AT(heads), MOST_HEADS),              \
        INTEGER("num_key_value_heads", "attention.head_count_kv", AT(kv_heads), MOST_HEADS, 0, 0), \
        INTEGER("head_dim", "attention.key_length", AT(head_width), MOST_WIDTH, 0, 0),             \
        GGUF_ONLY("attention.value_length", value_width, MOST_WIDTH),                              \
        GGUF_ONLY("rope.dimension_count", rotary_width, MOST_WIDTH),                               \
        NEEDED("hidden_size", "embedding_length", SIZE(WIDTH), MOST_WIDTH),                        \
        NEEDED("max_position_embeddings", "context_length", SIZE(POSITIONS), MOST_POSITIONS),      \
        INTEGER("vocab_size", NULL, SIZE(VOCABULARY), MOST_WORDS, OTA_REQUIRED, 0),                \
        GGUF_ONLY("vocab_size", words, MOST_WORDS),                                                \
        NEEDED("intermediate_size", "feed_forward_length", SIZE(INNER), MOST_INNER),               \
        REAL("rms_norm_eps", "attention.layer_norm_rms_epsilon", norm_epsilon, 1e-6,               \
             OTA_REQUIRED),                                                                        \
        REAL("rope_theta", "rope.freq_base", rope.base, 10000, 10000),                             \
        ALWAYS(REAL, rope.share, 1), TIED(false), ALWAYS(TRUTH, scores.scaled, true),              \
        TRUTH("is_causal", "attention.causal", scores.causal, true)

enum {
    MOST_LAYERS = OTA_LAYERS_MOST,
    MOST_HEADS = 1024,
    MOST_WIDTH = 65536,
    MOST_EXPERTS = 1024,
    MOST_POSITIONS = 1 << 20
};
enum { MOST_WORDS = 1 << 20, MOST_INNER = 1 << 20 };
/* Of ota_config.local.period: no layer is left out. */
enum { EVERY_LAYER = 1 << 20 };

#endif
