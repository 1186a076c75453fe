/* blocks.h: some rows of a head against some of its keys in f64, for whatever visits pairs that way: keys that come by in pieces
 * (src/ranks), all keys of a head at once (jvp), a row at a time (the plain backend). A block has no say in where its keys come
 * from and keeps nothing: what rows or keys add up to is its user's.
 *
 *     Z = Q K^T,  S = terms(scale Z), -inf where a pair is forbidden          block_scores.c
 *     P = phi((S + g + f) / tau), w = P^(2 - alpha), 0 at its cap              block_weights.c
 *     U = D (out_grad V^T),  dL/dS = w (U - a - b) / tau,  dL/dZ               block_gradients.c
 *     dS = scale dZ (1 - tanh^2 y) + ...,  dP = w (U - a - b) / tau            block_tangents.c
 *
 * Shapes: all matrices of a block are [rows][stride], of which `keys` numbers a row count. */
#ifndef OTA_BLOCKS_H
#define OTA_BLOCKS_H

#include <math.h>

#include "backend/backend.h"
#include "backend/capped.h"

typedef struct ota_block {
    const ota_resolved *problem; /* whose rows and keys these are */
    const ota_host_algebra *algebra;
    ota_row_parameters rule; /* of the head; `sink` is that of a row with no other keys, or -inf */
    uint32_t dropout_key[2];
    int64_t batch, head;
    int64_t first, rows; /* queries [first, first + rows) */
    int64_t key, keys;   /* keys [key, key + keys) */
    int64_t stride;
    double *scores;
    double *weights;       /* P */
    double *slopes;        /* U, then dL/dS, then dL/dZ */
    double *raw;           /* Z */
    const double *f;       /* [rows], where they are known */
    const ota_edge *edges; /* [rows], beside f, of orders above 2; or NULL */
    const double *g;       /* [keys], or NULL: 0 */
    ota_array caps;        /* where `rule.caps` has an array of the block's own */
} ota_block;

/* ---- block_scores.c -------------------------------------------------------------------------------- */

/* to += Q K^T; queries [rows][width], keys [width][ldk] from the block's first on. */
void ota_block_add_products(const ota_block *b, const double *queries, const double *keys,
                            int64_t ldk, double *to);
/* `scores` from raw products to S. */
void ota_block_finish_scores(const ota_block *b);
/* What of the weights p [keys], or, p NULL, how many of them, lie on pairs of a query that masks and biases take down to
 * OTA_MASKED_ADDEND: keys from `first` on. */
double ota_block_masked(const ota_block *of, int64_t query, int64_t first, const double *p);
/* y of raw product j of row k over the softcap's value: scale (z + inside) / cap. */
typedef struct ota_block_softcap {
    const ota_term *softcap, *inside; /* or NULL */
    double factor;                    /* scale / cap */
    int64_t diagonal;                 /* of the block's first key */
} ota_block_softcap;
ota_block_softcap ota_block_softcap_of(const ota_block *b, int64_t k);
static inline double ota_block_softcap_argument(const ota_block *b, const ota_block_softcap *of,
                                                double z, int64_t j) {
    if (of->inside != NULL) z += ota_array_get(&of->inside->array, 0, b->head, 0, of->diagonal - j);
    return z * of->factor;
}

/* ---- block_weights.c ------------------------------------------------------------------------------- */

/* P of all rows at the potentials in f and g. */
void ota_block_weigh(const ota_block *b);
/* The cap of pair j of row k; INFINITY: none. */
static inline double ota_block_cap(const ota_block *b, int64_t k, int64_t j) {
    return b->rule.regulariser->capped ? ota_entry_cap(&b->rule.caps, b->first + k, j) : INFINITY;
}
/* P^(2 - alpha) of a weight below its cap, of a custom one its own slope at score s and potential f. */
double ota_pair_slope(const ota_row_parameters *rule, double s, double f, double p, double cap);
/* w of pair j of row k, whose weight is known. */
static inline double ota_block_slope(const ota_block *b, int64_t k, int64_t j) {
    const int64_t at = k * b->stride + j;
    const double p = b->weights[at];
    if (!(p > 0.0)) return 0.0;
    return ota_pair_slope(&b->rule, b->rule.custom != NULL ? b->scores[at] : 0.0,
                          b->rule.custom != NULL ? b->f[k] : 0.0, p, ota_block_cap(b, k, j));
}
/* The weight of one key, or of the sink, of this score at potential f, without a cap. */
double ota_sink_weight(const ota_row_parameters *rule, const ota_host_algebra *algebra,
                       double score, double f);

/* Largest score of a row, into *top; false: NaN or +inf among them. */
bool ota_block_find_top(const double *s, int64_t count, double *top);
/* Scores become S + g. */
void ota_block_add_potentials(const ota_block *b);
/* sum P and sum P^(2 - alpha) of row k at f, added: what a step towards a threshold needs (threshold.h). */
void ota_block_add_powers(const ota_block *b, int64_t k, double f, double *first, double *second);
/* Of a row with caps: what they have room for, and the f from which on all keys are at theirs; then its sums at f (capped.h).
 * Scores hold S + g. */
void ota_block_add_room(const ota_block *b, int64_t k, double *room, double *highest);
void ota_block_add_capped(const ota_block *b, int64_t k, double f, ota_capped_totals *sums);
/* Weights of row k with caps as its plan has them: between those at both ends of the search where part >= 0, else scaled by
 * `factor` below their caps. */
void ota_block_fit_capped(const ota_block *b, int64_t k, const ota_capped_search *ends, double part,
                          double factor);

/* Sums of the weights of one row. */
typedef struct ota_row_statistics {
    double mass, p_log_p, largest, support;
    double
        masked; /* where it is asked for: of the mass, on pairs taken down to OTA_MASKED_ADDEND */
} ota_row_statistics;
void ota_add_statistics(const double *weights, int64_t count, ota_row_statistics *sums);
/* Entropy of P_i / mu_i, the sink one more key. */
double ota_row_entropy(const ota_row_statistics *sums, double sink, double mu);

/* ---- block_gradients.c ----------------------------------------------------------------------------- */

/* Dropout's factors into a row of numbers of the block's pairs. */
void ota_block_drop(const ota_block *b, int64_t k, double *row);
/* U of the block from rows of out_grad [rows][width] and values [width][ldv] from the block's first key on. */
void ota_block_form_upstream(const ota_block *b, const double *out_grad, int64_t width,
                             const double *values, int64_t ldv);
/* sum w and sum w (U - b) of row k, added; beside: b [keys], or NULL: 0; keys that are `shut` (or NULL) do not count. */
void ota_block_add_slopes(const ota_block *b, int64_t k, const double *beside, const bool *shut,
                          double *total, double *sum);
/* Above order 2 the slope of one weight may outweigh all others, whose shares of the mean keep their digits only where U is measured
 * from there: takes U of row k's steepest weight, the sink's or of a key that is not `shut` (or NULL), off all, and returns it; 0 for
 * other orders. */
double ota_block_centre(const ota_block *b, int64_t k, const bool *shut, double sink_slope,
                        double sink_u);
/* Sums by keys, [keys] from key `first` of theirs on, added to where they are given: P, w, w (U - a), w (|U| + |a|); a [rows]. */
typedef struct ota_block_key_sums {
    double *weights, *slopes, *moved, *sizes;
} ota_block_key_sums;
void ota_block_add_key_sums(const ota_block *b, const double *a, int64_t first,
                            const ota_block_key_sums *to);
/* w (U - a - b) / tau of row k into to[keys], which may be where U is: dL/dS of its pairs or, of tangents, dP. NaN on the allowed
 * pairs of a row that is not `finite`, whose weights become so, too. */
void ota_block_apply_slopes(const ota_block *b, int64_t k, double a, const double *beside,
                            bool finite, double *to);
/* A row of softmax at other potentials, f and g with their P, whose U is 0: P (-a - b) / tau added to dL/dS, and what the temperature
 * gets of it, unless that is NULL. */
void ota_block_add_round(const ota_block *b, int64_t k, double a, const double *beside,
                         double *by_temperature);
/* dL/dS -> dL/dZ. */
void ota_block_go_through(const ota_block *b);

/* Derivatives of a row that many pairs share, from dL/dS in `slopes` (Z in `raw`): added to sums[OTA_ROW_SUMS]. */
void ota_block_add_pair_sums(const ota_block *b, int64_t k, bool by_order, double *sums);
/* By the slope of a bias that falls with the distance from key `position` of the block. */
double ota_block_sum_distance(const ota_block *b, int64_t k, int64_t position);
/* dS/dcap = tanh y - y (1 - tanh^2 y) */
double ota_block_sum_softcap(const ota_block *b, int64_t k);
/* What a sink of this weight, with mean a of its row, adds. */
void ota_add_sink_sums(const ota_row_parameters *rule, double weight, double f, double a,
                       bool by_order, double *sums);

/* ---- block_tangents.c ------------------------------------------------------------------------------ */

/* Keys [first, first + count) of a row of a head of the whole problem. */
typedef struct ota_tangent_row_keys {
    const ota_resolved *resolved;
    const ota_tangents *tangents;
    int64_t batch, head, query, first, count;
} ota_tangent_row_keys;

/* How the numbers of a head move. */
typedef struct ota_number_tangents {
    double temperature, order, sink;
} ota_number_tangents;

/* Tangent of sorted term t (the sink: t = term_count); NULL: it stands still. */
const ota_array *ota_tangent_of_term(const ota_resolved *r, const ota_tangents *tangents, int t);
/* A tangent that is a number, or one a head; 0 where it is absent. */
double ota_tangent_number(const ota_array *a, int64_t head);
/* dZ without the inner term -> dS in place, but for tangents of the scores themselves; z: raw products. */
void ota_tangents_of_terms(const ota_tangent_row_keys *row, const double *z, double *tangents);
/* U - dS of a pair of weight p: what temperature and order move where its score and the row's potential f stand still; then dS -> U
 * of all pairs with weight. */
double ota_number_tangent(const ota_row_parameters *rule, const ota_number_tangents *moves,
                          double s, double f, double p);
void ota_complete_tangents(const ota_row_parameters *rule, const ota_number_tangents *moves,
                           const double *s, double f, const double *p, int64_t count, double *u);

#endif
