#define OTA_REAL_BITS 32
#include "tiles.inc.h"
