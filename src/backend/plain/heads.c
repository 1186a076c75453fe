/* Heads: what a caller wants of finished rows, coupled heads on stored scores, and the passes that solvers make.
 *
 *     load     S [rows][stride], mu [rows], nu [columns]        rows and columns: those of the solver
 *     passes   c_j = sum_i P_ij,   L_j = LSE_i((S_ij + f_i) / t)
 *     emit     P_i from S_i, f and g as the solver leaves them, then every output of the row */
#include "plain.h"

#include <math.h>
#include <string.h>

/* ---- outputs of one row --------------------------------------------------------------------------- */

void ota_plain_begin_rows(plain_place *place, ota_run *run, int64_t index) {
    const ota_resolved *r = run->resolved;
    place->run = run;
    place->batch = index / r->heads;
    place->number = index % r->heads;
    place->sums = (ota_head_status){0};
    memset(place->receiver, 0, (size_t)r->keys * sizeof *place->receiver);
}

/* Entropy of P_i / mu_i, number of positive weights, largest weight. */
static void put_statistics(const plain_place *place, int64_t i, double mu, const double *p,
                           const ota_row_found *found) {
    const ota_arrays *a = place->run->arrays;
    if (!ota_array_present(&a->row_entropy) && !ota_array_present(&a->row_support) &&
        !ota_array_present(&a->row_max))
        return;
    const double mass = found->mass + found->sink;
    double p_log_p = found->sink > 0.0 ? found->sink * log(found->sink) : 0.0;
    double positive = 0.0, largest = 0.0;
    for (int64_t j = 0; j < place->run->resolved->keys; j++) {
        if (p[j] > 0.0) {
            p_log_p += p[j] * log(p[j]);
            positive += 1.0;
        }
        largest = fmax(largest, p[j]);
    }
    const double entropy = mass > 0.0 ? (mass * log(mu) - p_log_p) / mu : 0.0;
    const bool wrong = found->nonfinite;
    ota_put(&a->row_entropy, place->batch, place->number, i, wrong ? NAN : entropy);
    ota_put(&a->row_support, place->batch, place->number, i, wrong ? NAN : positive);
    ota_put(&a->row_max, place->batch, place->number, i, wrong ? NAN : largest);
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
        ota_dropout_row_f64(r, key, i, 0, r->keys, p);
    }
    for (int64_t w = 0; w < a->out.size[3]; w++) {
        double sum = 0.0;
        for (int64_t j = 0; j < r->keys; j++) {
            if (p[j] > 0.0) sum += p[j] * ota_array_get(&a->values, place->batch, key_head, j, w);
        }
        ota_array_set(&a->out, place->batch, place->number, i, w, wrong ? NAN : sum);
    }
}

void ota_plain_finish_row(plain_place *place, int64_t i, double mu, double *p,
                          const ota_row_found *found) {
    const ota_resolved *r = place->run->resolved;
    const ota_arrays *a = place->run->arrays;
    const int64_t batch = place->batch, head = place->number;
    const int64_t key_head = head / (r->heads / r->key_heads);
    const bool transposed = r->problem.axis == OTA_AXIS_COLUMNS;
    const bool entropy = r->order > 0.0 && !(r->order > 1.0);
    const bool has_out = ota_array_present(&a->out);
    const bool wrong = found->nonfinite || (has_out && meets_nonfinite(place, key_head, p));
    ota_head_status *sums = &place->sums;
    for (int64_t j = 0; j < r->keys; j++)
        p[j] = ota_plain_rounded(place->run->device->narrow, p[j]);
    sums->nonfinite_rows += wrong;
    if (found->empty && !transposed) sums->empty_rows++;
    if (found->infeasible || (found->empty && !transposed && mu > 0.0 &&
                              ota_column_rule_of(r->problem.columns)->balanced))
        sums->result.status = OTA_INFEASIBLE;
    if (!found->empty && r->problem.rows == OTA_ROWS_HARD)
        sums->result.row_error += fabs(found->mass + found->sink - mu);
    for (int64_t j = 0; j < r->keys && !found->nonfinite; j++) place->receiver[j] += p[j];
    put_statistics(place, i, mu, p, found);
    ota_put(&a->row_potential, batch, head, i, found->potential);
    ota_put(&a->lse, batch, head, i, entropy ? found->lse : NAN);
    ota_put(&a->sink, batch, head, i, found->sink);
    for (int64_t j = 0; j < r->keys && ota_array_present(&a->coupling); j++)
        ota_array_set(&a->coupling, batch, head, i, j, p[j]);
    if (has_out) put_out(place, i, key_head, wrong, p);
}

void ota_plain_end_rows(plain_place *place) {
    const ota_resolved *r = place->run->resolved;
    ota_head_status *head = &place->run->heads[place->batch * r->heads + place->number];
    head->result.row_error += place->sums.result.row_error;
    head->empty_rows += place->sums.empty_rows;
    head->nonfinite_rows += place->sums.nonfinite_rows;
    if (place->sums.result.status < OTA_OK && head->result.status >= OTA_OK)
        head->result.status = place->sums.result.status;
    for (int64_t j = 0; j < r->keys; j++)
        ota_put(&place->run->arrays->receiver, place->batch, place->number, j, place->receiver[j]);
}

/* ---- coupled heads -------------------------------------------------------------------------------- */

void ota_plain_begin_head(ota_run *run, int64_t index, int64_t place_index, bool narrow,
                          bool keep_g, ota_head *head) {
    const ota_device *device = run->device;
    const ota_resolved *r = device->resolved;
    plain_place *place = &device->places[place_index];
    ota_plain_begin_rows(place, run, index);
    place->head = head;
    *head = ota_head_of(r, index);
    head->backend = &ota_plain_backend;
    head->algebra = &ota_plain_algebra;
    head->pool = device->layout.pool;
    head->rows = device->rows;
    head->columns = device->columns;
    head->narrow = narrow;
    head->scores = place->scores;
    head->stride = device->stride;
    head->mu = place->mu;
    head->nu = place->nu;
    head->lambdas = ota_array_present(&r->problem.lambdas) ? place->lambdas : NULL;
    head->workspace = place->workspace;
    head->tell = r->settings.progress != NULL ? ota_run_tell : NULL;
    head->tell_context = run;
    head->place = place;
    head->f = place->f;
    head->g = place->g;
    head->plan = place->plan;
    for (int64_t j = 0; j < device->columns && !keep_g; j++) head->g[j] = 0.0;
}

static double stored(const ota_head *head, int64_t i, int64_t j) {
    return head->narrow ? (double)((const float *)head->scores)[i * head->stride + j]
                        : ((const double *)head->scores)[i * head->stride + j];
}

static void store(const ota_head *head, int64_t i, int64_t j, double score) {
    const plain_place *place = head->place;
    if (head->narrow)
        ((float *)place->scores)[i * head->stride + j] = (float)score;
    else
        ((double *)place->scores)[i * head->stride + j] = score;
}

/* Row i may use some key, or the sink; marks the columns that it may use. A row that may not has no mass. */
static void load_row_mass(ota_head *head, int64_t i, bool transposed) {
    plain_place *place = head->place;
    const ota_resolved *r = place->run->resolved;
    const double mu = transposed ? ota_column_mass(r, place->batch, place->number, i, 1.0)
                                 : ota_row_mass(r, place->batch, place->number, i);
    bool open = head->sink > -INFINITY;
    for (int64_t j = 0; j < head->columns; j++) {
        if (stored(head, i, j) <= -INFINITY) continue;
        open = true;
        place->nu[j] = 1.0;
    }
    place->mu[i] = open ? mu : 0.0;
    head->mass += place->mu[i];
    if (!open && mu > 0.0) head->unusable = -1;
}

bool ota_plain_load(ota_head *head) {
    plain_place *place = head->place;
    const ota_device *device = place->run->device;
    const ota_resolved *r = device->resolved;
    double low = INFINITY, high = -INFINITY;
    bool finite = true;
    for (int64_t i = 0; i < head->rows; i++) {
        for (int64_t j = head->columns; j < head->stride; j++) store(head, i, j, -INFINITY);
    }
    for (int64_t i = 0; i < r->queries; i++) {
        ota_plain_scores(device, place->batch, place->number, i, place->row);
        for (int64_t j = 0; j < r->keys; j++) {
            const double s = place->row[j];
            store(head, device->transposed ? j : i, device->transposed ? i : j, s);
            if (s > -INFINITY) low = fmin(low, s);
            if (s > -INFINITY) high = fmax(high, s);
            finite &= s < INFINITY;
        }
    }
    head->range = high > low ? high - low : 0.0;
    head->mass = 0.0;
    for (int64_t j = 0; j < head->columns; j++) place->nu[j] = 0.0;
    for (int64_t i = 0; i < head->rows; i++) load_row_mass(head, i, device->transposed);
    ota_head_allot(head, r, place->nu, place->lambdas);
    return finite;
}

/* Weights p [columns] of row i from what the solver leaves. */
static void emit_weights(const ota_head *head, int64_t i, double *p, ota_row_found *found) {
    const plain_place *place = head->place;
    const ota_row_parameters row = ota_row_parameters_of(place->run->resolved, place->number);
    const double mu = head->mu[i];
    *found = (ota_row_found){.potential = head->f[i], .mass = mu, .lse = -INFINITY};
    switch (head->final_update) {
    case OTA_FINAL_MATCH:
        for (int64_t j = 0; j < head->columns; j++) p[j] = j == head->match[i] ? mu : 0.0;
        return;
    case OTA_FINAL_PLAN:
        found->mass = 0.0;
        for (int64_t j = 0; j < head->columns; j++)
            found->mass += p[j] = head->plan[i * head->stride + j];
        if (!(mu > 0.0)) found->potential = -INFINITY;
        if (row.sink > -INFINITY) found->sink = fmax(0.0, mu - found->mass);
        found->empty = !(found->mass > 0.0) && mu <= 0.0;
        return;
    case OTA_FINAL_POTENTIALS:
    case OTA_FINAL_ROWS: break;
    }
    for (int64_t j = 0; j < head->columns; j++)
        p[j] = stored(head, i, j) + ota_plain_rounded(head->narrow, head->g[j]);
    if (head->final_update == OTA_FINAL_POTENTIALS)
        ota_plain_row_weights(&row, p, NULL, head->columns, head->f[i], p, found);
    else
        ota_plain_row_solve(&row, p, NULL, head->columns, mu, p, found);
}

/* P of the transposed problem as the caller sees it: P_ij is the weight of row j, column i. */
static void emit_transposed(ota_head *head) {
    plain_place *place = head->place;
    ota_head_status *status = &place->run->heads[head->index];
    for (int64_t j = 0; j < head->rows; j++) {
        ota_row_found found;
        emit_weights(head, j, place->weights, &found);
        head->f[j] = found.potential;
        status->empty_rows += found.empty;
        for (int64_t i = 0; i < head->columns; i++)
            place->queries_p[i * head->rows + j] = place->weights[i];
    }
    for (int64_t i = 0; i < head->columns; i++) {
        const double tau = head->tau;
        double *p = place->queries_p + i * head->rows, top = -INFINITY, sum = 0.0;
        ota_row_found found = {.potential = head->g[i]};
        for (int64_t j = 0; j < head->rows; j++) {
            found.mass += p[j];
            top = fmax(top, stored(head, j, i) + head->f[j]);
        }
        for (int64_t j = 0; j < head->rows && top > -INFINITY; j++)
            sum += exp((stored(head, j, i) + head->f[j] - top) / tau);
        found.lse = top > -INFINITY ? log(sum) + top / tau : -INFINITY;
        found.empty = !(found.mass > 0.0);
        found.nonfinite = isnan(found.mass);
        ota_plain_finish_row(place, i, found.mass, p, &found);
    }
}

void ota_plain_emit(ota_head *head) {
    plain_place *place = head->place;
    if (place->run->device->transposed) {
        emit_transposed(head);
        return;
    }
    for (int64_t i = 0; i < head->rows; i++) {
        ota_row_found found;
        emit_weights(head, i, place->weights, &found);
        ota_plain_finish_row(place, i, head->mu[i], place->weights, &found);
    }
}

void ota_plain_gather(ota_head *head) { ota_plain_end_rows(head->place); }

/* ---- passes --------------------------------------------------------------------------------------- */

static size_t times(int64_t a, int64_t b) {
    size_t result;
    return a < 0 || b < 0 || !ota_size_mul((size_t)a, (size_t)b, &result) ? SIZE_MAX : result;
}

/* One chunk: a head is one thread's. No kernel, so no linear domain. */
void ota_plain_lay_out_passes(ota_passes *passes, ota_arena *arena, bool kernel) {
    (void)kernel;
    passes->chunk_rows = passes->rows > 0 ? passes->rows : 1;
    passes->chunks = 1;
    passes->padded_columns = (passes->columns + OTA_PLAIN_LANE) / OTA_PLAIN_LANE * OTA_PLAIN_LANE;
    double **of_rows[] = {&passes->shift, &passes->sum, &passes->error, &passes->old_f};
    double **of_columns[] = {&passes->target,   &passes->column,  &passes->column_lse,
                             &passes->previous, &passes->partial, &passes->relaxed};
    void **of_weights[] = {&passes->potential, &passes->scratch, &passes->top};
    for (size_t k = 0; k < sizeof of_rows / sizeof of_rows[0]; k++)
        *of_rows[k] = ota_arena_take(arena, times(passes->rows + 1, 1), sizeof(double));
    for (size_t k = 0; k < sizeof of_columns / sizeof of_columns[0]; k++)
        *of_columns[k] = ota_arena_take(arena, (size_t)passes->padded_columns, sizeof(double));
    for (size_t k = 0; k < sizeof of_weights / sizeof of_weights[0]; k++)
        *of_weights[k] = ota_arena_take(arena, (size_t)passes->padded_columns, sizeof(double));
}

/* g as the final row update sees it. */
static void round_potential(ota_passes *passes) {
    for (int64_t j = 0; j < passes->columns; j++) {
        if (passes->narrow)
            ((float *)passes->potential)[j] = (float)passes->head->g[j];
        else
            ((double *)passes->potential)[j] = passes->head->g[j];
    }
}

/* Solves every row at temperature t: f, c and row errors |sum_j P_ij - mu_i|; relaxed rows want mu e^(-f / rho). */
static void solve_rows(ota_passes *passes, double t, double omega, bool as_they_are) {
    ota_head *head = passes->head;
    const double rho = head->row_strength;
    const ota_row_parameters row = {
        .order = head->order, .tau = t, .sink = head->sink, .row_strength = rho};
    double *p = passes->scratch;
    round_potential(passes);
    for (int64_t j = 0; j < passes->columns; j++) passes->column[j] = 0.0;
    for (int64_t i = 0; i < passes->rows; i++) {
        ota_row_found found;
        double mass = 0.0, wanted = head->mu[i];
        for (int64_t j = 0; j < passes->columns; j++)
            p[j] = ota_score(passes, i, j) + ota_rounded(passes, j);
        if (as_they_are)
            ota_plain_row_weights(&row, p, NULL, passes->columns, head->f[i], p, &found);
        else
            ota_plain_row_solve(&row, p, NULL, passes->columns, wanted, p, &found);
        for (int64_t j = 0; j < passes->columns; j++) {
            p[j] = ota_plain_rounded(passes->narrow, p[j]);
            mass += p[j];
            passes->column[j] += p[j];
        }
        if (rho < INFINITY && found.potential > -INFINITY) wanted *= exp(-found.potential / rho);
        passes->error[i] = fabs(mass + found.sink - wanted);
        if (as_they_are) continue;
        const bool moves = (omega > 1.0 || omega < 1.0) && found.potential > -INFINITY;
        head->f[i] =
            moves ? (1.0 - omega) * passes->old_f[i] + omega * found.potential : found.potential;
    }
}

void ota_plain_row_pass(ota_passes *passes, double t, double omega) {
    const ota_head *head = passes->head;
    memcpy(passes->old_f, head->f, (size_t)passes->rows * sizeof *passes->old_f);
    solve_rows(passes, t, omega, false);
    passes->temperature = t;
    if (!(head->order > 1.0)) {
        ota_plain_column_pass(passes, t);
        return;
    }
    for (int64_t j = 0; j < passes->columns; j++)
        passes->column_lse[j] =
            head->g[j] > -INFINITY ? log(passes->column[j]) - head->g[j] / t : -INFINITY;
}

void ota_plain_column_pass(ota_passes *passes, double t) {
    const double *f = passes->head->f;
    for (int64_t j = 0; j < passes->columns; j++) {
        double top = -INFINITY, sum = 0.0;
        for (int64_t i = 0; i < passes->rows; i++) top = fmax(top, ota_score(passes, i, j) + f[i]);
        for (int64_t i = 0; i < passes->rows && top > -INFINITY; i++)
            sum += exp((ota_score(passes, i, j) + f[i] - top) / t);
        passes->column_lse[j] = top > -INFINITY ? log(sum) + top / t : -INFINITY;
    }
}

void ota_plain_final_pass(ota_passes *passes) {
    const ota_head *head = passes->head;
    solve_rows(passes, head->tau, 1.0, head->final_update == OTA_FINAL_POTENTIALS);
}
