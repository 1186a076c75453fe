#define OTA_REAL_BITS 32
#include "finish_rows.inc.h"
