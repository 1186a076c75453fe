/* ranks_calls.c: calls of one plan on ranks of MPI beside those of one rank with a share of the queries, in one run.
 *
 *     mpirun -n 2 ranks_calls METHOD SIZE TURNS
 *
 * SIZE queries and keys, 5 heads of width 32 in f32, one thread a rank. In every turn rank 0 runs its queries against all
 * keys alone, while the others sleep; then all ranks do so, without a message; then all run the shared problem. Plans
 * are made and run once before, so that memory is at hand. Prints one line of JSON: the least seconds of each, and by how
 * much rank 0's rows are off those of one process that has everything. */
#define _GNU_SOURCE
#include <math.h>
#include <mpi.h>
#include <otattn.h>
#include <otattn_mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADS = 5, WIDTH = 32 };

/* One call again and again: a plan with its arrays. */
typedef struct call {
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_result result;
    ota_communicator communicator;
    ota_plan *plan;
    double least;
} call;

static void stop(const char *sentence) {
    fprintf(stderr, "ranks_calls: %s\n", sentence);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static float *floats(int64_t rows) {
    float *of = malloc((size_t)(HEADS * rows * WIDTH) * sizeof *of);
    if (of == NULL) stop("no memory");
    return of;
}

/* Rows [first, first + rows) of `size` in every head, the same on every rank that asks; nearly normal. */
static ota_array drawn(uint64_t seed, int64_t size, int64_t first, int64_t rows) {
    float *to = floats(rows);
    for (int64_t k = 0; k < HEADS * rows * WIDTH; k++) {
        const int64_t head = k / (rows * WIDTH), rest = k % (rows * WIDTH);
        uint64_t x = seed + (uint64_t)((head * size + first) * WIDTH + rest) * 0x9e3779b97f4a7c15u;
        float sum = 0.0f;
        for (int part = 0; part < 4; part++) {
            x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
            x ^= x >> 31;
            sum += (float)(x >> 40) / (float)(1 << 24) - 0.5f;
        }
        to[k] = sum * 1.73f;
    }
    return ota_array_of(to, OTA_F32, 1, HEADS, rows, WIDTH);
}

static void run(call *c) {
    ota_error error;
    if (ota_forward(c->plan, &c->arrays, &c->result, &error) < 0) stop(error.message);
}

/* Queries [first, first + rows) against keys [first key, first key + keys) of `size`. */
static void prepare(call *c, const char *method, int64_t size, int64_t first, int64_t rows,
                    int64_t first_key, int64_t keys, const ota_communicator *shared) {
    ota_error error;
    *c = (call){.problem.size = sizeof c->problem,
                .options = {.size = sizeof c->options, .threads = 1},
                .arrays.size = sizeof c->arrays,
                .result.size = sizeof c->result,
                .least = INFINITY};
    c->problem.queries = drawn(1, size, first, rows);
    c->problem.keys = drawn(2, size, first_key, keys);
    c->arrays.values = drawn(3, size, first_key, keys);
    c->arrays.out = ota_array_of(floats(rows), OTA_F32, 1, HEADS, rows, WIDTH);
    if (shared != NULL) {
        c->communicator = *shared;
        c->options.communicator = &c->communicator;
    }
    if (ota_method_parse(method, &c->problem, &c->options, &error) < 0 ||
        ota_plan_create(&c->plan, &c->problem, WIDTH, &c->options, &error) < 0)
        stop(error.message);
    run(c);
}

static void release(call *c) {
    ota_plan_free(c->plan);
    const ota_array *const arrays[] = {&c->problem.queries, &c->problem.keys, &c->arrays.values,
                                       &c->arrays.out};
    for (int k = 0; k < 4; k++) free(arrays[k]->data);
}

static void time_call(call *c) {
    const double begun = MPI_Wtime();
    run(c);
    c->least = fmin(c->least, MPI_Wtime() - begun);
}

/* All ranks; those that wait sleep, where a barrier of MPI would look for messages all the while. */
static void meet(void) {
    const struct timespec pause = {.tv_nsec = 200000};
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (;;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done) return;
        nanosleep(&pause, NULL);
    }
}

/* The largest distance of this rank's rows from those of one process. */
static double apart(const call *shared, const char *method, int64_t size, int64_t rows) {
    call whole;
    prepare(&whole, method, size, 0, size, 0, size, NULL);
    const float *ours = shared->arrays.out.data, *theirs = whole.arrays.out.data;
    double most = 0.0;
    for (int64_t head = 0; head < HEADS; head++) {
        for (int64_t k = 0; k < rows * WIDTH; k++)
            most = fmax(most, fabs((double)ours[head * rows * WIDTH + k] -
                                   (double)theirs[head * size * WIDTH + k]));
    }
    release(&whole);
    return most;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 4) stop("wanted METHOD SIZE TURNS");
    const char *method = words[1];
    const int64_t size = strtoll(words[2], NULL, 10), turns = strtoll(words[3], NULL, 10);
    if (size < ranks || size > 1 << 20 || turns < 1) stop("SIZE or TURNS is out of range");
    const int64_t first = size * rank / ranks, rows = size * (rank + 1) / ranks - first;
    ota_error error;
    ota_mpi *engine;
    if (ota_mpi_open(&engine, NULL, 60.0, &error) < 0) stop(error.message);
    const ota_communicator to = ota_mpi_communicator(engine, OTA_SHARES_IN_ORDER);
    call alone, beside, shared;
    prepare(&alone, method, size, first, rows, 0, size, NULL);
    /* The same plan and arrays; its times are its own. */
    beside = alone;
    prepare(&shared, method, size, first, rows, first, rows, &to);
    for (int64_t turn = 0; turn < turns; turn++) {
        meet();
        if (rank == 0) time_call(&alone);
        meet();
        time_call(&beside);
        meet();
        time_call(&shared);
    }
    meet();
    if (rank == 0)
        printf("{\"ranks\": %d, \"alone\": %.6g, \"beside\": %.6g, \"shared\": %.6g, \"messages\": "
               "%lld, "
               "\"apart\": %.3g}\n",
               ranks, alone.least, beside.least, shared.least, (long long)shared.result.messages,
               apart(&shared, method, size, rows));
    release(&alone);
    release(&shared);
    ota_mpi_close(engine);
    MPI_Finalize();
    return 0;
}
