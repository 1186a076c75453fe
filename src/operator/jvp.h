/* The inside of ota_jvp, shared by its files. All in f64, whatever the plan's type.
 *
 * The tangent of a pair has the form of backward's gradient of one: what moves the pair at fixed potentials
 * stands in the place of dL/dP, and the multipliers are a = -df, b = -dg [DER-12..14]:
 *
 *     dP_ij = w_ij (U_ij - a_i - b_j) / tau            w = P^(2 - alpha)
 *     U_ij  = dS_ij - x_ij dtau + tau h(P_ij) dalpha   x = (S_ij + f_i + g_j) / tau
 *     h(p)  = p^k (1 - k log p) / k^2                  k = alpha - 1
 *
 * The rules of rows and columns, differentiated, are backward's system with other right sides:
 *
 *     den_i a_i + sum_j w_ij b_j             = sum_j w_ij U_ij - tau dR_i
 *     (D_j + extra_j) b_j + sum_i w_ij a_i   = sum_i w_ij U_ij - tau dC_j
 *
 * dR, dC: how the sums that rows and columns must have move with masses, cap and strengths. */
#ifndef OTA_TANGENTS_H
#define OTA_TANGENTS_H

#include "backend/blocks/blocks.h"
#include "backward.h"

enum { OTA_TANGENT_ROWS = 16 }; /* of one block */

/* Scratch of one worker: a block of OTA_TANGENT_ROWS rows. */
typedef struct ota_tangent_worker {
    double *scores, *tangents, *weights, *change; /* [OTA_TANGENT_ROWS][stride] S, U, P, dP */
    double *queries, *query_tangents;             /* [OTA_TANGENT_ROWS][width] */
    double *out;                                  /* [OTA_TANGENT_ROWS][values_width] */
    double *line;                                 /* [stride] */
} ota_tangent_worker;

/* Of masses of 0 that begin to grow. */
typedef struct ota_tangent_limits {
    double *of_query, *of_key;    /* [queries], [keys] how their sums move; 0 of all others */
    double *by_keys, *by_queries; /* [queries], [keys] what those take of the others' */
    double *top, *total;          /* [keys] of the weights of a key that grows */
} ota_tangent_limits;

typedef struct ota_tangent_space {
    double *keys, *key_tangents; /* [width][stride]: transposed, so that scores are sums of rows */
    double *key_rows, *key_row_tangents; /* [keys][width], where rows may be lists, or NULL */
    double *values, *value_tangents;     /* [keys][values_width], what is not finite 0 */
    bool *nonfinite;                     /* [stride] a value or its tangent is not finite */
    double *room, *room_tangents;        /* [stride] online: capacity left and its tangent */
    bool *shut;                          /* [stride] online: the row took what was left */
    double *row_moved, *column_moved;    /* [lane] dR, dC */
    double *row_sum, *column_sum;        /* [lane] of P, the sink's included */
    ota_tangent_limits limits;
    ota_tangent_worker *workers;
} ota_tangent_space;

/* One head at work; `base` has an empty `want`, and its space takes f, g, a and b. */
typedef struct ota_tangent_job {
    ota_backward_job base;
    const ota_tangents *tangents;
    ota_tangent_space *space;
    ota_number_tangents numbers; /* of this head */
    bool held;                   /* f is given, rows are not solved */
} ota_tangent_job;

/* jvp_check.c: the checks. `full` becomes a full-size copy. */
ota_status ota_tangents_check(const ota_plan *plan, const ota_arrays *arrays,
                              const ota_tangents *given, ota_tangents *full, ota_error *error);
/* Does every output of `t` overlap nothing that is read, and no other? */
ota_status ota_tangents_apart(const ota_plan *plan, const ota_arrays *arrays, const ota_tangents *t,
                              ota_error *error);

/* jvp_scores.c: keys and values of a head; then S and dS of rows [first, first + rows) into the worker's
 * `scores` and `tangents`. What `tangents` holds on forbidden pairs means nothing. */
void ota_tangents_load(ota_tangent_job *job);
void ota_tangents_scores(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                         int64_t rows);
/* The same without dS; and dS of the pairs of a list of row k of such a block, which is `query`, into its U. */
void ota_tangents_scores_alone(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                               int64_t rows);
void ota_tangents_of_list(const ota_tangent_job *job, const ota_tangent_worker *w, int64_t k,
                          int64_t query, const ota_slope_list *list);
/* jvp_rows.c: rows [first, first + rows) of the head against all its keys, in the worker's memory. */
ota_block ota_tangents_block(const ota_tangent_job *job, const ota_tangent_worker *w, int64_t first,
                             int64_t rows);
/* How temperature, order and sink of the job's head move. */
void ota_tangents_begin_head(ota_tangent_job *job);
/* w and U of a sink of this weight, 0 where there is none. */
void ota_tangents_of_sink(const ota_tangent_job *job, double f, double weight,
                          ota_block_row *found);
/* P of row k of a block, which is `query`; f into the space. The second completes U, too, from dS. */
ota_block_row ota_tangents_weigh(const ota_tangent_job *job, ota_tangent_worker *w, int64_t k,
                                 int64_t query);
ota_block_row ota_tangents_solve(const ota_tangent_job *job, ota_tangent_worker *w, int64_t k,
                                 int64_t query);
/* dP of all pairs of a block and d out = dP V + P dV, from a and b. */
void ota_tangents_emit(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                       int64_t rows);
/* The same of rows that are lists in the matrix, from these alone; false, and nothing is written: not all are. */
bool ota_tangents_emit_lists(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                             int64_t rows);
/* Writes what stands in `change` and `weights`; both are spent. */
void ota_tangents_put(const ota_tangent_job *job, ota_tangent_worker *w, int64_t first,
                      int64_t rows);
/* Rows alone, and rows in order: all of a head. */
void ota_tangents_free(ota_tangent_job *job);
void ota_tangents_online(ota_tangent_job *job);

/* jvp_limits.c: which queries and keys of a head grow from 0; once potentials are known, what they take of others; and their part
 * of dP of a row of scores s, with a line for p. */
void ota_tangents_begin_limits(ota_tangent_job *job);
void ota_tangents_find_limits(ota_tangent_job *job);
void ota_tangents_move_limits(const ota_tangent_job *job, int64_t query, const double *s, double *p,
                              double *change);

/* jvp_masses.c: dR of a row of the solver's orientation, and dC of its columns once all rows are known. */
double ota_tangents_of_row(const ota_tangent_job *job, int64_t row, double sum, double f,
                           bool finished);
/* Tangent of parameter k of the column rule; 0 where it stands still. */
double ota_tangent_of_parameter(const ota_tangent_job *job, int k);
void ota_tangents_of_columns(const ota_tangent_job *job, const ota_mass_rule *rule, double *to);

/* jvp_coupled.c: a and b of a head by conjugate gradients, or from its rounds; prefix writes its rows. */
ota_status ota_tangents_implicit(ota_tangent_job *job);
ota_status ota_tangents_rounds(ota_tangent_job *job);
ota_status ota_tangents_prefix(ota_tangent_job *job);

/* jvp.c: reserves the workspace (measuring or placed); one run over all heads after validation. */
ota_tangent_space *ota_tangents_lay_out(ota_plan *plan, int64_t lane, bool with_lists);
ota_status ota_tangents_run(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                            ota_result *found);

#endif
