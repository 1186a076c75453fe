/* test_finite.c: the sweep over stored weights says "NaN or infinite" exactly where decoding them to f32 gives NaN
 * or infinity, for every element type. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "draw/random.h"
#include "models/checkpoint/model.h"
#include "models/kernels/ops.h"
#include "groups.h"
#include "otattn_model.h"

enum { BLOCKS = 3, ELEMENTS_MOST = 256 * BLOCKS, BYTES_MOST = 292 * BLOCKS };

/* The first element of the first block that does not decode to numbers, or -1. */
static int64_t by_decoding(const ota_element *type, const unsigned char *data) {
    float values[ELEMENTS_MOST];
    const int64_t count = BLOCKS * type->block;
    ota_ops_named("portable")->decode[ota_element_index(type)](data, values, count);
    for (int64_t k = 0; k < count; k++)
        if (!isfinite(values[k])) return k / type->block * type->block;
    return -1;
}

static void agree(const ota_element *type, const unsigned char *data) {
    const ota_weight weight = {.type = type, .data = data, .rows = BLOCKS, .columns = type->block};
    assert_int_equal(ota_weight_nonfinite(&weight, NULL), by_decoding(type, data));
}

/* 16-bit patterns at every even byte of the middle block (all of them in types of one element), the rest drawn with
 * small factors. */
static void test_every_type(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int64_t number = 0; number < 64; number++) {
        const ota_element *type = ota_element_of_gguf(number);
        if (type == NULL) continue;
        int64_t found = 0;
        unsigned char data[BYTES_MOST] = {0};
        const int64_t stride = type->bytes > 4 ? 61 : 1; /* a prime: every exponent comes up */
        for (int64_t at = 0; at + 2 <= type->bytes; at += 2) {
            for (int64_t bits = 0; bits < 1 << 16; bits += stride) {
                for (int64_t k = 0; bits % 97 == 0 && k < BLOCKS * type->bytes; k++) {
                    data[k] = (unsigned char)splitmix64(&seed) & 0x3B; /* no exponent of ones */
                }
                /* IQ1_M's factor lies in four parts: one of its exponent's is all ones. */
                if (strcmp(type->word, "IQ1_M") == 0) data[type->bytes + 53] |= 0xC0;
                data[type->bytes + at] = (unsigned char)bits;
                data[type->bytes + at + 1] = (unsigned char)(bits >> 8);
                agree(type, data);
                found += by_decoding(type, data) == type->block;
            }
        }
        /* NVFP4 has numbers alone. */
        assert_int_equal(found > 0, strcmp(type->word, "NVFP4") != 0);
    }
}

/* Far into a long row, where whole pieces are skipped at a time. */
static void test_long_rows(void **state) {
    (void)state;
    enum { COUNT = 3 * 4096 + 5 };
    float *values = calloc(COUNT, sizeof *values);
    assert_non_null(values);
    const ota_weight weight = {.type = ota_element_named("F32"),
                               .data = (const unsigned char *)values,
                               .rows = 1,
                               .columns = COUNT};
    assert_int_equal(ota_weight_nonfinite(&weight, NULL), -1);
    for (int64_t k = COUNT - 1; k >= 0; k -= 41) {
        values[k] = k % 2 == 0 ? NAN : -INFINITY;
        assert_int_equal(ota_weight_nonfinite(&weight, NULL), k);
    }
    const ota_weight empty = {.type = weight.type, .data = weight.data, .rows = 0, .columns = 4};
    assert_int_equal(ota_weight_nonfinite(&empty, NULL), -1);
    free(values);
}

TEST_FILE(test_finite) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_long_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
