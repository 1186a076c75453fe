/* terms.h: what turns products into scores, a row of a table a kind of term, in the order in which they apply:
 *
 *     S = softcap(scale (raw + inside)) + alibi + relative + dense        and a sink, one more key of logit `value`
 *
 * raw = Q K^T, or entries of the caller's matrix.
 *
 * This folder: each kind of term is a row of the table in terms.c; the arithmetic of each form, in the type of the
 * scores, is a backend's. A new term is a row; a new form is one more entry in the backend, and in gradients and
 * tangents. May call: base/ and problem/. */
#ifndef OTA_TERMS_H
#define OTA_TERMS_H

#include "problem/key_block.h"
#include "problem/problem.h"

/* What a term does to the row of a query. */
typedef enum ota_term_form {
    OTA_FORM_ADDS_PAIRS,       /* array[b, h, i, j] is added or, far down, forbids */
    OTA_FORM_ADDS_DIFFERENCES, /* array[h, i - j + keys - 1] is added */
    OTA_FORM_LINEAR_DISTANCE,  /* slope |position i - j| is taken off */
    OTA_FORM_SOFTCAP,          /* S = value tanh(S / value) */
    OTA_FORM_ADDS_KEY          /* not on scores: one more key */
} ota_term_form;

typedef struct ota_term_row {
    const char *name; /* as errors call it */
    ota_term_form form;
    int rank;     /* place in the order of application */
    bool inside;  /* before the scale */
    bool repeats; /* a problem may have several */
    bool
        of_shape; /* its array belongs to one number of queries and keys: no cache may grow under it */
    ota_status (*check)(const ota_resolved *r, const ota_term *term, ota_error *error);
    /* The term on a block of keys; NULL: it knows positions and scores alone. */
    void (*cut)(const ota_key_block *block, ota_term *term);
} ota_term_row;

/* terms.c; NULL: no such kind */
const ota_term_row *ota_term_of(ota_term_kind kind);

/* Of a term that has been checked. */
static inline ota_term_form ota_term_form_of(const ota_term *term) {
    return ota_term_of(term->kind)->form;
}

static inline bool ota_term_is_inside(const ota_term *term) {
    return ota_term_of(term->kind)->inside;
}

/* The validation: fills its part of `r` from r->problem; and the part of `to` of a block of keys. */
ota_status ota_resolve_terms(ota_resolved *r, ota_error *error);
void ota_key_block_terms(const ota_key_block *block, ota_resolved *to);

/* The rows. */
extern const ota_term_row ota_term_dense, ota_term_alibi, ota_term_relative,
    ota_term_relative_inside, ota_term_softcap, ota_term_sink;

#endif
