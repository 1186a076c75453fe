#define OTA_REAL_BITS 32
#include "free_rows.inc.h"
