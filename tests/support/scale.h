/* scale.h: how many times more the random tests draw than by default; `./dev campaign` sets it. */
#ifndef TESTS_SCALE_H
#define TESTS_SCALE_H

#include <stdlib.h>

static inline long test_scale(void) {
    const char *text = getenv("OTATTN_TEST_SCALE");
    const long scale = text == NULL ? 1 : strtol(text, NULL, 10);
    return scale > 0 ? scale : 1;
}

#endif
