/* arrays.h: how the elements of drawn arrays lie and what they are. Whoever draws lends the memory. Sees public headers alone. */
#ifndef TESTS_DRAW_ARRAYS_H
#define TESTS_DRAW_ARRAYS_H

#include <string.h>

#include "otattn.h"
#include "random.h"

typedef struct array_shape {
    ota_type type;
    int64_t size[4]; /* batch, heads, rows, columns */
} array_shape;

static inline array_shape shape_of(ota_type type, int64_t batch, int64_t heads, int64_t rows,
                                   int64_t columns) {
    return (array_shape){type, {batch, heads, rows, columns}};
}

typedef enum layout {
    DENSE,
    ROWS_BEFORE_HEADS, /* [batch, rows, heads, columns] */
    TRANSPOSED,        /* [batch, heads, columns, rows] */
    BACKWARDS,         /* every stride negative */
    BACKWARDS_ROWS,    /* the stride of rows negative */
    SLICED,            /* every second column of wider rows */
    PADDED,            /* rows with a gap behind them */
    REPEATED,          /* stride 0 over batch and heads; inputs only, like the next */
    REPEATED_ROWS,     /* stride 0 over rows, which tie */
    LAYOUTS,
    OUTPUT_LAYOUTS = REPEATED, /* whose elements each have a place */
    TIELESS_LAYOUTS = REPEATED_ROWS
} layout;

/* One of the first `count` by chance: dense with chance `dense`. */
static inline layout any_layout(dice *d, double dense, int64_t count) {
    if (chance(d, dense)) return DENSE;
    return (layout)below(d, count);
}

/* Gives `a` the strides of a layout. Returns how many elements its memory has, of which number *first is its element 0; 0 where
 * the array has none. */
static inline int64_t lay_out(ota_array *a, layout how, int64_t *first) {
    const int64_t heads = a->size[1], rows = a->size[2], columns = a->size[3];
    if (how == ROWS_BEFORE_HEADS) {
        a->stride[1] = columns, a->stride[2] = heads * columns;
        a->stride[0] = rows * heads * columns;
    } else if (how == TRANSPOSED) {
        a->stride[3] = rows, a->stride[2] = 1;
    } else if (how == SLICED || how == PADDED) {
        const int64_t step = how == SLICED ? 2 : 1, row = step * columns + 3;
        a->stride[3] = step, a->stride[2] = row, a->stride[1] = rows * row;
        a->stride[0] = heads * rows * row;
    } else if (how == REPEATED) {
        a->stride[0] = a->stride[1] = 0;
    } else if (how == REPEATED_ROWS) {
        a->stride[2] = 0;
    }
    int64_t reach = 1;
    *first = 0;
    for (int k = 0; k < 4; k++) {
        if (a->size[k] == 0) return 0;
        const int64_t span = (a->size[k] - 1) * a->stride[k];
        reach += span;
        if (how == BACKWARDS || (how == BACKWARDS_ROWS && k == 2)) {
            a->stride[k] = -a->stride[k];
            *first += span;
        }
    }
    return reach;
}

typedef enum rule {
    NORMAL, /* parameter: spread */
    WHOLE,  /* whole numbers from -parameter to parameter: exact sums in every type, ties and all */
    MASS,   /* 1 to 1 + parameter */
    MASS_OR_0,
    SHARE, /* 0 to parameter */
    EVEN,  /* -parameter to parameter */
    COIN,  /* 1 with this chance, else 0 */
    SHUT,  /* normal with this chance, else -inf */
    TINY,  /* denormal numbers of the type */
    ALL_OF /* the parameter itself */
} rule;

static inline double draw_number(dice *d, ota_type type, rule how, double parameter) {
    const uint64_t shut_word = 0xfff0000000000000u;
    double shut;
    switch (how) {
    case NORMAL: return parameter * normal(d);
    case WHOLE: return (double)between(d, -(int64_t)parameter, (int64_t)parameter);
    case MASS: return 1.0 + parameter * uniform(d);
    case MASS_OR_0: return chance(d, 0.2) ? 0.0 : 1.0 + parameter * uniform(d);
    case SHARE: return parameter * uniform(d);
    case EVEN: return parameter * (2.0 * uniform(d) - 1.0);
    case COIN: return chance(d, parameter) ? 1.0 : 0.0;
    case SHUT:
        memcpy(&shut, &shut_word, sizeof shut);
        return chance(d, parameter) ? normal(d) : shut;
    case TINY:
        return normal(d) * (type == OTA_F64 ? 0x1p-1060 : type == OTA_F16 ? 0x1p-20 : 0x1p-130);
    case ALL_OF:
    default: return parameter;
    }
}

#endif
