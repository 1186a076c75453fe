/* What every backend and the operator share of one head's gradients. */
#include "gradient.h"

#include <string.h>

const ota_array *ota_gradient_of_term(const ota_resolved *r, const ota_gradients *want, int t) {
    if (want->terms == NULL) return NULL;
    const ota_array *a = &want->terms[t == r->term_count ? r->sink_place : r->term_places[t]];
    return ota_array_present(a) ? a : NULL;
}

double *ota_term_slice(const ota_backward_job *job, int t) {
    const ota_array *a = &job->resolved->terms[t].array;
    const int64_t batch = a->size[0] == 1 ? 0 : job->batch, head = a->size[1] == 1 ? 0 : job->head;
    return job->space->sums.terms[t].sum + (batch * a->size[1] + head) * a->size[2] * a->size[3];
}

void ota_backward_add_chunks(const ota_backward_space *s, const double *chunks, int64_t count,
                             double *to) {
    for (int64_t k = 0; k < count; k++) to[k] = 0.0;
    for (int64_t c = 0; c < OTA_ADJOINT_CHUNKS; c++, chunks += s->lane) {
        for (int64_t k = 0; k < count; k++) to[k] += chunks[k];
    }
}

ota_chunk_sums ota_backward_chunk(const ota_backward_space *s, int64_t chunk) {
    const int64_t at = chunk * s->lane;
    return (ota_chunk_sums){s->chunks.right + at, s->chunks.right_terms + at, s->chunks.plan + at,
                            s->chunks.slopes + at};
}

void ota_backward_clear_chunks(const ota_backward_space *s, int64_t first, int64_t count) {
    double *const sums[] = {s->chunks.right, s->chunks.right_terms, s->chunks.plan,
                            s->chunks.slopes};
    const size_t bytes = (size_t)(count * s->lane) * sizeof(double);
    for (size_t k = 0; k < sizeof sums / sizeof sums[0]; k++)
        memset(sums[k] + first * s->lane, 0, bytes);
}
