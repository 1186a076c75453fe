/* Where the passes of a head work, and which type of scores they run in. */
#include "passes.h"

/* ---- layout ---------------------------------------------------------------------------------- */

enum { CHUNKS = 32, CHUNK_ROWS = 32, LANE = 16 };

static size_t times(int64_t a, int64_t b) {
    size_t result;
    return a < 0 || b < 0 || !ota_size_mul((size_t)a, (size_t)b, &result) ? SIZE_MAX : result;
}

void ota_cpu_lay_out_passes(ota_passes *state, ota_arena *arena, bool kernel) {
    const size_t element = state->narrow ? sizeof(float) : sizeof(double), number = sizeof(double);
    state->padded_columns = (state->columns + LANE) / LANE * LANE;
    state->chunk_rows = (state->rows + CHUNKS - 1) / CHUNKS;
    if (state->chunk_rows < CHUNK_ROWS) state->chunk_rows = CHUNK_ROWS;
    /* One at least: a process of many may hold no row, and its sums are 0. */
    state->chunks = ota_int_max(1, (state->rows + state->chunk_rows - 1) / state->chunk_rows);
    const size_t columns = (size_t)state->padded_columns, rows = (size_t)state->rows + 1;
    const size_t parts = times(state->chunks, state->padded_columns);
    double **column_vectors[] = {&state->target, &state->column, &state->column_lse,
                                 &state->previous};
    for (size_t i = 0; i < sizeof column_vectors / sizeof column_vectors[0]; i++)
        *column_vectors[i] = ota_arena_take(arena, columns, number);
    double **row_vectors[] = {&state->shift, &state->sum, &state->error, &state->old_f};
    for (size_t i = 0; i < sizeof row_vectors / sizeof row_vectors[0]; i++)
        *row_vectors[i] = ota_arena_take(arena, rows, number);
    state->chunk.sums = ota_arena_take(arena, parts, number);
    state->chunk.relaxed = ota_arena_take(arena, parts, number);
    state->potential = ota_arena_take(arena, columns, number);
    state->chunk.scratch = ota_arena_take(arena, parts, number);
    state->chunk.top = ota_arena_take(arena, parts, number);
    if (!kernel) return;
    state->linear.kernel = ota_arena_take(arena, times(state->rows, state->stride), element);
    state->linear.scaling = ota_arena_take(arena, columns, element);
    state->linear.absorbed_f = ota_arena_take(arena, rows, number);
    state->linear.absorbed_g = ota_arena_take(arena, columns, number);
    state->linear.scaled_sink = ota_arena_take(arena, rows, number);
    state->linear.u = ota_arena_take(arena, rows, number);
    state->linear.middle = ota_arena_take(arena, columns, number);
}

/* ---- types ----------------------------------------------------------------------------------- */

void ota_cpu_row_pass(ota_passes *state, double t, double omega) {
    (state->narrow ? ota_cpu_row_pass_f32 : ota_cpu_row_pass_f64)(state, t, omega);
}

void ota_cpu_column_pass(ota_passes *state, double t) {
    (state->narrow ? ota_cpu_column_pass_f32 : ota_cpu_column_pass_f64)(state, t);
}

void ota_cpu_final_pass(ota_passes *state) {
    (state->narrow ? ota_cpu_final_pass_f32 : ota_cpu_final_pass_f64)(state);
}

double ota_cpu_linear_range(ota_passes *state) {
    return (state->narrow ? ota_cpu_linear_range_f32 : ota_cpu_linear_range_f64)(state);
}

bool ota_cpu_linear_pass(ota_passes *state, double t) {
    return (state->narrow ? ota_cpu_linear_pass_f32 : ota_cpu_linear_pass_f64)(state, t);
}
