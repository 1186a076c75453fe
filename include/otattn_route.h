/* otattn_route.h: tokens to experts. Every method finds biases b of experts, the potentials, and a token takes the `take`
 * experts with the largest logits + b; loads are the tokens of an expert. No plan.
 *
 * OTA_ROUTE_SINKHORN, the recipe of balanced mixtures of experts: b = log v of
 *
 *     K_ij = exp(logits_ij - max_j logits_ij)          [tokens][experts]
 *     v_j  = exp(start_j - mean start), the exponent within +-80, or 1;  then rounds of
 *     u_i  = 1 / (tokens (sum_j K_ij v_j + eps)),  v_j = 1 / (experts (sum_i u_i K_ij + eps)),      eps = 1e-8
 *
 * until v changes by `tolerance` on average. K and v are of the type of the logits, sums are f64, and the largest
 * K_ij v_j are taken, of equal ones the first.
 *
 * OTA_ROUTE_TOPK: b = start, or 0. No rounds.
 *
 * OTA_ROUTE_GIVEN: the same for potentials that were found elsewhere, to which a number is added that makes `bound` the least.
 *
 * OTA_ROUTE_BASE: the largest sum of logits whose loads keep the bounds, and its prices (otattn_bounded.h, whose limits it has:
 * 4096 experts, 2^31 - 1 tokens, logits and starts up to 1e290). Its rounds are the paths searched.
 *
 * OTA_ROUTE_QUANTILE: in turn t_i between the `take`-th and the next largest logits_ij + b_j of a token, and b_j the number
 * nearest 0 with which as many tokens exceed t as the bounds of j allow, until b changes by `tolerance` on average
 * but for a common shift.
 *
 * The answer does not depend on the threads.
 *
 *     const ota_routing problem = {
 *         .size = sizeof problem, .logits = ota_array_of(logits, OTA_F32, 1, 1, 4096, 64), .take = 2};
 *     ota_routing_result result = {.size = sizeof result, .chosen = chosen};
 *     if (ota_route(&problem, NULL, &result, &error) < 0) puts(error.message);
 */
#ifndef OTATTN_ROUTE_H
#define OTATTN_ROUTE_H

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the potentials are found, as said above. */
typedef enum ota_route_method {
    OTA_ROUTE_SINKHORN,
    OTA_ROUTE_TOPK,
    OTA_ROUTE_BASE,
    OTA_ROUTE_QUANTILE,
    OTA_ROUTE_GIVEN
} ota_route_method;

/* Zero means the default in every field but `size`, `logits` and `take`. */
typedef struct ota_routing {
    size_t size; /* sizeof(ota_routing) */
    /* [1,1,tokens,experts] f64 or f32, finite, at most 2^20 experts, those of a token side by side */
    ota_array logits;
    int64_t take;        /* experts a token takes, each once: 1 to `experts` */
    const double *start; /* [experts] potentials to begin with, finite; NULL: 0 */
    double tolerance;    /* of the same two; 0: 1e-4 */
    int64_t rounds;      /* at most, of OTA_ROUTE_SINKHORN and _QUANTILE; 0: 1000 and 100 */
    ota_route_method method;
    /* [experts] loads wanted; NULL: 0 below and `tokens` above for OTA_ROUTE_TOPK, else tokens * take / experts rounded down
     * and up. An upper bound above `tokens` counts as that number. */
    const int64_t *lower, *upper;
} ota_routing;

/* Each pointer NULL or memory of the caller. */
typedef struct ota_routing_result {
    size_t size;     /* sizeof(ota_routing_result) */
    int64_t *chosen; /* [tokens][take]: the experts of each token, rising */
    double *shares;  /* [tokens][take]: the softmax of the token's logits at these */
    /* [experts]: b; of all methods but OTA_ROUTE_TOPK and OTA_ROUTE_BASE plus a number that makes `bound` the least */
    double *potentials;
    int64_t *loads; /* [experts]: tokens that chose each */
    double value;   /* sum of the chosen logits */
    int64_t rounds; /* that were run */
    int converged;  /* 1: the tolerance was met */
    int64_t excess; /* choices beyond the upper bounds, plus those missing to the lower ones */
    /* [1]: no choice that keeps the bounds has a larger value, as the potentials prove */
    double *bound;
    /* [tokens][take]: 0 for the smallest logits of an expert, as many as exceed its upper bound; else 1 */
    uint8_t *kept;
    /* [tokens][take] of the logits' type: the softmax at the choices, or, where OTA_ROUTE_SINKHORN takes one, the sigmoid of its
     * logit. With `kept`, 0 where that is 0. */
    void *weights;
} ota_routing_result;

/* Chooses the experts of every token. Of `options` (NULL: defaults) it reads threads, executor, cpu, cancel and deadline_ns
 * (the others must be valid). OTA_OK, or OTA_PARTIAL where `rounds` ended before the tolerance was met; OTA_NONFINITE for a logit
 * or start that is not finite, OTA_INFEASIBLE for bounds that no choice keeps, OTA_UNSUPPORTED for more experts than the method
 * takes or structs of a newer header, OTA_CANCELLED, OTA_TIMEOUT, OTA_ENOMEM, OTA_EINVAL, OTA_EALIGN, OTA_EOVERFLOW: then the
 * result is untouched, but OTA_CANCELLED and OTA_TIMEOUT may leave anything in its arrays. */
OTA_API ota_status ota_route(const ota_routing *problem, const ota_options *options,
                             ota_routing_result *result, ota_error *error);

/* A router keeps memory and threads from call to call. One call at a time; the options are read when it is made, deadline_ns
 * with them, and *cancel during each call. */
typedef struct ota_router ota_router;

/* A router, to be freed by ota_router_free; *router is NULL on failure. Of `options` (NULL: defaults) it reads what
 * ota_route reads. OTA_ENOMEM, OTA_EINVAL, OTA_UNSUPPORTED (options of a newer header). */
OTA_API ota_status ota_router_create(ota_router **router, const ota_options *options,
                                     ota_error *error);
/* Frees it; NULL is fine. */
OTA_API void ota_router_free(ota_router *router);

/* ota_route with that memory: without an allocation where an earlier problem needed as much, but for OTA_ROUTE_BASE. */
OTA_API ota_status ota_router_route(ota_router *router, const ota_routing *problem,
                                    ota_routing_result *result, ota_error *error);

#ifdef __cplusplus
}
#endif

#endif
