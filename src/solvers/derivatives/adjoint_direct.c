/* The system of adjoint.h by elimination, for plans so near a permutation that conjugate gradients lose them.
 *
 * H is the Laplacian of a graph of keys with the couplings  c_jk = sum_i w_ij w_ik / den_i  and the ground, which holds
 * what the sink, soft rows and columns, and held keys take. Where a plan falls into parts that exchange almost nothing,
 * eigenvalues of H reach from 1 to rounding. Elimination keeps every coupling a sum of products of positive numbers
 * [grassmann1985], nothing cancels, and each key's multiplier is as accurate as the couplings,
 * whatever their sizes. A key that keeps less than `severed` of its weight is the last of its part. Its offset is 0: what
 * that drops of the right side is at most `severed` of its weight times twice the largest |U|, and so is the gradient's
 * error. */
#include "adjoint.h"

#include <string.h>

static const double severed = 1.0e-15;
/* What rounding leaves of den_i - sum_j w_ij. */
static const double rounded_away = 1.0e-13;

/* Row i's part of couplings c [columns][columns], below the diagonal, and of the ground. */
static void couple_row(const ota_adjoint *s, int64_t i, double *c, double *ground) {
    const ota_adjoint_slopes row = ota_adjoint_slopes_of(s, i);
    const double den = s->den[i];
    double free = 0.0, apart;
    for (int64_t k = 0; k < row.count; k++) free += ota_adjoint_slope_at(&row, k);
    apart = den - free > rounded_away * den ? den - free : 0.0;
    if (s->rest != NULL) apart = s->rest[i];
    for (int64_t k = 0; k < row.count; k++) {
        if (s->held[ota_adjoint_column_at(&row, k)]) apart += ota_adjoint_slope_at(&row, k);
    }
    for (int64_t k = 0; k < row.count; k++) {
        const int64_t j = ota_adjoint_column_at(&row, k);
        const double share = s->held[j] ? 0.0 : ota_adjoint_slope_at(&row, k) / den;
        if (!(share > 0.0)) continue;
        ground[j] += share * apart;
        for (int64_t l = 0; l < k; l++) {
            const int64_t other = ota_adjoint_column_at(&row, l);
            if (!s->held[other]) c[j * s->columns + other] += share * ota_adjoint_slope_at(&row, l);
        }
    }
}

/* Key j out of the keys before it: they inherit its couplings, ground and right side in shares. */
static void eliminate(int64_t j, int64_t count, double total, double *c, double *ground,
                      double *right) {
    const double *own = c + j * count;
    for (int64_t k = 0; k < j; k++) {
        const double share = own[k] / total;
        if (!(share > 0.0)) continue;
        right[k] += share * right[j];
        ground[k] += share * ground[j];
        for (int64_t l = 0; l < k; l++) c[k * count + l] += share * own[l];
    }
}

double ota_adjoint_eliminate(const ota_adjoint *s, const double *weight, double *c, double *ground,
                             double *total, double *right) {
    const int64_t count = s->columns;
    double dropped = 0.0;
    memset(c, 0, (size_t)(count * count) * sizeof *c);
    for (int64_t j = 0; j < count; j++) {
        ground[j] = s->held[j] ? 0.0 : s->extra[j];
        right[j] = s->held[j] ? 0.0 : s->right[j];
    }
    ota_watch watch = ota_watch_of(s->settings);
    const int64_t pairs = count * count / 2;
    for (int64_t i = 0; i < s->rows && !ota_watch_ends(&watch, pairs); i++) {
        if (s->den[i] > 0.0) couple_row(s, i, c, ground);
    }
    for (int64_t j = count - 1; j >= 0 && !ota_watch_ends(&watch, pairs); j--) {
        total[j] = ground[j];
        for (int64_t k = 0; k < j; k++) total[j] += c[j * count + k];
        if (!(total[j] > severed * weight[j])) total[j] = 0.0;
        if (total[j] > 0.0)
            eliminate(j, count, total[j], c, ground, right);
        else
            dropped += fabs(right[j]);
    }
    for (int64_t j = 0; j < count; j++) {
        double sum = right[j];
        for (int64_t k = 0; k < j; k++) sum += c[j * count + k] * s->b[k];
        s->b[j] = total[j] > 0.0 ? sum / total[j] : 0.0;
    }
    return dropped;
}
