/* Heads: what a caller wants of finished rows, heads whose rows nothing couples, and coupled heads on stored scores.
 *
 *     load   S [rows][stride], mu [rows], nu [columns]        rows and columns: those of the solver
 *     emit   P_i from S_i, f and g as the solver leaves them, then every output of the row */
#include "backend/blocks/blocks.h"
#include "plain.h"

#include <math.h>
#include <string.h>

/* ---- outputs of one row --------------------------------------------------------------------------- */

/* Before the first row of a head. */
static void begin_rows(plain_place *place, ota_run *run, int64_t index) {
    const ota_resolved *r = run->resolved;
    place->run = run;
    place->batch = index / r->heads;
    place->number = index % r->heads;
    place->status = &run->heads[index];
    memset(place->receiver, 0, (size_t)r->keys * sizeof *place->receiver);
}

/* Entropy of P_i / mu_i, number of positive weights, largest weight. */
static void put_statistics(const plain_place *place, int64_t i, double mu, const double *p,
                           const ota_row_found *found) {
    const ota_arrays *a = place->run->arrays;
    if (!ota_array_present(&a->row_entropy) && !ota_array_present(&a->row_support) &&
        !ota_array_present(&a->row_max))
        return;
    ota_row_statistics sums = {0};
    ota_add_statistics(p, place->run->resolved->keys, &sums);
    sums.mass = found->mass;
    const double entropy = ota_row_entropy(&sums, found->sink, mu);
    const bool wrong = found->nonfinite;
    ota_put(&a->row_entropy, place->batch, place->number, i, wrong ? NAN : entropy);
    ota_put(&a->row_support, place->batch, place->number, i, wrong ? NAN : sums.support);
    ota_put(&a->row_max, place->batch, place->number, i, wrong ? NAN : sums.largest);
}

/* Does a key with weight have a value that is not finite? */
static bool meets_nonfinite(const plain_place *place, int64_t key_head, const double *p) {
    const ota_array *values = &place->run->arrays->values;
    for (int64_t j = 0; j < place->run->resolved->keys; j++) {
        for (int64_t w = 0; p[j] > 0.0 && w < values->size[3]; w++) {
            if (!isfinite(ota_array_get(values, place->batch, key_head, j, w))) return true;
        }
    }
    return false;
}

/* out_i = sum_j D_ij P_ij V_j */
static void put_out(const plain_place *place, int64_t i, int64_t key_head, bool wrong, double *p) {
    const ota_resolved *r = place->run->resolved;
    const ota_arrays *a = place->run->arrays;
    if (r->problem.dropout > 0.0) {
        uint32_t key[2];
        ota_dropout_head(r, place->batch, place->number, key);
        ota_dropout_row_f64(r, key, i, 0, NULL, r->keys, p);
    }
    for (int64_t w = 0; w < a->out.size[3]; w++) {
        double sum = 0.0;
        for (int64_t j = 0; j < r->keys; j++) {
            if (p[j] > 0.0) sum += p[j] * ota_array_get(&a->values, place->batch, key_head, j, w);
        }
        ota_array_set(&a->out, place->batch, place->number, i, w, wrong ? NAN : sum);
    }
}

/* Every output of one query from its weights p [keys] of mass mu, which it spends. */
static void finish_row(plain_place *place, int64_t i, double mu, double *p,
                       const ota_row_found *found) {
    const ota_resolved *r = place->run->resolved;
    const ota_arrays *a = place->run->arrays;
    const int64_t batch = place->batch, head = place->number;
    const int64_t key_head = head / (r->heads / r->key_heads);
    const bool transposed = r->problem.axis == OTA_AXIS_COLUMNS;
    const bool entropy = ota_regulariser_of(&r->problem)->exponential;
    const bool has_out = ota_array_present(&a->out);
    const bool wrong = found->nonfinite || (has_out && meets_nonfinite(place, key_head, p));
    ota_head_status *status = place->status;
    status->nonfinite_rows += wrong;
    if (found->empty && !transposed) status->empty_rows++;
    if (found->infeasible ||
        (found->empty && !transposed && mu > 0.0 &&
         ota_rule_is(ota_column_rule_of(r->problem.columns), OTA_RULE_BALANCED)))
        status->result.status = OTA_INFEASIBLE;
    const ota_block keys = {.problem = r, .batch = batch, .head = head, .keys = r->keys};
    if (place->run->device->layout.kind == OTA_LAYOUT_COUPLED && r->adds_pairs)
        status->masked += ota_block_masked(&keys, i, 0, p);
    if (!found->empty && r->problem.rows == OTA_ROWS_HARD)
        status->result.row_error += fabs(found->mass + found->sink - mu);
    for (int64_t j = 0; j < r->keys && !found->nonfinite; j++) place->receiver[j] += p[j];
    put_statistics(place, i, mu, p, found);
    ota_put(&a->row_potential, batch, head, i, found->potential);
    ota_put(&a->lse, batch, head, i, entropy ? found->lse : NAN);
    ota_put(&a->sink, batch, head, i, found->sink);
    for (int64_t j = 0; j < r->keys && ota_array_present(&a->coupling); j++)
        ota_array_set(&a->coupling, batch, head, i, j, p[j]);
    if (has_out) put_out(place, i, key_head, wrong, p);
}

static void put_receiver(const plain_place *place) {
    for (int64_t j = 0; j < place->run->resolved->keys; j++)
        ota_put(&place->run->arrays->receiver, place->batch, place->number, j, place->receiver[j]);
}

/* ---- rows alone and rows in order ------------------------------------------------------------------- */

/* One row: its weights, of at most the capacities left where rows take them in order. */
static void run_row(plain_place *place, int64_t i) {
    const ota_plain_device *device = place->run->device;
    const ota_resolved *r = device->resolved;
    ota_row_parameters row = ota_row_parameters_of(r, place->batch, place->number);
    const double mu = ota_row_mass(r, place->batch, place->number, i);
    ota_row_found found;
    row.line = i;
    ota_plain_scores(device, place->batch, place->number, i, place->row);
    if (r->problem.columns == OTA_COLUMNS_ONLINE)
        ota_plain_row_online(&row, place->row, r->keys, mu, place->room, place->weights,
                             place->open, &found);
    else
        ota_plain_row_solve(&row, place->row, NULL, r->keys, mu, place->weights, &found);
    finish_row(place, i, mu, place->weights, &found);
}

/* Capacities: what the caller says is left, or cap times the column mass. */
static void load_room(plain_place *place) {
    const ota_resolved *r = place->run->resolved;
    const ota_array *left = &place->run->arrays->remaining;
    for (int64_t j = 0; j < r->keys; j++) {
        place->room[j] =
            ota_array_present(left)
                ? ota_array_get(left, place->batch, place->number, 0, j)
                : r->problem.cap * ota_column_mass(r, place->batch, place->number, j, 1.0);
    }
}

static void run_head(void *context, int64_t index, int worker) {
    ota_run *run = context;
    const ota_resolved *r = run->resolved;
    const ota_arrays *a = run->arrays;
    plain_place *place = &run->device->places[worker];
    const bool online = r->problem.columns == OTA_COLUMNS_ONLINE;
    double mass = 0.0;
    begin_rows(place, run, index);
    if (online) load_room(place);
    for (int64_t i = 0; i < r->queries; i++) {
        if (ota_run_interrupted(run)) return;
        run_row(place, i);
        mass += ota_row_mass(r, place->batch, place->number, i);
        if (online && place->status->result.status < OTA_OK) break;
    }
    put_receiver(place);
    for (int64_t j = 0; j < r->keys; j++) {
        ota_put(&a->column_potential, place->batch, place->number, j, 0.0);
        if (online && place->status->result.status >= OTA_OK && j < run->device->key_count)
            ota_put(&a->remaining, place->batch, place->number, j, place->room[j]);
    }
    ota_run_finish_head(run, place->batch, place->number, mass);
}

void ota_plain_run_rows(ota_run *run) {
    ota_parallel(run->device->layout.pool, run->resolved->batch * run->resolved->heads, run_head,
                 run);
}

/* ---- coupled heads -------------------------------------------------------------------------------- */

void ota_plain_begin_head(ota_run *run, int64_t index, int64_t place_index, bool narrow,
                          bool keep_g, ota_head *head) {
    const ota_plain_device *device = run->device;
    const ota_resolved *r = device->resolved;
    plain_place *place = &device->places[place_index];
    (void)narrow;
    begin_rows(place, run, index);
    place->head = head;
    *head = ota_head_of(r, index);
    head->backend = &ota_plain_backend;
    head->host.algebra = &ota_plain_algebra;
    head->host.pool = device->layout.pool;
    head->rows = device->rows;
    head->columns = device->columns;
    head->scores.data = place->scores;
    head->scores.stride = device->stride;
    head->mu = place->mu;
    head->nu = place->nu;
    head->column.lambdas = ota_array_present(&r->problem.lambdas) ? place->lambdas : NULL;
    head->host.workspace = place->workspace;
    head->host.report = r->settings.calls.progress != NULL ? ota_run_report_progress : NULL;
    head->host.report_context = run;
    head->host.place = place;
    head->f = place->f;
    head->g = place->g;
    head->found.plan = place->plan;
    head->scores.far = place->far;
    for (int64_t j = 0; j < device->columns && !keep_g; j++) head->g[j] = 0.0;
}

static double *stored(const ota_head *head, int64_t i, int64_t j) {
    const plain_place *place = head->host.place;
    return place->scores + i * head->scores.stride + j;
}

/* Row i may use some key, or the sink; marks the columns that it may use. A row that may not has no mass. */
static void load_row_mass(ota_head *head, int64_t i, bool transposed) {
    plain_place *place = head->host.place;
    const ota_resolved *r = place->run->resolved;
    const double mu = transposed ? ota_column_mass(r, place->batch, place->number, i, 1.0)
                                 : ota_row_mass(r, place->batch, place->number, i);
    bool open = head->row.sink > -INFINITY;
    for (int64_t j = 0; j < head->columns; j++) {
        if (*stored(head, i, j) <= -INFINITY) continue;
        open = true;
        place->nu[j] = 1.0;
    }
    place->mu[i] = open ? mu : 0.0;
    head->mass += place->mu[i];
    if (!open && mu > 0.0) head->found.unusable = -1;
}

bool ota_plain_load(ota_head *head) {
    plain_place *place = head->host.place;
    const ota_plain_device *device = place->run->device;
    const ota_resolved *r = device->resolved;
    double low = INFINITY, high = -INFINITY;
    bool finite = true;
    for (int64_t i = 0; i < head->rows; i++) {
        for (int64_t j = head->columns; j < head->scores.stride; j++)
            *stored(head, i, j) = -INFINITY;
    }
    ota_watch watch = ota_watch_within(&r->settings);
    for (int64_t i = 0; i < r->queries && !ota_watch_ends(&watch, 16 * ota_row_work(r)); i++) {
        ota_plain_scores(device, place->batch, place->number, i, place->row);
        for (int64_t j = 0; j < r->keys; j++) {
            const double s = place->row[j];
            *stored(head, device->transposed ? j : i, device->transposed ? i : j) = s;
            if (s > -INFINITY) low = fmin(low, s);
            if (s > -INFINITY) high = fmax(high, s);
            finite &= s < INFINITY;
        }
    }
    ota_head_put_range(head, low, high);
    head->mass = 0.0;
    for (int64_t j = 0; j < head->columns; j++) place->nu[j] = 0.0;
    for (int64_t i = 0; i < head->rows && !ota_watch_ends(&watch, head->columns); i++)
        load_row_mass(head, i, device->transposed);
    ota_head_allot(head, r, place->nu, place->lambdas);
    return finite;
}

/* Weights p [columns] of row i from what the solver leaves. */
static void emit_weights(const ota_head *head, int64_t i, double *p, ota_row_found *found) {
    const plain_place *place = head->host.place;
    ota_row_parameters row =
        ota_row_parameters_of(place->run->resolved, place->batch, place->number);
    row.line = i;
    row.sink = head->row.sink; /* the solver may have shifted it */
    const double mu = head->mu[i];
    *found = (ota_row_found){.potential = head->f[i], .mass = mu, .lse = -INFINITY};
    switch (head->found.update) {
    case OTA_FINAL_MATCH:
        for (int64_t j = 0; j < head->columns; j++) p[j] = j == head->found.match[i] ? mu : 0.0;
        return;
    case OTA_FINAL_PLAN:
        found->mass = 0.0;
        for (int64_t j = 0; j < head->columns; j++)
            found->mass += p[j] = head->found.plan[i * head->scores.stride + j];
        if (!(mu > 0.0)) found->potential = -INFINITY;
        if (row.sink > -INFINITY) found->sink = fmax(0.0, mu - found->mass);
        found->empty = !(found->mass > 0.0) && mu <= 0.0;
        return;
    case OTA_FINAL_POTENTIALS:
    case OTA_FINAL_ROWS: break;
    }
    const double *s = stored(head, i, 0);
    if (head->found.update == OTA_FINAL_POTENTIALS)
        ota_plain_row_weights(&row, s, head->g, head->columns, head->f[i], p, found);
    else
        ota_plain_row_solve(&row, s, head->g, head->columns, mu, p, found);
}

/* P of the transposed problem as the caller sees it: P_ij is the weight of row j, column i. */
static void emit_transposed(ota_head *head) {
    plain_place *place = head->host.place;
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t j = 0; j < head->rows && !ota_watch_ends(&watch, 4 * head->columns); j++) {
        ota_row_found found;
        emit_weights(head, j, place->weights, &found);
        head->f[j] = found.potential;
        place->status->empty_rows += found.empty;
        for (int64_t i = 0; i < head->columns; i++)
            place->queries_p[i * head->rows + j] = place->weights[i];
    }
    for (int64_t i = 0; i < head->columns && !ota_watch_ends(&watch, 16 * head->rows); i++) {
        double *p = place->queries_p + i * head->rows;
        ota_row_found found = {.potential = head->g[i]};
        for (int64_t j = 0; j < head->rows; j++) found.mass += p[j];
        found.lse = ota_plain_column_lse(place->scores + i, head->scores.stride, head->rows,
                                         head->f, head->tau);
        found.empty = !(found.mass > 0.0);
        found.nonfinite = isnan(found.mass);
        finish_row(place, i, found.mass, p, &found);
    }
}

void ota_plain_emit(ota_head *head) {
    plain_place *place = head->host.place;
    if (place->run->device->transposed) {
        emit_transposed(head);
        return;
    }
    ota_watch watch = ota_watch_within(head->settings);
    for (int64_t i = 0; i < head->rows && !ota_watch_ends(&watch, 16 * head->columns); i++) {
        ota_row_found found;
        emit_weights(head, i, place->weights, &found);
        finish_row(place, i, head->mu[i], place->weights, &found);
    }
}

void ota_plain_gather(ota_head *head) { put_receiver(head->host.place); }
