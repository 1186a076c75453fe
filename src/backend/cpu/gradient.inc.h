/* The derivative of the fused kernel: one block of rows against one tile of keys, five products on the
 * register tile and nothing kept. Part of kernels.inc.h. With Q [rows][width], K [key_count][width],
 * G = upstream [rows][values_width] and V [key_count][values_width]:
 *
 *     P  = 2^((S + h - shift) c)        S from Q K^T, in scratch
 *     U  = G V^T                        in scratch
 *     dV += P^T G       dS = P (U - a - b)       dK += dS^T Q       dQ += dS K
 *
 * Pairs outside a row's keys, or of weight 0, have dS = 0 whatever U is. */

typedef struct gradient_state {
    real *weights, *slopes; /* P and U, dS: [rows][OTA_KEY_TILE] */
    bool raw;               /* as in attend_state, like gain and factor */
    real gain, factor;
    real ones[OTA_KEY_TILE];
} gradient_state;

/* Raw products of the lanes [low, high) of a row into gain (S + h). */
static void gradient_scores(const gradient_block *b, const gradient_state *state, int64_t row,
                            int64_t low, int64_t high) {
    real *x = state->weights + row * OTA_KEY_TILE;
    real scale = state->gain;
    if (b->terms) {
        b->terms(b->terms_context, row, b->first + low, b->first + high, x + low);
    } else {
        scale *= b->scale;
    }
    for (int64_t j = low / LANES * LANES; j < high; j += LANES) {
        vec s = vec_mul(vec_load(x + j), vec_set(scale));
        if (b->key_bias) {
            vec bias = load_lanes(b->key_bias + j, smaller(LANES, b->key_count - j));
            s = vec_fma(bias, vec_set(state->gain), s);
        }
        vec_store(x + j, s);
    }
}

/* A row that could not be computed: NaN wherever it might have had weight. */
static void poison_weights(real *x, int64_t low, int64_t high, int64_t keys) {
    for (int64_t j = 0; j < keys; j++) {
        bool used = j >= low && j < high && !(x[j] <= NO_SCORE);
        x[j] = used ? (real)NAN : 0;
    }
}

static void clear_outside(real *x, int64_t low, int64_t high, int64_t keys) {
    int64_t before = low / LANES * LANES;
    int64_t after = (high + LANES - 1) / LANES * LANES;
    memset(x, 0, (size_t)before * sizeof *x);
    if (after < keys) memset(x + after, 0, (size_t)(keys - after) * sizeof *x);
}

static void gradient_weights(const gradient_block *b, const gradient_state *state, int64_t row,
                             int64_t low, int64_t high) {
    real *x = state->weights + row * OTA_KEY_TILE;
    if (low >= high) {
        memset(x, 0, (size_t)b->key_count * sizeof *x);
        return;
    }
    if (!state->raw) gradient_scores(b, state, row, low, high);
    real shift = state->raw ? b->shift[row] / b->scale : b->shift[row] * state->gain;
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
        memset(u, 0, (size_t)b->key_count * sizeof *u);
    } else if (low == 0 && high == OTA_KEY_TILE && !b->key_advantage) {
        UNROLL for (int64_t j = 0; j < OTA_KEY_TILE; j += LANES) {
            slope_lanes(p + j, u + j, advantage, NULL, LANES);
        }
    } else {
        for (int64_t j = low / LANES * LANES; j < high; j += LANES) {
            slope_lanes(p + j, u + j, advantage, b->key_advantage ? b->key_advantage + j : NULL,
                        smaller(LANES, b->key_count - j));
        }
        clear_outside(u, low, high, b->key_count);
    }
}

/* out[j][w] += sum_i tile[i][j] x[i][w] over the rows [low, high). */
static void add_turned(const gradient_state *state, const real *tile, const real *x, int64_t width,
                       int64_t low, int64_t high, int64_t keys, real *out) {
    if (!out) return;
    tile_product_turned(tile + low * OTA_KEY_TILE, OTA_KEY_TILE, x + low * width, width, keys,
                        width, high - low, out, width, state->ones);
}

static void gradient(const gradient_block *b) {
    gradient_state state = {.weights = b->scratch, .gain = 1};
    for (int j = 0; j < OTA_KEY_TILE; j++) state.ones[j] = 1;
    state.slopes = state.weights + OTA_ROW_BLOCK * OTA_KEY_TILE;
    state.factor = b->scale * b->c;
    state.raw =
        !b->terms && !b->key_bias && state.factor >= SMALLEST_C && state.factor <= LARGEST_C;
    if (!state.raw) {
        state.gain = score_gain(b->c);
        state.factor = b->c / state.gain;
    }
    int64_t past = b->first + b->key_count, low = 0, high = b->rows;
    while (low < high && (b->end[low] <= b->first || b->begin[low] >= past)) low++;
    while (low < high && (b->end[high - 1] <= b->first || b->begin[high - 1] >= past)) high--;
    if (low == high) return;
    real *weights = state.weights, *slopes = state.slopes;
    for (int64_t j = 0; j < b->key_count; j += OTA_PANEL) {
        panel_products(b->queries + low * b->width, b->packed_keys + j * b->width, high - low,
                       b->width, weights + low * OTA_KEY_TILE + j, OTA_KEY_TILE, state.ones);
        panel_products(b->upstream + low * b->values_width, b->packed_values + j * b->values_width,
                       high - low, b->values_width, slopes + low * OTA_KEY_TILE + j, OTA_KEY_TILE,
                       state.ones);
    }
    for (int64_t row = low; row < high; row++) {
        int64_t from = larger(b->begin[row] - b->first, 0);
        int64_t to = smaller(b->end[row] - b->first, b->key_count);
        gradient_weights(b, &state, row, from, to);
        gradient_slopes(b, &state, row, from, to);
    }
    add_turned(&state, weights, b->upstream, b->values_width, low, high, b->key_count,
               b->values_grad);
    add_turned(&state, slopes, b->queries, b->width, low, high, b->key_count, b->keys_grad);
    if (!b->queries_grad) return;
    for (int64_t j = 0; j < b->key_count; j += RUN) {
        tile_product(slopes + low * OTA_KEY_TILE + j, OTA_KEY_TILE, b->keys + j * b->width,
                     b->width, high - low, b->width, smaller(RUN, b->key_count - j),
                     b->queries_grad + low * b->width, b->width, state.ones);
    }
}
