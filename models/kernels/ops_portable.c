/* The row arithmetic at level portable: see ops.inc.h. */
#define OPS_TABLE ota_ops_portable
#define OPS_NAME "portable"
#define OPS_LANES 1
#include "ops.inc.h"
