/* ring_scene.h: a problem of N queries and keys with everything that a case adds to it, solved by one process and by ranks
 * that hold a share each; the rows of one beside those of the others. The includer says how large N is. Include after
 * cmocka.h. */
#ifndef TESTS_RING_SCENE_H
#define TESTS_RING_SCENE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "otattn.h"
#include "scale.h"
#include "shares.h"

enum { BATCH = 2, HEADS = 4, KEY_HEADS = 2, WIDTH = 6, VALUES = 5, ALL = BATCH * HEADS };
enum { DIFFERENCES = 2 * N - 1 };

/* What a case adds to its method. */
typedef struct cell {
    const char *method;
    bool causal, window, strided, block, lengths, boolean, additive; /* supports */
    bool dense, alibi, relative, softcap, sink;                      /* terms */
    bool inside, keyed,
        whole; /* and a relative bias inside, biases a key, and a pair of every head */
    bool masses, temperatures, narrow, dropout, start;
    int empty;          /* masses, one in so many of them 0; 0: none */
    bool even;          /* keys share the mass of the rows */
    bool transposed;    /* keys lie number by number, not row by row */
    bool wide;          /* in f64 whatever the type */
    double rows;        /* relaxed by this; 0: exact */
    double temperature; /* 0: 0.8 */
    double grid;        /* of queries and keys: scores have no rounding, many are equal; 0: none */
    double cap;         /* of every pair; 0: none */
    bool caps;          /* or pair by pair */
} cell;

/* Numbers of N rows, or of the rows of a rank. */
typedef struct rows {
    double q[ALL * N * WIDTH], k[ALL * N * WIDTH], v[ALL * N * VALUES], dense[HEADS * N * N];
    double out_grad[ALL * N * VALUES], mu[N];
    float narrow_q[ALL * N * WIDTH], narrow_k[ALL * N * WIDTH], narrow_v[ALL * N * VALUES];
    unsigned char boolean[N * N];
    double caps[N * N];
    double out[ALL * N * VALUES], lse[ALL * N], f[ALL * N], g[ALL * N], receiver[ALL * N];
    double sink[ALL * N], entropy[ALL * N], support[ALL * N], largest[ALL * N];
    double moved[ALL * N * VALUES], dmu[HEADS * N], dnu[N], numbers[4];
    double dq[ALL * N * WIDTH], dk[ALL * N * WIDTH], dv[ALL * N * VALUES];
    double transposed[ALL * N * WIDTH]; /* the keys number by number, where a cell has them so */
    double *whole;                      /* [ALL][n][N], where a cell has one */
    int64_t n, number[N];
    ota_status status, reversed;
    ota_result result, backward;
    ota_error error;
    char described[2048];
    size_t bytes;
} rows;

typedef struct scene {
    const cell *cell;
    rows all, part[CREW_MOST];
    double relative[HEADS * DIFFERENCES], nu[N], start[ALL * N], temperatures[HEADS];
    int64_t lengths[BATCH], blocks[4], shares[CREW_MOST];
    int64_t first[CREW_MOST][2]; /* pieces of queries and keys, where not halves */
    bool pieces;
    int threads;
    ota_key_transport transport;
    size_t limit;
    bool gradients, statistics;
    bool spoilt; /* derivatives are asked for at potentials that are not forward's */
} scene;

typedef struct setting {
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_term terms[8];
    ota_support supports[8];
} setting;

static inline ota_array array4(const cell *c, double *wide, float *narrow, int64_t heads, int64_t n,
                               int64_t width) {
    return ota_array_of(c->narrow ? (void *)narrow : (void *)wide, c->narrow ? OTA_F32 : OTA_F64,
                        BATCH, heads, n, width);
}

static inline void describe_terms(setting *to, scene *s, rows *r) {
    const cell *c = s->cell;
    int64_t count = 0;
    if (c->dense)
        to->terms[count++] = (ota_term){
            .kind = OTA_TERM_DENSE, .array = ota_array_of(r->dense, OTA_F64, 1, HEADS, r->n, N)};
    if (c->alibi) to->terms[count++] = (ota_term){.kind = OTA_TERM_ALIBI, .value = 0.05};
    if (c->relative)
        to->terms[count++] =
            (ota_term){.kind = OTA_TERM_RELATIVE,
                       .array = ota_array_of(s->relative, OTA_F64, 1, HEADS, 1, DIFFERENCES)};
    if (c->inside)
        to->terms[count++] =
            (ota_term){.kind = OTA_TERM_RELATIVE_INSIDE,
                       .array = ota_array_of(s->relative, OTA_F64, 1, 1, 1, DIFFERENCES)};
    if (c->keyed)
        to->terms[count++] = (ota_term){.kind = OTA_TERM_DENSE,
                                        .array = ota_array_of(s->start, OTA_F64, 1, HEADS, 1, N)};
    if (c->whole)
        to->terms[count++] =
            (ota_term){.kind = OTA_TERM_DENSE,
                       .array = ota_array_of(r->whole, OTA_F64, BATCH, HEADS, r->n, N)};
    if (c->softcap) to->terms[count++] = (ota_term){.kind = OTA_TERM_SOFTCAP, .value = 3.0};
    if (c->sink) to->terms[count++] = (ota_term){.kind = OTA_TERM_SINK, .value = -1.0};
    to->problem.terms = to->terms;
    to->problem.term_count = count;
}

static inline void describe_supports(setting *to, scene *s, rows *r) {
    const cell *c = s->cell;
    int64_t count = 0;
    ota_support *at = to->supports;
    if (c->causal) at[count++] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    if (c->window) at[count++] = (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = 17, .right = 6};
    if (c->strided) at[count++] = (ota_support){.kind = OTA_SUPPORT_STRIDED, .left = 2};
    if (c->block)
        at[count++] = (ota_support){.kind = OTA_SUPPORT_BLOCK,
                                    .array = ota_array_of(s->blocks, OTA_I64, 1, 1, 1, 4)};
    if (c->lengths)
        at[count++] = (ota_support){.kind = OTA_SUPPORT_LENGTHS,
                                    .array = ota_array_of(s->lengths, OTA_I64, 1, 1, 1, BATCH)};
    if (c->boolean)
        at[count++] = (ota_support){.kind = OTA_SUPPORT_BOOLEAN,
                                    .array = ota_array_of(r->boolean, OTA_BOOL, 1, 1, r->n, N)};
    if (c->additive)
        at[count++] = (ota_support){.kind = OTA_SUPPORT_ADDITIVE,
                                    .array = ota_array_of(s->start, OTA_F64, BATCH, HEADS, 1, N)};
    to->problem.supports = at;
    to->problem.support_count = count;
}

static inline void turn_keys(setting *to, rows *r) {
    for (int64_t k = 0; k < BATCH * KEY_HEADS * r->n * WIDTH; k++) {
        const int64_t row = k / WIDTH, block = row / r->n;
        r->transposed[(block * WIDTH + k % WIDTH) * r->n + row % r->n] = r->k[k];
    }
    to->problem.keys = ota_array_of(r->transposed, OTA_F64, BATCH, KEY_HEADS, r->n, WIDTH);
    to->problem.keys.stride[2] = 1;
    to->problem.keys.stride[3] = r->n;
}

static inline void set(setting *to, scene *s, rows *r, const ota_communicator *with) {
    const cell *c = s->cell;
    ota_error error;
    *to = (setting){.problem = {.size = sizeof to->problem},
                    .options = {.size = sizeof to->options,
                                .threads = s->threads,
                                .communicator = with,
                                .workspace_limit = s->limit},
                    .arrays = {.size = sizeof to->arrays}};
    if (ota_method_parse(c->method, &to->problem, &to->options, &error) < 0)
        fail_msg("%s", error.message);
    to->problem.queries = array4(c, r->q, r->narrow_q, HEADS, r->n, WIDTH);
    to->problem.keys = array4(c, r->k, r->narrow_k, KEY_HEADS, r->n, WIDTH);
    if (c->transposed) turn_keys(to, r);
    if (c->wide) to->options.precision = OTA_PRECISION_F64;
    if (c->rows > 0.0) to->problem.rows = OTA_ROWS_RELAXED;
    to->problem.row_strength = c->rows;
    to->problem.temperature = c->temperature > 0.0 ? c->temperature : 0.8;
    if (c->temperatures)
        to->problem.temperatures = ota_array_of(s->temperatures, OTA_F64, 1, 1, 1, HEADS);
    describe_terms(to, s, r);
    describe_supports(to, s, r);
    if (c->masses || c->empty > 0) {
        to->problem.row_mass = ota_array_of(r->mu, OTA_F64, 1, 1, 1, r->n);
        if (to->problem.columns != OTA_COLUMNS_FREE && !c->even)
            to->problem.column_mass = ota_array_of(s->nu, OTA_F64, 1, 1, 1, N);
    }
    to->problem.entry_cap = c->cap;
    if (c->caps) to->problem.entry_caps = ota_array_of(r->caps, OTA_F64, 1, 1, r->n, N);
    if (c->dropout) {
        to->problem.dropout = 0.3;
        to->problem.dropout_seed = 5;
    }
    to->arrays.values = array4(c, r->v, r->narrow_v, KEY_HEADS, r->n, VALUES);
    to->arrays.out = ota_array_of(r->out, OTA_F64, BATCH, HEADS, r->n, VALUES);
    to->arrays.lse = ota_array_of(r->lse, OTA_F64, BATCH, HEADS, 1, r->n);
    to->arrays.row_potential = ota_array_of(r->f, OTA_F64, BATCH, HEADS, 1, r->n);
    to->arrays.column_potential = ota_array_of(r->g, OTA_F64, BATCH, HEADS, 1, N);
    to->arrays.sink = ota_array_of(r->sink, OTA_F64, BATCH, HEADS, 1, r->n);
    if (to->problem.columns != OTA_COLUMNS_FREE || s->statistics)
        to->arrays.receiver = ota_array_of(r->receiver, OTA_F64, BATCH, HEADS, 1, N);
    if (s->statistics) {
        to->arrays.row_entropy = ota_array_of(r->entropy, OTA_F64, BATCH, HEADS, 1, r->n);
        to->arrays.row_support = ota_array_of(r->support, OTA_F64, BATCH, HEADS, 1, r->n);
        to->arrays.row_max = ota_array_of(r->largest, OTA_F64, BATCH, HEADS, 1, r->n);
    }
    if (c->start) to->arrays.start_potential = ota_array_of(s->start, OTA_F64, BATCH, HEADS, 1, N);
}

static inline void shift_potentials(const scene *s, rows *r) {
    for (int64_t h = 0; h < ALL && s->spoilt; h++) r->g[h * N + 1] += 0.5;
}

static inline void solve(scene *s, rows *r, const ota_communicator *with) {
    setting now;
    ota_plan *plan = NULL;
    set(&now, s, r, with);
    now.options.gradients = s->gradients;
    r->result = (ota_result){.size = sizeof r->result};
    r->backward = (ota_result){.size = sizeof r->backward};
    r->reversed = OTA_OK;
    r->status = ota_plan_create(&plan, &now.problem, VALUES, &now.options, &r->error);
    if (r->status < OTA_OK) return;
    r->bytes = ota_plan_bytes(plan);
    (void)ota_plan_describe(plan, r->described, sizeof r->described);
    r->status = ota_forward(plan, &now.arrays, &r->result, &r->error);
    shift_potentials(s, r);
    if (r->status >= OTA_OK && now.options.gradients) {
        ota_gradients want = {.size = sizeof want, .solved = s->threads > 1};
        want.out_grad = ota_array_of(r->out_grad, OTA_F64, BATCH, HEADS, r->n, VALUES);
        want.queries = ota_array_of(r->dq, OTA_F64, BATCH, HEADS, r->n, WIDTH);
        want.keys = ota_array_of(r->dk, OTA_F64, BATCH, KEY_HEADS, r->n, WIDTH);
        want.values = ota_array_of(r->dv, OTA_F64, BATCH, KEY_HEADS, r->n, VALUES);
        r->reversed = ota_backward(plan, &now.arrays, &want, &r->backward, &r->error);
    }
    ota_plan_free(plan);
}

static inline void solve_part(crew_rank *rank, void *context) {
    scene *s = context;
    rank->to.keys = s->transport;
    if (s->pieces) rank->to.first_pieces = s->first[rank->to.rank];
    solve(s, &s->part[rank->to.rank], &rank->to);
}

/* ---- drawing -------------------------------------------------------------------------------------- */

static inline void draw(scene *s, const cell *c, uint64_t seed) {
    rows *w = &s->all;
    memset(s, 0, sizeof *s);
    s->cell = c;
    s->threads = 1;
    s->transport = OTA_KEYS_IN_RING;
    dice_state = seed;
    w->n = N;
    shares_fill(&(shares_numbers){w->q, w->k, w->narrow_q, w->narrow_k}, ALL * N * WIDTH);
    for (int64_t k = 0; k < ALL * N * WIDTH && c->grid > 0.0; k++) {
        w->q[k] = w->narrow_q[k] = (float)(c->grid * rint(w->q[k] / c->grid));
        w->k[k] = w->narrow_k[k] = (float)(c->grid * rint(w->k[k] / c->grid));
    }
    for (int64_t k = 0; k < ALL * N * VALUES; k++) {
        fill_both(&w->v[k], &w->narrow_v[k], 1, &dice_state, NORMAL, 1.0);
        w->out_grad[k] = draw_number(&dice_state, OTA_F64, NORMAL, 1.0);
    }
    fill_numbers(w->dense, HEADS * N * N, &dice_state, NORMAL, 1.0);
    const ota_array pairs = ota_array_of(w->boolean, OTA_BOOL, 1, 1, N, N);
    fill_elements(&pairs, &dice_state, COIN, 0.8);
    fill_numbers(w->caps, c->caps ? N * N : 0, &dice_state, SHARE, 0.2);
    for (int64_t k = 0; k < N * N && c->caps; k++) w->caps[k] += 0.02;
    fill_numbers(s->relative, HEADS * DIFFERENCES, &dice_state, NORMAL, 1.0);
    fill_numbers(s->start, ALL * N, &dice_state, NORMAL, 0.3);
    fill_numbers(s->temperatures, HEADS, &dice_state, MASS, 1.0);
    for (int64_t k = 0; k < HEADS; k++) s->temperatures[k] -= 0.3;
    for (int64_t b = 0; b < BATCH; b++) s->lengths[b] = N - 9 * b;
    memcpy(s->blocks, (const int64_t[]){20, 0, 13, N - 21}, sizeof s->blocks);
    shares_masses(w->mu, s->nu, N);
    for (int64_t k = 0; k < N; k++) {
        if (c->empty > 0 && k % c->empty == 2) w->mu[k] = 0.0;
        if ((c->lengths && k >= N - 9) || (c->empty > 0 && k % (c->empty + 2) == 4)) s->nu[k] = 0.0;
    }
    shares_match(w->mu, s->nu, N);
}

static inline void cut(scene *s, int ranks, ota_shares order, bool uneven) {
    const rows *w = &s->all;
    shares_draw(s->shares, ranks, N, uneven);
    for (int k = 0; k < ranks; k++) {
        rows *p = &s->part[k];
        p->result.size = sizeof p->result;
        int64_t firsts[CREW_MOST];
        for (int r = 0; r < ranks; r++) firsts[r] = s->first[r][0];
        p->n = s->pieces ? crew_rows_of_pieces(s->shares, firsts, ranks, k, p->number)
                         : crew_rows(s->shares, ranks, k, order, p->number);
        const shares_rows mine = {p->number, p->n, N};
        shares_copy(&mine, ALL, WIDTH * sizeof(double), w->q, p->q);
        shares_copy(&mine, BATCH * KEY_HEADS, WIDTH * sizeof(double), w->k, p->k);
        shares_copy(&mine, BATCH * KEY_HEADS, VALUES * sizeof(double), w->v, p->v);
        shares_copy(&mine, ALL, WIDTH * sizeof(float), w->narrow_q, p->narrow_q);
        shares_copy(&mine, BATCH * KEY_HEADS, WIDTH * sizeof(float), w->narrow_k, p->narrow_k);
        shares_copy(&mine, BATCH * KEY_HEADS, VALUES * sizeof(float), w->narrow_v, p->narrow_v);
        shares_copy(&mine, ALL, VALUES * sizeof(double), w->out_grad, p->out_grad);
        shares_copy(&mine, HEADS, N * sizeof(double), w->dense, p->dense);
        shares_copy(&mine, 1, N, w->boolean, p->boolean);
        shares_copy(&mine, 1, N * sizeof(double), w->caps, p->caps);
        shares_copy(&mine, 1, sizeof(double), w->mu, p->mu);
    }
}

/* ---- against one process -------------------------------------------------------------------------- */

static inline void expect_rows(const char *what, const scene *s, const rows *p, int64_t blocks,
                               const double *found, const double *wanted, int64_t width,
                               double tolerance) {
    for (int64_t b = 0; b < blocks; b++) {
        for (int64_t i = 0; i < p->n; i++) {
            for (int64_t j = 0; j < width; j++) {
                const double a = found[(b * p->n + i) * width + j],
                             c = wanted[(b * N + p->number[i]) * width + j];
                if (isinf(c) && !(a < c) && !(a > c)) continue;
                if (isnan(a) && isnan(c)) continue;
                if (!(fabs(a - c) <= tolerance * fmax(1.0, fabs(c))))
                    fail_msg("%s of %s, row %d: %.17g where one process has %.17g", what,
                             s->cell->method, (int)p->number[i], a, c);
            }
        }
    }
}

/* What backward found for a rank's queries, keys and values. */
static inline void expect_gradients(const scene *s, const rows *p, double allowed) {
    const rows *w = &s->all;
    if (p->reversed != OTA_OK) fail_msg("%s: %s", s->cell->method, p->error.message);
    const double residuals[] = {w->backward.backward_residual, p->backward.backward_residual};
    if ((residuals[0] > 0x1p-54 && !(residuals[1] > 0.0)) || residuals[1] > 1e-6)
        fail_msg("%s: equations of backward missed by %g where one process misses them by %g",
                 s->cell->method, residuals[1], residuals[0]);
    expect_rows("dq", s, p, ALL, p->dq, w->dq, WIDTH, allowed);
    expect_rows("dk", s, p, BATCH * KEY_HEADS, p->dk, w->dk, WIDTH, allowed);
    expect_rows("dv", s, p, BATCH * KEY_HEADS, p->dv, w->dv, VALUES, allowed);
}

/* ---- along a direction ---------------------------------------------------------------------------- */

/* The tangent along which queries, keys, values and, of gathered keys, masses grow. */
static inline void move(scene *s, rows *r, const ota_communicator *with) {
    setting now;
    ota_plan *plan = NULL;
    set(&now, s, r, with);
    now.options.gradients = 1;
    ota_tangents tangents = {.size = sizeof tangents};
    tangents.queries = ota_array_of(r->q, OTA_F64, BATCH, HEADS, r->n, WIDTH);
    tangents.keys = ota_array_of(r->k, OTA_F64, BATCH, KEY_HEADS, r->n, WIDTH);
    tangents.values = ota_array_of(r->v, OTA_F64, BATCH, KEY_HEADS, r->n, VALUES);
    if (s->transport == OTA_KEYS_GATHERED) {
        tangents.row_mass = now.problem.row_mass;
        tangents.column_mass = now.problem.column_mass;
        tangents.temperature = ota_array_of(s->temperatures, OTA_F64, 1, 1, 1, HEADS);
        const ota_array number = ota_array_of(s->temperatures, OTA_F64, 1, 1, 1, 1);
        const ota_column_rule rule = now.problem.columns;
        if (rule == OTA_COLUMNS_RELAXED || rule == OTA_COLUMNS_ELASTIC) tangents.strength = number;
        if (rule == OTA_COLUMNS_CAPPED) tangents.cap = number;
        if (rule == OTA_COLUMNS_BOUNDED) tangents.lower = number;
    }
    tangents.out = ota_array_of(r->moved, OTA_F64, BATCH, HEADS, r->n, VALUES);
    r->status = ota_plan_create(&plan, &now.problem, VALUES, &now.options, &r->error);
    if (r->status >= OTA_OK) r->status = ota_forward(plan, &now.arrays, NULL, &r->error);
    shift_potentials(s, r);
    if (r->status >= OTA_OK)
        r->status = ota_jvp(plan, &now.arrays, &tangents, &r->result, &r->error);
    ota_plan_free(plan);
}

static inline void move_part(crew_rank *rank, void *context) {
    scene *s = context;
    rank->to.keys = s->transport;
    move(s, &s->part[rank->to.rank], &rank->to);
}

static ota_certificate judged[CREW_MOST];

static inline void judge_part(crew_rank *rank, void *context) {
    scene *s = context;
    rows *r = &s->part[rank->to.rank];
    setting now;
    rank->to.keys = OTA_KEYS_IN_RING;
    solve(s, r, &rank->to);
    set(&now, s, r, &rank->to);
    judged[rank->to.rank] = (ota_certificate){.size = sizeof(ota_certificate)};
    if (r->status >= OTA_OK)
        r->reversed = ota_certify(&now.problem, &now.options, &now.arrays, &judged[rank->to.rank],
                                  NULL, &r->error);
}

/* Did the rank end as one process did, with its rows of out and of the sink? */
static inline void expect_outputs(const scene *s, int rank, double tolerance) {
    const rows *p = &s->part[rank], *w = &s->all;
    if (p->status != w->status)
        fail_msg("%s: rank %d has status %d and '%s' where one process has %d", s->cell->method,
                 rank, (int)p->status, p->error.message, (int)w->status);
    expect_rows("out", s, p, ALL, p->out, w->out, VALUES, tolerance);
    expect_rows("sink", s, p, ALL, p->sink, w->sink, 1, tolerance);
    assert_int_equal(p->result.empty_rows, w->result.empty_rows);
}

/* Cells drawn from `seed` on, each by one process and by ranks in three ways: as many of them, their shares and threads.
 * `want` says what else a case asks for. */
static inline void in_three_ways(const cell *cells, int count, uint64_t seed, void (*want)(scene *),
                                 void (*compare)(const scene *, int)) {
    static const int counts[] = {2, 8, 1, 3, 4};
    scene *s = malloc(sizeof *s);
    const long stride = test_stride();
    long combination = 0;
    for (int k = 0; k < count; k++) {
        draw(s, &cells[k], seed + (uint64_t)k);
        want(s);
        solve(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        for (int way = 0; way < 3; way++) {
            if (combination++ % stride != 0) continue;
            const int ranks = counts[(way + k) % 5];
            const ota_shares order = (way + k) % 2 == 0 ? OTA_SHARES_IN_ORDER : OTA_SHARES_ZIGZAG;
            cut(s, ranks, order, way % 2 == 1);
            s->threads = 1 + way % 2;
            crew_once(ranks, order, solve_part, s);
            compare(s, ranks);
        }
    }
    free(s);
}

/* Makes one message of a call fail after another, each `growth`-th part further on, until none does: all ranks end alike. Did
 * some sentence name a round? */
static inline bool fail_in_turn(scene *s, int ranks, int64_t growth) {
    bool named = false;
    bool finished = false;
    for (int64_t at = 1; !finished; at += 1 + at / growth) {
        crew *c = crew_of(ranks, OTA_SHARES_IN_ORDER);
        const int fails = (int)(at % ranks);
        c->rank[fails].fail_at = at;
        crew_run(c, solve_part, s);
        finished = !c->dead;
        for (int r = 0; r < ranks && c->dead; r++) {
            const rows *p = &s->part[r];
            const ota_status last = p->status < OTA_OK ? p->status : p->reversed;
            if (r == fails) assert_int_equal(last, OTA_ECOMM);
            assert_true(last == OTA_ECOMM || last >= OTA_OK);
            named |= strstr(p->error.message, ", round ") != NULL;
            if (p->status == OTA_ECOMM && p->result.status == OTA_ECOMM && p->n > 0)
                assert_true(isnan(p->out[0]));
            if (p->reversed == OTA_ECOMM && p->backward.status == OTA_ECOMM && p->n > 0)
                assert_true(isnan(p->dq[0]) && isnan(p->dk[0]));
        }
        crew_free(c);
    }
    return named;
}

#endif
