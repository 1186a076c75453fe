/* vec_transpose on vectors of 16 bytes, in the compilers' own words. Follows a level's words. */
#ifndef OTA_TRANSPOSE_SHORT_H
#define OTA_TRANSPOSE_SHORT_H

/* Numbers of two vectors, by their places in both one after the other. */
#ifdef __clang__
#define CHOOSE(A, B, ...) __builtin_shufflevector(A, B, __VA_ARGS__)
#else
#if OTA_REAL_BITS == 32
typedef int32_t lane_places __attribute__((vector_size(16)));
#else
typedef int64_t lane_places __attribute__((vector_size(16)));
#endif
#define CHOOSE(A, B, ...) __builtin_shuffle(A, B, (lane_places){__VA_ARGS__})
#endif

static inline void vec_transpose(vec *x) {
#if OTA_REAL_BITS == 64
    const vec a = x[0], b = x[1];
    x[0] = CHOOSE(a, b, 0, 2);
    x[1] = CHOOSE(a, b, 1, 3);
#else
    const vec ab = CHOOSE(x[0], x[1], 0, 4, 1, 5), cd = CHOOSE(x[2], x[3], 0, 4, 1, 5);
    const vec ab2 = CHOOSE(x[0], x[1], 2, 6, 3, 7), cd2 = CHOOSE(x[2], x[3], 2, 6, 3, 7);
    x[0] = CHOOSE(ab, cd, 0, 1, 4, 5);
    x[1] = CHOOSE(ab, cd, 2, 3, 6, 7);
    x[2] = CHOOSE(ab2, cd2, 0, 1, 4, 5);
    x[3] = CHOOSE(ab2, cd2, 2, 3, 6, 7);
#endif
}

#endif
