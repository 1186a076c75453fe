/* The checks of forward: the arrays of one call against the resolved problem. */
#include <string.h>

#include "base/integers.h"
#include "problem/check.h"
#include "problem/fields.h"
#include "problem/problem.h"

void ota_shape_of(const ota_resolved *r, int64_t values_width, ota_derivative_shape shape,
                  int64_t want[4]) {
    want[0] = r->batch, want[1] = r->heads, want[2] = r->queries, want[3] = r->keys;
    switch (shape) {
    case OTA_SHAPE_OUT: want[3] = values_width; break;
    case OTA_SHAPE_QUERIES: want[3] = r->width; break;
    case OTA_SHAPE_KEYS: want[1] = r->key_heads, want[2] = r->keys, want[3] = r->width; break;
    case OTA_SHAPE_VALUES: want[1] = r->key_heads, want[2] = r->keys, want[3] = values_width; break;
    case OTA_SHAPE_PER_HEAD: want[0] = want[1] = want[2] = 1, want[3] = r->heads; break;
    case OTA_SHAPE_NUMBER: want[0] = want[1] = want[2] = want[3] = 1; break;
    case OTA_SHAPE_OF_QUERIES: want[2] = 1, want[3] = r->queries; break;
    case OTA_SHAPE_OF_KEYS: want[2] = 1; break;
    case OTA_SHAPE_PAIRS:
    case OTA_SHAPE_TERMS:
    case OTA_SHAPE_FLAG:
    default: break;
    }
}

static bool is_matrix(ota_derivative_shape shape) {
    return shape != OTA_SHAPE_OF_QUERIES && shape != OTA_SHAPE_OF_KEYS;
}

static ota_status check_one(const ota_resolved *r, int64_t values_width, const ota_arrays *arrays,
                            const ota_array_row *row, ota_error *error) {
    const ota_array *a = ota_array_of_row(arrays, row);
    const bool matrix = is_matrix(row->shape);
    const char *wanted = row->f64 ? "f64" : matrix ? "f64, f32, bf16 or f16" : "f64 or f32";
    ota_call_array need = {.noun = "", .field = row->name};
    if (row->f64 ? a->type != OTA_F64 : matrix ? !ota_is_float(a->type) : !ota_is_wide(a->type))
        return ota_wrong_type(row->name, a->type, wanted, error);
    ota_shape_of(r, values_width, row->shape, need.want);
    TRY(ota_check_call_array(a, &need, error));
    const bool empty = a->size[0] == 0 || a->size[1] == 0 || a->size[2] == 0 || a->size[3] == 0;
    for (int k = 0; k < 4 && row->output && !empty; k++) {
        if (a->size[k] == 1 || a->stride[k] != 0) continue;
        return ota_fail(error, OTA_EINVAL, row->name, "give every element its own place",
                        "%s is an output with stride 0 in dimension %d", row->name, k);
    }
    return OTA_OK;
}

const char *ota_arrays_written_on(const ota_arrays *arrays, const ota_array *input) {
    for (int k = 0; k < OTA_ARRAY_ROWS; k++) {
        if (ota_array_rows[k].output &&
            ota_arrays_overlap(ota_array_of_row(arrays, &ota_array_rows[k]), input))
            return ota_array_rows[k].name;
    }
    return NULL;
}

const char *ota_problem_overlapped(const ota_resolved *r, const ota_array *out) {
    for (const ota_field *f = ota_problem_fields; f->name != NULL; f++) {
        if (f->kind == OTA_FIELD_ARRAY && ota_arrays_overlap(out, ota_field_in(f, &r->problem)))
            return f->name;
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

/* No output may overlap an input or another output. */
static ota_status check_aliases(const ota_resolved *r, const ota_arrays *arrays, ota_error *error) {
    for (int k = 0; k < OTA_ARRAY_ROWS; k++) {
        const ota_array *out = ota_array_of_row(arrays, &ota_array_rows[k]);
        if (!ota_array_rows[k].output || !ota_array_present(out)) continue;
        const char *other = ota_problem_overlapped(r, out);
        for (int i = 0; i < OTA_ARRAY_ROWS; i++) {
            const bool before = ota_array_rows[i].output ? i < k : ota_array_rows[i].input;
            if (before && ota_arrays_overlap(out, ota_array_of_row(arrays, &ota_array_rows[i])))
                other = ota_array_rows[i].name;
        }
        if (ota_array_overlaps_itself(out)) other = "itself";
        if (other != NULL) {
            return ota_fail(error, OTA_EALIAS, ota_array_rows[k].name, "give it memory of its own",
                            "%s overlaps %s", ota_array_rows[k].name, other);
        }
    }
    return OTA_OK;
}

ota_status ota_arrays_check(const ota_resolved *r, int64_t values_width, const ota_arrays *given,
                            ota_arrays *full, ota_error *error) {
    TRY(ota_check_given(full, sizeof *full, given, "arrays.size", error));
    if (ota_array_present(&full->out) && !ota_array_present(&full->values)) {
        return ota_fail(error, OTA_EINVAL, "values", "give values, or leave out away",
                        "out is wanted but values are absent");
    }
    for (int k = 0; k < OTA_ARRAY_ROWS; k++) {
        if (!ota_array_present(ota_array_of_row(full, &ota_array_rows[k]))) continue;
        TRY(check_one(r, values_width, full, &ota_array_rows[k], error));
    }
    if (ota_array_present(&full->remaining) && r->problem.columns != OTA_COLUMNS_ONLINE) {
        return ota_fail(error, OTA_EINVAL, "remaining", "leave it out",
                        "remaining belongs to online columns only");
    }
    return check_aliases(r, full, error);
}
