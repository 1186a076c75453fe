/* The matrices of a block's attention as y = x W, whatever order, type and grouping the file keeps them in.
 *
 *   separate   W_Q | W_K | W_V, each [out, in] or, input-major, [in, out]
 *   merged     one matrix whose outputs are q | k | v, side by side
 *   by group   one matrix whose outputs are, of every head of keys, its queries, key and value */
#include "model.h"

#include "base/sized.h"
#include "models/kernels/ops.h"

#include <stdlib.h>
#include <string.h>

/* Outputs of a linear layer: `run` of them from `first` on, and as many after every `step`, `count` in all. */
typedef struct outputs {
    const ota_weight *weight;
    int64_t first, run, step, count;
} outputs;

/* To out [inputs, count]. */
static ota_status decode_outputs(const outputs *o, float *out, ota_error *error) {
    const ota_weight *w = o->weight;
    const int64_t count = o->count;
    float *row = malloc((size_t)w->columns * sizeof *row);
    if (row == NULL) return ota_refuse(error, OTA_ENOMEM, "no memory is left for a row of weights");
    const int64_t bytes = w->columns / w->type->block * w->type->bytes;
    void (*decode)(const unsigned char *, float *, int64_t) =
        ota_ops_named(NULL)->decode[ota_element_index(w->type)];
    const int64_t rows = w->input_major ? w->rows : count;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t output = o->first + i / o->run * o->step + i % o->run;
        decode(w->data + (w->input_major ? i : output) * bytes, row, w->columns);
        for (int64_t k = 0; w->input_major && k < count; k++)
            out[i * count + k] = row[o->first + k / o->run * o->step + k % o->run];
        for (int64_t k = 0; !w->input_major && k < w->columns; k++) out[k * count + i] = row[k];
    }
    free(row);
    return OTA_OK;
}

static void copy_vector(const ota_weight *w, float absent, float *out, int64_t count) {
    if (out == NULL) return;
    for (int64_t k = 0; k < count; k++) out[k] = ota_weight_present(w) ? w->values[k] : absent;
}

ota_status ota_model_attention_of(const ota_model *model, int64_t layer, ota_model_attention *given,
                                  ota_error *error) {
    const ota_config *config = &model->config;
    ota_model_attention own, *const attention = &own;
    if (!ota_sized_read(&own, sizeof own, given, given->size))
        return ota_refuse(error, OTA_EINVAL, "size is %zu, set it to sizeof(ota_model_attention)",
                          given->size);
    if (layer < 0 || layer >= config->layers)
        return ota_refuse(error, OTA_EINVAL, "layer is %lld, and the model has %lld layers",
                          (long long)layer, (long long)config->layers);
    const ota_weight *w = model->blocks[layer].weights;
    const bool asks_inputs =
        attention->query != NULL || attention->key != NULL || attention->value != NULL;
    if (asks_inputs && ota_architecture_has(model->architecture, OTA_ARCH_LATENT))
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "%s: latent attention has no matrix each of queries, keys and values",
                          ota_path_end(model->path));
    if ((asks_inputs || attention->output != NULL) && config->value_width != config->head_width)
        return ota_refuse(error, OTA_UNSUPPORTED, "%s: values of a head are not as wide as keys",
                          ota_path_end(model->path));
    const bool asks_head_norms =
        attention->query_norm_weight != NULL || attention->key_norm_weight != NULL;
    const ota_weight *head_norm = &w[OTA_QUERY_NORM];
    if (asks_head_norms && ota_weight_present(head_norm) &&
        head_norm->columns != config->head_width)
        return ota_refuse(error, OTA_UNSUPPORTED, "%s: one norm takes all heads of a row",
                          ota_path_end(model->path));
    const int64_t query = config->sizes[OTA_SIZE_QUERY], key = config->sizes[OTA_SIZE_KEY];
    const int64_t value = config->sizes[OTA_SIZE_VALUE];
    const int64_t width = config->sizes[OTA_SIZE_WIDTH];
    const bool merged = ota_weight_present(&w[OTA_MERGED]);
    const bool grouped = merged && config->matrices.merged_by_group;
    const int64_t d = config->head_width, queries = query / config->kv_heads;
    const int64_t step = queries + 2 * d, group = grouped ? d : key;
    /* Where keys begin, and values behind them: in a matrix of all three, else at 0. */
    const int64_t keys = grouped ? queries : merged ? query : 0, values = merged ? keys + group : 0;
    const struct {
        outputs from;
        float *out;
    } matrices[] = {
        {{&w[merged ? OTA_MERGED : OTA_QUERY], 0, grouped ? queries : query, step, query},
         attention->query},
        {{&w[merged ? OTA_MERGED : OTA_KEY], keys, group, step, key}, attention->key},
        {{&w[merged ? OTA_MERGED : OTA_VALUE], values, grouped ? d : value, step, value},
         attention->value},
        {{&w[OTA_OUTPUT], 0, width, width, width}, attention->output},
    };
    attention->rms = ota_architecture_has(model->architecture, OTA_ARCH_RMS);
    attention->post_norm = config->form.post_norm;
    attention->scale = ota_config_scale(config, layer);
    attention->head_norms = ota_weight_present(&w[OTA_QUERY_NORM]);
    attention->output_norm = ota_weight_present(&w[OTA_NORM_1_BEHIND]);
    attention->window = !config->local.layers[layer] ? 0
                        : config->scores.causal      ? config->local.window
                                                     : 2 * config->local.window + 1;
    ota_sized_write(given, given->size, &own, sizeof own);
    for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++) {
        if (matrices[k].out == NULL) continue;
        const ota_status status = decode_outputs(&matrices[k].from, matrices[k].out, error);
        if (status != OTA_OK) return status;
    }
    copy_vector(&w[OTA_OUTPUT_BIAS], 0.0F, attention->output_bias, width);
    copy_vector(&w[OTA_NORM_1], 1.0F, attention->norm_weight, width);
    copy_vector(&w[OTA_NORM_1_BIAS], 0.0F, attention->norm_bias, width);
    copy_vector(&w[OTA_QUERY_NORM], 1.0F, attention->query_norm_weight, config->head_width);
    copy_vector(&w[OTA_KEY_NORM], 1.0F, attention->key_norm_weight, config->head_width);
    copy_vector(&w[OTA_NORM_1_BEHIND], 1.0F, attention->output_norm_weight, width);
    return OTA_OK;
}
