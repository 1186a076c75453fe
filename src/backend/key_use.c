/* Which rows may use a key, pair by pair: asked of keys whose column sum is 0 alone. */
#include "backend/backend.h"
#include "backend/cpu/scores.h"
#include "masks/masks.h"

/* Of the solver's row i and column j; `transposed`: a key and a query. */
static bool allows(const ota_resolved *r, int64_t batch, int64_t head, bool transposed, int64_t i,
                   int64_t j) {
    const int64_t query = transposed ? j : i, key = transposed ? i : j;
    int64_t begin, end;
    ota_row_range(r, batch, query, r->keys, &begin, &end);
    if (key < begin || key >= end) return false;
    double score =
        r->from_matrix ? ota_array_get(&r->problem.scores, batch, head, query, key) : 0.0;
    ota_row_scores(r, batch, head, query, key, key + 1, &score);
    return score > -INFINITY;
}

bool ota_key_has_row(const ota_resolved *r, int64_t batch, int64_t head, bool transposed,
                     const double *mu, int64_t rows, int64_t key) {
    for (int64_t i = 0; i < rows; i++) {
        if ((mu == NULL || mu[i] > 0.0) && allows(r, batch, head, transposed, i, key)) return true;
    }
    return false;
}
