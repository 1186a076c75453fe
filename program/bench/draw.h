/* Random problems for `otattn bench --random`. */
#ifndef OTATTN_PROGRAM_BENCH_DRAW_H
#define OTATTN_PROGRAM_BENCH_DRAW_H

#include "bench.h"

/* Sides of the largest problem; number of cells of the method grid; decades of temperature / range. */
enum { TOOL_DRAW_LARGE = 512, TOOL_DRAW_CELLS = 22, TOOL_DRAW_DECADES = 13 };

typedef struct tool_draw_cell {
    const char *method;
    int parameters; /* numbers drawn after the colon: 0, 1 (a strength), 2 (a cap), 3 (elastic), 4 (bounds) */
    bool relaxed_rows;
    bool promises; /* can answer ok */
    bool masses;   /* takes column masses */
} tool_draw_cell;

extern const tool_draw_cell tool_draw_cells[TOOL_DRAW_CELLS];

/* How a mask is known to be. */
typedef enum tool_draw_mask {
    MASK_NONE,  /* every pair: total support */
    MASK_TOTAL, /* a union of permutations (n = m): total support for unit masses */
    MASK_CAUSAL,
    MASK_WINDOW,
    MASK_STRIDED,
    MASK_BLOCK,
    MASK_RANDOM,
    MASK_ADDITIVE,
    MASKS
} tool_draw_mask;

extern const char *const tool_draw_masks[MASKS];

typedef struct tool_draw {
    int64_t index, n, m;
    int cell;
    int decade;               /* floor(log10(temperature / range)) + 6, in [0, TOOL_DRAW_DECADES) */
    double ratio, range, tau; /* ratio = tau / range */
    bool counted;             /* a plan exists by construction and is a limit of positive weights */
    bool feasible;            /* a plan exists by construction */
    ota_problem problem;
    ota_options options;
    ota_term terms[2];
    ota_support supports[2];
    double *scores, *bias, *row_mass, *column_mass, *additive;
    unsigned char *mask;
    tool_draw_mask mask_drawn;
    char method[96];
} tool_draw;

/* Memory of one worker, for the largest problem: its inputs, then its outputs. */
typedef struct tool_draw_memory {
    double scores[TOOL_DRAW_LARGE * TOOL_DRAW_LARGE], additive[TOOL_DRAW_LARGE * TOOL_DRAW_LARGE];
    double coupling[TOOL_DRAW_LARGE * TOOL_DRAW_LARGE];
    double row_mass[TOOL_DRAW_LARGE], column_mass[TOOL_DRAW_LARGE], bias[TOOL_DRAW_LARGE];
    double row_potential[TOOL_DRAW_LARGE], column_potential[TOOL_DRAW_LARGE];
    double sink[TOOL_DRAW_LARGE];
    unsigned char mask[TOOL_DRAW_LARGE * TOOL_DRAW_LARGE];
} tool_draw_memory;

/* Problem number `index`: a function of (seed, index) alone. It points into itself and into `memory`. */
void tool_draw_problem(tool_draw *draw, tool_draw_memory *memory, uint64_t seed, int64_t index,
                       const int *cancel);
/* Why the certificate of a problem that was called ok shows that it is not, or NULL. */
const char *tool_draw_wrong(const tool_draw *draw, const tool_draw_memory *memory,
                            const ota_certificate *certificate);

#endif
