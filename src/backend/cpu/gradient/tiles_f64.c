#define OTA_REAL_BITS 64
#include "tiles.inc.h"
