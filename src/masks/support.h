/* The table behind support.c: a support either bounds each row's keys by an interval or answers pair by
 * pair (then it makes row_terms true). */
#ifndef OTA_SUPPORT_H
#define OTA_SUPPORT_H

#include "problem/problem.h"

typedef struct ota_support_law {
    /* Narrows [*begin, *end); NULL when the support is not an interval of keys. */
    void (*range)(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                  int64_t *begin, int64_t *end);
    /* NULL when `range` says everything. */
    bool (*allows)(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t head,
                   int64_t query, int64_t key);
} ota_support_law;

const ota_support_law *ota_support_law_of(ota_support_kind kind);

#endif
