/* How the sums that rows and columns must have move, in the solver's orientation (axis columns: its rows are
 * keys). The transpose of what backward makes of the multipliers:
 *
 *     R_i = mu_i exp(-f_i / RHO)     dR_i = exp(-f_i / RHO) dmu_i + r_i f_i / RHO^2 dRHO
 *     C_j = nu_j exp(-g_j / rho)     dC_j = exp(-g_j / rho) dnu_j + c_j g_j / rho^2 drho     relaxed
 *     C_j = cap m_j                  dC_j = m_j dcap + cap dm_j                              capped
 *     exact, nu given                dC_j = dnu_j + c_j (sum dmu - sum dnu) / sum c
 *     nu not given                   dnu_j = sum dmu / usable keys
 *
 * Fixed rounds take dmu and dnu themselves: their updates know the exponentials. */
#include <math.h>
#include <string.h>

#include "jvp.h"

static double moved(const ota_tangent_job *job, const ota_array *a, int64_t k) {
    return ota_array_present(a) ? ota_array_get(a, job->base.batch, job->base.head, 0, k) : 0.0;
}

double ota_tangent_of_parameter(const ota_tangent_job *job, int k) {
    const ota_rule_parameter *parameters =
        ota_rule_parameters(job->base.plan->resolved.problem.columns);
    for (int past = 0; past <= k; past++) {
        if (parameters[past].name == NULL) return 0.0;
    }
    if (parameters[k].derivative == OTA_DERIVATIVES) return 0.0;
    return ota_tangent_number(ota_tangent_in(job->tangents, parameters[k].derivative), 0);
}

static const ota_array *masses_of_rows(const ota_tangent_job *job) {
    return job->base.plan->strategy.transposed ? &job->tangents->column_mass
                                               : &job->tangents->row_mass;
}

double ota_tangents_of_row(const ota_tangent_job *job, int64_t row, double sum, double f,
                           bool finished) {
    const ota_problem *p = &job->base.plan->resolved.problem;
    const double mass = moved(job, masses_of_rows(job), row);
    if (!(sum > 0.0)) return 0.0;
    if (p->rows != OTA_ROWS_RELAXED || finished) return mass;
    const double strength = ota_tangent_number(&job->tangents->row_strength, 0);
    return exp(-f / p->row_strength) * mass +
           sum * f / (p->row_strength * p->row_strength) * strength;
}

void ota_tangents_of_columns(const ota_tangent_job *job, const ota_mass_rule *rule, double *to) {
    const ota_plan *plan = job->base.plan;
    const ota_problem *p = &plan->resolved.problem;
    const int64_t n = plan->strategy.rows, m = plan->strategy.columns;
    const bool given =
        ota_array_present(plan->strategy.transposed ? &p->row_mass : &p->column_mass);
    const ota_column_rule_row *columns = ota_column_rule_of(p->columns);
    const bool scaled =
        ota_rule_is(columns, OTA_RULE_BALANCED) && !(job->base.parameters.sink > -INFINITY);
    const ota_array *tangents =
        plan->strategy.transposed ? &job->tangents->row_mass : &job->tangents->column_mass;
    memset(to, 0, (size_t)m * sizeof *to);
    if (columns->coupling == OTA_COUPLING_NONE) return;
    double usable = 0.0, total = 0.0, of_rows = 0.0, of_columns = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (rule->row_sum[i] > 0.0) of_rows += moved(job, masses_of_rows(job), i);
    }
    for (int64_t j = 0; j < m; j++) {
        usable += rule->used[j] ? 1.0 : 0.0;
        total += rule->column_sum[j];
        of_columns += given ? moved(job, tangents, j) : 0.0;
    }
    double mass = ota_mass_of_rows(&job->base, rule->row_sum);
    (void)ota_ranks_sum(&plan->resolved.settings, &of_rows, 1, &mass, 1, "the masses of jvp");
    const double share = mass / usable;
    for (int64_t j = 0; j < m; j++) {
        const double c = rule->column_sum[j];
        /* A solution's rule does not bind a key that nothing reaches. */
        if (!rule->finished && !ota_rule_is(columns, OTA_RULE_UNIT_MASSES) && !(c > 0.0)) continue;
        double moves = ota_rule_is(columns, OTA_RULE_UNIT_MASSES) ? moved(job, tangents, j)
                       : given                                    ? moved(job, tangents, j)
                       : rule->used[j]                            ? of_rows / usable
                                                                  : 0.0;
        if (given && scaled && total > 0.0) moves += c * (of_rows - of_columns) / total;
        const ota_target_key key = {
            .mass = ota_mass_of_column(&job->base, j, rule->used[j] ? share : 0.0),
            .sum = c,
            .g = rule->g[j],
            .rounds = rule->finished};
        const ota_target_slope slope = ota_column_target_slope(p, &key, 1.0);
        to[j] = slope.by_mass * moves;
        for (int k = 0; k < OTA_RULE_PARAMETERS; k++)
            to[j] += slope.by_parameter[k] * ota_tangent_of_parameter(job, k);
    }
}
