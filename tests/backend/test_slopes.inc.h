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
        dice d = (uint64_t)k * 31 + 7;
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
        dice d = (uint64_t)k * 31 + 7;
        const int64_t rows = heights[k % 6], keys = counts[k % COUNTS], width = widths[k % 4];
        const bool start = k % 2 == 1;
        T *p = NAME(draw)(&l, &d, rows * keys, start), *x = NAME(draw)(&l, &d, rows * width, start);
        T *out = NAME(draw)(&l, &d, keys * width, start);
        T *before = malloc((size_t)(keys * width + 1) * sizeof(T));
        assert_non_null(before);
        memcpy(before, out, (size_t)(keys * width) * sizeof(T));
        kernels->gemm_tn(p, keys, x, rows, keys, width, out);
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
        dice d = (uint64_t)k * 31 + 7;
        const int64_t keys = counts[k % COUNTS], width = widths[k / COUNTS], count = (keys + 2) / 3;
        const bool start = k % 2 == 1;
        T *v = NAME(draw)(&l, &d, keys * width, start), *q = NAME(draw)(&l, &d, width, start);
        T *p = NAME(draw)(&l, &d, count, start), *s = NAME(draw)(&l, &d, count, start);
        int32_t *where = lend(&l, (size_t)count * sizeof *where, start);
        double *out = lend(&l, (size_t)(keys * width) * sizeof *out, start);
        for (int64_t i = 0; i < count; i++) where[i] = (int32_t)(3 * i);
        for (int64_t i = 0; i < keys * width; i++) out[i] = 0.25;
        kernels->gather_dot(q, where, count, v, width, width, s);
        kernels->scatter_add(p, where, count, q, width, out);
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

/* Sums in f64 whatever T is: the bound is that of f64. */
static double NAME(apart)(double got, long double want, long double size) {
    const long double away = fabsl((long double)got - want) / (0x1p-53L * size + 0x1p-1000L);
    return isnan(away) ? (double)INFINITY : (double)away;
}

/* Products and sums are in f64 whatever T is, and of the same bits at every level. */
static void NAME(test_dots)(void **state) {
    (void)state;
    double worst = 0.0;
    FOR_EACH_LEVEL(kernels) for (int k = 0; k < COUNTS * 2; k++) {
        lender l = {.count = 0};
        dice d = (uint64_t)k * 41 + 3;
        const int64_t count = counts[k % COUNTS];
        const T *x = NAME(draw)(&l, &d, count, k % 2 == 0), *y = NAME(draw)(&l, &d, count, true);
        long double sum = 0, reach = 0;
        for (int64_t j = 0; j < count; j++) {
            const long double term = (long double)x[j] * (long double)y[j];
            sum += term;
            reach += fabsl(term);
        }
        const double found = kernels->terms->row_dot(x, y, count);
        const double plain = ota_kernels_row(0)->TABLE->terms->row_dot(x, y, count);
        assert_memory_equal(&found, &plain, sizeof found);
        worst = fmax(worst, NAME(apart)(found, sum, 100 * reach));
        take_back(&l);
    }
    print_message("worst %.2g of the bound\n", worst);
    spec_check("DER-13", worst, 1.0);
}

static void NAME(test_system)(void **state) {
    (void)state;
    double worst = 0.0;
    FOR_EACH_LEVEL(kernels) for (int k = 0; k < COUNTS * 4; k++) {
        static const int64_t heights[] = {1, 2, 7, 40};
        lender l = {.count = 0};
        dice d = (uint64_t)k * 31 + 7;
        const int64_t rows = heights[k / COUNTS], columns = counts[k % COUNTS];
        const bool start = k % 2 == 1;
        T *w = NAME(draw)(&l, &d, rows * columns, start);
        T *u = NAME(draw)(&l, &d, rows * columns, start);
        double *x = lend(&l, (size_t)columns * sizeof *x, start);
        double *out[6];
        for (int q = 0; q < 6; q++)
            out[q] = lend(&l, (size_t)(q < 2 ? rows : columns) * sizeof(double), start);
        double *den = out[0], *mean = out[1], *right = out[2], *size = out[3], *weight = out[4];
        double *diagonal = out[5], *y = lend(&l, (size_t)columns * sizeof *y, start);
        for (int64_t e = 0; e < rows * columns; e++) {
            w[e] = e % 3 == 2 ? (T)0 : (T)fabs((double)w[e]);
            if (e % 9 == 8) u[e] = (T)NAN;
        }
        for (int64_t j = 0; j < columns; j++) {
            x[j] = normal(&d);
            right[j] = size[j] = weight[j] = diagonal[j] = y[j] = 0.5;
        }
        for (int64_t i = 0; i < rows; i++) {
            long double total = 0, sum = 0, reach = 0;
            for (int64_t j = 0; j < columns; j++) {
                const T slope = w[i * columns + j];
                total += slope;
                if (!(slope > 0)) continue;
                sum += (long double)slope * u[i * columns + j];
                reach += fabsl((long double)slope * u[i * columns + j]);
            }
            double found;
            const double got =
                kernels->slope_sums(w + i * columns, u + i * columns, columns, &found);
            worst = fmax(worst, NAME(apart)(got, sum, 100 * reach));
            worst = fmax(worst, NAME(apart)(found, total, 100 * total));
            /* A row that carries nothing adds nothing. */
            den[i] = i % 5 == 3 ? 0.0 : found + 1.0;
            mean[i] = got / (found + 1.0);
        }
        kernels->slope_columns(&(OPERANDS(slopes)){.w = w,
                                                   .ldw = columns,
                                                   .u = u,
                                                   .ldu = columns,
                                                   .rows = rows,
                                                   .columns = columns,
                                                   .mean = mean,
                                                   .share = 0.25,
                                                   .right = right,
                                                   .size = size});
        kernels->slope_diagonal(w, columns, rows, columns, den, weight, diagonal);
        for (int64_t j = 0; j < columns; j++) {
            long double wanted[4] = {0.5L, 0.5L, 0.5L, 0.5L}, most = 0.5L;
            for (int64_t i = 0; i < rows; i++) {
                const long double slope = w[i * columns + j], value = u[i * columns + j];
                if (!(slope > 0)) continue;
                wanted[0] += slope * (value - (long double)mean[i]);
                wanted[1] += slope * (fabsl(value - (long double)mean[i]) + 0.25L * fabsl(value));
                most += slope * (2 + 2 * fabsl(value) + fabsl((long double)mean[i]));
                if (!(den[i] > 0.0)) continue;
                wanted[2] += slope;
                wanted[3] += slope * (1 - slope / (long double)den[i]);
            }
            const double got[] = {right[j], size[j], weight[j], diagonal[j]};
            for (int q = 0; q < 4; q++)
                worst = fmax(worst, NAME(apart)(got[q], wanted[q], 100 * most));
        }
        kernels->centred_product(w, columns, rows, columns, x, den, mean, y);
        /* The oldest level's bits. */
        double other[40] = {0}, *image = malloc((size_t)columns * sizeof *image);
        assert_non_null(image);
        for (int64_t j = 0; j < columns; j++) image[j] = 0.5;
        ota_kernels_row(0)->TABLE->centred_product(w, columns, rows, columns, x, den, other, image);
        assert_memory_equal(mean, other, (size_t)rows * sizeof *mean);
        assert_memory_equal(y, image, (size_t)columns * sizeof *y);
        free(image);
        for (int64_t i = 0; i < rows; i++) {
            long double sum = 0, reach = 0;
            for (int64_t j = 0; j < columns && den[i] > 0.0; j++) {
                const long double term = (long double)w[i * columns + j] * (long double)x[j];
                sum += term / (long double)den[i];
                reach += fabsl(term) / (long double)den[i];
            }
            worst = fmax(worst, NAME(apart)(mean[i], sum, 100 * reach));
        }
        for (int64_t j = 0; j < columns; j++) {
            long double sum = 0.5L, reach = 0.5L;
            for (int64_t i = 0; i < rows; i++) {
                if (!(den[i] > 0.0)) continue;
                const long double slope = w[i * columns + j];
                sum += slope * ((long double)x[j] - (long double)mean[i]);
                reach += slope * (fabsl((long double)x[j]) + fabsl((long double)mean[i]));
            }
            worst = fmax(worst, NAME(apart)(y[j], sum, 100 * reach));
        }
        take_back(&l);
    }
    print_message("worst %.2g of the bound\n", worst);
    spec_check("DER-13", worst, 1.0);
}
