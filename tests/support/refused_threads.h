/* refused_threads.h: threads that the system has no more of, and affinity masks that it wants longer. The linker puts
 * __wrap_pthread_create and __wrap_sched_getaffinity in their places in the programs that include this, each of one file. Define
 * _GNU_SOURCE first. */
#ifndef TESTS_REFUSED_THREADS_H
#define TESTS_REFUSED_THREADS_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/types.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument);
int __real_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set);

static int threads_left = -1; /* until one is refused; below 0: all start */
static int threads_refused;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument) {
    if (threads_left == 0) {
        threads_refused++;
        return EAGAIN;
    }
    if (threads_left > 0) threads_left--;
    return __real_pthread_create(thread, attributes, body, argument);
}

/* 0: the system's own answer. Else masks of fewer bytes are refused, and longer ones hold `mask_cpus` CPUs at their end. */
static size_t mask_bytes;
static int mask_cpus;

int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set) {
    if (mask_bytes == 0) return __real_sched_getaffinity(process, bytes, set);
    if (bytes < mask_bytes) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, bytes);
    for (int k = 0; k < mask_cpus; k++) CPU_SET_S(8 * bytes - 1 - (size_t)k, bytes, set);
    return 0;
}

#endif
