/* test_ring_edges.c: rows without mass, without keys or with numbers that are none, keys that no row may use and values that are not
 * finite, in a ring as in one process: the same rows are NaN or nothing, of outputs, statistics, gradients and tangents. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 23 };
#include "groups.h"
#include "ring_scene.h"

static const cell cells[] = {
    {.method = "softmax", .masses = true, .boolean = true, .sink = true, .alibi = true},
    {.method = "softmax", .masses = true, .boolean = true},
    {.method = "softmax", .masses = true, .boolean = true, .narrow = true},
    {.method = "softmax", .masses = true, .boolean = true, .dropout = true, .softcap = true},
    {.method = "softmax", .masses = true, .boolean = true, .softcap = true, .inside = true},
    {.method = "entmax:1.5", .masses = true, .boolean = true},
    {.method = "entmax:1.5", .masses = true, .boolean = true, .sink = true, .dense = true},
    {.method = "entmax:0.6", .masses = true, .boolean = true},
    {.method = "argmax", .masses = true, .boolean = true},
    {.method = "argmax", .masses = true, .boolean = true, .sink = true},
    {.method = "softmax", .masses = true, .boolean = true, .cap = 0.9},
    {.method = "softmax", .masses = true, .boolean = true, .cap = 0.9, .sink = true},
    {.method = "sparsemax", .masses = true, .boolean = true, .cap = 0.9},
    {.method = "argmax", .masses = true, .boolean = true, .cap = 0.9},
    {.method = "argmax", .masses = true, .boolean = true, .cap = 0.9, .sink = true},
    {.method = "softmax/exact{rounds=5}", .masses = true},
    {.method = "softmax/relaxed:0.7{rounds=5}", .masses = true, .boolean = true},
    {.method = "softmax/relaxed:0.7{tolerance=1e-9}", .masses = true, .boolean = true},
    {.method = "softmax/elastic:0.5,4", .masses = true, .boolean = true},
    {.method = "softmax/elastic:0.5,4", .masses = true, .boolean = true, .even = true},
    {.method = "softmax/bounded:0,1.3{tolerance=1e-9}",
     .masses = true,
     .boolean = true,
     .even = true},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

/* ---- edges --------------------------------------------------------------------------------------- */

static void no_edge(rows *w) { (void)w; }

static void no_mass(rows *w) { w->mu[2] = w->mu[9] = w->mu[N - 1] = 0.0; }

/* Rows that may use no key, and a key that no row may use. */
static void no_keys(rows *w) {
    for (int j = 0; j < N; j++) w->boolean[0 * N + j] = w->boolean[13 * N + j] = 0;
    for (int i = 0; i < N; i++) w->boolean[i * N + 4] = 0;
}

/* Two keys that only rows without mass may use. */
static void idle_keys(rows *w) {
    no_mass(w);
    for (int i = 0; i < N; i++) w->boolean[i * N + 6] = w->boolean[i * N + N - 1] = 0;
    w->boolean[2 * N + 6] = w->boolean[9 * N + 6] = w->boolean[(N - 1) * N + N - 1] = 1;
}

static void put(double *wide, float *narrow, int64_t at, double number) {
    wide[at] = number;
    narrow[at] = (float)number;
}

/* One query, and of one head a key whose scores are too large for some rows. */
static void no_numbers(rows *w) {
    put(w->q, w->narrow_q, (1 * N + 3) * WIDTH + 1, (double)NAN);
    put(w->q, w->narrow_q, (6 * N + 17) * WIDTH, INFINITY);
}

static void infinite_keys(rows *w) {
    put(w->k, w->narrow_k, (1 * N + 8) * WIDTH + 2, INFINITY);
    put(w->k, w->narrow_k, (2 * N + 8) * WIDTH, (double)NAN);
}

static void infinite_values(rows *w) {
    put(w->v, w->narrow_v, (0 * N + 5) * VALUES + 1, INFINITY);
    put(w->v, w->narrow_v, (3 * N + 20) * VALUES + 4, (double)NAN);
}

typedef struct edge {
    const char *name;
    void (*make)(rows *w);
    bool of_values; /* rows that use them are NaN; one process counts what lies beside out */
} edge;

static const edge edges[] = {{"none", no_edge, false},
                             {"rows without mass", no_mass, false},
                             {"rows without keys", no_keys, false},
                             {"keys of rows without mass", idle_keys, false},
                             {"queries that are no numbers", no_numbers, false},
                             {"keys that are not finite", infinite_keys, false},
                             {"values that are not finite", infinite_values, true}};
enum { EDGES = (int)(sizeof edges / sizeof edges[0]) };

/* Targets of exact columns have the rows' total. */
static void balance(scene *s) {
    double total[2] = {0.0, 0.0};
    for (int k = 0; k < N; k++) {
        total[0] += s->all.mu[k];
        total[1] += s->nu[k];
    }
    for (int k = 0; k < N; k++) s->nu[k] *= total[0] / total[1];
}

static bool is_differentiated(const cell *c) { return strncmp(c->method, "argmax", 6) != 0; }

static double tolerance_of(const cell *c) {
    return c->narrow ? 4e-6 : strstr(c->method, "tolerance") != NULL ? 1e-7 : 1e-11;
}

static void compare(const scene *s, const edge *e, int ranks) {
    const rows *w = &s->all;
    const double allowed = tolerance_of(s->cell);
    for (int k = 0; k < ranks; k++) {
        const rows *p = &s->part[k];
        if (p->status != w->status || p->reversed != w->reversed ||
            p->result.empty_rows != w->result.empty_rows ||
            p->result.nonfinite_rows != w->result.nonfinite_rows)
            fail_msg(
                "%s, %s: rank %d of %d: %d (%d), %d empty, %d not finite, '%s'; one process %d "
                "(%d), %d, %d",
                s->cell->method, e->name, k, ranks, (int)p->status, (int)p->reversed,
                (int)p->result.empty_rows, (int)p->result.nonfinite_rows, p->error.message,
                (int)w->status, (int)w->reversed, (int)w->result.empty_rows,
                (int)w->result.nonfinite_rows);
        expect_rows("out", s, p, ALL, p->out, w->out, VALUES, allowed);
        if (!e->of_values) expect_rows("sink", s, p, ALL, p->sink, w->sink, 1, allowed);
        if (s->statistics && !e->of_values) {
            expect_rows("row potential", s, p, ALL, p->f, w->f, 1, allowed);
            expect_rows("entropy", s, p, ALL, p->entropy, w->entropy, 1, 10.0 * allowed);
            expect_rows("support", s, p, ALL, p->support, w->support, 1, 0.0);
            expect_rows("largest", s, p, ALL, p->largest, w->largest, 1, allowed);
        }
        if (!s->gradients || p->reversed < OTA_OK || p->status < OTA_OK) continue;
        expect_rows("dq", s, p, ALL, p->dq, w->dq, WIDTH, 20.0 * allowed);
        expect_rows("dk", s, p, BATCH * KEY_HEADS, p->dk, w->dk, WIDTH, 20.0 * allowed);
        expect_rows("dv", s, p, BATCH * KEY_HEADS, p->dv, w->dv, VALUES, 20.0 * allowed);
    }
}

static void compare_tangents(scene *s, const edge *e, int ranks, ota_shares order) {
    s->all.result.size = sizeof s->all.result;
    move(s, &s->all, NULL);
    crew_once(ranks, order, move_part, s);
    for (int k = 0; k < ranks; k++) {
        const rows *p = &s->part[k];
        if (p->status != s->all.status)
            fail_msg("%s, %s: rank %d moves with %d, '%s', one process with %d", s->cell->method,
                     e->name, k, (int)p->status, p->error.message, (int)s->all.status);
        expect_rows("tangent", s, p, ALL, p->moved, s->all.moved, VALUES,
                    20.0 * tolerance_of(s->cell));
    }
}

static void edges_are_those_of_one_process(void **state) {
    (void)state;
    scene *s = malloc(sizeof *s);
    for (int k = 0; k < CELLS * EDGES; k++) {
        const cell *c = &cells[k / EDGES];
        const edge *e = &edges[k % EDGES];
        draw(s, c, 900 + (uint64_t)k);
        e->make(&s->all);
        balance(s);
        /* What rows that are NaN leave of a coupled gradient is not said. */
        s->gradients = is_differentiated(c) && !(e->of_values && strchr(c->method, '/') != NULL);
        s->statistics = strchr(c->method, '/') == NULL;
        s->all.result.size = sizeof s->all.result;
        s->threads = e->of_values ? 1 : 1 + k % 2;
        solve(s, &s->all, NULL);
        const int ranks = 1 + k % 4;
        const ota_shares order = k % 3 == 0 ? OTA_SHARES_ZIGZAG : OTA_SHARES_IN_ORDER;
        cut(s, ranks, order, k % 5 == 0);
        crew_once(ranks, order, solve_part, s);
        compare(s, e, ranks);
        if (s->gradients && s->all.status >= OTA_OK) compare_tangents(s, e, ranks, order);
    }
    free(s);
}

TEST_FILE(test_ring_edges) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(edges_are_those_of_one_process)};
    return cmocka_run_group_tests_name("ring_edges", tests, NULL, NULL);
}
