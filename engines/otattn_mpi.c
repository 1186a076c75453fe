/* The communicator over MPI: non-blocking collectives that are asked for until a deadline, because a blocking one would wait
 * for a lost rank for ever.
 *
 * This folder: communicators (ota_communicator of otattn.h) over what carries messages; that of torch.distributed
 * is python/otattn/distributed.py. May call: public headers. */
#define _POSIX_C_SOURCE 200809L

#include "otattn_mpi.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PART = 1 << 28, TIMED_OUT = -1 }; /* elements of one message: MPI counts in int */

struct ota_mpi {
    MPI_Comm comm;
    double timeout;
    int failed;
    int *counts, *places; /* [ranks] */
};

static ota_status fail(ota_error *error, ota_status status, const char *field, const char *message,
                       const char *hint) {
    if (error == NULL) return status;
    (void)snprintf(error->field, sizeof error->field, "%s", field);
    (void)snprintf(error->message, sizeof error->message, "%s", message);
    (void)snprintf(error->hint, sizeof error->hint, "%s", hint);
    return status;
}

static double now(void) {
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* Waits for a request that `code` is the beginning of. */
static int finish(ota_mpi *engine, int code, MPI_Request *request) {
    const double late = now() + engine->timeout;
    int done = 0;
    while (code == MPI_SUCCESS && done == 0) {
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done != 0 || code != MPI_SUCCESS) break;
        if (now() > late) code = TIMED_OUT;
        (void)sched_yield();
    }
    engine->failed |= code != MPI_SUCCESS;
    return code;
}

static int all_reduce(void *user, void *values, int64_t count, ota_type type,
                      ota_reduction reduction) {
    ota_mpi *engine = user;
    const MPI_Datatype kind = type == OTA_F64 ? MPI_DOUBLE : MPI_FLOAT;
    const MPI_Op op = reduction == OTA_REDUCE_SUM ? MPI_SUM : MPI_MAX;
    for (int64_t at = 0; at < count; at += PART) {
        const int part = (int)(count - at < PART ? count - at : PART);
        char *from = (char *)values + (size_t)at * ota_type_bytes(type);
        MPI_Request request;
        const int code = MPI_Iallreduce(MPI_IN_PLACE, from, part, kind, op, engine->comm, &request);
        const int ended = finish(engine, code, &request);
        if (ended != MPI_SUCCESS) return ended;
    }
    return 0;
}

/* Pieces too long for one message go from each rank to all. */
static int spread(ota_mpi *engine, int rank, const void *mine, char *all, const int64_t *counts,
                  const int64_t *offsets, int ranks) {
    if (counts[rank] > 0) memcpy(all + offsets[rank], mine, (size_t)counts[rank]);
    for (int from = 0; from < ranks; from++) {
        for (int64_t at = 0; at < counts[from]; at += PART) {
            const int part = (int)(counts[from] - at < PART ? counts[from] - at : PART);
            MPI_Request request;
            const int code =
                MPI_Ibcast(all + offsets[from] + at, part, MPI_BYTE, from, engine->comm, &request);
            const int ended = finish(engine, code, &request);
            if (ended != MPI_SUCCESS) return ended;
        }
    }
    return 0;
}

static int all_gather(void *user, const void *mine, void *all, const int64_t *counts,
                      const int64_t *offsets) {
    ota_mpi *engine = user;
    int rank, ranks;
    (void)MPI_Comm_rank(engine->comm, &rank);
    (void)MPI_Comm_size(engine->comm, &ranks);
    for (int k = 0; k < ranks; k++) {
        if (counts[k] > PART || offsets[k] > INT_MAX)
            return spread(engine, rank, mine, all, counts, offsets, ranks);
        engine->counts[k] = (int)counts[k];
        engine->places[k] = (int)offsets[k];
    }
    MPI_Request request;
    const int code = MPI_Iallgatherv(mine, engine->counts[rank], MPI_BYTE, all, engine->counts,
                                     engine->places, MPI_BYTE, engine->comm, &request);
    return finish(engine, code, &request);
}

/* A message that comes late must not find its place. */
static void forget(MPI_Request *receives) {
    if (*receives == MPI_REQUEST_NULL) return;
    (void)MPI_Cancel(receives);
    (void)MPI_Wait(receives, MPI_STATUS_IGNORE);
}

/* Parts on both sides at once; either side may have none. */
static int send_receive(void *user, int to, const void *given, int64_t bytes, int from,
                        void *wanted, int64_t wanted_bytes) {
    ota_mpi *engine = user;
    for (int64_t at = 0; at < bytes || at < wanted_bytes; at += PART) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        const int64_t out = bytes - at < PART ? bytes - at : PART;
        const int64_t in = wanted_bytes - at < PART ? wanted_bytes - at : PART;
        int code = MPI_SUCCESS;
        if (in > 0)
            code = MPI_Irecv((char *)wanted + at, (int)in, MPI_BYTE, from, 0, engine->comm,
                             &requests[0]);
        if (out > 0 && code == MPI_SUCCESS)
            code = MPI_Isend((const char *)given + at, (int)out, MPI_BYTE, to, 0, engine->comm,
                             &requests[1]);
        for (int k = 0; k < 2; k++) {
            code = finish(engine, code, &requests[k]);
            if (code == MPI_SUCCESS) continue;
            forget(&requests[0]);
            return code;
        }
    }
    return 0;
}

ota_status ota_mpi_open(ota_mpi **out, const void *comm, double timeout, ota_error *error) {
    int begun = 0, ended = 0, ranks = 0;
    *out = NULL;
    (void)MPI_Initialized(&begun);
    (void)MPI_Finalized(&ended);
    if (!begun || ended)
        return fail(error, OTA_EINVAL, "comm", "MPI is not running", "call MPI_Init first");
    if (!(timeout > 0.0))
        return fail(error, OTA_EINVAL, "timeout", "timeout is not more than 0 seconds",
                    "use 60, or more for slow ranks");
    ota_mpi *engine = calloc(1, sizeof *engine);
    const MPI_Comm from = comm != NULL ? *(const MPI_Comm *)comm : MPI_COMM_WORLD;
    (void)MPI_Comm_size(from, &ranks);
    if (engine != NULL) {
        engine->timeout = timeout;
        engine->counts = calloc((size_t)ranks, sizeof *engine->counts);
        engine->places = calloc((size_t)ranks, sizeof *engine->places);
    }
    if (engine == NULL || engine->counts == NULL || engine->places == NULL) {
        if (engine != NULL) free(engine->counts);
        free(engine);
        return fail(error, OTA_ENOMEM, "", "no memory for the engine", "");
    }
    const int code = MPI_Comm_dup(from, &engine->comm);
    if (code != MPI_SUCCESS) {
        engine->failed = 1;
        ota_mpi_close(engine);
        return fail(error, OTA_ECOMM, "comm", "MPI could not duplicate the communicator",
                    "see whether every rank is alive");
    }
    (void)MPI_Comm_set_errhandler(engine->comm, MPI_ERRORS_RETURN);
    *out = engine;
    return OTA_OK;
}

ota_communicator ota_mpi_communicator(ota_mpi *engine, ota_shares shares) {
    ota_communicator to = {.size = sizeof to,
                           .shares = shares,
                           .all_reduce = all_reduce,
                           .all_gather = all_gather,
                           .user = engine,
                           .send_receive = send_receive};
    (void)MPI_Comm_rank(engine->comm, &to.rank);
    (void)MPI_Comm_size(engine->comm, &to.ranks);
    return to;
}

void ota_mpi_close(ota_mpi *engine) {
    if (engine == NULL) return;
    if (!engine->failed) (void)MPI_Comm_free(&engine->comm);
    free(engine->counts);
    free(engine->places);
    free(engine);
}
