/* pairs.h: the functions that the bodies of backward share, in the type they are compiled for (real.h). */
#ifndef OTA_CPU_PAIRS_H
#define OTA_CPU_PAIRS_H

#include "backend/cpu/finite.h"
#include "cpu_gradient.h"

#define pack_head WORD(ota_gradient_pack_head)
#define load_rows WORD(ota_gradient_load_rows)
#define form_tile WORD(ota_gradient_form_tile)
#define form_upstream WORD(ota_gradient_form_upstream)
#define list_upstream WORD(ota_gradient_list_upstream)
#define pair_weights WORD(ota_gradient_pair_weights)
#define row_powers WORD(ota_gradient_row_powers)
#define row_slopes WORD(ota_gradient_row_slopes)
#define find_weights WORD(ota_gradient_find_weights)
#define pairs WORD(ota_gradient_pairs)
#define sink_slope WORD(ota_gradient_sink_slope)
#define uses_nonfinite WORD(ota_gradient_uses_nonfinite)
#define solve_row WORD(ota_gradient_solve_row)
#define steepest WORD(ota_gradient_steepest)
#define row_lists WORD(ota_gradient_row_lists)
#define list_of WORD(ota_gradient_list_of)
#define centre WORD(ota_gradient_centre)
#define mean_of WORD(ota_gradient_mean_of)
#define worker_at WORD(ota_gradient_worker_at)
#define add_rows WORD(ota_gradient_add_rows)
#define kernel_weights WORD(ota_gradient_kernel_weights)
#define rows_task WORD(ota_gradient_rows_task)
#define keys_task WORD(ota_gradient_keys_task)
#define slopes_task WORD(ota_gradient_slopes_task)
#define transposed_task WORD(ota_gradient_transposed_task)
#define widen_task WORD(ota_gradient_widen_task)
#define mark_top WORD(ota_gradient_mark_top)
#define replay_online WORD(ota_gradient_replay_online)
#define reverse_online WORD(ota_gradient_reverse_online)
#define load_bias WORD(ota_gradient_load_bias)
#define load_advantage WORD(ota_gradient_load_advantage)
#define recentre WORD(ota_gradient_recentre)
#define load_pairs WORD(ota_gradient_load_pairs)
#define form_kernel WORD(ota_gradient_form_kernel)
#define row_round WORD(ota_gradient_row_round)
#define reverse WORD(ota_gradient_reverse)
#define advantages WORD(ota_gradient_advantages)
#define last_keys WORD(ota_gradient_last_keys)
#define load_kernel_column WORD(ota_gradient_load_kernel_column)
#define last_gradients WORD(ota_gradient_last_gradients)
#define pack_dimensions WORD(ota_gradient_pack_dimensions)

/* What is not finite becomes 0. */
static inline bool make_finite(real *x, int64_t count) {
    if (all_finite(x, count)) return true;
    for (int64_t k = 0; k < count; k++) {
        if (!(x[k] - x[k] == (real)0)) x[k] = (real)0;
    }
    return false;
}

/* ---- gradient_pairs.c -------------------------------------------------------------------------------- */

/* Keys and values of the head's key head. */
void pack_head(ota_backward_job *job);
/* Queries and upstream gradients of some rows; the latter without what is not finite. */
void load_rows(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
               int64_t rows, bool mark);
/* Scores of rows [first, first + rows) against keys [from, to), from a multiple of OTA_PANEL. */
void form_tile(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
               int64_t rows, int64_t from, int64_t to, int64_t stride);
/* U = dL/dP of the same tile. */
void form_upstream(const ota_backward_job *job, const ota_backward_worker *w, int64_t first,
                   int64_t rows, int64_t from, int64_t to, int64_t stride);
/* The same of the pairs of a list of `count` keys, which is row `row` of the worker's block. */
void list_upstream(const ota_backward_job *job, const ota_backward_worker *w, int64_t row,
                   int64_t query, const int32_t *keys, int64_t count, real *u);
/* P of a row from its potentials, without what online capacities do. */
void pair_weights(const ota_backward_job *job, int64_t query, int64_t count, const real *s,
                  real *p);
/* w = P^(2 - alpha) of `count` weights p. */
void row_powers(const ota_backward_job *job, const real *p, int64_t count, real *w);
/* w = dP/dS tau of `count` keys of a row of weights p at scores s. */
void row_slopes(const ota_backward_job *job, int64_t query, int64_t count, const real *s,
                const real *p, real *w);
/* P from the potentials or as it was kept; 0 where an online row closes a key or finds it closed. */
void find_weights(const ota_backward_job *job, int64_t query, const real *s, real *p);
/* U -> dL/dS of a row of weights p, in place; w is scratch, or with `weighed` its slopes. */
void pairs(const ota_backward_job *job, int64_t query, const real *s, bool weighed, real *u,
           real *p, real *w);
/* Weight on the sink and what its logit gets, from the row's potential. */
double sink_slope(const ota_backward_job *job, int64_t query, double *weight);
/* Does the row use a key whose values are not finite? */
bool uses_nonfinite(const ota_backward_job *job, const real *s, const real *p);
/* Potential of one row, its top, and whether it can be computed; p is left holding the weights. */
void solve_row(const ota_backward_job *job, int64_t query, const real *s, double mu, real *p);
/* The key of the steepest slope, of equal ones of the least weight; -1: the sink's, or none. */
int64_t steepest(const ota_backward_job *job, int64_t query, const real *p, const real *w,
                 int64_t count);
/* Where ota_backward_is_centred: U becomes U - b (NULL: 0) where w is not 0, and of all is taken that of the steepest weight, which is
 * returned; 0 where that is the sink's, and of others. */
double centre(const ota_backward_job *job, int64_t query, const real *p, const real *w,
              const real *b, int64_t count, real *u);
/* Potentials of a block of entmax rows; their weights stay lists, weights[k * stride + ..] at keys where[k * stride + ..], behind those
 * below their caps those at them, or, where that does not pay, become those of all keys: false. */
bool row_lists(ota_backward_job *job, const ota_backward_worker *w, int worker, int64_t first,
               int64_t rows, int64_t *count, int64_t *full);
/* a_i of rows that are coupled to nothing (or whose b is known): the mean of U - b under w. Of U less some number `middle` the
 * sink's is -middle. */
double mean_of(const ota_backward_job *job, int64_t query, const real *u, const real *b,
               double middle, const real *w);

/* A row of slopes that is a list. */
ota_slope_list list_of(const ota_backward_job *job, int64_t query);

/* ---- outputs.c ------------------------------------------------------------------------------ */

/* A worker whose block lies in the strip, from its row `at` on. */
ota_backward_worker worker_at(const ota_backward_job *job, int worker, int64_t at);
/* to[key] += sum over the rows of the strip that hold all keys of tile[key] x; keys [from, to). */
void add_rows(const ota_backward_job *job, const ota_backward_worker *w, const real *tile,
              const real *x, int64_t width, int64_t from, int64_t to, double *sum);
/* P of one row of fixed rounds. */
void kernel_weights(const ota_backward_job *job, int64_t query, real *p);
void rows_task(void *context, int64_t block, int worker);
void keys_task(void *context, int64_t tile, int worker);

/* ---- coupled_gradient.c ------------------------------------------------------------------------------ */

void replay_online(ota_backward_job *job);
void reverse_online(ota_backward_job *job);
void slopes_task(void *context, int64_t chunk, int worker);
void transposed_task(void *context, int64_t chunk, int worker);
double recentre(ota_backward_job *job, double scale);
void load_pairs(void *context, int64_t index, int worker);
void widen_task(void *context, int64_t chunk, int worker);
void mark_top(void *context, int64_t chunk, int worker);
void load_advantage(ota_backward_job *job);
void load_bias(ota_backward_job *job);

/* ---- gradient_rounds.c ------------------------------------------------------------------------------- */

void load_kernel_column(ota_backward_job *job, const double *from, double scale);
void form_kernel(void *context, int64_t chunk, int worker);
void row_round(void *context, int64_t chunk, int worker);
void reverse(void *context, int64_t chunk, int worker);
void advantages(void *context, int64_t block, int worker);
void last_keys(void *context, int64_t tile, int worker);
void last_gradients(ota_backward_job *job);
void pack_dimensions(ota_backward_job *job);

#endif
