/* blocks.h: some rows of a head against some of its keys in f64, for whatever visits pairs that way: keys that come by in pieces
 * (src/ranks), all keys of a head at once (jvp, scores of a plan), a row at a time (the plain backend, prefix columns). A block has no say in where its keys come
 * from and keeps nothing: what rows or keys add up to is its user's.
 *
 *     Z = Q K^T,  S = terms(scale Z), -inf where a pair is forbidden          block_scores.c
 *     P = phi((S + g + f) / tau), w = P^(2 - alpha), 0 at its cap              block_weights.c
 *     U = D (out_grad V^T),  dL/dS = w (U - a - b) / tau,  dL/dZ               block_gradients.c
 *     dS = scale dZ (1 - tanh^2 y) + ...,  dP = w (U - a - b) / tau            block_tangents.c
 *     sums of w, w U and P of a coupled head, whose rows are queries or keys   block_system.c
 *
 * Shapes: all matrices of a block are [rows][stride], of which `keys` numbers a row count. */
#ifndef OTA_BLOCKS_H
#define OTA_BLOCKS_H

#include <math.h>

#include "backend/backend.h"
#include "backend/capped.h"
#include "backend/gradient.h"

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
    double *weights;           /* P */
    double *slopes;            /* U, then dL/dS, then dL/dZ */
    double *raw;               /* Z */
    const double *f;           /* [rows], where they are known */
    const ota_edge *edges;     /* [rows], beside f, of orders above 2; or NULL */
    const ota_edge *key_edges; /* [keys], likewise, where keys are the solver's rows; or NULL */
    const double *g;           /* [keys], or NULL: 0 */
    ota_array caps;            /* where `rule.caps` has an array of the block's own */
} ota_block;

/* ---- block_scores.c -------------------------------------------------------------------------------- */

/* to += Q K^T; queries [rows][width], keys [width][ldk] from the block's first on. */
void ota_block_add_products(const ota_block *b, const double *queries, const double *keys,
                            int64_t ldk, double *to);
/* Keys of a head as `transposed` [width][stride] and, or NULL, as they are: `lines` [count][width], else `row` [width] is scratch. */
typedef struct ota_block_keys {
    double *transposed, *row, *lines;
    int64_t stride;
} ota_block_keys;
void ota_block_read_keys(const ota_host_algebra *algebra, const ota_array *from, int64_t batch,
                         int64_t head, int64_t count, const ota_block_keys *to);
/* S, and Z where that has a place, from keys [width][ldk] from the block's first on; its queries are left in [rows][width]. Of a
 * matrix whole rows are read: there is room in front of `scores` for the keys before the block's. */
void ota_block_form_scores(const ota_block *b, double *queries, const double *keys, int64_t ldk);
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

/* P of row k of this mass, whose f is found; P of row k at the potentials in f and g, and of all rows. */
void ota_block_solve(const ota_block *b, int64_t k, double mass, ota_row_found *found);
void ota_block_weigh_row(const ota_block *b, int64_t k, ota_row_found *found);
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
/* w of pairs [first, first + count) of row k. */
void ota_block_find_slopes(const ota_block *b, int64_t k, int64_t first, int64_t count, double *w);
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
/* What a row has besides its pairs. */
typedef struct ota_block_row {
    double sum;                /* of P, the sink's included */
    double sink_slope, sink_u; /* w and U of the sink */
    double soft;               /* what a relaxed row of a coupled head yields, as one more slope */
    double middle;             /* from where its U is measured, above order 2 */
} ota_block_row;
/* a = (sum w (U - b) - tau moved) / sum w of row k, the sink's included, from where its U is measured, which is taken off U and the
 * sink's. */
double ota_block_multiplier(const ota_block *b, int64_t k, ota_block_row *row, double moved,
                            const bool *shut);
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

/* ---- block_system.c -------------------------------------------------------------------------------- */

/* Pairs of a head in a matrix whose rows are queries or, of the transposed problem, keys. */
typedef struct ota_block_matrix {
    double *data;
    int64_t query_step, key_step;
} ota_block_matrix;
static inline ota_block_matrix ota_block_matrix_of(double *data, int64_t stride, bool transposed) {
    return (ota_block_matrix){data, transposed ? 1 : stride, transposed ? stride : 1};
}
/* Numbers [rows][stride] of the block. */
void ota_block_put(const ota_block *b, const double *from, const ota_block_matrix *to);
void ota_block_take(const ota_block *b, const ota_block_matrix *from, double *to);
/* S, and U (no data: not), which becomes 0 on forbidden pairs. */
void ota_block_put_scores(const ota_block *b, const ota_block_matrix *scores,
                          const ota_block_matrix *upstream);

/* dL/dS, or dP, of row k by the multipliers of its head, which those of rows alone and in order have no b in. */
void ota_block_apply_multipliers(const ota_block *b, int64_t k, const ota_backward_job *job,
                                 bool transposed, double *to);

/* A row of the system: of all keys or, of a list, of `keys`, which rise, and of those at their caps, which are a list of their own. */
typedef struct ota_system_row {
    const double *slopes, *weights, *full_weights;
    double *u;
    const int32_t *keys, *full_keys; /* NULL: all, none */
    int64_t count, full;
} ota_system_row;
/* The steepest slope of row i of the solver, above order 2, from which its U (NULL: 0) is measured from now on. */
void ota_system_measure(const ota_system_row *row, ota_block_row *rest, int64_t i,
                        const ota_steep_rows *steep);
/* U of row k of a block as keys measure it that are the solver's rows. */
void ota_system_measure_by_keys(const ota_block *b, int64_t k, const ota_backward_job *job);
/* Its sums by keys, added where they have a place; `moved`: tau dR; by_row: the solver's row is the query. */
typedef struct ota_system_totals {
    double den, right; /* where the solver's row is the query; den without what it yields */
    double sum;        /* of P, where that is a key */
} ota_system_totals;
ota_system_totals ota_system_add(const ota_system_row *row, const ota_block_row *rest, double moved,
                                 bool by_row, const ota_chunk_sums *to);
/* A query as column of the system, once the means of its keys are known: its right side and the terms of that. */
void ota_system_add_query(const double *slopes, const double *u, int64_t count, const double *means,
                          double *right, double *terms);

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
