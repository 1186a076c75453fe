/* Has the caller asked a call to end? */
#include <stdatomic.h>

#include "base.h"

/* What the headers promise of a flag that the caller has as an atomic. */
_Static_assert(sizeof(_Atomic int) == sizeof(int) && _Alignof(_Atomic int) == _Alignof(int) &&
                   ATOMIC_INT_LOCK_FREE == 2,
               "an atomic int is an int");

ota_status ota_interruption(const int *cancel, int64_t deadline_ns) {
    if (cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0) return OTA_CANCELLED;
    return deadline_ns != 0 && ota_now_ns() > deadline_ns ? OTA_TIMEOUT : OTA_OK;
}
