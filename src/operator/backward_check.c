/* The checks of backward: the gradients of one call against the plan and the arrays of its forward. */
#include <math.h>
#include <string.h>

#include "backward.h"
#include "problem/check.h"
#include "problem/fields.h"

/* Has the column rule a parameter with this derivative? */
static bool has_parameter(const ota_problem *p, int derivative) {
    const ota_rule_parameter *parameter = ota_rule_parameters(p->columns);
    for (; parameter->name != NULL; parameter++) {
        if (parameter->derivative == derivative) return true;
    }
    return false;
}

/* NULL, or why no order can be moved. Entmax of order 1 is softmax. */
static const char *has_order(const ota_plan *plan) {
    const ota_problem *p = &plan->resolved.problem;
    if (p->regulariser == OTA_ENTMAX) return NULL;
    if (p->regulariser != OTA_SOFTMAX || p->rows == OTA_ROWS_RELAXED || p->order < 1.0 ||
        p->order > 1.0)
        return "only entmax has an order";
    return ota_backward_mode_of(plan) == OTA_BACKWARD_UNROLLED
               ? "fixed rounds of order 1 are those of softmax"
               : NULL;
}

static const char *has_cap(const ota_problem *p) {
    return has_parameter(p, OTA_D_CAP) ? NULL : "only capped and online columns have a cap";
}

static const char *has_strength(const ota_problem *p) {
    if (!has_parameter(p, OTA_D_STRENGTH)) return "only relaxed and elastic columns have one";
    if (!ota_rule_is(ota_column_rule_of(p->columns), OTA_RULE_DAMPED)) return NULL;
    if (ota_array_present(&p->lambdas)) return "every key has a lambda of its own";
    return p->lambda > 0.0 || p->steps == 0
               ? NULL
               : "lambda = 0 was solved as softmax, without the rounds its derivative needs";
}

static const char *has_bounds(const ota_problem *p) {
    return has_parameter(p, OTA_D_LOWER) ? NULL : "only bounded columns have bounds";
}

static const char *has_column_mass(const ota_plan *plan) {
    const ota_problem *p = &plan->resolved.problem;
    const bool unit = ota_rule_is(ota_column_rule_of(p->columns), OTA_RULE_UNIT_MASSES);
    return ota_array_present(&p->column_mass) || unit || plan->strategy.transposed
               ? NULL
               : "the problem has no column_mass";
}

/* Why this member of the derivatives does not exist for this plan, or NULL. */
static const char *meaningless(const ota_plan *plan, const ota_arrays *arrays, int which) {
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    switch ((enum ota_derivative_index)which) {
    case OTA_D_OUT:
    case OTA_D_VALUES:
        return ota_array_present(&arrays->values) ? NULL : "arrays.values are absent";
    case OTA_D_QUERIES:
    case OTA_D_KEYS:
        return r->from_matrix ? "the problem has a matrix of scores; ask for matrix" : NULL;
    case OTA_D_MATRIX: return r->from_matrix ? NULL : "the problem has queries and keys, no matrix";
    case OTA_D_ORDER: return has_order(plan);
    case OTA_D_CAP: return has_cap(p);
    case OTA_D_STRENGTH: return has_strength(p);
    case OTA_D_LOWER:
    case OTA_D_UPPER: return has_bounds(p);
    case OTA_D_ROW_STRENGTH: return p->rows == OTA_ROWS_RELAXED ? NULL : "the rows are exact";
    case OTA_D_COLUMN_MASS: return has_column_mass(plan);
    case OTA_D_COUPLING:
    case OTA_D_SCORES:
    case OTA_D_TERMS:
    case OTA_D_TEMPERATURE:
    case OTA_D_ROW_MASS:
    case OTA_D_SOLVED:
    case OTA_DERIVATIVES:
    default: return NULL;
    }
}

static ota_status check_one(const ota_array *a, const ota_call_array *need, bool input,
                            ota_error *error) {
    if (!ota_is_float(a->type))
        return ota_fail(error, OTA_EINVAL, need->field, "convert it",
                        "%s%s has type %d, wanted f64, f32, bf16 or f16", need->noun, need->field,
                        (int)a->type);
    TRY(ota_check_call_array(a, need, error));
    if (input || !ota_array_overlaps_itself(a)) return OTA_OK;
    return ota_fail(error, OTA_EALIAS, need->field, "give every element its own place",
                    "%s%s overlaps itself", need->noun, need->field);
}

ota_status ota_check_of_term(const ota_plan *plan, const ota_array *a, const char *noun, int t,
                             bool input, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const ota_term *term = t == r->term_count ? &r->sink : &r->terms[t];
    ota_call_array need = {noun, ota_term_of(term->kind)->name, {1, 1, 1, 1}, {false}};
    if (ota_array_present(&term->array) && ota_term_form_of(term) != OTA_FORM_SOFTCAP)
        memcpy(need.want, term->array.size, sizeof need.want);
    return check_one(a, &need, input, error);
}

ota_status ota_check_derivative(const ota_plan *plan, const ota_arrays *arrays, const ota_array *a,
                                int which, bool along, ota_error *error) {
    const ota_derivative *row = &ota_derivatives[which];
    ota_call_array need = {.noun = along ? "tangent " : "gradient ",
                           .field = along ? row->tangent : row->gradient};
    const char *why = meaningless(plan, arrays, which);
    if (why != NULL) {
        return ota_fail(error, OTA_EINVAL, need.field, "leave it out", "there is no %s%s here: %s",
                        need.noun, need.field, why);
    }
    ota_shape_of(&plan->resolved, plan->values_width, row->shape, need.want);
    need.one[0] = need.one[1] =
        row->shape == OTA_SHAPE_OF_QUERIES || row->shape == OTA_SHAPE_OF_KEYS;
    need.one[3] = row->shape == OTA_SHAPE_PER_HEAD;
    return check_one(a, &need, along != row->upstream, error);
}

const char *ota_overlapped_input(const ota_plan *plan, const ota_arrays *arrays,
                                 const ota_array *out) {
    const struct {
        const char *field;
        const ota_array *array;
    } inputs[] = {{"values", &arrays->values},
                  {"row_potential", &arrays->row_potential},
                  {"column_potential", &arrays->column_potential},
                  {"start_potential", &arrays->start_potential}};
    for (size_t k = 0; k < sizeof inputs / sizeof inputs[0]; k++) {
        if (ota_arrays_overlap(out, inputs[k].array)) return inputs[k].field;
    }
    for (int k = 0; plan->driver != NULL; k++) {
        const char *field;
        const ota_array *input = plan->driver->input(plan, k, &field);
        if (input == NULL) break;
        if (ota_arrays_overlap(out, input)) return field;
    }
    return ota_problem_overlapped(&plan->resolved, out);
}

/* Output `out` against everything that is read and every output before it. */
static const char *overlapped(const ota_plan *plan, const ota_arrays *arrays,
                              const ota_gradients *g, const ota_array *out) {
    const ota_problem *p = &plan->resolved.problem;
    const char *read = ota_overlapped_input(plan, arrays, out);
    if (read != NULL) return read;
    /* Inputs come first. */
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        if (!ota_derivative_is_array(k)) continue;
        const ota_array *other = ota_gradient_in(g, k);
        if (other == out) return NULL;
        if (ota_arrays_overlap(out, other)) return ota_derivatives[k].gradient;
    }
    for (int64_t k = 0; g->terms != NULL && k < p->term_count; k++) {
        if (&g->terms[k] == out) return NULL;
        if (ota_arrays_overlap(out, &g->terms[k])) return "another term's gradient";
    }
    return NULL;
}

static ota_status check_alias(const ota_plan *plan, const ota_arrays *arrays,
                              const ota_gradients *g, const ota_array *out, const char *field,
                              ota_error *error) {
    const char *other = overlapped(plan, arrays, g, out);
    if (other == NULL) return OTA_OK;
    return ota_fail(error, OTA_EALIAS, field, "give it memory of its own",
                    "gradient %s overlaps %s", field, other);
}

ota_status ota_check_potentials(const ota_plan *plan, const ota_arrays *arrays, ota_error *error) {
    if (ota_backward_mode_of(plan) != OTA_BACKWARD_IMPLICIT) return OTA_OK;
    const struct {
        const char *field;
        const ota_array *array;
    } needed[] = {{"column_potential", &arrays->column_potential},
                  {"row_potential", &arrays->row_potential}};
    for (int k = 0; k < (plan->strategy.transposed ? 2 : 1); k++) {
        if (needed[k].array->type == OTA_F64) continue;
        return ota_fail(error, OTA_EINVAL, needed[k].field,
                        "give forward an f64 array for it and backward the same",
                        "%s is %s; the implicit backward starts from it", needed[k].field,
                        ota_array_present(needed[k].array) ? "not f64" : "absent");
    }
    return OTA_OK;
}

ota_status ota_gradients_apart(const ota_plan *plan, const ota_arrays *arrays,
                               const ota_gradients *g, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    ota_status status = OTA_OK;
    for (int k = 0; k < OTA_DERIVATIVES && status == OTA_OK; k++) {
        const ota_derivative *row = &ota_derivatives[k];
        if (!ota_derivative_is_array(k) || row->upstream) continue;
        const ota_array *a = ota_gradient_in(g, k);
        if (ota_array_present(a)) status = check_alias(plan, arrays, g, a, row->gradient, error);
    }
    for (int t = 0; t < r->term_count + (r->has_sink ? 1 : 0) && status == OTA_OK; t++) {
        const ota_array *a = ota_gradient_of_term(r, g, t);
        if (a != NULL) status = check_alias(plan, arrays, g, a, "terms", error);
    }
    return status;
}

/* ota_plan_rebind may have brought terms of other shapes, for which nothing was reserved. */
static ota_status check_reserved(const ota_plan *plan, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    for (int t = 0; t < r->term_count && plan->backward != NULL; t++) {
        const ota_term_sum *sum = &plan->backward->sums.terms[t];
        const int64_t *size = r->terms[t].array.size;
        int64_t count = 0, length = 0;
        const ota_term_form form = ota_term_form_of(&r->terms[t]);
        if (form == OTA_FORM_ADDS_PAIRS && !sum->direct) {
            count = size[0] * size[1] * size[2] * size[3];
            length = size[2] == 1 ? size[3] : 0;
        } else if (form == OTA_FORM_ADDS_PAIRS) {
            count = size[0] == r->batch && size[1] == r->heads && size[2] == r->queries &&
                            size[3] == r->keys
                        ? 0
                        : -1;
        } else if (form == OTA_FORM_ADDS_DIFFERENCES) {
            length = size[3];
            count = size[1] * size[3];
        }
        if (count == sum->count && length == sum->length) continue;
        return ota_fail(error, OTA_EINVAL, "terms", "create a new plan",
                        "term %d has another shape than when the plan was made", t);
    }
    return OTA_OK;
}

ota_status ota_gradients_check(const ota_plan *plan, const ota_arrays *arrays,
                               const ota_gradients *given, ota_gradients *full, ota_error *error) {
    TRY(ota_check_given(full, sizeof *full, given, "gradients.size", error));
    ota_status status = check_reserved(plan, error);
    for (int k = 0; k < OTA_DERIVATIVES && status == OTA_OK; k++) {
        if (ota_derivative_is_array(k) && ota_array_present(ota_gradient_in(full, k)))
            status = ota_check_derivative(plan, arrays, ota_gradient_in(full, k), k, false, error);
    }
    const ota_resolved *r = &plan->resolved;
    for (int t = 0; t < r->term_count + (r->has_sink ? 1 : 0) && status == OTA_OK; t++) {
        const ota_array *a = ota_gradient_of_term(r, full, t);
        if (a != NULL) status = ota_check_of_term(plan, a, "gradient ", t, false, error);
    }
    if (status == OTA_OK) status = ota_gradients_apart(plan, arrays, full, error);
    return status == OTA_OK ? ota_check_potentials(plan, arrays, error) : status;
}

void ota_poison(const ota_plan *plan, const ota_array *a) {
    for (int64_t b = 0; ota_array_present(a) && b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) ota_array_poison(plan->pool, a, b, h);
    }
}

void ota_gradients_poison(const ota_plan *plan, const ota_gradients *want) {
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        if (ota_derivative_is_array(k) && !ota_derivatives[k].upstream)
            ota_poison(plan, ota_gradient_in(want, k));
    }
    for (int64_t k = 0; want->terms != NULL && k < plan->resolved.problem.term_count; k++)
        ota_poison(plan, &want->terms[k]);
}
