/* otattn_analysis.h: measures of plans and of distributions, on top of otattn.h.
 *
 * Everything is double precision. The caller owns every array; calls return an ota_status and, when
 * `error` is not NULL, one sentence that names the field and the value: OTA_OK; OTA_EINVAL for sizes, numbers and options out of
 * their range; OTA_EOVERFLOW where a size leaves int64_t; OTA_ENOMEM of calls that allocate; OTA_CANCELLED, OTA_TIMEOUT; and what
 * the call names. Records and arrays are of use where it is OTA_OK, or where the call says so. */
#ifndef OTATTN_ANALYSIS_H
#define OTATTN_ANALYSIS_H

#include <stdint.h>

#include "otattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- options of a call ---------------------------------------------------------------------------
 *
 * Zero means the default in every field but `size`, and options NULL mean all defaults. A call with ota_options, of its own
 * or of a layer's, reads their cancel and deadline_ns instead. What a call that was ended was to fill is of no use, but for
 * ota_gauge. Calls without either do not look: arithmetic on a few numbers, one pass of ota_hamming_matvec, one row of
 * logits of at most 2^24 symbols. Nothing is remembered between calls. */
typedef struct ota_analysis_options {
    size_t size; /* sizeof(ota_analysis_options) */
    /* Once it is not 0 the call ends within a tenth of a second of work with OTA_CANCELLED; read as ota_options.cancel is. */
    const int *cancel;
    int64_t deadline_ns; /* the same with OTA_TIMEOUT, after this time on ota_options' clock */
    /* Of ota_gauge, after each pass: round counts them, residual = what is open yet, in units of the largest entry, 0 while
       the centre is sought; of ota_gauge_four_cycle: round = rows done, residual = the bound so far. */
    void (*progress)(void *user, const ota_progress *progress);
    void *progress_user;
} ota_analysis_options;

/* A dense matrix [rows, columns], f32 or f64. */
typedef struct ota_matrix {
    const void *data;
    ota_type type;
    int64_t rows, columns;
} ota_matrix;

/* ---- transport between distributions at Hamming cost ----------------------------------------
 *
 * p, q over the same V symbols, C_ij = 1 for i != j and 0 for i = j:
 *
 *     minimise <P,C> - epsilon H(P),   P1 = p,  P^T1 = q,   H(P) = -sum P log P
 *
 * The kernel exp(-C / epsilon) is (1 - alpha) I + alpha 1 1^T with alpha = exp(-1/epsilon), so everything
 * takes O(V) time and memory. [TOT-15..18, DER-05, DER-28] */

typedef enum ota_hamming_solver {
    OTA_HAMMING_NEWTON = 0, /* one scalar root, at most a handful of steps [DER-05, DER-28] */
    OTA_HAMMING_SINKHORN    /* alternating scaling [TOT-16] */
} ota_hamming_solver;

typedef struct ota_hamming_result {
    ota_status status;
    int64_t rounds; /* Newton steps, or Sinkhorn rounds */
    double theta; /* the root: (alpha sigma)^2 / (1 - alpha), sigma = sum u = sum v; 0 in the limit
                              below, NaN for Sinkhorn */
    double cost;  /* <P,C>, the mass that changes its symbol [TOT-18] */
    double objective;      /* <P,C> - epsilon H(P) */
    double marginal_error; /* ||P1 - p||_1 + ||P^T1 - q||_1 */
    double tv;             /* total variation of p and q, the cost at epsilon = 0 [TOT-36] */
    double divergence;     /* of ota_hamming_divergence; else NaN */
} ota_hamming_result;

/* The kernel times a vector: y = (1 - alpha) x + alpha sum(x), alpha = exp(-1/epsilon); x, y [size], y may be x. [TOT-15] */
OTA_API void ota_hamming_matvec(double epsilon, const double *x, double *y, int64_t size);

typedef struct ota_hamming_options {
    size_t size; /* sizeof(ota_hamming_options) */
    ota_hamming_solver solver;
    double tolerance;   /* Sinkhorn's; 0: 1e-10. Newton goes on to the last bit */
    int64_t max_rounds; /* Sinkhorn's; 0: 1000 */
    double *u, *v; /* [size] or NULL: the scalings, P = diag(u) K diag(v); Sinkhorn needs both */
    /* [max_rounds], max_rounds >= 1, of Sinkhorn alone, or NULL: ||P^T1 - q||_1 of every round, result->rounds of them;
       round k + 1 is the first at which a tolerance is met where errors[k] is the first not above it [TOT-16, 90] */
    double *errors;
} ota_hamming_options;

/* Solves one problem. p, q [size]: 0 or more, finite, each of sum 1 within 1e-6 (and then scaled to 1); epsilon finite, above 0.
 * how NULL: Newton. OTA_NOT_CONVERGED (of Sinkhorn) still fills the result. At 1/epsilon > 700 or so, where alpha or theta
 * underflows, Newton returns the limit: P_ii = min(p_i,q_i) and a product coupling of what is left; u and v are NaN then. */
OTA_API ota_status ota_hamming(const double *p, const double *q, int64_t size, double epsilon,
                               const ota_hamming_options *how, ota_hamming_result *result,
                               const ota_analysis_options *options, ota_error *error);

/* The same problem, and the debiased result->divergence = objective(p,q) - (objective(p,p) + objective(q,q)) / 2: 0 at p = q,
 * total variation as epsilon -> 0, ||p - q||_2^2 / 2 as epsilon -> infinity. [TOT-17] */
OTA_API ota_status ota_hamming_divergence(const double *p, const double *q, int64_t size,
                                          double epsilon, const ota_hamming_options *how,
                                          ota_hamming_result *result,
                                          const ota_analysis_options *options, ota_error *error);

/* ---- gauge: alignment of a matrix with row and column shifts --------------------------------
 *
 * D = A - B [rows, columns], B absent: D = A. Each rule of the gauge chooses shifts k [rows] and
 * v [columns] in D_ij = k_i + v_j + r_ij:
 *
 *     minimax         R = min max_ij |D_ij - k_i - v_j|                       [TOT-37, 38]
 *                       = largest mean, over closed walks row i -> column j -> row i' -> ..., of the
 *                         weights +D_ij (row to column) and -D_i'j (column to row)
 *     least squares   v = column means, k = row means - grand mean            [DER-22]
 *
 * Every answer is a two-sided certificate: `residual`, measured at the shifts returned, is an upper
 * bound of R; `residual_lower`, the mean of one closed walk, is a lower bound. Arrays are dense, f64 or
 * f32, finite, at most 1e300 in size; arithmetic is f64. The calls allocate O(rows + columns), never a
 * copy of the matrix; from 8192 columns on, minimax may gather up to an eighth of them in f64. Shifts are
 * unique up to k + c, v - c: mean(k) = 0 is chosen.
 *
 * The same R serves as score certificate R(S - T) [DER-17] and as best centring of a kernel,
 * min log(max K / min K) = 2 R(log K); R4, the same over walks of four steps, gives the kernel's
 * projective diameter 4 R4(log K) [DER-25]. */

typedef struct ota_gauge_matrix {
    const void *a, *b; /* [rows, columns]; b NULL: D = A */
    ota_type type;     /* of both */
    int64_t rows, columns;
} ota_gauge_matrix;

typedef enum ota_gauge_rule {
    OTA_GAUGE_HOWARD = 0, /* minimax by policy iteration; among all minimisers the centre: half the
                               sum of the greatest and the least k - k_0 any of them has, and the same
                               for v [TOT-38] */
    OTA_GAUGE_MIDRANGE,   /* row midranges, then column midranges, again and again; residual never
                               grows [TOT-40] */
    OTA_GAUGE_LEAST_SQUARES, /* [DER-22] */
    OTA_GAUGE_FAST /* v = row 0, k_i = midrange of D_i - D_0: R <= residual <= 2 R [DER-21] */
} ota_gauge_rule;

typedef struct ota_gauge_options {
    size_t size; /* sizeof(ota_gauge_options) */
    ota_gauge_rule rule;
    double tolerance;   /* midrange: stop at residual <= (1 + tolerance) residual_lower; 0: 1e-6 */
    int64_t max_passes; /* Howard (0: 1000) and midrange (0: 100) */
    const ota_executor *
        executor; /* NULL, or what runs the passes over the matrix in place of the calling thread, least
                                     squares' apart; no result depends on it */
} ota_gauge_options;

/* What is wanted besides the figures; each NULL or an array of the caller. */
typedef struct ota_gauge_arrays {
    double *row_shift;      /* k [rows] */
    double *column_shift;   /* v [columns] */
    double *row_residual;   /* [rows]: max_j |r_ij| */
    int64_t *cycle_rows;    /* [rows]: the closed walk is cycle_rows[t] -> cycle_columns[t] ->
                              cycle_rows[t + 1] ..., t < cycle_length, and back to the first */
    int64_t *cycle_columns; /* [rows] */
} ota_gauge_arrays;

typedef struct ota_gauge_result {
    ota_status status;
    double residual;           /* max |r_ij| */
    double residual_lower;     /* no shifts have a smaller residual than this */
    double rms;                /* sqrt(mean r_ij^2) */
    double per_sqrt_columns;   /* residual / sqrt(columns) [TOT-41] */
    double per_normal_maximum; /* residual / sqrt(2 log(rows columns)); NaN for a 1 x 1 matrix */
    int64_t passes;       /* policies tried, of all parts gathered, or midrange sweeps; else 1 */
    int64_t cycle_length; /* rows on the closed walk; 0 for the fast rule */
} ota_gauge_result;

/* Finds the shifts. how NULL: minimax. arrays NULL: figures only. OTA_NOT_CONVERGED (max_passes), OTA_CANCELLED and
 * OTA_TIMEOUT fill everything: both bounds hold at any time, and the upper one is +inf where the matrix takes longer than 30
 * ms to be read once more (or was never read: then nothing else is filled); other errors fill nothing. Ties go
 * to the lowest index. Time O(rows columns) a pass; Howard takes 1 to 20 passes on real data. */
OTA_API ota_status ota_gauge(const ota_gauge_matrix *matrix, const ota_gauge_options *how,
                             const ota_gauge_arrays *arrays, ota_gauge_result *result,
                             const ota_analysis_options *options, ota_error *error);

/* What the shifts leave: r = D - k - v, [rows, columns] in f64. [TOT-37] */
OTA_API ota_status ota_gauge_rest(const ota_gauge_matrix *matrix, const double *row_shift,
                                  const double *column_shift, double *rest,
                                  const ota_analysis_options *options, ota_error *error);

/* A lower bound of the residual: *bound = R4 = max over pairs of rows of (max - min of D_i - D_k) / 4: R4 <= R <= 2 R4. Time
 * O(rows^2 columns): give the transpose of a tall matrix, whose R4 is the same. [DER-21] */
OTA_API ota_status ota_gauge_four_cycle(const ota_gauge_matrix *matrix, double *bound,
                                        const ota_analysis_options *options, ota_error *error);

/* How far positions end from where the common moves alone would have brought them [TOT-42]:
 *
 *     distance_i = ||softmax(z_i + sum_l moves_l,i) - softmax(z_i + sum_l v_l)||_1
 *     bound_i    = min(2, sum_l max_j |moves_l,ij - k_l,i - v_l,j|)
 *
 * distance, bound [rows]. */
typedef struct ota_gauge_chain {
    int64_t layers, rows, columns;
    const double *start;        /* z [rows, columns] */
    const double *moves;        /* [layers, rows, columns] */
    const double *row_shift;    /* k [layers, rows] */
    const double *column_shift; /* v [layers, columns] */
} ota_gauge_chain;
OTA_API ota_status ota_gauge_coherence(const ota_gauge_chain *chain, double *distance,
                                       double *bound, const ota_analysis_options *options,
                                       ota_error *error);

/* ---- composition of attention layers, and how many query dimensions one layer would need ------ */

/* Two layers as one coupling: S = second first, second [rows, inner], first [inner, columns], both with rows that sum to 1
 * within 1e-6; coupling [rows, columns] overlaps neither. [TOT-62] */
OTA_API ota_status ota_compose(const double *second, const double *first, int64_t rows,
                               int64_t inner, int64_t columns, double *coupling,
                               const ota_analysis_options *options, ota_error *error);

/* Logarithms of a coupling over its first column: ratio_ij = log S_i,j+1 - log S_i0: S [rows, columns] positive, columns >=
 * 2, ratio [rows, columns - 1]. S = softmax(Q K^T) with d dimensions if and only if this matrix has rank <= d, so d >=
 * min(rows, columns - 1) is never an obstruction. [TOT-61] */
OTA_API ota_status ota_log_ratios(const double *coupling, int64_t rows, int64_t columns,
                                  double *ratio, const ota_analysis_options *options,
                                  ota_error *error);

/* Rank by elimination with complete pivoting: pivots above tolerance * the first. matrix [rows, columns]
 * is overwritten; pivots [min(rows, columns)] receive the sizes of the pivots in order, 0 after the last.
 * Pivots are no singular values: they separate zero from nonzero, not energies. */
OTA_API ota_status ota_rank(double *matrix, int64_t rows, int64_t columns, double tolerance,
                            double *pivots, int64_t *rank, const ota_analysis_options *options,
                            ota_error *error);

/* ---- Hilbert metric, contraction and rates of Sinkhorn --------------------------------------
 *
 *     d_H(x,y)  = log max_i(x_i/y_i) - log min_i(x_i/y_i) = osc(log x - log y)          [TOT-94]
 *     Delta(K)  = log max K_ik K_jl / (K_il K_jk) = max_ij osc(L_i - L_j),  L = log K   [TOT-96]
 *     d_H(K x, K y) <= tanh(Delta / 4) d_H(x, y)                                        [TOT-97]
 *
 * Kernels are passed as logarithms L = -C / epsilon [rows, columns], finite, f64. */

/* The Hilbert distance of x, y [size], finite and above 0. d_H <= eta means that some c has c <= x_i/y_i <= c e^eta for all i;
 * e^-eta <= x_i/y_i <= e^eta follows only where x and y have equal mass. [TOT-94, 95] */
OTA_API ota_status ota_hilbert(const double *x, const double *y, int64_t size, double *distance,
                               const ota_analysis_options *options, ota_error *error);
/* The Hilbert distance from logarithms, which may be any finite numbers. */
OTA_API ota_status ota_hilbert_log(const double *log_x, const double *log_y, int64_t size,
                                   double *distance, const ota_analysis_options *options,
                                   ota_error *error);

typedef struct ota_contraction {
    double diameter;    /* Delta [TOT-96] */
    double rate;        /* tanh(Delta / 4), per half iteration; rate^2 per iteration [TOT-97] */
    double entry_range; /* log(max K / min K); Delta <= 2 entry_range [TOT-98] */
    double entry_rate;  /* tanh(entry_range / 2) = (r - 1)/(r + 1) >= rate, r = max K / min K */
} ota_contraction;

/* How fast a kernel contracts. Time O(rows^2 columns): give the transpose of a tall kernel, whose figures are the same.
 * Allocates O(columns). */
OTA_API ota_status ota_contraction_of(const double *log_kernel, int64_t rows, int64_t columns,
                                      ota_contraction *contraction,
                                      const ota_analysis_options *options, ota_error *error);

/* Diameter of the Hamming kernel on two symbols or more: 2 / epsilon exactly; its rate is
 * tanh(1 / (2 epsilon)). [TOT-102] */
OTA_API double ota_hamming_diameter(double epsilon);

/* Iterations after which the l1 column error of Sinkhorn is at most delta, from its theory: 0 < rate < 1,
 * delta > 0. Conservative: 4 delta^-2 log(sum K / min K), masses 1 [TOT-100]. Geometric: the least t with
 * expm1(first rate^(2(t-1))) <= delta, first = d_H(g_1, g_0) of the first change of the column scaling:
 * column error t is at most expm1 of change t [TOT-101]. NaN where the arguments have no meaning. */
OTA_API double ota_iterations_conservative(double log_sum_over_min, double delta);
OTA_API double ota_iterations_geometric(double first, double rate, double delta);

/* Log-domain alternating scaling P = exp(L + f + g), from g = 0, with either side relaxed:
 *
 *     f <- (1 - row_relaxation) f + row_relaxation (log p - logsumexp_j(L + g))
 *     error_t  = ||P1 - p||_1 + ||P^T1 - q||_1, then
 *     g <- (1 - column_relaxation) g + column_relaxation (log q - logsumexp_i(L + f))
 *     change_t = d_H(new g, old g)
 *
 * Both 1: Sinkhorn. Column lambda alone: [ELA-09, DER-07, 08]; both omega: [DER-09]. p [rows], q
 * [columns] are above 0; unequal totals never meet. At most `most` rounds, fewer once error_t <= tolerance
 * or error_t is no number. Allocates columns numbers. */
typedef struct ota_scaling_run {
    double row_relaxation, column_relaxation; /* 0: 1 */
    int64_t plain;    /* so many first rounds are not relaxed: over-relaxation far from the plan
                             can diverge, after five rounds it was not seen to */
    double tolerance; /* 0 or more */
    int64_t most;     /* 1 or more */
    double *errors, *changes; /* [most] or NULL */
    /* f [rows], g [columns], both needed, receive the potentials of the error reported last, g before its update */
    double *f, *g;
    int64_t rounds; /* set: how many errors there are */
} ota_scaling_run;
OTA_API ota_status ota_scaling(const double *log_kernel, const double *p, const double *q,
                               int64_t rows, int64_t columns, ota_scaling_run *run,
                               const ota_analysis_options *options, ota_error *error);

/* The rate of a history of errors: exp(slope of log errors over the last half of the history), at least 4 of them, all above 0.
 * [TOT-103] */
OTA_API ota_status ota_rate_measured(const double *errors, int64_t count, double *rate,
                                     const ota_analysis_options *options, ota_error *error);

typedef struct ota_coupling_spectrum {
    double second;          /* sigma_2^2 of D_r^-1/2 P D_c^-1/2; sigma_1 = 1 */
    double least;           /* its smallest sigma^2 on the smaller side */
    double second_residual; /* an eigenvalue of the normal matrix lies this near to `second` ... */
    double least_residual;  /* ... and `least` */
    int64_t rounds;         /* of power iteration, both together */
} ota_coupling_spectrum;

/* The ends of the spectrum of P [rows, columns], 0 or more, no empty row or column; r, c its own sums. `second` is the
 * asymptotic rate of Sinkhorn [TOT-103]. Power iteration on B B^T or B^T B, whichever is smaller, away from the known first
 * vector, and on its complement for the other end; OTA_NOT_CONVERGED when a residual is still above 1e-5 after max_rounds
 * (0: 100000) each, the result filled. Allocates O(rows + columns). */
OTA_API ota_status ota_coupling_spectrum_of(const double *coupling, int64_t rows, int64_t columns,
                                            int64_t max_rounds, ota_coupling_spectrum *spectrum,
                                            const ota_analysis_options *options, ota_error *error);

/* The rate of elastic columns: max over the spectrum of |1 - lambda (1 - sigma^2)|, reached at one of its ends. [DER-07] */
OTA_API double ota_rate_one_sided(double lambda, double second, double least);
/* The best lambda of elastic columns: lambda* = 2 / (2 - second - least), rate (second - least) lambda* / 2. [DER-08] */
OTA_API double ota_best_one_sided(double second, double least, double *rate);
/* The best over-relaxation of both sides: omega* = 2 / (1 + sqrt(1 - second)), rate omega* - 1. [DER-09] */
OTA_API double ota_best_two_sided(double second, double *rate);

/* ---- distributions and logits: how far apart two of them are ---------------------------------
 *
 * `before` b and `after` a are two distributions over the same V symbols (or the logits z, z' of two:
 * b = softmax(z / temperature)); `type` is OTA_F32 or OTA_F64 and arithmetic is f64. Everything is in
 * nats. Logits are finite, at most 1e300 min(1, temperature) in size; probabilities are 0 or more and sum
 * to 1 within 1e-6 (and are then scaled to 1). From logits nothing is subtracted that nearly cancels: a
 * divergence between two saturated distributions whose tails weigh 1e-30 is right to 1e-12. Time O(V). */

typedef struct ota_divergence {
    double tv; /* sum |a - b| / 2, from the parts that exclude the largest b [TOT-71, 109] */
    double w1; /* Wasserstein distance at Hamming cost: the same number [TOT-36, 72] */
    double kl; /* sum a log(a/b); +inf where a > 0 = b [TOT-73] */
    double kl_reverse; /* sum b log(b/a) */
    double js; /* (KL(a|m) + KL(b|m)) / 2, m = (a + b) / 2: TV^2/2 <= JS <= TV log 2 [TOT-74] */
    double entropy_before; /* -sum b log b */
    double entropy_after;
    double entropy_change; /* after - before, summed as a change: exact for near ones [TOT-75] */
    double hellinger;      /* sqrt(1 - sum sqrt(a b)) */
    double fisher_rao;     /* 2 arccos sum sqrt(a b), by arcsin: exact for near ones [LIT-31] */
} ota_divergence;

/* How far `after` is from `before`, of probabilities [size] each. OTA_EINVAL for a negative number, one that is not finite,
 * or a sum other than 1; OTA_CANCELLED, OTA_TIMEOUT. The record is of use under OTA_OK alone. */
OTA_API ota_status ota_divergence_of(const double *before, const double *after, int64_t size,
                                     ota_divergence *divergence,
                                     const ota_analysis_options *options, ota_error *error);
/* The same of softmax(logits / temperature), logits [size] each; temperature above 0. */
OTA_API ota_status ota_divergence_of_logits(const void *before, const void *after, ota_type type,
                                            int64_t size, double temperature,
                                            ota_divergence *divergence,
                                            const ota_analysis_options *options, ota_error *error);

typedef struct ota_tail {
    int64_t index;   /* first index of the largest logit */
    double mass;     /* 1 - max p, summed over the others [TOT-110] */
    double log_mass; /* its logarithm, right where mass underflows; -inf for one symbol */
    double margin;   /* z_1 - max_j z_j over the others; +inf for one symbol [TOT-30] */
} ota_tail;

/* What softmax(logits / temperature) leaves beside its largest entry; logits [size]. */
OTA_API ota_status ota_tail_of(const void *logits, ota_type type, int64_t size, double temperature,
                               ota_tail *tail, const ota_analysis_options *options,
                               ota_error *error);

typedef struct ota_logit_change {
    double max_change;  /* ||z' - z||_inf [TOT-81] */
    double range_half;  /* (max - min of z' - z) / 2 <= max_change: free of common shifts */
    double correlation; /* Pearson over V; NaN for a constant side [TOT-82] */
    double effective_temperature; /* 1 / std(z) of before, divisor V; +inf if constant [TOT-83] */
} ota_logit_change;

/* How far the logits [size] themselves moved. */
OTA_API ota_status ota_logit_change_of(const void *before, const void *after, ota_type type,
                                       int64_t size, ota_logit_change *change,
                                       const ota_analysis_options *options, ota_error *error);

typedef struct ota_rank_change {
    const int64_t *counts; /* [count], each at least 1 and at most V */
    int64_t count;
    /* [count] or NULL: |top_k(before) and top_k(after)| / k for k = counts[t]; among equals the lower index comes
       first [TOT-76] */
    double *overlap;
    /* or NULL: correlation of ranks, equals sharing their mean rank; NaN for a constant side [TOT-77] */
    double *spearman;
} ota_rank_change;

/* How the order of the entries changed: give logits or probabilities. Allocates 48 V bytes; time O(V). */
OTA_API ota_status ota_rank_change_of(const void *before, const void *after, ota_type type,
                                      int64_t size, ota_rank_change *change,
                                      const ota_analysis_options *options, ota_error *error);

typedef struct ota_state_change {
    double norm_change;           /* ||h' - h||_2 */
    double relative_l2;           /* ||h' - h||_2 / ||h||_2; +inf or NaN for h = 0 [TOT-78] */
    double cosine;                /* <h, h'> / (||h||_2 ||h'||_2); NaN for a zero state [TOT-79] */
    double max_coordinate_change; /* ||h' - h||_inf [TOT-80] */
} ota_state_change;

/* How far a state h moved to h', [size] each. */
OTA_API ota_status ota_state_change_of(const void *before, const void *after, ota_type type,
                                       int64_t size, ota_state_change *change,
                                       const ota_analysis_options *options, ota_error *error);

/* Mean, sample standard deviation (divisor count - 1; NaN for one value) and quantiles (linear between
 * order statistics) of finite values. With m_k = mean (x - mean)^k: skewness m_3 / m_2^1.5 and excess
 * kurtosis m_4 / m_2^2 - 3, NaN for a constant. Allocates 32 count bytes. [TOT-27, 86] */
typedef struct ota_summary {
    double minimum, maximum, mean, deviation, median, p95, p99;
    double variation; /* deviation / |mean| */
    double skewness, kurtosis;
} ota_summary;
OTA_API ota_status ota_summary_of(const double *values, int64_t count, ota_summary *summary,
                                  const ota_analysis_options *options, ota_error *error);

/* ---- geometry of the softmax: potential, duality, Fisher information, advantage ---------------
 *
 * One row of m scores s at temperature tau, phi(s) = tau log sum_j exp(s_j / tau), p* = softmax(s / tau):
 *
 *     J(p)  = -<p,s> + tau sum p log p,   min over the simplex = J(p*) = -phi       [LIT-22]
 *     dual  = max over lambda of lambda - tau sum_j exp((s_j + lambda)/tau - 1) = -phi at tau - phi [LIT-24]
 *     phi is the conjugate of f(p) = tau sum p log p on the simplex:  grad phi = p*  [LIT-23, 25]
 *     F     = (diag p - p p^T) / tau^2,   Jacobian dp/ds = Hessian of phi = tau F    [LIT-18, 27, 30]
 *     A_j   = u_j - E_p u,   u = -dL/dp,   dL/ds = -(p/tau) A = -tau F u             [LIT-17, 19, 28]
 *
 * f64 arrays; p is 0 or more and sums to 1 within 1e-6; scores are finite, at most 1e300 min(1, tau) in
 * size; u and x at most 1e300. Time O(m) but for the two dense matrices. */

/* The potential of a row: *potential = phi; weights [size] or NULL = p*. */
OTA_API ota_status ota_softmax_potential(const double *scores, int64_t size, double temperature,
                                         double *potential, double *weights,
                                         const ota_analysis_options *options, ota_error *error);
/* The objective at p: *objective = J(p), 0 log 0 = 0. The value function V(s) is -phi and its gradient is -p*. */
OTA_API ota_status ota_softmax_objective(const double *p, const double *scores, int64_t size,
                                         double temperature, double *objective,
                                         const ota_analysis_options *options, ota_error *error);
/* The dual at lambda: *value = lambda - tau sum_j exp((s_j + lambda)/tau - 1). */
OTA_API ota_status ota_softmax_dual(const double *scores, int64_t size, double temperature,
                                    double lambda, double *value,
                                    const ota_analysis_options *options, ota_error *error);

/* Fenchel's inequality of f and phi at (p, s), and where s lies against the subdifferential of f. */
typedef struct ota_fenchel {
    double gap; /* f(p) + phi(s) - <p,s>, term by term: 0 or more, 0 only at p = p* [LIT-25] */
    double divergence; /* tau KL(p|p*), the same number without cancellation */
    double level;      /* mean under p of s_j - tau (log p_j + 1): phi - tau at p = p* [LIT-26] */
    double spread;     /* max - min of it over p > 0: 0 if and only if s is in the subdifferential
                          (and p > 0 everywhere) */
} ota_fenchel;
OTA_API ota_status ota_fenchel_of(const double *p, const double *scores, int64_t size,
                                  double temperature, ota_fenchel *fenchel,
                                  const ota_analysis_options *options, ota_error *error);

/* The advantage of every entry, and the gradient: advantage [size] = A; gradient [size] = dL/ds; either may be NULL. A step
 * against the gradient raises s_j if and only if A_j > 0. */
OTA_API ota_status ota_advantage(const double *p, const double *utility, int64_t size,
                                 double temperature, double *advantage, double *gradient,
                                 const ota_analysis_options *options, ota_error *error);
/* The Fisher matrix times a vector: product [size] = F x. */
OTA_API ota_status ota_fisher_product(const double *p, const double *x, int64_t size,
                                      double temperature, double *product,
                                      const ota_analysis_options *options, ota_error *error);
/* The Fisher matrix: fisher [size, size] = F, of rank (number of p > 0) - 1 = *rank; fisher or rank may be NULL. */
OTA_API ota_status ota_fisher_matrix(const double *p, int64_t size, double temperature,
                                     double *fisher, int64_t *rank,
                                     const ota_analysis_options *options, ota_error *error);
/* The Jacobian of the softmax: jacobian [size, size], dp_k/ds_j = p_k (delta_kj - p_j) / tau, symmetric. */
OTA_API ota_status ota_softmax_jacobian(const double *p, int64_t size, double temperature,
                                        double *jacobian, const ota_analysis_options *options,
                                        ota_error *error);
/* The natural gradient step: step [size] = -F^+ dL/ds = tau (u - mean of u) over p > 0, 0 elsewhere, F^+ the pseudo-inverse
 * (F has no inverse: F 1 = 0). Needs no division by p, so saturation does no harm. [LIT-29] */
OTA_API ota_status ota_natural_gradient(const double *p, const double *utility, int64_t size,
                                        double temperature, double *step,
                                        const ota_analysis_options *options, ota_error *error);

/* ---- certificates of a coupling: how far it can move, and what it keeps -----------------------
 *
 * P, Q are the couplings [rows, columns] of scores S, T at temperature tau, each row of mass 1; n = rows.
 * In one chain, with J = KL(P|Q) + KL(Q|P) and D = S - T:
 *
 *     tau J(P,Q) = <D, P - Q> <= R(D) ||P - Q||_1       exact columns, R: ota_gauge       [CETA-18]
 *     ||P - Q||_1 <= (n / tau) max |D|                                                    [CETA-16]
 *     ||P - Q||_1 <= 2 n tanh(R(D) / (2 tau))           exact columns; attained           [DER-17]
 *     ||P - Q||_1 <= 2 n tanh(max_i osc_i(D) / (4 tau)) free, relaxed, capped, exact      [DER-18]
 *     ||P_i - Q_i||_1 <= 2 tanh(osc_i(D) / (4 tau))     free columns
 *
 * Matrices are dense f64. A score of -inf in both S and T is a masked pair and has no part in D. */

/* The two sides of a change of scores. */
typedef struct ota_score_pair {
    const double *scores, *perturbed; /* S, T [rows, columns] */
    int64_t rows, columns;
    double temperature; /* tau */
} ota_score_pair;

typedef struct ota_score_bounds {
    double sup;      /* max |S - T| */
    double range;    /* max_i osc_i(S - T) */
    double residual; /* R, as given */
    double printed;  /* (n / tau) sup [CETA-16] */
    double sharp;    /* 2 n tanh(residual / (2 tau)), NaN for a NaN residual [DER-17] */
    double family;   /* 2 n tanh(range / (4 tau)) [DER-18] */
    double rows;     /* sum_i 2 tanh(osc_i / (4 tau)), softmax only [DER-18] */
    double row;      /* 2 tanh(range / (4 tau)): largest ||P_i - Q_i||_1, softmax only */
} ota_score_bounds;

/* How far a plan can move. `residual`: R(S - T) of ota_gauge, or any upper bound of it; NaN: not known. row_bounds [rows] or
 * NULL: 2 tanh(osc_i / (4 tau)). */
OTA_API ota_status ota_score_bounds_of(const ota_score_pair *pair, double residual,
                                       double *row_bounds, ota_score_bounds *bounds,
                                       const ota_analysis_options *options, ota_error *error);

typedef struct ota_score_change {
    double l1;       /* ||P - Q||_1 */
    double row_l1;   /* max_i ||P_i - Q_i||_1, at most l1 / 2 where the column sums agree */
    double energy;   /* <S - T, P - Q> */
    double jeffreys; /* tau (KL(P|Q) + KL(Q|P)): equals energy for exact columns [CETA-18] */
} ota_score_change;

/* How far two plans are apart. coupling, other: P, Q. */
OTA_API ota_status ota_score_change_of(const ota_score_pair *pair, const double *coupling,
                                       const double *other, ota_score_change *change,
                                       const ota_analysis_options *options, ota_error *error);

/* Bounds of ||P V - Q W||_{inf,2}, the largest 2-norm of a row, V, W [keys, width]. */
typedef struct ota_output_bounds {
    double values_change; /* ||V - W||_{inf,2} */
    double values_norm;   /* ||W||_{inf,2} */
    double diameter;      /* max_jk ||W_j - W_k||_2 */
    double printed;       /* values_change + (n / tau) sup values_norm [CETA-17] */
    double sharp;         /* values_change + min(1, (n/2) tanh(R / (2 tau))) diameter [DER-19] */
    double rows;          /* values_change + tanh(range / (4 tau)) diameter, softmax only */
} ota_output_bounds;

/* How far outputs can move. Time O(keys^2 width), for the diameter. */
OTA_API ota_status ota_output_bounds_of(const ota_score_bounds *scores, const double *values,
                                        const double *other, int64_t keys, int64_t width,
                                        ota_output_bounds *bounds,
                                        const ota_analysis_options *options, ota_error *error);

/* The largest 2-norm of a row: *norm = ||x - y||_{inf,2} of x, y [rows, width]; y NULL: of x. */
OTA_API ota_status ota_row_norm(const double *x, const double *y, int64_t rows, int64_t width,
                                double *norm, const ota_analysis_options *options,
                                ota_error *error);

/* How far outputs lie outside of the hull of the values: *excess = how far the furthest entry of output [rows, width] lies
 * outside [min_j V_jk, max_j V_jk], 0 if none does: with nonnegative rows of sum 1 none may, beyond rounding. [CETA-13] */
OTA_API ota_status ota_hull_excess(const double *output, const double *values, int64_t rows,
                                   int64_t keys, int64_t width, double *excess,
                                   const ota_analysis_options *options, ota_error *error);

/* T(X) = (1 - alpha) X + alpha A X, A row-stochastic and FIXED, alpha in [0, 1]. */
typedef struct ota_mixing {
    const double *coupling; /* A [rows, keys] */
    int64_t rows, keys;
    double alpha; /* below 1: rows = keys */
} ota_mixing;

/* How much a mixing step stretches a distance: *ratio = ||T(X) - T(Y)||_{inf,2} / ||X - Y||_{inf,2}, at most 1; X, Y [keys,
 * width]; 0 for X = Y. [CETA-14, 15] */
OTA_API ota_status ota_nonexpansion(const ota_mixing *mixing, const double *x, const double *y,
                                    int64_t width, double *ratio,
                                    const ota_analysis_options *options, ota_error *error);

typedef struct ota_receiver {
    double total;   /* sum of the masses: rows [CETA-19] */
    double largest; /* in units of rows / keys, like the next two */
    double smallest;
    double imbalance; /* max_j |mass_j - rows/keys|, in these units; keys - 1 at most [CETA-20] */
} ota_receiver;

/* The mass that keys receive: mass [keys] = A^T 1 of a row-stochastic A [rows, keys]. */
OTA_API ota_status ota_receiver_of(const double *coupling, int64_t rows, int64_t keys, double *mass,
                                   ota_receiver *receiver, const ota_analysis_options *options,
                                   ota_error *error);
/* How far attention moves the mean: shift [width] = mean over rows of A V - mean over keys of V = (mass - rows/keys)^T V /
 * rows, whatever the rows are as long as mass = A^T 1. [CETA-12] */
OTA_API ota_status ota_mean_shift(const double *mass, const double *values, int64_t rows,
                                  int64_t keys, int64_t width, double *shift,
                                  const ota_analysis_options *options, ota_error *error);

/* Permutations and their weights. */
typedef struct ota_permutations {
    int64_t capacity; /* terms that there is room for */
    double *weights;  /* [capacity] */
    int64_t *columns; /* [capacity, size]: row i of term t sits on column columns[t, i] */
    int64_t count;    /* set: terms */
    double rest;      /* set: the mass per row that is left */
} ota_permutations;

/* A coupling as a sum of permutations: P = sum_t weights_t permutation_t + rest, for P [size, size] whose rows and columns
 * sum to 1 within 1e-6. Terms come with falling weight, roughly (each at least half of what is possible), so a small capacity
 * keeps the best of it; (size - 1)^2 + 1 suffices for an exactly doubly stochastic P. Allocates 8 size^2 bytes and some.
 * [CETA-05] */
OTA_API ota_status ota_birkhoff(const double *coupling, int64_t size, ota_permutations *terms,
                                const ota_analysis_options *options, ota_error *error);

/* Whether earlier rows see later keys: *leak = max over rows i < position of ||P_i - P'_i||_1, P' the plan after the scores
 * of every later query and key were moved by +-move: 0 for free, prefix and online columns under a causal support, above 0
 * for every other column rule. Keys from position (bottom-right corner and prefix: + keys - queries) on count as later.
 * 0 < position < queries, move finite. The statuses are ota_attend's. Allocates two couplings and [queries, keys]. [DER-23] */
OTA_API ota_status ota_causality_leak(const ota_problem *problem, const ota_options *options,
                                      int64_t position, double move, double *leak,
                                      ota_error *error);

/* ---- whose plan is this: the method that explains a coupling ----------------------------------
 *
 * On the pairs that carry weight, a plan of an entropy or Tsallis method at temperature tau obeys
 *
 *     y(P_ij) = S_ij / tau + a_i + b_j,   y = log P, or P^(alpha - 1) / (alpha - 1) for entmax
 *
 * and tau b says which rule the columns follow: 0 free, -rho log(c_j / nu_j) relaxed, below its top only
 * where c_j is at the cap, whatever makes c = nu exact, a finite number of rounds elastic. So one weighted
 * regression finds 1/tau, a search over alpha the order, and the rule's parameter follows; then the
 * library solves the problem by that method, and what counts is the distance of its plan. */
typedef struct ota_fit {
    /* as the program reads it, "softmax/relaxed:0.5{temperature=0.1}" */
    char method[192];
    ota_regulariser regulariser;
    double order;
    ota_column_rule columns;
    double strength, cap, lambda;
    int64_t steps;
    ota_row_rule rows;
    double row_strength;
    ota_axis axis;
    double temperature; /* NaN: hard methods have none */
    /* 0 where the pairs that carry weight say nothing about it: their scores are of the form row + column there */
    int temperature_known;
    int parameters; /* how many numbers were fitted */
    double
        residual; /* of the regression, sum |dP| / sum P; NaN of hard methods and prefix columns */
    /* sum |P - P'| over the mean of both masses, of the worst head, P' the plan of this method: 0 to 2 */
    double distance;
    int explains; /* within 1e-3, and as near as the nearest (within a factor 4, or 1e-8) */
    /* 1: the method was given the coupling's own sums of rows, of columns for its masses */
    int own_row_mass, own_column_mass;
    int scores_add; /* 1: all scores are of the form row + column, any temperature gives this plan */
} ota_fit;

/* The methods that explain `coupling` [batch, heads, queries, keys] best, at most `capacity`: those that explain it first,
 * fewest parameters first, the others by distance. Scores, terms, supports and masses are those of `problem`, whose method
 * and temperature do not count. Where nothing explains the coupling with the masses that the problem says, or with 1 a row,
 * it is tried with the sums of its own rows for those that are not given, then of its own columns too; each such sum counts
 * as a parameter. Several that explain it are an ambiguity no data can settle. Parameters are rounded to the shortest
 * decimal that explains as well. Of the options threads, cpu, cancel, deadline_ns and max_rounds (0: 5000) count. Entmax is
 * looked for at orders from 1.02 to 4, elastic columns up to 12 steps (4 above 2^18 pairs of all heads), prefix up to 2^12
 * pairs. Candidates that cannot be solved are left out. Allocates some six copies of the coupling. */
OTA_API ota_status ota_identify(const ota_problem *problem, const ota_options *options,
                                const double *coupling, ota_fit *fits, int64_t capacity,
                                int64_t *count, ota_error *error);

/* ---- bounds of one softmax row ----------------------------------------------------------------
 *
 * p = softmax(z / T), p' = softmax(z' / T) over m symbols, dz = z' - z; z f32 or f64, finite. l1 distances
 * are twice the total variation of ota_divergence_of_logits. */

typedef struct ota_lipschitz {
    double l1;      /* ||p' - p||_1 */
    double printed; /* ||dz||_inf / T [TOT-21] */
    double sharp; /* 2 tanh(osc(dz) / (4 T)); osc(dz)/T is the Hilbert distance of p, p' [DER-20] */
} ota_lipschitz;
/* How far p' is from p, and its two bounds; z = before, z' = after, [size] each, T = temperature above 0. */
OTA_API ota_status ota_lipschitz_of(const void *before, const void *after, ota_type type,
                                    int64_t size, double temperature, ota_lipschitz *lipschitz,
                                    const ota_analysis_options *options, ota_error *error);

/* The norm of the softmax's Jacobian: ||J||_{inf->1} = max over sets A of 4 p(A) (1 - p(A)), J the Jacobian at temperature
 * 1: lower = upper = it where max p >= 1/2 or size <= 20, else bounds. [TOT-22] */
OTA_API ota_status ota_jacobian_norm(const double *p, int64_t size, double *lower, double *upper,
                                     const ota_analysis_options *options, ota_error *error);

/* The linear probe z = W^T h, given as its transpose [size, width]: row j is token j's direction. */
typedef struct ota_probe {
    double norm;        /* max_j ||W_j||_2 [TOT-25] */
    double diameter;    /* max_jk ||W_j - W_k||_2, or at size > 2048 an upper bound of it, twice the
                           radius about the mean or about 0                               [DER-20] */
    int diameter_exact; /* 1: the first, at size <= 2048 */
} ota_probe;
/* Measures a probe: directions [size, width], numbers of at most 1e140. Allocates width numbers. */
OTA_API ota_status ota_probe_of(const void *directions, ota_type type, int64_t size, int64_t width,
                                ota_probe *probe, const ota_analysis_options *options,
                                ota_error *error);
/* How far predictions can drift: *printed = min(2, norm sum_l steps_l) bounds ||p^L - p^0||_1 after `layers` moves of
 * 2-norms steps_l [TOT-24, 26]; *sharp = 2 tanh(diameter sum_l steps_l / 4) does too [DER-20]. The tightness ratio of one
 * step [TOT-27] is ||p' - p||_1 / (norm step). */
OTA_API ota_status ota_drift_bound(const ota_probe *probe, const double *steps, int64_t layers,
                                   double *printed, double *sharp,
                                   const ota_analysis_options *options, ota_error *error);

/* A step seen from index 1 = the first largest of z; eps = 1 - p_1, eps' = 1 - p'_1, at the same index. */
typedef struct ota_saturation {
    int64_t index;
    int kept;           /* z' still has its largest there */
    double tail_before; /* eps */
    double tail_after;  /* eps' */
    double tv;
    double margin;      /* min_j z_1 - z_j >= T log((1 - eps)/eps) [TOT-30] */
    double margin_loss; /* delta = max(0, max_j dz_j - dz_1) */
    double bound;       /* max(eps, eps') >= tv, always [TOT-28] */
    double tail_bound;  /* e^(delta/T) eps / (1 - eps + e^(delta/T) eps) >= eps' [TOT-28] */
    double printed;     /* 2 eps: bounds ||p' - p||_1 if margin_loss = 0, not if merely kept */
} ota_saturation;
OTA_API ota_status ota_saturation_of(const void *before, const void *after, ota_type type,
                                     int64_t size, double temperature, ota_saturation *saturation,
                                     const ota_analysis_options *options, ota_error *error);
/* Is it a saturation event? 1 if both tails are below `tail` (the sources' p_max > 0.9999 is tail 1e-4) and tv below `tv`.
 * [TOT-29] */
OTA_API int ota_saturation_event(const ota_saturation *saturation, double tail, double tv);
/* How many rows are saturated: *fraction of rows of scores with 1 - max p < tail. [TOT-35] */
OTA_API ota_status ota_saturated_fraction(const ota_matrix *scores, double temperature, double tail,
                                          double *fraction, const ota_analysis_options *options,
                                          ota_error *error);

/* What max p and min p can be if max z - min z = range, size >= 2; all four are attained. [TOT-31] */
typedef struct ota_softmax_limits {
    double max_least; /* 1/((m-1) + e^-x), x = range/T (the sources print max_most here) */
    double max_most;  /* 1/(1 + (m-1) e^-x) */
    double min_least; /* 1/(1 + (m-1) e^x) */
    double min_most;  /* 1/((m-1) + e^x) */
} ota_softmax_limits;
OTA_API ota_status ota_softmax_limits_of(int64_t size, double range, double temperature,
                                         ota_softmax_limits *limits, ota_error *error);
/* The largest probability of two levels of logits: max p of `high` equal logits `range` above the other size - high: e^x /
 * (high e^x + size - high); NaN for arguments without meaning. [TOT-32] */
OTA_API double ota_two_level(int64_t size, int64_t high, double range, double temperature);

typedef struct ota_uniformity {
    double entropy, entropy_bound; /* h(p_1) + (1 - p_1) log(m - 1), h of two outcomes [TOT-33] */
    double tv;                     /* sum |p - 1/m| / 2 */
    double by_least;               /* 1 - m min p [TOT-34] */
    double by_range;               /* 1 - m / (1 + (m-1) e^(range/T)) */
    double by_least_sharp;         /* (1 - 1/m) (1 - m min p) */
    double by_range_sharp;         /* tanh(range / (4 T)) */
} ota_uniformity;
/* How far p is from uniform, with the bounds that its entropy, its least entry and the range of its logits [size] give. */
OTA_API ota_status ota_uniformity_of(const void *logits, ota_type type, int64_t size,
                                     double temperature, ota_uniformity *uniformity,
                                     const ota_analysis_options *options, ota_error *error);

/* ---- layers and blocks -------------------------------------------------------------------------
 *
 * What a C user needs around ota_forward to build a transformer layer, and how far such a layer can move
 * when its input does. A token is a row of x [tokens, width]; every array is dense and row-major. */

/* One change and its bounds. A ratio is measured / bound, at most 1 where the bound holds; with several
 * rows, each field is the largest over rows. */
typedef struct ota_change {
    double measured;
    double printed, sharp; /* as in the source; the tighter form that holds as well */
    double printed_ratio, sharp_ratio;
} ota_change;

/* Parameters of a LayerNorm or an RMSNorm, which does not read beta. */
typedef struct ota_norm {
    const double *gamma, *beta; /* [width] or NULL: ones, zeros */
    double epsilon;             /* above 0 */
} ota_norm;

/* LayerNorm: y_i = gamma * (u_i - mean) / sigma_i + beta, sigma_i = sqrt(||u_i - mean||^2 / width + epsilon).
 * u, y [rows, width], y may be u; sigma [rows] or NULL. [TOT-56] */
OTA_API ota_status ota_layernorm(const double *u, int64_t rows, int64_t width, const ota_norm *norm,
                                 double *y, double *sigma, const ota_analysis_options *options,
                                 ota_error *error);

typedef struct ota_norm_gradients {
    const double *dy;       /* [rows, width] */
    double *du;             /* [rows, width], not overlapping u or dy */
    double *dgamma, *dbeta; /* [width] or NULL: sums over rows */
} ota_norm_gradients;
/* The gradients of LayerNorm. beta is not read. [TOT-57] */
OTA_API ota_status ota_layernorm_backward(const double *u, int64_t rows, int64_t width,
                                          const ota_norm *norm, const ota_norm_gradients *gradients,
                                          const ota_analysis_options *options, ota_error *error);

/* The Jacobian of LayerNorm without gamma and beta: jacobian [width, width] of u -> (u - mean) / sigma: (I - 1 1^T/d)/sigma
 * - c c^T/(sigma^3 d). [TOT-57] */
OTA_API ota_status ota_layernorm_jacobian(const double *u, int64_t width, double epsilon,
                                          double *jacobian, const ota_analysis_options *options,
                                          ota_error *error);

typedef struct ota_layernorm_spectrum {
    double sigma;
    /* eigenvalues of the Jacobian: epsilon / sigma^3 on c = u - mean, NaN when c is 0 to rounding (at
       most width * 2^-53 max |u|); 1 / sigma on the `perpendicular_count` directions orthogonal to 1 and
       c (width - 2; width - 1 when c is 0); and 0 on 1 [TOT-58] */
    double parallel, perpendicular;
    int64_t perpendicular_count;
    /* ||gamma||_inf / sigma, an upper bound only, and the norm ||diag(gamma) J||_2 itself, found by
       bisection (absolute error some 1e-8 ||gamma||_inf / sigma at worst) [TOT-59] */
    double printed, exact;
    /* over all inputs: ||gamma||_inf / sqrt(epsilon), and the norm at c = 0, where the supremum lies */
    double global_printed, global_exact;
} ota_layernorm_spectrum;

/* The spectrum of LayerNorm's Jacobian at u [width], and its norms; workspace [width]. beta is not read, here and
 * below. [TOT-58, 59] */
OTA_API ota_status ota_layernorm_geometry(const double *u, int64_t width, const ota_norm *norm,
                                          double *workspace, ota_layernorm_spectrum *spectrum,
                                          const ota_analysis_options *options, ota_error *error);

/* How far LayerNorm brings two tokens apart: ||LN(u) - LN(v)||_2. printed: ||gamma||_inf ||u - v|| / min(sigma_u, sigma_v);
 * sharp: ||gamma||_inf 2 ||c_u - c_v|| / (sigma_u + sigma_v), which needs nothing about the path between
 * them. workspace [2 width]. [TOT-59, 60] */
OTA_API ota_status ota_layernorm_change(const double *u, const double *v, int64_t width,
                                        const ota_norm *norm, double *workspace, ota_change *change,
                                        const ota_analysis_options *options, ota_error *error);

/* RMSNorm, y_i = gamma * u_i / rho_i, rho_i = sqrt(||u_i||^2 / width + epsilon): LayerNorm without the mean.
 * u, y [rows, width], y may be u; rho [rows] or NULL. [TOT-56] */
OTA_API ota_status ota_rmsnorm(const double *u, int64_t rows, int64_t width, const ota_norm *norm,
                               double *y, double *rho, const ota_analysis_options *options,
                               ota_error *error);
/* The spectrum of RMSNorm's Jacobian, as ota_layernorm_geometry with sigma = rho: `parallel` is the eigenvalue on u,
 * `perpendicular` has width - 1 directions (width at u = 0), and none has eigenvalue 0; the supremum over inputs lies at 0.
 * [TOT-58, 59] */
OTA_API ota_status ota_rmsnorm_geometry(const double *u, int64_t width, const ota_norm *norm,
                                        ota_layernorm_spectrum *spectrum,
                                        const ota_analysis_options *options, ota_error *error);
/* How far RMSNorm brings two tokens apart, as ota_layernorm_change with u and v in place of c_u and c_v. [TOT-59, 60] */
OTA_API ota_status ota_rmsnorm_change(const double *u, const double *v, int64_t width,
                                      const ota_norm *norm, ota_change *change,
                                      const ota_analysis_options *options, ota_error *error);

/* Tokens that their positions p are added to. */
typedef struct ota_absolute_positions {
    int64_t tokens, width, head_width;
    const double *x, *positions;               /* [tokens, width] */
    const double *query_weights, *key_weights; /* [width, head_width] */
    double temperature;
} ota_absolute_positions;

/* Costs of tokens with absolute positions: costs_ij = -(x_i + p_i) W_Q W_K^T (x_j + p_j)^T / temperature as the sum of its
 * four terms: costs [tokens, tokens]; parts [4, tokens, tokens] or NULL: content-content, content-position,
 * position-content, position-position. workspace [4 tokens head_width]. [TOT-49] */
OTA_API ota_status ota_absolute_costs(const ota_absolute_positions *of, double *workspace,
                                      double *costs, double *parts,
                                      const ota_analysis_options *options, ota_error *error);

/* Whether the temperature divides the bias, too (inside), or the product alone (outside). */
typedef enum ota_bias_place { OTA_BIAS_INSIDE = 0, OTA_BIAS_OUTSIDE } ota_bias_place;

/* Queries and keys with a bias of their offset. */
typedef struct ota_relative_positions {
    int64_t queries, keys, head_width;
    const double *q, *k; /* [queries, head_width], [keys, head_width] */
    const double *bias;  /* [queries + keys - 1], b_(i-j) at i - j + keys - 1 */
    double temperature;
    ota_bias_place place;
} ota_relative_positions;

/* Costs with relative positions. inside: costs_ij = -(q_i k_j^T + b_(i-j)) / temperature; outside: -q_i k_j^T / temperature
 * - b_(i-j). costs [queries, keys]. [TOT-50] */
OTA_API ota_status ota_relative_costs(const ota_relative_positions *of, double *costs,
                                      const ota_analysis_options *options, ota_error *error);

/* ALiBi's bias as a matrix: bias_ij = -slope |i + offset - j|; with `causal`, -slope (i + offset - j), and -inf where that
 * distance is negative. bias [queries, keys]; slopes: ota_alibi_slopes. [LIT-32] */
OTA_API ota_status ota_alibi_bias(double slope, int64_t queries, int64_t keys, int64_t offset,
                                  int causal, double *bias, const ota_analysis_options *options,
                                  ota_error *error);

/* The rotation R(position) that ota_rope applies: 2 x 2 blocks at angles position * base^(-2k/width);
 * rotation [width, width], width even; base 0 means 10000. [TOT-51, 52] */
OTA_API ota_status ota_rope_matrix(int64_t width, double position, double base, double *rotation,
                                   const ota_analysis_options *options, ota_error *error);

/* The context of one row: context [values_width] = sum_j p_j v_j; p [keys] of sum 1, values [keys, values_width]. [LIT-15] */
OTA_API ota_status ota_context(const double *p, const double *values, int64_t keys,
                               int64_t values_width, double *context,
                               const ota_analysis_options *options, ota_error *error);

/* The chain rule around the weights of one head, O = P V, S = scale Q K^T: dP = dO V^T, dV = P^T dO,
 * dQ = scale dS K, dK = scale dS^T Q. What lies between dP and dS is the plan's own backward. Outputs that
 * are NULL are not computed, and inputs that only they need may be NULL too. [LIT-21] */
typedef struct ota_head_chain {
    int64_t queries, keys, width, values_width;
    double scale;          /* 0: 1 / sqrt(width) */
    const double *q, *k;   /* [queries, width], [keys, width] */
    const double *v;       /* [keys, values_width] */
    const double *p;       /* [queries, keys] */
    const double *dout;    /* [queries, values_width] */
    const double *dscores; /* [queries, keys] */
    double *dp;            /* [queries, keys] */
    double *dq, *dk, *dv;  /* like q, k, v */
} ota_head_chain;
OTA_API ota_status ota_head_chain_rule(const ota_head_chain *chain,
                                       const ota_analysis_options *options, ota_error *error);

/* Multi-head attention with its projections. For head h, whose columns of W_Q, W_K, W_V lie side by side
 * and whose rows of W_O lie one below the other:
 *
 *     Q_h = X W_Q,h + b,  K_h = Z W_K,h + b,  V_h = Z W_V,h + b       X [queries, width], Z [keys, width]
 *     Y = Concat(P_1 V_1, ..., P_H V_H) W_O + b = sum_h P_h V_h W_O,h + b       [CETA-29, TOT-53]
 *
 * Zero means the default in every field but `size`. All arrays are borrowed for the call. */
typedef struct ota_attention_layer {
    size_t size; /* sizeof(ota_attention_layer) */
    int64_t width;
    int64_t heads;                             /* 0: 1 */
    int64_t head_width;                        /* 0: width / heads, which must be whole */
    int64_t value_width;                       /* per head; 0: head_width */
    const double *query_weights, *key_weights; /* [width, heads * head_width] */
    const double *value_weights;               /* [width, heads * value_width] */
    const double *output_weights;              /* [heads * value_width, width] */
    /* of the projections' columns; NULL: none */
    const double *query_bias, *key_bias, *value_bias, *output_bias;
    /* > 0: queries and keys are rotated with this base, queries standing where the method's corner says
       [TOT-51] */
    double rotary_base;
    /* regulariser, rules, terms, support, temperature or temperatures per head; its queries, keys and
       scores must be absent. NULL: softmax */
    const ota_problem *method;
    const ota_options *options; /* NULL: defaults */
} ota_attention_layer;

typedef struct ota_attention_outputs {
    size_t size;   /* sizeof(ota_attention_outputs) */
    double *out;   /* Y [queries, width] */
    double *mixed; /* the concatenated P_h V_h [queries, heads * value_width] */
    double *parts; /* P_h V_h W_O,h [heads, queries, width], which with output_bias add up to Y */
    double *coupling; /* [heads, queries, keys] */
    double *receiver; /* column sums [heads, keys] */
} ota_attention_outputs;

/* Number of doubles of workspace for ota_attention_forward, ota_attention_block and ota_attention_mean_change; 0 when the
 * layer or a size is invalid or the number leaves the range of int64_t. */
OTA_API int64_t ota_attention_workspace(const ota_attention_layer *layer, int64_t queries,
                                        int64_t keys);

typedef struct ota_attention_input {
    int64_t queries, keys;
    const double *x;       /* [queries, width] */
    const double *context; /* [keys, width], or NULL for x itself; then keys = queries */
} ota_attention_input;

/* Runs the layer. Output pointers that are NULL are not wanted. `result` or NULL is ota_attend's, and so is the status; the
 * plan inside allocates. */
OTA_API ota_status ota_attention_forward(const ota_attention_layer *layer,
                                         const ota_attention_input *input,
                                         const ota_attention_outputs *outputs, double *workspace,
                                         ota_result *result, ota_error *error);

/* Y = X + alpha A(N(X)): A the layer, N the LayerNorm or, where `norm` is NULL, the identity, which with
 * the method softmax/exact is the CETA block. [CETA-27] */
typedef struct ota_residual_block {
    const ota_attention_layer *layer;
    const ota_norm *norm;
    double alpha;
} ota_residual_block;

/* Runs the block: x, y [tokens, width], not overlapping. */
OTA_API ota_status ota_attention_block(const ota_residual_block *block, const double *x,
                                       int64_t tokens, double *y, double *workspace,
                                       ota_result *result, ota_error *error);

/* A step towards the mixture: T_alpha(X) = (1 - alpha) X + alpha P X, 0 <= alpha <= 1, P [tokens, tokens] of rows that sum
 * to 1 within 1e-6: every row stays in the hull of X's rows, and with column sums 1 the mean over tokens stays as well. x, y
 * [tokens, width], not overlapping. [CETA-28] */
OTA_API ota_status ota_identity_core(const double *coupling, const double *x, int64_t tokens,
                                     int64_t width, double alpha, double *y,
                                     const ota_analysis_options *options, ota_error *error);

/* What multi-head attention keeps of the mean over tokens. Largest over features or keys: */
typedef struct ota_attention_means {
    double receiver_error; /* |column sum - 1| of any head: W_O mixes features, never tokens */
    double value_change;   /* |mean(Y) - (mean(Concat V) W_O + b)|: 0 for doubly stochastic plans */
    double input_change;   /* |mean(Y) - mean(X)|: no layer has to keep that */
} ota_attention_means;

/* What self-attention on x [tokens, width] keeps of the mean. [CETA-30] */
OTA_API ota_status ota_attention_mean_change(const ota_attention_layer *layer, const double *x,
                                             int64_t tokens, double *workspace,
                                             ota_attention_means *means, ota_error *error);

/* Number of doubles of workspace of ota_attention_change, ota_block_change and their likes for projected runs, or 0 as
 * ota_attention_workspace. */
OTA_API int64_t ota_attention_change_workspace(const ota_attention_layer *layer, int64_t queries,
                                               int64_t keys);

/* How far the layer's output and weights move from one input to another of the same sizes. Only for softmax with
 * free, exact or relaxed columns on the rows axis, rows of mass 1, no sink, no softcap and no fixed rounds, where the
 * bounds are theorems about the converged plan; anything else, and a plan that has not converged, is OTA_UNSUPPORTED.
 * With T = 1 / scale, tau the temperature, and osc_i the range of a row's score changes / (T tau), over keys with
 * weight where columns are free:
 *
 *     output   ||y_i - y'_i||_2 <= sum_h ||W_O,h||_2 (||P_i - P'_i||_1 |V_h| + |V_h - V'_h|), |.| the
 *              spectral norm (printed) or the largest row norm (sharp)                          [TOT-54]
 *     weights  ||P_i - P'_i||_1 <= (|K - K'| ||Q_i|| + |K'| ||Q_i - Q'_i||) / (T tau) = r_i     [TOT-55]
 *              free      printed r_i;        sharp 2 tanh(osc_i / 4)                            [DER-18]
 *              exact     printed n max r;    sharp n tanh(max osc / 4)                          [DER-19]
 *              relaxed   printed n max r;    sharp 2 n tanh(max osc / 4)                        [DER-18]
 *
 * sharp weights are cut at 2. `weights` is over all rows of all heads; either may be NULL. */
OTA_API ota_status ota_attention_change(const ota_attention_layer *layer,
                                        const ota_attention_input *before,
                                        const ota_attention_input *after, double *workspace,
                                        ota_change *output, ota_change *weights, ota_error *error);

/* ota_attention_change for a block, y = x + alpha A(N(x)), from the distance of its inputs and its weights alone:
 *
 *     ||y_i - y'_i|| <= ||x_i - x'_i|| + |alpha| sum_h ||W_O,h|| (w_i |V_h| + ||W_V,h|| delta)
 *
 * delta_i bounds ||N(x_i) - N(x'_i)|| (ota_layernorm_change), delta is the largest (sharp) or the root of
 * the sum of squares (printed), and w_i follows from r_i <= (|Q_i| ||W_K|| delta + |K'| ||W_Q|| delta_i) /
 * (T tau) with osc_i <= 2 r_i. x, x2 [tokens, width]. [TOT-60] */
OTA_API ota_status ota_block_change(const ota_residual_block *block, const double *x,
                                    const double *x2, int64_t tokens, double *workspace,
                                    ota_change *change, ota_error *error);

/* Self-attention of a model as it ran: the block's input and what its projections made of it, with biases,
 * rotated positions and whatever else in place. All heads side by side; where heads share keys and values,
 * each has them. */
typedef struct ota_projected {
    const double *x;     /* [tokens, width]; read by ota_projected_block_change only */
    const double *q, *k; /* [tokens, heads * head_width] */
    const double *v;     /* [tokens, heads * value_width] */
    /* As q, k: what the norms of heads read, where ota_residual has those. */
    const double *raw_q, *raw_k;
} ota_projected;

/* ota_attention_change of two such runs: the same bounds, for they speak of Q, K, V and W_O alone. Of `layer`,
 * whose weights must all be there, sizes, output weights and bias, and method are used. [TOT-54, 55] */
OTA_API ota_status ota_projected_change(const ota_attention_layer *layer,
                                        const ota_projected *before, const ota_projected *after,
                                        int64_t tokens, double *workspace, ota_change *output,
                                        ota_change *weights, ota_error *error);

/* What stands around attention in a model's block. */
typedef struct ota_residual {
    size_t size;          /* sizeof(ota_residual) */
    const ota_norm *norm; /* NULL: none */
    int rms;              /* it is RMSNorm; beta is not read */
    int behind;           /* y = N(x + A(x)), BERT's; else y = x + A(N(x)) */
    /* Gemma 3's, or NULL: RMSNorms of every head's queries and keys, gamma [head_width], before rotations,
       and a norm of what attention adds, y = x + N_o(A(N(x))), RMSNorm where `rms` says so; beta is not read */
    const ota_norm *query_norm, *key_norm, *output_norm;
} ota_residual;

/* ota_block_change of two such runs. Biases leave differences alone and rotations the norms, so q, k, v move by
 * at most ||W|| delta as before; a norm behind the sum, or of queries, keys or outputs, multiplies the bound of
 * what it reads with ||gamma||_inf / min sigma (printed) or ||gamma||_inf 2 / (sigma + sigma') (sharp). [TOT-60] */
OTA_API ota_status ota_projected_block_change(const ota_attention_layer *layer,
                                              const ota_residual *residual,
                                              const ota_projected *before,
                                              const ota_projected *after, int64_t tokens,
                                              double *workspace, ota_change *change,
                                              ota_error *error);

/* The spectral norm ||A||_2 of a [rows, columns] with `row_stride`, from above: (tr (A^T A)^k)^(1/2k) for k = 2^s, until the
 * excess is below 1e-9 of it. workspace [2 min(rows, columns)^2]; O(min^3) time a doubling. NaN where the call was ended. */
OTA_API double ota_spectral_norm(const double *a, int64_t rows, int64_t columns, int64_t row_stride,
                                 double *workspace, const ota_analysis_options *options);

/* ---- evolution: what a model predicts after each layer -----------------------------------------
 *
 * State l of a token, l = 0 (the embedding) ... layers, has logits z^l = W^T h^l [vocabulary], f32, and
 * predicts p^l = softmax(z^l); a transition leads from state l to l + 1. Arithmetic is f64, sums run in one
 * fixed order: the same bits for any number of threads and at any instruction-set level. Logits are finite;
 * NaN and infinities are OTA_EINVAL, named by state, position and index. Among equal logits the lower
 * index comes first. Everything is in nats. A number that does not exist is NaN.
 *
 * How much is measured and where from: hidden states by ota_state_change_of; ranks of [n, d] by
 * ota_spectrum_of (otattn_spectra.h); exact alignment by ota_gauge, its chain by ota_gauge_coherence;
 * statistics of Table 3 by ota_summary_of; cumulative bounds by ota_drift_bound. [TOT-26..29, 41, 42, 63..91] */

/* One row of logits and what every comparison with another one needs. Predictions read the logits; transitions
 * also ranks and top, which live in the caller's memory. */
typedef struct ota_evolve_row {
    const float *logits; /* [vocabulary], borrowed */
    int64_t vocabulary;
    int64_t index;          /* first index of the largest logit */
    double max_logit;       /* z_1 */
    double log_sum_exp;     /* log sum_j exp(z_j) */
    double entropy;         /* -sum p log p [TOT-75] */
    double max_probability; /* p_1 */
    double tail;            /* 1 - p_1, summed over the others [TOT-110] */
    double deviation;       /* sqrt(mean (z - mean z)^2) [TOT-83] */
    double mean;            /* of z */
    double rank_squares;    /* sum of ranks^2 */
    double rest;            /* tail / p_1 */
    const double *masses;   /* NULL: no call fills it */
    /* [vocabulary]: twice the mean rank of equals, less the middle; borrowed */
    const int32_t *ranks;
    /* indices of the min(100, vocabulary) largest, falling; borrowed */
    const int32_t *top;
} ota_evolve_row;

/* Bytes that ota_evolve_row_of keeps in `memory` as long as the row is used, at a multiple of 8; 0 unless
 * 1 <= vocabulary <= 2^24. */
OTA_API size_t ota_evolve_row_bytes(int64_t vocabulary);
/* Bytes that ota_evolve_row_of works in, `scratch`, at a multiple of 8; 0 unless 1 <= vocabulary <= 2^24. */
OTA_API size_t ota_evolve_scratch_bytes(int64_t vocabulary);
/* Measures one row of logits [vocabulary]. Time O(vocabulary), mostly for the ranks. */
OTA_API ota_status ota_evolve_row_of(const float *logits, int64_t vocabulary, void *memory,
                                     void *scratch, ota_evolve_row *row, ota_error *error);

/* From b = softmax(z) before to a = softmax(z') after. top_k is NaN for k > vocabulary; correlations are NaN
 * where a side is constant. */
typedef struct ota_transition {
    double tv, w1;         /* ||a - b||_1 / 2, without the leader of b [TOT-71, 72, 109] */
    double kl;             /* sum a log(a/b) [TOT-73] */
    double js;             /* [TOT-74] */
    double entropy_change; /* H(a) - H(b), summed as a change: exact for near ones [TOT-75] */
    double top1, top5, top10, top100; /* shared among the k largest, over k [TOT-76] */
    double spearman;                  /* of logits; equals share their mean rank [TOT-77] */
    double max_logit_change;          /* ||z' - z||_inf [TOT-81] */
    double logit_range_half;          /* (max - min of z' - z) / 2 */
    double logit_correlation;         /* Pearson [TOT-82] */
    double effective_temperature;     /* 1 / std(z) before; +inf if constant [TOT-83] */
    double sharp_ratio;      /* tv / tanh(logit_range_half / 2), at most 1; 0 for 0/0 [DER-20] */
    double tail_before;      /* 1 - max b */
    double tail_after;       /* 1 - max a */
    double saturation_bound; /* max(1 - b_r, 1 - a_r) >= tv, r = index_before [TOT-28] */
    int64_t index_before;    /* of the largest */
    int64_t index_after;
} ota_transition;
OTA_API ota_status ota_evolve_transition(const ota_evolve_row *before, const ota_evolve_row *after,
                                         ota_transition *transition, ota_error *error);

/* What one state predicts, seen from the first and from the last state of the same token. */
typedef struct ota_prediction {
    double entropy, max_probability, tail, log_sum_exp; /* as in ota_evolve_row */
    /* the next two are right to rounding of 1, unlike a transition's, which keep their digits near 0 */
    double kl_to_final; /* KL(p^final | p) = sum p^final log(p^final / p) */
    double drift;       /* ||p - p^0||_1 [TOT-26] */
    int64_t index;
    int agrees; /* its first largest logit is also the final one's */
} ota_prediction;
OTA_API ota_status ota_evolve_prediction(const ota_evolve_row *row, const ota_evolve_row *first,
                                         const ota_evolve_row *final, ota_prediction *prediction,
                                         ota_error *error);

/* How far a prediction is from other logits: *distance = ||softmax(logits) - p||_1 of any finite logits [row->vocabulary]
 * and what a row predicts, right to rounding of 1. [TOT-42] */
OTA_API ota_status ota_evolve_distance(const double *logits, const ota_evolve_row *row,
                                       double *distance, ota_error *error);

/* Rows of other states of the same token. */
typedef struct ota_evolve_others {
    const ota_evolve_row *before; /* NULL: no transition leads to this state */
    const ota_evolve_row *first;  /* NULL: this state is the first */
    const ota_evolve_row *final;
} ota_evolve_others;

/* The three calls of one more state in one, with the same results in less time: the row of its logits, its
 * prediction, and the transition from the state before. prediction and transition may be NULL. */
OTA_API ota_status ota_evolve_step(const float *logits, const ota_evolve_others *others,
                                   void *memory, void *scratch, ota_evolve_row *row,
                                   ota_transition *transition, ota_prediction *prediction,
                                   ota_error *error);

/* All states of a block of positions at once; positions are independent and shared out over threads. */
typedef struct ota_evolution {
    size_t size; /* sizeof(ota_evolution) */
    int64_t states, positions, vocabulary;
    const float **logits;        /* [states]: each [positions, vocabulary] */
    ota_transition *transitions; /* [states - 1, positions], or NULL */
    ota_prediction *predictions; /* [states, positions], or NULL */
    int threads;                 /* 0: 1; more, 256 at most, are started for the call */
    const ota_executor
        *executor; /* NULL, or what runs it in place of own threads, on 256 at most */
} ota_evolution;
/* Bytes that ota_evolve allocates: four rows and a scratch a thread; 0 unless 1 <= vocabulary <= 2^24. */
OTA_API size_t ota_evolve_bytes(int64_t vocabulary, int threads);
/* Measures all transitions and predictions of a block. OTA_EINVAL for logits that are not finite, OTA_ENOMEM. */
OTA_API ota_status ota_evolve(const ota_evolution *evolution, const ota_analysis_options *options,
                              ota_error *error);

/* States [tokens, width] of one layer. */
typedef struct ota_state_cloud {
    double mean_norm; /* mean of ||h_i||_2 */
    double
        mean_cosine; /* over pairs of distinct tokens; zero states have none; NaN for less than one pair */
    double participation; /* (sum s^2)^2 / sum s^4 over singular values s: a rank without any SVD */
} ota_state_cloud;
/* How the states of a layer lie. norms [tokens] or NULL: ||h_i||_2. participation costs O(min(tokens, width)^2 max(tokens,
 * width)) and is left NaN where `participation` is 0. Allocates 8 tokens width bytes with it, 8 width without. */
OTA_API ota_status ota_state_cloud_of(const ota_matrix *states, int participation, double *norms,
                                      ota_state_cloud *cloud, const ota_analysis_options *options,
                                      ota_error *error);

/* One entry of states [tokens, width] that is large against the rest: a massive activation is some thousand times the
 * median [sun2024]. */
typedef struct ota_outlier {
    double value; /* with its sign */
    double ratio; /* |value| / median of all |h_ij|; where that is 0 +inf, NaN for 0 */
    int64_t token, dimension;
} ota_outlier;
/* The largest entries of states: largest [min(count, tokens width)], the entries largest in size, falling, the first ones
 * among equals. kurtosis [tokens] or NULL: of the coordinates of a state less their mean, E x^4 / (E x^2)^2 - 3, which is 0
 * for a normal distribution and width - 5 or so for one coordinate alone [elhage2023]; NaN where all are equal. Allocates 8
 * tokens width bytes. */
OTA_API ota_status ota_outliers_of(const ota_matrix *states, int64_t count, ota_outlier *largest,
                                   double *kurtosis, const ota_analysis_options *options,
                                   ota_error *error);

/* ---- evolution: attention of one head ----------------------------------------------------------
 *
 * P [queries, keys], 0 or more and finite; rows of mass 0 (nothing to attend to) are left out of means over
 * rows; a row whose mass is not 1 (a sink) is divided by it for its entropy. */
typedef struct ota_pattern {
    double first_key_mass; /* mean weight on key 0 */
    double sink_rate; /* 1 if first_key_mass > threshold, else 0: the mean over heads is the rate */
    double receiver_max; /* largest column sum in units of rows / keys */
    double gini;         /* of the column sums: 0 for equal ones, 1 - 1/keys for one receiver */
    double row_entropy;  /* mean over rows */
    double max_weight;   /* mean over rows of the largest weight */
    double support;      /* mean number of positive weights */
    int64_t receiver;    /* the key that receives most */
    int64_t rows;        /* rows of positive mass */
} ota_pattern;
/* Measures one head's weights. threshold 0: 0.3. mass [keys] or NULL: column sums. Where no row has mass the figures are NaN.
 * Allocates 24 keys bytes. */
OTA_API ota_status ota_pattern_of(const ota_matrix *weights, double threshold, double *mass,
                                  ota_pattern *pattern, const ota_analysis_options *options,
                                  ota_error *error);

/* ---- evolution: what a head does ----------------------------------------------------------------
 *
 * P [n, n] of one head over tokens t_0 ... t_n-1: query i sees the keys at most `reach` away, none behind it in a causal
 * model. Scores are 0 to 1, means over rows of positive mass; weights are taken as they are, so that what a row gives to a
 * sink outside its keys is missing from them.
 *
 *     previous token    P_i,i-1, rows that see it                                     [voita2019]
 *     duplicate token   sum of P_ij over j != i with t_j = t_i, rows that see such keys  [wang2023]
 *     induction         sum of P_ij over j with t_j-1 = t_i, j - 1 != i, rows that see such keys  [olsson2022]
 *     positional        1 - sum (P_ij - f_i-j)^2 / sum (P_ij - mean)^2 over keys seen, f the mean of an offset, rows that
 *                       see two keys or more: 1 where weights depend on the offset i - j alone
 *     local             sum of P_ij over |i - j| < local, rows that see a key farther away
 *     sink              max over j of the mean of P_ij over rows i != j that see j, keys that are seen by at least half as
 *                       many rows as any ([gu2025]: first key, threshold 0.3)
 *     nop sink          sink max(0, 1 - r), r = value_norms of the sink / median of the others: the head gives its weight to
 *                       a key that adds little [guo2024], [fesser2026]
 *     broadcast sink    sink min(1, r): what the sink holds is given to all [fesser2026]
 *
 * *_share are what TransformerLens' detect_head returns (error_measure "mul"): the weight on the same pairs of causal
 * models, over all weight. */
typedef struct ota_head_view {
    size_t size; /* sizeof(ota_head_view) */
    /* P [tokens, tokens], 0 or more and finite, or NULL for the scores of chance: rows spread evenly over the keys they
       see; positional: what offsets explain of weights in random order, (offsets - 1) / (pairs - 1); no nop and broadcast
       sinks */
    const void *weights;
    ota_type type;
    int64_t tokens;
    const int64_t *ids;        /* t [tokens] */
    int causal;                /* not 0: query i sees no key behind it */
    int64_t reach;             /* 0: no bound */
    int64_t local;             /* 0: 8 */
    const double *value_norms; /* [tokens]: ||v_j||_2 of the values that the head reads, or NULL */
} ota_head_view;

/* A score of no row is NaN, and so is positional where all weights are equal. */
typedef struct ota_head_scores {
    double previous_token, duplicate_token, induction, positional, local, sink;
    double nop_sink, broadcast_sink;                         /* NaN without value_norms */
    double previous_share, duplicate_share, induction_share; /* of all weight */
    double distance;                                         /* mean of |i - j| by weight, tokens */
    double value_ratio;                                      /* r above; NaN without value_norms */
    int64_t sink_key; /* j above, the first of several; -1: none */
    int64_t
        offset; /* i - j of the largest mean weight, offsets seen by at least half as many rows as any */
    int64_t rows;           /* of positive mass */
    int64_t duplicate_rows; /* of these, rows that see a duplicate, */
    int64_t induction_rows; /* or a key behind one */
} ota_head_scores;
/* Scores what a head does. The call needs ids. Time O(tokens^2). Allocates 96 tokens bytes. */
OTA_API ota_status ota_head_scores_of(const ota_head_view *view, ota_head_scores *scores,
                                      const ota_analysis_options *options, ota_error *error);

/* ---- evolution: figures over many transitions --------------------------------------------------- */

/* Values that are not finite are left out. deviation: divisor n - 1. Quantiles are linear between order
 * statistics. [low, high]: 95 % interval of the mean by the percentile bootstrap, which draws units of
 * neighbouring values (they depend on one another) with replacement; NaN for a single unit. */
typedef struct ota_figure {
    double mean, deviation, median, p5, p95, low, high;
    int64_t count; /* values that were finite; all of the rest is NaN for none */
    int64_t units; /* drawn from; 0 where low and high are NaN */
} ota_figure;
/* The figures of a series of fewer than 2^32 values. unit: values of one unit, the tokens of a window for a figure per token (0:
 * 1; the last may be shorter). resamples 0: 1000. The seed decides every draw. Allocates 16 count bytes, 16 resamples bytes and
 * some. */
OTA_API ota_status ota_figure_of(const double *values, int64_t count, int64_t unit,
                                 int64_t resamples, int64_t seed, ota_figure *figure,
                                 const ota_analysis_options *options, ota_error *error);

typedef struct ota_measured_changes {
    const double *l1;    /* [count] */
    const double *steps; /* [count]: 2-norms of the moves of the states that the probe reads */
    int64_t count;
    double norm;      /* the largest ||W_j||_2 */
    double allowance; /* 0: 1e-6 */
} ota_measured_changes;

/* Measured l1 changes against norm * step. [TOT-24, 27, 89] */
typedef struct ota_tightness {
    ota_figure ratio;   /* l1 / (norm step); pairs whose norm step is 0 are left out */
    double largest;     /* of all ratios, +inf where l1 / 0 is one; 0 / 0 is left out */
    int64_t violations; /* l1 > norm step (1 + allowance) + allowance */
} ota_tightness;
/* How tight the bound of the probe is. ratios [count] or NULL. The rest as in ota_figure_of. */
OTA_API ota_status ota_tightness_of(const ota_measured_changes *changes, int64_t unit,
                                    int64_t resamples, int64_t seed, double *ratios,
                                    ota_tightness *tightness, const ota_analysis_options *options,
                                    ota_error *error);

/* The ranges of layers of Table 1: 1-4, 5-8, 9-12, 13-24, 25-48, layers counted from 1, cut at `layers`; deeper models go on
 * doubling (49-96, ...). first and last of range `index` are set, or 0 is returned past the end. [TOT-84] */
OTA_API int ota_depth_range(int index, int64_t layers, int64_t *first, int64_t *last);

/* The exponent between two depths: log(value_to / value_from) / log(depth_to / depth_from); NaN or infinite without meaning,
 * where numbers are not above 0 or depths are equal. [TOT-85] */
OTA_API double ota_scaling_exponent(double depth_from, double value_from, double depth_to,
                                    double value_to);
/* A power law: value = factor depth^exponent by least squares of logarithms, pairs above 0 only. */
typedef struct ota_power_law {
    double exponent, factor;
    double error;     /* standard error of the exponent; NaN for 2 pairs */
    double explained; /* R^2 of the logarithms; NaN for constant values */
    int64_t count;    /* pairs used; NaN above for fewer than 2 depths */
} ota_power_law;
OTA_API ota_status ota_power_law_of(const double *depths, const double *values, int64_t count,
                                    ota_power_law *law, const ota_analysis_options *options,
                                    ota_error *error);

/* Does a series of finite values rise? Time O(count^2). [TOT-91] */
typedef struct ota_trend {
    int64_t decreases; /* steps down */
    int64_t
        score; /* Mann-Kendall S [mann1945]: later-above-earlier pairs less later-below-earlier ones */
    double tau; /* S / (count (count - 1) / 2); NaN for one value */
    double z;   /* S less its sign over its deviation, ties counted; NaN for a constant */
} ota_trend;
OTA_API ota_status ota_trend_of(const double *values, int64_t count, ota_trend *trend,
                                const ota_analysis_options *options, ota_error *error);

/* ---- evolution: saturation events ---------------------------------------------------------------- */

/* Is a transition a saturation event? 1 if both tails are below `tail` and tv is below `tv`: the sources' p_max > 0.9999, TV
 * < 1e-10 are 1e-4, 1e-10. [TOT-29] */
OTA_API int ota_transition_saturated(const ota_transition *transition, double tail, double tv);

/* events [transitions, positions], 0 or not. A run is a largest stretch of neighbouring transitions at one
 * position that are all events. [TOT-87, 88] */
typedef struct ota_event_summary {
    int64_t events, positions_hit;   /* positions with any */
    double frequency;                /* events / (transitions positions) */
    double position_frequency;       /* positions_hit / positions */
    int64_t first_layer, last_layer; /* with any event, counted from 1; 0 for none */
    int64_t peak_layer;              /* with most; the first of several */
    int64_t outer; /* events in the first or last ceil(transitions / 10) transitions */
    int64_t runs, longest_run;
    double mean_run; /* NaN without a run */
} ota_event_summary;
/* Counts the events. by_layer [transitions] and run_lengths [transitions + 1] (run_lengths[k]: runs of k transitions) are
 * counts, or NULL. */
OTA_API ota_status ota_events_of(const uint8_t *events, int64_t transitions, int64_t positions,
                                 int64_t *by_layer, int64_t *run_lengths,
                                 ota_event_summary *summary, const ota_analysis_options *options,
                                 ota_error *error);

/* Pearson correlation of two yes-no series (phi): events with punctuation. NaN if one never varies. */
OTA_API ota_status ota_phi_of(const uint8_t *a, const uint8_t *b, int64_t count, double *phi,
                              const ota_analysis_options *options, ota_error *error);

/* What a token's text is, bits of a sum; white space within it counts for nothing but OTA_TOKEN_SPACE and _WORD_START. */
typedef enum ota_token_set {
    OTA_TOKEN_SPACE = 1,      /* white space only, or nothing */
    OTA_TOKEN_WORD_START = 2, /* begins with white space and has more */
    OTA_TOKEN_LETTERS = 4,    /* has a letter (any character above U+007F that is no punctuation) */
    OTA_TOKEN_DIGITS = 8,     /* has a digit */
    OTA_TOKEN_PUNCTUATION =
        16, /* nothing but marks of ASCII, General Punctuation and U+3001 to U+3003 */
    OTA_TOKEN_SENTENCE_END = 32 /* and one of them is . ! ? U+3002 or an ellipsis */
} ota_token_set;
/* The class of a token's text, `length` bytes of UTF-8. */
OTA_API int ota_token_class(const char *text, int64_t length);

#ifdef __cplusplus
}
#endif
#endif
