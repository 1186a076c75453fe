/* What a model is: its configuration and its row in the table of architectures. */
#ifndef OTATTN_MODELS_CONFIG_H
#define OTATTN_MODELS_CONFIG_H

#include "files.h"

#include <jansson.h>

typedef enum ota_activation {
    OTA_GELU,      /* x Phi(x) */
    OTA_GELU_TANH, /* x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    OTA_RELU,
    OTA_SILU, /* x / (1 + exp(-x)) */
    OTA_TANH
} ota_activation;

/* Sizes that shapes of tensors are made of. */
typedef enum ota_size {
    OTA_SIZE_NONE, /* a vector has no columns */
    OTA_SIZE_WIDTH,
    OTA_SIZE_QUERY,  /* heads x head width */
    OTA_SIZE_KEY,    /* key heads x head width */
    OTA_SIZE_MERGED, /* query + 2 key */
    OTA_SIZE_INNER,
    OTA_SIZE_VOCABULARY,
    OTA_SIZE_POSITIONS,
    OTA_SIZE_TYPES,
    OTA_SIZE_HEAD,  /* head width */
    OTA_SIZE_PAIRS, /* head width / 2: frequencies of rotary positions */
    OTA_SIZES
} ota_size;

/* How the frequencies of rotary positions are stretched for longer contexts: rope.c. */
typedef enum ota_rope_kind { OTA_ROPE_PLAIN, OTA_ROPE_LINEAR, OTA_ROPE_LLAMA3 } ota_rope_kind;

typedef struct ota_rope_scaling {
    ota_rope_kind kind;
    double factor;
    double low, high, original; /* llama3: turns within the original context */
} ota_rope_scaling;

enum { OTA_LAYERS_MOST = 1024 };

typedef struct ota_config {
    int64_t layers, heads, kv_heads, head_width;
    int64_t value_width;  /* 0: head width, the only one that is run */
    int64_t query_scalar; /* scores are divided by its root; 0: head width */
    int64_t window;       /* keys that a local layer sees; 0: all */
    int64_t
        local_period; /* all layers but each so many-th are local; 0: `local` is filled already */
    bool local[OTA_LAYERS_MOST];
    int64_t sizes[OTA_SIZES];
    double norm_epsilon, rope_base;
    double local_rope_base; /* of local layers, not scaled */
    ota_rope_scaling rope;
    ota_activation activation;
    bool tied;             /* the head is the embedding */
    bool unscaled;         /* no 1 / sqrt(head width) */
    bool scaled_by_layer;  /* scores of layer l also / (l + 1) */
    bool interleaved_rope; /* pairs (2k, 2k+1), else (k, k + head width / 2) */
} ota_config;

/* Which tensor of a block or of the whole model; a bias follows its weight. */
typedef enum ota_role {
    OTA_NORM_1,
    OTA_NORM_1_BIAS,
    OTA_NORM_1_BEHIND, /* of what attention adds, before it is added */
    OTA_QUERY,
    OTA_QUERY_BIAS,
    OTA_KEY,
    OTA_KEY_BIAS,
    OTA_VALUE,
    OTA_VALUE_BIAS,
    OTA_MERGED, /* query, key and value in one */
    OTA_MERGED_BIAS,
    OTA_QUERY_NORM, /* of each head, before rotary positions */
    OTA_KEY_NORM,
    OTA_OUTPUT,
    OTA_OUTPUT_BIAS,
    OTA_NORM_2,
    OTA_NORM_2_BIAS,
    OTA_NORM_2_BEHIND,
    OTA_UP,
    OTA_UP_BIAS,
    OTA_GATE,
    OTA_GATE_BIAS,
    OTA_DOWN,
    OTA_DOWN_BIAS,
    OTA_BLOCK_ROLES,
    OTA_EMBED = OTA_BLOCK_ROLES,
    OTA_POSITION,
    OTA_TYPE,
    OTA_ROPE_DIVISORS, /* of the frequencies */
    OTA_EMBED_NORM,
    OTA_EMBED_NORM_BIAS,
    OTA_FINAL_NORM,
    OTA_FINAL_NORM_BIAS,
    OTA_HEAD,
    OTA_HEAD_BIAS,
    OTA_HEAD_DENSE, /* BERT's transform before the head */
    OTA_HEAD_DENSE_BIAS,
    OTA_HEAD_NORM,
    OTA_HEAD_NORM_BIAS,
    OTA_ROLES
} ota_role;

enum {
    OTA_MAY_MISS = 1,    /* the model runs without it */
    OTA_INPUT_MAJOR = 2, /* in hub files the matrix is [in, out] */
    OTA_LESS_ONE = 4     /* in hub files the vector is stored less 1 */
};

/* One tensor: names in the two formats ("%lld" is the layer; NULL: not there), shape [rows, columns]
 * as a linear layer has it: [out, in]. */
typedef struct ota_tensor_row {
    ota_role role;
    const char *hub, *gguf;
    ota_size rows, columns;
    unsigned flags;
} ota_tensor_row;

/* Where a number of the configuration stands. */
typedef struct ota_size_key {
    const char *hub, *gguf; /* gguf: after "ARCHITECTURE." */
    size_t offset;          /* in ota_config */
    int64_t least, most;
    int64_t standard; /* where the key may be missing; -1: it must be there */
} ota_size_key;

typedef struct ota_architecture {
    const char *name, *model_type; /* general.architecture of gguf, and of hub files */
    const char *const *prefixes;   /* of hub tensor names, tried in order, NULL at the end */
    bool rms, post_norm, rotary, gated, causal;
    bool scaled_embedding; /* times sqrt(width) */
    bool local;            /* some layers see a window, with rotary positions of their own */
    bool interleaved_gguf; /* gguf files order rows of queries and keys for pairs (2k, 2k + 1) */
    ota_activation activation; /* where the configuration names none */
    double rope_base;          /* the same */
    const char *epsilon_key, *gguf_epsilon_key, *activation_key;
    bool tied_by_default;
    const ota_size_key *keys;
    const ota_tensor_row *rows;
    int key_count, row_count;
} ota_architecture;

extern const ota_architecture ota_architectures[];
extern const int ota_architecture_count;
const ota_architecture *ota_architecture_named(const char *name, bool gguf);
/* The factor of scores q k^T in a layer. */
double ota_config_scale(const ota_config *config, int64_t layer);

/* The kind that both formats spell so; false: none is. */
bool ota_rope_named(const char *word, ota_rope_kind *kind);
/* NULL, or what is wrong with the numbers. */
const char *ota_rope_fault(const ota_rope_scaling *scaling);
/* Of pair k, in radians a position; `divisors` [head width / 2] or NULL. `local`: in a local layer. */
float ota_rope_frequency(const ota_config *config, bool local, const float *divisors, int64_t k);

/* config.json of a folder. */
ota_status ota_config_read(const char *path, const ota_architecture **architecture,
                           ota_config *config, ota_error *error);
/* The last checks and derived sizes, for both formats; `path` for messages. */
ota_status ota_config_finish(const ota_architecture *architecture, ota_config *config,
                             const char *path, ota_error *error);
/* A strict JSON file below `most` bytes: no duplicate keys, nesting at most 64; the tree is the
 * caller's. */
ota_status ota_json_file(const char *path, bool trusted, int64_t most, json_t **tree,
                         ota_error *error);

enum { OTA_CONFIG_BYTES = 1 << 21 };

#endif
