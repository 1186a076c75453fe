/* statements/: What otattn verify measures: every requirement id as one or more checks, and extensions beyond them, a
 * library that the program links. A check is a function that draws from a trial, calls the libraries and returns one
 * number, and a row of its file's table, which says how many draws count; a file of checks is a row of groups.c. Names
 * seen outside a file begin with the word statement, or study. It may call the public headers of the libraries. What
 * it measures of the program comes through host.h.
 *
 * What the checks of `otattn verify` share: a trial (random numbers, memory, the planted fault of
 * --self-test), one head to solve, and the rows that the tables of checks are made of.
 *
 * A check calls public functions of the library and measures one number: a distance from a formula that
 * is written in the check, the excess over a bound, a count of exceptions. It holds when
 *
 *     value <= tolerance   (AT_MOST)        value >= tolerance   (AT_LEAST)
 *
 * and comes out right when that is what its row expects: printed forms do not hold. A measurement that cannot be made is NaN, and a
 * NaN holds for neither relation. Arrays are row-major f64: S, P [n][m], f [n], g [m]. */
#ifndef OTATTN_STATEMENTS_CHECK_H
#define OTATTN_STATEMENTS_CHECK_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otattn.h"
#include "otattn_analysis.h"
#include "src/base/integers.h"
#include "statements/host.h"

#define ROUNDOFF (DBL_EPSILON / 2)

/* ---- rows ---- */

typedef struct trial trial;

typedef struct statement_check {
    bool printed;  /* a printed form that the errata refute: expected not to hold */
    bool at_least; /* value >= tolerance; else value <= tolerance */
    const char *id, *claim;
    double (*measure)(trial *t);
    double tolerance;
    int draws; /* how often it measures, the worst value counts; 0: once */
} statement_check;

/* A row: id, claim, measure, tolerance and, where there are several, the number of draws. */
#define AT_MOST(...)                                                                               \
    { .at_least = false, __VA_ARGS__ }
#define AT_LEAST(...)                                                                              \
    { .at_least = true, __VA_ARGS__ }
#define PRINTED_AT_MOST(...)                                                                       \
    { .printed = true, .at_least = false, __VA_ARGS__ }
#define PRINTED_AT_LEAST(...)                                                                      \
    { .printed = true, .at_least = true, __VA_ARGS__ }

/* What a group's checks run on; --model chooses those that its model can take. */
typedef enum statement_model_kind {
    NO_MODEL,
    GPT2_MODEL,
    CAUSAL_MODEL,
    ANY_MODEL
} statement_model_kind;

/* Tokens of a check on a model: as many positions it must have. */
enum { MODEL_TOKENS = 12 };

/* models/folder.c: what kind of model a path holds, and how many positions it has. */
ota_status statement_model_kind_of(const char *path, statement_model_kind *kind, int64_t *positions,
                                   ota_error *error);

typedef struct statement_group {
    const statement_check *checks;
    int count;
    statement_model_kind model;
    bool extension; /* beyond the requirements: counted and shown apart */
} statement_group;

#define MODEL_CHECK_GROUP(name, rows, kind)                                                        \
    const statement_group name = {rows, (int)(sizeof(rows) / sizeof(rows)[0]), kind, false}
#define CHECK_GROUP(name, rows) MODEL_CHECK_GROUP(name, rows, NO_MODEL)
#define EXTENSION_GROUP(name, rows)                                                                \
    const statement_group name = {rows, (int)(sizeof(rows) / sizeof(rows)[0]), NO_MODEL, true}

extern const statement_group *const statement_groups[];
extern const int statement_group_count;

/* ---- trial ---- */

/* The second one with --model, whose checks hold logits of every layer. */
enum { TRIAL_BYTES = 96 << 20, MODEL_TRIAL_BYTES = 1 << 30 };

struct trial {
    uint64_t dice;
    int draw;     /* of the check's draws, from 0 */
    char *memory; /* `size` bytes, handed out from the start, all taken back between two draws */
    size_t size, used;
    double fault;       /* 0, or what the first output of the library that is looked at is off by */
    bool planted;       /* the fault has been planted */
    bool out_of_memory; /* a call of the library had none: nothing was measured */
    const char *model;  /* what --model names, or NULL: a small one of random weights */
    const statement_host *host;
    void (*end)(void *kept); /* called after the draw where it is not NULL */
    void *kept;
};

static inline double uniform(trial *t) {
    t->dice += 0x9e3779b97f4a7c15u;
    uint64_t x = t->dice;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static inline double between(trial *t, double low, double high) {
    return low + (high - low) * uniform(t);
}

static inline int64_t below(trial *t, int64_t count) {
    return (int64_t)(uniform(t) * (double)count);
}

/* In two statements: C leaves open which of two operands draws first. */
static inline double normal(trial *t) {
    const double radius = sqrt(-2.0 * log(1.0 - uniform(t)));
    return radius * cos(6.283185307179586 * uniform(t));
}

/* The status of a call of the library; a check whose call has no memory measures nothing. */
static inline ota_status told(trial *t, ota_status status) {
    t->out_of_memory |= status == OTA_ENOMEM;
    return status;
}

/* Memory of `bytes` zeros. The sizes are constants of the checks; one that did not fit would get memory
 * that others use too and its check would fail. */
static inline void *take(trial *t, size_t bytes) {
    const size_t rounded = ota_size_round_up(bytes, 64);
    if (t->used + rounded > t->size) t->used = 0;
    void *block = t->memory + t->used;
    t->used += rounded;
    memset(block, 0, bytes);
    return block;
}

static inline double *numbers(trial *t, int64_t count) {
    return take(t, (size_t)count * sizeof(double));
}

static inline double *normals(trial *t, int64_t count, double deviation) {
    double *x = numbers(t, count);
    for (int64_t k = 0; k < count; k++) x[k] = deviation * normal(t);
    return x;
}

static inline double *uniforms(trial *t, int64_t count, double low, double high) {
    double *x = numbers(t, count);
    for (int64_t k = 0; k < count; k++) x[k] = between(t, low, high);
    return x;
}

static inline double *copy_of(trial *t, const double *x, int64_t count) {
    double *y = numbers(t, count);
    memcpy(y, x, (size_t)count * sizeof *y);
    return y;
}

/* Positive numbers of sum 1. */
static inline double *distribution(trial *t, int64_t count, double deviation) {
    double *p = normals(t, count, deviation), sum = 0.0;
    for (int64_t k = 0; k < count; k++) sum += p[k] = exp(p[k]);
    for (int64_t k = 0; k < count; k++) p[k] /= sum;
    return p;
}

static inline int64_t *shuffled(trial *t, int64_t count) {
    int64_t *order = take(t, (size_t)count * sizeof *order);
    for (int64_t k = 0; k < count; k++) order[k] = k;
    for (int64_t k = count - 1; k > 0; k--) {
        const int64_t other = below(t, k + 1), moved = order[k];
        order[k] = order[other];
        order[other] = moved;
    }
    return order;
}

/* Scores of all characters: plain, wide, with ties, with one great entry a row, near a permutation,
 * of low rank. */
enum { CHARACTERS = 6 };
static inline double *scores_of(trial *t, int64_t n, int64_t m, int character) {
    double *s = normals(t, n * m, character == 1 ? 4.0 : 1.0);
    double *a = normals(t, n, 1.0), *b = normals(t, m, 1.0);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            double *at = &s[i * m + j];
            if (character == 2) *at = rint(2.0 * *at) / 2.0;
            if (character == 3 && j == i * 7 % m) *at += 6.0;
            if (character == 4) *at = 0.1 * *at + (j == i % m ? 3.0 : 0.0);
            if (character == 5) *at = 2.0 * a[i] * b[j];
        }
    }
    return s;
}

/* The larger one; NaN if either is. */
static inline double worse(double a, double b) { return a >= b || a != a ? a : b; }

/* max |a - b|. */
static inline double farthest(const double *a, const double *b, int64_t count) {
    double most = 0.0;
    for (int64_t k = 0; k < count; k++) most = worse(most, fabs(a[k] - b[k]));
    return most;
}

static inline double different_bits(const double *a, const double *b, int64_t count) {
    int64_t different = 0;
    for (int64_t k = 0; k < count; k++) different += memcmp(&a[k], &b[k], sizeof *a) != 0;
    return (double)different;
}

static inline double sum_of(const double *x, int64_t count) {
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) sum += x[k];
    return sum;
}

/* max - min. */
static inline double spread_of(const double *x, int64_t count) {
    double high = -HUGE_VAL, low = HUGE_VAL;
    for (int64_t k = 0; k < count; k++) {
        high = worse(high, x[k]);
        low = -worse(-low, -x[k]);
    }
    return high - low;
}

static inline double dot(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) sum += a[k] * b[k];
    return sum;
}

static inline double log_sum_exp(const double *s, int64_t count, double tau) {
    double most = -HUGE_VAL;
    long double sum = 0.0L;
    for (int64_t k = 0; k < count; k++) most = fmax(most, s[k]);
    for (int64_t k = 0; k < count; k++) sum += expl(((long double)s[k] - most) / tau);
    return (double)(most / (long double)tau + logl(sum));
}

static inline void softmax_formula(const double *s, int64_t count, double tau, double *p) {
    long double most = -HUGE_VALL, sum = 0.0L;
    for (int64_t k = 0; k < count; k++) most = fmaxl(most, s[k]);
    for (int64_t k = 0; k < count; k++) sum += expl((s[k] - most) / tau);
    for (int64_t k = 0; k < count; k++) p[k] = (double)(expl((s[k] - most) / tau) / sum);
}

static inline double largest_of(const double *x, int64_t count) {
    double most = -HUGE_VAL;
    for (int64_t k = 0; k < count; k++) most = worse(most, x[k]);
    return most;
}

static inline double entropy_of(const double *p, int64_t count) {
    double sum = 0.0;
    for (int64_t k = 0; k < count; k++) sum -= p[k] > 0.0 ? p[k] * log(p[k]) : 0.0;
    return sum;
}

/* Every output of the library passes here before a check looks at it: under --self-test the first one is
 * put off, by turns up and half as much down, so that no common shift hides it. Returns x. */
static inline double *seen(trial *t, double *x, int64_t count) {
    if (t->fault != 0.0 && !t->planted && count > 0) {
        for (int64_t k = 0; k < count; k++) x[k] += k % 2 == 0 ? t->fault : -0.5 * t->fault;
        t->planted = true;
    }
    return x;
}

static inline double seen_number(trial *t, double x) { return *seen(t, &x, 1); }

/* The same where an earlier call has the fault already but this number is what the check is about. */
static inline double seen_too(trial *t, double x) {
    t->planted = false;
    return seen_number(t, x);
}

/* 0 where a call answered as it should, 1 where it did not; a planted fault is the other answer. */
static inline double seen_fact(trial *t, bool as_claimed) {
    t->planted = t->fault != 0.0;
    return as_claimed == t->planted ? 1.0 : 0.0;
}

/* ---- one head ---- */

/* Of a number L, for statement_pull_back: dL/dP and dL/dO or NULL, and what it sets. */
typedef struct head_gradients {
    double *coupling, *out;
    double *scores, *queries, *keys, *values;
} head_gradients;

typedef struct head {
    int64_t n, m, width;
    double *scores;         /* S, or NULL with queries, keys                  */
    double *queries, *keys; /* [n][width], [m][width]                         */
    double *values;         /* V [m][values_width], or NULL                   */
    int64_t values_width;
    double *row_mass, *column_mass; /* or NULL */
    double *start;                  /* g to start from, or NULL                       */
    ota_term terms[4];
    ota_support supports[4];
    ota_problem problem;
    ota_options options;
    /* set by solve() */
    ota_status status;
    ota_result result;
    ota_error error;
    ota_certificate certificate;
    double *p, *f, *g, *lse, *entropy, *support, *out;
    double *rows, *columns; /* sums of P                                      */
    head_gradients gradients;
} head;

head *statement_head(trial *t, int64_t n, int64_t m, double *scores);
head *statement_attention_head(trial *t, int64_t n, int64_t m, int64_t width, double *queries,
                               double *keys);
/* Solves by the method (NULL: as the problem stands) at temperature tau (0: as it stands), tolerance 0:
 * the library's own, and judges; p, f, g, lse, out, rows, columns are there afterwards. Returns p. */
double *statement_solve(trial *t, head *h, const char *method, double tau, double tolerance);
/* The same, once, for scores and nothing else. */
head *statement_plan(trial *t, int64_t n, int64_t m, double *scores, const char *method, double tau,
                     double tolerance);
/* Solves, then differentiates L given gradients.coupling and gradients.out: the others are there afterwards, and P,
 * f, g, out as forward wrote them. */
void statement_pull_back(trial *t, head *h, const char *method, double tau, double tolerance);
ota_term *statement_add_term(head *h, ota_term_kind kind, ota_array array, double value);
ota_support *statement_add_support(head *h, ota_support_kind kind, int64_t left, int64_t right);

/* Alternating scaling by plain loops: P = exp((S + f + g)/tau) with rows a, columns b (NULL: 1, n/m), until
 * the columns are right to 1e-15 or `most` rounds; ends on rows. The check's own, no call of the library. */
void statement_sinkhorn_formula(const double *s, int64_t n, int64_t m, double tau, const double *a,
                                const double *b, int64_t most, double *p);
/* Rounds of scores [n][n] whose column update goes lambda of its way, 0 < lambda < 4, from g [n] until max |c - 1| is at
 * most `tolerance` or there were `most`: each is one of the library's at lambda / 2, its change of g doubled, since none of
 * its solvers takes 2 or more. errors[k] is max |c - 1| at the g before round k + 1; returns how many errors there are. */
int64_t statement_lengthened_rounds(trial *t, double *s, int64_t n, double lambda, double tolerance,
                                    int64_t most, double *g, double *errors);
/* ||softmax(z / T) - softmax(w / T)||_1, m <= 64. */
double statement_softmax_distance(const double *z, const double *w, int64_t m, double temperature);
/* c = a b, a [rows][inner], b [inner][columns] of row stride `stride`. */
void statement_multiply(const double *a, const double *b, int64_t rows, int64_t inner,
                        int64_t columns, int64_t stride, double *c);
/* Largest 2-norm of a row of a - b [rows][width]. */
double statement_row_change(const double *a, const double *b, int64_t rows, int64_t width);
/* ||A||_2 of a [rows][columns] and a unit vector x [columns] with ||A x|| equal to it, by squaring of A^T A;
 * columns <= 20. */
double statement_leading(const double *a, int64_t rows, int64_t columns, double *x);
/* couplings/examples.c: the scores of example C.4 [3][4], the layers of C.3 [2][3], [3][3]; least processor time of
 * several forward calls on 8 rows of `size` keys, or on size x size in so many balanced rounds. */
extern const double statement_example_scores[12], statement_example_first_layer[6],
    statement_example_second_layer[9];
double statement_forward_seconds(trial *t, int64_t size, int64_t rounds);
/* The least sum of cost[i][order[i]] over all permutations, by trying them; n <= 8. */
double statement_best_permutation(const double *cost, int64_t n, int64_t *order);

/* Order of doubles for qsort. */
static inline int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

#endif
