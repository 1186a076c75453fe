/* The vector words on 64-bit ARM's Advanced SIMD (NEON): `vec` is 4 f32 or, with OTA_REAL_BITS 64, 2 f64. The list
 * of words and what each promises stands in vector_portable.h. Tested under emulation; speed unmeasured. */
#ifndef OTA_VECTOR_NEON_H
#define OTA_VECTOR_NEON_H

#include <arm_neon.h>
#include <stdint.h>

#if OTA_REAL_BITS == 64
typedef double real;
typedef float64x2_t vec;
typedef uint64x2_t vmask;
enum { LANES = 2, FRACTION_BITS = 52 };
#define OP(name) name##q_f64
#define MASK(name) name##q_u64
static const real LEAST_NORMAL = 0x1p-1022;
static const real LIFT_DIGITS = 0x1p53;
static const real DOWN_EXPONENT = 600.0;
static const real DOWN_POWER = 0x1p-600;
#else
typedef float real;
typedef float32x4_t vec;
typedef uint32x4_t vmask;
enum { LANES = 4, FRACTION_BITS = 23 };
#define OP(name) name##q_f32
#define MASK(name) name##q_u32
static const real LEAST_NORMAL = 0x1p-126f;
static const real LIFT_DIGITS = 0x1p24f;
static const real DOWN_EXPONENT = 100.0f;
static const real DOWN_POWER = 0x1p-100f;
#endif

/* 24 sums, 4 vectors of b and one of a fit 32 registers. */
enum { TILE_ROWS = 6, TILE_VECTORS = 4 };

static inline vec vec_load(const real *from) { return OP(vld1)(from); }
#if OTA_REAL_BITS == 32
static inline vec vec_widen(const uint16_t *from) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
}
#endif
static inline vec vec_load_part(const real *from, int64_t count) {
    real lane[LANES] = {0};
    for (int l = 0; l < LANES; l++) {
        if (l < count) lane[l] = from[l];
    }
    return vec_load(lane);
}
#if OTA_REAL_BITS == 64
static inline vec vec_from_f32_part(const float *from, int64_t count) {
    real lane[LANES] = {0};
    for (int l = 0; l < LANES; l++) {
        if (l < count) lane[l] = (real)from[l];
    }
    return vec_load(lane);
}
static inline vec vec_from_f32(const float *from) { return vcvt_f64_f32(vld1_f32(from)); }
#endif
static inline void vec_store(real *to, vec x) { OP(vst1)(to, x); }
static inline void vec_store_part(real *to, vec x, int64_t count) {
    real lane[LANES];
    vec_store(lane, x);
    for (int l = 0; l < LANES; l++) {
        if (l < count) to[l] = lane[l];
    }
}
static inline vec vec_set(real x) {
#if OTA_REAL_BITS == 64
    return vdupq_n_f64(x);
#else
    return vdupq_n_f32(x);
#endif
}
static inline real vec_first(vec x) { return x[0]; }
static inline vec vec_add(vec a, vec b) { return OP(vadd)(a, b); }
static inline vec vec_sub(vec a, vec b) { return OP(vsub)(a, b); }
static inline vec vec_mul(vec a, vec b) { return OP(vmul)(a, b); }
static inline vec vec_div(vec a, vec b) { return OP(vdiv)(a, b); }
static inline vec vec_sqrt(vec a) { return OP(vsqrt)(a); }
static inline vec vec_fma(vec a, vec b, vec c) { return OP(vfma)(c, a, b); }
static inline vec vec_rest(vec a, vec b, vec c) { return OP(vneg)(OP(vfms)(c, a, b)); }
static inline vec vec_select(vmask mask, vec yes, vec no) { return OP(vbsl)(mask, yes, no); }
static inline vmask mask_equal(vec a, vec b) { return OP(vceq)(a, b); }
static inline vmask mask_above(vec a, vec b) { return OP(vcgt)(a, b); }
static inline vmask mask_and(vmask a, vmask b) { return MASK(vand)(a, b); }
static inline unsigned mask_bits(vmask mask) {
    unsigned bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits |= ((unsigned)mask[lane] & 1u) << lane;
    return bits;
}
/* The instructions for maxima answer NaN for NaN on either side; the words promise b. */
static inline vec vec_max(vec a, vec b) { return vec_select(mask_above(a, b), a, b); }
static inline vec vec_min(vec a, vec b) { return vec_select(mask_above(b, a), a, b); }
static inline real vec_reduce_max(vec x) {
    real top = x[0];
    for (int lane = 1; lane < LANES; lane++) top = x[lane] > top ? x[lane] : top;
    return top;
}
static inline real vec_reduce_min(vec x) {
    real least = x[0];
    for (int lane = 1; lane < LANES; lane++) least = x[lane] < least ? x[lane] : least;
    return least;
}
static inline vec vec_round(vec x) { return OP(vrndn)(x); }
/* x with its subnormal lanes lifted by all digits of the fraction, which `lift` counts. */
static inline vec vec_normal(vec x, vec *lift) {
    const vmask small = mask_above(vec_set(LEAST_NORMAL), x);
    *lift = vec_select(small, vec_set(FRACTION_BITS + 1), vec_set(0));
    return vec_select(small, vec_mul(x, vec_set(LIFT_DIGITS)), x);
}
#if OTA_REAL_BITS == 64
static inline vmask mask_nan(vec x) { return veorq_u64(vceqq_f64(x, x), vdupq_n_u64(UINT64_MAX)); }
static inline vmask mask_range(int64_t low, int64_t high) {
    const uint64_t lane[LANES] = {low <= 0 && high > 0 ? UINT64_MAX : 0,
                                  low <= 1 && high > 1 ? UINT64_MAX : 0};
    return vld1q_u64(lane);
}
static inline vmask mask_flags(const unsigned char *from, int64_t count) {
    uint64_t lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = l < count && from[l] != 0 ? UINT64_MAX : 0;
    return vld1q_u64(lane);
}
static inline int64_t mask_count(vmask mask) { return (int64_t)vaddvq_u64(vshrq_n_u64(mask, 63)); }
static inline real vec_reduce_add(vec x) { return vaddvq_f64(x); }
static inline vec vec_exponent(vec x) {
    vec lift;
    const uint64x2_t field =
        vshrq_n_u64(vreinterpretq_u64_f64(vec_normal(x, &lift)), FRACTION_BITS);
    return vec_sub(vsubq_f64(vcvtq_f64_u64(field), vdupq_n_f64(1023)), lift);
}
static inline vec vec_fraction(vec x) {
    vec lift;
    const uint64x2_t bits = vreinterpretq_u64_f64(vec_normal(x, &lift));
    const uint64x2_t digits = vandq_u64(bits, vdupq_n_u64((UINT64_C(1) << FRACTION_BITS) - 1));
    return vreinterpretq_f64_u64(vorrq_u64(digits, vreinterpretq_u64_f64(vec_set(1))));
}
static inline vec vec_power_of_two(vec n) {
    const int64x2_t exponent = vaddq_s64(vcvtq_s64_f64(n), vdupq_n_s64(1023));
    return vreinterpretq_f64_s64(vshlq_n_s64(exponent, FRACTION_BITS));
}
static inline void vec_accumulate(double *to, vec x) { vst1q_f64(to, vaddq_f64(vld1q_f64(to), x)); }
#else
static inline vmask mask_nan(vec x) { return vmvnq_u32(vceqq_f32(x, x)); }
static inline vmask mask_range(int64_t low, int64_t high) {
    uint32_t lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = l >= low && l < high ? UINT32_MAX : 0;
    return vld1q_u32(lane);
}
static inline vmask mask_flags(const unsigned char *from, int64_t count) {
    uint32_t lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = l < count && from[l] != 0 ? UINT32_MAX : 0;
    return vld1q_u32(lane);
}
static inline int64_t mask_count(vmask mask) { return (int64_t)vaddvq_u32(vshrq_n_u32(mask, 31)); }
static inline real vec_reduce_add(vec x) {
    const float32x2_t two = vadd_f32(vget_low_f32(x), vget_high_f32(x));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
static inline vec vec_exponent(vec x) {
    vec lift;
    const uint32x4_t field =
        vshrq_n_u32(vreinterpretq_u32_f32(vec_normal(x, &lift)), FRACTION_BITS);
    return vec_sub(vsubq_f32(vcvtq_f32_u32(field), vdupq_n_f32(127)), lift);
}
static inline vec vec_fraction(vec x) {
    vec lift;
    const uint32x4_t bits = vreinterpretq_u32_f32(vec_normal(x, &lift));
    const uint32x4_t digits = vandq_u32(bits, vdupq_n_u32((UINT32_C(1) << FRACTION_BITS) - 1));
    return vreinterpretq_f32_u32(vorrq_u32(digits, vreinterpretq_u32_f32(vec_set(1))));
}
static inline vec vec_power_of_two(vec n) {
    const int32x4_t exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, FRACTION_BITS));
}
static inline void vec_accumulate(double *to, vec x) {
    vst1q_f64(to, vaddq_f64(vld1q_f64(to), vcvt_f64_f32(vget_low_f32(x))));
    vst1q_f64(to + 2, vaddq_f64(vld1q_f64(to + 2), vcvt_high_f64_f32(x)));
}
#endif
static inline void vec_compact(real *to, vmask mask, vec x) {
    int count = 0;
    for (int l = 0; l < LANES; l++) {
        to[count] = x[l];
        count += mask[l] != 0;
    }
}
static inline void mask_places(int32_t *to, vmask mask, int32_t first) {
    int count = 0;
    for (int l = 0; l < LANES; l++) {
        to[count] = first + l;
        count += mask[l] != 0;
    }
}
static inline vec vec_scale(vec x, vec n) {
    const vec half = vec_round(vec_mul(n, vec_set((real)0.5)));
    return vec_mul(vec_mul(x, vec_power_of_two(half)), vec_power_of_two(vec_sub(n, half)));
}
static inline vec vec_scale_down(vec x, vec n) {
    const vec power = vec_power_of_two(vec_add(n, vec_set(DOWN_EXPONENT)));
    return vec_mul(vec_mul(x, power), vec_set(DOWN_POWER));
}
#include "transpose_short.h"

#include "reduce_each.h"
#include "vector_tile.h"

#endif
