/* Scores of a block (blocks.h): products of rows of queries and keys, then terms and masks of the problem. */
#include "blocks.h"

#include <string.h>

#include "masks/masks.h"
#include "terms/terms.h"

void ota_block_add_products(const ota_block *b, const double *queries, const double *keys,
                            int64_t ldk, double *to) {
    const int64_t width = b->problem->width;
    const ota_product sizes = {b->rows, width, b->keys, width, ldk, b->stride};
    b->algebra->apply(queries, keys, &sizes, to);
}

void ota_block_read_keys(const ota_host_algebra *algebra, const ota_array *from, int64_t batch,
                         int64_t head, int64_t count, const ota_block_keys *to) {
    const int64_t width = from->size[3];
    for (int64_t j = 0; j < count; j++) {
        double *row = to->lines != NULL ? to->lines + j * width : to->row;
        algebra->read_rows(from, batch, head, j, 1, row, width);
        for (int64_t w = 0; w < width; w++) to->transposed[w * to->stride + j] = row[w];
    }
}

/* `scores` from raw products to S. */
static void finish_scores(const ota_block *b) {
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

void ota_block_form_scores(const ota_block *b, double *queries, const double *keys, int64_t ldk) {
    const ota_problem *p = &b->problem->problem;
    const size_t line = (size_t)b->keys * sizeof(double);
    if (b->problem->from_matrix) {
        b->algebra->read_rows(&p->scores, b->batch, b->head, b->first, b->rows, b->scores - b->key,
                              b->stride);
    } else {
        for (int64_t k = 0; k < b->rows; k++) memset(b->scores + k * b->stride, 0, line);
        if (b->problem->width > 0) {
            b->algebra->read_rows(&p->queries, b->batch, b->head, b->first, b->rows, queries,
                                  b->problem->width);
            ota_block_add_products(b, queries, keys, ldk, b->scores);
        }
    }
    for (int64_t k = 0; k < b->rows && b->raw != NULL; k++)
        memcpy(b->raw + k * b->stride, b->scores + k * b->stride, line);
    finish_scores(b);
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
