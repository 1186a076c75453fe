/* What a solver is. Two kinds share one table (solver.c):
 *
 *   row solvers      columns free, or known column potentials g as a bias: every row is solved alone
 *                    (rows.h); nothing of size queries x keys is kept.
 *   coupled solvers  see all scores of one head at once (ota_dense) and find g (and f), or the plan itself.
 *
 * After a coupled solver the last row update, the weights and the outputs are made by the emission
 * (emit.c) that row solvers use too, so that every plan ends on a row update [DER-26]. */
#ifndef OTA_SOLVER_H
#define OTA_SOLVER_H

#include "backend/cpu/kernels/kernels.h"
#include "base/base.h"
#include "problem/problem.h"

/* How the emission gets its weights from what the solver leaves. */
typedef enum ota_emission {
    OTA_EMIT_ROWS,       /* solve each row with bias g: rows are exact */
    OTA_EMIT_POTENTIALS, /* P from f and g as they are (printed order that ends on columns) */
    OTA_EMIT_PLAN,       /* P itself lies in `plan` */
    OTA_EMIT_MATCH       /* row i gives all its mass to key match[i] */
} ota_emission;

/* One head with all scores formed. n = rows, m = columns. All potentials in units of S. */
typedef struct ota_dense {
    /* given */
    int64_t rows, columns;
    bool narrow;           /* scores are f32, else f64 */
    const void *scores;    /* [rows][stride], -inf = forbidden, neither NaN nor +inf */
    int64_t stride;        /* >= columns, multiple of 16; the padding is -inf */
    double tau;            /* final temperature */
    double order;          /* 1: entropy, 0: hard, > 1: Tsallis alpha */
    double sink;           /* logit, -inf = none */
    const double *mu;      /* [rows], 0 for empty rows (all forbidden) */
    const double *nu;      /* [columns] targets (exact, relaxed, elastic) or capacities (capped) */
    double mass;           /* sum of mu */
    double mass_tolerance; /* totals that differ by less, relative, count as equal (numerics 3.7) */
    double row_strength;   /* RHO of relaxed rows; INFINITY = rows exact */
    ota_column_rule rule;  /* EXACT RELAXED CAPPED ELASTIC */
    double strength;       /* rho of RELAXED */
    double lambda;         /* ELASTIC */
    const double *lambdas; /* [columns] or NULL */
    ota_side start, end;
    bool warm;    /* g holds a starting point */
    double range; /* max - min of the finite scores */
    const ota_settings *settings;
    const ota_kernels *kernels;
    ota_pool *pool;  /* split rows over it in fixed chunks: results may not depend on threads */
    void *workspace; /* as many bytes as the solver's workspace() said, 64-byte aligned */
    int64_t head;    /* for sentences */
    /* progress of a running head, from any thread; NULL: nobody listens */
    void (*tell)(void *context, int64_t round, double residual);
    void *tell_context;
    /* found */
    double *f, *g;  /* [rows], [columns] */
    double *plan;   /* [rows][stride] f64 when the solver emits the plan, else NULL */
    int64_t *match; /* [rows] when the emission is OTA_EMIT_MATCH; lies in `workspace` */
    ota_emission emission;
    int64_t rounds;
    double row_error, column_error; /* of the plan that will be emitted, in f64, numerics 3.5 */
    double temperature_reached;
    const char
        *method; /* the row of the table that found it, where `solve` chose among some; or NULL */
    int64_t unusable, pruned, underflowed;
    char sentence[512]; /* why not OTA_OK */
} ota_dense;

typedef struct ota_solver {
    const char *name;
    const char *purpose; /* one line for doctor */
    /* NULL: applies; else the reason why not, one sentence. */
    const char *(*refuses)(const ota_resolved *r);
    /* Bytes for one head of rows x columns; SIZE_MAX on overflow. NULL: none. */
    size_t (*workspace)(const ota_resolved *r, int64_t rows, int64_t columns, bool narrow);
    bool needs_plan;   /* wants dense->plan */
    bool wide;         /* always works in f64 */
    bool reads_narrow; /* though scores that f32 holds may stay f32 */
    /* NULL for row solvers. */
    ota_status (*solve)(ota_dense *head);
} ota_solver;

extern const ota_solver ota_solver_softmax, ota_solver_entmax, ota_solver_argmax, ota_solver_online;
extern const ota_solver ota_solver_custom;
extern const ota_solver ota_solver_sinkhorn, ota_solver_log, ota_solver_anderson, ota_solver_newton;
extern const ota_solver ota_solver_coupled; /* "auto" of coupled columns: picks among the four */
extern const ota_solver ota_solver_assignment, ota_solver_transport, ota_solver_prefix;

/* The row of the table that will run, by name or automatically. */
ota_status ota_solver_choose(const ota_resolved *r, const ota_solver **solver, ota_error *error);

/* cancel flag and deadline; OTA_OK to go on. Called once per round or row block. */
ota_status ota_interrupted(const ota_settings *settings);

#endif
