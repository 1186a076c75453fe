/* work_clock.h: the library's clock counts what the calling thread computes, not the time that passes, so that a deadline
 * means the same on a machine with much else to do. The linker puts __wrap_ota_now_ns in the place of ota_now_ns in the
 * programs that include this, each of one file. */
#ifndef TESTS_WORK_CLOCK_H
#define TESTS_WORK_CLOCK_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

int64_t __wrap_ota_now_ns(void);

/* How often the clock was read, when last, and the longest time between two reads. */
static int64_t work_reads, work_last, work_longest;

int64_t __wrap_ota_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    const int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
    work_reads++;
    if (now_ns - work_last > work_longest) work_longest = now_ns - work_last;
    work_last = now_ns;
    return now_ns;
}

/* `ns` of work, as long as it may take here: sanitizers slow it down, and so does a malloc that fills what it gives and takes back,
 * which adds 100 ms for 70 MB (tests/mutate_build.py has it do so). */
static inline int64_t work_allowed(int64_t ns) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 20 * ns;
#else
    return getenv("MALLOC_PERTURB_") != NULL ? 5 * ns : ns;
#endif
}

/* The longest time from here on. */
static inline void work_longest_begin(void) {
    (void)__wrap_ota_now_ns();
    work_longest = 0;
}

#endif
