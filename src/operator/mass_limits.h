/* mass_limits.h: derivatives by masses of exactly 0, those of a mass that begins to grow. Beside the mass m of a query its plan is
 * m p_j and moves nothing else to first order, where
 *
 *     p_j = lim P_j / m of a row of scores S_j + g_j, over the keys that have mass
 *         = softmax of (S + g) / tau                        weights that are exponentials
 *         = even shares of the largest of S + g             orders above 1: others weigh nothing at first
 *         = even shares of all                              orders below 1: their weights forget the scores
 *
 * (the sink one more key), and of a key likewise in S_i + f_i over the queries. So with the multipliers of backward
 *
 *     dL/dm = sum_j p_j (U_j - b_j)                         a key: sum_i q_i (U_i - a_i)
 *
 * and along a direction P moves by p dm, which the other keys give. A key without mass behind a cap or bounds is at the upper one
 * where it would have weight at g = 0, else at the lower. Penalties on sums leave no limit: sums grow with a power of the mass
 * below 1. Queries and keys of mass 0 exchange nothing. */
#ifndef OTA_MASS_LIMITS_H
#define OTA_MASS_LIMITS_H

#include "backward.h"

/* Which masses of 0 of a call with these gradients, or tangents, have a limit; of fixed rounds, whether those of any process do. */
void ota_limits_begin(ota_backward_job *job, const ota_array *rows, const ota_array *columns);
/* Is the mass of this query, or key, 0? */
bool ota_mass_is_none(const ota_resolved *r, const ota_backward_job *job, bool query, int64_t k);
/* And does it have a limit in this call? */
bool ota_mass_grows(const ota_backward_job *job, bool query, int64_t k);

/* p of a query at the potentials of the keys in the space, where job->state.biased. 0 where nothing can take its mass; else what
 * its sum is asked to be per unit of its mass, without the factor of the rule's own bounds. */
double ota_limit_of_query(const ota_backward_job *job, int64_t query, const double *s, double *p);

/* What the queries before say of keys, or keys of queries: the top of x, sums of weights below it, and of those times a number. */
typedef struct ota_limit_sums {
    double *top, *total, *sum; /* [keys], or [queries] */
} ota_limit_sums;
/* Weight of a pair beside a top, before it is divided by the sum. */
double ota_limit_weight(const ota_row_parameters *rule, double x, double top);
/* x = S + f of a pair, or -inf where it cannot carry weight. */
double ota_limit_level(const ota_backward_job *job, int64_t query, int64_t key, double s, double f);
/* One more query, at x of a key, or key at x of a query, with its number. */
void ota_limit_add(const ota_row_parameters *rule, const ota_limit_sums *keys, int64_t key,
                   double x, double number);
/* Some queries with lines of their own, each a sum's term of every key that grows: the number is U - a, or 0 without U. */
typedef struct ota_limit_batch {
    ota_backward_job *job;
    int64_t queries[OTA_ADJOINT_CHUNKS];
    ota_pair_lines pairs;
    double *p; /* [keys] */
    ota_limit_sums keys;
} ota_limit_batch;
/* Its queries with mass, in order; by all threads, each with keys of its own. */
void ota_limit_add_batch(ota_limit_batch *batch);
/* The same of the queries of all processes; with a line of scratch. */
void ota_limit_share(const ota_backward_job *job, const ota_limit_sums *keys, double *line);
/* 1, or the share of the upper bound that the lower one is where a key, or query, of this top would have no weight at 0. */
double ota_limit_bound(const ota_backward_job *job, bool query, double top);

/* Backward: a and b of queries and keys of mass 0, into the space, where `job->limits` asks for them; row_sum of such rows of the
 * solver becomes the least positive number. */
void ota_backward_limits(ota_backward_job *job, double *row_sum);
/* Rows alone: into the sums, once the rows are written. */
void ota_backward_free_limits(ota_backward_job *job);
/* What the outputs are written from: such queries and keys have no multipliers. */
void ota_backward_forget_limits(ota_backward_job *job);
/* Fixed rounds, which took masses next to 0: plans are those of masses of 0. dL/dS is of the rounds, the first of which may know
 * such a key by its start. */
void ota_backward_close_limits(ota_backward_job *job);

#endif
