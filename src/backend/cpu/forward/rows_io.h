/* rows_io.h: how every strategy of forward gets the scores of rows and gives back what their weights are wanted for;
 * bodies in score_rows.c and finish_rows.c. */
#ifndef OTA_CPU_ROWS_IO_H
#define OTA_CPU_ROWS_IO_H

#include "backend/cpu/finite.h"
#include <math.h>

#include "forward.h"

static inline bool readable(const ota_array *a) {
    return a->type == REAL_TYPE && (a->stride[3] == 1 || a->size[3] <= 1);
}

/* -inf outside keys [begin, end) of a row of `stride` elements. */
static inline void shut_outside(real *row, int64_t begin, int64_t end, int64_t stride) {
    for (int64_t j = 0; j < begin; j++) row[j] = (real)-INFINITY;
    for (int64_t j = end; j < stride; j++) row[j] = (real)-INFINITY;
}

/* Rows [first, first + rows) of one head, for one worker. rows <= OTA_ROW_BLOCK. */
typedef struct row_block {
    cpu_run *w;
    const ota_packed_kv *packed;
    ota_worker *worker;
    int64_t batch, head, first, rows;
} row_block;

static inline int64_t key_head_of(const row_block *b) { return b->head / b->w->device->group; }

/* Rows [first, first + rows) of a coupled head. */
static inline row_block block_at(ota_head_place *place, ota_worker *worker, int64_t first,
                                 int64_t rows) {
    return (row_block){.w = &place->run,
                       .packed = place->packed,
                       .worker = worker,
                       .batch = place->batch,
                       .head = place->number,
                       .first = first,
                       .rows = rows};
}

/* What a chunk of a coupled head's rows comes to, from nothing on; *receiver: its sums by keys, NULL where nobody wants them. */
static inline ota_head_status *begin_chunk(const ota_head_place *place, int64_t chunk,
                                           double **receiver) {
    ota_cpu_device *device = place->run.device;
    const int64_t part = place->index * OTA_CHUNKS + chunk;
    *receiver = NULL;
    device->chunk_statuses[part] = (ota_head_status){0};
    if (ota_array_present(&place->run.arrays->receiver)) {
        *receiver = device->receivers + part * device->stride;
        for (int64_t j = 0; j < device->stride; j++) (*receiver)[j] = 0.0;
    }
    return &device->chunk_statuses[part];
}

#define strip_of WORD(ota_strip_of)
#define dot_keys WORD(ota_dot_keys)
#define pack_values WORD(ota_pack_values)
#define pack_kv WORD(ota_pack_slot)
#define raw_rows WORD(ota_raw_rows)
#define form_rows WORD(ota_form_rows)
#define pair_counts WORD(ota_pair_counts)
#define apply_rows WORD(ota_apply_rows)
#define coupling_in_place WORD(ota_coupling_in_place)
#define list_row WORD(ota_list_row)
#define put_row WORD(ota_put_row)
#define finish_rows WORD(ota_finish_rows)
#define row_parameters WORD(ota_row_parameters)
#define decode_pieces WORD(ota_decode_pieces)
#define decode_join WORD(ota_decode_join)

/* Rows [first, first + count) of keys or values: in place where kernels can read them, else in `strip`. */
const real *strip_of(const ota_array *a, int64_t batch, int64_t head, int64_t first, int64_t count,
                     real *strip, int64_t *ld);
/* Raw scores q.k of one query, query[width], against keys [low, high) -> to[0 ... high - low). */
void dot_keys(const cpu_run *w, ota_worker *worker, int64_t batch, int64_t key_head,
              const real *query, int64_t low, int64_t high, real *to);
/* Values of one key head; those that are not finite are listed and become 0. */
void pack_values(const cpu_run *w, ota_packed_kv *packed, int64_t batch, int64_t key_head);
/* Keys and values of one key head. */
void pack_kv(cpu_run *w, ota_packed_kv *packed, int64_t batch, int64_t key_head);
/* What scores are made of, q.k or entries of the matrix, into to[row][stride], and the keys [begin, end) of each row;
 * nothing is promised elsewhere. */
void raw_rows(const row_block *b, int64_t *begin, int64_t *end, real *to, int64_t stride);
/* Scores S into to[row][stride]; -inf outside the support and in the padding up to device->stride. */
void form_rows(const row_block *b, real *to, int64_t stride);
/* May the pair have weight? A term of -inf forbids it whatever the product of query and key is. */
bool pair_counts(const ota_cpu_device *device, int64_t batch, int64_t head, int64_t query,
                 int64_t key);

/* out[rows][values_width] += p V over keys [low, high); p[rows][stride] begins at key `low`. */
void apply_rows(const row_block *b, int64_t low, int64_t high, const real *p, int64_t stride,
                int64_t rows, real *out);
/* The caller's coupling from row `first` on where weights can be made as it lies; else NULL. Without outputs, which
 * spend the weights that they are made of. */
real *coupling_in_place(const cpu_run *w, int64_t batch, int64_t head, int64_t first);
/* An entmax row as a list of keys, at column potentials h (NULL: 0); its output is formed from the list unless most keys
 * are on it, and the whole row of weights, which may lie where the scores do, where someone reads it. */
typedef struct listed_row {
    const real *s, *h;
    int64_t query;
    int64_t begin, end; /* keys that may have weight */
    double mu;
    real *weights, *out;
} listed_row;
void list_row(const row_block *b, const ota_row_parameters *parameters, const listed_row *row,
              ota_row_found *found);
void put_row(const cpu_run *w, int64_t batch, int64_t head, int64_t query,
             const ota_row_found *found);
/* Everything the caller wants from finished weights p[rows][stride], which are the function's to spend. `with_out` is
 * false when the fused kernel has made `out` already; `receiver` may be NULL. */
void finish_rows(const row_block *b, real *p, int64_t stride, const ota_row_found *found,
                 const double *mu, bool with_out, ota_head_status *status, double *receiver);
ota_row_parameters row_parameters(const ota_cpu_device *device, int64_t batch, int64_t head);

/* decode_rows.c: softmax of few queries. All pieces of the keys of a wave; then the pieces of every query joined. */
void decode_pieces(cpu_run *w);
void decode_join(cpu_run *w, int64_t parts);
#endif
