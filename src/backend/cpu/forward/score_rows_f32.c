#define OTA_REAL_BITS 32
#include "score_rows.inc.h"
