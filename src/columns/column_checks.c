/* The validation of column rules: parameters and cells by the rows of the table, how rules go with relaxed rows, axis, start,
 * end and sinks, and the masses that they share out. */
#include <float.h>
#include <inttypes.h>

#include "columns.h"
#include "problem/check.h"

ota_status ota_resolve_columns(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    r->rule_rounds = ota_rule_is(rule, OTA_RULE_COUNTED) ? p->steps : -1;
    if (rule->check != NULL) TRY(rule->check(r, error));
    if (p->rows == OTA_ROWS_RELAXED) {
        if (!ota_rule_is(rule, OTA_RULE_PENALISED) || p->regulariser != OTA_SOFTMAX) {
            return ota_fail(error, OTA_UNSUPPORTED, "rows", "use softmax/relaxed, or hard rows",
                            "relaxed rows need softmax with relaxed columns");
        }
    }
    const bool printed = p->start != OTA_SIDE_ROWS || p->end != OTA_SIDE_ROWS;
    const bool scaling = p->regulariser == OTA_SOFTMAX && rule->coupling == OTA_COUPLING_POTENTIALS;
    if (printed && !scaling) {
        return ota_fail(error, OTA_UNSUPPORTED, p->start != OTA_SIDE_ROWS ? "start" : "end",
                        "leave start and end at rows",
                        "the printed start and end orders exist for softmax with exact, relaxed, "
                        "capped, bounded or elastic columns only");
    }
    const bool in_order =
        rule->coupling == OTA_COUPLING_LEADING || rule->coupling == OTA_COUPLING_ORDERED;
    if (p->axis == OTA_AXIS_COLUMNS && in_order) {
        return ota_fail(
            error, OTA_UNSUPPORTED, "axis", "use the rows axis",
            "%s columns process queries in order, which the transposed problem does not have",
            rule->name);
    }
    if (p->axis == OTA_AXIS_COLUMNS && ota_array_present(&p->lambdas)) {
        return ota_fail(error, OTA_UNSUPPORTED, "lambdas", "use one lambda, or the rows axis",
                        "lambdas name keys, but the columns axis updates queries");
    }
    if (p->axis == OTA_AXIS_COLUMNS && ota_some_sink(r)) {
        return ota_fail(error, OTA_UNSUPPORTED, "sink", "use the rows axis",
                        "a sink is one more key and has no place on the columns axis");
    }
    return rule->check_shape != NULL ? rule->check_shape(r, error) : OTA_OK;
}

ota_status ota_resolve_masses(ota_resolved *r, ota_error *error) {
    const ota_problem *p = &r->problem;
    const ota_column_rule_row *rule = ota_column_rule_of(p->columns);
    if (ota_array_present(&p->row_mass)) {
        const int64_t want[4] = {r->batch, r->heads, 1, r->queries};
        TRY(ota_check_masses(&p->row_mass, "row_mass", want, error));
        if (p->row_mass.size[3] != r->queries) {
            return ota_fail(error, OTA_EINVAL, "row_mass", "give one mass per query",
                            "row_mass has %" PRId64 " entries for %" PRId64 " queries",
                            p->row_mass.size[3], r->queries);
        }
    }
    const bool transposed = p->axis == OTA_AXIS_COLUMNS;
    if (!ota_array_present(&p->column_mass) && ota_rule_is(rule, OTA_RULE_BALANCED) &&
        ota_some_sink(r)) {
        return ota_fail(
            error, OTA_EINVAL, "column_mass", "give column masses that leave the sink a share",
            "exact columns with a sink need a column_mass with a total below the rows' mass");
    }
    if (ota_array_present(&p->column_mass)) {
        const int64_t want[4] = {r->batch, r->heads, 1, r->keys};
        TRY(ota_check_masses(&p->column_mass, "column_mass", want, error));
        if (p->column_mass.size[3] != r->keys) {
            return ota_fail(error, OTA_EINVAL, "column_mass", "give one mass per key",
                            "column_mass has %" PRId64 " entries for %" PRId64 " keys",
                            p->column_mass.size[3], r->keys);
        }
    }
    /* The side the column rule governs: keys, or queries of the transposed problem. */
    const ota_array *governed = transposed ? &p->row_mass : &p->column_mass;
    const char *field = transposed ? "row_mass" : "column_mass";
    if (ota_array_present(governed) &&
        (rule->coupling == OTA_COUPLING_NONE || rule->coupling == OTA_COUPLING_LEADING)) {
        return ota_fail(error, OTA_EINVAL, field,
                        "leave it out or use exact, relaxed, capped, bounded, elastic or online",
                        "%s has no meaning for %s columns%s", field, rule->name,
                        transposed ? " on the columns axis" : "");
    }
    return OTA_OK;
}
