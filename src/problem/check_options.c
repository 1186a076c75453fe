/* The checks of options: every default filled in, every number in its range, as the rows of fields.c say. */
#include <string.h>

#include "problem/check.h"
#include "problem/fields.h"

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
