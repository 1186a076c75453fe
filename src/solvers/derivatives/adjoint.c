/* Conjugate gradients on the semi-dual system of adjoint.h, and elimination (adjoint_direct.c) where they stop short:
 *
 *     (H b)_j = sum_i w_ij (b_j - (w b)_i / den_i) + extra_j b_j = right_j,    a_i = (row_right_i - (w b)_i) / den_i
 *
 * H is symmetric and positive semidefinite (constants on each connected part of a balanced plan are its
 * kernel; `right` is orthogonal to it), preconditioned by its diagonal. Rows are summed chunk by chunk in
 * a fixed order. The residual is recomputed from b at the end; it is relative to the absolute terms of
 * the right side, which a constant U cancels to rounding, plus OTA_OFFSET_SHARE of sum_ij w_ij |b_j|: nearly a
 * permutation, the rows fix b only up to offsets that their means cancel. */
#include "adjoint.h"

#include <string.h>

enum { RESTARTS = 6, STEEP_ROWS = 4 };
/* Far below what is promised, so that the multipliers and not only the residual are accurate; slopes in f32 are
 * themselves good to 6e-8. */
static const double goal_wide = 1.0e-15, goal_narrow = 1.0e-10;
/* Curvature below this share of the diagonal's is the kernel's, made of rounding. */
static const double flat = 1.0e-14;
/* Weight of a column beside the heaviest that shows in no residual. */
static const double light = 0x1p-26;

typedef struct product_job {
    const ota_adjoint *system;
    const double *x;
    double *mean; /* [rows] */
} product_job;

static double steepest_of(const ota_adjoint *s, int64_t i, const double *x) {
    return s->steepest[i] < 0 ? 0.0 : x[s->steepest[i]];
}

/* The same of `rows` rows, each of which measures x from its steepest slope; side by side their sums need not wait for each other. */
static inline void product_of_rows(const ota_adjoint *s, bool narrow, int64_t first, int64_t rows,
                                   const double *x, double *mean, double *y) {
    const float *halves = (const float *)s->slopes + (narrow ? first * s->stride : 0);
    const double *wide = (const double *)s->slopes + (narrow ? 0 : first * s->stride);
    const int64_t count = s->columns, stride = s->stride;
    double from[STEEP_ROWS], sum[STEEP_ROWS];
    for (int64_t k = 0; k < rows; k++) {
        from[k] = steepest_of(s, first + k, x);
        sum[k] = -s->rest[first + k] * from[k];
    }
    for (int64_t j = 0; j < count; j++) {
        for (int64_t k = 0; k < rows; k++)
            sum[k] +=
                (narrow ? (double)halves[k * stride + j] : wide[k * stride + j]) * (x[j] - from[k]);
    }
    for (int64_t k = 0; k < rows; k++)
        mean[k] = s->den[first + k] > 0.0 ? sum[k] / s->den[first + k] : 0.0;
    for (int64_t k = 0; k < rows; k++) {
        const double middle = from[k], own = mean[k];
        for (int64_t j = 0; j < count; j++)
            y[j] += (narrow ? (double)halves[k * stride + j] : wide[k * stride + j]) *
                    (x[j] - middle - own);
    }
}

static void steep_product(const ota_adjoint *s, int64_t first, int64_t rows, const double *x,
                          double *mean, double *y) {
    if (rows == STEEP_ROWS && !s->narrow)
        product_of_rows(s, false, first, STEEP_ROWS, x, mean, y);
    else
        product_of_rows(s, s->narrow, first, rows, x, mean, y);
}

/* The same of a row that is a list. */
static double steep_list(const ota_adjoint *s, int64_t i, const ota_slope_list *list,
                         const double *x, double *y) {
    const double from = steepest_of(s, i, x);
    double sum = -s->rest[i] * from;
    for (int64_t k = 0; k < list->count; k++)
        sum += ota_adjoint_number(list->slopes, s->narrow, k) * (x[list->keys[k]] - from);
    const double mean = s->den[i] > 0.0 ? sum / s->den[i] : 0.0;
    for (int64_t k = 0; k < list->count; k++) {
        const int64_t j = list->keys[k];
        y[j] += ota_adjoint_number(list->slopes, s->narrow, k) * (x[j] - from - mean);
    }
    return mean;
}

/* Rows from `first` on that have slopes of all columns, or one that is a list. */
static int64_t rows_alike(const ota_adjoint *s, int64_t first, int64_t last) {
    int64_t end = first + 1;
    if (s->listed == NULL) return last;
    while (s->listed[first] < 0 && end < last && s->listed[end] < 0) end++;
    return end;
}

/* Of a list, in four sums, none of which waits for the one before; `narrow` is a constant where this is expanded. */
static inline double listed_row(const ota_slope_list *list, bool narrow, const double *x,
                                double den, double *y) {
    const void *w = list->slopes;
    const int32_t *keys = list->keys;
    double sum[4] = {0.0};
    int64_t k = 0;
    for (; k + 4 <= list->count; k += 4) {
        for (int64_t l = 0; l < 4; l++)
            sum[l] += ota_adjoint_number(w, narrow, k + l) * x[keys[k + l]];
    }
    for (; k < list->count; k++) sum[0] += ota_adjoint_number(w, narrow, k) * x[keys[k]];
    const double mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / den;
    for (k = 0; k < list->count; k++)
        y[keys[k]] += ota_adjoint_number(w, narrow, k) * (x[keys[k]] - mean);
    return mean;
}

static void product_rows(const product_job *job, int64_t first, int64_t last, double *partial) {
    const ota_adjoint *s = job->system;
    ota_slope_list list;
    if (ota_adjoint_list(s, first, &list)) {
        const double den = s->den[first];
        job->mean[first] = 0.0;
        if (!(den > 0.0)) return;
        job->mean[first] = s->narrow ? listed_row(&list, true, job->x, den, partial)
                                     : listed_row(&list, false, job->x, den, partial);
    } else if (s->narrow) {
        s->algebra->centred_product_f32((const float *)s->slopes + first * s->stride, s->stride,
                                        last - first, s->columns, job->x, s->den + first,
                                        job->mean + first, partial);
    } else {
        s->algebra->centred_product_f64((const double *)s->slopes + first * s->stride, s->stride,
                                        last - first, s->columns, job->x, s->den + first,
                                        job->mean + first, partial);
    }
}

static void steep_rows(const product_job *job, int64_t first, int64_t last, double *partial) {
    const ota_adjoint *s = job->system;
    ota_slope_list list;
    if (ota_adjoint_list(s, first, &list)) {
        job->mean[first] = steep_list(s, first, &list, job->x, partial);
        return;
    }
    for (int64_t i = first; i < last; i += STEEP_ROWS)
        steep_product(s, i, ota_int_min(last - i, STEEP_ROWS), job->x, job->mean + i, partial);
}

static void product_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const product_job *job = context;
    const ota_adjoint *s = job->system;
    double *partial = s->partial + chunk * s->stride;
    int64_t first, last;
    ota_adjoint_rows(s->rows, chunk, &first, &last);
    memset(partial, 0, (size_t)s->columns * sizeof *partial);
    ota_watch watch = ota_watch_within(s->settings);
    for (int64_t end = first; ota_watch_rows(&watch, s->columns, last, &first, &end);) {
        for (int64_t i = first, next; i < end; i = next) {
            next = rows_alike(s, i, end);
            if (s->steepest != NULL)
                steep_rows(job, i, next, partial);
            else
                product_rows(job, i, next, partial);
        }
    }
}

static double sum_of_chunks(const double *partial, int64_t stride, int64_t j) {
    double sum = 0.0;
    for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++) sum += partial[c * stride + j];
    return sum;
}

/* y = H x on the keys that are not held, 0 on the others; a is left with (w x)_i / den_i. */
static void product(const ota_adjoint *s, const double *x, double *y) {
    product_job job = {s, x, s->a};
    if (s->apply != NULL) {
        s->apply(s, x, y);
    } else {
        ota_parallel(s->pool, OTA_ADJOINT_CHUNKS, product_chunk, &job);
        for (int64_t j = 0; j < s->columns; j++) y[j] = sum_of_chunks(s->partial, s->stride, j);
    }
    (void)ota_ranks_sum(s->settings, y, s->columns, NULL, 0, "a product of backward");
    for (int64_t j = 0; j < s->columns; j++) y[j] = s->held[j] ? 0.0 : y[j] + s->extra[j] * x[j];
}

/* Of a steep row w - w^2 / den, which also stands for w itself: what its steepest slope has beyond that moves nothing. */
static void steep_diagonal(const ota_adjoint *s, int64_t i, double *weight, double *diagonal) {
    const ota_adjoint_slopes row = ota_adjoint_slopes_of(s, i);
    double others = s->rest[i];
    if (!(s->den[i] > 0.0)) return;
    for (int64_t k = 0; k < row.count; k++)
        if (ota_adjoint_column_at(&row, k) != s->steepest[i])
            others += ota_adjoint_slope_at(&row, k);
    for (int64_t k = 0; k < row.count; k++) {
        const int64_t j = ota_adjoint_column_at(&row, k);
        const double w = ota_adjoint_slope_at(&row, k),
                     left = j == s->steepest[i] ? others : s->den[i] - w;
        diagonal[j] += w / s->den[i] * fmax(left, 0.0);
        weight[j] += w / s->den[i] * fmax(left, 0.0);
    }
}

static void diagonal_rows(const ota_adjoint *s, int64_t first, int64_t last, double *weight,
                          double *diagonal) {
    ota_slope_list list;
    if (ota_adjoint_list(s, first, &list)) {
        for (int64_t k = 0; s->den[first] > 0.0 && k < list.count; k++) {
            const double w = ota_adjoint_number(list.slopes, s->narrow, k);
            weight[list.keys[k]] += w;
            diagonal[list.keys[k]] += w * (1.0 - w / s->den[first]);
        }
    } else if (s->narrow) {
        s->algebra->slope_diagonal_f32((const float *)s->slopes + first * s->stride, s->stride,
                                       last - first, s->columns, s->den + first, weight, diagonal);
    } else {
        s->algebra->slope_diagonal_f64((const double *)s->slopes + first * s->stride, s->stride,
                                       last - first, s->columns, s->den + first, weight, diagonal);
    }
}

static void diagonal_chunk(void *context, int64_t chunk, int worker) {
    (void)worker;
    const ota_adjoint *s = context;
    double *diagonal = s->partial + chunk * s->stride, *weight = s->more + chunk * s->stride;
    int64_t first, last;
    ota_adjoint_rows(s->rows, chunk, &first, &last);
    memset(diagonal, 0, (size_t)s->columns * sizeof *diagonal);
    memset(weight, 0, (size_t)s->columns * sizeof *weight);
    ota_watch watch = ota_watch_within(s->settings);
    for (int64_t end = first; ota_watch_rows(&watch, s->columns, last, &first, &end);) {
        for (int64_t i = first; i < end && s->steepest != NULL; i++)
            steep_diagonal(s, i, weight, diagonal);
        if (s->steepest != NULL) continue;
        for (int64_t i = first, next; i < end; i = next) {
            next = rows_alike(s, i, end);
            diagonal_rows(s, i, next, weight, diagonal);
        }
    }
}

/* Without what the rule adds: sum_i w_ij, and the diagonal that preconditions. */
static void find_diagonal(ota_adjoint *s, double *weight, double *diagonal) {
    const int64_t count = s->columns;
    if (s->apply != NULL) {
        memcpy(weight, s->sums, (size_t)count * sizeof *weight);
        memcpy(diagonal, s->sums, (size_t)count * sizeof *diagonal);
        return;
    }
    ota_parallel(s->pool, OTA_ADJOINT_CHUNKS, diagonal_chunk, s);
    for (int64_t j = 0; j < count; j++) {
        weight[j] = sum_of_chunks(s->more, s->stride, j);
        diagonal[j] = sum_of_chunks(s->partial, s->stride, j);
    }
    (void)ota_ranks_sum(s->settings, weight, count, NULL, 0, "the diagonal of backward");
    (void)ota_ranks_sum(s->settings, diagonal, count, NULL, 0, "the diagonal of backward");
}

static double absolute_sum(const double *x, int64_t count) {
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++) sum += fabs(x[j]);
    return sum;
}

static double inner(const double *x, const double *y, int64_t count) {
    double sum = 0.0;
    for (int64_t j = 0; j < count; j++) sum += x[j] * y[j];
    return sum;
}

/* NaN stays NaN. */
static double share_of(double left, double scale) {
    if (left > 0.0) return left / scale;
    return left < 0.0 ? 0.0 : left;
}

/* residue = right - H b, exactly as it is now; returns its relative size beyond `dropped`, *alone to the right side
 * only. */
static double measure(ota_adjoint *s, const double *weight, double dropped, double *residue,
                      double *scratch, double *alone) {
    double scale = s->scale;
    product(s, s->b, scratch);
    for (int64_t j = 0; j < s->columns; j++) {
        residue[j] = s->held[j] ? 0.0 : s->right[j] - scratch[j];
        scale += OTA_OFFSET_SHARE * weight[j] * fabs(s->b[j]);
    }
    const double left = absolute_sum(residue, s->columns) - dropped;
    *alone = share_of(left, s->scale);
    return share_of(left, scale);
}

/* Columns of next to no mass have no part in the residual, but a multiplier: the derivative by that mass. Nobody else's depends on
 * it. */
static void settle_light(ota_adjoint *s, const double *weight, double *residue, double *scratch) {
    double heaviest = 0.0, alone;
    bool any = false;
    for (int64_t j = 0; j < s->columns; j++) heaviest = fmax(heaviest, weight[j]);
    for (int64_t j = 0; j < s->columns; j++) {
        if (!(weight[j] > 0.0) || !(weight[j] < light * heaviest)) continue;
        s->b[j] += residue[j] / (weight[j] + s->extra[j]);
        any = true;
    }
    if (any) (void)measure(s, weight, 0.0, residue, scratch, &alone);
}

ota_status ota_adjoint_solve(ota_adjoint *s) {
    const int64_t count = s->columns;
    double *diagonal = s->vectors, *residue = diagonal + s->stride, *search = residue + s->stride;
    double *image = search + s->stride, *best = image + s->stride, *weight = best + s->stride;
    double alone;
    const double goal = s->narrow ? goal_narrow : goal_wide;
    memset(s->b, 0, (size_t)count * sizeof *s->b);
    s->amplification = 0.0;
    find_diagonal(s, weight, diagonal);
    for (int64_t j = 0; j < count; j++) {
        weight[j] = s->held[j] ? 0.0 : weight[j];
        diagonal[j] = s->held[j] ? 0.0 : diagonal[j] + s->extra[j];
    }
    s->residual = measure(s, weight, 0.0, residue, image, &alone);
    for (int restart = 0; restart < RESTARTS && s->residual > goal; restart++) {
        const double before = s->residual;
        double now = 0.0, smallest = before * s->scale;
        memcpy(best, s->b, (size_t)count * sizeof *best);
        for (int64_t j = 0; j < count; j++) {
            search[j] = diagonal[j] > 0.0 ? residue[j] / diagonal[j] : 0.0;
            now += residue[j] * search[j];
        }
        for (int64_t step = 0; step < 2 * count + 20 && now > 0.0; step++) {
            const ota_status going = ota_interrupted_together(s->settings);
            if (going != OTA_OK) return going;
            product(s, search, image);
            const double curvature = inner(search, image, count);
            double full = 0.0, whole = 0.0;
            for (int64_t j = 0; j < count; j++) {
                const double square = search[j] * search[j];
                full += diagonal[j] * square;
                whole += weight[j] * square;
            }
            if (!(curvature > flat * full)) break;
            const double length = now / curvature;
            if (whole > s->amplification * curvature) s->amplification = whole / curvature;
            if (s->most_amplified > 0.0 && s->amplification > s->most_amplified)
                return OTA_NOT_CONVERGED;
            double next = 0.0;
            for (int64_t j = 0; j < count; j++) {
                s->b[j] += length * search[j];
                residue[j] -= length * image[j];
                if (diagonal[j] > 0.0) next += residue[j] * residue[j] / diagonal[j];
            }
            const double left = absolute_sum(residue, count);
            if (left < smallest) {
                smallest = left;
                memcpy(best, s->b, (size_t)count * sizeof *best);
            }
            if (left <= 0.5 * goal * s->scale) break;
            for (int64_t j = 0; j < count; j++) {
                search[j] =
                    (diagonal[j] > 0.0 ? residue[j] / diagonal[j] : 0.0) + next / now * search[j];
            }
            now = next;
        }
        memcpy(s->b, best, (size_t)count * sizeof *best);
        s->residual = measure(s, weight, 0.0, residue, image, &alone);
        /* Rounding is all that is left. */
        if (!(s->residual < 0.5 * before)) break;
    }
    /* Offsets of parts that exchange almost nothing may have outgrown what they are offsets of. */
    if (s->couplings != NULL && s->most_amplified <= 0.0 && !(alone <= s->enough)) {
        const double before = alone;
        memcpy(diagonal, s->b, (size_t)count * sizeof *diagonal);
        const double dropped =
            ota_adjoint_eliminate(s, weight, s->couplings, search, best, residue);
        s->residual = measure(s, weight, dropped, residue, image, &alone);
        if (!(alone < before)) {
            memcpy(s->b, diagonal, (size_t)count * sizeof *s->b);
            s->residual = measure(s, weight, 0.0, residue, image, &alone);
        }
    }
    settle_light(s, weight, residue, image);
    if (ota_interrupted_together(s->settings) == OTA_ECOMM) return OTA_ECOMM;
    /* The last product was that of b. */
    for (int64_t i = 0; i < s->rows; i++)
        s->a[i] = s->den[i] > 0.0 ? s->row_right[i] / s->den[i] - s->a[i] : 0.0;
    return s->residual <= s->enough ? OTA_OK : OTA_NOT_CONVERGED;
}
