/* masks.h: a support, one of the masks that say which pairs may carry weight, is a row of a table. Structured kinds bound
 * the keys of a query by an interval, so that whole tiles are skipped; the others answer pair by pair.
 *
 *     position of query i: i + offset     pair allowed = AND over the supports        [TOT-43..48]
 *
 * This folder: each kind of support is a row of the table in masks.c; positions.c has causal, window, strided and
 * block. Backends ask ota_row_range for the keys of a query, and rows for single pairs. A new mask is a row; with
 * an array of pairs of its own it is a form, too, which backends read. May call: base/ and problem/. */
#ifndef OTA_MASKS_H
#define OTA_MASKS_H

#include "base/integers.h"
#include "problem/key_block.h"
#include "problem/problem.h"

/* How the entries of whole rows say what `allows` says of one pair. */
typedef enum ota_support_form {
    OTA_FORM_POSITIONS, /* no array of pairs: range, or allows */
    OTA_FORM_FLAGS,     /* array: > 0 allows */
    OTA_FORM_ADDENDS    /* array: is added to S or, far down, forbids */
} ota_support_form;

typedef struct ota_support_row {
    const char *name;
    ota_support_form form;
    /* The validation; may bring parameters into range. */
    ota_status (*check)(const ota_resolved *r, ota_support *s, ota_error *error);
    /* Narrows [*begin, *end); NULL when the support is not an interval of keys. */
    void (*range)(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t query,
                  int64_t *begin, int64_t *end);
    /* NULL when `range` says everything. */
    bool (*allows)(const ota_resolved *r, const ota_support *s, int64_t batch, int64_t head,
                   int64_t query, int64_t key);
    /* The support on a block of keys, `*length` a place for one number; NULL: it knows positions alone. */
    void (*cut)(const ota_key_block *block, ota_support *s, int64_t *length);
} ota_support_row;

/* masks.c; NULL: no such kind */
const ota_support_row *ota_support_of(ota_support_kind kind);

/* The validation: fills its part of `r` from r->problem; and the part of `to` of a block of keys. */
ota_status ota_resolve_supports(ota_resolved *r, ota_error *error);
void ota_key_block_supports(const ota_key_block *block, ota_resolved *to);

/* Keys [*begin, *end) outside which nothing is allowed for this query, from the structured
 * supports (causal, window, block, lengths; key_count further limits); begin == end when empty. */
void ota_row_range(const ota_resolved *r, int64_t batch, int64_t query, int64_t key_count,
                   int64_t *begin, int64_t *end);
/* Is the pair allowed by every support but additive -inf and -inf scores? (plain, one pair) */
bool ota_pair_allowed(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                      int64_t key);

/* The rows. */
extern const ota_support_row ota_support_causal, ota_support_window, ota_support_strided,
    ota_support_block, ota_support_lengths, ota_support_boolean, ota_support_additive;

#endif
