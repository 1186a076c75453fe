/* arrays.h: memory of one case and strided arrays in it. Inputs are filled by a rule from the case's dice;
 * outputs hold a pattern before every call, so that bytes nobody wrote are the same in every run. */
#ifndef TESTS_DUMP_ARRAYS_H
#define TESTS_DUMP_ARRAYS_H

#include "digest.h"
#include "otattn.h"

typedef struct dump_memory {
    unsigned char *base;
    size_t used, size;
} dump_memory;

/* The memory that an array lies in: its elements, gaps between them and nothing else. */
typedef struct dump_block {
    unsigned char *start;
    size_t bytes;
} dump_block;

typedef enum dump_layout {
    DUMP_DENSE,
    DUMP_ROWS_BEFORE_HEADS, /* [batch, rows, heads, columns] */
    DUMP_TRANSPOSED,        /* [batch, heads, columns, rows] */
    DUMP_BACKWARDS,         /* every stride negative */
    DUMP_BACKWARDS_ROWS,    /* the stride of rows negative */
    DUMP_SLICED,            /* every second column of wider rows */
    DUMP_PADDED,            /* rows with a gap behind them */
    DUMP_REPEATED,          /* stride 0 over batch and heads; inputs only, like the next */
    DUMP_REPEATED_ROWS,     /* stride 0 over rows */
    DUMP_LAYOUTS
} dump_layout;

typedef struct dump_shape {
    ota_type type;
    int64_t size[4];
} dump_shape;

typedef enum dump_rule {
    DUMP_NORMAL, /* parameter: spread */
    DUMP_WHOLE,  /* whole numbers from -parameter to parameter: ties */
    DUMP_MASS,   /* 1 to 1 + parameter */
    DUMP_MASS_OR_0,
    DUMP_SHARE, /* 0 to parameter */
    DUMP_COIN,  /* 1 with this chance, else 0 */
    DUMP_SHUT,  /* normal with this chance, else -inf */
    DUMP_TINY,  /* denormal numbers of the type */
    DUMP_ALL    /* the parameter itself */
} dump_rule;

/* `bytes` bytes of 0xff; `shift` moves the start off a boundary of 64 bytes. Ends the program when there is no
 * room: cases are drawn within it. */
dump_block dump_lend(dump_memory *memory, size_t bytes, size_t shift);

/* An array of this shape. `out`, when not NULL, takes its block, and makes it an output's layout. */
ota_array dump_array(dump_memory *memory, dice *dice, const dump_shape *shape, dump_layout layout,
                     dump_block *out);
/* A layout by chance: dense with chance `dense`. */
dump_layout dump_any_layout(dice *dice, double dense, bool output);

void dump_fill(const ota_array *array, dice *dice, dump_rule rule, double parameter);
void *dump_place(const ota_array *array, const int64_t at[4]);
double dump_get(const ota_array *array, const int64_t at[4]);
void dump_set(const ota_array *array, const int64_t at[4], double value);
/* Walks the elements: the next index, false after the last. */
bool dump_next(const ota_array *array, int64_t at[4]);
bool dump_empty(const ota_array *array);
/* Gives every NaN of a floating array the same bits. */
void dump_same_nan(const ota_array *array);

#endif
