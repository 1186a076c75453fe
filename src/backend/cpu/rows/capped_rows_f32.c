#define OTA_REAL_BITS 32
#include "capped_rows.inc.h"
