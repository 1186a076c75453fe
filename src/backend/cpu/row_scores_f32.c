#define OTA_REAL_BITS 32
#include "row_scores.inc.h"
