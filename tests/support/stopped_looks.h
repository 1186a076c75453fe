/* stopped_looks.h: from the k-th time on that a call looks whether its caller wants it to end, he does, as a flag of
 * `cancel` would say that was raised in between. The linker puts __wrap_ota_interrupted in the place of ota_interrupted in
 * the programs that include this, each of one file. */
#ifndef TESTS_STOPPED_LOOKS_H
#define TESTS_STOPPED_LOOKS_H

#include <stdatomic.h>

#include "problem/problem.h"
#include "problem/ranks.h"

ota_status __real_ota_interrupted(const ota_settings *settings);
ota_status __wrap_ota_interrupted(const ota_settings *settings);

static _Atomic int looks;      /* since stop_after */
static int looks_allowed = -1; /* below 0: nobody wants the call to end */
static ota_status looks_say = OTA_CANCELLED;
static int looks_rank; /* of many processes, the one whose caller wants the call to end */

/* From here on the look after `count` more, and all behind it, say `status`. */
static inline void stop_after(int count, ota_status status) {
    looks = 0;
    looks_allowed = count;
    looks_say = status;
}

static inline void let_run(void) { looks_allowed = -1; }

ota_status __wrap_ota_interrupted(const ota_settings *settings) {
    if (settings->ranks != NULL && settings->ranks->to.rank != looks_rank)
        return __real_ota_interrupted(settings);
    const int now = looks++;
    return looks_allowed >= 0 && now >= looks_allowed ? looks_say
                                                      : __real_ota_interrupted(settings);
}

#endif
