/* The inside of backward, shared by its files: what the plan reserves for it and one head at work.
 *
 * Whatever the method, the gradient of a pair is one formula of two vectors of potentials and two of
 * multipliers, so the passes that write outputs know no method:
 *
 *     P_ij = phi((S_ij + f_i + g_j) / tau)     dL/dS_ij = w_ij (U_ij - a_i - b_j) / tau,  w = P^(2 - alpha)
 *
 * online: only for i < shut_j; row shut_j gave key j the rest fill_j of its capacity, later rows nothing.
 * Fixed rounds and prefix keep dL/dS instead (`gradient`), prefix its P too. */
#ifndef OTA_BACKWARD_H
#define OTA_BACKWARD_H

#include "plan.h"
#include "solvers/adjoint.h"

enum { OTA_BACKWARD_PARTIALS = 4 };

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

/* Scratch of one worker, T = the plan's type; block = OTA_BLOCK_ROWS x strip stride. */
typedef struct ota_backward_worker {
    void *scores, *upstream, *weights, *raw; /* [block]; raw only with a softcap           */
    void *slope;                             /* [stride] w of a row                        */
    void *product;                           /* [OTA_KEY_TILE][max(width, values_width + 1)] */
    void *queries, *gradients;               /* [OTA_ROW_BLOCK][width], [..][values_width] */
    void *line;                              /* [stride]                                   */
} ota_backward_worker;

/* Fixed rounds on a stored kernel (backward_rounds.inc.h), which lies where forward has it; T = the plan's type. */
typedef struct ota_rounds_space {
    int64_t width; /* values_width and the extra inner dimensions; 0: not for this plan */
    void *rows;    /* [rows of a strip][width]: dL/dout and A */
    void *packed;  /* panels of width: values and B */
    double *sum;   /* [keys][values_width + 1] P^T (dL/dout, a) */
    ota_head head; /* of the head at work */
    ota_kernel_rounds now;
    int64_t at;   /* the round at work */
    bool carried; /* P and dL/dS of the head at work come from its kernel */
} ota_rounds_space;

/* What a strip of rows leaves for the keys (backward_outputs.inc.h), T = the plan's type. */
typedef struct ota_strip {
    int64_t rows, stride;     /* of every strip but the last; elements of a row */
    void *weights, *slopes;   /* [rows][stride] P, dL/d(raw products)           */
    int32_t *where;           /* [rows][stride], where rows may be lists        */
    int64_t *count;           /* [rows] length of the list, -1: all keys        */
    int64_t *low, *high;      /* [rows] keys outside these have no weight       */
    void *queries, *upstream; /* [rows][width], [rows][values_width]           */
} ota_strip;

/* dL/d of one term: sums in the shape of its array, chunk sums where queries share an entry. */
typedef struct ota_term_sum {
    double *sum;
    double *partial; /* [OTA_ADJOINT_CHUNKS][length], a chunk a block of the strip */
    int64_t length, count;
    bool direct; /* every pair has an entry of its own: written row by row */
} ota_term_sum;

/* What one walker works in: walkers go through different heads side by side (backward.c). Masses, tiles and the
 * scratch of threads are shared. */
typedef struct ota_backward_space {
    int walker;
    /* what became of its heads: the first that failed, and the worst residual */
    ota_status status;
    int64_t failed;
    double residual;
    int64_t widened;                        /* heads that f32 was refused */
    double *f, *top, *a;                    /* [queries] */
    bool *bad;                              /* [queries] not finite: NaN on the allowed pairs */
    double *g, *b, *fill;                   /* [stride] */
    int64_t *shut;                          /* [stride] */
    void *bias;                             /* [stride] T: g */
    double *row_sums;                       /* [queries][OTA_ROW_SUMS] */
    void *keys;                             /* [keys][width] T, entries that are not finite 0 */
    void *packed_values;                    /* values as packed panels */
    double *keys_sum, *values_sum;          /* [keys][width], [keys][values_width] */
    double *partial[OTA_BACKWARD_PARTIALS]; /* [OTA_ADJOINT_CHUNKS][lane] */
    int64_t lane;                           /* max(queries, keys) rounded up */
    ota_backward_worker *workers;
    ota_strip strip;
    void *advantage; /* [stride] T: b */
    ota_term_sum terms[OTA_MAX_TERMS];
    double *row_mass, *column_mass;     /* [batch * heads][queries], [..][keys] */
    double *temperature, *alibi, *sink; /* [heads] */
    double order, cap, strength, row_strength, softcap;
    /* coupled */
    double *matrix;   /* [dense_rows][dense_stride] f64: scores; slopes, of T where implicit */
    double *gradient; /* the same shape: dL/dP, then dL/dS                 */
    double *slopes;   /* the same shape, prefix only                       */
    double *dense[8]; /* vectors of lane                                   */
    double *vectors;  /* OTA_ADJOINT_VECTORS of lane                       */
    unsigned char *held;
    ota_step *steps;
    double *step_memory;
    ota_rounds_space rounds;
    struct ota_tile_space *tiles;       /* softmax on free or coupled columns, else NULL */
    struct ota_tangent_space *tangents; /* of ota_jvp */
} ota_backward_space;

/* One head at work. */
typedef struct ota_backward_job {
    ota_plan *plan;
    const ota_arrays *arrays;
    const ota_gradients *want;
    ota_backward_space *space;
    ota_slot *slot;
    ota_seat *seat; /* of its walker; NULL where the plan has none */
    ota_row_parameters law;
    ota_backward_mode mode;
    int64_t batch, head, key_head;
    bool biased;         /* g is not 0              */
    bool stored;         /* dL/dS lies in gradient  */
    bool sums;           /* row sums are wanted     */
    bool tiled;          /* outputs come from tiles */
    bool lists;          /* rows may be lists       */
    bool may_use_kernel; /* fixed rounds */
    bool wide;           /* T = double, for the head at work */
    bool begins_narrow;  /* T = float until a head is refused */
    bool refused;
    bool keep_sums; /* packing leaves the sums of earlier heads */
    int worker;     /* whose scratch is this thread's while no task runs */
    int64_t strip_first, strip_rows;
    double residual;
    uint32_t dropout_key[2];
} ota_backward_job;

/* backward.c: one run over all heads after the doors. */
ota_status ota_backward_run(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                            ota_result *found);

/* Sums of the chunks of partial[which], chunk after chunk, for `count` rows or keys. */
void ota_backward_add_chunks(const ota_backward_space *s, int which, int64_t count, double *to);

/* The semi-dual system of the head at work on the arrays of its space, but for what the column rule adds. */
ota_adjoint ota_backward_system(const ota_backward_job *job);

/* Columns of the solver that some row may use, as 0 or 1. A mask takes others away, or scores of -inf, for which
 * forward closes the potential. */
void ota_backward_find_used(const ota_backward_job *job, unsigned char *used);
/* backward_unrolled.c: mu, nu, rule and settings of the head at work, without scores; g is its start. */
ota_head ota_backward_head(const ota_backward_job *job);
/* nu from flags of reached keys to what the rounds aim at; mu, mass and flags of usable keys are known. */
void ota_backward_targets(const ota_backward_job *job, const ota_head *head, double *nu);
/* Fixed rounds as forward ran them on the scores in space->matrix, not yet replayed; masses and flags of usable
 * keys lie in the space. */
void ota_backward_rounds(ota_backward_job *job, ota_head *head, ota_unrolled *rounds);

/* backward_tiles.c: softmax in tiles, where only gradients of queries, keys, values and masses are wanted. */
struct ota_tile_space *ota_tiles_lay_out(ota_plan *plan);
bool ota_tiles_fit(const ota_plan *plan, const ota_gradients *want);
ota_status ota_tiles_run(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want);
/* The same for a head of coupled columns whose potentials and multipliers are found: the gradients of its queries
 * written, those of keys and values added to the sums. */
void ota_tiles_run_coupled(const ota_backward_job *job);

/* backward_layout.c: reserves the workspace (measuring or placed). */
void ota_backward_lay_out(ota_plan *plan);
/* How many walkers a plan has that its workspace limit allows them. */
int ota_backward_walkers(const ota_plan *plan);
ota_backward_mode ota_backward_mode_of(const ota_plan *plan);
/* May some pair be forbidden? */
static inline bool ota_backward_is_masked(const ota_plan *plan) {
    return plan->resolved.row_terms || plan->resolved.support_count > 0;
}
/* How, in a few words for describe. */
const char *ota_backward_describe(const ota_plan *plan);

/* backward_check.c: the door. `full` becomes a full-size copy. */
ota_status ota_gradients_check(const ota_plan *plan, const ota_arrays *arrays,
                               const ota_gradients *given, ota_gradients *full, ota_error *error);
/* Array `field` of gradients or tangents (`noun`): whether it exists and has the shape of `gradient`, its type
 * and strides. */
ota_status ota_check_of_field(const ota_plan *plan, const ota_arrays *arrays, const ota_array *a,
                              const char *noun, const char *field, const char *gradient, bool input,
                              ota_error *error);
/* Likewise of sorted term t (the sink: t = term_count). */
ota_status ota_check_of_term(const ota_plan *plan, const ota_array *a, const char *noun, int t,
                             bool input, ota_error *error);
/* The field of the problem or of forward's arrays that `out` overlaps, or NULL. */
const char *ota_overlapped_input(const ota_plan *plan, const ota_arrays *arrays,
                                 const ota_array *out);
/* What the implicit way reads of forward's outputs. */
ota_status ota_check_potentials(const ota_plan *plan, const ota_arrays *arrays, ota_error *error);
/* Quiet NaN into an array, if it is present. */
void ota_poison(const ota_array *a);
/* Quiet NaN into every gradient that is wanted. */
void ota_gradients_poison(const ota_plan *plan, const ota_gradients *want);
/* The array that takes the gradient of sorted term t (the sink: t = term_count); NULL: none. */
const ota_array *ota_gradient_of_term(const ota_resolved *r, const ota_gradients *want, int t);

/* backward_sums.c: shared gradients. */
void ota_sums_clear(ota_plan *plan);
/* After the rows of a head: chunk and row sums in order. */
void ota_sums_of_head(const ota_backward_job *job);
/* Rounds everything shared into the caller's arrays. */
void ota_sums_write(ota_plan *plan, const ota_gradients *want);
/* Slice of a term's sums that belongs to this head. */
double *ota_term_slice(const ota_backward_job *job, int t);

/* backward_masses.c: what the multipliers say about masses, caps and strengths, in the orientation of
 * the solver; a [rows], b [columns]. */
typedef struct ota_mass_rule {
    const double *a, *b, *f, *g;
    const double *row_sum, *column_sum; /* r and c of the plan */
    const unsigned char *used;          /* [columns] some row may use the key */
    bool finished; /* a, b are already derivatives by mu and the target (fixed rounds) */
} ota_mass_rule;
void ota_sums_of_masses(const ota_backward_job *job, const ota_mass_rule *rule);

/* backward_prefix.c: dL/dS of all leading blocks into space->gradient, P stays in the seat's plan. */
ota_status ota_backward_prefix(ota_backward_job *job);

/* Vectors of one block's system, as in solver/adjoint.h. */
typedef struct ota_block_parts {
    double *mu, *nu, *den, *right_of_rows, *right, *extra, *f, *upstream;
} ota_block_parts;
/* One leading block, solved unless its last row is without mass. */
typedef ota_status ota_block_visit(ota_backward_job *job, const ota_head *block,
                                   const ota_block_parts *v);
/* Solves every leading block of the scores in space->matrix. */
ota_status ota_prefix_walk(ota_backward_job *job, ota_block_visit *visit);
/* The block's system with slopes in space->slopes; a and b into the space. */
ota_status ota_prefix_system(ota_backward_job *job, const ota_head *block, const ota_block_parts *v,
                             double scale);

#endif
