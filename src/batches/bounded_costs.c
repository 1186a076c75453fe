/* bounded_costs.c: rows of costs, read from a matrix or formed from points and centres. */
#include "bounded_assignment.h"

#include <math.h>
#include <string.h>

void ota_bounded_costs_layout(ota_bounded_costs *costs, ota_arena *arena) {
    costs->centres = ota_arena_take_rows(arena, costs->width, costs->stride, sizeof(double));
    costs->point =
        ota_arena_take_rows(arena, costs->blocks * OTA_BOUNDED_BLOCK, costs->width, sizeof(double));
    costs->block = ota_arena_take_rows(arena, costs->blocks * OTA_BOUNDED_BLOCK, costs->stride,
                                       sizeof(double));
}

void ota_bounded_costs_begin(ota_bounded_costs *costs, const ota_array *centres) {
    const size_t numbers = (size_t)(costs->width * costs->stride);
    if (numbers > 0) memset(costs->centres, 0, numbers * sizeof(double));
    for (int64_t j = 0; j < costs->columns; j++) {
        double *panel = costs->centres + j / OTA_BOUNDED_PANEL * OTA_BOUNDED_PANEL * costs->width;
        for (int64_t t = 0; t < costs->width; t++) {
            panel[t * OTA_BOUNDED_PANEL + j % OTA_BOUNDED_PANEL] =
                ota_array_get(centres, 0, 0, j, t);
        }
    }
}

/* Row `row` of an array in f64. */
static void read_row(const ota_array *array, int64_t row, double *restrict out) {
    const int64_t count = array->size[3];
    const int64_t step = array->stride[3];
    if (array->type == OTA_F64) {
        const double *from = (const double *)array->data + row * array->stride[2];
        for (int64_t j = 0; j < count; j++) out[j] = from[j * step];
    } else {
        const float *from = (const float *)array->data + row * array->stride[2];
        for (int64_t j = 0; j < count; j++) out[j] = (double)from[j * step];
    }
}

/* The costs of rows of the matrix, or of points that were read. */
static void form(const ota_bounded_costs *costs, const double *points, int64_t rows, double *out) {
    const int64_t stride = costs->stride;
    if (costs->width > 0)
        costs->passes->distances(points, rows, costs->centres, costs->width, stride, out);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = costs->columns; j < stride; j++) out[i * stride + j] = INFINITY;
    }
}

void ota_bounded_costs_row(const ota_bounded_costs *costs, int64_t row, double *out) {
    if (costs->width > 0)
        read_row(&costs->points, row, costs->point);
    else
        read_row(&costs->costs, row, out);
    form(costs, costs->point, 1, out);
}

double ota_bounded_costs_pair(const ota_bounded_costs *costs, int64_t row, int64_t column) {
    if (costs->width == 0) return ota_array_get(&costs->costs, 0, 0, row, column);
    const int64_t panel = column / OTA_BOUNDED_PANEL * OTA_BOUNDED_PANEL;
    const double *centre = costs->centres + panel * costs->width + column % OTA_BOUNDED_PANEL;
    double sum = 0.0;
    read_row(&costs->points, row, costs->point);
    for (int64_t t = 0; t < costs->width; t++) {
        const double apart = costs->point[t] - centre[t * OTA_BOUNDED_PANEL];
        sum += apart * apart;
    }
    return sum;
}

int64_t ota_bounded_rows_at(const ota_bounded_rows *rows, int64_t place) {
    const int64_t all = rows->costs->rows;
    if (rows->count == all) return place;
    /* Products of two numbers of rows fit: rows are fewer than 2^31. One of each of `count` equal pieces, drawn so that no period of the rows is met. */
    const int64_t begin = place * all / rows->count;
    const int64_t end = (place + 1) * all / rows->count;
    uint64_t z = (uint64_t)place * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return begin + (int64_t)((z >> 33) % (uint64_t)(end - begin));
}

typedef struct form_job {
    const ota_bounded_rows *rows;
    int64_t first, last;
} form_job;

static void form_block(void *context, int64_t index, int worker) {
    (void)worker;
    const form_job *job = context;
    const ota_bounded_costs *costs = job->rows->costs;
    const int64_t begin = job->first + index * OTA_BOUNDED_BLOCK;
    const int64_t end = ota_int_min(begin + OTA_BOUNDED_BLOCK, job->last);
    double *points = costs->point + index * OTA_BOUNDED_BLOCK * costs->width;
    double *out = costs->block + (begin - job->first) * costs->stride;
    for (int64_t s = begin; s < end; s++) {
        const int64_t row = ota_bounded_rows_at(job->rows, s);
        if (costs->width > 0)
            read_row(&costs->points, row, points + (s - begin) * costs->width);
        else
            read_row(&costs->costs, row, out + (s - begin) * costs->stride);
    }
    form(costs, points, end - begin, out);
}

int64_t ota_bounded_rows_form(const ota_bounded_rows *rows, int64_t first) {
    const int64_t room = rows->costs->blocks * OTA_BOUNDED_BLOCK;
    const int64_t count = ota_int_min(room, rows->count - first);
    form_job job = {rows, first, first + count};
    ota_parallel(rows->costs->pool, ota_int_ceil_div(count, OTA_BOUNDED_BLOCK), form_block, &job);
    return count;
}
