#define OTA_REAL_BITS 64
#include "heavy_rows.inc.h"
