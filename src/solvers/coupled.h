/* Column-coupled heads: what sinkhorn.c, anderson.c, newton.c and coupled.c share.
 *
 * A pass (passes.c) takes column potentials g [columns] at temperature t, solves every row and
 * sums the columns of the plan it finds:
 *
 *     f_i = row update,   c_j = sum_i P_ij,   L_j = LSE_i((S_ij + f_i) / t) = log c_j - g_j / t
 *
 * L is all a column update needs (marginal.h), c is all the residual of numeric policy 3.5 needs.
 * Rows are cut into chunks that depend on their number only and chunk sums are added in order, so
 * that no bit depends on threads. All potentials are in units of S. */
#ifndef OTA_COUPLED_H
#define OTA_COUPLED_H

#include "problem/feasible.h"
#include "columns/marginal.h"
#include "extrapolation.h"
#include "backend/cpu/rows.h"
#include "solver.h"

/* How a pass forms the plan. */
typedef enum ota_domain {
    OTA_DOMAIN_LOG,    /* one fused sweep; two more where a column underflows */
    OTA_DOMAIN_LINEAR, /* kernel formed once, scalings updated, absorbed at need [CETA-06] */
    OTA_DOMAIN_ROWS    /* row by row as the emission does */
} ota_domain;

/* What else of the workspace a method uses. */
typedef enum ota_needs {
    OTA_NEEDS_KERNEL = 1,
    OTA_NEEDS_HISTORY = 2,
    OTA_NEEDS_NEWTON = 4,
    OTA_NEEDS_INTERIOR = 8,
    OTA_NEEDS_SEARCH = 16 /* for unusable pairs */
} ota_needs;

enum {
    OTA_NEWTON_VECTORS = 12,
    OTA_NEWTON_DENSE = 1024, /* keys up to which the Hessian is formed and factored */
    /* Pairs up to which the search for unusable pairs and Newton inside "auto" are affordable. */
    OTA_PAIRS_LIMIT = 1 << 22
};

typedef struct ota_coupled {
    ota_dense *head;
    int64_t rows, columns, stride;    /* of the scores */
    int64_t chunk_rows, chunks, lane; /* lane: columns rounded up to whole cache lines */
    const void *scores;               /* head->scores, or its copy without the unusable pairs */
    bool narrow;
    ota_domain domain;
    double temperature; /* of the last pass */
    bool masked;        /* some pair of positive masses is forbidden */
    bool support_known; /* the search for unusable pairs was made */

    double *target;                  /* [columns] nu, balanced to the row mass within rounding */
    double *column;                  /* [columns] c */
    double *level;                   /* [columns] L */
    double *best;                    /* [columns] g of the smallest residual so far */
    double *previous;                /* [columns] g of the round before */
    double *shift, *sum, *error;     /* [rows] of the fused pass; row errors */
    double *old_f;                   /* [rows] f of the pass before */
    double *partial;                 /* [chunks][lane] column sums */
    double *relaxed;                 /* [chunks][lane] column sums with relaxed f */
    void *potential;                 /* [lane] g as the type of the scores */
    void *scratch;                   /* [chunks][lane] */
    void *top;                       /* [chunks][lane] */
    void *pruned;                    /* [rows][stride] scores without unusable pairs */
    unsigned char *allowed, *usable; /* [rows][columns + 1] */
    int32_t *order;                  /* [rows + columns + 2] blocks of usable pairs, feasible.h */
    bool split;                      /* some pair is not usable: `usable` and `order` say which */
    void *search;                    /* workspace of the search */

    /* linear domain */
    void *kernel;  /* [rows][stride] */
    void *scaling; /* [lane] v */
    double *absorbed_f, *absorbed_g, *scaled_sink, *u;
    double *middle; /* [columns] absorbed beside g when costs are centred [TOT-106] */
    bool formed;
    int64_t underflowed;

    /* Anderson */
    double *history; /* 2 DEPTH + 2 vectors of lane */

    /* Newton */
    double *wide;         /* [rows][stride] scores in f64 (the scores themselves when they are) */
    double *weights;      /* [rows][stride] P */
    double *across;       /* [columns][rows rounded up] scaled weights, transposed */
    double *hessian;      /* [columns][lane] minus the off-diagonal part */
    double *factor;       /* the same, consumed by the elimination */
    unsigned char *fixed; /* [columns] keys that stay where they are */
    double *vectors;      /* OTA_NEWTON_VECTORS of lane */
    double *powers;       /* [rows] W_i */
    double *sinks;        /* [rows] weight on the sink */
    double *gathered;     /* [chunks][2][rows rounded up] */
    double *interior_matrix; /* [3][rows][stride] */
    double *interior_rows;   /* [6][rows] and [3][chunks] */
} ota_coupled;

/* Lays the workspace out (arena measuring or placed). */
void ota_coupled_layout(ota_coupled *state, ota_arena *arena, int64_t rows, int64_t columns,
                        int64_t stride, bool narrow, bool prune, unsigned needs);
size_t ota_coupled_bytes(const ota_resolved *r, int64_t rows, int64_t columns, bool narrow,
                         unsigned needs);

/* ---- chunks and rows ------------------------------------------------------------------------- */

/* Column sums below these no longer carry a full significand of the terms that made them; f64, f32. */
static const double ota_least_sum[2] = {1.0e-280, 1.0e-28};

static inline void ota_chunk_rows(const ota_coupled *state, int64_t chunk, int64_t *first,
                                  int64_t *last) {
    *first = chunk * state->chunk_rows;
    *last = *first + state->chunk_rows < state->rows ? *first + state->chunk_rows : state->rows;
}

static inline void ota_clear_chunk(const ota_coupled *state, double *partial, int64_t chunk) {
    for (int64_t j = 0; j < state->lane; j++) partial[chunk * state->lane + j] = 0.0;
}

static inline const float *ota_row_at_f32(const void *matrix, int64_t stride, int64_t row) {
    return (const float *)matrix + row * stride;
}

static inline const double *ota_row_at_f64(const void *matrix, int64_t stride, int64_t row) {
    return (const double *)matrix + row * stride;
}

static inline double ota_score(const ota_coupled *state, int64_t i, int64_t j) {
    return state->narrow ? (double)ota_row_at_f32(state->scores, state->stride, i)[j]
                         : ota_row_at_f64(state->scores, state->stride, i)[j];
}

/* g as passes and emission see it. */
static inline double ota_rounded(const ota_coupled *state, int64_t j) {
    return state->narrow ? (double)((const float *)state->potential)[j]
                         : ((const double *)state->potential)[j];
}

/* total[j] = sum of partial over chunks, in order. */
void ota_add_chunks(const ota_coupled *state, const double *partial, double *total);
/* body(job, chunk): every chunk once. */
void ota_each_chunk(ota_coupled *state, void (*body)(void *job, int64_t chunk, int worker),
                    void *job);

/* ---- passes.c ------------------------------------------------------------------------------- */

/* Row updates with head->g, then c and L. `omega` != 1: two-sided relaxation, f moves omega of its
 * way from what it was, L belongs to that f and c still to the plan after an exact row update. */
void ota_pass(ota_coupled *state, double t, double omega);
/* L with the f that lies in head->f (the printed order that starts on columns). */
void ota_pass_columns(ota_coupled *state, double t);
/* Sums of the plan that will be emitted, solved as the emission does: fills head->f (unless the
 * plan comes from potentials as they are), c and the errors of the head. Returns the residual that
 * decides: max(row_error, column_error), for caps with the violated complementarity. */
double ota_measure(ota_coupled *state);
/* The column part of that residual for c and g as they are. */
double ota_column_residual(const ota_coupled *state);
/* Relaxed columns: moves g by the constant that makes the dual stationary along constants (rows
 * exact: no weight moves). */
void ota_constant_mode(ota_coupled *state);
/* One column update at temperature t from L, over-relaxed by omega. */
void ota_column_step(ota_coupled *state, double t, double omega);
/* The law of rows at temperature t. */
ota_row_law ota_coupled_law(const ota_coupled *state, double t);
/* head->g rounded to the type of the scores, into state->potential. */
void ota_round_potential(ota_coupled *state);

/* ---- passes_linear.c ------------------------------------------------------------------------ */

/* max - min of what the linear domain would exponentiate, after centring. */
double ota_linear_range(ota_coupled *state);
/* The pass; false when the scalings leave what the kernel can carry even after absorption. */
bool ota_linear_pass(ota_coupled *state, double t);

/* ---- methods -------------------------------------------------------------------------------- */

/* What a method's loop came to; the rounds are in head->rounds and g in head->g. */
typedef enum ota_outcome {
    OTA_MET,     /* the residual fell below the tolerance */
    OTA_RAN,     /* the fixed number of rounds was run */
    OTA_SLOW,    /* gave up early: another method should go on */
    OTA_SPENT,   /* out of rounds, or no way down */
    OTA_STOPPED, /* cancelled or past the deadline: see `stopped` */
    OTA_HOPELESS /* unusable pairs or no feasible plan: the head's sentence says so */
} ota_outcome;

/* impatient: return OTA_SLOW as soon as the rate says that many rounds are needed. */
ota_outcome ota_sinkhorn_run(ota_coupled *state, bool impatient, ota_status *stopped);
ota_outcome ota_anderson_run(ota_coupled *state, ota_status *stopped);
ota_outcome ota_newton_run(ota_coupled *state, ota_status *stopped);

/* Enters, runs and leaves a solve; every table row's solve() is one call of it. */
ota_status ota_coupled_solve(ota_dense *head, unsigned needs, bool linear,
                             ota_outcome (*method)(ota_coupled *state, ota_status *stopped));
/* Tells of the round; cancelled or late? Asked once per round. */
ota_status ota_coupled_tick(const ota_coupled *state, int64_t round, double residual);
/* Looks for unusable pairs and for feasibility when this was not done yet. False: hopeless, the
 * head's sentence says why. */
bool ota_coupled_search(ota_coupled *state);
/* Why no solver of this family applies, or only those that run rounds; NULL: all of them do. */
const char *ota_not_coupled(const ota_resolved *r);
const char *ota_tolerance_only(const ota_resolved *r);

/* state->hessian = minus the off-diagonal part of w^T w, lower triangle; w [rows][columns] lies in
 * state->weights. */
void ota_newton_links(ota_coupled *state);

/* ---- interior.c ----------------------------------------------------------------------------- */

/* f and g close to the optimum at temperature t, from a start of its own; false: stopped. */
bool ota_interior_run(ota_coupled *state, const double *scores, double t, ota_status *stopped);

/* ---- newton_columns.c ----------------------------------------------------------------------- */

/* g by one column update at temperature t with head->f held; scores [rows][stride] in f64. */
void ota_newton_columns(ota_coupled *state, const double *scores, double t);

/* ---- newton_system.c ------------------------------------------------------------------------ */

/* (diag(excess) + Laplacian(links)) x = b for the nodes whose `fixed` is 0, with x given on the
 * others. links [count][stride]: the lower triangle is read, >= 0; links, excess >= 0 and b are
 * destroyed. No subtraction is made in the factors, so links of any ratio keep their relative
 * accuracy. Nodes that end without any link or excess get x = 0. */
void ota_laplacian_solve(const ota_kernels_f64 *kernels, double *links, int64_t stride,
                         int64_t count, double *excess, const unsigned char *fixed, double *b,
                         double *x);
/* Its two halves, for several b: the factor stays in links, its pivots in excess; `fixed` may be
 * NULL, fixed nodes must have no links. */
void ota_laplacian_factor(const ota_kernels_f64 *kernels, double *links, int64_t stride,
                          int64_t count, double *excess, const unsigned char *fixed);
void ota_laplacian_substitute(const ota_kernels_f64 *kernels, const double *links, int64_t stride,
                              int64_t count, const double *pivots, const unsigned char *fixed,
                              double *b, double *x);

#endif
