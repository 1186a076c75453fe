/* Body of row_scores.c for REAL = float or double. For keys [begin, end) of one query:
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

/* A piece of a row: keys [first, first + count) of one query. */
typedef struct WORD(piece) {
    const ota_resolved *r;
    int64_t batch, head, query, first, count;
    REAL *s;
} WORD(piece);

static void WORD(add_pairs)(const WORD(piece) * at, const ota_array *array) {
    REAL addend[PIECE];
    WORD(fetch)(array, at->batch, at->head, at->query, at->first, at->count, addend);
    WORD(add_or_forbid)(at->s, addend, at->count);
}

static void WORD(scale)(const WORD(piece) * at, REAL scale) {
    for (int64_t k = 0; k < at->count; k++) at->s[k] *= scale;
}

static void WORD(apply_term)(const WORD(piece) * at, const ota_term *term, ota_term_form form) {
    const ota_resolved *r = at->r;
    REAL *s = at->s, addend[PIECE];
    const int64_t count = at->count, difference = at->query - at->first + r->keys - 1;
    switch (form) {
    case OTA_TERM_ADDS_PAIRS: WORD(add_pairs)(at, &term->array); break;
    case OTA_TERM_ADDS_DIFFERENCES:
        WORD(fetch_relative)(&term->array, at->head, difference, count, addend);
        for (int64_t k = 0; k < count; k++) s[k] += addend[k];
        break;
    case OTA_TERM_FALLS: {
        const REAL slope =
            (REAL)(ota_array_present(&term->array) ? ota_array_get(&term->array, 0, 0, 0, at->head)
                                                   : term->value);
        const int64_t distance = at->query + r->offset - at->first;
        for (int64_t k = 0; k < count; k++) {
            const int64_t away = distance - k;
            s[k] -= slope * (REAL)(away < 0 ? -away : away);
        }
        break;
    }
    case OTA_TERM_SATURATES: {
        const REAL cap = (REAL)term->value;
        REAL ratio[PIECE] = {0}, bent[PIECE], left[PIECE];
        for (int64_t k = 0; k < count; k++) ratio[k] = s[k] / cap;
        WORD(ota_bend)(ratio, count, bent, left);
        for (int64_t k = 0; k < count; k++) s[k] = s[k] <= (REAL)-INFINITY ? s[k] : cap * bent[k];
        break;
    }
    case OTA_TERM_ADDS_KEY: break;
    }
}

static void WORD(apply_support)(const WORD(piece) * at, const ota_support *support) {
    const ota_support_row *row = ota_support_of(support->kind);
    REAL *s = at->s, flag[PIECE];
    switch (row->form) {
    case OTA_FORM_ADDENDS: WORD(add_pairs)(at, &support->array); break;
    case OTA_FORM_FLAGS:
        WORD(fetch)(&support->array, at->batch, at->head, at->query, at->first, at->count, flag);
        for (int64_t k = 0; k < at->count; k++) s[k] = flag[k] > (REAL)0 ? s[k] : (REAL)-INFINITY;
        break;
    case OTA_FORM_POSITIONS:
        for (int64_t k = 0; k < at->count && row->allows != NULL; k++) {
            if (!row->allows(at->r, support, at->batch, at->head, at->query, at->first + k))
                s[k] = (REAL)-INFINITY;
        }
        break;
    }
}

void WORD(ota_row_scores)(const ota_resolved *r, int64_t batch, int64_t head, int64_t query,
                          int64_t begin, int64_t end, REAL *row) {
    const REAL scale = (REAL)r->scale;
    for (int64_t first = begin; first < end; first += PIECE) {
        const WORD(piece) at = {.r = r,
                                .batch = batch,
                                .head = head,
                                .query = query,
                                .first = first,
                                .count = end - first < PIECE ? end - first : PIECE,
                                .s = row + (first - begin)};
        bool scaled = false;
        for (int t = 0; t < r->term_count; t++) {
            const ota_term_row *term = ota_term_of(r->terms[t].kind);
            if (!term->inside && !scaled) {
                WORD(scale)(&at, scale);
                scaled = true;
            }
            WORD(apply_term)(&at, &r->terms[t], term->form);
        }
        if (!scaled && (scale < (REAL)1 || scale > (REAL)1)) WORD(scale)(&at, scale);
        for (int t = 0; t < r->support_count; t++) WORD(apply_support)(&at, &r->supports[t]);
    }
}
