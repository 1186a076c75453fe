/* The kernel table: what each instruction-set level offers, in f32 and in f64.
 *
 * Bodies are written once (level.c) on the words of a vector vocabulary (vector_portable.h,
 * vector_avx2.h, vector_avx512.h, each defining the same words for f32 and for f64) and compiled once per
 * level and type. T below is float or double. Units: c = log2(e) / tau > 0, so that
 * exp((s - shift) / tau) = 2^((s - shift) c); the difference is formed before the multiplication, so
 * powers of two on all quantities in units of S change no bit.
 *
 * Contract of every kernel: no allocation; reads and writes exactly the stated elements (guard pages are
 * tested); rows may have any alignment, packed buffers are 64-byte aligned; -inf scores give weight
 * exactly +0; NaN and +inf propagate into that row only; subnormals preserved; the result of a row does
 * not depend on which block it was computed in.
 *
 * Corners: a row without a usable key (empty range or every score -inf) is empty whatever the sink:
 * maximum -inf, sum 0, output 0. Elsewhere a sink counts in the maximum as well as in the sum. A shift
 * of -inf counts as 0 (all scores are -inf then and all weights 0). What kernel_form counts are weights
 * of 0 whose exponent is above -inf. exponentials and powers may write over s. terms is called with the
 * row's own keys of the tile only and gets the element of key `first` as tile_row[0].
 *
 * May call: base/exp2.h and the headers of backend/ that say what a kernel promises. */
#ifndef OTA_KERNELS_H
#define OTA_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/bounded_kernels.h"
#include "backend/costs.h"
#include "backend/matching.h"
#include "backend/maxsim.h"
#include "backend/normalize.h"
#include "backend/product.h"
#include "backend/route_kernels.h"
#include "base/integers.h"

/* Sizes every level shares, so that packing and results do not depend on more than the level. */
enum {
    OTA_ROW_BLOCK = 48, /* query rows per task of the fused kernel */
    OTA_KEY_TILE = 128, /* keys per inner tile */
    OTA_PANEL = 64,     /* keys per packed panel: [panel][width][64] */
    OTA_LIFT_F32 = 64,  /* power of two of the largest entries of a stored kernel */
    OTA_LIFT_F64 = 512,
    OTA_GRADIENT_SCRATCH = 2 * OTA_ROW_BLOCK * OTA_KEY_TILE,
    OTA_COMPACT_ROOM = 16,      /* elements that `compact` may write past the last one kept */
    OTA_LANES_SIDE = 16,        /* most rows and columns of problems that are solved one a lane */
    OTA_LANES_ROUNDS = 1 << 14, /* most rounds there, between which nothing can stop them */
    OTA_LANES_MOST = 16,        /* most lanes of any level and type */
    OTA_LANES_BYTES = 64        /* of one vector, at most */
};

/* Packed keys: ceil(keys / 64) panels; panel p holds width x 64 values k[p*64 + lane][w] at
 * packed[(p*width + w)*64 + lane], lanes past the last key zero. Elements of T. */
static inline int64_t ota_packed_length(int64_t keys, int64_t width) {
    return ota_int_round_up(keys, OTA_PANEL) * width;
}

/* Gradients of one block of rows against one tile of keys (gradient.inc.h), with
 * P_ij = 2^((S_ij + h_j - shift_i) c), dS_ij = P_ij (U_ij - a_i - b_j), U = upstream V^T:
 *
 *     queries [rows][width], keys [key_count][width], upstream [rows][values_width]   finite, packed densely
 *     packed_keys, packed_values      panels from the tile's first key on, which is `first`; widths > 0
 *     key_bias, key_advantage         h, b [key_count], or NULL
 *     begin, end, scale, c, terms     as in the block of attend
 *     shift [rows]                    units of S; +inf: no weight, NaN: P is NaN on the row's keys
 *     advantage [rows]                a, finite
 *     queries_grad [rows][width] += dS K      keys_grad [key_count][width] += dS^T Q
 *     values_grad [key_count][values_width] += P^T upstream                           each may be NULL
 *     scratch                         OTA_GRADIENT_SCRATCH elements, 64-byte aligned */
#define OTA_GRADIENT_BLOCK(NAME, T)                                                                \
    typedef struct NAME {                                                                          \
        const T *queries, *keys, *upstream, *packed_keys, *packed_values;                          \
        const T *key_bias, *key_advantage;                                                         \
        int64_t rows, key_count, width, values_width, first;                                       \
        const int64_t *begin, *end;                                                                \
        T scale, c;                                                                                \
        void (*terms)(void *context, int64_t row, int64_t first, int64_t last, T *tile_row);       \
        void *terms_context;                                                                       \
        const T *shift, *advantage;                                                                \
        T *queries_grad, *keys_grad, *values_grad;                                                 \
        T *scratch;                                                                                \
    } NAME;

OTA_GRADIENT_BLOCK(ota_kernels_f32_gradient, float)
OTA_GRADIENT_BLOCK(ota_kernels_f64_gradient, double)

/* Rounds of `lanes` small problems of one shape, problem l in lane l of every vector (lanes.inc.h). Element e of an
 * array of problems lies at [e * lanes + l], so all have room for lanes times what is stated:
 *
 *     K_ij = 2^((S_ij - m_i) c) 2^lift, m_i = max_j S_ij, v = 1
 *     round: u_i = mu_i / sum_j K_ij v_j,  v_j = nu_j / sum_i u_i K_ij
 *     P_ij = u_i K_ij v_j with u of the last v
 *
 * rows, columns >= 1. Exactly `rounds`, or with a tolerance: until sum_j |c_j v_j - nu_j| is so far below tolerance total
 * that the plan is certain to meet it, `rounds` at most. `taken` is the number of rounds, or -1 where the lane's problem
 * is not carried: a row's maximum or a sum leaves the range of the type, scalings leave 2^(+-lift/2), the tolerance is
 * below twice the floor of the arithmetic or was not met. What else is written there says nothing. A score of -inf has
 * weight 0. Positive masses lie within 2^(+-lift/4). The result of a lane depends on that lane alone. */
#define OTA_LANES_BLOCK(NAME, T)                                                                   \
    typedef struct NAME {                                                                          \
        int64_t rows, columns, rounds;                                                             \
        const T *c;                     /* [1] log2(e) / tau */                                    \
        const T *mass, *target;         /* [rows] mu, [columns] nu */                              \
        const T *tolerance, *total;     /* [1], or NULL: exactly; the total mass */                \
        const T *slack;                 /* [1] more floor for the tolerance, in units of u */      \
        T *matrix;                      /* [rows][columns] in: S, out: P */                        \
        T *shift, *sum;                 /* [rows] out: m_i and sum_j K_ij v_j */                   \
        T *scaling, *next;              /* [columns] out: v; scratch */                            \
        double *row_sums, *column_sums; /* [rows], [columns] out: of P, added in f64 */            \
        T *taken;                       /* [1] out */                                              \
    } NAME;

OTA_LANES_BLOCK(ota_kernels_f32_lanes, float)
OTA_LANES_BLOCK(ota_kernels_f64_lanes, double)

/* What kernels with many operands take. Rows r and columns j; every matrix [rows][...] with rows `ld...` elements
 * apart. */
#define OTA_KERNEL_OPERANDS(NAME, T)                                                               \
    /* Sinkhorn, log rows */                                                                       \
    typedef struct NAME##_log_round {                                                              \
        const T *s;                                                                                \
        int64_t lds, rows, columns;                                                                \
        const T *h; /* [columns] */                                                                \
        T c, sink;  /* sink: logit in units of S, -inf = none */                                   \
        const double *mass;                                                                        \
        double *shift, *sum, *column; /* [rows], [rows], [columns] */                              \
        T *scratch;                   /* [columns] */                                              \
    } NAME##_log_round;                                                                            \
                                                                                                   \
    typedef struct NAME##_kernel {                                                                 \
        const T *s;                                                                                \
        int64_t lds, rows, columns;                                                                \
        const double *f; /* [rows] */                                                              \
        const T *h;      /* [columns], or NULL */                                                  \
        T c;                                                                                       \
        T *kernel;                                                                                 \
        int64_t ldk;                                                                               \
    } NAME##_kernel;                                                                               \
                                                                                                   \
    /* Sinkhorn on the kernel, and the derivative of a round */                                    \
    typedef struct NAME##_round {                                                                  \
        const T *kernel;                                                                           \
        int64_t ldk, rows, columns;                                                                \
        const T *v;                /* [columns] */                                                 \
        const double *mass, *sink; /* [rows]; sink may be NULL */                                  \
        double *u, *column;        /* [rows], [columns] */                                         \
    } NAME##_round;                                                                                \
                                                                                                   \
    /* y_j = max(0, (s_j + h_j - shift) k - t) and its powers */                                   \
    typedef struct NAME##_powers {                                                                 \
        const T *s, *h; /* h may be NULL */                                                        \
        int64_t count;                                                                             \
        T shift, k;                                                                                \
        double t, p;                                                                               \
    } NAME##_powers;                                                                               \
                                                                                                   \
    /* A row with caps: out_j = min(c_j, factor e_j), e_j = 2^((s_j + h_j - shift) k), y_j^p */    \
    typedef struct NAME##_capped {                                                                 \
        const T *s, *h, *caps; /* h may be NULL, and caps too: `cap` */                            \
        int64_t count;                                                                             \
        T cap, shift, k, factor;                                                                   \
        double t, p;                                                                               \
        T *out; /* NULL: sums alone; may be s */                                                   \
    } NAME##_capped;                                                                               \
                                                                                                   \
    typedef struct NAME##_slopes {                                                                 \
        const T *w, *u;                                                                            \
        int64_t ldw, ldu, rows, columns;                                                           \
        const double *mean; /* [rows] */                                                           \
        double share;                                                                              \
        double *right, *size; /* [columns] */                                                      \
    } NAME##_slopes;

/* Of a row with caps. Open: factor e_j < c_j. */
typedef struct ota_capped_sums {
    double open, slope; /* of e_j and, of powers, y_j^(p - 1), over open keys */
    double closed;      /* of c_j over the others */
    int64_t full;       /* how many those are */
} ota_capped_sums;

/* Of a row with caps, by a level of x_j = s_j + h_j. */
typedef struct ota_level_sums {
    double above;       /* of c_j where x_j > level */
    double least, most; /* of x_j above the level, inf where there are none; of the others, -inf */
} ota_level_sums;

OTA_KERNEL_OPERANDS(ota_kernels_f32, float)
OTA_KERNEL_OPERANDS(ota_kernels_f64, double)

#define OTA_KERNEL_TABLE(NAME, T)                                                                                  \
    /* One fused block of softmax attention: rows <= OTA_ROW_BLOCK queries against keys [0, key_count).*/          \
    typedef struct NAME##_attend {                                                                                 \
        const T *queries;     /* [rows][width] packed densely                                   */                 \
        const T *packed_keys; /* see above                                                      */                 \
        const T *values;      /* [key_count][values_width] packed densely, finite               */                 \
        const T *key_bias;    /* [key_count] added to scale*q.k (units of S), or NULL           */                 \
        int64_t rows, width, values_width;                                                                         \
        const int64_t *begin,                                                                                      \
            *end;          /* [rows]: keys of row i are [begin[i], end[i])                   */                    \
        T scale;           /* S = scale * q.k (any sign)                                     */                    \
        T c;               /* log2(e) / tau                                                  */                    \
        T sink;            /* logit in units of S, -inf = none                               */                    \
        const T *row_mass; /* [rows] mu, or NULL = 1                                         */                    \
        /* fills a tile of true scores pair by pair when terms or masks need it, else NULL: called   */            \
        /* after the products with raw q.k in tile[row*OTA_KEY_TILE + key - first], must make them   */            \
        /* into S (scale included); keys outside [begin,end) of the row are then ignored             */            \
        void (*terms)(void *context, int64_t row, int64_t first, int64_t last, T *tile_row);                       \
        void *terms_context;                                                                                       \
        T *out; /* [rows][values_width], out = mu * softmax V                     */                               \
        T *row_max,                                                                                                \
            *row_sum; /* [rows]: max_j S and sum 2^((S - max) c), sink included;         */                        \
                      /* an empty row gives -inf, 0 and out = 0                          */                        \
        T *scratch;   /* NAME##_attend_scratch(values_width) elements, 64-byte aligned   */                        \
    } NAME##_attend;                                                                                               \
                                                                                                                   \
    typedef struct NAME {                                                                                          \
        void (*attend)(const NAME##_attend *block);                                                                \
        void (*gradient)(const NAME##_gradient *block);                                                            \
        /* s[r*lds + j] = q_r . k_j for rows x keys, keys packed, q dense [rows][width] */                         \
        void (*products)(const T *q, const T *packed_keys, int64_t rows, int64_t keys,                             \
                         int64_t width, T *s, int64_t lds);                                                        \
        /* s[j] = q . k_j, keys k[j*ldk + w] as they lie */                                                        \
        void (*dots)(const T *q, const T *k, int64_t ldk, int64_t count, int64_t width, T *s);                     \
        /* out += p v; p = 0 still multiplies: v must be finite                            */                      \
        void (*apply)(const T *p, const T *v, const ota_product *sizes, T *out);                                   \
        /* max_j (s_j + h_j); h may be NULL; -inf when empty; NaN if any is NaN */                                 \
        T (*maximum)(const T *s, const T *h, int64_t count);                                                       \
        /* min_j s_j over s_j > -inf, +inf when there is none, and how many are -inf */                            \
        T (*lowest)(const T *s, int64_t count, int64_t *forbidden);                                                \
        /* the least and the largest of s; false: some are not finite, and nothing is promised */                  \
        bool (*extent)(const T *s, int64_t count, T *low, T *high);                                                \
        /* p_j = 2^((s_j + h_j - shift) c); returns the sum (<= 64 naive terms per partial sum) */                 \
        double (*exponentials)(const T *s, const T *h, int64_t count, T shift, T c, T *p);                         \
        /* p_j *= factor; returns nothing */                                                                       \
        void (*multiply)(T * p, int64_t count, T factor);                                                          \
        double (*sum)(const T *p, int64_t count);                                                                  \
        /* sum p log(p) over p > 0 (natural log), the number of p > 0 and the largest p */                         \
        void (*statistics)(const T *p, int64_t count, double *p_log_p, int64_t *positive,                          \
                           double *max);                                                                           \
        /* column[j] += factor * p[j], f64 accumulators */                                                         \
        void (*accumulate)(const T *p, int64_t count, double factor, double *column);                              \
        /* Sinkhorn, log rows: for every row r of rows: shift[r] = max_j (s + h), sum[r] = sum_j       \
           2^((s + h - shift) c) (+ sink_r), then column[j] += mass[r] / sum[r] * 2^((s+h-shift) c).    \
           Rows with mass 0 or shift -inf add nothing. */           \
        void (*log_round)(const NAME##_log_round *round);                                                          \
        /* column log-sum-exp in two sweeps: top[j] = max(top[j], s_rj + f_r) over the rows; then       \
           column[j] += 2^((s_rj + f_r - top[j]) c); rows with f = -inf are skipped; columns whose top  \
           is -inf get 0 */          \
        void (*columns_top)(const T *s, int64_t lds, int64_t rows, int64_t columns,                                \
                            const double *f, T *top);                                                              \
        void (*columns_sum)(const T *s, int64_t lds, int64_t rows, int64_t columns,                                \
                            const double *f, const T *top, T c, double *column);                                   \
        /* linear domain: kernel[r,j] = 2^((s + f_r + h_j) c); returns how many finite s gave 0 */                 \
        int64_t (*kernel_form)(const NAME##_kernel *form);                                                         \
        /* one fused round on the kernel: r = K_r . v + sink[r]; u[r] = mass[r] / r (0 if mass 0);      \
           column[j] += u[r] K_rj. */          \
        void (*linear_round)(const NAME##_round *round);                                                           \
        /* its derivative: u[r] = mass[r] (K_r . v), column[j] += u[r] K_rj */                                     \
        void (*linear_reverse)(const NAME##_round *round);                                                         \
        /* p_j = 2^((s_j + h_j - shift) c) 2^lift, lift = OTA_LIFT_F32 or OTA_LIFT_F64; h may be NULL. */          \
        /* Made for entries <= 1 (c < 0 where s are costs): scalings up to 2^(lift/2) times them stay */           \
        /* normal where their product is. */                                                                       \
        void (*exp2_scaled)(const T *s, const T *h, int64_t count, T shift, T c, T *p);                            \
        /* p[r,j] = kernel[r,j] v[j] u[r]; p may be the kernel itself */                                           \
        void (*weights)(const T *kernel, int64_t ldk, int64_t rows, int64_t columns, const T *v,                   \
                        const double *u, T *p, int64_t ldp);                                                       \
        /* entmax sums over the row: *first = sum y^p, *second = sum y^(p-1) over y > 0 (p = 1/(alpha-1);  \
           p = 1 and 2 without pow), returns the number of y > 0. p < 0 takes k < 0 and t < 0: then y > 0 for all  \
           scores, and y = inf, that of -inf, has the power 0. */       \
        int64_t (*power_sums)(const NAME##_powers *row, double *first, double *second);                            \
        /* out_j = y_j^p * factor; returns the sum; out may be s */                                                \
        double (*powers)(const NAME##_powers *row, T factor, T *out);                                              \
        /* rows with caps, see above: exponentials, and powers */                                                  \
        ota_capped_sums (*capped_exponentials)(const NAME##_capped *row);                                          \
        ota_capped_sums (*capped_powers)(const NAME##_capped *row);                                                \
        /* the level is `shift`; of caps, s and h alone */                                                         \
        ota_level_sums (*capped_level)(const NAME##_capped *row);                                                  \
        /* the scores above `floor` in their order: kept[i] = s[where[i]]; returns how many. Both have     \
           room for count + OTA_COMPACT_ROOM elements; kept may be s. */       \
        int64_t (*compact)(const T *s, int64_t count, T floor, T *kept, int32_t *where);                           \
        /* out[w] = sum_i p_i v[where_i ldv + w], the sparse twin of `apply` */                                    \
        void (*spmv)(const T *p, const int32_t *where, int64_t count, const T *v, int64_t ldv,                     \
                     int64_t values_width, T *out);                                                                \
        /* backward of rows (slopes.inc.h); w_j = p_j^power where p_j > 0, else 0 */                               \
        void (*slope_weights)(const T *p, int64_t count, double power, T *w);                                      \
        /* sum w (u - b) over w != 0, and sum w; b may be NULL */                                                  \
        double (*slope_mean)(const T *w, const T *u, const T *b, int64_t count, double *total);                    \
        /* u_j = w_j (u_j - b_j - a) rate where w_j != 0, else 0; b may be NULL */                                 \
        void (*slopes)(const T *w, const T *b, int64_t count, T a, T rate, T *u);                                  \
        /* out[j*width + w] += sum_i p[i*ldp + j] x[i*width + w]; few rows: they are one chain of runs */          \
        void (*gemm_tn)(const T *p, int64_t ldp, const T *x, int64_t rows, int64_t keys,                           \
                        int64_t width, T *out);                                                                    \
        /* s[i] = q . v_(where[i]), and out[where[i]*width + w] += p[i] x[w] */                                    \
        void (*gather_dot)(const T *q, const int32_t *where, int64_t count, const T *v,                            \
                           int64_t ldv, int64_t width, T *s);                                                      \
        void (*scatter_add)(const T *p, const int32_t *where, int64_t count, const T *x,                           \
                            int64_t width, double *out);                                                           \
        /* the system of implicit gradients (adjoint.inc.h), all sums in f64: sum w u over w > 0, and sum w */     \
        double (*slope_sums)(const T *w, const T *u, int64_t count, double *weight);                               \
        /* right_j += w_ij (u_ij - mean_i), size_j += w_ij (|u_ij - mean_i| + share |u_ij|), w_ij > 0 */           \
        void (*slope_columns)(const NAME##_slopes *slopes);                                                        \
        /* weight_j += w_ij, diagonal_j += w_ij (1 - w_ij / den_i), rows of den > 0 */                             \
        void (*slope_diagonal)(const T *w, int64_t ldw, int64_t rows, int64_t columns,                             \
                               const double *den, double *weight, double *diagonal);                               \
        /* mean_i = (w_i . x) / den_i, 0 where den_i is not above 0; y_j += w_ij (x_j - mean_i) */                 \
        void (*centred_product)(const T *w, int64_t ldw, int64_t rows, int64_t columns,                            \
                                const double *x, const double *den, double *mean, double *y);                      \
        int64_t lanes;                              /* <= OTA_LANES_MOST, of 64 bytes at most */                   \
        void (*lane_rounds)(const NAME##_lanes *b); /* see above */                                                \
        /* to[e * lanes + l] = from[l * stride + e] factor for e < count, and back, where the elements of to     \
           from count up to a whole vector become 0; stride is a multiple of lanes, `from` as long */ \
        void (*lanes_in)(const T *from, int64_t stride, int64_t count, T factor, T *to);                           \
        void (*lanes_out)(const T *from, int64_t count, T *to, int64_t stride);                                    \
        const ota_costs *costs;                                                                                    \
        const ota_match_passes *match; /* of f64 only */                                                           \
        const ota_normalizers *normalizers;                                                                        \
        const ota_route_passes *route;                                                                             \
        const ota_bounded_passes *bounded; /* of f64 only */                                                       \
        ota_maxsim_pass *maxsim;           /* of f32 only */                                                       \
        /* neighbours in f16, exactly, fetching at most `count` of the `ahead` behind them; of f32 only */         \
        void (*widen)(const uint16_t *from, int64_t count, int64_t ahead, T *to);                                  \
    } NAME;

/* The fused kernel and its derivative on pairs of bf16: (x, y) is one uint32_t, x in its lower half. Every operand of
 * a product comes as pairs, the last filled up with 0, and the members of `block` of the same name are not
 * read. Pairs run along the width, or across two rows or keys:
 *
 *     queries, upstream [rows][pairs of the width]      left sides
 *     packed_keys, packed_values                        panels [panel][pairs of the width][64]
 *     values, keys_right [pairs of keys][width]         right sides; of the tile in gradient
 *     queries_right, upstream_right [pairs of rows][width]
 *
 * S and U are sums in f32 of exact products. P and dS are rounded to bf16 before they meet another operand, and
 * numbers below 2^-126 may count as 0 in products. row_sum is that of P before. */
enum {
    /* More elements of scratch: P in pairs and, where tiles work beside vectors, the next X. */
    OTA_PAIRS_ATTEND = 3 * OTA_ROW_BLOCK * OTA_KEY_TILE / 2,
    OTA_PAIRS_GRADIENT = 3 * OTA_ROW_BLOCK * OTA_KEY_TILE / 2
};

OTA_KERNEL_TABLE(ota_kernels_f32, float)
OTA_KERNEL_TABLE(ota_kernels_f64, double)

typedef struct ota_kernels_bf16_attend {
    ota_kernels_f32_attend block;
    const uint32_t *queries, *packed_keys, *values;
} ota_kernels_bf16_attend;

typedef struct ota_kernels_bf16_gradient {
    ota_kernels_f32_gradient block;
    const uint32_t *queries, *upstream, *packed_keys, *packed_values;
    const uint32_t *queries_right, *upstream_right, *keys_right;
} ota_kernels_bf16_gradient;

typedef struct ota_kernels_bf16 {
    void (*attend)(const ota_kernels_bf16_attend *block);
    void (*gradient)(const ota_kernels_bf16_gradient *block);
    ota_maxsim_pass *maxsim;
} ota_kernels_bf16;

/* Elements of scratch one attend call needs (S tile, running maxima and sums, f32 or f64 alike). */
int64_t ota_attend_scratch(int64_t values_width);

/* One table per level and type, each its own file. */
extern const ota_kernels_f32 ota_portable_f32, ota_avx2_f32, ota_avx512_f32, ota_neon_f32;
extern const ota_kernels_f64 ota_portable_f64, ota_avx2_f64, ota_avx512_f64, ota_neon_f64;
extern const ota_kernels_bf16 ota_portable_bf16, ota_portable_tiles, ota_avx512bf16_bf16,
    ota_amx_bf16;

typedef struct ota_kernels {
    const char *name;  /* "portable", "avx2", "avx512", "avx512bf16", "amx", "neon" */
    unsigned features; /* cpu.c bits needed */
    const ota_kernels_f32 *f32;
    const ota_kernels_f64 *f64;
    const ota_kernels_bf16 *bf16; /* NULL: bf16 is faster in f32 */
} ota_kernels;

/* Newest level that the CPU has and `limit` (a name, or "" / NULL for no limit) admits; NULL when the
 * named level is absent on this machine or unknown. */
const ota_kernels *ota_kernels_choose(const char *limit);
const ota_kernels *ota_kernels_row(
    int index); /* rows this CPU can run, oldest first; NULL past the end */

#endif
