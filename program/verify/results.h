/* What a run of the checks found, between the run (verify.c) and the files it writes (page.c). */
#ifndef OTATTN_PROGRAM_VERIFY_RESULTS_H
#define OTATTN_PROGRAM_VERIFY_RESULTS_H

#include "program/program.h"
#include "statements/check.h"
#include "statements/studies/studies.h"

/* One check after all its repeats: the value furthest on the wrong side. */
typedef struct outcome {
    const statement_check *check;
    double value, seconds;
    bool holds, right;
    bool extension; /* beyond the requirements */
} outcome;

typedef struct id_outcome {
    const char *id;
    int checks, right, noticed;
    double seconds;
    bool extension;
} id_outcome;

typedef struct verification {
    tool_context *context;
    trial trial;
    statement_model_kind kind; /* of the model that --model names */
    outcome *outcomes;
    int count;
    id_outcome *ids;
    int id_count; /* those of extensions too */
    double seconds;
    /* faults.c: of the faults of the product, which outcomes noticed which, [fault_count][count]. */
    bool *fault_noticed;
    int fault_count, faults_missed, fault_checks;
} verification;

/* Is the id among those that --only names? */
bool tool_check_chosen(const tool_context *context, const char *id);
/* The start of a sequence of random numbers, of its own for every name, seed and repeat. */
uint64_t tool_check_dice(const tool_context *context, const char *id, const char *name,
                         int64_t repeat);
/* The worst value of the check's draws. `fault`: what --self-test puts the first output off by, or 0. */
double tool_check_measure(verification *v, const statement_check *check, int64_t repeat,
                          double fault);
bool tool_check_holds(const statement_check *check, double value);
/* How many ids are requirements, or extensions. */
int tool_ids_of(const verification *v, bool extension);
const char *tool_relation_text(const statement_check *check);
const char *tool_form_text(const statement_check *check);

/* F.html: a page of studies and checks. F.csv: the checks. Anything else: a folder, made if need be, with
 * verify.html, checks.csv and, for every study that --only names, its table NAME.csv and its figure
 * NAME.vl.json. Returns 0 or the exit code. */
int tool_verify_write(verification *v, const char *path);
bool tool_ends_with(const char *path, const char *end);

/* sizes.c: refuses numbers that no chosen study can take. Returns 0 or the exit code. */
int tool_check_sizes(tool_context *context);
/* What a study is run with. */
study_sizes tool_study_sizes(const tool_context *context, const statement_study *study);

/* faults.c: plants every fault of the product in turn and measures the chosen checks; nothing where none is compiled in.
 * Returns 0 or the exit code. */
int tool_faults_run(verification *v);
void tool_faults_print(const verification *v);
void tool_faults_json(const verification *v, json_t *object);
void tool_faults_free(verification *v);

/* host.c */
extern const statement_host tool_statement_host;

#endif
