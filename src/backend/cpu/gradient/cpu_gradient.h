/* gradient.h: what the passes of backward work in on the CPU, and the functions that its bodies share, in one type each.
 *
 *     gradient_pairs.c    a block of rows against all keys, or a tile of them: scores, U = dL/dP, P and dL/dS
 *     outputs.c           what the caller gets, in strips of rows
 *     coupled_gradient.c  what rows need of each other: online rows, slopes of the implicit system
 *     gradient_rounds.c   fixed rounds on their stored kernel
 *     tile_gradient.c     softmax in tiles, nothing of size queries x keys
 *
 * May call: backend/cpu/ and its kernels. */
#ifndef OTA_CPU_GRADIENT_H
#define OTA_CPU_GRADIENT_H

#include <math.h>

#include "backend/cpu/device.h"
#include "backend/gradient.h"
#include "regularisers/tsallis.h"

/* Scratch of one worker, T = the plan's type; block = OTA_BLOCK_ROWS x strip stride. */
typedef struct ota_backward_worker {
    void *scores, *upstream, *weights, *raw; /* [block]; raw only with a softcap           */
    void *slope;                             /* [stride] w of a row                        */
    void *product;                           /* [OTA_KEY_TILE][max(width, values_width + 1)] */
    void *queries, *gradients;               /* [OTA_ROW_BLOCK][width], [..][values_width] */
    void *line;                              /* [stride]                                   */
    int32_t *where; /* [block] keys of the weights, where rows may be lists */
} ota_backward_worker;

/* What a strip of rows leaves for the keys (outputs.c), T = the plan's type. */
typedef struct ota_strip {
    int64_t rows, stride;     /* of every strip but the last; elements of a row */
    void *weights, *slopes;   /* [rows][stride] P, dL/d(raw products)           */
    int32_t *where;           /* [rows][stride], where rows may be lists        */
    int64_t *count;           /* [rows] length of the list, -1: all keys        */
    int64_t *full;            /* [rows] behind it, weights of keys at their caps */
    int64_t *low, *high;      /* [rows] keys outside these have no weight       */
    void *queries, *upstream; /* [rows][width], [rows][values_width]           */
} ota_strip;

/* What one head worker has of its own; tiles and the scratch of threads are shared. T = the plan's type. */
typedef struct ota_gradient_scratch {
    void *bias;                    /* [stride] T: g */
    void *advantage;               /* [stride] T: b */
    void *keys;                    /* [keys][width] T, entries that are not finite 0 */
    void *packed_values;           /* values as packed panels */
    double *keys_sum, *values_sum; /* [keys][width], [keys][values_width] */
    ota_backward_worker *workers;
    ota_strip strip;
    struct ota_tile_space *tiles; /* softmax on free or coupled columns, else NULL */
    /* fixed rounds on a stored kernel, which lies where forward has it */
    int64_t kernel_width;
    void *kernel_rows;   /* [rows of a strip][kernel_width]: dL/dout and A */
    void *kernel_packed; /* panels of kernel_width: values and B */
    double *kernel_sum;  /* [keys][values_width + 1] P^T (dL/dout, a) */
} ota_gradient_scratch;

static inline ota_packed_kv *packed_of(const ota_backward_job *job) {
    return &job->device->packed_heads[job->place];
}
static inline ota_head_workspace *workspace_of(const ota_backward_job *job) {
    return &job->device->workspaces[job->place];
}

/* P^power, power = 2 - alpha. */
static inline double slope_of(double p, double power) {
    if (!(power < 1.0) && !(power > 1.0)) return p;
    return power < 0.0 || power > 0.0 ? ota_tsallis_slope(p, 2.0 - power) : 1.0;
}

typedef void ota_gradient_task(void *context, int64_t index, int worker);

/* What a task loads one query of. */
typedef struct ota_pair_load {
    ota_backward_job *job;
    const ota_pair_lines *to;
} ota_pair_load;

/* The tasks of a type. */
typedef struct ota_gradient_tasks {
    void (*pack_head)(ota_backward_job *job);
    ota_gradient_task *rows, *keys, *slopes, *transposed, *widen, *top;
    ota_gradient_task *load_pairs; /* of an ota_pair_load */
    void (*replay_online)(ota_backward_job *job);
    void (*reverse_online)(ota_backward_job *job);
    void (*load_bias)(ota_backward_job *job);
    void (*load_advantage)(ota_backward_job *job);
    double (*recentre)(ota_backward_job *job, double scale);
    ota_gradient_task *form_kernel, *row_round, *reverse, *advantages, *last_keys;
    void (*load_kernel_column)(ota_backward_job *job, const double *from, double scale);
    void (*last_gradients)(ota_backward_job *job);
    void (*pack_dimensions)(ota_backward_job *job);
} ota_gradient_tasks;

extern const ota_gradient_tasks ota_gradient_tasks_f32, ota_gradient_tasks_f64;

/* tiles.c */
struct ota_tile_space *ota_tiles_lay_out(ota_cpu_device *device, ota_arena *arena,
                                         int head_workers);
bool ota_tiles_fit(const ota_backward_job *job);
ota_status ota_tiles_run(ota_backward_job *job);
void ota_tiles_run_coupled(ota_backward_job *job);

extern const ota_gradient_passes ota_cpu_gradient;

#endif
