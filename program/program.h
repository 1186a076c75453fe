/* What the files of the program share: the two tables everything is made from (subcommands, flags),
 * the parsed settings, errors, JSON, progress.
 *
 * A subcommand is one row of tool_commands (table.c) and one function `int tool_NAME(tool_context *)`
 * that returns an exit code. On success it has printed its result: text, or with settings.json one
 * object through tool_print_json. On failure it has filled context->error (tool_fail, tool_refuse_flag
 * or tool_fail_status do) and printed nothing: main.c prints the sentence and the JSON object. */
#ifndef OTATTN_PROGRAM_PROGRAM_H
#define OTATTN_PROGRAM_PROGRAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "program/files/files.h"
#include "program/files/files_formats.h"
#include "otattn.h"

enum { TOOL_EXIT_OK = 0, TOOL_EXIT_NUMERIC = 3, TOOL_EXIT_INTERRUPTED = 130 };
enum { TOOL_MAX_LIST = 8, TOOL_MAX_OPERANDS = 4 };

/* ---- settings: one field per flag, filled by the rows of tool_flags ---- */

typedef struct tool_real {
    double value;
    bool given;
} tool_real;

typedef struct tool_whole {
    int64_t value;
    bool given;
} tool_whole;

typedef struct tool_list {
    const char *items[TOOL_MAX_LIST];
    int count;
} tool_list;

/* Texts are borrowed from argv and NULL when the flag was not given. A flag with an optional value
 * (--causal, --rope) holds "" when it was given without one. */
typedef struct tool_settings {
    const char *method, *methods, *rows, *axis, *start, *end, *temperature;
    tool_real scale, softcap;
    bool cost;
    const char *causal, *corner, *window, *block, *lengths;
    tool_whole strided;
    tool_list masks, biases;
    const char *relative_bias, *rope, *alibi, *sink;
    const char *row_mass, *column_mass, *entry_cap, *elastic_lambda, *start_potential;
    tool_real tolerance, tolerance_scaling;
    tool_whole max_rounds, rounds;
    const char *anneal, *relaxation, *center, *precision, *solver;
    bool prune, allow_partial, strict;
    tool_real dropout;
    tool_whole threads, memory, limit_memory, seed;
    const char *cpu, *backend, *shard;
    const char *dtype, *out_dtype;
    const char *out, *coupling, *row_potential, *column_potential, *receiver;
    const char *grad, *grad_out, *advantage, *backward;
    bool grad_scores, grad_parameters;
    bool force, certify, per_head, json, help, man, version;
    tool_real epsilon;
    tool_whole random, first, repeat, size, samples;
    const char *shapes;
    const char *scores, *perturbed, *values, *perturbed_values;
    const char *only, *model;
    bool self_test, small, scaling, gradients;
    tool_list model_methods;
    bool allow_nonfinite;
    const char *ids, *points, *residual, *prompt, *exit;
    tool_whole start_layer, context, stride, tokens;
    bool sample, echo;
    const char *text;
    bool no_special, plain, decode, count, pieces;
    const char *compared;
    const char *windows, *sampling, *layers, *saturation, *store, *temperatures,
        *probe_temperatures;
    tool_whole bounds;
    bool resume;
} tool_settings;

/* ---- context ---- */

typedef struct tool_store tool_store;
typedef struct tool_command tool_command;

typedef struct tool_context {
    const tool_command *command;
    tool_settings settings;
    const char *operands[TOOL_MAX_OPERANDS];
    int operand_count;
    tool_error error;
    const char *status; /* status word of the failure; NULL: by the exit code */
    json_t *failure;    /* further keys of the failure's JSON object (a certificate), or NULL */
    json_t *warnings;   /* array of sentences; tool_warn adds */
    const int *cancel;  /* becomes 1 at Ctrl-C */
    tool_store *store;  /* arrays read so far */
    tool_share share;   /* of the processes of --shard; ranks 0 without */
    bool interrupted;   /* a result was printed, but Ctrl-C cut it short: exit 130 */
} tool_context;

/* ---- the two tables (table.c) ---- */

/* A subcommand: returns an exit code. */
typedef int tool_run(tool_context *context);

struct tool_command {
    const char *name;
    const char *operands; /* "SCORES", "QUERY KEY [VALUE]", "" */
    int least, most;      /* how many operands */
    const char *summary;  /* one line, no full stop */
    const char *details;  /* paragraphs for --help and the man page */
    const char *example;
    tool_run *run;
    unsigned bit; /* in tool_flag.commands */
};

typedef struct tool_flag tool_flag;
struct tool_flag {
    const char *name;
    int (*parse)(const tool_flag *flag, const char *text, void *field, tool_error *error);
    size_t offset;     /* of its field in tool_settings */
    unsigned commands; /* bits of the subcommands that take it */
    int group;         /* index into tool_groups */
    const char *help;
    const char *form;     /* "T[,T...]"; NULL: takes no value */
    const char *choices;  /* words separated by blanks, for checks and completions, or NULL */
    const char *standard; /* default in words, or NULL */
    char letter;          /* short form, or 0 */
    bool optional;        /* its value may be left out; then it must follow an = */
    bool in_method;       /* may stand in the braces of a method */
};

extern const tool_command tool_commands[];
extern const int tool_command_count;
extern const tool_flag tool_flags[];
extern const int tool_flag_count;
extern const char *const tool_groups[];
extern const int tool_group_count;

const tool_command *tool_find_command(const char *name);

tool_run tool_attend, tool_plan, tool_compare, tool_assign, tool_hamming, tool_align, tool_certify,
    tool_demo, tool_bench, tool_doctor, tool_help, tool_completions, tool_verify, tool_tokenize,
    tool_info, tool_capture, tool_perplexity, tool_generate, tool_analyze, tool_report_command;

/* ---- flags.c ---- */

/* Fills context->settings and operands from the words after the subcommand. */
int tool_parse(tool_context *context, int argc, char **argv);
/* Sets one flag as if `--name=text` (text NULL: `--name`) had been given; used for braces. */
int tool_set_flag(tool_settings *settings, const tool_flag *flag, const char *text,
                  tool_error *error);
const tool_flag *tool_find_flag(const char *name, size_t length, unsigned commands);

int tool_parse_switch(const tool_flag *flag, const char *text, void *field, tool_error *error);
/* Whatever is given, also nothing. */
int tool_parse_words(const tool_flag *flag, const char *text, void *field, tool_error *error);
int tool_parse_text(const tool_flag *flag, const char *text, void *field, tool_error *error);
int tool_parse_list(const tool_flag *flag, const char *text, void *field, tool_error *error);
int tool_parse_choice(const tool_flag *flag, const char *text, void *field, tool_error *error);
int tool_parse_positive(const tool_flag *flag, const char *text, void *field, tool_error *error);
int tool_parse_count(const tool_flag *flag, const char *text, void *field, tool_error *error);
int tool_parse_natural(const tool_flag *flag, const char *text, void *field, tool_error *error);

/* The whole text must be one number; locale-free. */
bool tool_number(const char *text, double *value);
bool tool_integer(const char *text, int64_t *value);
/* Numbers separated by commas; returns how many, -1 when one is none or there are more than `most`. */
int tool_numbers(const char *text, double *values, int most);
/* The same of a sink's logits, among which -inf is none. */
bool tool_logit(const char *text, double *value);
int tool_logits(const char *text, double *values, int most);

/* ---- suggest.c ---- */

/* The word of `words` (count of them, NULLs skipped) nearest to `text`, or NULL when none is near. */
const char *tool_nearest(const char *text, size_t length, const char *const *words, int count);

/* ---- errors.c ---- */

/* Usage error about a flag or operand: field is its name. Returns TOOL_EXIT_USAGE. */
int tool_refuse_flag(tool_context *context, const char *field, const char *hint, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
/* A failed library call: exit code and status word of `status`, sentence of `error`. */
int tool_fail_status(tool_context *context, ota_status status, const ota_error *error);
/* Exit code of a status by the program's contract. */
int tool_exit_code(ota_status status);
/* Prints context->error; main.c calls it once at the end. */
void tool_report_failure(tool_context *context, int code);
/* One sentence on stderr now and in the JSON's "warnings" later. */
void tool_warn(tool_context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- json.c: trees are jansson's; only the printing is ours ---- */

/* Shortest decimal that reads back as the same double; size >= 32. */
void tool_format_real(double value, char *text, size_t size);
/* A number, or null when it is not finite. */
json_t *tool_json_real(double value);
/* Sets keys of an object and returns it. `fields` is "KEY:TYPE KEY:TYPE ..." with a value each behind it: s text (NULL:
 * no such key), i int, I int64_t, r double by
 * tool_json_real, b bool, o a json_t * that is taken over. */
json_t *tool_json_put(json_t *object, const char *fields, ...);
/* What every result begins with: command, version, status. */
json_t *tool_json_result(const tool_context *context, const char *status);
/* One line on `stream`, whole or not at all; numbers shortest, never NaN or Infinity. Takes over the reference. Where
 * memory was short it returns TOOL_EXIT_LIMIT, and main says so. */
int tool_print_json(FILE *stream, json_t *tree);
/* A text of others for a terminal: what does something unseen there is written as JSON would write it, \u202e. */
void tool_put_visible(FILE *stream, const char *text, size_t size);
/* The same of a text ended by NUL, with words around it. */
void tool_put_named(FILE *stream, const char *before, const char *text, const char *after);

/* ---- csv.c: text made in memory, and tables by RFC 4180 in it ---- */

void tool_csv_cell(tool_text *csv, const char *text, size_t size);
void tool_csv_word(tool_text *csv, const char *text);
/* Shortest; empty where it is not finite. */
void tool_csv_number(tool_text *csv, double value);
void tool_csv_line(tool_text *csv);
/* A line: a letter a cell, w a word, n a number (double). */
void tool_csv_row(tool_text *csv, const char *types, ...);

/* ---- progress.c: a line on stderr, only on a terminal and after two seconds ---- */

typedef struct tool_progress {
    bool terminal, shown;
    const char *label;
    int64_t begun_ns, last_ns;
    double first_residual, tolerance;
    int64_t first_round, first_ns;
} tool_progress;

void tool_progress_begin(tool_progress *progress, const char *label);
/* `unit`: what is counted, "heads", "rows". */
void tool_progress_update(tool_progress *progress, double done, double total, const char *unit);
/* An ota_options.progress callback; `user` is a tool_progress with its tolerance set. */
void tool_progress_solver(void *user, const ota_progress *report);
/* Clears the line. */
void tool_progress_end(tool_progress *progress);

int64_t tool_now_ns(void);
/* May this stream be coloured? A terminal, unless NO_COLOR or TERM=dumb; CLICOLOR_FORCE wins. */
bool tool_colour(FILE *stream);

/* ---- store.c: arrays read from files, each once, freed with the context ---- */

/* The array `spec` names for the flag or operand `field`, converted to `type` (OTA_NO_TYPE: as it
 * is). The store keeps it. */
int tool_load(tool_context *context, const char *field, const char *spec, ota_type type,
              const tool_array **array);
/* The same, but with --shard only this process's lines of dimension rank - 2, where that has `rows` of them (-1: any
 * number) and the file's format lets them be read alone; array->in_part tells. */
int tool_load_share(tool_context *context, const char *field, const char *spec, ota_type type,
                    int64_t rows, const tool_array **array);
/* What has been read from `spec` as it is, in part or not, or NULL. */
const tool_array *tool_loaded(const tool_context *context, const char *spec);
/* Was `data` read in part? */
bool tool_is_share(const tool_context *context, const void *data);
/* An array of at most 4 dimensions as a 4-d one, aligned from the right. One that was read in part keeps its shape, and lines
 * of dimension 2 begin where data does. */
ota_array tool_aligned(const tool_array *array);
void tool_store_free(tool_store *store);
/* 64-byte aligned memory for `label`, NULL for size 0, into the pointer at `out`; the caller frees it. Refused, with
 * exit 5, when the machine has no such amount left. */
int tool_memory(tool_context *context, size_t size, const char *label, void *out);

/* ---- text.c ---- */

/* --text, or the file that operand `operand` names (- or left out: standard input); at most 64 MiB. *text
 * has a NUL behind *size bytes and is freed by the caller. */
int tool_read_text(tool_context *context, int operand, char **text, size_t *size);

/* ---- convert.c ---- */

/* "f64" ...; "?" for what has no name. */
const char *tool_type_name(ota_type type);
ota_type tool_type_of(const char *name);
/* count elements; rounds to nearest even; integers and truths become numbers too. */
void tool_convert(const void *from, ota_type from_type, void *to, ota_type to_type, size_t count);
double tool_element(const void *data, ota_type type, size_t index);

/* ---- problem_flags.c: settings and files -> ota_problem and ota_options ---- */

enum { TOOL_MAX_TERMS = 16, TOOL_MAX_SUPPORTS = 16 };

typedef struct tool_problem {
    ota_problem problem;
    ota_options options;
    ota_array values; /* absent when there are none */
    ota_term terms[TOOL_MAX_TERMS];
    ota_support supports[TOOL_MAX_SUPPORTS];
    ota_array start_potential;
    int64_t batch, heads, queries, keys, width, values_width;
    ota_type type;          /* what is computed on */
    ota_type file_type;     /* what the first operand's file holds */
    int rank;               /* of the first operand */
    tool_settings settings; /* after the method's braces */
    char method[160];       /* canonical name */
    char texts[1024];       /* storage of the braces' values */
    void *owned[8];         /* small arrays made from flags, and rotated copies */
    int owned_count;
} tool_problem;

/* `scores` NULL: queries, keys and perhaps values. Everything borrowed lives in the context's store or
 * in `problem` itself, so a tool_problem must not be copied or moved. */
int tool_problem_build(tool_context *context, const char *method, const char *scores,
                       const char *queries, const char *keys, const char *values,
                       tool_problem *problem);
void tool_problem_free(tool_problem *problem);
/* ---- method_flags.c ---- */

/* Sets the fields of problem->problem that the method names, problem->settings from its braces, and
 * problem->method. */
int tool_apply_method(tool_context *context, const char *method, tool_problem *problem);
/* Splits "softmax,elastic:.5,4,ceta{rounds=3}" into malloc'ed words; a comma before a digit belongs to
 * the method. Returns the count or -1 (more than `most`, or no memory). */
int tool_split_methods(const char *text, char **words, int most);

/* ---- solve.c: plan, forward, certificate ---- */

enum {
    TOOL_WANT_OUT = 1,
    TOOL_WANT_COUPLING = 2,
    TOOL_WANT_POTENTIALS = 4,
    TOOL_WANT_RECEIVER = 8,
    TOOL_WANT_GRADIENTS = 16,
    TOOL_WANT_ADVANTAGE = 32
};

typedef struct tool_gradients tool_gradients;
typedef struct tool_rows tool_rows; /* rows.h */

typedef struct tool_solution {
    ota_status status; /* OTA_NOT_CONVERGED where the library said OTA_PARTIAL without leave */
    ota_result result;
    ota_certificate certificate;
    ota_certificate *head_certificates; /* batch * heads, or NULL */
    ota_head_result *heads;
    bool certified;
    double seconds; /* plan and forward */
    char solver[32], kernel[32];
    int threads;
    size_t bytes;
    /* Owned; with --shard those over queries have the rows of this process. */
    ota_array out, coupling, row_potential, column_potential, receiver, sink, advantage;
    tool_gradients *gradients; /* owned; NULL without --grad */
    double backward_residual;
} tool_solution;

/* Returns 0 when there is a solution to show (status says how good), else an exit code with
 * context->error filled. */
int tool_solve(tool_context *context, tool_problem *problem, unsigned wanted, ota_type out_type,
               tool_solution *solution);
/* Can P be recomputed from the potentials? Not for hard and prefix, where they do not define it; not
 * for entmax of order above 2, whose root turns a rounding u of a potential into sqrt(u) of a weight;
 * nor for entmax with coupled columns, where potentials grow without bound on a support that not every
 * plan can use, and their sums cancel. */
bool tool_potentials_tell(const ota_problem *problem);
void tool_solution_free(tool_solution *solution);
/* The status's sentence as the context's error, with the certificate in context->failure; returns the
 * exit code, 0 for statuses that succeed. */
int tool_solution_verdict(tool_context *context, const tool_problem *problem,
                          const tool_solution *solution);
json_t *tool_certificate_json(const ota_certificate *certificate);
/* Its errors, receivers and rows, a line each. */
void tool_certificate_print(FILE *stream, const ota_certificate *certificate);
json_t *tool_problem_json(const tool_problem *problem);
json_t *tool_solution_json(tool_context *context, const tool_problem *problem,
                           const tool_solution *solution);
void tool_solution_print(FILE *stream, const tool_problem *problem, const tool_solution *solution);

/* ---- gradient.c: --grad ---- */

/* Arrays for everything that --grad-out will hold, and dL/dout or dL/dP. *out is freed by the caller, also
 * after a failure. */
int tool_gradients_prepare(tool_context *context, tool_problem *problem, tool_gradients **out);
/* ota_backward after the forward of `plan` on `arrays`. */
int tool_gradients_run(tool_context *context, const tool_problem *problem, ota_plan *plan,
                       const ota_arrays *arrays, tool_gradients *gradients, ota_result *result);
/* u - E_p[u] of every pair, u = -dL/dP; `coupling` and `advantage` are f64 [batch,heads,n,m]. */
void tool_advantage(const tool_problem *problem, const tool_gradients *gradients,
                    const ota_array *coupling, ota_array *advantage);
enum { TOOL_MAX_GRADIENTS = 40 };
/* Those that are written, in order, and how many: with --shard all processes have them in the same order. */
int tool_gradients_rows(const tool_gradients *gradients, tool_rows *rows);
/* What the call above gave stands in `rows` from number `first` on. */
int tool_gradients_write(tool_context *context, const tool_gradients *gradients,
                         const tool_rows *rows, int first, const char *path, tool_output *output);
void tool_gradients_free(tool_gradients *gradients);

/* ---- model.c: checkpoints for info, capture, perplexity, generate ---- */

typedef struct ota_model ota_model;
typedef struct ota_session ota_session;
typedef struct ota_tokenizer ota_tokenizer;
typedef struct ota_model_facts ota_model_facts;

/* The model that the first operand names, in a folder, a file or the hub cache. */
int tool_model_open(tool_context *context, ota_model **model);
/* Opens that model, calls `use` and closes it. */
typedef int tool_model_use(tool_context *context, const ota_model *model,
                           const ota_model_facts *facts);
int tool_with_model(tool_context *context, tool_model_use *use);
/* A session by the flags: methods, temperature, rounds, window, sink, threads. Its warning, if any, is
 * passed on. `cache` 0: none. */
int tool_session_open(tool_context *context, const ota_model *model, int64_t batch, int64_t tokens,
                      int64_t cache, ota_session **session);
/* --exit THETA,K or oracle,K [TOT-119]. */
typedef struct tool_exit {
    double threshold; /* 0: not given, or the oracle */
    int64_t transitions;
    bool oracle; /* a token stops once it predicts what the whole run predicts */
} tool_exit;
static inline bool tool_exits(const tool_exit *is) { return is->oracle || is->threshold > 0; }
int tool_read_exit(tool_context *context, tool_exit *found);
/* The tokenizer of what the first operand names; NULL in *tokenizer is a failure. */
int tool_tokenizer_open(tool_context *context, ota_tokenizer **tokenizer);

/* The tokens of a run: --ids, or the text encoded. */
typedef struct tool_tokens {
    const int64_t *ids; /* [batch, count], every one below the model's vocabulary */
    int64_t batch, count;
    ota_tokenizer *tokenizer; /* NULL with --ids */
    int64_t *owned;
} tool_tokens;

/* `prompt`: --prompt is the text, else --text, the second operand or standard input. */
int tool_tokens_load(tool_context *context, const ota_model *model, bool prompt,
                     tool_tokens *tokens);
void tool_tokens_free(tool_tokens *tokens);
/* Ids of a text with its special tokens by the flags; *ids is freed by the caller. */
int tool_encode(tool_context *context, const ota_tokenizer *tokenizer, const char *text,
                size_t size, int32_t **ids, int64_t *count);

#endif
