/* test_normalize.c: otattn_normalize.h on every level this CPU has, against the plain loops of
 * reference_normalize.h and the numbers of normalize_vectors.h.
 *
 * Bounds, in units u of the type. Rounds correct what rounding did before them: |P - reference| <= 2 u n (measured:
 * 0.75). Gradients are sums of as many terms as there are steps, each at most |dL/dP| <= 1: u n steps (0.25);
 * implicit ones 2 u n (0.67). */
#define _GNU_SOURCE
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
#include <sys/mman.h>
#include <unistd.h>

#include "base/integers.h"
#include "draw/random.h"
#include "groups.h"
#include "otattn_normalize.h"
#include "reference/normalize_vectors.h"
#include "reference/reference_normalize.h"
#include "spec.h"

static dice dice_state;

enum { MATRICES = 70, MOST = REFERENCE_SIDE * REFERENCE_SIDE, LARGE = 1300 };
enum { VECTORS = sizeof NORMALIZE_VECTORS / sizeof NORMALIZE_VECTORS[0] };
static const ota_type TYPES[] = {OTA_F64, OTA_F32};

static double unit_of(ota_type type) { return type == OTA_F64 ? DBL_EPSILON : FLT_EPSILON; }

/* ---- arrays of either type --------------------------------------------------------------------- */

/* `bytes` that end where a page begins that nobody may touch. */
typedef struct guarded {
    unsigned char *whole;
    size_t length;
    void *data;
} guarded;

static guarded guard(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t length = (bytes + page - 1) / page * page + page;
    guarded g = {.length = length};
    g.whole = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g.whole, MAP_FAILED);
    assert_int_equal(mprotect(g.whole + length - page, page, PROT_NONE), 0);
    g.data = g.whole + length - page - bytes;
    return g;
}

static void unguard(guarded *g) { munmap(g->whole, g->length); }

static double get(ota_type type, const void *x, int64_t e) {
    return type == OTA_F64 ? ((const double *)x)[e] : (double)((const float *)x)[e];
}

static void set(ota_type type, void *x, int64_t e, double value) {
    if (type == OTA_F64)
        ((double *)x)[e] = value;
    else
        ((float *)x)[e] = (float)value;
}

static void read_matrix(ota_type type, const void *x, int64_t index, int n, double *to) {
    for (int e = 0; e < n * n; e++) to[e] = get(type, x, index * n * n + e);
}

static double farthest(const double *a, const double *b, int count) {
    double worst = 0.0;
    for (int e = 0; e < count; e++) {
        const double away = fabs(a[e] - b[e]);
        worst = away <= worst ? worst : away; /* NaN stays */
    }
    return worst;
}

static ota_normalization problem_of(ota_type type, ota_normalize_order order, int64_t count,
                                    int n) {
    return (ota_normalization){.size = sizeof(ota_normalization),
                               .type = type,
                               .order = order,
                               .count = count,
                               .side = n,
                               .eps = order == OTA_NORMALIZE_DEEPSEEK ? 1e-6 : 0.0,
                               .threads = 1};
}

static void forward(const ota_normalization *p, const void *scores, void *plan,
                    ota_status expected) {
    ota_error error = {{0}, {0}, {0}};
    const ota_status status = ota_normalize(p, scores, plan, &error);
    if (status != expected) print_error("%s\n", error.message);
    assert_int_equal(status, expected);
}

static void backward(const ota_normalization *p, const void *from, const void *plan_grad,
                     void *scores_grad, ota_status expected) {
    ota_error error = {{0}, {0}, {0}};
    const ota_status status = ota_normalize_backward(
        p, p->implicit ? NULL : from, p->implicit ? from : NULL, plan_grad, scores_grad, &error);
    if (status != expected) print_error("%s\n", error.message);
    assert_int_equal(status, expected);
}

static void reference(const ota_normalization *p, const double *scores, double *plan) {
    if (p->order == OTA_NORMALIZE_DEEPSEEK)
        reference_deepseek((int)p->side, (int)ota_int_max(p->rounds, 0), p->eps, scores, plan);
    else
        reference_symmetric((int)p->side, (int)p->rounds, scores, plan);
}

static void reference_backward(const ota_normalization *p, const double *scores,
                               const double *plan_grad, double *scores_grad) {
    const int n = (int)p->side, rounds = (int)ota_int_max(p->rounds, 0);
    if (p->order == OTA_NORMALIZE_DEEPSEEK)
        reference_deepseek_backward(n, rounds, p->eps, scores, plan_grad, scores_grad);
    else
        reference_symmetric_backward(n, rounds, scores, plan_grad, scores_grad);
}

/* ---- pinned numbers ---------------------------------------------------------------------------- */

static void test_pinned(void **state) {
    (void)state;
    for (int k = 0; k < VECTORS; k++) {
        const normalize_vector *x = &NORMALIZE_VECTORS[k];
        double plan[MOST], grad[MOST];
        ota_normalization p = problem_of(
            OTA_F64, x->symmetric ? OTA_NORMALIZE_SYMMETRIC : OTA_NORMALIZE_DEEPSEEK, 1, x->n);
        p.rounds = x->rounds;
        p.eps = x->eps;
        reference(&p, x->scores, plan);
        spec_check("", farthest(plan, x->plan, x->n * x->n), 1e-15);
        reference_backward(&p, x->scores, x->plan_grad, grad);
        spec_check("", farthest(grad, x->scores_grad, x->n * x->n), 4e-15);
        for (int level = 0; (p.cpu = ota_kernel_name(level)) != NULL; level++) {
            forward(&p, x->scores, plan, OTA_FIXED_ITERS);
            spec_check("CETA-07", farthest(plan, x->plan, x->n * x->n), 1e-15);
            backward(&p, x->scores, x->plan_grad, grad, OTA_OK);
            spec_check("DER-15", farthest(grad, x->scores_grad, x->n * x->n), 4e-15);
        }
    }
}

/* ---- random matrices --------------------------------------------------------------------------- */

typedef struct worst {
    double plan, reverse, implicit;
} worst;

static void judge(const ota_normalization *p, const guarded *arrays, worst *found) {
    const int n = (int)p->side;
    const double unit = unit_of(p->type);
    for (int64_t k = 0; k < p->count; k++) {
        double s[MOST], got[MOST], g[MOST], grad[MOST], implicit[MOST], expected[MOST];
        read_matrix(p->type, arrays[0].data, k, n, s);
        read_matrix(p->type, arrays[1].data, k, n, got);
        read_matrix(p->type, arrays[2].data, k, n, g);
        read_matrix(p->type, arrays[3].data, k, n, grad);
        read_matrix(p->type, arrays[4].data, k, n, implicit);
        reference(p, s, expected);
        found->plan = fmax(found->plan, farthest(got, expected, n * n) / (unit * n));
        reference_backward(p, s, g, expected);
        const double steps = 2.0 * (double)ota_int_max(p->rounds, 1);
        found->reverse = fmax(found->reverse, farthest(grad, expected, n * n) / (unit * n * steps));
        reference_implicit(n, got, g, expected);
        found->implicit = fmax(found->implicit, farthest(implicit, expected, n * n) / (unit * n));
    }
}

static void solve_random(ota_normalization *p, worst *found) {
    const int64_t size = p->count * p->side * p->side;
    const size_t element = ota_type_bytes(p->type);
    guarded arrays[5];
    for (int k = 0; k < 5; k++) arrays[k] = guard((size_t)size * element);
    for (int64_t e = 0; e < size; e++) {
        set(p->type, arrays[0].data, e, 2.0 * normal(&dice_state));
        set(p->type, arrays[2].data, e, 2.0 * uniform(&dice_state) - 1.0);
    }
    for (int level = 0; (p->cpu = ota_kernel_name(level)) != NULL; level++) {
        p->implicit = 0;
        forward(p, arrays[0].data, arrays[1].data, OTA_FIXED_ITERS);
        backward(p, arrays[0].data, arrays[2].data, arrays[3].data, OTA_OK);
        p->implicit = 1;
        backward(p, arrays[1].data, arrays[2].data, arrays[4].data, OTA_OK);
        judge(p, arrays, found);
    }
    for (int k = 0; k < 5; k++) unguard(&arrays[k]);
}

static void test_random(void **state) {
    (void)state;
    static const int64_t COUNTS[] = {1, 2, 3, 5, 8, 17, 31, 65};
    static const int64_t ROUNDS[] = {20, 1, 2, 7};
    dice_state = 5;
    for (int type = 0; type < 2; type++) {
        for (int order = 0; order < 2; order++) {
            worst found = {0.0, 0.0, 0.0};
            /* Every small side, and three that lie in memory of their own. */
            for (int m = 1; m <= 19; m++) {
                const int n = m <= 16 ? m : m == 17 ? 17 : m == 18 ? 24 : REFERENCE_SIDE;
                for (int k = m <= 16 ? 0 : 2; k < 4; k++) {
                    ota_normalization p = problem_of(TYPES[type], (ota_normalize_order)order,
                                                     COUNTS[(n + 3 * k) % (m <= 16 ? 8 : 3)], n);
                    p.rounds = ROUNDS[k];
                    if (k == 2 && n > 1 && order == OTA_NORMALIZE_DEEPSEEK)
                        p.rounds = OTA_NO_ROUNDS;
                    solve_random(&p, &found);
                }
            }
            print_message("  %s, order %d: plan %.2f, gradient of rounds %.2f, implicit %.2f\n",
                          type == 0 ? "f64" : "f32", order, found.plan, found.reverse,
                          found.implicit);
            spec_check("CETA-07", found.plan, 2.0);
            spec_check("DER-15", found.reverse, 1.0);
            spec_check("DER-13", found.implicit, 2.0);
        }
    }
}

/* ---- any neighbours, any threads --------------------------------------------------------------- */

static void test_same_bits(void **state) {
    (void)state;
    dice_state = 7;
    for (int type = 0; type < 2; type++) {
        for (int mode = 0; mode < 4; mode++) {
            const int n = mode == 1 ? 7 : 4;
            const int64_t size = LARGE * n * n;
            const size_t element = ota_type_bytes(TYPES[type]), bytes = (size_t)size * element;
            unsigned char *scores = malloc(bytes), *all = malloc(bytes), *some = malloc(bytes);
            assert_true(scores != NULL && all != NULL && some != NULL);
            for (int64_t e = 0; e < size; e++)
                set(TYPES[type], scores, e, 3.0 * normal(&dice_state));
            ota_normalization p =
                problem_of(TYPES[type],
                           mode >= 2 ? OTA_NORMALIZE_SYMMETRIC : OTA_NORMALIZE_DEEPSEEK, LARGE, n);
            /* So many that threads are worth it. */
            p.rounds = mode == 3 ? 400 : 100;
            p.tolerance = mode == 3 ? 1e-4 : 0.0;
            const ota_status expected = ota_normalize(&p, scores, all, NULL);
            assert_true(expected >= 0);
            for (p.threads = 2; p.threads <= 3; p.threads++) {
                forward(&p, scores, some, expected);
                assert_memory_equal(some, all, bytes);
            }
            p.threads = 1;
            const size_t matrix = (size_t)(n * n) * element;
            for (int64_t k = 0; k < LARGE; k += 97) {
                p.count = 1 + k % 3;
                (void)ota_normalize(&p, scores + (size_t)k * matrix, some, NULL);
                assert_memory_equal(some, all + (size_t)k * matrix, (size_t)p.count * matrix);
            }
            p.count = LARGE;
            assert_true(ota_normalize_backward(&p, scores, NULL, all, some, NULL) >= 0);
            unsigned char *alone = malloc(bytes);
            p.threads = 3;
            assert_true(ota_normalize_backward(&p, scores, NULL, all, alone, NULL) >= 0);
            assert_memory_equal(some, alone, bytes);
            free(scores);
            free(all);
            free(some);
            free(alone);
        }
    }
}

/* ---- extremes ---------------------------------------------------------------------------------- */

static void test_extreme(void **state) {
    (void)state;
    enum { N = 4, COUNT = 19 };
    dice_state = 9;
    for (int type = 0; type < 2; type++) {
        for (int order = 0; order < 2; order++) {
            double s[MOST], plan[MOST], expected[MOST];
            double scores[COUNT * N * N];
            unsigned char x[sizeof scores], p_of[sizeof scores];
            for (int e = 0; e < COUNT * N * N; e++) {
                const int kind = e / (N * N) % 5;
                double value = normal(&dice_state);
                if (kind == 0) value *= 1e4;
                if (kind == 1) value *= 1e37;
                if (kind == 2 && e % 5 == 1) value = -INFINITY;
                if (kind == 3) value = e % N == 0 ? -500.0 : 500.0;
                if (kind == 4) value = 88.0 * (double)(e % 3);
                set(TYPES[type], x, e, value);
            }
            ota_normalization p = problem_of(TYPES[type], (ota_normalize_order)order, COUNT, N);
            p.rounds = 20;
            for (int level = 0; (p.cpu = ota_kernel_name(level)) != NULL; level++) {
                forward(&p, x, p_of, OTA_FIXED_ITERS);
                for (int k = 0; k < COUNT; k++) {
                    read_matrix(TYPES[type], x, k, N, s);
                    read_matrix(TYPES[type], p_of, k, N, plan);
                    reference(&p, s, expected);
                    /* |s - max| u is what its rounding may change; where it is large P is 0. */
                    const double bound = k % 5 == 1 || k % 5 == 0 ? 1e4 : 400.0;
                    spec_check("CETA-06", farthest(plan, expected, N * N),
                               bound * unit_of(TYPES[type]));
                }
            }
        }
    }
}

static void test_wrong_matrices(void **state) {
    (void)state;
    enum { N = 5, COUNT = 23 };
    static const double WRONG[] = {NAN, INFINITY, -INFINITY};
    dice_state = 13;
    for (int type = 0; type < 2; type++) {
        for (int order = 0; order < 2; order++) {
            double x[COUNT * N * N], clean[COUNT * N * N], plan[COUNT * N * N], grad[COUNT * N * N];
            for (int e = 0; e < COUNT * N * N; e++) set(TYPES[type], x, e, normal(&dice_state));
            ota_normalization p = problem_of(TYPES[type], (ota_normalize_order)order, COUNT, N);
            for (int level = 0; (p.cpu = ota_kernel_name(level)) != NULL; level++) {
                forward(&p, x, clean, OTA_FIXED_ITERS);
                for (int kind = 0; kind < 3; kind++) {
                    double kept[COUNT * N * N];
                    memcpy(kept, x, sizeof x);
                    const int bad = 3 + 7 * kind;
                    /* One element, or a row of -inf alone. */
                    for (int j = 0; j < (kind == 2 ? N : 1); j++)
                        set(TYPES[type], x, bad * N * N + 2 * N + j, WRONG[kind]);
                    forward(&p, x, plan, OTA_NONFINITE_ROWS);
                    backward(&p, x, clean, grad, OTA_NONFINITE_ROWS);
                    for (int e = 0; e < COUNT * N * N; e++) {
                        const bool inside = e / (N * N) == bad;
                        assert_int_equal(isnan(get(TYPES[type], plan, e)) != 0, inside);
                        assert_int_equal(isnan(get(TYPES[type], grad, e)) != 0, inside);
                        if (!inside)
                            assert_true(get(TYPES[type], plan, e) == get(TYPES[type], clean, e));
                    }
                    memcpy(x, kept, sizeof x);
                }
            }
        }
    }
}

/* A column of -inf alone: deepseek gives it its share of eps, symmetric has no plan. */
static void test_empty_column(void **state) {
    (void)state;
    enum { N = 3 };
    const double x[N * N] = {1, -INFINITY, 2, 0, -INFINITY, 1, 3, -INFINITY, 0};
    double plan[N * N], expected[N * N];
    ota_normalization p = problem_of(OTA_F64, OTA_NORMALIZE_DEEPSEEK, 1, N);
    p.rounds = 20;
    forward(&p, x, plan, OTA_FIXED_ITERS);
    reference(&p, x, expected);
    spec_check("CETA-07", farthest(plan, expected, N * N), 1e-13);
    p.eps = 0.0;
    forward(&p, x, plan, OTA_NONFINITE_ROWS);
    p.order = OTA_NORMALIZE_SYMMETRIC;
    forward(&p, x, plan, OTA_NONFINITE_ROWS);
    for (int e = 0; e < N * N; e++) assert_true(isnan(plan[e]));
}

/* ---- converged --------------------------------------------------------------------------------- */

/* One matrix that does not converge, or is not finite, is told wherever it stands among many. */
static void test_one_of_many(void **state) {
    (void)state;
    enum { N = 4, SIZE = N * N, COUNT = 96 };
    static float x[COUNT * SIZE], plan[COUNT * SIZE];
    ota_normalization p = problem_of(OTA_F32, OTA_NORMALIZE_SYMMETRIC, COUNT, N);
    p.rounds = 1;
    p.tolerance = 1e-4;
    for (int level = 0; (p.cpu = ota_kernel_name(level)) != NULL; level++) {
        for (int at = 0; at < COUNT; at += 5) {
            memset(x, 0, sizeof x);
            forward(&p, x, plan, OTA_OK);
            x[at * SIZE + 1] = 3.0F;
            x[at * SIZE + N] = -2.0F;
            forward(&p, x, plan, OTA_PARTIAL);
            x[at * SIZE] = NAN;
            forward(&p, x, plan, OTA_NONFINITE_ROWS);
        }
    }
}

static void test_tolerance(void **state) {
    (void)state;
    enum { N = 6, COUNT = 37 };
    dice_state = 17;
    double x[COUNT * N * N], transposed[COUNT * N * N], plan[COUNT * N * N], other[COUNT * N * N];
    for (int k = 0; k < COUNT; k++) {
        for (int e = 0; e < N * N; e++) x[k * N * N + e] = normal(&dice_state);
        for (int e = 0; e < N * N; e++)
            transposed[k * N * N + e] = x[k * N * N + e % N * N + e / N];
    }
    ota_normalization p = problem_of(OTA_F64, OTA_NORMALIZE_SYMMETRIC, COUNT, N);
    p.rounds = 100000;
    p.tolerance = 1e-13;
    for (int level = 0; (p.cpu = ota_kernel_name(level)) != NULL; level++) {
        forward(&p, x, plan, OTA_OK);
        forward(&p, transposed, other, OTA_OK);
        double rows = 0.0, symmetric = 0.0;
        for (int k = 0; k < COUNT; k++) {
            for (int i = 0; i < N; i++) {
                double sum = 0.0, column = 0.0;
                for (int j = 0; j < N; j++) {
                    const double here = plan[k * N * N + i * N + j];
                    sum += here;
                    column += plan[k * N * N + j * N + i];
                    symmetric = fmax(symmetric, fabs(here - other[k * N * N + j * N + i]));
                }
                rows = fmax(rows, fmax(fabs(sum - 1.0), fabs(column - 1.0)));
            }
        }
        spec_check("CETA-06", rows, 2e-13);
        /* Turning the scores turns the plan, to the tolerance over the gap of the rounds. */
        spec_check("CETA-02", symmetric, 1e-11);
    }
    p.rounds = 2;
    p.cpu = NULL;
    forward(&p, x, plan, OTA_PARTIAL);
}

/* Where the rounds converge, both gradients are the same. */
static void test_gradients_meet(void **state) {
    (void)state;
    enum { N = 5, COUNT = 9 };
    dice_state = 19;
    double x[COUNT * N * N], g[COUNT * N * N], plan[COUNT * N * N];
    double rounds[COUNT * N * N], implicit[COUNT * N * N];
    for (int e = 0; e < COUNT * N * N; e++) {
        x[e] = normal(&dice_state);
        g[e] = uniform(&dice_state);
    }
    for (int careful = 0; careful < 2; careful++) {
        ota_normalization p = problem_of(OTA_F64, OTA_NORMALIZE_SYMMETRIC, COUNT, N);
        p.rounds = 200;
        p.tolerance = careful ? 1e-13 : 0.0;
        for (int level = 0; (p.cpu = ota_kernel_name(level)) != NULL; level++) {
            p.implicit = 0;
            forward(&p, x, plan, careful ? OTA_OK : OTA_FIXED_ITERS);
            backward(&p, x, g, rounds, OTA_OK);
            p.implicit = 1;
            backward(&p, plan, g, implicit, OTA_OK);
            spec_check("DER-15", farthest(rounds, implicit, COUNT * N * N),
                       careful ? 1e-11 : 1e-13);
        }
    }
}

/* Plans that fall into parts, almost or wholly: the system is singular, its answer is not. What t joins changes the
 * gradient by as much as t; the reference's elimination loses 1 / t units, so it judges t = 1e-3 and 0 alone. */
static void test_parts(void **state) {
    (void)state;
    enum { N = 4, SPLITS = 5 };
    static const double SPLIT[SPLITS] = {0.0, 1e-3, 1e-9, 1e-14, 1e-30};
    dice_state = 23;
    double g[N * N], whole[N * N] = {0.0}, grad[N * N], expected[N * N];
    for (int e = 0; e < N * N; e++) g[e] = normal(&dice_state);
    for (int k = 0; k < SPLITS; k++) {
        const double t = SPLIT[k];
        const double plan[N * N] = {0.7 - t, 0.3, t,       0,   0.3, 0.7 - t, 0,   t,
                                    t,       0,   0.4 - t, 0.6, 0,   t,       0.6, 0.4 - t};
        reference_implicit(N, plan, g, expected);
        ota_normalization p = problem_of(OTA_F64, OTA_NORMALIZE_SYMMETRIC, 1, N);
        p.implicit = 1;
        for (int level = 0; (p.cpu = ota_kernel_name(level)) != NULL; level++) {
            backward(&p, plan, g, grad, OTA_OK);
            if (k < 2) spec_check("DER-13", farthest(grad, expected, N * N), 1e-13);
            if (k == 0) memcpy(whole, grad, sizeof whole);
            spec_check("DER-13", farthest(grad, whole, N * N), 20.0 * t + 1e-15);
        }
    }
}

/* ---- refusals ---------------------------------------------------------------------------------- */

typedef struct refusal {
    ota_status status;
    const char *field;
    ota_normalization problem;
} refusal;

#define SIZED(of_type, matrices, n, ...)                                                           \
    {                                                                                              \
        .size = sizeof(ota_normalization), .type = (of_type), .count = (matrices), .side = (n),    \
        __VA_ARGS__                                                                                \
    }
#define WITH(...) SIZED(OTA_F32, 2, 4, __VA_ARGS__)

static void test_refusals(void **state) {
    (void)state;
    static const ota_executor idle = {.threads = 2};
    static const refusal ROWS[] = {
        {OTA_EINVAL, "type", SIZED(OTA_BF16, 2, 4, .eps = 1e-6)},
        {OTA_EINVAL, "count", SIZED(OTA_F32, -1, 4, .eps = 1e-6)},
        {OTA_EOVERFLOW, "count", SIZED(OTA_F32, INT64_MAX / 8, 4, .eps = 1e-6)},
        {OTA_EINVAL, "side", SIZED(OTA_F32, 2, 0, .eps = 1e-6)},
        {OTA_EINVAL, "side", SIZED(OTA_F32, 2, 129, .eps = 1e-6)},
        {OTA_EINVAL, "order", WITH(.order = (ota_normalize_order)2)},
        {OTA_EINVAL, "rounds", WITH(.rounds = -2)},
        {OTA_UNSUPPORTED, "rounds",
         WITH(.rounds = OTA_NO_ROUNDS, .order = OTA_NORMALIZE_SYMMETRIC)},
        {OTA_EINVAL, "eps", WITH(.eps = -1e-6)},
        {OTA_EINVAL, "eps", WITH(.eps = NAN)},
        {OTA_EINVAL, "eps", WITH(.eps = 1.001)},
        {OTA_EINVAL, "tolerance", WITH(.tolerance = NAN)},
        {OTA_EINVAL, "tolerance", WITH(.tolerance = 1.001)},
        {OTA_UNSUPPORTED, "tolerance", WITH(.tolerance = 1e-3)},
        {OTA_UNSUPPORTED, "eps", WITH(.order = OTA_NORMALIZE_SYMMETRIC, .eps = 1e-6)},
        {OTA_EINVAL, "implicit", WITH(.implicit = 2)},
        {OTA_EINVAL, "threads", WITH(.threads = -1)},
        {OTA_EINVAL, "executor", WITH(.executor = &idle)},
        {OTA_EINVAL, "cpu", WITH(.cpu = "z80")},
        {OTA_EINVAL, "problem.size", {.size = 0}},
    };
    float x[65] = {0}, y[32] = {0}, z[32] = {0};
    for (size_t k = 0; k < sizeof ROWS / sizeof ROWS[0]; k++) {
        ota_error error = {{0}, {0}, {0}};
        y[0] = 7.0F;
        assert_int_equal(ota_normalize(&ROWS[k].problem, x, y, &error), ROWS[k].status);
        assert_string_equal(error.field, ROWS[k].field);
        assert_true(strlen(error.message) > 8 && strlen(error.hint) > 3);
        assert_int_equal(ota_normalize_backward(&ROWS[k].problem, x, x, z, y, NULL),
                         ROWS[k].status);
        assert_true(y[0] == 7.0F);
    }
    ota_normalization p = WITH(.eps = 1e-6);
    ota_error error;
    assert_int_equal(ota_normalize(NULL, x, y, &error), OTA_EINVAL);
    assert_int_equal(ota_normalize(&p, NULL, y, &error), OTA_EINVAL);
    assert_string_equal(error.field, "scores");
    assert_int_equal(ota_normalize(&p, x, NULL, &error), OTA_EINVAL);
    assert_int_equal(ota_normalize(&p, x, x + 31, &error), OTA_EALIAS);
    assert_string_equal(error.field, "plan");
    assert_int_equal(ota_normalize(&p, (const char *)(const void *)x + 1, y, &error), OTA_EALIGN);
    assert_int_equal(ota_normalize_backward(&p, x, NULL, NULL, z, &error), OTA_EINVAL);
    assert_string_equal(error.field, "plan_grad");
    assert_int_equal(ota_normalize_backward(&p, x, NULL, y, y, &error), OTA_EALIAS);
    p.implicit = 1;
    assert_int_equal(ota_normalize_backward(&p, x, NULL, y, z, &error), OTA_EINVAL);
    assert_string_equal(error.field, "plan");
    p.count = 0;
    assert_int_equal(ota_normalize(&p, NULL, NULL, &error), OTA_FIXED_ITERS);
    p = (ota_normalization)SIZED(OTA_F32, 1, 4, .eps = 1e-6, .rounds = 1 << 20);
    assert_true(ota_normalize_backward(&p, x, NULL, y, z, &error) >= 0);
    /* Both ends of a range are in it. */
    p = (ota_normalization)WITH(.eps = 1.0);
    forward(&p, x, y, OTA_FIXED_ITERS);
    p = (ota_normalization)WITH(.order = OTA_NORMALIZE_SYMMETRIC, .tolerance = 1.0);
    forward(&p, x, y, OTA_OK);
    /* Aligned to the element and no more. */
    p = (ota_normalization)WITH(.eps = 1e-6);
    float a[33], b[33];
    for (int e = 0; e < 32; e++) a[e + 1] = x[e] = (float)(e % 7);
    forward(&p, x, y, OTA_FIXED_ITERS);
    forward(&p, a + 1, b + 1, OTA_FIXED_ITERS);
    assert_memory_equal(y, b + 1, sizeof y);
}

TEST_FILE(test_normalize) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned),         cmocka_unit_test(test_random),
        cmocka_unit_test(test_same_bits),      cmocka_unit_test(test_extreme),
        cmocka_unit_test(test_wrong_matrices), cmocka_unit_test(test_empty_column),
        cmocka_unit_test(test_one_of_many),    cmocka_unit_test(test_tolerance),
        cmocka_unit_test(test_gradients_meet), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
