/* Draws what a case's problem is solved with: masses, options, and which calls are made. */
#include "cases.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- masses ------------------------------------------------------------------------------------------ */

void dump_draw_masses(dump_case *c) {
    dice *d = &c->dice;
    ota_problem *p = &c->problem;
    const draft to = dump_draft(c, p);
    const bool transposed = p->axis == OTA_AXIS_COLUMNS;
    const bool governs = p->columns != OTA_COLUMNS_FREE && p->columns != OTA_COLUMNS_PREFIX;
    const int64_t batch = one_or(d, c->batch);
    const int64_t heads = one_or(d, c->heads);
    ota_array *governed = transposed ? &p->row_mass : &p->column_mass;
    ota_array *other = transposed ? &p->column_mass : &p->row_mass;
    const int64_t governed_count = transposed ? c->queries : c->keys;
    const int64_t other_count = transposed ? c->keys : c->queries;
    const bool exact = p->columns == OTA_COLUMNS_EXACT;
    const rule rule = chance(d, 0.25) ? MASS_OR_0 : MASS;
    if (chance(d, 0.3)) {
        const array_shape shape =
            shape_of(chance(d, 0.7) ? OTA_F64 : OTA_F32, batch, heads, 1, other_count);
        *other = dump_input(c, &shape, rule, 2.0);
    }
    if (governs && (chance(d, 0.35) || (exact && (transposed || c->sink)))) {
        const bool wide = exact || chance(d, 0.6);
        const array_shape shape =
            shape_of(wide ? OTA_F64 : OTA_F32, batch, heads, 1, governed_count);
        /* Elements that share a place cannot be scaled one by one. */
        *governed = to.input(c, &shape, rule, 1.0, true);
        if (exact || p->columns == OTA_COLUMNS_BOUNDED)
            match_masses(governed, other, other_count, c->sink ? 0.75 : 1.0);
    } else if (!governs && chance(d, 0.002)) {
        const array_shape shape = shape_of(OTA_F64, batch, heads, 1, governed_count);
        *governed = dump_input(c, &shape, MASS, 1.0); /* refused */
    }
    if (p->columns != OTA_COLUMNS_CAPPED && p->columns != OTA_COLUMNS_ONLINE) return;
    double need = 0.0;
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++) {
            const int64_t head[4] = {b, h, 0, 0};
            const double room = mass_total(governed, governed_count, head);
            const double want = mass_total(other, other_count, head);
            if (room > 0.0 && want / room > need) need = want / room;
        }
    }
    p->cap = (need > 0.0 ? need : 1.0) * ONE_OF(d, 1.0, 1.1, 1.3, 2.0, 4.0);
}

/* ---- options ----------------------------------------------------------------------------------------- */

bool dump_to_tolerance(const dump_case *c) {
    const ota_column_rule columns = c->problem.columns;
    const bool coupled = columns == OTA_COLUMNS_EXACT || columns == OTA_COLUMNS_RELAXED ||
                         columns == OTA_COLUMNS_CAPPED || columns == OTA_COLUMNS_BOUNDED;
    return coupled && c->options.rounds == 0;
}

static const char *draw_solver(dump_case *c) {
    dice *d = &c->dice;
    const ota_problem *p = &c->problem;
    if (chance(d, 0.03)) {
        static const char *const all[] = {"softmax",   "entmax",        "custom",  "argmax",
                                          "online",    "prefix",        "coupled", "sinkhorn",
                                          "log",       "anderson",      "newton",  "assignment",
                                          "transport", "no such solver"};
        return all[below(d, 14)];
    }
    if (chance(d, 0.03)) return "auto";
    if (p->columns == OTA_COLUMNS_FREE && p->axis == OTA_AXIS_ROWS) return NULL;
    if (p->columns == OTA_COLUMNS_PREFIX || p->columns == OTA_COLUMNS_ONLINE) return NULL;
    static const char *const soft[] = {"sinkhorn", "log", "anderson", "newton", "coupled"};
    if (c->plain && p->regulariser == OTA_SOFTMAX)
        return chance(d, 0.3) ? chance(d, 0.5) ? "sinkhorn" : "coupled" : NULL;
    const bool free = p->columns == OTA_COLUMNS_FREE;
    if (p->regulariser == OTA_SOFTMAX && chance(d, free ? 0.05 : 0.6)) {
        const bool fixed = c->options.rounds != 0 || p->columns == OTA_COLUMNS_ELASTIC;
        return soft[below(d, fixed && chance(d, 0.95) ? 2 : 5)];
    }
    if (p->regulariser == OTA_ENTMAX && chance(d, 0.3)) return "newton";
    if (p->regulariser == OTA_HARD && chance(d, 0.5))
        return chance(d, 0.7) ? "transport" : "assignment";
    return NULL;
}

static void draw_schedule(dump_case *c) {
    dice *d = &c->dice;
    ota_options *o = &c->options;
    const bool softmax = c->problem.regulariser == OTA_SOFTMAX;
    if (chance(d, 0.1)) o->center = (ota_center)between(d, 1, 2);
    o->prune = chance(d, c->problem.support_count > 0 ? 0.35 : 0.04);
    if (softmax && chance(d, 0.08)) {
        o->anneal_start = ONE_OF(d, 3.0, 10.0);
        o->anneal_factor = ONE_OF(d, 0.0, 0.3, 0.7);
        o->anneal_rounds = below(d, 4);
        o->anneal_keep_scaling = chance(d, 0.5);
    }
    if (!softmax && chance(d, 0.9)) return;
    if (chance(d, 0.07)) o->relaxation = ONE_OF(d, 0.7, 1.2, 1.6);
    o->relaxation_auto = chance(d, 0.05);
    if (chance(d, 0.04)) o->tolerance_scaling = 1e-2;
}

void dump_draw_options(dump_case *c) {
    dice *d = &c->dice;
    ota_options *o = &c->options;
    const ota_problem *p = &c->problem;
    o->size = sizeof *o;
    const bool coupled = (p->columns != OTA_COLUMNS_FREE && p->columns != OTA_COLUMNS_ONLINE) ||
                         p->axis == OTA_AXIS_COLUMNS;
    const bool wide = c->type == OTA_F64;
    o->threads = chance(d, 0.85) ? 1 : 2;
    if (chance(d, 0.25)) o->precision = (ota_precision)between(d, 1, 2);
    o->strict = chance(d, 0.04);
    o->allow_partial = chance(d, 0.75);
    if (coupled) {
        if (p->regulariser == OTA_SOFTMAX && c->kind != DUMP_LEAD && chance(d, 0.4))
            o->rounds = (int64_t)ONE_OF(d, OTA_NO_ROUNDS, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0);
        o->tolerance = wide ? ONE_OF(d, 0.0, 0.0, 1e-3, 1e-6, 1e-8, 1e-11)
                            : ONE_OF(d, 0.0, 0.0, 0.0, 1e-3, 1e-4, 1e-6);
        if (chance(d, 0.01)) o->tolerance = 1e-18;
        o->max_rounds = (int64_t)ONE_OF(d, 0.0, 0.0, 0.0, 5.0, 50.0, 300.0);
        if (c->queries * c->keys > 4000 && o->max_rounds != 5)
            o->max_rounds = (int64_t)ONE_OF(d, 40.0, 80.0, 160.0);
        if (!c->plain && c->kind != DUMP_LEAD) draw_schedule(c);
        if (c->kind == DUMP_LEAD) o->precision = OTA_PRECISION_AUTO;
    }
    if (c->kind != DUMP_LEAD || chance(d, 0.2)) o->solver = draw_solver(c);
    if (p->columns == OTA_COLUMNS_ELASTIC && p->axis == OTA_AXIS_ROWS && chance(d, 0.2)) {
        const array_shape shape = shape_of(chance(d, 0.6) ? OTA_F64 : OTA_F32, 1, 1, 1, c->keys);
        c->problem.lambdas = dump_input(c, &shape, SHARE, 1.5);
    }
    if (chance(d, 0.1)) {
        c->problem.dropout = ONE_OF(d, 0.1, 0.5);
        c->problem.dropout_seed = splitmix64(d);
        c->problem.dropout_offset = (uint64_t)below(d, 9);
    }
}

/* ---- calls ------------------------------------------------------------------------------------------- */

void dump_draw_calls(dump_case *c) {
    dice *d = &c->dice;
    const ota_problem *p = &c->problem;
    const bool smooth = p->regulariser != OTA_HARD;
    bool relative = false;
    for (int64_t k = 0; k < p->term_count; k++)
        relative |=
            p->terms[k].kind == OTA_TERM_RELATIVE || p->terms[k].kind == OTA_TERM_RELATIVE_INSIDE;
    const bool steps = (p->columns == OTA_COLUMNS_FREE || p->columns == OTA_COLUMNS_ONLINE) &&
                       p->axis == OTA_AXIS_ROWS && c->queries <= c->keys;
    if (steps && (!relative || chance(d, 0.05)) && chance(d, c->kind == DUMP_FEW ? 0.7 : 0.15)) {
        c->calls |= DUMP_DECODE;
        c->problem.corner = OTA_BOTTOM_RIGHT;
        int64_t count = c->queries;
        for (int k = 0; k < DUMP_STEPS; k++) {
            count += below(d, c->keys - count + 1);
            c->key_counts[k] = k == DUMP_STEPS - 1 && chance(d, 0.5) ? c->keys : count;
        }
    }
    const bool few = c->kind == DUMP_FEW;
    if (chance(d, smooth ? few ? 0.25 : 0.45 : 0.05)) c->calls |= DUMP_BACKWARD;
    if (chance(d, smooth ? few ? 0.12 : 0.25 : 0.03)) c->calls |= DUMP_JVP;
    if ((c->calls & (DUMP_BACKWARD | DUMP_JVP)) != 0) {
        c->options.gradients = chance(d, 0.98);
        c->options.backward = chance(d, 0.2) ? (int)between(d, 1, 2) : 0;
    }
    if (chance(d, 0.2)) c->calls |= DUMP_REBIND;
    if (chance(d, 0.12)) c->calls |= DUMP_ATTEND;
    if (chance(d, 0.2)) c->calls |= DUMP_CERTIFY;
    if (chance(d, 0.03)) c->calls |= DUMP_ROPE;
    const bool large = c->kind == DUMP_MIDDLE || c->kind == DUMP_LARGE || c->kind == DUMP_LEAD;
    if (chance(d, large ? 0.35 : 0.06)) {
        c->calls |= DUMP_LIMIT;
        c->limit_share = ONE_OF(d, 0.9, 0.6, 0.4);
        if (chance(d, 0.6)) { /* gradients want the scores stored */
            c->options.gradients = 0;
            c->calls &= ~(unsigned)(DUMP_BACKWARD | DUMP_JVP);
        }
        c->options.threads = 1; /* bytes depend on threads */
    }
    if ((c->calls & DUMP_REBIND) != 0) {
        c->second = c->problem;
        dump_draw_scores(c, &c->second, c->problem.scores.type != OTA_NO_TYPE);
        if (chance(d, 0.05)) c->second.cost = !c->second.cost;
        if (chance(d, 0.05)) c->second.columns = OTA_COLUMNS_FREE; /* refused, mostly */
    }
}

/* ---- in words --------------------------------------------------------------------------------------- */

void dump_recipe(const dump_case *c, char *text, size_t text_size) {
    static const char *const types[] = {"none", "f64", "f32", "bf16", "f16"};
    static const char *const calls[] = {"rebind", "backward", "jvp",   "decode",
                                        "attend", "certify",  "limit", "rope"};
    char method[96], made[96] = "";
    const ota_options *o = &c->options;
    (void)ota_method_name(&c->problem, method, sizeof method);
    for (int k = 0; k < 8; k++) {
        if ((c->calls >> k & 1u) == 0) continue;
        const size_t used = strlen(made);
        (void)snprintf(made + used, sizeof made - used, " %s", calls[k]);
    }
    (void)snprintf(
        text, text_size,
        "%s%s%s %s %s%" PRId64 "x%" PRId64 "/%" PRId64 " n %" PRId64 " m %" PRId64 " d %" PRId64
        " dv %" PRId64 " terms %" PRId64 " supports %" PRId64 "%s%s rounds %" PRId64
        " tolerance %g solver %s gradients %d threads %d; forward%s",
        method, c->problem.rows == OTA_ROWS_RELAXED ? " relaxed rows" : "",
        c->problem.axis == OTA_AXIS_COLUMNS ? " columns axis" : "", types[c->type],
        c->problem.scores.type != OTA_NO_TYPE ? "matrix " : "", c->batch, c->heads, c->key_heads,
        c->queries, c->keys, c->width, c->values_width, c->problem.term_count,
        c->problem.support_count, c->problem.row_mass.type != OTA_NO_TYPE ? " mu" : "",
        c->problem.column_mass.type != OTA_NO_TYPE ? " nu" : "", o->rounds, o->tolerance,
        o->solver == NULL ? "auto" : o->solver, o->gradients, o->threads, made);
}
