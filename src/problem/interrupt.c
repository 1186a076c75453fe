/* Has the caller asked a run to end? */
#include <stdatomic.h>

#include "base/base.h"
#include "problem/problem.h"

/* What the header promises of a flag that the caller has as an atomic. */
_Static_assert(sizeof(_Atomic int) == sizeof(int) && _Alignof(_Atomic int) == _Alignof(int) &&
                   ATOMIC_INT_LOCK_FREE == 2,
               "an atomic int is an int");

ota_status ota_interrupted(const ota_settings *settings) {
    if (settings->calls.cancel != NULL &&
        __atomic_load_n(settings->calls.cancel, __ATOMIC_RELAXED) != 0)
        return OTA_CANCELLED;
    if (settings->limits.deadline_ns != 0 && ota_now_ns() > settings->limits.deadline_ns)
        return OTA_TIMEOUT;
    return OTA_OK;
}
