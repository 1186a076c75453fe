/* What ota_identify works on: shapes, masses and scores of the problem beside the coupling's own sums.
 *
 *     r = P 1, c = P^T 1;   mu = 1 and nu = sum mu / usable keys where the problem names none */
#include "identify.h"

#include <stdlib.h>

static bool shape(const ota_problem *problem, identify_data *d, int64_t *heads_each) {
    const bool matrix = problem->scores.type != OTA_NO_TYPE;
    const ota_array *const queries = matrix ? &problem->scores : &problem->queries;
    d->batch = queries->size[0];
    *heads_each = queries->size[1];
    d->rows = queries->size[2];
    d->columns = matrix ? queries->size[3] : problem->keys.size[2];
    return !__builtin_mul_overflow(d->batch, *heads_each, &d->heads) &&
           !__builtin_mul_overflow(d->heads, d->rows, &d->cells) &&
           !__builtin_mul_overflow(d->cells, d->columns, &d->cells) && d->cells < INT64_MAX / 128;
}

static ota_status check_coupling(const identify_data *d, const analysis_call *call) {
    for (int64_t k = 0; k < d->cells && analysis_goes_on(call, k); k++) {
        if (d->coupling[k] >= 0.0 && !isinf(d->coupling[k])) continue;
        const int64_t line = k / d->columns;
        return ota_analysis_fail(call, OTA_EINVAL, "coupling", "weights are finite, 0 or more",
                                 "entry (%" PRId64 ", %" PRId64 ") of head %" PRId64
                                 " of the coupling is %g",
                                 line % d->rows, k % d->columns, line / d->rows, d->coupling[k]);
    }
    return OTA_OK;
}

/* Entry k of a vector over rows or columns for one sequence and head. */
static double mass_at(const ota_array *x, int64_t sequence, int64_t head, int64_t k) {
    const int64_t at = (x->size[0] > 1 ? sequence * x->stride[0] : 0) +
                       (x->size[1] > 1 ? head * x->stride[1] : 0) + k * x->stride[3];
    return x->type == OTA_F32 ? (double)((const float *)x->data)[at]
                              : ((const double *)x->data)[at];
}

void ota_identify_masses(const ota_problem *problem, unsigned own, identify_data *d) {
    const int64_t heads_each = d->heads / d->batch;
    const bool rows_given = problem->row_mass.type != OTA_NO_TYPE;
    const bool columns_given = problem->column_mass.type != OTA_NO_TYPE;
    for (int64_t head = 0; head < d->heads && ota_analysis_goes_on(d->call); head++) {
        double total = 0.0;
        int64_t usable = 0;
        double *const nu = d->column_mass + head * d->columns;
        for (int64_t j = 0; j < d->columns; j++) nu[j] = 0.0;
        for (int64_t i = 0; i < d->rows && ota_analysis_goes_on(d->call); i++) {
            const int64_t line = head * d->rows + i;
            bool any = false;
            for (int64_t j = 0; j < d->columns; j++) {
                if (isinf(d->scores[line * d->columns + j])) continue;
                any = true;
                nu[j] = 1.0;
            }
            double mu = any ? 1.0 : 0.0;
            if (any && rows_given)
                mu = mass_at(&problem->row_mass, head / heads_each, head % heads_each, i);
            if ((own & IDENTIFY_ROWS) != 0) mu = d->row_sum[line];
            d->row_mass[line] = mu;
            total += mu;
        }
        for (int64_t j = 0; j < d->columns; j++) usable += nu[j] > 0.0;
        for (int64_t j = 0; j < d->columns; j++) {
            nu[j] *= usable > 0 ? total / (double)usable : 0.0;
            if (columns_given)
                nu[j] = mass_at(&problem->column_mass, head / heads_each, head % heads_each, j);
            if ((own & IDENTIFY_COLUMNS) != 0) nu[j] = d->column_sum[head * d->columns + j];
        }
    }
}

static void add_up(identify_data *d) {
    for (int64_t k = 0; k < d->heads * d->columns; k++) d->column_sum[k] = 0.0;
    for (int64_t line = 0; line < d->heads * d->rows && ota_analysis_goes_on(d->call); line++) {
        double *const sums = d->column_sum + line / d->rows * d->columns;
        double row = 0.0;
        for (int64_t j = 0; j < d->columns; j++) {
            row += d->coupling[line * d->columns + j];
            sums[j] += d->coupling[line * d->columns + j];
        }
        d->row_sum[line] = row;
        d->mass += row;
    }
}

static int64_t root(int64_t *part, int64_t k) {
    while (part[k] != k) {
        part[k] = part[part[k]];
        k = part[k];
    }
    return k;
}

/* Rows are nodes 0 ... heads * rows - 1, columns the ones after: a pair that carries weight joins two. */
static void find_parts(identify_data *d) {
    int64_t *const part = d->row_part;
    const int64_t lines = d->heads * d->rows, nodes = lines + d->heads * d->columns;
    for (int64_t k = 0; k < nodes; k++) part[k] = k;
    for (int64_t k = 0; k < d->cells; k++) {
        if (!(d->coupling[k] > 0.0) || isinf(d->scores[k])) continue;
        const int64_t line = k / d->columns;
        const int64_t column = lines + line / d->rows * d->columns + k % d->columns;
        part[root(part, line)] = root(part, column);
    }
    for (int64_t k = 0; k < nodes; k++) part[k] = root(part, k);
}

static ota_status allocate(identify_data *d, const analysis_call *call) {
    const int64_t lines = d->heads * d->rows, keys = d->heads * d->columns;
    const size_t count = (size_t)(3 * d->cells + 7 * lines + 8 * keys);
    double *at = d->memory = malloc(count * sizeof *at);
    d->left_out = calloc((size_t)keys, 1);
    d->row_part = malloc((size_t)(lines + keys) * sizeof *d->row_part);
    if (at == NULL || d->left_out == NULL || d->row_part == NULL) {
        return ota_analysis_fail(call, OTA_ENOMEM, "coupling", "give fewer heads at a time",
                                 "no memory for %zu bytes", count * sizeof *at);
    }
    d->column_part = d->row_part + lines;
    struct {
        double **field;
        int64_t size;
    } const parts[] = {
        {&d->scores, d->cells},    {&d->transformed, d->cells}, {&d->weights, d->cells},
        {&d->row_sum, lines},      {&d->row_mass, lines},       {&d->row_effect, lines},
        {&d->score_row, lines},    {&d->column_sum, keys},      {&d->column_mass, keys},
        {&d->column_effect, keys}, {&d->score_column, keys},    {&d->work, 3 * lines + 4 * keys}};
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        *parts[k].field = at;
        at += parts[k].size;
    }
    return OTA_OK;
}

ota_status ota_identify_open(const ota_problem *problem, const ota_options *options,
                             const double *coupling, identify_data *d, const analysis_call *call) {
    int64_t heads_each;
    *d = (identify_data){.call = call, .coupling = coupling};
    if (!shape(problem, d, &heads_each)) {
        return ota_analysis_fail(call, OTA_EOVERFLOW, "coupling", "give fewer heads at a time",
                                 "the coupling has more entries than can be counted");
    }
    if (d->cells == 0) {
        return ota_analysis_fail(call, OTA_EINVAL, "coupling", "give at least one query and key",
                                 "the coupling is empty");
    }
    ota_status status = check_coupling(d, call);
    if (status == OTA_OK) status = allocate(d, call);
    if (status == OTA_OK) {
        status = ota_identify_scores(problem, options, d->batch, heads_each, d->rows, d->columns,
                                     d->scores, call);
    }
    if (status < 0) return status;
    add_up(d);
    ota_identify_masses(problem, 0, d);
    find_parts(d);
    if (d->mass > 0.0) return OTA_OK;
    return ota_analysis_fail(call, OTA_EINVAL, "coupling", "give a plan that carries mass",
                             "every weight of the coupling is 0");
}

void ota_identify_close(identify_data *d) {
    free(d->memory);
    free(d->left_out);
    free(d->row_part);
}
