#define OTA_REAL_BITS 64
#include "coupled.inc.h"
