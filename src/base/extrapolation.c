/* Anderson extrapolation of a fixed-point map (formulas in extrapolation.h). */
#include "extrapolation.h"

#include <math.h>
#include <string.h>

enum { DEPTH = OTA_ANDERSON_DEPTH };

/* Relative ridge of the normal equations: differences become parallel near the solution. */
static const double ridge = 1.0e-12;
/* Largest move in units of the plain one. Of a map that moves everything by one constant the differences are rounding alone,
 * and what is divided by them has no digit. */
static const double most_growth = 0x1p26;

void ota_extrapolation_place(ota_extrapolation *h, double *memory, int64_t lane) {
    *h = (ota_extrapolation){.count = 0};
    double *at = memory;
    for (int k = 0; k < DEPTH; k++) {
        h->dx[k] = at;
        h->dr[k] = at + lane;
        at += 2 * lane;
    }
    h->x = at;
    h->r = at + lane;
    h->plain = at + 2 * lane;
}

void ota_extrapolation_reset(ota_extrapolation *h) {
    h->count = h->next = 0;
    h->started = false;
}

/* Four sums side by side: one alone would wait for every addition. */
static double dot(const double *a, const double *b, int64_t count) {
    double sum[4] = {0.0};
    const int64_t whole = count / 4 * 4;
    for (int64_t j = 0; j < whole; j += 4) {
        for (int k = 0; k < 4; k++) sum[k] += a[j + k] * b[j + k];
    }
    for (int64_t j = whole; j < count; j++) sum[0] += a[j] * b[j];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* gamma of the least-squares problem; false when the system is not positive definite. */
static bool combine(const ota_extrapolation *h, int64_t count, double *gamma) {
    double a[DEPTH][DEPTH];
    double trace = 0.0;
    for (int i = 0; i < h->count; i++) {
        for (int k = 0; k <= i; k++) a[i][k] = dot(h->dr[i], h->dr[k], count);
        trace += a[i][i];
        gamma[i] = dot(h->dr[i], h->r, count);
    }
    for (int i = 0; i < h->count; i++) {
        a[i][i] += ridge * trace;
        for (int k = 0; k <= i; k++) {
            double sum = a[i][k];
            for (int q = 0; q < k; q++) sum -= a[i][q] * a[k][q];
            if (k < i) {
                a[i][k] = sum / a[k][k];
            } else if (sum > 0.0) {
                a[i][i] = sqrt(sum);
            } else {
                return false;
            }
        }
    }
    for (int i = 0; i < h->count; i++) {
        for (int k = 0; k < i; k++) gamma[i] -= a[i][k] * gamma[k];
        gamma[i] /= a[i][i];
    }
    for (int i = h->count - 1; i >= 0; i--) {
        for (int k = i + 1; k < h->count; k++) gamma[i] -= a[k][i] * gamma[k];
        gamma[i] /= a[i][i];
    }
    return true;
}

bool ota_extrapolate(ota_extrapolation *h, const double *x, double *g, int64_t count,
                     double ceiling) {
    const bool paired = h->started;
    double *dx = h->dx[h->next], *dr = h->dr[h->next];
    double plain = 0.0; /* the largest move of the plain step */
    for (int64_t j = 0; j < count; j++) {
        const double r = g[j] > -INFINITY ? g[j] - x[j] : 0.0;
        if (paired) {
            dx[j] = g[j] > -INFINITY ? x[j] - h->x[j] : 0.0;
            dr[j] = r - h->r[j];
        }
        h->x[j] = x[j];
        h->r[j] = r;
        h->plain[j] = g[j];
        plain = fabs(r) > plain ? fabs(r) : plain; /* fmax would be a call */
    }
    h->started = true;
    if (!paired) return false;
    h->next = (h->next + 1) % DEPTH;
    if (h->count < DEPTH) h->count++;
    double gamma[DEPTH];
    if (!combine(h, count, gamma)) return false;
    for (int64_t j = 0; j < count; j++) {
        if (!(g[j] > -INFINITY)) continue;
        double move = 0.0;
        for (int k = 0; k < h->count; k++) move += gamma[k] * (h->dx[k][j] + h->dr[k][j]);
        if (!(fabs(move) <= most_growth * plain)) {
            memcpy(g, h->plain, (size_t)count * sizeof *g);
            return false;
        }
        const double next = g[j] - move;
        g[j] = next > ceiling ? ceiling : next;
    }
    return true;
}
