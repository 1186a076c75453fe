#define OTA_REAL_BITS 64
#include "capped_rows.inc.h"
