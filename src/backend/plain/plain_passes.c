/* The passes that solvers make over the stored scores of a head [rows][columns]:
 *
 *     c_j = sum_i P_ij,   L_j = LSE_i((S_ij + f_i) / t) */
#include "plain.h"

#include <math.h>
#include <string.h>

/* One chunk: a head is one thread's. No kernel, so no linear domain. */
void ota_plain_lay_out_passes(ota_passes *passes, ota_arena *arena, bool kernel) {
    (void)kernel;
    passes->chunk_rows = passes->rows > 0 ? passes->rows : 1;
    passes->chunks = 1;
    passes->padded_columns = (passes->columns + OTA_PLAIN_LANE) / OTA_PLAIN_LANE * OTA_PLAIN_LANE;
    double **of_rows[] = {&passes->shift, &passes->sum, &passes->error, &passes->old_f};
    double **of_columns[] = {&passes->target,   &passes->column,     &passes->column_lse,
                             &passes->previous, &passes->chunk.sums, &passes->chunk.relaxed};
    for (size_t k = 0; k < sizeof of_rows / sizeof of_rows[0]; k++)
        *of_rows[k] = ota_arena_take_rows(arena, 1, passes->rows + 1, sizeof(double));
    for (size_t k = 0; k < sizeof of_columns / sizeof of_columns[0]; k++)
        *of_columns[k] = ota_arena_take(arena, (size_t)passes->padded_columns, sizeof(double));
    passes->potential = ota_arena_take(arena, (size_t)passes->padded_columns, sizeof(double));
    passes->chunk.scratch = ota_arena_take(arena, (size_t)passes->padded_columns, sizeof(double));
    passes->chunk.top = ota_arena_take(arena, (size_t)passes->padded_columns, sizeof(double));
}

double ota_plain_column_lse(const double *s, int64_t stride, int64_t rows, const double *f,
                            double t) {
    double top = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < rows; i++) top = fmax(top, s[i * stride] + f[i]);
    if (!(top > -INFINITY)) return top;
    for (int64_t i = 0; i < rows; i++) sum += exp((s[i * stride] + f[i] - top) / t);
    return log(sum) + top / t;
}

/* Solves every row at temperature t: f, c and row errors |sum_j P_ij - mu_i|; relaxed rows want mu e^(-f / rho). */
static void solve_rows(ota_passes *passes, double t, double omega, bool as_they_are) {
    ota_head *head = passes->head;
    const double rho = head->row.strength;
    ota_row_parameters row = {.regulariser = head->row.regulariser,
                              .order = head->row.order,
                              .tau = t,
                              .sink = head->row.sink,
                              .row_strength = rho,
                              .caps = head->row.caps};
    double *p = passes->chunk.scratch;
    memcpy(passes->potential, head->g, (size_t)passes->columns * sizeof *head->g);
    for (int64_t j = 0; j < passes->columns; j++) passes->column[j] = 0.0;
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t i = 0; i < passes->rows && !ota_watch_ends(&watch, 4 * passes->columns); i++) {
        ota_row_found found;
        double mass = 0.0, wanted = head->mu[i];
        const double *s = (const double *)passes->scores + i * passes->stride;
        row.line = i;
        if (as_they_are)
            ota_plain_row_weights(&row, s, head->g, passes->columns, head->f[i], p, &found);
        else
            ota_plain_row_solve(&row, s, head->g, passes->columns, wanted, p, &found);
        for (int64_t j = 0; j < passes->columns; j++) {
            mass += p[j];
            passes->column[j] += p[j];
        }
        if (rho < INFINITY && found.potential > -INFINITY) wanted *= exp(-found.potential / rho);
        passes->error[i] = fabs(mass + found.sink - wanted);
        if (as_they_are) continue;
        const bool moves = (omega > 1.0 || omega < 1.0) && found.potential > -INFINITY;
        head->f[i] =
            moves ? (1.0 - omega) * passes->old_f[i] + omega * found.potential : found.potential;
    }
}

void ota_plain_row_pass(ota_passes *passes, double t, double omega) {
    memcpy(passes->old_f, passes->head->f, (size_t)passes->rows * sizeof *passes->old_f);
    solve_rows(passes, t, omega, false);
    passes->temperature = t;
    ota_plain_column_pass(passes, t);
}

void ota_plain_column_pass(ota_passes *passes, double t) {
    ota_watch watch = ota_watch_within(passes->head->settings);
    for (int64_t j = 0; j < passes->columns && !ota_watch_ends(&watch, 4 * passes->rows); j++)
        passes->column_lse[j] = ota_plain_column_lse(
            (const double *)passes->scores + j, passes->stride, passes->rows, passes->head->f, t);
}

void ota_plain_final_pass(ota_passes *passes) {
    const ota_head *head = passes->head;
    solve_rows(passes, head->tau, 1.0, head->found.update == OTA_FINAL_POTENTIALS);
}
