/* cases.h: case number k, drawn from k alone: a problem, its options, the arrays of every call, and which calls
 * are made. cases.c and settings.c draw the problem, outputs.c the
 * arrays; calls.c makes the calls. */
#ifndef TESTS_DUMP_CASES_H
#define TESTS_DUMP_CASES_H

#include "arrays.h"

enum {
    DUMP_TERMS = 8,
    DUMP_SUPPORTS = 4,
    DUMP_OUTPUTS = 32,
    DUMP_STEPS = 3,
    DUMP_REFUSED_LIMIT = 512, /* bytes: no plan is so small */
    DUMP_MEMORY = 1 << 26     /* bytes of one case */
};

typedef enum dump_size_kind {
    DUMP_EDGE,   /* 0 to 3 queries and keys */
    DUMP_SMALL,  /* up to 20 */
    DUMP_LANES,  /* many heads of up to 16 x 16 */
    DUMP_MIDDLE, /* 65 to 200 */
    DUMP_LARGE,  /* more than a strip of 256 rows */
    DUMP_FEW,    /* 1 to 4 queries, many keys */
    DUMP_LEAD,   /* a matrix of f64, at least 2^14 pairs, far apart */
    DUMP_SIZE_KINDS
} dump_size_kind;

/* Calls besides plan and forward, which every case makes. */
typedef enum dump_call {
    DUMP_REBIND = 1,
    DUMP_BACKWARD = 2,
    DUMP_JVP = 4,
    DUMP_DECODE = 8,
    DUMP_ATTEND = 16,
    DUMP_CERTIFY = 32,
    DUMP_LIMIT = 64, /* workspace_limit below what the first plan took */
    DUMP_ROPE = 128
} dump_call;

typedef struct dump_output {
    const char *name;
    ota_array array;
    dump_block block;
} dump_output;

typedef struct dump_outputs {
    dump_output list[DUMP_OUTPUTS];
    int count;
} dump_outputs;

enum {
    DUMP_BOUNDED = 10000,
    DUMP_CASES = 10600
}; /* the first case of bounded columns; all cases */

typedef struct dump_case {
    int64_t number;
    dice dice;
    dump_memory *memory;
    dump_size_kind kind;
    int64_t batch, heads, key_heads, queries, keys, width, values_width;
    ota_type type;
    rule rule; /* of what scores are made of */
    double spread;
    bool sink, extreme; /* extreme: NaN or infinity among the inputs */
    bool plain;         /* rounds without schedule, so that their own kernels run */
    unsigned calls;     /* of dump_call */

    ota_problem problem, second; /* second: other arrays of the same shapes, for rebind */
    ota_term terms[DUMP_TERMS];
    ota_support supports[DUMP_SUPPORTS];
    ota_options options;
    double limit_share;             /* of the first plan's bytes */
    int64_t key_counts[DUMP_STEPS]; /* of decode */

    ota_arrays arrays;
    dump_outputs forward;
    int64_t head_count;
    ota_gradients gradients;
    ota_array gradient_terms[DUMP_TERMS];
    dump_outputs backward;
    ota_tangents tangents;
    ota_array tangent_terms[DUMP_TERMS];
    dump_outputs jvp;
    dump_outputs rope;
} dump_case;

void dump_draw(dump_case *c, dump_memory *memory, int64_t number);
/* Its steps in other files. */
void dump_draw_masses(dump_case *c);
void dump_draw_options(dump_case *c);
void dump_draw_calls(dump_case *c);
void dump_draw_scores(dump_case *c, ota_problem *problem, bool matrix);
/* The arrays of the calls, after the problem is drawn. */
void dump_draw_arrays(dump_case *c);
/* One line that says what the case is. */
void dump_recipe(const dump_case *c, char *text, size_t text_size);

/* An input of this type and shape, by chance of any layout. */
ota_array dump_input(dump_case *c, const array_shape *shape, rule rule, double parameter);
/* The case for the generator. */
draft dump_draft(dump_case *c, ota_problem *problem);
/* Is the plan solved to a tolerance, with coupled columns? */
bool dump_to_tolerance(const dump_case *c);

#endif
