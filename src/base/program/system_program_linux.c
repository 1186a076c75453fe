/* system_program_linux.c: of system_program.h what only Linux says: files without a name, exchanges of files, what is left of the
 * memory. */
#define _GNU_SOURCE
#include "system_program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- memory --------------------------------------------------------------------------------- */

/* The number behind `before` in a file of /proc or /sys times `unit`; INT64_MAX where there is none
 * ("max"), or none so large. */
static int64_t number_in(const char *path, const char *before, int64_t unit) {
    char text[4096];
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return INT64_MAX;
    const ssize_t size = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    text[size > 0 ? size : 0] = '\0';
    const char *at = strstr(text, before), *number = at != NULL ? at + strlen(before) : "";
    char *end;
    const long long value = strtoll(number, &end, 10);
    return end != number && value <= INT64_MAX / unit ? value * unit : INT64_MAX;
}

/* What the machine and the container (control groups 2 and 1) can still give. */
int64_t ota_memory_available(void) {
    static const struct {
        const char *limit, *used;
    } groups[] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };
    int64_t available = number_in("/proc/meminfo", "MemAvailable:", 1024);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const int64_t limit = number_in(groups[i].limit, "", 1),
                      used = number_in(groups[i].used, "", 1);
        if (limit == INT64_MAX || used == INT64_MAX) continue;
        const int64_t left = limit > used ? limit - used : 0;
        if (left < available) available = left;
    }
    return available;
}

/* ---- streams -------------------------------------------------------------------------------- */

typedef struct cookie {
    ota_text_taker *take;
    void *to;
} cookie;

static ssize_t give(void *to, const char *bytes, size_t size) {
    const cookie *c = to;
    return (ssize_t)c->take(c->to, bytes, size);
}

static int forget(void *to) {
    free(to);
    return 0;
}

FILE *ota_text_stream(ota_text_taker *take, void *to) {
    cookie *c = malloc(sizeof *c);
    if (c == NULL) return NULL;
    *c = (cookie){take, to};
    FILE *stream = fopencookie(c, "w", (cookie_io_functions_t){.write = give, .close = forget});
    if (stream == NULL) free(c);
    return stream;
}

/* ---- outputs -------------------------------------------------------------------------------- */

/* What is open has a name in /proc, by which it can get another. */
static void name_open_file(char text[64], int descriptor) {
    (void)snprintf(text, 64, "/proc/self/fd/%d", descriptor);
}

int ota_writer_open_nameless(const char *folder) {
    const int descriptor = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (descriptor < 0) return -1;
    char open_file[64];
    name_open_file(open_file, descriptor);
    if (access(open_file, F_OK) == 0) return descriptor;
    close(descriptor);
    return -1;
}

bool ota_writer_name(int descriptor, const char *path) {
    char open_file[64];
    name_open_file(open_file, descriptor);
    return linkat(AT_FDCWD, open_file, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
}

/* Not in the C libraries of Linux before glibc 2.28 and musl 1.2.6: where this one has none, neither has the system. */
int renameat2(int old_folder, const char *from, int new_folder, const char *to, unsigned flags)
    __attribute__((weak));

static int rename_by(const char *from, const char *to, unsigned flags) {
    if (renameat2 != NULL) return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
    errno = ENOSYS;
    return -1;
}

/* File systems without the flag answer EINVAL, old kernels ENOSYS. */
static bool unsupported(void) { return errno == EINVAL || errno == ENOSYS; }

bool ota_path_place(const char *from, const char *to) {
    if (rename_by(from, to, RENAME_NOREPLACE) == 0) return true;
    if (!unsupported() || link(from, to) != 0) return false;
    (void)unlink(from);
    return true;
}

bool ota_path_place_over(const char *from, const char *to, bool *exchanged) {
    *exchanged = rename_by(from, to, RENAME_EXCHANGE) == 0;
    return *exchanged || (unsupported() && rename(from, to) == 0);
}
