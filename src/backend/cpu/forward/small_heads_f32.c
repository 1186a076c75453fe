#define OTA_REAL_BITS 32
#include "small_heads.inc.h"
