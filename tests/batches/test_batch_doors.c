/* test_batch_doors.c: batches without a plan at their doors. Every output alone is what it is among all of them; what is wrong is
 * refused with its field and a sentence, and the result keeps what it held; a caller who wants a call to end is heard at each
 * of its looks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "matrices.h"
#include "otattn_bounded.h"
#include "otattn_maxsim.h"
#include "otattn_route.h"
#include "stopped_looks.h"

static dice dice_state;

enum { TOKENS = 30, EXPERTS = 6, TAKE = 2, PROBLEMS = 3, RANKS = 4 };

static double numbers[TOKENS * EXPERTS];

/* ---- outputs alone ------------------------------------------------------------------------------------ */

/* An output's pointer in a struct, and which others it needs. */
typedef struct output {
    size_t place, bytes;
    bool with_prices;
} output;

static void **pointer_of(void *record, const output *o) {
    return (void **)(void *)((char *)record + o->place);
}

static const output of_assignments[] = {
    {offsetof(ota_assignments, column_of), 15 * sizeof(int64_t), false},
    {offsetof(ota_assignments, row_of), 12 * sizeof(int64_t), false},
    {offsetof(ota_assignments, pair_row), 12 * sizeof(int64_t), false},
    {offsetof(ota_assignments, pair_column), 12 * sizeof(int64_t), false},
    {offsetof(ota_assignments, pairs), PROBLEMS * sizeof(int64_t), false},
    {offsetof(ota_assignments, value), PROBLEMS * sizeof(double), false},
    {offsetof(ota_assignments, row_potential), 15 * sizeof(double), false},
    {offsetof(ota_assignments, column_potential), 12 * sizeof(double), false},
    {offsetof(ota_assignments, bound), PROBLEMS * sizeof(double), true},
};

static const output of_ranked[] = {
    {offsetof(ota_ranked_assignments, pair_row), RANKS * 12 * sizeof(int64_t), false},
    {offsetof(ota_ranked_assignments, pair_column), RANKS * 12 * sizeof(int64_t), false},
    {offsetof(ota_ranked_assignments, value), RANKS *PROBLEMS * sizeof(double), false},
    {offsetof(ota_ranked_assignments, bound), RANKS *PROBLEMS * sizeof(double), false},
    {offsetof(ota_ranked_assignments, found), PROBLEMS * sizeof(int64_t), false},
    {offsetof(ota_ranked_assignments, pairs), RANKS *PROBLEMS * sizeof(int64_t), false},
    {offsetof(ota_ranked_assignments, status), PROBLEMS * sizeof(ota_status), false},
};

static const output of_bottlenecks[] = {
    {offsetof(ota_bottleneck, pair_row), 12 * sizeof(int64_t), false},
    {offsetof(ota_bottleneck, pair_column), 12 * sizeof(int64_t), false},
    {offsetof(ota_bottleneck, value), PROBLEMS * sizeof(double), false},
    {offsetof(ota_bottleneck, bound), PROBLEMS * sizeof(double), false},
    {offsetof(ota_bottleneck, row_marked), 15, false},
    {offsetof(ota_bottleneck, column_marked), 12, false},
    {offsetof(ota_bottleneck, pairs), PROBLEMS * sizeof(int64_t), false},
    {offsetof(ota_bottleneck, pairs_bound), PROBLEMS * sizeof(int64_t), false},
    {offsetof(ota_bottleneck, row_covered), 15, false},
    {offsetof(ota_bottleneck, column_covered), 12, false},
    {offsetof(ota_bottleneck, status), PROBLEMS * sizeof(ota_status), false},
};

/* Three problems of 5 rows and 4 columns: one fine, one without a solution or one with NaN between them, or empty ones. */
typedef enum trouble { FINE, LIMITED, INFEASIBLE, NOT_A_NUMBER, EMPTY, TROUBLES } trouble;

typedef union matrices {
    ota_assignments assign;
    ota_ranked_assignments ranked;
    ota_bottleneck bottleneck;
} matrices;

/* What the structs of the three calls have in common. */
#define MATRICES(type_of)                                                                          \
    {                                                                                              \
        MATRICES_OF(type_of, costs, k == EMPTY ? 0 : 5, 4),                                        \
            .count = PROBLEMS, .limited = k == LIMITED, .cost_limit = -0.2                         \
    }

static void make_assign(matrices *m, trouble k, const double *costs) {
    m->assign = (ota_assignments)MATRICES(ota_assignments);
}

static void make_ranked(matrices *m, trouble k, const double *costs) {
    m->ranked = (ota_ranked_assignments)MATRICES(ota_ranked_assignments);
    m->ranked.wanted = RANKS;
}

static void make_bottleneck(matrices *m, trouble k, const double *costs) {
    m->bottleneck = (ota_bottleneck)MATRICES(ota_bottleneck);
}

static ota_status assign(const matrices *m, ota_error *error) {
    ota_assigner *assigner = NULL;
    const ota_options one = {.size = sizeof one, .threads = 1};
    assert_int_equal(ota_assigner_create(&assigner, &one, error), OTA_OK);
    const ota_status status = ota_assign(assigner, &m->assign, error);
    assert_true(ota_assigner_bytes(assigner) > 0);
    ota_assigner_free(assigner);
    return status;
}

static ota_status rank(const matrices *m, ota_error *error) {
    return ota_assign_ranked(&m->ranked, error);
}

static ota_status narrow(const matrices *m, ota_error *error) {
    return ota_assign_bottleneck(&m->bottleneck, error);
}

#define OUTPUTS_OF(table) table, (int)(sizeof(table) / sizeof(table)[0])

static const struct matrix_call {
    void (*make)(matrices *m, trouble k, const double *costs);
    ota_status (*run)(const matrices *m, ota_error *error);
    const output *outputs;
    int count;
} matrix_calls[] = {{make_assign, assign, OUTPUTS_OF(of_assignments)},
                    {make_ranked, rank, OUTPUTS_OF(of_ranked)},
                    {make_bottleneck, narrow, OUTPUTS_OF(of_bottlenecks)}};

static void outputs_of_assignments_alone(void **state) {
    enum { OUTPUTS = 11 };
    (void)state;
    assert_int_equal(ota_assigner_bytes(NULL), 0);
    for (int at = 0; at < 3 * TROUBLES; at++) {
        const struct matrix_call *call = &matrix_calls[at / TROUBLES];
        const trouble k = (trouble)(at % TROUBLES);
        double costs[PROBLEMS * 20], room[2][OUTPUTS][RANKS * 12];
        memcpy(costs, numbers, sizeof costs);
        for (int j = 0; j < 20 && k == INFEASIBLE; j++) costs[20 + j] = INFINITY;
        if (k == NOT_A_NUMBER) costs[25] = NAN;
        memset(room, 0, sizeof room);
        matrices all;
        call->make(&all, k, costs);
        for (int o = 0; o < call->count; o++) *pointer_of(&all, &call->outputs[o]) = room[0][o];
        ota_error error;
        const ota_status wanted = call->run(&all, &error);
        assert_int_equal(wanted, k == INFEASIBLE     ? OTA_INFEASIBLE
                                 : k == NOT_A_NUMBER ? OTA_NONFINITE
                                                     : OTA_OK);
        for (int o = 0; o < call->count; o++) {
            matrices alone;
            call->make(&alone, k, costs);
            *pointer_of(&alone, &call->outputs[o]) = room[1][o];
            if (call->outputs[o].with_prices) {
                alone.assign.row_potential = room[1][6];
                alone.assign.column_potential = room[1][7];
            }
            assert_int_equal(call->run(&alone, &error), wanted);
            if (memcmp(room[0][o], room[1][o], call->outputs[o].bytes) != 0)
                fail_msg("call %d, trouble %d, output %d", at / TROUBLES, (int)k, o);
        }
    }
}

static const output of_routes[] = {
    {offsetof(ota_routing_result, chosen), TOKENS *TAKE * sizeof(int64_t), false},
    {offsetof(ota_routing_result, shares), TOKENS *TAKE * sizeof(double), false},
    {offsetof(ota_routing_result, potentials), EXPERTS * sizeof(double), false},
    {offsetof(ota_routing_result, loads), EXPERTS * sizeof(int64_t), false},
    {offsetof(ota_routing_result, bound), sizeof(double), false},
    {offsetof(ota_routing_result, kept), TOKENS *TAKE, false},
    {offsetof(ota_routing_result, weights), TOKENS *TAKE * sizeof(double), false},
};
enum { ROUTE_OUTPUTS = (int)(sizeof of_routes / sizeof of_routes[0]) };

static ota_routing routing(void) {
    return (ota_routing){.size = sizeof(ota_routing),
                         .logits = ota_array_of(numbers, OTA_F64, 1, 1, TOKENS, EXPERTS),
                         .take = TAKE};
}

static void outputs_of_routes_alone(void **state) {
    (void)state;
    static const double start[EXPERTS] = {0.5, 0.0, -0.25, 0.0, 1.0, 0.0};
    static double room[2][ROUTE_OUTPUTS][TOKENS * TAKE];
    for (int k = 0; k < 10; k++) {
        ota_routing problem = routing();
        problem.method = (ota_route_method)(k / 2);
        if (k % 2 == 1) problem.start = start;
        ota_routing_result all = {.size = sizeof all};
        ota_error error = {.message = ""};
        for (int o = 0; o < ROUTE_OUTPUTS; o++) *pointer_of(&all, &of_routes[o]) = room[0][o];
        const ota_status wanted = ota_route(&problem, NULL, &all, &error);
        if (wanted < OTA_OK) fail_msg("method %d: %s", k / 2, error.message);
        for (int o = -1; o < ROUTE_OUTPUTS; o++) {
            ota_routing_result alone = {.size = sizeof alone};
            if (o >= 0) *pointer_of(&alone, &of_routes[o]) = room[1][o];
            assert_int_equal(ota_route(&problem, NULL, &alone, &error), wanted);
            assert_memory_equal(&alone.value, &all.value, sizeof all.value);
            /* `kept` tells which weights are 0. */
            if (o >= 0 && of_routes[o].place != offsetof(ota_routing_result, weights))
                assert_memory_equal(room[0][o], room[1][o], of_routes[o].bytes);
        }
    }
}

/* ---- refusals ----------------------------------------------------------------------------------------- */

typedef struct doors {
    ota_options options;
    ota_routing route;
    ota_bounded bounded;
    ota_late_interaction maxsim;
    ota_assignments assign;
    ota_ranked_assignments ranked;
    ota_bottleneck bottleneck;
    int64_t bounds[EXPERTS];
    double start[EXPERTS];
} doors;

typedef enum door { ROUTE, ROUTER, BOUNDED, MAXSIM, ASSIGNER, ASSIGN, RANKED, BOTTLENECK } door;

typedef struct refusal {
    door at;
    void (*spoil)(doors *d);
    ota_status status;
    const char *field, *words;
} refusal;

static const ota_executor idle = {.threads = 2};

#define SPOIL(name, change)                                                                        \
    static void name(doors *d) { change; }
SPOIL(other_level, d->options.cpu = "z80")
SPOIL(fewer_threads, d->options.threads = -1)
SPOIL(idle_executor, (d->options.threads = 0, d->options.executor = &idle))
SPOIL(options_without_size, d->options.size = 0)
SPOIL(route_absent, d->route.logits = (ota_array){0})
SPOIL(route_half, d->route.logits.type = OTA_BF16)
SPOIL(route_batch, d->route.logits.size[0] = 2)
SPOIL(route_heads, d->route.logits.size[1] = 2)
SPOIL(route_apart, d->route.logits.stride[3] = 2)
SPOIL(route_no_token, d->route.logits.size[2] = 0)
SPOIL(route_no_expert, d->route.logits.size[3] = 0)
SPOIL(route_none, d->route.take = 0)
SPOIL(route_endless, d->route.tolerance = INFINITY)
SPOIL(route_below, (d->bounds[1] = -1, d->route.lower = d->bounds))
SPOIL(route_too_many, (d->bounds[1] = TOKENS + 1, d->route.lower = d->bounds))
SPOIL(route_nan_start, (d->start[2] = NAN, d->route.start = d->start))
SPOIL(route_base_start,
      (d->start[2] = 1e300, d->route.start = d->start, d->route.method = OTA_ROUTE_BASE))
SPOIL(route_base_wide, (d->route.logits.size[3] = 4097, d->route.logits.size[2] = 1,
                        d->route.method = OTA_ROUTE_BASE))
SPOIL(bounded_batch, d->bounded.costs.size[0] = 2)
SPOIL(bounded_heads, d->bounded.costs.size[1] = 2)
SPOIL(bounded_none, d->bounded.take = 0)
SPOIL(bounded_most, (d->bounded.costs.size[2] = INT32_MAX, d->bounded.take = 0))
SPOIL(bounded_more, d->bounded.costs.size[2] = INT64_C(1) << 31)
SPOIL(bounded_below, (d->bounds[1] = -1, d->bounded.lower = d->bounds))
SPOIL(bounded_too_many, (d->bounds[1] = TOKENS + 1, d->bounded.lower = d->bounds))
SPOIL(bounded_nan_start, (d->start[2] = NAN, d->bounded.start = d->start))
SPOIL(maxsim_below, d->maxsim.document_count = -1)
SPOIL(maxsim_threads, d->maxsim.threads = -1)
SPOIL(maxsim_executor, d->maxsim.executor = &idle)
SPOIL(maxsim_top, d->maxsim.top = -1)
SPOIL(maxsim_best, d->maxsim.top = 1)
SPOIL(maxsim_long, (d->bounds[0] = 99, d->maxsim.document_lengths = d->bounds))
SPOIL(maxsim_queries, d->maxsim.queries.size[0] = 2)
SPOIL(maxsim_documents, d->maxsim.documents.size[1] = 2)
SPOIL(assign_below, d->assign.count = -1)
SPOIL(assign_limit, (d->assign.limited = 1, d->assign.cost_limit = -INFINITY))
SPOIL(assign_wide, d->assign.columns = INT64_C(1) << 40)
SPOIL(ranked_none, d->ranked.wanted = 0)
SPOIL(ranked_below, d->ranked.count = -1)
SPOIL(ranked_threads, d->ranked.threads = -1)
SPOIL(ranked_executor, d->ranked.executor = &idle)
SPOIL(ranked_absent, d->ranked.costs = NULL)
SPOIL(ranked_limit, d->ranked.limited = d->ranked.maximize = 1)
SPOIL(ranked_offsets, d->ranked.offsets = d->bounds)
SPOIL(ranked_most, (d->ranked.limited = 1, d->ranked.columns = INT32_MAX - 10))
SPOIL(bottleneck_below, d->bottleneck.count = -1)
SPOIL(bottleneck_threads, d->bottleneck.threads = -1)
SPOIL(bottleneck_executor, d->bottleneck.executor = &idle)
SPOIL(bottleneck_absent, d->bottleneck.costs = NULL)
SPOIL(bottleneck_limit, (d->bottleneck.limited = 1, d->bottleneck.cost_limit = NAN))
SPOIL(bottleneck_offsets, d->bottleneck.offsets = d->bounds)
SPOIL(bottleneck_most, (d->bottleneck.limited = 1, d->bottleneck.columns = INT32_MAX - 10))

static const refusal refusals[] = {
    {ROUTE, other_level, OTA_EINVAL, "cpu", "z80"},
    {ROUTE, fewer_threads, OTA_EINVAL, "threads", "-1"},
    {ROUTE, options_without_size, OTA_EINVAL, "options.size", "is 0"},
    {ROUTER, fewer_threads, OTA_EINVAL, "threads", "-1"},
    {ROUTE, route_absent, OTA_EINVAL, "logits", "absent"},
    {ROUTE, route_half, OTA_EINVAL, "logits", "f32 or f64"},
    {ROUTE, route_batch, OTA_EINVAL, "logits", "2"},
    {ROUTE, route_heads, OTA_EINVAL, "logits", "2"},
    {ROUTE, route_apart, OTA_EINVAL, "logits", "2"},
    {ROUTE, route_no_token, OTA_EINVAL, "logits", "0"},
    {ROUTE, route_no_expert, OTA_EINVAL, "logits", "0"},
    {ROUTE, route_none, OTA_EINVAL, "take", "take is 0"},
    {ROUTE, route_endless, OTA_EINVAL, "tolerance", "inf"},
    {ROUTE, route_below, OTA_EINVAL, "lower", "-1"},
    {ROUTE, route_too_many, OTA_INFEASIBLE, "lower", "31"},
    {ROUTE, route_nan_start, OTA_NONFINITE, "start", "nan"},
    {ROUTE, route_base_start, OTA_EINVAL, "start", "start[2] is 1e+300"},
    {ROUTE, route_base_wide, OTA_UNSUPPORTED, "logits", "4097 experts, more than the 4096"},
    {ROUTE, idle_executor, OTA_EINVAL, "executor", "no run and 2"},
    {BOUNDED, idle_executor, OTA_EINVAL, "executor", "no run and 2"},
    {BOUNDED, bounded_batch, OTA_EINVAL, "costs", "[2, 1"},
    {BOUNDED, bounded_heads, OTA_EINVAL, "costs", "[1, 2"},
    {BOUNDED, bounded_none, OTA_EINVAL, "take", "take is 0"},
    {BOUNDED, bounded_most, OTA_EINVAL, "take", "take is 0"},
    {BOUNDED, bounded_more, OTA_EINVAL, "costs", "2147483648 rows"},
    {BOUNDED, bounded_below, OTA_EINVAL, "lower", "lower[1] is -1"},
    {BOUNDED, bounded_too_many, OTA_INFEASIBLE, "lower", "lower[1] is 31"},
    {BOUNDED, bounded_nan_start, OTA_EINVAL, "start", "start[2] is nan"},
    {BOUNDED, fewer_threads, OTA_EINVAL, "threads", "-1"},
    {MAXSIM, maxsim_below, OTA_EINVAL, "document_count", "-1"},
    {MAXSIM, maxsim_threads, OTA_EINVAL, "threads", "-1"},
    {MAXSIM, maxsim_executor, OTA_EINVAL, "executor", "no run and 2"},
    {MAXSIM, maxsim_top, OTA_EINVAL, "top", "-1"},
    {MAXSIM, maxsim_best, OTA_EINVAL, "best", "top is 1"},
    {MAXSIM, maxsim_long, OTA_EINVAL, "document_lengths", "99"},
    {MAXSIM, maxsim_queries, OTA_EINVAL, "queries", "2"},
    {MAXSIM, maxsim_documents, OTA_EINVAL, "documents", "2"},
    {ASSIGNER, other_level, OTA_EINVAL, "cpu", "z80"},
    {ASSIGNER, fewer_threads, OTA_EINVAL, "threads", "-1"},
    {ASSIGNER, options_without_size, OTA_EINVAL, "options.size", "is 0"},
    {ASSIGNER, idle_executor, OTA_EINVAL, "executor", "no run and 2"},
    {ASSIGN, assign_limit, OTA_EINVAL, "cost_limit", "-inf"},
    {ASSIGN, assign_below, OTA_EINVAL, "count", "-1"},
    {ASSIGN, assign_wide, OTA_EOVERFLOW, "rows", "too large"},
    {RANKED, ranked_none, OTA_EINVAL, "wanted", "wanted is 0"},
    {RANKED, ranked_below, OTA_EINVAL, "count", "-1"},
    {RANKED, ranked_threads, OTA_EINVAL, "threads", "-1"},
    {RANKED, ranked_executor, OTA_EINVAL, "executor", "no run and 2"},
    {RANKED, ranked_absent, OTA_EINVAL, "costs", "NULL"},
    {RANKED, ranked_limit, OTA_EINVAL, "cost_limit", "maximize"},
    {RANKED, ranked_offsets, OTA_EINVAL, "offsets", "rows_of"},
    {RANKED, ranked_most, OTA_EOVERFLOW, "rows", "too large"},
    {BOTTLENECK, bottleneck_below, OTA_EINVAL, "count", "-1"},
    {BOTTLENECK, bottleneck_threads, OTA_EINVAL, "threads", "-1"},
    {BOTTLENECK, bottleneck_executor, OTA_EINVAL, "executor", "no run and 2"},
    {BOTTLENECK, bottleneck_absent, OTA_EINVAL, "costs", "NULL"},
    {BOTTLENECK, bottleneck_limit, OTA_EINVAL, "cost_limit", "nan"},
    {BOTTLENECK, bottleneck_offsets, OTA_EINVAL, "offsets", "rows_of"},
    {BOTTLENECK, bottleneck_most, OTA_EOVERFLOW, "rows", "too large"},
};

static const int64_t places[] = {0, 10, TOKENS};
static float tokens[TOKENS * EXPERTS];

static void open_doors(doors *d) {
    *d = (doors){.options = {.size = sizeof d->options, .threads = 1}, .route = routing()};
    d->bounded = (ota_bounded){.size = sizeof d->bounded, .costs = d->route.logits, .take = TAKE};
    d->maxsim = (ota_late_interaction){
        .size = sizeof d->maxsim, .offsets = places, .document_count = 2, .threads = 1};
    d->maxsim.queries = ota_array_of(tokens, OTA_F32, 1, 1, 4, EXPERTS);
    d->maxsim.documents = ota_array_of(tokens, OTA_F32, 1, 1, TOKENS, EXPERTS);
    matrices m;
    make_assign(&m, FINE, numbers);
    d->assign = m.assign;
    make_ranked(&m, FINE, numbers);
    d->ranked = m.ranked;
    make_bottleneck(&m, FINE, numbers);
    d->bottleneck = m.bottleneck;
}

/* The call, and the first number of its result, 7 before it. */
static ota_status knock(const doors *d, door at, double *first, ota_error *error) {
    ota_router *router = NULL;
    ota_assigner *assigner = NULL;
    float found[2] = {7.0F, 7.0F};
    double value[RANKS * PROBLEMS] = {7.0};
    ota_status status = OTA_OK;
    ota_routing_result routed = {.size = sizeof routed, .value = 7.0};
    ota_bounded_result bound = {.size = sizeof bound, .cost = 7.0};
    ota_assignments batch = d->assign;
    ota_ranked_assignments ranked = d->ranked;
    ota_bottleneck bottleneck = d->bottleneck;
    batch.value = ranked.value = bottleneck.value = value;
    switch (at) {
    case ROUTE: status = ota_route(&d->route, &d->options, &routed, error); break;
    case ROUTER:
        status = ota_router_create(&router, &d->options, error);
        if (status >= OTA_OK) status = ota_router_route(router, &d->route, &routed, error);
        break;
    case BOUNDED: status = ota_assign_bounded(&d->bounded, &d->options, &bound, error); break;
    case MAXSIM: status = ota_maxsim(&d->maxsim, found, NULL, error); break;
    case ASSIGNER:
    case ASSIGN:
        status = ota_assigner_create(&assigner, &d->options, error);
        if (status >= OTA_OK) status = ota_assign(assigner, &batch, error);
        break;
    case RANKED: status = ota_assign_ranked(&ranked, error); break;
    case BOTTLENECK: status = ota_assign_bottleneck(&bottleneck, error); break;
    }
    ota_router_free(router);
    ota_assigner_free(assigner);
    *first = at == BOUNDED    ? bound.cost
             : at == MAXSIM   ? (double)found[0]
             : at >= ASSIGNER ? value[0]
                              : routed.value;
    return status;
}

static void what_is_wrong_is_refused(void **state) {
    (void)state;
    double first;
    for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
        const refusal *r = &refusals[k];
        ota_error error = {.message = ""};
        doors d;
        open_doors(&d);
        if (knock(&d, r->at, &first, &error) < OTA_OK || first == 7.0)
            fail_msg("row %d: %s", (int)k, error.message);
        open_doors(&d);
        r->spoil(&d);
        const ota_status status = knock(&d, r->at, &first, &error);
        if (status != r->status || strcmp(error.field, r->field) != 0 ||
            strstr(error.message, r->words) == NULL)
            fail_msg("row %d: %d, '%s': %s", (int)k, (int)status, error.field, error.message);
        assert_true(first == 7.0);
    }
}

static void what_is_absent_is_refused(void **state) {
    (void)state;
    doors d;
    ota_error error;
    ota_router *router = NULL;
    ota_assigner *assigner = NULL;
    ota_routing_result routed = {.size = sizeof routed};
    float found[2];
    open_doors(&d);
    assert_int_equal(ota_router_create(NULL, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_router_create(&router, NULL, &error), OTA_OK);
    assert_int_equal(ota_router_route(NULL, &d.route, &routed, &error), OTA_EINVAL);
    assert_int_equal(ota_router_route(router, &d.route, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_router_route(router, NULL, &routed, &error), OTA_EINVAL);
    routed.size = 0;
    assert_int_equal(ota_router_route(router, &d.route, &routed, &error), OTA_EINVAL);
    ota_router_free(router);
    ota_router_free(NULL);
    assert_int_equal(ota_assigner_create(NULL, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_assigner_create(&assigner, NULL, &error), OTA_OK);
    assert_int_equal(ota_assign(assigner, NULL, &error), OTA_EINVAL);
    ota_assigner_free(assigner);
    assert_int_equal(ota_maxsim(NULL, found, NULL, &error), OTA_EINVAL);
}

/* ---- looks -------------------------------------------------------------------------------------------- */

static void every_look(void **state) {
    (void)state;
    static const door heard[] = {ROUTE, ROUTER, BOUNDED, RANKED, BOTTLENECK};
    double first, wanted;
    ota_error error;
    int stopped = 0;
    for (int k = 0; k < 5; k++) {
        for (int method = 0; method < (heard[k] >= BOUNDED ? 1 : 5); method++) {
            doors d;
            open_doors(&d);
            d.route.method = (ota_route_method)method;
            stop_after(-1, OTA_OK);
            assert_true(knock(&d, heard[k], &wanted, &error) >= OTA_OK);
            const int all = looks;
            for (int look = 0; look < all; look++) {
                stop_after(look, OTA_TIMEOUT);
                const ota_status status = knock(&d, heard[k], &first, &error);
                let_run();
                assert_int_equal(status, OTA_TIMEOUT);
                assert_true(strlen(error.message) > 0);
                /* Of several matrices those that were solved are there. */
                const bool solved = memcmp(&first, &wanted, sizeof first) == 0;
                assert_true(heard[k] >= RANKED ? isnan(first) || solved : first == 7.0);
                stopped++;
            }
            assert_true(knock(&d, heard[k], &first, &error) >= OTA_OK);
            assert_memory_equal(&first, &wanted, sizeof wanted);
        }
    }
    assert_true(stopped > 10);
}

TEST_FILE(test_batch_doors) {
    dice_state = 3;
    for (int k = 0; k < TOKENS * EXPERTS; k++) {
        numbers[k] = normal(&dice_state);
        tokens[k] = (float)normal(&dice_state);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_of_assignments_alone),
        cmocka_unit_test(outputs_of_routes_alone),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(what_is_absent_is_refused),
        cmocka_unit_test(every_look),
    };
    return cmocka_run_group_tests_name("batch_doors", tests, NULL, NULL);
}
