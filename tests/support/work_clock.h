/* work_clock.h: the library's clock counts what the calling thread computes, not the time that passes, so that a deadline
 * means the same on a machine with much else to do. The linker puts __wrap_ota_now_ns in the place of ota_now_ns in the
 * programs that include this, each of one file. */
#ifndef TESTS_WORK_CLOCK_H
#define TESTS_WORK_CLOCK_H

#include <stdint.h>
#include <time.h>

int64_t __wrap_ota_now_ns(void);

/* How often the clock was read. */
static int64_t work_reads;

int64_t __wrap_ota_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    work_reads++;
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

#endif
