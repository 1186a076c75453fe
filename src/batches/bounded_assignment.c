/* bounded.c: ota_assign_bounded: checks, the first prices from fewer rows, and what is told of the answer. */
#include "bounded_assignment.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/batch_kernels.h"
#include "problem/check.h"

enum {
    FEWER = 4,           /* rows of the next smaller problem: one in so many */
    UNITS_PER_COLUMN = 6 /* that the smallest problem has at least */
};
/* Share of the units that given prices may misplace. */
#define MOST_MOVED 0.05
/* Squares of differences of larger numbers could leave f64. */
#define LARGEST_COORDINATE 1e140
/* Work below which threads cost more than they save. */
#define PARALLEL_WORK 1e6

typedef struct bounded {
    ota_bounded problem;
    int64_t rows, columns, width;
    ota_settings settings;
    ota_bounded_costs costs;
    ota_bounded_paths paths;
    ota_arena arena;
    ota_pool *pool;
} bounded;

/* ---- checks --------------------------------------------------------------------------------------- */

static ota_status check_matrix_of(const ota_array *array, const char *field, ota_error *error) {
    TRY(ota_check_array(array, field, error));
    if (!ota_is_wide(array->type)) return ota_wrong_type(field, array->type, "f64 or f32", error);
    if (array->size[0] != 1 || array->size[1] != 1) {
        return ota_fail(error, OTA_EINVAL, field, "give one matrix",
                        "%s has shape [%" PRId64 ", %" PRId64 ", ...], wanted [1, 1, ...]", field,
                        array->size[0], array->size[1]);
    }
    return OTA_OK;
}

static ota_status check_sizes(bounded *b, ota_error *error) {
    const ota_bounded *p = &b->problem;
    const bool matrix = ota_array_present(&p->costs);
    const bool clouds = ota_array_present(&p->points) || ota_array_present(&p->centres);
    if (matrix == clouds) {
        return ota_fail(error, OTA_EINVAL, "costs", "give costs, or points and centres",
                        "%s are given", matrix ? "both costs and points" : "no costs");
    }
    if (matrix) {
        TRY(check_matrix_of(&p->costs, "costs", error));
        b->rows = p->costs.size[2];
        b->columns = p->costs.size[3];
    } else {
        TRY(check_matrix_of(&p->points, "points", error));
        TRY(check_matrix_of(&p->centres, "centres", error));
        b->rows = p->points.size[2];
        b->columns = p->centres.size[2];
        b->width = p->points.size[3];
        if (p->centres.size[3] != b->width || b->width == 0) {
            return ota_fail(error, OTA_EINVAL, "centres",
                            "give both the same number of coordinates",
                            "centres have %" PRId64 " coordinates and points %" PRId64,
                            p->centres.size[3], b->width);
        }
    }
    if (b->columns < 1 || b->columns > OTA_BOUNDED_COLUMNS) {
        return ota_fail(error, OTA_EINVAL, matrix ? "costs" : "centres", "give 1 to 4096 columns",
                        "there are %" PRId64 " columns", b->columns);
    }
    if (b->rows > INT32_MAX) {
        return ota_fail(error, OTA_EINVAL, matrix ? "costs" : "points",
                        "give at most 2^31 - 1 rows", "there are %" PRId64 " rows", b->rows);
    }
    if (p->take < 1 || p->take > b->columns) {
        return ota_fail(error, OTA_EINVAL, "take", "take 1 to as many as there are columns",
                        "take is %" PRId64 " of %" PRId64 " columns", p->take, b->columns);
    }
    return OTA_OK;
}

static int64_t lower_of(const bounded *b, int64_t j) {
    return b->problem.lower == NULL ? 0 : b->problem.lower[j];
}

static int64_t upper_of(const bounded *b, int64_t j) {
    return b->problem.upper == NULL ? b->rows : ota_int_min(b->problem.upper[j], b->rows);
}

static ota_status check_bounds(const bounded *b, ota_error *error) {
    int64_t least = 0, most = 0;
    for (int64_t j = 0; j < b->columns; j++) {
        const int64_t lower = lower_of(b, j);
        if (lower < 0 || lower > b->rows) {
            return ota_fail(error, lower < 0 ? OTA_EINVAL : OTA_INFEASIBLE, "lower",
                            "bounds lie between 0 and the number of rows",
                            "lower[%" PRId64 "] is %" PRId64 " of %" PRId64 " rows", j, lower,
                            b->rows);
        }
        if (b->problem.upper != NULL && b->problem.upper[j] < lower) {
            return ota_fail(error, OTA_EINVAL, "upper", "raise it or lower the other",
                            "upper[%" PRId64 "] is %" PRId64 ", below lower[%" PRId64
                            "] = %" PRId64,
                            j, b->problem.upper[j], j, lower);
        }
        least += lower;
        most += upper_of(b, j);
        const double start = b->problem.start == NULL ? 0.0 : b->problem.start[j];
        if (!(fabs(start) <= OTA_BOUNDED_MOST_COST)) {
            return ota_fail(error, OTA_EINVAL, "start", "give finite prices",
                            "start[%" PRId64 "] is %g", j, start);
        }
    }
    const int64_t units = b->rows * b->problem.take;
    if (least > units) {
        return ota_fail(error, OTA_INFEASIBLE, "lower", "lower the bounds",
                        "the rows take %" PRId64 " units and the columns need at least %" PRId64,
                        units, least);
    }
    if (most < units) {
        return ota_fail(error, OTA_INFEASIBLE, "upper", "raise the bounds",
                        "the rows take %" PRId64 " units and the columns have room for %" PRId64,
                        units, most);
    }
    return OTA_OK;
}

/* Whether all numbers of a row are at most `most` in absolute value. */
static bool all_within(const ota_array *array, int64_t row, double most) {
    const int64_t count = array->size[3], step = array->stride[3];
    int64_t beyond = 0;
    if (array->type == OTA_F64) {
        const double *x = (const double *)array->data + row * array->stride[2];
        for (int64_t j = 0; j < count; j++) beyond |= !(fabs(x[j * step]) <= most);
    } else {
        const float *x = (const float *)array->data + row * array->stride[2];
        for (int64_t j = 0; j < count; j++) beyond |= !(fabs((double)x[j * step]) <= most);
    }
    return beyond == 0;
}

/* Coordinates or costs that differences and sums can carry, and enough allowed pairs in each row. */
static ota_status check_numbers(const bounded *b, const ota_array *array, const char *field,
                                ota_error *error) {
    const bool costs = b->width == 0;
    const double most = costs ? OTA_BOUNDED_MOST_COST : LARGEST_COORDINATE;
    ota_watch watch = ota_watch_of(&b->settings);
    for (int64_t i = 0; i < array->size[2]; i++) {
        const ota_status status = ota_watch_spend(&watch, array->size[3]);
        if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
        if (all_within(array, i, most)) continue;
        int64_t allowed = 0;
        for (int64_t j = 0; j < array->size[3]; j++) {
            const double value = ota_array_get(array, 0, 0, i, j);
            if (costs && value > 0.0 && isinf(value)) continue;
            allowed++;
            if (fabs(value) <= most) continue;
            return ota_fail(error, isfinite(value) ? OTA_EINVAL : OTA_NONFINITE, field,
                            costs ? "give finite costs below 1e290, or +inf to forbid the pair"
                                  : "give finite coordinates below 1e140",
                            "%s[%" PRId64 ",%" PRId64 "] is %g", field, i, j, value);
        }
        if (costs && allowed < b->problem.take) {
            return ota_fail(error, OTA_INFEASIBLE, field, "allow more pairs",
                            "row %" PRId64 " may use %" PRId64 " columns and takes %" PRId64, i,
                            allowed, b->problem.take);
        }
    }
    return OTA_OK;
}

static ota_status check(bounded *b, const ota_bounded *problem, const ota_options *options,
                        ota_error *error) {
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give one", "problem is NULL");
    TRY(ota_check_sized(&b->problem, sizeof b->problem, problem, problem->size, "size", error));
    ota_resolved resolved = {.type = OTA_F64, .rule_rounds = -1};
    TRY(ota_resolve_options(&resolved, options, error));
    b->settings = resolved.settings;
    TRY(check_sizes(b, error));
    TRY(check_bounds(b, error));
    if (b->width == 0) return check_numbers(b, &b->problem.costs, "costs", error);
    TRY(check_numbers(b, &b->problem.points, "points", error));
    return check_numbers(b, &b->problem.centres, "centres", error);
}

/* ---- memory --------------------------------------------------------------------------------------- */

static void layout(bounded *b) {
    ota_bounded_costs_layout(&b->costs, &b->arena);
    ota_bounded_paths_layout(&b->paths, &b->arena, b->rows);
}

static ota_status place(bounded *b, ota_error *error) {
    ota_batch_kernels kernels;
    if (!ota_batch_kernels_of(b->settings.limits.cpu, &kernels)) {
        return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                        "cpu is '%s', which this processor cannot run", b->settings.limits.cpu);
    }
    const double work = (double)b->rows * (double)b->columns * (double)(b->width + 1);
    if (work >= PARALLEL_WORK) {
        const ota_status status =
            ota_pool_create(&b->pool, b->settings.limits.threads, b->settings.calls.executor);
        if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
    }
    b->costs.costs = b->problem.costs;
    b->costs.points = b->problem.points;
    b->costs.rows = b->rows;
    b->costs.columns = b->columns;
    b->costs.width = b->width;
    b->costs.stride = ota_int_round_up(b->columns + 1, OTA_BOUNDED_LANES);
    b->costs.passes = kernels.bounded;
    b->costs.pool = b->pool;
    b->costs.blocks = ota_pool_threads(b->pool);
    b->paths.rows.costs = &b->costs;
    b->paths.columns = b->columns;
    b->paths.take = b->problem.take;
    b->paths.stride = b->costs.stride;
    b->paths.words = ota_int_ceil_div(b->paths.stride, 64);
    b->paths.passes = b->costs.passes;
    b->paths.settings = &b->settings;
    layout(b);
    const size_t bytes = b->arena.used;
    const size_t limit = b->settings.limits.workspace;
    const size_t entry = sizeof(double) + 3 * sizeof(int32_t);
    b->paths.heaps.limit = INT32_MAX;
    if (limit > 0) {
        if (ota_arena_overflowed(&b->arena) || bytes + entry > limit) {
            return ota_fail(error, OTA_ELIMIT, "workspace_limit", "raise the limit",
                            "%zu bytes are needed before any heap and workspace_limit is %zu",
                            bytes, limit);
        }
        b->paths.heaps.limit = ota_int_min(INT32_MAX, (int64_t)((limit - bytes) / entry));
    }
    const ota_status status = ota_arena_allocate(&b->arena);
    if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
    layout(b);
    memset(b->paths.price, 0, (size_t)b->paths.stride * sizeof(double));
    ota_bounded_costs_begin(&b->costs, &b->problem.centres);
    return OTA_OK;
}

/* ---- solving -------------------------------------------------------------------------------------- */

/* The columns that the last search reached, or did not, as text; eight at most. */
static void name_columns(const ota_bounded_paths *paths, bool reached, char *text, size_t size) {
    size_t used = 0;
    int named = 0;
    for (int64_t j = 0; j < paths->columns; j++) {
        if ((paths->search.closed[j] > 0.0) != reached) continue;
        const int wrote = named == 8 ? ota_snprintf(text + used, size - used, ", ...")
                                     : ota_snprintf(text + used, size - used, "%s%" PRId64,
                                                    named == 0 ? "" : ", ", j);
        used += wrote > 0 ? (size_t)wrote : 0;
        if (named++ == 8) return;
    }
}

/* The columns that must take more than they may, or cannot get what they need. */
static ota_status tell_infeasible(const ota_bounded_paths *paths, ota_error *error) {
    const bool crowded = !(paths->search.closed[paths->columns] > 0.0);
    int64_t load = 0, bound = 0;
    for (int64_t j = 0; j < paths->columns; j++) {
        if ((paths->search.closed[j] > 0.0) != crowded) continue;
        load += paths->load[j];
        bound += crowded ? paths->upper[j] : paths->lower[j];
    }
    char names[256] = "";
    name_columns(paths, crowded, names, sizeof names);
    return ota_fail(error, OTA_INFEASIBLE, crowded ? "upper" : "lower",
                    "allow more pairs or change the bounds",
                    crowded ? "the allowed pairs leave columns %s at least %" PRId64
                              " units, and together they may take %" PRId64
                            : "the allowed pairs give columns %s at most %" PRId64
                              " units, and together they need %" PRId64,
                    names, load, bound);
}

static ota_status tell_failure(const bounded *b, ota_status status, ota_error *error) {
    if (status == OTA_INFEASIBLE) return tell_infeasible(&b->paths, error);
    if (status == OTA_ELIMIT) {
        return ota_fail(error, status, "workspace_limit", "raise the limit",
                        "the heaps need more than %" PRId64 " entries, all there is room for",
                        b->paths.heaps.limit);
    }
    return ota_fail(error, status, "", "", "%s", ota_status_text(status));
}

/* One row in `part`, from the prices as they are; OTA_PARTIAL where more than `most` of their units must move. */
static ota_status solve_rows(bounded *b, int64_t part, double most) {
    ota_bounded_paths *paths = &b->paths;
    const int64_t count = ota_int_max(1, b->rows / part);
    paths->rows.count = count;
    for (int64_t j = 0; j < b->columns; j++) {
        const int64_t lower = lower_of(b, j), upper = upper_of(b, j);
        paths->lower[j] = lower * count / b->rows;
        paths->upper[j] = ota_int_ceil_div(upper * count, b->rows);
    }
    return ota_bounded_paths_solve(paths, most * (double)count * (double)b->problem.take);
}

/* All rows, after fewer and fewer of them. Prices that are given and leave little to do save those. */
static ota_status solve(bounded *b, ota_error *error) {
    double *price = b->paths.price;
    const size_t bytes = (size_t)b->columns * sizeof *price;
    const double units = (double)b->rows * (double)b->problem.take;
    int64_t part = 1;
    bool binding = false;
    for (int64_t j = 0; j < b->columns; j++)
        binding |= lower_of(b, j) > 0 || upper_of(b, j) < b->rows;
    while (binding &&
           units / (double)(part * FEWER) >= (double)UNITS_PER_COLUMN * (double)b->columns)
        part *= FEWER;
    ota_status status = OTA_OK;
    if (b->problem.start != NULL) {
        memcpy(price, b->problem.start, bytes);
        if (part > 1) status = solve_rows(b, 1, MOST_MOVED);
        if (part > 1 && status == OTA_OK) return OTA_OK;
        if (status != OTA_OK && status != OTA_PARTIAL) return tell_failure(b, status, error);
    }
    for (; part > 0; part /= FEWER) {
        status = solve_rows(b, part, INFINITY);
        if (part == 1 || (status != OTA_OK && status != OTA_INFEASIBLE)) break;
        /* Fewer rows may be infeasible where all are not. */
        if (status == OTA_INFEASIBLE) memset(price, 0, bytes);
    }
    return status == OTA_OK ? status : tell_failure(b, status, error);
}

/* ---- the answer ----------------------------------------------------------------------------------- */

/* A sum whose rounding errors are carried along (Neumaier). */
typedef struct total {
    double sum, lost;
} total;

static void add(total *t, double x) {
    const double sum = t->sum + x;
    t->lost += fabs(t->sum) >= fabs(x) ? (t->sum - sum) + x : (x - sum) + t->sum;
    t->sum = sum;
}

/* What the prices prove, from the costs of all pairs; of the answer, the cost. */
static ota_status measure(bounded *b, double *cost, double *dual) {
    ota_bounded_paths *paths = &b->paths;
    const int64_t m = b->columns, words = paths->words;
    total primal = {0}, bound = {0};
    for (int64_t first = 0; first < b->rows;) {
        TRY(ota_interrupted(&b->settings));
        const int64_t count = ota_bounded_rows_form(&paths->rows, first);
        for (int64_t s = 0; s < count; s++) {
            const double *costs = b->costs.block + s * paths->stride;
            const uint64_t *held = paths->held + (first + s) * words;
            ota_bounded_least(paths, costs, paths->row.bits);
            for (int64_t j = -1; (j = ota_bounded_next(held, words, j + 1)) >= 0;)
                add(&primal, costs[j]);
            for (int64_t j = -1; (j = ota_bounded_next(paths->row.bits, words, j + 1)) >= 0;) {
                add(&bound, costs[j]);
                add(&bound, paths->price[j]);
            }
        }
        first += count;
    }
    for (int64_t j = 0; j < m; j++) {
        const double p = paths->price[j];
        add(&bound, -p * (double)(p > 0.0 ? paths->upper[j] : paths->lower[j]));
    }
    *cost = primal.sum + primal.lost;
    *dual = bound.sum + bound.lost;
    return OTA_OK;
}

/* The cost alone, from the pairs that are held. */
static double cost_alone(const bounded *b) {
    const ota_bounded_paths *paths = &b->paths;
    total cost = {0};
    ota_watch watch = ota_watch_of(&b->settings);
    const int64_t work = b->problem.take * (1 + b->width) + paths->words;
    for (int64_t i = 0; i < b->rows && !ota_watch_ends(&watch, work); i++) {
        const uint64_t *held = paths->held + i * paths->words;
        for (int64_t j = -1; (j = ota_bounded_next(held, paths->words, j + 1)) >= 0;)
            add(&cost, ota_bounded_costs_pair(&b->costs, i, j));
    }
    return cost.sum + cost.lost;
}

static void give(const bounded *b, ota_bounded_result *result) {
    const ota_bounded_paths *paths = &b->paths;
    const int64_t m = b->columns;
    for (int64_t i = 0; i < b->rows && result->chosen != NULL; i++) {
        int64_t *chosen = result->chosen + i * b->problem.take;
        const uint64_t *held = paths->held + i * paths->words;
        for (int64_t j = -1; (j = ota_bounded_next(held, paths->words, j + 1)) >= 0;) *chosen++ = j;
    }
    for (int64_t j = 0; j < m; j++) {
        if (result->prices != NULL) result->prices[j] = paths->price[j];
        if (result->loads != NULL) result->loads[j] = paths->load[j];
    }
    result->paths = paths->counts.paths;
    result->fillings = paths->counts.fillings;
}

static ota_status run(bounded *b, ota_bounded_result *result, ota_error *error) {
    TRY(place(b, error));
    if (b->rows > 0)
        TRY(solve(b, error));
    else
        memset(b->paths.load, 0, (size_t)b->columns * sizeof(int64_t));
    double cost = 0.0, dual = NAN;
    ota_status status = OTA_OK;
    if (b->problem.unproved)
        cost = cost_alone(b);
    else
        status = measure(b, &cost, &dual);
    if (status == OTA_OK) status = ota_interrupted(&b->settings);
    if (status != OTA_OK) return ota_fail(error, status, "", "", "%s", ota_status_text(status));
    result->cost = cost;
    result->dual = dual;
    give(b, result);
    return OTA_OK;
}

ota_status ota_assign_bounded(const ota_bounded *problem, const ota_options *options,
                              ota_bounded_result *result, ota_error *error) {
    bounded b = {0};
    TRY(check(&b, problem, options, error));
    ota_bounded_result full;
    if (result == NULL) return ota_fail(error, OTA_EINVAL, "result", "give one", "result is NULL");
    TRY(ota_check_sized(&full, sizeof full, result, result->size, "result.size", error));
    const ota_status status = run(&b, &full, error);
    if (status == OTA_OK) memcpy(result, &full, ota_size_min(full.size, sizeof full));
    ota_bounded_heaps_free(&b.paths.heaps);
    ota_arena_release(&b.arena);
    ota_pool_free(b.pool);
    return status;
}
