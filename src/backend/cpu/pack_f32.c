#define OTA_REAL_BITS 32
#include "pack.inc.h"
