/* test_columns.c: the rows of the table of column rules (columns.h) against their definitions. With T the target of a key,
 * L = log c - g / t of a key whose sum is c:
 *
 *     wanted sum met      residual(c) = 0 and g' = g, the sum being  T;  T exp(-g / rho) relaxed;  <= T capped
 *     floor and ceiling   g' = 0 clamped into [update to floor T, update to T], the rule floor T <= c <= T
 *     diagonal            t d(-wanted) / dg */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "columns/columns.h"
#include "draw/random.h"
#include "groups.h"
#include "spec.h"

static dice dice_state;

enum { CASES = 200 };

static const ota_column_rule coupled[] = {OTA_COLUMNS_EXACT, OTA_COLUMNS_RELAXED,
                                          OTA_COLUMNS_CAPPED, OTA_COLUMNS_ELASTIC,
                                          OTA_COLUMNS_BOUNDED};
enum { COUPLED = sizeof coupled / sizeof coupled[0] };

/* What the table says of each rule. */
static void facts(void **unused) {
    (void)unused;
    static const char *const names[] = {"free",    "exact",  "relaxed", "capped",
                                        "elastic", "prefix", "online",  "bounded"};
    for (int k = 0; k <= OTA_COLUMNS_BOUNDED; k++) {
        const ota_column_rule_row *rule = ota_column_rule_of((ota_column_rule)k);
        assert_string_equal(rule->name, names[k]);
        const bool potentials = rule->coupling == OTA_COUPLING_POTENTIALS;
        assert_true((rule->step != NULL) == potentials && (rule->residual != NULL) == potentials);
        assert_true(!ota_rule_is(rule, OTA_RULE_BALANCED) || ota_rule_is(rule, OTA_RULE_EQUALITY));
        assert_true(rule->interior == NULL ||
                    (rule->interior->part != NULL && rule->interior->move != NULL));
        assert_true((rule->kink != NULL) == (potentials && ota_rule_is(rule, OTA_RULE_CAPACITY)));
    }
}

/* A key whose sum is what its rule asks for stays where it is, and its residual is 0. */
static void fixed_points(void **unused) {
    (void)unused;
    dice_state = 1;
    for (int k = 0; k < CASES * COUPLED; k++) {
        const ota_column_rule_row *rule = ota_column_rule_of(coupled[k % COUPLED]);
        const ota_column_parameters key = {.strength = 0.2 + uniform(&dice_state),
                                           .lambda = 1.9 * uniform(&dice_state)};
        const double t = 0.1 + uniform(&dice_state), target = 0.1 + uniform(&dice_state);
        const double g = ota_rule_is(rule, OTA_RULE_CAPACITY) ? -uniform(&dice_state)
                                                              : uniform(&dice_state) - 0.5;
        double c = rule->wanted != NULL ? rule->wanted(target, g, key.strength) : target;
        const double next = ota_column_next(rule->step(&key, t), t, g, log(target / c) + g / t);
        spec_check("DER-01 DER-02 ELA-09", fabs(next - g), 1e-15);
        ota_column_sums columns = {
            .count = 1, .sum = &c, .target = &target, .g = &g, .parameters = key};
        spec_check("DER-27", rule->residual(&columns), 1e-15);
        c += 0.1;
        spec_check("DER-27", fabs(rule->residual(&columns) - 0.1), 1e-15);
        if (rule->excess != NULL) spec_check("DER-27", fabs(rule->excess(&columns) - 0.1), 1e-15);
        c -= 0.15;
        spec_check("DER-27", fabs(rule->residual(&columns) - 0.05), 1e-15);
        if (rule->excess != NULL) assert_true(!(rule->excess(&columns) > 0.0));
        /* The same sum as a scaling times what it scales. */
        const double v = 0.3, part = c / v;
        const double before = rule->residual(&columns);
        columns.sum = &part;
        columns.scaling = &v;
        spec_check("DER-27", fabs(rule->residual(&columns) - before), 1e-15);
        if (rule->diagonal == NULL) continue;
        const double h = 1e-5, slope = (rule->wanted(target, g - h, key.strength) -
                                        rule->wanted(target, g + h, key.strength)) /
                                       (2.0 * h);
        spec_check("DER-11",
                   fabs(rule->diagonal(target, g, key.strength, t) - t * slope) / (1.0 + slope),
                   1e-8);
    }
}

/* A capacity leaves g = 0 to keys with room, and holds them there. */
static void capacities(void **unused) {
    (void)unused;
    const ota_column_rule_row *rule = ota_column_rule_of(OTA_COLUMNS_CAPPED);
    const ota_column_parameters key = {0};
    assert_true(ota_column_next(rule->step(&key, 0.5), 0.5, -1.0, 0.2) == 0.0);
    assert_true(ota_column_project(rule, 0.2) == 0.0 && ota_column_project(rule, -0.2) == -0.2);
    const ota_column_kink kink = rule->kink(&key, 1.5);
    assert_true(kink.at == 0.0 && kink.below == 1.5 && kink.above == -INFINITY);
    assert_true(ota_column_rests(rule, &key, 0.0) && !ota_column_rests(rule, &key, -0.1));
    const double sum = 0.5, target = 1.0, full = -0.1, open = 0.0;
    ota_column_sums columns = {.count = 1, .sum = &sum, .target = &target, .g = &full};
    assert_true(rule->residual(&columns) == 0.5 && rule->excess(&columns) == 0.0);
    columns.g = &open;
    assert_true(rule->residual(&columns) == 0.0);
}

/* A key with a price must be full and one with a reward at its least, wherever its sum is. */
static void prices_of_bounds(void **unused) {
    (void)unused;
    static const struct {
        double sum, g, residual;
    } keys[] = {{0.25 - 1e-10, -0.1, 0.75 + 1e-10},
                {0.6, -0.1, 0.4},
                {1.1, -0.1, 0.1},
                {1.0 + 1e-10, 0.1, 0.75 + 1e-10},
                {0.6, 0.1, 0.35},
                {0.2, 0.1, 0.05},
                {0.6, 0.0, 0.0},
                {1.1, 0.0, 0.1},
                {0.2, 0.0, 0.05}};
    const ota_column_rule_row *rule = ota_column_rule_of(OTA_COLUMNS_BOUNDED);
    const double target = 1.0;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        const ota_column_sums columns = {.count = 1,
                                         .sum = &keys[k].sum,
                                         .target = &target,
                                         .g = &keys[k].g,
                                         .parameters = {.floor = 0.25}};
        spec_check("DER-27", fabs(rule->residual(&columns) - keys[k].residual), 1e-15);
    }
}

/* Sums between floor T and T: g is 0 inside, lowers a sum above T and raises one below floor T. */
static void floors(void **unused) {
    (void)unused;
    dice_state = 2;
    for (int k = 0; k < CASES; k++) {
        const double t = 0.1 + uniform(&dice_state),
                     floor = k % 10 == 0 ? 0.0 : uniform(&dice_state);
        const double log_ratio = 3.0 * (uniform(&dice_state) - 0.5);
        const ota_column_step update = {.decay = 1.0, .step = 1.0, .floor = floor, .ceiling = 0.0};
        const double high = t * log_ratio, low = t * (log_ratio + log(floor));
        const double wanted = high < 0.0 ? high : low > 0.0 ? low : 0.0;
        const double found = ota_column_next(update, t, uniform(&dice_state) - 0.5, log_ratio);
        assert_true(fabs(found - wanted) <= 1e-15);
        assert_true(ota_column_step_divides(update));
        assert_true(ota_column_moves(update, found) == (found < 0.0 || found > 0.0));
        /* Over-relaxed it ends on the same side of 0. */
        const double g = uniform(&dice_state) - 0.5, moved = -0.4 * g + 1.4 * found;
        const double side = found > 0.0 ? fmax(moved, 0.0) : fmin(moved, 0.0);
        assert_true(fabs(ota_column_relax(update, 1.4, g, found) - side) <= 1e-15);
    }
    /* A floor of 1 is an equality, whatever its ceiling. */
    const ota_column_step equal = {.decay = 1.0, .step = 1.0, .floor = 1.0, .ceiling = 0.0};
    assert_true(fabs(ota_column_next(equal, 0.5, 0.1, 0.7) - 0.35) <= 1e-16);
}

/* Of s (-g) = beta, and of c = T exp(-g / rho): a step of Newton's method on either, solved for the key's own unknown. */
static void interior_points(void **unused) {
    (void)unused;
    dice_state = 3;
    for (int k = 0; k < CASES; k++) {
        const bool capped = k % 2 == 0;
        const ota_column_rule_row *rule =
            ota_column_rule_of(capped ? OTA_COLUMNS_CAPPED : OTA_COLUMNS_RELAXED);
        ota_interior_key key = {.own = 0.1 + uniform(&dice_state),
                                .g = -0.1 - uniform(&dice_state),
                                .target = 0.1 + uniform(&dice_state),
                                .parameters = {.strength = 0.3 + uniform(&dice_state)},
                                .step = uniform(&dice_state) - 0.5,
                                .beta = 0.1 * uniform(&dice_state)};
        double diagonal, limit = 1.0, product = 0.0, complement = 0.0;
        const double part = rule->interior->part(&key, false, &diagonal);
        rule->interior->move(&key, &limit, &product, &complement);
        const double move = key.own_step, own = key.own + move;
        assert_true(key.own + limit * move >= -1e-14);
        if (capped) assert_true(key.g + limit * key.step <= 1e-14);
        /* The sum the rule takes: c after the update, or T - s. */
        const double sum = capped ? key.target - own : own;
        spec_check("DER-11", fabs(part - diagonal * key.step - sum), 1e-14);
        const double left = capped ? own * -key.g - key.own * key.step - key.beta
                                   : log(key.own / key.target) + move / key.own +
                                         (key.g + key.step) / key.parameters.strength;
        spec_check("DER-11", fabs(left), 1e-13);
    }
}

/* Sums between two bounds: what is asked, missed and rested on, and a key at the upper one, the lower one and inside. */
static void bounds(void **unused) {
    (void)unused;
    dice_state = 4;
    const ota_column_rule_row *rule = ota_column_rule_of(OTA_COLUMNS_BOUNDED);
    for (int k = 0; k < CASES; k++) {
        const ota_column_parameters key = {.floor = 0.1 + 0.8 * uniform(&dice_state), .scale = 1.0};
        const double t = 0.1 + uniform(&dice_state), target = 0.1 + uniform(&dice_state),
                     least = key.floor * target;
        const double sums[] = {target, least, 0.5 * (target + least), target + 0.1, least - 0.01};
        const double at[] = {-uniform(&dice_state) - 0.01, uniform(&dice_state) + 0.01, 0.0, 0.0,
                             0.0};
        const double missed[] = {0.0, 0.0, 0.0, 0.1, 0.01};
        for (int c = 0; c < 5; c++) {
            ota_column_sums columns = {
                .count = 1, .sum = &sums[c], .target = &target, .g = &at[c], .parameters = key};
            spec_check("DER-27", fabs(rule->residual(&columns) - missed[c]), 1e-15);
            spec_check("DER-27", fabs(rule->excess(&columns) - missed[c]), 1e-15);
            const double next =
                ota_column_next(rule->step(&key, t), t, at[c], log(target / sums[c]) + at[c] / t);
            if (c < 3) spec_check("DER-02", fabs(next - at[c]), 1e-14);
            if (c == 3) assert_true(next < 0.0);
            if (c == 4) assert_true(next > 0.0);
            assert_true(ota_column_rests(rule, &key, at[c]) == (c >= 2));
        }
        const ota_column_kink kink = rule->kink(&key, target);
        assert_true(kink.at == 0.0 && kink.below == target && kink.above == least);
    }
    /* Two equal bounds have no kink: the key is an equality. */
    const ota_column_parameters equal = {.floor = 1.0, .scale = 1.0};
    assert_true(rule->kink(&equal, 0.5).at == INFINITY && !ota_column_rests(rule, &equal, 0.0));
    /* Totals that miss the rows' mass by rounding are scaled to it, others are left. */
    assert_true(ota_column_balance(&equal, 1.0 - 1e-14, 1.0, 1e-12) > 1.0);
    assert_true(ota_column_balance(&equal, 1.0 + 1e-14, 1.0, 1e-12) < 1.0);
    assert_true(ota_column_balance(&equal, 1.1, 1.0, 1e-12) == 1.0);
}

/* A step of Newton's method on s a = beta and e b = beta with s + e constant and dg = db - da, as far as it may go. */
static void interior_bounds(void **unused) {
    (void)unused;
    dice_state = 5;
    const ota_interior_rule *rule = ota_column_rule_of(OTA_COLUMNS_BOUNDED)->interior;
    for (int k = 0; k < CASES; k++) {
        ota_interior_key key = {.parameters = {.floor = 0.2, .scale = 1.0},
                                .target = 0.5 + uniform(&dice_state),
                                .step = uniform(&dice_state) - 0.5,
                                .beta = 0.1 * uniform(&dice_state)};
        rule->begin(&key, uniform(&dice_state), 0.1 + uniform(&dice_state));
        key.price = 0.1 + uniform(&dice_state);
        key.g = key.reward - key.price;
        double diagonal, limit = 1.0, product = 0.0, complement = 0.0;
        const double part = rule->part(&key, false, &diagonal);
        rule->move(&key, &limit, &product, &complement);
        const ota_interior_key before = key;
        spec_check("DER-11",
                   fabs(part - diagonal * key.step - (key.target - key.own - key.own_step)), 1e-14);
        spec_check("DER-11", fabs(complement - key.own * key.price - key.rest * key.reward), 1e-15);
        rule->advance(&key, limit);
        assert_true(key.own > 0.0 && key.rest > 0.0 && key.price > 0.0 && key.reward > 0.0);
        if (limit < 1.0) continue;
        /* A whole step meets the linear equations; what is left of the products is of second order. */
        const double ds = key.own - before.own, da = key.price - before.price;
        const double db = key.reward - before.reward;
        spec_check("DER-11", fabs(key.own * key.price - ds * da - key.beta), 1e-13);
        spec_check("DER-11", fabs(key.rest * key.reward + ds * db - key.beta), 1e-13);
        spec_check("DER-11", fabs(db - da - key.step), 1e-13);
    }
}

TEST_FILE(test_columns) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts),      cmocka_unit_test(fixed_points),
        cmocka_unit_test(capacities), cmocka_unit_test(prices_of_bounds),
        cmocka_unit_test(floors),     cmocka_unit_test(interior_points),
        cmocka_unit_test(bounds),     cmocka_unit_test(interior_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
