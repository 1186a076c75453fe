/* The row arithmetic at level avx512: see ops.inc.h. */
#define OPS_TABLE ota_ops_avx512
#define OPS_NAME "avx512"
#define OPS_LANES 16
#include "ops.inc.h"
