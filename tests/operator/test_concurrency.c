/* Plans on many threads at once. Every worker makes plans of drawn methods, types, sizes, thread counts and executors, runs
 * them forward and backward, rebinds them, hands them to another worker and frees what it finds. Meanwhile `cancel` flags are
 * raised, deadlines pass and processes fork, all at random moments. The law: a call that ends well has the bits that one
 * thread alone found before, one that was stopped says so and leaves a plan that has them in the next call, and a child has
 * them too.
 *
 *     test_concurrency                                        a second, for ctest
 *     test_concurrency --minutes N [--record FILE]            a part of a soak: each has draws of its own, by the lines of FILE,
 *                                                             and adds one; memory is printed and may not grow */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "draw/random.h"
#include "otattn.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#endif

enum {
    WORKERS = 4,
    TURNS = 40,
    HEADS = 3,
    MOST = 24,
    WIDTH = 8,
    TEAM = 3,
    RECIPES = 24,
    SLOTS = 4
};

/* ---- what is solved ---- */

typedef struct cell {
    const char *method;
    int64_t rounds;
    bool differentiable;
} cell;

static const cell cells[] = {
    {"softmax", 0, true},
    {"entmax:1.5", 0, true},
    {"hard", 0, false},
    {"softmax/exact", 0, true},
    {"softmax/exact", 20, true},
    {"softmax/capped:1.5", 0, true},
    {"entmax:2/exact", 0, true},
    {"softmax/relaxed:1", 0, true},
    {"softmax/elastic:0.5,4", 0, true},
    {"softmax/prefix", 0, false},
    {"softmax/online:2", 0, true},
    {"hard/exact", 0, false},
};
enum { CELLS = sizeof cells / sizeof cells[0] };

/* One problem with two sets of scores, and the bits that one thread finds. */
typedef struct recipe {
    const cell *of;
    ota_type type;
    int64_t size;
    _Alignas(64) double scores[2][HEADS * MOST * MOST];
    double values[HEADS * MOST * WIDTH], out_grad[HEADS * MOST * WIDTH];
    double right[2][2 * HEADS * MOST * MOST];
} recipe;

static recipe recipes[RECIPES];

static uint64_t draw(uint64_t *state) { return splitmix64(state) >> 33; }

static void fill(uint64_t *state, ota_type type, double *numbers, int64_t count) {
    float *narrow = (float *)(void *)numbers;
    for (int64_t k = 0; k < count; k++) {
        const double value = (double)draw(state) / (double)(1U << 30) - 1.0;
        if (type == OTA_F64)
            numbers[k] = value;
        else
            narrow[k] = (float)value;
    }
}

/* What a worker keeps of a plan. */
typedef struct stage {
    const recipe *of;
    int set; /* of scores that the plan is bound to */
    ota_plan *plan;
    int cancel;
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    double found[2 * HEADS * MOST * MOST]; /* coupling, gradient of the scores */
    double rows[HEADS * MOST], columns[HEADS * MOST];
} stage;

static ota_array pairs_of(const recipe *r, double *numbers) {
    return ota_array_of(numbers, r->type, 1, HEADS, r->size, r->size);
}

static ota_array values_of(const recipe *r, const double *numbers) {
    return ota_array_of((double *)(uintptr_t)numbers, r->type, 1, HEADS, r->size, WIDTH);
}

static ota_status bind(stage *s, int set) {
    s->set = set;
    s->problem.scores = pairs_of(s->of, (double *)(uintptr_t)s->of->scores[set]);
    return s->plan == NULL ? OTA_OK : ota_plan_rebind(s->plan, &s->problem, NULL);
}

static ota_status make(stage *s, const recipe *of, int threads, const ota_executor *executor) {
    *s = (stage){.of = of,
                 .problem = {.size = sizeof(ota_problem)},
                 .options = {.size = sizeof(ota_options),
                             .threads = threads,
                             .executor = executor,
                             .rounds = of->of->rounds,
                             .gradients = of->of->differentiable},
                 .arrays = {.size = sizeof(ota_arrays)}};
    if (ota_method_parse(of->of->method, &s->problem, &s->options, NULL) != OTA_OK)
        return OTA_EINVAL;
    (void)bind(s, 0);
    s->arrays.values = values_of(of, of->values);
    s->arrays.coupling = pairs_of(of, s->found);
    s->arrays.row_potential = ota_array_of(s->rows, OTA_F64, 1, HEADS, 1, of->size);
    s->arrays.column_potential = ota_array_of(s->columns, OTA_F64, 1, HEADS, 1, of->size);
    s->options.cancel = &s->cancel;
    return ota_plan_create(&s->plan, &s->problem, WIDTH, &s->options, NULL);
}

/* Forward, and backward where there is one. */
static ota_status solve(stage *s) {
    ota_status status = ota_forward(s->plan, &s->arrays, NULL, NULL);
    if (status < 0 || !s->of->of->differentiable) return status;
    ota_gradients gradients = {.size = sizeof gradients};
    gradients.out_grad = values_of(s->of, s->of->out_grad);
    gradients.scores = pairs_of(s->of, s->found + HEADS * MOST * MOST);
    return ota_backward(s->plan, &s->arrays, &gradients, NULL, NULL);
}

static bool is_right(const stage *s) {
    const size_t pairs = (size_t)(HEADS * s->of->size * s->of->size) * ota_type_bytes(s->of->type);
    const double *right = s->of->right[s->set];
    return memcmp(s->found, right, pairs) == 0 &&
           (!s->of->of->differentiable ||
            memcmp(s->found + HEADS * MOST * MOST, right + HEADS * MOST * MOST, pairs) == 0);
}

/* The answers, by one thread with nothing beside it. */
static bool make_recipes(uint64_t seed) {
    uint64_t state = seed * 977 + 5;
    static stage s;
    for (int k = 0; k < RECIPES; k++) {
        recipe *r = &recipes[k];
        r->of = &cells[k % CELLS];
        r->type = draw(&state) % 2 == 0 ? OTA_F64 : OTA_F32;
        r->size = 2 + (int64_t)(draw(&state) % (MOST - 1));
        for (int set = 0; set < 2; set++)
            fill(&state, r->type, r->scores[set], HEADS * r->size * r->size);
        fill(&state, r->type, r->values, HEADS * r->size * WIDTH);
        fill(&state, r->type, r->out_grad, HEADS * r->size * WIDTH);
        if (make(&s, r, 1, NULL) != OTA_OK) return false;
        for (int set = 0; set < 2; set++) {
            if (bind(&s, set) != OTA_OK || solve(&s) < 0) return false;
            memcpy(r->right[set], s.found, sizeof s.found);
        }
        ota_plan_free(s.plan);
    }
    return true;
}

/* ---- an executor of the caller's: a team of threads for each call, indices in any order ---- */

typedef struct errand {
    int64_t count;
    _Atomic int64_t next;
    void (*body)(void *context, int64_t index, int worker);
    void *context;
} errand;

typedef struct runner {
    errand *work;
    int number;
} runner;

static void *run_errand(void *argument) {
    const runner *me = argument;
    errand *work = me->work;
    for (;;) {
        const int64_t index = atomic_fetch_add(&work->next, 1);
        if (index >= work->count) return NULL;
        work->body(work->context, work->count - 1 - index, me->number);
    }
}

static void run_team(void *user, int64_t count, void (*body)(void *, int64_t, int), void *context) {
    (void)user;
    errand work = {.count = count, .body = body, .context = context};
    runner team[TEAM];
    pthread_t threads[TEAM];
    bool started[TEAM] = {false};
    for (int k = 1; k < TEAM && k < count; k++) {
        team[k] = (runner){&work, k};
        started[k] = pthread_create(&threads[k], NULL, run_errand, &team[k]) == 0;
    }
    team[0] = (runner){&work, 0};
    (void)run_errand(&team[0]);
    for (int k = 1; k < TEAM; k++)
        if (started[k]) (void)pthread_join(threads[k], NULL);
}

static const ota_executor team_executor = {.run = run_team, .threads = TEAM};

/* ---- the crowd ---- */

typedef struct crowd {
    _Atomic bool over;
    _Atomic int64_t turns, stopped, forks, handed, wrong;
    _Atomic(stage *) slots[SLOTS]; /* plans on their way to another worker */
    pthread_mutex_t lock;          /* of the flags */
    int *flags[WORKERS];           /* `cancel` of a plan that runs and may be stopped, or NULL */
    int64_t turns_each;            /* 0: until over */
    uint64_t seed;
} crowd;

typedef struct member {
    crowd *all;
    int number;
} member;

static int64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void note_wrong(crowd *all, const stage *s, const char *what, ota_status status) {
    if (atomic_fetch_add(&all->wrong, 1) < 5)
        (void)fprintf(stderr, "%s: %s, status %d, size %lld, %d threads%s\n", s->of->of->method,
                      what, (int)status, (long long)s->of->size, s->options.threads,
                      s->options.executor != NULL ? " of the caller's" : "");
}

static void must_be_right(crowd *all, stage *s, const char *what) {
    memset(s->found, 0, sizeof s->found);
    const ota_status status = solve(s);
    if (status < 0 || !is_right(s)) note_wrong(all, s, what, status);
}

static void show_flag(crowd *all, int number, int *flag) {
    (void)pthread_mutex_lock(&all->lock);
    all->flags[number] = flag;
    (void)pthread_mutex_unlock(&all->lock);
}

/* While the disturber may raise its flag. */
static void run_disturbed(crowd *all, int number, stage *s) {
    show_flag(all, number, &s->cancel);
    const ota_status status = solve(s);
    show_flag(all, number, NULL);
    if (status == OTA_CANCELLED)
        atomic_fetch_add(&all->stopped, 1);
    else if (status < 0 || !is_right(s))
        note_wrong(all, s, "beside a raised flag", status);
    s->cancel = 0;
}

/* A plan of its own with a deadline at a random moment: too late, in the middle, or long enough. */
static void run_to_deadline(crowd *all, const stage *like, uint64_t *state) {
    stage *s = malloc(sizeof *s);
    if (s == NULL) return;
    *s = *like;
    s->plan = NULL;
    s->options.cancel = &s->cancel;
    s->arrays.coupling = pairs_of(s->of, s->found);
    s->arrays.row_potential.data = s->rows;
    s->arrays.column_potential.data = s->columns;
    s->options.deadline_ns = now_ns() + (int64_t)(draw(state) % 400000);
    ota_status status = ota_plan_create(&s->plan, &s->problem, WIDTH, &s->options, NULL);
    if (status == OTA_OK) status = solve(s);
    if (status == OTA_TIMEOUT)
        atomic_fetch_add(&all->stopped, 1);
    else if (status < 0 || !is_right(s))
        note_wrong(all, s, "with a deadline", status);
    ota_plan_free(s->plan);
    free(s);
}

/* The child has its parent's plan and none of its threads. */
static void run_in_child(crowd *all, stage *s) {
#if defined(UNDER_THREAD_SANITIZER)
    (void)all, (void)s; /* it does not follow forks of threaded programs */
#elif defined(UNDER_ADDRESS_SANITIZER)
    /* The lock of its allocator stays shut in a child where another thread held it. */
    (void)all, (void)s;
#else
    const pid_t child = fork();
    if (child == 0) {
        memset(s->found, 0, sizeof s->found);
        _exit(solve(s) >= 0 && is_right(s) ? 0 : 1);
    }
    int state = 0;
    if (child < 0) return;
    if (waitpid(child, &state, 0) != child || !WIFEXITED(state) || WEXITSTATUS(state) != 0)
        note_wrong(all, s, "in a forked child", state);
    atomic_fetch_add(&all->forks, 1);
#endif
}

static void *be_member(void *argument) {
    const member *me = argument;
    crowd *all = me->all;
    uint64_t state = all->seed * 7919 + (uint64_t)me->number * 104729 + 1;
    for (int64_t turn = 0; all->turns_each == 0 || turn < all->turns_each; turn++) {
        if (atomic_load(&all->over)) break;
        stage *s = malloc(sizeof *s);
        if (s == NULL) break;
        const int threads = 1 + (int)(draw(&state) % 3);
        const ota_executor *executor = draw(&state) % 4 == 0 ? &team_executor : NULL;
        if (make(s, &recipes[draw(&state) % RECIPES], threads, executor) != OTA_OK) {
            note_wrong(all, s, "no plan", OTA_EINTERNAL);
            free(s);
            break;
        }
        must_be_right(all, s, "alone");
        if (bind(s, 1) != OTA_OK) note_wrong(all, s, "not bound again", OTA_EINTERNAL);
        run_disturbed(all, me->number, s);
        must_be_right(all, s, "after it was stopped");
        run_to_deadline(all, s, &state);
        if (draw(&state) % 8 == 0) run_in_child(all, s);
        /* Another worker goes on with this plan; this one takes what lies there. */
        stage *other = atomic_exchange(&all->slots[draw(&state) % SLOTS], s);
        if (other != NULL) {
            must_be_right(all, other, "made by another thread");
            ota_plan_free(other->plan);
            free(other);
            atomic_fetch_add(&all->handed, 1);
        }
        atomic_fetch_add(&all->turns, 1);
    }
    return NULL;
}

static void *disturb(void *argument) {
    crowd *all = argument;
    uint64_t state = all->seed + 3;
    while (!atomic_load(&all->over)) {
        const struct timespec pause = {0, (long)(draw(&state) % 200000)};
        (void)nanosleep(&pause, NULL);
        (void)pthread_mutex_lock(&all->lock);
        int *flag = all->flags[draw(&state) % WORKERS];
        if (flag != NULL) __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
        (void)pthread_mutex_unlock(&all->lock);
    }
    return NULL;
}

static int64_t resident_kb(void) {
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
    (void)fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Prints every 10 s; returns by how many KB the largest size of the second half is above that of the first. */
static int64_t watch(crowd *all, double seconds) {
    const int64_t begin = now_ns();
    int64_t most[2] = {0, 0}, printed = 0;
    for (;;) {
        const struct timespec pause = {0, 100000000};
        (void)nanosleep(&pause, NULL);
        const double passed = (double)(now_ns() - begin) / 1e9;
        const int64_t resident = resident_kb();
        int64_t *half = &most[passed > seconds / 2];
        if (resident > *half) *half = resident;
        if ((int64_t)passed / 10 > printed || passed >= seconds) {
            printed = (int64_t)passed / 10;
            (void)printf("%6.0f s  %lld turns  %lld stopped  %lld forks  %lld handed on  %lld KB  "
                         "%lld wrong\n",
                         passed, (long long)all->turns, (long long)all->stopped,
                         (long long)all->forks, (long long)all->handed, (long long)resident,
                         (long long)all->wrong);
            (void)fflush(stdout);
        }
        if (passed >= seconds) return most[1] - most[0];
    }
}

/* Returns the growth of memory; `seconds` 0: TURNS each. */
static int64_t run_crowd(crowd *all, double seconds) {
    static member members[WORKERS];
    pthread_t threads[WORKERS], disturber;
    int64_t growth = 0;
    (void)pthread_mutex_init(&all->lock, NULL);
    (void)pthread_create(&disturber, NULL, disturb, all);
    for (int k = 0; k < WORKERS; k++) {
        members[k] = (member){all, k};
        (void)pthread_create(&threads[k], NULL, be_member, &members[k]);
    }
    if (seconds > 0) {
        growth = watch(all, seconds);
        atomic_store(&all->over, true);
    }
    for (int k = 0; k < WORKERS; k++) (void)pthread_join(threads[k], NULL);
    atomic_store(&all->over, true);
    (void)pthread_join(disturber, NULL);
    (void)pthread_mutex_destroy(&all->lock);
    for (int k = 0; k < SLOTS; k++) {
        stage *left = atomic_exchange(&all->slots[k], NULL);
        if (left != NULL) ota_plan_free(left->plan);
        free(left);
    }
    return growth;
}

static void plans_on_many_threads(void **unused) {
    (void)unused;
    static crowd all;
#ifdef UNDER_THREAD_SANITIZER
    all.turns_each = TURNS / 4;
#else
    all.turns_each = TURNS;
#endif
    assert_true(make_recipes(1));
    (void)run_crowd(&all, 0);
    assert_int_equal(all.wrong, 0);
    assert_int_equal(all.turns, WORKERS * all.turns_each);
}

/* Raises the flag when it is first told of a round. */
static void stop_at_once(void *user, const ota_progress *progress) {
    (void)progress;
    __atomic_store_n((int *)user, 1, __ATOMIC_RELAXED);
}

/* One head, stopped inside its rounds: no later look at the flag may be needed to tell. Who is told of no round before the
 * last one may end well, if the plan is one. */
static void a_stop_inside_a_solve_is_told(void **unused) {
    (void)unused;
    static const struct {
        const char *method, *solver;
    } table[] = {{"softmax/exact", "sinkhorn"}, {"softmax/exact", "log"},
                 {"softmax/exact", "newton"},   {"softmax/exact", "anderson"},
                 {"softmax/exact", "coupled"},  {"softmax/relaxed:1", "coupled"},
                 {"softmax/capped:1.5", NULL},  {"entmax:1.5/exact", NULL},
                 {"softmax/prefix", NULL}};
    enum { SIZE = 12 };
    static double scores[SIZE * SIZE], coupling[SIZE * SIZE];
    int wrong = 0;
    uint64_t state = 11;
    fill(&state, OTA_F64, scores, (int64_t)SIZE * SIZE);
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        int cancel = 0;
        ota_problem problem = {.size = sizeof problem};
        ota_options options = {.size = sizeof options,
                               .threads = 1,
                               .tolerance = 1e-10,
                               .solver = table[k].solver,
                               .cancel = &cancel,
                               .progress = stop_at_once,
                               .progress_user = &cancel};
        assert_int_equal(ota_method_parse(table[k].method, &problem, &options, NULL), OTA_OK);
        problem.scores = ota_array_of(scores, OTA_F64, 1, 1, SIZE, SIZE);
        const ota_arrays arrays = {.size = sizeof arrays,
                                   .coupling = ota_array_of(coupling, OTA_F64, 1, 1, SIZE, SIZE)};
        ota_error error = {.message = ""};
        ota_certificate found = {.size = sizeof found};
        const ota_status status = ota_attend(&problem, &options, &arrays, NULL, &error);
        bool right = status == OTA_CANCELLED;
        if (status == OTA_OK) {
            assert_true(ota_certify(&problem, NULL, &arrays, &found, NULL, &error) >= 0);
            right = found.column_error <= 2.0 * options.tolerance;
        }
        if (!right)
            print_error("%s by %s: status %d, column error %g\n", table[k].method,
                        table[k].solver != NULL ? table[k].solver : "auto", (int)status,
                        found.column_error);
        wrong += !right;
    }
    assert_int_equal(wrong, 0);
}

/* Lines of a text file; 0 where there is none. */
static uint64_t lines_of(const char *path) {
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    uint64_t lines = 0;
    for (int letter; file != NULL && (letter = fgetc(file)) != EOF;) lines += letter == '\n';
    if (file != NULL) (void)fclose(file);
    return lines;
}

/* The allocator keeps what threads of the pool freed, a few pages for each that ever ran at once. */
enum { GROWTH_MOST_KB = 4096 };

static int soak(double minutes, const char *record) {
    static crowd all;
    all.seed = lines_of(record) + 2;
    if (!make_recipes(all.seed)) return 1;
    const int64_t growth = run_crowd(&all, minutes * 60);
    FILE *file = record != NULL ? fopen(record, "a") : NULL;
    FILE *const outputs[] = {stdout, file};
    for (int k = 0; k < 2; k++) {
        if (outputs[k] == NULL) continue;
        (void)fprintf(outputs[k],
                      "part %llu: %.1f min, %lld turns, %lld stopped, %lld forks, %lld handed on, "
                      "second half %+lld KB, %lld wrong\n",
                      (unsigned long long)all.seed - 1, minutes, (long long)all.turns,
                      (long long)all.stopped, (long long)all.forks, (long long)all.handed,
                      (long long)growth, (long long)all.wrong);
    }
    if (file != NULL) (void)fclose(file);
    return all.wrong == 0 && growth <= GROWTH_MOST_KB ? 0 : 1;
}

int main(int argc, char **argv) {
    const char *record = argc == 5 && strcmp(argv[3], "--record") == 0 ? argv[4] : NULL;
    if (argc >= 3 && strcmp(argv[1], "--minutes") == 0) return soak(strtod(argv[2], NULL), record);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stop_inside_a_solve_is_told),
                                       cmocka_unit_test(plans_on_many_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
