/* tanh for softcaps, without branches, so that compilers make vectors of it:
 *
 *     e = exp(-2 |x|) = 2^n (1 + p)      tanh x = sign(x) (1 - e) / (1 + e)      1 - tanh^2 x = 4 e / (1 + e)^2
 *
 * with p = r q(r) as base/exp2.h has it, and 1 - e = -(2^n p + (2^n - 1)), which near 0 is -p: both results are within a
 * few units in the last place, the derivative also where tanh is almost 1. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/exp2.h"
#include "problem/problem.h"

/* ROUNDER + n has n in its last bits; beyond LIMIT tanh rounds to 1. */
#define REAL float
#define BITS uint32_t
#define WORD(name) name##_f32
#define ROUNDER 0x1.8p23f
#define FRACTION 23
#define BIAS 127
#define LIMIT 9.2f
#define TWO_LOG2_E 0x1.715476p+1f
#define COEFFICIENTS OTA_EXP2_F32
#define ABSOLUTE fabsf
#include "softcap.inc.h"
#undef REAL
#undef BITS
#undef WORD
#undef ROUNDER
#undef FRACTION
#undef BIAS
#undef LIMIT
#undef TWO_LOG2_E
#undef COEFFICIENTS
#undef ABSOLUTE

#define REAL double
#define BITS uint64_t
#define WORD(name) name##_f64
#define ROUNDER 0x1.8p52
#define FRACTION 52
#define BIAS 1023
#define LIMIT 20.0
#define TWO_LOG2_E 0x1.71547652b82fep+1
#define COEFFICIENTS OTA_EXP2_F64
#define ABSOLUTE fabs
#include "softcap.inc.h"
