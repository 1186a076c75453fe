/* gradient.h: what backward and jvp ask of a backend. The operator finds the multipliers a, b of a head (conjugate
 * gradients, rounds in reverse); every number of size queries x keys is formed, read and written by passes.
 *
 * Whatever the method, the gradient of a pair is one formula of two vectors of potentials and two of multipliers, so
 * the passes that write outputs know no method:
 *
 *     P_ij = phi((S_ij + f_i + g_j) / tau)     dL/dS_ij = w_ij (U_ij - a_i - b_j) / tau,  w = P^(2 - alpha)
 *
 * online: only for i < shut_j; row shut_j gave key j the rest fill_j of its capacity, later rows nothing.
 * Fixed rounds and prefix keep dL/dS instead (`gradient`), prefix its P too. */
#ifndef OTA_BACKEND_GRADIENT_H
#define OTA_BACKEND_GRADIENT_H

#include "backend.h"
#include "terms/terms.h"

typedef enum ota_backward_mode {
    OTA_BACKWARD_FREE,
    OTA_BACKWARD_ONLINE,
    OTA_BACKWARD_IMPLICIT,
    OTA_BACKWARD_UNROLLED,
    OTA_BACKWARD_PREFIX
} ota_backward_mode;

/* Numbers per row that are summed over rows in order. */
typedef enum ota_row_sum {
    OTA_SUM_TEMPERATURE,
    OTA_SUM_ORDER,
    OTA_SUM_SINK,
    OTA_SUM_ALIBI,
    OTA_SUM_SOFTCAP,
    OTA_ROW_SUMS
} ota_row_sum;

enum {
    OTA_ADJOINT_CHUNKS = 32,
    OTA_ADJOINT_VECTORS = 6,
    /* Most columns of a system that elimination may solve: columns^2 numbers a head worker. */
    OTA_ADJOINT_DIRECT = 512,
    /* Most rounds that become inner dimensions: beyond the first, rounds on scores are reversed faster; rows on many
       processes have no other way. */
    OTA_KERNEL_ROUNDS = 64,
    OTA_KERNEL_ROUNDS_SHARED = 1024
};

/* The right side is a difference from the rows' means: what a common offset of U loses to rounding counts as
 * this share of the offset, so that it stays below the residuals that are promised. */
#define OTA_OFFSET_SHARE 1.0e-5

/* Rows [first, last) of one of the OTA_ADJOINT_CHUNKS pieces that never depend on threads. */
static inline void ota_adjoint_rows(int64_t rows, int64_t chunk, int64_t *first, int64_t *last) {
    const int64_t share = ota_int_ceil_div(rows, OTA_ADJOINT_CHUNKS);
    const int64_t step = ota_int_round_up(share, 16);
    *first = ota_int_min(chunk * step, rows);
    *last = ota_int_min(*first + step, rows);
}

/* A row of slopes as the list of its pairs with weight, in the place of that row: `count` numbers each of w, P and U in the type that
 * the head is worked on, and their keys, which rise; then P and keys, which rise, of the `full` pairs at their caps, whose slopes are 0
 * and which only a product with P asks for. All others are 0. */
typedef struct ota_slope_list {
    int64_t count, full;
    void *slopes, *weights, *upstream, *full_weights;
    int32_t *keys, *full_keys;
} ota_slope_list;

/* Does a row of `stride` numbers, of which 16 and more make a row, hold such a list? */
static inline bool ota_slope_list_fits(int64_t stride, int64_t count, int64_t full) {
    return 2 * count + full + (full > 0) <= stride / 2;
}

static inline ota_slope_list ota_slope_list_at(void *row, int64_t count, int64_t full,
                                               size_t number) {
    char *at = row;
    const size_t bytes = (size_t)count * number, even = (size_t)(count + (count & 1));
    char *keys = at + 3 * bytes, *rest = keys + even * sizeof(int32_t);
    return (ota_slope_list){.count = count,
                            .full = full,
                            .slopes = at,
                            .weights = at + bytes,
                            .upstream = at + 2 * bytes,
                            .full_weights = rest,
                            .keys = (int32_t *)(void *)keys,
                            .full_keys = (int32_t *)(void *)(rest + (size_t)full * number)};
}

/* dL/d of one term: sums in the shape of its array, chunk sums where queries share an entry. */
typedef struct ota_term_sum {
    double *sum;
    double *partial; /* [OTA_ADJOINT_CHUNKS][length], a chunk a block of the strip */
    int64_t length, count;
    bool direct; /* every pair has an entry of its own: written row by row */
} ota_term_sum;

/* Sums by keys, [OTA_ADJOINT_CHUNKS][lane] each, chunk after chunk. */
typedef struct ota_chunk_sums {
    double *right, *right_terms; /* of the right side, and of its terms without their signs */
    double *plan, *slopes;       /* of P and w */
} ota_chunk_sums;

/* Rows of the solver above order 2, where the slope of one weight may outweigh all others, whose shares of the row's multiplier keep
 * their digits only where U - b is measured from there: [rows] each, or NULL where U - b is measured from 0. */
typedef struct ota_steep_rows {
    int64_t *column;    /* of the steepest slope; -1: a sink's, or of none */
    double *middle;     /* U there, of which the row's U is measured */
    double *rest;       /* of the row's sum of slopes, what no pair has */
    double *multiplier; /* the row's, less U - b there */
} ota_steep_rows;

/* Fixed rounds on a stored kernel, as passes see them; row k of u lies at u + k * row_lane. */
typedef struct ota_kernel_view {
    int64_t width; /* inner dimensions of the last product; 0: not for this plan */
    int64_t at;    /* the round at work */
    int64_t count; /* rounds */
    bool carried;  /* P and dL/dS of the head at work come from its kernel */
    int64_t row_lane;
    double *mu;          /* [rows], 0 for empty ones */
    double *column_sums; /* [OTA_ADJOINT_CHUNKS][lane] K^T u, or K^T x */
    double *usable,
        *lost; /* the same shape: rows that may use a key; > 0 at the first key: no kernel */
    double *u; /* [count + 1][row_lane] */
    double *f_grad, *g_grad; /* [rows], [columns] of the last row update */
    double *row_mass_grad;   /* [rows] */
    const double *v;         /* [columns] of the last row update */
    const void *rounds;      /* the solver's, for: */
    void (*row)(const void *rounds, int64_t row, double *a);
    void (*key)(const void *rounds, int64_t key, double *b);
    double (*sink)(const void *rounds, int64_t row, double weight);
} ota_kernel_view;

/* What one head worker works in: head workers go through different heads side by side. Host memory, f64; `own` is the backend's. */
typedef struct ota_backward_space {
    int head_worker;
    /* what became of its heads: the first that failed, the worst residual, and how many f32 was refused */
    struct {
        ota_status status;
        int64_t failed;
        double residual;
        int64_t widened;
    } outcome;
    /* of the head at work: potentials and multipliers; bad: not finite, NaN on the allowed pairs */
    double *f, *top, *a; /* [queries] */
    ota_edge *edges; /* beside the potentials of the solver's rows, of orders above 2; or NULL */
    bool *bad;       /* [queries] */
    double *g, *b;   /* [stride] */
    /* rows in order: where each key's capacity ran out and what that row took */
    int64_t *shut;    /* [stride] */
    double *fill;     /* [stride] */
    double *row_sums; /* [queries][OTA_ROW_SUMS] */
    int64_t lane;     /* max(queries, keys) rounded up */
    /* sums by keys, a share a chunk, [OTA_ADJOINT_CHUNKS][lane]; rounds use their memory */
    ota_chunk_sums chunks;
    /* gradients that rows or heads share, by operator/backward_sums.c */
    struct {
        ota_term_sum terms[OTA_MAX_TERMS];
        double *row_mass, *column_mass;     /* [batch * heads][queries], [..][keys] */
        double *temperature, *alibi, *sink; /* [heads] */
        double order, row_strength, softcap;
        double parameters[OTA_RULE_PARAMETERS]; /* of the column rule */
    } sums;
    /* coupled */
    double *matrix; /* [dense_rows][dense_stride] f64: scores; slopes, of T where implicit */
    int64_t *
        listed; /* [rows] how many pairs of a row of slopes are a list, -1: all pairs of the row; NULL: of all rows */
    int64_t *full;    /* [rows] how many more of such a row are at their caps */
    double *gradient; /* the same shape: dL/dP, then dL/dS */
    double *slopes;   /* the same shape, prefix only */
    /* implicit: the system of solvers/derivatives/adjoint.h, vectors of lane. What `slopes` leaves by queries becomes that of
       the solver's rows and columns. */
    struct {
        double *den;         /* sums of w */
        double *row_right;   /* sums of w U */
        double *row_sums;    /* of P, the sink's included */
        double *extra;       /* what the column rule adds to the diagonal */
        double *column_sums; /* of P */
        double *right;       /* the right side */
        double *right_terms; /* what its terms add up to without their signs */
    } adjoint;
    ota_steep_rows steep;
    double *vectors;   /* OTA_ADJOINT_VECTORS of lane */
    double *couplings; /* [columns][columns], NULL beyond OTA_ADJOINT_DIRECT */
    unsigned char *held;
    ota_kernel_view kernel;
    struct ota_gradient_scratch *own;   /* the backend's */
    struct ota_rounds_space *rounds;    /* the operator's, of fixed rounds */
    struct ota_block_parts *block;      /* the operator's, of prefix columns */
    struct ota_tangent_space *tangents; /* of ota_jvp */
} ota_backward_space;

/* One head at work. */
typedef struct ota_backward_job {
    struct ota_plan *plan; /* the operator's */
    ota_device *device;
    const ota_resolved *resolved;
    ota_pool *pool;
    int64_t values_width;
    const ota_arrays *arrays;
    const ota_gradients *want;
    ota_backward_space *space;
    int64_t place;
    int worker; /* whose scratch is this thread's while no task runs */
    ota_backward_mode mode;
    /* chosen once for a run, by the operator */
    struct {
        bool sums;           /* row sums are wanted */
        bool tiled;          /* outputs come from tiles */
        bool may_use_kernel; /* fixed rounds */
        bool begins_narrow;  /* T = float until a head is refused */
    } choice;
    /* Masses of 0 whose derivatives are wanted, and are those of a mass that begins to grow; by the operator. */
    struct {
        bool queries, keys;
    } limits;
    /* the head at work, by the operator, but for `biased` and `stored` */
    int64_t batch, head, key_head;
    ota_row_parameters parameters;
    struct {
        bool biased;  /* g is not 0 */
        bool stored;  /* dL/dS lies in gradient */
        bool wide;    /* T = double */
        bool refused; /* f32 does not carry it */
    } state;
    double residual;
    uint32_t dropout_key[2];
    /* the backend's */
    bool lists;     /* rows may be lists */
    bool keep_sums; /* packing leaves the sums of earlier heads */
    int64_t strip_first, strip_rows;
} ota_backward_job;

/* Above order 2 the slope of one weight may outweigh all others, whose shares of the mean keep their digits only where U - b is
 * measured from there. Are rows, each with a potential of its own, measured so? */
static inline bool ota_backward_is_centred(const ota_backward_job *job) {
    return (job->mode == OTA_BACKWARD_FREE || job->mode == OTA_BACKWARD_ONLINE) &&
           job->parameters.regulariser->tsallis && job->parameters.order > 2.0;
}

/* Do the passes measure U so? */
static inline bool ota_backward_is_steep(const ota_backward_job *job) {
    return job->mode == OTA_BACKWARD_IMPLICIT && job->space->steep.column != NULL;
}

/* U of a pair as its row of the solver measures it. */
static inline double ota_steep_upstream(const ota_backward_space *s, bool transposed, int64_t query,
                                        int64_t key, double u) {
    const int64_t row = transposed ? key : query, column = transposed ? query : key;
    return s->steep.column[row] == column ? 0.0 : u - s->steep.middle[row];
}

/* U - a - b of column `column` of a row, once all are known, from that U and the multipliers b of the columns. */
static inline double ota_steep_apart(const ota_steep_rows *steep, int64_t row, int64_t column,
                                     const double *b, double u) {
    const int64_t steepest = steep->column[row];
    return u - (b[column] - (steepest < 0 ? 0.0 : b[steepest])) - steep->multiplier[row];
}

/* The same of a pair from U itself. */
static inline double ota_steep_advantage(const ota_backward_space *s, bool transposed,
                                         int64_t query, int64_t key, double u) {
    return ota_steep_apart(&s->steep, transposed ? key : query, transposed ? query : key,
                           transposed ? s->a : s->b,
                           ota_steep_upstream(s, transposed, query, key, u));
}

/* Extra inner dimensions of the last product after so many rounds: A of a row and B of a key. */
static inline int64_t ota_kernel_dimensions(int64_t rounds) { return 2 * rounds + 1; }

/* May some pair be forbidden? */
static inline bool ota_is_masked(const ota_resolved *r) {
    return r->row_terms || r->support_count > 0;
}

/* gradient.c: the array that takes the gradient of sorted term t (the sink: t = term_count); NULL: none. */
const ota_array *ota_gradient_of_term(const ota_resolved *r, const ota_gradients *want, int t);
/* Slice of a term's sums that belongs to this head. */
double *ota_term_slice(const ota_backward_job *job, int t);
/* Sums over the chunks of [OTA_ADJOINT_CHUNKS][lane] numbers, chunk after chunk, for `count` rows or keys. */
void ota_backward_add_chunks(const ota_backward_space *s, const double *chunks, int64_t count,
                             double *to);
/* Those of a chunk. */
ota_chunk_sums ota_backward_chunk(const ota_backward_space *s, int64_t chunk);
/* Chunks [first, first + count) of all chunk sums become 0. */
void ota_backward_clear_chunks(const ota_backward_space *s, int64_t first, int64_t count);

/* Memory that a coupled head of forward has and backward may use: forward forms what lies there anew. */
typedef struct ota_place_memory {
    double *matrix;  /* [rows][stride] f64, or NULL */
    double *plan;    /* [rows][stride] of solvers that find the plan itself, or NULL */
    void *workspace; /* the solver's */
    ota_far far;     /* vectors for it */
} ota_place_memory;

/* Some queries, and a line for each of [keys] numbers. */
typedef struct ota_pair_lines {
    const int64_t *queries;
    int64_t count, lane;
    double *scores, *upstream; /* [count][lane] */
} ota_pair_lines;

/* The passes of one head. All may use every thread of the pool; every sum has one order. */
typedef struct ota_gradient_passes {
    /* ---- memory and choice */
    /* How many head workers pay, at most one a thread; NULL: one. */
    int (*head_workers)(const ota_device *device);
    /* Scratch of `head_workers` head workers into own[head workers] (NULL while measuring). */
    void (*lay_out)(ota_device *device, ota_arena *arena, int head_workers,
                    struct ota_gradient_scratch **own);
    /* Inner dimensions where fixed rounds are reversed on their kernel; 0 or NULL: they are not. */
    int64_t (*kernel_width)(const ota_device *device);
    ota_place_memory (*memory)(const ota_device *device, int64_t place);
    const char *(*describe)(const ota_device *device); /* NULL, or in a few words, or NULL */

    /* ---- rows alone in one go: softmax in tiles, where only gradients of queries, keys, values and masses are
       wanted; NULL: never */
    bool (*tiles_fit)(const ota_backward_job *job);
    ota_status (*run_tiles)(ota_backward_job *job);
    /* The same for a head of coupled columns whose potentials and multipliers are found: the gradients of its queries
       written, those of keys and values added to the sums. */
    void (*run_coupled_tiles)(ota_backward_job *job);

    /* ---- one head */
    void (*pack_head)(ota_backward_job *job);                  /* keys and values */
    bool (*has_nonfinite_values)(const ota_backward_job *job); /* some value is not finite */
    /* Prefix: rows of the kept plan with weight on such a value become bad; NULL: `write` finds them. */
    void (*mark_nonfinite_rows)(ota_backward_job *job);
    void (*load_bias)(ota_backward_job *job); /* space->g in the type of the head */
    /* Everything the caller wants of the head, from potentials and multipliers. */
    void (*write)(ota_backward_job *job);
    /* Sums of the gradients of keys and values of the key head into the caller's arrays. */
    void (*put_keys)(ota_backward_job *job);
    /* f, top and `bad` of every row at the potentials in g; NULL: `write` finds them. */
    void (*mark_top)(ota_backward_job *job);

    /* ---- rows in order: where each key's capacity ran out, then multipliers in reverse */
    void (*reverse_online)(ota_backward_job *job);

    /* ---- coupled: slopes w into space->matrix, sums of w, w U and P into space->chunks by keys, and of adjoint den, row_right
       and row_sums by queries */
    void (*slopes)(ota_backward_job *job);
    /* Transposed: the right side by queries, once den and row_right by keys are known. */
    void (*transposed_right)(ota_backward_job *job);
    /* Relaxed rows answer to U with less than their mean: moves adjoint.right; returns `scale` and what that adds to its absolute
       terms. NULL: the right side has been formed with what they answer. */
    double (*recentre)(ota_backward_job *job, double scale);
    /* Scores and dL/dP of some queries in f64. */
    void (*load_pairs)(ota_backward_job *job, const ota_pair_lines *to);
    /* Scores and dL/dP in f64 in the solver's orientation, into matrix and gradient. */
    void (*widen)(ota_backward_job *job);

    /* ---- fixed rounds on their kernel; NULL where kernel_width is 0, as is has_nonfinite_values */
    void (*kernel_form)(ota_backward_job *job); /* K and the first row update */
    void (*kernel_row_round)(
        ota_backward_job *job); /* one more: kernel.column_sums and kernel.lost */
    void (*kernel_reverse)(
        ota_backward_job *job); /* space->a, f: factors and x; kernel.column_sums: K^T x */
    void (*kernel_last)(
        ota_backward_job *job); /* what the last row update and P V leave of dL/df, dL/dg, dL/dmu */
    void (*kernel_column)(ota_backward_job *job, const double *from, double scale);
    void (*kernel_close)(
        ota_backward_job *job); /* values and B as inner dimensions; sums of values */
} ota_gradient_passes;

#endif
