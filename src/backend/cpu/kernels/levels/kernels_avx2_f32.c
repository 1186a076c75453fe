/* The kernels in f32 on AVX2 and FMA. */
#include "backend/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#define OTA_TABLE ota_avx2_f32
#include "backend/cpu/kernels/words/vector_avx2.h"
#include "backend/cpu/kernels/kernels.inc.h"
#endif
