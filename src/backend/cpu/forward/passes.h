/* passes.h: passes over the stored scores of a head, on the CPU; ota_passes says what they find. passes.c chooses the type
 * of row_passes.c and linear_passes.c. */
#ifndef OTA_CPU_PASSES_H
#define OTA_CPU_PASSES_H

#include <math.h>

#include "backend/cpu/rows/rows.h"

/* The chunk's part of `partial`, all 0. */
static inline double *cleared_chunk(const ota_passes *state, double *partial, int64_t chunk) {
    double *part = partial + chunk * state->padded_columns;
    for (int64_t j = 0; j < state->padded_columns; j++) part[j] = 0.0;
    return part;
}

/* The rows of a chunk in pieces that are worth a question whether to go on; an interrupted chunk is left undone. */
static inline void each_piece(ota_passes *state, int64_t chunk, void *job,
                              void (*body)(void *job, int64_t chunk, int64_t first, int64_t last)) {
    ota_watch watch = ota_watch_within(state->head->settings);
    int64_t first, end, last;
    ota_chunk_rows(state, chunk, &first, &last);
    for (end = first; ota_watch_rows(&watch, state->columns, last, &first, &end);)
        body(job, chunk, first, end);
}

/* The rule of rows at temperature t. */
static inline ota_row_parameters parameters_of(const ota_head *head, double t) {
    return (ota_row_parameters){.kernels = head->host.kernels,
                                .regulariser = head->row.regulariser,
                                .order = head->row.order,
                                .tau = t,
                                .sink = head->row.sink,
                                .row_strength = head->row.strength,
                                .caps = head->row.caps};
}

void ota_cpu_lay_out_passes(ota_passes *state, ota_arena *arena, bool kernel);
void ota_cpu_row_pass(ota_passes *state, double t, double omega);
void ota_cpu_row_pass_f32(ota_passes *state, double t, double omega);
void ota_cpu_row_pass_f64(ota_passes *state, double t, double omega);
void ota_cpu_column_pass(ota_passes *state, double t);
void ota_cpu_column_pass_f32(ota_passes *state, double t);
void ota_cpu_column_pass_f64(ota_passes *state, double t);
void ota_cpu_final_pass(ota_passes *state);
void ota_cpu_final_pass_f32(ota_passes *state);
void ota_cpu_final_pass_f64(ota_passes *state);
double ota_cpu_linear_range(ota_passes *state);
double ota_cpu_linear_range_f32(ota_passes *state);
double ota_cpu_linear_range_f64(ota_passes *state);
/* False when the scalings leave what the kernel can carry even after absorption. */
bool ota_cpu_linear_pass(ota_passes *state, double t);
bool ota_cpu_linear_pass_f32(ota_passes *state, double t);
bool ota_cpu_linear_pass_f64(ota_passes *state, double t);

#endif
