#define OTA_REAL_BITS 64
#include "rounds.inc.h"
