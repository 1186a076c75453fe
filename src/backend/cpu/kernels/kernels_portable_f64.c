/* The kernels in f64 on the compilers' own vectors. */
#define OTA_REAL_F64
#define OTA_TABLE ota_portable_f64
#include "vector_portable.h"
#include "kernels.inc.h"
