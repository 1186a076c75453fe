/* The linear algebra of backward, on one head in the orientation its solver saw (rows are solved exactly
 * for every g; for the transposed problem rows are keys).
 *
 * Implicit (adjoint.c). The rules  sum_j P_ij = R_i(f_i)  and  sum_i P_ij = C_j(g_j)  hold at the solution;
 * multipliers a [rows], b [columns] make dL/df and dL/dg vanish [DER-12..14]:
 *
 *     den_i a_i + sum_j w_ij b_j = sum_j w_ij U_ij         den_i   = sum_j w_ij (+ the sink's) + tau r_i / RHO
 *     (D_j + extra_j) b_j + sum_i w_ij a_i = sum_i w_ij U_ij   extra_j = tau nu_j exp(-g_j / rho) / rho (relaxed)
 *
 * with w = P^(2 - alpha), b_j = 0 on keys whose rule does not bind (free, caps that are not reached).
 *
 * Unrolled (unrolled.c). f, g come from a list of row and column updates, which are run again and then
 * reversed one by one [DER-15]; state O((rows + columns) rounds). Plain rounds read a stored kernel instead of the
 * scores (unrolled_kernel.c).
 *
 * This folder: conjugate gradients (adjoint.c), elimination where they stop short (adjoint_direct.c), fixed rounds
 * in reverse, on scores (unrolled.c) or on their kernel (unrolled_kernel.c), and along a direction. May call: what
 * src/solvers/ may. */
#ifndef OTA_ADJOINT_H
#define OTA_ADJOINT_H

#include "backend/gradient.h"
#include "solvers/solver.h"

typedef struct ota_adjoint ota_adjoint;
struct ota_adjoint {
    /* given */
    int64_t rows, columns, stride; /* stride: of the matrix and of every chunk's partial sums */
    void *slopes;                  /* [rows][stride] w, f64 or, `narrow`, f32 */
    bool narrow;
    const int64_t *
        listed; /* [rows] rows that are lists of so many pairs (backend/gradient.h), -1: not; NULL: none is */
    const ota_host_algebra *algebra;
    const double *den;         /* [rows], 0 = the row carries nothing */
    const double *extra;       /* [columns] */
    const unsigned char *held; /* [columns] 1: b_j = 0 */
    const double *row_right;   /* [rows] sum_j w U */
    /* NULL, or a row measures U - b from its steepest slope, at that column (-1: from 0): row_right and right are those of U less U
       there, less `rest` times it, and so is `a`; rest: den less sum_j w, which den may not tell */
    const int64_t *steepest;
    const double *rest;
    const double *right;   /* [columns] sum_i w_ij (U_ij - row_right_i / den_i) */
    double scale;          /* sum of the absolute terms of `right`, plus OTA_OFFSET_SHARE w |U| */
    double enough;         /* largest relative residual that is OTA_OK */
    double most_amplified; /* ends with OTA_NOT_CONVERGED beyond; 0: no limit */
    const ota_settings *settings;
    ota_pool *pool;
    double *partial, *more; /* [OTA_ADJOINT_CHUNKS][stride] */
    double *vectors;        /* OTA_ADJOINT_VECTORS of stride */
    double *couplings; /* [columns][columns], or NULL: conjugate gradients have the last word */
    /* found */
    double *a, *b; /* [rows], [columns] */
    double residual;
    /* most that b moved for what rounding does to w: sum_ij w_ij x_j^2 / (x H x) of a direction x */
    double amplification;
    /* Slopes that are stored nowhere: sums over this process's rows, y_j = sum_i w_ij (x_j - (w x)_i / den_i), with
       (w x)_i / den_i left in `a`; and w_ij themselves summed, which stand for the diagonal. NULL: `slopes`. */
    void (*apply)(const ota_adjoint *system, const double *x, double *y);
    const double *sums; /* [columns], of all processes */
    void *context;
};

/* Slopes of row i as a list; false: it has those of all columns. */
static inline bool ota_adjoint_list(const ota_adjoint *system, int64_t i, ota_slope_list *list) {
    const size_t number = system->narrow ? sizeof(float) : sizeof(double);
    if (system->listed == NULL || system->listed[i] < 0) return false;
    char *row = (char *)system->slopes + (size_t)(i * system->stride) * number;
    *list = ota_slope_list_at(row, system->listed[i], 0, number);
    return true;
}
static inline double ota_adjoint_number(const void *numbers, bool narrow, int64_t k) {
    return narrow ? (double)((const float *)numbers)[k] : ((const double *)numbers)[k];
}

/* The slopes of a row by rising columns: all of them, or those of a list. */
typedef struct ota_adjoint_slopes {
    const void *w;
    const int32_t *keys; /* NULL: all */
    int64_t count;
    bool narrow;
} ota_adjoint_slopes;

static inline ota_adjoint_slopes ota_adjoint_slopes_of(const ota_adjoint *s, int64_t i) {
    const size_t number = s->narrow ? sizeof(float) : sizeof(double);
    ota_slope_list list;
    if (ota_adjoint_list(s, i, &list))
        return (ota_adjoint_slopes){list.slopes, list.keys, list.count, s->narrow};
    return (ota_adjoint_slopes){(const char *)s->slopes + (size_t)(i * s->stride) * number, NULL,
                                s->columns, s->narrow};
}
static inline double ota_adjoint_slope_at(const ota_adjoint_slopes *row, int64_t k) {
    return ota_adjoint_number(row->w, row->narrow, k);
}
static inline int64_t ota_adjoint_column_at(const ota_adjoint_slopes *row, int64_t k) {
    return row->keys == NULL ? k : row->keys[k];
}

/* OTA_OK, OTA_NOT_CONVERGED (residual above `enough`), OTA_CANCELLED or OTA_TIMEOUT. */
ota_status ota_adjoint_solve(ota_adjoint *system);

/* b of the system by elimination, on `weight` = sum_i w_ij; the rest is scratch [columns], c [columns][columns].
 * Returns how much of the right side was dropped with offsets that move no weight. */
double ota_adjoint_eliminate(const ota_adjoint *system, const double *weight, double *c,
                             double *ground, double *total, double *right);

/* ---- unrolled ------------------------------------------------------------------------------- */

typedef enum ota_step_kind { OTA_STEP_ROWS, OTA_STEP_COLUMNS } ota_step_kind;

/* One update. g is what it starts from, after `ratio` was applied to it. */
typedef struct ota_step {
    ota_step_kind kind;
    double t;        /* temperature of the update */
    double ratio;    /* g <- ratio g before it (kept scalings), else 1 */
    double *g;       /* [columns] */
    double *result;  /* [rows] row update: the new f */
    const double *f; /* [rows] the f of a row update, or what a column's uses */
    double *level;   /* [columns] column update: L_j */
} ota_step;

/* Derivatives of L with respect to what the rounds were given. */
typedef struct ota_unrolled_sums {
    double temperature, row_strength, sink;
    double
        parameters[OTA_RULE_PARAMETERS]; /* of the column rule, beside their part in the target */
    double *row, *column;                /* [rows] d mu, [columns] d target */
} ota_unrolled_sums;

typedef struct ota_unrolled {
    /* scores f64; nu already what the rounds aim at; g in: start, out: found; f: scratch */
    ota_head *head;
    const double *found_f; /* [rows] */
    ota_step *steps;
    int64_t step_count;
    double *memory;                 /* of the steps: ota_unrolled_numbers */
    double *partial, *more_partial; /* [OTA_ADJOINT_CHUNKS][stride] */
    double *row_scratch;            /* [OTA_ADJOINT_CHUNKS][stride] */
    double *f_grad, *g_grad;        /* [rows], [columns] */
    double *gradient;               /* [rows][stride] in: dL/dP; out: dL/dS */
    ota_unrolled_sums sums;
} ota_unrolled;

/* One key's update and its derivatives. */
typedef struct ota_key_update {
    double next;     /* the new g */
    double by_g;     /* d next / d g */
    double by_level; /* d next / d (t log target) = - d next / d (t L) */
    double by_t;     /* d next / d t at fixed L */
    double by_parameter[OTA_RULE_PARAMETERS];
} ota_key_update;

/* Tangents of what the rounds were given; those of the scores lie in `gradient`. */
typedef struct ota_unrolled_tangents {
    double temperature, row_strength, sink;
    double parameters[OTA_RULE_PARAMETERS];
    const double *row, *column; /* [rows] dmu, [columns] d target */
} ota_unrolled_tangents;

ota_key_update ota_unrolled_key(const ota_head *head, double t, int64_t j, double g, double level);
/* kappa of a row update: 1, or of relaxed rows. */
double ota_unrolled_row_share(const ota_head *head, double t);

/* Steps of the rounds that forward runs for these settings, and numbers of memory they need; SIZE_MAX on
 * overflow. */
size_t ota_unrolled_steps(const ota_resolved *r);
size_t ota_unrolled_numbers(const ota_resolved *r, int64_t rows, int64_t columns);
/* Runs the rounds again: f and g of the plan that forward emitted. */
ota_status ota_unrolled_replay(ota_unrolled *u);
/* Reverses them. */
ota_status ota_unrolled_reverse(ota_unrolled *u);
/* unrolled_kernel.c: the same for plain rounds from rows to rows on K = exp((S - m) / t), vectors only; the passes
 * over K are the caller's. Round k of `rounds` is a row and a column update; row update `rounds` is the last. */
typedef struct ota_kernel_rounds {
    ota_head *head; /* mu, nu, rule and g, the start */
    int64_t rounds;
    bool narrow;               /* K and the extra dimensions are f32 */
    const unsigned char *used; /* [columns] ota_key_use; NULL: a row with mass may use each */
    int64_t row_lane, column_lane;
    double *u, *f_grad; /* [rounds + 1][row_lane] bare u, dL/df of row update k */
    double *v;          /* [rounds + 1][column_lane] */
    double *c, *y;      /* [rounds][column_lane] */
    double *g_grad;     /* [columns] */
    ota_unrolled_sums sums;
} ota_kernel_rounds;

/* Room in memory of ota_unrolled_numbers. */
void ota_kernel_rounds_place(ota_kernel_rounds *r, double *memory);
/* v of the start. Like the next three false where K in its type does not carry the rounds. */
bool ota_kernel_rounds_begin(ota_kernel_rounds *r);
/* Are the u of row update `round` within reach? */
bool ota_kernel_rounds_rows(const ota_kernel_rounds *r, int64_t round);
/* v of the next round from c of this one. */
bool ota_kernel_rounds_columns(const ota_kernel_rounds *r, int64_t round);
/* After the reverse: every factor finite and within reach. */
bool ota_kernel_rounds_carried(const ota_kernel_rounds *r);
/* Reverses column update `round`: y from g_grad; returns the largest |y|. */
double ota_kernel_rounds_pull(ota_kernel_rounds *r, int64_t round);
/* Reverses row update `round`, whose f_grad is known: transposed = K^T x / scale. */
void ota_kernel_rounds_take(ota_kernel_rounds *r, int64_t round, const double *transposed,
                            double scale);
/* The extra inner dimensions, their number and A of a row and B of a key. */
int64_t ota_kernel_rounds_width(int64_t rounds);
void ota_kernel_rounds_row(const ota_kernel_rounds *r, int64_t row, double *a);
void ota_kernel_rounds_key(const ota_kernel_rounds *r, int64_t key, double *b);
/* dL/dsink of a row whose sink has `weight` = exp((sink - m_i) / t) beside its K. */
double ota_kernel_rounds_sink(const ota_kernel_rounds *r, int64_t row, double weight);
/* dL/dt but for what scores and sink take part in. */
double ota_kernel_rounds_temperature(const ota_kernel_rounds *r);

/* unrolled_tangents.c: moves them; f_grad and g_grad become the tangents of f and g. */
ota_status ota_unrolled_follow(ota_unrolled *u, const ota_unrolled_tangents *tangents);

#endif
