/* The fused kernel and its derivative on pairs of bf16. Part of level.c, compiled where OTA_PAIRS is defined.
 * Products of bf16 are exact in f32 and so are S and U, up to their f32 sums; P and dS are narrowed to bf16
 * before they meet V, upstream, Q and K. */

/* A row of `room` numbers as pairs of neighbours; returns the sum of what was kept. */
static real narrow_row(const real *from, int64_t room, element *to) {
    /* Twice 1.0. */
    const operand ones = operand_set(0x3f803f80u);
    vec sum = vec_set(0);
    for (int64_t j = 0; j < room; j += 2 * LANES) {
        operand x = operand_row(vec_load(from + j), vec_load(from + j + LANES));
        operand_store(to + j / 2, x);
        sum = operand_step(ones, x, sum);
    }
    return vec_reduce_add(sum);
}

static const element *weights_operand(attend_state *state, int64_t low, int64_t high,
                                      int64_t keys) {
    for (int64_t row = low; row < high; row++) {
        real sum = narrow_row(state->tile + row * OTA_KEY_TILE, tile_room(keys),
                              state->narrow + row * (OTA_KEY_TILE / 2));
        total *to = &state->narrow_sum[row];
        to->sum *= (double)state->rescale[row];
        to->rest *= (double)state->rescale[row];
        total_add(to, (double)sum);
    }
    return state->narrow;
}

static void attend_pairs(const ota_kernels_bf16_attend *p) {
    attend_state state;
    state.queries = p->queries;
    state.panels = p->packed_keys;
    state.values = p->values;
    tile_setting kept;
    tile_open(&kept);
    attend_rows(&p->block, &state);
    tile_close(&kept);
}

/* Two rows of `room` numbers as pairs of one number from each; `odd` may be NULL, for zeros. */
static void narrow_rows(const real *even, const real *odd, int64_t room, element *to) {
    for (int64_t j = 0; j < room; j += LANES) {
        operand_store(to + j,
                      operand_rows(vec_load(even + j), odd ? vec_load(odd + j) : vec_set(0)));
    }
}

static void gradient_operands(gradient_state *state, int64_t low, int64_t high, int64_t keys) {
    enum { PAIRS = OTA_ROW_BLOCK * OTA_KEY_TILE / 2 };
    element *weights = (element *)(void *)(state->slopes + OTA_ROW_BLOCK * OTA_KEY_TILE);
    element *slopes = weights + PAIRS, *left = slopes + PAIRS;
    const int64_t room = tile_room(keys);
    state->weights_transposed = weights;
    state->slopes_transposed = slopes;
    state->slopes_left = left;
    for (int64_t row = low; row < high; row += 2) {
        const real *p = state->weights + row * OTA_KEY_TILE;
        const real *s = state->slopes + row * OTA_KEY_TILE;
        const bool both = row + 1 < high;
        narrow_rows(p, both ? p + OTA_KEY_TILE : NULL, room, weights);
        narrow_rows(s, both ? s + OTA_KEY_TILE : NULL, room, slopes);
        weights += OTA_KEY_TILE;
        slopes += OTA_KEY_TILE;
    }
    for (int64_t row = low; row < high; row++) {
        (void)narrow_row(state->slopes + row * OTA_KEY_TILE, room, left);
        left += OTA_KEY_TILE / 2;
    }
}

static void gradient_pairs(const ota_kernels_bf16_gradient *p) {
    gradient_state state;
    state.queries = p->queries;
    state.upstream = p->upstream;
    state.panels = p->packed_keys;
    state.value_panels = p->packed_values;
    state.queries_right = p->queries_right;
    state.upstream_right = p->upstream_right;
    state.keys_right = p->keys_right;
    tile_setting kept;
    tile_open(&kept);
    gradient_rows(&p->block, &state);
    tile_close(&kept);
}
