/* Attention of one layer, by plans of otattn.h and nothing else.
 *
 *   merged [batch, count, heads q | kv heads k | kv heads v]  ->  mixed [batch, count, heads, value width]
 *
 * A plan is made once for a method and the shapes of a run, then pointed at each layer. Heads that
 * share one method are solved together, else one by one. With a cache that holds earlier tokens the
 * keys and values are the cache's and the step is ota_decode. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

/* What a plan is for, where it is not one layer's: all others, or all that see a window. */
enum { ANY_LAYER = -1, LOCAL_LAYER = -2 };

typedef ota_view view;

/* ---- arrays ---- */

static ota_array rows_of(const float *data, int64_t batch, int64_t heads, int64_t rows,
                         int64_t width, int64_t row_stride, int64_t head_stride,
                         int64_t batch_stride) {
    ota_array array = ota_array_of((void *)(uintptr_t)data, OTA_F32, batch, heads, rows, width);
    array.stride[0] = batch_stride;
    array.stride[1] = head_stride;
    array.stride[2] = row_stride;
    return array;
}

/* Heads of so many numbers, `count` of them from `first` on. */
typedef struct head_range {
    int64_t first, count, width;
} head_range;

/* Part of `merged` that starts at column `column`. */
static ota_array merged_part(const ota_session *s, int64_t column, head_range heads) {
    const int64_t stride = ota_model_size(s->model, OTA_SIZE_MERGED), width = heads.width;
    return rows_of(s->buffers.merged + column + heads.first * width, s->run.now->batch, heads.count,
                   s->run.now->count, width, stride, width, s->run.now->count * stride);
}

static ota_array cache_part(const ota_session *s, const float *cache, int64_t layer,
                            head_range heads) {
    const int64_t rows = s->options.cache, head_floats = rows * heads.width;
    const int64_t batch_floats = s->model->config.kv_heads * head_floats;
    return rows_of(cache + layer * s->options.batch * batch_floats + heads.first * head_floats,
                   s->run.now->batch, heads.count, rows, heads.width, heads.width, head_floats,
                   batch_floats);
}

static void set_inputs(const ota_session *s, const view *v, ota_problem *problem,
                       ota_array *values) {
    const ota_config *config = &s->model->config;
    const int64_t group = config->heads / config->kv_heads;
    const bool one = v->head >= 0;
    const int64_t head = one ? v->head : 0, kv_head = head / group;
    const int64_t kv_heads = one ? 1 : config->kv_heads;
    const int64_t query = ota_model_size(s->model, OTA_SIZE_QUERY);
    const head_range keys = {kv_head, kv_heads, config->head_width};
    const head_range mixed = {kv_head, kv_heads, config->value_width};
    problem->queries =
        merged_part(s, 0, (head_range){head, one ? 1 : config->heads, config->head_width});
    if (v->decoding) {
        problem->keys = cache_part(s, s->cache.keys, v->layer, keys);
        *values = cache_part(s, s->cache.values, v->layer, mixed);
    } else {
        problem->keys = merged_part(s, query, keys);
        *values = merged_part(s, query + ota_model_size(s->model, OTA_SIZE_KEY), mixed);
    }
}

void ota_session_values(const ota_session *s, const view *v, ota_array *values) {
    ota_problem problem;
    set_inputs(s, v, &problem, values);
}

/* ---- plans ---- */

void ota_session_free_plans(ota_session *s) {
    for (int k = 0; k < s->plans.count; k++) ota_plan_free(s->plans.slots[k].plan);
    s->plans.count = 0;
}

bool ota_session_sink(const ota_session *s, int64_t layer, int64_t head, ota_term *sink) {
    const ota_weight *own = &s->model->blocks[layer].weights[OTA_SINKS];
    *sink = (ota_term){.kind = OTA_TERM_SINK, .value = s->methods.sink};
    /* The caller's holds in the place of the model's. */
    if (s->methods.sinking || !ota_weight_present(own)) return s->methods.sinking;
    if (head >= 0)
        sink->value = (double)own->values[head];
    else
        sink->array = ota_array_of((void *)(uintptr_t)own->values, OTA_F32, 1, 1, 1, own->columns);
    return true;
}

static void set_rules(ota_session *s, const view *v, ota_plan_slot *slot, ota_problem *problem) {
    const ota_config *config = &s->model->config;
    const bool causal = config->scores.causal && problem->columns != OTA_COLUMNS_PREFIX;
    problem->scale = ota_config_scale(config, v->layer);
    int64_t count = 0;
    if (causal) slot->supports[count++] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    if (s->methods.windowed)
        slot->supports[count++] = (ota_support){.kind = OTA_SUPPORT_WINDOW,
                                                .left = s->methods.window[0],
                                                .right = s->methods.window[1]};
    /* Of a causal model the token itself is one of the window, else the window lies on both sides of it. */
    if (config->local.layers[v->layer])
        slot->supports[count++] =
            (ota_support){.kind = OTA_SUPPORT_WINDOW,
                          .left = config->local.window - (config->scores.causal ? 1 : 0),
                          .right = config->scores.causal ? -1 : config->local.window};
    if (slot->padded)
        slot->supports[count++] = (ota_support){
            .kind = OTA_SUPPORT_LENGTHS,
            .array = ota_array_of(s->run.lengths, OTA_I64, 1, 1, 1, s->run.now->batch)};
    problem->supports = slot->supports;
    problem->support_count = count;
    if (v->decoding) problem->corner = OTA_BOTTOM_RIGHT;
    int64_t terms = 0;
    if (ota_session_sink(s, v->layer, v->head, &slot->terms[0])) terms++;
    if (config->scores.cap > 0)
        slot->terms[terms++] = (ota_term){.kind = OTA_TERM_SOFTCAP, .value = config->scores.cap};
    if (config->scores.sloped) {
        slot->terms[terms] = (ota_term){.kind = OTA_TERM_ALIBI};
        if (v->head >= 0)
            slot->terms[terms].value = (double)s->slopes[v->head];
        else
            slot->terms[terms].array = ota_array_of(s->slopes, OTA_F32, 1, 1, 1, config->heads);
        terms++;
    }
    if (s->key_slopes != NULL) {
        const int64_t room = ota_int_max(s->options.tokens, s->options.cache);
        const int64_t heads = v->head >= 0 ? 1 : config->heads, head = v->head >= 0 ? v->head : 0;
        ota_term *term = &slot->terms[terms++];
        *term = (ota_term){.kind = OTA_TERM_DENSE};
        term->array = ota_array_of(s->key_slopes + head * room, OTA_F32, 1, heads, 1,
                                   v->decoding ? s->options.cache : s->run.now->count);
        term->array.stride[1] = room;
    }
    if (s->relative != NULL) {
        const int64_t width = 2 * s->options.tokens - 1, keys = s->run.now->count;
        const int64_t heads = v->head >= 0 ? 1 : config->heads, head = v->head >= 0 ? v->head : 0;
        ota_term *term = &slot->terms[terms++];
        *term = (ota_term){.kind = OTA_TERM_RELATIVE};
        term->array = ota_array_of(s->relative + head * width + s->options.tokens - keys, OTA_F32,
                                   1, heads, 1, 2 * keys - 1);
        term->array.stride[1] = width;
    }
    problem->terms = slot->terms;
    problem->term_count = terms;
}

static ota_status grow_slots(ota_session *s) {
    if (s->plans.count < s->plans.room) return OTA_OK;
    /* Plans borrow from slots, so slots may only move before the first plan of a shape is made. */
    ota_session_free_plans(s);
    const int room = s->plans.room == 0 ? 16 : 2 * s->plans.room;
    ota_plan_slot *grown = realloc(s->plans.slots, (size_t)room * sizeof *grown);
    if (grown == NULL) return ota_refuse(s->run.error, OTA_ENOMEM, "no memory is left for plans");
    s->plans.slots = grown;
    s->plans.room = room;
    return OTA_OK;
}

static ota_status find_slot(ota_session *s, const view *v, int method, ota_plan_slot **out) {
    const ota_config *config = &s->model->config;
    const int64_t layer = config->scores.scaled_by_layer   ? v->layer
                          : config->local.layers[v->layer] ? LOCAL_LAYER
                                                           : ANY_LAYER;
    const bool padded = s->run.now->lengths != NULL && !v->decoding;
    for (int k = 0; k < s->plans.count; k++) {
        ota_plan_slot *slot = &s->plans.slots[k];
        if (slot->method == method && slot->one_head == (v->head >= 0) && slot->layer == layer &&
            slot->decoding == v->decoding && slot->padded == padded) {
            *out = slot;
            return OTA_OK;
        }
    }
    const ota_status status = grow_slots(s);
    if (status != OTA_OK) return status;
    *out = &s->plans.slots[s->plans.count++];
    **out = (ota_plan_slot){.method = method,
                            .one_head = v->head >= 0,
                            .decoding = v->decoding,
                            .padded = padded,
                            .layer = layer};
    return OTA_OK;
}

ota_status ota_session_bind(ota_session *s, const view *v, int method, ota_plan_slot **slot,
                            ota_array *values) {
    if (s->plans.batch != s->run.now->batch || s->plans.tokens != s->run.now->count) {
        ota_session_free_plans(s);
        s->plans.batch = s->run.now->batch;
        s->plans.tokens = s->run.now->count;
    }
    ota_status status = find_slot(s, v, method, slot);
    if (status != OTA_OK) return status;
    ota_problem problem = s->methods.items[method].problem;
    set_inputs(s, v, &problem, values);
    set_rules(s, v, *slot, &problem);
    if ((*slot)->plan != NULL) return ota_plan_rebind((*slot)->plan, &problem, s->run.error);
    ota_options options = s->methods.items[method].options;
    options.executor = &s->executor;
    options.threads = s->executor.threads;
    options.cpu = s->options.cpu;
    options.cancel = s->options.cancel;
    options.deadline_ns = s->options.deadline_ns;
    status = ota_plan_create(&(*slot)->plan, &problem, s->model->config.value_width, &options,
                             s->run.error);
    if (status < 0) s->plans.count--;
    return status;
}

/* ---- running ---- */

static ota_array remaining_part(const ota_session *s, const view *v, int64_t keys) {
    const int64_t heads = s->model->config.heads, rows = s->options.cache;
    const int64_t head = v->head >= 0 ? v->head : 0;
    ota_array array =
        ota_array_of(s->cache.remaining + (v->layer * s->options.batch * heads + head) * rows,
                     OTA_F64, s->run.now->batch, v->head >= 0 ? 1 : heads, 1, keys);
    array.stride[0] = heads * rows;
    array.stride[1] = rows;
    array.stride[2] = rows;
    return array;
}

/* Keys that this run adds have their whole capacity left. */
static void fill_capacity(const ota_session *s, const ota_array *remaining, double cap) {
    double *data = remaining->data;
    for (int64_t b = 0; b < remaining->size[0]; b++)
        for (int64_t h = 0; h < remaining->size[1]; h++)
            for (int64_t j = s->run.now->first; j < s->run.now->first + s->run.now->count; j++)
                data[b * remaining->stride[0] + h * remaining->stride[1] + j] = cap;
}

static ota_status say_where(ota_session *s, const view *v, ota_status status) {
    if (s->run.error == NULL) return status;
    char sentence[sizeof s->run.error->message];
    memcpy(sentence, s->run.error->message, sizeof sentence);
    char hint[sizeof s->run.error->hint];
    memcpy(hint, s->run.error->hint, sizeof hint);
    if (v->head >= 0)
        (void)ota_refuse(s->run.error, status, "layer %lld, head %lld: %.400s", (long long)v->layer,
                         (long long)v->head, sentence);
    else
        (void)ota_refuse(s->run.error, status, "layer %lld: %.400s", (long long)v->layer, sentence);
    return hint[0] != '\0' ? ota_advise(s->run.error, status, "%s", hint) : status;
}

ota_status ota_session_verdict(ota_session *s, const view *v, ota_status status) {
    if (status < 0) return say_where(s, v, status);
    if (status != OTA_NONFINITE_ROWS) return OTA_OK;
    (void)ota_refuse(s->run.error, OTA_NONFINITE, "%s", "the scores are not finite");
    return say_where(s, v, OTA_NONFINITE);
}

static ota_status solve(ota_session *s, const view *v, int method) {
    const ota_config *config = &s->model->config;
    const ota_problem *rules = &s->methods.items[method].problem;
    const int64_t mixed = ota_model_size(s->model, OTA_SIZE_MIXED), width = config->value_width;
    const int64_t head = v->head >= 0 ? v->head : 0, heads = v->head >= 0 ? 1 : config->heads;
    const int64_t keys = v->decoding ? s->options.cache : s->run.now->count;
    ota_plan_slot *slot = NULL;
    ota_arrays arrays = {.size = sizeof arrays};
    ota_status status = ota_session_bind(s, v, method, &slot, &arrays.values);
    if (status < 0) return say_where(s, v, status);
    ota_plan_set_deadline(slot->plan, s->options.deadline_ns);
    arrays.out = rows_of(s->buffers.mixed + head * width, s->run.now->batch, heads,
                         s->run.now->count, width, mixed, width, s->run.now->count * mixed);
    ota_session_ask(s, v, &arrays);
    if (s->cache.remaining != NULL && rules->columns == OTA_COLUMNS_ONLINE) {
        arrays.remaining = remaining_part(s, v, keys);
        fill_capacity(s, &arrays.remaining, rules->cap);
    }
    ota_result result = {.size = sizeof result};
    status = v->decoding ? ota_decode(slot->plan, &arrays, s->run.now->first + s->run.now->count,
                                      &result, s->run.error)
                         : ota_forward(slot->plan, &arrays, &result, s->run.error);
    return ota_session_verdict(s, v, status);
}

ota_status ota_session_attend(ota_session *s, int64_t layer) {
    const int64_t heads = s->model->config.heads;
    const uint16_t *assigned = s->methods.assigned + layer * heads;
    bool shared = true;
    for (int64_t head = 1; head < heads; head++) shared = shared && assigned[head] == assigned[0];
    view v = {.layer = layer, .head = -1, .decoding = s->run.now->first > 0};
    if (shared) return solve(s, &v, assigned[0]);
    for (v.head = 0; v.head < heads; v.head++) {
        const ota_status status = solve(s, &v, assigned[v.head]);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}
