/* From states to logits: the model's own head, and the probe of the logit lens, which is its last product.
 *
 *   head    states [n, width] -> last norm -> BERT: norm(act(D x + e)) -> z = W x + b   [n, vocabulary],
 *           z / divisor, c tanh(z / c) where the configuration has them
 *   probe   the same product of what the caller gives, W [vocabulary, width] the head's matrix, or the table of
 *           embeddings where a checkpoint has no head
 */
#include "base/integers.h"
#include "session.h"

#include <math.h>
#include <string.h>

/* Does anything stand between the states and the last product? */
static bool has_transform(const ota_session *s) {
    return ota_weight_present(&s->model->weights[OTA_FINAL_NORM]) || s->model->head == OTA_HEAD_MLM;
}

/* to = norm(act(D from + e)); `to` is not `from`. */
static void transform(ota_session *s, const float *from, float *to, int64_t rows) {
    const ota_weight *w = s->model->weights;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    ota_linear(s, &w[OTA_HEAD_DENSE], &w[OTA_HEAD_DENSE_BIAS], from, width, rows, to, width);
    ota_session_activate(s, s->model->config.head_activation, NULL, to, rows, width);
    ota_session_normalise(s, &w[OTA_HEAD_NORM], to, to, rows);
}

typedef struct bent {
    const ota_factors *factors;
    float *logits;
    int64_t words;
} bent;

static void bend_row(void *context, int64_t row, int worker) {
    const bent *b = context;
    const double divisor = b->factors->logits, cap = b->factors->logit_cap;
    float *z = b->logits + row * b->words;
    (void)worker;
    for (int64_t k = 0; divisor > 0 && k < b->words; k++) z[k] /= (float)divisor;
    for (int64_t k = 0; cap > 0 && k < b->words; k++)
        z[k] = (float)(cap * tanh((double)z[k] / cap));
}

static void multiply(ota_session *s, const float *inputs, int64_t rows, float *logits) {
    const ota_weight *w = s->model->weights;
    bent b = {&s->model->config.factors, logits, ota_model_size(s->model, OTA_SIZE_VOCABULARY)};
    ota_linear(s, &w[OTA_HEAD], &w[OTA_HEAD_BIAS], inputs, ota_model_size(s->model, OTA_SIZE_WIDTH),
               rows, logits, b.words);
    if (b.factors->logits > 0 || b.factors->logit_cap > 0)
        ota_session_parallel(s, rows, bend_row, &b);
}

/* One block of rows at a time through the session's own buffers; x stays as it is. No architecture has both
 * a last norm and a transform, so the branch is never read and written at once. */
static void logits_block(ota_session *s, const float *states, int64_t rows, bool normed,
                         float *logits) {
    const ota_weight *norm = &s->model->weights[OTA_FINAL_NORM];
    const float *from = states;
    if (normed && ota_weight_present(norm)) {
        ota_session_normalise(s, norm, states, s->buffers.branch, rows);
        from = s->buffers.branch;
    }
    if (s->model->head == OTA_HEAD_MLM) {
        transform(s, from, s->buffers.branch, rows);
        from = s->buffers.branch;
    }
    multiply(s, from, rows, logits);
}

ota_status ota_session_logits(ota_session *s, const float *states, int64_t rows, int normalised,
                              float *logits, ota_error *error) {
    const int64_t most = s->options.batch * s->options.tokens;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t words = ota_model_size(s->model, OTA_SIZE_VOCABULARY);
    if (s->model->head == OTA_HEAD_ABSENT)
        return ota_refuse(error, OTA_UNSUPPORTED, "%s: the checkpoint has no head for logits",
                          ota_path_end(s->model->path));
    for (int64_t done = 0; done < rows; done += most) {
        const int64_t part = ota_int_min(rows - done, most);
        logits_block(s, states + done * width, part, normalised != 0, logits + done * words);
        if (ota_session_interrupted(s) != OTA_OK) break;
    }
    return ota_session_end(s, OTA_OK, error);
}

/* ---- the probe ---- */

int ota_session_probe_inputs(ota_session *s, const float *states, int64_t rows, float *inputs) {
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const ota_weight *norm = &s->model->weights[OTA_FINAL_NORM];
    if (s->model->head == OTA_HEAD_MLM)
        transform(s, states, inputs, rows);
    else if (ota_weight_present(norm))
        ota_session_normalise(s, norm, states, inputs, rows);
    else
        memcpy(inputs, states, (size_t)(rows * width) * sizeof *inputs);
    return has_transform(s);
}

void ota_session_probe(ota_session *s, const float *inputs, int64_t rows, float *logits) {
    multiply(s, inputs, rows, logits);
}

ota_status ota_model_probe_rows(const ota_model *model, int64_t first, int64_t count, float *rows,
                                ota_error *error) {
    const ota_weight *w = &model->weights[OTA_HEAD];
    if (first < 0 || count < 0 || first > w->rows || count > w->rows - first)
        return ota_refuse(error, OTA_EINVAL,
                          "rows %lld to %lld are not within the %lld of the probe",
                          (long long)first, (long long)(first + count), (long long)w->rows);
    const double divisor = model->config.factors.logits;
    if (model->config.factors.logit_cap > 0)
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "logits are no products with rows, since the model caps them at %g",
                          model->config.factors.logit_cap);
    const int64_t bytes = w->columns / w->type->block * w->type->bytes;
    ota_ops_named(NULL)->decode[ota_element_index(w->type)](w->data + first * bytes, rows,
                                                            count * w->columns);
    for (int64_t k = 0; divisor > 0 && k < count * w->columns; k++) rows[k] /= (float)divisor;
    return OTA_OK;
}

const ota_executor *ota_session_executor(const ota_session *s) { return &s->executor; }
