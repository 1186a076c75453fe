/* Named points of a run: the one table of names, by which arrays are captured and edited, and handing them over.
 *
 * Names and shapes are those of TransformerLens. Norms are captured after their weights, also RMS norms. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANY = 0,
    PRE_NORM = 1,
    POST_NORM = 2,
    ROTARY = 4,
    LEARNED = 8,
    GATED = 16,
    PRE_NORM_2 = 32,
    FINAL_NORM = 64,
    TYPED = 128,
    EMBED_NORM = 256,
    DENSE = 512,
    HEAD_NORM = 1024,
    NORM_1_BEHIND = 2048,
    NORM_2_BEHIND = 4096,
    LATENT = 8192,
    QUERY_RANK = 16384,
    MIXTURE = 32768,
    SHARED = 65536
};

static const char of_indices[] = "experts are chosen by mlp.hook_expert_weights; edit those",
                  of_weights[] = "nothing reads it again; edit attn.hook_pattern";

/* How an array lies: a row for each token, of columns, of heads or chosen experts of columns, or of one number for each vector that
 * a norm of heads has there; or for each query or key of each head. */
typedef enum point_form {
    TOKENS,
    HEADS_OF_TOKENS,
    VECTORS_OF_TOKENS,
    EXPERTS_OF_TOKENS,
    PAIRS,
    KEYS
} point_form;

typedef struct point_row {
    const char *name; /* behind "blocks.L." where the point is one of a block */
    unsigned needs;
    point_form form;
    ota_size width;    /* of all columns of a token; OTA_SIZE_NONE: 1 */
    const char *fixed; /* why it is not edited, or NULL */
} point_row;

static const point_row points[OTA_POINTS] = {
    [OTA_POINT_EMBED] = {"hook_embed", ANY, TOKENS, OTA_SIZE_EMBED, NULL},
    [OTA_POINT_POSITION] = {"hook_pos_embed", LEARNED, TOKENS, OTA_SIZE_POSITION, NULL},
    [OTA_POINT_TYPE] = {"hook_token_type_embed", TYPED, TOKENS, OTA_SIZE_EMBED, NULL},
    [OTA_POINT_FULL_EMBED] = {"hook_full_embed", EMBED_NORM, TOKENS, OTA_SIZE_EMBED, NULL},
    [OTA_POINT_RESID_PRE] = {"hook_resid_pre", ANY, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_SCALE_1] = {"ln1.hook_scale", PRE_NORM, TOKENS, OTA_SIZE_NONE, NULL},
    [OTA_POINT_NORMALIZED_1] = {"ln1.hook_normalized", PRE_NORM, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_SCALE_QUERY_LATENT] = {"attn.q_latent_norm.hook_scale", QUERY_RANK, TOKENS,
                                      OTA_SIZE_NONE, NULL},
    [OTA_POINT_QUERY_LATENT] = {"attn.hook_q_latent", QUERY_RANK, TOKENS, OTA_SIZE_QUERY_RANK,
                                NULL},
    [OTA_POINT_SCALE_KEY_LATENT] = {"attn.kv_latent_norm.hook_scale", LATENT, TOKENS, OTA_SIZE_NONE,
                                    NULL},
    [OTA_POINT_KEY_LATENT] = {"attn.hook_kv_latent", LATENT, TOKENS, OTA_SIZE_KEY_RANK, NULL},
    [OTA_POINT_QUERY] = {"attn.hook_q", ANY, HEADS_OF_TOKENS, OTA_SIZE_QUERY, NULL},
    [OTA_POINT_KEY] = {"attn.hook_k", ANY, HEADS_OF_TOKENS, OTA_SIZE_KEY, NULL},
    [OTA_POINT_VALUE] = {"attn.hook_v", ANY, HEADS_OF_TOKENS, OTA_SIZE_VALUE, NULL},
    [OTA_POINT_SCALE_QUERY] = {"attn.q_norm.hook_scale", HEAD_NORM, VECTORS_OF_TOKENS,
                               OTA_SIZE_QUERY, NULL},
    [OTA_POINT_NORMALIZED_QUERY] = {"attn.q_norm.hook_normalized", HEAD_NORM, HEADS_OF_TOKENS,
                                    OTA_SIZE_QUERY, NULL},
    [OTA_POINT_SCALE_KEY] = {"attn.k_norm.hook_scale", HEAD_NORM, VECTORS_OF_TOKENS, OTA_SIZE_KEY,
                             NULL},
    [OTA_POINT_NORMALIZED_KEY] = {"attn.k_norm.hook_normalized", HEAD_NORM, HEADS_OF_TOKENS,
                                  OTA_SIZE_KEY, NULL},
    [OTA_POINT_ROTATED_QUERY] = {"attn.hook_rot_q", ROTARY, HEADS_OF_TOKENS, OTA_SIZE_QUERY, NULL},
    [OTA_POINT_ROTATED_KEY] = {"attn.hook_rot_k", ROTARY, HEADS_OF_TOKENS, OTA_SIZE_KEY, NULL},
    [OTA_POINT_SCORES] = {"attn.hook_attn_scores", ANY, PAIRS, OTA_SIZE_NONE, NULL},
    [OTA_POINT_PATTERN] = {"attn.hook_pattern", ANY, PAIRS, OTA_SIZE_NONE, NULL},
    [OTA_POINT_RECEIVER] = {"attn.hook_receiver", ANY, KEYS, OTA_SIZE_NONE, of_weights},
    [OTA_POINT_MIXED] = {"attn.hook_z", ANY, HEADS_OF_TOKENS, OTA_SIZE_MIXED, NULL},
    [OTA_POINT_RESULT] = {"attn.hook_result", ANY, HEADS_OF_TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_SCALE_1_BEHIND] = {"ln1_post.hook_scale", NORM_1_BEHIND, TOKENS, OTA_SIZE_NONE,
                                  NULL},
    [OTA_POINT_NORMALIZED_1_BEHIND] = {"ln1_post.hook_normalized", NORM_1_BEHIND, TOKENS,
                                       OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_ATTENTION_OUT] = {"hook_attn_out", ANY, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_RESID_MID] = {"hook_resid_mid", ANY, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_SCALE_MID] = {"ln1.hook_scale", POST_NORM, TOKENS, OTA_SIZE_NONE, NULL},
    [OTA_POINT_NORMALIZED_MID] = {"hook_normalized_resid_mid", POST_NORM, TOKENS, OTA_SIZE_WIDTH,
                                  NULL},
    [OTA_POINT_SCALE_2] = {"ln2.hook_scale", PRE_NORM_2, TOKENS, OTA_SIZE_NONE, NULL},
    [OTA_POINT_NORMALIZED_2] = {"ln2.hook_normalized", PRE_NORM_2, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_ROUTER] = {"mlp.hook_router_logits", MIXTURE, TOKENS, OTA_SIZE_EXPERTS, NULL},
    [OTA_POINT_EXPERT_WEIGHTS] = {"mlp.hook_expert_weights", MIXTURE, TOKENS, OTA_SIZE_EXPERTS,
                                  NULL},
    [OTA_POINT_EXPERT_INDICES] = {"mlp.hook_expert_indices", MIXTURE, TOKENS, OTA_SIZE_CHOSEN,
                                  of_indices},
    [OTA_POINT_CHOSEN_WEIGHTS] = {"mlp.hook_chosen_weights", MIXTURE, TOKENS, OTA_SIZE_CHOSEN,
                                  NULL},
    [OTA_POINT_EXPERT_PRE] = {"mlp.experts.hook_pre", MIXTURE, EXPERTS_OF_TOKENS,
                              OTA_SIZE_EXPERT_INNER, NULL},
    [OTA_POINT_EXPERT_LINEAR] = {"mlp.experts.hook_pre_linear", MIXTURE, EXPERTS_OF_TOKENS,
                                 OTA_SIZE_EXPERT_INNER, NULL},
    [OTA_POINT_EXPERT_POST] = {"mlp.experts.hook_post", MIXTURE, EXPERTS_OF_TOKENS,
                               OTA_SIZE_EXPERT_INNER, NULL},
    [OTA_POINT_EXPERT_OUT] = {"mlp.experts.hook_out", MIXTURE, EXPERTS_OF_TOKENS, OTA_SIZE_WIDTH,
                              NULL},
    [OTA_POINT_SHARED_PRE] = {"mlp.shared.hook_pre", SHARED, TOKENS, OTA_SIZE_SHARED_INNER, NULL},
    [OTA_POINT_SHARED_LINEAR] = {"mlp.shared.hook_pre_linear", SHARED, TOKENS,
                                 OTA_SIZE_SHARED_INNER, NULL},
    [OTA_POINT_SHARED_POST] = {"mlp.shared.hook_post", SHARED, TOKENS, OTA_SIZE_SHARED_INNER, NULL},
    [OTA_POINT_SHARED_OUT] = {"mlp.shared.hook_out", SHARED, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_MLP_PRE] = {"mlp.hook_pre", DENSE, TOKENS, OTA_SIZE_INNER, NULL},
    [OTA_POINT_MLP_LINEAR] = {"mlp.hook_pre_linear", GATED | DENSE, TOKENS, OTA_SIZE_INNER, NULL},
    [OTA_POINT_MLP_POST] = {"mlp.hook_post", DENSE, TOKENS, OTA_SIZE_INNER, NULL},
    [OTA_POINT_SCALE_2_BEHIND] = {"ln2_post.hook_scale", NORM_2_BEHIND, TOKENS, OTA_SIZE_NONE,
                                  NULL},
    [OTA_POINT_NORMALIZED_2_BEHIND] = {"ln2_post.hook_normalized", NORM_2_BEHIND, TOKENS,
                                       OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_MLP_OUT] = {"hook_mlp_out", ANY, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_RESID_POST] = {"hook_resid_post", ANY, TOKENS, OTA_SIZE_WIDTH, NULL},
    [OTA_POINT_SCALE_POST] = {"ln2.hook_scale", POST_NORM, TOKENS, OTA_SIZE_NONE, NULL},
    [OTA_POINT_NORMALIZED_POST] = {"hook_normalized_resid_post", POST_NORM, TOKENS, OTA_SIZE_WIDTH,
                                   NULL},
    [OTA_POINT_FINAL_SCALE] = {"ln_final.hook_scale", FINAL_NORM, TOKENS, OTA_SIZE_NONE, NULL},
    [OTA_POINT_FINAL] = {"ln_final.hook_normalized", FINAL_NORM, TOKENS, OTA_SIZE_WIDTH, NULL},
};

static bool in_block(ota_point point) {
    return point >= OTA_POINT_RESID_PRE && point < OTA_POINT_FINAL_SCALE;
}

static bool exists(const ota_model *model, ota_point point, int64_t layer) {
    const ota_architecture *row = model->architecture;
    const ota_weight *block = model->blocks[layer].weights, *whole = model->weights;
    const bool post = model->config.form.post_norm;
    const struct {
        unsigned need;
        bool met;
    } needs[] = {
        {POST_NORM, post},
        {PRE_NORM, !post && ota_weight_present(&block[OTA_NORM_1])},
        {PRE_NORM_2, !post && ota_weight_present(&block[OTA_NORM_2])},
        {HEAD_NORM, ota_weight_present(&block[OTA_QUERY_NORM])},
        {NORM_1_BEHIND, ota_weight_present(&block[OTA_NORM_1_BEHIND])},
        {NORM_2_BEHIND, ota_weight_present(&block[OTA_NORM_2_BEHIND])},
        {LATENT, ota_weight_present(&block[OTA_LATENT])},
        {QUERY_RANK, ota_weight_present(&block[OTA_QUERY_DOWN])},
        {FINAL_NORM, ota_weight_present(&whole[OTA_FINAL_NORM])},
        {ROTARY, ota_architecture_has(row, OTA_ARCH_ROTARY)},
        {TYPED, ota_weight_present(&whole[OTA_TYPE])},
        {EMBED_NORM, ota_weight_present(&whole[OTA_EMBED_NORM])},
        {LEARNED, ota_weight_present(&whole[OTA_POSITION])},
        {MIXTURE, ota_config_is_mixture(&model->config, layer)},
        {SHARED, ota_weight_present(&block[OTA_SHARED_UP])},
        {DENSE, !ota_config_is_mixture(&model->config, layer)},
        {GATED, model->config.matrices.gated},
    };
    unsigned has = 0;
    for (size_t k = 0; k < sizeof needs / sizeof *needs; k++)
        if (needs[k].met) has |= needs[k].need;
    return (points[point].needs & ~has) == 0;
}

void ota_session_name(ota_point point, int64_t layer, char *name, size_t size) {
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
        if (exists(model, (ota_point)p, 0) && visit(context, (ota_point)p, 0)) return;
    for (int64_t layer = 0; layer < model->config.layers; layer++)
        for (int p = OTA_POINT_RESID_PRE; p < OTA_POINT_FINAL_SCALE; p++)
            if (exists(model, (ota_point)p, layer) && visit(context, (ota_point)p, layer)) return;
    for (int p = OTA_POINT_FINAL_SCALE; p < OTA_POINTS; p++)
        if (exists(model, (ota_point)p, 0) && visit(context, (ota_point)p, 0)) return;
}

/* ---- shapes ---- */

static int64_t heads_of(const ota_model *model, ota_point point) {
    const ota_config *config = &model->config;
    const ota_size width = points[point].width;
    if (points[point].form == TOKENS) return 1;
    if (points[point].form == EXPERTS_OF_TOKENS) return config->experts.chosen;
    if (points[point].form == VECTORS_OF_TOKENS) {
        const ota_role norm = width == OTA_SIZE_KEY ? OTA_KEY_NORM : OTA_QUERY_NORM;
        return config->sizes[width] / model->blocks->weights[norm].columns;
    }
    return width == OTA_SIZE_KEY || width == OTA_SIZE_VALUE ? config->kv_heads : config->heads;
}

static int64_t columns_of(const ota_model *model, ota_point point) {
    const ota_size width = points[point].width;
    const int64_t size = model->config.sizes[width];
    /* Each head's own, if there are heads. */
    if (width == OTA_SIZE_WIDTH || points[point].form == EXPERTS_OF_TOKENS) return size;
    if (width == OTA_SIZE_NONE || points[point].form == VECTORS_OF_TOKENS) return 1;
    return size / heads_of(model, point);
}

int ota_session_axis(ota_point point, int k) {
    static const int axes[][4] = {[TOKENS] = {1, 2, -1, 3},
                                  [HEADS_OF_TOKENS] = {0, 1, 2, 3},
                                  [VECTORS_OF_TOKENS] = {0, 1, 2, 3},
                                  [EXPERTS_OF_TOKENS] = {0, 1, 2, 3},
                                  [PAIRS] = {0, 2, 1, 3},
                                  [KEYS] = {1, -1, 2, 3}};
    return axes[points[point].form][k];
}

static int rank_of(ota_point point) {
    return points[point].form == TOKENS || points[point].form == KEYS ? 3 : 4;
}

/* Sequences, tokens, heads and columns, as dimensions of the array that is handed over. */
static void shape_point(ota_point point, const int64_t size[4], int *rank, int64_t shape[4]) {
    *rank = rank_of(point);
    for (int k = 0; k < 4; k++) {
        const int axis = ota_session_axis(point, k);
        if (axis >= 0) shape[axis - (4 - *rank)] = size[k];
    }
    if (*rank == 3) shape[3] = 0;
}

static void sizes_of(const ota_model *model, ota_point point, const int64_t run[3],
                     int64_t size[4]) {
    const bool pairs = points[point].form == PAIRS || points[point].form == KEYS;
    size[0] = run[0];
    size[1] = run[1];
    size[2] = heads_of(model, point);
    size[3] = pairs ? run[2] : columns_of(model, point);
}

void ota_session_sizes(const ota_session *s, ota_point point, int64_t size[4]) {
    const ota_model_run *run = s->run.now;
    sizes_of(s->model, point,
             (int64_t[]){run->batch, run->count, run->first > 0 ? s->options.cache : run->count},
             size);
}

const char *ota_session_fixed(ota_point point) { return points[point].fixed; }

static int64_t layer_of(const ota_model *model, ota_point point, int64_t layer) {
    if (in_block(point)) return layer;
    return point < OTA_POINT_RESID_PRE ? -1 : model->config.layers;
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
    ota_session_name(point, layer, s->out->name, sizeof s->out->name);
    int64_t size[4];
    s->out->layer = layer_of(s->model, point, layer);
    sizes_of(s->model, point, (int64_t[]){s->batch, s->count, s->count}, size);
    shape_point(point, size, &s->out->rank, s->out->shape);
    return s->found = true;
}

int ota_model_point(const ota_model *model, int64_t index, int64_t batch, int64_t count,
                    ota_capture_point *point) {
    search s = {.model = model, .left = index, .batch = batch, .count = count, .out = point};
    if (index >= 0) visit_points(model, count_point, &s);
    return s.found;
}

/* ---- by name ---- */

typedef struct naming {
    const ota_model *model;
    const char *name;
    ota_point point;
    int64_t layer;
    bool found;
} naming;

static bool compare_name(void *context, ota_point point, int64_t layer) {
    naming *n = context;
    char name[128];
    ota_session_name(point, layer, name, sizeof name);
    if (strcmp(name, n->name) == 0) {
        n->layer = layer;
    } else {
        if (!in_block(point) || strcmp(points[point].name, n->name) != 0) return false;
        n->layer = -1;
    }
    n->point = point;
    return n->found = true;
}

bool ota_session_find_point(const ota_session *s, const char *name, ota_point *point,
                            int64_t *layer) {
    naming n = {.model = s->model, .name = name};
    visit_points(s->model, compare_name, &n);
    *point = n.point;
    *layer = n.layer;
    return n.found;
}

/* ---- during a run ---- */

static unsigned char *marks(const ota_session *s, ota_point point, int64_t layer) {
    return &s->run.points[layer * OTA_POINTS + (int64_t)point];
}

/* Does the run meet it? */
static bool is_met(const ota_session *s, ota_point point, int64_t layer) {
    if (s->run.now->residual != NULL && point < OTA_POINT_RESID_PRE) return false;
    return !in_block(point) || layer >= s->run.now->start_layer;
}

static bool ask(void *context, ota_point point, int64_t layer) {
    ota_session *s = context;
    char name[128];
    if (!is_met(s, point, layer)) return false;
    ota_session_name(point, layer, name, sizeof name);
    if (s->run.now->wanted(s->run.now->user, name) != 0)
        *marks(s, point, layer) |= OTA_POINT_WANTED;
    return false;
}

static bool mark_edit(void *context, ota_point point, int64_t layer) {
    ota_session *s = context;
    for (int64_t k = 0; k < s->run.edits.count; k++) {
        const ota_bound_edit *edit = &s->run.edits.items[k];
        if (edit->point == point && (edit->layer < 0 || edit->layer == layer) &&
            is_met(s, point, layer))
            *marks(s, point, layer) |= OTA_POINT_EDITED;
    }
    return false;
}

/* Is every edit of a point that the run meets? */
static ota_status check_edits(const ota_session *s) {
    for (int64_t k = 0; k < s->run.edits.count; k++) {
        const ota_bound_edit *edit = &s->run.edits.items[k];
        const int64_t layer = edit->layer < 0 ? s->model->config.layers - 1 : edit->layer;
        if (is_met(s, edit->point, layer)) continue;
        (void)ota_refuse(s->run.error, OTA_EINVAL, "the run begins behind %.90s", edit->edit.point);
        return ota_advise(s->run.error, OTA_EINVAL, "edit the residual stream that it begins with");
    }
    return OTA_OK;
}

ota_status ota_session_capture_begin(ota_session *s) {
    memset(s->run.points, 0, (size_t)(s->model->config.layers * OTA_POINTS));
    if (s->run.now->wanted != NULL && s->run.now->capture != NULL) visit_points(s->model, ask, s);
    const ota_status status = ota_session_edits_begin(s);
    if (status != OTA_OK) return status;
    visit_points(s->model, mark_edit, s);
    return check_edits(s);
}

bool ota_session_wants(const ota_session *s, ota_point point, int64_t layer) {
    return (*marks(s, point, layer) & OTA_POINT_WANTED) != 0;
}

bool ota_session_edits(const ota_session *s, ota_point point, int64_t layer) {
    return (*marks(s, point, layer) & OTA_POINT_EDITED) != 0;
}

ota_status ota_session_hand_over(ota_session *s, ota_point point, int64_t layer,
                                 ota_capture *block) {
    char name[128];
    int64_t size[4];
    const int64_t heads = block->shape[1];
    ota_session_name(point, layer, name, sizeof name);
    block->name = name;
    ota_session_sizes(s, point, size);
    if (heads > 0) size[2] = heads;
    shape_point(point, size, &block->rank, block->shape);
    block->layer = layer_of(s->model, point, layer);
    return s->run.now->capture(s->run.now->user, block, s->run.error);
}

ota_status ota_session_capture(ota_session *s, ota_point point, int64_t layer, float *data,
                               int64_t stride) {
    int64_t size[4];
    ota_status status = OTA_OK;
    if (*marks(s, point, layer) == 0) return OTA_OK;
    ota_session_sizes(s, point, size);
    const int64_t width = size[2] * size[3], rows = size[0] * size[1];
    if (ota_session_edits(s, point, layer)) {
        const ota_part part = {.first = {0, s->run.now->first, 0, 0},
                               .size = {size[0], size[1], size[2], size[3]},
                               .stride = {size[1] * stride, stride, size[3], 1},
                               .data = data};
        ota_session_edit(s, point, layer, &part);
    }
    if (!ota_session_wants(s, point, layer)) return OTA_OK;
    const int64_t most = s->run.now->block_rows > 0 ? s->run.now->block_rows : rows;
    for (int64_t first = 0; status == OTA_OK && first < rows; first += most) {
        ota_capture block = {.data = data + first * stride,
                             .first_row = first,
                             .rows = ota_int_min(most, rows - first),
                             .columns = width,
                             .sequence = first / size[1],
                             .head = -1,
                             .token = first % size[1]};
        if (stride != width) {
            for (int64_t i = 0; i < block.rows; i++)
                memcpy(s->buffers.spare + i * width, block.data + i * stride,
                       (size_t)width * sizeof *data);
            block.data = s->buffers.spare;
        }
        status = ota_session_hand_over(s, point, layer, &block);
    }
    return status;
}
