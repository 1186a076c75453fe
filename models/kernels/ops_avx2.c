/* The row arithmetic at level avx2: see ops.inc.h. */
#define OPS_TABLE ota_ops_avx2
#define OPS_NAME "avx2"
#define OPS_LANES 8
#include "ops.inc.h"
