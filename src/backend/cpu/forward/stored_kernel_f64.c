#define OTA_REAL_BITS 64
#include "stored_kernel.inc.h"
