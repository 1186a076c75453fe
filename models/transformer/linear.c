/* Linear layers: y[n, out] = x[n, in] W^T + b, W stored [out, in], or [in, out] where it is input-major; one, or several side by side.
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
    const ota_product *product;
    const float *bias; /* NULL: none */
    int64_t inputs, outputs;
} job;

/* y[n, count] += x[n, in] w^T, w [count, in] or, input-major, [in, count] with rows `stride` apart, of rows from `row` on. */
static void multiply_rows(const job *j, const float *w, int64_t stride, int64_t first,
                          int64_t count, int64_t row_first, int64_t n) {
    float *y = j->product->y + first;
    const ota_blas_sgemm sgemm = j->session->blas.sgemm;
    if (sgemm != NULL) {
        sgemm(OTA_BLAS_ROW_MAJOR, OTA_BLAS_AS_IT_IS,
              j->product->weight->input_major ? OTA_BLAS_AS_IT_IS : OTA_BLAS_TRANSPOSED, (int)n,
              (int)count, (int)j->inputs, 1.0F, j->product->x + row_first * j->product->x_stride,
              (int)j->product->x_stride, w, (int)stride, 1.0F, y + row_first * j->product->y_stride,
              (int)j->product->y_stride);
        return;
    }
    for (int64_t i = row_first; i < row_first + n; i++) {
        const float *x = j->product->x + i * j->product->x_stride;
        float *row = y + i * j->product->y_stride;
        if (!j->product->weight->input_major)
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
    for (int64_t i = 0; i < j->product->n; i += piece) {
        if (ota_session_interrupted(j->session) != OTA_OK) return;
        multiply_rows(j, w, stride, first, count, i, ota_int_min(piece, j->product->n - i));
    }
}

static void start_block(const job *j, int64_t first, int64_t count) {
    for (int64_t i = 0; i < j->product->n; i++) {
        float *row = j->product->y + i * j->product->y_stride + first;
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
    const ota_weight *w = j->product->weight;
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

static void run_block(const job *j, int64_t first, int64_t count, int worker) {
    int64_t stride;
    start_block(j, first, count);
    const float *w = block_weights(j, first, count, worker, &stride);
    multiply(j, w, stride, first, count);
}

/* A row of weights is decoded when its dot products are due, so that it stays in the first cache. */
static void run_few(const job *j, int64_t first, int64_t count, int worker) {
    const ota_product *p = j->product;
    const ota_weight *w = p->weight;
    const ota_ops *ops = j->session->ops;
    float *panel = j->session->buffers.panels + worker * j->session->buffers.panel;
    for (int64_t o = first; o < first + count; o++) {
        const float *row = panel;
        if (w->values != NULL)
            row = w->values + o * w->columns;
        else
            ota_decode_rows(ops, w, o, 1, panel);
        for (int64_t i = 0; i < p->n; i++)
            p->y[i * p->y_stride + o] = ops->dot(p->x + i * p->x_stride, row, j->inputs) +
                                        (j->bias != NULL ? j->bias[o] : 0.0F);
    }
}

/* OTA_TERMS rows of input-major weights from row k on, `count` columns; zeros behind the last row. */
static void rows_from(const job *j, int64_t k, int64_t first, int64_t count, float *panel,
                      const float *rows[OTA_TERMS]) {
    const ota_weight *w = j->product->weight;
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

static void run_few_input_major(const job *j, int64_t first, int64_t count, int worker) {
    const ota_product *p = j->product;
    float *panel = j->session->buffers.panels + worker * j->session->buffers.panel;
    start_block(j, first, count);
    for (int64_t k = 0; k < j->inputs; k += OTA_TERMS) {
        const float *rows[OTA_TERMS];
        rows_from(j, k, first, count, panel, rows);
        for (int64_t i = 0; i < p->n; i++) {
            float x[OTA_TERMS] = {0};
            for (int64_t t = 0; t < OTA_TERMS && k + t < j->inputs; t++)
                x[t] = p->x[i * p->x_stride + k + t];
            j->session->ops->combine(p->y + i * p->y_stride + first, rows, x, count);
        }
    }
}

static int64_t outputs_of(const ota_weight *weight) {
    return weight->input_major ? weight->columns : weight->rows;
}

/* The more columns a worker has, the longer the rows that it reads in order. An output is the same sum
 * whichever block it is in. */
static int64_t block_of(const ota_session *s, const ota_product *p) {
    if (p->n > FEW_ROWS) return p->weight->values != NULL ? BLOCK : OTA_PANEL_ROWS;
    if (!p->weight->input_major) return FEW_BLOCK;
    const int64_t share = ota_int_ceil_div(outputs_of(p->weight), ota_pool_threads(s->pool));
    return ota_int_min(ota_int_round_up(share, FEW_BLOCK), s->buffers.panel / OTA_TERMS);
}

typedef struct product_set {
    ota_session *session;
    const ota_product *products;
    int64_t count;
} product_set;

/* The last product whose first task is not behind this one. */
static const ota_product *product_at(const product_set *set, int64_t task) {
    int64_t low = 0, high = set->count;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (set->products[middle].task <= task)
            low = middle;
        else
            high = middle;
    }
    return &set->products[low];
}

static void run_task(void *context, int64_t task, int worker) {
    const product_set *set = context;
    const ota_product *p = product_at(set, task);
    const ota_weight *w = p->weight;
    const job j = {.session = set->session,
                   .product = p,
                   .bias = p->bias != NULL && ota_weight_present(p->bias) ? p->bias->values : NULL,
                   .inputs = w->input_major ? w->rows : w->columns,
                   .outputs = outputs_of(w)};
    const int64_t block = block_of(set->session, p), first = (task - p->task) * block;
    const int64_t count = ota_int_min(block, j.outputs - first);
    if (p->n > FEW_ROWS)
        run_block(&j, first, count, worker);
    else if (w->input_major)
        run_few_input_major(&j, first, count, worker);
    else
        run_few(&j, first, count, worker);
}

void ota_linears(ota_session *session, ota_product *products, int64_t count) {
    const product_set set = {session, products, count};
    int64_t tasks = 0;
    for (int64_t k = 0; k < count; k++) {
        products[k].task = tasks;
        tasks += ota_int_ceil_div(outputs_of(products[k].weight), block_of(session, &products[k]));
    }
    ota_session_parallel(session, tasks, run_task, (void *)&set);
}

void ota_linear(ota_session *session, const ota_weight *weight, const ota_weight *bias,
                const float *x, int64_t x_stride, int64_t n, float *y, int64_t y_stride) {
    ota_product one = {.weight = weight,
                       .bias = bias,
                       .x = x,
                       .x_stride = x_stride,
                       .n = n,
                       .y = y,
                       .y_stride = y_stride};
    ota_linears(session, &one, 1);
}
