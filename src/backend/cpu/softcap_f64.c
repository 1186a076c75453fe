#define OTA_REAL_BITS 64
#include "softcap.inc.h"
