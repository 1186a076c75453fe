#define OTA_REAL_BITS 32
#include "pairs.inc.h"
