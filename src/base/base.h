/* base.h: what every other layer stands on: checked sizes, one aligned arena, the thread pool, the
 * instruction-set levels of this CPU, numbers as text, the clock. Internal: nothing here is exported.
 *
 * Arena: one 64-byte aligned block handed out in 64-byte aligned pieces. The same layout code runs
 * twice, first to measure (base NULL, pieces NULL, bytes counted), then to place:
 *
 *     bytes = sum over pieces of round_up(count * size, 64)
 *
 * Pool: body(context, index, worker) for every index in [0, count); which worker takes which index is
 * left to chance, so a body may use `worker` for scratch only, never for a value it writes.
 *
 * May call: libc only, and the operating system by system.h. fault.h: planted faults, in builds of their own. */
#ifndef OTA_BASE_H
#define OTA_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "integers.h"
#include "otattn.h"
#include "system.h"

/* ---- sizes and memory ----------------------------------------------------------------------- */

#define OTA_ALIGNMENT ((size_t)64)

/* *result = a * b or a + b; false, with *result untouched, when it leaves size_t. */
static inline bool ota_size_mul(size_t a, size_t b, size_t *result) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *result = product;
    return true;
}

static inline bool ota_size_add(size_t a, size_t b, size_t *result) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *result = sum;
    return true;
}

/* The product of `count` non-negative int64_t sizes as size_t; false on overflow or a negative size.
 * A zero among them gives 0 whatever the others are. */
bool ota_size_product(const int64_t *sizes, int count, size_t *result);

typedef struct ota_arena {
    unsigned char *base; /* NULL while measuring; owned by the arena once ota_arena_allocate ran */
    size_t size;         /* bytes behind base */
    size_t used;         /* bytes handed out or, while measuring, counted */
    bool overflowed;     /* a size left size_t, or a placed piece did not fit */
} ota_arena;

/* The next piece: count * size bytes, uninitialised, at a multiple of 64. NULL while measuring and
 * when it overflows; never NULL for an empty piece of a placed arena. */
void *ota_arena_take(ota_arena *arena, size_t count, size_t size);
/* The same for rows * columns pieces of `size` bytes. */
void *ota_arena_take_rows(ota_arena *arena, int64_t rows, int64_t columns, size_t size);
bool ota_arena_overflowed(const ota_arena *arena);

/* Turns a measured arena into a placed one of exactly the measured bytes, rewound to its start.
 * OTA_OK, OTA_EOVERFLOW or OTA_ENOMEM. */
ota_status ota_arena_allocate(ota_arena *arena);
/* Frees the block and leaves an empty measuring arena. */
void ota_arena_release(ota_arena *arena);

/* ---- threads -------------------------------------------------------------------------------- */

typedef struct ota_pool ota_pool;

#define OTA_THREADS_MAX 4096

/* `threads` counts the calling thread; 0 takes ota_processors(). Where threads cannot be had the pool
 * is smaller. An executor (borrowed until ota_pool_free) replaces own threads and sets the count.
 * OTA_OK, OTA_EINVAL or OTA_ENOMEM; *pool is NULL on failure. */
ota_status ota_pool_create(ota_pool **pool, int threads, const ota_executor *executor);
void ota_pool_free(ota_pool *pool);

/* Worker numbers lie in [0, ota_pool_threads(pool)); 1 for NULL. Never grows after creation. */
int ota_pool_threads(const ota_pool *pool);

/* Runs the body for every index and returns when all are done. From inside a body of the same pool it
 * runs inline under that worker's number; in a forked child the pool starts its threads anew; NULL runs
 * inline as worker 0. The caller's rounding and flush-to-zero modes hold in every worker for the job.
 * Calls from several threads at once wait for each other. */
void ota_parallel(ota_pool *pool, int64_t count,
                  void (*body)(void *context, int64_t index, int worker), void *context);

/* Of ota_processors (otattn.h) the quota alone: the smallest ceil(quota / period) over the control group named in `membership`
 * (the format of /proc/self/cgroup) and its parents below `root`, version 1 or 2; 0 = no quota. */
int ota_cgroup_cpus(const char *membership, const char *root);

/* ---- CPU levels ----------------------------------------------------------------------------- */

enum {
    OTA_CPU_AVX2 = 1u << 0,   /* with FMA */
    OTA_CPU_AVX512 = 1u << 1, /* F, BW, DQ, VL */
    OTA_CPU_AMX = 1u << 2,    /* tiles and bf16, with the operating system's permission */
    OTA_CPU_NEON = 1u << 3,
    OTA_CPU_BF16 = 1u << 4 /* AVX-512 products of bf16 at the rate of f32's, two in one */
};

/* What the processor and the operating system offer together. */
unsigned ota_cpu_features(void);
/* Whether all of `features` are among them; quicker than asking for the whole list. */
bool ota_cpu_has(unsigned features);

/* Levels are rows of one table, oldest first: "portable", "avx2", "avx512", "avx512bf16", "amx",
 * "neon". */
int ota_cpu_level(const char *name);        /* its row, or -1 */
const char *ota_cpu_level_name(int level);  /* NULL past the end */
unsigned ota_cpu_level_features(int level); /* every feature the level needs; level must exist */

/* ---- text ----------------------------------------------------------------------------------- */

/* snprintf, vsnprintf, strtod and strerror in the C locale: a decimal point where the caller's locale has a comma. The only
 * ones that the libraries call. */
__attribute__((format(printf, 3, 4))) int ota_snprintf(char *text, size_t size, const char *format,
                                                       ...);
__attribute__((format(printf, 3, 0))) int ota_vsnprintf(char *text, size_t size, const char *format,
                                                        va_list arguments);
double ota_strtod(const char *text, char **end);
/* What errno says, not translated; a constant of the C library, or valid until the thread's next call. */
const char *ota_error_text(int cause);

/* Bytes of the character that `text`, of at least one byte, begins with; a byte that begins none is one by itself, and
 * *character then UINT32_MAX (RFC 3629). */
size_t ota_text_character(const char *text, size_t size, uint32_t *character);
/* What does something where it is printed, without being seen: controls (C0, DEL, C1), format characters such as those that
 * turn the order of what follows, separators of lines and paragraphs, and bytes that are no character. */
bool ota_character_is_hidden(uint32_t character);
/* Each such character of a text ended by NUL becomes '?'. */
void ota_text_plain(char *text);

/* ---- clock ---------------------------------------------------------------------------------- */

/* OTA_CANCELLED or OTA_TIMEOUT by a flag (or NULL) and a deadline (0: none); OTA_OK to go on. */
ota_status ota_interruption(const int *cancel, int64_t deadline_ns);

#endif
