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
} outcome;

typedef struct id_outcome {
    const char *id;
    int checks, right, noticed;
    double seconds;
} id_outcome;

typedef struct verification {
    tool_context *context;
    trial trial;
    statement_model_kind kind; /* of the model that --model names */
    outcome *outcomes;
    int count;
    id_outcome *ids;
    int id_count;
    double seconds;
} verification;

/* Is the id among those that --only names? */
bool tool_check_chosen(const tool_context *context, const char *id);
/* The start of a sequence of random numbers, of its own for every name, seed and repeat. */
uint64_t tool_check_dice(const tool_context *context, const char *id, const char *name,
                         int64_t repeat);
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

/* host.c */
extern const statement_host tool_statement_host;

#endif
