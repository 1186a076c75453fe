/* test_masks.c: masks in tiles (src/backend/cpu/head_masks.c, kernels/masked.inc.h). Forms of one padding mask (lengths, flags or
 * numbers a key) give the same bits, and a mask that allows everything those of no mask; masks of pairs, mixed, with tiles that
 * are shut and open, beside others and beside biases, agree with the plain backend: outputs and gradients, every level. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend_wrap.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn.h"
#include "spec.h"

enum { N = 150, M = 300, WIDTH = 9, VALUES = 5, BATCH = 2, HEADS = 2, MOST = 3, KINDS = 18 };
enum { OUT = BATCH * HEADS * N * VALUES, QUERIES = BATCH * HEADS * N * WIDTH };
enum { KEYS = BATCH * HEADS * M * WIDTH, VALUES_ALL = BATCH * HEADS * M * VALUES };

static dice dice_state;

typedef struct outputs {
    float out[OUT], lse[BATCH * HEADS * N], queries[QUERIES], keys[KEYS], values[VALUES_ALL];
} outputs;

typedef struct trial {
    float q[QUERIES], k[KEYS], v[VALUES_ALL], grad[OUT];
    unsigned char flags[BATCH * N * M];
    float numbers[BATCH * N * M];
    uint16_t halves[N * M];
    double wide[N * M];
    int64_t lengths[BATCH];
    ota_support supports[MOST];
    int64_t support_count;
    ota_term terms[MOST];
    int64_t term_count;
    int64_t queries;
} trial;

static trial *begin(void) {
    trial *t = calloc(1, sizeof *t);
    assert_non_null(t);
    dice_state = 17;
    float *const all[] = {t->q, t->k, t->v, t->grad};
    const int64_t counts[] = {QUERIES, KEYS, VALUES_ALL, OUT};
    for (int a = 0; a < 4; a++)
        for (int64_t e = 0; e < counts[a]; e++) all[a][e] = (float)normal(&dice_state);
    t->queries = N;
    return t;
}

/* Gradients too, but of plans of few queries. */
static void run(trial *t, const char *cpu, const char *backend, outputs *to) {
    const int64_t n = t->queries;
    const bool gradients = n == N;
    ota_problem problem = {.size = sizeof problem,
                           .queries = ota_array_of(t->q, OTA_F32, BATCH, HEADS, n, WIDTH),
                           .keys = ota_array_of(t->k, OTA_F32, BATCH, HEADS, M, WIDTH),
                           .scale = 0.3,
                           .corner = OTA_BOTTOM_RIGHT,
                           .supports = t->supports,
                           .support_count = t->support_count,
                           .terms = t->terms,
                           .term_count = t->term_count};
    ota_options options = {.size = sizeof options,
                           .gradients = gradients,
                           .threads = 1,
                           .cpu = cpu,
                           .backend = backend};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(t->v, OTA_F32, BATCH, HEADS, M, VALUES),
                         .out = ota_array_of(to->out, OTA_F32, BATCH, HEADS, n, VALUES),
                         .lse = ota_array_of(to->lse, OTA_F32, BATCH, HEADS, 1, n)};
    ota_gradients want = {.size = sizeof want,
                          .out_grad = ota_array_of(t->grad, OTA_F32, BATCH, HEADS, n, VALUES),
                          .queries = ota_array_of(to->queries, OTA_F32, BATCH, HEADS, n, WIDTH),
                          .keys = ota_array_of(to->keys, OTA_F32, BATCH, HEADS, M, WIDTH),
                          .values = ota_array_of(to->values, OTA_F32, BATCH, HEADS, M, VALUES)};
    ota_plan *plan;
    memset(to, 0, sizeof *to);
    assert_int_equal(ota_method_parse("softmax", &problem, &options, NULL), OTA_OK);
    assert_int_equal(ota_plan_create(&plan, &problem, VALUES, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    if (gradients) assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
}

static double apart(const outputs *a, const outputs *b) {
    const float *x = (const float *)a, *y = (const float *)b;
    double worst = 0.0;
    for (size_t k = 0; k < sizeof *a / sizeof *x; k++) {
        if (x[k] <= -INFINITY && y[k] <= -INFINITY) continue;
        const double away = fabs((double)x[k] - (double)y[k]) / (1.0 + fabs((double)y[k]));
        worst = away <= worst ? worst : away;
    }
    return worst;
}

static void set_support(trial *t, ota_support_kind kind, ota_array array) {
    t->supports[t->support_count++] = (ota_support){.kind = kind, .array = array};
}

static void set_term(trial *t, ota_term_kind kind, ota_array array, double value) {
    t->terms[t->term_count++] = (ota_term){.kind = kind, .array = array, .value = value};
}

/* Lengths, flags a key, numbers a key that forbid in either way: one meaning, the same bits. */
static void forms_of_padding_give_the_same_bits(void **unused) {
    (void)unused;
    if (on_other_backend()) skip_because("the bits are those of tiles");
    trial *t = begin();
    outputs *first = malloc(sizeof *first), *other = malloc(sizeof *other);
    assert_true(first != NULL && other != NULL);
    const int64_t lengths[][BATCH] = {{M, M}, {M, 211}, {1, 128}, {0, 77}};
    for (int64_t few = 0; few < 2; few++) {
        t->queries = few ? 3 : N;
        for (size_t c = 0; c < sizeof lengths / sizeof lengths[0]; c++) {
            memcpy(t->lengths, lengths[c], sizeof t->lengths);
            for (int level = 0; ota_kernel_name(level) != NULL; level++) {
                t->support_count = 0;
                set_support(t, OTA_SUPPORT_LENGTHS,
                            ota_array_of(t->lengths, OTA_I64, 1, 1, 1, BATCH));
                if (c == 0) t->support_count = 0; /* no mask */
                run(t, ota_kernel_name(level), NULL, first);
                for (int form = 0; form < 4; form++) {
                    for (int64_t e = 0; e < BATCH * M; e++) {
                        const bool open = e % M < t->lengths[e / M];
                        t->flags[e] = open;
                        t->numbers[e] = open ? 0.0f : form == 1 ? -INFINITY : -FLT_MAX;
                    }
                    t->support_count = t->term_count = 0;
                    const ota_array numbers = ota_array_of(t->numbers, OTA_F32, BATCH, 1, 1, M);
                    if (form == 0)
                        set_support(t, OTA_SUPPORT_BOOLEAN,
                                    ota_array_of(t->flags, OTA_BOOL, BATCH, 1, 1, M));
                    else if (form == 3)
                        set_term(t, OTA_TERM_DENSE, numbers, 0.0);
                    else
                        set_support(t, OTA_SUPPORT_ADDITIVE, numbers);
                    run(t, ota_kernel_name(level), NULL, other);
                    t->term_count = 0;
                    spec_check("TOT-43", memcmp(first, other, sizeof *first) != 0, 0.0);
                }
            }
        }
    }
    free(first);
    free(other);
    free(t);
}

/* Blocks of pairs that are shut, open or mixed; queries 10 to 12 have no key. */
static void draw_pairs(trial *t) {
    for (int64_t e = 0; e < BATCH * N * M; e++) {
        const int64_t i = e / M % N, j = e % M, shape = (i / 20 + j / 64 + e / (N * M)) % 3;
        const bool open = i / 3 != 4 && (shape == 0 || (shape == 1 && below(&dice_state, 2)));
        t->flags[e] = (unsigned char)(open ? 1 + below(&dice_state, 3) : 0);
        t->numbers[e] = open                    ? (float)normal(&dice_state)
                        : below(&dice_state, 2) ? -INFINITY
                                                : -FLT_MAX;
        if (e < N * M) t->halves[e] = open ? 0x3c00 : 0xfc00;
        if (e < N * M) t->wide[e] = open ? normal(&dice_state) : -DBL_MAX;
    }
}

static void choose_masks(trial *t, int kind) {
    const ota_array flags = ota_array_of(t->flags, OTA_BOOL, BATCH, 1, t->queries, M);
    const ota_array numbers = ota_array_of(t->numbers, OTA_F32, 1, 1, t->queries, M);
    const ota_array of_keys = ota_array_of(t->flags, OTA_BOOL, BATCH, 1, 1, M);
    const ota_array key_numbers = ota_array_of(t->numbers, OTA_F32, BATCH, 1, 1, M);
    const ota_array of_queries = ota_array_of(t->flags, OTA_BOOL, BATCH, 1, t->queries, 1);
    const ota_array wide = ota_array_of(t->wide, OTA_F64, 1, 1, t->queries, M);
    const ota_array halves = ota_array_of(t->halves, OTA_F16, 1, 1, t->queries, M);
    const ota_array differences = ota_array_of(t->k, OTA_F32, 1, 1, 1, t->queries + M - 1);
    const ota_array none = {0};
    /* The rows of `wide`, whose keys are not neighbours. */
    ota_array spread = wide;
    spread.stride[3] = t->queries;
    spread.stride[2] = 1;
    t->support_count = t->term_count = 0;
    switch (kind) {
    case 0: set_support(t, OTA_SUPPORT_BOOLEAN, flags); break;
    case 1: set_support(t, OTA_SUPPORT_ADDITIVE, numbers); break;
    case 2: set_support(t, OTA_SUPPORT_BOOLEAN, of_keys); break;
    case 3: set_support(t, OTA_SUPPORT_ADDITIVE, key_numbers); break;
    case 4:
        set_support(t, OTA_SUPPORT_BOOLEAN, flags);
        set_support(t, OTA_SUPPORT_ADDITIVE, numbers);
        break;
    case 5:
        set_support(t, OTA_SUPPORT_BOOLEAN, flags);
        set_support(t, OTA_SUPPORT_BOOLEAN, of_keys);
        break;
    case 6: set_support(t, OTA_SUPPORT_ADDITIVE, halves); break;
    case 7:
        set_support(t, OTA_SUPPORT_ADDITIVE, numbers);
        set_term(t, OTA_TERM_DENSE, key_numbers, 0.0);
        break;
    case 8: set_support(t, OTA_SUPPORT_BOOLEAN, of_queries); break;
    case 9:
        set_support(t, OTA_SUPPORT_CAUSAL, none);
        set_support(t, OTA_SUPPORT_BOOLEAN, of_keys);
        break;
    case 10: set_support(t, OTA_SUPPORT_ADDITIVE, wide); break;
    case 11:
        set_support(t, OTA_SUPPORT_ADDITIVE, halves);
        set_term(t, OTA_TERM_DENSE, wide, 0.0);
        break;
    case 12:
        set_support(t, OTA_SUPPORT_ADDITIVE, spread);
        set_term(t, OTA_TERM_DENSE, numbers, 0.0);
        break;
    case 13:
        set_support(t, OTA_SUPPORT_BOOLEAN, flags);
        set_support(t, OTA_SUPPORT_ADDITIVE, numbers);
        set_term(t, OTA_TERM_ALIBI, none, 0.05);
        break;
    case 14:
        set_support(t, OTA_SUPPORT_BOOLEAN, of_keys);
        set_term(t, OTA_TERM_RELATIVE, differences, 0.0);
        set_term(t, OTA_TERM_SOFTCAP, none, 1.5);
        break;
    case 15:
        set_support(t, OTA_SUPPORT_BOOLEAN, of_keys);
        set_support(t, OTA_SUPPORT_BOOLEAN, flags);
        set_support(t, OTA_SUPPORT_ADDITIVE, key_numbers);
        set_term(t, OTA_TERM_RELATIVE_INSIDE, differences, 0.0);
        break;
    case 16:
        set_support(t, OTA_SUPPORT_BOOLEAN, flags);
        set_term(t, OTA_TERM_ALIBI, none, 0.05);
        set_term(t, OTA_TERM_DENSE, wide, 0.0);
        break;
    default:
        set_support(t, OTA_SUPPORT_ADDITIVE, key_numbers);
        set_term(t, OTA_TERM_ALIBI, none, 0.05);
        set_term(t, OTA_TERM_DENSE, halves, 0.0);
        break;
    }
}

static void masks_of_pairs_agree_with_plain_loops(void **unused) {
    (void)unused;
    trial *t = begin();
    outputs *exact = malloc(sizeof *exact), *got = malloc(sizeof *got);
    assert_true(exact != NULL && got != NULL);
    for (int kind = 0; kind < 2 * KINDS; kind++) {
        t->queries = kind < KINDS ? N : 3;
        draw_pairs(t);
        choose_masks(t, kind % KINDS);
        run(t, NULL, "plain", exact);
        for (int level = 0; ota_kernel_name(level) != NULL; level++) {
            run(t, ota_kernel_name(level), NULL, got);
            spec_check("TOT-43", apart(got, exact), 2e-6);
        }
    }
    free(exact);
    free(got);
    free(t);
}

TEST_FILE(test_masks) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms_of_padding_give_the_same_bits),
                                       cmocka_unit_test(masks_of_pairs_agree_with_plain_loops)};
    return cmocka_run_group_tests_name("masks", tests, NULL, NULL);
}
