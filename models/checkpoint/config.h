/* models/checkpoint/: Files of a checkpoint, read as if they were hostile: safetensors, gguf, config.json; tensors
 * bound to their roles by the table of architectures. It may call the public headers and models/kernels/. Begin with
 * model.c; a model family is a row of architecture.c, what may be passed over a row of ignored.c.
 *
 * What a model is: its configuration and its row in the table of architectures. */
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

typedef struct ota_rope_config {
    double base, local_base; /* the latter of local layers, not scaled */
    ota_rope_scaling scaling;
    bool interleaved; /* pairs (2k, 2k+1), else (k, k + head width / 2) */
} ota_rope_config;

typedef struct ota_score_config {
    bool scaled;          /* 1 / sqrt(head width) */
    bool scaled_by_layer; /* those of layer l also / (l + 1) */
    bool causal;
} ota_score_config;

/* Hub files: there are such tensors. */
typedef struct ota_bias_config {
    bool attention, mlp;
} ota_bias_config;

enum { OTA_LAYERS_MOST = 1024 };

typedef struct ota_config {
    int64_t layers, heads, kv_heads, head_width;
    int64_t value_width, rotary_width; /* 0: head width, the only one that is run */
    int64_t
        words; /* gguf: of the vocabulary; 0: the embedding's rows, the only ones that are run */
    int64_t query_scalar; /* scores are divided by its root; 0: head width */
    int64_t window;       /* of local layers: how it lies is said in attention.c */
    int64_t
        local_period; /* all layers but each so many-th are local; 0: `local` is filled already */
    bool local[OTA_LAYERS_MOST];
    int64_t sizes[OTA_SIZES];
    double norm_epsilon;
    ota_activation activation;
    bool tied; /* a head that the file lacks is the embedding, and the other way round */
    ota_rope_config rope;
    ota_score_config scores;
    ota_bias_config biases;
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
    OTA_MAY_MISS = 1,      /* the model runs without it */
    OTA_INPUT_MAJOR = 2,   /* in hub files the matrix is [in, out] */
    OTA_LESS_ONE = 4,      /* in hub files the vector is stored less 1 */
    OTA_TIED_MAY_MISS = 8, /* the embedding stands for it where the two are tied */
    OTA_TIED_OTHER = 16    /* the other name holds where the embedding is tied to the head */
};

/* Tensors that are there together: all of them in all layers, or none. */
typedef enum ota_group {
    OTA_ALONE,
    OTA_GROUP_INPUT_BIAS, /* of queries, keys and values */
    OTA_GROUP_OUTPUT_BIAS,
    OTA_GROUP_MLP_BIAS,
    OTA_GROUP_HEAD, /* BERT's, with its transform */
    OTA_GROUPS
} ota_group;

/* One tensor: names in the two formats ("%lld" is the layer; NULL: not there), shape [rows, columns]
 * as a linear layer has it: [out, in]. */
typedef struct ota_tensor_row {
    ota_role role;
    const char *hub, *gguf;
    ota_size rows, columns;
    unsigned flags;
    ota_group group;
    const char *other; /* a second name in hub files, tried after the first */
} ota_tensor_row;

typedef enum ota_key_kind { OTA_KEY_INTEGER, OTA_KEY_REAL, OTA_KEY_TRUTH } ota_key_kind;

/* Where a setting stands: in ota_config an int64_t, a double or a bool. */
typedef struct ota_config_key {
    const char *hub, *other; /* where both stand, the other holds, as transformers has it */
    const char *gguf;        /* after "ARCHITECTURE." */
    ota_key_kind kind;
    size_t offset;                  /* in ota_config */
    double least, most;             /* of integers */
    double standard, gguf_standard; /* where the key is missing; OTA_REQUIRED: it must be there */
} ota_config_key;

enum { OTA_REQUIRED = -1 };

enum {
    OTA_ARCH_RMS = 1, /* norms divide by the root of the mean square */
    OTA_ARCH_POST_NORM = 2,
    OTA_ARCH_ROTARY = 4,
    OTA_ARCH_GATED = 8,
    OTA_ARCH_SCALED_EMBEDDING = 16, /* times sqrt(width) */
    OTA_ARCH_LOCAL = 32, /* some layers see a window, with rotary positions of their own */
    OTA_ARCH_INTERLEAVED_GGUF =
        64 /* gguf files order rows of queries and keys for pairs (2k, 2k + 1) */
};

typedef struct ota_architecture {
    const char *name, *model_type; /* general.architecture of gguf, and of hub files */
    const char *const *prefixes;   /* of hub tensor names, tried in order, NULL at the end */
    unsigned traits;               /* OTA_ARCH_ bits */
    /* Gguf files of so many layers divide scores by the root of width / heads: no key of theirs says it. */
    int64_t wide_layers;
    ota_activation activation; /* where the configuration names none */
    const char *activation_key;
    const ota_config_key *keys;
    const ota_tensor_row *rows;
    int key_count, row_count;
} ota_architecture;

/* ---- what is not read (ignored.c) ---- */

typedef enum ota_ignored_kind {
    OTA_IGNORED_CONFIG, /* keys of config.json */
    OTA_IGNORED_ROPE,   /* of its objects about rotary positions */
    OTA_IGNORED_GGUF,   /* keys of a gguf file; those of its architecture begin with a point */
    OTA_IGNORED_HUB_TENSORS,
    OTA_IGNORED_GGUF_TENSORS
} ota_ignored_kind;

/* What is taken although nothing reads it: no value of it, or no other than `values`, changes a forward pass. */
typedef struct ota_ignored {
    ota_ignored_kind kind;
    const char *of;     /* names of architectures, between blanks; NULL: all */
    const char *values; /* a|b: the ones that are taken; NULL: any */
    const char *names;  /* between blanks; # is a number, * at the end anything */
    const char *reason;
} ota_ignored;

/* The first row that holds for the name, or NULL. */
const ota_ignored *ota_ignored_find(ota_ignored_kind kind, const ota_architecture *architecture,
                                    const char *name);
/* Is `text` among the row's values? */
bool ota_ignored_takes(const ota_ignored *row, const char *text);

static inline bool ota_architecture_has(const ota_architecture *architecture, unsigned trait) {
    return (architecture->traits & trait) != 0;
}

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

/* Writes the field of a key. */
void ota_config_set(ota_config *config, const ota_config_key *key, double value);
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
