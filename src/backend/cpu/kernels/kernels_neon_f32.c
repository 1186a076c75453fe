/* The kernels in f32 on NEON. */
#include "kernels.h"

#if defined(__aarch64__)
#define OTA_TABLE ota_neon_f32
#include "vector_neon.h"
#include "kernels.inc.h"
#endif
