/* program/demo/: otattn demo: what each column rule does to two heads of a trained model, in the terminal and as a
 * page. The data is part of the program. It may call the public headers and the rest of the program.
 *
 * What `otattn demo` computes, shared by its terminal and its page: two heads of a trained model,
 * every rule applied to both, every plan judged. */
#ifndef OTATTN_PROGRAM_DEMO_H
#define OTATTN_PROGRAM_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "otattn.h"
#include "program/program.h"
#include "program/report/report.h"

enum { DEMO_HEADS = 2, DEMO_STAGES = 24, DEMO_ROUNDS = 16 };

/* The captured file: Q, K, V [1, DEMO_HEADS, count, width] in f64, and what they belong to. */
typedef struct demo_data {
    int64_t count, width;
    double *query, *key, *value;
    json_t *metadata; /* of the file; the texts below live in it or in `labels` */
    json_t *token_array;
    const char *sentence, *model;
    const char **tokens;
    char **labels;                                 /* "3 ships": equal tokens stay apart */
    int64_t layers[DEMO_HEADS], heads[DEMO_HEADS]; /* counted from 0, as in the model */
} demo_data;

/* One rule: a row of the tables below. */
typedef struct demo_rule {
    const char *method; /* the method's spelling, NULL for the annealed elastic update */
    const char *title;  /* a few words */
    const char *words;  /* what it does, for someone who meets it for the first time */
} demo_rule;

typedef struct demo_result {
    const demo_rule *rule;
    ota_status status;
    int64_t rounds;
    double temperature;
    double *coupling;                 /* [DEMO_HEADS, count, count] */
    double *received;                 /* [DEMO_HEADS, count] column sums */
    double *out;                      /* [DEMO_HEADS, count, width] */
    int64_t top[DEMO_HEADS];          /* key that receives most */
    double output_change[DEMO_HEADS]; /* |out - out of softmax| / |out of softmax|, Frobenius */
    ota_certificate certificates[DEMO_HEADS];
} demo_result;

enum { DEMO_CASES = 3, DEMO_ELASTIC = 4, DEMO_OTHERS = 4 };
enum { DEMO_RULES = DEMO_CASES + DEMO_ELASTIC + DEMO_OTHERS };

/* lambda > 0 of the elastic update, in the order of the pictures. */
enum { DEMO_LAMBDAS = 3 };
/* Temperatures of the cooling that are shown as maps: every eighth stage. */
enum { DEMO_COOLED = 4 };

typedef struct demo_run {
    demo_data data;
    demo_result rules[DEMO_RULES]; /* cases, then elastic, then others */
    demo_result cooled[DEMO_COOLED];
    /* Of head 0. delta after 0 ... DEMO_ROUNDS rounds of the elastic update. */
    double deltas[DEMO_LAMBDAS + 1][DEMO_ROUNDS + 1];
    /* Of head 0. Share of the mass that lies on the pairs of the best assignment, at stage
     * 0 ... DEMO_STAGES of the cooling: elastic with lambda .5 and 1 by one round a stage, and solved to
     * the end. */
    double temperatures[DEMO_STAGES + 1];
    double shares[3][DEMO_STAGES + 1];
    int unfinished; /* stages of the last that stopped before the tolerance */
    double seconds;
} demo_run;

extern const demo_rule demo_rules[DEMO_RULES];
extern const double demo_lambdas[DEMO_LAMBDAS + 1]; /* 0 first */
extern const char *const demo_cooling_names[3];

/* False when the program was built around other bytes, or memory is short. */
bool demo_data_load(demo_data *data);
void demo_data_free(demo_data *data);

/* demo_answers.c: names and texts at the top of the page; its sentences, once all figures are drawn. */
void demo_write_facts(cli_report *report, const demo_run *run);
void demo_write_answers(cli_report *report, const demo_run *run);
/* Writes the page; 0 or the exit code with context->error filled. */
int demo_write_page(cli_context *context, const demo_run *run, const char *path);

/* The token that receives most, or "(even)" where all receive the same to within half a percent. */
const char *demo_fullest(const demo_data *data, const demo_result *result, int head);

/* "16.11", "0.0026", "1e-16": short enough for a table; "-" for what does not exist. */
void demo_number(double value, char *text, size_t size);

#endif
