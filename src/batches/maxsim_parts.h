/* maxsim_parts.h: what scores of otattn_maxsim.h and their gradients have in common. */
#ifndef OTA_MAXSIM_PARTS_H
#define OTA_MAXSIM_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "backend/batch_kernels.h"
#include "otattn_maxsim.h"

/* The caller's problem, whole, and the kernels of its level. */
ota_status ota_maxsim_check(const ota_late_interaction *given, ota_late_interaction *problem,
                            ota_batch_kernels *kernels, ota_error *error);

/* An output [rows][columns]: of whole elements, and away from what is read. */
ota_status ota_maxsim_check_output(const ota_late_interaction *problem, const char *field,
                                   const void *out, const int64_t *sizes, size_t element,
                                   ota_error *error);

/* Tokens of document d and of query q. */
static inline int64_t ota_maxsim_tokens(const ota_late_interaction *p, int64_t d) {
    return p->document_lengths != NULL ? p->document_lengths[d] : p->offsets[d + 1] - p->offsets[d];
}

static inline int64_t ota_maxsim_length(const ota_late_interaction *p, int64_t q) {
    return p->query_lengths != NULL ? p->query_lengths[q] : p->queries.size[2];
}

#endif
