/* test_ring.c: keys that come round from rank to rank against one process that has them all: softmax on free columns and its
 * rounds, masks, terms, grouped heads, narrow types, both orders of shares, uneven and empty ones; the same bits for any
 * threads; gradients; what a call sends; memory; when the ring is chosen; refusals; a rank that fails at any message. */
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

enum { N = 61 };
#include "groups.h"
#include "ring_scene.h"

static const cell cells[] = {
    {.method = "softmax"},
    {.method = "softmax", .causal = true, .narrow = true},
    {.method = "softmax", .causal = true, .transposed = true},
    {.method = "softmax", .window = true, .alibi = true, .sink = true, .masses = true},
    {.method = "softmax", .dense = true, .relative = true, .temperatures = true},
    {.method = "softmax", .strided = true, .boolean = true, .softcap = true, .dropout = true},
    {.method = "softmax", .block = true, .lengths = true, .additive = true},
    {.method = "softmax/exact{tolerance=1e-5}"},
    {.method = "softmax/exact{rounds=5}", .narrow = true, .relative = true, .dropout = true},
    {.method = "softmax/exact{tolerance=1e-5}", .masses = true, .dense = true, .lengths = true},
    {.method = "softmax/relaxed:0.7", .causal = true, .sink = true},
    {.method = "softmax/capped:2.5", .window = true, .alibi = true, .temperatures = true},
    {.method = "softmax/bounded:0.4,1.8{tolerance=1e-5}", .narrow = true},
    {.method = "softmax/elastic:0.5,4", .causal = true, .start = true},
    {.method = "softmax/exact{rounds=5}", .masses = true, .lengths = true, .alibi = true},
    {.method = "softmax/capped:2.5{rounds=4}", .window = true, .sink = true, .temperatures = true},
    {.method = "softmax/relaxed:0.7{rounds=3}", .dense = true, .narrow = true},
    {.method = "softmax/bounded:0.4,1.8{rounds=6}", .causal = true, .masses = true},
    {.method = "softmax/capped:2.5", .softcap = true, .inside = true, .sink = true},
    {.method = "softmax/exact{rounds=5}", .softcap = true, .narrow = true, .masses = true},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

/* One process reverses no rounds that drop pairs on its kernel; what it does instead is in test_ring_parameters.c. */
static bool is_differentiated(const cell *c) {
    return !c->dropout || strchr(c->method, '/') == NULL;
}

/* To a tolerance two plans agree as far as both met it; else by the rounding of the type. */
static double tolerance_of(const cell *c) {
    const bool solves = strchr(c->method, '/') != NULL && strstr(c->method, "rounds") == NULL;
    const bool loose = strstr(c->method, "tolerance") != NULL || (solves && c->narrow);
    return loose ? 3e-4 : solves ? 1e-7 : c->narrow ? 4e-6 : 1e-12;
}

static void compare(const scene *s, int ranks) {
    const double tolerance = tolerance_of(s->cell);
    const bool coupled = strchr(s->cell->method, '/') != NULL;
    for (int k = 0; k < ranks; k++) {
        const rows *p = &s->part[k], *w = &s->all;
        expect_outputs(s, k, tolerance);
        /* Potentials of coupled columns have a constant of their own. */
        if (!coupled) expect_rows("lse", s, p, ALL, p->lse, w->lse, 1, tolerance);
        if (!coupled) expect_rows("row potential", s, p, ALL, p->f, w->f, 1, tolerance);
        for (int64_t j = 0; j < ALL * N && coupled; j++)
            assert_true(fabs(p->receiver[j] - w->receiver[j]) <= (double)N * tolerance);
        assert_memory_equal(p->g, s->part[0].g, sizeof p->g);
        assert_non_null(strstr(p->described, "ring over pieces of the keys"));
        if (!is_differentiated(s->cell)) continue;
        expect_gradients(s, p, 20.0 * tolerance);
    }
}

static void want_gradients(scene *s) { s->gradients = is_differentiated(s->cell); }

static void a_ring_is_one_process(void **state) {
    (void)state;
    in_three_ways(cells, CELLS, 100, want_gradients, compare);
}

/* Zigzag shares of which one rank's second piece is the longest of all, since its first is empty. */
static void pieces_of_any_length(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k += 3 * test_step()) {
        draw(s, &cells[k], 500 + (uint64_t)k);
        s->gradients = is_differentiated(s->cell);
        solve(s, &s->all, NULL);
        s->pieces = true;
        for (int ranks = 2; ranks <= 4; ranks++) {
            for (int r = 0; r < ranks; r++) {
                const int64_t share = N * (r + 1) / ranks - N * r / ranks;
                s->first[r][0] = s->first[r][1] = r == 1 ? 0 : share / 2;
            }
            cut(s, ranks, OTA_SHARES_ZIGZAG, false);
            crew_once(ranks, OTA_SHARES_ZIGZAG, solve_part, s);
            compare(s, ranks);
        }
    }
    free(s);
}

static void the_same_bits_for_any_threads(void **state) {
    (void)state;
    static double first[3][ALL * N * VALUES], keys[3][ALL * N * WIDTH];
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k += 3 * test_step()) {
        draw(s, &cells[k], 300 + (uint64_t)k);
        s->gradients = is_differentiated(s->cell);
        cut(s, 3, OTA_SHARES_ZIGZAG, true);
        for (int run = 0; run < 2; run++) {
            s->threads = 2 + run;
            crew *c = crew_of(3, OTA_SHARES_ZIGZAG);
            crew_run(c, solve_part, s);
            for (int r = 0; r < 3; r++) {
                if (run == 0) memcpy(first[r], s->part[r].out, sizeof first[r]);
                if (run == 0) memcpy(keys[r], s->part[r].dk, sizeof keys[r]);
                assert_memory_equal(first[r], s->part[r].out, sizeof first[r]);
                assert_memory_equal(keys[r], s->part[r].dk, sizeof keys[r]);
            }
            crew_free(c);
        }
    }
    free(s);
}

/* ---- along a direction, of gathered keys ---------------------------------------------------------- */

static void tangents_are_those_of_one_process(void **state) {
    (void)state;
    static const int moved[] = {1, 2, 3, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17};
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof moved / sizeof moved[0]; k += (size_t)test_step()) {
        draw(s, &cells[moved[k]], 1000 + k);
        s->transport = OTA_KEYS_GATHERED;
        s->all.result.size = sizeof s->all.result;
        move(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        for (int ranks = 1; ranks <= 4; ranks++) {
            const ota_shares order = ranks % 2 == 0 ? OTA_SHARES_IN_ORDER : OTA_SHARES_ZIGZAG;
            cut(s, ranks, order, ranks > 2);
            crew_once(ranks, order, move_part, s);
            for (int r = 0; r < ranks; r++) {
                const rows *p = &s->part[r];
                if (p->status != s->all.status)
                    fail_msg("%s: %s", s->cell->method, p->error.message);
                expect_rows("tangent", s, p, ALL, p->moved, s->all.moved, VALUES,
                            20.0 * tolerance_of(s->cell));
            }
        }
    }
    free(s);
}

/* ---- gradients of masses and parameters, of gathered keys and in a ring ------------------------------ */

static void weigh(scene *s, rows *r, const ota_communicator *with) {
    setting now;
    ota_plan *plan = NULL;
    set(&now, s, r, with);
    now.options.gradients = 1;
    const ota_column_rule rule = now.problem.columns;
    ota_gradients want = {.size = sizeof want};
    double *number = r->numbers;
    const struct {
        ota_array *to;
        bool wanted;
    } numbers[] = {{&want.strength, rule == OTA_COLUMNS_RELAXED || rule == OTA_COLUMNS_ELASTIC},
                   {&want.cap, rule == OTA_COLUMNS_CAPPED},
                   {&want.lower, rule == OTA_COLUMNS_BOUNDED},
                   {&want.upper, rule == OTA_COLUMNS_BOUNDED}};
    for (int k = 0; k < 4; k++) {
        if (numbers[k].wanted) *numbers[k].to = ota_array_of(&number[k], OTA_F64, 1, 1, 1, 1);
    }
    want.out_grad = ota_array_of(r->out_grad, OTA_F64, BATCH, HEADS, r->n, VALUES);
    want.row_mass = ota_array_of(r->dmu, OTA_F64, 1, HEADS, 1, r->n);
    const bool given = s->cell->masses || s->cell->empty > 0;
    if ((given && rule != OTA_COLUMNS_FREE) || rule == OTA_COLUMNS_CAPPED)
        want.column_mass = ota_array_of(r->dnu, OTA_F64, 1, 1, 1, N);
    r->status = ota_plan_create(&plan, &now.problem, VALUES, &now.options, &r->error);
    if (r->status >= OTA_OK) r->status = ota_forward(plan, &now.arrays, NULL, &r->error);
    if (r->status >= OTA_OK) r->status = ota_backward(plan, &now.arrays, &want, NULL, &r->error);
    /* Along masses, some of which grow from 0. */
    ota_tangents tangents = {.size = sizeof tangents};
    tangents.out = ota_array_of(r->moved, OTA_F64, BATCH, HEADS, r->n, VALUES);
    tangents.row_mass = ota_array_of(r->out_grad, OTA_F64, 1, 1, 1, r->n);
    tangents.row_mass.stride[3] = VALUES;
    if (given && rule != OTA_COLUMNS_FREE)
        tangents.column_mass = ota_array_of(s->start, OTA_F64, 1, 1, 1, N);
    if (r->status >= OTA_OK && s->cell->empty > 0)
        r->status = ota_jvp(plan, &now.arrays, &tangents, NULL, &r->error);
    ota_plan_free(plan);
}

static void weigh_part(crew_rank *rank, void *context) {
    scene *s = context;
    rank->to.keys = s->transport;
    weigh(s, &s->part[rank->to.rank], &rank->to);
}

static void masses_and_parameters_are_those_of_one_process(void **state) {
    (void)state;
    static const cell weighed[] = {
        {.method = "softmax/exact", .masses = true, .dense = true, .lengths = true},
        {.method = "softmax/exact{rounds=5}", .masses = true},
        {.method = "softmax/exact{rounds=5}", .masses = true, .dropout = true},
        {.method = "softmax/relaxed:0.7", .causal = true, .sink = true},
        {.method = "softmax/capped:2.5", .window = true},
        {.method = "softmax/bounded:0.4,1.8"},
        {.method = "softmax/elastic:0.5,4", .causal = true},
        {.method = "softmax/capped:2.5{rounds=4}", .window = true},
        {.method = "softmax/bounded:0.4,1.8{rounds=3}", .masses = true},
        {.method = "softmax/relaxed:0.7{rounds=3}", .causal = true, .masses = true, .sink = true},
        {.method = "softmax", .masses = true, .sink = true},
        {.method = "softmax", .masses = true, .softcap = true},
        {.method = "entmax:1.5", .masses = true, .causal = true},
        {.method = "entmax:1.5/exact", .masses = true, .lengths = true},
        {.method = "entmax:1.5/capped:2.5", .causal = true, .sink = true},
        {.method = "softmax/relaxed:0.7", .masses = true, .cap = 0.2},
        {.method = "softmax", .empty = 7, .sink = true, .causal = true},
        {.method = "softmax", .empty = 7, .softcap = true},
        {.method = "softmax", .empty = 7, .dropout = true, .cap = 0.2},
        {.method = "entmax:1.5", .empty = 7, .sink = true},
        {.method = "entmax:0.7", .empty = 7, .window = true},
        {.method = "softmax/exact", .empty = 7, .dense = true, .window = true},
        {.method = "softmax/exact", .empty = 7, .softcap = true, .inside = true},
        {.method = "softmax/relaxed:0.7", .empty = 7, .sink = true},
        {.method = "softmax/capped:2.5", .empty = 7, .sink = true},
        {.method = "softmax/bounded:0.2,2.5", .empty = 7},
        {.method = "softmax/exact{rounds=5}", .empty = 7},
        {.method = "softmax/exact{rounds=3}", .empty = 7, .softcap = true},
        {.method = "softmax/exact{rounds=1}", .empty = 7, .window = true, .start = true},
        {.method = "softmax/capped:2.5{rounds=4}", .empty = 7, .causal = true, .sink = true},
        {.method = "softmax/bounded:0.2,2.5{rounds=2}", .empty = 7, .start = true},
        {.method = "softmax/relaxed:0.7{rounds=3}", .empty = 7, .sink = true},
        {.method = "entmax:1.5/exact", .empty = 7},
        {.method = "sparsemax/bounded:0.7,1.3", .empty = 7},
        {.method = "entmax:1.5/capped:2.5", .empty = 7, .causal = true, .sink = true},
        {.method = "entmax:0.7/exact", .empty = 7}};
    enum { WEIGHED = (int)(sizeof weighed / sizeof weighed[0]) };
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2 * WEIGHED; k++) {
        draw(s, &weighed[k / 2], 1200 + (uint64_t)k);
        s->transport = k % 2 == 0 ? OTA_KEYS_GATHERED : OTA_KEYS_IN_RING;
        weigh(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s: %s", s->cell->method, s->all.error.message);
        cut(s, 3, OTA_SHARES_ZIGZAG, true);
        crew_once(3, OTA_SHARES_ZIGZAG, weigh_part, s);
        const double tolerance = 1e-6;
        for (int r = 0; r < 3; r++) {
            const rows *p = &s->part[r], *w = &s->all;
            if (p->status != w->status) fail_msg("%s: %s", s->cell->method, p->error.message);
            expect_rows("gradient of row_mass", s, p, HEADS, p->dmu, w->dmu, 1, tolerance);
            expect_rows("tangent along masses", s, p, ALL, p->moved, w->moved, VALUES, tolerance);
            for (int64_t j = 0; j < N; j++) {
                /* A key that no query of some head may use has no mass to give, whatever number all the others have in common. */
                if (s->cell->lengths && j >= N - 9) continue;
                if (!(fabs(p->dnu[j] - w->dnu[j]) <= tolerance * fmax(1.0, fabs(w->dnu[j]))))
                    fail_msg("%s: gradient of column_mass %d is %.17g where one process has %.17g",
                             s->cell->method, (int)j, p->dnu[j], w->dnu[j]);
            }
            for (int j = 0; j < 4; j++)
                assert_true(fabs(p->numbers[j] - w->numbers[j]) <=
                            tolerance * fmax(1.0, fabs(w->numbers[j])));
        }
    }
    free(s);
}

/* What a ring has no gradients of is refused by name, not left as it was. */
static void want_other(crew_rank *rank, void *context) {
    scene *s = context;
    rows *r = &s->part[rank->to.rank];
    setting now;
    ota_plan *plan = NULL;
    rank->to.keys = OTA_KEYS_IN_RING;
    set(&now, s, r, &rank->to);
    now.options.gradients = 1;
    ota_gradients want = {.size = sizeof want};
    want.out_grad = ota_array_of(r->out_grad, OTA_F64, BATCH, HEADS, r->n, VALUES);
    want.scores = ota_array_of(r->dense, OTA_F64, BATCH, HEADS, r->n, N);
    r->status = ota_plan_create(&plan, &now.problem, VALUES, &now.options, &r->error);
    if (r->status >= OTA_OK) r->status = ota_forward(plan, &now.arrays, NULL, &r->error);
    if (r->status >= OTA_OK) r->status = ota_backward(plan, &now.arrays, &want, NULL, &r->error);
    ota_plan_free(plan);
}

static void other_gradients_are_refused(void **state) {
    (void)state;
    static const cell other[] = {{.method = "entmax:1.5"}, {.method = "softmax"}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &other[k], 1300);
        cut(s, 2, OTA_SHARES_IN_ORDER, false);
        crew_once(2, OTA_SHARES_IN_ORDER, want_other, s);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(s->part[r].status, OTA_UNSUPPORTED);
            assert_non_null(strstr(s->part[r].error.message, "has no gradients of matrices"));
        }
    }
    free(s);
}

/* ---- what is sent --------------------------------------------------------------------------------- */

/* The sum that docs/development/ranks.md promises of `rank`, for a forward of K rounds. */
static int64_t promised(const scene *s, int ranks, int rank, int64_t rounds) {
    const cell *c = s->cell;
    const int64_t number = c->narrow ? 4 : 8;
    int64_t passed = 0;
    for (int k = 0; k < ranks; k++) passed += k == (rank + 1) % ranks ? 0 : s->shares[k];
    const int64_t agree = 32, settle = 8 + 40 * ALL + 16;
    const int64_t values = passed * (WIDTH + VALUES) * number, keys = passed * WIDTH * number;
    if (rounds == 0) return agree + settle + BATCH * KEY_HEADS * values;
    const bool masked = c->causal || c->relative;
    return agree + settle + ALL * (8 * N + 16) +
           ALL * ((2 * rounds + 1) * keys + values + 8 * (N + 5) * (rounds + 1) + 40 +
                  (masked ? 8 * N : 0));
}

/* Likewise of a backward of K fixed rounds whose outputs are not given. */
static int64_t promised_back(const scene *s, int ranks, int rank, int64_t rounds) {
    int64_t passed = 0;
    for (int k = 0; k < ranks; k++) passed += k == (rank + 1) % ranks ? 0 : s->shares[k];
    const int64_t keys = passed * WIDTH * 8, values = passed * (WIDTH + VALUES) * 8;
    const int64_t again = 2 * rounds * keys + values + 8 * (N + 5) * rounds + 40;
    const int64_t reversed = values + (2 * rounds - 1) * keys + rounds * 8 * (N + 2) + 24;
    const int64_t last = values + 8 * N * (WIDTH + VALUES);
    return 32 + 8 + ALL * (again + reversed + last);
}

/* What each of three ranks sends of one problem is what the formula says. */
static void bytes_are_promised(const cell *c, uint64_t seed, int64_t rounds, bool gradients) {
    scene *s = malloc(sizeof *s);
    draw(s, c, seed);
    s->gradients = gradients;
    cut(s, 3, OTA_SHARES_ZIGZAG, true);
    crew *ranks = crew_of(3, OTA_SHARES_ZIGZAG);
    crew_run(ranks, solve_part, s);
    for (int r = 0; r < 3; r++) {
        if (gradients)
            assert_int_equal(s->part[r].backward.message_bytes, promised_back(s, 3, r, rounds));
        else
            assert_int_equal(s->part[r].result.message_bytes, promised(s, 3, r, rounds));
    }
    crew_free(ranks);
    free(s);
}

static void bytes_are_those_of_the_formula(void **state) {
    (void)state;
    static const cell fixed[] = {{.method = "softmax"},
                                 {.method = "softmax", .narrow = true, .causal = true},
                                 {.method = "softmax/exact{rounds=3}", .narrow = true},
                                 {.method = "softmax/elastic:0.5,2", .causal = true}};
    static const int64_t rounds[] = {0, 0, 3, 2};
    for (int k = 0; k < 4; k++) bytes_are_promised(&fixed[k], 700 + (uint64_t)k, rounds[k], false);
}

static void bytes_of_a_reverse_are_those_of_the_formula(void **state) {
    (void)state;
    static const cell fixed[] = {{.method = "softmax/exact{rounds=1}"},
                                 {.method = "softmax/capped:2.5{rounds=4}"}};
    static const int64_t rounds[] = {1, 4};
    for (int k = 0; k < 2; k++) bytes_are_promised(&fixed[k], 750 + (uint64_t)k, rounds[k], true);
}

/* ---- choice and refusals -------------------------------------------------------------------------- */

enum { MANY = 2048, WIDE = 64, RANKS_OF_MANY = 4, OF_RANK = MANY / RANKS_OF_MANY };

/* One head of many keys, whose memory is worth a choice. */
typedef struct crowd {
    float queries[MANY * WIDE], out[2][MANY * WIDE];
    ota_key_transport transport;
    size_t limit[RANKS_OF_MANY], bytes[RANKS_OF_MANY];
    bool ring[RANKS_OF_MANY];
    int run;
    ota_status status[RANKS_OF_MANY];
} crowd;

static void solve_crowd(crew_rank *rank, void *context) {
    crowd *all = context;
    const int number = rank->to.rank;
    float *mine = all->queries + number * OF_RANK * WIDE;
    char text[2048];
    rank->to.keys = all->transport;
    ota_problem problem = {.size = sizeof problem};
    problem.queries = problem.keys = ota_array_of(mine, OTA_F32, 1, 1, OF_RANK, WIDE);
    const ota_options options = {.size = sizeof options,
                                 .threads = 1,
                                 .communicator = &rank->to,
                                 .workspace_limit = all->limit[number]};
    ota_arrays arrays = {.size = sizeof arrays, .values = problem.keys};
    arrays.out =
        ota_array_of(all->out[all->run] + number * OF_RANK * WIDE, OTA_F32, 1, 1, OF_RANK, WIDE);
    ota_plan *plan = NULL;
    ota_status *status = &all->status[number];
    *status = ota_plan_create(&plan, &problem, WIDE, &options, NULL);
    if (*status < OTA_OK) return;
    all->bytes[number] = ota_plan_bytes(plan);
    (void)ota_plan_describe(plan, text, sizeof text);
    all->ring[number] = strstr(text, "ring over pieces of the keys") != NULL;
    *status = ota_forward(plan, &arrays, NULL, NULL);
    ota_plan_free(plan);
}

static void run_crowd(crowd *all) {
    crew_once(RANKS_OF_MANY, OTA_SHARES_IN_ORDER, solve_crowd, all);
    for (int k = 0; k < RANKS_OF_MANY; k++) assert_int_equal(all->status[k], OTA_OK);
}

/* A ring takes less memory; one rank without room decides for all, and the plan is the same. */
static void a_ring_is_chosen_where_there_is_no_room(void **state) {
    (void)state;
    crowd *all = calloc(1, sizeof *all);
    dice_state = 11;
    for (int64_t k = 0; k < MANY * WIDE; k++) all->queries[k] = (float)normal(&dice_state);
    run_crowd(all);
    const size_t gathered = all->bytes[2];
    assert_false(all->ring[2]);
    all->run = 1;
    all->transport = OTA_KEYS_IN_RING;
    run_crowd(all);
    const size_t transposed = all->bytes[2];
    assert_true(transposed < gathered);
    all->transport = OTA_KEYS_AUTO;
    all->limit[2] = (transposed + gathered) / 2;
    run_crowd(all);
    for (int k = 0; k < RANKS_OF_MANY; k++) assert_true(all->ring[k]);
    for (int64_t k = 0; k < MANY * WIDE; k++)
        assert_true(fabsf(all->out[0][k] - all->out[1][k]) <= 1e-5f);
    all->limit[2] = transposed / 2;
    crew_once(RANKS_OF_MANY, OTA_SHARES_IN_ORDER, solve_crowd, all);
    for (int k = 0; k < RANKS_OF_MANY; k++)
        assert_int_equal(all->status[k], k == 2 ? OTA_ELIMIT : OTA_EMISMATCH);
    free(all);
}

typedef struct refusal {
    cell cell;
    const char *words;
    bool without_call;
} refusal;

static void refusals_name_what_a_ring_lacks(void **state) {
    (void)state;
    static const refusal refusals[] = {
        {{.method = "softmax/relaxed:0.7", .rows = 1.0}, "ring: pieces of the keys", false},
        {{.method = "hard/exact"}, "cannot come round a ring: pieces of the keys", false},
        {{.method = "hard/exact", .cap = 0.2},
         "cannot come round a ring: pieces of the keys",
         false},
        {{.method = "softmax"}, "no send_receive, which a ring needs", true},
    };
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
        draw(s, &refusals[k].cell, 900);
        cut(s, 2, OTA_SHARES_IN_ORDER, false);
        crew *c = crew_of(2, OTA_SHARES_IN_ORDER);
        for (int r = 0; r < 2 && refusals[k].without_call; r++) c->rank[r].to.send_receive = NULL;
        crew_run(c, solve_part, s);
        for (int r = 0; r < 2; r++) {
            assert_true(s->part[r].status < OTA_OK);
            if (strstr(s->part[r].error.message, refusals[k].words) == NULL)
                fail_msg("%s", s->part[r].error.message);
        }
        crew_free(c);
    }
    /* A ring of one rank has nobody to send to. */
    draw(s, &refusals[3].cell, 900);
    cut(s, 1, OTA_SHARES_IN_ORDER, false);
    crew *c = crew_of(1, OTA_SHARES_IN_ORDER);
    c->rank[0].to.send_receive = NULL;
    crew_run(c, solve_part, s);
    assert_int_equal(s->part[0].status, OTA_OK);
    crew_free(c);
    free(s);
}

/* ---- failures ------------------------------------------------------------------------------------- */

static void a_rank_that_fails_ends_all(void **state) {
    (void)state;
    enum { RANKS = 3 };
    static const int tried[] = {1, 7, 14};
    scene *s = malloc(sizeof *s);
    bool named = false;
    for (int k = 0; k < 3; k++) {
        draw(s, &cells[tried[k]], 400);
        s->gradients = is_differentiated(s->cell);
        cut(s, RANKS, OTA_SHARES_IN_ORDER, false);
        named |= fail_in_turn(s, RANKS, 4);
    }
    assert_true(named);
    free(s);
}

/* Mass on numbers that stand for "forbidden" is told, each rank's part of one process's. */
static void mass_on_masked_pairs_is_told(void **state) {
    (void)state;
    static const cell tried[] = {
        {.method = "softmax/exact", .additive = true, .temperature = 1000.0},
        {.method = "entmax:1.5/exact", .additive = true},
        {.method = "softmax/elastic:0.5,3", .additive = true, .temperature = 1000.0}};
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof tried / sizeof tried[0]; k++) {
        draw(s, &tried[k], 440);
        for (int64_t e = 0; e < ALL * N; e++) s->start[e] = e % N < 3 ? -1e4 : 0.0;
        solve(s, &s->all, NULL);
        if (s->all.status < OTA_OK) fail_msg("%s", s->all.error.message);
        assert_true(s->all.result.masked_share > 1e-6);
        cut(s, 2, OTA_SHARES_IN_ORDER, false);
        crew_once(2, OTA_SHARES_IN_ORDER, solve_part, s);
        for (int r = 0; r < 2; r++)
            if (s->part[r].status < OTA_OK) fail_msg("%s", s->part[r].error.message);
        const double share = s->part[0].result.masked_share + s->part[1].result.masked_share;
        s->transport = OTA_KEYS_GATHERED;
        crew_once(2, OTA_SHARES_IN_ORDER, solve_part, s);
        for (int r = 0; r < 2; r++) assert_true(s->part[r].result.masked_share > 0.0);
        const double gathered = s->part[0].result.masked_share + s->part[1].result.masked_share;
        /* Shares are the largest of any head, of which each rank may have another. */
        assert_true(fabs(share - gathered) <= 1e-7);
        assert_true(share >= s->all.result.masked_share - 1e-7);
    }
    free(s);
}

/* Potentials that are not those of the plan: its sums tell, as on one process. */
static void sums_that_are_missed_are_told(void **state) {
    (void)state;
    static const cell tried[] = {{.method = "softmax/exact", .masses = true},
                                 {.method = "softmax/bounded:0.9,1.1"},
                                 {.method = "entmax:1.5/exact"}};
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof tried / sizeof tried[0]; k++) {
        draw(s, &tried[k], 430);
        s->gradients = s->spoilt = true;
        solve(s, &s->all, NULL);
        assert_int_equal(s->all.reversed, OTA_TOL_UNREACHABLE);
        cut(s, 2, OTA_SHARES_IN_ORDER, false);
        crew_once(2, OTA_SHARES_IN_ORDER, solve_part, s);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(s->part[r].reversed, OTA_TOL_UNREACHABLE);
            assert_non_null(strstr(s->part[r].error.message, "potentials do not hold the plan"));
            assert_true(isnan(s->part[r].dq[0]));
        }
        crew_once(2, OTA_SHARES_IN_ORDER, move_part, s);
        for (int r = 0; r < 2; r++) assert_int_equal(s->part[r].status, OTA_TOL_UNREACHABLE);
    }
    free(s);
}

TEST_FILE(test_ring) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_one_process),
        cmocka_unit_test(pieces_of_any_length),
        cmocka_unit_test(the_same_bits_for_any_threads),
        cmocka_unit_test(tangents_are_those_of_one_process),
        cmocka_unit_test(masses_and_parameters_are_those_of_one_process),
        cmocka_unit_test(other_gradients_are_refused),
        cmocka_unit_test(bytes_are_those_of_the_formula),
        cmocka_unit_test(bytes_of_a_reverse_are_those_of_the_formula),
        cmocka_unit_test(a_ring_is_chosen_where_there_is_no_room),
        cmocka_unit_test(refusals_name_what_a_ring_lacks),
        cmocka_unit_test(a_rank_that_fails_ends_all),
        cmocka_unit_test(sums_that_are_missed_are_told),
        cmocka_unit_test(mass_on_masked_pairs_is_told),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
