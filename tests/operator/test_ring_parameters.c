/* test_ring_parameters.c: gradients of what many pairs share, and tangents along them, of keys that come round a ring or are gathered against one process
 * that has them all: temperatures, orders, sinks, softcaps and every kind of bias, of free columns, of solutions and of fixed rounds, with
 * dropped pairs among them; the same bits for any threads. */
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

enum { N = 37 };
#include "groups.h"
#include "ring_scene.h"

enum { TERMS = 8 };

/* Gradients of one process or rank, and its part of a bias for every pair of every head. */
typedef struct pulled {
    double temperature[HEADS], order, terms[TERMS][ALL * N * N], whole[ALL * N * N];
} pulled;

typedef struct stage {
    scene scene;
    pulled all, part[CREW_MOST];
} stage;

static const cell cells[] = {
    {.method = "softmax", .alibi = true, .sink = true, .dense = true, .temperatures = true},
    {.method = "softmax", .relative = true, .softcap = true, .inside = true, .sink = true},
    {.method = "softmax", .keyed = true, .whole = true, .causal = true, .masses = true},
    {.method = "softmax", .dropout = true, .relative = true, .sink = true},
    {.method = "entmax:1.5", .alibi = true, .sink = true, .temperatures = true, .whole = true},
    {.method = "entmax:0.7", .relative = true, .inside = true, .softcap = true, .masses = true},
    {.method = "entmax:1.3", .dropout = true, .keyed = true, .dense = true, .window = true},
    {.method = "softmax", .cap = 0.06, .keyed = true, .sink = true, .temperatures = true},
    {.method = "entmax:1.5", .cap = 0.2, .alibi = true, .relative = true, .masses = true},
    {.method = "softmax/exact", .alibi = true, .dense = true, .relative = true, .masses = true},
    {.method = "softmax/capped:2.5", .softcap = true, .inside = true, .sink = true, .keyed = true},
    {.method = "softmax/relaxed:0.7", .temperatures = true, .whole = true, .causal = true},
    {.method = "softmax/bounded:0.4,1.8", .dropout = true, .relative = true},
    {.method = "entmax:1.5/exact", .alibi = true, .relative = true, .masses = true},
    {.method = "entmax:1.25/relaxed:0.7", .temperatures = true, .sink = true, .whole = true},
    {.method = "entmax:3/capped:2.5", .temperatures = true, .sink = true, .whole = true},
    {.method = "sparsemax/bounded:0.7,1.3", .keyed = true, .softcap = true, .inside = true},
    {.method = "softmax/capped:2.5", .cap = 0.2, .sink = true, .keyed = true},
    {.method = "softmax/exact{rounds=5}", .alibi = true, .temperatures = true},
    {.method = "softmax/relaxed:0.7{rounds=4}", .whole = true, .causal = true, .masses = true},
    {.method = "softmax/capped:2.5{rounds=3}", .softcap = true, .inside = true, .sink = true},
    {.method = "softmax/elastic:0.5,4", .dropout = true, .dense = true, .relative = true},
    {.method = "softmax/bounded:0.4,1.8{rounds=6}", .keyed = true, .window = true},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

static bool terms_alone; /* no gradient of a number that is no term's */

static void pull(scene *s, rows *r, pulled *to, const ota_communicator *with) {
    setting now;
    ota_plan *plan = NULL;
    ota_array terms[TERMS];
    r->whole = to->whole;
    set(&now, s, r, with);
    now.options.gradients = 1;
    ota_gradients want = {.size = sizeof want, .terms = terms};
    want.out_grad = ota_array_of(r->out_grad, OTA_F64, BATCH, HEADS, r->n, VALUES);
    want.queries = ota_array_of(r->dq, OTA_F64, BATCH, HEADS, r->n, WIDTH);
    want.keys = ota_array_of(r->dk, OTA_F64, BATCH, KEY_HEADS, r->n, WIDTH);
    want.values = ota_array_of(r->dv, OTA_F64, BATCH, KEY_HEADS, r->n, VALUES);
    want.temperature =
        ota_array_of(to->temperature, OTA_F64, 1, 1, 1, s->cell->temperatures ? HEADS : 1);
    if (strstr(s->cell->method, "entmax") != NULL)
        want.order = ota_array_of(&to->order, OTA_F64, 1, 1, 1, 1);
    if (terms_alone) want.temperature = want.order = (ota_array){0};
    memset(terms, 0, sizeof terms);
    for (int64_t k = 0; k < now.problem.term_count; k++) {
        const ota_array *a = &now.terms[k].array;
        const bool one = now.terms[k].kind == OTA_TERM_SOFTCAP || a->data == NULL;
        terms[k] = one ? ota_array_of(to->terms[k], OTA_F64, 1, 1, 1, 1)
                       : ota_array_of(to->terms[k], OTA_F64, a->size[0], a->size[1], a->size[2],
                                      a->size[3]);
    }
    r->result = (ota_result){.size = sizeof r->result};
    r->status = ota_plan_create(&plan, &now.problem, VALUES, &now.options, &r->error);
    if (r->status >= OTA_OK) r->status = ota_forward(plan, &now.arrays, NULL, &r->error);
    r->reversed = r->status;
    if (r->status >= OTA_OK)
        r->reversed = ota_backward(plan, &now.arrays, &want, &r->backward, &r->error);
    ota_plan_free(plan);
}

static void pull_part(crew_rank *rank, void *context) {
    stage *s = context;
    const int k = rank->to.rank;
    rank->to.keys = s->scene.transport;
    pull(&s->scene, &s->scene.part[k], &s->part[k], &rank->to);
}

static void expect_numbers(const char *what, const scene *s, const double *found,
                           const double *wanted, int64_t count, double tolerance) {
    for (int64_t k = 0; k < count; k++) {
        if (!(fabs(found[k] - wanted[k]) <= tolerance * fmax(1.0, fabs(wanted[k]))))
            fail_msg("gradient of %s of %s, number %d: %.17g where one process has %.17g", what,
                     s->cell->method, (int)k, found[k], wanted[k]);
    }
}

static void compare(const stage *stage, int rank, double tolerance) {
    const scene *s = &stage->scene;
    const cell *c = s->cell;
    const rows *p = &s->part[rank];
    const pulled *found = &stage->part[rank], *wanted = &stage->all;
    expect_gradients(s, p, tolerance);
    expect_numbers("temperature", s, found->temperature, wanted->temperature, HEADS, tolerance);
    expect_numbers("order", s, &found->order, &wanted->order, 1, tolerance);
    int k = 0;
    if (c->dense)
        expect_rows("gradient of a bias", s, p, HEADS, found->terms[k], wanted->terms[k], N,
                    tolerance);
    k += c->dense;
    const struct {
        bool present;
        const char *name;
        int64_t count;
    } shared[] = {{c->alibi, "alibi", 1},
                  {c->relative, "a relative bias", HEADS * DIFFERENCES},
                  {c->inside, "a relative bias inside", DIFFERENCES},
                  {c->keyed, "a bias by keys", HEADS * N}};
    for (size_t t = 0; t < sizeof shared / sizeof shared[0]; t++) {
        if (!shared[t].present) continue;
        expect_numbers(shared[t].name, s, found->terms[k], wanted->terms[k], shared[t].count,
                       tolerance);
        k++;
    }
    if (c->whole)
        expect_rows("gradient of a whole bias", s, p, ALL, found->terms[k], wanted->terms[k], N,
                    tolerance);
    k += c->whole;
    if (c->softcap) expect_numbers("softcap", s, found->terms[k], wanted->terms[k], 1, tolerance);
    k += c->softcap;
    if (c->sink) expect_numbers("sink", s, found->terms[k], wanted->terms[k], 1, tolerance);
}

static void begin(stage *s, const cell *c, uint64_t seed) {
    memset(s, 0, sizeof *s);
    draw(&s->scene, c, seed);
    for (int64_t k = 0; k < ALL * N * N; k++) s->all.whole[k] = normal(&dice_state);
}

static void share_out(stage *s, int ranks, ota_shares order,
                      void (*body)(crew_rank *rank, void *context)) {
    dice_state = 7; /* the same shares in every run */
    cut(&s->scene, ranks, order, true);
    for (int k = 0; k < ranks; k++) {
        const shares_rows mine = {s->scene.part[k].number, s->scene.part[k].n, N};
        s->scene.part[k].backward.size = sizeof(ota_result);
        shares_copy(&mine, ALL, N * sizeof(double), s->all.whole, s->part[k].whole);
    }
    crew_once(ranks, order, body, s);
}

static void parameters_are_those_of_one_process(void **state) {
    (void)state;
    stage *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k += test_step()) {
        /* The second time gathered, but for what is refused there. */
        const bool refused = strstr(cells[k].method, "elastic") != NULL;
        for (int way = 0; way < 2; way++) {
            const bool solves =
                strchr(cells[k].method, '/') != NULL && strstr(cells[k].method, "rounds") == NULL;
            begin(s, &cells[k], 2000 + (uint64_t)k);
            s->scene.all.backward.size = sizeof(ota_result);
            pull(&s->scene, &s->scene.all, &s->all, NULL);
            if (s->scene.all.reversed < OTA_OK)
                fail_msg("%s: %s", cells[k].method, s->scene.all.error.message);
            s->scene.threads = 1 + way;
            if (way == 1 && !refused) s->scene.transport = OTA_KEYS_GATHERED;
            const int ranks = 3 + way;
            share_out(s, ranks, way == 0 ? OTA_SHARES_ZIGZAG : OTA_SHARES_IN_ORDER, pull_part);
            for (int r = 0; r < ranks; r++) compare(s, r, solves ? 2e-6 : 1e-10);
        }
    }
    free(s);
}

/* A key that no query may use is nothing to the number either. */
static void a_key_that_is_shut_may_hold_anything(void **state) {
    (void)state;
    static const cell shut = {.method = "softmax", .softcap = true, .boolean = true};
    stage *s = malloc(sizeof *s);
    begin(s, &shut, 2300);
    rows *w = &s->scene.all;
    for (int64_t i = 0; i < N; i++) w->boolean[i * N + 20] = 0;
    for (int64_t head = 0; head < BATCH * KEY_HEADS; head++)
        w->k[(head * N + 20) * WIDTH] = head % 2 == 0 ? (double)NAN : (double)INFINITY;
    w->backward.size = sizeof(ota_result);
    pull(&s->scene, w, &s->all, NULL);
    if (w->reversed != OTA_OK) fail_msg("%s", w->error.message);
    assert_true(isfinite(s->all.terms[0][0]));
    for (int64_t k = 0; k < ALL * N * WIDTH; k++) assert_true(isfinite(w->dq[k]));
    share_out(s, 3, OTA_SHARES_ZIGZAG, pull_part);
    for (int r = 0; r < 3; r++) compare(s, r, 1e-10);
    free(s);
}

static void the_same_bits_for_any_threads(void **state) {
    (void)state;
    static pulled first[3];
    stage *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k += 3 * test_step()) {
        begin(s, &cells[k], 2100 + (uint64_t)k);
        for (int run = 0; run < 2; run++) {
            s->scene.threads = 2 + run;
            share_out(s, 3, OTA_SHARES_ZIGZAG, pull_part);
            for (int r = 0; r < 3 && run == 0; r++) first[r] = s->part[r];
            for (int r = 0; r < 3; r++)
                assert_memory_equal(&first[r], &s->part[r], sizeof first[r]);
        }
    }
    free(s);
}

/* ---- along a direction ---------------------------------------------------------------------------- */

/* Does the columns' own rule alone grow? */
static bool rule_alone;

/* The tangent along which everything grows, numbers by something of their own. */
static void push(scene *s, rows *r, pulled *to, const ota_communicator *with) {
    static const double grows[] = {0.3, -0.2, 0.15, 0.25};
    const ota_array number = ota_array_of((void *)(uintptr_t)grows, OTA_F64, 1, 1, 1, 1);
    setting now;
    ota_plan *plan = NULL;
    ota_array terms[TERMS];
    r->whole = to->whole;
    set(&now, s, r, with);
    now.options.gradients = 1;
    ota_tangents tangents = {.size = sizeof tangents, .terms = terms, .temperature = number};
    tangents.queries = now.problem.queries;
    tangents.keys = now.problem.keys;
    tangents.values = now.arrays.values;
    tangents.row_mass = ota_array_of(r->mu, OTA_F64, 1, 1, 1, r->n);
    if (s->cell->temperatures) tangents.temperature.size[3] = HEADS;
    if (strstr(s->cell->method, "entmax") != NULL) tangents.order = number;
    if (now.problem.column_mass.data != NULL) tangents.column_mass = now.problem.column_mass;
    const ota_column_rule rule = now.problem.columns;
    if (rule == OTA_COLUMNS_CAPPED) tangents.cap = number;
    if (rule == OTA_COLUMNS_RELAXED || rule == OTA_COLUMNS_ELASTIC) tangents.strength = number;
    if (rule == OTA_COLUMNS_BOUNDED) tangents.lower = tangents.upper = number;
    for (int64_t k = 0; k < now.problem.term_count; k++) {
        const ota_array *a = &now.terms[k].array;
        const bool one = now.terms[k].kind == OTA_TERM_SOFTCAP || a->data == NULL;
        terms[k] = one ? number : *a;
    }
    if (rule_alone) {
        tangents.queries = tangents.keys = tangents.values = tangents.row_mass = (ota_array){0};
        tangents.temperature = tangents.order = (ota_array){0};
        tangents.terms = NULL;
    }
    tangents.out = ota_array_of(r->moved, OTA_F64, BATCH, HEADS, r->n, VALUES);
    r->result = (ota_result){.size = sizeof r->result};
    r->status = ota_plan_create(&plan, &now.problem, VALUES, &now.options, &r->error);
    if (r->status >= OTA_OK) r->status = ota_forward(plan, &now.arrays, NULL, &r->error);
    if (r->status >= OTA_OK) r->status = ota_jvp(plan, &now.arrays, &tangents, NULL, &r->error);
    ota_plan_free(plan);
}

static void push_part(crew_rank *rank, void *context) {
    stage *s = context;
    const int k = rank->to.rank;
    rank->to.keys = s->scene.transport;
    push(&s->scene, &s->scene.part[k], &s->part[k], &rank->to);
}

static void tangents_are_those_of_one_process(void **state) {
    (void)state;
    stage *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS; k += test_step()) {
        const bool solves =
            strchr(cells[k].method, '/') != NULL && strstr(cells[k].method, "rounds") == NULL;
        begin(s, &cells[k], 2200 + (uint64_t)k);
        push(&s->scene, &s->scene.all, &s->all, NULL);
        if (s->scene.all.status < OTA_OK)
            fail_msg("%s: %s", cells[k].method, s->scene.all.error.message);
        s->scene.threads = 1 + k % 2;
        share_out(s, 3, k % 2 == 0 ? OTA_SHARES_ZIGZAG : OTA_SHARES_IN_ORDER, push_part);
        for (int r = 0; r < 3; r++) {
            const rows *p = &s->scene.part[r];
            if (p->status != s->scene.all.status)
                fail_msg("%s: %s", cells[k].method, p->error.message);
            expect_rows("tangent", &s->scene, p, ALL, p->moved, s->scene.all.moved, VALUES,
                        solves ? 5e-6 : 1e-10);
        }
    }
    free(s);
}

/* The gradient of a first term, and of no other number. */
static void a_first_term_alone(void **state) {
    (void)state;
    static const cell one = {.method = "softmax", .alibi = true};
    stage *s = malloc(sizeof *s);
    terms_alone = true;
    begin(s, &one, 2300);
    s->scene.all.backward.size = sizeof(ota_result);
    pull(&s->scene, &s->scene.all, &s->all, NULL);
    share_out(s, 3, OTA_SHARES_ZIGZAG, pull_part);
    terms_alone = false;
    for (int r = 0; r < 3; r++) compare(s, r, 1e-10);
    free(s);
}

/* Nothing but what the rule adds is then the size that the residual is held against. */
static void tangents_of_the_rule_alone(void **state) {
    (void)state;
    static const cell coupled[] = {{.method = "softmax/relaxed:0.7"},
                                   {.method = "softmax/relaxed:0.7", .masses = true},
                                   {.method = "entmax:1.25/relaxed:0.7"}};
    stage *s = malloc(sizeof *s);
    rule_alone = true;
    for (int k = 0; k < 3; k++) {
        begin(s, &coupled[k], 2300 + (uint64_t)k);
        push(&s->scene, &s->scene.all, &s->all, NULL);
        if (s->scene.all.status < OTA_OK)
            fail_msg("%s: %s", coupled[k].method, s->scene.all.error.message);
        share_out(s, 3, OTA_SHARES_IN_ORDER, push_part);
        for (int r = 0; r < 3; r++) {
            const rows *p = &s->scene.part[r];
            if (p->status != s->scene.all.status)
                fail_msg("%s: %d, %s", coupled[k].method, (int)p->status, p->error.message);
            expect_rows("tangent", &s->scene, p, ALL, p->moved, s->scene.all.moved, VALUES, 5e-6);
        }
    }
    rule_alone = false;
    free(s);
}

TEST_FILE(test_ring_parameters) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_of_one_process),
        cmocka_unit_test(a_key_that_is_shut_may_hold_anything),
        cmocka_unit_test(a_first_term_alone),
        cmocka_unit_test(the_same_bits_for_any_threads),
        cmocka_unit_test(tangents_are_those_of_one_process),
        cmocka_unit_test(tangents_of_the_rule_alone),
    };
    return cmocka_run_group_tests_name("ring_parameters", tests, NULL, NULL);
}
