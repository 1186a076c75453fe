/* test_certificate_ranks.c: certificates of rows on many ranks: what they refuse, on all ranks and in one sentence, and what of one
 * rank alone is wrong. Right ones are those of one process (tests/operator/test_shards.c). */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "groups.h"
#include "shards_scene.h"

enum { RANKS = 2, WRONG = 1 };

typedef struct call {
    setting now;
    ota_options options;
    ota_certificate certificate;
    ota_certificate *given;
    ota_problem *problem;
} call;

typedef struct refusal {
    const char *method;
    void (*spoil)(call *c);
    bool alone; /* of the one rank */
    ota_status status;
    const char *field, *words;
} refusal;

static void nothing(call *c) { (void)c; }
static void transposed(call *c) { c->now.problem.axis = OTA_AXIS_COLUMNS; }
static void pruned(call *c) { c->options.prune = 1; }
static void no_potential(call *c) { c->now.arrays.column_potential = (ota_array){0}; }
static void no_coupling(call *c) {
    c->now.arrays.coupling = c->now.arrays.row_potential = (ota_array){0};
}
static void narrower_coupling(call *c) { c->now.arrays.coupling.size[3]--; }
static void no_certificate(call *c) { c->given = NULL; }
static void no_problem(call *c) { c->problem = NULL; }
static void colder(call *c) { c->now.problem.temperature = 0.5; }

static const refusal refusals[] = {
    {"softmax", nothing, false, OTA_OK, "", ""},
    {"softmax/exact", nothing, false, OTA_OK, "", ""},
    {"softmax", no_potential, false, OTA_OK, "", ""},
    {"softmax/exact", transposed, false, OTA_UNSUPPORTED, "communicator",
     "a certificate of rows on many ranks is for"},
    {"softmax/online:2", nothing, false, OTA_UNSUPPORTED, "communicator",
     "a certificate of rows on many ranks is for"},
    {"softmax/prefix", nothing, false, OTA_UNSUPPORTED, "communicator",
     "a certificate of rows on many ranks is for"},
    {"softmax/exact", pruned, false, OTA_UNSUPPORTED, "communicator",
     "a certificate of rows on many ranks is for"},
    {"softmax/exact", no_potential, false, OTA_EINVAL, "column_potential",
     "one rank's rows do not tell it"},
    {"softmax/exact", no_coupling, true, OTA_EINVAL, "coupling", "so is the row potential"},
    {"softmax", narrower_coupling, true, OTA_EINVAL, "coupling", "coupling has shape"},
    {"softmax", no_certificate, true, OTA_EINVAL, "certificate.size", "certificate.size is 0"},
    {"softmax", no_problem, true, OTA_EINVAL, "problem", "problem is NULL"},
    {"softmax", colder, true, OTA_EMISMATCH, "temperature", "rank 1 has another temperature"},
};

typedef struct trial {
    scene scene;
    const refusal *what;
    ota_status status[RANKS];
    ota_error error[RANKS];
    double errors[RANKS];
} trial;

static void judge(crew_rank *rank, void *context) {
    trial *t = context;
    const int me = rank->to.rank;
    part *p = &t->scene.parts[me];
    call c = {.certificate = {.size = sizeof c.certificate, .row_error = 7.0}};
    c.options = (ota_options){.size = sizeof c.options, .threads = 1, .communicator = &rank->to};
    set_part(&c.now, &t->scene, p, &c.options);
    c.given = &c.certificate;
    c.problem = &c.now.problem;
    for (int k = 0; k < ALL * N; k++) p->f[k] = p->g[k] = 0.0;
    for (int64_t k = 0; k < ALL * p->n * N; k++) p->p[k] = 1.0 / (double)N;
    if (me == WRONG || !t->what->alone) t->what->spoil(&c);
    memset(&t->error[me], 0, sizeof t->error[me]);
    t->status[me] = ota_certify(c.problem, &c.options, &c.now.arrays, c.given, NULL, &t->error[me]);
    t->errors[me] = c.certificate.row_error;
}

static void one_outcome_on_all_ranks(void **state) {
    (void)state;
    trial *t = malloc(sizeof *t);
    for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
        const refusal *r = &refusals[k];
        const cell one = {.method = r->method};
        draw(&t->scene, &one, 840);
        share_out(&t->scene, RANKS, false);
        cut(&t->scene, RANKS, OTA_SHARES_IN_ORDER);
        t->what = r;
        crew_once(RANKS, OTA_SHARES_IN_ORDER, judge, t);
        for (int rank = 0; rank < RANKS; rank++) {
            const bool own = rank == WRONG || !r->alone || r->status == OTA_EMISMATCH;
            const ota_status wanted = own ? r->status : OTA_EMISMATCH;
            const char *words = own ? r->words : "rank 1 refused the call with 'invalid'";
            if (t->status[rank] != wanted || strstr(t->error[rank].message, words) == NULL ||
                (own && strcmp(t->error[rank].field, r->field) != 0))
                fail_msg("%s, rank %d: %d, '%s': %s; wanted %s", r->method, rank,
                         (int)t->status[rank], t->error[rank].field, t->error[rank].message, words);
            if (r->status == OTA_OK)
                assert_true(t->errors[rank] < 1e-13);
            else
                assert_true(t->errors[rank] >= 7.0);
        }
    }
    free(t);
}

TEST_FILE(test_certificate_ranks) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_outcome_on_all_ranks)};
    return cmocka_run_group_tests_name("certificate_ranks", tests, NULL, NULL);
}
