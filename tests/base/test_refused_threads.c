/* test_refused_threads.c: the pool where memory or threads are refused, and the count of CPUs on machines with long affinity
 * masks and control groups of every form. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "groups.h"
#include "refused_memory.h"
#include "refused_threads.h"

/* ---- pools --------------------------------------------------------------------------------------- */

enum { INDICES = 200 };

typedef struct counts {
    _Atomic int runs[INDICES];
    _Atomic int largest; /* of the workers' numbers */
} counts;

static void count(void *context, int64_t index, int worker) {
    counts *t = context;
    atomic_fetch_add(&t->runs[index], 1);
    int seen = atomic_load(&t->largest);
    while (worker > seen && !atomic_compare_exchange_weak(&t->largest, &seen, worker)) {
    }
}

static void expect_work(ota_pool *pool, int threads) {
    counts t = {.largest = 0};
    assert_int_equal(ota_pool_threads(pool), threads);
    ota_parallel(pool, INDICES, count, &t);
    for (int k = 0; k < INDICES; k++) assert_int_equal(atomic_load(&t.runs[k]), 1);
    assert_true(atomic_load(&t.largest) < threads);
}

/* A pool of the threads that there are: none but the caller's is enough. */
static void threads_that_are_refused(void **state) {
    (void)state;
    for (int left = 0; left <= 4; left++) {
        ota_pool *pool;
        threads_left = left;
        threads_refused = 0;
        assert_int_equal(ota_pool_create(&pool, 4, NULL), OTA_OK);
        threads_left = -1;
        assert_int_equal(threads_refused, left < 3);
        expect_work(pool, left < 3 ? left + 1 : 4);
        ota_pool_free(pool);
    }
}

static void run_here(void *user, int64_t indices,
                     void (*body)(void *context, int64_t index, int worker), void *context) {
    (void)user;
    for (int64_t k = 0; k < indices; k++) body(context, k, 0);
}

static void memory_that_is_refused(void **state) {
    (void)state;
    const ota_executor own = {.run = run_here, .threads = 3};
    for (int k = 0; k < 2; k++) {
        for (int place = 0;; place++) {
            ota_pool *pool = (ota_pool *)state;
            const int before = held;
            refuse_after(place);
            const ota_status status = ota_pool_create(&pool, 3, k == 0 ? NULL : &own);
            allow_all();
            if (refused == 0) {
                assert_int_equal(status, OTA_OK);
                expect_work(pool, 3);
                ota_pool_free(pool);
                assert_int_equal(held, before);
                assert_true(place >= 3);
                break;
            }
            assert_int_equal(status, OTA_ENOMEM);
            assert_null(pool);
            assert_int_equal(held, before);
        }
    }
}

static void executors_of_no_threads(void **state) {
    (void)state;
    static const struct {
        int threads;
        bool runs;
        ota_status status;
    } table[] = {{0, true, OTA_EINVAL},
                 {OTA_THREADS_MAX + 1, true, OTA_EINVAL},
                 {2, false, OTA_EINVAL},
                 {OTA_THREADS_MAX, true, OTA_OK}};
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        const ota_executor own = {.run = table[k].runs ? run_here : NULL,
                                  .threads = table[k].threads};
        ota_pool *pool;
        assert_int_equal(ota_pool_create(&pool, 1, &own), table[k].status);
        if (table[k].status == OTA_OK) expect_work(pool, OTA_THREADS_MAX);
        ota_pool_free(pool);
    }
}

/* ---- arenas -------------------------------------------------------------------------------------- */

static void arenas_that_are_refused(void **state) {
    (void)state;
    ota_arena arena = {0};
    const int before = held;
    (void)ota_arena_take(&arena, 100, 8);
    refuse_after(0);
    assert_int_equal(ota_arena_allocate(&arena), OTA_ENOMEM);
    allow_all();
    assert_null(arena.base);
    /* Nothing is lost: the same arena is placed once there is memory. */
    assert_int_equal(ota_arena_allocate(&arena), OTA_OK);
    assert_non_null(ota_arena_take_rows(&arena, 10, 10, 8));
    assert_null(ota_arena_take_rows(&arena, INT64_MAX, 4, 8));
    assert_true(ota_arena_overflowed(&arena));
    assert_null(ota_arena_take_rows(&arena, 0, 1, 8));
    ota_arena_release(&arena);
    assert_int_equal(held, before);
    /* Of no bytes, and of more than a large page. */
    assert_int_equal(ota_arena_allocate(&arena), OTA_OK);
    assert_non_null(ota_arena_take(&arena, 0, 8));
    ota_arena_release(&arena);
    (void)ota_arena_take(&arena, (size_t)5 << 20, 1);
    assert_int_equal(ota_arena_allocate(&arena), OTA_OK);
    memset(ota_arena_take(&arena, (size_t)5 << 20, 1), 7, (size_t)5 << 20);
    assert_false(ota_arena_overflowed(&arena));
    ota_arena_release(&arena);
    assert_int_equal(held, before);
}

/* ---- CPUs ---------------------------------------------------------------------------------------- */

/* The kernel refuses masks that are shorter than its own. */
static void long_affinity_masks(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        int cpus, counted;
    } table[] = {{128, 3, 3},  {129, 3, 3},  {512, 5, 5}, {2048, 4, 4},
                 {8192, 7, 7}, {8193, 7, 1}, {128, 0, 1}};
    const int quota = ota_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        mask_bytes = table[k].bytes;
        mask_cpus = table[k].cpus;
        const int found = ota_processors();
        mask_bytes = 0;
        assert_int_equal(found, quota == 0 || table[k].counted < quota ? table[k].counted : quota);
    }
}

static void write_text(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

/* A control group /a/b; NULL: no such file. */
typedef struct group {
    const char *membership;
    const char *folder; /* where its files lie below the mount */
    const char *max, *quota, *period;
    int cpus;
} group;

static const group groups[] = {
    {"0::/a/b\n", "a/b", "250000 100000\n", NULL, NULL, 3},
    {"0::/a/b", "a/b", "250000 100000", NULL, NULL, 3},
    {"0::/a/b\n", "a/b", "max 100000\n", NULL, NULL, 0},
    {"0::/a/b\n", "a/b", "250000\n", NULL, NULL, 0},
    {"0::/a/b\n", "a/b", "0 100000\n", NULL, NULL, 0},
    {"0::/a/b\n", "a/b", "100000 0\n", NULL, NULL, 0},
    {"0::/a/b\n", "a/b", "100000 -1\n", NULL, NULL, 0},
    {"0::/a/b\n", "a/b", "9000000000000000000 1\n", NULL, NULL, INT_MAX},
    {"0::/a/b\n", "a/b", "", NULL, NULL, 0},
    {"0::/a/b\n", "a/b", "", "400000\n", "100000\n", 4},
    {"0::/\n", "", "100001 100000\n", NULL, NULL, 2},
    {"", "a/b", "250000 100000\n", NULL, NULL, 0},
    {"nonsense\n0:\n0::/a/b\n", "a/b", "250000 100000\n", NULL, NULL, 3},
    {"3:cpu:/a\n", "cpu/a", NULL, "150000\n", "100000\n", 2},
    {"3:cpu,cpuacct:/a\n", "cpu,cpuacct/a", NULL, "150000\n", "100000\n", 2},
    {"3:cpuacct,cpu,io:/a\n", "cpuacct,cpu,io/a", NULL, "150000\n", "100000\n", 2},
    {"3:cpuset:/a\n", "cpuset/a", NULL, "150000\n", "100000\n", 0},
    {"3:cpu:/a\n", "cpu/a", NULL, "-1\n", "100000\n", 0},
    {"3:cpu:/a\n", "cpu/a", NULL, "150000\n", NULL, 0},
    {"3:cpu:/a\n", "cpu/a", NULL, NULL, "100000\n", 0},
    {"3:cpu:/a\n", "cpu/a", NULL, "much\n", "100000\n", 0},
    {"3:cpu:/a\n", "cpu/a", NULL, "150000\n", "long\n", 0},
};

static void control_groups(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++) {
        const group *g = &groups[k];
        char root[] = "/tmp/otattn-groups-XXXXXX", place[256], command[PATH_MAX];
        assert_non_null(mkdtemp(root));
        (void)snprintf(place, sizeof place, "%s/mount/%s", root, g->folder);
        (void)snprintf(command, sizeof command, "mkdir -p '%s'", place);
        assert_int_equal(system(command), 0);
        write_text(root, "membership", g->membership);
        if (g->max != NULL) write_text(place, "cpu.max", g->max);
        if (g->quota != NULL) write_text(place, "cpu.cfs_quota_us", g->quota);
        if (g->period != NULL) write_text(place, "cpu.cfs_period_us", g->period);
        char membership[256], mount[256];
        (void)snprintf(membership, sizeof membership, "%s/membership", root);
        (void)snprintf(mount, sizeof mount, "%s/mount", root);
        const int found = ota_cgroup_cpus(membership, mount);
        (void)snprintf(command, sizeof command, "rm -r '%s'", root);
        assert_int_equal(system(command), 0);
        if (found != g->cpus) fail_msg("group %d: %d CPUs, wanted %d", (int)k, found, g->cpus);
    }
}

/* Names that are longer than a path may be are no group's, and do not run over. */
static void groups_of_long_names(void **state) {
    (void)state;
    static char mount[2 * PATH_MAX], text[2 * PATH_MAX];
    char file[] = "/tmp/otattn-group-XXXXXX";
    const int handle = mkstemp(file);
    assert_true(handle >= 0);
    (void)close(handle);
    static const char *const forms[] = {"0::/", "3:cpu:/"};
    for (int form = 0; form < 2; form++) {
        /* Groups and mounts that leave room for a file's name, for a part of it, for none. */
        for (int length = PATH_MAX - 40; length < PATH_MAX + 20; length++) {
            for (int part = 0; part < 2; part++) {
                FILE *out = fopen(file, "w");
                assert_non_null(out);
                memset(text, 'g', sizeof text);
                text[part == 0 ? length : 4] = '\0';
                (void)fprintf(out, "%s%s\n", forms[form], text);
                (void)fclose(out);
                memset(mount, 'm', sizeof mount);
                mount[0] = '/';
                mount[part == 1 ? length : 4] = '\0';
                assert_int_equal(ota_cgroup_cpus(file, mount), 0);
            }
        }
    }
    assert_int_equal(unlink(file), 0);
}

TEST_FILE(test_refused_threads) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_are_refused), cmocka_unit_test(memory_that_is_refused),
        cmocka_unit_test(executors_of_no_threads),  cmocka_unit_test(arenas_that_are_refused),
        cmocka_unit_test(long_affinity_masks),      cmocka_unit_test(control_groups),
        cmocka_unit_test(groups_of_long_names),
    };
    return cmocka_run_group_tests_name("refused_threads", tests, NULL, NULL);
}
