/* The kernels in f32 on NEON. */
#include "backend/cpu/kernels/kernels.h"

#if defined(__aarch64__)
#define OTA_TABLE ota_neon_f32
#include "backend/cpu/kernels/words/vector_neon.h"
#include "backend/cpu/kernels/kernels.inc.h"
#endif
