/* What a plan says of itself, one line "key: value" a fact. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backward.h"
#include "base/base.h"
#include "problem/fields.h"

typedef struct text_sink {
    char *text;
    size_t size, length;
} text_sink;

__attribute__((format(printf, 2, 3))) static void line(text_sink *to, const char *format, ...) {
    char one[640];
    va_list arguments;
    va_start(arguments, format);
    int length = ota_vsnprintf(one, sizeof one, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if ((size_t)length >= sizeof one) length = (int)sizeof one - 1;
    if (to->text != NULL && to->length < to->size) {
        (void)ota_snprintf(to->text + to->length, to->size - to->length, "%s", one);
    }
    to->length += (size_t)length;
}

/* What the work is done in. */
static const char *inside(const ota_plan *plan) {
    static const char *const texts[] = {
        [OTA_LADDER_F32] = "f32 inside",
        [OTA_LADDER_F64] = "f64 inside",
        [OTA_LADDER_F64_ON_F32] = "f64 inside (promoted, on scores in f32)",
        [OTA_LADDER_F32_THEN_F64] = "f32 inside (f64 where a head needs it)",
        [OTA_LADDER_F32_WARM_F64] = "f64 inside (rounds in f32 warm-start it)",
        [OTA_LADDER_F32_OR_WARM_F64] = "f32 inside (f64 where a head needs it)"};
    const ota_ladder ladder = plan->strategy.ladder;
    const bool promoted = ladder == OTA_LADDER_F64 && plan->resolved.type != OTA_F64;
    return promoted ? "f64 inside (promoted)" : texts[ladder];
}

static void tell_sizes(text_sink *to, const ota_plan *plan) {
    const ota_resolved *r = &plan->resolved;
    char method[160];
    (void)ota_method_name(&r->problem, method, sizeof method);
    line(to, "method: %s\n", method);
    line(to,
         "shape: batch %" PRId64 ", heads %" PRId64 " over %" PRId64 ", queries %" PRId64
         ", keys %" PRId64 ", width %" PRId64 ", values %" PRId64 "\n",
         r->batch, r->heads, r->key_heads, r->queries, r->keys, r->width, plan->values_width);
}

static void tell_choices(text_sink *to, const ota_plan *plan) {
    static const char *const types[] = {"none", "f64", "f32", "bf16", "f16"};
    const ota_strategy *strategy = &plan->strategy;
    line(to, "type: %s in, %s\n", types[plan->resolved.type], inside(plan));
    line(to, "solver: %s (%s)\n", plan->solver->name, plan->solver->purpose);
    line(to, "path: %s (%s)\n", strategy->name, strategy->why);
    line(to, "backend: %s\n", plan->backend->name);
    line(to, "kernel: %s\n", strategy->level);
    line(to, "threads: %d%s\n", ota_pool_threads(plan->pool),
         plan->resolved.settings.calls.executor != NULL ? " (the caller's executor)" : "");
    line(to, "bytes: %zu\n", ota_plan_bytes(plan));
}

static void tell_driver(text_sink *to, const ota_plan *plan) {
    char lines[640];
    if (plan->driver == NULL) return;
    plan->driver->describe(plan, lines, sizeof lines);
    line(to, "%s", lines);
}

static void tell_problem(text_sink *to, const ota_resolved *r) {
    static const char *const sides[] = {"rows", "columns"};
    const ota_problem *p = &r->problem;
    line(to, "scale: %.17g\n", r->scale);
    if (ota_array_present(&p->temperatures))
        line(to, "temperature: one per head\n");
    else
        line(to, "temperature: %.17g\n", p->temperature);
    line(to, "terms: %d%s, supports: %d, offset: %" PRId64 "\n", r->term_count,
         r->has_sink ? " and a sink" : "", r->support_count, r->offset);
    if (p->axis == OTA_AXIS_COLUMNS) line(to, "axis: columns\n");
    if (p->start != OTA_SIDE_ROWS || p->end != OTA_SIDE_ROWS) {
        line(to, "order: starts on %s, ends on %s\n", sides[p->start], sides[p->end]);
    }
    if (p->rows == OTA_ROWS_RELAXED) line(to, "rows: relaxed by %.17g\n", p->row_strength);
    line(to, "masses: rows %s, columns %s\n", ota_array_present(&p->row_mass) ? "given" : "1",
         ota_array_present(&p->column_mass) ? "given" : "by default");
    if (p->dropout > 0.0) {
        line(to, "dropout: %.17g, seed %" PRIu64 ", offset %" PRIu64 "\n", p->dropout,
             p->dropout_seed, p->dropout_offset);
    }
}

static void tell_rounds(text_sink *to, const ota_settings *s) {
    char precision[16];
    if (s->stop.fixed)
        line(to, "rounds: exactly %" PRId64 "\n", s->stop.rounds);
    else
        line(to, "tolerance: %g, max_rounds: %" PRId64 "\n", s->stop.tolerance, s->stop.max_rounds);
    if (s->anneal.start > 0.0) {
        line(to, "anneal: from %g by %g, %" PRId64 " rounds a stage, keeping %s\n", s->anneal.start,
             s->anneal.factor, s->anneal.rounds, s->anneal.keep_scaling ? "v" : "g");
    }
    if (s->relaxation_auto)
        line(to, "relaxation: auto\n");
    else if (s->relaxation > 1.0 || s->relaxation < 1.0)
        line(to, "relaxation: %g\n", s->relaxation);
    (void)ota_field_text(ota_field_named(ota_option_fields, "precision"), s, precision,
                         sizeof precision);
    line(to, "precision: %s\n", precision);
}

/* The names of those that are set. */
static void tell_flags(text_sink *to, const ota_settings *s) {
    bool any = false;
    line(to, "flags:");
    for (const ota_field *f = ota_option_fields; f->name != NULL; f++) {
        if (f->shown == NULL || strcmp(f->shown, "flags") != 0) continue;
        if (!*(const bool *)((const char *)s + f->setting)) continue;
        line(to, " %s", f->name);
        any = true;
    }
    line(to, "%s\n", any ? "" : " none");
}

/* Members with a line of their own. */
static void tell_fields(text_sink *to, const ota_field *table, const void *record) {
    for (const ota_field *f = table; f->name != NULL; f++) {
        char text[64];
        if (f->alone && ota_field_text(f, record, text, sizeof text))
            line(to, "%s: %s\n", f->name, text);
    }
}

static void tell_callbacks(text_sink *to, const ota_settings *s) {
    if (s->limits.cpu[0] != '\0') line(to, "cpu limit: %s\n", s->limits.cpu);
    if (s->limits.deadline_ns != 0) line(to, "deadline: %" PRId64 " ns\n", s->limits.deadline_ns);
    if (s->calls.cancel != NULL || s->calls.progress != NULL) {
        line(to, "callbacks:%s%s\n", s->calls.cancel != NULL ? " cancel" : "",
             s->calls.progress != NULL ? " progress" : "");
    }
}

size_t ota_plan_describe(const ota_plan *plan, char *text, size_t text_size) {
    const ota_settings *s = &plan->resolved.settings;
    text_sink to = {text, text_size, 0};
    tell_sizes(&to, plan);
    tell_choices(&to, plan);
    tell_driver(&to, plan);
    tell_problem(&to, &plan->resolved);
    tell_rounds(&to, s);
    tell_fields(&to, ota_problem_fields, &plan->resolved.problem);
    tell_fields(&to, ota_option_fields, s);
    tell_flags(&to, s);
    if (s->gradients && plan->backend->gradient != NULL)
        line(&to, "backward: %s%s\n", ota_backward_describe(plan),
             plan->head_worker_count > 1 ? ", heads side by side" : "");
    tell_callbacks(&to, s);
    return to.length;
}
