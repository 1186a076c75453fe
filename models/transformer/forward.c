/* The forward pass: one loop over the layers for every architecture; what differs is in its table row.
 *
 *   pre-norm    x += O attention(W norm_1 x);   x += down act(up norm_2 x)
 *   parallel    x += O attention(W norm_1 x) + down act(up norm_2 x), or of norm_1 x where there is one norm
 *   post-norm   x = norm_1(x + O attention(W x));   x = norm_2(x + down act(up x))
 *   gated       down (act(gate h) * up h) in place of down act(up h)
 *   norms that not all have: in front; of each head of q and k, or of all; of what O and down give
 *   factors     of the embedding, of what O and down give
 *   elsewhere   W of latent attention (latent.c), down act(up x) of a mixture (mixture.c)
 *
 * x (buffers.residual), h (buffers.branch) [batch * count, width]; merged [batch * count, q | k | v]; inner [batch * count, inner]. */
#include "session.h"

#include "base/sized.h"

#include <string.h>

enum { ROWS_PER_TASK = 8 };

/* ---- rows in parallel ---- */

typedef struct rows_job {
    ota_session *session;
    ota_activation activation;
    const float *from;
    float *to;
    int64_t rows, width;
} rows_job;

static void run_rows(ota_session *s, int64_t rows, void (*body)(void *, int64_t, int),
                     void *context) {
    ota_session_parallel(s, ota_int_ceil_div(rows, ROWS_PER_TASK), body, context);
}

static int64_t last_row(const rows_job *j, int64_t index) {
    return ota_int_min((index + 1) * ROWS_PER_TASK, j->rows);
}

static void activate_rows(void *context, int64_t index, int worker) {
    const rows_job *j = context;
    const ota_ops *ops = j->session->ops;
    (void)worker;
    for (int64_t i = index * ROWS_PER_TASK; i < last_row(j, index); i++) {
        float *row = j->to + i * j->width;
        ops->activate(j->activation, row, j->width);
        if (j->from != NULL) ops->multiply(row, j->from + i * j->width, j->width);
    }
}

void ota_session_activate(ota_session *s, ota_activation activation, const float *factor, float *to,
                          int64_t rows, int64_t width) {
    rows_job j = {.session = s,
                  .activation = activation,
                  .from = factor,
                  .to = to,
                  .rows = rows,
                  .width = width};
    run_rows(s, rows, activate_rows, &j);
}

static void add_rows(void *context, int64_t index, int worker) {
    const rows_job *j = context;
    (void)worker;
    const int64_t first = index * ROWS_PER_TASK;
    j->session->ops->add(j->to + first * j->width, j->from + first * j->width,
                         (last_row(j, index) - first) * j->width);
}

void ota_session_add(ota_session *s, float *to, const float *from, int64_t rows, int64_t width) {
    rows_job j = {.session = s, .from = from, .to = to, .rows = rows, .width = width};
    run_rows(s, rows, add_rows, &j);
}

/* ---- attention ---- */

typedef struct rotation {
    const ota_session *session;
    const float *cosines, *sines; /* those of the layer */
    int64_t rows;
} rotation;

static void rotate_head(const rotation *r, float *x, int64_t position) {
    const ota_session *s = r->session;
    const int64_t half = s->model->config.rotary_width / 2;
    const float *cosine = r->cosines + position * half, *sine = r->sines + position * half;
    const bool interleaved = s->model->config.rope.interleaved;
    const int64_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : half;
    for (int64_t k = 0; k < half; k++) {
        float *pair = x + k * step;
        const float a = pair[0], b = pair[apart];
        pair[0] = a * cosine[k] - b * sine[k];
        pair[apart] = b * cosine[k] + a * sine[k];
    }
}

static void rotate_rows(void *context, int64_t index, int worker) {
    const rotation *r = context;
    const ota_session *s = r->session;
    const ota_config *config = &s->model->config;
    const int64_t stride = config->sizes[OTA_SIZE_MERGED];
    const int64_t last = ota_int_min((index + 1) * ROWS_PER_TASK, r->rows);
    (void)worker;
    /* Keys follow the queries, head by head. */
    for (int64_t i = index * ROWS_PER_TASK; i < last; i++) {
        float *row = s->buffers.merged + i * stride;
        for (int64_t head = 0; head < config->heads + config->kv_heads; head++)
            rotate_head(r, row + head * config->head_width + config->latent.plain,
                        s->run.now->first + i % s->run.now->count);
    }
}

static ota_status capture_merged(ota_session *s, int64_t layer, ota_point first, int parts) {
    const ota_config *config = &s->model->config;
    const int64_t stride = config->sizes[OTA_SIZE_MERGED], query = config->sizes[OTA_SIZE_QUERY],
                  key = config->sizes[OTA_SIZE_KEY];
    const int64_t columns[] = {0, query, query + key};
    ota_status status = OTA_OK;
    for (int k = 0; status == OTA_OK && k < parts; k++)
        status = ota_session_capture(s, (ota_point)((int)first + k), layer,
                                     s->buffers.merged + columns[k], stride);
    return status;
}

/* Rows of [key heads][its queries, key, value] become rows of q | k | v. */
static void part_rows(void *context, int64_t index, int worker) {
    const rows_job *j = context;
    const ota_config *config = &j->session->model->config;
    const int64_t d = config->head_width, group = config->heads / config->kv_heads;
    const int64_t query = config->sizes[OTA_SIZE_QUERY], key = config->sizes[OTA_SIZE_KEY];
    float *old = j->session->buffers.panels + worker * j->session->buffers.panel;
    for (int64_t i = index * ROWS_PER_TASK; i < last_row(j, index); i++) {
        float *row = j->to + i * j->width;
        memcpy(old, row, (size_t)j->width * sizeof *row);
        for (int64_t g = 0; g < config->kv_heads; g++) {
            const float *from = old + g * (group + 2) * d;
            memcpy(row + g * group * d, from, (size_t)(group * d) * sizeof *row);
            memcpy(row + query + g * d, from + group * d, (size_t)d * sizeof *row);
            memcpy(row + query + key + g * d, from + (group + 1) * d, (size_t)d * sizeof *row);
        }
    }
}

static ota_status project(ota_session *s, int64_t layer, const float *h, int64_t rows) {
    const int64_t *size = s->model->config.sizes;
    const ota_weight *w = s->model->blocks[layer].weights;
    const int64_t width = size[OTA_SIZE_WIDTH], stride = size[OTA_SIZE_MERGED];
    if (ota_weight_present(&w[OTA_LATENT])) return ota_session_project_latent(s, layer, h, rows);
    if (ota_weight_present(&w[OTA_MERGED])) {
        ota_linear(s, &w[OTA_MERGED], &w[OTA_MERGED_BIAS], h, width, rows, s->buffers.merged,
                   stride);
        rows_job j = {.session = s, .to = s->buffers.merged, .rows = rows, .width = stride};
        if (s->model->config.matrices.merged_by_group) run_rows(s, rows, part_rows, &j);
        return OTA_OK;
    }
    const int64_t value = size[OTA_SIZE_QUERY] + size[OTA_SIZE_KEY];
    ota_linear(s, &w[OTA_QUERY], &w[OTA_QUERY_BIAS], h, width, rows, s->buffers.merged, stride);
    ota_linear(s, &w[OTA_KEY], &w[OTA_KEY_BIAS], h, width, rows,
               s->buffers.merged + size[OTA_SIZE_QUERY], stride);
    ota_linear(s, &w[OTA_VALUE], &w[OTA_VALUE_BIAS], h, width, rows, s->buffers.merged + value,
               stride);
    return OTA_OK;
}

/* Every head of queries or keys by itself, or all of them as one row, as the norm's weights are. */
static ota_status norm_heads(ota_session *s, int64_t layer, ota_role role, ota_point scale,
                             int64_t rows) {
    const int64_t *size = s->model->config.sizes;
    const ota_weight *weight = &s->model->blocks[layer].weights[role];
    const bool keys = role == OTA_KEY_NORM;
    float *x = s->buffers.merged + (keys ? size[OTA_SIZE_QUERY] : 0);
    if (!ota_weight_present(weight)) return OTA_OK;
    const ota_norm norm = {.weight = weight,
                           .epsilon = s->model->config.norm_epsilon,
                           .from = x,
                           .to = x,
                           .rows = rows,
                           .stride = size[OTA_SIZE_MERGED],
                           .vectors = size[keys ? OTA_SIZE_KEY : OTA_SIZE_QUERY] / weight->columns};
    return ota_session_norm_at(s, scale, layer, &norm);
}

/* Where the layer's angles begin. */
static int64_t rotation_table(const ota_session *s, int64_t layer) {
    const ota_config *config = &s->model->config;
    const int64_t end = s->run.now->first + s->run.now->count;
    const bool other = ota_rope_is_long(config, end) ||
                       (config->rope.local_base > 0 && config->local.layers[layer]);
    return other ? s->rotations.positions * (config->rotary_width / 2) : 0;
}

/* Is there such a norm in front, or does the block take x as it is? */
static bool is_normed(const ota_session *s, int64_t layer, ota_role norm) {
    return !s->model->config.form.post_norm &&
           ota_weight_present(&s->model->blocks[layer].weights[norm]);
}

/* merged = q | k | v of the block's input, rotated; keys and values are in the cache. */
static ota_status make_keys(ota_session *s, int64_t layer, int64_t rows) {
    ota_status status = project(
        s, layer, is_normed(s, layer, OTA_NORM_1) ? s->buffers.branch : s->buffers.residual, rows);
    if (status == OTA_OK) status = capture_merged(s, layer, OTA_POINT_QUERY, 3);
    if (status == OTA_OK)
        status = norm_heads(s, layer, OTA_QUERY_NORM, OTA_POINT_SCALE_QUERY, rows);
    if (status == OTA_OK) status = norm_heads(s, layer, OTA_KEY_NORM, OTA_POINT_SCALE_KEY, rows);
    if (status == OTA_OK && ota_architecture_has(s->model->architecture, OTA_ARCH_ROTARY)) {
        const int64_t table = rotation_table(s, layer);
        ota_session_rotations(s, s->run.now->first, s->run.now->first + s->run.now->count);
        rotation r = {.session = s,
                      .cosines = s->rotations.cosines + table,
                      .sines = s->rotations.sines + table,
                      .rows = rows};
        if (!s->model->config.rope.spared[layer]) run_rows(s, rows, rotate_rows, &r);
        status = capture_merged(s, layer, OTA_POINT_ROTATED_QUERY, 2);
    }
    ota_session_cache_append(s, layer);
    return status;
}

static void scale_rows(void *context, int64_t index, int worker) {
    const rows_job *j = context;
    const float factor = (float)j->session->model->config.factors.branch;
    const int64_t first = index * ROWS_PER_TASK;
    (void)worker;
    for (int64_t k = first * j->width; k < last_row(j, index) * j->width; k++) j->to[k] *= factor;
}

/* h = factor * norm h, where the block has that norm and the model that factor; captured. */
static ota_status finish_branch(ota_session *s, int64_t layer, ota_role role, ota_point scale,
                                int64_t rows) {
    const ota_weight *weight = &s->model->blocks[layer].weights[role];
    const double factor = s->model->config.factors.branch;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    ota_status status = OTA_OK;
    if (ota_weight_present(weight)) {
        const ota_norm norm =
            ota_session_norm_of(s, weight, s->buffers.branch, s->buffers.branch, rows);
        status = ota_session_norm_at(s, scale, layer, &norm);
    }
    rows_job j = {.session = s, .to = s->buffers.branch, .rows = rows, .width = width};
    if (factor != 0 && factor != 1) run_rows(s, rows, scale_rows, &j);
    if (status != OTA_OK) return status;
    return ota_session_capture(s, (ota_point)((int)scale + 2), layer, s->buffers.branch, width);
}

/* h holds the block's input on entry, the attention's output on return. */
static ota_status attend(ota_session *s, int64_t layer, int64_t rows) {
    const ota_block *block = &s->model->blocks[layer];
    const ota_config *config = &s->model->config;
    const int64_t width = config->sizes[OTA_SIZE_WIDTH], mixed = config->sizes[OTA_SIZE_MIXED];
    ota_status status = make_keys(s, layer, rows);
    if (status == OTA_OK) status = ota_session_weights(s, layer);
    if (status == OTA_OK)
        status = ota_session_capture(s, OTA_POINT_MIXED, layer, s->buffers.mixed, mixed);
    if (status == OTA_OK) status = ota_session_capture_result(s, layer);
    if (status != OTA_OK) return status;
    if (ota_session_edits(s, OTA_POINT_RESULT, layer))
        ota_session_add_results(s, layer);
    else
        ota_linear(s, &block->weights[OTA_OUTPUT], &block->weights[OTA_OUTPUT_BIAS],
                   s->buffers.mixed, mixed, rows, s->buffers.branch, width);
    return finish_branch(s, layer, OTA_NORM_1_BEHIND, OTA_POINT_SCALE_1_BEHIND, rows);
}

/* ---- the rest of a block ---- */

/* `input` [rows, width] -> h */
static ota_status run_mixture(ota_session *s, int64_t layer, const float *input, int64_t rows) {
    const ota_status status = ota_session_mixture(s, layer, input, rows, s->buffers.branch);
    if (status != OTA_OK) return status;
    return finish_branch(s, layer, OTA_NORM_2_BEHIND, OTA_POINT_SCALE_2_BEHIND, rows);
}

static ota_status feed_forward(ota_session *s, int64_t layer, const float *input, int64_t rows) {
    const ota_weight *w = s->model->blocks[layer].weights;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t inner = ota_model_size(s->model, OTA_SIZE_INNER);
    const bool gated = s->model->config.matrices.gated;
    float *up = gated ? s->buffers.gate : s->buffers.inner;
    if (ota_weight_present(&w[OTA_ROUTER])) return run_mixture(s, layer, input, rows);
    ota_linear(s, &w[OTA_UP], &w[OTA_UP_BIAS], input, width, rows, up, inner);
    if (gated)
        ota_linear(s, &w[OTA_GATE], &w[OTA_GATE_BIAS], input, width, rows, s->buffers.inner, inner);
    ota_status status = ota_session_capture(s, OTA_POINT_MLP_PRE, layer, s->buffers.inner, inner);
    if (status == OTA_OK && gated)
        status = ota_session_capture(s, OTA_POINT_MLP_LINEAR, layer, up, inner);
    ota_session_activate(s, s->model->config.activation, gated ? up : NULL, s->buffers.inner, rows,
                         inner);
    if (status == OTA_OK)
        status = ota_session_capture(s, OTA_POINT_MLP_POST, layer, s->buffers.inner, inner);
    if (status != OTA_OK) return status;
    ota_linear(s, &w[OTA_DOWN], &w[OTA_DOWN_BIAS], s->buffers.inner, inner, rows, s->buffers.branch,
               width);
    return finish_branch(s, layer, OTA_NORM_2_BEHIND, OTA_POINT_SCALE_2_BEHIND, rows);
}

/* x += h, captured; post-norm: then normed, captured. */
static ota_status join(ota_session *s, int64_t layer, int64_t rows, ota_role norm, ota_point sum,
                       ota_point scale) {
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    float *x = s->buffers.residual;
    ota_session_add(s, x, s->buffers.branch, rows, width);
    const ota_status status = ota_session_capture(s, sum, layer, x, width);
    if (status != OTA_OK || !s->model->config.form.post_norm) return status;
    const ota_norm n = ota_session_norm_of(s, &s->model->blocks[layer].weights[norm], x, x, rows);
    return ota_session_norm_at(s, scale, layer, &n);
}

/* `to` = norm `from`, captured, where there is such a norm in front. */
static ota_status prepare(ota_session *s, int64_t layer, ota_role role, const float *from,
                          float *to) {
    const ota_point scale = role == OTA_NORM_1 ? OTA_POINT_SCALE_1 : OTA_POINT_SCALE_2;
    if (!is_normed(s, layer, role)) return OTA_OK;
    const ota_norm norm = ota_session_norm_of(s, &s->model->blocks[layer].weights[role], from, to,
                                              s->run.now->batch * s->run.now->count);
    return ota_session_norm_at(s, scale, layer, &norm);
}

/* What the MLP of a parallel block reads, or has normed when it is its turn, kept before anything is added to x. */
static void keep_beside(ota_session *s, int64_t layer, int64_t rows) {
    const size_t floats = (size_t)(rows * ota_model_size(s->model, OTA_SIZE_WIDTH));
    memcpy(s->buffers.beside,
           is_normed(s, layer, OTA_NORM_2) ? s->buffers.residual : s->buffers.branch,
           floats * sizeof *s->buffers.beside);
}

static ota_status run_block(ota_session *s, int64_t layer) {
    const int64_t rows = s->run.now->batch * s->run.now->count;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const bool parallel = s->model->config.form.parallel;
    float *x = s->buffers.residual;
    float *input = parallel ? s->buffers.beside : s->buffers.branch;
    ota_status status = ota_session_capture(s, OTA_POINT_RESID_PRE, layer, x, width);
    if (status == OTA_OK) status = prepare(s, layer, OTA_NORM_1, x, s->buffers.branch);
    if (status == OTA_OK && parallel) keep_beside(s, layer, rows);
    if (status == OTA_OK) status = attend(s, layer, rows);
    if (status == OTA_OK)
        status = join(s, layer, rows, OTA_NORM_1, OTA_POINT_RESID_MID, OTA_POINT_SCALE_MID);
    if (status == OTA_OK) status = prepare(s, layer, OTA_NORM_2, parallel ? input : x, input);
    if (!parallel && !is_normed(s, layer, OTA_NORM_2)) input = x;
    if (status == OTA_OK) status = feed_forward(s, layer, input, rows);
    if (status == OTA_OK)
        status = join(s, layer, rows, OTA_NORM_2, OTA_POINT_RESID_POST, OTA_POINT_SCALE_POST);
    return status;
}

/* Every token has stopped: the layer only makes what later tokens attend to. */
static ota_status pass_block(ota_session *s, int64_t layer) {
    const int64_t rows = s->run.now->batch * s->run.now->count;
    if (s->options.cache == 0) return OTA_OK;
    const ota_status status = prepare(s, layer, OTA_NORM_1, s->buffers.residual, s->buffers.branch);
    return status == OTA_OK ? make_keys(s, layer, rows) : status;
}

static ota_status run_blocks(ota_session *s) {
    const bool exits = ota_model_run_exits(s->run.now);
    ota_status status = OTA_OK;
    if (exits) status = ota_session_exits_begin(s);
    for (int64_t layer = s->run.now->start_layer;
         status == OTA_OK && layer < s->model->config.layers; layer++) {
        const bool stopped = exits && s->run.exits.running == 0;
        status = stopped ? pass_block(s, layer) : run_block(s, layer);
        if (status == OTA_OK && exits && !stopped) status = ota_session_exits_stop(s, layer);
        status = ota_session_end(s, status, s->run.error);
    }
    for (int64_t i = 0; status == OTA_OK && s->run.now->layers != NULL; i++) {
        if (i == s->run.now->batch * s->run.now->count) break;
        s->run.now->layers[i] = exits ? s->run.exits.layers[i] : s->model->config.layers;
    }
    return status;
}

/* ---- the whole ---- */

/* x of the first block of the run. */
static ota_status begin(ota_session *s) {
    const int64_t floats =
        s->run.now->batch * s->run.now->count * ota_model_size(s->model, OTA_SIZE_WIDTH);
    if (s->run.now->residual == NULL) return ota_session_embed(s);
    memcpy(s->buffers.residual, s->run.now->residual, (size_t)floats * sizeof *s->buffers.residual);
    return OTA_OK;
}

static ota_status check_tokens(const ota_session *s, const ota_model_run *run, ota_error *error) {
    const int64_t words = ota_model_size(s->model, OTA_SIZE_VOCABULARY);
    for (int64_t i = 0; run->ids != NULL && i < run->batch * run->count; i++) {
        if (run->ids[i] < 0 || run->ids[i] >= words)
            return ota_refuse(error, OTA_EINVAL,
                              "token %lld is %lld, and the vocabulary has %lld words", (long long)i,
                              (long long)run->ids[i], (long long)words);
        if (run->types != NULL &&
            (run->types[i] < 0 || run->types[i] >= ota_model_size(s->model, OTA_SIZE_TYPES)))
            return ota_refuse(error, OTA_EINVAL, "the type of token %lld is out of range",
                              (long long)i);
    }
    for (int64_t b = 0; run->lengths != NULL && b < run->batch; b++)
        if (run->lengths[b] < 1 || run->lengths[b] > run->count)
            return ota_refuse(error, OTA_EINVAL, "length %lld is %lld, wanted 1 to %lld",
                              (long long)b, (long long)run->lengths[b], (long long)run->count);
    return OTA_OK;
}

static ota_status check_start(const ota_session *s, const ota_model_run *run, ota_error *error) {
    if (run->start_layer < 0 || run->start_layer >= s->model->config.layers)
        return ota_refuse(error, OTA_EINVAL, "start_layer is %lld, and the model has %lld layers",
                          (long long)run->start_layer, (long long)s->model->config.layers);
    if (run->residual == NULL && run->start_layer > 0)
        return ota_refuse(error, OTA_EINVAL, "start_layer is %lld, and residual is NULL",
                          (long long)run->start_layer);
    if (run->residual != NULL && (s->options.cache > 0 || ota_model_run_exits(run)))
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "a run from a residual stream has neither a cache nor exits");
    return OTA_OK;
}

static ota_status check_run(const ota_session *s, const ota_model_run *run, ota_error *error) {
    const bool sees = s->model->config.image.channels > 0;
    if (run != NULL && sees != (run->pixels != NULL))
        return ota_refuse(error, OTA_UNSUPPORTED,
                          sees ? "the model sees images, and the run has no pixels"
                               : "the model reads text, and the run has pixels");
    if (run == NULL || (run->ids == NULL) != sees)
        return ota_refuse(error, OTA_EINVAL,
                          "run is NULL, has no ids, or its size is not that of ota_model_run");
    if (sees && (run->count != ota_model_size(s->model, OTA_SIZE_POSITIONS) ||
                 run->lengths != NULL || run->types != NULL || run->exit_targets != NULL))
        return ota_refuse(error, OTA_EINVAL,
                          "an image has %lld tokens, no lengths, no types and no targets",
                          (long long)ota_model_size(s->model, OTA_SIZE_POSITIONS));
    if (run->batch < 1 || run->batch > s->options.batch || run->count < 1 ||
        run->count > s->options.tokens)
        return ota_refuse(error, OTA_EINVAL,
                          "the run has %lld sequences of %lld tokens, the session was made for "
                          "%lld of %lld",
                          (long long)run->batch, (long long)run->count, (long long)s->options.batch,
                          (long long)s->options.tokens);
    if (run->first != 0 &&
        (run->first != s->cache.filled || run->first + run->count > s->options.cache))
        return ota_refuse(
            error, OTA_EINVAL, "first is %lld, but the cache holds %lld positions of %lld",
            (long long)run->first, (long long)s->cache.filled, (long long)s->options.cache);
    if (s->options.cache > 0 && run->lengths != NULL)
        return ota_refuse(error, OTA_UNSUPPORTED, "a cache holds sequences of one length only");
    if (run->exit_threshold > 0 && run->exit_targets != NULL)
        return ota_refuse(error, OTA_EINVAL,
                          "the run has an exit_threshold and exit_targets; leave one out");
    if (ota_model_run_exits(run) && run->capture != NULL)
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "captures are of whole runs, not of tokens that stop early");
    if (ota_model_run_exits(run) && s->model->head == OTA_HEAD_ABSENT)
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "tokens stop by their logits, and the checkpoint has no head");
    if (ota_model_run_exits(run) && run->edit_count > 0)
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "edits are of whole runs, not of tokens that stop early");
    if (run->block_rows < 0)
        return ota_refuse(error, OTA_EINVAL, "block_rows is %lld, wanted 0 or more",
                          (long long)run->block_rows);
    const ota_status status = check_start(s, run, error);
    return status == OTA_OK ? check_tokens(s, run, error) : status;
}

static ota_status run_all(ota_session *s, ota_error *error) {
    const ota_model_run *const run = s->run.now;
    const int64_t rows = run->batch * run->count;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    ota_status status = ota_session_capture_begin(s);
    if (status == OTA_OK) status = begin(s);
    if (status == OTA_OK) status = run_blocks(s);
    if (status != OTA_OK) return status;
    const ota_weight *norm = &s->model->weights[OTA_FINAL_NORM];
    if (ota_weight_present(norm)) {
        float *x = s->buffers.residual;
        const ota_norm last = ota_session_norm_of(s, norm, x, x, rows);
        status = ota_session_norm_at(s, OTA_POINT_FINAL_SCALE, 0, &last);
    }
    if (status == OTA_OK && run->states != NULL)
        memcpy(run->states, s->buffers.residual,
               (size_t)(rows * width) * sizeof *s->buffers.residual);
    return ota_session_end(s, status, error);
}

ota_status ota_session_run(ota_session *s, const ota_model_run *given, ota_error *error) {
    ota_model_run own;
    const bool known = given != NULL && ota_sized_read(&own, sizeof own, given, given->size);
    ota_status status = check_run(s, known ? &own : NULL, error);
    if (status != OTA_OK) return status;
    s->run.own = own;
    s->run.now = &s->run.own;
    s->run.error = error;
    if (own.lengths != NULL)
        memcpy(s->run.lengths, own.lengths, (size_t)own.batch * sizeof *s->run.lengths);
    ota_session_cache_begin(s);
    status = run_all(s, error);
    ota_session_cache_end(s, status);
    return status;
}
