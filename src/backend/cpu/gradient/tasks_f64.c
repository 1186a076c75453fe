#define OTA_REAL_BITS 64
#include "tasks.inc.h"
