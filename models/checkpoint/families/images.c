/* Models that see images: pieces of pixels in the place of words.
 *
 *   vit   x = (class, A pieces + a) + P[t];  x += O attention(norm x);  x += down gelu(up norm x);  logits = W norm x + b, of which
 *         the first token's are the image's */
#include "rows.h"

static const ota_config_key vit_keys[] = {
    INTEGER("num_hidden_layers", NULL, AT(layers), MOST_LAYERS, 12, 0),
    INTEGER("num_attention_heads", NULL, AT(heads), MOST_HEADS, 12, 0),
    INTEGER("hidden_size", NULL, SIZE(WIDTH), MOST_WIDTH, 768, 0),
    INTEGER("intermediate_size", NULL, SIZE(INNER), MOST_INNER, 3072, 0),
    INTEGER("image_size", NULL, AT(image.side), MOST_WIDTH, 224, 0),
    INTEGER("patch_size", NULL, AT(image.patch), MOST_WIDTH, 16, 0),
    INTEGER("num_channels", NULL, AT(image.channels), 1024, 3, 0),
    REAL("layer_norm_eps", NULL, norm_epsilon, 1e-12, 0),
    TRUTH("qkv_bias", NULL, biases.attention, true),
    ALWAYS(TRUTH, scores.scaled, true),
};

#define LAYER "encoder.layer.%lld."
static const ota_tensor_row vit_rows[] = {
    HUB_PLAIN(OTA_PATCH, "embeddings.patch_embeddings.projection", WIDTH, PATCH, OTA_RESHAPED),
    HUB_BIAS(OTA_PATCH, "embeddings.patch_embeddings.projection", WIDTH, ALONE),
    {OTA_CLASS, "embeddings.cls_token", NULL, OTA_SIZE_WIDTH, OTA_SIZE_NONE, OTA_RESHAPED,
     OTA_ALONE, NULL},
    {OTA_POSITION, "embeddings.position_embeddings", NULL, OTA_SIZE_POSITIONS, OTA_SIZE_WIDTH,
     OTA_RESHAPED, OTA_ALONE, NULL},
    HUB_NORM(OTA_NORM_1, LAYER "layernorm_before", 0),
    HUB_LINEAR(OTA_QUERY, LAYER "attention.attention.query", QUERY, WIDTH, GROUP_INPUT_BIAS),
    HUB_LINEAR(OTA_KEY, LAYER "attention.attention.key", KEY, WIDTH, GROUP_INPUT_BIAS),
    HUB_LINEAR(OTA_VALUE, LAYER "attention.attention.value", VALUE, WIDTH, GROUP_INPUT_BIAS),
    HUB_LINEAR(OTA_OUTPUT, LAYER "attention.output.dense", WIDTH, MIXED, ALONE),
    HUB_NORM(OTA_NORM_2, LAYER "layernorm_after", 0),
    HUB_LINEAR(OTA_UP, LAYER "intermediate.dense", INNER, WIDTH, ALONE),
    HUB_LINEAR(OTA_DOWN, LAYER "output.dense", WIDTH, INNER, ALONE),
    HUB_NORM(OTA_FINAL_NORM, "layernorm", 0),
    HUB_GROUP(OTA_HEAD, "classifier.weight", VOCABULARY, WIDTH, 0, HEAD),
    HUB_GROUP(OTA_HEAD_BIAS, "classifier.bias", VOCABULARY, NONE, 0, HEAD),
};

static const char *const prefixes[] = {"vit.", "", NULL};

const ota_architecture ota_image_family[] = {
    {.name = "vit",
     .model_type = "vit",
     .prefixes = prefixes,
     .traits = OTA_ARCH_LABELS,
     .activation = OTA_GELU,
     .activation_key = "hidden_act",
     .keys = {LIST(vit_keys)},
     .rows = {LIST(vit_rows)}},
    {0},
};
