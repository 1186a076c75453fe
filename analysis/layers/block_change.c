/* How far an attention layer or block moves when its input does: measured, as printed, and sharper.
 *
 *     P V - P' V' = (P - P') V + P' (V - V')            rows of P' sum to 1
 *     q k - q' k' = q (k - k') + (q - q') k'
 *
 * so ||y_i - y'_i|| <= sum_h ||W_O,h|| (||P_i - P'_i||_1 |V_h| + |V_h - V'_h|) [TOT-54], with |.| the
 * spectral norm or the largest row norm: a row of P times V is a signed sum of rows of V. The weights
 * follow from the scores (weight_rules.h). */
#include "otattn_analysis.h"

#include "analysis/analysis.h"
#include "base/integers.h"
#include "block.h"
#include "dense.h"
#include "weight_rules.h"

/* ---- measuring ------------------------------------------------------------------------------ */

static double ratio(double measured, double bound) {
    if (bound > 0.0) return measured / bound;
    return measured > 0.0 ? (double)INFINITY : 0.0;
}

static void include(ota_change *change, double measured, double printed, double sharp) {
    if (change == NULL) return;
    change->measured = fmax(change->measured, measured);
    change->printed = fmax(change->printed, printed);
    change->sharp = fmax(change->sharp, sharp);
    change->printed_ratio = fmax(change->printed_ratio, ratio(measured, printed));
    change->sharp_ratio = fmax(change->sharp_ratio, ratio(measured, sharp));
}

/* Largest row norm of x [rows, columns]. */
static double largest_row(const double *x, int64_t rows, int64_t columns, int64_t stride,
                          const analysis_call *call) {
    double largest = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++)
        largest = fmax(largest, dense_norm(x + i * stride, columns, call));
    return largest;
}

static double largest_of(const double *x, int64_t count, const analysis_call *call) {
    double largest = 0.0;
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++) largest = fmax(largest, x[i]);
    return largest;
}

static double weight_distance(const double *p, const double *q, int64_t keys,
                              const analysis_call *call) {
    double sum = 0.0;
    for (int64_t j = 0; j < keys && analysis_goes_on(call, j); j++) sum += fabs(p[j] - q[j]);
    return sum;
}

/* A bound as it is printed, and the sharp one. */
enum { PRINTED, SHARP, FORMS };

/* Two passes side by side, and what both need. */
typedef struct two_passes {
    layer_shape shape;
    const weight_rule *rule;
    layer_pass first, second;
    double *normalised[2];
    double *token_change[FORMS], *reach[FORMS], *output_bound[FORMS]; /* [queries] each */
    double *tokens;                                                   /* two of them */
    double *squares;
} two_passes;

static int64_t square_side(const layer_shape *s) {
    return ota_int_max(s->layer.head_width, s->layer.value_width);
}

int64_t ota_attention_change_workspace(const ota_attention_layer *layer, int64_t queries,
                                       int64_t keys) {
    const analysis_call call = ota_analysis_begin(NULL, NULL);
    layer_shape s;
    int64_t half = 0, total = 0;
    if (ota_layer_read(layer, queries, keys, &s, &call) != OTA_OK) return 0;
    const int64_t width = s.layer.width, side = square_side(&s);
    /* Each half: a pass, the normalised input, the output and the couplings. */
    const bool fits =
        ota_layer_count_pass(&half, &s) && ota_layer_count(&half, queries, width, 2) &&
        ota_layer_count(&half, s.layer.heads, queries, keys) &&
        ota_layer_count(&total, half, 2, 1) && ota_layer_count(&total, queries, 3 * FORMS, 1) &&
        ota_layer_count(&total, width, 2, 1) && ota_layer_count(&total, side, side, 2);
    return fits ? total : 0;
}

static ota_status open_two(const ota_attention_layer *layer, int64_t queries, int64_t keys,
                           double *workspace, two_passes *two, const analysis_call *call) {
    layer_shape *s = &two->shape;
    const int64_t count = ota_attention_change_workspace(layer, queries, keys);
    ota_status status = ota_layer_open(layer, queries, keys, count, workspace, s, call);
    if (status == OTA_OK) status = ota_weight_rule_of(s, &two->rule, call);
    if (status != OTA_OK) return status;
    layer_pass *const passes[2] = {&two->first, &two->second};
    for (int k = 0; k < 2; k++) {
        *passes[k] = ota_layer_take_pass(&workspace, s);
        passes[k]->out = ota_layer_take(&workspace, queries * s->layer.width);
        passes[k]->coupling = ota_layer_take(&workspace, s->layer.heads * queries * keys);
        two->normalised[k] = ota_layer_take(&workspace, queries * s->layer.width);
    }
    for (int form = 0; form < FORMS; form++) {
        two->token_change[form] = ota_layer_take(&workspace, queries);
        two->reach[form] = ota_layer_take(&workspace, queries);
        two->output_bound[form] = ota_layer_take(&workspace, queries);
    }
    two->tokens = ota_layer_take(&workspace, 2 * s->layer.width);
    two->squares = ota_layer_take(&workspace, 2 * square_side(s) * square_side(s));
    return OTA_OK;
}

/* A solve has to keep every promise for the bounds to mean anything. */
static ota_status check_converged(ota_status status, const analysis_call *call) {
    if (status <= 0) return status;
    return ota_analysis_fail(call, OTA_UNSUPPORTED, "method", "let the solve converge",
                             "the bounds are about the converged plan, but the status is %s",
                             ota_status_word(status));
}

static ota_status run_two(two_passes *two, const double *x, const double *context, const double *x2,
                          const double *context2, const analysis_call *call) {
    const double *const inputs[2][2] = {{x, context}, {x2, context2}};
    layer_pass *const passes[2] = {&two->first, &two->second};
    ota_status status = OTA_OK;
    for (int k = 0; k < 2 && status == OTA_OK; k++)
        status = check_converged(
            ota_layer_run(&two->shape, inputs[k][0], inputs[k][1], passes[k], NULL, call), call);
    return status;
}

/* The same from projections that were made elsewhere. */
static ota_status attend_two(two_passes *two, const ota_projected *before,
                             const ota_projected *after, const analysis_call *call) {
    const ota_projected *const inputs[2] = {before, after};
    const layer_shape *s = &two->shape;
    layer_pass *const passes[2] = {&two->first, &two->second};
    ota_status status = OTA_OK;
    for (int k = 0; k < 2 && status == OTA_OK; k++) {
        const struct {
            const char *field;
            const double *from;
            double *to;
            int64_t columns;
        } arrays[] = {{"q", inputs[k]->q, passes[k]->q, s->head_columns},
                      {"k", inputs[k]->k, passes[k]->k, s->head_columns},
                      {"v", inputs[k]->v, passes[k]->v, s->value_columns}};
        for (int part = 0; part < 3 && status == OTA_OK; part++) {
            status = ota_layer_check_input(arrays[part].from, s->queries, arrays[part].columns,
                                           arrays[part].field, call);
            if (status == OTA_OK)
                memcpy(arrays[part].to, arrays[part].from,
                       (size_t)(s->queries * arrays[part].columns) * sizeof(double));
        }
        if (status == OTA_OK)
            status = check_converged(ota_layer_attend(s, passes[k], NULL, call), call);
    }
    return status;
}

/* ---- one layer, from its queries, keys and values ------------------------------------------- */

/* Does the key take part in the row? A row of a free plan does not feel scores of keys without weight, such as
 * later keys under a causal mask. */
static bool takes_part(const two_passes *two, int64_t head, int64_t i, int64_t j) {
    const layer_shape *s = &two->shape;
    const int64_t at = (head * s->queries + i) * s->keys + j;
    return !two->rule->alone || two->first.coupling[at] > 0.0 || two->second.coupling[at] > 0.0;
}

/* reach_i = r_i and range_i = osc_i of one head. */
static void score_changes(const two_passes *two, int64_t head, double *reach, double *range,
                          const analysis_call *call) {
    const layer_shape *s = &two->shape;
    const int64_t width = s->layer.head_width, stride = s->head_columns, first = head * width;
    const layer_pass *a = &two->first, *b = &two->second;
    const double rate = ota_layer_head_rate(s, head);
    const double key_norm = largest_row(b->k + first, s->keys, width, stride, call);
    double key_change = 0.0;
    for (int64_t j = 0; j < s->keys; j++)
        key_change = fmax(key_change, dense_distance(a->k + j * stride + first,
                                                     b->k + j * stride + first, width, call));
    for (int64_t i = 0; i < s->queries && ota_analysis_goes_on(call); i++) {
        const double *q = a->q + i * stride + first, *q2 = b->q + i * stride + first;
        double low = (double)INFINITY, high = -(double)INFINITY;
        for (int64_t j = 0; j < s->keys; j++) {
            if (!takes_part(two, head, i, j)) continue;
            const double change = dense_dot(q, a->k + j * stride + first, width, call) -
                                  dense_dot(q2, b->k + j * stride + first, width, call);
            low = fmin(low, change);
            high = fmax(high, change);
        }
        range[i] = rate * (high - low);
        reach[i] = rate * (key_change * dense_norm(q, width, call) +
                           key_norm * dense_distance(q, q2, width, call));
    }
}

/* V' of the second pass becomes V' - V. */
static void compare_layers(two_passes *two, ota_change *output, ota_change *weights,
                           const analysis_call *call) {
    const layer_shape *s = &two->shape;
    const int64_t width = s->layer.width, value_width = s->layer.value_width;
    const int64_t queries = s->queries, keys = s->keys;
    if (output != NULL) *output = (ota_change){.measured = 0.0};
    if (weights != NULL) *weights = (ota_change){.measured = 0.0};
    double *reach = two->reach[PRINTED], *range = two->reach[SHARP];
    double *printed = two->output_bound[PRINTED], *sharp = two->output_bound[SHARP];
    for (int64_t i = 0; i < queries; i++) printed[i] = sharp[i] = 0.0;
    for (int64_t h = 0; h < s->layer.heads && ota_analysis_goes_on(call); h++) {
        double *v = two->first.v + h * value_width, *v2 = two->second.v + h * value_width;
        const double out_norm =
            ota_spectral_norm(s->layer.output_weights + h * value_width * width, value_width, width,
                              width, two->squares, &call->options);
        for (int64_t j = 0; j < keys && ota_analysis_goes_on(call); j++) {
            for (int64_t k = 0; k < value_width; k++)
                v2[j * s->value_columns + k] -= v[j * s->value_columns + k];
        }
        const double *const values[2] = {v, v2};
        double spectral[2], row[2];
        for (int k = 0; k < 2; k++) {
            spectral[k] = ota_spectral_norm(values[k], keys, value_width, s->value_columns,
                                            two->squares, &call->options);
            row[k] = largest_row(values[k], keys, value_width, s->value_columns, call);
        }
        score_changes(two, h, reach, range, call);
        const double worst_reach = largest_of(reach, queries, call);
        const double worst_range = largest_of(range, queries, call);
        for (int64_t i = 0; i < queries && ota_analysis_goes_on(call); i++) {
            const int64_t at = (h * queries + i) * keys;
            const double moved =
                weight_distance(two->first.coupling + at, two->second.coupling + at, keys, call);
            include(weights, moved, ota_weights_printed(two->rule, queries, reach[i], worst_reach),
                    ota_weights_sharp(two->rule, queries, range[i], worst_range));
            printed[i] += out_norm * (moved * spectral[0] + spectral[1]);
            sharp[i] += out_norm * (moved * row[0] + row[1]);
        }
    }
    for (int64_t i = 0; i < queries; i++)
        include(
            output,
            dense_distance(two->first.out + i * width, two->second.out + i * width, width, call),
            printed[i], sharp[i]);
}

static ota_status change_of_attention(const ota_attention_layer *layer,
                                      const ota_attention_input *before,
                                      const ota_attention_input *after, double *workspace,
                                      ota_change *output, ota_change *weights,
                                      const analysis_call *call) {
    const double *x = before->x, *context = before->context;
    const double *x2 = after->x, *context2 = after->context;
    const int64_t queries = before->queries, keys = before->keys;
    two_passes two;
    ota_status status = open_two(layer, queries, keys, workspace, &two, call);
    if (status != OTA_OK) return status;
    if (after->queries != queries || after->keys != keys) {
        return ota_analysis_fail(call, OTA_EINVAL, "after", "give inputs of the same sizes",
                                 "%" PRId64 " queries and %" PRId64 " keys become %" PRId64
                                 " and %" PRId64,
                                 queries, keys, after->queries, after->keys);
    }
    if ((context == NULL) != (context2 == NULL) || (context == NULL && keys != queries)) {
        return ota_analysis_fail(
            call, OTA_EINVAL, "context", "give both contexts, or none",
            "one context is missing, or keys differs from queries without any");
    }
    const struct {
        const char *field;
        const double *data;
        int64_t rows;
    } inputs[] = {{"x", x, queries},
                  {"x2", x2, queries},
                  {"context", context == NULL ? x : context, keys},
                  {"context2", context2 == NULL ? x2 : context2, keys}};
    for (int k = 0; k < 4 && status == OTA_OK; k++)
        status = ota_layer_check_input(inputs[k].data, inputs[k].rows, two.shape.layer.width,
                                       inputs[k].field, call);
    if (status == OTA_OK) status = run_two(&two, x, inputs[2].data, x2, inputs[3].data, call);
    if (status == OTA_OK) compare_layers(&two, output, weights, call);
    return ota_analysis_end(status, call);
}

ota_status ota_attention_change(const ota_attention_layer *layer, const ota_attention_input *before,
                                const ota_attention_input *after, double *workspace,
                                ota_change *output, ota_change *weights, ota_error *error) {
    const analysis_call call = ota_layer_begin(layer, error);
    return change_of_attention(layer, before, after, workspace, output, weights, &call);
}

static ota_status change_of_projected(const ota_attention_layer *layer, const ota_projected *before,
                                      const ota_projected *after, int64_t tokens, double *workspace,
                                      ota_change *output, ota_change *weights,
                                      const analysis_call *call) {
    two_passes two;
    ota_status status = open_two(layer, tokens, tokens, workspace, &two, call);
    if (status == OTA_OK) status = attend_two(&two, before, after, call);
    if (status == OTA_OK) compare_layers(&two, output, weights, call);
    return ota_analysis_end(status, call);
}

ota_status ota_projected_change(const ota_attention_layer *layer, const ota_projected *before,
                                const ota_projected *after, int64_t tokens, double *workspace,
                                ota_change *output, ota_change *weights, ota_error *error) {
    const analysis_call call = ota_layer_begin(layer, error);
    return change_of_projected(layer, before, after, tokens, workspace, output, weights, &call);
}

/* ---- one block, from the distance of its inputs --------------------------------------------- */

/* What the block's bound is made of. */
typedef struct block_norms {
    double query, key, value, out; /* spectral norms of a head's weights */
    double values[FORMS];          /* |V| */
    double value_change[FORMS];    /* |V - V'| */
    double token_change[FORMS];    /* largest delta */
    double key_change[FORMS];      /* largest |K_j - K'_j| */
    double key_norm;               /* |K'| */
} block_norms;

/* The two runs of a block, and what stands around its attention. */
typedef struct block_runs {
    const ota_residual *residual;
    const ota_projected *before, *after;
    double alpha;
} block_runs;

/* How much farther apart a norm can take two vectors of these scales, printed and sharp. */
static void set_gain(const ota_norm *norm, int64_t width, const double scale[2],
                     double gain[FORMS]) {
    double largest = norm->gamma == NULL ? 1.0 : 0.0;
    for (int64_t k = 0; norm->gamma != NULL && k < width; k++)
        largest = fmax(largest, fabs(norm->gamma[k]));
    gain[PRINTED] = largest / fmin(scale[0], scale[1]);
    gain[SHARP] = largest * 2.0 / (scale[0] + scale[1]);
}

/* The same of one head's query or key, whose RMSNorm reads u, v [tokens, heads * head_width]; 1 without one. */
static void head_gain(const two_passes *two, const ota_norm *norm, const double *u, const double *v,
                      int64_t token, int64_t head, double gain[FORMS], const analysis_call *call) {
    const layer_shape *s = &two->shape;
    const int64_t width = s->layer.head_width, at = token * s->head_columns + head * width;
    gain[PRINTED] = gain[SHARP] = 1.0;
    if (norm == NULL) return;
    const double root = sqrt((double)width), least = sqrt(norm->epsilon);
    const double scale[2] = {hypot(dense_norm(u + at, width, call) / root, least),
                             hypot(dense_norm(v + at, width, call) / root, least)};
    set_gain(norm, width, scale, gain);
}

/* two->token_change = delta_i; `residual` has a norm before attention, or none. */
static ota_status token_changes(const two_passes *two, const ota_residual *residual,
                                const double *x, const double *x2, const analysis_call *call) {
    const int64_t width = two->shape.layer.width;
    const ota_norm *norm = residual->behind ? NULL : residual->norm;
    for (int64_t i = 0; i < two->shape.queries && ota_analysis_goes_on(call); i++) {
        const double *u = x + i * width, *v = x2 + i * width;
        ota_change change = {.printed = dense_distance(u, v, width, call)};
        ota_status status = OTA_OK;
        change.sharp = change.printed;
        if (norm != NULL)
            status = residual->rms ? ota_rmsnorm_change(u, v, width, norm, &change, &call->options,
                                                        call->error)
                                   : ota_layernorm_change(u, v, width, norm, two->tokens, &change,
                                                          &call->options, call->error);
        if (status != OTA_OK) return status;
        two->token_change[PRINTED][i] = change.printed;
        two->token_change[SHARP][i] = change.sharp;
    }
    return OTA_OK;
}

static block_norms norms_of(const two_passes *two, const block_runs *runs, int64_t head,
                            const analysis_call *call) {
    const layer_shape *s = &two->shape;
    const ota_attention_layer *a = &s->layer;
    const int64_t first = head * a->head_width, first_value = head * a->value_width;
    double *squares = two->squares;
    block_norms n = {
        .query = ota_spectral_norm(a->query_weights + first, a->width, a->head_width,
                                   s->head_columns, squares, &call->options),
        .key = ota_spectral_norm(a->key_weights + first, a->width, a->head_width, s->head_columns,
                                 squares, &call->options),
        .value = ota_spectral_norm(a->value_weights + first_value, a->width, a->value_width,
                                   s->value_columns, squares, &call->options),
        .out = ota_spectral_norm(a->output_weights + first_value * a->width, a->value_width,
                                 a->width, a->width, squares, &call->options),
        .values = {ota_spectral_norm(two->first.v + first_value, s->keys, a->value_width,
                                     s->value_columns, squares, &call->options),
                   largest_row(two->first.v + first_value, s->keys, a->value_width,
                               s->value_columns, call)},
        .token_change = {largest_of(two->token_change[PRINTED], s->queries, call),
                         largest_of(two->token_change[SHARP], s->queries, call)},
        .key_norm =
            largest_row(two->second.k + first, s->keys, a->head_width, s->head_columns, call),
    };
    n.value_change[PRINTED] = n.value * dense_norm(two->token_change[PRINTED], s->queries, call);
    n.value_change[SHARP] = n.value * n.token_change[SHARP];
    for (int64_t j = 0; j < s->keys && ota_analysis_goes_on(call); j++) {
        double gain[FORMS];
        head_gain(two, runs->residual->key_norm, runs->before->raw_k, runs->after->raw_k, j, head,
                  gain, call);
        for (int form = 0; form < FORMS; form++)
            n.key_change[form] =
                fmax(n.key_change[form], gain[form] * n.key * two->token_change[form][j]);
    }
    return n;
}

/* two->output_bound: what attention moves at most. */
static void bound_outputs(const two_passes *two, const block_runs *runs,
                          const analysis_call *call) {
    const layer_shape *s = &two->shape;
    const int64_t tokens = s->queries;
    double *const *reach = two->reach, *const *bound = two->output_bound;
    for (int64_t i = 0; i < tokens; i++) bound[PRINTED][i] = bound[SHARP][i] = 0.0;
    for (int64_t h = 0; h < s->layer.heads && ota_analysis_goes_on(call); h++) {
        const block_norms n = norms_of(two, runs, h, call);
        double worst[FORMS];
        for (int64_t i = 0; i < tokens && ota_analysis_goes_on(call); i++) {
            const double *q = two->first.q + i * s->head_columns + h * s->layer.head_width;
            double gain[FORMS];
            head_gain(two, runs->residual->query_norm, runs->before->raw_q, runs->after->raw_q, i,
                      h, gain, call);
            for (int form = 0; form < FORMS; form++)
                reach[form][i] = ota_layer_head_rate(s, h) *
                                 (dense_norm(q, s->layer.head_width, call) * n.key_change[form] +
                                  n.key_norm * n.query * gain[form] * two->token_change[form][i]);
        }
        for (int form = 0; form < FORMS; form++)
            worst[form] = largest_of(reach[form], tokens, call);
        for (int64_t i = 0; i < tokens && ota_analysis_goes_on(call); i++) {
            const double moved[FORMS] = {
                ota_weights_printed(two->rule, tokens, reach[PRINTED][i], worst[PRINTED]),
                ota_weights_sharp(two->rule, tokens, 2.0 * reach[SHARP][i], 2.0 * worst[SHARP])};
            for (int form = 0; form < FORMS; form++)
                bound[form][i] += n.out * (moved[form] * n.values[form] + n.value_change[form]);
        }
    }
}

/* A token's vectors u, v [width] through a norm, in place; `gain` as of set_gain. */
static ota_status pass_norm(const ota_norm *norm, bool rms, double *u, double *v, int64_t width,
                            double gain[FORMS], const analysis_call *call) {
    const ota_norm bare = {.gamma = norm->gamma, .epsilon = norm->epsilon};
    double *const sides[2] = {u, v};
    double scale[2];
    for (int k = 0; k < 2; k++) {
        double *y = sides[k];
        const ota_status status =
            rms ? ota_rmsnorm(y, 1, width, &bare, y, &scale[k], &call->options, call->error)
                : ota_layernorm(y, 1, width, &bare, y, &scale[k], &call->options, call->error);
        if (status != OTA_OK) return status;
    }
    set_gain(norm, width, scale, gain);
    return OTA_OK;
}

/* Outputs of attention become outputs of the block. */
static ota_status compare_blocks(two_passes *two, const block_runs *runs, ota_change *change,
                                 const analysis_call *call) {
    const ota_residual *residual = runs->residual;
    const double *x = runs->before->x, *x2 = runs->after->x, alpha = runs->alpha;
    const int64_t width = two->shape.layer.width, tokens = two->shape.queries;
    double *const *bound = two->output_bound;
    ota_status status = token_changes(two, residual, x, x2, call);
    if (status != OTA_OK) return status;
    bound_outputs(two, runs, call);
    *change = (ota_change){.measured = 0.0};
    for (int64_t i = 0; i < tokens && status == OTA_OK && ota_analysis_goes_on(call); i++) {
        double inner[FORMS] = {1.0, 1.0}, outer[FORMS] = {1.0, 1.0};
        double *u = two->first.out + i * width, *v = two->second.out + i * width;
        if (residual->output_norm != NULL)
            status = pass_norm(residual->output_norm, residual->rms != 0, u, v, width, inner, call);
        const double moved = dense_distance(x + i * width, x2 + i * width, width, call);
        double measured = 0.0;
        for (int64_t k = 0; k < width; k++) {
            measured =
                hypot(measured, (x[i * width + k] - x2[i * width + k]) + alpha * (u[k] - v[k]));
            u[k] = x[i * width + k] + alpha * u[k];
            v[k] = x2[i * width + k] + alpha * v[k];
        }
        if (status == OTA_OK && residual->behind && residual->norm != NULL) {
            status = pass_norm(residual->norm, residual->rms != 0, u, v, width, outer, call);
            measured = dense_distance(u, v, width, call);
        }
        include(change, measured,
                outer[PRINTED] * (moved + fabs(alpha) * inner[PRINTED] * bound[PRINTED][i]),
                outer[SHARP] * (moved + fabs(alpha) * inner[SHARP] * bound[SHARP][i]));
    }
    return status;
}

/* The norms of heads, and what they read. */
static ota_status check_head_norms(const two_passes *two, const block_runs *runs,
                                   const analysis_call *call) {
    const layer_shape *s = &two->shape;
    const struct {
        const ota_norm *norm;
        const double *raw[2];
        const char *name, *field;
    } norms[] = {
        {runs->residual->query_norm,
         {runs->before->raw_q, runs->after->raw_q},
         "query_norm",
         "raw_q"},
        {runs->residual->key_norm, {runs->before->raw_k, runs->after->raw_k}, "key_norm", "raw_k"}};
    ota_status status = OTA_OK;
    for (int k = 0; k < 2 && status == OTA_OK; k++) {
        const ota_norm *norm = norms[k].norm;
        if (norm == NULL) continue;
        if (!(norm->epsilon > 0.0) || isinf(norm->epsilon))
            return ota_analysis_fail(call, OTA_EINVAL, norms[k].name,
                                     "choose a finite epsilon above 0", "%s->epsilon is %g",
                                     norms[k].name, norm->epsilon);
        if (norm->gamma != NULL)
            status = analysis_check_finite(norm->gamma, s->layer.head_width, norms[k].name, call);
        for (int run = 0; run < 2 && status == OTA_OK; run++)
            status = ota_layer_check_input(norms[k].raw[run], s->queries, s->head_columns,
                                           norms[k].field, call);
    }
    return status;
}

static ota_status change_of_block(const ota_residual_block *block, const double *x,
                                  const double *x2, int64_t tokens, double *workspace,
                                  ota_change *change, const analysis_call *call) {
    const ota_norm *norm = block->norm;
    const double alpha = block->alpha;
    two_passes two;
    const ota_residual residual = {.size = sizeof residual, .norm = norm};
    const double *const inputs[2] = {x, x2}, *normalised[2];
    ota_status status = open_two(block->layer, tokens, tokens, workspace, &two, call);
    if (status == OTA_OK) status = analysis_check_finite(&alpha, 1, "alpha", call);
    for (int k = 0; k < 2 && status == OTA_OK; k++) {
        const int64_t width = two.shape.layer.width;
        status = ota_layer_check_input(inputs[k], tokens, width, k == 0 ? "x" : "x2", call);
        if (status == OTA_OK)
            status = ota_layer_normalise(norm, inputs[k], tokens, width, two.normalised[k],
                                         &normalised[k], call);
    }
    if (status == OTA_OK)
        status = run_two(&two, normalised[0], normalised[0], normalised[1], normalised[1], call);
    const ota_projected before = {.x = x}, after = {.x = x2};
    const block_runs runs = {&residual, &before, &after, alpha};
    if (status == OTA_OK) status = compare_blocks(&two, &runs, change, call);
    return ota_analysis_end(status, call);
}

ota_status ota_block_change(const ota_residual_block *block, const double *x, const double *x2,
                            int64_t tokens, double *workspace, ota_change *change,
                            ota_error *error) {
    const analysis_call call = ota_layer_begin(block->layer, error);
    return change_of_block(block, x, x2, tokens, workspace, change, &call);
}

static ota_status change_of_projected_block(const ota_attention_layer *layer,
                                            const ota_residual *residual,
                                            const ota_projected *before, const ota_projected *after,
                                            int64_t tokens, double *workspace, ota_change *change,
                                            const analysis_call *call) {
    two_passes two;
    ota_residual r = {.size = sizeof r};
    if (residual->size == 0 || residual->size > sizeof r) {
        return ota_analysis_fail(call, OTA_EINVAL, "residual", "set size to sizeof(ota_residual)",
                                 "residual->size is %zu", residual->size);
    }
    memcpy(&r, residual, residual->size);
    ota_status status = open_two(layer, tokens, tokens, workspace, &two, call);
    const ota_projected *const inputs[2] = {before, after};
    for (int k = 0; k < 2 && status == OTA_OK; k++)
        status = ota_layer_check_input(inputs[k]->x, tokens, two.shape.layer.width, "x", call);
    const block_runs runs = {&r, before, after, 1.0};
    if (status == OTA_OK) status = check_head_norms(&two, &runs, call);
    if (status == OTA_OK) status = attend_two(&two, before, after, call);
    if (status == OTA_OK) status = compare_blocks(&two, &runs, change, call);
    return ota_analysis_end(status, call);
}

ota_status ota_projected_block_change(const ota_attention_layer *layer,
                                      const ota_residual *residual, const ota_projected *before,
                                      const ota_projected *after, int64_t tokens, double *workspace,
                                      ota_change *change, ota_error *error) {
    const analysis_call call = ota_layer_begin(layer, error);
    return change_of_projected_block(layer, residual, before, after, tokens, workspace, change,
                                     &call);
}
