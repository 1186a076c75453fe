/* The kernels for pairs of bf16 on the compilers' own vectors. */
#define OTA_PAIRS
#define OTA_TABLE ota_portable_bf16
#include "vector_portable.h"
#include "kernels.inc.h"
