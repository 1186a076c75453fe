#define OTA_REAL_BITS 64
#include "small_heads.inc.h"
