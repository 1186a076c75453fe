/* test_shards_arguments.c: calls of which one rank alone has an argument wrong. That rank says what is wrong and the others that
 * it refused, or all say what they want differently; nobody waits, and the same call made right goes well on the same plan. */
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

#include "problem/problem.h"
#include "groups.h"
#include "shards_scene.h"

enum { RANKS = 2 };

typedef enum stage { FORWARD, REBIND, BACKWARD, JVP, DECODE } stage;

/* What a rank hands to one call; a pointer that is NULL is handed on as such. */
typedef struct call {
    setting now;
    ota_result result;
    ota_gradients want;
    ota_tangents moved;
    ota_problem *problem;
    ota_arrays *arrays;
    ota_gradients *gradients;
    ota_tangents *tangents;
    ota_array of_terms[4];
    double numbers[4][ALL * N * N];
    struct {
        ota_gradients want;
        char later;
    } newer;
} call;

typedef struct wrong {
    stage at;
    const char *method;
    void (*spoil)(call *c);
    ota_status status;         /* of the rank that is wrong */
    const char *field, *words; /* and its sentence */
    ota_status others;         /* of the other: OTA_EMISMATCH, that it refused; or the same */
    int transports;            /* bits: gathered, ring */
    bool matrix;
} wrong;

enum { GATHERED = 1, RING = 2, BOTH = 3 };

/* ---- what is wrong ------------------------------------------------------------------------------- */

static void nothing(call *c) { (void)c; }
static void no_arrays(call *c) { c->arrays = NULL; }
static void empty_arrays(call *c) { c->now.arrays.size = 0; }
static void empty_result(call *c) { c->result.size = 0; }
static void values_nowhere(call *c) { c->now.arrays.values.data = NULL; }
static void values_of_integers(call *c) { c->now.arrays.values.type = OTA_I64; }
static void fewer_values(call *c) { c->now.arrays.values.size[2]--; }
static void out_on_keys(call *c) { c->now.arrays.out.data = c->now.problem.keys.data; }
static void out_on_values(call *c) { c->now.arrays.out.data = c->now.arrays.values.data; }
static void pairs_on_keys(call *c) { c->now.arrays.coupling.data = c->now.problem.keys.data; }
static void pairs_on_values(call *c) { c->now.arrays.coupling.data = c->now.arrays.values.data; }
static void lse_on_keys(call *c) { c->now.arrays.lse.data = c->now.problem.keys.data; }
static void receiver_on_values(call *c) { c->now.arrays.receiver.data = c->now.arrays.values.data; }
/* The same numbers, which f32 holds. */
static void narrow_values(call *c) {
    ota_array *v = &c->now.arrays.values;
    float *to = (float *)(void *)c->numbers[3];
    const int64_t count = v->size[0] * v->size[1] * v->size[2] * v->size[3];
    for (int64_t k = 0; k < count; k++) to[k] = (float)((const double *)v->data)[k];
    v->data = to;
    v->type = OTA_F32;
}
static void no_values(call *c) { c->now.arrays.values = c->now.arrays.out = (ota_array){0}; }
static void no_out(call *c) { c->now.arrays.out = (ota_array){0}; }
static void no_receiver(call *c) { c->now.arrays.receiver = (ota_array){0}; }
static void a_start(call *c) {
    c->now.arrays.start_potential = ota_array_of(c->numbers[3], OTA_F64, BATCH, HEADS, 1, N);
}
static void a_statistic(call *c) {
    c->now.arrays.row_max =
        ota_array_of(c->numbers[3], OTA_F64, BATCH, HEADS, 1, c->now.arrays.out.size[2]);
}
static void some_pairs(call *c) {
    c->now.arrays.coupling =
        ota_array_of(c->numbers[3], OTA_F64, BATCH, HEADS, c->now.arrays.out.size[2], N);
}

static void no_problem(call *c) { c->problem = NULL; }
static void empty_problem(call *c) { c->now.problem.size = 0; }
static void fewer_keys(call *c) { c->now.problem.keys.size[2]--; }
static void other_columns(call *c) { c->now.problem.columns = OTA_COLUMNS_EXACT; }
static void wider_queries(call *c) {
    c->now.problem.queries.size[3]--;
    c->now.problem.keys.size[3]--;
}

static void no_gradients(call *c) { c->gradients = NULL; }
static void empty_gradients(call *c) { c->want.size = 0; }
static void newer_gradients(call *c) {
    c->newer.want = c->want;
    c->newer.want.size = sizeof c->newer;
    c->newer.later = 1;
    c->gradients = &c->newer.want;
}
static void fewer_key_gradients(call *c) { c->want.keys.size[2]--; }
static void key_gradients_of_integers(call *c) { c->want.keys.type = OTA_I64; }
static void key_gradients_nowhere(call *c) { c->want.keys.data = NULL; }
static void key_gradients_on_themselves(call *c) { c->want.keys.stride[2] = 0; }
static void wider_value_gradients(call *c) { c->want.values.size[3]++; }
static void out_gradients_of_integers(call *c) { c->want.out_grad.type = OTA_I64; }
static void pair_gradients(call *c) {
    c->want.coupling_grad =
        ota_array_of(c->numbers[3], OTA_F64, BATCH, HEADS, c->now.arrays.out.size[2], N);
}
static void score_gradients(call *c) {
    c->want.scores =
        ota_array_of(c->numbers[3], OTA_F64, BATCH, HEADS, c->now.arrays.out.size[2], N);
}
static void mass_gradients(call *c) {
    c->want.column_mass = ota_array_of(c->numbers[3], OTA_F64, 1, 1, 1, N);
}
static void solved(call *c) { c->want.solved = 1; }
static void order_gradient(call *c) {
    c->want.order = ota_array_of(c->numbers[3], OTA_F64, 1, 1, 1, 1);
}
static void term_gradient(call *c) {
    c->of_terms[0] = ota_array_of(c->numbers[3], OTA_F64, 1, 1, 1, 1);
    c->want.terms = c->of_terms;
}

static void key_gradients_on_keys(call *c) { c->want.keys.data = c->now.problem.keys.data; }
static void key_gradients_on_values(call *c) { c->want.keys.data = c->now.arrays.values.data; }
static void value_gradients_on_out_grad(call *c) { c->want.values.data = c->want.out_grad.data; }
static void value_gradients_on_key_gradients(call *c) { c->want.values.data = c->want.keys.data; }
static void query_gradients_on_keys(call *c) {
    c->want.queries = c->now.problem.queries;
    c->want.queries.data = c->now.problem.keys.data;
}
static void query_gradients(call *c) {
    c->want.queries = c->now.problem.queries;
    c->want.queries.data = c->numbers[3];
}
static void out_on_key_tangents(call *c) {
    c->moved.keys.data = c->numbers[3];
    c->moved.out.data = c->numbers[3];
}
static void moved_out_on_keys(call *c) { c->moved.out.data = c->now.problem.keys.data; }
static void moved_out_on_values(call *c) { c->moved.out.data = c->now.arrays.values.data; }

static void no_tangents(call *c) { c->tangents = NULL; }
static void empty_tangents(call *c) { c->moved.size = 0; }
static void fewer_key_tangents(call *c) { c->moved.keys.size[2]--; }
static void key_tangents_of_integers(call *c) { c->moved.keys.type = OTA_I64; }
static void wider_value_tangents(call *c) { c->moved.values.size[3]++; }
static void pair_tangents(call *c) {
    c->moved.coupling =
        ota_array_of(c->numbers[3], OTA_F64, BATCH, HEADS, c->now.arrays.out.size[2], N);
}
static void score_tangents(call *c) {
    c->moved.scores =
        ota_array_of(c->numbers[3], OTA_F64, BATCH, HEADS, c->now.arrays.out.size[2], N);
}

static const wrong table[] = {
    {FORWARD, "softmax", no_arrays, OTA_EINVAL, "arrays.size", "arrays is NULL", OTA_EMISMATCH,
     BOTH, false},
    {FORWARD, "softmax", empty_arrays, OTA_EINVAL, "arrays.size", "arrays.size is 0", OTA_EMISMATCH,
     BOTH, false},
    {FORWARD, "softmax", empty_result, OTA_EINVAL, "result.size", "result.size is 0", OTA_EMISMATCH,
     BOTH, false},
    {FORWARD, "softmax", values_nowhere, OTA_EINVAL, "values", "values has no data", OTA_EMISMATCH,
     BOTH, false},
    {FORWARD, "softmax", values_of_integers, OTA_EINVAL, "values", "values", OTA_EMISMATCH, BOTH,
     false},
    {FORWARD, "softmax", fewer_values, OTA_EINVAL, "values", "values has shape", OTA_EMISMATCH,
     BOTH, false},
    {FORWARD, "softmax", out_on_keys, OTA_EALIAS, "out", "out overlaps keys", OTA_EMISMATCH, BOTH,
     false},
    {FORWARD, "softmax", out_on_values, OTA_EALIAS, "out", "out overlaps values", OTA_EMISMATCH,
     BOTH, false},
    {FORWARD, "softmax", pairs_on_keys, OTA_EALIAS, "coupling", "coupling overlaps keys",
     OTA_EMISMATCH, GATHERED, false},
    {FORWARD, "softmax", pairs_on_values, OTA_EALIAS, "coupling", "coupling overlaps values",
     OTA_EMISMATCH, GATHERED, false},
    {FORWARD, "softmax", lse_on_keys, OTA_EALIAS, "lse", "lse overlaps keys", OTA_EMISMATCH, BOTH,
     false},
    {FORWARD, "softmax", receiver_on_values, OTA_EALIAS, "receiver", "receiver overlaps values",
     OTA_EMISMATCH, BOTH, false},
    {FORWARD, "softmax", some_pairs, OTA_UNSUPPORTED, "coupling",
     "coupling needs all keys of a row at once", OTA_EMISMATCH, RING, false},
    {FORWARD, "softmax", narrow_values, OTA_EMISMATCH, "values",
     "values are of one type on some ranks and of another", OTA_EMISMATCH, BOTH, false},
    {FORWARD, "softmax", narrow_values, OTA_OK, "", "", OTA_OK, GATHERED, true},
    {FORWARD, "softmax", no_values, OTA_EMISMATCH, "values",
     "values is present on some ranks and not on others", OTA_EMISMATCH, BOTH, false},
    {FORWARD, "softmax", no_out, OTA_EMISMATCH, "out",
     "out is present on some ranks and not on others", OTA_EMISMATCH, BOTH, false},
    {FORWARD, "softmax", no_out, OTA_EMISMATCH, "out",
     "out is present on some ranks and not on others", OTA_EMISMATCH, GATHERED, true},
    {FORWARD, "softmax", no_receiver, OTA_EMISMATCH, "receiver",
     "receiver is present on some ranks and not on others", OTA_EMISMATCH, BOTH, false},
    {FORWARD, "softmax/exact", a_start, OTA_EMISMATCH, "start_potential",
     "start_potential is present on some ranks and not on others", OTA_EMISMATCH, BOTH, false},
    {FORWARD, "softmax", a_statistic, OTA_EMISMATCH, "row_entropy, row_support or row_max",
     "is present on some ranks and not on others", OTA_EMISMATCH, RING, false},
    {FORWARD, "softmax", a_statistic, OTA_OK, "", "", OTA_OK, GATHERED, false},

    {REBIND, "softmax", nothing, OTA_OK, "", "", OTA_OK, BOTH, false},
    {REBIND, "softmax", no_problem, OTA_EINVAL, "problem", "problem is NULL", OTA_EMISMATCH, BOTH,
     false},
    {REBIND, "softmax", empty_problem, OTA_EINVAL, "problem.size", "problem.size is 0",
     OTA_EMISMATCH, BOTH, false},
    {REBIND, "softmax", fewer_keys, OTA_EINVAL, "keys", "keys differ from the plan's",
     OTA_EMISMATCH, BOTH, false},
    {REBIND, "softmax", wider_queries, OTA_EINVAL, "keys", "keys differ from the plan's",
     OTA_EMISMATCH, BOTH, false},
    {REBIND, "softmax", other_columns, OTA_EINVAL, "columns", "columns differ from the plan's",
     OTA_EMISMATCH, BOTH, false},
    {REBIND, "softmax", other_columns, OTA_EINVAL, "columns", "columns differ from the plan's",
     OTA_EMISMATCH, GATHERED, true},

    {BACKWARD, "softmax", no_arrays, OTA_EINVAL, "arrays.size", "arrays is NULL", OTA_EMISMATCH,
     BOTH, false},
    {BACKWARD, "softmax", no_gradients, OTA_EINVAL, "gradients.size", "gradients is NULL",
     OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", empty_gradients, OTA_EINVAL, "gradients.size", "gradients.size is 0",
     OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", newer_gradients, OTA_UNSUPPORTED, "gradients.size",
     "a later field is set", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", fewer_key_gradients, OTA_EINVAL, "keys", "keys has shape", OTA_EMISMATCH,
     BOTH, false},
    {BACKWARD, "softmax", key_gradients_of_integers, OTA_EINVAL, "keys", "keys", OTA_EMISMATCH,
     BOTH, false},
    {BACKWARD, "softmax", key_gradients_nowhere, OTA_EINVAL, "keys", "keys has no data",
     OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", key_gradients_on_themselves, OTA_EALIAS, "keys",
     "gradient keys overlaps itself", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", wider_value_gradients, OTA_EINVAL, "values", "values has shape",
     OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", out_gradients_of_integers, OTA_EINVAL, "out_grad", "has type",
     OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", pair_gradients, OTA_UNSUPPORTED, "coupling_grad", "matrices of pairs",
     OTA_EMISMATCH, RING, false},
    {BACKWARD, "softmax", score_gradients, OTA_UNSUPPORTED, "scores", "matrices of pairs",
     OTA_EMISMATCH, RING, false},
    {BACKWARD, "softmax", score_gradients, OTA_OK, "", "", OTA_OK, GATHERED, false},
    {BACKWARD, "softmax", mass_gradients, OTA_UNSUPPORTED, "column_mass", "masses of free columns",
     OTA_EMISMATCH, RING, false},
    {BACKWARD, "softmax/exact{rounds=5}", pair_gradients, OTA_OK, "", "", OTA_OK, GATHERED, false},
    {BACKWARD, "softmax", narrow_values, OTA_EMISMATCH, "values",
     "values are of one type on some ranks and of another", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", query_gradients, OTA_OK, "", "", OTA_OK, BOTH, false},
    {BACKWARD, "softmax", key_gradients_on_keys, OTA_EALIAS, "keys", "gradient keys overlaps keys",
     OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", key_gradients_on_values, OTA_EALIAS, "keys",
     "gradient keys overlaps values", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", value_gradients_on_out_grad, OTA_EALIAS, "values",
     "gradient values overlaps out_grad", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", value_gradients_on_key_gradients, OTA_EALIAS, "values",
     "gradient values overlaps keys", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", query_gradients_on_keys, OTA_EALIAS, "queries",
     "gradient queries overlaps keys", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", solved, OTA_EMISMATCH, "solved",
     "gradients.solved is given on some ranks and not on others", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "entmax:1.5", order_gradient, OTA_EMISMATCH, "order",
     "gradients.order is given on some ranks and not on others", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", term_gradient, OTA_EMISMATCH, "terms",
     "gradients.terms is given on some ranks and not on others", OTA_EMISMATCH, BOTH, false},
    {BACKWARD, "softmax", term_gradient, OTA_EMISMATCH, "terms",
     "gradients.terms is given on some ranks and not on others", OTA_EMISMATCH, GATHERED, true},

    {JVP, "softmax", no_arrays, OTA_EINVAL, "arrays.size", "arrays is NULL", OTA_EMISMATCH, BOTH,
     false},
    {JVP, "softmax", no_tangents, OTA_EINVAL, "tangents.size", "tangents is NULL", OTA_EMISMATCH,
     BOTH, false},
    {JVP, "softmax", empty_tangents, OTA_EINVAL, "tangents.size", "tangents.size is 0",
     OTA_EMISMATCH, BOTH, false},
    {JVP, "softmax", fewer_key_tangents, OTA_EINVAL, "keys", "keys has shape", OTA_EMISMATCH, BOTH,
     false},
    {JVP, "softmax", key_tangents_of_integers, OTA_EINVAL, "keys", "keys", OTA_EMISMATCH, BOTH,
     false},
    {JVP, "softmax", wider_value_tangents, OTA_EINVAL, "values", "values has shape", OTA_EMISMATCH,
     BOTH, false},
    {JVP, "softmax", pair_tangents, OTA_UNSUPPORTED, "coupling", "of the coupling", OTA_EMISMATCH,
     RING, false},
    {JVP, "softmax", score_tangents, OTA_UNSUPPORTED, "scores", "along scores", OTA_EMISMATCH, RING,
     false},
    {JVP, "softmax", narrow_values, OTA_EMISMATCH, "values",
     "values are of one type on some ranks and of another", OTA_EMISMATCH, BOTH, false},
    {JVP, "softmax", out_on_key_tangents, OTA_EALIAS, "out", "tangent out overlaps keys",
     OTA_EMISMATCH, BOTH, false},
    {JVP, "softmax", moved_out_on_keys, OTA_EALIAS, "out", "tangent out overlaps keys",
     OTA_EMISMATCH, BOTH, false},
    {JVP, "softmax", moved_out_on_values, OTA_EALIAS, "out", "tangent out overlaps values",
     OTA_EMISMATCH, BOTH, false},
    {JVP, "softmax", score_tangents, OTA_OK, "", "", OTA_OK, GATHERED, false},
    {JVP, "softmax", score_tangents, OTA_OK, "", "", OTA_OK, GATHERED, true},

    {DECODE, "softmax", nothing, OTA_UNSUPPORTED, "communicator",
     "a step of decoding has too few rows to share out", OTA_UNSUPPORTED, BOTH, false},
};

/* ---- calls --------------------------------------------------------------------------------------- */

typedef struct answer {
    ota_status status, again;
    ota_error error;
    char field[64];
    double before[ALL * N * VALUES]; /* out, as it was before the call */
    bool wrote;
} answer;

typedef struct trial {
    int who; /* the rank that is wrong */
    scene scene;
    const wrong *what;
    ota_key_transport transport;
    answer of[RANKS];
} trial;

static void prepare(call *c, const scene *s, part *p, ota_options *options, bool ring) {
    memset(c, 0, sizeof *c);
    set_part(&c->now, s, p, options);
    const ota_array *k = &c->now.problem.keys, *v = &c->now.arrays.values;
    const bool matrix = s->cell->matrix;
    if (ring) c->now.arrays.coupling = (ota_array){0};
    c->result.size = sizeof c->result;
    c->want.size = sizeof c->want;
    c->moved.size = sizeof c->moved;
    c->want.out_grad = ota_array_of(p->grads.out, OTA_F64, BATCH, HEADS, p->n, VALUES);
    c->moved.out = ota_array_of(c->numbers[2], OTA_F64, BATCH, HEADS, p->n, VALUES);
    c->want.values =
        ota_array_of(c->numbers[1], OTA_F64, v->size[0], v->size[1], v->size[2], v->size[3]);
    c->moved.values = *v;
    if (!matrix) {
        c->want.keys =
            ota_array_of(c->numbers[0], OTA_F64, k->size[0], k->size[1], k->size[2], k->size[3]);
        c->moved.keys = *k;
    }
    c->problem = &c->now.problem;
    c->arrays = &c->now.arrays;
    c->gradients = &c->want;
    c->tangents = &c->moved;
}

static ota_status make(stage at, ota_plan *plan, call *c, ota_error *error) {
    switch (at) {
    case FORWARD: return ota_forward(plan, c->arrays, &c->result, error);
    case REBIND: return ota_plan_rebind(plan, c->problem, error);
    case BACKWARD: return ota_backward(plan, c->arrays, c->gradients, &c->result, error);
    case JVP: return ota_jvp(plan, c->arrays, c->tangents, &c->result, error);
    default: return ota_decode(plan, c->arrays, N, &c->result, error);
    }
}

static void work(crew_rank *rank, void *context) {
    trial *t = context;
    const int me = rank->to.rank;
    part *p = &t->scene.parts[me];
    answer *a = &t->of[me];
    call *c = malloc(sizeof *c);
    const bool ring = t->transport == OTA_KEYS_IN_RING;
    rank->to.keys = t->transport;
    ota_options options = {
        .size = sizeof options, .threads = 1, .communicator = &rank->to, .gradients = 1};
    ota_plan *plan = NULL;
    prepare(c, &t->scene, p, &options, ring);
    memset(a, 0, sizeof *a);
    a->status = ota_plan_create(&plan, &c->now.problem, VALUES, &options, &a->error);
    if (a->status >= OTA_OK) a->status = ota_forward(plan, &c->now.arrays, NULL, &a->error);
    if (a->status >= OTA_OK) {
        memcpy(a->before, p->out, sizeof a->before);
        memset(&a->error, 0, sizeof a->error);
        /* A plan that did not take these goes on with those it has. */
        const bool binds = t->what->at == REBIND, refused = t->what->status < OTA_OK;
        if (binds && !t->scene.cell->matrix) c->now.problem.keys.data = c->numbers[2];
        if (me == t->who) t->what->spoil(c);
        a->status = make(t->what->at, plan, c, &a->error);
        a->wrote = memcmp(a->before, p->out, sizeof a->before) != 0;
        prepare(c, &t->scene, p, &options, ring);
        ota_error unused;
        a->again = t->what->at == DECODE || (binds && refused)
                       ? OTA_OK
                       : make(t->what->at, plan, c, &unused);
        /* And forward has the same bits as ever. */
        if (a->again >= OTA_OK) a->again = ota_forward(plan, &c->now.arrays, NULL, &unused);
        a->wrote = a->wrote || memcmp(a->before, p->out, sizeof a->before) != 0;
    }
    ota_plan_free(plan);
    free(c);
}

static int expect(const trial *t, int rank) {
    int wrongs = 0;
    const wrong *w = t->what;
    const answer *a = &t->of[rank];
    const bool own = rank == t->who || w->others == w->status;
    const char *words = own           ? w->words
                        : t->who == 0 ? "rank 0 refused the call with"
                                      : "rank 1 refused the call with";
    const ota_status wanted = own ? w->status : w->others;
    if (a->status != wanted || strstr(a->error.message, words) == NULL ||
        (own && strcmp(a->error.field, w->field) != 0))
        wrongs += printf(
            "%s, transport %d, stage %d: rank %d answers %d, '%s': %s; wanted %d, '%s': %s\n",
            w->method, (int)t->transport, (int)w->at, rank, (int)a->status, a->error.field,
            a->error.message, (int)wanted, own ? w->field : "", words);
    if (a->again < OTA_OK || a->wrote)
        wrongs += printf(
            "%s, transport %d, stage %d, '%s': made right on rank %d it answers %d, or writes\n",
            w->method, (int)t->transport, (int)w->at, w->words, rank, (int)a->again);
    return wrongs;
}

static void one_rank_is_wrong(void **state) {
    (void)state;
    static const ota_key_transport transports[] = {OTA_KEYS_GATHERED, OTA_KEYS_IN_RING};
    trial *t = malloc(sizeof *t);
    int wrongs = 0;
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        const wrong *w = &table[k];
        const cell one = {.method = w->method, .alibi = true, .matrix = w->matrix};
        for (int turn = 0; turn < 4; turn++) {
            const int transport = turn / 2;
            if ((w->transports >> transport & 1) == 0) continue;
            t->who = turn % 2;
            draw(&t->scene, &one, 800);
            share_out(&t->scene, RANKS, false);
            cut(&t->scene, RANKS, OTA_SHARES_IN_ORDER);
            t->what = w;
            t->transport = transports[transport];
            crew_once(RANKS, OTA_SHARES_IN_ORDER, work, t);
            for (int r = 0; r < RANKS; r++) wrongs += expect(t, r);
        }
    }
    free(t);
    assert_int_equal(wrongs, 0);
}

/* ---- memory that moves --------------------------------------------------------------------------- */

typedef struct removal {
    scene scene;
    ota_key_transport transport;
    double found[2][RANKS][ALL * N * VALUES];
    ota_status status[RANKS];
    ota_error error[RANKS];
} removal;

/* jvp and backward read the values that they are given, wherever those of forward lay. */
static void move_values(crew_rank *rank, void *context) {
    removal *m = context;
    const int me = rank->to.rank;
    part *p = &m->scene.parts[me];
    call *c = malloc(sizeof *c);
    rank->to.keys = m->transport;
    ota_options options = {
        .size = sizeof options, .threads = 1, .communicator = &rank->to, .gradients = 1};
    ota_plan *plan = NULL;
    ota_error *error = &m->error[me];
    prepare(c, &m->scene, p, &options, m->transport == OTA_KEYS_IN_RING);
    ota_status status = ota_plan_create(&plan, &c->now.problem, VALUES, &options, error);
    for (int turn = 0; turn < 2 && status >= OTA_OK; turn++) {
        status = ota_forward(plan, &c->now.arrays, NULL, error);
        if (turn == 1) {
            memcpy(c->numbers[3], p->v, sizeof p->v);
            for (int k = 0; k < ALL * N * VALUES; k++) p->v[k] = (double)NAN;
            c->now.arrays.values.data = c->moved.values.data = c->numbers[3];
        }
        if (status >= OTA_OK) status = ota_jvp(plan, &c->now.arrays, &c->moved, NULL, error);
        memcpy(m->found[turn][me], c->numbers[2], sizeof m->found[turn][me]);
    }
    m->status[me] = status;
    ota_plan_free(plan);
    free(c);
}

static void values_may_move(void **state) {
    (void)state;
    static const cell one = {.method = "softmax"};
    static const ota_key_transport transports[] = {OTA_KEYS_GATHERED, OTA_KEYS_IN_RING};
    removal *m = malloc(sizeof *m);
    for (int transport = 0; transport < 2; transport++) {
        draw(&m->scene, &one, 810);
        share_out(&m->scene, RANKS, false);
        cut(&m->scene, RANKS, OTA_SHARES_IN_ORDER);
        m->transport = transports[transport];
        crew_once(RANKS, OTA_SHARES_IN_ORDER, move_values, m);
        for (int r = 0; r < RANKS; r++) {
            if (m->status[r] < OTA_OK) fail_msg("%s", m->error[r].message);
            assert_memory_equal(m->found[0][r], m->found[1][r],
                                (size_t)(ALL * m->scene.parts[r].n * VALUES) * sizeof(double));
        }
    }
    free(m);
}

/* ---- other types --------------------------------------------------------------------------------- */

typedef struct types {
    scene scene;
    ota_key_transport transport;
    int turn;
    ota_type type[2]; /* of the values */
    double values[RANKS][ALL * N * VALUES], out[2][RANKS][ALL * N * VALUES];
    ota_status status[RANKS];
    ota_error error[RANKS];
} types;

static void solve_typed(crew_rank *rank, void *context) {
    types *t = context;
    const int me = rank->to.rank;
    part *p = &t->scene.parts[me];
    setting now = {0};
    rank->to.keys = t->transport;
    ota_options options = {.size = sizeof options, .threads = 1, .communicator = &rank->to};
    set_part(&now, &t->scene, p, &options);
    if (t->transport == OTA_KEYS_IN_RING) now.arrays.coupling = (ota_array){0};
    now.arrays.values =
        ota_array_of(t->values[me], t->type[t->turn], BATCH, KEY_HEADS, p->n, VALUES);
    /* Numbers that all types hold. */
    const ota_array line =
        ota_array_of(t->values[me], t->type[t->turn], 1, 1, 1, BATCH * KEY_HEADS * p->n * VALUES);
    for (int64_t k = 0; k < line.size[3]; k++)
        ota_array_set(&line, 0, 0, 0, k, floor(9.0 * p->v[k]));
    t->status[me] = ota_attend(&now.problem, &options, &now.arrays, NULL, &t->error[me]);
    memcpy(t->out[t->turn][me], p->out, sizeof p->out);
}

typedef struct pair {
    ota_key_transport transport;
    bool narrow_keys;
    ota_type first, second;
    bool rounds; /* the second */
} pair;

static const pair pairs[] = {
    {OTA_KEYS_GATHERED, false, OTA_F64, OTA_F32, false},
    {OTA_KEYS_GATHERED, true, OTA_F32, OTA_F64, false},
    {OTA_KEYS_IN_RING, false, OTA_F64, OTA_F32, false},
    {OTA_KEYS_IN_RING, false, OTA_F64, OTA_BF16, false},
    {OTA_KEYS_IN_RING, true, OTA_F32, OTA_BF16, false},
    {OTA_KEYS_IN_RING, true, OTA_F32, OTA_F16, false},
    {OTA_KEYS_IN_RING, true, OTA_F32, OTA_F64, true},
};

/* Values of another type than keys: the same numbers give the same bits, and what a ring would round is refused. */
static void values_of_another_type_than_keys(void **state) {
    (void)state;
    types *t = malloc(sizeof *t);
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        const pair *two = &pairs[k];
        const cell one = {.method = "softmax", .narrow = two->narrow_keys};
        draw(&t->scene, &one, 820);
        share_out(&t->scene, RANKS, false);
        cut(&t->scene, RANKS, OTA_SHARES_IN_ORDER);
        t->transport = two->transport;
        t->type[0] = two->first;
        t->type[1] = two->second;
        for (t->turn = 0; t->turn < 2; t->turn++) {
            const bool rounds = two->rounds && t->turn == 1;
            crew_once(RANKS, OTA_SHARES_IN_ORDER, solve_typed, t);
            for (int r = 0; r < RANKS; r++) {
                if (t->status[r] != (rounds ? OTA_UNSUPPORTED : OTA_OK))
                    fail_msg("%s", t->error[r].message);
                if (rounds) assert_non_null(strstr(t->error[r].message, "another type than keys"));
            }
        }
        for (int r = 0; r < RANKS && !two->rounds; r++)
            assert_memory_equal(t->out[0][r], t->out[1][r],
                                (size_t)(ALL * t->scene.parts[r].n * VALUES) * sizeof(double));
    }
    free(t);
}

TEST_FILE(test_shards_arguments) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_is_wrong),
                                       cmocka_unit_test(values_may_move),
                                       cmocka_unit_test(values_of_another_type_than_keys)};
    return cmocka_run_group_tests_name("shards_arguments", tests, NULL, NULL);
}
