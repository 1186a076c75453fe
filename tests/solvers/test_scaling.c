/* test_scaling.c: column updates in scalings (scaling.h) and Anderson's extrapolation (extrapolation.h) against their
 * definitions. With g = a + t log v and c = v sum, an update takes
 *
 *     g' = min(ceiling, (1 - lambda) g + gain t (log target - log sum + a / t)),   lambda = gain = 1 but for
 *     relaxed gain = rho / (rho + t), elastic lambda = gain
 *
 * and whatever is measured is measured on c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "draw/random.h"
#include "solvers/derivatives/adjoint.h"
#include "base/extrapolation.h"
#include "solvers/scaling.h"
#include "groups.h"
#include "spec.h"

static dice dice_state;

/* UNUSED: no row may use it. CLOSED: v = 0. */
enum { COLUMNS = 21, UNUSED = 4, CLOSED = 9 };

typedef struct bench {
    ota_settings settings;
    ota_head head;
    ota_scaling s;
    double nu[COLUMNS], g[COLUMNS], target[COLUMNS], sum[COLUMNS], v[COLUMNS], a[COLUMNS];
    unsigned char used[COLUMNS];
} bench;

static const ota_column_rule rules[] = {OTA_COLUMNS_EXACT, OTA_COLUMNS_RELAXED, OTA_COLUMNS_CAPPED,
                                        OTA_COLUMNS_ELASTIC};
enum { RULES = 4 };

static bench *set_up(uint64_t seed, ota_column_rule rule) {
    static bench b;
    b = (bench){.head = {.columns = COLUMNS,
                         .tau = 0.6,
                         .row.sink = -INFINITY,
                         .mass = 12.0,
                         .row.mass_tolerance = 1e-9,
                         .row.strength = INFINITY,
                         .column.rule = rule,
                         .column.strength = 1.7,
                         .column.lambda = 0.4}};
    dice_state = seed;
    b.head.settings = &b.settings;
    b.head.nu = b.nu;
    b.head.g = b.g;
    b.s = (ota_scaling){.head = &b.head,
                        .target = b.target,
                        .sum = b.sum,
                        .scaling = b.v,
                        .absorbed = b.a,
                        .used = b.used};
    double total = 0.0;
    for (int j = 0; j < COLUMNS; j++) {
        b.used[j] = j != UNUSED ? OTA_KEY_REACHED : OTA_KEY_SHUT;
        total += b.nu[j] = j == UNUSED ? 0.0 : 0.05 + uniform(&dice_state) * uniform(&dice_state);
        b.sum[j] = 0.1 + 3.0 * uniform(&dice_state);
        b.v[j] = j == CLOSED ? 0.0 : 0.1 + 2.0 * uniform(&dice_state);
        b.a[j] = rule == OTA_COLUMNS_CAPPED ? -uniform(&dice_state) : uniform(&dice_state) - 0.5;
    }
    for (int j = 0; j < COLUMNS; j++) b.nu[j] *= b.head.mass / total;
    memcpy(b.target, b.nu, sizeof b.nu);
    return &b;
}

static double potential(const bench *b, int j) {
    return b->v[j] > 0.0 ? b->a[j] + b->head.tau * log(b->v[j]) : -INFINITY;
}

/* ---- what may begin ------------------------------------------------------------------------------ */

static void targets(void **unused) {
    (void)unused;
    for (int k = 0; k < RULES; k++) {
        bench *b = set_up((uint64_t)k, rules[k]);
        assert_true(ota_scaling_begin(&b->s));
        for (int j = 0; j < COLUMNS; j++)
            spec_check("TOT-08", fabs(b->target[j] - b->nu[j]), 1e-14);
        b->head.mass = 0.0;
        assert_false(ota_scaling_begin(&b->s));
    }
    /* Totals that differ by rounding are made equal, others refused. */
    bench *b = set_up(11, OTA_COLUMNS_EXACT);
    b->head.mass *= 1.0 + 5e-10;
    assert_true(ota_scaling_begin(&b->s));
    double total = 0.0;
    for (int j = 0; j < COLUMNS; j++) total += b->target[j];
    spec_check("TOT-08", fabs(total / b->head.mass - 1.0), 1e-15);
    b->head.mass *= 1.0 + 2e-9;
    assert_false(ota_scaling_begin(&b->s));
    /* A sink takes what the columns leave, and must be left something. */
    b->head.row.sink = 0.5;
    assert_true(ota_scaling_begin(&b->s));
    assert_true(b->target[0] == b->nu[0]);
    b->head.mass = 11.9;
    assert_false(ota_scaling_begin(&b->s));
    /* A key that nobody may use and that must receive mass: named by others, but fixed rounds end as they end. */
    b = set_up(12, OTA_COLUMNS_EXACT);
    b->used[2] = OTA_KEY_SHUT;
    assert_false(ota_scaling_begin(&b->s));
    b->settings.stop.fixed = true;
    assert_true(ota_scaling_begin(&b->s));
    b = set_up(13, OTA_COLUMNS_RELAXED);
    b->used[2] = OTA_KEY_SHUT;
    b->used[4] = OTA_KEY_IDLE;
    assert_true(ota_scaling_begin(&b->s));
    assert_true(b->target[2] == 0.0 && b->target[4] == 0.0 && b->target[3] == b->nu[3]);
    /* Capacities must take the rows, unless a sink does. */
    b = set_up(14, OTA_COLUMNS_CAPPED);
    b->head.mass = 12.1;
    assert_false(ota_scaling_begin(&b->s));
    b->head.row.sink = 0.5;
    assert_true(ota_scaling_begin(&b->s));
    b->head.row.sink = -INFINITY;
    b->head.mass = 11.9;
    assert_true(ota_scaling_begin(&b->s));
    b->used[2] = OTA_KEY_SHUT;
    assert_int_equal(ota_scaling_begin(&b->s), b->nu[2] <= 0.1);
    /* What keys must have at least may not be more than the rows give. */
    b = set_up(15, OTA_COLUMNS_BOUNDED);
    for (int j = 0; j < COLUMNS; j++) b->nu[j] *= 1.25;
    b->head.column.floor = 0.7;
    assert_true(ota_scaling_begin(&b->s));
    b->head.column.floor = 0.9;
    assert_false(ota_scaling_begin(&b->s));
}

/* ---- updates ------------------------------------------------------------------------------------- */

static void updates(void **unused) {
    (void)unused;
    for (int k = 0; k < 2 * RULES; k++) {
        bench *b = set_up((uint64_t)(20 + k), rules[k % RULES]);
        const double t = b->head.tau, rho = b->head.column.strength;
        double wanted[COLUMNS], lambdas[COLUMNS];
        const bool own = k >= RULES;
        for (int j = 0; j < COLUMNS; j++) lambdas[j] = j == 3 ? 0.0 : 0.2 + 0.03 * j;
        if (own) b->head.column.lambdas = lambdas;
        for (int j = 0; j < COLUMNS; j++) {
            const double lambda = own ? lambdas[j] : b->head.column.lambda;
            const double free = t * (log(b->target[j]) - log(b->sum[j])) + b->a[j];
            wanted[j] = potential(b, j);
            if (j == UNUSED || j == CLOSED) continue;
            if (b->head.column.rule == OTA_COLUMNS_EXACT) wanted[j] = free;
            if (b->head.column.rule == OTA_COLUMNS_CAPPED) wanted[j] = fmin(free, 0.0);
            if (b->head.column.rule == OTA_COLUMNS_RELAXED) wanted[j] = free * rho / (rho + t);
            if (b->head.column.rule == OTA_COLUMNS_ELASTIC)
                wanted[j] = (1.0 - lambda) * wanted[j] + lambda * free;
        }
        assert_int_equal(ota_scaling_step(&b->s), OTA_SCALING_INSIDE);
        ota_scaling_potentials(&b->s);
        for (int j = 0; j < COLUMNS; j++) {
            if (j == CLOSED) continue;
            spec_check("DER-01 DER-02 ELA-09", fabs(potential(b, j) - wanted[j]), 1e-14);
            spec_check("DER-01 DER-02 ELA-09", fabs(b->g[j] - wanted[j]), 1e-14);
            if (b->head.column.rule == OTA_COLUMNS_CAPPED)
                assert_true(j == UNUSED || b->g[j] <= 0.0);
        }
        assert_true(b->v[CLOSED] == 0.0 && b->g[CLOSED] <= -INFINITY);
    }
}

/* Beyond 2^256 in f64 and 2^32 in f32 scalings are absorbed; sums that have lost terms end the rounds. */
static void limits(void **unused) {
    (void)unused;
    static const double high[2] = {0x1p256, 0x1p32}, least[2] = {0x1p-500, 0x1p-60};
    for (int k = 0; k < 8; k++) {
        bench *b = set_up((uint64_t)(40 + k), OTA_COLUMNS_EXACT);
        const int narrow = k % 2;
        const double edge = k % 4 < 2 ? high[narrow] : 1.0 / high[narrow];
        b->head.scores.narrow = narrow == 1;
        b->target[1] = edge * b->sum[1] * (k < 4 ? 1.0 : k % 4 < 2 ? 1.01 : 0.99);
        assert_int_equal(ota_scaling_step(&b->s), k < 4 ? OTA_SCALING_INSIDE : OTA_SCALING_OUTSIDE);
        for (int j = 0; j < COLUMNS; j++) b->g[j] = b->a[j];
        b->g[1] = b->a[1] + b->head.tau * log(edge) * (k < 4 ? 0.999 : 1.001);
        assert_int_equal(ota_scaling_restore(&b->s),
                         k < 4 ? OTA_SCALING_INSIDE : OTA_SCALING_OUTSIDE);
        b->target[1] = 1.0;
        b->sum[1] = least[narrow];
        assert_int_equal(ota_scaling_step(&b->s), OTA_SCALING_LOST);
    }
    /* A target of 0 closes its key, which rows must know of. */
    bench *b = set_up(49, OTA_COLUMNS_EXACT);
    b->target[1] = 0.0;
    assert_int_equal(ota_scaling_step(&b->s), OTA_SCALING_OUTSIDE);
    assert_true(b->v[1] == 0.0);
}

/* Absorbing moves no g; in f32 v keeps what a could not. */
static void absorbed(void **unused) {
    (void)unused;
    for (int k = 0; k < 4; k++) {
        bench *b = set_up((uint64_t)(60 + k), rules[k % 2]);
        b->head.scores.narrow = k >= 2;
        double before[COLUMNS];
        for (int j = 0; j < COLUMNS; j++) before[j] = potential(b, j);
        ota_scaling_potentials(&b->s);
        ota_scaling_absorb(&b->s);
        for (int j = 0; j < COLUMNS; j++) {
            if (j == CLOSED) continue;
            spec_check("TOT-13", fabs(potential(b, j) - before[j]), 1e-15);
            assert_true(b->a[j] == (k >= 2 ? (double)(float)b->g[j] : b->g[j]));
        }
        assert_true(b->v[CLOSED] == 0.0 && b->a[CLOSED] == 0.0);
        for (int j = 0; j < COLUMNS; j++) b->g[j] += 0.3;
        assert_int_equal(ota_scaling_restore(&b->s), OTA_SCALING_INSIDE);
        for (int j = 0; j < COLUMNS; j++) {
            if (j != CLOSED) spec_check("TOT-13", fabs(potential(b, j) - before[j] - 0.3), 1e-15);
        }
    }
}

/* ---- derivatives of an update ---------------------------------------------------------------------- */

static double next_of(const ota_head *head, double t, double g, double level) {
    return ota_unrolled_key(head, t, 1, g, level).next;
}

/* One key's update moves as its derivatives say: in g, in t L, in t and in the rule's strength. */
static void update_derivatives(void **unused) {
    (void)unused;
    static const double relaxations[] = {1.0, 1.4, 0.7};
    const double h = 1e-5, t = 0.6;
    for (int k = 0; k < 24 * RULES; k++) {
        bench *b = set_up((uint64_t)(120 + k), rules[k % RULES]);
        ota_head *head = &b->head;
        b->settings.relaxation = relaxations[k / RULES % 3];
        const double omega = b->settings.relaxation, g = uniform(&dice_state) - 0.7;
        const double level = log(b->nu[1]) + 1.6 * (uniform(&dice_state) - 0.4);
        const double log_ratio = log(b->nu[1]) - level;
        double gain = 1.0, forget = 1.0, ceiling = INFINITY;
        if (head->column.rule == OTA_COLUMNS_RELAXED) gain = 1.7 / (1.7 + t);
        if (head->column.rule == OTA_COLUMNS_ELASTIC) gain = forget = head->column.lambda;
        if (head->column.rule == OTA_COLUMNS_CAPPED) ceiling = 0.0;
        const double full = fmin(ceiling, (1.0 - forget) * g + gain * t * log_ratio);
        const double want = fmin(ceiling, (1.0 - omega) * g + omega * full);
        const ota_key_update found = ota_unrolled_key(head, t, 1, g, level);
        spec_check("DER-15", fabs(found.next - want), 1e-15);
        /* Differences across a corner of the minimum say nothing. */
        if (fabs(full) < 1e-3 || fabs(want) < 1e-3) continue;
        const double by_g = (next_of(head, t, g + h, level) - next_of(head, t, g - h, level)) / h;
        const double by_l = (next_of(head, t, g, level - h) - next_of(head, t, g, level + h)) / h;
        const double by_t = (next_of(head, t + h, g, level) - next_of(head, t - h, g, level)) / h;
        spec_check("DER-15", fabs(found.by_g - 0.5 * by_g), 1e-9);
        spec_check("DER-15", fabs(found.by_level - 0.5 * by_l / t), 1e-9);
        spec_check("DER-15", fabs(found.by_t - 0.5 * by_t), 1e-8);
        double *knob = head->column.rule == OTA_COLUMNS_ELASTIC ? &head->column.lambda
                                                                : &head->column.strength;
        *knob += h;
        const double more = next_of(head, t, g, level);
        *knob -= 2.0 * h;
        const double by_strength = (more - next_of(head, t, g, level)) / h;
        spec_check("DER-15", fabs(found.by_parameter[0] - 0.5 * by_strength), 1e-8);
    }
    /* What does not move: closed keys, keys without a row, keys whose lambda is 0. */
    bench *b = set_up(119, OTA_COLUMNS_ELASTIC);
    b->settings.relaxation = 1.0;
    for (int k = 0; k < 3; k++) {
        if (k == 2) b->head.column.lambda = 0.0;
        const double g = k == 0 ? -INFINITY : 0.3, level = k == 1 ? -INFINITY : 0.2;
        const ota_key_update found = ota_unrolled_key(&b->head, t, 1, g, level);
        assert_true((found.next == g || (isinf(g) && found.next < g + 1.0)) && found.by_g == 1.0);
        assert_true(found.by_level == 0.0 && found.by_t == 0.0 && found.by_parameter[0] == 0.0);
    }
    /* A key without a target closes, and nothing passes through it. */
    b = set_up(118, OTA_COLUMNS_EXACT);
    b->settings.relaxation = 1.0;
    b->nu[1] = 0.0;
    const ota_key_update shut = ota_unrolled_key(&b->head, t, 1, 0.3, 0.2);
    assert_true(shut.next <= -INFINITY && shut.by_g == 0.0 && shut.by_level == 0.0);
}

/* ---- measures ------------------------------------------------------------------------------------ */

static void measures(void **unused) {
    (void)unused;
    for (int k = 0; k < RULES; k++) {
        bench *b = set_up((uint64_t)(80 + k), rules[k]);
        double error = 0.0, residual = 0.0;
        /* A key at its ceiling, below its capacity. */
        if (b->head.column.rule == OTA_COLUMNS_CAPPED)
            b->v[2] = 1.0, b->a[2] = 0.0, b->sum[2] = 0.01;
        ota_scaling_potentials(&b->s);
        b->target[5] = 0.0;
        for (int j = 0; j < COLUMNS; j++) {
            const double c = b->v[j] * b->sum[j], over = c - b->target[j], g = b->g[j];
            if (b->head.column.rule == OTA_COLUMNS_RELAXED)
                error += b->target[j] > 0.0 ? fabs(c - b->target[j] * exp(-g / 1.7)) : c;
            else
                error += b->head.column.rule == OTA_COLUMNS_CAPPED ? fmax(over, 0.0) : fabs(over);
            if (b->head.column.rule == OTA_COLUMNS_CAPPED)
                residual += over > 0.0 || j != 2 ? fabs(over) : 0.0;
        }
        if (b->head.column.rule != OTA_COLUMNS_CAPPED) residual = error;
        /* The closed key of relaxed columns would have to receive everything. */
        if (isinf(error)) continue;
        ota_scaling_measure(&b->s);
        spec_check("DER-27", fabs(b->head.found.column_error - error / 12.0), 1e-14);
        spec_check("DER-27", fabs(ota_scaling_residual(&b->s) - residual / 12.0), 1e-14);
    }
    bench *b = set_up(90, OTA_COLUMNS_RELAXED);
    double error = 0.0;
    b->v[CLOSED] = 1.0;
    ota_scaling_potentials(&b->s);
    b->target[5] = 0.0;
    for (int j = 0; j < COLUMNS; j++) {
        const double c = b->v[j] * b->sum[j], rule = b->target[j] * exp(-b->g[j] / 1.7);
        error += fabs(c - rule) / 12.0;
    }
    ota_scaling_measure(&b->s);
    spec_check("DER-27", fabs(b->head.found.column_error - error), 1e-14);
    spec_check("DER-27", fabs(ota_scaling_residual(&b->s) - error), 1e-14);
}

/* The constant of relaxed columns makes both sides of their rule sum alike, and moves no weight. */
static void constant(void **unused) {
    (void)unused;
    for (int k = 0; k < 4; k++) {
        bench *b = set_up((uint64_t)(100 + k), OTA_COLUMNS_RELAXED);
        double c[COLUMNS], before[COLUMNS], reached = 0.0, wanted = 0.0;
        b->target[5] = 0.0;
        for (int j = 0; j < COLUMNS; j++) {
            c[j] = b->v[j] * b->sum[j];
            before[j] = potential(b, j);
        }
        const double factor = ota_scaling_constant(&b->s);
        assert_true(fabs(log(factor)) > 1e-3);
        for (int j = 0; j < COLUMNS; j++) {
            spec_check("DER-01", fabs(b->v[j] * b->sum[j] - c[j]), 1e-14);
            if (j == CLOSED || !(b->target[j] > 0.0)) continue;
            spec_check("DER-01", fabs(potential(b, j) - before[j] - 0.6 * log(factor)), 1e-14);
            reached += c[j];
            wanted += b->target[j] * exp(-potential(b, j) / 1.7);
        }
        spec_check("DER-01", fabs(reached / wanted - 1.0), 1e-13);
        b->head.row.sink = 0.5;
        b->sum[0] *= 3.0;
        assert_true(ota_scaling_constant(&b->s) == 1.0);
        b->head.row.sink = -INFINITY;
        b->head.column.rule = OTA_COLUMNS_EXACT;
        assert_true(ota_scaling_constant(&b->s) == 1.0);
    }
}

/* One ratio out of reach or one factor that is no number, wherever it lies, and K has not carried the rounds. */
static void carried_rounds(void **unused) {
    (void)unused;
    enum { ROUNDS = 3, ROWS = 5, KEYS = 4 };
    static double memory[2 * (ROUNDS + 1) * 8 + (3 * ROUNDS + 1) * 8], g_grad[KEYS];
    ota_head head = {.rows = ROWS, .columns = KEYS};
    for (int narrow = 0; narrow < 2; narrow++) {
        const double reach = narrow ? 0x1p30 : 0x1p200;
        ota_kernel_rounds r = {
            .head = &head, .rounds = ROUNDS, .narrow = narrow != 0, .g_grad = g_grad};
        ota_kernel_rounds_place(&r, memory);
        for (size_t k = 0; k < sizeof memory / sizeof *memory; k++) memory[k] = 0.5;
        const struct {
            double *at;
            int64_t count;
            double fine, wrong;
        } table[] = {{r.v, KEYS, 0.5 * reach, 0.75 * reach},
                     {r.v + r.column_lane, KEYS, 0.5 / reach, 0.25 / reach},
                     {r.v + (ROUNDS - 1) * r.column_lane, KEYS, 0.5, NAN},
                     {r.f_grad, ROWS, 1e300, INFINITY},
                     {r.f_grad + (ROUNDS - 1) * r.row_lane, ROWS, -1e300, NAN},
                     {g_grad, KEYS, 1e300, NAN}};
        for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
            for (int64_t j = 0; j < table[k].count; j++) {
                const double kept = table[k].at[j];
                table[k].at[j] = table[k].fine;
                assert_true(ota_kernel_rounds_carried(&r));
                table[k].at[j] = table[k].wrong;
                assert_false(ota_kernel_rounds_carried(&r));
                table[k].at[j] = kept;
            }
        }
    }
}

/* ---- extrapolation --------------------------------------------------------------------------------- */

enum { SPACE = 9, ROOM = 16 };

/* An affine map x -> fixed + A (x - fixed), A of rank `rank` with eigenvalues up to 0.97. */
static void apply_map(const double *x, const double *fixed, int rank, double *to) {
    for (int j = 0; j < SPACE; j++) {
        const double rate = j < rank ? 0.97 - 0.15 * j : 0.0;
        to[j] = fixed[j] + rate * (x[j] - fixed[j]);
    }
}

/* A map of rank r is at its fixed point after r + 4 steps, ridge and all; the first step is the plain one. */
static void affine_maps_end(void **unused) {
    (void)unused;
    for (int rank = 1; rank <= OTA_ANDERSON_DEPTH; rank++) {
        double memory[OTA_ANDERSON_VECTORS * ROOM], fixed[SPACE], x[SPACE], g[SPACE];
        ota_extrapolation h;
        ota_extrapolation_place(&h, memory, ROOM);
        dice_state = (uint64_t)rank;
        for (int j = 0; j < SPACE; j++) {
            fixed[j] = uniform(&dice_state) - 0.5;
            x[j] = fixed[j] + 1.0 + uniform(&dice_state);
        }
        for (int step = 0; step < rank + 4; step++) {
            apply_map(x, fixed, rank, g);
            double plain[SPACE];
            memcpy(plain, g, sizeof g);
            assert_int_equal(ota_extrapolate(&h, x, g, SPACE, INFINITY), step > 0);
            if (step == 0) assert_memory_equal(g, plain, sizeof g);
            assert_memory_equal(h.plain, plain, sizeof g);
            memcpy(x, g, sizeof g);
        }
        double worst = 0.0;
        for (int j = 0; j < SPACE; j++) worst = fmax(worst, fabs(x[j] - fixed[j]));
        spec_check("", worst, 1e-3);
    }
}

/* What was forgotten leaves no trace; closed keys stay closed, and no key passes the ceiling. */
static void forgotten_history_is_gone(void **unused) {
    (void)unused;
    double memory[2][OTA_ANDERSON_VECTORS * ROOM], fixed[SPACE], x[2][SPACE], g[2][SPACE];
    ota_extrapolation h[2];
    dice_state = 5;
    for (int j = 0; j < SPACE; j++) fixed[j] = uniform(&dice_state) - 0.5;
    for (int which = 0; which < 2; which++) {
        ota_extrapolation_place(&h[which], memory[which], ROOM);
        for (int early = 0; early < 7 && which == 0; early++) {
            for (int j = 0; j < SPACE; j++) x[0][j] = uniform(&dice_state);
            apply_map(x[0], fixed, SPACE, g[0]);
            (void)ota_extrapolate(&h[0], x[0], g[0], SPACE, INFINITY);
        }
        ota_extrapolation_reset(&h[which]);
        for (int j = 0; j < SPACE; j++) x[which][j] = 2.0 + 0.1 * j;
    }
    bool lowered = false;
    for (int step = 0; step < 9; step++) {
        for (int which = 0; which < 2; which++) {
            apply_map(x[which], fixed, 6, g[which]);
            g[which][3] = -INFINITY;
            (void)ota_extrapolate(&h[which], x[which], g[which], SPACE, 0.3);
            assert_true(g[which][3] <= -INFINITY);
            for (int j = 0; j < SPACE && step > 0; j++) {
                assert_true(g[which][j] <= 0.3);
                lowered |= g[which][j] == 0.3;
            }
            memcpy(x[which], g[which], sizeof x[which]);
        }
        assert_memory_equal(g[0], g[1], sizeof g[0]);
    }
    assert_true(lowered);
}

TEST_FILE(test_scaling) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets),
        cmocka_unit_test(updates),
        cmocka_unit_test(limits),
        cmocka_unit_test(absorbed),
        cmocka_unit_test(update_derivatives),
        cmocka_unit_test(measures),
        cmocka_unit_test(constant),
        cmocka_unit_test(carried_rounds),
        cmocka_unit_test(affine_maps_end),
        cmocka_unit_test(forgotten_history_is_gone),
    };
    return cmocka_run_group_tests_name("scaling", tests, NULL, NULL);
}
