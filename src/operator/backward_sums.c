/* Gradients of what many pairs share: terms, temperature, sink, masses, parameters. Kept in f64 in the
 * shape of the caller's array, added head after head and inside a head chunk after chunk, so that no bit
 * depends on threads, and rounded once at the end. */
#include "backward.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void clear(double *x, int64_t count) {
    if (count > 0) memset(x, 0, (size_t)count * sizeof *x);
}

void ota_sums_clear(ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    ota_backward_space *s = plan->backward;
    clear(s->sums.row_mass, r->batch * r->heads * r->queries);
    clear(s->sums.column_mass, r->batch * r->heads * r->keys);
    clear(s->sums.temperature, r->heads);
    clear(s->sums.alibi, r->heads);
    clear(s->sums.sink, r->heads);
    s->sums.order = s->sums.row_strength = s->sums.softcap = 0.0;
    memset(s->sums.parameters, 0, sizeof s->sums.parameters);
    for (int t = 0; t < r->term_count; t++) clear(s->sums.terms[t].sum, s->sums.terms[t].count);
}

void ota_sums_of_head(const ota_backward_job *job) {
    const ota_resolved *r = &job->plan->resolved;
    ota_backward_space *s = job->space;
    double sums[OTA_ROW_SUMS] = {0.0};
    for (int64_t i = 0; i < r->queries; i++) {
        for (int k = 0; k < OTA_ROW_SUMS; k++) sums[k] += s->row_sums[i * OTA_ROW_SUMS + k];
    }
    s->sums.temperature[job->head] += sums[OTA_SUM_TEMPERATURE];
    s->sums.order += sums[OTA_SUM_ORDER];
    s->sums.sink[job->head] += sums[OTA_SUM_SINK];
    s->sums.alibi[job->head] += sums[OTA_SUM_ALIBI];
    s->sums.softcap += sums[OTA_SUM_SOFTCAP];
    for (int t = 0; t < r->term_count; t++) {
        const ota_term_sum *sum = &s->sums.terms[t];
        double *to = sum->length > 0 ? ota_term_slice(job, t) : NULL;
        for (int64_t k = 0; k < sum->length; k++) {
            for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++)
                to[k] += sum->partial[c * sum->length + k];
        }
    }
}

/* ---- out -------------------------------------------------------------------------------------- */

static void put_number(const ota_array *to, double value) {
    if (to != NULL && ota_array_present(to)) ota_array_set(to, 0, 0, 0, 0, value);
}

/* One per head, or their sum. */
static void put_heads(const ota_array *to, const double *from, int64_t heads) {
    if (to == NULL || !ota_array_present(to)) return;
    if (to->size[3] == heads) {
        for (int64_t h = 0; h < heads; h++) ota_array_set(to, 0, 0, 0, h, from[h]);
        return;
    }
    double sum = 0.0;
    for (int64_t h = 0; h < heads; h++) sum += from[h];
    ota_array_set(to, 0, 0, 0, 0, sum);
}

/* from [batch][heads][length], summed over the dimensions that `to` shares. */
static void put_vector(const ota_array *to, const double *from, int64_t batch, int64_t heads,
                       int64_t length) {
    if (!ota_array_present(to)) return;
    const int64_t last_batch = to->size[0] == 1 ? 0 : batch - 1;
    const int64_t last_head = to->size[1] == 1 ? 0 : heads - 1;
    for (int64_t b = 0; b <= last_batch; b++) {
        for (int64_t h = 0; h <= last_head; h++) {
            for (int64_t k = 0; k < length; k++) {
                double sum = 0.0;
                for (int64_t i = b; i < batch; i += last_batch + 1) {
                    for (int64_t j = h; j < heads; j += last_head + 1)
                        sum += from[(i * heads + j) * length + k];
                }
                ota_array_set(to, b, h, 0, k, sum);
            }
        }
    }
}

static void put_matrix(const ota_array *to, const double *from) {
    for (int64_t b = 0; b < to->size[0]; b++) {
        for (int64_t h = 0; h < to->size[1]; h++) {
            for (int64_t i = 0; i < to->size[2]; i++) {
                for (int64_t j = 0; j < to->size[3]; j++) ota_array_set(to, b, h, i, j, *from++);
            }
        }
    }
}

void ota_sums_write(ota_plan *plan, const ota_gradients *want) {
    const ota_resolved *r = &plan->resolved;
    const ota_backward_space *s = plan->backward;
    put_heads(&want->temperature, s->sums.temperature, r->heads);
    put_number(&want->order, s->sums.order);
    const ota_rule_parameter *parameter = ota_rule_parameters(r->problem.columns);
    for (int k = 0; k < OTA_RULE_PARAMETERS && parameter[k].name != NULL; k++) {
        if (parameter[k].derivative < OTA_DERIVATIVES)
            put_number(ota_gradient_in(want, parameter[k].derivative), s->sums.parameters[k]);
    }
    put_number(&want->row_strength, s->sums.row_strength);
    put_vector(&want->row_mass, s->sums.row_mass, r->batch, r->heads, r->queries);
    put_vector(&want->column_mass, s->sums.column_mass, r->batch, r->heads, r->keys);
    if (r->has_sink)
        put_heads(ota_gradient_of_term(r, want, r->term_count), s->sums.sink, r->heads);
    for (int t = 0; t < r->term_count; t++) {
        const ota_array *to = ota_gradient_of_term(r, want, t);
        if (to == NULL) continue;
        const ota_term_form form = ota_term_form_of(&r->terms[t]);
        if (form == OTA_FORM_LINEAR_DISTANCE)
            put_heads(to, s->sums.alibi, r->heads);
        else if (form == OTA_FORM_SOFTCAP)
            put_number(to, s->sums.softcap);
        else if (!s->sums.terms[t].direct)
            put_matrix(to, s->sums.terms[t].sum);
    }
}

void ota_sums_of_parameters(ota_backward_space *s, const ota_unrolled_sums *sums) {
    for (int k = 0; k < OTA_RULE_PARAMETERS; k++) s->sums.parameters[k] += sums->parameters[k];
}

/* ---- masses ----------------------------------------------------------------------------------- */

/* Fixed rounds hand over derivatives by mu and the target; at a solution they are the multipliers, times
 * what the rule's own exponentials make of them:
 *
 *     R_i = mu_i exp(-f_i / RHO)     C_j = nu_j exp(-g_j / rho)     exact: nu scaled to the total of mu */
double ota_mass_of_rows(const ota_backward_job *job, const double *row_sum) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    double total = 0.0;
    for (int64_t i = 0; i < plan->strategy.rows; i++) {
        if (!(row_sum[i] > 0.0)) continue;
        total += plan->strategy.transposed ? ota_column_mass(r, job->batch, job->head, i, 1.0)
                                           : ota_row_mass(r, job->batch, job->head, i);
    }
    return total;
}

double ota_mass_of_column(const ota_backward_job *job, int64_t j, double share) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_column_rule_row *rule = ota_column_rule_of(r->problem.columns);
    const bool given = ota_array_present(plan->strategy.transposed ? &r->problem.row_mass
                                                                   : &r->problem.column_mass);
    if (given)
        return plan->strategy.transposed ? ota_row_mass(r, job->batch, job->head, j)
                                         : ota_column_mass(r, job->batch, job->head, j, 1.0);
    return ota_rule_is(rule, OTA_RULE_UNIT_MASSES) ? 1.0 : share;
}

void ota_sums_of_masses(const ota_backward_job *job, const ota_mass_rule *rule) {
    const ota_plan *plan = job->plan;
    const ota_resolved *r = &plan->resolved;
    const ota_problem *p = &r->problem;
    ota_backward_space *s = job->space;
    const int64_t n = plan->strategy.rows, m = plan->strategy.columns;
    const int64_t index = job->batch * r->heads + job->head;
    double *of_rows =
        plan->strategy.transposed ? s->sums.column_mass + index * n : s->sums.row_mass + index * n;
    double *of_columns =
        plan->strategy.transposed ? s->sums.row_mass + index * m : s->sums.column_mass + index * m;
    const ota_column_rule_row *columns = ota_column_rule_of(p->columns);
    const bool relaxed_rows = p->rows == OTA_ROWS_RELAXED && !rule->finished;
    const bool given =
        ota_array_present(plan->strategy.transposed ? &p->row_mass : &p->column_mass);
    for (int64_t i = 0; i < n; i++) {
        if (!(rule->row_sum[i] > 0.0)) continue;
        const double shrunk = relaxed_rows ? exp(-rule->f[i] / p->row_strength) : 1.0;
        of_rows[i] = rule->a[i] * shrunk;
        if (relaxed_rows) {
            s->sums.row_strength +=
                rule->a[i] * rule->row_sum[i] * rule->f[i] / (p->row_strength * p->row_strength);
        }
    }
    if (columns->coupling == OTA_COUPLING_NONE) return;
    double usable = 0.0, column_sum = 0.0, total = 0.0;
    for (int64_t j = 0; j < m; j++) usable += rule->used[j] ? 1.0 : 0.0;
    double mass = ota_mass_of_rows(job, rule->row_sum);
    (void)ota_ranks_sum(&r->settings, &mass, 1, NULL, 0, "the mass of the rows in backward");
    const double share = mass / usable;
    const bool tells = ota_ranks_tells(&r->settings);
    for (int64_t j = 0; j < m; j++) {
        const double b = rule->b[j], c = rule->column_sum[j];
        const ota_target_key key = {.mass = ota_mass_of_column(job, j, rule->used[j] ? share : 0.0),
                                    .sum = c,
                                    .g = rule->g[j],
                                    .rounds = rule->finished};
        const ota_target_slope slope = ota_column_target_slope(p, &key, b);
        of_columns[j] = slope.by_mass;
        for (int k = 0; k < OTA_RULE_PARAMETERS && tells; k++)
            s->sums.parameters[k] += slope.by_parameter[k];
        total += c;
        column_sum += given ? b * c : rule->used[j] ? of_columns[j] : 0.0;
    }
    const bool sink = job->parameters.sink > -INFINITY;
    const bool scaled = ota_rule_is(columns, OTA_RULE_BALANCED) && !sink;
    const bool follows = !ota_rule_is(columns, OTA_RULE_UNIT_MASSES) && (!given || scaled);
    /* The target moves with the total of the rows. */
    const double count = given ? total : usable, mean = count > 0.0 ? column_sum / count : 0.0;
    for (int64_t i = 0; i < n && follows; i++) {
        if (rule->row_sum[i] > 0.0) of_rows[i] += mean;
    }
    for (int64_t j = 0; j < m && follows && scaled && given; j++) of_columns[j] -= mean;
    if (!tells) memset(of_columns, 0, (size_t)m * sizeof *of_columns);
}

/* Of column j of the plan, where masses are given. */
static double given_mass(const ota_backward_job *job, int64_t j) {
    const ota_resolved *r = &job->plan->resolved;
    return job->plan->strategy.transposed ? ota_row_mass(r, job->batch, job->head, j)
                                          : ota_column_mass(r, job->batch, job->head, j, 1.0);
}

double ota_sums_missed(const ota_backward_job *job, const ota_mass_rule *rule) {
    const ota_resolved *r = &job->plan->resolved;
    const ota_problem *p = &r->problem;
    const ota_array *given = job->plan->strategy.transposed ? &p->row_mass : &p->column_mass;
    const ota_column_rule_row *column_rule = ota_column_rule_of(p->columns);
    const int64_t m = job->plan->strategy.columns;
    ota_column_parameters key = ota_column_parameters_of(p);
    double total = 0.0, count = 0.0, missed = 0.0;
    for (int64_t j = 0; j < m; j++) {
        total += rule->column_sum[j];
        count += rule->column_sum[j] > 0.0;
    }
    if (!(ota_rule_is(column_rule, OTA_RULE_BALANCED) || key.floor > 0.0) || !(total > 0.0))
        return 0.0;
    if (!ota_array_present(given) && job->parameters.sink > -INFINITY) return 0.0;
    if (ota_rule_is(column_rule, OTA_RULE_BALANCED)) key.floor = 1.0;
    double asked = 0.0;
    for (int64_t j = 0; j < m && ota_array_present(given); j++) asked += given_mass(job, j);
    /* The solve scales masses whose totals rounding may have parted. */
    const bool scales = ota_rule_is(column_rule, OTA_RULE_BALANCED) && asked > 0.0 &&
                        !(job->parameters.sink > -INFINITY) &&
                        fabs(asked - total) > DBL_EPSILON * (double)m * total;
    for (int64_t j = 0; j < m; j++) {
        const double sum = rule->column_sum[j];
        double mass = sum > 0.0 ? total / count : 0.0;
        if (ota_array_present(given)) mass = given_mass(job, j);
        if (scales) mass *= total / asked;
        const double most = ota_column_target(p, mass);
        missed += fmax(0.0, fmax(sum - most, key.floor * most - sum));
    }
    return missed / total;
}

bool ota_sums_stand(const ota_backward_job *job) {
    static const double of_tolerance = 4.0, least = 1.0e-5;
    return job->residual <= fmax(of_tolerance * job->plan->resolved.settings.stop.tolerance, least);
}
