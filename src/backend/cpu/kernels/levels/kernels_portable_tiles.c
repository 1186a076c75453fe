/* The kernels for pairs of bf16 on tiles in memory: the body that AMX runs, for the tests of every machine. */
#define OTA_PAIRS
#define OTA_TILES
#define OTA_TABLE ota_portable_tiles
#include "backend/cpu/kernels/words/vector_portable.h"
#include "backend/cpu/kernels/kernels.inc.h"
