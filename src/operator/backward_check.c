/* The checks of backward: the gradients of one call against the plan and the arrays of its forward. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "backward.h"
#include "validation/shards.h"

enum { PAIRS, OUT, QUERIES, KEYS, VALUES, MATRIX, PER_HEAD, NUMBER, OF_QUERIES, OF_KEYS };

typedef struct gradient_row {
    const char *field;
    size_t offset;
    int shape;
    bool input;
} gradient_row;

static const gradient_row table[] = {
    {"out_grad", offsetof(ota_gradients, out_grad), OUT, true},
    {"coupling_grad", offsetof(ota_gradients, coupling_grad), PAIRS, true},
    {"queries", offsetof(ota_gradients, queries), QUERIES, false},
    {"keys", offsetof(ota_gradients, keys), KEYS, false},
    {"values", offsetof(ota_gradients, values), VALUES, false},
    {"scores", offsetof(ota_gradients, scores), PAIRS, false},
    {"matrix", offsetof(ota_gradients, matrix), MATRIX, false},
    {"temperature", offsetof(ota_gradients, temperature), PER_HEAD, false},
    {"order", offsetof(ota_gradients, order), NUMBER, false},
    {"cap", offsetof(ota_gradients, cap), NUMBER, false},
    {"strength", offsetof(ota_gradients, strength), NUMBER, false},
    {"row_strength", offsetof(ota_gradients, row_strength), NUMBER, false},
    {"lower", offsetof(ota_gradients, lower), NUMBER, false},
    {"upper", offsetof(ota_gradients, upper), NUMBER, false},
    {"row_mass", offsetof(ota_gradients, row_mass), OF_QUERIES, false},
    {"column_mass", offsetof(ota_gradients, column_mass), OF_KEYS, false},
};
enum { ROWS = (int)(sizeof table / sizeof table[0]) };

static const ota_array *field_of(const ota_gradients *g, const gradient_row *row) {
    return (const ota_array *)(const void *)((const char *)g + row->offset);
}

/* Has the column rule a parameter whose gradient goes to this field? */
static bool has_parameter(const ota_problem *p, size_t gradient) {
    const ota_rule_parameter *parameter = ota_rule_parameters(p->columns);
    for (; parameter->name != NULL; parameter++) {
        if (parameter->gradient == gradient) return true;
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

/* Why this gradient does not exist for this plan, or NULL. */
static const char *meaningless(const ota_plan *plan, const ota_arrays *arrays, const char *field) {
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    const bool unit = ota_rule_is(ota_column_rule_of(p->columns), OTA_RULE_UNIT_MASSES);
    const bool given = ota_array_present(&p->column_mass);
    if (strcmp(field, "out_grad") == 0 || strcmp(field, "values") == 0)
        return ota_array_present(&arrays->values) ? NULL : "arrays.values are absent";
    if (strcmp(field, "queries") == 0 || strcmp(field, "keys") == 0)
        return r->from_matrix ? "the problem has a matrix of scores; ask for matrix" : NULL;
    if (strcmp(field, "matrix") == 0)
        return r->from_matrix ? NULL : "the problem has queries and keys, no matrix";
    if (strcmp(field, "order") == 0) return has_order(plan);
    if (strcmp(field, "cap") == 0)
        return has_parameter(p, offsetof(ota_gradients, cap))
                   ? NULL
                   : "only capped and online columns have a cap";
    if (strcmp(field, "strength") == 0) {
        if (!has_parameter(p, offsetof(ota_gradients, strength)))
            return "only relaxed and elastic columns have one";
        if (!ota_rule_is(ota_column_rule_of(p->columns), OTA_RULE_DAMPED)) return NULL;
        if (ota_array_present(&p->lambdas)) return "every key has a lambda of its own";
        return p->lambda > 0.0 || p->steps == 0
                   ? NULL
                   : "lambda = 0 was solved as softmax, without the rounds its derivative needs";
    }
    if (strcmp(field, "lower") == 0 || strcmp(field, "upper") == 0)
        return has_parameter(p, offsetof(ota_gradients, lower))
                   ? NULL
                   : "only bounded columns have bounds";
    if (strcmp(field, "row_strength") == 0)
        return p->rows == OTA_ROWS_RELAXED ? NULL : "the rows are exact";
    if (strcmp(field, "column_mass") == 0)
        return given || unit || plan->strategy.transposed ? NULL : "the problem has no column_mass";
    return NULL;
}

static ota_status misfit(const ota_array *a, const char *noun, const char *field,
                         const int64_t want[4], ota_error *error) {
    return ota_fail(error, OTA_EINVAL, field, "make the shapes agree",
                    "%s %s has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                    "] where [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "] is needed",
                    noun, field, a->size[0], a->size[1], a->size[2], a->size[3], want[0], want[1],
                    want[2], want[3]);
}

/* `one`: which dimensions may be 1 instead. */
static ota_status check_one(const ota_array *a, const char *noun, const char *field,
                            const int64_t want[4], const bool one[4], bool input,
                            ota_error *error) {
    if (a->type < OTA_F64 || a->type > OTA_F16) {
        return ota_fail(error, OTA_EINVAL, field, "convert it",
                        "%s %s has type %d, wanted f64, f32, bf16 or f16", noun, field,
                        (int)a->type);
    }
    bool empty = false;
    for (int k = 0; k < 4; k++) {
        if (a->size[k] != want[k] && !(one[k] && a->size[k] == 1))
            return misfit(a, noun, field, want, error);
        empty |= a->size[k] == 0;
    }
    if (empty) return OTA_OK;
    if (a->data == NULL) {
        return ota_fail(error, OTA_EINVAL, field, "point it at the elements", "%s %s has no data",
                        noun, field);
    }
    const size_t bytes = ota_type_bytes(a->type);
    if ((uintptr_t)a->data % bytes != 0) {
        return ota_fail(error, OTA_EALIGN, field, "copy it to aligned memory",
                        "%s %s is not aligned to %zu bytes", noun, field, bytes);
    }
    for (int k = 0; k < 4; k++) {
        int64_t reach;
        if (a->stride[k] == INT64_MIN ||
            __builtin_mul_overflow(a->size[k] - 1, a->stride[k], &reach) ||
            reach > INT64_MAX / 64 || reach < -(INT64_MAX / 64)) {
            return ota_fail(error, OTA_EOVERFLOW, field, "use smaller strides",
                            "%s %s spans more than 2^57 elements", noun, field);
        }
    }
    if (!input && ota_array_overlaps_itself(a)) {
        return ota_fail(error, OTA_EALIAS, field, "give every element its own place",
                        "%s %s overlaps itself", noun, field);
    }
    return OTA_OK;
}

static void shape_of(const ota_plan *plan, int shape, int64_t want[4], bool one[4]) {
    const ota_resolved *r = &plan->resolved;
    want[0] = r->batch, want[1] = r->heads, want[2] = r->queries, want[3] = r->keys;
    one[0] = one[1] = one[2] = one[3] = false;
    switch (shape) {
    case OUT: want[3] = plan->values_width; break;
    case QUERIES: want[3] = r->width; break;
    case KEYS: want[1] = r->key_heads, want[2] = r->keys, want[3] = r->width; break;
    case VALUES: want[1] = r->key_heads, want[2] = r->keys, want[3] = plan->values_width; break;
    case PER_HEAD:
        want[0] = want[2] = 1, want[3] = r->heads, want[1] = 1;
        one[3] = true;
        break;
    case NUMBER: want[0] = want[1] = want[2] = want[3] = 1; break;
    case OF_QUERIES:
    case OF_KEYS:
        want[2] = 1, want[3] = shape == OF_QUERIES ? r->queries : r->keys;
        one[0] = one[1] = true;
        break;
    default: break;
    }
}

ota_status ota_check_of_term(const ota_plan *plan, const ota_array *a, const char *noun, int t,
                             bool input, ota_error *error) {
    const ota_resolved *r = &plan->resolved;
    const ota_term *term = t == r->term_count ? &r->sink : &r->terms[t];
    const bool none[4] = {false};
    int64_t shape[4] = {1, 1, 1, 1};
    if (ota_array_present(&term->array) && ota_term_form_of(term) != OTA_FORM_SOFTCAP)
        memcpy(shape, term->array.size, sizeof shape);
    return check_one(a, noun, ota_term_of(term->kind)->name, shape, none, input, error);
}

ota_status ota_check_of_field(const ota_plan *plan, const ota_arrays *arrays, const ota_array *a,
                              const char *noun, const char *field, const char *gradient, bool input,
                              ota_error *error) {
    int k = 0;
    while (strcmp(table[k].field, gradient) != 0) k++;
    const char *why = meaningless(plan, arrays, gradient);
    if (why != NULL) {
        return ota_fail(error, OTA_EINVAL, field, "leave it out", "there is no %s %s here: %s",
                        noun, field, why);
    }
    int64_t want[4];
    bool one[4];
    shape_of(plan, table[k].shape, want, one);
    return check_one(a, noun, field, want, one, input, error);
}

const char *ota_overlapped_input(const ota_plan *plan, const ota_arrays *arrays,
                                 const ota_array *out) {
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    const ota_shards *shards = plan->shards;
    const ota_array none = {0};
    /* The keys and values of the problem are those of all ranks, beside this rank's own. */
    const struct {
        const char *field;
        const ota_array *array;
    } inputs[] = {{"queries", &p->queries},
                  {"keys", &p->keys},
                  {"scores", &p->scores},
                  {"row_mass", &p->row_mass},
                  {"column_mass", &p->column_mass},
                  {"entry_caps", &p->entry_caps},
                  {"lambdas", &p->lambdas},
                  {"temperatures", &p->temperatures},
                  {"values", &arrays->values},
                  {"row_potential", &arrays->row_potential},
                  {"column_potential", &arrays->column_potential},
                  {"start_potential", &arrays->start_potential},
                  {"keys", shards != NULL ? &shards->keys : &none},
                  {"values", shards != NULL ? &shards->values : &none}};
    for (size_t k = 0; k < sizeof inputs / sizeof inputs[0]; k++) {
        if (ota_arrays_overlap(out, inputs[k].array)) return inputs[k].field;
    }
    for (int k = 0; k < r->term_count; k++) {
        if (ota_arrays_overlap(out, &r->terms[k].array)) return "terms";
    }
    if (r->has_sink && ota_arrays_overlap(out, &r->sink.array)) return "sink";
    for (int k = 0; k < r->support_count; k++) {
        if (ota_arrays_overlap(out, &r->supports[k].array)) return "supports";
    }
    return NULL;
}

/* Output `out` against everything that is read and every output before it. */
static const char *overlapped(const ota_plan *plan, const ota_arrays *arrays,
                              const ota_gradients *g, const ota_array *out) {
    const ota_problem *p = &plan->resolved.problem;
    const char *read = ota_overlapped_input(plan, arrays, out);
    if (read != NULL) return read;
    /* Inputs come first. */
    for (int k = 0; k < ROWS; k++) {
        const ota_array *other = field_of(g, &table[k]);
        if (other == out) return NULL;
        if (ota_arrays_overlap(out, other)) return table[k].field;
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
    for (int k = 0; k < ROWS && status == OTA_OK; k++) {
        const ota_array *a = field_of(g, &table[k]);
        if (ota_array_present(a) && !table[k].input)
            status = check_alias(plan, arrays, g, a, table[k].field, error);
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
        const ota_term_sum *sum = &plan->backward->terms[t];
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
    memset(full, 0, sizeof *full);
    if (given == NULL || given->size == 0) {
        return ota_fail(error, OTA_EINVAL, "gradients.size", "set it to sizeof the struct", "%s",
                        given == NULL ? "gradients is NULL" : "gradients.size is 0");
    }
    memcpy(full, given, ota_size_min(given->size, sizeof *full));
    for (size_t k = sizeof *full; k < given->size; k++) {
        if (((const unsigned char *)given)[k] == 0) continue;
        return ota_fail(error, OTA_UNSUPPORTED, "gradients.size",
                        "use a library as new as the header",
                        "gradients.size is %zu, newer than this library, and a later field is set",
                        given->size);
    }
    ota_status status = check_reserved(plan, error);
    for (int k = 0; k < ROWS && status == OTA_OK; k++) {
        const ota_array *a = field_of(full, &table[k]);
        if (!ota_array_present(a)) continue;
        status = ota_check_of_field(plan, arrays, a, "gradient", table[k].field, table[k].field,
                                    table[k].input, error);
    }
    const ota_resolved *r = &plan->resolved;
    for (int t = 0; t < r->term_count + (r->has_sink ? 1 : 0) && status == OTA_OK; t++) {
        const ota_array *a = ota_gradient_of_term(r, full, t);
        if (a != NULL) status = ota_check_of_term(plan, a, "gradient", t, false, error);
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
    for (int k = 0; k < ROWS; k++) {
        if (!table[k].input) ota_poison(plan, field_of(want, &table[k]));
    }
    for (int64_t k = 0; want->terms != NULL && k < plan->resolved.problem.term_count; k++)
        ota_poison(plan, &want->terms[k]);
}
