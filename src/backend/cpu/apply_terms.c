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

void WORD(ota_pair_numbers)(const ota_array *a, int64_t b, int64_t h, int64_t row, int64_t first,
                            int64_t count, real *out) {
    const int64_t at = (a->size[0] == 1 ? 0 : b * a->stride[0]) +
                       (a->size[1] == 1 ? 0 : h * a->stride[1]) +
                       (a->size[2] == 1 ? 0 : row * a->stride[2]);
    const int64_t step = a->size[3] == 1 ? 0 : a->stride[3];
    switch (a->type) {
    case OTA_F64: {
        const double *from = (const double *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (real)from[k * step];
        break;
    }
    case OTA_F32: {
        const float *from = (const float *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (real)from[k * step];
        break;
    }
    case OTA_BF16: {
        const uint16_t *from = (const uint16_t *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (real)ota_f32_from_bf16(from[k * step]);
        break;
    }
    case OTA_F16: {
        const uint16_t *from = (const uint16_t *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (real)ota_f32_from_f16(from[k * step]);
        break;
    }
    default: {
        const uint8_t *from = (const uint8_t *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = from[k * step] != 0 ? (real)1 : (real)0;
        break;
    }
    }
}

static void fetch_relative(const ota_array *a, int64_t head, int64_t index, int64_t count,
                           real *out) {
    /* b[i - j + keys - 1] falls as j grows. */
    for (int64_t k = 0; k < count; k++) out[k] = (real)ota_array_get(a, 0, head, 0, index - k);
}

/* An addend of at most `least`, or -inf on either side, forbids the pair whatever the other holds: NaN under a mask must
 * vanish. */
static void add_or_forbid(real *s, const real *addend, real least, int64_t count) {
    const real forbidden = (real)-INFINITY;
    for (int64_t k = 0; k < count; k++) {
        s[k] = addend[k] <= least || s[k] <= forbidden ? forbidden : s[k] + addend[k];
    }
}

/* A piece of a row: keys [first, first + count) of one query. */
typedef struct piece {
    const ota_resolved *r;
    int64_t batch, head, query, first, count;
    real *s;
} piece;

static void add_pairs(const piece *at, const ota_array *array) {
    real addend[PIECE];
    pair_numbers(array, at->batch, at->head, at->query, at->first, at->count, addend);
    add_or_forbid(at->s, addend, (real)ota_forbidding_addend(array->type), at->count);
}

static void multiply(const piece *at, real scale) {
    for (int64_t k = 0; k < at->count; k++) at->s[k] *= scale;
}

static void apply_term(const piece *at, const ota_term *term, ota_term_form form) {
    const ota_resolved *r = at->r;
    real *s = at->s, addend[PIECE];
    const int64_t count = at->count;
    const int64_t difference = ota_row_number(r, at->query) - at->first + r->keys - 1;
    switch (form) {
    case OTA_FORM_ADDS_PAIRS: add_pairs(at, &term->array); break;
    case OTA_FORM_ADDS_DIFFERENCES:
        fetch_relative(&term->array, at->head, difference, count, addend);
        for (int64_t k = 0; k < count; k++) s[k] += addend[k];
        break;
    case OTA_FORM_LINEAR_DISTANCE: {
        const real slope =
            (real)(ota_array_present(&term->array) ? ota_array_get(&term->array, 0, 0, 0, at->head)
                                                   : term->value);
        const int64_t distance =
            ota_row_position(r, at->query) - OTA_FAULT(ALIBI_PIECE, at->first, at->first % PIECE);
        for (int64_t k = 0; k < count; k++) {
            const int64_t away = distance - k;
            s[k] -= slope * (real)(away < 0 ? -away : away);
        }
        break;
    }
    case OTA_FORM_SOFTCAP: {
        const real cap = (real)term->value;
        real ratio[PIECE] = {0}, tanh_x[PIECE], slope[PIECE];
        for (int64_t k = 0; k < count; k++) ratio[k] = s[k] / cap;
        WORD(ota_softcap_tanh)(ratio, count, tanh_x, slope);
        for (int64_t k = 0; k < count; k++) s[k] = s[k] <= (real)-INFINITY ? s[k] : cap * tanh_x[k];
        break;
    }
    case OTA_FORM_ADDS_KEY: break;
    }
}

static void apply_support(const piece *at, const ota_support *support) {
    const ota_support_row *row = ota_support_of(support->kind);
    real *s = at->s, flag[PIECE];
    switch (row->form) {
    case OTA_FORM_ADDENDS: add_pairs(at, &support->array); break;
    case OTA_FORM_FLAGS:
        pair_numbers(&support->array, at->batch, at->head, at->query, at->first, at->count, flag);
        for (int64_t k = 0; k < at->count; k++) s[k] = flag[k] > (real)0 ? s[k] : (real)-INFINITY;
        break;
    case OTA_FORM_POSITIONS:
        for (int64_t k = 0; k < at->count && row->allows != NULL; k++) {
            if (!row->allows(at->r, support, at->batch, at->head, at->query, at->first + k))
                s[k] = (real)-INFINITY;
        }
        break;
    }
}

double WORD(ota_masked_mass)(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                             const real *p) {
    double mass = 0.0;
    for (int64_t first = 0; first < r->keys; first += PIECE) {
        const int64_t count = ota_int_min(r->keys - first, PIECE);
        real sum[PIECE] = {0}, addend[PIECE];
        for (int t = 0; t < r->term_count; t++) {
            if (ota_term_of(r->terms[t].kind)->form != OTA_FORM_ADDS_PAIRS) continue;
            pair_numbers(&r->terms[t].array, batch, head, query, first, count, addend);
            for (int64_t k = 0; k < count; k++) sum[k] += addend[k];
        }
        for (int t = 0; t < r->support_count; t++) {
            if (ota_support_of(r->supports[t].kind)->form != OTA_FORM_ADDENDS) continue;
            pair_numbers(&r->supports[t].array, batch, head, query, first, count, addend);
            for (int64_t k = 0; k < count; k++) sum[k] += addend[k];
        }
        for (int64_t k = 0; k < count; k++) {
            if (sum[k] <= (real)OTA_MASKED_ADDEND) mass += (double)p[first + k];
        }
    }
    return mass;
}

void WORD(ota_apply_terms)(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                           int64_t begin, int64_t end, real *row) {
    const real scale = (real)r->scale;
    for (int64_t first = begin; first < end; first += PIECE) {
        const piece at = {.r = r,
                          .batch = batch,
                          .head = head,
                          .query = query,
                          .first = first,
                          .count = ota_int_min(end - first, PIECE),
                          .s = row + (first - begin)};
        bool scaled = false;
        for (int t = 0; t < r->term_count; t++) {
            const ota_term_row *term = ota_term_of(r->terms[t].kind);
            if (!term->inside && !scaled) {
                multiply(&at, scale);
                scaled = true;
            }
            apply_term(&at, &r->terms[t], term->form);
        }
        if (!scaled && (scale < (real)1 || scale > (real)1)) multiply(&at, scale);
        for (int t = 0; t < r->support_count; t++) apply_support(&at, &r->supports[t]);
    }
}
