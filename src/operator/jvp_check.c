/* The checks of jvp: a tangent must fit as the gradient of the same name does, and outputs overlap nothing. */
#include <string.h>

#include "jvp.h"

typedef struct tangent_row {
    const char *field;    /* of ota_tangents */
    const char *gradient; /* whose shape and conditions it has */
    size_t offset;
    bool input;
} tangent_row;

static const tangent_row table[] = {
    {"scores", "scores", offsetof(ota_tangents, scores), true},
    {"values", "values", offsetof(ota_tangents, values), true},
    {"queries", "queries", offsetof(ota_tangents, queries), true},
    {"keys", "keys", offsetof(ota_tangents, keys), true},
    {"matrix", "matrix", offsetof(ota_tangents, matrix), true},
    {"temperature", "temperature", offsetof(ota_tangents, temperature), true},
    {"order", "order", offsetof(ota_tangents, order), true},
    {"cap", "cap", offsetof(ota_tangents, cap), true},
    {"strength", "strength", offsetof(ota_tangents, strength), true},
    {"row_strength", "row_strength", offsetof(ota_tangents, row_strength), true},
    {"lower", "lower", offsetof(ota_tangents, lower), true},
    {"upper", "upper", offsetof(ota_tangents, upper), true},
    {"row_mass", "row_mass", offsetof(ota_tangents, row_mass), true},
    {"column_mass", "column_mass", offsetof(ota_tangents, column_mass), true},
    {"coupling", "coupling_grad", offsetof(ota_tangents, coupling), false},
    {"out", "out_grad", offsetof(ota_tangents, out), false},
};
enum { ROWS = (int)(sizeof table / sizeof table[0]) };

static const ota_array *field_of(const ota_tangents *t, const tangent_row *row) {
    return (const ota_array *)(const void *)((const char *)t + row->offset);
}

/* Output `out` against everything that is read and every output before it. */
static const char *overlapped(const ota_plan *plan, const ota_arrays *arrays, const ota_tangents *t,
                              const ota_array *out) {
    const char *read = ota_overlapped_input(plan, arrays, out);
    if (read != NULL) return read;
    for (int64_t k = 0; t->terms != NULL && k < plan->resolved.problem.term_count; k++) {
        if (ota_arrays_overlap(out, &t->terms[k])) return "the tangent of a term";
    }
    for (int k = 0; k < ROWS; k++) {
        const ota_array *other = field_of(t, &table[k]);
        if (other == out) return NULL;
        if (ota_arrays_overlap(out, other)) return table[k].field;
    }
    return NULL;
}

static ota_status check_terms(const ota_plan *plan, const ota_tangents *t, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    ota_status status = OTA_OK;
    for (int k = 0; k < r->term_count + (r->has_sink ? 1 : 0) && status == OTA_OK; k++) {
        const ota_array *a = ota_tangent_of_term(r, t, k);
        if (a != NULL) status = ota_check_of_term(plan, a, "tangent", k, true, error);
    }
    return status;
}

ota_status ota_tangents_apart(const ota_plan *plan, const ota_arrays *arrays, const ota_tangents *t,
                              ota_error *error) {
    for (int k = 0; k < ROWS; k++) {
        const ota_array *a = field_of(t, &table[k]);
        if (table[k].input || !ota_array_present(a)) continue;
        const char *other = overlapped(plan, arrays, t, a);
        if (other != NULL)
            return ota_fail(error, OTA_EALIAS, table[k].field, "give it memory of its own",
                            "tangent %s overlaps %s", table[k].field, other);
    }
    return OTA_OK;
}

ota_status ota_tangents_check(const ota_plan *plan, const ota_arrays *arrays,
                              const ota_tangents *given, ota_tangents *full, ota_error *error) {
    memset(full, 0, sizeof *full);
    if (given == NULL || given->size == 0) {
        return ota_fail(error, OTA_EINVAL, "tangents.size", "set it to sizeof the struct", "%s",
                        given == NULL ? "tangents is NULL" : "tangents.size is 0");
    }
    memcpy(full, given, ota_size_min(given->size, sizeof *full));
    for (size_t k = sizeof *full; k < given->size; k++) {
        if (((const unsigned char *)given)[k] == 0) continue;
        return ota_fail(
            error, OTA_UNSUPPORTED, "tangents.size", "use a library as new as the header",
            "tangents.size is %zu, newer than this library, and a later field is set", given->size);
    }
    ota_status status = check_terms(plan, full, error);
    for (int k = 0; k < ROWS && status == OTA_OK; k++) {
        const ota_array *a = field_of(full, &table[k]);
        if (!ota_array_present(a)) continue;
        status = ota_check_of_field(plan, arrays, a, "tangent", table[k].field, table[k].gradient,
                                    table[k].input, error);
    }
    if (status == OTA_OK) status = ota_tangents_apart(plan, arrays, full, error);
    return status == OTA_OK ? ota_check_potentials(plan, arrays, error) : status;
}
