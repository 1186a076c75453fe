/* test_deadlines.c: every call ends soon after its deadline, with OTA_TIMEOUT, at sizes where one of its steps takes many
 * times longer than that: a pass over all pairs, a factorisation, the loading of scores, a search, a certificate.
 *
 * The clock counts computation of the one thread that there is (work_clock.h), and what is allowed is many times what the
 * looks of the library are apart, so neither other programs nor sanitizers matter. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "one_rank.h"
#include "otattn.h"
#include "otattn_assignment.h"
#include "otattn_bounded.h"
#include "otattn_maxsim.h"
#include "otattn_normalize.h"
#include "otattn_route.h"
#include "work_clock.h"

static dice dice_state;

enum { MOST = 1 << 21, WIDTH = 16 };
/* Between a deadline and the answer: some 1 to 10 ms are usual, in which the output becomes NaN. */
static int64_t allowed(void) { return work_allowed(60000000); }

static double numbers[MOST], outputs[4][MOST];
static float narrow[MOST];

typedef enum step { FORWARD = 1, BACKWARD = 2, CERTIFY = 4 } step;

typedef struct kind {
    const char *method, *solver;
    int steps;
    int64_t queries, keys; /* 0: the size of most */
    int milliseconds;      /* before the deadline */
    bool causal;
    ota_key_transport transport; /* of ranks, of which there is one here; OTA_KEYS_AUTO: no ranks */
} kind;

enum { SIZE = 3000 };

/* Deadlines reach what comes late in a call: a Newton step after the first passes, its factor after the start. */
static const kind kinds[] = {
    {.method = "softmax", .steps = CERTIFY},
    {.method = "entmax:1.3", .steps = CERTIFY},
    {.method = "softmax{entry_cap=0.001}", .steps = FORWARD | BACKWARD},
    {.method = "softmax/online:2", .steps = FORWARD | BACKWARD},
    {.method = "softmax/exact", .steps = FORWARD | BACKWARD | CERTIFY},
    {.method = "softmax/exact", .steps = FORWARD, .causal = true},
    {.method = "softmax/exact", .solver = "newton", .steps = FORWARD, .milliseconds = 60},
    {.method = "softmax/exact", .solver = "log", .steps = FORWARD, .milliseconds = 30},
    {.method = "softmax/exact", .solver = "anderson", .steps = FORWARD, .milliseconds = 30},
    {.method = "softmax/exact{rounds=20}", .steps = FORWARD | BACKWARD, .milliseconds = 20},
    {.method = "softmax/exact{prune}", .steps = FORWARD | CERTIFY, .causal = true},
    {.method = "softmax/elastic:0.5,4", .steps = BACKWARD, .milliseconds = 10},
    {.method = "softmax/prefix", .steps = FORWARD},
    {.method = "softmax/exact{entry_cap=0.01}", .steps = FORWARD | CERTIFY, .milliseconds = 20},
    {.method = "entmax:1.5/exact", .steps = FORWARD | BACKWARD, .milliseconds = 40},
    {.method = "entmax:1.5/exact{temperature=0.001}",
     .steps = FORWARD,
     .queries = 9000,
     .keys = 1000,
     .milliseconds = 150},
    {.method = "entmax:1.3/exact", .steps = FORWARD | BACKWARD, .milliseconds = 40},
    {.method = "entmax:1.5/relaxed:1", .steps = FORWARD | BACKWARD, .milliseconds = 20},
    {.method = "entmax:2/capped:2", .steps = FORWARD, .milliseconds = 40},
    {.method = "entmax:2/bounded:0.5,2", .steps = FORWARD, .milliseconds = 20},
    {.method = "hard/exact", .steps = FORWARD, .milliseconds = 15},
    {.method = "hard/capped:2", .steps = FORWARD, .milliseconds = 30},
    {.method = "hard/exact{entry_cap=0.01}",
     .steps = FORWARD,
     .queries = 500,
     .keys = 500,
     .milliseconds = 20},
};

/* Blocks of pairs and plans of pieces within a ring, which hold all keys here. */
static const kind on_ranks[] = {
    {.method = "softmax", .steps = BACKWARD},
    {.method = "entmax:1.5", .steps = FORWARD | BACKWARD},
    {.method = "entmax:1.3", .steps = FORWARD, .milliseconds = 5},
    {.method = "hard", .steps = FORWARD},
    {.method = "softmax{entry_cap=0.001}", .steps = FORWARD | BACKWARD, .milliseconds = 5},
    {.method = "softmax/exact", .steps = FORWARD | BACKWARD, .milliseconds = 20},
    {.method = "softmax/exact{rounds=20}", .steps = FORWARD | BACKWARD, .milliseconds = 20},
    {.method = "entmax:1.5/exact", .steps = FORWARD | BACKWARD, .milliseconds = 40},
};

typedef struct stage {
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_gradients gradients;
    ota_support support;
    ota_communicator alone;
} stage;

static void set(stage *s, const kind *of) {
    const int64_t n = of->queries > 0 ? of->queries : SIZE, m = of->keys > 0 ? of->keys : SIZE;
    *s = (stage){.problem = {.size = sizeof s->problem}, .support = {.kind = OTA_SUPPORT_CAUSAL}};
    s->options = (ota_options){.size = sizeof s->options,
                               .threads = 1,
                               .solver = of->solver,
                               .gradients = (of->steps & BACKWARD) != 0};
    assert_int_equal(ota_method_parse(of->method, &s->problem, &s->options, NULL), OTA_OK);
    s->alone = one_rank();
    s->alone.keys = of->transport;
    if (of->transport != OTA_KEYS_AUTO) s->options.communicator = &s->alone;
    s->problem.queries = ota_array_of(numbers, OTA_F64, 1, 1, n, WIDTH);
    s->problem.keys = ota_array_of(numbers + n * WIDTH, OTA_F64, 1, 1, m, WIDTH);
    s->problem.supports = &s->support;
    s->problem.support_count = of->causal;
    s->arrays = (ota_arrays){.size = sizeof s->arrays};
    s->arrays.values = ota_array_of(numbers, OTA_F64, 1, 1, m, WIDTH);
    s->arrays.out = ota_array_of(outputs[0], OTA_F64, 1, 1, n, WIDTH);
    s->arrays.row_potential = ota_array_of(outputs[1], OTA_F64, 1, 1, 1, n);
    s->arrays.column_potential = ota_array_of(outputs[2], OTA_F64, 1, 1, 1, m);
    s->gradients = (ota_gradients){.size = sizeof s->gradients, .solved = 1};
    s->gradients.out_grad = ota_array_of(numbers, OTA_F64, 1, 1, n, WIDTH);
    s->gradients.keys = ota_array_of(outputs[3], OTA_F64, 1, 1, m, WIDTH);
}

/* What a machine with much else to do adds is of the moment: it takes three late answers. A fast one ends some calls
 * before their deadline: it is halved then, five times at most. */
enum { TRIALS = 3, HALVINGS = 5 };

typedef ota_status tried(void *context, int64_t deadline);

static void expect_soon(const char *what, int at, int64_t before, tried *call, void *context) {
    int64_t late = 0;
    int halvings = 0;
    for (int trial = 0; trial < TRIALS;) {
        const int64_t deadline = __wrap_ota_now_ns() + (before >> halvings);
        const ota_status status = call(context, deadline);
        late = __wrap_ota_now_ns() - deadline;
        if (status != OTA_TIMEOUT) {
            if (late > allowed() || ++halvings > HALVINGS)
                fail_msg("%s, step %d: status %d", what, at, (int)status);
            continue;
        }
        if (late <= allowed()) return;
        trial++;
    }
    fail_msg("%s, step %d: %.1f ms late", what, at, (double)late / 1e6);
}

typedef struct attempt {
    stage *s;
    step at;
} attempt;

/* Creates the plan anew, since the deadline is one of its options. */
static ota_status call_plan(void *context, int64_t deadline) {
    const attempt *a = context;
    stage *s = a->s;
    ota_certificate found = {.size = sizeof found};
    ota_error error;
    ota_plan *plan;
    s->options.deadline_ns = deadline;
    if (a->at == CERTIFY)
        return ota_certify(&s->problem, &s->options, &s->arrays, &found, NULL, NULL);
    s->alone.user = s;
    if (ota_plan_create(&plan, &s->problem, WIDTH, &s->options, &error) < OTA_OK)
        fail_msg("%s", error.message);
    const ota_status status = a->at == FORWARD
                                  ? ota_forward(plan, &s->arrays, NULL, NULL)
                                  : ota_backward(plan, &s->arrays, &s->gradients, NULL, NULL);
    ota_plan_free(plan);
    return status;
}

/* Whoever judges pruned plans reads the coupling. */
static void give_coupling(stage *s) {
    enum { SIDE = 1000 };
    static double coupling[SIDE * SIDE];
    s->problem.queries.size[2] = s->problem.keys.size[2] = SIDE;
    s->arrays.row_potential.size[3] = s->arrays.column_potential.size[3] = SIDE;
    s->arrays.coupling = ota_array_of(coupling, OTA_F64, 1, 1, SIDE, SIDE);
}

static void run_kind(const kind *of) {
    stage s;
    set(&s, of);
    for (int at = FORWARD; at <= CERTIFY; at *= 2) {
        if ((of->steps & at) == 0) continue;
        memset(outputs[1], 0, sizeof outputs[1]);
        memset(outputs[2], 0, sizeof outputs[2]);
        if (at == CERTIFY && s.options.prune) give_coupling(&s);
        attempt a = {&s, (step)at};
        expect_soon(of->method, at, INT64_C(1000000) * of->milliseconds, call_plan, &a);
    }
}

static void plans(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) run_kind(&kinds[k]);
}

static void plans_on_ranks(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof on_ranks / sizeof on_ranks[0]; k++) {
        for (int keys = OTA_KEYS_GATHERED; keys <= OTA_KEYS_IN_RING; keys++) {
            kind of = on_ranks[k];
            of.transport = (ota_key_transport)keys;
            run_kind(&of);
        }
    }
}

/* Steps of Newton's solvers with gathered keys look at the clock within each of their passes over the pairs, some ten a step. */
static void steps_on_ranks_look_within_passes(void **state) {
    (void)state;
    static const char *const methods[] = {"entmax:1.3/exact{max_rounds=4}",
                                          "entmax:1.3/relaxed:1{max_rounds=4}",
                                          "softmax/exact{entry_cap=0.01,max_rounds=4}"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        const kind of = {.method = methods[k], .transport = OTA_KEYS_GATHERED};
        stage s;
        ota_plan *plan;
        set(&s, &of);
        s.alone.user = &s;
        s.options.deadline_ns = INT64_MAX;
        assert_int_equal(ota_plan_create(&plan, &s.problem, WIDTH, &s.options, NULL), OTA_OK);
        work_reads = 0;
        (void)ota_forward(plan, &s.arrays, NULL, NULL);
        ota_plan_free(plan);
        /* A look every 2^17 pairs (problem.h), in thirty passes at least. */
        if (work_reads < 30 * (MOST >> 17)) fail_msg("%s: %d looks", methods[k], (int)work_reads);
    }
}

/* Looks since the last sum, and the fewest that came before one of three largest flags: those of the rows that are shut. */
static int64_t reads_before, fewest_reads;

static int reduce_and_count(void *user, void *values, int64_t count, ota_type type,
                            ota_reduction how) {
    if (count == 3 && how == OTA_REDUCE_MAX && work_reads - reads_before < fewest_reads)
        fewest_reads = work_reads - reads_before;
    reads_before = work_reads;
    return reduce_of_one(user, values, count, type, how);
}

/* So does the pass that looks for rows that are shut, whose answer all ranks act on at once. */
static void the_first_pass_on_ranks_looks(void **state) {
    (void)state;
    const kind of = {
        .method = "entmax:1.3/exact{max_rounds=1}", .transport = OTA_KEYS_GATHERED, .causal = true};
    stage s;
    ota_plan *plan;
    set(&s, &of);
    s.alone.user = &s;
    s.alone.all_reduce = reduce_and_count;
    s.options.deadline_ns = INT64_MAX;
    fewest_reads = INT64_MAX;
    assert_int_equal(ota_plan_create(&plan, &s.problem, WIDTH, &s.options, NULL), OTA_OK);
    (void)ota_forward(plan, &s.arrays, NULL, NULL);
    ota_plan_free(plan);
    const int64_t wanted = ((int64_t)SIZE * SIZE) >> 18;
    if (fewest_reads < wanted || fewest_reads == INT64_MAX)
        fail_msg("%lld looks, not %lld", (long long)fewest_reads, (long long)wanted);
}

/* ---- batches ------------------------------------------------------------------------------------ */

enum { SOON = 5000000, VERY_SOON = 100000 };

typedef struct assigned {
    ota_assigner *assigner;
    ota_assignments batch;
} assigned;

static ota_status call_assign(void *context, int64_t deadline) {
    assigned *a = context;
    a->batch.deadline_ns = deadline;
    return ota_assign(a->assigner, &a->batch, NULL);
}

static void assignments(void **state) {
    (void)state;
    enum { SIDE = 1400, SMALL = 3 };
    static int64_t match[MOST];
    const ota_options options = {.size = sizeof options, .threads = 1};
    assigned a = {.batch = {.size = sizeof a.batch,
                            .count = 1,
                            .rows = SIDE,
                            .columns = SIDE,
                            .type = OTA_F64,
                            .costs = numbers,
                            .row_stride = SIDE,
                            .column_stride = 1,
                            .problem_stride = SIDE * SIDE,
                            .column_of = match}};
    assert_int_equal(ota_assigner_create(&a.assigner, &options, NULL), OTA_OK);
    expect_soon("one assignment", 0, SOON, call_assign, &a);
    assert_int_equal(match[0], -1);
    a.batch.rows = a.batch.columns = a.batch.row_stride = SMALL;
    a.batch.problem_stride = SMALL * SMALL;
    a.batch.count = MOST / a.batch.problem_stride;
    expect_soon("small assignments", 0, SOON, call_assign, &a);
    ota_assigner_free(a.assigner);
}

typedef struct bounds {
    ota_bounded problem;
    ota_bounded_result result;
} bounds;

static ota_status call_bounded(void *context, int64_t deadline) {
    bounds *b = context;
    const ota_options options = {.size = sizeof options, .threads = 1, .deadline_ns = deadline};
    return ota_assign_bounded(&b->problem, &options, &b->result, NULL);
}

static void bounded(void **state) {
    (void)state;
    enum { COLUMNS = 40 };
    static int64_t upper[COLUMNS], chosen[MOST];
    const int64_t rows = MOST / COLUMNS;
    for (int j = 0; j < COLUMNS; j++) upper[j] = rows / COLUMNS + 1;
    bounds b = {.problem = {.size = sizeof b.problem,
                            .costs = ota_array_of(numbers, OTA_F64, 1, 1, rows, COLUMNS),
                            .take = 1,
                            .upper = upper},
                .result = {.size = sizeof b.result, .chosen = chosen}};
    expect_soon("bounded", 0, SOON, call_bounded, &b);
}

typedef struct routing {
    ota_routing problem;
    ota_routing_result result;
} routing;

static ota_status call_route(void *context, int64_t deadline) {
    routing *r = context;
    const ota_options options = {.size = sizeof options, .threads = 1, .deadline_ns = deadline};
    return ota_route(&r->problem, &options, &r->result, NULL);
}

static void routes(void **state) {
    (void)state;
    enum { EXPERTS = 16 };
    static int64_t chosen[MOST];
    static const ota_route_method methods[] = {OTA_ROUTE_SINKHORN, OTA_ROUTE_QUANTILE,
                                               OTA_ROUTE_BASE};
    for (int k = 0; k < 3; k++) {
        routing r = {
            .problem = {.size = sizeof r.problem,
                        .logits = ota_array_of(numbers, OTA_F64, 1, 1, MOST / EXPERTS, EXPERTS),
                        .take = 2,
                        .method = methods[k],
                        .rounds = 1000,
                        .tolerance = 1e-15},
            .result = {.size = sizeof r.result, .chosen = chosen}};
        expect_soon("route", k, SOON, call_route, &r);
    }
}

static ota_status call_maxsim(void *context, int64_t deadline) {
    ota_late_interaction *problem = context;
    problem->deadline_ns = deadline;
    return ota_maxsim(problem, (float *)(void *)outputs[0], NULL, NULL);
}

static ota_status call_maxsim_backward(void *context, int64_t deadline) {
    ota_late_interaction *problem = context;
    problem->deadline_ns = deadline;
    return ota_maxsim_backward(problem, narrow, NULL, (float *)(void *)outputs[1], NULL);
}

static void late_interaction(void **state) {
    (void)state;
    enum { QUERIES = 8, TOKENS = 32, ALONG = 32, DOCUMENTS = 1000, LENGTH = 60 };
    static int64_t offsets[DOCUMENTS + 1], chosen[QUERIES * DOCUMENTS * TOKENS];
    for (int d = 0; d <= DOCUMENTS; d++) offsets[d] = (int64_t)LENGTH * d;
    ota_late_interaction problem = {
        .size = sizeof problem,
        .queries = ota_array_of(narrow, OTA_F32, 1, QUERIES, TOKENS, ALONG),
        .documents = ota_array_of(narrow, OTA_F32, 1, 1, LENGTH * DOCUMENTS, ALONG),
        .offsets = offsets,
        .document_count = DOCUMENTS,
        .threads = 1,
        .chosen = chosen};
    const float *scores = (float *)(void *)outputs[0], *moved = (float *)(void *)outputs[1];
    expect_soon("maxsim", 0, SOON, call_maxsim, &problem);
    assert_true(isnan(scores[0]) && isnan(scores[QUERIES * DOCUMENTS - 1]));
    memset(chosen, 0, sizeof chosen);
    expect_soon("maxsim", 1, VERY_SOON, call_maxsim_backward, &problem);
    assert_true(isnan(moved[0]));
}

static ota_status call_normalize(void *context, int64_t deadline) {
    ota_normalization *problem = context;
    problem->deadline_ns = deadline;
    return ota_normalize(problem, numbers, outputs[0], NULL);
}

static ota_status call_normalize_backward(void *context, int64_t deadline) {
    ota_normalization *problem = context;
    problem->deadline_ns = deadline;
    return ota_normalize_backward(problem, numbers, NULL, numbers, outputs[0], NULL);
}

static void normalizations(void **state) {
    (void)state;
    enum { SIDE = 16 };
    ota_normalization problem = {.size = sizeof problem,
                                 .type = OTA_F64,
                                 .count = MOST / (SIDE * SIDE),
                                 .side = SIDE,
                                 .rounds = 10000,
                                 .threads = 1};
    expect_soon("normalize", 0, SOON, call_normalize, &problem);
    assert_true(isnan(outputs[0][0]) && isnan(outputs[0][MOST - 1]));
    problem.rounds = 100;
    expect_soon("normalize", 1, SOON, call_normalize_backward, &problem);
    assert_true(isnan(outputs[0][0]) && isnan(outputs[0][MOST - 1]));
}

/* A deadline that passed before the call is no answer either, however small the problem. */
static void no_answer_after_the_deadline(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax", "entmax:1.5", "softmax/exact", "hard/exact",
                                          "entmax:2/capped:2"};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        const kind of = {.method = methods[k], .queries = 3, .keys = 3};
        stage s;
        ota_certificate found = {.size = sizeof found};
        set(&s, &of);
        s.options.deadline_ns = 1;
        memset(outputs[0], 0, 3 * WIDTH * sizeof(double));
        assert_int_equal(ota_attend(&s.problem, &s.options, &s.arrays, NULL, NULL), OTA_TIMEOUT);
        for (int i = 0; i < 3 * WIDTH; i++) assert_true(isnan(outputs[0][i]));
        assert_int_equal(ota_certify(&s.problem, &s.options, &s.arrays, &found, NULL, NULL),
                         methods[k][0] == 'h' ? OTA_EINVAL : OTA_TIMEOUT);
    }
}

TEST_FILE(test_deadlines) {
    dice_state = 7;
    for (int k = 0; k < MOST; k++) narrow[k] = (float)(numbers[k] = normal(&dice_state));
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans),
                                       cmocka_unit_test(plans_on_ranks),
                                       cmocka_unit_test(steps_on_ranks_look_within_passes),
                                       cmocka_unit_test(the_first_pass_on_ranks_looks),
                                       cmocka_unit_test(assignments),
                                       cmocka_unit_test(bounded),
                                       cmocka_unit_test(routes),
                                       cmocka_unit_test(late_interaction),
                                       cmocka_unit_test(normalizations),
                                       cmocka_unit_test(no_answer_after_the_deadline)};
    return cmocka_run_group_tests_name("deadlines", tests, NULL, NULL);
}
