/* analysis/gauge/: Alignment of a matrix with row and column shifts, which no transport sees: policy iteration, active
 * columns, bounds. It may call the public headers, analysis/ and analysis/kernels/. Begin with gauge.c.
 *
 * gauge.h: the matrix D = A - B [rows, columns] of the gauge's files, read as f64 in strips of a row and
 * never copied, and the checks and callbacks of its options. */
#ifndef OTATTN_ANALYSIS_GAUGE_H
#define OTATTN_ANALYSIS_GAUGE_H

#include "analysis/analysis.h"
#include "analysis/kernels/logit_kernels.h"

enum { STRIP = 1024, LANES = 8 };
/* What is shared out over threads, however many: columns of a strip in pieces, rows in at most so many runs of rows. */
enum { PIECE = 256, SHARES = 64 };

/* Sums of three such entries stay finite. */
static const double LARGEST = 1e300;

typedef ota_gauge_matrix matrix;

static inline void load(const matrix *d, int64_t row, int64_t first, int64_t count, double *out) {
    const int64_t offset = row * d->columns + first;
    if (d->type == OTA_F32) {
        const float *b = d->b == NULL ? NULL : (const float *)d->b + offset;
        ota_logit_kernels_newest()->difference((const float *)d->a + offset, b, count, out);
        return;
    }
    memcpy(out, (const double *)d->a + offset, (size_t)count * sizeof *out);
    if (d->b == NULL) return;
    const double *b = (const double *)d->b + offset;
    for (int64_t j = 0; j < count; j++) out[j] -= b[j];
}

static inline double entry(const matrix *d, int64_t row, int64_t column) {
    const int64_t at = row * d->columns + column;
    if (d->type == OTA_F32) {
        const double b = d->b == NULL ? 0.0 : (double)((const float *)d->b)[at];
        return (double)((const float *)d->a)[at] - b;
    }
    return ((const double *)d->a)[at] - (d->b == NULL ? 0.0 : ((const double *)d->b)[at]);
}

static inline int64_t strip_size(const matrix *d, int64_t first) {
    return d->columns - first < STRIP ? d->columns - first : STRIP;
}

/* min and max of x - shift, joined to what low and high hold. */
static inline void widen(const double *x, const double *shift, int64_t count, double *low,
                         double *high) {
    double lows[LANES], highs[LANES];
    for (int l = 0; l < LANES; l++) lows[l] = *low, highs[l] = *high;
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        for (int l = 0; l < LANES; l++) {
            const double t = x[j + l] - shift[j + l];
            lows[l] = t < lows[l] ? t : lows[l];
            highs[l] = t > highs[l] ? t : highs[l];
        }
    }
    for (; j < count; j++) {
        const double t = x[j] - shift[j];
        lows[0] = t < lows[0] ? t : lows[0];
        highs[0] = t > highs[0] ? t : highs[0];
    }
    for (int l = 0; l < LANES; l++) {
        if (lows[l] < *low) *low = lows[l];
        if (highs[l] > *high) *high = highs[l];
    }
}

static inline ota_status check_matrix(const matrix *d, const analysis_call *call) {
    ota_status status = analysis_check_size(d->rows, 1, "rows", call);
    if (status == OTA_OK) status = analysis_check_size(d->columns, 1, "columns", call);
    if (status != OTA_OK) return status;
    if (d->type != OTA_F32 && d->type != OTA_F64) {
        return ota_analysis_fail(call, OTA_EINVAL, "type", "convert the matrix to f32 or f64",
                                 "the type of the matrix is %d", (int)d->type);
    }
    if (d->a == NULL) {
        return ota_analysis_fail(call, OTA_EINVAL, "a", "give the matrix", "a is NULL");
    }
    const int64_t bytes = (int64_t)ota_type_bytes(d->type);
    if (d->rows > INT64_MAX / 64 / d->columns || d->rows * d->columns > INT64_MAX / bytes) {
        return ota_analysis_fail(call, OTA_EOVERFLOW, "columns", "give a smaller matrix",
                                 "%" PRId64 " x %" PRId64 " entries leave the range of sizes",
                                 d->rows, d->columns);
    }
    return OTA_OK;
}

/* What a call that was interrupted still takes to read the matrix once, so that it ends with figures where that is short. */
static const int64_t GRACE_NS = 30000000;

static inline bool has_time(int64_t since, const analysis_call *call) {
    return ota_analysis_goes_on(call) || ota_now_ns() - since < GRACE_NS;
}

/* body(context, index, worker) for every index in [0, count), on the options' executor or on this thread. */
static inline void gauge_run(const ota_gauge_options *options, int64_t count,
                             void (*body)(void *context, int64_t index, int worker),
                             void *context) {
    if (options != NULL && options->executor != NULL) {
        options->executor->run(options->executor->user, count, body, context);
        return;
    }
    for (int64_t index = 0; index < count; index++) body(context, index, 0);
}

static inline int64_t gauge_shares(const matrix *d) { return d->rows < SHARES ? d->rows : SHARES; }

/* The first row of a share; that of the share behind the last is the number of rows. */
static inline int64_t gauge_share_begin(const matrix *d, int64_t share) {
    const int64_t shares = gauge_shares(d);
    return d->rows / shares * share + (d->rows % shares < share ? d->rows % shares : share);
}

/* Finite entries; *scale receives the largest size. options: NULL, or what runs it. */
ota_status ota_gauge_check_entries(const matrix *d, const ota_gauge_options *options, double *scale,
                                   const analysis_call *call);

static inline ota_status check_options(const ota_gauge_options *options,
                                       const analysis_call *call) {
    if (options->size != sizeof *options) {
        return ota_analysis_fail(call, OTA_EINVAL, "options.size",
                                 "set it to sizeof(ota_gauge_options)", "options.size is %zu",
                                 options->size);
    }
    if (options->executor != NULL &&
        (options->executor->run == NULL || options->executor->threads < 1)) {
        return ota_analysis_fail(call, OTA_EINVAL, "executor", "give run and at least one thread",
                                 "the executor has %s and %d threads",
                                 options->executor->run == NULL ? "no run" : "run",
                                 options->executor->threads);
    }
    if (options->rule > OTA_GAUGE_FAST) {
        return ota_analysis_fail(call, OTA_EINVAL, "rule", "take one of ota_gauge_rule",
                                 "rule is %d", (int)options->rule);
    }
    if (!(options->tolerance >= 0.0) || options->max_passes < 0) {
        return ota_analysis_fail(call, OTA_EINVAL,
                                 options->max_passes < 0 ? "max_passes" : "tolerance",
                                 "0 means the default", "tolerance is %g and max_passes %" PRId64,
                                 options->tolerance, options->max_passes);
    }
    return OTA_OK;
}

static inline void tell(const analysis_call *call, int64_t round, double residual) {
    if (call->options.progress == NULL) return;
    const ota_progress report = {.heads = 1, .round = round, .residual = residual};
    call->options.progress(call->options.progress_user, &report);
}

static inline ota_status no_memory(const analysis_call *call) {
    return ota_analysis_fail(call, OTA_ENOMEM, "", "free some memory",
                             "there is no memory for the shifts");
}

#endif
