/* test_ring_newton.c: coupled columns of entmax, and of weights with caps of entries, whose keys come round a ring, against one
 * process: outputs, receivers, potentials, statistics and certificates; the same bits on all ranks and for any threads; what a
 * plan takes; heads without a plan; a rank that fails at any message, or is cancelled. */
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

enum { N = 41 };
#include "groups.h"
#include "ring_scene.h"

/* With the number of ranks. */
typedef struct share {
    cell cell;
    int ranks;
} share;

static const share shares[] = {
    {{.method = "entmax:1.5/exact", .masses = true, .relative = true}, 2},
    {{.method = "sparsemax/exact", .narrow = true, .temperature = 4.0}, 5},
    {{.method = "entmax:1.25/relaxed:0.7", .causal = true, .sink = true}, 3},
    {{.method = "entmax:1.5/capped:2.5", .window = true, .alibi = true, .temperatures = true}, 4},
    {{.method = "sparsemax/bounded:0.4,1.8", .dense = true, .temperature = 3.0}, 2},
    {{.method = "entmax:1.5/exact", .lengths = true, .masses = true, .start = true}, 3},
    {{.method = "entmax:1.5/relaxed:2", .softcap = true, .inside = true, .dropout = true}, 1},
    {{.method = "entmax:0.6/exact", .masses = true, .wide = true, .narrow = true}, 2},
    {{.method = "softmax/exact", .cap = 0.2, .masses = true}, 2},
    {{.method = "softmax/capped:2.5", .caps = true, .causal = true, .sink = true}, 3},
    {{.method = "softmax/relaxed:0.7", .cap = 0.15, .lengths = true, .alibi = true}, 2},
    {{.method = "entmax:1.5/bounded:0.8,1.2", .caps = true, .temperature = 2.0}, 2},
    {{.method = "entmax:3/exact", .masses = true}, 3},
    {{.method = "entmax:5/capped:2.5", .causal = true, .dropout = true}, 2},
    {{.method = "entmax:3/relaxed:2", .softcap = true, .sink = true}, 2},
    /* So cold that falling temperatures are needed. */
    {{.method = "sparsemax/exact", .masses = true, .temperature = 0.02}, 1},
};
enum { SHARES = (int)(sizeof shares / sizeof shares[0]) };

static double tolerance_of(const cell *c) { return c->narrow ? 3e-4 : 1e-6; }

static void compare(const scene *s, int ranks) {
    const double tolerance = tolerance_of(s->cell);
    for (int k = 0; k < ranks; k++) {
        const rows *p = &s->part[k], *w = &s->all;
        expect_outputs(s, k, tolerance);
        expect_rows("entropy", s, p, ALL, p->entropy, w->entropy, 1, 10.0 * tolerance);
        expect_rows("largest weight", s, p, ALL, p->largest, w->largest, 1, tolerance);
        for (int64_t j = 0; j < ALL * N; j++)
            assert_true(fabs(p->receiver[j] - w->receiver[j]) <= (double)N * tolerance);
        assert_memory_equal(p->g, s->part[0].g, sizeof p->g);
        assert_string_equal(p->result.solver, "newton");
        assert_non_null(strstr(p->described, "ring over pieces of the keys"));
        expect_gradients(s, p, 50.0 * tolerance);
    }
}

/* One process, then ranks of `threads` each. */
static void solve_both_ways(scene *s, int ranks, int threads, ota_shares order, bool uneven) {
    solve(s, &s->all, NULL);
    if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
    cut(s, ranks, order, uneven);
    s->threads = threads;
    crew_once(ranks, order, solve_part, s);
    compare(s, ranks);
}

static void columns_of_a_ring_are_those_of_one_process(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < SHARES; k += test_step()) {
        const int ranks = shares[k].ranks;
        const ota_shares order = k % 2 == 0 ? OTA_SHARES_IN_ORDER : OTA_SHARES_ZIGZAG;
        draw(s, &shares[k].cell, 3000 + (uint64_t)k);
        s->statistics = s->gradients = true;
        solve_both_ways(s, ranks, 1 + k % 2, order, k % 3 == 1);
    }
    free(s);
}

/* Keys that are nobody's first choice, so that column updates take turns with steps; key 20 has no query, or no mass, and none
 * of them moves it. */
static void column_updates_go_round(void **state) {
    (void)state;
    static const cell hard[] = {
        {.method = "sparsemax/exact", .cap = 0.11, .masses = true, .temperature = 0.03},
        {.method = "sparsemax/capped:1.3", .cap = 0.11, .boolean = true, .temperature = 0.02}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k += test_step()) {
        draw(s, &hard[k], 3700 + (uint64_t)k);
        rows *w = &s->all;
        for (int64_t x = 0; x < ALL * N * WIDTH; x++)
            if (x / WIDTH % N < N / 2) w->k[x] = -3.0;
        for (int64_t i = 0; i < N; i++) w->boolean[i * N + 20] = 0;
        s->nu[21] += s->nu[20];
        s->nu[20] = 0.0;
        s->statistics = true;
        solve_both_ways(s, 2, 1, OTA_SHARES_IN_ORDER, false);
    }
    free(s);
}

/* Additive masks of one number on all pairs: a constant of the potentials of rows, which hold no weight beside it. */
static void a_common_size_changes_nothing(void **state) {
    (void)state;
    static const share high[] = {
        {{.method = "entmax:1.5/exact", .masses = true, .additive = true}, 2},
        {{.method = "sparsemax/exact", .additive = true}, 3},
        {{.method = "entmax:2.5/exact", .additive = true}, 2},
        {{.method = "entmax:0.7/exact", .additive = true}, 2},
        {{.method = "entmax:1.5/capped:1.2", .additive = true}, 2},
        {{.method = "sparsemax/bounded:0.5,1.5", .additive = true}, 3},
        {{.method = "entmax:1.5/relaxed:0.7", .additive = true}, 2},
        {{.method = "entmax:1.5/exact", .cap = 0.2, .additive = true}, 2},
        {{.method = "softmax/exact", .cap = 0.2, .additive = true}, 2}};
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof high / sizeof high[0]; k++) {
        draw(s, &high[k].cell, 3800 + k);
        for (int64_t e = 0; e < ALL * N; e++) s->start[e] = k % 2 == 0 ? 1e8 : -1e8;
        s->statistics = s->gradients = true;
        solve_both_ways(s, high[k].ranks, 1, OTA_SHARES_IN_ORDER, k % 3 == 1);
        move(s, &s->all, NULL);
        crew_once(high[k].ranks, OTA_SHARES_IN_ORDER, move_part, s);
        for (int r = 0; r < high[k].ranks; r++) {
            if (s->part[r].status != s->all.status)
                fail_msg("%s: %s", s->cell->method, s->part[r].error.message);
            expect_rows("tangent", s, &s->part[r], ALL, s->part[r].moved, s->all.moved, VALUES,
                        50.0 * tolerance_of(s->cell));
        }
    }
    free(s);
}

static void tangents_are_those_of_one_process(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < SHARES; k += test_step()) {
        const int ranks = shares[k].ranks;
        const ota_shares order = k % 2 == 0 ? OTA_SHARES_IN_ORDER : OTA_SHARES_ZIGZAG;
        draw(s, &shares[k].cell, 3600 + (uint64_t)k);
        s->all.result.size = sizeof s->all.result;
        move(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        cut(s, ranks, order, k % 3 == 1);
        crew_once(ranks, order, move_part, s);
        for (int r = 0; r < ranks; r++) {
            const rows *p = &s->part[r];
            if (p->status != s->all.status) fail_msg("%s: %s", s->cell->method, p->error.message);
            expect_rows("tangent", s, p, ALL, p->moved, s->all.moved, VALUES,
                        50.0 * tolerance_of(s->cell));
        }
    }
    free(s);
}

/* One rank, whose piece of the keys is more than one task. */
static void the_same_bits_for_any_threads(void **state) {
    (void)state;
    static double first[ALL * N * VALUES];
    static const int tried[] = {4, 9};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &shares[tried[k]].cell, 3100);
        cut(s, 1, OTA_SHARES_IN_ORDER, false);
        for (int run = 0; run < 2; run++) {
            s->threads = 1 + 2 * run;
            crew_once(1, OTA_SHARES_IN_ORDER, solve_part, s);
            if (run == 0) memcpy(first, s->part[0].out, sizeof first);
            assert_memory_equal(first, s->part[0].out, sizeof first);
        }
    }
    free(s);
}

/* ---- certificates --------------------------------------------------------------------------------- */

/* The judge, who gathers, finds the optimum of what went round. */
static void certificates_are_tight(void **state) {
    (void)state;
    static const int tried[] = {0, 3, 8};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 3; k++) {
        draw(s, &shares[tried[k]].cell, 3200);
        cut(s, 2, OTA_SHARES_ZIGZAG, true);
        crew_once(2, OTA_SHARES_ZIGZAG, judge_part, s);
        for (int r = 0; r < 2; r++) {
            if (s->part[r].status < OTA_OK || s->part[r].reversed < OTA_OK)
                fail_msg("%s: %s", s->cell->method, s->part[r].error.message);
            assert_true(judged[r].row_error <= 1e-12 && judged[r].column_error <= 1e-8);
            assert_true(fabs(judged[r].gap) <= 1e-7 * fmax(1.0, fabs(judged[r].primal)));
            assert_memory_equal(&judged[r].primal, &judged[0].primal, sizeof(double));
        }
    }
    free(s);
}

/* ---- heads without a plan ------------------------------------------------------------------------- */

static void heads_without_a_plan_end_the_run_of_all(void **state) {
    (void)state;
    static const struct {
        cell cell;
        const char *words;
        ota_status status;
    } hopeless[] = {
        {{.method = "entmax:1.5/exact", .masses = true, .boolean = true},
         "no query may use it",
         OTA_INFEASIBLE},
        {{.method = "softmax/capped:2.5", .cap = 0.2, .causal = true},
         "add up to less than its mass",
         OTA_INFEASIBLE},
        {{.method = "softmax/exact", .caps = true, .masses = true},
         "and it must receive",
         OTA_INFEASIBLE},
        {{.method = "entmax:1.5/exact", .additive = true}, "hold NaN or +inf", OTA_NONFINITE}};
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof hopeless / sizeof hopeless[0]; k++) {
        draw(s, &hopeless[k].cell, 3300);
        for (int64_t i = 0; i < N; i++) s->all.boolean[i * N + 20] = 0;
        s->start[7] = NAN;
        double total = 0.0;
        for (int64_t j = 0; j < N; j++) total += s->nu[j];
        for (int64_t j = 0; j < N && hopeless[k].cell.caps; j++)
            s->nu[j] = j == 5 ? total / 2.0 : total / 2.0 / (N - 1);
        if (hopeless[k].cell.caps) {
            /* Room of a row without mass is none. */
            s->all.mu[1] += s->all.mu[0];
            s->all.mu[0] = 0.0;
            s->all.caps[5] = 2.0 * total;
        }
        /* What one head holds is nothing to the others. */
        const bool one_head = hopeless[k].cell.additive;
        if (one_head) solve(s, &s->all, NULL);
        cut(s, 3, OTA_SHARES_IN_ORDER, false);
        crew_once(3, OTA_SHARES_IN_ORDER, solve_part, s);
        bool said = false;
        for (int r = 0; r < 3; r++) {
            if (s->part[r].status != hopeless[k].status)
                fail_msg("%s: %s", s->cell->method, s->part[r].error.message);
            said |= strstr(s->part[r].error.message, hopeless[k].words) != NULL;
            assert_true(isnan(s->part[r].out[0]));
            if (one_head)
                expect_rows("out", s, &s->part[r], ALL, s->part[r].out, s->all.out, VALUES, 1e-6);
        }
        if (one_head) assert_true(isfinite(s->all.out[N * VALUES]));
        if (!said) fail_msg("%s", s->part[0].error.message);
    }
    free(s);
}

/* ---- failures ------------------------------------------------------------------------------------- */

static void a_rank_that_fails_ends_all(void **state) {
    (void)state;
    enum { RANKS = 3 };
    static const int tried[] = {0, 9};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &shares[tried[k]].cell, 3400);
        s->gradients = true;
        cut(s, RANKS, OTA_SHARES_IN_ORDER, false);
        (void)fail_in_turn(s, RANKS, 3);
    }
    free(s);
}

/* ---- interruptions -------------------------------------------------------------------------------- */

static int cancelled; /* read by rank 1 */
static int64_t cancel_at;

static int reduce(void *user, void *values, int64_t count, ota_type type, ota_reduction reduction) {
    const crew_rank *r = user;
    if (r->to.rank == 1 && r->messages >= cancel_at) cancelled = 1;
    return crew_all_reduce(user, values, count, type, reduction);
}

static void cancel_part(crew_rank *rank, void *context) {
    scene *s = context;
    rows *r = &s->part[rank->to.rank];
    setting now;
    rank->to.keys = OTA_KEYS_IN_RING;
    rank->to.all_reduce = reduce;
    set(&now, s, r, &rank->to);
    if (rank->to.rank == 1) now.options.cancel = &cancelled;
    r->status = ota_attend(&now.problem, &now.options, &now.arrays, &r->result, &r->error);
}

static void one_rank_cancels_all(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    draw(s, &shares[0].cell, 3500);
    cut(s, 3, OTA_SHARES_IN_ORDER, false);
    for (cancel_at = 8; cancel_at < 800; cancel_at *= 3) {
        cancelled = 0;
        crew_once(3, OTA_SHARES_IN_ORDER, cancel_part, s);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(s->part[r].status, OTA_CANCELLED);
            assert_true(isnan(s->part[r].out[0]));
        }
    }
    free(s);
}

/* ---- choice --------------------------------------------------------------------------------------- */

enum { MANY = 2048, OF_RANK = MANY / 2 };

typedef struct crowd {
    float queries[MANY * WIDTH];
    size_t bytes[2];
    bool ring[2];
    ota_status status[2];
} crowd;

static void plan_crowd(crew_rank *rank, void *context) {
    crowd *all = context;
    const int number = rank->to.rank;
    char text[2048];
    ota_plan *plan = NULL;
    ota_problem problem = {.size = sizeof problem, .regulariser = OTA_ENTMAX, .order = 1.5};
    problem.columns = OTA_COLUMNS_EXACT;
    problem.queries = problem.keys =
        ota_array_of(all->queries + number * OF_RANK * WIDTH, OTA_F32, 1, 1, OF_RANK, WIDTH);
    /* Room for one of the two matrices of f64 that gathered keys take. */
    const ota_options options = {.size = sizeof options,
                                 .threads = 1,
                                 .communicator = &rank->to,
                                 .workspace_limit = (size_t)OF_RANK * MANY * sizeof(double)};
    all->status[number] = ota_plan_create(&plan, &problem, WIDTH, &options, NULL);
    if (all->status[number] < OTA_OK) return;
    all->bytes[number] = ota_plan_bytes(plan);
    (void)ota_plan_describe(plan, text, sizeof text);
    all->ring[number] = strstr(text, "workspace_limit leaves no room") != NULL &&
                        strstr(text, "in every trial of Newton") != NULL;
    ota_plan_free(plan);
}

static void a_ring_is_chosen_where_scores_have_no_room(void **state) {
    (void)state;
    crowd *all = calloc(1, sizeof *all);
    crew_once(2, OTA_SHARES_IN_ORDER, plan_crowd, all);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(all->status[k], OTA_OK);
        assert_true(all->ring[k]);
        /* Not even one of them. */
        assert_true(all->bytes[k] < (size_t)OF_RANK * MANY * sizeof(double) / 4);
    }
    free(all);
}

TEST_FILE(test_ring_newton) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_a_ring_are_those_of_one_process),
        cmocka_unit_test(column_updates_go_round),
        cmocka_unit_test(a_common_size_changes_nothing),
        cmocka_unit_test(tangents_are_those_of_one_process),
        cmocka_unit_test(the_same_bits_for_any_threads),
        cmocka_unit_test(certificates_are_tight),
        cmocka_unit_test(heads_without_a_plan_end_the_run_of_all),
        cmocka_unit_test(a_rank_that_fails_ends_all),
        cmocka_unit_test(one_rank_cancels_all),
        cmocka_unit_test(a_ring_is_chosen_where_scores_have_no_room),
    };
    return cmocka_run_group_tests_name("ring_newton", tests, NULL, NULL);
}
