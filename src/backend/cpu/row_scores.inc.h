/* Body of terms.c for REAL = float or double. For keys [begin, end) of one query:
 *
 *     S = softcap(scale (raw + inside)) + alibi + relative + dense + additive,   -inf where not allowed */

/* out[k] = array[b, h, row, first + k], the array broadcasting. */
static void WORD(fetch)(const ota_array *a, int64_t b, int64_t h, int64_t row, int64_t first,
                        int64_t count, REAL *out) {
    const int64_t at = (a->size[0] == 1 ? 0 : b * a->stride[0]) +
                       (a->size[1] == 1 ? 0 : h * a->stride[1]) +
                       (a->size[2] == 1 ? 0 : row * a->stride[2]);
    const int64_t step = a->size[3] == 1 ? 0 : a->stride[3];
    switch (a->type) {
    case OTA_F64: {
        const double *from = (const double *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (REAL)from[k * step];
        break;
    }
    case OTA_F32: {
        const float *from = (const float *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (REAL)from[k * step];
        break;
    }
    case OTA_BF16: {
        const uint16_t *from = (const uint16_t *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (REAL)ota_f32_from_bf16(from[k * step]);
        break;
    }
    case OTA_F16: {
        const uint16_t *from = (const uint16_t *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = (REAL)ota_f32_from_f16(from[k * step]);
        break;
    }
    default: {
        const uint8_t *from = (const uint8_t *)a->data + at + first * step;
        for (int64_t k = 0; k < count; k++) out[k] = from[k * step] != 0 ? (REAL)1 : (REAL)0;
        break;
    }
    }
}

static void WORD(fetch_relative)(const ota_array *a, int64_t head, int64_t index, int64_t count,
                                 REAL *out) {
    /* b[i - j + keys - 1] falls as j grows. */
    for (int64_t k = 0; k < count; k++) out[k] = (REAL)ota_array_get(a, 0, head, 0, index - k);
}

/* -inf on either side forbids the pair whatever the other holds: NaN under a mask must vanish. */
static void WORD(add_or_forbid)(REAL *s, const REAL *addend, int64_t count) {
    const REAL forbidden = (REAL)-INFINITY;
    for (int64_t k = 0; k < count; k++) {
        s[k] = addend[k] <= forbidden || s[k] <= forbidden ? forbidden : s[k] + addend[k];
    }
}

void WORD(ota_row_scores)(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                          int64_t begin, int64_t end, REAL *row) {
    const REAL scale = (REAL)r->scale;
    REAL addend[PIECE];
    for (int64_t first = begin; first < end; first += PIECE) {
        const int64_t count = end - first < PIECE ? end - first : PIECE;
        REAL *s = row + (first - begin);
        const int64_t relative_index = query - first + r->keys - 1;
        bool scaled = false;
        for (int t = 0; t < r->term_count; t++) {
            const ota_term *term = &r->terms[t];
            if (term->kind == OTA_TERM_RELATIVE_INSIDE) {
                WORD(fetch_relative)(&term->array, head, relative_index, count, addend);
                for (int64_t k = 0; k < count; k++) s[k] += addend[k];
                continue;
            }
            if (!scaled) {
                for (int64_t k = 0; k < count; k++) s[k] *= scale;
                scaled = true;
            }
            if (term->kind == OTA_TERM_SOFTCAP) {
                const REAL cap = (REAL)term->value;
                REAL bent[PIECE], left[PIECE];
                for (int64_t k = 0; k < count; k++) addend[k] = s[k] / cap;
                WORD(ota_bend)(addend, count, bent, left);
                for (int64_t k = 0; k < count; k++)
                    s[k] = s[k] <= (REAL)-INFINITY ? s[k] : cap * bent[k];
            } else if (term->kind == OTA_TERM_ALIBI) {
                const REAL slope = (REAL)(ota_array_present(&term->array)
                                              ? ota_array_get(&term->array, 0, 0, 0, head)
                                              : term->value);
                const int64_t distance = query + r->offset - first;
                for (int64_t k = 0; k < count; k++) {
                    const int64_t away = distance - k;
                    s[k] -= slope * (REAL)(away < 0 ? -away : away);
                }
            } else if (term->kind == OTA_TERM_RELATIVE) {
                WORD(fetch_relative)(&term->array, head, relative_index, count, addend);
                for (int64_t k = 0; k < count; k++) s[k] += addend[k];
            } else {
                WORD(fetch)(&term->array, batch, head, query, first, count, addend);
                WORD(add_or_forbid)(s, addend, count);
            }
        }
        if (!scaled && (scale < (REAL)1 || scale > (REAL)1)) {
            for (int64_t k = 0; k < count; k++) s[k] *= scale;
        }
        for (int t = 0; t < r->support_count; t++) {
            const ota_support *support = &r->supports[t];
            if (support->kind == OTA_SUPPORT_ADDITIVE) {
                WORD(fetch)(&support->array, batch, head, query, first, count, addend);
                WORD(add_or_forbid)(s, addend, count);
            } else if (support->kind == OTA_SUPPORT_BOOLEAN) {
                WORD(fetch)(&support->array, batch, head, query, first, count, addend);
                for (int64_t k = 0; k < count; k++) {
                    s[k] = addend[k] > (REAL)0 ? s[k] : (REAL)-INFINITY;
                }
            } else {
                const ota_support_law *law = ota_support_law_of(support->kind);
                if (law->allows == NULL) continue;
                for (int64_t k = 0; k < count; k++) {
                    if (!law->allows(r, support, batch, head, query, first + k))
                        s[k] = (REAL)-INFINITY;
                }
            }
        }
    }
}
