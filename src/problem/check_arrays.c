/* The checks of forward: the arrays of one call against the resolved problem. */
#include <inttypes.h>
#include <string.h>

#include "base/integers.h"
#include "problem/fields.h"
#include "problem/problem.h"

enum { MATRIX, QUERY_VECTOR, KEY_VECTOR };

typedef struct array_row {
    const char *field;
    size_t offset;
    int shape;
    bool input, output;
} array_row;

static const array_row table[] = {
    {"values", offsetof(ota_arrays, values), MATRIX, true, false},
    {"out", offsetof(ota_arrays, out), MATRIX, false, true},
    {"coupling", offsetof(ota_arrays, coupling), MATRIX, false, true},
    {"row_potential", offsetof(ota_arrays, row_potential), QUERY_VECTOR, false, true},
    {"column_potential", offsetof(ota_arrays, column_potential), KEY_VECTOR, false, true},
    {"lse", offsetof(ota_arrays, lse), QUERY_VECTOR, false, true},
    {"receiver", offsetof(ota_arrays, receiver), KEY_VECTOR, false, true},
    {"row_entropy", offsetof(ota_arrays, row_entropy), QUERY_VECTOR, false, true},
    {"row_support", offsetof(ota_arrays, row_support), QUERY_VECTOR, false, true},
    {"row_max", offsetof(ota_arrays, row_max), QUERY_VECTOR, false, true},
    {"sink", offsetof(ota_arrays, sink), QUERY_VECTOR, false, true},
    {"start_potential", offsetof(ota_arrays, start_potential), KEY_VECTOR, true, false},
    {"remaining", offsetof(ota_arrays, remaining), KEY_VECTOR, true, true},
};
enum { ROWS = (int)(sizeof table / sizeof table[0]) };

static const ota_array *field_of(const ota_arrays *arrays, const array_row *row) {
    return (const ota_array *)(const void *)((const char *)arrays + row->offset);
}

static ota_status check_one(const ota_resolved *r, int64_t values_width, const ota_arrays *arrays,
                            const array_row *row, ota_error *error) {
    const ota_array *a = field_of(arrays, row);
    int64_t want[4] = {r->batch, r->heads, r->queries, r->keys};
    if (row->shape == QUERY_VECTOR) want[2] = 1, want[3] = r->queries;
    if (row->shape == KEY_VECTOR) want[2] = 1;
    if (a == &arrays->values) want[1] = r->key_heads, want[2] = r->keys, want[3] = values_width;
    if (a == &arrays->out) want[3] = values_width;
    const size_t bytes = ota_type_bytes(a->type);
    const bool wide = a->type == OTA_F64 || a->type == OTA_F32;
    const bool fits = a == &arrays->remaining ? a->type == OTA_F64
                      : row->shape == MATRIX  ? wide || a->type == OTA_BF16 || a->type == OTA_F16
                                              : wide;
    if (!fits) {
        return ota_fail(error, OTA_EINVAL, row->field, "convert it", "%s has type %d, wanted %s",
                        row->field, (int)a->type,
                        a == &arrays->remaining ? "f64"
                        : row->shape == MATRIX  ? "f64, f32, bf16 or f16"
                                                : "f64 or f32");
    }
    bool empty = false;
    for (int k = 0; k < 4; k++) {
        if (a->size[k] != want[k]) {
            return ota_fail(error, OTA_EINVAL, row->field, "make the shapes agree",
                            "%s has shape [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                            "] where [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                            "] is needed",
                            row->field, a->size[0], a->size[1], a->size[2], a->size[3], want[0],
                            want[1], want[2], want[3]);
        }
        if (want[k] == 0) empty = true;
    }
    if (empty) return OTA_OK;
    if (a->data == NULL)
        return ota_fail(error, OTA_EINVAL, row->field, "point it at the elements", "%s has no data",
                        row->field);
    if ((uintptr_t)a->data % bytes != 0) {
        return ota_fail(error, OTA_EALIGN, row->field, "copy it to aligned memory",
                        "%s is not aligned to %zu bytes", row->field, bytes);
    }
    for (int k = 0; k < 4; k++) {
        int64_t reach;
        if (a->stride[k] == INT64_MIN ||
            __builtin_mul_overflow(a->size[k] - 1, a->stride[k], &reach) ||
            reach > INT64_MAX / 64 || reach < -(INT64_MAX / 64)) {
            return ota_fail(error, OTA_EOVERFLOW, row->field, "use smaller strides",
                            "%s spans more than 2^57 elements", row->field);
        }
        if (row->output && a->size[k] > 1 && a->stride[k] == 0) {
            return ota_fail(error, OTA_EINVAL, row->field, "give every element its own place",
                            "%s is an output with stride 0 in dimension %d", row->field, k);
        }
    }
    return OTA_OK;
}

const char *ota_arrays_written_on(const ota_arrays *arrays, const ota_array *input) {
    for (int k = 0; k < ROWS; k++) {
        if (table[k].output && ota_arrays_overlap(field_of(arrays, &table[k]), input))
            return table[k].field;
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
    for (int k = 0; k < ROWS; k++) {
        if (!table[k].output) continue;
        const ota_array *out = field_of(arrays, &table[k]);
        const char *other = ota_problem_overlapped(r, out);
        for (int i = 0; i < ROWS; i++) {
            const bool before = table[i].output ? i < k : table[i].input;
            if (before && ota_arrays_overlap(out, field_of(arrays, &table[i])))
                other = table[i].field;
        }
        if (ota_array_present(out) && ota_array_overlaps_itself(out)) other = "itself";
        if (other != NULL) {
            return ota_fail(error, OTA_EALIAS, table[k].field, "give it memory of its own",
                            "%s overlaps %s", table[k].field, other);
        }
    }
    return OTA_OK;
}

ota_status ota_arrays_check(const ota_resolved *r, int64_t values_width, const ota_arrays *given,
                            ota_arrays *full, ota_error *error) {
    memset(full, 0, sizeof *full);
    if (given == NULL || given->size == 0) {
        return ota_fail(error, OTA_EINVAL, "arrays.size", "set it to sizeof the struct", "%s",
                        given == NULL ? "arrays is NULL" : "arrays.size is 0");
    }
    memcpy(full, given, ota_size_min(given->size, sizeof *full));
    for (size_t k = sizeof *full; k < given->size; k++) {
        if (((const unsigned char *)given)[k] != 0) {
            return ota_fail(error, OTA_UNSUPPORTED, "arrays.size",
                            "use a library as new as the header",
                            "arrays.size is %zu, newer than this library, and a later field is set",
                            given->size);
        }
    }
    if (ota_array_present(&full->out) && !ota_array_present(&full->values)) {
        return ota_fail(error, OTA_EINVAL, "values", "give values, or leave out away",
                        "out is wanted but values are absent");
    }
    for (int k = 0; k < ROWS; k++) {
        if (!ota_array_present(field_of(full, &table[k]))) continue;
        const ota_status status = check_one(r, values_width, full, &table[k], error);
        if (status != OTA_OK) return status;
    }
    if (ota_array_present(&full->remaining) && r->problem.columns != OTA_COLUMNS_ONLINE) {
        return ota_fail(error, OTA_EINVAL, "remaining", "leave it out",
                        "remaining belongs to online columns only");
    }
    return check_aliases(r, full, error);
}
