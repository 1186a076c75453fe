/* Latent attention: queries, keys and values from fewer numbers than they have.
 *
 *     a = norm(A x);   q = B a, head by head plain | rotated         or q = W x
 *     c | r = C x;     k, v = D norm(c), head by head                 k of every head followed by r, which is then rotated
 *
 * What is written is what other attention has, merged [rows, q | k | v], so all behind it is the same; the cache holds keys and
 * values, not c and r. */
#include "session.h"

#include <string.h>

enum { ROWS_PER_TASK = 8 };

typedef struct latent_job {
    ota_session *session;
    int64_t rows;
} latent_job;

/* [plain | value] of every head, and the numbers that all share, to k | v. */
static void part_expanded(void *context, int64_t index, int worker) {
    const latent_job *j = context;
    const ota_session *s = j->session;
    const ota_config *config = &s->model->config;
    const int64_t plain = config->latent.plain, value = config->value_width;
    const int64_t rotated = config->rotary_width, width = config->head_width;
    const int64_t last = ota_int_min((index + 1) * ROWS_PER_TASK, j->rows);
    const size_t plain_bytes = (size_t)plain * sizeof(float);
    (void)worker;
    for (int64_t i = index * ROWS_PER_TASK; i < last; i++) {
        const float *from = s->buffers.expanded + i * config->sizes[OTA_SIZE_EXPANDED];
        const float *shared = s->buffers.latent + i * config->sizes[OTA_SIZE_LATENT] +
                              config->sizes[OTA_SIZE_KEY_RANK];
        float *keys =
            s->buffers.merged + i * config->sizes[OTA_SIZE_MERGED] + config->sizes[OTA_SIZE_QUERY];
        float *values = keys + config->sizes[OTA_SIZE_KEY];
        for (int64_t head = 0; head < config->heads; head++) {
            const float *one = from + head * (plain + value);
            memcpy(keys + head * width, one, plain_bytes);
            memcpy(keys + head * width + plain, shared, (size_t)rotated * sizeof *keys);
            memcpy(values + head * value, one + plain, (size_t)value * sizeof *values);
        }
    }
}

/* The first numbers of rows of buffers.latent, `stride` apart, normed and captured. */
static ota_status norm_latent(ota_session *s, int64_t layer, ota_role role, ota_point point,
                              int64_t stride) {
    const ota_norm norm = {.weight = &s->model->blocks[layer].weights[role],
                           .epsilon = s->model->config.latent.epsilon,
                           .from = s->buffers.latent,
                           .to = s->buffers.latent,
                           .rows = s->run.now->batch * s->run.now->count,
                           .stride = stride,
                           .vectors = 1};
    return ota_session_norm_at(s, point, layer, &norm);
}

/* A head's matrix [rows, columns] of those of all. */
static ota_weight head_of(const ota_weight *all, int64_t head, int64_t rows, int64_t columns) {
    ota_weight one = *all;
    one.rows = rows;
    one.columns = columns;
    one.data += head * (all->columns / all->type->block * all->type->bytes);
    if (one.values != NULL) one.values += head * all->columns;
    return one;
}

/* Where keys and values have matrices apart, those of keys [in, out]. */
static void expand_heads(ota_session *s, const ota_weight *w, int64_t rows) {
    enum { HEADS = 16 };
    const ota_config *config = &s->model->config;
    const int64_t rank = config->sizes[OTA_SIZE_KEY_RANK], plain = config->latent.plain;
    const int64_t value = config->value_width;
    for (int64_t first = 0; first < config->heads; first += HEADS) {
        ota_weight matrices[2 * HEADS];
        ota_product products[2 * HEADS];
        const int64_t count = 2 * ota_int_min(HEADS, config->heads - first);
        for (int64_t k = 0; k < count; k++) {
            const int64_t head = first + k / 2;
            const bool keys = k % 2 == 0;
            matrices[k] = keys ? head_of(&w[OTA_EXPAND_KEY], head, rank, plain)
                               : head_of(&w[OTA_EXPAND_VALUE], head, value, rank);
            matrices[k].input_major = keys;
            products[k] = (ota_product){.weight = &matrices[k],
                                        .x = s->buffers.latent,
                                        .x_stride = config->sizes[OTA_SIZE_LATENT],
                                        .n = rows,
                                        .y = s->buffers.expanded + head * (plain + value) +
                                             (keys ? 0 : plain),
                                        .y_stride = config->sizes[OTA_SIZE_EXPANDED]};
        }
        ota_linears(s, products, count);
    }
}

ota_status ota_session_project_latent(ota_session *s, int64_t layer, const float *h, int64_t rows) {
    const int64_t *size = s->model->config.sizes;
    const ota_weight *w = s->model->blocks[layer].weights;
    const int64_t width = size[OTA_SIZE_WIDTH], stride = size[OTA_SIZE_MERGED];
    const int64_t rank = size[OTA_SIZE_QUERY_RANK], latent = size[OTA_SIZE_LATENT];
    ota_status status = OTA_OK;
    if (rank > 0) {
        ota_linear(s, &w[OTA_QUERY_DOWN], &w[OTA_QUERY_DOWN_BIAS], h, width, rows,
                   s->buffers.latent, rank);
        status = norm_latent(s, layer, OTA_QUERY_DOWN_NORM, OTA_POINT_SCALE_QUERY_LATENT, rank);
        ota_linear(s, &w[OTA_QUERY], NULL, s->buffers.latent, rank, rows, s->buffers.merged,
                   stride);
    } else {
        ota_linear(s, &w[OTA_QUERY], NULL, h, width, rows, s->buffers.merged, stride);
    }
    if (status != OTA_OK) return status;
    ota_linear(s, &w[OTA_LATENT], &w[OTA_LATENT_BIAS], h, width, rows, s->buffers.latent, latent);
    status = norm_latent(s, layer, OTA_LATENT_NORM, OTA_POINT_SCALE_KEY_LATENT, latent);
    if (status != OTA_OK) return status;
    if (ota_weight_present(&w[OTA_EXPAND]))
        ota_linear(s, &w[OTA_EXPAND], NULL, s->buffers.latent, latent, rows, s->buffers.expanded,
                   size[OTA_SIZE_EXPANDED]);
    else
        expand_heads(s, w, rows);
    latent_job j = {.session = s, .rows = rows};
    ota_session_parallel(s, ota_int_ceil_div(rows, ROWS_PER_TASK), part_expanded, &j);
    return OTA_OK;
}
