#define OTA_REAL_BITS 32
#include "outputs.inc.h"
