#define OTA_REAL_BITS 64
#include "decode.inc.h"
