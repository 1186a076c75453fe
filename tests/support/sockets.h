/* sockets.h: ranks that are processes, and a communicator over a pair of sockets between every two of them. A message goes
 * from every rank to all others at once; sums are made in the order of the ranks, so that all of them get the same bits. A
 * message ends with an error where a peer is gone, or where it takes longer than `seconds`.
 *
 * A rank can be told to be lost in its k-th message: before it, when it has sent half of it, or after it. */
#ifndef TESTS_SOCKETS_H
#define TESTS_SOCKETS_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "otattn.h"

enum { SOCKETS_MOST = 4, SOCKETS_GONE = 104, SOCKETS_LATE = 110 };

typedef enum socket_loss { LOST_NEVER, LOST_BEFORE, LOST_HALFWAY, LOST_AFTER } socket_loss;

typedef struct socket_rank {
    ota_communicator to;
    int peer[SOCKETS_MOST]; /* a socket to each other rank */
    double seconds;         /* a message may take */
    int64_t messages;
    socket_loss loss;
    int64_t lost_at; /* which message, from 1 */
    int signal;      /* how it is lost: SIGKILL, or SIGSTOP for one that only answers no more */
} socket_rank;

static inline int socket_ranks(const socket_rank *r) {
    return r->to.ranks < SOCKETS_MOST ? r->to.ranks : SOCKETS_MOST;
}

static inline double socket_now(void) {
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* How far the message between this rank and another one is, in bytes. */
typedef struct socket_way {
    const char *out;
    char *in;
    size_t out_left, in_left;
} socket_way;

static inline int socket_send(int to, socket_way *way) {
    const ssize_t sent = send(to, way->out, way->out_left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR ? 0 : SOCKETS_GONE;
    way->out += sent;
    way->out_left -= (size_t)sent;
    return 0;
}

static inline int socket_receive(int from, socket_way *way) {
    const ssize_t got = recv(from, way->in, way->in_left, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR ? 0 : SOCKETS_GONE;
    if (got == 0) return SOCKETS_GONE;
    way->in += got;
    way->in_left -= (size_t)got;
    return 0;
}

/* All ways to their ends. */
static inline int socket_exchange(socket_rank *r, socket_way *ways) {
    const double late = socket_now() + r->seconds;
    for (;;) {
        struct pollfd waits[SOCKETS_MOST];
        int owner[SOCKETS_MOST], count = 0;
        for (int k = 0; k < socket_ranks(r); k++) {
            const short events =
                (short)((ways[k].out_left > 0 ? POLLOUT : 0) | (ways[k].in_left > 0 ? POLLIN : 0));
            if (k == r->to.rank || events == 0) continue;
            owner[count] = k;
            waits[count++] = (struct pollfd){.fd = r->peer[k], .events = events};
        }
        if (count == 0) return 0;
        const double left = late - socket_now();
        if (left <= 0.0) return SOCKETS_LATE;
        (void)poll(waits, (nfds_t)count, 1 + (int)(1e3 * left));
        for (int k = 0; k < count; k++) {
            socket_way *way = &ways[owner[k]];
            int failed = 0;
            if ((waits[k].revents & POLLOUT) != 0) failed = socket_send(waits[k].fd, way);
            if (failed == 0 && (waits[k].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
                failed = way->in_left > 0 ? socket_receive(waits[k].fd, way) : SOCKETS_GONE;
            if (failed != 0) return failed;
        }
    }
}

/* mine[size] to all others, theirs[k][sizes[k]] from rank k. */
static inline int socket_message(socket_rank *r, const void *mine, size_t size, char *const *theirs,
                                 const size_t *sizes) {
    socket_way ways[SOCKETS_MOST] = {{0}};
    const bool lost = ++r->messages == r->lost_at;
    if (lost && r->loss == LOST_BEFORE) (void)raise(r->signal);
    const bool half = lost && r->loss == LOST_HALFWAY;
    for (int k = 0; k < socket_ranks(r); k++) {
        if (k == r->to.rank) continue;
        ways[k] = (socket_way){.out = mine, .out_left = half ? size / 2 : size};
        if (half) continue;
        ways[k].in = theirs[k];
        ways[k].in_left = sizes[k];
    }
    const int failed = socket_exchange(r, ways);
    if (half || (lost && r->loss == LOST_AFTER)) (void)raise(r->signal);
    return failed;
}

static inline int socket_all_reduce(void *user, void *values, int64_t count, ota_type type,
                                    ota_reduction reduction) {
    socket_rank *r = user;
    const size_t size = (size_t)count * ota_type_bytes(type);
    char *room = malloc(size * SOCKETS_MOST + 1), *theirs[SOCKETS_MOST] = {NULL};
    size_t sizes[SOCKETS_MOST] = {0};
    for (int k = 0; k < socket_ranks(r); k++) {
        theirs[k] = room + (size_t)k * size;
        sizes[k] = size;
    }
    const int failed = socket_message(r, values, size, theirs, sizes);
    memcpy(theirs[r->to.rank], values, size);
    for (int64_t i = 0; i < count && failed == 0; i++) {
        double all = 0.0;
        for (int k = 0; k < socket_ranks(r); k++) {
            const double one = type == OTA_F64
                                   ? ((const double *)(const void *)theirs[k])[i]
                                   : (double)((const float *)(const void *)theirs[k])[i];
            all = k == 0 ? one : reduction == OTA_REDUCE_SUM ? all + one : one > all ? one : all;
        }
        if (type == OTA_F64)
            ((double *)values)[i] = all;
        else
            ((float *)values)[i] = (float)all;
    }
    free(room);
    return failed;
}

static inline int socket_all_gather(void *user, const void *mine, void *all, const int64_t *counts,
                                    const int64_t *offsets) {
    socket_rank *r = user;
    char *theirs[SOCKETS_MOST] = {NULL};
    size_t sizes[SOCKETS_MOST] = {0};
    for (int k = 0; k < socket_ranks(r); k++) {
        theirs[k] = (char *)all + offsets[k];
        sizes[k] = (size_t)counts[k];
    }
    const size_t size = sizes[r->to.rank];
    const int failed = socket_message(r, mine, size, theirs, sizes);
    if (failed == 0 && size > 0) memcpy(theirs[r->to.rank], mine, size);
    return failed;
}

/* Sockets between every two of `ranks`; false: the system has none left. */
static inline bool sockets_open(socket_rank *ranks, int count, double seconds) {
    for (int k = 0; k < count; k++) {
        ranks[k] = (socket_rank){.seconds = seconds, .signal = SIGKILL};
        ranks[k].to = (ota_communicator){.size = sizeof(ota_communicator),
                                         .rank = k,
                                         .ranks = count,
                                         .all_reduce = socket_all_reduce,
                                         .all_gather = socket_all_gather,
                                         .user = &ranks[k]};
    }
    for (int k = 0; k < count; k++) {
        for (int other = 0; other < k; other++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return false;
            ranks[k].peer[other] = pair[0];
            ranks[other].peer[k] = pair[1];
        }
    }
    return true;
}

/* Closes the sockets of all ranks but `keep` (-1: of all), as every process does: an end that another process holds open
 * would hide that its owner is gone. */
static inline void sockets_close(const socket_rank *ranks, int count, int keep) {
    for (int k = 0; k < count; k++) {
        for (int other = 0; other < count && k != keep; other++) {
            if (other != k) (void)close(ranks[k].peer[other]);
        }
    }
}

#endif
