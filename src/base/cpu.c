/* cpu.c: which instruction-set levels this processor and operating system offer together.
 *
 * A level counts only when the processor has every instruction of it and the operating system saves
 * its registers (XCR0); the compiler's run time looks at both once, as the program is loaded. Tiles
 * (AMX) it does not know; they in addition want the kernel's permission for the process. */
#define _GNU_SOURCE
#include "base.h"

#include <string.h>

typedef struct level_row {
    const char *name;
    unsigned features;
} level_row;

static const level_row LEVELS[] = {
    {"portable", 0},
    {"avx2", OTA_CPU_AVX2},
    {"avx512", OTA_CPU_AVX2 | OTA_CPU_AVX512},
    {"avx512bf16", OTA_CPU_AVX2 | OTA_CPU_AVX512 | OTA_CPU_BF16},
    {"amx", OTA_CPU_AVX2 | OTA_CPU_AVX512 | OTA_CPU_AMX},
    {"neon", OTA_CPU_NEON},
};

enum { LEVEL_COUNT = (int)(sizeof LEVELS / sizeof LEVELS[0]) };

int ota_cpu_level(const char *name) {
    for (int level = 0; level < LEVEL_COUNT; level++) {
        if (strcmp(LEVELS[level].name, name) == 0) return level;
    }
    return -1;
}

const char *ota_cpu_level_name(int level) {
    return level < 0 || level >= LEVEL_COUNT ? NULL : LEVELS[level].name;
}

unsigned ota_cpu_level_features(int level) { return LEVELS[level].features; }

#if defined(__x86_64__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Tile configuration and tile data in XCR0, the registers that the operating system saves. */
#define STATE_TILES 0x60000u

static unsigned saved_state(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(unsigned value, unsigned bits) { return (value & bits) == bits; }

static bool tiles_permitted(void) {
    enum { REQUEST_STATE_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_STATE_PERMISSION, TILE_DATA) == 0;
}

/* cpuid traps in a virtual machine, at some 10 us each: only a processor whose operating system saves
 * tiles is asked. P is narrowed by vectors, so those of bf16 must be there, at whatever rate. */
static bool has_tiles(void) {
    enum { AMX_BF16 = 1u << 22, AMX_TILE = 1u << 24 };
    unsigned a, b, c, d;
    return has(saved_state(), STATE_TILES) && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           has(d, AMX_BF16 | AMX_TILE) && __builtin_cpu_supports("avx512bf16") && tiles_permitted();
}

/* Intel's take two cycles each where an f32 product takes one, and gain nothing. */
static bool has_fast_bf16(void) {
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
}

static unsigned vector_features(void) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return OTA_CPU_AVX2 | OTA_CPU_AVX512;
    return OTA_CPU_AVX2;
}

unsigned ota_cpu_features(void) {
    unsigned features = vector_features();
    if ((features & OTA_CPU_AVX512) != 0) {
        if (has_fast_bf16()) features |= OTA_CPU_BF16;
        if (has_tiles()) features |= OTA_CPU_AMX;
    }
    return features;
}

#elif defined(__aarch64__)

static unsigned vector_features(void) {
    return OTA_CPU_NEON; /* part of every 64-bit ARM processor */
}

unsigned ota_cpu_features(void) { return vector_features(); }

#else

static unsigned vector_features(void) { return 0; }

unsigned ota_cpu_features(void) { return vector_features(); }

#endif

bool ota_cpu_has(unsigned features) {
    const unsigned slow = OTA_CPU_BF16 | OTA_CPU_AMX, missing = features & ~vector_features();
    if (missing == 0) return true;
    return (missing & ~slow) == 0 && (features & ~ota_cpu_features()) == 0;
}
