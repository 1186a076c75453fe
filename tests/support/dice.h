/* Numbers drawn from one state of the test program: splitmix64, set by `dice_state = seed`. Programs whose
 * problems each carry a state of their own draw by problems.h. */
#ifndef OTATTN_TESTS_DICE_H
#define OTATTN_TESTS_DICE_H

#include <math.h>
#include <stdint.h>

static uint64_t dice_state;

static inline double uniform(void) {
    dice_state += 0x9e3779b97f4a7c15u;
    uint64_t x = dice_state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static inline double normal(void) {
    return sqrt(-2.0 * log(1.0 - uniform())) * cos(6.283185307179586 * uniform());
}

#endif
