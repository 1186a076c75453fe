/* program/: The command line otattn: main.c, the two tables of subcommands and flags (table.c), their parsing, help,
 * errors, JSON and progress. A subcommand is one file in a folder by theme and one row of table.c; program.h says what
 * it may print and how it fails. It may call the public headers of the libraries, and statements/. Then read table.c.
 *
 * What the files of the program share: the two tables everything is made from (subcommands, flags),
 * the parsed settings, errors, JSON, progress.
 *
 * A subcommand is one row of cli_commands (table.c) and one function `int cli_NAME(cli_context *)`
 * that returns an exit code. On success it has printed its result: text, or with settings.json one
 * object through cli_print_json. On failure it has filled context->error (cli_fail, cli_refuse_flag
 * or cli_fail_status do) and printed nothing: main.c prints the sentence and the JSON object. */
#ifndef OTATTN_PROGRAM_PROGRAM_H
#define OTATTN_PROGRAM_PROGRAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "program/files/files.h"
#include "program/files/files_formats.h"
#include "program/settings.h"
#include "otattn_analysis.h"

enum { CLI_EXIT_OK = 0, CLI_EXIT_NUMERIC = 3 };
enum { CLI_MAX_OPERANDS = 4 };

/* ---- context ---- */

typedef struct cli_store cli_store;
typedef struct cli_command cli_command;

typedef struct cli_context {
    const cli_command *command;
    cli_settings settings;
    const char *operands[CLI_MAX_OPERANDS];
    int operand_count;
    cli_error error;
    const char *status; /* status word of the failure; NULL: by the exit code */
    json_t *failure;    /* further keys of the failure's JSON object (a certificate), or NULL */
    json_t *warnings;   /* array of sentences; cli_warn adds */
    const int *cancel;  /* becomes 1 at Ctrl-C */
    ota_analysis_options analysis; /* with `cancel`, for calls of the analysis */
    cli_store *store;              /* arrays read so far */
    cli_share share;               /* of the processes of --shard; ranks 0 without */
    bool interrupted;              /* a result was printed, but Ctrl-C cut it short: exit 130 */
} cli_context;

/* ---- the two tables (table.c) ---- */

/* A subcommand: returns an exit code. */
typedef int cli_run(cli_context *context);

struct cli_command {
    const char *name;
    const char *operands; /* "SCORES", "QUERY KEY [VALUE]", "" */
    int least, most;      /* how many operands */
    const char *summary;  /* one line, no full stop */
    const char *details;  /* paragraphs for --help and the man page */
    const char *example;
    cli_run *run;
    unsigned bit; /* in cli_flag.commands */
};

typedef struct cli_flag cli_flag;
struct cli_flag {
    const char *name;
    int (*parse)(const cli_flag *flag, const char *text, void *field, cli_error *error);
    size_t offset;     /* of its field in cli_settings */
    unsigned commands; /* bits of the subcommands that take it */
    int group;         /* index into cli_groups */
    const char *help;
    const char *form;    /* "T[,T...]"; NULL: takes no value */
    const char *choices; /* words separated by blanks, for checks and completions, or NULL */
    const char *sets; /* members of ota_options or ota_problem, as member_flags.c says, or NULL */
    const char *standard; /* default in words, or NULL */
    char letter;          /* short form, or 0 */
    bool optional;        /* its value may be left out; then it must follow an = */
    bool in_method;       /* may stand in the braces of a method */
};

extern const cli_command cli_commands[];
extern const int cli_command_count;
extern const cli_flag cli_flags[];
extern const int cli_flag_count;
extern const char *const cli_groups[];
extern const int cli_group_count;

const cli_command *cli_find_command(const char *name);

cli_run cli_attend, cli_plan, cli_compare, cli_assign, cli_hamming, cli_align, cli_certify,
    cli_demo, cli_bench, cli_doctor, cli_help, cli_completions, cli_verify, cli_tokenize, cli_info,
    cli_capture, cli_perplexity, cli_generate, cli_analyze, cli_report_command, cli_patch, cli_lens;

/* ---- flags.c ---- */

/* Fills context->settings and operands from the words after the subcommand. */
int cli_parse(cli_context *context, int argc, char **argv);
/* The flags that were given, by their numbers in cli_flags. */
typedef struct cli_flag_set {
    uint64_t words[4];
} cli_flag_set;

/* Adds it; was it there already, and takes one value only? Lists add up, and a switch given again says the same. */
bool cli_flag_again(cli_flag_set *given, const cli_flag *flag);
/* Sets one flag as if `--name=text` (text NULL: `--name`) had been given; used for braces. */
int cli_set_flag(cli_settings *settings, const cli_flag *flag, const char *text, cli_error *error);
const cli_flag *cli_find_flag(const char *name, size_t length, unsigned commands);

int cli_parse_switch(const cli_flag *flag, const char *text, void *field, cli_error *error);
/* Whatever is given, also nothing. */
int cli_parse_words(const cli_flag *flag, const char *text, void *field, cli_error *error);
int cli_parse_text(const cli_flag *flag, const char *text, void *field, cli_error *error);
int cli_parse_list(const cli_flag *flag, const char *text, void *field, cli_error *error);
int cli_parse_choice(const cli_flag *flag, const char *text, void *field, cli_error *error);
int cli_parse_positive(const cli_flag *flag, const char *text, void *field, cli_error *error);
int cli_parse_count(const cli_flag *flag, const char *text, void *field, cli_error *error);
int cli_parse_natural(const cli_flag *flag, const char *text, void *field, cli_error *error);

/* The whole text must be one number; locale-free. */
bool cli_number(const char *text, double *value);
bool cli_integer(const char *text, int64_t *value);
/* Numbers separated by commas; returns how many, -1 when one is none or there are more than `most`. */
int cli_numbers(const char *text, double *values, int most);
/* The same of a sink's logits, among which -inf is none. */
bool cli_logit(const char *text, double *value);
int cli_logits(const char *text, double *values, int most);

/* ---- suggest.c ---- */

/* The word of `words` (count of them, NULLs skipped) nearest to `text`, or NULL when none is near. */
const char *cli_nearest(const char *text, size_t length, const char *const *words, int count);

/* ---- errors.c ---- */

/* Usage error about a flag or operand: field is its name. Returns CLI_EXIT_USAGE. */
int cli_refuse_flag(cli_context *context, const char *field, const char *hint, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
/* A failed library call: exit code and status word of `status`, sentence of `error`. */
int cli_fail_status(cli_context *context, ota_status status, const ota_error *error);
/* Exit code of a status by the program's contract. */
int cli_exit_code(ota_status status);
/* Prints context->error; main.c calls it once at the end. */
void cli_report_failure(cli_context *context, int code);
/* One sentence on stderr now and in the JSON's "warnings" later. */
void cli_warn(cli_context *context, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- json.c: trees are jansson's; only the printing is ours ---- */

/* Shortest decimal that reads back as the same double; size >= 32. */
void cli_format_real(double value, char *text, size_t size);
/* Of memory or files, in bytes, kB, MB or GB. */
void cli_format_bytes(double bytes, char *text, size_t size);
/* Behind a noun that so many are. */
static inline const char *cli_s(int64_t count) { return count == 1 ? "" : "s"; }
/* A number, or null when it is not finite. */
json_t *cli_json_real(double value);
/* Sets keys of an object and returns it. `fields` is "KEY:TYPE KEY:TYPE ..." with a value each behind it: s text (NULL:
 * no such key), i int, I int64_t, r double by
 * cli_json_real, b bool, o a json_t * that is taken over. */
json_t *cli_json_put(json_t *object, const char *fields, ...);
/* What every result begins with: command, version, status. */
json_t *cli_json_result(const cli_context *context, const char *status);
/* One line on `stream`, whole or not at all; numbers shortest, never NaN or Infinity. Takes over the reference. Where
 * memory was short it returns CLI_EXIT_LIMIT, and main says so. */
int cli_print_json(FILE *stream, json_t *tree);
/* A text of others for a terminal: what does something unseen there is written as JSON would write it, \u202e. */
void cli_put_visible(FILE *stream, const char *text, size_t size);
/* The same of a text ended by NUL, with words around it. */
void cli_put_named(FILE *stream, const char *before, const char *text, const char *after);

/* ---- csv.c: text made in memory, and tables by RFC 4180 in it ---- */

void csv_cell(cli_text *csv, const char *text, size_t size);
void csv_word(cli_text *csv, const char *text);
/* Shortest; empty where it is not finite. */
void csv_number(cli_text *csv, double value);
void csv_line(cli_text *csv);
/* A line: a letter a cell, w a word, n a number (double). */
void csv_row(cli_text *csv, const char *types, ...);

/* ---- progress.c: how far and how long still, on stderr ---- */

typedef struct cli_progress {
    bool terminal, log, shown;
    const char *label;
    int64_t begun_ns, last_ns;
    double first_residual, tolerance;
    int64_t first_round, first_ns;
} cli_progress;

/* On a terminal a line after one second, written over five times a second; elsewhere lines of a log after one second,
 * and ever more rarely, down to one a minute, but for --json. Nothing by ranks after the first. */
void cli_progress_begin(cli_progress *progress, const cli_context *context, const char *label);
/* `unit`: what is counted, "heads", "rows". */
void cli_progress_update(cli_progress *progress, double done, double total, const char *unit);
/* An ota_options.progress callback; `user` is a cli_progress with its tolerance set. */
void cli_progress_solver(void *user, const ota_progress *report);
/* Clears the line. */
void cli_progress_end(cli_progress *progress);

int64_t cli_now_ns(void);
/* May this stream be coloured? A terminal, unless NO_COLOR or TERM=dumb; CLICOLOR_FORCE wins. */
bool cli_colour(FILE *stream);

/* ---- store.c: arrays read from files, each once, freed with the context ---- */

/* The array `spec` names for the flag or operand `field`, converted to `type` (OTA_NO_TYPE: as it
 * is). The store keeps it. */
int cli_load(cli_context *context, const char *field, const char *spec, ota_type type,
             const cli_array **array);
/* The same, but with --shard only this process's lines of dimension rank - 2, where that has `rows` of them (-1: any
 * number) and the file's format lets them be read alone; array->in_part tells. */
int cli_load_share(cli_context *context, const char *field, const char *spec, ota_type type,
                   int64_t rows, const cli_array **array);
/* What has been read from `spec` as it is, in part or not, or NULL. */
const cli_array *cli_loaded(const cli_context *context, const char *spec);
/* Was `data` read in part? */
bool cli_is_share(const cli_context *context, const void *data);
/* An array of at most 4 dimensions as a 4-d one, aligned from the right. One that was read in part keeps its shape, and lines
 * of dimension 2 begin where data does. */
ota_array cli_aligned(const cli_array *array);
void cli_store_free(cli_store *store);
/* Memory of ota_program_allocate for `label`, NULL for size 0, into the pointer at `out`; the caller frees it. Refused, with
 * exit 5, when the machine has no such amount left. */
int cli_memory(cli_context *context, size_t size, const char *label, void *out);

/* ---- text.c ---- */

/* --text, or the file that operand `operand` names (- or left out: standard input); at most 64 MiB. *text
 * has a NUL behind *size bytes and is freed by the caller. */
int cli_read_text(cli_context *context, int operand, char **text, size_t *size);

/* ---- convert.c ---- */

/* "f64" ...; "?" for what has no name. */
const char *cli_type_name(ota_type type);
ota_type cli_type_of(const char *name);
/* count elements; rounds to nearest even; integers and truths become numbers too. */
void cli_convert(const void *from, ota_type from_type, void *to, ota_type to_type, size_t count);
double cli_element(const void *data, ota_type type, size_t index);

/* ---- problem_flags.c: settings and files -> ota_problem and ota_options ---- */

enum { CLI_MAX_TERMS = 16, CLI_MAX_SUPPORTS = 16 };

typedef struct cli_problem {
    ota_problem problem;
    ota_options options;
    ota_array values; /* absent when there are none */
    ota_term terms[CLI_MAX_TERMS];
    ota_support supports[CLI_MAX_SUPPORTS];
    ota_array start_potential;
    int64_t batch, heads, queries, keys, width, values_width;
    ota_type type;         /* what is computed on */
    ota_type file_type;    /* what the first operand's file holds */
    int rank;              /* of the first operand */
    cli_settings settings; /* after the method's braces */
    char method[160];      /* canonical name */
    char texts[1024];      /* storage of the braces' values */
    void *owned[8];        /* small arrays made from flags, and rotated copies */
    int owned_count;
} cli_problem;

/* `scores` NULL: queries, keys and perhaps values. Everything borrowed lives in the context's store or
 * in `problem` itself, so a cli_problem must not be copied or moved. */
int cli_problem_build(cli_context *context, const char *method, const char *scores,
                      const char *queries, const char *keys, const char *values,
                      cli_problem *problem);
void cli_problem_free(cli_problem *problem);
/* A vector of numbers over queries or keys from a file; narrow and whole numbers become f64. */
int cli_load_vector(cli_context *context, const char *field, const char *spec, ota_array *out);
/* "a,b,c", each above 0, as {1,1,1,count}: one number, or one per head. */
int cli_head_numbers(cli_context *context, const char *field, const char *text,
                     cli_problem *problem, ota_array *out);
/* ---- method_flags.c ---- */

/* Sets the fields of problem->problem that the method names, problem->settings from its braces, and
 * problem->method. */
int cli_apply_method(cli_context *context, const char *method, cli_problem *problem);
/* ---- member_flags.c ---- */

/* The members of problem->options and problem->problem that flags set. */
int cli_set_members(cli_context *context, cli_problem *problem);
/* Does every name of flag->sets belong to a member? */
bool cli_sets_members(const cli_flag *flag);
/* The words that a flag takes: its own, or those of the member that it sets; NULL: any. */
const char *cli_flag_words(const cli_flag *flag);
/* Splits "softmax,elastic:.5,4,ceta{rounds=3}" into malloc'ed words; a comma before a digit belongs to
 * the method. Returns the count or -1 (more than `most`, or no memory). */
int cli_split_methods(const char *text, char **words, int most);

/* ---- solve.c: plan, forward, certificate ---- */

enum {
    CLI_WANT_OUT = 1,
    CLI_WANT_COUPLING = 2,
    CLI_WANT_POTENTIALS = 4,
    CLI_WANT_RECEIVER = 8,
    CLI_WANT_GRADIENTS = 16,
    CLI_WANT_ADVANTAGE = 32
};

typedef struct cli_gradients cli_gradients;
typedef struct cli_rows cli_rows; /* rows.h */

typedef struct cli_solution {
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
    cli_gradients *gradients; /* owned; NULL without --grad */
    double backward_residual;
} cli_solution;

/* Returns 0 when there is a solution to show (status says how good), else an exit code with
 * context->error filled. */
int cli_solve(cli_context *context, cli_problem *problem, unsigned wanted, ota_type out_type,
              cli_solution *solution);
/* Can P be recomputed from the potentials? Not for hard and prefix, where they do not define it; not
 * for entmax of order above 2, whose root turns a rounding u of a potential into sqrt(u) of a weight;
 * nor for entmax with coupled columns, where potentials grow without bound on a support that not every
 * plan can use, and their sums cancel. */
bool cli_potentials_tell(const ota_problem *problem);
void cli_solution_free(cli_solution *solution);
/* What rows and columns of the problem are solved to. */
double cli_tolerance(const cli_problem *problem);
/* The status's sentence as the context's error, with the certificate in context->failure; returns the
 * exit code, 0 for statuses that succeed. */
int cli_solution_verdict(cli_context *context, const cli_problem *problem,
                         const cli_solution *solution);
json_t *cli_certificate_json(const ota_certificate *certificate);
/* Its errors, receivers and rows, a line each. */
void cli_certificate_print(FILE *stream, const ota_certificate *certificate);
json_t *cli_problem_json(const cli_problem *problem);
json_t *cli_solution_json(cli_context *context, const cli_problem *problem,
                          const cli_solution *solution);
void cli_solution_print(FILE *stream, const cli_problem *problem, const cli_solution *solution);

/* ---- gradient.c: --grad ---- */

/* Arrays for everything that --grad-out will hold, and dL/dout or dL/dP. *out is freed by the caller, also
 * after a failure. */
int cli_gradients_prepare(cli_context *context, cli_problem *problem, cli_gradients **out);
/* ota_backward after the forward of `plan` on `arrays`. */
int cli_gradients_run(cli_context *context, const cli_problem *problem, ota_plan *plan,
                      const ota_arrays *arrays, cli_gradients *gradients, ota_result *result);
/* u - E_p[u] of every pair, u = -dL/dP; `coupling` and `advantage` are f64 [batch,heads,n,m]. */
void cli_advantage(const cli_problem *problem, const cli_gradients *gradients,
                   const ota_array *coupling, ota_array *advantage);
enum { CLI_MAX_GRADIENTS = 40 };
/* Those that are written, in order, and how many: with --shard all processes have them in the same order. */
int cli_gradients_rows(const cli_gradients *gradients, cli_rows *rows);
/* What the call above gave stands in `rows` from number `first` on. */
int cli_gradients_write(cli_context *context, const cli_gradients *gradients, const cli_rows *rows,
                        int first, const char *path, cli_output *output);
void cli_gradients_free(cli_gradients *gradients);

/* ---- model.c: checkpoints for info, capture, perplexity, generate ---- */

typedef struct ota_model ota_model;
typedef struct ota_session ota_session;
typedef struct ota_tokenizer ota_tokenizer;
typedef struct ota_model_facts ota_model_facts;

/* The model that the first operand names, in a folder, a file or the hub cache. */
int cli_model_open(cli_context *context, ota_model **model);
/* Opens that model, which must read text, calls `use` and closes it. */
typedef int cli_model_use(cli_context *context, const ota_model *model,
                          const ota_model_facts *facts);
int cli_with_model(cli_context *context, cli_model_use *use);
/* A session by the flags: methods, temperature, rounds, window, sink, threads. Its warning, if any, is
 * passed on. `cache` 0: none. */
int cli_session_open(cli_context *context, const ota_model *model, int64_t batch, int64_t tokens,
                     int64_t cache, ota_session **session);
/* --exit THETA,K or oracle,K [TOT-119]. */
typedef struct cli_exit {
    double threshold; /* 0: not given, or the oracle */
    int64_t transitions;
    bool oracle; /* a token stops once it predicts what the whole run predicts */
} cli_exit;
static inline bool cli_exits(const cli_exit *is) { return is->oracle || is->threshold > 0; }
int cli_read_exit(cli_context *context, cli_exit *found);
/* The tokenizer of what the first operand names; NULL in *tokenizer is a failure. */
int cli_tokenizer_open(cli_context *context, ota_tokenizer **tokenizer);
/* That of an open model. */
int cli_model_tokenizer(cli_context *context, const ota_model *model, ota_tokenizer **tokenizer);

/* The tokens of a run: --ids, or the text encoded. */
typedef struct cli_tokens {
    const int64_t *ids; /* [batch, count], every one below the model's vocabulary */
    int64_t batch, count;
    ota_tokenizer *tokenizer; /* NULL with --ids */
    int64_t *owned;
} cli_tokens;

/* Fails where the model sees images. */
int cli_refuse_images(cli_context *context, const ota_model *model);
/* `prompt`: --prompt is the text, else --text, the second operand or standard input. */
int cli_tokens_load(cli_context *context, const ota_model *model, bool prompt, cli_tokens *tokens);
void cli_tokens_free(cli_tokens *tokens);
/* Ids of a text with its special tokens by the flags; *ids is freed by the caller. */
int cli_encode(cli_context *context, const ota_tokenizer *tokenizer, const char *text, size_t size,
               int32_t **ids, int64_t *count);

#endif
