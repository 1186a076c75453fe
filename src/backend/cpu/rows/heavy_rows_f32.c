#define OTA_REAL_BITS 32
#include "heavy_rows.inc.h"
