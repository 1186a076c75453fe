#define OTA_REAL_BITS 32
#include "tasks.inc.h"
