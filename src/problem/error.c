/* Error sentences: one place fills ota_error, so that the three strings are always terminated. */
#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"
#include "problem/check.h"
#include "problem/problem.h"

ota_status ota_fail(ota_error *error, ota_status status, const char *field, const char *hint,
                    const char *format, ...) {
    if (error == NULL) return status;
    va_list arguments;
    va_start(arguments, format);
    (void)ota_vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    /* It may quote a text of others. */
    ota_text_plain(error->message);
    (void)ota_snprintf(error->field, sizeof error->field, "%s", field == NULL ? "" : field);
    (void)ota_snprintf(error->hint, sizeof error->hint, "%s", hint == NULL ? "" : hint);
    return status;
}

ota_status ota_refuse_cell(const char *cell, const char *why, const char *hint, ota_error *error) {
    return ota_fail(error, OTA_UNSUPPORTED, "method", hint, "%s is refused: %s", cell, why);
}
