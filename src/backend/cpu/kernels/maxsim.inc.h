/* Tokens of a document against a panel of query tokens (backend/maxsim.h), in f32 or on pairs of bf16. A tile of MAXSIM_ROWS
 * tokens x two vectors of query tokens has its products in registers, takes their maxima there and, where they are not wanted,
 * stores none of them. Every product is a sum of chains of 64 terms, whatever the tile it falls into. Tokens in f16 become f32
 * a block of them at a time.
 *
 * While a tile is at work, tokens further on are fetched into the second cache, a line of each at a time: documents come from
 * memory, and the processor's own prefetching follows a dozen rows side by side badly. */

enum {
    MAXSIM_VECTORS = 2,
    MAXSIM_ROWS = TILE_ROWS * TILE_VECTORS / MAXSIM_VECTORS,
    MAXSIM_LINE = 64 / (int)sizeof(element),
    MAXSIM_AHEAD = 36 /* tokens, some thousand cycles */
};

static ALWAYS_INLINE element maxsim_element(const char *from) {
    element x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* A line of each of so many tokens. */
static ALWAYS_INLINE void maxsim_fetch(const char *from, int64_t stride, int64_t count) {
    for (int64_t t = 0; t < count; t++) __builtin_prefetch(from + t * stride, 0, 2);
}

/* `rows` and `vectors` are constants where this is expanded. */
static ALWAYS_INLINE void maxsim_tile(int rows, int vectors, const ota_maxsim_block *b,
                                      int64_t token, int64_t column) {
    const int64_t stride = b->stride, columns = b->columns, length = b->length;
    const char *const tokens = b->tokens + token * stride;
    const element *queries = (const element *)b->queries + column;
    const int64_t left = b->count + b->following - token - MAXSIM_AHEAD;
    const int64_t ahead = column == 0 ? ota_int_min(rows, left) : 0;
    vec whole[MAXSIM_ROWS][MAXSIM_VECTORS], sum[MAXSIM_ROWS][MAXSIM_VECTORS];
    for (int64_t first = 0; first < length || first == 0; first += RUN / HELD) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = vec_set(0);
        }
        const int64_t last = ota_int_min(first + RUN / HELD, length);
        for (int64_t line = first; line < last; line += MAXSIM_LINE) {
            const int64_t end = ota_int_min(line + MAXSIM_LINE, last);
            maxsim_fetch(tokens + MAXSIM_AHEAD * stride + line * (int64_t)sizeof(element), stride,
                         ahead);
            for (int64_t k = line; k < end; k++) {
                operand right[MAXSIM_VECTORS];
                UNROLL for (int v = 0; v < vectors; v++) right[v] =
                    operand_load(queries + v * LANES);
                UNROLL for (int r = 0; r < rows; r++) {
                    const char *from = tokens + r * stride + k * (int64_t)sizeof(element);
                    const operand left = operand_set(maxsim_element(from));
                    UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
                        operand_step(left, right[v], sum[r][v]);
                }
                queries += columns;
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int v = 0; v < vectors; v++) whole[r][v] =
                first == 0 ? sum[r][v] : vec_add(whole[r][v], sum[r][v]);
        }
    }
    UNROLL for (int v = 0; v < vectors; v++) {
        real *const best = b->best + column + v * LANES, *const lost = b->lost + column + v * LANES;
        vec most = vec_load(best), nonfinite = vec_load(lost);
        UNROLL for (int r = 0; r < rows; r++) {
            most = vec_max(most, whole[r][v]);
            nonfinite = vec_fma(whole[r][v], vec_set(0), nonfinite);
            if (b->products)
                vec_store(b->products + (token + r) * columns + column + v * LANES, whole[r][v]);
        }
        vec_store(best, most);
        vec_store(lost, nonfinite);
    }
}

typedef void maxsim_function(const ota_maxsim_block *b, int64_t token, int64_t column);

#define MAXSIM_VARIANT(ROWS, NAME)                                                                 \
    static void maxsim_##NAME##_two(const ota_maxsim_block *b, int64_t token, int64_t column) {    \
        maxsim_tile(ROWS, 2, b, token, column);                                                    \
    }                                                                                              \
    static void maxsim_##NAME##_one(const ota_maxsim_block *b, int64_t token, int64_t column) {    \
        maxsim_tile(ROWS, 1, b, token, column);                                                    \
    }
MAXSIM_VARIANT(MAXSIM_ROWS, full)
MAXSIM_VARIANT(MAXSIM_ROWS * 2 / 3, most)
MAXSIM_VARIANT(MAXSIM_ROWS / 3, some)
MAXSIM_VARIANT(1, single)

typedef struct maxsim_height {
    int rows;
    maxsim_function *one, *two;
} maxsim_height;

static const maxsim_height MAXSIM_HEIGHTS[] = {
    {MAXSIM_ROWS, maxsim_full_one, maxsim_full_two},
    {MAXSIM_ROWS * 2 / 3, maxsim_most_one, maxsim_most_two},
    {MAXSIM_ROWS / 3, maxsim_some_one, maxsim_some_two},
    {1, maxsim_single_one, maxsim_single_two}};

static void maxsim_pass(const ota_maxsim_block *b) {
    int64_t token = 0;
    for (const maxsim_height *height = MAXSIM_HEIGHTS; token < b->count; height++) {
        for (; token + height->rows <= b->count; token += height->rows) {
            int64_t column = 0;
            for (; column + 2 * LANES <= b->columns; column += 2 * LANES)
                height->two(b, token, column);
            if (column < b->columns) height->one(b, token, column);
        }
    }
}

#ifndef OTA_PAIRS
/* `ahead`: numbers behind these that are wanted next. */
static void maxsim_widen(const uint16_t *from, int64_t count, int64_t ahead, real *to) {
    enum { LINE = 64 / (int)sizeof *from };
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES) {
        if (k % LINE == 0 && k < ahead) __builtin_prefetch(from + count + k, 0, 2);
        vec_store(to + k, vec_widen(from + k));
    }
    for (; k < count; k++) to[k] = ota_f32_from_f16(from[k]);
}
#endif
