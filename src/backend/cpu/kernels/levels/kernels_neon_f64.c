/* The kernels in f64 on NEON. */
#include "backend/cpu/kernels/kernels.h"

#if defined(__aarch64__)
#define OTA_REAL_F64
#define OTA_TABLE ota_neon_f64
#include "backend/cpu/kernels/words/vector_neon.h"
#include "backend/cpu/kernels/kernels.inc.h"
#endif
