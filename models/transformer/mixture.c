/* MLPs of a mixture: a router weighs the experts, and every token has those of the largest weights.
 *
 *   p = softmax(R x);  y = sum over the chosen k of p_k down_k (act(gate_k x) * up_k x), p over their sum where it is to be 1
 *
 * Where the configuration has a limit L and a slope a, act(g) * u is (u + 1) g / (1 + exp(-a g)) with g up to L, u within -L to L.
 * Experts are taken in order, each with the rows that chose it, so a row's sum has the same order for any number of threads and in
 * any batch. */
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The row's largest weights, of equal ones the first. `p` is spent. */
static void choose(const ota_config *config, float *p, int64_t *chosen, float *taken) {
    const int64_t experts = config->sizes[OTA_SIZE_EXPERTS], count = config->experts.chosen;
    float top = p[0], sum = 0, kept = 0;
    for (int64_t k = 1; k < experts; k++) top = p[k] > top ? p[k] : top;
    for (int64_t k = 0; k < experts; k++) sum += p[k] = expf(p[k] - top);
    for (int64_t i = 0; i < count; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < experts; k++)
            if (p[k] > p[best]) best = k;
        chosen[i] = best;
        taken[i] = p[best] / sum;
        kept += taken[i];
        p[best] = -1;
    }
    for (int64_t i = 0; config->experts.normalised && i < count; i++) taken[i] /= kept;
}

/* Rows that chose the expert, and with what weights; returns how many. */
static int64_t gather(ota_session *s, int64_t expert, const float *input, int64_t rows) {
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t count = s->model->config.experts.chosen;
    ota_mixture *m = &s->mixture;
    int64_t found = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < count; k++) {
            if (m->chosen[i * count + k] != expert) continue;
            m->list[found] = i;
            m->weights[found] = m->taken[i * count + k];
            memcpy(m->gathered + found++ * width, input + i * width, (size_t)width * sizeof *input);
        }
    return found;
}

static void activate_limited(ota_session *s, int64_t count) {
    const float limit = (float)s->model->config.experts.limit;
    const float slope = (float)s->model->config.experts.slope;
    for (int64_t k = 0; k < count; k++) {
        const float gate = fminf(s->buffers.inner[k], limit);
        const float up = fmaxf(fminf(s->buffers.gate[k], limit), -limit);
        s->buffers.inner[k] = (up + 1) * gate / (1 + expf(-slope * gate));
    }
}

static void run_expert(ota_session *s, const ota_block *block, int64_t expert, int64_t rows) {
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t inner = ota_model_size(s->model, OTA_SIZE_EXPERT_INNER);
    const ota_weight *w = ota_expert_weight(block, expert, OTA_EXPERT_UP);
    enum {
        GATE = OTA_EXPERT_GATE - OTA_EXPERT_UP,
        DOWN = OTA_EXPERT_DOWN - OTA_EXPERT_UP,
        MERGED = OTA_EXPERT_MERGED - OTA_EXPERT_UP
    };
    ota_mixture *m = &s->mixture;
    if (ota_weight_present(&w[MERGED])) {
        ota_linear(s, &w[MERGED], &w[MERGED + 1], m->gathered, width, rows, m->merged, 2 * inner);
        for (int64_t k = 0; k < rows * inner; k++) {
            s->buffers.inner[k] = m->merged[2 * k];
            s->buffers.gate[k] = m->merged[2 * k + 1];
        }
    } else {
        ota_linear(s, &w[0], &w[1], m->gathered, width, rows, s->buffers.gate, inner);
        ota_linear(s, &w[GATE], &w[GATE + 1], m->gathered, width, rows, s->buffers.inner, inner);
    }
    if (s->model->config.experts.limit > 0)
        activate_limited(s, rows * inner);
    else
        ota_session_activate(s, s->model->config.activation, s->buffers.gate, s->buffers.inner,
                             rows, inner);
    ota_linear(s, &w[DOWN], &w[DOWN + 1], s->buffers.inner, inner, rows, m->gathered, width);
    for (int64_t i = 0; i < rows; i++) {
        float *sum = m->sum + m->list[i] * width;
        for (int64_t j = 0; j < width; j++) sum[j] += m->weights[i] * m->gathered[i * width + j];
    }
}

void ota_session_mixture(ota_session *s, int64_t layer, const float *input, int64_t rows,
                         float *out) {
    const ota_block *block = &s->model->blocks[layer];
    const ota_config *config = &s->model->config;
    const int64_t width = config->sizes[OTA_SIZE_WIDTH], experts = config->sizes[OTA_SIZE_EXPERTS];
    const int64_t count = config->experts.chosen;
    ota_mixture *m = &s->mixture;
    ota_linear(s, &block->weights[OTA_ROUTER], &block->weights[OTA_ROUTER_BIAS], input, width, rows,
               m->router, experts);
    for (int64_t i = 0; i < rows; i++)
        choose(config, m->router + i * experts, m->chosen + i * count, m->taken + i * count);
    memset(m->sum, 0, (size_t)(rows * width) * sizeof *m->sum);
    for (int64_t k = 0; k < experts && ota_session_interrupted(s) == OTA_OK; k++) {
        const int64_t found = gather(s, k, input, rows);
        if (found > 0) run_expert(s, block, k, found);
    }
    memcpy(out, m->sum, (size_t)(rows * width) * sizeof *out);
}

ota_status ota_session_mixture_create(ota_session *s, ota_error *error) {
    const ota_config *config = &s->model->config;
    const int64_t rows = s->options.batch * s->options.tokens;
    const int64_t width = config->sizes[OTA_SIZE_WIDTH], experts = config->sizes[OTA_SIZE_EXPERTS];
    const int64_t count = config->experts.chosen;
    ota_mixture *m = &s->mixture;
    if (experts == 0) return OTA_OK;
    const bool merged =
        ota_weight_present(ota_expert_weight(s->model->blocks, 0, OTA_EXPERT_MERGED));
    const int64_t room = merged ? config->sizes[OTA_SIZE_EXPERT_MERGED] : 0;
    const size_t floats = (size_t)rows * (size_t)(experts + count + 1 + 2 * width + room);
    const size_t integers = (size_t)rows * (size_t)(count + 1);
    m->floats = calloc(floats, sizeof *m->floats);
    m->chosen = calloc(integers, sizeof *m->chosen);
    if (m->floats == NULL || m->chosen == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for the rows of experts");
    s->bytes += floats * sizeof *m->floats + integers * sizeof *m->chosen;
    m->router = m->floats;
    m->taken = m->router + rows * experts;
    m->weights = m->taken + rows * count;
    m->gathered = m->weights + rows;
    m->sum = m->gathered + rows * width;
    m->merged = m->sum + rows * width;
    m->list = m->chosen + rows * count;
    return OTA_OK;
}

void ota_session_free_mixture(ota_session *s) {
    free(s->mixture.floats);
    free(s->mixture.chosen);
    s->mixture = (ota_mixture){0};
}
