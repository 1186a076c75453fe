/* clock.c: the one clock of the library, nanoseconds on CLOCK_MONOTONIC. */
#define _POSIX_C_SOURCE 200809L
#include "base.h"

#include <time.h>

int64_t ota_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}
