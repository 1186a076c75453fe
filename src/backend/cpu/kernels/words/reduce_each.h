/* The words that work on several vectors at once, on levels where that gains nothing: one by one. Follows a level's words. */
#ifndef OTA_REDUCE_EACH_H
#define OTA_REDUCE_EACH_H

#include "backend/cpu/kernels/operand.h"

enum { ABREAST = 1 };

static ALWAYS_INLINE vec vec_hold(vec x) { return x; }

static ALWAYS_INLINE vec vec_reduce_add_each(const vec *x) {
    real found[LANES];
    for (int l = 0; l < LANES; l++) found[l] = vec_reduce_add(x[l]);
    return vec_load(found);
}

static ALWAYS_INLINE vec vec_reduce_max_each(const vec *x) {
    real found[LANES];
    for (int l = 0; l < LANES; l++) found[l] = vec_reduce_max(x[l]);
    return vec_load(found);
}

#endif
