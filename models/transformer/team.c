/* Worker threads that take indices off a shared counter. A worker that runs out of work looks for the
 * next job for some microseconds before it sleeps: a decode step is hundreds of short jobs. */
#define _GNU_SOURCE
#include "team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { THREADS_MOST = 256, LOOKS = 4000 };

typedef struct worker {
    ota_team *team;
    int number;
    pthread_t thread;
} worker;

struct ota_team {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    atomic_ulong job; /* number of the job; grows by one with each */
    atomic_int busy;  /* workers still in the job */
    atomic_bool ending;
    _Atomic int64_t next;
    int64_t count;
    void (*body)(void *, int64_t, int);
    void *context;
    int threads; /* the caller included */
    worker workers[];
};

static void take_indices(ota_team *team, int number) {
    for (;;) {
        const int64_t index = atomic_fetch_add(&team->next, 1);
        if (index >= team->count) return;
        team->body(team->context, index, number);
    }
}

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static bool await_job(ota_team *team, unsigned long seen) {
    for (int look = 0; look < LOOKS; look++) {
        if (atomic_load(&team->job) != seen || atomic_load(&team->ending)) break;
        pause_briefly();
    }
    (void)pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->job) == seen && !atomic_load(&team->ending))
        (void)pthread_cond_wait(&team->work, &team->lock);
    (void)pthread_mutex_unlock(&team->lock);
    return !atomic_load(&team->ending);
}

static void *work(void *argument) {
    worker *self = argument;
    ota_team *team = self->team;
    for (unsigned long seen = 0; await_job(team, seen); seen++) {
        take_indices(team, self->number);
        if (atomic_fetch_sub(&team->busy, 1) != 1) continue;
        (void)pthread_mutex_lock(&team->lock);
        (void)pthread_cond_signal(&team->idle);
        (void)pthread_mutex_unlock(&team->lock);
    }
    return NULL;
}

ota_team *ota_team_create(int threads) {
    if (threads <= 0) {
        cpu_set_t allowed;
        threads = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    }
    if (threads > THREADS_MOST) threads = THREADS_MOST;
    ota_team *team = calloc(1, sizeof *team + (size_t)threads * sizeof(worker));
    if (team == NULL) return NULL;
    (void)pthread_mutex_init(&team->lock, NULL);
    (void)pthread_cond_init(&team->work, NULL);
    (void)pthread_cond_init(&team->idle, NULL);
    team->threads = 1;
    for (int k = 1; k < threads; k++) {
        worker *one = &team->workers[k];
        *one = (worker){.team = team, .number = k};
        if (pthread_create(&one->thread, NULL, work, one) != 0) break;
        team->threads++;
    }
    return team;
}

void ota_team_free(ota_team *team) {
    if (team == NULL) return;
    (void)pthread_mutex_lock(&team->lock);
    atomic_store(&team->ending, true);
    (void)pthread_cond_broadcast(&team->work);
    (void)pthread_mutex_unlock(&team->lock);
    for (int k = 1; k < team->threads; k++) (void)pthread_join(team->workers[k].thread, NULL);
    (void)pthread_cond_destroy(&team->work);
    (void)pthread_cond_destroy(&team->idle);
    (void)pthread_mutex_destroy(&team->lock);
    free(team);
}

int ota_team_threads(const ota_team *team) { return team->threads; }

static void await_workers(ota_team *team) {
    for (int look = 0; look < LOOKS && atomic_load(&team->busy) > 0; look++) pause_briefly();
    (void)pthread_mutex_lock(&team->lock);
    while (atomic_load(&team->busy) > 0) (void)pthread_cond_wait(&team->idle, &team->lock);
    (void)pthread_mutex_unlock(&team->lock);
}

void ota_team_run(ota_team *team, int64_t count, void (*body)(void *, int64_t, int),
                  void *context) {
    if (team->threads == 1 || count <= 1) {
        for (int64_t index = 0; index < count; index++) body(context, index, 0);
        return;
    }
    (void)pthread_mutex_lock(&team->lock);
    team->body = body;
    team->context = context;
    team->count = count;
    atomic_store(&team->next, 0);
    atomic_store(&team->busy, team->threads - 1);
    atomic_fetch_add(&team->job, 1);
    (void)pthread_cond_broadcast(&team->work);
    (void)pthread_mutex_unlock(&team->lock);
    take_indices(team, 0);
    await_workers(team);
}

static void run_executor(void *user, int64_t count, void (*body)(void *, int64_t, int),
                         void *context) {
    ota_team_run(user, count, body, context);
}

ota_executor ota_team_executor(ota_team *team) {
    return (ota_executor){.run = run_executor, .user = team, .threads = team->threads};
}
