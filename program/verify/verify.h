/* program/verify/: otattn verify: chooses the checks of statements/, runs them, prints them, and writes page and
 * tables (page.c). faults.c plants the faults of a build with OTATTN_FAULTS. host.c gives the statements what they
 * measure of the program. Begin with verify.c.
 *
 * What a run of the checks found, between the run (verify.c) and the files it writes (page.c). */
#ifndef OTATTN_PROGRAM_VERIFY_VERIFY_H
#define OTATTN_PROGRAM_VERIFY_VERIFY_H

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
    cli_context *context;
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
bool cli_check_chosen(const cli_context *context, const char *id);
/* The start of a sequence of random numbers, of its own for every name, seed and repeat. */
uint64_t cli_check_dice(const cli_context *context, const char *id, const char *name,
                        int64_t repeat);
/* The worst value of the check's draws. `fault`: what --self-test puts the first output off by, or 0. */
double cli_check_measure(verification *v, const statement_check *check, int64_t repeat,
                         double fault);
bool cli_check_holds(const statement_check *check, double value);
/* How many ids are requirements, or extensions. */
int cli_ids_of(const verification *v, bool extension);
const char *cli_relation_text(const statement_check *check);
const char *cli_form_text(const statement_check *check);

/* F.html: a page of studies and checks. F.csv: the checks. Anything else: a folder, made if need be, with
 * verify.html, checks.csv and, for every study that --only names, its table NAME.csv and its figure
 * NAME.vl.json. Returns 0 or the exit code. */
int cli_verify_write(verification *v, const char *path);
bool cli_ends_with(const char *path, const char *end);

/* sizes.c: refuses numbers that no chosen study can take. Returns 0 or the exit code. */
int cli_check_sizes(cli_context *context);
/* What a study is run with. */
study_sizes cli_study_sizes(const cli_context *context, const statement_study *study);

/* faults.c: plants every fault of the product in turn and measures the chosen checks; nothing where none is compiled in.
 * Returns 0 or the exit code. */
int cli_faults_run(verification *v);
void cli_faults_print(const verification *v);
void cli_faults_json(const verification *v, json_t *object);
void cli_faults_free(verification *v);

/* host.c */
extern const statement_host cli_statement_host;

#endif
