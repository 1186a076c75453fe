/* What rows add to the system of a coupled head (blocks.h): slopes in the solver's orientation, sums by rows and by keys. With
 * m_i = right_i / den_i of the solver's rows,
 *
 *     den_i = sum_j w_ij + rest_i     right_i = sum_j w_ij U_ij + rest_i U_i - tau dR_i     right_j = sum_i w_ij (U_ij - m_i)
 *
 * Where rows of the solver are queries m is known with the row; where they are keys, m is 0 until all queries came by, and of a query
 * there is the sum of its weights. */
#include "blocks.h"

#include <string.h>

/* ---- matrices ------------------------------------------------------------------------------------- */

void ota_block_put(const ota_block *b, const double *from, const ota_block_matrix *to) {
    double *at = to->data + b->first * to->query_step + b->key * to->key_step;
    for (int64_t k = 0; k < b->rows && to->key_step == 1; k++)
        memcpy(at + k * to->query_step, from + k * b->stride, (size_t)b->keys * sizeof *at);
    for (int64_t j = 0; j < b->keys && to->key_step != 1; j++) {
        for (int64_t k = 0; k < b->rows; k++)
            at[j * to->key_step + k * to->query_step] = from[k * b->stride + j];
    }
}

void ota_block_take(const ota_block *b, const ota_block_matrix *from, double *to) {
    const double *at = from->data + b->first * from->query_step + b->key * from->key_step;
    for (int64_t j = 0; j < b->keys; j++) {
        for (int64_t k = 0; k < b->rows; k++)
            to[k * b->stride + j] = at[j * from->key_step + k * from->query_step];
    }
}

void ota_block_put_scores(const ota_block *b, const ota_block_matrix *scores,
                          const ota_block_matrix *upstream) {
    ota_block_put(b, b->scores, scores);
    for (int64_t k = 0; k < b->rows; k++) {
        const double *s = b->scores + k * b->stride;
        double *u = b->slopes + k * b->stride;
        for (int64_t j = 0; j < b->keys; j++) u[j] = s[j] > -INFINITY ? u[j] : 0.0;
    }
    if (upstream->data != NULL) ota_block_put(b, b->slopes, upstream);
}

void ota_block_apply_multipliers(const ota_block *b, int64_t k, const ota_backward_job *job,
                                 bool transposed, double *to) {
    const ota_backward_space *space = job->space;
    const int64_t query = b->first + k;
    const bool alone = job->mode == OTA_BACKWARD_FREE || job->mode == OTA_BACKWARD_ONLINE,
               steep = ota_backward_is_steep(job);
    double *u = b->slopes + k * b->stride;
    for (int64_t j = 0; j < b->keys && steep; j++)
        u[j] = ota_steep_advantage(space, transposed, query, j, u[j]);
    ota_block_apply_slopes(b, k, steep ? 0.0 : space->a[query], steep || alone ? NULL : space->b,
                           !space->bad[query], to);
}

/* ---- sums ----------------------------------------------------------------------------------------- */

static int64_t key_of(const ota_system_row *row, int64_t e) {
    return row->keys == NULL ? e : row->keys[e];
}

void ota_system_measure(const ota_system_row *row, ota_block_row *rest, int64_t i,
                        const ota_steep_rows *steep) {
    double most = rest->sink_slope;
    int64_t steepest = -1;
    for (int64_t e = 0; e < row->count; e++) {
        if (!(row->slopes[e] > most)) continue;
        most = row->slopes[e];
        steepest = e;
    }
    if (row->u != NULL) rest->middle = steepest < 0 ? rest->sink_u : row->u[steepest];
    steep->column[i] = steepest < 0 ? -1 : key_of(row, steepest);
    steep->middle[i] = rest->middle;
    steep->rest[i] = rest->sink_slope + rest->soft;
    for (int64_t e = 0; e < row->count && row->u != NULL; e++)
        row->u[e] = e == steepest ? 0.0 : row->u[e] - rest->middle;
}

void ota_system_measure_by_keys(const ota_block *b, int64_t k, const ota_backward_job *job) {
    double *u = b->slopes + k * b->stride;
    for (int64_t j = 0; j < b->keys && ota_backward_is_steep(job); j++)
        u[j] = ota_steep_upstream(job->space, true, b->first + k, j, u[j]);
}

static void add_term(const ota_system_row *row, int64_t e, int64_t j, double mean,
                     const ota_chunk_sums *to) {
    const double w = row->slopes[e], u = row->u[e];
    const double right = w * (u - mean), term = w * (fabs(u - mean) + OTA_OFFSET_SHARE * fabs(u));
    to->right[j] += w > 0.0 ? right : 0.0;
    to->right_terms[j] += w > 0.0 ? term : 0.0;
}

static void add_by_keys(const ota_system_row *row, double mean, const ota_chunk_sums *to) {
    const int64_t count = row->count;
    if (row->keys == NULL) {
        for (int64_t j = 0; j < count && to->plan != NULL; j++) to->plan[j] += row->weights[j];
        for (int64_t j = 0; j < count && to->slopes != NULL; j++) to->slopes[j] += row->slopes[j];
        for (int64_t j = 0; j < count; j++) add_term(row, j, j, mean, to);
        return;
    }
    for (int64_t e = 0; e < count; e++) {
        to->plan[row->keys[e]] += row->weights[e];
        add_term(row, e, row->keys[e], mean, to);
    }
    for (int64_t e = 0; e < row->full; e++) to->plan[row->full_keys[e]] += row->full_weights[e];
}

ota_system_totals ota_system_add(const ota_system_row *row, const ota_block_row *rest, double moved,
                                 bool by_row, const ota_chunk_sums *to) {
    const double *w = row->slopes, *u = row->u;
    ota_system_totals found = {.den = rest->sink_slope,
                               .right = rest->sink_slope * (rest->sink_u - rest->middle) -
                                        rest->soft * rest->middle};
    for (int64_t e = 0; e < row->count && by_row; e++) {
        found.den += w[e];
        if (u != NULL && w[e] > 0.0) found.right += w[e] * u[e];
    }
    for (int64_t e = 0; e < row->count && !by_row; e++) found.sum += row->weights[e];
    found.right -= moved;
    const double den = found.den + rest->soft;
    if (u != NULL) add_by_keys(row, by_row && den > 0.0 ? found.right / den : 0.0, to);
    return found;
}

void ota_system_add_query(const double *slopes, const double *u, int64_t count, const double *means,
                          double *right, double *terms) {
    *right = *terms = 0.0;
    for (int64_t j = 0; j < count; j++) {
        const double w = slopes[j], away = u[j] - means[j];
        if (!(w > 0.0)) continue;
        *right += w * away;
        *terms += w * (fabs(away) + OTA_OFFSET_SHARE * fabs(u[j]));
    }
}
