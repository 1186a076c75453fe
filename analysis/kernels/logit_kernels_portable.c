/* The passes over logits at level portable: see logit_kernels.inc.h. */
#define LOGIT_KERNELS_TABLE ota_logit_kernels_portable
#define LOGIT_KERNELS_NAME "portable"
#include "logit_kernels.inc.h"
