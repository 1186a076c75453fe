/* Sums, maxima and gathers over the ranks of a plan (ranks.h). */
#include "problem/ranks.h"

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
        memcpy(ranks->room, values + first, (size_t)piece * sizeof *values);
        if (last) {
            const ota_status here = ota_interrupted(settings);
            more[0] = here == OTA_CANCELLED ? 1.0 : 0.0;
            more[1] = here == OTA_TIMEOUT ? 1.0 : 0.0;
            for (int64_t k = 0; k < beside_count; k++) more[2 + k] = besides[k];
        }
        const int64_t sent = last ? piece + 2 + beside_count : piece;
        if (!reduce(ranks, ranks->room, sent, OTA_F64, OTA_REDUCE_SUM, step)) return false;
        memcpy(values + first, ranks->room, (size_t)piece * sizeof *values);
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

bool ota_ranks_add(ota_ranks *ranks, void *values, int64_t count, ota_type type, const char *step) {
    return reduce(ranks, values, count, type, OTA_REDUCE_SUM, step);
}

bool ota_ranks_gather(ota_ranks *ranks, const void *mine, void *all, const int64_t *counts,
                      const int64_t *offsets, const char *step) {
    if (ranks->failed) return false;
    const int code = ranks->to.all_gather(ranks->to.user, mine, all, counts, offsets);
    return note(ranks, code, (size_t)counts[ranks->to.rank], step);
}

ota_status ota_interrupted_together(const ota_settings *settings) {
    const ota_ranks *ranks = settings->ranks;
    if (ranks == NULL) return ota_interrupted(settings);
    return ranks->failed ? OTA_ECOMM : ranks->interrupted;
}

ota_status ota_ranks_refuse(const ota_ranks *ranks, ota_error *error) {
    return ota_fail(error, OTA_ECOMM, "communicator",
                    "see whether every rank made the call and is alive, then make new plans",
                    "rank %d of %d: the communicator answered %d in %s", ranks->to.rank,
                    ranks->to.ranks, ranks->code, ranks->step);
}
