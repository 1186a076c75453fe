#define OTA_REAL_BITS 64
#include "free_rows.inc.h"
