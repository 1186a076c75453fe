/* Attention with its projections, the residual block around it, and what both do to means.
 *
 *     Q = X W_Q + b [n, H d_h],  K = Z W_K + b [m, H d_h],  V = Z W_V + b [m, H d_v]
 *     Y = Concat_h(P_h V_h) W_O + b  [n, d]            P_h: any plan ota_attend computes
 *     block  X + alpha Y(N(X)),   core  (1 - alpha) X + alpha P X                  [CETA-27..29]
 *
 * With doubly stochastic P_h and weights on rows alone, 1^T Y = 1^T (Concat_h V_h W_O + b): the mean over
 * tokens of the output is that of the projected values [CETA-30]. */
#include "otattn_analysis.h"

#include "analysis/analysis.h"
#include "block.h"
#include "dense.h"

/* ---- the layer and its arrays --------------------------------------------------------------- */

static ota_status read_method(const ota_problem *method, ota_problem *problem,
                              const analysis_call *call) {
    *problem = (ota_problem){.size = sizeof *problem};
    if (method == NULL) return OTA_OK;
    if (method->size == 0 || method->size > sizeof *problem) {
        return ota_analysis_fail(call, OTA_EINVAL, "method", "set size to sizeof(ota_problem)",
                                 "method->size is %zu", method->size);
    }
    memcpy(problem, method, method->size);
    problem->size = sizeof *problem;
    if (problem->queries.type == OTA_NO_TYPE && problem->keys.type == OTA_NO_TYPE &&
        problem->scores.type == OTA_NO_TYPE)
        return OTA_OK;
    return ota_analysis_fail(
        call, OTA_EINVAL, "method", "leave the three arrays of the method empty",
        "the method brings queries, keys or scores, which the layer makes itself");
}

ota_status ota_layer_read(const ota_attention_layer *layer, int64_t queries, int64_t keys,
                          layer_shape *s, const analysis_call *call) {
    *s = (layer_shape){.queries = queries, .keys = keys};
    if (layer->size == 0 || layer->size > sizeof s->layer) {
        return ota_analysis_fail(call, OTA_EINVAL, "layer",
                                 "set size to sizeof(ota_attention_layer)", "layer->size is %zu",
                                 layer->size);
    }
    memcpy(&s->layer, layer, layer->size);
    ota_attention_layer *a = &s->layer;
    if (a->heads == 0) a->heads = 1;
    ota_status status = analysis_check_size(queries, 1, "queries", call);
    if (status == OTA_OK) status = analysis_check_size(keys, 1, "keys", call);
    if (status == OTA_OK) status = analysis_check_size(a->width, 1, "width", call);
    if (status == OTA_OK) status = analysis_check_size(a->heads, 1, "heads", call);
    if (status != OTA_OK) return status;
    if (a->head_width == 0 && a->width % a->heads != 0) {
        return ota_analysis_fail(call, OTA_EINVAL, "head_width", "give head_width",
                                 "the width %" PRId64 " does not divide into %" PRId64 " heads",
                                 a->width, a->heads);
    }
    if (a->head_width == 0) a->head_width = a->width / a->heads;
    if (a->value_width == 0) a->value_width = a->head_width;
    status = analysis_check_size(a->head_width, 1, "head_width", call);
    if (status == OTA_OK) status = analysis_check_size(a->value_width, 1, "value_width", call);
    if (status == OTA_OK) status = read_method(a->method, &s->problem, call);
    if (status != OTA_OK) return status;
    if (!(a->rotary_base >= 0.0) || isinf(a->rotary_base)) {
        return ota_analysis_fail(call, OTA_EINVAL, "rotary_base", "use 0 for no rotation",
                                 "rotary_base is %g", a->rotary_base);
    }
    if (__builtin_mul_overflow(a->heads, a->head_width, &s->head_columns) ||
        __builtin_mul_overflow(a->heads, a->value_width, &s->value_columns)) {
        return ota_analysis_fail(call, OTA_EOVERFLOW, "heads", "give fewer heads",
                                 "%" PRId64 " heads make too many columns", a->heads);
    }
    return OTA_OK;
}

bool ota_layer_count(int64_t *total, int64_t a, int64_t b, int64_t c) {
    int64_t product, bytes;
    return !__builtin_mul_overflow(a, b, &product) &&
           !__builtin_mul_overflow(product, c, &product) &&
           !__builtin_add_overflow(*total, product, total) &&
           !__builtin_mul_overflow(*total, (int64_t)sizeof(double), &bytes);
}

bool ota_layer_count_pass(int64_t *total, const layer_shape *s) {
    return ota_layer_count(total, s->queries, s->head_columns, 1) &&
           ota_layer_count(total, s->keys, s->head_columns, 1) &&
           ota_layer_count(total, s->keys, s->value_columns, 1) &&
           ota_layer_count(total, s->queries, s->value_columns, 1);
}

double *ota_layer_take(double **at, int64_t count) {
    double *taken = *at;
    *at += count;
    return taken;
}

layer_pass ota_layer_take_pass(double **at, const layer_shape *s) {
    layer_pass p = {.q = ota_layer_take(at, s->queries * s->head_columns)};
    p.k = ota_layer_take(at, s->keys * s->head_columns);
    p.v = ota_layer_take(at, s->keys * s->value_columns);
    p.mixed = ota_layer_take(at, s->queries * s->value_columns);
    return p;
}

int64_t ota_attention_workspace(const ota_attention_layer *layer, int64_t queries, int64_t keys) {
    const analysis_call call = ota_analysis_begin(NULL, NULL);
    layer_shape s;
    int64_t total = 0;
    if (ota_layer_read(layer, queries, keys, &s, &call) != OTA_OK) return 0;
    /* Beside a pass: normalised or resulting tokens, receiver masses, two means. */
    const bool fits = ota_layer_count_pass(&total, &s) &&
                      ota_layer_count(&total, queries, s.layer.width, 1) &&
                      ota_layer_count(&total, s.layer.heads, keys, 1) &&
                      ota_layer_count(&total, s.layer.width, 2, 1) &&
                      ota_layer_count(&total, s.value_columns, 1, 1);
    return fits ? total : 0;
}

/* ---- forward -------------------------------------------------------------------------------- */

static ota_status check_weights(const layer_shape *s, const analysis_call *call) {
    const ota_attention_layer *a = &s->layer;
    const struct {
        const char *field;
        const double *data;
        int64_t rows, columns;
        bool optional;
    } arrays[] = {{"query_weights", a->query_weights, a->width, s->head_columns, false},
                  {"key_weights", a->key_weights, a->width, s->head_columns, false},
                  {"value_weights", a->value_weights, a->width, s->value_columns, false},
                  {"output_weights", a->output_weights, s->value_columns, a->width, false},
                  {"query_bias", a->query_bias, 1, s->head_columns, true},
                  {"key_bias", a->key_bias, 1, s->head_columns, true},
                  {"value_bias", a->value_bias, 1, s->value_columns, true},
                  {"output_bias", a->output_bias, 1, a->width, true}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        int64_t count = 0;
        if (arrays[i].data == NULL) {
            if (arrays[i].optional) continue;
            return ota_analysis_fail(call, OTA_EINVAL, arrays[i].field, "give the matrix",
                                     "%s is NULL", arrays[i].field);
        }
        if (!ota_layer_count(&count, arrays[i].rows, arrays[i].columns, 1)) {
            return ota_analysis_fail(call, OTA_EOVERFLOW, arrays[i].field, "give a smaller layer",
                                     "%s has %" PRId64 " x %" PRId64 " entries", arrays[i].field,
                                     arrays[i].rows, arrays[i].columns);
        }
        const ota_status status =
            analysis_check_finite(arrays[i].data, count, arrays[i].field, call);
        if (status != OTA_OK) return status;
    }
    return OTA_OK;
}

ota_status ota_layer_open(const ota_attention_layer *layer, int64_t queries, int64_t keys,
                          int64_t workspace_count, const double *workspace, layer_shape *s,
                          const analysis_call *call) {
    ota_status status = ota_layer_read(layer, queries, keys, s, call);
    if (status == OTA_OK && workspace_count == 0) {
        status = ota_analysis_fail(call, OTA_EOVERFLOW, "workspace", "give a smaller layer",
                                   "the workspace of %" PRId64 " queries and %" PRId64
                                   " keys leaves the range of int64_t",
                                   queries, keys);
    }
    if (status == OTA_OK && workspace == NULL) {
        status = ota_analysis_fail(call, OTA_EINVAL, "workspace", "give this many doubles",
                                   "workspace is NULL, but %" PRId64 " doubles are needed",
                                   workspace_count);
    }
    return status == OTA_OK ? check_weights(s, call) : status;
}

analysis_call ota_layer_begin(const ota_attention_layer *layer, ota_error *error) {
    const size_t end = offsetof(ota_attention_layer, options) + sizeof layer->options;
    return ota_analysis_begin_plan(layer->size < end ? NULL : layer->options, error);
}

ota_status ota_layer_check_input(const double *x, int64_t rows, int64_t width, const char *field,
                                 const analysis_call *call) {
    if (x == NULL)
        return ota_analysis_fail(call, OTA_EINVAL, field, "give the tokens", "%s is NULL", field);
    return analysis_check_finite(x, rows * width, field, call);
}

/* `rows` rows of `heads` heads side by side, as [1, heads, rows, head width]. */
static ota_array heads_of(double *data, int64_t heads, int64_t rows, int64_t head_width) {
    return (ota_array){.data = data,
                       .type = OTA_F64,
                       .size = {1, heads, rows, head_width},
                       .stride = {0, head_width, heads * head_width, 1}};
}

static ota_status project(const layer_shape *s, const double *x, const double *context,
                          layer_pass *p, const analysis_call *call) {
    const ota_attention_layer *a = &s->layer;
    dense_product(x, a->width, a->query_weights, a->query_bias, p->q,
                  (dense_size){s->queries, a->width, s->head_columns}, call);
    dense_product(context, a->width, a->key_weights, a->key_bias, p->k,
                  (dense_size){s->keys, a->width, s->head_columns}, call);
    dense_product(context, a->width, a->value_weights, a->value_bias, p->v,
                  (dense_size){s->keys, a->width, s->value_columns}, call);
    if (a->rotary_base == 0.0) return OTA_OK;
    const int64_t offset =
        s->problem.corner == OTA_BOTTOM_RIGHT ? s->keys - s->queries : (int64_t)0;
    const ota_array q = heads_of(p->q, a->heads, s->queries, a->head_width);
    const ota_array k = heads_of(p->k, a->heads, s->keys, a->head_width);
    ota_status status = ota_rope(&q, offset, a->rotary_base, call->error);
    return status == OTA_OK ? ota_rope(&k, 0, a->rotary_base, call->error) : status;
}

ota_status ota_layer_attend(const layer_shape *s, layer_pass *p, ota_result *result,
                            const analysis_call *call) {
    const ota_attention_layer *a = &s->layer;
    ota_problem problem = s->problem;
    problem.queries = heads_of(p->q, a->heads, s->queries, a->head_width);
    problem.keys = heads_of(p->k, a->heads, s->keys, a->head_width);
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.values = heads_of(p->v, a->heads, s->keys, a->value_width);
    arrays.out = heads_of(p->mixed, a->heads, s->queries, a->value_width);
    if (p->coupling != NULL)
        arrays.coupling = ota_array_of(p->coupling, OTA_F64, 1, a->heads, s->queries, s->keys);
    if (p->receiver != NULL)
        arrays.receiver = ota_array_of(p->receiver, OTA_F64, 1, a->heads, 1, s->keys);
    const ota_status status = ota_attend(&problem, a->options, &arrays, result, call->error);
    if (status < 0 || p->out == NULL) return status;
    dense_product(p->mixed, s->value_columns, a->output_weights, a->output_bias, p->out,
                  (dense_size){s->queries, s->value_columns, a->width}, call);
    return status;
}

ota_status ota_layer_run(const layer_shape *s, const double *x, const double *context,
                         layer_pass *p, ota_result *result, const analysis_call *call) {
    const ota_status status = project(s, x, context, p, call);
    return status == OTA_OK ? ota_layer_attend(s, p, result, call) : status;
}

static ota_status forward(const ota_attention_layer *layer, const ota_attention_input *input,
                          const ota_attention_outputs *outputs, double *workspace,
                          ota_result *result, const analysis_call *call) {
    const double *x = input->x, *context = input->context;
    const int64_t queries = input->queries, keys = input->keys;
    layer_shape s;
    ota_attention_outputs wanted = {.size = sizeof wanted};
    if (outputs->size == 0 || outputs->size > sizeof wanted) {
        return ota_analysis_fail(call, OTA_EINVAL, "outputs",
                                 "set size to sizeof(ota_attention_outputs)",
                                 "outputs->size is %zu", outputs->size);
    }
    memcpy(&wanted, outputs, outputs->size);
    ota_status status = ota_layer_open(
        layer, queries, keys, ota_attention_workspace(layer, queries, keys), workspace, &s, call);
    if (status == OTA_OK && context == NULL && keys != queries) {
        status = ota_analysis_fail(call, OTA_EINVAL, "keys", "give keys = queries, or a context",
                                   "self-attention of %" PRId64 " queries on %" PRId64 " keys",
                                   queries, keys);
    }
    if (status == OTA_OK) status = ota_layer_check_input(x, queries, s.layer.width, "x", call);
    if (status == OTA_OK && context != NULL)
        status = ota_layer_check_input(context, keys, s.layer.width, "context", call);
    if (status != OTA_OK) return status;
    layer_pass p = ota_layer_take_pass(&workspace, &s);
    if (wanted.mixed != NULL) p.mixed = wanted.mixed;
    p.out = wanted.out;
    p.coupling = wanted.coupling;
    p.receiver = wanted.receiver;
    status = ota_layer_run(&s, x, context == NULL ? x : context, &p, result, call);
    for (int64_t h = 0; status >= 0 && wanted.parts != NULL && h < s.layer.heads; h++) {
        const int64_t first = h * s.layer.value_width, width = s.layer.width;
        dense_product(p.mixed + first, s.value_columns, s.layer.output_weights + first * width,
                      NULL, wanted.parts + h * queries * width,
                      (dense_size){queries, s.layer.value_width, width}, call);
    }
    return ota_analysis_end(status, call);
}

ota_status ota_attention_forward(const ota_attention_layer *layer, const ota_attention_input *input,
                                 const ota_attention_outputs *outputs, double *workspace,
                                 ota_result *result, ota_error *error) {
    const analysis_call call = ota_layer_begin(layer, error);
    return forward(layer, input, outputs, workspace, result, &call);
}

ota_status ota_layer_normalise(const ota_norm *norm, const double *x, int64_t rows, int64_t width,
                               double *store, const double **normalised,
                               const analysis_call *call) {
    *normalised = x;
    if (norm == NULL) return OTA_OK;
    *normalised = store;
    return ota_layernorm(x, rows, width, norm, store, NULL, &call->options, call->error);
}

static ota_status refuse_same(const analysis_call *call) {
    return ota_analysis_fail(call, OTA_EALIAS, "y", "give y memory of its own", "y is x");
}

static ota_status add_attention(const ota_residual_block *block, const double *x, int64_t tokens,
                                double *y, double *workspace, ota_result *result,
                                const analysis_call *call) {
    const ota_attention_layer *layer = block->layer;
    const double alpha = block->alpha;
    layer_shape s;
    const double *normalised;
    ota_status status = ota_layer_open(
        layer, tokens, tokens, ota_attention_workspace(layer, tokens, tokens), workspace, &s, call);
    if (status == OTA_OK) status = analysis_check_finite(&alpha, 1, "alpha", call);
    if (status == OTA_OK) status = ota_layer_check_input(x, tokens, s.layer.width, "x", call);
    if (status != OTA_OK) return status;
    if (y == x) return refuse_same(call);
    const int64_t count = tokens * s.layer.width;
    layer_pass p = ota_layer_take_pass(&workspace, &s);
    p.out = y;
    status = ota_layer_normalise(block->norm, x, tokens, s.layer.width,
                                 ota_layer_take(&workspace, count), &normalised, call);
    if (status == OTA_OK) status = ota_layer_run(&s, normalised, normalised, &p, result, call);
    for (int64_t i = 0; status >= 0 && i < count; i++) y[i] = x[i] + alpha * y[i];
    return ota_analysis_end(status, call);
}

ota_status ota_attention_block(const ota_residual_block *block, const double *x, int64_t tokens,
                               double *y, double *workspace, ota_result *result, ota_error *error) {
    const analysis_call call = ota_layer_begin(block->layer, error);
    return add_attention(block, x, tokens, y, workspace, result, &call);
}

ota_status ota_identity_core(const double *coupling, const double *x, int64_t tokens, int64_t width,
                             double alpha, double *y, const ota_analysis_options *options,
                             ota_error *error) {
    const analysis_call call = ota_analysis_begin(options, error);
    ota_status status = analysis_check_size(tokens, 1, "tokens", &call);
    if (status == OTA_OK) status = analysis_check_size(width, 1, "width", &call);
    if (status != OTA_OK) return status;
    int64_t pairs = 0, count = 0;
    if (!ota_layer_count(&pairs, tokens, tokens, 1) || !ota_layer_count(&count, tokens, width, 1)) {
        return ota_analysis_fail(&call, OTA_EOVERFLOW, "tokens", "give fewer tokens",
                                 "%" PRId64 " tokens make too many pairs", tokens);
    }
    if (!(alpha >= 0.0 && alpha <= 1.0)) {
        return ota_analysis_fail(&call, OTA_EINVAL, "alpha", "choose 0 to 1", "alpha is %g", alpha);
    }
    if (y == x) return refuse_same(&call);
    status = ota_layer_check_input(coupling, tokens, tokens, "coupling", &call);
    if (status == OTA_OK) status = ota_layer_check_input(x, tokens, width, "x", &call);
    if (status != OTA_OK) return status;
    for (int64_t i = 0; i < tokens && ota_analysis_goes_on(&call); i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < tokens && analysis_goes_on(&call, j); j++) {
            const double weight = coupling[i * tokens + j];
            if (weight < 0.0) {
                return ota_analysis_fail(&call, OTA_EINVAL, "coupling", "weights are 0 or more",
                                         "coupling[%" PRId64 ",%" PRId64 "] is %g", i, j, weight);
            }
            sum += weight;
        }
        if (!(fabs(sum - 1.0) <= 1e-6)) {
            return ota_analysis_fail(&call, OTA_EINVAL, "coupling", "end the solve on a row update",
                                     "row %" PRId64 " of the coupling sums to %.17g, not to 1", i,
                                     sum);
        }
    }
    dense_product(coupling, tokens, x, NULL, y, (dense_size){tokens, tokens, width}, &call);
    for (int64_t i = 0; i < count; i++) y[i] = (1.0 - alpha) * x[i] + alpha * y[i];
    return ota_analysis_end(OTA_OK, &call);
}

/* mean [columns] over the rows of x. */
static void mean_of(const double *x, int64_t rows, int64_t columns, double *mean,
                    const analysis_call *call) {
    for (int64_t k = 0; k < columns; k++) mean[k] = 0.0;
    for (int64_t i = 0; i < rows && ota_analysis_goes_on(call); i++) {
        for (int64_t k = 0; k < columns; k++) mean[k] += x[i * columns + k];
    }
    for (int64_t k = 0; k < columns; k++) mean[k] /= (double)rows;
}

static double largest_difference(const double *x, const double *y, int64_t count,
                                 const analysis_call *call) {
    double largest = 0.0;
    for (int64_t k = 0; k < count && analysis_goes_on(call, k); k++)
        largest = fmax(largest, fabs(x[k] - y[k]));
    return largest;
}

static ota_status mean_change(const ota_attention_layer *layer, const double *x, int64_t tokens,
                              double *workspace, ota_attention_means *means,
                              const analysis_call *call) {
    layer_shape s;
    ota_status status = ota_layer_open(
        layer, tokens, tokens, ota_attention_workspace(layer, tokens, tokens), workspace, &s, call);
    if (status == OTA_OK) status = ota_layer_check_input(x, tokens, s.layer.width, "x", call);
    if (status != OTA_OK) return status;
    const int64_t width = s.layer.width;
    layer_pass p = ota_layer_take_pass(&workspace, &s);
    p.out = ota_layer_take(&workspace, tokens * width);
    p.receiver = ota_layer_take(&workspace, s.layer.heads * tokens);
    double *out_mean = ota_layer_take(&workspace, width),
           *other_mean = ota_layer_take(&workspace, width);
    double *value_mean = ota_layer_take(&workspace, s.value_columns);
    status = ota_layer_run(&s, x, x, &p, NULL, call);
    if (status < 0) return status;
    *means = (ota_attention_means){0.0, 0.0, 0.0};
    for (int64_t j = 0; j < s.layer.heads * tokens; j++)
        means->receiver_error = fmax(means->receiver_error, fabs(p.receiver[j] - 1.0));
    mean_of(p.out, tokens, width, out_mean, call);
    mean_of(p.v, tokens, s.value_columns, value_mean, call);
    dense_product(value_mean, s.value_columns, s.layer.output_weights, s.layer.output_bias,
                  other_mean, (dense_size){1, s.value_columns, width}, call);
    means->value_change = largest_difference(out_mean, other_mean, width, call);
    mean_of(x, tokens, width, other_mean, call);
    means->input_change = largest_difference(out_mean, other_mean, width, call);
    return ota_analysis_end(status, call);
}

ota_status ota_attention_mean_change(const ota_attention_layer *layer, const double *x,
                                     int64_t tokens, double *workspace, ota_attention_means *means,
                                     ota_error *error) {
    const analysis_call call = ota_layer_begin(layer, error);
    return mean_change(layer, x, tokens, workspace, means, &call);
}
