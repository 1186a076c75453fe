/* test_derivative_refusals.c: what backward and jvp refuse of a gradient or tangent that does not fit: status, field and reason,
 * with no output touched; what is no fault is carried out. Tangents follow the rules of the gradients of their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw/random.h"
#include "problem/problem.h"
#include "groups.h"
#include "problem/fields.h"

static dice dice_state;

enum { BATCH = 2, HEADS = 2, N = 3, M = 4, W = 2, V = 5, DIFFERENCES = N + M - 1 };
/* Of every array, so that what begins on one array ends before the next. */
enum { ROOM = BATCH * HEADS * M * V };

typedef struct bench {
    double q[ROOM], k[ROOM], s[ROOM], v[ROOM], mu[ROOM], nu[ROOM], caps[ROOM], lambdas[ROOM];
    double temperatures[ROOM], start[ROOM], bias[ROOM], relative[ROOM], sink[ROOM], mask[ROOM];
    double out[ROOM], f[ROOM], g[ROOM], out_grad[ROOM], moved[ROOM], spare[ROOM], other[ROOM];
    ota_problem problem;
    ota_options options;
    ota_arrays arrays;
    ota_gradients want;
    ota_tangents tangents;
    ota_term terms[4];
    ota_support supports[2];
    ota_array of_terms[4];
    ota_plan *plan;
    ota_error error;
} bench;

static ota_array pairs_of(double *data) { return ota_array_of(data, OTA_F64, BATCH, HEADS, N, M); }
static ota_array line_of(double *data, int64_t length) {
    return ota_array_of(data, OTA_F64, 1, 1, 1, length);
}
static ota_array rows_of(double *data, int64_t heads, int64_t length) {
    return ota_array_of(data, OTA_F64, BATCH, heads, 1, length);
}

static void fill(double *x) {
    for (int k = 0; k < ROOM; k++) x[k] = normal(&dice_state);
}

static bench *start(const char *method, bool matrix) {
    static bench room;
    bench *t = &room;
    memset(t, 0, sizeof *t);
    dice_state = 11;
    double *const drawn[] = {t->q, t->k, t->s, t->v, t->out_grad, t->bias, t->relative};
    for (size_t k = 0; k < sizeof drawn / sizeof drawn[0]; k++) fill(drawn[k]);
    for (int k = 0; k < ROOM; k++) {
        t->mu[k] = 1.0;
        t->nu[k] = (double)N / (double)M;
        t->temperatures[k] = 0.9;
        t->caps[k] = t->lambdas[k] = 0.5;
    }
    t->problem = (ota_problem){.size = sizeof t->problem, .terms = t->terms};
    t->problem.supports = t->supports;
    t->options = (ota_options){.size = sizeof t->options, .gradients = 1, .threads = 1};
    assert_int_equal(ota_method_parse(method, &t->problem, &t->options, &t->error), OTA_OK);
    if (matrix) {
        t->problem.scores = pairs_of(t->s);
    } else {
        t->problem.queries = ota_array_of(t->q, OTA_F64, BATCH, HEADS, N, W);
        t->problem.keys = ota_array_of(t->k, OTA_F64, BATCH, HEADS, M, W);
    }
    t->arrays = (ota_arrays){.size = sizeof t->arrays};
    t->arrays.values = ota_array_of(t->v, OTA_F64, BATCH, HEADS, M, V);
    t->arrays.out = ota_array_of(t->out, OTA_F64, BATCH, HEADS, N, V);
    t->arrays.row_potential = rows_of(t->f, HEADS, N);
    t->arrays.column_potential = rows_of(t->g, HEADS, M);
    t->want = (ota_gradients){.size = sizeof t->want};
    t->tangents = (ota_tangents){.size = sizeof t->tangents};
    return t;
}

static void solve(bench *t) {
    const int64_t width = ota_array_present(&t->arrays.values) ? V : 0;
    ota_status status = OTA_OK;
    if (t->plan == NULL)
        status = ota_plan_create(&t->plan, &t->problem, width, &t->options, &t->error);
    if (status >= OTA_OK) status = ota_forward(t->plan, &t->arrays, NULL, &t->error);
    if (status < OTA_OK) fail_msg("%s", t->error.message);
    for (int k = 0; k < ROOM; k++) t->spare[k] = t->other[k] = t->moved[k] = 7.0;
}

static ota_status derive(bench *t, bool tangents) {
    memset(&t->error, 0, sizeof t->error);
    return tangents ? ota_jvp(t->plan, &t->arrays, &t->tangents, NULL, &t->error)
                    : ota_backward(t->plan, &t->arrays, &t->want, NULL, &t->error);
}

static void expect(bench *t, bool tangents, ota_status wanted, const char *field,
                   const char *words) {
    double before[3][ROOM];
    memcpy(before[0], t->spare, sizeof before[0]);
    memcpy(before[1], t->other, sizeof before[1]);
    memcpy(before[2], t->moved, sizeof before[2]);
    const ota_status status = derive(t, tangents);
    if (status != wanted || strcmp(t->error.field, field) != 0 ||
        strstr(t->error.message, words) == NULL)
        fail_msg("%s: status %d, field '%s', '%s'; wanted %d, '%s', '%s'",
                 tangents ? "jvp" : "backward", (int)status, t->error.field, t->error.message,
                 (int)wanted, field, words);
    if (wanted == OTA_OK) return;
    assert_true(strlen(t->error.hint) > 0);
    assert_memory_equal(before[0], t->spare, sizeof before[0]);
    assert_memory_equal(before[1], t->other, sizeof before[1]);
    assert_memory_equal(before[2], t->moved, sizeof before[2]);
}

static void end(bench *t) {
    ota_plan_free(t->plan);
    t->plan = NULL;
}

/* ---- fields -------------------------------------------------------------------------------------- */

typedef struct field {
    const char *of_gradient, *of_tangent;
    size_t gradient, tangent;
    int64_t size[4];
    bool given; /* to backward: an input */
} field;

#define FIELD(name, ...)                                                                           \
    {                                                                                              \
#name, #name, offsetof(ota_gradients, name), offsetof(ota_tangents, name),                 \
            {__VA_ARGS__ }, false                                                                  \
    }

enum {
    OUT,
    PAIRS,
    QUERIES,
    KEYS,
    VALUES,
    SCORES,
    MATRIX,
    TEMPERATURE,
    ORDER,
    CAP,
    STRENGTH,
    ROW_STRENGTH,
    LOWER,
    UPPER,
    ROW_MASS,
    COLUMN_MASS,
    FIELDS
};

static const field fields[FIELDS] = {
    [OUT] = {"out_grad",
             "out",
             offsetof(ota_gradients, out_grad),
             offsetof(ota_tangents, out),
             {BATCH, HEADS, N, V},
             true},
    [PAIRS] = {"coupling_grad",
               "coupling",
               offsetof(ota_gradients, coupling_grad),
               offsetof(ota_tangents, coupling),
               {BATCH, HEADS, N, M},
               true},
    [QUERIES] = FIELD(queries, BATCH, HEADS, N, W),
    [KEYS] = FIELD(keys, BATCH, HEADS, M, W),
    [VALUES] = FIELD(values, BATCH, HEADS, M, V),
    [SCORES] = FIELD(scores, BATCH, HEADS, N, M),
    [MATRIX] = FIELD(matrix, BATCH, HEADS, N, M),
    [TEMPERATURE] = FIELD(temperature, 1, 1, 1, HEADS),
    [ORDER] = FIELD(order, 1, 1, 1, 1),
    [CAP] = FIELD(cap, 1, 1, 1, 1),
    [STRENGTH] = FIELD(strength, 1, 1, 1, 1),
    [ROW_STRENGTH] = FIELD(row_strength, 1, 1, 1, 1),
    [LOWER] = FIELD(lower, 1, 1, 1, 1),
    [UPPER] = FIELD(upper, 1, 1, 1, 1),
    [ROW_MASS] = FIELD(row_mass, BATCH, HEADS, 1, N),
    [COLUMN_MASS] = FIELD(column_mass, BATCH, HEADS, 1, M),
};

/* An array that is a row of the library's table is tried here too. */
static void every_derivative_is_among_the_fields(void **state) {
    (void)state;
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        const ota_derivative *row = &ota_derivatives[k];
        int found = 0;
        for (int f = 0; f < FIELDS; f++)
            found += fields[f].gradient == row->gradient_at &&
                     fields[f].tangent == row->tangent_at && fields[f].given == row->upstream;
        assert_int_equal(found, ota_derivative_is_array(k));
    }
}

static const char *name_of(const field *f, bool tangents) {
    return tangents ? f->of_tangent : f->of_gradient;
}

static ota_array *place_of(bench *t, const field *f, bool tangents) {
    return (ota_array *)(void *)(tangents ? (char *)&t->tangents + f->tangent
                                          : (char *)&t->want + f->gradient);
}

static ota_array *set(bench *t, int which, bool tangents) {
    const field *f = &fields[which];
    ota_array *a = place_of(t, f, tangents);
    *a = ota_array_of(t->spare, OTA_F64, f->size[0], f->size[1], f->size[2], f->size[3]);
    return a;
}

/* ---- what has no gradient ------------------------------------------------------------------------ */

static void as_it_is(bench *t) { (void)t; }
static void no_values(bench *t) { t->arrays.values = t->arrays.out = (ota_array){0}; }
static void own_lambdas(bench *t) { t->problem.lambdas = line_of(t->lambdas, M); }
static void given_masses(bench *t) { t->problem.column_mass = line_of(t->nu, M); }
static void turned(bench *t) {
    t->problem.axis = OTA_AXIS_COLUMNS;
    if (t->problem.columns == OTA_COLUMNS_EXACT)
        for (int k = 0; k < ROOM; k++) t->nu[k] = 1.0;
}
static void loose_rows(bench *t) {
    t->problem.rows = OTA_ROWS_RELAXED;
    t->problem.row_strength = 0.7;
}

typedef struct cell {
    const char *method;
    void (*change)(bench *t);
    int field;
    const char *words; /* NULL: there is one */
    bool matrix;
} cell;

static const cell cells[] = {
    {"softmax", no_values, OUT, "arrays.values are absent", false},
    {"softmax", no_values, VALUES, "arrays.values are absent", false},
    {"softmax", no_values, SCORES, NULL, false},
    {"softmax", as_it_is, QUERIES, "the problem has a matrix of scores; ask for matrix", true},
    {"softmax", as_it_is, KEYS, "the problem has a matrix of scores; ask for matrix", true},
    {"softmax", as_it_is, MATRIX, "the problem has queries and keys, no matrix", false},
    {"softmax", as_it_is, MATRIX, NULL, true},
    {"softmax", as_it_is, ORDER, "only entmax has an order", false},
    {"entmax:1.5", as_it_is, ORDER, NULL, false},
    {"softmax/exact", as_it_is, CAP, "only capped and online columns have a cap", false},
    {"softmax/online:2", as_it_is, CAP, NULL, false},
    {"softmax/capped:2", as_it_is, STRENGTH, "only relaxed and elastic columns have one", false},
    {"softmax/relaxed:1", as_it_is, STRENGTH, NULL, false},
    {"softmax/elastic:.5,2", own_lambdas, STRENGTH, "every key has a lambda of its own", false},
    {"softmax/elastic:.5,2", as_it_is, STRENGTH, NULL, false},
    {"softmax/elastic:0,2", as_it_is, STRENGTH, "lambda = 0 was solved as softmax", false},
    {"softmax/elastic:0,0", as_it_is, STRENGTH, NULL, false},
    {"softmax/relaxed:1", as_it_is, LOWER, "only bounded columns have bounds", false},
    {"softmax/relaxed:1", as_it_is, UPPER, "only bounded columns have bounds", false},
    {"softmax/bounded:.5,2", as_it_is, UPPER, NULL, false},
    {"softmax", as_it_is, ROW_STRENGTH, "the rows are exact", false},
    {"softmax/relaxed:1", loose_rows, ROW_STRENGTH, NULL, false},
    {"softmax", as_it_is, COLUMN_MASS, "the problem has no column_mass", false},
    {"softmax/exact", as_it_is, COLUMN_MASS, "the problem has no column_mass", false},
    {"softmax/exact", given_masses, COLUMN_MASS, NULL, false},
    {"softmax/capped:2", as_it_is, COLUMN_MASS, NULL, false},
    {"softmax/exact", turned, COLUMN_MASS, NULL, false},
};

static void what_has_no_gradient_is_refused(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) {
        const cell *c = &cells[k];
        bench *t = start(c->method, c->matrix);
        c->change(t);
        solve(t);
        for (int tangents = 0; tangents < 2; tangents++) {
            (void)set(t, c->field, tangents);
            if (c->words == NULL)
                expect(t, tangents, OTA_OK, "", "");
            else
                expect(t, tangents, OTA_EINVAL, name_of(&fields[c->field], tangents), c->words);
        }
        end(t);
    }
}

/* ---- arrays that do not fit ---------------------------------------------------------------------- */

static void no_data(ota_array *a) { a->data = NULL; }
static void off_by_a_byte(ota_array *a) { a->data = (char *)a->data + 1; }
static void of_integers(ota_array *a) { a->type = OTA_I64; }
static void of_no_type(ota_array *a) { a->type = (ota_type)0; }
static void one_more(ota_array *a) { a->size[3]++; }
static void one_less(ota_array *a) { a->size[2]--; }
static void least_stride(ota_array *a) { a->stride[0] = INT64_MIN; }
static void product_too_large(ota_array *a) { a->stride[3] = INT64_MAX; }
static void reaches_too_far(ota_array *a) { a->stride[3] = INT64_MAX / 64 + 1; }
static void reaches_too_far_back(ota_array *a) { a->stride[3] = -(INT64_MAX / 64) - 1; }
static void on_itself(ota_array *a) { a->stride[3] = 0; }

typedef struct fault {
    void (*make)(ota_array *a);
    ota_status status;
    const char *words;
    bool of_outputs; /* what only reads may do so */
} fault;

static const fault faults[] = {
    {no_data, OTA_EINVAL, "has no data", false},
    {off_by_a_byte, OTA_EALIGN, "is not aligned to 8 bytes", false},
    {of_integers, OTA_EINVAL, "wanted f64, f32, bf16 or f16", false},
    {of_no_type, OTA_EINVAL, "wanted f64, f32, bf16 or f16", false},
    {one_more, OTA_EINVAL, "is needed", false},
    {one_less, OTA_EINVAL, "is needed", false},
    {least_stride, OTA_EOVERFLOW, "spans more than 2^57 elements", false},
    {product_too_large, OTA_EOVERFLOW, "spans more than 2^57 elements", false},
    {reaches_too_far, OTA_EOVERFLOW, "spans more than 2^57 elements", false},
    {reaches_too_far_back, OTA_EOVERFLOW, "spans more than 2^57 elements", false},
    {on_itself, OTA_EALIAS, "overlaps itself", true},
};

static void arrays_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const int of[] = {OUT, PAIRS, QUERIES, KEYS, VALUES, SCORES, TEMPERATURE};
    enum { OF = sizeof of / sizeof of[0] };
    for (size_t k = 0; k < sizeof faults / sizeof faults[0] * OF; k++) {
        const fault *f = &faults[k / OF];
        const field *one = &fields[of[k % OF]];
        bench *t = start("softmax", false);
        solve(t);
        for (int tangents = 0; tangents < 2; tangents++) {
            /* What backward reads jvp writes, and the other way round. */
            const bool reads = one->given != (tangents == 1);
            const bool fine = f->status == OTA_OK || (f->of_outputs && reads);
            f->make(set(t, of[k % OF], tangents));
            expect(t, tangents, fine ? OTA_OK : f->status, fine ? "" : name_of(one, tangents),
                   fine ? "" : f->words);
        }
        end(t);
    }
}

/* The shape that is given and the one that is needed, number by number. */
static void both_shapes_are_told(void **state) {
    (void)state;
    static const int64_t want[4] = {BATCH, HEADS, N, M};
    for (int d = 0; d < 4; d++) {
        bench *t = start("softmax", false);
        solve(t);
        ota_array *scores = set(t, SCORES, false);
        scores->size[d] = 1;
        char words[96];
        (void)snprintf(words, sizeof words,
                       "scores has shape [%d, %d, %d, %d] where [%d, %d, %d, %d] is needed",
                       (int)scores->size[0], (int)scores->size[1], (int)scores->size[2],
                       (int)scores->size[3], (int)want[0], (int)want[1], (int)want[2],
                       (int)want[3]);
        expect(t, false, OTA_EINVAL, "scores", words);
        end(t);
    }
}

/* One mass a row for all batches and heads, one temperature for all heads: their gradients are sums. */
static void gradients_may_be_sums(void **state) {
    (void)state;
    static const struct {
        int field, dimension;
        ota_status status;
    } table[] = {{ROW_MASS, 0, OTA_OK},
                 {ROW_MASS, 1, OTA_OK},
                 {ROW_MASS, 3, OTA_EINVAL},
                 {TEMPERATURE, 3, OTA_OK},
                 {SCORES, 1, OTA_EINVAL}};
    for (size_t k = 0; k < sizeof table / sizeof table[0]; k++) {
        bench *t = start("entmax:1.5", false);
        solve(t);
        t->want.out_grad = ota_array_of(t->out_grad, OTA_F64, BATCH, HEADS, N, V);
        for (int part = 0; part < 2; part++) {
            ota_array *a = set(t, table[k].field, false);
            a->data = part == 0 ? t->spare : t->other;
            if (part == 1)
                *a = ota_array_of(t->other, OTA_F64, table[k].dimension == 0 ? 1 : a->size[0],
                                  table[k].dimension == 1 ? 1 : a->size[1], a->size[2],
                                  table[k].dimension == 3 ? 1 : a->size[3]);
            const bool fine = part == 0 || table[k].status == OTA_OK;
            expect(t, false, fine ? OTA_OK : table[k].status,
                   fine ? "" : fields[table[k].field].of_gradient, fine ? "" : "is needed");
            if (!fine) break;
        }
        double whole = 0.0, part = 0.0;
        const int64_t *size = fields[table[k].field].size;
        const int64_t all = size[0] * size[1] * size[2] * size[3];
        for (int64_t j = 0; j < all && table[k].status == OTA_OK; j++) whole += t->spare[j];
        for (int64_t j = 0; j < all / size[table[k].dimension] && table[k].status == OTA_OK; j++)
            part += t->other[j];
        assert_true(fabs(whole - part) <= 64.0 * 0x1p-53 * (double)all * (1.0 + fabs(whole)));
        end(t);
    }
}

/* ---- outputs that lie on others ------------------------------------------------------------------ */

/* A problem that reads every array there may be. */
static void read_all(bench *t) {
    const bool matrix = t->problem.queries.type == 0;
    int64_t *terms = &t->problem.term_count;
    t->problem.row_mass = line_of(t->mu, N);
    t->problem.temperatures = line_of(t->temperatures, HEADS);
    if (t->problem.columns == OTA_COLUMNS_EXACT) {
        t->problem.column_mass = line_of(t->nu, M);
        t->arrays.start_potential = rows_of(t->start, HEADS, M);
    }
    if (t->problem.columns == OTA_COLUMNS_ELASTIC) t->problem.lambdas = line_of(t->lambdas, M);
    if (t->problem.columns == OTA_COLUMNS_FREE) {
        t->problem.entry_caps = ota_array_of(t->caps, OTA_F64, 1, 1, N, M);
        t->terms[(*terms)++] = (ota_term){.kind = OTA_TERM_SINK, .array = line_of(t->sink, HEADS)};
    }
    t->terms[(*terms)++] = (ota_term){.kind = OTA_TERM_DENSE, .array = line_of(t->bias, M)};
    t->terms[(*terms)++] =
        (ota_term){.kind = matrix ? OTA_TERM_RELATIVE : OTA_TERM_RELATIVE_INSIDE,
                   .array = ota_array_of(t->relative, OTA_F64, 1, HEADS, 1, DIFFERENCES)};
    t->supports[t->problem.support_count++] =
        (ota_support){.kind = OTA_SUPPORT_ADDITIVE, .array = pairs_of(t->mask)};
}

typedef struct overlap {
    const char *method, *words;
    size_t place; /* of the memory, in the bench */
    bool matrix;
} overlap;

static const overlap overlaps[] = {
    {"softmax", "overlaps queries", offsetof(bench, q), false},
    {"softmax", "overlaps keys", offsetof(bench, k), false},
    {"softmax", "overlaps scores", offsetof(bench, s), true},
    {"softmax", "overlaps row_mass", offsetof(bench, mu), false},
    {"softmax/exact", "overlaps column_mass", offsetof(bench, nu), false},
    {"softmax", "overlaps entry_caps", offsetof(bench, caps), false},
    {"softmax/elastic:.5,2", "overlaps lambdas", offsetof(bench, lambdas), false},
    {"softmax", "overlaps temperatures", offsetof(bench, temperatures), true},
    {"softmax", "overlaps values", offsetof(bench, v), false},
    {"softmax", "overlaps row_potential", offsetof(bench, f), false},
    {"softmax/exact", "overlaps column_potential", offsetof(bench, g), true},
    {"softmax/exact", "overlaps start_potential", offsetof(bench, start), false},
    {"softmax", "overlaps terms", offsetof(bench, bias), false},
    {"softmax/exact", "overlaps terms", offsetof(bench, relative), true},
    {"softmax", "overlaps sink", offsetof(bench, sink), false},
    {"softmax/exact", "overlaps supports", offsetof(bench, mask), false},
};

static void outputs_on_what_is_read_are_refused(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof overlaps / sizeof overlaps[0]; k++) {
        const overlap *o = &overlaps[k];
        bench *t = start(o->method, o->matrix);
        read_all(t);
        solve(t);
        double *const place = (double *)(void *)((char *)t + o->place);
        set(t, TEMPERATURE, false)->data = place;
        expect(t, false, OTA_EALIAS, "temperature", o->words);
        set(t, PAIRS, true)->data = place;
        expect(t, true, OTA_EALIAS, "coupling", o->words);
        end(t);
    }
}

/* Of gradients, or tangents, among each other; terms' own come last in backward and first in jvp. */
static void outputs_on_each_other_are_refused(void **state) {
    (void)state;
    bench *t = start("softmax", false);
    read_all(t);
    solve(t);
    t->want.terms = t->of_terms;
    t->tangents.terms = t->of_terms;
    t->want.out_grad = ota_array_of(t->other, OTA_F64, BATCH, HEADS, N, V);
    set(t, QUERIES, false)->data = t->other;
    expect(t, false, OTA_EALIAS, "queries", "gradient queries overlaps out_grad");
    set(t, QUERIES, false);
    set(t, KEYS, false);
    expect(t, false, OTA_EALIAS, "keys", "gradient keys overlaps queries");
    t->want.keys = (ota_array){0};
    t->of_terms[1] = line_of(t->spare, M);
    expect(t, false, OTA_EALIAS, "terms", "gradient terms overlaps queries");
    t->of_terms[1].data = t->moved;
    t->of_terms[2] = ota_array_of(t->moved, OTA_F64, 1, HEADS, 1, DIFFERENCES);
    expect(t, false, OTA_EALIAS, "terms", "gradient terms overlaps another term's gradient");
    t->of_terms[2].size[3]++;
    expect(t, false, OTA_EINVAL, "relative_bias", "is needed");
    t->of_terms[2] = (ota_array){0};
    expect(t, false, OTA_OK, "", "");

    t->of_terms[1].data = t->spare;
    set(t, PAIRS, true);
    expect(t, true, OTA_EALIAS, "coupling", "tangent coupling overlaps the tangent of a term");
    t->of_terms[1].data = t->moved;
    set(t, KEYS, true);
    expect(t, true, OTA_EALIAS, "coupling", "tangent coupling overlaps keys");
    t->tangents.keys = (ota_array){0};
    set(t, OUT, true);
    expect(t, true, OTA_EALIAS, "out", "tangent out overlaps coupling");
    t->tangents.out.data = t->other;
    expect(t, true, OTA_OK, "", "");
    end(t);
}

/* ---- what forward left --------------------------------------------------------------------------- */

static void potentials_are_needed(void **state) {
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        float narrow[ROOM];
        bench *t = start("softmax/exact", false);
        if (turn == 1) turned(t);
        solve(t);
        ota_array *const both[] = {&t->arrays.column_potential, &t->arrays.row_potential};
        static const char *const names[] = {"column_potential", "row_potential"};
        for (int k = 0; k < 2; k++) {
            const bool needed = k == 0 || turn == 1;
            const ota_array kept = *both[k];
            for (int tangents = 0; tangents < 2; tangents++) {
                set(t, tangents ? PAIRS : TEMPERATURE, tangents);
                *both[k] = (ota_array){0};
                expect(t, tangents, needed ? OTA_EINVAL : OTA_OK, needed ? names[k] : "",
                       needed ? "is absent; the implicit backward starts from it" : "");
                *both[k] = ota_array_of(narrow, OTA_F32, BATCH, HEADS, 1, k == 0 ? M : N);
                expect(t, tangents, needed ? OTA_EINVAL : OTA_OK, needed ? names[k] : "",
                       needed ? "is not f64" : "");
                *both[k] = kept;
            }
        }
        end(t);
    }
}

/* A plan that goes on with a term of another shape solves it, and backward, whose sums have their sizes, says so. */
static void terms_keep_the_shapes_that_sums_were_made_for(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {
        {1, 1, 1, M}, {1, 1, N, M}, {BATCH, HEADS, N, M}, {1, 1, 1, 1}, {1, HEADS, 1, M}};
    enum { SHAPES = 5 };
    for (int k = 0; k < SHAPES * SHAPES; k++) {
        const int64_t *first = shapes[k / SHAPES], *then = shapes[k % SHAPES];
        bench *t = start("softmax", false);
        t->terms[0] = (ota_term){.kind = OTA_TERM_DENSE};
        t->problem.term_count = 1;
        t->terms[0].array = ota_array_of(t->bias, OTA_F64, first[0], first[1], first[2], first[3]);
        solve(t);
        t->terms[0].array = ota_array_of(t->bias, OTA_F64, then[0], then[1], then[2], then[3]);
        assert_int_equal(ota_plan_rebind(t->plan, &t->problem, &t->error), OTA_OK);
        solve(t);
        double once[ROOM];
        memcpy(once, t->out, sizeof once);
        set(t, QUERIES, false);
        t->want.out_grad = ota_array_of(t->out_grad, OTA_F64, BATCH, HEADS, N, V);
        if (k / SHAPES == k % SHAPES)
            expect(t, false, OTA_OK, "", "");
        else
            expect(t, false, OTA_EINVAL, "terms", "term 0 has another shape");
        end(t);
        solve(t);
        assert_memory_equal(once, t->out, sizeof(double) * BATCH * HEADS * N * V);
        end(t);
    }
    static const int64_t heads[] = {1, HEADS};
    for (int k = 0; k < 4; k++) {
        bench *t = start("softmax", false);
        t->terms[0] = (ota_term){.kind = OTA_TERM_RELATIVE};
        t->problem.term_count = 1;
        t->terms[0].array = ota_array_of(t->relative, OTA_F64, 1, heads[k / 2], 1, DIFFERENCES);
        solve(t);
        t->terms[0].array = ota_array_of(t->relative, OTA_F64, 1, heads[k % 2], 1, DIFFERENCES);
        assert_int_equal(ota_plan_rebind(t->plan, &t->problem, &t->error), OTA_OK);
        solve(t);
        set(t, QUERIES, false);
        if (k / 2 == k % 2)
            expect(t, false, OTA_OK, "", "");
        else
            expect(t, false, OTA_EINVAL, "terms", "term 0 has another shape");
        end(t);
    }
}

/* ---- structs ------------------------------------------------------------------------------------- */

static void structs_of_other_sizes(void **state) {
    (void)state;
    struct {
        ota_gradients want;
        int64_t later;
    } newer = {{.size = sizeof newer}, 0};
    bench *t = start("softmax", false);
    solve(t);
    assert_int_equal(ota_backward(t->plan, &t->arrays, NULL, NULL, &t->error), OTA_EINVAL);
    assert_string_equal(t->error.message, "gradients is NULL");
    assert_int_equal(ota_jvp(t->plan, &t->arrays, NULL, NULL, &t->error), OTA_EINVAL);
    assert_string_equal(t->error.message, "tangents is NULL");
    /* Of a newer header: fine while nothing is set that this library does not know. */
    newer.want.values = ota_array_of(t->spare, OTA_F64, BATCH, HEADS, M, V);
    assert_int_equal(ota_backward(t->plan, &t->arrays, &newer.want, NULL, &t->error), OTA_OK);
    newer.later = 1;
    assert_int_equal(ota_backward(t->plan, &t->arrays, &newer.want, NULL, &t->error),
                     OTA_UNSUPPORTED);
    assert_string_equal(t->error.field, "gradients.size");
    end(t);
}

TEST_FILE(test_derivative_refusals) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_derivative_is_among_the_fields),
        cmocka_unit_test(what_has_no_gradient_is_refused),
        cmocka_unit_test(arrays_that_do_not_fit_are_refused),
        cmocka_unit_test(both_shapes_are_told),
        cmocka_unit_test(gradients_may_be_sums),
        cmocka_unit_test(outputs_on_what_is_read_are_refused),
        cmocka_unit_test(outputs_on_each_other_are_refused),
        cmocka_unit_test(potentials_are_needed),
        cmocka_unit_test(terms_keep_the_shapes_that_sums_were_made_for),
        cmocka_unit_test(structs_of_other_sizes),
    };
    return cmocka_run_group_tests_name("derivative_refusals", tests, NULL, NULL);
}
