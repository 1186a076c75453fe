/* Fixed rounds moved along one direction: the updates of unrolled.c, differentiated forwards. With d for a
 * tangent and p, q the shares of unrolled.c,
 *
 *     rows      df_i = kappa (t dmu_i / mu_i - sum_j p_ij (dS_ij + dg_j) - p_sink dsink) + by t and RHO
 *     columns   dg_j = by_g dg_j + by_level (t dnu_j / nu_j - sum_i q_ij (dS_ij + df_i)) + by t and strength
 *
 * dS [rows][stride] lies in `gradient` and stays; f_grad and g_grad are left holding df and dg. */
#include "adjoint.h"

#include <string.h>

#include "base/exp2.h"

typedef struct follow_job {
    const ota_unrolled *u;
    const ota_unrolled_tangents *tangents;
    const ota_step *step;
    const double *lift; /* [columns] -t L, -inf where closed */
    double temperature; /* 0 at stages above the final temperature */
} follow_job;

static void row_tangents(void *context, int64_t chunk, int worker) {
    (void)worker;
    const follow_job *job = context;
    const ota_unrolled *u = job->u;
    const ota_head *head = u->head;
    const ota_step *step = job->step;
    const double t = step->t, kappa = ota_unrolled_row_share(head, t),
                 slack = head->row.strength + t;
    double *p = u->row_scratch + chunk * head->scores.stride;
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, head->columns); i++) {
        const double f = step->f[i], mu = head->mu[i];
        u->f_grad[i] = 0.0;
        if (!(f > -INFINITY)) continue;
        const double *s = (const double *)head->scores.data + i * head->scores.stride;
        const double *ds = u->gradient + i * head->scores.stride, shift = t * log(mu) - f / kappa;
        double moved = 0.0, level = 0.0;
        (void)head->host.algebra->exponentials(s, step->g, head->columns, shift, OTA_LOG2_E / t, p);
        for (int64_t j = 0; j < head->columns; j++) {
            if (!(p[j] > 0.0)) continue;
            moved += p[j] * (ds[j] + u->g_grad[j]);
            level += p[j] * (s[j] + step->g[j]);
        }
        if (head->row.sink > -INFINITY) {
            const double rest = exp((head->row.sink - shift) / t);
            moved += rest * job->tangents->sink;
            level += rest * head->row.sink;
        }
        double next = kappa * (t * job->tangents->row[i] / mu - moved) +
                      job->temperature * (f / t + kappa / t * level);
        if (kappa < 1.0) {
            next -= job->temperature * f / slack;
            next += job->tangents->row_strength * f / kappa * t / (slack * slack);
        }
        u->f_grad[i] = next;
    }
}

static void column_tangents(void *context, int64_t chunk, int worker) {
    (void)worker;
    const follow_job *job = context;
    const ota_unrolled *u = job->u;
    const ota_head *head = u->head;
    const double t = job->step->t;
    double *q = u->row_scratch + chunk * head->scores.stride,
           *sum = u->partial + chunk * head->scores.stride;
    int64_t first, last;
    ota_adjoint_rows(head->rows, chunk, &first, &last);
    memset(sum, 0, (size_t)head->columns * sizeof *sum);
    ota_watch watch = ota_watch_of(head->settings);
    for (int64_t i = first; i < last && !ota_watch_ends(&watch, head->columns); i++) {
        const double f = job->step->f[i];
        if (!(f > -INFINITY)) continue;
        const double *s = (const double *)head->scores.data + i * head->scores.stride;
        const double *ds = u->gradient + i * head->scores.stride;
        (void)head->host.algebra->exponentials(s, job->lift, head->columns, -f, OTA_LOG2_E / t, q);
        for (int64_t j = 0; j < head->columns; j++) {
            if (!(q[j] > 0.0)) continue;
            sum[j] += q[j] * (ds[j] + u->f_grad[i] - job->temperature * (s[j] + f) / t);
        }
    }
}

/* False: the communicator failed. */
static bool follow_columns(ota_unrolled *u, follow_job *job) {
    const ota_head *head = u->head;
    const ota_step *step = job->step;
    double *lift = u->more_partial;
    for (int64_t j = 0; j < head->columns; j++)
        lift[j] = step->level[j] > -INFINITY ? -step->t * step->level[j] : -INFINITY;
    job->lift = lift;
    ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, column_tangents, job);
    double *const sums = u->partial;
    for (int64_t c = 1; c < OTA_ADJOINT_CHUNKS; c++) {
        for (int64_t j = 0; j < head->columns; j++)
            sums[j] += u->partial[c * head->scores.stride + j];
    }
    if (!ota_ranks_sum(head->settings, sums, head->columns, NULL, 0, "a round's tangents"))
        return false;
    for (int64_t j = 0; j < head->columns; j++) {
        const ota_key_update update =
            ota_unrolled_key(head, step->t, j, step->g[j], step->level[j]);
        double next = update.by_g * u->g_grad[j] + update.by_t * job->temperature;
        for (int p = 0; p < OTA_RULE_PARAMETERS; p++)
            next += update.by_parameter[p] * job->tangents->parameters[p];
        if (update.by_level > 0.0)
            next += update.by_level * (step->t * job->tangents->column[j] / head->nu[j] - sums[j]);
        u->g_grad[j] = next;
    }
    return true;
}

ota_status ota_unrolled_follow(ota_unrolled *u, const ota_unrolled_tangents *tangents) {
    const ota_head *head = u->head;
    memset(u->f_grad, 0, (size_t)head->rows * sizeof *u->f_grad);
    memset(u->g_grad, 0, (size_t)head->columns * sizeof *u->g_grad);
    for (int64_t k = 0; k < u->step_count; k++) {
        const ota_step *step = &u->steps[k];
        const ota_status going = ota_interrupted_together(head->settings);
        if (going != OTA_OK) return going;
        /* Updates at a higher temperature of the schedule do not move with tau. */
        const bool final = !(step->t > head->tau);
        follow_job job = {.u = u,
                          .tangents = tangents,
                          .step = step,
                          .temperature = final ? tangents->temperature : 0.0};
        const bool kept = step->ratio < 1.0 || step->ratio > 1.0;
        for (int64_t j = 0; j < head->columns && kept; j++) {
            u->g_grad[j] *= step->ratio;
            if (step->g[j] > -INFINITY) u->g_grad[j] += job.temperature * step->g[j] / step->t;
        }
        if (step->kind == OTA_STEP_ROWS)
            ota_parallel(head->host.pool, OTA_ADJOINT_CHUNKS, row_tangents, &job);
        else if (!follow_columns(u, &job))
            return OTA_ECOMM;
    }
    return OTA_OK;
}
