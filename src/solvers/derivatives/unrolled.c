/* Fixed rounds run again and reversed [DER-15]. With M_i = LSE_j((S_ij + g_j) / t) (sink included) and
 * L_j = LSE_i((S_ij + f_i) / t), one update and its reverse are
 *
 *     rows      f = kappa t (log mu - M)                       p_ij = exp((S_ij + g_j) / t - M_i)
 *               dS_ij -= kappa f'_i p_ij,  dg_j -= kappa sum_i f'_i p_ij,  f' = 0 after
 *     columns   g <- (1 - omega) g + omega min(ceiling, (1 - decay) g + step t (log nu - L))
 *               q_ij = exp((S_ij + f_i) / t - L_j)
 *               dS_ij -= omega step g'_j q_ij,  df_i -= omega step sum_j g'_j q_ij
 *
 * with f' = dL/df, g' = dL/dg; kappa = 1 or RHO / (RHO + t). An update that hits the ceiling, or closes a
 * key, passes nothing on. The order of updates is that of sinkhorn.c. Rows may lie on many processes, whose sums over rows are added
 * up; what the columns alone say every one of them knows, and the first tells. */
#include "adjoint.h"

#include <string.h>

#include "base/exp2.h"

/* ---- the list of updates ---------------------------------------------------------------------- */

static double stage(const ota_settings *s, double tau, int64_t round) {
    if (!(s->anneal.start > 0.0)) return tau;
    const double t = s->anneal.start * pow(s->anneal.factor, (double)(round / s->anneal.rounds));
    return t > tau ? t : tau;
}

size_t ota_unrolled_steps(const ota_resolved *r) {
    size_t steps;
    if (!ota_size_mul((size_t)r->settings.stop.rounds, 2, &steps) ||
        !ota_size_add(steps, 4, &steps))
        return SIZE_MAX;
    return steps;
}

static int64_t lane_of(int64_t count) { return (count + 7) / 8 * 8; }

size_t ota_unrolled_numbers(const ota_resolved *r, int64_t rows, int64_t columns) {
    const size_t steps = ota_unrolled_steps(r);
    const size_t wide = (size_t)lane_of(rows), narrow = 2 * (size_t)lane_of(columns);
    size_t numbers;
    if (steps == SIZE_MAX || !ota_size_mul(steps, wide + narrow, &numbers)) return SIZE_MAX;
    return numbers;
}

typedef struct writer {
    ota_unrolled *u;
    double *next;
    double t;
    double ratio;
    bool keep;
} writer;

static void cool(writer *w, double t) {
    if (w->keep && (t < w->t || t > w->t)) w->ratio *= t / w->t;
    w->t = t;
}

static void add_step(writer *w, ota_step_kind kind) {
    ota_unrolled *u = w->u;
    ota_step *step = &u->steps[u->step_count++];
    *step = (ota_step){.kind = kind, .t = w->t, .ratio = w->ratio};
    step->g = w->next;
    w->next += lane_of(u->head->columns);
    if (kind == OTA_STEP_COLUMNS) {
        step->level = w->next;
        w->next += lane_of(u->head->columns);
    } else {
        step->f = step->result = w->next;
        w->next += lane_of(u->head->rows);
    }
    w->ratio = 1.0;
}

static void write_steps(ota_unrolled *u) {
    const ota_head *head = u->head;
    const ota_settings *s = head->settings;
    const bool from_columns = head->column.start == OTA_SIDE_COLUMNS;
    const bool to_columns = head->column.end == OTA_SIDE_COLUMNS;
    const bool late = from_columns && !to_columns;
    writer w = {.u = u, .next = u->memory, .ratio = 1.0, .keep = s->anneal.keep_scaling};
    int64_t round = 0;
    u->step_count = 0;
    w.t = stage(s, head->tau, 0);
    if (from_columns && (s->stop.rounds > 0 || to_columns)) {
        add_step(&w, OTA_STEP_COLUMNS);
        round = to_columns ? 0 : 1;
    }
    for (; round < s->stop.rounds; round++) {
        if (!late) cool(&w, stage(s, head->tau, round));
        add_step(&w, OTA_STEP_ROWS);
        if (late) cool(&w, stage(s, head->tau, round));
        add_step(&w, OTA_STEP_COLUMNS);
    }
    if (to_columns && (s->stop.rounds > 0 || from_columns)) return;
    cool(&w, head->tau);
    add_step(&w, OTA_STEP_ROWS);
}

/* ---- one pass over the rows ------------------------------------------------------------------- */

typedef struct pass_job {
    ota_unrolled *u;
    const ota_step *step;
    const double *f;                       /* of a column update */
    const double *pull;                    /* [columns]: what multiplies q */
    const double *lift;                    /* [columns] -t L, -inf where closed */
    double *strength, *temperature, *sink; /* [OTA_ADJOINT_CHUNKS] */
} pass_job;

static double *part(double *from, const ota_head *head, int64_t chunk) {
    return from + chunk * head->scores.stride;
}

static void add_chunks(const ota_head *head, const double *partial, double *to) {
    for (int64_t j = 0; j < head->columns; j++) {
        double sum = 0.0;
        for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++)
            sum += partial[c * head->scores.stride + j];
        to[j] = sum;
    }
}

static const double *scores_of(const ota_head *head, int64_t i) {
    return (const double *)head->scores.data + i * head->scores.stride;
}

double ota_unrolled_row_share(const ota_head *head, double t) {
    return head->row.strength < INFINITY ? head->row.strength / (head->row.strength + t) : 1.0;
}

static void rows_forward(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass_job *job = context;
    const ota_head *head = job->u->head;
    const ota_step *step = job->step;
    const ota_row_parameters parameters = {.kernels = head->host.kernels,
                                           .regulariser = head->row.regulariser,
                                           .order = head->row.order,
                                           .tau = step->t,
                                           .sink = head->row.sink,
                                           .row_strength = head->row.strength};
    double *p = part(job->u->row_scratch, head, chunk);
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, head->columns); i++) {
        ota_row_found found;
        head->host.algebra->row_solve(&parameters, scores_of(head, i), step->g, head->columns,
                                      head->mu[i], p, &found);
        step->result[i] = head->mu[i] > 0.0 ? found.potential : -INFINITY;
    }
}

static void tops_forward(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass_job *job = context;
    const ota_head *head = job->u->head;
    double *top = part(job->u->more_partial, head, chunk);
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    for (int64_t j = 0; j < head->columns; j++) top[j] = -INFINITY;
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t end = first; ota_watch_rows(&watch, head->columns, last, &first, &end);)
        head->host.algebra->columns_top(scores_of(head, first), head->scores.stride, end - first,
                                        head->columns, job->f + first, top);
}

static void sums_forward(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass_job *job = context;
    const ota_head *head = job->u->head;
    double *sum = part(job->u->partial, head, chunk);
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    memset(sum, 0, (size_t)head->columns * sizeof *sum);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t end = first; ota_watch_groups(&watch, head->columns, job->f, last, &first, &end);)
        head->host.algebra->columns_sum(scores_of(head, first), head->scores.stride, end - first,
                                        head->columns, job->f + first, job->u->more_partial,
                                        OTA_LOG2_E / job->step->t, sum);
}

/* False: the communicator failed. */
static bool column_levels(ota_unrolled *u, const ota_step *step, const double *f) {
    const ota_head *head = u->head;
    pass_job job = {.u = u, .step = step, .f = f};
    ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, tops_forward, &job);
    double *top = u->more_partial;
    for (int64_t c = 1; c < OTA_ADJOINT_CHUNKS; c++) {
        for (int64_t j = 0; j < head->columns; j++) {
            if (top[c * head->scores.stride + j] > top[j])
                top[j] = top[c * head->scores.stride + j];
        }
    }
    if (!ota_ranks_most(head->settings, top, head->columns, "a round's largest scores"))
        return false;
    ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, sums_forward, &job);
    add_chunks(head, u->partial, step->level);
    if (!ota_ranks_sum(head->settings, step->level, head->columns, NULL, 0, "a round's sums"))
        return false;
    for (int64_t j = 0; j < head->columns; j++)
        step->level[j] = top[j] > -INFINITY ? top[j] / step->t + log(step->level[j]) : -INFINITY;
    return true;
}

/* ---- one key's update and its derivatives ----------------------------------------------------- */

ota_key_update ota_unrolled_key(const ota_head *head, double t, int64_t j, double g, double level) {
    const ota_column_rule_row *row = ota_head_rule(head);
    const ota_column_parameters key = ota_head_parameters(head, j);
    const ota_column_step rule = row->step(&key, t);
    const double omega = head->settings->relaxation;
    const bool relaxed = omega < 1.0 || omega > 1.0;
    ota_key_update found = {.next = g, .by_g = 1.0};
    if (!(g > -INFINITY) || !(level > -INFINITY) || !(rule.step > 0.0)) return found;
    const double ratio = log(head->nu[j]) - level;
    const double next = ota_column_next(rule, t, g, ratio);
    found.next = next;
    found.by_g = 0.0;
    if (!(next > -INFINITY)) return found;
    const bool rests = !ota_column_moves(rule, next);
    const double share = relaxed ? omega : 1.0;
    if (relaxed) {
        found.next = ota_column_relax(rule, omega, g, next);
        if (!ota_column_moves(rule, found.next)) return found;
        found.by_g = 1.0 - omega;
    }
    if (rests) return found;
    found.by_g += share * (1.0 - rule.decay);
    found.by_level = share * rule.step;
    /* Above its kink a key aims at the least sum. */
    const double aim = next > rule.ceiling ? ratio + log(rule.floor) : ratio;
    const double less = row->gain_by_t != NULL ? row->gain_by_t(&key, t, ratio) : 0.0;
    found.by_t = share * (rule.step * aim - less);
    if (row->by_parameter != NULL) row->by_parameter(&key, t, g, ratio, share, found.by_parameter);
    return found;
}

/* ---- forward ---------------------------------------------------------------------------------- */

ota_status ota_unrolled_replay(ota_unrolled *u) {
    ota_head *head = u->head;
    write_steps(u);
    for (int64_t i = 0; i < head->rows; i++) head->f[i] = head->mu[i] > 0.0 ? 0.0 : -INFINITY;
    const double *f = head->f;
    for (int64_t k = 0; k < u->step_count; k++) {
        ota_step *step = &u->steps[k];
        const ota_status going = ota_interrupted_together(head->settings);
        if (going != OTA_OK) return going;
        for (int64_t j = 0; j < head->columns; j++) {
            if (head->g[j] > -INFINITY) head->g[j] *= step->ratio;
            step->g[j] = head->g[j];
        }
        if (step->kind == OTA_STEP_ROWS) {
            pass_job job = {.u = u, .step = step};
            ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, rows_forward, &job);
            f = step->f;
            continue;
        }
        step->f = f;
        if (!column_levels(u, step, f)) return OTA_ECOMM;
        for (int64_t j = 0; j < head->columns; j++)
            head->g[j] = ota_unrolled_key(head, step->t, j, step->g[j], step->level[j]).next;
    }
    u->found_f = f;
    return OTA_OK;
}

/* ---- reverse ---------------------------------------------------------------------------------- */

static void plan_reverse(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass_job *job = context;
    ota_unrolled *u = job->u;
    const ota_head *head = u->head;
    double *p = part(u->row_scratch, head, chunk), *column = part(u->partial, head, chunk);
    double derivative = 0.0;
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    memset(column, 0, (size_t)head->columns * sizeof *column);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, head->columns); i++) {
        double *gradient = u->gradient + i * head->scores.stride;
        const double *s = scores_of(head, i);
        const double f = u->found_f[i];
        double sum = 0.0;
        u->f_grad[i] = 0.0;
        if (!(f > -INFINITY)) {
            memset(gradient, 0, (size_t)head->columns * sizeof *gradient);
            continue;
        }
        (void)head->host.algebra->exponentials(s, head->g, head->columns, -f,
                                               OTA_LOG2_E / head->tau, p);
        for (int64_t j = 0; j < head->columns; j++) {
            gradient[j] = p[j] > 0.0 ? p[j] * gradient[j] / head->tau : 0.0;
            sum += gradient[j];
            column[j] += gradient[j];
            if (p[j] > 0.0) derivative += gradient[j] * (s[j] + f + head->g[j]);
        }
        u->f_grad[i] = sum;
    }
    job->temperature[chunk] = -derivative / head->tau;
}

static void rows_reverse(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass_job *job = context;
    ota_unrolled *u = job->u;
    const ota_head *head = u->head;
    const ota_step *step = job->step;
    const double t = step->t, kappa = ota_unrolled_row_share(head, t),
                 slack = head->row.strength + t;
    double *p = part(u->row_scratch, head, chunk), *column = part(u->partial, head, chunk);
    double temperature = 0.0, strength = 0.0, sinks = 0.0;
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    memset(column, 0, (size_t)head->columns * sizeof *column);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, head->columns); i++) {
        const double f = step->f[i], pull = kappa * u->f_grad[i], mu = head->mu[i];
        if (!(f > -INFINITY)) continue;
        const double *s = scores_of(head, i);
        double *gradient = u->gradient + i * head->scores.stride, derivative = 0.0;
        const double shift = t * log(mu) - f / kappa;
        (void)head->host.algebra->exponentials(s, step->g, head->columns, shift, OTA_LOG2_E / t, p);
        for (int64_t j = 0; j < head->columns; j++) {
            if (!(p[j] > 0.0)) continue;
            gradient[j] -= pull * p[j];
            column[j] -= pull * p[j];
            derivative += p[j] * (s[j] + step->g[j]);
        }
        if (head->row.sink > -INFINITY) {
            const double rest = exp((head->row.sink - shift) / t);
            derivative += rest * head->row.sink;
            sinks -= pull * rest;
        }
        temperature += u->f_grad[i] * (f / t + kappa / t * derivative);
        if (kappa < 1.0) {
            temperature -= u->f_grad[i] * f / slack;
            strength += u->f_grad[i] * f / kappa * t / (slack * slack);
        }
        u->sums.row[i] += pull * t / mu;
        u->f_grad[i] = 0.0;
    }
    job->temperature[chunk] = temperature;
    job->strength[chunk] = strength;
    job->sink[chunk] = sinks;
}

static void columns_reverse(void *context, int64_t chunk, int worker) {
    (void)worker;
    const pass_job *job = context;
    ota_unrolled *u = job->u;
    const ota_head *head = u->head;
    const double t = job->step->t;
    double *q = part(u->row_scratch, head, chunk), temperature = 0.0;
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, head->columns); i++) {
        const double f = job->step->f[i];
        if (!(f > -INFINITY)) continue;
        const double *s = scores_of(head, i);
        double *gradient = u->gradient + i * head->scores.stride, sum = 0.0, derivative = 0.0;
        (void)head->host.algebra->exponentials(s, job->lift, head->columns, -f, OTA_LOG2_E / t, q);
        for (int64_t j = 0; j < head->columns; j++) {
            if (!(q[j] > 0.0)) continue;
            const double push = job->pull[j] * q[j];
            gradient[j] -= push;
            sum += push;
            derivative += push * (s[j] + f);
        }
        u->f_grad[i] -= sum;
        temperature += derivative / t;
    }
    job->temperature[chunk] = temperature;
}

static double total(const double *chunks) {
    double sum = 0.0;
    for (int c = 0; c < OTA_ADJOINT_CHUNKS; c++) sum += chunks[c];
    return sum;
}

static void reverse_columns(ota_unrolled *u, const ota_step *step, pass_job *job, bool final) {
    const ota_head *head = u->head;
    const bool first = ota_ranks_tells(head->settings);
    double *lift = u->more_partial, *pull = lift + head->scores.stride;
    for (int64_t j = 0; j < head->columns; j++) {
        const double g_grad = u->g_grad[j];
        const ota_key_update update =
            ota_unrolled_key(head, step->t, j, step->g[j], step->level[j]);
        lift[j] = step->level[j] > -INFINITY ? -step->t * step->level[j] : -INFINITY;
        pull[j] = update.by_level * g_grad;
        if (update.by_level > 0.0) u->sums.column[j] += step->t * pull[j] / head->nu[j];
        if (final && first) u->sums.temperature += update.by_t * g_grad;
        for (int p = 0; p < OTA_RULE_PARAMETERS; p++)
            u->sums.parameters[p] += update.by_parameter[p] * g_grad;
        u->g_grad[j] = update.by_g * g_grad;
    }
    job->lift = lift;
    job->pull = pull;
    ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, columns_reverse, job);
    if (final) u->sums.temperature += total(job->temperature);
}

/* False: the communicator failed. */
static bool reverse_rows(ota_unrolled *u, pass_job *job, bool final) {
    const ota_head *head = u->head;
    double *const sums = u->more_partial;
    ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, rows_reverse, job);
    add_chunks(head, u->partial, sums);
    if (!ota_ranks_sum(head->settings, sums, head->columns, NULL, 0, "a reversed row update"))
        return false;
    for (int64_t j = 0; j < head->columns; j++) u->g_grad[j] += sums[j];
    if (final) u->sums.temperature += total(job->temperature);
    u->sums.row_strength += total(job->strength);
    u->sums.sink += total(job->sink);
    return true;
}

ota_status ota_unrolled_reverse(ota_unrolled *u) {
    const ota_head *head = u->head;
    double temperature[OTA_ADJOINT_CHUNKS], strength[OTA_ADJOINT_CHUNKS], sinks[OTA_ADJOINT_CHUNKS];
    pass_job job = {.u = u, .temperature = temperature, .strength = strength, .sink = sinks};
    ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, plan_reverse, &job);
    add_chunks(head, u->partial, u->g_grad);
    if (!ota_ranks_sum(head->settings, u->g_grad, head->columns, NULL, 0, "the reversed plan"))
        return OTA_ECOMM;
    u->sums.temperature = total(temperature);
    u->sums.row_strength = u->sums.sink = 0.0;
    memset(u->sums.parameters, 0, sizeof u->sums.parameters);
    memset(u->sums.row, 0, (size_t)head->rows * sizeof(double));
    memset(u->sums.column, 0, (size_t)head->columns * sizeof(double));
    for (int64_t k = u->step_count - 1; k >= 0; k--) {
        const ota_step *step = &u->steps[k];
        const ota_status going = ota_interrupted_together(head->settings);
        if (going != OTA_OK) return going;
        /* Updates at a higher temperature of the schedule do not move with tau. */
        const bool final = !(step->t > head->tau);
        job.step = step;
        if (step->kind == OTA_STEP_COLUMNS)
            reverse_columns(u, step, &job, final);
        else if (!reverse_rows(u, &job, final))
            return OTA_ECOMM;
        if (!(step->ratio < 1.0 || step->ratio > 1.0)) continue;
        for (int64_t j = 0; j < head->columns; j++) {
            if (final && ota_ranks_tells(head->settings) && step->g[j] > -INFINITY)
                u->sums.temperature += u->g_grad[j] * step->g[j] / step->t;
            u->g_grad[j] *= step->ratio;
        }
    }
    return OTA_OK;
}
