/* test_shards_methods.c: coupled columns on many ranks against one process where plain rounds to a tolerance do not find
 * them (test_shards.c): entmax, relaxed rows, and softmax where Newton is asked for by name; many fixed rounds; packed
 * sequences. Plans,
 * certificates, gradients and tangents; the same bits for any number of threads; messages that fail; heads without a plan,
 * which all ranks refuse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crew.h"
#include "groups.h"
#include "otattn.h"
#include "shares.h"

enum { HEADS = 2, N = 29, WIDTH = 5, VALUES = 3 };

/* What a case adds to its method. */
typedef struct cell {
    const char *method, *solver;
    double rows; /* RHO of relaxed rows, or 0 */
    bool causal, dense, masses, sink, sharp, narrow, repeated, fixed, blocks;
    bool idle;  /* the last row has no mass, and behind a causal mask its key no row that has */
    double cap; /* of every pair, or 0 */
    bool caps;  /* one of every pair */
} cell;

static const cell cells[] = {
    {.method = "entmax:1.5/exact"},
    {.method = "entmax:1.5/exact", .masses = true, .dense = true},
    {.method = "sparsemax/exact", .sharp = true},
    {.method = "entmax:1.3/exact", .sharp = true, .repeated = true},
    {.method = "entmax:1.5/relaxed:0.7", .causal = true},
    {.method = "entmax:1.5/capped:1.6", .causal = true, .dense = true},
    {.method = "sparsemax/bounded:0.4,1.8", .sharp = true},
    {.method = "entmax:1.5/relaxed:0.7", .sink = true},
    {.method = "entmax:1.5/exact", .narrow = true},
    {.method = "entmax:0.7/exact", .masses = true},
    {.method = "softmax/relaxed:0.7", .rows = 0.9},
    {.method = "softmax/relaxed:0.7", .rows = 0.9, .causal = true, .masses = true},
    {.method = "softmax/exact", .solver = "newton"},
    {.method = "softmax/capped:1.3", .solver = "newton", .causal = true},
    {.method = "softmax", .blocks = true},
    {.method = "softmax/exact", .blocks = true},
    {.method = "entmax:1.5/exact", .blocks = true},
    {.method = "softmax/exact", .cap = 0.1},
    {.method = "softmax/exact", .caps = true, .masses = true},
    {.method = "softmax/capped:1.3", .cap = 0.2, .causal = true, .sink = true},
    {.method = "softmax/relaxed:0.7", .caps = true, .sharp = true},
    {.method = "softmax/bounded:0.4,1.8", .cap = 0.15, .narrow = true},
    {.method = "entmax:1.5/exact", .caps = true, .dense = true},
    {.method = "sparsemax/capped:1.3", .cap = 0.25, .sharp = true},
    {.method = "entmax:0.7/relaxed:0.7", .cap = 0.2, .sink = true},
    {.method = "entmax:1.3/exact", .sharp = true, .repeated = true, .cap = 0.3},
    {.method = "softmax/exact", .sharp = true, .repeated = true, .cap = 0.08},
    {.method = "sparsemax/exact", .sharp = true, .repeated = true, .cap = 0.11},
    {.method = "softmax/relaxed:0.7", .sharp = true, .repeated = true, .cap = 0.05},
    {.method = "softmax/bounded:0.4,1.8", .sharp = true, .repeated = true, .cap = 0.07},
    {.method = "entmax:0.7/exact", .sharp = true, .repeated = true, .cap = 0.07},
    {.method = "softmax/relaxed:0.7", .causal = true, .masses = true, .idle = true},
    {.method = "softmax/elastic:0.3,4",
     .causal = true,
     .masses = true,
     .idle = true,
     .fixed = true},
    {.method = "softmax/exact{rounds=130}", .masses = true, .fixed = true},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

typedef struct arrays {
    double q[HEADS * N * WIDTH], k[HEADS * N * WIDTH], v[HEADS * N * VALUES], dense[N * N];
    double out[HEADS * N * VALUES]; /* what comes out of forward and jvp, or dL/d out */
} arrays;

/* The numbers of one process, or of one rank; `rows` are its own among all. */
typedef struct share {
    const cell *cell;
    int64_t n, rows[N];
    arrays given, tangents, grads; /* the problem, the direction of jvp, gradients and dL/d out */
    float narrow[3][HEADS * N * WIDTH];
    double caps[HEADS * N * N];
    double mu[N], nu[N], p[HEADS * N * N], g[HEADS * N], receiver[HEADS * N];
    double tangent[HEADS * N * VALUES];
    double temperature, order, strength, row_strength, of_rows[N], of_columns[N];
    ota_status status, backward, forwards, judged;
    bool ended; /* as the case should */
    ota_result result;
    int64_t miscounted; /* messages and bytes of jvp that it does not tell, or tells in vain */
    ota_certificate certificate;
    ota_error error;
} share;

typedef struct scene {
    const cell *cell;
    share all, parts[CREW_MOST];
    int threads;
} scene;

static ota_array keys_of(void *data, ota_type type, int64_t rows, int64_t width) {
    return ota_array_of(data, type, 1, HEADS, rows, width);
}

static ota_gradients gradients_of(share *s, const ota_problem *p) {
    const cell *c = s->cell;
    ota_gradients want = {.size = sizeof want,
                          .out_grad = keys_of(s->grads.out, OTA_F64, s->n, VALUES),
                          .queries = keys_of(s->grads.q, OTA_F64, s->n, WIDTH),
                          .keys = keys_of(s->grads.k, OTA_F64, s->n, WIDTH),
                          .values = keys_of(s->grads.v, OTA_F64, s->n, VALUES),
                          .temperature = ota_array_of(&s->temperature, OTA_F64, 1, 1, 1, 1)};
    if (p->regulariser == OTA_ENTMAX) want.order = ota_array_of(&s->order, OTA_F64, 1, 1, 1, 1);
    if (p->columns == OTA_COLUMNS_RELAXED)
        want.strength = ota_array_of(&s->strength, OTA_F64, 1, 1, 1, 1);
    if (c->rows > 0.0) want.row_strength = ota_array_of(&s->row_strength, OTA_F64, 1, 1, 1, 1);
    if (c->masses) {
        want.row_mass = ota_array_of(s->of_rows, OTA_F64, 1, 1, 1, s->n);
        want.column_mass = ota_array_of(s->of_columns, OTA_F64, 1, 1, 1, N);
    }
    return want;
}

/* Everything that a process does with its share; NULL: all rows are its own. */
/* ota_jvp, and what it tells of its messages against what went through `rank`. */
static void derive(share *s, ota_plan *plan, const ota_arrays *a, const ota_tangents *tangents,
                   const crew_rank *rank) {
    const int64_t sent[2] = {rank == NULL ? 0 : rank->messages, rank == NULL ? 0 : rank->bytes};
    ota_result found = {.size = sizeof found};
    s->forwards = ota_jvp(plan, a, tangents, &found, &s->error);
    if (rank == NULL || s->forwards != OTA_OK) return;
    s->miscounted = llabs(found.messages - (rank->messages - sent[0])) +
                    llabs(found.message_bytes - (rank->bytes - sent[1]));
}

static void solve(share *s, const crew_rank *rank, int threads) {
    const cell *c = s->cell;
    ota_problem p = {.size = sizeof p};
    ota_options o = {.size = sizeof o,
                     .threads = threads,
                     .communicator = rank == NULL ? NULL : &rank->to,
                     .gradients = 1,
                     .tolerance = c->narrow ? 0.0 : 1.0e-11,
                     .solver = c->solver};
    s->backward = s->forwards = s->judged = OTA_OK;
    s->ended = false;
    s->status = ota_method_parse(c->method, &p, &o, &s->error);
    if (s->status < 0) return;
    if (c->rows > 0.0) {
        p.rows = OTA_ROWS_RELAXED;
        p.row_strength = c->rows;
    }
    p.temperature = c->sharp ? (c->cap > 0.0 ? 0.03 : 0.15) : 0.8;
    const ota_type type = c->narrow ? OTA_F32 : OTA_F64;
    p.queries = keys_of(c->narrow ? (void *)s->narrow[0] : s->given.q, type, s->n, WIDTH);
    p.keys = keys_of(c->narrow ? (void *)s->narrow[1] : s->given.k, type, s->n, WIDTH);
    ota_term terms[2];
    /* Packed sequences, one without a row. */
    int64_t blocks[] = {2, 11, 0, 9, 7};
    const ota_support causal = {.kind = OTA_SUPPORT_CAUSAL},
                      packed = {.kind = OTA_SUPPORT_BLOCK,
                                .array = ota_array_of(blocks, OTA_I64, 1, 1, 1, 5)};
    if (c->dense)
        terms[p.term_count++] = (ota_term){
            .kind = OTA_TERM_DENSE, .array = ota_array_of(s->given.dense, OTA_F64, 1, 1, s->n, N)};
    if (c->sink) terms[p.term_count++] = (ota_term){.kind = OTA_TERM_SINK, .value = -1.0};
    p.terms = terms;
    p.supports = c->blocks ? &packed : &causal;
    p.support_count = c->causal || c->blocks;
    if (c->masses) {
        p.row_mass = ota_array_of(s->mu, OTA_F64, 1, 1, 1, s->n);
        p.column_mass = ota_array_of(s->nu, OTA_F64, 1, 1, 1, N);
    }
    p.entry_cap = c->cap;
    if (c->caps) p.entry_caps = keys_of(s->caps, OTA_F64, s->n, N);
    const ota_arrays a = {
        .size = sizeof a,
        .values = keys_of(c->narrow ? (void *)s->narrow[2] : s->given.v, type, s->n, VALUES),
        .out = keys_of(s->given.out, OTA_F64, s->n, VALUES),
        .coupling = keys_of(s->p, OTA_F64, s->n, N),
        .column_potential = keys_of(s->g, OTA_F64, 1, N),
        .receiver = keys_of(s->receiver, OTA_F64, 1, N)};
    ota_plan *plan = NULL;
    s->result = (ota_result){.size = sizeof s->result};
    s->status = ota_plan_create(&plan, &p, VALUES, &o, &s->error);
    if (s->status == OTA_OK) s->status = ota_forward(plan, &a, &s->result, &s->error);
    const ota_gradients want = gradients_of(s, &p);
    /* Masses grow in proportion. */
    const ota_tangents tangents = {.size = sizeof tangents,
                                   .queries = keys_of(s->tangents.q, OTA_F64, s->n, WIDTH),
                                   .keys = keys_of(s->tangents.k, OTA_F64, s->n, WIDTH),
                                   .values = keys_of(s->tangents.v, OTA_F64, s->n, VALUES),
                                   .row_mass = p.row_mass,
                                   .column_mass = p.column_mass,
                                   .out = keys_of(s->tangents.out, OTA_F64, s->n, VALUES)};
    s->ended = s->status == (c->fixed ? OTA_FIXED_ITERS : OTA_OK);
    if (s->ended) s->backward = ota_backward(plan, &a, &want, NULL, &s->error);
    if (s->ended && s->backward == OTA_OK) derive(s, plan, &a, &tangents, rank);
    ota_plan_free(plan);
    s->certificate = (ota_certificate){.size = sizeof s->certificate};
    if (s->ended && s->backward == OTA_OK && s->forwards == OTA_OK)
        s->judged = ota_certify(&p, &o, &a, &s->certificate, NULL, &s->error);
}

static void draw_arrays(arrays *a) {
    static float narrow[HEADS * N * WIDTH], narrow_keys[HEADS * N * WIDTH];
    shares_fill(&(shares_numbers){a->q, a->k, narrow, narrow_keys}, HEADS * N * WIDTH);
    for (int64_t k = 0; k < HEADS * N * VALUES; k++) {
        fill_both(&a->v[k], narrow, 1, &dice_state, NORMAL, 1.0);
        a->out[k] = draw_number(&dice_state, OTA_F64, NORMAL, 1.0);
    }
    fill_numbers(a->dense, N * N, &dice_state, NORMAL, 1.0);
}

static void draw(scene *s, const cell *c, uint64_t seed) {
    share *w = &s->all;
    memset(s, 0, sizeof *s);
    dice_state = seed;
    s->cell = w->cell = c;
    s->threads = 1;
    w->n = N;
    draw_arrays(&w->given);
    draw_arrays(&w->tangents);
    draw_arrays(&w->grads);
    /* Keys that are nobody's first choice. */
    for (int64_t k = 0; c->repeated && k < HEADS * N * WIDTH; k++)
        w->given.k[k] = k / WIDTH % N < N / 2 ? -3.0 : w->given.k[k];
    for (int64_t k = 0; k < HEADS * N * WIDTH; k++) {
        w->narrow[0][k] = (float)w->given.q[k];
        w->narrow[1][k] = (float)w->given.k[k];
    }
    for (int64_t k = 0; k < HEADS * N * VALUES; k++) w->narrow[2][k] = (float)w->given.v[k];
    fill_numbers(w->caps, HEADS * N * N, &dice_state, SHARE, 0.3);
    for (int64_t k = 0; k < HEADS * N * N; k++) w->caps[k] += 0.07;
    for (int64_t k = 0; k < N; k++) w->rows[k] = k;
    shares_masses(w->mu, w->nu, N);
    if (c->idle) w->mu[N - 1] = 0.0;
    shares_match(w->mu, w->nu, N);
}

/* [blocks][N][width] of all into the part's [blocks][n][width]. */
static void cut_rows(const share *p, int64_t blocks, size_t line, const void *from, void *to) {
    const shares_rows mine = {p->rows, p->n, N};
    shares_copy(&mine, blocks, line, from, to);
}

static void cut_arrays(const share *p, const arrays *from, arrays *to) {
    const size_t number = sizeof(double);
    cut_rows(p, HEADS, WIDTH * number, from->q, to->q);
    cut_rows(p, HEADS, WIDTH * number, from->k, to->k);
    cut_rows(p, HEADS, VALUES * number, from->v, to->v);
    cut_rows(p, HEADS, VALUES * number, from->out, to->out);
    cut_rows(p, 1, N * number, from->dense, to->dense);
}

static void solve_part(crew_rank *rank, void *context) {
    scene *s = context;
    solve(&s->parts[rank->to.rank], rank, s->threads);
}

/* Shares of `ranks`, the second of which holds nothing where they are uneven. */
static crew *run(scene *s, int ranks, ota_shares order, bool uneven, int64_t fails_at) {
    int64_t shares[CREW_MOST], left = N;
    for (int k = 0; k < ranks; k++) {
        const int64_t even = N * (k + 1) / ranks - N * k / ranks;
        shares[k] = k + 1 == ranks ? left : uneven ? (k == 1 ? 0 : even / 2) : even;
        left -= shares[k];
    }
    for (int k = 0; k < ranks; k++) {
        share *p = &s->parts[k];
        const share *w = &s->all;
        memset(p, 0, sizeof *p);
        p->cell = s->cell;
        p->n = crew_rows(shares, ranks, k, order, p->rows);
        cut_arrays(p, &w->given, &p->given);
        cut_arrays(p, &w->tangents, &p->tangents);
        cut_arrays(p, &w->grads, &p->grads);
        cut_rows(p, HEADS, WIDTH * sizeof(float), w->narrow[0], p->narrow[0]);
        cut_rows(p, HEADS, WIDTH * sizeof(float), w->narrow[1], p->narrow[1]);
        cut_rows(p, HEADS, VALUES * sizeof(float), w->narrow[2], p->narrow[2]);
        cut_rows(p, 1, sizeof(double), w->mu, p->mu);
        cut_rows(p, HEADS, N * sizeof(double), w->caps, p->caps);
        memcpy(p->nu, w->nu, sizeof p->nu);
    }
    crew *c = crew_of(ranks, order);
    if (fails_at > 0) c->rank[ranks - 1].fail_at = fails_at;
    crew_run(c, solve_part, s);
    return c;
}

/* ---- comparisons ----------------------------------------------------------------------------------- */

static void expect(const cell *c, const char *what, double found, double wanted, double tolerance) {
    if (!(fabs(found - wanted) <= tolerance * fmax(1.0, fabs(wanted))))
        fail_msg("%s of %s: %.17g where one process has %.17g", what, c->method, found, wanted);
}

static void expect_rows(const share *p, const char *what, const double *found, const double *wanted,
                        int64_t width, double tolerance) {
    for (int64_t k = 0; k < HEADS * p->n * width; k++) {
        const int64_t row = k / width, j = k % width;
        const int64_t at = row / p->n * N + p->rows[row % p->n];
        expect(p->cell, what, found[k], wanted[at * width + j], tolerance);
    }
}

/* The strongly convex objective lets a residual r move weights by sqrt(r) at most, in practice by a few r; derivatives by
 * what the solve of their system may leave besides. */
static double tolerance_of(const cell *c) { return c->narrow ? 2.0e-4 : 1.0e-7; }

static void compare(const scene *s, const share *p) {
    const share *w = &s->all;
    const cell *c = s->cell;
    const double t = tolerance_of(c), d = 50.0 * t;
    if (!p->ended || p->backward != OTA_OK || p->forwards != OTA_OK || p->judged != OTA_OK)
        fail_msg("%s: %d %d %d %d, %s", c->method, (int)p->status, (int)p->backward,
                 (int)p->forwards, (int)p->judged, p->error.message);
    expect_rows(p, "out", p->given.out, w->given.out, VALUES, t);
    expect_rows(p, "coupling", p->p, w->p, N, t);
    for (int64_t j = 0; j < HEADS * N; j++)
        expect(c, "receiver", p->receiver[j], w->receiver[j], (double)N * t);
    for (int64_t j = 0; j < HEADS * N; j++)
        assert_memory_equal(&p->g[j], &s->parts[0].g[j], sizeof p->g[j]);
    expect_rows(p, "gradient queries", p->grads.q, w->grads.q, WIDTH, d);
    expect_rows(p, "gradient keys", p->grads.k, w->grads.k, WIDTH, d);
    expect_rows(p, "gradient values", p->grads.v, w->grads.v, VALUES, d);
    expect_rows(p, "tangent", p->tangents.out, w->tangents.out, VALUES, d);
    expect(c, "gradient temperature", p->temperature, w->temperature, (double)N * d);
    expect(c, "gradient order", p->order, w->order, (double)N * d);
    expect(c, "gradient strength", p->strength, w->strength, (double)N * d);
    expect(c, "gradient row_strength", p->row_strength, w->row_strength, (double)N * d);
    for (int64_t i = 0; i < p->n; i++)
        expect(c, "gradient row_mass", p->of_rows[i], w->of_rows[p->rows[i]], d);
    for (int64_t j = 0; j < N; j++)
        expect(c, "gradient column_mass", p->of_columns[j], w->of_columns[j], d);
    const ota_certificate *a = &p->certificate, *b = &w->certificate;
    expect(c, "primal", a->primal, b->primal, 100.0 * (double)N * t);
    if (!isnan(b->dual)) expect(c, "dual", a->dual, b->dual, 100.0 * (double)N * t);
    expect(c, "entropy", a->entropy, b->entropy, (double)N * t);
    expect(c, "cap_error", a->cap_error, b->cap_error, t);
    if (strchr(c->method, '/') != NULL)
        assert_true(a->column_error <= fmax(c->narrow ? 2.0e-5 : 1.0e-10, 1.01 * b->column_error));
    assert_true(a->row_error <= (c->narrow ? 2.0e-5 : 1.0e-10));
    assert_int_equal(p->result.rounds, s->parts[0].result.rounds);
}

static void solve_whole(scene *s) {
    solve(&s->all, NULL, 1);
    const share *w = &s->all;
    if (!w->ended || w->backward != OTA_OK || w->forwards != OTA_OK)
        fail_msg("%s: %s", s->cell->method, w->error.message);
}

static void ranks_find_what_one_process_finds(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k++) {
        draw(s, &cells[k], 40 + (uint64_t)k);
        arrays given[2] = {s->all.tangents, s->all.grads};
        solve_whole(s);
        const share whole = s->all;
        for (int way = 0; way < 4; way++) {
            const int ranks = 1 + way;
            /* Outputs stand where directions stood. */
            s->all.tangents = given[0];
            s->all.grads = given[1];
            crew *c =
                run(s, ranks, way % 2 == 1 ? OTA_SHARES_ZIGZAG : OTA_SHARES_IN_ORDER, way >= 2, 0);
            s->all = whole;
            for (int r = 0; r < ranks; r++) {
                compare(s, &s->parts[r]);
                assert_int_equal(s->parts[r].result.messages > 0, 1);
                assert_int_equal(s->parts[r].miscounted, 0);
            }
            crew_free(c);
        }
    }
    free(s);
}

static void threads_move_no_bit(void **state) {
    (void)state;
    static share first[3];
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k += 4) {
        draw(s, &cells[k], 90 + (uint64_t)k);
        for (int turn = 0; turn < 2; turn++) {
            s->threads = 1 + turn;
            crew *c = run(s, 3, OTA_SHARES_ZIGZAG, true, 0);
            for (int r = 0; r < 3; r++) {
                const share *p = &s->parts[r];
                assert_int_equal(p->forwards, OTA_OK);
                if (turn == 0) first[r] = *p;
                assert_memory_equal(&first[r].given.out, &p->given.out, sizeof p->given.out);
                assert_memory_equal(&first[r].grads, &p->grads, sizeof p->grads);
            }
            crew_free(c);
        }
    }
    free(s);
}

static void a_rank_that_fails_ends_all(void **state) {
    (void)state;
    static const int failing[] = {5, CELLS - 1};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &cells[failing[k]], 7);
        int64_t tried = 0;
        for (int64_t at = 1; at < 4000; at += 1 + at / 8) {
            crew *c = run(s, 3, OTA_SHARES_IN_ORDER, false, at);
            const bool dead = c->dead;
            const share *p = &s->parts[2];
            const bool told = p->status == OTA_ECOMM || p->backward == OTA_ECOMM ||
                              p->forwards == OTA_ECOMM || p->judged == OTA_ECOMM;
            crew_free(c);
            if (!dead) break;
            assert_true(told);
            tried++;
        }
        assert_true(tried > 20);
    }
    free(s);
}

/* One row of one rank has no key: all ranks say that there is no plan. */
static void a_row_without_keys_is_refused_on_all(void **state) {
    (void)state;
    static const cell one = {.method = "entmax:1.5/exact", .dense = true};
    scene *s = malloc(sizeof *s);
    draw(s, &one, 3);
    for (int64_t j = 0; j < N; j++) s->all.given.dense[(N - 1) * N + j] = -INFINITY;
    crew *c = run(s, 3, OTA_SHARES_IN_ORDER, false, 0);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(s->parts[r].status, OTA_INFEASIBLE);
        assert_true(isnan(s->parts[r].given.out[0]));
    }
    crew_free(c);
    /* NaN on one rank is NaN on all. */
    draw(s, &one, 4);
    s->all.given.dense[(N - 1) * N] = NAN;
    c = run(s, 3, OTA_SHARES_IN_ORDER, false, 0);
    for (int r = 0; r < 3; r++) assert_int_equal(s->parts[r].status, OTA_NONFINITE);
    crew_free(c);
    free(s);
}

/* Caps that cannot hold what a row must give, or a key receive, are refused on all ranks. */
static void caps_without_room_are_refused_on_all(void **state) {
    (void)state;
    static const cell one = {.method = "softmax/exact", .caps = true};
    scene *s = malloc(sizeof *s);
    draw(s, &one, 5);
    for (int64_t j = 0; j < N; j++) s->all.caps[(N - 1) * N + j] = 0.01;
    crew *c = run(s, 3, OTA_SHARES_IN_ORDER, false, 0);
    for (int r = 0; r < 3; r++) {
        const char *words =
            r == 2 ? "add up to 0.29, less than its mass" : "of another rank add up";
        assert_int_equal(s->parts[r].status, OTA_INFEASIBLE);
        assert_non_null(strstr(s->parts[r].error.message, words));
        assert_true(isnan(s->parts[r].given.out[0]));
    }
    crew_free(c);
    draw(s, &one, 6);
    for (int64_t i = 0; i < N; i++) s->all.caps[i * N + 4] = 0.02;
    c = run(s, 3, OTA_SHARES_IN_ORDER, false, 0);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(s->parts[r].status, OTA_INFEASIBLE);
        assert_non_null(strstr(s->parts[r].error.message, "caps of key 4 add up to 0.58"));
    }
    crew_free(c);
    free(s);
}

TEST_FILE(test_shards_methods) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_without_room_are_refused_on_all),
        cmocka_unit_test(ranks_find_what_one_process_finds),
        cmocka_unit_test(threads_move_no_bit),
        cmocka_unit_test(a_rank_that_fails_ends_all),
        cmocka_unit_test(a_row_without_keys_is_refused_on_all),
    };
    return cmocka_run_group_tests_name("shards, other methods", tests, NULL, NULL);
}
