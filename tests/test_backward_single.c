/* test_backward_single.c: gradients in f32 against the same problem in f64, element by element within
 * u M (32 + 8 B) of numeric policy 3.3; of M = w (|U| + |a| + |b|) / tau only w, tau and the largest |U| of
 * the head are known outside, and |a| + |b| <= 3 max |U|. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backward_support.h"
#include "spec.h"

static void copy_into(const ota_array *to, const ota_array *from) {
    for (int64_t b = 0; b < to->size[0]; b++) {
        for (int64_t h = 0; h < to->size[1]; h++) {
            for (int64_t i = 0; i < to->size[2]; i++) {
                for (int64_t j = 0; j < to->size[3]; j++)
                    ota_array_set(to, b, h, i, j, ota_array_get(from, b, h, i, j));
            }
        }
    }
}

static void solve_both(bench *t) {
    t->x.options.tolerance = 1e-9;
    ota_status status = make_plan(t);
    if (status == OTA_OK) status = run_forward(t);
    if (status >= OTA_OK) status = run_backward(t);
    if (status == OTA_OK) return;
    print_error("%d: %s\n", (int)status, t->x.error.message);
    print_recipe(&t->x);
    fail();
}

/* How far w = y^((2 - alpha) / (alpha - 1)), y = p^(alpha - 1), moves when y does by what rounding moves scores:
 * relative to w for entropy, absolute for Tsallis, as for the weights in tolerance.h. */
static double slope_slack(double order, double p, double growth) {
    if (order <= 1.0 || !(p > 0.0)) return 0.0;
    const double power = (2.0 - order) / (order - 1.0), y = pow(p, order - 1.0);
    const double step = (order - 1.0) * unit_roundoff(OTA_F32) * growth;
    return pow(y + step, power) - (y > step ? pow(y - step, power) : 0.0);
}

/* Largest error of dL/dS in units of the bound. */
static double compare(const bench *narrow, const bench *wide, double order) {
    const recipe *w = &narrow->x.want;
    const double u = unit_roundoff(OTA_F32), tau = w->temperature;
    const double scale = 1.0 / sqrt((double)w->width);
    const bool prefix = strstr(w->method, "/prefix") != NULL;
    double worst = 0.0;
    for (int64_t b = 0; b < w->batch; b++) {
        for (int64_t h = 0; h < w->heads; h++) {
            double top = 0.0;
            for (int64_t i = 0; i < w->n; i++) {
                for (int64_t j = 0; j < w->m; j++) {
                    double size = fabs(ota_array_get(&wide->want.coupling_grad, b, h, i, j));
                    for (int64_t q = 0; q < w->values_width; q++)
                        size += fabs(ota_array_get(&wide->want.out_grad, b, h, i, q) *
                                     ota_array_get(&wide->x.arrays.values, b, h, j, q));
                    top = fmax(top, size);
                }
            }
            for (int64_t i = 0; i < w->n; i++) {
                double bound = 0.0;
                for (int64_t j = 0; j < w->m; j++) {
                    double large = 0.0;
                    for (int64_t q = 0; q < w->width; q++)
                        large += fabs(ota_array_get(&wide->x.problem.queries, b, h, i, q) *
                                      ota_array_get(&wide->x.problem.keys, b, h, j, q));
                    bound = fmax(bound, scale * large / tau);
                }
                /* The row's mean moves with every slope. */
                double moved = 0.0, total = 0.0;
                for (int64_t j = 0; j < w->m; j++) {
                    const double p = ota_array_get(&wide->x.arrays.coupling, b, h, i, j);
                    moved += slope_slack(order, p, gradient_growth(bound));
                    total += p > 0.0 ? pow(p, 2.0 - order) : 0.0;
                }
                for (int64_t j = 0; j < w->m; j++) {
                    const double p = ota_array_get(&wide->x.arrays.coupling, b, h, i, j);
                    const double got = ota_array_get(&narrow->want.scores, b, h, i, j);
                    const double want = ota_array_get(&wide->want.scores, b, h, i, j);
                    /* The gradient of a prefix row reaches rows of other blocks, with their weights. */
                    const double slope = prefix ? 1.0 : p > 0.0 ? pow(p, 2.0 - order) : 0.0;
                    const double wobble = slope_slack(order, p, gradient_growth(bound)) +
                                          (total > 0.0 ? slope * moved / total : 0.0);
                    const double slack =
                        (u * gradient_growth(bound) * slope + wobble) * 4.0 * top / tau +
                        storing(OTA_F32, want);
                    /* A weight at the edge of the support may lie on either side of it. */
                    if (order > 1.0 && pow(p, order - 1.0) < 16.0 * u * (1.0 + bound)) continue;
                    worst = fmax(worst, fabs(got - want) / slack);
                }
            }
        }
    }
    return worst;
}

static void test_single_against_double(void **state) {
    (void)state;
    static const struct {
        const char *ids, *method;
        double order;
    } rows[] = {{"LIT-17 LIT-21", "softmax", 1.0},
                {"DER-12", "entmax:1.5", 1.5},
                {"DER-12", "sparsemax", 2.0},
                {"DER-13", "softmax/exact", 1.0},
                {"DER-14", "softmax/relaxed:.7", 1.0},
                {"DER-14", "softmax/capped:1.3", 1.0},
                {"DER-14", "softmax/prefix", 1.0},
                {"DER-15", "softmax/elastic:.4,3", 1.0},
                {"DER-12", "softmax/online:1.5", 1.0},
                {"DER-14", "entmax:1.5/exact", 1.5},
                {"DER-14", "entmax:1.5/relaxed:.7", 1.5},
                {"DER-14", "sparsemax/capped:1.4", 2.0}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        double worst = 0.0;
        for (uint64_t seed = 1; seed <= 4; seed++) {
            bench *narrow = malloc(sizeof *narrow), *wide = malloc(sizeof *wide);
            assert_non_null(narrow);
            assert_non_null(wide);
            const recipe w = {.method = rows[k].method,
                              .type = OTA_F32,
                              .out_type = OTA_F32,
                              .batch = 1,
                              .heads = 2,
                              .key_heads = 2,
                              .n = 12,
                              .m = 19,
                              .width = 8,
                              .values_width = 5,
                              .temperature = 0.9,
                              .spread = 1.0,
                              .seed = seed};
            set_up(narrow, &w, OTA_F32, true);
            set_up(wide, &w, OTA_F64, true);
            widen(wide, &wide->x.problem.queries);
            widen(wide, &wide->x.problem.keys);
            widen(wide, &wide->x.arrays.values);
            copy_into(&wide->want.out_grad, &narrow->want.out_grad);
            copy_into(&wide->want.coupling_grad, &narrow->want.coupling_grad);
            wide->want.queries = wide->want.keys = wide->want.values = (ota_array){0};
            solve_both(narrow);
            solve_both(wide);
            worst = fmax(worst, compare(narrow, wide, rows[k].order));
            tear_down(narrow);
            tear_down(wide);
            free(narrow);
            free(wide);
        }
        print_message("%s: %.2g of the bound\n", rows[k].method, worst);
        spec_check(rows[k].ids, worst, 1.0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_single_against_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
