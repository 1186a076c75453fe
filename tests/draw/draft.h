/* draft.h: the one generator of problems: what scores, supports, terms and masses are made of. Whoever draws says what there
 * shall be, by chance (tests/dump/) or by name (recipes and scenes of support/), and lends the arrays. Sees public headers
 * alone. */
#ifndef TESTS_DRAW_DRAFT_H
#define TESTS_DRAW_DRAFT_H

#include "elements.h"
#include "random.h"

/* A problem in the making, and its sizes. */
typedef struct draft {
    dice *dice;
    int64_t batch, heads, key_heads, queries, keys, width;
    ota_problem *problem;
    ota_term *terms; /* with room for every one that is added, as supports have */
    ota_support *supports;
    /* An array of numbers that a rule draws, its elements in places of their own where `own` wants to set them. */
    ota_array (*input)(void *owner, const array_shape *shape, rule how, double parameter, bool own);
    void *owner;
} draft;

/* ---- scores ------------------------------------------------------------------------------------------ */

typedef struct score_wish {
    ota_type type;
    bool matrix; /* of scores, in the place of queries and keys */
    rule how;
    double spread, keys_spread;
} score_wish;

static inline void draft_scores(const draft *t, const score_wish *w) {
    ota_problem *p = t->problem;
    if (w->matrix) {
        const array_shape pairs = shape_of(w->type, t->batch, t->heads, t->queries, t->keys);
        p->scores = t->input(t->owner, &pairs, w->how, w->spread, false);
        return;
    }
    const array_shape queries = shape_of(w->type, t->batch, t->heads, t->queries, t->width);
    const array_shape keys = shape_of(w->type, t->batch, t->key_heads, t->keys, t->width);
    p->queries = t->input(t->owner, &queries, w->how, w->spread, false);
    p->keys = t->input(t->owner, &keys, w->how, w->keys_spread, false);
}

/* ---- supports ---------------------------------------------------------------------------------------- */

typedef struct support_wish {
    ota_support_kind kind;
    int64_t left, right; /* blocks with neither are four of drawn sizes */
    array_shape pairs;   /* of masks of booleans and numbers */
    rule how;
    double parameter;
} support_wish;

static inline void draft_block_sizes(const draft *t, ota_array *sizes) {
    const array_shape shape = shape_of(OTA_I64, 1, 1, 1, 4);
    *sizes = t->input(t->owner, &shape, ALL_OF, 0.0, false);
    int64_t left = t->queries > t->keys ? t->queries : t->keys;
    for (int64_t k = 0; k < 4; k++) {
        const int64_t size = k == 3 ? left : below(t->dice, left + 1);
        element_set(sizes, (const int64_t[4]){0, 0, 0, k}, (double)size);
        left -= size;
    }
}

/* Half of the keys or more. */
static inline void draft_lengths(const draft *t, ota_array *lengths) {
    const array_shape shape = shape_of(OTA_I64, 1, 1, 1, t->batch);
    *lengths = t->input(t->owner, &shape, ALL_OF, 0.0, false);
    for (int64_t b = 0; b < t->batch; b++)
        element_set(lengths, (const int64_t[4]){0, 0, 0, b},
                    (double)(t->keys - below(t->dice, t->keys / 2 + 1)));
}

static inline void draft_support(const draft *t, const support_wish *w) {
    ota_support *s = &t->supports[t->problem->support_count++];
    *s = (ota_support){.kind = w->kind, .left = w->left, .right = w->right};
    if (w->kind == OTA_SUPPORT_LENGTHS)
        draft_lengths(t, &s->array);
    else if (w->kind == OTA_SUPPORT_BLOCK && w->left == 0)
        draft_block_sizes(t, &s->array);
    else if (w->pairs.type != OTA_NO_TYPE)
        s->array = t->input(t->owner, &w->pairs, w->how, w->parameter, false);
    t->problem->supports = t->supports;
}

/* ---- terms ------------------------------------------------------------------------------------------- */

typedef struct term_wish {
    ota_term_kind kind;
    double value;
    array_shape array; /* of no type: the value alone */
    rule how;
    double parameter;
} term_wish;

static inline void draft_term(const draft *t, const term_wish *w) {
    ota_term *term = &t->terms[t->problem->term_count++];
    *term = (ota_term){.kind = w->kind, .value = w->value};
    if (w->array.type != OTA_NO_TYPE)
        term->array = t->input(t->owner, &w->array, w->how, w->parameter, false);
    t->problem->terms = t->terms;
}

/* Of a relative bias: one number a difference of positions. */
static inline int64_t draft_differences(const draft *t) {
    return t->queries + t->keys > 0 ? t->queries + t->keys - 1 : 0;
}

/* ---- masses ------------------------------------------------------------------------------------------ */

/* Of `count` numbers of a head; 1 each where there is no array. */
static inline double mass_total(const ota_array *a, int64_t count, const int64_t head[4]) {
    if (a->type == OTA_NO_TYPE) return (double)count;
    double total = 0.0;
    for (int64_t k = 0; k < count; k++)
        total += element_get(a, (const int64_t[4]){head[0], head[1], 0, k});
    return total;
}

/* Makes the totals of `a`, one a head, `share` of those of `other`. */
static inline void match_masses(const ota_array *a, const ota_array *other, int64_t other_count,
                                double share) {
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            const int64_t head[4] = {b, h, 0, 0};
            const double total = mass_total(a, a->size[3], head);
            const double want = mass_total(other, other_count, head) * share;
            for (int64_t k = 0; k < a->size[3] && total > 0.0; k++) {
                const int64_t at[4] = {b, h, 0, k};
                element_set(a, at, element_get(a, at) / total * want);
            }
        }
    }
}

#endif
