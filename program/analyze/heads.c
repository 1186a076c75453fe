/* What the heads of a window do, and the entries of its states that are far larger than the rest.
 *
 * A layer's values come by before its pattern; heads of a group share theirs. Both are looked at in variant 0 alone. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

int run_heads_open(run *r) {
    struct run_work *w = r->work;
    const size_t layers = (size_t)r->facts.layers, heads = (size_t)r->facts.heads;
    int code = run_take(r, heads * (size_t)w->tokens, sizeof(double), &w->heads.value_norms);
    if (code == 0) code = run_take(r, layers, sizeof(int64_t), &w->heads.reach);
    for (int64_t l = 0; code == 0 && l < r->facts.layers; l++) {
        ota_model_attention attention = {.size = sizeof attention};
        ota_error error = {.message = ""};
        const ota_status status = ota_model_attention_of(r->model, l, &attention, &error);
        if (status < 0) return cli_fail_status(r->context, status, &error);
        /* Where a model looks both ways half of a window lies on either side. */
        w->heads.reach[l] = attention.window <= 0  ? 0
                            : r->facts.causal != 0 ? attention.window - 1
                                                   : attention.window / 2;
    }
    return code;
}

void run_heads_close(run *r) {
    free(r->work->heads.value_norms);
    free(r->work->heads.reach);
}

void run_heads_keep_values(const run *r, const ota_capture *values) {
    struct run_work *w = r->work;
    const int64_t n = values->shape[1], heads = values->shape[2], width = values->shape[3];
    if (values->rank != 4 || heads > r->facts.heads || r->facts.heads % heads != 0) return;
    for (int64_t j = 0; j < n; j++)
        for (int64_t h = 0; h < heads; h++) {
            const float *value = values->data + (j * heads + h) * width;
            double sum = 0;
            for (int64_t k = 0; k < width; k++) sum += (double)value[k] * (double)value[k];
            w->heads.value_norms[h * n + j] = sqrt(sum);
        }
    w->heads.value_heads = heads;
}

static double kind_of(const ota_head_scores *scores, int kind) {
    static const size_t offsets[HEAD_KINDS] = {
        [KIND_PREVIOUS_TOKEN] = offsetof(ota_head_scores, previous_token),
        [KIND_DUPLICATE_TOKEN] = offsetof(ota_head_scores, duplicate_token),
        [KIND_INDUCTION] = offsetof(ota_head_scores, induction),
        [KIND_POSITIONAL] = offsetof(ota_head_scores, positional),
        [KIND_LOCAL] = offsetof(ota_head_scores, local),
        [KIND_SINK] = offsetof(ota_head_scores, sink),
        [KIND_NOP_SINK] = offsetof(ota_head_scores, nop_sink),
        [KIND_BROADCAST_SINK] = offsetof(ota_head_scores, broadcast_sink)};
    double value;
    memcpy(&value, (const char *)scores + offsets[kind], sizeof value);
    return value;
}

static double *column(const run *r, int name) {
    return run_record_column(r->work->record, 0, 0, (run_column)name);
}

ota_status run_heads_measure(const run *r, const float *pattern, int64_t layer, int64_t head) {
    const struct run_work *w = r->work;
    const int64_t n = w->record->shape.tokens, heads = r->facts.heads, at = layer * heads + head;
    const int64_t groups = w->heads.value_heads;
    const ota_head_view view = {
        .size = sizeof view,
        .weights = pattern,
        .type = OTA_F32,
        .tokens = n,
        .ids = w->record->ids,
        .causal = r->facts.causal,
        .reach = w->heads.reach[r->settings.first + layer],
        .value_norms = groups > 0 ? w->heads.value_norms + head / (heads / groups) * n : NULL};
    ota_head_scores scores;
    const ota_status status = ota_head_scores_of(&view, &scores, &r->context->analysis, NULL);
    if (status < 0) return status;
    for (int kind = 0; pattern == NULL && kind < CHANCE_KINDS; kind++)
        column(r, COLUMN_CHANCE)[layer * CHANCE_KINDS + kind] = kind_of(&scores, kind);
    if (pattern == NULL) return status;
    for (int kind = 0; kind < HEAD_KINDS; kind++)
        column(r, COLUMN_HEAD_KINDS + kind)[at] = kind_of(&scores, kind);
    column(r, COLUMN_VALUE_RATIO)[at] = scores.value_ratio;
    column(r, COLUMN_DISTANCE)[at] = scores.distance;
    column(r, COLUMN_SINK_KEY)[at] = scores.sink_key >= 0 ? (double)scores.sink_key : (double)NAN;
    column(r, COLUMN_OFFSET)[at] = (double)scores.offset;
    return status;
}

ota_status run_outliers_measure(const run *r, int64_t state, ota_error *error) {
    const struct run_work *w = r->work;
    const int64_t n = w->record->shape.tokens;
    ota_outlier largest[MASSIVE_MOST];
    double *numbers = column(r, COLUMN_MASSIVE) + state * MASSIVE_MOST * MASSIVE_NUMBERS;
    const ota_status status = ota_outliers_of(
        &(ota_matrix){w->states + state * w->tokens * w->width, OTA_F32, n, w->width}, MASSIVE_MOST,
        largest, column(r, COLUMN_KURTOSIS) + state * n, &r->context->analysis, error);
    if (status < 0) return status;
    column(r, COLUMN_MASSIVE_RATIO)[state] = largest[0].ratio;
    for (int64_t k = 0; k < MASSIVE_MOST && k < n * w->width; k++) {
        double *one = numbers + k * MASSIVE_NUMBERS;
        one[MASSIVE_VALUE] = largest[k].value;
        one[MASSIVE_RATIO] = largest[k].ratio;
        one[MASSIVE_TOKEN] = (double)largest[k].token;
        one[MASSIVE_DIMENSION] = (double)largest[k].dimension;
    }
    return status;
}
