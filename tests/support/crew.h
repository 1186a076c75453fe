/* crew.h: ranks that are threads of the test, with a communicator of shared memory between them. A sum is made in the order
 * of the ranks, so that all of them get the same bits. A rank can be told to fail at its k-th message: it says so and leaves,
 * and the others' messages fail, as after a time-out. Include after cmocka.h. */
#ifndef TESTS_CREW_H
#define TESTS_CREW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "otattn.h"

enum { CREW_MOST = 8 };

typedef struct crew crew;

typedef struct crew_rank {
    crew *all;
    ota_communicator to;
    void (*body)(struct crew_rank *rank, void *context);
    void *context;
    int64_t messages, bytes; /* counted here, to compare with the library's own count */
    int64_t fail_at;         /* 0: never */
    void *copy; /* of what the last message gave: others may read it when this rank has gone */
} crew_rank;

struct crew {
    int ranks;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int waiting;
    int64_t generation;
    bool dead;
    void *given[CREW_MOST];
    crew_rank rank[CREW_MOST];
};

/* All ranks have come, or one is gone. */
static inline int crew_meet(crew *c) {
    (void)pthread_mutex_lock(&c->lock);
    const int64_t now = c->generation;
    if (++c->waiting == c->ranks) {
        c->waiting = 0;
        c->generation++;
        (void)pthread_cond_broadcast(&c->turn);
    }
    while (c->generation == now && !c->dead) (void)pthread_cond_wait(&c->turn, &c->lock);
    const int lost = c->generation == now;
    (void)pthread_mutex_unlock(&c->lock);
    return lost ? 110 : 0;
}

static inline int crew_count(crew_rank *r, int64_t bytes) {
    r->messages++;
    r->bytes += bytes;
    if (r->messages != r->fail_at) return 0;
    (void)pthread_mutex_lock(&r->all->lock);
    r->all->dead = true;
    (void)pthread_cond_broadcast(&r->all->turn);
    (void)pthread_mutex_unlock(&r->all->lock);
    return 7;
}

/* Lays a copy out for the others and waits for theirs. */
static inline int crew_give(crew_rank *r, const void *values, size_t bytes) {
    free(r->copy);
    r->copy = malloc(bytes + 1);
    if (bytes > 0) memcpy(r->copy, values, bytes);
    r->all->given[r->to.rank] = r->copy;
    return crew_meet(r->all);
}

static inline double crew_number(const void *values, ota_type type, int64_t k) {
    return type == OTA_F64 ? ((const double *)values)[k] : (double)((const float *)values)[k];
}

static inline int crew_all_reduce(void *user, void *values, int64_t count, ota_type type,
                                  ota_reduction reduction) {
    crew_rank *r = user;
    crew *c = r->all;
    const size_t bytes = (size_t)count * ota_type_bytes(type);
    int failed = crew_count(r, (int64_t)bytes);
    if (failed != 0) return failed;
    failed = crew_give(r, values, bytes);
    if (failed != 0) return failed;
    void *found = malloc(bytes + 1);
    for (int64_t k = 0; k < count; k++) {
        double all = crew_number(c->given[0], type, k);
        for (int other = 1; other < c->ranks; other++) {
            const double one = crew_number(c->given[other], type, k);
            all = reduction == OTA_REDUCE_SUM ? all + one : one > all ? one : all;
        }
        if (type == OTA_F64)
            ((double *)found)[k] = all;
        else
            ((float *)found)[k] = (float)all;
    }
    failed = crew_meet(c);
    if (failed == 0) memcpy(values, found, bytes);
    free(found);
    return failed;
}

static inline int crew_all_gather(void *user, const void *mine, void *all, const int64_t *counts,
                                  const int64_t *offsets) {
    crew_rank *r = user;
    crew *c = r->all;
    int failed = crew_count(r, counts[r->to.rank]);
    if (failed != 0) return failed;
    failed = crew_give(r, mine, (size_t)counts[r->to.rank]);
    for (int other = 0; other < c->ranks && failed == 0; other++)
        memcpy((char *)all + offsets[other], c->given[other], (size_t)counts[other]);
    return failed != 0 ? failed : crew_meet(c);
}

/* Everybody's copy lies open until all have taken what is theirs. */
static inline int crew_send_receive(void *user, int to, const void *given, int64_t bytes, int from,
                                    void *wanted, int64_t wanted_bytes) {
    crew_rank *r = user;
    crew *c = r->all;
    (void)to;
    int failed = crew_count(r, bytes);
    if (failed != 0) return failed;
    failed = crew_give(r, given, (size_t)bytes);
    if (failed == 0 && wanted_bytes > 0) memcpy(wanted, c->given[from], (size_t)wanted_bytes);
    return failed != 0 ? failed : crew_meet(c);
}

static inline void *crew_thread(void *argument) {
    crew_rank *r = argument;
    r->body(r, r->context);
    return NULL;
}

static inline crew *crew_of(int ranks, ota_shares shares) {
    crew *c = calloc(1, sizeof *c);
    c->ranks = ranks;
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->turn, NULL);
    for (int k = 0; k < ranks; k++) {
        c->rank[k].all = c;
        c->rank[k].to = (ota_communicator){.size = sizeof(ota_communicator),
                                           .rank = k,
                                           .ranks = ranks,
                                           .shares = shares,
                                           .all_reduce = crew_all_reduce,
                                           .all_gather = crew_all_gather,
                                           .user = &c->rank[k],
                                           .send_receive = crew_send_receive};
    }
    return c;
}

/* Runs the body on every rank. A body may only note what it finds: cmocka's assertions belong to the test's thread. */
static inline void crew_run(crew *c, void (*body)(crew_rank *rank, void *context), void *context) {
    pthread_t threads[CREW_MOST];
    for (int k = 0; k < c->ranks; k++) {
        c->rank[k].body = body;
        c->rank[k].context = context;
        (void)pthread_create(&threads[k], NULL, crew_thread, &c->rank[k]);
    }
    for (int k = 0; k < c->ranks; k++) (void)pthread_join(threads[k], NULL);
}

static inline void crew_free(crew *c) {
    for (int k = 0; k < c->ranks; k++) free(c->rank[k].copy);
    (void)pthread_cond_destroy(&c->turn);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

/* The body on ranks that nobody looks at before or after. */
static inline void crew_once(int ranks, ota_shares shares,
                             void (*body)(crew_rank *rank, void *context), void *context) {
    crew *c = crew_of(ranks, shares);
    crew_run(c, body, context);
    crew_free(c);
}

/* Whole-problem numbers of the rows that a rank holds, of shares[ranks] of which firsts[ranks] are first pieces; returns how
 * many. */
static inline int64_t crew_rows_of_pieces(const int64_t *shares, const int64_t *firsts, int ranks,
                                          int rank, int64_t *rows) {
    int64_t at = 0, count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < ranks; k++) {
            const int owner = pass == 0 ? k : ranks - 1 - k;
            const int64_t piece = pass == 0 ? firsts[owner] : shares[owner] - firsts[owner];
            for (int64_t i = 0; i < piece && owner == rank; i++) rows[count++] = at + i;
            at += piece;
        }
    }
    return count;
}

/* Of pieces that are halves in zigzag order. */
static inline int64_t crew_rows(const int64_t *shares, int ranks, int rank, ota_shares order,
                                int64_t *rows) {
    int64_t firsts[CREW_MOST];
    for (int k = 0; k < ranks; k++)
        firsts[k] = order == OTA_SHARES_ZIGZAG ? (shares[k] + 1) / 2 : shares[k];
    return crew_rows_of_pieces(shares, firsts, ranks, rank, rows);
}

#endif
