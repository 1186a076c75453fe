/* Making and freeing sessions: validation of options, buffers, threads, rotary tables. */
#define _POSIX_C_SOURCE 200809L
#include "session.h"

#include "base/sized.h"
#include "base/system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- validation ---- */

static ota_status check_options(const ota_model *model, const ota_session_options *options,
                                ota_error *error) {
    const int64_t positions = ota_model_size(model, OTA_SIZE_POSITIONS);
    if (options == NULL)
        return ota_refuse(error, OTA_EINVAL, "options.size is not that of ota_session_options");
    if (options->batch < 1 || options->batch > 1 << 20)
        return ota_refuse(error, OTA_EINVAL, "batch is %lld, wanted 1 to 2^20",
                          (long long)options->batch);
    if (options->tokens < 1 || options->tokens > positions) {
        (void)ota_refuse(error, OTA_EINVAL, "tokens is %lld, and the model has %lld positions",
                         (long long)options->tokens, (long long)positions);
        return ota_advise(error, OTA_EINVAL, "cut the text into windows");
    }
    if (options->cache != 0 && (options->cache < options->tokens || options->cache > positions))
        return ota_refuse(error, OTA_EINVAL, "cache is %lld, wanted tokens to %lld positions",
                          (long long)options->cache, (long long)positions);
    if (options->cache != 0 && !model->config.scores.causal)
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "a model that looks both ways has no use for a cache");
    if (options->method_count > 0 && options->methods == NULL)
        return ota_refuse(error, OTA_EINVAL, "methods is NULL and method_count is not 0");
    return OTA_OK;
}

/* ---- buffers ---- */

static ota_status make(ota_session *s, int64_t rows, int64_t columns, float **out,
                       ota_error *error) {
    size_t floats, bytes;
    if (__builtin_mul_overflow((size_t)rows, (size_t)columns, &floats) ||
        __builtin_mul_overflow(floats, sizeof **out, &bytes) || bytes > (size_t)INT64_MAX - 64)
        return ota_refuse(error, OTA_EOVERFLOW, "a buffer is larger than any memory");
    bytes = ota_size_round_up(bytes, 64);
    *out = bytes > 0 ? ota_aligned_allocate(64, bytes) : NULL;
    if (*out == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for %zu bytes of a session", bytes);
    s->bytes += bytes;
    return OTA_OK;
}

static ota_status make_buffers(ota_session *s, ota_error *error) {
    const int64_t *size = s->model->config.sizes;
    const int64_t rows = s->options.batch * s->options.tokens;
    const int64_t mixed = ota_int_max(size[OTA_SIZE_MIXED], size[OTA_SIZE_VALUE]);
    const int64_t width =
        ota_int_max(size[OTA_SIZE_WIDTH], ota_int_max(size[OTA_SIZE_QUERY], mixed));
    const int64_t inner = ota_int_max(size[OTA_SIZE_INNER], size[OTA_SIZE_SHARED_INNER]);
    const int64_t widest = ota_int_max(inner, size[OTA_SIZE_EXPERT_INNER]);
    const bool is_latent = ota_architecture_has(s->model->architecture, OTA_ARCH_LATENT);
    const int64_t latent = ota_int_max(size[OTA_SIZE_LATENT], size[OTA_SIZE_QUERY_RANK]);
    s->buffers.panel = OTA_PANEL_ROWS * ota_int_max(ota_int_max(width, latent),
                                                    ota_int_max(widest, size[OTA_SIZE_PATCH]));
    ota_status status = make(s, rows, width, &s->buffers.residual, error);
    if (status == OTA_OK) status = make(s, rows, width, &s->buffers.branch, error);
    if (status == OTA_OK) status = make(s, rows, size[OTA_SIZE_MERGED], &s->buffers.merged, error);
    if (status == OTA_OK) status = make(s, rows, size[OTA_SIZE_MIXED], &s->buffers.mixed, error);
    if (status == OTA_OK && is_latent) status = make(s, rows, latent, &s->buffers.latent, error);
    if (status == OTA_OK && is_latent)
        status = make(s, rows, size[OTA_SIZE_EXPANDED], &s->buffers.expanded, error);
    if (status == OTA_OK) status = make(s, rows, inner, &s->buffers.inner, error);
    if (status == OTA_OK && s->model->config.matrices.gated)
        status = make(s, rows, inner, &s->buffers.gate, error);
    if (status == OTA_OK)
        status = make(s, rows, ota_int_max(width, latent), &s->buffers.spare, error);
    if (status == OTA_OK) status = make(s, 1, size[OTA_SIZE_WIDTH], &s->buffers.zeros, error);
    if (status == OTA_OK)
        memset(s->buffers.zeros, 0, (size_t)size[OTA_SIZE_WIDTH] * sizeof *s->buffers.zeros);
    if (status == OTA_OK && size[OTA_SIZE_PATCH] > 0)
        status = make(s, s->options.tokens, size[OTA_SIZE_PATCH], &s->buffers.pieces, error);
    const ota_weight *w = s->model->weights;
    const bool steps = ota_weight_present(&w[OTA_HEAD_PROJECT]) ||
                       (ota_weight_present(&w[OTA_FINAL_NORM]) && s->model->head == OTA_HEAD_MLM);
    if (status == OTA_OK && steps)
        status = make(s, rows, size[OTA_SIZE_WIDTH], &s->buffers.head, error);
    if (status == OTA_OK && s->model->config.form.parallel)
        status = make(s, rows, size[OTA_SIZE_WIDTH], &s->buffers.beside, error);
    if (status == OTA_OK)
        status = make(s, ota_pool_threads(s->pool), s->buffers.panel, &s->buffers.panels, error);
    s->run.points = calloc((size_t)(s->model->config.layers * OTA_POINTS), sizeof *s->run.points);
    s->run.lengths = calloc((size_t)s->options.batch, sizeof *s->run.lengths);
    if (status == OTA_OK && (s->run.points == NULL || s->run.lengths == NULL))
        status = ota_refuse(error, OTA_ENOMEM, "no memory is left for a session");
    return status;
}

/* Angle of position t and pair k: t w_k, rounded to f32 as in the programs that such models were trained with;
 * cosine and sine are not rounded twice. Positions first ... end - 1, of a text that ends there. */
static void fill_rotations(ota_session *s, ota_rope_table table, int64_t first, int64_t end) {
    const ota_config *config = &s->model->config;
    const int64_t half = config->rotary_width / 2;
    const ota_weight *weights = s->model->weights;
    const bool is_long = config->rope.scaling.kind == OTA_ROPE_LONG;
    const float *divisors[] = {
        weights[is_long ? OTA_ROPE_SHORTER : OTA_ROPE_DIVISORS].values,
        is_long ? weights[OTA_ROPE_LONGER].values : NULL,
    };
    const double factor = ota_rope_attention(config, table);
    for (int64_t k = 0; k < half; k++) {
        const float frequency = ota_rope_frequency(config, table, divisors[table], k, end);
        for (int64_t t = first; t < end; t++) {
            if (t % 1024 == 0 && ota_session_interrupted(s) != OTA_OK) break;
            const int64_t at = ((int64_t)table * s->rotations.positions + t) * half + k;
            const float angle = (float)t * frequency;
            s->rotations.cosines[at] = (float)(factor * cos((double)angle));
            s->rotations.sines[at] = (float)(factor * sin((double)angle));
        }
    }
}

static ota_status make_rotations(ota_session *s, ota_error *error) {
    const ota_config *config = &s->model->config;
    const int64_t half = config->rotary_width / 2;
    if (!ota_architecture_has(s->model->architecture, OTA_ARCH_ROTARY)) return OTA_OK;
    s->rotations.positions = ota_int_max(s->options.tokens, s->options.cache);
    const int64_t tables = ota_rope_tables(config);
    ota_status status =
        make(s, tables * s->rotations.positions, half, &s->rotations.cosines, error);
    if (status == OTA_OK)
        status = make(s, tables * s->rotations.positions, half, &s->rotations.sines, error);
    for (int table = 0; status == OTA_OK && table < tables; table++)
        fill_rotations(s, (ota_rope_table)table, 0, s->rotations.positions);
    return status;
}

void ota_session_rotations(ota_session *s, int64_t first, int64_t end) {
    ota_rotations *r = &s->rotations;
    if (s->model->config.rope.scaling.kind != OTA_ROPE_DYNAMIC ||
        !ota_rope_is_long(&s->model->config, end) || (first == r->first && end == r->end))
        return;
    fill_rotations(s, OTA_ROPE_TABLE_OTHER, first, end);
    r->first = first;
    r->end = end;
}

/* Heads up to a power of two have 2^(-8 k / n), k = 1 ... n; those beyond it every second of twice as many. */
static ota_status make_slopes(ota_session *s, ota_error *error) {
    const int64_t heads = s->model->config.heads;
    int64_t whole = 1;
    if (!s->model->config.scores.sloped && !s->model->config.rope.replaced) return OTA_OK;
    while (2 * whole <= heads) whole *= 2;
    const ota_status status = make(s, heads, 1, &s->slopes, error);
    for (int64_t k = 0; status == OTA_OK && k < heads; k++) {
        const double power = k < whole ? (double)(k + 1) / (double)whole
                                       : (double)(2 * (k - whole) + 1) / (double)(2 * whole);
        s->slopes[k] = (float)exp2(-8 * power);
    }
    return status;
}

/* To the nearest of bf16, ties to even. */
static float rounded(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7FFFU + (bits >> 16 & 1)) & 0xFFFF0000U;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Falcon's slopes times the place of the key, both in bf16, as part of what the scale then multiplies. */
static ota_status make_key_slopes(ota_session *s, ota_error *error) {
    const int64_t heads = s->model->config.heads;
    const int64_t keys = ota_int_max(s->options.tokens, s->options.cache);
    if (!s->model->config.rope.replaced) return OTA_OK;
    const double scale = ota_config_scale(&s->model->config, 0);
    const ota_status status = make(s, heads, keys, &s->key_slopes, error);
    for (int64_t h = 0; status == OTA_OK && h < heads; h++)
        for (int64_t j = 0; j < keys; j++) {
            const float slope = rounded(rounded(s->slopes[h]) * rounded((float)j));
            s->key_slopes[h * keys + j] = (float)(scale * (double)slope);
        }
    return status;
}

/* T5's buckets of a distance i - j: half of them for keys behind, and in each half single distances and then ever wider ones. */
static int64_t bucket_of(const ota_config *config, int64_t distance) {
    const int64_t half = config->sizes[OTA_SIZE_BUCKETS] / 2, single = half / 2;
    const int64_t side = distance < 0 ? half : 0, n = distance < 0 ? -distance : distance;
    if (n < single) return side + n;
    const float share =
        logf((float)n / (float)single) / (float)log((double)config->distance / (double)single);
    return side + ota_int_min(single + (int64_t)(share * (float)(half - single)), half - 1);
}

static ota_status make_relative(ota_session *s, ota_error *error) {
    const ota_config *config = &s->model->config;
    const ota_weight *w = &s->model->weights[OTA_RELATIVE];
    const int64_t tokens = s->options.tokens, heads = config->heads;
    if (!ota_weight_present(w)) return OTA_OK;
    ota_status status = make(s, heads, 2 * tokens - 1, &s->relative, error);
    for (int64_t d = 1 - tokens; status == OTA_OK && d < tokens; d++) {
        if (d % 1024 == 0 && ota_session_interrupted(s) != OTA_OK) break;
        const int64_t bytes = w->columns / w->type->block * w->type->bytes;
        float *row = s->buffers.panels;
        s->ops->decode[ota_element_index(w->type)](w->data + bucket_of(config, d) * bytes, row,
                                                   heads);
        for (int64_t h = 0; h < heads; h++)
            s->relative[h * (2 * tokens - 1) + d + tokens - 1] = row[h];
    }
    return status;
}

/* ---- ending early ---- */

ota_status ota_session_interrupted(const ota_session *s) {
    return ota_interruption(s->options.cancel, s->options.deadline_ns);
}

ota_status ota_session_end(const ota_session *s, ota_status status, ota_error *error) {
    const ota_status interrupted = ota_session_interrupted(s);
    if (interrupted == OTA_OK || (status < 0 && status != interrupted)) return status;
    return ota_refuse(error, interrupted,
                      interrupted == OTA_CANCELLED
                          ? "the call was cancelled"
                          : "the deadline passed before the call was done");
}

void ota_session_set_deadline(ota_session *s, int64_t deadline_ns) {
    s->options.deadline_ns = deadline_ns;
}

/* ---- threads ---- */

typedef struct watched_job {
    const ota_session *session;
    void (*body)(void *, int64_t, int);
    void *context;
} watched_job;

static void run_watched(void *context, int64_t index, int worker) {
    const watched_job *j = context;
    if (ota_session_interrupted(j->session) == OTA_OK) j->body(j->context, index, worker);
}

void ota_session_parallel(ota_session *s, int64_t count, void (*body)(void *, int64_t, int),
                          void *context) {
    watched_job j = {s, body, context};
    ota_parallel(s->pool, count, run_watched, &j);
}

static void run_on_pool(void *pool, int64_t count, void (*body)(void *, int64_t, int),
                        void *context) {
    ota_parallel(pool, count, body, context);
}

/* One pool for the session's loops and, as an executor, for its plans. */
static ota_status start_threads(ota_session *s, int threads, ota_error *error) {
    const int64_t bounded = ota_int_min(ota_int_max(threads, 0), OTA_THREADS_MAX);
    if (ota_pool_create(&s->pool, (int)bounded, NULL) != OTA_OK)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a session's threads");
    s->executor =
        (ota_executor){.run = run_on_pool, .user = s->pool, .threads = ota_pool_threads(s->pool)};
    return OTA_OK;
}

ota_status ota_session_create(ota_session **session, const ota_model *model,
                              const ota_session_options *given, ota_error *error) {
    ota_session_options own;
    *session = NULL;
    const bool known = given != NULL && ota_sized_read(&own, sizeof own, given, given->size);
    const ota_session_options *options = known ? &own : NULL;
    ota_status status = check_options(model, options, error);
    if (status == OTA_OK && !options->allow_nonfinite)
        status = ota_model_check_weights(model, options, error);
    if (status != OTA_OK) return status;
    ota_session *s = calloc(1, sizeof *s);
    if (s == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a session");
    s->model = model;
    s->options = *options;
    s->options.methods = NULL;
    s->options.window = NULL;
    s->options.sink = NULL;
    s->ops = ota_ops_named(options->cpu);
    s->bytes = sizeof *s;
    s->blas = ota_blas_open();
    status = start_threads(s, options->threads, error);
    if (status == OTA_OK) status = ota_session_methods(s, options, error);
    if (status == OTA_OK) status = make_buffers(s, error);
    if (status == OTA_OK) status = make_rotations(s, error);
    if (status == OTA_OK) status = make_slopes(s, error);
    if (status == OTA_OK) status = make_key_slopes(s, error);
    if (status == OTA_OK) status = make_relative(s, error);
    if (status == OTA_OK) status = ota_session_cache_create(s, error);
    if (status == OTA_OK) status = ota_session_mixture_create(s, error);
    status = ota_session_end(s, status, error);
    if (status == OTA_OK)
        *session = s;
    else
        ota_session_free(s);
    return status;
}

void ota_session_free(ota_session *s) {
    if (s == NULL) return;
    ota_session_free_plans(s);
    ota_session_free_mixture(s);
    free(s->plans.slots);
    ota_pool_free(s->pool);
    float *const made[] = {
        s->buffers.residual, s->buffers.branch,  s->buffers.merged,    s->buffers.mixed,
        s->buffers.zeros,    s->buffers.inner,   s->buffers.gate,      s->buffers.spare,
        s->buffers.beside,   s->buffers.panels,  s->rotations.cosines, s->slopes,
        s->relative,         s->rotations.sines, s->buffers.latent,    s->buffers.expanded,
        s->buffers.head,     s->key_slopes,      s->buffers.pieces};
    for (size_t k = 0; k < sizeof made / sizeof *made; k++) ota_aligned_free(made[k]);
    free(s->buffers.receiver);
    free(s->cache.keys);
    free(s->cache.values);
    free(s->cache.remaining);
    free(s->cache.before);
    free(s->run.lengths);
    ota_session_free_methods(s);
    ota_session_free_exits(s);
    ota_session_free_edits(s);
    ota_session_free_weights(s);
    free(s->run.points);
    ota_blas_close(&s->blas);
    free(s);
}

size_t ota_session_bytes(const ota_session *session) { return session->bytes; }

const char *ota_session_warning(const ota_session *session) { return session->warning; }
