/* The kernels in f64 on AVX-512. */
#include "kernels.h"

#if defined(__x86_64__)
#define OTA_REAL_F64
#define OTA_TABLE ota_avx512_f64
#include "vector_avx512.h"
#include "kernels.inc.h"
#endif
