/* The kernels in f32 on AVX-512. */
#include "kernels.h"

#if defined(__x86_64__)
#define OTA_TABLE ota_avx512_f32
#include "vector_avx512.h"
#include "kernels.inc.h"
#endif
