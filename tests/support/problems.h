/* problems.h: random problems for the tests of forward. A recipe says what is wanted (method, type, sizes,
 * mask, term, layout, seed); draw() makes it, every caller array in memory of its own that ends (or starts)
 * at a page nobody may touch; solve() runs the library, expect() the reference.
 *
 *     queries [batch, heads, n, width]   keys, values [batch, key heads, m, ...]   out, coupling ...
 *
 * Include after cmocka.h. */
#ifndef TESTS_PROBLEMS_H
#define TESTS_PROBLEMS_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "problem/problem.h"
#include "draw/draft.h"
#include "reference/reference.h"

/* ---- memory between guard pages ------------------------------------------------------------------ */

enum { LOANS = 64 };

typedef struct loan {
    unsigned char *map, *data;
    size_t map_bytes, bytes;
    bool writable; /* an output: stays open while the library runs */
} loan;

typedef struct lender {
    loan loans[LOANS];
    int count;
} lender;

/* `bytes` bytes that end (or, with `at_start`, start) at a page nobody may touch, all 0xff: a NaN for
 * whoever reads what was not written. */
static inline void *lend(lender *l, size_t bytes, bool at_start) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (bytes + page - 1) / page * page;
    loan *next = &l->loans[l->count++];
    assert_true(l->count <= LOANS);
    next->map_bytes = body + 2 * page;
    next->map =
        mmap(NULL, next->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(next->map != MAP_FAILED);
    if (body > 0) assert_int_equal(mprotect(next->map + page, body, PROT_READ | PROT_WRITE), 0);
    next->data = next->map + page + (at_start ? 0 : body - bytes);
    next->bytes = bytes;
    next->writable = false;
    memset(next->data, 0xff, bytes);
    return next->data;
}

/* Inputs become read-only, so that a library that writes to one does not go on. */
static inline void guard_inputs(lender *l) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int k = 0; k < l->count; k++) {
        loan *one = &l->loans[k];
        if (one->writable || one->map_bytes <= 2 * page) continue;
        assert_int_equal(mprotect(one->map + page, one->map_bytes - 2 * page, PROT_READ), 0);
    }
}

/* Did anything but the array's own elements change since lend()? */
static inline bool gaps_untouched(const lender *l, const ota_array *a) {
    const char *first, *last;
    ota_array_extent(a, &first, &last);
    const size_t bytes = ota_type_bytes(a->type);
    for (int k = 0; k < l->count && first != NULL; k++) {
        const loan *one = &l->loans[k];
        if ((const char *)one->data > first || first >= (const char *)one->data + one->bytes)
            continue;
        unsigned char *own = calloc(one->bytes, 1);
        assert_non_null(own);
        for (int64_t e = 0; e < a->size[0] * a->size[1] * a->size[2] * a->size[3]; e++) {
            int64_t rest = e, at = 0;
            for (int q = 3; q >= 0; q--) {
                at += rest % a->size[q] * a->stride[q];
                rest /= a->size[q];
            }
            memset(own + ((const unsigned char *)a->data - one->data) + at * (int64_t)bytes, 1,
                   bytes);
        }
        bool untouched = true;
        for (size_t q = 0; q < one->bytes; q++) untouched &= own[q] != 0 || one->data[q] == 0xff;
        free(own);
        return untouched;
    }
    return true;
}

static inline void take_back(lender *l) {
    for (int k = 0; k < l->count; k++) munmap(l->loans[k].map, l->loans[k].map_bytes);
    l->count = 0;
}

/* ---- strided arrays ------------------------------------------------------------------------------ */

static inline ota_array strided(lender *l, ota_type type, int64_t b, int64_t h, int64_t r,
                                int64_t c, layout how, bool at_start) {
    ota_array a = ota_array_of(NULL, type, b, h, r, c);
    int64_t first;
    const int64_t reach = lay_out(&a, how, &first);
    const size_t bytes = ota_type_bytes(type);
    if (reach > 0)
        a.data = (char *)lend(l, (size_t)reach * bytes, at_start) + (size_t)first * bytes;
    return a;
}

/* ---- recipes ------------------------------------------------------------------------------------- */

typedef enum mask {
    NO_MASK,
    CAUSAL_TOP_LEFT,
    CAUSAL_BOTTOM_RIGHT,
    WINDOW,
    WINDOW_OPEN,
    STRIDED,
    BLOCK_WIDTH,
    BLOCK_LIST,
    LENGTHS,
    BOOLEAN,
    BOOLEAN_KEYS,
    BOOLEAN_ROWS,
    ADDITIVE,
    CAUSAL_WINDOW_STRIDED,
    BLOCK_BOOLEAN_ADDITIVE,
    MASKS
} mask;

typedef enum added {
    NOTHING,
    BIAS,
    BIAS_WIDE_SHUT,
    ALIBI,
    ALIBI_SLOPES,
    RELATIVE,
    RELATIVE_INSIDE,
    SOFTCAP,
    SINK,
    SINK_HEADS,
    TEMPERATURES,
    EVERYTHING,
    ADDITIONS
} added;

typedef struct recipe {
    const char *method;
    ota_type type, out_type;
    int64_t batch, heads, key_heads, n, m, width, values_width;
    mask mask;
    added added;
    bool matrix, row_mass, column_mass, cost, whole_numbers, dense_arrays, relaxed_rows, warm;
    ota_axis axis;
    ota_side start, end;
    int64_t rounds;
    double tolerance, temperature, spread;
    uint64_t seed;
} recipe;

typedef struct drawn {
    recipe want;
    dice dice;
    lender memory;
    ota_problem problem;
    ota_options options;
    ota_term terms[6];
    ota_support supports[4];
    ota_arrays arrays, exact; /* of the library; of the reference, all f64 and dense */
    ota_result result, exact_result;
    ota_error error, exact_error;
    ota_status status, exact_status;
} drawn;

/* An input of the generator, in memory of its own that begins or ends at a page nobody may touch. */
static inline ota_array guarded(void *owner, const array_shape *shape, rule how, double parameter,
                                bool own) {
    drawn *x = owner;
    const int64_t *size = shape->size;
    layout lies = BACKWARDS;
    if (!own) lies = any_layout(&x->dice, x->want.dense_arrays ? 1.0 : 0.15, TIELESS_LAYOUTS);
    const bool at_start = !own && how != ALL_OF && below(&x->dice, 2) == 0;
    const ota_array a =
        strided(&x->memory, shape->type, size[0], size[1], size[2], size[3], lies, at_start);
    fill_elements(&a, &x->dice, how, parameter);
    return a;
}

static inline draft draft_of(drawn *x) {
    const recipe *w = &x->want;
    return (draft){.dice = &x->dice,
                   .batch = w->batch,
                   .heads = w->heads,
                   .key_heads = w->key_heads,
                   .queries = w->n,
                   .keys = w->m,
                   .width = w->width,
                   .problem = &x->problem,
                   .terms = x->terms,
                   .supports = x->supports,
                   .input = guarded,
                   .owner = x};
}

static inline ota_array input(drawn *x, array_shape shape, rule how, double parameter) {
    return guarded(x, &shape, how, parameter, false);
}

/* A support of the caller's own. */
static inline void add_support(drawn *x, ota_support_kind kind, ota_array array, int64_t left,
                               int64_t right) {
    x->supports[x->problem.support_count++] = (ota_support){kind, array, left, right};
}

static inline void put_mask(drawn *x, ota_support_kind kind, int64_t left, int64_t right) {
    const draft to = draft_of(x);
    draft_support(&to, &(support_wish){.kind = kind, .left = left, .right = right});
}

static inline void put_boolean(drawn *x, array_shape pairs, double open) {
    const draft to = draft_of(x);
    pairs.type = OTA_BOOL;
    draft_support(&to,
                  &(support_wish){
                      .kind = OTA_SUPPORT_BOOLEAN, .pairs = pairs, .how = COIN, .parameter = open});
}

static inline void put_additive(drawn *x, array_shape pairs, double open) {
    const draft to = draft_of(x);
    const bool whole = x->want.whole_numbers;
    draft_support(&to, &(support_wish){.kind = OTA_SUPPORT_ADDITIVE,
                                       .pairs = pairs,
                                       .how = whole ? WHOLE : SHUT,
                                       .parameter = whole ? 2.0 : open});
}

static inline void draw_mask(drawn *x) {
    const recipe *w = &x->want;
    dice *d = &x->dice;
    const int64_t n = w->n, m = w->m, h = w->heads;
    int64_t left;
    x->problem.corner = below(d, 2) == 0 ? OTA_TOP_LEFT : OTA_BOTTOM_RIGHT;
    switch (w->mask) {
    case CAUSAL_TOP_LEFT:
    case CAUSAL_BOTTOM_RIGHT:
        x->problem.corner = w->mask == CAUSAL_TOP_LEFT ? OTA_TOP_LEFT : OTA_BOTTOM_RIGHT;
        put_mask(x, OTA_SUPPORT_CAUSAL, 0, 0);
        break;
    case WINDOW:
        left = below(d, 5);
        put_mask(x, OTA_SUPPORT_WINDOW, left, below(d, 5));
        break;
    case WINDOW_OPEN:
        left = below(d, 2) == 0 ? -1 : below(d, 9);
        put_mask(x, OTA_SUPPORT_WINDOW, left, -1);
        break;
    case STRIDED: put_mask(x, OTA_SUPPORT_STRIDED, 1 + below(d, 4), 0); break;
    case BLOCK_WIDTH: put_mask(x, OTA_SUPPORT_BLOCK, 1 + below(d, 20), 0); break;
    case BLOCK_LIST: put_mask(x, OTA_SUPPORT_BLOCK, 0, 0); break;
    case LENGTHS: put_mask(x, OTA_SUPPORT_LENGTHS, 0, 0); break;
    case BOOLEAN: put_boolean(x, shape_of(OTA_BOOL, w->batch, h, n, m), 0.7); break;
    case BOOLEAN_KEYS: put_boolean(x, shape_of(OTA_BOOL, w->batch, 1, 1, m), 0.7); break;
    case BOOLEAN_ROWS: put_boolean(x, shape_of(OTA_BOOL, 1, h, n, 1), 0.8); break;
    case ADDITIVE: put_additive(x, shape_of(w->type, 1, h, n, m), 0.7); break;
    case CAUSAL_WINDOW_STRIDED:
        put_mask(x, OTA_SUPPORT_STRIDED, 1 + below(d, 2), 0);
        put_mask(x, OTA_SUPPORT_CAUSAL, 0, 0);
        put_mask(x, OTA_SUPPORT_WINDOW, 12, 3);
        break;
    case BLOCK_BOOLEAN_ADDITIVE:
        put_mask(x, OTA_SUPPORT_BLOCK, 8 + below(d, 30), 0);
        put_boolean(x, shape_of(OTA_BOOL, 1, h, 1, m), 0.8);
        put_additive(x, shape_of(OTA_F64, w->batch, 1, n, m), 0.9);
        break;
    case NO_MASK:
    default: break;
    }
}

static inline void put_term(drawn *x, ota_term_kind kind, array_shape array, rule how,
                            double parameter) {
    const draft to = draft_of(x);
    draft_term(&to, &(term_wish){.kind = kind, .array = array, .how = how, .parameter = parameter});
}

static inline void put_value(drawn *x, ota_term_kind kind, double value) {
    const draft to = draft_of(x);
    draft_term(&to, &(term_wish){.kind = kind, .value = value});
}

static inline void draw_term(drawn *x, added what) {
    const recipe *w = &x->want;
    const draft to = draft_of(x);
    const bool whole = w->whole_numbers;
    const rule how = whole ? WHOLE : NORMAL;
    const int64_t h = w->heads, line = draft_differences(&to);
    switch (what) {
    case BIAS:
        put_term(x, OTA_TERM_DENSE, shape_of(w->type, w->batch, 1, w->n, w->m), how, 1.0);
        break;
    case BIAS_WIDE_SHUT:
        put_term(x, OTA_TERM_DENSE, shape_of(OTA_F64, 1, h, w->n, w->m), whole ? WHOLE : SHUT,
                 whole ? 3.0 : 0.9);
        break;
    case ALIBI: put_value(x, OTA_TERM_ALIBI, 0.25); break;
    case ALIBI_SLOPES:
        put_term(x, OTA_TERM_ALIBI, shape_of(OTA_F64, 1, 1, 1, h), WHOLE, 1.0);
        break;
    case RELATIVE:
        put_term(x, OTA_TERM_RELATIVE, shape_of(w->type, 1, h, 1, line), how, 1.0);
        break;
    case RELATIVE_INSIDE:
        put_term(x, OTA_TERM_RELATIVE_INSIDE, shape_of(OTA_F32, 1, 1, 1, line), how, 2.0);
        break;
    case SOFTCAP: put_value(x, OTA_TERM_SOFTCAP, 1.5); break;
    case SINK: put_value(x, OTA_TERM_SINK, 0.5); break;
    case SINK_HEADS: put_term(x, OTA_TERM_SINK, shape_of(OTA_F32, 1, 1, 1, h), how, 1.0); break;
    case TEMPERATURES:
        x->problem.temperature = 0.0;
        x->problem.temperatures = input(x, shape_of(OTA_F64, 1, 1, 1, h), MASS, 1.0);
        break;
    case EVERYTHING:
        draw_term(x, BIAS);
        draw_term(x, RELATIVE);
        draw_term(x, ALIBI);
        if (!whole) draw_term(x, SOFTCAP);
        draw_term(x, RELATIVE_INSIDE);
        draw_term(x, BIAS_WIDE_SHUT);
        break;
    case NOTHING:
    default: break;
    }
}

/* Column masses that can be met: a share of the rows' mass for every key, less where a sink stands by. */
static inline void draw_masses(drawn *x) {
    const recipe *w = &x->want;
    ota_problem *p = &x->problem;
    const bool sink = w->added == SINK || w->added == SINK_HEADS;
    array_shape keys = shape_of(OTA_F64, 1, w->heads, 1, w->m);
    if (w->row_mass) p->row_mass = input(x, shape_of(OTA_F64, 1, w->heads, 1, w->n), MASS, 2.0);
    const bool exact = p->columns == OTA_COLUMNS_EXACT;
    if (!w->column_mass && !(exact && sink)) return;
    if (!exact && p->columns != OTA_COLUMNS_BOUNDED) {
        keys.type = OTA_F32;
        p->column_mass = input(x, keys, MASS, 1.0);
        return;
    }
    p->column_mass = guarded(x, &keys, MASS, 1.0, true);
    match_masses(&p->column_mass, &p->row_mass, w->n, sink ? 0.75 : 1.0);
}

static inline ota_array output(drawn *x, ota_type type, int64_t r, int64_t c) {
    const recipe *w = &x->want;
    const int before = x->memory.count;
    const layout lies = any_layout(&x->dice, w->dense_arrays ? 1.0 : 0.15, OUTPUT_LAYOUTS);
    const bool at_start = below(&x->dice, 2) == 0;
    const ota_array a = strided(&x->memory, type, w->batch, w->heads, r, c, lies, at_start);
    for (int k = before; k < x->memory.count; k++) x->memory.loans[k].writable = true;
    return a;
}

static inline ota_array exact_output(drawn *x, int64_t r, int64_t c) {
    const recipe *w = &x->want;
    const int before = x->memory.count;
    const ota_array a = strided(&x->memory, OTA_F64, w->batch, w->heads, r, c, DENSE, false);
    for (int k = before; k < x->memory.count; k++) x->memory.loans[k].writable = true;
    return a;
}

static inline void draw_arrays(drawn *x) {
    const recipe *w = &x->want;
    const int64_t n = w->n, m = w->m;
    ota_arrays *a = &x->arrays, *e = &x->exact;
    a->size = e->size = sizeof *a;
    a->values = e->values = input(x, shape_of(w->type, w->batch, w->key_heads, m, w->values_width),
                                  w->whole_numbers ? WHOLE : NORMAL, 2.0);
    const ota_type narrow = below(&x->dice, 2) == 0 ? OTA_F64 : OTA_F32;
    a->out = output(x, w->out_type, n, w->values_width);
    a->coupling = output(x, OTA_F64, n, m);
    a->row_potential = output(x, OTA_F64, 1, n);
    a->column_potential = output(x, OTA_F64, 1, m);
    a->lse = output(x, narrow, 1, n);
    a->receiver = output(x, narrow, 1, m);
    a->row_entropy = output(x, OTA_F64, 1, n);
    a->row_support = output(x, OTA_F64, 1, n);
    a->row_max = output(x, narrow, 1, n);
    a->sink = output(x, OTA_F64, 1, n);
    e->out = exact_output(x, n, w->values_width);
    e->coupling = exact_output(x, n, m);
    e->row_potential = exact_output(x, 1, n);
    e->column_potential = exact_output(x, 1, m);
    e->lse = exact_output(x, 1, n);
    e->receiver = exact_output(x, 1, m);
    e->row_entropy = exact_output(x, 1, n);
    e->row_support = exact_output(x, 1, n);
    e->row_max = exact_output(x, 1, n);
    e->sink = exact_output(x, 1, n);
    const size_t records = (size_t)(w->batch * w->heads) * sizeof(ota_head_result);
    a->heads = lend(&x->memory, records, false);
    x->memory.loans[x->memory.count - 1].writable = true;
    e->heads = lend(&x->memory, records, false);
    x->memory.loans[x->memory.count - 1].writable = true;
    if (w->warm)
        a->start_potential = e->start_potential =
            input(x, shape_of(OTA_F64, w->batch, w->heads, 1, m),
                  x->problem.columns == OTA_COLUMNS_CAPPED ? SHARE : NORMAL, -0.5);
}

/* Sizes that are 0 in the recipe stay 0; batch, heads and key heads are taken as they are. */
static inline void draw(drawn *x, const recipe *want) {
    memset(x, 0, sizeof *x);
    x->want = *want;
    const recipe *w = &x->want;
    x->dice = w->seed * 0x2545f4914f6cdd1du + 7u;
    ota_problem *p = &x->problem;
    p->size = sizeof *p;
    x->options.size = sizeof x->options;
    x->result.size = x->exact_result.size = sizeof x->result;
    p->temperature = w->temperature;
    p->terms = x->terms;
    p->supports = x->supports; /* a test may add its own */
    p->cost = w->cost;
    p->axis = w->axis;
    p->start = w->start;
    p->end = w->end;
    x->options.rounds = w->rounds;
    x->options.tolerance = w->tolerance;
    x->options.threads = 1;
    assert_int_equal(ota_method_parse(w->method, p, &x->options, &x->error), OTA_OK);
    if (w->relaxed_rows) p->rows = OTA_ROWS_RELAXED, p->row_strength = 1.25;
    const bool whole = w->whole_numbers;
    const score_wish scores = {.type = w->type,
                               .matrix = w->matrix,
                               .how = whole ? WHOLE : NORMAL,
                               .spread = !whole      ? w->spread
                                         : w->matrix ? 6.0
                                                     : 2.0,
                               .keys_spread = 1.0};
    const draft to = draft_of(x);
    draft_scores(&to, &scores);
    if (whole && !w->matrix) p->scale = 0.5;
    draw_mask(x);
    draw_term(x, w->added);
    draw_masses(x);
    draw_arrays(x);
    guard_inputs(&x->memory);
}

static inline void put_away(drawn *x) { take_back(&x->memory); }

/* Sets every byte of the outputs to 0xff, as they were drawn. */
static inline void clear_outputs(const drawn *x, const ota_arrays *a) {
    const ota_array *const all[] = {
        &a->out,      &a->coupling,    &a->row_potential, &a->column_potential, &a->lse,
        &a->receiver, &a->row_entropy, &a->row_support,   &a->row_max,          &a->sink};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const char *first, *last;
        ota_array_extent(all[k], &first, &last);
        for (int q = 0; q < x->memory.count && first != NULL; q++) {
            const loan *one = &x->memory.loans[q];
            if ((const char *)one->data <= first && first < (const char *)one->data + one->bytes)
                memset(one->data, 0xff, one->bytes);
        }
    }
}

static inline ota_status solve(drawn *x) {
    x->status = ota_attend(&x->problem, &x->options, &x->arrays, &x->result, &x->error);
    return x->status;
}

static inline ota_status expect(drawn *x) {
    x->exact_status =
        ota_reference(&x->problem, &x->options, &x->exact, &x->exact_result, &x->exact_error);
    return x->exact_status;
}

static const char *const mask_names[] = {"no mask",
                                         "causal top-left",
                                         "causal bottom-right",
                                         "window",
                                         "open window",
                                         "strided",
                                         "block",
                                         "block list",
                                         "lengths",
                                         "boolean",
                                         "key mask",
                                         "row mask",
                                         "additive",
                                         "causal+window+strided",
                                         "block+boolean+additive"};
static const char *const added_names[] = {
    "nothing", "bias",    "bias f64 -inf", "alibi",         "slopes",       "relative",
    "inside",  "softcap", "sink",          "sink per head", "temperatures", "everything"};

/* The recipe in one line: enough to draw it again. */
static inline void print_recipe(const drawn *x) {
    const recipe *w = &x->want;
    static const char *const types[] = {"none", "f64", "f32", "bf16", "f16"};
    print_error("  %s %s->%s [%" PRId64 "x%" PRId64 "/%" PRId64 "] n %" PRId64 " m %" PRId64
                " d %" PRId64 " dv %" PRId64 " mask '%s' term '%s'%s%s%s%s%s%s axis %d start %d "
                "end %d rounds %" PRId64 " tolerance %g tau %g spread %g seed %" PRIu64 " cpu %s\n",
                w->method, types[w->type], types[w->out_type], w->batch, w->heads, w->key_heads,
                w->n, w->m, w->width, w->values_width, mask_names[w->mask], added_names[w->added],
                w->matrix ? " matrix" : "", w->row_mass ? " mu" : "", w->column_mass ? " nu" : "",
                w->cost ? " cost" : "", w->relaxed_rows ? " relaxed rows" : "",
                w->warm ? " warm" : "", (int)w->axis, (int)w->start, (int)w->end, w->rounds,
                w->tolerance, w->temperature, w->spread, w->seed,
                x->options.cpu == NULL ? "best" : x->options.cpu);
}

#endif
