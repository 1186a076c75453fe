/* test_steep.c: derivatives above order 2 where one weight of a row, of a key on the columns axis, or of a sink is so small that its slope
 * p^(2 - alpha) outweighs the digits of all others. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "crew.h"
#include "groups.h"
#include "problems.h"
#include "spec.h"
#include "tolerance.h"

/* Two keys of scores t and 0 along (1 + c, c): dP = (s, -s) with s = w v / (w + v), w and v the slopes of the two weights, whatever c
 * is. One slope outweighs the other by up to 1e200, and U of its key lacks the digits of what is left. Values by mpmath with 60
 * digits, the weights by bisection of p^(alpha-1) - (1-p)^(alpha-1) = (alpha-1) t. */
static const struct {
    double order, t, weight, moves; /* v's weight, s */
} steep[] = {{3, 0.375, 0.125, 1.0},
             {5, 0.1875, 0.0693879501302132156, 1.24026360131692213},
             {10, 0.109375, 0.0017482874029252697, 1.01409697787639338},
             {50, 0.0146484375, 0.0067445264943587486, 1.38380082295207706}};
enum { STEEP = (int)(sizeof steep / sizeof *steep) };

/* s (h - h') of their order slopes h (regularisers/tsallis.h). */
static const double by_orders[STEEP] = {0.222371849194701348, 0.0748419743528882464,
                                        0.0125181794680383917, 0.000550862259931598985};

/* Numbers of row k of the table. */
static void compare(const char *what, int k, const char *where, const double *found,
                    const double *wanted, int count) {
    for (int e = 0; e < count; e++) {
        if (!(fabs(found[e] - wanted[e]) <= 64.0 * steep[k].order * 0x1p-52 * fabs(wanted[e])))
            fail_msg("%s of order %g, %s, number %d: %.17g, not %.17g", what, steep[k].order, where,
                     e, found[e], wanted[e]);
    }
}

typedef void steep_case(int k, const char *cpu, const char *backend);

/* With all kernels of this processor, and on the plain backend. */
static void everywhere(steep_case *run) {
    for (int k = 0; k < STEEP; k++) {
        for (int level = 0; ota_kernel_name(level) != NULL; level++)
            run(k, ota_kernel_name(level), NULL);
        run(k, NULL, "plain");
    }
}

static void test_steep_slopes(void **state) {
    (void)state;
    for (int k = 0; k < STEEP; k++) {
        const double scores[2] = {steep[k].t, 0.0}, along[2] = {4.0, 3.0}, tau = 1.0;
        double out[2] = {0.0}, moved[2] = {0.0}, values[2] = {0.0, -1.0};
        ota_problem problem = {.size = sizeof problem,
                               .scores = ota_array_of((double *)scores, OTA_F64, 1, 1, 1, 2),
                               .regulariser = OTA_ENTMAX,
                               .order = steep[k].order,
                               .temperature = tau};
        const ota_options options = {.size = sizeof options, .gradients = 1, .threads = 1};
        ota_arrays arrays = {.size = sizeof arrays,
                             .values = ota_array_of(values, OTA_F64, 1, 1, 2, 1),
                             .out = ota_array_of(out, OTA_F64, 1, 1, 1, 1)};
        const ota_tangents tangents = {.size = sizeof tangents,
                                       .scores = ota_array_of((double *)along, OTA_F64, 1, 1, 1, 2),
                                       .out = ota_array_of(moved, OTA_F64, 1, 1, 1, 1)};
        ota_plan *plan;
        assert_int_equal(ota_plan_create(&plan, &problem, 1, &options, NULL), OTA_OK);
        assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
        assert_int_equal(ota_jvp(plan, &arrays, &tangents, NULL, NULL), OTA_OK);
        ota_plan_free(plan);
        compare("a row", k, "tangents", moved, &steep[k].moves, 1);
    }
}

/* The same on the columns axis: a key of scores 8 + t and 8 for two queries, and a weight q of the second that no potential tells. What
 * values get is q; dL/dS, and dP along (4, 3), of the first query is s. */
static void steep_key(int k, const char *cpu, const char *backend) {
    double scores[2] = {8.0 + steep[k].t, 8.0}, along[2] = {4.0, 3.0}, value = 1.0, out[2], row[2],
           column;
    double upstream[2] = {0.0, 1.0}, pairs[2] = {4.0, 3.0}, slopes[2], by_value = 0.0, moved[2];
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 1),
                           .regulariser = OTA_ENTMAX,
                           .order = steep[k].order,
                           .temperature = 1.0,
                           .axis = OTA_AXIS_COLUMNS};
    const ota_options options = {
        .size = sizeof options, .gradients = 1, .threads = 1, .cpu = cpu, .backend = backend};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(&value, OTA_F64, 1, 1, 1, 1),
                         .row_potential = ota_array_of(row, OTA_F64, 1, 1, 1, 2),
                         .column_potential = ota_array_of(&column, OTA_F64, 1, 1, 1, 1),
                         .out = ota_array_of(out, OTA_F64, 1, 1, 2, 1)};
    ota_gradients want = {.size = sizeof want,
                          .out_grad = ota_array_of(upstream, OTA_F64, 1, 1, 2, 1),
                          .values = ota_array_of(&by_value, OTA_F64, 1, 1, 1, 1)};
    ota_gradients by_pairs = {.size = sizeof by_pairs,
                              .coupling_grad = ota_array_of(pairs, OTA_F64, 1, 1, 2, 1),
                              .scores = ota_array_of(slopes, OTA_F64, 1, 1, 2, 1)};
    const ota_tangents tangents = {.size = sizeof tangents,
                                   .scores = ota_array_of(along, OTA_F64, 1, 1, 2, 1),
                                   .out = ota_array_of(moved, OTA_F64, 1, 1, 2, 1)};
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, 1, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &by_pairs, NULL, NULL), OTA_OK);
    assert_int_equal(ota_jvp(plan, &arrays, &tangents, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
    const double q = steep[k].weight, s = steep[k].moves;
    compare("a key", k, backend != NULL ? backend : cpu,
            (const double[]){out[1], by_value, slopes[0], slopes[1], moved[0], moved[1]},
            (const double[]){q, q, s, -s, s, -s}, 6);
}

/* Scores t, 0 and 0 of a row, or of a key for three queries, along (4, 3, 1): the weights of the equal ones, whose slopes pull against
 * each other, say nothing of temperature and order. Values by mpmath with 60 digits, as above. */
static const double ties[STEEP][3] = {
    {2.21880078490091649, -0.832050294337843683, 0.520942071392358691},
    {2.48154504992412322, -0.465289696860773104, 0.14978311792954017},
    {2.02819395575278675, -0.221833713910461051, 0.0250363589360767835},
    {2.76760164590415413, -0.0405410397349241327, 0.00110172451986319797}};

static void steep_ties(int k, ota_axis axis, const char *cpu, const char *backend) {
    const int64_t n = axis == OTA_AXIS_ROWS ? 1 : 3, m = 4 - n;
    double scores[3] = {steep[k].t, 0.0, 0.0}, pairs[3] = {4.0, 3.0, 1.0},
           values[3] = {1.0, 1.0, 1.0}, out[3], row[3], column[3], slopes[3], by_temperature = 0.0,
           by_order = 0.0;
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(scores, OTA_F64, 1, 1, n, m),
                           .regulariser = OTA_ENTMAX,
                           .order = steep[k].order,
                           .temperature = 1.0,
                           .axis = axis};
    const ota_options options = {
        .size = sizeof options, .gradients = 1, .threads = 1, .cpu = cpu, .backend = backend};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(values, OTA_F64, 1, 1, m, 1),
                         .row_potential = ota_array_of(row, OTA_F64, 1, 1, 1, n),
                         .column_potential = ota_array_of(column, OTA_F64, 1, 1, 1, m),
                         .out = ota_array_of(out, OTA_F64, 1, 1, n, 1)};
    const ota_gradients want = {.size = sizeof want,
                                .coupling_grad = ota_array_of(pairs, OTA_F64, 1, 1, n, m),
                                .scores = ota_array_of(slopes, OTA_F64, 1, 1, n, m),
                                .temperature = ota_array_of(&by_temperature, OTA_F64, 1, 1, 1, 1),
                                .order = ota_array_of(&by_order, OTA_F64, 1, 1, 1, 1)};
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, 1, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
    compare(axis == OTA_AXIS_ROWS ? "a row of ties" : "a key of ties", k,
            backend != NULL ? backend : cpu, (const double[]){slopes[0], by_temperature, by_order},
            ties[k], 3);
}

static void ties_of_row(int k, const char *cpu, const char *backend) {
    steep_ties(k, OTA_AXIS_ROWS, cpu, backend);
}

static void ties_of_key(int k, const char *cpu, const char *backend) {
    steep_ties(k, OTA_AXIS_COLUMNS, cpu, backend);
}

/* A key of score t and a sink of logit 0 with the smaller weight: dL/dS of the key, which L takes four times, is 4 s, of the sink -4 s, by
 * the temperature -4 s t, by the order 4 s (h - h'); along a sink that moves by 3 and a
 * key by 4 its weight moves by s. */
static void steep_sink(int k, const char *cpu, const char *backend) {
    double score = steep[k].t, value = 1.0, out, pair = 4.0, slope, by_temperature = 0.0,
           by_order = 0.0, by_sink = 0.0, along = 4.0, sink_along = 3.0, moved;
    const ota_term sink = {.kind = OTA_TERM_SINK};
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(&score, OTA_F64, 1, 1, 1, 1),
                           .regulariser = OTA_ENTMAX,
                           .order = steep[k].order,
                           .temperature = 1.0,
                           .terms = &sink,
                           .term_count = 1};
    const ota_options options = {
        .size = sizeof options, .gradients = 1, .threads = 1, .cpu = cpu, .backend = backend};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(&value, OTA_F64, 1, 1, 1, 1),
                         .out = ota_array_of(&out, OTA_F64, 1, 1, 1, 1)};
    const ota_array of_sink = ota_array_of(&by_sink, OTA_F64, 1, 1, 1, 1),
                    sink_moves = ota_array_of(&sink_along, OTA_F64, 1, 1, 1, 1);
    const ota_gradients want = {.size = sizeof want,
                                .coupling_grad = ota_array_of(&pair, OTA_F64, 1, 1, 1, 1),
                                .terms = &of_sink,
                                .scores = ota_array_of(&slope, OTA_F64, 1, 1, 1, 1),
                                .temperature = ota_array_of(&by_temperature, OTA_F64, 1, 1, 1, 1),
                                .order = ota_array_of(&by_order, OTA_F64, 1, 1, 1, 1)};
    const ota_tangents tangents = {.size = sizeof tangents,
                                   .terms = &sink_moves,
                                   .scores = ota_array_of(&along, OTA_F64, 1, 1, 1, 1),
                                   .out = ota_array_of(&moved, OTA_F64, 1, 1, 1, 1)};
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, 1, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    assert_int_equal(ota_jvp(plan, &arrays, &tangents, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
    const double s = steep[k].moves;
    compare("sink", k, backend != NULL ? backend : cpu,
            (const double[]){slope, by_sink, by_temperature, by_order, moved},
            (const double[]){4.0 * s, -4.0 * s, -4.0 * s * steep[k].t, 4.0 * by_orders[k], s}, 5);
}

/* Two queries of scores (t, 0) and (0, t) with exact columns, on both axes: weights (p, q) and (q, p) of the same two numbers, whose four
 * slopes are one circle. dL/dS, and dP along the same numbers, are s and -s where U is (4, 3) and (3, 4). */
static void steep_circle(int k, ota_axis axis, ota_column_rule columns, const char *cpu,
                         const char *backend) {
    const double t = steep[k].t, s = steep[k].moves;
    double scores[4] = {8.0 + t, 8.0, 8.0, 8.0 + t}, along[4] = {4.0, 3.0, 3.0, 4.0},
           values[4] = {1.0, 0.0, 0.0, 1.0}, out[4], row[2], column[2], slopes[4], moved[4],
           by_temperature = 0.0, by_order = 0.0;
    ota_problem problem = {.size = sizeof problem,
                           .scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 2),
                           .regulariser = OTA_ENTMAX,
                           .order = steep[k].order,
                           .temperature = 1.0,
                           .columns = columns,
                           .axis = axis};
    const ota_options options = {.size = sizeof options,
                                 .gradients = 1,
                                 .threads = 1,
                                 .tolerance = 1e-14,
                                 .cpu = cpu,
                                 .backend = backend};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(values, OTA_F64, 1, 1, 2, 2),
                         .row_potential = ota_array_of(row, OTA_F64, 1, 1, 1, 2),
                         .column_potential = ota_array_of(column, OTA_F64, 1, 1, 1, 2),
                         .out = ota_array_of(out, OTA_F64, 1, 1, 2, 2)};
    const ota_gradients want = {.size = sizeof want,
                                .coupling_grad = ota_array_of(along, OTA_F64, 1, 1, 2, 2),
                                .scores = ota_array_of(slopes, OTA_F64, 1, 1, 2, 2),
                                .temperature = ota_array_of(&by_temperature, OTA_F64, 1, 1, 1, 1),
                                .order = ota_array_of(&by_order, OTA_F64, 1, 1, 1, 1)};
    const ota_tangents tangents = {.size = sizeof tangents,
                                   .scores = ota_array_of(along, OTA_F64, 1, 1, 2, 2),
                                   .out = ota_array_of(moved, OTA_F64, 1, 1, 2, 2)};
    ota_plan *plan;
    assert_int_equal(ota_plan_create(&plan, &problem, 2, &options, NULL), OTA_OK);
    assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
    assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
    assert_int_equal(ota_jvp(plan, &arrays, &tangents, NULL, NULL), OTA_OK);
    ota_plan_free(plan);
    const double whole[4] = {s, -s, -s, s}, half[4] = {s / 2.0, -s / 2.0, -s / 2.0, s / 2.0},
                 last[4] = {0.0, 0.0, -s, s};
    const bool leads = columns == OTA_COLUMNS_PREFIX;
    compare("gradients of a circle", k, backend != NULL ? backend : cpu, slopes,
            leads ? half : whole, 4);
    const double rows = leads ? 1.0 : 2.0;
    compare("numbers of a circle", k, backend != NULL ? backend : cpu,
            (const double[]){by_temperature, by_order},
            (const double[]){-rows * s * t, rows * by_orders[k]}, 2);
    compare("tangents of a circle", k, backend != NULL ? backend : cpu, moved, leads ? last : whole,
            4);
}

static void circle_of_queries(int k, const char *cpu, const char *backend) {
    steep_circle(k, OTA_AXIS_ROWS, OTA_COLUMNS_EXACT, cpu, backend);
}

static void circle_of_keys(int k, const char *cpu, const char *backend) {
    steep_circle(k, OTA_AXIS_COLUMNS, OTA_COLUMNS_EXACT, cpu, backend);
}

/* The last of two leading blocks is the circle, of which the second query gets its row. */
static void circle_of_blocks(int k, const char *cpu, const char *backend) {
    steep_circle(k, OTA_AXIS_ROWS, OTA_COLUMNS_PREFIX, cpu, backend);
}

static void test_steep_keys(void **state) {
    (void)state;
    everywhere(steep_key);
}

static void test_steep_ties(void **state) {
    (void)state;
    everywhere(ties_of_row);
    everywhere(ties_of_key);
}

static void test_steep_sinks(void **state) {
    (void)state;
    everywhere(steep_sink);
}

static void test_steep_circles(void **state) {
    (void)state;
    everywhere(circle_of_queries);
    everywhere(circle_of_keys);
    everywhere(circle_of_blocks);
}

/* Plans of f32 scores with exact columns at order 5, on each axis, some slopes of which are above 1e10: dL/dS by mpmath with 70 digits. What
 * f32 rounds off the plan became up to 17e-6 of the largest gradient. */
typedef struct narrow_case {
    ota_axis axis;
    float scores[16], upstream[16];
    double slopes[16];
} narrow_case;

static void test_narrow_circles(void **state) {
    static const narrow_case cases[] = {
        {OTA_AXIS_ROWS,
         {-0.69351083f, -0.812178671f, -1.00297475f, -0.703125f, -0.69827503f, -0.920059085f,
          -1.21841025f, -0.81239593f, -0.24984844f, -0.466224402f, -1.01039898f, -0.340230256f,
          -0.737813413f, -0.968336344f, -1.265625f, -0.856476307f},
         {3.29199219f, 5.4375f, 3.14746094f, 3.24804688f, 5.37695312f, 5.23925781f, 4.18261719f,
          4.23144531f, 3.04296875f, 3.36914062f, 5.24707031f, 4.42089844f, 5.12207031f, 5.04492188f,
          5.85058594f, 5.20214844f},
         {0, 131.672351326, -2.22272566925, -129.449625657, 12.5362627673, 0.47564853803,
          -115.813793035, 102.80188173, -8.18507366128, -6.51417046279, 0, 14.6992441241,
          -4.35118910605, -125.633829402, 118.036518705, 11.9484998031}},
        {OTA_AXIS_COLUMNS,
         {-0.39635402f, -0.546875f, -0.103059947f, -0.21860522f, -0.453125f, -0.587076604f,
          -0.150084153f, -0.265247405f, -1.09706688f, -1.19927526f, -0.785864949f, -0.830993235f,
          -1.03935814f, -1.20224798f, -0.765183091f, -0.887262344f},
         {3.74609375f, 4.25488281f, 3.3671875f, 5.00292969f, 4.0859375f, 3.30273438f, 3.0078125f,
          4.22558594f, 4.67382812f, 4.06152344f, 4.89648438f, 5.09082031f, 4.80273438f, 5.30664062f,
          4.45019531f, 3.63183594f},
         {-10.8889941991, 0.220801010395, -1.87145685656, 12.5396500453, 16.124148083,
          -4.93125464465, 2.38666484523, -13.5795582835, 0, -1.03990823827, 0, 1.03990823827,
          -5.23515388386, 5.75036187253, -0.515207988667, 0}},
    };
    (void)state;
    for (int k = 0; k < 2; k++) {
        narrow_case c = cases[k];
        float values[16] = {1.0f}, out[16], slopes[16];
        double row[4], column[4];
        for (int j = 1; j < 4; j++) values[5 * j] = 1.0f;
        const ota_problem problem = {.size = sizeof problem,
                                     .scores = ota_array_of(c.scores, OTA_F32, 1, 1, 4, 4),
                                     .regulariser = OTA_ENTMAX,
                                     .order = 5.0,
                                     .temperature = 1.0,
                                     .columns = OTA_COLUMNS_EXACT,
                                     .axis = c.axis};
        const ota_options options = {
            .size = sizeof options, .gradients = 1, .threads = 1, .tolerance = 1e-6};
        ota_arrays arrays = {.size = sizeof arrays,
                             .values = ota_array_of(values, OTA_F32, 1, 1, 4, 4),
                             .row_potential = ota_array_of(row, OTA_F64, 1, 1, 1, 4),
                             .column_potential = ota_array_of(column, OTA_F64, 1, 1, 1, 4),
                             .out = ota_array_of(out, OTA_F32, 1, 1, 4, 4)};
        const ota_gradients want = {.size = sizeof want,
                                    .coupling_grad = ota_array_of(c.upstream, OTA_F32, 1, 1, 4, 4),
                                    .scores = ota_array_of(slopes, OTA_F32, 1, 1, 4, 4)};
        double worst = 0.0, largest = 0.0;
        ota_plan *plan;
        assert_int_equal(ota_plan_create(&plan, &problem, 4, &options, NULL), OTA_OK);
        assert_int_equal(ota_forward(plan, &arrays, NULL, NULL), OTA_OK);
        assert_int_equal(ota_backward(plan, &arrays, &want, NULL, NULL), OTA_OK);
        ota_plan_free(plan);
        for (int e = 0; e < 16; e++) {
            worst = fmax(worst, fabs((double)slopes[e] - c.slopes[e]));
            largest = fmax(largest, fabs(c.slopes[e]));
        }
        if (!(worst <= 1e-6 * largest)) fail_msg("case %d: %g of %g", k, worst, largest);
    }
}

/* The circle of two processes, each with one query and one key that go round: dL/dS and dP by queries, whose scores are their numbers. */
typedef struct ring_circle {
    int k;
    ota_status status[2];
    double slopes[4], moved[4];
} ring_circle;

static void circle_part(crew_rank *rank, void *context) {
    ring_circle *c = context;
    const int at = (int)rank->to.rank;
    const double t = steep[c->k].t;
    double query[2] = {8.0 + (at == 0 ? t : 0.0), 8.0 + (at == 1 ? t : 0.0)},
           along[2] = {at == 0 ? 4.0 : 3.0, at == 0 ? 3.0 : 4.0},
           key[2] = {at == 0 ? 1.0 : 0.0, at == 0 ? 0.0 : 1.0}, out[2], row, column[2];
    ota_problem problem = {.size = sizeof problem,
                           .queries = ota_array_of(query, OTA_F64, 1, 1, 1, 2),
                           .keys = ota_array_of(key, OTA_F64, 1, 1, 1, 2),
                           .scale = 1.0,
                           .regulariser = OTA_ENTMAX,
                           .order = steep[c->k].order,
                           .temperature = 1.0,
                           .columns = OTA_COLUMNS_EXACT};
    ota_options options = {
        .size = sizeof options, .gradients = 1, .threads = 1, .tolerance = 1e-14};
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = ota_array_of(key, OTA_F64, 1, 1, 1, 2),
                         .row_potential = ota_array_of(&row, OTA_F64, 1, 1, 1, 1),
                         .column_potential = ota_array_of(column, OTA_F64, 1, 1, 1, 2),
                         .out = ota_array_of(out, OTA_F64, 1, 1, 1, 2)};
    const ota_gradients want = {.size = sizeof want,
                                .out_grad = ota_array_of(along, OTA_F64, 1, 1, 1, 2),
                                .queries = ota_array_of(c->slopes + 2 * at, OTA_F64, 1, 1, 1, 2)};
    const ota_tangents tangents = {.size = sizeof tangents,
                                   .queries = ota_array_of(along, OTA_F64, 1, 1, 1, 2),
                                   .out = ota_array_of(c->moved + 2 * at, OTA_F64, 1, 1, 1, 2)};
    ota_plan *plan;
    rank->to.keys = OTA_KEYS_IN_RING;
    options.communicator = &rank->to;
    c->status[at] = ota_plan_create(&plan, &problem, 2, &options, NULL);
    if (c->status[at] != OTA_OK) return;
    c->status[at] = ota_forward(plan, &arrays, NULL, NULL);
    if (c->status[at] == OTA_OK) c->status[at] = ota_backward(plan, &arrays, &want, NULL, NULL);
    if (c->status[at] == OTA_OK) c->status[at] = ota_jvp(plan, &arrays, &tangents, NULL, NULL);
    ota_plan_free(plan);
}

static void test_ring_circles(void **state) {
    (void)state;
    for (int k = 0; k < STEEP; k++) {
        ring_circle c = {.k = k};
        const double s = steep[k].moves, wanted[4] = {s, -s, -s, s};
        crew_once(2, OTA_SHARES_IN_ORDER, circle_part, &c);
        for (int r = 0; r < 2; r++) assert_int_equal(c.status[r], OTA_OK);
        compare("gradients of a circle", k, "ring", c.slopes, wanted, 4);
        compare("tangents of a circle", k, "ring", c.moved, wanted, 4);
    }
}

TEST_FILE(test_steep) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steep_slopes),  cmocka_unit_test(test_steep_keys),
        cmocka_unit_test(test_steep_ties),    cmocka_unit_test(test_steep_sinks),
        cmocka_unit_test(test_steep_circles), cmocka_unit_test(test_narrow_circles),
        cmocka_unit_test(test_ring_circles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
