/* The passes over logits at level portable: see logit_kernels.inc.h. */
#define SWEEP_TABLE ota_sweep_portable
#define SWEEP_NAME "portable"
#include "logit_kernels.inc.h"
