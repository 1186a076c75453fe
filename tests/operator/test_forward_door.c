/* The door of forward: what is refused, with which status and which field named; struct sizes; what a plan
 * says about itself. Nothing refused may touch an output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "backend_wrap.h"
#include "groups.h"
#include "otattn.h"
#include "spec.h"

enum { BATCH = 2, HEADS = 2, N = 3, M = 4, D = 2, DV = 2 };

/* A sound problem, spoilt by one thing at a time. */
typedef struct door {
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_result result;
    ota_error error;
    ota_term terms[20];
    ota_support supports[20];
    double q[BATCH * HEADS * N * D], k[BATCH * HEADS * M * D], v[BATCH * HEADS * M * DV];
    double s[BATCH * HEADS * N * M], out[BATCH * HEADS * N * DV], p[BATCH * HEADS * N * M];
    double queries[BATCH * HEADS * N], keys[BATCH * HEADS * M];
    double mu[N], nu[M], lambdas[M], temperatures[HEADS], line[N + M];
    int64_t whole[8];
    unsigned char truth[BATCH * HEADS * N * M];
} door;

static void door_make(door *t, const char *method) {
    memset(t, 0, sizeof *t);
    t->problem.size = sizeof t->problem;
    t->options.size = sizeof t->options;
    t->arrays.size = sizeof t->arrays;
    t->result.size = sizeof t->result;
    for (size_t k = 0; k < sizeof t->q / sizeof t->q[0]; k++) t->q[k] = cos((double)k);
    for (size_t k = 0; k < sizeof t->k / sizeof t->k[0]; k++) t->k[k] = sin((double)k);
    for (int k = 0; k < N; k++) t->mu[k] = 1.0;
    for (int k = 0; k < M; k++) t->nu[k] = (double)N / (double)M, t->lambdas[k] = 0.5;
    for (int k = 0; k < HEADS; k++) t->temperatures[k] = 1.0;
    memset(t->truth, 1, sizeof t->truth);
    t->problem.queries = ota_array_of(t->q, OTA_F64, BATCH, HEADS, N, D);
    t->problem.keys = ota_array_of(t->k, OTA_F64, BATCH, HEADS, M, D);
    t->problem.terms = t->terms;
    t->problem.supports = t->supports;
    t->arrays.values = ota_array_of(t->v, OTA_F64, BATCH, HEADS, M, DV);
    t->arrays.out = ota_array_of(t->out, OTA_F64, BATCH, HEADS, N, DV);
    t->arrays.coupling = ota_array_of(t->p, OTA_F64, BATCH, HEADS, N, M);
    t->options.threads = 1;
    t->out[0] = t->p[0] = 77.0;
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, &t->error), OTA_OK);
}

static ota_array vector(double *data, int64_t length) {
    return ota_array_of(data, OTA_F64, 1, 1, 1, length);
}

static void term(door *t, ota_term_kind kind, ota_array array, double value) {
    t->terms[t->problem.term_count++] = (ota_term){kind, array, value};
}

static void support(door *t, ota_support_kind kind, ota_array array, int64_t left, int64_t right) {
    t->supports[t->problem.support_count++] = (ota_support){kind, array, left, right};
}

static void check_refused(door *t, ota_status status, const char *field, int line) {
    const ota_status got = ota_attend(&t->problem, &t->options, &t->arrays, &t->result, &t->error);
    if (got != status || strcmp(t->error.field, field) != 0) {
        print_error("line %d: status %s, field '%s', '%s'; wanted %s naming '%s'\n", line,
                    ota_status_word(got), t->error.field, t->error.message, ota_status_word(status),
                    field);
        fail();
    }
    assert_true(t->error.message[0] != '\0');
    assert_true(t->error.hint[0] != '\0');
    assert_true(t->out[0] >= 77.0 && t->out[0] <= 77.0);
    assert_true(t->p[0] >= 77.0 && t->p[0] <= 77.0);
    /* without a place for the sentence too */
    if (t->result.size != 0)
        assert_int_equal(ota_attend(&t->problem, &t->options, &t->arrays, NULL, NULL), status);
}

static door shared;
static door *const t = &shared;
static const ota_array absent = {0};

#define REFUSED(method, status, field, spoil)                                                      \
    do {                                                                                           \
        door_make(t, method);                                                                      \
        spoil;                                                                                     \
        check_refused(t, status, field, __LINE__);                                                 \
    } while (0)

#define BAD(field, spoil) REFUSED("softmax", OTA_EINVAL, field, spoil)

static void the_sound_problem_is_solved(void **unused) {
    (void)unused;
    door_make(t, "softmax");
    assert_int_equal(ota_attend(&t->problem, &t->options, &t->arrays, &t->result, &t->error),
                     OTA_OK);
    assert_int_equal(t->result.status, OTA_OK);
}

static void scores_are_refused(void **unused) {
    (void)unused;
    BAD("queries", t->problem.queries = absent);
    BAD("keys", t->problem.keys = absent);
    BAD("scores", t->problem.scores = ota_array_of(t->s, OTA_F64, BATCH, HEADS, N, M));
    BAD("queries", t->problem.queries.type = OTA_I64);
    BAD("queries", t->problem.queries.type = (ota_type)17);
    BAD("keys", t->problem.keys.type = OTA_F32);
    BAD("keys", t->problem.keys.size[0] = 1);
    BAD("keys", t->problem.keys.size[3] = 1);
    BAD("keys", t->problem.keys.size[1] = 3);
    BAD("queries", t->problem.queries.size[2] = -1);
    BAD("queries", t->problem.queries.data = NULL);
    BAD("scale", t->problem.scale = NAN);
    BAD("scale", t->problem.scale = INFINITY);
    BAD("temperature", t->problem.temperature = -1.0);
    BAD("temperature", t->problem.temperature = NAN);
    BAD("temperature", t->problem.temperature = INFINITY);
    BAD("temperature", t->problem.temperature = 1e-310);
    BAD("temperatures", t->problem.temperatures = vector(t->temperatures, 1));
    BAD("temperatures",
        (t->temperatures[1] = 0.0, t->problem.temperatures = vector(t->temperatures, HEADS)));
    REFUSED("softmax", OTA_EALIGN, "queries",
            t->problem.queries.data = (char *)t->problem.queries.data + 1);
    REFUSED("softmax", OTA_EOVERFLOW, "queries",
            (t->problem.queries.size[2] = INT64_MAX / 2, t->problem.queries.stride[2] = 4));
    REFUSED("softmax", OTA_EOVERFLOW, "keys", t->problem.keys.stride[0] = INT64_MIN);
    REFUSED("softmax", OTA_EOVERFLOW, "queries",
            (t->problem.queries.size[2] = (int64_t)1 << 40, t->problem.queries.stride[2] = 0,
             t->problem.keys.size[2] = (int64_t)1 << 40, t->problem.keys.stride[2] = 0));
}

static void terms_are_refused(void **unused) {
    (void)unused;
    BAD("terms", term(t, (ota_term_kind)9, absent, 0.0));
    BAD("terms", (term(t, OTA_TERM_ALIBI, absent, 1.0), term(t, OTA_TERM_ALIBI, absent, 1.0)));
    BAD("term_count", t->problem.term_count = 17);
    BAD("term_count", t->problem.term_count = -1);
    BAD("term_count", (t->problem.term_count = 1, t->problem.terms = NULL));
    BAD("bias", term(t, OTA_TERM_DENSE, absent, 0.0));
    BAD("bias", term(t, OTA_TERM_DENSE, ota_array_of(t->s, OTA_F64, 1, 3, N, M), 0.0));
    BAD("bias", term(t, OTA_TERM_DENSE, ota_array_of(t->whole, OTA_I64, 1, 1, 1, 1), 0.0));
    BAD("alibi", term(t, OTA_TERM_ALIBI, absent, NAN));
    BAD("alibi", term(t, OTA_TERM_ALIBI, vector(t->line, HEADS + 1), 0.0));
    BAD("relative_bias", term(t, OTA_TERM_RELATIVE, vector(t->line, N + M), 0.0));
    assert_string_equal(t->error.message,
                        "relative_bias has 7 entries where queries + keys - 1 = 6 are needed");
    BAD("relative_bias", term(t, OTA_TERM_RELATIVE_INSIDE, vector(t->line, N), 0.0));
    BAD("relative_bias", term(t, OTA_TERM_RELATIVE, absent, 0.0));
    BAD("softcap", term(t, OTA_TERM_SOFTCAP, absent, 0.0));
    BAD("softcap", term(t, OTA_TERM_SOFTCAP, absent, -2.0));
    BAD("sink", term(t, OTA_TERM_SINK, absent, INFINITY));
    BAD("sink", (t->line[1] = NAN, term(t, OTA_TERM_SINK, vector(t->line, HEADS), 0.0)));
    /* more entries than queries + keys - 1 in the dimensions that have no meaning */
    BAD("relative_bias",
        term(t, OTA_TERM_RELATIVE, ota_array_of(t->s, OTA_F64, 2, 1, 1, N + M - 1), 0.0));
    BAD("relative_bias",
        term(t, OTA_TERM_RELATIVE, ota_array_of(t->s, OTA_F64, 1, 1, 0, N + M - 1), 0.0));
    BAD("relative_bias",
        term(t, OTA_TERM_RELATIVE, ota_array_of(t->s, OTA_F64, 1, 3, 1, N + M - 1), 0.0));
}

static void supports_are_refused(void **unused) {
    (void)unused;
    BAD("supports", support(t, (ota_support_kind)0, absent, 0, 0));
    BAD("support_count", t->problem.support_count = 17);
    BAD("support_count", (t->problem.support_count = 1, t->problem.supports = NULL));
    BAD("corner", support(t, OTA_SUPPORT_CAUSAL, absent, 0, 0));
    BAD("corner", t->problem.corner = (ota_corner)3);
    BAD("window", support(t, OTA_SUPPORT_WINDOW, absent, -2, 0));
    BAD("window", support(t, OTA_SUPPORT_WINDOW, absent, 0, -2));
    BAD("strided", support(t, OTA_SUPPORT_STRIDED, absent, 0, 0));
    BAD("block", support(t, OTA_SUPPORT_BLOCK, absent, 0, 0));
    BAD("block", support(t, OTA_SUPPORT_BLOCK, vector(t->line, 2), 0, 0));
    BAD("block",
        (t->whole[0] = 2, t->whole[1] = 1,
         support(t, OTA_SUPPORT_BLOCK, ota_array_of(t->whole, OTA_I64, 1, 1, 1, 2), 0, 0)));
    BAD("block",
        (t->whole[0] = 9, t->whole[1] = -1,
         support(t, OTA_SUPPORT_BLOCK, ota_array_of(t->whole, OTA_I64, 1, 1, 1, 2), 0, 0)));
    BAD("lengths",
        support(t, OTA_SUPPORT_LENGTHS, ota_array_of(t->whole, OTA_I64, 1, 1, 1, 3), 0, 0));
    BAD("lengths",
        (t->whole[1] = M + 1,
         support(t, OTA_SUPPORT_LENGTHS, ota_array_of(t->whole, OTA_I64, 1, 1, 1, BATCH), 0, 0)));
    BAD("mask", support(t, OTA_SUPPORT_BOOLEAN, absent, 0, 0));
    BAD("mask", support(t, OTA_SUPPORT_BOOLEAN, ota_array_of(t->s, OTA_F64, 1, 1, N, M), 0, 0));
    BAD("mask",
        support(t, OTA_SUPPORT_BOOLEAN, ota_array_of(t->truth, OTA_BOOL, 1, 1, N, 3), 0, 0));
    BAD("mask",
        support(t, OTA_SUPPORT_ADDITIVE, ota_array_of(t->truth, OTA_BOOL, 1, 1, N, M), 0, 0));
    BAD("mask", support(t, OTA_SUPPORT_ADDITIVE, ota_array_of(t->s, OTA_F64, 3, 1, N, M), 0, 0));
}

static void rules_are_refused(void **unused) {
    (void)unused;
    BAD("regulariser", t->problem.regulariser = (ota_regulariser)(OTA_CUSTOM + 1));
    BAD("columns", t->problem.columns = (ota_column_rule)8);
    BAD("rows", t->problem.rows = (ota_row_rule)2);
    BAD("axis", t->problem.axis = (ota_axis)2);
    REFUSED("sparsemax", OTA_EINVAL, "order", t->problem.order = -1.0);
    REFUSED("sparsemax", OTA_EINVAL, "order", t->problem.order = NAN);
    REFUSED("softmax/elastic:1,1", OTA_EINVAL, "steps", t->problem.steps = -1);
    REFUSED("softmax/elastic:1,1", OTA_EINVAL, "lambdas",
            (t->lambdas[2] = -0.5, t->problem.lambdas = vector(t->lambdas, M)));
    REFUSED("softmax/elastic:1,1", OTA_EINVAL, "lambdas",
            t->problem.lambdas = vector(t->lambdas, 3));
    REFUSED("softmax/elastic:1,1", OTA_UNSUPPORTED, "lambdas",
            (t->problem.axis = OTA_AXIS_COLUMNS, t->problem.lambdas = vector(t->lambdas, M)));
    REFUSED("softmax", OTA_UNSUPPORTED, "rows",
            (t->problem.rows = OTA_ROWS_RELAXED, t->problem.row_strength = 1.0));
    REFUSED("softmax/relaxed:1", OTA_EINVAL, "row_strength", t->problem.rows = OTA_ROWS_RELAXED);
    REFUSED("softmax", OTA_UNSUPPORTED, "start", t->problem.start = OTA_SIDE_COLUMNS);
    REFUSED("sparsemax/exact", OTA_UNSUPPORTED, "end", t->problem.end = OTA_SIDE_COLUMNS);
    REFUSED("softmax/prefix", OTA_UNSUPPORTED, "axis", t->problem.axis = OTA_AXIS_COLUMNS);
    REFUSED("softmax/online:2", OTA_UNSUPPORTED, "axis", t->problem.axis = OTA_AXIS_COLUMNS);
    REFUSED("softmax", OTA_UNSUPPORTED, "sink",
            (t->problem.axis = OTA_AXIS_COLUMNS, term(t, OTA_TERM_SINK, absent, 0.0)));
    REFUSED("softmax/prefix", OTA_UNSUPPORTED, "sink", term(t, OTA_TERM_SINK, absent, 0.0));
    REFUSED("softmax/prefix", OTA_EINVAL, "queries",
            (t->problem.keys.size[2] = t->arrays.values.size[2] = 2, t->arrays.coupling = absent));
    static const char *const meaningless[] = {"entmax:1.5/elastic:1,1", "hard/elastic:1,1",
                                              "hard/relaxed:1"};
    for (size_t k = 0; k < sizeof meaningless / sizeof meaningless[0]; k++)
        REFUSED(meaningless[k], OTA_UNSUPPORTED, "method", (void)0);
}

/* Every number of a column rule, below, above and not in its range. */
static void numbers_of_rules_are_refused(void **unused) {
    (void)unused;
    static const struct {
        const char *method, *field;
        size_t place;
        double wrong[4];
    } table[] = {
        {"softmax/relaxed:1", "strength", offsetof(ota_problem, strength), {0, -1, NAN, INFINITY}},
        {"softmax/capped:1", "cap", offsetof(ota_problem, cap), {0, -1, NAN, INFINITY}},
        {"softmax/online:1", "cap", offsetof(ota_problem, cap), {0, -1, NAN, INFINITY}},
        {"softmax/bounded:0.5,2", "upper", offsetof(ota_problem, upper), {0, -1, NAN, INFINITY}},
        {"softmax/bounded:0.5,2", "lower", offsetof(ota_problem, lower), {-1, 3, NAN, INFINITY}},
        {"softmax/elastic:1,1", "lambda", offsetof(ota_problem, lambda), {-0.5, 2, NAN, INFINITY}}};
    for (size_t k = 0; k < 4 * sizeof table / sizeof *table; k++)
        REFUSED(table[k / 4].method, OTA_EINVAL, table[k / 4].field,
                *(double *)(void *)((char *)&t->problem + table[k / 4].place) =
                    table[k / 4].wrong[k % 4]);
}

static void masses_are_refused(void **unused) {
    (void)unused;
    BAD("row_mass", t->problem.row_mass = vector(t->mu, 2));
    BAD("row_mass", (t->mu[1] = -1.0, t->problem.row_mass = vector(t->mu, N)));
    BAD("row_mass", (t->mu[1] = NAN, t->problem.row_mass = vector(t->mu, N)));
    BAD("row_mass", (t->mu[1] = INFINITY, t->problem.row_mass = vector(t->mu, N)));
    BAD("column_mass", t->problem.column_mass = vector(t->nu, M));
    REFUSED("softmax/prefix", OTA_EINVAL, "column_mass", t->problem.column_mass = vector(t->nu, M));
    REFUSED("softmax/exact", OTA_EINVAL, "column_mass", t->problem.column_mass = vector(t->nu, 3));
    BAD("row_mass", (t->problem.row_mass = vector(t->mu, N), t->problem.row_mass.size[2] = 0));
    REFUSED("softmax/exact", OTA_EINVAL, "column_mass",
            (t->problem.column_mass = vector(t->nu, M), t->problem.column_mass.size[2] = 0));
    REFUSED("softmax/exact", OTA_EINVAL, "column_mass",
            (t->nu[0] = -0.1, t->problem.column_mass = vector(t->nu, M)));
    REFUSED("softmax/exact", OTA_EINVAL, "column_mass", term(t, OTA_TERM_SINK, absent, 0.0));
    REFUSED("softmax", OTA_EINVAL, "row_mass",
            (t->problem.axis = OTA_AXIS_COLUMNS, t->problem.row_mass = vector(t->mu, N)));
}

static void options_are_refused(void **unused) {
    (void)unused;
    BAD("tolerance", t->options.tolerance = -1.0);
    BAD("tolerance", t->options.tolerance = NAN);
    BAD("max_rounds", t->options.max_rounds = -1);
    BAD("rounds", t->options.rounds = -2);
    BAD("anneal_start", t->options.anneal_start = -1.0);
    BAD("anneal_factor", (t->options.anneal_start = 2.0, t->options.anneal_factor = 1.0));
    BAD("anneal_rounds", (t->options.anneal_start = 2.0, t->options.anneal_rounds = -1));
    BAD("relaxation", t->options.relaxation = 2.0);
    BAD("center", t->options.center = (ota_center)3);
    BAD("precision", t->options.precision = (ota_precision)3);
    BAD("tolerance_scaling", t->options.tolerance_scaling = -1.0);
    BAD("threads", t->options.threads = -1);
    BAD("cpu", t->options.cpu = "z80");
    BAD("backend", t->options.backend = "abacus");
    BAD("backend", t->options.backend = "a name that is longer than any backend's");
    BAD("solver", t->options.solver = "magic");
    REFUSED("softmax", OTA_UNSUPPORTED, "solver", t->options.solver = "sinkhorn");
    REFUSED("softmax/exact", OTA_UNSUPPORTED, "solver", t->options.solver = "assignment");
    REFUSED("softmax", OTA_ELIMIT, "workspace_limit", t->options.workspace_limit = 64);
}

static void arrays_are_refused(void **unused) {
    (void)unused;
    BAD("arrays.size", t->arrays.size = 0);
    BAD("values", t->arrays.values = absent);
    BAD("values", t->arrays.values.type = OTA_BOOL);
    BAD("values", t->arrays.values.size[2] = 2);
    BAD("out", t->arrays.out.size[3] = 1);
    BAD("out", t->arrays.out.type = OTA_I64);
    BAD("out", t->arrays.out.stride[2] = 0);
    BAD("out", t->arrays.out.data = NULL);
    BAD("coupling", t->arrays.coupling.stride[1] = 0);
    BAD("coupling", t->arrays.coupling.size[0] = 1);
    BAD("lse", t->arrays.lse = ota_array_of(t->queries, OTA_F64, BATCH, HEADS, 1, M));
    BAD("lse", t->arrays.lse = ota_array_of(t->queries, OTA_BF16, BATCH, HEADS, 1, N));
    BAD("remaining", t->arrays.remaining = ota_array_of(t->keys, OTA_F64, BATCH, HEADS, 1, M));
    BAD("start_potential",
        t->arrays.start_potential = ota_array_of(t->keys, OTA_F64, BATCH, HEADS, 1, M));
    REFUSED("softmax/online:2", OTA_EINVAL, "remaining",
            t->arrays.remaining = ota_array_of(t->keys, OTA_F32, BATCH, HEADS, 1, M));
    REFUSED("softmax", OTA_EALIGN, "out", t->arrays.out.data = (char *)t->arrays.out.data + 4);
    REFUSED("softmax", OTA_EALIGN, "coupling",
            t->arrays.coupling.data = (char *)t->arrays.coupling.data + 1);
    REFUSED("softmax", OTA_EALIAS, "out", t->arrays.out.data = t->v);
    REFUSED("softmax", OTA_EALIAS, "out", t->arrays.out.data = t->q);
    REFUSED("softmax", OTA_EALIAS, "out",
            (t->arrays.out.data = t->k + 1, t->arrays.coupling = absent));
    REFUSED("softmax", OTA_EALIAS, "coupling", t->arrays.coupling.data = t->out);
    REFUSED("softmax", OTA_EALIAS, "coupling",
            (term(t, OTA_TERM_DENSE, ota_array_of(t->s, OTA_F64, BATCH, HEADS, N, M), 0.0),
             t->arrays.coupling.data = t->s));
    REFUSED("softmax", OTA_EALIAS, "out",
            (term(t, OTA_TERM_SINK, vector(t->temperatures, HEADS), 0.0),
             t->arrays.out.data = t->temperatures));
    /* one element of an output at two places of memory: strides smaller than the extent below them */
    REFUSED("softmax", OTA_EALIAS, "out", t->arrays.out.stride[2] = 1);
    REFUSED("softmax", OTA_EOVERFLOW, "out", t->arrays.out.stride[0] = INT64_MAX / 8);
}

static void sizes_of_structs(void **unused) {
    (void)unused;
    BAD("problem.size", t->problem.size = 0);
    BAD("options.size", t->options.size = 0);
    BAD("result.size", t->result.size = 0);
    /* A shorter struct is an older header's: the rest is default. */
    door_make(t, "softmax");
    t->problem.axis = OTA_AXIS_COLUMNS;
    t->problem.size = offsetof(ota_problem, axis);
    t->options.threads = -5;
    t->options.size = offsetof(ota_options, threads);
    t->arrays.size = offsetof(ota_arrays, coupling);
    t->result.size = offsetof(ota_result, sentence);
    memset(t->result.sentence, 'x', sizeof t->result.sentence);
    assert_int_equal(ota_attend(&t->problem, &t->options, &t->arrays, &t->result, &t->error),
                     OTA_OK);
    assert_true(t->p[0] >= 77.0);
    assert_int_equal(t->result.sentence[0], 'x');
    assert_int_equal(t->result.size, offsetof(ota_result, sentence));
    /* What lies behind the end of a shorter struct is not its communicator. */
    static const ota_communicator none = {.size = 0};
    door_make(t, "softmax");
    t->options.size = offsetof(ota_options, communicator);
    t->options.communicator = &none;
    assert_int_equal(ota_attend(&t->problem, &t->options, &t->arrays, &t->result, &t->error),
                     OTA_OK);
    /* A longer one is a newer header's: fine as long as nothing unknown is set. */
    struct {
        ota_problem problem;
        uint64_t later;
    } longer;
    memset(&longer, 0, sizeof longer);
    door_make(t, "softmax");
    longer.problem = t->problem;
    longer.problem.size = sizeof longer;
    assert_int_equal(ota_attend(&longer.problem, &t->options, &t->arrays, NULL, &t->error), OTA_OK);
    longer.later = 1;
    assert_int_equal(ota_attend(&longer.problem, &t->options, &t->arrays, NULL, &t->error),
                     OTA_UNSUPPORTED);
    assert_string_equal(t->error.field, "problem.size");
    struct {
        ota_result result;
        uint64_t later;
    } wide = {.later = 5};
    wide.result.size = sizeof wide;
    assert_int_equal(ota_attend(&t->problem, &t->options, &t->arrays, &wide.result, &t->error),
                     OTA_OK);
    assert_int_equal(wide.result.size, sizeof wide);
    assert_int_equal(wide.later, 5);
}

/* The check alone knows the backends, and says what a plan says. */
static void unknown_backend(void **unused) {
    (void)unused;
    ota_error by_plan = {{0}, {0}, {0}};
    ota_plan *plan = NULL;
    door_make(t, "softmax");
    for (int k = 0; ota_backend_name(k) != NULL; k++) {
        t->options.backend = ota_backend_name(k);
        assert_int_equal(ota_check(&t->problem, &t->options, &t->error), OTA_OK);
    }
    t->options.backend = "abacus";
    assert_int_equal(ota_check(&t->problem, &t->options, &t->error), OTA_EINVAL);
    assert_int_equal(ota_plan_create(&plan, &t->problem, DV, &t->options, &by_plan), OTA_EINVAL);
    assert_string_equal(t->error.message, by_plan.message);
    assert_non_null(strstr(by_plan.message, "backend is 'abacus'"));
}

/* And the solvers. */
static void solver_of_no_use(void **unused) {
    (void)unused;
    static const char *const names[] = {"abacus", "newton"};
    for (int k = 0; k < 2; k++) {
        ota_error by_plan = {{0}, {0}, {0}};
        ota_plan *plan = NULL;
        door_make(t, "softmax");
        t->options.solver = names[k];
        const ota_status refused = ota_plan_create(&plan, &t->problem, DV, &t->options, &by_plan);
        assert_true(refused < OTA_OK);
        assert_int_equal(ota_check(&t->problem, &t->options, &t->error), refused);
        assert_string_equal(t->error.message, by_plan.message);
    }
}

static void missing_structs(void **unused) {
    (void)unused;
    door_make(t, "softmax");
    ota_plan *plan = NULL;
    assert_int_equal(ota_attend(NULL, NULL, &t->arrays, NULL, &t->error), OTA_EINVAL);
    assert_int_equal(ota_attend(&t->problem, NULL, NULL, NULL, &t->error), OTA_EINVAL);
    assert_int_equal(ota_plan_create(NULL, &t->problem, DV, NULL, &t->error), OTA_EINVAL);
    assert_int_equal(ota_plan_create(&plan, &t->problem, -1, NULL, &t->error), OTA_EINVAL);
    assert_null(plan);
    assert_int_equal(ota_forward(NULL, &t->arrays, NULL, &t->error), OTA_EINVAL);
    assert_int_equal(ota_plan_rebind(NULL, &t->problem, &t->error), OTA_EINVAL);
    assert_string_equal(t->error.message, "plan is NULL");
    assert_int_equal(ota_check(&t->problem, NULL, NULL), OTA_OK);
    ota_plan_free(NULL);
    assert_null(ota_kernel_name(-1));
    assert_null(ota_solver_name(-1));
    assert_null(ota_kernel_name(1000));
    assert_null(ota_solver_name(1000));
    assert_string_equal(ota_kernel_name(0), "portable");
}

static void an_unwritten_array_is_not_refused(void **unused) {
    (void)unused;
    /* The interleaved halves of one block overlap in extent but in no element. */
    door_make(t, "softmax");
    t->arrays.out = absent;
    t->arrays.coupling = absent;
    assert_int_equal(ota_attend(&t->problem, &t->options, &t->arrays, &t->result, &t->error),
                     OTA_OK);
}

/* ---- describe ------------------------------------------------------------------------------------ */

static void describe(char *text, size_t size) {
    ota_plan *plan = NULL;
    const ota_status status = ota_plan_create(&plan, &t->problem, DV, &t->options, &t->error);
    if (status != OTA_OK) print_error("%s\n", t->error.message);
    assert_int_equal(status, OTA_OK);
    const size_t length = ota_plan_describe(plan, text, size);
    assert_true(length < size);
    assert_int_equal(strlen(text), length);
    /* a short buffer gets the beginning and the same length */
    char brief[10];
    assert_int_equal(ota_plan_describe(plan, brief, sizeof brief), length);
    assert_memory_equal(brief, text, sizeof brief - 1);
    assert_int_equal(brief[9], '\0');
    assert_int_equal(ota_plan_describe(plan, NULL, 0), length);
    ota_plan_free(plan);
}

static void told(void *user, const ota_progress *progress) {
    (void)user;
    (void)progress;
}

static void one_after_another(void *user, int64_t count,
                              void (*body)(void *context, int64_t index, int worker),
                              void *context) {
    (void)user;
    for (int64_t k = 0; k < count; k++) body(context, k, 0);
}

#define SHOWN(change)                                                                              \
    do {                                                                                           \
        char before[4096], after[4096];                                                            \
        door_make(t, "softmax/exact");                                                             \
        t->options.anneal_start = 3.0;                                                             \
        describe(before, sizeof before);                                                           \
        change;                                                                                    \
        describe(after, sizeof after);                                                             \
        if (strcmp(before, after) == 0) print_error("not shown: %s\n", #change);                   \
        hidden += strcmp(before, after) == 0;                                                      \
    } while (0)

static void every_option_is_described(void **unused) {
    (void)unused;
    static const int never = 0;
    int hidden = 0;
    static const ota_executor own = {one_after_another, NULL, 1};
    SHOWN(t->options.tolerance = 1e-7);
    SHOWN(t->options.max_rounds = 17);
    SHOWN(t->options.rounds = 5);
    SHOWN(t->options.rounds = OTA_NO_ROUNDS);
    SHOWN(t->options.anneal_start = 4.0);
    SHOWN(t->options.anneal_factor = 0.25);
    SHOWN(t->options.anneal_rounds = 9);
    SHOWN(t->options.anneal_keep_scaling = 1);
    SHOWN(t->options.relaxation = 1.5);
    SHOWN(t->options.relaxation_auto = 1);
    SHOWN(t->options.center = OTA_CENTER_MEAN);
    SHOWN(t->options.center = OTA_CENTER_MIDRANGE);
    SHOWN(t->options.precision = OTA_PRECISION_F64);
    SHOWN(t->options.tolerance_scaling = 0.5);
    SHOWN(t->options.prune = 1);
    SHOWN(t->options.allow_partial = 1);
    SHOWN(t->options.strict = 1);
    SHOWN(t->options.solver = "log");
    SHOWN(t->options.threads = 2);
    SHOWN(t->options.executor = &own);
    SHOWN(t->options.cpu = "portable");
    SHOWN(t->options.backend = ota_backend_name(on_other_backend() ? 0 : 1));
    SHOWN(t->options.workspace_limit = (size_t)1 << 30);
    SHOWN(t->options.cancel = &never);
    SHOWN(t->options.deadline_ns = INT64_MAX);
    SHOWN(t->options.progress = told);
    SHOWN(t->problem.temperature = 2.0);
    SHOWN(t->problem.scale = 0.5);
    SHOWN(t->problem.axis = OTA_AXIS_COLUMNS);
    SHOWN(t->problem.end = OTA_SIDE_COLUMNS);
    SHOWN(t->problem.start = OTA_SIDE_COLUMNS);
    SHOWN(t->problem.row_mass = vector(t->mu, N));
    SHOWN(t->problem.column_mass = vector(t->nu, M));
    SHOWN(support(t, OTA_SUPPORT_WINDOW, absent, 1, 1));
    SHOWN(term(t, OTA_TERM_ALIBI, absent, 0.5));
    assert_int_equal(hidden, 0);
    /* Nothing is said of a relaxation that is not asked for. */
    char text[4096];
    door_make(t, "softmax/exact");
    describe(text, sizeof text);
    assert_null(strstr(text, "relaxation:"));
    /* Scores in f64 are worked on in f64 without anyone's promotion. */
    assert_non_null(strstr(text, "f64 inside"));
    assert_null(strstr(text, "promoted"));
}

/* Sizes whose product no int64 holds: undefined arithmetic would be a finding of the sanitizer. */
static void the_widest_values_have_no_room(void **unused) {
    (void)unused;
    ota_plan *plan = NULL;
    static double keys[1024];
    door_make(t, "softmax");
    t->problem.keys = ota_array_of(keys, OTA_F64, 1, 1, 1024, 1);
    t->problem.queries = ota_array_of(keys, OTA_F64, 1, 1, 1024, 1);
    t->problem.support_count = t->problem.term_count = 0;
    const ota_status status =
        ota_plan_create(&plan, &t->problem, INT64_MAX / 64, &t->options, &t->error);
    /* Another backend may need no memory for values. */
    assert_true(status == OTA_EOVERFLOW || on_other_backend());
    ota_plan_free(plan);
}

/* ---- rebind -------------------------------------------------------------------------------------- */

static void rebind_takes_the_same_shapes_only(void **unused) {
    (void)unused;
    static door fresh;
    door_make(t, "softmax");
    door_make(&fresh, "softmax");
    for (size_t k = 0; k < sizeof fresh.q / sizeof fresh.q[0]; k++) fresh.q[k] *= -2.0;
    ota_plan *plan = NULL;
    assert_int_equal(ota_plan_create(&plan, &t->problem, DV, &t->options, &t->error), OTA_OK);
    assert_int_equal(ota_forward(plan, &t->arrays, &t->result, &t->error), OTA_OK);
    static double first[BATCH * HEADS * N * M];
    memcpy(first, t->p, sizeof first);
    assert_int_equal(ota_plan_rebind(plan, &fresh.problem, &t->error), OTA_OK);
    assert_int_equal(ota_forward(plan, &t->arrays, &t->result, &t->error), OTA_OK);
    assert_memory_not_equal(first, t->p, sizeof first);
    static double second[BATCH * HEADS * N * M];
    memcpy(second, t->p, sizeof second);
    fresh.problem.columns = OTA_COLUMNS_EXACT;
    assert_int_equal(ota_plan_rebind(plan, &fresh.problem, &t->error), OTA_EINVAL);
    fresh.problem.columns = OTA_COLUMNS_FREE;
    fresh.problem.queries.size[2] = 2;
    assert_int_equal(ota_plan_rebind(plan, &fresh.problem, &t->error), OTA_EINVAL);
    fresh.problem.queries.size[2] = N;
    fresh.problem.queries.type = OTA_F32;
    assert_int_equal(ota_plan_rebind(plan, &fresh.problem, &t->error), OTA_EINVAL);
    assert_int_equal(ota_plan_rebind(plan, NULL, &t->error), OTA_EINVAL);
    /* and the plan still holds what it held */
    assert_int_equal(ota_forward(plan, &t->arrays, &t->result, &t->error), OTA_OK);
    assert_memory_equal(second, t->p, sizeof second);
    ota_plan_free(plan);
}

TEST_FILE(test_forward_door) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sound_problem_is_solved),
        cmocka_unit_test(scores_are_refused),
        cmocka_unit_test(terms_are_refused),
        cmocka_unit_test(supports_are_refused),
        cmocka_unit_test(rules_are_refused),
        cmocka_unit_test(numbers_of_rules_are_refused),
        cmocka_unit_test(masses_are_refused),
        cmocka_unit_test(options_are_refused),
        cmocka_unit_test(arrays_are_refused),
        cmocka_unit_test(sizes_of_structs),
        cmocka_unit_test(unknown_backend),
        cmocka_unit_test(solver_of_no_use),
        cmocka_unit_test(missing_structs),
        cmocka_unit_test(an_unwritten_array_is_not_refused),
        cmocka_unit_test(every_option_is_described),
        cmocka_unit_test(the_widest_values_have_no_room),
        cmocka_unit_test(rebind_takes_the_same_shapes_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
