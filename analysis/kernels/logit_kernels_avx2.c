/* The passes over logits at level avx2: see logit_kernels.inc.h. */
#define SWEEP_TABLE ota_sweep_avx2
#define SWEEP_NAME "avx2"
#include "logit_kernels.inc.h"
