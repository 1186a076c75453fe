/* Named points of a run: the table of names, and handing the arrays over.
 *
 * Names and shapes are those of TransformerLens. Norms are captured after their weights, also RMS norms.
 * hook_scale and hook_attn_scores are not offered. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANY = 0, PRE_NORM = 1, POST_NORM = 2, ROTARY = 4, LEARNED = 8, GATED = 16 };

typedef struct point_row {
    const char *name; /* behind "blocks.L." where the point is one of a block */
    unsigned needs;
} point_row;

static const point_row points[OTA_POINTS] = {
    [OTA_POINT_EMBED] = {"hook_embed", ANY},
    [OTA_POINT_POSITION] = {"hook_pos_embed", LEARNED},
    [OTA_POINT_TYPE] = {"hook_token_type_embed", POST_NORM},
    [OTA_POINT_FULL_EMBED] = {"hook_full_embed", POST_NORM},
    [OTA_POINT_RESID_PRE] = {"hook_resid_pre", ANY},
    [OTA_POINT_NORMALIZED_1] = {"ln1.hook_normalized", PRE_NORM},
    [OTA_POINT_QUERY] = {"attn.hook_q", ANY},
    [OTA_POINT_KEY] = {"attn.hook_k", ANY},
    [OTA_POINT_VALUE] = {"attn.hook_v", ANY},
    [OTA_POINT_ROTATED_QUERY] = {"attn.hook_rot_q", ROTARY},
    [OTA_POINT_ROTATED_KEY] = {"attn.hook_rot_k", ROTARY},
    [OTA_POINT_PATTERN] = {"attn.hook_pattern", ANY},
    [OTA_POINT_MIXED] = {"attn.hook_z", ANY},
    [OTA_POINT_ATTENTION_OUT] = {"hook_attn_out", ANY},
    [OTA_POINT_RESID_MID] = {"hook_resid_mid", ANY},
    [OTA_POINT_NORMALIZED_MID] = {"hook_normalized_resid_mid", POST_NORM},
    [OTA_POINT_NORMALIZED_2] = {"ln2.hook_normalized", PRE_NORM},
    [OTA_POINT_MLP_PRE] = {"mlp.hook_pre", ANY},
    [OTA_POINT_MLP_LINEAR] = {"mlp.hook_pre_linear", GATED},
    [OTA_POINT_MLP_POST] = {"mlp.hook_post", ANY},
    [OTA_POINT_MLP_OUT] = {"hook_mlp_out", ANY},
    [OTA_POINT_RESID_POST] = {"hook_resid_post", ANY},
    [OTA_POINT_NORMALIZED_POST] = {"hook_normalized_resid_post", POST_NORM},
    [OTA_POINT_FINAL] = {"ln_final.hook_normalized", PRE_NORM},
};

static bool in_block(ota_point point) {
    return point >= OTA_POINT_RESID_PRE && point < OTA_POINT_FINAL;
}

static bool exists(const ota_model *model, ota_point point) {
    const ota_architecture *row = model->architecture;
    const unsigned has = (ota_architecture_has(row, OTA_ARCH_POST_NORM) ? POST_NORM : PRE_NORM) |
                         (ota_architecture_has(row, OTA_ARCH_ROTARY) ? ROTARY : LEARNED) |
                         (ota_architecture_has(row, OTA_ARCH_GATED) ? GATED : 0);
    return (points[point].needs & ~has) == 0;
}

static void name_point(ota_point point, int64_t layer, char *name, size_t size) {
    if (in_block(point))
        (void)ota_snprintf(name, size, "blocks.%lld.%s", (long long)layer, points[point].name);
    else
        (void)ota_snprintf(name, size, "%s", points[point].name);
}

/* Calls `visit` for every point that exists, in the order of a run, until it says stop. */
static void visit_points(const ota_model *model,
                         bool (*visit)(void *context, ota_point point, int64_t layer),
                         void *context) {
    for (int p = 0; p < OTA_POINT_RESID_PRE; p++)
        if (exists(model, (ota_point)p) && visit(context, (ota_point)p, 0)) return;
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int p = OTA_POINT_RESID_PRE; p < OTA_POINT_FINAL; p++)
            if (exists(model, (ota_point)p) && visit(context, (ota_point)p, layer)) return;
    if (exists(model, OTA_POINT_FINAL)) (void)visit(context, OTA_POINT_FINAL, 0);
}

/* ---- shapes ---- */

/* The last sizes of a point: [heads, width of one] of what is split into heads, else [width]. */
static void size_point(const ota_config *config, ota_point point, int64_t *heads, int64_t *width) {
    *heads = 0;
    *width = config->sizes[OTA_SIZE_WIDTH];
    switch (point) {
    case OTA_POINT_QUERY:
    case OTA_POINT_ROTATED_QUERY:
    case OTA_POINT_MIXED:
        *heads = config->heads;
        *width = config->sizes[OTA_SIZE_QUERY];
        break;
    case OTA_POINT_KEY:
    case OTA_POINT_VALUE:
    case OTA_POINT_ROTATED_KEY:
        *heads = config->kv_heads;
        *width = config->sizes[OTA_SIZE_KEY];
        break;
    case OTA_POINT_MLP_PRE:
    case OTA_POINT_MLP_LINEAR:
    case OTA_POINT_MLP_POST: *width = config->sizes[OTA_SIZE_INNER]; break;
    default: break;
    }
}

static void shape_point(const ota_config *config, ota_point point, int64_t batch, int64_t count,
                        int *rank, int64_t shape[4]) {
    int64_t heads, width;
    size_point(config, point, &heads, &width);
    *rank = heads > 0 || point == OTA_POINT_PATTERN ? 4 : 3;
    shape[0] = batch;
    shape[1] = point == OTA_POINT_PATTERN ? config->heads : count;
    shape[2] = point == OTA_POINT_PATTERN ? count : heads > 0 ? heads : width;
    shape[3] = point == OTA_POINT_PATTERN ? count : heads > 0 ? width / heads : 0;
}

typedef struct search {
    const ota_model *model;
    int64_t left, batch, count;
    ota_capture_point *out;
    bool found;
} search;

static bool count_point(void *context, ota_point point, int64_t layer) {
    search *s = context;
    if (s->left-- > 0) return false;
    name_point(point, layer, s->out->name, sizeof s->out->name);
    s->out->layer = in_block(point)               ? layer
                    : point < OTA_POINT_RESID_PRE ? -1
                                                  : s->model->config.layers;
    shape_point(&s->model->config, point, s->batch, s->count, &s->out->rank, s->out->shape);
    return s->found = true;
}

int ota_model_point(const ota_model *model, int64_t index, int64_t batch, int64_t count,
                    ota_capture_point *point) {
    search s = {.model = model, .left = index, .batch = batch, .count = count, .out = point};
    if (index >= 0) visit_points(model, count_point, &s);
    return s.found;
}

/* ---- during a run ---- */

static bool ask(void *context, ota_point point, int64_t layer) {
    ota_session *s = context;
    char name[128];
    if (s->run.now->residual != NULL && point < OTA_POINT_RESID_PRE) return false;
    if (in_block(point) && layer < s->run.now->start_layer) return false;
    name_point(point, layer, name, sizeof name);
    s->run.wanted[layer * OTA_POINTS + (int64_t)point] =
        s->run.now->wanted(s->run.now->user, name) != 0;
    return false;
}

ota_status ota_session_capture_begin(ota_session *s) {
    const ota_config *config = &s->model->config;
    memset(s->run.wanted, 0, (size_t)(config->layers * OTA_POINTS) * sizeof *s->run.wanted);
    if (s->run.now->wanted == NULL || s->run.now->capture == NULL) return OTA_OK;
    visit_points(s->model, ask, s);
    bool pattern = false;
    for (int64_t layer = 0; layer < config->layers; layer++)
        pattern = pattern || ota_session_wants(s, OTA_POINT_PATTERN, layer);
    if (!pattern) return OTA_OK;
    const size_t keys = (size_t)(s->run.now->first > 0 ? s->options.cache : s->run.now->count);
    const size_t rows = (size_t)(s->run.now->batch * config->heads * s->run.now->count);
    size_t floats, bytes;
    if (__builtin_mul_overflow(rows, keys, &floats) ||
        __builtin_mul_overflow(floats, sizeof *s->buffers.pattern, &bytes))
        return ota_refuse(s->run.error, OTA_EOVERFLOW, "the patterns are larger than any memory");
    if (floats <= s->buffers.pattern_floats) return OTA_OK;
    free(s->buffers.pattern);
    s->buffers.pattern = malloc(bytes);
    s->buffers.pattern_floats = s->buffers.pattern != NULL ? floats : 0;
    return s->buffers.pattern != NULL
               ? OTA_OK
               : ota_refuse(s->run.error, OTA_ENOMEM, "no memory is left for %zu bytes of patterns",
                            bytes);
}

bool ota_session_wants(const ota_session *s, ota_point point, int64_t layer) {
    return s->run.wanted[layer * OTA_POINTS + (int64_t)point];
}

static ota_status hand_over(ota_session *s, ota_point point, int64_t layer, ota_capture *capture) {
    char name[128];
    name_point(point, layer, name, sizeof name);
    capture->name = name;
    return s->run.now->capture(s->run.now->user, capture, s->run.error);
}

ota_status ota_session_capture(ota_session *s, ota_point point, int64_t layer, const float *data,
                               int64_t stride) {
    if (!ota_session_wants(s, point, layer)) return OTA_OK;
    const int64_t rows = s->run.now->batch * s->run.now->count;
    int64_t heads, width;
    size_point(&s->model->config, point, &heads, &width);
    ota_capture capture = {.data = data};
    shape_point(&s->model->config, point, s->run.now->batch, s->run.now->count, &capture.rank,
                capture.shape);
    if (stride != width) {
        for (int64_t i = 0; i < rows; i++)
            memcpy(s->buffers.spare + i * width, data + i * stride, (size_t)width * sizeof *data);
        capture.data = s->buffers.spare;
    }
    return hand_over(s, point, layer, &capture);
}

ota_status ota_session_capture_pattern(ota_session *s, int64_t layer, int64_t keys) {
    if (!ota_session_wants(s, OTA_POINT_PATTERN, layer)) return OTA_OK;
    ota_capture capture = {.data = s->buffers.pattern};
    shape_point(&s->model->config, OTA_POINT_PATTERN, s->run.now->batch, s->run.now->count,
                &capture.rank, capture.shape);
    capture.shape[3] = keys;
    return hand_over(s, OTA_POINT_PATTERN, layer, &capture);
}
