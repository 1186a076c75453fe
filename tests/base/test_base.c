/* test_base.c: src/base/: sizes and arena, thread pool (every index once, nesting, executor, fork,
 * modes, signals), CPU levels, cgroup quota, clock, status words. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "groups.h"
#include "spec.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#endif

/* ---- sizes and arena ------------------------------------------------------------------------ */

static void test_sizes_refuse_overflow(void **state) {
    (void)state;
    size_t result = 7;
    assert_true(ota_size_mul(3, 5, &result));
    assert_int_equal(result, 15);
    assert_false(ota_size_mul(SIZE_MAX / 2 + 1, 2, &result));
    assert_false(ota_size_add(SIZE_MAX, 1, &result));
    assert_int_equal(result, 15);
    assert_true(ota_size_add(SIZE_MAX - 1, 1, &result));
    assert_true(result == SIZE_MAX);

    /* A zero makes the product zero in whatever order the sizes come. */
    const int64_t zero_last[] = {(int64_t)1 << 40, (int64_t)1 << 40, 0};
    const int64_t zero_first[] = {0, (int64_t)1 << 40, (int64_t)1 << 40};
    const int64_t huge[] = {(int64_t)1 << 40, (int64_t)1 << 40, 1};
    const int64_t negative[] = {0, -1};
    assert_true(ota_size_product(zero_last, 3, &result));
    assert_int_equal(result, 0);
    assert_true(ota_size_product(zero_first, 3, &result));
    assert_false(ota_size_product(huge, 3, &result));
    assert_false(ota_size_product(negative, 2, &result));
}

/* ---- texts of others ------------------------------------------------------------------------ */

static void test_texts_of_others_are_made_plain(void **state) {
    (void)state;
    static const char *const table[][2] = {
        {"", ""},
        {"plain \u00E9 \u4E2D \U0001F600", "plain \u00E9 \u4E2D \U0001F600"},
        {"a\nb\x1B[31m\x7F", "a?b?[31m?"},
        {"\xC2\x85\u00AD\u061C\u200B\u200F", "?????"},
        {"\u2027\u2028\u202E\u202F\u2065\u2066", "\u2027??\u202F\u2065?"},
        {"\uFEFFx\U000E0001\U000E0020\U000E0080", "?x??\U000E0080"},
        {"\xC3", "?"},
        {"\xE2\x80", "??"},
        {"\xE2\x80x", "??x"},
        {"\x80\xBF\xF8\xFF", "????"},
        {"\xC0\x80\xE0\x9F\xBF\xF0\x8F\xBF\xBF", "?????????"},
        {"\xED\x9F\xBF\xED\xA0\x80", "\xED\x9F\xBF???"},
        {"\xF4\x8F\xBF\xBF\xF4\x90\x80\x80", "\xF4\x8F\xBF\xBF????"},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", table[k][0]);
        ota_text_plain(text);
        assert_string_equal(text, table[k][1]);
    }
}

static void test_arena_measures_what_it_places(void **state) {
    (void)state;
    static const size_t counts[] = {3, 0, 17, 64, 1};
    ota_arena arena = {0};
    for (int i = 0; i < 5; i++) assert_null(ota_arena_take(&arena, counts[i], 8));
    assert_false(ota_arena_overflowed(&arena));
    size_t measured = arena.used;
    assert_int_equal(measured, 64 + 0 + 192 + 512 + 64);

    assert_int_equal(ota_arena_allocate(&arena), OTA_OK);
    unsigned char *before = NULL;
    for (int i = 0; i < 5; i++) {
        unsigned char *piece = ota_arena_take(&arena, counts[i], 8);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % 64, 0);
        assert_true(piece >= before);
        memset(piece, i, counts[i] * 8); /* the address sanitizer watches the end */
        before = piece;
    }
    assert_int_equal(arena.used, measured);
    assert_false(ota_arena_overflowed(&arena));
    assert_null(ota_arena_take(&arena, 1, 1));
    assert_true(ota_arena_overflowed(&arena));
    ota_arena_release(&arena);
    ota_arena_release(&arena);
    assert_null(arena.base);
}

static void test_arena_refuses_overflow(void **state) {
    (void)state;
    ota_arena arena = {0};
    ota_arena_take(&arena, SIZE_MAX / 4, 8);
    assert_true(ota_arena_overflowed(&arena));
    assert_int_equal(ota_arena_allocate(&arena), OTA_EOVERFLOW);

    ota_arena sum = {0};
    ota_arena_take(&sum, SIZE_MAX / 2, 1);
    assert_false(ota_arena_overflowed(&sum));
    ota_arena_take(&sum, SIZE_MAX / 2, 1);
    ota_arena_take(&sum, 64, 1);
    assert_true(ota_arena_overflowed(&sum));

    ota_arena rounding = {0};
    ota_arena_take(&rounding, SIZE_MAX, 1); /* rounding up to 64 would wrap to 0 */
    assert_true(ota_arena_overflowed(&rounding));

    ota_arena too_much = {0};
    ota_arena_take(&too_much, SIZE_MAX - 64, 1);
    assert_int_equal(ota_arena_allocate(&too_much), OTA_EOVERFLOW);
}

/* ---- threads -------------------------------------------------------------------------------- */

enum { INDICES = 1000 };

typedef struct visits {
    ota_pool *pool;
    _Atomic int runs[INDICES];
    _Atomic int busy[64]; /* bodies under this number at this moment */
    _Atomic int defects;
    _Atomic int nested;
    int threads;
} visits;

static void count_index(void *context, int64_t index, int worker) {
    visits *self = context;
    if (worker < 0 || worker >= self->threads || worker >= 64) {
        atomic_fetch_add(&self->defects, 1);
        return;
    }
    if (atomic_fetch_add(&self->busy[worker], 1) != 0) atomic_fetch_add(&self->defects, 1);
    atomic_fetch_add(&self->runs[index], 1);
    atomic_fetch_sub(&self->busy[worker], 1);
}

static void assert_each_index_ran(visits *self, int64_t count, int times) {
    assert_int_equal(atomic_load(&self->defects), 0);
    for (int64_t i = 0; i < INDICES; i++) {
        assert_int_equal(atomic_load(&self->runs[i]), i < count ? times : 0);
    }
}

static void test_parallel_runs_each_index_once(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 3, 8, 33};
    static const int64_t counts[] = {0, 1, 2, 3, 7, INDICES};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        ota_pool *pool;
        assert_int_equal(ota_pool_create(&pool, threads[t], NULL), OTA_OK);
        assert_int_equal(ota_pool_threads(pool), threads[t]);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            visits self = {.pool = pool, .threads = threads[t]};
            for (int repeat = 0; repeat < 20; repeat++) {
                ota_parallel(pool, counts[c], count_index, &self);
            }
            assert_each_index_ran(&self, counts[c], 20);
        }
        ota_pool_free(pool);
    }
}

static void test_parallel_without_a_pool_runs_inline(void **state) {
    (void)state;
    visits self = {.threads = 1};
    ota_parallel(NULL, 10, count_index, &self);
    assert_each_index_ran(&self, 10, 1);
    assert_int_equal(ota_pool_threads(NULL), 1);
    ota_pool_free(NULL);
}

static void test_pool_refuses_bad_arguments(void **state) {
    (void)state;
    ota_pool *pool = (ota_pool *)state;
    ota_executor empty = {0};
    assert_int_equal(ota_pool_create(&pool, -1, NULL), OTA_EINVAL);
    assert_null(pool);
    assert_int_equal(ota_pool_create(&pool, OTA_THREADS_MAX + 1, NULL), OTA_EINVAL);
    assert_int_equal(ota_pool_create(&pool, 1, &empty), OTA_EINVAL);
    assert_int_equal(ota_pool_create(&pool, 0, NULL), OTA_OK);
    assert_true(ota_pool_threads(pool) >= 1 && ota_pool_threads(pool) <= ota_processors());
    ota_pool_free(pool);
}

typedef struct nest {
    ota_pool *pool;
    int outer;
    _Atomic int wrong;
    _Atomic int inner_runs;
} nest;

typedef struct nest_call {
    nest *shared;
    int worker;
    pthread_t thread;
} nest_call;

static void inner_body(void *context, int64_t index, int worker) {
    nest_call *call = context;
    (void)index;
    if (worker != call->worker || !pthread_equal(call->thread, pthread_self())) {
        atomic_fetch_add(&call->shared->wrong, 1);
    }
    atomic_fetch_add(&call->shared->inner_runs, 1);
}

static void outer_body(void *context, int64_t index, int worker) {
    nest *shared = context;
    (void)index;
    nest_call call = {.shared = shared, .worker = worker, .thread = pthread_self()};
    ota_parallel(shared->pool, 5, inner_body, &call);
}

static void test_nested_calls_run_inline(void **state) {
    (void)state;
    nest shared = {0};
    assert_int_equal(ota_pool_create(&shared.pool, 4, NULL), OTA_OK);
    ota_parallel(shared.pool, 200, outer_body, &shared);
    assert_int_equal(atomic_load(&shared.wrong), 0);
    assert_int_equal(atomic_load(&shared.inner_runs), 1000);
    ota_pool_free(shared.pool);
}

static void *call_from_thread(void *argument) {
    visits *self = argument;
    for (int repeat = 0; repeat < 10; repeat++) ota_parallel(self->pool, 100, count_index, self);
    return NULL;
}

static void test_callers_at_once_wait_for_each_other(void **state) {
    (void)state;
    visits self = {.threads = 3};
    pthread_t threads[4];
    assert_int_equal(ota_pool_create(&self.pool, 3, NULL), OTA_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_from_thread, &self), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_each_index_ran(&self, 100, 40);
    ota_pool_free(self.pool);
}

typedef struct crew {
    int64_t count;
    void (*body)(void *context, int64_t index, int worker);
    void *context;
    _Atomic int64_t next;
    _Atomic int numbers;
} crew;

static void *crew_main(void *argument) {
    crew *self = argument;
    int number = atomic_fetch_add(&self->numbers, 1);
    for (;;) {
        int64_t index = atomic_fetch_add(&self->next, 1);
        if (index >= self->count) return NULL;
        self->body(self->context, index, number);
    }
}

static void run_on_crew(void *user, int64_t count,
                        void (*body)(void *context, int64_t index, int worker), void *context) {
    pthread_t threads[2];
    crew self = {.count = count, .body = body, .context = context};
    ++*(int *)user;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, crew_main, &self);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void test_executor_replaces_own_threads(void **state) {
    (void)state;
    int runs = 0;
    ota_executor executor = {.run = run_on_crew, .user = &runs, .threads = 2};
    ota_pool *pool;
    assert_int_equal(ota_pool_create(&pool, 7, &executor), OTA_OK);
    assert_int_equal(ota_pool_threads(pool), 2);
    visits self = {.pool = pool, .threads = 2};
    ota_parallel(pool, 300, count_index, &self);
    assert_each_index_ran(&self, 300, 1);
    assert_int_equal(runs, 1);

    nest shared = {.pool = pool};
    ota_parallel(pool, 40, outer_body, &shared);
    assert_int_equal(atomic_load(&shared.wrong), 0);
    assert_int_equal(atomic_load(&shared.inner_runs), 200);
    assert_int_equal(runs, 2);
    ota_pool_free(pool);
}

/* Each index waits until the other ran too, so that both threads of a pool of two must work. */
typedef struct meeting {
    _Atomic int arrived, alone; /* alone: waited in vain */
    int upward[2];              /* rounding as the arithmetic itself shows it */
    int blocked[2];
    pthread_t caller;
} meeting;

static void meet(void *context, int64_t index, int worker) {
    meeting *self = context;
    (void)worker;
    sigset_t mask;
    atomic_fetch_add(&self->arrived, 1);
    int64_t deadline = ota_now_ns() + 15000000000;
    while (atomic_load(&self->arrived) < 2 && ota_now_ns() < deadline) usleep(100);
    if (atomic_load(&self->arrived) < 2) atomic_fetch_add(&self->alone, 1);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    volatile double one = 1, tiny = 1e-30;
    self->upward[index] = one + tiny > 1;
    self->blocked[index] =
        pthread_equal(pthread_self(), self->caller) || sigismember(&mask, SIGINT);
}

static void test_modes_and_signals_of_workers(void **state) {
    (void)state;
    ota_pool *pool;
    assert_int_equal(ota_pool_create(&pool, 2, NULL), OTA_OK);
    meeting upward = {.caller = pthread_self()};
    fesetround(FE_UPWARD);
    ota_parallel(pool, 2, meet, &upward);
    int still = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(still, FE_UPWARD);
    assert_int_equal(atomic_load(&upward.arrived), 2);
    assert_int_equal(atomic_load(&upward.alone), 0);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(upward.upward[0] && upward.upward[1]);
#endif
    assert_true(upward.blocked[0] && upward.blocked[1]);

    meeting plain = {.caller = pthread_self()};
    ota_parallel(pool, 2, meet, &plain);
    assert_int_equal(atomic_load(&plain.alone), 0);
    assert_false(plain.upward[0] || plain.upward[1]);
    ota_pool_free(pool);
}

static void test_pool_works_in_a_forked_child(void **state) {
    (void)state;
#ifdef UNDER_THREAD_SANITIZER
    skip_because("the thread sanitizer ends every child that starts threads after a fork");
#endif
    ota_pool *pool;
    assert_int_equal(ota_pool_create(&pool, 3, NULL), OTA_OK);
    visits parent = {.pool = pool, .threads = 3};
    ota_parallel(pool, 50, count_index, &parent);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20);
        meeting both = {.caller = pthread_self()};
        ota_parallel(pool, 2, meet, &both);
        visits self = {.pool = pool, .threads = 3};
        ota_parallel(pool, 400, count_index, &self);
        int wrong = atomic_load(&both.arrived) != 2 || atomic_load(&both.alone) != 0 ||
                    atomic_load(&self.defects) != 0;
        for (int i = 0; i < 400; i++) wrong |= atomic_load(&self.runs[i]) != 1;
        ota_pool_free(pool);
        _exit(wrong);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);

    child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* freeing without ever using it must not wait for threads that are gone */
        alarm(20);
        ota_pool_free(pool);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    ota_parallel(pool, 50, count_index, &parent);
    assert_each_index_ran(&parent, 50, 2);
    ota_pool_free(pool);
}

/* ---- CPUs ----------------------------------------------------------------------------------- */

static void write_text(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void test_cgroup_quota(void **state) {
    (void)state;
    char root[] = "/tmp/otattn-cgroup-XXXXXX";
    char membership[64];
    assert_non_null(mkdtemp(root));
    snprintf(membership, sizeof membership, "%s/self", root);
    make_folder(root, "a");
    make_folder(root, "a/b");

    assert_int_equal(ota_cgroup_cpus(membership, root), 0); /* no such file */
    write_text(root, "self", "0::/a/b\n");
    assert_int_equal(ota_cgroup_cpus(membership, root), 0);
    write_text(root, "a/b/cpu.max", "max 100000\n");
    assert_int_equal(ota_cgroup_cpus(membership, root), 0);
    write_text(root, "a/cpu.max", "250000 100000\n"); /* the parent's limit binds */
    assert_int_equal(ota_cgroup_cpus(membership, root), 3);
    write_text(root, "a/b/cpu.max", "50000 100000\n");
    assert_int_equal(ota_cgroup_cpus(membership, root), 1);
    write_text(root, "a/b/cpu.max", "800000 100000\n");
    assert_int_equal(ota_cgroup_cpus(membership, root), 3);
    write_text(root, "cpu.max", "200000 100000\n"); /* so does the root's */
    assert_int_equal(ota_cgroup_cpus(membership, root), 2);
    write_text(root, "cpu.max", "nonsense\n");
    write_text(root, "a/cpu.max", "-5 0\n");
    assert_int_equal(ota_cgroup_cpus(membership, root), 8);

    make_folder(root, "cpu,cpuacct");
    make_folder(root, "cpu,cpuacct/a");
    write_text(root, "self", "5:memory:/x\n4:cpu,cpuacct:/a\n");
    write_text(root, "cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_text(root, "cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ota_cgroup_cpus(membership, root), 0);
    write_text(root, "cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n");
    write_text(root, "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ota_cgroup_cpus(membership, root), 4);

    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
    assert_true(ota_processors() >= 1);
}

static void test_cpu_levels(void **state) {
    (void)state;
    static const char *const names[] = {"portable", "avx2", "avx512", "avx512bf16", "amx", "neon"};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ota_cpu_level(names[i]), i);
        assert_string_equal(ota_cpu_level_name(i), names[i]);
    }
    assert_int_equal(ota_cpu_level("sse9"), -1);
    assert_int_equal(ota_cpu_level(""), -1);
    assert_null(ota_cpu_level_name(6));
    assert_null(ota_cpu_level_name(-1));
    assert_int_equal(ota_cpu_level_features(0), 0);
    /* Each x86 level needs all that the one before it needs. */
    for (int i = 1; i < 4; i++) {
        unsigned before = ota_cpu_level_features(i - 1);
        assert_int_equal(ota_cpu_level_features(i) & before, before);
    }
    assert_int_equal(ota_cpu_level_features(4) & ota_cpu_level_features(2),
                     ota_cpu_level_features(2));
    unsigned features = ota_cpu_features();
    assert_int_equal(features, ota_cpu_features());
    for (unsigned wanted = 0; wanted < 32; wanted++)
        assert_int_equal(ota_cpu_has(wanted), (wanted & ~features) == 0);
#if defined(__x86_64__)
    assert_int_equal((features & OTA_CPU_AVX2) != 0,
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal((features & OTA_CPU_AVX512) != 0,
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
    assert_int_equal(features & OTA_CPU_NEON, 0);
#endif
}

static void test_integers(void **state) {
    (void)state;
    for (int64_t a = 0; a < 40; a++) {
        for (int64_t b = 1; b < 12; b++) {
            assert_int_equal(ota_int_ceil_div(a, b), (a + b - 1) / b);
            assert_int_equal(ota_int_round_up(a, b), (a + b - 1) / b * b);
            assert_int_equal(ota_size_round_up((size_t)a, (size_t)b), (a + b - 1) / b * b);
        }
    }
    assert_int_equal(ota_int_ceil_div(INT64_MAX, 2), (int64_t)1 << 62);
    assert_int_equal(ota_int_min(-3, 2), -3);
    assert_int_equal(ota_int_max(-3, 2), 2);
    assert_int_equal(ota_size_min(SIZE_MAX, 2), 2);
    assert_true(ota_size_max(SIZE_MAX, 2) == SIZE_MAX);
}

static int64_t read_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void test_clock_goes_forward(void **state) {
    (void)state;
    const int64_t low = read_monotonic(), read = ota_now_ns(), high = read_monotonic();
    assert_true(low <= read && read <= high);
    int64_t before = ota_now_ns();
    usleep(2000);
    int64_t passed = ota_now_ns() - before;
    assert_true(passed >= 2000000 && passed < 60000000000);
}

/* ---- status --------------------------------------------------------------------------------- */

static void test_status_words(void **state) {
    (void)state;
    static const struct {
        ota_status status;
        const char *word;
    } table[] = {
        {OTA_OK, "ok"},
        {OTA_FIXED_ITERS, "fixed_iters"},
        {OTA_PARTIAL, "partial"},
        {OTA_NONFINITE_ROWS, "nonfinite_rows"},
        {OTA_EINVAL, "invalid"},
        {OTA_EALIAS, "invalid"},
        {OTA_EALIGN, "invalid"},
        {OTA_UNSUPPORTED, "unsupported"},
        {OTA_ENOMEM, "no_memory"},
        {OTA_ELIMIT, "limit"},
        {OTA_NOT_CONVERGED, "not_converged"},
        {OTA_INFEASIBLE, "infeasible"},
        {OTA_TOL_UNREACHABLE, "tolerance_unreachable"},
        {OTA_NONFINITE, "nonfinite"},
        {OTA_NOT_DIFFERENTIABLE, "not_differentiable"},
        {OTA_EFORMAT, "bad_file"},
        {OTA_ETRUNC, "bad_file"},
        {OTA_EMISMATCH, "mismatch"},
        {OTA_EIO, "io"},
        {OTA_EPATH, "io"},
        {OTA_UNSOLVED, "unsolved"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_string_equal(ota_status_word(table[i].status), table[i].word);
    }
    for (int status = OTA_EINTERNAL; status <= OTA_NONFINITE_ROWS; status++) {
        assert_string_not_equal(ota_status_word((ota_status)status), "unknown");
        size_t length = strlen(ota_status_text((ota_status)status));
        assert_true(length > 10 && ota_status_text((ota_status)status)[length - 1] == '.');
    }
    assert_string_equal(ota_status_word((ota_status)12345), "unknown");
    assert_string_equal(ota_version(), OTA_VERSION_STRING);
}

TEST_FILE(test_base) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_refuse_overflow),
        cmocka_unit_test(test_texts_of_others_are_made_plain),
        cmocka_unit_test(test_arena_measures_what_it_places),
        cmocka_unit_test(test_arena_refuses_overflow),
        cmocka_unit_test(test_parallel_runs_each_index_once),
        cmocka_unit_test(test_parallel_without_a_pool_runs_inline),
        cmocka_unit_test(test_pool_refuses_bad_arguments),
        cmocka_unit_test(test_nested_calls_run_inline),
        cmocka_unit_test(test_callers_at_once_wait_for_each_other),
        cmocka_unit_test(test_executor_replaces_own_threads),
        cmocka_unit_test(test_modes_and_signals_of_workers),
        cmocka_unit_test(test_pool_works_in_a_forked_child),
        cmocka_unit_test(test_cgroup_quota),
        cmocka_unit_test(test_cpu_levels),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_clock_goes_forward),
        cmocka_unit_test(test_status_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
