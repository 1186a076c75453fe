/* The checks of options: every default filled in, every number in its range, as the rows of fields.c say. */
#include <string.h>

#include "base/base.h"
#include "problem/check.h"
#include "problem/fields.h"

ota_status ota_check_executor(const ota_executor *executor, ota_error *error) {
    const bool runs = executor == NULL || executor->run != NULL;
    if (executor == NULL ||
        (runs && executor->threads >= 1 && executor->threads <= OTA_THREADS_MAX))
        return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "executor", "give run and 1 to 4096 threads",
                    "executor has %s and %d threads", runs ? "run" : "no run", executor->threads);
}

ota_status ota_resolve_options(ota_resolved *r, const ota_options *given, ota_error *error) {
    ota_settings *s = &r->settings;
    ota_options o;
    if (given != NULL)
        TRY(ota_check_sized(&o, sizeof o, given, given->size, "options.size", error));
    else
        memset(&o, 0, sizeof o);
    TRY(ota_fields_complete(ota_option_fields, r, &o, error));
    ota_fields_copy(&o, s);
    s->stop.fixed = o.rounds != 0;
    if (o.rounds == OTA_NO_ROUNDS) s->stop.rounds = 0;
    if (r->rule_rounds >= 0) {
        s->stop.fixed = true;
        s->stop.rounds = r->rule_rounds;
    }
    return OTA_OK;
}
