/* The passes over logits at level avx512: see logit_kernels.inc.h. */
#define SWEEP_TABLE ota_sweep_avx512
#define SWEEP_NAME "avx512"
#include "logit_kernels.inc.h"
