/* shards_scene.h: problems whose rows lie on many ranks, drawn whole and cut into shares: what each case adds to its method, the
 * arrays of one process and of every rank. Include after cmocka.h. */
#ifndef TESTS_SHARDS_SCENE_H
#define TESTS_SHARDS_SCENE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "otattn.h"
#include "shares.h"

enum { BATCH = 2, HEADS = 4, KEY_HEADS = 2, N = 37, WIDTH = 6, VALUES = 5, ALL = BATCH * HEADS };

/* What a case adds to its method. */
typedef struct cell {
    const char *method;
    bool causal, window, dense, alibi, relative, softcap, sink, masses, narrow, matrix, dropout;
    bool slim; /* the first number of each query, key and value alone */
    int pairs; /* 1: gradients by way of the coupling, too */
} cell;

static const cell cells[] = {
    {.method = "softmax"},
    {.method = "softmax", .causal = true, .narrow = true},
    {.method = "softmax", .window = true, .alibi = true, .softcap = true, .dropout = true},
    {.method = "softmax", .dense = true, .relative = true, .sink = true},
    {.method = "softmax", .matrix = true},
    {.method = "entmax:1.5", .causal = true, .alibi = true},
    {.method = "sparsemax"},
    {.method = "argmax", .causal = true},
    {.method = "softmax/exact"},
    {.method = "softmax/exact", .narrow = true},
    {.method = "softmax/exact", .masses = true, .dense = true},
    {.method = "softmax/exact", .matrix = true},
    {.method = "softmax/exact{rounds=6}", .relative = true},
    {.method = "softmax/relaxed:0.7", .causal = true},
    {.method = "softmax/relaxed:0.7", .window = true, .narrow = true},
    {.method = "softmax/capped:2.5", .causal = true, .alibi = true},
    {.method = "softmax/bounded:0.4,1.8"},
    {.method = "softmax/elastic:0.5,4", .causal = true},
    {.method = "softmax/elastic:1,8", .narrow = true, .sink = true},
    {.method = "entmax:1.5/capped:2.5", .causal = true, .alibi = true},
    {.method = "entmax:1.5/exact"},
    {.method = "softmax/capped:2.5{rounds=6}", .relative = true, .sink = true, .dropout = true},
    {.method = "softmax/elastic:0.5,4{rounds=4}", .causal = true, .pairs = 1},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

/* What backward is given and gives. */
typedef struct grads {
    double out[ALL * N * VALUES]; /* given */
    double q[ALL * N * WIDTH], k[ALL * N * WIDTH], v[ALL * N * VALUES], s[ALL * N * N];
    double temperature[HEADS], order, strength, dense[N * N], relative[HEADS * (2 * N - 1)],
        numbers[2];
    ota_array terms[4];
    ota_status status;
} grads;

/* The rows of one rank, or of one process that has all, and what came of them. */
typedef struct part {
    int64_t n, rows[N];
    double q[ALL * N * WIDTH], k[ALL * N * WIDTH], v[ALL * N * VALUES], s[ALL * N * N];
    double dense[N * N], mu[N];
    double out[ALL * N * VALUES], p[ALL * N * N], f[ALL * N], lse[ALL * N], g[ALL * N];
    double receiver[ALL * N];
    float narrow_q[ALL * N * WIDTH], narrow_k[ALL * N * WIDTH], narrow_v[ALL * N * VALUES];
    ota_status status;
    ota_result result;
    ota_error error;
    ota_certificate certificate;
    ota_status judged;
    grads grads;
    ota_result backward;
    bool described; /* with the bytes of keys and values that a run gathers */
} part;

typedef struct scene {
    const cell *cell;
    double relative[HEADS * (2 * N - 1)], nu[N];
    part all, parts[CREW_MOST];
    int64_t shares[CREW_MOST];
    int64_t first[CREW_MOST][2]; /* pieces of queries and keys, where not halves */
    bool pieces;
    int threads;
} scene;

/* A problem of `n` queries at these arrays; terms and supports lie in what the caller lends. */
typedef struct setting {
    ota_problem problem;
    ota_arrays arrays;
    ota_term terms[4];
    ota_support supports[2];
} setting;

static inline ota_array array4(const cell *c, void *wide, void *narrow, int64_t heads, int64_t rows,
                               int64_t columns) {
    return ota_array_of(c->narrow ? narrow : wide, c->narrow ? OTA_F32 : OTA_F64, BATCH, heads,
                        rows, columns);
}

static inline void describe(setting *to, const cell *c, ota_options *options, double *dense,
                            double *relative, int64_t n) {
    ota_error error;
    to->problem.size = sizeof to->problem;
    if (ota_method_parse(c->method, &to->problem, options, &error) < 0)
        fail_msg("%s", error.message);
    to->problem.temperature = 0.8;
    int64_t terms = 0, supports = 0;
    if (c->dense)
        to->terms[terms++] =
            (ota_term){.kind = OTA_TERM_DENSE, .array = ota_array_of(dense, OTA_F64, 1, 1, n, N)};
    if (c->alibi) to->terms[terms++] = (ota_term){.kind = OTA_TERM_ALIBI, .value = 0.05};
    if (c->relative)
        to->terms[terms++] =
            (ota_term){.kind = OTA_TERM_RELATIVE,
                       .array = ota_array_of(relative, OTA_F64, 1, HEADS, 1, 2 * N - 1)};
    if (c->softcap) to->terms[terms++] = (ota_term){.kind = OTA_TERM_SOFTCAP, .value = 3.0};
    if (c->sink) to->terms[terms++] = (ota_term){.kind = OTA_TERM_SINK, .value = -1.0};
    if (c->causal) to->supports[supports++] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    if (c->window)
        to->supports[supports++] =
            (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = 11, .right = 4};
    to->problem.terms = to->terms;
    to->problem.term_count = terms;
    to->problem.supports = to->supports;
    to->problem.support_count = supports;
    if (c->dropout) {
        to->problem.dropout = 0.3;
        to->problem.dropout_seed = 5;
    }
}

static inline void draw(scene *s, const cell *c, uint64_t seed) {
    part *w = &s->all;
    memset(s, 0, sizeof *s);
    s->cell = c;
    w->n = N;
    s->threads = 1;
    dice_state = seed;
    shares_fill(&(shares_numbers){w->q, w->k, w->narrow_q, w->narrow_k}, ALL * N * WIDTH);
    fill_both(w->v, w->narrow_v, ALL * N * VALUES, &dice_state, NORMAL, 1.0);
    fill_numbers(w->grads.out, ALL * N * VALUES, &dice_state, NORMAL, 1.0);
    fill_numbers(w->s, ALL * N * N, &dice_state, NORMAL, 1.0);
    fill_numbers(w->dense, N * N, &dice_state, NORMAL, 1.0);
    fill_numbers(s->relative, HEADS * (2 * N - 1), &dice_state, NORMAL, 1.0);
    shares_masses(w->mu, s->nu, N);
    shares_match(w->mu, s->nu, N);
}

static inline void cut(scene *s, int ranks, ota_shares order) {
    const part *w = &s->all;
    for (int k = 0; k < ranks; k++) {
        part *p = &s->parts[k];
        int64_t firsts[CREW_MOST];
        for (int r = 0; r < ranks; r++) firsts[r] = s->first[r][0];
        p->n = s->pieces ? crew_rows_of_pieces(s->shares, firsts, ranks, k, p->rows)
                         : crew_rows(s->shares, ranks, k, order, p->rows);
        const shares_rows mine = {p->rows, p->n, N};
        shares_copy(&mine, ALL, WIDTH * sizeof(double), w->q, p->q);
        shares_copy(&mine, BATCH * KEY_HEADS, WIDTH * sizeof(double), w->k, p->k);
        shares_copy(&mine, BATCH * KEY_HEADS, VALUES * sizeof(double), w->v, p->v);
        shares_copy(&mine, ALL, WIDTH * sizeof(float), w->narrow_q, p->narrow_q);
        shares_copy(&mine, BATCH * KEY_HEADS, WIDTH * sizeof(float), w->narrow_k, p->narrow_k);
        shares_copy(&mine, BATCH * KEY_HEADS, VALUES * sizeof(float), w->narrow_v, p->narrow_v);
        shares_copy(&mine, ALL, VALUES * sizeof(double), w->grads.out, p->grads.out);
        shares_copy(&mine, ALL, N * sizeof(double), w->s, p->s);
        shares_copy(&mine, 1, N * sizeof(double), w->dense, p->dense);
        shares_copy(&mine, 1, 1 * sizeof(double), w->mu, p->mu);
    }
}

/* Uneven: some ranks may hold nothing. */
static inline void share_out(scene *s, int ranks, bool uneven) {
    shares_draw(s->shares, ranks, N, uneven);
}

static inline void set_part(setting *now, const scene *s, part *p, ota_options *options) {
    const cell *c = s->cell;
    describe(now, c, options, p->dense, (double *)s->relative, p->n);
    if (c->matrix) {
        now->problem.scores = ota_array_of(p->s, OTA_F64, BATCH, HEADS, p->n, N);
    } else {
        now->problem.queries = array4(c, p->q, p->narrow_q, HEADS, p->n, WIDTH);
        now->problem.keys = array4(c, p->k, p->narrow_k, KEY_HEADS, p->n, WIDTH);
    }
    if (c->masses) {
        now->problem.row_mass = ota_array_of(p->mu, OTA_F64, 1, 1, 1, p->n);
        now->problem.column_mass = ota_array_of((double *)s->nu, OTA_F64, 1, 1, 1, N);
    }
    now->arrays.size = sizeof now->arrays;
    now->arrays.values = c->matrix
                             ? ota_array_of((double *)s->all.v, OTA_F64, BATCH, HEADS, N, VALUES)
                             : array4(c, p->v, p->narrow_v, KEY_HEADS, p->n, VALUES);
    now->arrays.out = ota_array_of(p->out, OTA_F64, BATCH, HEADS, p->n, VALUES);
    now->arrays.coupling = ota_array_of(p->p, OTA_F64, BATCH, HEADS, p->n, N);
    now->arrays.row_potential = ota_array_of(p->f, OTA_F64, BATCH, HEADS, 1, p->n);
    now->arrays.lse = ota_array_of(p->lse, OTA_F64, BATCH, HEADS, 1, p->n);
    now->arrays.column_potential = ota_array_of(p->g, OTA_F64, BATCH, HEADS, 1, N);
    now->arrays.receiver = ota_array_of(p->receiver, OTA_F64, BATCH, HEADS, 1, N);
    if (c->slim) {
        now->problem.queries.size[3] = now->problem.keys.size[3] = 1;
        now->arrays.values.size[3] = now->arrays.out.size[3] = 1;
    }
}

#endif
