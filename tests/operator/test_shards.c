/* test_shards.c: rows on many ranks against one process: every method that shares its rows, masks, terms, grouped heads,
 * both orders of shares, uneven and empty shares; the same bits twice; what is counted; a rank that fails at any of its messages. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "groups.h"
#include "scale.h"
#include "shards_scene.h"

/* Gradients of everything that the problem has, of `n` rows. */
static ota_gradients gradients_of(const cell *c, grads *g, const setting *now, int64_t n,
                                  int64_t keys) {
    ota_gradients want = {.size = sizeof want};
    want.out_grad = ota_array_of(g->out, OTA_F64, BATCH, HEADS, n, VALUES);
    want.values = ota_array_of(g->v, OTA_F64, BATCH, c->matrix ? HEADS : KEY_HEADS, keys, VALUES);
    /* Of half the sum of the squares of P. */
    if (c->pairs > 0) want.coupling_grad = now->arrays.coupling;
    want.scores = ota_array_of(g->s, OTA_F64, BATCH, HEADS, n, N);
    if (!c->matrix) {
        want.queries = ota_array_of(g->q, OTA_F64, BATCH, HEADS, n, WIDTH);
        want.keys = ota_array_of(g->k, OTA_F64, BATCH, KEY_HEADS, keys, WIDTH);
    }
    want.temperature = ota_array_of(g->temperature, OTA_F64, 1, 1, 1, HEADS);
    if (now->problem.regulariser == OTA_ENTMAX)
        want.order = ota_array_of(&g->order, OTA_F64, 1, 1, 1, 1);
    if (now->problem.columns == OTA_COLUMNS_ELASTIC)
        want.strength = ota_array_of(&g->strength, OTA_F64, 1, 1, 1, 1);
    for (int64_t t = 0; t < now->problem.term_count; t++) {
        const ota_term_kind kind = now->terms[t].kind;
        g->terms[t] = kind == OTA_TERM_DENSE ? ota_array_of(g->dense, OTA_F64, 1, 1, n, N)
                      : kind == OTA_TERM_RELATIVE
                          ? ota_array_of(g->relative, OTA_F64, 1, HEADS, 1, 2 * N - 1)
                          : ota_array_of(&g->numbers[kind == OTA_TERM_ALIBI], OTA_F64, 1, 1, 1, 1);
    }
    want.terms = g->terms;
    return want;
}

static bool is_differentiated(const cell *c) {
    return strcmp(c->method, "argmax") != 0 && !c->slim;
}

static bool says_what_it_gathers(const ota_plan *plan, const cell *c) {
    const int width = c->slim ? 2 : WIDTH + VALUES, element = c->narrow ? 4 : 8;
    char text[4096], line[64];
    (void)ota_plan_describe(plan, text, sizeof text);
    (void)snprintf(line, sizeof line, "gathered: %d bytes of keys and values",
                   c->matrix ? 0 : BATCH * KEY_HEADS * N * width * element);
    return strstr(text, line) != NULL;
}

static void solve_whole(scene *s) {
    setting now = {0};
    part *w = &s->all;
    const cell *c = s->cell;
    ota_options options = {.size = sizeof options, .threads = 1};
    set_part(&now, s, w, &options);
    w->result = (ota_result){.size = sizeof w->result};
    ota_error error;
    w->status = ota_attend(&now.problem, &options, &now.arrays, &w->result, &error);
    if (w->status < 0) fail_msg("%s: %s", c->method, error.message);
    w->certificate = (ota_certificate){.size = sizeof w->certificate};
    if (ota_certify(&now.problem, &options, &now.arrays, &w->certificate, NULL, &error) < 0)
        fail_msg("%s: %s", c->method, error.message);
    if (!is_differentiated(c)) return;
    ota_plan *plan = NULL;
    options.gradients = 1;
    const ota_gradients want = gradients_of(c, &w->grads, &now, N, N);
    if (ota_plan_create(&plan, &now.problem, VALUES, &options, &error) < 0 ||
        ota_forward(plan, &now.arrays, NULL, &error) < 0 ||
        ota_backward(plan, &now.arrays, &want, NULL, &error) < 0)
        fail_msg("%s: %s", c->method, error.message);
    ota_plan_free(plan);
}

static void solve_part(crew_rank *rank, void *context) {
    scene *s = context;
    part *p = &s->parts[rank->to.rank];
    setting now = {0};
    if (s->pieces) rank->to.first_pieces = s->first[rank->to.rank];
    ota_options options = {.size = sizeof options,
                           .threads = s->threads,
                           .communicator = &rank->to,
                           .gradients = is_differentiated(s->cell)};
    set_part(&now, s, p, &options);
    p->result = (ota_result){.size = sizeof p->result};
    p->judged = p->grads.status = OTA_OK;
    p->error = (ota_error){.message = ""};
    ota_plan *plan = NULL;
    p->status =
        ota_plan_create(&plan, &now.problem, now.arrays.values.size[3], &options, &p->error);
    if (p->status != OTA_OK) return;
    p->described = says_what_it_gathers(plan, s->cell);
    const int64_t before[2] = {rank->messages, rank->bytes};
    p->status = ota_forward(plan, &now.arrays, &p->result, &p->error);
    rank->messages -= before[0];
    rank->bytes -= before[1];
    if (p->status >= 0 && is_differentiated(s->cell)) {
        const cell *c = s->cell;
        const int64_t sent[2] = {rank->messages, rank->bytes};
        ota_gradients want = gradients_of(c, &p->grads, &now, p->n, c->matrix ? N : p->n);
        want.size = offsetof(ota_gradients, lower); /* of a caller who knows no bounds */
        p->backward = (ota_result){.size = sizeof p->backward};
        p->grads.status = ota_backward(plan, &now.arrays, &want, &p->backward, &p->error);
        p->backward.messages -= rank->messages - sent[0];
        p->backward.message_bytes -= rank->bytes - sent[1];
        rank->messages = sent[0];
        rank->bytes = sent[1];
    }
    ota_plan_free(plan);
    if (p->status < 0 || p->grads.status < 0) return;
    const int64_t counted[2] = {rank->messages, rank->bytes};
    p->certificate = (ota_certificate){.size = sizeof p->certificate};
    p->judged = ota_certify(&now.problem, &options, &now.arrays, &p->certificate, NULL, &p->error);
    rank->messages = counted[0];
    rank->bytes = counted[1];
}

/* Even shares on three ranks. */
static void solve_in_three(scene *s) {
    share_out(s, 3, false);
    cut(s, 3, OTA_SHARES_IN_ORDER);
    crew_once(3, OTA_SHARES_IN_ORDER, solve_part, s);
}

static void expect_close(const char *what, const cell *c, double found, double wanted,
                         double tolerance) {
    if (isinf(wanted) && found == wanted) return;
    if (!(fabs(found - wanted) <= tolerance * fmax(1.0, fabs(wanted))))
        fail_msg("%s of %s: %.17g where one process has %.17g", what, c->method, found, wanted);
}

static void expect_rows(const char *what, const scene *s, const part *p, const double *found,
                        const double *wanted, int64_t width, double tolerance) {
    for (int64_t b = 0; b < ALL; b++) {
        for (int64_t i = 0; i < p->n; i++) {
            for (int64_t j = 0; j < width; j++)
                expect_close(what, s->cell, found[(b * p->n + i) * width + j],
                             wanted[(b * N + p->rows[i]) * width + j], tolerance);
        }
    }
}

/* Of the rank's own plan: errors are the size of the tolerance, not equal; sums over the rows are. */
static void compare_certificates(const scene *s, const part *p, double tolerance) {
    const cell *c = s->cell;
    const ota_certificate *a = &p->certificate, *b = &s->all.certificate;
    if (p->judged != OTA_OK || p->grads.status < OTA_OK)
        fail_msg("%s: %s", c->method, p->error.message);
    const double sums = 100.0 * (double)N * (double)ALL * tolerance;
    expect_close("primal", c, a->primal, b->primal, sums);
    if (!isnan(b->dual)) expect_close("dual", c, a->dual, b->dual, sums);
    expect_close("value", c, a->value, b->value, sums);
    expect_close("entropy", c, a->entropy, b->entropy, (double)N * tolerance);
    expect_close("support", c, a->support, b->support, 1e-9);
    expect_close("receiver_max", c, a->receiver_max, b->receiver_max, (double)N * tolerance);
    expect_close("minimum", c, a->minimum, b->minimum, tolerance);
    assert_true(a->row_error <= fmax(2.0 * b->row_error, 1e-12));
    assert_true(a->column_error <= fmax(2.0 * b->column_error, c->narrow ? 2e-5 : 2e-9));
    assert_int_equal(a->empty_rows, b->empty_rows);
}

static void expect_line(const char *what, const cell *c, const double *found, const double *wanted,
                        int64_t count, double tolerance) {
    for (int64_t j = 0; j < count; j++) expect_close(what, c, found[j], wanted[j], tolerance);
}

/* Rows of keys, or of a matrix's values, which are whole. */
static void expect_keys(const char *what, const scene *s, const part *p, const double *found,
                        const double *wanted, int64_t width, double tolerance) {
    for (int64_t b = 0; b < BATCH * KEY_HEADS; b++) {
        for (int64_t i = 0; i < p->n; i++)
            expect_line(what, s->cell, found + (b * p->n + i) * width,
                        wanted + (b * N + p->rows[i]) * width, width, tolerance);
    }
}

static void compare_gradients(const scene *s, const part *p, double tolerance) {
    const cell *c = s->cell;
    const grads *a = &p->grads, *b = &s->all.grads;
    const double all = 50.0 * tolerance;
    if (!is_differentiated(c)) return;
    if (a->status != OTA_OK) fail_msg("%s: %s", c->method, p->error.message);
    expect_rows("gradient scores", s, p, a->s, b->s, N, 10.0 * tolerance);
    if (c->matrix) {
        expect_line("gradient values", c, a->v, b->v, ALL * N * VALUES, all);
    } else {
        expect_rows("gradient queries", s, p, a->q, b->q, WIDTH, 10.0 * tolerance);
        expect_keys("gradient keys", s, p, a->k, b->k, WIDTH, 10.0 * tolerance);
        expect_keys("gradient values", s, p, a->v, b->v, VALUES, 10.0 * tolerance);
    }
    expect_line("gradient temperature", c, a->temperature, b->temperature, HEADS, all);
    expect_line("gradient strength", c, &a->strength, &b->strength, 1, all);
    expect_line("gradient order", c, &a->order, &b->order, 1, all);
    for (int64_t i = 0; i < p->n && c->dense; i++)
        expect_line("gradient dense", c, a->dense + i * N, b->dense + p->rows[i] * N, N, all);
    expect_line("gradient relative", c, a->relative, b->relative, HEADS * (2 * N - 1), all);
    expect_line("gradients of numbers", c, a->numbers, b->numbers, 2, all);
    assert_int_equal(p->backward.messages, 0);
    assert_int_equal(p->backward.message_bytes, 0);
}

/* Potentials of coupled columns are compared as the weights that they make. */
static void compare(const scene *s, int ranks, double tolerance) {
    const part *w = &s->all;
    const bool free_columns = strchr(s->cell->method, '/') == NULL;
    for (int k = 0; k < ranks; k++) {
        const part *p = &s->parts[k];
        if (p->status != w->status)
            fail_msg("%s: rank %d has status %d and '%s' where one process has %d", s->cell->method,
                     k, (int)p->status, p->error.message, (int)w->status);
        assert_true(p->described);
        expect_rows("out", s, p, p->out, w->out, VALUES, tolerance);
        expect_rows("coupling", s, p, p->p, w->p, N, tolerance);
        if (free_columns) expect_rows("row potential", s, p, p->f, w->f, 1, tolerance);
        for (int64_t j = 0; j < ALL * N; j++)
            expect_close("receiver", s->cell, p->receiver[j], w->receiver[j],
                         (double)N * tolerance);
        for (int64_t j = 0; j < ALL * N; j++)
            assert_memory_equal(&p->g[j], &s->parts[0].g[j], sizeof(double));
        assert_int_equal(p->result.empty_rows, w->result.empty_rows);
        compare_certificates(s, p, tolerance);
        compare_gradients(s, p, tolerance);
        assert_true(p->result.column_error <= fmax(1e-5, 2.0 * w->result.column_error));
        assert_true(p->result.row_error <= 2.0 * w->result.row_error + 0x1p-58);
    }
}

static double tolerance_of(const cell *c) {
    const bool to_tolerance = strchr(c->method, '/') != NULL;
    return c->narrow ? (to_tolerance ? 2e-4 : 2e-6) : to_tolerance ? 1e-7 : 1e-12;
}

static void rows_of_many_ranks_are_those_of_one_process(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    const long stride = test_stride();
    long combination = 0;
    for (int k = 0; k < CELLS; k++) {
        draw(s, &cells[k], 100 + (uint64_t)k);
        solve_whole(s);
        for (int ranks = 1; ranks <= 5; ranks += ranks == 3 ? 2 : 1) {
            for (int way = 0; way < 4; way++) {
                if (combination++ % stride != 0) continue;
                const ota_shares order = way % 2 == 0 ? OTA_SHARES_IN_ORDER : OTA_SHARES_ZIGZAG;
                share_out(s, ranks, way >= 2);
                cut(s, ranks, order);
                s->threads = 1 + way % 2;
                crew *c = crew_of(ranks, order);
                crew_run(c, solve_part, s);
                compare(s, ranks, tolerance_of(&cells[k]));
                for (int r = 0; r < ranks; r++) {
                    assert_int_equal(s->parts[r].result.messages, c->rank[r].messages);
                    assert_int_equal(s->parts[r].result.message_bytes, c->rank[r].bytes);
                }
                crew_free(c);
            }
        }
    }
    free(s);
}

/* Zigzag shares whose first pieces are not half of them: all, none, or any number between. */
static void pieces_of_any_length(void **state) {
    (void)state;
    static const int tried[] = {1, 2, 5, 8, 10, 12, 13, 15};
    scene *s = malloc(sizeof *s);
    for (size_t k = 0; k < sizeof tried / sizeof tried[0]; k++) {
        draw(s, &cells[tried[k]], 900 + (uint64_t)k);
        solve_whole(s);
        for (int ranks = 2; ranks <= 4; ranks++) {
            share_out(s, ranks, ranks == 4);
            s->pieces = true;
            for (int r = 0; r < ranks; r++) {
                const int64_t all = s->shares[r];
                const int64_t drawn = (int64_t)(uniform(&dice_state) * (double)(all + 1));
                s->first[r][0] = s->first[r][1] = r == 0 ? all : r == 1 && ranks > 2 ? 0 : drawn;
            }
            cut(s, ranks, OTA_SHARES_ZIGZAG);
            crew *c = crew_of(ranks, OTA_SHARES_ZIGZAG);
            crew_run(c, solve_part, s);
            compare(s, ranks, tolerance_of(&cells[tried[k]]));
            crew_free(c);
        }
    }
    free(s);
}

/* Rows of one number that lie apart are sent as they are, not as what lies between them. */
static void rows_of_one_number(void **state) {
    (void)state;
    static const cell slim[] = {{.method = "softmax", .slim = true},
                                {.method = "softmax/exact", .slim = true, .narrow = true}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &slim[k], 1200 + (uint64_t)k);
        solve_whole(s);
        solve_in_three(s);
        compare(s, 3, tolerance_of(&slim[k]));
    }
    free(s);
}

/* The last key is seen by the last row alone. Where that has no mass, the key's share of a penalty is none. */
static void keys_that_rows_without_mass_see(void **state) {
    (void)state;
    static const cell elastic = {.method = "softmax/elastic:0.5,4", .causal = true, .masses = true};
    scene *s = malloc(sizeof *s);
    draw(s, &elastic, 1300);
    s->all.mu[N - 1] = 0.0;
    solve_whole(s);
    solve_in_three(s);
    compare(s, 3, tolerance_of(&elastic));
    free(s);
}

/* Rounds that converge slowly are extrapolated on many ranks as in one process. */
static void slow_rounds_are_extrapolated(void **state) {
    (void)state;
    static const cell exact = {.method = "softmax/exact"};
    scene *s = malloc(sizeof *s);
    draw(s, &exact, 1400);
    for (int64_t k = 0; k < ALL * N * WIDTH; k++) s->all.q[k] *= 3.0;
    solve_whole(s);
    assert_true(s->all.result.rounds > 20);
    solve_in_three(s);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(s->parts[r].status, OTA_OK);
        print_message("%d rounds, one process %d\n", (int)s->parts[r].result.rounds,
                      (int)s->all.result.rounds);
        assert_true(s->parts[r].result.rounds <= s->all.result.rounds + 5);
    }
    free(s);
}

/* ---- arrays longer than a message --------------------------------------------------------------- */

enum { WIDE = (1 << 14) + 5, FEW = 3 };

typedef struct wide {
    double scores[FEW * FEW], v[FEW * WIDE], out[FEW * WIDE], of_out[FEW * WIDE];
    double of_values[2][FEW * WIDE]; /* of one rank that has all rows, of two */
} wide;

static void reverse_wide(crew_rank *rank, void *context) {
    wide *w = context;
    const int ranks = rank->to.ranks, me = rank->to.rank;
    const int64_t first = me == 0 ? 0 : 1, n = ranks == 1 ? FEW : me == 0 ? 1 : FEW - 1;
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {
        .size = sizeof options, .threads = 1, .communicator = &rank->to, .gradients = 1};
    ota_error error;
    assert_int_equal(ota_method_parse("softmax", &problem, &options, &error), OTA_OK);
    problem.scores = ota_array_of(w->scores + first * FEW, OTA_F64, 1, 1, n, FEW);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(w->v, OTA_F64, 1, 1, FEW, WIDE);
    arrays.out = ota_array_of(w->out + first * WIDE, OTA_F64, 1, 1, n, WIDE);
    double *mine = malloc(sizeof w->of_values[0]);
    ota_gradients want = {.size = sizeof want};
    want.out_grad = ota_array_of(w->of_out + first * WIDE, OTA_F64, 1, 1, n, WIDE);
    want.values = ota_array_of(mine, OTA_F64, 1, 1, FEW, WIDE);
    ota_plan *plan = NULL;
    ota_status status = ota_plan_create(&plan, &problem, WIDE, &options, &error);
    if (status == OTA_OK) status = ota_forward(plan, &arrays, NULL, &error);
    if (status == OTA_OK) status = ota_backward(plan, &arrays, &want, NULL, &error);
    if (status != OTA_OK) print_error("rank %d: %s\n", me, error.message);
    if (me == 0) memcpy(w->of_values[ranks - 1], mine, sizeof w->of_values[0]);
    ota_plan_free(plan);
    free(mine);
}

/* Gradients that all ranks share are summed in pieces of a message. */
static void shared_gradients_longer_than_a_message(void **state) {
    (void)state;
    wide *w = calloc(1, sizeof *w);
    dice_state = 77;
    for (int k = 0; k < FEW * FEW; k++) w->scores[k] = normal(&dice_state);
    for (int k = 0; k < FEW * WIDE; k++)
        w->v[k] = normal(&dice_state), w->of_out[k] = normal(&dice_state);
    crew_once(1, OTA_SHARES_IN_ORDER, reverse_wide, w);
    crew_once(2, OTA_SHARES_IN_ORDER, reverse_wide, w);
    for (int k = 0; k < FEW * WIDE; k++)
        assert_true(fabs(w->of_values[0][k] - w->of_values[1][k]) <= 1e-13);
    assert_true(fabs(w->of_values[1][WIDE - 1]) > 1e-6);
    free(w);
}

static void reverse_elsewhere(crew_rank *rank, void *context) {
    scene *s = context;
    part *p = &s->parts[rank->to.rank];
    setting now = {0};
    ota_options options = {
        .size = sizeof options, .threads = 1, .communicator = &rank->to, .gradients = 1};
    set_part(&now, s, p, &options);
    ota_plan *plan = NULL;
    p->grads.status = ota_plan_create(&plan, &now.problem, VALUES, &options, &p->error);
    if (p->grads.status != OTA_OK) return;
    ota_gradients want = gradients_of(s->cell, &p->grads, &now, p->n, p->n);
    want.solved = 1;
    p->grads.status = ota_backward(plan, &now.arrays, &want, NULL, &p->error);
    ota_plan_free(plan);
}

/* A plan that never ran has the gradients of what another one solved: it gathers the keys itself. */
static void gradients_of_what_was_solved_elsewhere(void **state) {
    (void)state;
    static const cell solved[] = {{.method = "softmax"}, {.method = "softmax/exact"}};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 2; k++) {
        draw(s, &solved[k], 1100 + (uint64_t)k);
        solve_whole(s);
        solve_in_three(s);
        for (int r = 0; r < 3; r++) {
            grads *g = &s->parts[r].grads;
            memset(g->q, 0, sizeof g->q);
            memset(g->k, 0, sizeof g->k);
            memset(g->v, 0, sizeof g->v);
        }
        crew_once(3, OTA_SHARES_IN_ORDER, reverse_elsewhere, s);
        for (int r = 0; r < 3; r++) compare_gradients(s, &s->parts[r], tolerance_of(&solved[k]));
    }
    free(s);
}

/* The sum that docs/development/ranks.md promises. */
static int64_t promised(const cell *c, int64_t share, int64_t rounds) {
    const int64_t number = c->narrow ? 4 : 8;
    const bool masked = c->causal || c->window || c->dense || c->relative || c->alibi;
    int64_t bytes = share * (WIDTH + VALUES) * number * BATCH * KEY_HEADS + 32;
    if (rounds > 0) bytes += ALL * (8 * (N + 5) * (rounds + 1) + 40 + (masked ? 8 * N : 0));
    return bytes + 8 + 40 * ALL + 16 + ALL * (8 * N + 16);
}

static void bytes_are_those_of_the_formula(void **state) {
    (void)state;
    static const cell fixed[] = {
        {.method = "softmax"},
        {.method = "softmax", .narrow = true, .causal = true},
        {.method = "softmax/exact{rounds=6}"},
        {.method = "softmax/exact{rounds=6}", .narrow = true, .dense = true},
        {.method = "softmax/elastic:0.5,4", .causal = true}};
    static const int64_t rounds[] = {0, 0, 6, 6, 4};
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < 5; k++) {
        draw(s, &fixed[k], 700 + (uint64_t)k);
        share_out(s, 3, true);
        cut(s, 3, OTA_SHARES_ZIGZAG);
        crew *c = crew_of(3, OTA_SHARES_ZIGZAG);
        crew_run(c, solve_part, s);
        for (int r = 0; r < 3; r++)
            assert_int_equal(s->parts[r].result.message_bytes,
                             promised(&fixed[k], s->parts[r].n, rounds[k]));
        crew_free(c);
    }
    free(s);
}

static void the_same_bits_twice(void **state) {
    (void)state;
    static double first[CREW_MOST][ALL * N * VALUES];
    scene *s = malloc(sizeof *s);
    for (int k = 8; k < CELLS; k += 3) {
        draw(s, &cells[k], 300 + (uint64_t)k);
        share_out(s, 3, true);
        cut(s, 3, OTA_SHARES_ZIGZAG);
        for (int run = 0; run < 2; run++) {
            s->threads = 1 + run;
            crew *c = crew_of(3, OTA_SHARES_ZIGZAG);
            crew_run(c, solve_part, s);
            for (int r = 0; r < 3; r++) {
                if (run == 0) memcpy(first[r], s->parts[r].out, sizeof first[r]);
                assert_memory_equal(first[r], s->parts[r].out, sizeof first[r]);
            }
            crew_free(c);
        }
    }
    free(s);
}

/* Rank `fails` leaves at its k-th message, for every k: all ranks return, none with a plan's numbers. */
static void a_rank_that_fails_ends_all(void **state) {
    (void)state;
    enum { RANKS = 3 };
    scene *s = malloc(sizeof *s);
    int64_t tried = 0;
    for (int k = 9; k < CELLS; k += 4) {
        draw(s, &cells[k], 400);
        share_out(s, RANKS, false);
        cut(s, RANKS, OTA_SHARES_IN_ORDER);
        for (int fails = 0; fails < RANKS; fails++) {
            bool finished = false;
            for (int64_t at = 1; !finished; at += 1 + at / 16) {
                crew *c = crew_of(RANKS, OTA_SHARES_IN_ORDER);
                c->rank[fails].fail_at = at;
                crew_run(c, solve_part, s);
                finished = !c->dead;
                tried += c->dead;
                for (int r = 0; r < RANKS && c->dead; r++) {
                    const part *p = &s->parts[r];
                    const ota_status last = p->status < 0         ? p->status
                                            : p->grads.status < 0 ? p->grads.status
                                                                  : p->judged;
                    /* Who had its last message before the failure knows nothing of it. */
                    if (r == fails) assert_int_equal(last, OTA_ECOMM);
                    if (r == fails) assert_non_null(strstr(p->error.message, "answered 7 in"));
                    assert_true(last == OTA_ECOMM || last >= OTA_OK);
                    if (p->status == OTA_ECOMM && p->result.status == OTA_ECOMM)
                        assert_true(isnan(p->out[0]));
                    if (p->grads.status == OTA_ECOMM && p->backward.status == OTA_ECOMM)
                        assert_true(isnan(p->grads.q[0]) && isnan(p->grads.k[0]));
                }
                crew_free(c);
            }
        }
    }
    assert_true(tried > 100);
    free(s);
}

TEST_FILE(test_shards) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_length),
        cmocka_unit_test(rows_of_one_number),
        cmocka_unit_test(keys_that_rows_without_mass_see),
        cmocka_unit_test(slow_rounds_are_extrapolated),
        cmocka_unit_test(shared_gradients_longer_than_a_message),
        cmocka_unit_test(gradients_of_what_was_solved_elsewhere),
        cmocka_unit_test(bytes_are_those_of_the_formula),
        cmocka_unit_test(the_same_bits_twice),
        cmocka_unit_test(a_rank_that_fails_ends_all),
        cmocka_unit_test(rows_of_many_ranks_are_those_of_one_process),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
