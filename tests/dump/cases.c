/* Draws the problem of a case: method, sizes, scores, supports, terms. Weights are such that every cell, strategy
 * and solver is met often and most cases have an answer. */
#include "cases.h"

/* ---- methods ----------------------------------------------------------------------------------------- */

typedef struct cell {
    ota_regulariser regulariser;
    ota_column_rule columns;
    double weight;
    bool heavy; /* costs far more than its pairs: kept small */
} cell;

/* The last four are refused. */
static const cell cells[] = {
    {OTA_SOFTMAX, OTA_COLUMNS_FREE, 18.0, false},    {OTA_SOFTMAX, OTA_COLUMNS_EXACT, 17.0, false},
    {OTA_SOFTMAX, OTA_COLUMNS_RELAXED, 11.0, false}, {OTA_SOFTMAX, OTA_COLUMNS_CAPPED, 8.0, false},
    {OTA_SOFTMAX, OTA_COLUMNS_ELASTIC, 9.0, false},  {OTA_SOFTMAX, OTA_COLUMNS_PREFIX, 3.0, true},
    {OTA_SOFTMAX, OTA_COLUMNS_ONLINE, 5.0, false},   {OTA_ENTMAX, OTA_COLUMNS_FREE, 9.0, false},
    {OTA_ENTMAX, OTA_COLUMNS_EXACT, 3.0, true},      {OTA_ENTMAX, OTA_COLUMNS_RELAXED, 3.0, true},
    {OTA_ENTMAX, OTA_COLUMNS_CAPPED, 3.0, true},     {OTA_ENTMAX, OTA_COLUMNS_PREFIX, 1.0, true},
    {OTA_ENTMAX, OTA_COLUMNS_ONLINE, 2.5, false},    {OTA_HARD, OTA_COLUMNS_FREE, 3.0, false},
    {OTA_HARD, OTA_COLUMNS_EXACT, 3.0, true},        {OTA_HARD, OTA_COLUMNS_CAPPED, 3.0, true},
    {OTA_HARD, OTA_COLUMNS_PREFIX, 1.5, true},       {OTA_HARD, OTA_COLUMNS_ONLINE, 2.0, false},
    {OTA_CUSTOM, OTA_COLUMNS_FREE, 3.0, false},      {OTA_ENTMAX, OTA_COLUMNS_ELASTIC, 0.1, false},
    {OTA_HARD, OTA_COLUMNS_RELAXED, 0.1, false},     {OTA_HARD, OTA_COLUMNS_ELASTIC, 0.1, false},
    {OTA_CUSTOM, OTA_COLUMNS_EXACT, 0.1, false},
};
enum { CELLS = (int)(sizeof cells / sizeof cells[0]) };

/* Of the cases from DUMP_BOUNDED on: later rules do not change the cases before them. */
static const cell bounded[] = {{OTA_SOFTMAX, OTA_COLUMNS_BOUNDED, 6.0, false},
                               {OTA_ENTMAX, OTA_COLUMNS_BOUNDED, 2.0, true},
                               {OTA_HARD, OTA_COLUMNS_BOUNDED, 2.0, true}};
enum { BOUNDED = (int)(sizeof bounded / sizeof bounded[0]) };

/* Clipped squares: sparsemax written by a caller. */
static double custom_weight(void *user, double x) {
    (void)user;
    return x > 0.0 ? x : 0.0;
}
static double custom_slope(void *user, double x) {
    (void)user;
    return x > 0.0 ? 1.0 : 0.0;
}
static double custom_value(void *user, double p) {
    (void)user;
    return 0.5 * p * p;
}

static const cell *draw_cell(dump_case *c) {
    const bool late = c->number >= DUMP_BOUNDED;
    const cell *from = late ? bounded : cells;
    const int count = late ? BOUNDED : CELLS;
    double weights[CELLS];
    for (int k = 0; k < count; k++) weights[k] = from[k].weight;
    const cell *row = &from[weighted(&c->dice, weights, count)];
    ota_problem *p = &c->problem;
    dice *d = &c->dice;
    p->size = sizeof *p;
    p->regulariser = row->regulariser;
    p->columns = row->columns;
    if (row->regulariser == OTA_ENTMAX) p->order = ONE_OF(d, 0.0, 1.5, 2.0, 2.0, 1.25, 3.0);
    if (row->regulariser == OTA_CUSTOM) {
        p->custom.weight = custom_weight;
        p->custom.slope = custom_slope;
        p->custom.value = chance(d, 0.7) ? custom_value : NULL;
    }
    const bool ordered = row->columns == OTA_COLUMNS_PREFIX || row->columns == OTA_COLUMNS_ONLINE;
    if (!ordered && row->regulariser != OTA_CUSTOM && chance(d, 0.09)) p->axis = OTA_AXIS_COLUMNS;
    c->plain = chance(d, 0.5);
    if (row->regulariser == OTA_SOFTMAX && row->columns != OTA_COLUMNS_FREE && !ordered &&
        !c->plain) {
        if (chance(d, 0.12)) p->start = OTA_SIDE_COLUMNS;
        if (chance(d, 0.12)) p->end = OTA_SIDE_COLUMNS;
    }
    if (row->columns == OTA_COLUMNS_RELAXED) {
        p->strength = ONE_OF(d, 0.3, 1.0, 5.0);
        if (row->regulariser == OTA_SOFTMAX && chance(d, 0.35)) {
            p->rows = OTA_ROWS_RELAXED;
            p->row_strength = ONE_OF(d, 0.5, 1.25, 4.0);
        }
    }
    if (row->columns == OTA_COLUMNS_BOUNDED) {
        p->lower = ONE_OF(d, 0.0, 0.3, 0.5, 0.8, 0.95, 1.0);
        p->upper = p->lower < 1.0 ? ONE_OF(d, 1.0, 1.1, 1.5, 2.0, 4.0) : 1.0;
    }
    if (row->columns == OTA_COLUMNS_ELASTIC) {
        p->lambda = ONE_OF(d, 0.0, 0.3, 0.5, 1.0, 1.0, 1.5);
        p->steps = (int64_t)ONE_OF(d, 0.0, 1.0, 2.0, 4.0, 8.0);
    }
    return row;
}

/* ---- sizes ------------------------------------------------------------------------------------------- */

static void draw_sizes(dump_case *c, const cell *row) {
    static const double weights[DUMP_SIZE_KINDS] = {4.0, 46.0, 11.0, 18.0, 2.5, 13.0, 6.0};
    dice *d = &c->dice;
    const bool coupled =
        row->regulariser == OTA_SOFTMAX &&
        (row->columns == OTA_COLUMNS_EXACT || row->columns == OTA_COLUMNS_RELAXED ||
         row->columns == OTA_COLUMNS_CAPPED || row->columns == OTA_COLUMNS_BOUNDED);
    const bool prefix = row->columns == OTA_COLUMNS_PREFIX;
    c->kind = (dump_size_kind)weighted(d, weights, DUMP_SIZE_KINDS);
    if (c->kind == DUMP_LEAD && !coupled) c->kind = DUMP_MIDDLE;
    c->key_heads = between(d, 1, chance(d, 0.5) ? 1 : 3);
    int64_t group = chance(d, 0.25) ? between(d, 2, 3) : 1;
    c->batch = chance(d, 0.6) ? 1 : between(d, 2, 5);
    switch (c->kind) {
    case DUMP_EDGE:
        c->queries = below(d, 4), c->keys = below(d, 4);
        if (chance(d, 0.1)) c->batch = 0;
        break;
    case DUMP_SMALL:
        c->queries = between(d, 1, 20), c->keys = between(d, 1, 20);
        if (chance(d, 0.5)) c->keys = c->queries;
        break;
    case DUMP_LANES:
        c->queries = between(d, 4, 16), c->keys = between(d, 4, 16);
        if (chance(d, 0.5)) c->keys = c->queries;
        c->key_heads = (int64_t)ONE_OF(d, 40.0, 20.0, 9.0, 5.0);
        group = 1;
        if (c->key_heads > 9) c->batch = 1;
        break;
    case DUMP_MIDDLE:
        c->queries = between(d, 65, 200), c->keys = between(d, 65, 200);
        if (row->heavy) c->queries = between(d, 20, 60), c->keys = between(d, 20, 60);
        if (prefix) c->queries = between(d, 17, 28), c->keys = between(d, 17, 28);
        if (chance(d, 0.4)) c->keys = c->queries;
        c->batch = chance(d, 0.85) ? 1 : 2, c->key_heads = 1, group = group > 1 ? 2 : 1;
        break;
    case DUMP_LARGE:
        c->queries = between(d, 257, 400), c->keys = between(d, 129, 400);
        if (row->heavy) c->queries = 70, c->keys = between(d, 65, 100);
        if (prefix) c->queries = 20, c->keys = between(d, 30, 50);
        c->batch = c->key_heads = group = 1;
        break;
    case DUMP_FEW:
        c->queries = between(d, 1, 4);
        c->keys = between(d, 20, row->heavy ? 100 : 600);
        c->batch = chance(d, 0.7) ? 1 : 2;
        break;
    case DUMP_LEAD:
        c->queries = between(d, 128, 170), c->keys = between(d, 128, 170);
        c->batch = 1, c->key_heads = 1, group = 1;
        break;
    case DUMP_SIZE_KINDS:
    default: break;
    }
    c->heads = c->key_heads * group;
    if (row->columns == OTA_COLUMNS_PREFIX && c->queries > c->keys && chance(d, 0.97)) {
        const int64_t queries = c->queries;
        c->queries = c->keys;
        c->keys = queries;
    }
    c->width = (int64_t)ONE_OF(d, 0.0, 1.0, 3.0, 3.0, 8.0, 8.0, 16.0, 16.0, 33.0, 64.0, 64.0);
    c->values_width = (int64_t)ONE_OF(d, 0.0, 1.0, 5.0, 5.0, 5.0, 32.0, 32.0, 32.0, 64.0, 64.0);
}

/* ---- scores ------------------------------------------------------------------------------------------ */

static ota_array input(void *owner, const array_shape *shape, rule how, double parameter,
                       bool own) {
    dump_case *c = owner;
    const layout lies = any_layout(&c->dice, 0.6, own ? OUTPUT_LAYOUTS : LAYOUTS);
    const ota_array a = dump_array(c->memory, &c->dice, shape, lies, NULL);
    fill_elements(&a, &c->dice, how, parameter);
    return a;
}

ota_array dump_input(dump_case *c, const array_shape *shape, rule rule, double parameter) {
    return input(c, shape, rule, parameter, false);
}

draft dump_draft(dump_case *c, ota_problem *problem) {
    return (draft){.dice = &c->dice,
                   .batch = c->batch,
                   .heads = c->heads,
                   .key_heads = c->key_heads,
                   .queries = c->queries,
                   .keys = c->keys,
                   .width = c->width,
                   .problem = problem,
                   .terms = c->terms,
                   .supports = c->supports,
                   .input = input,
                   .owner = c};
}

/* Puts a few NaN, infinities or numbers of +-1e4 among the elements. */
static void poke(dump_case *c, const ota_array *a) {
    static const uint64_t words[] = {0x7ff8000000000000u, 0x7ff0000000000000u, 0xfff0000000000000u,
                                     0x40c3880000000000u, 0xc0c3880000000000u};
    if (has_no_elements(a)) return;
    for (int64_t k = between(&c->dice, 1, 3); k > 0; k--) {
        int64_t at[4];
        double value;
        for (int q = 0; q < 4; q++) at[q] = below(&c->dice, a->size[q]);
        memcpy(&value, &words[below(&c->dice, 5)], sizeof value);
        element_set(a, at, value);
    }
}

void dump_draw_scores(dump_case *c, ota_problem *p, bool matrix) {
    const draft to = dump_draft(c, p);
    const score_wish wish = {c->type, matrix, c->rule, c->spread,
                             c->rule == NORMAL ? 1.0 : c->spread};
    draft_scores(&to, &wish);
    if (!c->extreme) return;
    poke(c, matrix ? &p->scores : chance(&c->dice, 0.5) ? &p->queries : &p->keys);
}

static void draw_contents(dump_case *c) {
    static const double weights[] = {80.0, 10.0, 3.0, 2.0, 2.0};
    dice *d = &c->dice;
    c->rule = NORMAL;
    c->spread = ONE_OF(d, 0.3, 1.0, 1.0, 2.0, 4.0);
    switch (weighted(d, weights, 5)) {
    case 1: c->rule = WHOLE, c->spread = 2.0; break;
    case 2: c->spread = 1e4; break;
    case 3: c->rule = TINY; break;
    case 4: c->rule = ALL_OF, c->spread = 0.5; break;
    default: break;
    }
    c->extreme = chance(d, 0.04);
    const int type = weighted(d, (const double[]){36.0, 36.0, 14.0, 14.0}, 4);
    c->type = (ota_type)(OTA_F64 + type);
    bool matrix = chance(d, 0.35);
    ota_problem *p = &c->problem;
    if (c->kind == DUMP_LEAD) {
        c->type = OTA_F64, c->rule = NORMAL, c->spread = 3.0, c->extreme = false;
        matrix = true;
    }
    if (matrix) c->key_heads = c->heads, c->width = 0;
    dump_draw_scores(c, p, matrix);
    if (chance(d, 0.15)) p->scale = ONE_OF(d, 0.3, 1.2, -0.7);
    p->cost = chance(d, 0.1) ? 1 : 0;
    p->temperature = ONE_OF(d, 0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.2, 0.1, 2.0);
    if (chance(d, 0.02)) p->temperature = ONE_OF(d, 1e-3, 1e-2, 100.0);
    if (c->kind == DUMP_LEAD) p->temperature = ONE_OF(d, 0.3, 0.5, 1.0);
    if (chance(d, 0.08)) {
        const array_shape shape = shape_of(chance(d, 0.6) ? OTA_F64 : OTA_F32, 1, 1, 1, c->heads);
        p->temperature = 0.0;
        p->temperatures = dump_input(c, &shape, MASS, 1.0);
    }
}

/* ---- supports ---------------------------------------------------------------------------------------- */

static void draw_support(dump_case *c) {
    static const double weights[] = {0.0, 26.0, 14.0, 8.0, 10.0, 10.0, 18.0, 14.0};
    dice *d = &c->dice;
    const int64_t batch = one_or(d, c->batch), heads = one_or(d, c->heads);
    array_shape pairs = shape_of(OTA_BOOL, batch, heads, c->queries, c->keys);
    support_wish wish = {.kind = (ota_support_kind)weighted(d, weights, 8)};
    const bool strict =
        c->problem.columns == OTA_COLUMNS_EXACT || c->problem.columns == OTA_COLUMNS_PREFIX;
    wish.parameter = strict ? 0.9 : 0.75;
    switch (wish.kind) {
    case OTA_SUPPORT_WINDOW:
        wish.left = chance(d, 0.2) ? -1 : between(d, strict ? 3 : 0, 12);
        wish.right = chance(d, 0.4) ? -1 : between(d, strict ? 3 : 0, 6);
        break;
    case OTA_SUPPORT_STRIDED: wish.left = between(d, 1, 4); break;
    case OTA_SUPPORT_BLOCK:
        if (!chance(d, 0.5)) wish.left = between(d, 1, 20);
        break;
    case OTA_SUPPORT_LENGTHS: break;
    case OTA_SUPPORT_BOOLEAN:
        if (chance(d, 0.25)) pairs.size[2] = 1;
        if (chance(d, 0.2)) pairs.size[3] = 1;
        wish.pairs = pairs, wish.how = COIN;
        break;
    case OTA_SUPPORT_ADDITIVE:
        pairs.type = chance(d, 0.5) ? c->type : (ota_type)between(d, OTA_F64, OTA_F16);
        if (chance(d, 0.2)) pairs.size[2] = 1;
        wish.pairs = pairs, wish.how = SHUT;
        break;
    case OTA_SUPPORT_CAUSAL:
    default: wish.kind = OTA_SUPPORT_CAUSAL; break;
    }
    const draft to = dump_draft(c, &c->problem);
    draft_support(&to, &wish);
}

static void draw_supports(dump_case *c) {
    dice *d = &c->dice;
    ota_problem *p = &c->problem;
    const bool strict = p->columns == OTA_COLUMNS_EXACT || p->columns == OTA_COLUMNS_PREFIX;
    p->corner = chance(d, 0.5) ? OTA_TOP_LEFT : OTA_BOTTOM_RIGHT;
    if (chance(d, 0.03)) p->corner = OTA_CORNER_UNSET;
    if (!chance(d, c->kind == DUMP_LEAD ? 0.1 : strict ? 0.25 : 0.5)) return;
    int64_t count = chance(d, 0.75) ? 1 : between(d, 2, 3);
    if (strict) count = 1;
    for (; count > 0; count--) draw_support(c);
}

/* ---- terms ------------------------------------------------------------------------------------------- */

static void draw_term(dump_case *c, ota_term_kind kind) {
    dice *d = &c->dice;
    ota_problem *p = &c->problem;
    for (int64_t k = 0; k < p->term_count; k++) {
        if (c->terms[k].kind == kind && kind != OTA_TERM_DENSE) return;
    }
    const draft to = dump_draft(c, p);
    const ota_type type = chance(d, 0.5) ? c->type : (ota_type)between(d, OTA_F64, OTA_F16);
    const array_shape heads = shape_of(OTA_F64, 1, 1, 1, c->heads);
    term_wish wish = {.kind = kind, .how = NORMAL, .parameter = 1.0};
    switch (kind) {
    case OTA_TERM_DENSE:
        wish.array.type = type;
        wish.array.size[0] = one_or(d, c->batch);
        wish.array.size[1] = one_or(d, c->heads);
        wish.array.size[2] = chance(d, 0.25) ? 1 : c->queries;
        wish.array.size[3] = chance(d, 0.15) ? 1 : c->keys;
        wish.how = chance(d, 0.1) ? SHUT : NORMAL;
        wish.parameter = 0.9;
        break;
    case OTA_TERM_ALIBI:
        if (chance(d, 0.5))
            wish.array = heads, wish.how = SHARE, wish.parameter = 0.5;
        else
            wish.value = 0.25;
        break;
    case OTA_TERM_RELATIVE:
    case OTA_TERM_RELATIVE_INSIDE:
        wish.array = shape_of(type, 1, one_or(d, c->heads), 1, draft_differences(&to));
        break;
    case OTA_TERM_SOFTCAP: wish.value = ONE_OF(d, 1.5, 5.0, 30.0); break;
    case OTA_TERM_SINK:
        c->sink = true;
        if (chance(d, 0.5))
            wish.array = heads, wish.array.type = OTA_F32;
        else
            wish.value = 0.5;
        break;
    default: break;
    }
    draft_term(&to, &wish);
}

static void draw_terms(dump_case *c) {
    dice *d = &c->dice;
    if (c->kind == DUMP_LEAD || !chance(d, 0.45)) return;
    for (int64_t count = chance(d, 0.7) ? 1 : between(d, 2, 4); count > 0; count--) {
        const ota_term_kind kind = (ota_term_kind)between(d, OTA_TERM_DENSE, OTA_TERM_SINK);
        const bool sinkless =
            c->problem.axis == OTA_AXIS_COLUMNS || c->problem.columns == OTA_COLUMNS_PREFIX;
        if (kind == OTA_TERM_SINK && sinkless && chance(d, 0.95)) continue;
        draw_term(c, kind);
    }
}

/* ---- a case ---------------------------------------------------------------------------------------- */

void dump_draw(dump_case *c, dump_memory *memory, int64_t number) {
    memset(c, 0, sizeof *c);
    memory->used = 0;
    c->number = number;
    c->memory = memory;
    c->dice = splitmix64_mix((uint64_t)number + 0x5851f42d4c957f2du);
    const cell *row = draw_cell(c);
    draw_sizes(c, row);
    draw_contents(c);
    draw_terms(c);
    draw_supports(c);
    dump_draw_masses(c);
    dump_draw_options(c);
    dump_draw_calls(c);
    dump_draw_arrays(c);
}
