/* test_entry_caps_layout.c: caps of entries may lie anywhere: every other element, backwards, columns first, in either type, and one
 * cap for a whole row. The plan has the bits that caps side by side give. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "draw/random.h"
#include "groups.h"
#include "otattn.h"

static dice dice_state;

enum { N = 5, M = 70, WIDTH = 3, ROOM = 3 * N * M };

typedef struct layout {
    const char *name;
    int64_t first, row, column; /* of the elements, in a room of ROOM */
} layout;

static const layout layouts[] = {
    {"side by side", 0, M, 1},  {"every other", 1, 2 * M, 2}, {"backwards", N *M - 1, -M, -1},
    {"columns first", 0, 1, N}, {"rows apart", 2, 3 * M, 1},
};

static const char *const methods[] = {"softmax",  "entmax:1.5", "sparsemax",
                                      "entmax:3", "hard",       "softmax/exact"};
static const char *const levels[] = {"portable", "avx2", "avx512"};

static double scores[N * M], caps[N * M];

static void draw(void) {
    dice_state = 77;
    for (int k = 0; k < N * M; k++) {
        scores[k] = (float)(4.0 * uniform(&dice_state) - 2.0);
        caps[k] = (float)(0.02 + 0.1 * uniform(&dice_state));
    }
}

/* Weights under caps in this layout and type. */
static void solve(const char *method, const char *level, const layout *at, ota_type type,
                  double *p) {
    static double wide[ROOM];
    static float narrow[ROOM], narrow_scores[N * M];
    ota_problem problem = {.size = sizeof problem};
    ota_options options = {.size = sizeof options, .threads = 1, .cpu = level};
    ota_arrays arrays = {.size = sizeof arrays};
    ota_error error;
    assert_int_equal(ota_method_parse(method, &problem, &options, &error), OTA_OK);
    /* What lies between caps would be none. */
    for (int k = 0; k < ROOM; k++) wide[k] = narrow[k] = -1.0F;
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < M; j++) {
            const int64_t place = at->first + i * at->row + j * at->column;
            wide[place] = caps[i * M + j];
            narrow[place] = (float)caps[i * M + j];
            narrow_scores[i * M + j] = (float)scores[i * M + j];
        }
    }
    void *data = type == OTA_F64 ? (void *)(wide + at->first) : (void *)(narrow + at->first);
    problem.scores = type == OTA_F64 ? ota_array_of(scores, OTA_F64, 1, 1, N, M)
                                     : ota_array_of(narrow_scores, OTA_F32, 1, 1, N, M);
    problem.entry_caps = ota_array_of(data, type, 1, 1, N, M);
    problem.entry_caps.stride[2] = at->row;
    problem.entry_caps.stride[3] = at->column;
    arrays.coupling = ota_array_of(p, OTA_F64, 1, 1, N, M);
    if (ota_attend(&problem, &options, &arrays, NULL, &error) < 0)
        fail_msg("%s, %s: %s", method, at->name, error.message);
}

static void caps_may_lie_anywhere(void **state) {
    (void)state;
    double want[N * M], p[N * M];
    draw();
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        for (int kind = 0; kind < 6; kind++) {
            const ota_type type = kind % 2 == 0 ? OTA_F64 : OTA_F32;
            solve(methods[m], levels[kind / 2], &layouts[0], type, want);
            int above = 0;
            for (int k = 0; k < N * M; k++) above += want[k] > caps[k] * (1.0 + 1e-6);
            assert_int_equal(above, 0);
            for (size_t k = 1; k < sizeof layouts / sizeof layouts[0]; k++) {
                solve(methods[m], levels[kind / 2], &layouts[k], type, p);
                if (memcmp(p, want, sizeof p) != 0)
                    fail_msg("%s at %s, caps %s: other weights", methods[m], levels[kind / 2],
                             layouts[k].name);
            }
        }
    }
}

TEST_FILE(test_entry_caps_layout) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caps_may_lie_anywhere),
    };
    return cmocka_run_group_tests_name("entry_caps_layout", tests, NULL, NULL);
}
