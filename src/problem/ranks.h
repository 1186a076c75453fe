/* ranks.h: what one process of many asks of the others while it solves its rows of a problem, through the caller's
 * communicator. Every call here is made by all ranks in the same order with the same counts; whatever decides how many
 * there are (residuals, lost sums, interruptions) therefore comes out of such a call itself.
 *
 * Nothing is printed or retried: a callback that fails makes every later call fail. */
#ifndef OTA_RANKS_H
#define OTA_RANKS_H

#include "problem/problem.h"

typedef struct ota_ranks {
    ota_communicator to;
    ota_status
        interrupted; /* what the last sum said of all ranks: OTA_OK, OTA_CANCELLED or OTA_TIMEOUT */
    bool failed;     /* for good */
    int code;        /* of the callback that failed, */
    const char *step;    /* in what */
    int64_t head, round; /* at work, for sentences; -1: none */
    double *room;        /* OTA_RANKS_ROOM + what a sum carries besides */
    int64_t messages, bytes;
} ota_ranks;

enum { OTA_RANKS_ROOM = 1 << 14, OTA_RANKS_BESIDES = 8 };

/* values[count] summed over the ranks, in one message up to the room's length, that takes along besides[beside_count], at
 * most OTA_RANKS_BESIDES - 2 more, and whether any rank was interrupted. False: failed. One process: nothing to do. */
bool ota_ranks_sum(const ota_settings *settings, double *values, int64_t count, double *besides,
                   int64_t beside_count, const char *step);
/* The largest over the ranks. */
bool ota_ranks_most(const ota_settings *settings, double *values, int64_t count, const char *step);
/* A sum by itself, of f64 or f32, where the values lie. */
bool ota_ranks_add(ota_ranks *ranks, void *values, int64_t count, ota_type type, const char *step);
/* `mine` of every rank to all + offsets[rank], counts[rank] bytes. */
bool ota_ranks_gather(ota_ranks *ranks, const void *mine, void *all, const int64_t *counts,
                      const int64_t *offsets, const char *step);
/* To the next rank of the ring, and from the one before. */
bool ota_ranks_pass_on(ota_ranks *ranks, const void *given, int64_t bytes, void *wanted,
                       int64_t wanted_bytes, const char *step);

/* What the columns say every rank knows. Where the parts of all are summed the first alone tells it. */
static inline bool ota_ranks_tells(const ota_settings *settings) {
    return settings->ranks == NULL || settings->ranks->to.rank == 0;
}

/* Head `head` is at work from here on, in round `round`; -1: none. What failed keeps its own. */
static inline void ota_ranks_at(ota_ranks *ranks, int64_t head, int64_t round) {
    if (ranks == NULL || ranks->failed) return;
    ranks->head = head;
    ranks->round = round;
}

/* The largest of each flag, of which there is one more, for whether any rank was interrupted: OTA_OK, what interrupted it, or
 * OTA_ECOMM, and then the flags are of work that ended early. */
ota_status ota_ranks_most_or_end(const ota_settings *settings, double *flags, int64_t count,
                                 const char *step);
/* OTA_OK to go on; the same on all ranks after a sum. One process: ota_interrupted. */
ota_status ota_interrupted_together(const ota_settings *settings);

/* Fills `error`: which rank, in what, with which code. OTA_ECOMM. */
ota_status ota_ranks_refuse(const ota_ranks *ranks, ota_error *error);
/* Does what this rank found hold for all? OTA_OK everywhere, or a refusal everywhere: its own sentence on the ranks that
 * have one. Needs no memory. */
ota_status ota_ranks_agree(ota_ranks *ranks, ota_status status, ota_error *error);
/* The same at the beginning of a run, in one message with whether any rank was interrupted before and with what the ranks
 * want of it, a bit for each wish, at most 52: *differ are bits that are not the same on all. 0 with a refusal. */
ota_status ota_ranks_agree_on(const ota_settings *settings, ota_status status, uint64_t wishes,
                              uint64_t *differ, ota_error *error);

#endif
