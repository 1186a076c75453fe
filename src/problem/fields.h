/* fields.h: the members of ota_problem, ota_options, ota_gradients and ota_tangents as tables, a row each. Whatever treats
 * members alike reads the rows: ranges and defaults, the copy into ota_settings, rebind, agreement of ranks, describe, the braces
 * of methods, the program's flags, gradients and tangents. A new option is a row here, a member of the public struct and one of
 * ota_settings. What a row cannot say in numbers is a function that it names.
 *
 * Rows stand in the order of the members. 0 says nothing: every row says what rebind and ranks make of it, and
 * tests/problem/test_fields.c fails where one does not, or where nobody does as it says. */
#ifndef OTA_FIELDS_H
#define OTA_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otattn.h"

struct ota_resolved;
struct ota_settings;

typedef enum ota_field_kind {
    OTA_FIELD_ARRAY = 1, /* ota_array */
    OTA_FIELD_REAL,      /* double */
    OTA_FIELD_WHOLE,     /* int64_t */
    OTA_FIELD_BITS,      /* uint64_t */
    OTA_FIELD_SIZE,      /* size_t */
    OTA_FIELD_COUNT,     /* int */
    OTA_FIELD_FLAG,      /* int, 0 or not; bool in ota_settings */
    OTA_FIELD_ENUM,      /* an enum, or an int that is one of `words` */
    OTA_FIELD_TEXT,      /* const char *; char[room] in ota_settings */
    OTA_FIELD_LIST,      /* pointer to as many structs as the next row says */
    OTA_FIELD_POINTER,   /* to data or a function of the caller's */
    OTA_FIELD_FUNCTIONS  /* ota_custom */
} ota_field_kind;

/* What ota_plan_rebind asks of the next problem. */
typedef enum ota_field_rebind {
    OTA_REBIND_FREE = 1, /* anything */
    OTA_REBIND_SAME,     /* the same value */
    OTA_REBIND_SHAPE,    /* an array of the same type and sizes, or none where there was none */
    OTA_REBIND_ONSET,    /* above 0 where it was */
    OTA_REBIND_RULE,     /* `same` of the row */
    OTA_REBIND_CHOICE,   /* values for which a plan made now would choose alike (rebind.c) */
    OTA_REBIND_NEVER     /* of options: rebind takes none */
} ota_field_rebind;

/* What the ranks of a communicator must have alike. */
typedef enum ota_field_ranks {
    OTA_RANKS_OWN = 1, /* nothing */
    OTA_RANKS_SAME,    /* the value; of an array whether it is given, of a list what `fact` says */
    OTA_RANKS_SHARED   /* type and sizes, but for the rank's share of the lines (shards_check.c) */
} ota_field_ranks;

typedef struct ota_field {
    const char *name;
    size_t offset, bytes;
    ota_field_kind kind;
    /* Range of a number; 0 to 0: any. */
    double low, high;
    bool open_low, open_high;
    const char *remedy; /* hint where it is out of range; NULL: made from range or words */
    const char *words;  /* of an enum from its value 0 on, separated by blanks */
    double usual;       /* what 0 stands for; 0: itself */
    double (*usual_of)(const struct ota_resolved *r);
    /* Is it read at all? It is checked only where it is; NULL: always. */
    bool (*applies)(const void *record);
    ota_status (*check)(const void *record, ota_error *error); /* besides the range */
    ota_field_rebind rebind;
    bool (*same)(const struct ota_resolved *old, const struct ota_resolved *next);
    ota_field_ranks ranks;
    int64_t (*fact)(const void *record); /* a number for what ranks compare */
    const char *shown;    /* the line of ota_plan_describe that it changes, or NULL */
    bool alone;           /* a line "name: value", where the value says something */
    const char *brace;    /* its word in the braces of a method (method.c), or NULL */
    size_t setting, room; /* offset in ota_settings, 0: none; room of a text there */
} ota_field;

/* Past the last row the name is NULL. `size`, the first member of every struct, has none. */
enum { OTA_PROBLEM_FIELDS = 35, OTA_OPTION_FIELDS = 28 };
extern const ota_field ota_problem_fields[OTA_PROBLEM_FIELDS + 1];
extern const ota_field ota_option_fields[OTA_OPTION_FIELDS + 1];

/* NULL: no member has the name. */
const ota_field *ota_field_named(const ota_field *table, const char *name);
static inline const void *ota_field_in(const ota_field *field, const void *record) {
    return (const char *)record + field->offset;
}

/* Defaults, which are in range, in the place of zeros; the first member that is out of range, as a sentence. */
ota_status ota_fields_complete(const ota_field *table, const struct ota_resolved *r, void *record,
                               ota_error *error);
/* Options that were checked. */
void ota_fields_copy(const ota_options *options, struct ota_settings *settings);
/* Does the problem `next` have what rebind wants of it? What OTA_REBIND_CHOICE says is asked elsewhere. */
bool ota_field_rebinds(const ota_field *field, const struct ota_resolved *old,
                       const struct ota_resolved *next);
/* The value of a row that has a line of its own, in the problem or in ota_settings. False: it is as always. */
bool ota_field_text(const ota_field *field, const void *record, char *text, size_t size);
/* What a rank tells the others of a row with OTA_RANKS_SAME. */
int64_t ota_field_fact(const ota_field *field, const void *record);
int64_t ota_fact_of_text(const char *text);

/* ---- derivatives -------------------------------------------------------------------------------- */

/* Of the problem's sizes (ota_shape_of in check_arrays.c); of ota_arrays those that are no parameters. */
typedef enum ota_derivative_shape {
    OTA_SHAPE_PAIRS = 1,
    OTA_SHAPE_OUT,
    OTA_SHAPE_QUERIES,
    OTA_SHAPE_KEYS,
    OTA_SHAPE_VALUES,
    OTA_SHAPE_PER_HEAD, /* {1,1,1,heads}, or one number for all */
    OTA_SHAPE_NUMBER,
    OTA_SHAPE_OF_QUERIES, /* {batch|1, heads|1, 1, queries} */
    OTA_SHAPE_OF_KEYS,
    OTA_SHAPE_TERMS, /* an array a term, each of the term's shape */
    OTA_SHAPE_FLAG   /* an int */
} ota_derivative_shape;

/* How a gradient comes about where rows lie on many ranks. */
typedef enum ota_derivative_ranks {
    OTA_DERIVATIVE_OF_ROWS = 1, /* each rank's rows have their own */
    OTA_DERIVATIVE_SUMMED,      /* every rank has a part of it, and all get the sum */
    OTA_DERIVATIVE_BY_SHARES,   /* of keys: summed, and each rank gets its share */
    OTA_DERIVATIVE_BY_TERM      /* as the term's array is shared */
} ota_derivative_ranks;

/* A member of ota_gradients and its counterpart in ota_tangents. What moves is an output of backward and an input of jvp; what
 * is upstream of the number L, the other way round. */
typedef struct ota_derivative {
    const char *gradient, *tangent; /* names; NULL: there is none in that struct */
    size_t gradient_at, tangent_at;
    ota_derivative_shape shape;
    ota_derivative_ranks ranks;
    bool upstream;
} ota_derivative;

enum ota_derivative_index {
    OTA_D_OUT,
    OTA_D_COUPLING,
    OTA_D_QUERIES,
    OTA_D_KEYS,
    OTA_D_VALUES,
    OTA_D_SCORES,
    OTA_D_MATRIX,
    OTA_D_TERMS,
    OTA_D_TEMPERATURE,
    OTA_D_ORDER,
    OTA_D_CAP,
    OTA_D_STRENGTH,
    OTA_D_ROW_STRENGTH,
    OTA_D_ROW_MASS,
    OTA_D_COLUMN_MASS,
    OTA_D_SOLVED,
    OTA_D_LOWER,
    OTA_D_UPPER,
    OTA_DERIVATIVES
};
extern const ota_derivative ota_derivatives[OTA_DERIVATIVES];

/* Is a member an array in both structs? */
static inline bool ota_derivative_is_array(int k) {
    return ota_derivatives[k].shape != OTA_SHAPE_TERMS &&
           ota_derivatives[k].shape != OTA_SHAPE_FLAG;
}
static inline const ota_array *ota_gradient_in(const ota_gradients *g, int k) {
    return (const ota_array *)(const void *)((const char *)g + ota_derivatives[k].gradient_at);
}
static inline const ota_array *ota_tangent_in(const ota_tangents *t, int k) {
    return (const ota_array *)(const void *)((const char *)t + ota_derivatives[k].tangent_at);
}

/* ---- arrays of a forward ------------------------------------------------------------------------ */

/* A member of ota_arrays. */
typedef struct ota_array_row {
    const char *name;
    size_t offset;
    ota_derivative_shape shape; /* of vectors exact: {batch, heads, 1, queries or keys} */
    bool input, output;
    bool f64; /* of no other type */
} ota_array_row;

enum { OTA_ARRAY_ROWS = 13 };
extern const ota_array_row ota_array_rows[OTA_ARRAY_ROWS];

static inline const ota_array *ota_array_of_row(const ota_arrays *arrays,
                                                const ota_array_row *row) {
    return (const ota_array *)(const void *)((const char *)arrays + row->offset);
}

#endif
