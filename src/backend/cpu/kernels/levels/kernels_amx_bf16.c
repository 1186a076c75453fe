/* The kernels for pairs of bf16 on AMX tiles, with the vectors of AVX-512. */
#include "backend/cpu/kernels/kernels.h"

#if defined(__x86_64__)
#define OTA_PAIRS
#define OTA_TILES
#define OTA_TABLE ota_amx_bf16
#include "backend/cpu/kernels/words/vector_avx512.h"
#include "backend/cpu/kernels/kernels.inc.h"
#endif
