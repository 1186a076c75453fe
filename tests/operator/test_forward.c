/* Forward against the reference and the certificate: every cell of the method table under every mask, term,
 * dtype, layout and instruction-set level, on random problems of ragged sizes. OTATTN_TEST_SCALE
 * multiplies the number of problems. */
#define _GNU_SOURCE /* mmap */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "groups.h"
#include "judge_forward.h"
#include "scale.h"
#include "spec.h"

/* ---- what is tried ------------------------------------------------------------------------------- */

typedef struct cell {
    const char *method;
    int64_t rounds;     /* 0: to the tolerance */
    double temperature; /* 0: 1 */
    bool small;         /* the reference solves many problems inside: keep it small */
} cell;

static const cell cells[] = {
    {"softmax", 0, 0, false},
    {"softmax", 0, 0.125, false},
    {"entmax:1.5", 0, 0, false},
    {"sparsemax", 0, 0.5, false},
    {"entmax:3", 0, 0, false},
    {"entmax:1.2", 0, 0, false},
    {"entmax:0.6", 0, 0, false},
    {"entmax:0.9", 0, 0.25, false},
    {"argmax", 0, 0, false},
    {"softmax/exact", 0, 0, true},
    {"softmax/exact", OTA_NO_ROUNDS, 0, false},
    {"softmax/exact", 1, 0.5, false},
    {"softmax/exact", 2, 0, false},
    {"softmax/exact", 5, 0, false},
    {"softmax/relaxed:0.7", 0, 0, true},
    {"softmax/relaxed:2", 5, 0, false},
    {"softmax/capped:1.75", 0, 0, true},
    {"softmax/capped:1.75", 2, 0, false},
    {"softmax/bounded:0.5,1.4", 0, 0, true},
    {"softmax/bounded:1,1", 0, 0.5, true},
    {"softmax/bounded:0,1.5", 2, 0, false},
    {"softmax/bounded:0.7,1.2", 5, 0, false},
    {"softmax/elastic:0.3,4", 0, 0, false},
    {"softmax/elastic:1.5,2", 0, 0, false},
    {"softmax/elastic:0,7", 0, 0, false},
    {"sparsemax/exact", 0, 0.5, true},
    {"entmax:1.5/exact", 0, 0, true},
    {"entmax:1.5/relaxed:0.5", 0, 0, true},
    {"entmax:1.5/capped:2", 0, 0, true},
    {"entmax:0.5/exact", 0, 0, true},
    {"entmax:0.5/relaxed:0.6", 0, 0, true},
    {"entmax:0.5/capped:1.8", 0, 0, true},
    {"entmax:0.5/bounded:0.6,1.4", 0, 0, true},
    {"entmax:0.5/prefix", 0, 0, true},
    {"entmax:1.5/bounded:0.6,1.3", 0, 0, true},
    {"sparsemax/bounded:0.2,2", 0, 0.5, true},
    {"hard/bounded:0.5,1.25", 0, 0, true},
    {"hard/exact", 0, 0, true},
    {"hard/capped:1.5", 0, 0, true},
    {"softmax/prefix", 0, 0, true},
    {"entmax:1.5/prefix", 0, 0, true},
    {"hard/prefix", 0, 0, true},
    {"softmax/online:2", 0, 0, false},
    {"entmax:1.5/online:2", 0, 0, false},
    {"entmax:0.7/online:2", 0, 0, false},
    {"hard/online:2", 0, 0, false},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

static const ota_type types[] = {OTA_F64, OTA_F32, OTA_BF16, OTA_F16};
static const int64_t lengths_small[] = {1, 2, 3, 5, 8, 9};
static const int64_t lengths_large[] = {1, 2, 3, 7, 15, 16, 17, 31, 33, 47, 48, 49};
static const int64_t lengths_huge[] = {63, 64, 65, 96, 97, 127, 128, 129, 200};
static const int64_t widths[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65};

#define ANY(table, d) table[below(d, (int64_t)(sizeof(table) / sizeof(table)[0]))]

static bool has_columns(const char *method, const char *rule) {
    const char *slash = strchr(method, '/');
    return slash != NULL && strncmp(slash + 1, rule, strlen(rule)) == 0;
}

/* A random problem of the cell under this mask or term. */
static recipe vary(const cell *c, ota_type type, mask where, added what, uint64_t seed) {
    dice d = seed;
    recipe w = {.method = c->method, .type = type, .mask = where, .added = what, .seed = seed};
    w.temperature = c->temperature;
    w.rounds = c->rounds;
    w.out_type = below(&d, 3) > 0 ? type : ANY(types, &d);
    w.batch = 1 + below(&d, 2);
    w.key_heads = 1 + below(&d, 2);
    w.heads = w.key_heads * (1 + below(&d, 2));
    w.n = c->small ? ANY(lengths_small, &d) : ANY(lengths_large, &d);
    w.m = c->small ? ANY(lengths_small, &d) : ANY(lengths_large, &d);
    if (!c->small && c->rounds == 0 && below(&d, 12) == 0) {
        w.n = ANY(lengths_huge, &d);
        w.m = ANY(lengths_huge, &d);
        w.batch = w.heads = w.key_heads = 1;
    }
    const bool capped = has_columns(c->method, "capped") || has_columns(c->method, "online");
    if ((capped || has_columns(c->method, "prefix")) && w.n > w.m) {
        const int64_t n = w.n;
        w.n = w.m, w.m = n;
    }
    w.width = ANY(widths, &d);
    w.values_width = ANY(widths, &d);
    w.spread = below(&d, 2) == 0 ? 1.0 : 3.0;
    w.matrix = below(&d, 3) == 0;
    if (w.matrix) w.key_heads = w.heads;
    w.cost = below(&d, 6) == 0;
    /* Where narrow arithmetic chooses by comparison, only exact scores have one answer. */
    const bool stored = has_columns(c->method, "exact") || has_columns(c->method, "capped") ||
                        has_columns(c->method, "bounded");
    w.whole_numbers = strcmp(c->method, "argmax") == 0 || strcmp(c->method, "hard/online:2") == 0 ||
                      (strncmp(c->method, "hard", 4) == 0 && stored && below(&d, 2) == 0);
    if (w.whole_numbers && what == SOFTCAP) w.added = NOTHING;
    if (w.whole_numbers && w.width > 17) w.width = 17;
    w.row_mass = below(&d, 3) == 0;
    w.column_mass =
        below(&d, 3) == 0 && strchr(c->method, '/') != NULL && !has_columns(c->method, "prefix");
    const bool sink = what == SINK || what == SINK_HEADS;
    if (sink && has_columns(c->method, "prefix")) w.added = NOTHING;
    const bool ordered = has_columns(c->method, "prefix") || has_columns(c->method, "online");
    if (below(&d, 5) == 0 && !sink && !ordered && !w.row_mass && !w.column_mass && !capped)
        w.axis = OTA_AXIS_COLUMNS;
    const bool scaling = strncmp(c->method, "softmax/", 8) == 0 && !ordered;
    if (scaling && (c->rounds != 0 || has_columns(c->method, "elastic"))) {
        if (below(&d, 4) == 0) w.start = OTA_SIDE_COLUMNS;
        if (below(&d, 4) == 0) w.end = OTA_SIDE_COLUMNS;
        const bool rounds = c->rounds != OTA_NO_ROUNDS && strstr(c->method, "elastic:0,") == NULL;
        w.warm = rounds && below(&d, 5) == 0 && w.axis == OTA_AXIS_ROWS && w.start == OTA_SIDE_ROWS;
    }
    w.relaxed_rows = has_columns(c->method, "relaxed") && scaling && below(&d, 3) == 0;
    return w;
}

/* ---- the sweep ----------------------------------------------------------------------------------- */

static void try_everywhere(const recipe *w) {
    static drawn x;
    draw(&x, w);
    expect(&x);
    judge_every_level(&x);
    put_away(&x);
}

static void sweep(const char *start, const char *but) {
    const int step = test_step();
    for (int64_t turn = 0; turn < test_scale(); turn++) {
        for (int c = 0; c < CELLS; c++) {
            if (strncmp(cells[c].method, start, strlen(start)) != 0) continue;
            if (but != NULL && strncmp(cells[c].method, but, strlen(but)) == 0) continue;
            for (int k = c % step; k < (int)MASKS + (int)ADDITIONS; k += step) {
                const uint64_t seed = (uint64_t)((turn * CELLS + c) * 64 + k);
                dice d = seed ^ 0x5bd1e995u;
                const mask where = k < MASKS ? (mask)k : (mask)below(&d, MASKS);
                const added what = k < MASKS ? (added)below(&d, ADDITIONS) : (added)(k - MASKS);
                /* every mask and term in its own type and in the next one */
                const recipe w = vary(&cells[c], types[(k + c + turn) % 4], where, what, seed);
                try_everywhere(&w);
            }
        }
    }
}

static void rows_alone(void **unused) {
    (void)unused;
    worst_ratio = 0.0;
    sweep("softmax", "softmax/");
    sweep("entmax:3", NULL);
    sweep("entmax:1.2", NULL);
    sweep("entmax:0.6", NULL);
    sweep("entmax:0.9", NULL);
    sweep("entmax:1.5", "entmax:1.5/");
    sweep("sparsemax", "sparsemax/");
    sweep("argmax", NULL);
    spec_check("LIT-05 LIT-08 LIT-10 LIT-11 TOT-02 TOT-03 TOT-43 TOT-48 BLOG-01 BLOG-02",
               worst_ratio, 1.0);
}

static void entropy_with_coupled_columns(void **unused) {
    (void)unused;
    worst_ratio = 0.0;
    sweep("softmax/exact", NULL);
    sweep("softmax/relaxed", NULL);
    sweep("softmax/capped", NULL);
    sweep("softmax/bounded", NULL);
    sweep("softmax/elastic", NULL);
    spec_check("CETA-02 CETA-07 TOT-08 TOT-12 DER-01 DER-02 DER-03 ELA-09 ELA-10 DER-26 CETA-29",
               worst_ratio, 1.0);
}

static void tsallis_with_coupled_columns(void **unused) {
    (void)unused;
    sweep("entmax:1.5/", "entmax:1.5/o");
    sweep("sparsemax/", NULL);
    sweep("entmax:0.5/", "entmax:0.5/p");
}

static void hard_with_coupled_columns(void **unused) {
    (void)unused;
    worst_ratio = 0.0;
    sweep("hard/", "hard/o");
    spec_check("LIT-06 ELA-14", worst_ratio, 1.0);
}

static void rows_in_order(void **unused) {
    (void)unused;
    worst_ratio = 0.0;
    sweep("softmax/prefix", NULL);
    sweep("softmax/online", NULL);
    sweep("entmax:1.5/o", NULL);
    sweep("entmax:0.5/prefix", NULL);
    sweep("entmax:0.7/", NULL);
    sweep("hard/online", NULL);
    spec_check("DER-04 CETA-26", worst_ratio, 1.0);
}

TEST_FILE(test_forward) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_alone),
        cmocka_unit_test(entropy_with_coupled_columns),
        cmocka_unit_test(tsallis_with_coupled_columns),
        cmocka_unit_test(hard_with_coupled_columns),
        cmocka_unit_test(rows_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
