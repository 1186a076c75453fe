/* When the calling thread wants its calls to end: ota_analysis_limits. */
#include "analysis.h"

static _Thread_local analysis_limits own;

void ota_analysis_limits(const int *cancel, int64_t deadline_ns) {
    own = (analysis_limits){cancel, deadline_ns};
}

analysis_limits ota_analysis_enter(const int *cancel, int64_t deadline_ns) {
    const analysis_limits before = own;
    if (cancel != NULL) own.cancel = cancel;
    if (deadline_ns != 0) own.deadline_ns = deadline_ns;
    return before;
}

void ota_analysis_leave(analysis_limits before) { own = before; }

ota_options ota_analysis_options(const ota_options *given) {
    ota_options options = {.size = sizeof options};
    if (given != NULL) {
        memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
        /* Of a size that is none the plan speaks. */
        if (given->size > 0 && given->size < sizeof options) options.size = sizeof options;
    }
    if (options.cancel == NULL) options.cancel = own.cancel;
    if (options.deadline_ns == 0) options.deadline_ns = own.deadline_ns;
    return options;
}

ota_status ota_analysis_interrupted(void) { return ota_interruption(own.cancel, own.deadline_ns); }

bool ota_analysis_goes_on(void) { return ota_analysis_interrupted() == OTA_OK; }

ota_status ota_analysis_end(ota_status status, ota_error *error) {
    const ota_status interrupted = ota_analysis_interrupted();
    if (interrupted == OTA_OK) return status;
    if (status < 0 && status != OTA_NOT_CONVERGED && status != interrupted) return status;
    return analysis_fail(error, interrupted, "", "", " ");
}
