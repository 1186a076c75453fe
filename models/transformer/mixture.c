/* MLPs of a mixture: a router weighs the experts, and every token has those of the largest weights.
 *
 *   p = softmax(R x) or 1 / (1 + exp(-R x));  y = sum over the chosen k of p_k down_k (act(gate_k x) * up_k x), p over their sum where
 *   it is to be 1, times a factor;  plus the shared MLP of x, times 1 / (1 + exp(-w x)) where there is such a w
 *
 * Chosen are the largest p + correction; where experts come in groups, of those groups whose largest add up to most.
 *
 * Where the configuration has a limit L and a slope a, act(g) * u is (u + 1) g / (1 + exp(-a g)) with g up to L, u within -L to L.
 * Experts are taken in order, each with the rows that chose it, so a row's sum has the same order for any number of threads and in
 * any batch. */
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 1024 };

/* The place of the largest, of equal ones the first. */
static int64_t largest(const float *x, int64_t count) {
    int64_t best = 0;
    for (int64_t k = 1; k < count; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

/* A group's largest, or its two largest together. */
static float group_worth(const float *ranked, int64_t size, bool two) {
    float first = -INFINITY, second = -INFINITY;
    for (int64_t k = 0; k < size; k++) {
        if (ranked[k] > first) {
            second = first;
            first = ranked[k];
        } else if (ranked[k] > second) {
            second = ranked[k];
        }
    }
    return two ? first + second : first;
}

/* Experts of all but the worthiest groups fall out. */
static void leave_groups(const ota_expert_config *e, float *ranked, int64_t experts) {
    float worth[MOST_GROUPS];
    bool kept[MOST_GROUPS] = {false};
    const int64_t size = experts / e->groups;
    for (int64_t g = 0; g < e->groups; g++)
        worth[g] = group_worth(ranked + g * size, size, e->group_best == 2);
    for (int64_t i = 0; i < e->groups_chosen; i++) {
        const int64_t best = largest(worth, e->groups);
        kept[best] = true;
        worth[best] = -INFINITY;
    }
    for (int64_t k = 0; k < experts; k++)
        if (!kept[k / size]) ranked[k] = -INFINITY;
}

/* The row's experts and their weights. `p` is spent. */
static void choose(const ota_session *s, const ota_weight *correction, float *p, int64_t *chosen,
                   float *taken) {
    const ota_config *config = &s->model->config;
    const ota_expert_config *e = &config->experts;
    const int64_t experts = config->sizes[OTA_SIZE_EXPERTS];
    float *ranked = s->mixture.ranked, sum = 0, kept = 0;
    const float top = p[largest(p, experts)];
    for (int64_t k = 0; k < experts; k++)
        p[k] = e->sigmoid ? 1 / (1 + expf(-p[k])) : expf(p[k] - top);
    for (int64_t k = 0; k < experts; k++) sum += p[k];
    for (int64_t k = 0; k < experts; k++)
        ranked[k] = ota_weight_present(correction) ? p[k] + correction->values[k] : p[k];
    if (e->groups > 0) leave_groups(e, ranked, experts);
    for (int64_t i = 0; i < e->chosen; i++) {
        const int64_t best = chosen[i] = largest(ranked, experts);
        taken[i] = e->sigmoid ? p[best] : p[best] / sum;
        kept += taken[i];
        ranked[best] = -INFINITY;
    }
    for (int64_t i = 0; e->normalised && i < e->chosen; i++) taken[i] /= kept;
    for (int64_t i = 0; e->factor != 0 && i < e->chosen; i++) taken[i] *= (float)e->factor;
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

/* sum += the MLP that every token has */
static void add_shared(ota_session *s, const ota_weight *w, const float *input, int64_t rows) {
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t inner = ota_model_size(s->model, OTA_SIZE_SHARED_INNER);
    ota_mixture *m = &s->mixture;
    ota_linear(s, &w[OTA_SHARED_UP], &w[OTA_SHARED_UP_BIAS], input, width, rows, s->buffers.gate,
               inner);
    ota_linear(s, &w[OTA_SHARED_GATE], &w[OTA_SHARED_GATE_BIAS], input, width, rows,
               s->buffers.inner, inner);
    ota_session_activate(s, s->model->config.activation, s->buffers.gate, s->buffers.inner, rows,
                         inner);
    ota_linear(s, &w[OTA_SHARED_DOWN], &w[OTA_SHARED_DOWN_BIAS], s->buffers.inner, inner, rows,
               m->gathered, width);
    const bool weighed = ota_weight_present(&w[OTA_SHARED_ROUTER]);
    if (weighed) ota_linear(s, &w[OTA_SHARED_ROUTER], NULL, input, width, rows, m->weights, 1);
    for (int64_t i = 0; i < rows; i++) {
        const float weight = weighed ? 1 / (1 + expf(-m->weights[i])) : 1;
        for (int64_t j = i * width; j < (i + 1) * width; j++) m->sum[j] += weight * m->gathered[j];
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
        choose(s, &block->weights[OTA_ROUTER_CORRECTION], m->router + i * experts,
               m->chosen + i * count, m->taken + i * count);
    memset(m->sum, 0, (size_t)(rows * width) * sizeof *m->sum);
    for (int64_t k = 0; k < experts && ota_session_interrupted(s) == OTA_OK; k++) {
        const int64_t found = gather(s, k, input, rows);
        if (found > 0) run_expert(s, block, k, found);
    }
    if (ota_weight_present(&block->weights[OTA_SHARED_UP]))
        add_shared(s, block->weights, input, rows);
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
    const size_t floats =
        (size_t)rows * (size_t)(experts + count + 1 + 2 * width + room) + (size_t)experts;
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
    m->ranked = m->merged + rows * room;
    m->list = m->chosen + rows * count;
    return OTA_OK;
}

void ota_session_free_mixture(ota_session *s) {
    free(s->mixture.floats);
    free(s->mixture.chosen);
    s->mixture = (ota_mixture){0};
}
