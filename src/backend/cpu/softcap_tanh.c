/* tanh of softcaps, compiled for each type, without branches, so that compilers make vectors of it:
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
#include "real.h"

/* ROUNDER + n has n in its last bits; beyond LIMIT tanh rounds to 1. */
#if OTA_REAL_BITS == 32
typedef uint32_t real_bits;
enum { FRACTION = 23, BIAS = 127 };
#define ROUNDER 0x1.8p23f
#define LIMIT 9.2f
#define TWO_LOG2_E 0x1.715476p+1f
#define COEFFICIENTS OTA_EXP2_F32
#define ABSOLUTE fabsf
#else
typedef uint64_t real_bits;
enum { FRACTION = 52, BIAS = 1023 };
#define ROUNDER 0x1.8p52
#define LIMIT 20.0
#define TWO_LOG2_E 0x1.71547652b82fep+1
#define COEFFICIENTS OTA_EXP2_F64
#define ABSOLUTE fabs
#endif

void WORD(ota_softcap_tanh)(const real *restrict x, int64_t count, real *restrict tanh_x,
                            real *restrict slope) {
    static const real q[] = COEFFICIENTS;
    enum { TERMS = sizeof q / sizeof q[0] };
    for (int64_t j = 0; j < count; j++) {
        const real size = ABSOLUTE(x[j]) < LIMIT ? ABSOLUTE(x[j]) : LIMIT;
        const real t = -TWO_LOG2_E * size, rounded = t + ROUNDER, r = t - (rounded - ROUNDER);
        real_bits bits;
        memcpy(&bits, &rounded, sizeof bits);
        bits = (bits << FRACTION) + ((real_bits)BIAS << FRACTION);
        real power, p = q[0];
        memcpy(&power, &bits, sizeof power);
        for (int k = 1; k < TERMS; k++) p = p * r + q[k];
        p *= r;
        const real e = power * p + power, rest = -(power * p + (power - (real)1));
        const real whole = (real)1 + e, value = rest / whole;
        const real value_signed = x[j] < (real)0 ? -value : value;
        /* NaN is not below the limit, but must come out. */
        tanh_x[j] = x[j] <= (real)INFINITY ? value_signed : x[j];
        slope[j] = (real)4 * e / (whole * whole);
    }
}
