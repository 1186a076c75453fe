/* The passes over logits at level avx512: see logit_kernels.inc.h. */
#define LOGIT_KERNELS_TABLE ota_logit_kernels_avx512
#define LOGIT_KERNELS_NAME "avx512"
#include "logit_kernels.inc.h"
