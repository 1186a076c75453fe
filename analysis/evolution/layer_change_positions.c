/* All states of a block of positions: logits [states] of [positions, vocabulary]. A worker takes one position
 * after another; per position four rows are held: the first state, the last, and the two of a transition. */
#include <stdlib.h>

#include "layer_change.h"

#include "base/sized.h"

/* Slots of rows: the last state, the first, and in turns those after it. */
enum { LAST_STATE, FIRST_STATE, IN_TURNS, ROWS = IN_TURNS + 2, MOST_THREADS = 256 };

typedef struct job {
    const ota_evolution *evolution;
    unsigned char *memory; /* of all workers */
    size_t worker_bytes, row_bytes;
    const analysis_call *call;
    ota_mutex lock; /* of what follows */
    int64_t next;
    int64_t failed_at; /* the lowest position that failed; -1: none */
    ota_status status;
    ota_error error;
} job;

typedef struct worker_rows {
    ota_evolve_row rows[ROWS];
    void *memory[ROWS];
    void *scratch;
} worker_rows;

size_t ota_evolve_bytes(int64_t vocabulary, int threads) {
    const size_t row = ota_evolve_row_bytes(vocabulary);
    const size_t each = ROWS * row + ota_evolve_scratch_bytes(vocabulary);
    const size_t workers = threads < 1              ? 1
                           : threads > MOST_THREADS ? MOST_THREADS
                                                    : (size_t)threads;
    size_t bytes;
    return row == 0 || __builtin_mul_overflow(each, workers, &bytes) ? 0 : bytes;
}

static ota_status name_row(ota_status status, int64_t state, int64_t position,
                           const ota_error *inner, const analysis_call *call) {
    if (status == OTA_OK) return status;
    return ota_analysis_fail(call, status, "logits", "give finite logits",
                             "state %" PRId64 ", position %" PRId64 ": %s", state, position,
                             inner->message);
}

/* The last state, whose row is there already. */
static ota_status finish(const ota_evolve_row *row, const ota_evolve_row *before,
                         const ota_evolve_row *first, ota_transition *transition,
                         ota_prediction *prediction, const analysis_call *call) {
    ota_status status = OTA_OK;
    if (prediction != NULL)
        status = ota_layer_change_place(row, NULL, first, row, prediction, call);
    if (status == OTA_OK && transition != NULL)
        status = ota_layer_change_compare(before, row, NULL, transition, call);
    return status;
}

static ota_status measure_position(const ota_evolution *e, worker_rows *w, int64_t position,
                                   const analysis_call *call) {
    const int64_t last = e->states - 1, offset = position * e->vocabulary;
    ota_error inner;
    const analysis_call row = {.options = call->options, .error = &inner};
    ota_status status =
        ota_layer_change_row(e->logits[last] + offset, e->vocabulary, w->memory[LAST_STATE],
                             w->scratch, NULL, &w->rows[LAST_STATE], &row);
    status = name_row(status, last, position, &inner, call);
    int before = LAST_STATE;
    for (int64_t l = 0; l <= last && status == OTA_OK; l++) {
        const int slot = l == 0 ? FIRST_STATE : IN_TURNS + (int)(l % 2);
        ota_transition *const transition = l == 0 || e->transitions == NULL
                                               ? NULL
                                               : e->transitions + (l - 1) * e->positions + position;
        ota_prediction *const prediction =
            e->predictions == NULL ? NULL : e->predictions + l * e->positions + position;
        const ota_evolve_row *const earlier = l == 0 ? NULL : &w->rows[before];
        const ota_evolve_row *const first = l == 0 ? NULL : &w->rows[FIRST_STATE];
        if (l > 0 && l == last) {
            status = finish(&w->rows[LAST_STATE], earlier, first, transition, prediction, &row);
        } else {
            const ota_evolve_others others = {earlier, first, &w->rows[LAST_STATE]};
            status =
                ota_layer_change_step(e->logits[l] + offset, &others, w->memory[slot], w->scratch,
                                      &w->rows[slot], transition, prediction, &row);
        }
        status = name_row(status, l, position, &inner, call);
        before = slot;
    }
    return status;
}

static void work_on(void *context, int64_t position, int worker) {
    job *const j = context;
    worker_rows w;
    unsigned char *const memory = j->memory + (size_t)worker * j->worker_bytes;
    for (int k = 0; k < ROWS; k++) w.memory[k] = memory + (size_t)k * j->row_bytes;
    w.scratch = memory + ROWS * j->row_bytes;
    ota_error error;
    const analysis_call own = {.options = j->call->options, .error = &error};
    const ota_status status = measure_position(j->evolution, &w, position, &own);
    if (status == OTA_OK) return;
    ota_mutex_lock(&j->lock);
    if (j->failed_at < 0 || position < j->failed_at) {
        j->failed_at = position;
        j->status = status;
        j->error = error;
    }
    ota_mutex_unlock(&j->lock);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct own_worker {
    job *job;
    int number;
    ota_thread thread;
} own_worker;

static void take_positions(void *argument) {
    const own_worker *const own = argument;
    job *const j = own->job;
    for (;;) {
        ota_mutex_lock(&j->lock);
        const int64_t position = j->next++;
        ota_mutex_unlock(&j->lock);
        if (position >= j->evolution->positions) return;
        work_on(j, position, own->number);
    }
}

/* Fewer threads where they cannot be had. */
static void run_own_threads(job *j, int threads) {
    own_worker workers[MOST_THREADS];
    int started = 1;
    workers[0] = (own_worker){.job = j, .number = 0};
    for (int k = 1; k < threads; k++) {
        workers[started] = (own_worker){.job = j, .number = started};
        if (ota_thread_start(&workers[started].thread, 0, take_positions, &workers[started]))
            started++;
    }
    take_positions(&workers[0]);
    for (int k = 1; k < started; k++) ota_thread_join(&workers[k].thread);
}

static ota_status check_evolution(const ota_evolution *e, const analysis_call *call) {
    ota_status status = analysis_check_size(e->states, 1, "states", call);
    if (status == OTA_OK) status = analysis_check_size(e->positions, 0, "positions", call);
    if (status == OTA_OK && ota_evolve_row_bytes(e->vocabulary) == 0) {
        status = ota_analysis_fail(call, OTA_EINVAL, "vocabulary", "give 1 to 2^24 symbols",
                                   "vocabulary is %" PRId64, e->vocabulary);
    }
    return status;
}

ota_status ota_evolve(const ota_evolution *given, const ota_analysis_options *options,
                      ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_evolution own, *const evolution = &own;
    if (!ota_sized_read(&own, sizeof own, given, given->size))
        return ota_analysis_fail(&call, OTA_EINVAL, "size", "set size to sizeof(ota_evolution)",
                                 "size is %zu, not %zu", given->size, sizeof own);
    ota_status status = check_evolution(evolution, &call);
    if (status != OTA_OK || evolution->positions == 0) return status;
    const ota_executor *const executor = evolution->executor;
    int threads = executor != NULL ? executor->threads : evolution->threads;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    if (executor == NULL && threads > evolution->positions) threads = (int)evolution->positions;
    if (executor != NULL && executor->threads > MOST_THREADS) {
        return ota_analysis_fail(&call, OTA_EINVAL, "executor", "give at most 256 threads",
                                 "the executor has %d threads", executor->threads);
    }
    job j = {.call = &call, .evolution = evolution, .failed_at = -1, .status = OTA_OK};
    j.row_bytes = ota_evolve_row_bytes(evolution->vocabulary);
    j.worker_bytes = ROWS * j.row_bytes + ota_evolve_scratch_bytes(evolution->vocabulary);
    const size_t bytes = ota_evolve_bytes(evolution->vocabulary, threads);
    j.memory = bytes == 0 ? NULL : malloc(bytes);
    if (j.memory == NULL) {
        return ota_analysis_fail(&call, OTA_ENOMEM, "vocabulary", "use fewer threads",
                                 "no memory for %zu bytes of rows", bytes);
    }
    ota_mutex_begin(&j.lock);
    if (executor != NULL) {
        executor->run(executor->user, evolution->positions, work_on, &j);
    } else {
        run_own_threads(&j, threads);
    }
    ota_mutex_end(&j.lock);
    free(j.memory);
    if (j.status != OTA_OK && error != NULL) *error = j.error;
    return j.status;
}
