/* Rows of logits and their transitions: against definitions in long double, on rows of every length around a
 * block, near and far apart, saturated, tied, constant; all positions of a block by threads; every level of
 * the passes bit by bit. */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/evolution/layer_change.h"
#include "analysis/kernels/logit_kernels.h"
#include "analysis_random.h"
#include "groups.h"
#include "otattn_analysis.h"
#include "spec.h"

enum { GPT2 = 50257 };

/* ---- definitions ------------------------------------------------------------------------------ */

typedef struct plain {
    long double tv, kl, js, rest, rest_after, entropy, entropy_after, tail, tail_after, correlation,
        deviation, max_change, least_change, most_change, saturation;
} plain;

static int first_largest(const float *z, int size) {
    int best = 0;
    for (int j = 1; j < size; j++) best = z[j] > z[best] ? j : best;
    return best;
}

static long double rest_of(const float *z, int size) {
    const int leader = first_largest(z, size);
    long double rest = 0.0L;
    for (int j = 0; j < size; j++)
        if (j != leader) rest += expl((long double)z[j] - z[leader]);
    return rest;
}

static long double mean_of(const float *z, int size) {
    long double sum = 0.0L;
    for (int j = 0; j < size; j++) sum += z[j];
    return sum / size;
}

/* (1 + t) log(1 + t) */
static long double share_term(long double t) { return t > -1 ? (1 + t) * log1pl(t) : 0.0L; }

/* log(sum exp(w - w_r) / sum exp(z - z_r)), where it is small from the changes alone. */
static long double level_of(const float *z, const float *w, int size) {
    const int r = first_largest(z, size), q = first_largest(w, size);
    const long double rest = rest_of(z, size);
    long double s = 0.0L;
    for (int j = 0; j < size; j++) {
        const long double e = ((long double)w[j] - z[j]) - ((long double)w[r] - z[r]);
        if (e < 1.0L) s += expl((long double)z[j] - z[r]) / (1 + rest) * expm1l(e);
        if (e >= 1.0L) return log1pl(rest_of(w, size)) - log1pl(rest) + w[q] - w[r];
    }
    return fabsl(s) < 0.5L ? log1pl(s) : log1pl(rest_of(w, size)) - log1pl(rest) + w[q] - w[r];
}

/* Sums of terms that are 0 or more; what the leader gains the others lose. */
static plain plain_transition(const float *z, const float *w, int size) {
    plain d = {.least_change = HUGE_VALL, .most_change = -HUGE_VALL};
    const int r = first_largest(z, size), q = first_largest(w, size);
    const long double rest = rest_of(z, size), after = rest_of(w, size);
    const long double level = level_of(z, w, size);
    const long double z_mean = mean_of(z, size), w_mean = mean_of(w, size);
    long double others = 0.0L, sum = 0.0L, zz = 0.0L, ww = 0.0L, zw = 0.0L;
    for (int j = 0; j < size; j++) {
        const long double change = (long double)w[j] - z[j];
        const long double x = change - ((long double)w[r] - z[r]) - level;
        const long double b = expl((long double)z[j] - z[r]) / (1 + rest);
        const long double a = expl((long double)w[j] - w[q]) / (1 + after);
        const long double difference = fabsl(x) < 0.5L ? b * expm1l(x) : a - b, s = a + b;
        if (j != r) d.saturation += a;
        if (j != r) others += fabsl(difference), sum += difference;
        d.kl += fabsl(x) < 0.5L ? b * (x * expl(x) - expm1l(x)) : a * x - a + b;
        const long double t = s > 0 ? difference / s : 0.0L;
        d.js += s / 4 * (share_term(t) + share_term(-t));
        d.entropy += b * (log1pl(rest) - ((long double)z[j] - z[r]));
        d.entropy_after += a * (log1pl(after) - ((long double)w[j] - w[q]));
        d.least_change = fminl(d.least_change, change);
        d.most_change = fmaxl(d.most_change, change);
        zz += (z[j] - z_mean) * (z[j] - z_mean);
        ww += (w[j] - w_mean) * (w[j] - w_mean);
        zw += (z[j] - z_mean) * (w[j] - w_mean);
    }
    d.tv = (others + fabsl(sum)) / 2;
    d.rest = rest;
    d.rest_after = after;
    d.tail = rest / (1 + rest);
    d.tail_after = after / (1 + after);
    d.saturation = fmaxl(d.tail, d.saturation);
    d.correlation = zw / sqrtl(zz) / sqrtl(ww);
    d.deviation = sqrtl(zz / size);
    d.max_change = fmaxl(fabsl(d.least_change), fabsl(d.most_change));
    return d;
}

/* Mean place among equals, by counting. */
static void plain_ranks(const float *z, int size, double *rank) {
    for (int i = 0; i < size; i++) {
        int above = 0, equal = 0;
        for (int j = 0; j < size; j++) {
            above += z[j] > z[i];
            equal += z[j] == z[i];
        }
        rank[i] = above + 0.5 * (equal - 1);
    }
}

static double plain_spearman(const float *z, const float *w, int size) {
    double *const a = malloc(2 * (size_t)size * sizeof *a), *const b = a + size;
    assert_non_null(a);
    plain_ranks(z, size, a);
    plain_ranks(w, size, b);
    double aa = 0.0, bb = 0.0, ab = 0.0;
    const double middle = 0.5 * (size - 1);
    for (int j = 0; j < size; j++) {
        aa += (a[j] - middle) * (a[j] - middle);
        bb += (b[j] - middle) * (b[j] - middle);
        ab += (a[j] - middle) * (b[j] - middle);
    }
    free(a);
    return ab / sqrt(aa * bb);
}

static bool among_largest(const float *z, int size, int k, int i) {
    int before = 0;
    for (int j = 0; j < size; j++) before += z[j] > z[i] || (z[j] == z[i] && j < i);
    return before < k;
}

static double plain_overlap(const float *z, const float *w, int size, int k) {
    int both = 0;
    for (int i = 0; i < size; i++)
        both += among_largest(z, size, k, i) && among_largest(w, size, k, i);
    return (double)both / k;
}

/* ---- one row after the other ------------------------------------------------------------------ */

/* A row with the memory it lives in. */
typedef struct held_row {
    ota_evolve_row row;
    void *memory, *scratch;
} held_row;

static held_row row_of(const float *z, int size) {
    held_row held = {.memory = malloc(ota_evolve_row_bytes(size)),
                     .scratch = malloc(ota_evolve_scratch_bytes(size))};
    assert_true(held.memory != NULL && held.scratch != NULL);
    assert_int_equal(ota_evolve_row_of(z, size, held.memory, held.scratch, &held.row, NULL),
                     OTA_OK);
    return held;
}

static void drop_row(held_row *held) {
    free(held->memory);
    free(held->scratch);
}

static ota_transition transition_of(const float *z, const float *w, int size) {
    held_row before = row_of(z, size), after = row_of(w, size);
    ota_transition t;
    assert_int_equal(ota_evolve_transition(&before.row, &after.row, &t, NULL), OTA_OK);
    drop_row(&before);
    drop_row(&after);
    return t;
}

static double relative(double value, long double wanted) {
    return (double)(fabsl(value - wanted) / fmaxl(fabsl(wanted), 1e-300L));
}

/* The kinds of steps a model makes, and worse. */
enum { NEAR, USUAL, FAR, SATURATED, TIED, WIDE, SHIFTED, CROSSING, KINDS };

static void draw_pair(uint64_t *state, int kind, int size, float *z, float *w) {
    const double step = kind == NEAR        ? decade(state, -3.0, -1.0)
                        : kind == SATURATED ? decade(state, -2.0, 0.5)
                        : kind == FAR       ? 10.0
                        : kind == WIDE      ? 300.0
                                            : decade(state, -1.5, 0.5);
    for (int j = 0; j < size; j++) {
        z[j] = (float)((kind == WIDE ? 400.0 : 3.0) * normal(state));
        w[j] = (float)(z[j] + step * normal(state));
        if (kind == TIED) z[j] = rintf(z[j]), w[j] = rintf(w[j]);
        if (kind == SHIFTED) w[j] = z[j] + 64.0F;
    }
    const float height = (float)(20.0 + 60.0 * uniform(state));
    const int top = whole(state, 0, size - 1);
    if (kind == SATURATED) z[top] += height, w[top] += height;
    if (kind == CROSSING) z[top] += height, w[size - 1 - top] += height;
}

static const int sizes[] = {2, 3, 63, 64, 65, 100, 101, 127, 128, 200, 1000};

static void compare(const plain *wanted, const ota_transition *t) {
    /* f64 sums of f32 data: the policy asks for 1e-6, rounding leaves 1e-11. */
    spec_check("TOT-71 TOT-109", relative(t->tv, wanted->tv), 1e-12);
    spec_check_true("TOT-72", memcmp(&t->tv, &t->w1, sizeof t->tv) == 0);
    spec_check("TOT-73", relative(t->kl, wanted->kl), 1e-10);
    spec_check("TOT-74", relative(t->js, wanted->js), 1e-10);
    spec_check("TOT-75",
               (double)fabsl(t->entropy_change - (wanted->entropy_after - wanted->entropy)), 1e-12);
    spec_check("TOT-81", relative(t->max_logit_change, wanted->max_change), 1e-15);
    spec_check("TOT-81",
               relative(t->logit_range_half, (wanted->most_change - wanted->least_change) / 2),
               1e-13);
    spec_check("TOT-82", (double)fabsl(t->logit_correlation - wanted->correlation), 1e-13);
    spec_check("TOT-83", relative(t->effective_temperature, 1 / wanted->deviation), 1e-13);
    spec_check("TOT-110", relative(t->tail_before, wanted->tail), 1e-12);
    spec_check("TOT-110", relative(t->tail_after, wanted->tail_after), 1e-12);
    spec_check("DER-20", t->sharp_ratio - 1.0, 1e-12);
    spec_check("TOT-28", t->tv / t->saturation_bound - 1.0, 1e-12);
    spec_check("TOT-28", relative(t->saturation_bound, wanted->saturation), 1e-12);
}

static void transitions_equal_their_definitions(void **unused) {
    (void)unused;
    uint64_t state = 11;
    for (int draw = 0; draw < 40 * KINDS; draw++) {
        const int size = sizes[draw / KINDS % (int)(sizeof sizes / sizeof *sizes)];
        float z[1000], w[1000];
        draw_pair(&state, draw % KINDS, size, z, w);
        if (draw % KINDS == SHIFTED && size > 3) w[3] += 0.25F;
        if (first_largest(z, size) < 0 || memcmp(z, w, (size_t)size * sizeof *z) == 0) continue;
        const plain wanted = plain_transition(z, w, size);
        /* A change below the normal numbers has no digits to compare. */
        if (!(wanted.correlation <= 2.0L) || wanted.tv < (long double)DBL_MIN) continue;
        const ota_transition t = transition_of(z, w, size);
        compare(&wanted, &t);
        spec_check("TOT-77", fabs(t.spearman - plain_spearman(z, w, size)), 1e-12);
        const double tops[4] = {t.top1, t.top5, t.top10, t.top100};
        static const int counts[4] = {1, 5, 10, 100};
        for (int k = 0; k < 4; k++) {
            const double missing = size < counts[k] ? 1.0 : 0.0;
            spec_check("TOT-76",
                       missing > 0.0 ? !isnan(tops[k])
                                     : fabs(tops[k] - plain_overlap(z, w, size, counts[k])),
                       0.0);
        }
        assert_int_equal(t.index_before, first_largest(z, size));
        assert_int_equal(t.index_after, first_largest(w, size));
    }
}

static void predictions_equal_their_definitions(void **unused) {
    (void)unused;
    uint64_t state = 12;
    for (int draw = 0; draw < 10 * KINDS; draw++) {
        enum { SIZE = 333 };
        float z[SIZE], w[SIZE], first[SIZE];
        draw_pair(&state, draw % KINDS, SIZE, z, w);
        for (int j = 0; j < SIZE; j++) first[j] = (float)(2.0 * normal(&state));
        held_row row = row_of(z, SIZE), final = row_of(w, SIZE), start = row_of(first, SIZE);
        ota_prediction p;
        assert_int_equal(ota_evolve_prediction(&row.row, &start.row, &final.row, &p, NULL), OTA_OK);
        const plain to_final = plain_transition(z, w, SIZE),
                    drift = plain_transition(first, z, SIZE);
        spec_check("TOT-73", (double)fabsl(p.kl_to_final - to_final.kl),
                   1e-13 * (1.0 + (double)to_final.kl));
        spec_check("TOT-26", (double)fabsl(p.drift - 2 * drift.tv), 1e-13);
        spec_check("TOT-75", relative(p.entropy, to_final.entropy), 1e-12);
        spec_check("TOT-110", relative(p.tail, to_final.tail), 1e-12);
        spec_check("", fabs(p.log_sum_exp - (z[p.index] + (double)log1pl(rest_of(z, SIZE)))),
                   1e-12 * (1.0 + fabs(p.log_sum_exp)));
        spec_check("TOT-29", fabs(p.max_probability + p.tail - 1.0), 1e-15);
        assert_int_equal(p.agrees, first_largest(z, SIZE) == first_largest(w, SIZE));
        drop_row(&row);
        drop_row(&final);
        drop_row(&start);
    }
}

/* Logits of f64 that no row holds, against a row. */
static void distances_of_shifted_logits(void **unused) {
    (void)unused;
    uint64_t state = 19;
    for (int draw = 0; draw < 4 * KINDS; draw++) {
        const int size = draw < KINDS ? 1 + draw : 200;
        float z[200], w[200];
        double shifted[200], distance;
        draw_pair(&state, draw % KINDS, size, z, w);
        held_row row = row_of(w, size);
        for (int j = 0; j < size; j++) shifted[j] = (double)z[j];
        assert_int_equal(ota_evolve_distance(shifted, &row.row, &distance, NULL), OTA_OK);
        const plain wanted = plain_transition(z, w, size);
        spec_check("TOT-42", (double)fabsl(distance - 2 * wanted.tv), 1e-13);
        const double common = 100.0 * normal(&state);
        for (int j = 0; j < size; j++) shifted[j] = (double)w[j] + common;
        assert_int_equal(ota_evolve_distance(shifted, &row.row, &distance, NULL), OTA_OK);
        spec_check("TOT-42", distance, 1e-12);
        drop_row(&row);
    }
    float z[3] = {0, 1, 2};
    double broken[3] = {0, (double)NAN, 1}, distance;
    held_row row = row_of(z, 3);
    ota_error error;
    assert_int_equal(ota_evolve_distance(broken, &row.row, &distance, &error), OTA_EINVAL);
    assert_string_equal(error.field, "logits");
    drop_row(&row);
}

/* One call for a state gives what three do. */
static void a_step_is_its_parts(void **unused) {
    (void)unused;
    uint64_t state = 17;
    for (int kind = 0; kind < KINDS; kind++) {
        enum { SIZE = 200 };
        float z[SIZE], w[SIZE], last[SIZE];
        draw_pair(&state, kind, SIZE, z, w);
        for (int j = 0; j < SIZE; j++) last[j] = (float)(2.0 * normal(&state));
        held_row before = row_of(z, SIZE), row = row_of(w, SIZE), final = row_of(last, SIZE);
        ota_transition parts, whole_step;
        ota_prediction own, own_step, alone;
        ota_evolve_row again;
        memset(&own, 0, sizeof own);
        memset(&own_step, 0, sizeof own_step);
        (void)ota_evolve_transition(&before.row, &row.row, &parts, NULL);
        (void)ota_evolve_prediction(&row.row, &before.row, &final.row, &own, NULL);
        assert_int_equal(
            ota_evolve_step(w,
                            &(ota_evolve_others){
                                .before = &before.row, .first = &before.row, .final = &final.row},
                            row.memory, row.scratch, &again, &whole_step, &own_step, NULL),
            OTA_OK);
        assert_memory_equal(&parts, &whole_step, sizeof parts);
        assert_true(own.kl_to_final == own_step.kl_to_final && own.drift == own_step.drift);
        assert_true(memcmp(&own.entropy, &own_step.entropy, sizeof own.entropy) == 0);
        assert_int_equal(ota_evolve_step(w, &(ota_evolve_others){.final = &final.row}, row.memory,
                                         row.scratch, &again, NULL, &alone, NULL),
                         OTA_OK);
        assert_true(alone.drift == 0.0 && alone.kl_to_final == own.kl_to_final);
        drop_row(&before);
        drop_row(&row);
        drop_row(&final);
    }
}

static void nothing_moves_between_identical_rows(void **unused) {
    (void)unused;
    uint64_t state = 13;
    float z[300];
    for (int j = 0; j < 300; j++) z[j] = (float)(5.0 * normal(&state));
    const ota_transition t = transition_of(z, z, 300);
    spec_check_true("TOT-71 TOT-73 TOT-74 TOT-75 TOT-81",
                    t.tv == 0.0 && t.kl == 0.0 && t.js == 0.0 && t.entropy_change == 0.0 &&
                        t.max_logit_change == 0.0 && t.sharp_ratio == 0.0);
    spec_check_true("TOT-76 TOT-77 TOT-82", t.top1 == 1.0 && t.top100 == 1.0 &&
                                                fabs(t.spearman - 1.0) < 1e-15 &&
                                                fabs(t.logit_correlation - 1.0) < 1e-14);
    /* A constant row has no ranks and no correlation. */
    for (int j = 0; j < 300; j++) z[j] = 0.3F;
    float w[300] = {1.0F};
    const ota_transition flat = transition_of(z, w, 300);
    assert_true(isnan(flat.spearman) && isnan(flat.logit_correlation));
    assert_true(isinf(flat.effective_temperature) && flat.index_before == 0);
    const ota_transition one = transition_of(z, w, 1);
    assert_true(one.tv == 0.0 && one.kl == 0.0 && one.top1 == 1.0 && isnan(one.top5));
}

/* Both sit on one token and the tails weigh 1e-30. */
static void tails_keep_their_digits(void **unused) {
    (void)unused;
    uint64_t state = 14;
    float z[70], w[70];
    for (int j = 0; j < 70; j++) {
        z[j] = (float)normal(&state);
        w[j] = z[j] + (float)(1e-3 * normal(&state));
    }
    z[66] = w[66] = 72.0F;
    const plain wanted = plain_transition(z, w, 70);
    const ota_transition t = transition_of(z, w, 70);
    assert_true(wanted.tv > 0 && wanted.tv < 1e-30L);
    spec_check("TOT-71 TOT-109", relative(t.tv, wanted.tv), 1e-12);
    spec_check("TOT-110", relative(t.tail_before, wanted.tail), 1e-12);
    spec_check_true("TOT-29", ota_transition_saturated(&t, 1e-4, 1e-10) == 1);
    spec_check_true("TOT-29", ota_transition_saturated(&t, 1e-4, t.tv) == 0);
    spec_check_true("TOT-29", ota_transition_saturated(&t, t.tail_before, 1.0) == 0);
}

static void bad_rows_are_named(void **unused) {
    (void)unused;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float z[130] = {0.0F};
    double memory[512], scratch[8192];
    ota_evolve_row row;
    ota_error error;
    for (int k = 0; k < 3; k++) {
        z[129] = bad[k];
        assert_int_equal(ota_evolve_row_of(z, 130, memory, scratch, &row, &error), OTA_EINVAL);
        assert_non_null(strstr(error.message, "logits[129]"));
    }
    assert_int_equal(ota_evolve_row_of(z, 0, memory, scratch, &row, &error), OTA_EINVAL);
    assert_true(ota_evolve_row_bytes(0) == 0 && ota_evolve_scratch_bytes(-1) == 0);
    assert_true(ota_evolve_bytes((1 << 24) + 1, 1) == 0);
}

/* ---- blocks of positions ---------------------------------------------------------------------- */

enum { STATES = 5, POSITIONS = 7, SYMBOLS = 150 };

static void run_all(void *user, int64_t count, void (*body)(void *, int64_t, int), void *context) {
    (void)user;
    for (int64_t i = count - 1; i >= 0; i--) body(context, i, (int)(i % 3));
}

static void positions_are_independent(void **unused) {
    (void)unused;
    uint64_t state = 15;
    float *const data = malloc(STATES * POSITIONS * SYMBOLS * sizeof *data);
    assert_non_null(data);
    const float *logits[STATES];
    for (int k = 0; k < STATES * POSITIONS * SYMBOLS; k++) data[k] = (float)(3.0 * normal(&state));
    for (int l = 0; l < STATES; l++) logits[l] = data + l * POSITIONS * SYMBOLS;
    ota_transition transitions[3][STATES - 1][POSITIONS];
    ota_prediction predictions[3][STATES][POSITIONS];
    memset(predictions, 0, sizeof predictions);
    const ota_executor executor = {run_all, NULL, 3};
    for (int way = 0; way < 3; way++) {
        const ota_evolution e = {.size = sizeof e,
                                 .states = STATES,
                                 .positions = POSITIONS,
                                 .vocabulary = SYMBOLS,
                                 .logits = logits,
                                 .transitions = &transitions[way][0][0],
                                 .predictions = &predictions[way][0][0],
                                 .threads = way == 0 ? 1 : 4,
                                 .executor = way == 2 ? &executor : NULL};
        assert_int_equal(ota_evolve(&e, NULL, NULL), OTA_OK);
    }
    spec_check_true("TOT-111",
                    memcmp(transitions[0], transitions[1], sizeof transitions[0]) == 0 &&
                        memcmp(transitions[0], transitions[2], sizeof transitions[0]) == 0);
    for (int l = 0; l < STATES; l++) {
        for (int i = 0; i < POSITIONS; i++) {
            const ota_prediction *const p = &predictions[0][l][i];
            const plain last = plain_transition(logits[l] + i * SYMBOLS,
                                                logits[STATES - 1] + i * SYMBOLS, SYMBOLS);
            const plain first =
                plain_transition(logits[0] + i * SYMBOLS, logits[l] + i * SYMBOLS, SYMBOLS);
            spec_check("TOT-73", fabs(p->kl_to_final - (double)last.kl), 1e-12);
            spec_check("TOT-26", fabs(p->drift - 2.0 * (double)first.tv), 1e-12);
            assert_true(
                memcmp(&predictions[1][l][i].kl_to_final, &p->kl_to_final, sizeof(double)) == 0);
            if (l == 0) continue;
            const plain step =
                plain_transition(logits[l - 1] + i * SYMBOLS, logits[l] + i * SYMBOLS, SYMBOLS);
            spec_check("TOT-71", fabs(transitions[0][l - 1][i].tv - (double)step.tv), 1e-12);
        }
    }
    data[(2 * POSITIONS + 4) * SYMBOLS + 3] = NAN;
    data[(1 * POSITIONS + 6) * SYMBOLS + 3] = NAN;
    ota_error error;
    ota_evolution e = {.size = sizeof e,
                       .states = STATES,
                       .positions = POSITIONS,
                       .vocabulary = SYMBOLS,
                       .logits = logits,
                       .threads = 2};
    assert_int_equal(ota_evolve(&e, NULL, &error), OTA_EINVAL);
    assert_non_null(strstr(error.message, "state 2, position 4: logits[3]"));
    /* The last state, which is read before the others, is named like them. */
    data[((STATES - 1) * POSITIONS + 2) * SYMBOLS + 5] = NAN;
    assert_int_equal(ota_evolve(&e, NULL, &error), OTA_EINVAL);
    char expected[64];
    (void)snprintf(expected, sizeof expected, "state %d, position 2: logits[5]", STATES - 1);
    assert_non_null(strstr(error.message, expected));
    /* Four rows and a scratch a thread; no fewer than one thread, no more than 256. */
    const size_t each = 4 * ota_evolve_row_bytes(SYMBOLS) + ota_evolve_scratch_bytes(SYMBOLS);
    static const int threads[][2] = {{-3, 1}, {0, 1}, {1, 1}, {3, 3}, {256, 256}, {1000, 256}};
    for (int k = 0; k < 6; k++)
        assert_true(ota_evolve_bytes(SYMBOLS, threads[k][0]) == (size_t)threads[k][1] * each);
    const int stop = 1;
    const ota_analysis_options stopped = {.size = sizeof stopped, .cancel = &stop};
    /* A block without positions is none that could be stopped. */
    e.positions = 0;
    assert_int_equal(ota_evolve(&e, &stopped, &error), OTA_OK);
    e.positions = 2;
    assert_int_equal(ota_evolve(&e, &stopped, &error), OTA_CANCELLED);
    e.size = 8;
    assert_int_equal(ota_evolve(&e, NULL, &error), OTA_EINVAL);
    free(data);
}

/* ---- levels ------------------------------------------------------------------------------------ */

typedef struct bits {
    logit_scan scan;
    logit_sums sums;
    logit_changes changes;
    logit_place place;
    double numbers[8];
    double ends[4]; /* of what passes over f64 write */
} bits;

static bits bits_of(const ota_logit_kernels *kernels, const logit_pair *pair) {
    bits b;
    memset(&b, 0, sizeof b);
    kernels->scan(pair->before.logits, pair->count, &b.scan);
    kernels->weigh(pair->before.logits, pair->count, pair->leader, 0.25, NULL, &b.sums);
    kernels->compare(pair, &b.changes);
    kernels->place(pair, &pair->after, &b.place);
    double *const x = malloc(2 * (size_t)pair->count * sizeof *x), *const to = x + pair->count;
    assert_non_null(x);
    const int64_t last = pair->count - 1;
    kernels->difference(pair->before.logits, pair->after.logits, pair->count, x);
    b.ends[0] = x[last];
    kernels->difference(pair->before.logits, NULL, pair->count, x);
    b.ends[1] = x[last / 2];
    b.numbers[0] = kernels->mass(x, pair->before.top, pair->count);
    b.numbers[1] =
        kernels->apart(x, pair->before.top, pair->before.share, &pair->after, pair->count);
    b.numbers[2] = kernels->total(x, pair->count);
    b.numbers[3] = kernels->divide(x, 0.5, x, 1.5, 1.0, pair->count, to);
    b.ends[2] = to[last];
    b.numbers[4] = kernels->miss(to, x, 1.5, 1.0, x, 0.25, pair->count);
    b.numbers[5] = kernels->rest(x, 0.25, to, pair->count, 0.125, &b.ends[3]);
    b.numbers[6] = kernels->largest(x, pair->count, 1e300, &b.numbers[7]);
    free(x);
    return b;
}

static void levels_give_the_same_bits(void **unused) {
    (void)unused;
    uint64_t state = 16;
    const ota_logit_kernels *const plainest = ota_logit_kernels_level(0);
    float *const z = malloc(2 * GPT2 * sizeof *z), *const w = z + GPT2;
    assert_non_null(z);
    for (int kind = 0; kind < KINDS; kind++) {
        const int size = kind == 0 ? GPT2 : 1000 + kind;
        draw_pair(&state, kind, size, z, w);
        held_row before = row_of(z, size), after = row_of(w, size);
        const ota_evolve_row *const b = &before.row, *const a = &after.row;
        const logit_pair pair = {
            .before = {z, NULL, b->ranks, b->max_logit, b->mean, b->max_probability, -0.5},
            .after = {w, NULL, a->ranks, a->max_logit, a->mean, a->max_probability, -0.75},
            .common = 0.5,
            .level = 0.25,
            .centre = 1.5,
            .leader = b->index,
            .count = size,
        };
        bits wanted = bits_of(plainest, &pair);
        for (int level = 1; ota_logit_kernels_level(level) != NULL; level++) {
            const bits got = bits_of(ota_logit_kernels_level(level), &pair);
            spec_check_true("", memcmp(&got, &wanted, sizeof got) == 0);
        }
        drop_row(&before);
        drop_row(&after);
    }
    free(z);
}

/* Sums of f64 against long double, also of lengths that fill no block. */
static void passes_over_doubles_are_right(void **unused) {
    (void)unused;
    enum { MOST = 130 };
    uint64_t state = 23;
    double x[MOST], v[MOST], to[MOST];
    for (int size = 1; size <= MOST; size++) {
        for (int j = 0; j < size; j++) x[j] = normal(&state), v[j] = 0.5 + fabs(normal(&state));
        for (int level = 0; ota_logit_kernels_level(level) != NULL; level++) {
            const ota_logit_kernels *const kernels = ota_logit_kernels_level(level);
            long double total = 0, ratios = 0, missing = 0, mass = 0, squares = 0;
            double most = 0, largest = 0, found = 0, left = 0;
            const double ratio_sum = kernels->divide(x, 0.5, v, 2.0, 0.25, size, to);
            for (int j = 0; j < size; j++) {
                const long double below = 2.0L * v[j] + 0.25L, rest = fabsl(x[j] - 0.5L - v[j]);
                assert_true(fabsl(to[j] - 0.5L * x[j] / below) <= 1e-15L * (1 + fabsl(to[j])));
                total += x[j];
                ratios += to[j];
                missing += fabsl(to[j] * (2.0L * x[j] + 0.25L) - 3.0L * v[j]);
                mass += expl(x[j] - 4.0L);
                squares += rest * rest / 4;
                most = fmax(most, (double)rest);
                largest = fmax(largest, fabs(x[j]));
            }
            assert_true(fabsl(kernels->total(x, size) - total) <= 1e-15L * size);
            assert_true(fabsl(ratio_sum - ratios) <= 1e-15L * size);
            assert_true(fabsl(kernels->miss(to, x, 2.0, 0.25, v, 3.0, size) - missing) <=
                        1e-14L * size);
            assert_true(fabsl(kernels->mass(x, 4.0, size) - mass) <= 1e-15L * size);
            assert_true(fabsl(kernels->rest(x, 0.5, v, size, 0.5, &left) - squares) <=
                        1e-13L * size);
            assert_true(fabs(left - most) <= 1e-15 * (1 + most));
            assert_int_equal(kernels->largest(x, size, 1e300, &found), 0);
            assert_true(found == largest);
            assert_int_equal(kernels->largest(x, size, 0.999 * largest, &found), 1);
            to[size - 1] = (double)NAN;
            assert_int_equal(kernels->largest(to, size, 1e300, &found), 1);
        }
    }
    /* What a plain sum loses, also within a lane. */
    const double lost[24] = {[0] = 1e16, [1] = 1.0, [8] = 3.0, [16] = -1e16, [17] = 1e-20};
    for (int level = 0; ota_logit_kernels_level(level) != NULL; level++)
        assert_true(ota_logit_kernels_level(level)->total(lost, 24) == 4.0);
}

/* ---- ranks --------------------------------------------------------------------------------------- */

static const float *to_sort;

static int falling(const void *x, const void *y) {
    const int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    if (to_sort[a] > to_sort[b]) return -1;
    if (to_sort[a] < to_sort[b]) return 1;
    return a < b ? -1 : 1;
}

/* Rows that steps of the range tell apart, and rows that they do not: outliers, equal and tiny numbers, a range beyond
 * floats. */
static void ranks_equal_their_definition(void **unused) {
    (void)unused;
    enum { MOST = 5000, ROWS = 9 };
    static const int sizes[] = {1, 2, 3, 63, 1000, MOST};
    float z[MOST];
    int32_t order[MOST], ranks[MOST], top[EVOLVE_TOP];
    void *const scratch = malloc(ota_evolve_scratch_bytes(MOST));
    uint64_t state = 3;
    assert_non_null(scratch);
    for (int kind = 0; kind < ROWS; kind++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            const int size = sizes[k];
            for (int i = 0; i < size; i++) {
                const float x = (float)normal(&state);
                const float values[ROWS] = {3.0F * x,
                                            floorf(3.0F * x),
                                            i % 7 == 0   ? -0.0F
                                            : i % 7 == 1 ? 0.0F
                                                         : x,
                                            i == 5 ? -1e30F : x,
                                            i == 5 ? 1e5F : x,
                                            i == 3   ? FLT_MAX
                                            : i == 4 ? -FLT_MAX
                                                     : x,
                                            1e-42F * x,
                                            2.5F,
                                            10.0F + 1e-5F * x};
                z[i] = values[kind];
                order[i] = i;
            }
            to_sort = z;
            qsort(order, (size_t)size, sizeof *order, falling);
            const double squares = ota_layer_change_ranks(z, size, z[order[size - 1]], z[order[0]],
                                                          ranks, top, scratch);
            double wanted = 0.0;
            for (int first = 0, last; first < size; first = last + 1) {
                for (last = first; last + 1 < size && !(z[order[last + 1]] < z[order[first]]);)
                    last++;
                const int rank = first + last - (size - 1);
                for (int i = first; i <= last; i++) assert_int_equal(ranks[order[i]], rank);
                wanted += (double)(last - first + 1) * rank * rank;
            }
            for (int i = 0; i < size && i < EVOLVE_TOP; i++) assert_int_equal(top[i], order[i]);
            spec_check("TOT-77", fabs(squares - wanted), 0.0);
        }
    }
    free(scratch);
}

TEST_FILE(test_evolve) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transitions_equal_their_definitions),
        cmocka_unit_test(predictions_equal_their_definitions),
        cmocka_unit_test(distances_of_shifted_logits),
        cmocka_unit_test(a_step_is_its_parts),
        cmocka_unit_test(nothing_moves_between_identical_rows),
        cmocka_unit_test(tails_keep_their_digits),
        cmocka_unit_test(bad_rows_are_named),
        cmocka_unit_test(positions_are_independent),
        cmocka_unit_test(levels_give_the_same_bits),
        cmocka_unit_test(passes_over_doubles_are_right),
        cmocka_unit_test(ranks_equal_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
