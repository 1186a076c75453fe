/* Random problems for `otattn bench --random`. */
#ifndef OTATTN_PROGRAM_BENCH_DRAW_H
#define OTATTN_PROGRAM_BENCH_DRAW_H

#include "bench.h"

/* Sides of the largest problem; number of cells of the method grid; decades of temperature / range. */
enum { CLI_DRAW_LARGE = 512, CLI_DRAW_CELLS = 22, CLI_DRAW_DECADES = 13 };

typedef struct cli_draw_cell {
    const char *method;
    int parameters; /* numbers drawn after the colon: 0, 1 (a strength), 2 (a cap), 3 (elastic), 4 (bounds) */
    bool relaxed_rows;
    bool promises; /* can answer ok */
    bool masses;   /* takes column masses */
} cli_draw_cell;

extern const cli_draw_cell cli_draw_cells[CLI_DRAW_CELLS];

/* How a mask is known to be. */
typedef enum cli_draw_mask {
    MASK_NONE,  /* every pair: total support */
    MASK_TOTAL, /* a union of permutations (n = m): total support for unit masses */
    MASK_CAUSAL,
    MASK_WINDOW,
    MASK_STRIDED,
    MASK_BLOCK,
    MASK_RANDOM,
    MASK_ADDITIVE,
    MASKS
} cli_draw_mask;

extern const char *const cli_draw_masks[MASKS];

typedef struct cli_draw {
    int64_t index, n, m;
    int cell;
    int decade;               /* floor(log10(temperature / range)) + 6, in [0, CLI_DRAW_DECADES) */
    double ratio, range, tau; /* ratio = tau / range */
    bool counted;             /* a plan exists by construction and is a limit of positive weights */
    bool feasible;            /* a plan exists by construction */
    ota_problem problem;
    ota_options options;
    ota_term terms[2];
    ota_support supports[2];
    double *scores, *bias, *row_mass, *column_mass, *additive;
    unsigned char *mask;
    cli_draw_mask mask_drawn;
    char method[96];
} cli_draw;

/* Memory of one worker, for the largest problem: its inputs, then its outputs. */
typedef struct cli_draw_memory {
    double scores[CLI_DRAW_LARGE * CLI_DRAW_LARGE], additive[CLI_DRAW_LARGE * CLI_DRAW_LARGE];
    double coupling[CLI_DRAW_LARGE * CLI_DRAW_LARGE];
    double row_mass[CLI_DRAW_LARGE], column_mass[CLI_DRAW_LARGE], bias[CLI_DRAW_LARGE];
    double row_potential[CLI_DRAW_LARGE], column_potential[CLI_DRAW_LARGE];
    double sink[CLI_DRAW_LARGE];
    unsigned char mask[CLI_DRAW_LARGE * CLI_DRAW_LARGE];
} cli_draw_memory;

/* Problem number `index`: a function of (seed, index) alone. It points into itself and into `memory`. */
void cli_draw_problem(cli_draw *draw, cli_draw_memory *memory, uint64_t seed, int64_t index,
                      const int *cancel);
/* Why the certificate of a problem that was called ok shows that it is not, or NULL. */
const char *cli_draw_wrong(const cli_draw *draw, const cli_draw_memory *memory,
                           const ota_certificate *certificate);

#endif
