/* backend.h: what a backend does for the solvers and the operator: passes over the heads of a problem.
 *
 * The operator decides (plan.c) and drives (forward.c, operator/backward.c, jvp.c), a solver runs its loop on one head after
 * another or on as many as the operator hands it, and every number of size queries x keys is formed, read and written
 * by a backend. What is small, potentials f [rows] and g [columns], masses mu and nu and sums, lies in host memory in
 * f64, so that loops and tests for convergence are written once.
 *
 *     rows alone, rows in order    run_rows                      nothing couples the rows: one pass does all
 *     coupled heads                open, then either
 *                                    kernel_round ... kernel_emit   rounds on K = exp(S / tau), formed once
 *                                    load, row_pass ..., emit       passes over stored scores
 *
 * Shapes: rows and columns are those of the solver: queries and keys, or keys and queries where the problem is
 * transposed (ota_problem.axis).
 *
 * This folder: the seam. A folder below is a backend; its row stands in run.c. What backward asks stands in
 * gradient.h. May call: base/, problem/, columns/, terms/, masks/, regularisers/. */
#ifndef OTA_BACKEND_H
#define OTA_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "columns/columns.h"
#include "costs.h"
#include "matching.h"
#include "otattn.h"
#include "product.h"
#include "problem/problem.h"
#include "problem/ranks.h"
#include "regularisers/regularisers.h"

typedef struct ota_backend ota_backend;
typedef struct ota_semidual ota_semidual; /* solvers/coupled.h */
typedef struct ota_device ota_device;     /* a backend's memory and choices for one plan */

/* ---- one call of forward ---------------------------------------------------------------------- */

enum { OTA_SMALL_HEADS_MOST = 16 }; /* in one batch of small heads */

/* What became of one head. */
typedef struct ota_head_status {
    ota_head_result result;
    int64_t empty_rows, nonfinite_rows, unusable, pruned, underflowed;
    double mass; /* of the rows that are not empty */
    /* of coupled plans: mass on pairs that masks and biases take far down (OTA_MASKED_ADDEND) */
    double masked;
    double temperature_reached;
    bool promoted, small; /* small: solved in a batch of small heads, by rounds */
    const char *solver;   /* that found this head's plan; NULL: the plan's */
} ota_head_status;

typedef struct ota_run {
    const ota_resolved *resolved;
    const ota_arrays *arrays;
    ota_device *device;
    ota_head_status *heads; /* [batch * heads] */
    char (*sentences)[512]; /* [batch * heads] reasons, coupled heads only */
    bool wants_statistics;  /* something besides out, lse and row_potential is wanted */
    _Atomic int stopped;    /* OTA_OK, OTA_CANCELLED or OTA_TIMEOUT */
    atomic_flag telling;
    _Atomic int64_t heads_done;
} ota_run;

/* ota_interrupted for a run, which remembers. */
bool ota_run_interrupted(ota_run *run);
/* Progress of a running head. One call at a time: whoever finds another telling says nothing. */
void ota_run_report_progress(void *run, int64_t round, double residual);
/* Quiet NaN into every output of one head. */
void ota_run_poison(ota_pool *pool, const ota_arrays *arrays, int64_t batch, int64_t head);
/* The last word on one head: mass totals, status, poison. `mass` is the total of rows that are not empty. */
void ota_run_finish_head(ota_run *run, int64_t batch, int64_t head, double mass);

/* An element of a vector over queries or keys, where the caller wants it. */
static inline void ota_put(const ota_array *a, int64_t batch, int64_t head, int64_t index,
                           double value) {
    if (ota_array_present(a)) ota_array_set(a, batch, head, 0, index, value);
}

/* ---- one row ------------------------------------------------------------------------------------ */

/* Where the weights of a row of an order above 2 begin (edge.h): beside them a potential of one double holds too little. */
typedef struct ota_edge {
    double at, weight; /* e, the least x that has weight, and q there */
    double delta;      /* what e lies above the threshold, scaled */
    double sum;        /* of the weights, mu up to rounding */
    bool known;        /* false: rows of other orders, and those whose caps leave none */
} ota_edge;

typedef struct ota_row_parameters {
    const struct ota_kernels *kernels; /* the CPU backend's level; others leave it NULL */
    const ota_regulariser_row *regulariser;
    double order, tau;        /* alpha, a number of the formulas of entmax; the temperature */
    double sink;              /* -inf: none */
    double row_strength;      /* INFINITY: sums are exact */
    const ota_custom *custom; /* NULL: a regulariser of ours */
    ota_entry_caps caps;      /* where the regulariser is capped */
    int64_t line;             /* the row, for its caps */
    ota_edge edge;            /* of a row that is weighed at its potentials, where it is known */
    const double *key_caps;   /* of a row that is a list of keys, one each; NULL: `caps` has them */
    double capacity;          /* online: the largest that a key begins with; 0 elsewhere */
    /* Entmax of orders 1 to 2, of rows that are solved again and again: where -f is about, NAN nowhere; and the miss, relative
     * to the mass, from which a step that squares it is the last. NULL: a row by itself. */
    const double *threshold;
    double close;
} ota_row_parameters;

/* What an online row may miss of its mass: rounding of its own sums, and of what earlier rows took from the capacities, which
 * are of another size than the row; of the latter at most 1e-9 of the row's mass. */
static inline double ota_online_slack(const ota_row_parameters *row, int64_t count, double mu) {
    const double unit = 4.0 * 1.2e-16 * (double)(count + 1);
    return fmax(unit * mu, fmin(unit * row->capacity, 1.0e-9 * mu));
}

/* (s + shift) / tau where the sum may leave the range of a double. */
static inline double ota_custom_argument(double s, double shift, double tau) {
    const double x = (s / 2.0 + shift / 2.0) / (tau / 2.0);
    return x > -1.0e308 ? x : -1.0e308;
}

typedef struct ota_row_found {
    double potential; /* f, units of S; -inf for an empty row (or mu = 0) */
    double mass;      /* sum of the weights on real keys */
    double sink;      /* weight on the sink */
    double lse;       /* LSE_j (s_j + h_j)/tau with sink; entropy only */
    ota_edge edge;    /* beside the potential */
    int64_t full;     /* of a list: keys at their caps, behind the others */
    bool empty;       /* no allowed key and no sink */
    bool nonfinite;   /* NaN or +inf met: all weights are NaN */
    bool infeasible;  /* online: the keys left cannot take mu */
    bool applied;     /* the row's output has been formed already */
} ota_row_found;

/* ---- linear algebra on the host ------------------------------------------------------------------ */

enum { OTA_LIST_ROOM = 16 }; /* elements that a list of kept scores may write past its last one */

/* Matrices and rows in host memory, f64: what Newton, the interior point, prefix and unrolled rounds are made of. Rows
 * may have any alignment. */
typedef struct ota_host_algebra {
    double (*sum)(const double *p, int64_t count);
    /* column[j] += factor p[j] */
    void (*accumulate)(const double *p, int64_t count, double factor, double *column);
    void (*multiply)(double *p, int64_t count, double factor);
    /* out += p v */
    void (*apply)(const double *p, const double *v, const ota_product *sizes, double *out);
    /* p_j = 2^((s_j + h_j - shift) c); returns the sum */
    double (*exponentials)(const double *s, const double *h, int64_t count, double shift, double c,
                           double *p);
    /* top[j] = max(top[j], s_rj + f_r); column[j] += 2^((s_rj + f_r - top[j]) c); rows with f = -inf are skipped */
    void (*columns_top)(const double *s, int64_t lds, int64_t rows, int64_t columns,
                        const double *f, double *top);
    void (*columns_sum)(const double *s, int64_t lds, int64_t rows, int64_t columns,
                        const double *f, const double *top, double c, double *column);
    /* Weights p of one row s with bias h (NULL: 0), mass mu; p may be s. */
    void (*row_solve)(const ota_row_parameters *row, const double *s, const double *h,
                      int64_t count, double mu, double *p, ota_row_found *found);
    /* The system of implicit gradients (solvers/derivatives/adjoint.h), on slopes w [rows][ldw] of either type, sums in f64:
       mean_i = (w_i . x) / den_i, 0 where den_i is not above 0; y_j += w_ij (x_j - mean_i) */
    void (*centred_product_f32)(const float *w, int64_t ldw, int64_t rows, int64_t columns,
                                const double *x, const double *den, double *mean, double *y);
    void (*centred_product_f64)(const double *w, int64_t ldw, int64_t rows, int64_t columns,
                                const double *x, const double *den, double *mean, double *y);
    /* weight_j += w_ij, diagonal_j += w_ij (1 - w_ij / den_i), rows of den > 0 */
    void (*slope_diagonal_f32)(const float *w, int64_t ldw, int64_t rows, int64_t columns,
                               const double *den, double *weight, double *diagonal);
    void (*slope_diagonal_f64)(const double *w, int64_t ldw, int64_t rows, int64_t columns,
                               const double *den, double *weight, double *diagonal);
    /* Weights of a row at both potentials (h, f), and of a row in order: remaining [count] is read and lowered. */
    void (*row_weights)(const ota_row_parameters *row, const double *s, const double *h,
                        int64_t count, double f, double *p, ota_row_found *found);
    void (*row_online)(const ota_row_parameters *row, const double *s, int64_t count, double mu,
                       double *remaining, double *p, double *scratch, ota_row_found *found);
    /* Rows [first, first + rows) of an array of any type and strides into to[rows][ld], and back, rounded to nearest. */
    void (*read_rows)(const ota_array *from, int64_t batch, int64_t head, int64_t first,
                      int64_t rows, double *to, int64_t ld);
    void (*write_rows)(const ota_array *to, int64_t batch, int64_t head, int64_t first,
                       int64_t rows, const double *from, int64_t ld);
    /* The largest s_j + h_j, and the scores with s_j + h_j above `floor` in their order: kept[i] = s[where[i]]; returns how
       many. Room for count + OTA_LIST_ROOM elements. Of scores of either type, as h and kept are. */
    float (*top_f32)(const float *s, const float *h, int64_t count);
    double (*top_f64)(const double *s, const double *h, int64_t count);
    int64_t (*list_f32)(const float *s, const float *h, int64_t count, float floor, float *kept,
                        int32_t *where);
    int64_t (*list_f64)(const double *s, const double *h, int64_t count, double floor, double *kept,
                        int32_t *where);
    /* w_j = p_j^power where p_j > 0, else 0 */
    void (*slope_weights)(const double *p, int64_t count, double power, double *w);
    /* Raw products (or matrix entries) of keys [begin, end) into scores; row[0] belongs to key `begin`. */
    void (*row_scores)(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                       int64_t begin, int64_t end, double *row);
    /* how the search for a matching reads rows of scores: f64, f32 */
    const ota_costs *costs[2];
    const ota_match_passes *match; /* NULL: matchings go by candidates alone */
} ota_host_algebra;

/* ---- one head in flight ------------------------------------------------------------------------ */

/* How the final row update gets its weights from what the solver leaves. */
typedef enum ota_final_update {
    OTA_FINAL_ROWS,       /* solve each row with bias g: rows are exact */
    OTA_FINAL_POTENTIALS, /* P from f and g as they are (printed order that ends on columns) */
    OTA_FINAL_PLAN,       /* P itself lies in `plan` */
    OTA_FINAL_MATCH       /* row i gives all its mass to key match[i] */
} ota_final_update;

/* Who may use a key. One that only rows without mass may use counts where masses are shared evenly among keys, and receives
 * nothing. */
typedef enum ota_key_use {
    OTA_KEY_SHUT, /* no row */
    OTA_KEY_IDLE, /* rows without mass alone; of stored scores, rows whose masses nobody looked at */
    OTA_KEY_REACHED /* a row with mass */
} ota_key_use;

/* key_use.c: may one of the solver's rows use the key, of those with mu > 0 or, where mu is NULL, of all? */
bool ota_key_has_row(const ota_resolved *r, int64_t batch, int64_t head, bool transposed,
                     const double *mu, int64_t rows, int64_t key);

/* Vectors of rounds on a kernel, all of length columns, in host memory:
 *
 *     K = exp((S + a - m_i) / t),  v = exp((g - a) / t),  c_j = sum_i u_i K_ij */
typedef struct ota_kernel_state {
    double *target;      /* nu, balanced to the row mass */
    double *sum;         /* c */
    double *scaling;     /* v */
    double *absorbed;    /* a, numbers of the kernel's type */
    unsigned char *used; /* ota_key_use */
    double *history;     /* memory of the extrapolation, or NULL */
    double *u;           /* [rows] */
    bool masked;         /* some pair may be forbidden: `used` counts */
    /* what the loop says of the round at hand */
    struct {
        bool careful;  /* to a tolerance: the first round measures the floor of the arithmetic */
        bool first;    /* finds keys in use, and range and norms for the floor */
        bool met;      /* u belongs to the scalings as they are */
        bool absorbed; /* a is not 0 */
    } round;
    /* out of the first round */
    struct {
        int64_t least_keys; /* that a row with mass may use, where they are fewest */
        double low, high;   /* careful: of the scores */
        double norm;        /* careful: of the queries, squared */
    } range;
    /* out of the last round: sums out of range, mass without a key, NaN or infinity */
    struct {
        bool lost, infeasible, nonfinite;
    } found;
} ota_kernel_state;

/* What solvers/far_scores.c does to stored scores. */
typedef struct ota_far {
    /* given: the scores, to write, and memory; NULL where scores are stored nowhere */
    void *scores;
    double *row_shift, *row_top; /* [rows] taken off S; largest number of the row afterwards */
    double *column_shift;        /* [columns] taken off S */
    double *asked, *floors;      /* [columns] nu and floors of keys whose bounds bind for certain */
    bool shut;                   /* found: the scores are S', and f and g belong to those */
    bool aligned;                /* by the potentials of a plan without entropy */
    bool parted;                 /* without the pairs, too, that no plan uses of those left */
    bool follows;                /* that plan comes next where steps are slow */
    double depth;                /* pairs as far as this below the top of their row are shut */
    double sink;                 /* taken off the sink, g and row_shift aside */
    double rows_sink; /* where rows that use their sink have it before they are shifted */
} ota_far;

/* One head. n = rows, m = columns. All potentials in units of S. */
typedef struct ota_head {
    const ota_backend *backend;
    const ota_settings *settings;
    int64_t index; /* batch * heads + head, for sentences */
    int64_t rows, columns;
    int64_t all_rows; /* of all processes */
    double tau;       /* final temperature */
    const double *mu; /* [rows], 0 for empty rows (all forbidden) */
    const double *nu; /* [columns] T: what the rule asks for, or the most that it allows */
    double mass;      /* sum of mu */
    double *f, *g;    /* [rows], [columns]; found */
    bool warm;        /* g holds a starting point */
    /* the stored scores, by the backend's `load` and solvers/far_scores.c */
    struct {
        const void *data;   /* [rows][stride] on the host, -inf = forbidden, no +inf or NaN; NULL */
        int64_t stride;     /* >= columns, multiple of 16; the padding is -inf */
        bool narrow;        /* f32, else f64 */
        bool tried;         /* f32, and where it does not do, f64 follows */
        bool numbers_added; /* to some, by pair: such may stand for "forbidden" */
        double range, highest; /* of the finite ones: max - min, max (-INFINITY of none) */
        ota_far far;
    } scores;
    /* what the problem asks of rows */
    struct {
        const ota_regulariser_row *regulariser;
        double order;        /* alpha, a number of the formulas of entmax */
        double sink;         /* logit, -inf = none */
        double strength;     /* RHO of relaxed rows; INFINITY = rows exact */
        ota_entry_caps caps; /* where the regulariser is capped */
        double
            mass_tolerance; /* totals that differ by less, relative, count as equal (numerics 3.7) */
    } row;
    /* and of columns */
    struct {
        ota_column_rule rule;  /* EXACT RELAXED CAPPED ELASTIC */
        double strength;       /* rho of RELAXED */
        double lambda;         /* ELASTIC */
        const double *lambdas; /* [columns] or NULL */
        double floor, scale;   /* least column sum in units of nu; nu in units of the key's mass */
        const double *floors;  /* [columns] in the place of `floor`, or NULL */
        ota_side start, end;
    } column;
    /* what the backend lends */
    struct {
        ota_pool *pool;  /* split rows over it in fixed chunks: results may not depend on threads */
        void *workspace; /* as many bytes as the solver's workspace() said, 64-byte aligned */
        const ota_host_algebra *algebra;
        const struct ota_kernels *kernels; /* the CPU backend's level; others leave it NULL */
        void *place;                       /* where this head is worked on */
        /* progress of a running head, from any thread; NULL: it is not asked for */
        void (*report)(void *context, int64_t round, double residual);
        void *report_context;
    } host;
    ota_kernel_state kernel;
    /* what the solver leaves besides f and g */
    struct {
        double *plan; /* [rows][stride] f64 when the solver emits the plan, else NULL */
        int64_t
            *match; /* [rows] when the final row update is OTA_FINAL_MATCH; lies in `workspace` */
        ota_final_update update;
        int64_t rounds;
        /* Of the plan that will be emitted, in f64, numerics 3.5. Rows: of coupled heads alone; what emits rows sums anew. */
        double row_error, column_error;
        double temperature;
        const char *
            method; /* the row of the table that found it, where `solve` chose among some; or NULL */
        int64_t unusable, pruned, underflowed;
        char sentence[512]; /* why not OTA_OK */
    } found;
} ota_head;

static inline const ota_column_rule_row *ota_head_rule(const ota_head *head) {
    return ota_column_rule_of(head->column.rule);
}

/* The least sum of key j in units of nu. */
static inline double ota_head_floor(const ota_head *head, int64_t j) {
    return head->column.floors != NULL ? head->column.floors[j] : head->column.floor;
}

static inline ota_column_parameters ota_head_parameters(const ota_head *head, int64_t j) {
    return (ota_column_parameters){.strength = head->column.strength,
                                   .lambda = head->column.lambdas != NULL ? head->column.lambdas[j]
                                                                          : head->column.lambda,
                                   .floor = ota_head_floor(head, j),
                                   .scale = head->column.scale};
}

/* head.c: what follows from the problem alone: the parameters of a head's rows, and of a head all but the backend's
 * memory. */
ota_row_parameters ota_row_parameters_of(const ota_resolved *r, int64_t batch, int64_t head);
ota_head ota_head_of(const ota_resolved *r, int64_t index);
void ota_head_put_range(ota_head *head, double low, double high); /* of the finite scores */
/* Fills nu, which holds > 0 for the columns in use, from head->mass and the masses of the problem, and lambdas. */
void ota_head_allot(const ota_head *head, const ota_resolved *r, double *nu, double *lambdas);

/* The update of key j at temperature t; keys differ only where `lambdas` or `floors` are given. */
static inline ota_column_step ota_head_step(const ota_head *head, int64_t j, double t) {
    const ota_column_parameters key = ota_head_parameters(head, j);
    return ota_head_rule(head)->step(&key, t);
}

/* ---- passes over stored scores ------------------------------------------------------------------ */

/* How a pass forms the plan. */
typedef enum ota_domain {
    OTA_DOMAIN_LOG,    /* one fused sweep; two more where a column underflows */
    OTA_DOMAIN_LINEAR, /* kernel formed once, scalings updated, absorbed at need [CETA-06] */
    OTA_DOMAIN_ROWS    /* row by row as the final row update does */
} ota_domain;

/* What passes over the scores of one head work in and find. A pass takes column potentials g [columns] at temperature
 * t, solves every row and sums the columns of the plan it finds:
 *
 *     f_i = row update,   c_j = sum_i P_ij,   L_j = LSE_i((S_ij + f_i) / t) = log c_j - g_j / t
 *
 * Rows are cut into chunks that depend on their number only and chunk sums are added in order, so that no bit depends
 * on threads. */
typedef struct ota_passes {
    ota_head *head;
    int64_t rows, columns, stride;              /* of the scores */
    int64_t chunk_rows, chunks, padded_columns; /* columns rounded up to whole cache lines */
    const void *scores; /* head->scores.data, or its copy without the unusable pairs */
    bool narrow;
    ota_domain domain;
    double temperature;          /* of the last pass */
    double *target;              /* [columns] nu, balanced to the row mass within rounding */
    double *column;              /* [columns] c */
    double *column_lse;          /* [columns] L */
    double *previous;            /* [columns] g of the round before */
    double *shift, *sum, *error; /* [rows] of the fused pass; row errors */
    double *old_f;               /* [rows] f of the pass before */
    void *potential;             /* [padded_columns] g as the type of the scores */
    /* a share a chunk, [chunks][padded_columns] */
    struct {
        double *sums;    /* of the columns */
        double *relaxed; /* of the columns with relaxed f */
        void *scratch, *top;
    } chunk;
    /* the linear domain's; `kernel` is NULL without one */
    struct {
        void *kernel;  /* [rows][stride] */
        void *scaling; /* [padded_columns] v */
        double *absorbed_f, *absorbed_g, *scaled_sink, *u;
        double *middle; /* [columns] absorbed beside g when costs are centred [TOT-106] */
        bool formed;
        int64_t underflowed;
    } linear;
} ota_passes;

static inline void ota_chunk_rows(const ota_passes *passes, int64_t chunk, int64_t *first,
                                  int64_t *last) {
    *first = chunk * passes->chunk_rows;
    *last = ota_int_min(*first + passes->chunk_rows, passes->rows);
}

static inline double ota_score(const ota_passes *passes, int64_t i, int64_t j) {
    return passes->narrow ? (double)((const float *)passes->scores)[i * passes->stride + j]
                          : ((const double *)passes->scores)[i * passes->stride + j];
}

/* run.c: total[j] = sum of partial over chunks, in order; body(job, chunk): every chunk once. */
void ota_add_chunks(const ota_passes *passes, const double *partial, double *total);
void ota_each_chunk(ota_passes *passes, void (*body)(void *job, int64_t chunk, int worker),
                    void *job);

/* What of a problem depends on what. */
typedef enum ota_path {
    OTA_PATH_ROWS,    /* nothing couples the rows */
    OTA_PATH_ORDERED, /* each row takes from what earlier rows left (online) */
    OTA_PATH_COUPLED  /* the columns couple all rows of a head, or the problem is transposed */
} ota_path;

/* The precisions that a head is tried in. */
typedef enum ota_ladder {
    OTA_LADDER_F32,
    OTA_LADDER_F64,
    OTA_LADDER_F64_ON_F32,     /* f64 on scores that f32 holds exactly */
    OTA_LADDER_F32_THEN_F64,   /* f32, and f64 for the heads that it cannot certify */
    OTA_LADDER_F32_WARM_F64,   /* rounds in f32 warm-start those in f64 */
    OTA_LADDER_F32_OR_WARM_F64 /* f32; where it cannot certify, its rounds warm-start f64's */
} ota_ladder;

/* How a device goes about its problem, fixed when it is created or shrunk. */
typedef struct ota_strategy {
    ota_path path;
    const char *name, *why; /* for describe */
    const char *level;      /* of instructions */
    ota_ladder ladder;
    bool transposed;
    int64_t rows, columns,
        stride;          /* of a coupled head's scores: stride >= columns, a multiple of 16 */
    int64_t padded_keys; /* keys rounded up to a multiple of 16 */
    const ota_host_algebra *algebra;
    const struct ota_kernels *kernels; /* of row parameters: the CPU backend's level, else NULL */
    bool on_kernel;                    /* coupled: Sinkhorn rounds run on a stored kernel first */
    bool stored;                       /* coupled: and stored scores are there for any solver */
} ota_strategy;

static inline bool ota_ladder_begins_f32(ota_ladder ladder) {
    return ladder != OTA_LADDER_F64 && ladder != OTA_LADDER_F64_ON_F32;
}
static inline bool ota_ladder_ends_f64(ota_ladder ladder) { return ladder != OTA_LADDER_F32; }
/* May a head be done in f32 although f64 is there? */
static inline bool ota_ladder_tries_f32(ota_ladder ladder) {
    return ladder == OTA_LADDER_F32_THEN_F64 || ladder == OTA_LADDER_F32_OR_WARM_F64;
}
static inline bool ota_ladder_warms(ota_ladder ladder) {
    return ladder == OTA_LADDER_F32_WARM_F64 || ladder == OTA_LADDER_F32_OR_WARM_F64;
}
/* Is all work on data of this type done in f64 although the data is narrower? */
static inline bool ota_ladder_promotes(ota_ladder ladder, ota_type type) {
    return type != OTA_F64 && (ladder == OTA_LADDER_F64 || ladder == OTA_LADDER_F64_ON_F32);
}

/* What the size of a solver's workspace follows from. */
typedef struct ota_head_shape {
    const ota_backend *backend;
    const ota_resolved *resolved;
    int64_t rows, columns;
    bool narrow; /* scores in f32 */
} ota_head_shape;

/* ---- the table ---------------------------------------------------------------------------------- */

/* How the rows of a problem are solved. */
typedef enum ota_layout_kind {
    OTA_LAYOUT_ROWS,    /* alone, by their thresholds or in order */
    OTA_LAYOUT_SOFTMAX, /* alone, in closed form */
    OTA_LAYOUT_ENTMAX,  /* alone, by thresholds of powers */
    OTA_LAYOUT_COUPLED  /* a solver finds the column potentials, or the plan itself */
} ota_layout_kind;

/* What the operator has decided when it asks for a device. */
typedef struct ota_layout {
    const ota_resolved *resolved; /* the plan's; outlives the device */
    ota_pool *pool;               /* the plan's */
    int64_t values_width;
    ota_layout_kind kind;
    /* of plain Sinkhorn rounds that start and end on rows */
    struct {
        bool plain;      /* the solver may run them */
        bool may_switch; /* and go on with another method where they are slow */
        /* bytes for one head of rows x columns that they fall back on */
        size_t (*workspace)(const ota_head_shape *shape);
    } rounds;
    /* coupled */
    struct {
        bool wide;         /* it works in f64 whatever the data is */
        bool reads_narrow; /* though scores that f32 holds may stay f32 */
        bool needs_plan;   /* it wants ota_head.found.plan */
        /* bytes for one head of rows x columns, or NULL: none */
        size_t (*workspace)(const ota_head_shape *shape);
    } solver;
} ota_layout;

/* head.c: what the solver on stored scores works in: of a fixed number of plain rounds, or of the solver. */
void *ota_take_workspace(const ota_layout *layout, ota_arena *arena, const ota_head_shape *shape);

struct ota_backend {
    const char *name;
    /* Levels of instructions, oldest first: NULL past the end; NULL where there is no choice. */
    const char *(*level)(int index);

    /* ---- devices: a choice of strategy, then twice lay_out, to measure and to place */
    ota_status (*create)(const ota_layout *layout, ota_device **device, ota_error *error);
    void (*lay_out)(ota_device *device, ota_arena *arena);
    /* The next choice that needs less memory; false: `step` has none. Steps 0, 1, 2 are asked in turn. NULL: one choice. */
    bool (*shrink)(ota_device *device, int step);
    ota_strategy (*strategy)(const ota_device *device);
    /* The keys that exist: all, or those of a decode step. */
    void (*set_key_count)(ota_device *device, int64_t key_count);
    void (*close)(ota_device *device); /* NULL is fine */

    /* ---- rows alone and rows in order: everything the caller wants of all heads */
    void (*run_rows)(ota_run *run);

    /* ---- small coupled heads: how many one batch holds (0: this run has none), and one batch (both NULL where none has
       any). left[k]: head k of the batch could not be solved so. Rounds of Sinkhorn. */
    int64_t (*small_heads)(const ota_run *run);
    void (*run_small)(ota_run *run, int64_t batch, int64_t place, bool *left);

    /* ---- one coupled head, on `place` (0 ... places - 1, one head each at a time) */
    int64_t (*places)(const ota_device *device);
    /* Fills what is given; f and g are 0 unless `keep_g`. narrow: in f32. */
    void (*begin_head)(ota_run *run, int64_t index, int64_t place, bool narrow, bool keep_g,
                       ota_head *head);
    /* Rounds on a kernel: NULL where ota_strategy.on_kernel is never true, as are a ladder's warm starts.
       pays_warm_start: would rounds in f32 spare many in f64? */
    bool (*pays_warm_start)(const ota_head *head);
    void (*pack)(ota_head *head); /* keys and values */
    /* One round of these rows: u, sums, flags; the first one also head->mass and, of the kernel, used, least_keys and
       range, but no masses of the columns, which `allot` makes of them */
    void (*kernel_round)(ota_head *head, bool form);
    void (*allot)(ota_head *head);
    double (*kernel_floor)(
        const ota_head *head); /* least residual that this arithmetic can be asked for */
    bool (*kernel_emit)(ota_head *head);
    bool (*load)(
        ota_head
            *head); /* scores, masses, range; false: NaN or +inf among the scores. Of rows on many
                                     processes also kernel.used, for `allot` */
    void (*emit)(ota_head *head); /* the final row update */
    void (*gather)(
        ota_head *head); /* sums of the chunks into receiver and status, once the head is right */

    /* ---- passes over stored scores; `kernel`: with room for the linear domain, which a backend lacks where
       ota_passes.linear.kernel stays NULL */
    void (*lay_out_passes)(ota_passes *passes, ota_arena *arena, bool kernel);
    /* Row updates with head->g, then c and L. omega != 1: two-sided relaxation, f moves omega of its way from what it
       was, L belongs to that f and c still to the plan after an exact row update. */
    void (*row_pass)(ota_passes *passes, double t, double omega);
    /* L with the f that lies in head->f (the printed order that starts on columns). */
    void (*column_pass)(ota_passes *passes, double t);
    /* c and row errors of the plan that will be emitted, solved as the final row update does: fills head->f unless the
       plan comes from potentials as they are. */
    void (*final_pass)(ota_passes *passes);
    /* max - min of what the linear domain would exponentiate, after centring; NULL without that domain */
    double (*linear_range)(ota_passes *passes);
    /* What coupled solvers ask of pairs whose scores are nowhere stored; NULL: they are. */
    const ota_semidual *semidual;

    const struct ota_gradient_passes
        *gradient; /* gradient.h; NULL: this backend differentiates nothing */
};

/* The backends, in order of preference: the first is the default. NULL past the end. */
const ota_backend *ota_backend_row(int index);
/* By name; NULL or "": the default; NULL when there is none of that name. */
const ota_backend *ota_backend_named(const char *name);

#endif
