/* Draws the arrays of the calls: what forward, backward and jvp are given and asked for. Only what the method admits
 * is asked for, but for a few cases that are refused. */
#include "cases.h"

static ota_array wanted(dump_case *c, dump_outputs *to, const char *name,
                        const array_shape *shape) {
    dump_output *o = &to->list[to->count++];
    o->name = name;
    o->array = dump_array(c->memory, &c->dice, shape, any_layout(&c->dice, 0.65, OUTPUT_LAYOUTS),
                          &o->block);
    return o->array;
}

static ota_type any_type(dump_case *c) {
    if (chance(&c->dice, 0.5)) return c->type;
    return (ota_type)between(&c->dice, OTA_F64, OTA_F16);
}

static ota_type wide_type(dump_case *c) { return chance(&c->dice, 0.6) ? OTA_F64 : OTA_F32; }

/* ---- forward ----------------------------------------------------------------------------------------- */

typedef enum wish { EVERYTHING, OUT_ALONE, OUT_AND_LSE, SOME, WISHES } wish;

static bool wishes(dump_case *c, wish what, double share) {
    return what == EVERYTHING || (what == SOME && chance(&c->dice, share));
}

static void draw_forward(dump_case *c) {
    static const double weights[WISHES] = {30.0, 25.0, 12.0, 33.0};
    dice *d = &c->dice;
    ota_arrays *a = &c->arrays;
    dump_outputs *to = &c->forward;
    const wish what = (wish)weighted(d, weights, WISHES);
    const bool differentiated = (c->calls & (DUMP_BACKWARD | DUMP_JVP)) != 0;
    const bool potentials = differentiated && (dump_to_tolerance(c) || chance(d, 0.3));
    const int64_t b = c->batch, h = c->heads, n = c->queries, m = c->keys;
    a->size = sizeof *a;
    const bool values = chance(d, what == SOME ? 0.8 : 0.97);
    if (values) {
        const array_shape shape = shape_of(c->type, b, c->key_heads, m, c->values_width);
        a->values = dump_input(c, &shape, c->rule == WHOLE ? WHOLE : NORMAL, 2.0);
        const array_shape out = shape_of(any_type(c), b, h, n, c->values_width);
        if (what != SOME || chance(d, 0.8)) a->out = wanted(c, to, "out", &out);
    }
    const array_shape pairs = shape_of(any_type(c), b, h, n, m);
    const bool judged = (c->calls & DUMP_CERTIFY) != 0 && chance(d, 0.8);
    if (judged || wishes(c, what, 0.5)) a->coupling = wanted(c, to, "coupling", &pairs);
    const struct {
        const char *name;
        ota_array *array;
        bool of_keys, always;
    } vectors[] = {{"row_potential", &a->row_potential, false, potentials},
                   {"column_potential", &a->column_potential, true, potentials},
                   {"lse", &a->lse, false, what == OUT_AND_LSE},
                   {"receiver", &a->receiver, true, false},
                   {"row_entropy", &a->row_entropy, false, false},
                   {"row_support", &a->row_support, false, false},
                   {"row_max", &a->row_max, false, false},
                   {"sink", &a->sink, false, false}};
    for (size_t k = 0; k < sizeof vectors / sizeof vectors[0]; k++) {
        const ota_type type = vectors[k].always ? OTA_F64 : wide_type(c);
        const array_shape shape = shape_of(type, b, h, 1, vectors[k].of_keys ? m : n);
        if (vectors[k].always || wishes(c, what, 0.3))
            *vectors[k].array = wanted(c, to, vectors[k].name, &shape);
    }
    const array_shape of_keys = shape_of(wide_type(c), b, h, 1, m);
    if (chance(d, dump_to_tolerance(c) ? 0.1 : 0.02)) {
        const bool capped = c->problem.columns == OTA_COLUMNS_CAPPED;
        a->start_potential = dump_input(c, &of_keys, capped ? SHARE : NORMAL, capped ? -0.5 : 0.5);
    }
    const bool online = c->problem.columns == OTA_COLUMNS_ONLINE;
    const bool decoded = (c->calls & DUMP_DECODE) != 0;
    if (online && (decoded || chance(d, differentiated ? 0.05 : 0.5))) {
        const array_shape wide = shape_of(OTA_F64, b, h, 1, m);
        a->remaining = wanted(c, to, "remaining", &wide);
    }
    c->head_count = b * h;
    if (chance(d, 0.6)) {
        const size_t bytes = (size_t)c->head_count * sizeof(ota_head_result);
        a->heads = (ota_head_result *)(void *)dump_lend(c->memory, bytes, 0).start;
    }
}

/* ---- backward and jvp ---------------------------------------------------------------------------------- */

/* Which of the parameters have a derivative here. */
typedef struct admitted {
    bool values, matrix, order, cap, bounds, strength, row_strength, column_mass;
} admitted;

static admitted admits(const dump_case *c) {
    const ota_problem *p = &c->problem;
    const bool caps = p->columns == OTA_COLUMNS_CAPPED || p->columns == OTA_COLUMNS_ONLINE;
    const bool lambda = p->columns == OTA_COLUMNS_ELASTIC && p->lambdas.type == OTA_NO_TYPE &&
                        (p->lambda > 0.0 || p->steps == 0);
    return (admitted){.values = c->arrays.values.type != OTA_NO_TYPE,
                      .matrix = p->scores.type != OTA_NO_TYPE,
                      .order = p->regulariser == OTA_ENTMAX,
                      .cap = caps,
                      .bounds = p->columns == OTA_COLUMNS_BOUNDED,
                      .strength = p->columns == OTA_COLUMNS_RELAXED || lambda,
                      .row_strength = p->rows == OTA_ROWS_RELAXED,
                      .column_mass = p->column_mass.type != OTA_NO_TYPE || caps ||
                                     p->axis == OTA_AXIS_COLUMNS};
}

/* The derivatives of one kind: gradients are outputs, tangents are inputs. */
typedef struct side {
    dump_case *c;
    dump_outputs *to; /* NULL: inputs */
    double chance;    /* that one is asked for */
} side;

static void take(const side *s, const char *name, ota_array *array, bool admitted,
                 const array_shape *shape) {
    dump_case *c = s->c;
    if (!admitted && !chance(&c->dice, 0.0005)) return;
    if (!chance(&c->dice, s->chance)) return;
    if (s->to != NULL)
        *array = wanted(c, s->to, name, shape);
    else
        *array = dump_input(c, shape, NORMAL, 1.0);
}

static void take_terms(const side *s, ota_array *terms) {
    dump_case *c = s->c;
    for (int64_t k = 0; k < c->problem.term_count; k++) {
        const ota_term *t = &c->terms[k];
        const bool given = t->array.type != OTA_NO_TYPE && t->kind != OTA_TERM_SOFTCAP;
        array_shape shape = shape_of(any_type(c), 1, 1, 1, 1);
        if (given) memcpy(shape.size, t->array.size, sizeof shape.size);
        take(s, "term", &terms[k], true, &shape);
    }
}

static array_shape mass_shape(dump_case *c, int64_t length) {
    const ota_type type = any_type(c);
    const int64_t batch = one_or(&c->dice, c->batch), heads = one_or(&c->dice, c->heads);
    return shape_of(type, batch, heads, 1, length);
}

static void draw_backward(dump_case *c) {
    dice *d = &c->dice;
    ota_gradients *g = &c->gradients;
    const admitted has = admits(c);
    const bool plain = chance(d, 0.35); /* queries, keys and values, or the matrix, alone */
    const int64_t b = c->batch, h = c->heads, n = c->queries, m = c->keys;
    const array_shape out = shape_of(any_type(c), b, h, n, c->values_width);
    const array_shape pairs = shape_of(any_type(c), b, h, n, m);
    g->size = sizeof *g;
    if (has.values && chance(d, 0.95)) g->out_grad = dump_input(c, &out, NORMAL, 1.0);
    if (!has.values || chance(d, plain ? 0.05 : 0.4))
        g->coupling_grad = dump_input(c, &pairs, NORMAL, 1.0);
    g->solved = chance(d, 0.25) ? 1 : 0;
    const side first = {c, &c->backward, plain ? 1.0 : 0.8};
    const side rest = {c, &c->backward, plain ? 0.0 : 0.6};
    const array_shape queries = shape_of(any_type(c), b, h, n, c->width);
    const array_shape keys = shape_of(any_type(c), b, c->key_heads, m, c->width);
    const array_shape values = shape_of(any_type(c), b, c->key_heads, m, c->values_width);
    const array_shape scores = shape_of(any_type(c), b, h, n, m);
    const array_shape number = shape_of(any_type(c), 1, 1, 1, 1);
    const int64_t temperatures = one_or(&c->dice, h);
    const array_shape heads = shape_of(any_type(c), 1, 1, 1, temperatures);
    const array_shape of_queries = mass_shape(c, n), of_keys = mass_shape(c, m);
    take(&first, "d queries", &g->queries, !has.matrix, &queries);
    take(&first, "d keys", &g->keys, !has.matrix, &keys);
    take(&first, "d values", &g->values, has.values, &values);
    take(&first, "d matrix", &g->matrix, has.matrix, &scores);
    take(&rest, "d scores", &g->scores, true, &scores);
    take(&rest, "d temperature", &g->temperature, true, &heads);
    take(&rest, "d order", &g->order, has.order, &number);
    take(&rest, "d cap", &g->cap, has.cap, &number);
    if (has.bounds) {
        take(&rest, "d lower", &g->lower, true, &number);
        take(&rest, "d upper", &g->upper, true, &number);
    }
    take(&rest, "d strength", &g->strength, has.strength, &number);
    take(&rest, "d row_strength", &g->row_strength, has.row_strength, &number);
    take(&rest, "d row_mass", &g->row_mass, true, &of_queries);
    take(&rest, "d column_mass", &g->column_mass, has.column_mass, &of_keys);
    take_terms(&rest, c->gradient_terms);
    g->terms = c->problem.term_count > 0 ? c->gradient_terms : NULL;
}

static void draw_jvp(dump_case *c) {
    ota_tangents *t = &c->tangents;
    const admitted has = admits(c);
    const int64_t b = c->batch, h = c->heads, n = c->queries, m = c->keys;
    const side most = {c, NULL, 0.6}, few = {c, NULL, 0.3}, rare = {c, NULL, 0.12};
    const array_shape pairs = shape_of(any_type(c), b, h, n, m);
    const array_shape out = shape_of(any_type(c), b, h, n, c->values_width);
    const array_shape queries = shape_of(any_type(c), b, h, n, c->width);
    const array_shape keys = shape_of(any_type(c), b, c->key_heads, m, c->width);
    const array_shape values = shape_of(any_type(c), b, c->key_heads, m, c->values_width);
    const array_shape number = shape_of(any_type(c), 1, 1, 1, 1);
    const int64_t temperatures = one_or(&c->dice, h);
    const array_shape heads = shape_of(any_type(c), 1, 1, 1, temperatures);
    const array_shape of_queries = mass_shape(c, n), of_keys = mass_shape(c, m);
    t->size = sizeof *t;
    take(&most, "scores", &t->scores, true, &pairs);
    take(&most, "queries", &t->queries, !has.matrix, &queries);
    take(&most, "keys", &t->keys, !has.matrix, &keys);
    take(&most, "matrix", &t->matrix, has.matrix, &pairs);
    take(&most, "values", &t->values, has.values, &values);
    take(&few, "temperature", &t->temperature, true, &heads);
    take(&few, "order", &t->order, has.order, &number);
    take(&few, "cap", &t->cap, has.cap, &number);
    if (has.bounds) {
        take(&few, "lower", &t->lower, true, &number);
        take(&few, "upper", &t->upper, true, &number);
    }
    take(&few, "strength", &t->strength, has.strength, &number);
    take(&few, "row_strength", &t->row_strength, has.row_strength, &number);
    take(&rare, "row_mass", &t->row_mass, true, &of_queries);
    take(&rare, "column_mass", &t->column_mass, has.column_mass, &of_keys);
    take_terms(&few, c->tangent_terms);
    t->terms = c->problem.term_count > 0 ? c->tangent_terms : NULL;
    if (chance(&c->dice, 0.8)) t->coupling = wanted(c, &c->jvp, "t coupling", &pairs);
    if (has.values) t->out = wanted(c, &c->jvp, "t out", &out);
}

void dump_draw_arrays(dump_case *c) {
    draw_forward(c);
    if ((c->calls & DUMP_BACKWARD) != 0) draw_backward(c);
    if ((c->calls & DUMP_JVP) != 0) draw_jvp(c);
    if ((c->calls & DUMP_ROPE) == 0) return;
    const int64_t rows = between(&c->dice, 0, 9), pairs = between(&c->dice, 0, 20);
    const array_shape shape = shape_of(c->type, c->batch, 2, rows, 2 * pairs);
    const ota_array rope = wanted(c, &c->rope, "rope", &shape);
    fill_elements(&rope, &c->dice, NORMAL, 1.0);
}
