/* Has the caller asked a run to end? */
#include "base/base.h"
#include "problem/problem.h"

ota_status ota_interrupted(const ota_settings *settings) {
    if (settings->cancel != NULL && __atomic_load_n(settings->cancel, __ATOMIC_RELAXED) != 0)
        return OTA_CANCELLED;
    if (settings->deadline_ns != 0 && ota_now_ns() > settings->deadline_ns) return OTA_TIMEOUT;
    return OTA_OK;
}
