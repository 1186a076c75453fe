/* analysis/: Measures of plans, of distributions and of layers: the libraries otattn_analysis and otattn_spectra
 * (include/otattn_analysis.h, otattn_spectra.h). It may call the public headers and src/base/. analysis.h and
 * numbers.h have what all folders share: refusals, checks of arguments, sums. Begin with the public header; every call
 * is in the file of its name.
 *
 * analysis.h: what the files of the analysis library share: the sentence of a refusal, and the checks of
 * arguments that several of them make. */
#ifndef OTATTN_ANALYSIS_ANALYSIS_H
#define OTATTN_ANALYSIS_ANALYSIS_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "otattn_analysis.h"

/* What ota_analysis_limits was told for this thread. */
typedef struct analysis_limits {
    const int *cancel;
    int64_t deadline_ns;
} analysis_limits;

/* Those of a call's own options, where it has them, take the place of the thread's until ota_analysis_leave. */
analysis_limits ota_analysis_enter(const int *cancel, int64_t deadline_ns);
void ota_analysis_leave(analysis_limits before);
/* `given`, or NULL for defaults, with the thread's limits where it has none: for a plan. */
ota_options ota_analysis_options(const ota_options *given);
/* OTA_OK to go on. Whoever was told to end is told so until the call returns. */
ota_status ota_analysis_interrupted(void);
bool ota_analysis_goes_on(void);
/* The status of a call at its end: that it was interrupted, if it was, for its loops then left early. */
ota_status ota_analysis_end(ota_status status, ota_error *error);

/* The condition of a loop at entry k, which looks at every 4096th. */
static inline bool analysis_goes_on(int64_t k) { return (k & 4095) != 0 || ota_analysis_goes_on(); }

/* Fills `error`, when there is one, and returns `status`; or says that the call was interrupted, since loops that were left
 * early refuse what is right. */
__attribute__((format(printf, 5, 6))) static inline ota_status analysis_fail(
    ota_error *error, ota_status status, const char *field, const char *hint, const char *format,
    ...) {
    const ota_status interrupted = ota_analysis_interrupted();
    if (interrupted != OTA_OK) {
        const bool cancelled = interrupted == OTA_CANCELLED;
        if (error != NULL) {
            *error = (ota_error){.field = ""};
            (void)ota_snprintf(error->field, sizeof error->field, "%s",
                               cancelled ? "cancel" : "deadline_ns");
            (void)ota_snprintf(error->message, sizeof error->message, "%s",
                               cancelled ? "the call was cancelled"
                                         : "the deadline passed before the call was done");
        }
        return interrupted;
    }
    if (error != NULL) {
        memset(error, 0, sizeof *error);
        (void)ota_snprintf(error->field, sizeof error->field, "%s", field);
        (void)ota_snprintf(error->hint, sizeof error->hint, "%s", hint);
        va_list arguments;
        va_start(arguments, format);
        (void)ota_vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

/* A dimension must be at least `least`. */
static inline ota_status analysis_check_size(int64_t size, int64_t least, const char *field,
                                             ota_error *error) {
    if (size >= least) return OTA_OK;
    return analysis_fail(error, OTA_EINVAL, field, "give more rows or columns",
                         "%s is %" PRId64 ", but must be at least %" PRId64, field, size, least);
}

/* count entries, all finite. */
static inline ota_status analysis_check_finite(const double *x, int64_t count, const char *field,
                                               ota_error *error) {
    for (int64_t i = 0; i < count && analysis_goes_on(i); i++) {
        if (!isfinite(x[i])) {
            return analysis_fail(error, OTA_EINVAL, field, "give finite numbers",
                                 "%s[%" PRId64 "] is %g", field, i, x[i]);
        }
    }
    return ota_analysis_end(OTA_OK, error);
}

/* count entries, all finite and above 0. */
static inline ota_status analysis_check_positive(const double *x, int64_t count, const char *field,
                                                 ota_error *error) {
    for (int64_t i = 0; i < count && analysis_goes_on(i); i++) {
        if (!(x[i] > 0.0) || isinf(x[i])) {
            return analysis_fail(error, OTA_EINVAL, field, "give finite numbers above 0",
                                 "%s[%" PRId64 "] is %g", field, i, x[i]);
        }
    }
    return ota_analysis_end(OTA_OK, error);
}

#endif
