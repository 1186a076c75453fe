/* otattn.h: attention as optimal transport. The whole operator: forward, backward, jvp, decoding, and the judge.
 *
 *     minimise over P >= 0, supported on the mask:   sum_ij P_ij C_ij + tau R(P)        C = -S
 *     rows     sum_j P_ij = mu_i
 *     columns  free | exact nu | relaxed rho | capped c | elastic lambda,steps | prefix | online c
 *     R        sum P (log P - 1)   |   sum (P^alpha - P) / (alpha (alpha - 1))   |   nothing (hard)
 *
 * Rows are queries, columns are keys, always in that order. P is called the coupling; f (rows) and
 * g (columns) are the potentials, in units of S:
 *
 *     entropy   P_ij = exp((S_ij + f_i + g_j) / tau)
 *     Tsallis   P_ij = max(0, (alpha - 1) (S_ij + f_i + g_j) / tau) ^ (1 / (alpha - 1))
 *               (alpha < 1: S_ij + f_i + g_j < 0 on the mask, and P_ij > 0)
 *     custom    P_ij = weight((S_ij + f_i) / tau)
 *     hard      S_ij + f_i + g_j <= 0 on the mask, with equality wherever P_ij > 0
 *
 * A first program (softmax attention of one head, everything else at its default):
 *
 *     float q[6 * 4], k[5 * 4], v[5 * 3], o[6 * 3];                      ... fill q, k, v ...
 *     ota_problem problem = {.size = sizeof problem};
 *     problem.queries = ota_array_of(q, OTA_F32, 1, 1, 6, 4);
 *     problem.keys = ota_array_of(k, OTA_F32, 1, 1, 5, 4);
 *     ota_arrays arrays = {.size = sizeof arrays};
 *     arrays.values = ota_array_of(v, OTA_F32, 1, 1, 5, 3);
 *     arrays.out = ota_array_of(o, OTA_F32, 1, 1, 6, 3);
 *     ota_error error;
 *     if (ota_attend(&problem, NULL, &arrays, NULL, &error) < 0) puts(error.message);
 *
 * Any other method: ota_method_parse("entmax:1.5/capped:2", &problem, &options, &error) first.
 *
 * Ownership: the caller owns every array and only lends it for the call (ota_plan_create borrows the
 * problem's arrays until ota_plan_free or ota_plan_rebind); the plan owns all workspace.
 * Errors: calls return an ota_status and, when `error` is not NULL, one sentence naming the field,
 * the value and the remedy. The library never prints, exits, reads the environment, installs handlers
 * or keeps mutable globals. Different plans may be used from different threads at the same time.
 * Callbacks (progress, executors, custom regularisers, communicators) return: no C++ exception and no longjmp may leave
 * one, since calls of the library and its threads are in between.
 *
 * Requirement ids in brackets, such as [CETA-16], name the source formulas; docs/ has the table.
 */
#ifndef OTATTN_H
#define OTATTN_H

#include <stddef.h>
#include <stdint.h>

#define OTA_VERSION_MAJOR 0
#define OTA_VERSION_MINOR 2
#define OTA_VERSION_PATCH 0
#define OTA_VERSION_STRING "0.2.0"

/* On Windows OTATTN_BUILD marks what a DLL exports; programs that link the DLL may define OTATTN_SHARED. */
#if defined(_WIN32) && defined(OTATTN_BUILD)
#define OTA_API __declspec(dllexport)
#elif defined(_WIN32) && defined(OTATTN_SHARED)
#define OTA_API __declspec(dllimport)
#elif defined(__GNUC__) && !defined(_WIN32)
#define OTA_API __attribute__((visibility("default")))
#else
#define OTA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status --------------------------------------------------------------------------------- */

/* 0: every promise kept. > 0: finished, with a caveat. < 0: failed; outputs asked for are filled with
 * quiet NaN when the failure is numeric or the call was ended, and untouched when the input was refused. */
typedef enum ota_status {
    OTA_OK = 0,
    /* exactly the asked rounds were run; no promise about the columns */
    OTA_FIXED_ITERS = 1,
    OTA_PARTIAL =
        2, /* not converged, and the partial plan is there: the caller allowed it, or the call always has one */
    OTA_NONFINITE_ROWS = 3, /* some rows met NaN or +inf and are NaN; the others are right */
    OTA_EINVAL = -1,        /* an argument is out of its range or does not fit another */
    OTA_ENOMEM = -2,
    OTA_EOVERFLOW = -3,     /* a size product leaves the range of size_t or int64_t */
    OTA_EALIAS = -4,        /* an output overlaps an input or another output */
    OTA_EALIGN = -5,        /* an array is not naturally aligned for its type */
    OTA_NOT_CONVERGED = -6, /* the rounds or steps ran out before the tolerance was met */
    OTA_INFEASIBLE = -7,    /* no plan meets the masses on this support */
    /* the tolerance lies below what f64 can reach: said before solving, or after it where relaxed
       rows carry so much mass, or above entmax:2 weights next to 0 lie so far apart, that rounding
       alone exceeds the tolerance */
    OTA_TOL_UNREACHABLE = -8,
    OTA_NONFINITE = -9,           /* a coupled method or strict mode met NaN or +inf */
    OTA_NOT_DIFFERENTIABLE = -10, /* hard plans have no gradient */
    /* the combination has no meaning or no solver, and the sentence says why; or a struct of a newer
       header has a field set that this library does not know */
    OTA_UNSUPPORTED = -11,
    OTA_CANCELLED = -12, /* by ota_options.cancel */
    OTA_TIMEOUT = -13,   /* by ota_options.deadline_ns */
    OTA_EFORMAT = -14,   /* a file does not follow its format */
    OTA_ELIMIT = -15,    /* a limit set by the caller (workspace) is too small */
    OTA_EIO = -16,       /* reading or writing failed */
    OTA_EPATH = -17,     /* a path cannot be opened */
    OTA_ETRUNC = -18,    /* a file ends too early */
    OTA_EMISMATCH =
        -19, /* a checkpoint does not fit its configuration, or a rank another's problem */
    OTA_EDEVICE = -20,   /* the device failed */
    OTA_ECOMM = -21,     /* a call of the communicator failed */
    OTA_EINTERNAL = -22, /* an internal check failed: a defect of the library */
    OTA_UNSOLVED = -1000 /* what a result holds before any solve */
} ota_status;

/* Filled when a call fails (all three strings NUL-terminated, never empty `message`); untouched on
 * success. Every call accepts NULL instead. */
typedef struct ota_error {
    char field[64];    /* the field at fault, spelled as in the structs below, or "" */
    char message[512]; /* one sentence: what, where, the value */
    char hint[256];    /* what to do about it, or "" */
} ota_error;

/* The status's word in the program's JSON ("ok", "fixed_iters", "not_converged" ...); never NULL. */
OTA_API const char *ota_status_word(ota_status status);
/* One English sentence about the status; never NULL. */
OTA_API const char *ota_status_text(ota_status status);
/* "MAJOR.MINOR.PATCH" of the library that is running. */
OTA_API const char *ota_version(void);

/* The processors that this process may use, at least 1: those of its affinity mask (where there is none, all), on Linux no more
 * than the CPU quota of its control groups allows, version 1 or 2. Where threads is 0 a call takes as many. */
OTA_API int ota_processors(void);

/* ---- arrays --------------------------------------------------------------------------------- */

/* Types of elements. */
typedef enum ota_type {
    OTA_NO_TYPE = 0,
    OTA_F64 = 1,
    OTA_F32 = 2,
    OTA_BF16 = 3,
    OTA_F16 = 4,
    OTA_BOOL = 5, /* one byte, 0 or not 0 */
    OTA_I64 = 6
} ota_type;

/* Bytes of one element (8 4 2 2 1 8); 0 for anything else. */
OTA_API size_t ota_type_bytes(ota_type type);

/* A strided 4-d array: batch, head, row, column. It owns nothing. An absent array is all zeros
 * (type OTA_NO_TYPE): "not given" as input, "not wanted" as output. Strides count elements and may
 * have any sign; an input may repeat elements with stride 0, an output may not. Where a comment says
 * "broadcasts", a size of 1 stands for every index of that dimension. Any size may be 0: then `data`
 * is never touched. Vectors over queries or keys have size {batch, heads, 1, length}. */
typedef struct ota_array {
    void *data;
    ota_type type;
    int64_t size[4];
    int64_t stride[4];
} ota_array;

/* A dense (C-ordered) array over caller memory. */
OTA_API ota_array ota_array_of(void *data, ota_type type, int64_t batch, int64_t heads,
                               int64_t rows, int64_t columns);

/* ---- problem -------------------------------------------------------------------------------- */

/* Terms are added to or bend the scores, always in this order, whatever the order in `terms`:
 *   scale * (Q K^T + relative inside) -> softcap -> + alibi + relative + dense -> masks -> / tau.
 * At most one term of each kind but OTA_TERM_DENSE, and 16 terms. */
typedef enum ota_term_kind {
    /* array [batch|1, heads|1, queries|1, keys|1]: added to S; half of its type's least finite number, or less, forbids */
    OTA_TERM_DENSE = 1,
    /* array {1,1,1,heads} of slopes, or absent and `value` for all heads: S_ij -= slope |i +
       offset - j| (offset as below), slope in units of S [LIT-12, 32] */
    OTA_TERM_ALIBI,
    /* array {1,heads|1,1,queries+keys-1}: b[i - j + keys - 1] added to S */
    OTA_TERM_RELATIVE,
    OTA_TERM_RELATIVE_INSIDE, /* the same, added to Q K^T before `scale` [TOT-50] */
    OTA_TERM_SOFTCAP,         /* S = value * tanh(S / value), value > 0 */
    /* one more key with this logit (array {1,1,1,heads} or `value`; -inf: none) and no value vector: weights
       on real keys sum to less than mu. The sink is outside column masses, caps, receiver mass and
       support. */
    OTA_TERM_SINK
} ota_term_kind;

/* One term; its kind says which of `array` and `value` it reads. */
typedef struct ota_term {
    ota_term_kind kind;
    ota_array array;
    double value;
} ota_term;

/* Supports say which pairs may carry weight: those that all of them allow, 16 at most. A pair outside has weight
 * exactly 0 and its scores, keys and values are not used (NaN there has no effect). With
 * queries != keys, positions follow ota_problem.corner: query i stands at position i + offset,
 * offset = 0 (top-left) or keys - queries (bottom-right). [TOT-43..48] */
typedef enum ota_support_kind {
    OTA_SUPPORT_CAUSAL = 1, /* j <= i + offset */
    OTA_SUPPORT_WINDOW,     /* i + offset - left <= j <= i + offset + right; -1 = no limit */
    OTA_SUPPORT_STRIDED,    /* (i + offset - j) mod left == 0, mathematical mod; left >= 1 */
    /* same block only: blocks of `left` positions, or array {1,1,1,blocks} I64 of block sizes that
       together cover every position */
    OTA_SUPPORT_BLOCK,
    OTA_SUPPORT_LENGTHS, /* array {1,1,1,batch} I64, 0 to keys: keys 0 ... length-1 take part */
    /* array BOOL, broadcasts to [batch, heads, queries, keys]; true = in */
    OTA_SUPPORT_BOOLEAN,
    /* array f64..f16, broadcasts: added to S; half of its type's least finite number, or less (-inf too), forbids */
    OTA_SUPPORT_ADDITIVE
} ota_support_kind;

/* One support; its kind says which of `array`, `left` and `right` it reads. */
typedef struct ota_support {
    ota_support_kind kind;
    ota_array array;
    int64_t left, right;
} ota_support;

/* The corner of the matrix where queries and keys stand at the same position. */
typedef enum ota_corner {
    OTA_CORNER_UNSET = 0, /* means top-left; refused for causal when queries != keys */
    OTA_TOP_LEFT,
    OTA_BOTTOM_RIGHT
} ota_corner;

typedef enum ota_regulariser {
    OTA_SOFTMAX = 0, /* entropy, temperature tau [LIT-01..09] */
    /* Tsallis of order alpha > 0; 1 is solved as softmax, 2 is sparsemax; below 1 no weight is 0 [LIT-10, 11] */
    OTA_ENTMAX,
    OTA_HARD,  /* nothing: argmax, assignment, transportation [ELA-04, 14] */
    OTA_CUSTOM /* ota_problem.custom; free columns on the rows axis alone [LIT-34] */
} ota_regulariser;

/* A regulariser of the caller's: R(P) = sum_ij Omega(P_ij), Omega convex on p >= 0. Weights are
 * P_ij = weight((S_ij + f_i) / tau), f_i fixed by the row's mass. weight and slope are required. The functions
 * are called with any finite x >= -1e308, from several threads at once. */
typedef struct ota_custom {
    /* (Omega')^-1 clipped at 0: never negative, never falling, continuous; refused where a sample of
       arguments shows otherwise */
    double (*weight)(void *user, double x);
    double (*slope)(void *user, double x); /* its derivative, 0 where it is clipped */
    /* Omega(p) up to a constant, for the certificate; NULL: primal, dual and gap do not exist */
    double (*value)(void *user, double p);
    void *user;
} ota_custom;

typedef enum ota_column_rule {
    OTA_COLUMNS_FREE = 0,
    OTA_COLUMNS_EXACT,   /* column sums = nu [CETA-01..] */
    OTA_COLUMNS_RELAXED, /* + rho KL(column sums | nu) [DER-01, 10] */
    OTA_COLUMNS_CAPPED,  /* column sums <= cap * column_mass [DER-02] */
    /* steps rounds of g <- g - lambda tau log(c/nu), then rows [ELA-07..11] */
    OTA_COLUMNS_ELASTIC,
    /* row i = last row of the exact plan of queries 0..i on keys 0..keys-queries+i; no more queries than keys [DER-04] */
    OTA_COLUMNS_PREFIX,
    /* rows in order; each takes at most what earlier rows left of every key's capacity cap *
       column_mass [DER-23] */
    OTA_COLUMNS_ONLINE,
    /* lower * nu <= column sums <= upper * nu: lower = 0 is capped, lower = upper exact [DER-02] */
    OTA_COLUMNS_BOUNDED
} ota_column_rule;

/* Row sums: exactly mu, or RHO KL(row sums | mu) added to the objective. */
typedef enum ota_row_rule { OTA_ROWS_HARD = 0, OTA_ROWS_RELAXED } ota_row_rule;
/* The side that gives exactly its masses: ota_problem.axis. */
typedef enum ota_axis { OTA_AXIS_ROWS = 0, OTA_AXIS_COLUMNS } ota_axis;
/* Rows or columns: ota_problem.start and end. */
typedef enum ota_side { OTA_SIDE_ROWS = 0, OTA_SIDE_COLUMNS } ota_side;

/* What is to be solved. Zero means the default in every field but `size`. */
typedef struct ota_problem {
    /* sizeof(ota_problem) of the caller; 0 is refused, shorter = an older header */
    size_t size;

    /* Scores: queries and keys, or a matrix. S = scale * Q K^T (or scale * matrix), then the terms. */
    ota_array queries; /* [batch, heads, queries, width] */
    /* [batch, key heads, keys, width]; heads % key heads == 0 (grouped heads) */
    ota_array keys;
    /* [batch, heads, queries, keys]; then queries and keys are absent */
    ota_array scores;
    /* not 0: scale * Q K^T (or the matrix) is a cost to be minimised [ELA-05] */
    int cost;
    /* 0: 1 / sqrt(width) for queries and keys (1 if width is 0), 1 for a matrix */
    double scale;
    double temperature; /* tau > 0, no subnormal number, divides S; 0: 1 [TOT-09] */
    /* {1,1,1,heads} f64 or f32: one tau per head instead [CETA-29] */
    ota_array temperatures;

    const ota_term *terms; /* term_count of them, borrowed */
    int64_t term_count;
    const ota_support *supports; /* support_count of them, borrowed */
    int64_t support_count;
    ota_corner corner;

    ota_regulariser regulariser;
    double order; /* alpha of OTA_ENTMAX, > 0; 0: 1.5 */

    ota_row_rule rows;
    double
        row_strength; /* RHO of relaxed rows, > 0, units of S; these need softmax with relaxed columns */

    ota_column_rule columns;
    double strength; /* rho of relaxed columns, > 0, units of S */
    double cap;      /* cap of capped and online, > 0, times column_mass */
    double lambda;   /* elastic, 0 <= lambda < 2 */
    /* elastic rounds, >= 0 (lambda = 0 or steps = 0 is softmax bit for bit) */
    int64_t steps;
    ota_array
        lambdas; /* {1,1,1,keys} f64 or f32: a lambda per key instead, rows axis alone [ELA-13] */

    /* mu >= 0, {batch|1, heads|1, 1, queries} of any floating type; absent: 1. Totals of rows and columns that differ by what
       rounding to the coarser of their types may make of them (f64 1e-12, f32 1e-6, f16 2^-10, bf16 2^-7, relative; 1e-6 at
       least unless queries or scores are f64) are equal */
    ota_array row_mass;
    /* nu >= 0, {batch|1, heads|1, 1, keys}; absent: sum mu / usable keys (0 for a key no query
       may use; exact columns with a sink must have it given); multiplies cap (absent: 1) for capped and online; refused for
       free and prefix */
    ota_array column_mass;

    /* OTA_AXIS_COLUMNS: P = (plan of S^T)^T: keys give exactly column_mass (absent: 1) and the column
       rule governs the queries with row_mass as its target; no prefix, online, sink or lambdas [BLOG-02] */
    ota_axis axis;
    /* orders of rounds as papers print them, CETA (14)-(15) and ELA (8)-(9): start at columns = no first row update, end
       at columns = no last one, so rows are not exact. Of softmax with exact, relaxed, capped, bounded or elastic columns
       [CETA-07, ELA-10] */
    ota_side start, end;

    ota_custom custom; /* of OTA_CUSTOM */

    /* 0 <= dropout <= 1: `out` is made of D_ij P_ij instead of P_ij, D_ij = 0 with this probability, else
       1 / (1 - dropout). Everything else (coupling, statistics, certificates) is of the plan P; backward and
       jvp follow D. The pair (i, j) of batch b and head h is dropped when word j mod 4 of
           philox(key = words 0, 1 of philox(seed; offset, b, h); counter = i, floor(j / 4))
       is below dropout 2^32, philox being Philox 4x32 with 10 rounds [salmon2011], 64-bit numbers taken low word
       first, b and h as one word each. The same bits for any threads, kernels and shapes. */
    double dropout;
    uint64_t dropout_seed, dropout_offset;

    /* of bounded columns, in units of nu (a key's share of the rows' mass where column_mass is absent):
       0 <= lower <= upper, upper > 0 */
    double lower, upper;

    /* Entry caps: P_ij <= c_ij, in units of mass. One number for all pairs (0 and +inf: none), or an array, f64 or f32, that
       broadcasts to [batch, heads, queries, keys]; entries > 0, +inf: no cap. Not both. With f and g as above, of pairs at their
       cap only the inequality holds:
           entropy   P_ij = min(c_ij, exp((S_ij + f_i + g_j) / tau)), and Tsallis alike
           hard      S_ij + f_i + g_j >= 0 wherever P_ij = c_ij
       so hard rows of mass k with caps of 1 take the k best keys. For softmax, entmax and hard on every column rule but
       elastic, whose update multiplies columns that caps hold still (and hard/relaxed, which is no method): rows exact, on
       the rows axis, coupled columns to a tolerance; anything else is refused. The sink has no cap. A row whose caps add up to
       less than its mass is OTA_INFEASIBLE; the first row of prefix columns has keys - queries + 1 of them. Derivatives hold
       the caps still: weights at their cap have none. */
    double entry_cap;
    ota_array entry_caps;
} ota_problem;

/* ---- many processes ------------------------------------------------------------------------- */

/* Which rows a rank holds, of the whole problem's in the order of their positions. */
typedef enum ota_shares {
    OTA_SHARES_IN_ORDER = 0, /* rank 0 the first rows, rank 1 the next ... */
    /* cut in 2 ranks pieces, rank r holds pieces r and 2 ranks - 1 - r, in this order: its first (count + 1) / 2 rows, or
       as many as first_pieces says, and the rest. Causal rows then cost every rank the same */
    OTA_SHARES_ZIGZAG
} ota_shares;

/* What all_reduce makes of the values of all ranks. */
typedef enum ota_reduction { OTA_REDUCE_SUM = 0, OTA_REDUCE_MAX } ota_reduction;

/* How the keys and values of other ranks reach a rank. */
typedef enum ota_key_transport {
    OTA_KEYS_AUTO =
        0, /* gathered where there is memory for that, within `workspace_limit`, on every rank; else round a ring */
    OTA_KEYS_GATHERED, /* all at once, in memory of the plan */
    /* one rank's share at a time, passed on from rank to rank: softmax, entmax and hard rows on free columns, plain
       rounds of softmax, Newton's columns of entmax and of caps of entries; wants send_receive where there is more than
       one rank */
    OTA_KEYS_IN_RING
} ota_key_transport;

/* A group of processes that solve one problem together, and the calls by which they reach each other. The library links no
 * such engine; MPI, NCCL, gloo and threads all have these calls (docs/users/many-machines.md has them ready).
 *
 * Of a plan made with a communicator each rank gives and gets its share: queries, out and all else that has rows are the
 * rank's own rows; keys and values are its share of the keys, in the same order of shares, and of one type each on all ranks
 * (with a matrix of scores, the matrix has the rank's rows and all keys, and the values are whole). Vectors over the keys
 * (column_mass, lambdas, column_potential, receiver ...), lengths and block sizes are whole and the same on every rank;
 * arrays over pairs have the rank's rows and all keys. ota_plan_create, ota_plan_rebind, ota_forward, ota_backward, ota_jvp
 * and ota_certify (which wants column_potential unless columns are free) are then calls that every rank makes in the same
 * order; ota_decode, ota_plan_scores and ota_plan_measure are OTA_UNSUPPORTED. Where the ranks' problems or options differ, or
 * one of them is refused, no rank goes on: OTA_EMISMATCH, or the refused rank's own status. What a result tells is of the whole
 * problem.
 *
 * Free columns need no round trip but keys and values; exact, relaxed, capped, bounded and elastic columns of softmax add
 * one sum of `keys` doubles a head and round, in a ring two message rounds of the keys, and Newton (entmax, relaxed rows,
 * caps of entries) some a step. Same bits for the same number of ranks and the same shares where all_reduce gives every rank
 * the same bits.
 *
 * A callback returns 0, or any other number for an error, a lost peer or a time-out of its own; then the call ends with
 * OTA_ECOMM on that rank, outputs NaN, and the plan is of no more use. Called from the thread that made the call, never from
 * two at once. */
typedef struct ota_communicator {
    size_t size; /* sizeof(ota_communicator) */
    int rank, ranks;
    ota_shares shares;
    /* values[count] of `type` (f64, f32) becomes their sum or largest over all ranks, on all ranks */
    int (*all_reduce)(void *user, void *values, int64_t count, ota_type type,
                      ota_reduction reduction);
    /* `mine` of rank r goes to all + offsets[r], counts[r] bytes, on all ranks; arrays of `ranks` */
    int (*all_gather)(void *user, const void *mine, void *all, const int64_t *counts,
                      const int64_t *offsets);
    void *user;
    /* `bytes` bytes of `given` go to rank `to` while `wanted_bytes` bytes come from rank `from` into `wanted`, which
       overlaps nothing; every rank makes the call. NULL: the keys are gathered */
    int (*send_receive)(void *user, int to, const void *given, int64_t bytes, int from,
                        void *wanted, int64_t wanted_bytes);
    ota_key_transport keys;
    /* zigzag alone, [2]: how many of this rank's queries and how many of its keys are its first piece, where that is not half
       of them (of sequences packed one behind the other, which zigzag shares cut anywhere); NULL: half. Read while plans are
       made and by ota_certify */
    const int64_t *first_pieces;
} ota_communicator;

/* ---- options -------------------------------------------------------------------------------- */

/* What rows and columns of scores are shifted by before the linear domain, nothing, their mean or the middle of their range:
 * the plan stays the same. */
typedef enum ota_center { OTA_CENTER_NONE = 0, OTA_CENTER_MEAN, OTA_CENTER_MIDRANGE } ota_center;
/* The type of the potentials and of stored scores. */
typedef enum ota_precision {
    OTA_PRECISION_AUTO = 0,
    OTA_PRECISION_F32,
    OTA_PRECISION_F64
} ota_precision;

/* Runs body(context, index, worker) for every index in [0, count), in any order, on at most
 * `threads` workers, 1 to 4096 (worker in [0, threads), no two at once with the same number), and returns when
 * all are done. */
typedef struct ota_executor {
    void (*run)(void *user, int64_t count, void (*body)(void *context, int64_t index, int worker),
                void *context);
    void *user;
    int threads;
} ota_executor;

/* What `progress` is told: heads finished of all, and the round and residual of one running head.
 * Called from any worker, one call at a time. */
typedef struct ota_progress {
    int64_t heads_done, heads;
    int64_t round;
    double residual;
} ota_progress;

#define OTA_NO_ROUNDS (-1) /* ota_options.rounds: exactly zero rounds (0 means tolerance mode) */

/* How it is to be solved. Zero means the default in every field but `size`; a NULL pointer to the
 * struct means all defaults. Every option that changes the run shows in ota_plan_describe. */
typedef struct ota_options {
    size_t size; /* sizeof(ota_options) */
    /* on max(row_error, column_error); 0: 1e-5 (f32 and below), 1e-9 (f64) */
    double tolerance;
    int64_t max_rounds; /* limit in tolerance mode; 0: 1000 */
    /* > 0 or OTA_NO_ROUNDS: exactly so many; the status is OTA_FIXED_ITERS. A round is one column
       and one row update after the first row update: 0 rounds is softmax; Sinkformers' half-steps
       are 2 rounds + 1 [CETA-06] */
    int64_t rounds;
    /* > 0: a schedule inside the solve begins at this temperature and falls to the problem's [ELA-12, 19] */
    double anneal_start;
    double anneal_factor; /* each stage multiplies it, 0 < factor < 1; 0: 0.5 */
    /* rounds per stage; 0: 5 (1 with elastic: one stage per round) */
    int64_t anneal_rounds;
    int anneal_keep_scaling; /* keep v = exp(g / tau) between stages instead of g */
    /* over-relaxation of the column update, 0 < w < 2; 0: 1 [DER-08, 09] */
    double relaxation;
    int relaxation_auto; /* not 0: choose relaxation from the measured rate */
    ota_center center;   /* [TOT-106] */
    /* of the potentials and stored scores [TOT-107]; AUTO: docs/development/numerics.md */
    ota_precision precision;
    double
        tolerance_scaling; /* > 0: stop only if max - min of what a round adds to g is also this at most [TOT-14] */
    /* exact columns without total support: solve on the usable pairs */
    int prune;
    int allow_partial;  /* not converged: write the plan, OTA_PARTIAL */
    int strict;         /* rows that meet NaN or +inf are an error, OTA_NONFINITE */
    const char *solver; /* NULL or "auto", or a name of ota_solver_name */
    /* 0: the CPUs this process may use; at most 4096; results do not depend on it */
    int threads;
    const ota_executor *executor; /* NULL: own threads */
    /* NULL or a name of ota_kernel_name: use nothing newer; other names are refused */
    const char *cpu;
    size_t workspace_limit; /* bytes the plan may take; 0: no limit */
    /* not 0 stops with OTA_CANCELLED. Read as an atomic int, relaxed, at least every tenth of a second of work: another
       thread or a signal handler may write it, as an _Atomic int or a std::atomic<int> whose address is cast to this type
       (both are plain ints in memory here, without a lock) or by __atomic_store_n. It stays so until the call returns.
       2: whoever cancels reads no outputs, which are then left as they are: NaN in memory that is new takes its time */
    const int *cancel;
    /* on CLOCK_MONOTONIC, on Windows of QueryPerformanceCounter; 0: none; past it OTA_TIMEOUT, within a tenth of a second
       of work and the time to write NaN over the outputs; whatever was found by then is no answer */
    int64_t deadline_ns;
    void (*progress)(void *user, const ota_progress *progress);
    void *progress_user;
    int gradients; /* not 0: the plan also holds the workspace of ota_backward and ota_jvp */
    /* how ota_backward differentiates coupled columns: 0 chooses, 1 the conditions of the solution
       (tolerance mode), 2 the rounds that ran, in reverse (elastic and fixed rounds) [DER-14, 15] */
    int backward;
    /* NULL or a name of ota_backend_name; the first is the default; "plain" computes in f64 whatever `precision` says */
    const char *backend;
    /* NULL: one process. Else the problem's rows lie on many (see ota_communicator); the struct is copied, `user` borrowed */
    const ota_communicator *communicator;
} ota_options;

/* ---- methods by name ------------------------------------------------------------------------ */

/* Parses REGULARISER[/COLUMNS][{option=value,...}] or an alias ("softmax", "entmax:1.5/capped:2",
 * "softmax/elastic:0.3,8", "ceta{temperature=.5,rounds=10}", "assignment", "argmax") and sets regulariser, order and columns
 * (without a word for it softmax, and free), the parameters of the columns, and what braces name: temperature, scale, entry_cap,
 * tolerance, tolerance_scaling, rounds, max_rounds, anneal, relaxation, prune. Other fields stay as they are. `options` may be
 * NULL where braces name none of those from tolerance on. OTA_EINVAL (with a did-you-mean) and OTA_UNSUPPORTED (structs of a
 * newer header) change nothing. */
OTA_API ota_status ota_method_parse(const char *text, ota_problem *problem, ota_options *options,
                                    ota_error *error);
/* The canonical spelling ("softmax/exact") of regulariser, columns and one cap of all entries ("{entry_cap=0.5}"), without other
 * braces, NUL-terminated within text_size; returns the length it needs without the NUL. */
OTA_API size_t ota_method_name(const ota_problem *problem, char *text, size_t text_size);

/* ---- plan ----------------------------------------------------------------------------------- */

/* Opaque: choices and all memory of one problem. A plan serves one call at a time; different plans may run in different
 * threads at once. ota_forward and ota_decode change what a plan holds, as ota_plan_rebind does. */
typedef struct ota_plan ota_plan;

/* Checks what ota_plan_create checks but for memory: all but the contents of large arrays. OTA_OK, or its statuses. */
OTA_API ota_status ota_check(const ota_problem *problem, const ota_options *options,
                             ota_error *error);

/* Chooses solver, kernels and memory once. `values_width` is the width of the values that forward will
 * be given (0 if none). The structs are copied, their arrays borrowed. *plan is NULL on failure.
 * Threads are started here. OTA_OK; OTA_EINVAL, OTA_EALIGN, OTA_EOVERFLOW, OTA_UNSUPPORTED; OTA_ENOMEM; OTA_ELIMIT where
 * workspace_limit does not suffice; with a communicator OTA_EMISMATCH and OTA_ECOMM. */
OTA_API ota_status ota_plan_create(ota_plan **plan, const ota_problem *problem,
                                   int64_t values_width, const ota_options *options,
                                   ota_error *error);
/* *bytes becomes what ota_plan_bytes would say of the plan that ota_plan_create would make of these, whose statuses it has; its
 * memory is not taken. With OTA_ELIMIT *bytes is what the smallest plan takes, with OTA_EOVERFLOW SIZE_MAX, else 0. Not with a
 * communicator (OTA_UNSUPPORTED). Threads are started and ended. */
OTA_API ota_status ota_plan_measure(const ota_problem *problem, int64_t values_width,
                                    const ota_options *options, size_t *bytes, ota_error *error);
/* Frees a plan; NULL is fine. */
OTA_API void ota_plan_free(ota_plan *plan);
/* Bytes of the plan's memory, which its calls do not add to. */
OTA_API size_t ota_plan_bytes(const ota_plan *plan);
/* Human-readable lines "key: value" (solver and why, kernel, threads, bytes, path, precision,
 * tolerance ...), NUL-terminated within text_size; returns the length it needs without the NUL. */
OTA_API size_t ota_plan_describe(const ota_plan *plan, char *text, size_t text_size);
/* The name of the plan's solver; owned by the library, never NULL. */
OTA_API const char *ota_plan_solver(const ota_plan *plan);
/* The name of its kernel; owned by the library, never NULL. */
OTA_API const char *ota_plan_kernel(const ota_plan *plan);
/* How many threads it runs on. */
OTA_API int ota_plan_threads(const ota_plan *plan);
/* Points the plan at another problem of the same shapes, types and rules, with as many terms and supports of the same kinds.
 * Numbers may differ (temperature, scale, order, strength, bounds ...) as long as a plan made for them would choose the same:
 * not from order < 1 to order > 1, from lambda 1 to another, from lower 0 to above it. Anything else is refused, the field
 * named, and the plan keeps its old problem: OTA_EINVAL, or a status of ota_plan_create. */
OTA_API ota_status ota_plan_rebind(ota_plan *plan, const ota_problem *problem, ota_error *error);
/* Gives the calls to come another options.deadline_ns (0: none), since what a plan was made with passes. Not while one runs. */
OTA_API void ota_plan_set_deadline(ota_plan *plan, int64_t deadline_ns);

/* ---- forward -------------------------------------------------------------------------------- */

/* What forward found out about one head, from the solver's own sums. After OTA_CANCELLED, OTA_TIMEOUT or OTA_ECOMM heads whose
 * outputs are lost have status OTA_UNSOLVED. */
typedef struct ota_head_result {
    ota_status status;
    int64_t rounds;
    double row_error, column_error; /* as in ota_certificate */
} ota_head_result;

/* Arrays of one forward call; all owned by the caller, absent = not wanted. Outputs must not overlap
 * inputs or each other. */
typedef struct ota_arrays {
    size_t size; /* sizeof(ota_arrays) */
    /* in [batch, key heads, keys, values width]; any float type */
    ota_array values;
    /* out [batch, heads, queries, values width] = P V; any float type */
    ota_array out;
    ota_array coupling; /* out [batch, heads, queries, keys] = P; any float type */
    /* out {batch, heads, 1, queries} f64 or f32; -inf for an empty row */
    ota_array row_potential;
    ota_array
        column_potential; /* out {batch, heads, 1, keys} f64 or f32; 0 of free and online columns */
    /* the rest f64 or f32 but `remaining`. out {batch, heads, 1, queries} LSE_j (S_ij + g_j)/tau in nats, sink
       included; -inf for an empty row; NaN of other regularisers than entropy */
    ota_array lse;
    ota_array receiver;    /* out {batch, heads, 1, keys} column sums */
    ota_array row_entropy; /* out {batch, heads, 1, queries} entropy of P_i / mu_i, nats */
    ota_array row_support; /* out {batch, heads, 1, queries} number of positive weights */
    ota_array row_max;     /* out {batch, heads, 1, queries} largest weight */
    ota_array sink;        /* out {batch, heads, 1, queries} weight on the sink */
    /* in {batch, heads, 1, keys}: g to start from, of softmax and entmax with exact, relaxed, capped, bounded or elastic
       columns on the rows axis; refused elsewhere */
    ota_array start_potential;
    /* in and out {batch, heads, 1, keys} f64, of online columns alone: capacity left; given: the call starts from
       it and leaves the new rest there */
    ota_array remaining;
    ota_head_result *heads; /* out: batch * heads records, or NULL */
} ota_arrays;

typedef struct ota_result {
    size_t size;                    /* sizeof(ota_result) */
    ota_status status;              /* worst over heads */
    int64_t rounds;                 /* largest over heads */
    double row_error, column_error; /* worst over heads, from the solver's own sums */
    int64_t empty_rows, nonfinite_rows;
    /* allowed pairs on no feasible plan, when that was established */
    int64_t unusable_pairs;
    int64_t pruned_pairs; /* of these, left out by options.prune */
    /* kernel entries flushed to zero by the linear domain [TOT-108] */
    int64_t underflowed;
    int promoted; /* every head was worked on in f64 although the data is narrower */
    /* smallest temperature solved where the schedule of head `head` stopped early; else the first head's own */
    double temperature_reached;
    int64_t head;       /* batch index * heads + head index of the worst head */
    char sentence[512]; /* why the status is not OTA_OK, in one sentence, or "" */
    /* ota_backward: worst relative residual over heads of the linear system it solved; 0 without */
    double backward_residual;
    /* what found the plan of head `head`: a name of ota_solver_name, owned by the library */
    const char *solver;
    /* with a communicator: calls of its functions that this call made, and the bytes that this rank gave them */
    int64_t messages, message_bytes;
    /* of coupled columns: the largest share of a head's mass on pairs to which float masks and biases add about -1e4 or less,
       numbers that stand for "forbidden" and do not forbid: exact columns fill a key whatever its pairs have. With a
       communicator: of this rank's rows */
    double masked_share;
} ota_result;

/* Solves and writes the outputs that are present. Allocates nothing, chooses nothing. Numeric trouble
 * of one head makes that head's outputs NaN, no others. `result` may be NULL; its size must be set. OTA_OK, OTA_FIXED_ITERS,
 * OTA_PARTIAL, OTA_NONFINITE_ROWS; OTA_NOT_CONVERGED, OTA_INFEASIBLE, OTA_TOL_UNREACHABLE, OTA_NONFINITE of a head, `result`
 * and sentence filled; OTA_CANCELLED, OTA_TIMEOUT, OTA_ECOMM with all outputs NaN; OTA_EINVAL, OTA_EALIGN, OTA_EALIAS,
 * OTA_UNSUPPORTED, nothing filled. */
OTA_API ota_status ota_forward(ota_plan *plan, const ota_arrays *arrays, ota_result *result,
                               ota_error *error);

/* One decode step with a KV cache. The plan was created for keys = capacity of the cache and
 * bottom-right causal positions; only the first `key_count` keys exist, and the queries are the last
 * ones of them: queries <= key_count <= keys. Free and online columns on the rows axis without relative biases and without a
 * communicator (OTA_UNSUPPORTED otherwise); else the statuses of ota_forward. Online wants
 * arrays->remaining, whose entries for new keys the caller sets to cap * column_mass before the call
 * (ota_decode_capacity does) and which is not to be used again after OTA_CANCELLED or OTA_TIMEOUT: some heads may have spent of
 * it. [DER-23] */
OTA_API ota_status ota_decode(ota_plan *plan, const ota_arrays *arrays, int64_t key_count,
                              ota_result *result, ota_error *error);
/* Writes the full capacity of keys [first, last) into `remaining`, f64 {batch, heads, 1, keys}; of plans with online columns
 * (OTA_EINVAL otherwise). */
OTA_API ota_status ota_decode_capacity(const ota_plan *plan, const ota_array *remaining,
                                       int64_t first, int64_t last, ota_error *error);

/* The scores of one head, rows first ... first + rows - 1 of S, with all terms and before the division by the temperature,
 * computed in f64; -inf where a mask forbids the pair: out [1, 1, rows, keys], any float type. key_count as in ota_decode; 0: all
 * keys. Allocates (OTA_ENOMEM); not with a communicator (OTA_UNSUPPORTED); OTA_EINVAL, OTA_EALIGN, OTA_EOVERFLOW; OTA_CANCELLED,
 * OTA_TIMEOUT, after which some rows are not written. */
OTA_API ota_status ota_plan_scores(const ota_plan *plan, int64_t batch, int64_t head, int64_t first,
                                   int64_t key_count, const ota_array *scores, ota_error *error);

/* Attention in one call: a plan is made, run forward and freed. Statuses are those of ota_plan_create and ota_forward. */
OTA_API ota_status ota_attend(const ota_problem *problem, const ota_options *options,
                              const ota_arrays *arrays, ota_result *result, ota_error *error);

/* ---- backward ------------------------------------------------------------------------------- */

/* Gradients of a number L, given dL/d out and dL/d coupling. All arrays are owned by the caller,
 * absent = not wanted (inputs: zero); any float type; outputs overlap nothing. A gradient of
 * something shared (grouped key heads, a broadcast bias, one temperature for all heads) is the sum
 * over all its uses. Masked pairs and empty rows get exactly 0; a weight clipped by an online
 * capacity passes its gradient to the capacity, the row's mass and the earlier rows' scores, none
 * to its own score.
 *
 *     U = dL/dP = out_grad V^T + coupling_grad
 *     dL/dS_ij = w_ij (U_ij - a_i - b_j) / tau      w = P^(2 - alpha)     [LIT-17, DER-12..14]
 *                                                   (custom: slope((S_ij + f_i) / tau))
 *
 * with b = 0 for free columns; otherwise a and b make the derivative of every row and column rule
 * vanish, so the rows (and exact columns) of dL/dS sum to 0. */
typedef struct ota_gradients {
    size_t size; /* sizeof(ota_gradients) */
    /* in [batch, heads, queries, values width] dL/d out; needs arrays->values */
    ota_array out_grad;
    ota_array coupling_grad; /* in [batch, heads, queries, keys] dL/d coupling */

    ota_array queries; /* out, shape of problem.queries */
    ota_array keys;    /* out, shape of problem.keys */
    ota_array values;  /* out, shape of arrays->values */
    /* out [batch, heads, queries, keys] dL/dS of the final scores, all terms and supports applied */
    ota_array scores;
    ota_array matrix; /* out, shape of problem.scores: dL/d problem.scores */
    /* NULL, or problem.term_count arrays in the order of problem.terms: of the shape of the term's own
       array, or {1,1,1,1} where the term is a number; absent = not wanted */
    const ota_array *terms;
    ota_array temperature; /* out {1,1,1,heads} or {1,1,1,1} (the sum) [LIT-09] */
    ota_array order;       /* out {1,1,1,1} alpha; entmax only, of order 1 not in fixed rounds */
    ota_array cap;         /* out {1,1,1,1} capped and online */
    /* out {1,1,1,1} rho of relaxed columns, or lambda of elastic ones: one lambda, above 0 unless steps is 0 */
    ota_array strength;
    ota_array row_strength; /* out {1,1,1,1} RHO of relaxed rows */
    /* out {batch|1, heads|1, 1, queries}; rows without keys get 0. Where the column masses follow
       the rows' (default, or exact, whose target is scaled to the rows' total) that is included. Of a
       mass of 0, here and of columns, that of a mass that begins to grow; 0 where there is no such limit:
       of a side that is relaxed, under elastic, prefix and online columns, and of keys in fixed rounds
       with options.relaxation */
    ota_array row_mass;
    /* out {batch|1, heads|1, 1, keys}, of problem.column_mass or, absent, of its default 1 (capped,
       online, and the exact masses of the columns axis) */
    ota_array column_mass;
    /* 1: a forward of this very problem, by this plan or another, came out well and wrote what stands
       in the arrays; then the plan needs none of its own, and softmax on free columns that finds out
       and lse there makes no pass for them */
    int solved;
    ota_array lower, upper; /* out {1,1,1,1} bounds of bounded columns */
} ota_gradients;

/* The derivative of the last ota_forward of this plan (made with options.gradients = 1) at `arrays`,
 * which are those of that call: values, and for coupled columns in tolerance mode column_potential
 * (on the columns axis row_potential too), f64, as forward wrote them; start_potential where forward had one. `remaining` is
 * OTA_UNSUPPORTED. Allocates nothing.
 *
 * Free and online columns in closed form; exact, relaxed, capped and prefix by conjugate gradients on
 * the semi-dual system of the solution, elastic and fixed rounds by reversing the rounds. OTA_OK only
 * if the linear residual is at most 1e-10 (f64) or 1e-6 (narrower), else OTA_NOT_CONVERGED and NaN; OTA_TOL_UNREACHABLE
 * and NaN where potentials do not hold the plan, so far apart scores lie.
 * A forward that did not converge is refused the same way, hard plans with OTA_NOT_DIFFERENTIABLE, pairs that were pruned
 * and the other value of options.backward with OTA_UNSUPPORTED, a plan without a forward or without gradients with OTA_EINVAL.
 * Rows that forward could not compute (OTA_NONFINITE_ROWS) have NaN on their allowed pairs. Same bits
 * for any thread count. */
OTA_API ota_status ota_backward(ota_plan *plan, const ota_arrays *arrays,
                                const ota_gradients *gradients, ota_result *result,
                                ota_error *error);

/* Tangents of one direction. All arrays are owned by the caller, any float type; an absent input stands
 * still, an absent output is not wanted. Every input exists where its gradient does in ota_gradients. */
typedef struct ota_tangents {
    size_t size; /* sizeof(ota_tangents) */
    ota_array
        scores; /* in [batch, heads, queries, keys] dS of the final scores, besides the rest */
    ota_array values;   /* in, shape of arrays->values: dV */
    ota_array coupling; /* out [batch, heads, queries, keys] dP */
    ota_array out;      /* out [batch, heads, queries, values width] dP V + P dV */

    ota_array queries; /* in, shape of problem.queries: dQ */
    ota_array keys;    /* in, shape of problem.keys: dK */
    ota_array matrix;  /* in, shape of problem.scores: d problem.scores */
    /* in: NULL, or problem.term_count arrays in the order of problem.terms, shaped as in ota_gradients */
    const ota_array *terms;
    ota_array temperature; /* in {1,1,1,heads} or {1,1,1,1} (the same for all heads) */
    ota_array order;       /* in {1,1,1,1} alpha; entmax only */
    ota_array cap;         /* in {1,1,1,1} capped and online */
    ota_array
        strength; /* in {1,1,1,1} rho of relaxed columns, or lambda of elastic ones, as in ota_gradients */
    ota_array row_strength; /* in {1,1,1,1} RHO of relaxed rows */
    /* in {batch|1, heads|1, 1, queries}; column masses that follow the rows' follow this too. A mass of
       0, here and of columns, begins to grow where ota_gradients.row_mass says so, and stays elsewhere */
    ota_array row_mass;
    ota_array column_mass;  /* in {batch|1, heads|1, 1, keys} */
    ota_array lower, upper; /* in {1,1,1,1} bounds of bounded columns */
} ota_tangents;

/* The derivative of the last ota_forward along one direction, with the arrays that ota_backward needs:
 *
 *     dS   = scale (dQ K^T + Q dK^T) through the terms, + d terms + tangents.scores, row by row
 *     U_ij = dS_ij - (S_ij + f_i + g_j) / tau dtau + dalpha's part
 *     dP   = w_ij (U_ij + df_i + dg_j) / tau         w, and which systems give df and dg: as in ota_backward
 *
 * for every method that ota_backward differentiates, its transpose up to rounding: the sum of dout times
 * out_grad equals that of all tangents times their gradients. In tolerance mode with scores alone, dP is the
 * product of dS with the Hessian of the optimal value max <P, S> - tau R(P) - ..., whose gradient in S is P:
 * symmetric and positive semidefinite [LIT-30, DER-16]. Computed in f64. Status and residual as in
 * ota_backward; rows that forward could not compute are NaN. A direction in which no plan exists (masses whose
 * totals part ways) is OTA_NOT_CONVERGED. */
OTA_API ota_status ota_jvp(ota_plan *plan, const ota_arrays *arrays, const ota_tangents *tangents,
                           ota_result *result, ota_error *error);

/* ---- certificate ---------------------------------------------------------------------------- */

/* How well a plan solves a problem, recomputed in f64 from the outputs alone by code that shares
 * nothing with the solvers. NaN = does not exist (reported as null). */
typedef struct ota_certificate {
    size_t size; /* sizeof(ota_certificate) */
    /* ||P1 - mu||_1 / sum mu (sink included in P1); stationarity if relaxed */
    double row_error;
    /* exact: ||P^T 1 - nu||_1 / sum mu; capped, bounded, online: its violated part; relaxed: stationarity
       residual; else distance to nu, as information */
    double column_error;
    double primal; /* sum P C + tau R(P) (+ rho KL(c | nu) ...), units of S */
    /* of the same problem at the column potentials that are given or follow from the plan, and the best row potentials for
       them; NaN: elastic, prefix, online, a custom regulariser without value, potentials that are not known */
    double dual;
    double gap;     /* primal - dual */
    double value;   /* <P, C> - tau H(P) [LIT-22] */
    double entropy; /* mean over rows with mass of H(P_i / mu_i), nats */
    double support; /* mean number of positive weights of rows with mass */
    /* column sums of keys that mass may reach, in units of sum mu / the number of these keys [CETA-19, TOT-48] */
    double receiver_max, receiver_min;
    double delta;   /* max_j |c_j - nu_j| in the same units [CETA-20] */
    double minimum; /* smallest P_ij on the support, rows with mass (negative = defect) */
    double outside; /* largest |P_ij| outside the support (must be 0) */
    int64_t empty_rows, nonfinite_rows;
    double cap_error; /* largest P_ij - c_ij over entry caps; 0 where none is exceeded */
} ota_certificate;

/* Judges arrays->coupling if present, else the plan that row_potential and column_potential define (column_potential
 * is not needed of free and online columns; hard, prefix and options.prune need the coupling); reads sink and remaining,
 * too. Streams rows: O(queries + keys) memory, allocated inside; with options.prune 2 more bits a pair, to find the pairs
 * that no feasible plan can use and leave them out of the dual. `per_head`: batch * heads records of certificate->size
 * bytes each, or NULL. Over heads: largest errors, gaps, delta and receiver_max, smallest receiver_min and minimum, means
 * of entropy and support, sums of primal, dual, value and counts of rows. OTA_OK; OTA_EINVAL, OTA_EALIGN, OTA_EOVERFLOW;
 * OTA_UNSUPPORTED, with a communicator of the columns axis, prefix and online columns and options.prune, too; OTA_ENOMEM,
 * OTA_CANCELLED, OTA_TIMEOUT, OTA_EMISMATCH, OTA_ECOMM: then `certificate` is not written. */
OTA_API ota_status ota_certify(const ota_problem *problem, const ota_options *options,
                               const ota_arrays *arrays, ota_certificate *certificate,
                               ota_certificate *per_head, ota_error *error);

/* ---- small helpers -------------------------------------------------------------------------- */

/* Rotates pairs (2k, 2k+1) of every row of x [batch, heads, rows, width], width even, in place, by
 * position * base^(-2k/width). `first` is the position of row 0; base > 0, and 0 means 10000.
 * f64 f32 bf16 f16, computed in f64. OTA_OK, OTA_EINVAL, OTA_EALIGN, OTA_EOVERFLOW. [TOT-51, 52] */
OTA_API ota_status ota_rope(const ota_array *x, int64_t first, double base, ota_error *error);
/* ALiBi's slopes of heads: slopes[h] = 2^(-8 (h + 1) / heads), h < heads. [LIT-32] */
OTA_API void ota_alibi_slopes(int64_t heads, double *slopes);

/* Names of solvers, NULL past the end. */
OTA_API const char *ota_solver_name(int index);
/* Names of the instruction-set levels that this CPU can run, oldest first, NULL past the end. */
OTA_API const char *ota_kernel_name(int index);
/* Names of backends, NULL past the end; the first is the default. */
OTA_API const char *ota_backend_name(int index);

#ifdef __cplusplus
}
#endif
#endif
