/* Small heads, one in a lane of the vectors: against the reference for every level, type, shape up to 16 x 16, mask, term
 * and mass; against the plan of one head at a time; and that a head's bits are its own, whatever its neighbours in the
 * group, the number of heads and the threads. */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_wrap.h"
#include "groups.h"
#include "judge_forward.h"
#include "scale.h"
#include "spec.h"

/* ---- against the reference ----------------------------------------------------------------------- */

static const double temperatures[] = {30.0, 1.0, 0.1, 0.03, 0.01, 0.001};
static const int64_t counts[] = {1, 3, 7, 16, 17, 33};
enum { TEMPERATURE_COUNT = 6, COUNTS = 6 };

static recipe vary(int which, uint64_t seed, bool fixed) {
    static const ota_type types[] = {OTA_F32, OTA_F64, OTA_BF16, OTA_F16};
    dice d = seed;
    recipe w = {.method = "softmax/exact", .seed = seed};
    w.matrix = below(&d, 3) > 0;
    w.width = 1 + below(&d, 70);
    w.rounds = fixed ? 1 + below(&d, 6) : 0;
    w.type = types[below(&d, 8) < 6 ? below(&d, 2) : below(&d, 4)];
    w.out_type = w.type;
    if (below(&d, 3) == 0) w.mask = (mask)below(&d, MASKS);
    if (below(&d, 3) == 0) w.added = (added)below(&d, ADDITIONS);
    w.temperature = temperatures[which];
    w.batch = counts[below(&d, COUNTS)];
    w.heads = w.key_heads = 1 + below(&d, 3);
    w.n = 1 + below(&d, 16);
    w.m = below(&d, 3) == 0 ? w.n : 1 + below(&d, 16);
    w.values_width = 1 + below(&d, 9);
    w.spread = 1.0;
    w.cost = w.matrix && below(&d, 2) == 0;
    w.row_mass = below(&d, 4) == 0;
    w.column_mass = below(&d, 4) == 0;
    if (!fixed) w.tolerance = w.type == OTA_F64 ? 1e-9 : 1e-5;
    return w;
}

static bool in_lanes(const ota_problem *problem, const ota_options *options) {
    char text[4096];
    ota_plan *plan;
    ota_error error;
    assert_int_equal(ota_plan_create(&plan, problem, 0, options, &error), OTA_OK);
    (void)ota_plan_describe(plan, text, sizeof text);
    ota_plan_free(plan);
    return on_other_backend() || strstr(text, "path: kernels in lanes (") != NULL;
}

static void judge_many(uint64_t seed, int most, bool fixed) {
    static drawn x;
    const int turns = most / test_step();
    int lanes = 0;
    worst_ratio = 0.0;
    for (int turn = 0; turn < turns * TEMPERATURE_COUNT; turn++) {
        const recipe w = vary(turn % TEMPERATURE_COUNT, seed + (uint64_t)turn, fixed);
        draw(&x, &w);
        expect(&x);
        lanes += in_lanes(&x.problem, &x.options);
        judge_every_level(&x);
        put_away(&x);
    }
    /* Sinks stay outside. */
    assert_true(lanes > turns * TEMPERATURE_COUNT * 3 / 4);
}

static void rounds_agree_with_the_reference(void **unused) {
    (void)unused;
    judge_many(4000, 30, true);
    spec_check("CETA-06 CETA-07 TOT-08", worst_ratio, 1.0);
}

static void tolerances_agree_with_the_reference(void **unused) {
    (void)unused;
    judge_many(5000, 12, false);
    spec_check("CETA-06 TOT-08", worst_ratio, 1.0);
}

/* ---- plain arrays -------------------------------------------------------------------------------- */

enum { MOST = 1000, SIDE = 17, WIDTH = 3, PAIRS = SIDE * SIDE };

typedef struct batch {
    int64_t heads, n, m;
    ota_type type;
    ota_problem problem;
    ota_options options;
    ota_result result;
    ota_status status;
    ota_error error;
    double scores[MOST * PAIRS], weights[MOST * PAIRS], values[MOST * SIDE * WIDTH];
    double out[MOST * SIDE * WIDTH], f[MOST * SIDE], g[MOST * SIDE], lse[MOST * SIDE];
    double receiver[MOST * SIDE], mu[MOST * SIDE], nu[MOST * SIDE];
    ota_head_result results[MOST];
} batch;

static batch one, other;

static void store(double *to, ota_type type, int64_t at, double x) {
    if (type == OTA_F64)
        to[at] = x;
    else
        ((float *)(void *)to)[at] = (float)x;
}

static double fetch(const double *from, ota_type type, int64_t at) {
    return type == OTA_F64 ? from[at] : (double)((const float *)(const void *)from)[at];
}

static void make(batch *t, ota_type type, int64_t heads, int64_t n, int64_t m, int64_t rounds) {
    dice d = (uint64_t)(n * 100 + m);
    memset(t, 0, sizeof *t);
    t->heads = heads;
    t->n = n;
    t->m = m;
    t->type = type;
    t->problem.size = sizeof t->problem;
    t->options.size = sizeof t->options;
    assert_int_equal(ota_method_parse("softmax/exact", &t->problem, &t->options, &t->error),
                     OTA_OK);
    for (int64_t k = 0; k < heads * n * m; k++) store(t->scores, type, k, normal(&d));
    for (int64_t k = 0; k < heads * m * WIDTH; k++) store(t->values, type, k, normal(&d));
    t->problem.scores = ota_array_of(t->scores, type, heads, 1, n, m);
    t->options.rounds = rounds;
    t->options.threads = 1;
}

/* Masses of sum n, `shut` of the keys without any. */
static void weigh(batch *t, int64_t shut) {
    dice d = 5;
    for (int64_t h = 0; h < t->heads; h++) {
        double rows = 0.0, columns = 0.0;
        for (int64_t i = 0; i < t->n; i++) rows += t->mu[h * t->n + i] = 0.1 + uniform(&d);
        for (int64_t j = shut; j < t->m; j++) columns += t->nu[h * t->m + j] = 0.1 + uniform(&d);
        /* Too little for a lane in f32. */
        if (shut > 0 && h == 3 && t->n > 1) {
            rows += 1e-25 - t->mu[h * t->n];
            t->mu[h * t->n] = 1e-25;
        }
        for (int64_t j = 0; j < t->m; j++) t->nu[h * t->m + j] *= rows / columns;
    }
    t->problem.row_mass = ota_array_of(t->mu, OTA_F64, t->heads, 1, 1, t->n);
    t->problem.column_mass = ota_array_of(t->nu, OTA_F64, t->heads, 1, 1, t->m);
}

static ota_arrays arrays_of(batch *t) {
    ota_arrays a = {.size = sizeof a};
    const int64_t h = t->heads, n = t->n, m = t->m;
    a.values = ota_array_of(t->values, t->type, h, 1, m, WIDTH);
    a.out = ota_array_of(t->out, t->type, h, 1, n, WIDTH);
    a.coupling = ota_array_of(t->weights, t->type, h, 1, n, m);
    a.row_potential = ota_array_of(t->f, OTA_F64, h, 1, 1, n);
    a.column_potential = ota_array_of(t->g, OTA_F64, h, 1, 1, m);
    a.lse = ota_array_of(t->lse, OTA_F64, h, 1, 1, n);
    a.receiver = ota_array_of(t->receiver, OTA_F64, h, 1, 1, m);
    a.heads = t->results;
    return a;
}

static void run(batch *t) {
    const ota_arrays a = arrays_of(t);
    t->result = (ota_result){.size = sizeof t->result};
    t->status = ota_attend(&t->problem, &t->options, &a, &t->result, &t->error);
}

/* The same problems one head at a time: a limit with no room for lanes. */
static void run_alone(batch *t) {
    const ota_arrays a = arrays_of(t);
    ota_plan *plan;
    char text[4096] = "";
    assert_int_equal(ota_plan_create(&plan, &t->problem, WIDTH, &t->options, &t->error), OTA_OK);
    size_t limit = ota_plan_bytes(plan);
    while (strstr(text, "path: stored kernel") == NULL) {
        ota_plan_free(plan);
        t->options.workspace_limit = limit -= 64;
        assert_int_equal(ota_plan_create(&plan, &t->problem, WIDTH, &t->options, &t->error),
                         OTA_OK);
        (void)ota_plan_describe(plan, text, sizeof text);
    }
    t->result = (ota_result){.size = sizeof t->result};
    t->status = ota_forward(plan, &a, &t->result, &t->error);
    ota_plan_free(plan);
}

static bool same_results(const ota_head_result *a, const ota_head_result *b) {
    return a->status == b->status && a->rounds == b->rounds &&
           memcmp(&a->row_error, &b->row_error, sizeof(double)) == 0 &&
           memcmp(&a->column_error, &b->column_error, sizeof(double)) == 0;
}

/* Every output of head x of `a` and head y of `b`, bit for bit. */
static bool same_head(const batch *a, int64_t x, const batch *b, int64_t y) {
    const size_t real = a->type == OTA_F64 ? 8 : 4;
    const size_t n = (size_t)a->n, m = (size_t)a->m, sx = (size_t)x, sy = (size_t)y;
    const struct {
        const double *left, *right;
        size_t bytes;
    } parts[] = {{a->weights, b->weights, n * m * real},
                 {a->out, b->out, n * WIDTH * real},
                 {a->f, b->f, n * 8},
                 {a->g, b->g, m * 8},
                 {a->lse, b->lse, n * 8},
                 {a->receiver, b->receiver, m * 8}};
    bool same = same_results(&a->results[x], &b->results[y]);
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        same &= memcmp((const char *)parts[k].left + sx * parts[k].bytes,
                       (const char *)parts[k].right + sy * parts[k].bytes, parts[k].bytes) == 0;
    return same;
}

/* One head of `t` as a batch of its own. */
static void take(batch *to, const batch *t, int64_t head) {
    const size_t real = t->type == OTA_F64 ? 8 : 4, h = (size_t)head;
    const size_t pairs = (size_t)(t->n * t->m) * real, values = (size_t)(t->m * WIDTH) * real;
    make(to, t->type, 1, t->n, t->m, t->options.rounds);
    to->options = t->options;
    memcpy(to->scores, (const char *)t->scores + h * pairs, pairs);
    memcpy(to->values, (const char *)t->values + h * values, values);
    if (t->problem.row_mass.data == NULL) return;
    memcpy(to->mu, t->mu + head * t->n, (size_t)t->n * sizeof(double));
    memcpy(to->nu, t->nu + head * t->m, (size_t)t->m * sizeof(double));
    to->problem.row_mass = ota_array_of(to->mu, OTA_F64, 1, 1, 1, t->n);
    to->problem.column_mass = ota_array_of(to->nu, OTA_F64, 1, 1, 1, t->m);
}

static const ota_type wide_and_narrow[] = {OTA_F32, OTA_F64};

/* Ragged groups, alone or together, and any number of threads: the same bits. */
static void neighbours_and_threads_change_no_bit(void **unused) {
    (void)unused;
    static const int64_t heads[] = {1, 3, 16, 17, MOST}, sides[][2] = {{4, 4}, {1, 1}, {16, 7}};
    for (int k = 0; k < 2 * 2 * 5 * 3; k++) {
        const int64_t count = heads[k / 4 % 5], n = sides[k / 20][0], m = sides[k / 20][1];
        make(&one, wide_and_narrow[k % 2], count, n, m, k / 2 % 2 == 0 ? 20 : 0);
        assert_true(in_lanes(&one.problem, &one.options));
        run(&one);
        assert_true(one.status >= OTA_OK);
        make(&other, one.type, count, n, m, one.options.rounds);
        other.options.threads = 2;
        run(&other);
        bool same = true;
        for (int64_t h = 0; h < count; h++) same &= same_head(&one, h, &other, h);
        for (int64_t h = 0; h < count; h += 1 + count / 9) {
            take(&other, &one, h);
            run(&other);
            same &= same_head(&one, h, &other, 0);
        }
        spec_check_true("TOT-111", same);
    }
}

/* Scores that no lane carries among heads that it does: they get the answer of a plan without lanes, and nobody
 * else a bit. */
static void bad_heads_disturb_nobody(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("lanes are the default backend's alone");
    enum { COUNT = 19, N = 5, M = 4 };
    static batch good;
    for (int k = 0; k < 4; k++) {
        make(&good, wide_and_narrow[k % 2], COUNT, N, M, k / 2 == 0 ? 7 : 0);
        run(&good);
        assert_true(good.status >= OTA_OK);
        make(&one, good.type, COUNT, N, M, good.options.rounds);
        store(one.scores, one.type, 2 * N * M + 3, NAN);
        store(one.scores, one.type, 3 * N * M + 7, INFINITY);
        for (int j = 0; j < M; j++) store(one.scores, one.type, 5 * N * M + j, -INFINITY);
        for (int j = 0; j < N * M; j++) {
            const double x = fetch(one.scores, one.type, 7 * N * M + j);
            store(one.scores, one.type, 7 * N * M + j, x - 1000.0 * (j % M));
            store(one.scores, one.type, 18 * N * M + j, x * 1e38);
        }
        memcpy(&other, &one, sizeof one);
        other.problem.scores.data = other.scores;
        run(&one);
        run_alone(&other);
        assert_int_equal(one.status, other.status);
        assert_string_equal(one.result.sentence, other.result.sentence);
        assert_int_equal(one.result.head, other.result.head);
        bool same = true;
        for (int64_t h = 0; h < COUNT; h++) {
            const bool bad = h == 2 || h == 3 || h == 5 || h == 7 || h == 18;
            const bool this = bad ? same_head(&one, h, &other, h) : same_head(&one, h, &good, h);
            if (!this) print_error("head %d of case %d\n", (int)h, k);
            same &= this;
        }
        spec_check_true("TOT-20", same);
        assert_true(one.results[2].status < OTA_OK && one.results[1].status >= OTA_OK);
    }
}

/* Lanes and one head at a time: the same rounds and the same plan but for rounding. */
static void lanes_agree_with_one_head_at_a_time(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("lanes are the default backend's alone");
    enum { COUNT = 21, ROUNDS = 20 };
    static const int64_t sides[][2] = {{1, 1}, {2, 5}, {4, 4}, {7, 3}, {8, 8}, {13, 16}, {16, 16}};
    double worst = 0.0;
    for (int k = 0; k < 7 * 2 * 3; k++) {
        const int64_t n = sides[k % 7][0], m = sides[k % 7][1];
        make(&one, wide_and_narrow[k / 7 % 2], COUNT, n, m, ROUNDS);
        make(&other, one.type, COUNT, n, m, ROUNDS);
        if (k / 14 > 0) {
            weigh(&one, m > 1 ? k / 14 - 1 : 0);
            weigh(&other, m > 1 ? k / 14 - 1 : 0);
        }
        run(&one);
        run_alone(&other);
        assert_int_equal(one.status, OTA_FIXED_ITERS);
        assert_int_equal(other.status, OTA_FIXED_ITERS);
        assert_int_equal(one.result.rounds, ROUNDS);
        /* A key that closes is absorbed there, which takes f64. */
        if (k / 14 < 2) assert_int_equal(one.result.promoted, other.result.promoted);
        const double u = unit_roundoff(one.type);
        for (int64_t e = 0; e < COUNT * n * m; e++) {
            const double p = fetch(one.weights, one.type, e), q = fetch(other.weights, one.type, e);
            /* Normal scores lie within 10 of each other. */
            const double allowed = 2.0 * q * u * (ROUNDS + 1) * (8.0 + score_growth(10.0));
            worst = fmax(worst, fabs(p - q) / fmax(allowed, smallest_step(one.type)));
        }
        for (int64_t h = 0; h < COUNT; h++) {
            const double apart = one.results[h].column_error - other.results[h].column_error;
            worst = fmax(worst, fabs(apart) / (u * (ROUNDS + 1) * (8.0 + score_growth(10.0))));
            for (int64_t j = 0; j < m; j++) {
                const double a = one.g[h * m + j], b = other.g[h * m + j];
                if (a <= -INFINITY && b <= -INFINITY) continue;
                worst = fmax(worst, fabs(a - b) / (u * (ROUNDS + 1) * (8.0 + score_growth(10.0))));
            }
        }
    }
    spec_check("CETA-06", worst, 1.0);
}

/* What met its tolerance did, judged from the weights; the head says in how many rounds of its own. */
static void tolerances_are_met(void **unused) {
    (void)unused;
    enum { COUNT = 50, N = 6, M = 9 };
    for (int k = 0; k < 2; k++) {
        make(&one, wide_and_narrow[k], COUNT, N, M, 0);
        one.options.tolerance = k == 0 ? 1e-5 : 1e-11;
        run(&one);
        assert_int_equal(one.status, OTA_OK);
        int64_t least = INT64_MAX, most = 0;
        double worst = 0.0;
        for (int64_t h = 0; h < COUNT; h++) {
            double error = 0.0;
            for (int64_t j = 0; j < M; j++) {
                double sum = -(double)N / (double)M;
                for (int64_t i = 0; i < N; i++)
                    sum += fetch(one.weights, one.type, (h * N + i) * M + j);
                error += fabs(sum) / (double)N;
            }
            worst = fmax(worst, error / one.options.tolerance);
            least = one.results[h].rounds < least ? one.results[h].rounds : least;
            most = one.results[h].rounds > most ? one.results[h].rounds : most;
        }
        spec_check("TOT-08", worst, 1.0);
        assert_true(least < most && most < 150);
        assert_int_equal(one.result.rounds, most);
    }
    /* Where f32 cannot promise it, f64 does. */
    make(&one, OTA_F32, COUNT, N, M, 0);
    one.options.tolerance = 1e-6;
    run(&one);
    assert_int_equal(one.status, OTA_OK);
    assert_int_equal(one.result.promoted, 1);
}

/* ---- the choice ---------------------------------------------------------------------------------- */

static void the_plan_says_when(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("lanes are the default backend's alone");
    make(&one, OTA_F32, 1, 16, 16, 3);
    assert_true(in_lanes(&one.problem, &one.options));
    /* Gradients change no bit of forward. */
    one.options.gradients = 1;
    assert_true(in_lanes(&one.problem, &one.options));
    make(&one, OTA_F32, 40, 17, 4, 3);
    assert_false(in_lanes(&one.problem, &one.options));
    make(&one, OTA_F64, 40, 4, 17, 3);
    assert_false(in_lanes(&one.problem, &one.options));
    make(&one, OTA_F64, 40, 4, 4, 0);
    assert_true(in_lanes(&one.problem, &one.options));
    ota_term sink = {.kind = OTA_TERM_SINK, .value = 0.5};
    one.problem.terms = &sink;
    one.problem.term_count = 1;
    for (int64_t k = 0; k < 40 * 4; k++) one.nu[k] = 0.5;
    one.problem.column_mass = ota_array_of(one.nu, OTA_F64, 40, 1, 1, 4);
    assert_false(in_lanes(&one.problem, &one.options));
    make(&one, OTA_F64, 40, 4, 4, 3);
    assert_int_equal(ota_method_parse("softmax/relaxed:1", &one.problem, &one.options, &one.error),
                     OTA_OK);
    assert_false(in_lanes(&one.problem, &one.options));
    /* Elastic columns in full steps are Sinkhorn's rounds. */
    static const char *const elastic[] = {"softmax/elastic:1,3", "softmax/elastic:0.5,3"};
    for (int k = 0; k < 2; k++) {
        make(&other, OTA_F64, 40, 5, 4, 0);
        assert_int_equal(ota_method_parse(elastic[k], &other.problem, &other.options, &other.error),
                         OTA_OK);
        assert_int_equal(in_lanes(&other.problem, &other.options), k == 0);
    }
}

/* ... bit for bit. */
static void full_steps_are_exact_rounds(void **unused) {
    (void)unused;
    make(&one, OTA_F64, 40, 8, 8, 3);
    make(&other, OTA_F64, 40, 8, 8, 0);
    assert_int_equal(
        ota_method_parse("softmax/elastic:1,3", &other.problem, &other.options, &other.error),
        OTA_OK);
    run(&one);
    run(&other);
    bool same = true;
    for (int64_t h = 0; h < 40; h++) same &= same_head(&one, h, &other, h);
    spec_check_true("ELA-09", same);
}

/* ---- bytes before a plan ------------------------------------------------------------------------ */

static int reduce_nothing(void *user, void *values, int64_t count, ota_type type,
                          ota_reduction reduction) {
    (void)user, (void)values, (void)count, (void)type, (void)reduction;
    return 0;
}

static void measured_plans_are_made(void **state) {
    (void)state;
    static const char *const methods[] = {"softmax", "entmax:1.5/exact", "softmax/exact",
                                          "hard/capped:2", "softmax/exact{rounds=3}"};
    static double numbers[64 * 8];
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        for (int gradients = 0; gradients < 2 && k != 3; gradients++) {
            ota_problem problem = {.size = sizeof problem};
            ota_options options = {.size = sizeof options, .threads = 2, .gradients = gradients};
            ota_error error;
            ota_plan *plan;
            size_t bytes = 7;
            assert_int_equal(ota_method_parse(methods[k], &problem, &options, NULL), OTA_OK);
            problem.queries = problem.keys = ota_array_of(numbers, OTA_F64, 1, 2, 20, 8);
            assert_int_equal(ota_plan_measure(&problem, 8, &options, &bytes, NULL), OTA_OK);
            assert_int_equal(ota_plan_create(&plan, &problem, 8, &options, NULL), OTA_OK);
            assert_int_equal(bytes, ota_plan_bytes(plan));
            ota_plan_free(plan);
            /* What a limit leaves, and the least where nothing fits. */
            size_t least = 0;
            options.workspace_limit = 1;
            assert_int_equal(ota_plan_measure(&problem, 8, &options, &least, &error), OTA_ELIMIT);
            assert_true(least > 0);
            /* It is the least limit that is kept. */
            options.workspace_limit = least - 1;
            assert_int_equal(ota_plan_create(&plan, &problem, 8, &options, NULL), OTA_ELIMIT);
            options.workspace_limit = least;
            assert_int_equal(ota_plan_create(&plan, &problem, 8, &options, NULL), OTA_OK);
            assert_int_equal(ota_plan_bytes(plan), least);
            ota_plan_free(plan);
            options.workspace_limit = bytes;
            assert_int_equal(ota_plan_measure(&problem, 8, &options, &least, NULL), OTA_OK);
            assert_true(least <= bytes);
            problem.keys.size[3] = 7;
            assert_int_equal(ota_plan_measure(&problem, 8, &options, &least, &error), OTA_EINVAL);
            assert_int_equal(least, 0);
        }
    }
    const ota_communicator alone = {.size = sizeof alone, .ranks = 1, .all_reduce = reduce_nothing};
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(numbers, OTA_F64, 1, 1, 8, 8)};
    const ota_options options = {.size = sizeof options, .communicator = &alone};
    size_t bytes;
    assert_int_equal(ota_plan_measure(&problem, 0, &options, &bytes, NULL), OTA_UNSUPPORTED);
    assert_int_equal(ota_plan_measure(&problem, 0, NULL, NULL, NULL), OTA_EINVAL);
}

TEST_FILE(test_tiny) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_agree_with_the_reference),
        cmocka_unit_test(tolerances_agree_with_the_reference),
        cmocka_unit_test(neighbours_and_threads_change_no_bit),
        cmocka_unit_test(bad_heads_disturb_nobody),
        cmocka_unit_test(lanes_agree_with_one_head_at_a_time),
        cmocka_unit_test(tolerances_are_met),
        cmocka_unit_test(the_plan_says_when),
        cmocka_unit_test(full_steps_are_exact_rounds),
        cmocka_unit_test(measured_plans_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
