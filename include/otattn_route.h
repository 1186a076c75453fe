/* otattn_route.h: tokens to experts by Sinkhorn's rounds, the recipe of balanced mixtures of experts. No plan.
 *
 *     K_ij = exp(logits_ij - max_j logits_ij)          [tokens][experts]
 *     v_j  = exp(start_j - mean start), or 1;  then rounds of
 *     u_i  = 1 / (tokens (sum_j K_ij v_j + eps)),  v_j = 1 / (experts (sum_i u_i K_ij + eps)),      eps = 1e-8
 *
 * until v changes by `tolerance` on average. Token i takes the `take` experts with the largest K_ij v_j, of equal ones the
 * first. K and v are of the type of the logits, sums are f64; the answer does not depend on the threads.
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

/* Zero means the default in every field but `size`, `logits` and `take`. */
typedef struct ota_routing {
    size_t size; /* sizeof(ota_routing) */
    /* [1,1,tokens,experts] f64 or f32, finite, at most 2^20 experts, those of a token side by side */
    ota_array logits;
    int64_t take;        /* experts a token takes, each once: 1 to `experts` */
    const double *start; /* [experts] logarithms of v to begin with, finite; NULL: 0 */
    double tolerance;    /* 0: 1e-4 */
    int64_t rounds;      /* at most; 0: 1000 */
} ota_routing;

/* Each pointer NULL or memory of the caller. */
typedef struct ota_routing_result {
    size_t size;        /* sizeof(ota_routing_result) */
    int64_t *chosen;    /* [tokens][take]: the experts of each token, rising */
    double *shares;     /* [tokens][take]: the softmax of the token's logits at these */
    double *potentials; /* [experts]: log v; a token takes the largest logits + potentials */
    int64_t *loads;     /* [experts]: tokens that chose each */
    double value;       /* sum of the chosen logits */
    int64_t rounds;     /* that were run */
    int converged;      /* 1: the tolerance was met */
} ota_routing_result;

/* Of `options` (NULL: defaults) it reads threads, executor, cpu, cancel and deadline_ns. OTA_OK, or OTA_PARTIAL where
 * `rounds` ended before the tolerance was met; OTA_NONFINITE for a logit that is not finite, OTA_CANCELLED, OTA_TIMEOUT,
 * OTA_ENOMEM, OTA_EINVAL: then the result is untouched. */
OTA_API ota_status ota_route(const ota_routing *problem, const ota_options *options,
                             ota_routing_result *result, ota_error *error);

#ifdef __cplusplus
}
#endif

#endif
