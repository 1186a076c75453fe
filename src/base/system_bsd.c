/* system_bsd.c: of system.h what POSIX does not say, on macOS and the BSDs. They have no affinity that binds, large pages by
 * themselves or not at all, and no registers of AMX. */
#include "system.h"

#include <unistd.h>

int ota_system_processors(void) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > 1 << 16 ? 1 << 16 : (int)online;
}

bool ota_system_permits_tiles(void) { return false; }

void ota_system_advise_large_pages(void *memory, size_t size) { (void)memory, (void)size; }
