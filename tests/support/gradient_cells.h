/* gradient_cells.h: every differentiable cell, under each mask with each choice of masses, terms, layouts and
 * axes in turn. What the tests of backward and of jvp walk. Include after cmocka.h. */
#ifndef TESTS_GRADIENT_CELLS_H
#define TESTS_GRADIENT_CELLS_H

#include "backward_support.h"

/* `least`: of the MASKS x MASSES problems these at least are solved: SOME where not every mask has a plan, as under exact columns. */
typedef struct cell {
    const char *ids, *method;
    int least;
    bool rounds; /* fixed rounds: unrolled */
} cell;

/* No masses, row masses, column masses, both. */
enum { MASSES = 4, ALL = MASKS * MASSES, SOME = ALL / 3 };

static const cell rows_alone[] = {{"LIT-17 LIT-21", "softmax", ALL, false},
                                  {"DER-12", "sparsemax", ALL, false},
                                  {"DER-12", "entmax:1.5", ALL, false},
                                  {"DER-12", "entmax:1.25", ALL, false},
                                  {"DER-12", "entmax:0.6", ALL, false}};
static const cell coupled[] = {{"DER-13", "softmax/exact", SOME, false},
                               {"DER-14", "softmax/relaxed:0.7", ALL, false},
                               {"DER-14", "softmax/capped:1.3", ALL, false},
                               {"DER-14", "softmax/bounded:0.5,1.7", SOME, false},
                               {"DER-12 DER-14", "entmax:1.5/bounded:0.4,1.9", SOME, false},
                               {"DER-12 DER-14", "sparsemax/bounded:0.3,2.1", SOME, false},
                               {"DER-12 DER-14", "entmax:1.5/exact", SOME, false},
                               {"DER-12 DER-14", "sparsemax/exact", SOME, false},
                               {"DER-12 DER-14", "entmax:1.5/relaxed:0.8", ALL, false},
                               {"DER-12 DER-14", "sparsemax/relaxed:0.8", ALL, false},
                               {"DER-12 DER-14", "sparsemax/capped:1.4", ALL, false},
                               {"DER-12 DER-14", "entmax:1.3/capped:1.4", ALL, false},
                               {"DER-12 DER-14", "entmax:0.5/exact", SOME, false},
                               {"DER-12 DER-14", "entmax:0.7/relaxed:0.8", ALL, false},
                               {"DER-12 DER-14", "entmax:0.7/capped:1.4", ALL, false},
                               {"DER-12 DER-14", "entmax:3/exact", SOME, false},
                               {"DER-12 DER-14", "entmax:3/relaxed:0.8", ALL, false},
                               {"DER-12 DER-14", "entmax:3/capped:1.4", ALL, false}};
static const cell in_order[] = {
    {"DER-14", "softmax/prefix", SOME, false},      {"DER-14", "entmax:1.5/prefix", SOME, false},
    {"DER-14", "sparsemax/prefix", SOME, false},    {"DER-12", "softmax/online:1.3", ALL, false},
    {"DER-12", "sparsemax/online:1.3", ALL, false}, {"DER-12", "entmax:1.5/online:1.4", ALL, false},
    {"DER-14", "entmax:0.7/prefix", SOME, false},   {"DER-12", "entmax:0.7/online:1.4", ALL, false},
    {"DER-14", "entmax:3/prefix", SOME, false}};
static const cell in_rounds[] = {{"DER-15", "softmax/exact", SOME, true},
                                 {"DER-15", "softmax/relaxed:0.7", ALL, true},
                                 {"DER-15", "softmax/capped:1.3", ALL, true},
                                 {"DER-15", "softmax/bounded:0.8,1.3", ALL, true},
                                 {"DER-15", "softmax/elastic:0.4,3", ALL, true}};

/* What fixed rounds do beside the plain update. */
static inline void set_schedule(ota_options *o, int schedule) {
    if (schedule == 1) o->anneal_start = 2.0, o->anneal_rounds = 1;
    if (schedule == 2) o->relaxation = 1.3;
    if (schedule == 3) o->anneal_start = 1.7, o->anneal_factor = 0.6, o->anneal_keep_scaling = 1;
    if (schedule == 3) o->anneal_rounds = 2;
}

static inline bool has_sink(const recipe *w) { return w->added == SINK || w->added == SINK_HEADS; }

static inline recipe recipe_of(const cell *c, uint64_t seed) {
    const bool matrix = seed % 5 == 3;
    return (recipe){.method = c->method,
                    .type = OTA_F64,
                    .out_type = OTA_F64,
                    .batch = 2,
                    .heads = 2,
                    .key_heads = matrix ? 2 : 1,
                    .n = 5,
                    .m = seed % 3 == 0 ? 5 : 7,
                    .width = 3,
                    .values_width = 2,
                    .added = (added)((seed + seed / ADDITIONS) % ADDITIONS),
                    .matrix = matrix,
                    .tolerance = 1e-12,
                    .temperature = 0.8,
                    .spread = 1.0,
                    .seed = seed};
}

/* The problem of one mask and choice of masses, everything else in turn. */
static inline recipe vary(const cell *c, mask where, int masses, uint64_t seed) {
    const bool softmax = strncmp(c->method, "softmax", 7) == 0;
    const bool exact = strstr(c->method, "/exact") != NULL;
    const bool order = strstr(c->method, "/prefix") != NULL || strstr(c->method, "/online") != NULL;
    const bool free = strchr(c->method, '/') == NULL, prefix = strstr(c->method, "/prefix") != NULL;
    recipe w = recipe_of(c, seed);
    w.mask = where;
    w.row_mass = masses % 2 == 1;
    w.column_mass = masses >= 2 && !free && !prefix;
    if (prefix && has_sink(&w)) w.added = NOTHING;
    w.relaxed_rows = softmax && strstr(c->method, "/relaxed") != NULL && seed % 3 == 1;
    if ((seed % 7 == 0 || seed % 12 == 0) && !has_sink(&w) && !order) {
        w.axis = OTA_AXIS_COLUMNS;
        /* Every key has the mass 1 unless it is given, so the masses of queries alone need not add up. */
        if (exact || free) w.row_mass = w.column_mass;
    }
    if (!c->rounds) return w;
    w.rounds = strstr(c->method, "/elastic") != NULL ? 0 : 1 + (int64_t)(seed % 4);
    w.start = seed % 3 == 1 ? OTA_SIDE_COLUMNS : OTA_SIDE_ROWS;
    w.end = seed % 4 >= 2 ? OTA_SIDE_COLUMNS : OTA_SIDE_ROWS;
    w.warm = seed % 6 == 0 && w.axis == OTA_AXIS_ROWS;
    return w;
}

/* Is every allowed pair on some plan? If not, weights of the size of rounding decide which pairs a plan of
 * order 2 counts as used, and every step meets a kink. */
static inline bool decided(const recipe *want) {
    if (strcmp(want->method, "sparsemax/exact") != 0 &&
        strcmp(want->method, "sparsemax/prefix") != 0)
        return true;
    recipe w = *want;
    w.method = strstr(want->method, "/exact") != NULL ? "softmax/exact" : "softmax/prefix";
    w.tolerance = 1e-6;
    drawn *x = malloc(sizeof *x);
    assert_non_null(x);
    draw(x, &w);
    const bool found = solve(x) == OTA_OK;
    put_away(x);
    free(x);
    return found;
}

/* What a test does with every cell of a table; check_cell is the test's own. */
#define CHECK_CELLS(table)                                                                         \
    for (size_t k = 0; k < sizeof(table) / sizeof(table)[0]; k++) check_cell(&(table)[k])

#endif
