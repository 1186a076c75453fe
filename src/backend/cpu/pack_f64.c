#define OTA_REAL_BITS 64
#include "pack.inc.h"
