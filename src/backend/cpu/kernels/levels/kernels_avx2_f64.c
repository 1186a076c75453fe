/* The kernels in f64 on AVX2 and FMA. */
#include "backend/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#define OTA_REAL_F64
#define OTA_TABLE ota_avx2_f64
#include "backend/cpu/kernels/words/vector_avx2.h"
#include "backend/cpu/kernels/kernels.inc.h"
#endif
