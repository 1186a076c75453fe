/* backward_support.h: gradients of drawn problems (problems.h) against central differences of forward.
 *
 *     L = sum out_grad . out + sum coupling_grad . P
 *     dL/dx along v = (8 (L(x + h v) - L(x - h v)) - (L(x + 2h v) - L(x - 2h v))) / (12 h) + O(h^4)
 *
 * A knob is one input and the gradient the library gives for it. Where the active set (support, binding
 * caps, the row that exhausts a key) differs within the step, the direction is drawn anew. Include after
 * problems.h. */
#ifndef TESTS_BACKWARD_SUPPORT_H
#define TESTS_BACKWARD_SUPPORT_H

#include "problems.h"
#include "tolerance.h"

enum { KNOBS = 20, TERMS = 8 };

typedef struct knob {
    const char *name;
    ota_array *input; /* f64, of the problem; NULL: `number` */
    double *number;
    const ota_array *gradient;
    bool balanced; /* only directions that keep the total */
} knob;

typedef struct bench {
    drawn x;
    lender gradients;
    ota_gradients want;
    ota_array terms[TERMS];
    ota_plan *plan;
    knob knobs[KNOBS];
    int count;
    double *copies[16];
    int copy_count;
    dice d;
} bench;

/* What the quick forms of backward answer: gradients of queries, keys, values and row masses. */
static inline ota_gradients inputs_only(const bench *t) {
    return (ota_gradients){.size = sizeof(ota_gradients),
                           .out_grad = t->want.out_grad,
                           .queries = t->want.queries,
                           .keys = t->want.keys,
                           .values = t->want.values,
                           .row_mass = t->want.row_mass};
}

static inline void unguard_inputs(lender *l) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int k = 0; k < l->count; k++) {
        loan *one = &l->loans[k];
        if (one->map_bytes <= 2 * page) continue;
        assert_int_equal(
            mprotect(one->map + page, one->map_bytes - 2 * page, PROT_READ | PROT_WRITE), 0);
    }
}

/* The input in f64, so that a step is what it says. */
static inline void widen(bench *t, ota_array *a) {
    if (a->type == OTA_F64 || !ota_array_present(a)) return;
    const int64_t *s = a->size;
    double *data = calloc((size_t)(s[0] * s[1] * s[2] * s[3]) + 1, sizeof *data);
    assert_non_null(data);
    const ota_array wide = ota_array_of(data, OTA_F64, s[0], s[1], s[2], s[3]);
    for (int64_t b = 0; b < s[0]; b++) {
        for (int64_t h = 0; h < s[1]; h++) {
            for (int64_t i = 0; i < s[2]; i++) {
                for (int64_t j = 0; j < s[3]; j++)
                    ota_array_set(&wide, b, h, i, j, ota_array_get(a, b, h, i, j));
            }
        }
    }
    t->copies[t->copy_count++] = data;
    assert_true(t->copy_count < 16);
    *a = wide;
}

static inline ota_array gradient_array(bench *t, ota_type type, int64_t b, int64_t h, int64_t r,
                                       int64_t c) {
    const layout how = t->x.want.dense_arrays ? DENSE : (layout)below(&t->d, OUTPUT_LAYOUTS);
    return strided(&t->gradients, type, b, h, r, c, how, below(&t->d, 2) == 0);
}

static inline ota_array gradient_like(bench *t, ota_type type, const ota_array *a) {
    return gradient_array(t, type, a->size[0], a->size[1], a->size[2], a->size[3]);
}

static inline void add_knob(bench *t, const char *name, ota_array *input, double *number,
                            const ota_array *gradient, bool balanced) {
    assert_true(t->count < KNOBS);
    t->knobs[t->count++] = (knob){name, input, number, gradient, balanced};
}

/* Draws the problem and asks for every gradient it has, in `type`. */
static inline void set_up(bench *t, const recipe *want, ota_type type, bool coupling) {
    memset(t, 0, sizeof *t);
    t->d = want->seed * 77 + 5;
    draw(&t->x, want);
    unguard_inputs(&t->x.memory);
    const recipe *w = &t->x.want;
    ota_problem *p = &t->x.problem;
    ota_gradients *g = &t->want;
    g->size = sizeof *g;
    g->terms = t->terms;
    const int64_t b = w->batch, h = w->heads;
    g->out_grad = strided(&t->gradients, type, b, h, w->n, w->values_width, DENSE, false);
    fill_elements(&g->out_grad, &t->d, NORMAL, 1.0);
    if (coupling) {
        g->coupling_grad = gradient_array(t, type, b, h, w->n, w->m);
        fill_elements(&g->coupling_grad, &t->d, NORMAL, 1.0);
    }
    const bool exact = p->columns == OTA_COLUMNS_EXACT,
               caps = p->columns == OTA_COLUMNS_CAPPED || p->columns == OTA_COLUMNS_ONLINE;
    bool sink = false;
    for (int64_t k = 0; k < p->term_count; k++) sink |= t->x.terms[k].kind == OTA_TERM_SINK;
    g->scores = gradient_array(t, type, b, h, w->n, w->m);
    if (w->matrix) {
        g->matrix = gradient_array(t, type, b, h, w->n, w->m);
        add_knob(t, "matrix", &p->scores, NULL, &g->matrix, false);
    } else {
        g->queries = gradient_array(t, type, b, h, w->n, w->width);
        g->keys = gradient_array(t, type, b, w->key_heads, w->m, w->width);
        add_knob(t, "queries", &p->queries, NULL, &g->queries, false);
        add_knob(t, "keys", &p->keys, NULL, &g->keys, false);
    }
    g->values = gradient_array(t, type, b, w->key_heads, w->m, w->values_width);
    add_knob(t, "values", &t->x.arrays.values, NULL, &g->values, false);
    for (int64_t k = 0; k < p->term_count; k++) {
        ota_term *term = &t->x.terms[k];
        if (ota_array_present(&term->array)) {
            t->terms[k] = gradient_like(t, type, &term->array);
            widen(t, &term->array);
            add_knob(t, "term array", &term->array, NULL, &t->terms[k], false);
        } else {
            t->terms[k] = gradient_array(t, type, 1, 1, 1, 1);
            add_knob(t, "term number", NULL, &term->value, &t->terms[k], false);
        }
    }
    if (ota_array_present(&p->temperatures)) {
        g->temperature = gradient_array(t, type, 1, 1, 1, h);
        widen(t, &p->temperatures);
        add_knob(t, "temperatures", &p->temperatures, NULL, &g->temperature, false);
    } else {
        g->temperature = gradient_array(t, type, 1, 1, 1, 1);
        add_knob(t, "temperature", NULL, &p->temperature, &g->temperature, false);
    }
    if (p->regulariser == OTA_ENTMAX) {
        g->order = gradient_array(t, type, 1, 1, 1, 1);
        add_knob(t, "order", NULL, &p->order, &g->order, false);
    }
    if (caps) {
        g->cap = gradient_array(t, type, 1, 1, 1, 1);
        add_knob(t, "cap", NULL, &p->cap, &g->cap, false);
    }
    if (p->columns == OTA_COLUMNS_BOUNDED) {
        g->lower = gradient_array(t, type, 1, 1, 1, 1);
        g->upper = gradient_array(t, type, 1, 1, 1, 1);
        if (p->lower > 0.0) add_knob(t, "lower", NULL, &p->lower, &g->lower, false);
        add_knob(t, "upper", NULL, &p->upper, &g->upper, false);
    }
    if (p->columns == OTA_COLUMNS_RELAXED ||
        (p->columns == OTA_COLUMNS_ELASTIC && p->lambda > 0.0)) {
        g->strength = gradient_array(t, type, 1, 1, 1, 1);
        add_knob(t, "strength", NULL, p->columns == OTA_COLUMNS_ELASTIC ? &p->lambda : &p->strength,
                 &g->strength, false);
    }
    if (p->rows == OTA_ROWS_RELAXED) {
        g->row_strength = gradient_array(t, type, 1, 1, 1, 1);
        add_knob(t, "row_strength", NULL, &p->row_strength, &g->row_strength, false);
    }
    const bool given = ota_array_present(&p->column_mass);
    const bool both = exact && !sink && given && ota_array_present(&p->row_mass);
    const bool transposed = p->axis == OTA_AXIS_COLUMNS;
    if (ota_array_present(&p->row_mass)) {
        g->row_mass = gradient_like(t, type, &p->row_mass);
        widen(t, &p->row_mass);
        add_knob(t, "row_mass", &p->row_mass, NULL, &g->row_mass,
                 both || (exact && !sink && (given || transposed)));
    }
    if (given) {
        g->column_mass = gradient_like(t, type, &p->column_mass);
        widen(t, &p->column_mass);
        add_knob(t, "column_mass", &p->column_mass, NULL, &g->column_mass,
                 exact && !sink && !(transposed && !ota_array_present(&p->row_mass)));
    }
    t->x.options.gradients = 1;
    t->x.arrays.row_potential = gradient_array(t, OTA_F64, b, h, 1, w->n);
    t->x.arrays.column_potential = gradient_array(t, OTA_F64, b, h, 1, w->m);
}

static inline void tear_down(bench *t) {
    ota_plan_free(t->plan);
    for (int k = 0; k < t->copy_count; k++) free(t->copies[k]);
    take_back(&t->gradients);
    put_away(&t->x);
}

static inline ota_status make_plan(bench *t) {
    return ota_plan_create(&t->plan, &t->x.problem, t->x.want.values_width, &t->x.options,
                           &t->x.error);
}

static inline ota_status run_forward(bench *t) {
    return ota_forward(t->plan, &t->x.arrays, &t->x.result, &t->x.error);
}

static inline ota_status run_backward(bench *t) {
    return ota_backward(t->plan, &t->x.arrays, &t->want, &t->x.result, &t->x.error);
}

/* ---- sums --------------------------------------------------------------------------------------- */

static inline double inner_product(const ota_array *a, const ota_array *b) {
    double sum = 0.0;
    for (int64_t i = 0; i < a->size[0]; i++) {
        for (int64_t j = 0; j < a->size[1]; j++) {
            for (int64_t k = 0; k < a->size[2]; k++) {
                for (int64_t l = 0; l < a->size[3]; l++) {
                    const double x = ota_array_get(a, i, j, k, l);
                    if (x < 0.0 || x > 0.0) sum += x * ota_array_get(b, i, j, k, l);
                }
            }
        }
    }
    return sum;
}

static inline uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xbf58476d1ce4e5b9u;
}

static inline uint64_t side_of(double g) { return g < 0.0 ? 1u : g > 0.0 ? 2u : 0u; }

/* Which pairs, bounds and capacities are active. */
static inline uint64_t active_set(const bench *t) {
    const ota_problem *p = &t->x.problem;
    const recipe *w = &t->x.want;
    const ota_arrays *a = &t->x.arrays;
    const bool transposed = p->axis == OTA_AXIS_COLUMNS;
    const bool kinks = p->columns == OTA_COLUMNS_CAPPED || p->columns == OTA_COLUMNS_BOUNDED;
    uint64_t hash = 1;
    if (p->regulariser == OTA_SOFTMAX && p->columns != OTA_COLUMNS_CAPPED &&
        p->columns != OTA_COLUMNS_BOUNDED && p->columns != OTA_COLUMNS_ONLINE)
        return hash;
    for (int64_t b = 0; b < w->batch; b++) {
        for (int64_t h = 0; h < w->heads; h++) {
            for (int64_t j = 0; j < w->m; j++) {
                double left = p->cap;
                if (ota_array_present(&p->column_mass))
                    left *= ota_array_get(&p->column_mass, b, h, 0, j);
                for (int64_t i = 0; i < w->n; i++) {
                    const double weight = ota_array_get(&a->coupling, b, h, i, j);
                    left -= weight;
                    const bool empty = p->columns == OTA_COLUMNS_ONLINE && left < 1.0e-11;
                    hash = mix(hash, (weight > 0.0) + 2u * empty);
                }
                if (kinks && !transposed)
                    hash = mix(hash, side_of(ota_array_get(&a->column_potential, b, h, 0, j)));
            }
            for (int64_t i = 0; i < w->n && transposed && kinks; i++)
                hash = mix(hash, side_of(ota_array_get(&a->row_potential, b, h, 0, i)));
        }
    }
    return hash;
}

/* L at the inputs as they are; NaN when forward does not finish well. */
static inline double evaluate(bench *t, uint64_t *active) {
    ota_plan *plan = NULL;
    ota_options options = t->x.options;
    options.threads = 1;
    options.gradients = 0;
    ota_status status =
        ota_plan_create(&plan, &t->x.problem, t->x.want.values_width, &options, &t->x.error);
    if (status == OTA_OK) status = ota_forward(plan, &t->x.arrays, &t->x.result, &t->x.error);
    ota_plan_free(plan);
    if (status != OTA_OK && status != OTA_FIXED_ITERS) return (double)NAN;
    *active = active_set(t);
    double value = inner_product(&t->want.out_grad, &t->x.arrays.out);
    if (ota_array_present(&t->want.coupling_grad))
        value += inner_product(&t->want.coupling_grad, &t->x.arrays.coupling);
    return value;
}

/* ---- directions --------------------------------------------------------------------------------- */

/* The direction of an element depends on where it lies, so that repeated elements move as one. */
static inline double heading(const ota_array *a, uint64_t seed, int64_t b, int64_t h, int64_t i,
                             int64_t j, double mean) {
    const int64_t at = (a->size[0] == 1 ? 0 : b * a->stride[0]) +
                       (a->size[1] == 1 ? 0 : h * a->stride[1]) + i * a->stride[2] +
                       j * a->stride[3];
    dice d = seed + (uint64_t)at * 0x9e3779b97f4a7c15u;
    (void)splitmix64(&d);
    return normal(&d) - mean;
}

static inline double heading_mean(const ota_array *a, uint64_t seed, int64_t b, int64_t h) {
    double sum = 0.0;
    for (int64_t j = 0; j < a->size[3]; j++) sum += heading(a, seed, b, h, 0, j, 0.0);
    return sum / (double)a->size[3];
}

/* x = base + step * v; also sums g . v and (g v)^2 when asked. */
static inline void move(const knob *k, const double *base, double step, uint64_t seed,
                        double *slope, double *square) {
    if (k->input == NULL) {
        *k->number = base[0] + step;
        if (slope != NULL) *slope = ota_array_get(k->gradient, 0, 0, 0, 0);
        if (square != NULL) *square = *slope * *slope;
        return;
    }
    const ota_array *a = k->input;
    const double *from = base;
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            const double mean = k->balanced ? heading_mean(a, seed, b, h) : 0.0;
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t j = 0; j < a->size[3]; j++) {
                    const double v = heading(a, seed, b, h, i, j, mean);
                    ota_array_set(a, b, h, i, j, *from++ + step * v);
                    if (slope == NULL) continue;
                    const double g = ota_array_get(k->gradient, b, h, i, j);
                    *slope += g * v;
                    *square += g * v * g * v;
                }
            }
        }
    }
}

static inline double *keep(const knob *k) {
    if (k->input == NULL) {
        double *one = malloc(sizeof *one);
        assert_non_null(one);
        *one = *k->number;
        return one;
    }
    const ota_array *a = k->input;
    double *base = malloc((size_t)(a->size[0] * a->size[1] * a->size[2] * a->size[3] + 1) *
                          sizeof *base),
           *to = base;
    assert_non_null(base);
    for (int64_t b = 0; b < a->size[0]; b++) {
        for (int64_t h = 0; h < a->size[1]; h++) {
            for (int64_t i = 0; i < a->size[2]; i++) {
                for (int64_t j = 0; j < a->size[3]; j++) *to++ = ota_array_get(a, b, h, i, j);
            }
        }
    }
    return base;
}

/* |slope - difference| in units of what numeric policy 3.3 allows, from L at base + at[q] step;
 * < 0: the direction is not smooth, that is, the active set or the difference itself depends on the step. */
static inline double judge_values(const double value[6], double step, double slope, double square,
                                  double *difference) {
    const double near = value[4] - value[5], middle = value[0] - value[1];
    *difference = (8.0 * near - middle) / (6.0 * step);
    const double coarse = (8.0 * middle - (value[2] - value[3])) / (12.0 * step);
    const double slack = gradient_slack(sqrt(square));
    if (!(fabs(coarse - *difference) <= 0.1 * slack)) return -1.0;
    const double found = fabs(slope - *difference) / slack;
    return isnan(found) ? (double)INFINITY : found;
}

enum { ATTEMPTS = 8 };
static const double steps_at[6] = {1.0, -1.0, 2.0, -2.0, 0.5, -0.5};

/* One knob along a random direction. */
static inline double check_knob(bench *t, const knob *k, double *slope, double *difference) {
    double *base = keep(k);
    uint64_t here = 0;
    (void)evaluate(t, &here);
    double found = -1.0;
    for (int attempt = 0; attempt < ATTEMPTS && found < 0.0; attempt++) {
        const double step = difference_step * pow(0.4, attempt);
        const uint64_t seed = splitmix64(&t->d);
        double value[6], square = 0.0;
        bool smooth = true;
        *slope = 0.0;
        for (int q = 0; q < 6; q++) {
            uint64_t active;
            move(k, base, steps_at[q] * step, seed, q == 0 ? slope : NULL, q == 0 ? &square : NULL);
            value[q] = evaluate(t, &active);
            smooth &= !isnan(value[q]) && active == here;
        }
        if (smooth) found = judge_values(value, step, *slope, square, difference);
    }
    move(k, base, 0.0, 0, NULL, NULL);
    free(base);
    return found;
}

/* All knobs at once, each along a random direction of its own, scaled so that none hides behind another. */
static inline double check_together(bench *t, double *slope, double *difference) {
    double *base[KNOBS];
    uint64_t here = 0;
    (void)evaluate(t, &here);
    for (int k = 0; k < t->count; k++) base[k] = keep(&t->knobs[k]);
    double found = -1.0;
    for (int attempt = 0; attempt < ATTEMPTS && found < 0.0; attempt++) {
        const double step = difference_step * pow(0.4, attempt);
        const uint64_t seed = splitmix64(&t->d);
        double value[6], square = 0.0, share[KNOBS];
        bool smooth = true;
        *slope = 0.0;
        for (int k = 0; k < t->count; k++) {
            double part = 0.0, part_square = 0.0;
            move(&t->knobs[k], base[k], 0.0, seed + (uint64_t)k, &part, &part_square);
            const double size = sqrt(part_square);
            share[k] = size > 1.0 ? 1.0 / size : 1.0;
            *slope += share[k] * part;
            square += share[k] * share[k] * part_square;
        }
        for (int q = 0; q < 6; q++) {
            uint64_t active;
            for (int k = 0; k < t->count; k++)
                move(&t->knobs[k], base[k], steps_at[q] * step * share[k], seed + (uint64_t)k, NULL,
                     NULL);
            value[q] = evaluate(t, &active);
            smooth &= !isnan(value[q]) && active == here;
        }
        if (smooth) found = judge_values(value, step, *slope, square, difference);
    }
    for (int k = 0; k < t->count; k++) {
        move(&t->knobs[k], base[k], 0.0, 0, NULL, NULL);
        free(base[k]);
    }
    return found;
}

#endif
