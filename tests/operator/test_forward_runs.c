/* How forward runs: the same bits for any threads, executor, batch place, alignment and repeat; no
 * allocation; cancel, deadline and progress; fork; memory of long softmax; decoding with a cache. */
#define _GNU_SOURCE /* mmap, mallinfo2, wait4 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "backend_wrap.h"
#include "base/base.h"
#include "groups.h"
#include "problems.h"
#include "scale.h"
#include "spec.h"

static const char *const methods[] = {
    "softmax",         "entmax:1.5",          "entmax:3",           "argmax",
    "softmax/exact",   "softmax/relaxed:0.7", "softmax/capped:1.5", "softmax/elastic:0.3,4",
    "sparsemax/exact", "entmax:1.5/capped:2", "hard/exact",         "hard/capped:1.5",
    "softmax/prefix",  "softmax/online:2",    "hard/online:2",      "entmax:1.5/online:2"};
enum { METHODS = (int)(sizeof methods / sizeof methods[0]) };

static recipe plain(const char *method, ota_type type) {
    const bool slow = strstr(method, "prefix") != NULL || strstr(method, "sparsemax/") != NULL;
    return (recipe){.method = method,
                    .type = type,
                    .out_type = type,
                    .batch = 2,
                    .heads = 4,
                    .key_heads = 2,
                    .n = slow ? 14 : 130,
                    .m = slow ? 17 : 197,
                    .width = 24,
                    .values_width = 17,
                    .spread = 1.0,
                    .seed = 11};
}

/* ---- comparing bits ------------------------------------------------------------------------------ */

static void store(const ota_array *a, double *to) {
    int64_t at = 0;
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t r = 0; r < a->size[2]; r++) {
                for (int64_t c = 0; c < a->size[3]; c++) to[at++] = ota_array_get(a, b, h, r, c);
            }
        }
    }
}

static size_t count_of(const ota_array *a) {
    return (size_t)(a->size[0] * a->size[1] * a->size[2] * a->size[3]);
}

/* Every output of a run, widened: widening is exact, so equal bytes mean equal bits. */
typedef struct copy {
    double *numbers;
    size_t count;
} copy;

static copy copy_of(const drawn *x) {
    const ota_arrays *a = &x->arrays;
    const ota_array *const all[] = {
        &a->out,      &a->coupling,    &a->row_potential, &a->column_potential, &a->lse,
        &a->receiver, &a->row_entropy, &a->row_support,   &a->row_max,          &a->sink};
    copy c = {NULL, 0};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) c.count += count_of(all[k]);
    c.numbers = malloc(c.count * sizeof(double));
    assert_non_null(c.numbers);
    size_t at = 0;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        store(all[k], c.numbers + at);
        at += count_of(all[k]);
    }
    return c;
}

static bool same_bits(copy a, copy b) {
    return a.count == b.count && memcmp(a.numbers, b.numbers, a.count * sizeof(double)) == 0;
}

static void check_same(const drawn *x, copy first, const char *what) {
    const copy now = copy_of(x);
    size_t apart = 0;
    while (apart < now.count && memcmp(&now.numbers[apart], &first.numbers[apart], 8) == 0) apart++;
    if (!same_bits(first, now)) {
        print_error("bits differ: %s, at number %zu: %.17g and %.17g\n", what, apart,
                    first.numbers[apart], now.numbers[apart]);
        print_recipe(x);
        fail();
    }
    free(now.numbers);
}

/* ---- threads, executor, repeat, alignment -------------------------------------------------------- */

/* Backwards and under the wrong-looking worker numbers: nothing may depend on either. */
static void backwards(void *user, int64_t count,
                      void (*body)(void *context, int64_t index, int worker), void *context) {
    for (int64_t k = count; k-- > 0;) body(context, k, (int)(k % *(int *)user));
}

static void threads_change_no_bit(void **unused) {
    (void)unused;
    static drawn x, again;
    static const int counts[] = {2, 3, 7};
    int workers = 5;
    const ota_executor executor = {backwards, &workers, workers};
    for (int k = 0; k < METHODS; k += test_step()) {
        for (int wide = 0; wide < 2; wide++) {
            const recipe w = plain(methods[k], wide ? OTA_F64 : OTA_F32);
            draw(&x, &w);
            const ota_status status = solve(&x);
            const copy first = copy_of(&x);
            for (size_t q = 0; q < sizeof counts / sizeof counts[0]; q++) {
                clear_outputs(&x, &x.arrays);
                x.options.threads = counts[q];
                assert_int_equal(solve(&x), status);
                check_same(&x, first, "threads");
            }
            clear_outputs(&x, &x.arrays);
            x.options.executor = &executor;
            assert_int_equal(solve(&x), status);
            check_same(&x, first, "executor");
            /* drawn anew: other addresses, other alignment, same numbers */
            draw(&again, &w);
            assert_int_equal(solve(&again), status);
            check_same(&again, first, "repeat");
            put_away(&again);
            /* densely stored instead of strided */
            free(first.numbers);
            put_away(&x);
        }
    }
    spec_check_true("TOT-111 TOT-20", true);
}

/* One head of a batch alone gives the bits that it has among the others. */
static void place_in_the_batch_changes_no_bit(void **unused) {
    (void)unused;
    static drawn x;
    for (int k = 0; k < METHODS; k++) {
        const recipe w = plain(methods[k], k % 2 == 0 ? OTA_F32 : OTA_F64);
        draw(&x, &w);
        const ota_status status = solve(&x);
        const int64_t b = 1, h = 3, key_head = 1;
        ota_problem one = x.problem;
        ota_arrays arrays = {.size = sizeof arrays, .values = x.arrays.values};
        ota_array *const inputs[] = {&one.queries, &one.keys, &arrays.values};
        for (size_t q = 0; q < 3; q++) {
            ota_array *a = inputs[q];
            const int64_t head = q == 0 ? h : key_head;
            a->data = (char *)a->data +
                      (b * a->stride[0] + head * a->stride[1]) * (int64_t)ota_type_bytes(a->type);
            a->size[0] = a->size[1] = 1;
        }
        double *out = malloc((size_t)(w.n * w.values_width) * sizeof *out);
        double *p = malloc((size_t)(w.n * w.m) * sizeof *p);
        assert_non_null(out);
        assert_non_null(p);
        arrays.out = ota_array_of(out, OTA_F64, 1, 1, w.n, w.values_width);
        arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, w.n, w.m);
        ota_options options = x.options;
        options.threads = 2;
        assert_int_equal(ota_attend(&one, &options, &arrays, NULL, &x.error), status);
        for (int64_t i = 0; i < w.n; i++) {
            for (int64_t j = 0; j < w.m; j++) {
                const double batched = ota_array_get(&x.arrays.coupling, b, h, i, j);
                if (memcmp(&batched, &p[i * w.m + j], sizeof batched) != 0) print_recipe(&x);
                assert_memory_equal(&batched, &p[i * w.m + j], sizeof batched);
            }
            for (int64_t v = 0; v < w.values_width && x.want.out_type == OTA_F64; v++) {
                const double batched = ota_array_get(&x.arrays.out, b, h, i, v);
                assert_memory_equal(&batched, &out[i * w.values_width + v], sizeof batched);
            }
        }
        free(out);
        free(p);
        put_away(&x);
    }
    spec_check_true("TOT-111", true);
}

/* ---- memory -------------------------------------------------------------------------------------- */

static void forward_allocates_nothing(void **unused) {
    (void)unused;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("the sanitizer's allocator keeps no such count");
#else
    static drawn x;
    for (int k = 0; k < METHODS; k++) {
        const recipe w = plain(methods[k], OTA_F32);
        draw(&x, &w);
        x.options.threads = 2;
        ota_plan *plan = NULL;
        assert_int_equal(ota_plan_create(&plan, &x.problem, w.values_width, &x.options, &x.error),
                         OTA_OK);
        assert_true(ota_plan_bytes(plan) > 0);
        const struct mallinfo2 before = mallinfo2();
        assert_true(ota_forward(plan, &x.arrays, &x.result, &x.error) >= 0);
        const struct mallinfo2 after = mallinfo2();
        assert_int_equal(after.uordblks, before.uordblks);
        assert_int_equal(after.hblkhd, before.hblkhd);
        /* and the plan's own count is what it took */
        ota_plan_free(plan);
        const struct mallinfo2 freed = mallinfo2();
        assert_true(freed.uordblks <= before.uordblks);
        put_away(&x);
    }
#endif
}

/* n = 65,536 queries and keys of width 1 in a child of its own, whose peak is read by the parent. */
static void long_softmax_stays_small(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("four thousand million pairs are for kernels");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("sanitizers have memory of their own");
#else
    enum { LONG = 65536 };
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static float q[LONG], k[LONG], v[LONG], o[LONG];
        dice d = 5;
        for (int i = 0; i < LONG; i++) {
            q[i] = (float)normal(&d);
            k[i] = (float)normal(&d);
            v[i] = 1.0f;
        }
        ota_problem problem = {.size = sizeof problem};
        problem.queries = ota_array_of(q, OTA_F32, 1, 1, LONG, 1);
        problem.keys = ota_array_of(k, OTA_F32, 1, 1, LONG, 1);
        ota_arrays arrays = {.size = sizeof arrays};
        arrays.values = ota_array_of(v, OTA_F32, 1, 1, LONG, 1);
        arrays.out = ota_array_of(o, OTA_F32, 1, 1, LONG, 1);
        int wrong = ota_attend(&problem, NULL, &arrays, NULL, NULL) != OTA_OK;
        /* weights sum to 1 for any n */
        for (int i = 0; i < LONG; i++) wrong |= !(fabs((double)o[i] - 1.0) <= 8.0 * 0x1p-24);
        _exit(wrong);
    }
    int state = 0;
    struct rusage used;
    assert_int_equal(wait4(child, &state, 0, &used), child);
    assert_true(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    spec_check("TOT-112", (double)used.ru_maxrss / 1024.0, 200.0);
#endif
}

/* ---- cancel, deadline, progress ------------------------------------------------------------------ */

static void all_nan(const drawn *x) {
    const copy c = copy_of(x);
    for (size_t k = 0; k < c.count; k++) {
        if (!isnan(c.numbers[k])) print_recipe(x);
        assert_true(isnan(c.numbers[k]));
    }
    free(c.numbers);
}

static void cancel_and_deadline_stop(void **unused) {
    (void)unused;
    static drawn x;
    static const int now = 1, never = 0, unread = 2;
    for (int k = 0; k < METHODS; k++) {
        const recipe w = plain(methods[k], OTA_F32);
        draw(&x, &w);
        x.options.cancel = &now;
        assert_int_equal(solve(&x), OTA_CANCELLED);
        assert_int_equal(x.result.status, OTA_CANCELLED);
        all_nan(&x);
        x.options.cancel = &never;
        x.options.deadline_ns = 1;
        memset(&x.error, 0, sizeof x.error);
        assert_int_equal(solve(&x), OTA_TIMEOUT);
        assert_true(x.error.message[0] != '\0');
        all_nan(&x);
        x.options.deadline_ns = ota_now_ns() + (int64_t)600 * 1000000000;
        assert_true(solve(&x) >= 0);
        /* Of a caller who reads no outputs they stay. */
        const copy before = copy_of(&x);
        x.options.cancel = &unread;
        assert_int_equal(solve(&x), OTA_CANCELLED);
        const copy after = copy_of(&x);
        assert_memory_equal(before.numbers, after.numbers, before.count * sizeof *before.numbers);
        free(before.numbers);
        free(after.numbers);
        put_away(&x);
    }
}

/* More rounds than a lifetime has time for, of heads that lanes of vectors could hold, and of larger ones. */
static void deadlines_end_endless_rounds(void **unused) {
    (void)unused;
    static drawn x;
    for (int k = 0; k < 4; k++) {
        recipe w = plain("softmax/exact", k % 2 == 0 ? OTA_F32 : OTA_F64);
        w.n = w.m = k < 2 ? 3 : 40;
        w.rounds = INT64_C(1) << 40;
        draw(&x, &w);
        x.options.deadline_ns = ota_now_ns() + 50000000;
        assert_int_equal(solve(&x), OTA_TIMEOUT);
        all_nan(&x);
        put_away(&x);
    }
}

/* A deadline is a moment, a plan serves many calls. */
static void plans_take_another_deadline(void **unused) {
    (void)unused;
    static drawn x;
    const recipe w = plain("softmax/exact", OTA_F32);
    draw(&x, &w);
    x.options.deadline_ns = 1;
    ota_plan *plan = NULL;
    assert_int_equal(ota_plan_create(&plan, &x.problem, w.values_width, &x.options, &x.error),
                     OTA_OK);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(ota_forward(plan, &x.arrays, &x.result, &x.error), OTA_TIMEOUT);
        ota_plan_set_deadline(plan, k == 0 ? 0 : ota_now_ns() + (int64_t)600 * 1000000000);
        assert_int_equal(ota_forward(plan, &x.arrays, &x.result, &x.error), OTA_OK);
        ota_plan_set_deadline(plan, 1);
    }
    ota_plan_free(plan);
    put_away(&x);
}

typedef struct witness {
    int64_t calls, heads_done, heads, rounds;
    int cancel, inside;
} witness;

static void watch(void *user, const ota_progress *progress) {
    witness *w = user;
    assert_int_equal(__atomic_fetch_add(&w->inside, 1, __ATOMIC_SEQ_CST), 0);
    w->calls++;
    if (progress->heads_done > w->heads_done) w->heads_done = progress->heads_done;
    w->heads = progress->heads;
    if (progress->round > w->rounds) w->rounds = progress->round;
    __atomic_fetch_sub(&w->inside, 1, __ATOMIC_SEQ_CST);
}

static void stop_after_three(void *user, const ota_progress *progress) {
    witness *w = user;
    watch(user, progress);
    if (w->calls >= 3) __atomic_store_n(&w->cancel, 1, __ATOMIC_RELAXED);
}

static void progress_is_told(void **unused) {
    (void)unused;
    static drawn x;
    for (int k = 0; k < METHODS; k++) {
        witness w = {0};
        const recipe want = plain(methods[k], OTA_F64);
        draw(&x, &want);
        x.options.threads = 1;
        x.options.progress = watch;
        x.options.progress_user = &w;
        assert_true(solve(&x) >= 0);
        assert_int_equal(w.heads_done, 8);
        assert_int_equal(w.heads, 8);
        put_away(&x);
    }
    witness w = {0};
    recipe want = plain("softmax/exact", OTA_F64);
    want.rounds = 50;
    draw(&x, &want);
    x.options.progress = stop_after_three;
    x.options.progress_user = &w;
    x.options.cancel = &w.cancel;
    assert_int_equal(solve(&x), OTA_CANCELLED);
    assert_true(w.rounds > 0);
    put_away(&x);
}

/* ---- fork ---------------------------------------------------------------------------------------- */

static void a_plan_works_in_a_forked_child(void **unused) {
    (void)unused;
#if defined(__SANITIZE_THREAD__)
    skip_because("the thread sanitizer does not follow forks of threaded programs");
#else
    static drawn x;
    const recipe w = plain("softmax/exact", OTA_F32);
    draw(&x, &w);
    x.options.threads = 3;
    ota_plan *plan = NULL;
    assert_int_equal(ota_plan_create(&plan, &x.problem, w.values_width, &x.options, &x.error),
                     OTA_OK);
    assert_int_equal(ota_forward(plan, &x.arrays, &x.result, &x.error), OTA_OK);
    const copy first = copy_of(&x);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        clear_outputs(&x, &x.arrays);
        const ota_status status = ota_forward(plan, &x.arrays, &x.result, &x.error);
        const copy now = copy_of(&x);
        _exit(status == OTA_OK && same_bits(first, now) ? 0 : 1);
    }
    int state = 0;
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    clear_outputs(&x, &x.arrays);
    assert_int_equal(ota_forward(plan, &x.arrays, &x.result, &x.error), OTA_OK);
    check_same(&x, first, "after a fork");
    free(first.numbers);
    ota_plan_free(plan);
    put_away(&x);
#endif
}

/* ---- decode -------------------------------------------------------------------------------------- */

enum { CAPACITY = 40, STEP = 3, WIDTH = 6, VALUES = 5 };

/* The whole sequence under a causal mask against the same sequence in steps; single steps need no mask,
 * because later keys do not exist yet. */
static void decode_matches(const char *method, int64_t step, bool masked) {
    static double q[2][CAPACITY][WIDTH], k[2][CAPACITY][WIDTH], v[2][CAPACITY][VALUES];
    static double cached_k[2][CAPACITY][WIDTH], cached_v[2][CAPACITY][VALUES];
    static double whole[2][CAPACITY][VALUES], part[2][STEP][VALUES], rest[2][CAPACITY];
    dice d = 99;
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < CAPACITY; i++) {
            for (int w = 0; w < WIDTH; w++) q[h][i][w] = normal(&d), k[h][i][w] = normal(&d);
            for (int w = 0; w < VALUES; w++) v[h][i][w] = normal(&d);
        }
    }
    const ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};
    ota_problem problem = {.size = sizeof problem, .supports = &causal, .support_count = 1};
    ota_options options = {.size = sizeof options, .threads = 1};
    ota_error error;
    assert_int_equal(ota_method_parse(method, &problem, &options, &error), OTA_OK);
    const int64_t length = CAPACITY - CAPACITY % STEP;
    problem.queries = ota_array_of(q, OTA_F64, 1, 2, length, WIDTH);
    problem.keys = ota_array_of(k, OTA_F64, 1, 2, length, WIDTH);
    problem.queries.stride[1] = problem.keys.stride[1] = CAPACITY * WIDTH;
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = ota_array_of(v, OTA_F64, 1, 2, length, VALUES);
    arrays.out = ota_array_of(whole, OTA_F64, 1, 2, length, VALUES);
    arrays.values.stride[1] = arrays.out.stride[1] = CAPACITY * VALUES;
    assert_int_equal(ota_attend(&problem, &options, &arrays, NULL, &error), OTA_OK);
    /* the plan of a cache; what it does not hold yet is NaN and must not be looked at */
    memset(cached_k, 0xff, sizeof cached_k);
    memset(cached_v, 0xff, sizeof cached_v);
    memset(rest, 0xff, sizeof rest);
    problem.corner = OTA_BOTTOM_RIGHT;
    problem.support_count = masked;
    problem.queries.size[2] = step;
    problem.keys = ota_array_of(cached_k, OTA_F64, 1, 2, CAPACITY, WIDTH);
    arrays.values = ota_array_of(cached_v, OTA_F64, 1, 2, CAPACITY, VALUES);
    arrays.out = ota_array_of(part, OTA_F64, 1, 2, step, VALUES);
    arrays.out.stride[1] = STEP * VALUES;
    const bool online = problem.columns == OTA_COLUMNS_ONLINE;
    if (online) arrays.remaining = ota_array_of(rest, OTA_F64, 1, 2, 1, CAPACITY);
    ota_plan *plan = NULL;
    assert_int_equal(ota_plan_create(&plan, &problem, VALUES, &options, &error), OTA_OK);
    double worst = 0.0;
    for (int64_t at = 0; at + step <= length; at += step) {
        for (int h = 0; h < 2; h++) {
            memcpy(cached_k[h][at], k[h][at], (size_t)step * sizeof k[h][at]);
            memcpy(cached_v[h][at], v[h][at], (size_t)step * sizeof v[h][at]);
        }
        problem.queries.data = &q[0][at][0];
        assert_int_equal(ota_plan_rebind(plan, &problem, &error), OTA_OK);
        if (online) {
            assert_int_equal(ota_decode_capacity(plan, &arrays.remaining, at, at + step, &error),
                             OTA_OK);
        }
        assert_int_equal(ota_decode(plan, &arrays, at + step, NULL, &error), OTA_OK);
        for (int h = 0; h < 2; h++) {
            for (int64_t i = 0; i < step; i++) {
                for (int w = 0; w < VALUES; w++) {
                    const double apart = fabs(part[h][i][w] - whole[h][at + i][w]);
                    if (!(apart <= worst)) worst = apart;
                }
            }
        }
    }
    spec_check("DER-23 CETA-26", worst, 64.0 * 0x1p-53 * (double)CAPACITY);
    assert_int_equal(ota_decode(plan, &arrays, step - 1, NULL, &error), OTA_EINVAL);
    assert_string_equal(error.field, "key_count");
    assert_int_equal(ota_decode(plan, &arrays, CAPACITY + 1, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_decode(NULL, &arrays, step, NULL, &error), OTA_EINVAL);
    arrays.remaining = (ota_array){0};
    if (online) assert_int_equal(ota_decode(plan, &arrays, step, NULL, &error), OTA_EINVAL);
    ota_plan_free(plan);
}

static void decoding_is_the_whole_sequence_in_steps(void **unused) {
    (void)unused;
    static const char *const open[] = {
        "softmax",        "entmax:1.5", "argmax", "softmax/online:1.5", "entmax:1.5/online:1.5",
        "hard/online:1.5"};
    for (size_t k = 0; k < sizeof open / sizeof open[0]; k++) {
        decode_matches(open[k], STEP, true);
        decode_matches(open[k], 1, true);
        decode_matches(open[k], 1, false);
    }
}

static void coupled_columns_cannot_be_decoded(void **unused) {
    (void)unused;
    static const char *const shut[] = {"softmax/exact", "softmax/elastic:0.5,2", "softmax/prefix",
                                       "hard/exact", "softmax/elastic:0,2"};
    static double x[CAPACITY * WIDTH], out[CAPACITY * WIDTH];
    for (size_t k = 0; k < sizeof shut / sizeof shut[0]; k++) {
        ota_problem problem = {.size = sizeof problem};
        ota_error error;
        assert_int_equal(ota_method_parse(shut[k], &problem, NULL, &error), OTA_OK);
        problem.queries = ota_array_of(x, OTA_F64, 1, 1, STEP, WIDTH);
        problem.keys = ota_array_of(x, OTA_F64, 1, 1, CAPACITY, WIDTH);
        ota_arrays arrays = {.size = sizeof arrays};
        arrays.values = ota_array_of(x, OTA_F64, 1, 1, CAPACITY, WIDTH);
        arrays.out = ota_array_of(out, OTA_F64, 1, 1, STEP, WIDTH);
        ota_plan *plan = NULL;
        assert_int_equal(ota_plan_create(&plan, &problem, WIDTH, NULL, &error), OTA_OK);
        assert_int_equal(ota_decode(plan, &arrays, CAPACITY, NULL, &error), OTA_UNSUPPORTED);
        assert_string_equal(error.field, "columns");
        ota_plan_free(plan);
    }
}

TEST_FILE(test_forward_runs) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(place_in_the_batch_changes_no_bit),
        cmocka_unit_test(forward_allocates_nothing),
        cmocka_unit_test(long_softmax_stays_small),
        cmocka_unit_test(cancel_and_deadline_stop),
        cmocka_unit_test(deadlines_end_endless_rounds),
        cmocka_unit_test(plans_take_another_deadline),
        cmocka_unit_test(progress_is_told),
        cmocka_unit_test(a_plan_works_in_a_forked_child),
        cmocka_unit_test(decoding_is_the_whole_sequence_in_steps),
        cmocka_unit_test(coupled_columns_cannot_be_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
