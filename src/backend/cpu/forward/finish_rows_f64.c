#define OTA_REAL_BITS 64
#include "finish_rows.inc.h"
