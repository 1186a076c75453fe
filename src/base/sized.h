/* sized.h: structs that begin with their own size. One of an older caller is shorter, and what it lacks is 0; one of a newer
 * caller is longer, and all that this library does not know must be 0. */
#ifndef OTA_SIZED_H
#define OTA_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* *own becomes what was given, its size too. False: a size of 0, or a later field that is set. */
static inline bool ota_sized_read(void *own, size_t ours, const void *given, size_t theirs) {
    memset(own, 0, ours);
    if (theirs < sizeof theirs) return false;
    memcpy(own, given, theirs < ours ? theirs : ours);
    bool known = true;
    for (size_t k = ours; k < theirs; k++) known = known && ((const unsigned char *)given)[k] == 0;
    return known;
}

/* What the caller's struct has room for, but for its size. */
static inline void ota_sized_write(void *given, size_t theirs, const void *own, size_t ours) {
    const size_t bytes = theirs < ours ? theirs : ours;
    if (bytes > sizeof theirs)
        memcpy((char *)given + sizeof theirs, (const char *)own + sizeof theirs,
               bytes - sizeof theirs);
}

#endif
