/* test_refused_ranks.c: ranks that are threads, of which one is refused each of its allocations in turn, or has each of its
 * messages fail. Without memory that rank answers OTA_ENOMEM and the others that it refused the call, or all go on with the
 * keys in a ring; nobody waits, nothing is held, no plan is handed out, outputs keep what they had, and the same bits come once
 * there is memory. A message that fails ends the call on all ranks with OTA_ECOMM and NaN. */
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
#include "refused_memory.h"
#include "scale.h"
#include "shards_scene.h"

enum { RANKS = 2 };

/* How far a rank came. */
typedef enum stage { CREATE, FORWARD, REBIND, BACKWARD, JVP, CERTIFY, ENDED } stage;

static const char *const stage_names[] = {
    "ota_plan_create", "ota_forward", "ota_plan_rebind", "ota_backward", "ota_jvp",
    "ota_certify",     "none"};

typedef struct answer {
    stage at;
    ota_status status;
    ota_error error;
    bool held_plan; /* of a refusal */
    int refused;
    double moved[ALL * N * VALUES];
    ota_certificate certificate;
} answer;

typedef struct trial {
    scene scene;
    ota_key_transport transport;
    int loser, place; /* whose allocation of this number is refused; -1: nobody's */
    answer of[RANKS];
} trial;

/* ---- messages, which have memory always ------------------------------------------------------------ */

static int calm_reduce(void *user, void *values, int64_t count, ota_type type,
                       ota_reduction reduction) {
    const int before = allowed;
    allow_all();
    const int code = crew_all_reduce(user, values, count, type, reduction);
    allowed = before;
    return code;
}

static int calm_gather(void *user, const void *mine, void *all, const int64_t *counts,
                       const int64_t *offsets) {
    const int before = allowed;
    allow_all();
    const int code = crew_all_gather(user, mine, all, counts, offsets);
    allowed = before;
    return code;
}

static int calm_pass(void *user, int to, const void *given, int64_t bytes, int from, void *wanted,
                     int64_t wanted_bytes) {
    const int before = allowed;
    allow_all();
    const int code = crew_send_receive(user, to, given, bytes, from, wanted, wanted_bytes);
    allowed = before;
    return code;
}

/* A rank whose call ended badly makes no other: who waits for it is told, as after a time-out. */
static void leave(crew *c) {
    (void)pthread_mutex_lock(&c->lock);
    c->dead = true;
    (void)pthread_cond_broadcast(&c->turn);
    (void)pthread_mutex_unlock(&c->lock);
}

/* ---- what every rank does --------------------------------------------------------------------------- */

static bool is_differentiated(const cell *c) { return strcmp(c->method, "argmax") != 0; }

static ota_gradients gradients_of(const cell *c, part *p) {
    grads *g = &p->grads;
    ota_gradients want = {.size = sizeof want};
    want.out_grad = ota_array_of(g->out, OTA_F64, BATCH, HEADS, p->n, VALUES);
    if (c->matrix) {
        want.values = ota_array_of(g->v, OTA_F64, BATCH, HEADS, N, VALUES);
        want.matrix = ota_array_of(g->s, OTA_F64, BATCH, HEADS, p->n, N);
    } else {
        want.queries = ota_array_of(g->q, OTA_F64, BATCH, HEADS, p->n, WIDTH);
        want.keys = ota_array_of(g->k, OTA_F64, BATCH, KEY_HEADS, p->n, WIDTH);
        want.values = ota_array_of(g->v, OTA_F64, BATCH, KEY_HEADS, p->n, VALUES);
    }
    want.temperature = ota_array_of(g->temperature, OTA_F64, 1, 1, 1, HEADS);
    return want;
}

static ota_tangents tangents_of(const setting *now, part *p, answer *a) {
    ota_tangents tangents = {.size = sizeof tangents, .values = now->arrays.values};
    tangents.queries = now->problem.queries;
    tangents.keys = now->problem.keys;
    tangents.matrix = now->problem.scores;
    tangents.out = ota_array_of(a->moved, OTA_F64, BATCH, HEADS, p->n, VALUES);
    return tangents;
}

/* The calls of a plan in their order, to the first that fails. */
static ota_status call_all(const cell *c, setting *now, const ota_options *options, part *p,
                           answer *a) {
    ota_plan *plan = NULL;
    ota_status status = OTA_OK;
    for (a->at = CREATE; a->at < ENDED; a->at++) {
        if (!is_differentiated(c) && (a->at == BACKWARD || a->at == JVP)) continue;
        const ota_gradients want = gradients_of(c, p);
        const ota_tangents tangents = tangents_of(now, p, a);
        if (a->at == CREATE)
            status = ota_plan_create(&plan, &now->problem, VALUES, options, &a->error);
        else if (a->at == FORWARD)
            status = ota_forward(plan, &now->arrays, NULL, &a->error);
        else if (a->at == REBIND)
            status = ota_plan_rebind(plan, &now->problem, &a->error);
        else if (a->at == BACKWARD)
            status = ota_backward(plan, &now->arrays, &want, NULL, &a->error);
        else if (a->at == JVP)
            status = ota_jvp(plan, &now->arrays, &tangents, NULL, &a->error);
        else
            status =
                ota_certify(&now->problem, options, &now->arrays, &a->certificate, NULL, &a->error);
        if (status < OTA_OK) break;
    }
    a->held_plan = a->at == CREATE && plan != NULL;
    ota_plan_free(plan);
    return status;
}

static void work_part(crew_rank *rank, void *context) {
    trial *t = context;
    scene *s = &t->scene;
    const int me = rank->to.rank;
    part *p = &s->parts[me];
    answer *a = &t->of[me];
    setting now = {0};
    rank->to.keys = t->transport;
    rank->to.all_reduce = calm_reduce;
    rank->to.all_gather = calm_gather;
    rank->to.send_receive = calm_pass;
    ota_options options = {.size = sizeof options,
                           .threads = 1,
                           .communicator = &rank->to,
                           .gradients = is_differentiated(s->cell)};
    set_part(&now, s, p, &options);
    if (t->transport != OTA_KEYS_GATHERED)
        now.arrays.coupling = (ota_array){0}; /* a ring has none */
    memset(a, 0, sizeof *a);
    a->certificate = (ota_certificate){.size = sizeof a->certificate, .primal = 7.0};
    p->out[0] = 7.0;
    refuse_after(me == t->loser ? t->place : -1);
    a->status = call_all(s->cell, &now, &options, p, a);
    allow_all();
    a->refused = refused;
    if (a->status < OTA_OK) leave(rank->all);
}

/* Whether a message failed. */
static bool run(trial *t, int failing, int64_t message) {
    crew *c = crew_of(RANKS, OTA_SHARES_IN_ORDER);
    if (message > 0) c->rank[failing].fail_at = message;
    crew_run(c, work_part, t);
    bool failed = false;
    for (int r = 0; r < RANKS; r++)
        failed = failed || (message > 0 && c->rank[r].messages >= message);
    failed = failed && c->dead;
    crew_free(c);
    return failed;
}

static void begin(trial *t, const cell *c, ota_key_transport transport) {
    draw(&t->scene, c, 700);
    share_out(&t->scene, RANKS, false);
    cut(&t->scene, RANKS, OTA_SHARES_IN_ORDER);
    t->transport = transport;
    t->loser = -1;
}

/* Rings have fewer methods and gradients than gathered keys. */
static bool runs(trial *t) {
    (void)run(t, 0, 0);
    for (int r = 0; r < RANKS; r++) {
        const answer *a = &t->of[r];
        if (a->status < OTA_OK && t->transport == OTA_KEYS_GATHERED)
            fail_msg("%s of %s: %s", stage_names[a->at], t->scene.cell->method, a->error.message);
        if (a->status < OTA_OK) return false;
    }
    return true;
}

static const ota_key_transport transports[] = {OTA_KEYS_GATHERED, OTA_KEYS_IN_RING, OTA_KEYS_AUTO};
enum { COURSES = 3 };

/* ---- memory ------------------------------------------------------------------------------------------ */

static void expect_refusal(const trial *t) {
    char words[64];
    (void)snprintf(words, sizeof words, "rank %d refused the call with", t->loser);
    for (int r = 0; r < RANKS; r++) {
        const answer *a = &t->of[r];
        const ota_status wanted = r == t->loser ? OTA_ENOMEM : OTA_EMISMATCH;
        if (a->status != wanted || a->at != t->of[t->loser].at)
            fail_msg(
                "%s, transport %d: allocation %d of rank %d refused, and rank %d answers %d in "
                "%s: %s; %s",
                t->scene.cell->method, (int)t->transport, t->place, t->loser, r, (int)a->status,
                stage_names[a->at], a->error.message, t->of[1 - r].error.message);
        assert_true(strlen(a->error.message) > 0);
        if (r != t->loser) assert_non_null(strstr(a->error.message, words));
        assert_false(a->held_plan);
        if (a->at == CREATE) assert_true(t->scene.parts[r].out[0] == 7.0);
        assert_true(a->certificate.primal == 7.0);
    }
}

static int refuse_in_turn(trial *t, const double *first) {
    for (t->place = 0;; t->place++) {
        const int before = held;
        (void)run(t, 0, 0);
        assert_int_equal(held, before);
        const answer *own = &t->of[t->loser];
        if (own->refused > 0 && (own->status < OTA_OK || t->transport != OTA_KEYS_AUTO)) {
            expect_refusal(t);
            continue;
        }
        for (int r = 0; r < RANKS; r++) {
            assert_true(t->of[r].status >= OTA_OK);
            /* The other transport of the keys has the same plan, not the same bits. */
            for (int64_t k = 0; k < ALL * t->scene.parts[r].n * VALUES; k++) {
                const double found = t->scene.parts[r].out[k],
                             wanted = first[r * ALL * N * VALUES + k];
                if (own->refused == 0 ? found != wanted : !(fabs(found - wanted) < 1e-4))
                    fail_msg("%s: %.17g after refusals, %.17g before", t->scene.cell->method, found,
                             wanted);
            }
        }
        if (own->refused == 0) return t->place;
    }
}

static void memory_that_one_rank_lacks(void **state) {
    (void)state;
    static const int tried[] = {4, 12, 20};
    trial *t = malloc(sizeof *t);
    double *first = malloc(sizeof(double) * RANKS * ALL * N * VALUES);
    const bool all = test_step() == 1;
    for (size_t k = 0; k < sizeof tried / sizeof tried[0]; k++) {
        for (int transport = 0; transport < COURSES; transport++) {
            if (!all && transport != (int)k % COURSES) continue;
            begin(t, &cells[tried[k]], transports[transport]);
            if (!runs(t)) continue;
            for (int r = 0; r < RANKS; r++)
                memcpy(first + r * ALL * N * VALUES, t->scene.parts[r].out,
                       sizeof t->scene.parts[r].out);
            t->loser = (int)(k + (size_t)transport) % RANKS;
            assert_true(refuse_in_turn(t, first) > 20);
        }
    }
    free(first);
    free(t);
}

/* ---- messages ---------------------------------------------------------------------------------------- */

static void messages_that_fail(void **state) {
    (void)state;
    trial *t = malloc(sizeof *t);
    int stages[ENDED] = {0};
    for (int k = 0; k < CELLS; k++) {
        for (int transport = 0; transport < 2 - k % 2; transport++) {
            begin(t, &cells[k], transports[transport]);
            if (!runs(t)) continue;
            const int failing = k % RANKS;
            const int before = held;
            /* Of every fourth case all of the first 16; fewer and fewer after that. */
            for (int64_t at = 1; run(t, failing, at);
                 at += k % 4 == 0 && at < 16 ? 1 : 1 + 3 * at) {
                const answer *own = &t->of[failing];
                assert_int_equal(own->status, OTA_ECOMM);
                assert_non_null(strstr(own->error.message, "answered 7 in"));
                stages[own->at]++;
                for (int r = 0; r < RANKS; r++) {
                    const answer *a = &t->of[r];
                    assert_int_equal(a->status, OTA_ECOMM);
                    assert_false(a->held_plan);
                    if (a->at == CREATE) assert_true(t->scene.parts[r].out[0] == 7.0);
                }
            }
            assert_int_equal(held, before);
        }
    }
    for (stage at = CREATE; at < ENDED; at++) {
        if (stages[at] == 0) fail_msg("no message of %s failed", stage_names[at]);
    }
    free(t);
}

/* ---- other arrays ------------------------------------------------------------------------------------- */

typedef struct move {
    scene from, to;
    ota_key_transport transport;
    ota_status status[RANKS];
    ota_error error[RANKS];
} move;

/* A plan of `from`, and what it finds for `to`; or a plan of `to` alone, into the start of `from`. */
static void work_move(crew_rank *rank, void *context) {
    move *m = context;
    const int me = rank->to.rank;
    setting first = {0}, now = {0};
    rank->to.keys = m->transport;
    ota_options options = {.size = sizeof options, .threads = 1, .communicator = &rank->to};
    ota_plan *plan = NULL;
    set_part(&first, &m->from, &m->from.parts[me], &options);
    set_part(&now, &m->to, &m->to.parts[me], &options);
    if (m->transport != OTA_KEYS_GATHERED)
        first.arrays.coupling = now.arrays.coupling = (ota_array){0};
    ota_error *error = &m->error[me];
    ota_status status = ota_plan_create(&plan, &first.problem, VALUES, &options, error);
    if (status >= OTA_OK) status = ota_forward(plan, &first.arrays, NULL, error);
    if (status >= OTA_OK) status = ota_plan_rebind(plan, &now.problem, error);
    if (status >= OTA_OK) status = ota_forward(plan, &now.arrays, NULL, error);
    ota_plan_free(plan);
    plan = NULL;
    now.arrays.out =
        ota_array_of(m->from.parts[me].out, OTA_F64, BATCH, HEADS, m->to.parts[me].n, VALUES);
    if (status >= OTA_OK) status = ota_plan_create(&plan, &now.problem, VALUES, &options, error);
    if (status >= OTA_OK) status = ota_forward(plan, &now.arrays, NULL, error);
    ota_plan_free(plan);
    m->status[me] = status;
    if (status < OTA_OK) leave(rank->all);
}

static void a_plan_goes_on_with_other_arrays(void **state) {
    (void)state;
    move *m = malloc(sizeof *m);
    int moved = 0;
    for (int k = 0; k < 2 * CELLS; k += 3) {
        const cell *c = &cells[k / 2];
        draw(&m->from, c, 710);
        draw(&m->to, c, 720);
        share_out(&m->from, RANKS, false);
        memcpy(m->to.shares, m->from.shares, sizeof m->to.shares);
        cut(&m->from, RANKS, OTA_SHARES_IN_ORDER);
        cut(&m->to, RANKS, OTA_SHARES_IN_ORDER);
        m->transport = transports[k % 2];
        crew_once(RANKS, OTA_SHARES_IN_ORDER, work_move, m);
        for (int r = 0; r < RANKS; r++) {
            if (m->status[r] == OTA_UNSUPPORTED && m->transport == OTA_KEYS_IN_RING) continue;
            if (m->status[r] < OTA_OK) fail_msg("%s: %s", c->method, m->error[r].message);
            assert_memory_equal(m->from.parts[r].out, m->to.parts[r].out,
                                (size_t)(ALL * m->to.parts[r].n * VALUES) * sizeof(double));
            moved++;
        }
    }
    assert_true(moved > CELLS / 2);
    free(m);
}

TEST_FILE(test_refused_ranks) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_one_rank_lacks),
        cmocka_unit_test(messages_that_fail),
        cmocka_unit_test(a_plan_goes_on_with_other_arrays),
    };
    return cmocka_run_group_tests_name("refused_ranks", tests, NULL, NULL);
}
