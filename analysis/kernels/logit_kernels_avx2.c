/* The passes over logits at level avx2: see logit_kernels.inc.h. */
#define LOGIT_KERNELS_TABLE ota_logit_kernels_avx2
#define LOGIT_KERNELS_NAME "avx2"
#include "logit_kernels.inc.h"
