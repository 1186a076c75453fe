/* What the f32 and f64 tables make of the register tile: attend and gradient, whose tiles of numbers are operands as
 * they are, and the plain products. Part of level.c. */

static const element *weights_operand(attend_state *state, int64_t low, int64_t high,
                                      int64_t keys) {
    (void)low, (void)high, (void)keys;
    return state->tile;
}

static void attend(const attend_block *b) {
    attend_state state;
    state.queries = b->queries;
    state.panels = b->packed_keys;
    state.values = b->values;
    attend_rows(b, &state);
}

static void gradient_operands(gradient_state *state, int64_t low, int64_t high, int64_t keys) {
    (void)high, (void)keys;
    state->weights_transposed = state->weights + low * OTA_KEY_TILE;
    state->slopes_transposed = state->slopes_left = state->slopes + low * OTA_KEY_TILE;
}

static void gradient(const gradient_block *b) {
    gradient_state state;
    state.queries = state.queries_right = b->queries;
    state.upstream = state.upstream_right = b->upstream;
    state.panels = b->packed_keys;
    state.value_panels = b->packed_values;
    state.keys_right = b->keys;
    gradient_rows(b, &state);
}

static void products(const real *q, const real *packed_keys, int64_t rows, int64_t keys,
                     int64_t width, real *s, int64_t lds) {
    real ones[OTA_ROW_BLOCK];
    real ragged[OTA_ROW_BLOCK * OTA_PANEL];
    for (int i = 0; i < OTA_ROW_BLOCK; i++) ones[i] = 1;
    for (int64_t row = 0; row < rows; row += OTA_ROW_BLOCK) {
        int64_t height = ota_int_min(OTA_ROW_BLOCK, rows - row);
        for (int64_t key = 0; key < keys; key += OTA_PANEL) {
            int64_t lanes = ota_int_min(OTA_PANEL, keys - key);
            const real *panel = packed_keys + key * width;
            real *to = s + row * lds + key;
            if (lanes == OTA_PANEL) {
                panel_products(q + row * width, panel, height, width, to, lds, ones);
                continue;
            }
            panel_products(q + row * width, panel, height, width, ragged, OTA_PANEL, ones);
            for (int64_t r = 0; r < height; r++) {
                memcpy(to + r * lds, ragged + r * OTA_PANEL, (size_t)lanes * sizeof *to);
            }
        }
    }
}

/* Runs of 64 keys are added up over 1024 keys in a block of their own before they join `out`. */
static void apply(const real *p, const real *v, const ota_product *is, real *out) {
    enum { GROUP = 16 * RUN };
    real ones[OTA_ROW_BLOCK];
    real block[OTA_ROW_BLOCK * OTA_PANEL];
    for (int i = 0; i < OTA_ROW_BLOCK; i++) ones[i] = 1;
    for (int64_t row = 0; row < is->rows; row += OTA_ROW_BLOCK) {
        int64_t height = ota_int_min(OTA_ROW_BLOCK, is->rows - row);
        for (int64_t w = 0; w < is->width; w += OTA_PANEL) {
            int64_t columns = ota_int_min(OTA_PANEL, is->width - w);
            for (int64_t group = 0; group < is->keys; group += GROUP) {
                int64_t last = ota_int_min(group + GROUP, is->keys);
                for (int64_t j = group; j < last; j += RUN) {
                    tile_product(&(tile_operands){
                        .a = p + row * is->ldp + j,
                        .lda = is->ldp,
                        .b = v + j * is->ldv + w,
                        .ldb = is->ldv,
                        .rows = height,
                        .columns = columns,
                        .length = ota_int_min(RUN, last - j),
                        .out = block,
                        .ldo = OTA_PANEL,
                        .factor = j == group ? NULL : OTA_FAULT_OF(real, KEY_RUNS, ones, NULL)});
                }
                for (int64_t r = 0; r < height; r++) {
                    real *to = out + (row + r) * is->ldo + w;
                    for (int64_t l = 0; l < columns; l++) to[l] += block[r * OTA_PANEL + l];
                }
            }
        }
    }
}
