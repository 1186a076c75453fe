/* Prefix columns: row i is the last row of the exact plan of queries 0 ... i on keys 0 ... m - n + i. [DER-04] */
#include <inttypes.h>

#include "problem/check.h"
#include "column_rules.h"

static ota_status check_shape(const ota_resolved *r, ota_error *error) {
    if (ota_some_sink(r)) {
        return ota_fail(error, OTA_UNSUPPORTED, "sink", "use online or capped columns",
                        "prefix columns share all mass among the keys and leave the sink nothing");
    }
    if (r->queries > r->keys) {
        return ota_fail(error, OTA_EINVAL, "queries", "give at least as many keys as queries",
                        "prefix needs queries <= keys, got %" PRId64 " queries and %" PRId64
                        " keys",
                        r->queries, r->keys);
    }
    return OTA_OK;
}

const ota_column_rule_row ota_columns_prefix = {.name = "prefix",
                                                .check_shape = check_shape,
                                                .coupling = OTA_COUPLING_LEADING,
                                                .traits = OTA_RULE_SERVES_ALL,
                                                .ceiling = INFINITY};
