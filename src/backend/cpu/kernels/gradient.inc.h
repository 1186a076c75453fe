/* The derivative of the fused kernel: one block of rows against one tile of keys, five products on the
 * register tile and nothing kept. Part of level.c. With Q [rows][width], K [key_count][width],
 * G = upstream [rows][values_width] and V [key_count][values_width]:
 *
 *     P  = 2^((S + h - shift) c)        S from Q K^T, in scratch
 *     U  = G V^T                        in scratch
 *     dV += P^T G       dS = P (U - a - b)       dK += dS^T Q       dQ += dS K
 *
 * Pairs outside a row's keys, or of weight 0, have dS = 0 whatever U is. */

typedef struct gradient_state {
    real *weights, *slopes; /* P and U, dS: [rows][OTA_KEY_TILE] */
    real *numbers;          /* as in attend_state */
    bool raw;               /* as in attend_state, like prescale and factor */
    real prescale, factor;
    /* Left sides of rows, panels, and right sides whose elements run along rows or keys. */
    const element *queries, *upstream, *panels, *value_panels;
    const element *queries_right, *upstream_right, *keys_right;
    /* Of the rows at work: elements along rows [..][OTA_KEY_TILE], and along keys. */
    const element *weights_transposed, *slopes_transposed, *slopes_left;
    real ones[OTA_KEY_TILE];
    unsigned char states[OTA_ROW_BLOCK]; /* of the rows' keys, where masks have pairs */
} gradient_state;

/* Keys [*low, *high) of the tile that the row has; false: none, and *low = *high. */
static inline bool tile_keys_of_row(const gradient_block *b, const gradient_state *state,
                                    int64_t row, int64_t *low, int64_t *high) {
    *low = ota_int_max(b->begin[row] - b->first, 0);
    *high = ota_int_min(b->end[row] - b->first, b->key_count);
    if (has_masks(&b->pairs) && state->states[row] == KEYS_SHUT) *high = *low;
    return *low < *high;
}

/* Raw products of the lanes [low, high) of a row into prescale (S + h). */
static void gradient_scores(const gradient_block *b, const gradient_state *state, int64_t row,
                            int64_t low, int64_t high) {
    real *x = state->weights + row * OTA_KEY_TILE;
    real scale = state->prescale;
    if (b->terms) {
        b->terms(b->terms_context, row, b->first + low, b->first + high, x + low);
    } else {
        scale *= b->scale;
    }
    if (!b->key_bias && scale >= 1 && scale <= 1) return;
    for (int64_t j = low / LANES * LANES; j < high; j += LANES) {
        vec s = vec_mul(vec_load(x + j), vec_set(scale));
        if (b->key_bias) {
            vec bias = load_lanes(b->key_bias + j, ota_int_min(LANES, b->key_count - j));
            s = vec_fma(bias, vec_set(state->prescale), s);
        }
        vec_store(x + j, s);
    }
}

/* A row that could not be computed: NaN wherever it might have had weight. */
static void poison_weights(real *x, int64_t low, int64_t high, int64_t keys) {
    for (int64_t j = 0; j < tile_room(keys); j++) {
        bool used = j >= low && j < high && !(x[j] <= NO_SCORE);
        x[j] = used ? (real)NAN : 0;
    }
}

static void gradient_weights(const gradient_block *b, const gradient_state *state, int64_t row,
                             int64_t low, int64_t high) {
    real *x = state->weights + row * OTA_KEY_TILE;
    if (low >= high) {
        memset(x, 0, (size_t)tile_room(b->key_count) * sizeof *x);
        return;
    }
    const bool scored = b->terms || b->key_bias || !b->pairs.bias;
    if (!state->raw && scored) gradient_scores(b, state, row, low, high);
    if (has_masks(&b->pairs) && (b->pairs.bias || state->states[row] == KEYS_MIXED)) {
        const real scale = scored ? 1 : b->scale * state->prescale;
        const tile_row at = {row, b->first, low, high, state->states[row], state->numbers};
        (void)mask_row(&b->pairs, &at, scale, state->prescale, x);
    }
    real shift = state->raw ? b->shift[row] / b->scale : b->shift[row] * state->prescale;
    if (shift != shift) {
        poison_weights(x, low, high, b->key_count);
    } else if (low == 0 && high == OTA_KEY_TILE) {
        (void)row_weights(x, true, 0, 0, vec_set(shift), vec_set(state->factor));
    } else {
        (void)row_weights(x, false, low, high, vec_set(shift), vec_set(state->factor));
        clear_outside(x, low, high, b->key_count);
    }
}

static ALWAYS_INLINE void slope_lanes(const real *p, real *u, vec advantage, const real *key,
                                      int64_t lanes) {
    vec weight = vec_load(p);
    vec rest = vec_sub(vec_load(u), advantage);
    if (key) rest = vec_sub(rest, load_lanes(key, lanes));
    vec none = vec_set(0);
    vec_store(u, vec_select(mask_equal(weight, none), none, vec_mul(weight, rest)));
}

/* U -> dS in place. */
static void gradient_slopes(const gradient_block *b, const gradient_state *state, int64_t row,
                            int64_t low, int64_t high) {
    const real *p = state->weights + row * OTA_KEY_TILE;
    real *u = state->slopes + row * OTA_KEY_TILE;
    vec advantage = vec_set(b->advantage[row]);
    if (low >= high) {
        memset(u, 0, (size_t)tile_room(b->key_count) * sizeof *u);
    } else if (low == 0 && high == OTA_KEY_TILE && !b->key_advantage) {
        UNROLL for (int64_t j = 0; j < OTA_KEY_TILE; j += LANES) {
            slope_lanes(p + j, u + j, advantage, NULL, LANES);
        }
    } else {
        for (int64_t j = low / LANES * LANES; j < high; j += LANES) {
            slope_lanes(p + j, u + j, advantage, b->key_advantage ? b->key_advantage + j : NULL,
                        ota_int_min(LANES, b->key_count - j));
        }
        clear_outside(u, low, high, b->key_count);
    }
}

/* out[j][w] += sum_i left[i][j] right[i][w] over `length` elements i. */
static void add_transposed(const gradient_state *state, const element *left, const element *right,
                           int64_t width, int64_t length, int64_t keys, real *out) {
    if (!out) return;
    tile_product_transposed(&(tile_operands){.a = left,
                                             .lda = OTA_KEY_TILE,
                                             .b = right,
                                             .ldb = width,
                                             .rows = keys,
                                             .columns = width,
                                             .length = length,
                                             .out = out,
                                             .ldo = width,
                                             .factor = state->ones});
}

/* Makes the left sides of the products of P and dS of the tile's rows [low, high). */
static void gradient_operands(gradient_state *state, int64_t low, int64_t high, int64_t keys);

/* `state` holds the operands that the caller gives. */
static void gradient_rows(const gradient_block *b, gradient_state *state) {
    enum { STRIDE = OTA_KEY_TILE / HELD };
    real numbers[OTA_KEY_TILE];
    for (int j = 0; j < OTA_KEY_TILE; j++) state->ones[j] = 1;
    state->numbers = numbers;
    state->weights = b->scratch;
    state->slopes = state->weights + OTA_ROW_BLOCK * OTA_KEY_TILE;
    state->prescale = 1;
    state->factor = b->scale * b->c;
    state->raw = !b->terms && !b->key_bias && !b->pairs.bias && state->factor >= SMALLEST_C &&
                 state->factor <= LARGEST_C;
    if (!state->raw) {
        state->prescale = score_prescale(b->c);
        state->factor = b->c / state->prescale;
    }
    int64_t past = b->first + b->key_count, low = 0, high = b->rows, from, to;
    for (int64_t row = 0; row < b->rows && has_masks(&b->pairs); row++) {
        state->states[row] = keys_state(&b->pairs, row, ota_int_max(b->first, b->begin[row]),
                                        ota_int_min(past, b->end[row]));
    }
    while (low < high && !tile_keys_of_row(b, state, low, &from, &to)) low++;
    while (low < high && !tile_keys_of_row(b, state, high - 1, &from, &to)) high--;
    if (low == high) return;
    low = low / HELD * HELD;
    int64_t depth = elements_of(b->width), values_depth = elements_of(b->values_width);
    for (int64_t j = 0; j < b->key_count; j += OTA_PANEL) {
        panel_products(state->queries + low * depth, state->panels + j * depth, high - low, depth,
                       state->weights + low * OTA_KEY_TILE + j, OTA_KEY_TILE, state->ones);
        panel_products(state->upstream + low * values_depth, state->value_panels + j * values_depth,
                       high - low, values_depth, state->slopes + low * OTA_KEY_TILE + j,
                       OTA_KEY_TILE, state->ones);
    }
    for (int64_t row = low; row < high; row++) {
        (void)tile_keys_of_row(b, state, row, &from, &to);
        gradient_weights(b, state, row, from, to);
        gradient_slopes(b, state, row, from, to);
    }
    gradient_operands(state, low, high, b->key_count);
    int64_t length = elements_of(
        OTA_FAULT_OF(real, GRADIENT_ROWS, high - low, high - low - (high - low > HELD)));
    int64_t element_row = low / HELD;
    add_transposed(state, state->weights_transposed,
                   state->upstream_right + element_row * b->values_width, b->values_width, length,
                   b->key_count, b->values_grad);
    add_transposed(state, state->slopes_transposed, state->queries_right + element_row * b->width,
                   b->width, length, b->key_count, b->keys_grad);
    if (!b->queries_grad) return;
    for (int64_t j = 0; j < b->key_count; j += RUN) {
        tile_product(&(tile_operands){.a = state->slopes_left + j / HELD,
                                      .lda = STRIDE,
                                      .b = state->keys_right + j / HELD * b->width,
                                      .ldb = b->width,
                                      .rows = high - low,
                                      .columns = b->width,
                                      .length = elements_of(ota_int_min(RUN, b->key_count - j)),
                                      .out = b->queries_grad + low * b->width,
                                      .ldo = b->width,
                                      .factor = state->ones});
    }
}
