/* test_refusals.c: every refusal of the method grammar and of the options, shapes and arrays of a problem, a row each: what
 * is spoilt in a sound problem, the status, the sentence and the field at fault. The sound problem itself is taken, and a
 * refused one leaves no plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "groups.h"
#include "one_rank.h"
#include "otattn.h"
#include "problem/feasible.h"
#include "problem/problem.h"

enum { N = 3, M = 4, WIDTH = 2 };

/* ---- grammar ---- */

typedef struct sentence_row {
    const char *text, *sentence;
} sentence_row;

static const sentence_row methods[] = {
    {"", "method '' is unknown"},
    {"sofmax", "method 'sofmax' is unknown"},
    {"a_word_far_longer_than_any_of_the_methods",
     "method 'a_word_far_longer_than_any_of_the_methods' is unknown"},
    {"softmax/sparsemax", "'sparsemax' is not a column rule"},
    {"softmax/sinkhorn", "'sinkhorn' is a whole method, not a column rule"},
    {"softmax:2", "'softmax' takes 0 numbers after the colon"},
    {"softmax/capped:1,2", "'capped' takes 1 number after the colon"},
    {"softmax/capped:", "'capped' takes 1 number after the colon, not ''"},
    {"softmax/capped:x", "'capped' takes 1 number after the colon, not 'x'"},
    {"softmax/capped:1e999", "'capped' takes 1 number after the colon, not '1e999'"},
    {"softmax/capped:1e", "'capped' takes 1 number after the colon, not '1e'"},
    {"softmax/capped:1-", "'capped' takes 1 number after the colon, not '1-'"},
    {"softmax/capped:000000000000000000000000000000000000000000000000001",
     "'capped' takes 1 number after the colon, not '0000000000000000000000000000000000000000'"},
    {"softmax/capped:inf", "'capped' takes 1 number after the colon, not 'inf'"},
    {"softmax/bounded:0,nan{prune}", "'bounded' takes 2 numbers after the colon, not 'nan'"},
    {"ceta/free", "'ceta' names a column rule already and takes no '/free'"},
    {"sinkhorn/exact", "'sinkhorn' names a column rule already and takes no '/exact'"},
    {"argmax/exact", "'argmax' names a column rule already and takes no '/exact'"},
    {"assignment/capped:2", "'assignment' names a column rule already and takes no '/capped:2'"},
    {"capped:2/exact", "'capped' names a column rule already and takes no '/exact'"},
    {"elastic/free{prune}", "'elastic' names a column rule already and takes no '/free{prune}'"},
    {"softmax/capped", "'capped' needs a number after a colon"},
    {"softmax/bounded:1", "'bounded' needs two numbers after a colon"},
    {"entmax:1", "entmax order is 1"},
    {"entmax:0", "entmax order is 0"},
    {"entmax:-2", "entmax order is -2"},
    {"softmax/capped:-1", "'capped' is out of range at -1"},
    {"softmax/elastic:1,2.5", "elastic steps are 2.5"},
    {"softmax/elastic:1,-1", "elastic steps are -1"},
    {"softmax/exact/exact", "method 'softmax/exact/exact' has '/exact' left over"},
    {"softmax{prune}x", "method 'softmax{prune}x' has 'x' left over"},
    {"softmax{", "'' is not an option of a method"},
    {"softmax{nothing}", "'nothing' is not an option of a method"},
    {"softmax{temperature}", "option 'temperature' has no value"},
    {"softmax{temperature=}", "option 'temperature' is ''"},
    {"softmax{temperature=-1}", "option 'temperature' is '-1'"},
    {"softmax{temperature=0,prune}", "option 'temperature' is '0'"},
    {"softmax{temperature=inf}", "option 'temperature' is 'inf'"},
    {"softmax{temperature=1,temperature=2}", "option 'temperature' is given twice"},
    {"softmax{prune,prune=0}", "option 'prune' is given twice"},
    {"softmax{rounds=1.5}", "option 'rounds' is '1.5'"},
    {"softmax{rounds=-1}", "option 'rounds' is '-1'"},
    {"softmax{rounds=1e16}", "option 'rounds' is '1e16'"},
    {"softmax{prune=x}", "option 'prune' is 'x'"},
    {"softmax{prune=2}", "option 'prune' is '2'"},
    {"softmax{prune=-1}", "option 'prune' is '-1'"},
    {"softmax{anneal=}", "option 'anneal' is ''"},
    {"softmax{anneal=0}", "option 'anneal' is '0'"},
    {"softmax{anneal=4:0.5:-1}", "option 'anneal' is '4:0.5:-1'"},
    {"softmax{anneal=4:0.5:1e16}", "option 'anneal' is '4:0.5:1e16'"},
    {"softmax{anneal=4:0.5:1:1}", "option 'anneal' is '4:0.5:1:1'"},
    {"softmax{prune", "the braces of a method do not end at ''"},
    {"softmax{prune=1;", "the braces of a method do not end at ';'"},
    {"softmax{prune,", "'' is not an option of a method"},
};

static void test_methods(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        ota_problem problem = {.size = sizeof problem, .temperature = 3.0};
        ota_options options = {.size = sizeof options};
        const ota_problem before = problem;
        const ota_options before_options = options;
        ota_error error = {.message = ""};
        print_message("%s\n", methods[k].text);
        assert_int_equal(ota_method_parse(methods[k].text, &problem, &options, &error), OTA_EINVAL);
        assert_string_equal(error.message, methods[k].sentence);
        assert_true(error.hint[0] != '\0' && error.field[0] != '\0');
        assert_memory_equal(&problem, &before, sizeof before);
        assert_memory_equal(&options, &before_options, sizeof before_options);
    }
    /* Three letters too many are still near. */
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    ota_error error = {.message = ""};
    assert_int_equal(ota_method_parse("softmaxxyz", &problem, &options, &error), OTA_EINVAL);
    assert_string_equal(error.hint, "did you mean 'softmax'?");
    assert_int_equal(ota_method_parse("ceta{round=3}", &problem, &options, &error), OTA_EINVAL);
    assert_string_equal(error.hint, "did you mean 'rounds'?");
    assert_int_equal(ota_method_parse("ceta{temperature=-1}", &problem, &options, &error),
                     OTA_EINVAL);
    assert_string_equal(error.hint, "give a number > 0");
}

static void test_method_arguments(void **state) {
    (void)state;
    ota_problem problem = {.size = sizeof problem}, small = {.size = 7};
    ota_options options = {.size = sizeof options}, short_options = {.size = 7};
    ota_error error;
    assert_int_equal(ota_method_parse(NULL, &problem, &options, &error), OTA_EINVAL);
    assert_string_equal(error.message, "method is NULL");
    assert_int_equal(ota_method_parse("softmax", NULL, &options, &error), OTA_EINVAL);
    assert_string_equal(error.message, "problem is NULL");
    assert_int_equal(ota_method_parse("softmax", &small, &options, &error), OTA_EINVAL);
    assert_string_equal(error.message, "size of problem is too small");
    assert_int_equal(ota_method_parse("softmax", &problem, &short_options, &error), OTA_EINVAL);
    assert_string_equal(error.message, "size of options is too small");
    assert_int_equal(ota_method_parse("softmax{prune}", &problem, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.message, "method 'softmax{prune}' sets options but options is NULL");
    assert_int_equal(ota_method_parse("softmax{prune}", &problem, NULL, NULL), OTA_EINVAL);
}

/* Structs of an older header are filled as far as they go, and what lies behind them is neither read nor written. */
static void test_method_of_older_callers(void **state) {
    (void)state;
    ota_problem problem = {.size = offsetof(ota_problem, lower), .lower = 7.0, .entry_cap = 7.0};
    ota_options options = {.size = offsetof(ota_options, anneal_start), .anneal_start = 7.0};
    const ota_problem before = problem;
    ota_error error;
    char name[96];
    assert_int_equal(ota_method_parse("softmax/bounded:0.5,2", &problem, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.message, "size of problem is too small");
    assert_int_equal(ota_method_parse("ceta{anneal=4:0.5}", &problem, &options, &error),
                     OTA_EINVAL);
    assert_string_equal(error.message, "size of options is too small");
    assert_memory_equal(&problem, &before, sizeof before);
    assert_int_equal(
        ota_method_parse("softmax/capped:2{temperature=3,rounds=5}", &problem, &options, &error),
        OTA_OK);
    assert_int_equal(problem.columns, OTA_COLUMNS_CAPPED);
    assert_true(problem.cap == 2.0 && problem.temperature == 3.0 && options.rounds == 5);
    assert_true(problem.lower == 7.0 && problem.entry_cap == 7.0 && options.anneal_start == 7.0);
    assert_int_equal(problem.size, offsetof(ota_problem, lower));
    (void)ota_method_name(&problem, name, sizeof name);
    assert_string_equal(name, "softmax/capped:2");
}

/* What is said in braces arrives, and comes back in the method's name. */
static void test_braces(void **state) {
    (void)state;
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options};
    assert_int_equal(
        ota_method_parse("entmax:1.25/exact{temperature=2,entry_cap=0.5,tolerance=1e-3,"
                         "max_rounds=7,rounds=0,relaxation=1.5,prune=0,anneal=4:0.5:2}",
                         &problem, &options, NULL),
        OTA_OK);
    assert_true(problem.temperature == 2.0 && problem.entry_cap == 0.5);
    assert_true(options.tolerance == 1e-3 && options.max_rounds == 7 && options.relaxation == 1.5);
    assert_true(options.rounds == OTA_NO_ROUNDS && options.prune == 0);
    assert_true(options.anneal_start == 4.0 && options.anneal_factor == 0.5 &&
                options.anneal_rounds == 2);
    char name[96];
    assert_true(ota_method_name(&problem, name, sizeof name) > 0);
    assert_string_equal(name, "entmax:1.25/exact{entry_cap=0.5}");
}

/* ---- problems ---- */

typedef struct stage {
    ota_problem problem;
    ota_options options;
    ota_executor executor;
    ota_communicator alone; /* one rank: what it sums and gathers is its own */
    ota_term terms[1];
    double elements[N * M + N * WIDTH + M * WIDTH + 8];
} stage;

static void set(stage *s) {
    memset(s, 0, sizeof *s);
    for (size_t k = 0; k < sizeof s->elements / sizeof *s->elements; k++)
        s->elements[k] = 0.25 + (double)(k % 5) / 8;
    s->problem.size = sizeof s->problem;
    s->problem.scores = ota_array_of(s->elements, OTA_F64, 1, 1, N, M);
    s->options.size = sizeof s->options;
    s->options.threads = 1;
}

/* Every row spoils one thing. */
#define SPOIL(name, what)                                                                          \
    static void name(stage *s) { what; }
SPOIL(nothing, (void)s)
SPOIL(no_problem_size, s->problem.size = 0)
SPOIL(scores_absent, s->problem.scores = (ota_array){0})
SPOIL(scores_whole, s->problem.scores.type = OTA_I64)
SPOIL(scores_untyped, s->problem.scores.type = (ota_type)99)
SPOIL(scores_negative, s->problem.scores.size[2] = -1)
SPOIL(scores_no_data, s->problem.scores.data = NULL)
SPOIL(scores_reach, s->problem.scores.stride[2] = INT64_MIN)
SPOIL(scores_far, s->problem.scores.stride[2] = INT64_MAX / 2)
SPOIL(scores_wide, s->problem.scores.stride[3] = INT64_MAX / 3 - 7)
/* The largest span there may be: the next thing at fault is told. */
SPOIL(scores_just_fit, (s->problem.scores.size[2] = 1, s->problem.scores.size[3] = 2,
                        s->problem.scores.stride[3] = INT64_MAX / 16,
                        s->problem.scores.data = (char *)s->problem.scores.data + 1))
SPOIL(scores_both, (s->problem.scores.stride[2] = INT64_MAX / 2 - 9,
                    s->problem.scores.stride[3] = INT64_MAX / 4))
SPOIL(scores_many, (s->problem.scores.size[0] = INT64_MAX / 2, s->problem.scores.stride[0] = 0))
SPOIL(scores_large, (s->problem.scores.size[0] = INT64_MAX / 64, s->problem.scores.stride[0] = 0))
SPOIL(scores_unaligned, s->problem.scores.data = (char *)s->problem.scores.data + 1)
SPOIL(both_given, s->problem.queries = ota_array_of(s->elements, OTA_F64, 1, 1, N, WIDTH))
SPOIL(keys_too, s->problem.keys = ota_array_of(s->elements, OTA_F64, 1, 1, M, WIDTH))
/* Queries and keys in the place of scores. */
static void pairs(stage *s) {
    s->problem.scores = (ota_array){0};
    s->problem.queries = ota_array_of(s->elements, OTA_F64, 1, 1, N, WIDTH);
    s->problem.keys = ota_array_of(s->elements, OTA_F64, 1, 1, M, WIDTH);
}
SPOIL(queries_alone, (pairs(s), s->problem.keys = (ota_array){0}))
SPOIL(queries_whole, (pairs(s), s->problem.queries.type = OTA_I64))
SPOIL(queries_negative, (pairs(s), s->problem.queries.size[1] = -1))
SPOIL(keys_negative, (pairs(s), s->problem.keys.size[1] = -1))
SPOIL(keys_type, (pairs(s), s->problem.keys.type = OTA_F32))
SPOIL(keys_batch, (pairs(s), s->problem.keys.size[0] = 2, s->problem.keys.stride[0] = 0))
SPOIL(keys_width, (pairs(s), s->problem.keys.size[3] = 1))
SPOIL(keys_heads, (pairs(s), s->problem.keys.size[1] = 2, s->problem.keys.stride[1] = 0))
SPOIL(keys_no_heads, (pairs(s), s->problem.keys.size[1] = 0))
static void pairs_many(stage *s) {
    pairs(s);
    s->problem.queries.size[2] = s->problem.keys.size[2] = (int64_t)1 << 33;
    s->problem.queries.stride[2] = s->problem.keys.stride[2] = 0;
}
static void queries_many(stage *s) {
    pairs(s);
    s->problem.queries.size[2] = INT64_MAX / 32;
    s->problem.queries.stride[2] = 0;
    s->problem.queries.size[3] = s->problem.keys.size[3] = s->problem.keys.size[2] = 0;
}
static void keys_many(stage *s) {
    queries_many(s);
    s->problem.keys.size[2] = INT64_MAX / 32;
    s->problem.keys.stride[2] = s->problem.queries.size[2] = 0;
}
static void heads_many(stage *s) {
    pairs(s);
    ota_array *both[] = {&s->problem.queries, &s->problem.keys};
    for (int k = 0; k < 2; k++) {
        both[k]->size[0] = both[k]->size[1] = (int64_t)1 << 33;
        both[k]->size[3] = both[k]->stride[0] = both[k]->stride[1] = 0;
    }
}
static void temperatures(stage *s, double value) {
    s->problem.temperatures = ota_array_of(s->elements + N * M, OTA_F64, 1, 1, 1, 1);
    s->elements[N * M] = value;
}
SPOIL(temperatures_one, temperatures(s, 1))
SPOIL(temperatures_zero, temperatures(s, 0))
SPOIL(temperatures_infinite, temperatures(s, INFINITY))
SPOIL(temperatures_negative, (temperatures(s, 1), s->problem.temperatures.size[3] = -1))
SPOIL(temperatures_narrow, (temperatures(s, 1), s->problem.temperatures.type = OTA_F16))
static void term(stage *s, ota_term_kind kind, double value) {
    s->terms[0] = (ota_term){.kind = kind, .value = value};
    s->problem.terms = s->terms;
    s->problem.term_count = 1;
}
SPOIL(sink_infinite, term(s, OTA_TERM_SINK, INFINITY))
SPOIL(alibi_nan, term(s, OTA_TERM_ALIBI, NAN))
SPOIL(scores_no_type, s->problem.scores.type = OTA_NO_TYPE)
SPOIL(scale_infinite, s->problem.scale = -INFINITY)
SPOIL(scale_nan, s->problem.scale = NAN)
SPOIL(temperature_subnormal, s->problem.temperature = 1e-310)
SPOIL(temperature_negative, s->problem.temperature = -1)
SPOIL(temperature_nan, s->problem.temperature = NAN)
SPOIL(mass_type, s->problem.row_mass = ota_array_of(s->elements, OTA_BOOL, 1, 1, 1, N))
SPOIL(mass_shape, s->problem.row_mass = ota_array_of(s->elements, OTA_F64, 1, 1, 1, N + 1))
static void mass_negative(stage *s) {
    s->problem.row_mass = ota_array_of(s->elements + N * M, OTA_F64, 1, 1, 1, N);
    s->elements[N * M + 1] = -1;
}
static void mass_nan(stage *s) {
    s->problem.row_mass = ota_array_of(s->elements + N * M, OTA_F64, 1, 1, 1, N);
    s->elements[N * M + 2] = NAN;
}
SPOIL(rounds_low, s->options.rounds = OTA_NO_ROUNDS - 1)
SPOIL(max_rounds_low, s->options.max_rounds = -1)
SPOIL(anneal_negative, s->options.anneal_start = -1)
SPOIL(anneal_nan, s->options.anneal_start = NAN)
SPOIL(anneal_factor, (s->options.anneal_start = 2, s->options.anneal_factor = 1.5))
SPOIL(anneal_factor_nan, (s->options.anneal_start = 2, s->options.anneal_factor = NAN))
SPOIL(anneal_factor_low, (s->options.anneal_start = 2, s->options.anneal_factor = -0.5))
SPOIL(anneal_rounds, (s->options.anneal_start = 2, s->options.anneal_rounds = -3))
SPOIL(relaxation_low, s->options.relaxation = -1)
SPOIL(relaxation_nan, s->options.relaxation = NAN)
SPOIL(center_high, s->options.center = (ota_center)9)
SPOIL(center_low, s->options.center = (ota_center)-1)
SPOIL(precision_high, s->options.precision = (ota_precision)9)
SPOIL(precision_low, s->options.precision = (ota_precision)-1)
SPOIL(scaling_low, s->options.tolerance_scaling = -1)
SPOIL(scaling_nan, s->options.tolerance_scaling = NAN)
SPOIL(threads_low, s->options.threads = -1)
SPOIL(threads_high, s->options.threads = 4097)
static void run_bodies(void *user, int64_t count, void (*body)(void *, int64_t, int),
                       void *context) {
    (void)user;
    for (int64_t k = 0; k < count; k++) body(context, k, 0);
}
SPOIL(executor_idle, (s->executor.run = run_bodies, s->options.executor = &s->executor))
static void alone(stage *s) {
    s->alone = one_rank();
    s->options.communicator = &s->alone;
}
SPOIL(ranks_none, (alone(s), s->alone.ranks = 0))
SPOIL(rank_low, (alone(s), s->alone.rank = -1))
SPOIL(rank_high, (alone(s), s->alone.rank = 1))
SPOIL(ranks_no_sum, (alone(s), s->alone.all_reduce = NULL))
SPOIL(ranks_no_gather, (alone(s), s->alone.all_gather = NULL))
SPOIL(ranks_no_size, (alone(s), s->alone.size = 0))
SPOIL(shares_low, (alone(s), s->alone.shares = (ota_shares)-1))
SPOIL(shares_high, (alone(s), s->alone.shares = (ota_shares)9))
SPOIL(course_low, (alone(s), s->alone.keys = (ota_key_transport)-1))
SPOIL(course_high, (alone(s), s->alone.keys = (ota_key_transport)9))
SPOIL(alone_scores, (alone(s), s->problem.scores.data = NULL))
static double weight_of(void *user, double x) {
    (void)user;
    return x > 0.0 ? x : 0.0;
}
static double slope_of(void *user, double x) {
    (void)user;
    return x > 0.0 ? 1.0 : 0.0;
}
SPOIL(caps_custom, (s->problem.regulariser = OTA_CUSTOM, s->problem.custom.weight = weight_of,
                    s->problem.custom.slope = slope_of, s->problem.entry_cap = 1))
SPOIL(caps_start, (s->problem.entry_cap = 1, s->problem.columns = OTA_COLUMNS_EXACT,
                   s->problem.start = OTA_SIDE_COLUMNS))
SPOIL(caps_end, (s->problem.entry_cap = 1, s->problem.columns = OTA_COLUMNS_EXACT,
                 s->problem.end = OTA_SIDE_COLUMNS))
SPOIL(executor_empty, (s->executor.threads = 2, s->options.executor = &s->executor))
SPOIL(cpu_unknown, s->options.cpu = "abacus")
SPOIL(cpu_long, s->options.cpu =
                    "a level whose name is longer than any that there is, by far, and so unknown")
SPOIL(backend_long,
      s->options.backend =
          "a backend whose name is longer than any that there is, by far, in every way")
SPOIL(solver_long, s->options.solver =
                       "a solver whose name is longer than any that there is, by far, in every way")
SPOIL(axis_unknown, s->problem.axis = (ota_axis)2)
SPOIL(start_unknown, (s->problem.columns = OTA_COLUMNS_EXACT, s->problem.start = (ota_side)7))
SPOIL(end_unknown, (s->problem.columns = OTA_COLUMNS_EXACT, s->problem.end = (ota_side)7))
SPOIL(backward_low, s->options.backward = -1)
SPOIL(backward_high, s->options.backward = 3)
SPOIL(cap_nan, s->problem.entry_cap = NAN)
SPOIL(cap_negative, s->problem.entry_cap = -1)
static ota_array caps_of(stage *s, ota_type type, int64_t rows) {
    return ota_array_of(s->elements + N, type, 1, 1, rows, M);
}
SPOIL(caps_twice, (s->problem.entry_cap = 1, s->problem.entry_caps = caps_of(s, OTA_F64, 1)))
SPOIL(caps_type, s->problem.entry_caps = caps_of(s, OTA_F16, 1))
SPOIL(caps_shape, s->problem.entry_caps = caps_of(s, OTA_F64, 2))
SPOIL(caps_data,
      (s->problem.entry_caps = caps_of(s, OTA_F64, 1), s->problem.entry_caps.size[0] = -4))
static void caps_zero(stage *s) {
    s->problem.entry_caps = ota_array_of(s->elements + N * M, OTA_F64, 1, 1, 1, M);
    s->elements[N * M + 3] = 0;
}
SPOIL(caps_infinite, s->problem.entry_cap = INFINITY)
SPOIL(caps_relaxed,
      (s->problem.entry_cap = 1, s->problem.rows = OTA_ROWS_RELAXED, s->problem.row_strength = 1,
       s->problem.columns = OTA_COLUMNS_RELAXED, s->problem.strength = 1))
SPOIL(caps_columns, (s->problem.entry_cap = 1, s->problem.axis = OTA_AXIS_COLUMNS))
SPOIL(caps_prune, (s->problem.entry_cap = 1, s->options.prune = 1))
SPOIL(caps_elastic,
      (s->problem.entry_cap = 1, s->problem.columns = OTA_COLUMNS_ELASTIC, s->problem.lambda = 1))
SPOIL(caps_fixed,
      (s->problem.entry_cap = 1, s->problem.columns = OTA_COLUMNS_EXACT, s->options.rounds = 3))

typedef struct problem_row {
    const char *name;
    void (*spoil)(stage *s);
    ota_status status;
    const char *sentence; /* its beginning */
} problem_row;

#define ROW(name, status, sentence)                                                                \
    { #name, name, status, sentence }
static const problem_row problems[] = {
    ROW(nothing, OTA_OK, ""),
    ROW(no_problem_size, OTA_EINVAL, "problem.size is 0"),
    ROW(scores_absent, OTA_EINVAL, "queries are absent"),
    ROW(scores_whole, OTA_EINVAL, "scores has type 6, wanted f64, f32, bf16 or f16"),
    ROW(scores_untyped, OTA_EINVAL, "scores has the unknown type 99"),
    ROW(scores_negative, OTA_EINVAL, "scores has size -1 in dimension 2"),
    ROW(scores_no_data, OTA_EINVAL, "scores has no data"),
    ROW(scores_reach, OTA_EOVERFLOW, "scores spans more than 2^63 elements"),
    ROW(scores_far, OTA_EOVERFLOW, "scores spans more than 2^63 elements"),
    ROW(scores_wide, OTA_EOVERFLOW, "scores spans more than 2^59 elements"),
    ROW(scores_just_fit, OTA_EALIGN, "scores is not aligned to 8 bytes"),
    ROW(scores_both, OTA_EOVERFLOW, "scores spans more than 2^63 elements"),
    ROW(scores_many, OTA_EOVERFLOW, "scores spans more than 2^63 elements"),
    ROW(scores_large, OTA_EOVERFLOW, "scores spans more than 2^59 elements"),
    ROW(scores_unaligned, OTA_EALIGN, "scores is not aligned to 8 bytes"),
    ROW(both_given, OTA_EINVAL, "scores and queries are both given"),
    ROW(keys_too, OTA_EINVAL, "scores and keys are both given"),
    ROW(pairs, OTA_OK, ""),
    ROW(queries_alone, OTA_EINVAL, "keys are absent"),
    ROW(queries_whole, OTA_EINVAL, "queries has type 6, wanted f64, f32, bf16 or f16"),
    ROW(queries_negative, OTA_EINVAL, "queries has size -1 in dimension 1"),
    ROW(keys_negative, OTA_EINVAL, "keys has size -1 in dimension 1"),
    ROW(keys_type, OTA_EINVAL, "keys has type 2, wanted the type of queries"),
    ROW(keys_batch, OTA_EINVAL, "keys have batch 2 but queries 1"),
    ROW(keys_width, OTA_EINVAL, "keys have width 1 but queries 2"),
    ROW(keys_heads, OTA_EINVAL, "keys have 2 heads, which do not divide the 1 heads of queries"),
    ROW(keys_no_heads, OTA_EINVAL, "keys have 0 heads, which do not divide the 1 heads of queries"),
    ROW(pairs_many, OTA_EOVERFLOW, "8589934592 queries times 8589934592 keys overflow"),
    ROW(queries_many, OTA_EOVERFLOW, "288230376151711743 queries times 0 keys overflow"),
    ROW(keys_many, OTA_EOVERFLOW, "0 queries times 288230376151711743 keys overflow"),
    ROW(heads_many, OTA_EOVERFLOW, "3 queries times 4 keys overflow"),
    ROW(temperatures_one, OTA_OK, ""),
    ROW(temperatures_zero, OTA_EINVAL,
        "temperatures[0] is 0, wanted a finite number >= 2.22507e-308"),
    ROW(temperatures_infinite, OTA_EINVAL, "temperatures[0] is inf, wanted a finite number"),
    ROW(temperatures_negative, OTA_EINVAL, "temperatures has size -1 in dimension 3"),
    ROW(temperatures_narrow, OTA_EINVAL, "temperatures has type 4, wanted f64 or f32"),
    ROW(sink_infinite, OTA_EINVAL, "sink is inf, wanted a finite number or -inf"),
    ROW(alibi_nan, OTA_EINVAL, "alibi is nan, wanted a finite number"),
    ROW(scores_no_type, OTA_EINVAL, "scores has"),
    ROW(scale_infinite, OTA_EINVAL, "scale is -inf"),
    ROW(scale_nan, OTA_EINVAL, "scale is nan"),
    ROW(temperature_subnormal, OTA_EINVAL, "temperature is 1e-310, a subnormal number"),
    ROW(caps_infinite, OTA_OK, ""),
    ROW(temperature_negative, OTA_EINVAL, "temperature is -1, wanted a finite number > 0"),
    ROW(temperature_nan, OTA_EINVAL, "temperature is nan"),
    ROW(mass_type, OTA_EINVAL, "row_mass has type 5, wanted f64, f32, bf16 or f16"),
    ROW(mass_shape, OTA_EINVAL, "row_mass has shape [1, 1, 1, 4] where [1, 1, 1, 3] is needed"),
    ROW(mass_negative, OTA_EINVAL, "row_mass[1] is -1, wanted a finite number >= 0"),
    ROW(mass_nan, OTA_EINVAL, "row_mass[2] is nan, wanted a finite number >= 0"),
    ROW(rounds_low, OTA_EINVAL, "rounds is -2"),
    ROW(max_rounds_low, OTA_EINVAL, "max_rounds is -1"),
    ROW(anneal_negative, OTA_EINVAL, "anneal_start is -1"),
    ROW(anneal_nan, OTA_EINVAL, "anneal_start is nan"),
    ROW(anneal_factor, OTA_EINVAL, "anneal_factor is 1.5"),
    ROW(anneal_factor_nan, OTA_EINVAL, "anneal_factor is nan"),
    ROW(anneal_factor_low, OTA_EINVAL, "anneal_factor is -0.5"),
    ROW(anneal_rounds, OTA_EINVAL, "anneal_rounds is -3"),
    ROW(relaxation_low, OTA_EINVAL, "relaxation is -1"),
    ROW(relaxation_nan, OTA_EINVAL, "relaxation is nan"),
    ROW(center_high, OTA_EINVAL, "center is 9"),
    ROW(center_low, OTA_EINVAL, "center is -1"),
    ROW(precision_high, OTA_EINVAL, "precision is 9"),
    ROW(precision_low, OTA_EINVAL, "precision is -1"),
    ROW(scaling_low, OTA_EINVAL, "tolerance_scaling is -1"),
    ROW(scaling_nan, OTA_EINVAL, "tolerance_scaling is nan"),
    ROW(threads_low, OTA_EINVAL, "threads is -1"),
    ROW(threads_high, OTA_EINVAL, "threads is 4097"),
    ROW(executor_empty, OTA_EINVAL, "executor has no run and 2 threads"),
    ROW(executor_idle, OTA_EINVAL, "executor has run and 0 threads"),
    ROW(alone, OTA_OK, ""),
    ROW(ranks_none, OTA_EINVAL, "communicator has rank 0 of 0"),
    ROW(rank_low, OTA_EINVAL, "communicator has rank -1 of 1"),
    ROW(rank_high, OTA_EINVAL, "communicator has rank 1 of 1"),
    ROW(ranks_no_sum, OTA_EINVAL, "communicator has no all_reduce"),
    ROW(ranks_no_gather, OTA_EINVAL, "communicator has no all_gather"),
    ROW(ranks_no_size, OTA_EINVAL, "communicator.size"),
    ROW(shares_low, OTA_EINVAL, "communicator.shares is -1"),
    ROW(shares_high, OTA_EINVAL, "communicator.shares is 9"),
    ROW(course_low, OTA_EINVAL, "communicator.keys is -1"),
    ROW(course_high, OTA_EINVAL, "communicator.keys is 9"),
    ROW(alone_scores, OTA_EINVAL, "scores has no data"),
    ROW(caps_custom, OTA_UNSUPPORTED, "entry caps with a custom regulariser are refused"),
    ROW(caps_start, OTA_UNSUPPORTED, "entry caps with a fixed number of rounds are refused"),
    ROW(caps_end, OTA_UNSUPPORTED, "entry caps with a fixed number of rounds are refused"),
    ROW(cpu_unknown, OTA_EINVAL, "cpu is 'abacus', an unknown level"),
    ROW(cpu_long, OTA_EINVAL, "cpu is 'a level whose name is longer tha', an unknown level"),
    ROW(backend_long, OTA_EINVAL,
        "backend is 'a backend whose name is longer than any ', an unknown name"),
    ROW(solver_long, OTA_EINVAL,
        "solver is 'a solver whose name is longer than any t', an unknown name"),
    ROW(axis_unknown, OTA_EINVAL, "axis is 2"),
    ROW(start_unknown, OTA_EINVAL, "start is 7"),
    ROW(end_unknown, OTA_EINVAL, "end is 7"),
    ROW(backward_low, OTA_EINVAL, "backward is -1"),
    ROW(backward_high, OTA_EINVAL, "backward is 3"),
    ROW(cap_nan, OTA_EINVAL, "entry_cap is nan"),
    ROW(cap_negative, OTA_EINVAL, "entry_cap is -1"),
    ROW(caps_twice, OTA_EINVAL, "entry_cap is 1 and entry_caps are given too"),
    ROW(caps_type, OTA_EINVAL, "entry_caps has type 4, wanted f64 or f32"),
    ROW(caps_shape, OTA_EINVAL, "entry_caps has size 2 in dimension 2 where 3 or 1 is needed"),
    ROW(caps_data, OTA_EINVAL, "entry_caps has size -4 in dimension 0"),
    ROW(caps_zero, OTA_EINVAL, "entry_caps is 0 at [0, 0, 0, 3]"),
    ROW(caps_relaxed, OTA_UNSUPPORTED, "entry caps with relaxed rows are refused"),
    ROW(caps_columns, OTA_UNSUPPORTED, "entry caps with the columns axis are refused"),
    ROW(caps_prune, OTA_UNSUPPORTED, "entry caps with prune are refused"),
    ROW(caps_elastic, OTA_UNSUPPORTED, "entry caps with elastic columns are refused"),
    ROW(caps_fixed, OTA_UNSUPPORTED, "entry caps with a fixed number of rounds are refused"),
};

static void test_problems(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof problems / sizeof *problems; k++) {
        const problem_row *row = &problems[k];
        stage s;
        ota_plan *plan = NULL;
        ota_error error = {.message = ""};
        set(&s);
        row->spoil(&s);
        const ota_status status = ota_plan_create(&plan, &s.problem, 0, &s.options, &error);
        print_message("%s: %d %s\n", row->name, (int)status, error.message);
        assert_int_equal(status, row->status);
        assert_true((plan != NULL) == (status == OTA_OK));
        if (status != OTA_OK) assert_true(error.message[0] != '\0' && error.field[0] != '\0');
        assert_memory_equal(error.message, row->sentence, strlen(row->sentence));
        ota_plan_free(plan);
    }
}

/* ---- helpers ---- */

static void test_sentences_without_a_field(void **state) {
    (void)state;
    ota_error error;
    assert_int_equal(ota_fail(&error, OTA_EINVAL, NULL, NULL, "%s", "told"), OTA_EINVAL);
    assert_string_equal(error.message, "told");
    assert_true(error.field[0] == '\0' && error.hint[0] == '\0');
    ota_options options = {.size = sizeof options};
    stage s;
    set(&s);
    alone(&s);
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, NULL, 0, &s.options, &error), OTA_EINVAL);
    assert_string_equal(error.message, "problem is NULL");
    assert_int_equal(ota_plan_create(&plan, NULL, 0, &options, &error), OTA_EINVAL);
    assert_string_equal(error.message, "problem is NULL");
    const size_t length = strlen("softmax");
    assert_int_equal(ota_method_name(&s.problem, NULL, 0), length);
    char cut[4] = "xyz";
    assert_int_equal(ota_method_name(&s.problem, cut, 0), length);
    assert_string_equal(cut, "xyz");
    assert_int_equal(ota_method_name(&s.problem, cut, sizeof cut), length);
    assert_string_equal(cut, "sof");
}

static void test_elements_of_every_type(void **state) {
    (void)state;
    static const ota_type types[] = {OTA_F64, OTA_F32, OTA_BF16, OTA_F16, OTA_BOOL, OTA_I64};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        uint64_t room[2] = {0, 0};
        const ota_array a = ota_array_of(room, types[k], 1, 1, 1, 2);
        ota_array_set(&a, 0, 0, 0, 1, 1.0);
        assert_true(ota_array_get(&a, 0, 0, 0, 0) == 0.0 && ota_array_get(&a, 0, 0, 0, 1) == 1.0);
        ota_array_set(&a, 0, 0, 0, 0, -1.0);
        assert_true(ota_array_get(&a, 0, 0, 0, 0) == (types[k] == OTA_BOOL ? 1.0 : -1.0));
    }
    double kept = 7.0;
    const ota_array none = ota_array_of(&kept, OTA_NO_TYPE, 1, 1, 1, 1);
    ota_array_set(&none, 0, 0, 0, 0, 1.0);
    assert_true(kept == 7.0 && isnan(ota_array_get(&none, 0, 0, 0, 0)));
    assert_true(ota_type_bytes(OTA_NO_TYPE) == 0 && ota_type_bytes((ota_type)99) == 0);
}

/* Sizes and masses beyond what the flow counts in. */
static void test_flows_out_of_range(void **state) {
    (void)state;
    const int64_t most = INT32_MAX;
    const int64_t sizes[][2] = {{-1, 1},
                                {1, -1},
                                {most, 1},
                                {1, most},
                                {most - 2, 1},
                                {most - 2, most - 2},
                                {most / 2, most / 2 + 1}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        assert_true(ota_feasible_workspace(sizes[k][0], sizes[k][1]) == SIZE_MAX);
    const double large[2] = {DBL_MAX / 2, DBL_MAX / 2}, one[2] = {1, 1}, wrong[2] = {1, -1},
                 infinite[2] = {INFINITY, 1};
    const ota_masses masses[] = {{2, 2, large, one, false, 0},    {2, 2, one, large, false, 0},
                                 {2, 2, wrong, one, false, 0},    {2, 2, one, wrong, true, 0},
                                 {2, 2, infinite, one, false, 0}, {2, 2, one, infinite, false, 0}};
    for (size_t k = 0; k < sizeof masses / sizeof *masses; k++) {
        int64_t supply[2], demand[2];
        ota_units units;
        assert_int_equal(ota_units_of(&masses[k], supply, demand, &units), OTA_EINVAL);
    }
    const uint8_t support[1] = {1};
    const ota_feasible_problem problem = {.masses = {-1, 1, one, one, false, 0},
                                          .support = support};
    ota_feasible_counts counts;
    assert_int_equal(ota_feasible(&problem, NULL, NULL, &counts, NULL), OTA_EOVERFLOW);
}

/* Arrays of a later header are taken while nothing of it is set. */
static void test_arrays_of_a_later_header(void **state) {
    (void)state;
    stage s;
    set(&s);
    ota_plan *plan;
    ota_error error = {.message = ""};
    assert_int_equal(ota_plan_create(&plan, &s.problem, 0, &s.options, &error), OTA_OK);
    struct {
        ota_arrays arrays;
        unsigned char later[8];
    } newer = {.arrays = {.size = sizeof newer}};
    double coupling[N * M];
    newer.arrays.coupling = ota_array_of(coupling, OTA_F64, 1, 1, N, M);
    assert_int_equal(ota_forward(plan, &newer.arrays, NULL, &error), OTA_OK);
    newer.later[7] = 1;
    assert_int_equal(ota_forward(plan, &newer.arrays, NULL, &error), OTA_UNSUPPORTED);
    assert_non_null(strstr(error.message, "newer than this library, and a later field is set"));
    newer.later[7] = 0;
    const struct {
        int64_t stride;
        ota_status status;
        const char *sentence;
    } table[] = {{INT64_MIN, OTA_EOVERFLOW, "coupling spans more than 2^57 elements"},
                 {INT64_MAX, OTA_EOVERFLOW, "coupling spans more than 2^57 elements"},
                 {INT64_MAX / 8, OTA_EOVERFLOW, "coupling spans more than 2^57 elements"},
                 {-(INT64_MAX / 8), OTA_EOVERFLOW, "coupling spans more than 2^57 elements"},
                 {0, OTA_EINVAL, "coupling is an output with stride 0 in dimension 2"}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        newer.arrays.coupling.stride[2] = table[k].stride;
        assert_int_equal(ota_forward(plan, &newer.arrays, NULL, &error), table[k].status);
        assert_string_equal(error.message, table[k].sentence);
    }
    ota_plan_free(plan);
}

static void test_rotary_positions(void **state) {
    (void)state;
    double elements[4] = {1, 2, 3, 4};
    const ota_array good = ota_array_of(elements, OTA_F64, 1, 1, 1, 4);
    ota_array odd = good, negative = good, whole = good, absent = good;
    odd.size[3] = 3;
    negative.size[3] = -2;
    whole.type = OTA_I64;
    absent.type = OTA_NO_TYPE;
    const struct {
        const ota_array *x;
        double base;
        const char *sentence;
    } table[] = {{NULL, 0, "x is NULL"},
                 {&whole, 0, "x is not a floating-point array"},
                 {&absent, 0, "x is not a floating-point array"},
                 {&odd, 0, "x has the odd width 3"},
                 {&negative, 0, "x has size -2 in dimension 3"},
                 {&good, -1, "base is -1"},
                 {&good, NAN, "base is nan"},
                 {&good, INFINITY, "base is inf"}};
    ota_error error;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        assert_int_equal(ota_rope(table[k].x, 0, table[k].base, &error), OTA_EINVAL);
        assert_string_equal(error.message, table[k].sentence);
        assert_int_equal(ota_rope(table[k].x, 0, table[k].base, NULL), OTA_EINVAL);
    }
    assert_int_equal(ota_rope(&good, 5, 0, &error), OTA_OK);
    /* Pairs keep their length; the base 10000 is the standard. */
    assert_true(fabs(hypot(elements[0], elements[1]) - hypot(1, 2)) < 1e-15);
    assert_true(fabs(elements[2] - (3 * cos(5.0 / 100) - 4 * sin(5.0 / 100))) < 1e-15);
    assert_int_equal(ota_rope(&good, -5, 10000, &error), OTA_OK);
    for (int k = 0; k < 4; k++) assert_true(fabs(elements[k] - (k + 1)) < 1e-14);
}

TEST_FILE(test_refusals) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_method_arguments),
        cmocka_unit_test(test_method_of_older_callers),
        cmocka_unit_test(test_braces),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_elements_of_every_type),
        cmocka_unit_test(test_sentences_without_a_field),
        cmocka_unit_test(test_flows_out_of_range),
        cmocka_unit_test(test_arrays_of_a_later_header),
        cmocka_unit_test(test_rotary_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
