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

/* What a call was told, and where its sentence goes. Functions below the public ones get it in place of the error. */
typedef struct analysis_call {
    ota_analysis_options
        options; /* all fields, with the defaults; size 0: they were not those of this library */
    ota_error *error; /* or NULL */
} analysis_call;

/* options NULL: never ended. Options that are refused end the call at its first look. */
analysis_call ota_analysis_begin(const ota_analysis_options *options, ota_error *error);
/* Of a call that takes a plan's options: their cancel and deadline_ns. */
analysis_call ota_analysis_begin_plan(const ota_options *options, ota_error *error);
/* OTA_OK to go on. Whoever was told to end is told so until the call returns. */
ota_status ota_analysis_interrupted(const analysis_call *call);
bool ota_analysis_goes_on(const analysis_call *call);
/* The status of a call at its end: that it was interrupted, if it was, for its loops then left early. */
ota_status ota_analysis_end(ota_status status, const analysis_call *call);
/* Fills the error, when there is one, and returns `status`; or says that the call was interrupted, since loops that were left
 * early refuse what is right. */
__attribute__((format(printf, 5, 6))) ota_status ota_analysis_fail(const analysis_call *call,
                                                                   ota_status status,
                                                                   const char *field,
                                                                   const char *hint,
                                                                   const char *format, ...);

/* The condition of a loop at entry k, which looks at every 4096th. */
static inline bool analysis_goes_on(const analysis_call *call, int64_t k) {
    return (k & 4095) != 0 || ota_analysis_goes_on(call);
}

/* A dimension must be at least `least`. */
static inline ota_status analysis_check_size(int64_t size, int64_t least, const char *field,
                                             const analysis_call *call) {
    if (size >= least) return OTA_OK;
    return ota_analysis_fail(call, OTA_EINVAL, field, "give more rows or columns",
                             "%s is %" PRId64 ", but must be at least %" PRId64, field, size,
                             least);
}

/* count entries, all finite. */
static inline ota_status analysis_check_finite(const double *x, int64_t count, const char *field,
                                               const analysis_call *call) {
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++) {
        if (!isfinite(x[i])) {
            return ota_analysis_fail(call, OTA_EINVAL, field, "give finite numbers",
                                     "%s[%" PRId64 "] is %g", field, i, x[i]);
        }
    }
    return ota_analysis_end(OTA_OK, call);
}

/* count entries, all finite and above 0. */
static inline ota_status analysis_check_positive(const double *x, int64_t count, const char *field,
                                                 const analysis_call *call) {
    for (int64_t i = 0; i < count && analysis_goes_on(call, i); i++) {
        if (!(x[i] > 0.0) || isinf(x[i])) {
            return ota_analysis_fail(call, OTA_EINVAL, field, "give finite numbers above 0",
                                     "%s[%" PRId64 "] is %g", field, i, x[i]);
        }
    }
    return ota_analysis_end(OTA_OK, call);
}

#endif
