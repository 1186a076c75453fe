/* libFuzzer on the operator: method, shapes, types, terms, masks, masses, caps and options drawn from bytes; plan, forward,
 * gradients, certificate. What must hold: a refusal has a sentence; a status of a solved problem is one that the header
 * lists; a plan that is called OTA_OK meets what the judge measures of it, as in `otattn bench --random`; a plan that
 * failed is NaN; gradients that are called OTA_OK are finite; and two threads give the bits of one. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz_bytes.h"
#include "otattn.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { SIDE = 7, HEADS = 2, WIDTH = 4, PAIRS = HEADS * SIDE * SIDE, MOST = 4 };

typedef struct fuzz_problem {
    ota_problem problem;
    ota_options options;
    ota_term terms[MOST];
    ota_support supports[MOST];
    ota_type type;
    int64_t heads, n, m, width, values_width;
    bool ordinary; /* every number is finite and neither huge nor tiny */
    double queries[HEADS * SIDE * WIDTH], keys[HEADS * SIDE * WIDTH], scores[PAIRS];
    double values[HEADS * SIDE * WIDTH], dense[PAIRS], line[2 * SIDE], additive[PAIRS];
    double row_mass[SIDE], column_mass[SIDE], caps[PAIRS], temperatures[HEADS];
    float narrow[6][PAIRS * WIDTH]; /* the same numbers where the type is f32 */
    int used;
    unsigned char allowed[PAIRS];
    int64_t lengths[1];
} fuzz_problem;

typedef struct fuzz_answer {
    double out[HEADS * SIDE * WIDTH], coupling[PAIRS], f[HEADS * SIDE], g[HEADS * SIDE];
    double sink[HEADS * SIDE];
    ota_result result;
    ota_status status;
} fuzz_answer;

/* ---- drawing ---- */

static double draw(fuzz_problem *p, fuzz_bytes *b) {
    const double number = fuzz_number(b), size = fabs(number);
    p->ordinary &= number == 0.0 || (size > 1e-4 && size < 1e4);
    return number;
}

static ota_array draw_array(fuzz_problem *p, fuzz_bytes *b, double *data, ota_array array) {
    const int64_t count = array.size[0] * array.size[1] * array.size[2] * array.size[3];
    for (int64_t k = 0; k < count; k++) data[k] = draw(p, b);
    if (p->type != OTA_F32) return array;
    float *narrow = p->narrow[p->used++];
    for (int64_t k = 0; k < count; k++) narrow[k] = (float)data[k];
    return ota_array_of(narrow, OTA_F32, array.size[0], array.size[1], array.size[2],
                        array.size[3]);
}

static ota_array of(double *data, int64_t heads, int64_t rows, int64_t columns) {
    return ota_array_of(data, OTA_F64, 1, heads, rows, columns);
}

static void draw_method(fuzz_problem *p, fuzz_bytes *b, ota_error *error) {
    static const char *const regularisers[] = {"softmax", "entmax:1.5", "sparsemax", "hard",
                                               "entmax:1.25"};
    static const char *const columns[] = {
        "",        "/exact",     "/relaxed:%g",   "/capped:%g",
        "/prefix", "/online:%g", "/elastic:%g,3", "/bounded:0.5,%g"};
    char tail[64], text[96];
    const unsigned regulariser = fuzz_below(b, 5), column = fuzz_below(b, 8);
    const double number = 0.25 * (1 + fuzz_below(b, 16));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(tail, sizeof tail, columns[column], number);
#pragma GCC diagnostic pop
    (void)snprintf(text, sizeof text, "%s%s", regularisers[regulariser], tail);
    (void)ota_method_parse(text, &p->problem, &p->options, error);
    if (p->problem.columns == OTA_COLUMNS_RELAXED && fuzz_below(b, 4) == 0) {
        p->problem.rows = OTA_ROWS_RELAXED;
        p->problem.row_strength = number;
    }
}

static void draw_scores(fuzz_problem *p, fuzz_bytes *b) {
    ota_problem *q = &p->problem;
    p->heads = 1 + fuzz_below(b, HEADS);
    p->n = fuzz_below(b, SIDE + 1);
    p->m = fuzz_below(b, 3) == 0 ? fuzz_below(b, SIDE + 1) : p->n;
    p->width = fuzz_below(b, WIDTH + 1);
    if (fuzz_below(b, 2) == 0) {
        q->scores = draw_array(p, b, p->scores, of(p->scores, p->heads, p->n, p->m));
    } else {
        q->queries = draw_array(p, b, p->queries, of(p->queries, p->heads, p->n, p->width));
        q->keys = draw_array(p, b, p->keys, of(p->keys, 1, p->m, p->width));
    }
    static const double temperatures[] = {0, 1, 0.1, 10, 1e-3, 1e3, 0x1p-500, 0x1p500};
    q->temperature = temperatures[fuzz_below(b, 8)];
    q->cost = fuzz_below(b, 4) == 0;
    q->axis = fuzz_below(b, 8) == 1 ? OTA_AXIS_COLUMNS : OTA_AXIS_ROWS;
    q->corner = (ota_corner)fuzz_below(b, 3);
    if (fuzz_below(b, 8) == 0) {
        for (int h = 0; h < HEADS; h++) p->temperatures[h] = draw(p, b);
        q->temperatures = of(p->temperatures, 1, 1, p->heads);
    }
}

static void draw_terms(fuzz_problem *p, fuzz_bytes *b) {
    ota_problem *q = &p->problem;
    q->terms = p->terms;
    for (unsigned bits = fuzz_next(b); bits != 0 && q->term_count < MOST; bits &= bits - 1) {
        ota_term *term = &p->terms[q->term_count];
        *term = (ota_term){.kind = (ota_term_kind)(1 + __builtin_ctz(bits) % 6)};
        term->value = draw(p, b);
        if (term->kind == OTA_TERM_DENSE) {
            if (q->term_count > 0) continue;
            term->array = draw_array(p, b, p->dense, of(p->dense, p->heads, p->n, p->m));
        }
        if (term->kind == OTA_TERM_RELATIVE || term->kind == OTA_TERM_RELATIVE_INSIDE) {
            if (p->n + p->m == 0) continue;
            term->array = of(p->line, 1, 1, p->n + p->m - 1);
            for (int64_t k = 0; k < p->n + p->m - 1; k++) p->line[k] = draw(p, b);
        }
        q->term_count++;
    }
}

static void draw_supports(fuzz_problem *p, fuzz_bytes *b) {
    ota_problem *q = &p->problem;
    q->supports = p->supports;
    for (unsigned bits = fuzz_next(b); bits != 0 && q->support_count < MOST; bits &= bits - 1) {
        ota_support *support = &p->supports[q->support_count++];
        *support = (ota_support){.kind = (ota_support_kind)(1 + __builtin_ctz(bits) % 7)};
        support->left = (int64_t)fuzz_below(b, 6) - 1;
        support->right = (int64_t)fuzz_below(b, 6) - 1;
        if (support->kind == OTA_SUPPORT_LENGTHS) {
            p->lengths[0] = (int64_t)fuzz_below(b, SIDE + 2);
            support->array = ota_array_of(p->lengths, OTA_I64, 1, 1, 1, 1);
        } else if (support->kind == OTA_SUPPORT_BOOLEAN) {
            for (int k = 0; k < PAIRS; k++) p->allowed[k] = k % 8 == 0 || fuzz_below(b, 4) > 0;
            support->array = ota_array_of(p->allowed, OTA_BOOL, 1, p->heads, p->n, p->m);
        } else if (support->kind == OTA_SUPPORT_ADDITIVE) {
            for (int k = 0; k < PAIRS; k++)
                p->additive[k] = fuzz_below(b, 4) == 0 ? -INFINITY : draw(p, b);
            support->array = of(p->additive, p->heads, p->n, p->m);
        }
    }
}

static void draw_masses(fuzz_problem *p, fuzz_bytes *b) {
    ota_problem *q = &p->problem;
    const unsigned kinds = fuzz_next(b);
    if (kinds % 4 == 1) {
        for (int k = 0; k < SIDE; k++) p->row_mass[k] = fabs(draw(p, b));
        q->row_mass = of(p->row_mass, 1, 1, p->n);
    }
    if (kinds / 4 % 4 == 1) {
        for (int k = 0; k < SIDE; k++) p->column_mass[k] = fabs(draw(p, b));
        q->column_mass = of(p->column_mass, 1, 1, p->m);
    }
    if (kinds / 16 % 8 == 1) q->entry_cap = fabs(draw(p, b));
    if (kinds / 16 % 8 == 2) {
        for (int k = 0; k < PAIRS; k++) p->caps[k] = fabs(draw(p, b));
        q->entry_caps = of(p->caps, p->heads, p->n, p->m);
    }
}

static void draw_options(fuzz_problem *p, fuzz_bytes *b) {
    ota_options *o = &p->options;
    const unsigned bits = fuzz_next(b);
    o->max_rounds = 64;
    o->strict = bits % 8 == 1;
    o->prune = bits / 8 % 4 == 1;
    o->allow_partial = bits / 32 % 2 == 1;
    const unsigned more = fuzz_next(b);
    if (more % 4 == 1) o->rounds = 1 + more / 64;
    if (more % 32 == 2) o->rounds = OTA_NO_ROUNDS;
    o->backend = more / 4 % 8 == 1 ? "plain" : NULL;
    o->cpu = more / 32 % 4 == 1 ? "portable" : NULL;
    const unsigned last = fuzz_next(b);
    o->solver = last % 8 == 1 ? ota_solver_name((int)(last / 8 % 16)) : NULL;
    o->precision = (ota_precision)(last % 5 == 1 ? last / 5 % 3 : 0);
    o->center = (ota_center)(last % 7 == 1 ? last / 7 % 3 : 0);
    o->relaxation_auto = last % 11 == 1;
    o->gradients = 1;
    o->threads = 1;
}

/* ---- judging ---- */

static double unit(const fuzz_problem *p, const fuzz_answer *a) {
    return p->type == OTA_F64 || a->result.promoted ? 0x1p-53 : 0x1p-24;
}

static void complain(const fuzz_problem *p, const fuzz_answer *a, const char *what, double number) {
    char name[128];
    (void)ota_method_name(&p->problem, name, sizeof name);
    (void)fprintf(stderr, "%s: %s is %.17g; status %d '%s'\n", name, what, number, (int)a->status,
                  a->result.sentence);
    abort();
}

/* Largest exponent that the judge forms from rounded numbers: scores, potentials, over the temperature. */
static double reach(const fuzz_problem *p, const fuzz_answer *a) {
    double most = 0.0;
    for (int64_t k = 0; k < p->heads * p->n; k++)
        if (isfinite(a->f[k])) most = fmax(most, fabs(a->f[k]));
    for (int64_t k = 0; k < p->heads * p->m; k++)
        if (isfinite(a->g[k])) most = fmax(most, fabs(a->g[k]));
    return most + 1e4 * (1 + WIDTH) * (p->problem.queries.type != OTA_NO_TYPE ? 1e4 : 1);
}

static void judge(const fuzz_problem *p, const fuzz_answer *a, const ota_arrays *arrays) {
    ota_error error = {.message = ""};
    ota_certificate c = {.size = sizeof c};
    const ota_status status = ota_certify(&p->problem, &p->options, arrays, &c, NULL, &error);
    if (status < 0 && error.message[0] == '\0') complain(p, a, "a sentence of certify", 0);
    if (status < 0 && p->ordinary) complain(p, a, "certify", status);
    if (status < 0 || a->status != OTA_OK || !p->ordinary) return;
    const ota_column_rule columns = p->problem.columns;
    const double tau = p->problem.temperature > 0 ? p->problem.temperature : 1;
    if (tau < 1e-4 || tau > 1e4 || p->problem.temperatures.type != OTA_NO_TYPE) return;
    const double u = unit(p, a);
    const double tolerance = p->type == OTA_F64 ? 1e-9 : 1e-5;
    const double allowed =
        tolerance + 4 * (8 * u + u * fmin(reach(p, a) / tau, 1e9)) * fmax(1, c.receiver_max);
    if (c.nonfinite_rows > 0) complain(p, a, "nonfinite_rows", (double)c.nonfinite_rows);
    if (p->problem.axis == OTA_AXIS_ROWS && !(c.row_error <= allowed))
        complain(p, a, "row_error", c.row_error);
    const bool bound = columns == OTA_COLUMNS_EXACT || columns == OTA_COLUMNS_CAPPED ||
                       columns == OTA_COLUMNS_ONLINE || columns == OTA_COLUMNS_RELAXED ||
                       columns == OTA_COLUMNS_BOUNDED;
    if (bound && p->problem.axis == OTA_AXIS_ROWS && !(c.column_error <= allowed))
        complain(p, a, "column_error", c.column_error);
    if (!(c.minimum >= 0)) complain(p, a, "minimum", c.minimum);
    if (!(c.outside <= 0)) complain(p, a, "outside", c.outside);
    if (!(c.cap_error <= 16 * u * (1 + p->problem.entry_cap)))
        complain(p, a, "cap_error", c.cap_error);
}

static ota_arrays arrays_of(fuzz_problem *p, fuzz_answer *a) {
    ota_arrays arrays = {.size = sizeof arrays};
    arrays.coupling = of(a->coupling, p->heads, p->n, p->m);
    arrays.row_potential = of(a->f, p->heads, 1, p->n);
    arrays.column_potential = of(a->g, p->heads, 1, p->m);
    arrays.sink = of(a->sink, p->heads, 1, p->n);
    if (p->values_width > 0) {
        const int64_t key_heads = p->problem.keys.type != OTA_NO_TYPE ? 1 : p->heads;
        arrays.values = of(p->values, key_heads, p->m, p->values_width);
        if (p->type == OTA_F32)
            arrays.values =
                ota_array_of(p->narrow[5], OTA_F32, 1, key_heads, p->m, p->values_width);
        arrays.out = of(a->out, p->heads, p->n, p->values_width);
    }
    return arrays;
}

static void differentiate(fuzz_problem *p, const fuzz_answer *a, ota_plan *plan,
                          const ota_arrays *arrays, fuzz_bytes *b) {
    static double grad[PAIRS], scores[PAIRS];
    const int64_t pairs = p->heads * p->n * p->m;
    ota_error error = {.message = ""};
    ota_result result = {.size = sizeof result};
    for (int k = 0; k < PAIRS; k++) grad[k] = (double)fuzz_below(b, 9) - 4.0;
    const ota_gradients gradients = {.size = sizeof gradients,
                                     .coupling_grad = of(grad, p->heads, p->n, p->m),
                                     .scores = of(scores, p->heads, p->n, p->m)};
    const ota_status status = ota_backward(plan, arrays, &gradients, &result, &error);
    if (status < 0 && error.message[0] == '\0' && result.sentence[0] == '\0') abort();
    for (int64_t k = 0; status == OTA_OK && p->ordinary && k < pairs; k++)
        if (!isfinite(scores[k])) complain(p, a, "a gradient by a score", scores[k]);
}

static ota_status solve(fuzz_problem *p, fuzz_answer *a, fuzz_bytes *b) {
    ota_plan *plan = NULL;
    ota_error error = {.message = ""};
    ota_status status = ota_plan_create(&plan, &p->problem, p->values_width, &p->options, &error);
    if (status < 0) {
        if (error.message[0] == '\0' || plan != NULL) abort();
        return status;
    }
    const ota_arrays arrays = arrays_of(p, a);
    a->result = (ota_result){.size = sizeof a->result};
    a->status = ota_forward(plan, &arrays, &a->result, &error);
    if (a->status < 0 && error.message[0] == '\0' && a->result.sentence[0] == '\0') abort();
    if (a->status > OTA_NONFINITE_ROWS) abort();
    if (a->status >= OTA_OK && b != NULL) {
        judge(p, a, &arrays);
        differentiate(p, a, plan, &arrays, b);
    }
    ota_plan_free(plan);
    return a->status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static fuzz_problem p;
    static fuzz_answer one, two;
    fuzz_bytes b = {bytes, size};
    ota_error error = {.message = ""};
    memset(&p, 0, sizeof p);
    memset(&one, 0, sizeof one);
    p.problem.size = sizeof p.problem;
    p.options.size = sizeof p.options;
    p.ordinary = true;
    p.type = fuzz_below(&b, 3) == 0 ? OTA_F32 : OTA_F64;
    draw_method(&p, &b, &error);
    draw_options(&p, &b);
    draw_scores(&p, &b);
    draw_terms(&p, &b);
    draw_supports(&p, &b);
    draw_masses(&p, &b);
    /* Gradients by scores grow as 1 / temperature, and may be larger than the largest f32. */
    if (p.problem.temperature > 0 && p.problem.temperature < 1e-9) p.ordinary = false;
    p.values_width = fuzz_below(&b, WIDTH + 1);
    for (int k = 0; k < HEADS * SIDE * WIDTH; k++) {
        p.values[k] = draw(&p, &b);
        p.narrow[5][k] = (float)p.values[k];
    }
    const ota_status status = solve(&p, &one, &b);
    if (one.result.size == 0) return 0;
    for (int64_t k = 0; status < OTA_OK && k < p.heads * p.n * p.m; k++)
        if (status != OTA_EINVAL && p.heads == 1 && !isnan(one.coupling[k]))
            complain(&p, &one, "a weight of a failed plan", one.coupling[k]);
    if (size % 16 != 0) return 0;
    memset(&two, 0, sizeof two);
    p.options.threads = 2;
    if (solve(&p, &two, NULL) != status) complain(&p, &two, "the status of two threads", status);
    if (memcmp(one.coupling, two.coupling, sizeof one.coupling) != 0 ||
        memcmp(one.out, two.out, sizeof one.out) != 0)
        complain(&p, &two, "bits of two threads", 0);
    return 0;
}
