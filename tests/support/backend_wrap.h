/* backend_wrap.h: is this run on another backend than the default (backend_wrap.c)? What a test says of the default's
 * own strategies, sizes or speed then has no object. */
#ifndef BACKEND_WRAP_H
#define BACKEND_WRAP_H

#include <stdbool.h>
#include <stdlib.h>

static inline bool on_other_backend(void) { return getenv("OTATTN_TEST_BACKEND") != NULL; }

#endif
