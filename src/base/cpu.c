/* cpu.c: which instruction-set levels this processor and operating system offer together.
 *
 * A level counts only when the processor has every instruction of it and the operating system saves
 * its registers (XCR0). Tiles (AMX) in addition want the kernel's permission for the process. */
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
#include <stdatomic.h>

/* Registers that the operating system saves, bits of XCR0: vectors of 32 bytes; masks and vectors of 64; tiles. */
#define STATE_AVX 0x6u
#define STATE_AVX512 0xe6u
#define STATE_TILES 0x60000u

/* One register of cpuid's answers. */
enum { A, B, C, D };

static unsigned answer(unsigned leaf, unsigned subleaf, int which) {
    unsigned value[4] = {0};
    return __get_cpuid_count(leaf, subleaf, &value[A], &value[B], &value[C], &value[D]) != 0
               ? value[which]
               : 0;
}

static bool has(unsigned value, unsigned bits) { return (value & bits) == bits; }

static unsigned saved_state(unsigned basic) {
    enum { OSXSAVE = 1u << 27 };
    unsigned low, high;
    if (!has(basic, OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Intel's take two cycles each where an f32 product takes one, and gain nothing. */
static bool is_of_amd(void) { return answer(0, 0, C) == signature_AMD_ecx; }

static unsigned look_up(void) {
    enum {
        FMA = 1u << 12,
        AVX2 = 1u << 5,
        AVX512_F_DQ_BW = 1u << 16 | 1u << 17 | 1u << 30,
        AVX512_BF16 = 1u << 5,
        AMX_BF16 = 1u << 22,
        AMX_TILE = 1u << 24
    };
    const unsigned AVX512_VL = 1u << 31;
    const unsigned basic = answer(1, 0, C), state = saved_state(basic), more = answer(7, 0, B);
    if (!has(state, STATE_AVX) || !has(basic, FMA) || !has(more, AVX2)) return 0;
    if (!has(state, STATE_AVX512) || !has(more, AVX512_F_DQ_BW | AVX512_VL)) return OTA_CPU_AVX2;
    unsigned features = OTA_CPU_AVX2 | OTA_CPU_AVX512;
    if (!has(answer(7, 1, A), AVX512_BF16)) return features;
    if (is_of_amd()) features |= OTA_CPU_BF16;
    /* P is narrowed by vectors, so those of bf16 must be there, at whatever rate. */
    if (has(state, STATE_TILES) && has(answer(7, 0, D), AMX_BF16 | AMX_TILE))
        features |= OTA_CPU_AMX;
    return features;
}

/* cpuid traps in a virtual machine, at some 10 us each, so the first answer is kept: the one variable of the library that
 * changes, and it has the same number whoever writes it. */
static unsigned own_features(void) {
    const unsigned KNOWN = 1u << 31;
    static _Atomic unsigned kept;
    unsigned features = atomic_load_explicit(&kept, memory_order_relaxed);
    if (features == 0) {
        features = look_up() | KNOWN;
        atomic_store_explicit(&kept, features, memory_order_relaxed);
    }
    return features & ~KNOWN;
}

static unsigned vector_features(void) { return own_features() & ~(unsigned)OTA_CPU_AMX; }

unsigned ota_cpu_features(void) {
    const unsigned features = own_features();
    return (features & OTA_CPU_AMX) == 0 || ota_system_permits_tiles()
               ? features
               : features & ~(unsigned)OTA_CPU_AMX;
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
    const unsigned missing = features & ~vector_features();
    if (missing == 0) return true;
    return missing == OTA_CPU_AMX && (features & ~ota_cpu_features()) == 0;
}
