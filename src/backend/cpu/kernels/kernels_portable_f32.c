/* The kernels in f32 on the compilers' own vectors. */
#define OTA_TABLE ota_portable_f32
#include "vector_portable.h"
#include "kernels.inc.h"
