/* When a call of the analysis ends early, and what it says when it fails. */
#include <stddef.h>

#include "analysis.h"
#include "base/sized.h"

analysis_call ota_analysis_begin(const ota_analysis_options *options, ota_error *error) {
    analysis_call call = {.options = {.size = sizeof call.options}, .error = error};
    if (options != NULL &&
        !ota_sized_read(&call.options, sizeof call.options, options, options->size))
        call.options = (ota_analysis_options){.size = 0};
    return call;
}

analysis_call ota_analysis_begin_plan(const ota_options *options, ota_error *error) {
    analysis_call call = ota_analysis_begin(NULL, error);
    /* Of a size that is none the plan speaks. */
    ota_options own;
    if (options == NULL || !ota_sized_read(&own, sizeof own, options, options->size)) return call;
    call.options.cancel = own.cancel;
    call.options.deadline_ns = own.deadline_ns;
    return call;
}

ota_status ota_analysis_interrupted(const analysis_call *call) {
    if (call->options.size == 0) return OTA_EINVAL;
    return ota_interruption(call->options.cancel, call->options.deadline_ns);
}

bool ota_analysis_goes_on(const analysis_call *call) {
    return ota_analysis_interrupted(call) == OTA_OK;
}

ota_status ota_analysis_end(ota_status status, const analysis_call *call) {
    const ota_status interrupted = ota_analysis_interrupted(call);
    if (interrupted == OTA_OK) return status;
    if (status < 0 && status != OTA_NOT_CONVERGED && status != interrupted) return status;
    return ota_analysis_fail(call, interrupted, "", "", " ");
}

static ota_status say(ota_error *error, ota_status status, const char *field, const char *hint,
                      const char *message) {
    if (error == NULL) return status;
    *error = (ota_error){.field = ""};
    (void)ota_snprintf(error->field, sizeof error->field, "%s", field);
    (void)ota_snprintf(error->hint, sizeof error->hint, "%s", hint);
    (void)ota_snprintf(error->message, sizeof error->message, "%s", message);
    return status;
}

ota_status ota_analysis_fail(const analysis_call *call, ota_status status, const char *field,
                             const char *hint, const char *format, ...) {
    const ota_status interrupted = ota_analysis_interrupted(call);
    if (interrupted == OTA_EINVAL)
        return say(call->error, interrupted, "options.size",
                   "set it to sizeof(ota_analysis_options) and what is not used to 0",
                   "options.size is not that of this library's ota_analysis_options");
    if (interrupted == OTA_CANCELLED)
        return say(call->error, interrupted, "cancel", "", "the call was cancelled");
    if (interrupted != OTA_OK)
        return say(call->error, interrupted, "deadline_ns", "",
                   "the deadline passed before the call was done");
    char message[sizeof call->error->message];
    va_list arguments;
    va_start(arguments, format);
    (void)ota_vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return say(call->error, status, field, hint, message);
}
