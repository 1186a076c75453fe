/* system_program_bsd.c: of system_program.h what POSIX does not say, on macOS and the BSDs: streams made of functions, and files
 * that change places, which macOS alone has. None has files without a name, nor says what is left of the memory. */
#include "system_program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int64_t ota_memory_available(void) { return INT64_MAX; }

/* ---- streams -------------------------------------------------------------------------------- */

typedef struct cookie {
    ota_text_taker *take;
    void *to;
} cookie;

static int give(void *to, const char *bytes, int size) {
    const cookie *c = to;
    return (int)c->take(c->to, bytes, (size_t)size);
}

static int forget(void *to) {
    free(to);
    return 0;
}

FILE *ota_text_stream(ota_text_taker *take, void *to) {
    cookie *c = malloc(sizeof *c);
    if (c == NULL) return NULL;
    *c = (cookie){take, to};
    FILE *stream = funopen(c, NULL, give, NULL, forget);
    if (stream == NULL) free(c);
    return stream;
}

/* ---- outputs -------------------------------------------------------------------------------- */

int ota_writer_open_nameless(const char *folder) {
    (void)folder;
    return -1;
}

bool ota_writer_name(int descriptor, const char *path) {
    (void)descriptor, (void)path;
    errno = ENOTSUP;
    return false;
}

bool ota_path_place(const char *from, const char *to) {
#if defined(RENAME_EXCL)
    if (renamex_np(from, to, RENAME_EXCL) == 0) return true;
    if (errno != ENOTSUP) return false;
#endif
    if (link(from, to) != 0) return false;
    (void)unlink(from);
    return true;
}

bool ota_path_place_over(const char *from, const char *to, bool *exchanged) {
    *exchanged = false;
#if defined(RENAME_SWAP)
    *exchanged = renamex_np(from, to, RENAME_SWAP) == 0;
    if (*exchanged || errno != ENOTSUP) return *exchanged;
#endif
    return rename(from, to) == 0;
}
