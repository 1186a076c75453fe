/* Has the caller asked a run to end? */
#include "base/base.h"
#include "problem/problem.h"

ota_status ota_interrupted(const ota_settings *settings) {
    return ota_interruption(settings->calls.cancel, settings->limits.deadline_ns);
}

bool ota_reads_no_outputs(const ota_settings *settings) {
    enum { AND_READS_NOTHING = 2 };
    const int *const cancel = settings->calls.cancel;
    return cancel != NULL && __atomic_load_n(cancel, __ATOMIC_RELAXED) == AND_READS_NOTHING;
}
