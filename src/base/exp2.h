/* 2^r = 1 + r q(r) for r in [-1/2, 1/2]: coefficients of q, the highest power first. How they were found and how far
 * they are right stands in backend/cpu/kernels/exp2.inc.h. */
#ifndef OTA_EXP2_H
#define OTA_EXP2_H

/* log2(e): exp(x) = 2^(x log2(e)). */
#define OTA_LOG2_E 1.4426950408889634

#define OTA_EXP2_F32                                                                               \
    {                                                                                              \
        0x1.3f906cp-13f, 0x1.5f0a66p-10f, 0x1.3b30bp-7f, 0x1.c6af78p-5f, 0x1.ebfbd8p-3f,           \
            0x1.62e43p-1f                                                                          \
    }
#define OTA_EXP2_F64                                                                               \
    {                                                                                              \
        0x1.e9471c875b804p-32, 0x1.e61c1058a1947p-28, 0x1.b5253f6036401p-24,                       \
            0x1.62bfc71ea7788p-20, 0x1.ffcbfc595bcf6p-17, 0x1.4309130f139cbp-13,                   \
            0x1.5d87fe78a111cp-10, 0x1.3b2ab6fb9ffb3p-7, 0x1.c6b08d704a122p-5,                     \
            0x1.ebfbdff82c5a5p-3, 0x1.62e42fefa39efp-1                                             \
    }

#endif
