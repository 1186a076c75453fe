/* system_linux.c: of system.h what only Linux says: the affinity mask, large pages, the registers of AMX. */
#define _GNU_SOURCE
#include "system.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int ota_system_processors(void) {
    /* The kernel refuses a mask shorter than its own; its longest today is 8192 CPUs. */
    for (int cpus = 1024; cpus <= 1 << 16; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL) return 1;
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return 1;
}

bool ota_system_permits_tiles(void) {
#if defined(SYS_arch_prctl)
    enum { REQUEST_STATE_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_STATE_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

void ota_system_advise_large_pages(void *memory, size_t size) {
#if defined(MADV_HUGEPAGE)
    const size_t large = (size_t)1 << 21;
    const uintptr_t begin = ((uintptr_t)memory + large - 1) / large * large;
    const uintptr_t end = ((uintptr_t)memory + size) / large * large;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)memory, (void)size;
#endif
}
