/* From states to logits: the model's own head, and the probe of the logit lens, which is its last product.
 *
 *   head    states [n, width] -> last norm -> BERT: norm(act(D x + e)); narrow embeddings of OPT: P x -> z = W x + b
 *           [n, vocabulary], z / divisor, c tanh(z / c) where the configuration has them
 *   probe   the same product of what the caller gives, W [vocabulary, width] the head's matrix, or the table of
 *           embeddings where a checkpoint has no head
 */
#include "base/integers.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Does anything stand between the states and the last product? */
static bool has_transform(const ota_session *s) {
    return ota_weight_present(&s->model->weights[OTA_FINAL_NORM]) || s->model->head == OTA_HEAD_MLM;
}

/* to = norm(act(D from + e)), as wide as embeddings; `to` is not `from`. */
static void transform(ota_session *s, const float *from, float *to, int64_t rows) {
    const ota_weight *w = s->model->weights;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    const int64_t embed = ota_model_size(s->model, OTA_SIZE_EMBED);
    ota_linear(s, &w[OTA_HEAD_DENSE], &w[OTA_HEAD_DENSE_BIAS], from, width, rows, to, embed);
    ota_session_activate(s, s->model->config.head_activation, NULL, to, rows, embed);
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

static void multiply_rows(ota_session *s, const float *inputs, int64_t rows, float *logits) {
    const ota_weight *w = s->model->weights, *project = &w[OTA_HEAD_PROJECT];
    bent b = {&s->model->config.factors, logits, ota_model_size(s->model, OTA_SIZE_VOCABULARY)};
    const int64_t columns = w[OTA_HEAD].columns;
    if (ota_weight_present(project)) {
        ota_linear(s, project, NULL, inputs, project->columns, rows, s->buffers.head, columns);
        inputs = s->buffers.head;
    }
    ota_linear(s, &w[OTA_HEAD], &w[OTA_HEAD_BIAS], inputs, columns, rows, logits, b.words);
    if (b.factors->logits > 0 || b.factors->logit_cap > 0)
        ota_session_parallel(s, rows, bend_row, &b);
}

/* The last product; with one before it, of as many rows at a time as a buffer has. */
static void multiply(ota_session *s, const float *inputs, int64_t rows, float *logits) {
    const bool narrow = ota_weight_present(&s->model->weights[OTA_HEAD_PROJECT]);
    const int64_t most = narrow ? s->options.batch * s->options.tokens : rows;
    const int64_t width = ota_model_size(s->model, OTA_SIZE_WIDTH);
    for (int64_t done = 0; done < rows; done += most)
        multiply_rows(s, inputs + done * width, ota_int_min(rows - done, most),
                      logits + done * ota_model_size(s->model, OTA_SIZE_VOCABULARY));
}

/* One block of rows at a time through the session's own buffers; x stays as it is. */
static void logits_block(ota_session *s, const float *states, int64_t rows, bool normed,
                         float *logits) {
    const ota_weight *norm = &s->model->weights[OTA_FINAL_NORM];
    const float *from = states;
    if (normed && ota_weight_present(norm)) {
        ota_session_normalise(s, norm, states, s->buffers.branch, rows);
        from = s->buffers.branch;
    }
    if (s->model->head == OTA_HEAD_MLM) {
        float *to = from == s->buffers.branch ? s->buffers.head : s->buffers.branch;
        transform(s, from, to, rows);
        from = to;
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
    const int64_t most = s->options.batch * s->options.tokens;
    const ota_weight *norm = &s->model->weights[OTA_FINAL_NORM];
    const bool normed = ota_weight_present(norm), mlm = s->model->head == OTA_HEAD_MLM;
    if (!normed && mlm)
        transform(s, states, inputs, rows);
    else if (normed && !mlm)
        ota_session_normalise(s, norm, states, inputs, rows);
    for (int64_t done = 0; normed && mlm && done < rows; done += most) {
        const int64_t part = ota_int_min(rows - done, most);
        ota_session_normalise(s, norm, states + done * width, s->buffers.head, part);
        transform(s, s->buffers.head, inputs + done * width, part);
    }
    if (!normed && !mlm) memcpy(inputs, states, (size_t)(rows * width) * sizeof *inputs);
    return has_transform(s);
}

void ota_session_probe(ota_session *s, const float *inputs, int64_t rows, float *logits) {
    multiply(s, inputs, rows, logits);
}

static void decode_row(const ota_weight *w, int64_t row, float *out) {
    ota_decode_rows(ota_ops_named(NULL), w, row, 1, out);
}

/* Rows of W P: what a head of narrow embeddings makes of a state's own numbers. */
static ota_status project_rows(const ota_model *model, int64_t first, int64_t count, float *rows,
                               ota_error *error) {
    const ota_weight *w = &model->weights[OTA_HEAD], *p = &model->weights[OTA_HEAD_PROJECT];
    const int64_t narrow = p->rows, width = p->columns;
    float *matrix = malloc((size_t)(narrow * (width + 1)) * sizeof *matrix);
    if (matrix == NULL)
        return ota_refuse(error, OTA_ENOMEM, "no memory is left for rows of the probe");
    float *row = matrix + narrow * width;
    for (int64_t k = 0; k < narrow; k++) decode_row(p, k, matrix + k * width);
    for (int64_t i = 0; i < count; i++) {
        float *out = rows + i * width;
        decode_row(w, first + i, row);
        for (int64_t j = 0; j < width; j++) {
            double sum = 0;
            for (int64_t k = 0; k < narrow; k++)
                sum += (double)row[k] * (double)matrix[k * width + j];
            out[j] = (float)sum;
        }
    }
    free(matrix);
    return OTA_OK;
}

ota_status ota_model_probe_rows(const ota_model *model, int64_t first, int64_t count, float *rows,
                                ota_error *error) {
    const ota_weight *w = &model->weights[OTA_HEAD];
    const int64_t width = ota_model_size(model, OTA_SIZE_WIDTH);
    const bool projects = ota_weight_present(&model->weights[OTA_HEAD_PROJECT]);
    if (w->columns != width && !projects)
        return ota_refuse(error, OTA_UNSUPPORTED,
                          "rows of the probe are narrower than states, %lld of %lld numbers",
                          (long long)w->columns, (long long)width);
    if (first < 0 || count < 0 || first > w->rows || count > w->rows - first)
        return ota_refuse(error, OTA_EINVAL,
                          "rows %lld to %lld are not within the %lld of the probe",
                          (long long)first, (long long)(first + count), (long long)w->rows);
    const double divisor = model->config.factors.logits;
    if (projects) return project_rows(model, first, count, rows, error);
    for (int64_t i = 0; i < count; i++) decode_row(w, first + i, rows + i * width);
    for (int64_t k = 0; divisor > 0 && k < count * width; k++) rows[k] /= (float)divisor;
    return OTA_OK;
}

const ota_executor *ota_session_executor(const ota_session *s) { return &s->executor; }
