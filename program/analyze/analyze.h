/* program/analyze/: otattn analyze: states, predictions and attention of a model over its layers, one record a window,
 * then figures and tables. It may call the public headers and the rest of the program.
 *
 * What the files of `otattn analyze` share. [TOT-23..42, 63..93]
 *
 *   windows.c   text -> ids, cut into windows            folder.c   run folder, lock, manifest, resume
 *   columns.c   which numbers a window yields, where     record.c   one file a window
 *   states.c    a window through the model               measure.c  its numbers
 *   sinkhorn.c  rounds of Table 5                        work.c     its memory, its order
 *   bounds.c    bounds on layers, ranks of heads         bounds_tables.c  their tables
 *   heads.c     what heads do, massive activations       heads_tables.c   their tables and names
 *   example.c   one window for pictures                  figures.c  numbers of all windows -> figures
 *   metrics.c tables.c events.c variants.c   what is written
 *
 * A window of n tokens goes through the model once a variant. Of the model's states 0 (the embedding) ...
 * layers, those from `first` to `last` are measured: S = last - first + 1 states, S - 1 transitions. A
 * window's numbers do not depend on any other window, so windows may be measured in any order, by any
 * process, and are merged in the order of their indices. */
#ifndef OTATTN_PROGRAM_ANALYZE_H
#define OTATTN_PROGRAM_ANALYZE_H

#include <sha2.h>

#include "otattn_analysis.h"
#include "otattn_model.h"
#include "otattn_tokenizer.h"
#include "program/program.h"

/* ---- settings of a run ---- */

enum {
    METHODS_MOST = 16,
    TEMPERATURES_MOST = 15, /* of attention, and again of the probe */
    VARIANTS_MOST = 1 + METHODS_MOST + 2 * TEMPERATURES_MOST,
    PROBES_MOST = 2
};

/* One way to run the windows. Variant 0 is the run itself: everything is measured. The others answer what
 * changes, and are measured by the probe with the final norm alone. */
typedef struct run_variant {
    char name[160];
    const char *method;       /* of all layers, over what --method says; NULL: only that */
    double temperature;       /* factor, over what --temperature says; 0: only that */
    double probe_temperature; /* divides the probe's logits; 0: 1 */
    int source; /* the variant of records: 0 also where it would be the run itself again */
} run_variant;

typedef struct run_settings {
    int64_t windows, tokens; /* asked for: N x L */
    bool random;
    int64_t seed;
    int64_t first, last; /* states measured */
    double tail, tv;     /* a saturation event: both 1 - p_max below tail, tv below tv */
    bool half;           /* states are rounded to f16 */
    bool alignment;      /* is all that is measured, by the probe with the final norm */
    int64_t bounds;      /* windows whose layers are held against their bounds; 0: none */
    int variants;        /* of records */
    int lines;           /* of `variant` */
    int methods;         /* lines 1 ... methods - 1 are methods, */
    int temperatures;    /* those before this one attention's temperatures, the rest the probe's */
    run_variant variant[VARIANTS_MOST];
    char *method_text[METHODS_MOST]; /* storage of the variants' methods */
} run_settings;

/* The first line with these records. */
const run_variant *run_variant_of(const run_settings *settings, int source);

/* ---- windows.c ---- */

typedef struct run_window {
    int64_t first; /* of the ids of the text */
    int64_t count; /* tokens, with the frame */
} run_window;

typedef struct run_text {
    int64_t *ids; /* [count], without frame */
    int64_t count;
    int64_t bytes;
    int32_t before[16], after[16]; /* frame of every window */
    int64_t before_count, after_count;
    ota_tokenizer *tokenizer; /* NULL with --ids */
    char sha256[SHA256_DIGEST_STRING_LENGTH];
    char name[256];
    run_window *windows;
    int64_t window_count;
} run_text;

/* Reads and encodes the text; windows are chosen by run_choose_windows. */
int run_load_text(cli_context *context, const ota_model *model, run_text *text);
int run_choose_windows(cli_context *context, run_text *text, const run_settings *settings);
/* ids [window->count] */
void run_window_ids(const run_text *text, const run_window *window, int64_t *ids);
void run_text_free(run_text *text);

/* ---- columns.c: the numbers of a window ---- */

/* Of Table 5 (sinkhorn.c). */
enum { PAIRS = 4, PAIR_EPSILONS = 3, PAIR_TOLERANCES = 3 };

/* Of bounds.c: a statement about a layer whose input changes in one way, and its five numbers. */
enum { BOUND_ROUNDING, BOUND_STEP, BOUND_CHANGES };
enum {
    BOUND_JACOBIAN, /* of the norm; no change of the input */
    BOUND_NORM,
    BOUND_WEIGHTS,
    BOUND_OUTPUT,
    BOUND_BLOCK,
    BOUND_STATEMENTS
};
enum { BOUND_ROWS = 1 + (BOUND_STATEMENTS - 1) * BOUND_CHANGES };
enum {
    BOUND_MEASURED,
    BOUND_PRINTED,
    BOUND_SHARP,
    BOUND_PRINTED_RATIO,
    BOUND_SHARP_RATIO,
    BOUND_NUMBERS
};
/* Of heads.c: what a head may be, in the order of ota_head_scores; those before SINK_KINDS have a chance level. */
enum {
    KIND_PREVIOUS_TOKEN,
    KIND_DUPLICATE_TOKEN,
    KIND_INDUCTION,
    KIND_POSITIONAL,
    KIND_LOCAL,
    KIND_SINK,
    KIND_NOP_SINK,
    KIND_BROADCAST_SINK,
    HEAD_KINDS,
    CHANCE_KINDS = KIND_NOP_SINK
};
/* The largest entries of a state, and what is kept of each. */
enum { MASSIVE_MOST = 5 };
enum { MASSIVE_VALUE, MASSIVE_RATIO, MASSIVE_TOKEN, MASSIVE_DIMENSION, MASSIVE_NUMBERS };
/* Ranks of a head's log-ratios, alone and behind the same head of the layer before, at two tolerances. */
enum { RANK_ONE, RANK_ONE_COARSE, RANK_TWO, RANK_TWO_COARSE, RANKS };

typedef enum run_scope {
    PER_STATE_TOKEN,      /* [S, n] */
    PER_TRANSITION_TOKEN, /* [S - 1, n] */
    PER_STATE,            /* [S] */
    PER_TRANSITION,       /* [S - 1] */
    PER_HEAD,             /* [S - 1, heads] */
    PER_TOKEN,            /* [n] */
    PER_PAIR,             /* [PAIRS, PAIR_EPSILONS, PAIR_TOLERANCES] */
    PER_BOUND,            /* [S - 1, BOUND_ROWS, BOUND_NUMBERS], with --bounds */
    PER_RANK,             /* [S - 1, heads, RANKS], with --bounds */
    PER_CHANCE,           /* [S - 1, CHANCE_KINDS] */
    PER_MASSIVE           /* [S, MASSIVE_MOST, MASSIVE_NUMBERS] */
} run_scope;

typedef enum run_column {
    COLUMN_TV,
    COLUMN_KL,
    COLUMN_JS,
    COLUMN_ENTROPY_CHANGE,
    COLUMN_TOP1,
    COLUMN_TOP5,
    COLUMN_TOP10,
    COLUMN_TOP100,
    COLUMN_SPEARMAN,
    COLUMN_MAX_LOGIT_CHANGE,
    COLUMN_LOGIT_RANGE_HALF,
    COLUMN_LOGIT_CORRELATION,
    COLUMN_EFFECTIVE_TEMPERATURE,
    COLUMN_BOUND_RATIO,
    COLUMN_STEP,
    COLUMN_BOUND_RATIO_SHARP,
    COLUMN_ALIGNMENT,
    COLUMN_ALIGNMENT_LOWER,
    COLUMN_ALIGNMENT_RMS,
    COLUMN_NORM_CHANGE,
    COLUMN_RELATIVE_L2,
    COLUMN_COSINE,
    COLUMN_MAX_COORDINATE_CHANGE,
    COLUMN_ENTROPY,
    COLUMN_TAIL,
    COLUMN_KL_TO_FINAL,
    COLUMN_DRIFT,
    COLUMN_LENS,
    COLUMN_AGREEMENT,
    COLUMN_NORM,
    COLUMN_EFFECTIVE_RANK,
    COLUMN_MEAN_COSINE,
    COLUMN_SINK_RATE,
    COLUMN_FIRST_KEY_MASS,
    COLUMN_RECEIVER_MAX,
    COLUMN_GINI,
    COLUMN_ROW_ENTROPY,
    COLUMN_MAX_WEIGHT,
    COLUMN_SUPPORT,
    COLUMN_NLL,
    COLUMN_COHERENCE_DISTANCE,
    COLUMN_COHERENCE_BOUND,
    COLUMN_OUTPUT_TV,
    COLUMN_OUTPUT_KL,
    COLUMN_OUTPUT_AGREEMENT,
    COLUMN_OUTPUT_L2,
    COLUMN_ROUNDS,
    COLUMN_ROUNDS_PREDICTED,
    COLUMN_BOUNDS,
    COLUMN_RANKS,
    COLUMN_HEAD_KINDS, /* HEAD_KINDS columns, one a kind */
    COLUMN_VALUE_RATIO = COLUMN_HEAD_KINDS + HEAD_KINDS,
    COLUMN_DISTANCE,
    COLUMN_SINK_KEY,
    COLUMN_OFFSET,
    COLUMN_CHANCE,
    COLUMN_KURTOSIS,
    COLUMN_MASSIVE_RATIO,
    COLUMN_MASSIVE,
    COLUMNS
} run_column;

typedef struct run_column_row {
    const char *name;
    run_scope scope;
    bool probed;  /* once a probe */
    bool variant; /* also of variants after the first */
} run_column_row;

extern const run_column_row run_columns[COLUMNS];

typedef struct run_shape {
    int64_t states, heads, tokens;
    int probes, variants;
    bool bounds;
    bool alignment; /* its columns alone */
} run_shape;

/* Numbers of one column. */
int64_t run_column_size(const run_shape *shape, run_column column);
/* Where they begin, in doubles; -1 where there are none. Probe 0: with the final norm; 1: raw. */
int64_t run_column_offset(const run_shape *shape, int variant, int probe, run_column column);
/* All numbers of a window. */
int64_t run_record_size(const run_shape *shape);

/* ---- record.c ---- */

typedef struct run_record {
    int64_t index; /* of the window */
    run_shape shape;
    int64_t *ids;   /* [tokens] */
    double *values; /* [run_record_size] */
    size_t room_ids, room_values;
} run_record;

/* Byte of a record's file at which its values begin. */
int64_t run_record_values_at(const run_shape *shape);
double *run_record_column(const run_record *record, int variant, int probe, run_column column);
/* Memory for `tokens` tokens; what is there is kept if it suffices. */
int run_record_resize(cli_context *context, run_record *record, const run_shape *shape);
void run_record_free(run_record *record);
int run_record_write(cli_context *context, const run_record *record, const char *path);
/* *valid is false when the file is missing, cut short, damaged, or of another shape; `record` has its
 * shape and index set. */
int run_record_read(cli_context *context, run_record *record, const char *path, bool *valid);

/* ---- folder.c ---- */

typedef struct run_folder {
    char path[3072];
    int lock;
    bool made_lock; /* there was none before */
    bool joined;    /* another process holds the lock */
} run_folder;

/* Makes the folder and its parts, takes the lock, refuses what is there without -f or --resume. */
int run_folder_open(cli_context *context, run_folder *folder, bool drawn);
/* Another process of mpirun has opened the folder and written the manifest, which must be this one's too. */
int run_folder_join(cli_context *context, run_folder *folder);
void run_folder_close(run_folder *folder);
/* PATH/NAME; size of `path`: 4096 */
void run_folder_path(const run_folder *folder, const char *name, char *path);
void run_folder_record(const run_folder *folder, int64_t index, char *path);
/* Writes a file of the folder whole or not at all. */
int run_folder_write(cli_context *context, const run_folder *folder, const char *name,
                     const char *text, size_t size);
int run_folder_write_json(cli_context *context, const run_folder *folder, const char *name,
                          const json_t *tree);
/* --resume: what is there must be of the same model, text and settings. Then, or else, it is written. */
int run_folder_manifest(cli_context *context, const run_folder *folder, json_t *manifest);

/* ---- model_hash.c ---- */

int run_file_hash(cli_context *context, const char *path, int64_t *bytes,
                  char text[SHA256_DIGEST_STRING_LENGTH]);
/* Finds the files that decide what the model computes, and begins to hash them on threads of its own, beside what the caller
 * does. *hash is freed by the caller, after a failure, too. */
typedef struct run_hash run_hash;
int run_hash_begin(cli_context *context, const ota_model *model, run_hash **hash);
/* Waits for them: name, bytes and sha256 of each, and in `text` one hash of them all. */
int run_hash_end(run_hash *hash, json_t **files, char text[SHA256_DIGEST_STRING_LENGTH]);
void run_hash_free(run_hash *hash);

/* ---- the run ---- */

/* How much of the windows is done, in windows; parts of one by products that they take. */
typedef struct run_pace {
    cli_progress progress;
    double before, stride,
        count; /* whole windows, those that a window of this process stands for, all */
    double done, layer, state,
        whole; /* products of the window at hand: done, of a block, of a state behind a probe, all */
} run_pace;

typedef struct run {
    cli_context *context;
    const ota_model *model;
    ota_model_facts facts;
    run_settings settings;
    run_text text;
    run_folder folder;
    run_hash *hash;
    bool begun; /* the folder has its manifest */
    char model_sha256[SHA256_DIGEST_STRING_LENGTH];
    ota_session *sessions[VARIANTS_MOST];
    ota_executor executor;
    int probes;
    ota_probe probe;       /* norms of W */
    struct run_work *work; /* work.h */
    run_pace pace;
    struct run_kept_figures *kept; /* figures.c */
} run;

/* Of the record of window `index`. */
run_shape run_shape_of(const run *r, int64_t index);
/* The record of window `index`; *valid as in run_record_read. */
int run_load_record(run *r, int64_t index, run_record *record, bool *valid);

/* Reports progress: so many products more of the window at hand are done. */
void run_pace_step(run *r, double products);

/* ---- states.c, measure.c ---- */

/* Sessions and buffers for windows of `tokens` tokens. */
int run_measure_open(run *r, int64_t tokens);
size_t run_measure_bytes(const run *r);
void run_measure_close(run *r);
/* record->index, shape and ids are set; fills the values. */
int run_measure(run *r, run_record *record);

/* ---- tables.c, figures.c ---- */

int run_write_results(run *r);
/* Forgets the figures that several files have. */
void run_figures_free(run *r);

#endif
