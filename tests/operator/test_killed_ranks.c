/* test_killed_ranks.c: ranks that are processes, of which one is killed: before, halfway through or after any of its messages,
 * by itself or by another at any moment, or stopped, so that it answers no more and only the time-out tells. The others
 * return; what they have is either the bits of a run in which nobody was killed, or NaN with OTA_ECOMM; they have no memory
 * mapped that other processes share, and as many open files as before.
 *
 * 20 kills, times OTATTN_TEST_SCALE; OTATTN_KILLS_SEED draws others. */
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "scale.h"
#include "sockets.h"

static dice dice_state;

enum { HEADS = 2, N = 23, WIDTH = 5, NUMBERS = HEADS * N * WIDTH, KILLS = 20 };

/* How a rank is lost; by another: at any moment, which may lie in the middle of its work. */
typedef enum kill_kind { BEFORE, HALFWAY, AFTER, BY_ANOTHER, STOPPED, KINDS } kill_kind;

static const char *const kind_names[KINDS] = {"before a message", "halfway through a message",
                                              "after a message", "by another process", "stopped"};
static const char *const methods[] = {"softmax",          "entmax:1.5",
                                      "softmax/capped:3", "softmax/exact{rounds=6}",
                                      "softmax/exact",    "softmax/elastic:0.5,4"};
enum { METHODS = sizeof methods / sizeof *methods };

/* What a rank has in the end, in memory that the test sees. */
typedef struct report {
    bool returned, planned, kept_files, maps_nothing;
    ota_status forward, backward;
    int64_t messages;
    double begun, ended;
    double out[NUMBERS], potential[HEADS * N];
    double grads[3][NUMBERS]; /* of queries, keys, values */
} report;

typedef struct run {
    int ranks, method;
    report of[SOCKETS_MOST];
} run;

static double numbers[4][NUMBERS]; /* queries, keys, values, dL/dout; of the whole problem */

static int64_t first_of(int rank, int ranks) { return (int64_t)N * rank / ranks; }

static ota_array share_of(double *numbers_of_all, int64_t first, int64_t count) {
    ota_array a = ota_array_of(numbers_of_all, OTA_F64, 1, HEADS, N, WIDTH);
    a.data = (double *)a.data + first * WIDTH;
    a.size[2] = count;
    return a;
}

static int open_files(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL) count++;
    if (folder != NULL) (void)closedir(folder);
    return count;
}

/* Files or segments that this process shares in memory; its own page for the report has no name but /dev/zero's. */
static bool maps_nothing(void) {
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        found = found || strstr(line, "/dev/shm") != NULL || strstr(line, "/SYSV") != NULL;
    if (maps != NULL) (void)fclose(maps);
    return !found;
}

static void solve(report *to, const socket_rank *rank, int method, int64_t first, int64_t count) {
    ota_problem problem = {.size = sizeof problem, .queries = share_of(numbers[0], first, count)};
    problem.keys = share_of(numbers[1], first, count);
    ota_options options = {
        .size = sizeof options, .threads = 1, .gradients = 1, .communicator = &rank->to};
    ota_error error;
    ota_plan *plan;
    to->forward = ota_method_parse(methods[method], &problem, &options, &error);
    problem.temperature = 1.0;
    ota_arrays arrays = {.size = sizeof arrays, .values = share_of(numbers[2], first, count)};
    arrays.out = ota_array_of(to->out, OTA_F64, 1, HEADS, count, WIDTH);
    arrays.column_potential = ota_array_of(to->potential, OTA_F64, 1, HEADS, 1, N);
    ota_gradients want = {.size = sizeof want, .out_grad = share_of(numbers[3], first, count)};
    want.queries = ota_array_of(to->grads[0], OTA_F64, 1, HEADS, count, WIDTH);
    want.keys = ota_array_of(to->grads[1], OTA_F64, 1, HEADS, count, WIDTH);
    want.values = ota_array_of(to->grads[2], OTA_F64, 1, HEADS, count, WIDTH);
    ota_result result = {.size = sizeof result};
    if (to->forward == OTA_OK)
        to->forward = ota_plan_create(&plan, &problem, WIDTH, &options, &error);
    if (to->forward != OTA_OK) return;
    to->planned = true;
    to->forward = ota_forward(plan, &arrays, &result, &error);
    if (to->forward >= OTA_OK) to->backward = ota_backward(plan, &arrays, &want, &result, &error);
    ota_plan_free(plan);
}

static void live(run *all, socket_rank *sockets, int rank) {
    report *to = &all->of[rank];
    sockets_close(sockets, all->ranks, rank);
    const int files = open_files();
    const int64_t first = first_of(rank, all->ranks);
    to->begun = socket_now();
    solve(to, &sockets[rank], all->method, first, first_of(rank + 1, all->ranks) - first);
    to->ended = socket_now();
    to->messages = sockets[rank].messages;
    to->kept_files = open_files() == files;
    to->maps_nothing = maps_nothing();
    to->returned = true;
    _exit(0);
}

/* Starts the ranks of a run; pids[ranks]. */
static void start(run *all, socket_rank *sockets, pid_t *pids) {
    for (int k = 0; k < all->ranks; k++) {
        memset(&all->of[k], 0, sizeof all->of[k]);
        all->of[k].forward = all->of[k].backward = OTA_UNSOLVED;
        pids[k] = fork();
        assert_true(pids[k] >= 0);
        if (pids[k] == 0) live(all, sockets, k);
    }
    sockets_close(sockets, all->ranks, -1);
}

/* ---- what must hold ----------------------------------------------------------------------------- */

static bool all_nan(const double *x, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        if (!isnan(x[k])) return false;
    }
    return true;
}

static bool same(const double *x, const double *y, int64_t count) {
    return memcmp(x, y, (size_t)count * sizeof *x) == 0;
}

/* A rank that lived on, against one of a run without a kill. */
static void check_survivor(const report *r, const report *whole, int64_t rows) {
    const int64_t count = HEADS * rows * WIDTH;
    assert_true(r->returned && r->kept_files && r->maps_nothing);
    if (r->forward == OTA_ECOMM) {
        assert_true(r->messages <= whole->messages);
        if (r->planned) assert_true(all_nan(r->out, count));
        if (r->planned) assert_true(all_nan(r->potential, HEADS * N));
        return;
    }
    assert_int_equal(r->forward, whole->forward);
    assert_true(same(r->out, whole->out, count));
    assert_true(same(r->potential, whole->potential, HEADS * N));
    for (int k = 0; k < 3; k++) {
        if (r->backward == OTA_ECOMM)
            assert_true(all_nan(r->grads[k], count));
        else
            assert_true(same(r->grads[k], whole->grads[k], count));
    }
    if (r->backward != OTA_ECOMM) assert_int_equal(r->backward, whole->backward);
}

/* ---- kills -------------------------------------------------------------------------------------- */

/* Waits until the process ends or stops. */
static int state_of(pid_t pid) {
    const double late = socket_now() + 60.0;
    int state = 0;
    while (waitpid(pid, &state, WUNTRACED | WNOHANG) == 0) {
        if (socket_now() > late) fail_msg("a rank did not return within a minute");
        const struct timespec a_moment = {.tv_nsec = 50000};
        (void)nanosleep(&a_moment, NULL);
    }
    return state;
}

static void sleep_for(double seconds) {
    const struct timespec time = {.tv_nsec = (long)(1e9 * seconds)};
    (void)nanosleep(&time, NULL);
}

/* One run of which a rank is lost; the seconds until the last of the others returned, or less than 0 where the kill came
 * too late. */
static double kill_one(run *all, const run *whole, kill_kind kind) {
    static const socket_loss losses[KINDS] = {LOST_BEFORE, LOST_HALFWAY, LOST_AFTER, LOST_NEVER,
                                              LOST_BEFORE};
    const double patience = kind == STOPPED ? 0.25 : 30.0;
    socket_rank sockets[SOCKETS_MOST];
    pid_t pids[SOCKETS_MOST];
    all->ranks = whole->ranks;
    all->method = whole->method;
    if (!sockets_open(sockets, all->ranks, patience)) fail_msg("no sockets are left");
    const int victim = (int)below(&dice_state, all->ranks);
    const report *usual = &whole->of[victim];
    sockets[victim].loss = losses[kind];
    sockets[victim].lost_at = 1 + (int)below(&dice_state, (int)usual->messages);
    if (kind == STOPPED) sockets[victim].signal = SIGSTOP;
    const double moment = uniform(&dice_state) * 1.5 * (usual->ended - usual->begun);
    start(all, sockets, pids);
    if (kind == BY_ANOTHER) {
        sleep_for(moment);
        (void)kill(pids[victim], SIGKILL);
    }
    const int state = state_of(pids[victim]);
    const double lost = socket_now();
    const bool hit = WIFSIGNALED(state) || WIFSTOPPED(state);
    double last = lost;
    for (int k = 0; k < all->ranks; k++) {
        if (k == victim) continue;
        (void)state_of(pids[k]);
        const int64_t rows = first_of(k + 1, all->ranks) - first_of(k, all->ranks);
        check_survivor(&all->of[k], &whole->of[k], rows);
        last = fmax(last, all->of[k].ended);
    }
    if (WIFSTOPPED(state)) {
        (void)kill(pids[victim], SIGKILL);
        (void)waitpid(pids[victim], NULL, 0);
    }
    /* Loaded machines are slow to wake a process: seconds, where a hang would last as long as the patience. */
    if (last - lost > 2.0 * patience + 10.0)
        fail_msg("%s: the others returned %g s later", kind_names[kind], last - lost);
    return hit ? last - lost : -1.0;
}

static void nobody_waits_for_a_lost_rank(void **state) {
    (void)state;
    const char *seed = getenv("OTATTN_KILLS_SEED");
    dice_state = seed != NULL ? strtoul(seed, NULL, 10) : 1;
    for (int k = 0; k < 4 * NUMBERS; k++) numbers[k / NUMBERS][k % NUMBERS] = normal(&dice_state);
    const size_t size = sizeof(run) * (1 + (SOCKETS_MOST + 1) * METHODS);
    run *runs = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(runs != MAP_FAILED);
    run *whole = runs + 1;
    /* Nobody is killed. */
    for (int k = 0; k < METHODS * (SOCKETS_MOST - 1); k++) {
        run *all = &whole[k];
        socket_rank sockets[SOCKETS_MOST];
        pid_t pids[SOCKETS_MOST];
        *all = (run){.ranks = 2 + k / METHODS, .method = k % METHODS};
        assert_true(sockets_open(sockets, all->ranks, 30.0));
        start(all, sockets, pids);
        for (int r = 0; r < all->ranks; r++) {
            (void)state_of(pids[r]);
            assert_true(all->of[r].returned && all->of[r].maps_nothing && all->of[r].kept_files);
            assert_true(all->of[r].forward >= OTA_OK && all->of[r].backward >= OTA_OK);
        }
    }
    int64_t hits[KINDS] = {0}, late = 0, failed = 0, fine = 0;
    double longest[KINDS] = {0};
    for (int64_t count = 0; count < KILLS * test_scale();) {
        const kill_kind kind = (kill_kind)(count % KINDS);
        const double took =
            kill_one(runs, &whole[(int)below(&dice_state, METHODS * (SOCKETS_MOST - 1))], kind);
        if (took < 0.0) {
            late++;
            continue;
        }
        count++;
        hits[kind]++;
        longest[kind] = fmax(longest[kind], took);
        for (int r = 0; r < runs->ranks; r++) {
            if (!runs->of[r].returned) continue;
            const report *of = &runs->of[r];
            if (of->forward == OTA_ECOMM || of->backward == OTA_ECOMM)
                failed++;
            else
                fine++;
        }
    }
    for (int k = 0; k < KINDS; k++)
        print_message("%-26s %5lld kills, the others back after at most %.3f s\n", kind_names[k],
                      (long long)hits[k], longest[k]);
    print_message(
        "%lld ranks lived on: %lld with OTA_ECOMM and NaN, %lld with all their bits; %lld kills "
        "came too late\n",
        (long long)(failed + fine), (long long)failed, (long long)fine, (long long)late);
    assert_true(failed > 0);
    (void)munmap(runs, size);
}

TEST_FILE(test_killed_ranks) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_waits_for_a_lost_rank)};
    return cmocka_run_group_tests_name("killed ranks", tests, NULL, NULL);
}
