/* The kernels in f64 on AVX-512. */
#include "backend/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#define OTA_REAL_F64
#define OTA_TABLE ota_avx512_f64
#include "backend/cpu/kernels/words/vector_avx512.h"
#include "backend/cpu/kernels/kernels.inc.h"
#endif
