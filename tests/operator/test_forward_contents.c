/* What arrays may hold: zero sizes, masked contents, NaN and infinities, extreme scores and ranges, fully
 * masked rows; and what the coupled solvers do about range and precision. */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend_wrap.h"
#include "groups.h"
#include "one_head.h"

/* ---- zero sizes ---------------------------------------------------------------------------------- */

static void zero_sizes_touch_no_pointer(void **unused) {
    (void)unused;
    for (int k = 0; k < METHODS; k++) {
        for (int which = 0; which < 64; which++) {
            const int64_t batch = which & 1 ? 0 : 2, count = which & 2 ? 0 : 2;
            const int64_t n = which & 4 ? 0 : 3, m = which & 8 ? 0 : 3;
            const int64_t width = which & 16 ? 0 : 2, values = which & 32 ? 0 : 2;
            const char *method = all_methods[k];
            if (which == 0) continue;
            if (m == 0 && n > 0 && names(method, "prefix")) continue;
            static float in[64], out[64], plan[64];
            memset(out, 0x7f, sizeof out);
            memset(plan, 0x7f, sizeof plan);
            ota_problem problem = {.size = sizeof problem};
            ota_options options = {.size = sizeof options, .threads = 1};
            ota_error error;
            assert_int_equal(ota_method_parse(method, &problem, &options, &error), OTA_OK);
            const bool q0 = batch * count * n * width == 0, k0 = batch * count * m * width == 0;
            const bool v0 = batch * count * m * values == 0, o0 = batch * count * n * values == 0;
            const bool p0 = batch * count * n * m == 0;
            problem.queries = ota_array_of(q0 ? NULL : in, OTA_F32, batch, count, n, width);
            problem.keys = ota_array_of(k0 ? NULL : in, OTA_F32, batch, count, m, width);
            ota_arrays arrays = {.size = sizeof arrays};
            arrays.values = ota_array_of(v0 ? NULL : in, OTA_F32, batch, count, m, values);
            arrays.out = ota_array_of(o0 ? NULL : out, OTA_F32, batch, count, n, values);
            arrays.coupling = ota_array_of(p0 ? NULL : plan, OTA_F32, batch, count, n, m);
            ota_result result = {.size = sizeof result};
            const ota_status status = ota_attend(&problem, &options, &arrays, &result, &error);
            const bool rows = batch * count * n > 0;
            const bool stuck = rows && m == 0 && names(method, "exact");
            if ((stuck && status != OTA_INFEASIBLE) || (!stuck && status < 0))
                print_error("%s, sizes 0 at %d: %s %s\n", method, which, ota_status_word(status),
                            status < 0 ? error.message : "");
            assert_int_equal(stuck ? status : 0, stuck ? OTA_INFEASIBLE : 0);
            assert_true(stuck || status >= 0);
            if (!stuck && rows && m == 0) {
                assert_int_equal(result.empty_rows, batch * count * n);
                for (int64_t q = 0; q < batch * count * n * values; q++)
                    assert_true(out[q] >= 0.0f && out[q] <= 0.0f);
            }
            /* width 0: all scores are 0, so free rows are even */
            if (strcmp(method, "softmax") == 0 && rows && m > 0 && width == 0) {
                for (int64_t q = 0; q < batch * count * n * m; q++)
                    assert_true(fabsf(plan[q] - 1.0f / 3.0f) < 1e-6f);
            }
        }
    }
}

/* ---- masked and non-finite contents -------------------------------------------------------------- */

/* The last keys of a batch are padding: whatever they hold, nothing changes by a bit. */
/* A term of -inf forbids a pair as a mask does: what the value holds there is not used. */
static void forbidden_values_have_no_effect(void **unused) {
    (void)unused;
    enum { MOST = 70, M = 21, FORBIDDEN = 6, D = 3, DV = 4 };
    static const int queries[] = {1, 3, 5, MOST};
    for (int k = 0; k < METHODS; k++) {
        for (size_t size = 0; size < sizeof queries / sizeof queries[0]; size++) {
            static float q[MOST * D], key[M * D], v[M * DV], bias[MOST * M], out[2][MOST * DV];
            const int n = queries[size];
            if (names(all_methods[k], "prefix") || names(all_methods[k], "hard/")) continue;
            ota_status status[2];
            for (int turn = 0; turn < 2; turn++) {
                dice d = 29;
                for (int j = 0; j < n * D; j++) q[j] = (float)normal(&d);
                for (int j = 0; j < M * D; j++) key[j] = (float)normal(&d);
                for (int j = 0; j < M * DV; j++) v[j] = (float)normal(&d);
                for (int j = 0; j < n * M; j++) bias[j] = j % M == FORBIDDEN ? -INFINITY : 0.0f;
                for (int w = 0; w < DV && turn == 1; w++) v[FORBIDDEN * DV + w] = NAN;
                ota_problem problem = {.size = sizeof problem};
                ota_options options = {.size = sizeof options, .threads = 1, .allow_partial = 1};
                assert_int_equal(ota_method_parse(all_methods[k], &problem, &options, NULL),
                                 OTA_OK);
                problem.queries = ota_array_of(q, OTA_F32, 1, 1, n, D);
                problem.keys = ota_array_of(key, OTA_F32, 1, 1, M, D);
                const ota_term term = {OTA_TERM_DENSE, ota_array_of(bias, OTA_F32, 1, 1, n, M), 0};
                problem.terms = &term;
                problem.term_count = 1;
                ota_arrays arrays = {.size = sizeof arrays};
                arrays.values = ota_array_of(v, OTA_F32, 1, 1, M, DV);
                arrays.out = ota_array_of(out[turn], OTA_F32, 1, 1, n, DV);
                status[turn] = ota_attend(&problem, &options, &arrays, NULL, NULL);
            }
            assert_int_equal(status[0], status[1]);
            if (status[0] < 0) continue; /* 70 queries are too many for some caps */
            /* A value that is not finite may change the order of sums, and that alone. */
            double worst = 0.0;
            for (int j = 0; j < n * DV; j++) {
                const double apart = fabs((double)out[0][j] - (double)out[1][j]);
                worst = apart <= worst ? worst : apart;
            }
            if (!(worst <= 16.0 * unit_roundoff(OTA_F32)))
                print_error("%s, %d queries\n", all_methods[k], n);
            spec_check("TOT-03", worst, 16.0 * unit_roundoff(OTA_F32));
        }
    }
}

/* Rows one behind the other are read where they lie, others copied: the same bits, also of a plan that saw others before. */
static void values_may_lie_anywhere(void **unused) {
    (void)unused;
    enum { N = 70, M = 70, D = 3, DV = 4, APART = DV + 1, RUNS = 3 };
    static float q[N * D], key[M * D], v[M * DV], apart[M * APART], out[RUNS][N * DV];
    for (int k = 0; k < METHODS; k++) {
        dice d = 31;
        for (int j = 0; j < N * D; j++) q[j] = (float)normal(&d);
        for (int j = 0; j < M * D; j++) key[j] = (float)normal(&d);
        ota_problem problem = {.size = sizeof problem};
        ota_options options = {.size = sizeof options, .threads = 1, .allow_partial = 1};
        assert_int_equal(ota_method_parse(all_methods[k], &problem, &options, NULL), OTA_OK);
        problem.queries = ota_array_of(q, OTA_F32, 1, 1, N, D);
        problem.keys = ota_array_of(key, OTA_F32, 1, 1, M, D);
        ota_plan *plan;
        if (ota_plan_create(&plan, &problem, DV, &options, NULL) < 0) continue;
        ota_status status[RUNS];
        for (int run = 0; run < RUNS; run++) {
            ota_arrays arrays = {.size = sizeof arrays};
            arrays.values = ota_array_of(run == 1 ? apart : v, OTA_F32, 1, 1, M, DV);
            if (run == 1) arrays.values.stride[2] = APART;
            arrays.out = ota_array_of(out[run], OTA_F32, 1, 1, N, DV);
            for (int j = 0; j < M * DV; j++) {
                const float x = (float)(j * 37 % 101 - 50) / 16.0f;
                v[j] = run < 2 ? x : -x;
                apart[j / DV * APART + j % DV] = x;
            }
            status[run] = ota_forward(plan, &arrays, NULL, NULL);
            assert_int_equal(status[run], status[0]);
        }
        ota_plan_free(plan);
        if (status[0] < 0) continue; /* 70 queries are too many for some caps */
        for (int j = 0; j < N * DV; j++) out[2][j] = 0.0f - out[2][j];
        for (int j = 0; j < N * DV; j++) {
            assert_true(out[0][j] <= out[1][j] && out[0][j] >= out[1][j]);
            assert_true(out[0][j] <= out[2][j] && out[0][j] >= out[2][j]);
        }
    }
}

static void masked_contents_have_no_effect(void **unused) {
    (void)unused;
    static const ota_support_kind kinds[] = {OTA_SUPPORT_LENGTHS, OTA_SUPPORT_BOOLEAN,
                                             OTA_SUPPORT_ADDITIVE};
    static const double poisons[] = {NAN, INFINITY, -INFINITY};
    enum { N = 5, M = 21, LIVE = 17, D = 3, DV = 4 };
    for (int k = 0; k < METHODS; k++) {
        for (int kind = 0; kind < 3; kind++) {
            static float q[N * D], key[M * D], v[M * DV], bias[N * M], mask[M], out[2][N * DV];
            static float plan[2][N * M];
            static unsigned char truth[M];
            int64_t length = LIVE;
            if (names(all_methods[k], "prefix")) continue;
            ota_status status[3] = {0};
            for (int turn = 0; turn <= 3; turn++) {
                dice d = 17;
                for (int j = 0; j < N * D; j++) q[j] = (float)normal(&d);
                for (int j = 0; j < M * D; j++) key[j] = (float)normal(&d);
                for (int j = 0; j < M * DV; j++) v[j] = (float)normal(&d);
                for (int j = 0; j < N * M; j++) bias[j] = (float)normal(&d);
                for (int j = 0; j < M; j++) {
                    truth[j] = j < LIVE;
                    mask[j] = j < LIVE ? 0.0f : -INFINITY;
                }
                for (int j = LIVE; j < M && turn > 0; j++) {
                    const float bad = (float)poisons[turn - 1];
                    for (int w = 0; w < D; w++) key[j * D + w] = bad;
                    for (int w = 0; w < DV; w++) v[j * DV + w] = bad;
                    for (int i = 0; i < N; i++) bias[i * M + j] = bad;
                }
                ota_problem problem = {.size = sizeof problem};
                ota_options options = {.size = sizeof options, .threads = 1, .strict = 1};
                ota_error error;
                assert_int_equal(ota_method_parse(all_methods[k], &problem, &options, &error),
                                 OTA_OK);
                problem.queries = ota_array_of(q, OTA_F32, 1, 1, N, D);
                problem.keys = ota_array_of(key, OTA_F32, 1, 1, M, D);
                const ota_term term = {OTA_TERM_DENSE, ota_array_of(bias, OTA_F32, 1, 1, N, M), 0};
                ota_support support = {.kind = kinds[kind]};
                if (kind == 0) support.array = ota_array_of(&length, OTA_I64, 1, 1, 1, 1);
                if (kind == 1) support.array = ota_array_of(truth, OTA_BOOL, 1, 1, 1, M);
                if (kind == 2) support.array = ota_array_of(mask, OTA_F32, 1, 1, 1, M);
                problem.terms = &term;
                problem.supports = &support;
                problem.term_count = problem.support_count = 1;
                ota_arrays arrays = {.size = sizeof arrays};
                const int to = turn > 0;
                arrays.values = ota_array_of(v, OTA_F32, 1, 1, M, DV);
                arrays.out = ota_array_of(out[to], OTA_F32, 1, 1, N, DV);
                arrays.coupling = ota_array_of(plan[to], OTA_F32, 1, 1, N, M);
                ota_result result = {.size = sizeof result};
                const ota_status got = ota_attend(&problem, &options, &arrays, &result, &error);
                if (turn == 0) status[0] = got;
                const bool same = got == status[0] && memcmp(out[0], out[to], sizeof out[0]) == 0 &&
                                  memcmp(plan[0], plan[to], sizeof plan[0]) == 0;
                if (!same || got < 0) {
                    print_error("%s, mask %d, poison %d: %s %s\n", all_methods[k], kind, turn,
                                ota_status_word(got), got < 0 ? error.message : "");
                }
                assert_true(got >= 0);
                spec_check_true("TOT-03 TOT-48", same);
            }
        }
    }
}

/* A query without mass gives nothing, has no potential, and the others do not notice it. */
static void massless_queries_take_no_part(void **unused) {
    (void)unused;
    enum { N = 7, M = 9, IDLE = 3 };
    static double s[N * M], others[N * M];
    random_scores(s, N * M, 1.0, 67);
    for (int i = 0, to = 0; i < N; i++) {
        if (i != IDLE) memcpy(others + M * to++, s + (ptrdiff_t)i * M, M * sizeof(double));
    }
    for (int k = 0; k < METHODS; k++) {
        head *t[2] = {head_make(0, all_methods[k], N, M, s),
                      head_make(1, all_methods[k], N - 1, M, others)};
        for (int which = 0; which < 2; which++) {
            for (int i = 0, to = 0; i < N; i++) {
                if (which == 0)
                    t[0]->mu[i] = i == IDLE ? 0.0 : 1.0;
                else if (i != IDLE)
                    t[1]->mu[to++] = 1.0;
            }
            const int64_t n = which == 0 ? N : N - 1;
            t[which]->problem.row_mass = ota_array_of(t[which]->mu, OTA_F64, 1, 1, 1, n);
            (void)solved(t[which]);
        }
        for (int j = 0; j < M; j++) assert_true(t[0]->p[IDLE * M + j] == 0.0);
        assert_true(t[0]->sink[IDLE] == 0.0);
        if (!names(all_methods[k], "argmax")) assert_true(t[0]->f[IDLE] == -INFINITY);
        /* A row of a prefix knows how many rows came before it. */
        if (names(all_methods[k], "prefix")) continue;
        double worst = 0.0;
        for (int i = 0; i < N; i++) {
            const int from = i > IDLE ? i - 1 : i;
            if (i != IDLE) worst = fmax(worst, distance(t[0]->p + M * i, t[1]->p + M * from, M));
        }
        spec_check("TOT-02 TOT-48", worst, 1e-8);
    }
}

/* Unmasked NaN or +inf: that row only; coupled columns refuse. */
static void nonfinite_rows(void **unused) {
    (void)unused;
    enum { N = 5, M = 7 };
    static const double poisons[] = {NAN, INFINITY};
    static double s[N * M], clean[N * M];
    random_scores(s, N * M, 1.0, 61);
    for (int k = 0; k < METHODS; k++) {
        const bool coupled = names(all_methods[k], "/") && !names(all_methods[k], "online");
        for (int bad = 0; bad < 2; bad++) {
            memcpy(clean, solved(head_make(0, all_methods[k], N, M, s))->p, sizeof clean);
            head *t = head_make(0, all_methods[k], N, M, s);
            t->s[(N - 1) * M + 3] = poisons[bad];
            const ota_status status = run_head(t);
            if (coupled && !names(all_methods[k], "prefix")) {
                assert_int_equal(status, OTA_NONFINITE);
                for (int q = 0; q < N * M; q++) assert_true(isnan(t->p[q]));
                continue;
            }
            if (names(all_methods[k], "prefix")) {
                /* its last row is the last block's: numeric policy couples rows before it */
                assert_true(status == OTA_NONFINITE || status == OTA_NONFINITE_ROWS);
                continue;
            }
            if (status != OTA_NONFINITE_ROWS)
                print_error("%s: %s\n", all_methods[k], ota_status_word(status));
            assert_int_equal(status, OTA_NONFINITE_ROWS);
            assert_int_equal(t->result.nonfinite_rows, 1);
            assert_memory_equal(clean, t->p, (N - 1) * M * sizeof(double));
            for (int j = 0; j < M; j++) assert_true(isnan(t->p[(N - 1) * M + j]));
            assert_true(isnan(t->f[N - 1]));
            t->options.strict = 1;
            assert_int_equal(run_head(t), OTA_NONFINITE);
            for (int q = 0; q < N * M; q++) assert_true(isnan(t->p[q]));
        }
    }
}

/* An error that is NaN is the call's, whichever head has it. */
static void errors_of_all_heads_count(void **unused) {
    (void)unused;
    enum { SIDE = 4, HEADS = 3 };
    for (int bad = 0; bad < HEADS; bad++) {
        double s[HEADS * SIDE * SIDE], p[HEADS * SIDE * SIDE];
        random_scores(s, HEADS * SIDE * SIDE, 1.0, 62);
        s[bad * SIDE * SIDE + 1] = NAN;
        const ota_problem problem = {.size = sizeof problem,
                                     .temperature = 1.0,
                                     .scores = ota_array_of(s, OTA_F64, 1, HEADS, SIDE, SIDE)};
        const ota_arrays arrays = {.size = sizeof arrays,
                                   .coupling = ota_array_of(p, OTA_F64, 1, HEADS, SIDE, SIDE)};
        ota_result result = {.size = sizeof result};
        assert_int_equal(ota_attend(&problem, NULL, &arrays, &result, NULL), OTA_NONFINITE_ROWS);
        assert_true(isnan(result.row_error));
    }
}

static void nonfinite_values(void **unused) {
    (void)unused;
    enum { N = 4, M = 6, DV = 3 };
    static const char *const methods[] = {"softmax", "sparsemax", "argmax", "softmax/exact",
                                          "softmax/online:2"};
    static double s[N * M];
    random_scores(s, N * M, 2.0, 43);
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        head *t = head_make(0, methods[k], N, M, s);
        for (int q = 0; q < M * DV; q++) t->v[q] = (double)q;
        t->v[2 * DV + 1] = INFINITY;
        t->arrays.values = ota_array_of(t->v, OTA_F64, 1, 1, M, DV);
        t->arrays.out = ota_array_of(t->out, OTA_F64, 1, 1, N, DV);
        const ota_status status = run_head(t);
        int64_t users = 0;
        for (int i = 0; i < N; i++) {
            const bool used = t->p[i * M + 2] > 0.0;
            users += used;
            for (int v = 0; v < DV; v++) assert_int_equal(isnan(t->out[i * DV + v]) != 0, used);
        }
        assert_int_equal(status, users > 0 ? OTA_NONFINITE_ROWS : OTA_OK);
        assert_int_equal(t->result.nonfinite_rows, users);
    }
}

/* ---- extremes ------------------------------------------------------------------------------------ */

static void extreme_scores(void **unused) {
    (void)unused;
    static const double sizes[] = {1e30, 1e300, 1.7e308, 1e-300, 5e-324};
    enum { N = 4, M = 6 };
    static double s[N * M];
    static const char *const rows_alone[] = {"softmax", "entmax:1.5",       "sparsemax",
                                             "argmax",  "softmax/online:3", "entmax:1.5/online:3"};
    for (size_t k = 0; k < sizeof rows_alone / sizeof rows_alone[0]; k++) {
        for (size_t q = 0; q < sizeof sizes / sizeof sizes[0]; q++) {
            for (int p = 0; p < N * M; p++) s[p] = (p * 7 % 5 - 2) * 0.5 * sizes[q];
            head *t = solved(head_make(0, rows_alone[k], N, M, s));
            assert_int_equal(t->result.status, OTA_OK);
            for (int i = 0; i < N; i++) {
                double sum = 0.0;
                for (int j = 0; j < M; j++) sum += t->p[i * M + j];
                if (!(fabs(sum - 1.0) <= row_sum_slack(0x1p-53)))
                    print_error("%s, %g: row %d sums to %.17g\n", rows_alone[k], sizes[q], i, sum);
                spec_check("LIT-01", fabs(sum - 1.0), row_sum_slack(0x1p-53));
            }
        }
    }
    /* +-1e4 against the reference by the tolerance of LIT-01 */
    for (int p = 0; p < N * M; p++) s[p] = (p % 2 == 0 ? 1e4 : -1e4) + (double)p / 8.0;
    head *t = solved(head_make(0, "softmax", N, M, s));
    for (int i = 0; i < N; i++) {
        long double sum = 0.0L;
        for (int j = 0; j < M; j++) sum += expl((long double)s[i * M + j] - 10000.0L - 3.0L);
        for (int j = 0; j < M; j++) {
            const long double want = expl((long double)s[i * M + j] - 10000.0L - 3.0L) / sum;
            spec_check("LIT-01", fabs(t->p[i * M + j] - (double)want),
                       1e-14 * (double)want + 0x1p-1074);
        }
    }
}

/* Ranges over eps of 1e-6 ... 1e6: a plan or a word, never a wrong ok. */
static void extreme_ranges_never_lie(void **unused) {
    (void)unused;
    enum { N = 8, M = 8 };
    static double s[N * M];
    static const char *const coupled[] = {"softmax/exact", "softmax/relaxed:0.5",
                                          "softmax/capped:1.25", "entmax:1.5/exact",
                                          "sparsemax/capped:1.5"};
    for (size_t k = 0; k < sizeof coupled / sizeof coupled[0]; k++) {
        for (int decade = -6; decade <= 6; decade++) {
            random_scores(s, N * M, 0.25, (uint64_t)(decade + 100));
            head *t = head_make(0, coupled[k], N, M, s);
            t->problem.temperature = pow(10.0, -decade);
            const ota_status status = run_head(t);
            if (status == OTA_NOT_CONVERGED || status == OTA_TOL_UNREACHABLE) {
                for (int p = 0; p < N * M; p++) assert_true(isnan(t->p[p]));
                assert_true(t->error.message[0] != '\0');
                continue;
            }
            assert_int_equal(status, OTA_OK);
            ota_certificate c = {.size = sizeof c};
            assert_int_equal(ota_certify(&t->problem, &t->options, &t->arrays, &c, NULL, &t->error),
                             OTA_OK);
            const double floor = residual_floor(0x1p-53, 2.0, t->problem.temperature);
            spec_check("DER-26", c.row_error, row_sum_slack(0x1p-53));
            spec_check("CETA-06 TOT-13", c.column_error, 1e-9 + floor * (double)N);
            /* what forward says it reached is what its arrays show */
            spec_check("DER-27", fabs(c.column_error - t->result.column_error),
                       floor * (double)N + 1e-3 * c.column_error);
        }
    }
}

static void fully_masked_rows_are_zero(void **unused) {
    (void)unused;
    enum { N = 4, M = 5 };
    static double s[N * M];
    for (int k = 0; k < METHODS; k++) {
        random_scores(s, N * M, 1.0, 3);
        for (int j = 0; j < M; j++) s[1 * M + j] = -INFINITY;
        head *t = head_make(0, all_methods[k], N, M, s);
        const ota_status status = run_head(t);
        if (names(all_methods[k], "exact") || names(all_methods[k], "prefix")) {
            assert_int_equal(status, OTA_INFEASIBLE);
            continue;
        }
        if (status < 0) print_error("%s: %s\n", all_methods[k], t->error.message);
        assert_true(status >= 0);
        assert_int_equal(t->result.empty_rows, 1);
        for (int j = 0; j < M; j++) assert_true(t->p[M + j] >= 0.0 && t->p[M + j] <= 0.0);
        assert_true(isinf(t->f[1]) && t->f[1] < 0.0);
        spec_check_true("TOT-03", status >= 0);
    }
}

/* ---- numerics of the coupled solvers ------------------------------------------------------------- */

static void centring_and_domains_leave_the_plan(void **unused) {
    (void)unused;
    enum { N = 9, M = 9 };
    static double s[N * M], first[N * M];
    random_scores(s, N * M, 1.0, 12);
    head *t = head_make(0, "softmax/exact", N, M, s);
    t->options.tolerance = 1e-13;
    memcpy(first, solved(t)->p, sizeof first);
    for (int c = OTA_CENTER_MEAN; c <= OTA_CENTER_MIDRANGE; c++) {
        t = head_make(0, "softmax/exact", N, M, s);
        t->options.tolerance = 1e-13;
        t->options.center = (ota_center)c;
        spec_check("TOT-106", distance(solved(t)->p, first, N * M), 1e-11);
    }
    static const char *const solvers[] = {"sinkhorn", "log", "anderson", "newton"};
    for (size_t k = 0; k < 4; k++) {
        t = head_make(0, "softmax/exact", N, M, s);
        t->options.tolerance = 1e-13;
        t->options.solver = solvers[k];
        spec_check("CETA-06 TOT-13 TOT-07", distance(solved(t)->p, first, N * M), 1e-11);
    }
    /* CETA-07: the printed order has exact columns, the default exact rows */
    t = head_make(0, "softmax/exact", N, M, s);
    t->options.rounds = 2;
    t->problem.temperature = 0.1;
    t->problem.end = OTA_SIDE_COLUMNS;
    solved(t);
    double worst = 0.0;
    for (int j = 0; j < M; j++) worst = fmax(worst, fabs(t->receiver[j] - 1.0));
    spec_check("CETA-07", worst, 8.0 * (double)N * 0x1p-53);
    t->problem.end = OTA_SIDE_ROWS;
    solved(t);
    worst = 0.0;
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int j = 0; j < M; j++) sum += t->p[i * M + j];
        worst = fmax(worst, fabs(sum - 1.0));
    }
    spec_check("CETA-07 DER-26", worst, 4.0 * 2.0 * 0x1p-53 * (double)N);
}

static void narrow_data_is_promoted_when_it_must(void **unused) {
    (void)unused;
    static drawn x;
    recipe w = {.method = "softmax/exact",
                .type = OTA_F32,
                .out_type = OTA_F32,
                .batch = 1,
                .heads = 1,
                .key_heads = 1,
                .n = 8,
                .m = 8,
                .width = 4,
                .values_width = 4,
                .spread = 1.0,
                .seed = 9,
                .tolerance = 1e-9};
    draw(&x, &w);
    assert_int_equal(solve(&x), OTA_OK);
    spec_check_true("TOT-107", x.result.promoted == 1);
    x.options.precision = OTA_PRECISION_F64;
    assert_int_equal(solve(&x), OTA_OK);
    spec_check_true("TOT-107", x.result.promoted == 1);
    x.options.tolerance = 1e-18;
    spec_check_true("TOT-107", solve(&x) == OTA_TOL_UNREACHABLE);
    x.options.tolerance =
        0x1.8p-50; /* below 16 u, which is twice the floor without the range of the scores */
    spec_check_true("TOT-107", solve(&x) == OTA_TOL_UNREACHABLE);
    put_away(&x);
}

/* A range of 2000 in units of eps: nothing is lost in the linear domain unsaid. */
static void a_wide_range_loses_nothing_unsaid(void **unused) {
    (void)unused;
    enum { N = 6 };
    static double s[N * N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) s[i * N + j] = i == j ? 0.0 : -2000.0 - i - j;
    }
    static const char *const solvers[] = {"auto", "sinkhorn", "log", "newton", "anderson"};
    for (size_t k = 0; k < sizeof solvers / sizeof solvers[0]; k++) {
        head *t = head_make(0, "softmax/exact", N, N, s);
        t->options.solver = solvers[k];
        solved(t);
        assert_int_equal(t->result.status, OTA_OK);
        double worst = 0.0;
        for (int i = 0; i < N; i++) worst = fmax(worst, fabs(t->p[i * N + i] - 1.0));
        spec_check("", worst, 1e-9);
    }
}

/* Padding behind a causal mask has rows without mass and keys that no other row may use. Plans with it are those of the rows
 * without it, also where scores are streamed. */
static void padding_takes_no_part(void **unused) {
    (void)unused;
    enum { MOST = 400, PADDING = 20, WIDTH = 3 };
    static const char *const methods[] = {"softmax/relaxed:0.7", "softmax/elastic:0.3,4",
                                          "softmax/capped:1.5", "softmax/bounded:0,1.5"};
    static double q[MOST * WIDTH], keys[MOST * WIDTH], v[MOST * WIDTH], mass[MOST], ones[MOST];
    static double out[3][MOST * WIDTH];
    random_scores(q, MOST * WIDTH, 1.0, 71);
    random_scores(keys, MOST * WIDTH, 1.0, 72);
    random_scores(v, MOST * WIDTH, 1.0, 73);
    for (int i = 0; i < MOST; i++) mass[i] = i < MOST - PADDING ? 1.0 : 0.0, ones[i] = 1.0;
    const ota_support causal = {.kind = OTA_SUPPORT_CAUSAL};
    for (size_t k = 0; k < sizeof methods / sizeof methods[0]; k++) {
        for (int turn = 0; turn < 3; turn++) { /* without padding, with it, streamed */
            const int64_t n = turn == 0 ? MOST - PADDING : MOST;
            ota_problem problem = {.size = sizeof problem, .supports = &causal, .support_count = 1};
            const bool streamed = turn == 2 && !on_other_backend(); /* which stores all scores */
            ota_options options = {
                .size = sizeof options, .threads = 1, .workspace_limit = streamed ? 900000 : 0};
            ota_arrays arrays = {.size = sizeof arrays};
            ota_error error;
            assert_int_equal(ota_method_parse(methods[k], &problem, &options, &error), OTA_OK);
            problem.queries = ota_array_of(q, OTA_F64, 1, 1, n, WIDTH);
            problem.keys = ota_array_of(keys, OTA_F64, 1, 1, n, WIDTH);
            problem.row_mass = ota_array_of(mass, OTA_F64, 1, 1, 1, n);
            problem.column_mass = ota_array_of(ones, OTA_F64, 1, 1, 1, n);
            arrays.values = ota_array_of(v, OTA_F64, 1, 1, n, WIDTH);
            arrays.out = ota_array_of(out[turn], OTA_F64, 1, 1, n, WIDTH);
            const ota_status got = ota_attend(&problem, &options, &arrays, NULL, &error);
            if (got < 0) fail_msg("%s, turn %d: %s", methods[k], turn, error.message);
            if (turn > 0)
                spec_check("TOT-48", distance(out[0], out[turn], (MOST - PADDING) * WIDTH), 1e-7);
        }
    }
}

TEST_FILE(test_forward_contents) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_sizes_touch_no_pointer),
        cmocka_unit_test(forbidden_values_have_no_effect),
        cmocka_unit_test(values_may_lie_anywhere),
        cmocka_unit_test(masked_contents_have_no_effect),
        cmocka_unit_test(massless_queries_take_no_part),
        cmocka_unit_test(padding_takes_no_part),
        cmocka_unit_test(nonfinite_rows),
        cmocka_unit_test(errors_of_all_heads_count),
        cmocka_unit_test(nonfinite_values),
        cmocka_unit_test(extreme_scores),
        cmocka_unit_test(extreme_ranges_never_lie),
        cmocka_unit_test(fully_masked_rows_are_zero),
        cmocka_unit_test(centring_and_domains_leave_the_plan),
        cmocka_unit_test(narrow_data_is_promoted_when_it_must),
        cmocka_unit_test(a_wide_range_loses_nothing_unsaid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
