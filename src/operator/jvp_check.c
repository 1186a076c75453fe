/* The checks of jvp: a tangent must fit as the gradient of the same name does, and outputs overlap nothing. */
#include "jvp.h"
#include "problem/check.h"
#include "problem/fields.h"

/* Output `which` against everything that is read and every output behind it. */
static const char *overlapped(const ota_plan *plan, const ota_arrays *arrays, const ota_tangents *t,
                              int which) {
    const ota_array *out = ota_tangent_in(t, which);
    const char *read = ota_overlapped_input(plan, arrays, out);
    if (read != NULL) return read;
    for (int64_t k = 0; t->terms != NULL && k < plan->resolved.problem.term_count; k++) {
        if (ota_arrays_overlap(out, &t->terms[k])) return "the tangent of a term";
    }
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        const bool other =
            ota_derivative_is_array(k) && (!ota_derivatives[k].upstream || k > which);
        if (other && ota_arrays_overlap(out, ota_tangent_in(t, k)))
            return ota_derivatives[k].tangent;
    }
    return NULL;
}

static ota_status check_terms(const ota_plan *plan, const ota_tangents *t, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    ota_status status = OTA_OK;
    for (int k = 0; k < r->term_count + (r->has_sink ? 1 : 0) && status == OTA_OK; k++) {
        const ota_array *a = ota_tangent_of_term(r, t, k);
        if (a != NULL) status = ota_check_of_term(plan, a, "tangent ", k, true, error);
    }
    return status;
}

ota_status ota_tangents_apart(const ota_plan *plan, const ota_arrays *arrays, const ota_tangents *t,
                              ota_error *error) {
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        if (!ota_derivatives[k].upstream || !ota_array_present(ota_tangent_in(t, k))) continue;
        const char *field = ota_derivatives[k].tangent;
        const char *other = overlapped(plan, arrays, t, k);
        if (other != NULL)
            return ota_fail(error, OTA_EALIAS, field, "give it memory of its own",
                            "tangent %s overlaps %s", field, other);
    }
    return OTA_OK;
}

ota_status ota_tangents_check(const ota_plan *plan, const ota_arrays *arrays,
                              const ota_tangents *given, ota_tangents *full, ota_error *error) {
    TRY(ota_check_given(full, sizeof *full, given, "tangents.size", error));
    ota_status status = check_terms(plan, full, error);
    for (int k = 0; k < OTA_DERIVATIVES && status == OTA_OK; k++) {
        if (ota_derivative_is_array(k) && ota_array_present(ota_tangent_in(full, k)))
            status = ota_check_derivative(plan, arrays, ota_tangent_in(full, k), k, true, error);
    }
    if (status == OTA_OK) status = ota_tangents_apart(plan, arrays, full, error);
    return status == OTA_OK ? ota_check_potentials(plan, arrays, error) : status;
}
