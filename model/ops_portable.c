/* The row arithmetic at level portable: see ops.inc.h. */
#define OPS_TABLE ota_ops_portable
#define OPS_NAME "portable"
#include "ops.inc.h"
