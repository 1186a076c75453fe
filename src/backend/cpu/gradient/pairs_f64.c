#define OTA_REAL_BITS 64
#include "pairs.inc.h"
