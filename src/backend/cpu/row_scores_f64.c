#define OTA_REAL_BITS 64
#include "row_scores.inc.h"
