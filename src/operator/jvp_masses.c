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

static const ota_array *masses_of_rows(const ota_tangent_job *job) {
    return job->base.plan->course.transposed ? &job->along->column_mass : &job->along->row_mass;
}

double ota_tangents_of_row(const ota_tangent_job *job, int64_t row, double sum, double f,
                           bool finished) {
    const ota_problem *p = &job->base.plan->resolved.problem;
    const double mass = moved(job, masses_of_rows(job), row);
    if (!(sum > 0.0)) return 0.0;
    if (p->rows != OTA_ROWS_RELAXED || finished) return mass;
    const double strength = ota_tangent_number(&job->along->row_strength, 0);
    return exp(-f / p->row_strength) * mass +
           sum * f / (p->row_strength * p->row_strength) * strength;
}

static void of_caps(const ota_tangent_job *job, double *to) {
    const ota_plan *plan = job->base.plan;
    const ota_resolved *r = &plan->resolved;
    const int64_t batch = job->base.batch, head = job->base.head;
    const double cap = ota_tangent_number(&job->along->cap, 0);
    const bool given =
        ota_array_present(plan->course.transposed ? &r->problem.row_mass : &r->problem.column_mass);
    const ota_array *along =
        plan->course.transposed ? &job->along->row_mass : &job->along->column_mass;
    for (int64_t j = 0; j < plan->course.columns; j++) {
        const double mass = !given                    ? 1.0
                            : plan->course.transposed ? ota_row_mass(r, batch, head, j)
                                                      : ota_column_mass(r, batch, head, j, 1.0);
        to[j] = cap * mass + r->problem.cap * moved(job, along, j);
    }
}

void ota_tangents_of_columns(const ota_tangent_job *job, const ota_mass_rule *rule, double *to) {
    const ota_plan *plan = job->base.plan;
    const ota_problem *p = &plan->resolved.problem;
    const int64_t n = plan->course.rows, m = plan->course.columns;
    const bool given = ota_array_present(plan->course.transposed ? &p->row_mass : &p->column_mass);
    const bool relaxed = p->columns == OTA_COLUMNS_RELAXED && !rule->finished;
    const bool scaled = p->columns == OTA_COLUMNS_EXACT && !(job->base.parameters.sink > -INFINITY);
    const ota_array *along =
        plan->course.transposed ? &job->along->row_mass : &job->along->column_mass;
    memset(to, 0, (size_t)m * sizeof *to);
    if (p->columns == OTA_COLUMNS_FREE) return;
    if (p->columns == OTA_COLUMNS_CAPPED) {
        of_caps(job, to);
        return;
    }
    double usable = 0.0, total = 0.0, rows = 0.0, columns = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (rule->row_sum[i] > 0.0) rows += moved(job, masses_of_rows(job), i);
    }
    for (int64_t j = 0; j < m; j++) {
        usable += rule->used[j] ? 1.0 : 0.0;
        total += rule->column_sum[j];
        columns += given ? moved(job, along, j) : 0.0;
    }
    const double strength = relaxed ? ota_tangent_number(&job->along->strength, 0) : 0.0;
    for (int64_t j = 0; j < m; j++) {
        const double c = rule->column_sum[j], g = rule->g[j];
        /* A solution's rule does not bind a key that nothing reaches. */
        if (!rule->finished && !(c > 0.0)) continue;
        double mass = given ? moved(job, along, j) : rule->used[j] ? rows / usable : 0.0;
        if (given && scaled && total > 0.0) mass += c * (rows - columns) / total;
        to[j] = relaxed && g > -INFINITY ? exp(-g / p->strength) * mass : mass;
        if (relaxed && c > 0.0) to[j] += c * g / (p->strength * p->strength) * strength;
    }
}
