/* Costs of the search for a matching as they lie (backend/matching.h): rows of f64 or f32 that may end within a vector. */
#ifndef OTA_VECTOR_COSTS_H
#define OTA_VECTOR_COSTS_H

#include "backend/matching.h"

/* Vectors at a time none of which waits for another. */
enum { TOGETHER = 4 };

/* A row of numbers; the form is a constant where this is inlined. */
typedef struct match_row {
    ota_match_form form;
    const void *numbers;
    vec factor, limit;
} match_row;

static ALWAYS_INLINE match_row match_row_of(ota_match_form form, const ota_match_costs *costs,
                                            int64_t i) {
    const int64_t bytes =
        costs->stride * (int64_t)(form == OTA_MATCH_F32 ? sizeof(float) : sizeof(double));
    return (match_row){form, (const char *)costs->numbers + i * bytes, vec_set(costs->factor),
                       vec_set(costs->limit)};
}

static ALWAYS_INLINE vec match_numbers(const match_row *row, int64_t j) {
    if (row->form == OTA_MATCH_F32) return vec_from_f32((const float *)row->numbers + j);
    return vec_load((const double *)row->numbers + j);
}

/* 0 where there is none */
static ALWAYS_INLINE vec match_last_numbers(const match_row *row, int64_t j, int64_t count) {
    if (row->form == OTA_MATCH_F32)
        return vec_from_f32_part((const float *)row->numbers + j, count);
    return vec_load_part((const double *)row->numbers + j, count);
}

static ALWAYS_INLINE vec match_costs_of(const match_row *row, vec numbers) {
    return row->form == OTA_MATCH_PLAIN ? numbers
                                        : vec_min(vec_mul(numbers, row->factor), row->limit);
}

static ALWAYS_INLINE vec match_costs(const match_row *row, int64_t j) {
    return match_costs_of(row, match_numbers(row, j));
}

/* +inf where there is none */
static ALWAYS_INLINE vec match_last_costs(const match_row *row, int64_t j, int64_t count) {
    const vec costs = match_costs_of(row, match_last_numbers(row, j, count));
    return vec_select(mask_range(0, count), costs, vec_set(INFINITY));
}

static ALWAYS_INLINE double match_cost(ota_match_form form, const ota_match_costs *costs, int64_t i,
                                       int64_t j) {
    ota_match_costs own = *costs;
    own.form = form;
    return ota_match_cost(&own, i, j);
}

/* Numbers that are costs of +inf, as those of pairs that are forbidden, become 0. */
static ALWAYS_INLINE vec match_allowed(const match_row *row, vec numbers) {
    const vec costs = row->form == OTA_MATCH_PLAIN ? numbers : vec_mul(numbers, row->factor);
    return vec_select(mask_equal(costs, vec_set(INFINITY)), vec_set(0.0), numbers);
}

/* 2^900 times this is infinite. */
static const double LARGE = 0x1p124;

/* Are sums finite of what is too large by far? Then no number was infinite, NaN or 2^900, but seldom the other way round. */
static ALWAYS_INLINE bool match_is_finite(vec sum) {
    return mask_count(mask_nan(vec_sub(sum, sum))) == 0;
}

static ALWAYS_INLINE bool match_are_finite(const vec sum[TOGETHER]) {
    return match_is_finite(vec_add(vec_add(sum[0], sum[1]), vec_add(sum[2], sum[3])));
}

/* `count` costs from column j on, LANES or, with +inf behind them, fewer; adds to *sum of what match_is_finite asks, NULL: does not. */
static ALWAYS_INLINE vec match_costs_summed(const match_row *row, int64_t j, int64_t count,
                                            vec *sum) {
    vec numbers = count < LANES ? match_last_numbers(row, j, count) : match_numbers(row, j);
    /* The compiler would load them twice. */
    if (sum != NULL) numbers = vec_hold(numbers);
    const vec costs = match_costs_of(row, numbers);
    if (sum != NULL) *sum = vec_fma(numbers, vec_set(LARGE), *sum);
    return count < LANES ? vec_select(mask_range(0, count), costs, vec_set(INFINITY)) : costs;
}

static ALWAYS_INLINE bool match_is_plain(const match_row *row, int64_t count) {
    const vec large = vec_set(LARGE), zero = vec_set(0.0);
    vec sum[TOGETHER] = {zero, zero, zero, zero};
    int64_t j = 0;
    for (; j + TOGETHER * LANES <= count; j += TOGETHER * LANES) {
        for (int k = 0; k < TOGETHER; k++)
            sum[k] = vec_fma(match_allowed(row, match_numbers(row, j + k * LANES)), large, sum[k]);
    }
    for (; j + LANES <= count; j += LANES)
        sum[0] = vec_fma(match_allowed(row, match_numbers(row, j)), large, sum[0]);
    if (j < count)
        sum[1] = vec_fma(match_allowed(row, match_last_numbers(row, j, count - j)), large, sum[1]);
    return match_are_finite(sum);
}

static ALWAYS_INLINE bool match_are_plain(ota_match_form form, const ota_match_costs *costs,
                                          int64_t first, int64_t end) {
    if (costs->stride == costs->width) {
        const match_row all = match_row_of(form, costs, first);
        return match_is_plain(&all, (end - first) * costs->width);
    }
    for (int64_t i = first; i < end; i++) {
        const match_row row = match_row_of(form, costs, i);
        if (!match_is_plain(&row, costs->width)) return false;
    }
    return true;
}

/* Row i into to [padded]; what is summed shows whether its numbers are plain. */
static ALWAYS_INLINE void match_take_row(const match_row *row, int64_t width, double *to,
                                         int64_t padded, vec sum[TOGETHER]) {
    const vec large = vec_set(LARGE);
    int64_t j = 0;
    for (; j + TOGETHER * LANES <= width; j += TOGETHER * LANES) {
        for (int k = 0; k < TOGETHER; k++) {
            const vec numbers = match_numbers(row, j + k * LANES);
            sum[k] = vec_fma(match_allowed(row, numbers), large, sum[k]);
            vec_store(to + j + k * LANES, match_costs_of(row, numbers));
        }
    }
    for (; j < width; j += LANES) {
        const int64_t rest = width - j;
        const vec numbers = rest < LANES ? match_last_numbers(row, j, rest) : match_numbers(row, j);
        const vec own = match_costs_of(row, numbers);
        sum[0] = vec_fma(match_allowed(row, numbers), large, sum[0]);
        vec_store(to + j,
                  rest < LANES ? vec_select(mask_range(0, rest), own, vec_set(INFINITY)) : own);
    }
    for (; j < padded; j += LANES) vec_store(to + j, vec_set(INFINITY));
}

static ALWAYS_INLINE bool match_take_as(ota_match_form form, const ota_match_costs *costs,
                                        int64_t rows, double *to, int64_t padded) {
    const vec zero = vec_set(0.0);
    vec sum[TOGETHER] = {zero, zero, zero, zero};
    for (int64_t i = 0; i < rows; i++) {
        const match_row row = match_row_of(form, costs, i);
        match_take_row(&row, costs->width, to + i * padded, padded, sum);
    }
    return match_are_finite(sum);
}

static bool match_take(const ota_match_costs *costs, int64_t rows, double *to, int64_t padded) {
    return costs->form == OTA_MATCH_F32 ? match_take_as(OTA_MATCH_F32, costs, rows, to, padded)
                                        : match_take_as(OTA_MATCH_F64, costs, rows, to, padded);
}

#endif
