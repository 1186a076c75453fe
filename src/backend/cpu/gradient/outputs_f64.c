#define OTA_REAL_BITS 64
#include "outputs.inc.h"
