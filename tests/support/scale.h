/* scale.h: how many times more the random tests draw than by default, which `./dev campaign` sets, and which share of
 * their cases the slowest ones run: every N-th, which `./dev sanitize` sets. */
#ifndef TESTS_SCALE_H
#define TESTS_SCALE_H

#include <stdlib.h>

static inline long test_scale(void) {
    const char *text = getenv("OTATTN_TEST_SCALE");
    const long scale = text == NULL ? 1 : strtol(text, NULL, 10);
    return scale > 0 ? scale : 1;
}

static inline long test_stride(void) {
    const char *text = getenv("OTATTN_TEST_STRIDE");
    const long stride = text == NULL ? 1 : strtol(text, NULL, 10);
    return stride > 0 ? stride : 1;
}

/* Sweeps whose cases differ more: every third of them where random tests leave out some. */
static inline int test_step(void) { return test_stride() > 1 ? 3 : 1; }

#endif
