/* The vectors of fixed rounds on a stored kernel and of their reverse [DER-15]. With bare scalings (no lift)
 *
 *     K_ij = exp((S_ij - m_i) / t)     u_i = mu_i / (sum_j K_ij v_j + sink_i)     c_j = sum_i u_i K_ij
 *     P_ij = U_i K_ij V_j,  U and V those of the last row update
 *
 * the weights of row update k are u_i K_ij v_j / mu_i and those of column update k are u_i K_ij / c_j, so every round
 * is P scaled by a row and a column: what it takes from dL/dS is two more inner dimensions of the product dL/dP
 *
 *     t dL/dS_ij = P_ij (dL/dP_ij - sum_k A_ik B_jk)
 *     last rows   A = t f'_i / mu_i                    B = 1
 *     columns k   A = u_i / U_i                        B = t y_j / V_j       y_j = pull_j / c_j
 *     rows k      A = t f'_i / mu_i u_i / U_i          B = v_j / V_j
 *
 * and the reverse of a round needs K twice, in one pass: f'_i = -u_i (K y)_i, g'_j <- by_g g'_j - v_j (K^T x)_j with
 * x_i = f'_i u_i / mu_i. Updates and their derivatives are those of unrolled.c.
 *
 * The sink is a key whose v stays 1: dL/dsink_i = -sum_k f'_i sink_i u_i / mu_i over all row updates. P does not change when
 * S, sink, the start and the strength rho of relaxed columns are scaled with t, so
 *
 *     t dL/dt = -sum_ij S_ij dL/dS_ij - sink dL/dsink - rho dL/drho - sum_j g_j dL/dg_j */
#include "adjoint.h"

#include <math.h>
#include <string.h>

/* Ratios and scalings up to here leave every weight that counts among the normal numbers of f32, with the lift. */
static const double reach[2] = {0x1p200, 0x1p30};

static bool within(const ota_kernel_rounds *r, double ratio) {
    return ratio <= reach[r->narrow] && ratio * reach[r->narrow] >= 1.0;
}

void ota_kernel_rounds_place(ota_kernel_rounds *r, double *memory) {
    const int64_t rows = (r->head->rows + 7) / 8 * 8, columns = (r->head->columns + 7) / 8 * 8;
    r->row_lane = rows;
    r->column_lane = columns;
    r->u = memory;
    r->f_grad = r->u + (r->rounds + 1) * rows;
    r->v = r->f_grad + (r->rounds + 1) * rows;
    r->c = r->v + (r->rounds + 1) * columns;
    r->y = r->c + r->rounds * columns;
}

bool ota_kernel_rounds_begin(ota_kernel_rounds *r) {
    const ota_head *head = r->head;
    bool fine = true;
    for (int64_t j = 0; j < head->columns; j++) {
        r->v[j] = exp(head->g[j] / head->tau);
        fine = fine && within(r, r->v[j]);
    }
    return fine;
}

bool ota_kernel_rounds_rows(const ota_kernel_rounds *r, int64_t round) {
    const ota_head *head = r->head;
    const double *u = r->u + round * r->row_lane;
    for (int64_t i = 0; i < head->rows; i++) {
        if (head->mu[i] > 0.0 && !within(r, u[i] / head->mu[i])) return false;
    }
    return true;
}

bool ota_kernel_rounds_columns(const ota_kernel_rounds *r, int64_t round) {
    const ota_head *head = r->head;
    const double *v = r->v + round * r->column_lane, *c = r->c + round * r->column_lane;
    double *next = r->v + (round + 1) * r->column_lane;
    bool fine = true;
    for (int64_t j = 0; j < head->columns; j++) {
        next[j] = v[j];
        if (r->used != NULL && r->used[j] != OTA_KEY_REACHED) continue;
        const double g = head->tau * log(v[j]);
        next[j] = exp(ota_unrolled_key(head, head->tau, j, g, log(c[j])).next / head->tau);
        fine = fine && c[j] > 0.0 && within(r, next[j]);
    }
    return fine;
}

double ota_kernel_rounds_pull(ota_kernel_rounds *r, int64_t round) {
    const ota_head *head = r->head;
    const double *v = r->v + round * r->column_lane, *c = r->c + round * r->column_lane;
    double *y = r->y + round * r->column_lane, top = 0.0;
    for (int64_t j = 0; j < head->columns; j++) {
        y[j] = 0.0;
        if (r->used != NULL && r->used[j] != OTA_KEY_REACHED) continue;
        const double g_grad = r->g_grad[j], g = head->tau * log(v[j]);
        const ota_key_update update = ota_unrolled_key(head, head->tau, j, g, log(c[j]));
        const double pull = update.by_level * g_grad;
        y[j] = pull / c[j];
        top = fmax(top, fabs(y[j]));
        if (update.by_level > 0.0) r->sums.column[j] += head->tau * pull / head->nu[j];
        for (int p = 0; p < OTA_RULE_PARAMETERS; p++)
            r->sums.parameters[p] += update.by_parameter[p] * g_grad;
        r->g_grad[j] = update.by_g * g_grad;
    }
    return top;
}

void ota_kernel_rounds_take(ota_kernel_rounds *r, int64_t round, const double *transposed,
                            double scale) {
    const ota_head *head = r->head;
    const double *v = r->v + round * r->column_lane, *f_grad = r->f_grad + round * r->row_lane;
    for (int64_t j = 0; j < head->columns; j++) r->g_grad[j] -= v[j] * transposed[j] * scale;
    for (int64_t i = 0; i < head->rows; i++) {
        if (head->mu[i] > 0.0) r->sums.row[i] += f_grad[i] * head->tau / head->mu[i];
    }
}

bool ota_kernel_rounds_carried(const ota_kernel_rounds *r) {
    const ota_head *head = r->head;
    const double *last = r->v + r->rounds * r->column_lane;
    bool fine = true;
    for (int64_t k = 0; k < r->rounds; k++) {
        const double *v = r->v + k * r->column_lane, *f_grad = r->f_grad + k * r->row_lane;
        for (int64_t j = 0; j < head->columns; j++) fine = fine && within(r, v[j] / last[j]);
        for (int64_t i = 0; i < head->rows; i++) fine = fine && isfinite(f_grad[i]);
    }
    for (int64_t j = 0; j < head->columns; j++) fine = fine && isfinite(r->g_grad[j]);
    return fine;
}

int64_t ota_kernel_rounds_width(int64_t rounds) { return 2 * rounds + 1; }

void ota_kernel_rounds_row(const ota_kernel_rounds *r, int64_t row, double *a) {
    const ota_head *head = r->head;
    const double mu = head->mu[row], *u = r->u + row, *f_grad = r->f_grad + row;
    const double last = u[r->rounds * r->row_lane];
    const bool idle = !(mu > 0.0);
    *a++ = idle ? 0.0 : head->tau * f_grad[r->rounds * r->row_lane] / mu;
    for (int64_t k = 0; k < r->rounds; k++) {
        const double ratio = idle ? 0.0 : u[k * r->row_lane] / last;
        *a++ = ratio;
        *a++ = idle ? 0.0 : head->tau * f_grad[k * r->row_lane] / mu * ratio;
    }
}

void ota_kernel_rounds_key(const ota_kernel_rounds *r, int64_t key, double *b) {
    const double last = r->v[r->rounds * r->column_lane + key];
    *b++ = 1.0;
    for (int64_t k = 0; k < r->rounds; k++) {
        *b++ = r->head->tau * r->y[k * r->column_lane + key] / last;
        *b++ = r->v[k * r->column_lane + key] / last;
    }
}

double ota_kernel_rounds_sink(const ota_kernel_rounds *r, int64_t row, double weight) {
    const double mu = r->head->mu[row];
    double sum = 0.0;
    for (int64_t k = 0; k <= r->rounds && mu > 0.0; k++)
        sum -= r->f_grad[k * r->row_lane + row] * (weight * r->u[k * r->row_lane + row] / mu);
    return sum;
}

double ota_kernel_rounds_temperature(const ota_kernel_rounds *r) {
    const ota_head *head = r->head;
    double derivative = ota_rule_is(ota_head_rule(head), OTA_RULE_PENALISED)
                            ? head->column.strength * r->sums.parameters[0]
                            : 0.0;
    for (int64_t j = 0; j < head->columns; j++)
        derivative += head->tau * log(r->v[j]) * r->g_grad[j];
    return -derivative / head->tau;
}
