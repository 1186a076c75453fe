/* MLPs of a mixture: a router weighs the experts, and every token has those of the largest weights.
 *
 *   p = softmax(R x) or 1 / (1 + exp(-R x));  y = sum over the chosen k of p_k down_k (act(gate_k x) * up_k x), p over their sum where
 *   it is to be 1, times a factor;  plus the shared MLP of x, times 1 / (1 + exp(-w x)) where there is such a w
 *
 * Chosen are the largest p + correction; where experts come in groups, of those groups whose largest add up to most.
 *
 * Where the configuration has a limit L and a slope a, act(g) * u is (u + 1) g / (1 + exp(-a g)) with g up to L, u within -L to L.
 * Rows of a pass are sorted by their experts, a slot for each choice, so the products of all experts run side by side; a row then adds
 * its slots in the order of its experts. So sums have one order for any number of threads. */
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 1024, ROWS_PER_TASK = 8 };
/* Rows of one pass: at least so many, or as many as so many floats of slots are for. */
enum { PASS_ROWS = 64, PASS_FLOATS = 1 << 25 };

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

/* ---- the choice ---- */

/* The row's experts and their weights, by what the router makes of all experts. */
static void choose(const ota_session *s, const ota_weight *correction, const float *p,
                   int64_t *chosen, float *taken, float *ranked) {
    const ota_config *config = &s->model->config;
    const ota_expert_config *e = &config->experts;
    const int64_t experts = config->sizes[OTA_SIZE_EXPERTS];
    float kept = 0;
    for (int64_t k = 0; k < experts; k++)
        ranked[k] = ota_weight_present(correction) ? p[k] + correction->values[k] : p[k];
    if (e->groups > 0) leave_groups(e, ranked, experts);
    for (int64_t i = 0; i < e->chosen; i++) {
        const int64_t best = chosen[i] = largest(ranked, experts);
        taken[i] = p[best];
        kept += taken[i];
        ranked[best] = -INFINITY;
    }
    for (int64_t i = 0; e->normalised && i < e->chosen; i++) taken[i] /= kept;
    for (int64_t i = 0; e->factor != 0 && i < e->chosen; i++) taken[i] *= (float)e->factor;
}

/* Rows first ... first + rows - 1 of the run in one layer. */
typedef struct mixture_pass {
    ota_session *session;
    int64_t layer, first, rows;
    const float *input; /* of the first of them */
    float *data;        /* an array of slots */
    int64_t width;      /* of one */
} mixture_pass;

static void run_rows(mixture_pass *p, int64_t count, void (*body)(void *, int64_t, int)) {
    ota_session_parallel(p->session, ota_int_ceil_div(count, ROWS_PER_TASK), body, p);
}

static int64_t end_of(int64_t index, int64_t count) {
    return ota_int_min((index + 1) * ROWS_PER_TASK, count);
}

static const ota_block *block_of(const mixture_pass *p) {
    return &p->session->model->blocks[p->layer];
}

static void weigh_rows(void *context, int64_t index, int worker) {
    const mixture_pass *pass = context;
    const ota_config *config = &pass->session->model->config;
    const int64_t experts = config->sizes[OTA_SIZE_EXPERTS];
    (void)worker;
    for (int64_t i = index * ROWS_PER_TASK; i < end_of(index, pass->rows); i++) {
        float *p = pass->session->mixture.router + i * experts, sum = 0;
        const float top = p[largest(p, experts)];
        for (int64_t k = 0; k < experts; k++)
            p[k] = config->experts.sigmoid ? 1 / (1 + expf(-p[k])) : expf(p[k] - top);
        for (int64_t k = 0; k < experts; k++) sum += p[k];
        for (int64_t k = 0; !config->experts.sigmoid && k < experts; k++) p[k] /= sum;
    }
}

static void choose_rows(void *context, int64_t index, int worker) {
    const mixture_pass *p = context;
    const ota_session *s = p->session;
    const ota_mixture *m = &s->mixture;
    const int64_t experts = ota_model_size(s->model, OTA_SIZE_EXPERTS);
    const int64_t count = s->model->config.experts.chosen;
    for (int64_t i = index * ROWS_PER_TASK; i < end_of(index, p->rows); i++)
        choose(s, &block_of(p)->weights[OTA_ROUTER_CORRECTION], m->router + i * experts,
               m->chosen + i * count, m->taken + i * count, m->ranked + worker * experts);
}

static ota_status capture_indices(const mixture_pass *p) {
    ota_session *s = p->session;
    ota_mixture *m = &s->mixture;
    const int64_t count = s->model->config.experts.chosen;
    if (!ota_session_wants(s, OTA_POINT_EXPERT_INDICES, p->layer)) return OTA_OK;
    const ota_status status = ota_session_reserve(s, &m->aside, &m->aside_floats, p->rows, count);
    if (status != OTA_OK) return status;
    for (int64_t k = 0; k < p->rows * count; k++) m->aside[k] = (float)m->chosen[k];
    return ota_session_capture(s, OTA_POINT_EXPERT_INDICES, p->layer, m->aside, count);
}

/* Every row's experts and their weights. */
static ota_status route(mixture_pass *p) {
    ota_session *s = p->session;
    ota_mixture *m = &s->mixture;
    const ota_weight *w = block_of(p)->weights;
    const int64_t experts = ota_model_size(s->model, OTA_SIZE_EXPERTS);
    ota_linear(s, &w[OTA_ROUTER], &w[OTA_ROUTER_BIAS], p->input,
               ota_model_size(s->model, OTA_SIZE_WIDTH), p->rows, m->router, experts);
    ota_status status = ota_session_capture(s, OTA_POINT_ROUTER, p->layer, m->router, experts);
    if (status != OTA_OK) return status;
    run_rows(p, p->rows, weigh_rows);
    status = ota_session_capture(s, OTA_POINT_EXPERT_WEIGHTS, p->layer, m->router, experts);
    if (status != OTA_OK) return status;
    run_rows(p, p->rows, choose_rows);
    status = capture_indices(p);
    if (status != OTA_OK) return status;
    return ota_session_capture(s, OTA_POINT_CHOSEN_WEIGHTS, p->layer, m->taken,
                               s->model->config.experts.chosen);
}

/* ---- slots ---- */

static int64_t slots_of(const mixture_pass *p) {
    return p->rows * p->session->model->config.experts.chosen;
}

/* Slots by expert, and by row within one. */
static void place_rows(const mixture_pass *p) {
    ota_mixture *m = &p->session->mixture;
    const int64_t experts = ota_model_size(p->session->model, OTA_SIZE_EXPERTS);
    const int64_t count = p->session->model->config.experts.chosen;
    const int64_t *chosen = m->chosen + p->first * count;
    memset(m->starts, 0, (size_t)(experts + 1) * sizeof *m->starts);
    for (int64_t k = 0; k < slots_of(p); k++) m->starts[chosen[k] + 1]++;
    for (int64_t k = 0; k < experts; k++) m->starts[k + 1] += m->starts[k];
    for (int64_t k = 0; k < slots_of(p); k++) {
        const int64_t slot = m->starts[chosen[k]]++;
        m->rows[slot] = k / count;
        m->slots[k] = slot;
    }
    /* Every start has moved on to its end, which is the next one's start. */
    for (int64_t k = experts; k > 0; k--) m->starts[k] = m->starts[k - 1];
    *m->starts = 0;
}

static void gather_slots(void *context, int64_t index, int worker) {
    const mixture_pass *p = context;
    const ota_mixture *m = &p->session->mixture;
    const int64_t width = ota_model_size(p->session->model, OTA_SIZE_WIDTH);
    (void)worker;
    for (int64_t i = index * ROWS_PER_TASK; i < end_of(index, slots_of(p)); i++)
        memcpy(m->gathered + i * width, p->input + m->rows[i] * width,
               (size_t)width * sizeof *m->gathered);
}

static void to_aside(void *context, int64_t index, int worker) {
    const mixture_pass *p = context;
    const ota_mixture *m = &p->session->mixture;
    (void)worker;
    for (int64_t k = index * ROWS_PER_TASK; k < end_of(index, slots_of(p)); k++)
        memcpy(m->aside + k * p->width, p->data + m->slots[k] * p->width,
               (size_t)p->width * sizeof *p->data);
}

static void from_aside(void *context, int64_t index, int worker) {
    const mixture_pass *p = context;
    const ota_mixture *m = &p->session->mixture;
    (void)worker;
    for (int64_t k = index * ROWS_PER_TASK; k < end_of(index, slots_of(p)); k++)
        memcpy(p->data + m->slots[k] * p->width, m->aside + k * p->width,
               (size_t)p->width * sizeof *p->data);
}

/* An array of slots passes through a point as [rows, chosen, width]: the pass has all rows then. */
static ota_status pass_slots(mixture_pass *p, ota_point point, float *data, int64_t width) {
    ota_session *s = p->session;
    ota_mixture *m = &s->mixture;
    const bool edited = ota_session_edits(s, point, p->layer);
    if (!edited && !ota_session_wants(s, point, p->layer)) return OTA_OK;
    p->data = data;
    p->width = width;
    ota_status status = ota_session_reserve(s, &m->aside, &m->aside_floats, slots_of(p), width);
    if (status != OTA_OK) return status;
    run_rows(p, slots_of(p), to_aside);
    status =
        ota_session_capture(s, point, p->layer, m->aside, width * s->model->config.experts.chosen);
    if (edited) run_rows(p, slots_of(p), from_aside);
    return status;
}

static bool passes_slots(const ota_session *s, int64_t layer) {
    for (int k = OTA_POINT_EXPERT_PRE; k <= OTA_POINT_EXPERT_OUT; k++)
        if (ota_session_wants(s, (ota_point)k, layer) || ota_session_edits(s, (ota_point)k, layer))
            return true;
    return false;
}

/* ---- experts ---- */

/* y = W x + b of every expert that rows chose, side by side. */
static void multiply(const mixture_pass *p, const ota_role *roles, float *const *to,
                     int64_t count) {
    ota_session *s = p->session;
    ota_mixture *m = &s->mixture;
    const bool down = *roles == OTA_EXPERT_DOWN;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t inner = ota_model_size(s->model, OTA_SIZE_EXPERT_INNER);
    const int64_t inputs = down ? inner : width;
    const int64_t outputs = down ? width : *roles == OTA_EXPERT_MERGED ? 2 * inner : inner;
    int64_t products = 0;
    for (int64_t e = 0; e < ota_model_size(s->model, OTA_SIZE_EXPERTS); e++)
        for (int64_t k = 0; k < count && m->starts[e + 1] > m->starts[e]; k++) {
            const ota_weight *w = ota_expert_weight(block_of(p), e, roles[k]);
            m->products[products++] =
                (ota_product){.weight = w,
                              .bias = w + 1,
                              .x = (down ? m->inner : m->gathered) + m->starts[e] * inputs,
                              .x_stride = inputs,
                              .n = m->starts[e + 1] - m->starts[e],
                              .y = to[k] + m->starts[e] * outputs,
                              .y_stride = outputs};
        }
    ota_linears(s, m->products, products);
}

/* Outputs of gate and up in turn. */
static void part_slots(void *context, int64_t index, int worker) {
    const mixture_pass *p = context;
    const ota_mixture *m = &p->session->mixture;
    const int64_t inner = ota_model_size(p->session->model, OTA_SIZE_EXPERT_INNER);
    (void)worker;
    for (int64_t k = index * ROWS_PER_TASK * inner; k < end_of(index, slots_of(p)) * inner; k++) {
        m->inner[k] = m->merged[2 * k];
        m->up[k] = m->merged[2 * k + 1];
    }
}

static void activate_limited(void *context, int64_t index, int worker) {
    const mixture_pass *p = context;
    const ota_mixture *m = &p->session->mixture;
    const float limit = (float)p->session->model->config.experts.limit;
    const float slope = (float)p->session->model->config.experts.slope;
    const int64_t inner = ota_model_size(p->session->model, OTA_SIZE_EXPERT_INNER);
    (void)worker;
    for (int64_t k = index * ROWS_PER_TASK * inner; k < end_of(index, slots_of(p)) * inner; k++) {
        const float gate = fminf(m->inner[k], limit);
        const float up = fmaxf(fminf(m->up[k], limit), -limit);
        m->inner[k] = (up + 1) * gate / (1 + expf(-slope * gate));
    }
}

/* A row's slots, in the order of its experts. */
static void sum_rows(void *context, int64_t index, int worker) {
    const mixture_pass *p = context;
    const ota_mixture *m = &p->session->mixture;
    const int64_t width = ota_model_size(p->session->model, OTA_SIZE_WIDTH);
    const int64_t count = p->session->model->config.experts.chosen;
    (void)worker;
    for (int64_t i = index * ROWS_PER_TASK; i < end_of(index, p->rows); i++) {
        float *sum = m->sum + (p->first + i) * width;
        const int64_t *slots = m->slots + i * count;
        memset(sum, 0, (size_t)width * sizeof *sum);
        for (int64_t done = 0, last = -1; done < count; done++) {
            int64_t next = -1;
            for (int64_t k = 0; k < count; k++)
                if (slots[k] > last && (next < 0 || slots[k] < slots[next])) next = k;
            const float weight = m->taken[(p->first + i) * count + next];
            const float *one = m->gathered + slots[next] * width;
            for (int64_t j = 0; j < width; j++) sum[j] += weight * one[j];
            last = slots[next];
        }
    }
}

/* Room for the slots of so many rows. */
static ota_status reserve_slots(ota_session *s, int64_t rows) {
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t inner = ota_model_size(s->model, OTA_SIZE_EXPERT_INNER);
    const int64_t slots = rows * s->model->config.experts.chosen;
    ota_mixture *m = &s->mixture;
    const int64_t merged = m->is_merged ? 2 * inner : 0;
    const ota_status status =
        ota_session_reserve(s, &m->slot_floats, &m->slot_room, slots, width + 2 * inner + merged);
    if (status != OTA_OK) return status;
    m->gathered = m->slot_floats;
    m->inner = m->gathered + slots * width;
    m->up = m->inner + slots * inner;
    m->merged = m->up + slots * inner;
    return OTA_OK;
}

static ota_status run_experts(mixture_pass *p) {
    static const ota_role apart[] = {OTA_EXPERT_GATE, OTA_EXPERT_UP},
                          merged[] = {OTA_EXPERT_MERGED}, down[] = {OTA_EXPERT_DOWN};
    ota_session *s = p->session;
    ota_mixture *m = &s->mixture;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t inner = ota_model_size(s->model, OTA_SIZE_EXPERT_INNER);
    ota_status status = reserve_slots(s, p->rows);
    if (status != OTA_OK) return status;
    place_rows(p);
    run_rows(p, slots_of(p), gather_slots);
    if (m->is_merged) {
        multiply(p, merged, &m->merged, 1);
        run_rows(p, slots_of(p), part_slots);
    } else {
        multiply(p, apart, (float *[]){m->inner, m->up}, 2);
    }
    status = pass_slots(p, OTA_POINT_EXPERT_PRE, m->inner, inner);
    if (status == OTA_OK) status = pass_slots(p, OTA_POINT_EXPERT_LINEAR, m->up, inner);
    if (status != OTA_OK) return status;
    if (s->model->config.experts.limit > 0)
        run_rows(p, slots_of(p), activate_limited);
    else
        ota_session_activate(s, s->model->config.activation, m->up, m->inner, slots_of(p), inner);
    status = pass_slots(p, OTA_POINT_EXPERT_POST, m->inner, inner);
    if (status != OTA_OK) return status;
    multiply(p, down, &m->gathered, 1);
    status = pass_slots(p, OTA_POINT_EXPERT_OUT, m->gathered, width);
    if (status == OTA_OK) run_rows(p, p->rows, sum_rows);
    return status;
}

/* sum += the MLP that every token has */
static ota_status add_shared(const mixture_pass *p) {
    ota_session *s = p->session;
    ota_mixture *m = &s->mixture;
    const ota_weight *w = block_of(p)->weights;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH), rows = p->rows;
    const int64_t inner = ota_model_size(s->model, OTA_SIZE_SHARED_INNER);
    float *up = s->buffers.gate, *gate = s->buffers.inner;
    const bool weighed = ota_weight_present(&w[OTA_SHARED_ROUTER]);
    if (!ota_weight_present(&w[OTA_SHARED_UP])) return OTA_OK;
    ota_linear(s, &w[OTA_SHARED_UP], &w[OTA_SHARED_UP_BIAS], p->input, width, rows, up, inner);
    ota_linear(s, &w[OTA_SHARED_GATE], &w[OTA_SHARED_GATE_BIAS], p->input, width, rows, gate,
               inner);
    ota_status status = ota_session_capture(s, OTA_POINT_SHARED_PRE, p->layer, gate, inner);
    if (status == OTA_OK)
        status = ota_session_capture(s, OTA_POINT_SHARED_LINEAR, p->layer, up, inner);
    if (status != OTA_OK) return status;
    ota_session_activate(s, s->model->config.activation, up, gate, rows, inner);
    status = ota_session_capture(s, OTA_POINT_SHARED_POST, p->layer, gate, inner);
    if (status != OTA_OK) return status;
    ota_linear(s, &w[OTA_SHARED_DOWN], &w[OTA_SHARED_DOWN_BIAS], gate, inner, rows, m->shared,
               width);
    if (weighed) ota_linear(s, &w[OTA_SHARED_ROUTER], NULL, p->input, width, rows, m->weights, 1);
    for (int64_t i = 0; weighed && i < rows; i++) {
        const float weight = 1 / (1 + expf(-m->weights[i]));
        for (int64_t j = i * width; j < (i + 1) * width; j++) m->shared[j] *= weight;
    }
    status = ota_session_capture(s, OTA_POINT_SHARED_OUT, p->layer, m->shared, width);
    ota_session_add(s, m->sum, m->shared, rows, width);
    return status;
}

/* Rows of one pass. */
static int64_t pass_rows(const ota_session *s) {
    const ota_config *config = &s->model->config;
    const int64_t floats = config->experts.chosen * (config->sizes[OTA_SIZE_WIDTH] +
                                                     2 * config->sizes[OTA_SIZE_EXPERT_INNER]);
    return ota_int_min(s->options.batch * s->options.tokens,
                       ota_int_max(PASS_ROWS, PASS_FLOATS / floats));
}

ota_status ota_session_mixture(ota_session *s, int64_t layer, const float *input, int64_t rows,
                               float *out) {
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    mixture_pass whole = {.session = s, .layer = layer, .rows = rows, .input = input};
    ota_status status = route(&whole);
    const int64_t most = passes_slots(s, layer) ? rows : pass_rows(s);
    for (int64_t first = 0; status == OTA_OK && first < rows; first += most) {
        mixture_pass part = {.session = s,
                             .layer = layer,
                             .first = first,
                             .rows = ota_int_min(most, rows - first),
                             .input = input + first * width};
        if (ota_session_interrupted(s) != OTA_OK) break;
        status = run_experts(&part);
    }
    if (status == OTA_OK) status = add_shared(&whole);
    memcpy(out, s->mixture.sum, (size_t)(rows * width) * sizeof *out);
    return status;
}

ota_status ota_session_mixture_create(ota_session *s, ota_error *error) {
    const ota_config *config = &s->model->config;
    const int64_t rows = s->options.batch * s->options.tokens;
    const int64_t width = config->sizes[OTA_SIZE_WIDTH], experts = config->sizes[OTA_SIZE_EXPERTS];
    const int64_t count = config->experts.chosen, workers = ota_pool_threads(s->pool);
    ota_mixture *m = &s->mixture;
    if (experts == 0) return OTA_OK;
    m->is_merged = ota_weight_present(ota_expert_weight(s->model->blocks, 0, OTA_EXPERT_MERGED));
    const size_t floats =
        (size_t)rows * (size_t)(experts + count + 1 + 2 * width) + (size_t)(workers * experts);
    const size_t integers = (size_t)rows * (size_t)(3 * count) + (size_t)experts + 1;
    m->floats = calloc(floats, sizeof *m->floats);
    m->chosen = calloc(integers, sizeof *m->chosen);
    m->products = calloc((size_t)(2 * experts), sizeof *m->products);
    if (m->floats == NULL || m->chosen == NULL || m->products == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for the rows of experts");
    m->router = m->floats;
    m->taken = m->router + rows * experts;
    m->weights = m->taken + rows * count;
    m->shared = m->weights + rows;
    m->sum = m->shared + rows * width;
    m->ranked = m->sum + rows * width;
    m->rows = m->chosen + rows * count;
    m->slots = m->rows + rows * count;
    m->starts = m->slots + rows * count;
    s->run.error = error;
    const ota_status status = reserve_slots(s, pass_rows(s));
    s->bytes += (floats + m->slot_room) * sizeof *m->floats + integers * sizeof *m->chosen;
    return status;
}

void ota_session_free_mixture(ota_session *s) {
    free(s->mixture.floats);
    free(s->mixture.chosen);
    free(s->mixture.products);
    free(s->mixture.slot_floats);
    free(s->mixture.aside);
    s->mixture = (ota_mixture){0};
}
