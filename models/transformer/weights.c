/* Weights and scores of attention as arrays: captured, edited, in blocks of rows.
 *
 *     S = scores of the layer's plan (ota_plan_scores), edited         [rows, keys] of one head
 *     P = rows(S + g), edited                                          g: potentials of the columns, 0 where they are free
 *     z = P V where S or P was edited, else as the plan has it
 *
 * Blocks are as high as the run's block_rows, or a head; what rows cannot be made one by one from S and g is solved head by head
 * (TOGETHER). Where nothing is edited and arrays come whole, P is what the plan of all heads gives besides z. */
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How the rows of a method's weights are made. */
typedef enum row_kind {
    ALONE,    /* free columns: each from its scores */
    IN_ORDER, /* online columns: from its scores and what the rows before it left */
    BY_POTENTIAL,
    TOGETHER
} row_kind;

typedef struct sweep {
    ota_session *s;
    int64_t layer, keys, count;
    ota_point point; /* OTA_POINT_SCORES or _PATTERN */
    bool scores_edited, edited;
    int64_t chosen; /* heads that are handed over; 0: none */
    /* the rows' plan and what it was made for */
    ota_plan *plan;
    int method;
    int64_t rows, sequence,
        head; /* sequence: of what is solved together; head: of one with a sink */
    row_kind kind;
    ota_term terms[2];
    ota_support padding;
} sweep;

/* The block at hand. */
typedef struct block_place {
    int64_t sequence, head, place, first, rows; /* place: among the chosen heads, or -1 */
} block_place;

/* ---- memory ---- */

static ota_status reserve(ota_session *s, void **buffer, size_t *have, int64_t rows,
                          int64_t columns, size_t element) {
    size_t count, bytes;
    if (__builtin_mul_overflow((size_t)rows, (size_t)columns, &count) ||
        __builtin_mul_overflow(count, element, &bytes))
        return ota_refuse(s->run.error, OTA_EOVERFLOW, "an array is larger than any memory");
    if (count <= *have) return OTA_OK;
    free(*buffer);
    *buffer = malloc(bytes);
    *have = *buffer != NULL ? count : 0;
    return *buffer != NULL ? OTA_OK
                           : ota_refuse(s->run.error, OTA_ENOMEM,
                                        "no memory is left for %zu bytes of an array", bytes);
}

ota_status ota_session_reserve(ota_session *s, float **buffer, size_t *have, int64_t rows,
                               int64_t columns) {
    void *memory = *buffer;
    const ota_status status = reserve(s, &memory, have, rows, columns, sizeof(float));
    *buffer = memory;
    return status;
}

static ota_status reserve_doubles(ota_session *s, double **buffer, size_t *have, int64_t rows,
                                  int64_t columns) {
    void *memory = *buffer;
    const ota_status status = reserve(s, &memory, have, rows, columns, sizeof(double));
    *buffer = memory;
    return status;
}

void ota_session_free_weights(ota_session *s) {
    ota_weight_buffers *w = &s->weights;
    free(w->whole);
    free(w->scores);
    free(w->block);
    free(w->potential);
    free(w->columns);
    free(w->sums);
    *w = (ota_weight_buffers){0};
}

static int64_t keys_of(const ota_session *s) {
    return s->run.now->first > 0 ? s->options.cache : s->run.now->count;
}

/* ---- what the plan of all heads is asked for ---- */

void ota_session_ask(const ota_session *s, const ota_view *v, ota_arrays *arrays) {
    const int64_t heads = s->model->config.heads, batch = s->run.now->batch;
    const int64_t count = s->run.now->count, keys = keys_of(s);
    const int64_t head = v->head >= 0 ? v->head : 0, asked = v->head >= 0 ? 1 : heads;
    if (s->weights.asks_whole) {
        arrays->coupling = ota_array_of(s->weights.whole + head * count * keys, OTA_F32, batch,
                                        asked, count, keys);
        arrays->coupling.stride[0] = heads * count * keys;
    }
    if (ota_session_wants(s, OTA_POINT_RECEIVER, v->layer)) {
        arrays->receiver =
            ota_array_of(s->buffers.receiver + head * keys, OTA_F32, batch, asked, 1, keys);
        arrays->receiver.stride[0] = heads * keys;
    }
    if (s->weights.asks_potential) {
        arrays->column_potential =
            ota_array_of(s->weights.potential + head * keys, OTA_F64, batch, asked, 1, keys);
        arrays->column_potential.stride[0] = heads * keys;
    }
}

/* ---- the plan of some rows ---- */

static row_kind kind_of(const ota_problem *rules) {
    if (rules->rows != OTA_ROWS_HARD || rules->axis != OTA_AXIS_ROWS) return TOGETHER;
    switch (rules->columns) {
    case OTA_COLUMNS_FREE: return ALONE;
    case OTA_COLUMNS_ONLINE: return IN_ORDER;
    case OTA_COLUMNS_EXACT:
    case OTA_COLUMNS_RELAXED:
    case OTA_COLUMNS_CAPPED:
    case OTA_COLUMNS_ELASTIC:
    case OTA_COLUMNS_BOUNDED:
        return rules->regulariser != OTA_HARD && rules->end == OTA_SIDE_ROWS &&
                       !(rules->entry_cap > 0)
                   ? BY_POTENTIAL
                   : TOGETHER;
    case OTA_COLUMNS_PREFIX:
    default: return TOGETHER;
    }
}

/* The method's rules of rows on a matrix of scores, in which masks are -inf already. */
static void state_rows(sweep *w, const block_place *at, ota_problem *problem) {
    const ota_session *s = w->s;
    *problem = s->methods.items[w->method].problem;
    problem->scores = ota_array_of(s->weights.scores, OTA_F32, 1, 1, at->rows, w->keys);
    problem->terms = w->terms;
    if (ota_session_sink(s, w->layer, at->head, &w->terms[0])) problem->term_count = 1;
    if (w->kind == BY_POTENTIAL) {
        problem->columns = OTA_COLUMNS_FREE;
        problem->strength = problem->cap = problem->lambda = problem->lower = problem->upper = 0;
        problem->steps = 0;
        problem->start = OTA_SIDE_ROWS;
        w->terms[problem->term_count++] =
            (ota_term){.kind = OTA_TERM_DENSE,
                       .array = ota_array_of(s->weights.columns, OTA_F64, 1, 1, 1, w->keys)};
    }
    /* A key that nobody sees has no share of the columns' masses. */
    if (w->kind == TOGETHER && s->run.now->lengths != NULL) {
        w->padding = (ota_support){
            .kind = OTA_SUPPORT_LENGTHS,
            .array = ota_array_of(s->run.lengths + at->sequence, OTA_I64, 1, 1, 1, 1)};
        problem->supports = &w->padding;
        problem->support_count = 1;
    }
}

static ota_status make_plan(sweep *w, const block_place *at) {
    ota_session *s = w->s;
    const int method = s->methods.assigned[w->layer * s->model->config.heads + at->head];
    const row_kind kind = kind_of(&s->methods.items[method].problem);
    const int64_t sequence = kind == TOGETHER ? at->sequence : -1;
    const int64_t head = ota_session_sink(s, w->layer, at->head, &w->terms[0]) ? at->head : -1;
    if (w->plan != NULL && w->method == method && w->rows == at->rows && w->sequence == sequence &&
        w->head == head)
        return OTA_OK;
    ota_plan_free(w->plan);
    w->plan = NULL;
    w->method = method;
    w->rows = at->rows;
    w->sequence = sequence;
    w->head = head;
    w->kind = kind;
    ota_problem problem;
    state_rows(w, at, &problem);
    ota_options options = {.size = sizeof options};
    if (kind == TOGETHER) options = s->methods.items[method].options;
    options.executor = &s->executor;
    options.threads = s->executor.threads;
    options.cpu = s->options.cpu;
    options.cancel = s->options.cancel;
    options.deadline_ns = s->options.deadline_ns;
    return ota_plan_create(&w->plan, &problem, 0, &options, s->run.error);
}

/* Weights of the block from its scores. */
static ota_status solve_rows(sweep *w, const block_place *at) {
    ota_session *s = w->s;
    const int64_t heads = s->model->config.heads;
    const ota_view v = {.layer = w->layer, .head = at->head};
    ota_status status = make_plan(w, at);
    if (status < 0) return ota_session_verdict(s, &v, status);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = ota_array_of(s->weights.block, OTA_F32, 1, 1, at->rows, w->keys);
    if (w->kind == BY_POTENTIAL)
        memcpy(s->weights.columns,
               s->weights.potential + (at->sequence * heads + at->head) * w->keys,
               (size_t)w->keys * sizeof *s->weights.columns);
    if (w->kind == IN_ORDER) {
        for (int64_t j = 0; at->first == 0 && j < w->keys; j++)
            s->weights.columns[j] = s->methods.items[w->method].problem.cap;
        arrays.remaining = ota_array_of(s->weights.columns, OTA_F64, 1, 1, 1, w->keys);
    }
    ota_result result = {.size = sizeof result};
    status = ota_forward(w->plan, &arrays, &result, s->run.error);
    return ota_session_verdict(s, &v, status);
}

/* Weights of a whole head from the layer's plan: nothing is edited before them. */
static ota_status solve_head(sweep *w, const block_place *at) {
    ota_session *s = w->s;
    const int64_t batch = s->run.now->batch, square = w->count * w->keys;
    const ota_view v = {.layer = w->layer, .head = at->head};
    const int method = s->methods.assigned[w->layer * s->model->config.heads + at->head];
    ota_plan_slot *slot = NULL;
    ota_arrays arrays = {.size = sizeof arrays};
    ota_status status = ota_session_reserve(s, &s->weights.scores, &s->weights.scores_floats,
                                            batch * w->count, w->keys);
    if (status == OTA_OK) status = ota_session_bind(s, &v, method, &slot, &arrays.values);
    if (status < 0) return ota_session_verdict(s, &v, status);
    ota_plan_set_deadline(slot->plan, s->options.deadline_ns);
    arrays.coupling = ota_array_of(s->weights.scores, OTA_F32, batch, 1, w->count, w->keys);
    ota_result result = {.size = sizeof result};
    status = ota_forward(slot->plan, &arrays, &result, s->run.error);
    if (status >= 0)
        memcpy(s->weights.block, s->weights.scores + at->sequence * square,
               (size_t)square * sizeof *s->weights.block);
    return ota_session_verdict(s, &v, status);
}

/* ---- one block ---- */

static void edit_block(const sweep *w, const block_place *at, ota_point point, float *data) {
    if (!ota_session_edits(w->s, point, w->layer)) return;
    const ota_part part = {.first = {at->sequence, w->s->run.now->first + at->first, at->head, 0},
                           .size = {1, at->rows, 1, w->keys},
                           .stride = {0, w->keys, 0, 1},
                           .data = data};
    ota_session_edit(w->s, point, w->layer, &part);
}

static ota_status make_scores(sweep *w, const block_place *at) {
    ota_session *s = w->s;
    const uint16_t *assigned = s->methods.assigned + w->layer * s->model->config.heads;
    bool shared = true;
    for (int64_t h = 1; h < s->model->config.heads; h++)
        shared = shared && assigned[h] == assigned[0];
    const ota_view v = {
        .layer = w->layer, .head = shared ? -1 : at->head, .decoding = s->run.now->first > 0};
    const ota_array scores = ota_array_of(s->weights.scores, OTA_F32, 1, 1, at->rows, w->keys);
    ota_plan_slot *slot = NULL;
    ota_array values;
    ota_status status = ota_session_bind(s, &v, assigned[at->head], &slot, &values);
    if (status == OTA_OK) ota_plan_set_deadline(slot->plan, s->options.deadline_ns);
    if (status == OTA_OK)
        status = ota_plan_scores(slot->plan, at->sequence, shared ? at->head : 0, at->first,
                                 v.decoding ? s->run.now->first + s->run.now->count : 0, &scores,
                                 s->run.error);
    edit_block(w, at, OTA_POINT_SCORES, s->weights.scores);
    return ota_session_verdict(s, &v, status);
}

typedef struct mixing {
    const sweep *w;
    const block_place *at;
    ota_array values;
} mixing;

static void mix_row(void *context, int64_t i, int worker) {
    enum { COLUMNS = 64 };
    const mixing *m = context;
    const ota_session *s = m->w->s;
    const int64_t width = s->model->config.value_width, keys = m->w->keys;
    const int64_t token = m->at->sequence * m->w->count + m->at->first + i;
    const float *p = s->weights.block + i * keys;
    const float *values = (const float *)m->values.data + m->at->sequence * m->values.stride[0];
    float *out =
        s->buffers.mixed + token * ota_model_size(s->model, OTA_SIZE_MIXED) + m->at->head * width;
    (void)worker;
    for (int64_t c = 0; c < width; c += COLUMNS) {
        const int64_t columns = ota_int_min(COLUMNS, width - c);
        double sums[COLUMNS] = {0};
        for (int64_t j = 0; j < keys; j++) {
            const float *v = values + j * m->values.stride[2] + c;
            if (p[j] == 0.0F) continue;
            for (int64_t k = 0; k < columns; k++) sums[k] += (double)p[j] * (double)v[k];
        }
        for (int64_t k = 0; k < columns; k++) out[c + k] = (float)sums[k];
    }
}

/* What changed weights make of the values, and what their keys receive. */
static ota_status mix_block(sweep *w, const block_place *at) {
    ota_session *s = w->s;
    const int64_t heads = s->model->config.heads;
    const ota_view v = {.layer = w->layer, .head = at->head, .decoding = s->run.now->first > 0};
    mixing m = {.w = w, .at = at};
    ota_session_values(s, &v, &m.values);
    ota_session_parallel(s, at->rows, mix_row, &m);
    if (!ota_session_wants(s, OTA_POINT_RECEIVER, w->layer)) return OTA_OK;
    float *received = s->buffers.receiver + (at->sequence * heads + at->head) * w->keys;
    for (int64_t j = 0; at->first == 0 && j < w->keys; j++) s->weights.sums[j] = 0;
    for (int64_t i = 0; i < at->rows; i++)
        for (int64_t j = 0; j < w->keys; j++)
            s->weights.sums[j] += (double)s->weights.block[i * w->keys + j];
    for (int64_t j = 0; j < w->keys; j++) received[j] = (float)s->weights.sums[j];
    return OTA_OK;
}

/* Rows of a block, in pieces as high as the run wants them; whole arrays are gathered first. */
static ota_status hand_over(sweep *w, const block_place *at, const float *data) {
    ota_session *s = w->s;
    const int64_t row = (at->sequence * w->chosen + at->place) * w->count + at->first;
    const int64_t most = s->run.now->block_rows;
    ota_status status = OTA_OK;
    if (at->place < 0) return OTA_OK;
    if (most == 0) {
        memcpy(s->weights.whole + row * w->keys, data, (size_t)(at->rows * w->keys) * sizeof *data);
        return OTA_OK;
    }
    for (int64_t first = 0; status == OTA_OK && first < at->rows; first += most) {
        ota_capture block = {.shape = {0, w->chosen, 0, 0},
                             .data = data + first * w->keys,
                             .first_row = row + first,
                             .rows = ota_int_min(most, at->rows - first),
                             .columns = w->keys,
                             .sequence = at->sequence,
                             .head = at->head,
                             .token = at->first + first};
        status = ota_session_hand_over(s, w->point, w->layer, &block);
    }
    return status;
}

static ota_status run_block(sweep *w, const block_place *at, bool whole_head) {
    ota_session *s = w->s;
    ota_status status = OTA_OK;
    if (!whole_head) status = make_scores(w, at);
    if (status != OTA_OK || w->point == OTA_POINT_SCORES)
        return status == OTA_OK ? hand_over(w, at, s->weights.scores) : status;
    status = whole_head ? solve_head(w, at) : solve_rows(w, at);
    if (status != OTA_OK) return status;
    edit_block(w, at, OTA_POINT_PATTERN, s->weights.block);
    if (w->edited) status = mix_block(w, at);
    return status == OTA_OK ? hand_over(w, at, s->weights.block) : status;
}

/* ---- all of a layer ---- */

static ota_status run_head(sweep *w, int64_t sequence, int64_t head, int64_t place) {
    ota_session *s = w->s;
    const int method = s->methods.assigned[w->layer * s->model->config.heads + head];
    const row_kind kind = kind_of(&s->methods.items[method].problem);
    const bool together = w->point == OTA_POINT_PATTERN && kind == TOGETHER;
    const int64_t most = together || s->run.now->block_rows == 0
                             ? w->count
                             : ota_int_min(s->run.now->block_rows, w->count);
    ota_status status =
        ota_session_reserve(s, &s->weights.scores, &s->weights.scores_floats, most, w->keys);
    if (status == OTA_OK && w->point == OTA_POINT_PATTERN)
        status = ota_session_reserve(s, &s->weights.block, &s->weights.block_floats, most, w->keys);
    for (int64_t first = 0; status == OTA_OK && first < w->count; first += most) {
        const block_place at = {.sequence = sequence,
                                .head = head,
                                .place = place,
                                .first = first,
                                .rows = ota_int_min(most, w->count - first)};
        status = run_block(w, &at, together && !w->scores_edited);
    }
    return status;
}

static bool is_chosen(const sweep *w, int64_t head) {
    const ota_session *s = w->s;
    if (!ota_session_wants(s, w->point, w->layer)) return false;
    if (s->run.now->wanted_head == NULL) return true;
    char name[128];
    ota_session_name(w->point, w->layer, name, sizeof name);
    return s->run.now->wanted_head(s->run.now->user, name, head) != 0;
}

static ota_status hand_over_whole(ota_session *s, ota_point point, int64_t layer, int64_t chosen) {
    ota_capture block = {.shape = {0, chosen, 0, 0},
                         .data = s->weights.whole,
                         .rows = s->run.now->batch * chosen * s->run.now->count,
                         .columns = keys_of(s)};
    return ota_session_hand_over(s, point, layer, &block);
}

static ota_status run_sweep(sweep *w) {
    ota_session *s = w->s;
    const int64_t heads = s->model->config.heads, batch = s->run.now->batch;
    ota_status status = OTA_OK;
    for (int64_t head = 0; head < heads; head++) w->chosen += is_chosen(w, head);
    const bool whole = s->run.now->block_rows == 0 && w->chosen > 0;
    if (whole)
        status = ota_session_reserve(s, &s->weights.whole, &s->weights.whole_floats,
                                     batch * w->chosen * w->count, w->keys);
    if (status == OTA_OK)
        status = reserve_doubles(s, &s->weights.columns, &s->weights.columns_doubles, 1, w->keys);
    if (status == OTA_OK && w->edited)
        status = reserve_doubles(s, &s->weights.sums, &s->weights.sums_doubles, 1, w->keys);
    for (int64_t b = 0; status == OTA_OK && b < batch; b++) {
        int64_t place = 0;
        for (int64_t head = 0; status == OTA_OK && head < heads; head++) {
            const bool chosen = is_chosen(w, head);
            if (chosen || w->edited) status = run_head(w, b, head, chosen ? place : -1);
            place += chosen;
        }
    }
    ota_plan_free(w->plan);
    return status == OTA_OK && whole ? hand_over_whole(s, w->point, w->layer, w->chosen) : status;
}

static bool has_kind(const ota_session *s, int64_t layer, row_kind kind) {
    const int64_t heads = s->model->config.heads;
    for (int64_t head = 0; head < heads; head++)
        if (kind_of(&s->methods.items[s->methods.assigned[layer * heads + head]].problem) == kind)
            return true;
    return false;
}

/* Memory for what the layer's plan gives besides z. */
static ota_status prepare(ota_session *s, int64_t layer, bool whole, bool potential) {
    const int64_t rows = s->run.now->batch * s->model->config.heads, keys = keys_of(s);
    ota_status status = OTA_OK;
    s->weights.asks_whole = whole;
    s->weights.asks_potential = potential;
    if (whole)
        status = ota_session_reserve(s, &s->weights.whole, &s->weights.whole_floats,
                                     rows * s->run.now->count, keys);
    if (status == OTA_OK && potential)
        status =
            reserve_doubles(s, &s->weights.potential, &s->weights.potential_doubles, rows, keys);
    if (status == OTA_OK && ota_session_wants(s, OTA_POINT_RECEIVER, layer))
        status =
            ota_session_reserve(s, &s->buffers.receiver, &s->buffers.receiver_floats, rows, keys);
    return status;
}

static ota_status hand_over_received(ota_session *s, int64_t layer) {
    ota_capture block = {.data = s->buffers.receiver,
                         .rows = s->run.now->batch * s->model->config.heads,
                         .columns = keys_of(s)};
    if (!ota_session_wants(s, OTA_POINT_RECEIVER, layer)) return OTA_OK;
    return ota_session_hand_over(s, OTA_POINT_RECEIVER, layer, &block);
}

ota_status ota_session_weights(ota_session *s, int64_t layer) {
    const bool scores_edited = ota_session_edits(s, OTA_POINT_SCORES, layer);
    const bool edited = scores_edited || ota_session_edits(s, OTA_POINT_PATTERN, layer);
    const bool pattern = ota_session_wants(s, OTA_POINT_PATTERN, layer);
    const bool whole =
        pattern && !edited && s->run.now->block_rows == 0 && s->run.now->wanted_head == NULL;
    sweep w = {.s = s,
               .layer = layer,
               .keys = keys_of(s),
               .count = s->run.now->count,
               .scores_edited = scores_edited};
    if (edited && s->options.cache > 0 && has_kind(s, layer, IN_ORDER))
        return ota_refuse(
            s->run.error, OTA_UNSUPPORTED,
            "layer %lld: weights of online columns cannot be edited on a cache, which "
            "keeps what they leave of every key",
            (long long)layer);
    ota_status status = OTA_OK;
    if (ota_session_wants(s, OTA_POINT_SCORES, layer)) {
        sweep scores = w;
        scores.point = OTA_POINT_SCORES;
        status = run_sweep(&scores);
    }
    if (status == OTA_OK)
        status = prepare(s, layer, whole,
                         ((pattern && !whole) || edited) && has_kind(s, layer, BY_POTENTIAL));
    if (status == OTA_OK) status = ota_session_attend(s, layer);
    if (status == OTA_OK && whole)
        status = hand_over_whole(s, OTA_POINT_PATTERN, layer, s->model->config.heads);
    if (status == OTA_OK && ((pattern && !whole) || edited)) {
        w.point = OTA_POINT_PATTERN;
        w.edited = edited;
        status = run_sweep(&w);
    }
    return status == OTA_OK ? hand_over_received(s, layer) : status;
}

/* z by the head's part of the output's weights, of rows first ... first + rows - 1, into weights.whole. */
static void make_results(ota_session *s, int64_t layer, int64_t first, int64_t rows) {
    const ota_config *config = &s->model->config;
    const int64_t heads = config->heads, width = config->sizes[OTA_SIZE_WIDTH];
    const int64_t mixed = config->sizes[OTA_SIZE_MIXED], part = mixed / heads;
    for (int64_t head = 0; head < heads; head++) {
        memset(s->buffers.spare, 0, (size_t)(rows * mixed) * sizeof(float));
        for (int64_t i = 0; i < rows; i++)
            memcpy(s->buffers.spare + i * mixed + head * part,
                   s->buffers.mixed + (first + i) * mixed + head * part,
                   (size_t)part * sizeof(float));
        ota_linear(s, &s->model->blocks[layer].weights[OTA_OUTPUT], NULL, s->buffers.spare, mixed,
                   rows, s->weights.whole + head * width, heads * width);
    }
}

/* Edits see the whole array, for means over tokens; captures alone take blocks of rows. */
ota_status ota_session_capture_result(ota_session *s, int64_t layer) {
    const int64_t columns = s->model->config.heads * ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t rows = s->run.now->batch * s->run.now->count;
    const bool edited = ota_session_edits(s, OTA_POINT_RESULT, layer);
    const int64_t most =
        s->run.now->block_rows > 0 && !edited ? ota_int_min(s->run.now->block_rows, rows) : rows;
    if (!edited && !ota_session_wants(s, OTA_POINT_RESULT, layer)) return OTA_OK;
    ota_status status =
        ota_session_reserve(s, &s->weights.whole, &s->weights.whole_floats, most, columns);
    if (status == OTA_OK && edited) {
        make_results(s, layer, 0, rows);
        return ota_session_capture(s, OTA_POINT_RESULT, layer, s->weights.whole, columns);
    }
    for (int64_t first = 0; status == OTA_OK && first < rows; first += most) {
        ota_capture block = {.data = s->weights.whole,
                             .first_row = first,
                             .rows = ota_int_min(most, rows - first),
                             .columns = columns,
                             .sequence = first / s->run.now->count,
                             .head = -1,
                             .token = first % s->run.now->count};
        make_results(s, layer, first, block.rows);
        status = ota_session_hand_over(s, OTA_POINT_RESULT, layer, &block);
    }
    return status;
}

void ota_session_add_results(ota_session *s, int64_t layer) {
    const ota_weight *bias = &s->model->blocks[layer].weights[OTA_OUTPUT_BIAS];
    const int64_t heads = s->model->config.heads;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    for (int64_t i = 0; i < s->run.now->batch * s->run.now->count; i++)
        for (int64_t k = 0; k < width; k++) {
            double sum = ota_weight_present(bias) ? (double)bias->values[k] : 0;
            for (int64_t head = 0; head < heads; head++)
                sum += (double)s->weights.whole[(i * heads + head) * width + k];
            s->buffers.branch[i * width + k] = (float)sum;
        }
}
