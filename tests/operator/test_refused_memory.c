/* The operator without memory: every allocation that a call makes is refused in turn. The call answers OTA_ENOMEM with a
 * sentence, gives back what it had taken, hands out no plan, and finds the same numbers as before when there is memory
 * again. What a plan does once it is made allocates nothing, so a refusal cannot reach it: such calls are made while the
 * next allocation would be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "draw/random.h"
#include "groups.h"
#include "matrices.h"
#include "otattn_bounded.h"
#include "otattn_maxsim.h"
#include "otattn_normalize.h"
#include "otattn_route.h"
#include "refused_memory.h"

enum { HEADS = 2, SIZE = 6, WIDTH = 3, PAIRS = HEADS * SIZE * SIZE, VALUES = HEADS * SIZE * WIDTH };

static double scores[PAIRS], values[VALUES], moved[PAIRS];

/* Every call is one number, the sum of what it wrote. */
static double sum_of(const double *numbers, int count) {
    double sum = 0;
    for (int k = 0; k < count; k++) sum += numbers[k];
    return sum;
}

static void draw(void) {
    dice d = 7;
    for (int k = 0; k < PAIRS; k++) {
        scores[k] = 2.0 * uniform(&d) - 1.0;
        moved[k] = scores[k] + 0.25;
        values[k % VALUES] = scores[k] * scores[k];
    }
}

/* ---- plans of every kind ---- */

typedef struct kind {
    const char *method, *solver;
    int64_t rounds;
    int threads;
    bool differentiable;
} kind;

static const kind kinds[] = {
    {"softmax", NULL, 0, 1, true},
    {"softmax", NULL, 0, 2, true},
    {"entmax:1.5", NULL, 0, 1, true},
    {"hard", NULL, 0, 1, false},
    {"softmax/exact", NULL, 0, 2, true},
    {"softmax/exact", NULL, 3, 1, true},
    {"softmax/exact", "newton", 0, 1, true},
    {"softmax/exact", "anderson", 0, 1, true},
    {"entmax:1.5/exact", NULL, 0, 1, true},
    {"entmax:2/capped:2", NULL, 0, 1, true},
    {"softmax/relaxed:1", NULL, 0, 1, true},
    {"softmax/elastic:0.5,4", NULL, 0, 1, true},
    {"softmax/prefix", NULL, 0, 1, true},
    {"softmax/online:2", NULL, 0, 1, true},
    {"hard/exact", NULL, 0, 1, false},
    {"softmax/exact{prune}", NULL, 0, 1, false},
    {"hard/capped:2", NULL, 0, 1, false},
    {"softmax/bounded:0.5,2", NULL, 0, 2, true},
    {"entmax:1.5/relaxed:1", NULL, 0, 1, true},
};

typedef struct stage {
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    double out[VALUES], coupling[PAIRS], rows[HEADS * SIZE], columns[HEADS * SIZE];
    double gradient[PAIRS], tangent[PAIRS];
    double out_grad[VALUES];
} stage;

static ota_array vector_of(double *numbers) {
    return ota_array_of(numbers, OTA_F64, 1, HEADS, 1, SIZE);
}

static void set_stage(stage *s, const kind *of) {
    *s = (stage){.problem = {.size = sizeof(ota_problem)},
                 .options = {.size = sizeof(ota_options),
                             .threads = of->threads,
                             .rounds = of->rounds,
                             .solver = of->solver,
                             .gradients = of->differentiable},
                 .arrays = {.size = sizeof(ota_arrays)}};
    assert_int_equal(ota_method_parse(of->method, &s->problem, &s->options, NULL), OTA_OK);
    s->problem.scores = ota_array_of(scores, OTA_F64, 1, HEADS, SIZE, SIZE);
    s->arrays.values = ota_array_of(values, OTA_F64, 1, HEADS, SIZE, WIDTH);
    s->arrays.out = ota_array_of(s->out, OTA_F64, 1, HEADS, SIZE, WIDTH);
    s->arrays.coupling = ota_array_of(s->coupling, OTA_F64, 1, HEADS, SIZE, SIZE);
    s->arrays.row_potential = vector_of(s->rows);
    s->arrays.column_potential = vector_of(s->columns);
    for (int k = 0; k < VALUES; k++) s->out_grad[k] = values[VALUES - 1 - k];
}

/* Forward on other scores, then on the first; backward; jvp. */
static ota_status run_plan(stage *s, const kind *of, ota_plan *plan, double *number) {
    ota_error error;
    refuse_after(0);
    ota_problem other = s->problem;
    other.scores = ota_array_of(moved, OTA_F64, 1, HEADS, SIZE, SIZE);
    ota_status status = ota_plan_rebind(plan, &other, &error);
    if (status >= 0) status = ota_plan_rebind(plan, &s->problem, &error);
    if (status >= 0) status = ota_forward(plan, &s->arrays, NULL, &error);
    if (status >= 0 && of->differentiable) {
        ota_gradients gradients = {.size = sizeof gradients};
        gradients.out_grad = ota_array_of(s->out_grad, OTA_F64, 1, HEADS, SIZE, WIDTH);
        gradients.scores = ota_array_of(s->gradient, OTA_F64, 1, HEADS, SIZE, SIZE);
        status = ota_backward(plan, &s->arrays, &gradients, NULL, &error);
        ota_tangents tangents = {.size = sizeof tangents};
        tangents.scores = ota_array_of(moved, OTA_F64, 1, HEADS, SIZE, SIZE);
        tangents.coupling = ota_array_of(s->tangent, OTA_F64, 1, HEADS, SIZE, SIZE);
        if (status >= 0) status = ota_jvp(plan, &s->arrays, &tangents, NULL, &error);
    }
    allow_all();
    assert_int_equal(refused, 0);
    *number = sum_of(s->coupling, PAIRS) + sum_of(s->gradient, PAIRS) * 3 +
              sum_of(s->tangent, PAIRS) * 5 + sum_of(s->out, VALUES) * 7;
    return status;
}

static ota_status plan_of(const kind *of, double *number, ota_error *error) {
    stage s;
    ota_plan *plan = NULL;
    set_stage(&s, of);
    const ota_status status = ota_plan_create(&plan, &s.problem, WIDTH, &s.options, error);
    if (status < 0) {
        assert_null(plan);
        return status;
    }
    /* From here on memory would be refused; what made the plan was not. */
    const int before = refused;
    const ota_status solved = run_plan(&s, of, plan, number);
    refused = before;
    ota_plan_free(plan);
    return solved;
}

static ota_status attend(const kind *of, double *number, ota_error *error) {
    stage s;
    set_stage(&s, of);
    const ota_status status = ota_attend(&s.problem, &s.options, &s.arrays, NULL, error);
    *number = sum_of(s.coupling, PAIRS) + sum_of(s.out, VALUES) * 7;
    return status;
}

static ota_status certify(const kind *of, double *number, ota_error *error) {
    stage s;
    set_stage(&s, of);
    for (int k = 0; k < PAIRS; k++) s.coupling[k] = 1.0 / (double)SIZE;
    ota_certificate certificate = {.size = sizeof certificate};
    const ota_status status =
        ota_certify(&s.problem, &s.options, &s.arrays, &certificate, NULL, error);
    *number = certificate.row_error + certificate.entropy;
    return status;
}

/* ---- calls without a plan ---- */

/* Of two threads: the caller's, which small problems use as well. */
static void run_here(void *user, int64_t count,
                     void (*body)(void *context, int64_t index, int worker), void *context) {
    (void)user;
    for (int64_t k = 0; k < count; k++) body(context, k, (int)(k % 2));
}

static const ota_executor here = {.run = run_here, .threads = 2};

static const ota_executor *executor_of(const kind *of) { return of->threads > 1 ? &here : NULL; }

static ota_status assign(const kind *of, double *number, ota_error *error) {
    ota_options options = {.size = sizeof options, .threads = of->threads};
    ota_assigner *assigner = NULL;
    int64_t column_of[HEADS * SIZE];
    double value[HEADS];
    ota_status status = ota_assigner_create(&assigner, &options, error);
    if (status < 0) {
        assert_null(assigner);
        return status;
    }
    const ota_assignments batch = {.size = sizeof batch,
                                   .count = HEADS,
                                   .rows = SIZE,
                                   .columns = SIZE,
                                   .costs = scores,
                                   .type = OTA_F64,
                                   .problem_stride = SIZE * SIZE,
                                   .row_stride = SIZE,
                                   .column_stride = 1,
                                   .column_of = column_of,
                                   .value = value};
    status = ota_assign(assigner, &batch, error);
    /* An assigner without the memory for one batch goes on with the next. */
    if (status == OTA_ENOMEM) {
        ota_error second;
        allow_all();
        assert_true(ota_assign(assigner, &batch, &second) >= 0);
    }
    *number = value[0] + value[1] * 3;
    ota_assigner_free(assigner);
    return status;
}

static ota_status assign_bounded(const kind *of, double *number, ota_error *error) {
    const ota_options options = {.size = sizeof options, .threads = of->threads};
    int64_t lower[SIZE] = {0}, upper[SIZE], chosen[SIZE * 2];
    for (int k = 0; k < SIZE; k++) upper[k] = 2;
    const ota_bounded problem = {.size = sizeof problem,
                                 .costs = ota_array_of(scores, OTA_F64, 1, 1, SIZE, SIZE),
                                 .take = 2,
                                 .lower = lower,
                                 .upper = upper};
    ota_bounded_result result = {.size = sizeof result, .chosen = chosen};
    const ota_status status = ota_assign_bounded(&problem, &options, &result, error);
    *number = result.cost;
    return status;
}

/* Of points, from prices, with room for fewer units than are drawn first. */
static ota_status assign_points(const kind *of, double *number, ota_error *error) {
    enum { POINTS = 40, CENTRES = 4 };
    const ota_options options = {.size = sizeof options, .executor = executor_of(of)};
    int64_t upper[CENTRES], loads[CENTRES];
    double points[POINTS], start[CENTRES] = {0.5, 0, -0.5, 0}, prices[CENTRES];
    for (int k = 0; k < CENTRES; k++) upper[k] = POINTS / CENTRES;
    for (int k = 0; k < POINTS; k++) points[k] = scores[k] * scores[k + 1];
    const ota_bounded problem = {.size = sizeof problem,
                                 .points = ota_array_of(points, OTA_F64, 1, 1, POINTS, 1),
                                 .centres = ota_array_of(scores, OTA_F64, 1, 1, CENTRES, 1),
                                 .take = 1,
                                 .upper = upper,
                                 .start = start};
    ota_bounded_result result = {.size = sizeof result, .loads = loads, .prices = prices};
    const ota_status status = ota_assign_bounded(&problem, &options, &result, error);
    *number = result.cost + result.dual * 3;
    return status;
}

/* The cheapest matchings, with more open parts than there is room for at first, and one whose dearest pair is cheapest. */
static ota_status rank(const kind *of, double *number, ota_error *error) {
    enum { RANKS = 70 };
    (void)of;
    double value[RANKS], bound[RANKS];
    const ota_ranked_assignments problem = {MATRICES_OF(ota_ranked_assignments, scores, SIZE, SIZE),
                                            .wanted = RANKS, .value = value, .bound = bound};
    const ota_status status = ota_assign_ranked(&problem, error);
    *number = value[0] + value[RANKS - 1] * 3 + bound[1];
    return status;
}

static ota_status bottleneck(const kind *of, double *number, ota_error *error) {
    (void)of;
    const ota_bottleneck problem = {MATRICES_OF(ota_bottleneck, scores, SIZE, SIZE),
                                    .value = number};
    return ota_assign_bottleneck(&problem, error);
}

/* Both of problems of several sizes with a limit, which leaves rows out, by the threads of a call. */
static ota_status limited(const kind *of, double *number, ota_error *error) {
    enum { RANKS = 5 };
    static const int64_t table[] = {3, 0, 5}, columns[] = {4, 2, 3}, offsets[] = {0, 7, 20};
    double value[3 * RANKS] = {0}, dearest[3] = {0};
    ota_ranked_assignments ranked = {MATRICES_OF(ota_ranked_assignments, scores, 0, 0),
                                     .wanted = RANKS, .value = value};
    ota_bottleneck narrow = {MATRICES_OF(ota_bottleneck, scores, 0, 0), .value = dearest};
    ranked.count = narrow.count = 3;
    ranked.rows_of = narrow.rows_of = table;
    ranked.columns_of = narrow.columns_of = columns;
    ranked.offsets = narrow.offsets = offsets;
    ranked.limited = narrow.limited = 1;
    ranked.cost_limit = narrow.cost_limit = -0.5;
    ranked.threads = narrow.threads = of->threads;
    ranked.executor = narrow.executor = executor_of(of);
    ota_status status = ota_assign_ranked(&ranked, error);
    if (status >= 0) status = ota_assign_bottleneck(&narrow, error);
    *number = value[0] + value[2 * RANKS] * 3 + dearest[0] * 5 + dearest[2] * 7;
    return status;
}

/* Problems of several sizes with a limit. */
static ota_status assign_ragged(const kind *of, double *number, ota_error *error) {
    const ota_options options = {.size = sizeof options, .executor = executor_of(of)};
    static const int64_t table[] = {3, 0, 5}, columns[] = {4, 2, 3}, offsets[] = {0, 7, 20};
    ota_assigner *assigner = NULL;
    double value[3] = {0};
    const ota_assignments batch = {.size = sizeof batch,
                                   .count = 3,
                                   .costs = scores,
                                   .type = OTA_F64,
                                   .rows_of = table,
                                   .columns_of = columns,
                                   .offsets = offsets,
                                   .limited = 1,
                                   .cost_limit = 0.25,
                                   .value = value};
    ota_status status = ota_assigner_create(&assigner, &options, error);
    if (status >= 0) status = ota_assign(assigner, &batch, error);
    ota_assigner_free(assigner);
    *number = value[0] + value[1] * 3 + value[2] * 5;
    return status;
}

/* Every method, and a router that keeps its memory. */
static ota_status route(const kind *of, double *number, ota_error *error) {
    enum { TOKENS = 12, EXPERTS = 4 };
    const ota_options options = {.size = sizeof options, .executor = executor_of(of)};
    int64_t chosen[TOKENS * 2], loads[EXPERTS];
    double shares[TOKENS * 2], potentials[EXPERTS], bound;
    ota_routing problem = {.size = sizeof problem,
                           .logits = ota_array_of(scores, OTA_F64, 1, 1, TOKENS, EXPERTS),
                           .take = 2};
    ota_routing_result result = {.size = sizeof result,
                                 .chosen = chosen,
                                 .shares = shares,
                                 .potentials = potentials,
                                 .loads = loads,
                                 .bound = &bound};
    ota_router *router = NULL;
    double sum = 0;
    ota_status status = OTA_OK;
    for (int k = 0; k < 10 && status >= 0; k++) {
        problem.method = (ota_route_method)(k / 2);
        if (k % 2 == 0) {
            status = ota_route(&problem, &options, &result, error);
        } else {
            if (router == NULL) status = ota_router_create(&router, &options, error);
            if (status >= 0) status = ota_router_route(router, &problem, &result, error);
        }
        if (status >= 0) sum += (k + 1) * (result.value + bound);
    }
    ota_router_free(router);
    *number = sum;
    return status;
}

static ota_status normalize(const kind *of, double *number, ota_error *error) {
    const ota_normalization problem = {.size = sizeof problem,
                                       .type = OTA_F64,
                                       .count = HEADS,
                                       .side = SIZE,
                                       .threads = of->threads};
    double plan[PAIRS], gradient[PAIRS];
    ota_status status = ota_normalize(&problem, scores, plan, error);
    if (status >= 0)
        status = ota_normalize_backward(&problem, scores, plan, moved, gradient, error);
    *number = status < 0 ? 0 : sum_of(plan, PAIRS) + sum_of(gradient, PAIRS);
    return status;
}

static ota_status maxsim(const kind *of, double *number, ota_error *error) {
    float queries[VALUES], documents[VALUES], found[2 * HEADS] = {0};
    for (int k = 0; k < VALUES; k++) {
        queries[k] = (float)values[k];
        documents[k] = (float)values[VALUES - 1 - k];
    }
    const int64_t offsets[3] = {0, 5, HEADS * SIZE};
    ota_late_interaction problem = {.size = sizeof problem,
                                    .offsets = offsets,
                                    .document_count = 2,
                                    .threads = of->threads,
                                    .executor = executor_of(of)};
    problem.queries = ota_array_of(queries, OTA_F32, 1, HEADS, SIZE, WIDTH);
    problem.documents = ota_array_of(documents, OTA_F32, 1, 1, (int64_t)HEADS * SIZE, WIDTH);
    const ota_status status = ota_maxsim(&problem, found, NULL, error);
    *number = (double)(found[0] + found[1] * 3 + found[2] * 5 + found[3] * 7);
    return status;
}

/* An assignment of the tokens, and its gradients. */
static ota_status maxsim_of_capacity(const kind *of, double *number, ota_error *error) {
    float queries[VALUES], found[2 * HEADS] = {0}, gradients[2][VALUES];
    int64_t chosen[2 * HEADS * SIZE];
    for (int k = 0; k < VALUES; k++) queries[k] = (float)values[k];
    const int64_t offsets[3] = {0, 5, HEADS * SIZE};
    ota_late_interaction problem = {.size = sizeof problem,
                                    .offsets = offsets,
                                    .document_count = 2,
                                    .capacity = 1,
                                    .chosen = chosen,
                                    .threads = 1,
                                    .executor = executor_of(of)};
    problem.queries = ota_array_of(queries, OTA_F32, 1, HEADS, SIZE, WIDTH);
    problem.documents = ota_array_of(queries, OTA_F32, 1, 1, (int64_t)HEADS * SIZE, WIDTH);
    ota_status status = ota_maxsim(&problem, found, NULL, error);
    *number = (double)(found[0] + found[1] * 3 + found[2] * 5 + found[3] * 7);
    if (status >= 0)
        status = ota_maxsim_backward(&problem, found, gradients[0], gradients[1], error);
    if (status >= 0) *number += (double)(gradients[0][0] + gradients[1][VALUES - 1]);
    return status;
}

/* ---- in turn ---- */

typedef ota_status call(const kind *of, double *number, ota_error *error);

/* Returns how many allocations the call makes. */
static int refuse_in_turn(call *made, const kind *of) {
    double first = 0, last = 0;
    ota_error error = {0};
    const int before = held;
    assert_true(made(of, &first, &error) >= 0);
    assert_int_equal(held, before);
    for (int place = 0;; place++) {
        memset(&error, 0, sizeof error);
        refuse_after(place);
        const ota_status status = made(of, &last, &error);
        allow_all();
        assert_int_equal(held, before);
        if (refused == 0) {
            assert_true(status >= 0);
            assert_memory_equal(&first, &last, sizeof first);
            return place;
        }
        assert_int_equal(status, OTA_ENOMEM);
        assert_true(strlen(error.message) > 0);
    }
}

static void every_plan(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        assert_true(refuse_in_turn(plan_of, &kinds[k]) >= 2);
        assert_true(refuse_in_turn(attend, &kinds[k]) >= 2);
        assert_true(refuse_in_turn(certify, &kinds[k]) >= 1);
    }
}

static void every_batch(void **state) {
    (void)state;
    static call *const calls[] = {assign, assign_ragged,      assign_bounded, assign_points,
                                  rank,   bottleneck,         limited,        normalize,
                                  maxsim, maxsim_of_capacity, route};
    for (int threads = 1; threads <= 2; threads++) {
        const kind of = {.threads = threads};
        for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++)
            assert_true(refuse_in_turn(calls[k], &of) >= 1);
    }
}

TEST_FILE(test_refused_memory) {
    draw();
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan), cmocka_unit_test(every_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
