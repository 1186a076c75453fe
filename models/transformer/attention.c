/* Attention of one layer, by plans of otattn.h and nothing else.
 *
 *   merged [batch, count, heads q | kv heads k | kv heads v]  ->  mixed [batch, count, heads, head width]
 *
 * A plan is made once for a method and the shapes of a run, then pointed at each layer. Heads that
 * share one method are solved together, else one by one. With a cache that holds earlier tokens the
 * keys and values are the cache's and the step is ota_decode. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

/* What a plan is for, where it is not one layer's: all others, or all that see a window. */
enum { ANY_LAYER = -1, LOCAL_LAYER = -2 };

typedef struct view {
    int64_t layer, head; /* head -1: all */
    bool decoding;
} view;

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

/* Part of `merged` that starts at column `column`; head by head `heads` of them from `head`. */
static ota_array merged_part(const ota_session *s, int64_t column, int64_t head, int64_t heads) {
    const int64_t stride = ota_model_size(s->model, OTA_SIZE_MERGED);
    const int64_t width = s->model->config.head_width;
    return rows_of(s->merged + column + head * width, s->run->batch, heads, s->run->count, width,
                   stride, width, s->run->count * stride);
}

static ota_array cache_part(const ota_session *s, const float *cache, int64_t layer, int64_t head,
                            int64_t heads) {
    const ota_config *config = &s->model->config;
    const int64_t rows = s->options.cache, head_floats = rows * config->head_width;
    const int64_t batch_floats = config->kv_heads * head_floats;
    return rows_of(cache + layer * s->options.batch * batch_floats + head * head_floats,
                   s->run->batch, heads, rows, config->head_width, config->head_width, head_floats,
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
    problem->queries = merged_part(s, 0, head, one ? 1 : config->heads);
    if (v->decoding) {
        problem->keys = cache_part(s, s->keys, v->layer, kv_head, kv_heads);
        *values = cache_part(s, s->values, v->layer, kv_head, kv_heads);
    } else {
        problem->keys = merged_part(s, query, kv_head, kv_heads);
        *values = merged_part(s, query + ota_model_size(s->model, OTA_SIZE_KEY), kv_head, kv_heads);
    }
}

/* ---- plans ---- */

void ota_session_free_plans(ota_session *s) {
    for (int k = 0; k < s->slot_count; k++) ota_plan_free(s->slots[k].plan);
    s->slot_count = 0;
}

static void set_rules(ota_session *s, const view *v, ota_plan_slot *slot, ota_problem *problem) {
    const ota_config *config = &s->model->config;
    const bool causal = config->causal && problem->columns != OTA_COLUMNS_PREFIX;
    problem->scale = ota_config_scale(config, v->layer);
    int64_t count = 0;
    if (causal) slot->supports[count++] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    if (s->windowed)
        slot->supports[count++] =
            (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = s->window[0], .right = s->window[1]};
    /* Of a causal model the token itself is one of the window, else the window lies on both sides of it. */
    if (config->local[v->layer])
        slot->supports[count++] = (ota_support){.kind = OTA_SUPPORT_WINDOW,
                                                .left = config->window - (config->causal ? 1 : 0),
                                                .right = config->causal ? -1 : config->window};
    if (slot->padded)
        slot->supports[count++] =
            (ota_support){.kind = OTA_SUPPORT_LENGTHS,
                          .array = ota_array_of(s->lengths, OTA_I64, 1, 1, 1, s->run->batch)};
    problem->supports = slot->supports;
    problem->support_count = count;
    if (v->decoding) problem->corner = OTA_BOTTOM_RIGHT;
    if (s->sinking) {
        slot->sink = (ota_term){.kind = OTA_TERM_SINK, .value = s->sink};
        problem->terms = &slot->sink;
        problem->term_count = 1;
    }
}

static ota_status grow_slots(ota_session *s) {
    if (s->slot_count < s->slot_room) return OTA_OK;
    /* Plans borrow from slots, so slots may only move before the first plan of a shape is made. */
    ota_session_free_plans(s);
    const int room = s->slot_room == 0 ? 16 : 2 * s->slot_room;
    ota_plan_slot *grown = realloc(s->slots, (size_t)room * sizeof *grown);
    if (grown == NULL) return ota_refuse(s->error, OTA_ENOMEM, "no memory is left for plans");
    s->slots = grown;
    s->slot_room = room;
    return OTA_OK;
}

static ota_status find_slot(ota_session *s, const view *v, int method, ota_plan_slot **out) {
    const ota_config *config = &s->model->config;
    const int64_t layer = config->scaled_by_layer   ? v->layer
                          : config->local[v->layer] ? LOCAL_LAYER
                                                    : ANY_LAYER;
    const bool padded = s->run->lengths != NULL && !v->decoding;
    for (int k = 0; k < s->slot_count; k++) {
        ota_plan_slot *slot = &s->slots[k];
        if (slot->method == method && slot->one_head == (v->head >= 0) && slot->layer == layer &&
            slot->decoding == v->decoding && slot->padded == padded) {
            *out = slot;
            return OTA_OK;
        }
    }
    const ota_status status = grow_slots(s);
    if (status != OTA_OK) return status;
    *out = &s->slots[s->slot_count++];
    **out = (ota_plan_slot){.method = method,
                            .one_head = v->head >= 0,
                            .decoding = v->decoding,
                            .padded = padded,
                            .layer = layer};
    return OTA_OK;
}

static ota_status bind_plan(ota_session *s, const view *v, int method, ota_plan_slot **slot,
                            ota_array *values) {
    ota_status status = find_slot(s, v, method, slot);
    if (status != OTA_OK) return status;
    ota_problem problem = s->methods[method].problem;
    set_inputs(s, v, &problem, values);
    set_rules(s, v, *slot, &problem);
    if ((*slot)->plan != NULL) return ota_plan_rebind((*slot)->plan, &problem, s->error);
    ota_options options = s->methods[method].options;
    options.executor = &s->executor;
    options.threads = s->executor.threads;
    options.cpu = s->options.cpu;
    options.cancel = s->options.cancel;
    status =
        ota_plan_create(&(*slot)->plan, &problem, s->model->config.head_width, &options, s->error);
    if (status < 0) s->slot_count--;
    return status;
}

/* ---- running ---- */

static ota_array remaining_part(const ota_session *s, const view *v, int64_t keys) {
    const int64_t heads = s->model->config.heads, rows = s->options.cache;
    const int64_t head = v->head >= 0 ? v->head : 0;
    ota_array array =
        ota_array_of(s->remaining + (v->layer * s->options.batch * heads + head) * rows, OTA_F64,
                     s->run->batch, v->head >= 0 ? 1 : heads, 1, keys);
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
            for (int64_t j = s->run->first; j < s->run->first + s->run->count; j++)
                data[b * remaining->stride[0] + h * remaining->stride[1] + j] = cap;
}

static ota_status say_where(ota_session *s, const view *v, ota_status status) {
    if (s->error == NULL) return status;
    char sentence[sizeof s->error->message];
    memcpy(sentence, s->error->message, sizeof sentence);
    char hint[sizeof s->error->hint];
    memcpy(hint, s->error->hint, sizeof hint);
    if (v->head >= 0)
        (void)ota_refuse(s->error, status, "layer %lld, head %lld: %.400s", (long long)v->layer,
                         (long long)v->head, sentence);
    else
        (void)ota_refuse(s->error, status, "layer %lld: %.400s", (long long)v->layer, sentence);
    return hint[0] != '\0' ? ota_advise(s->error, status, "%s", hint) : status;
}

static ota_status solve(ota_session *s, const view *v, int method) {
    const ota_config *config = &s->model->config;
    const ota_problem *rules = &s->methods[method].problem;
    const int64_t query = ota_model_size(s->model, OTA_SIZE_QUERY), width = config->head_width;
    const int64_t head = v->head >= 0 ? v->head : 0, heads = v->head >= 0 ? 1 : config->heads;
    const int64_t keys = v->decoding ? s->options.cache : s->run->count;
    ota_plan_slot *slot = NULL;
    ota_arrays arrays = {.size = sizeof arrays};
    ota_status status = bind_plan(s, v, method, &slot, &arrays.values);
    if (status < 0) return say_where(s, v, status);
    arrays.out = rows_of(s->mixed + head * width, s->run->batch, heads, s->run->count, width, query,
                         width, s->run->count * query);
    if (ota_session_wants(s, OTA_POINT_PATTERN, v->layer)) {
        const int64_t square = s->run->count * keys;
        arrays.coupling = rows_of(s->pattern + head * square, s->run->batch, heads, s->run->count,
                                  keys, keys, square, config->heads * square);
    }
    if (s->remaining != NULL && rules->columns == OTA_COLUMNS_ONLINE) {
        arrays.remaining = remaining_part(s, v, keys);
        fill_capacity(s, &arrays.remaining, rules->cap);
    }
    ota_result result = {.size = sizeof result};
    status = v->decoding
                 ? ota_decode(slot->plan, &arrays, s->run->first + s->run->count, &result, s->error)
                 : ota_forward(slot->plan, &arrays, &result, s->error);
    if (status < 0) return say_where(s, v, status);
    if (status != OTA_NONFINITE_ROWS) return OTA_OK;
    (void)ota_refuse(s->error, OTA_NONFINITE, "%s", "the scores are not finite");
    return say_where(s, v, OTA_NONFINITE);
}

ota_status ota_session_attend(ota_session *s, int64_t layer) {
    const int64_t heads = s->model->config.heads;
    const uint16_t *assigned = s->assigned + layer * heads;
    bool shared = true;
    for (int64_t head = 1; head < heads; head++) shared = shared && assigned[head] == assigned[0];
    view v = {.layer = layer, .head = -1, .decoding = s->run->first > 0};
    if (s->slot_batch != s->run->batch || s->slot_count_tokens != s->run->count) {
        ota_session_free_plans(s);
        s->slot_batch = s->run->batch;
        s->slot_count_tokens = s->run->count;
    }
    if (shared) return solve(s, &v, assigned[0]);
    for (v.head = 0; v.head < heads; v.head++) {
        const ota_status status = solve(s, &v, assigned[v.head]);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}
