/* Bodies of test_gradient_kernel.c for one type T; NAME adds its suffix, TABLE names the member of ota_kernels. */

typedef struct NAME(trial) {
    lender memory;
    BLOCK block;
    T *queries, *keys, *upstream, *values, *bias, *key_advantage, *shift, *advantage;
    T *packed_keys, *packed_values;
    T *out[3], *before[3]; /* gradients of queries, keys, values; what they began with */
    int64_t *begin, *end, length[3];
    dice d;
} NAME(trial);

/* `count` elements that end at a forbidden page, begin behind one, or lie one element behind one. */
static T *NAME(room)(NAME(trial) * t, int64_t count, int place) {
    T *x = lend(&t->memory, (size_t)(count + (place == 2)) * sizeof(T), place > 0);
    return x + (place == 2);
}

static T *NAME(draw)(NAME(trial) * t, int64_t count, int place, double scale) {
    T *x = NAME(room)(t, count, place);
    for (int64_t k = 0; k < count; k++) x[k] = (T)(scale * normal(&t->d));
    return x;
}

/* Whole panels, 64-byte aligned, zero past the last key. */
static T *NAME(pack)(NAME(trial) * t, const T *x, int64_t keys, int64_t width) {
    T *packed = NAME(room)(t, (ota_packed_length(keys, width) + 15) / 16 * 16, 0);
    for (int64_t j = 0; j < (keys + OTA_PANEL - 1) / OTA_PANEL * OTA_PANEL; j++) {
        for (int64_t w = 0; w < width; w++)
            packed[(j / OTA_PANEL * width + w) * OTA_PANEL + j % OTA_PANEL] =
                j < keys ? x[j * width + w] : 0;
    }
    return packed;
}

/* A score that depends on the place, and every eleventh pair shut. */
static void NAME(shift_terms)(void *context, int64_t row, int64_t first, int64_t last, T *x) {
    const T scale = *(const T *)context;
    for (int64_t j = first; j < last; j++)
        x[j - first] = scale * x[j - first] + (T)((row + j) % 3) - (j % 11 == 5 ? (T)INFINITY : 0);
}

/* Masks of pairs, the same for every row or not: flags for odd kinds, numbers for those from 2 on; some rows are shut, some open.
 * What lies before the tile's first key is not read. */
static void NAME(draw_masks)(NAME(trial) * t, int kind) {
    BLOCK *b = &t->block;
    const bool of_keys = below(&t->d, 3) == 0;
    const int64_t rows = of_keys ? 1 : b->rows, ld = b->first + b->key_count;
    unsigned char *flags = lend(&t->memory, (size_t)(rows * ld), false);
    T *bias = NAME(draw)(t, rows * ld, 0, 1);
    for (int64_t k = 0; k < rows * ld; k++) {
        const int64_t shape = k / ld / 6 % 3;
        flags[k] = (unsigned char)(shape == 0 ? 1 : shape == 1 ? 0 : below(&t->d, 3));
        if (below(&t->d, 5) == 0 || shape == 1) bias[k] = below(&t->d, 2) ? (T)-INFINITY : (T)-1e31;
    }
    b->pairs.bound = -(T)1e30;
    if (kind % 2) b->pairs.flags = flags, b->pairs.flags_ld = of_keys ? 0 : ld;
    if (kind < 2) return;
    const ota_type type = number_type((int64_t)below(&t->d, 4));
    void *numbers = lend(&t->memory, (size_t)(rows * ld) * ota_type_bytes(type), false);
    for (int64_t k = 0; k < rows * ld; k++) number_set(numbers, type, k, (double)bias[k]);
    b->pairs.bias = numbers;
    b->pairs.bias_type = type;
    b->pairs.bias_ld = of_keys ? 0 : ld;
}

static NAME(trial) * NAME(trial_of)(int k) {
    static const int64_t rows_of[] = {48, 1, 5, 6, 7, 13, 47, 2},
                         keys_of[] = {128, 1, 64, 17, 127, 65};
    static const int64_t widths[] = {64, 1, 16, 3, 65, 80, 33};
    NAME(trial) *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->d = (uint64_t)k * 77 + 3;
    const int place = k % 3;
    BLOCK *b = &t->block;
    b->rows = rows_of[k % 8];
    b->key_count = keys_of[k % 6];
    b->width = widths[k % 7];
    b->values_width = widths[(k / 2) % 7];
    b->first = k % 4 == 0 ? 0 : 256;
    b->scale = (T)(k % 9 == 8 ? -0.3 : 1 / sqrt((double)b->width));
    b->c = (T)(k % 10 == 7 ? 40 : 1.4426950408889634);
    b->queries = t->queries = NAME(draw)(t, b->rows * b->width, place, 1);
    b->keys = t->keys = NAME(draw)(t, b->key_count * b->width, place, 1);
    b->upstream = t->upstream = NAME(draw)(t, b->rows * b->values_width, place, 1);
    t->values = NAME(draw)(t, b->key_count * b->values_width, place, 1);
    b->packed_keys = t->packed_keys = NAME(pack)(t, t->keys, b->key_count, b->width);
    b->packed_values = t->packed_values = NAME(pack)(t, t->values, b->key_count, b->values_width);
    if (k % 5 == 1) b->key_bias = t->bias = NAME(draw)(t, b->key_count, place, 1);
    if (k % 5 == 2) b->key_advantage = t->key_advantage = NAME(draw)(t, b->key_count, place, 1);
    if (k % 5 == 3) b->terms = NAME(shift_terms), b->terms_context = &b->scale;
    NAME(draw_masks)(t, k / 2 % 4);
    b->shift = t->shift = NAME(draw)(t, b->rows, place, 1);
    b->advantage = t->advantage = NAME(draw)(t, b->rows, place, 1);
    b->begin = t->begin = lend(&t->memory, (size_t)b->rows * sizeof *t->begin, false);
    b->end = t->end = lend(&t->memory, (size_t)b->rows * sizeof *t->end, false);
    for (int64_t r = 0; r < b->rows; r++) {
        /* Weights are at most about 1, as they are in use. */
        t->shift[r] = (T)(4 + 3 * fabs((double)t->shift[r]));
        if (r % 7 == 6) t->shift[r] = (T)INFINITY;
        const int64_t here = b->first + b->key_count;
        t->begin[r] = k % 3 == 1 ? b->first + below(&t->d, b->key_count) : 0;
        t->end[r] = k % 4 == 1   ? b->first + r + 1
                    : k % 4 == 2 ? t->begin[r] + below(&t->d, here + 1 - t->begin[r])
                    : k % 4 == 3 ? here + 100
                                 : here;
    }
    t->length[0] = b->rows * b->width;
    t->length[1] = b->key_count * b->width;
    t->length[2] = b->key_count * b->values_width;
    for (int q = 0; q < 3; q++) {
        t->out[q] = NAME(draw)(t, t->length[q], place, 1);
        t->before[q] = malloc(((size_t)t->length[q] + 1) * sizeof(T));
        assert_non_null(t->before[q]);
        memcpy(t->before[q], t->out[q], (size_t)t->length[q] * sizeof(T));
    }
    b->queries_grad = k % 12 == 4 ? NULL : t->out[0];
    b->keys_grad = k % 12 == 5 ? NULL : t->out[1];
    b->values_grad = k % 12 == 6 ? NULL : t->out[2];
    b->scratch = NAME(room)(t, OTA_GRADIENT_SCRATCH, 0);
    return t;
}

static void NAME(put_away)(NAME(trial) * t) {
    for (int q = 0; q < 3; q++) free(t->before[q]);
    take_back(&t->memory);
    free(t);
}

/* P, U - a - b and their sizes, of one pair. */
typedef struct NAME(pair) {
    long double weight, rest, growth, rest_size;
} NAME(pair);

static NAME(pair) NAME(pair_of)(const NAME(trial) * t, int64_t r, int64_t j) {
    const BLOCK *b = &t->block;
    NAME(pair) p = {0, 0, 0, 0};
    const int64_t key = b->first + j;
    if (key < b->begin[r] || key >= b->end[r] || isinf(b->shift[r])) return p;
    if (b->terms != NULL && key % 11 == 5) return p;
    long double dot = 0, size = 0, u = 0, u_size = 0;
    for (int64_t w = 0; w < b->width; w++) {
        const long double x = (long double)t->queries[r * b->width + w] * t->keys[j * b->width + w];
        dot += x;
        size += fabsl(x);
    }
    for (int64_t w = 0; w < b->values_width; w++) {
        const long double x =
            (long double)t->upstream[r * b->values_width + w] * t->values[j * b->values_width + w];
        u += x;
        u_size += fabsl(x);
    }
    long double addend = 0;
    if (b->pairs.flags && !b->pairs.flags[r * b->pairs.flags_ld + key]) return p;
    if (b->pairs.bias) {
        addend = (T)number_get(b->pairs.bias, b->pairs.bias_type, r * b->pairs.bias_ld + key);
        if (addend < b->pairs.bound) return p;
    }
    const long double h = addend + (t->bias != NULL    ? t->bias[j]
                                    : b->terms != NULL ? (T)((r + key) % 3)
                                                       : 0);
    const long double extra = t->key_advantage != NULL ? t->key_advantage[j] : 0;
    const long double per_tau = b->c / 1.44269504088896340736L;
    p.weight = exp2l((b->scale * dot + h - b->shift[r]) * b->c);
    p.growth = 32 + 8 * per_tau * (fabsl(b->scale) * size + fabsl(h) + fabsl(b->shift[r]));
    p.rest = u - b->advantage[r] - extra;
    p.rest_size = u_size + fabsl(b->advantage[r]) + fabsl(extra);
    return p;
}

/* Largest error in units of u M (32 + 8 B), the sum that was there before counted with M. */
static double NAME(judge)(const NAME(trial) * t) {
    const BLOCK *b = &t->block;
    const int64_t widths[3] = {b->width, b->width, b->values_width};
    long double *exact[3], *slack[3], worst = 0;
    for (int q = 0; q < 3; q++) {
        exact[q] = calloc((size_t)t->length[q] + 1, sizeof *exact[q]);
        slack[q] = calloc((size_t)t->length[q] + 1, sizeof *slack[q]);
        assert_non_null(exact[q]);
        assert_non_null(slack[q]);
        for (int64_t k = 0; k < t->length[q]; k++)
            exact[q][k] = t->before[q][k], slack[q][k] = UNIT * 32 * fabsl(exact[q][k]) + TINY;
    }
    for (int64_t r = 0; r < b->rows; r++) {
        for (int64_t j = 0; j < b->key_count; j++) {
            const NAME(pair) p = NAME(pair_of)(t, r, j);
            if (!(p.weight > 0)) continue;
            /* Weights below the normal range keep absolute accuracy only. */
            const long double bound = fmaxl(p.weight * UNIT, TINY) * p.growth;
            for (int64_t w = 0; w < b->width; w++) {
                const long double key = t->keys[j * b->width + w];
                const long double query = t->queries[r * b->width + w];
                exact[0][r * b->width + w] += p.weight * p.rest * key;
                slack[0][r * b->width + w] += bound * p.rest_size * fabsl(key);
                exact[1][j * b->width + w] += p.weight * p.rest * query;
                slack[1][j * b->width + w] += bound * p.rest_size * fabsl(query);
            }
            for (int64_t w = 0; w < b->values_width; w++) {
                const long double x = t->upstream[r * b->values_width + w];
                exact[2][j * b->values_width + w] += p.weight * x;
                slack[2][j * b->values_width + w] += bound * fabsl(x);
            }
        }
    }
    const T *const wanted[3] = {b->queries_grad, b->keys_grad, b->values_grad};
    for (int q = 0; q < 3; q++) {
        for (int64_t k = 0; k < t->length[q]; k++) {
            const long double want = wanted[q] == NULL ? t->before[q][k] : exact[q][k];
            const long double away = fabsl(t->out[q][k] - want) / slack[q][k];
            if (!(away <= 1))
                print_error("output %d, row %d of width %d: %Lg of the bound\n", q,
                            (int)(k / widths[q]), (int)widths[q], away);
            worst = isnan(away) ? INFINITY : fmaxl(worst, away);
        }
        free(exact[q]);
        free(slack[q]);
    }
    return (double)worst;
}

static void NAME(test_gradients)(void **state) {
    (void)state;
    double worst = 0.0;
    const ota_kernels *level;
    for (int index = 0; (level = ota_kernels_row(index)) != NULL; index++) {
        for (int k = 0; k < 120; k++) {
            NAME(trial) *t = NAME(trial_of)(k);
            level->TABLE->gradient(&t->block);
            const double found = NAME(judge)(t);
            if (!(found <= 1.0)) print_error("%s, trial %d\n", level->name, k);
            worst = fmax(worst, found);
            NAME(put_away)(t);
        }
    }
    spec_check("LIT-17 LIT-21", worst, 1.0);
}

/* A row whose shift is NaN is NaN on its own keys and nowhere else; what is masked has no effect. */
static void NAME(test_gradients_poison)(void **state) {
    (void)state;
    double wrong = 0.0;
    const ota_kernels *level;
    for (int index = 0; (level = ota_kernels_row(index)) != NULL; index++) {
        NAME(trial) *t = NAME(trial_of)(0);
        BLOCK *b = &t->block;
        for (int64_t r = 0; r < b->rows; r++) t->end[r] = 100;
        t->shift[2] = (T)NAN;
        t->begin[2] = 30, t->end[2] = 70;
        /* Key 110 is used by nobody: its U overflows, its scores are NaN. */
        for (int64_t w = 0; w < b->values_width; w++)
            t->packed_values[(OTA_PANEL * b->values_width) + w * OTA_PANEL + 110 - OTA_PANEL] =
                LARGEST;
        t->packed_keys[OTA_PANEL * b->width + 110 - OTA_PANEL] = (T)NAN;
        level->TABLE->gradient(b);
        for (int64_t k = 0; k < t->length[0]; k++)
            wrong += isnan(t->out[0][k]) != (k / b->width == 2);
        for (int64_t j = 0; j < b->key_count; j++) {
            const bool poisoned = j >= 30 && j < 70;
            for (int64_t w = 0; w < b->width; w++)
                wrong += isnan(t->out[1][j * b->width + w]) != poisoned;
            for (int64_t w = 0; w < b->values_width; w++)
                wrong += isnan(t->out[2][j * b->values_width + w]) != poisoned;
            if (j < 100) continue;
            wrong += memcmp(t->out[1] + j * b->width, t->before[1] + j * b->width,
                            (size_t)b->width * sizeof(T)) != 0;
        }
        NAME(put_away)(t);
    }
    spec_check("LIT-21", wrong, 0.0);
}
