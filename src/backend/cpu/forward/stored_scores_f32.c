#define OTA_REAL_BITS 32
#include "stored_scores.inc.h"
