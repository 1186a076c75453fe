/* The residual stream in front of the first block: tables of words, positions and types, or pieces of an image. */
#include "session.h"

#include <string.h>

static void embed_row(const ota_session *s, ota_role role, int64_t row, float *out) {
    const ota_weight *w = &s->model->weights[role];
    s->ops->decode[ota_element_index(w->type)](
        w->data + row * (w->columns / w->type->block * w->type->bytes), out, w->columns);
    const double multiplier = s->model->config.factors.embedding;
    if (role != OTA_EMBED || multiplier == 0 || multiplier == 1) return;
    const float factor = (float)multiplier;
    for (int64_t k = 0; k < w->columns; k++) out[k] *= factor;
}

static int64_t row_index(const ota_session *s, ota_role role, int64_t token) {
    if (role == OTA_EMBED) return s->run.now->ids[token];
    if (role == OTA_TYPE) return s->run.now->types != NULL ? s->run.now->types[token] : 0;
    return s->model->config.first_position + s->run.now->first + token % s->run.now->count;
}

/* x of `from` numbers a token -> x of `to`, where the two differ. */
static void widen(ota_session *s, int64_t from, int64_t to, int64_t rows) {
    const ota_weight *w = &s->model->weights[OTA_EMBED_PROJECT];
    if (from == to) return;
    memcpy(s->buffers.branch, s->buffers.residual, (size_t)(rows * from) * sizeof(float));
    ota_linear(s, w, w + 1, s->buffers.branch, from, rows, s->buffers.residual, to);
}

/* Piece `index` of an image, channel by channel, row by row. */
static void copy_piece(const ota_session *s, const float *pixels, int64_t index, float *to) {
    const ota_image_config *image = &s->model->config.image;
    const int64_t side = image->side, patch = image->patch, across = side / patch;
    const float *from = pixels + (index / across) * patch * side + index % across * patch;
    for (int64_t c = 0; c < image->channels; c++)
        for (int64_t y = 0; y < patch; y++, to += patch)
            memcpy(to, from + (c * side + y) * side, (size_t)patch * sizeof *to);
}

/* x = (class, A pieces + a) of every image */
static void embed_images(ota_session *s, int64_t width) {
    const ota_image_config *image = &s->model->config.image;
    const ota_weight *w = s->model->weights;
    const int64_t piece = ota_model_size(s->model, OTA_SIZE_PATCH), count = s->run.now->count;
    float *pieces = s->buffers.pieces;
    for (int64_t b = 0; b < s->run.now->batch; b++) {
        const float *pixels = s->run.now->pixels + b * image->channels * image->side * image->side;
        float *to = s->buffers.residual + b * count * width;
        for (int64_t i = 0; i < count - 1; i++) copy_piece(s, pixels, i, pieces + i * piece);
        memcpy(to, w[OTA_CLASS].values, (size_t)width * sizeof *to);
        ota_linear(s, &w[OTA_PATCH], &w[OTA_PATCH_BIAS], pieces, piece, count - 1, to + width,
                   width);
    }
}

/* x = the sum of the tables the model has, each captured by itself; narrow ones are widened when they must be. */
ota_status ota_session_embed(ota_session *s) {
    static const struct {
        ota_role role;
        ota_point point;
        ota_size width;
    } tables[] = {{OTA_EMBED, OTA_POINT_EMBED, OTA_SIZE_EMBED},
                  {OTA_POSITION, OTA_POINT_POSITION, OTA_SIZE_POSITION},
                  {OTA_TYPE, OTA_POINT_TYPE, OTA_SIZE_EMBED}};
    const int64_t rows = s->run.now->batch * s->run.now->count;
    int64_t width = ota_model_size(s->model, OTA_SIZE_EMBED);
    for (int k = 0; k < 3; k++) {
        const int64_t own = ota_model_size(s->model, tables[k].width);
        if (!ota_weight_present(&s->model->weights[tables[k].role])) continue;
        widen(s, width, own, rows);
        width = own;
        float *to = k == 0 ? s->buffers.residual : s->buffers.branch;
        const bool sees = k == 0 && ota_weight_present(&s->model->weights[OTA_PATCH]);
        if (sees) embed_images(s, width);
        for (int64_t i = 0; !sees && i < rows; i++)
            embed_row(s, tables[k].role, row_index(s, tables[k].role, i), to + i * width);
        const ota_status status = ota_session_capture(s, tables[k].point, 0, to, width);
        if (status != OTA_OK) return status;
        if (k > 0) ota_session_add(s, s->buffers.residual, s->buffers.branch, rows, width);
    }
    ota_status status = OTA_OK;
    if (ota_weight_present(&s->model->weights[OTA_EMBED_NORM])) {
        ota_session_normalise(s, &s->model->weights[OTA_EMBED_NORM], s->buffers.residual,
                              s->buffers.residual, rows);
        status = ota_session_capture(s, OTA_POINT_FULL_EMBED, 0, s->buffers.residual, width);
    }
    widen(s, width, ota_model_size(s->model, OTA_SIZE_WIDTH), rows);
    return status;
}
