/* What of otattn_maxsim.h is refused, with field, value and remedy. */
#include <inttypes.h>

#include "base/base.h"
#include "maxsim_parts.h"
#include "problem/check.h"
#include "problem/problem.h"

static ota_status check_tokens(const ota_array *x, const char *field, ota_error *error) {
    if (!ota_array_present(x))
        return ota_fail(error, OTA_EINVAL, field, "give an array of token vectors", "%s are absent",
                        field);
    TRY(ota_check_array(x, field, error));
    if (x->type != OTA_F32 && x->type != OTA_BF16 && x->type != OTA_F16)
        return ota_wrong_type(field, x->type, "f32, bf16 or f16", error);
    return OTA_OK;
}

static ota_status check_shapes(const ota_late_interaction *p, ota_error *error) {
    const ota_array *q = &p->queries, *d = &p->documents;
    TRY(check_tokens(q, "queries", error));
    TRY(check_tokens(d, "documents", error));
    if (d->type != q->type)
        return ota_wrong_type("documents", d->type, "the type of queries", error);
    if (q->size[0] != 1 || d->size[0] != 1 || d->size[1] != 1)
        return ota_fail(error, OTA_EINVAL, q->size[0] != 1 ? "queries" : "documents",
                        "queries are [1, queries, tokens, width], documents [1, 1, tokens, width]",
                        "%s have a leading dimension of %" PRId64,
                        q->size[0] != 1 ? "queries" : "documents",
                        q->size[0] != 1 ? q->size[0] : d->size[0] * d->size[1]);
    if (d->size[3] != q->size[3])
        return ota_fail(error, OTA_EINVAL, "documents", "use the same width",
                        "documents have width %" PRId64 " but queries %" PRId64, d->size[3],
                        q->size[3]);
    if (p->document_count < 0)
        return ota_fail(error, OTA_EINVAL, "document_count", "use 0 or more",
                        "document_count is %" PRId64, p->document_count);
    if (p->capacity < 0)
        return ota_fail(error, OTA_EINVAL, "capacity", "use 1 or more, or 0 for max",
                        "capacity is %" PRId64, p->capacity);
    if (p->top < 0 || p->top > p->document_count)
        return ota_fail(error, OTA_EINVAL, "top", "use at most the number of documents",
                        "top is %" PRId64 " of %" PRId64 " documents", p->top, p->document_count);
    if (p->threads < 0 || p->threads > OTA_THREADS_MAX)
        return ota_fail(error, OTA_EINVAL, "threads", "use 0 (all CPUs) to 4096", "threads is %d",
                        p->threads);
    return ota_check_executor(p->executor, error);
}

static ota_status check_lengths(const ota_late_interaction *p, ota_error *error) {
    const int64_t tokens = p->documents.size[2];
    if (p->offsets == NULL)
        return ota_fail(error, OTA_EINVAL, "offsets", "give document_count + 1 places",
                        "offsets is NULL");
    for (int64_t d = 0; d <= p->document_count; d++) {
        const int64_t least = d == 0 ? 0 : p->offsets[d - 1], at = p->offsets[d];
        if (at < least || at > tokens)
            return ota_fail(error, OTA_EINVAL, "offsets",
                            "let them rise from 0 or more to at most the tokens",
                            "offsets[%" PRId64 "] is %" PRId64 ", outside %" PRId64 " to %" PRId64,
                            d, at, least, tokens);
    }
    for (int64_t d = 0; p->document_lengths != NULL && d < p->document_count; d++) {
        const int64_t length = p->document_lengths[d], room = p->offsets[d + 1] - p->offsets[d];
        if (length < 0 || length > room)
            return ota_fail(error, OTA_EINVAL, "document_lengths",
                            "use 0 to the tokens between the offsets",
                            "document_lengths[%" PRId64 "] is %" PRId64 " of %" PRId64 " tokens", d,
                            length, room);
    }
    for (int64_t q = 0; p->query_lengths != NULL && q < p->queries.size[1]; q++) {
        const int64_t length = p->query_lengths[q];
        if (length < 0 || length > p->queries.size[2])
            return ota_fail(error, OTA_EINVAL, "query_lengths", "use 0 to the tokens of queries",
                            "query_lengths[%" PRId64 "] is %" PRId64 " of %" PRId64 " tokens", q,
                            length, p->queries.size[2]);
    }
    return OTA_OK;
}

ota_status ota_maxsim_check_output(const ota_late_interaction *problem, const char *field,
                                   const void *out, const int64_t *sizes, size_t element,
                                   ota_error *error) {
    size_t bytes;
    if ((uintptr_t)out % element != 0)
        return ota_fail(error, OTA_EALIGN, field, "align it to its elements",
                        "%s is not at a multiple of %zu bytes", field, element);
    if (!ota_size_product((const int64_t[]){sizes[0], sizes[1], sizes[2], (int64_t)element}, 4,
                          &bytes))
        return ota_fail(error, OTA_EOVERFLOW, field, "score fewer at once",
                        "%" PRId64 " x %" PRId64 " x %" PRId64 " elements of %s overflow", sizes[0],
                        sizes[1], sizes[2], field);
    const ota_array *const read[] = {&problem->queries, &problem->documents};
    for (int k = 0; k < 2; k++) {
        const char *first, *last;
        ota_array_extent(read[k], &first, &last);
        if ((const char *)out < last && first < (const char *)out + bytes)
            return ota_fail(error, OTA_EALIAS, field, "give it memory of its own", "%s overlaps %s",
                            field, k == 0 ? "queries" : "documents");
    }
    return OTA_OK;
}

ota_status ota_maxsim_check(const ota_late_interaction *given, ota_late_interaction *problem,
                            ota_batch_kernels *kernels, ota_error *error) {
    if (given == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    TRY(ota_check_sized(problem, sizeof *problem, given, given->size, "problem.size", error));
    TRY(check_shapes(problem, error));
    TRY(check_lengths(problem, error));
    if (!ota_batch_kernels_of(problem->cpu, kernels))
        return ota_fail(error, OTA_EINVAL, "cpu", "use a name of ota_kernel_name",
                        "cpu is \"%s\", which this processor does not have", problem->cpu);
    return OTA_OK;
}
