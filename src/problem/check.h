/* check.h: what the files of checks share. Each call answers OTA_OK, or fills `error` with one sentence
 * that names `field`, its value and the remedy. */
#ifndef OTA_CHECK_H
#define OTA_CHECK_H

#include "problem/fields.h"
#include "problem/problem.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const ota_status try_status = (call);                                                      \
        if (try_status != OTA_OK) return try_status;                                               \
    } while (0)

static inline bool ota_is_float(ota_type type) { return type >= OTA_F64 && type <= OTA_F16; }
static inline bool ota_is_wide(ota_type type) { return type == OTA_F64 || type == OTA_F32; }

ota_status ota_check_sized(void *to, size_t ours, const void *from, size_t theirs,
                           const char *field, ota_error *error);
/* The same of a struct of a call, which may be NULL and whose first member is its size; `field` is "arrays.size" or such. */
ota_status ota_check_given(void *to, size_t ours, const void *given, const char *field,
                           ota_error *error);
/* NULL, or one that can run. */
ota_status ota_check_executor(const ota_executor *executor, ota_error *error);
ota_status ota_check_array(const ota_array *a, const char *field, ota_error *error);
ota_status ota_wrong_type(const char *field, ota_type type, const char *wanted, ota_error *error);
ota_status ota_check_shape(const ota_array *a, const char *field, const int64_t want[4],
                           bool broadcasts, ota_error *error);
ota_status ota_check_vector(const ota_array *a, const char *field, const int64_t want[4],
                            bool broadcasts, double low, bool positive, double high,
                            ota_error *error);
/* Masses [batch|1][heads|1][1][length] of at least 0. */
ota_status ota_check_masses(const ota_array *a, const char *field, const int64_t want[4],
                            ota_error *error);
ota_status ota_check_number(double value, const char *field, double low, bool open_low, double high,
                            bool open_high, ota_error *error);

/* An array of a call beside the plan: its name after a noun such as "gradient " or "", and its shape; `one`: dimensions that may be
 * 1 instead. Its type is known. */
typedef struct ota_call_array {
    const char *noun, *field;
    int64_t want[4];
    bool one[4];
} ota_call_array;
ota_status ota_check_call_array(const ota_array *a, const ota_call_array *need, ota_error *error);
/* check_arrays.c: sizes of a shape. */
void ota_shape_of(const ota_resolved *r, int64_t values_width, ota_derivative_shape shape,
                  int64_t want[4]);

/* A combination of regulariser and columns that has no meaning. */
ota_status ota_refuse_cell(const char *cell, const char *why, const char *hint, ota_error *error);

/* Fill their part of `r` from r->problem, or from the options given. */
ota_status ota_resolve_entry_caps(ota_resolved *r, ota_error *error); /* after all others */
ota_status ota_resolve_options(ota_resolved *r, const ota_options *given, ota_error *error);

#endif
