#define OTA_REAL_BITS 64
#include "rows.inc.h"
