#define OTA_REAL_BITS 32
#include "decode.inc.h"
