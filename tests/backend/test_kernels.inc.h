/* Bodies of test_kernels.c for one type T; TABLE names the member of ota_kernels, UNIT is u. Every test
 * runs over the levels this processor has and over the three placements in memory. */

#define NAME(X) JOIN(X, SUFFIX)
#define KERNELS JOIN(JOIN(ota_kernels_, TABLE), _table)
#define ATTEND JOIN(JOIN(ota_kernels_, TABLE), _attend)
#define PAIRS JOIN(JOIN(ota_kernels_, TABLE), _pairs)
#define LANES_OF JOIN(JOIN(ota_kernels_, TABLE), _lanes)
#define FOR_EACH_LEVEL(KERNELS_OF_LEVEL)                                                           \
    for (int level = 0; LEVELS[level]; level++)                                                    \
        for (const KERNELS *KERNELS_OF_LEVEL = LEVELS[level]->TABLE; KERNELS_OF_LEVEL;             \
             KERNELS_OF_LEVEL = NULL)

static T *NAME(room)(guards *all, int64_t count) { return guarded(all, count, sizeof(T)); }

static T *NAME(normals)(guards *all, dice *from, int64_t count, double scale) {
    T *x = NAME(room)(all, count);
    for (int64_t i = 0; i < count; i++) x[i] = (T)(scale * normal(from));
    return x;
}

static bool NAME(same)(const T *a, const T *b, int64_t count) {
    return count == 0 || memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static T NAME(number_at)(const PAIRS *pairs, int64_t row, int64_t key) {
    return (T)number_get(pairs->bias, pairs->bias_type, row * pairs->bias_ld + key);
}

/* ---- 2^t ------------------------------------------------------------------------------------ */

static void NAME(test_exp2)(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    FOR_EACH_LEVEL(kernels) {
        worst seen = {0, ""};
        T *t = malloc(COUNT * sizeof *t), *p = malloc(COUNT * sizeof *p);
        double span = HIGHEST - LOWEST - 0.75;
        for (int i = 0; i < COUNT; i++) t[i] = (T)(LOWEST + 0.5 + span * i / (double)COUNT);
        kernels->exponentials(t, NULL, COUNT, 0, 1, p);
        for (int i = 0; i < COUNT; i++) {
            long double exact = exp2l((long double)t[i]);
            int exponent;
            frexpl(exact, &exponent);
            long double unit = fmaxl(ldexpl(2 * UNIT, exponent - 1), TINY);
            note(&seen, fabsl(p[i] - exact), unit, "%s t=%g", LEVELS[level]->name, (double)t[i]);
        }
        report(&seen, "LIT-01", __func__);
        int whole = 0;
        for (int n = LOWEST + 1; n < HIGHEST; n++) t[whole++] = (T)n;
        kernels->exponentials(t, NULL, whole, 0, 1, p);
        for (int i = 0; i < whole; i++) assert_true(p[i] == (T)exp2((double)t[i]));
        const T special[] = {-INFINITY, INFINITY, NAN, 5000, -5000, 0, (T)-0.0};
        const T answer[] = {0, INFINITY, NAN, INFINITY, 0, 1, 1};
        for (int i = 0; i < 7; i++) {
            kernels->exponentials(special + i, NULL, 1, 0, 1, p);
            assert_true(isnan(answer[i]) ? isnan(p[0]) : p[0] == answer[i] && !signbit(p[0]));
        }
        free(t);
        free(p);
    }
}

/* ---- passes over one row -------------------------------------------------------------------- */

static void NAME(test_maximum)(void **state) {
    (void)state;
    dice from = 1;
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT; i++) {
            guards all = {.place = place};
            int64_t count = SIZES[i];
            T *s = NAME(normals)(&all, &from, count, 80), *h = NAME(normals)(&all, &from, count, 5);
            for (int with = 0; with < 2; with++) {
                T top = (T)-INFINITY;
                for (int64_t j = 0; j < count; j++) {
                    T x = with ? s[j] + h[j] : s[j];
                    top = x > top ? x : top;
                }
                assert_true(kernels->maximum(s, with ? h : NULL, count) == top);
            }
            for (int64_t j = 0; j < smaller_of(count, 130); j++) {
                T old = s[j];
                s[j] = (T)NAN;
                assert_true(isnan(kernels->maximum(s, NULL, count)));
                s[j] = (T)INFINITY;
                assert_true(kernels->maximum(s, NULL, count) == (T)INFINITY);
                s[j] = old;
            }
            for (int64_t j = 0; j < count; j++) h[j] = (T)-INFINITY;
            assert_true(kernels->maximum(s, h, count) == (T)-INFINITY);
            release(&all);
        }
    }
}

static void NAME(test_extent)(void **state) {
    (void)state;
    dice from = 3;
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT; i++) {
            guards all = {.place = place};
            int64_t count = SIZES[i];
            T *s = NAME(normals)(&all, &from, count, 80);
            T least = (T)INFINITY, most = (T)-INFINITY, low, high;
            for (int64_t j = 0; j < count; j++) {
                least = s[j] < least ? s[j] : least;
                most = s[j] > most ? s[j] : most;
            }
            assert_true(kernels->extent(s, count, &low, &high) == (count > 0));
            if (count > 0) assert_true(low == least && high == most);
            for (int64_t j = 0; j < smaller_of(count, 130); j++) {
                T old = s[j];
                for (int k = 0; k < 3; k++) {
                    s[j] = (T)odd[k];
                    assert_true(!kernels->extent(s, count, &low, &high));
                }
                s[j] = j % 2 == 0 ? (T)-1e6 : (T)1e6; /* the end of the range in every place */
                assert_true(kernels->extent(s, count, &low, &high));
                assert_true((j % 2 == 0 ? low : high) == s[j]);
                s[j] = old;
            }
            release(&all);
        }
    }
}

static void NAME(test_exponentials)(void **state) {
    (void)state;
    dice from = 2;
    worst seen = {0, ""};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT; i++) {
            guards all = {.place = place};
            int64_t count = SIZES[i];
            double range = i % 2 ? 80 : 3;
            T c = (T)(1.4426950408889634 / (i % 3 + 0.5));
            T *s = NAME(normals)(&all, &from, count, range);
            T *h = NAME(normals)(&all, &from, count, 1);
            if (count > 2) s[count / 2] = (T)-INFINITY;
            T *p = NAME(room)(&all, count), *again = NAME(room)(&all, count);
            T shift = kernels->maximum(s, h, count);
            double sum = kernels->exponentials(s, h, count, shift, c, p);
            long double exact_sum = 0;
            for (int64_t j = 0; j < count; j++) {
                long double t = ((long double)s[j] + h[j] - shift) * c;
                long double exact = exp2l(t);
                long double size = fabsl(s[j]) + fabsl((long double)h[j]) + fabsl(shift);
                if (isinf(s[j]))
                    assert_true(p[j] == 0 && !signbit(p[j]));
                else
                    note(&seen, fabsl(p[j] - exact), exact * UNIT * (3 + 3 * size * c) + TINY,
                         "%s count=%ld j=%ld", LEVELS[level]->name, (long)count, (long)j);
                exact_sum += p[j];
            }
            note(&seen, fabsl(sum - exact_sum), 8 * UNIT * exact_sum + TINY, "%s sum of %ld",
                 LEVELS[level]->name, (long)count);
            /* In place, and with everything in units of S multiplied by 2^20. */
            for (int64_t j = 0; j < count; j++) again[j] = s[j] * (T)0x1p20;
            for (int64_t j = 0; j < count; j++) h[j] *= (T)0x1p20;
            double scaled =
                kernels->exponentials(again, h, count, shift * (T)0x1p20, c * (T)0x1p-20, again);
            assert_true(NAME(same)(p, again, count) && scaled == sum);
            for (int64_t j = 0; j < count; j++) s[j] = (T)-INFINITY;
            assert_true(kernels->exponentials(s, NULL, count, (T)-INFINITY, c, p) == 0);
            for (int64_t j = 0; j < count; j++) assert_true(p[j] == 0);
            release(&all);
        }
        /* The difference of the two scores overflows; halves do not. */
        T wide[2] = {(T)(0.9 * (double)NAME(LARGEST)), (T)(-0.9 * (double)NAME(LARGEST))}, p[2];
        T c = (T)(1.0 / (double)NAME(LARGEST));
        kernels->exponentials(wide, NULL, 2, wide[0], c, p);
        assert_true(p[0] == 1);
        note(&seen, fabsl(p[1] - exp2l(((long double)wide[1] - wide[0]) * c)), 8 * UNIT, "wide");
        T poisoned[3] = {1, (T)NAN, 2}, q[3];
        assert_true(isnan(kernels->exponentials(poisoned, NULL, 3, 2, 1, q)));
        assert_true(q[2] == 1 && isnan(q[1]) && q[0] == (T)0.5);
    }
    report(&seen, "LIT-01 TOT-20", __func__);
}

static void NAME(test_row_sums)(void **state) {
    (void)state;
    dice from = 3;
    worst seen = {0, ""};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT; i++) {
            guards all = {.place = place};
            int64_t count = SIZES[i], positive = -1, above = 0;
            T *p = NAME(room)(&all, count);
            double *column = guarded(&all, count, sizeof *column);
            long double total = 0, entropy = 0, size = 0, top = 0;
            for (int64_t j = 0; j < count; j++) {
                p[j] = j % 5 == 3 ? 0 : (T)uniform(&from);
                column[j] = (double)j;
                total += p[j];
                if (p[j] <= 0) continue;
                above++;
                entropy += p[j] * logl(p[j]);
                size += fabsl(p[j] * logl(p[j]));
                top = fmaxl(top, p[j]);
            }
            note(&seen, fabsl(kernels->sum(p, count) - total), 8 * UNIT * total + TINY, "sum");
            double p_log_p, max;
            kernels->statistics(p, count, &p_log_p, &positive, &max);
            note(&seen, fabsl(p_log_p - entropy), 16 * 0x1p-53L * size + TINY, "p log p");
            assert_true(positive == above && max == (double)top);
            kernels->accumulate(p, count, 0.3, column);
            for (int64_t j = 0; j < count; j++) {
                note(&seen, fabsl(column[j] - (j + 0.3L * p[j])), 0x1p-51L * (double)(j + 1),
                     "accumulate");
            }
            T *scaled = NAME(room)(&all, count);
            if (count > 0) memcpy(scaled, p, (size_t)count * sizeof *p);
            kernels->multiply(scaled, count, (T)0.7);
            for (int64_t j = 0; j < count; j++) assert_true(scaled[j] == p[j] * (T)0.7);
            release(&all);
        }
        /* Runs of 64 equal terms err by up to 32 u in one direction; a chain of them all by thousands. */
        enum { MANY = 300001 };
        T *third = malloc(MANY * sizeof *third), *s = malloc(MANY * sizeof *s);
        double *column = calloc(MANY, sizeof *column), u, one = 1, first, second;
        for (int j = 0; j < MANY; j++) third[j] = (T)(1.0 / 3), s[j] = 0;
        long double exact = (long double)third[0] * (double)MANY;
        note(&seen, fabsl(kernels->sum(third, MANY) - exact), 32 * UNIT * exact, "long sum");
        OPERANDS(powers) row = {.s = third, .count = MANY, .k = 1, .p = 2};
        kernels->power_sums(&row, &first, &second);
        note(&seen, fabsl(second - exact), 32 * UNIT * exact, "long sum of powers");
        row.p = 1;
        note(&seen, fabsl(kernels->powers(&row, 1, s) - exact), 32 * UNIT * exact, "long powers");
        kernels->linear_round(&(OPERANDS(round)){.kernel = third,
                                                 .ldk = MANY,
                                                 .rows = 1,
                                                 .columns = MANY,
                                                 .v = third,
                                                 .mass = &one,
                                                 .u = &u,
                                                 .column = column});
        note(&seen, fabsl(u * exact * third[0] - 1), 32 * UNIT, "long linear round");
        double sum = kernels->exponentials(third, NULL, MANY, 2, 1, s);
        note(&seen, fabsl(sum - (long double)s[0] * (double)MANY), 32 * UNIT * (long double)sum,
             "long exponentials");
        free(third);
        free(s);
        free(column);
        T poisoned[5] = {(T)0.5, 0, (T)NAN, 1, (T)0.25};
        double p_log_p, max;
        int64_t positive;
        kernels->statistics(poisoned, 5, &p_log_p, &positive, &max);
        assert_true(isnan(p_log_p) && isnan(kernels->sum(poisoned, 5)));
    }
    report(&seen, "TOT-20", __func__);
}

/* ---- steps of the scaling methods ----------------------------------------------------------- */

static void NAME(test_rows_and_columns)(void **state) {
    (void)state;
    dice from = 4;
    worst seen = {0, ""};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT; i++) {
            guards all = {.place = place};
            int64_t rows = 1 + i % 7, columns = SIZES[i], lds = columns + i % 3;
            T sink = i % 2 ? (T)0.5 : (T)-INFINITY, c = (T)1.25;
            /* The last row ends with its last column, not with the stride. */
            T *s = NAME(normals)(&all, &from, (rows - 1) * lds + columns, 4);
            T *h = NAME(normals)(&all, &from, columns, 1), *scratch = NAME(room)(&all, columns);
            double *mass = guarded(&all, rows, sizeof *mass),
                   *shift = guarded(&all, rows, sizeof *shift);
            double *sum = guarded(&all, rows, sizeof *sum), *f = guarded(&all, rows, sizeof *f);
            double *column = guarded(&all, columns, sizeof *column);
            T *top = NAME(room)(&all, columns);
            for (int64_t r = 0; r < rows; r++) mass[r] = r == 2 ? 0 : uniform(&from);
            if (rows > 2 && columns > 0) s[2 * lds + columns / 2] = (T)NAN; /* a row of no mass */
            if (rows > 3) {
                for (int64_t j = 0; j < columns; j++) s[3 * lds + j] = (T)-INFINITY;
            }
            for (int64_t j = 0; j < columns; j++) column[j] = 0, top[j] = (T)-INFINITY;
            kernels->log_round(&(OPERANDS(log_round)){.s = s,
                                                      .lds = lds,
                                                      .rows = rows,
                                                      .columns = columns,
                                                      .h = h,
                                                      .c = c,
                                                      .sink = sink,
                                                      .mass = mass,
                                                      .shift = shift,
                                                      .sum = sum,
                                                      .column = column,
                                                      .scratch = scratch});
            for (int64_t r = 0; r < rows; r++) {
                long double exact = isinf(sink) ? 0 : exp2l(((long double)sink - shift[r]) * c);
                T best = (T)-INFINITY;
                for (int64_t j = 0; j < columns; j++) {
                    T x = s[r * lds + j] + h[j];
                    best = x > best ? x : best;
                    exact += exp2l(((long double)x - shift[r]) * c);
                }
                if (r == 2 && columns > 0) {
                    assert_true(isnan(shift[r]) && isnan(sum[r]));
                } else if (isinf(best)) {
                    assert_true(shift[r] == -INFINITY && sum[r] == 0);
                } else {
                    assert_true(shift[r] == (double)(best > sink ? best : sink));
                    note(&seen, fabsl(sum[r] - exact), UNIT * exact * 200, "sum");
                }
            }
            for (int64_t j = 0; j < columns; j++) {
                long double exact = 0;
                for (int64_t r = 0; r < rows; r++) {
                    if (!(sum[r] > 0)) continue;
                    T x = s[r * lds + j] + h[j];
                    exact += mass[r] / sum[r] * exp2l(((long double)x - shift[r]) * c);
                }
                note(&seen, fabsl(column[j] - exact), UNIT * exact * 200 + TINY, "%s column",
                     LEVELS[level]->name);
            }
            /* The same plan from the other side: f = -shift - log2(sum / mass) / c. */
            for (int64_t r = 0; r < rows; r++) {
                f[r] = mass[r] > 0 && sum[r] > 0
                           ? (double)(T)(-shift[r] - log2(sum[r] / mass[r]) / (double)c)
                           : -INFINITY;
            }
            kernels->columns_top(s, lds, rows, columns, f, top);
            for (int64_t j = 0; j < columns; j++) {
                T best = (T)-INFINITY;
                for (int64_t r = 0; r < rows; r++) {
                    T x = isinf(f[r]) ? (T)-INFINITY : s[r * lds + j] + (T)f[r];
                    best = x > best ? x : best;
                    column[j] = 0;
                }
                assert_true(top[j] == best);
            }
            if (columns > 4) {
                for (int64_t r = 0; r < rows; r++) s[r * lds + 4] = (T)-INFINITY;
                top[4] = (T)-INFINITY;
            }
            kernels->columns_sum(s, lds, rows, columns, f, top, c, column);
            for (int64_t j = 0; j < columns; j++) {
                long double exact = 0;
                for (int64_t r = 0; r < rows; r++) {
                    if (isinf(f[r]) || isinf(top[j])) continue;
                    exact += exp2l(((long double)(T)(s[r * lds + j] + (T)f[r]) - top[j]) * c);
                }
                note(&seen, fabsl(column[j] - exact), UNIT * exact * 200, "columns_sum %ld",
                     (long)j);
            }
            release(&all);
        }
    }
    report(&seen, "CETA-07 TOT-20", __func__);
}

static void NAME(test_linear)(void **state) {
    (void)state;
    dice from = 5;
    worst seen = {0, ""};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT; i++) {
            guards all = {.place = place};
            int64_t rows = 1 + (i + 3) % 9, columns = SIZES[i], ldk = columns + i % 3, flushed = 0;
            T c = (T)1.5;
            T *s = NAME(normals)(&all, &from, (rows - 1) * columns + columns, 3);
            T *h = NAME(normals)(&all, &from, columns, 1);
            T *kernel = NAME(room)(&all, (rows - 1) * ldk + columns);
            T *v = NAME(room)(&all, columns);
            double *f = guarded(&all, rows, sizeof *f), *u = guarded(&all, rows, sizeof *u);
            double *mass = guarded(&all, rows, sizeof *mass),
                   *sink = guarded(&all, rows, sizeof *sink);
            double *column = guarded(&all, columns, sizeof *column);
            for (int64_t r = 0; r < rows; r++) {
                f[r] = (double)(T)normal(&from), mass[r] = r == 1 ? 0 : 1, sink[r] = 0.25;
            }
            for (int64_t j = 0; j < columns; j++) {
                if (j % 7 == 2) s[j] = (T)-INFINITY;
                if (j % 7 == 3) s[j] = (T)(2 * LOWEST), flushed++;
                v[j] = (T)uniform(&from), column[j] = 0;
            }
            const OPERANDS(kernel) form = {.s = s,
                                           .lds = columns,
                                           .rows = rows,
                                           .columns = columns,
                                           .f = f,
                                           .h = h,
                                           .c = c,
                                           .kernel = kernel,
                                           .ldk = ldk};
            assert_int_equal(kernels->kernel_form(&form), flushed);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t j = 0; j < columns; j++) {
                    T x = (s[r * columns + j] + (T)f[r]) + h[j];
                    long double exact = exp2l((long double)x * c);
                    note(&seen, fabsl(kernel[r * ldk + j] - exact),
                         exact * UNIT * (4 + 2 * fabsl((long double)x)) + TINY, "kernel_form");
                }
            }
            for (int with = 0; with < 2; with++) {
                for (int64_t j = 0; j < columns; j++) column[j] = 0;
                kernels->linear_round(&(OPERANDS(round)){.kernel = kernel,
                                                         .ldk = ldk,
                                                         .rows = rows,
                                                         .columns = columns,
                                                         .v = v,
                                                         .mass = mass,
                                                         .sink = with ? sink : NULL,
                                                         .u = u,
                                                         .column = column});
                for (int64_t r = 0; r < rows; r++) {
                    long double sum = with ? sink[r] : 0;
                    for (int64_t j = 0; j < columns; j++)
                        sum += (long double)kernel[r * ldk + j] * v[j];
                    if (columns == 0 && !with) {
                        assert_true(mass[r] > 0 ? isinf(u[r]) : u[r] == 0);
                        continue;
                    }
                    if (mass[r] > 0)
                        note(&seen, fabsl(u[r] * sum - mass[r]), 80 * UNIT, "u of %ld", (long)r);
                    else
                        assert_true(u[r] == 0);
                }
                for (int64_t j = 0; j < columns; j++) {
                    long double exact = 0;
                    for (int64_t r = 0; r < rows; r++)
                        exact += (long double)u[r] * kernel[r * ldk + j];
                    note(&seen, fabsl(column[j] - exact), 16 * UNIT * exact + TINY, "column");
                }
            }
            for (int64_t r = 0; r < rows; r++) u[r] = (double)(T)(0.5 + uniform(&from));
            T *p = NAME(room)(&all, (rows - 1) * ldk + columns);
            kernels->weights(kernel, ldk, rows, columns, v, u, p, ldk);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t j = 0; j < columns; j++) {
                    long double exact = (long double)kernel[r * ldk + j] * v[j] * u[r];
                    note(&seen, fabsl(p[r * ldk + j] - exact), 2 * UNIT * exact + TINY, "weights");
                }
            }
            release(&all);
        }
    }
    report(&seen, "TOT-108 CETA-07", __func__);
}

/* Many rows go through in groups whose size depends on the columns: a row's u must not. */
static void NAME(test_linear_groups)(void **state) {
    (void)state;
    static const int64_t lengths[] = {130, 500, 512, 530, 1024, 1030, 2100};
    enum { ROWS = 29, LENGTHS = sizeof lengths / sizeof lengths[0] };
    dice from = 6;
    worst seen = {0, ""};
    FOR_EACH_LEVEL(kernels) for (int i = 0; i < LENGTHS; i++) {
        guards all = {.place = 0};
        const int64_t columns = lengths[i], ldk = columns + i % 3;
        T *kernel = NAME(room)(&all, (ROWS - 1) * ldk + columns), *v = NAME(room)(&all, columns);
        double *column = guarded(&all, columns, sizeof *column), mass[ROWS], u[ROWS], one = 0;
        double *rest = guarded(&all, columns, sizeof *rest);
        for (int64_t j = 0; j < columns; j++) v[j] = (T)uniform(&from), column[j] = 0;
        for (int64_t r = 0; r < ROWS; r++) {
            mass[r] = uniform(&from);
            for (int64_t j = 0; j < columns; j++) kernel[r * ldk + j] = (T)uniform(&from);
        }
        OPERANDS(round)
        round = {.kernel = kernel,
                 .ldk = ldk,
                 .rows = ROWS,
                 .columns = columns,
                 .v = v,
                 .mass = mass,
                 .u = u,
                 .column = column};
        kernels->linear_round(&round);
        round.rows = 1;
        round.u = &one;
        round.column = rest;
        for (int64_t r = 0; r < ROWS; r++) {
            round.kernel = kernel + r * ldk;
            round.mass = mass + r;
            kernels->linear_round(&round);
            assert_memory_equal(&one, &u[r], sizeof one);
        }
        for (int64_t j = 0; j < columns; j++) {
            long double exact = 0;
            for (int64_t r = 0; r < ROWS; r++) exact += (long double)u[r] * kernel[r * ldk + j];
            note(&seen, fabsl(column[j] - exact), 16 * UNIT * exact, "column %ld", (long)j);
        }
        release(&all);
    }
    report(&seen, "CETA-07", __func__);
}

/* ---- problems in lanes ---------------------------------------------------------------------- */

/* Rounds of one lane in long double: weights into p. */
static void NAME(rounds_of)(const T *s, const T *mass, const T *target, int64_t rows,
                            int64_t columns, long double c, int64_t rounds, long double *p) {
    long double u[OTA_LANES_SIDE], v[OTA_LANES_SIDE];
    for (int64_t j = 0; j < columns; j++) v[j] = 1;
    for (int64_t i = 0; i < rows; i++) {
        long double top = -INFINITY;
        for (int64_t j = 0; j < columns; j++) top = fmaxl(top, s[i * columns + j]);
        for (int64_t j = 0; j < columns; j++)
            p[i * columns + j] = exp2l((s[i * columns + j] - top) * c);
    }
    for (int64_t round = 0; round <= rounds; round++) {
        for (int64_t i = 0; i < rows; i++) {
            long double sum = 0;
            for (int64_t j = 0; j < columns; j++) sum += p[i * columns + j] * v[j];
            u[i] = mass[i] / sum;
        }
        for (int64_t j = 0; j < columns && round < rounds; j++) {
            long double sum = 0;
            for (int64_t i = 0; i < rows; i++) sum += p[i * columns + j] * u[i];
            v[j] = target[j] / sum;
        }
    }
    for (int64_t e = 0; e < rows * columns; e++) p[e] *= u[e / columns] * v[e % columns];
}

static void NAME(test_lanes)(void **state) {
    (void)state;
    enum { ROUNDS = 3, MOST = OTA_LANES_SIDE * OTA_LANES_SIDE };
    dice from = 23;
    worst seen = {0, ""};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int64_t turn = 0; turn < 24; turn++) {
            guards all = {.place = place};
            const int64_t rows = 1 + turn * 5 % 16, columns = 1 + turn * 11 % 16;
            const int64_t pairs = rows * columns, lanes = kernels->lanes;
            const int64_t stride = (pairs + lanes - 1) / lanes * lanes;
            T *s = NAME(normals)(&all, &from, lanes * stride, 1);
            T *matrix = NAME(room)(&all, lanes * pairs), *out = NAME(room)(&all, lanes * stride);
            T *mass = NAME(room)(&all, lanes * rows), *target = NAME(room)(&all, lanes * columns);
            T *c = NAME(room)(&all, lanes), *taken = NAME(room)(&all, lanes);
            for (int64_t l = 0; l < lanes; l++) {
                c[l] = (T)(0.5 + 0.1 * (double)l);
                for (int64_t i = 0; i < rows; i++) mass[i * lanes + l] = (T)(1 + (i + l) % 3);
                for (int64_t j = 0; j < columns; j++) target[j * lanes + l] = (T)(1 + (j + l) % 2);
            }
            kernels->lanes_in(s, stride, pairs, (T)2, matrix);
            for (int64_t e = 0; e < lanes * pairs; e++)
                assert_true(matrix[e] == 2 * s[e % lanes * stride + e / lanes]);
            kernels->lane_rounds(
                &(LANES_OF){.rows = rows,
                            .columns = columns,
                            .rounds = ROUNDS,
                            .c = c,
                            .mass = mass,
                            .target = target,
                            .matrix = matrix,
                            .shift = NAME(room)(&all, lanes * rows),
                            .sum = NAME(room)(&all, lanes * rows),
                            .scaling = NAME(room)(&all, lanes * columns),
                            .next = NAME(room)(&all, lanes * columns),
                            .row_sums = guarded(&all, lanes * rows, sizeof(double)),
                            .column_sums = guarded(&all, lanes * columns, sizeof(double)),
                            .taken = taken});
            kernels->lanes_out(matrix, pairs, out, stride);
            for (int64_t l = 0; l < lanes; l++) {
                T lane[MOST], mu[OTA_LANES_SIDE], nu[OTA_LANES_SIDE];
                long double exact[MOST];
                for (int64_t e = 0; e < pairs; e++) lane[e] = 2 * s[l * stride + e];
                for (int64_t i = 0; i < rows; i++) mu[i] = mass[i * lanes + l];
                for (int64_t j = 0; j < columns; j++) nu[j] = target[j * lanes + l];
                NAME(rounds_of)(lane, mu, nu, rows, columns, c[l], ROUNDS, exact);
                assert_true(taken[l] >= (T)ROUNDS && taken[l] <= (T)ROUNDS);
                for (int64_t e = 0; e < pairs; e++)
                    note(&seen, fabsl(out[l * stride + e] - exact[e]),
                         exact[e] * UNIT * (ROUNDS + 1) * (8 + 3 * 16), "%s lanes %ld x %ld",
                         LEVELS[level]->name, (long)rows, (long)columns);
                for (int64_t e = pairs; e < stride; e++) assert_true(out[l * stride + e] == 0);
            }
            release(&all);
        }
    }
    report(&seen, "CETA-07 TOT-20", __func__);
}

/* ---- entmax --------------------------------------------------------------------------------- */

static void NAME(test_powers)(void **state) {
    (void)state;
    dice from = 6;
    worst seen = {0, ""};
    enum { EXPONENTS = 6 };
    const double exponents[EXPONENTS] = {1, 2, 0.5, 4.0 / 3, 4, 9.1};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT * EXPONENTS; i++) {
            guards all = {.place = place};
            int64_t count = SIZES[i / EXPONENTS], above = 0;
            double p = exponents[i % EXPONENTS], t = -1.5 - 0x1p-40, first, second;
            T k = (T)0.75, factor = (T)0.3;
            T *s = NAME(normals)(&all, &from, count, 2), *h = NAME(normals)(&all, &from, count, 1);
            T *out = NAME(room)(&all, count);
            T shift = count > 0 ? kernels->maximum(s, h, count) : 0;
            const OPERANDS(powers)
                row = {.s = s, .h = h, .count = count, .shift = shift, .k = k, .t = t, .p = p};
            int64_t got = kernels->power_sums(&row, &first, &second);
            double sum = kernels->powers(&row, factor, out);
            long double sums[2] = {0, 0}, total = 0;
            for (int64_t j = 0; j < count; j++) {
                long double x = ((long double)(T)(s[j] + h[j]) - shift) * k;
                long double y = fmaxl(0, x - t), slack = 4 * UNIT * (1 + fabsl(x));
                if (y > slack) {
                    above++;
                    sums[0] += powl(y, p);
                    sums[1] += powl(y, p - 1);
                    long double exact = powl(y, p) * factor;
                    note(&seen, fabsl(out[j] - exact),
                         8 * UNIT * exact * (1 + (p + 1) * (1 + fabsl(x)) / y), "%s powers p=%g",
                         LEVELS[level]->name, p);
                } else {
                    assert_true((double)out[j] <= pow((double)(2 * slack), p));
                }
                total += out[j];
            }
            assert_int_equal(got, above);
            note(&seen, fabsl(sum - total), 8 * UNIT * total + TINY, "sum of powers");
            note(&seen, fabsl(first - sums[0]), 40 * UNIT * (sums[0] + (long double)above),
                 "first p=%g", p);
            if (p >= 1)
                note(&seen, fabsl(second - sums[1]), 40 * UNIT * (sums[1] + (long double)above),
                     "second p=%g", p);
            if (count > 0) {
                s[count - 1] = (T)NAN;
                kernels->power_sums(&row, &first, &second);
                assert_true(isnan(first));
            }
            release(&all);
        }
        /* The threshold keeps more digits than T where the difference is small. */
        T near = (T)(-1.5 + 0x1p-20), above_it;
        const OPERANDS(powers) one = {.s = &near, .count = 1, .k = 1, .t = -1.5 - 0x1p-40, .p = 1};
        kernels->powers(&one, 1, &above_it);
        assert_true(above_it == (T)(0x1p-20 + 0x1p-40));
    }
    report(&seen, "LIT-10 LIT-11", __func__);
}

/* p < 0: every score but -inf has y > 0, and -inf has none of the weight. */
static void NAME(test_negative_powers)(void **state) {
    (void)state;
    dice from = 61;
    worst seen = {0, ""};
    const double exponents[] = {-1.25, -2, -10};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT * 3; i++) {
            guards all = {.place = place};
            const int64_t count = SIZES[i / 3];
            const double p = exponents[i % 3], t = -1.5 - 0x1p-40;
            const T k = (T)-0.75, factor = (T)0.3;
            T *s = NAME(normals)(&all, &from, count, 2), *out = NAME(room)(&all, count);
            if (count > 2) s[count / 2] = (T)-INFINITY;
            const T shift = count > 0 ? kernels->maximum(s, NULL, count) : 0;
            const OPERANDS(powers)
                row = {.s = s, .count = count, .shift = shift, .k = k, .t = t, .p = p};
            double first, second;
            (void)kernels->power_sums(&row, &first, &second);
            const double sum = kernels->powers(&row, factor, out);
            long double sums[2] = {0, 0}, total = 0;
            for (int64_t j = 0; j < count; j++) {
                const long double y = ((long double)s[j] - shift) * k - t;
                const long double exact = s[j] > (T)-INFINITY ? powl(y, p) * factor : 0;
                note(&seen, fabsl(out[j] - exact), 8 * UNIT * exact * (1 - 2 * p) + TINY,
                     "%s powers p=%g", LEVELS[level]->name, p);
                if (!(s[j] > (T)-INFINITY)) assert_true(!(out[j] > 0) && !(out[j] < 0));
                sums[0] += exact / factor;
                sums[1] += exact / factor / y;
                total += out[j];
            }
            note(&seen, fabsl(sum - total), 8 * UNIT * total + TINY, "sum of powers");
            note(&seen, fabsl(first - sums[0]), (40 - 16 * p) * UNIT * sums[0] + TINY, "first");
            note(&seen, fabsl(second - sums[1]), (40 - 16 * p) * UNIT * sums[1] + TINY, "second");
            release(&all);
        }
    }
    report(&seen, "LIT-10", __func__);
}

/* Rows with caps: p_j = min(c_j, factor e_j) of the level's own e_j, and the sums over both kinds of keys. */
static void NAME(test_capped)(void **state) {
    (void)state;
    dice from = 23;
    worst seen = {0, ""};
    enum { EXPONENTS = 6 };
    /* 0: exponentials */
    const double exponents[EXPONENTS] = {0, 1, 2, 0.5, 4, 4.0 / 3};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT * EXPONENTS * 2; i++) {
            guards all = {.place = place};
            const int64_t count = SIZES[i / (2 * EXPONENTS)];
            const double p = exponents[i / 2 % EXPONENTS];
            const bool exponential = !(p > 0), apart = i % 2 == 1;
            const T factor = (T)0.7, k = (T)0.75;
            T *s = NAME(normals)(&all, &from, count, 2), *h = NAME(normals)(&all, &from, count, 1);
            T *caps = NAME(room)(&all, count), *e = NAME(room)(&all, count);
            for (int64_t j = 0; j < count; j++) caps[j] = (T)(0.05 + uniform(&from));
            if (count > 2) s[count / 2] = (T)-INFINITY;
            const T shift = count > 0 ? kernels->maximum(s, h, count) : 0;
            const OPERANDS(powers)
                y = {.s = s, .h = h, .count = count, .shift = shift, .k = k, .t = -1.5, .p = p};
            if (exponential)
                (void)kernels->exponentials(s, h, count, shift, k, e);
            else
                (void)kernels->powers(&y, 1, e);
            OPERANDS(capped)
            row = {.s = s,
                   .h = h,
                   .caps = apart ? caps : NULL,
                   .count = count,
                   .cap = (T)0.3,
                   .shift = shift,
                   .k = k,
                   .factor = factor,
                   .t = -1.5,
                   .p = p};
            const ota_capped_sums sums =
                exponential ? kernels->capped->exponentials(&row) : kernels->capped->powers(&row);
            /* In place. */
            T *out = NAME(room)(&all, count);
            if (count > 0) memcpy(out, s, (size_t)count * sizeof *out);
            row.s = row.out = out;
            const ota_capped_sums again =
                exponential ? kernels->capped->exponentials(&row) : kernels->capped->powers(&row);
            assert_true(memcmp(&sums, &again, sizeof sums) == 0);
            long double open = 0, closed = 0, slope = 0;
            int64_t full = 0;
            for (int64_t j = 0; j < count; j++) {
                const T cap = apart ? caps[j] : (T)0.3, got = out[j];
                const long double w = (long double)e[j] * factor;
                /* Powers of 4/3 and 4 may be taken in another way there. */
                note(&seen, fabsl(got - fminl(cap, w)), 8 * UNIT * w + TINY, "%s p=%g",
                     LEVELS[level]->name, p);
                full += got >= cap;
                open += got >= cap ? 0 : e[j];
                closed += got >= cap ? cap : 0;
                if (got < cap && e[j] > 0 && !exponential) slope += powl(e[j], (p - 1) / p);
            }
            assert_int_equal(sums.full, full);
            note(&seen, fabsl(sums.open - open), 16 * UNIT * open + TINY, "open p=%g", p);
            note(&seen, fabsl(sums.closed - closed), 16 * UNIT * closed + TINY, "closed p=%g", p);
            note(&seen, fabsl(sums.slope - slope), 64 * UNIT * slope + TINY, "slope p=%g", p);
            release(&all);
        }
    }
    if (seen.ratio > 1.0) fail_msg("%g of the bound at %s", seen.ratio, seen.where);
}

/* ---- rows with few weights ------------------------------------------------------------------ */

static void NAME(test_keep)(void **state) {
    (void)state;
    dice from = 17;
    worst seen = {0, ""};
    const T floors[] = {(T)-INFINITY, (T)-0.5, (T)1.5, (T)INFINITY};
    const int64_t widths[] = {1, 15, 16, 64, 65, 130};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < SIZE_COUNT * 4; i++) {
            guards all = {.place = place};
            int64_t count = SIZES[i / 4], width = widths[i % 6], expected = 0;
            T floor = floors[i % 4];
            T *s = NAME(normals)(&all, &from, count, 1);
            if (count > 2) s[count / 2] = (T)-INFINITY;
            if (count > 3) s[count / 3] = floor;
            T *kept = NAME(room)(&all, count + OTA_COMPACT_ROOM);
            T *same = NAME(room)(&all, count + OTA_COMPACT_ROOM);
            int32_t *where = guarded(&all, count + OTA_COMPACT_ROOM, sizeof *where);
            T *v = NAME(normals)(&all, &from, count * width, 1), *out = NAME(room)(&all, width);
            int64_t got = kernels->compact(s, NULL, count, floor, kept, where);
            for (int64_t j = 0; j < count; j++) {
                if (!(s[j] > floor)) continue;
                assert_true(expected < got && kept[expected] == s[j] && where[expected] == j);
                expected++;
            }
            assert_int_equal(got, expected);
            kernels->spmv(kept, where, got, v, width, width, out);
            for (int64_t w = 0; w < width; w++) {
                long double exact = 0, size = 0;
                for (int64_t q = 0; q < got; q++) {
                    long double term = (long double)kept[q] * v[where[q] * width + w];
                    exact += term;
                    size += fabsl(term);
                }
                note(&seen, fabsl(out[w] - exact), 64 * UNIT * size + TINY, "%s %ld kept of %ld",
                     LEVELS[level]->name, (long)got, (long)count);
            }
            /* The list's values one after another: apply sums them in the same order. */
            T *gathered = NAME(room)(&all, got * width), *row = NAME(room)(&all, width);
            for (int64_t at = 0; at < got * width; at++)
                gathered[at] = v[where[at / width] * width + at % width];
            for (int64_t w = 0; w < width; w++) row[w] = 0;
            const ota_product sizes = {1, got, width, got, width, width};
            kernels->apply(kept, gathered, &sizes, row);
            assert_true(NAME(same)(row, out, width));
            T *q = NAME(normals)(&all, &from, width, 1), *dot = NAME(room)(&all, count);
            kernels->dots(q, v, width, count, width, dot);
            for (int64_t j = 0; j < count; j++) {
                long double exact = 0, size = 0;
                for (int64_t w = 0; w < width; w++) {
                    exact += (long double)q[w] * v[j * width + w];
                    size += fabsl((long double)q[w] * v[j * width + w]);
                }
                note(&seen, fabsl(dot[j] - exact), 16 * UNIT * size + TINY, "%s dot of %ld",
                     LEVELS[level]->name, (long)width);
            }
            if (count > 0) memcpy(same, s, (size_t)count * sizeof *s);
            assert_int_equal(kernels->compact(same, NULL, count, floor, same, where), got);
            assert_true(NAME(same)(same, kept, got));
            /* With a bias, which stays out of what is kept. */
            T *h = NAME(normals)(&all, &from, count, 1);
            int64_t above = 0;
            const int64_t biased = kernels->compact(s, h, count, floor, kept, where);
            for (int64_t j = 0; j < count; j++) {
                if (!((T)(s[j] + h[j]) > floor)) continue;
                assert_true(above < biased && where[above] == (int32_t)j && kept[above] == s[j]);
                above++;
            }
            assert_int_equal(biased, above);
            release(&all);
        }
    }
    report(&seen, "LIT-10", __func__);
}

/* ---- products ------------------------------------------------------------------------------- */

static void NAME(pack)(const T *k, int64_t keys, int64_t width, T *packed) {
    for (int64_t key = 0; key < (keys + OTA_PANEL - 1) / OTA_PANEL * OTA_PANEL; key++) {
        for (int64_t w = 0; w < width; w++) {
            packed[(key / OTA_PANEL * width + w) * OTA_PANEL + key % OTA_PANEL] =
                key < keys ? k[key * width + w] : 0;
        }
    }
}

static void NAME(test_products)(void **state) {
    (void)state;
    dice from = 7;
    worst seen = {0, ""};
    const int64_t heights[] = {0, 1, 5, 12, 50}, widths[] = {0, 1, 64, 65, 200};
    FOR_EACH_LEVEL(kernels) for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < 5 * 5 * 4; i++) {
            guards all = {.place = place};
            int64_t rows = heights[i % 5], width = widths[i / 5 % 5],
                    keys = SIZES[(i * 7) % SIZE_COUNT] % 200;
            int64_t lds = keys + i % 2;
            T *q = NAME(normals)(&all, &from, rows * width, 1),
              *k = NAME(normals)(&all, &from, keys * width, 1);
            T *packed = NAME(room)(&all, ota_packed_length(keys, width));
            int64_t last = rows > 0 ? (rows - 1) * lds + keys : 0;
            T *s = NAME(room)(&all, last), *out = NAME(room)(&all, rows * width);
            NAME(pack)(k, keys, width, packed);
            kernels->products(q, packed, rows, keys, width, s, lds);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t j = 0; j < keys; j++) {
                    long double exact = 0, size = 0;
                    for (int64_t w = 0; w < width; w++) {
                        exact += (long double)q[r * width + w] * k[j * width + w];
                        size += fabsl((long double)q[r * width + w] * k[j * width + w]);
                    }
                    note(&seen, fabsl(s[r * lds + j] - exact), 16 * UNIT * size + TINY,
                         "%s products w=%ld", LEVELS[level]->name, (long)width);
                }
                for (int64_t w = 0; w < width; w++) out[r * width + w] = 1;
            }
            const ota_product sizes = {rows, keys, width, lds, width, width};
            kernels->apply(s, k, &sizes, out);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t w = 0; w < width; w++) {
                    long double exact = 1, size = 1;
                    for (int64_t j = 0; j < keys; j++) {
                        exact += (long double)s[r * lds + j] * k[j * width + w];
                        size += fabsl((long double)s[r * lds + j] * k[j * width + w]);
                    }
                    note(&seen, fabsl(out[r * width + w] - exact), 16 * UNIT * size + TINY,
                         "apply");
                }
            }
            release(&all);
        }
    }
    report(&seen, "LIT-15 TOT-20", __func__);
}

/* ---- the fused kernel ----------------------------------------------------------------------- */

typedef struct NAME(trial) {
    ATTEND block;
    T *keys;
    int64_t key_count;
    const ota_kernels *level;
} NAME(trial);

static void NAME(square_term)(void *context, int64_t row, int64_t first, int64_t last, T *x) {
    T scale = *(T *)context;
    for (int64_t j = first; j < last; j++) {
        x[j - first] = scale * x[j - first] + (T)((row + j) % 3) - (j % 11 == 5 ? (T)INFINITY : 0);
    }
}

static NAME(trial) NAME(trial_of)(guards *all, dice *from, const ota_kernels *level, int64_t rows,
                                  int64_t keys, int64_t width, int64_t values_width) {
    NAME(trial) t;
    memset(&t, 0, sizeof t);
    t.level = level;
    t.key_count = keys;
    t.keys = NAME(normals)(all, from, keys * width, 1);
    T *packed = NULL;
    size_t bytes = ((size_t)ota_packed_length(keys, width) * sizeof(T) + 63) / 64 * 64;
    /* Packed keys and scratch are promised to be 64-byte aligned; their ends meet the page. */
    int place = all->place;
    all->place = PLACE_END;
    packed = guarded(all, (int64_t)(bytes / sizeof(T)), sizeof(T));
    int64_t scratch = (ota_attend_scratch(values_width) + 15) / 16 * 16;
    t.block.scratch = guarded(all, scratch, sizeof(T));
    all->place = place;
    NAME(pack)(t.keys, keys, width, packed);
    int64_t *begin = guarded(all, rows, sizeof *begin), *end = guarded(all, rows, sizeof *end);
    for (int64_t r = 0; r < rows; r++) begin[r] = 0, end[r] = keys;
    t.block.queries = NAME(normals)(all, from, rows * width, 1);
    t.block.packed_keys = packed;
    t.block.values = NAME(normals)(all, from, keys * values_width, 1);
    t.block.rows = rows;
    t.block.width = width;
    t.block.values_width = values_width;
    t.block.begin = begin;
    t.block.end = end;
    t.block.scale = (T)(1 / sqrt((double)(width > 0 ? width : 1)));
    t.block.c = (T)1.4426950408889634;
    t.block.sink = (T)-INFINITY;
    t.block.out = NAME(room)(all, rows * values_width);
    t.block.row_max = NAME(room)(all, rows);
    t.block.row_sum = NAME(room)(all, rows);
    return t;
}

/* Every output against the definition: |out - exact| <= u A (8 + 4 B), A = sum p |v|, B the largest
 * sum of |terms| of a used score in units of the temperature (policy 3.2). */
static void NAME(judge)(const NAME(trial) * t, worst *seen, const char *what) {
    const ATTEND *b = &t->block;
    T *x = malloc(sizeof *x);
    long double *s = malloc((size_t)(t->key_count + 1) * sizeof *s);
    for (int64_t r = 0; r < b->rows; r++) {
        long double top = -INFINITY, size = 0, per_tau = b->c / 1.44269504088896340736L;
        for (int64_t j = b->begin[r]; j < b->end[r]; j++) {
            long double dot = 0, terms = 0;
            for (int64_t w = 0; w < b->width; w++) {
                long double product =
                    (long double)b->queries[r * b->width + w] * t->keys[j * b->width + w];
                dot += product;
                terms += fabsl(product);
            }
            s[j] = dot * b->scale;
            terms *= fabsl((long double)b->scale);
            if (b->terms) {
                x[0] = 0;
                b->terms(b->terms_context, r, j, j + 1, x);
                s[j] += x[0];
                terms += isinf(x[0]) ? 0 : fabsl((long double)x[0]);
            }
            if (b->key_bias) {
                s[j] += b->key_bias[j];
                terms += isinf(b->key_bias[j]) ? 0 : fabsl((long double)b->key_bias[j]);
            }
            if (b->pairs.bias) {
                const T addend = NAME(number_at)(&b->pairs, r, j);
                s[j] = addend < b->pairs.bound ? -INFINITY : s[j] + addend;
                terms += isinf(s[j]) ? 0 : fabsl((long double)addend);
            }
            if (b->pairs.flags && !b->pairs.flags[r * b->pairs.flags_ld + j]) s[j] = -INFINITY;
            top = fmaxl(top, s[j]);
            size = fmaxl(size, terms * per_tau);
        }
        const char *name = t->level->name;
        if (isinf(top)) {
            assert_true(isinf(b->row_max[r]) && b->row_max[r] < 0 && b->row_sum[r] == 0);
            for (int64_t w = 0; w < b->values_width; w++)
                assert_true(b->out[r * b->values_width + w] == 0);
            continue;
        }
        long double bound = UNIT * (8 + 4 * size);
        long double peak = fmaxl(top, b->sink);
        long double sum = isinf(b->sink) ? 0 : exp2l((b->sink - peak) * b->c);
        for (int64_t j = b->begin[r]; j < b->end[r]; j++) {
            s[j] = exp2l((s[j] - peak) * b->c);
            sum += s[j];
        }
        note(seen, fabsl(b->row_max[r] - peak) * per_tau, bound, "%s %s row_max", name, what);
        /* The sum is relative to the kernel's own maximum: compare the log-sum-exp. */
        note(seen, fabsl((b->row_max[r] - peak) * per_tau + logl(b->row_sum[r] / sum)), bound,
             "%s %s lse %ld keys", name, what, (long)t->key_count);
        long double mass = b->row_mass ? b->row_mass[r] : 1;
        for (int64_t w = 0; w < b->values_width; w++) {
            long double exact = 0, absolute = 0;
            for (int64_t j = b->begin[r]; j < b->end[r]; j++) {
                long double p = mass * s[j] / sum;
                exact += p * b->values[j * b->values_width + w];
                absolute += p * fabsl((long double)b->values[j * b->values_width + w]);
            }
            note(seen, fabsl(b->out[r * b->values_width + w] - exact), bound * absolute + TINY,
                 "%s %s %ld rows %ld keys %ld %ld", name, what, (long)b->rows, (long)t->key_count,
                 (long)b->width, (long)b->values_width);
        }
    }
    free(s);
    free(x);
}

/* Masks of pairs, the same for every row or not: flags for odd kinds, numbers of a type for those from 2 on; 0: none. Some rows and
 * tiles are shut, some open. */
static PAIRS NAME(draw_masks)(guards *all, dice *from, int64_t rows, int64_t keys, int kind,
                              ota_type type) {
    PAIRS pairs = {.bound = -(T)1e30, .bias_type = type};
    const bool of_keys = below(from, 3) == 0;
    const int64_t count = of_keys ? 1 : rows, ld = of_keys ? 0 : keys;
    unsigned char *flags = guarded(all, count * keys, 1);
    T *bias = NAME(normals)(all, from, count * keys, 1);
    for (int64_t k = 0; k < count * keys; k++) {
        const int64_t row = k / keys, tile = k % keys / OTA_KEY_TILE;
        const int64_t shape = (row / 6 + tile) % 3;
        flags[k] = (unsigned char)(shape == 0 ? 1 : shape == 1 ? 0 : below(from, 3));
        if (below(from, 5) == 0 || shape == 1) bias[k] = below(from, 2) ? (T)-INFINITY : (T)-1e31;
    }
    if (kind % 2) pairs.flags = flags, pairs.flags_ld = ld;
    if (kind >= 2) pairs.bias_ld = ld;
    if (kind >= 2 && type == TYPE) pairs.bias = bias;
    if (kind >= 2 && type != TYPE) {
        void *others = guarded(all, count * keys, ota_type_bytes(type));
        for (int64_t k = 0; k < count * keys; k++) number_set(others, type, k, (double)bias[k]);
        pairs.bias = others;
    }
    return pairs;
}

static void NAME(test_attend)(void **state) {
    (void)state;
    dice from = 8;
    worst seen = {0, ""};
    const int64_t rows_of[] = {1, 2, 5, 6, 7, 13, 47, 48};
    const int64_t keys_of[] = {1,  2,   3,   15,  16,  17,  63,   64,
                               65, 127, 128, 129, 193, 300, 1100, 2200};
    const int64_t widths[] = {64, 1, 0, 3, 16, 65, 130, 17};
    const int64_t values_widths[] = {64, 1, 3, 0, 65, 16, 33, 7, 100};
    const char *const kinds[] = {"plain", "bias", "negative", "terms", "sink", "mass", "sharp"};
    for (int level = 0; LEVELS[level]; level++) {
        for (int i = 0; i < 150; i++) {
            guards all = {.place = i % PLACES};
            const ota_kernels *kernels = LEVELS[level];
            int64_t keys = keys_of[i % 16];
            NAME(trial)
            t = NAME(trial_of)(&all, &from, kernels, keys > 1000 ? 7 : rows_of[i % 8], keys,
                               widths[i / 3 % 8], values_widths[i / 2 % 9]);
            int64_t *begin = (int64_t *)(uintptr_t)t.block.begin,
                    *end = (int64_t *)(uintptr_t)t.block.end;
            T *mass = NAME(room)(&all, t.block.rows), *bias = NAME(normals)(&all, &from, keys, 1);
            for (int64_t r = 0; r < t.block.rows; r++) {
                mass[r] = (T)uniform(&from);
                switch (i % 5) {
                case 1: end[r] = smaller_of(keys, r + 1); break; /* causal */
                case 2:
                    begin[r] = smaller_of(keys, r * 5), end[r] = smaller_of(keys, r * 5 + 20);
                    break;
                case 3:
                    begin[r] = below(&from, keys),
                    end[r] = begin[r] + below(&from, keys + 1 - begin[r]);
                    break;
                case 4:
                    begin[r] = keys / 2, end[r] = r % 3 ? keys : keys / 2;
                    break; /* some empty */
                default: break;
                }
            }
            int kind = i / 5 % 7;
            T factor = t.block.scale;
            if (kind == 1) t.block.key_bias = bias, bias[keys / 2] = (T)-INFINITY;
            if (kind == 2) t.block.scale = -t.block.scale;
            if (kind == 3) t.block.terms = NAME(square_term), t.block.terms_context = &factor;
            if (kind == 4) t.block.sink = (T)(3 * normal(&from));
            if (kind == 5) t.block.row_mass = mass;
            if (kind == 6) t.block.scale *= 20;
            const int masks = (int)below(&from, 4);
            t.block.pairs =
                NAME(draw_masks)(&all, &from, t.block.rows, keys, masks, number_type(i));
            kernels->TABLE->attend(&t.block);
            NAME(judge)(&t, &seen, kinds[kind]);
            release(&all);
        }
    }
    report(&seen, "LIT-01 LIT-15 TOT-01", __func__);
}

/* A row alone gives the bits it has in any block; powers of two on everything in units of S change
 * none; one key gives its value. */
static void NAME(test_attend_bits)(void **state) {
    (void)state;
    double different = 0;
    dice from = 9;
    for (int level = 0; LEVELS[level]; level++) {
        for (int i = 0; i < 24; i++) {
            guards all = {.place = i % PLACES};
            const ota_kernels *kernels = LEVELS[level];
            int64_t keys = i % 3 == 0 ? 1500 : 100 + i, width = 1 + i * 5, values_width = 1 + i * 3;
            NAME(trial) t = NAME(trial_of)(&all, &from, kernels, 48, keys, width, values_width);
            int64_t *begin = (int64_t *)(uintptr_t)t.block.begin,
                    *end = (int64_t *)(uintptr_t)t.block.end;
            T *bias = NAME(normals)(&all, &from, keys, 1);
            for (int64_t r = 0; r < 48; r++) {
                begin[r] = i % 2 ? below(&from, keys) : 0;
                end[r] = begin[r] + below(&from, keys + 1 - begin[r]);
                if (i % 6 == 5 && r % 2) begin[r] = 0, end[r] = 1;
            }
            if (i % 4 == 1) t.block.key_bias = bias;
            if (i % 4 == 2) t.block.sink = 1;
            if (i % 5 > 1) t.block.pairs = NAME(draw_masks)(&all, &from, 48, keys, i % 5 - 1, TYPE);
            /* A pair below the bound is forbidden by its -inf at any scale. */
            t.block.pairs.bound = -(T)INFINITY;
            kernels->TABLE->attend(&t.block);
            T *single = NAME(room)(&all, values_width);
            for (int64_t r = 0; r < 48; r++) {
                ATTEND one = t.block;
                T top, sum;
                one.rows = 1;
                one.queries += r * width;
                one.begin += r;
                one.end += r;
                if (one.pairs.flags) one.pairs.flags += r * one.pairs.flags_ld;
                if (one.pairs.bias)
                    one.pairs.bias = (const T *)one.pairs.bias + r * one.pairs.bias_ld;
                one.out = single;
                one.row_max = &top;
                one.row_sum = &sum;
                kernels->TABLE->attend(&one);
                different += !NAME(same)(single, t.block.out + r * values_width, values_width);
                assert_true(NAME(same)(&top, t.block.row_max + r, 1) &&
                            NAME(same)(&sum, t.block.row_sum + r, 1));
                if (end[r] == begin[r] + 1 && i % 4 != 2 && i % 5 < 2) {
                    assert_true(
                        NAME(same)(single, t.block.values + begin[r] * values_width, values_width));
                }
            }
            ATTEND scaled = t.block;
            scaled.out = NAME(room)(&all, 48 * values_width);
            scaled.row_max = NAME(room)(&all, 48);
            scaled.row_sum = NAME(room)(&all, 48);
            scaled.scale *= (T)0x1p9;
            scaled.c *= (T)0x1p-9;
            scaled.sink *= (T)0x1p9;
            for (int64_t j = 0; j < keys; j++) bias[j] *= (T)0x1p9;
            if (scaled.pairs.bias) {
                const int64_t count = scaled.pairs.bias_ld == 0 ? keys : 48 * keys;
                T *addends = (T *)(uintptr_t)scaled.pairs.bias;
                for (int64_t k = 0; k < count; k++) addends[k] *= (T)0x1p9;
            }
            kernels->TABLE->attend(&scaled);
            assert_true(NAME(same)(scaled.out, t.block.out, 48 * values_width));
            for (int64_t r = 0; r < 48; r++)
                assert_true(scaled.row_max[r] == t.block.row_max[r] * (T)0x1p9);
            release(&all);
        }
    }
    spec_check("TOT-20", different, 0.0);
}

/* What is not finite stays in its row, and what is masked has no effect. */
static void NAME(test_attend_poison)(void **state) {
    (void)state;
    dice from = 10;
    const T poisons[] = {(T)NAN, (T)INFINITY, (T)-INFINITY};
    for (int level = 0; LEVELS[level]; level++) {
        for (int i = 0; i < 36; i++) {
            guards all = {.place = i % PLACES};
            const ota_kernels *kernels = LEVELS[level];
            int64_t keys = i % 2 ? 200 : 70, width = 8, values_width = 20, at = below(&from, 48);
            NAME(trial) t = NAME(trial_of)(&all, &from, kernels, 48, keys, width, values_width);
            int64_t *begin = (int64_t *)(uintptr_t)t.block.begin,
                    *end = (int64_t *)(uintptr_t)t.block.end;
            T *before = NAME(room)(&all, 48 * values_width), *out = t.block.out;
            T *q = (T *)(uintptr_t)t.block.queries;
            if (i % 4 >= 2) t.block.scale = -t.block.scale;
            kernels->TABLE->attend(&t.block);
            memcpy(before, out, (size_t)(48 * values_width) * sizeof *out);
            T old = q[at * width + 3];
            q[at * width + 3] = poisons[i % 3];
            kernels->TABLE->attend(&t.block);
            for (int64_t r = 0; r < 48; r++) {
                if (r == at) {
                    assert_true(isnan(t.block.row_max[r]) && isnan(t.block.row_sum[r]));
                    for (int64_t w = 0; w < values_width; w++)
                        assert_true(isnan(out[r * values_width + w]));
                } else {
                    assert_true(NAME(same)(out + r * values_width, before + r * values_width,
                                           values_width));
                }
            }
            q[at * width + 3] = old;
            /* A key that only row `at` may use is poisoned: only that row knows. */
            int64_t key = below(&from, keys);
            for (int64_t r = 0; r < 48; r++)
                begin[r] = r % 2 ? key + 1 : 0, end[r] = r % 2 ? keys : key;
            kernels->TABLE->attend(&t.block);
            memcpy(before, out, (size_t)(48 * values_width) * sizeof *out);
            T *packed = (T *)(uintptr_t)t.block.packed_keys;
            packed[(key / OTA_PANEL * width + 2) * OTA_PANEL + key % OTA_PANEL] = poisons[i % 3];
            begin[at] = 0, end[at] = keys;
            kernels->TABLE->attend(&t.block);
            for (int64_t r = 0; r < 48; r++) {
                const T *row = out + r * values_width;
                if (r != at) assert_true(NAME(same)(row, before + r * values_width, values_width));
            }
            /* An infinite key element gives this row +inf or -inf, by the signs. */
            T product = poisons[i % 3] * q[at * width + 2] * t.block.scale;
            assert_true(isnan(out[at * values_width]) == !(product == (T)-INFINITY));
            release(&all);
        }
    }
}

/* All scores huge, all equal, far apart, and tiny temperatures: no NaN, weights as they must be. */
static void NAME(test_attend_range)(void **state) {
    (void)state;
    dice from = 11;
    worst seen = {0, ""};
    for (int level = 0; LEVELS[level]; level++) {
        for (int i = 0; i < 12; i++) {
            guards all = {.place = i % PLACES};
            const ota_kernels *kernels = LEVELS[level];
            NAME(trial) t = NAME(trial_of)(&all, &from, kernels, 9, 150, 4, 5);
            const T scales[] = {(T)1e4, 1, (T)1e-4, 80};
            t.block.scale = scales[i % 4];
            if (i >= 8) t.block.scale = -t.block.scale;
            kernels->TABLE->attend(&t.block);
            NAME(judge)(&t, &seen, "range");
            release(&all);
        }
        /* Differences of scores overflow, yet the temperature makes them matter. */
        guards all = {.place = PLACE_END};
        NAME(trial) t = NAME(trial_of)(&all, &from, LEVELS[level], 9, 150, 4, 5);
        t.block.scale = (T)((double)NAME(LARGEST) / 40);
        t.block.c = (T)(8 / (double)NAME(LARGEST));
        T *bias = NAME(room)(&all, 150);
        for (int j = 0; j < 150; j++) bias[j] = (T)((j % 3 - 1) * 0.9 * (double)NAME(LARGEST));
        for (int with = 0; with < 3; with++) {
            LEVELS[level]->TABLE->attend(&t.block);
            NAME(judge)(&t, &seen, "overflowing differences");
            t.block.scale = with == 0 ? -t.block.scale : (T)((double)NAME(LARGEST) / 4000);
            t.block.key_bias = with == 0 ? NULL : bias;
        }
        release(&all);
    }
    report(&seen, "LIT-01 LIT-23", __func__);
}

/* Many equal weights: a plain chain of f32 sums would drift by far more than the bound. */
static void NAME(test_attend_long)(void **state) {
    (void)state;
    dice from = 13;
    worst seen = {0, ""};
    for (int level = 0; LEVELS[level]; level++) {
        guards all = {.place = PLACE_END};
        NAME(trial) t = NAME(trial_of)(&all, &from, LEVELS[level], 2, 65536 + 77, 1, 2);
        T *values = (T *)(uintptr_t)t.block.values;
        for (int64_t j = 0; j < t.key_count; j++) values[2 * j] = (T)(1.0 / 3);
        t.block.scale = (T)0x1p-20;
        LEVELS[level]->TABLE->attend(&t.block);
        NAME(judge)(&t, &seen, "long");
        release(&all);
    }
    report(&seen, "LIT-01 LIT-15", __func__);
}

/* ---- packing -------------------------------------------------------------------------------- */

static void NAME(test_packing)(void **state) {
    (void)state;
    dice from = 12;
    const ota_type types[] = {OTA_F64, OTA_F32, OTA_BF16, OTA_F16};
    for (int i = 0; i < 4 * 8 * 3; i++) {
        guards all = {.place = i % PLACES};
        ota_type type = types[i % 4];
        const int64_t keys_of[] = {0, 1, 3, 63, 64, 65, 130, 67},
                      widths[] = {64, 1, 7, 130, 65, 0, 3, 16};
        int64_t keys = keys_of[i / 4 % 8], width = widths[i / 12 % 8];
        int64_t elements = 2 * 3 * keys * width;
        size_t bytes = type == OTA_F64 ? 8 : type == OTA_F32 ? 4 : 2;
        ota_array array = {guarded(&all, elements, bytes),
                           type,
                           {2, 3, keys, width},
                           {3 * keys * width, keys * width, width, 1}};
        if (i % 3 == 1) { /* columns apart by `keys`, rows by one, backwards */
            array.stride[2] = -1;
            array.stride[3] = keys;
            array.data = (char *)array.data + (keys > 0 ? keys - 1 : 0) * (int64_t)bytes;
        }
        ota_array flat = {array.data, type, {2, 3, keys, width}, {0, 0, 0, 0}};
        memcpy(flat.stride, array.stride, sizeof flat.stride);
        T *rows = NAME(normals)(&all, &from, keys * width, 1);
        for (int64_t j = 0; j < keys * width; j++)
            rows[j] = (T)(float)ota_f32_from_bf16(ota_bf16_from_f32((float)rows[j] * 4));
        if (type == OTA_F16) {
            for (int64_t j = 0; j < keys * width; j++)
                rows[j] = (T)ota_f32_from_f16(ota_f16_from_f32((float)rows[j]));
        }
        T *back = NAME(room)(&all, keys * width),
          *plain = NAME(room)(&all, ota_packed_length(keys, width));
        T *packed = NAME(room)(&all, ota_packed_length(keys, width));
        NAME(ota_unpack_rows)(&array, 1, 2, 0, keys, rows, width);
        NAME(ota_pack_rows)(&flat, 1, 2, 0, keys, back, width);
        assert_true(NAME(same)(rows, back, keys * width));
        NAME(pack)(rows, keys, width, plain);
        FOR_EACH_LEVEL(kernels) {
            NAME(ota_pack_keys)(kernels, &flat, 1, 2, keys, packed);
            assert_true(NAME(same)(plain, packed, ota_packed_length(keys, width)));
            assert_true(kernels->terms->is_finite(rows, keys * width));
            for (int64_t j = 0; j < keys * width; j += 1 + j / 7) {
                const T kept = rows[j];
                for (int k = 0; k < 3; k++) {
                    rows[j] = k == 0 ? (T)NAN : (k == 1 ? (T)INFINITY : (T)-INFINITY);
                    assert_true(!kernels->terms->is_finite(rows, keys * width));
                }
                rows[j] = kept;
            }
        }
        if (keys > 2) {
            NAME(ota_pack_rows)(&flat, 1, 2, 2, 1, back, width);
            assert_true(NAME(same)(rows + 2 * width, back, width));
        }
        release(&all);
    }
    /* Rounded once: half way between two bf16 lies above by less than f32 can see. */
    T value = (T)(1.00390625 + (sizeof(T) == 8 ? 0x1p-40 : 0x1p-23));
    uint16_t half;
    ota_array one = ota_array_of(&half, OTA_BF16, 1, 1, 1, 1);
    NAME(ota_unpack_rows)(&one, 0, 0, 0, 1, &value, 1);
    assert_int_equal(half, 0x3f81);
}

#undef NAME
#undef KERNELS
#undef ATTEND
#undef PAIRS
#undef LANES_OF
#undef FOR_EACH_LEVEL
