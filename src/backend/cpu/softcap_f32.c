#define OTA_REAL_BITS 32
#include "softcap.inc.h"
