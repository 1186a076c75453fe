/* Has the caller asked a run to end? */
#include "base/base.h"
#include "problem/problem.h"

ota_status ota_interrupted(const ota_settings *settings) {
    return ota_interruption(settings->calls.cancel, settings->limits.deadline_ns);
}
