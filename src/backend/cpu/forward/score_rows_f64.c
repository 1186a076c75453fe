#define OTA_REAL_BITS 64
#include "score_rows.inc.h"
