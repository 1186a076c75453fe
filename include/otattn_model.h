/* otattn_model.h: transformer checkpoints (models/checkpoint/families/) run with any attention method.
 *
 *     ota_model *model;  ota_session *session;  ota_error error;
 *     ota_model_open(&model, "folder or file.gguf", NULL, &error);
 *     ota_session_options options = {.size = sizeof options, .batch = 1, .tokens = 128};
 *     ota_session_create(&session, model, &options, &error);
 *     ota_model_run run = {.size = sizeof run, .ids = ids, .batch = 1, .count = 128};
 *     run.states = states;                                      [batch, count, width] after the last norm
 *     ota_session_run(session, &run, &error);
 *     ota_session_logits(session, states, 128, 0, logits, &error);         [128, vocabulary]
 *
 * A model is read-only after opening and may be shared by sessions in several threads; a session is
 * used by one thread at a time. Weights stay memory-mapped in the type the file has; arithmetic is
 * f32. Attention goes through otattn.h only. Status and error rules are those of otattn.h. Built as
 * libotattn_model where jansson is found. */
#ifndef OTATTN_MODEL_H
#define OTATTN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "otattn.h"
#include "otattn_tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ota_model ota_model;     /* opaque: weights and what the configuration says */
typedef struct ota_session ota_session; /* opaque: plans, buffers and cache of one use of a model */

/* ---- opening -------------------------------------------------------------------------------- */

/* The library that linear layers use; NULL where none is found, or where the process has a limit of its memory
 * (RLIMIT_DATA, RLIMIT_AS), as OpenBLAS never returns where it gets none: plain loops then. A session opens it, as
 * this call does, and sets it to one thread, for the whole process. */
OTA_API const char *ota_model_blas(void);

/* Zero means the default in brackets. */
typedef struct ota_model_options {
    size_t size; /* sizeof(ota_model_options) */
    /* folder of the hub cache for bare names [NULL: such names are not looked up]; the program fills
       it from HF_HUB_CACHE and its kin */
    const char *hub_cache;
    ota_tensor_limits tensors; /* of every file, and when opening is to end */
} ota_model_options;

/* Opens a checkpoint. `name`: a folder with config.json and model.safetensors or its shards, a .gguf file, of one that is
 * split the first part (NAME-00001-of-00003.gguf), or the name of a model in the hub cache. Every file is checked against
 * the loader limits and every tensor's shape against the configuration. `options` NULL: the defaults. *model is NULL on
 * failure: OTA_EIO (a file cannot be opened or read), OTA_EFORMAT (it is no checkpoint), OTA_EMISMATCH (tensors are not
 * those of the configuration), OTA_ELIMIT (above a loader limit), OTA_UNSUPPORTED (an architecture or type that is not run),
 * OTA_ENOMEM, OTA_EINVAL (options.size), OTA_CANCELLED, OTA_TIMEOUT. */
OTA_API ota_status ota_model_open(ota_model **model, const char *name,
                                  const ota_model_options *options, ota_error *error);
/* Frees a model; NULL is fine; its sessions must be freed before. */
OTA_API void ota_model_free(ota_model *model);

typedef struct ota_model_facts {
    size_t size;              /* sizeof(ota_model_facts), set by the caller */
    const char *architecture; /* "gpt2", "bert", "llama", "gemma3" ...: the name of its row */
    const char *format;       /* "safetensors" or "gguf" */
    const char *path;         /* folder or file the name meant */
    const char *dtype;        /* stored type of most parameters: "F32", "Q4_1" */
    const char *head;         /* how logits are made: "tied", "own", "mlm" or "none" */
    int64_t layers, heads, kv_heads, width, head_width, inner;
    int64_t vocabulary, positions;
    int64_t parameters; /* those the forward pass uses, shared ones once */
    int causal;
    double norm_epsilon;
    double rope_base; /* 0: nothing is rotated */
    /* Channels, height and width of what a model that sees images takes; 0: it reads text. */
    int64_t image[3];
} ota_model_facts;

/* Fills in what a model is. Texts belong to the model. OTA_EINVAL (facts->size). */
OTA_API ota_status ota_model_describe(const ota_model *model, ota_model_facts *facts,
                                      ota_error *error);
/* The file's tensors, also those that the forward pass leaves alone; NULL past the end. */
OTA_API const ota_tensor *ota_model_tensor(const ota_model *model, int64_t index);
/* The files that they lie in, of a split .gguf all parts in order; NULL past the end. */
OTA_API const char *ota_model_file(const ota_model *model, int64_t index);

/* Attention of one block. The caller sets `size` and points at room for what it wants, f32; the rest is filled
 * in. Products are y = x W. */
typedef struct ota_model_attention {
    size_t size;   /* sizeof(ota_model_attention) */
    double scale;  /* of q k^T, at temperature 1 */
    int rms;       /* its norm is RMSNorm, else LayerNorm */
    int post_norm; /* the norm stands behind the sum of input and attention, else before attention */
    float *query;  /* [width, heads * head_width] */
    float *key,
        *value;    /* [width, kv_heads * head_width]; head h reads group h / (heads / kv_heads) */
    float *output; /* [heads * head_width, width] */
    float *output_bias; /* [width]; 0 where the model has none */
    float *norm_weight; /* [width] */
    float *norm_bias;   /* [width]; 0 where the model has none */
    int head_norms; /* queries and keys pass RMSNorms before rotations, head by head or all heads as one */
    int output_norm; /* and so does what attention adds, before it is added */
    int64_t window;  /* keys that a query sees, itself included; 0: all that the mask leaves */
    float *query_norm_weight, *key_norm_weight; /* [head_width]; 1 where the model has none */
    float *output_norm_weight;                  /* [width]; 1 where the model has none */
} ota_model_attention;

/* Fills it in of block `layer`. OTA_EINVAL (attention->size, layer), OTA_ENOMEM; OTA_UNSUPPORTED where the model has no such
 * matrix: of latent attention query, key and value, where values are not as wide as keys output as well, and norm weights of
 * heads where one norm takes all heads. */
OTA_API ota_status ota_model_attention_of(const ota_model *model, int64_t layer,
                                          ota_model_attention *attention, ota_error *error);

/* Looks for weights that are no numbers: OTA_NONFINITE with the tensor's name where a weight that the forward pass uses is
 * NaN or infinite; sessions ask by themselves. One sweep over the weights, in the types that they are stored in. */
OTA_API ota_status ota_model_check_finite(const ota_model *model, ota_error *error);

typedef struct ota_tokenizer ota_tokenizer; /* otattn_tokenizer.h */

/* The tokenizer of the checkpoint: its folder's files, or what its .gguf holds. Freed by
 * ota_tokenizer_free. Only where the library has tokenizers (PCRE2 and utf8proc). */
OTA_API ota_status ota_model_tokenizer(const ota_model *model, ota_tokenizer **tokenizer,
                                       ota_error *error);
typedef struct ota_token_options ota_token_options; /* otattn_tokenizer.h */

/* ota_model_tokenizer with options; NULL: none. */
OTA_API ota_status ota_model_tokenizer_with(const ota_model *model, ota_tokenizer **tokenizer,
                                            const ota_token_options *options, ota_error *error);

/* ---- running -------------------------------------------------------------------------------- */

/* Zero means the default in every field but `size`, `batch` and `tokens`. */
typedef struct ota_session_options {
    size_t size;    /* sizeof(ota_session_options) */
    int64_t batch;  /* most sequences of one run */
    int64_t tokens; /* most tokens of one sequence in one run */
    /* positions of the KV cache; 0: none. With a cache each run continues the sequences */
    int64_t cache;
    /* `method_count` texts METHOD[@PLACE,...], PLACE = L, A-B, L.H or A-B.H, layers and heads counted
       from 0, or @FILE, a JSON file of them; later texts win. None: softmax everywhere */
    const char *const *methods;
    int64_t method_count;
    double temperature; /* factor on the model's own; 0: 1 */
    double tolerance;   /* as in ota_options */
    int64_t rounds, max_rounds;
    const int64_t *window; /* NULL, or {left, right} as in OTA_SUPPORT_WINDOW */
    const double *sink;    /* NULL, or the logit of a sink in every head */
    int threads;           /* 0: the CPUs this process may use */
    const char *cpu;
    const int *cancel; /* as in ota_options, of every call that has the session */
    /* Above 0: weights may be NaN or infinite. By default a session whose model holds such a weight is
       refused with OTA_NONFINITE and the tensor's name; looking takes one sweep over the weights that the
       forward pass uses */
    int allow_nonfinite;
    int64_t deadline_ns; /* as in ota_options, of ota_session_create and the calls to come */
} ota_session_options;

/* Buffers, threads and methods of runs of at most `batch` sequences of `tokens`; the model must outlive the session.
 * *session is NULL on failure: OTA_EINVAL (a field out of its range, a method that cannot be parsed, options NULL),
 * OTA_UNSUPPORTED (a cache of a model that looks both ways), OTA_NONFINITE (a weight is NaN or infinite), OTA_EOVERFLOW (no
 * memory could be so large), OTA_ENOMEM, OTA_CANCELLED, OTA_TIMEOUT. A session serves one call at a time. */
OTA_API ota_status ota_session_create(ota_session **session, const ota_model *model,
                                      const ota_session_options *options, ota_error *error);
/* Frees a session; NULL is fine. */
OTA_API void ota_session_free(ota_session *session);
/* Gives the calls to come another deadline (0: none). Not while one runs. */
OTA_API void ota_session_set_deadline(ota_session *session, int64_t deadline_ns);
/* All bytes the session holds apart from the plans, which the first run of a shape makes. */
OTA_API size_t ota_session_bytes(const ota_session *session);
/* What a reader should know about the methods chosen: a sentence, or "" (causal leak). */
OTA_API const char *ota_session_warning(const ota_session *session);

/* A block of one captured array, f32, dense, valid during the call only; TransformerLens names and shapes
 * ("blocks.3.attn.hook_pattern" [batch, heads, queries, keys]). As a matrix the array has a row for every
 * token (of weights and scores: for every query of every head), of `columns` numbers. Blocks of an array come
 * in the order of its rows, and arrays in the order of ota_model_point. Not OTA_OK stops the run with that status. */
typedef struct ota_capture {
    const char *name;
    int rank;
    int64_t shape[4];  /* of the whole array */
    const float *data; /* [rows, columns] of this block */
    int64_t first_row; /* of the array; 0 and all rows unless the run sets `block_rows` */
    int64_t rows, columns;
    int64_t layer;    /* as in ota_capture_point */
    int64_t sequence; /* of the block's first row */
    int64_t head; /* the same, of weights, scores and received mass; else -1: a row has all heads */
    int64_t token; /* the same */
} ota_capture;

/* Indices first ... first + count - 1; count 0: all from `first` on. */
typedef struct ota_range {
    int64_t first, count;
} ota_range;

typedef enum ota_edit_kind {
    OTA_EDIT_SCALE = 0, /* x = factor x; the factor 0 ablates */
    OTA_EDIT_REPLACE,   /* x = values */
    OTA_EDIT_ADD,       /* x += factor values */
    /* x = its mean over the tokens of its sequence in this run, padding left out; not of weights and scores, nor
       in a session with a cache */
    OTA_EDIT_MEAN
} ota_edit_kind;

/* What a run changes at a point before it goes on: the numbers of `point` in all ranges at once. A capture of the point
 * shows them changed. Zero means the default in every field but `size` and `point`. */
typedef struct ota_edit {
    size_t size; /* sizeof(ota_edit) */
    /* A name of ota_model_point, or one without "blocks.L.": that point of every layer. Weights that are edited are mixed with
       the values as they then are, and weights are made of edited scores; what a norm divides by (hook_scale) and what
       heads add (attn.hook_result) go into the run as they are left. Refused by name are attn.hook_receiver, sums of weights
       that nothing reads (edit attn.hook_pattern), and mlp.hook_expert_indices (edit mlp.hook_expert_weights). */
    const char *point;
    ota_edit_kind kind;
    ota_range sequences;
    ota_range
        tokens; /* by their positions, of weights and scores those of queries; with a cache also of runs to come */
    ota_range heads; /* all, where the point has none */
    ota_range
        columns; /* the last dimension: keys of weights and scores, else coordinates of a state, a head or an MLP */
    double factor;
    /* f32; its sizes are those of the ranges in the order of the point's shape, aligned from the right, or 1 where
       one number stands for all. */
    ota_array values;
} ota_edit;

typedef struct ota_model_run {
    size_t size;        /* sizeof(ota_model_run) */
    const int64_t *ids; /* [batch, count]; NULL of a model that sees images */
    int64_t batch, count;
    const int64_t
        *lengths;         /* [batch], or NULL: count; ids beyond are padding, unseen by the rest */
    const int64_t *types; /* [batch, count] BERT's token types, or NULL: 0 */
    int64_t first; /* position of the first token: 0 begins anew, else what the cache holds */
    float *states; /* out [batch, count, width] after the last norm, or NULL */
    /* asked once for every point that exists; NULL: nothing is captured */
    int (*wanted)(void *user, const char *name);
    ota_status (*capture)(void *user, const ota_capture *capture, ota_error *error);
    void *user;
    /* Above 0: a token stops once the largest probability that its logits give was above this behind
       `exit_transitions` blocks in a row [0: 1]. Its state stays as it is, and layers that it does not
       reach make its key and value from that state. Not together with `capture`. [TOT-119] */
    double exit_threshold;
    int64_t exit_transitions;
    int64_t *layers; /* out [batch, count] blocks that each token went through, or NULL */
    /* The run begins at block `start_layer` with this residual stream, [batch, count, width] as a run
       captures it under blocks.L.hook_resid_pre; NULL: with the embedding. Not together with a cache or
       with exits. */
    const float *residual;
    int64_t start_layer;
    /* [batch, count], or NULL: a token stops once its likeliest next token was this one behind
       `exit_transitions` blocks in a row, whatever its probability; not together with `exit_threshold`.
       With the predictions of the whole run: an oracle, which shows what a threshold leaves unused. [TOT-119] */
    const int64_t *exit_targets;
    /* Most rows of one block that `capture` gets; 0: every array comes whole. Attention weights and scores are then made in
       blocks of so many rows as well, and the run never holds [queries, keys] numbers of a head; but hard and prefix columns
       that couple rows, relaxed rows, and entry caps with coupled columns have their weights made head by head. */
    int64_t block_rows;
    /* asked for every head of weights and scores that are wanted, whose arrays hold the wanted heads alone, in order;
       NULL: all of them are */
    int (*wanted_head)(void *user, const char *name, int64_t head);
    /* [edit_count], all of the size edits[0].size, done in order; not in runs whose tokens stop early */
    const ota_edit *edits;
    int64_t edit_count;
    /* [batch, channels, height, width] of a model that sees images, scaled as it was trained with them; `count` is then
       the model's positions: the token of the whole image, and one a piece, row by row. NULL: it reads text. */
    const float *pixels;
} ota_model_run;

/* Do tokens of this run stop early? */
static inline int ota_model_run_exits(const ota_model_run *run) {
    return run->exit_threshold > 0 || run->exit_targets != NULL;
}

/* Runs sequences through the model. Statuses: besides those of ota_forward OTA_CANCELLED and OTA_TIMEOUT, after which
 * outputs are of no use. A run that failed leaves a cache with the positions before `first`, so that it may be made again. */
OTA_API ota_status ota_session_run(ota_session *session, const ota_model_run *run,
                                   ota_error *error);
/* Logits [rows, vocabulary] of states [rows, width]; `normalise`: apply the last norm first. OTA_UNSUPPORTED where the
 * checkpoint has no head. */
OTA_API ota_status ota_session_logits(ota_session *session, const float *states, int64_t rows,
                                      int normalise, float *logits, ota_error *error);

/* ---- the probe of the logit lens [TOT-63, 64] -------------------------------------------------
 *
 * z = W x + b, W [vocabulary, width]: the last product of the model's head (with the one before it, where embeddings are
 * narrower than states), or the table of embeddings where a checkpoint has no head. x is a state as it is (the raw probe),
 * or what the head makes of it before that product (the probe with the final norm). */

/* What the probe reads: inputs [rows, width] = the final norm, and BERT's transform, of states [rows, width], or where that
 * transform makes rows as narrow as embeddings, these one behind the other; the arrays do not overlap. Returns 0 where the
 * model has neither: the inputs are the states then. */
OTA_API int ota_session_probe_inputs(ota_session *session, const float *states, int64_t rows,
                                     float *inputs);
/* What the probe says: logits [rows, vocabulary] = W inputs + b. The more rows at once, the faster. Without a status: where
 * the flag is up or the deadline has passed, the logits, like the inputs above, are of no use. */
OTA_API void ota_session_probe(ota_session *session, const float *inputs, int64_t rows,
                               float *logits);
/* Some rows of the probe's matrix: first ... first + count - 1 of W, as f32 [count, width]. A cap of the logits has a slope of
 * at most 1 everywhere, so that how far rows move a logit bounds the capped one, too. OTA_UNSUPPORTED where embeddings are
 * narrower than states and the head has an activation. */
OTA_API ota_status ota_model_probe_rows(const ota_model *model, int64_t first, int64_t count,
                                        float *rows, ota_error *error);
/* The session's threads, for the caller's own loops between or inside (in a capture) its runs; owned by
 * the session. */
OTA_API const ota_executor *ota_session_executor(const ota_session *session);

/* ---- points of capture ------------------------------------------------------------------------ */

/* A point of capture. */
typedef struct ota_capture_point {
    char name[96];
    int64_t layer; /* its block; -1: before all of them, the number of blocks: behind them */
    int rank;
    int64_t shape[4];
} ota_capture_point;

/* The points of a run of `batch` new sequences of `count` tokens, in the order in which the run meets them; 0 past the end.
 * Norms are captured with their weights in (hook_normalized), and what they divide by is hook_scale, of attn.q_norm and
 * k_norm [batch, count, heads, 1], where one norm takes all heads [batch, count, 1, 1]. attn.hook_attn_scores are the scores
 * before the division by the temperature, -inf where a mask forbids; attn.hook_receiver [batch, heads, keys], the mass that
 * every key receives, is this library's own. attn.hook_result [batch, count, heads, width] is what each head adds to the
 * stream, without the bias: as many products of the output as heads. */
OTA_API int ota_model_point(const ota_model *model, int64_t index, int64_t batch, int64_t count,
                            ota_capture_point *point);

#ifdef __cplusplus
}
#endif
#endif
