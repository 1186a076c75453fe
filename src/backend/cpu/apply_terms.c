/* Terms: what turns raw products into scores, compiled for each type. For keys [begin, end) of one query:
 *
 *     S = softcap(scale (raw + inside)) + alibi + relative + dense + additive,   -inf where not allowed */
#include <math.h>

#include "base/fault.h"
#include "base/half.h"
#include "masks/masks.h"
#include "problem/problem.h"
#include "real.h"
#include "terms/terms.h"

/* Elements of a row are handled in pieces of this many, so that addends live in registers and L1. */
enum { PIECE = 128 };

/* The place of a query's first key. */
static int64_t row_of_pairs(const ota_array *a, const ota_pair_place *place) {
    return (a->size[0] == 1 ? 0 : place->batch * a->stride[0]) +
           (a->size[1] == 1 ? 0 : place->head * a->stride[1]) +
           (a->size[2] == 1 ? 0 : place->query * a->stride[2]);
}

void WORD(ota_pair_numbers)(const OF_TYPE(table) *kernels, const ota_array *a,
                            const ota_pair_place *place, int64_t first, int64_t count, real *out) {
    const int64_t at = row_of_pairs(a, place);
    const int64_t step = a->size[3] == 1 ? 0 : a->stride[3];
    const char *from =
        (const char *)a->data + (at + first * step) * (int64_t)ota_type_bytes(a->type);
    kernels->terms->numbers(from, a->type, step, count, out);
}

/* A piece of a row: keys [first, first + count) of one query. */
typedef struct piece {
    const OF_TYPE(table) *kernels;
    const ota_resolved *r;
    ota_pair_place place;
    int64_t first, count;
    real scale; /* of the raw products, 1 once a term has scaled them */
    real *s;
} piece;

/* b[i - j + keys - 1], which falls as j grows, from `index` on. */
static void fetch_relative(const piece *at, const ota_array *a, int64_t index, real *out) {
    const int64_t step = a->size[3] == 1 ? 0 : a->stride[3];
    const int64_t from = (a->size[1] == 1 ? 0 : at->place.head * a->stride[1]) + index * step;
    at->kernels->terms->numbers((const char *)a->data + from * (int64_t)ota_type_bytes(a->type),
                                a->type, -step, at->count, out);
}

/* Numbers of the plan's type that are neighbours are added where they lie. */
static const real *neighbours(const piece *at, const ota_array *a) {
    if (a->type != REAL_TYPE || a->size[3] == 1 || a->stride[3] != 1) return NULL;
    return (const real *)a->data + row_of_pairs(a, &at->place) + at->first;
}

/* Numbers of the next piece, which tiles come to after other rows. */
static void fetch_next(const piece *at, const ota_array *a) {
    const int64_t bytes = (int64_t)ota_type_bytes(a->type), first = at->first + at->count;
    const int64_t count = ota_int_min(at->r->keys - first, PIECE);
    if (a->size[3] == 1 || a->stride[3] != 1) return;
    const int64_t from = (row_of_pairs(a, &at->place) + first) * bytes;
    ota_fetch_later((uintptr_t)a->data + (uintptr_t)from, count * bytes, a->stride[2] * bytes);
}

static void add_pairs(const piece *at, const ota_array *array) {
    real room[PIECE];
    fetch_next(at, array);
    const real *addend = neighbours(at, array);
    if (addend == NULL) {
        pair_numbers(at->kernels, array, &at->place, at->first, at->count, room);
        addend = room;
    }
    at->kernels->terms->add_or_forbid(addend, (real)ota_forbidding_addend(array->type), at->scale,
                                      at->count, at->s);
}

static void apply_term(const piece *at, const ota_term *term, ota_term_form form) {
    const ota_resolved *r = at->r;
    real addend[PIECE];
    const int64_t difference = ota_row_number(r, at->place.query) - at->first + r->keys - 1;
    switch (form) {
    case OTA_FORM_ADDS_PAIRS: add_pairs(at, &term->array); break;
    case OTA_FORM_ADDS_DIFFERENCES:
        fetch_relative(at, &term->array, difference, addend);
        at->kernels->terms->add(addend, at->scale, at->count, at->s);
        break;
    case OTA_FORM_LINEAR_DISTANCE: {
        const real slope = (real)(ota_array_present(&term->array)
                                      ? ota_array_get(&term->array, 0, 0, 0, at->place.head)
                                      : term->value);
        const int64_t distance = ota_row_position(r, at->place.query) -
                                 OTA_FAULT(ALIBI_PIECE, at->first, at->first % PIECE);
        at->kernels->terms->distance(distance, slope, at->scale, at->count, at->s);
        break;
    }
    case OTA_FORM_SOFTCAP:
        at->kernels->terms->softcap((real)term->value, at->scale, at->count, at->s);
        break;
    case OTA_FORM_ADDS_KEY: break;
    }
}

static void apply_support(const piece *at, const ota_support *support) {
    const ota_support_row *row = ota_support_of(support->kind);
    real *s = at->s, flag[PIECE];
    switch (row->form) {
    case OTA_FORM_ADDENDS: add_pairs(at, &support->array); break;
    case OTA_FORM_FLAGS:
        pair_numbers(at->kernels, &support->array, &at->place, at->first, at->count, flag);
        at->kernels->terms->allow(flag, at->count, s);
        break;
    case OTA_FORM_POSITIONS:
        for (int64_t k = 0; k < at->count && row->allows != NULL; k++) {
            if (!row->allows(at->r, support, at->place.batch, at->place.head, at->place.query,
                             at->first + k))
                s[k] = (real)-INFINITY;
        }
        break;
    }
}

double WORD(ota_masked_mass)(const OF_TYPE(table) *kernels, const ota_resolved *r, int64_t batch,
                             int64_t head, int64_t query, const real *p) {
    const ota_pair_place place = {batch, head, query};
    double mass = 0.0;
    for (int64_t first = 0; first < r->keys; first += PIECE) {
        const int64_t count = ota_int_min(r->keys - first, PIECE);
        real sum[PIECE] = {0}, addend[PIECE];
        for (int t = 0; t < r->term_count; t++) {
            if (ota_term_of(r->terms[t].kind)->form != OTA_FORM_ADDS_PAIRS) continue;
            pair_numbers(kernels, &r->terms[t].array, &place, first, count, addend);
            for (int64_t k = 0; k < count; k++) sum[k] += addend[k];
        }
        for (int t = 0; t < r->support_count; t++) {
            if (ota_support_of(r->supports[t].kind)->form != OTA_FORM_ADDENDS) continue;
            pair_numbers(kernels, &r->supports[t].array, &place, first, count, addend);
            for (int64_t k = 0; k < count; k++) sum[k] += addend[k];
        }
        for (int64_t k = 0; k < count; k++) {
            if (sum[k] <= (real)OTA_MASKED_ADDEND) mass += (double)p[first + k];
        }
    }
    return mass;
}

static void scale_products(piece *at) {
    if (at->scale < (real)1 || at->scale > (real)1)
        at->kernels->multiply(at->s, at->count, at->scale);
    at->scale = (real)1;
}

void WORD(ota_apply_some_terms)(const OF_TYPE(table) *kernels, const ota_resolved *r,
                                const ota_pair_place *place, ota_term_set some, int64_t begin,
                                int64_t end, real *row) {
    for (int64_t first = begin; first < end; first += PIECE) {
        piece at = {.kernels = kernels,
                    .r = r,
                    .place = *place,
                    .first = first,
                    .count = ota_int_min(end - first, PIECE),
                    .s = row + (first - begin)};
        real scale = (real)r->scale;
        for (int t = 0; t < r->term_count; t++) {
            if ((some.terms >> t & 1) == 0) continue;
            const ota_term_row *term = ota_term_of(r->terms[t].kind);
            at.scale = term->inside ? (real)1 : scale;
            if (!term->inside) scale = (real)1;
            apply_term(&at, &r->terms[t], term->form);
        }
        at.scale = scale;
        for (int t = 0; t < r->support_count; t++) {
            if ((some.supports >> t & 1) == 0) continue;
            const ota_support_row *support = ota_support_of(r->supports[t].kind);
            if (support->form != OTA_FORM_ADDENDS) scale_products(&at);
            apply_support(&at, &r->supports[t]);
            at.scale = (real)1;
        }
        scale_products(&at);
    }
}

void WORD(ota_apply_terms)(const OF_TYPE(table) *kernels, const ota_resolved *r, int64_t batch,
                           int64_t head, int64_t query, int64_t begin, int64_t end, real *row) {
    const ota_pair_place place = {batch, head, query};
    const ota_term_set all = {UINT32_MAX, UINT32_MAX};
    apply_some_terms(kernels, r, &place, all, begin, end, row);
}

#if OTA_REAL_BITS == 64
void ota_row_scores(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                    int64_t begin, int64_t end, double *row) {
    apply_terms(ota_kernels_row(0)->f64, r, batch, head, query, begin, end, row);
}
#endif
