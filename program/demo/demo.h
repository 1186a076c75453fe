/* program/demo/: otattn demo: what each column rule does to two heads of a trained model, in the terminal. The data is part
 * of the program. It may call the public headers and the rest of the program.
 *
 * What `otattn demo` computes: two heads of a trained model, every rule applied to both, every plan judged. */
#ifndef OTATTN_PROGRAM_DEMO_H
#define OTATTN_PROGRAM_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include "otattn.h"
#include "program/program.h"

enum { DEMO_HEADS = 2, DEMO_STAGES = 24 };

/* The captured file: Q, K, V [1, DEMO_HEADS, count, width] in f64, and what they belong to. */
typedef struct demo_data {
    int64_t count, width;
    double *query, *key, *value;
    json_t *metadata; /* of the file; the texts below live in it */
    json_t *token_array;
    const char *sentence, *model;
    const char **tokens;
    int64_t layers[DEMO_HEADS], heads[DEMO_HEADS]; /* counted from 0, as in the model */
} demo_data;

/* One rule: a row of the tables below. */
typedef struct demo_rule {
    const char *method; /* the method's spelling, NULL for the annealed elastic update */
    const char *title;  /* a few words */
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

typedef struct demo_run {
    demo_data data;
    demo_result rules[DEMO_RULES]; /* cases, then elastic, then others */
    demo_result cooled;  /* after DEMO_STAGES + 1 rounds, each colder than the one before */
    double cooled_share; /* of head 0's mass on the pairs of its best assignment */
    double seconds;
} demo_run;

/* False when the program was built around other bytes, or memory is short. */
bool demo_data_load(demo_data *data);
void demo_data_free(demo_data *data);

#endif
