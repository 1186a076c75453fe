/* The passes over logits at level portable: see sweep.inc.h. */
#define SWEEP_TABLE ota_sweep_portable
#define SWEEP_NAME "portable"
#include "sweep.inc.h"
