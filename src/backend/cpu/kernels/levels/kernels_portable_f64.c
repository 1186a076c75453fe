/* The kernels in f64 on the compilers' own vectors. */
#define OTA_REAL_F64
#define OTA_TABLE ota_portable_f64
#include "backend/cpu/kernels/words/vector_portable.h"
#include "backend/cpu/kernels/kernels.inc.h"
