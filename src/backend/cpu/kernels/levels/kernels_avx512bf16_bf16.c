/* The kernels for pairs of bf16 on AVX512_BF16. */
#include "backend/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#define OTA_PAIRS
#define OTA_TABLE ota_avx512bf16_bf16
#include "backend/cpu/kernels/words/vector_avx512.h"
#include "backend/cpu/kernels/kernels.inc.h"
#endif
