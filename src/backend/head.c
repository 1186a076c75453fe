/* What follows of one head from the problem alone, whatever the backend. */
#include <math.h>

#include "backend.h"

static double largest_capacity(const ota_resolved *r, int64_t batch, int64_t head) {
    double most = 0.0;
    if (r->problem.columns != OTA_COLUMNS_ONLINE) return 0.0;
    for (int64_t j = 0; j < r->keys; j++)
        most = fmax(most, ota_column_mass(r, batch, head, j, 1.0));
    return r->problem.cap * most;
}

ota_row_parameters ota_row_parameters_of(const ota_resolved *r, int64_t batch, int64_t head) {
    const ota_problem *p = &r->problem;
    return (ota_row_parameters){.regulariser = ota_regulariser_of(p),
                                .order = r->order,
                                .tau = ota_head_temperature(r, head),
                                .sink = ota_head_sink(r, head),
                                .row_strength =
                                    p->rows == OTA_ROWS_RELAXED ? p->row_strength : INFINITY,
                                .custom = p->regulariser == OTA_CUSTOM ? &p->custom : NULL,
                                .caps = ota_entry_caps_of(r, batch, head),
                                .capacity = largest_capacity(r, batch, head)};
}

ota_head ota_head_of(const ota_resolved *r, int64_t index) {
    const ota_problem *p = &r->problem;
    const ota_row_parameters row = ota_row_parameters_of(r, index / r->heads, index % r->heads);
    return (ota_head){.tau = row.tau,
                      .row.regulariser = row.regulariser,
                      .row.order = row.order,
                      .row.sink = row.sink,
                      .row.mass_tolerance = ota_mass_tolerance(r),
                      .row.strength = row.row_strength,
                      .row.caps = row.caps,
                      .scores.numbers_added = r->adds_pairs,
                      .column.rule = p->columns,
                      .all_rows = p->axis == OTA_AXIS_COLUMNS ? r->keys : r->share.rows,
                      .column.strength = p->strength,
                      .column.lambda = p->lambda,
                      .column.floor = ota_column_parameters_of(p).floor,
                      .column.scale = ota_column_target(p, 1.0),
                      .column.start = p->start,
                      .column.end = p->end,
                      .settings = &r->settings,
                      .index = index};
}

void ota_head_put_range(ota_head *head, double low, double high) {
    head->scores.range = high > low ? high - low : 0.0;
    head->scores.highest = high;
}

void ota_head_allot(const ota_head *head, const ota_resolved *r, double *nu, double *lambdas) {
    const ota_problem *p = &r->problem;
    const int64_t batch = head->index / r->heads, number = head->index % r->heads;
    const bool transposed = p->axis == OTA_AXIS_COLUMNS;
    const bool unit = ota_rule_is(ota_head_rule(head), OTA_RULE_UNIT_MASSES);
    const bool given = ota_array_present(transposed ? &p->row_mass : &p->column_mass);
    int64_t usable = 0;
    for (int64_t j = 0; j < head->columns; j++) usable += nu[j] > 0.0;
    for (int64_t j = 0; j < head->columns; j++) {
        double mass = unit ? 1.0 : nu[j] > 0.0 ? head->mass / (double)usable : 0.0;
        if (given)
            mass = transposed ? ota_row_mass(r, batch, number, j)
                              : ota_column_mass(r, batch, number, j, mass);
        nu[j] = ota_column_target(p, mass);
        lambdas[j] = ota_key_lambda(r, j);
    }
}

void *ota_take_workspace(const ota_layout *layout, ota_arena *arena, const ota_head_shape *shape) {
    const bool rounds = layout->rounds.plain && layout->resolved->settings.stop.fixed;
    size_t (*const of)(const ota_head_shape *) =
        rounds ? layout->rounds.workspace : layout->solver.workspace;
    const size_t bytes = layout->kind == OTA_LAYOUT_COUPLED && of != NULL ? of(shape) : 0;
    if (bytes < SIZE_MAX) return ota_arena_take(arena, bytes, 1);
    arena->overflowed = true;
    return NULL;
}
