/* The product of vector_tile.h for levels with tile hardware, on the tile words of tiles_amx.h or tiles_portable.h: four
 * tiles of sums, 32 x 32 of them, from two tiles of either side. Pairs of bf16 only.
 *
 * A piece of an operand that fills no tile is copied beside zeros, so shapes never change; zeros times the zeros of
 * the other side add nothing. A transposed left side is transposed piece by piece on the way into its tile. */
#ifndef OTA_MATRIX_TILE_H
#define OTA_MATRIX_TILE_H

#include "base/integers.h"

/* The tiles work beside the vectors, which meanwhile take exponentials. */
enum { TILE_AHEAD = TILE_SIDE };

typedef struct tile_piece {
    const element *at;
    int64_t ld;
} tile_piece;

/* TILE_SIDE x TILE_SIDE elements from `from` on, where [rows][columns] are left. */
static inline tile_piece piece_of(const element *from, int64_t ld, int64_t rows, int64_t columns,
                                  element *room) {
    if (rows >= TILE_SIDE && columns >= TILE_SIDE) return (tile_piece){from, ld};
    const size_t length = (size_t)ota_int_min(columns, TILE_SIDE) * sizeof *room;
    memset(room, 0, TILE_SIDE * TILE_SIDE * sizeof *room);
    for (int64_t r = 0; r < rows && r < TILE_SIDE; r++) {
        memcpy(room + r * TILE_SIDE, from + r * ld, length);
    }
    return (tile_piece){room, TILE_SIDE};
}

/* The same of a [length][rows], transposed. */
static inline tile_piece piece_transposed(const element *from, int64_t ld, int64_t rows,
                                          int64_t length, element *room) {
    element whole[TILE_SIDE * TILE_SIDE];
    const tile_piece piece = piece_of(from, ld, length, rows, whole);
    for (int64_t r = 0; r < TILE_SIDE; r += LANES) {
        for (int64_t k = 0; k < TILE_SIDE; k += LANES) {
            vec x[LANES];
            for (int64_t i = 0; i < LANES; i++) {
                x[i] = (vec)operand_load(piece.at + (k + i) * piece.ld + r);
            }
            vec_transpose(x);
            for (int64_t i = 0; i < LANES; i++) {
                operand_store(room + (r + i) * TILE_SIDE + k, (operand)x[i]);
            }
        }
    }
    return (tile_piece){room, TILE_SIDE};
}

/* `found` [rows][2 TILE_SIDE] joins out. */
static inline void join_block(const real *found, int64_t rows, int64_t columns, real *out,
                              int64_t ldo, const real *factor) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c += LANES) {
            const int64_t lanes = ota_int_min(columns - c, LANES);
            real *to = out + r * ldo + c;
            vec x = vec_load(found + r * 2 * TILE_SIDE + c);
            if (factor) x = vec_fma(vec_load_part(to, lanes), vec_set(factor[r]), x);
            vec_store_part(to, x, lanes);
        }
    }
}

/* One block of sums: `tall` x `wide` tiles, constants where this is expanded, of which x->rows by x->columns are
 * wanted. */
static ALWAYS_INLINE void tile_block(int tall, int wide, bool transposed, const tile_operands *x) {
    const element *const a = x->a, *const b = x->b;
    const int64_t lda = x->lda, ldb = x->ldb, rows = x->rows, columns = x->columns;
    tile_file file;
    element rooms[4][TILE_SIDE * TILE_SIDE];
    TILE_ZERO(&file, 0);
    if (wide > 1) TILE_ZERO(&file, 1);
    if (tall > 1) TILE_ZERO(&file, 2);
    if (tall > 1 && wide > 1) TILE_ZERO(&file, 3);
    for (int64_t k = 0; k < x->length; k += TILE_SIDE) {
        const int64_t left = x->length - k;
        tile_piece piece = transposed ? piece_transposed(a + k * lda, lda, rows, left, rooms[0])
                                      : piece_of(a + k, lda, rows, left, rooms[0]);
        TILE_LOAD(&file, 4, piece.at, piece.ld);
        if (tall > 1) {
            piece = transposed
                        ? piece_transposed(a + k * lda + TILE_SIDE, lda, rows - TILE_SIDE, left,
                                           rooms[1])
                        : piece_of(a + TILE_SIDE * lda + k, lda, rows - TILE_SIDE, left, rooms[1]);
            TILE_LOAD(&file, 5, piece.at, piece.ld);
        }
        piece = piece_of(b + k * ldb, ldb, left, columns, rooms[2]);
        TILE_LOAD(&file, 6, piece.at, piece.ld);
        TILE_STEP(&file, 0, 4, 6);
        if (tall > 1) TILE_STEP(&file, 2, 5, 6);
        if (wide < 2) continue;
        piece = piece_of(b + k * ldb + TILE_SIDE, ldb, left, columns - TILE_SIDE, rooms[3]);
        TILE_LOAD(&file, 7, piece.at, piece.ld);
        TILE_STEP(&file, 1, 4, 7);
        if (tall > 1) TILE_STEP(&file, 3, 5, 7);
    }
    const bool whole = !x->factor && rows >= tall * TILE_SIDE && columns >= wide * TILE_SIDE;
    real found[4 * TILE_SIDE * TILE_SIDE];
    real *to = whole ? x->out : found;
    const int64_t ld = whole ? x->ldo : 2 * TILE_SIDE;
    TILE_STORE(&file, 0, to, ld);
    if (wide > 1) TILE_STORE(&file, 1, to + TILE_SIDE, ld);
    if (tall > 1) TILE_STORE(&file, 2, to + TILE_SIDE * ld, ld);
    if (tall > 1 && wide > 1) TILE_STORE(&file, 3, to + TILE_SIDE * ld + TILE_SIDE, ld);
    if (!whole) join_block(found, rows, columns, x->out, x->ldo, x->factor);
}

static ALWAYS_INLINE void tile_blocks(bool transposed, const tile_operands *x) {
    enum { BLOCK = 2 * TILE_SIDE };
    tile_operands at = *x;
    for (int64_t row = 0; row < x->rows; row += BLOCK) {
        at.rows = ota_int_min(x->rows - row, BLOCK);
        at.a = transposed ? x->a + row : x->a + row * x->lda;
        at.factor = x->factor ? x->factor + row : NULL;
        for (int64_t column = 0; column < x->columns; column += BLOCK) {
            at.columns = ota_int_min(x->columns - column, BLOCK);
            at.out = x->out + row * x->ldo + column;
            at.b = x->b + column;
            if (at.rows > TILE_SIDE && at.columns > TILE_SIDE) {
                tile_block(2, 2, transposed, &at);
            } else if (at.rows > TILE_SIDE) {
                tile_block(2, 1, transposed, &at);
            } else if (at.columns > TILE_SIDE) {
                tile_block(1, 2, transposed, &at);
            } else {
                tile_block(1, 1, transposed, &at);
            }
        }
    }
}

static void tile_product(const tile_operands *x) { tile_blocks(false, x); }

static void tile_product_transposed(const tile_operands *x) { tile_blocks(true, x); }

#endif
