/* Scores of a block (blocks.h): products of rows of queries and keys, then terms and masks of the problem. */
#include "blocks.h"

#include "masks/masks.h"
#include "terms/terms.h"

void ota_block_add_products(const ota_block *b, const double *queries, const double *keys,
                            int64_t ldk, double *to) {
    const int64_t width = b->problem->width;
    const ota_product sizes = {b->rows, width, b->keys, width, ldk, b->stride};
    b->algebra->apply(queries, keys, &sizes, to);
}

void ota_block_finish_scores(const ota_block *b) {
    for (int64_t k = 0; k < b->rows; k++) {
        double *s = b->scores + k * b->stride;
        int64_t begin, end;
        ota_row_range(b->problem, b->batch, b->first + k, b->key + b->keys, &begin, &end);
        begin = ota_int_max(begin - b->key, 0);
        end = ota_int_min(end - b->key, b->keys);
        if (begin >= end) begin = end = 0;
        for (int64_t j = 0; j < begin; j++) s[j] = -INFINITY;
        for (int64_t j = end; j < b->keys; j++) s[j] = -INFINITY;
        if (begin < end)
            b->algebra->row_scores(b->problem, b->batch, b->head, b->first + k, b->key + begin,
                                   b->key + end, s + begin);
    }
}

double ota_block_masked(const ota_block *of, int64_t query, int64_t first, const double *p) {
    const ota_resolved *r = of->problem;
    double mass = 0.0;
    for (int64_t j = 0; j < of->keys; j++) {
        double sum = 0.0;
        for (int t = 0; t < r->term_count; t++) {
            if (ota_term_form_of(&r->terms[t]) == OTA_FORM_ADDS_PAIRS)
                sum += ota_array_get(&r->terms[t].array, of->batch, of->head, query, first + j);
        }
        for (int k = 0; k < r->support_count; k++) {
            if (r->supports[k].kind == OTA_SUPPORT_ADDITIVE)
                sum += ota_array_get(&r->supports[k].array, of->batch, of->head, query, first + j);
        }
        if (sum <= OTA_MASKED_ADDEND) mass += p != NULL ? p[j] : 1.0;
    }
    return mass;
}

ota_block_softcap ota_block_softcap_of(const ota_block *b, int64_t k) {
    const ota_resolved *r = b->problem;
    ota_block_softcap of = {.diagonal = ota_row_number(r, b->first + k) + r->keys - 1 - b->key};
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_is_inside(&r->terms[t])) of.inside = &r->terms[t];
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP) of.softcap = &r->terms[t];
    }
    if (of.softcap != NULL) of.factor = r->scale / of.softcap->value;
    return of;
}
