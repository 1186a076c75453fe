/* Bodies of test_slopes.c for one type T; NAME adds its suffix, TABLE names the member of ota_kernels. */

/* Ends at a forbidden page, or begins behind one. */
static T *NAME(draw)(lender *l, dice *d, int64_t count, bool at_start) {
    T *x = lend(l, (size_t)count * sizeof(T), at_start);
    for (int64_t k = 0; k < count; k++) x[k] = (T)normal(d);
    return x;
}

static double NAME(away)(T got, long double want, long double size) {
    const long double away = fabsl((long double)got - want) / (UNIT * size + TINY);
    return isnan(away) ? (double)INFINITY : (double)away;
}

/* Weights of which a third are 0, some of those beside values that are not finite. */
static void NAME(test_rows)(void **state) {
    (void)state;
    static const double powers[] = {1.0, 0.5, 0.0, 0.75, -1.0};
    double worst = 0.0;
    FOR_EACH_LEVEL(kernels) for (int k = 0; k < COUNTS * 5; k++) {
        lender l = {.count = 0};
        dice d = {.state = (uint64_t)k * 31 + 7};
        const int64_t count = counts[k % COUNTS];
        const bool start = k % 2 == 1;
        const double power = powers[k / COUNTS];
        const T a = (T)0.3, rate = (T)1.7;
        T *p = NAME(draw)(&l, &d, count, start), *u = NAME(draw)(&l, &d, count, start);
        T *w = NAME(draw)(&l, &d, count, start);
        T *b = k % 3 == 0 ? NULL : NAME(draw)(&l, &d, count, start);
        T *before = malloc(((size_t)count + 1) * sizeof(T));
        assert_non_null(before);
        long double mean = 0, size = 0, total = 0;
        for (int64_t j = 0; j < count; j++) {
            p[j] = j % 3 == 2 ? (T)0 : (T)fabs((double)p[j]);
            if (j % 9 == 8) u[j] = (T)NAN;
            before[j] = u[j];
        }
        kernels->slope_weights(p, count, power, w);
        for (int64_t j = 0; j < count; j++) {
            const long double exact = p[j] > 0 ? powl((long double)p[j], power) : 0;
            worst = fmax(worst, NAME(away)(w[j], exact, 2 * exact));
            if (!(w[j] > 0)) continue;
            mean += w[j] * ((long double)u[j] - (b == NULL ? 0 : b[j]));
            size += w[j] * (fabsl(u[j]) + (b == NULL ? 0 : fabsl(b[j])));
            total += w[j];
        }
        double weight;
        const double found = kernels->slope_mean(w, u, b, count, &weight);
        worst = fmax(worst, NAME(away)((T)found, mean, 16 * size));
        worst = fmax(worst, NAME(away)((T)weight, total, 16 * total));
        kernels->slopes(w, b, count, a, rate, u);
        for (int64_t j = 0; j < count; j++) {
            const long double extra = b == NULL ? 0 : b[j], x = before[j];
            const long double exact = w[j] > 0 ? w[j] * (x - extra - a) * rate : 0;
            const long double reach = w[j] > 0 ? w[j] * (fabsl(x) + fabsl(extra) + a) * rate : 0;
            worst = fmax(worst, NAME(away)(u[j], exact, 4 * reach));
        }
        free(before);
        take_back(&l);
    }
    print_message("worst %.2g of the bound\n", worst);
    spec_check("DER-12", worst, 1.0);
}

static void NAME(test_turned)(void **state) {
    (void)state;
    double worst = 0.0;
    FOR_EACH_LEVEL(kernels) for (int k = 0; k < 24; k++) {
        static const int64_t heights[] = {1, 16, 63, 64, 65, 200}, widths[] = {64, 1, 17, 80};
        lender l = {.count = 0};
        dice d = {.state = (uint64_t)k * 31 + 7};
        const int64_t rows = heights[k % 6], keys = counts[k % COUNTS], width = widths[k % 4];
        const bool start = k % 2 == 1;
        T *p = NAME(draw)(&l, &d, rows * keys, start), *x = NAME(draw)(&l, &d, rows * width, start);
        T *out = NAME(draw)(&l, &d, keys * width, start);
        T *before = malloc((size_t)(keys * width + 1) * sizeof(T));
        assert_non_null(before);
        memcpy(before, out, (size_t)(keys * width) * sizeof(T));
        kernels->apply_turned(p, keys, x, rows, keys, width, out);
        for (int64_t j = 0; j < keys; j++) {
            for (int64_t w = 0; w < width; w++) {
                long double exact = before[j * width + w], size = fabsl(exact);
                for (int64_t i = 0; i < rows; i++) {
                    const long double term = (long double)p[i * keys + j] * x[i * width + w];
                    exact += term;
                    size += fabsl(term);
                }
                worst = fmax(worst, NAME(away)(out[j * width + w], exact, 68 * size));
            }
        }
        free(before);
        take_back(&l);
    }
    print_message("worst %.2g of the bound\n", worst);
    spec_check("DER-12", worst, 1.0);
}

static void NAME(test_lists)(void **state) {
    (void)state;
    double worst = 0.0;
    FOR_EACH_LEVEL(kernels) for (int k = 0; k < COUNTS * 4; k++) {
        static const int64_t widths[] = {64, 1, 17, 80};
        lender l = {.count = 0};
        dice d = {.state = (uint64_t)k * 31 + 7};
        const int64_t keys = counts[k % COUNTS], width = widths[k / COUNTS], count = (keys + 2) / 3;
        const bool start = k % 2 == 1;
        T *v = NAME(draw)(&l, &d, keys * width, start), *q = NAME(draw)(&l, &d, width, start);
        T *p = NAME(draw)(&l, &d, count, start), *s = NAME(draw)(&l, &d, count, start);
        int32_t *where = lend(&l, (size_t)count * sizeof *where, start);
        double *out = lend(&l, (size_t)(keys * width) * sizeof *out, start);
        for (int64_t i = 0; i < count; i++) where[i] = (int32_t)(3 * i);
        for (int64_t i = 0; i < keys * width; i++) out[i] = 0.25;
        kernels->dots_kept(q, where, count, v, width, width, s);
        kernels->spread_kept(p, where, count, q, width, out);
        for (int64_t j = 0; j < keys; j++) {
            long double exact = 0, size = 0;
            for (int64_t w = 0; w < width; w++) {
                exact += (long double)q[w] * v[j * width + w];
                size += fabsl((long double)q[w] * v[j * width + w]);
                const long double part = j % 3 == 0 ? (long double)p[j / 3] * q[w] : 0;
                worst = fmax(worst, NAME(away)((T)(out[j * width + w] - 0.25), part,
                                               4 * (fabsl(part) + 0.25L * (j % 3 == 0))));
            }
            if (j % 3 == 0) worst = fmax(worst, NAME(away)(s[j / 3], exact, 64 * size));
        }
        take_back(&l);
    }
    print_message("worst %.2g of the bound\n", worst);
    spec_check("DER-12", worst, 1.0);
}
