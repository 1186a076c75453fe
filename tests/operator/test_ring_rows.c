/* test_ring_rows.c: rows that no log-sum-exp adds up, in a ring against one process: entmax of orders below and above 1,
 * hard rows, rows under caps, whose lists are long enough or spill; ties and numbers that are not finite; statistics of rows; what is sent. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 173 };
#include "groups.h"
#include "ring_scene.h"

static const cell cells[] = {
    {.method = "entmax:1.5", .causal = true, .alibi = true, .sink = true},
    {.method = "sparsemax", .narrow = true, .masses = true},
    {.method = "entmax:1.5", .narrow = true, .wide = true},
    {.method = "entmax:1.1", .relative = true, .temperatures = true, .sink = true},
    {.method = "entmax:0.6", .window = true, .dense = true},
    {.method = "entmax:0.6", .sink = true, .masses = true},
    {.method = "entmax:3", .lengths = true, .boolean = true, .softcap = true, .dropout = true},
    {.method = "entmax:3", .temperature = 90.0, .masses = true},
    {.method = "sparsemax", .temperature = 400.0, .block = true, .additive = true},
    {.method = "softmax", .narrow = true, .softcap = true, .sink = true, .causal = true},
    {.method = "softmax", .dropout = true, .dense = true, .masses = true},
    {.method = "softmax", .sink = true, .alibi = true, .masses = true},
    {.method = "argmax", .causal = true, .sink = true, .dropout = true, .masses = true},
    {.method = "argmax", .narrow = true, .strided = true, .relative = true},
    {.method = "softmax", .cap = 0.05, .sink = true, .alibi = true, .causal = true},
    {.method = "softmax", .caps = true, .masses = true, .dropout = true, .softcap = true},
    {.method = "softmax", .cap = 1.02 / (double)N},
    {.method = "entmax:1.5", .caps = true, .relative = true, .temperatures = true},
    {.method = "sparsemax", .cap = 0.2, .masses = true, .lengths = true},
    {.method = "entmax:0.6", .cap = 0.2, .window = true},
    {.method = "argmax", .cap = 0.05, .sink = true, .alibi = true, .causal = true},
    {.method = "argmax", .caps = true, .masses = true, .dropout = true, .softcap = true},
    {.method = "argmax", .cap = 1.02 / (double)N, .relative = true},
    {.method = "argmax", .cap = 0.012, .narrow = true, .masses = true, .boolean = true},
    {.method = "argmax", .cap = 0.01, .sink = true, .window = true},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

/* Orders above 2 take the 1 / (order - 1)-th power of what scores differ by. */
static double tolerance_of(const cell *c) {
    ota_problem p = {.size = sizeof p};
    ota_options options = {.size = sizeof options};
    (void)ota_method_parse(c->method, &p, &options, NULL);
    if (p.regulariser == OTA_ENTMAX && p.order > 2.0 && !(c->grid > 0.0))
        return pow(0x1p-53, 1.0 / (p.order - 1.0));
    return c->narrow ? 4e-6 : 1e-11;
}

/* Weights beside thresholds that no double tells, of few keys and, at temperatures so high, of more than a list holds. */
static const cell steep[] = {
    {.method = "entmax:3", .grid = 0.25, .sink = true},
    {.method = "entmax:5", .grid = 0.25, .causal = true, .masses = true},
    {.method = "entmax:5", .grid = 0.25, .temperature = 4e9, .sink = true},
    {.method = "entmax:10", .grid = 0.25, .temperature = 1e21},
    {.method = "entmax:50", .grid = 0.25, .masses = true},
    {.method = "entmax:50", .grid = 0.25, .temperature = 1e112, .lengths = true},
    {.method = "entmax:3", .grid = 0.25, .caps = true, .masses = true},
    {.method = "entmax:5", .grid = 0.25, .cap = 0.23, .sink = true},
    {.method = "entmax:50", .grid = 0.25, .caps = true, .temperature = 1e112},
};
enum { STEEP = (int)(sizeof steep / sizeof steep[0]) };

static void compare_statistics(const scene *s, const rows *p, double tolerance) {
    const rows *w = &s->all;
    expect_rows("entropy", s, p, ALL, p->entropy, w->entropy, 1, 10.0 * tolerance);
    expect_rows("support", s, p, ALL, p->support, w->support, 1, 0.0);
    expect_rows("largest weight", s, p, ALL, p->largest, w->largest, 1, tolerance);
    for (int64_t j = 0; j < ALL * N; j++)
        assert_true(fabs(p->receiver[j] - w->receiver[j]) <= (double)N * tolerance &&
                    (p->receiver[j] > 0.0) == (w->receiver[j] > 0.0));
}

static void compare(const scene *s, int ranks) {
    const double tolerance = tolerance_of(s->cell);
    for (int k = 0; k < ranks; k++) {
        const rows *p = &s->part[k], *w = &s->all;
        expect_outputs(s, k, tolerance);
        expect_rows("row potential", s, p, ALL, p->f, w->f, 1, 10.0 * tolerance);
        expect_rows("lse", s, p, ALL, p->lse, w->lse, 1, tolerance);
        assert_int_equal(p->result.nonfinite_rows, w->result.nonfinite_rows);
        assert_true(p->result.row_error <= 1e-14 * (double)N);
        compare_statistics(s, p, tolerance);
        if (!s->gradients) continue;
        expect_gradients(s, p, 20.0 * tolerance);
    }
}

/* Additive masks of one number on all pairs, beside which a row's potential holds no digits of its weights. */
static void a_common_size_changes_nothing(void **state) {
    (void)state;
    static const cell high[] = {{.method = "entmax:1.5", .additive = true},
                                {.method = "sparsemax", .temperature = 400.0, .additive = true},
                                {.method = "entmax:0.6", .masses = true, .additive = true},
                                {.method = "entmax:3", .temperature = 90.0, .additive = true},
                                {.method = "softmax", .cap = 0.05, .additive = true},
                                {.method = "entmax:1.5", .caps = true, .additive = true},
                                {.method = "entmax:0.6", .cap = 0.2, .additive = true}};
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof high / sizeof high[0]; k++) {
        draw(s, &high[k], 4500 + k);
        for (int64_t e = 0; e < ALL * N; e++) s->start[e] = k % 2 == 0 ? 1e8 : -1e8;
        s->gradients = true;
        solve(s, &s->all, NULL);
        cut(s, 3, OTA_SHARES_IN_ORDER, k % 2 == 1);
        crew_once(3, OTA_SHARES_IN_ORDER, solve_part, s);
        for (int r = 0; r < 3; r++) {
            expect_outputs(s, r, tolerance_of(&high[k]));
            expect_gradients(s, &s->part[r], 20.0 * tolerance_of(&high[k]));
        }
    }
    free(s);
}

/* Weights that leap from 0 to their caps from one number to the next: a head's keys receive all of its mass. */
static void rows_of_little_mass_are_whole(void **state) {
    (void)state;
    static const cell little[] = {
        {.method = "entmax:3", .masses = true, .cap = 3.4e-10},
        {.method = "entmax:3", .masses = true, .cap = 1.01e-9 / (double)N},
        {.method = "entmax:3", .masses = true, .cap = 1e-9 / (double)N},
        {.method = "entmax:1.5", .masses = true, .cap = 3.4e-10}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 4; k++) {
        draw(s, &little[k], 4300 + (uint64_t)k);
        for (int i = 0; i < N; i++) s->all.mu[i] = 1e-9;
        s->statistics = true;
        cut(s, 2, OTA_SHARES_ZIGZAG, false);
        crew_once(2, OTA_SHARES_ZIGZAG, solve_part, s);
        for (int b = 0; b < ALL; b++) {
            double sum = 0.0;
            for (int j = 0; j < N; j++) sum += s->part[1].receiver[b * N + j];
            if (s->part[1].status != OTA_OK ||
                !(fabs(sum - (double)N * 1e-9) <= 1e-9 * (double)N * 1e-9))
                fail_msg("%s, head %d: %d, %.17g", little[k].method, b, (int)s->part[1].status,
                         sum);
        }
    }
    free(s);
}

static void want_all(scene *s) {
    s->gradients = strcmp(s->cell->method, "argmax") != 0;
    s->statistics = true;
}

static void rows_of_a_ring_are_those_of_one_process(void **state) {
    (void)state;
    in_three_ways(cells, CELLS, 2000, want_all, compare);
}

/* Slopes of keys that are equal cancel, whatever their size: what is left of the largest number of a block is its rounding. */
static void expect_of_size(const char *what, const scene *s, const rows *p, int64_t blocks,
                           const double *found, const double *wanted, int64_t width) {
    for (int64_t b = 0; b < blocks; b++) {
        double most = 1.0;
        for (int64_t k = 0; k < N * width; k++) most = fmax(most, fabs(wanted[b * N * width + k]));
        for (int64_t i = 0; i < p->n; i++) {
            for (int64_t j = 0; j < width; j++) {
                const double a = found[(b * p->n + i) * width + j],
                             c = wanted[(b * N + p->number[i]) * width + j];
                if (!(fabs(a - c) <= 20.0 * tolerance_of(s->cell) * most))
                    fail_msg("%s of %s, row %d: %.17g where one process has %.17g", what,
                             s->cell->method, (int)p->number[i], a, c);
            }
        }
    }
}

static void rows_of_steep_weights_are_those_of_one_process(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < STEEP; k++) {
        draw(s, &steep[k], 2600 + (uint64_t)k);
        s->gradients = true;
        s->statistics = true;
        const ota_shares order = k % 2 == 0 ? OTA_SHARES_ZIGZAG : OTA_SHARES_IN_ORDER;
        solve(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        cut(s, 2 + k % 3, order, k % 2 == 1);
        crew_once(2 + k % 3, order, solve_part, s);
        s->gradients = false;
        compare(s, 2 + k % 3);
        for (int r = 0; r < 2 + k % 3; r++) {
            const rows *p = &s->part[r];
            if (p->reversed != OTA_OK) fail_msg("%s: %s", s->cell->method, p->error.message);
            expect_of_size("dq", s, p, ALL, p->dq, s->all.dq, WIDTH);
            expect_of_size("dk", s, p, BATCH * KEY_HEADS, p->dk, s->all.dk, WIDTH);
            expect_of_size("dv", s, p, BATCH * KEY_HEADS, p->dv, s->all.dv, VALUES);
        }
        move(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        crew_once(2 + k % 3, order, move_part, s);
        for (int r = 0; r < 2 + k % 3; r++) {
            const rows *p = &s->part[r];
            if (p->status != s->all.status) fail_msg("%s: %s", s->cell->method, p->error.message);
            expect_of_size("tangent", s, p, ALL, p->moved, s->all.moved, VALUES);
        }
    }
    free(s);
}

/* Rows that use two thirds of the keys: their lists, of 100 numbers and more, are nearly full when the last pieces come. */
static void lists_that_are_nearly_full(void **state) {
    (void)state;
    static const cell dense = {.method = "sparsemax", .temperature = 110.0};
    scene *s = malloc(sizeof *s);
    int64_t full = 0;
    draw(s, &dense, 2900);
    s->statistics = true;
    solve(s, &s->all, NULL);
    if (s->all.status < OTA_OK) fail_msg("%s", s->all.error.message);
    for (int64_t k = 0; k < ALL * N; k++)
        full += s->all.support[k] > 108.0 && s->all.support[k] <= 128.0;
    assert_true(full > ALL * N / 4);
    for (int ranks = 4; ranks <= 8; ranks += 4) {
        cut(s, ranks, OTA_SHARES_IN_ORDER, false);
        crew_once(ranks, OTA_SHARES_IN_ORDER, solve_part, s);
        compare(s, ranks);
    }
    free(s);
}

static void statistics_of_coupled_columns(void **state) {
    (void)state;
    static const cell coupled[] = {
        {.method = "softmax/exact{tolerance=1e-10}", .relative = true, .masses = true},
        {.method = "softmax/elastic:0.5,4", .causal = true, .sink = true}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &coupled[k], 2200 + (uint64_t)k);
        s->statistics = true;
        solve(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        cut(s, 3, OTA_SHARES_IN_ORDER, true);
        crew_once(3, OTA_SHARES_IN_ORDER, solve_part, s);
        for (int r = 0; r < 3; r++) {
            if (s->part[r].status < OTA_OK) fail_msg("%s", s->part[r].error.message);
            compare_statistics(s, &s->part[r], 1e-8);
        }
    }
    free(s);
}

/* Free columns of every kind, and coupled ones to a tolerance and by fixed rounds. */
static void tangents_of_a_ring_are_those_of_one_process(void **state) {
    (void)state;
    static const cell coupled[] = {
        {.method = "softmax/exact", .relative = true, .dropout = true},
        {.method = "softmax/exact", .lengths = true, .masses = true},
        {.method = "softmax/relaxed:0.7", .causal = true, .sink = true},
        {.method = "softmax/bounded:0.4,1.8", .softcap = true, .inside = true},
        {.method = "softmax/capped:2.5{rounds=3}", .softcap = true, .sink = true},
        {.method = "softmax/capped:2.5", .window = true, .alibi = true, .temperatures = true},
        {.method = "softmax/exact{rounds=4}", .lengths = true, .masses = true, .dropout = true},
        {.method = "softmax/relaxed:0.7{rounds=3}", .causal = true, .sink = true},
        {.method = "softmax/capped:2.5{rounds=5}", .window = true, .temperatures = true},
        {.method = "softmax/elastic:0.5,4", .dense = true, .start = true}};
    enum { COUPLED = (int)(sizeof coupled / sizeof coupled[0]) };
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS + COUPLED; k += test_step()) {
        const cell *now = k < CELLS ? &cells[k] : &coupled[k - CELLS];
        const bool fixed =
            strstr(now->method, "rounds") != NULL || strstr(now->method, "elastic") != NULL;
        if (strcmp(now->method, "argmax") == 0) continue;
        draw(s, now, 2100 + (uint64_t)k);
        s->all.result.size = sizeof s->all.result;
        move(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        cut(s, 3, OTA_SHARES_ZIGZAG, true);
        s->threads = 1 + k % 2;
        crew_once(3, OTA_SHARES_ZIGZAG, move_part, s);
        for (int r = 0; r < 3; r++) {
            const rows *p = &s->part[r];
            if (p->status != s->all.status) fail_msg("%s: %s", now->method, p->error.message);
            expect_rows("tangent", s, p, ALL, p->moved, s->all.moved, VALUES,
                        k < CELLS ? 100.0 * tolerance_of(now)
                        : fixed   ? 1e-10
                                  : 1e-6);
        }
    }
    free(s);
}

/* ---- certificates --------------------------------------------------------------------------------- */

/* The judge, who gathers, finds the optimum of what went round. */
static void certificates_of_a_ring_are_tight(void **state) {
    (void)state;
    static const int tried[] = {0, 4, 7, 10, 14, 17};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 6; k++) {
        draw(s, &cells[tried[k]], 2300 + (uint64_t)k);
        cut(s, 3, OTA_SHARES_ZIGZAG, true);
        crew_once(3, OTA_SHARES_ZIGZAG, judge_part, s);
        for (int r = 0; r < 3; r++) {
            if (s->part[r].status < OTA_OK || s->part[r].reversed < OTA_OK)
                fail_msg("%s: %s", s->cell->method, s->part[r].error.message);
            assert_true(judged[r].row_error <= 1e-12);
            assert_true(fabs(judged[r].gap) <= 1e-10 * fmax(1.0, fabs(judged[r].primal)));
            assert_memory_equal(&judged[r].primal, &judged[0].primal, sizeof(double));
        }
    }
    free(s);
}

/* ---- ties, and numbers that are not finite -------------------------------------------------------- */

static void spoil(rows *w, int64_t key) {
    for (int64_t b = 0; b < BATCH * KEY_HEADS; b++) {
        w->v[(b * N + key) * VALUES] = b % 2 == 0 ? NAN : INFINITY;
        /* Key and its neighbour are equal: hard rows take the first, wherever it lies. */
        memcpy(w->k + (b * N + 90) * WIDTH, w->k + (b * N + 20) * WIDTH, WIDTH * sizeof(double));
    }
    w->q[5 * WIDTH] = NAN;
    for (int64_t i = 40; i < 60; i++) {
        for (int64_t d = 0; d < WIDTH; d++) w->q[i * WIDTH + d] = 5.0 * w->k[20 * WIDTH + d];
    }
}

static void rows_that_are_not_finite_are_those_of_one_process(void **state) {
    (void)state;
    static const cell spoilt[] = {{.method = "sparsemax", .causal = true},
                                  {.method = "entmax:0.6", .window = true},
                                  {.method = "argmax", .causal = true}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 3; k++) {
        draw(s, &spoilt[k], 2400 + (uint64_t)k);
        s->statistics = true;
        spoil(&s->all, 33);
        solve(s, &s->all, NULL);
        assert_int_equal(s->all.status, OTA_NONFINITE_ROWS);
        for (int ranks = 2; ranks < 5; ranks++) {
            cut(s, ranks, OTA_SHARES_IN_ORDER, false);
            crew_once(ranks, OTA_SHARES_IN_ORDER, solve_part, s);
            compare(s, ranks);
        }
    }
    free(s);
}

/* Hard rows take equal keys by their place, whichever piece comes first: few of them, or so many that their places are searched. */
static void equal_keys_are_filled_by_place(void **state) {
    (void)state;
    static const cell tied[] = {{.method = "argmax", .cap = 0.3},
                                {.method = "argmax", .cap = 0.0123, .masses = true},
                                {.method = "argmax", .cap = 0.02, .sink = true}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 3; k++) {
        draw(s, &tied[k], 2700 + (uint64_t)k);
        s->statistics = true;
        /* Scores of half of the queries are all 0, those of the others have two values. */
        memset(s->all.q, 0, ALL * N / 2 * WIDTH * sizeof(double));
        for (int64_t j = 0; j < BATCH * KEY_HEADS * N; j++)
            memcpy(s->all.k + j * WIDTH, s->all.k + j % 2 * WIDTH, WIDTH * sizeof(double));
        solve(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s", s->all.error.message);
        for (int ranks = 2; ranks < 5; ranks++) {
            const ota_shares order = ranks == 3 ? OTA_SHARES_IN_ORDER : OTA_SHARES_ZIGZAG;
            cut(s, ranks, order, true);
            crew_once(ranks, order, solve_part, s);
            compare(s, ranks);
        }
    }
    free(s);
}

static void hard_rows_have_the_same_bits_for_any_threads(void **state) {
    (void)state;
    static double first[3][ALL * N * VALUES];
    static const cell filled = {.method = "argmax", .cap = 0.011, .masses = true, .sink = true};
    scene *s = malloc(sizeof *s);
    draw(s, &filled, 2800);
    cut(s, 3, OTA_SHARES_ZIGZAG, true);
    for (int run = 0; run < 3; run++) {
        s->threads = 1 + run;
        crew_once(3, OTA_SHARES_ZIGZAG, solve_part, s);
        for (int r = 0; r < 3; r++) {
            if (run == 0) memcpy(first[r], s->part[r].out, sizeof first[r]);
            assert_memory_equal(first[r], s->part[r].out, sizeof first[r]);
        }
    }
    free(s);
}

/* Rows whose caps have no room for their mass end the run on every rank, whoever holds them. */
static void caps_without_room_are_told_to_all(void **state) {
    (void)state;
    static const cell narrow[] = {{.method = "softmax", .cap = 0.2, .causal = true},
                                  {.method = "argmax", .cap = 0.2, .causal = true}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &narrow[k], 2600);
        solve(s, &s->all, NULL);
        assert_int_equal(s->all.status, OTA_INFEASIBLE);
        cut(s, 3, OTA_SHARES_IN_ORDER, false);
        crew_once(3, OTA_SHARES_IN_ORDER, solve_part, s);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(s->part[r].status, OTA_INFEASIBLE);
            assert_string_equal(s->part[r].result.sentence, s->all.result.sentence);
            assert_true(isnan(s->part[r].out[0]));
        }
    }
    free(s);
}

/* ---- what is sent --------------------------------------------------------------------------------- */

/* The sum of docs/development/ranks.md: `left` is what steps of the thresholds add. */
static int64_t promised(const scene *s, int ranks, int rank, int64_t *step) {
    const int64_t number = s->cell->narrow ? 4 : 8;
    const bool hard = strcmp(s->cell->method, "argmax") == 0 && !(s->cell->cap > 0.0);
    const bool softmax = strcmp(s->cell->method, "softmax") == 0;
    int64_t passed = 0;
    for (int k = 0; k < ranks; k++) passed += k == (rank + 1) % ranks ? 0 : s->shares[k];
    const int64_t agree = 32, settle = 8 + 40 * ALL + 16;
    const int64_t keys = passed * WIDTH * number, values = passed * (WIDTH + VALUES) * number;
    *step = hard || softmax ? 0 : keys + 8;
    return agree + settle + BATCH * KEY_HEADS * (values + *step + (softmax ? keys : 0)) +
           (s->statistics ? ALL * (8 * N + 16) + (hard || softmax ? 0 : BATCH * KEY_HEADS * keys)
                          : 0);
}

static void bytes_are_those_of_the_formula(void **state) {
    (void)state;
    static const cell sent[] = {{.method = "sparsemax", .narrow = true},
                                {.method = "entmax:1.5", .causal = true},
                                {.method = "entmax:0.6"},
                                {.method = "softmax", .narrow = true},
                                {.method = "argmax"},
                                {.method = "argmax", .cap = 0.1}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 6; k++) {
        draw(s, &sent[k], 2500 + (uint64_t)k);
        s->statistics = k != 1;
        cut(s, 3, OTA_SHARES_ZIGZAG, true);
        crew_once(3, OTA_SHARES_ZIGZAG, solve_part, s);
        for (int r = 0; r < 3; r++) {
            int64_t step;
            const int64_t more = s->part[r].result.message_bytes - promised(s, 3, r, &step);
            assert_int_equal(s->part[r].status, OTA_OK);
            if (k != 2) assert_int_equal(more, 0);
            if (k == 2) assert_true(more > 0 && more % step == 0);
            const bool two =
                strstr(s->part[r].described, "message rounds of a forward: two") != NULL;
            assert_int_equal(two, k < 3 || k == 5);
        }
    }
    free(s);
}

TEST_FILE(test_ring_rows) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_a_ring_are_those_of_one_process),
        cmocka_unit_test(a_common_size_changes_nothing),
        cmocka_unit_test(rows_of_little_mass_are_whole),
        cmocka_unit_test(rows_of_steep_weights_are_those_of_one_process),
        cmocka_unit_test(lists_that_are_nearly_full),
        cmocka_unit_test(statistics_of_coupled_columns),
        cmocka_unit_test(certificates_of_a_ring_are_tight),
        cmocka_unit_test(rows_that_are_not_finite_are_those_of_one_process),
        cmocka_unit_test(equal_keys_are_filled_by_place),
        cmocka_unit_test(hard_rows_have_the_same_bits_for_any_threads),
        cmocka_unit_test(caps_without_room_are_told_to_all),
        cmocka_unit_test(bytes_are_those_of_the_formula),
        cmocka_unit_test(tangents_of_a_ring_are_those_of_one_process),
    };
    return cmocka_run_group_tests_name("ring_rows", tests, NULL, NULL);
}
