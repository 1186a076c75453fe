/* Numbers drawn from one state of the test program: splitmix64, set by `dice_state = seed`. Programs whose
 * problems each carry a state of their own draw by problems.h. */
#ifndef OTATTN_TESTS_DICE_H
#define OTATTN_TESTS_DICE_H

#include <math.h>
#include <stdint.h>

#include "random.h"

static uint64_t dice_state;

static inline double uniform(void) { return splitmix64_unit(&dice_state); }

static inline double normal(void) {
    return sqrt(-2.0 * log(1.0 - uniform())) * cos(6.283185307179586 * uniform());
}

#endif
