/* Linear layers: y[n, out] = x[n, in] W^T + b, W stored [out, in], or [in, out] where it is input-major.
 *
 * Outputs are cut into blocks of fixed size, so that every thread count gives the same bits; workers
 * take blocks. Weights that are not f32 are decoded block by block. For a few rows each output is a dot
 * product, or a sum of rows of input-major weights, which are then read once and in order; for more a
 * block is one matrix product by OpenBLAS where that is found. */
#include "session.h"

#include <string.h>

/* Up to so many rows a matrix product costs more than its dot products. */
enum { FEW_ROWS = 3, BLOCK = 384, FEW_BLOCK = 64 };
/* Rows times inputs of one matrix product. */
enum { PIECE_LEAST = 64, PIECE_NUMBERS = 1 << 20 };

typedef struct job {
    ota_session *session;
    const ota_weight *weight;
    const float *bias;
    const float *x;
    float *y;
    int64_t x_stride, y_stride, n, inputs, outputs, block;
} job;

/* y[n, count] += x[n, in] w^T, w [count, in] or, input-major, [in, count] with rows `stride` apart, of rows from `row` on. */
static void multiply_rows(const job *j, const float *w, int64_t stride, int64_t first,
                          int64_t count, int64_t row_first, int64_t n) {
    float *y = j->y + first;
    const ota_blas_sgemm sgemm = j->session->blas.sgemm;
    if (sgemm != NULL) {
        sgemm(OTA_BLAS_ROW_MAJOR, OTA_BLAS_AS_IT_IS,
              j->weight->input_major ? OTA_BLAS_AS_IT_IS : OTA_BLAS_TRANSPOSED, (int)n, (int)count,
              (int)j->inputs, 1.0F, j->x + row_first * j->x_stride, (int)j->x_stride, w,
              (int)stride, 1.0F, y + row_first * j->y_stride, (int)j->y_stride);
        return;
    }
    for (int64_t i = row_first; i < row_first + n; i++) {
        const float *x = j->x + i * j->x_stride;
        float *row = y + i * j->y_stride;
        if (!j->weight->input_major)
            for (int64_t o = 0; o < count; o++)
                row[o] += j->session->ops->dot(x, w + o * stride, j->inputs);
        else
            for (int64_t k = 0; k < j->inputs; k++)
                for (int64_t o = 0; o < count; o++) row[o] += x[k] * w[k * stride + o];
    }
}

/* In pieces of rows that take some hundredths of a second, between which the session's flag is looked at. */
static void multiply(const job *j, const float *w, int64_t stride, int64_t first, int64_t count) {
    const int64_t piece = ota_int_max(PIECE_LEAST, PIECE_NUMBERS / ota_int_max(j->inputs, 1));
    for (int64_t i = 0; i < j->n; i += piece) {
        if (ota_session_interrupted(j->session) != OTA_OK) return;
        multiply_rows(j, w, stride, first, count, i, ota_int_min(piece, j->n - i));
    }
}

static void start_block(const job *j, int64_t first, int64_t count) {
    for (int64_t i = 0; i < j->n; i++) {
        float *row = j->y + i * j->y_stride + first;
        if (j->bias != NULL)
            memcpy(row, j->bias + first, (size_t)count * sizeof *row);
        else
            memset(row, 0, (size_t)count * sizeof *row);
    }
}

static const unsigned char *row_at(const ota_weight *w, int64_t row) {
    return w->data + row * (w->columns / w->type->block * w->type->bytes);
}

/* The block's weights as f32: in place, or decoded into the worker's panel. */
static const float *block_weights(const job *j, int64_t first, int64_t count, int worker,
                                  int64_t *stride) {
    const ota_weight *w = j->weight;
    *stride = w->columns;
    if (w->values != NULL) return w->values + (w->input_major ? first : first * w->columns);
    float *panel = j->session->buffers.panels + worker * j->session->buffers.panel;
    if (!w->input_major) {
        ota_decode_rows(j->session->ops, w, first, count, panel);
        return panel;
    }
    void (*decode)(const unsigned char *, float *, int64_t) =
        j->session->ops->decode[ota_element_index(w->type)];
    *stride = count;
    for (int64_t k = 0; k < w->rows; k++)
        decode(row_at(w, k) + first * w->type->bytes, panel + k * count, count);
    return panel;
}

static void run_block(void *context, int64_t index, int worker) {
    const job *j = context;
    const int64_t first = index * j->block;
    const int64_t count = ota_int_min(j->outputs - first, j->block);
    int64_t stride;
    start_block(j, first, count);
    const float *w = block_weights(j, first, count, worker, &stride);
    multiply(j, w, stride, first, count);
}

/* A row of weights is decoded when its dot products are due, so that it stays in the first cache. */
static void run_few(void *context, int64_t index, int worker) {
    const job *j = context;
    const ota_weight *w = j->weight;
    const ota_ops *ops = j->session->ops;
    float *panel = j->session->buffers.panels + worker * j->session->buffers.panel;
    const int64_t first = index * j->block;
    const int64_t last = ota_int_min(first + j->block, j->outputs);
    for (int64_t o = first; o < last; o++) {
        const float *row = panel;
        if (w->values != NULL)
            row = w->values + o * w->columns;
        else
            ota_decode_rows(ops, w, o, 1, panel);
        for (int64_t i = 0; i < j->n; i++)
            j->y[i * j->y_stride + o] = ops->dot(j->x + i * j->x_stride, row, j->inputs) +
                                        (j->bias != NULL ? j->bias[o] : 0.0F);
    }
}

/* OTA_TERMS rows of input-major weights from row k on, `count` columns; zeros behind the last row. */
static void rows_from(const job *j, int64_t k, int64_t first, int64_t count, float *panel,
                      const float *rows[OTA_TERMS]) {
    const ota_weight *w = j->weight;
    for (int64_t t = 0; t < OTA_TERMS; t++) {
        float *own = panel + t * count;
        rows[t] = own;
        if (k + t >= j->inputs)
            memset(own, 0, (size_t)count * sizeof *own);
        else if (w->values != NULL)
            rows[t] = w->values + (k + t) * w->columns + first;
        else
            j->session->ops->decode[ota_element_index(w->type)](
                row_at(w, k + t) + first * w->type->bytes, own, count);
    }
}

static void run_few_input_major(void *context, int64_t index, int worker) {
    const job *j = context;
    float *panel = j->session->buffers.panels + worker * j->session->buffers.panel;
    const int64_t first = index * j->block;
    const int64_t count = ota_int_min(j->outputs - first, j->block);
    start_block(j, first, count);
    for (int64_t k = 0; k < j->inputs; k += OTA_TERMS) {
        const float *rows[OTA_TERMS];
        rows_from(j, k, first, count, panel, rows);
        for (int64_t i = 0; i < j->n; i++) {
            float x[OTA_TERMS] = {0};
            for (int64_t t = 0; t < OTA_TERMS && k + t < j->inputs; t++)
                x[t] = j->x[i * j->x_stride + k + t];
            j->session->ops->combine(j->y + i * j->y_stride + first, rows, x, count);
        }
    }
}

/* The more columns a worker has, the longer the rows that it reads in order. An output is the same sum
 * whichever block it is in. */
static int64_t few_block(const job *j) {
    const int64_t share = ota_int_ceil_div(j->outputs, ota_pool_threads(j->session->pool));
    return ota_int_min(ota_int_round_up(share, FEW_BLOCK), j->session->buffers.panel / OTA_TERMS);
}

void ota_linear(ota_session *session, const ota_weight *weight, const ota_weight *bias,
                const float *x, int64_t x_stride, int64_t n, float *y, int64_t y_stride) {
    job j = {.session = session,
             .weight = weight,
             .bias = bias != NULL && ota_weight_present(bias) ? bias->values : NULL,
             .x = x,
             .y = y,
             .x_stride = x_stride,
             .y_stride = y_stride,
             .n = n,
             .inputs = weight->input_major ? weight->rows : weight->columns,
             .outputs = weight->input_major ? weight->columns : weight->rows};
    void (*body)(void *, int64_t, int) = run_block;
    j.block = weight->values != NULL ? BLOCK : OTA_PANEL_ROWS;
    if (n <= FEW_ROWS) {
        body = weight->input_major ? run_few_input_major : run_few;
        j.block = weight->input_major ? few_block(&j) : FEW_BLOCK;
    }
    ota_session_parallel(session, ota_int_ceil_div(j.outputs, j.block), body, &j);
}
