/* test_stopped_looks.c: a caller who wants a call to end, seen at each of its looks in turn. The call answers what the look
 * said, with a sentence, and outputs that hold NaN or whole heads; the same plan finds the same bits when it is asked again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crew.h"
#include "draw/random.h"
#include "groups.h"
#include "one_rank.h"
#include "otattn.h"
#include "stopped_looks.h"

static dice dice_state;

enum {
    HEADS = 2,
    SIZE = 40,
    WIDTH = 5,
    VALUES = HEADS * SIZE * WIDTH,
    PAIRS = HEADS * SIZE * SIZE
};

typedef struct kind {
    const char *method, *solver;
    bool differentiable, causal, matrix, parameters;
    int threads;
    double rows; /* RHO of relaxed rows, or 0 */
} kind;

static const kind kinds[] = {
    {.method = "softmax", .differentiable = true, .causal = true},
    {.method = "softmax", .differentiable = true, .matrix = true, .threads = 2},
    {.method = "entmax:1.5", .differentiable = true, .parameters = true},
    {.method = "entmax:1.5", .differentiable = true, .matrix = true},
    {.method = "hard"},
    {.method = "softmax/exact", .differentiable = true},
    {.method = "softmax/relaxed:2", .differentiable = true, .causal = true, .parameters = true},
    {.method = "softmax/exact", .solver = "newton", .differentiable = true, .matrix = true},
    {.method = "softmax/exact", .solver = "anderson", .differentiable = true},
    {.method = "softmax/exact{rounds=4}", .differentiable = true},
    {.method = "softmax/exact{rounds=4}",
     .differentiable = true,
     .matrix = true,
     .parameters = true},
    {.method = "softmax/exact{prune}"},
    {.method = "softmax/elastic:0.5,4", .differentiable = true},
    {.method = "softmax/elastic:0.5,4", .differentiable = true, .matrix = true},
    {.method = "entmax:1.5/exact", .differentiable = true},
    {.method = "entmax:2/capped:2", .differentiable = true, .parameters = true},
    {.method = "softmax/relaxed:1", .differentiable = true, .parameters = true},
    {.method = "softmax/relaxed:1", .differentiable = true, .rows = 0.5},
    {.method = "softmax/bounded:0.5,2", .differentiable = true},
    {.method = "softmax/prefix", .differentiable = true, .matrix = true},
    {.method = "softmax/online:2", .differentiable = true, .matrix = true},
    {.method = "hard/exact"},
    {.method = "hard/capped:2"},
    {.method = "hard/prefix"},
};

static double queries[VALUES], keys[VALUES], values[VALUES], scores[PAIRS], out_grad[VALUES];

typedef struct stage {
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_gradients gradients;
    ota_tangents tangents;
    ota_support support;
    double out[VALUES], coupling[PAIRS], rows[HEADS * SIZE], columns[2 * HEADS * SIZE];
    double dq[VALUES], dk[VALUES], dv[VALUES], ds[PAIRS], temperature[HEADS], order, strength;
    double moved[VALUES], moved_coupling[PAIRS];
    ota_head_result heads[HEADS];
} stage;

static void set(stage *s, const kind *of) {
    memset(s, 0, sizeof *s);
    s->problem.size = sizeof s->problem;
    s->options = (ota_options){.size = sizeof s->options,
                               .threads = of->threads > 0 ? of->threads : 1,
                               .solver = of->solver,
                               .gradients = of->differentiable};
    assert_int_equal(ota_method_parse(of->method, &s->problem, &s->options, NULL), OTA_OK);
    if (of->rows > 0.0) {
        s->problem.rows = OTA_ROWS_RELAXED;
        s->problem.row_strength = of->rows;
    }
    s->support = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    s->problem.supports = &s->support;
    s->problem.support_count = of->causal;
    if (of->matrix) {
        s->problem.scores = ota_array_of(scores, OTA_F64, 1, HEADS, SIZE, SIZE);
    } else {
        s->problem.queries = ota_array_of(queries, OTA_F64, 1, HEADS, SIZE, WIDTH);
        s->problem.keys = ota_array_of(keys, OTA_F64, 1, HEADS, SIZE, WIDTH);
    }
    s->arrays = (ota_arrays){.size = sizeof s->arrays};
    s->arrays.values = ota_array_of(values, OTA_F64, 1, HEADS, SIZE, WIDTH);
    s->arrays.heads = s->heads;
    s->arrays.out = ota_array_of(s->out, OTA_F64, 1, HEADS, SIZE, WIDTH);
    if (of->matrix) s->arrays.coupling = ota_array_of(s->coupling, OTA_F64, 1, HEADS, SIZE, SIZE);
    s->arrays.row_potential = ota_array_of(s->rows, OTA_F64, 1, HEADS, 1, SIZE);
    s->arrays.column_potential = ota_array_of(s->columns, OTA_F64, 1, HEADS, 1, SIZE);
    ota_gradients *g = &s->gradients;
    *g = (ota_gradients){.size = sizeof *g};
    g->out_grad = ota_array_of(out_grad, OTA_F64, 1, HEADS, SIZE, WIDTH);
    g->values = ota_array_of(s->dv, OTA_F64, 1, HEADS, SIZE, WIDTH);
    if (of->matrix) {
        g->matrix = ota_array_of(s->ds, OTA_F64, 1, HEADS, SIZE, SIZE);
    } else {
        g->queries = ota_array_of(s->dq, OTA_F64, 1, HEADS, SIZE, WIDTH);
        g->keys = ota_array_of(s->dk, OTA_F64, 1, HEADS, SIZE, WIDTH);
    }
    if (of->parameters) {
        g->temperature = ota_array_of(s->temperature, OTA_F64, 1, 1, 1, HEADS);
        if (s->problem.regulariser == OTA_ENTMAX)
            g->order = ota_array_of(&s->order, OTA_F64, 1, 1, 1, 1);
        if (s->problem.columns == OTA_COLUMNS_RELAXED)
            g->strength = ota_array_of(&s->strength, OTA_F64, 1, 1, 1, 1);
    }
    ota_tangents *t = &s->tangents;
    *t = (ota_tangents){.size = sizeof *t, .matrix = s->problem.scores};
    t->queries = s->problem.queries;
    t->keys = s->problem.keys;
    t->out = ota_array_of(s->moved, OTA_F64, 1, HEADS, SIZE, WIDTH);
}

/* The calls of a plan; each writes one array that the others do not. */
typedef enum step { FORWARD, BACKWARD, JVP, STEPS } step;

static ota_status call(ota_plan *plan, stage *s, step at, ota_result *result, ota_error *error) {
    if (at == FORWARD) return ota_forward(plan, &s->arrays, result, error);
    if (at == BACKWARD) return ota_backward(plan, &s->arrays, &s->gradients, result, error);
    return ota_jvp(plan, &s->arrays, &s->tangents, result, error);
}

static double *written(stage *s, step at) {
    return at == FORWARD ? s->out : at == BACKWARD ? s->dv : s->moved;
}

/* Every number of a stopped call's output is NaN or as it should be, and some number is NaN. */
static void expect_stopped(const kind *of, const double *found, const double *wanted, int look) {
    int missing = 0;
    for (int k = 0; k < VALUES; k++) {
        if (isnan(found[k]))
            missing++;
        else if (memcmp(&found[k], &wanted[k], sizeof *found) != 0)
            fail_msg("%s, look %d: number %d is %.17g, not %.17g", of->method, look, k, found[k],
                     wanted[k]);
    }
    if (missing == 0) fail_msg("%s, look %d: nothing is NaN", of->method, look);
}

static int stop_in_turn(const kind *of, ota_plan *plan, stage *s, step at) {
    static double wanted[VALUES];
    ota_error error;
    double *found = written(s, at);
    stop_after(-1, OTA_OK);
    if (call(plan, s, at, NULL, &error) < OTA_OK) fail_msg("%s: %s", of->method, error.message);
    const int all = looks;
    memcpy(wanted, found, sizeof wanted);
    int stopped = 0;
    for (int look = 0; look < all; look += 1 + look / 6) {
        const ota_status says = look % 2 == 0 ? OTA_CANCELLED : OTA_TIMEOUT;
        ota_result result = {.size = sizeof result};
        memset(&error, 0, sizeof error);
        memset(found, 0, sizeof wanted);
        stop_after(look, says);
        const ota_status status = call(plan, s, at, &result, &error);
        let_run();
        /* Threads look as often as they come to it: the last looks of one run may be none of the next. */
        if (status >= OTA_OK && of->threads > 1) continue;
        if (status != says)
            fail_msg("%s, step %d, look %d of %d: status %d", of->method, (int)at, look, all,
                     (int)status);
        assert_int_equal(result.status, says);
        assert_true(strlen(error.message) > 0);
        expect_stopped(of, found, wanted, look);
        for (int h = 0; at == FORWARD && h < HEADS; h++)
            if (s->heads[h].status >= OTA_OK)
                fail_msg("%s, look %d: head %d says %d", of->method, look, h,
                         (int)s->heads[h].status);
        if (at == FORWARD && of->differentiable)
            assert_true(call(plan, s, BACKWARD, NULL, &error) < OTA_OK);
        stopped++;
        if (call(plan, s, at, NULL, &error) < OTA_OK) fail_msg("%s: %s", of->method, error.message);
        assert_memory_equal(found, wanted, sizeof wanted);
    }
    return stopped;
}

static void every_look(void **state) {
    (void)state;
    static stage s;
    int stopped[STEPS] = {0};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const kind *of = &kinds[k];
        ota_plan *plan;
        ota_error error;
        set(&s, of);
        if (ota_plan_create(&plan, &s.problem, WIDTH, &s.options, &error) < OTA_OK)
            fail_msg("%s: %s", of->method, error.message);
        for (step at = FORWARD; at < (of->differentiable ? STEPS : BACKWARD); at++)
            stopped[at] += stop_in_turn(of, plan, &s, at);
        ota_plan_free(plan);
    }
    for (step at = FORWARD; at < STEPS; at++) assert_true(stopped[at] > 10);
}

/* Ranks look once more when their work is done, so that all of them say the same. */
static void the_last_look_of_ranks(void **state) {
    (void)state;
    static stage s;
    const ota_communicator alone = one_rank();
    ota_plan *plan;
    ota_error error;
    set(&s, &kinds[0]);
    s.options.communicator = &alone;
    s.tangents.coupling = ota_array_of(s.moved_coupling, OTA_F64, 1, HEADS, SIZE, SIZE);
    if (ota_plan_create(&plan, &s.problem, WIDTH, &s.options, &error) < OTA_OK)
        fail_msg("%s", error.message);
    stop_after(-1, OTA_OK);
    assert_int_equal(call(plan, &s, FORWARD, NULL, &error), OTA_OK);
    stop_after(-1, OTA_OK);
    assert_int_equal(call(plan, &s, JVP, NULL, &error), OTA_OK);
    const int all = looks;
    stop_after(all - 1, OTA_TIMEOUT);
    const ota_status status = call(plan, &s, JVP, NULL, &error);
    let_run();
    assert_int_equal(status, OTA_TIMEOUT);
    assert_true(isnan(s.moved[0]) && isnan(s.moved_coupling[0]));
    ota_plan_free(plan);
}

typedef struct scene_of_ranks {
    const kind *of;
    step at;
    int look;
    ota_status wanted, says[2];
} scene_of_ranks;

/* Every rank has all queries of its own and the keys of both. */
static void run_rank(crew_rank *rank, void *context) {
    scene_of_ranks *scene = context;
    stage *s = calloc(1, sizeof *s);
    ota_plan *plan;
    set(s, scene->of);
    s->options.communicator = &rank->to;
    s->arrays.column_potential = ota_array_of(s->columns, OTA_F64, 1, HEADS, 1, 2 * SIZE);
    ota_status status = ota_plan_create(&plan, &s->problem, WIDTH, &s->options, NULL);
    if (status >= OTA_OK) {
        if (scene->at != FORWARD) status = call(plan, s, FORWARD, NULL, NULL);
        if (rank->to.rank == looks_rank) stop_after(scene->look, scene->wanted);
        if (status >= OTA_OK) status = call(plan, s, scene->at, NULL, NULL);
        ota_plan_free(plan);
    }
    scene->says[rank->to.rank] = status;
    free(s);
}

static int stop_one_rank(const kind *of, step at) {
    int stopped = 0, all = 1;
    for (int look = -1; look < all; look += 1 + look / 6) {
        scene_of_ranks scene = {.of = of,
                                .at = at,
                                .look = look,
                                .wanted = look % 2 == 0 ? OTA_CANCELLED : OTA_TIMEOUT};
        looks_rank = 1;
        crew_once(2, OTA_SHARES_IN_ORDER, run_rank, &scene);
        let_run();
        if (look < 0) {
            /* Some methods are not run on many processes. */
            if (scene.says[0] < OTA_OK) return 0;
            all = looks;
            continue;
        }
        /* What is sent behind the last decision is sent to the end. */
        const bool to_the_end = scene.says[0] >= OTA_OK && look > 0;
        if (scene.says[0] != scene.says[1] || (!to_the_end && scene.says[0] != scene.wanted))
            fail_msg("%s, step %d, look %d of %d: the ranks answer %d and %d", of->method, (int)at,
                     look, all, (int)scene.says[0], (int)scene.says[1]);
        stopped += !to_the_end;
    }
    return stopped;
}

/* Wherever one rank is told to end, both end, with the same number of messages: else one would wait for ever. */
static void ranks_stop_together(void **state) {
    (void)state;
    int stopped[STEPS] = {0};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (kinds[k].matrix || kinds[k].threads > 0) continue;
        for (step at = FORWARD; at < (kinds[k].differentiable ? JVP : BACKWARD); at++)
            stopped[at] += stop_one_rank(&kinds[k], at);
    }
    assert_true(stopped[FORWARD] > 20 && stopped[BACKWARD] > 20);
    looks_rank = 0;
}

TEST_FILE(test_stopped_looks) {
    dice_state = 5;
    for (int k = 0; k < VALUES; k++) {
        queries[k] = normal(&dice_state);
        keys[k] = normal(&dice_state);
        values[k] = normal(&dice_state);
        out_grad[k] = normal(&dice_state);
    }
    for (int k = 0; k < PAIRS; k++) scores[k] = normal(&dice_state);
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_look_of_ranks),
                                       cmocka_unit_test(ranks_stop_together),
                                       cmocka_unit_test(every_look)};
    return cmocka_run_group_tests_name("stopped_looks", tests, NULL, NULL);
}
