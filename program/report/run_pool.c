/* Patterns P [n, n] small enough to carry: the largest weight of every block of keys and queries.
 *
 *     pooled[a][b] = max P[i][j] over i cells / n = a, j cells / n = b
 *
 * The largest, not the mean: one bright pair is what a head does, and a mean would wash it out. */
#include <string.h>

#include "run.h"

size_t cli_pool_cells(size_t n) { return n < CLI_PATTERN_CELLS ? n : CLI_PATTERN_CELLS; }

void cli_pool_pattern(const float *pattern, size_t n, float *pooled) {
    const size_t cells = cli_pool_cells(n);
    memset(pooled, 0, cells * cells * sizeof *pooled);
    for (size_t i = 0; i < n; i++) {
        float *row = pooled + i * cells / n * cells;
        for (size_t j = 0; j < n; j++) {
            float *cell = row + j * cells / n;
            if (pattern[i * n + j] > *cell) *cell = pattern[i * n + j];
        }
    }
}
