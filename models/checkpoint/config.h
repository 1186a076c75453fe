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
    OTA_SIZE_EMBED,      /* of embeddings: the width, or fewer numbers */
    OTA_SIZE_POSITION,   /* of the table of positions: either */
    OTA_SIZE_QUERY,      /* heads x head width */
    OTA_SIZE_KEY,        /* key heads x head width */
    OTA_SIZE_VALUE,      /* key heads x value width */
    OTA_SIZE_MERGED,     /* query + key + value */
    OTA_SIZE_MIXED,      /* heads x value width */
    OTA_SIZE_QUERY_RANK, /* latent attention: of queries, and of keys and values */
    OTA_SIZE_KEY_RANK,
    OTA_SIZE_LATENT,         /* key rank + rotary width */
    OTA_SIZE_EXPANDED,       /* heads x (head width - rotary width + value width) */
    OTA_SIZE_EXPANDED_KEY,   /* key rank x what is not rotated, of one head */
    OTA_SIZE_EXPANDED_VALUE, /* value width x key rank */
    OTA_SIZE_INNER,
    OTA_SIZE_EXPERTS,
    OTA_SIZE_CHOSEN, /* experts of a token */
    OTA_SIZE_EXPERT_INNER,
    OTA_SIZE_EXPERT_MERGED, /* twice that */
    OTA_SIZE_SHARED_INNER,  /* of the MLP that every token has beside those of experts */
    OTA_SIZE_ONE,
    OTA_SIZE_HEADS,
    OTA_SIZE_BUCKETS,
    OTA_SIZE_VOCABULARY,
    OTA_SIZE_POSITIONS,
    OTA_SIZE_POSITION_ROWS, /* of the table of positions: those before the first are of no token */
    OTA_SIZE_TYPES,
    OTA_SIZE_PATCH, /* numbers of a piece of an image */
    OTA_SIZE_HEAD,  /* head width */
    OTA_SIZE_PAIRS, /* rotary width / 2: frequencies of rotary positions */
    OTA_SIZES
} ota_size;

enum { OTA_LAYERS_MOST = 1024 };

/* How the frequencies of rotary positions are stretched for longer contexts: rope.c. */
typedef enum ota_rope_kind {
    OTA_ROPE_PLAIN,
    OTA_ROPE_LINEAR,
    OTA_ROPE_LLAMA3,
    OTA_ROPE_YARN,
    OTA_ROPE_LONG,
    OTA_ROPE_DYNAMIC
} ota_rope_kind;

enum { OTA_PAIRS_MOST = 512 };

typedef struct ota_rope_scaling {
    ota_rope_kind kind;
    double factor;
    double low, high, original; /* llama3, yarn: turns within the original context; that context */
    double attention;           /* cosines and sines are multiplied by it; 0: what the kind says */
    double scale, scale_all;    /* yarn: of the logarithm in `attention`; 0: not given */
    bool whole;                 /* yarn: bounds of pairs are whole numbers */
    int64_t divisors;           /* longrope: how many of each list */
    float shorter[OTA_PAIRS_MOST], longer[OTA_PAIRS_MOST]; /* up to `original` positions, beyond */
} ota_rope_scaling;

typedef struct ota_rope_config {
    double base,
        local_base; /* the latter of local layers, not scaled; 0: local layers have no others */
    double share;   /* of a head's numbers that are rotated */
    int64_t spared_period; /* each so many-th layer has no positions at all; 0: none */
    bool replaced;         /* no layer has any: slopes of keys stand for them (session.c) */
    bool interleaved;      /* pairs (2k, 2k+1), else (k, k + rotary width / 2) */
    bool spared[OTA_LAYERS_MOST];
    ota_rope_scaling scaling;
} ota_rope_config;

typedef struct ota_score_config {
    bool scaled;          /* 1 / sqrt(head width) */
    bool scaled_by_layer; /* those of layer l also / (l + 1) */
    bool causal;
    bool sloped;   /* ALiBi: less a slope of the head times the distance */
    double factor; /* in place of what `scaled` says; 0: none */
    double cap;    /* c tanh(score / c); 0: none */
} ota_score_config;

/* What is multiplied; 0: not. */
typedef struct ota_factors {
    double embedding, branch; /* of what attention and MLP add */
    double logits;            /* are divided by it */
    double logit_cap;         /* c tanh(logit / c) */
} ota_factors;

/* What a block looks like where the row of the table does not say it. */
typedef struct ota_form {
    bool post_norm; /* norms behind the sums */
    bool
        parallel; /* x += attention(norm_1 x) + MLP(norm_2 x), or of norm_1 x where that is alone */
    bool single_key; /* one key head for all, unless key_groups */
    bool key_groups; /* Falcon's newer blocks: parallel, with key heads of their own number */
    int64_t norms;   /* of a block: 1 or 2 */
} ota_form;

/* Of a mixture: every token has the MLPs of some experts, which a router weighs. sizes[OTA_SIZE_EXPERTS] is 0 elsewhere. */
typedef struct ota_expert_config {
    int64_t chosen; /* for a token */
    int64_t groups; /* of which a token's experts come from some alone; 0: no groups */
    int64_t groups_chosen;
    int64_t gating;     /* gguf: 2 says sigmoid, 1 and 0 softmax */
    int64_t group_best; /* a group counts as its largest weight, or as the sum of its 2 largest */
    int64_t first;      /* no layer before it is a mixture */
    int64_t period;     /* only each so many-th is; 0: all */
    int64_t shared;     /* of as many inner numbers as so many experts: the shared MLP's */
    double factor;      /* weights are multiplied by it; 0: not */
    bool dense[OTA_LAYERS_MOST]; /* layers that are no mixtures */
    bool sigmoid;                /* weights are 1 / (1 + exp(-x)) in place of softmax x */
    bool normalised;             /* the weights of those chosen add up to 1 */
    bool packed;                 /* hub files: their matrices are codes and scales of MXFP4 */
    /* In place of the activation: g = min(gate, limit), u = up within -limit to limit, (u + 1) g / (1 + exp(-slope g)); 0: not so */
    double limit, slope;
} ota_expert_config;

/* Of models that see images, which are cut into pieces; channels 0: it reads text. */
typedef struct ota_image_config {
    int64_t channels, side,
        patch; /* numbers a pixel, pixels of a side of the image and of a piece */
} ota_image_config;

/* Which layers see a window: how it lies is said in attention.c. */
typedef struct ota_local_config {
    int64_t window;
    int64_t period; /* all layers but each so many-th are local; 0: `layers` is filled already */
    int64_t shift;  /* layers before the first of which the period is counted */
    int64_t first;  /* no layer before it is local */
    int64_t end;    /* nor is any from it on; 0: no such layer */
    bool windowed;  /* else `window` is of no layer */
    bool layers[OTA_LAYERS_MOST];
} ota_local_config;

/* Latent attention: queries, or keys and values, are made from fewer numbers, which a norm stands before. The last numbers of a head
 * are rotated, and those of keys are the same in all heads. sizes[OTA_SIZE_KEY_RANK] is 0 elsewhere. */
typedef struct ota_latent_config {
    int64_t plain; /* of a head's numbers, which are not rotated; gguf files: 0, and these say it */
    int64_t key_width, value_width; /* of a head; 0: as of other attention */
    double epsilon;
} ota_latent_config;

/* Hub files: there are such tensors. */
typedef struct ota_bias_config {
    bool attention, mlp;
    bool norm; /* also of gguf files */
    bool head; /* of the transform before the head */
} ota_bias_config;

/* What matrices hold, whatever their sizes. */
typedef struct ota_matrices {
    bool gated;           /* the MLP: down (act(gate x) * up x) */
    bool merged_by_group; /* OTA_MERGED is [key heads][its queries, key, value][head width] */
} ota_matrices;

typedef struct ota_config {
    int64_t layers, heads, kv_heads, head_width;
    int64_t value_width;  /* 0: head width */
    int64_t rotary_width; /* numbers of a head that are rotated; 0: as rope.share says */
    int64_t
        words; /* gguf: of the vocabulary; 0: the embedding's rows, the only ones that are run */
    int64_t embed_width;    /* of an embedding that is not as wide as the rest; 0: it is */
    int64_t query_scalar;   /* scores are divided by its root; 0: head width */
    int64_t distance;       /* from which on all distances are in the last bucket */
    int64_t first_position; /* rows of the table of positions before that of a text's first token */
    int64_t unused_layers;  /* behind the last, which predict further tokens: not run */
    int64_t sizes[OTA_SIZES];
    double norm_epsilon;
    ota_activation activation, head_activation;
    ota_form form;
    ota_matrices matrices;
    ota_factors factors;
    bool tied; /* a head that the file lacks is the embedding, and the other way round */
    ota_local_config local;
    ota_latent_config latent;
    ota_image_config image;
    ota_rope_config rope;
    ota_score_config scores;
    ota_bias_config biases;
    ota_expert_config experts;
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
    OTA_QUERY_DOWN, /* latent attention: to fewer numbers, of which OTA_QUERY then makes queries */
    OTA_QUERY_DOWN_BIAS,
    OTA_QUERY_DOWN_NORM,
    OTA_LATENT, /* to fewer numbers and the rotated ones of keys */
    OTA_LATENT_BIAS,
    OTA_LATENT_NORM,
    OTA_EXPAND,     /* of which this makes, head by head, the rest of keys and values */
    OTA_EXPAND_KEY, /* or these two, in newer gguf files: of keys [in, out], of values [out, in] */
    OTA_EXPAND_VALUE,
    OTA_QUERY_NORM, /* of each head, or of all as one row, before rotary positions */
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
    OTA_SINKS, /* of each head a logit without a key */
    OTA_ROUTER,
    OTA_ROUTER_BIAS,
    OTA_ROUTER_CORRECTION, /* is added to weights where experts are chosen by them */
    OTA_SHARED_UP,         /* of the MLP that every token has */
    OTA_SHARED_UP_BIAS,
    OTA_SHARED_GATE,
    OTA_SHARED_GATE_BIAS,
    OTA_SHARED_DOWN,
    OTA_SHARED_DOWN_BIAS,
    OTA_SHARED_ROUTER, /* that MLP is multiplied by 1 / (1 + exp(-w x)) */
    OTA_EXPERT_UP, /* of every expert one; gguf files have them in one tensor [experts, rows, columns] */
    OTA_EXPERT_UP_BIAS,
    OTA_EXPERT_GATE,
    OTA_EXPERT_GATE_BIAS,
    OTA_EXPERT_DOWN,
    OTA_EXPERT_DOWN_BIAS,
    OTA_EXPERT_MERGED, /* outputs of gate and up in turn */
    OTA_EXPERT_MERGED_BIAS,
    OTA_BLOCK_ROLES,
    OTA_EMBED = OTA_BLOCK_ROLES,
    OTA_PATCH, /* pieces of an image to states, in the place of words */
    OTA_PATCH_BIAS,
    OTA_CLASS, /* what stands in front of them */
    OTA_POSITION,
    OTA_TYPE,
    OTA_RELATIVE,      /* of buckets of distances, for every head what is added to scores */
    OTA_ROPE_DIVISORS, /* of the frequencies */
    OTA_ROPE_SHORTER,  /* longrope's two lists of them */
    OTA_ROPE_LONGER,
    OTA_EMBED_NORM,
    OTA_EMBED_NORM_BIAS,
    OTA_FINAL_NORM,
    OTA_FINAL_NORM_BIAS,
    OTA_EMBED_PROJECT, /* of narrow embeddings, to the width */
    OTA_EMBED_PROJECT_BIAS,
    OTA_HEAD_PROJECT, /* back, before the head */
    OTA_HEAD,
    OTA_HEAD_BIAS,
    OTA_HEAD_DENSE, /* BERT's transform before the head */
    OTA_HEAD_DENSE_BIAS,
    OTA_HEAD_NORM,
    OTA_HEAD_NORM_BIAS,
    OTA_ROLES
} ota_role;

enum {
    OTA_MAY_MISS = 1 << 0,      /* the model runs without it */
    OTA_INPUT_MAJOR = 1 << 1,   /* in hub files the matrix is [in, out] */
    OTA_LESS_ONE = 1 << 2,      /* in hub files the vector is stored less 1 */
    OTA_TIED_MAY_MISS = 1 << 3, /* the embedding stands for it where the two are tied */
    OTA_TIED_OTHER = 1 << 4,    /* the other name holds where the embedding is tied to the head */
    OTA_FIRST_HALF = 1 << 5,    /* the upper rows of a tensor of twice as many */
    OTA_SECOND_HALF = 1 << 6,
    OTA_OF_PRE_NORM = 1 << 7, /* there in models with norms in front alone */
    OTA_SECOND_NORM = 1 << 8, /* there in blocks of two norms alone */
    OTA_NOT_FIRST = 1 << 9,   /* not there in the first layer */
    OTA_STACKED = 1 << 10,    /* hub files, too, have all experts in one tensor */
    OTA_OF_GATED = 1 << 11,   /* of gated layers alone */
    OTA_PACKED = 1 << 12,   /* codes, where ota_expert_config.packed says it; scales beside them */
    OTA_UNPACKED = 1 << 13, /* where it does not */
    OTA_OF_MIXTURE = 1 << 14,    /* of layers that are mixtures */
    OTA_OF_DENSE = 1 << 15,      /* of all others */
    OTA_OF_QUERY_RANK = 1 << 16, /* where queries are made from fewer numbers */
    OTA_OF_FULL_QUERY = 1 << 17, /* where they are not */
    OTA_OF_NARROW = 1 << 18,     /* of embeddings that are not as wide as the rest */
    OTA_ONE_NORM = 1 << 19,      /* there in blocks of one norm alone */
    OTA_RESHAPED = 1 << 20       /* the file has dimensions of 1 in front, or columns in several */
};

/* Tensors that are there together: all of them in all layers, or none. */
typedef enum ota_group {
    OTA_ALONE,
    OTA_GROUP_INPUT_BIAS, /* of queries, keys and values */
    OTA_GROUP_OUTPUT_BIAS,
    OTA_GROUP_MLP_BIAS,
    OTA_GROUP_HEAD, /* BERT's, with its transform */
    OTA_GROUP_LONG, /* the lists of longrope */
    OTA_GROUP_NORM_BIAS,
    OTA_GROUP_HEAD_BIAS, /* of the transform before the head */
    OTA_GROUPS
} ota_group;

enum { OTA_EXPERT_ROLES = OTA_BLOCK_ROLES - OTA_EXPERT_UP };

/* One tensor: names in the two formats ("%lld" is the layer, a second one the expert; NULL: not there), shape [rows, columns]
 * as a linear layer has it: [out, in]. */
typedef struct ota_tensor_row {
    ota_role role;
    const char *hub, *gguf;
    ota_size rows, columns;
    unsigned flags;
    ota_group group;
    const char *other; /* a second name in hub files, tried after the first */
} ota_tensor_row;

typedef enum ota_key_kind {
    OTA_KEY_INTEGER,
    OTA_KEY_REAL,
    OTA_KEY_TRUTH,
    OTA_KEY_TRUTH_OR_NULL,   /* null is false, whatever a missing key is */
    OTA_KEY_NOT,             /* a truth whose field says the contrary */
    OTA_KEY_INTEGER_OR_NULL, /* null is 0, of a hub file */
    OTA_KEY_REAL_OR_NULL
} ota_key_kind;

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
    OTA_ARCH_RMS = 1 << 0, /* norms divide by the root of the mean square */
    OTA_ARCH_POST_NORM = 1 << 1,
    OTA_ARCH_ROTARY = 1 << 2,
    OTA_ARCH_GATED = 1 << 3,
    OTA_ARCH_SCALED_EMBEDDING = 1 << 4, /* times sqrt(width) */
    OTA_ARCH_TWO_ROPES = 1 << 5,        /* local layers have rotary positions of their own */
    OTA_ARCH_INTERLEAVED_GGUF =
        1 << 6, /* gguf files order rows of queries and keys for pairs (2k, 2k + 1) */
    OTA_ARCH_INTERLEAVED = 1 << 7,   /* both formats */
    OTA_ARCH_LAYER_TYPES = 1 << 8,   /* a list of config.json may say which layers are local */
    OTA_ARCH_GROUPS_MERGED = 1 << 9, /* hub files: ota_matrices.merged_by_group */
    OTA_ARCH_POSITION_ROWS =
        1 << 10,               /* the number of positions counts rows before the first, too */
    OTA_ARCH_SPARED = 1 << 11, /* a list of config.json says which layers have rotary positions */
    OTA_ARCH_GELU_HEAD = 1 << 12, /* the transform before the head has GELU whatever the MLP has */
    OTA_ARCH_PARTIAL = 1 << 13,   /* a part of each head may be rotated */
    OTA_ARCH_GELU_IS_TANH = 1 << 14,   /* hub files say gelu and mean the formula with tanh */
    OTA_ARCH_LAYER_PATTERNS = 1 << 15, /* GPT-Neo's lists say it */
    OTA_ARCH_AFTER_PADDING = 1 << 16,  /* positions begin behind the padding token's number */
    OTA_ARCH_WINDOW_BOTH = 1 << 17,    /* the window counts both of its sides */
    OTA_ARCH_HUB_ALONE = 1 << 18,      /* no gguf files, though relatives have them */
    OTA_ARCH_PROJECTION = 1 << 19,  /* "feed_forward_proj" names the activation and says "gated-" */
    OTA_ARCH_PACKED = 1 << 20,      /* hub files may have packed experts */
    OTA_ARCH_TOPK_METHOD = 1 << 21, /* "topk_method" says whether experts come in groups */
    OTA_ARCH_DENSE_LAYERS =
        1 << 22,               /* a list of config.json may name layers that are no mixtures */
    OTA_ARCH_LATENT = 1 << 23, /* latent attention */
    /* The table of positions is as wide as blocks, whatever embeddings are. */
    OTA_ARCH_WIDE_POSITIONS = 1 << 24,
    OTA_ARCH_LABELS = 1 << 25, /* words are the labels that config.json names */
    /* Hub files: rotary positions are the class's own, whatever the file says of them. */
    OTA_ARCH_FIXED_ROPE = 1 << 26,
    /* Hub files that say nothing of a scaling have yarn's from 4096 positions to 32 times as many. */
    OTA_ARCH_YARN_UNSAID = 1 << 27
};

/* Settings and tensors of families are lists, which relatives share; one of no rows behind the last. */
typedef struct ota_key_list {
    const ota_config_key *keys;
    int count;
} ota_key_list;

typedef struct ota_row_list {
    const ota_tensor_row *rows;
    int count;
} ota_row_list;

enum { OTA_LISTS_MOST = 8 };

typedef struct ota_architecture {
    const char *name, *model_type; /* general.architecture of gguf, and of hub files; NULL: none */
    const char *outer_type;        /* of hub files whose text_config it is; NULL: none */
    const char *const *prefixes;   /* of hub tensor names, tried in order, NULL at the end */
    unsigned traits;               /* OTA_ARCH_ bits */
    /* Gguf files of so many layers divide scores by the root of width / heads: no key of theirs says it. */
    int64_t wide_layers;
    ota_activation activation; /* where the configuration names none */
    const char *activation_key;
    const char *head_activation_key;   /* NULL: as within blocks */
    ota_key_list keys[OTA_LISTS_MOST]; /* where two read the same key, the later one holds */
    ota_row_list rows[OTA_LISTS_MOST];
} ota_architecture;

/* The lists one behind the other; NULL behind the last. */
const ota_config_key *ota_architecture_key(const ota_architecture *architecture, int index);
const ota_tensor_row *ota_architecture_row(const ota_architecture *architecture, int index);

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

/* The table; NULL behind the last. */
const ota_architecture *ota_architecture_at(int index);
const ota_architecture *ota_architecture_named(const char *name, bool gguf);
/* The end of the advice about a model that is not run here, in one sentence with what stands before it. */
#define OTA_ELSEWHERE                                                                              \
    "otattn.hf gives other methods to what transformers runs, where its attention can be replaced"
/* What it says where the architecture itself is not known: more names than an error holds stand in the program's help. */
#define OTA_ARCHITECTURE_ADVICE OTA_ELSEWHERE "; 'otattn help models' lists what is read"
/* Whose settings lie in text_config of such a file; NULL: none. */
const ota_architecture *ota_architecture_inside(const char *outer_type);
/* Is the layer a mixture of experts? */
static inline bool ota_config_is_mixture(const ota_config *config, int64_t layer) {
    return config->sizes[OTA_SIZE_EXPERTS] > 0 && !config->experts.dense[layer];
}

/* The factor of scores q k^T in a layer. */
double ota_config_scale(const ota_config *config, int64_t layer);

/* The kind that both formats spell so; false: none is. */
bool ota_rope_named(const char *word, ota_rope_kind *kind);
/* NULL, or what is wrong with the numbers. */
const char *ota_rope_fault(const ota_rope_scaling *scaling);
/* The tables of angles that a model has. */
typedef enum ota_rope_table {
    OTA_ROPE_TABLE,
    OTA_ROPE_TABLE_OTHER, /* of local layers; longrope, dynamic: of texts beyond the original context */
    OTA_ROPE_TABLES
} ota_rope_table;

int ota_rope_tables(const ota_config *config);
/* Of pair k, in radians a position; `divisors` [rotary width / 2] or NULL. `end`: of the text, for the dynamic kind. */
float ota_rope_frequency(const ota_config *config, ota_rope_table table, const float *divisors,
                         int64_t k, int64_t end);
/* Has a text up to `end` the other table, whatever the layer? */
bool ota_rope_is_long(const ota_config *config, int64_t end);
/* What cosines and sines are multiplied by. */
double ota_rope_attention(const ota_config *config, ota_rope_table table);

/* Writes the field of a key. */
void ota_config_set(ota_config *config, const ota_config_key *key, double value);
/* config.json of a folder. */
ota_status ota_config_read(const char *path, const ota_architecture **architecture,
                           ota_config *config, ota_ending *ending, ota_error *error);
/* The last checks and derived sizes; format and `path` for messages. */
ota_status ota_config_finish(const ota_architecture *architecture, ota_config *config, bool gguf,
                             const char *path, ota_error *error);
/* A strict JSON file below `most` bytes: no duplicate keys, nesting at most 64; the tree is the
 * caller's. */
ota_status ota_json_file(const char *path, bool trusted, int64_t most, ota_ending *ending,
                         json_t **tree, ota_error *error);

enum { OTA_CONFIG_BYTES = 1 << 21 };

#endif
