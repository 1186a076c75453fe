/* The planted fault: the one variable of the library that changes, in no build that is installed. */
#include "fault.h"

int ota_fault_planted = OTA_FAULT_NONE;

#define OTA_FAULT_TEXT(name, text) [OTA_FAULT_##name] = text,
const char *ota_fault_text(int fault) {
    static const char *const texts[] = {OTA_FAULT_ROWS(OTA_FAULT_TEXT)};
    return fault > OTA_FAULT_NONE && fault < OTA_FAULT_END ? texts[fault] : "none";
}
