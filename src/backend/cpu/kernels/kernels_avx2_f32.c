/* The kernels in f32 on AVX2 and FMA. */
#include "kernels.h"

#if defined(__x86_64__)
#define OTA_TABLE ota_avx2_f32
#include "vector_avx2.h"
#include "kernels.inc.h"
#endif
