/* Norms: rows, or vectors within rows, each divided by its root mean square or its deviation.
 *
 *   RMS     y = w x / s,                 s = sqrt(mean x^2 + epsilon)
 *   layer   y = w (x - mean x) / s + b,  s = sqrt(mean (x - mean x)^2 + epsilon)
 *
 * Where a run captures or edits s it is made apart, in f64; what an edit leaves of it divides. */
#include "session.h"

#include <math.h>

enum { ROWS_PER_TASK = 8 };

typedef struct norm_job {
    const ota_session *session;
    const ota_norm *norm;
    float *scales; /* [rows, vectors] */
} norm_job;

ota_norm ota_session_norm_of(const ota_session *s, const ota_weight *weight, const float *from,
                             float *to, int64_t rows) {
    const bool rms = ota_architecture_has(s->model->architecture, OTA_ARCH_RMS);
    const bool biased = !rms && ota_weight_present(weight + 1);
    return (ota_norm){.weight = weight,
                      .bias = rms      ? NULL
                              : biased ? weight[1].values
                                       : s->buffers.zeros,
                      .epsilon = s->model->config.norm_epsilon,
                      .from = from,
                      .to = to,
                      .rows = rows,
                      .stride = weight->columns,
                      .vectors = 1};
}

static double mean_of(const ota_norm *n, const float *x) {
    const int64_t width = n->weight->columns;
    double mean = 0;
    for (int64_t k = 0; n->bias != NULL && k < width; k++) mean += (double)x[k] / (double)width;
    return mean;
}

static float scale_of(const ota_norm *n, const float *x) {
    const int64_t width = n->weight->columns;
    const double mean = mean_of(n, x);
    double square = 0;
    for (int64_t k = 0; k < width; k++) square += ((double)x[k] - mean) * ((double)x[k] - mean);
    return (float)sqrt(square / (double)width + n->epsilon);
}

static void divide(const ota_norm *n, double scale, const float *x, float *y) {
    const double mean = mean_of(n, x);
    for (int64_t k = 0; k < n->weight->columns; k++) {
        const double weight = (double)n->weight->values[k];
        const double bias = n->bias != NULL ? (double)n->bias[k] : 0;
        y[k] = (float)(((double)x[k] - mean) / scale * weight + bias);
    }
}

static void norm_vector(const ota_session *s, const ota_norm *n, const float *x, float *y) {
    if (n->bias == NULL)
        s->ops->rms_norm(x, n->weight->values, n->epsilon, y, n->weight->columns);
    else
        s->ops->layer_norm(x, n->weight->values, n->bias, n->epsilon, y, n->weight->columns);
}

static void norm_rows(void *context, int64_t index, int worker) {
    const norm_job *j = context;
    const ota_norm *n = j->norm;
    const int64_t end = ota_int_min((index + 1) * ROWS_PER_TASK, n->rows);
    (void)worker;
    for (int64_t i = index * ROWS_PER_TASK; i < end; i++)
        for (int64_t v = 0; v < n->vectors; v++) {
            const int64_t at = i * n->stride + v * n->weight->columns;
            if (j->scales == NULL)
                norm_vector(j->session, n, n->from + at, n->to + at);
            else
                divide(n, (double)j->scales[i * n->vectors + v], n->from + at, n->to + at);
        }
}

static void scale_rows(void *context, int64_t index, int worker) {
    const norm_job *j = context;
    const ota_norm *n = j->norm;
    const int64_t end = ota_int_min((index + 1) * ROWS_PER_TASK, n->rows);
    (void)worker;
    for (int64_t i = index * ROWS_PER_TASK; i < end; i++)
        for (int64_t v = 0; v < n->vectors; v++)
            j->scales[i * n->vectors + v] =
                scale_of(n, n->from + i * n->stride + v * n->weight->columns);
}

static void run(ota_session *s, const ota_norm *n, float *scales,
                void (*body)(void *, int64_t, int)) {
    norm_job j = {s, n, scales};
    ota_session_parallel(s, ota_int_ceil_div(n->rows, ROWS_PER_TASK), body, &j);
}

void ota_session_norm(ota_session *s, const ota_norm *norm) { run(s, norm, NULL, norm_rows); }

void ota_session_normalise(ota_session *s, const ota_weight *weight, const float *from, float *to,
                           int64_t rows) {
    const ota_norm norm = ota_session_norm_of(s, weight, from, to, rows);
    ota_session_norm(s, &norm);
}

ota_status ota_session_norm_at(ota_session *s, ota_point scale, int64_t layer,
                               const ota_norm *norm) {
    const bool edited = ota_session_edits(s, scale, layer);
    ota_status status = OTA_OK;
    if (edited || ota_session_wants(s, scale, layer)) {
        run(s, norm, s->buffers.spare, scale_rows);
        status = ota_session_capture(s, scale, layer, s->buffers.spare, norm->vectors);
    }
    if (status != OTA_OK) return status;
    run(s, norm, edited ? s->buffers.spare : NULL, norm_rows);
    return ota_session_capture(s, (ota_point)((int)scale + 1), layer, norm->to, norm->stride);
}
