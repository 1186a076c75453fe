/* The kernels for pairs of bf16 on the compilers' own vectors. */
#define OTA_PAIRS
#define OTA_TABLE ota_portable_bf16
#include "backend/cpu/kernels/words/vector_portable.h"
#include "backend/cpu/kernels/kernels.inc.h"
