#define OTA_REAL_BITS 32
#include "rounds.inc.h"
