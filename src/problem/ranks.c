/* Sums, maxima and gathers over the ranks of a plan (ranks.h). */
#include "base/base.h"
#include "problem/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/integers.h"

/* A step that went wrong is the first one told of. */
static bool note(ota_ranks *ranks, int code, size_t bytes, const char *step) {
    ranks->messages++;
    ranks->bytes += (int64_t)bytes;
    if (code == 0) return true;
    ranks->failed = true;
    ranks->code = code;
    ranks->step = step;
    return false;
}

static bool reduce(ota_ranks *ranks, void *values, int64_t count, ota_type type,
                   ota_reduction reduction, const char *step) {
    if (ranks->failed) return false;
    const int code = ranks->to.all_reduce(ranks->to.user, values, count, type, reduction);
    return note(ranks, code, (size_t)count * ota_type_bytes(type), step);
}

bool ota_ranks_sum(const ota_settings *settings, double *values, int64_t count, double *besides,
                   int64_t beside_count, const char *step) {
    ota_ranks *ranks = settings->ranks;
    if (ranks == NULL) return true;
    int64_t first = 0;
    bool last;
    do {
        const int64_t piece = ota_int_min(count - first, OTA_RANKS_ROOM);
        last = first + piece == count;
        double *more = ranks->room + piece;
        if (piece > 0) memcpy(ranks->room, values + first, (size_t)piece * sizeof *values);
        if (last) {
            const ota_status here = ota_interrupted(settings);
            more[0] = here == OTA_CANCELLED ? 1.0 : 0.0;
            more[1] = here == OTA_TIMEOUT ? 1.0 : 0.0;
            for (int64_t k = 0; k < beside_count; k++) more[2 + k] = besides[k];
        }
        const int64_t sent = last ? piece + 2 + beside_count : piece;
        if (!reduce(ranks, ranks->room, sent, OTA_F64, OTA_REDUCE_SUM, step)) return false;
        if (piece > 0) memcpy(values + first, ranks->room, (size_t)piece * sizeof *values);
        first += piece;
        if (last) {
            ranks->interrupted = more[0] > 0.0   ? OTA_CANCELLED
                                 : more[1] > 0.0 ? OTA_TIMEOUT
                                                 : OTA_OK;
            for (int64_t k = 0; k < beside_count; k++) besides[k] = more[2 + k];
        }
    } while (!last);
    return true;
}

bool ota_ranks_most(const ota_settings *settings, double *values, int64_t count, const char *step) {
    ota_ranks *ranks = settings->ranks;
    return ranks == NULL || reduce(ranks, values, count, OTA_F64, OTA_REDUCE_MAX, step);
}

/* In the order in which one rank's counts before another's. */
static const ota_status interruptions[] = {OTA_OK, OTA_TIMEOUT, OTA_CANCELLED};

static double interruption_of(const ota_settings *settings) {
    const ota_status here = ota_interrupted(settings);
    return here == OTA_CANCELLED ? 2.0 : here == OTA_TIMEOUT ? 1.0 : 0.0;
}

ota_status ota_ranks_most_or_end(const ota_settings *settings, double *flags, int64_t count,
                                 const char *step) {
    flags[count] = interruption_of(settings);
    if (!ota_ranks_most(settings, flags, count + 1, step)) return OTA_ECOMM;
    if (settings->ranks != NULL) settings->ranks->interrupted = interruptions[(int)flags[count]];
    return ota_interrupted_together(settings);
}

bool ota_ranks_add(ota_ranks *ranks, void *values, int64_t count, ota_type type, const char *step) {
    return reduce(ranks, values, count, type, OTA_REDUCE_SUM, step);
}

bool ota_ranks_gather(ota_ranks *ranks, const void *mine, void *all, const int64_t *counts,
                      const int64_t *offsets, const char *step) {
    if (ranks->failed) return false;
    const int code = ranks->to.all_gather(ranks->to.user, mine, all, counts, offsets);
    return note(ranks, code, (size_t)counts[ranks->to.rank], step);
}

bool ota_ranks_pass_on(ota_ranks *ranks, const void *given, int64_t bytes, void *wanted,
                       int64_t wanted_bytes, const char *step) {
    if (ranks->failed) return false;
    const int rank = ranks->to.rank, count = ranks->to.ranks;
    const int code = ranks->to.send_receive(ranks->to.user, (rank + 1) % count, given, bytes,
                                            (rank + count - 1) % count, wanted, wanted_bytes);
    return note(ranks, code, (size_t)bytes, step);
}

ota_status ota_interrupted_together(const ota_settings *settings) {
    const ota_ranks *ranks = settings->ranks;
    if (ranks == NULL) return ota_interrupted(settings);
    return ranks->failed ? OTA_ECOMM : ranks->interrupted;
}

ota_status ota_ranks_refuse(const ota_ranks *ranks, ota_error *error) {
    char where[64] = "";
    if (ranks->head >= 0 && ranks->round >= 0)
        (void)ota_snprintf(where, sizeof where, ", head %" PRId64 ", round %" PRId64, ranks->head,
                           ranks->round);
    else if (ranks->head >= 0)
        (void)ota_snprintf(where, sizeof where, ", head %" PRId64, ranks->head);
    return ota_fail(error, OTA_ECOMM, "communicator",
                    "see whether every rank made the call and is alive, then make new plans",
                    "rank %d of %d: the communicator answered %d in %s%s", ranks->to.rank,
                    ranks->to.ranks, ranks->code, ranks->step, where);
}

/* told[0] is this rank's refusal; what lies behind it becomes the largest of all ranks. */
static ota_status agree(ota_ranks *ranks, ota_status status, double *told, int count,
                        ota_error *error) {
    enum { STEP = 4096 }; /* above every status */
    const int all = ranks->to.ranks, before = all - ranks->to.rank;
    /* The first rank that has something to say wins. */
    told[0] = status < OTA_OK ? (double)STEP * before - (double)status : 0.0;
    if (!reduce(ranks, told, count, OTA_F64, OTA_REDUCE_MAX, "agreeing on the arguments"))
        return ota_ranks_refuse(ranks, error);
    if (status < OTA_OK || !(told[0] > 0.0)) return status;
    const int distance = (int)(told[0] / (double)STEP);
    const ota_status theirs = (ota_status) - (int)(told[0] - (double)STEP * distance);
    return ota_fail(error, OTA_EMISMATCH, "communicator", "see that rank's own sentence",
                    "rank %d refused the call with '%s'", all - distance, ota_status_word(theirs));
}

ota_status ota_ranks_agree(ota_ranks *ranks, ota_status status, ota_error *error) {
    double refusal;
    return agree(ranks, status, &refusal, 1, error);
}

ota_status ota_ranks_agree_on(const ota_settings *settings, ota_status status, uint64_t wishes,
                              uint64_t *differ, ota_error *error) {
    enum { REFUSAL, INTERRUPTED, MOST, LEAST, TOLD };
    double told[TOLD] = {[INTERRUPTED] = interruption_of(settings),
                         [MOST] = (double)wishes,
                         [LEAST] = -(double)wishes};
    *differ = 0;
    status = agree(settings->ranks, status, told, TOLD, error);
    if (status != OTA_OK) return status;
    settings->ranks->interrupted = interruptions[(int)told[INTERRUPTED]];
    *differ = (uint64_t)told[MOST] ^ (uint64_t)-told[LEAST];
    return OTA_OK;
}
