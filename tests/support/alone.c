/* alone.c: in the programs that tests/CMakeLists.txt lists as starting no thread, which the thread sanitizer leaves out,
 * the linker puts this in the place of pthread_create. A test that comes to start one ends here. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument) {
    (void)thread, (void)attributes, (void)body, (void)argument;
    (void)fputs(
        "a thread is started: take this test off the list `alone` in tests/CMakeLists.txt\n",
        stderr);
    exit(EXIT_FAILURE);
}
