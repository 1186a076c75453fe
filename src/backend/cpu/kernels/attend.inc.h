/* The fused kernel, on the register tile. Part of level.c.
 *
 * attend: one pass over tiles of OTA_KEY_TILE keys. For a tile with first key j0
 *
 *     X   = Q K^T                     [rows][OTA_KEY_TILE], in scratch
 *     m'  = max(m, max_j x)           a = 2^((m - m') factor), only where the maximum rose
 *     P   = 2^((x - m') factor)       written over X
 *     l   = a l + sum_j P             f64
 *     O   = a O + P V                 [rows][values_width], in runs of 64 keys
 *
 * and O moves to f64 every FOLD_TILES tiles, so no chain of roundings grows with the number of keys.
 * Tiles, runs and folds sit at fixed places of the key axis: a row's bits do not depend on the other
 * rows of its block. x is either the raw product, with factor = scale c, or the score S itself where
 * terms, numbers of a mask, a bias, a scale that is not positive or an extreme factor ask for it. Operands of the two products
 * are numbers, or pairs of bf16 (pairs.inc.h), P narrowed to bf16 for the second: O is then divided by the sum
 * of what was narrowed, so that it stays a mean of V, and l is the sum of P itself all the same. */

enum { FOLD_TILES = 8 };

/* One panel's products: out[r][lane] for 64 lanes, in runs along the `width` elements of a query. */
static void panel_products(const element *q, const element *panel, int64_t rows, int64_t width,
                           real *out, int64_t ldo, const real *ones) {
    int64_t w = 0;
    do {
        tile_product(&(tile_operands){
            .a = q + w,
            .lda = width,
            .b = panel + w * OTA_PANEL,
            .ldb = OTA_PANEL,
            .rows = rows,
            .columns = OTA_PANEL,
            .length =
                OTA_FAULT_OF(real, WIDTH_TAIL, ota_int_min(RUN / HELD, width - w),
                             ota_int_min(RUN / HELD, width - w - (width > 8 && width % 8 != 0))),
            .out = out,
            .ldo = ldo,
            .factor = w == 0 ? NULL : ones});
        w += RUN / HELD;
    } while (w < width);
}

/* One entry a row; what is found for a tile first, then the running values of the row. */
typedef struct attend_state {
    vec lanes[OTA_ROW_BLOCK]; /* largest x of the tile, then sums of weights, of every lane */
    real tile_sum[OTA_ROW_BLOCK];
    real shift[OTA_ROW_BLOCK];   /* the new maximum, 0 where there is none yet */
    real rescale[OTA_ROW_BLOCK]; /* a */
    real ones[OTA_ROW_BLOCK];
    real top[OTA_ROW_BLOCK];         /* m */
    real base[OTA_ROW_BLOCK];        /* m when `folded` was last written */
    total sum[OTA_ROW_BLOCK];        /* l */
    total narrow_sum[OTA_ROW_BLOCK]; /* of P as it meets V, where that is narrower */
    const element *queries, *panels, *values;
    element *narrow; /* P as it meets V, there */
    real *tile;      /* X and P [rows][OTA_KEY_TILE] */
    real *tiles[2];  /* where that and, with TILE_AHEAD, the next X are */
    real *numbers;   /* of a row's masks [OTA_KEY_TILE], where they are of another type */
    real *out;       /* O [rows][ld] */
    double *folded;  /* [rows][ld] */
    int64_t ld;
    int64_t first; /* key of the first tile */
    bool has_folded;
    bool raw;      /* x is the raw product */
    real prescale; /* else x = prescale (scale q.k + bias) */
    real factor;
} attend_state;

/* X of the block's rows [low, high) against keys [first, first + keys), the rest of its tile unused. */
typedef struct score_tile {
    real *to;
    int64_t first, keys, low, high;
    int64_t formed;                      /* steps of STEP_ROWS rows x a panel that are done */
    unsigned char states[OTA_ROW_BLOCK]; /* of the rows' keys, where masks have pairs */
} score_tile;

enum { STEP_ROWS = TILE_AHEAD ? TILE_AHEAD : OTA_ROW_BLOCK };

static int64_t score_steps(const score_tile *x) {
    return ota_int_ceil_div(x->high - x->low, STEP_ROWS) * ota_int_ceil_div(x->keys, OTA_PANEL);
}

static void form_scores(const attend_block *b, const attend_state *state, score_tile *x,
                        int64_t steps) {
    const int64_t panels = ota_int_ceil_div(x->keys, OTA_PANEL), depth = elements_of(b->width);
    for (; x->formed < steps; x->formed++) {
        const int64_t row = x->low + x->formed / panels * STEP_ROWS;
        const int64_t j = x->formed % panels * OTA_PANEL;
        panel_products(state->queries + row * depth, state->panels + (x->first + j) * depth,
                       ota_int_min(STEP_ROWS, x->high - row), depth, x->to + row * OTA_KEY_TILE + j,
                       OTA_KEY_TILE, state->ones);
    }
}

/* Raw products, or what `terms` made of them, into x for the vectors that hold lanes [low, high). */
static void row_scores(const attend_block *b, const attend_state *state, int64_t row, int64_t first,
                       int64_t low, int64_t high) {
    real *x = state->tile + row * OTA_KEY_TILE;
    real scale = state->prescale;
    if (b->terms) {
        b->terms(b->terms_context, row, first + low, first + high, x + low);
    } else {
        scale *= b->scale;
    }
    if (!b->key_bias && scale >= 1 && scale <= 1) return;
    for (int64_t j = low / LANES * LANES; j < high; j += LANES) {
        vec s = vec_mul(vec_load(x + j), vec_set(scale));
        if (b->key_bias) {
            int64_t lanes = ota_int_min(LANES, high - j);
            vec bias = load_lanes(b->key_bias + first + j, lanes);
            s = vec_fma(bias, vec_set(state->prescale), s);
        }
        vec_store(x + j, s);
    }
}

/* Keys [*low, *high) of the tile that the row has; false: none. */
static inline bool keys_of_row(const attend_block *b, const score_tile *x, int64_t row,
                               int64_t *low, int64_t *high) {
    *low = ota_int_max(b->begin[row] - x->first, 0);
    *high = ota_int_min(b->end[row] - x->first, x->keys);
    return *low < *high && !(has_masks(&b->pairs) && x->states[row] == KEYS_SHUT);
}

static ALWAYS_INLINE vec row_top(const real *x, bool whole, int64_t low, int64_t high) {
    vec top = vec_set(NO_SCORE);
    if (whole) {
        UNROLL for (int64_t j = 0; j < OTA_KEY_TILE; j += LANES) {
            top = vec_max(top, vec_load(x + j));
        }
    } else {
        for (int64_t j = low / LANES * LANES; j < high; j += LANES) {
            top = vec_max(top, lanes_between(vec_load(x + j), j, low, high));
        }
    }
    return top;
}

/* x <- 2^((x - shift) factor) of `count` vectors, a constant, step by step: a chain is as long as some 50 others are wide. */
static ALWAYS_INLINE void weights_abreast(int count, vec shift, vec factor, real *x, vec *p) {
    vec t[ABREAST], n[ABREAST];
    UNROLL for (int k = 0; k < count; k++) {
        t[k] = vec_mul(vec_sub(vec_load(x + k * LANES), shift), factor);
        t[k] = vec_max(vec_set(-EXPONENT_LIMIT), t[k]);
        n[k] = vec_round(t[k]);
    }
    UNROLL for (int k = 0; k < count; k++) {
        t[k] = vec_sub(t[k], n[k]);
        p[k] = vec_set(EXP2[0]);
    }
    UNROLL for (int i = 1; i <= EXP2_TERMS; i++) {
        const vec next = vec_hold(vec_set(i < EXP2_TERMS ? EXP2[i] : 1));
        UNROLL for (int k = 0; k < count; k++) p[k] = vec_fma(p[k], t[k], next);
    }
    UNROLL for (int k = 0; k < count; k++) {
        p[k] = vec_scale_down(p[k], n[k]);
        vec_store(x + k * LANES, p[k]);
    }
}

/* Returns the sum of every lane. */
static ALWAYS_INLINE vec row_weights(real *x, bool whole, int64_t low, int64_t high, vec shift,
                                     vec factor) {
    vec sum = vec_set(0);
    if (whole) {
        UNROLL for (int64_t run = 0; run < OTA_KEY_TILE; run += SHORT) {
            vec part = vec_set(0);
            UNROLL for (int64_t j = run; j < ota_int_min(run + SHORT, OTA_KEY_TILE);
                        j += ABREAST * LANES) {
                vec p[ABREAST];
                weights_abreast(ABREAST, shift, factor, x + j, p);
                UNROLL for (int k = 0; k < ABREAST; k++) part = vec_add(part, p[k]);
            }
            sum = vec_add(sum, part);
        }
    } else {
        int64_t j = low / LANES * LANES;
        while (ABREAST > 1 && j >= low && j + ABREAST * LANES <= high) {
            vec p[ABREAST];
            weights_abreast(ABREAST, shift, factor, x + j, p);
            UNROLL for (int k = 0; k < ABREAST; k++) sum = vec_add(sum, p[k]);
            j += ABREAST * LANES;
        }
        for (; j < high; j += LANES) {
            vec s = lanes_between(vec_load(x + j), j, low, high);
            vec p = vec_exp2_down(vec_mul(vec_sub(s, shift), factor));
            vec_store(x + j, p);
            sum = vec_add(
                sum, OTA_FAULT_OF(real, TILE_TAIL, p, j + LANES > high && j > 0 ? vec_set(0) : p));
        }
    }
    return sum;
}

/* Elements of a tile's row that operands are made of. */
static inline int64_t tile_room(int64_t keys) {
    enum { GROUP = 2 * LANES };
    return HELD == 1 ? keys : (keys + GROUP - 1) / GROUP * GROUP;
}

static void clear_outside(real *x, int64_t low, int64_t high, int64_t keys) {
    int64_t before = low / LANES * LANES;
    int64_t after = (high + LANES - 1) / LANES * LANES;
    int64_t room = tile_room(keys);
    memset(x, 0, (size_t)before * sizeof *x);
    if (after < room) memset(x + after, 0, (size_t)(room - after) * sizeof *x);
}

/* The new maxima of all rows and what they do to the old sums. A NaN need not reach `top`: it is in
 * the weights and therefore in the sum. */
static void raise_tops(attend_state *state, int64_t rows) {
    vec factor = vec_set(state->factor);
    for (int64_t row = 0; row < rows; row += LANES) {
        vec old = vec_load(state->top + row);
        vec top = vec_max(vec_reduce_max_each(state->lanes + row), old);
        vec shift = vec_select(mask_above(top, vec_set(NO_SCORE)), top, vec_set(0));
        vec_store(state->top + row, top);
        vec_store(state->shift + row, shift);
        vec_store(state->rescale + row, vec_exp2_down(vec_mul(vec_sub(old, shift), factor)));
    }
}

/* Turns the scores into weights; those of `next` are formed between rows where products do not want the same units. */
static void tile_weights(const attend_block *b, attend_state *state, const score_tile *scores,
                         score_tile *next) {
    const int64_t low_row = scores->low, high_row = scores->high;
    const int64_t first = scores->first, keys = scores->keys;
    const int64_t rows = ota_int_round_up(b->rows, LANES); /* in whole vectors of them */
    for (int64_t row = 0; row < rows; row++) state->lanes[row] = vec_set(NO_SCORE);
    for (int64_t row = low_row; row < high_row; row++) {
        real *x = state->tile + row * OTA_KEY_TILE;
        int64_t low, high;
        if (has_masks(&b->pairs)) {
            fetch_row(&b->pairs, next->keys > 0 ? row : row + b->rows,
                      next->keys > 0 ? next->first : state->first, OTA_KEY_TILE);
        }
        if (!keys_of_row(b, scores, row, &low, &high)) continue;
        const bool scored = b->terms || b->key_bias || !b->pairs.bias;
        if (!state->raw && scored) row_scores(b, state, row, first, low, high);
        if (has_masks(&b->pairs) && (b->pairs.bias || scores->states[row] == KEYS_MIXED)) {
            const real scale = scored ? 1 : b->scale * state->prescale;
            const tile_row at = {row, first, low, high, scores->states[row], state->numbers};
            state->lanes[row] = mask_row(&b->pairs, &at, scale, state->prescale, x);
            continue;
        }
        bool whole = low == 0 && high == OTA_KEY_TILE;
        state->lanes[row] = whole ? row_top(x, true, 0, 0) : row_top(x, false, low, high);
    }
    raise_tops(state, rows);
    vec factor = vec_set(state->factor);
    const int64_t steps = score_steps(next);
    for (int64_t row = low_row; row < high_row; row++) {
        real *x = state->tile + row * OTA_KEY_TILE;
        if (TILE_AHEAD) {
            form_scores(b, state, next, steps * (row + 1 - low_row) / (high_row - low_row));
        }
        vec shift = vec_set(state->shift[row]);
        int64_t low, high;
        if (!keys_of_row(b, scores, row, &low, &high)) {
            state->lanes[row] = vec_set(0);
            memset(x, 0, (size_t)tile_room(keys) * sizeof *x);
            continue;
        }
        if (low == 0 && high == OTA_KEY_TILE) {
            state->lanes[row] = row_weights(x, true, 0, 0, shift, factor);
            continue;
        }
        state->lanes[row] = row_weights(x, false, low, high, shift, factor);
        clear_outside(x, low, high, keys);
    }
    for (int64_t row = 0; row < rows; row += LANES)
        vec_store(state->tile_sum + row, vec_reduce_add_each(state->lanes + row));
    for (int64_t row = low_row; row < high_row; row++) {
        state->sum[row].sum *= (double)state->rescale[row];
        state->sum[row].rest *= (double)state->rescale[row];
        total_add(&state->sum[row], (double)state->tile_sum[row]);
    }
}

/* folded = 2^((base - top) factor) folded + out, out = 0. */
static void fold(attend_state *state, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
        real *out = state->out + row * state->ld;
        double *folded = state->folded + row * state->ld;
        if (state->has_folded) {
            double change = ((double)state->base[row] - (double)state->top[row]);
            double scale =
                state->base[row] < state->top[row] ? exp2(change * (double)state->factor) : 1.0;
            for (int64_t w = 0; w < state->ld; w++) folded[w] = folded[w] * scale + (double)out[w];
        } else {
            for (int64_t w = 0; w < state->ld; w++) folded[w] = (double)out[w];
        }
        memset(out, 0, (size_t)state->ld * sizeof *out);
        state->base[row] = state->top[row];
    }
    state->has_folded = true;
}

static void finish_row(const attend_block *b, const attend_state *state, int64_t row) {
    const real *part = state->out + row * state->ld;
    const double *folded = state->folded + row * state->ld;
    real *out = b->out + row * b->values_width;
    double sum = total_of(&state->sum[row]);
    double divisor = HELD == 1 ? sum : total_of(&state->narrow_sum[row]);
    double top = (double)state->top[row];
    if (state->raw) {
        top = (double)(real)(state->top[row] * b->scale);
    } else {
        top /= (double)state->prescale;
    }
    if (sum == 0 && !(state->top[row] > NO_SCORE)) {
        b->row_max[row] = NO_SCORE;
        b->row_sum[row] = 0;
        for (int64_t w = 0; w < b->values_width; w++) out[w] = 0;
        return;
    }
    double row_factor = b->row_mass ? (double)b->row_mass[row] : 1.0;
    if (b->sink > NO_SCORE) {
        double peak = top < (double)b->sink ? (double)b->sink : top;
        double shrink = exp2((top - peak) * (double)b->c);
        double rest = exp2(((double)b->sink - peak) * (double)b->c);
        sum = sum * shrink + rest;
        divisor = divisor * shrink + rest;
        row_factor *= shrink;
        top = peak;
    }
    b->row_max[row] = isnan(sum) ? (real)NAN : (real)top;
    b->row_sum[row] = (real)sum;
    row_factor /= divisor;
    double change = (double)state->base[row] - (double)state->top[row];
    double scale = state->has_folded && change < 0 ? exp2(change * (double)state->factor) : 1.0;
    for (int64_t w = 0; w < b->values_width; w++) {
        double total = (double)part[w];
        if (state->has_folded) total += folded[w] * scale;
        out[w] = (real)(total * row_factor);
    }
}

/* P of the tile's rows [low, high) as left sides of the second product; OTA_KEY_TILE / HELD a row. */
static const element *weights_operand(attend_state *state, int64_t low, int64_t high, int64_t keys);

/* The tile of keys from `first` on, as far as `end`; without rows from there on. */
static score_tile tile_of_scores(const attend_block *b, const attend_state *state, int64_t first,
                                 int64_t end) {
    score_tile x = {.first = first,
                    .keys = ota_int_min(OTA_KEY_TILE, end - first),
                    .high = b->rows,
                    .to = state->tiles[TILE_AHEAD ? first / OTA_KEY_TILE % 2 : 0]};
    for (int64_t row = 0; row < b->rows && x.keys > 0 && has_masks(&b->pairs); row++) {
        x.states[row] = keys_state(&b->pairs, row, ota_int_max(first, b->begin[row]),
                                   ota_int_min(first + x.keys, b->end[row]));
    }
    int64_t low, high;
    while (x.low < x.high && !keys_of_row(b, &x, x.low, &low, &high)) x.low++;
    while (x.low < x.high && !keys_of_row(b, &x, x.high - 1, &low, &high)) x.high--;
    return x;
}

static void attend_tile(const attend_block *b, attend_state *state, score_tile *scores,
                        score_tile *next) {
    enum { STRIDE = OTA_KEY_TILE / HELD };
    const int64_t low = scores->low, high = scores->high, keys = scores->keys;
    state->tile = scores->to;
    if (low >= high) return;
    form_scores(b, state, scores, score_steps(scores));
    tile_weights(b, state, scores, next);
    const element *left = weights_operand(state, low, high, keys) + low * STRIDE;
    for (int64_t j = 0; j < keys; j += RUN) {
        tile_product(
            &(tile_operands){.a = left + j / HELD,
                             .lda = STRIDE,
                             .b = state->values + (scores->first + j) / HELD * b->values_width,
                             .ldb = b->values_width,
                             .rows = high - low,
                             .columns = b->values_width,
                             .length = elements_of(ota_int_min(RUN, keys - j)),
                             .out = state->out + low * state->ld,
                             .ldo = state->ld,
                             .factor = j == 0 ? state->rescale + low
                                              : OTA_FAULT_OF(real, KEY_RUNS, state->ones, NULL)});
    }
}

static int64_t padded_width(int64_t values_width) { return ota_int_round_up(values_width, 16); }

/* `state` holds the operands. */
static void attend_rows(const attend_block *b, attend_state *state) {
    real numbers[OTA_KEY_TILE];
    int64_t begin = INT64_MAX;
    int64_t end = 0;
    for (int row = 0; row < OTA_ROW_BLOCK; row++) {
        state->ones[row] = 1;
        state->top[row] = NO_SCORE;
        state->base[row] = NO_SCORE;
        state->sum[row] = state->narrow_sum[row] = (total){0, 0};
    }
    for (int64_t row = 0; row < b->rows; row++) {
        if (b->begin[row] < b->end[row]) {
            begin = ota_int_min(begin, b->begin[row]);
            end = ota_int_max(end, b->end[row]);
        }
    }
    state->ld = padded_width(b->values_width);
    state->tiles[0] = b->scratch;
    state->numbers = numbers;
    state->out = state->tiles[0] + OTA_ROW_BLOCK * OTA_KEY_TILE;
    state->folded = (double *)(void *)(state->out + OTA_ROW_BLOCK * state->ld);
    state->narrow = (element *)(void *)(state->out + 3 * OTA_ROW_BLOCK * state->ld);
    state->tiles[1] =
        TILE_AHEAD ? (real *)(void *)state->narrow + OTA_ROW_BLOCK * OTA_KEY_TILE / 2 : NULL;
    state->has_folded = false;
    state->factor = b->scale * b->c;
    state->raw = !b->terms && !b->key_bias && !b->pairs.bias && state->factor >= SMALLEST_C &&
                 state->factor <= LARGEST_C;
    state->prescale = 1;
    if (!state->raw) {
        state->prescale = score_prescale(b->c);
        state->factor = b->c / state->prescale;
    }
    memset(state->out, 0, (size_t)(b->rows * state->ld) * sizeof *state->out);
    state->first = begin / OTA_KEY_TILE * OTA_KEY_TILE;
    score_tile scores = tile_of_scores(b, state, state->first, end);
    while (scores.first < end) {
        score_tile next = tile_of_scores(b, state, scores.first + OTA_KEY_TILE, end);
        attend_tile(b, state, &scores, &next);
        if (scores.first / OTA_KEY_TILE % FOLD_TILES == FOLD_TILES - 1) fold(state, b->rows);
        scores = next;
    }
    for (int64_t row = 0; row < b->rows; row++) finish_row(b, state, row);
}
