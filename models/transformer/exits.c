/* Selective computation [TOT-119]: a token stops behind the block where
 *
 *     p_max = 1 / sum_w exp(logit_w - max logit) > threshold
 *
 * has held behind as many blocks in a row as the run sets; or, where the run gives targets, behind the block where its
 * likeliest token has been its target. Its state [width] is kept: layers that it does not
 * reach make its key and value from it, so what other tokens see is what a run token by token shows them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

enum { ROWS = 16 }; /* of logits at a time */

static void *make(ota_session *s, int64_t rows, int64_t columns, size_t size) {
    size_t count;
    if (__builtin_mul_overflow((size_t)rows, (size_t)columns, &count)) return NULL;
    void *made = calloc(count, size);
    if (made != NULL) s->bytes += count * size;
    return made;
}

ota_status ota_session_exits_begin(ota_session *s) {
    ota_exits *e = &s->run.exits;
    const int64_t most = s->options.batch * s->options.tokens;
    const int64_t rows = s->run.now->batch * s->run.now->count;
    if (e->layers == NULL) {
        ota_session_free_exits(s);
        e->states = make(s, most, ota_model_size(s->model, OTA_SIZE_WIDTH), sizeof *e->states);
        e->logits = make(s, ROWS, ota_model_size(s->model, OTA_SIZE_VOCABULARY), sizeof *e->logits);
        e->streak = make(s, most, 1, sizeof *e->streak);
        e->layers = make(s, most, 1, sizeof *e->layers);
    }
    if (e->states == NULL || e->logits == NULL || e->streak == NULL || e->layers == NULL)
        return ota_refuse(s->run.error, OTA_ENOMEM, "no memory is left for tokens that stop early");
    memset(e->streak, 0, (size_t)rows * sizeof *e->streak);
    for (int64_t i = 0; i < rows; i++) e->layers[i] = s->model->config.layers;
    e->running = rows;
    return OTA_OK;
}

void ota_session_free_exits(ota_session *s) {
    free(s->run.exits.states);
    free(s->run.exits.logits);
    free(s->run.exits.streak);
    free(s->run.exits.layers);
    s->run.exits = (ota_exits){0};
}

/* Would token `row` of the run stop behind one such block? */
static bool is_settled(const ota_model_run *run, int64_t row, const float *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t k = 1; k < count; k++) best = logits[k] > logits[best] ? k : best;
    if (run->exit_targets != NULL) return best == run->exit_targets[row];
    double sum = 0;
    for (int64_t k = 0; k < count; k++) sum += (double)expf(logits[k] - logits[best]);
    return 1 / sum > run->exit_threshold;
}

/* Tokens `rows` of the run, whose states stand one behind another in `spare`. */
static ota_status judge(ota_session *s, const int64_t *rows, int64_t count, int64_t layer) {
    ota_exits *e = &s->run.exits;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t words = ota_model_size(s->model, OTA_SIZE_VOCABULARY);
    const int64_t wanted = s->run.now->exit_transitions > 1 ? s->run.now->exit_transitions : 1;
    const ota_status status =
        ota_session_logits(s, s->buffers.spare, count, 1, e->logits, s->run.error);
    for (int64_t k = 0; status == OTA_OK && k < count; k++) {
        const int64_t row = rows[k];
        const bool settled = is_settled(s->run.now, row, e->logits + k * words, words);
        e->streak[row] = settled ? e->streak[row] + 1 : 0;
        if (e->streak[row] < wanted) continue;
        memcpy(e->states + row * width, s->buffers.residual + row * width,
               (size_t)width * sizeof *s->buffers.residual);
        e->layers[row] = layer + 1;
        e->running--;
    }
    return status;
}

ota_status ota_session_exits_stop(ota_session *s, int64_t layer) {
    ota_exits *e = &s->run.exits;
    const int64_t layers = s->model->config.layers, all = s->run.now->batch * s->run.now->count;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const size_t bytes = (size_t)width * sizeof *s->buffers.residual;
    int64_t rows[ROWS], count = 0;
    ota_status status = OTA_OK;
    for (int64_t i = 0; status == OTA_OK && i < all; i++) {
        if (e->layers[i] < layers) {
            memcpy(s->buffers.residual + i * width, e->states + i * width, bytes);
        } else if (layer + 1 < layers) {
            memcpy(s->buffers.spare + count * width, s->buffers.residual + i * width, bytes);
            rows[count++] = i;
        }
        if (count == ROWS || (count > 0 && i + 1 == all)) {
            status = judge(s, rows, count, layer);
            count = 0;
        }
    }
    return status;
}
