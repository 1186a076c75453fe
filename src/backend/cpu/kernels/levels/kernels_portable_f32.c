/* The kernels in f32 on the compilers' own vectors. */
#define OTA_TABLE ota_portable_f32
#include "backend/cpu/kernels/words/vector_portable.h"
#include "backend/cpu/kernels/kernels.inc.h"
