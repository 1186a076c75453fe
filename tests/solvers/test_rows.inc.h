/* Bodies of test_rows.c for one type T; NAME adds its suffix, UNIT is its rounding. */

typedef struct NAME(row) {
    T s[MOST], h[MOST], p[MOST];
    ota_row_found found;
} NAME(row);

/* Scores of which every seventh is forbidden, but never all of them. */
static void NAME(draw)(NAME(row) * x, dice *d, int64_t count) {
    for (int64_t j = 0; j < count; j++) {
        x->s[j] = (T)(j % 7 == 4 ? (double)-INFINITY : normal(d));
        x->h[j] = (T)(0.5 * normal(d));
    }
}

/* In long double, so that this sum's own rounding does not count. */
static double NAME(summed)(const T *p, int64_t count) {
    long double sum = 0.0L;
    for (int64_t j = 0; j < count; j++) sum += (long double)p[j];
    return (double)sum;
}

/* Weights and sink follow from f = found.potential; `given` holds biases or is NULL. */
static void NAME(follow)(const request *r, const NAME(row) * x, const T *given) {
    const double f = x->found.potential;
    double reach = 1.0 + fabs(f), worst = 0.0;
    for (int64_t j = 0; j < r->count; j++) {
        const double s = (double)x->s[j] + (given == NULL ? 0.0 : (double)given[j]);
        if (s > -INFINITY) reach = fmax(reach, fabs(s));
        if (!(s > -INFINITY))
            assert_true(!(x->p[j] > 0) && !(x->p[j] < 0));
        else
            worst = fmax(worst, apart(&r->parameters, (double)x->p[j], s + f));
    }
    /* Where a weight is a root of its argument, it moves by the root of its rounding. */
    const double rooted = r->parameters.order > 2.0 ? 0x1p-30 : 0.0;
    const double rounding = 16.0 * UNIT * (1.0 + reach / r->parameters.tau) + rooted;
    spec_check("LIT-11 LIT-01", worst, rounding);
    if (r->parameters.sink > -INFINITY) {
        spec_check("LIT-11", apart(&r->parameters, x->found.sink, r->parameters.sink + f),
                   rounding);
    } else {
        assert_true(!(x->found.sink > 0.0) && !(x->found.sink < 0.0));
    }
}

static double NAME(log_sum)(const request *r, const NAME(row) * x, const T *given) {
    double sum = r->parameters.sink > -INFINITY ? exp(r->parameters.sink / r->parameters.tau) : 0.0;
    for (int64_t j = 0; j < r->count; j++)
        sum +=
            exp(((double)x->s[j] + (given == NULL ? 0.0 : (double)given[j])) / r->parameters.tau);
    return log(sum);
}

/* Every parameters, with and without biases and sink; relaxed rows carry mu e^(-f / rho). */
static void NAME(test_solved)(void **state) {
    (void)state;
    for (int order = 0; order < ORDERS; order++) {
        for (int k = 0; k < 84; k++) {
            dice d = (uint64_t)(100 * order + k);
            request r = draw_request(&d, order, k);
            const bool relaxed = order == 0 && k % 8 == 5;
            if (relaxed) r.parameters.row_strength = 0.7;
            NAME(row) x;
            NAME(draw)(&x, &d, r.count);
            const T *given = k % 3 == 1 ? x.h : NULL;
            NAME(ota_row_solve)(&r.parameters, x.s, given, r.count, r.mu, x.p, &x.found);
            NAME(follow)(&r, &x, given);
            const double grown = relaxed ? -x.found.potential / 0.7 : 0.0;
            const double wanted = r.mu * exp(grown);
            spec_check("DER-26", fabs(x.found.mass + x.found.sink - wanted),
                       8 * 0x1p-53 * wanted * (1.0 + fabs(grown)));
            spec_check("DER-26", fabs(NAME(summed)(x.p, r.count) - x.found.mass),
                       8.0 * UNIT * wanted);
            if (order == 0) {
                spec_check("LIT-01", fabs(x.found.lse - NAME(log_sum)(&r, &x, given)),
                           16.0 * UNIT * (1.0 + fabs(x.found.lse)));
            }
            assert_false(x.found.empty || x.found.nonfinite || x.found.infeasible);
            /* In place the bits are the same. */
            ota_row_found again;
            T line[MOST];
            memcpy(line, x.s, sizeof line);
            NAME(ota_row_solve)(&r.parameters, line, given, r.count, r.mu, line, &again);
            assert_memory_equal(line, x.p, (size_t)r.count * sizeof(T));
        }
    }
}

/* Entmax as a list holds the keys of the row that have weight, in order. */
static void NAME(test_lists)(void **state) {
    (void)state;
    for (int order = 1; order < ORDERS && orders[order] > 1.0; order++) {
        for (int k = 0; k < 84; k++) {
            dice d = (uint64_t)(1000 + 100 * order + k);
            const request r = draw_request(&d, order, k);
            NAME(row) x;
            NAME(draw)(&x, &d, r.count);
            T kept[MOST + OTA_COMPACT_ROOM];
            int32_t where[MOST + OTA_COMPACT_ROOM];
            double wide[MOST + OTA_COMPACT_ROOM];
            const ota_row_room room = {.kept = kept, .where = where, .wide = wide};
            const int64_t got =
                NAME(ota_row_entmax)(&r.parameters, x.s, NULL, r.count, r.mu, &room, &x.found);
            memset(x.p, 0, sizeof x.p);
            for (int64_t i = 0; i < got; i++) {
                assert_true(kept[i] > 0 && (i == 0 || where[i] > where[i - 1]));
                x.p[where[i]] = kept[i];
            }
            NAME(follow)(&r, &x, NULL);
            spec_check("DER-26", fabs(x.found.mass + x.found.sink - r.mu), 8 * 0x1p-53 * r.mu);
            spec_check("DER-26", fabs(NAME(summed)(x.p, r.count) - x.found.mass),
                       4.0 * UNIT * r.mu);
            assert_int_equal(
                NAME(ota_row_entmax)(&r.parameters, x.s, NULL, r.count, 0.0, &room, &x.found), 0);
            assert_true(x.found.potential <= -INFINITY && !x.found.empty);
        }
    }
}

/* Is it the row of weights p, and are the keys below their caps first, then found.full at theirs, each part rising? In the worst case how far
 * weights are apart, in units of y. */
static double NAME(of_list)(const request *r, const NAME(row) * whole, const ota_row_room *room,
                            int64_t got, int64_t full) {
    const T *kept = room->kept;
    T p[MOST] = {0};
    double worst = 0.0;
    assert_true(full >= 0 && full <= got);
    for (int64_t i = 0; i < got; i++) {
        const int64_t j = room->where[i];
        const bool at_cap = kept[i] >= (T)ota_entry_cap(&r->parameters.caps, 0, j);
        assert_true(kept[i] > 0 && !(p[j] > 0) && at_cap == (i >= got - full));
        assert_true(i == 0 || i == got - full || j > room->where[i - 1]);
        p[j] = kept[i];
    }
    for (int64_t j = 0; j < r->count; j++)
        worst = fmax(worst, fabs(argument_of(&r->parameters, (double)p[j]) -
                                 argument_of(&r->parameters, (double)whole->p[j])));
    return worst;
}

/* Within caps the list is that of the whole row, whatever is said of its threshold. */
static void NAME(test_capped_lists)(void **state) {
    (void)state;
    static const double off[] = {0.0, 1.0e-7, -1.0e-3, 0.3, -40.0, (double)INFINITY, (double)NAN};
    enum { OFF = sizeof off / sizeof off[0] };
    int64_t lists = 0, at_caps = 0;
    for (int order = 1; order < ORDERS && orders[order] > 1.0; order++) {
        for (int k = 0; k < 84 * OFF; k++) {
            dice d = (uint64_t)(5000 + 1000 * order + k);
            request r = draw_request(&d, order, k % 84);
            double caps[MOST];
            NAME(row) x;
            NAME(draw)(&x, &d, r.count);
            const double share = (k % 4 == 0 ? 1.1 : 4.0) * r.mu / ((double)r.count * 0.8);
            for (int64_t j = 0; j < r.count; j++) caps[j] = share * (1.0 + 0.5 * fabs(normal(&d)));
            const ota_array array = ota_array_of(caps, OTA_F64, 1, 1, 1, r.count);
            r.parameters.regulariser = ota_regulariser_of(&(ota_problem){
                .regulariser = OTA_ENTMAX, .order = r.parameters.order, .entry_cap = 1.0});
            r.parameters.caps = (ota_entry_caps){.cap = share, .array = k % 3 == 0 ? NULL : &array};
            const T *given = k % 2 == 0 ? x.h : NULL;
            NAME(ota_row_solve)(&r.parameters, x.s, given, r.count, r.mu, x.p, &x.found);
            T kept[MOST + OTA_COMPACT_ROOM];
            int32_t where[MOST + OTA_COMPACT_ROOM], at_cap[MOST];
            double wide[MOST + OTA_COMPACT_ROOM], between[MOST], of_keys[MOST];
            const ota_row_room room = {kept, where, wide, between, of_keys, at_cap};
            const double threshold = off[k / 84] - x.found.potential;
            double reach = 1.0 + fabs(x.found.potential);
            ota_row_found found;
            r.parameters.threshold = &threshold;
            const int64_t got =
                NAME(ota_row_entmax)(&r.parameters, x.s, given, r.count, r.mu, &room, &found);
            for (int64_t j = 0; j < r.count; j++)
                if (x.s[j] > (T)-INFINITY) reach = fmax(reach, fabs((double)x.s[j]));
            const double rooted = r.parameters.order > 2.0 ? 0x1p-30 : 0.0;
            spec_check("LIT-11", NAME(of_list)(&r, &x, &room, got, found.full),
                       32.0 * UNIT * (1.0 + reach / r.parameters.tau) + rooted);
            lists += got < r.count - r.count / 7;
            at_caps += found.full;
        }
    }
    assert_true(lists > 100 && at_caps > 1000);
}

/* Long rows of which few, many or all keys have weight, at masses, temperatures and heights that leave the range of
 * REAL's own steps or not: the list is the one of the threshold found by halving in long double. */
static void NAME(test_long_lists)(void **state) {
    (void)state;
    enum { LONG = 500, CASES = 36 };
    const double subnormal = sizeof(T) == sizeof(float) ? 0x1p-149 : 0.0;
    static const double long_orders[] = {1.02, 1.1, 1.25, 1.3, 1.5, 1.75, 2.0, 1.4};
    static const double spreads[] = {0.02, 1.0, 6.0}, heights[] = {0.0, 3.0e3, -1.0e33};
    static const double long_masses[] = {1.0, 1.0e-41, 40.0, 1.0e30};
    T *s = malloc(LONG * sizeof *s), *kept = malloc((LONG + OTA_COMPACT_ROOM) * sizeof *kept);
    int32_t *where = malloc((LONG + OTA_COMPACT_ROOM) * sizeof *where);
    double *wide = malloc((LONG + OTA_COMPACT_ROOM) * sizeof *wide), worst = 0.0;
    assert_true(s != NULL && kept != NULL && where != NULL && wide != NULL);
    for (int k = 0; k < CASES * 8; k++) {
        dice d = (uint64_t)(9000 + k);
        const double order = long_orders[k % 8], mu = long_masses[k / 8 % 4];
        const double height = heights[k / 32 % 3];
        /* Spreads that rounding to T at that height leaves some digits. */
        const double size = fabs(height) > 1.0e9 ? 1.0e30 : 1.0;
        const int64_t count = k % 3 == 0 ? LONG : 70 + k % 60;
        ota_row_parameters parameters = {
            .kernels = ota_kernels_choose(k % 2 == 0 ? "portable" : NULL),
            .regulariser = regulariser_of(order),
            .order = order,
            .tau = size * (k % 5 == 0 ? 0.3 : 1.0),
            .sink = k % 7 == 0 ? height + size * normal(&d) : -INFINITY,
            .row_strength = INFINITY};
        double top = parameters.sink;
        for (int64_t j = 0; j < count; j++) {
            s[j] = (T)(height + size * spreads[k / 96 % 3] * normal(&d));
            if (j % 11 == 3) s[j] = (T)-INFINITY;
            top = fmax(top, (double)s[j]);
        }
        const ota_row_room room = {.kept = kept, .where = where, .wide = wide};
        ota_row_found found;
        const int64_t got = NAME(ota_row_entmax)(&parameters, s, NULL, count, mu, &room, &found);
        const long double rate = ((long double)order - 1) / parameters.tau;
        const long double p = 1 / ((long double)order - 1);
        /* Arguments x <= 0 and the threshold between -mu^(1/p) and 0. */
        long double low = -powl(mu, 1 / p), high = 0, sum = 0;
        for (int turn = 0; turn < 72; turn++) {
            const long double t = (low + high) / 2;
            sum = 0;
            for (int64_t j = -1; j < count; j++) {
                const long double x = ((j < 0 ? parameters.sink : (long double)s[j]) - top) * rate;
                if (x > t) sum += powl(x - t, p);
            }
            if (sum > mu)
                low = t;
            else
                high = t;
        }
        int64_t i = 0;
        for (int64_t j = 0; j < count; j++) {
            const long double y = ((long double)s[j] - top) * rate - low;
            const double weight = i < got && where[i] == j ? (double)kept[i++] : 0.0;
            const double exact = y > 0 ? (double)powl(y, p) : 0.0;
            /* In units of what one unit of the threshold changes. */
            const double reach = exact + (y > 0 ? (double)(p * exact / y * powl(mu, 1 / p)) : 0.0);
            worst = fmax(worst, fabs(weight - exact) / (UNIT * (reach + 0x1p-20 * mu) + subnormal));
        }
        assert_int_equal(i, got);
        spec_check("DER-26", fabs(found.mass + found.sink - mu), 8 * 0x1p-53 * mu);
    }
    print_message("  %.3f units\n", worst);
    spec_check("LIT-11 LIT-14", worst, 4.0);
    free(s);
    free(kept);
    free(where);
    free(wide);
}

/* Both potentials given, f no update's: the definition, without any sum to meet. */
static void NAME(test_given)(void **state) {
    (void)state;
    for (int order = 0; order < ORDERS; order++) {
        for (int k = 0; k < 84; k++) {
            dice d = (uint64_t)(2000 + 100 * order + k);
            const request r = draw_request(&d, order, k);
            NAME(row) x;
            NAME(draw)(&x, &d, r.count);
            const T *given = k % 3 == 1 ? x.h : NULL;
            double f = 0.4 * normal(&d);
            /* Orders below 1 know no potential at which a score would rise to 0. */
            double top = r.parameters.sink;
            for (int64_t j = 0; j < r.count; j++)
                top = fmax(top, (double)x.s[j] + (given == NULL ? 0.0 : (double)given[j]));
            if (r.parameters.order < 1.0) f = -top - 0.5 - fabs(f);
            NAME(ota_row_weights)(&r.parameters, x.s, given, r.count, f, x.p, &x.found);
            assert_true(x.found.potential >= f && x.found.potential <= f);
            if (order > 0) x.found.sink = weight_of(&r.parameters, r.parameters.sink + f);
            NAME(follow)(&r, &x, given);
            spec_check("DER-26", fabs(NAME(summed)(x.p, r.count) - x.found.mass),
                       8.0 * UNIT * x.found.mass);
            if (order == 0) {
                spec_check("LIT-01", fabs(x.found.lse - NAME(log_sum)(&r, &x, given)),
                           16.0 * UNIT * (1.0 + fabs(x.found.lse)));
            }
            NAME(ota_row_weights)(&r.parameters, x.s, given, r.count, -INFINITY, x.p, &x.found);
            for (int64_t j = 0; j < r.count; j++) assert_true(!(x.p[j] > 0) && !(x.p[j] < 0));
            assert_true(x.found.potential <= -INFINITY);
        }
    }
}

/* A weight of the caller's that never falls to 0: keys that are open have some, others and a sink that is
 * not there have nothing. */
static void NAME(test_custom)(void **state) {
    (void)state;
    const ota_custom custom = {.weight = floored, .slope = floored_slope};
    for (int k = 0; k < 84; k++) {
        dice d = (uint64_t)(4000 + k);
        request r = draw_request(&d, 0, k);
        r.parameters.regulariser = ota_regulariser_of(&(ota_problem){.regulariser = OTA_CUSTOM});
        r.parameters.custom = &custom;
        NAME(row) x;
        NAME(draw)(&x, &d, r.count);
        const T *given = k % 3 == 1 ? x.h : NULL;
        NAME(ota_row_solve)(&r.parameters, x.s, given, r.count, r.mu, x.p, &x.found);
        assert_false(x.found.infeasible || x.found.empty);
        const double f = x.found.potential, tau = r.parameters.tau;
        for (int64_t j = 0; j < r.count; j++) {
            const double s = (double)x.s[j] + (given == NULL ? 0.0 : (double)given[j]);
            const double want = s > -INFINITY ? floored(NULL, (s + f) / tau) : 0.0;
            spec_check("LIT-34", fabs((double)x.p[j] - want), (UNIT + 0x1p-46) * want);
        }
        const double sink =
            r.parameters.sink > -INFINITY ? floored(NULL, (r.parameters.sink + f) / tau) : 0.0;
        spec_check("LIT-34", fabs(x.found.sink - sink), 0x1p-46 * sink);
        spec_check("LIT-34", fabs(x.found.mass + x.found.sink - r.mu), 0x1p-46 * r.mu);
    }
}

/* All mass on the first largest key; a sink as large as it leaves it there, a larger one takes it. */
static void NAME(test_hard)(void **state) {
    (void)state;
    const T s[5] = {1, (T)-INFINITY, 3, 3, 2}, h[5] = {0, 0, 0, 1, (T)2.5};
    const double sinks[] = {-INFINITY, 3.0, 4.0, 5.0};
    for (int k = 0; k < 8; k++) {
        const bool lifted = k >= 4;
        const double sink = sinks[k % 4], top = lifted ? 4.5 : 3.0;
        const ota_row_parameters parameters = {.kernels = ota_kernels_choose(NULL),
                                               .regulariser = regulariser_of(0.0),
                                               .tau = 1.0,
                                               .sink = sink,
                                               .row_strength = INFINITY};
        const int64_t best = sink > top ? -1 : lifted ? 4 : 2;
        T p[5];
        ota_row_found found;
        NAME(ota_row_solve)(&parameters, s, lifted ? h : NULL, 5, 0.5, p, &found);
        for (int64_t j = 0; j < 5; j++) assert_true(p[j] == (j == best ? (T)0.5 : (T)0));
        assert_true(found.mass == (best < 0 ? 0.0 : 0.5) && found.sink == 0.5 - found.mass);
        assert_true(found.potential == -fmax(sink, top));
    }
}

/* What is left of each key caps its weight: min(remaining, w(s + f)), and is lowered by it. */
static void NAME(test_online)(void **state) {
    (void)state;
    for (int order = 0; order < ORDERS; order++) {
        for (int k = 0; k < 84; k++) {
            dice d = (uint64_t)(3000 + 100 * order + k);
            const request r = draw_request(&d, order, k);
            NAME(row) x;
            NAME(draw)(&x, &d, r.count);
            double before[MOST], remaining[MOST], scratch[MOST], room = 0.0;
            for (int64_t j = 0; j < r.count; j++) {
                before[j] = j % 5 == 3 ? 0.0 : (0.1 + uniform(&d)) * 4.0 * r.mu / (double)r.count;
                if (x.s[j] > (T)-INFINITY) room += before[j];
            }
            for (int64_t j = 0; j < r.count; j++)
                remaining[j] = before[j] *= fmax(1.0, 1.5 * r.mu / room);
            NAME(ota_row_online)
            (&r.parameters, x.s, r.count, r.mu, remaining, x.p, scratch, &x.found);
            assert_false(x.found.infeasible || x.found.empty || x.found.nonfinite);
            const double f = x.found.potential,
                         slack = 64 * 0x1p-53 * (4.0 + fabs(f)) / r.parameters.tau;
            double sum = x.found.sink, worst = 0.0;
            for (int64_t j = 0; j < r.count; j++) {
                const double s = (double)x.s[j], taken = before[j] - remaining[j];
                const bool full = !(remaining[j] > 0.0) && before[j] > 0.0;
                sum += taken;
                assert_true(remaining[j] >= 0.0 && taken >= 0.0);
                assert_true(fabs((double)x.p[j] - taken) <= (UNIT + 0x1p-51) * before[j]);
                if (!(s > -INFINITY) || !(before[j] > 0.0))
                    assert_true(!(taken > 0.0));
                else if (full)
                    assert_true(s + f >=
                                r.parameters.tau * (argument_of(&r.parameters, before[j]) - slack));
                else if (taken > 1e-6 * before[j])
                    worst = fmax(worst, apart(&r.parameters, taken, s + f));
            }
            /* before - remaining has lost what the weight was smaller by. */
            /* Softmax rows make their exponentials in T, of differences that are rounded to T, too. */
            double low = INFINITY, high = r.parameters.sink;
            for (int64_t j = 0; j < r.count; j++) {
                if (x.s[j] > (T)-INFINITY) low = fmin(low, (double)x.s[j]);
                high = fmax(high, (double)x.s[j]);
            }
            const double exponentials = r.parameters.regulariser->exponential
                                            ? UNIT * (4.0 + 2.0 * (high - low) / r.parameters.tau)
                                            : 0.0;
            spec_check("CETA-26", worst, slack + exponentials + 0x1p-30);
            spec_check("CETA-26", fabs(sum - r.mu), 64 * 0x1p-53 * r.mu);
            spec_check("CETA-26", fabs(x.found.mass + x.found.sink - r.mu), 16 * 0x1p-53 * r.mu);
            if (r.parameters.sink > -INFINITY && x.found.sink > 0.0)
                spec_check("CETA-26", apart(&r.parameters, x.found.sink, r.parameters.sink + f),
                           slack);
            spec_check("CETA-26", fabs(x.found.lse - NAME(log_sum)(&r, &x, NULL)),
                       64 * 0x1p-53 * (1.0 + fabs(x.found.lse)) + exponentials);
        }
    }
}

/* A row that takes exactly what is left fits, then a row without mass still does, but nothing else. */
static void NAME(test_used_up)(void **state) {
    (void)state;
    for (int order = -1; order < ORDERS; order++) {
        const ota_row_parameters parameters = {.kernels = ota_kernels_choose(NULL),
                                               .regulariser =
                                                   regulariser_of(order < 0 ? 0.0 : orders[order]),
                                               .order = order < 0 ? 0.0 : orders[order],
                                               .tau = 1.0,
                                               .sink = -INFINITY,
                                               .row_strength = INFINITY};
        const T s[4] = {1, 3, (T)-INFINITY, 2};
        double remaining[4] = {0.25, 0.5, 8.0, 0.25}, scratch[4];
        T p[4];
        ota_row_found found;
        NAME(ota_row_online)(&parameters, s, 4, 1.0, remaining, p, scratch, &found);
        assert_false(found.infeasible);
        assert_true(p[0] == (T)0.25 && p[1] == (T)0.5 && p[2] == (T)0 && p[3] == (T)0.25);
        assert_true(remaining[0] == 0.0 && remaining[1] == 0.0 && remaining[3] == 0.0);
        assert_true(remaining[2] == 8.0 && found.mass == 1.0 && found.sink == 0.0);
        NAME(ota_row_online)(&parameters, s, 4, 0.0, remaining, p, scratch, &found);
        assert_false(found.infeasible);
        for (int j = 0; j < 4; j++) assert_true(p[j] == (T)0);
        assert_true(found.mass == 0.0);
        NAME(ota_row_online)(&parameters, s, 4, 1e-3, remaining, p, scratch, &found);
        assert_true(found.infeasible);
        remaining[3] = 1e-3;
        NAME(ota_row_online)(&parameters, s, 4, 0.99e-3, remaining, p, scratch, &found);
        assert_false(found.infeasible);
        assert_true(p[3] == (T)0.99e-3 && fabs(remaining[3] - 1e-5) < 1e-18);
    }
}

/* Nothing to choose from, nothing to give, and what is no number. */
static void NAME(test_edges)(void **state) {
    (void)state;
    for (int order = -1; order < ORDERS; order++) {
        ota_row_parameters parameters = {.kernels = ota_kernels_choose(NULL),
                                         .regulariser =
                                             regulariser_of(order < 0 ? 0.0 : orders[order]),
                                         .order = order < 0 ? 0.0 : orders[order],
                                         .tau = 1.0,
                                         .sink = -INFINITY,
                                         .row_strength = INFINITY};
        T s[3] = {(T)-INFINITY, (T)-INFINITY, (T)-INFINITY}, p[3] = {1, 1, 1};
        ota_row_found found;
        NAME(ota_row_solve)(&parameters, s, NULL, 3, 1.0, p, &found);
        assert_true(found.empty && !found.nonfinite && found.potential <= -INFINITY);
        assert_true(found.lse <= -INFINITY && !(found.mass > 0.0));
        for (int j = 0; j < 3; j++) assert_true(p[j] == (T)0);
        parameters.sink = 0.5;
        NAME(ota_row_solve)(&parameters, s, NULL, 3, 0.75, p, &found);
        assert_true(!found.empty && fabs(found.sink - 0.75) < 1e-15 && !(found.mass > 0.0));
        parameters.sink = -INFINITY;
        s[1] = 2;
        NAME(ota_row_solve)(&parameters, s, NULL, 3, 0.0, p, &found);
        assert_true(!found.empty && !(found.mass > 0.0) && !(found.sink > 0.0));
        for (int j = 0; j < 3; j++) assert_true(p[j] == (T)0);
        if (order == 0) assert_true(found.lse == 2.0);
        if (order >= 0) assert_true(found.potential <= -INFINITY);
        for (int k = 0; k < 3; k++) {
            const double broken[] = {NAN, INFINITY, 0.0};
            s[0] = (T)broken[k];
            NAME(ota_row_solve)(&parameters, s, NULL, 3, k == 2 ? NAN : 1.0, p, &found);
            assert_true(found.nonfinite && isnan(found.potential) && isnan(found.mass));
            assert_true(isnan(found.lse) && isnan(found.sink) && !found.empty);
            for (int j = 0; j < 3; j++) assert_true(isnan(p[j]));
        }
    }
}
