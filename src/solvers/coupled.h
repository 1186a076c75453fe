/* Column-coupled heads: what sinkhorn.c, anderson.c, newton.c and coupled.c share.
 *
 * ota_passes (backend.h) says what a pass over the scores finds. L is all a column update needs (columns.h), c is all
 * the residual of numerics.md needs. All potentials are in units of S. */
#ifndef OTA_COUPLED_H
#define OTA_COUPLED_H

#include "problem/feasible.h"
#include "base/extrapolation.h"
#include "rounds.h"

/* What else of the workspace a method uses. */
typedef enum ota_needs {
    OTA_NEEDS_KERNEL = 1,
    OTA_NEEDS_HISTORY = 2,
    OTA_NEEDS_NEWTON = 4,
    OTA_NEEDS_INTERIOR = 8,
    OTA_NEEDS_SEARCH = 16, /* for unusable pairs */
    OTA_NEEDS_FLOW = 32,   /* for plans within entry caps */
    OTA_NEEDS_LISTS = 64
} ota_needs;

/* What the sentences of infeasible heads advise. */
#define OTA_WAYS_OUT "relaxed, capped or online columns can be met"

enum {
    OTA_NEWTON_VECTORS = 13,
    OTA_NEWTON_DENSE = 1024, /* keys up to which the Hessian is formed and factored */
    /* Pairs up to which the search for unusable pairs and Newton inside "auto" are affordable. */
    OTA_PAIRS_LIMIT = 1 << 22,
    OTA_FLOW_PAIRS = 1 << 18 /* up to which a plan within entry caps is looked for */
};

typedef struct ota_coupled ota_coupled;

/* What a head with coupled columns asks of its pairs, whether their scores are stored (stored_semidual.c) or nowhere together
 * (ranks/ring/ring_semidual.c). Sums over rows are of this process's. */
struct ota_semidual {
    /* Validation. Marks keys that some row with mass may use in pass.column_lse; the first row with mass whose every key is
       closed, or -1. */
    int64_t (*infeasible_row)(ota_coupled *state);
    /* room[columns]: what the caps of every key's entries add up to. The first row whose caps do not add up to its mass, with
       their sum, or -1. */
    int64_t (*infeasible_cap_row)(ota_coupled *state, double slack, double *room, double *row_sum);
    /* P of rows that are solved exactly for g at temperature t: head->f, sums_j = sum_i P_ij. */
    void (*rows)(ota_coupled *state, double t, double *sums);
    /* With w of that P, W_i and k (newton.c): full_j = sum_i w_ij, leak_j = sum_i w_ij (1 - k + k sink's w_i / W_i). */
    void (*slopes)(ota_coupled *state, double t, double *full, double *leak);
    /* Once slopes are known: y_j = - sum_i w_ij k / W_i sum_l w_il x_l. */
    void (*links)(ota_coupled *state, const double *x, double *y);
    /* The part of that which is the key's own: y_j = sum_i w_ij^2 k / W_i. NULL: it is not known. */
    void (*squares)(ota_coupled *state, double *y);
    /* With head->f as it is: top_j = max_i (S_ij + f_i). Of P at f and g: sums_j = sum_i P_ij, slopes_j = sum_i w_ij. */
    void (*tops)(ota_coupled *state, double *top);
    void (*columns)(ota_coupled *state, double t, double *sums, double *slopes);
};

/* Of every row the keys that may get weight (listed_semidual.c), 0 where a problem has no use for them. */
typedef struct ota_row_lists {
    double *scores,
        *weights;  /* [chunks][room]; no less than [rows][stride], in which dense steps keep P */
    int32_t *keys; /* [chunks][room] */
    int64_t room;  /* of a chunk */
    int64_t *begin, *count; /* [rows] */
    int64_t *active; /* [rows] once slopes are known: so many keys of a list have one, the first */
    double *bound;   /* [rows] keys that are not listed have S_ij + base_j below it */
    double *base;    /* [columns] */
    void *rounded;   /* [columns] base in the type of the scores */
    double *caps;    /* [chunks][columns] of a row's entries, where there is an array of them */
    int64_t *used;   /* [chunks] */
    int64_t *anew;   /* [chunks] rows that the last pass listed again; -1: no room was left */
    double risen;    /* what keys rose by until the last lists were spent; within entry caps */
    bool stale;      /* the next pass lists every row */
    bool known;      /* f is that of a pass before */
} ota_row_lists;

struct ota_coupled {
    ota_head *head;
    const ota_semidual *semidual;
    ota_passes pass;
    bool masked;        /* some pair of positive masses is forbidden */
    bool support_known; /* the search for unusable pairs was made */
    bool equal; /* the sums have no room between their bounds: a constant in g moves nothing */
    int side; /* then the sign that g must have: -1 all are at the upper, 1 at the lower bound, 0 either */

    double *best;                    /* [columns] g of the smallest residual so far */
    void *pruned;                    /* [rows][stride] scores without unusable pairs */
    unsigned char *allowed, *usable; /* [rows][columns + 1] */
    int32_t *order;                  /* [rows + columns + 2] blocks of usable pairs, feasible.h */
    bool split;                      /* some pair is not usable: `usable` and `order` say which */
    void *search;                    /* workspace of the search */
    void *flow;                      /* of the search for a plan within entry caps, or NULL */

    /* Anderson */
    double *history; /* 2 DEPTH + 2 vectors of padded columns */

    /* Newton */
    const double *wide; /* [rows][stride] scores in f64: the scores themselves, or `widened` */
    double *widened;
    double *weights;      /* [rows][stride] P */
    double *across;       /* [columns][rows rounded up] scaled weights, transposed */
    double *hessian;      /* [columns][padded columns] minus the off-diagonal part */
    double *factor;       /* the same, consumed by the elimination */
    unsigned char *fixed; /* [columns] keys that stay where they are */
    double *vectors;      /* OTA_NEWTON_VECTORS of padded columns */
    double *powers;       /* [rows] W_i */
    double *sinks;        /* [rows] weight on the sink */
    double *gathered;     /* [chunks][2][rows rounded up] */
    double *brackets;     /* [2] vectors of padded columns, of rows on many processes */
    ota_row_lists lists;
    struct {
        double *matrix; /* [3][rows][stride], within entry caps [5] */
        double *rows;   /* [6][rows] and [3][chunks] */
    } interior;
};

/* Lays the workspace out (arena measuring or placed). */
void ota_coupled_layout(ota_coupled *state, ota_arena *arena, bool prune, unsigned needs);
size_t ota_coupled_bytes(const ota_head_shape *shape, unsigned needs);

/* ---- passes ---------------------------------------------------------------------------------- */

static inline void ota_row_pass(ota_coupled *state, double t, double omega) {
    state->head->backend->row_pass(&state->pass, t, omega);
}
static inline void ota_column_pass(ota_coupled *state, double t) {
    state->head->backend->column_pass(&state->pass, t);
}

/* The rule of rows at temperature t. */
static inline ota_row_parameters ota_coupled_rows(const ota_coupled *state, double t) {
    const ota_head *head = state->head;
    return (ota_row_parameters){.kernels = head->host.kernels,
                                .regulariser = head->row.regulariser,
                                .order = head->row.order,
                                .tau = t,
                                .sink = head->row.sink,
                                .row_strength = head->row.strength,
                                .caps = head->row.caps};
}

/* ---- column_updates.c -------------------------------------------------------------------------- */

/* Sums of the plan that will be emitted. Returns the residual that decides: max(row_error, column_error), for caps
 * with the violated complementarity. */
double ota_measure(ota_coupled *state);
/* The column part of that residual for c and g as they are. */
double ota_column_residual(const ota_coupled *state);
/* Relaxed columns: moves g by the constant that makes the dual stationary along constants (rows
 * exact: no weight moves). */
void ota_constant_mode(ota_coupled *state);
/* One column update at temperature t from L, over-relaxed by omega. */
void ota_update_columns(ota_coupled *state, double t, double omega);

/* ---- rounding_floor.c ------------------------------------------------------------------------- */

/* The mass that the relaxed rows carry, of all processes. */
double ota_carried_mass(const ota_coupled *state);
/* What rounding leaves of the sums of relaxed rows: their plan may carry far more mass than was asked for, and all of it is
 * rounded. *carried: that mass over the rows'. */
double ota_carried_floor(const ota_coupled *state, double *carried);
/* Above order 2 weights leave 0 with an unbounded slope: the last digit of a potential moves them from 0 to its
 * (1 / (alpha - 1))th power, and no weight lies between. That is half the jumps of all columns, over the rows' mass: one
 * column alone may do better, but every row that answers moves the others by as much. 0 where it is not known: on many
 * processes, at keys that need not meet their sum, above 2^18 pairs. */
double ota_edge_floor(const ota_coupled *state);

/* ---- far_scores.c ------------------------------------------------------------------------------ */

/* How a head is solved whose scores may lie far apart. */
typedef struct ota_far_call ota_far_call;
struct ota_far_call {
    ota_status (*solve)(ota_head *head);
    void (*start)(const ota_far_call *call, ota_head *head); /* g of S, where one is given */
    /* the scores as they were given; false: the communicator failed */
    bool (*reload)(const ota_far_call *call, ota_head *head);
    const void *context;
};

/* Does the range of the scores allow the tolerance? */
bool ota_far_scores_are_near(const ota_head *head);
/* May ota_far_scores_solve write other scores over the head's? */
bool ota_far_scores_may_move(const ota_head *head);
/* Solves a head with a tolerance where the range of its scores allows that, or else on scores S' that are near each other
 * (head->scores.far says what f and g are then less than those of S). */
ota_status ota_far_scores_solve(ota_head *head, const ota_far_call *call);
/* Exact columns whose sink lies far from all scores: g would have to close the distance, beside which scores have no digits. What
 * is taken off the sink is a constant of g. */
void ota_far_sink_near(ota_head *head);
/* The pairs left allow no plan of positive weights, while that of the numbers gives the unusable ones as good as nothing: shuts
 * them, too. False: not beside far scores. Then, of the plan without them, potentials at which they get nothing. */
bool ota_far_scores_part(ota_coupled *state);
void ota_far_scores_set_apart(const ota_coupled *state);

/* ---- far_plan.c -------------------------------------------------------------------------------- */

/* Bytes that this takes of a solver's workspace before the solver runs, for these columns. */
size_t ota_far_scores_bytes(const ota_head_shape *shape, ota_column_rule columns);
/* Why there are no such potentials; NULL: there are. */
const char *ota_far_plan_cannot(const ota_head *head);
/* The potentials of a plan without entropy over f and g: OTA_OK, or why there are none. */
ota_status ota_far_plan_find(ota_head *head);

/* ---- prefix_plans.c ---------------------------------------------------------------------------- */

/* What follows the solve of a leading block, which is not solved where its last row is without mass. Its potentials belong to
 * block->scores. */
typedef ota_status ota_block_visit(void *context, const ota_head *block);
/* Solves every leading block of a head of prefix columns, in the workspace of ota_solver_prefix. */
ota_status ota_prefix_walk(ota_head *head, ota_block_visit *visit, void *context);

/* ---- methods -------------------------------------------------------------------------------- */

/* impatient: return OTA_SLOW as soon as the rate says that many rounds are needed. */
ota_outcome ota_sinkhorn_run(ota_coupled *state, bool impatient, ota_status *stopped);
ota_outcome ota_anderson_run(ota_coupled *state, ota_status *stopped);
ota_outcome ota_newton_run(ota_coupled *state, ota_status *stopped);
unsigned ota_newton_needs(const ota_settings *s, const ota_regulariser_row *regulariser);

/* Enters, runs and leaves a solve; every table row's solve() is one call of it. */
ota_status ota_coupled_solve(ota_head *head, unsigned needs, bool linear,
                             ota_outcome (*method)(ota_coupled *state, ota_status *stopped));
/* Tells of the round; cancelled or late? Asked once per round. */
ota_status ota_coupled_tick(const ota_coupled *state, int64_t round, double residual);
/* Looks for unusable pairs and for feasibility when this was not done yet. False: hopeless, the
 * head's sentence says why. */
bool ota_coupled_search(ota_coupled *state);
/* Does a key that asks for nothing stay without weight? */
bool ota_coupled_closes(const ota_head *head, int64_t j);
/* Why no solver of this family applies, or only those that run rounds; NULL: all of them do. */
const char *ota_not_coupled(const ota_resolved *r);
const char *ota_tolerance_only(const ota_resolved *r);

/* ---- stored_semidual.c ---------------------------------------------------------------------- */

/* w of one Tsallis weight of a row of this mass. */
double ota_newton_slope(const ota_head *head, double mass, double p);
extern const ota_semidual ota_stored_semidual;
/* state->wide of the scores. */
void ota_widen_scores(ota_coupled *state);
/* state->hessian = minus the off-diagonal part of w^T w, lower triangle; w [rows][columns] lies in
 * state->weights. */
void ota_newton_links(ota_coupled *state);

/* ---- listed_semidual.c ---------------------------------------------------------------------- */

extern const ota_semidual ota_listed_semidual;
void ota_row_lists_layout(ota_coupled *state, ota_arena *arena, bool capped);
/* Before the first pass, and whenever the scores have changed. */
void ota_row_lists_begin(ota_coupled *state);
/* A temperature times this is as far as the weights of a row fall off in the scores, from the row's mass or from what its pairs may
 * have: (p / mu)^(alpha - 1) has no unit. */
double ota_reach_of_weights(const ota_coupled *state, bool within_caps);

/* ---- interior.c ----------------------------------------------------------------------------- */

/* f and g close to the optimum at temperature t, from a start of its own; false: stopped. */
bool ota_interior_run(ota_coupled *state, const double *scores, double t, ota_status *stopped);

/* ---- newton_columns.c ----------------------------------------------------------------------- */

/* g by one column update at temperature t with head->f held. */
void ota_newton_columns(ota_coupled *state, double t);

/* ---- coupled_ranks.c: rows on many processes; one process: nothing to do ------------------------- */

/* What loading found of this process's rows becomes what all rows have: masses, keys in use, range, flags. False: the
 * communicator failed. */
bool ota_coupled_share_scores(ota_head *head, bool *finite);
/* What validation found: keys that rows with mass may use, forbidden pairs, whether a row is shut. What interrupted a rank in
 * that pass comes before all of it. */
ota_status ota_coupled_share_door(ota_coupled *state, bool *shut);
/* [columns] sums over rows. What fails ends the run at the next tick. */
static inline void ota_coupled_share(const ota_coupled *state, double *sums, const char *step) {
    (void)ota_ranks_sum(state->head->settings, sums, state->pass.columns, NULL, 0, step);
}
/* ota_newton_columns where no process has a whole column. */
void ota_newton_columns_of_ranks(ota_coupled *state, double t);

/* ---- newton_system.c ------------------------------------------------------------------------ */

/* (diag(excess) + Laplacian(links)) x = b, no subtraction in the factors, so that links of any ratio keep their relative
 * accuracy. */
typedef struct ota_laplacian {
    const ota_host_algebra *algebra;
    ota_watch watch; /* factors of a run that is to end are left half done */
    double *links;   /* [count][stride]: the lower triangle is read, >= 0; becomes the factor */
    int64_t stride, count;
    double *excess;             /* [count] >= 0; becomes the pivots */
    const unsigned char *fixed; /* [count] not 0: x is given; NULL: nowhere */
} ota_laplacian;

/* Nodes that end without any link or excess get x = 0. Destroys b. */
void ota_laplacian_solve(ota_laplacian *is, double *b, double *x);
/* Its two halves, for several b; fixed nodes must have no links. */
void ota_laplacian_factor(ota_laplacian *is);
void ota_laplacian_substitute(const ota_laplacian *is, double *b, double *x);

#endif
