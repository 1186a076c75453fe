/* The KV cache: keys and values [layers, batch, kv heads, cache, head width or value width] of every token so far, keys
 * already rotated; and, for online columns, what is left of every key's capacity. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

ota_status ota_session_cache_create(ota_session *s, ota_error *error) {
    const ota_config *config = &s->model->config;
    size_t rows, keys, values;
    bool online = false;
    for (int k = 0; k < s->methods.count; k++)
        online = online || s->methods.items[k].problem.columns == OTA_COLUMNS_ONLINE;
    if (s->options.cache == 0) return OTA_OK;
    if (__builtin_mul_overflow((size_t)(config->layers * config->heads),
                               (size_t)s->options.batch * (size_t)s->options.cache, &rows) ||
        __builtin_mul_overflow(rows, (size_t)config->head_width * sizeof(double), &keys) ||
        __builtin_mul_overflow(rows, (size_t)config->value_width * sizeof(double), &values))
        return ota_refuse(error, OTA_EOVERFLOW, "the cache is larger than any memory");
    keys = rows / (size_t)config->heads * (size_t)(config->kv_heads * config->head_width);
    values = rows / (size_t)config->heads * (size_t)(config->kv_heads * config->value_width);
    s->cache.keys = calloc(keys, sizeof *s->cache.keys);
    s->cache.values = calloc(values, sizeof *s->cache.values);
    if (online) {
        s->cache.capacities = rows;
        s->cache.remaining = calloc(rows, sizeof *s->cache.remaining);
        s->cache.before = calloc(rows, sizeof *s->cache.before);
    }
    if (s->cache.keys == NULL || s->cache.values == NULL ||
        (online && (s->cache.remaining == NULL || s->cache.before == NULL)))
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for a cache of %lld positions",
                          (long long)s->options.cache);
    s->bytes += (keys + values) * sizeof *s->cache.keys +
                2 * s->cache.capacities * sizeof *s->cache.remaining;
    return OTA_OK;
}

static void append(const ota_session *s, float *cache, int64_t column, int64_t width,
                   int64_t layer) {
    const ota_config *config = &s->model->config;
    const int64_t stride = ota_model_size(s->model, OTA_SIZE_MERGED);
    for (int64_t b = 0; b < s->run.now->batch; b++) {
        for (int64_t head = 0; head < config->kv_heads; head++) {
            float *to = cache + (((layer * s->options.batch + b) * config->kv_heads + head) *
                                     s->options.cache +
                                 s->run.now->first) *
                                    width;
            const float *from =
                s->buffers.merged + b * s->run.now->count * stride + column + head * width;
            for (int64_t t = 0; t < s->run.now->count; t++)
                memcpy(to + t * width, from + t * stride, (size_t)width * sizeof *to);
        }
    }
}

void ota_session_cache_append(ota_session *s, int64_t layer) {
    const int64_t query = ota_model_size(s->model, OTA_SIZE_QUERY);
    if (s->options.cache == 0) return;
    append(s, s->cache.keys, query, s->model->config.head_width, layer);
    append(s, s->cache.values, query + ota_model_size(s->model, OTA_SIZE_KEY),
           s->model->config.value_width, layer);
}

/* Keys and values lie behind those of earlier positions, whose capacities a step changes. */
void ota_session_cache_begin(ota_session *s) {
    s->cache.filled = s->run.now->first;
    if (s->cache.filled > 0 && s->cache.capacities > 0)
        memcpy(s->cache.before, s->cache.remaining, s->cache.capacities * sizeof *s->cache.before);
}

void ota_session_cache_end(ota_session *s, ota_status status) {
    if (status == OTA_OK && s->options.cache > 0) s->cache.filled += s->run.now->count;
    if (status != OTA_OK && s->cache.filled > 0 && s->cache.capacities > 0)
        memcpy(s->cache.remaining, s->cache.before, s->cache.capacities * sizeof *s->cache.before);
}
