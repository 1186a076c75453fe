#define OTA_REAL_BITS 32
#include "coupled.inc.h"
