/* Functions of one f32 without branches, so that compilers turn loops over them into vectors.
 *
 *   exp(x) = 2^k p(r), k = round(x / log 2), r = x - k log 2 in two parts, |r| <= log 2 / 2, p of degree
 *   6 (Taylor), relative error below 2e-7
 *   erf(x) = x + x P(x^2) for |x| < 1;  sign(x) (1 - exp(-Q(|x| - 1))) for 1 <= |x| <= 4, beyond which it is
 *   1 in f32; P and Q of degree 6, minimax for the relative error of erf (1.3e-9), below 2 units in the last
 *   place with the rounding of every step */
#ifndef OTATTN_MODELS_ROW_MATH_INC_H
#define OTATTN_MODELS_ROW_MATH_INC_H

#include <stdint.h>
#include <string.h>

static inline float row_exp(float x) {
    /* NaN becomes -87 too: the caller multiplies by x. */
    const float limited = x > -87.0F ? (x < 88.0F ? x : 88.0F) : -87.0F;
    /* Adding and taking away 1.5 * 2^23 rounds to a whole number. */
    const float shifted = limited * 0x1.715476p+0F + 0x1.8p23F;
    const float k = shifted - 0x1.8p23F;
    const float r = (limited - k * 0x1.62e4p-1F) - k * 0x1.7f7d1cp-20F;
    float p = 1.0F / 720;
    p = p * r + 1.0F / 120;
    p = p * r + 1.0F / 24;
    p = p * r + 1.0F / 6;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const uint32_t power = (uint32_t)((int32_t)k + 127) << 23;
    float scale;
    memcpy(&scale, &power, sizeof scale);
    return p * scale;
}

static inline float row_erf(float x) {
    const float size = __builtin_fabsf(x);
    /* NaN becomes 4 too: the caller multiplies by x. */
    const float y = size < 4.0F ? size : 4.0F;
    const float s = y * y, t = y - 1.0F;
    float p = 7.85385433e-05F;
    p = p * s - 0.00080101915F;
    p = p * s + 0.00518832744F;
    p = p * s - 0.0268538118F;
    p = p * s + 0.112835851F;
    p = p * s - 0.376126258F;
    p = p * s + 0.128379166F;
    float q = -0.000186380084F;
    q = q * t + 0.00182938629F;
    q = q * t - 0.00989546425F;
    q = q * t + 0.0415034998F;
    q = q * t + 0.843117607F;
    q = q * t + 2.63896688F;
    q = q * t + 1.84960552F;
    const float near = y + y * p, far = 1.0F - row_exp(-q);
    return __builtin_copysignf(y < 1.0F ? near : far, x);
}

#endif
