/* rounds.h: the loop of Sinkhorn's rounds. What a round works on is a domain: stored scores (sinkhorn.c) or a stored
 * kernel (stored_rounds.c), each with the schedules, lengthened steps and extrapolations that it knows.
 *
 *     pass      row update, then the column sums c of the plan that would be returned if the loop ended here
 *     judge     to a tolerance: the residual of c, and whether that is enough, too slow or too late
 *     tick      tells of the round; cancelled or late?
 *     update    column update */
#ifndef OTA_ROUNDS_H
#define OTA_ROUNDS_H

#include <math.h>

#include "solver.h"

/* What a method's loop came to; the rounds are in head->rounds and g in head->g. */
typedef enum ota_outcome {
    OTA_GO_ON,
    OTA_MET,                /* the residual fell below the tolerance */
    OTA_RAN,                /* the fixed number of rounds was run */
    OTA_SLOW,               /* gave up early: another method should go on */
    OTA_SPENT,              /* out of rounds, or no way down */
    OTA_STOPPED,            /* cancelled or past the deadline: see `stopped` */
    OTA_HOPELESS,           /* unusable pairs or no feasible plan: the head's sentence says so */
    OTA_WARM,               /* f32 has come as near as it can, f64 goes on from there */
    OTA_LOST,               /* sums left the range of the type */
    OTA_OUTCOME_PRECISION,  /* the type's arithmetic cannot certify what is asked */
    OTA_OUTCOME_INFEASIBLE, /* some mass has no place */
    OTA_OUTCOME_NONFINITE   /* scores that are NaN or infinite */
} ota_outcome;

enum {
    OTA_ROUNDS_SETTLED = 6, /* rounds before the rate says anything */
    OTA_ROUNDS_STALL = 50   /* less than 10 % in so many rounds asks for the reason */
};

/* How far rounds have come. Before the first: ota_rounds_begin. */
typedef struct ota_rounds {
    int64_t round;
    double residual, last; /* of the last two rounds */
    double rate;           /* their ratio */
    double best, marker;   /* the least so far, and when the loop last looked */
} ota_rounds;

static inline ota_rounds ota_rounds_begin(int64_t round) {
    return (ota_rounds){.round = round,
                        .residual = INFINITY,
                        .last = INFINITY,
                        .best = INFINITY,
                        .marker = INFINITY};
}

/* The residual of one more round. */
static inline void ota_rounds_note(ota_rounds *r, double residual) {
    r->last = r->residual;
    r->residual = residual;
    r->rate = r->last > 0.0 ? residual / r->last : 0.0;
}

/* Rounds still needed at the measured rate. */
static inline double ota_rounds_ahead(const ota_rounds *r, double tolerance) {
    if (!(r->rate < 1.0)) return INFINITY;
    return r->rate > 0.0 ? log(tolerance / r->residual) / log(r->rate) : 0.0;
}

/* Has the best residual fallen by less than 10 % since the loop last asked? */
static inline bool ota_rounds_stand_still(ota_rounds *r) {
    static const double stall_ratio = 0.9;
    const bool still = r->best > stall_ratio * r->marker;
    r->marker = r->best;
    return still;
}

typedef struct ota_round_passes {
    ota_outcome (*pass)(void *domain); /* OTA_RAN instead where the rounds are done */
    ota_outcome (*judge)(void *domain);
    ota_status (*tick)(void *domain);
    ota_outcome (*update)(void *domain);
} ota_round_passes;

/* Rounds from rounds->round on until one says that they end. */
static inline ota_outcome ota_rounds_run(const ota_round_passes *passes, void *domain,
                                         ota_rounds *rounds, ota_status *stopped) {
    for (;; rounds->round++) {
        ota_outcome end = passes->pass(domain);
        if (end == OTA_GO_ON) end = passes->judge(domain);
        if (end != OTA_GO_ON) return end;
        *stopped = passes->tick(domain);
        if (*stopped != OTA_OK) return OTA_STOPPED;
        end = passes->update(domain);
        if (end != OTA_GO_ON) return end;
    }
}

#endif
