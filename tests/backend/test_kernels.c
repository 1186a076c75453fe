/* test_kernels.c: src/backend/cpu/: every kernel of every level this processor runs, in f32 and f64,
 * against plain long double loops; ragged sizes, any alignment, guard pages on both sides of every
 * buffer, NaN and infinities in every place, powers of two, independence of the block; packing.
 *
 * The bodies stand in test_kernels.inc.h and are compiled once per type. u is the unit roundoff of the
 * type; bounds are formulas in u and in the sizes of the terms, beside the check they belong to. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/pack.h"
#include "base/base.h"
#include "base/half.h"
#include "draw/elements.h"
#include "draw/random.h"
#include "groups.h"
#include "spec.h"

/* ---- memory between two forbidden pages ----------------------------------------------------------- */

enum { PLACE_END, PLACE_START, PLACE_MISALIGNED, PLACES, GUARDS_MAX = 64 };

typedef struct guard {
    unsigned char *map;
    size_t bytes;
} guard;

typedef struct guards {
    guard list[GUARDS_MAX];
    int count;
    int place;
} guards;

/* Room that ends at a forbidden page (PLACE_END), starts after one (PLACE_START), or starts one element
 * behind one, so that no alignment beyond the element's own is left. */
static void *guarded(guards *all, int64_t count, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (size_t)count * size;
    size_t inner = (bytes + size + page - 1) / page * page;
    unsigned char *map =
        mmap(NULL, inner + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED && all->count < GUARDS_MAX);
    assert_int_equal(mprotect(map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(map + page + inner, page, PROT_NONE), 0);
    all->list[all->count++] = (guard){map, inner + 2 * page};
    memset(map + page, 0xff, inner); /* NaN wherever nothing was written */
    if (all->place == PLACE_END) return map + page + inner - bytes;
    return map + page + (all->place == PLACE_MISALIGNED ? size : 0);
}

static void release(guards *all) {
    for (int i = 0; i < all->count; i++) munmap(all->list[i].map, all->list[i].bytes);
    all->count = 0;
}

static const int64_t SIZES[] = {0, 1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 1500};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

/* The largest of value / bound seen by a test, with what it was seen on: one line per test goes to the
 * record instead of thousands. */
typedef struct worst {
    double ratio;
    char where[160];
} worst;

static void note(worst *seen, long double value, long double bound, const char *format, ...) {
    double ratio = value <= 0 ? 0.0 : (double)(value / bound);
    if (!(value == value)) ratio = INFINITY;
    if (ratio <= seen->ratio) return;
    seen->ratio = ratio;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(seen->where, sizeof seen->where, format, arguments);
    va_end(arguments);
}

static void report(const worst *seen, const char *ids, const char *test) {
    if (seen->ratio > 0.0)
        print_message("  %s: %.3g of the bound at %s\n", test, seen->ratio, seen->where);
    spec_check_at(ids, seen->ratio, 1.0, test, __FILE__, __LINE__);
}

/* The levels of this processor, asked for once: asking is slow on virtual machines. NULL at the end. Emulation is
 * slow too: `./dev neon` leaves the portable level out. */
static const ota_kernels *LEVELS[8];

static int find_levels(void **state) {
    (void)state;
    const char *first = getenv("OTATTN_TEST_FIRST_LEVEL");
    const int skipped = first == NULL ? 0 : atoi(first);
    for (int row = 0; row < 7; row++) LEVELS[row] = ota_kernels_row(row + skipped);
    return 0;
}

static int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }

static const float LARGEST_f32 = FLT_MAX;
static const double LARGEST_f64 = DBL_MAX;

#define JOIN2(A, B) A##B
#define JOIN(A, B) JOIN2(A, B)

#define T float
/* The struct of a kernel's operands. */
#define OPERANDS(X) JOIN(JOIN(ota_kernels_, TABLE), _##X)

#define TABLE f32
#define SUFFIX _f32
#define TYPE OTA_F32
#define UNIT 0x1p-24L
#define TINY 0x1p-149L /* spacing of the subnormals */
#define LOWEST -150
#define HIGHEST 128
#include "test_kernels.inc.h"
#undef T
#undef TABLE
#undef SUFFIX
#undef TYPE
#undef UNIT
#undef TINY
#undef LOWEST
#undef HIGHEST

#define T double
#define TABLE f64
#define SUFFIX _f64
#define TYPE OTA_F64
#define UNIT 0x1p-53L
#define TINY 0x1p-1074L
#define LOWEST -1075
#define HIGHEST 1024
#include "test_kernels.inc.h"

/* ---- a fixed figure -------------------------------------------------------------------------------- */

/* N(0,1) queries, keys and values, 4096 keys of width 64, f32: the largest error of an output element
 * over ten blocks of rows is at most 3e-7 (policy 3.2). */
static void test_smoke(void **state) {
    (void)state;
    enum { ROWS = 10 * OTA_ROW_BLOCK, KEYS = 4096, WIDTH = 64 };
    dice from = 14;
    guards all = {.place = PLACE_END};
    float *q = normals_f32(&all, &from, ROWS * WIDTH, 1);
    float *k = normals_f32(&all, &from, KEYS * WIDTH, 1);
    float *v = normals_f32(&all, &from, KEYS * WIDTH, 1);
    double *exact = malloc(ROWS * WIDTH * sizeof *exact), *p = malloc(KEYS * sizeof *p);
    for (int r = 0; r < ROWS; r++) {
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < KEYS; j++) {
            p[j] = 0;
            for (int w = 0; w < WIDTH; w++)
                p[j] += (double)q[r * WIDTH + w] * (double)k[j * WIDTH + w];
            p[j] /= 8;
            top = fmax(top, p[j]);
        }
        double *row = exact + r * WIDTH;
        for (int w = 0; w < WIDTH; w++) row[w] = 0;
        for (int j = 0; j < KEYS; j++) {
            double weight = exp(p[j] - top);
            sum += weight;
            for (int w = 0; w < WIDTH; w++) row[w] += weight * (double)v[j * WIDTH + w];
        }
        for (int w = 0; w < WIDTH; w++) row[w] /= sum;
    }
    float *packed = room_f32(&all, ota_packed_length(KEYS, WIDTH));
    float *scratch = room_f32(&all, (ota_attend_scratch(WIDTH) + 15) / 16 * 16);
    pack_f32(k, KEYS, WIDTH, packed);
    for (int level = 0; LEVELS[level]; level++) {
        double error = 0;
        for (int first = 0; first < ROWS; first += OTA_ROW_BLOCK) {
            int64_t begin[OTA_ROW_BLOCK], end[OTA_ROW_BLOCK];
            float out[OTA_ROW_BLOCK * WIDTH], top[OTA_ROW_BLOCK], sum[OTA_ROW_BLOCK];
            for (int r = 0; r < OTA_ROW_BLOCK; r++) begin[r] = 0, end[r] = KEYS;
            ota_kernels_f32_attend block = {.queries = q + first * WIDTH,
                                            .packed_keys = packed,
                                            .values = v,
                                            .rows = OTA_ROW_BLOCK,
                                            .width = WIDTH,
                                            .values_width = WIDTH,
                                            .begin = begin,
                                            .end = end,
                                            .scale = 0.125f,
                                            .c = 1.44269504f,
                                            .sink = -INFINITY,
                                            .out = out,
                                            .row_max = top,
                                            .row_sum = sum,
                                            .scratch = scratch};
            LEVELS[level]->f32->attend(&block);
            for (int i = 0; i < OTA_ROW_BLOCK * WIDTH; i++) {
                error = fmax(error, fabs((double)out[i] - exact[first * WIDTH + i]));
            }
        }
        print_message("  %s: largest error %.3g\n", LEVELS[level]->name, error);
        spec_check("LIT-01 LIT-15", error, 3e-7);
    }
    free(exact);
    free(p);
    release(&all);
}

/* ---- the table ------------------------------------------------------------------------------------- */

static void test_choice(void **state) {
    (void)state;
    assert_string_equal(ota_kernels_row(0)->name, "portable");
    assert_null(ota_kernels_row(-1));
    assert_null(ota_kernels_choose("abacus"));
    int rows = 0;
    while (ota_kernels_row(rows)) rows++;
    assert_ptr_equal(ota_kernels_choose(NULL), ota_kernels_row(rows - 1));
    assert_ptr_equal(ota_kernels_choose(""), ota_kernels_row(rows - 1));
    for (int row = 0; row < rows; row++) {
        const ota_kernels *kernels = ota_kernels_row(row);
        assert_ptr_equal(ota_kernels_choose(kernels->name), kernels);
    }
    for (int level = 0; ota_cpu_level_name(level); level++) {
        if ((ota_cpu_level_features(level) & ~ota_cpu_features()) == 0) continue;
        assert_null(ota_kernels_choose(ota_cpu_level_name(level)));
    }
    assert_null(ota_kernels_row(rows));
}

#define KERNEL_TESTS(TYPE)                                                                         \
    cmocka_unit_test(test_exp2##TYPE), cmocka_unit_test(test_maximum##TYPE),                       \
        cmocka_unit_test(test_extent##TYPE), cmocka_unit_test(test_exponentials##TYPE),            \
        cmocka_unit_test(test_row_sums##TYPE), cmocka_unit_test(test_rows_and_columns##TYPE),      \
        cmocka_unit_test(test_linear##TYPE), cmocka_unit_test(test_linear_groups##TYPE),           \
        cmocka_unit_test(test_lanes##TYPE), cmocka_unit_test(test_powers##TYPE),                   \
        cmocka_unit_test(test_negative_powers##TYPE), cmocka_unit_test(test_capped##TYPE),         \
        cmocka_unit_test(test_keep##TYPE), cmocka_unit_test(test_products##TYPE),                  \
        cmocka_unit_test(test_attend##TYPE), cmocka_unit_test(test_attend_bits##TYPE),             \
        cmocka_unit_test(test_attend_poison##TYPE), cmocka_unit_test(test_attend_range##TYPE),     \
        cmocka_unit_test(test_attend_long##TYPE), cmocka_unit_test(test_packing##TYPE)

TEST_FILE(test_kernels) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_smoke),
        KERNEL_TESTS(_f32),
        KERNEL_TESTS(_f64),
    };
    return cmocka_run_group_tests_name("kernels", tests, find_levels, NULL);
}
