/* Body for REAL = float or double: numbers that a product may not meet, in the files of backward. */
#include "backend/cpu/finite.inc.h"

/* What is not finite becomes 0. */
static bool WORD(make_finite)(REAL *x, int64_t count) {
    if (WORD(all_finite)(x, count)) return true;
    for (int64_t k = 0; k < count; k++) {
        if (!(x[k] - x[k] == (REAL)0)) x[k] = (REAL)0;
    }
    return false;
}
