/* Rows of a plan's scores, from the definition of ota_problem in f64 by blocks (backend/blocks):
 *
 *     S = terms(scale Q K^T), or terms(scale matrix); -inf where a mask forbids the pair
 *
 * Keys are transposed once a call; workers take OTA_SCORE_ROWS rows at a time. The one call besides creation that
 * allocates: what it takes, [width + workers * OTA_SCORE_ROWS][keys], no run of a plan needs. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "backend/blocks/blocks.h"
#include "masks/masks.h"
#include "plan.h"
#include "problem/check.h"

enum { OTA_SCORE_ROWS = 16 };

typedef struct score_job {
    const ota_plan *plan;
    ota_resolved resolved; /* where queries stand while a cache grows */
    const ota_array *to;
    int64_t batch, head, first, keys; /* keys that exist */
    int64_t stride;
    double *transposed; /* [width][stride] */
    double *workers;    /* [workers][OTA_SCORE_ROWS][stride] scores, then [OTA_SCORE_ROWS][width] */
} score_job;

static int64_t worker_doubles(const score_job *j) {
    return OTA_SCORE_ROWS * (j->stride + j->resolved.width);
}

/* The keys that any of the rows may see. */
static void see_keys(const score_job *j, int64_t first, int64_t rows, int64_t *begin,
                     int64_t *end) {
    *begin = j->keys;
    *end = 0;
    for (int64_t i = first; i < first + rows; i++) {
        int64_t low, high;
        ota_row_range(&j->resolved, j->batch, i, j->keys, &low, &high);
        if (low >= high) continue;
        *begin = ota_int_min(*begin, low);
        *end = ota_int_max(*end, high);
    }
    if (*begin >= *end) *begin = *end = 0;
}

static void score_rows(void *context, int64_t index, int worker) {
    const score_job *j = context;
    const ota_resolved *r = &j->resolved;
    const ota_host_algebra *algebra = j->plan->strategy.algebra;
    const int64_t at = index * OTA_SCORE_ROWS, first = j->first + at;
    const int64_t rows = ota_int_min(OTA_SCORE_ROWS, j->to->size[2] - at);
    double *scores = j->workers + worker * worker_doubles(j);
    double *queries = scores + OTA_SCORE_ROWS * j->stride;
    int64_t begin, end;
    if (ota_interrupted(&r->settings) != OTA_OK) return;
    see_keys(j, first, rows, &begin, &end);
    const ota_block b = {.problem = r,
                         .algebra = algebra,
                         .batch = j->batch,
                         .head = j->head,
                         .first = first,
                         .rows = rows,
                         .key = begin,
                         .keys = end - begin,
                         .stride = j->stride,
                         .scores = scores + begin};
    if (end > begin) ota_block_form_scores(&b, queries, j->transposed + begin, j->stride);
    for (int64_t k = 0; k < rows; k++) {
        double *s = scores + k * j->stride;
        for (int64_t c = 0; c < begin; c++) s[c] = -INFINITY;
        for (int64_t c = end; c < r->keys; c++) s[c] = -INFINITY;
    }
    algebra->write_rows(j->to, 0, 0, at, rows, scores, j->stride);
}

static ota_status check_place(const ota_plan *plan, int64_t batch, int64_t head, int64_t first,
                              const ota_array *scores, ota_error *error) {
    if (plan == NULL || scores == NULL)
        return ota_fail(error, OTA_EINVAL, plan == NULL ? "plan" : "scores", "give one",
                        "%s is NULL", plan == NULL ? "plan" : "scores");
    const ota_resolved *r = &plan->resolved;
    if (plan->driver != NULL)
        return ota_fail(error, OTA_UNSUPPORTED, "communicator", "make a plan of whole heads",
                        "scores of a plan of many processes are not offered");
    if (batch < 0 || batch >= r->batch || head < 0 || head >= r->heads)
        return ota_fail(
            error, OTA_EINVAL, batch < 0 || batch >= r->batch ? "batch" : "head", "count from 0",
            "head %" PRId64 " of batch %" PRId64 " is not among %" PRId64 " of %" PRId64, head,
            batch, r->heads, r->batch);
    TRY(ota_check_array(scores, "scores", error));
    if (!ota_is_float(scores->type))
        return ota_wrong_type("scores", scores->type, "a float", error);
    const int64_t rows = scores->size[2];
    if (scores->size[0] != 1 || scores->size[1] != 1 || scores->size[3] != r->keys || first < 0 ||
        rows > r->queries - first)
        return ota_fail(error, OTA_EINVAL, "scores",
                        "give [1, 1, rows, keys], whose rows lie among the plan's queries",
                        "scores are [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                        "] from row %" PRId64 " of %" PRId64 " queries and %" PRId64 " keys",
                        scores->size[0], scores->size[1], rows, scores->size[3], first, r->queries,
                        r->keys);
    return OTA_OK;
}

ota_status ota_plan_scores(const ota_plan *plan, int64_t batch, int64_t head, int64_t first,
                           int64_t key_count, const ota_array *scores, ota_error *error) {
    TRY(check_place(plan, batch, head, first, scores, error));
    score_job j = {.plan = plan,
                   .resolved = plan->resolved,
                   .to = scores,
                   .batch = batch,
                   .head = head,
                   .first = first,
                   .keys = key_count != 0 ? key_count : plan->resolved.keys,
                   .stride = plan->strategy.padded_keys};
    if (key_count != 0 && (key_count < j.resolved.queries || key_count > j.resolved.keys))
        return ota_fail(error, OTA_EINVAL, "key_count", "0 means all keys",
                        "key_count is %" PRId64 ", wanted %" PRId64 " to %" PRId64, key_count,
                        j.resolved.queries, j.resolved.keys);
    if (key_count != 0) j.resolved.offset = key_count - j.resolved.queries;
    const bool products = !j.resolved.from_matrix && j.resolved.width > 0;
    const int64_t workers = ota_pool_threads(plan->pool);
    const int64_t rows = (products ? j.resolved.width : 0) + workers * OTA_SCORE_ROWS;
    j.transposed =
        calloc((size_t)(rows + 1), (size_t)(j.stride + j.resolved.width) * sizeof(double));
    if (j.transposed == NULL)
        return ota_fail(error, OTA_ENOMEM, "scores", "ask for fewer threads",
                        "no memory is left for scores of %" PRId64 " keys", j.resolved.keys);
    j.workers = j.transposed + (products ? j.resolved.width * j.stride : 0);
    if (products)
        ota_block_read_keys(plan->strategy.algebra, &j.resolved.problem.keys, batch,
                            head / (j.resolved.heads / j.resolved.key_heads), j.keys,
                            &(ota_block_keys){j.transposed, j.workers, NULL, j.stride});
    ota_parallel(plan->pool, ota_int_ceil_div(scores->size[2], OTA_SCORE_ROWS), score_rows, &j);
    free(j.transposed);
    const ota_status status = ota_interrupted(&plan->resolved.settings);
    if (status == OTA_OK) return OTA_OK;
    return ota_fail(error, status, NULL, NULL, "%s", ota_status_text(status));
}
