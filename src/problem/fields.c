/* The tables of members (fields.h). */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "problem/check.h"
#include "problem/fields.h"
#include "problem/problem.h"

/* ---- rules that are no numbers ------------------------------------------------------------------- */

static double usual_scale(const ota_resolved *r) {
    return r->from_matrix || r->width == 0 ? 1.0 : 1.0 / sqrt((double)r->width);
}

static double usual_tolerance(const ota_resolved *r) { return r->type != OTA_F64 ? 1e-5 : 1e-9; }

/* One stage a round of rules that fix how many there are. */
static double usual_anneal_rounds(const ota_resolved *r) { return r->rule_rounds >= 0 ? 1.0 : 5.0; }

static bool has_one_temperature(const void *record) {
    const ota_problem *p = record;
    return !ota_array_present(&p->temperatures);
}

static bool is_entmax(const void *record) {
    return ((const ota_problem *)record)->regulariser == OTA_ENTMAX;
}

static bool has_relaxed_rows(const void *record) {
    return ((const ota_problem *)record)->rows == OTA_ROWS_RELAXED;
}

static bool anneals(const void *record) {
    const double start = ((const ota_options *)record)->anneal_start;
    return start < 0.0 || start > 0.0 || isnan(start);
}

static ota_status check_temperature(const void *record, ota_error *error) {
    const double temperature = ((const ota_problem *)record)->temperature;
    if (temperature >= DBL_MIN) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "temperature", "rescale the scores",
                    "temperature is %g, a subnormal number", temperature);
}

static ota_status check_executor(const void *record, ota_error *error) {
    return ota_check_executor(((const ota_options *)record)->executor, error);
}

static ota_status check_cpu(const void *record, ota_error *error) {
    const char *cpu = ((const ota_options *)record)->cpu;
    if (cpu == NULL || cpu[0] == '\0' || ota_cpu_level(cpu) >= 0) return OTA_OK;
    return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                    "cpu is '%.32s', an unknown level", cpu);
}

/* What a term or support is decides which memory its pairs want. */
static bool same_terms(const ota_resolved *a, const ota_resolved *b) {
    bool same = a->term_count == b->term_count && a->has_sink == b->has_sink;
    for (int t = 0; same && t < a->term_count; t++) same = a->terms[t].kind == b->terms[t].kind;
    return same && a->row_terms == b->row_terms;
}

static bool same_supports(const ota_resolved *a, const ota_resolved *b) {
    bool same = a->support_count == b->support_count;
    for (int k = 0; same && k < a->support_count; k++)
        same = a->supports[k].kind == b->supports[k].kind;
    return same;
}

static bool same_offset(const ota_resolved *a, const ota_resolved *b) {
    return a->offset == b->offset;
}

/* A number for a short text, or for kinds in their order. */
static int64_t mixed(int64_t so_far, int64_t next) {
    const uint64_t prime = 1099511628211u;
    return (int64_t)(((uint64_t)so_far ^ (uint64_t)next) * prime);
}

int64_t ota_fact_of_text(const char *text) {
    int64_t number = 1;
    for (; text != NULL && *text != '\0'; text++) number = mixed(number, *text);
    return number;
}

static int64_t kinds_of_terms(const void *record) {
    const ota_problem *p = record;
    int64_t kinds = p->term_count;
    for (int64_t k = 0; k < p->term_count && k < OTA_MAX_TERMS && p->terms != NULL; k++)
        kinds = mixed(kinds, (int64_t)p->terms[k].kind);
    return kinds;
}

static int64_t kinds_of_supports(const void *record) {
    const ota_problem *p = record;
    int64_t kinds = p->support_count;
    for (int64_t k = 0; k < p->support_count && k < OTA_MAX_SUPPORTS && p->supports != NULL; k++) {
        const ota_support *s = &p->supports[k];
        kinds = mixed(mixed(mixed(kinds, (int64_t)s->kind), s->left), s->right);
    }
    return kinds;
}

/* ---- the tables ---------------------------------------------------------------------------------- */

#define MEMBER(record, member)                                                                     \
    .name = #member, .offset = offsetof(record, member), .bytes = sizeof(((record *)0)->member)
#define PROBLEM(member) MEMBER(ota_problem, member)
#define OPTION(member) MEMBER(ota_options, member)
#define SETTING(member) .setting = offsetof(ota_settings, member)
#define ANY_FINITE .low = -DBL_MAX, .high = DBL_MAX
#define POSITIVE .open_low = true, .high = DBL_MAX

const ota_field ota_problem_fields[OTA_PROBLEM_FIELDS + 1] = {
    {PROBLEM(queries), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_SHAPE,
     .ranks = OTA_RANKS_SHARED, .shown = "shape"},
    {PROBLEM(keys), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_SHAPE, .ranks = OTA_RANKS_SHARED,
     .shown = "shape"},
    {PROBLEM(scores), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_SHAPE,
     .ranks = OTA_RANKS_SHARED, .shown = "shape"},
    {PROBLEM(cost), .kind = OTA_FIELD_FLAG, .rebind = OTA_REBIND_FREE, .ranks = OTA_RANKS_SAME,
     .shown = "scale"},
    {PROBLEM(scale), .kind = OTA_FIELD_REAL, ANY_FINITE,
     .remedy = "choose a finite number (0 = default)", .usual_of = usual_scale,
     .rebind = OTA_REBIND_CHOICE, .ranks = OTA_RANKS_SAME, .shown = "scale", .brace = "scale"},
    {PROBLEM(temperature), .kind = OTA_FIELD_REAL, POSITIVE, .usual = 1.0,
     .applies = has_one_temperature, .check = check_temperature, .rebind = OTA_REBIND_CHOICE,
     .ranks = OTA_RANKS_SAME, .shown = "temperature", .brace = "temperature"},
    {PROBLEM(temperatures), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_CHOICE,
     .ranks = OTA_RANKS_SAME, .shown = "temperature"},
    {PROBLEM(terms), .kind = OTA_FIELD_LIST, .rebind = OTA_REBIND_RULE, .same = same_terms,
     .ranks = OTA_RANKS_SAME, .fact = kinds_of_terms, .shown = "terms"},
    {PROBLEM(term_count), .kind = OTA_FIELD_WHOLE, .rebind = OTA_REBIND_SAME,
     .ranks = OTA_RANKS_SAME, .shown = "terms"},
    {PROBLEM(supports), .kind = OTA_FIELD_LIST, .rebind = OTA_REBIND_RULE, .same = same_supports,
     .ranks = OTA_RANKS_SAME, .fact = kinds_of_supports, .shown = "terms"},
    {PROBLEM(support_count), .kind = OTA_FIELD_WHOLE, .rebind = OTA_REBIND_SAME,
     .ranks = OTA_RANKS_SAME, .shown = "terms"},
    {PROBLEM(corner), .kind = OTA_FIELD_ENUM, .words = "unset top-left bottom-right",
     .remedy = "choose top-left or bottom-right", .rebind = OTA_REBIND_RULE, .same = same_offset,
     .ranks = OTA_RANKS_SAME, .shown = "terms"},
    {PROBLEM(regulariser), .kind = OTA_FIELD_ENUM, .words = "softmax entmax hard custom",
     .rebind = OTA_REBIND_SAME, .ranks = OTA_RANKS_SAME, .shown = "method"},
    {PROBLEM(order), .kind = OTA_FIELD_REAL, POSITIVE, .usual = 1.5, .applies = is_entmax,
     .rebind = OTA_REBIND_CHOICE, .ranks = OTA_RANKS_SAME, .shown = "method"},
    {PROBLEM(rows), .kind = OTA_FIELD_ENUM, .words = "hard relaxed", .rebind = OTA_REBIND_SAME,
     .ranks = OTA_RANKS_SAME, .shown = "rows"},
    {PROBLEM(row_strength), .kind = OTA_FIELD_REAL, POSITIVE, .applies = has_relaxed_rows,
     .rebind = OTA_REBIND_FREE, .ranks = OTA_RANKS_SAME, .shown = "rows"},
    {PROBLEM(columns), .kind = OTA_FIELD_ENUM,
     .words = "free exact relaxed capped elastic prefix online bounded",
     .remedy = "use one of the OTA_COLUMNS_ rules", .rebind = OTA_REBIND_SAME,
     .ranks = OTA_RANKS_SAME, .shown = "method"},
    /* The rule of the columns has the ranges of its own parameters (columns/). */
    {PROBLEM(strength), .kind = OTA_FIELD_REAL, .rebind = OTA_REBIND_FREE, .ranks = OTA_RANKS_SAME,
     .shown = "method"},
    {PROBLEM(cap), .kind = OTA_FIELD_REAL, .rebind = OTA_REBIND_FREE, .ranks = OTA_RANKS_SAME,
     .shown = "method"},
    {PROBLEM(lambda), .kind = OTA_FIELD_REAL, .rebind = OTA_REBIND_CHOICE, .ranks = OTA_RANKS_SAME,
     .shown = "method"},
    {PROBLEM(steps), .kind = OTA_FIELD_WHOLE, .rebind = OTA_REBIND_SAME, .ranks = OTA_RANKS_SAME,
     .shown = "method"},
    {PROBLEM(lambdas), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_SHAPE, .ranks = OTA_RANKS_SAME,
     .shown = "lambdas", .alone = true},
    {PROBLEM(row_mass), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_FREE, .ranks = OTA_RANKS_SAME,
     .shown = "masses"},
    {PROBLEM(column_mass), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_FREE,
     .ranks = OTA_RANKS_SAME, .shown = "masses"},
    {PROBLEM(axis), .kind = OTA_FIELD_ENUM, .words = "rows columns", .rebind = OTA_REBIND_SAME,
     .ranks = OTA_RANKS_SAME, .shown = "axis"},
    {PROBLEM(start), .kind = OTA_FIELD_ENUM, .words = "rows columns", .rebind = OTA_REBIND_SAME,
     .ranks = OTA_RANKS_SAME, .shown = "order"},
    {PROBLEM(end), .kind = OTA_FIELD_ENUM, .words = "rows columns", .rebind = OTA_REBIND_SAME,
     .ranks = OTA_RANKS_SAME, .shown = "order"},
    {PROBLEM(custom), .kind = OTA_FIELD_FUNCTIONS, .rebind = OTA_REBIND_FREE,
     .ranks = OTA_RANKS_SAME},
    {PROBLEM(dropout), .kind = OTA_FIELD_REAL, .high = 1.0, .rebind = OTA_REBIND_ONSET,
     .ranks = OTA_RANKS_SAME, .shown = "dropout"},
    {PROBLEM(dropout_seed), .kind = OTA_FIELD_BITS, .rebind = OTA_REBIND_FREE,
     .ranks = OTA_RANKS_SAME, .shown = "dropout"},
    {PROBLEM(dropout_offset), .kind = OTA_FIELD_BITS, .rebind = OTA_REBIND_FREE,
     .ranks = OTA_RANKS_SAME, .shown = "dropout"},
    {PROBLEM(lower), .kind = OTA_FIELD_REAL, .rebind = OTA_REBIND_CHOICE, .ranks = OTA_RANKS_SAME,
     .shown = "method"},
    {PROBLEM(upper), .kind = OTA_FIELD_REAL, .rebind = OTA_REBIND_FREE, .ranks = OTA_RANKS_SAME,
     .shown = "method"},
    {PROBLEM(entry_cap), .kind = OTA_FIELD_REAL, .high = INFINITY,
     .remedy = "use a cap above 0 (0 = none)", .rebind = OTA_REBIND_ONSET, .ranks = OTA_RANKS_SAME,
     .shown = "method", .brace = "entry_cap"},
    {PROBLEM(entry_caps), .kind = OTA_FIELD_ARRAY, .rebind = OTA_REBIND_SHAPE,
     .ranks = OTA_RANKS_SAME, .shown = "entry_caps", .alone = true},
    {.name = NULL}};

const ota_field ota_option_fields[OTA_OPTION_FIELDS + 1] = {
    {OPTION(tolerance), .kind = OTA_FIELD_REAL, POSITIVE, .usual_of = usual_tolerance,
     .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "tolerance",
     .brace = "tolerance", SETTING(stop.tolerance)},
    {OPTION(max_rounds), .kind = OTA_FIELD_WHOLE, .high = INFINITY, .remedy = "use 1 or more",
     .usual = 1000.0, .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "tolerance",
     .brace = "max_rounds", SETTING(stop.max_rounds)},
    {OPTION(rounds), .kind = OTA_FIELD_WHOLE, .low = OTA_NO_ROUNDS, .high = INFINITY,
     .remedy = "use 0 or more", .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME,
     .shown = "rounds", .brace = "rounds", SETTING(stop.rounds)},
    {OPTION(anneal_start), .kind = OTA_FIELD_REAL, POSITIVE, .applies = anneals,
     .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "anneal", .brace = "anneal",
     SETTING(anneal.start)},
    {OPTION(anneal_factor), .kind = OTA_FIELD_REAL, .open_low = true, .high = 1.0,
     .open_high = true, .usual = 0.5, .applies = anneals, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_SAME, .shown = "anneal", SETTING(anneal.factor)},
    {OPTION(anneal_rounds), .kind = OTA_FIELD_WHOLE, .high = INFINITY, .remedy = "use 1 or more",
     .usual_of = usual_anneal_rounds, .applies = anneals, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_SAME, .shown = "anneal", SETTING(anneal.rounds)},
    {OPTION(anneal_keep_scaling), .kind = OTA_FIELD_FLAG, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_SAME, .shown = "anneal", SETTING(anneal.keep_scaling)},
    {OPTION(relaxation), .kind = OTA_FIELD_REAL, .open_low = true, .high = 2.0, .open_high = true,
     .usual = 1.0, .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "relaxation",
     .brace = "relaxation", SETTING(relaxation)},
    {OPTION(relaxation_auto), .kind = OTA_FIELD_FLAG, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_SAME, .shown = "relaxation", SETTING(relaxation_auto)},
    {OPTION(center), .kind = OTA_FIELD_ENUM, .words = "none mean midrange",
     .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "center", .alone = true,
     SETTING(center)},
    {OPTION(precision), .kind = OTA_FIELD_ENUM, .words = "auto f32 f64", .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_SAME, .shown = "precision", SETTING(precision)},
    {OPTION(tolerance_scaling), .kind = OTA_FIELD_REAL, .high = INFINITY,
     .remedy = "use 0 (off) or more", .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME,
     .shown = "tolerance_scaling", .alone = true, .brace = "tolerance_scaling",
     SETTING(stop.tolerance_scaling)},
    {OPTION(prune), .kind = OTA_FIELD_FLAG, .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME,
     .shown = "flags", .brace = "prune", SETTING(prune)},
    {OPTION(allow_partial), .kind = OTA_FIELD_FLAG, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_SAME, .shown = "flags", SETTING(stop.allow_partial)},
    {OPTION(strict), .kind = OTA_FIELD_FLAG, .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME,
     .shown = "flags", SETTING(stop.strict)},
    /* Whether there is a solver or backend of that name, the plan finds out. */
    {OPTION(solver), .kind = OTA_FIELD_TEXT, .remedy = "doctor lists the solvers",
     .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "solver", SETTING(solver),
     .room = sizeof(((ota_settings *)0)->solver)},
    {OPTION(threads), .kind = OTA_FIELD_COUNT, .high = OTA_THREADS_MAX,
     .remedy = "use 0 (all) to 4096", .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_OWN,
     .shown = "threads", SETTING(limits.threads)},
    {OPTION(executor), .kind = OTA_FIELD_POINTER, .check = check_executor,
     .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_OWN, .shown = "threads",
     SETTING(calls.executor)},
    {OPTION(cpu), .kind = OTA_FIELD_TEXT, .remedy = "doctor lists the levels of this machine",
     .check = check_cpu, .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "cpu limit",
     SETTING(limits.cpu), .room = sizeof(((ota_settings *)0)->limits.cpu)},
    {OPTION(workspace_limit), .kind = OTA_FIELD_SIZE, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_OWN, .shown = "workspace_limit", .alone = true, SETTING(limits.workspace)},
    {OPTION(cancel), .kind = OTA_FIELD_POINTER, .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_OWN,
     .shown = "callbacks", SETTING(calls.cancel)},
    {OPTION(deadline_ns), .kind = OTA_FIELD_WHOLE, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_OWN, .shown = "deadline", SETTING(limits.deadline_ns)},
    {OPTION(progress), .kind = OTA_FIELD_POINTER, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_OWN, .shown = "callbacks", SETTING(calls.progress)},
    {OPTION(progress_user), .kind = OTA_FIELD_POINTER, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_OWN, SETTING(calls.progress_user)},
    {OPTION(gradients), .kind = OTA_FIELD_FLAG, .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME,
     .shown = "backward", SETTING(gradients)},
    /* Chooses nothing: backward refuses the other way. */
    {OPTION(backward), .kind = OTA_FIELD_ENUM, .words = "auto implicit unrolled",
     .remedy = "use 0 (auto), 1 (implicit) or 2 (unrolled)", .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_SAME, SETTING(backward)},
    {OPTION(backend), .kind = OTA_FIELD_TEXT, .remedy = "doctor lists the backends",
     .rebind = OTA_REBIND_NEVER, .ranks = OTA_RANKS_SAME, .shown = "backend", SETTING(backend),
     .room = sizeof(((ota_settings *)0)->backend)},
    /* What of it must be alike, shards_check.c lists. */
    {OPTION(communicator), .kind = OTA_FIELD_POINTER, .rebind = OTA_REBIND_NEVER,
     .ranks = OTA_RANKS_OWN, .shown = "rank"},
    {.name = NULL}};

#define UPSTREAM(of_gradients, of_tangents, form)                                                  \
    {                                                                                              \
        .gradient = #of_gradients, .tangent = #of_tangents,                                        \
        .gradient_at = offsetof(ota_gradients, of_gradients),                                      \
        .tangent_at = offsetof(ota_tangents, of_tangents), .shape = OTA_SHAPE_##form,              \
        .ranks = OTA_DERIVATIVE_OF_ROWS, .upstream = true                                          \
    }
#define MOVES(member, form, by)                                                                    \
    {                                                                                              \
        .gradient = #member, .tangent = #member, .gradient_at = offsetof(ota_gradients, member),   \
        .tangent_at = offsetof(ota_tangents, member), .shape = OTA_SHAPE_##form,                   \
        .ranks = OTA_DERIVATIVE_##by                                                               \
    }

/* scripts/make_python_structs.py reads these rows. */
const ota_derivative ota_derivatives[OTA_DERIVATIVES] = {
    [OTA_D_OUT] = UPSTREAM(out_grad, out, OUT),
    [OTA_D_COUPLING] = UPSTREAM(coupling_grad, coupling, PAIRS),
    [OTA_D_QUERIES] = MOVES(queries, QUERIES, OF_ROWS),
    [OTA_D_KEYS] = MOVES(keys, KEYS, BY_SHARES),
    [OTA_D_VALUES] = MOVES(values, VALUES, BY_SHARES),
    [OTA_D_SCORES] = MOVES(scores, PAIRS, OF_ROWS),
    [OTA_D_MATRIX] = MOVES(matrix, PAIRS, OF_ROWS),
    [OTA_D_TERMS] = MOVES(terms, TERMS, BY_TERM),
    [OTA_D_TEMPERATURE] = MOVES(temperature, PER_HEAD, SUMMED),
    [OTA_D_ORDER] = MOVES(order, NUMBER, SUMMED),
    [OTA_D_CAP] = MOVES(cap, NUMBER, SUMMED),
    [OTA_D_STRENGTH] = MOVES(strength, NUMBER, SUMMED),
    [OTA_D_ROW_STRENGTH] = MOVES(row_strength, NUMBER, SUMMED),
    [OTA_D_ROW_MASS] = MOVES(row_mass, OF_QUERIES, OF_ROWS),
    [OTA_D_COLUMN_MASS] = MOVES(column_mass, OF_KEYS, SUMMED),
    [OTA_D_SOLVED] = {.gradient = "solved",
                      .gradient_at = offsetof(ota_gradients, solved),
                      .shape = OTA_SHAPE_FLAG,
                      .ranks = OTA_DERIVATIVE_OF_ROWS},
    [OTA_D_LOWER] = MOVES(lower, NUMBER, SUMMED),
    [OTA_D_UPPER] = MOVES(upper, NUMBER, SUMMED),
};

#define ARRAY(member, form)                                                                        \
    .name = #member, .offset = offsetof(ota_arrays, member), .shape = OTA_SHAPE_##form

const ota_array_row ota_array_rows[OTA_ARRAY_ROWS] = {
    {ARRAY(values, VALUES), .input = true},
    {ARRAY(out, OUT), .output = true},
    {ARRAY(coupling, PAIRS), .output = true},
    {ARRAY(row_potential, OF_QUERIES), .output = true},
    {ARRAY(column_potential, OF_KEYS), .output = true},
    {ARRAY(lse, OF_QUERIES), .output = true},
    {ARRAY(receiver, OF_KEYS), .output = true},
    {ARRAY(row_entropy, OF_QUERIES), .output = true},
    {ARRAY(row_support, OF_QUERIES), .output = true},
    {ARRAY(row_max, OF_QUERIES), .output = true},
    {ARRAY(sink, OF_QUERIES), .output = true},
    {ARRAY(start_potential, OF_KEYS), .input = true},
    {ARRAY(remaining, OF_KEYS), .input = true, .output = true, .f64 = true},
};
