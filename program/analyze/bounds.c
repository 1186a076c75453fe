/* The layers of a window against the bounds on them, and the ranks of their heads. Layer l runs three times, from
 * the state before it:
 *
 *   first       x, the state itself
 *   rounding    x rounded to bf16
 *   step        the state behind the layer in place of x
 *
 * and its input, Q, K and V, f32 as the model made them, go to the library's bounds in f64:
 *
 *   jacobian    ||Gamma J||_2 against ||gamma||_inf / sigma, J of the norm, the tightest token     [TOT-59]
 *   norm        ||N(u) - N(u')||, u what the norm reads                                            [TOT-60]
 *   weights     ||P_i - P'_i||_1 of heads                                                          [TOT-55]
 *   output      ||y_i - y'_i|| of attention                                                        [TOT-54]
 *   block       of the sum of input and attention, with its norm, from inputs and weights alone    [TOT-60]
 *
 * Ranks are of log S_ij - log S_i0, at most the head's width for one layer; of S_l S_(l-1) they are what one
 * layer would need to do the work of two [TOT-61, 62]. S has to be above 0: under a causal mask these are the
 * later half of the queries on the earlier half of the keys, of S and of the product alike. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

enum { RUNS = 1 + BOUND_CHANGES };

static const double tolerances[] = {1e-10, 1e-3};

/* One run of a layer. */
typedef struct layer_run {
    float *input;          /* [n, d] */
    double *x, *q, *k, *v; /* [n, d], [n, heads * head width] */
    double *raw_q, *raw_k; /* as q, k: what the norms of heads read */
    double *sum;           /* [n, d]: input and attention, where the norm reads that */
} layer_run;

struct run_bounds {
    ota_model_attention attention;
    float *weights;                       /* room of `attention` */
    double *query, *key, *value, *output; /* the same in f64, keys and values once a head */
    double *output_bias, *gamma, *beta;
    double *query_gamma, *key_gamma, *output_gamma;
    layer_run runs[RUNS];
    double *couplings[2]; /* [heads, n, n] of layer l and l - 1 */
    double *room;         /* [workers] of `room_count` */
    int64_t room_count;
    ota_support supports[2]; /* causal, and the window of a local layer */
    ota_problem method;
    ota_options options;
    ota_attention_layer layer;
    ota_norm norm, query_norm, key_norm, output_norm;
    int64_t at, run; /* layer, and run that captures */
    bool done;
};

/* ---- memory ---- */

static int64_t query_columns(const run *r) { return r->facts.heads * r->facts.head_width; }

/* Sides of the matrix of a head whose rank is taken, before log-ratios. */
static void rank_sides(const run *r, int64_t tokens, int64_t *rows, int64_t *columns) {
    *columns = r->facts.causal != 0 ? tokens / 2 : tokens;
    *rows = r->facts.causal != 0 ? tokens - *columns : tokens;
}

static void set_layer(run *r) {
    struct run_bounds *b = r->work->bounds;
    b->method = (ota_problem){.size = sizeof b->method, .supports = b->supports};
    b->options = (ota_options){.size = sizeof b->options, .threads = 1};
    b->layer = (ota_attention_layer){.size = sizeof b->layer,
                                     .width = r->facts.width,
                                     .heads = r->facts.heads,
                                     .head_width = r->facts.head_width,
                                     .query_weights = b->query,
                                     .key_weights = b->key,
                                     .value_weights = b->value,
                                     .output_weights = b->output,
                                     .output_bias = b->output_bias,
                                     .method = &b->method,
                                     .options = &b->options};
    const double epsilon = r->facts.norm_epsilon;
    b->norm = (ota_norm){.gamma = b->gamma, .beta = b->beta, .epsilon = epsilon};
    b->query_norm = (ota_norm){.gamma = b->query_gamma, .epsilon = epsilon};
    b->key_norm = (ota_norm){.gamma = b->key_gamma, .epsilon = epsilon};
    b->output_norm = (ota_norm){.gamma = b->output_gamma, .epsilon = epsilon};
}

static int take_runs(run *r) {
    struct run_bounds *b = r->work->bounds;
    const size_t n = (size_t)r->work->tokens, d = (size_t)r->work->width;
    const size_t query = (size_t)query_columns(r);
    int code = 0;
    for (int k = 0; code == 0 && k < RUNS; k++) {
        layer_run *one = &b->runs[k];
        double **const rows[] = {&one->x, &one->sum};
        double **const heads[] = {&one->q, &one->k, &one->v, &one->raw_q, &one->raw_k};
        code = run_take(r, n * d, sizeof(float), &one->input);
        for (int i = 0; code == 0 && i < 2; i++) code = run_take(r, n * d, sizeof(double), rows[i]);
        for (int i = 0; code == 0 && i < 5; i++)
            code = run_take(r, n * query, sizeof(double), heads[i]);
    }
    for (int k = 0; code == 0 && k < 2; k++)
        code = run_take(r, (size_t)r->facts.heads * n * n, sizeof(double), &b->couplings[k]);
    return code;
}

int run_bounds_open(run *r) {
    const size_t d = (size_t)r->work->width, query = (size_t)query_columns(r);
    const int64_t n = r->work->tokens;
    int code = run_take(r, 1, sizeof *r->work->bounds, &r->work->bounds);
    if (code != 0) return code;
    struct run_bounds *b = r->work->bounds;
    *b = (struct run_bounds){.at = 0};
    double **const matrices[] = {&b->query, &b->key, &b->value, &b->output};
    double **const vectors[] = {&b->output_bias, &b->gamma, &b->beta, &b->output_gamma};
    double **const head_vectors[] = {&b->query_gamma, &b->key_gamma};
    const size_t head_width = (size_t)r->facts.head_width;
    code = run_take(r, 4 * d * query + 4 * d + 2 * head_width, sizeof(float), &b->weights);
    for (int k = 0; code == 0 && k < 4; k++)
        code = run_take(r, d * query, sizeof(double), matrices[k]);
    for (int k = 0; code == 0 && k < 4; k++) code = run_take(r, d, sizeof(double), vectors[k]);
    for (int k = 0; code == 0 && k < 2; k++)
        code = run_take(r, head_width, sizeof(double), head_vectors[k]);
    if (code == 0) code = take_runs(r);
    if (code != 0) return code;
    set_layer(r);
    /* A change; the matrix of a rank beside a product; a norm's two tokens. */
    b->room_count = ota_attention_change_workspace(&b->layer, n, n);
    if (b->room_count < 3 * n * n) b->room_count = 3 * n * n;
    return run_take(r, (size_t)(r->executor.threads * b->room_count), sizeof(double), &b->room);
}

void run_bounds_close(run *r) {
    struct run_bounds *b = r->work->bounds;
    if (b == NULL) return;
    for (int k = 0; k < RUNS; k++) {
        free(b->runs[k].input);
        free(b->runs[k].x);
        free(b->runs[k].q);
        free(b->runs[k].k);
        free(b->runs[k].v);
        free(b->runs[k].raw_q);
        free(b->runs[k].raw_k);
        free(b->runs[k].sum);
    }
    double *const arrays[] = {b->query,       b->key,          b->value, b->output,
                              b->output_bias, b->gamma,        b->beta,  b->query_gamma,
                              b->key_gamma,   b->output_gamma, b->room};
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) free(arrays[k]);
    for (int k = 0; k < 2; k++) free(b->couplings[k]);
    free(b->weights);
    free(b);
}

/* ---- weights and runs of a layer ---- */

/* Heads side by side in every row; `groups` of them share what heads have. */
static void widen_heads(const run *r, const float *from, int64_t rows, int64_t groups, double *to) {
    const int64_t heads = r->facts.heads, width = r->facts.head_width;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t k = 0; k < width; k++)
                to[(i * heads + h) * width + k] =
                    (double)from[(i * groups + h / (heads / groups)) * width + k];
}

static void widen(const float *from, int64_t count, double *to) {
    for (int64_t k = 0; k < count; k++) to[k] = (double)from[k];
}

static int load_weights(run *r, int64_t layer) {
    struct run_bounds *b = r->work->bounds;
    const int64_t d = r->work->width, size = d * query_columns(r), width = r->facts.head_width;
    ota_error error = {.message = ""};
    float *at = b->weights;
    b->attention = (ota_model_attention){.size = sizeof b->attention,
                                         .query = at,
                                         .key = at + size,
                                         .value = at + 2 * size,
                                         .output = at + 3 * size,
                                         .output_bias = at + 4 * size,
                                         .norm_weight = at + 4 * size + d,
                                         .norm_bias = at + 4 * size + 2 * d,
                                         .output_norm_weight = at + 4 * size + 3 * d,
                                         .query_norm_weight = at + 4 * size + 4 * d,
                                         .key_norm_weight = at + 4 * size + 4 * d + width};
    const ota_status status = ota_model_attention_of(r->model, layer, &b->attention, &error);
    if (status == OTA_UNSUPPORTED)
        (void)snprintf(error.hint, sizeof error.hint, "analyze it without --bounds");
    if (status < 0) return cli_fail_status(r->context, status, &error);
    widen_heads(r, b->attention.query, d, r->facts.heads, b->query);
    widen_heads(r, b->attention.key, d, r->facts.kv_heads, b->key);
    widen_heads(r, b->attention.value, d, r->facts.kv_heads, b->value);
    widen(b->attention.output, size, b->output);
    widen(b->attention.output_bias, d, b->output_bias);
    widen(b->attention.norm_weight, d, b->gamma);
    widen(b->attention.norm_bias, d, b->beta);
    widen(b->attention.output_norm_weight, d, b->output_gamma);
    widen(b->attention.query_norm_weight, width, b->query_gamma);
    widen(b->attention.key_norm_weight, width, b->key_gamma);
    b->method.scale = b->attention.scale;
    int64_t count = 0;
    if (r->facts.causal != 0) b->supports[count++] = (ota_support){.kind = OTA_SUPPORT_CAUSAL};
    if (b->attention.window > 0)
        b->supports[count++] =
            (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = b->attention.window - 1, .right = -1};
    b->method.support_count = count;
    return 0;
}

enum { POINT_Q, POINT_K, POINT_V, POINT_RAW_Q, POINT_RAW_K, POINT_SUM, POINTS };

static int point_of(const run *r, const char *name) {
    const bool rotary = r->facts.rope_base > 0, normed = r->work->bounds->attention.head_norms != 0;
    const char *const points[POINTS] = {[POINT_Q] = rotary ? "attn.hook_rot_q" : "attn.hook_q",
                                        [POINT_K] = rotary ? "attn.hook_rot_k" : "attn.hook_k",
                                        [POINT_V] = "attn.hook_v",
                                        [POINT_RAW_Q] = normed ? "attn.hook_q" : NULL,
                                        [POINT_RAW_K] = normed ? "attn.hook_k" : NULL,
                                        [POINT_SUM] = "hook_resid_mid"};
    char wanted[64];
    for (int k = 0; k < POINTS; k++) {
        if (points[k] == NULL) continue;
        (void)snprintf(wanted, sizeof wanted, "blocks.%" PRId64 ".%s", r->work->bounds->at,
                       points[k]);
        if (strcmp(name, wanted) == 0) return k;
    }
    return -1;
}

static int is_wanted(void *user, const char *name) { return point_of(user, name) >= 0; }

/* Behind the last point the rest of the model has nothing more to give. */
static ota_status capture(void *user, const ota_capture *one, ota_error *error) {
    run *r = user;
    struct run_bounds *b = r->work->bounds;
    layer_run *to = &b->runs[b->run];
    const int64_t n = r->work->record->shape.tokens;
    (void)error;
    switch (point_of(r, one->name)) {
    case POINT_Q: widen_heads(r, one->data, n, r->facts.heads, to->q); break;
    case POINT_K: widen_heads(r, one->data, n, r->facts.kv_heads, to->k); break;
    case POINT_V: widen_heads(r, one->data, n, r->facts.kv_heads, to->v); break;
    case POINT_RAW_Q: widen_heads(r, one->data, n, r->facts.heads, to->raw_q); break;
    case POINT_RAW_K: widen_heads(r, one->data, n, r->facts.kv_heads, to->raw_k); break;
    case POINT_SUM:
        widen(one->data, n * r->work->width, to->sum);
        b->done = true;
        return OTA_CANCELLED;
    default: break;
    }
    return OTA_OK;
}

static int run_layer(run *r, int index) {
    struct run_bounds *b = r->work->bounds;
    const int64_t n = r->work->record->shape.tokens;
    ota_error error = {.message = ""};
    const ota_model_run window = {.size = sizeof window,
                                  .ids = r->work->record->ids,
                                  .batch = 1,
                                  .count = n,
                                  .residual = b->runs[index].input,
                                  .start_layer = b->at,
                                  .wanted = is_wanted,
                                  .capture = capture,
                                  .user = r};
    b->run = index;
    b->done = false;
    widen(b->runs[index].input, n * r->work->width, b->runs[index].x);
    const ota_status status = ota_session_run(r->sessions[0], &window, &error);
    return b->done ? 0 : cli_fail_status(r->context, status, &error);
}

static int run_layers(run *r) {
    struct run_bounds *b = r->work->bounds;
    const size_t count = (size_t)(r->work->record->shape.tokens * r->work->width);
    uint16_t piece[256];
    memcpy(b->runs[0].input, run_state(r, b->at), count * sizeof(float));
    memcpy(b->runs[1 + BOUND_STEP].input, run_state(r, b->at + 1), count * sizeof(float));
    for (size_t done = 0; done < count; done += 256) {
        const size_t part = count - done < 256 ? count - done : 256;
        cli_convert(b->runs[0].input + done, OTA_F32, piece, OTA_BF16, part);
        cli_convert(piece, OTA_BF16, b->runs[1 + BOUND_ROUNDING].input + done, OTA_F32, part);
    }
    int code = 0;
    for (int k = 0; code == 0 && k < RUNS; k++) code = run_layer(r, k);
    return code;
}

/* ---- bounds ---- */

/* Row 0 is the Jacobian's, the others change by change. */
static double *bound_row(const run *r, int change, int statement) {
    const struct run_bounds *b = r->work->bounds;
    const int row = statement == BOUND_JACOBIAN ? 0 : change * (BOUND_STATEMENTS - 1) + statement;
    return run_record_column(r->work->record, 0, 0, COLUMN_BOUNDS) +
           ((b->at - r->settings.first) * BOUND_ROWS + row) * BOUND_NUMBERS;
}

static void put_change(const run *r, int change, int statement, const ota_change *c) {
    double *row = bound_row(r, change, statement);
    row[BOUND_MEASURED] = c->measured;
    row[BOUND_PRINTED] = c->printed;
    row[BOUND_SHARP] = c->sharp;
    row[BOUND_PRINTED_RATIO] = c->printed_ratio;
    row[BOUND_SHARP_RATIO] = c->sharp_ratio;
}

static void include(ota_change *all, const ota_change *one) {
    all->measured = fmax(all->measured, one->measured);
    all->printed = fmax(all->printed, one->printed);
    all->sharp = fmax(all->sharp, one->sharp);
    all->printed_ratio = fmax(all->printed_ratio, one->printed_ratio);
    all->sharp_ratio = fmax(all->sharp_ratio, one->sharp_ratio);
}

/* What the norm reads. */
static const double *norm_input(const struct run_bounds *b, int index) {
    return b->attention.post_norm != 0 ? b->runs[index].sum : b->runs[index].x;
}

static ota_status measure_jacobian(const run *r, double *room, ota_error *error) {
    const struct run_bounds *b = r->work->bounds;
    const ota_norm norm = {.gamma = b->gamma, .epsilon = b->norm.epsilon};
    const int64_t d = r->work->width;
    ota_change all = {.sharp = (double)NAN, .sharp_ratio = (double)NAN};
    for (int64_t i = 0; i < r->work->record->shape.tokens; i++) {
        const double *u = norm_input(b, 0) + i * d;
        ota_layernorm_spectrum s;
        const ota_status status =
            b->attention.rms != 0
                ? ota_rmsnorm_geometry(u, d, &norm, &s, &r->context->analysis, error)
                : ota_layernorm_geometry(u, d, &norm, room, &s, &r->context->analysis, error);
        if (status < 0) return status;
        all.measured = fmax(all.measured, s.exact);
        all.printed = fmax(all.printed, s.printed);
        all.printed_ratio = fmax(all.printed_ratio, s.exact / s.printed);
    }
    put_change(r, 0, BOUND_JACOBIAN, &all);
    return OTA_OK;
}

static ota_status measure_norm(const run *r, int change, double *room, ota_error *error) {
    const struct run_bounds *b = r->work->bounds;
    const ota_norm norm = {.gamma = b->gamma, .epsilon = b->norm.epsilon};
    const int64_t d = r->work->width;
    ota_change all = {.measured = 0};
    for (int64_t i = 0; i < r->work->record->shape.tokens; i++) {
        const double *u = norm_input(b, 0) + i * d, *v = norm_input(b, 1 + change) + i * d;
        ota_change one;
        const ota_status status =
            b->attention.rms != 0
                ? ota_rmsnorm_change(u, v, d, &norm, &one, &r->context->analysis, error)
                : ota_layernorm_change(u, v, d, &norm, room, &one, &r->context->analysis, error);
        if (status < 0) return status;
        include(&all, &one);
    }
    put_change(r, change, BOUND_NORM, &all);
    return OTA_OK;
}

static ota_projected projected_of(const layer_run *one) {
    return (ota_projected){.x = one->x,
                           .q = one->q,
                           .k = one->k,
                           .v = one->v,
                           .raw_q = one->raw_q,
                           .raw_k = one->raw_k};
}

static ota_status measure_change(const run *r, int change, bool block, double *room,
                                 ota_error *error) {
    const struct run_bounds *b = r->work->bounds;
    const int64_t n = r->work->record->shape.tokens;
    const ota_projected before = projected_of(&b->runs[0]);
    const ota_projected after = projected_of(&b->runs[1 + change]);
    ota_change output, weights;
    ota_status status;
    if (block) {
        const bool heads = b->attention.head_norms != 0;
        const ota_residual residual = {.size = sizeof residual,
                                       .norm = &b->norm,
                                       .rms = b->attention.rms,
                                       .behind = b->attention.post_norm,
                                       .query_norm = heads ? &b->query_norm : NULL,
                                       .key_norm = heads ? &b->key_norm : NULL,
                                       .output_norm =
                                           b->attention.output_norm != 0 ? &b->output_norm : NULL};
        status = ota_projected_block_change(&b->layer, &residual, &before, &after, n, room, &output,
                                            error);
        if (status >= 0) put_change(r, change, BOUND_BLOCK, &output);
        return status;
    }
    status = ota_projected_change(&b->layer, &before, &after, n, room, &output, &weights, error);
    if (status < 0) return status;
    put_change(r, change, BOUND_WEIGHTS, &weights);
    put_change(r, change, BOUND_OUTPUT, &output);
    return status;
}

/* ---- ranks ---- */

/* S of all heads in f64. */
static int solve_heads(run *r) {
    struct run_bounds *b = r->work->bounds;
    const int64_t n = r->work->record->shape.tokens, heads = r->facts.heads;
    const int64_t width = r->facts.head_width;
    ota_error error = {.message = ""};
    ota_problem problem = b->method;
    ota_arrays arrays = {.size = sizeof arrays};
    ota_array *const inputs[] = {&problem.queries, &problem.keys};
    const double *const data[] = {b->runs[0].q, b->runs[0].k};
    for (int k = 0; k < 2; k++)
        *inputs[k] = (ota_array){.data = (void *)(uintptr_t)data[k],
                                 .type = OTA_F64,
                                 .size = {1, heads, n, width},
                                 .stride = {0, width, heads * width, 1}};
    arrays.coupling = ota_array_of(b->couplings[b->at % 2], OTA_F64, 1, heads, n, n);
    const ota_status status = ota_attend(&problem, &b->options, &arrays, NULL, &error);
    return status < 0 ? cli_fail_status(r->context, status, &error) : 0;
}

/* Ranks of S [n, n] at both tolerances; none where S has a 0. `room` [2 n n]. */
static ota_status measure_ranks(const run *r, const double *s, double *room, double *ranks,
                                ota_error *error) {
    const int64_t n = r->work->record->shape.tokens;
    int64_t rows, columns, rank = 0;
    rank_sides(r, n, &rows, &columns);
    double *part = room, *ratios = room + n * n, *pivots = ratios + rows * (columns - 1);
    if (columns < 2) return OTA_OK;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            part[i * columns + j] = s[(n - rows + i) * n + j];
            if (!(part[i * columns + j] > 0)) return OTA_OK;
        }
    for (int k = 0; k < 2; k++) {
        ota_status status =
            ota_log_ratios(part, rows, columns, ratios, &r->context->analysis, error);
        if (status >= 0)
            status = ota_rank(ratios, rows, columns - 1, tolerances[k], pivots, &rank,
                              &r->context->analysis, error);
        if (status < 0) return status;
        ranks[k] = (double)rank;
    }
    return OTA_OK;
}

static ota_status measure_head(const run *r, int64_t head, double *room, ota_error *error) {
    const struct run_bounds *b = r->work->bounds;
    const int64_t n = r->work->record->shape.tokens, move = b->at - r->settings.first;
    const double *now = b->couplings[b->at % 2] + head * n * n;
    const double *before = b->couplings[1 - b->at % 2] + head * n * n;
    double *ranks = run_record_column(r->work->record, 0, 0, COLUMN_RANKS) +
                    (move * r->facts.heads + head) * RANKS;
    ota_status status = measure_ranks(r, now, room, ranks + RANK_ONE, error);
    if (status < 0 || move == 0) return status;
    status = ota_compose(now, before, n, n, n, room + 2 * n * n, &r->context->analysis, error);
    return status < 0 ? status : measure_ranks(r, room + 2 * n * n, room, ranks + RANK_TWO, error);
}

/* ---- a window ---- */

enum { TASKS_BEFORE_HEADS = 1 + 3 * BOUND_CHANGES };

/* Blocks, then outputs with weights, then norms, change by change; the Jacobian; heads. */
static ota_status measure_task(run *r, int64_t task, int worker, ota_error *error) {
    const struct run_bounds *b = r->work->bounds;
    double *room = b->room + worker * b->room_count;
    const int change = (int)(task % BOUND_CHANGES);
    if (task >= TASKS_BEFORE_HEADS) return measure_head(r, task - TASKS_BEFORE_HEADS, room, error);
    switch (task / BOUND_CHANGES) {
    case 0: return measure_change(r, change, true, room, error);
    case 1: return measure_change(r, change, false, room, error);
    case 2: return measure_norm(r, change, room, error);
    default: return measure_jacobian(r, room, error);
    }
}

int run_bounds_measure(run *r) {
    struct run_bounds *b = r->work->bounds;
    int code = 0;
    for (b->at = r->settings.first; code == 0 && b->at < r->settings.last; b->at++) {
        code = load_weights(r, b->at);
        if (code == 0) code = run_layers(r);
        if (code == 0) code = solve_heads(r);
        if (code == 0) code = run_tasks(r, TASKS_BEFORE_HEADS + r->facts.heads, measure_task);
    }
    return code;
}
