/* test_fields.c: the tables of members (src/problem/fields.h) name every member of the public structs once, and each consumer does
 * what the rows say: a member out of its range is refused by name, a changed one reaches the settings, is taken or refused by
 * rebind, is told to the other ranks and changes its line of ota_plan_describe. A row without a scene of its own is changed by its
 * kind. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "crew.h"
#include "groups.h"
#include "groups.h"
#include "members.h"
#include "one_rank.h"
#include "otattn.h"
#include "problem/fields.h"
#include "problem/problem.h"
#include "validation/validation.h"

enum { N = 4, M = 5, WIDTH = 2, TEXT = 4096 };

/* ---- names --------------------------------------------------------------------------------------- */

/* `members` begin with the size, which has no row. */
static void rows_are_the_members(const ota_field *table, const char *const *members) {
    int k = 1;
    for (; members[k] != NULL && table->name != NULL; k++, table++) {
        assert_string_equal(table->name, members[k]);
        assert_true(table->kind > 0 && table->rebind > 0 && table->ranks > 0);
        assert_true(table[1].name == NULL || table->offset + table->bytes <= table[1].offset);
    }
    assert_null(members[k]);
    assert_null(table->name);
}

static void every_member_has_one_row(void **state) {
    (void)state;
    rows_are_the_members(ota_problem_fields, members_of_problem);
    rows_are_the_members(ota_option_fields, members_of_options);
}

static int rows_of(bool along, const char *member) {
    int rows = 0;
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        const char *name = along ? ota_derivatives[k].tangent : ota_derivatives[k].gradient;
        rows += name != NULL && strcmp(name, member) == 0;
    }
    return rows;
}

static void every_derivative_has_one_row(void **state) {
    (void)state;
    int gradients = 0, tangents = 0;
    for (int k = 1; members_of_gradients[k] != NULL; k++, gradients++)
        assert_int_equal(rows_of(false, members_of_gradients[k]), 1);
    for (int k = 1; members_of_tangents[k] != NULL; k++, tangents++)
        assert_int_equal(rows_of(true, members_of_tangents[k]), 1);
    for (int k = 0; k < OTA_DERIVATIVES; k++) {
        assert_true(ota_derivatives[k].shape > 0 && ota_derivatives[k].ranks > 0);
        gradients -= ota_derivatives[k].gradient != NULL;
        tangents -= ota_derivatives[k].tangent != NULL;
    }
    assert_int_equal(gradients, 0);
    assert_int_equal(tangents, 0);
}

/* Defaults are not checked when they are filled in. */
static void defaults_are_in_range(void **state) {
    (void)state;
    const ota_resolved r = {.type = OTA_F64, .width = 4, .rule_rounds = -1};
    const ota_field *const tables[] = {ota_problem_fields, ota_option_fields};
    for (int t = 0; t < 2; t++) {
        for (const ota_field *f = tables[t]; f->name != NULL; f++) {
            const double usual = f->usual_of != NULL ? f->usual_of(&r) : f->usual;
            if (!(f->usual > 0.0) && f->usual_of == NULL) continue;
            if (!(f->low < 0.0 || f->high > 0.0)) continue;
            if (usual >= f->low && usual <= f->high && !(f->open_low && usual <= f->low) &&
                !(f->open_high && usual >= f->high))
                continue;
            fail_msg("the default of %s, %g, is out of its range", f->name, usual);
        }
    }
}

/* ---- scenes -------------------------------------------------------------------------------------- */

typedef struct stage {
    ota_problem problem;
    ota_options options;
    ota_term term;
    ota_support support;
    float elements[N * WIDTH + M * WIDTH];
    double masses[N + M], caps[N * M];
} stage;

static const int never = 0;

static void told(void *user, const ota_progress *progress) { (void)user, (void)progress; }

static void one_by_one(void *user, int64_t count,
                       void (*body)(void *context, int64_t index, int worker), void *context) {
    (void)user;
    for (int64_t k = 0; k < count; k++) body(context, k, 0);
}
static const ota_executor own = {one_by_one, NULL, 1};

static double exponential(void *user, double x) {
    (void)user;
    return exp(x);
}

static ota_array vector(double *data, int64_t count) {
    return ota_array_of(data, OTA_F64, 1, 1, 1, count);
}

static void from_scores(stage *s) {
    s->problem.scores = ota_array_of(s->elements, OTA_F32, 1, 1, 3, M);
    s->problem.queries = s->problem.keys = (ota_array){0};
}
static void with_term(stage *s) {
    s->term = (ota_term){.kind = OTA_TERM_ALIBI, .value = 0.5};
    s->problem.terms = &s->term;
    s->problem.term_count = 1;
}
static void with_support(stage *s) {
    s->support = (ota_support){.kind = OTA_SUPPORT_WINDOW, .left = 3, .right = 3};
    s->problem.supports = &s->support;
    s->problem.support_count = 1;
}
static void with_relaxed_rows(stage *s) {
    s->problem.rows = OTA_ROWS_RELAXED;
    s->problem.row_strength = 0.7;
}
static void with_custom(stage *s) {
    s->problem.regulariser = OTA_CUSTOM;
    s->problem.custom = (ota_custom){.weight = exponential, .slope = exponential};
}
static void with_annealing(stage *s) { s->options.anneal_start = 3.0; }
static void with_gradients(stage *s) { s->options.gradients = 1; }
static void with_dropout(stage *s) { s->problem.dropout = 0.25; }
static void as_it_is(stage *s) { (void)s; }

/* What a member is changed in, and how. */
typedef struct scene {
    const char *name, *method;
    void (*prepare)(stage *s), (*change)(stage *s);
} scene;

#define CHANGE(member, what)                                                                       \
    static void change_##member(stage *s) { what; }
CHANGE(queries, s->problem.queries.size[2] = 3)
CHANGE(keys, s->problem.keys.size[2] = 4)
CHANGE(scores, s->problem.scores.size[2] = 2)
CHANGE(scale, s->problem.scale = 0.5)
CHANGE(temperature, s->problem.temperature = 1e33)
CHANGE(temperatures, (s->masses[0] = 1e33, s->problem.temperatures = vector(s->masses, 1)))
CHANGE(corner, s->problem.corner = OTA_BOTTOM_RIGHT)
CHANGE(order, s->problem.order = 0.5)
CHANGE(rows, s->problem.rows = OTA_ROWS_HARD)
CHANGE(columns, s->problem.columns = OTA_COLUMNS_FREE)
CHANGE(lambda, s->problem.lambda = 0.5)
CHANGE(lambdas, s->problem.lambdas = vector(s->masses, M))
CHANGE(row_mass, s->problem.row_mass = vector(s->masses, N))
CHANGE(column_mass, (s->masses[0] = 0.5, s->problem.column_mass = vector(s->masses, M)))
CHANGE(custom, s->problem.custom.value = exponential)
CHANGE(dropout, s->problem.dropout = 0.5)
CHANGE(entry_caps, s->problem.entry_caps = ota_array_of(s->caps, OTA_F64, 1, 1, N, M))
CHANGE(rounds, s->options.rounds = 7)
CHANGE(relaxation, s->options.relaxation = 1.5)
CHANGE(solver, s->options.solver = "log")
CHANGE(executor, s->options.executor = &own)
CHANGE(cpu, s->options.cpu = "portable")
CHANGE(cancel, s->options.cancel = &never)
CHANGE(deadline_ns, s->options.deadline_ns = INT64_MAX)
CHANGE(progress, s->options.progress = told)
CHANGE(progress_user, s->options.progress_user = s)
CHANGE(backend, s->options.backend = ota_backend_name(1))
CHANGE(anneal_factor, s->options.anneal_factor = 0.25)

#define SCENE(member, method, prepare)                                                             \
    { #member, method, prepare, change_##member }
#define BY_KIND(member, method, prepare)                                                           \
    { #member, method, prepare, NULL }
static const scene scenes[] = {
    SCENE(queries, "softmax/exact", as_it_is),
    SCENE(keys, "softmax/exact", as_it_is),
    SCENE(scores, "softmax/exact", from_scores),
    SCENE(scale, "hard/exact", from_scores),
    SCENE(temperature, "softmax/exact", as_it_is),
    SCENE(temperatures, "softmax/exact", as_it_is),
    {"terms", "softmax/exact", as_it_is, with_term},
    {"term_count", "softmax/exact", as_it_is, with_term},
    {"supports", "softmax/exact", as_it_is, with_support},
    {"support_count", "softmax/exact", as_it_is, with_support},
    SCENE(corner, "softmax/exact", as_it_is),
    BY_KIND(regulariser, "softmax/exact", as_it_is),
    SCENE(order, "entmax:1.5/exact", as_it_is),
    SCENE(rows, "softmax/relaxed:1", with_relaxed_rows),
    BY_KIND(row_strength, "softmax/relaxed:1", with_relaxed_rows),
    SCENE(columns, "softmax/exact", as_it_is),
    BY_KIND(strength, "softmax/relaxed:1", as_it_is),
    BY_KIND(cap, "softmax/capped:2", as_it_is),
    SCENE(lambda, "softmax/elastic:1,4", as_it_is),
    BY_KIND(steps, "softmax/elastic:1,4", as_it_is),
    SCENE(lambdas, "softmax/elastic:1,4", as_it_is),
    SCENE(row_mass, "softmax/relaxed:1", as_it_is),
    SCENE(column_mass, "softmax/relaxed:1", as_it_is),
    SCENE(custom, "softmax", with_custom),
    SCENE(dropout, "softmax", as_it_is),
    BY_KIND(dropout_seed, "softmax", with_dropout),
    BY_KIND(dropout_offset, "softmax", with_dropout),
    BY_KIND(lower, "softmax/bounded:0,2", as_it_is),
    BY_KIND(upper, "softmax/bounded:0,2", as_it_is),
    BY_KIND(entry_cap, "softmax/exact", as_it_is),
    SCENE(entry_caps, "softmax/exact", as_it_is),
    SCENE(rounds, "softmax/exact", as_it_is),
    BY_KIND(anneal_start, "softmax/exact", with_annealing),
    SCENE(anneal_factor, "softmax/exact", with_annealing),
    BY_KIND(anneal_rounds, "softmax/exact", with_annealing),
    BY_KIND(anneal_keep_scaling, "softmax/exact", with_annealing),
    SCENE(relaxation, "softmax/exact", as_it_is),
    SCENE(solver, "softmax/exact", as_it_is),
    SCENE(executor, "softmax/exact", as_it_is),
    SCENE(cpu, "softmax/exact", as_it_is),
    SCENE(cancel, "softmax/exact", as_it_is),
    SCENE(deadline_ns, "softmax/exact", as_it_is),
    SCENE(progress, "softmax/exact", as_it_is),
    SCENE(progress_user, "softmax/exact", as_it_is),
    BY_KIND(backward, "softmax/exact", with_gradients),
    SCENE(backend, "softmax/exact", as_it_is),
};

/* Another value of the kind. */
static void change_by_kind(const ota_field *f, void *record) {
    char *at = (char *)record + f->offset;
    double real;
    int whole;
    int64_t wide;
    switch (f->kind) {
    case OTA_FIELD_REAL:
        memcpy(&real, at, sizeof real);
        real = real > 0.0 ? 1.25 * real : 0.5;
        memcpy(at, &real, sizeof real);
        break;
    case OTA_FIELD_WHOLE:
    case OTA_FIELD_BITS:
        memcpy(&wide, at, sizeof wide);
        wide += 17;
        memcpy(at, &wide, sizeof wide);
        break;
    case OTA_FIELD_SIZE: memcpy(at, &(size_t){(size_t)1 << 30}, sizeof(size_t)); break;
    case OTA_FIELD_COUNT: memcpy(at, &(int){2}, sizeof whole); break;
    case OTA_FIELD_FLAG:
    case OTA_FIELD_ENUM:
        memcpy(&whole, at, sizeof whole);
        whole = whole == 0 ? 1 : 0;
        memcpy(at, &whole, sizeof whole);
        break;
    case OTA_FIELD_ARRAY:
    case OTA_FIELD_TEXT:
    case OTA_FIELD_LIST:
    case OTA_FIELD_POINTER:
    case OTA_FIELD_FUNCTIONS:
    default: fail_msg("%s needs a scene: its kind alone does not say how it changes", f->name);
    }
}

/* Is it a row of the options? */
static bool of_options(const ota_field *f) {
    return f >= ota_option_fields && f < ota_option_fields + OTA_OPTION_FIELDS;
}

static void set(stage *s, const ota_field *f, bool changed) {
    static const scene plain = {NULL, "softmax/exact", as_it_is, NULL};
    const scene *now = &plain;
    memset(s, 0, sizeof *s);
    for (size_t k = 0; k < sizeof scenes / sizeof *scenes; k++)
        if (strcmp(scenes[k].name, f->name) == 0) now = &scenes[k];
    for (int k = 0; k < N * WIDTH + M * WIDTH; k++) s->elements[k] = 0.25F * (float)(k % 7) - 0.5F;
    for (int k = 0; k < N + M; k++) s->masses[k] = 1.0;
    for (int k = 0; k < N * M; k++) s->caps[k] = 0.9;
    s->problem.size = sizeof s->problem;
    s->options.size = sizeof s->options;
    s->options.threads = 1;
    s->problem.queries = ota_array_of(s->elements, OTA_F32, 1, 1, N, WIDTH);
    s->problem.keys = ota_array_of(s->elements + N * WIDTH, OTA_F32, 1, 1, M, WIDTH);
    assert_int_equal(ota_method_parse(now->method, &s->problem, &s->options, NULL), OTA_OK);
    now->prepare(s);
    if (!changed) return;
    if (now->change != NULL)
        now->change(s);
    else
        change_by_kind(f, of_options(f) ? (void *)&s->options : (void *)&s->problem);
}

static ota_plan *plan_of(const stage *s, const char *name) {
    ota_plan *plan = NULL;
    ota_error error = {.message = ""};
    if (ota_plan_create(&plan, &s->problem, WIDTH, &s->options, &error) != OTA_OK)
        fail_msg("%s: %s", name, error.message);
    return plan;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const ota_field *const tables[] = {ota_problem_fields, ota_option_fields};

static bool is_communicator(const ota_field *f) { return strcmp(f->name, "communicator") == 0; }

/* Beyond the range of its row. */
static void spoil(const ota_field *f, void *record) {
    static const char *const name = "a name that is longer than any solver's or kernel's";
    char *at = (char *)record + f->offset;
    if (f->kind == OTA_FIELD_REAL) memcpy(at, &(double){NAN}, sizeof(double));
    if (f->kind == OTA_FIELD_WHOLE) memcpy(at, &(int64_t){-2}, sizeof(int64_t));
    if (f->kind == OTA_FIELD_COUNT || f->kind == OTA_FIELD_ENUM)
        memcpy(at, &(int){99999}, sizeof(int));
    if (f->kind == OTA_FIELD_TEXT) memcpy(at, &name, sizeof name);
}

static void what_is_out_of_range_is_refused_by_name(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (const ota_field *f = tables[t]; f->name != NULL; f++) {
            stage s;
            ota_error error = {.message = ""};
            if (f->words == NULL && !(f->high > 0.0) && f->kind != OTA_FIELD_TEXT) continue;
            set(&s, f, false);
            spoil(f, t == 1 ? (void *)&s.options : (void *)&s.problem);
            assert_int_equal(ota_check(&s.problem, &s.options, &error), OTA_EINVAL);
            assert_string_equal(error.field, f->name);
            assert_true(error.hint[0] != '\0' && strstr(error.message, f->name) != NULL);
        }
    }
}

static void a_changed_option_reaches_the_settings(void **state) {
    (void)state;
    for (const ota_field *f = ota_option_fields; f->name != NULL; f++) {
        static ota_resolved before, after;
        stage s, other;
        if (is_communicator(f)) continue;
        set(&s, f, false);
        set(&other, f, true);
        other.problem.queries = s.problem.queries;
        other.problem.keys = s.problem.keys;
        assert_int_equal(ota_resolve(&s.problem, &s.options, &before, NULL), OTA_OK);
        assert_int_equal(ota_resolve(&other.problem, &other.options, &after, NULL), OTA_OK);
        if (memcmp(&before.settings, &after.settings, sizeof before.settings) == 0)
            fail_msg("%s does not reach the settings", f->name);
    }
}

static void rebind_takes_what_the_row_says(void **state) {
    (void)state;
    for (const ota_field *f = ota_problem_fields; f->name != NULL; f++) {
        static stage s, next;
        ota_error error = {.field = ""};
        set(&s, f, false);
        set(&next, f, true);
        ota_plan *plan = plan_of(&s, f->name);
        const ota_status status = ota_plan_rebind(plan, &next.problem, &error);
        ota_plan_free(plan);
        const bool free = f->rebind == OTA_REBIND_FREE;
        /* How many there are is found out with what they are. */
        const char *name = strstr(f->name, "_count") != NULL ? f[-1].name : f->name;
        if (status != (free ? OTA_OK : OTA_EINVAL) || (!free && strcmp(error.field, name) != 0))
            fail_msg("%s: rebind answered %d, field '%s': %s", f->name, (int)status, error.field,
                     error.message);
    }
}

/* The line of a key, its end cut off; "" without one. */
static void line_of(const char *text, const char *key, char *line) {
    char begin[64];
    (void)snprintf(begin, sizeof begin, "\n%s: ", key);
    const char *at = strstr(text, begin);
    if (at == NULL && strncmp(text, begin + 1, strlen(begin) - 1) == 0) at = text - 1;
    (void)snprintf(line, TEXT, "%.*s", at == NULL ? 0 : (int)strcspn(at + 1, "\n"),
                   at == NULL ? "" : at + 1);
}

static void describe_shows_what_the_row_says(void **state) {
    (void)state;
    const ota_communicator alone = one_rank();
    for (int t = 0; t < 2; t++) {
        for (const ota_field *f = tables[t]; f->name != NULL; f++) {
            static stage s;
            static char text[2][TEXT], line[2][TEXT];
            if (f->shown == NULL) continue;
            for (int changed = 0; changed < 2; changed++) {
                set(&s, f, changed == 1 && !is_communicator(f));
                if (changed == 1 && is_communicator(f)) s.options.communicator = &alone;
                ota_plan *plan = plan_of(&s, f->name);
                (void)ota_plan_describe(plan, text[changed], TEXT);
                ota_plan_free(plan);
                line_of(text[changed], f->shown, line[changed]);
            }
            if (strcmp(line[0], line[1]) == 0)
                fail_msg("%s does not change the line '%s' of:\n%s", f->name, f->shown, text[1]);
        }
    }
}

/* Callbacks have no row: their line names those that are there. Bytes are those that the plan has. */
static void describe_tells_callbacks_and_bytes(void **state) {
    (void)state;
    static const char *const lines[] = {"", "callbacks: cancel", "callbacks: progress",
                                        "callbacks: cancel progress"};
    const int no = 0;
    for (int k = 0; k < 4; k++) {
        static stage s;
        static char text[TEXT], line[TEXT], bytes[64];
        set(&s, &tables[0][0], false);
        s.options.cancel = k % 2 == 1 ? &no : NULL;
        s.options.progress = k / 2 == 1 ? told : NULL;
        ota_plan *plan = plan_of(&s, "callbacks");
        (void)ota_plan_describe(plan, text, TEXT);
        (void)snprintf(bytes, sizeof bytes, "bytes: %zu", ota_plan_bytes(plan));
        ota_plan_free(plan);
        line_of(text, "callbacks", line);
        assert_string_equal(line, lines[k]);
        line_of(text, "bytes", line);
        assert_string_equal(line, bytes);
    }
}

/* ---- ranks --------------------------------------------------------------------------------------- */

typedef struct meeting {
    const ota_field *field;
    ota_status status[2];
    ota_error error[2];
} meeting;

static void meet(crew_rank *rank, void *context) {
    meeting *m = context;
    stage s;
    ota_plan *plan = NULL;
    const int me = rank->to.rank;
    set(&s, m->field, me == 1);
    s.options.communicator = &rank->to;
    m->status[me] = ota_plan_create(&plan, &s.problem, WIDTH, &s.options, &m->error[me]);
    ota_plan_free(plan);
}

static void ranks_agree_on_what_the_row_says(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        for (const ota_field *f = tables[t]; f->name != NULL; f++) {
            meeting m = {.field = f};
            if (f->ranks == OTA_RANKS_SHARED || is_communicator(f)) continue;
            crew_once(2, OTA_SHARES_IN_ORDER, meet, &m);
            const bool same = f->ranks == OTA_RANKS_SAME;
            const char *name = strstr(f->name, "_count") != NULL ? f[-1].name : f->name;
            for (int r = 0; r < 2; r++) {
                if (same ? m.status[r] == OTA_EMISMATCH && strcmp(m.error[r].field, name) == 0
                         : m.status[r] == OTA_OK)
                    continue;
                fail_msg("%s: rank %d has %d, field '%s': %s", f->name, r, (int)m.status[r],
                         m.error[r].field, m.error[r].message);
            }
        }
    }
}

TEST_FILE(test_fields) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_has_one_row),
        cmocka_unit_test(every_derivative_has_one_row),
        cmocka_unit_test(defaults_are_in_range),
        cmocka_unit_test(what_is_out_of_range_is_refused_by_name),
        cmocka_unit_test(a_changed_option_reaches_the_settings),
        cmocka_unit_test(rebind_takes_what_the_row_says),
        cmocka_unit_test(describe_shows_what_the_row_says),
        cmocka_unit_test(describe_tells_callbacks_and_bytes),
        cmocka_unit_test(ranks_agree_on_what_the_row_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
