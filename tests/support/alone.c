/* alone.c: in the programs of tests the linker puts this in the place of pthread_create. A file that tests/CMakeLists.txt
 * lists as starting no thread, which the thread sanitizer leaves out, ends here where it comes to start one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "groups.h"

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument);

#ifdef TEST_ALONE
bool test_runs_alone = true;
#endif

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*body)(void *argument), void *argument) {
    if (!test_runs_alone) return __real_pthread_create(thread, attributes, body, argument);
    (void)fputs(
        "a thread is started: take this test off the list `alone` in tests/CMakeLists.txt\n",
        stderr);
    exit(EXIT_FAILURE);
}
