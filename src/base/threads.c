/* threads.c: the thread pool of base.h.
 *
 * One job at a time: the caller publishes it, wakes the workers and takes indices itself; whoever wakes
 * in time joins, and the caller, when no index is left, closes the job and waits for those who joined.
 * A worker that wakes late finds the job closed, so a short job never waits for the scheduler. Indices
 * are cut into one share a thread, taken one by one from the own share and then from the others': jobs
 * over the same pieces follow each other, and a piece stays in the cache of the core that had it. Any
 * order may come out; that is why a body may not let its worker number reach a result. */
#include "base.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* Workers run kernels whose largest local arrays are a few tiles; the rest lives in the plan. */
#define STACK_BYTES ((size_t)2 << 20)

/* A worker looks this often for the next job, and the caller for the last worker, before it sleeps: rounds
 * of a small problem follow each other within microseconds, a sleeping thread takes some fifty to wake. */
#define LOOKS_BEFORE_SLEEP 2000

typedef void job_body(void *context, int64_t index, int worker);

typedef struct job {
    job_body *body;
    void *context;
    int64_t count;
    unsigned modes;
} job;

/* Which thread works under a number now; `taken` is read before `thread`. */
typedef struct holder {
    _Atomic bool taken;
    _Atomic uintptr_t thread;
} holder;

/* What is left of one thread's indices; a cache line each. */
typedef struct share {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} share;

typedef struct worker {
    ota_pool *pool;
    ota_thread thread;
    int number;
} worker;

struct ota_pool {
    const ota_executor *executor; /* borrowed; NULL = own threads */
    int threads;                  /* numbers in use, the caller's 0 included */
    int started;                  /* own threads running: numbers 1 ... started */
    int looks;

    ota_mutex entry; /* held by the one caller whose job runs */
    ota_mutex mutex; /* guards open, stopping and the job; joined changes under it */
    ota_condition opened;
    ota_condition finished;
    bool open, stopping;
    _Atomic int joined; /* workers in the job; also read without the mutex while looking */
    job job;
    _Atomic uint64_t generation; /* counts jobs; also read without the mutex while looking */
    _Atomic long owner; /* process that runs the threads; 0 while a forked child rebuilds them */

    share *shares;   /* [threads] */
    holder *holders; /* [threads] */
    worker *workers; /* [threads], number 0 unused */
};

/* ---- floating-point modes ------------------------------------------------------------------- */

#if defined(__SSE2__)
#define MODE_BITS 0xffc0u /* rounding, flush-to-zero, denormals-are-zero, masks; not the flags */

static unsigned read_modes(void) { return _mm_getcsr() & MODE_BITS; }

static void write_modes(unsigned modes) { _mm_setcsr((_mm_getcsr() & ~MODE_BITS) | modes); }
#elif defined(__aarch64__)
static unsigned read_modes(void) {
    uint64_t modes;
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    return (unsigned)modes;
}

static void write_modes(unsigned modes) {
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)modes));
}
#else
static unsigned read_modes(void) { return 0; }

static void write_modes(unsigned modes) { (void)modes; }
#endif

static void pause_briefly(void) {
#if defined(__SSE2__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- one job -------------------------------------------------------------------------------- */

static void run_inline(const job *work, int number) {
    for (int64_t index = 0; index < work->count; index++) work->body(work->context, index, number);
}

static void deal_shares(ota_pool *pool, int64_t count) {
    const int64_t threads = pool->started + 1, each = count / threads, more = count % threads;
    int64_t first = 0;
    for (int64_t k = 0; k < threads; k++) {
        atomic_store_explicit(&pool->shares[k].next, first, memory_order_relaxed);
        first += each + (k < more ? 1 : 0);
        pool->shares[k].end = first;
    }
}

static void take_indices(ota_pool *pool, const job *work, int number) {
    const int threads = pool->started + 1;
    for (int k = 0; k < threads; k++) {
        share *from = &pool->shares[(number + k) % threads];
        for (;;) {
            const int64_t index = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
            if (index >= from->end) break;
            work->body(work->context, index, number);
        }
    }
}

static void hold(holder *place) {
    atomic_store(&place->thread, ota_thread_self());
    atomic_store(&place->taken, true);
}

static void let_go(holder *place) { atomic_store(&place->taken, false); }

/* The calling thread's number if it is inside a body of this pool, else -1. */
static int number_of_caller(ota_pool *pool) {
    const uintptr_t self = ota_thread_self();
    for (int i = 0; i < pool->threads; i++) {
        holder *place = &pool->holders[i];
        if (atomic_load(&place->taken) && atomic_load(&place->thread) == self) return i;
    }
    return -1;
}

static void worker_main(void *argument) {
    worker *self = argument;
    ota_pool *pool = self->pool;
    unsigned own_modes = read_modes();
    uint64_t seen = 0;
    hold(&pool->holders[self->number]);
    for (;;) {
        for (int look = 0; look < pool->looks && atomic_load(&pool->generation) == seen; look++) {
            pause_briefly();
        }
        ota_mutex_lock(&pool->mutex);
        while (!pool->stopping && (!pool->open || atomic_load(&pool->generation) == seen)) {
            seen = atomic_load(&pool->generation); /* a job closed before we came is over */
            ota_condition_wait(&pool->opened, &pool->mutex);
        }
        if (pool->stopping) break;
        seen = atomic_load(&pool->generation);
        job work = pool->job;
        atomic_fetch_add(&pool->joined, 1);
        ota_mutex_unlock(&pool->mutex);

        write_modes(work.modes);
        take_indices(pool, &work, self->number);
        write_modes(own_modes);

        ota_mutex_lock(&pool->mutex);
        if (atomic_fetch_sub(&pool->joined, 1) == 1) ota_condition_wake_one(&pool->finished);
        ota_mutex_unlock(&pool->mutex);
    }
    ota_mutex_unlock(&pool->mutex);
}

static void share_with_threads(ota_pool *pool, const job *work) {
    ota_mutex_lock(&pool->mutex);
    pool->job = *work;
    pool->open = true;
    deal_shares(pool, work->count);
    atomic_fetch_add(&pool->generation, 1);
    if (work->count > 2) {
        ota_condition_wake_all(&pool->opened);
    } else {
        ota_condition_wake_one(&pool->opened);
    }
    ota_mutex_unlock(&pool->mutex);

    take_indices(pool, work, 0);

    ota_mutex_lock(&pool->mutex);
    pool->open = false;
    ota_mutex_unlock(&pool->mutex);
    for (int look = 0; look < pool->looks && atomic_load(&pool->joined) > 0; look++) {
        pause_briefly();
    }
    ota_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->joined) > 0) ota_condition_wait(&pool->finished, &pool->mutex);
    ota_mutex_unlock(&pool->mutex);
}

static void run_on_own_threads(ota_pool *pool, const job *work) {
    ota_mutex_lock(&pool->entry);
    hold(&pool->holders[0]);
    if (work->count == 1 || pool->started == 0) {
        run_inline(work, 0);
    } else {
        share_with_threads(pool, work);
    }
    let_go(&pool->holders[0]);
    ota_mutex_unlock(&pool->entry);
}

/* ---- the caller's executor ------------------------------------------------------------------ */

typedef struct executor_job {
    ota_pool *pool;
    const job *work;
} executor_job;

static void run_one_for_executor(void *context, int64_t index, int number) {
    executor_job *request = context;
    ota_pool *pool = request->pool;
    assert(number >= 0 && number < pool->threads);
    unsigned own_modes = read_modes();
    hold(&pool->holders[number]);
    write_modes(request->work->modes);
    request->work->body(request->work->context, index, number);
    write_modes(own_modes);
    let_go(&pool->holders[number]);
}

/* ---- start, stop, fork ---------------------------------------------------------------------- */

/* Starts numbers 1 ... threads - 1; stops at the first that cannot be had. */
static void start_threads(ota_pool *pool) {
    pool->started = 0;
    for (int number = 1; number < pool->threads; number++) {
        worker *next = &pool->workers[number];
        *next = (worker){.pool = pool, .number = number};
        if (!ota_thread_start(&next->thread, STACK_BYTES, worker_main, next)) break;
        pool->started = number;
    }
}

static void prepare(ota_pool *pool) {
    ota_mutex_begin(&pool->entry);
    ota_mutex_begin(&pool->mutex);
    ota_condition_begin(&pool->opened);
    ota_condition_begin(&pool->finished);
    pool->open = pool->stopping = false;
    atomic_store(&pool->joined, 0);
    atomic_store(&pool->generation, 0);
    for (int i = 0; i < pool->threads; i++) let_go(&pool->holders[i]);
    if (pool->executor == NULL) start_threads(pool);
}

/* fork keeps the pool but none of its threads, and its locks as they happened to stand. The first
 * caller in the child builds both anew; others wait for it. */
static void rebuild_after_fork(ota_pool *pool) {
    long process = ota_process();
    long owner = atomic_load(&pool->owner);
    while (owner != process) {
        if (owner != 0 && atomic_compare_exchange_strong(&pool->owner, &owner, 0)) {
            prepare(pool);
            atomic_store(&pool->owner, process);
            return;
        }
        ota_thread_yield();
        owner = atomic_load(&pool->owner);
    }
}

ota_status ota_pool_create(ota_pool **result, int threads, const ota_executor *executor) {
    *result = NULL;
    if (threads < 0 || threads > OTA_THREADS_MAX) return OTA_EINVAL;
    if (executor != NULL &&
        (executor->run == NULL || executor->threads < 1 || executor->threads > OTA_THREADS_MAX)) {
        return OTA_EINVAL;
    }
    if (executor != NULL) threads = executor->threads;
    /* Reading the control group takes as long as a small problem: not for a single thread. */
    const int cpus = threads == 1 ? 1 : ota_processors();
    if (threads == 0) {
        threads = cpus;
        if (threads > OTA_THREADS_MAX) threads = OTA_THREADS_MAX;
    }

    ota_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return OTA_ENOMEM;
    pool->executor = executor;
    pool->threads = threads;
    pool->holders = calloc((size_t)threads, sizeof *pool->holders);
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    pool->shares = ota_aligned_allocate(_Alignof(share), (size_t)threads * sizeof *pool->shares);
    if (pool->holders == NULL || pool->workers == NULL || pool->shares == NULL) {
        ota_aligned_free(pool->shares);
        free(pool->holders);
        free(pool->workers);
        free(pool);
        return OTA_ENOMEM;
    }
    /* With more threads than CPUs, looking would only keep the others from working. */
    pool->looks = threads <= cpus ? LOOKS_BEFORE_SLEEP : 0;
    prepare(pool);
    if (executor == NULL) pool->threads = pool->started + 1;
    atomic_store(&pool->owner, ota_process());
    *result = pool;
    return OTA_OK;
}

void ota_pool_free(ota_pool *pool) {
    if (pool == NULL) return;
    if (atomic_load(&pool->owner) == ota_process()) {
        ota_mutex_lock(&pool->mutex);
        pool->stopping = true;
        ota_condition_wake_all(&pool->opened);
        atomic_fetch_add(&pool->generation, 1);
        ota_mutex_unlock(&pool->mutex);
        for (int number = 1; number <= pool->started; number++) {
            ota_thread_join(&pool->workers[number].thread);
        }
        ota_condition_end(&pool->finished);
        ota_condition_end(&pool->opened);
        ota_mutex_end(&pool->mutex);
        ota_mutex_end(&pool->entry);
    }
    ota_aligned_free(pool->shares);
    free(pool->holders);
    free(pool->workers);
    free(pool);
}

int ota_pool_threads(const ota_pool *pool) { return pool == NULL ? 1 : pool->threads; }

/* ---- the one entry -------------------------------------------------------------------------- */

void ota_parallel(ota_pool *pool, int64_t count, job_body *body, void *context) {
    job work = {.body = body, .context = context, .count = count, .modes = read_modes()};
    if (count <= 0) return;
    if (pool == NULL) {
        run_inline(&work, 0);
        return;
    }
    int number = number_of_caller(pool);
    if (number >= 0) {
        run_inline(&work, number);
        return;
    }
    rebuild_after_fork(pool);
    if (pool->executor != NULL) {
        executor_job request = {.pool = pool, .work = &work};
        ota_mutex_lock(&pool->entry);
        pool->executor->run(pool->executor->user, count, run_one_for_executor, &request);
        ota_mutex_unlock(&pool->entry);
    } else {
        run_on_own_threads(pool, &work);
    }
}
