#define OTA_REAL_BITS 32
#include "rows.inc.h"
