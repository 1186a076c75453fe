/* The kernels in f64 on NEON. */
#include "kernels.h"

#if defined(__aarch64__)
#define OTA_REAL_F64
#define OTA_TABLE ota_neon_f64
#include "vector_neon.h"
#include "kernels.inc.h"
#endif
